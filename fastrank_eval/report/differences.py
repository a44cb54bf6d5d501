"""How a night's values differ: from the baseline in pairs, from earlier nights unpaired."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from fastrank_eval.comparison.evidence import Evidence, of_groups, of_pool
from fastrank_eval.comparison.multiplicity import adjusted
from fastrank_eval.comparison.paired_tests import clustered_t
from fastrank_eval.evaluation import Evaluation
from fastrank_eval.measures import Measure
from fastrank_eval.measures.pooled_measure import PooledMeasure
from fastrank_eval.measures.text import measure as measure_of
from fastrank_eval.report.nights import NightDifference, NightValue
from fastrank_eval.report.places import Place, places
from fastrank_eval.uncertainty import normal_quantile, normal_tail, t_quantile

__all__ = ["from_baseline", "from_earlier"]

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
        return of_pool(place.pools, model, measure, plan.threads, sums.rows(place.line), by_rows)
    means = sums.means[baseline], sums.means[model]
    return of_groups(measure, m, *means, sums.pairs[model], place.line)


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
        p_values = adjusted(np.array([line.p_value for line in family], np.float64), "holm")
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
