"""The way that rows take: contiguous groups streamed, scattered ones gathered."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fastrank_eval.batches import Reading
from fastrank_eval.errors import OrderError
from fastrank_eval.groups import (
    Keys,
    KeyWatch,
    ReturningKey,
    group_starts,
    key_integers,
    key_text,
    keys_at,
)
from fastrank_eval.memory import Budget
from fastrank_eval.plan import GroupValues, Plan
from fastrank_eval.stream import evaluate_stream
from fastrank_eval.tally import Tally
from fastrank_eval.validation import keys_of

#: Rows looked at to see whether keys are scattered.
_PEEK = 1 << 16


def evaluate_by_way(
    reading: Reading, plan: Plan, order: str, allowed: Budget
) -> tuple[Tally, list[Keys], list[GroupValues], dict[str, object]]:
    """Evaluate by the way that `order` says, or that the keys call for; and tell which it was."""
    if order == "auto":
        first = reading.peek(_PEEK)
        if first is not None and _scattered(first, plan):
            order = "scattered"
    keep = not reading.rereadable
    while order != "scattered":
        try:
            tally, pieces = evaluate_stream(reading.parts(plan.stretch), plan, KeyWatch(keep))
        except ReturningKey as returning:
            if returning.keys is None and reading.rereadable:
                keep = True
            elif order == "auto" and reading.rereadable:
                order = "scattered"
            else:
                raise _returned(returning, plan, order) from None
        else:
            keys = [piece.keys for piece in pieces]
            values = [piece.values for piece in pieces if piece.values is not None]
            return tally, keys, values, {"order": "grouped" if order == "auto" else order}
    from fastrank_eval.scattered import Scattered, in_order_of_appearance

    scattered = Scattered(plan, allowed)
    tally, pieces = scattered.evaluate(reading)
    way: dict[str, object] = {"order": order}
    if scattered.spilled:
        way["spilled"] = True
    return tally, *in_order_of_appearance(pieces), way


def _returned(returning: ReturningKey, plan: Plan, order: str) -> OrderError:
    which = key_text(returning.keys, plan.roles.group, 0) if returning.keys is not None else "?"
    promise = "" if order == "auto" else f", but order={order!r} promises contiguous groups"
    return OrderError(
        f"the group {which} comes back after other groups{promise}; pass order='scattered' "
        "(--order scattered) to gather rows, or sort the input by group."
    )


def _scattered(batch: pa.RecordBatch, plan: Plan) -> bool:
    keys = keys_of(batch, plan.roles, 0)
    starts = np.concatenate([[0], group_starts(keys)])
    at_starts = keys_at(keys, starts)
    integers = np.sort(key_integers(at_starts))  # np.unique() would hash them: 20 times slower
    return bool((integers[1:] == integers[:-1]).any())
