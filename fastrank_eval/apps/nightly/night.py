"""Define the types of a night: its date, numbers, findings and status."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.analysis.compare import with_clustered_errors
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.measures import Measure
from fastrank_eval.measures.auc import PooledAUC
from fastrank_eval.measures.parser import find_computed
from fastrank_eval.measures.parser import measure as measure_of
from fastrank_eval.results.gates import DifferenceFields

#: The most nights of a run or a page.
MAX_NIGHTS = 3660
#: Leaves room for the weeks and months before a night.
_EARLIEST = dt.date(1900, 1, 1)
#: Format codes of C, POSIX and Python, with the flags of C libraries.
_FORMAT_CODE = re.compile(r"%[-_0^#EO]?[a-hj-nprstu-zA-DF-IMRSTU-Z%]|[^%]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SAMPLE = dt.date(2026, 11, 19)


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
    """Tell whether a text changes with the date of the night."""
    return fill_date(text, _SAMPLE) != fill_date(text, _SAMPLE + dt.timedelta(days=1))


def date_fields(text: str) -> list[str]:
    """Return the date fields of a text, such as ``{date:%Y}``."""
    return [match[0] for match in _FIELD.finditer(text) if match[1] is not None]


def check_date_fields(text: str) -> None:
    """Refuse a text with invalid date fields; see `fill_date`."""
    fill_date(text, _SAMPLE)


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


def values_of(evaluation: Evaluation, hidden: Collection[str] = ()) -> list[MeasureValue]:
    """Return the values of a run without the measures of `hidden`."""
    return [value for value in evaluation.summary if value.measure not in hidden]


def with_standard_errors(requested: Sequence[Measure]) -> tuple[Measure, ...]:
    """Give AUC the standard error that `compare` computes.

    Parameters
    ----------
    requested : sequence of Measure
        If one of them names a standard error of AUC, they are returned as they are.
    """
    return (
        tuple(requested) if any(map(_is_clustered, requested)) else with_clustered_errors(requested)
    )


def display_names(requested: Sequence[Measure], used: Sequence[Measure]) -> dict[str, str]:
    """Map the text of a measure to its name on a night, where they differ.

    Parameters
    ----------
    requested : sequence of Measure
    used : sequence of Measure
        The computed measures: the result of `with_standard_errors` under the profile.
    """
    if any(_is_clustered(each) for each in requested):
        return {}
    return {str(measure): _plain(measure) for measure in used if _is_clustered(measure)}


def display_name(text: str, measures: Collection[str]) -> str:
    """Return the name that a night uses for a computed measure."""
    if text in measures:
        return text
    plain = _plain(measure_of(text))
    return plain if plain in measures else text


def _plain(measure: Measure) -> str:
    return str(measure(se=None)) if _is_clustered(measure) else str(measure)


def _is_clustered(measure: Measure) -> bool:
    return isinstance(measure, PooledAUC) and measure.se == "clustered"


#: Earlier nights that each night is compared with, and how many days they lie before it.
EARLIER = {"yesterday": 1, "last_week": 7}
#: Kinds of difference, in the order of the page.
KINDS = ("baseline", *EARLIER)
#: Periods whose nights are merged, in days, with the last night included.
PERIODS = {"week": 7, "month": 30}


@dataclass(frozen=True)
class NightDifference(DifferenceFields):
    """The difference of a model from the baseline or an earlier night.

    Parameters
    ----------
    kind : str
        One of `KINDS`.
    """

    kind: str
    score: str
    baseline: str
    by: str | None
    slice: str
    measure: str
    delta: float
    se: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    relative: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan
    verdict: str = ""


@dataclass(frozen=True)
class NightQuality:
    """Counts and flags that show whether the rows of a night are sound.

    Parameters
    ----------
    rows, groups, positives : int
    ctr : float
        Positives over rows.
    coverage : float
        Share of the groups that GAUC, or else the first measure, uses.
    single_class_share : float
        Share of the groups whose labels are all equal.
    tie_rate : float
        Share of the rows whose score of the baseline is tied within their group.
    tie_rates : mapping of str to float
        Tie rate of each model.
    nulls : mapping of str to int
        Nulls of each column read.
    volume_drift, ctr_drift : float
        Distance from the median of the last 14 nights with rows (of 28 days), in scaled median
        absolute deviations; NaN with fewer than five.
    flags : tuple of str
        Descriptions of the problems.
    """

    rows: int
    groups: int
    positives: int
    ctr: float
    coverage: float
    single_class_share: float
    tie_rate: float
    nulls: Mapping[str, int] = field(default_factory=dict)
    volume_drift: float = math.nan
    ctr_drift: float = math.nan
    flags: tuple[str, ...] = ()
    tie_rates: Mapping[str, float] = field(default_factory=dict)


#: The convention `labels` of a night without labels.
NO_LABELS = "none yet"
#: The most distinct values that are surely counted.
MOST_VALUES = 256


@dataclass(frozen=True)
class NightDrift:
    """The distance of scores or a column from the nights before.

    Parameters
    ----------
    score : str
        A model, or a column of ``[drift]``.
    rows, nulls : int
    distinct : int
        Distinct values; a lower bound beyond 256.
    psi, ks : float
        Population stability index, and the statistic of Kolmogorov and Smirnov, which is too small
        by the rows of a bin at most. NaN without earlier nights.
    out_of_range : float
        Share of the numbers outside [0, 1]; NaN if earlier nights have such numbers.
    nights, reference_rows : int
        Earlier nights, and their rows with a number.
    verdict : str
        ``"same"``, ``"changed"``, ``"failed"`` or ``"not judged"``.
    """

    score: str
    by: str | None
    slice: str
    rows: int
    nulls: int
    distinct: int
    psi: float = math.nan
    ks: float = math.nan
    out_of_range: float = math.nan
    nights: int = 0
    reference_rows: int = 0
    verdict: str = "not judged"


@dataclass(frozen=True)
class CurveLine:
    """The curve of a model in a ROC or calibration chart."""

    score: str
    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class GateOutcome:
    """The outcome of a gate."""

    condition: str
    passed: bool
    reason: str = ""


@dataclass(frozen=True)
class Finding:
    """A problem or change of one model on one slice.

    Numbers that do not exist are NaN.

    Parameters
    ----------
    kind : str
        ``"gate"``: a condition of the configuration is true or cannot be judged. ``"scores"``:
        there are too few distinct scores. ``"drift"``: scores or a column are far from those of the
        nights before. ``"change"``: a number without a gate is not as usual.
    condition : str
        The text of the gate; empty if the finding does not fail the night.
    score, by, slice, measure : str
        Empty if the gate names none.
    compared : str
        The kind of the difference of a gate, of `KINDS`; ``"baseline"`` or ``"before"`` for a
        change; empty without a difference.
    against : str
        The model or the date of the value compared with.
    value, ci_low, ci_high : float
    base : float
        The value compared with.
    delta, delta_ci_low, delta_ci_high, p_adjusted : float
    verdict : str
        Verdict of the difference; see `NightDifference`.
    field, operator : str
        For a gate that limits one number: the name of the number, and the operator that fails the
        night.
    limit, number : float
        Limit and number:

        ============ =============================== =======================
        kind         limit                           number
        ============ =============================== =======================
        ``"gate"``   limit of the gate               number that it limits
        ``"scores"`` least number of distinct scores their number
        ``"drift"``  limit of the number in `field`  PSI, KS or share
        ``"change"`` usual night-to-night movement   movement of the value
        ============ =============================== =======================

        A change from the baseline has the movement of the difference. NaN with too few earlier
        nights.
    detail : str
        The reason why a gate cannot be judged.
    since : datetime.date or None
        The first of the consecutive nights with this finding, as far as history goes back; None
        for a change from the night before.
    nights : int
        Number of these nights, with this one.
    """

    kind: str
    condition: str = ""
    score: str = ""
    by: str = ""
    slice: str = ""
    measure: str = ""
    compared: str = ""
    against: str = ""
    value: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    base: float = math.nan
    delta: float = math.nan
    delta_ci_low: float = math.nan
    delta_ci_high: float = math.nan
    p_adjusted: float = math.nan
    verdict: str = ""
    field: str = ""
    operator: str = ""
    limit: float = math.nan
    number: float = math.nan
    detail: str = ""
    since: dt.date | None = None
    nights: int = 1

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the finding, equal on every night with the same finding."""
        of = (self.measure, self.compared) if self.kind == "change" else ()
        return self.kind, self.condition, self.score, self.by, self.slice, *of


@dataclass(frozen=True)
class EarlierFindings:
    """The findings of an earlier night.

    Parameters
    ----------
    status : str
    findings : tuple of Finding
    not_judged : frozenset of str
        The texts of gates that were not judged.
    """

    status: str
    findings: tuple[Finding, ...]
    not_judged: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Night:
    """All results of one night.

    Parameters
    ----------
    status : str
        ``"fine"``, ``"changed"``, ``"regression"`` or ``"data_quality"``.
    findings : tuple of Finding
        Problems and changes, the most important first.
    notes : tuple of str
        Earlier nights that it is not compared with, and the reasons.
    periods : mapping of str to tuple of MeasureValue
        ``"week"``, ``"month"``: the merged values of the last 7 and 30 nights, with this one.
        Computed from saved states when a page is made; not stored in history.
    period_nights : mapping of str to tuple of datetime.date
        The merged nights of each period, ascending.
    period_notes : tuple of str
        Nights and slices that could not be merged, and the reasons.
    """

    date: dt.date
    title: str
    models: tuple[str, ...]
    baseline: str | None
    measures: tuple[str, ...]
    sources: tuple[str, ...]
    command: str
    version: str
    seconds: float
    conventions: Mapping[str, object]
    values: tuple[MeasureValue, ...]
    quality: NightQuality
    compared: tuple[NightDifference, ...] = ()
    curves: Mapping[str, tuple[CurveLine, ...]] = field(default_factory=dict)
    gates: tuple[GateOutcome, ...] = ()
    status: str = "fine"
    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    drift: tuple[NightDrift, ...] = ()
    periods: Mapping[str, tuple[MeasureValue, ...]] = field(default_factory=dict)
    period_nights: Mapping[str, tuple[dt.date, ...]] = field(default_factory=dict)
    period_notes: tuple[str, ...] = ()

    @property
    def has_labels(self) -> bool:
        """Whether the night was judged with its labels."""
        return self.conventions.get("labels") != NO_LABELS

    @property
    def requested(self) -> Mapping[str, str]:
        """Computed measure by the name that was requested, where they differ."""
        names = self.conventions.get("requested")
        return names if isinstance(names, Mapping) else {}

    def name_of(self, measure: str) -> str:
        """Return the name of a measure in reports: the one that was asked for."""
        names = self.conventions.get("names")
        return str(names.get(measure, measure)) if isinstance(names, Mapping) else measure

    def find(self, text: str) -> Measure | None:
        """Find the measure that was computed for a requested one, or None."""
        return find_computed(measure_of(text), self.measures, self.requested)


@dataclass(frozen=True)
class SavedStates:
    """The saved states of a night.

    Parameters
    ----------
    contents : mapping of str to bytes
        Result of `State.to_bytes` by kind. Kinds without a measure are left out.
    fingerprint : str
        Equal for equal rows on any night; empty without a row.
    """

    contents: Mapping[str, bytes] = field(default_factory=dict)
    fingerprint: str = ""


@dataclass(frozen=True)
class GateTexts:
    """Conditions that a night must not meet.

    Parameters
    ----------
    fail_if : tuple of str
        Conditions on the night and on its differences from the baseline.
    fail_if_yesterday, fail_if_last_week : tuple of str
        Conditions on the differences of each model from itself on the night before, and a week
        before.
    min_distinct_scores : int or None
        The fewest distinct scores that a model may give to all rows or to a slice. None: one score
        fails the night, and few scores are findings; see `few_scores`.
    """

    fail_if: tuple[str, ...] = ()
    fail_if_yesterday: tuple[str, ...] = ()
    fail_if_last_week: tuple[str, ...] = ()
    min_distinct_scores: int | None = None


@dataclass(frozen=True)
class QualityLimits:
    """Limits of the rows of a night; None is no limit.

    Parameters
    ----------
    min_rows, min_groups : int
    min_coverage, max_single_class_share, max_tie_rate, max_null_share : float or None
        Shares, see `NightQuality`; the last one limits the nulls of each column over all rows.
    max_volume_drift, max_ctr_drift : float or None
        In scaled median absolute deviations, in both directions.
    ties : bool
        Compute the tie rate, which needs every group sorted.
    """

    min_rows: int = 1
    min_groups: int = 1
    min_coverage: float | None = None
    max_single_class_share: float | None = None
    max_tie_rate: float | None = None
    max_null_share: float | None = None
    max_volume_drift: float | None = None
    max_ctr_drift: float | None = None
    ties: bool = True


#: Distinct scores that can be counted.
MOST_SCORES = 1000
#: What history keeps: all states; of slices only measures of groups; no slices; no slices and only
#: measures of groups.
STATES = ("everything", "slices", "rows", "groups")
