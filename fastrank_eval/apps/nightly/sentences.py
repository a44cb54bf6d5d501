"""Write the problems of a night as plain sentences."""

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
_MAX_SENTENCES = 5
_MAX_NAMED = 3
#: Decimals of a number, and limits for numbers whose difference is too small for them.
_DIGITS, _MAX_DIGITS, _SMALL = 3, 6, 0.002
_SIGNIFICANT = ("better", "worse", "higher", "lower")
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
#: Names with a plural in s.
_PLURAL_WITH_S = re.compile(r"[a-z]*[a-rt-xz]")


def lead(night: Night) -> str:
    """Return the most important sentence; empty for a fine night."""
    return next(iter(sentences(night)), "")


def sentences(night: Night) -> list[str]:
    """Describe the problems and changes of a night, the most important first.

    Parameters
    ----------
    night : Night

    Returns
    -------
    list of str
        Problems of the rows, then findings of models, up to a limit. A finding has a main
        sentence, then its first date, then the other slices.
    """
    result = []
    flags = night.quality.flags
    if flags:
        meaning = STATUSES["data_quality"][1].removesuffix(".")
        result.append(
            f"{meaning}: {'; '.join(flags[:_MAX_SENTENCES])}{_more(len(flags) - _MAX_SENTENCES)}."
        )
    few_score_models = {
        one.score
        for one in night.findings
        if one.kind == "scores" and one.slice == ALL and one.condition
    }
    groups = _groups_of_findings(
        one
        for one in night.findings
        # A model that fails for few scores is worse for that reason.
        if one.kind != "change" or one.compared == "before" or one.score not in few_score_models
    )
    texts = list(dict.fromkeys(_sentence(night, *group) for group in groups))
    remaining = len(texts) - _MAX_SENTENCES
    return [
        *result,
        *texts[:_MAX_SENTENCES],
        *([f"And {remaining} more."] if remaining > 0 else []),
    ]


def _groups_of_findings(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Group findings that share a sentence.

    These are gates on one difference, or changes of one model.
    """
    findings_by_key: dict[tuple[object, ...], list[Finding]] = {}
    for index, each in enumerate(findings):
        key: tuple[object, ...] = (index,)
        if each.kind == "change":
            key = each.kind, each.score, each.against
        elif each.kind == "gate" and each.compared and not each.detail:
            key = each.kind, each.score, each.slice, each.measure, each.compared
        findings_by_key.setdefault(key, []).append(each)
    return list(findings_by_key.values())


def _sentence(night: Night, finding: Finding, *others: Finding) -> str:
    if finding.kind == "scores":
        main = _few_scores_sentence(night, finding)
    elif finding.kind == "change":
        usual = f", beyond the usual night-to-night movement of {_limit(finding)}"
        if math.isnan(finding.limit):
            usual = "; too few nights before it say what is usual"
        main = f"{_difference_sentence(night, finding)}{usual}"
    elif finding.detail:
        main = f"A gate on {_subject(finding)} cannot be judged: {finding.detail}"
    elif finding.compared:
        main = _difference_sentence(night, finding)
    else:
        main = _limit_sentence(night, finding)
    parts = [main if main.endswith("?") else f"{main}."]
    first = max((finding, *others), key=lambda one: one.nights)
    if first.since is not None:
        word = "Failing since" if finding.kind == "gate" else "Since"
        since = _day(first.since.isoformat(), night.date)
        parts.append(f"{word} {since} ({nights_text(first.nights)}).")
    if finding.kind == "change" and others:
        names = [one.measure for one in others[:_MAX_NAMED]]
        named = ", ".join(names) + _more(len(others) - _MAX_NAMED)
        parts.append(f"Also changed: {named}.")
    if finding.kind == "gate" and finding.compared:
        parts.append(_other_slices(night, finding))
    return " ".join(filter(None, parts))


def _difference_sentence(night: Night, finding: Finding) -> str:
    """Describe a difference from the baseline or from an earlier night."""
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
    direction = "higher" if finding.delta > 0 else "lower"
    than = f"{direction} than" if finding.delta else "the same as"
    that = "that of " if finding.compared == "baseline" else ""
    suffix = "" if finding.verdict in _SIGNIFICANT else _UNSURE
    return f"{_subject(finding)} is {than} {that}{against}: {numbers}{suffix}"


def _limit_sentence(night: Night, finding: Finding) -> str:
    """Describe a number beyond its limit."""
    n, field = finding.number, finding.field
    limit = f"{_LIMITS[finding.operator]} the limit of" if finding.operator in _LIMITS else ""
    if field in ("rows", "groups") and not finding.score:
        return f"The night has {count(n)} {field}, {limit} {count(finding.limit)}"
    subject = _subject(finding)
    if field in _SHARES:
        return f"{_percent(n)} of the {_SHARES[field]} {subject}, {limit} {_percent(finding.limit)}"
    if field in _GROUPS:
        return f"{subject} rests on {count(n)} {_GROUPS[field]}, {limit} {count(finding.limit)}"
    if not finding.score:
        return "A gate on the rows failed"
    value = f"{subject} is {_value(finding)}{_interval(night, finding)}"
    bound = f"{finding.limit:g}".replace("-", "\N{MINUS SIGN}")
    baseline_text = _baseline_text(night, finding)
    if field == "value":
        return f"{value}, {limit} {bound}{baseline_text}"
    if field in _ENDS:
        return f"{value}; the {_ENDS[field]} end of the interval is {limit} {bound}{baseline_text}"
    return f"{value}, which a gate does not allow{baseline_text}"


def _baseline_text(night: Night, finding: Finding) -> str:
    """Describe the value of the baseline and the difference from it."""
    key = "baseline", finding.score, finding.slice, finding.measure
    for difference in night.compared:
        if (
            difference.kind,
            difference.score,
            difference.slice,
            difference.measure,
        ) == key and math.isfinite(difference.delta):
            base = _number(finding.value - difference.delta, difference.delta)
            with_delta = replace(
                finding,
                delta=difference.delta,
                delta_ci_low=difference.ci_low,
                delta_ci_high=difference.ci_high,
            )
            return f"; {difference.baseline} has {base}{_delta(night, with_delta)}"
    return ""


def _few_scores_sentence(night: Night, finding: Finding) -> str:
    part = "" if finding.slice == ALL else f" of {finding.slice}"
    if finding.number == 1:
        detail = f" ({finding.detail})" if finding.detail else ""
        main = f"{finding.score} gives every row{part} the same score{detail}"
    else:
        rows = f"the rows{part}" if part else "all rows"
        main = (
            f"{finding.score} gives {rows} only {count(finding.number)} distinct scores, below the "
            f"limit of {count(finding.limit)}"
        )
    has_gate = any(
        one.kind == "gate" and (one.score, one.slice) == (finding.score, finding.slice)
        for one in night.findings
    )
    if has_gate or math.isnan(finding.value):
        return main
    value = f"{main}: {finding.measure} is {_value(finding)}"
    if math.isnan(finding.delta):
        return f"{value}{_interval(night, finding)}"
    base = _number(finding.base, finding.delta)
    suffix = "" if finding.verdict in _SIGNIFICANT else _UNSURE
    return f"{value} against {base} of {finding.against}{_delta(night, finding)}{suffix}"


def _other_slices(night: Night, finding: Finding) -> str:
    """Describe whether other slices of the same slicing are worse too."""
    if not finding.by or finding.verdict != "worse":
        return ""
    other_slices = [
        one
        for one in night.compared
        if (one.kind, one.score, one.measure, one.by)
        == (finding.compared, finding.score, finding.measure, finding.by)
        and one.slice != finding.slice
    ]
    if not other_slices:
        return ""
    plural = f"{finding.by}s" if _PLURAL_WITH_S.fullmatch(finding.by) else f"slices by {finding.by}"
    worse = [one.slice for one in other_slices if one.verdict == "worse"]
    if not worse:
        return f"Other {plural} show no regression."
    named = ", ".join(worse[:_MAX_NAMED]) + _more(len(worse) - _MAX_NAMED)
    return f"Other {plural} that are worse too: {named}."


def _subject(finding: Finding) -> str:
    score_text = f" of {finding.score}" if finding.score else ""
    return f"{finding.measure}{score_text}{_where(finding)}" if finding.measure else "the rows"


def _where(finding: Finding) -> str:
    return "" if finding.slice in ("", ALL) else f" in {finding.slice}"


def _value(finding: Finding) -> str:
    return _number(finding.value, finding.delta)


def _limit(finding: Finding) -> str:
    return _number(finding.limit, finding.limit)


def _interval(night: Night, finding: Finding) -> str:
    low, high = (_number(end, finding.delta) for end in (finding.ci_low, finding.ci_high))
    finite = math.isfinite(finding.ci_low) and math.isfinite(finding.ci_high)
    return f" ({_confidence_text(night)} CI {low} to {high})" if finite else ""


def _delta(night: Night, finding: Finding) -> str:
    digits = _digits(finding.delta)
    delta, low, high = (
        amount(number, digits, sign=True)
        for number in (finding.delta, finding.delta_ci_low, finding.delta_ci_high)
    )
    finite = math.isfinite(finding.delta_ci_low) and math.isfinite(finding.delta_ci_high)
    return f" ({delta}, {_confidence_text(night)} CI {low} to {high})" if finite else f" ({delta})"


def _number(value: float, difference: float = math.nan) -> str:
    """Format a number with enough decimals to show a difference."""
    return amount(value, _digits(difference))


def _digits(difference: float) -> int:
    size = abs(difference)
    if not math.isfinite(size) or size >= _SMALL or not size:
        return _DIGITS
    return min(1 - Decimal(size).adjusted(), _MAX_DIGITS)


def _confidence_text(night: Night) -> str:
    return f"{100 * confidence_of(night):.12g} %"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _day(text: str, near: dt.date) -> str:
    """Format a date as day and month, with the year if it differs."""
    try:
        date = dt.date.fromisoformat(text)
    except ValueError:  # written by another version
        return text
    year = "" if date.year == near.year else f" {date.year}"
    return f"{date.day} {_MONTHS[date.month - 1]}{year}"


def _more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""
