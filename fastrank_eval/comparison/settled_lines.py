"""Values, evidence and tests -> the lines of a comparison, corrected for their number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fastrank_eval.comparison.compared_value import ComparedValue
from fastrank_eval.comparison.evidence import Evidence
from fastrank_eval.comparison.kept_groups import KeptGroups
from fastrank_eval.comparison.model_tests import Choices, Tested, by_error, by_groups
from fastrank_eval.comparison.multiplicity import adjusted
from fastrank_eval.comparison.power import minimum_detectable_difference
from fastrank_eval.comparison.verdicts import verdict_on
from fastrank_eval.measure_value import MeasureValue
from fastrank_eval.measures import Measure
from fastrank_eval.relative_improvement import (
    CHANCE,
    error_of_rela_impr,
    has_chance,
    rela_impr,
)
from fastrank_eval.uncertainty import FEW_GROUPS, normal_quantile, t_quantile

__all__ = ["compared", "compared_model", "corrected"]

#: Differences that vary by no more than this share of their mean vary by rounding.
_ROUNDING = 2.0**-50
#: Why RelaImpr has no interval, or no value.
_NEAR, _NOT_ABOVE = "near_chance", "not_above_chance"


def compared(
    measure: Measure,
    base: MeasureValue,
    candidate: MeasureValue,
    evidence: Evidence,
    choices: Choices,
    tested: Tested | None = None,
) -> ComparedValue:
    """One measure of two models, as yet without what depends on the number of comparisons.

    Parameters
    ----------
    measure : Measure
    base, candidate : MeasureValue
    evidence : Evidence
    choices : Choices
    tested : Tested, optional
        By the values of every group; by default the difference is tested by its standard error.
    """
    delta = candidate.value - base.value
    test = choices.test
    if tested is None:
        test = test if test == "clustered_z" else "clustered_t"
        tested = by_error(test, delta, evidence)
    se, low, high = tested.interval or _around(delta, evidence, choices.confidence, test)
    line = ComparedValue(
        score=candidate.score,
        baseline=base.score,
        by=candidate.by,
        slice=candidate.slice,
        measure=candidate.measure,
        aggregate=candidate.aggregate,
        base_value=base.value,
        value=candidate.value,
        delta=delta,
        relative=delta / abs(base.value) if base.value else math.nan,
        se=se,
        ci_low=low,
        ci_high=high,
        test=test,
        statistic=tested.statistic,
        p_value=tested.p_value,
        groups=evidence.support.groups,
        degrees=_degrees(evidence, test),
        caution=_caution(delta, evidence, tested),
    )
    if has_chance(measure):
        line = _over_chance(line, base, candidate, evidence, choices)
    pairs = evidence.pairs
    if pairs is None:
        return line
    varies = pairs.deviation > _ROUNDING * abs(pairs.mean)
    wins, losses = pairs.higher, pairs.lower
    if not measure.higher_is_better:
        wins, losses = losses, wins
    return replace(
        line,
        wins=wins,
        ties=pairs.ties,
        losses=losses,
        only_base=pairs.only_base,
        only_candidate=pairs.only_other,
        effect_size=pairs.mean / pairs.deviation if varies else math.nan,
    )


def compared_model(
    measures: Sequence[Measure],
    base: Sequence[MeasureValue],
    candidate: Sequence[MeasureValue],
    evidence: Sequence[Evidence],
    choices: Choices,
    kept: KeptGroups | None,
) -> list[ComparedValue]:
    """Every measure of two models, as yet without what depends on the number of comparisons.

    Parameters
    ----------
    measures : sequence of Measure
    base, candidate : sequence of MeasureValue
        Of either model, a measure each.
    evidence : sequence of Evidence
        On their differences.
    choices : Choices
    kept : KeptGroups or None
        Values of every group, for tests that need them; None: differences are tested by their
        standard errors.
    """
    tests: dict[int, Tested] = {}
    if kept is not None and choices.needs_groups:
        deltas = {m: other.value - base[m].value for m, other in enumerate(candidate)}
        places = [kept.scores.index(side[0].score) for side in (base, candidate)]
        tests = by_groups(choices, kept, places[0], places[1], deltas)
    return [
        compared(measure, base[m], candidate[m], evidence[m], choices, tests.get(m))
        for m, measure in enumerate(measures)
    ]


def corrected(
    lines: Sequence[ComparedValue], measures: Mapping[str, Measure], choices: Choices
) -> list[ComparedValue]:
    """Lines that are compared together, with adjusted p-values and verdicts.

    Parameters
    ----------
    lines : sequence of ComparedValue
    measures : mapping of str to Measure
        By their text.
    choices : Choices
    """
    p_values = np.array([line.p_value for line in lines], np.float64)
    number = int(np.count_nonzero(~np.isnan(p_values)))
    # Of the least confidences the difference is rounded to 1.
    alpha = min(1 - choices.confidence, math.nextafter(1.0, 0.0))
    if choices.correction != "none":
        alpha /= max(number, 1)
    found = []
    for line, p_value in zip(lines, adjusted(p_values, choices.correction).tolist(), strict=True):
        line = replace(
            line, p_adjusted=p_value, comparisons=number, mdd=_least_detectable(line, alpha)
        )
        verdict = verdict_on(line, measures[line.measure], choices.confidence)
        found.append(replace(line, verdict=verdict))
    return found


def _around(
    delta: float, evidence: Evidence, confidence: float, test: str
) -> tuple[float, float, float]:
    """The standard error and the interval about a difference; NaN where none is known."""
    se = evidence.se
    if math.isnan(delta) or math.isnan(se) or evidence.support.groups < 2:
        return math.nan, math.nan, math.nan
    if test == "clustered_z":
        reach = normal_quantile(confidence) * se
    else:
        reach = t_quantile(confidence, evidence.support.degrees) * se
    return se, delta - reach, delta + reach


def _degrees(evidence: Evidence, test: str) -> float:
    """Return the degrees of freedom of the standard error; NaN where the test has none."""
    if test == "clustered_z" or evidence.support.groups < 2:
        return math.nan
    return evidence.support.degrees


def _caution(delta: float, evidence: Evidence, tested: Tested) -> str | None:
    if math.isnan(delta):
        return "undefined"
    if evidence.caution:
        return evidence.caution
    support = evidence.support
    if support.groups < 2:
        return "one_group" if support.groups else None
    if not delta and not evidence.se:
        return "no_difference"
    if tested.note == "no_variance":
        return "no_variance"
    return "few_groups" if support.effective_groups < FEW_GROUPS else None


def _least_detectable(line: ComparedValue, alpha: float) -> float:
    if not line.se > 0 or line.groups < 2:  # without variance the test has no p-value
        return math.nan
    degrees = None if math.isnan(line.degrees) else line.degrees
    return minimum_detectable_difference(line.se, alpha=alpha, degrees=degrees)


def _over_chance(
    line: ComparedValue,
    base: MeasureValue,
    candidate: MeasureValue,
    evidence: Evidence,
    choices: Choices,
) -> ComparedValue:
    """Add RelaImpr with its interval, where the baseline is far enough from chance for one."""
    found = rela_impr(candidate.value, base.value)
    if math.isnan(found):
        return replace(line, rela_impr_caution=None if math.isnan(line.delta) else _NOT_ABOVE)
    line = replace(line, rela_impr=found)

    def around(value: float, se: float) -> tuple[float, float, float]:
        return _around(value, replace(evidence, se=se), choices.confidence, line.test)

    _, least, _ = around(base.value, base.se)
    if least <= CHANCE:
        return replace(line, rela_impr_caution=_NEAR)
    se = evidence.rela_impr_se
    if evidence.pairs is None:
        se = error_of_rela_impr(candidate.value, base.value, candidate.se, base.se, evidence.se)
    se, low, high = around(found, se)
    return replace(line, rela_impr_se=se, rela_impr_ci_low=low, rela_impr_ci_high=high)
