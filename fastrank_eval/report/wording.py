"""Numbers of a night as people read them, and verdicts as a word with its tone."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fastrank_eval.cell_texts import printable
from fastrank_eval.report.nights import PERIODS, Night, NightDifference, NightValue

__all__ = [
    "STATUSES",
    "Said",
    "ago",
    "ago_exactly",
    "amount",
    "confidence_of",
    "convention",
    "count",
    "digits_of",
    "interval",
    "period_nights",
    "reasons",
    "rough_count",
    "said_of",
    "share",
]

#: What each status is called, and what it means.
STATUSES = {
    "fine": ("Fine", "Every gate passed and the data look as usual."),
    "regression": ("Regression", "A gate failed."),
    "data_quality": ("Data quality", "The data of this night cannot be relied on."),
}
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
class Said:
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


def said_of(difference: NightDifference, confidence: float = 0.95) -> Said:
    """Shorten a verdict; where there is none, say whether the interval holds zero.

    Examples
    --------
    >>> line = NightDifference(
    ...     "baseline", "new", "old", "", "all", "GAUC", 0.1, verdict="new is better: +0.1 GAUC"
    ... )
    >>> said_of(line)
    Said(word='better', tone='good')
    """
    text = difference.verdict.strip().removeprefix(f"{difference.score} is ")
    word = text.partition(":")[0].strip().lower()
    word = _SHORT.get(word, word)
    if word in _TONES:
        return Said(word, _TONES[word])
    if math.isnan(difference.delta):
        return Said("not compared", "unknown")
    p = difference.p_value if math.isnan(difference.p_adjusted) else difference.p_adjusted
    if not math.isnan(p):
        clear = p <= 1 - confidence
    elif math.isfinite(difference.ci_low) and math.isfinite(difference.ci_high):
        clear = not difference.ci_low <= 0 <= difference.ci_high
    else:
        return Said("not tested", "unknown")
    if not clear or not difference.delta:
        return Said("unclear", "none")
    return Said("higher" if difference.delta > 0 else "lower", "shift")


def confidence_of(night: Night) -> float:
    """The confidence of the intervals of a night."""
    told = night.conventions.get("confidence", 0.95)
    return float(told) if isinstance(told, int | float) else 0.95


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
    return min(max(1 - math.floor(math.log10(min(halves))), _FEWEST_DIGITS), _MOST_DIGITS)


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
    days = {"yesterday": 1, "last_week": 7}.get(kind)
    if days is None:
        return night.baseline or ""
    return str(night.date - dt.timedelta(days=days))


def reasons(night: Night) -> list[str]:
    """Why a night is not fine: gates that failed, what is wrong with its data."""
    told = [
        f"{gate.condition}: {gate.reason}" if gate.reason else gate.condition
        for gate in night.gates
        if not gate.passed
    ]
    return [*told, *night.quality.flags]


def period_nights(night: Night, name: str) -> str:
    """How many nights a longer period has, as ``5 of 7 nights``; empty where that is not known."""
    dates = night.period_nights.get(name)
    if dates is None or name not in PERIODS:
        return ""
    return f"{len(dates)} of {PERIODS[name]} nights"


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
