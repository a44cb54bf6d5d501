"""Hold the results of several labels over one reading of the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from fastrank_eval._lib.arguments import shown, typed
from fastrank_eval._lib.errors import near
from fastrank_eval.measures import measure
from fastrank_eval.measures.parser import find_computed
from fastrank_eval.results.format import printable
from fastrank_eval.results.gates import Gate, Verdict, gate
from fastrank_eval.results.report import Block, Heading, Lines, Report
from fastrank_eval.results.result import Result
from fastrank_eval.results.views import View

#: Result or Comparison.
_T = TypeVar("_T", bound=Any)


class ByLabel(View, Mapping[str, _T]):
    """A read-only mapping from label to what was computed for it.

    Parameters
    ----------
    results : mapping of str to object
        At least one.
    """

    #: What the title says before the labels.
    _title: ClassVar[str]

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

    def records(self) -> pa.Table:
        """Return the tables of all values, one below the other.

        Returns
        -------
        pyarrow.Table
            ``label``, then the columns of `records` of a label.
        """
        return stacked({label: result.records() for label, result in self.items()})

    def _rows(self) -> list[dict[str, Any]]:
        return [{"label": label, **row} for label, own in self.items() for row in own._rows()]

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

    def document(self, **choices: Any) -> dict[str, Any]:
        """Return the plain Python values that JSON has.

        Parameters
        ----------
        **choices
            As `document` of a label takes them.

        Returns
        -------
        dict
            ``{"schema", "labels": {label: values}}``, with those of `document` of each label.
        """
        labels = {label: result.document(**choices) for label, result in self.items()}
        return {"schema": next(iter(labels.values()))["schema"], "labels": labels}

    def report(self, *, wide: bool = False, **choices: Any) -> Report:
        """Build the report that people read, with a heading for each label.

        Parameters
        ----------
        wide, **choices
            As `report` of a label takes them.

        Returns
        -------
        Report
        """
        blocks: list[Block] = []
        ends: dict[str, dict[str, Sequence[str]]] = {}
        for label, result in self.items():
            blocks.append(Heading(printable(label)))
            for block in result.report(wide=wide, **choices).blocks:
                if isinstance(block, Lines) and block.kind != "verdicts":
                    ends.setdefault(block.kind, {})[printable(label)] = block.texts
                else:
                    blocks.append(block)
        blocks += [Lines(_by_label(kind, texts), kind) for kind, texts in ends.items()]
        return Report(printable(f"{self._title} {', '.join(self)}"), blocks)

    def _choices_of(self, method: str) -> list[str]:
        return list(next(iter(self.values()))._choices_of(method))

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

    _title = "Evaluation of"


def stacked(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Put tables below each other, with their label in front."""
    field = pa.field("label", pa.string(), nullable=False)
    labelled = [
        table.add_column(0, field, pa.array([label] * table.num_rows, pa.string()))
        for label, table in tables.items()
    ]
    return pa.concat_tables(labelled, promote_options="default")


def _by_label(kind: str, texts: Mapping[str, Sequence[str]]) -> list[str]:
    """List the texts of all labels, then those of some with their label."""
    every = list(dict.fromkeys(text for of_label in texts.values() for text in of_label))
    if kind == "legend":
        return every
    shared = [text for text in every if all(text in of_label for of_label in texts.values())]
    return shared + [
        f"{label}: {text}"
        for label, of_label in texts.items()
        for text in of_label
        if text not in shared
    ]


def _has_measures(result: Any, one: Gate) -> bool:
    values = (
        find_computed(measure(term.measure), result.names, result.requested) for term in one.terms
    )
    return all(each is not None for each in values)
