"""ClassResult: what an evaluation of several classes found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval.errors import ArgumentError, MeasureError
from fastrank_eval.measure_value import MeasureValue
from fastrank_eval.meta import Meta
from fastrank_eval.plain_values import plain_value
from fastrank_eval.result import Result
from fastrank_eval.typed_arguments import typed

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console, ConsoleOptions, RenderResult

    from fastrank_eval.measures import Measure

__all__ = ["ClassResult"]


class ClassResult(Result):
    """What :func:`fastrank_eval.evaluate_classes` returns.

    A line's `slice` is the average it is, ``"all"`` for a value of all classes at once. Its groups
    are classes, pairs of them (``ovo``, ``mu``), or rows (``samples``).

    Parameters
    ----------
    values : sequence of MeasureValue
    per_class : pyarrow.Table
    confusion : ndarray or None
    meta : Meta
    name : str
        What the lines call the model.
    measures : sequence of str
    classes : sequence of str

    Attributes
    ----------
    classes : tuple of str
        As text, in the order of the arguments.

    Examples
    --------
    >>> table = pa.table({"class": ["a", "b"], "rows": [3, 3], "positives": [1, 2],
    ...                   "PPV": [1.0, 0.5]})
    >>> value = MeasureValue("scores", "macro", "PPV", 0.75, 2, 2, {}, 1.0, 1.0)
    >>> meta = Meta("1.0", 3, 2, {}, 0.5)
    >>> result = ClassResult([value], table, None, meta, "scores", ["PPV"], ["a", "b"])
    >>> result.value("PPV"), result["PPV"]
    (0.75, array([1. , 0.5]))
    """

    def __init__(
        self,
        values: Sequence[MeasureValue],
        per_class: pa.Table,
        confusion: np.ndarray | None,
        meta: Meta,
        name: str,
        measures: Sequence[str],
        classes: Sequence[str],
    ) -> None:
        super().__init__(values, per_class, meta, [name], measures)
        self.classes = tuple(classes)
        self._confusion = confusion

    @property
    def per_class(self) -> pa.Table:
        """One row a class.

        Returns
        -------
        pyarrow.Table
            ``class``, ``rows`` (all rows), ``positives`` (those of the class) and a float64 column
            a measure of the class against the others, null where undefined.
        """
        return self.per_group

    @property
    def confusion(self) -> NDArray[Any]:
        """Rows of class i that are predicted j.

        Returns
        -------
        numpy.ndarray
            int64, or float64 sums of weights, shape (classes, classes).

        Raises
        ------
        ArgumentError
            If rows may have several classes, or thresholds decide.
        """
        if self._confusion is None:
            raise ArgumentError(
                "no class is predicted for each row: a confusion matrix of all classes needs a "
                "label column of one class a row and decide='argmax'."
            )
        return self._confusion

    @typed
    def value(  # type: ignore[override]  # averages take the place of slices
        self, measure: str | Measure, score: str | None = None, average: str | None = None
    ) -> float:
        """Value of a measure.

        Parameters
        ----------
        measure : str or Measure
        score : str, optional
            The name of the model.
        average : str, optional
            Which average, or ``"all"``; may be left out if there is one.

        Returns
        -------
        float
            NaN where undefined.

        Raises
        ------
        MeasureError
            If the measure was not part of the evaluation.
        ArgumentError
            If the average was not, or is left out where there are several.
        """
        return self._of_average(measure, score, average).value

    @typed
    def interval(  # type: ignore[override]  # averages take the place of slices
        self, measure: str | Measure, score: str | None = None, average: str | None = None
    ) -> tuple[float, float]:
        """Confidence interval of an average over samples, rows being independent.

        Parameters
        ----------
        measure, score, average
            As `value` takes them.

        Returns
        -------
        low, high : float
            NaN for the other averages: classes are no sample.

        Raises
        ------
        MeasureError, ArgumentError
            As `value` does.
        """
        line = self._of_average(measure, score, average)
        return line.ci_low, line.ci_high

    def _of_average(
        self, measure: str | Measure, score: str | None, average: str | None
    ) -> MeasureValue:
        return self._line_of(str(self._known(measure)), score, average)

    def _line_of(self, text: str, score: str | None, part: str | None = None) -> MeasureValue:
        average = part
        score = self._score(score)
        found = {v.slice: v for v in self.values if (v.measure, v.score) == (text, score)}
        if average is None and len(found) == 1:
            return next(iter(found.values()))
        if average not in found:
            known = ", ".join(map(repr, found)) or "none: result[...] has the values of the classes"
            asked = "name one" if average is None else f"not {average!r}"
            raise ArgumentError(f"averages of {text} in this result: {known}; {asked}.")
        return found[average]

    def __getitem__(self, key: str | Measure | tuple[str, str | Measure]) -> NDArray[np.float64]:
        """Values of the classes: ``result["PPV"]``.

        Parameters
        ----------
        key : str or Measure

        Returns
        -------
        numpy.ndarray
            float64, one entry a class, NaN where undefined.

        Raises
        ------
        MeasureError
            If the measure was not part of the evaluation, or its groups are rows.
        """
        known = self._known(key[1] if isinstance(key, tuple) else key)
        if not known.pooled:
            raise MeasureError(f"{known} takes a row for a group of classes; no class has a value.")
        return np.asarray(self.per_class.column(str(known)).to_numpy(), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """As `Result.to_dict`, with ``classes``, a mapping a class, and ``confusion`` or None."""
        confusion = None if self._confusion is None else self._confusion.tolist()
        return {
            **super().to_dict(),
            "classes": plain_value(self.per_class.to_pylist()),
            "confusion": plain_value(confusion),
        }

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from super().__rich_console__(console, options)
        from rich import box
        from rich.table import Table

        from fastrank_eval.cell_texts import printable

        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for at, name in enumerate(self.per_class.column_names):
            table.add_column(name, justify="right" if at else "left", overflow="fold")
        for row in self.per_class.to_pylist():
            table.add_row(*(printable(_cell(value)) for value in row.values()))
        yield table


def _cell(value: object) -> str:
    if value is None:
        return "undefined"
    return f"{value:#.6g}" if isinstance(value, float) else str(value)
