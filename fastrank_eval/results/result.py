"""The result of an evaluation: values by measure, model and slice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import check_indent, check_options, typed
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.analysis.attribution import refuse_without_chance, rela_impr
from fastrank_eval.engine.records import (
    MeasureValue,
    Meta,
    summary_csv,
    summary_rows,
    summary_table,
)
from fastrank_eval.results.lookup import (
    find_measure,
    find_score,
    find_slices,
    find_value,
    refuse_pooled,
)
from fastrank_eval.results.notes import meta_with_notes

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console, ConsoleOptions, RenderResult

    from fastrank_eval.analysis.comparison import Comparison
    from fastrank_eval.analysis.curve import Curve
    from fastrank_eval.engine.records import MeasureValue, Meta
    from fastrank_eval.measures import Measure
    from fastrank_eval.results.gates import Gate, Verdict
    from fastrank_eval.results.state import State
    from fastrank_eval.stats.score_table import ScoreTable

__all__ = ["NamedValues", "Reported", "Result"]


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
            "results": summary_rows(self.values),
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
        return json.dumps(self.to_dict(), indent=check_indent(indent), allow_nan=False)

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
        from fastrank_eval.results.result_view import markdown

        return markdown(self)

    def __repr__(self) -> str:
        from fastrank_eval.results.result_view import plain

        return plain(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from fastrank_eval.results.result_view import terminal

        yield from terminal(self, options.max_width)


class NamedValues(Reported):
    """The values that `Result` tells by name."""

    measures: tuple[str, ...]
    requested: dict[str, str]

    @typed
    def value(
        self,
        measure: str | Measure,
        score: str | None = None,
        *,
        slice: str = "all",  # noqa: A002 - what it is called everywhere
    ) -> float:
        """Value of a measure over all groups, or over those of a slice.

        Parameters
        ----------
        measure : str or Measure
            In any accepted spelling: ``"nDCG@10"``, ``"ndcg_cut_10"`` or ``nDCG @ 10``.
        score : str, optional
            Score column; may be left out if there is one.
        slice : str, default "all"
            Label of a slice, ``"slot=1"``; `slices` lists them.

        Returns
        -------
        float
            The value; NaN where undefined.

        Raises
        ------
        MeasureError
            If the measure was not part of the evaluation.
        ArgumentError
            If the score column or the slice was not part of it, or the score column is left out
            where there are several.
        """
        return self._line(measure, score, slice).value

    @typed
    def interval(
        self,
        measure: str | Measure,
        score: str | None = None,
        *,
        slice: str = "all",  # noqa: A002 - what it is called everywhere
    ) -> tuple[float, float]:
        """Confidence interval of a measure over all groups, groups being independent clusters.

        ``value -+ t * se`` with Student's t of one degree of freedom less than groups; of a
        geometric mean the exponentials of the interval of its logarithm.

        Parameters
        ----------
        measure : str or Measure
            In any accepted spelling.
        score : str, optional
            Score column; may be left out if there is one.
        slice : str, default "all"
            Label of a slice.

        Returns
        -------
        low, high : float
            NaN where no standard error is known. They are not cut off at the range of the measure.

        Raises
        ------
        MeasureError, ArgumentError
            As `value` does.

        References
        ----------
        Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
        """
        line = self._line(measure, score, slice)
        return line.ci_low, line.ci_high

    @typed
    def slices(self, by: str | None = None) -> tuple[str, ...]:
        """Labels of the slices, in their order: by value, nulls last.

        Parameters
        ----------
        by : str, optional
            Of this slicing only, ``"slot,country"``.

        Returns
        -------
        tuple of str
            Without slices that `min_groups` left out.

        Raises
        ------
        ArgumentError
            If the rows were not sliced by that.
        """
        return find_slices(by, self.values)

    def _line(self, measure: str | Measure, score: str | None, part: str) -> MeasureValue:
        return self._line_of(str(self._known(measure)), score, part)

    def _line_of(self, text: str, score: str | None, part: str | None = None) -> MeasureValue:
        """Find a line by the canonical text of its measure."""
        least = self.meta.conventions.get("min_groups")
        return find_value(text, self._score(score), part or "all", self.values, least)

    @typed
    def rela_impr(
        self,
        measure: str | Measure,
        score: str,
        base: str | Result,
        base_score: str | None = None,
    ) -> float:
        """Relative improvement of one model's AUC or GAUC over another's, chance taken off both.

        ``(value - 0.5) / (base - 0.5) - 1``

        Parameters
        ----------
        measure : str or Measure
            AUC or GAUC, with any options but `max_fpr`.
        score : str
            Score column of the model.
        base : str or Result
            Score column of the base model; or the result that holds it.
        base_score : str, optional
            Its score column in that result; may be left out if there is one.

        Returns
        -------
        float
            A share: 0.05 is five per cent. NaN where a value is undefined or the base model is no
            better than chance.

        Raises
        ------
        MeasureError
            If the measure is another one, or was not part of the evaluation.
        ArgumentError
            If a score column was not part of it.

        References
        ----------
        Zhou et al. (2018), doi:10.1145/3219819.3219823.
        """
        known = self._known(measure)
        refuse_without_chance(known)
        text, other = str(known), self if isinstance(base, str) else base
        base_name = base if isinstance(base, str) else base_score
        return rela_impr(self._line_of(text, score).value, other._line_of(text, base_name).value)

    def _known(self, wanted: str | Measure) -> Measure:
        return find_measure(wanted, self.measures, self.requested)

    def _score(self, wanted: str | None) -> str:
        return find_score(wanted, self.scores, self.measures)


class Result(NamedValues):
    """What :func:`fastrank_eval.evaluate` returns.

    Parameters
    ----------
    values : sequence of MeasureValue
        One entry a score, slice and measure.
    per_group : pyarrow.Table or None
        Group key, ``rows``, ``positives`` and one float64 column a measure (``score.measure`` if
        there are several scores), null where undefined; None if it was not asked for.
    meta : Meta
        What the values rest on.
    scores : sequence of str
        Score columns, in the order asked for.
    measures : sequence of str
        Canonical texts of the measures, in the order asked for.
    asked : mapping of str to str, optional
        What measures were called that a profile gave other options.
    score_tables : mapping of (str, float) to ScoreTable, optional
        The distinct scores of each model, for each threshold of relevance; None if they were not
        asked for.
    weights : mapping of (int, int) to ndarray of float64, optional
        What each group counts for under a model and a measure, by their places, where that is not
        1; None if groups are not to be compared.
    state : State, optional
        What the values were computed from; None if it was not asked for.

    Examples
    --------
    >>> value = MeasureValue("pctr", "all", "P@1", 0.5, 2, 2, {}, 1.0, 1.0)
    >>> table = pa.table({"user": [7, 8], "rows": [3, 2], "positives": [1, 1], "P@1": [1.0, 0.0]})
    >>> result = Result([value], table, Meta("1.0", 5, 2, {"ties": "expected"}, 0.5), ["pctr"],
    ...                 ["P@1"])
    >>> result.value("P@1")
    0.5
    >>> result["P@1"]
    array([1., 0.])
    >>> result
    score  measure     value  groups used  dropped  rows  positives
    pctr   P@1      0.500000          2/2     none  100%       100%
    5 rows, 2 groups, 0.5 s, 10 rows/s
    ties=expected
    """

    def __init__(
        self,
        values: Sequence[MeasureValue],
        per_group: pa.Table | None,
        meta: Meta,
        scores: Sequence[str],
        measures: Sequence[str],
        requested: Mapping[str, str] | None = None,
        score_tables: Mapping[tuple[str, float], ScoreTable] | None = None,
        weights: Mapping[tuple[int, int], NDArray[np.float64]] | None = None,
        state: State | None = None,
    ) -> None:
        self.values = tuple(values)
        self.meta = meta
        self.scores = tuple(scores)
        self.measures = tuple(measures)
        self._per_group = per_group
        self.requested = dict(requested or {})
        self._score_tables = score_tables
        self.group_weights = weights
        self._state = state

    @property
    def summary(self) -> pa.Table:
        """One row a score, slice and measure.

        Returns
        -------
        pyarrow.Table
            score, by (the slicing without its edges; null where nothing was sliced), slice,
            measure, value (null if undefined), se, ci_low, ci_high, effective_groups, weight,
            caution, groups, groups_used, dropped (map of reason to count), rows_share,
            positives_share (null without rows or positives), aggregate ("mean", "geometric mean",
            "sum" or "pooled"), details (map of what else is known to its number).
        """
        return summary_table(self.values)

    @property
    def per_group(self) -> pa.Table:
        """One row a group, in the order groups were met.

        Returns
        -------
        pyarrow.Table
            Key columns, ``rows``, ``positives`` and a float64 column a measure, null where
            undefined; with several scores the columns are called ``score.measure``.

        Raises
        ------
        ArgumentError
            If the evaluation was run with ``per_group=False``.
        """
        if self._per_group is None:
            raise ArgumentError(
                "values per group were not kept: evaluate() was called with per_group=False; "
                "call it with per_group=True (and keep_groups=True for those of a state)."
            )
        return self._per_group

    @property
    def state(self) -> State:
        """What the values were computed from, to be saved and merged with that of other rows.

        Returns
        -------
        State

        Raises
        ------
        ArgumentError
            If the evaluation was run with ``keep_state=False``.
        """
        if self._state is None:
            raise ArgumentError(
                "the state was not kept: evaluate() was called with keep_state=False; call it with "
                "keep_state=True."
            )
        return self._state

    @typed
    def check(self, *fail_if: str | Gate) -> Verdict:
        """Tell whether the result passes gates, conditions that must not hold.

        Parameters
        ----------
        *fail_if : str or Gate
            ``"GAUC < 0.6"``, ``"GAUC[*] ci_low < 0.55"`` ...; see :func:`fastrank_eval.gate`.

        Returns
        -------
        Verdict
            True where it passes all of them; tells the reasons where not. A gate that cannot be
            told (a slice or measure that the result has not got, no group, NaN) is not passed.

        Raises
        ------
        ArgumentError
            If none is given, or one does not follow the grammar.
        """
        from fastrank_eval.results.gates import judge

        return judge(
            fail_if,
            self.values,
            rows=self.meta.rows,
            groups=self.meta.groups,
            requested=self.requested,
        )

    @typed
    def compare(
        self, other: Result | None = None, *, baseline: str | None = None, **choices: Any
    ) -> Comparison:
        """Tell which models are better than a baseline, from the values of every group.

        Parameters
        ----------
        other : Result, optional
            A result whose models are compared with the baseline, joined by the keys of the groups;
            by default the other models of this result. Where it is of other rows, such as another
            night, groups that both have are still the same users: they are paired, and groups of
            one result count as in an unpaired comparison.
        baseline : str, optional
            Score column of this result; may be left out if there is one, and `other` is given.
        **choices
            `test`, `correction`, `replicates`, `seed`, `confidence` (by default that of this
            result) and `threads`, as :func:`fastrank_eval.compare` takes them.

        Returns
        -------
        Comparison
            The bits of :func:`fastrank_eval.compare`; slices have differences and decompositions,
            but no errors, because a result does not hold groups by slice.

        Raises
        ------
        ArgumentError
            If values per group were not kept, or the two results are of different conventions.
        """
        from fastrank_eval.analysis.compare import compare_results

        check_options("compare", choices, compare_results)
        return compare_results(self, other, baseline, **choices)

    def __getitem__(self, key: str | Measure | tuple[str, str | Measure]) -> NDArray[np.float64]:
        """Values per group: ``result["nDCG@10"]`` or ``result["model_a", "nDCG@10"]``.

        Parameters
        ----------
        key : str, Measure or tuple of (str, str or Measure)
            A measure, or a score column and a measure.

        Returns
        -------
        numpy.ndarray
            float64, one entry a group in the order of `per_group`, NaN where undefined.

        Raises
        ------
        MeasureError
            If the measure was not part of the evaluation, or pools all rows (AUC).
        ArgumentError
            If the score column is unknown, or left out where there are several, or if the
            evaluation was run with ``per_group=False``.
        """
        score, wanted = key if isinstance(key, tuple) else (None, key)
        known = self._known(wanted)
        score = self._score(score)
        refuse_pooled(known)
        # By place, because a key column may carry the name of a measure: measures stand last.
        texts = self._of_groups
        before_last = (len(self.scores) - self.scores.index(score)) * len(texts)
        column = self.per_group.column(
            self.per_group.num_columns - before_last + texts.index(str(known))
        )
        return np.asarray(column.to_numpy(), dtype=np.float64)

    @typed
    def score_table(self, score: str, rel: float = 1) -> ScoreTable:
        """Every distinct score of a model with its positives and its others.

        Parameters
        ----------
        score : str
            Score column.
        rel : float
            The least grade that is positive.

        Returns
        -------
        ScoreTable

        Raises
        ------
        ArgumentError
            If the evaluation did not keep it.
        """
        if self._score_tables is None:
            raise ArgumentError(
                "the scores were not kept: evaluate() was called with keep_scores=False; call it "
                "with keep_scores=True."
            )
        table = self._score_tables.get((self._score(score), float(rel)))
        if table is None:
            wanted = "AUC" if rel == 1 else f"AUC(rel={rel!r})"
            raise ArgumentError(
                f"no scores were kept for rel={rel!r}: name {wanted} among the measures."
            )
        return table

    @typed
    def curve(self, kind: str, *, rel: float = 1, **choices: Any) -> Curve:
        """A curve over all rows, from the scores that ``evaluate(keep_scores=True)`` kept.

        Parameters
        ----------
        kind : {"roc", "pr", "det", "lift", "calibration"}
        rel : float
            The least grade that is positive.
        **choices
            `points`, `bins`, `binning`, `confidence`, `sampling_rate`, as in
            :func:`fastrank_eval.curve`.

        Returns
        -------
        Curve

        Raises
        ------
        ArgumentError
            If the scores were not kept, or a choice is unknown.
        """
        from fastrank_eval.analysis.curve import curve_of

        return curve_of(self, kind, rel=rel, **choices)

    def __iter__(self) -> Iterator[MeasureValue]:
        """Iterate over the values, in the order of `summary`."""
        return iter(self.values)

    @cached_property
    def _of_groups(self) -> list[str]:
        """Measures that have a value per group."""
        from fastrank_eval.measures import measure

        return [text for text in self.measures if not measure(text).pooled]
