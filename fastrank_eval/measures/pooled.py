"""Measures of all rows together, whatever their group: what they keep, and what it comes to."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastrank_eval._lib.errors import MeasureError
from fastrank_eval.measures.base import Measure
from fastrank_eval.measures.clustered_sums import ChunkSums, ClusteredSums

if TYPE_CHECKING:
    from fastrank_eval.groups.chunk import Scored
    from fastrank_eval.stats.score_table import RocSteps, ScoreTable
    from fastrank_eval.stats.weighted_scores import InOrder


@dataclass(frozen=True, slots=True)
class PooledValue:
    """What all rows come to.

    Parameters
    ----------
    value : float
        NaN where undefined.
    reason : str or None
        Why it is undefined.
    details : mapping of str to float
        What else is known of it, such as the number of clamped probabilities or a bound of its
        error.
    se : float
        Its standard error with groups as clusters; NaN where none is known.
    clusters : int
        Groups that `se` rests on.
    carriers : float
        ``(sum of u^2)^2 / sum of u^4`` of the influences u of groups; NaN where not known.
    """

    value: float
    reason: str | None = None
    details: Mapping[str, float] = field(default_factory=dict)
    se: float = math.nan
    clusters: int = 0
    carriers: float = math.nan


def undefined(reason: str) -> PooledValue:
    """No value, and why."""
    return PooledValue(float("nan"), reason)


class PooledMeasure(Measure):
    """A measure of all rows, in one state that every thread adds to.

    Measures of equal `state_key` share a state.
    """

    takes_cutoff = False
    pooled = True
    uses_row_weights = True

    def state_key(self) -> Hashable:
        """Measures with equal keys share what is kept of the rows."""
        raise NotImplementedError  # pragma: no cover - abstract

    def new_state(self, weighted: bool, threads: int) -> Any:
        """Nothing kept yet."""
        raise NotImplementedError  # pragma: no cover - abstract

    def add_rows(self, state: Any, scored: Scored) -> None:
        """Add the rows that a model has scored; called by several threads at once."""
        raise NotImplementedError  # pragma: no cover - abstract

    def columns_named(self) -> tuple[str, ...]:
        """Columns whose values it tells apart; it finds them in `Scored.field`."""
        return ()

    def keeps(self) -> tuple[PooledMeasure, ...]:
        """Those whose states it reads: itself, and others if it needs more than one state."""
        return (self,)

    def state_in(self, kept: Mapping[Hashable, Any]) -> Any:
        """What `pooled_value` reads: its state; those of all that it keeps, if these are several.

        Parameters
        ----------
        kept : mapping
            The states of a model, by key.
        """
        states = tuple(kept[member.state_key()] for member in self.keeps())
        return states if len(states) > 1 else states[0]

    def pooled_value(self, state: Any, in_order: InOrder) -> PooledValue:
        """What the rows come to; `in_order` maps a function over jobs, in threads."""
        raise NotImplementedError  # pragma: no cover - abstract

    def difference_error(
        self, base: Any, other: Any, in_order: InOrder
    ) -> tuple[float, int, float]:
        """The standard error of the difference of two models' values, and the groups behind it.

        Parameters
        ----------
        base, other : object
            The states of both models, of the same rows.
        in_order : callable
            Maps a function over jobs, in threads.

        Returns
        -------
        se : float
            NaN where none is known.
        groups : int
        carriers : float
            As that of `PooledValue`.
        """
        return math.nan, 0, math.nan


class OrderedMeasure(PooledMeasure):
    """A measure that is read from the distinct scores and the classes of their rows."""

    def state_key(self) -> Hashable:
        return "scores", float(self.rel)

    def new_state(self, weighted: bool, threads: int) -> Any:
        if weighted:
            from fastrank_eval.stats.weighted_scores import WeightedScores

            return WeightedScores()
        from fastrank_eval.stats.scores import PooledScores

        return PooledScores(threads)

    def add_rows(self, state: Any, scored: Scored) -> None:
        state.add(scored.score, scored.labels.relevant_rows(self.rel), scored.weight)

    def pooled_value(self, state: Any, in_order: InOrder) -> PooledValue:
        table = state.table(in_order)
        missing = table.missing
        return undefined(missing) if missing else self.of_table(table)

    def of_table(self, table: ScoreTable) -> PooledValue:
        """The value, where rows of both classes are there."""
        raise NotImplementedError  # pragma: no cover - abstract


class SteppedMeasure(OrderedMeasure):
    """A measure that is read from where positives stand, which is found sooner than the table."""

    def pooled_value(self, state: Any, in_order: InOrder) -> PooledValue:
        missing = state.missing(in_order)
        return undefined(missing) if missing else self.of_steps(state.steps(in_order))

    def of_steps(self, steps: RocSteps) -> PooledValue:
        """The value, where rows of both classes are there."""
        raise NotImplementedError  # pragma: no cover - abstract


class ClusteredMeasure(PooledMeasure):
    """A measure that is a formula of exact sums over rows, groups being independent clusters.

    Its standard error is that of the formula's linearisation.
    """

    def add_rows(self, state: ClusteredSums, scored: Scored) -> None:
        state.add_groups(self.sum_rows(state, scored))

    def sum_rows(self, state: Any, scored: Scored) -> np.ndarray | None:
        """Add the rows to the sums over all rows.

        Returns
        -------
        ndarray of float64 or int64, shape (terms, groups), or None
            The sums over each group of the terms that the value depends on, which are those of
            ``state.moments``; None where rows have no groups.
        """
        raise NotImplementedError  # pragma: no cover - abstract

    def derivatives(self, state: Any) -> list[float]:
        """The derivatives of a defined value by those terms' sums over all rows, in their order."""
        raise NotImplementedError  # pragma: no cover - abstract

    def with_error(self, found: PooledValue, state: ClusteredSums) -> PooledValue:
        """A value with its standard error, if it is defined and rows have groups."""
        clusters = state.moments.clusters
        if math.isnan(found.value) or not clusters:
            return found
        return replace(found, se=state.moments.error(self.derivatives(state)), clusters=clusters)


class SummedMeasure(ClusteredMeasure):
    """A measure of terms of single rows, each added up."""

    #: Names of the sums.
    terms: ClassVar[tuple[str, ...]]
    #: How many of them, the last ones, no value depends on.
    told: ClassVar[int] = 0

    def new_state(self, weighted: bool, threads: int) -> ClusteredSums:
        return ClusteredSums(len(self.terms), len(self.terms) - self.told)

    def sum_rows(self, state: ClusteredSums, scored: Scored) -> np.ndarray | None:
        sums = ChunkSums(state, scored)
        self.add_terms(sums, scored)
        return sums.finish()

    def add_terms(self, sums: ChunkSums, scored: Scored) -> None:
        """Add every term of every row, each term in the order of the rows."""
        raise NotImplementedError  # pragma: no cover - abstract

    def pooled_value(self, state: ClusteredSums, in_order: InOrder) -> PooledValue:
        sums = self._sums(state)
        if not all(map(math.isfinite, sums.values())):
            raise MeasureError(
                f"{self}: scores, labels or weights are so large that their sum passes the largest "
                "double; scale them down."
            )
        return self.with_error(self.of_sums(sums), state)

    def derivatives(self, state: ClusteredSums) -> list[float]:
        slopes = self.gradient(self._sums(state))
        return [slopes.get(name, 0.0) for name in self.terms[: state.moments.terms]]

    def _sums(self, state: ClusteredSums) -> dict[str, float]:
        return {name: state.total(i) for i, name in enumerate(self.terms)}

    def of_sums(self, sums: Mapping[str, float]) -> PooledValue:
        """The value from the sums, each rounded once."""
        raise NotImplementedError  # pragma: no cover - abstract

    def gradient(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The derivatives of a defined value by the sums that it depends on."""
        raise NotImplementedError  # pragma: no cover - abstract


def positive_mask(scored: Scored, rel: float) -> np.ndarray:
    """Which rows are positive. bool, shape (rows,)."""
    positive = np.zeros(len(scored.score), np.bool_)
    positive[scored.labels.relevant_rows(rel)] = True
    return positive
