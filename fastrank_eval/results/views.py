"""Show results in notebooks, on terminals and as frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.results.tables import TEXT_WIDTH, Report

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from rich.console import Console, ConsoleOptions, RenderResult


class NotebookView(ABC):
    """The view of a result in a notebook."""

    @abstractmethod
    def _html_report(self) -> Report:
        """Build the report that a notebook shows."""

    def _repr_html_(self) -> str:
        from fastrank_eval.results.markup import to_notebook

        return to_notebook(self._html_report())


class Tabular(NotebookView):
    """The table of a result, for other libraries."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the table, as Arrow.

        Returns
        -------
        pyarrow.Table
        """

    def to_pandas(self) -> pd.DataFrame:
        """Convert the table to pandas.

        Returns
        -------
        pandas.DataFrame
            Maps become lists of pairs; nulls become NaN or None.
        """
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Convert the table to polars.

        Returns
        -------
        polars.DataFrame
            Maps become lists of structs.
        """
        import polars as pl

        return pl.DataFrame(self.to_arrow())


@dataclass(frozen=True)
class TerminalView:
    """A report for a terminal, built for its width.

    Parameters
    ----------
    report : callable
        Builds the report for a number of columns.
    """

    report: Callable[[int], Report]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.report(options.max_width).to_terminal()


class ReportView(Tabular):
    """A result with a report: as text, in a notebook and on a terminal."""

    @abstractmethod
    def _report(self, width: int | None, wide: bool = False, *, plain: bool = False) -> Report:
        """Build the report.

        Parameters
        ----------
        width : int or None
            Columns of a terminal; None for a document.
        wide : bool
            Make tables for each model, not columns.
        plain : bool
            For text: tables of one model have one line for each row.
        """

    @property
    @abstractmethod
    def _title(self) -> str:
        """The title of a page."""

    def _document(self, form: str, **choices: Any) -> str:
        """Write the report as ``"markdown"``, ``"latex"`` or ``"html"``."""
        from fastrank_eval.results.markup import to_latex, to_markdown, to_page

        report = self._report(None, **choices)
        if form == "html":
            return to_page(report, self._title)
        return to_latex(report) if form == "latex" else to_markdown(report)

    def __repr__(self) -> str:
        return self._report(TEXT_WIDTH, plain=True).to_text()

    def _html_report(self) -> Report:
        return self._report(None)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield TerminalView(self._report)
