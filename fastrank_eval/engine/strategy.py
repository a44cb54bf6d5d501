"""Choose how to read rows: in order, or scattered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.errors import OrderError
from fastrank_eval._lib.log import RUN
from fastrank_eval._lib.memory import Budget
from fastrank_eval.engine.evaluator import Evaluator, PlanTotals
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.stream import evaluate_stream
from fastrank_eval.groups.edges import KeyWatch, ReturningKey, group_starts, key_text, keys_at
from fastrank_eval.io.keys import key_integers
from fastrank_eval.io.reader import RowReader
from fastrank_eval.io.validate import keys_of

#: Rows that are read first, to see whether keys are scattered. Most that are show it at once.
_PEEK, _FIRST_ROWS = 1 << 16, 1 << 10


class EvaluatedRows(NamedTuple):
    """What a run finds for each plan.

    Parameters
    ----------
    plans : list of PlanTotals
    strategy : dict of str to object
        The conventions ``"order"`` and ``"spilled"`` of the plans with groups.
    """

    plans: list[PlanTotals]
    strategy: dict[str, object]


def evaluate_rows(
    reading: RowReader, plans: Sequence[Plan], order: str, budget: Callable[[], Budget]
) -> EvaluatedRows:
    """Choose the strategy by `order` or by the keys, and evaluate.

    Parameters
    ----------
    reading : RowReader
    plans : sequence of Plan
        As `Evaluator` takes them.
    order : str
    budget : callable
        Computes the memory for rows, where they must be gathered.
    """
    started = perf_counter()
    rows = _evaluate(reading, Evaluator(plans), order, budget)
    if RUN.is_on(logging.INFO):
        totals, first = rows.plans[0].totals.overall, plans[0]
        RUN.info(
            "rows evaluated",
            rows=totals.rows(),
            groups=totals.groups() if first.grouped else None,
            models=len(first.roles.scores),
            measures=", ".join(map(str, first.measures)),
            plans=len(plans) if len(plans) > 1 else None,
            threads=first.threads,
            **rows.strategy,
            seconds=perf_counter() - started,
        )
    return rows


def _evaluate(
    reading: RowReader, evaluator: Evaluator, order: str, budget: Callable[[], Budget]
) -> EvaluatedRows:
    first = evaluator.first
    if not evaluator.grouped:
        evaluate_stream(reading.unread_batches(first.batch_rows), evaluator, None)
        return EvaluatedRows(evaluator.finish([]), {"order": "any"})
    if order == "auto":
        peeked = reading.peek(_PEEK)
        if peeked is not None and _scattered(peeked, first.roles.group):
            order = "scattered"
    keep = not reading.rereadable
    while order != "scattered":
        try:
            results = evaluate_stream(
                reading.unread_batches(first.batch_rows, first.slice_rows),
                evaluator,
                KeyWatch(keep),
            )
        except ReturningKey as returning:
            if returning.keys is None and reading.rereadable:
                keep = True
            elif order == "auto" and reading.rereadable:
                order = "scattered"
            else:
                raise _order_error(returning, first.roles.group, order) from None
            RUN.info("groups come back, so rows are read again", order=order)
            evaluator.clear()
        else:
            order = "grouped" if order == "auto" else order
            return EvaluatedRows(evaluator.finish(results), {"order": order})

    from fastrank_eval.engine.scattered import ScatteredEvaluator

    scattered = ScatteredEvaluator(evaluator, budget())
    results = scattered.evaluate(reading)
    strategy: dict[str, object] = {"order": order}
    if scattered.spilled:
        strategy["spilled"] = True
    return EvaluatedRows(evaluator.finish(results), strategy)


def _order_error(returning: ReturningKey, group: Sequence[str], order: str) -> OrderError:
    key = key_text(returning.keys, group, 0) if returning.keys is not None else "?"
    promise = "" if order == "auto" else f", but order={order!r} promises contiguous groups"
    return OrderError(
        f"the group {key} comes back after other groups{promise}; pass order='scattered' "
        "(--order scattered) to gather rows, or sort the input by group."
    )


def _scattered(batch: pa.RecordBatch, group: Sequence[str]) -> bool:
    for rows in sorted({min(_FIRST_ROWS, batch.num_rows), batch.num_rows}):
        keys = keys_of(batch.slice(0, rows), group, 0)
        at_starts = keys_at(keys, np.concatenate([[0], group_starts(keys)]))
        integers = np.sort(key_integers(at_starts))  # np.unique() would hash them: 20 times slower
        if (integers[1:] == integers[:-1]).any():
            return True
    return False
