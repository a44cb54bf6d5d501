"""Rows whose groups are scattered: dealt as they come in, gathered, evaluated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np
import pyarrow as pa

from fastrank_eval.dealing import Dealer, DealtRows
from fastrank_eval.engine import Tallies, evaluate_chunk, in_order
from fastrank_eval.gathering import Gathering, Span
from fastrank_eval.groups import Keys, key_text, keys_at
from fastrank_eval.plan import GroupValues, Plan, Tally
from fastrank_eval.stretches import Stretch, in_scratch, stretches
from fastrank_eval.validation import columns_of, keys_of


def evaluate_scattered(
    batches: Iterable[pa.RecordBatch], plan: Plan
) -> tuple[Tally, list[Keys], list[GroupValues]]:
    """Evaluate rows in any order, all held in memory.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
    plan : Plan

    Returns
    -------
    tally : Tally
    keys : list of (tuple of pyarrow.Array)
        Keys of the groups in order of first appearance (empty unless ``plan.per_group``).
    values : list of GroupValues
        Their results.
    """
    dealers: list[Dealer] = []

    def jobs() -> Iterable[Stretch]:
        for stretch in stretches(batches, plan.stretch):
            if not dealers:
                kinds = [key.type for key in keys_of(stretch[0][0].slice(0, 0), plan.roles, 0)]
                models = len(plan.roles.scores)
                dealers.append(Dealer(plan.roles.group, kinds, models, plan.per_group))
            yield stretch

    def deal(stretch: Stretch) -> DealtRows | None:
        columns = columns_of(in_scratch(stretch[0]), plan.roles, stretch[1])
        return dealers[0].deal(columns) if columns.rows else None

    held = [dealt for dealt in in_order(plan.threads, deal, jobs()) if dealt is not None]
    if not held:
        return Tally(plan), [], []
    gathering = Gathering(dealers[0], held)
    tallies = Tallies(plan)

    def work(span: Span) -> tuple[GroupValues, Keys, np.ndarray] | None:
        gathered = gathering.gathered(span)
        chunk = gathered.chunk

        def name(group: int) -> str:
            return key_text(gathering.keys(gathered.heads()), plan.roles.group, group)

        values = evaluate_chunk(chunk, plan, tallies.mine(), name)
        if not plan.per_group:
            return None
        numbers = cast(np.ndarray, chunk.columns.numbers)
        return values, gathering.keys(gathered.heads()), numbers[chunk.starts[:-1]]

    done = [part for part in in_order(plan.threads, work, gathering.spans()) if part is not None]
    tally = tallies.merged()
    if not plan.per_group:
        return tally, [], []
    appeared = np.argsort(np.concatenate([firsts for _, _, firsts in done]))
    columns = zip(*(keys for _, keys, _ in done), strict=True)
    keys = tuple(pa.concat_arrays(list(column)) for column in columns)
    values = GroupValues(
        np.concatenate([value.rows for value, _, _ in done])[appeared],
        np.concatenate([value.positives for value, _, _ in done])[appeared],
        np.concatenate([value.values for value, _, _ in done], axis=2)[:, :, appeared],
    )
    return tally, [keys_at(keys, appeared)], [values]
