"""Format the numbers, verdicts and problems of a night as text.

Describe the gates of a night as text, the worst failures first.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from fastrank_eval import Gate, GateFailure, gate
from fastrank_eval._lib.errors import FastRankEvalError
from fastrank_eval._lib.lexer import COMPARISONS, Number, Operation
from fastrank_eval.apps.nightly.night import (
    EARLIER,
    NOT_JUDGED,
    SO_FAR,
    Finding,
    GateOutcome,
    Key,
    Night,
)
from fastrank_eval.measures.names import COMPARISON_FIELDS
from fastrank_eval.results.gate_judge import field_of
from fastrank_eval.results.gates import ALL, Count, Term, comparisons_of, holds, terms_of
from fastrank_eval.results.report import (
    NOTHING,
    amount,
    count_text,
    percent_text,
    printable,
    share_text,
    two_digits,
)

#: Limits of drift, and the names of the numbers that they limit.
_DRIFTS = {"max_volume_drift": "rows", "max_ctr_drift": "CTR"}


def meaning(night: Night) -> str:
    """Explain the status of a night, and list what was not judged."""
    text = STATUSES[night.status].meaning
    if night.status != "fine":
        return text
    unjudged = not_judged(night)
    if unjudged:
        return f"Nothing that was judged failed. Not judged: {'; '.join(unjudged)}."
    return text if night.gates else "No gate is set; the data are within their limits."


def not_judged(night: Night) -> list[str]:
    """List drift and gates that lack earlier nights.

    Empty for a night without rows: its first sentence says so.
    """
    if not night.quality.rows:
        return []
    limit_names = night.conventions.get("quality", _DRIFTS)
    quality = night.quality
    drifts = zip(_DRIFTS, (quality.volume_drift, quality.ctr_drift), strict=True)
    unjudged = [_DRIFTS[limit] for limit, z in drifts if limit in limit_names and math.isnan(z)]
    drift = [f"drift of {' and '.join(unjudged)}, with too few nights before"] if unjudged else []
    return [
        *([] if night.has_labels else ["every measure, as the night has no labels yet"]),
        *drift,
        # The reason of a gate that passed is what it was not judged for.
        *(
            f"{each.text}, {each.reason}"
            for each in night.gates
            if each.reason and each.outcome in ("passed", NOT_JUDGED)
        ),
    ]


def reads_measures(outcome: GateOutcome) -> bool:
    """Return whether a gate reads more than the number of rows or groups.

    Examples
    --------
    >>> [reads_measures(GateOutcome(text, True)) for text in ("GAUC < 0.6", "rows < 1000")]
    [True, False]
    """
    return bool(gate(outcome.condition).terms)


def gate_texts(night: Night) -> list[str]:
    """Return the conditions of failed gates with their numbers.

    Empty for a night without rows: its first sentence says so. Where a corrected p-value may have
    failed one, the last text says how often this happens without a difference.
    """
    if not night.quality.rows:
        return []
    by_p_value = any(_false_alarms(each, night) for each in night.gates if not each.passed)
    return [*outcome_texts(night, "failed"), *([false_alarms(night)] if by_p_value else [])]


def outcome_texts(night: Night, outcome: str) -> list[str]:
    """Return the conditions of gates of an outcome, each with its reason."""
    said = "fails with the labels so far" if outcome == SO_FAR else outcome
    return [
        f"gate {said}: {each.text}" + f": {each.reason}" * bool(each.reason)
        for each in night.gates
        if each.outcome == outcome
    ]


def false_alarms(night: Night) -> str:
    """Say how often gates by corrected p-values fail without a difference.

    Each gate has a share of its own for each of its measures, with ``[*]`` for each slicing too.
    Empty without such a gate.
    """
    gates = [shares for each in night.gates if (shares := _false_alarms(each, night))]
    if not gates:
        return ""
    shares = [share for of_gate in gates for share in of_gate]
    total = percent_text(min(sum(shares), 1.0), 3)
    if len(shares) > 1 and len(set(shares)) == 1:
        total = f"{len(shares)} × {percent_text(shares[0], 3)} = {total}"
    what = "corrected p-values"
    if len(shares) > len(gates):
        what = f"{len(shares)} families of {what}, one for each measure and slicing of a gate"
    return (
        f"{count_text(len(gates), 'gate')} with {what}: at most {total} of the nights without any "
        "difference fail by them."
    )


def _false_alarms(outcome: GateOutcome, night: Night) -> list[float]:
    """Bound the shares of nights that fail without a difference."""
    try:
        condition = gate(outcome.condition).condition
    except FastRankEvalError:  # an alarm or drift, or a gate of another version
        return []
    shares: dict[tuple[str, str | None], float] = {}
    slicings = {value.slice: value.by for value in night.values}
    confidence: dict[Term | Count, float] = {Count("confidence"): confidence_of(night)}
    for each in comparisons_of(condition):
        for term, compare, other in sides(each):
            by_p = isinstance(term, Term) and term.field == "p_adjusted" and compare in ("<", "<=")
            if by_p and confidence.keys() >= set(terms_of(other)):
                every = set(slicings.values()) - {None} if term.slice is None else None
                measure, share = str(night.find(term.measure)), holds(other, confidence)
                for by in every or {slicings.get(term.slice or ALL)}:
                    shares[measure, by] = max(share, shares.get((measure, by), 0.0))
    return [share for share in shares.values() if share > 0]


def worst_first(
    failures: Sequence[GateFailure], parsed: Gate, night: Night, kind: str
) -> tuple[GateFailure, ...]:
    """Sort the failures of a gate: all rows, then slices, the worst first.

    Parameters
    ----------
    failures : sequence of GateFailure
    parsed : Gate
    night : Night
        With its differences.
    kind : str
        The kind of the differences in the condition.

    Returns
    -------
    tuple of GateFailure
        By the size of the difference, if the condition reads one, or by the distance from its
        limit.
    """
    if len(failures) < 2:
        return tuple(failures)
    compares = any(term.field in COMPARISON_FIELDS for term in parsed.terms)
    pairs = _differences(parsed, night, kind) if compares else _distances(parsed, night)
    sizes: dict[tuple[str, str], float] = {}
    for key, size in pairs:
        sizes[key] = max(size, sizes.get(key, 0.0))  # the worst of several measures counts
    # A gate on slices and all rows also fails on all rows: one failure of each model is first.
    on_all_rows = any(term.slice == ALL for term in parsed.terms)
    first = {one.score: one for one in reversed(failures)} if on_all_rows else {}
    return tuple(
        sorted(
            failures,
            key=lambda one: (
                one is not first.get(one.score),
                -sizes.get((one.score or "", one.slice or ALL), 0.0),
            ),
        )
    )


def _differences(parsed: Gate, night: Night, kind: str) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the sizes of the differences for the worse, by model and slice."""
    measures = {str(night.find(term.measure)) for term in parsed.terms}
    values = {Key.of(v): v.value for v in night.values}
    for one in night.compared:
        if one.kind == kind and one.measure in measures and one.verdict == "worse":
            value = values.get(Key.of(one), math.nan)
            smallest = smallest_difference(one.ci_low, one.ci_high)
            size = share_of_larger(smallest, value, value - one.delta)
            yield (one.score, one.slice), size


def _distances(parsed: Gate, night: Night) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield the distances of numbers from limits that they violate."""
    for term, comparison, limit in _limits(parsed.condition):
        measure = str(night.find(term.measure))
        for value in night.values:
            number = field_of(value, term.field)
            if (
                number is not None
                and value.measure == measure
                and term.score in (None, value.score)
                and term.slice in (None, value.slice)
                and holds(comparison, {term: number})
            ):
                score = value.score if term.score is None else ""
                key = score, value.slice if term.slice is None else ALL
                yield key, share_of_larger(abs(number - limit), number, limit)


def _limits(condition: Operation) -> Iterator[tuple[Term, Operation, float]]:
    """Yield the comparisons of one number with a constant."""
    if condition.operator in COMPARISONS:
        for term, _, other in sides(condition):
            limit = constant(other)
            if isinstance(term, Term) and limit is not None:
                yield term, condition, limit
    elif condition.operator in ("and", "or"):
        for part in condition.parts:
            yield from _limits(part)


def sides(comparison: Operation) -> Iterator[tuple[Any, str, Any]]:
    """Yield each side of a comparison with its operator and the other side."""
    left, right = comparison.parts
    yield left, comparison.operator, right
    yield right, COMPARISONS[comparison.operator], left


def constant(quantity: object) -> float | None:
    """Return the number of a part of a condition; None if it reads any."""
    if isinstance(quantity, Number):
        return quantity.value
    if isinstance(quantity, Operation) and quantity.operator == "-" and len(quantity.parts) == 1:
        inner = constant(quantity.parts[0])
        return None if inner is None else -inner
    return None


def smallest_difference(low: float, high: float) -> float:
    """Return the smallest absolute difference in an interval."""
    finite = math.isfinite(low) and math.isfinite(high)
    return min(abs(low), abs(high)) if finite and not low < 0 < high else 0.0


def share_of_larger(difference: float, value: float, base: float) -> float:
    """Return a difference as a share of the larger of two values; else 0."""
    largest = max(abs(value), abs(base))
    return difference / largest if largest > 0 and math.isfinite(difference / largest) else 0.0


class Status(NamedTuple):
    """How a status is shown.

    Parameters
    ----------
    name, meaning : str
        The meaning if everything was judged.
    tone : str
        The colour: ``"good"``, ``"warn"``, ``"bad"`` or ``"shift"``.
    bar : str
        The height of its bar in a strip: ``"low"``, ``"mid"`` or ``"high"``.
    letter : str
        Its character in a strip of text.
    """

    name: str
    meaning: str
    tone: str
    bar: str
    letter: str


#: Statuses, the worst last.
#: The status of a date without a night, whose run ended with an error.
NOT_EVALUATED = "not_evaluated"
STATUSES = {
    "fine": Status(
        "Fine", "Every gate passed, and the data are within their limits.", "good", "low", "."
    ),
    "changed": Status(
        "Changed",
        "No gate failed, but a number that has no gate is not as usual or has no value, scores are "
        "few, or a slice has no rows.",
        "warn",
        "mid",
        "c",
    ),
    "provisional": Status("Provisional", "Its labels are not complete yet.", "shift", "low", "p"),
    "regression": Status("Regression", "A gate failed.", "bad", "high", "R"),
    "data_quality": Status(
        "Data quality", "The data of this night cannot be relied on.", "warn", "high", "D"
    ),
    NOT_EVALUATED: Status("Not evaluated", "Its rows could not be evaluated.", "bad", "high", "X"),
}
#: A day of a strip without a night, and the days of a strip.
NO_NIGHT, STRIP_DAYS = Status("no night", "", "unknown", "gap", "-"), 30
_MIN_DIGITS, _MAX_DIGITS = 2, 6
#: Tones of verdicts and of outcomes; "unknown" of others.
_TONES = {
    **dict.fromkeys(("better", "passed"), "good"),
    **dict.fromkeys(
        ("worse", "failed", "gate failed", "drifted", "alarm", "too few distinct scores",
         "no value", "not calibrated"),
        "bad",
    ),
    **dict.fromkeys(("higher", "lower", "mixed", "changed", "fails so far"), "shift"),
    **dict.fromkeys(
        ("no difference", "not significant", "no difference shown", "same", "no error shown"),
        "none",
    ),
}  # fmt: skip
#: Tones of changes that are shown.
CHANGES = ("good", "bad", "shift")


def strip(
    statuses: Mapping[dt.date, str], first: dt.date, last: dt.date
) -> list[tuple[dt.date, Status]]:
    """Return the status of each day from `first` to `last`."""
    days = (first + dt.timedelta(days) for days in range((last - first).days + 1))
    return [(day, STATUSES.get(statuses.get(day, ""), NO_NIGHT)) for day in days]


def tone(verdict: str) -> str:
    """Return the colour of a verdict or an outcome."""
    return _TONES.get(verdict, "unknown")


def verdict_word(verdict: str) -> str:
    """Shorten a verdict."""
    return {"not significant": "unclear", "no difference": "same"}.get(verdict, verdict)


def confidence_of(night: Night) -> float:
    """Return the confidence of the intervals of a night."""
    value = night.conventions.get("confidence", 0.95)
    return float(value) if isinstance(value, int | float) else 0.95


def confidence_text(night: Night) -> str:
    """Return the confidence of a night in percent."""
    return percent_text(confidence_of(night))


def digits_of(rows: Iterable[Mapping[str, Any]]) -> int:
    """Return the decimals that show the smallest half-width to two digits.

    Examples
    --------
    >>> digits_of([{"ci_low": 0.588, "ci_high": 0.612}])
    3
    """
    halves = [(row["ci_high"] - row["ci_low"]) / 2 for row in rows]
    halves = [half for half in halves if math.isfinite(half) and half > 0]
    return digits_for(min(halves), _MIN_DIGITS) if halves else 4


def digits_for(size: float, least: int = 3) -> int:
    """Return the decimals that show a size to two digits, at most six."""
    known = math.isfinite(size) and size > 0
    return min(max(two_digits(size), least), _MAX_DIGITS) if known else least


def warning(name: str | None, unit: str = "group") -> str:
    """Format a warning about the interval of a value.

    The interval is rough, or there is none.

    Examples
    --------
    >>> warning("pooled"), warning("few_groups", "cluster"), warning(None)
    ('no interval', 'few effective clusters', '')
    """
    names = {
        "pooled": "no interval",
        "merged": "merged, no interval",
        "few_groups": f"few effective {unit}s",
        "one_group": f"one {unit}, no interval",
        "no_variance": f"{unit}s do not vary, no interval",
    }
    return names.get(name or "", (name or "").replace("_", " "))


#: Format a number of nights.
nights_text = partial(count_text, noun="night")

#: Format a share in percent; a dash if it is undefined.
share = partial(share_text, digits=2, missing=NOTHING)


def count(number: float) -> str:
    """Format an integer with separated thousands."""
    return amount(number, 0)


def ago(kind: str) -> str:
    """Format the reference of a kind of change."""
    return kind.replace("_", " ")


def ago_exactly(kind: str, night: Night) -> str:
    """Return the model or the date that a kind of change compares with."""
    days = EARLIER.get(kind)
    if days is None:
        return night.baseline or ""
    return str(night.date - dt.timedelta(days=days))


def independent(unit: str, word: str = "are") -> str:
    """Say what intervals take as independent; the unit is of `Night.unit`."""
    return f"{unit}s {word} independent" + " clusters" * (unit == "group")


def null_shares(nulls_before: int, rows_before: int, nulls: int, rows: int) -> tuple[float, float]:
    """Return the share of nulls on the nights before and on the night."""
    before = nulls_before + rows_before
    return nulls_before / before if before else math.nan, nulls / rows if rows else math.nan


def change_text(before: float, after: float) -> str:
    """Format a number before and after, with three digits.

    Examples
    --------
    >>> change_text(0.03149, 0.052)
    '0.0315 → 0.052'
    >>> change_text(float("nan"), 0.052)
    '0.052'
    """
    numbers = [f"{one:.3g}" for one in (before, after) if not math.isnan(one)]
    return " → ".join(numbers)


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


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MAX_SENTENCES = 5
_MAX_NAMED = 3
#: Decimals of a number, unless a difference is smaller than this.
_DIGITS, _SMALL = 3, 0.002
#: The verdicts of significant differences.
SIGNIFICANT = ("better", "worse", "higher", "lower")
_LIMITS = {"<": "below", "<=": "not above", ">": "above", ">=": "not below", "=": "equal to",
           "!=": "other than"}  # fmt: skip
_ENDS = {"ci_low": "lower", "ci_high": "upper"}
_SHARES = {
    "dropped_share": "groups do not count for",
    "rows_share": "rows count for",
    "positives_share": "positive rows count for",
}
_GROUPS = {"groups": "groups", "groups_used": "groups that count",
           "effective_groups": "effective {unit}s"}  # fmt: skip
_UNSURE = ", not significant once corrected for the number of comparisons"
#: What follows a difference, by its verdict; `_UNSURE` after others.
_DOUBTS = {
    **dict.fromkeys(SIGNIFICANT, ""),
    "no difference": ", the same in every group",
    "not tested": ", not tested",
}
#: Names with a plural in s.
_PLURAL_WITH_S = re.compile(r"[a-z]*[a-rt-xz]")


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
    if not night.quality.rows and (flags or not all(gate.passed for gate in night.gates)):
        unjudged = any(gate.outcome == NOT_JUDGED for gate in night.gates)
        gates = ", so its gates cannot be judged" if unjudged else ""
        result.append(f"{no_labels_text(night) or 'The night has no rows'}{gates}.")
    elif flags:
        meaning = STATUSES["data_quality"].meaning.removesuffix(".")
        result.append(f"{meaning}: {named(flags, _MAX_SENTENCES, '; ')}.")
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
    shown = capped(texts, _MAX_SENTENCES, "And ")
    return [*result, *shown[:_MAX_SENTENCES], *(f"{others}." for others in shown[_MAX_SENTENCES:])]


def no_labels_text(night: Night) -> str:
    """Say that no row has a label; empty for other nights."""
    rows = night.unlabelled_rows
    return f"{count_text(rows, 'row')}, none has a label" if rows else ""


def _groups_of_findings(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Group findings that share a sentence.

    These are gates on one difference, or changes of one model.
    """
    findings_by_key: dict[tuple[object, ...], list[Finding]] = {}
    for index, each in enumerate(findings):
        key: tuple[object, ...] = (index,)
        if each.kind in ("change", "alarm"):
            key = each.kind, each.score, each.against, each.condition
        elif each.kind == "gate" and each.compared and not each.detail:
            key = each.kind, each.compared, *Key.of(each)
        findings_by_key.setdefault(key, []).append(each)
    return list(findings_by_key.values())


def _sentence(night: Night, finding: Finding, *others: Finding) -> str:
    if finding.kind == "scores":
        main = _few_scores_sentence(night, finding)
    elif finding.kind == "change":
        usual = (
            f", beyond the usual night-to-night movement of {_number(finding.limit, finding.limit)}"
        )
        if math.isnan(finding.limit):
            usual = "; too few nights before it say what is usual"
        main = f"{_difference_sentence(night, finding)}{usual}"
    elif finding.kind in ("alarm", "drift", "missing", "undefined"):
        main = finding.detail
    elif finding.detail:
        reason = finding.detail.removeprefix("cannot be judged: ")
        main = f"A gate on {subject(night, finding)} cannot be judged: {reason}"
    elif finding.compared:
        main = _difference_sentence(night, finding)
    else:
        main = _limit_sentence(night, finding)
    parts = [main if main.endswith("?") else f"{main}."]
    alike = () if finding.kind == "alarm" else others
    first = max((finding, *alike), key=lambda one: one.nights)
    if first.since is not None:
        word = "Failing since" if finding.kind == "gate" else "Since"
        since = day_text(first.since.isoformat(), night.date)
        parts.append(f"{word} {since} ({nights_text(first.nights)}).")
    if finding.kind == "change" and others:
        parts.append(f"Also changed: {named([night.name_of(one.measure) for one in others])}.")
    if finding.kind == "alarm" and others:
        names = [f"{night.name_of(one.measure)}{where(one.slice)}" for one in others]
        parts.append(f"Also: {named(names)}.")
    if finding.kind == "gate" and finding.compared:
        parts.append(_other_slices(night, finding))
    return " ".join(filter(None, parts))


def _difference_sentence(night: Night, finding: Finding) -> str:
    """Describe a difference from the baseline or from an earlier night."""
    against = finding.against
    if finding.compared != "baseline":
        against = f"on {day_text(against, night.date)}"
    base = _number(finding.base, finding.delta)
    numbers = f"{_value(finding)} against {base}{_difference(night, finding)}"
    if finding.verdict in ("better", "worse"):
        return (
            f"{finding.score} is {finding.verdict} than {against}{where(finding.slice)}: "
            f"{night.name_of(finding.measure)} {numbers}"
        )
    direction = "higher" if finding.delta > 0 else "lower"
    than = f"{direction} than" if finding.delta else "the same as"
    that = "that of " if finding.compared == "baseline" else ""
    suffix = _DOUBTS.get(finding.verdict, _UNSURE)
    return f"{subject(night, finding)} is {than} {that}{against}: {numbers}{suffix}"


def _limit_sentence(night: Night, finding: Finding) -> str:
    """Describe a number beyond its limit."""
    n, field = finding.number, finding.field
    limit = f"{_LIMITS[finding.operator]} the limit of" if finding.operator in _LIMITS else ""
    if field in ("rows", "groups") and not finding.score:
        return f"The night has {count(n)} {field}, {limit} {count(finding.limit)}"
    main = subject(night, finding)
    if field in _SHARES:
        shares = percent_text(n, 3), percent_text(finding.limit, 3)
        return f"{shares[0]} of the {_SHARES[field]} {main}, {limit} {shares[1]}"
    if field in _GROUPS:
        what = _GROUPS[field].format(unit=night.unit)
        return f"{main} rests on {count(n)} {what}, {limit} {count(finding.limit)}"
    if not finding.score:
        return "A gate on the rows failed"
    value = f"{main} is {_value(finding)}{_interval(night, finding)}"
    baseline_text = _baseline_text(night, finding)
    if field == "value":
        return f"{value}, {limit} {finding.limit:g}{baseline_text}"
    if field in _ENDS:
        value += f"; the {_ENDS[field]} end of the interval is {limit} {finding.limit:g}"
        return value + baseline_text
    return f"{value}, which a gate does not allow{baseline_text}"


def _baseline_text(night: Night, finding: Finding) -> str:
    """Describe the value of the baseline and the difference from it."""
    one = night.difference_of("baseline", Key.of(finding))
    if one is None or not math.isfinite(one.delta):
        return ""
    base = _number(finding.value - one.delta, one.delta)
    return f"; {one.baseline} has {base}{_delta(night, one.delta, one.ci_low, one.ci_high)}"


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
    value = f"{main}: {night.name_of(finding.measure)} is {_value(finding)}"
    if math.isnan(finding.delta):
        return f"{value}{_interval(night, finding)}"
    base = _number(finding.base, finding.delta)
    suffix = _DOUBTS.get(finding.verdict, _UNSURE)
    return f"{value} against {base} of {finding.against}{_difference(night, finding)}{suffix}"


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
    sizes = {one.slice: one.rows for one in night.compared if one.rows}
    if any(one.slice not in sizes for one in other_slices):  # without a baseline
        sizes = {value.slice: value.groups for value in night.values}
    worst_first = sorted(
        (one for one in other_slices if one.verdict == "worse"),
        key=lambda one: -abs(one.delta) * sizes.get(one.slice, 0),
    )
    worse = [one.slice for one in worst_first]
    if not worse:
        return f"Other {plural} show no regression."
    return f"Other {plural} that are worse too: {named(worse)}."


def subject(night: Night, finding: Finding | Key) -> str:
    """Name the measure, the model and the slice of a finding."""
    if not finding.measure:
        return "the rows"
    score_text = f" of {finding.score}" if finding.score else ""
    return f"{night.name_of(finding.measure)}{score_text}{where(finding.slice)}"


def where(slice_: str) -> str:
    """Name a slice after a model; empty for all rows."""
    return "" if slice_ in ("", ALL) else f" in {slice_}"


def _value(finding: Finding) -> str:
    return _number(finding.value, finding.delta)


def _number(value: float, difference: float = math.nan) -> str:
    """Format a number with enough decimals to show a difference."""
    return amount(value, _digits(difference))


def _digits(difference: float) -> int:
    return _DIGITS if abs(difference) >= _SMALL else digits_for(abs(difference))


def _range(night: Night, low: float, high: float, digits: int, sign: bool = False) -> str:
    """Format an interval in words; empty without one."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    ends = f"{amount(low, digits, sign)} to {amount(high, digits, sign)}"
    return f"{confidence_text(night)} CI {ends}"


def _interval(night: Night, finding: Finding) -> str:
    text = _range(night, finding.ci_low, finding.ci_high, _digits(finding.delta))
    return text and f" ({text})"


def _difference(night: Night, finding: Finding) -> str:
    return _delta(night, finding.delta, finding.delta_ci_low, finding.delta_ci_high)


def _delta(night: Night, difference: float, low: float, high: float) -> str:
    digits = _digits(difference)
    text = _range(night, low, high, digits, sign=True)
    return f" ({', '.join(filter(None, [amount(difference, digits, sign=True), text]))})"


def day_text(text: str, near: dt.date) -> str:
    """Format a date as day and month, with the year if it differs."""
    date = dt.date.fromisoformat(text)
    year = "" if date.year == near.year else f" {date.year}"
    return f"{date.day} {_MONTHS[date.month - 1]}{year}"


def capped(texts: Sequence[str], most: int, joined: str = "and ") -> list[str]:
    """Return the first texts, and the number of others."""
    others = len(texts) - most
    return [*texts[:most], *([f"{joined}{others} more"] if others > 0 else [])]


def named(texts: Sequence[str], most: int = _MAX_NAMED, between: str = ", ") -> str:
    """Join the first texts, and say how many others there are."""
    others = len(texts) - most
    return between.join(texts[:most]) + (f" and {others} more" if others > 0 else "")
