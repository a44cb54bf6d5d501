"""evaluate_classes(): measures of rows that belong to one class of several, or to some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval import __version__
from fastrank_eval.arguments import at_least_one, check_choice, column_name, processors
from fastrank_eval.arrow_values import arrow_column, column_with_nulls
from fastrank_eval.class_result import ClassResult
from fastrank_eval.class_rows import ClassRoles
from fastrank_eval.class_states import OVER_PAIRS, ROW_WEIGHT, ClassPlan, ClassStates, over_pairs
from fastrank_eval.class_values import ClassValues
from fastrank_eval.errors import ArgumentError
from fastrank_eval.kernel import compilations
from fastrank_eval.measures import Measure, parse_measures
from fastrank_eval.measures.auc import GAUC
from fastrank_eval.measures.base import GROUP_WEIGHTS, SCORE_KINDS, registry
from fastrank_eval.measures.decisions import Decision
from fastrank_eval.measures.group_decisions import GroupDecision
from fastrank_eval.measures.likelihood import LogarithmicLoss
from fastrank_eval.measures.pooled_auc import PooledAUC
from fastrank_eval.measures.pooled_measure import PooledMeasure
from fastrank_eval.meta import Meta
from fastrank_eval.progress import Progress, reporting_to
from fastrank_eval.sources import open_source
from fastrank_eval.typed_arguments import typed
from fastrank_eval.undefined import undefined_policies, undefined_text
from fastrank_eval.ungrouped import each_stretch

if TYPE_CHECKING:
    import pyarrow.compute as pc

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
        each_stretch(
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
