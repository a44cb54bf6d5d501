"""Say what differences of slices mean, and lay them out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastrank_eval.analysis.compared_value import ComparedValue
from fastrank_eval.measures import Measure
from fastrank_eval.results.format import decimals, printable
from fastrank_eval.results.slice_view import folded, longest_line
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
_FOUND = "would have been found in 80% of such logs"
#: Tests that the interval about the difference is of; others may disagree with it.
_OF_THE_INTERVAL = ("clustered_t", "clustered_z", "bootstrap")
#: Of which neither more nor less is better.
_WITHOUT_DIRECTION = ("Bias", "NumNonrelRet", "NumRel", "NumRet", "PCOC")


def verdict_on(line: ComparedValue, measure: Measure, confidence: float) -> str:
    """Say which model is better, and how sure that is.

    Parameters
    ----------
    line : ComparedValue
        With everything but its verdict.
    measure : Measure
    confidence : float
        A difference is shown where the adjusted p-value is at most ``1 - confidence``.
    """
    name, base, what = line.score, line.baseline, line.measure
    if math.isnan(line.delta):
        missing = [
            model
            for model, value in ((base, line.base_value), (name, line.value))
            if math.isnan(value)
        ]
        return f"not compared: {what} of {' and '.join(missing)} is undefined"
    digits = digits_of(line)
    shift = f"{amount(line.delta, digits, sign=True)} {what}"
    if line.caution == "pooled":
        return f"not tested: {shift}; a measure of all rows together has no standard error here"
    if line.caution == "not_paired":
        return f"not tested: {shift}; slices of results are not paired, those of compare(by=) are"
    if line.caution == "one_group":
        return f"not tested: {shift}; one group tells no standard error"
    if line.caution == "no_variance":
        return f"not tested: {shift} in every group; without variance there is no scale"
    if line.caution == "no_difference":
        return f"no difference: {what} of {name} and {base} is the same in every group"
    interval = interval_text(line, digits)
    known = f", {100 * confidence:.12g}% CI {interval}" if interval else ""
    if is_shown(line, confidence):
        if line.test not in _OF_THE_INTERVAL:
            known += f"; p {_share(line.p_adjusted)} by {line.test}"
        if _contradicts(line, measure):
            return (
                f"mixed: {name} is {'better' if _wins_lead(line) else 'worse'} in more groups than "
                f"not ({line.wins:,} to {line.losses:,}), yet {shift}{known}"
            )
        return f"{name} is {_direction(line.delta, measure)}: {shift}{known}"
    said = f"{_UNDECIDED}: {shift}{known}"
    if line.p_value <= 1 - confidence:
        said += f"; p {_share(line.p_adjusted)} among {line.comparisons} comparisons"
    if line.mdd > 0:
        said += f"; a difference of {amount(line.mdd, digits)} {_FOUND}"
    return said


def is_shown(line: ComparedValue, confidence: float) -> bool:
    """Tell whether a difference is shown: significant, its p-value being corrected."""
    return line.p_adjusted <= 1 - confidence and line.delta != 0


def is_undecided(line: ComparedValue, confidence: float) -> bool:
    """Whether no difference is shown, and would not be without correction either."""
    return line.verdict.startswith(f"{_UNDECIDED}:") and not line.p_value <= 1 - confidence


def undecided_text(lines: Sequence[ComparedValue]) -> str:
    """The verdict on several such measures of a candidate."""
    said = f"{_UNDECIDED}: {', '.join(line.measure for line in lines)}"
    found = [amount(line.mdd, digits_of(line)) for line in lines if line.mdd > 0]
    if len(found) < len(lines):
        return said
    return f"{said}; differences of {', '.join(found)} {_FOUND}"


def amount(value: float, digits: int | None, sign: bool = False) -> str:
    """A number to so many decimals, or to three digits where those are too many."""
    form = f"{'+' if sign else ''},.{digits}f" if digits is not None else f"{'+' * sign}.3g"
    return format(value, form)


def interval_text(line: ComparedValue, digits: int | None = None) -> str:
    """The interval of a difference, signed; empty where none is known."""
    low, high = line.ci_low, line.ci_high
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    digits = digits_of(line) if digits is None else digits
    return f"[{amount(low, digits, sign=True)}, {amount(high, digits, sign=True)}]"


def digits_of(line: ComparedValue) -> int | None:
    """Decimals that show half the interval to two digits, or the difference to three."""
    half = (line.ci_high - line.ci_low) / 2
    return decimals(half if math.isfinite(half) and half > 0 else abs(line.delta) / 10)


def _direction(delta: float, measure: Measure) -> str:
    if measure.name in _WITHOUT_DIRECTION:
        return "higher" if delta > 0 else "lower"
    return "better" if (delta > 0) == measure.higher_is_better else "worse"


def _contradicts(line: ComparedValue, measure: Measure) -> bool:
    """Whether a test of numbers of groups or of ranks points the other way than the value."""
    if line.test not in ("sign", "wilcoxon") or line.wins == line.losses:
        return False
    return _wins_lead(line) != ((line.delta > 0) == measure.higher_is_better)


def _wins_lead(line: ComparedValue) -> bool:
    return (line.wins or 0) > (line.losses or 0)


def _share(p_value: float) -> str:
    return "<0.0001" if p_value < 1e-4 else f"{p_value:.2g}"


_LABEL, _TITLE = 16, 12  # what labels and measures may take before they are folded
_MARKS = {"better": "▲", "worse": "▼"}
_OTHER = "◆"
_FEW, _FEWEST = "~", "≥"
_PARTS = ("within", "mix", "remainder")

_Lines = Mapping[str, ComparedValue]


@dataclass(frozen=True)
class ComparedSlices:
    """The differences in the slices of one slicing for one candidate, all rows first.

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
        """What the table is of."""
        models = f"{printable(self.score)} against {printable(self.baseline)}"
        return f"{models} by {printable(self.by)}"


def compared_slices(
    comparison: ComparisonRecords, score: str, room: int | None = None
) -> Iterator[ComparedSlices]:
    """Lay the slices of a candidate out, with the parts that a difference comes of under them.

    Parameters
    ----------
    comparison : ComparisonRecords
    score : str
    room : int, optional
        Columns there are. Where they are few, intervals stand under differences, and measures are
        parted into several tables. Without it there is one table a slicing, and each cell is one
        line.

    Yields
    ------
    ComparedSlices
        By slicing, then measures.
    """
    mine = [v for v in comparison.values if v.score == score]
    whole = {v.measure: v for v in mine if v.by is None}
    for by in dict.fromkeys(v.by for v in mine if v.by is not None):
        sheet: dict[str, dict[str, ComparedValue]] = {"all": whole}
        for v in mine:
            if v.by == by:
                sheet.setdefault(v.slice, {})[v.measure] = v
        parts = {
            text: found
            for (name, text, of), found in comparison.decompositions.items()
            if (name, of) == (score, by)
        }
        for beside in (True, False):
            layout = _Layout(sheet, parts, beside, room)
            tables = layout.parted()
            if len(tables) == 1:
                break
        for measures in tables:
            yield ComparedSlices(score, comparison.baseline, by, layout.cells(measures))


def compared_slices_notes(comparison: ComparisonRecords, correction: str) -> Iterator[str]:
    """What the marks in these tables mean."""
    slices = [v for v in comparison.values if v.by is not None]
    if not slices:
        return
    marks = {mark for v in comparison.values for mark in _mark(v)}
    of = "" if correction == "none" else f", p {correction} over all slices of a slicing"
    said = {"▲": "better", "▼": "worse", _OTHER: "other difference that is shown"}
    told = [f"{mark} {word}" for mark, word in said.items() if mark in marks]
    if told:
        yield f"{', '.join(told)}{of}; no mark: no difference is shown"
    elif any(not math.isnan(v.p_value) for v in slices):
        yield f"no mark: no difference is shown{of}"
    if any(v.caution == "few_groups" for v in slices):
        yield f"{_FEW} fewer than {FEW_GROUPS} effective groups: the interval is rough"
    used: dict[tuple[str, str | None, str], set[int]] = {}
    for v in slices:
        if v.groups:
            used.setdefault((v.score, v.by, v.slice), set()).add(v.groups)
    if any(len(numbers) > 1 for numbers in used.values()):
        yield f"{_FEWEST} where measures differ: groups of the one that uses the fewest"
    if any(_sources_seen(comparison)):
        yield "within slices, by their mix, and a remainder add up to the difference of all rows"
    if any(v.caution == "not_paired" for v in slices):
        yield "slices of results are not paired: their differences have no error"
    left = comparison.meta.conventions.get("slices_left_out")
    least = comparison.meta.conventions.get("min_groups")
    if isinstance(left, int) and isinstance(least, int) and left:
        which = f"{left:,} slices are" if left > 1 else "1 slice is"
        yield f"{which} left out, of fewer than {least:,} groups each"


@dataclass(frozen=True)
class _Layout:
    """How cells are written: intervals beside differences or under them."""

    sheet: Mapping[str, _Lines]
    parts: Mapping[str, Decomposition]
    beside: bool
    room: int | None

    def parted(self) -> list[list[str]]:
        """The measures that stand side by side."""
        measures = list(self.sheet["all"])
        if self.room is None:
            return [measures]
        lead = max(longest_line(self._label(label)) for label in [*self.sheet, *_PARTS])
        lead += GAP + max(len("groups"), *(len(self._groups(line)) for line in self.sheet.values()))
        tables: list[list[str]] = [[]]
        left = self.room - lead
        for measure in measures:
            cells = [self._difference(line[measure]) for line in self.sheet.values()]
            wide = GAP + max(map(longest_line, [self._title(measure), *cells]))
            if tables[-1] and wide > left:
                tables.append([])
                left = self.room - lead
            tables[-1].append(measure)
            left -= wide
        return tables

    def cells(self, measures: Sequence[str]) -> Cells:
        """Header, a row a slice, and what the difference over all rows comes of."""
        rows = [
            [self._label(label), self._groups(line), *(self._difference(line[m]) for m in measures)]
            for label, line in self.sheet.items()
        ]
        return Cells(
            ["slice", "groups", *map(self._title, measures)], 1, rows + self._sources(measures)
        )

    def _sources(self, measures: Sequence[str]) -> list[list[str]]:
        """Within, mix and remainder, where a mix or a remainder can be seen."""
        rows = []
        for name in _PARTS:
            cells = []
            for measure in measures:
                found, line = self.parts.get(measure), self.sheet["all"][measure]
                part = math.nan if found is None else getattr(found, name)
                cells.append("" if math.isnan(part) else amount(part, digits_of(line), sign=True))
            rows.append([name, "", *cells])
        seen = [any(_is_seen(cell) for cell in row[2:]) for row in rows]
        if not any(seen[1:]):
            return []
        return [row for row, shown in zip(rows, seen, strict=True) if shown]

    def _groups(self, line: _Lines) -> str:
        numbers = {v.groups for v in line.values() if v.groups}
        if not numbers:
            return "n/a"
        return _FEWEST * (len(numbers) > 1) + f"{min(numbers):,}"

    def _label(self, label: str) -> str:
        wide = None if self.room is None else max(_LABEL, 3 * self.room // 10)
        return folded(printable(label), wide)

    def _title(self, measure: str) -> str:
        cells = [self._difference(line[measure]) for line in self.sheet.values()]
        wide = None if self.room is None else max(_TITLE, *map(longest_line, cells))
        return folded(printable(measure), wide)

    def _difference(self, v: ComparedValue) -> str:
        if math.isnan(v.delta):
            return "undefined"
        digits = digits_of(v)
        said = f"{_mark(v)} {amount(v.delta, digits, sign=True)}".lstrip()
        half = (v.ci_high - v.ci_low) / 2
        if not math.isfinite(half):
            return said
        rough = _FEW * (v.caution == "few_groups")
        return said + (" " if self.beside else "\n") + f"{rough}±{amount(half, digits)}"


def _sources_seen(comparison: ComparisonRecords) -> Iterator[bool]:
    """Whether a mix or a remainder of any difference can be seen."""
    whole = {(v.score, v.measure): v for v in comparison.values if v.by is None}
    for (score, measure, _), found in comparison.decompositions.items():
        digits = digits_of(whole[score, measure])
        for part in (found.mix, found.remainder):
            yield not math.isnan(part) and _is_seen(amount(part, digits))


def _mark(v: ComparedValue) -> str:
    """Whether a difference is shown, and which: as its verdict says."""
    word = v.verdict.removeprefix(f"{v.score} is ").partition(":")[0]
    return _MARKS.get(word, _OTHER if word in ("higher", "lower", "mixed") else "")


def _is_seen(cell: str) -> bool:
    return any(digit in cell for digit in "123456789")
