"""Apply undefined-group policies and group weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fastrank_eval._lib.errors import ColumnError, MeasureError, UndefinedError
from fastrank_eval.engine.plan import Plan
from fastrank_eval.groups.chunk import Chunk
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.measures.base import GROUP_WEIGHTS, Measure


@dataclass(frozen=True, slots=True)
class Contributions:
    """What the ranked groups of a chunk contribute to a measure.

    Parameters
    ----------
    value : ndarray of float64, shape (groups,)
        Values after the policies; NaN where undefined.
    summand : ndarray of float64, shape (groups,)
        The term of the sum; NaN where the group is left out.
    weights : ndarray of float64, shape (groups,), or None
        Group weights; None: 1 each.
    exclusions : tuple of (str, ndarray of bool)
        Masks of the groups that are left out, by reason.
    """

    value: np.ndarray
    summand: np.ndarray
    weights: np.ndarray | None
    exclusions: tuple[tuple[str, np.ndarray], ...]

    def dropped_by_slice(self, slice_indices: np.ndarray) -> list[tuple[str, np.ndarray | int]]:
        """Count the groups of each slice that are left out, by reason."""
        if not len(slice_indices):
            return [(reason, int(np.count_nonzero(mask))) for reason, mask in self.exclusions]
        return [(reason, np.bincount(slice_indices[mask])) for reason, mask in self.exclusions]


@dataclass
class RankedGroups:
    """The groups of a chunk, and which of them one model ranks.

    Parameters
    ----------
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group of the chunk, then the number of rows.
    rows : ndarray of int64, shape (ranked groups,)
    positives : ndarray of int64, shape (ranked groups,)
    ranked : ndarray of int64, or None
        Indices of the ranked groups; None: all. The labels of the others are all 0.
    """

    starts: np.ndarray
    rows: np.ndarray
    positives: np.ndarray
    ranked: np.ndarray | None
    # The key holds id(values). The entry keeps `values` alive, so that no other array gets that id.
    _spread: dict[tuple[int, float], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def groups(self) -> int:
        """The number of groups of the chunk."""
        return len(self.starts) - 1

    @cached_property
    def empty(self) -> np.ndarray:
        """The indices of the groups that were not ranked."""
        mask = np.ones(self.groups, np.bool_)
        mask[self.ranked] = False
        return np.flatnonzero(mask)

    def slice_indices(self, slice_indices: np.ndarray) -> np.ndarray:
        """Select the slice indices of the ranked groups from those of all groups."""
        return (
            slice_indices
            if self.ranked is None or not len(slice_indices)
            else slice_indices[self.ranked]
        )

    def count_empty(self, slice_indices: np.ndarray) -> tuple[np.ndarray | int, np.ndarray | int]:
        """Count the unranked groups of each slice, and their rows."""
        if not len(slice_indices):
            rows = int(self.starts[-1] - self.starts[0] - self.rows.sum())
            return self.groups - len(self.rows), rows
        indices, sizes = slice_indices[self.empty], np.diff(self.starts)[self.empty]
        return np.bincount(indices), np.bincount(indices, weights=sizes).astype(np.int64)

    def spread(self, values: np.ndarray, empty: float) -> np.ndarray:
        """Spread values of ranked groups over all groups; others get `empty`."""
        if self.ranked is None:
            return values
        entry = self._spread.get((id(values), empty))
        if entry is None:
            of_all = np.full(self.groups, empty)
            of_all[self.ranked] = values
            entry = self._spread[id(values), empty] = values, of_all
        return entry[1]


def empty_reason(plan: Plan, measure: Measure) -> str | None:
    """Return why unranked groups are left out; None: their value is 0."""
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
        Position of the measure in the plan.
    ranking : Ranking
    value : ndarray of float64, shape (ranked groups,)
        NaN where undefined. Values that a policy sets are written into it.
    group_weights : mapping of str to ndarray of float64
        Columns that measures name as group weights.
    name : callable
        Maps the position of a group to the text of its key, for messages.
    """
    measure = plan.measures[m]
    exclusions: list[tuple[str, np.ndarray]] = []
    if plan.groups == "with_relevant":
        irrelevant = ranking.relevant(1.0) == 0
        exclusions.append(("no_relevant", irrelevant))
        value[irrelevant] = np.nan
        undefined = np.isnan(value) & ~irrelevant
    else:
        undefined = np.isnan(value)
    if undefined.any():
        for reason, holds in measure.reasons(ranking):
            matches = undefined & holds
            if not matches.any():
                continue
            undefined &= ~holds
            policy = plan.policy(measure, reason)
            if policy == "error":
                first = int(np.argmax(matches))
                group = (
                    first if ranking.ranked_groups is None else int(ranking.ranked_groups[first])
                )
                raise UndefinedError(
                    f"{measure} is undefined for the group "
                    f"{name(group)} ({reason}), and undefined groups "
                    "are an error; choose undefined='skip', 'zero' or 'one'."
                )
            if policy == "skip":
                exclusions.append((reason, matches))
            else:
                value[matches] = policy
    if undefined.any():
        raise too_large(measure)
    weights = _group_weights(measure, ranking, group_weights)
    summand = measure.to_summand(value)
    if weights is not None:
        weightless = (weights == 0) & ~np.isnan(value)
        if weightless.any():
            exclusions.append(("zero_weight", weightless))
            summand = np.where(weightless, np.nan, summand)
    return Contributions(value, summand, weights, tuple(exclusions))


def too_large(measure: Measure) -> MeasureError:
    """Make the error of a sum that passes the largest double."""
    remedy = ", or take gain='linear' or a table of gains" if "gain" in measure.chosen else ""
    return MeasureError(
        f"{measure}: grades or weights are so large that a sum passes the largest double; "
        f"scale them down{remedy}."
    )


def _group_weights(
    measure: Measure, ranking: Ranking, columns: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    """Compute the weight of each group; None where each weighs 1."""
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
            positive, negative = ranking.class_weights(rel)
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
        # Row weights are added in the order of the scores: the last bits depend on the model.
        return weigh()
    return ranking.cached_for_models(("group weight", measure.uses_row_weights, kind, rel), weigh)


def constant_columns(chunk: Chunk, plan: Plan, name: Callable[[int], str]) -> dict[str, np.ndarray]:
    """Read one group weight a group; refuse columns that vary in a group."""
    weights = {}
    firsts = chunk.starts[:-1]
    for title, column in zip(plan.roles.group_weights, chunk.columns.named_columns, strict=False):
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
        weights[title] = column[firsts]
    return weights
