"""Hold the result of a comparison: differences with their errors."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from fastrank_eval._lib.arguments import checked, integer, typed
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.analysis.attribution import (
    decompose_by_slices,
    is_mean,
    movers_table,
    refuse_without_mean,
    slicings_of,
)
from fastrank_eval.analysis.compared_value import ComparedValue
from fastrank_eval.analysis.comparison_view import ReportedComparison
from fastrank_eval.engine.records import Meta
from fastrank_eval.engine.summary import GroupRecords
from fastrank_eval.measures import measure, parse_measures
from fastrank_eval.results.labels import stacked
from fastrank_eval.results.lookup import find_slicing, refuse_pooled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fastrank_eval.analysis.attribution import Decomposition
    from fastrank_eval.engine.records import MeasureValue
    from fastrank_eval.measures import Measure


class Comparison(ReportedComparison):
    """The result of :func:`fastrank_eval.compare` and :meth:`Result.compare`.

    Parameters
    ----------
    values : sequence of ComparedValue
        One for each candidate and measure, then one for each slice, candidate and measure.
    meta : Meta
        Provenance and conventions of the values.
    baseline : str
        The score column to compare the others with.
    scores : sequence of str
        The other score columns, in the requested order.
    measures : sequence of str
        Canonical texts of the measures, in the requested order.
    requested : mapping of str to str, optional
        Requested names of measures that a profile gave other options.
    kept : GroupRecords, optional
        Values of every group, if `per_group`.
    joined : mapping of str to int, optional
        For two results: the numbers of groups that both have, that only one has, and whose numbers
        of rows differ.
    evaluated : sequence of MeasureValue, optional
        Values of the baseline and of the others.
    parts : mapping of str to Comparison, optional
        The comparisons of several labels; see `Result`. P-values are corrected for each label by
        itself.

    Examples
    --------
    >>> value = ComparedValue("new", "old", "all", "RR", "mean", 0.5, 0.75, 0.25, 0.5)
    >>> comparison = Comparison([value], Meta("1.0", 5, 2, {}, 0.5), "old", ["new"], ["RR"])
    >>> comparison.find("RR").delta
    0.25
    """

    def __init__(
        self,
        values: Sequence[ComparedValue],
        meta: Meta,
        baseline: str,
        scores: Sequence[str],
        measures: Sequence[str],
        requested: Mapping[str, str] | None = None,
        kept: GroupRecords | None = None,
        joined: Mapping[str, int] | None = None,
        evaluated: Sequence[MeasureValue] = (),
        parts: Mapping[str, Comparison] | None = None,
    ) -> None:
        super().__init__(values, meta, scores, measures, requested, parts)
        self.baseline = baseline
        self.joined = None if joined is None else dict(joined)
        self._records = kept
        self.evaluated = tuple(evaluated)

    def __getitem__(self, label: str) -> Comparison:
        """Return the part of one of several labels; see `part`."""
        return self.part(label)

    @property
    def per_group(self) -> pa.Table:
        """A table of one row for each group.

        Returns
        -------
        pyarrow.Table
            Key columns, ``rows``, ``positives`` and a float64 column ``score.measure`` for each
            model and measure, null where undefined. Of a list of labels as in `Result`.

        Raises
        ------
        ArgumentError
            If values per group were not kept.
        """
        if self.labels:
            return stacked({label: part.per_group for label, part in self._parts.items()})
        return self._groups().table()

    @typed
    def find(
        self,
        measure: str | Measure,
        score: str | None = None,
        slice: str = "all",  # noqa: A002 - the name of the field
    ) -> ComparedValue:
        """Find the comparison of one candidate by one measure.

        Parameters
        ----------
        measure : str or Measure
            In any accepted spelling.
        score : str, optional
            Score column of the candidate; may be left out if there is one.
        slice : str

        Returns
        -------
        ComparedValue

        Raises
        ------
        MeasureError
            If the measure was not part of the comparison.
        ArgumentError
            If the score column or the slice was not part of it, or the score column is left out
            where there are several.
        """
        return self._find(str(self._find_measure(measure)), score, slice)

    def _find(self, text: str, score: str | None, slice: str) -> ComparedValue:  # noqa: A002
        """Find a comparison by the canonical text of its measure."""
        name = self._find_score(score)
        for value in self.values:
            if (value.measure, value.score, value.slice) == (text, name, slice):
                return value
        slices = dict.fromkeys(value.slice for value in self.values)
        raise ArgumentError(
            f"slice {slice!r} was not part of this comparison, which has "
            f"{', '.join(map(repr, slices))}."
        )

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
        """Draw the differences with their intervals, as a forest plot.

        It needs matplotlib (extra ``[plot]``). A panel shows a measure, a row all rows or a slice,
        a mark a candidate. Marks of significant differences are filled.

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
            If a measure was not part of the comparison.
        OutputError
            If the file cannot be written, or its name has another ending.
        """
        from fastrank_eval.analysis.plot_files import forest_picture

        chosen = [
            str(self._find_measure(m))
            for m in parse_measures(self.measures if measures is None else measures)
        ]
        return forest_picture(self, chosen, by, title, path, overwrite)

    @typed
    def movers(self, measure: str | Measure, score: str | None = None, top: int = 10) -> pa.Table:
        """List the groups that raised a measure most, then the opposite.

        Parameters
        ----------
        measure : str or Measure
            A measure of groups; measures of all rows together have no values of groups.
        score : str, optional
            Score column of the candidate; may be left out if there is one.
        top : int
            At most so many of each.

        Returns
        -------
        pyarrow.Table
            Key columns, ``rows``, ``base`` and ``value`` (null where undefined) and
            ``contribution``, what the group adds to the difference, its weight included. In
            descending order of contribution, then in the order of the keys.

        Raises
        ------
        MeasureError
            If the measure was not part of the comparison, or pools all rows.
        ArgumentError
            If values per group were not kept, or the score column is unknown.
        """
        return self._movers_of(self._find_measure(measure), score, top)

    def _movers_of(self, measure: Measure, score: str | None, top: int) -> pa.Table:
        refuse_pooled(measure)
        top = checked("top", top, integer(1))
        name = self._find_score(score)
        records, delta = self._groups(), self._find(str(measure), name, "all").delta
        base, model = records.scores.index(self.baseline), records.scores.index(name)
        return movers_table(records, base, model, records.measures.index(measure), delta, top)

    @typed
    def slice_movers(
        self, measure: str | Measure, score: str | None = None, top: int = 10
    ) -> list[ComparedValue]:
        """List the slices in which a measure rose most, then the opposite.

        Parameters
        ----------
        measure : str or Measure
        score : str, optional
            Score column of the candidate; may be left out if there is one.
        top : int
            At most so many of each.

        Returns
        -------
        list of ComparedValue
            In descending order of `delta`, then in the order of the summary.

        Raises
        ------
        MeasureError, ArgumentError
            As `find` does.
        """
        return self._changed_slices(str(self._find_measure(measure)), score, top)

    def _changed_slices(self, text: str, score: str | None, top: int) -> list[ComparedValue]:
        """Find the slices with the largest changes of a measure."""
        name = self._find_score(score)
        top = checked("top", top, integer(1))
        own = [v for v in self.values if (v.measure, v.score) == (text, name)]
        slices = [v for v in own if v.slice != "all"]
        rose = sorted((v for v in slices if v.delta > 0), key=lambda v: -v.delta)[:top]
        fell = sorted((v for v in slices if v.delta < 0), key=lambda v: v.delta)[:top]
        return [*rose, *reversed(fell)]

    @typed
    def decomposition(
        self, measure: str | Measure, score: str | None = None, by: str | None = None
    ) -> Decomposition:
        """Decompose the difference of a mean over groups by slices.

        The difference is the sum of change within slices, of change of the mix of slices, and of a
        remainder. The mix changes between results of different rows, such as two nights; for models
        on the same rows it differs only if they cover different groups. The remainder is what
        slices do not explain: pairs of rows in different slices if groups are cut, and slices left
        out.

        Parameters
        ----------
        measure : str or Measure
            A mean over groups.
        score : str, optional
            Score column of the candidate; may be left out if there is one.
        by : str, optional
            The slicing, as it was requested; may be left out if there is one.

        Returns
        -------
        Decomposition

        Raises
        ------
        MeasureError
            If the measure was not part of the comparison, or is not a mean over groups.
        ArgumentError
            If the rows have no such slicing, or the score column is unknown.

        References
        ----------
        Kitagawa (1955), doi:10.1080/01621459.1955.10501299.
        """
        return self._decomposition_of(self._find_measure(measure), score, by)

    def _decomposition_of(
        self, measure: Measure, score: str | None, by: str | None
    ) -> Decomposition:
        refuse_without_mean(measure)
        name = self._find_score(score)
        slicing = find_slicing(by, self.evaluated)
        return decompose_by_slices(self.evaluated, str(measure), self.baseline, name, slicing)

    @cached_property
    def decompositions(self) -> dict[tuple[str, str, str], Decomposition]:
        """Decompositions by candidate, mean over groups and slicing."""
        self._refuse_labels()
        means = [mean for mean in map(measure, self.measures) if is_mean(mean)]
        return {
            (score, str(mean), by): self._decomposition_of(mean, score, by)
            for by in slicings_of(self.evaluated)
            for score in self.scores
            for mean in means
        }

    def _groups(self) -> GroupRecords:
        self._refuse_labels()
        if self._records is None:
            raise ArgumentError(
                "values per group were not kept: compare() was called with per_group=False; call "
                "it with per_group=True (evaluate() with keep_groups=True for those of a state)."
            )
        return self._records

    @typed
    def mover_tables(self, top: int) -> dict[tuple[str, str], pa.Table]:
        """List the movers of the first measure of groups, by candidate."""
        first = next((m for m in map(measure, self.measures) if not m.pooled), None)
        if not top or first is None or self._records is None:
            return {}
        changes = {(score, str(first)): self._movers_of(first, score, top) for score in self.scores}
        return {key: table for key, table in changes.items() if table.num_rows}
