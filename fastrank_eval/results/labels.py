"""Hold the results of several labels over one reading of the rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

from fastrank_eval._lib.arguments import check_indent, shown, typed
from fastrank_eval._lib.errors import near
from fastrank_eval._lib.files import csv_text
from fastrank_eval.engine.records import JSON_SCHEMAS, VALUE_SCHEMA, csv_rows
from fastrank_eval.measures import measure
from fastrank_eval.measures.parser import find_computed
from fastrank_eval.results.format import printable
from fastrank_eval.results.gates import Gate, Verdict, gate
from fastrank_eval.results.result import Result
from fastrank_eval.results.tables import Heading, Lines, Report, Table
from fastrank_eval.results.views import ReportView, TerminalView


class _OfLabel(Protocol):
    """The result or comparison of one label."""

    @property
    def requested(self) -> Mapping[str, str]: ...

    @property
    def values(self) -> Sequence[Any]: ...

    @property
    def names(self) -> Mapping[str, str]: ...

    @property
    def summary(self) -> pa.Table: ...

    @property
    def per_group(self) -> pa.Table: ...

    def to_dict(self) -> dict[str, Any]: ...

    def check(self, *fail_if: str | Gate) -> Verdict: ...


_T = TypeVar("_T", bound=_OfLabel)


class ByLabel(ReportView, Mapping[str, _T]):
    """A read-only mapping from label to what was computed for it.

    Parameters
    ----------
    results : mapping of str to object
        At least one.
    """

    _schema: ClassVar[pa.Schema]

    def __init__(self, results: Mapping[str, _T]) -> None:
        self._results = dict(results)

    def __getitem__(self, label: str) -> _T:
        """Return the result or comparison of a label.

        Parameters
        ----------
        label : str

        Returns
        -------
        Result or Comparison

        Raises
        ------
        KeyError
            If there is no such label.
        """
        if not isinstance(label, str) or label not in self._results:
            labels = ", ".join(map(repr, self._results))
            raise KeyError(f"label {shown(label)} is none of {labels}.{near(str(label), self)}")
        return self._results[label]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the labels, in the order of the request."""
        return iter(self._results)

    def __len__(self) -> int:
        """Return the number of labels."""
        return len(self._results)

    def to_arrow(self) -> pa.Table:
        """Return the tables of all values, one below the other.

        Returns
        -------
        pyarrow.Table
            ``label``, then the columns of `summary` of a label.
        """
        return stacked({label: result.summary for label, result in self.items()})

    @property
    def per_group(self) -> pa.Table:
        """The tables of groups of all labels, one below the other.

        Returns
        -------
        pyarrow.Table
            ``label``, then the columns of `per_group` of a label; a measure that a label does
            not have is null.

        Raises
        ------
        ArgumentError
            If values per group were not kept.
        """
        return stacked({label: result.per_group for label, result in self.items()})

    def to_dict(self) -> dict[str, Any]:
        """Build the plain Python values that :meth:`to_json` writes.

        Returns
        -------
        dict
            ``{"schema", "labels": {label: values}}``, with those of `to_dict` of each label.
        """
        labels = {label: result.to_dict() for label, result in self.items()}
        return {"schema": JSON_SCHEMAS["evaluation"], "labels": labels}

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
        return json.dumps(self.to_dict(), indent=check_indent(indent), allow_nan=False)

    @typed
    def to_csv(self, *, safe: bool = False) -> str:
        """Write all values as CSV.

        Parameters
        ----------
        safe : bool
            As in `Result.to_csv`.

        Returns
        -------
        str
            The lines of `to_csv` of every label, with a column ``label`` in front.
        """
        rows = [
            [label, *row.values()]
            for label, result in self.items()
            for row in csv_rows(result.values, self._schema)
        ]
        return csv_text(["label", *self._schema.names], rows, safe)

    @typed
    def to_markdown(self, *, wide: bool = False) -> str:
        """Write the report as markdown, with a heading for each label.

        Parameters
        ----------
        wide : bool
            As in `Result.to_markdown`.

        Returns
        -------
        str
        """
        return self._document("markdown", wide=wide)

    @typed
    def to_latex(self, *, wide: bool = False) -> str:
        r"""Write the report as LaTeX, for ``\input`` into a document with booktabs.

        Parameters
        ----------
        wide : bool
            As in `Result.to_markdown`.

        Returns
        -------
        str
        """
        return self._document("latex", wide=wide)

    @typed
    def to_html(self, *, wide: bool = False) -> str:
        """Write the report as a page of HTML, which needs no other file.

        Parameters
        ----------
        wide : bool
            As in `Result.to_markdown`.

        Returns
        -------
        str
        """
        return self._document("html", wide=wide)

    @typed
    def view(self, *, wide: bool = False) -> Any:
        """Choose what a terminal shows.

        Parameters
        ----------
        wide : bool
            As in `Result.to_markdown`.

        Returns
        -------
        rich renderable
        """
        return TerminalView(lambda width: self._report(width, wide))

    @typed
    def check(self, *fail_if: str | Gate) -> Verdict:
        """Judge each label by gates: conditions that must not hold.

        Parameters
        ----------
        *fail_if : str or Gate
            As in `Result.check`. Where labels have measures of their own, a gate applies to the
            labels that have all its measures.

        Returns
        -------
        Verdict
            True if each label passes all its gates. `GateFailure.label` names the label.

        Raises
        ------
        ArgumentError
            If no gate is given, or one does not follow the grammar.
        """
        gates = [one if isinstance(one, Gate) else gate(one) for one in fail_if]
        failures, not_judged = [], []
        for label, result in self.items():
            # A gate that no label can judge fails for every label.
            own = [one for one in gates if _has_measures(result, one) or not self._judged(one)]
            verdict = result.check(*own) if own or not gates else Verdict(())
            failures += [replace(failure, label=label) for failure in verdict.failures]
            not_judged += [replace(one, label=label) for one in verdict.not_judged]
        return Verdict(tuple(failures), tuple(not_judged))

    def _judged(self, one: Gate) -> bool:
        return any(_has_measures(result, one) for result in self.values())

    def _combined(self, reports: Mapping[str, Report]) -> Report:
        """Put the reports of labels below each other, with common notes once."""
        reports = {printable(label): report for label, report in reports.items()}
        blocks: list[Table | Lines | Heading] = []
        for label, report in reports.items():
            blocks += [Heading(label), *report.blocks]
        legend = dict.fromkeys(line for report in reports.values() for line in report.legend)
        sizes = {label: [report.size] for label, report in reports.items()}
        return Report(
            blocks,
            list(legend),
            _by_label({label: report.notes for label, report in reports.items()}),
            "; ".join(_by_label(sizes)),
            _by_label({label: report.conventions for label, report in reports.items()}),
        )


class LabelResults(ByLabel[Result]):
    """The results of several labels: a mapping from label to `Result`.

    :func:`fastrank_eval.evaluate` returns it for a list of labels. It is read-only.

    Parameters
    ----------
    results : mapping of str to Result
        At least one.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> log = {"user": [1, 1, 2, 2], "click": [0, 1, 1, 0], "order": [0, 1, 0, 0],
    ...        "pctr": [0.1, 0.4, 0.2, 0.3]}
    >>> results = fe.evaluate(log, group="user", label=["click", "order"], score="pctr",
    ...                       measures="GAUC,RR")
    >>> {label: result.value("GAUC") for label, result in results.items()}
    {'click': 0.5, 'order': 1.0}
    """

    _schema = VALUE_SCHEMA

    @property
    def _title(self) -> str:
        return f"Evaluation of {', '.join(map(printable, self))}"

    def _report(self, width: int | None, wide: bool = False, *, plain: bool = False) -> Report:
        reports = {
            label: result._report(width, wide, plain=plain) for label, result in self.items()
        }
        return self._combined(reports)


def stacked(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Put tables below each other, with their label in front."""
    field = pa.field("label", pa.string(), nullable=False)
    labelled = [
        table.add_column(0, field, pa.array([label] * table.num_rows, pa.string()))
        for label, table in tables.items()
    ]
    return pa.concat_tables(labelled, promote_options="default")


def _by_label(texts: Mapping[str, Sequence[str]]) -> list[str]:
    """List the texts of all labels, then those of some with their label."""
    every = dict.fromkeys(text for of_label in texts.values() for text in of_label)
    shared = [text for text in every if all(text in of_label for of_label in texts.values())]
    return shared + [
        f"{label}: {text}"
        for label, of_label in texts.items()
        for text in of_label
        if text not in shared
    ]


def _has_measures(result: _OfLabel, one: Gate) -> bool:
    values = (
        find_computed(measure(term.measure), result.names, result.requested) for term in one.terms
    )
    return all(each is not None for each in values)
