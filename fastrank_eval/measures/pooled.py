"""Define the base classes of measures of all rows.

Make a measure of a plain function of one query.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from inspect import Parameter, signature
from itertools import groupby, product
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.arrow import Arrays
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.measures.base import WEIGHT, Measure, register
from fastrank_eval.measures.clustered_sums import ChunkSums, ClusteredSums
from fastrank_eval.stats.row_sums import ClusterMoments
from fastrank_eval.stats.score_runs import RocSteps, ScoreTable
from fastrank_eval.stats.scores import Scores

#: The convention that counts nested clusters, and the detail that counts those of a value.
CLUSTERS = "clusters"
#: The warning where merged states do not keep what an error needs, such as the groups of bins.
MERGED = "merged"


@dataclass(frozen=True)
class PooledValue:
    """The value of a measure of all rows.

    Parameters
    ----------
    value : float
        NaN if undefined.
    reason : str or None
        Why it is undefined.
    details : mapping of str to float
        More numbers, such as the clamped probabilities or a bound of the error.
    se : float
        Standard error with groups as clusters; NaN if unknown, 0 if groups do not vary.
    clusters : int
        Groups with a share of the denominator of the value.
    effective_groups : float
        ``(sum of u^2)^2 / sum of u^4`` of the influences u of groups, which is the effective number
        of groups behind `se`; NaN if unknown.
    by_shares : float
        ``(sum of w^2)^2 / sum of w^4`` of the shares w of groups; NaN if they are those of rows.
    warning : str
        Why there is no standard error, if `clusters` is 0.
    """

    value: float
    reason: str | None = None
    details: Mapping[str, float] = field(default_factory=dict)
    se: float = math.nan
    clusters: int = 0
    effective_groups: float = math.nan
    by_shares: float = math.nan
    warning: str = "pooled"


@dataclass(frozen=True)
class ErrorOfDifference:
    """The standard error of the difference of two models' values.

    Parameters
    ----------
    se : float
        With groups as clusters; NaN if unknown, 0 if no group differs from another.
    clusters : int
        Groups behind it: the fewest that either value rests on, if below 2; 0 if `se` is unknown.
    effective_groups, by_shares : float
        As in `PooledValue`; the smaller of both models.
    rounding : float
        What rounding adds to the influences of groups; see `zero_if_rounding`.
    warning : str
        Why `se` is unknown, if `clusters` is 0.
    """

    se: float = math.nan
    clusters: int = 0
    effective_groups: float = math.nan
    by_shares: float = math.nan
    rounding: float = 0.0
    warning: str = "pooled"


def undefined(reason: str) -> PooledValue:
    """Make a value that is undefined, with the reason."""
    return PooledValue(float("nan"), reason)


class PooledState(Protocol):
    """What a measure of all rows keeps of them; several threads add to it."""

    def merge(self, other: Any) -> None:
        """Add the state of other rows, of the same setup; the other may change."""
        ...

    def to_arrays(self) -> Arrays:
        """Write the state to arrays that do not depend on the order of rows."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        ...


class PooledMeasure(Measure):
    """A measure of all rows, computed from a state that all threads add to.

    Measures with equal `state_key` share a state.
    """

    takes_cutoff = False
    pooled = True
    uses_row_weights = True

    def state_key(self) -> Hashable:
        """Return a key; measures with equal keys share a state."""
        raise NotImplementedError  # pragma: no cover - abstract

    def new_state(self, weighted: bool, threads: int) -> PooledState:
        """Make an empty state.

        `Scores`, `ClusteredScores` and `BinnedScores` keep scores,
        `RowSums` and `ClusterMoments` keep sums.
        """
        raise NotImplementedError  # pragma: no cover - abstract

    def add_rows(self, state: Any, scored: Scored) -> None:
        """Add the rows that a model scored; several threads call this at once."""
        raise NotImplementedError  # pragma: no cover - abstract

    def columns_named(self) -> tuple[str, ...]:
        """Return the columns that it reads by `Scored.field`."""
        return ()

    def required_states(self) -> tuple[PooledMeasure, ...]:
        """Return the measures whose states it reads: itself, or several."""
        return (self,)

    def state_in(self, by_key: Mapping[Hashable, PooledState]) -> Any:
        """Return its state, or a tuple if `required_states` has several.

        Parameters
        ----------
        by_key : mapping
            The states of a model, by key.
        """
        states = tuple(by_key[member.state_key()] for member in self.required_states())
        return states if len(states) > 1 else states[0]

    def pooled_value(self, state: Any, map_jobs: JobMap) -> PooledValue:
        """Compute the value; `map_jobs` maps a function over jobs, in threads."""
        raise NotImplementedError  # pragma: no cover - abstract

    def without_error(self, state: Any, map_jobs: JobMap) -> PooledValue:
        """Compute the value; leave out an error that takes time."""
        return self.pooled_value(state, map_jobs)

    def difference_error(self, base: Any, other: Any, map_jobs: JobMap) -> ErrorOfDifference:
        """Compute the standard error of the difference of two models' values.

        Parameters
        ----------
        base, other : object
            The states of both models, with the same rows.
        map_jobs : callable
            Maps a function over jobs, in threads.
        """
        return ErrorOfDifference()


class OrderedMeasure(PooledMeasure):
    """A measure computed from the table of distinct scores."""

    def state_key(self) -> Hashable:
        return "scores", float(self.rel)

    def new_state(self, weighted: bool, threads: int) -> PooledState:
        return Scores.of(weighted, threads)

    def add_rows(self, state: Scores, scored: Scored) -> None:
        rows = scored.every_row
        positive = rows.labels.relevant_rows(self.rel)
        state.add(rows.score, positive, rows.weight)

    def scores_of(self, state: Any) -> Any:
        """Return the scores of all rows; None if a state does not keep them."""
        return state if self.state_key() == OrderedMeasure.state_key(self) else None

    def pooled_value(self, state: Scores, map_jobs: JobMap) -> PooledValue:
        table = state.table(map_jobs)
        missing = table.missing
        return undefined(missing) if missing else self.from_table(table)

    def from_table(self, table: ScoreTable) -> PooledValue:
        """Compute the value from a table with rows of both classes."""
        raise NotImplementedError  # pragma: no cover - abstract


class SteppedMeasure(OrderedMeasure):
    """A measure computed from ROC steps, which are faster than the table."""

    def pooled_value(self, state: Scores, map_jobs: JobMap) -> PooledValue:
        missing = state.missing(map_jobs)
        return undefined(missing) if missing else self.from_steps(state.steps(map_jobs))

    def from_steps(self, steps: RocSteps) -> PooledValue:
        """Compute the value from steps with rows of both classes."""
        raise NotImplementedError  # pragma: no cover - abstract


class ClusteredMeasure(PooledMeasure):
    """A formula of exact sums over rows, with groups as independent clusters.

    Its standard error is that of the linearised formula. Without groups there is none.
    """

    #: Whether values are shares of what they are divided by. Then derivatives are differences of
    #: shares, which may nearly cancel.
    is_share: ClassVar[bool] = False

    @property
    def uses_groups(self) -> bool:
        return True

    @property
    def has_error(self) -> bool:
        return True

    def add_rows(self, state: ClusteredSums, scored: Scored) -> None:
        state.add_groups(self.sum_rows(state, scored))

    def sum_rows(self, state: Any, scored: Scored) -> np.ndarray | None:
        """Add the rows to the sums over all rows.

        Returns
        -------
        ndarray of float64 or int64, shape (terms, groups), or None
            Sums over each group of the terms of ``state.moments``: those that the value depends
            on. None if rows have no groups.
        """
        raise NotImplementedError  # pragma: no cover - abstract

    def derivatives(self, state: Any) -> list[float]:
        """Return the derivatives of a value by the sums of the terms."""
        raise NotImplementedError  # pragma: no cover - abstract

    def derivatives_of_pair(self, base: Any, other: Any) -> tuple[list[float], list[float]]:
        """Return the derivatives of both values for the error of their difference."""
        return self.derivatives(base), self.derivatives(other)

    def divided_by(self) -> tuple[tuple[int, ...], ...]:
        """Return what the value is divided by: for each sum its terms."""
        return ()

    def with_error(self, result: PooledValue, state: ClusteredSums) -> PooledValue:
        """Add the standard error to a value if it is defined and rows have groups."""
        moments = state.moments
        clusters, by_shares = moments.clusters, math.nan
        if math.isnan(result.value) or not clusters:
            return result
        slopes = self.derivatives(state)
        se = moments.error(slopes, self.rounding(state, slopes))
        if self.divided_by():
            clusters, by_shares = moments.shares(self.divided_by())
        return replace(result, se=se, clusters=clusters, by_shares=by_shares)

    def error_of_pair(
        self, base: Any, other: Any, moments: ClusterMoments, map_jobs: JobMap
    ) -> ErrorOfDifference:
        """Compute what `difference_error` does from the terms of both.

        Parameters
        ----------
        base, other : object
            The states of both models.
        moments : ClusterMoments
            Of the terms of both.
        map_jobs : callable
            Maps a function over jobs, in threads.
        """
        states = base, other
        values = [self.pooled_value(state, map_jobs) for state in states]
        if any(math.isnan(each.value) for each in values):
            return ErrorOfDifference()
        slopes = self.derivatives_of_pair(base, other)
        rounding = sum(map(self.rounding, states, slopes))
        gradient = [-slope for slope in slopes[0]] + slopes[1]
        fewest = min(each.clusters for each in values)
        se = moments.error(gradient, rounding)
        return ErrorOfDifference(
            se,
            # A value that rests on one group has no influences.
            moments.clusters if fewest > 1 else fewest,
            moments.effective_groups(gradient, se),
            min(each.by_shares for each in values),
            rounding,
        )

    def rounding(self, state: ClusteredSums, slopes: Sequence[float]) -> float:
        """Bound the roundings of influences; see `zero_if_rounding`."""
        if not all(map(math.isfinite, slopes)):
            return 0.0
        return state.moments.rounding(slopes, self.divided_by() if self.is_share else ())


class SummedMeasure(ClusteredMeasure):
    """A formula of sums of terms of single rows."""

    #: Names of the sums. If one is "weight", a value needs it to be above 0.
    terms: ClassVar[tuple[str, ...]]
    #: How many of them, at the end, are details that no value depends on.
    detail_terms: ClassVar[int] = 0
    #: Those that a value with this state divides by, and that of this measure. Without any, a group
    #: counts if it has a term other than 0.
    denominators: ClassVar[tuple[str, ...]] = ()
    denominator: ClassVar[str] = ""

    def state_key(self) -> Hashable:
        return ("sums", str(self))

    def new_state(self, weighted: bool, threads: int) -> ClusteredSums:
        varying = len(self.terms) - self.detail_terms
        denominators = [(self.terms.index(name),) for name in self.denominators]
        return ClusteredSums(len(self.terms), varying, denominators)

    def divided_by(self) -> tuple[tuple[int, ...], ...]:
        return ((self.terms.index(self.denominator),),) if self.denominator else ()

    def sum_rows(self, state: ClusteredSums, scored: Scored) -> np.ndarray | None:
        sums = ChunkSums(state, scored)
        self.add_terms(sums, scored)
        return sums.finish()

    def add_terms(self, sums: ChunkSums, scored: Scored) -> None:
        """Add every term of every row; each term in the order of the rows."""
        raise NotImplementedError  # pragma: no cover - abstract

    def pooled_value(self, state: ClusteredSums, map_jobs: JobMap) -> PooledValue:
        sums = self._sums(state)
        if not all(map(math.isfinite, sums.values())):
            raise MeasureError(
                f"{self.display_name}: scores, labels or weights are so large that their sum "
                "exceeds the largest double; scale them down."
            )
        if not sums.get("weight", 1.0) > 0:
            return undefined("zero_weight")
        return self.with_error(self.from_sums(sums), state)

    def derivatives(self, state: ClusteredSums) -> list[float]:
        slopes = self.gradient(self._sums(state))
        return [slopes.get(name, 0.0) for name in self.terms[: state.moments.terms]]

    def _sums(self, state: ClusteredSums) -> dict[str, float]:
        return {name: state.total(i) for i, name in enumerate(self.terms)}

    def from_sums(self, sums: Mapping[str, float]) -> PooledValue:
        """Compute the value from the sums, each rounded once."""
        raise NotImplementedError  # pragma: no cover - abstract

    def gradient(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the derivatives of a value by the sums that it depends on."""
        raise NotImplementedError  # pragma: no cover - abstract


def positive_mask(scored: Scored, rel: float) -> np.ndarray:
    """Mark the positive rows. bool, shape (rows,)."""
    positive = np.zeros(len(scored.score), np.bool_)
    positive[scored.labels.relevant_rows(rel)] = True
    return positive


#: The most orders of tied rows of a group that are tried.
_MOST_ORDERS = 10_000


class PlainMeasure(Measure):
    """A measure whose value of a group is a plain function of its labels."""

    reference = "none"
    options = (WEIGHT,)
    range = (-math.inf, math.inf)
    ranks_every_row = True
    function: ClassVar[Callable[..., Any]]

    def empty_is_known(self) -> bool:
        """Return False: the function may have any value without a label."""
        return False

    def reasons(self, ranking: Ranking) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the groups for which the function returns NaN."""
        yield "undefined", np.isnan(self._values(ranking, self.cutoff or 0))

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        """Call the function for each group and cutoff, and each order of ties."""
        values = np.stack([self._values(ranking, cutoff) for cutoff in cutoffs.tolist()])
        return values if self.takes_cutoff else values[0]

    def _values(self, ranking: Ranking, cutoff: int) -> np.ndarray:
        """Compute the value of each group once."""
        return ranking.cached((type(self), cutoff), lambda: self._computed(ranking, cutoff))

    def _computed(self, ranking: Ranking, cutoff: int) -> np.ndarray:
        values = np.empty(ranking.groups)
        for group in range(ranking.groups):
            orders = [self._value(each, cutoff) for each in self._orders(ranking, group)]
            values[group] = math.fsum(orders) / len(orders)
        return values

    def _orders(self, ranking: Ranking, group: int) -> Iterator[list[float]]:
        """Yield the labels in rank order, for each order of tied rows."""
        first, last = ranking.offsets[group : group + 2].tolist()
        entries = zip(
            *(each[first:last].tolist() for each in (ranking.above, ranking.size, ranking.grade)),
            strict=True,
        )
        blocks = []
        number = 1
        for (above, size), members in groupby(entries, key=lambda entry: entry[:2]):
            labels = [grade for _, _, grade in members]
            counts = Counter([*labels, *[0.0] * (size - len(labels))])
            ways = math.factorial(size) // math.prod(map(math.factorial, counts.values()))
            number *= ways
            if number > _MOST_ORDERS:
                raise MeasureError(
                    f"{self.name}: must have at most {_MOST_ORDERS:,} orders of tied rows in a "
                    "group, whose mean is its value, got more; choose ties='input', 'item', "
                    "'best' or 'worst'."
                )
            blocks.append([(above, order) for order in _arrangements(counts)])
        for choice in product(*blocks):
            ranked = [0.0] * int(ranking.retrieved[group])
            for above, order in choice:
                ranked[above : above + len(order)] = order
            yield ranked

    def _value(self, labels: list[float], cutoff: int) -> float:
        """Call the function, and check what it returns."""
        arguments = [list(labels), cutoff or None] if self.takes_cutoff else [list(labels)]
        try:
            value = type(self).function(*arguments)
            number = math.nan if value is None else float(value)
            if math.isinf(number):
                raise ValueError(f"{value!r} is not finite")
        except Exception as error:
            raise MeasureError(
                f"{self.name}: its function must return a finite number or NaN, got "
                f"{type(error).__name__}: {error} for the labels {_shown(labels)}; return "
                "float('nan') where it is undefined."
            ) from error
        return number


def _shown(labels: Sequence[float]) -> str:
    return f"[{', '.join(f'{label:g}' for label in labels[:10])}{', ...' * (len(labels) > 10)}]"


def _arrangements(counts: Counter[float]) -> Iterator[list[float]]:
    """Yield the distinct orders of some labels."""
    if not counts.total():
        yield []
        return
    for label in [label for label, count in counts.items() if count]:
        counts[label] -= 1
        for others in _arrangements(counts):
            yield [label, *others]
        counts[label] += 1


@typed
def measure_of(
    function: Callable[..., Any], name: str | None = None, *, higher_is_better: bool = True
) -> Measure:
    """Make a measure of a plain function of one query, and register it.

    It is slow: Python calls the function for each group, model and cutoff. A class with
    `shared_values` is the fast way; ``docs/how-to/own-measures.md`` has both. The values of groups
    are averaged.

    Parameters
    ----------
    function : callable
        ``function(labels)`` returns the value of a group: a number, or NaN or None where it is
        undefined. `labels` is a list of float: the labels of the rows, the highest score first; a
        row without a label has 0. With tied scores, ``ties="expected"`` averages over their orders.
        With a second parameter `k`, ``function(labels, k)``, the measure takes a cutoff; k is None
        without one.
    name : str, optional
        Name of the measure; by default that of the function.
    higher_is_better : bool
        Whether a higher value is better.

    Returns
    -------
    Measure
        As `register` returns it. Texts name it too: ``"Hits@3"``.

    Raises
    ------
    MeasureError
        If the name is taken or is no identifier, or the function takes other arguments. An
        evaluation raises it if the function fails, a row has no score, or a group has more than
        10,000 orders of tied rows.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> hits = fe.measure_of(lambda labels, k: sum(label > 0 for label in labels[:k]), name="Hits")
    >>> log = {"user": [1, 1, 1], "click": [1, 0, 1], "pctr": [0.9, 0.5, 0.1]}
    >>> result = fe.evaluate(log, group="user", label="click", score="pctr", measures="Hits@2")
    >>> result.value(hits @ 2)
    1.0
    """
    called = name or str(getattr(function, "__name__", type(function).__name__))
    try:
        parameters = list(signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin function without a signature
        parameters = []
    required = [p for p in parameters if p.default is Parameter.empty]
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    takes_cutoff = len(parameters) > 1 and parameters[1].name == "k"
    if len(required) > 1 + takes_cutoff or any(p.kind not in kinds for p in required[:2]):
        raise MeasureError(
            f"{called}: function must take labels, or labels and k, got "
            f"{', '.join(p.name for p in parameters)}; wrap it in such a function."
        )
    kind = type(
        called,
        (PlainMeasure,),
        {
            "__module__": str(getattr(function, "__module__", __name__)),
            "__qualname__": called,
            "name": called,
            "summary": (function.__doc__ or "a function of the labels of a group").split("\n")[0],
            "formula": f"{called}(labels{', k' * takes_cutoff})",
            "higher_is_better": higher_is_better,
            "takes_cutoff": takes_cutoff,
            "function": staticmethod(function),
        },
    )
    return register(kind)
