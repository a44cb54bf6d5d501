"""Numbers of a night as people read them, and verdicts as a word with its tone."""

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
    NightValue,
)
from fastrank_eval.results.format import printable

__all__ = [
    "STATUSES",
    "VerdictText",
    "ago",
    "ago_exactly",
    "amount",
    "caution",
    "confidence_of",
    "convention",
    "count",
    "digits_of",
    "gate_texts",
    "how_sure",
    "interval",
    "level_of",
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

#: What each status is called, and what it means where everything was judged.
STATUSES = {
    "fine": ("Fine", "Every gate passed, and the data are within their limits."),
    "changed": (
        "Changed",
        "No gate failed, but a number that has no gate is not as usual, or scores are few.",
    ),
    "regression": ("Regression", "A gate failed."),
    "data_quality": ("Data quality", "The data of this night cannot be relied on."),
}
#: Limits of drift, and what they are of.
_DRIFTS = {"max_volume_drift": "rows", "max_ctr_drift": "CTR"}
_NOT_JUDGED = "not judged"
NOTHING = "–"
_FEWEST_DIGITS, _MOST_DIGITS = 2, 6
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
    """Shorten a verdict; where there is none, say whether the interval holds zero.

    Examples
    --------
    >>> line = NightDifference(
    ...     "baseline", "new", "old", "", "all", "GAUC", 0.1, verdict="new is better: +0.1 GAUC"
    ... )
    >>> verdict_text(line)
    Said(word='better', tone='good')
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
    p = difference.p_value if math.isnan(difference.p_adjusted) else difference.p_adjusted
    if not math.isnan(p):
        clear = p <= 1 - confidence
    elif math.isfinite(difference.ci_low) and math.isfinite(difference.ci_high):
        clear = not difference.ci_low <= 0 <= difference.ci_high
    else:
        return VerdictText("not tested", "unknown")
    if not clear or not difference.delta:
        return VerdictText("unclear", "none")
    return VerdictText("higher" if difference.delta > 0 else "lower", "shift")


def confidence_of(night: Night) -> float:
    """The confidence of the intervals of a night."""
    told = night.conventions.get("confidence", 0.95)
    return float(told) if isinstance(told, int | float) else 0.95


def level_of(night: Night) -> str:
    """The same in percent."""
    return f"{100 * confidence_of(night):.12g}%"


def digits_of(values: Iterable[NightValue]) -> int:
    """Decimals that show half the narrowest interval to two digits.

    Examples
    --------
    >>> digits_of([NightValue("pctr", "", "all", "GAUC", 0.6, ci_low=0.588, ci_high=0.612)])
    3
    """
    halves = [
        half
        for half in ((value.ci_high - value.ci_low) / 2 for value in values)
        if math.isfinite(half) and half > 0
    ]
    if not halves:
        return 4
    return min(max(1 - Decimal(min(halves)).adjusted(), _FEWEST_DIGITS), _MOST_DIGITS)


def amount(value: float, digits: int, sign: bool = False) -> str:
    """A number to so many decimals; a dash where it is undefined.

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
    """An interval, empty where there is none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"[{amount(low, digits, sign)}, {amount(high, digits, sign)}]"


def p_text(difference: NightDifference) -> str:
    """The p-value of a difference, as it is corrected; empty where there is none.

    Examples
    --------
    >>> line = NightDifference("baseline", "new", "old", "", "all", "GAUC", 0.1, p_adjusted=0.01234)
    >>> p_text(line)
    'p 0.012'
    """
    p = difference.p_adjusted
    if math.isnan(p):
        return ""
    return "p <0.001" if p < 0.001 else f"p {p:.2g}"


def caution(found: str | None) -> str:
    """What is said of a value besides itself: that its interval is rough, or why it has none.

    Examples
    --------
    >>> caution("pooled"), caution("few_groups"), caution(None)
    ('no interval', 'few groups', '')
    """
    if found == "pooled":
        return "no interval"
    return (found or "").replace("_", " ")


def nights_text(number: int) -> str:
    """How many nights."""
    return "1 night" if number == 1 else f"{number} nights"


def share(value: float, digits: int = 2) -> str:
    """A share in percent.

    Examples
    --------
    >>> share(0.0412), share(1.0), share(float("nan"))
    ('4.12%', '100%', '–')
    """
    if not math.isfinite(value):
        return NOTHING
    return f"{value:.0%}" if value in (0, 1) else f"{value:.{digits}%}"


def count(number: float) -> str:
    """A whole number with its thousands apart."""
    return f"{number:,.0f}" if math.isfinite(number) else NOTHING


def rough_count(number: float) -> str:
    """A number in three digits, for axes.

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
    """What a kind of change is from."""
    return kind.replace("_", " ")


def ago_exactly(kind: str, night: Night) -> str:
    """The model or the night that a kind of change is from."""
    days = EARLIER.get(kind)
    if days is None:
        return night.baseline or ""
    return str(night.date - dt.timedelta(days=days))


def how_sure(level: str) -> str:
    """What intervals, p-values and verdicts of a page rest on.

    Parameters
    ----------
    level : str
        Such as ``"95%"``.
    """
    return (
        f"Each interval is of {level} confidence and takes groups as independent clusters "
        "(Student's t). Intervals are not adjusted for the number of comparisons; p and the word "
        "beside a change are (Holm, over all rows and over each slicing), so that a change whose "
        "interval leaves out zero may be unclear. From the baseline, changes are paired, on the "
        "same groups; from earlier nights, the nights are taken as independent though users come "
        "back."
    )


def meaning(night: Night) -> str:
    """What the status of a night means, and what of it was not judged."""
    _, means = STATUSES.get(night.status, ("", ""))
    if night.status != "fine":
        return means
    missing = not_judged(night)
    if missing:
        return f"Nothing failed of what was judged. Not judged: {'; '.join(missing)}."
    return means if night.gates else "No gate is set; the data are within their limits."


def not_judged(night: Night) -> list[str]:
    """Drift that too few earlier nights tell, and gates on earlier nights that are not there."""
    limits = night.conventions.get("quality")
    known = limits if isinstance(limits, Mapping) else _DRIFTS
    quality = night.quality
    drifts = zip(_DRIFTS, (quality.volume_drift, quality.ctr_drift), strict=True)
    found = [_DRIFTS[limit] for limit, z in drifts if limit in known and math.isnan(z)]
    drift = [f"drift of {' and '.join(found)}, with too few nights before"] if found else []
    gates = [g for g in night.gates if g.passed and g.reason.startswith(_NOT_JUDGED)]
    told = (g.reason.removeprefix(_NOT_JUDGED).removeprefix(":") for g in gates)
    return [*drift, *(f"{gate.condition},{why}" for gate, why in zip(gates, told, strict=True))]


def outcome_of(gate: GateOutcome) -> VerdictText:
    """What a gate said in a word."""
    if gate.passed and gate.reason.startswith(f"{_NOT_JUDGED}:"):
        return VerdictText("not judged", "unknown")
    return VerdictText("passed", "good") if gate.passed else VerdictText("failed", "bad")


def gate_texts(night: Night) -> list[str]:
    """The gates that failed, as they were written, with their numbers."""
    failed = [
        f"{gate.condition}: {gate.reason}" if gate.reason else gate.condition
        for gate in night.gates
        if not gate.passed
    ]
    return [f"gate failed: {each}" for each in failed]


def period_nights(night: Night, name: str) -> str:
    """How many nights of a longer period were merged, from which to which; empty if unknown."""
    dates = night.period_nights.get(name)
    if not dates or name not in PERIODS:
        return ""
    since = "" if len(dates) == 1 else f"{dates[0]} to "
    return f"{len(dates)} of {PERIODS[name]} nights, {since}{dates[-1]}"


def convention(value: object) -> str:
    """A convention as a line of text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {convention(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(convention(inner) for inner in value) or "none"
    return printable(str(value))
