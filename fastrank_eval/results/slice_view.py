"""Render slices as tables: one row a slice, one column a measure."""

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

__all__ = ["SliceTable", "fold_text", "longest_line", "slice_notes", "slice_tables"]

_LABEL, _TITLE = 16, 12  # least widths of labels and of measures before they are folded
_FEW, _ONE = "*", "†"
_FEWEST = "≥"


@dataclass(frozen=True)
class SliceTable:
    """The slices of one slicing for one model, all rows first.

    Parameters
    ----------
    score : str
        Score column: the model.
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
        """The title of the table: model and slicing."""
        return f"{printable(self.score)} by {printable(self.by)}"


def slice_tables(result: ResultRecords, width: int | None = None) -> Iterator[SliceTable]:
    """Build the tables of the slices of a result.

    Parameters
    ----------
    result : ResultRecords
    width : int, optional
        Columns of the output. If they are few, totals of groups are left out, intervals stand
        under their values, and measures are divided into several tables. No digit is cut off.
        Without it there is one table a slicing and model, and each cell is one line.

    Yields
    ------
    SliceTable
        By slicing, then model, then measures.
    """
    all_rows = _by_model([v for v in result.values if v.by is None])
    for by, values in _by_slicing(result).items():
        sheets = [
            [*all_rows[score].items(), *slices.items()]
            for score, slices in _by_model(values).items()
        ]
        measures = list(sheets[0][0][1])
        for totals, side_by_side in ((True, True), (False, True), (False, False)):
            layout = _Layout(totals, side_by_side, width)
            tables = layout.tables(sheets, measures)
            if len(tables) == 1:
                break
        for sheet in sheets:
            score = next(iter(sheet[0][1].values())).score
            for of_table in tables:
                yield SliceTable(score, by, layout.cells(sheet, of_table))


def slice_notes(result: ResultRecords) -> Iterator[str]:
    """Yield notes on tables of slices: marks, slices that are left out."""
    has_slices = any(v.by is not None for v in result.values)
    values = result.values if has_slices else ()
    used: dict[tuple[str, str | None, str], set[int]] = {}
    for v in values:
        used.setdefault((v.score, v.by, v.slice), set()).add(v.groups_used)
    if any(len(groups) > 1 for groups in used.values()):
        yield f"{_FEWEST} where measures differ: groups and rows of the one that uses the fewest"
    if any(v.caution == "few_groups" for v in values):
        yield f"{_FEW} fewer than {FEW_GROUPS} effective groups: the interval is rough"
    if any(v.caution == "one_group" for v in values):
        yield f"{_ONE} one group tells no standard error"
    number = result.meta.conventions.get("slices_left_out")
    min_groups = result.meta.conventions.get("min_groups")
    if isinstance(number, int) and isinstance(min_groups, int) and number:
        slices = f"{number:,} slices are" if number > 1 else "1 slice is"
        yield f"{slices} left out, of fewer than {min_groups:,} groups each"


@dataclass(frozen=True)
class _Layout:
    """The layout of cells.

    Parameters
    ----------
    totals : bool
        Show the totals of groups.
    side_by_side : bool
        Show intervals next to values, not under them.
    width : int or None
        Columns of the output.
    """

    totals: bool
    side_by_side: bool
    width: int | None

    def tables(self, sheets: Sequence[_Sheet], measures: Sequence[str]) -> list[list[str]]:
        """Divide measures into tables that fit the width."""
        if self.width is None:
            return [list(measures)]
        rows = [row for sheet in sheets for _, row in sheet]
        every = [v for row in rows for v in row.values()]
        label = max(longest_line(self._label(label)) for sheet in sheets for label, _ in sheet)
        used = max(len("groups"), *(len(_FEWEST + self._used(v)) for v in every))
        share = max(len(_FEWEST + share_text(v.rows_share)) for v in every)
        first_columns = label + GAP + used + GAP + share
        tables: list[list[str]] = [[]]
        free = self.width - first_columns
        for measure in measures:
            needed = GAP + max(
                longest_line(self._title(rows[0][measure])),
                *(longest_line(self._value(row[measure])) for row in rows),
            )
            if tables[-1] and needed > free:
                tables.append([])
                free = self.width - first_columns
            tables[-1].append(measure)
            free -= needed
        return tables

    def cells(self, sheet: _Sheet, measures: Sequence[str]) -> Cells:
        """Build the header and rows of one model."""
        used = "groups\nused" if self.width is not None else "groups used"
        header = ["slice", used, "rows"]
        header += [self._title(sheet[0][1][measure]) for measure in measures]
        rows = []
        for label, row in sheet:
            values = [row[measure] for measure in measures]
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
        width = None if self.width is None else max(_LABEL, 3 * self.width // 10)
        return fold_text(printable(label), width)

    def _title(self, value: MeasureValue) -> str:
        width = None if self.width is None else max(_TITLE, longest_line(self._value(value)))
        return fold_text(measure_text(value), width)

    def _value(self, value: MeasureValue) -> str:
        number, half_width = number_text(value.value, value.aggregate), half_width_text(value)
        if value.caution == "one_group":
            return number + _ONE
        if not half_width:
            return number
        separator = " " if self.side_by_side else "\n"
        return number + separator + half_width + _FEW * (value.caution == "few_groups")


_Sheet = Sequence[tuple[str, Mapping[str, "MeasureValue"]]]


def _by_slicing(result: ResultRecords) -> dict[str, list[MeasureValue]]:
    by_slicing: dict[str, list[MeasureValue]] = {}
    for v in result.values:
        if v.by is not None:
            by_slicing.setdefault(v.by, []).append(v)
    return by_slicing


def _by_model(values: Sequence[MeasureValue]) -> dict[str, dict[str, dict[str, MeasureValue]]]:
    """Group values by score column, slice and measure."""
    by_model: dict[str, dict[str, dict[str, MeasureValue]]] = {}
    for v in values:
        by_model.setdefault(v.score, {}).setdefault(v.slice, {})[v.measure] = v
    return by_model


def longest_line(cell: str) -> int:
    """Return the length of the longest line of a cell."""
    return max(map(len, cell.split("\n")))


def fold_text(text: str, width: int | None) -> str:
    """Break text into lines of `width` characters, after commas if possible."""
    if width is None or len(text) <= width:
        return text
    lines = [""]
    for item in re.findall(r"[^,]*,|[^,]+", text):
        if len(lines[-1]) + len(item) > width and lines[-1]:
            lines.append("")
        lines[-1] += item
        while len(lines[-1]) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return "\n".join(lines)
