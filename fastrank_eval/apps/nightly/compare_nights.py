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
    Place,
    places,
)
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_merge import RUN_CONVENTIONS
from fastrank_eval.measures import Measure
from fastrank_eval.measures.parser import measure as measure_of
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.stats.hypothesis_tests import adjust_p_values, clustered_t
from fastrank_eval.stats.intervals import normal_quantile, normal_tail, t_quantile

__all__ = [
    "DAYS",
    "LEAST_NIGHTS",
    "NIGHTS",
    "NORMAL",
    "EarlierNight",
    "differing",
    "drift",
    "earlier_nights",
    "from_baseline",
    "from_earlier",
]


#: Nights with rows that are looked back at, of how many days, and the fewest that tell anything.
NIGHTS, DAYS, LEAST_NIGHTS = 14, 28, 5
#: Makes the median absolute deviation of a normal distribution its standard deviation.
NORMAL = 1.4826
#: Nights that hardly differ give no scale: a deviation is at least this share of the median.
_LEAST_SHARE = 0.01


def drift(value: float, earlier: Sequence[float]) -> float:
    """Distance from the median of earlier nights in scaled median absolute deviations.

    ``(value - median) / max(1.4826 MAD, 0.01 abs(median))``: one bad night among the earlier ones
    moves neither.

    Parameters
    ----------
    value : float
    earlier : sequence of float
        NaN among them is left out.

    Returns
    -------
    float
        NaN of fewer than `LEAST_NIGHTS` numbers, or where all are 0.

    References
    ----------
    Leys, Ley, Klein, Bernard & Licata (2013), doi:10.1016/j.jesp.2013.03.013.

    Examples
    --------
    >>> round(drift(130.0, [100.0, 110.0, 90.0, 100.0, 105.0, 0.0]), 2)
    2.7
    """
    known = [number for number in earlier if not math.isnan(number)]
    if len(known) < LEAST_NIGHTS or math.isnan(value):
        return math.nan
    middle = median(known)
    scale = NORMAL * median(abs(number - middle) for number in known)
    scale = max(scale, _LEAST_SHARE * abs(middle))
    return (value - middle) / scale if scale > 0 else math.nan


#: Measures of which neither more nor less is better.
_WITHOUT_DIRECTION = ("Bias", "NumNonrelRet", "NumRel", "NumRet", "PCOC")


def from_baseline(
    done: Evaluation, values: Sequence[NightValue], confidence: float
) -> list[NightDifference]:
    """Every other model less the baseline, on the same groups.

    The standard error is that of two ratios of sums over the same clusters; p-values are of
    Student's t with one degree of freedom less than groups.

    Parameters
    ----------
    done : Evaluation
        Of a plan with a baseline; without one there is no difference.
    values : sequence of NightValue
        Of that run; other measures of the plan are left out.
    confidence : float

    Returns
    -------
    list of NightDifference
        With p-values adjusted (Holm) over all rows, and over each slicing.

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
    """
    plan = done.plan
    if plan.baseline is None:
        return []
    base, found = plan.roles.scores[plan.baseline], []
    known = {(v.score, v.by, v.slice, v.measure): v.value for v in values}
    for place in places(done):
        for model in plan.rivals:
            score = plan.roles.scores[model]
            for m, measure in enumerate(plan.measures):
                at = place.by, place.slice, str(measure)
                if (score, *at) not in known:
                    continue
                mine, theirs = known[base, *at], known[score, *at]
                delta = theirs - mine
                # Formulas have slopes only where they have values.
                missing = math.isnan(delta)
                sure = Evidence() if missing else _evidence(done, place, model, m)
                se, groups, degrees = sure.se, sure.support.groups, sure.support.degrees
                test = clustered_t(delta, se, groups, degrees)
                reach = t_quantile(confidence, degrees) * se if groups > 1 else math.nan
                line = NightDifference("baseline", score, base, *at, delta, se)
                found.append(_with_test(line, reach, mine, test.p_value))
    return _settled(found, confidence)


def from_earlier(
    kind: str, values: Iterable[NightValue], earlier: Iterable[NightValue], confidence: float
) -> list[NightDifference]:
    """Every model less itself on an earlier night, the groups of nights being independent.

    ``se = sqrt(se_1^2 + se_2^2)``; p-values and intervals are of the normal distribution.

    Parameters
    ----------
    kind : {"yesterday", "last_week", "beside"}
    values, earlier : iterable of NightValue
    confidence : float

    Returns
    -------
    list of NightDifference
        Of what both nights have, with p-values adjusted (Holm) over all rows, and over each
        slicing.
    """
    before = {(v.score, v.by, v.slice, v.measure): v for v in earlier}
    normal, found = normal_quantile(confidence), []
    for v in values:
        old = before.get((v.score, v.by, v.slice, v.measure))
        if old is None:
            continue
        delta, se = v.value - old.value, math.hypot(v.se, old.se)
        p_value = math.nan
        if se > 0 and not math.isnan(delta):
            p_value = normal_tail(delta / se)
        line = NightDifference(kind, v.score, v.score, v.by, v.slice, v.measure, delta, se)
        found.append(_with_test(line, normal * se, old.value, p_value))
    return _settled(found, confidence)


def _evidence(done: Evaluation, place: Place, model: int, m: int) -> Evidence:
    """Return how sure a model's value less that of the baseline is."""
    plan, sums = done.plan, place.sums
    measure, baseline = plan.measures[m], plan.baseline
    if baseline is None:
        return Evidence()
    if isinstance(measure, PooledMeasure):
        by_rows = sums.carriers(place.line)
        return pooled_evidence(
            place.pools, model, measure, plan.threads, sums.rows(place.line), by_rows
        )
    means = sums.means[baseline], sums.means[model]
    return group_evidence(measure, m, *means, sums.pairs[model], place.line)


def _with_test(line: NightDifference, reach: float, base: float, p_value: float) -> NightDifference:
    return replace(
        line,
        ci_low=line.delta - reach,
        ci_high=line.delta + reach,
        relative=line.delta / abs(base) if base else math.nan,
        p_value=p_value,
    )


def _settled(lines: Sequence[NightDifference], confidence: float) -> list[NightDifference]:
    """Adjust p-values for the number of those that stand together, and say what they mean."""
    measures = {text: measure_of(text) for text in {line.measure for line in lines}}
    found: list[NightDifference] = []
    for _, together in groupby(lines, key=lambda line: line.by):
        family = list(together)
        p_values = adjust_p_values(np.array([line.p_value for line in family], np.float64), "holm")
        for line, p_value in zip(family, p_values.tolist(), strict=True):
            verdict = _verdict(line, p_value, measures[line.measure], confidence)
            found.append(replace(line, p_adjusted=p_value, verdict=verdict))
    return found


def _verdict(line: NightDifference, p_value: float, measure: Measure, confidence: float) -> str:
    if line.delta and line.ci_low == line.delta == line.ci_high:
        # All groups agree, so that there is no test, but no doubt either which way it went.
        return "higher" if line.delta > 0 else "lower"
    if math.isnan(p_value):
        return "not tested"
    if p_value > 1 - confidence or not line.delta:
        return "no difference is shown"
    if measure.name in _WITHOUT_DIRECTION:
        return "higher" if line.delta > 0 else "lower"
    return "better" if (line.delta > 0) == measure.higher_is_better else "worse"


#: What may differ besides that between nights whose numbers mean the same.
_OF_A_NIGHT = frozenset(RUN_CONVENTIONS) - {"where"} | {"by", "quality", "requested"}
#: Options of a measure that its value does not depend on.
_OF_ERRORS = ("se",)


@dataclass(frozen=True)
class EarlierNight:
    """A night to compare with, or why there is none.

    Parameters
    ----------
    night : Night or None
    why : str
        Empty where there is one.
    unlike : bool
        Whether the night is there, but its numbers cannot be compared.
    """

    night: Night | None
    why: str = ""
    unlike: bool = False


def earlier_nights(night: Night, history: History | None) -> dict[str, EarlierNight]:
    """The nights of `EARLIER` as far as their numbers mean the same.

    Parameters
    ----------
    night : Night
    history : History or None

    Returns
    -------
    dict of str to EarlierNight
    """
    found = {}
    for kind, days in EARLIER.items():
        date = night.date - dt.timedelta(days=days)
        nights = [] if history is None else history.read(date, date, whole_from=night.date)
        found[kind] = _judged(night, nights[0] if nights else None, date)
    return found


def _judged(night: Night, earlier: Night | None, date: dt.date) -> EarlierNight:
    if earlier is None or not earlier.quality.rows:
        return EarlierNight(None, f"history has no rows of {date}")
    if earlier.status == "data_quality":
        return EarlierNight(None, f"the rows of {date} were not sound", unlike=True)
    unlike = differing(night, earlier)
    if unlike:
        why = f"conventions differ from {date}: {', '.join(unlike)}"
        return EarlierNight(None, why, unlike=True)
    return EarlierNight(earlier)


def differing(night: Night, earlier: Night) -> tuple[str, ...]:
    """The conventions, columns and options of measures by which two nights differ.

    Parameters
    ----------
    night, earlier : Night

    Returns
    -------
    tuple of str
        Their names; none where equal rows would give equal numbers.
    """
    mine, theirs = _conventions(night), _conventions(earlier)
    # Columns are known of nights that this version or a later one has kept.
    unknown = {"columns"} - (mine.keys() & theirs.keys())
    found = [
        name for name in mine | theirs if name not in unknown and mine.get(name) != theirs.get(name)
    ]
    options, others = _options(night), _options(earlier)
    return (*found, *(m for m in options if m in others and options[m] != others[m]))


def _conventions(night: Night) -> dict[str, Any]:
    return {name: v for name, v in night.conventions.items() if name not in _OF_A_NIGHT}


def _options(night: Night) -> dict[str, dict[str, Any]]:
    told = night.conventions.get("measures")
    return {
        str(measure): {name: value for name, value in how.items() if name not in _OF_ERRORS}
        for measure, how in (told.items() if isinstance(told, Mapping) else ())
        if isinstance(how, Mapping)
    }
