"""What to compute and by which conventions, and what comes out of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from fastrank_eval.chunk import Chunk
from fastrank_eval.columns import Roles
from fastrank_eval.labels import Labels
from fastrank_eval.mean_state import MeanState
from fastrank_eval.measures.base import Measure
from fastrank_eval.measures.pooled_measure import PooledMeasure
from fastrank_eval.ranking import Ranking

#: What is kept of all rows together, for each model: by key, for the measures that share it.
#: Threads share them.
Pools: TypeAlias = list[dict[Hashable, Any]]

#: Rows a worker takes at a time, and the fewest where there are less than enough for all.
STRETCH = 1 << 20
_SHORT_STRETCH = 1 << 18


def stretch_of(rows: int | None, threads: int) -> int:
    """Rows a worker takes at a time, so that each thread gets as many stretches as the others."""
    if rows is None:
        return STRETCH
    rounds = -(-rows // (threads * STRETCH))
    return max(-(-rows // (threads * max(rounds, 1))), _SHORT_STRETCH)


@dataclass(frozen=True)
class Plan:
    """What to compute, and by which conventions.

    Parameters
    ----------
    roles : Roles
    measures : tuple of Measure
    ties, groups : str
        As `evaluate` takes them.
    undefined : mapping of str to str
        As `undefined.undefined_policies` gives them.
    presorted : bool
        Refuse scores that rise inside a group.
    per_group : bool
        Keep the values of every group.
    threads : int
    stretch : int
        Rows a worker takes at a time.
    confidence : float
        Of intervals, in ]0, 1[.
    """

    roles: Roles
    measures: tuple[Measure, ...]
    ties: str = "expected"
    undefined: Mapping[str, str] = field(default_factory=lambda: {"*": "skip"})
    groups: str = "all"
    presorted: bool = False
    per_group: bool = True
    threads: int = 1
    stretch: int = STRETCH
    confidence: float = 0.95

    @property
    def weighted(self) -> bool:
        """Whether row weights are in force."""
        return self.roles.weight is not None

    @cached_property
    def skip_empty(self) -> bool:
        """Whether groups whose labels are all 0 need not be ranked: their values are known."""
        if self.weighted or self.roles.judgments or self.roles.subtopics:
            return False
        for m in self.measures:
            if m.pooled:
                continue
            if not m.empty_is_known() or (m.weight != "uniform" and not m.undefined_if_empty()):
                return False
            if m.undefined_if_empty() and self.policy(m, "no_relevant") != "skip":
                return False
        return True

    @cached_property
    def ranks(self) -> bool:
        """Whether rows must be ranked: a measure asks where they stand, or their weights do."""
        of_groups = [m for m in self.measures if not m.pooled]
        if self.weighted or self.roles.unretrieved == "allow":
            return bool(of_groups)
        return any(m.needs_places for m in of_groups)

    @property
    def keeps_order(self) -> bool:
        """Whether the input order of a group's rows matters: for ties, or ties of item ids."""
        return self.ties in ("input", "item")

    def policy(self, measure: Measure, reason: str) -> Any:
        """What to do with groups undefined for a reason: 'skip', 'error' or the value to take."""
        if reason in ("few_rows", "few_positives"):
            return "skip"
        chosen: Any = measure.chosen.get("single_class")
        if chosen is None:
            chosen = self.undefined.get(measure.name, self.undefined["*"])
        return {"zero": 0.0, "one": 1.0}.get(chosen, chosen)

    @cached_property
    def passes(self) -> list[list[int]]:
        """Per-group measures that are computed together, as positions in `measures`."""
        by_key: dict[Hashable, list[int]] = {}
        for m, measure in enumerate(self.measures):
            if not measure.pooled:
                by_key.setdefault(measure.pass_key(), []).append(m)
        return list(by_key.values())

    @cached_property
    def pools(self) -> dict[Hashable, PooledMeasure]:
        """What is kept of all rows together: a measure for each, of those that share it."""
        by_key: dict[Hashable, PooledMeasure] = {}
        for measure in self.measures:
            if isinstance(measure, PooledMeasure):
                for kept in measure.keeps():
                    by_key.setdefault(kept.state_key(), kept)
        return by_key


def new_pools(plan: Plan) -> Pools:
    """Empty pools for a plan."""
    return [
        {key: m.new_state(plan.weighted, plan.threads) for key, m in plan.pools.items()}
        for _ in plan.roles.scores
    ]


class Tally:
    """Everything a thread adds up by itself; tallies merge in any order."""

    def __init__(self, plan: Plan, pools: Pools | None = None) -> None:
        self.rows = 0
        self.positives = 0
        self.groups = 0
        self.means = [MeanState(len(plan.measures)) for _ in plan.roles.scores]
        self.pools = new_pools(plan) if pools is None else pools

    def merge(self, other: Tally) -> None:
        """Add the tally of another thread that shares the pools."""
        self.rows += other.rows
        self.positives += other.positives
        self.groups += other.groups
        for mine, theirs in zip(self.means, other.means, strict=True):
            mine.merge(theirs)


@dataclass(slots=True)
class GroupValues:
    """Per-group results of consecutive groups.

    Parameters
    ----------
    rows, positives : ndarray of int64, shape (groups,)
    values : ndarray of float64, shape (models, measures, groups)
        NaN where undefined; unused for pooled measures.
    """

    rows: np.ndarray
    positives: np.ndarray
    values: np.ndarray

    @classmethod
    def empty(cls, chunk: Chunk, plan: Plan) -> GroupValues:
        """Room for a chunk's groups, none of them ranked yet."""
        groups = chunk.groups if plan.per_group else 0
        values = np.zeros((len(plan.roles.scores), len(plan.measures), groups))
        for m, measure in enumerate(plan.measures):
            if plan.groups == "with_relevant" or measure.pooled or measure.undefined_if_empty():
                values[:, m] = np.nan
        rows = np.diff(chunk.starts) if plan.per_group else np.empty(0, np.int64)
        return cls(rows, np.zeros(groups, np.int64), values)

    def one(self, group: int) -> GroupValues:
        """The results of one group."""
        here = slice(group, group + 1)
        return GroupValues(self.rows[here], self.positives[here], self.values[:, :, here])

    def put(self, model: int, m: int, ranking: Ranking, value: np.ndarray) -> None:
        """Enter a measure's values of the ranked groups."""
        if ranking.ranked is None:
            self.values[model, m] = value
        else:
            self.values[model, m, ranking.ranked] = value

    def put_positives(self, labels: Labels) -> None:
        """Enter the rows of grade >= 1 of the ranked groups."""
        if labels.ranked is None:
            self.positives = labels.relevant(1.0)
        else:
            self.positives[labels.ranked] = labels.relevant(1.0)
