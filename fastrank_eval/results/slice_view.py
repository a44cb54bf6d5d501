"""Lay out values as tables of slices, measures and models."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.measures import Measure
from fastrank_eval.results.format import amount, count_text, p_text, printable
from fastrank_eval.results.tables import GAP, Best, Name, Table, longest_line
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from fastrank_eval.engine.records import Meta
    from fastrank_eval.engine.slice_calibration import CalibrationTables

_LABEL, _TITLE = 16, 12  # least widths of labels and of measures before they are folded
AT_LEAST = "≥"
#: The mark of an interval from few groups.
FEW = "*"
FEW_NOTE = f"{FEW} fewer than {FEW_GROUPS} effective groups: the interval is rough"
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

    def heading(self, heading: str, cells: Sequence[str]) -> str:
        """Fold the title of a column of some cells."""
        if self.width is None or len(heading) <= _TITLE:
            return heading
        ends = ",_./-" if isinstance(heading, Name) else ","
        return type(heading)(fold_text(heading, max(_TITLE, *map(longest_line, cells)), ends))


#: Totals, and intervals side by side: the next layout is narrower.
LAYOUTS = ((True, True), (False, True), (False, False))


@dataclass(frozen=True)
class SliceSheet(ABC, Generic[_Value]):
    """Values of lines and columns, as a table.

    Lines are slices, and columns the measures of a model, or the models of a measure.

    Parameters
    ----------
    title : tuple of str
    rows : mapping of str to mapping of str to value
        The value of each line and column. Lines of slices begin with all rows, ``"all"``.
    """

    title: tuple[str, ...]
    rows: Mapping[str, Mapping[str, _Value]]

    #: The title of the first column.
    lines: ClassVar[str] = "slice"
    #: Columns that a mark may add to numbers of groups.
    mark_width: ClassVar[int] = 0

    @abstractmethod
    def group_titles(self, layout: Layout) -> list[str]:
        """Name the columns between labels and values."""

    @abstractmethod
    def group_cells(
        self, row: Mapping[str, _Value], columns: Sequence[str], layout: Layout
    ) -> list[str]:
        """Format the columns between labels and values."""

    @abstractmethod
    def heading(self, value: _Value) -> str:
        """Name the column of a value."""

    @abstractmethod
    def cell(self, value: _Value, layout: Layout) -> str:
        """Format a value."""

    def best(self, row: Mapping[str, _Value]) -> Collection[str]:
        """Find the columns with the best value of a line."""
        return ()

    def parts(self, columns: Sequence[str]) -> list[list[str]]:
        """Format rows below those of the lines."""
        return []

    @property
    def labels(self) -> list[str]:
        """The first cells of all rows."""
        return list(self.rows)

    def formatted(self, column: str, layout: Layout) -> list[list[str]]:
        """Format a column of values, as one column of the table or several.

        Returns
        -------
        list of list of str
            The title and the cells of each.
        """
        cells = [self.cell(row[column], layout) for row in self.rows.values()]
        if layout.width is not None:
            cells = _with_even_ends(cells)
        for i, row in enumerate(self.rows.values()):
            if column in self.best(row):
                cells[i] = Best(cells[i])
        heading = self.heading(next(iter(self.rows.values()))[column])
        return [[layout.heading(heading, cells), *cells]]

    def table(self, columns: Sequence[str], layout: Layout) -> Table:
        """Lay out some columns."""
        formatted = (cells for column in columns for cells in self.formatted(column, layout))
        titles, *cells = zip(*formatted, strict=True)
        rows = [
            [layout.label(label), *self.group_cells(row, columns, layout), *texts]
            for (label, row), texts in zip(self.rows.items(), cells, strict=True)
        ]
        rows += [_aligned_part(part, cells[0]) for part in self.parts(columns)]
        header = [self.lines, *self.group_titles(layout), *titles]
        return Table(header, 1, rows, tuple(map(printable, self.title)))

    def first_width(self, layout: Layout) -> int:
        """Measure the columns before those of values."""
        groups = [
            self.group_cells(row, [column], layout) for row in self.rows.values() for column in row
        ]
        width = max(longest_line(layout.label(label)) for label in self.labels)
        for title, *cells in zip(self.group_titles(layout), *groups, strict=True):
            width += GAP + max(longest_line(title), self.mark_width + max(map(len, cells)))
        return width


def slice_tables(sheets: Sequence[SliceSheet[_Value]], width: int | None = None) -> Iterator[Table]:
    """Lay out sheets of the same columns.

    Parameters
    ----------
    sheets : sequence of SliceSheet
    width : int, optional
        Columns of the output. If they are few, totals of groups are left out, intervals stand
        under their values, and columns are divided into several tables. No digit is cut off.
        Without it there is one table a sheet, and each cell is one line.

    Yields
    ------
    Table
        By sheet, then columns.
    """
    for totals, side_by_side in LAYOUTS:
        layout = Layout(totals, side_by_side, width)
        parts = _divide(sheets, layout)
        if len(parts) == 1:
            break
    for sheet in sheets:
        for columns in parts:
            yield sheet.table(columns, layout)


def _divide(sheets: Sequence[SliceSheet[_Value]], layout: Layout) -> list[list[str]]:
    """Divide columns into tables that fit the width."""
    columns = list(next(iter(sheets[0].rows.values())))
    if layout.width is None:
        return [columns]
    room = layout.width - max(sheet.first_width(layout) for sheet in sheets)
    tables: list[list[str]] = [[]]
    free = room
    for column in columns:
        widths = [
            [GAP + max(map(longest_line, cells)) for cells in sheet.formatted(column, layout)]
            for sheet in sheets
        ]
        needed = sum(map(max, zip(*widths, strict=True)))
        if tables[-1] and needed > free:
            tables.append([])
            free = room
        tables[-1].append(column)
        free -= needed
    return tables


def _with_even_ends(cells: Sequence[str]) -> list[str]:
    """Pad cells to the right, to align those with and without interval."""
    ends = [len(cell) - cell.find(" ±") if " ±" in cell else 0 for cell in cells]
    return [cell + " " * (max(ends) - end) for cell, end in zip(cells, ends, strict=True)]


def _aligned_part(part: Sequence[str], cells: Sequence[str]) -> list[str]:
    """Pad numbers of a row without intervals like other cells."""
    first = len(part) - len(cells)
    ends = [len(cell) - len(cell.partition(" ±")[0].rstrip()) for cell in cells]
    return [
        *part[:first],
        *(text + " " * end for text, end in zip(part[first:], ends, strict=True)),
    ]


def best_models(
    values: Mapping[str, float], measure: Measure, text_of: Callable[[float], str]
) -> frozenset[str]:
    """Find the models with the best value of a measure, as it is printed.

    Parameters
    ----------
    values : mapping of str to float
        By model; NaN where undefined.
    measure : Measure
    text_of : callable
        Formats a value.

    Returns
    -------
    frozenset of str
        Empty if the measure has no direction, or no model is worse.
    """
    defined = {model: value for model, value in values.items() if not math.isnan(value)}
    if not measure.has_direction or not defined:
        return frozenset()
    best = (max if measure.higher_is_better else min)(defined.values())
    models = [model for model, value in defined.items() if text_of(value) == text_of(best)]
    return frozenset(models if len(models) < len(defined) else ())


def left_out_notes(meta: Meta) -> list[str]:
    """Note how many slices are left out, if any are."""
    number, least = (meta.conventions.get(name) for name in ("slices_left_out", "min_groups"))
    if not (isinstance(number, int) and isinstance(least, int) and number):
        return []
    slices = f"{number:,} slices are" if number > 1 else "1 slice is"
    return [f"{slices} left out, of fewer than {least:,} groups each"]


def fold_text(text: str, width: int | None, ends: str = ",") -> str:
    """Break text into lines of `width`, after one of `ends` if possible."""
    if width is None or len(text) <= width:
        return text
    lines = [""]
    ends = re.escape(ends)
    for item in re.findall(f"[^{ends}]*[{ends}]|[^{ends}]+", text):
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
        title = f"{measure} of {score}: positives of {slices}"
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
