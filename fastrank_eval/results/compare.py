"""Compare models with a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from time import perf_counter
from typing import TYPE_CHECKING, Any

from fastrank_eval._lib.arguments import check_options, checked, integer, named, one_of
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.threads import processors
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.engine.conventions import requested_names, with_names
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.options import OPTIONS, Options, check_names, measures_by_label
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.records import (
    MeasureValue,
    Meta,
    refuse_if_none_left,
)
from fastrank_eval.engine.run import Evaluation, run_together
from fastrank_eval.engine.state_arrays import BY_BUCKET, WITHOUT_BUCKETS
from fastrank_eval.engine.totals import SliceTotals, loses_error
from fastrank_eval.measures import Measure
from fastrank_eval.measures.parser import requested_measures, text_with_options
from fastrank_eval.measures.pooled import CLUSTERS, MERGED, PooledMeasure
from fastrank_eval.results.compare_tests import (
    TESTS,
    Choices,
    ErrorOfDifference,
    adjust_rows,
    compare_models,
    default_measures,
    group_error,
    pooled_error,
    records_error,
    refuse_pooled,
)
from fastrank_eval.results.compared_value import RESAMPLING, ComparedValue
from fastrank_eval.results.comparison import Comparison
from fastrank_eval.results.labels import for_labels, labelled
from fastrank_eval.results.notes import unit_of
from fastrank_eval.stats.bootstrap import REPLICATES, SEED
from fastrank_eval.stats.hypothesis_tests import CORRECTIONS

if TYPE_CHECKING:
    from typing import Unpack

    from fastrank_eval.engine.option_types import CompareOptions


@named
def compare(
    source: object,
    *,
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    **options: Unpack[CompareOptions],
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
    label, measures
        As in `evaluate`, with two score columns or more. A list of labels is compared in one
        reading of the rows, each with the bits of a call of its own. A test of groups leaves AUC
        out of the default measures. AUC gets ``se="clustered"``, which keeps
        the score of every row, unless `se`, `bins` or `max_fpr` is given.
    baseline : str
        The score column that every other is compared with.
    test : str
        * ``"clustered_t"``: the difference over its standard error, with groups as clusters, by
          Student's t with Satterthwaite's degrees of freedom: at most one less than groups;
        * ``"clustered_z"``: the same by the normal distribution;
        * ``"paired_t"``, ``"wilcoxon"``, ``"sign"``: tests of the differences of groups that both
          models use; each group counts once, its weight is ignored;
        * ``"randomisation"``: tests the measure itself; models are swapped in random groups;
        * ``"bootstrap"``: tests the measure itself over resampled groups, with its own standard
          error and interval (percentiles). It needs many groups; of few, no interval.

        All are two-sided. All but the first two need a value for each group, which measures of all
        rows together do not have. Slices are tested by the first. Where all groups have the same
        difference there is no error and no interval, and the first three tests have no p-value; the
        others count changes of sign. Models that are equal in every group have the
        difference 0, the interval [0, 0] and the p-value 1 under every test.
    correction : {"holm", "bh", "none"}
        Holm, or Benjamini and Hochberg. The p-values of every measure and candidate are corrected
        together; for slices, those of every slice of a slicing, measure and candidate.
    replicates, seed : int
        For randomisation and bootstrap. The result has the same bits for any order of the rows and
        number of threads.
    **options
        Any other argument of `evaluate`: `group`, which is required (for measures of all rows
        `cluster` is enough), `score` with two columns or more ... With `cluster` every test takes
        clusters in place of groups: the difference of one is the weighted mean over its groups that
        both models use; it is swapped, or drawn, whole. `wins`, `ties` and `losses` count groups.
        `confidence` is the level of intervals; a difference is shown where the adjusted p-value is
        at most ``1 - confidence``. ``keep=""`` keeps no values of groups for
        `Comparison.largest_changes` and `Comparison.per_group`; that bounds memory for any number
        of groups, unless AUC with a clustered error is a measure.

    Returns
    -------
    Comparison
        Of a list of labels, its records have a label, and ``comparison["order"]`` is the part of
        one.

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
    check_names("compare", options, compare, needs=("baseline", unit_needed(options)))
    read = Options.read(source, options)
    choices = choices_of(
        test=test,
        correction=correction,
        replicates=replicates,
        seed=seed,
        confidence=read.confidence,
        threads=read.threads,
    )
    others = ", ".join(sorted((read.keep or frozenset()) - {"values"}))
    if others:
        raise ArgumentError(
            f"keep: must be 'values' or '' for compare(), got {others}; leave them out."
        )
    if choices.needs_groups and read.keep is not None and not read.keep:
        raise ArgumentError(
            f"test={test!r} needs the values of every group, which keep='' does not keep; "
            "leave keep out, or choose test='clustered_t'."
        )
    if isinstance(read.measures, str) and read.measures == DEFAULT_MEASURES:
        read = read.replace(measures=default_measures(test))

    def evaluate(measures: Mapping[str, Sequence[Measure]]) -> list[Evaluation]:
        return run_together(
            [read.replace(label=label, measures=each) for label, each in measures.items()]
        )

    return compare_with(evaluate, read.label, read.measures, choices, started)


def unit_needed(options: Mapping[str, Any]) -> str:
    """Name the option that must be given, `group` or `cluster`."""
    return "group" if options.get("cluster") is None else "cluster"


def compare_with(
    evaluate: Callable[[Mapping[str, Sequence[Measure]]], Sequence[Evaluation]],
    label: str | Sequence[str],
    measures: str | Measure | Sequence[str | Measure] | Mapping[str, Any],
    choices: Choices,
    started: float,
) -> Comparison:
    """Compare the models of one pass over the rows, for each label.

    Parameters
    ----------
    evaluate : callable
        Evaluates the measures of each label with the baseline.
    label, measures
        As `compare` takes them.
    choices : Choices
    started : float
        Start time by `time.perf_counter`.
    """
    by_label = measures_by_label(label, measures)
    requested = {name: requested_measures(for_label) for name, for_label in by_label.items()}
    for for_label in requested.values():
        refuse_pooled(choices.test, for_label)
    computed = {name: with_clustered_errors(for_label) for name, for_label in requested.items()}
    comparisons = {}
    for name, evaluation in zip(computed, evaluate(computed), strict=True):
        refuse_if_none_left(evaluation.meta.conventions, evaluation.meta.rows)
        given = (
            evaluation.meta.requested.get(text_with_options(m), str(m)) for m in computed[name]
        )
        names = requested_names(requested[name], list(given))
        comparisons[name] = comparison_of(evaluation, choices, names, started)
    seconds = perf_counter() - started
    for comparison in comparisons.values():
        comparison.meta = replace(comparison.meta, seconds=seconds)
    baseline, evaluated = comparison.baseline, labelled(comparisons, "evaluated")
    return for_labels(Comparison, label, comparisons, baseline=baseline, evaluated=evaluated)


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
        records = GroupTable.of_run(plan, evaluation.groups, evaluation.schema)
        evaluation.groups.clear()  # `records` has them now, and they may be large
    baseline = plan.roles.scores[plan.baseline]
    meta = meta_of(evaluation.meta, baseline, choices)
    if choices.needs_groups and records is not None and records.clusters is not None:
        meta = with_joined_clusters(meta, records)
    return Comparison(
        compare_slices(evaluation, plan.baseline, records, choices),
        replace(meta, seconds=perf_counter() - started, requested=dict(requested)),
        baseline,
        [plan.roles.scores[model] for model in plan.candidates],
        [str(m) for m in plan.measures],
        requested,
        records,
        evaluated=evaluation.summary,
    )


def with_clustered_errors(measures: Sequence[Measure]) -> tuple[Measure, ...]:
    """Select AUC's clustered standard error, unless options exclude it."""
    computed = [
        m(se="clustered")
        if m.name == "AUC" and not m.explicit_options & {"se", "bins", "max_fpr"}
        else m
        for m in measures
    ]
    return with_names(measures, computed)


def choices_of(
    *,
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    confidence: float | None = None,
    threads: int | None = None,
) -> Choices:
    """Check the options of a comparison."""
    return Choices(
        checked("test", test, one_of(*TESTS)),
        checked("correction", correction, one_of("none", *CORRECTIONS)),
        OPTIONS["confidence"].read("confidence", 0.95 if confidence is None else confidence),
        checked("replicates", replicates, REPLICATES),
        checked("seed", seed, SEED),
        checked("threads", threads, integer(1, optional=True)) or processors(),
    )


def given_choices(given: Mapping[str, Any], owner: type) -> Choices:
    """Check what the method `compare` of a class was given."""
    check_options("compare", given, signature(choices_of).parameters, own=owner.compare)  # type: ignore[attr-defined]
    return choices_of(**given)


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


def with_joined_clusters(meta: Meta, records: GroupTable) -> Meta:
    """Count clusters joined by key, not buckets or parts of merged states."""
    conventions = {name: v for name, v in meta.conventions.items() if name != BY_BUCKET}
    if records.clusters is not None:
        conventions[CLUSTERS] = len(records.clusters)
        conventions.pop(WITHOUT_BUCKETS, None)
    return replace(meta, conventions=conventions)


def compare_slices(
    evaluation: Evaluation, base: int, records: GroupTable | None, choices: Choices
) -> list[ComparedValue]:
    """Compare all other models with the baseline, on each slice too.

    Parameters
    ----------
    evaluation : Evaluation
    base : int
        Index of the baseline among the models.
    records : GroupTable or None
        Values of every group, for tests that need them.
    choices : Choices
    """
    plan = evaluation.plan
    slices: list[Slice] = []
    tested = records if choices.needs_groups else None
    for totals in evaluation.totals.each_slice():
        errors = {
            plan.roles.scores[model]: [
                _error(plan, totals, base, model, m, None if totals.by else tested)
                for m in range(len(plan.measures))
            ]
            for model in plan.candidates
        }
        slices.append((totals.by, totals.label, totals.sums.rows(totals.slice_index), errors))
    values = values_by_slice(evaluation.summary)
    unit = unit_of(evaluation.meta.conventions)
    base_name = plan.roles.scores[base]
    return differences(slices, values, plan.measures, base_name, records, choices, unit)


def _error(
    plan: Plan, totals: SliceTotals, base: int, model: int, m: int, tested: GroupTable | None
) -> ErrorOfDifference:
    """Compute the error of the difference of a measure in a slice.

    A test of values of groups joins clusters by key. Merged states have buckets of them, or parts.
    """
    _, _, index, sums, states = totals
    measure = plan.measures[m]
    if tested is not None and tested.clusters is not None:
        clusters = len(tested.clusters)
        if sums.uses_buckets or sums.clusters(index) != clusters:
            return records_error(tested, base, model, m)
    if sums.uses_buckets and loses_error(measure):
        return ErrorOfDifference(warning=MERGED)
    if isinstance(measure, PooledMeasure):
        rows, by_rows = sums.rows(index), sums.effective_groups(index)
        return pooled_error(states, model, measure, plan.threads, rows, by_rows)
    error = group_error(measure, m, sums.means[base], sums.means[model], sums.pairs[model], index)
    # How clusters compare is not known of buckets.
    return replace(error, clusters=None) if sums.uses_buckets else error


#: Values by slicing and slice, then by score column and measure.
SliceValues = dict[tuple[str | None, str], dict[tuple[str, str], MeasureValue]]
#: Slicing, slice, its rows, and the errors of each candidate by measure.
Slice = tuple[str | None, str, int, Mapping[str, Sequence[ErrorOfDifference]]]


def differences(
    slices: Iterable[Slice],
    values: SliceValues,
    measures: Sequence[Measure],
    base: str,
    records: GroupTable | None,
    choices: Choices,
    unit: str,
) -> list[ComparedValue]:
    """Compare models with a baseline on all rows and on slices.

    P-values are corrected for each slicing.

    Parameters
    ----------
    slices : iterable of Slice
    values : mapping
        As `values_by_slice` returns them.
    measures : sequence of Measure
    base : str
        Score column of the baseline.
    records : GroupTable or None
        Values of every group, for tests that need them.
    choices : Choices
    unit : {"group", "cluster"}
        What errors count.
    """
    by_slicing: dict[str | None, list[ComparedValue]] = {}
    for by, label, rows, errors in slices:
        compared = compare_models(
            values[by, label], measures, base, errors, choices, None if by else records
        )
        by_slicing.setdefault(by, []).extend(replace(row, rows=rows) for row in compared)
    return [row for own in by_slicing.values() for row in adjust_rows(own, measures, choices, unit)]


def values_by_slice(values: Iterable[MeasureValue]) -> SliceValues:
    """Arrange values by slicing and slice; slicings may share a label."""
    slices: SliceValues = {}
    for v in values:
        slices.setdefault((v.by, v.slice), {})[v.score, v.measure] = v
    return slices
