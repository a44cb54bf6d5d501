"""What is wrong with a night, in sentences for people who know no gates."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

from fastrank_eval.apps.nightly.night import Finding, Night
from fastrank_eval.apps.nightly.text import STATUSES, amount, confidence_of, count, nights_text
from fastrank_eval.results.gate_parser import ALL

__all__ = ["lead", "sentences"]

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MOST = 5
_MOST_NAMED = 3
#: Decimals of a number, and of one whose difference is so small that they would not show it.
_DIGITS, _MOST_DIGITS, _SMALL = 3, 6, 0.002
_CHANGED = ("better", "worse", "higher", "lower")
_LIMITS = {"<": "below", "<=": "not above", ">": "above", ">=": "not below", "=": "equal to",
           "!=": "other than"}  # fmt: skip
_ENDS = {"ci_low": "lower", "ci_high": "upper"}
_SHARES = {
    "dropped_share": "groups do not count for",
    "rows_share": "rows count for",
    "positives_share": "positive rows count for",
}
_GROUPS = {"groups": "groups", "groups_used": "groups that count",
           "effective_groups": "effective groups"}  # fmt: skip
_UNSURE = ", not significant once corrected for the number of comparisons"
#: Names that an s makes many of.
_PLAIN = re.compile(r"[a-z]*[a-rt-xz]")


def lead(night: Night) -> str:
    """The sentence that says most of what is wrong; empty for a night that is fine."""
    return next(iter(sentences(night)), "")


def sentences(night: Night) -> list[str]:
    """Say what is wrong with a night or new on it, the most important first.

    Parameters
    ----------
    night : Night

    Returns
    -------
    list of str
        What is wrong with its rows, then what was found of models, some of it at most. Each
        has a main sentence, then since when it is so and whether other slices are like it.
    """
    told = []
    flags = night.quality.flags
    if flags:
        means = STATUSES["data_quality"][1].removesuffix(".")
        told.append(f"{means}: {'; '.join(flags[:_MOST])}{_more(len(flags) - _MOST)}.")
    dead = {
        one.score
        for one in night.findings
        if one.kind == "scores" and one.slice == ALL and one.condition
    }
    found = _chosen(
        one
        for one in night.findings
        # A model that fails for its few scores is worse for that reason.
        if one.kind != "change" or one.compared == "before" or one.score not in dead
    )
    of_models = list(dict.fromkeys(_sentence(night, *together) for together in found))
    left = len(of_models) - _MOST
    return [*told, *of_models[:_MOST], *([f"And {left} more."] if left > 0 else [])]


def _chosen(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings that are one sentence together: gates on one difference, changes of one model."""
    found: dict[tuple[object, ...], list[Finding]] = {}
    for at, each in enumerate(findings):
        key: tuple[object, ...] = (at,)
        if each.kind == "change":
            key = each.kind, each.score, each.against
        elif each.kind == "gate" and each.compared and not each.detail:
            key = each.kind, each.score, each.slice, each.measure, each.compared
        found.setdefault(key, []).append(each)
    return list(found.values())


def _sentence(night: Night, finding: Finding, *others: Finding) -> str:
    if finding.kind == "scores":
        main = _of_scores(night, finding)
    elif finding.kind == "change":
        usual = f", beyond the usual night-to-night movement of {_limit(finding)}"
        if math.isnan(finding.limit):
            usual = "; too few nights before it say what is usual"
        main = f"{_compared(night, finding)}{usual}"
    elif finding.detail:
        main = f"A gate on {_subject(finding)} cannot be judged: {finding.detail}"
    elif finding.compared:
        main = _compared(night, finding)
    else:
        main = _level(night, finding)
    parts = [main if main.endswith("?") else f"{main}."]
    first = max((finding, *others), key=lambda one: one.nights)
    if first.since is not None:
        word = "Failing since" if finding.kind == "gate" else "Since"
        since = _day(first.since.isoformat(), night.date)
        parts.append(f"{word} {since} ({nights_text(first.nights)}).")
    if finding.kind == "change" and others:
        names = [one.measure for one in others[:_MOST_NAMED]]
        named = ", ".join(names) + _more(len(others) - _MOST_NAMED)
        parts.append(f"Also changed: {named}.")
    if finding.kind == "gate" and finding.compared:
        parts.append(_slices_beside(night, finding))
    return " ".join(filter(None, parts))


def _compared(night: Night, finding: Finding) -> str:
    """How a model differs from the baseline, or from itself on an earlier night."""
    against = finding.against
    if finding.compared != "baseline":
        against = f"on {_day(against, night.date)}"
    base = _number(finding.base, finding.delta)
    numbers = f"{_value(finding)} against {base}{_delta(night, finding)}"
    if finding.verdict in ("better", "worse"):
        return (
            f"{finding.score} is {finding.verdict} than {against}{_where(finding)}: "
            f"{finding.measure} {numbers}"
        )
    way = "higher" if finding.delta > 0 else "lower"
    than = f"{way} than" if finding.delta else "the same as"
    that = "that of " if finding.compared == "baseline" else ""
    unsure = "" if finding.verdict in _CHANGED else _UNSURE
    return f"{_subject(finding)} is {than} {that}{against}: {numbers}{unsure}"


def _level(night: Night, finding: Finding) -> str:
    """A number, and the limit that it does not keep."""
    n, field = finding.number, finding.field
    limit = f"{_LIMITS[finding.operator]} the limit of" if finding.operator in _LIMITS else ""
    if field in ("rows", "groups") and not finding.score:
        return f"The night has {count(n)} {field}, {limit} {count(finding.limit)}"
    of = _subject(finding)
    if field in _SHARES:
        return f"{_percent(n)} of the {_SHARES[field]} {of}, {limit} {_percent(finding.limit)}"
    if field in _GROUPS:
        return f"{of} rests on {count(n)} {_GROUPS[field]}, {limit} {count(finding.limit)}"
    if not finding.score:
        return "A gate on the rows failed"
    value = f"{of} is {_value(finding)}{_interval(night, finding)}"
    bound = f"{finding.limit:g}".replace("-", "\N{MINUS SIGN}")
    beside = _beside_baseline(night, finding)
    if field == "value":
        return f"{value}, {limit} {bound}{beside}"
    if field in _ENDS:
        return f"{value}; the {_ENDS[field]} end of the interval is {limit} {bound}{beside}"
    return f"{value}, which a gate does not allow{beside}"


def _beside_baseline(night: Night, finding: Finding) -> str:
    """The value of the baseline beside that of a model, and their difference."""
    of = "baseline", finding.score, finding.slice, finding.measure
    for line in night.compared:
        if (line.kind, line.score, line.slice, line.measure) == of and math.isfinite(line.delta):
            base = _number(finding.value - line.delta, line.delta)
            beside = replace(
                finding, delta=line.delta, delta_ci_low=line.ci_low, delta_ci_high=line.ci_high
            )
            return f"; {line.baseline} has {base}{_delta(night, beside)}"
    return ""


def _of_scores(night: Night, finding: Finding) -> str:
    part = "" if finding.slice == ALL else f" of {finding.slice}"
    if finding.number == 1:
        known = f" ({finding.detail})" if finding.detail else ""
        main = f"{finding.score} gives every row{part} the same score{known}"
    else:
        rows = f"the rows{part}" if part else "all rows"
        main = (
            f"{finding.score} gives {rows} only {count(finding.number)} distinct scores, below the "
            f"limit of {count(finding.limit)}"
        )
    told = any(
        one.kind == "gate" and (one.score, one.slice) == (finding.score, finding.slice)
        for one in night.findings
    )
    if told or math.isnan(finding.value):
        return main
    value = f"{main}: {finding.measure} is {_value(finding)}"
    if math.isnan(finding.delta):
        return f"{value}{_interval(night, finding)}"
    base = _number(finding.base, finding.delta)
    unsure = "" if finding.verdict in _CHANGED else _UNSURE
    return f"{value} against {base} of {finding.against}{_delta(night, finding)}{unsure}"


def _slices_beside(night: Night, finding: Finding) -> str:
    """Whether other slices of the same slicing are worse too."""
    if not finding.by or finding.verdict != "worse":
        return ""
    there = [
        one
        for one in night.compared
        if (one.kind, one.score, one.measure, one.by)
        == (finding.compared, finding.score, finding.measure, finding.by)
        and one.slice != finding.slice
    ]
    if not there:
        return ""
    many = f"{finding.by}s" if _PLAIN.fullmatch(finding.by) else f"slices by {finding.by}"
    worse = [one.slice for one in there if one.verdict == "worse"]
    if not worse:
        return f"Other {many} show no regression."
    named = ", ".join(worse[:_MOST_NAMED]) + _more(len(worse) - _MOST_NAMED)
    return f"Other {many} that are worse too: {named}."


def _subject(finding: Finding) -> str:
    of = f" of {finding.score}" if finding.score else ""
    return f"{finding.measure}{of}{_where(finding)}" if finding.measure else "the rows"


def _where(finding: Finding) -> str:
    return "" if finding.slice in ("", ALL) else f" in {finding.slice}"


def _value(finding: Finding) -> str:
    return _number(finding.value, finding.delta)


def _limit(finding: Finding) -> str:
    return _number(finding.limit, finding.limit)


def _interval(night: Night, finding: Finding) -> str:
    low, high = (_number(end, finding.delta) for end in (finding.ci_low, finding.ci_high))
    known = math.isfinite(finding.ci_low) and math.isfinite(finding.ci_high)
    return f" ({_level_of(night)} CI {low} to {high})" if known else ""


def _delta(night: Night, finding: Finding) -> str:
    digits = _digits(finding.delta)
    delta, low, high = (
        amount(number, digits, sign=True)
        for number in (finding.delta, finding.delta_ci_low, finding.delta_ci_high)
    )
    known = math.isfinite(finding.delta_ci_low) and math.isfinite(finding.delta_ci_high)
    return f" ({delta}, {_level_of(night)} CI {low} to {high})" if known else f" ({delta})"


def _number(value: float, beside: float = math.nan) -> str:
    """A number to the decimals that show a difference beside it."""
    return amount(value, _digits(beside))


def _digits(difference: float) -> int:
    size = abs(difference)
    if not math.isfinite(size) or size >= _SMALL or not size:
        return _DIGITS
    return min(1 - Decimal(size).adjusted(), _MOST_DIGITS)


def _level_of(night: Night) -> str:
    return f"{100 * confidence_of(night):.12g} %"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _day(text: str, near: dt.date) -> str:
    """A date as people say it; with its year, where that is another."""
    try:
        date = dt.date.fromisoformat(text)
    except ValueError:  # of another version
        return text
    year = "" if date.year == near.year else f" {date.year}"
    return f"{date.day} {_MONTHS[date.month - 1]}{year}"


def _more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""
