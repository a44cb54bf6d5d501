"""partial(): whole groups in, their state out, for engines that share rows out among workers."""

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
    """Evaluate a part of the rows that holds whole groups: a state, to be merged with the others'.

    ``first.merge(*others).result()`` has the bits of one evaluation of all rows, however they were
    shared out, as long as no group has rows in two parts. So an engine needs one thing only: a
    partition, shuffle or window by the group. `State.to_bytes` and `State.from_bytes` carry states
    through it.

    Parameters
    ----------
    batches : object
        The rows of the part, in any order: a table, batches, a list or an iterator of batches, a
        frame, or whatever else `evaluate` takes. An iterator needs at least one batch.
    group, label, score, measures
        As `evaluate` takes them.
    keep_groups : bool
        Keep keys and values of every group: states then see groups that have rows in two parts, and
        refuse to be merged. They grow with the groups.
    threads : int
        Engines run a worker a core, so by default one.
    **options
        Any other argument of `evaluate`; `baseline` where models are to be compared. Slices by
        quantiles have edges of their own in each part, and such states refuse to be merged: give
        edges.

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
    given = ["group", "label", "score", "measures", *options]
    check_options("partial", given, run, without=("per_group", "keep_state"))
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
