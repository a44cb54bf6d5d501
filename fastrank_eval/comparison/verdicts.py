"""What a comparison says, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fastrank_eval.cell_texts import decimals
from fastrank_eval.comparison.compared_value import ComparedValue
from fastrank_eval.measures import Measure

__all__ = [
    "amount",
    "digits_of",
    "interval_text",
    "is_shown",
    "is_undecided",
    "undecided_text",
    "verdict_on",
]

_UNDECIDED = "no difference is shown"
_FOUND = "would have been found in 80% of such logs"
#: Tests that the interval about the difference is of; others may disagree with it.
_OF_THE_INTERVAL = ("clustered_t", "clustered_z", "bootstrap")
#: Of which neither more nor less is better.
_WITHOUT_DIRECTION = ("Bias", "NumNonrelRet", "NumRel", "NumRet", "PCOC")


def verdict_on(line: ComparedValue, measure: Measure, confidence: float) -> str:
    """Say which model is better, and how sure that is.

    Parameters
    ----------
    line : ComparedValue
        With everything but its verdict.
    measure : Measure
    confidence : float
        A difference is shown where the adjusted p-value is at most ``1 - confidence``.
    """
    name, base, what = line.score, line.baseline, line.measure
    if math.isnan(line.delta):
        missing = [
            model
            for model, value in ((base, line.base_value), (name, line.value))
            if math.isnan(value)
        ]
        return f"not compared: {what} of {' and '.join(missing)} is undefined"
    digits = digits_of(line)
    shift = f"{amount(line.delta, digits, sign=True)} {what}"
    if line.caution == "pooled":
        return f"not tested: {shift}; a measure of all rows together has no standard error here"
    if line.caution == "not_paired":
        return f"not tested: {shift}; slices of results are not paired, those of compare(by=) are"
    if line.caution == "one_group":
        return f"not tested: {shift}; one group tells no standard error"
    if line.caution == "no_variance":
        return f"not tested: {shift} in every group; without variance there is no scale"
    if line.caution == "no_difference":
        return f"no difference: {what} of {name} and {base} is the same in every group"
    interval = interval_text(line, digits)
    known = f", {100 * confidence:.12g}% CI {interval}" if interval else ""
    if is_shown(line, confidence):
        if line.test not in _OF_THE_INTERVAL:
            known += f"; p {_share(line.p_adjusted)} by {line.test}"
        if _contradicts(line, measure):
            return (
                f"mixed: {name} is {'better' if _wins_lead(line) else 'worse'} in more groups than "
                f"not ({line.wins:,} to {line.losses:,}), yet {shift}{known}"
            )
        return f"{name} is {_direction(line.delta, measure)}: {shift}{known}"
    said = f"{_UNDECIDED}: {shift}{known}"
    if line.p_value <= 1 - confidence:
        said += f"; p {_share(line.p_adjusted)} among {line.comparisons} comparisons"
    if line.mdd > 0:
        said += f"; a difference of {amount(line.mdd, digits)} {_FOUND}"
    return said


def is_shown(line: ComparedValue, confidence: float) -> bool:
    """Tell whether a difference is shown: significant, its p-value being corrected."""
    return line.p_adjusted <= 1 - confidence and line.delta != 0


def is_undecided(line: ComparedValue, confidence: float) -> bool:
    """Whether no difference is shown, and would not be without correction either."""
    return line.verdict.startswith(f"{_UNDECIDED}:") and not line.p_value <= 1 - confidence


def undecided_text(lines: Sequence[ComparedValue]) -> str:
    """The verdict on several such measures of a candidate."""
    said = f"{_UNDECIDED}: {', '.join(line.measure for line in lines)}"
    found = [amount(line.mdd, digits_of(line)) for line in lines if line.mdd > 0]
    if len(found) < len(lines):
        return said
    return f"{said}; differences of {', '.join(found)} {_FOUND}"


def amount(value: float, digits: int | None, sign: bool = False) -> str:
    """A number to so many decimals, or to three digits where those are too many."""
    form = f"{'+' if sign else ''},.{digits}f" if digits is not None else f"{'+' * sign}.3g"
    return format(value, form)


def interval_text(line: ComparedValue, digits: int | None = None) -> str:
    """The interval of a difference, signed; empty where none is known."""
    low, high = line.ci_low, line.ci_high
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    digits = digits_of(line) if digits is None else digits
    return f"[{amount(low, digits, sign=True)}, {amount(high, digits, sign=True)}]"


def digits_of(line: ComparedValue) -> int | None:
    """Decimals that show half the interval to two digits, or the difference to three."""
    half = (line.ci_high - line.ci_low) / 2
    return decimals(half if math.isfinite(half) and half > 0 else abs(line.delta) / 10)


def _direction(delta: float, measure: Measure) -> str:
    if measure.name in _WITHOUT_DIRECTION:
        return "higher" if delta > 0 else "lower"
    return "better" if (delta > 0) == measure.higher_is_better else "worse"


def _contradicts(line: ComparedValue, measure: Measure) -> bool:
    """Whether a test of numbers of groups or of ranks points the other way than the value."""
    if line.test not in ("sign", "wilcoxon") or line.wins == line.losses:
        return False
    return _wins_lead(line) != ((line.delta > 0) == measure.higher_is_better)


def _wins_lead(line: ComparedValue) -> bool:
    return (line.wins or 0) > (line.losses or 0)


def _share(p_value: float) -> str:
    return "<0.0001" if p_value < 1e-4 else f"{p_value:.2g}"
