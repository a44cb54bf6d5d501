"""Lay out slices as tables: one row a slice, one column a measure."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.results.format import amount, count_text, p_text, printable
from fastrank_eval.results.tables import GAP, Table, longest_line

if TYPE_CHECKING:
    from fastrank_eval.engine.records import Meta
    from fastrank_eval.engine.slice_calibration import CalibrationTables

_LABEL, _TITLE = 16, 12  # least widths of labels and of measures before they are folded
AT_LEAST = "≥"
#: Slices that reports show of each model and measure.
MOST_SLICES = 10
_HEADER = ["slice", "expected", "observed", "ECCE", "sigmas", "p, corrected", "rows"]

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Layout:
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

    def label(self, label: str) -> str:
        """Fold the label of a slice."""
        return fold_text(printable(label), self.width and max(_LABEL, 3 * self.width // 10))


#: Totals, and intervals side by side: the next layout is narrower.
LAYOUTS = ((True, True), (False, True), (False, False))


@dataclass(frozen=True)
class SliceSheet(ABC, Generic[_Value]):
    """The slices of one slicing for one model.

    Parameters
    ----------
    title : tuple of str
    rows : mapping of str to mapping of str to value
        The value of each slice and measure; all rows first, as ``"all"``.
    """

    title: tuple[str, ...]
    rows: Mapping[str, Mapping[str, _Value]]

    #: Columns that a mark may add to numbers of groups.
    mark_width: ClassVar[int] = 0

    @abstractmethod
    def group_titles(self, layout: Layout) -> list[str]:
        """Name the columns between labels and measures."""

    @abstractmethod
    def group_cells(
        self, row: Mapping[str, _Value], measures: Sequence[str], layout: Layout
    ) -> list[str]:
        """Format the columns between label and measures."""

    @abstractmethod
    def heading(self, value: _Value) -> str:
        """Name the column of a measure."""

    @abstractmethod
    def cell(self, value: _Value, layout: Layout) -> str:
        """Format a value."""

    def parts(self, measures: Sequence[str]) -> list[list[str]]:
        """Format rows below those of the slices."""
        return []

    @property
    def labels(self) -> list[str]:
        """The first cells of all rows."""
        return list(self.rows)

    def column(self, measure: str, layout: Layout) -> list[str]:
        """Format the title and the cells of a measure."""
        cells = [self.cell(row[measure], layout) for row in self.rows.values()]
        heading = self.heading(self.rows["all"][measure])
        if layout.width is not None and len(heading) > _TITLE:
            heading = fold_text(heading, max(_TITLE, *map(longest_line, cells)))
        return [heading, *cells]

    def table(self, measures: Sequence[str], layout: Layout) -> Table:
        """Lay out the columns of some measures."""
        titles, *cells = zip(*(self.column(measure, layout) for measure in measures), strict=True)
        rows = [
            [layout.label(label), *self.group_cells(row, measures, layout), *texts]
            for (label, row), texts in zip(self.rows.items(), cells, strict=True)
        ]
        header = ["slice", *self.group_titles(layout), *titles]
        return Table(header, 1, rows + self.parts(measures), tuple(map(printable, self.title)))

    def first_width(self, layout: Layout) -> int:
        """Measure the columns before those of measures."""
        groups = [
            self.group_cells(row, [measure], layout)
            for row in self.rows.values()
            for measure in row
        ]
        width = max(longest_line(layout.label(label)) for label in self.labels)
        for title, *cells in zip(self.group_titles(layout), *groups, strict=True):
            width += GAP + max(longest_line(title), self.mark_width + max(map(len, cells)))
        return width


def slice_tables(sheets: Sequence[SliceSheet[_Value]], width: int | None = None) -> Iterator[Table]:
    """Lay out the slices of one slicing for some models.

    Parameters
    ----------
    sheets : sequence of SliceSheet
    width : int, optional
        Columns of the output. If they are few, totals of groups are left out, intervals stand
        under their values, and measures are divided into several tables. No digit is cut off.
        Without it there is one table a model, and each cell is one line.

    Yields
    ------
    Table
        By model, then measures.
    """
    for totals, side_by_side in LAYOUTS:
        layout = Layout(totals, side_by_side, width)
        parts = _divide(sheets, layout)
        if len(parts) == 1:
            break
    for sheet in sheets:
        for measures in parts:
            yield sheet.table(measures, layout)


def _divide(sheets: Sequence[SliceSheet[_Value]], layout: Layout) -> list[list[str]]:
    """Divide measures into tables that fit the width."""
    measures = list(sheets[0].rows["all"])
    if layout.width is None:
        return [measures]
    room = layout.width - max(sheet.first_width(layout) for sheet in sheets)
    tables: list[list[str]] = [[]]
    free = room
    for measure in measures:
        cells = [cell for sheet in sheets for cell in sheet.column(measure, layout)]
        needed = GAP + max(map(longest_line, cells))
        if tables[-1] and needed > free:
            tables.append([])
            free = room
        tables[-1].append(measure)
        free -= needed
    return tables


def left_out_notes(meta: Meta) -> list[str]:
    """Note how many slices are left out, if any are."""
    number, least = (meta.conventions.get(name) for name in ("slices_left_out", "min_groups"))
    if not (isinstance(number, int) and isinstance(least, int) and number):
        return []
    slices = f"{number:,} slices are" if number > 1 else "1 slice is"
    return [f"{slices} left out, of fewer than {least:,} groups each"]


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


def worst_slices(tables: CalibrationTables, width: int | None) -> Iterator[Table]:
    """Lay out the worst slices of each model and measure, and all rows.

    Parameters
    ----------
    tables : mapping of (str, str) to pyarrow.Table
        As `calibration_tables` returns them.
    width : int or None
        Columns of the output. If they are few, rows and then p-values are left out.

    Yields
    ------
    Table
    """
    for (score, measure), table in tables.items():
        if not len(table):
            continue
        slices = f"the worst {MOST_SLICES} of {len(table):,} slices"
        if len(table) <= MOST_SLICES:
            slices = f"{count_text(len(table), 'slice')}, the worst first"
        title = f"{measure} of {score}: clicks of {slices}"
        worst = table.slice(0, MOST_SLICES).to_pylist()
        if all(row["slice"] != "all" for row in worst):
            all_rows = table["slice"].to_pylist().index("all")
            worst += table.slice(all_rows, 1).to_pylist()
        rows = [_cells(row, width) for row in worst]
        for columns in (len(_HEADER), len(_HEADER) - 1, len(_HEADER) - 2):
            view = Table(_HEADER[:columns], 1, [row[:columns] for row in rows], (printable(title),))
            if width is None or sum(view.longest_lines()) + GAP * (columns - 1) <= width:
                break
        yield view


def slice_rows(tables: CalibrationTables) -> list[dict[str, Any]]:
    """Convert the worst slices to plain Python values."""
    return [
        {"score": score, "measure": measure, **row}
        for (score, measure), table in tables.items()
        for row in table.slice(0, MOST_SLICES).to_pylist()
    ]


def _cells(row: Mapping[str, Any], width: int | None) -> list[str]:
    return [
        Layout(True, True, width).label(row["slice"]),
        *(amount(row["expected"], 1), amount(row["observed"], 1).removesuffix(".0")),
        *(f"{row['error']:.3g}", f"{row['sigmas']:.2f}"),
        *(p_text(row["p_adjusted"]), f"{row['rows']:,}"),
    ]
