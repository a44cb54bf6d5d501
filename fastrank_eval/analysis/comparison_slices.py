"""Write verdicts on differences, and lay out tables of slices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastrank_eval.analysis.compared_value import ComparedValue
from fastrank_eval.measures import Measure
from fastrank_eval.results.format import decimals, printable
from fastrank_eval.results.slice_view import fold_text, longest_line
from fastrank_eval.results.tables import GAP, Cells
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from fastrank_eval.analysis.attribution import Decomposition
    from fastrank_eval.analysis.compared_value import ComparisonRecords

__all__ = [
    "ComparedSlices",
    "amount",
    "compared_slices",
    "compared_slices_notes",
    "digits_of",
    "interval_text",
    "is_shown",
    "is_undecided",
    "undecided_text",
    "verdict_on",
]


_UNDECIDED = "no difference is shown"
_DETECTABLE = "would have been found in 80% of such logs"
#: Tests that agree with the interval of the difference; others may not.
_INTERVAL_TESTS = ("clustered_t", "clustered_z", "bootstrap")
#: Measures without a better direction.
_WITHOUT_DIRECTION = ("Bias", "NumNonrelRet", "NumRel", "NumRet", "PCOC")


def verdict_on(value: ComparedValue, measure: Measure, confidence: float) -> str:
    """Write which model is better, and how significant the difference is.

    Parameters
    ----------
    value : ComparedValue
        All fields but the verdict.
    measure : Measure
    confidence : float
        A difference is shown where the adjusted p-value is at most ``1 - confidence``.
    """
    name, base, what = value.score, value.baseline, value.measure
    if math.isnan(value.delta):
        missing = [
            model
            for model, number in ((base, value.base_value), (name, value.value))
            if math.isnan(number)
        ]
        return f"not compared: {what} of {' and '.join(missing)} is undefined"
    digits = digits_of(value)
    shift = f"{amount(value.delta, digits, sign=True)} {what}"
    if value.caution == "pooled":
        return f"not tested: {shift}; a measure of all rows together has no standard error here"
    if value.caution == "not_paired":
        return f"not tested: {shift}; slices of results are not paired, those of compare(by=) are"
    if value.caution == "one_group":
        return f"not tested: {shift}; one group tells no standard error"
    if value.caution == "no_variance":
        return f"not tested: {shift} in every group; without variance there is no scale"
    if value.caution == "no_difference":
        return f"no difference: {what} of {name} and {base} is the same in every group"
    interval = interval_text(value, digits)
    note = f", {100 * confidence:.12g}% CI {interval}" if interval else ""
    if is_shown(value, confidence):
        if value.test not in _INTERVAL_TESTS:
            note += f"; p {_p_text(value.p_adjusted)} by {value.test}"
        if _contradicts(value, measure):
            return (
                f"mixed: {name} is {'better' if _wins_lead(value) else 'worse'} in more groups "
                f"than not ({value.wins:,} to {value.losses:,}), yet {shift}{note}"
            )
        return f"{name} is {_direction(value.delta, measure)}: {shift}{note}"
    text = f"{_UNDECIDED}: {shift}{note}"
    if value.p_value <= 1 - confidence:
        text += f"; p {_p_text(value.p_adjusted)} among {value.comparisons} comparisons"
    if value.mdd > 0:
        text += f"; a difference of {amount(value.mdd, digits)} {_DETECTABLE}"
    return text


def is_shown(value: ComparedValue, confidence: float) -> bool:
    """Tell whether a difference is significant by its adjusted p-value."""
    return value.p_adjusted <= 1 - confidence and value.delta != 0


def is_undecided(value: ComparedValue, confidence: float) -> bool:
    """Tell whether a difference is undecided even without correction."""
    return value.verdict.startswith(f"{_UNDECIDED}:") and not value.p_value <= 1 - confidence


def undecided_text(values: Sequence[ComparedValue]) -> str:
    """Write one verdict on several undecided measures of a candidate."""
    text = f"{_UNDECIDED}: {', '.join(value.measure for value in values)}"
    differences = [amount(value.mdd, digits_of(value)) for value in values if value.mdd > 0]
    if len(differences) < len(values):
        return text
    return f"{text}; differences of {', '.join(differences)} {_DETECTABLE}"


def amount(value: float, digits: int | None, sign: bool = False) -> str:
    """Write a number with some decimals; with three digits if None."""
    form = f"{'+' if sign else ''},.{digits}f" if digits is not None else f"{'+' * sign}.3g"
    return format(value, form)


def interval_text(value: ComparedValue, digits: int | None = None) -> str:
    """Write the interval of a difference, empty where unknown."""
    low, high = value.ci_low, value.ci_high
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    digits = digits_of(value) if digits is None else digits
    return f"[{amount(low, digits, sign=True)}, {amount(high, digits, sign=True)}]"


def digits_of(value: ComparedValue) -> int | None:
    """Find the decimals for two digits of half the interval."""
    half_width = (value.ci_high - value.ci_low) / 2
    return decimals(
        half_width if math.isfinite(half_width) and half_width > 0 else abs(value.delta) / 10
    )


def _direction(delta: float, measure: Measure) -> str:
    if measure.name in _WITHOUT_DIRECTION:
        return "higher" if delta > 0 else "lower"
    return "better" if (delta > 0) == measure.higher_is_better else "worse"


def _contradicts(value: ComparedValue, measure: Measure) -> bool:
    """Tell whether a test of counts or ranks contradicts the value."""
    if value.test not in ("sign", "wilcoxon") or value.wins == value.losses:
        return False
    return _wins_lead(value) != ((value.delta > 0) == measure.higher_is_better)


def _wins_lead(value: ComparedValue) -> bool:
    return (value.wins or 0) > (value.losses or 0)


def _p_text(p_value: float) -> str:
    return "<0.0001" if p_value < 1e-4 else f"{p_value:.2g}"


_LABEL, _TITLE = 16, 12  # least widths of labels and measures before they are folded
_MARKS = {"better": "▲", "worse": "▼"}
_OTHER_MARK = "◆"
_ROUGH, _AT_LEAST = "~", "≥"
_PARTS = ("within", "mix", "remainder")

_Row = Mapping[str, ComparedValue]


@dataclass(frozen=True)
class ComparedSlices:
    """The differences of one candidate by slice, all rows first.

    Parameters
    ----------
    score, baseline : str
        Score columns of the candidate and of the baseline.
    by : str
        The slicing.
    cells : Cells
        ``"slice"``, groups, then measures.
    """

    score: str
    baseline: str
    by: str
    cells: Cells

    @property
    def title(self) -> str:
        """The title of the table."""
        models = f"{printable(self.score)} against {printable(self.baseline)}"
        return f"{models} by {printable(self.by)}"


def compared_slices(
    comparison: ComparisonRecords, score: str, room: int | None = None
) -> Iterator[ComparedSlices]:
    """Lay out the slices of a candidate, then the parts of the decomposition.

    Parameters
    ----------
    comparison : ComparisonRecords
    score : str
    room : int, optional
        Width in characters. In a narrow room, intervals are under differences, and measures are
        split into several tables. By default there is one table for each slicing, and each cell
        has one line.

    Yields
    ------
    ComparedSlices
        In order of slicings, then of measures.
    """
    own = [v for v in comparison.values if v.score == score]
    overall = {v.measure: v for v in own if v.by is None}
    for by in dict.fromkeys(v.by for v in own if v.by is not None):
        rows: dict[str, dict[str, ComparedValue]] = {"all": overall}
        for v in own:
            if v.by == by:
                rows.setdefault(v.slice, {})[v.measure] = v
        decompositions = {
            text: decomposition
            for (name, text, slicing), decomposition in comparison.decompositions.items()
            if (name, slicing) == (score, by)
        }
        for side_by_side in (True, False):
            layout = _Layout(rows, decompositions, side_by_side, room)
            tables = layout.tables()
            if len(tables) == 1:
                break
        for measures in tables:
            yield ComparedSlices(score, comparison.baseline, by, layout.cells(measures))


def compared_slices_notes(comparison: ComparisonRecords, correction: str) -> Iterator[str]:
    """Explain the marks in these tables."""
    slices = [v for v in comparison.values if v.by is not None]
    if not slices:
        return
    marks = {mark for v in comparison.values for mark in _mark(v)}
    suffix = "" if correction == "none" else f", p {correction} over all slices of a slicing"
    meanings = {"▲": "better", "▼": "worse", _OTHER_MARK: "other difference that is shown"}
    legend = [f"{mark} {word}" for mark, word in meanings.items() if mark in marks]
    if legend:
        yield f"{', '.join(legend)}{suffix}; no mark: no difference is shown"
    elif any(not math.isnan(v.p_value) for v in slices):
        yield f"no mark: no difference is shown{suffix}"
    if any(v.caution == "few_groups" for v in slices):
        yield f"{_ROUGH} fewer than {FEW_GROUPS} effective groups: the interval is rough"
    groups_by_slice: dict[tuple[str, str | None, str], set[int]] = {}
    for v in slices:
        if v.groups:
            groups_by_slice.setdefault((v.score, v.by, v.slice), set()).add(v.groups)
    if any(len(numbers) > 1 for numbers in groups_by_slice.values()):
        yield f"{_AT_LEAST} where measures differ: groups of the one that uses the fewest"
    if any(_visible_parts(comparison)):
        yield "within slices, by their mix, and a remainder add up to the difference of all rows"
    if any(v.caution == "not_paired" for v in slices):
        yield "slices of results are not paired: their differences have no error"
    slices_left_out = comparison.meta.conventions.get("slices_left_out")
    min_groups = comparison.meta.conventions.get("min_groups")
    if isinstance(slices_left_out, int) and isinstance(min_groups, int) and slices_left_out:
        subject = f"{slices_left_out:,} slices are" if slices_left_out > 1 else "1 slice is"
        yield f"{subject} left out, of fewer than {min_groups:,} groups each"


@dataclass(frozen=True)
class _Layout:
    """The format of cells: intervals next to differences or under them."""

    rows: Mapping[str, _Row]
    decompositions: Mapping[str, Decomposition]
    side_by_side: bool
    room: int | None

    def tables(self) -> list[list[str]]:
        """Split the measures into tables that fit the room."""
        measures = list(self.rows["all"])
        if self.room is None:
            return [measures]
        lead = max(longest_line(self._label(label)) for label in [*self.rows, *_PARTS])
        lead += GAP + max(len("groups"), *(len(self._groups(row)) for row in self.rows.values()))
        tables: list[list[str]] = [[]]
        room_left = self.room - lead
        for measure in measures:
            cells = [self._difference(row[measure]) for row in self.rows.values()]
            width = GAP + max(map(longest_line, [self._title(measure), *cells]))
            if tables[-1] and width > room_left:
                tables.append([])
                room_left = self.room - lead
            tables[-1].append(measure)
            room_left -= width
        return tables

    def cells(self, measures: Sequence[str]) -> Cells:
        """Make a header, a row for each slice, and the rows of the decomposition."""
        rows = [
            [self._label(label), self._groups(row), *(self._difference(row[m]) for m in measures)]
            for label, row in self.rows.items()
        ]
        return Cells(
            ["slice", "groups", *map(self._title, measures)],
            1,
            rows + self._decomposition_rows(measures),
        )

    def _decomposition_rows(self, measures: Sequence[str]) -> list[list[str]]:
        """Make rows of the decomposition, if mix or remainder is visible."""
        rows = []
        for name in _PARTS:
            cells = []
            for measure in measures:
                decomposition, row = self.decompositions.get(measure), self.rows["all"][measure]
                number = math.nan if decomposition is None else getattr(decomposition, name)
                cells.append(
                    "" if math.isnan(number) else amount(number, digits_of(row), sign=True)
                )
            rows.append([name, "", *cells])
        visible = [any(_is_nonzero(cell) for cell in row[2:]) for row in rows]
        if not any(visible[1:]):
            return []
        return [row for row, is_visible in zip(rows, visible, strict=True) if is_visible]

    def _groups(self, row: _Row) -> str:
        numbers = {v.groups for v in row.values() if v.groups}
        if not numbers:
            return "n/a"
        return _AT_LEAST * (len(numbers) > 1) + f"{min(numbers):,}"

    def _label(self, label: str) -> str:
        width = None if self.room is None else max(_LABEL, 3 * self.room // 10)
        return fold_text(printable(label), width)

    def _title(self, measure: str) -> str:
        cells = [self._difference(row[measure]) for row in self.rows.values()]
        width = None if self.room is None else max(_TITLE, *map(longest_line, cells))
        return fold_text(printable(measure), width)

    def _difference(self, v: ComparedValue) -> str:
        if math.isnan(v.delta):
            return "undefined"
        digits = digits_of(v)
        text = f"{_mark(v)} {amount(v.delta, digits, sign=True)}".lstrip()
        half = (v.ci_high - v.ci_low) / 2
        if not math.isfinite(half):
            return text
        rough = _ROUGH * (v.caution == "few_groups")
        return text + (" " if self.side_by_side else "\n") + f"{rough}±{amount(half, digits)}"


def _visible_parts(comparison: ComparisonRecords) -> Iterator[bool]:
    """Tell for each mix and remainder whether it prints as other than 0."""
    overall = {(v.score, v.measure): v for v in comparison.values if v.by is None}
    for (score, measure, _), decomposition in comparison.decompositions.items():
        digits = digits_of(overall[score, measure])
        for number in (decomposition.mix, decomposition.remainder):
            yield not math.isnan(number) and _is_nonzero(amount(number, digits))


def _mark(v: ComparedValue) -> str:
    """Choose the mark of a difference by its verdict."""
    word = v.verdict.removeprefix(f"{v.score} is ").partition(":")[0]
    return _MARKS.get(word, _OTHER_MARK if word in ("higher", "lower", "mixed") else "")


def _is_nonzero(cell: str) -> bool:
    return any(digit in cell for digit in "123456789")
