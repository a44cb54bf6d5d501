"""Compare a night with the baseline and with earlier nights."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median
from typing import Any

import numpy as np

from fastrank_eval.analysis.compare_tests import Evidence, group_evidence, pooled_evidence
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import (
    EARLIER,
    Night,
    NightDifference,
    NightValue,
    SliceOfRun,
    slices_of_run,
)
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_merge import RUN_CONVENTIONS
from fastrank_eval.measures import Measure
from fastrank_eval.measures.parser import measure as measure_of
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.stats.hypothesis_tests import adjust_p_values, clustered_test
from fastrank_eval.stats.intervals import normal_quantile, normal_tail, t_quantile

__all__ = [
    "DAYS",
    "MIN_NIGHTS",
    "NIGHTS",
    "NORMAL",
    "EarlierNight",
    "convention_differences",
    "drift",
    "earlier_nights",
    "from_baseline",
    "from_earlier",
]


#: Earlier nights with rows in use, the days that they come from, and the fewest nights needed.
NIGHTS, DAYS, MIN_NIGHTS = 14, 28, 5
#: Scales the median absolute deviation of a normal distribution to its standard deviation.
NORMAL = 1.4826
#: The scale is at least this share of the median, for nights that hardly differ.
_MIN_SHARE = 0.01


def drift(value: float, earlier: Sequence[float]) -> float:
    """Return the distance from the median in scaled absolute deviations.

    ``(value - median) / max(1.4826 MAD, 0.01 abs(median))``: one bad night among the earlier ones
    changes neither median nor MAD.

    Parameters
    ----------
    value : float
    earlier : sequence of float
        Values of earlier nights; NaN is left out.

    Returns
    -------
    float
        NaN with fewer than `MIN_NIGHTS` numbers, or if all are 0.

    References
    ----------
    Leys, Ley, Klein, Bernard & Licata (2013), doi:10.1016/j.jesp.2013.03.013.

    Examples
    --------
    >>> round(drift(130.0, [100.0, 110.0, 90.0, 100.0, 105.0, 0.0]), 2)
    2.7
    """
    finite = [number for number in earlier if not math.isnan(number)]
    if len(finite) < MIN_NIGHTS or math.isnan(value):
        return math.nan
    middle = median(finite)
    scale = NORMAL * median(abs(number - middle) for number in finite)
    scale = max(scale, _MIN_SHARE * abs(middle))
    return (value - middle) / scale if scale > 0 else math.nan


#: Measures without a better direction.
_WITHOUT_DIRECTION = ("Bias", "NumNonrelRet", "NumRel", "NumRet", "PCOC")


def from_baseline(
    evaluation: Evaluation, values: Sequence[NightValue], confidence: float
) -> list[NightDifference]:
    """Return the differences of all other models from the baseline.

    Both are values of the same groups. The standard error is that of the difference of two ratios
    of sums over the same clusters. p-values are from Student's t with one degree of freedom less
    than groups.

    Parameters
    ----------
    evaluation : Evaluation
        Its plan must have a baseline; without one there is no difference.
    values : sequence of NightValue
        Values of that run. Other measures of the plan are left out.
    confidence : float

    Returns
    -------
    list of NightDifference
        With p-values adjusted (Holm) over all rows, and over each slicing.

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
    """
    plan = evaluation.plan
    if plan.baseline is None:
        return []
    base, differences = plan.roles.scores[plan.baseline], []
    values_by_key = {(v.score, v.by, v.slice, v.measure): v.value for v in values}
    for slice_of_run in slices_of_run(evaluation):
        for model in plan.rivals:
            score = plan.roles.scores[model]
            for m, measure in enumerate(plan.measures):
                key = slice_of_run.by, slice_of_run.slice, str(measure)
                if (score, *key) not in values_by_key:
                    continue
                base_value, value = values_by_key[base, *key], values_by_key[score, *key]
                delta = value - base_value
                # An undefined value has no slopes for the standard error.
                undefined = math.isnan(delta)
                evidence = (
                    Evidence() if undefined else _evidence(evaluation, slice_of_run, model, m)
                )
                se, groups, degrees = evidence.se, evidence.support.groups, evidence.support.degrees
                test = clustered_test(delta, se, groups, degrees)
                half_width = t_quantile(confidence, degrees) * se if groups > 1 else math.nan
                difference = NightDifference("baseline", score, base, *key, delta, se)
                differences.append(_with_test(difference, half_width, base_value, test.p_value))
    return _with_verdicts(differences, confidence)


def from_earlier(
    kind: str, values: Iterable[NightValue], earlier: Iterable[NightValue], confidence: float
) -> list[NightDifference]:
    """Return the differences of models from an earlier night.

    Groups of two nights are independent: ``se = sqrt(se_1^2 + se_2^2)``. p-values and intervals
    are from the normal distribution.

    Parameters
    ----------
    kind : {"yesterday", "last_week", "before", "other"}
    values, earlier : iterable of NightValue
    confidence : float

    Returns
    -------
    list of NightDifference
        One for each value that both nights have, with p-values adjusted (Holm) over all rows, and
        over each slicing.
    """
    before = {(v.score, v.by, v.slice, v.measure): v for v in earlier}
    normal, differences = normal_quantile(confidence), []
    for v in values:
        old = before.get((v.score, v.by, v.slice, v.measure))
        if old is None:
            continue
        delta, se = v.value - old.value, math.hypot(v.se, old.se)
        p_value = math.nan
        if se > 0 and not math.isnan(delta):
            p_value = normal_tail(delta / se)
        difference = NightDifference(kind, v.score, v.score, v.by, v.slice, v.measure, delta, se)
        differences.append(_with_test(difference, normal * se, old.value, p_value))
    return _with_verdicts(differences, confidence)


def _evidence(evaluation: Evaluation, slice_of_run: SliceOfRun, model: int, m: int) -> Evidence:
    """Return the standard error of a difference from the baseline."""
    plan, sums = evaluation.plan, slice_of_run.sums
    measure, baseline = plan.measures[m], plan.baseline
    if baseline is None:
        return Evidence()
    if isinstance(measure, PooledMeasure):
        by_rows = sums.carriers(slice_of_run.slice_index)
        return pooled_evidence(
            slice_of_run.row_states,
            model,
            measure,
            plan.threads,
            sums.rows(slice_of_run.slice_index),
            by_rows,
        )
    means = sums.means[baseline], sums.means[model]
    return group_evidence(measure, m, *means, sums.pairs[model], slice_of_run.slice_index)


def _with_test(
    difference: NightDifference, half_width: float, base: float, p_value: float
) -> NightDifference:
    return replace(
        difference,
        ci_low=difference.delta - half_width,
        ci_high=difference.delta + half_width,
        relative=difference.delta / abs(base) if base else math.nan,
        p_value=p_value,
    )


def _with_verdicts(
    differences: Sequence[NightDifference], confidence: float
) -> list[NightDifference]:
    """Adjust p-values over all rows and over each slicing, and add verdicts."""
    measures = {
        text: measure_of(text) for text in {difference.measure for difference in differences}
    }
    result: list[NightDifference] = []
    for _, rows in groupby(differences, key=lambda difference: difference.by):
        family = list(rows)
        p_values = adjust_p_values(
            np.array([difference.p_value for difference in family], np.float64), "holm"
        )
        for difference, p_value in zip(family, p_values.tolist(), strict=True):
            verdict = _verdict(difference, p_value, measures[difference.measure], confidence)
            result.append(replace(difference, p_adjusted=p_value, verdict=verdict))
    return result


def _verdict(
    difference: NightDifference, p_value: float, measure: Measure, confidence: float
) -> str:
    if difference.delta and difference.ci_low == difference.delta == difference.ci_high:
        # All groups agree: there is no test, but the direction is certain.
        return "higher" if difference.delta > 0 else "lower"
    if math.isnan(p_value):
        return "not tested"
    if p_value > 1 - confidence or not difference.delta:
        return "no difference is shown"
    if measure.name in _WITHOUT_DIRECTION:
        return "higher" if difference.delta > 0 else "lower"
    return "better" if (difference.delta > 0) == measure.higher_is_better else "worse"


#: Conventions that may differ between comparable nights.
_NIGHT_CONVENTIONS = frozenset(RUN_CONVENTIONS) - {"where"} | {"by", "quality", "requested"}
#: Options of a measure that do not change its value.
_ERROR_OPTIONS = ("se",)


@dataclass(frozen=True)
class EarlierNight:
    """A night to compare with, or the reason why there is none.

    Parameters
    ----------
    night : Night or None
    reason : str
        Empty if there is a night.
    incomparable : bool
        Whether the night exists but its numbers cannot be compared.
    """

    night: Night | None
    reason: str = ""
    incomparable: bool = False


def earlier_nights(night: Night, history: History | None) -> dict[str, EarlierNight]:
    """Return the nights of `EARLIER` with comparable numbers.

    Parameters
    ----------
    night : Night
    history : History or None

    Returns
    -------
    dict of str to EarlierNight
    """
    result = {}
    for kind, days in EARLIER.items():
        date = night.date - dt.timedelta(days=days)
        nights = [] if history is None else history.read(date, date, details_from=night.date)
        result[kind] = _comparable(night, nights[0] if nights else None, date)
    return result


def _comparable(night: Night, earlier: Night | None, date: dt.date) -> EarlierNight:
    if earlier is None or not earlier.quality.rows:
        return EarlierNight(None, f"history has no rows of {date}")
    if earlier.status == "data_quality":
        return EarlierNight(None, f"the rows of {date} were not sound", incomparable=True)
    different = convention_differences(night, earlier)
    if different:
        reason = f"conventions differ from {date}: {', '.join(different)}"
        return EarlierNight(None, reason, incomparable=True)
    return EarlierNight(earlier)


def convention_differences(night: Night, earlier: Night) -> tuple[str, ...]:
    """Return the conventions, columns and measure options that differ.

    Parameters
    ----------
    night, earlier : Night

    Returns
    -------
    tuple of str
        Empty if equal rows would give equal numbers.
    """
    left, right = _conventions(night), _conventions(earlier)
    # Nights written by an older version do not list their columns.
    unknown = {"columns"} - (left.keys() & right.keys())
    different = [
        name for name in left | right if name not in unknown and left.get(name) != right.get(name)
    ]
    options, earlier_options = _options(night), _options(earlier)
    return (
        *different,
        *(m for m in options if m in earlier_options and options[m] != earlier_options[m]),
    )


def _conventions(night: Night) -> dict[str, Any]:
    return {name: v for name, v in night.conventions.items() if name not in _NIGHT_CONVENTIONS}


def _options(night: Night) -> dict[str, dict[str, Any]]:
    options_by_measure = night.conventions.get("measures")
    return {
        str(measure): {name: value for name, value in options.items() if name not in _ERROR_OPTIONS}
        for measure, options in (
            options_by_measure.items() if isinstance(options_by_measure, Mapping) else ()
        )
        if isinstance(options, Mapping)
    }
