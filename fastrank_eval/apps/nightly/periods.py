"""Save the states of nights, and merge those of a week and a month.

Read dates, and fill them into paths and conditions.

Split a change since an earlier night into model and composition.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from fastrank_eval import Measure, MeasureValue, MultiECCE, State
from fastrank_eval import measure as measure_of
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, MergeError, SourceError
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import EARLIER, PERIODS, CompositionChange, Night, SavedStates
from fastrank_eval.apps.nightly.quality import display_name
from fastrank_eval.apps.nightly.text import SIGNIFICANT, ago, confidence_of, digits_for
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.measures.auc import PooledAUC
from fastrank_eval.measures.pooled import MERGED, ClusteredMeasure
from fastrank_eval.results.differences import (
    Decomposition,
    decompose_by_slices,
    is_mean,
    slicings_of,
)
from fastrank_eval.results.gates import ALL
from fastrank_eval.results.notes import bucket_notes, rows_left_out_notes
from fastrank_eval.results.report import amount
from fastrank_eval.results.state import merged_evaluation, state_of_run
from fastrank_eval.slicing.spec import parse

#: The most nights of a run or a page.
MAX_NIGHTS = 3660
#: Leaves room for the weeks and months before a night.
_EARLIEST = dt.date(1900, 1, 1)
#: Format codes of C, POSIX and Python, with the flags of C libraries.
_FORMAT_CODE = re.compile(r"%[-_0^#EO]?[a-hj-nprstu-zA-DF-IMRSTU-Z%]|[^%]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DURATION = re.compile(r"([1-9][0-9]{0,4})([dh])")
_LONGEST = dt.timedelta(days=366)
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
#: A date to check texts with date fields by.
SAMPLE = dt.date(2026, 11, 19)


def parse_date(text: str, option: str = "--date") -> dt.date:
    """Parse a date.

    Parameters
    ----------
    text : str
        ``"2026-11-19"``.
    option : str
        The option, for the message.

    Raises
    ------
    ArgumentError
        The text is no date.

    Examples
    --------
    >>> parse_date("2026-11-19")
    datetime.date(2026, 11, 19)
    """
    try:
        if not _DATE.fullmatch(text):  # refuse ISO weeks
            raise ValueError
        date = dt.date.fromisoformat(text)
    except ValueError:
        raise ArgumentError(
            f"{option} {text!r} is not a date; write it as 2026-11-19 (year-month-day)."
        ) from None
    if date < _EARLIEST:
        raise ArgumentError(f"{option} {text!r} lies before {_EARLIEST}; name a later night.")
    return date


def parse_date_range(text: str) -> list[dt.date]:
    """Parse the range of dates of ``--backfill``, with both ends.

    Parameters
    ----------
    text : str
        ``"2026-11-01..2026-11-19"``.

    Returns
    -------
    list of datetime.date
        Ascending.

    Raises
    ------
    ArgumentError
        The text is no range, runs backwards, or is longer than ten years.

    Examples
    --------
    >>> [str(date) for date in parse_date_range("2026-11-30..2026-12-01")]
    ['2026-11-30', '2026-12-01']
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise ArgumentError(f"--backfill {text!r} is not a range; write 2026-11-01..2026-11-19.")
    begin, end = (parse_date(date, "--backfill") for date in (first, last))
    nights = (end - begin).days + 1
    if nights < 1:
        raise ArgumentError(f"--backfill {text!r} runs backwards; write {last}..{first}.")
    if nights > MAX_NIGHTS:
        raise ArgumentError(f"--backfill {text!r} has {nights:,} nights; {MAX_NIGHTS:,} at most.")
    return [begin + dt.timedelta(days=day) for day in range(nights)]


def parse_duration(text: str) -> dt.timedelta:
    """Parse a number of days or hours.

    Parameters
    ----------
    text : str
        ``"3d"`` or ``"36h"``, up to ``"366d"``.

    Raises
    ------
    ArgumentError
        The text is no such duration.

    Examples
    --------
    >>> parse_duration("3d"), parse_duration("36h")
    (datetime.timedelta(days=3), datetime.timedelta(days=1, seconds=43200))
    """
    match = _DURATION.fullmatch(text)
    if match is not None:
        number = int(match[1])
        duration = dt.timedelta(days=number) if match[2] == "d" else dt.timedelta(hours=number)
        if duration <= _LONGEST:
            return duration
    raise ArgumentError(
        f"{text!r} is no duration; write a whole number and d (days) or h (hours), such as 3d or "
        "36h, at most 366d."
    )


def fill_date(text: str, date: dt.date) -> str:
    """Replace ``{date}`` in a text by a date.

    Parameters
    ----------
    text : str
        ``{date}`` becomes 2026-11-19, and ``{date:%Y%m%d}`` any other format of ``strftime``.
        ``{{`` and ``}}`` are braces.
    date : datetime.date

    Raises
    ------
    ArgumentError
        Braces hold something else, or are not closed.

    Examples
    --------
    >>> fill_date("logs/day={date}/{date:%Y%m%d}.parquet", parse_date("2026-02-01"))
    'logs/day=2026-02-01/20260201.parquet'
    """
    return _FIELD.sub(lambda match: _format_field(match, text, date), text)


def depends_on_date(text: str) -> bool:
    """Return whether a text changes with the date of the night."""
    return fill_date(text, SAMPLE) != fill_date(text, SAMPLE + dt.timedelta(days=1))


def date_fields(text: str) -> list[str]:
    """Return the date fields of a text, such as ``{date:%Y}``."""
    return [match[0] for match in _FIELD.finditer(text) if match[1] is not None]


def _format_field(match: re.Match[str], text: str, date: dt.date) -> str:
    field, content = match[0], match[1]
    if field in ("{{", "}}"):
        return field[0]
    if content is None:
        raise ArgumentError(
            f"{field!r} in {text!r} has no counterpart; double it to write a brace."
        )
    name, colon, format_ = content.partition(":")
    if name != "date" or (colon and not format_):
        raise ArgumentError(
            f"{field!r} in {text!r} is not known; write {{date}} or, for instance, {{date:%Y%m%d}}."
        )
    if _FORMAT_CODE.sub("", format_):
        raise ArgumentError(f"{field!r} in {text!r} is not a date format of strftime.")
    try:
        return date.strftime(format_) if format_ else date.isoformat()
    except ValueError as error:
        raise ArgumentError(f"{field!r} in {text!r} is not a date format: {error}.") from None


def left_out(dates: Sequence[dt.date], reason: str, reason_of_several: str = "") -> str:
    """Write in one sentence which nights are left out.

    Parameters
    ----------
    dates : sequence of datetime.date
        At least one.
    reason : str
    reason_of_several : str
        The reason in the plural, if the singular does not fit several nights.

    Examples
    --------
    >>> left_out([dt.date(2026, 11, 19)], "it has no rows")
    '2026-11-19 is left out: it has no rows'
    >>> nights = [dt.date(2026, 11, day) for day in (19, 12, 15)]
    >>> left_out(nights, "it has no rows", "they have no rows")
    '3 nights from 2026-11-12 to 2026-11-19 are left out: they have no rows'
    """
    if len(dates) == 1:
        return f"{dates[0]} is left out: {reason}"
    nights = f"{len(dates)} nights from {min(dates)} to {max(dates)}"
    return f"{nights} are left out: {reason_of_several or reason}"


#: Pending bytes of states at which they are merged before more are read.
MERGE_BYTES = 1 << 25


#: Kinds of saved states: measures of groups; measures of all rows that are a few sums; AUC in bins;
#: and measures that read the score of every row, whose states grow with the rows.
KINDS = ("groups", "sums", "bins", "scores")


def states_of(
    evaluation: Evaluation, source: object, hidden: Collection[str], keep: str = "slices"
) -> SavedStates:
    """Save the states of a run.

    Parameters
    ----------
    evaluation : Evaluation
    source : object
        The source of `run`.
    hidden : collection of str
        Measures to leave out, since no other run has them. Multicalibration errors are left out
        too: sigmas grow with the rows, so that of a week is no mean of its nights.
    keep : str
        As ``states`` in ``[history]``.
    """
    measures = [
        m for m in evaluation.plan.measures if str(m) not in hidden and m.name != MultiECCE.name
    ]
    measures_by_kind: dict[str, list[Measure]] = {kind: [] for kind in KINDS}
    for measure in measures:
        measures_by_kind[_kind_of(measure)].append(measure)
    sliced_by = {"groups": ("everything", "slices")}
    states = {
        kind: _state(evaluation, source, measures, keep in sliced_by.get(kind, ("everything",)))
        for kind, measures in measures_by_kind.items()
        if measures and (keep != "groups" or kind == "groups")
    }
    fingerprints = [
        seen.fingerprint for state in states.values() for seen in state.provenance if seen.rows
    ]
    fingerprint = hashlib.sha256("".join(fingerprints).encode()).hexdigest() if fingerprints else ""
    return SavedStates({kind: state.to_bytes() for kind, state in states.items()}, fingerprint)


def _kind_of(measure: Measure) -> str:
    if not measure.pooled:
        return "groups"
    if isinstance(measure, PooledAUC) and measure.bins is not None:
        return "bins"
    return "sums" if isinstance(measure, ClusteredMeasure) else "scores"


def _state(
    evaluation: Evaluation, source: object, measures: list[Measure], keep_slices: bool
) -> State:
    plan = replace(evaluation.plan, measures=tuple(measures))
    if not keep_slices:
        plan = replace(plan, slicings=None)
    totals = evaluation.totals.select(plan)
    texts = set(map(str, measures))
    requested = {name: text for name, text in evaluation.meta.requested.items() if text in texts}
    meta = replace(evaluation.meta, requested=requested)
    state = state_of_run(replace(evaluation, plan=plan, totals=totals, meta=meta), source)
    return state if keep_slices else state.without_slices()


@dataclass(frozen=True)
class MergedNights:
    """The merged values of several nights.

    Parameters
    ----------
    values : tuple of MeasureValue
        Values of all rows and of each slice.
    dates : tuple of datetime.date
        Dates of the nights, ascending.
    notes : tuple of str
        Nights and slices that could not be merged, and the reasons.
    has_errors : bool
        Whether values have errors: over buckets of clusters, or of one night.
    """

    values: tuple[MeasureValue, ...] = ()
    dates: tuple[dt.date, ...] = ()
    notes: tuple[str, ...] = ()
    has_errors: bool = False


#: Why a night is left out, and why several are.
_UNSAVED = (
    "it has no saved state; run it again",
    "they have no saved states; run them again",
)
_UNREADABLE = (
    "its saved state cannot be read; run it again, which replaces it",
    "their saved states cannot be read; run them again, which replaces them",
)


class NightMerger:
    """Merges the states of nights that are added one by one.

    Nights with other conventions, measures or models than the latest are left out. So are slicings
    that differ between nights, such as those by quantiles of each night.
    """

    def __init__(self) -> None:
        self._total: State | None = None
        self._latest: State | None = None
        self._pending: list[tuple[dt.date, State]] = []
        self._bytes = 0
        self._dates: list[dt.date] = []
        # The nights that are left out, by the reason for one and for several of them.
        self._left_out: dict[tuple[str, str], list[dt.date]] = {}
        self._notes: list[str] = []
        self._dropped: set[str] = set()

    def add(self, date: dt.date, content: bytes | None) -> None:
        """Add a night, or note why it is left out.

        Parameters
        ----------
        date : datetime.date
            Dates descend from call to call.
        content : bytes or None
            Result of `State.to_bytes`; None if the night has no state.
        """
        if content is None:
            self._leave_out(date, *_UNSAVED)
            return
        try:
            state = State.from_bytes(content, name=f"the state of {date}")
        except SourceError:
            self._leave_out(date, *_UNREADABLE)
            return
        # Skip empty nights, whose columns may have other types.
        if not state.rows:
            return
        overall = state.without_slices()
        try:
            if self._latest is None:
                self._latest = overall
            self._latest.check_mergeable(overall)
        except MergeError as error:
            self._leave_out(date, str(error))
            return
        self._pending.append((date, state))
        self._bytes += len(content)
        if self._bytes >= MERGE_BYTES:
            self._merge_pending()

    def result(
        self, confidence: float, min_groups: int = 1, *, is_last: bool = False
    ) -> MergedNights:
        """Return the merged values of all nights so far.

        They equal one run over all rows, to the last bit. Without clusters they lack the error of
        AUC, which takes time, and `with_periods` shows no errors.

        Parameters
        ----------
        confidence : float
        min_groups : int
            Leave out slices of fewer groups.
        is_last : bool
            No night will be added, so the merged nights need not be kept.
        """
        if not is_last:
            self._merge_pending()
        states = self._with_common_slicings(self._states())
        try:
            evaluation = merged_evaluation(states, confidence, min_groups) if states else None
        except MergeError:
            if not self._pending:
                raise
            # They are merged one by one then, and those that cannot be are left out.
            return self.result(confidence, min_groups)
        left = (left_out(nights, *why) for why, nights in self._left_out.items())
        notes = (*left, *self._notes)
        if not evaluation:
            return MergedNights(notes=notes)
        dates = tuple(sorted([*self._dates, *(date for date, _ in self._pending)]))
        notes += tuple(rows_left_out_notes(evaluation.meta))
        notes += tuple(bucket_notes(evaluation.meta))
        return MergedNights(tuple(evaluation.summary), dates, notes, evaluation.plan.buckets)

    def _leave_out(self, date: dt.date, reason: str, reason_of_several: str = "") -> None:
        self._left_out.setdefault((reason, reason_of_several), []).append(date)

    def _merge_pending(self) -> None:
        """Merge the pending states into the total."""
        if not self._pending:
            return
        states = self._with_common_slicings(self._states())
        self._total = states.pop(0) if self._total else None
        self._merge([date for date, _ in self._pending], states)
        self._pending.clear()
        self._bytes = 0

    def _states(self) -> list[State]:
        """Return the total, if there is one, and the pending states."""
        return [*filter(None, [self._total]), *(state for _, state in self._pending)]

    def _merge(self, dates: Sequence[dt.date], states: Sequence[State]) -> None:
        """Merge states at once, or one by one if some cannot be merged."""
        first, *others = states if self._total is None else [self._total, *states]
        try:
            self._total = first.merge(*others, allow_repeated=True)
            self._dates += dates
        except MergeError as error:
            if len(states) == 1:
                self._leave_out(dates[0], str(error))
            for date, state in zip(dates, states, strict=True) if len(states) > 1 else ():
                self._merge([date], [state])

    def _with_common_slicings(self, states: Sequence[State]) -> list[State]:
        """Drop slicings that differ between states, with a note for each."""
        slicings = [state.slicings for state in states]
        for by in dict.fromkeys(by for slicings_of_state in slicings for by in slicings_of_state):
            if by in self._dropped:
                continue
            if not all(by in slicings_of_state for slicings_of_state in slicings):
                reason = "not all nights have them"
            elif any(slicings_of_state[by] != slicings[0][by] for slicings_of_state in slicings):
                reason = "their edges are not the same on all nights"
            else:
                continue
            self._dropped.add(by)
            self._notes.append(f"slices by {by} are left out: {reason}")
        dropped = [[by for by in state.slicings if by in self._dropped] for state in states]
        return [
            state.without_slices(*own) if own else state
            for state, own in zip(states, dropped, strict=True)
        ]


#: Why merged nights have no errors: their groups are the users of one night each.
NO_INTERVALS = (
    "no intervals: the same user counts once a night, so they would be too narrow; name the user "
    "in [columns] cluster, and run the nights again"
)
#: Why some values have no errors although the nights keep sums of clusters.
_NO_ERROR = "no interval over several nights, which needs the rows of each user together:"
#: The most scores, over all models, to merge for a period. Time and memory grow with them.
MOST_SCORES = 20_000_000


def with_periods(night: Night, history: History) -> Night:
    """Add the week and the month that end with a night, and compositions.

    Errors of merged values are over buckets of clusters, if all merged nights keep them. Without
    them values have no errors and no intervals: these would take the users of each night as
    independent of the same users on the other nights, and be too small. A note says so.

    Nights that cannot be read or merged are left out, and so are nights with the rows of an earlier
    night. Notes give the reasons.

    Parameters
    ----------
    night : Night
        With its differences.
    history : History
        The store of the night and the earlier nights.

    See Also
    --------
    with_compositions : The decompositions of changes since earlier nights.
    """
    night = with_compositions(night, history)
    first = night.date - dt.timedelta(days=max(PERIODS.values()) - 1)
    heads = history.heads(first, night.date)
    rows = {each.date: each.quality.rows for each in heads}
    repeats = history.repeats(first, night.date)
    level, least_groups = confidence_of(night), night.conventions.get("min_groups", 1)
    values: dict[str, list[MeasureValue]] = {name: [] for name in PERIODS}
    dates: dict[str, tuple[dt.date, ...]] = {}
    # The periods of each note.
    notes: dict[str, list[str]] = {}
    with_errors: set[str] = set()
    scores = {
        name: len(night.models)
        * sum(count for date, count in rows.items() if _within(date, night, days))
        for name, days in PERIODS.items()
    }
    too_many = {name: number for name, number in scores.items() if number > MOST_SCORES}
    for kind in KINDS:
        own = history.state(night.date, kind)
        if own is None and night.quality.rows:
            # The night has no measure of this kind.
            continue
        left = too_many if kind == "scores" else {}
        if left:
            notes[_too_many(left.values())] = list(left)
        name_of = {days: name for name, days in PERIODS.items() if name not in left}
        merging = NightMerger()
        for day in range(max(name_of, default=0)):
            date = night.date - dt.timedelta(days=day)
            if rows.get(date) and date not in repeats:
                merging.add(date, history.state(date, kind) if day else own)
            if day + 1 in name_of:
                name, is_last = name_of[day + 1], day + 1 == max(name_of)
                merged = merging.result(level, least_groups, is_last=is_last)
                values[name] += (_shown(value, night, merged.has_errors) for value in merged.values)
                with_errors |= {name} if merged.has_errors else set()
                dates.setdefault(name, merged.dates)
                for note in merged.notes:
                    notes.setdefault(note, []).append(name)
    for date, other in sorted(repeats.items()):
        names = [name for name, days in PERIODS.items() if _within(date, night, days)]
        notes[f"{date} is left out: its rows are those of {other}"] = names
    failed: dict[tuple[str, ...], dict[dt.date, str]] = {}
    for date, reason in history.failures(first, night.date).items():
        in_periods = tuple(name for name, days in PERIODS.items() if _within(date, night, days))
        failed.setdefault(in_periods, {})[date] = reason
    for in_periods, reasons in failed.items():
        were = "were not evaluated; the last" if len(reasons) > 1 else "was not evaluated"
        text = f"{', '.join(map(str, reasons))} {were}: {reasons[max(reasons)]}"
        notes[text] = list(in_periods)
    doubtful: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for each in heads:
        in_periods = tuple(name for name, nights in dates.items() if each.date in nights)
        texts = {
            "the labels of {} are not complete": each.is_early,
            "the rows of {} did not pass the checks": each.status == "data_quality",
        }
        for text in (text for text, holds in texts.items() if holds and in_periods):
            doubtful.setdefault((text, in_periods), []).append(str(each.date))
    for (text, in_periods), nights in doubtful.items():
        notes[text.format(", ".join(nights))] = list(in_periods)
    dates_by_period = {name: nights for name, nights in dates.items() if nights}
    for name in dates_by_period:
        without = dict.fromkeys(v.display_name for v in values[name] if v.warning == MERGED)
        if without:
            notes.setdefault(f"{_NO_ERROR} {', '.join(without)}", []).append(name)
    if names := [name for name in dates_by_period if name not in with_errors]:
        notes[NO_INTERVALS] = names
    return replace(
        night,
        periods={name: _in_order(night, values[name]) for name in dates_by_period},
        period_nights=dates_by_period,
        period_notes=tuple(
            f"{' and '.join(dict.fromkeys(names))}: {text}" for text, names in notes.items()
        ),
    )


def merged(night: Night, history: History) -> Night:
    """Add week, month and compositions, if the history can be read."""
    with suppress(FastRankEvalError):  # the night is stored, and its page says what fails
        changes, night = history.changes(), with_periods(night, history)
        history.write_periods(night, changes)
    return night


def _shown(value: MeasureValue, night: Night, has_error: bool) -> MeasureValue:
    """Return a value of merged nights by its reported name."""
    value = replace(value, measure=display_name(value.measure, night.measures))
    if has_error:
        return value
    return replace(
        value,
        se=math.nan,
        ci_low=math.nan,
        ci_high=math.nan,
        effective_groups=math.nan,
        details={} if night.unit == "cluster" else value.details,
        warning=None,
    )


def _within(date: dt.date, night: Night, days: int) -> bool:
    return night.date - dt.timedelta(days=days) < date <= night.date


def _too_many(scores: Iterable[int]) -> str:
    numbers = " and ".join(f"{number:,}" for number in scores)
    return (
        "measures that read the score of every row, such as AUC, are left out: the nights have "
        f"{numbers} scores, more than {MOST_SCORES:,}"
    )


def _in_order(night: Night, values: Iterable[MeasureValue]) -> tuple[MeasureValue, ...]:
    """Sort values: all rows by model and measure, then slices."""
    models = {model: index for index, model in enumerate(night.models)}
    measures = {measure: index for index, measure in enumerate(night.measures)}

    def index(value: MeasureValue) -> tuple[int, ...]:
        if value.slice != "all":
            return (1,)
        return 0, models.get(value.score, 0), measures.get(value.measure, len(measures))

    return tuple(sorted(values, key=index))


#: The largest remainder, as a share of all parts, of slices that explain a change.
_SMALL_REMAINDER = 0.01
#: Names of the two nights in the values to decompose.
_BEFORE, _AFTER = "before", "after"


def with_compositions(night: Night, history: History) -> Night:
    """Add the decompositions of the changes since earlier nights.

    Each model and measure that is a mean over groups has one for yesterday and one for last week,
    by one slicing, the same for all models. Slicings whose slices explain the changes (with a
    remainder of at most 1 % of all parts) come first, and of these the one with the largest
    composition; else the one with the smallest remainder. Slices of few groups count too.

    Parameters
    ----------
    night : Night
        With its differences.
    history : History
        The store of the night and the earlier nights.

    Returns
    -------
    Night
        Without decompositions if a state is missing or cannot be read.
    """
    kinds = [kind for kind in EARLIER if any(d.kind == kind for d in night.compared)]
    if not kinds or not night.conventions.get("by"):
        return night
    latest = _sliced(history.state(night.date, "groups"))
    compositions: list[CompositionChange] = []
    for kind in kinds if latest else ():
        date = night.date - dt.timedelta(days=EARLIER[kind])
        # A provisional night is compared with provisional values, whose state may be replaced.
        if night.provisional and not any(one.is_early for one in history.heads(date, date)):
            continue
        compositions += _compositions(kind, night, latest, _sliced(history.state(date, "groups")))
    return replace(night, compositions=tuple(compositions))


def find_composition(night: Night, kind: str, score: str, measure: str) -> CompositionChange | None:
    """Find the decomposition of a change on all rows."""
    key = kind, score, measure
    found = (one for one in night.compositions if (one.kind, one.score, one.measure) == key)
    return next(found, None)


def composition_parts(one: CompositionChange) -> list[tuple[str, str]]:
    """Format the parts of a change, each with its name.

    Returns
    -------
    list of tuple of (str, str)
        Within slices and composition; the remainder only if it is not 0 as it is printed.
    """
    digits = digits_for(abs(one.difference))
    parts = [
        ("within slices", one.within),
        (f"composition of {parse(one.by).short}", one.composition),
    ]
    if round(one.remainder, digits):
        parts.append(("not by these slices", one.remainder))
    return [(name, amount(value, digits, sign=True)) for name, value in parts]


def composition_texts(night: Night) -> list[str]:
    """Describe the decompositions of the significant changes on all rows.

    Returns
    -------
    list of str
        Of the first measure that is a mean over groups.
    """
    first = next((one.measure for one in night.compositions), "")
    significant = {
        (d.kind, d.score): d.delta
        for d in night.compared
        if d.slice == ALL and d.measure == first and d.verdict in SIGNIFICANT
    }
    return [
        f"{night.name_of(one.measure)} of {one.score} since {ago(one.kind)}: "
        + ", ".join(f"{name} {number}" for name, number in composition_parts(one))
        for one in night.compositions
        if one.measure == first and (one.kind, one.score) in significant
    ]


#: Values of a night by slicing, with the edges of the slicing; those of all rows are under "".
_Sliced = dict[str, tuple[object, list[MeasureValue]]]


def _sliced(content: bytes | None) -> _Sliced:
    """Return the values of a state; empty if it is missing or cannot be read."""
    if content is None:
        return {}
    try:
        state = State.from_bytes(content)
        values = state.evaluation(min_groups=1).summary if state.rows else []
    except FastRankEvalError:  # the notes of the periods name it
        return {}
    result: _Sliced = {}
    for value in values:
        by = value.by or ""
        result.setdefault(by, (state.slicings.get(by), []))[1].append(value)
    return result


def _compositions(
    kind: str, night: Night, latest: _Sliced, earlier: _Sliced
) -> Iterator[CompositionChange]:
    # Slices of other edges, such as those by quantiles of each night, are not comparable.
    common = [by for by in latest if by in earlier and latest[by][0] == earlier[by][0]]
    if len(common) < 2:
        return
    sides_by_score = {
        score: [
            replace(value, score=side)
            for side, sliced in ((_BEFORE, earlier), (_AFTER, latest))
            for by in common
            for value in sliced[by][1]
            if value.score == score
        ]
        for score in night.models
    }
    for measure in (text for text in night.measures if is_mean(measure_of(text))):
        on_both = {
            score: sides
            for score, sides in sides_by_score.items()
            if {v.score for v in sides if v.measure == measure and v.by is None}
            == {_BEFORE, _AFTER}
        }
        by, parts_by_score = _best(on_both, measure)
        for score, parts in parts_by_score.items():
            numbers = parts.difference, parts.within, parts.composition, parts.remainder
            yield CompositionChange(kind, score, measure, by, *numbers)


def _best(
    sides_by_score: Mapping[str, Sequence[MeasureValue]], measure: str
) -> tuple[str, dict[str, Decomposition]]:
    """Choose one slicing for all models, and split their changes."""
    slicings = [slicings_of(sides) for sides in sides_by_score.values()]
    decompositions = {
        by: {
            score: decompose_by_slices(sides, measure, _BEFORE, _AFTER, by)
            for score, sides in sides_by_score.items()
        }
        for by in (slicings[0] if slicings else ())
        if all(by in of_model for of_model in slicings)
    }

    def rank(by: str) -> tuple[bool, float]:
        every = decompositions[by].values()
        remainder = sum(abs(parts.remainder) for parts in every)
        composition = sum(abs(parts.composition) for parts in every)
        size = sum(abs(parts.within) for parts in every) + composition + remainder
        if remainder <= _SMALL_REMAINDER * size:
            return False, -composition
        return True, remainder

    by = min(decompositions, key=rank, default="")
    return by, decompositions.get(by, {})
