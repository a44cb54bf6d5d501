"""Evaluate models of several classes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arguments import checked, column_name, one_of, typed
from fastrank_eval._lib.arrow import arrow_column, column_with_nulls
from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval._lib.jit import compilations
from fastrank_eval._lib.kernel_store import where_stored
from fastrank_eval._lib.threads import map_jobs, processors, reporting_to
from fastrank_eval.analysis.multiclass_totals import (
    OVER_PAIRS,
    ROW_WEIGHT,
    ClassPlan,
    ClassRoles,
    ClassTotals,
    computed_scores,
    over_pairs,
)
from fastrank_eval.engine.options import Options, check_names
from fastrank_eval.engine.plan import batch_rows_of, undefined_policies, undefined_text
from fastrank_eval.engine.records import MeasureValue, Meta, plain_value
from fastrank_eval.io.computed import with_computed
from fastrank_eval.io.reader import (
    RowReader,
    WorkBatch,
    in_scratch,
    open_source,
    read_batch,
)
from fastrank_eval.io.source import closing_readers, refuse_text, require_columns
from fastrank_eval.measures import GAUC, Measure, parse_measures
from fastrank_eval.measures.auc import PooledAUC
from fastrank_eval.measures.base import GROUP_WEIGHTS, SCORE_KINDS, registry
from fastrank_eval.measures.likelihood import LogarithmicLoss
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.results.report import Lines, Report, Table, number_text, printable
from fastrank_eval.results.result import Result

if TYPE_CHECKING:
    from typing import Unpack

    from numpy.typing import NDArray

    from fastrank_eval.engine.option_types import ClassOptions


class ClassResult(Result):
    """The result of :func:`fastrank_eval.evaluate_classes`.

    The `slice` of a value is its average, or ``"all"`` for a value of all classes at once. Its
    groups are classes, pairs of classes (``ovo``, ``mu``), or rows (``samples``).

    Parameters
    ----------
    values : sequence of MeasureValue
    per_class : pyarrow.Table
    confusion : ndarray or None
    meta : Meta
    name : str
        Name of the model in `values`.
    measures : sequence of str
    classes : sequence of str

    Attributes
    ----------
    classes : tuple of str
        Classes as text, in the order of the arguments.

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
        """A table of one row for each class.

        Returns
        -------
        pyarrow.Table
            ``class``, ``rows`` (all rows), ``positives`` (rows of the class) and a float64 column
            for each measure of the class against the others, null where undefined.
        """
        return self.per_group

    @property
    def confusion(self) -> NDArray[Any]:
        """The confusion matrix: rows of class i with prediction j.

        Returns
        -------
        numpy.ndarray
            int64, or float64 sums of weights, shape (classes, classes).

        Raises
        ------
        ArgumentError
            If rows may have several classes, or predictions are made by thresholds.
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
        """Get the value of a measure.

        Parameters
        ----------
        measure : str or Measure
        score : str, optional
            The name of the model.
        average : str, optional
            The average, or ``"all"``; may be left out if there is one.

        Returns
        -------
        float
            NaN where undefined.

        Raises
        ------
        MeasureError
            If the measure was not part of the evaluation.
        ArgumentError
            If the average was not part of it, or is left out if there are several.
        """
        return self._value_of(str(self._find_measure(measure)), score, average).value

    @typed
    def interval(  # type: ignore[override]  # averages take the place of slices
        self, measure: str | Measure, score: str | None = None, average: str | None = None
    ) -> tuple[float, float]:
        """Get the confidence interval of an average over samples.

        Rows are taken as independent.

        Parameters
        ----------
        measure, score, average
            As in `value`.

        Returns
        -------
        low, high : float
            NaN for other averages, because classes are not a sample.

        Raises
        ------
        MeasureError, ArgumentError
            As `value` does.
        """
        value = self._value_of(str(self._find_measure(measure)), score, average)
        return value.ci_low, value.ci_high

    def _value_of(self, text: str, score: str | None, part: str | None = None) -> MeasureValue:
        average = part
        score = self._find_score(score)
        values = {v.slice: v for v in self.values if (v.measure, v.score) == (text, score)}
        if average is None and len(values) == 1:
            return next(iter(values.values()))
        if average not in values:
            averages = (
                ", ".join(map(repr, values)) or "none: result[...] has the values of the classes"
            )
            remedy = "name one" if average is None else f"not {average!r}"
            raise ArgumentError(f"averages of {text} in this result: {averages}; {remedy}.")
        return values[average]

    def __getitem__(self, key: str | Measure | tuple[str, str | Measure]) -> NDArray[np.float64]:
        """Get the values of the classes: ``result["PPV"]``.

        Parameters
        ----------
        key : str or Measure

        Returns
        -------
        numpy.ndarray
            float64, shape (classes,); NaN where undefined.

        Raises
        ------
        MeasureError
            If the measure was not part of the evaluation, or evaluates rows as groups.
        """
        known = self._find_measure(key[1] if isinstance(key, tuple) else key)
        if not known.pooled:
            raise MeasureError(
                f"{known} evaluates each row as a group of its classes, so it has no value for a "
                "class."
            )
        return np.asarray(self.per_class.column(str(known)).to_numpy(), dtype=np.float64)

    def document(self) -> dict[str, Any]:
        """Return the values of `Result.document`, ``classes`` and ``confusion``."""
        confusion = None if self._confusion is None else self._confusion.tolist()
        return {
            **super().document(),
            "classes": plain_value(self.per_class.to_pylist()),
            "confusion": plain_value(confusion),
        }

    @typed
    def report(self, *, wide: bool = False) -> Report:
        """Build the report of `Result.report`, and a table of the classes."""
        report = super().report(wide=wide)
        names = [printable(name) for name in self.per_class.column_names]
        rows = [list(map(_cell_text, row.values())) for row in self.per_class.to_pylist()]
        ends = next(i for i, block in enumerate(report.blocks) if isinstance(block, Lines))
        blocks = [*report.blocks[:ends], Table(names, rows), *report.blocks[ends:]]
        return report._replace(blocks=blocks)


def _cell_text(value: Any) -> str:
    if isinstance(value, str):
        return printable(value)
    return f"{value:,}" if isinstance(value, int) else number_text(value)


#: Averages over classes.
AVERAGES = ("macro", "micro", "weighted", "samples", *OVER_PAIRS)
DECIDE = ("argmax", "threshold")

#: Least rows of a batch for a thread, for any number of classes.
_MIN_ROWS = 1 << 12


@typed
@closing_readers()
def evaluate_classes(
    source: object,
    *,
    label: str | Sequence[str] | Mapping[Any, str],
    scores: Sequence[str] | Mapping[Any, str],
    measures: str | Measure | Sequence[str | Measure] = "AUC,PPV,TPR,FScore,Accuracy",
    average: str | Sequence[str] | None = "macro",
    decide: str | None = None,
    name: str = "scores",
    **options: Unpack[ClassOptions],
) -> ClassResult:
    """Evaluate rows with a score for each class, by class and on average.

    * Any measure of all rows (AUC, PPV, FScore, LogLoss ...) compares each class with the others
      (one-vs-rest).
    * Accuracy, ErrorRate, BalancedAccuracy, MCC (Gorodkin's R_K) and LogLoss are computed for all
      classes at once if each row belongs to one class: `slice` ``"all"``.
    * Measures of groups, such as Success@3 (top-3 accuracy), nDCG or RR, evaluate each row as a
      group of its classes: `slice` ``"samples"``.

    Parameters
    ----------
    source : object
        As in `evaluate`.
    label : str, sequence of str, or mapping of class to str
        One column: the class of each row, of any key type (multi-class), or a list of its classes
        (multi-label). Several columns: a column of 0 and 1, or bool, for each class (multi-label).
        A null is an error.
    scores : mapping of class to str, or sequence of str
        The score column of each class, numbers without NaN. For a sequence, the type of the label
        column determines the classes: numbers are 0, 1, 2 ..., bools are False and True, texts are
        the names of the score columns. All columns must exist; every label must have a score. A
        mapping may have expressions too, as `evaluate` takes them: ``{0: "1 - p", 1: "p"}``. A text
        that is the name of a column is this column.
    measures : str, Measure or sequence of them
    average : {"macro", "micro", "weighted", "samples", "ovo", "ovo_weighted", "mu"}, several, None
        Averages of the values of classes:

        * ``"macro"``: the mean over classes; ``"weighted"``: weighted by the rows (the weight) of
          the class;
        * ``"micro"``: one value of the rows of all classes together;
        * ``"samples"``: the mean over rows;
        * means over pairs of classes, for measures of the ranking alone, such as AUC: ``"ovo"``,
          one-vs-one (Hand and Till's M); ``"ovo_weighted"``, weighted by the rows of both classes;
          ``"mu"``, by the difference of both scores (AUC-mu).

        A measure gets the averages that are defined for it. None: values of classes only.
    decide : {"argmax", "threshold"}, optional
        Predictions for measures of decisions: the class of the highest score (of equal ones the
        first in the order of `scores`), or every class whose score is at least the measure's
        `threshold`. By default argmax if a row has one class, threshold otherwise.
    name : str
        Name of the model in the result.
    **options
        ``weight``, ``undefined``, ``where``, ``limit``, ``threads``, ``format``, ``progress``, as
        in `evaluate`. `undefined` is the policy of a class for which a measure is undefined, such
        as PPV without a predicted row.

    Returns
    -------
    ClassResult

    Raises
    ------
    FastRankEvalError
        As `evaluate` does.

    Notes
    -----
    Rows are read once, in bounded memory, except for AUC, which keeps the scores of each class, for
    each class and ``"micro"``, and of each pair for ``"ovo"`` and ``"mu"``. AUC-mu uses the
    partition by the highest score: p_i - p_j orders the rows of classes i and j.

    References
    ----------
    Hand & Till (2001), doi:10.1023/A:1010920819831; Kleiman & Page (2019), AUC-mu, PMLR 97;
    Gorodkin (2004), doi:10.1016/j.compbiolchem.2004.09.006.

    Examples
    --------
    >>> import fastrank_eval as fr
    >>> rows = {"kind": ["cat", "dog", "owl", "cat"], "p_cat": [0.7, 0.3, 0.1, 0.2],
    ...         "p_dog": [0.2, 0.6, 0.1, 0.5], "p_owl": [0.1, 0.1, 0.8, 0.3]}
    >>> result = fr.evaluate_classes(rows, label="kind", measures="TPR,Accuracy",
    ...                              scores={"cat": "p_cat", "dog": "p_dog", "owl": "p_owl"})
    >>> result.value("TPR"), result["TPR"], result.value("Accuracy")
    (0.8333333333333334, array([0.5, 1. , 1. ]), 0.75)
    """
    started, compiled = perf_counter(), compilations.count
    check_names("classes", options, evaluate_classes)
    given = Options.read(source, options)
    weight, where = given.weight, given.where
    policies = given.undefined or undefined_policies("skip")
    if not isinstance(name, str) or not name:
        raise ArgumentError(
            f"name: must be a text that is not empty, got {name!r}; pass 'p', for instance."
        )
    requested = parse_measures(measures)
    averages = _read_averages(average)
    named = isinstance(scores, Mapping) and all(isinstance(each, str) for each in scores)
    text = column_name("label", label) if isinstance(label, str) and named else None
    opened = open_source(source, format=given.format, where=where, text=text)
    expressions = computed_scores(opened.schema, scores)
    opened = with_computed(opened, expressions)
    roles = ClassRoles.of(opened.schema, label, scores, weight)
    kinds = [m.scores for m in requested if m.pooled]
    roles = replace(roles, score_kind=max(["number", *kinds], key=SCORE_KINDS.index))
    has_one_class = roles.form == "one"
    decide = ("argmax" if has_one_class else "threshold") if decide is None else decide
    checked("decide", decide, one_of(*DECIDE))
    if decide == "argmax" and not has_one_class:
        raise ArgumentError(
            "decide: must be 'threshold' if a row may have several classes, got 'argmax', which "
            "predicts one class; leave it out."
        )
    plan = ClassPlan(
        roles,
        tuple(m for m in requested if isinstance(m, PooledMeasure)),
        averages,
        {},
        decide == "argmax",
        policies,
        given.threads or processors(),
    )
    plan = replace(plan, by_row=_row_measures(requested, plan))
    _check_measures(requested, plan)
    totals = ClassTotals(plan, name)
    role_names = roles.by_column()
    for column, role in role_names.items():
        require_columns(opened.schema, [column], role=role)
        if roles.form == "column" or column not in roles.labels:
            refuse_text(opened, column, role)
    reader = RowReader(opened, tuple(role_names), given.limit)
    rows = max(batch_rows_of(reader.rows, plan.threads) // len(roles.classes), _MIN_ROWS)

    def add(job: WorkBatch) -> None:
        totals.add(in_scratch(read_batch(job.batches)), job.first_row)

    with reporting_to(given.progress), reader.completing_errors():
        deque(map_jobs(plan.threads, add, reader.jobs(rows)), maxlen=0)
    conventions: dict[str, object] = {
        "decide": decide,
        "average": averages,
        "undefined": undefined_text(policies),
        "weight": weight,
        "measures": {str(m): _options(m, plan) for m in requested},
    }
    if expressions and isinstance(scores, Mapping):
        conventions["score"] = {str(k): expressions.get(text, text) for k, text in scores.items()}
    conventions |= {} if where is None else {"where": str(where)}
    conventions |= {} if given.limit is None else {"limit": given.limit}
    texts = [str(m) for m in requested]
    sorted_values = sorted(totals.values(), key=lambda value: texts.index(value.measure))
    table = _per_class(plan, totals)
    seconds, new_kernels = perf_counter() - started, compilations.count - compiled
    return ClassResult(
        sorted_values,
        table,
        None if totals.confusion is None else totals.confusion.matrix(),
        Meta(
            __version__,
            totals.rows,
            len(roles.classes),
            conventions,
            seconds,
            new_kernels,
            stored=where_stored() if new_kernels else "",
        ),
        name,
        texts,
        roles.classes,
    )


def _read_averages(average: str | Sequence[str] | None) -> tuple[str, ...]:
    if average is None:
        return ()
    words = map(str.strip, average.split(",")) if isinstance(average, str) else average
    words = tuple(dict.fromkeys(words))
    for word in words:
        checked("average", word, one_of(*AVERAGES))
    return words


def _row_measures(requested: tuple[Measure, ...], plan: ClassPlan) -> dict[str, Measure]:
    """Map measures of rows as groups to measures of groups."""
    weight = {"weight": ROW_WEIGHT} if plan.weighted else {}
    row_measures: dict[str, Measure] = {}
    for m in requested:
        if not m.pooled:
            refusal = m.refuses("expected")
            if refusal or m.weight not in GROUP_WEIGHTS:
                raise ArgumentError(
                    f"{m.display_name} cannot evaluate rows as groups of their classes: "
                    f"{refusal or 'its weight is not a column of these groups'}."
                )
            row_measures[str(m)] = m if "weight" in m.explicit_options else m(**weight)
        elif "samples" not in plan.averages or plan.overall(m):
            continue
        elif isinstance(m, PooledAUC) and m.max_fpr is None:
            row_measures[str(m)] = GAUC(**{"rel": m.rel, "weight": "uniform", **weight})
        elif f"Group{m.name}" in registry:
            row_measures[str(m)] = registry[f"Group{m.name}"](**m.option_values, **weight)
    return row_measures


def _check_measures(requested: tuple[Measure, ...], plan: ClassPlan) -> None:
    """Raise if a measure gets no value, or an option has no meaning."""
    for m in requested:
        if m.option_values.get("rel", 1) != 1:
            raise ArgumentError(f"{m.display_name}: classes have no grades; leave out rel.")
        if isinstance(m, PooledMeasure) and m.columns_named():
            raise ArgumentError(
                f"{m.display_name} needs another column, which evaluate_classes() does not read; "
                "evaluate one class at a time with evaluate()."
            )
        if isinstance(m, PooledAUC) and m.se == "clustered":
            raise ArgumentError(
                f"{m.display_name} needs groups as clusters, and evaluate_classes() has no groups; "
                "choose se='delong', or evaluate one class at a time with evaluate()."
            )
        if plan.decides(m) and m.threshold != type(m)().threshold:
            raise ArgumentError(
                f"{m.display_name} has a threshold, but the class with the highest score is "
                "predicted; pass decide='threshold'."
            )
        if isinstance(m, LogarithmicLoss) and plan.overall(m) and m.sampling_rate != 1:
            raise ArgumentError(
                f"{m.display_name}: sampling_rate must be 1 for several classes, got "
                f"{m.sampling_rate:g}; leave it out."
            )
        available = {average for average in plan.averages if _has_average(m, average, plan)}
        if plan.averages and m.pooled and not available and not plan.overall(m):
            raise ArgumentError(
                f"{m.display_name} has no average {', '.join(map(repr, plan.averages))}; it has "
                f"{', '.join(repr(a) for a in AVERAGES if _has_average(m, a, plan))}."
            )


def _has_average(measure: Measure, average: str, plan: ClassPlan) -> bool:
    if average in OVER_PAIRS:
        return over_pairs(measure) and plan.roles.form == "one"
    if average == "samples":
        return str(measure) in plan.by_row
    return measure.pooled


def _options(measure: Measure, plan: ClassPlan) -> dict[str, Any]:
    """List the used options, without a threshold if argmax decides."""
    options = measure.used_options()
    if plan.decides(measure):
        del options["threshold"]
    return options


def _per_class(plan: ClassPlan, totals: ClassTotals) -> pa.Table:
    columns = {
        "class": plan.roles.values,
        "rows": arrow_column(np.full_like(totals.positives, totals.rows)),
        "positives": arrow_column(totals.positives),
    }
    for m in plan.measures:
        numbers = totals.of_classes(m)
        columns[str(m)] = column_with_nulls(numbers, np.isnan(numbers))
    return pa.table(columns)
