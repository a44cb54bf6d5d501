"""What a comparison found, written out: JSON, CSV, markdown, text and the terminal."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from fastrank_eval.arguments import indent_of
from fastrank_eval.comparison.compared_value import ComparedValue, compared_csv, compared_lines
from fastrank_eval.comparison.decomposing import decomposition_lines
from fastrank_eval.comparison.movers import movers_lines
from fastrank_eval.report_notes import meta_with_notes
from fastrank_eval.typed_arguments import typed

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console, ConsoleOptions, RenderResult

    from fastrank_eval.measure_value import MeasureValue
    from fastrank_eval.meta import Meta
    from fastrank_eval.slices.decomposition import Decomposition

__all__ = ["ReportedComparison"]


class ReportedComparison(ABC):
    """The forms of a report that `Comparison` can take."""

    values: tuple[ComparedValue, ...]
    meta: Meta
    baseline: str
    scores: tuple[str, ...]
    measures: tuple[str, ...]
    joined: dict[str, int] | None
    evaluated: tuple[MeasureValue, ...]

    @property
    @abstractmethod
    def decompositions(self) -> dict[tuple[str, str, str], Decomposition]:
        """By candidate, measure and slicing."""

    @abstractmethod
    def moved(self, top: int) -> dict[tuple[str, str], pa.Table]:
        """The groups that moved most, by candidate and measure."""

    @abstractmethod
    def _slices_moved(self, text: str, score: str | None, top: int) -> list[ComparedValue]:
        """Find the slices that moved most by the canonical text of a measure."""

    @typed
    def to_dict(self, movers: int = 0) -> dict[str, Any]:
        """Build the JSON contract.

        Parameters
        ----------
        movers : int
            How many groups that moved the first measure of groups most up, and how many that moved
            it most down, are listed as ``"movers"``.

        Returns
        -------
        dict
            ``{"meta": {...}, "comparisons": [...], "joined": ..., "decompositions": [...],
            "movers": [...]}`` of plain Python values, None for NaN; the last three where there are
            any.
        """
        found: dict[str, Any] = {
            "meta": meta_with_notes(self.evaluated, self.meta),
            "comparisons": compared_lines(self.values),
        }
        if self.joined is not None:
            found["joined"] = self.joined
        if self.decompositions:
            found["decompositions"] = list(decomposition_lines(self.decompositions))
        moved = self.moved(movers)
        if moved:
            found["movers"] = [
                {"score": score, "measure": text, **line}
                for (score, text), table in moved.items()
                for line in movers_lines(table)
            ]
        return found

    @typed
    def to_json(self, indent: int | None = 2, movers: int = 0) -> str:
        """Write :meth:`to_dict` as JSON.

        Parameters
        ----------
        indent : int or None
            Spaces a level; None for one line.
        movers : int
            As `to_dict` takes it.

        Returns
        -------
        str
            Strictly valid JSON in ASCII; a number that is undefined is null.
        """
        return json.dumps(self.to_dict(movers), indent=indent_of(indent), allow_nan=False)

    @typed
    def to_csv(self, *, safe: bool = False) -> str:
        """Write the summary as CSV: numbers with all their digits, empty where undefined.

        Parameters
        ----------
        safe : bool
            Put an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
            carriage return, so that no spreadsheet takes it for a formula.

        Returns
        -------
        str
        """
        return compared_csv(compared_lines(self.values), safe)

    @typed
    def to_markdown(self, movers: int = 0) -> str:
        """Write the report as markdown.

        Parameters
        ----------
        movers : int
            As `to_dict` takes it.

        Returns
        -------
        str
            Names that come from data stand in code spans, so that nothing in them is markup.
        """
        from fastrank_eval.comparison.printed import markdown

        return markdown(self, self.moved(movers), movers)

    @typed
    def with_movers(self, movers: int) -> Any:
        """The same for a terminal, with the groups that moved most.

        Parameters
        ----------
        movers : int
            As `to_dict` takes it.

        Returns
        -------
        rich renderable
        """
        from fastrank_eval.comparison.printed import Printed

        return Printed(self, self.moved(movers), movers)

    def __repr__(self) -> str:
        from fastrank_eval.comparison.printed import plain

        return plain(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.with_movers(0)
