"""Hold the comparisons of several labels over one reading of the rows."""

from __future__ import annotations

import json
from typing import Any

from fastrank_eval._lib.arguments import check_indent, typed
from fastrank_eval.analysis.compared_value import DIFFERENCE_SCHEMA
from fastrank_eval.analysis.comparison import Comparison
from fastrank_eval.engine.records import JSON_SCHEMAS
from fastrank_eval.results.format import printable
from fastrank_eval.results.labels import ByLabel
from fastrank_eval.results.tables import Report
from fastrank_eval.results.views import TerminalView


class LabelComparisons(ByLabel[Comparison]):
    """The comparisons of several labels: a mapping from label to `Comparison`.

    :func:`fastrank_eval.compare` returns it for a list of labels. It is read-only. P-values are
    corrected for each label by itself.

    Parameters
    ----------
    results : mapping of str to Comparison
        At least one.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> log = {"user": [1, 1, 2, 2, 3, 3], "click": [0, 1, 1, 0, 1, 0],
    ...        "order": [0, 1, 0, 0, 1, 0], "old": [0.1, 0.4, 0.2, 0.3, 0.5, 0.6],
    ...        "new": [0.1, 0.4, 0.4, 0.3, 0.5, 0.6]}
    >>> comparisons = fe.compare(log, group="user", label=["click", "order"],
    ...                          score=["old", "new"], baseline="old", measures="GAUC")
    >>> {label: round(one.find("GAUC").delta, 4) for label, one in comparisons.items()}
    {'click': 0.3333, 'order': 0.0}
    """

    _schema = DIFFERENCE_SCHEMA

    @typed
    def to_dict(self, movers: int = 0) -> dict[str, Any]:
        """Build the content of the JSON report.

        Parameters
        ----------
        movers : int
            As in `Comparison.to_dict`.

        Returns
        -------
        dict
            ``{"schema", "labels": {label: values}}``, with those of `Comparison.to_dict` of each
            label.
        """
        labels = {label: one.to_dict(movers) for label, one in self.items()}
        return {"schema": JSON_SCHEMAS["comparison"], "labels": labels}

    @typed
    def to_json(self, indent: int | None = 2, movers: int = 0) -> str:
        """Write :meth:`to_dict` as JSON.

        Parameters
        ----------
        indent : int or None
            Spaces a level; None for one line.
        movers : int
            As in `Comparison.to_dict`.

        Returns
        -------
        str
            Strictly valid JSON in ASCII; an undefined number is null.
        """
        return json.dumps(self.to_dict(movers), indent=check_indent(indent), allow_nan=False)

    @typed
    def to_markdown(self, movers: int = 0, *, wide: bool = False, all_slices: bool = False) -> str:
        """Write the report as markdown, with a heading for each label.

        Parameters
        ----------
        movers, wide, all_slices
            As in `Comparison.to_markdown`.

        Returns
        -------
        str
        """
        return self._document("markdown", wide=wide, movers=movers, all_slices=all_slices)

    @typed
    def to_latex(self, movers: int = 0, *, wide: bool = False, all_slices: bool = False) -> str:
        r"""Write the report as LaTeX, for ``\input`` into a document with booktabs.

        Parameters
        ----------
        movers, wide, all_slices
            As in `Comparison.to_markdown`.

        Returns
        -------
        str
        """
        return self._document("latex", wide=wide, movers=movers, all_slices=all_slices)

    @typed
    def to_html(self, movers: int = 0, *, wide: bool = False, all_slices: bool = False) -> str:
        """Write the report as a page of HTML, which needs no other file.

        Parameters
        ----------
        movers, wide, all_slices
            As in `Comparison.to_markdown`.

        Returns
        -------
        str
        """
        return self._document("html", wide=wide, movers=movers, all_slices=all_slices)

    @typed
    def view(self, movers: int = 0, *, wide: bool = False, all_slices: bool = False) -> Any:
        """Choose what a terminal shows.

        Parameters
        ----------
        movers, wide, all_slices
            As in `Comparison.to_markdown`.

        Returns
        -------
        rich renderable
        """
        return TerminalView(lambda width: self._report(width, wide, movers, all_slices))

    @property
    def _title(self) -> str:
        return f"Comparison for {', '.join(map(printable, self))}"

    def _report(
        self,
        width: int | None,
        wide: bool = False,
        movers: int = 0,
        all_slices: bool = False,
        *,
        plain: bool = False,
    ) -> Report:
        return self._combined(
            {
                label: one._report(width, wide, movers, all_slices, plain=plain)
                for label, one in self.items()
            }
        )

    def _html_report(self) -> Report:
        return self._combined({label: one._html_report() for label, one in self.items()})
