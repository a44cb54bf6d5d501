"""Compare a night with the baseline and earlier nights; judge its gates.

Judge a night as provisional until its labels are complete.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fastrank_eval import Gate, GateFailure, MeasureValue, Result, Verdict, gate
from fastrank_eval import measure as measure_of
from fastrank_eval._lib.errors import FastRankEvalError, HistoryError, SourceError
from fastrank_eval.apps.nightly.history import (
    PROVISIONAL,
    History,
    provisional_content,
    provisional_values,
)
from fastrank_eval.apps.nightly.night import (
    EARLIER,
    LABEL_LIMITS,
    NO_LABELS_NOTE,
    NOT_JUDGED,
    SO_FAR,
    EarlierJudgement,
    Finding,
    GateOutcome,
    Key,
    Night,
    NightDifference,
    SavedStates,
    Settings,
    first_that_holds,
)
from fastrank_eval.apps.nightly.text import (
    STATUSES,
    ago,
    capped,
    day_text,
    outcome_texts,
    reads_measures,
    worst_first,
)
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_file import RUN_CONVENTIONS
from fastrank_eval.measures.names import COMPARISON_FIELDS
from fastrank_eval.measures.parser import find_computed
from fastrank_eval.results.compare import Paired
from fastrank_eval.results.differences import direction_of
from fastrank_eval.results.gate_judge import judge
from fastrank_eval.results.report import amount
from fastrank_eval.stats.hypothesis_tests import adjust_p_values
from fastrank_eval.stats.intervals import normal_quantile, normal_tail

#: Earlier nights with rows in use, the days that they come from, and the fewest nights needed.
NIGHTS, DAYS, MIN_NIGHTS = 14, 28, 5
#: Scales the median absolute deviation of a normal distribution to its standard deviation.
NORMAL = 1.4826
#: The scale is at least this share of the median, for nights that hardly differ.
_MIN_SHARE = 0.01


def drift(value: float, earlier: Sequence[float]) -> float:
    """Return the distance from the median in scaled absolute deviations.

    ``(value - median) / max(1.4826 MAD, 0.01 abs(median))``: one bad night among the earlier ones
    changes neither median nor MAD.

    Parameters
    ----------
    value : float
    earlier : sequence of float
        Values of earlier nights; NaN is left out.

    Returns
    -------
    float
        NaN with fewer than `MIN_NIGHTS` numbers, or if all are 0.

    References
    ----------
    Leys, Ley, Klein, Bernard & Licata (2013), doi:10.1016/j.jesp.2013.03.013.

    Examples
    --------
    >>> round(drift(130.0, [100.0, 110.0, 90.0, 100.0, 105.0, 0.0]), 2)
    2.7
    """
    finite = [number for number in earlier if not math.isnan(number)]
    if len(finite) < MIN_NIGHTS or math.isnan(value):
        return math.nan
    middle = median(finite)
    scale = NORMAL * median(abs(number - middle) for number in finite)
    scale = max(scale, _MIN_SHARE * abs(middle))
    return (value - middle) / scale if scale > 0 else math.nan


def from_baseline(
    evaluation: Evaluation, values: Sequence[MeasureValue], confidence: float
) -> list[NightDifference]:
    """Return the differences of all other models from the baseline.

    Both are values of the same groups. The standard error is that of the difference of two ratios
    of sums over the same clusters. p-values are from Student's t with Satterthwaite's degrees of
    freedom, at most one less than groups.

    Parameters
    ----------
    evaluation : Evaluation
        Its plan must have a baseline; without one there is no difference.
    values : sequence of MeasureValue
        Values of that run. Other measures of the plan are left out.
    confidence : float

    Returns
    -------
    list of NightDifference
        With p-values adjusted (Holm) over all rows, and over each slicing.

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
    """
    plan, shown = evaluation.plan, {value.measure for value in values}
    if plan.baseline is None or not shown:
        return []
    plan = replace(plan, measures=tuple(m for m in plan.measures if str(m) in shown))
    run = Result(
        evaluation.summary, None, evaluation.meta, plan.roles.scores, list(map(str, plan.measures)),
        paired=Paired(plan, evaluation.totals.select(plan)),
    )  # fmt: skip
    names = [field.name for field in fields(NightDifference) if field.name != "kind"]
    differences = (
        NightDifference("baseline", **{name: getattr(compared, name) for name in names})
        for compared in run.compare(confidence=confidence, threads=plan.threads)
    )
    return [with_verdict(difference, confidence) for difference in differences]


def from_earlier(
    kind: str, values: Iterable[MeasureValue], earlier: Iterable[MeasureValue], confidence: float
) -> list[NightDifference]:
    """Return the differences of models from an earlier night.

    Groups of two nights are independent: ``se = sqrt(se_1^2 + se_2^2)``. p-values and intervals
    are from the normal distribution.

    Parameters
    ----------
    kind : {"yesterday", "last_week", "before", "other"}
    values, earlier : iterable of MeasureValue
    confidence : float

    Returns
    -------
    list of NightDifference
        One for each value that both nights have, with p-values adjusted (Holm) over all rows, and
        over each slicing.
    """
    before = {(v.by, Key.of(v)): v for v in earlier}
    normal, differences = normal_quantile(confidence), []
    for v in values:
        old = before.get((v.by, Key.of(v)))
        if old is None:
            continue
        delta, se = v.value - old.value, math.hypot(v.se, old.se) or math.nan
        half_width = normal * se
        relative = delta / abs(old.value) if old.value else math.nan
        p_value = normal_tail(delta / se) if se > 0 and not math.isnan(delta) else math.nan
        numbers = delta, se, delta - half_width, delta + half_width, relative, p_value
        names = v.score, v.score, v.by, v.slice, v.measure
        differences.append(NightDifference(kind, *names, *numbers))
    adjusted: list[NightDifference] = []
    for _, rows in groupby(differences, key=lambda difference: difference.by):
        family = list(rows)
        p_values = adjust_p_values(np.array([each.p_value for each in family], np.float64), "holm")
        for difference, p_value in zip(family, p_values.tolist(), strict=True):
            adjusted.append(with_verdict(replace(difference, p_adjusted=p_value), confidence))
    return adjusted


def undefined_values(night: Night) -> list[MeasureValue]:
    """Return the measures without a value on all rows of a labelled night."""
    if not night.quality.rows or not night.has_labels:
        return []
    return [value for value in night.overall.values() if math.isnan(value.value)]


def has_one_class(night: Night) -> bool:
    """Return whether all rows are of one class and a measure needs both.

    Such measures have no value, or judge probabilities.
    """
    quality = night.quality
    if not quality.rows or not night.has_labels or quality.positives not in (0, quality.rows):
        return False
    return (
        bool(undefined_values(night))
        or any(one.kind == "undefined" for one in night.findings)
        or any(map(_reads_probabilities, night.measures))
    )


def _reads_probabilities(text: str) -> bool:
    with suppress(FastRankEvalError):  # the measure may be of another version
        return measure_of(text).scores == "probability"
    return False


def without_praise(differences: Iterable[NightDifference], night: Night) -> list[NightDifference]:
    """Say higher or lower for better if a measure of the night has no value.

    A smaller LogLoss of labels that are all 0 says nothing of a model.
    """
    if not undefined_values(night) and not has_one_class(night):
        return list(differences)
    return [
        replace(each, verdict="higher" if each.delta > 0 else "lower")
        if each.verdict == "better"
        else each
        for each in differences
    ]


def with_verdict(difference: NightDifference, confidence: float) -> NightDifference:
    """Add the verdict by the corrected p-value of a difference."""
    p_value, delta = difference.p_adjusted, difference.delta
    verdicts = {
        "no difference": delta == 0 == difference.se,
        "not tested": math.isnan(p_value),
        "not significant": p_value > 1 - confidence or not delta,
    }
    verdict = first_that_holds(verdicts) or direction_of(delta, measure_of(difference.measure))
    return replace(difference, verdict=verdict)


#: Conventions that may differ between comparable nights.
_NIGHT_CONVENTIONS = frozenset(RUN_CONVENTIONS) - {"where"} | {
    "by",
    "score",
    "format",
    "quality",
    "requested",
    "names",
}
#: Options of a measure that do not change its value.
_ERROR_OPTIONS = ("se",)


class EarlierNight(NamedTuple):
    """A night to compare with, or the reason why there is none.

    Parameters
    ----------
    night : Night or None
    reason : str
        Empty if there is a night.
    incomparable : bool
        Whether the night was run but has no numbers that can be compared.
    """

    night: Night | None
    reason: str = ""
    incomparable: bool = False


def earlier_nights(night: Night, history: History) -> dict[str, EarlierNight]:
    """Return the nights of `EARLIER` with comparable numbers.

    Parameters
    ----------
    night : Night
    history : History

    Returns
    -------
    dict of str to EarlierNight
    """
    return {
        kind: _comparable(night, night.date - dt.timedelta(days=days), history)
        for kind, days in EARLIER.items()
    }


class Series:
    """The values or differences of nights by model, slice and measure.

    Parameters
    ----------
    nights : sequence of Night
        Ascending by date.
    of : {"values", "compared"}
    key : callable
        Returns what a value or a difference is found by.
    """

    def __init__(
        self, nights: Sequence[Night], of: str = "values", key: Callable[[Any], Any] = Key.of
    ) -> None:
        self.nights = tuple(nights)
        #: A value, or None, of each night.
        self.by_key: dict[Any, list[Any]] = {}
        for index, night in enumerate(nights):
            for one in getattr(night, of):
                self.by_key.setdefault(key(one), [None] * len(nights))[index] = one

    def past(self, *key: str) -> list[MeasureValue | None]:
        """Return the value of a model, slice and measure on each night."""
        return self.by_key.get(key) or [None] * len(self.nights)

    def of_models(
        self, slice_label: str, measure: str, models: Sequence[str] = ()
    ) -> dict[str, list[MeasureValue | None]]:
        """Return a value of each model on each night."""
        chosen = models or self.nights[-1].models
        return {model: self.past(model, slice_label, measure) for model in chosen}

    def by_night(
        self, past: Iterable[Sequence[MeasureValue | None]]
    ) -> list[tuple[Night, tuple[MeasureValue | None, ...]]]:
        """Return results of `past` by night, the last night first."""
        return [*zip(self.nights, zip(*past, strict=True), strict=True)][::-1]


def incomparable(night: Night, earlier: Night) -> str:
    """Say why the numbers of an earlier night cannot be compared.

    Empty if they can. Whether labels are complete does not count; see `with_comparable_labels`.
    """
    date, rows = earlier.date, earlier.quality.rows
    different = convention_differences(night, earlier)
    reasons = {
        f"no row of {date} has a label": not rows and earlier.unlabelled_rows,
        f"history has no rows of {date}": not rows,
        f"the rows of {date} did not pass the checks": earlier.status == "data_quality",
        f"{date} was judged without labels": not earlier.has_labels,
        f"the labels of {date} are of one class": has_one_class(earlier),
        f"conventions differ from {date}: {', '.join(different)}": different,
    }
    return first_that_holds(reasons)


def _comparable(night: Night, date: dt.date, history: History) -> EarlierNight:
    if not night.has_labels:
        return EarlierNight(None, "the night has no labels yet")
    earlier = next(iter(history.read(date, date, details_from=night.date)), None)
    if earlier is None:
        failed = bool(history.failures(date, date))
        reason = f"{date} was not evaluated" if failed else f"history has no rows of {date}"
        return EarlierNight(None, reason, incomparable=failed)
    reason = incomparable(night, earlier)
    found, reason = (None, reason) if reason else with_comparable_labels(night, earlier, history)
    return EarlierNight(found, reason, incomparable=found is None)


def convention_differences(night: Night, earlier: Night) -> tuple[str, ...]:
    """Return the conventions, columns and measure options that differ.

    Parameters
    ----------
    night, earlier : Night

    Returns
    -------
    tuple of str
        Empty if equal rows would give equal numbers.
    """
    left, right = _conventions(night), _conventions(earlier)
    different = [name for name in left | right if left.get(name) != right.get(name)]
    options, earlier_options = _options(night), _options(earlier)
    scores, earlier_scores = night.expressions, earlier.expressions
    return (
        *different,
        *(
            f"score {model}"
            for model in night.models
            if model in earlier.models and scores.get(model) != earlier_scores.get(model)
        ),
        *(
            night.name_of(m)
            for m in options
            if m in earlier_options and options[m] != earlier_options[m]
        ),
    )


def _conventions(night: Night) -> dict[str, Any]:
    return {name: v for name, v in night.conventions.items() if name not in _NIGHT_CONVENTIONS}


def _options(night: Night) -> dict[str, dict[str, Any]]:
    return {
        measure: {name: value for name, value in options.items() if name not in _ERROR_OPTIONS}
        for measure, options in night.conventions.get("measures", {}).items()
    }


#: The most models, slices or scores that a reason names.
_MAX_NAMED = 5


def comparison_rows(night: Night, kind: str) -> list[NightDifference]:
    """Return the differences of one kind."""
    return [difference for difference in night.compared if difference.kind == kind]


#: A gate with the models and slices that failed.
JudgedGate: TypeAlias = tuple[GateOutcome, tuple[GateFailure, ...]]


def gate_outcomes(
    night: Night, gates: Settings, earlier: Mapping[str, EarlierNight]
) -> list[JudgedGate]:
    """Judge the gates of a night.

    Parameters
    ----------
    night : Night
        With its differences.
    gates : Settings
    earlier : mapping of str to EarlierNight
        Earlier night by kind of difference. A gate is not judged without that night, nor for
        models, slices and measures that it lacks.

    Returns
    -------
    list of JudgedGate
    """
    texts = {"baseline": gates.fail_if, "yesterday": gates.fail_if_yesterday,
             "last_week": gates.fail_if_last_week}  # fmt: skip
    judged = [
        _judged(text, kind, night, earlier.get(kind))
        for kind, conditions in texts.items()
        for text in conditions
    ]
    if night.quality.rows or not night.has_labels:
        return judged
    reason = "no row has a label" if night.unlabelled_rows else "the night has no rows"
    return [
        (outcome, failures)
        if outcome.passed or not reads_measures(outcome)
        else (replace(outcome, reason=reason, exception=NOT_JUDGED), ())
        for outcome, failures in judged
    ]


def _judged(text: str, kind: str, night: Night, earlier: EarlierNight | None) -> JudgedGate:
    """Judge a gate on differences of a kind."""
    before = None if earlier is None else earlier.night
    reason = "" if earlier is None or before is not None else earlier.reason
    reason = reason if night.has_labels else "the night has no labels yet"
    if reason:
        return GateOutcome(text, True, reason, kind, NOT_JUDGED), ()
    each = gate(text)
    verdict = verdict_of(each, night, kind)
    failures = worst_first(verdict.failures, each, night, kind)
    # A value without a difference has no counterpart on the earlier night.
    failed = tuple(one for one in failures if before is None or one.kind != "no_baseline")
    lacking, whole = ("", False) if before is None else _lacking(each, failures, night, before)
    if whole and not failed:
        return GateOutcome(text, True, lacking, kind, NOT_JUDGED), ()
    parts = [f"{NOT_JUDGED} in part: {lacking}"] if lacking else []
    reason = "; ".join(filter(None, [_reasons(failed), *parts, _left_out(verdict)]))
    return GateOutcome(text, not failed, reason, kind), failed


def verdict_of(each: Gate, night: Night, kind: str) -> Verdict:
    """Judge a gate on a night and its differences of one kind."""
    return judge(
        [each], [*night.values, *comparison_rows(night, kind)],
        rows=night.quality.rows, groups=night.quality.groups,
        baseline=night.baseline if kind == "baseline" else None, requested=night.requested,
        conventions=night.conventions,
    )  # fmt: skip


def _left_out(verdict: Verdict) -> str:
    """Name the slices that a gate left out."""
    return "; ".join(
        one.detail.replace(NOT_JUDGED, f"{NOT_JUDGED} in part", 1) for one in verdict.not_judged
    )


def _lacking(
    each: Gate, failures: Sequence[GateFailure], night: Night, before: Night
) -> tuple[str, bool]:
    """Name what an earlier night lacks, and whether a gate needs no more."""
    without = [failure for failure in failures if failure.kind == "no_baseline"]
    names = [
        name for one in without for name in _missing_values(each, one, before, night.requested)
    ]
    if not without:
        return "", False
    shown = ", ".join(first_names([*dict.fromkeys(names)]))
    return f"{before.date} has no {shown}", len(without) >= _judgements(each, night)


def _missing_values(
    each: Gate, failure: GateFailure, before: Night, requested: Mapping[str, str]
) -> Iterator[str]:
    """Yield the parts of a gate that an earlier night lacks."""
    keys = set(map(Key.of, before.values))
    scores, slices, measures = ({key[i] for key in keys} for i in range(3))
    for term in each.terms:
        if term.field not in COMPARISON_FIELDS:
            continue
        score = term.score or str(failure.score)
        slice_ = term.slice or str(failure.slice)
        measured = find_computed(measure_of(term.measure), list(measures), requested)
        if score not in scores:
            yield score
        elif measured is None:
            yield term.display_name
        elif slice_ not in slices:
            yield slice_
        elif Key(score, slice_, str(measured)) not in keys:
            yield f"{term.display_name} of {score} for {slice_}"


def _judgements(each: Gate, night: Night) -> int:
    """Count the models and slices that a gate judges."""
    any_model = any(term.score is None for term in each.terms)
    models = {value.score for value in night.values} if any_model else {""}
    slices = {""}
    if any(term.slice is None for term in each.terms):
        slices = {value.slice for value in night.values if value.slice != "all"}
    return len(models) * len(slices)


def first_names(names: Sequence[str]) -> list[str]:
    """Return the names that a reason shows, and the number of others."""
    return capped(names, _MAX_NAMED, "")


def limit_outcomes(findings: Iterable[Finding]) -> list[GateOutcome]:
    """Return a failed gate for each limit of scores or drift that fails."""
    failed: dict[str, list[str]] = {}
    for each in findings:
        if each.condition:
            name = f"{each.score}{f', {each.slice}' if each.by else ''}"
            failed.setdefault(each.condition, []).append(f"{name}: {each.number:.3g}")
    return [
        GateOutcome(condition, False, "; ".join(first_names(reasons)))
        for condition, reasons in failed.items()
    ]


def _reasons(failures: Iterable[GateFailure]) -> str:
    """Describe the first failures of a gate, and count the others."""
    subjects = ((one, ", ".join(filter(None, (one.score, one.slice)))) for one in failures)
    reasons = (f"{of}: {one.detail}" if of else one.detail for one, of in subjects)
    return "; ".join(first_names([*dict.fromkeys(reasons)]))


_DAY, _HOUR = dt.timedelta(days=1), dt.timedelta(hours=1)
#: Provisional nights are compared if the ages of their labels differ by at most this share of the
#: time until labels are complete.
_AGE_SHARE = 1 / 12
_DIGITS = 4


def is_complete(date: dt.date, after: dt.timedelta | None, now: dt.datetime) -> bool:
    """Return whether the labels of a night are complete.

    Parameters
    ----------
    date : datetime.date
        The night ends at 00:00 UTC of the next day.
    after : datetime.timedelta or None
        The time from the end of the night until its labels are complete; None if they are at once.
    now : datetime.datetime
        With a time zone.

    Examples
    --------
    >>> now = dt.datetime(2026, 11, 13, 5, 30, tzinfo=dt.UTC)
    >>> [is_complete(dt.date(2026, 11, day), dt.timedelta(days=3), now) for day in (9, 10)]
    [True, False]
    """
    return after is None or _age(date, now) >= after


def _age(date: dt.date, now: dt.datetime) -> dt.timedelta:
    """Return the time since the end of a night."""
    return now - dt.datetime.combine(date, dt.time(), dt.UTC) - _DAY


def notes_on_end(date: dt.date, now: dt.datetime) -> list[str]:
    """Say that a night is not over; nothing if it is.

    Examples
    --------
    >>> notes_on_end(dt.date(2026, 11, 19), dt.datetime(2026, 11, 19, 14, 30, tzinfo=dt.UTC))
    ['the night is not over: 2026-11-19 ends at 24:00 UTC, and it was judged on 2026-11-19 at \
14:30 UTC; run it again when it is over']
    """
    if _age(date, now) >= dt.timedelta():
        return []
    judged = now.astimezone(dt.UTC)
    return [
        f"the night is not over: {date} ends at 24:00 UTC, and it was judged on {judged:%Y-%m-%d} "
        f"at {judged:%H:%M} UTC; run it again when it is over"
    ]


def with_label_delay(night: Night, after: dt.timedelta | None, now: dt.datetime) -> Night:
    """Add its label delay to an evaluated night.

    Parameters
    ----------
    night : Night
    after, now
        As in `is_complete`.

    Returns
    -------
    Night
        Provisional if its labels are not complete, or if it has none.
    """
    if after is None:
        return night
    try:
        complete = dt.datetime.combine(night.date, dt.time(), dt.UTC) + _DAY + after
    except OverflowError:
        complete = dt.datetime.max.replace(tzinfo=dt.UTC)
    night = replace(
        night,
        provisional=not (night.has_labels and is_complete(night.date, after, now)),
        labels_complete=complete,
        label_age=_age(night.date, now) / _HOUR,
    )
    if not night.provisional:
        return night
    limits = night.conventions.get("quality", {})
    limits_of_rows = {name: limit for name, limit in limits.items() if name not in LABEL_LIMITS}
    # The text of a provisional night says when it is judged again.
    notes = tuple(note for note in night.notes if note != NO_LABELS_NOTE)
    return replace(night, conventions={**night.conventions, "quality": limits_of_rows}, notes=notes)


def check_order(night: Night, stored: Night | None) -> None:
    """Refuse to replace a night by one that has fewer labels or no rows.

    Parameters
    ----------
    night : Night
    stored : Night or None
        The night of the same date in the history.

    Raises
    ------
    HistoryError
        A concurrent run has judged the night later, with complete labels.
    SourceError
        The rows of a provisional night are gone.
    """
    if stored is None:
        return
    if night.provisional and not stored.provisional and stored.label_age > night.label_age:
        raise HistoryError(
            "another run has judged the night later, with complete labels; nothing was written."
        )
    rows = stored.quality.rows
    if stored.provisional and not night.provisional and rows and not night.quality.rows:
        raise SourceError(
            f"the night has no rows now, and had {rows:,}; it stays provisional in the history."
        )


def with_earlier_judgement(
    night: Night, states: SavedStates, stored: Night | None, history: History
) -> tuple[Night, SavedStates]:
    """Store the provisional numbers of a night that is judged again.

    Parameters
    ----------
    night : Night
    states : SavedStates
        The states of the night.
    stored : Night or None
        The night of the same date in the history.
    history : History

    Returns
    -------
    night : Night
        With the status and the values on all rows of the provisional night.
    states : SavedStates
        With all its values. Later provisional nights are compared with them.
    """
    if stored is None or night.provisional:
        return night, states
    if stored.provisional or (night.labels_complete is not None and not stored.has_labels):
        values = [(v.score, v.measure, v.value) for v in stored.overall.values()]
        before: EarlierJudgement | None = EarlierJudgement(stored.status, tuple(values))
        content = provisional_content(stored) if stored.values else None
    else:
        before, content = stored.judged_before, history.state(night.date, PROVISIONAL)
    if content is not None:
        states = replace(states, contents={**states.contents, PROVISIONAL: content})
    return replace(night, judged_before=before), states


def with_comparable_labels(
    night: Night, earlier: Night, history: History
) -> tuple[Night | None, str]:
    """Return the numbers of an earlier night with labels of the same age.

    Parameters
    ----------
    night, earlier : Night
    history : History

    Returns
    -------
    earlier : Night or None
        A complete night has complete earlier nights. A provisional night has the earlier night as
        it was when it was provisional too.
    reason : str
        The reason if there is none.
    """
    date, age = earlier.date, earlier.label_age
    if not night.provisional:
        if earlier.provisional:
            return None, f"the labels of {date} are not complete"
        return earlier, ""
    if not earlier.provisional:
        content = history.state(date, PROVISIONAL)
        if content is None:
            return None, f"the labels of {date} are complete, and those of this night are not"
        try:
            age, values = provisional_values(content)
        except (ValueError, TypeError, LookupError):
            return None, f"the provisional numbers of {date} cannot be read"
        earlier = replace(earlier, values=values)
    complete = night.labels_complete or dt.datetime.max.replace(tzinfo=dt.UTC)
    after = _age(night.date, complete) / _HOUR
    if not abs(night.label_age - age) <= after * _AGE_SHARE:
        return None, (
            f"the labels of {date} were {age:.0f} hours old when it was judged, and those of this "
            f"night are {night.label_age:.0f} hours old"
        )
    return earlier, ""


def gate_so_far(outcome: GateOutcome, night: Night, gates: Settings) -> GateOutcome:
    """Let a failed gate on measures not fail a provisional night.

    Parameters
    ----------
    outcome : GateOutcome
        Of a condition of the configuration.
    night : Night
    gates : Settings

    Returns
    -------
    GateOutcome
        A gate on the number of rows or groups alone fails the night, and so does every gate with
        ``provisional = "fail"``.
    """
    counts = not night.provisional or gates.provisional == "fail" or not reads_measures(outcome)
    if outcome.passed or counts:
        return outcome
    return replace(outcome, passed=True, exception=outcome.exception or SO_FAR)


def status_name(night: Night) -> str:
    """Return the name of the status of a night, with its label delay."""
    name = STATUSES[night.status].name
    if night.status == "provisional":
        return f"{name} regression" if outcome_texts(night, SO_FAR) else name
    return f"{name}, provisional" if night.provisional else name


def label_delay_texts(night: Night) -> list[str]:
    """Describe when a provisional night is judged again, or what it was.

    Returns
    -------
    list of str
        Empty for a night that was judged once, with complete labels.
    """
    before = night.judged_before
    if before is not None:
        status = STATUSES[before.status].name.lower()
        was = status if before.status == "provisional" else f"{status}, provisional"
        changes = _changes(night, before) if before.values else ["without labels"]
        return [f"judged again with complete labels: was {'; '.join([was, *changes])}"]
    if not night.provisional or night.labels_complete is None:
        return []
    complete = night.labels_complete
    day = day_text(str(complete.date()), night.date)
    without = "" if night.has_labels else "judged without labels; "
    texts = [
        f"{without}labels are complete on {day}, {complete:%H:%M} UTC, and the next run after that "
        "judges the night again"
    ]
    kinds = [ago(kind) for kind in EARLIER if any(d.kind == kind for d in night.compared)]
    if kinds:
        nights = " and ".join(kinds)
        texts.append(f"compared with the provisional numbers of {nights}, with labels as old")
    return texts + outcome_texts(night, SO_FAR)


def _changes(night: Night, before: EarlierJudgement) -> list[str]:
    """Format the first measure of each model before and after."""
    old = {(score, measure): value for score, measure, value in before.values}
    return [
        f"{night.name_of(v.measure)} of {v.score} {amount(was, _DIGITS)} → "
        f"{amount(v.value, _DIGITS)}"
        for v in night.overall.values()
        if v.measure in night.measures[:1]
        and (was := old.get((v.score, v.measure))) is not None
        and not (math.isnan(was) and math.isnan(v.value))
    ]
