"""Evaluate models of several classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import at_least_one, check_choice, column_name, processors, typed
from fastrank_eval._lib.arrow import arrow_column, column_with_nulls
from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval._lib.jit import compilations
from fastrank_eval._lib.progress import Progress, reporting_to
from fastrank_eval._lib.version import __version__
from fastrank_eval.analysis.multiclass_rows import ClassRoles
from fastrank_eval.analysis.multiclass_totals import (
    OVER_PAIRS,
    ROW_WEIGHT,
    ClassPlan,
    ClassStates,
    over_pairs,
)
from fastrank_eval.analysis.multiclass_values import ClassValues
from fastrank_eval.engine.conventions import undefined_policies, undefined_text
from fastrank_eval.engine.records import MeasureValue, Meta, plain_value
from fastrank_eval.engine.ungrouped import each_work_batch
from fastrank_eval.io import open_source
from fastrank_eval.measures import Measure, parse_measures
from fastrank_eval.measures.auc import GAUC, PooledAUC
from fastrank_eval.measures.base import GROUP_WEIGHTS, SCORE_KINDS, registry
from fastrank_eval.measures.decisions import Decision, GroupDecision
from fastrank_eval.measures.likelihood import LogarithmicLoss
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.results.result import Result

if TYPE_CHECKING:
    import pyarrow.compute as pc
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
            requested = "name one" if average is None else f"not {average!r}"
            raise ArgumentError(f"averages of {text} in this result: {known}; {requested}.")
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

        from fastrank_eval.results.format import printable

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


#: What values of classes become.
AVERAGES = ("macro", "micro", "weighted", "samples", *OVER_PAIRS)
DECIDE = ("argmax", "threshold")

#: Fewest rows a thread takes at a time, however many classes there are.
_LEAST_ROWS = 1 << 12


@typed
def evaluate_classes(
    source: object,
    *,
    label: str | Sequence[str] | Mapping[Any, str],
    scores: Sequence[str] | Mapping[Any, str],
    measures: str | Measure | Sequence[str | Measure] = "AUC,PPV,TPR,FScore,Accuracy",
    average: str | Sequence[str] | None = "macro",
    decide: str | None = None,
    weight: str | None = None,
    undefined: str | Mapping[str, str] = "skip",
    name: str = "scores",
    where: str | pc.Expression | None = None,
    limit: int | None = None,
    threads: int | None = None,
    batch_rows: int | None = None,
    format: str | None = None,  # noqa: A002 - what the option is called everywhere
    allow_unfinished: bool = False,
    progress: Callable[[Progress], object] | None = None,
) -> ClassResult:
    """Evaluate rows that have a score for each class, class by class and on average.

    Each class is taken against the others (one-vs-rest) by any measure of all rows: AUC, PPV,
    FScore, LogLoss ... Accuracy, ErrorRate, BalancedAccuracy, MCC (Gorodkin's R_K) and LogLoss are
    taken of all classes at once, where each row belongs to one: `slice` ``"all"``. Measures of
    groups, such as Success@3 (top-3 accuracy), nDCG or RR, take each row for a group of its
    classes: `slice` ``"samples"``.

    Parameters
    ----------
    source : object
        As `evaluate` takes it.
    label : str, sequence of str, or mapping of class to str
        One column: the class of each row, of any type of a key (multi-class), or a list of its
        classes (multi-label). Several: a column of 0 and 1, or bool, for each class (multi-label).
        A null is an error.
    scores : mapping of class to str, or sequence of str
        The score column of each class, numbers without NaN. In a sequence, classes are 0, 1, 2 ...
        where the label column holds numbers, False and True where it is bool, and called like their
        score columns where it is text. All must be there; every label must have a score.
    measures : str, Measure or sequence of them
    average : {"macro", "micro", "weighted", "samples", "ovo", "ovo_weighted", "mu"}, several, None
        What the values of classes become. Their mean: each alike, or weighted by the rows (the
        weight) of the class. ``"micro"``: one value of the rows of all classes together.
        ``"samples"``: the mean over rows. For measures read off the ranking, such as AUC, means
        over pairs of classes: ``"ovo"`` of one-vs-one (Hand and Till's M), ``"ovo_weighted"`` with
        the rows of both classes as weight, ``"mu"`` by the difference of both scores (AUC-mu).
        A measure gets the averages that it has; None: values of classes only.
    decide : {"argmax", "threshold"}, optional
        What is predicted, for measures of predictions: the class of the highest score, of several
        the first in the order of `scores`; or every class whose score is at least the measure's
        `threshold`. By default argmax where a row has one class, threshold otherwise.
    weight : str, optional
        Row weight: 0, or from 1e-30 to 1e30.
    undefined : {"skip", "zero", "one", "error"} or mapping
        Value of a class for which a measure is undefined, such as PPV where no row is predicted:
        left out of means and counted by reason, or counted so. As `evaluate` takes it.
    name : str
        What lines call the model.
    where, limit, threads, batch_rows, format, allow_unfinished, progress
        As `evaluate` takes them.

    Returns
    -------
    ClassResult

    Raises
    ------
    FastRankEvalError
        As `evaluate` does.

    Notes
    -----
    Rows are read once, in bounded memory but for what AUC keeps: the scores of each class, for each
    class and ``"micro"``; for ``"ovo"`` and ``"mu"``, those of each pair. AUC-mu is taken with the
    partition of the highest score: p_i - p_j orders the rows of classes i and j.

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
    started, compiled = perf_counter(), compilations()
    policies = undefined_policies(undefined)
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"name={name!r} is not a name.")
    wanted = parse_measures(measures)
    averages = _averages(average)
    opened = open_source(
        source,
        format=format,
        where=where,
        categories=column_name("label", label) if isinstance(label, str) else None,
        allow_unfinished=allow_unfinished,
    )
    roles = ClassRoles.of(opened.schema, label, scores, weight)
    kinds = [m.scores for m in wanted if m.pooled]
    roles = replace(roles, score_kind=max(["number", *kinds], key=SCORE_KINDS.index))
    one = roles.form == "one"
    decide = ("argmax" if one else "threshold") if decide is None else decide
    check_choice("decide", decide, DECIDE)
    if decide == "argmax" and not one:
        raise ArgumentError(
            "decide='argmax' predicts one class, but rows may have several: decide='threshold'."
        )
    plan = ClassPlan(
        roles,
        tuple(m for m in wanted if isinstance(m, PooledMeasure)),
        averages,
        {},
        decide == "argmax",
        policies,
        at_least_one("threads", threads, processors()),
    )
    plan = replace(plan, by_row=_by_row(wanted, plan))
    _check(wanted, plan)
    states = ClassStates(plan)
    chosen = at_least_one("batch_rows", batch_rows, None)

    def rows_at_a_time(usual: int) -> int:
        return int(chosen or max(usual // len(roles.classes), _LEAST_ROWS))

    with reporting_to(progress):
        each_work_batch(
            opened,
            roles.by_column(),
            states.add,
            limit=limit,
            threads=plan.threads,
            rows=rows_at_a_time,
            categories=() if roles.form == "column" else roles.labels,
        )
    values = ClassValues(plan, states, name)
    conventions: dict[str, object] = {
        "decide": decide,
        "average": averages,
        "undefined": undefined_text(policies),
        "weight": weight,
        "measures": {str(m): _options(m, plan) for m in wanted},
    }
    if where is not None:
        conventions["where"] = str(where)
    if limit is not None:
        conventions["limit"] = limit
    lines = sorted(values.lines(), key=lambda line: _place(line.measure, wanted))
    table = _per_class(plan, states, values)
    seconds, fresh = perf_counter() - started, compilations() - compiled
    return ClassResult(
        lines,
        table,
        None if states.confusion is None else states.confusion.matrix(),
        Meta(__version__, states.rows, len(roles.classes), conventions, seconds, fresh),
        name,
        [str(m) for m in wanted],
        roles.classes,
    )


def _averages(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    words = [word.strip() for word in given.split(",")] if isinstance(given, str) else list(given)
    for word in words:
        check_choice("average", word, AVERAGES)
    return tuple(dict.fromkeys(words))


def _by_row(wanted: tuple[Measure, ...], plan: ClassPlan) -> dict[str, Measure]:
    """By the text of each measure that takes a row for a group, the measure of groups."""
    weight = {"weight": ROW_WEIGHT} if plan.weighted else {}
    found: dict[str, Measure] = {}
    for m in wanted:
        if not m.pooled:
            refusal = m.refuses("expected")
            if refusal or m.weight not in GROUP_WEIGHTS:
                raise ArgumentError(
                    f"{m} cannot be taken of rows as groups of their classes: "
                    f"{refusal or 'its weight is no column of them'}."
                )
            found[str(m)] = m if "weight" in m.given else m(**weight)
        elif "samples" not in plan.averages or plan.overall(m):
            continue
        elif isinstance(m, PooledAUC) and m.max_fpr is None:
            found[str(m)] = GAUC(**{"rel": m.rel, "weight": "uniform", **weight})
        elif f"Group{m.name}" in registry:
            found[str(m)] = registry[f"Group{m.name}"](**m.chosen, **weight)
    return found


def _check(wanted: tuple[Measure, ...], plan: ClassPlan) -> None:
    """Refuse measures that get no value, and options that have no meaning."""
    for m in wanted:
        if m.chosen.get("rel", 1) != 1:
            raise ArgumentError(f"{m}: a row belongs to a class or does not; leave out rel.")
        if isinstance(m, PooledMeasure) and m.columns_named():
            raise ArgumentError(
                f"{m} reads a further column, which rows of several classes do not bring; evaluate "
                "one class at a time with evaluate()."
            )
        if isinstance(m, PooledAUC) and m.se == "clustered":
            raise ArgumentError(
                f"{m} takes groups for clusters, and here no group is named; take se='delong', or "
                "evaluate one class at a time with evaluate()."
            )
        argmax = plan.argmax and isinstance(m, Decision | GroupDecision)
        if argmax and m.threshold != type(m)().threshold:
            raise ArgumentError(
                f"{m} names a threshold, but the class of the highest score is predicted; pass "
                "decide='threshold'."
            )
        if isinstance(m, LogarithmicLoss) and plan.overall(m) and m.sampling_rate != 1:
            raise ArgumentError(f"{m}: of several classes none is sampled; leave it out.")
        has = {average for average in plan.averages if _takes(m, average, plan)}
        if plan.averages and m.pooled and not has and not plan.overall(m):
            raise ArgumentError(
                f"{m} has no average {', '.join(map(repr, plan.averages))}; it has "
                f"{', '.join(repr(a) for a in AVERAGES if _takes(m, a, plan))}."
            )


def _takes(measure: Measure, average: str, plan: ClassPlan) -> bool:
    if average in OVER_PAIRS:
        return over_pairs(measure) and plan.roles.form == "one"
    if average == "samples":
        return str(measure) in plan.by_row
    return measure.pooled


def _options(measure: Measure, plan: ClassPlan) -> dict[str, Any]:
    """Those in force: none has a threshold where the highest score decides."""
    options = measure.options_in_force()
    if plan.argmax and isinstance(measure, Decision | GroupDecision):
        del options["threshold"]
    return options


def _place(text: str, wanted: Sequence[Measure]) -> int:
    return [str(m) for m in wanted].index(text)


def _per_class(plan: ClassPlan, states: ClassStates, values: ClassValues) -> pa.Table:
    names = ["class", "rows", "positives"]
    columns = [
        plan.roles.values,
        arrow_column(np.full(len(states.positives), states.rows, np.int64)),
        arrow_column(states.positives),
    ]
    for m in plan.measures:
        numbers = values.of_classes(m)
        names.append(str(m))
        columns.append(column_with_nulls(numbers, np.isnan(numbers)))
    return pa.table(columns, names=names)
