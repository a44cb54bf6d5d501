"""Format the numbers and verdicts of a night as text."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from fastrank_eval.apps.nightly.night import (
    EARLIER,
    PERIODS,
    GateOutcome,
    Night,
    NightDifference,
)
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.results.format import printable

__all__ = [
    "STATUSES",
    "VerdictText",
    "ago",
    "ago_exactly",
    "amount",
    "caution",
    "confidence_of",
    "confidence_text",
    "convention",
    "count",
    "digits_of",
    "gate_texts",
    "how_sure",
    "interval",
    "meaning",
    "nights_text",
    "not_judged",
    "outcome_of",
    "p_text",
    "period_nights",
    "rough_count",
    "share",
    "verdict_text",
]

#: Name and meaning of each status, if everything was judged.
STATUSES = {
    "fine": ("Fine", "Every gate passed, and the data are within their limits."),
    "changed": (
        "Changed",
        "No gate failed, but a number that has no gate is not as usual, or scores are few.",
    ),
    "regression": ("Regression", "A gate failed."),
    "data_quality": ("Data quality", "The data of this night cannot be relied on."),
}
#: Limits of drift, and the names of the numbers that they limit.
_DRIFTS = {"max_volume_drift": "rows", "max_ctr_drift": "CTR"}
_NOT_JUDGED = "not judged"
NOTHING = "–"
_MIN_DIGITS, _MAX_DIGITS = 2, 6
_MINUS = "\u2212"
_TONES = {
    "better": "good",
    "worse": "bad",
    "higher": "shift",
    "lower": "shift",
    "mixed": "shift",
    "same": "none",
    "unclear": "none",
    "not tested": "unknown",
    "not compared": "unknown",
}
_SHORT = {
    "no difference is shown": "unclear",
    "no difference shown": "unclear",
    "no difference": "same",
}


@dataclass(frozen=True)
class VerdictText:
    """A verdict in a word or two.

    Parameters
    ----------
    word : str
    tone : str
        ``"good"``, ``"bad"``, ``"shift"`` (a change that is neither), ``"none"`` (no change is
        shown) or ``"unknown"``.
    """

    word: str
    tone: str

    @property
    def shown(self) -> bool:
        """Whether a change is shown."""
        return self.tone in ("good", "bad", "shift")


def verdict_text(difference: NightDifference, confidence: float = 0.95) -> VerdictText:
    """Shorten a verdict; without one, test whether the interval holds zero.

    Examples
    --------
    >>> line = NightDifference(
    ...     "baseline", "new", "old", "", "all", "GAUC", 0.1, verdict="new is better: +0.1 GAUC"
    ... )
    >>> verdict_text(line)
    VerdictText(word='better', tone='good')
    """
    text = difference.verdict.strip().removeprefix(f"{difference.score} is ")
    word = text.partition(":")[0].strip().lower()
    word = _SHORT.get(word, word)
    if difference.delta == 0 == difference.se:
        return VerdictText("same", "none")
    if word in _TONES:
        return VerdictText(word, _TONES[word])
    if math.isnan(difference.delta):
        return VerdictText("not compared", "unknown")
    p_value = difference.p_value if math.isnan(difference.p_adjusted) else difference.p_adjusted
    if not math.isnan(p_value):
        significant = p_value <= 1 - confidence
    elif math.isfinite(difference.ci_low) and math.isfinite(difference.ci_high):
        significant = not difference.ci_low <= 0 <= difference.ci_high
    else:
        return VerdictText("not tested", "unknown")
    if not significant or not difference.delta:
        return VerdictText("unclear", "none")
    return VerdictText("higher" if difference.delta > 0 else "lower", "shift")


def confidence_of(night: Night) -> float:
    """Return the confidence of the intervals of a night."""
    value = night.conventions.get("confidence", 0.95)
    return float(value) if isinstance(value, int | float) else 0.95


def confidence_text(night: Night) -> str:
    """Return the confidence of a night in percent."""
    return f"{100 * confidence_of(night):.12g}%"


def digits_of(values: Iterable[MeasureValue]) -> int:
    """Return the decimals that show the smallest half-width to two digits.

    Examples
    --------
    >>> covered = 4, 4, {}, 1.0, 1.0
    >>> digits_of([MeasureValue("a", "all", "GAUC", 0.6, *covered, ci_low=0.588, ci_high=0.612)])
    3
    """
    halves = [
        half
        for half in ((value.ci_high - value.ci_low) / 2 for value in values)
        if math.isfinite(half) and half > 0
    ]
    if not halves:
        return 4
    return min(max(1 - Decimal(min(halves)).adjusted(), _MIN_DIGITS), _MAX_DIGITS)


def amount(value: float, digits: int, sign: bool = False) -> str:
    """Format a number to some decimals; a dash if it is undefined.

    Examples
    --------
    >>> amount(0.12345, 3), amount(0.1, 2, sign=True), amount(float("nan"), 2)
    ('0.123', '+0.10', '–')
    """
    if not math.isfinite(value):
        return NOTHING
    text = f"{value:{'+' * sign},.{digits}f}"
    if float(text.replace(",", "")) == 0:
        text = text.lstrip("+-")
    return text.replace("-", _MINUS)


def interval(low: float, high: float, digits: int, sign: bool = False) -> str:
    """Format an interval; empty without one."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"[{amount(low, digits, sign)}, {amount(high, digits, sign)}]"


def p_text(difference: NightDifference) -> str:
    """Format the corrected p-value of a difference; empty without one.

    Examples
    --------
    >>> line = NightDifference("baseline", "a", "b", None, "all", "GAUC", 0.1, p_adjusted=0.01234)
    >>> p_text(line)
    'p 0.012'
    """
    p = difference.p_adjusted
    if math.isnan(p):
        return ""
    return "p <0.001" if p < 0.001 else f"p {p:.2g}"


def caution(name: str | None) -> str:
    """Format a caution about the interval of a value.

    The interval is rough, or there is none.

    Examples
    --------
    >>> caution("pooled"), caution("few_groups"), caution(None)
    ('no interval', 'few groups', '')
    """
    if name == "pooled":
        return "no interval"
    return (name or "").replace("_", " ")


def nights_text(number: int) -> str:
    """Format a number of nights."""
    return "1 night" if number == 1 else f"{number} nights"


def share(value: float, digits: int = 2) -> str:
    """Format a share in percent.

    Examples
    --------
    >>> share(0.0412), share(1.0), share(float("nan"))
    ('4.12%', '100%', '–')
    """
    if not math.isfinite(value):
        return NOTHING
    return f"{value:.0%}" if value in (0, 1) else f"{value:.{digits}%}"


def count(number: float) -> str:
    """Format an integer with separated thousands."""
    return f"{number:,.0f}" if math.isfinite(number) else NOTHING


def rough_count(number: float) -> str:
    """Format a number with three digits, for axes.

    Examples
    --------
    >>> rough_count(4_100_000), rough_count(950), rough_count(0)
    ('4.1M', '950', '0')
    """
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def ago(kind: str) -> str:
    """Format the reference of a kind of change."""
    return kind.replace("_", " ")


def ago_exactly(kind: str, night: Night) -> str:
    """Return the model or the date that a kind of change compares with."""
    days = EARLIER.get(kind)
    if days is None:
        return night.baseline or ""
    return str(night.date - dt.timedelta(days=days))


def how_sure(level: str) -> str:
    """Explain the intervals, p-values and verdicts of a page.

    Parameters
    ----------
    level : str
        Such as ``"95%"``.
    """
    return (
        f"Each interval has {level} confidence and takes groups as independent clusters "
        "(Student's t). p and the word next to a change are adjusted for the number of comparisons "
        "(Holm, over all rows and over each slicing); intervals are not. So a change can be "
        "unclear although its interval does not contain zero. Changes from the baseline are "
        "paired, on the same groups. Changes from earlier nights take the nights as independent, "
        "although users return."
    )


def meaning(night: Night) -> str:
    """Explain the status of a night, and list what was not judged."""
    _, text = STATUSES.get(night.status, ("", ""))
    if night.status != "fine":
        return text
    unjudged = not_judged(night)
    if unjudged:
        return f"Nothing that was judged failed. Not judged: {'; '.join(unjudged)}."
    return text if night.gates else "No gate is set; the data are within their limits."


def not_judged(night: Night) -> list[str]:
    """List drift and gates that lack earlier nights."""
    limits = night.conventions.get("quality")
    limit_names = limits if isinstance(limits, Mapping) else _DRIFTS
    quality = night.quality
    drifts = zip(_DRIFTS, (quality.volume_drift, quality.ctr_drift), strict=True)
    unjudged = [_DRIFTS[limit] for limit, z in drifts if limit in limit_names and math.isnan(z)]
    drift = [f"drift of {' and '.join(unjudged)}, with too few nights before"] if unjudged else []
    gates = [g for g in night.gates if g.passed and g.reason.startswith(_NOT_JUDGED)]
    reasons = (g.reason.removeprefix(_NOT_JUDGED).removeprefix(":") for g in gates)
    return [
        *drift,
        *(f"{gate.condition},{reason}" for gate, reason in zip(gates, reasons, strict=True)),
    ]


def outcome_of(gate: GateOutcome) -> VerdictText:
    """Return the outcome of a gate in a word."""
    if gate.passed and gate.reason.startswith(f"{_NOT_JUDGED}:"):
        return VerdictText("not judged", "unknown")
    return VerdictText("passed", "good") if gate.passed else VerdictText("failed", "bad")


def gate_texts(night: Night) -> list[str]:
    """Return the conditions of failed gates with their numbers."""
    failed = [
        f"{gate.condition}: {gate.reason}" if gate.reason else gate.condition
        for gate in night.gates
        if not gate.passed
    ]
    return [f"gate failed: {each}" for each in failed]


def period_nights(night: Night, name: str) -> str:
    """Format number and dates of merged nights; empty if unknown."""
    dates = night.period_nights.get(name)
    if not dates or name not in PERIODS:
        return ""
    since = "" if len(dates) == 1 else f"{dates[0]} to "
    return f"{len(dates)} of {PERIODS[name]} nights, {since}{dates[-1]}"


def convention(value: object) -> str:
    """Format a convention as a line of text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {convention(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(convention(inner) for inner in value) or "none"
    return printable(str(value))
