"""The result of a comparison: differences with their errors."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.arguments import at_least_one, indent_of, typed
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.analysis.attribution import (
    decomposed,
    decomposition_lines,
    is_mean,
    movers_lines,
    movers_table,
    refuse_without_mean,
    sliced_by,
)
from fastrank_eval.analysis.compared_value import (
    ComparedValue,
    compared_csv,
    compared_table,
    comparison_rows,
)
from fastrank_eval.analysis.group_join import GroupRecords
from fastrank_eval.engine.records import Meta
from fastrank_eval.results.lookup import find_measure, find_score, find_slicing, refuse_pooled
from fastrank_eval.results.notes import meta_with_notes

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console, ConsoleOptions, RenderResult

    from fastrank_eval.analysis.attribution import Decomposition
    from fastrank_eval.engine.records import MeasureValue, Meta
    from fastrank_eval.measures import Measure
    from fastrank_eval.results.gates import Gate, Verdict

__all__ = ["Comparison", "ReportedComparison"]


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
    def top_changes(self, top: int) -> dict[tuple[str, str], pa.Table]:
        """The groups that moved most, by candidate and measure."""

    @abstractmethod
    def _changed_slices(self, text: str, score: str | None, top: int) -> list[ComparedValue]:
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
            "comparisons": comparison_rows(self.values),
        }
        if self.joined is not None:
            found["joined"] = self.joined
        if self.decompositions:
            found["decompositions"] = list(decomposition_lines(self.decompositions))
        top_changes = self.top_changes(movers)
        if top_changes:
            found["movers"] = [
                {"score": score, "measure": text, **line}
                for (score, text), table in top_changes.items()
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
        return compared_csv(comparison_rows(self.values), safe)

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
        from fastrank_eval.analysis.comparison_view import markdown

        return markdown(self, self.top_changes(movers), movers)

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
        from fastrank_eval.analysis.comparison_view import Printed

        return Printed(self, self.top_changes(movers), movers)

    def __repr__(self) -> str:
        from fastrank_eval.analysis.comparison_view import plain

        return plain(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.with_movers(0)


class Comparison(ReportedComparison):
    """What :func:`fastrank_eval.compare` and :meth:`Result.compare` return.

    Parameters
    ----------
    values : sequence of ComparedValue
        One entry a candidate and measure, then one a slice, candidate and measure.
    meta : Meta
        What the values rest on.
    baseline : str
        The score column that the others are compared with.
    scores : sequence of str
        Those others, in the order asked for.
    measures : sequence of str
        Canonical texts of the measures, in the order asked for.
    asked : mapping of str to str, optional
        What measures were called that a profile gave other options.
    kept : GroupRecords, optional
        Values of every group, if they were kept.
    joined : mapping of str to int, optional
        Of two results: how many groups both have, only one has, and have other numbers of rows.
    evaluated : sequence of MeasureValue, optional
        What the baseline and the others came to, each by itself.

    Examples
    --------
    >>> line = ComparedValue("new", "old", "all", "RR", "mean", 0.5, 0.75, 0.25, 0.5)
    >>> found = Comparison([line], Meta("1.0", 5, 2, {}, 0.5), "old", ["new"], ["RR"])
    >>> found.line("RR").delta
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
    ) -> None:
        self.values = tuple(values)
        self.meta = meta
        self.baseline = baseline
        self.scores = tuple(scores)
        self.measures = tuple(measures)
        self.joined = None if joined is None else dict(joined)
        self._requested = dict(requested or {})
        self._kept = kept
        self.evaluated = tuple(evaluated)

    def __iter__(self) -> Iterator[ComparedValue]:
        """Iterate over the values, in the order of `summary`."""
        return iter(self.values)

    @property
    def summary(self) -> pa.Table:
        """One row a candidate, slice and measure.

        Returns
        -------
        pyarrow.Table
            The fields of `ComparedValue`, null where a number is undefined.
        """
        return compared_table(self.values)

    @property
    def per_group(self) -> pa.Table:
        """One row a group.

        Returns
        -------
        pyarrow.Table
            Key columns, ``rows``, ``positives`` and a float64 column ``score.measure`` for each
            value, null where undefined.

        Raises
        ------
        ArgumentError
            If values per group were not kept.
        """
        return self._groups().table()

    @typed
    def line(
        self,
        measure: str | Measure,
        score: str | None = None,
        slice: str = "all",  # noqa: A002 - the name of the field
    ) -> ComparedValue:
        """One measure of one candidate.

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
        return self._line(str(find_measure(measure, self.measures, self._requested)), score, slice)

    def _line(self, text: str, score: str | None, slice: str) -> ComparedValue:  # noqa: A002
        """Find a line by the canonical text of its measure."""
        name = find_score(score, self.scores, self.measures)
        for value in self.values:
            if (value.measure, value.score, value.slice) == (text, name, slice):
                return value
        known = dict.fromkeys(value.slice for value in self.values)
        raise ArgumentError(
            f"slice {slice!r} was not part of this comparison, which holds "
            f"{', '.join(map(repr, known))}."
        )

    @typed
    def check(self, *fail_if: str | Gate) -> Verdict:
        """Tell whether the comparison passes gates, conditions that must not hold.

        Parameters
        ----------
        *fail_if : str or Gate
            ``"GAUC delta_ci_low < -0.001"``, ``"new:LogLoss[slot=1] delta > 0"`` ...; see
            :func:`fastrank_eval.gate`. Fields of values (``se``, ``ci_low`` ...) are those of each
            model, the baseline included; those of comparisons are meant for each candidate.

        Returns
        -------
        Verdict
            True where it passes all of them; tells the reasons where not. A gate that cannot be
            told (a slice that is not there, no group, no error of the difference) is not passed.

        Raises
        ------
        ArgumentError
            If none is given, or one does not follow the grammar.
        """
        from fastrank_eval.results.gates import judge

        return judge(
            fail_if,
            [*self.evaluated, *self.values],
            rows=self.meta.rows,
            groups=self.meta.groups,
            baseline=self.baseline,
            requested=self._requested,
        )

    @typed
    def movers(self, measure: str | Measure, score: str | None = None, top: int = 10) -> pa.Table:
        """The groups that raised a measure most, then those that lowered it most.

        Parameters
        ----------
        measure : str or Measure
            Of groups: one of all rows together has no values of them.
        score : str, optional
            Score column of the candidate; may be left out if there is one.
        top : int
            At most so many of each.

        Returns
        -------
        pyarrow.Table
            Key columns, ``rows``, ``base`` and ``value`` (null where undefined) and
            ``contribution``, descending: what the group adds to the difference, its weight
            included. Of equal ones the order of the keys decides.

        Raises
        ------
        MeasureError
            If the measure was not part of the comparison, or pools all rows.
        ArgumentError
            If values per group were not kept, or the score column is unknown.
        """
        return self._movers(find_measure(measure, self.measures, self._requested), score, top)

    def _movers(self, known: Measure, score: str | None, top: int) -> pa.Table:
        refuse_pooled(known)
        top = at_least_one("top", top, 10)
        name = find_score(score, self.scores, self.measures)
        kept, delta = self._groups(), self._line(str(known), name, "all").delta
        base, model = kept.scores.index(self.baseline), kept.scores.index(name)
        return movers_table(kept, base, model, kept.measures.index(known), delta, top)

    @typed
    def slice_movers(
        self, measure: str | Measure, score: str | None = None, top: int = 10
    ) -> list[ComparedValue]:
        """The slices in which a measure rose most, then those in which it fell most.

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
            By `delta`, descending; of equal ones in their order in the summary.

        Raises
        ------
        MeasureError, ArgumentError
            As `line` does.
        """
        return self._changed_slices(
            str(find_measure(measure, self.measures, self._requested)), score, top
        )

    def _changed_slices(self, text: str, score: str | None, top: int) -> list[ComparedValue]:
        """Find what `slice_movers` does by the canonical text of a measure."""
        name = find_score(score, self.scores, self.measures)
        top = at_least_one("top", top, 10)
        mine = [v for v in self.values if (v.measure, v.score) == (text, name)]
        slices = [v for v in mine if v.slice != "all"]
        rose = sorted((v for v in slices if v.delta > 0), key=lambda v: -v.delta)[:top]
        fell = sorted((v for v in slices if v.delta < 0), key=lambda v: v.delta)[:top]
        return [*rose, *reversed(fell)]

    @typed
    def decomposition(
        self, measure: str | Measure, score: str | None = None, by: str | None = None
    ) -> Decomposition:
        """How the difference of a mean over groups comes of slices.

        It is the sum of change within slices, of change of the mix of slices, and of a remainder.
        Of models on the same rows the mix differs only where they cover other groups; it tells of
        two results of other rows, such as two nights. The remainder is what slices do not explain:
        pairs of rows in different slices where groups are cut, and slices left out.

        Parameters
        ----------
        measure : str or Measure
            A mean over groups.
        score : str, optional
            Score column of the candidate; may be left out if there is one.
        by : str, optional
            The slicing, as it was asked for; may be left out if there is one.

        Returns
        -------
        Decomposition

        Raises
        ------
        MeasureError
            If the measure was not part of the comparison, or is no mean over groups.
        ArgumentError
            If the rows were not sliced by that, or the score column is unknown.

        References
        ----------
        Kitagawa (1955), doi:10.1080/01621459.1955.10501299.
        """
        return self._decomposition(find_measure(measure, self.measures, self._requested), score, by)

    def _decomposition(self, known: Measure, score: str | None, by: str | None) -> Decomposition:
        refuse_without_mean(known)
        name = find_score(score, self.scores, self.measures)
        slicing = find_slicing(by, self.evaluated)
        return decomposed(self.evaluated, str(known), self.baseline, name, slicing)

    @cached_property
    def decompositions(self) -> dict[tuple[str, str, str], Decomposition]:
        """Those of every candidate, mean over groups and slicing, by these three."""
        from fastrank_eval.measures import measure

        means = [known for known in map(measure, self.measures) if is_mean(known)]
        return {
            (score, str(known), by): self._decomposition(known, score, by)
            for by in sliced_by(self.evaluated)
            for score in self.scores
            for known in means
        }

    def _groups(self) -> GroupRecords:
        if self._kept is None:
            raise ArgumentError(
                "values per group were not kept: compare() was called with per_group=False; call "
                "it with per_group=True (evaluate() with keep_groups=True for those of a state)."
            )
        return self._kept

    @typed
    def top_changes(self, top: int) -> dict[tuple[str, str], pa.Table]:
        """The movers of the first measure of groups by candidate and measure, where any moved."""
        from fastrank_eval.measures import measure

        first = next((m for m in map(measure, self.measures) if not m.pooled), None)
        if not top or first is None or self._kept is None:
            return {}
        found = {(score, str(first)): self._movers(first, score, top) for score in self.scores}
        return {named: table for named, table in found.items() if table.num_rows}
