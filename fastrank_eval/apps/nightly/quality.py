"""Judge the rows and scores of a night, and draw its curves.

Name measures in reports as the configuration names them: AUC is computed with its standard error,
of many rows in bins, and is shown without these options.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import threading
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from statistics import median
from typing import Any, TypeGuard

import numpy as np

from fastrank_eval import Measure
from fastrank_eval import measure as measure_of
from fastrank_eval._lib.arguments import integer
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.threads import JobMap, map_jobs
from fastrank_eval.apps.nightly.compare_nights import DAYS, NIGHTS, drift
from fastrank_eval.apps.nightly.night import (
    LABEL_LIMITS,
    CurveLine,
    Finding,
    Night,
    NightCalibration,
    NightQuality,
    Settings,
)
from fastrank_eval.apps.nightly.text import confidence_of, count, named, no_labels_text
from fastrank_eval.engine.conventions import with_clustered_errors, with_names
from fastrank_eval.engine.records import calibration_tables
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.groups.sort import order_by_score
from fastrank_eval.measures import WEIGHT, Param
from fastrank_eval.measures.auc import PooledAUC
from fastrank_eval.measures.pooled import PooledMeasure, PooledValue
from fastrank_eval.results import curve_points
from fastrank_eval.results.curve_points import Thresholds
from fastrank_eval.results.gates import ALL
from fastrank_eval.results.report import amount, legend_text, p_text, percent_text
from fastrank_eval.slicing.spec import Period, Quantile
from fastrank_eval.stats.score_runs import ScoreTable

#: Distinct scores that can be counted.
MOST_SCORES = 1000
#: Rows per step of a search for distinct scores.
_BLOCK = 1 << 12


class _Count(Measure):
    """A count per group, summed over groups; users cannot request it."""

    options = (WEIGHT,)
    takes_cutoff = False
    needs_ranks = False
    in_slices = False
    aggregate = "sum"
    range = (0.0, np.inf)
    # Counts ignore the weights of rows.
    uses_row_weights = True

    def empty_is_known(self) -> bool:
        """Return False: a group without a click has rows to count."""
        return False


class _TiedRows(_Count):
    """Rows that share their score with another row of their group."""

    name = "TiedRows"

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        """Count rows with the score of a neighbour in the order by score."""
        score, starts = ranking.scored.score, ranking.scored.starts
        ordered = score[order_by_score(score, starts)]
        same = np.zeros(len(score) + 1, np.bool_)
        np.equal(ordered[1:], ordered[:-1], out=same[1:-1])
        same[starts] = False
        before = np.append(0, np.cumsum(same[:-1] | same[1:]))
        return before[starts[1:]] - before[starts[:-1]]


class _SingleClassGroups(_Count):
    """Groups whose labels are all equal."""

    name = "SingleClassGroups"

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        """Return 1 for groups without a positive row or with only positive rows."""
        positives = ranking.relevant(1.0)
        return (positives == 0) | (positives == ranking.rows)


class _UnscoredRows(_Count):
    """Rows whose score is null."""

    name = "UnscoredRows"

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        """Count the rows without a score."""
        return ranking.rows - ranking.retrieved


class _UnjudgedRows(_Count):
    """Rows whose label is null."""

    name = "UnjudgedRows"
    needs_judgments = True

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        """Count the rows without a label."""
        return ranking.scored.chunk.unjudged_rows()


class FirstScores:
    """Distinct scores of rows up to a limit; threads may add rows.

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
        """Add the scores of rows; stop looking at them once the limit is reached."""
        with self._lock:
            self.rows += len(score)
        for first in range(0, len(score), _BLOCK):
            if len(self.scores) >= self._limit:
                return
            unique = np.unique(score[first : first + _BLOCK])
            with self._lock:
                self.scores = np.union1d(self.scores, unique)[: self._limit]


class DistinctScores(PooledMeasure):
    """Distinct scores, up to a limit; users cannot request it."""

    name = "DistinctScores"
    options = (Param("limit", 2, "where counting stops", integer(2, MOST_SCORES)),)
    range = (0.0, np.inf)

    def state_key(self) -> Hashable:
        """Return one key for a limit."""
        return "distinct scores", self.limit

    def new_state(self, weighted: bool, threads: int) -> Any:  # not saved
        """Return no scores."""
        return FirstScores(self.limit)

    def add_rows(self, state: FirstScores, scored: Scored) -> None:
        """Add the scores of rows."""
        state.add(scored.score)

    def pooled_value(self, state: FirstScores, map_jobs: JobMap) -> PooledValue:
        """Return the number of scores."""
        return PooledValue(float(len(state.scores)))


TIED, SINGLE_CLASS = _TiedRows(), _SingleClassGroups()
UNSCORED, UNJUDGED = _UnscoredRows(), _UnjudgedRows()


def quality_of(evaluation: Evaluation) -> NightQuality:
    """Return the quality of the rows of a run, without drift.

    Parameters
    ----------
    evaluation : Evaluation
        Its plan has the counting measures of this file; numbers of missing ones are NaN.
    """
    plan, totals = evaluation.plan, evaluation.totals.overall
    rows, groups, positives = totals.rows(), totals.groups(), totals.positives()
    model = plan.baseline or 0
    single_class_groups = _sum_of(evaluation, SINGLE_CLASS, model)
    if SINGLE_CLASS in plan.measures:
        # Groups that `groups` drops have no positive row, so they are of one class.
        index = plan.measures.index(SINGLE_CLASS)
        single_class_groups = (0 if math.isnan(single_class_groups) else single_class_groups) + sum(
            totals.means[model].dropped(index).values()
        )
    return NightQuality(
        rows=rows,
        groups=groups,
        positives=positives,
        ctr=_share(positives, rows),
        coverage=_coverage(evaluation, model),
        single_class_share=_share(single_class_groups, groups),
        tie_rate=_share(_sum_of(evaluation, TIED, model), rows),
        nulls=_nulls(evaluation),
        tie_rates={
            score: _share(_sum_of(evaluation, TIED, index), rows)
            for index, score in enumerate(plan.roles.scores)
            if TIED in plan.measures and rows
        },
        slices=_slices(evaluation),
    )


def judge_rows(
    night: Night,
    before: Sequence[Night],
    limits: Settings,
    repeated: dt.date | None = None,
    dead: Collection[str] = (),
) -> NightQuality:
    """Add drift and flags to the quality of a night.

    Parameters
    ----------
    night : Night
        A provisional night is judged without its labels.
    before : sequence of Night
        The latest first: the nights of `DAYS` days, then older ones of the same weekday.
    limits : Settings
    repeated : datetime.date, optional
        An earlier night with the same rows.
    dead : collection of str
        Models that fail for too few distinct scores: their ties say nothing of the rows.
    """
    quality, label, first = night.quality, None, night.date - dt.timedelta(DAYS)
    recent = [each for each in before if each.date >= first and each.quality.rows][:NIGHTS]
    if night.provisional:
        limits, label = Settings(**vars(limits) | dict.fromkeys(LABEL_LIMITS)), night.label_column
    judged = replace(
        quality,
        volume_drift=drift(float(quality.rows), [*map(_rows, recent)]),
        ctr_drift=math.nan if night.provisional else drift(quality.ctr, [*map(_ctr, recent)]),
    )
    usual = _usual(night, before)
    unusual = [
        _doubled_flag(night, usual, limits.max_tie_rise, dead),
        _factor_flag("rows", night, usual, _rows, limits.max_volume_factor),
        _factor_flag("CTR", night, usual, _ctr, limits.max_ctr_factor),
    ]
    flags = [
        "" if quality.rows or night.provisional else no_labels_text(night),
        "" if repeated is None else f"the rows are those of {repeated}",
        _below_limit("rows", judged.rows, limits.min_rows),
        _below_limit("groups", judged.groups, limits.min_groups),
        _below_limit("coverage", judged.coverage, limits.min_coverage),
        _above_limit("share of groups of one class", judged.single_class_share,
               limits.max_single_class_share),
        *(
            _above_limit(f"tie rate of {score!r}", rate, limits.max_tie_rate)
            for score, rate in judged.tie_rates.items()
        ),
        *(
            _above_limit(
                f"share of nulls of {column!r}", _share(nulls, judged.rows),
                limit_of(limits.max_null_share, column),
            )
            for column, nulls in judged.nulls.items()
            if column != label
        ),
        _drift_flag("rows", judged.volume_drift, limits.max_volume_drift),
        _drift_flag("CTR", judged.ctr_drift, limits.max_ctr_drift),
    ]  # fmt: skip
    return replace(
        judged,
        flags=tuple(filter(None, [*flags[:2], *unusual, *flags[2:]])),
        unusual=any(unusual) and not any(flags),
    )


#: The fewest usual nights for a limit that needs no table of the configuration, and the fewest of
#: the same weekday that are compared with instead of the last `NIGHTS`.
_MIN_USUAL, _WEEKDAYS = 7, 4
#: Conventions that choose rows, groups and scores.
_OF_ROWS = ("where", "columns", "score", "score_type")
#: A slice that would have this many groups by its share is not missing by chance.
_MIN_MISSING = 10
#: Fewer expected clicks make a click rate too rough to be compared.
_MIN_CLICKS = 50
#: A model with more ties by the median cannot show that rows are doubled.
_MOST_TIES = 0.5
#: Ratios of numbers that are equal differ by less.
_ROUNDING = 1e-9
#: The most slices of a slicing whose rows a night keeps; a slicing of more is left out.
_MAX_COUNTED = 1000
_QUOTED = r'"(?:[^"]|"")*"'
#: A part of the label of a slice: name, operator, value or bin.
LABEL_PART = re.compile(rf'((?:{_QUOTED}|[^"<>=,])+)(?:<|>=|=)(?:{_QUOTED}|\[[^)]*\)|[^,"])*')


def _rows(night: Night) -> float:
    return float(night.quality.rows)


def _ctr(night: Night) -> float:
    return math.nan if night.provisional else night.quality.ctr


def _usual(night: Night, before: Sequence[Night]) -> list[Night]:
    """Select nights of good rows and of the same conventions.

    A night that was unusual alone counts. After seven such nights in a row they are what is usual,
    with those that follow. Empty if nights are too few for a limit.
    """
    own = [night.conventions.get(name) for name in _OF_ROWS]
    usual = [
        each
        for each in before
        if each.quality.rows
        and (each.quality.unusual or each.status != "data_quality")
        and [each.conventions.get(name) for name in _OF_ROWS] == own
    ]
    for last in range(_MIN_USUAL, len(usual) + 1):
        if all(each.quality.unusual for each in usual[last - _MIN_USUAL : last]):
            return usual[:last]
    return usual if len(usual) >= _MIN_USUAL else []


def _factor_flag(
    name: str,
    night: Night,
    usual: Sequence[Night],
    number: Callable[[Night], float],
    limit: float | None,
) -> str:
    """Compare a number with its median on earlier nights.

    They are of the same weekday, if there are enough.
    """
    known = [each for each in usual if not math.isnan(number(each))]
    same = [each for each in known if each.date.weekday() == night.date.weekday()]
    same, what = same[:_WEEKDAYS], f"{night.date:%A}s"
    if len(same) < _WEEKDAYS:
        same, what = known[:NIGHTS], "nights"
    value = number(night)
    if not (limit and night.quality.rows) or len(known) < _MIN_USUAL or math.isnan(value):
        return ""
    middle, most = median(map(number, same)), limit * (1 + _ROUNDING)
    is_rough = name == "CTR" and middle * night.quality.rows < _MIN_CLICKS
    if is_rough or not middle or (middle <= most * value and value <= most * middle):
        return ""
    less = value < middle
    times = f"{percent_text(value / middle, 3)} of" if less else f"{value / middle:.3g} times"
    usually = f"the median {middle:,.6g} of the last {len(same)} {what}"
    return f"{name} {value:,.6g}, {times} {usually}"


def _doubled_flag(night: Night, usual: Sequence[Night], limit: float, dead: Collection[str]) -> str:
    """Say that rows may be doubled if the ties of every model rose.

    A row and its copy have the same scores in the same group. A model of coarser scores has more
    ties alone. Longer groups have more ties, in proportion to the other rows of a row.
    """
    rises: dict[str, tuple[float, float, int]] = {}
    for model, rate in night.quality.tie_rates.items():
        past = [
            each.quality.tie_rates[model] * max(1.0, _others(night) / _others(each))
            for each in usual[:NIGHTS]
            if model in each.quality.tie_rates and _others(each)
        ]
        if model not in dead and len(past) >= _MIN_USUAL and median(past) <= _MOST_TIES:
            rises[model] = rate - median(past), rate, len(past)
    if not limit or not rises or min(rises.values())[0] <= limit:
        return ""
    model = min(rises, key=rises.__getitem__)
    rise, rate, nights = rises[model]
    rows, others = night.quality.rows, named([name for name in rises if name != model])
    return (
        f"rows may be doubled: {round(rate * rows):,} of {rows:,} share their score of {model} "
        f"with another row of their group, and {percent_text(rate - rise, 3)} by the median of the "
        f"last {nights} nights" + f"; more of {others} do so too" * bool(others)
    )


def _others(night: Night) -> float:
    """Return the mean number of other rows in the group of a row, by groups."""
    return night.quality.rows / max(night.quality.groups, 1) - 1


def missing_slices(night: Night, before: Sequence[Night], limit: float) -> list[Finding]:
    """Find slices that had many rows on earlier nights and have none.

    Of slices that lie in another slice without rows, only that one is named.

    Parameters
    ----------
    night : Night
    before : sequence of Night
        As in `judge_rows`.
    limit : float
        A share of the rows; 0 finds nothing.
    """
    usual, groups = _usual(night, before)[:_MIN_USUAL], night.quality.groups
    missing: list[tuple[float, str]] = []
    for by, rows in night.quality.slices.items() if usual and limit else ():
        earlier = [(each.quality.slices.get(by, {}), each.quality.rows) for each in usual]
        for label in earlier[0][0].keys() - rows.keys():
            share = min(counts.get(label, 0) / total for counts, total in earlier)
            if share > limit and share * groups >= _MIN_MISSING:
                missing.append((-share, label))
    parts = {label: {one[0] for one in LABEL_PART.finditer(label)} for _, label in missing}
    names = [
        f"{label} ({percent_text(-share, 3)})"
        for share, label in sorted(missing)
        if not any(other < parts[label] for other in parts.values())
    ]
    text = f"No rows in {named(names)}; the share is the least of the last {_MIN_USUAL} nights"
    # They had rows on the nights before.
    return [Finding("missing", slice=ALL, detail=text, since=night.date)] if names else []


def _slices(evaluation: Evaluation) -> dict[str, dict[str, int]]:
    """Count the rows of each slice, without slices by label, time or quantile."""
    plan, counts = evaluation.plan, {}
    for slicing, sums in zip(plan.slice_encoders, evaluation.totals.slices, strict=True):
        slices = slicing.slices()
        changes = any(
            isinstance(part.binning, Quantile | Period)
            or part.column == ("positives" if part.activity else plan.roles.label)
            for part in slicing.spec.columns
        )
        if len(slices.labels) <= _MAX_COUNTED and not changes:
            rows = {
                label: sums.rows(code)
                for code, label in zip(slices.codes.tolist(), slices.labels, strict=True)
            }
            counts[str(slicing.spec)] = {label: number for label, number in rows.items() if number}
    return counts


def _sum_of(evaluation: Evaluation, measure: Measure, model: int) -> float:
    if measure not in evaluation.plan.measures:
        return math.nan
    m = evaluation.plan.measures.index(measure)
    means, weighted = evaluation.totals.overall.means[model], measure.weight != "uniform"
    return means.moments(m, weighted, is_sum=True).value


def _coverage(evaluation: Evaluation, model: int) -> float:
    """Return the share of groups that GAUC, or else another measure, uses."""
    plan = evaluation.plan
    grouped = [m for m in plan.measures if not m.pooled]
    requested = [m for m in grouped if m not in (TIED, SINGLE_CLASS, UNSCORED, UNJUDGED)]
    gauc = [m for m in requested if m.name == "GAUC"]
    measure = (gauc or requested or [plan.measures[0]])[0]
    score = plan.roles.scores[model]
    for record in evaluation.summary:
        if (record.score, record.slice, record.measure) == (score, "all", str(measure)):
            return _share(record.groups_used, record.groups)
    return math.nan


def _nulls(evaluation: Evaluation) -> dict[str, int]:
    """Count the nulls of each column; 0 if nulls of the column are an error."""
    plan, roles = evaluation.plan, evaluation.plan.roles
    null_counts = dict.fromkeys((*roles.keys, roles.label, *roles.scores), 0)
    if roles.unjudged == "drop":
        del null_counts[roles.label]
    if roles.unretrieved == "drop":
        null_counts = {name: 0 for name in null_counts if name not in roles.scores}
    if "null_groups" in evaluation.meta.conventions:
        null_counts = {name: 0 for name in null_counts if name not in roles.keys}
    if UNJUDGED in plan.measures:
        null_counts[roles.label] = _to_count(_sum_of(evaluation, UNJUDGED, 0))
    for model, score in enumerate(roles.scores):
        if UNSCORED in plan.measures:
            null_counts[score] = _to_count(_sum_of(evaluation, UNSCORED, model))
    for slicing, sums in zip(plan.slice_encoders, evaluation.totals.slices, strict=True):
        slices = slicing.slices()
        for part in slicing.spec.columns:
            if part.activity:
                continue
            mask = slices.values[part.name].is_null().to_pylist()
            null_counts[part.column] = sum(
                sums.rows(slice_index)
                for slice_index, is_null in zip(slices.codes.tolist(), mask, strict=True)
                if is_null
            )
    return null_counts


def _to_count(number: float) -> int:
    return 0 if math.isnan(number) else round(number)


def _share(part: float, total: float) -> float:
    return part / total if total else math.nan


def _below_limit(name: str, value: float, limit: float | None) -> str:
    return f"{name} {value:,.6g}, below {limit:,.6g}" if limit is not None and value < limit else ""


def _above_limit(name: str, value: float, limit: float | None) -> str:
    return f"{name} {value:.4g}, above {limit:.4g}" if limit is not None and value > limit else ""


def _drift_flag(name: str, distance: float, limit: float | None) -> str:
    if limit is None or math.isnan(distance) or abs(distance) <= limit:
        return ""
    direction = "more" if distance > 0 else "less"
    return f"{name} {abs(distance):.3g} deviations {direction} than on the nights before"


#: Defaults without a limit in the configuration: the fewest scores that do not fail a night, the
#: fewest that are no finding, and the fewest rows for a finding.
_MIN_SCORES, _FEW, _MIN_ROWS = 2, 10, 100


def limit_of(limit: Any, name: str) -> Any:
    """Return the limit of a model or column.

    A table has ``"*"`` for those that it does not name.

    Examples
    --------
    >>> limit_of(0.1, "country"), limit_of({"country": 0.1, "*": 0.0}, "slot"), limit_of({}, "slot")
    (0.1, 0.0, None)
    """
    return limit.get(name, limit.get("*")) if isinstance(limit, Mapping) else limit


def scores_to_count(limit: int | Mapping[str, int] | None) -> int:
    """Return the number of distinct scores to count for a limit."""
    limits = [*limit.values(), limit.get("*")] if isinstance(limit, Mapping) else [limit]
    return max(_FEW if each is None else each for each in limits)


def few_scores(
    evaluation: Evaluation, limit: int | Mapping[str, int] | None
) -> tuple[Finding, ...]:
    """Find the models with fewer distinct scores than a limit.

    Parameters
    ----------
    evaluation : Evaluation
        Its plan measures `DistinctScores` of `scores_to_count` of the limit, if that is above 1.
    limit : int, mapping of str to int, or None
        See `limit_of`. Fewer scores fail the night; fewer rows than the limit need as many scores
        as rows. None: one score fails the night, and fewer than ten scores in 100 rows or more are
        a finding.

    Returns
    -------
    tuple of Finding
        All rows before slices. A model with too few scores on all rows has no slices here.
    """
    counted = scores_to_count(limit)
    if counted < 2:
        return ()
    measure, few = DistinctScores(limit=counted), []
    scores, failed_models = evaluation.plan.roles.scores, dict[str, bool]()
    for part in evaluation.totals.each_slice():
        for model, score in enumerate(scores):
            state = measure.state_in(part.pooled_states.models[model])
            number, own = len(state.scores), limit_of(limit, score)
            minimum, enough = (_MIN_SCORES, _FEW) if own is None else (own, own)
            fails = state.rows >= 2 and number < min(minimum, state.rows)
            if not fails and (number >= min(enough, state.rows) or state.rows < _MIN_ROWS):
                continue
            # A model with too few scores on all rows is named once.
            if fails <= failed_models.get(score, -1):
                continue
            if part.by is None:
                failed_models[score] = fails
            few.append(
                Finding(
                    "scores",
                    f"distinct scores < {minimum}" if fails else "",
                    score,
                    part.by or "",
                    part.label,
                    limit=float(minimum if fails else enough),
                    number=float(number),
                    detail=f"{state.scores[0]:.6g}" if number == 1 else "",
                )
            )
    return tuple(few)


#: The most slices of a model and measure that a night keeps, without all rows.
_MOST_SLICES = 100
#: The most slices in text.
_MOST_IN_TEXT = 3


def calibration_of(evaluation: Evaluation) -> tuple[NightCalibration, ...]:
    """Return the worst 100 slices, and all rows, of each model and measure.

    Parameters
    ----------
    evaluation : Evaluation

    Returns
    -------
    tuple of NightCalibration
        By measure; the most sigmas first.
    """
    plan = evaluation.plan
    worst: list[NightCalibration] = []
    for (score, measure), table in calibration_tables(plan, evaluation.totals).items():
        for index, row in enumerate(table.to_pylist()):
            if index < _MOST_SLICES or row["slice"] == ALL:
                worst.append(NightCalibration(score=score, measure=measure, **row))
    indices = {measure: index for index, measure in enumerate(map(str, plan.measures))}
    return tuple(sorted(worst, key=lambda one: (indices[one.measure], -one.sigmas)))


def calibration_texts(night: Night) -> list[str]:
    """Describe the worst slices of each measure that are not calibrated."""
    worst: dict[tuple[str, str], NightCalibration] = {}
    for _, slices in groupby(night.calibration, attrgetter("measure")):
        wrong = [one for one in slices if calibration_verdict(one, night) == "not calibrated"]
        for one in wrong[:_MOST_IN_TEXT]:
            worst.setdefault((one.score, one.slice), one)
    return [
        f"{one.score} is not calibrated "
        f"{'on all rows' if one.slice == ALL else f'in {one.slice}'}: {amount(one.sigmas, 1)} "
        f"sigmas, {positives(one.expected)} positives expected and {positives(one.observed)} "
        f"observed, p {p_text(one.p_adjusted)}"
        for one in worst.values()
    ]


def positives(number: float) -> str:
    """Format a sum of positives, with a decimal below 1,000.

    Examples
    --------
    >>> positives(362.31), positives(92.0), positives(3001.6)
    ('362.3', '92', '3,002')
    """
    whole = number >= 1000 or float(number).is_integer()
    return count(number) if whole else amount(number, 1)


def calibration_verdict(one: NightCalibration, night: Night) -> str:
    """Return whether a slice is shown not to be calibrated."""
    is_significant = one.p_adjusted <= 1 - confidence_of(night)
    return "not calibrated" if is_significant else "no error shown"


_POINTS, _BINS, _DIGITS = 100, 20, 6


def has_curves(measure: Measure) -> TypeGuard[PooledAUC]:
    """Return whether a measure keeps all scores, with grade 1 as positive.

    Parameters
    ----------
    measure : Measure
    """
    return isinstance(measure, PooledAUC) and measure.bins is None and measure.rel == 1


def curves_of(evaluation: Evaluation) -> dict[str, tuple[CurveLine, ...]]:
    """Return the curves of every model from the scores that AUC keeps.

    Parameters
    ----------
    evaluation : Evaluation
        There are no curves without AUC, or with AUC in bins only. A model has no calibration curve
        if its scores are no probabilities.

    Returns
    -------
    dict of str to tuple of CurveLine
        ``"roc"``: true over false positive rate; ``"calibration"``: observed rate over mean
        prediction, in bins of equally many rows.
    """
    drawing = list(filter(has_curves, evaluation.plan.measures))
    if not drawing:
        return {}
    # Label the curve with the full area, if it is among the measures.
    auc = min(drawing, key=lambda m: m.max_fpr is not None)
    curves: dict[str, list[CurveLine | None]] = {"roc": [], "calibration": []}
    models = evaluation.totals.overall_states.models
    for score, states in zip(evaluation.plan.roles.scores, models, strict=True):
        scores = auc.scores_of(auc.state_in(states))
        table = scores.table(partial(map_jobs, evaluation.plan.threads))
        curves["roc"].append(_roc(score, table, evaluation, auc))
        curves["calibration"].append(_calibration(score, table, evaluation))
    return {kind: tuple(filter(None, lines)) for kind, lines in curves.items() if any(lines)}


def _roc(score: str, table: ScoreTable, evaluation: Evaluation, auc: PooledAUC) -> CurveLine | None:
    if table.missing:
        return None
    points = curve_points.curve_columns("roc", Thresholds.of(table), _POINTS)
    name = "AUC" if auc.max_fpr is None else f"AUC(max_fpr={auc.max_fpr:g})"
    key = score, "all", str(auc)
    areas = (v.value for v in evaluation.summary if (v.score, v.slice, v.measure) == key)
    label = f"{name} {legend_text(next(areas))}"
    return CurveLine(score, label, _rounded(points["fpr"]), _rounded(points["tpr"]))


def _calibration(score: str, table: ScoreTable, evaluation: Evaluation) -> CurveLine | None:
    if not len(table.score) or not table.positive + table.other > 0:
        return None
    rate = evaluation.meta.conventions["sampling_rate"]
    try:
        bins = curve_points.calibration_bins(
            table, score, bins=_BINS, binning="equal-count", confidence=0.95,
            sampling_rate=float(rate) if isinstance(rate, int | float) else 1.0,
        )  # fmt: skip
    except ColumnError:  # scores that are no probabilities
        return None
    count = len(bins["mean_prediction"])
    label = f"ECE {legend_text(curve_points.expected_error(bins))} ({count} bins of equal count)"
    return CurveLine(
        score, label, _rounded(bins["mean_prediction"]), _rounded(bins["observed_rate"])
    )


def _rounded(values: object) -> tuple[float, ...]:
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)  # type: ignore[attr-defined]


#: A night of more rows has AUC in this many bins: its state does not grow with the rows.
MOST_ROWS, BINS = 10_000_000, 1 << 16


def with_standard_errors(requested: tuple[Measure, ...], rows: int = 0) -> tuple[Measure, ...]:
    """Select for AUC the standard error that `compare` computes.

    Parameters
    ----------
    requested : sequence of Measure
        If one of them names a standard error of AUC, they are returned as they are.
    rows : int
        About as many as the night has.
    """
    if any(map(_is_clustered, requested)):
        return requested
    computed = with_clustered_errors(requested)
    if rows > MOST_ROWS:
        computed = tuple(m(bins=BINS) if _is_clustered(m) else m for m in computed)
    return with_names(requested, computed)


def with_display_names(night: Night, requested: Sequence[Measure], evaluation: Evaluation) -> Night:
    """Rename measures to display names, and list the requested names.

    Parameters
    ----------
    night : Night
        With the names of the computed measures.
    requested : sequence of Measure
        The measures of the configuration.
    evaluation : Evaluation
        The run of the night.
    """
    used = () if any(map(_is_clustered, requested)) else evaluation.plan.measures
    shown = {str(measure): _plain(measure) for measure in used if _is_clustered(measure)}
    computed = {
        shown.get(name, name): shown.get(text, text)
        for name, text in evaluation.meta.requested.items()
    }
    measures = tuple(shown.get(text, text) for text in night.measures)
    texts = ((shown.get(str(m), str(m)), m.display_name) for m in evaluation.plan.measures)
    names = {text: name for text, name in texts if text in measures and text != name}
    options = night.conventions["measures"].items()
    return replace(
        night,
        measures=measures,
        conventions={
            **night.conventions,
            "measures": {shown.get(text, text): each for text, each in options},
            **({"requested": computed} if computed else {}),
            **({"names": names} if names else {}),
        },
        values=tuple(replace(v, measure=shown.get(v.measure, v.measure)) for v in night.values),
        compared=tuple(
            replace(difference, measure=shown.get(difference.measure, difference.measure))
            for difference in night.compared
        ),
    )


def display_name(text: str, measures: Collection[str]) -> str:
    """Return the name that a night uses for a computed measure.

    Parameters
    ----------
    text : str
        The text of the computed measure.
    measures : collection of str
        The names that the night has.

    Examples
    --------
    >>> display_name("AUC(se='clustered')", ["GAUC", "AUC"])
    'AUC'
    """
    if text in measures:
        return text
    plain = _plain(measure_of(text))
    return plain if plain in measures else text


def _plain(measure: Measure) -> str:
    return str(measure(se=None, bins=None)) if _is_clustered(measure) else str(measure)


def _is_clustered(measure: Measure) -> bool:
    return isinstance(measure, PooledAUC) and measure.se == "clustered"
