"""Define what a result and a comparison share, of one label or more."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import pyarrow as pa

from fastrank_eval._lib.arguments import typed
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.records import Meta, display_names, record_rows
from fastrank_eval.measures import Measure, measure, parse_measures
from fastrank_eval.measures.parser import find_computed
from fastrank_eval.results.gates import Gate, Verdict, gate
from fastrank_eval.results.lookup import find_measure, find_score, find_slicing
from fastrank_eval.results.report import Block, Heading, Lines, Report, printable
from fastrank_eval.results.views import View

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_T = TypeVar("_T", bound="Labelled")


class Labelled(View):
    """Values by measure, model and slice, of one label or of several.

    Parameters
    ----------
    values : sequence of MeasureValue or ComparedValue
    meta : Meta
    scores, measures : sequence of str
    requested : mapping of str to str, optional
    groups : pyarrow.Table, GroupTable or callable, optional
        The values of every group, or a function that collects them.
    parts : mapping of str to Labelled, optional
        What each of several labels has for itself.

    Attributes
    ----------
    labels : tuple of str
        The labels, if a list of them was evaluated; ``result["order"]`` is the part of one.
    """

    #: The columns of `records`.
    _schema: ClassVar[pa.Schema]
    #: The call that keeps the values of groups.
    _keep: ClassVar[str]
    evaluated: tuple[Any, ...] = ()
    baseline: Any = None

    def __init__(
        self,
        values: Sequence[Any],
        meta: Meta,
        scores: Sequence[str],
        measures: Sequence[str],
        requested: Mapping[str, str] | None = None,
        groups: pa.Table | GroupTable | Callable[[], GroupTable] | None = None,
        parts: Mapping[str, Self] | None = None,
    ) -> None:
        self.values = tuple(values)
        self.meta = meta
        self.scores = tuple(scores)
        self.measures = tuple(measures)
        self.requested = dict(requested or {})
        self._kept = groups
        self._parts = dict(parts or {})
        self.labels = tuple(self._parts)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values, in the order of `records`."""
        return iter(self.values)

    @typed
    def part(self, label: str) -> Self:
        """Return what one of several labels has for itself: ``result["order"]``.

        Parameters
        ----------
        label : str

        Returns
        -------
        Result or Comparison
            As of a call for this label alone.

        Raises
        ------
        ArgumentError
            If no list with this label was evaluated.
        """
        if label not in self._parts:
            raise ArgumentError(
                f"label: must be one of {self._names_for_labels}, got {label!r}; choose "
                f"one.{near(label, self.labels)}"
            )
        return self._parts[label]

    @property
    def _names_for_labels(self) -> str:
        return ", ".join(map(repr, self.labels)) or "the labels of a list (there is none)"

    def _refuse_labels(self) -> None:
        """Raise ArgumentError if there are several labels to choose from."""
        if self.labels:
            raise ArgumentError(
                f"this evaluation has a list of labels ({self._names_for_labels}): name the one "
                f"you mean, as in result[{self.labels[0]!r}]."
            )

    @cached_property
    def names(self) -> dict[str, str]:
        """The names that reports show, by canonical text of the measure."""
        return display_names(self.measures, self.values)

    def _find_measure(self, name: str | Measure) -> Measure:
        self._refuse_labels()
        return find_measure(name, self.names, self.requested)

    def _find_score(self, name: str | None) -> str:
        self._refuse_labels()
        return find_score(name, self.scores, self.names)

    @property
    def per_group(self) -> pa.Table:
        """The table of groups: one row a group, in the order of their first rows.

        Returns
        -------
        pyarrow.Table
            Key columns, ``rows``, ``positives`` and a float64 column a measure, null where
            undefined. Its name is the measure's canonical text, such as ``AP`` for MAP; with
            several scores it is ``score.measure``. Of a list of labels, the tables one below the
            other, ``label`` first; a measure that a label does not have is null.

        Raises
        ------
        ArgumentError
            If the values of groups were not kept.
        """
        if self.labels:
            return stacked({label: part.per_group for label, part in self._parts.items()})
        groups = self._groups()
        return groups if isinstance(groups, pa.Table) else self._table

    @cached_property
    def _table(self) -> pa.Table:
        return self.group_table().table()

    @property
    def keeps_groups(self) -> bool:
        """Whether the values of groups were kept."""
        return self._kept is not None

    def group_table(self) -> GroupTable:
        """Return keys, values and weights of every group."""
        groups = self._groups()
        if isinstance(groups, pa.Table):
            raise ArgumentError("this result has no groups that could be compared one by one.")
        return groups

    def _groups(self) -> pa.Table | GroupTable:
        """Collect the groups once; the first call may take a while."""
        self._refuse_labels()
        if self._kept is None and self.meta.rows and not self.meta.groups:
            raise ArgumentError(
                "rows were not grouped, because no measure needs groups: call evaluate() with "
                "group=... and keep='values'."
            )
        if self._kept is None:
            raise ArgumentError(f"values per group were not kept: call {self._keep}.")
        if callable(self._kept):
            self._kept = self._kept()
        return self._kept

    def __getstate__(self) -> dict[str, Any]:
        if callable(self._kept):  # it refers to locks of the run, which cannot be pickled
            self._groups()
        return self.__dict__

    @property
    def _columns(self) -> pa.Schema:
        label = pa.field("label", pa.string(), nullable=False)
        return pa.schema([*[label] * bool(self.labels), *self._schema])

    def _rows(self) -> list[dict[str, Any]]:
        return record_rows(self.values, self._columns)

    def _document_for_labels(self, **choices: Any) -> dict[str, Any]:
        labels = {label: part.document(**choices) for label, part in self._parts.items()}
        return {"schema": next(iter(labels.values()))["schema"], "labels": labels}

    def _report_for_labels(self, **choices: Any) -> Report:
        """Join the reports of all labels, with a heading for each."""
        reports = {label: part.report(**choices) for label, part in self._parts.items()}
        blocks: list[Block] = []
        ends: dict[str, dict[str, Sequence[str]]] = {}
        for label, report in reports.items():
            blocks.append(Heading(printable(label)))
            for block in report.blocks:
                if isinstance(block, Lines) and block.kind != "verdicts":
                    ends.setdefault(block.kind, {})[printable(label)] = block.texts
                else:
                    blocks.append(block)
        blocks += [Lines(texts_by_label(kind, texts), kind) for kind, texts in ends.items()]
        title = f"{report.title}: {', '.join(map(printable, self.labels))}"
        return Report(title, blocks)

    @typed
    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        measures: str | Measure | Sequence[str | Measure] | None = None,
        by: str | None = None,
        title: str | None = None,
        overwrite: bool = False,
    ) -> Figure:
        """Draw values, or differences as a forest plot, with intervals.

        It needs matplotlib (extra ``[plot]``). A panel shows a measure, a row all rows or a slice,
        a mark a model, or a candidate. Marks of significant differences are filled.

        Parameters
        ----------
        path : str or path, optional
            A file to write, whose name ends in ``.png`` or ``.svg``.
        measures : str, Measure or sequence of them, optional
            By default all, a panel each.
        by : str, optional
            Only the slices of this slicing; by default all slices.
        title : str, optional
        overwrite : bool
            Replace a file that exists.

        Returns
        -------
        matplotlib.figure.Figure
            The picture, which a notebook shows.

        Raises
        ------
        ArgumentError
            If matplotlib is not installed, or the rows were not sliced by `by`.
        MeasureError
            If a measure was not part of the evaluation.
        OutputError
            If the file cannot be written, or its name has another ending.
        """
        from fastrank_eval.results.plot_files import forest_picture

        chosen = parse_measures(self.measures if measures is None else measures)
        texts = [str(self._find_measure(one)) for one in chosen]
        slicing = None if by is None else find_slicing(by, self.evaluated or self.values)
        values = [
            v for v in self.values if v.measure in texts and (by is None or v.by in (None, slicing))
        ]
        return forest_picture(values, self.scores, self.baseline, self.meta, title, path, overwrite)

    @typed
    def check(self, *fail_if: str | Gate) -> Verdict:
        """Judge the values by gates: conditions that must not hold.

        Parameters
        ----------
        *fail_if : str or Gate
            ``"GAUC < 0.6"``, ``"GAUC[*] ci_low < 0.55"``, ``"new:LogLoss[slot=1] delta > 0"`` ...;
            see :func:`fastrank_eval.gate`. In a comparison, fields of values (``se``, ``ci_low``
            ...) apply to each model, the baseline included; fields of differences to each
            candidate. Each of several labels is judged; if they have measures of their own, a gate
            applies to the labels that have all its measures.

        Returns
        -------
        Verdict
            True if all gates are passed; otherwise it lists the reasons. A gate fails if it cannot
            be judged: a slice, a measure, a group or an error of a difference is missing, or a
            value is NaN. `GateFailure.label` names the label, if there are several.

        Raises
        ------
        ArgumentError
            If no gate is given, or one does not follow the grammar.
        """
        from fastrank_eval.results.gate_judge import judge

        if not self.labels:
            return judge(
                fail_if,
                [*self.evaluated, *self.values],
                rows=self.meta.rows,
                groups=self.meta.groups,
                baseline=self.baseline,
                requested=self.requested,
                conventions=self.meta.conventions,
            )
        gates = [one if isinstance(one, Gate) else gate(one) for one in fail_if]
        failures, not_judged = [], []
        for label, part in self._parts.items():
            # A gate that no label can judge fails for every label.
            own = [one for one in gates if part._computes(one) or not self._computes(one)]
            verdict = part.check(*own) if own or not gates else Verdict(())
            failures += [replace(failure, label=label) for failure in verdict.failures]
            not_judged += [replace(one, label=label) for one in verdict.not_judged]
        return Verdict(tuple(failures), tuple(not_judged))

    def _computes(self, one: Gate) -> bool:
        """Return whether the values, or those of a label, suffice for a gate."""
        if self.labels:
            return any(part._computes(one) for part in self._parts.values())
        measures = (measure(term.measure) for term in one.terms)
        return all(find_computed(m, self.names, self.requested) is not None for m in measures)


def for_labels(
    kind: type[_T], label: str | Sequence[str], parts: Mapping[str, _T], **own: Any
) -> _T:
    """Return the part of one label, or put the parts of a list together.

    Parameters
    ----------
    kind : type
        Result or Comparison.
    label : str or sequence of str
        As it was requested.
    parts : mapping of str to Labelled
    **own
        Other arguments of the class.
    """
    if isinstance(label, str):
        return parts[label]
    seconds = max(part.meta.seconds for part in parts.values())
    for part in parts.values():
        part.meta = replace(part.meta, seconds=seconds)
    first, metas = next(iter(parts.values())), [part.meta for part in parts.values()]
    requested = {name: text for part in parts.values() for name, text in part.requested.items()}
    meta = replace(
        first.meta,
        rows=max(meta.rows for meta in metas),
        groups=max(meta.groups for meta in metas),
        conventions=shared_conventions(metas),
        requested=requested,
    )
    return kind(
        values=labelled(parts, "values"),
        meta=meta,
        scores=first.scores,
        measures=list(dict.fromkeys(text for part in parts.values() for text in part.measures)),
        requested=requested,
        parts=parts,
        **own,
    )


def shared_conventions(metas: Sequence[Meta]) -> dict[str, object]:
    """Return the conventions that all results have."""
    return {
        name: value
        for name, value in metas[0].conventions.items()
        if all(meta.conventions.get(name) == value for meta in metas)
    }


def labelled(parts: Mapping[str, Any], name: str) -> list[Any]:
    """List the records that the parts have as an attribute, with their labels."""
    return [
        replace(one, label=label) for label, part in parts.items() for one in getattr(part, name)
    ]


def stacked(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Put tables below each other, with their label in front."""
    field = pa.field("label", pa.string(), nullable=False)
    labelled = [
        table.add_column(0, field, pa.array([label] * table.num_rows, pa.string()))
        for label, table in tables.items()
    ]
    return pa.concat_tables(labelled, promote_options="default")


def texts_by_label(kind: str, texts: Mapping[str, Sequence[str]]) -> list[str]:
    """List the texts of all labels, then those of some with their label."""
    every = list(dict.fromkeys(text for for_label in texts.values() for text in for_label))
    if kind == "legend":
        return every
    shared = [text for text in every if all(text in for_label for for_label in texts.values())]
    return shared + [
        f"{label}: {text}"
        for label, for_label in texts.items()
        for text in for_label
        if text not in shared
    ]
