"""Define what every result shows: to programs, in JSON and to people."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.arguments import check_indent, check_options, typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.files import csv_text
from fastrank_eval.results.markup import to_latex, to_markdown, to_notebook, to_page
from fastrank_eval.results.tables import Report

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
    def report(self, width: int | None = None, *, wide: bool = False) -> Report:
        """Build the report that people read.

        Parameters
        ----------
        width : int, optional
            Columns of a terminal; by default a document, where each cell is one line.
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
    def to_csv(self, *, safe: bool = False) -> str:
        """Write `records` as CSV, with all digits, empty where undefined.

        Parameters
        ----------
        safe : bool
            Put an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
            carriage return, so that no spreadsheet reads it as a formula.

        Returns
        -------
        str
            A map is ``name=number`` joined by semicolons.
        """
        rows = self._rows()
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
        return to_markdown(self.view(**choices).report(None))

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
        return to_latex(self.view(**choices).report(None))

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
        return to_page(self.view(**choices).report(None))

    def view(self, **choices: Any) -> TerminalView:
        """Choose what a terminal and a notebook show.

        Parameters
        ----------
        **choices
            As `report` takes them: ``wide=True``.

        Returns
        -------
        rich renderable
        """
        check_options("view", choices, self._choices_of("report"))
        self.report(**choices)  # raises if a choice is wrong
        return TerminalView(partial(self.report, **choices))

    def _choices_of(self, method: str) -> list[str]:
        """Name the choices that `document` or `report` takes."""
        parameters = signature(getattr(self, method)).parameters.values()
        return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]

    def __repr__(self) -> str:
        return self.report().to_text()

    def _repr_html_(self) -> str:
        return to_notebook(self.report())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.view()


@dataclass(frozen=True)
class TerminalView:
    """A report for a terminal, built for its width.

    Parameters
    ----------
    report : callable
        Builds the report for a number of columns.
    """

    report: Callable[[int | None], Report]

    def _repr_html_(self) -> str:
        return to_notebook(self.report(None))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.report(options.max_width).to_terminal()


def _csv_cell(cell: object) -> object:
    if isinstance(cell, dict):
        return ";".join(f"{key}={number}" for key, number in cell.items())
    return cell
