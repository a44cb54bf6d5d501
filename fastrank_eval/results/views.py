"""Define what every result shows: to programs, in JSON and to people."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.arguments import check_indent, check_options, typed
from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import csv_cells, csv_text
from fastrank_eval.results.report import Report, html, latex, markdown, text

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from rich.console import Console, ConsoleOptions, RenderResult


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

    def view(self, **choices: Any) -> Report:
        """Choose what a terminal and a notebook show.

        Parameters
        ----------
        **choices
            As `report` takes them: ``wide=True``.

        Returns
        -------
        Report
        """
        return self.report(**choices)

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
