"""Merge the replies of partitions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

from fastrank_eval._lib import errors
from fastrank_eval._lib.errors import FastRankEvalError, SparkError
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.integrations.spark.worker import FIRST_HASH, SECOND_HASH
from fastrank_eval.results.state import State

#: States to read and merge at a time.
_STATES_AT_ONCE = 32
_HASHED_GROUP = re.compile(f"{FIRST_HASH}=(-?\\d+), {SECOND_HASH}=(-?\\d+)")


class JobResult(NamedTuple):
    """The result of a job.

    Parameters
    ----------
    states : dict of str to State
        State of all rows by label, as if one run had read them.
    compiled : int
        Number of kernels that workers compiled because they were not in a cache.
    """

    states: dict[str, State]
    compiled: int

    def evaluations(self, started: float) -> dict[str, Evaluation]:
        """Build the evaluations of a job that started at this time, by label."""
        evaluations = {label: state.evaluation() for label, state in self.states.items()}
        seconds = perf_counter() - started
        return {
            label: replace(one, meta=replace(one.meta, seconds=seconds, compiled=self.compiled))
            for label, one in evaluations.items()
        }


def merge_replies(
    replies: Sequence[Any],
    empty: Mapping[str, State],
    partitions: int,
    provenance: Mapping[str, Any],
    group: Sequence[str],
    group_of: Callable[[int, int], str],
) -> JobResult:
    """Merge the replies of partitions.

    Parameters
    ----------
    replies : sequence of rows
        Rows of `worker.REPLY`.
    empty : mapping of str to State
        State of no rows by label, in the order of the states of a reply.
    partitions : int
        Expected number of replies; there are none if there are no rows.
    provenance : mapping of str to object
        Provenance of the rows: sources and where.
    group : sequence of str
        Key columns.
    group_of : callable
        Gets the name of the group of two hashes, for messages.

    Raises
    ------
    FastRankEvalError
        The error of the first partition with one; `SparkError` if partitions did not reply, or
        replied twice.
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
    given = {"order": "spark", "limit": None, **provenance}
    states = {}
    for index, (label, of_no_rows) in enumerate(empty.items()):
        parts = [bytes(reply.states[index]) for reply in replies if reply.states is not None]
        states[label] = _merged(parts, of_no_rows).as_one(**given, group=group, like=of_no_rows)
    return JobResult(states, sum(reply.compiled for reply in replies))


def _merged(parts: Sequence[bytes], empty: State) -> State:
    """Read and merge the states of partitions; `empty` if there are none."""
    total: State | None = None
    for first in range(0, len(parts), _STATES_AT_ONCE):
        loaded = [State.from_bytes(part) for part in parts[first : first + _STATES_AT_ONCE]]
        one, *others = loaded if total is None else [total, *loaded]
        # Small partitions may have equal rows in different groups.
        total = one.merge(*others, allow_repeated=True)
    return empty if total is None else total


def _error(
    faults: Sequence[Any], partitions: int, group_of: Callable[[int, int], str]
) -> FastRankEvalError:
    first = json.loads(faults[0].fault)
    kind = getattr(errors, first["kind"], FastRankEvalError)
    message = _HASHED_GROUP.sub(
        lambda match: group_of(int(match[1]), int(match[2])), first["message"]
    )
    if len(faults) > 1:
        message += f" {len(faults)} of {partitions} partitions have this error or another one."
    return kind(message)
