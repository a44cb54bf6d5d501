"""Define what every result shows: to programs, in JSON and to people.

Lay out values as tables of slices, measures and models.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from fastrank_eval._lib.arguments import check_indent, check_options, typed
from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import csv_cells, csv_text
from fastrank_eval.measures import Measure
from fastrank_eval.results.notes import unit_of
from fastrank_eval.results.report import (
    Report,
    Table,
    amount,
    count_text,
    html,
    latex,
    markdown,
    p_text,
    printable,
    text,
)
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from rich.console import Console, ConsoleOptions, RenderResult

    from fastrank_eval.engine.records import CalibrationTables, Meta


class View(ABC):
    """A result: its table, its JSON document and its report.

    A class defines `records`, `document` and `report`. The forms of output are written here.
    """

    @abstractmethod
    def records(self) -> pa.Table:
        """Return the table that programs read.

        Returns
        -------
        pyarrow.Table
            An undefined number is null.
        """

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the plain Python values that JSON has; None for NaN.

        Returns
        -------
        dict
        """

    @abstractmethod
    def report(self, *, wide: bool = False) -> Report:
        """Build the report that people read.

        Parameters
        ----------
        wide : bool
            Make tables for each model, with intervals and coverage in columns. By default models
            are columns.

        Returns
        -------
        Report
        """

    def _rows(self) -> list[dict[str, Any]]:
        """Return `records` as plain values; without Arrow no pandas is loaded."""
        rows: list[dict[str, Any]] = self.records().to_pylist()
        return rows

    @typed
    def to_json(self, indent: int | None = 2, **choices: Any) -> str:
        """Write `document` as JSON.

        Parameters
        ----------
        indent : int or None
            Spaces a level; None for one line.
        **choices
            As `document` takes them.

        Returns
        -------
        str
            Strictly valid JSON in ASCII; an undefined number is null.
        """
        check_options("to_json", choices, self._choices_of("document"), own=View.to_json)
        return json.dumps(self.document(**choices), indent=check_indent(indent), allow_nan=False)

    @typed
    def to_csv(self, *, safe: bool = False, **choices: Any) -> str:
        """Write `records` as CSV, with all digits, empty where undefined.

        Parameters
        ----------
        safe : bool
            Put an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
            carriage return, so that no spreadsheet reads it as a formula.
        **choices
            Of a `TrecReport` ``single`` and ``summary``, as `document` takes them.

        Returns
        -------
        str
            A map is ``name=number`` joined by semicolons.
        """
        check_options("to_csv", choices, self._choices_of("_rows"), own=View.to_csv)
        rows = self._rows(**choices)
        names = list(rows[0]) if rows else self.records().column_names
        return csv_text(names, (map(_csv_cell, row.values()) for row in rows), safe)

    def to_pandas(self) -> pd.DataFrame:
        """Convert `records` to pandas; maps become lists of pairs.

        Returns
        -------
        pandas.DataFrame
        """
        return self.records().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Convert `records` to polars; maps become lists of structs.

        Returns
        -------
        polars.DataFrame
        """
        import polars as pl

        return pl.DataFrame(self.records())

    def to_markdown(self, **choices: Any) -> str:
        """Write the report as markdown.

        Parameters
        ----------
        **choices
            As `report` takes them: ``wide=True``.

        Returns
        -------
        str
            Names from the data are in code spans, so nothing in them is markup.
        """
        return markdown(self.report(**choices))

    def to_latex(self, **choices: Any) -> str:
        r"""Write the report as LaTeX, for ``\input`` into a document with booktabs.

        Parameters
        ----------
        **choices
            As `report` takes them: ``wide=True``.

        Returns
        -------
        str
            Names from the data are escaped.
        """
        return latex(self.report(**choices))

    def to_html(self, **choices: Any) -> str:
        """Write the report as a page of HTML, which needs no other file.

        Parameters
        ----------
        **choices
            As `report` takes them: ``wide=True``.

        Returns
        -------
        str
            Names from the data are escaped.
        """
        return html(self.report(**choices))

    def _choices_of(self, method: str) -> list[str]:
        """Name the choices that `document` or `report` takes."""
        parameters = signature(getattr(self, method)).parameters.values()
        return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]

    def __repr__(self) -> str:
        return text(self.report())

    def _repr_html_(self) -> str:
        return html(self.report(), page=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.report()


def _csv_cell(cell: object) -> object:
    if isinstance(cell, dict):
        return ";".join(f"{key}={number}" for key, number in cell.items())
    return cell


#: Suffixes of table files.
SUFFIXES = (".parquet", ".arrow", ".csv")
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def write_table(table: pa.Table, part: Path, shown: str, safe: bool = False) -> None:
    """Write a table to `part` in the format that the suffix of `shown` names.

    Parameters
    ----------
    table : pyarrow.Table
    part : Path
    shown : str
    safe : bool
        In CSV, put an apostrophe before text that a spreadsheet reads as a formula.

    Raises
    ------
    OutputError
        If the format cannot hold a column.
    """
    suffix = Path(shown).suffix.lower()
    try:
        with part.open("wb") as sink:  # Arrow opens no file whose name is not UTF-8
            if suffix == ".parquet":
                import pyarrow.parquet as papq

                papq.write_table(table, sink)
            elif suffix == ".arrow":
                with pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)
            else:
                import pyarrow.csv as pacsv

                table = _for_csv(table, safe)
                pacsv.write_csv(table.rename_columns(csv_cells(table.column_names, safe)), sink)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = (str(error).splitlines() or ["unknown fault"])[0]
        raise OutputError(f"cannot write {shown!r} as {suffix}: {reason}.") from error


def _for_csv(table: pa.Table, safe: bool) -> pa.Table:
    """Decode dictionaries, and write bytes in hexadecimal."""
    for i, field in enumerate(table.schema):
        column = table.column(i)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if any(is_bytes(column.type) for is_bytes in _BYTES):
            column = pa.chunked_array([[key.hex() for key in column.to_pylist()]], pa.string())
        elif column.type == pa.uuid():
            column = pa.chunked_array([list(map(str, column.to_pylist()))], pa.string())
        elif safe and any(is_text(column.type) for is_text in _TEXTS):
            column = pa.chunked_array([csv_cells(column.to_pylist(), safe)], column.type)
        table = table.set_column(i, field.name, column)
    return table


AT_LEAST = "≥"
#: The mark of an interval from few groups.
FEW = "*"
#: Slices that reports show of each model and measure.
MOST_SLICES = 10
_HEADER = ["slice", "expected", "observed", "ECCE", "sigmas", "p, corrected", "rows"]

_Value = TypeVar("_Value")
#: A value, or a difference.
_Record = TypeVar("_Record", bound=Any)
_Cells = Sequence[tuple[str, str]]


def slice_table(
    records: Iterable[_Value],
    *,
    rows: Callable[[_Value], str],
    columns: Callable[[_Value], str],
    cells: Callable[[_Value, Sequence[_Value]], _Cells],
    lead: Callable[[Sequence[_Value]], _Cells] | None = None,
    first: str = "slice",
    title: str = "",
) -> Table:
    """Lay out values by line and column.

    Parameters
    ----------
    records : iterable of value
        One for each line and column.
    rows, columns : callable
        The line and the column of a value.
    cells : callable
        Titles and texts of a value, given the values of its line too.
    lead : callable, optional
        The same of the values of a line: columns in front.
    first : str
        The title of the first column.
    title : str

    Returns
    -------
    Table
        Its columns may be divided.
    """
    lines: dict[str, dict[str, _Value]] = {}
    for record in records:
        lines.setdefault(printable(rows(record)), {})[columns(record)] = record
    header, body, step = [first], [], 1
    front: _Cells = []
    for label, of_line in lines.items():
        values = list(of_line.values())
        front = lead(values) if lead else []
        blocks = [cells(value, values) for value in values]
        step = len(blocks[0])
        line = [*front, *(cell for block in blocks for cell in block)]
        header = [first, *(name for name, _ in line)]
        body.append([label, *(text for _, text in line)])
    return Table(header, body, 1, printable(title), 1 + len(front), step)


def all_rows(meta: Meta) -> str:
    """Name what the values beside those of slices are of."""
    return str(meta.conventions.get("all", "all"))


def by_slicing(
    values: Sequence[_Record], title_of: Callable[[_Record], str]
) -> Iterator[tuple[str, str, list[_Record], list[_Record]]]:
    """Yield slicing, title, and values of all rows and of slices for tables.

    In order of slicings, then of titles.
    """
    tables: dict[str, dict[str, list[_Record]]] = {}
    for v in values:
        if v.by is not None:
            tables.setdefault(v.by, {}).setdefault(title_of(v), []).append(v)
    for by, titles in tables.items():
        for title, own in titles.items():
            yield by, title, [v for v in values if v.by is None and title_of(v) == title], own


def groups_differ(
    values: Iterable[_Record], by_model: bool, groups_of: Callable[[_Record], int]
) -> bool:
    """Return whether the numbers of groups differ by model or measure."""
    used: dict[tuple[str, str | None, str], set[int]] = {}
    for v in values:
        key = v.measure if by_model else v.score, v.by, v.slice
        used.setdefault(key, set()).add(groups_of(v))
    return any(len(numbers) > 1 for numbers in used.values())


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


def few_note(meta: Meta) -> str:
    """Explain the mark of a rough interval."""
    unit = unit_of(meta.conventions)
    return f"{FEW} fewer than {FEW_GROUPS} effective {unit}s: the interval is rough"


def left_out_notes(meta: Meta) -> list[str]:
    """Note how many slices are left out, if any are."""
    number, least = (meta.conventions.get(name) for name in ("slices_left_out", "min_groups"))
    if not (isinstance(number, int) and isinstance(least, int) and number):
        return []
    slices = f"{number:,} slices are" if number > 1 else "1 slice is"
    return [f"{slices} left out, of fewer than {least:,} groups each"]


def worst_slices(tables: CalibrationTables) -> Iterator[Table]:
    """Lay out the worst slices of each model and measure, and all rows.

    Parameters
    ----------
    tables : mapping of (str, str) to pyarrow.Table
        As `calibration_tables` returns them.

    Yields
    ------
    Table
        In a narrow terminal without rows, then without p-values.
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
        rows = [_cells(row) for row in worst]
        narrower: tuple[Table, ...] = ()
        for columns in (len(_HEADER) - 2, len(_HEADER) - 1, len(_HEADER)):
            cells = [row[:columns] for row in rows]
            narrower = (Table(_HEADER[:columns], cells, 1, printable(title), narrower=narrower),)
        yield from narrower


def slice_rows(tables: CalibrationTables) -> list[dict[str, Any]]:
    """Convert the worst slices to plain Python values."""
    return [
        {"score": score, "measure": measure, **row}
        for (score, measure), table in tables.items()
        for row in table.slice(0, MOST_SLICES).to_pylist()
    ]


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [
        printable(row["slice"]),
        *(amount(row["expected"], 1), amount(row["observed"], 1).removesuffix(".0")),
        *(f"{row['error']:.3g}", f"{row['sigmas']:.2f}"),
        *(p_text(row["p_adjusted"]), f"{row['rows']:,}"),
    ]
