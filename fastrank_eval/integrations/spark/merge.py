"""Replies of partitions -> one state, or the error that stands for all that is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fastrank_eval._lib import errors
from fastrank_eval._lib.errors import FastRankEvalError, SparkError
from fastrank_eval.integrations.spark.worker import FIRST_HASH, SECOND_HASH
from fastrank_eval.results.state import State

__all__ = ["Answer", "merged"]

#: States that are read at a time: each is added up with those before.
_TOGETHER = 32
_HASHED_GROUP = re.compile(f"{FIRST_HASH}=(-?\\d+), {SECOND_HASH}=(-?\\d+)")


class Answer(NamedTuple):
    """What a job came to.

    Parameters
    ----------
    state : State
        Of all rows, as if one run had read them.
    compiled : int
        Kernels that workers had to compile because no cache held them.
    """

    state: State
    compiled: int


def merged(
    replies: Sequence[Any],
    nothing: State,
    partitions: int,
    told: Mapping[str, Any],
    group: Sequence[str],
    group_of: Callable[[int, int], str],
) -> Answer:
    """Add up what partitions replied.

    Parameters
    ----------
    replies : sequence of rows
        As `task.REPLY` has them.
    nothing : State
        Of no rows.
    partitions : int
        How many there must be; none at all where there are no rows.
    told : mapping of str to object
        What the state says of its rows: sources and where.
    group : sequence of str
        Key columns.
    group_of : callable
        The group of two hashes, as messages name it.

    Raises
    ------
    FastRankEvalError
        What a partition found wrong, of the first one that did; `SparkError` if some did not reply,
        or twice.
    """
    replies = sorted(replies, key=lambda reply: reply.partition)
    faults = [reply for reply in replies if reply.fault is not None]
    if faults:
        raise _error(faults, partitions, group_of)
    numbers = [reply.partition for reply in replies]
    if numbers and numbers != list(range(partitions)):
        raise SparkError(
            f"{partitions} partitions were asked for, and {len(numbers)} replied, numbered "
            f"{min(numbers)} to {max(numbers)}: rows may be missing or counted twice, so there is "
            "no result. Leave rules that merge or split partitions out of this session."
        )
    states = [bytes(reply.state) for reply in replies if reply.state is not None]
    total: State | None = None
    for first in range(0, len(states), _TOGETHER):
        read = [State.from_bytes(state) for state in states[first : first + _TOGETHER]]
        one, *others = read if total is None else [total, *read]
        # Small partitions may well hold equal rows of different groups.
        total = one.merge(*others, allow_repeated=True)
    state = nothing if total is None else total
    whole = state.as_one({"order": "spark", "limit": None, **told}, group)
    return Answer(whole, sum(reply.compiled for reply in replies))


def _error(
    faults: Sequence[Any], partitions: int, group_of: Callable[[int, int], str]
) -> FastRankEvalError:
    first = json.loads(faults[0].fault)
    kind = getattr(errors, first["kind"], FastRankEvalError)
    message = _HASHED_GROUP.sub(
        lambda found: group_of(int(found[1]), int(found[2])), first["message"]
    )
    if len(faults) > 1:
        message += f" So it is, or the like, in {len(faults)} of {partitions} partitions."
    return kind(message)
