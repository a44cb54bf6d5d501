"""The slices of a result as compact tables: a line a slice, a column a measure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastrank_eval.results.format import (
    half_width_text,
    measure_text,
    number_text,
    printable,
    share_text,
)
from fastrank_eval.results.tables import GAP, Cells
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from fastrank_eval.engine.records import MeasureValue, ResultRecords

__all__ = ["SliceTable", "folded", "longest_line", "slice_notes", "slice_tables"]

_LABEL, _TITLE = 16, 12  # what labels and measures may take before they are folded
_FEW, _ONE = "*", "†"
_FEWEST = "≥"


@dataclass(frozen=True)
class SliceTable:
    """The slices of one slicing for one model, all rows first.

    Parameters
    ----------
    score : str
        Score column, that is, the model.
    by : str
        The slicing.
    cells : Cells
        ``"slice"``, groups used, share of rows, then measures.
    """

    score: str
    by: str
    cells: Cells

    @property
    def title(self) -> str:
        """What the table is of."""
        return f"{printable(self.score)} by {printable(self.by)}"


def slice_tables(result: ResultRecords, room: int | None = None) -> Iterator[SliceTable]:
    """Lay the slices of a result out.

    Parameters
    ----------
    result : ResultRecords
    room : int, optional
        Columns there are. Where they are few, totals of groups are left out, intervals stand
        under their values, and measures are parted into several tables; no digit is cut off.
        Without it there is one table a slicing and model, and each cell is one line.

    Yields
    ------
    SliceTable
        By slicing, then model, then measures.
    """
    whole = _by_model([v for v in result.values if v.by is None])
    for by, values in _by_slicing(result).items():
        sheets = [
            [(label, line) for label, line in [*whole[score].items(), *slices.items()]]
            for score, slices in _by_model(values).items()
        ]
        measures = list(sheets[0][0][1])
        for totals, beside in ((True, True), (False, True), (False, False)):
            layout = _Layout(totals, beside, room)
            parts = layout.parts(sheets, measures)
            if len(parts) == 1:
                break
        for sheet in sheets:
            score = next(iter(sheet[0][1].values())).score
            for part in parts:
                yield SliceTable(score, by, layout.cells(sheet, part))


def slice_notes(result: ResultRecords) -> Iterator[str]:
    """What the marks in these tables mean, and how many slices are not there."""
    sliced = any(v.by is not None for v in result.values)
    here = result.values if sliced else ()
    used: dict[tuple[str, str | None, str], set[int]] = {}
    for v in here:
        used.setdefault((v.score, v.by, v.slice), set()).add(v.groups_used)
    if any(len(groups) > 1 for groups in used.values()):
        yield f"{_FEWEST} where measures differ: groups and rows of the one that uses the fewest"
    if any(v.caution == "few_groups" for v in here):
        yield f"{_FEW} fewer than {FEW_GROUPS} effective groups: the interval is rough"
    if any(v.caution == "one_group" for v in here):
        yield f"{_ONE} one group tells no standard error"
    left = result.meta.conventions.get("slices_left_out")
    least = result.meta.conventions.get("min_groups")
    if isinstance(left, int) and isinstance(least, int) and left:
        slices = f"{left:,} slices are" if left > 1 else "1 slice is"
        yield f"{slices} left out, of fewer than {least:,} groups each"


@dataclass(frozen=True)
class _Layout:
    """How cells are written: totals of groups or none; intervals beside values or under them."""

    totals: bool
    beside: bool
    room: int | None

    def parts(self, sheets: Sequence[_Sheet], measures: Sequence[str]) -> list[list[str]]:
        """The measures that stand side by side, of all models alike."""
        if self.room is None:
            return [list(measures)]
        lines = [line for sheet in sheets for _, line in sheet]
        every = [v for line in lines for v in line.values()]
        label = max(longest_line(self._label(label)) for sheet in sheets for label, _ in sheet)
        used = max(len("groups"), *(len(_FEWEST + self._used(v)) for v in every))
        lead = (
            label + GAP + used + GAP + max(len(_FEWEST + share_text(v.rows_share)) for v in every)
        )
        parts: list[list[str]] = [[]]
        left = self.room - lead
        for measure in measures:
            wide = GAP + max(
                longest_line(self._title(lines[0][measure])),
                *(longest_line(self._value(line[measure])) for line in lines),
            )
            if parts[-1] and wide > left:
                parts.append([])
                left = self.room - lead
            parts[-1].append(measure)
            left -= wide
        return parts

    def cells(self, sheet: _Sheet, measures: Sequence[str]) -> Cells:
        """Header and rows of one model."""
        used = "groups\nused" if self.room is not None else "groups used"
        header = ["slice", used, "rows"]
        header += [self._title(sheet[0][1][measure]) for measure in measures]
        rows = []
        for label, line in sheet:
            values = [line[measure] for measure in measures]
            groups = {v.groups_used for v in values}
            fewest = min(values, key=lambda v: v.groups_used)
            share = share_text(fewest.rows_share)
            mark = _FEWEST if len(groups) > 1 else ""
            rows.append(
                [
                    self._label(label),
                    mark + self._used(fewest),
                    (mark if share[:1].isdigit() and share != "100%" else "") + share,
                    *map(self._value, values),
                ]
            )
        return Cells(header, 1, rows)

    def _used(self, value: MeasureValue) -> str:
        return f"{value.groups_used:,}" + f"/{value.groups:,}" * self.totals

    def _label(self, label: str) -> str:
        wide = None if self.room is None else max(_LABEL, 3 * self.room // 10)
        return folded(printable(label), wide)

    def _title(self, value: MeasureValue) -> str:
        wide = None if self.room is None else max(_TITLE, longest_line(self._value(value)))
        return folded(measure_text(value), wide)

    def _value(self, value: MeasureValue) -> str:
        number, reach = number_text(value.value, value.aggregate), half_width_text(value)
        if value.caution == "one_group":
            return number + _ONE
        if not reach:
            return number
        return (
            number + (" " if self.beside else "\n") + reach + _FEW * (value.caution == "few_groups")
        )


_Sheet = Sequence[tuple[str, Mapping[str, "MeasureValue"]]]


def _by_slicing(result: ResultRecords) -> dict[str, list[MeasureValue]]:
    found: dict[str, list[MeasureValue]] = {}
    for v in result.values:
        if v.by is not None:
            found.setdefault(v.by, []).append(v)
    return found


def _by_model(values: Sequence[MeasureValue]) -> dict[str, dict[str, dict[str, MeasureValue]]]:
    """By score column, slice and measure."""
    found: dict[str, dict[str, dict[str, MeasureValue]]] = {}
    for v in values:
        found.setdefault(v.score, {}).setdefault(v.slice, {})[v.measure] = v
    return found


def longest_line(cell: str) -> int:
    """Signs of the longest line of a cell."""
    return max(map(len, cell.split("\n")))


def folded(text: str, wide: int | None) -> str:
    """Lines of so many signs, broken after commas where possible."""
    if wide is None or len(text) <= wide:
        return text
    lines = [""]
    for piece in re.findall(r"[^,]*,|[^,]+", text):
        if len(lines[-1]) + len(piece) > wide and lines[-1]:
            lines.append("")
        lines[-1] += piece
        while len(lines[-1]) > wide:
            lines[-1:] = [lines[-1][:wide], lines[-1][wide:]]
    return "\n".join(lines)
