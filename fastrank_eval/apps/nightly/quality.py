"""Judge the soundness of rows."""

from __future__ import annotations

import datetime as dt
import math
import threading
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval.apps.nightly.compare_nights import drift
from fastrank_eval.apps.nightly.night import MOST_SCORES, NightQuality, QualityLimits
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.groups.sort import order_by_score
from fastrank_eval.measures.base import WEIGHT, Measure, Param, integer
from fastrank_eval.measures.pooled import PooledMeasure, PooledValue
from fastrank_eval.stats.weighted_scores import InOrder

__all__ = [
    "SINGLE_CLASS",
    "TIED",
    "UNJUDGED",
    "UNSCORED",
    "FirstScores",
    "distinct_scores",
    "judged",
    "quality_of",
]

#: Rows that are looked at together.
_BLOCK = 1 << 12


class _Count(Measure):
    """A number of each group, added up over all of them."""

    options = (WEIGHT,)
    formula = "n"
    reference = ""
    takes_cutoff = False
    needs_ranks = False
    aggregate = "sum"
    range = (0.0, np.inf)
    # A count is of rows, whatever they weigh.
    uses_row_weights = True

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Keep it out of the registry, which is of what users may ask for."""

    def empty_is_known(self) -> bool:
        """A group without a click has rows to count too."""
        return False

    def pass_key(self) -> Hashable:
        """Each goes over the rows by itself."""
        return "counts", self.name

    @classmethod
    def compute(cls, measures: Sequence[Any], ranking: Ranking, outs: Iterable[np.ndarray]) -> None:
        """Write the number of each group."""
        for _, out in zip(measures, outs, strict=True):
            out[:] = cls.of_groups(ranking)

    @classmethod
    def of_groups(cls, ranking: Ranking) -> np.ndarray:
        """The number of each group."""
        raise NotImplementedError  # pragma: no cover - abstract


class _TiedRows(_Count):
    name = "TiedRows"
    summary = "rows that share their score with another row of their group"

    @classmethod
    def of_groups(cls, ranking: Ranking) -> np.ndarray:
        """A row is tied if a neighbour in the order by score has its score."""
        score, starts = ranking.scored.score, ranking.scored.starts
        ordered = score[order_by_score(score, starts)]
        same = np.zeros(len(score) + 1, np.bool_)
        np.equal(ordered[1:], ordered[:-1], out=same[1:-1])
        same[starts] = False
        before = np.append(0, np.cumsum(same[:-1] | same[1:]))
        return before[starts[1:]] - before[starts[:-1]]


class _SingleClassGroups(_Count):
    name = "SingleClassGroups"
    summary = "groups whose labels are all alike"

    @classmethod
    def of_groups(cls, ranking: Ranking) -> np.ndarray:
        """1 where no row is positive, or every one."""
        positives = ranking.relevant(1.0)
        return (positives == 0) | (positives == ranking.rows)


class _UnscoredRows(_Count):
    name = "UnscoredRows"
    summary = "rows whose score is null"

    @classmethod
    def of_groups(cls, ranking: Ranking) -> np.ndarray:
        """Rows less those that have a score."""
        return ranking.rows - ranking.retrieved


class _UnjudgedRows(_Count):
    name = "UnjudgedRows"
    summary = "rows whose label is null"
    needs_judgments = True

    @classmethod
    def of_groups(cls, ranking: Ranking) -> np.ndarray:
        """Rows that nobody judged."""
        return ranking.scored.chunk.unjudged_rows()


class FirstScores:
    """The distinct scores of some rows, up to a limit; several threads may add rows.

    Parameters
    ----------
    limit : int

    Attributes
    ----------
    scores : ndarray of float64
        Ascending; at most `limit` of them.
    rows : int
        Rows with a score.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._lock = limit, threading.Lock()
        self.scores, self.rows = np.empty(0), 0

    def add(self, score: np.ndarray) -> None:
        """Add the scores of rows; few are looked at once the limit is reached."""
        with self._lock:
            self.rows += len(score)
        for first in range(0, len(score), _BLOCK):
            if len(self.scores) >= self._limit:
                return
            found = np.unique(score[first : first + _BLOCK])
            with self._lock:
                self.scores = np.union1d(self.scores, found)[: self._limit]


class _OfAllRows(PooledMeasure):
    """A number of all rows together."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Keep it out of the registry, which is of what users may ask for."""


class _DistinctScores(_OfAllRows):
    name = "DistinctScores"
    summary = "distinct scores, up to a limit"
    formula = "n"
    reference = ""
    options = (Param("limit", 2, "where counting stops", integer(2, MOST_SCORES)),)
    range = (0.0, np.inf)

    def state_key(self) -> Hashable:
        return "distinct scores", self.limit

    def new_state(self, weighted: bool, threads: int) -> FirstScores:
        return FirstScores(self.limit)

    def add_rows(self, state: FirstScores, scored: Scored) -> None:
        state.add(scored.score)

    def pooled_value(self, state: FirstScores, in_order: InOrder) -> PooledValue:
        return PooledValue(float(len(state.scores)))


def distinct_scores(limit: int) -> PooledMeasure:
    """The count of distinct scores that stops at a limit of 2 or more; see `FirstScores`."""
    return _DistinctScores(limit=limit)


TIED, SINGLE_CLASS = _TiedRows(), _SingleClassGroups()
UNSCORED, UNJUDGED = _UnscoredRows(), _UnjudgedRows()


def quality_of(done: Evaluation) -> NightQuality:
    """What a run tells of its rows, as yet without their drift.

    Parameters
    ----------
    done : Evaluation
        Of a plan with the measures of `row_counts`; what those left out would tell is NaN.
    """
    plan, whole = done.plan, done.totals.overall
    rows, groups, positives = whole.rows(), whole.groups(), whole.positives()
    model = plan.baseline or 0
    single = _counted(done, SINGLE_CLASS, model)
    if SINGLE_CLASS in plan.measures:
        # Groups that no measure is to see have no positive row.
        at = plan.measures.index(SINGLE_CLASS)
        single = (0 if math.isnan(single) else single) + sum(
            whole.means[model].dropped(at).values()
        )
    return NightQuality(
        rows=rows,
        groups=groups,
        positives=positives,
        ctr=_share(positives, rows),
        coverage=_coverage(done, model),
        single_class_share=_share(single, groups),
        tie_rate=_share(_counted(done, TIED, model), rows),
        nulls=_nulls(done),
        tie_rates={
            score: _share(_counted(done, TIED, at), rows)
            for at, score in enumerate(plan.roles.scores)
            if TIED in plan.measures and rows
        },
    )


def judged(
    quality: NightQuality,
    volumes: Sequence[tuple[int, float]],
    limits: QualityLimits,
    repeated: dt.date | None = None,
) -> NightQuality:
    """The same with drift and what is wrong.

    Parameters
    ----------
    quality : NightQuality
    volumes : sequence of (int, float)
        Rows and CTR of the nights before that have rows.
    limits : QualityLimits
    repeated : datetime.date, optional
        An earlier night that has the same rows.
    """
    found = replace(
        quality,
        volume_drift=drift(float(quality.rows), [float(rows) for rows, _ in volumes]),
        ctr_drift=drift(quality.ctr, [ctr for _, ctr in volumes]),
    )
    flags = [] if repeated is None else [f"the rows are those of {repeated}"]
    flags.append(_below("rows", found.rows, limits.min_rows))
    flags.append(_below("groups", found.groups, limits.min_groups))
    flags.append(_below("coverage", found.coverage, limits.min_coverage))
    flags.append(
        _above("share of groups of one class", found.single_class_share,
               limits.max_single_class_share)
    )  # fmt: skip
    for score, rate in found.tie_rates.items():
        flags.append(_above(f"tie rate of {score!r}", rate, limits.max_tie_rate))
    for column, nulls in found.nulls.items():
        share = _share(nulls, found.rows)
        flags.append(_above(f"share of nulls of {column!r}", share, limits.max_null_share))
    flags.append(_far("rows", found.volume_drift, limits.max_volume_drift))
    flags.append(_far("CTR", found.ctr_drift, limits.max_ctr_drift))
    return replace(found, flags=tuple(flag for flag in flags if flag))


def _counted(done: Evaluation, counted: Measure, model: int) -> float:
    if counted not in done.plan.measures:
        return math.nan
    return done.totals.overall.means[model].sum(done.plan.measures.index(counted))


def _coverage(done: Evaluation, model: int) -> float:
    """The share of groups that GAUC uses, or the first measure over groups, or the first."""
    plan = done.plan
    of_groups = [m for m in plan.measures if not m.pooled]
    requested = [m for m in of_groups if m not in (TIED, SINGLE_CLASS, UNSCORED, UNJUDGED)]
    gauc = [m for m in requested if m.name == "GAUC"]
    chosen = (gauc or requested or [plan.measures[0]])[0]
    score = plan.roles.scores[model]
    for line in done.summary:
        if (line.score, line.slice, line.measure) == (score, "all", str(chosen)):
            return _share(line.groups_used, line.groups)
    return math.nan


def _nulls(done: Evaluation) -> dict[str, int]:
    """Nulls of each column that may hold some, and 0 of those whose nulls are an error."""
    plan, roles = done.plan, done.plan.roles
    found = dict.fromkeys((*roles.group, roles.label, *roles.scores), 0)
    if roles.unjudged == "drop":
        del found[roles.label]
    if UNJUDGED in plan.measures:
        found[roles.label] = _whole(_counted(done, UNJUDGED, 0))
    for model, score in enumerate(roles.scores):
        if UNSCORED in plan.measures:
            found[score] = _whole(_counted(done, UNSCORED, model))
    for slicing, sums in zip(plan.slicings, done.totals.slices, strict=True):
        slices = slicing.slices()
        for part in slicing.spec.columns:
            if part.activity:
                continue
            null = _null_mask(slices.values[part.name])
            found[part.column] = sum(
                sums.rows(line)
                for line, missing in zip(slices.codes.tolist(), null, strict=True)
                if missing
            )
    return found


def _null_mask(values: pa.Array) -> list[bool]:
    return [bool(missing) for missing in values.is_null().to_pylist()]


def _whole(number: float) -> int:
    return 0 if math.isnan(number) else round(number)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _below(what: str, value: float, least: float | None) -> str:
    return f"{what} {value:,.6g}, below {least:,.6g}" if least is not None and value < least else ""


def _above(what: str, value: float, most: float | None) -> str:
    return f"{what} {value:.4g}, above {most:.4g}" if most is not None and value > most else ""


def _far(what: str, distance: float, most: float | None) -> str:
    if most is None or math.isnan(distance) or abs(distance) <= most:
        return ""
    way = "more" if distance > 0 else "less"
    return f"{what} {abs(distance):.3g} deviations {way} than on the nights before"
