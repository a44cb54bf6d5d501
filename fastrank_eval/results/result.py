"""Read the result of an evaluation: its values and its state."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib.arguments import column_name, require_baseline, typed
from fastrank_eval._lib.arrow import floats_or_nan
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval.engine.group_table import LARGEST, GroupTable
from fastrank_eval.engine.records import (
    JSON_SCHEMAS,
    VALUE_SCHEMA,
    CalibrationTables,
    MeasureValue,
    Meta,
    add_counts,
    calibration_tables,
    record_table,
    refuse_if_none_left,
    score_tables,
)
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_arrays import BY_BUCKET, VALUES, StateArrays
from fastrank_eval.engine.state_file import (
    Content,
    check_agreement,
    check_content,
    check_crossing,
    check_repeated,
    merge_totals,
    merged_arrays,
    plan_of,
    read_state_bytes,
    state_bytes,
    without_key,
    wrap_errors,
)
from fastrank_eval.measures import measure as measure_of
from fastrank_eval.results.labels import Labelled, for_labels, labelled
from fastrank_eval.results.lookup import (
    find_calibration,
    find_slices,
    find_value,
    refuse_pooled,
    refuse_swapped,
)
from fastrank_eval.results.notes import plain_meta_with, report_notes
from fastrank_eval.results.report import Report
from fastrank_eval.results.views import report_of, slice_rows

if TYPE_CHECKING:
    from fastrank_eval.measures import Measure
    from fastrank_eval.results.compare import Paired
    from fastrank_eval.results.comparison import Comparison
    from fastrank_eval.results.curve_points import Curve
    from fastrank_eval.stats.score_runs import ScoreTable


class Result(Labelled):
    """The result of :func:`fastrank_eval.evaluate`.

    Parameters
    ----------
    values : sequence of MeasureValue
        One entry a score, slice and measure.
    per_group : pyarrow.Table, callable or None
        The table of groups: group key, ``rows``, ``positives`` and one float64 column a measure
        (``score.measure`` if there are several scores), null where undefined; or a function that
        collects `GroupTable`. None if they were not kept.
    meta : Meta
        Metadata of the evaluation.
    scores : sequence of str
        Score columns, in the order of the request.
    measures : sequence of str
        Canonical texts of the measures, in the order of the request.
    requested : mapping of str to str, optional
        By requested name the computed measure, where a profile set other options.
    score_tables : mapping of (str, float) to ScoreTable, optional
        The distinct scores of each model, for each threshold of relevance; None
        without ``keep="scores"``.
    state : State, optional
        The sums of the evaluation; None without ``keep="state"``.
    calibration : mapping of (str, str) to pyarrow.Table, optional
        The slices of multicalibration errors, by score column and measure.
    parts : mapping of str to Result, optional
        The results of several labels. `values`, `records` and reports have all labels,
        ``result["order"]`` is the part of one. `meta` has the conventions that all share, and the
        most rows and groups of a label. What is left asks for one label.
    paired : Paired, optional
        The errors of differences from the baseline of the evaluation.

    Attributes
    ----------
    labels : tuple of str
        The labels, if a list of them was evaluated.

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
    5 rows, 2 groups
    ties=expected
    """

    _schema = VALUE_SCHEMA
    _keep = "evaluate() with keep='values' (keep='groups' for those of a state)"
    values: tuple[MeasureValue, ...]

    def __init__(
        self,
        values: Sequence[MeasureValue],
        per_group: pa.Table | Callable[[], GroupTable] | None,
        meta: Meta,
        scores: Sequence[str],
        measures: Sequence[str],
        requested: Mapping[str, str] | None = None,
        score_tables: Mapping[tuple[str, float], ScoreTable] | None = None,
        state: State | None = None,
        calibration: CalibrationTables | None = None,
        parts: Mapping[str, Result] | None = None,
        paired: Paired | None = None,
    ) -> None:
        super().__init__(values, meta, scores, measures, requested, per_group, parts)
        self._score_tables = score_tables
        self._state = state
        self._paired = paired
        #: The slices of multicalibration errors, by score column and measure.
        self.calibration = calibration or {}

    @typed
    def multicalibration(
        self, measure: str | Measure | None = None, score: str | None = None
    ) -> pa.Table:
        """Return the calibration of each slice of MultiECCE, worst first.

        Parameters
        ----------
        measure : str or Measure, optional
            MultiECCE with its options; not needed if there is only one.
        score : str, optional
            Score column; not needed if there is only one.

        Returns
        -------
        pyarrow.Table
            slice (``"all"``, ``"country=DE"``, ``"country=DE,slot=1"``), rows, expected and
            observed (positives, weighted), error (ECCE), sigmas (ECCE over the standard deviation
            of observed less expected positives per row of a calibrated model),
            p_value, p_adjusted (Holm, over all slices). The most sigmas come first.
            Empty where the measure is undefined.

        Raises
        ------
        MeasureError
            If no measure of multicalibration was part of the evaluation, or not this one.
        ArgumentError
            If the score column was not part of it, or is left out where there are several.

        References
        ----------
        Guy et al. (2025), arXiv:2506.11251.
        """
        self._refuse_labels()
        texts = tuple(dict.fromkeys(text for _, text in self.calibration))
        text = find_calibration(measure, texts, self.names, self.requested)
        return self.calibration[self._find_score(score), text]

    def records(self) -> pa.Table:
        """Return all values: one row a score, slice and measure.

        Returns
        -------
        pyarrow.Table
            score, by (the slicing without its edges; null for all rows), slice, measure, name (the
            name that was asked for, such as MAP for AP), value (null if undefined), se, ci_low,
            ci_high, effective_groups, weight, warning, groups, groups_used, dropped (map of reason
            to count), rows_share, positives_share (null without rows or positives), aggregate
            ("mean", "geometric mean", "sum" or "pooled"), details (map of name to number). Of a
            list of labels, label comes first.
        """
        return record_table(self.values, self._columns)

    def document(self) -> dict[str, Any]:
        """Return the plain Python values that JSON has.

        Returns
        -------
        dict
            ``{"schema", "meta": {"version", "rows", "groups", "conventions", "seconds"},
            "results"}``: the rows of `records`; None for NaN. The meta has ``"requested"`` too
            where names of measures stand for other texts, and ``"notes"``, a list of sentences,
            where there are any. With a measure of multicalibration there is ``"worst_slices"`` too:
            score, measure and the columns of :meth:`multicalibration`, the ten worst slices of
            each. Of a list of labels, ``{"schema", "labels": {label: document}}``.
        """
        if self.labels:
            return self._document_for_labels()
        slices = slice_rows(self.calibration)
        return {
            "schema": JSON_SCHEMAS["evaluation"],
            "meta": plain_meta_with(report_notes(self.values, self.meta), self.meta),
            "results": self._rows(),
            **({"worst_slices": slices} if slices else {}),
        }

    @typed
    def report(self, *, wide: bool = False) -> Report:
        """Build the report that people read; see `View.report`."""
        if self.labels:
            return self._report_for_labels(wide=wide)
        return report_of(self.values, self.meta, self.scores, self.calibration, wide)

    @typed
    def value(
        self,
        measure: str | Measure,
        score: str | None = None,
        *,
        slice: str = "all",  # noqa: A002 - what it is called everywhere
    ) -> float:
        """Return the value of a measure over all rows, or over those of a slice.

        Parameters
        ----------
        measure : str or Measure
            By any alias: ``"nDCG@10"``, ``"ndcg_cut_10"`` or ``nDCG @ 10``.
        score : str, optional
            Score column; not needed if there is only one.
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
        return self._find_value(measure, score, slice).value

    @typed
    def interval(
        self,
        measure: str | Measure,
        score: str | None = None,
        *,
        slice: str = "all",  # noqa: A002 - what it is called everywhere
    ) -> tuple[float, float]:
        """Return the confidence interval of a measure.

        Clusters, by default groups, are independent. The interval is ``value -+ t * se`` with
        Student's t and Satterthwaite's degrees of freedom, see `MeasureValue`; for a geometric
        mean the exponentials of the interval of its logarithm.

        Parameters
        ----------
        measure : str or Measure
            By any alias.
        score : str, optional
            Score column; not needed if there is only one.
        slice : str, default "all"
            Label of a slice.

        Returns
        -------
        low, high : float
            NaN without a standard error. They are not cut off at the range of the measure.

        Raises
        ------
        MeasureError, ArgumentError
            As `value` does.

        References
        ----------
        Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919.
        """
        value = self._find_value(measure, score, slice)
        return value.ci_low, value.ci_high

    @typed
    def slices(self, by: str | None = None) -> tuple[str, ...]:
        """List the labels of the slices, in the order of their values, nulls last.

        Parameters
        ----------
        by : str, optional
            Only this slicing, such as ``"slot,country"``.

        Returns
        -------
        tuple of str
            Without slices that `min_groups` left out.

        Raises
        ------
        ArgumentError
            If the rows were not sliced by `by`.
        """
        return find_slices(by, self.values)

    def _find_value(self, measure: str | Measure, score: str | None, label: str) -> MeasureValue:
        return self._value_of(str(self._find_measure(measure)), score, label)

    def _value_of(self, text: str, score: str | None, label: str | None = None) -> MeasureValue:
        """Find a value by the canonical text of its measure."""
        min_groups = self.meta.conventions.get("min_groups")
        return find_value(text, self._find_score(score), label or "all", self.values, min_groups)

    @typed
    def rela_impr(
        self,
        measure: str | Measure,
        score: str,
        base: str | Result,
        base_score: str | None = None,
    ) -> float:
        """Compute the relative improvement of AUC or GAUC over a base model.

        ``(value - 0.5) / (base - 0.5) - 1``: both values are taken relative to chance, 0.5.

        Parameters
        ----------
        measure : str or Measure
            AUC or GAUC, with any options but `max_fpr`.
        score : str
            Score column of the model.
        base : str or Result
            Score column of the base model; or the result that holds it.
        base_score : str, optional
            Its score column in that result; not needed if there is only one.

        Returns
        -------
        float
            A share: 0.05 is five per cent. NaN if a value is undefined or the base model is no
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
        from fastrank_eval.results.differences import refuse_without_chance, rela_impr

        parsed = self._find_measure(measure)
        refuse_without_chance(parsed)
        text, other = str(parsed), self if isinstance(base, str) else base
        base_name = base if isinstance(base, str) else base_score
        return rela_impr(self._value_of(text, score).value, other._value_of(text, base_name).value)

    @property
    def state(self) -> State:
        """The state of the evaluation, which can be saved and merged.

        Returns
        -------
        State

        Raises
        ------
        ArgumentError
            If the evaluation did not keep it.
        """
        self._refuse_labels()
        if self._state is None:
            raise ArgumentError("the state was not kept: call evaluate() with keep='state'.")
        return self._state

    @typed
    def compare(
        self, other: Result | None = None, *, baseline: str | None = None, **choices: Any
    ) -> Comparison:
        """Compare models with a baseline.

        Parameters
        ----------
        other : Result, optional
            A result whose models are compared with the baseline. Groups are joined by key. By
            default the other models of this result. Both have the same conventions, `cluster` too.
            If the result has other rows, such as those of another night, the groups of both are
            paired, and groups of one result count as in an unpaired comparison.
        baseline : str, optional
            Score column of this result. By default the baseline of the evaluation, or the only
            model if `other` is given. The sums of an evaluation pair its baseline with the other
            models; all else is compared by the values of every group.
        **choices
            `test`, `correction`, `replicates`, `seed`, `confidence` (by default that of this
            result) and `threads`, as :func:`fastrank_eval.compare` takes them.

        Returns
        -------
        Comparison
            With the bits of :func:`fastrank_eval.compare`; of a list of labels, with a part of
            each. Without the sums of pairs, slices have differences and decompositions, but no
            errors, because a result has no values of groups by slice; nor have measures of all
            rows.

        Raises
        ------
        ArgumentError
            If values per group were not kept, or the conventions of the results differ.
        """
        from fastrank_eval.results.compare import compare_results
        from fastrank_eval.results.comparison import Comparison

        if not self.labels:
            return compare_results(self, self._paired, other, baseline, choices)
        parts = {
            label: part.compare(
                None if other is None else other.part(label), baseline=baseline, **choices
            )
            for label, part in self._parts.items()
        }
        base, evaluated = next(iter(parts.values())).baseline, labelled(parts, "evaluated")
        return for_labels(Comparison, self.labels, parts, baseline=base, evaluated=evaluated)

    def __getitem__(self, key: Any) -> Any:
        """Return values per group, or the part of one of several labels.

        ``result["model_a", "nDCG@10"]``, ``result["order"]``.

        Parameters
        ----------
        key : str, Measure or tuple of (str, str or Measure)
            A measure, or a score column and a measure. ``result["nDCG@10"]`` if there is one model.
            Of a list of labels, a label.

        Returns
        -------
        numpy.ndarray or Result
            float64, one entry a group in the order of `per_group`, NaN where undefined.

        Raises
        ------
        MeasureError
            If the measure was not part of the evaluation, or pools all rows (AUC).
        ArgumentError
            If the score column is unknown, or left out where there are several, or not the first
            in `key`, or if the evaluation did not keep the values of groups; or if it has no such
            label.
        """
        if self.labels:
            return self.part(key)
        score, name = key if isinstance(key, tuple) else (None, key)
        refuse_swapped(score, name, self.scores)
        measure = self._find_measure(name)
        score = self._find_score(score)
        refuse_pooled(measure)
        # By position, because a key column may have the name of a measure. Measures come last.
        texts = [text for text in self.measures if not measure_of(text).pooled]
        before_last = (len(self.scores) - self.scores.index(score)) * len(texts)
        column = self.per_group.column(
            self.per_group.num_columns - before_last + texts.index(str(measure))
        )
        return floats_or_nan(column)

    @typed
    def score_table(self, score: str, rel: float = 1) -> ScoreTable:
        """Return every distinct score of a model with its positive and other rows.

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
        self._refuse_labels()
        if self._score_tables is None:
            raise ArgumentError("the scores were not kept: call evaluate() with keep='scores'.")
        table = self._score_tables.get((self._find_score(score), float(rel)))
        if table is None:
            auc = "AUC" if rel == 1 else f"AUC(rel={rel!r})"
            raise ArgumentError(
                f"no scores were kept for rel={rel!r}: name {auc} among the measures."
            )
        return table

    @typed
    def curve(self, kind: str, *, rel: float = 1, **choices: Any) -> Curve:
        """Compute a curve over all rows; needs ``evaluate(keep="scores")``.

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
        from fastrank_eval.results.curve_points import SCORE_KINDS, curve_of, read_choices

        if kind not in SCORE_KINDS:
            raise ArgumentError(
                f"kind: must be one of {', '.join(map(repr, SCORE_KINDS))} for a result, got "
                f"{kind!r}; for other kinds call fastrank_eval.curve()."
            )
        if kind == "calibration":
            choices.setdefault("sampling_rate", self.meta.conventions["sampling_rate"])
        return curve_of(self, kind, rel, read_choices(kind, choices))


class State(Content):
    """The data from which values are computed: exact sums, scores, counts.

    States of different rows merge to that of all rows. If no group and no cluster has rows in two
    of them, the result is that of one run over all rows, to the last bit.

    ``evaluate(..., keep="state").state`` and :func:`load_state` return states.

    Parameters
    ----------
    header : mapping
        The metadata of a file, as docs/reference/states.md describes them.
    arrays : mapping
        Those of `Totals`, and of keys and values of groups, if they are kept.
    shown : str, optional
        The name of the state in messages; by default its number of rows.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> def day(clicks, scores):
    ...     log = {"user": [1, 1, 2, 2], "click": clicks, "pctr": scores}
    ...     return fe.evaluate(log, group="user", label="click", score="pctr", measures="GAUC,AUC",
    ...                        keep="state").state
    >>> monday, tuesday = day([0, 1, 1, 0], [0.1, 0.4, 0.2, 0.3]), day([1, 0, 1, 0], [0.5] * 4)
    >>> both = monday.merge(tuesday)
    >>> both.rows, both.result().value("GAUC")
    (8, 0.5)
    """

    @typed
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the state to a file, which docs/reference/states.md describes.

        An error or a signal leaves no unfinished file.

        Parameters
        ----------
        path : str or path
        overwrite : bool
            Replace a file that exists.

        Raises
        ------
        OutputError
            If the file exists already, or cannot be written.
        """
        with atomic_path(path, overwrite=overwrite) as part:
            part.write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Write the content of a state file to bytes, as `save` does."""
        return state_bytes(self.header, self.arrays)

    @classmethod
    @typed
    def from_bytes(cls, content: bytes, *, name: str = "a state in bytes") -> State:
        """Read the bytes of `to_bytes`.

        Parameters
        ----------
        content : bytes-like
        name : str
            The name of the state in messages.

        Returns
        -------
        State

        Raises
        ------
        SourceError
            If the content is not a saved state, is damaged, or has a newer format.

        Examples
        --------
        >>> import fastrank_eval as fe
        >>> state = fe.evaluate(
        ...     {"user": [1, 1], "click": [1, 0], "score": [0.9, 0.1]},
        ...     group="user", label="click", score="score", measures="GAUC", keep="state",
        ... ).state
        >>> fe.State.from_bytes(state.to_bytes()).result().value("GAUC")
        1.0
        """
        return checked_state(*read_state_bytes(bytes(content), name), name)

    @typed
    def merge(
        self, *others: State, allow_repeated: bool = False, allow_crossing: bool = False
    ) -> State:
        """Merge states of different rows into a new state.

        Parameters
        ----------
        *others : State
            In any order. No bit depends on it.
        allow_repeated : bool
            Merge states with equal sums, which may have the same rows.
        allow_crossing : bool
            Merge states that share a group or a cluster; each part counts as one of its own. Only
            states that keep groups are checked.

        Returns
        -------
        State

        Raises
        ------
        MergeError
            If columns, conventions, their version, measures, models or edges of slices differ, if
            two states have the same rows, or if both keep groups and share one, or a cluster.
        """
        for other in others:
            check_agreement(self, other)
        every = [self, *others]
        if not allow_repeated:
            check_repeated(every)
        if not allow_crossing:
            check_crossing(every)
        whole = self.has_groups and not allow_crossing
        totals, entries = merge_totals(every, plan_of(every), whole=whole)
        return State(merged_header(every, entries), merged_arrays(every, totals))

    @typed
    def check_mergeable(self, other: State) -> None:
        """Refuse a state that cannot be merged with this one.

        Parameters
        ----------
        other : State

        Raises
        ------
        MergeError
            With the first difference and both values.
        """
        check_agreement(self, other)

    def without_groups(self) -> State:
        """Remove the keys and values of groups."""
        states = {key: parts for key, parts in self.arrays.items() if key[2] != VALUES}
        header = without_key({**self.header, "has_groups": False})
        return State(header, states, self.display_name)

    @typed
    def without_slices(self, *by: str) -> State:
        """Remove some slicings, or all of them.

        Parameters
        ----------
        *by : str
            Of `slicings`; by default all of them.

        Returns
        -------
        State

        Raises
        ------
        ArgumentError
            If the state has no such slicing.
        """
        slicings = self.header["slicings"]
        for name in by:
            if name not in slicings:
                raise ArgumentError(
                    f"{self.display_name} has no slices by {name!r}, only by "
                    f"{', '.join(map(repr, slicings)) or 'nothing'}."
                )
        rest = {name: edges for name, edges in slicings.items() if by and name not in by}
        removed = set(slicings) - set(rest)
        states = {key: parts for key, parts in self.arrays.items() if key[0].by not in removed}
        conventions = dict(self.header["conventions"])
        conventions.pop("by", None)
        if rest:
            conventions["by"] = list(rest)
        header = {**self.header, "slicings": rest, "conventions": conventions}
        return State(header, states, self.display_name)

    @typed
    def result(self, *, confidence: float | None = None, min_groups: int | None = None) -> Result:
        """Compute the result that one evaluation of all rows returns.

        It has values per group only if the state keeps groups, in the order of their keys.

        Parameters
        ----------
        confidence : float, optional
            Confidence of the intervals, in ]0, 1[; by default that of the evaluation.
        min_groups : int, optional
            Leave out slices with fewer groups; by default as in the evaluation.

        Returns
        -------
        Result

        Raises
        ------
        ArgumentError
            If merged states have different values of an argument that is not given.
        """
        evaluation = self.evaluation(confidence=confidence, min_groups=min_groups)
        refuse_if_none_left(self.header, evaluation.meta.rows)
        return result_of(evaluation, state=self)

    @typed
    def compare(
        self,
        other: State | None = None,
        *,
        baseline: str | None = None,
        min_groups: int | None = None,
        **choices: Any,
    ) -> Comparison:
        """Compare models with a baseline, as one comparison of all rows does.

        The rows have the bits of :func:`fastrank_eval.compare`, slices included, if no group and no
        cluster has rows in two of the merged states. ``AUC(se='clustered')`` has a difference
        without an error if a merged file has no ``matched`` groups (docs/reference/states.md).

        Parameters
        ----------
        other : State, optional
            A state whose models are compared with the baseline. Groups are joined by key, as in
            `Result.compare`; both states must keep groups. By default the other models of this
            state.
        baseline : str, optional
            Score column of this state. By default the baseline of the evaluation, or the only
            model if `other` is given. Another baseline needs a state that keeps groups; slices
            have no errors then.
        min_groups : int, optional
            As for `result`.
        **choices
            `test`, `correction`, `replicates`, `seed` and `threads`, as
            :func:`fastrank_eval.compare` takes them; `confidence`, by default that of the
            evaluation. Tests of values of groups need a state that keeps groups.

        Returns
        -------
        Comparison

        Raises
        ------
        ArgumentError
            If the state has no baseline, or lacks the values of groups that a test needs.

        Examples
        --------
        >>> import fastrank_eval as fe
        >>> log = {"user": [1, 1, 2, 2, 3, 3], "click": [0, 1, 1, 0, 1, 0],
        ...        "old": [0.1, 0.4, 0.2, 0.3, 0.5, 0.6], "new": [0.1, 0.4, 0.4, 0.3, 0.5, 0.6]}
        >>> state = fe.evaluate(log, group="user", label="click", score=["old", "new"],
        ...                     measures="GAUC", baseline="old", keep="state").state
        >>> round(state.compare().find("GAUC").delta, 4)
        0.3333
        """
        from fastrank_eval.results.compare_tests import given_choices, require_groups

        given_choices(choices, State)
        base = self.baseline if baseline is None else column_name("baseline", baseline)
        if baseline is not None:
            require_baseline(str(base), self.scores)
        if other is not None or base is None or base != self.baseline:
            for each in (self,) if other is None else (self, other):
                groups = each.values_of_groups()
                require_groups(groups, each.display_name, each.baseline, alone=other is None)
        result = self.result(confidence=choices.get("confidence"), min_groups=min_groups)
        theirs = None
        if other is not None:
            theirs = other.result(confidence=result.meta.confidence, min_groups=min_groups)
        return result.compare(theirs, baseline=base, **choices)


def result_of(
    evaluation: Evaluation, keep_scores: bool = False, state: State | None = None
) -> Result:
    """Build the result of a run."""
    if state is None:  # the rows of a state may be a part of all
        refuse_if_none_left(evaluation.meta.conventions, evaluation.meta.rows)
    plan, paired = evaluation.plan, None
    if plan.baseline is not None:
        from fastrank_eval.results.compare import Paired

        paired = Paired(plan, evaluation.totals)
    groups = partial(GroupTable.of_run, plan, evaluation.groups, evaluation.schema)
    return Result(
        evaluation.summary,
        groups if plan.per_group else None,
        evaluation.meta,
        plan.roles.scores,
        [str(m) for m in plan.measures],
        evaluation.meta.requested,
        score_tables(plan, evaluation.totals) if keep_scores else None,
        state,
        calibration_tables(plan, evaluation.totals) if plan.measured_fields else {},
        paired=paired,
    )


def merged_header(every: Sequence[State], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the headers of states, with the entries of `merge_totals`."""
    options = {name: {one.header[name] for one in every} for name in ("confidence", "min_groups")}
    header = {
        **{k: entry for k, entry in every[0].header.items() if k not in (LARGEST, BY_BUCKET)},
        **entries,
        **{name: one.pop() if len(one) == 1 else None for name, one in options.items()},
        "provenance": [entry for one in every for entry in one.header["provenance"]],
    }
    return header | add_counts(one.header for one in every)


def checked_state(header: dict[str, Any], states: StateArrays, source: str) -> State:
    """Build the state, if all its arrays exist and can be read."""
    with wrap_errors(repr(source)):
        state = State(header, states, repr(source))
        check_content(state)
    return state
