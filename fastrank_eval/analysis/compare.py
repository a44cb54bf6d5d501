"""Compare models with a baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from time import perf_counter
from typing import TYPE_CHECKING

from fastrank_eval._lib.arguments import (
    at_least_one,
    check_choice,
    check_fraction,
    check_options,
    column_name,
    processors,
    typed,
)
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.analysis.attribution import slicings_of
from fastrank_eval.analysis.compare_tests import (
    NO_ERROR,
    NOT_PAIRED,
    RESAMPLING,
    TESTS,
    Choices,
    Evidence,
    adjust_rows,
    compare_models,
    default_measures,
    group_evidence,
    pooled_evidence,
    records_evidence,
    refuse_pooled,
)
from fastrank_eval.analysis.compared_value import ComparedValue
from fastrank_eval.analysis.comparison import Comparison
from fastrank_eval.analysis.group_join import (
    KEEP_GROUPS,
    GroupJoin,
    free_name,
    join_groups,
    require_groups,
)
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.engine.conventions import requested_names, with_names
from fastrank_eval.engine.records import MeasureValue, Meta, plain_value
from fastrank_eval.engine.run import OF_RESULT, Evaluation, run
from fastrank_eval.engine.summary import GroupRecords, group_records
from fastrank_eval.measures import Measure, measure
from fastrank_eval.measures.parser import requested_measures, text_with_options
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.results.result import result_of
from fastrank_eval.stats.bootstrap import check_seed
from fastrank_eval.stats.hypothesis_tests import CORRECTIONS

if TYPE_CHECKING:
    from typing import Unpack

    from fastrank_eval.engine.options import ComparedOptions
    from fastrank_eval.results.result import Result
    from fastrank_eval.results.state import State


@typed
def compare(
    source: object,
    *,
    group: str | Sequence[str],
    label: str,
    score: str | Sequence[str] | Mapping[str, str],
    baseline: str,
    measures: str | Measure | Sequence[str | Measure] = DEFAULT_MEASURES,
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    threads: int | None = None,
    per_group: bool = True,
    **options: Unpack[ComparedOptions],
) -> Comparison:
    """Evaluate models in one pass and test which are better than a baseline.

    The difference of a measure has the paired standard error of two ratios of sums over groups,
    ``sqrt(U / (U - 1) * sum of (e_b - e_a)^2)``. U is the number of groups that either model uses;
    each has ``e = w (A - mean) / sum of w``. A group that is hard for both models
    adds little to it.

    Parameters
    ----------
    source : object
        As in `evaluate`.
    group, label, score, measures
        As in `evaluate`, with two score columns or more. A test of groups leaves AUC out of the
        default measures. AUC gets ``se="clustered"``, which keeps
        the score of every row, unless `se`, `bins` or `max_fpr` is given.
    baseline : str
        The score column that every other is compared with.
    test : str
        * ``"clustered_t"``: the difference over its standard error, with groups as clusters, by
          Student's t with one degree of freedom less than groups;
        * ``"clustered_z"``: the same by the normal distribution;
        * ``"paired_t"``, ``"wilcoxon"``, ``"sign"``: tests of the differences of groups that both
          models use; each group counts once, its weight is ignored;
        * ``"randomisation"``: tests the measure itself; models are swapped in random groups;
        * ``"bootstrap"``: tests the measure itself over resampled groups, with its own standard
          error and interval (percentiles).

        All are two-sided. All but the first two need a value for each group, which measures of all
        rows together do not have. Slices are tested by the first.
    correction : {"holm", "bh", "none"}
        Holm, or Benjamini and Hochberg. The p-values of every measure and candidate are corrected
        together; for slices, those of every slice of a slicing, measure and candidate.
    replicates, seed : int
        For randomisation and bootstrap. The result has the same bits for any order of the rows and
        number of threads.
    confidence : float
        Level of intervals, in ]0, 1[. A difference is shown where the adjusted p-value is at most
        ``1 - confidence``.
    threads : int, optional
        As in `evaluate`.
    per_group : bool
        Keep every group's values for `Comparison.movers` and `Comparison.per_group`. False bounds
        memory for any number of groups, unless AUC with a clustered error is a measure.
    **options
        Any other argument of `evaluate`.

    Returns
    -------
    Comparison

    Raises
    ------
    FastRankEvalError
        As `evaluate` does; `ArgumentError` also if a test cannot be applied to a measure.

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919; Holm (1979); Benjamini & Hochberg
    (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> log = {"user": [1, 1, 2, 2, 3, 3], "click": [0, 1, 1, 0, 1, 0],
    ...        "old": [0.1, 0.4, 0.2, 0.3, 0.5, 0.6], "new": [0.1, 0.4, 0.4, 0.3, 0.5, 0.6]}
    >>> comparison = fe.compare(log, group="user", label="click", score=["old", "new"],
    ...                         baseline="old", measures="GAUC,RR")
    >>> value = comparison.find("GAUC")
    >>> round(value.delta, 4), value.wins, value.ties, value.losses
    (0.3333, 1, 2, 0)
    """
    started = perf_counter()
    names = {"group", "label", "score", "measures", "baseline", *options}
    check_options("compare", names, run, without=OF_RESULT)
    choices = choices_of(test, correction, confidence, replicates, seed, threads)
    if choices.needs_groups and not per_group:
        raise ArgumentError(
            f"test={test!r} needs the values of every group, which per_group=False does not keep; "
            "leave per_group out, or choose test='clustered_t'."
        )
    evaluate = partial(
        run,
        source,
        group=group,
        label=label,
        score=score,
        baseline=baseline,
        confidence=confidence,
        threads=threads,
        per_group=per_group,
        **options,
    )
    if isinstance(measures, str) and measures == DEFAULT_MEASURES:
        measures = default_measures(test)
    return compare_with(evaluate, measures, baseline, choices, started)


def compare_with(
    evaluate: Callable[..., Evaluation],
    measures: str | Measure | Sequence[str | Measure],
    baseline: str,
    choices: Choices,
    started: float,
) -> Comparison:
    """Compare the models of one pass over the rows.

    Parameters
    ----------
    evaluate : callable
        Evaluates ``measures=...`` with the baseline.
    measures : str, Measure or sequence of them
        The requested measures.
    baseline : str
    choices : Choices
    started : float
        Start time by `time.perf_counter`.
    """
    column_name("baseline", baseline)
    requested = requested_measures(measures)
    refuse_pooled(choices.test, requested)
    computed = with_clustered_errors(requested)
    evaluation = evaluate(measures=computed)
    texts = [evaluation.requested.get(text_with_options(m), str(m)) for m in computed]
    return comparison_of(evaluation, choices, requested_names(requested, texts), started)


def comparison_of(
    evaluation: Evaluation, choices: Choices, requested: Mapping[str, str], started: float
) -> Comparison:
    """Build the comparison of an evaluation with a baseline.

    Parameters
    ----------
    evaluation : Evaluation
        Of a run, or of a saved state. The values of its groups, if any, move to the result.
    choices : Choices
    requested : mapping of str to str
        Requested names of measures that are computed with other options.
    started : float
        Start time by `time.perf_counter`.
    """
    plan = evaluation.plan
    if plan.baseline is None:
        raise ArgumentError("baseline: must be one of the score columns, got None; name one.")
    records = None
    if plan.per_group:
        records = group_records(plan, evaluation.keys, evaluation.values, evaluation.schema)
        evaluation.values.clear()  # `records` has them now, and they may be large
    baseline = plan.roles.scores[plan.baseline]
    meta = meta_of(evaluation.meta, baseline, choices)
    return Comparison(
        compare_slices(evaluation, plan.baseline, records, choices),
        replace(meta, seconds=perf_counter() - started, requested=dict(requested)),
        baseline,
        [plan.roles.scores[model] for model in plan.rivals],
        [str(m) for m in plan.measures],
        requested,
        records,
        evaluated=evaluation.summary,
    )


def with_clustered_errors(measures: Sequence[Measure]) -> tuple[Measure, ...]:
    """Give AUC a clustered standard error, unless its options exclude one."""
    computed = [
        m(se="clustered") if m.name == "AUC" and not m.given & {"se", "bins", "max_fpr"} else m
        for m in measures
    ]
    return with_names(measures, computed)


def choices_of(
    test: str,
    correction: str,
    confidence: float,
    replicates: int,
    seed: int,
    threads: int | None,
) -> Choices:
    """Check the arguments of a comparison."""
    check_choice("test", test, TESTS)
    check_choice("correction", correction, ("none", *CORRECTIONS))
    seed = check_seed(seed)
    return Choices(
        test,
        correction,
        check_fraction("confidence", confidence),
        at_least_one("replicates", replicates, 10_000),
        seed,
        at_least_one("threads", threads, processors()),
    )


def meta_of(meta: Meta, baseline: str, choices: Choices) -> Meta:
    """Add the choices of a comparison to the conventions of a run."""
    resampled = choices.test in RESAMPLING
    conventions = {
        "baseline": baseline,
        "test": choices.test,
        "correction": choices.correction,
        "replicates": choices.replicates if resampled else None,
        "seed": choices.seed if resampled else None,
    }
    return replace(
        meta, conventions={**conventions, **meta.conventions, "confidence": choices.confidence}
    )


def compare_slices(
    evaluation: Evaluation, base: int, records: GroupRecords | None, choices: Choices
) -> list[ComparedValue]:
    """Compare all other models with the baseline, on each slice too.

    Parameters
    ----------
    evaluation : Evaluation
    base : int
        Index of the baseline among the models.
    records : GroupRecords or None
        Values of every group, for tests that need them.
    choices : Choices
    """
    plan = evaluation.plan
    scores = plan.roles.scores
    values = _by_slice(evaluation.summary)
    rows_by_slicing: dict[str | None, list[ComparedValue]] = {None: []}
    rows_by_slicing |= {str(slicing.spec): [] for slicing in plan.slice_encoders}
    for by, label, index, sums, row_states in evaluation.totals.each_slice():
        rows, carriers = sums.rows(index), sums.carriers(index)
        by_model = {
            scores[model]: [
                pooled_evidence(row_states, model, measure, plan.threads, rows, carriers)
                if isinstance(measure, PooledMeasure)
                else group_evidence(
                    measure, m, sums.means[base], sums.means[model], sums.pairs[model], index
                )
                for m, measure in enumerate(plan.measures)
            ]
            for model in plan.rivals
        }
        rows_by_slicing[by] += compare_models(
            values[by, label],
            plan.measures,
            scores[base],
            by_model,
            choices,
            None if by else records,
        )
    return [
        row
        for of_slicing in rows_by_slicing.values()
        for row in adjust_rows(of_slicing, plan.measures, choices)
    ]


#: Values of one slice by score column and measure.
_SliceValues = dict[tuple[str, str], MeasureValue]


def _by_slice(values: Iterable[MeasureValue]) -> dict[tuple[str | None, str], _SliceValues]:
    """Arrange values by slicing and slice; slicings may share a label."""
    slices: dict[tuple[str | None, str], _SliceValues] = {}
    for v in values:
        slices.setdefault((v.by, v.slice), {})[v.score, v.measure] = v
    return slices


#: Conventions that change no value, or that a comparison sets itself.
_IGNORED = ("confidence", "order", "spilled", "measures", "merged", "score")
#: Conventions that select or count rows and slices: two results may have different rows.
_ROW_CONVENTIONS = (
    *("by", "min_groups", "slices_left_out", "where", "limit"),
    *("rows_without_group", "only_in_run", "only_in_qrels", "unanswered"),
)


def compare_results(
    result: Result,
    other: Result | None,
    baseline: str | None,
    *,
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    confidence: float | None = None,
    threads: int | None = None,
) -> Comparison:
    """Compare the models of one or two results; see `Result.compare`."""
    if confidence is None:
        default = result.meta.conventions.get("confidence")
        confidence = default if isinstance(default, float) else 0.95
    choices = choices_of(test, correction, confidence, replicates, seed, threads)
    return _compare_groups(result, other, baseline, choices, perf_counter())


def _compare_groups(
    result: Result, other: Result | None, baseline: str | None, choices: Choices, started: float
) -> Comparison:
    """Compare the models of one or two results by the values of their groups."""
    base = _baseline_of(result, other, baseline)
    texts = result.measures if other is None else _common_measures(result, other)
    measures = [measure(text) for text in texts]
    refuse_pooled(choices.test, measures)
    joined: GroupJoin | None = None
    slicings = slicings_of(result.values)
    if other is None:
        meta = result.meta
        records, evaluated = result.group_records(), list(result.values)
        candidates = [score for score in result.scores if score != base]
    else:
        _check_conventions(result, other, texts)
        slicings = tuple(by for by in slicings if by in slicings_of(other.values))
        names = {base, *other.scores} if base in other.scores else {base}
        names_of_other = {
            score: score if score != base else free_name(score, names) for score in other.scores
        }
        sides = ((result, {base: base}), (other, names_of_other))
        meta = _common_meta(result, other, slicings, _expressions(sides))
        joined = join_groups(
            result.group_records(),
            result.scores.index(base),
            other.group_records(),
            texts,
            names_of_other,
        )
        records, candidates = joined.groups, list(names_of_other.values())
        evaluated = [
            replace(v, score=candidate)
            for source, score_names in sides
            for v in source.values
            if v.measure in texts and (candidate := score_names.get(v.score)) is not None
        ]
    values = _by_slice(evaluated)
    base_index = records.scores.index(base)
    evidence: dict[str, list[Evidence]] = {
        candidate: [
            NO_ERROR
            if m.pooled
            else records_evidence(
                records, base_index, records.scores.index(candidate), records.measures.index(m)
            )
            for m in measures
        ]
        for candidate in candidates
    }
    overall = compare_models(values[None, "all"], measures, base, evidence, choices, records)
    rows = adjust_rows(overall, measures, choices)
    # A result has no values of groups by slice.
    not_paired = {candidate: [NOT_PAIRED] * len(measures) for candidate in candidates}
    for by in slicings:
        slice_rows: list[ComparedValue] = []
        for (key_by, label), slice_values in values.items():
            if key_by == by:
                for score, m in product((base, *candidates), measures):
                    if (score, str(m)) not in slice_values:
                        slice_values[score, str(m)] = _no_value(by, label, score, m)
                slice_rows += compare_models(
                    slice_values, measures, base, not_paired, choices, None
                )
        rows += adjust_rows(slice_rows, measures, choices)
    return Comparison(
        rows,
        replace(meta_of(meta, base, choices), seconds=meta.seconds + perf_counter() - started),
        base,
        candidates,
        texts,
        result.requested,
        records,
        None if joined is None else joined.counts,
        [v for v in evaluated if v.by is None or v.by in slicings],
    )


def _no_value(by: str, label: str, score: str, measure: Measure) -> MeasureValue:
    """Make the undefined value of a slice that a result does not have."""
    aggregate = "pooled" if measure.pooled else measure.aggregate
    nan, name = math.nan, measure.spelling or ""
    return MeasureValue(
        score, label, str(measure), nan, 0, 0, {}, nan, nan, aggregate, by=by, name=name
    )


def _expressions(sides: Iterable[tuple[Result, Mapping[str, str]]]) -> dict[str, object]:
    """Return the expressions of the computed models of results, by new name."""
    return {
        name: expression
        for result, names in sides
        for score, expression in plain_value(result.meta.conventions.get("score", {})).items()
        if (name := names.get(score)) is not None
    }


def _common_meta(
    result: Result, other: Result, slicings: Sequence[str], expressions: Mapping[str, object]
) -> Meta:
    """Keep the conventions that both results share, and all expressions."""
    own, others = result.meta.conventions, other.meta.conventions
    common = {
        name: value
        for name, value in own.items()
        if name not in _ROW_CONVENTIONS
        or (name in others and plain_value(value) == plain_value(others[name]))
    }
    common.pop("by", None)
    common.pop("score", None)
    if expressions:
        common["score"] = expressions
    if slicings:
        common["by"] = list(slicings)
    seconds = result.meta.seconds + other.meta.seconds
    return replace(result.meta, conventions=common, seconds=seconds)


def _baseline_of(result: Result, other: Result | None, requested: str | None) -> str:
    if requested is None and other is not None and len(result.scores) == 1:
        return result.scores[0]
    names = ", ".join(map(repr, result.scores))
    if requested is None:
        raise ArgumentError(f"baseline: must be one of {names}, got None; name one.")
    name = column_name("baseline", requested)
    if name not in result.scores:
        raise ArgumentError(
            f"baseline: must be one of the score columns {names} of this result, got {name!r}; "
            f"name one of them.{near(name, result.scores)}"
        )
    if other is None and len(result.scores) < 2:
        raise ArgumentError(
            f"this result has only the model {name!r}; pass the result of the other model, as in "
            "base.compare(candidate)."
        )
    return name


def _common_measures(result: Result, other: Result) -> tuple[str, ...]:
    """List the measures that both results have."""
    texts = tuple(text for text in result.measures if text in other.measures)
    if not texts:
        one, two = (", ".join(each.names.values()) for each in (result, other))
        raise ArgumentError(
            f"the results share no measure: one has {one}, the other {two}; evaluate both with the "
            "same measures."
        )
    return texts


def _check_conventions(result: Result, other: Result, texts: Sequence[str]) -> None:
    """Raise if the conventions of two results differ."""
    left, right = (plain_value(r.meta.conventions) for r in (result, other))
    names = [
        name for name in dict.fromkeys([*left, *right]) if name not in _IGNORED + _ROW_CONVENTIONS
    ]
    pairs = [(name, left.get(name), right.get(name)) for name in names]
    left_options, right_options = left.get("measures") or {}, right.get("measures") or {}
    pairs += [
        (f"options of {text}", left_options.get(text), right_options.get(text)) for text in texts
    ]
    for name, left_value, right_value in pairs:
        if left_value != right_value:
            raise ArgumentError(
                f"the results have different conventions: {name} is {left_value!r} in one and "
                f"{right_value!r} in the other; evaluate both with the same."
            )


def compare_states(
    state: State,
    other: State | None,
    baseline: str | None,
    *,
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    confidence: float | None = None,
    min_groups: int | None = None,
    threads: int | None = None,
) -> Comparison:
    """Compare the models of one or two states; see `State.compare`."""
    started = perf_counter()
    level = 0.95 if confidence is None else confidence
    choices = choices_of(test, correction, level, replicates, seed, threads)
    base = state.baseline if baseline is None else column_name("baseline", baseline)
    if other is None and base is not None and base == state.baseline:
        if choices.needs_groups and not state.has_groups:
            raise ArgumentError(
                f"test={test!r} reads the values of every group, which {state.shown} does not "
                f"have; {KEEP_GROUPS}, or choose test='clustered_t'."
            )
        evaluation = state.evaluation(confidence=confidence, min_groups=min_groups)
        refuse_pooled(test, evaluation.plan.measures)
        choices = replace(choices, confidence=evaluation.plan.confidence)
        return comparison_of(evaluation, choices, state.requested, started)
    for each in (state,) if other is None else (state, other):
        groups = each.values_of_groups()
        require_groups(groups, each.shown, each.baseline, alone=other is None)
    evaluation = state.evaluation(confidence=confidence, min_groups=min_groups)
    choices = replace(choices, confidence=evaluation.plan.confidence)
    other_result = None
    if other is not None:
        other_result = other.result(confidence=choices.confidence, min_groups=min_groups)
    return _compare_groups(result_of(evaluation), other_result, base, choices, started)
