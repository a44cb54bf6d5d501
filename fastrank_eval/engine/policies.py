"""Values of a chunk's groups -> what each counts for, once the policies have had their say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fastrank_eval._lib.errors import ColumnError, MeasureError, UndefinedError
from fastrank_eval.engine.plan import Plan
from fastrank_eval.groups.chunk import Chunk
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.measures.auc import class_weights
from fastrank_eval.measures.base import GROUP_WEIGHTS, Measure


@dataclass(frozen=True, slots=True)
class Contributions:
    """A measure's values of the ranked groups of a chunk.

    Parameters
    ----------
    value : ndarray of float64, shape (groups,)
        As the measure and the policies have it; NaN where undefined.
    used : ndarray of float64, shape (groups,)
        What is added up; NaN where the group is left out.
    weights : ndarray of float64, shape (groups,), or None
        What each group counts for; None: 1 each.
    left_out : tuple of (str, ndarray of bool)
        Groups left out, by reason.
    """

    value: np.ndarray
    used: np.ndarray
    weights: np.ndarray | None
    left_out: tuple[tuple[str, np.ndarray], ...]

    def dropped_by_slice(self, slice_indices: np.ndarray) -> list[tuple[str, np.ndarray | int]]:
        """Groups of each line left out, by reason."""
        if not len(slice_indices):
            return [(reason, int(np.count_nonzero(mask))) for reason, mask in self.left_out]
        return [(reason, np.bincount(slice_indices[mask])) for reason, mask in self.left_out]


@dataclass
class RankedGroups:
    """The groups of a chunk as one model's measures see them.

    Parameters
    ----------
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group of the chunk, then the number of rows.
    rows : ndarray of int64, shape (ranked groups,)
    positives : ndarray of int64, shape (ranked groups,)
    ranked : ndarray of int64, or None
        Which groups are ranked; None: all. The labels of the others are all 0.
    """

    starts: np.ndarray
    rows: np.ndarray
    positives: np.ndarray
    ranked: np.ndarray | None
    # With the values themselves, so that no other array takes their place in memory.
    _spread: dict[tuple[int, float], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def groups(self) -> int:
        """All groups of the chunk."""
        return len(self.starts) - 1

    @cached_property
    def empty(self) -> np.ndarray:
        """Groups that were not ranked."""
        mask = np.ones(self.groups, np.bool_)
        mask[self.ranked] = False
        return np.flatnonzero(mask)

    def slice_indices(self, slice_indices: np.ndarray) -> np.ndarray:
        """The lines of the ranked groups, of those of all groups."""
        return (
            slice_indices
            if self.ranked is None or not len(slice_indices)
            else slice_indices[self.ranked]
        )

    def empty_on(self, slice_indices: np.ndarray) -> tuple[np.ndarray | int, np.ndarray | int]:
        """Groups that were not ranked, and their rows: those on each line."""
        if not len(slice_indices):
            rows = int(self.starts[-1] - self.starts[0] - self.rows.sum())
            return self.groups - len(self.rows), rows
        there, sizes = slice_indices[self.empty], np.diff(self.starts)[self.empty]
        return np.bincount(there), np.bincount(there, weights=sizes).astype(np.int64)

    def spread(self, values: np.ndarray, empty: float) -> np.ndarray:
        """Values of all groups, of those of the ranked ones and that of the others."""
        if self.ranked is None:
            return values
        known = self._spread.get((id(values), empty))
        if known is None:
            found = np.full(self.groups, empty)
            found[self.ranked] = values
            known = self._spread[id(values), empty] = values, found
        return known[1]


def empty_reason(plan: Plan, measure: Measure) -> str | None:
    """Why groups that are not ranked are left out; None: they have the value 0."""
    return "no_relevant" if plan.groups == "with_relevant" else measure.undefined_if_empty()


def apply_policies(
    plan: Plan,
    m: int,
    ranking: Ranking,
    value: np.ndarray,
    group_weights: Mapping[str, np.ndarray],
    name: Callable[[int], str],
) -> Contributions:
    """Apply the policy for undefined groups and weigh the groups.

    Parameters
    ----------
    plan : Plan
    m : int
        Which measure.
    ranking : Ranking
    value : ndarray of float64, shape (ranked groups,)
        NaN where undefined; those that a policy gives a value are written here.
    group_weights : mapping of str to ndarray of float64
        Columns that measures name as group weights.
    name : callable
        A group's key as a reader would write it, for messages.
    """
    measure = plan.measures[m]
    left_out: list[tuple[str, np.ndarray]] = []
    if plan.groups == "with_relevant":
        irrelevant = ranking.relevant(1.0) == 0
        left_out.append(("no_relevant", irrelevant))
        value[irrelevant] = np.nan
        unsettled = np.isnan(value) & ~irrelevant
    else:
        unsettled = np.isnan(value)
    if unsettled.any():
        for reason, holds in measure.reasons(ranking):
            mine = unsettled & holds
            if not mine.any():
                continue
            unsettled &= ~holds
            policy = plan.policy(measure, reason)
            if policy == "error":
                at = int(np.argmax(mine))
                group = at if ranking.ranked_groups is None else int(ranking.ranked_groups[at])
                raise UndefinedError(
                    f"{measure} is undefined for the group "
                    f"{name(group)} ({reason}), and undefined groups "
                    "are an error; choose undefined='skip', 'zero' or 'one'."
                )
            if policy == "skip":
                left_out.append((reason, mine))
            else:
                value[mine] = policy
    if unsettled.any():
        raise too_large(measure)
    weights = _group_weights(measure, ranking, group_weights)
    used = measure.to_summand(value)
    if weights is not None:
        weightless = (weights == 0) & ~np.isnan(value)
        if weightless.any():
            left_out.append(("zero_weight", weightless))
            used = np.where(weightless, np.nan, used)
    return Contributions(value, used, weights, tuple(left_out))


def too_large(measure: Measure) -> MeasureError:
    """Tell that a sum passes the largest double."""
    remedy = ", or take gain='linear' or a table of gains" if "gain" in measure.chosen else ""
    return MeasureError(
        f"{measure}: grades or weights are so large that a sum passes the largest double; "
        f"scale them down{remedy}."
    )


def _group_weights(
    measure: Measure, ranking: Ranking, columns: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    """What each group counts for; None where each counts 1."""
    kind = measure.weight
    if kind == "uniform":
        return None
    if kind not in GROUP_WEIGHTS:
        column = columns[kind]
        if ranking.ranked_groups is None:
            return column
        ranked = ranking.ranked_groups
        return ranking.cached_for_models(("column", kind), lambda: column[ranked])
    rel = measure.rel_or_default

    def weigh() -> np.ndarray:
        if measure.uses_row_weights:
            positive, negative = class_weights(ranking, rel)
        else:
            positive = ranking.relevant(rel)
            negative = ranking.retrieved - ranking.relevant_retrieved(rel)
            if kind == "impressions":
                return ranking.retrieved.astype(np.float64)
        if kind == "impressions":
            return (positive + negative).astype(np.float64)
        if kind == "positives":
            return positive.astype(np.float64)
        return positive.astype(np.float64) * negative

    if ranking.weights is not None:
        # Sums of row weights in the order of the scores: their last bits are the model's own.
        return weigh()
    return ranking.cached_for_models(("group weight", measure.uses_row_weights, kind, rel), weigh)


def constant_columns(chunk: Chunk, plan: Plan, name: Callable[[int], str]) -> dict[str, np.ndarray]:
    """Columns used as group weights, one value a group; refuse one that varies inside a group."""
    found = {}
    firsts = chunk.starts[:-1]
    for title, column in zip(plan.roles.group_weights, chunk.columns.measure_columns, strict=False):
        varies = column[1:] != column[:-1]
        varies[firsts[1:] - 1] = False
        if varies.any():
            row = int(np.argmax(varies)) + 1
            group = int(np.searchsorted(chunk.starts, row, side="right")) - 1
            raise ColumnError(
                f"group weight column '{title}' is not constant inside the group "
                f"{name(group)}: {column[row - 1]:g} is followed by "
                f"{column[row]:g}; a group weight has one value a group."
            )
        found[title] = column[firsts]
    return found
