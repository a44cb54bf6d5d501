"""What was found, written out: JSON, CSV, markdown, text and the terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fastrank_eval.arguments import indent_of
from fastrank_eval.measure_value import summary_csv, summary_lines
from fastrank_eval.report_notes import meta_with_notes
from fastrank_eval.typed_arguments import typed

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from fastrank_eval.measure_value import MeasureValue
    from fastrank_eval.meta import Meta

__all__ = ["Reported"]


class Reported:
    """The forms of a report that `Result` can take."""

    values: tuple[MeasureValue, ...]
    scores: tuple[str, ...]
    meta: Meta

    def to_dict(self) -> dict[str, Any]:
        """Build the JSON contract.

        Returns
        -------
        dict
            ``{"meta": {"version", "rows", "groups", "conventions", "seconds"}, "results":
            [{"score", "by", "slice", "measure", "value", "se", "ci_low", "ci_high",
            "effective_groups", "weight", "caution", "groups", "groups_used", "dropped",
            "rows_share", "positives_share", "aggregate", "details"}]}`` of plain Python values;
            None for NaN. The meta has ``"requested"`` too where names of measures stand for other
            texts, and ``"notes"``, a list of sentences, where there are any.
        """
        return {
            "meta": meta_with_notes(self.values, self.meta),
            "results": summary_lines(self.values),
        }

    @typed
    def to_json(self, indent: int | None = 2) -> str:
        """Write :meth:`to_dict` as JSON.

        Parameters
        ----------
        indent : int or None
            Spaces a level; None for one line.

        Returns
        -------
        str
            Strictly valid JSON in ASCII; a value that is undefined is null.
        """
        return json.dumps(self.to_dict(), indent=indent_of(indent), allow_nan=False)

    @typed
    def to_csv(self, *, safe: bool = False) -> str:
        """Write the summary as CSV.

        Parameters
        ----------
        safe : bool
            Put an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
            carriage return, so that no spreadsheet takes it for a formula.

        Returns
        -------
        str
            A header and one line a score, slice and measure; values with all their digits, empty
            where undefined; ``dropped`` and ``details`` as ``name=number`` joined by semicolons.
        """
        return summary_csv(self.to_dict()["results"], safe)

    def to_markdown(self) -> str:
        """Write the report as markdown tables with the conventions under them.

        Returns
        -------
        str
            Names that come from data stand in code spans, so that nothing in them is markup.
        """
        from fastrank_eval.printing import markdown

        return markdown(self)

    def __repr__(self) -> str:
        from fastrank_eval.printing import plain

        return plain(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from fastrank_eval.printing import terminal

        yield from terminal(self, options.max_width)
