"""All rows and each slice of a run, in the order of its lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fastrank_eval.evaluation import Evaluation
from fastrank_eval.report.nights import NightValue
from fastrank_eval.tally import PoolSet, Sums

__all__ = ["Place", "places", "values_of"]


@dataclass(frozen=True)
class Place:
    """Where numbers of a part of the rows are found.

    Parameters
    ----------
    by : str
        The slicing, as it was asked for; ``""`` for all rows.
    slice : str
        ``"all"`` for all rows.
    sums : Sums
    line : int
        Which line of the sums.
    pools : PoolSet
    """

    by: str
    slice: str
    sums: Sums
    line: int
    pools: PoolSet


def places(done: Evaluation) -> Iterator[Place]:
    """All rows, then each slice that is shown."""
    plan, tally = done.plan, done.tally
    yield Place("", "all", tally.whole, 0, tally.shared.whole)
    for slicing, sums, shared in zip(plan.slicings, tally.slices, tally.shared.slices, strict=True):
        found = slicing.slices()
        for line, label in zip(found.codes.tolist(), found.labels, strict=True):
            if sums.groups(line) >= plan.min_groups:
                yield Place(str(slicing.spec), label, sums, line, shared.of(line))


def values_of(done: Evaluation, hidden: frozenset[str]) -> list[NightValue]:
    """The values of a run, each with the slicing it belongs to.

    Parameters
    ----------
    done : Evaluation
    hidden : frozenset of str
        Measures that are left out.
    """
    lines = iter(done.lines)
    many = len(done.plan.roles.scores) * len(done.plan.measures)
    return [
        NightValue(
            v.score, place.by, v.slice, v.measure, v.value, v.se, v.ci_low, v.ci_high,
            v.effective_groups, v.groups, v.groups_used, v.rows_share, v.positives_share,
            dict(v.dropped), v.caution,
        )
        for place in places(done)
        for v in (next(lines) for _ in range(many))
        if v.measure not in hidden
    ]  # fmt: skip
