"""Evaluate one partition of the rows for a distributed engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastrank_eval._lib.arguments import check_options, typed
from fastrank_eval.engine.run import run
from fastrank_eval.measures import Measure
from fastrank_eval.results.evaluate import evaluate
from fastrank_eval.results.state import State

__all__ = ["partial"]


@typed
def partial(
    batches: object,
    *,
    group: str | Sequence[str],
    label: str,
    score: str | Sequence[str],
    measures: str | Measure | Sequence[str | Measure],
    keep_groups: bool = False,
    threads: int = 1,
    **options: Any,
) -> State:
    """Evaluate one partition of the rows, and return its state.

    ``first.merge(*others).result()`` has the bits of one evaluation of all rows for any
    partitions, if no group has rows in two of them. So an engine needs only a partition, shuffle
    or window by the group. `State.to_bytes` and `State.from_bytes` carry states through it.

    Parameters
    ----------
    batches : object
        The rows of the partition, in any order: a table, batches, a list or an iterator of batches,
        a frame, or any other source of `evaluate`. An iterator needs at least one batch.
    group, label, score, measures
        As `evaluate` takes them.
    keep_groups : bool
        Keep keys and values of every group. A merge then refuses groups with rows in two
        partitions. The states grow with the groups.
    threads : int
        By default one, because engines run one worker a core.
    **options
        Any other argument of `evaluate`; `baseline` to compare models. Slices by quantiles have
        different edges in each partition, and such states cannot be merged: give edges.

    Returns
    -------
    State

    Raises
    ------
    FastRankEvalError
        As `evaluate` does.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> def part(users, clicks, scores):
    ...     rows = {"user": users, "click": clicks, "pctr": scores}
    ...     return fe.partial(rows, group="user", label="click", score="pctr", measures="GAUC")
    >>> parts = [part([1, 1], [0, 1], [0.1, 0.4]), part([2, 2], [1, 0], [0.2, 0.3])]
    >>> parts[0].merge(*parts[1:]).result().value("GAUC")
    0.5
    """
    names = ["group", "label", "score", "measures", *options]
    check_options("partial", names, run, without=("per_group", "keep_state"))
    return evaluate(
        batches,
        group=group,
        label=label,
        score=score,
        measures=measures,
        threads=threads,
        per_group=keep_groups,
        keep_groups=keep_groups,
        keep_state=True,
        **options,
    ).state
