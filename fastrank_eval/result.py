"""Result: what an evaluation found, by name and as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval.arguments import check_options
from fastrank_eval.errors import ArgumentError
from fastrank_eval.held_names import refuse_pooled
from fastrank_eval.measure_value import MeasureValue, summary_table
from fastrank_eval.meta import Meta
from fastrank_eval.named_values import NamedValues
from fastrank_eval.typed_arguments import typed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fastrank_eval.comparison.comparison import Comparison
    from fastrank_eval.curves import Curve
    from fastrank_eval.gates import Gate, Verdict
    from fastrank_eval.measures import Measure
    from fastrank_eval.saved_states import State
    from fastrank_eval.score_table import ScoreTable

__all__ = ["Result"]


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
        asked: Mapping[str, str] | None = None,
        score_tables: Mapping[tuple[str, float], ScoreTable] | None = None,
        weights: Mapping[tuple[int, int], NDArray[np.float64]] | None = None,
        state: State | None = None,
    ) -> None:
        self.values = tuple(values)
        self.meta = meta
        self.scores = tuple(scores)
        self.measures = tuple(measures)
        self._per_group = per_group
        self.asked = dict(asked or {})
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
        from fastrank_eval.gates import judge

        return judge(
            fail_if, self.values, rows=self.meta.rows, groups=self.meta.groups, asked=self.asked
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
        from fastrank_eval.comparison.comparing_results import compare_results

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
        from fastrank_eval.curves import curve_of

        return curve_of(self, kind, rel=rel, **choices)

    def __iter__(self) -> Iterator[MeasureValue]:
        """Iterate over the values, in the order of `summary`."""
        return iter(self.values)

    @cached_property
    def _of_groups(self) -> list[str]:
        """Measures that have a value per group."""
        from fastrank_eval.measures import measure

        return [text for text in self.measures if not measure(text).pooled]
