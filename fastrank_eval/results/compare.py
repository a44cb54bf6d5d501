"""Compare the models of one or two results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from time import perf_counter
from typing import Any

from fastrank_eval._lib.arguments import column_name, require_baseline
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine.conventions import with_clustered_errors, without_clustered_error
from fastrank_eval.engine.group_table import LARGEST, GroupTable
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.records import (
    LEFT_OUT,
    ROW_COUNTS,
    MeasureValue,
    Meta,
    plain_value,
)
from fastrank_eval.engine.state_arrays import BY_BUCKET, WITHOUT_BUCKETS
from fastrank_eval.engine.totals import SliceTotals, Totals, loses_error
from fastrank_eval.measures import Measure, measure
from fastrank_eval.measures.pooled import CLUSTERS, MERGED, PooledMeasure
from fastrank_eval.results.compare_tests import (
    NO_ERROR,
    NOT_PAIRED,
    RESAMPLING,
    Choices,
    ErrorOfDifference,
    Slice,
    SliceValues,
    differences,
    free_name,
    given_choices,
    group_error,
    join_groups,
    pooled_error,
    records_error,
    refuse_pooled,
    refuse_without_values,
)
from fastrank_eval.results.comparison import Comparison
from fastrank_eval.results.differences import slicings_of
from fastrank_eval.results.labels import Labelled
from fastrank_eval.results.notes import unit_of

#: Conventions that change no value, or that a comparison sets itself.
_IGNORED = ("confidence", "order", "spilled", "measures", "merged", "score", "group")
#: Conventions that select or count rows and slices: two results may have different rows.
_ROW_CONVENTIONS = (
    *("by", "min_groups", "slices_left_out", "where", "limit"),
    *(*ROW_COUNTS, LARGEST, CLUSTERS, BY_BUCKET, WITHOUT_BUCKETS),
    *("judged_queries", "only_in_run", "only_in_qrels"),
    "unanswered",
    *("judged_documents", "largest_grade", "reading_notes"),
)


class Paired:
    """The errors of the differences from the baseline of a run.

    They are computed at first use, with those of slices.

    Parameters
    ----------
    plan : Plan
        With a baseline.
    totals : Totals
    """

    def __init__(self, plan: Plan, totals: Totals) -> None:
        self._plan, self._totals = plan, totals
        self.baseline = plan.roles.scores[plan.baseline or 0]

    @cached_property
    def slices(self) -> list[Slice]:
        """The errors of all rows, then of each slice."""
        plan, found = self._plan, list[Slice]()
        for each in self._totals.each_slice():
            errors = {
                plan.roles.scores[model]: [
                    _error(plan, each, plan.baseline or 0, model, m)
                    for m in range(len(plan.measures))
                ]
                for model in plan.candidates
            }
            found.append((each.by, each.label, each.sums.rows(each.slice_index), errors))
        del self._totals  # they may be large
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {"baseline": self.baseline, "slices": self.slices}


def compare_results(
    result: Labelled,
    paired: Paired | None,
    other: Labelled | None,
    baseline: str | None,
    given: Mapping[str, Any],
) -> Comparison:
    """Compare the models of one or two results; see `Result.compare`.

    Parameters
    ----------
    result : Result
    paired : Paired or None
        Its errors, if it was evaluated with a baseline.
    other, baseline, given
        As `Result.compare` takes them.
    """
    started = perf_counter()
    own = {"confidence": result.meta.confidence} if given.get("confidence") is None else {}
    choices = given_choices({**given, **own}, type(result))
    base = _baseline_of(result, paired, other, baseline)
    if other is not None or (paired is not None and paired.baseline != base):
        paired = None
    shared = _shared_measures(result, result if other is None else other)
    texts = tuple(shared)
    measures = [measure(text) for text in texts]
    refuse_pooled(choices.test, measures)
    joined: dict[str, int] | None = None
    slicings = slicings_of(result.values)
    records: GroupTable | None = None
    if other is None:
        meta, evaluated = result.meta, list(result.values)
        candidates = [score for score in result.scores if score != base]
        if paired is not None and not result.keeps_groups:
            refuse_without_values(choices.test)
        if paired is None or choices.needs_groups:
            records = result.group_table()
    else:
        _check_conventions(result, other, shared)
        slicings = tuple(by for by in slicings if by in slicings_of(other.values))
        names = {base, *other.scores} if base in other.scores else {base}
        names_of_other = {
            score: score if score != base else free_name(score, names) for score in other.scores
        }
        sides = ((result, {base: base}), (other, names_of_other))
        own_texts = dict(zip(shared, shared, strict=True)), {shared[own]: own for own in shared}
        meta = _common_meta(result, other, slicings, _expressions(sides))
        records, joined = join_groups(
            result.group_table(),
            result.scores.index(base),
            other.group_table(),
            texts,
            names_of_other,
        )
        candidates = list(names_of_other.values())
        evaluated = [
            replace(v, score=candidate, measure=of_source[v.measure])
            for (source, score_names), of_source in zip(sides, own_texts, strict=True)
            for v in source.values
            if v.measure in of_source and (candidate := score_names.get(v.score)) is not None
        ]
    values = values_by_slice(evaluated)
    if paired is not None:
        slices = list(paired.slices)
    else:
        # A result has no values of groups by slice.
        not_paired = dict.fromkeys(candidates, [NOT_PAIRED] * len(measures))
        slices = [(by, label, 0, not_paired) for by, label in values if by in slicings]
        for (by, label, *_), score, m in product(slices, (base, *candidates), measures):
            values[by, label].setdefault((score, str(m)), no_value(str(by), label, score, m))
        slices.sort(key=lambda each: slicings.index(str(each[0])))
        slices.insert(0, (None, "all", meta.rows, not_paired))
    if records is not None and (paired is None or records.clusters is not None):
        # Groups, and clusters, joined by key; merged states have buckets of them, or parts.
        meta = with_joined_clusters(meta, records)
        slices[0] = *slices[0][:3], errors_of_records(records, base, candidates, measures)
    unit = unit_of(meta.conventions)
    return Comparison(
        differences(slices, values, measures, base, records, choices, unit),
        replace(meta_of(meta, base, choices), seconds=meta.seconds + perf_counter() - started),
        base,
        candidates,
        texts,
        result.requested,
        records if records is not None or not result.keeps_groups else result.group_table,
        joined,
        [v for v in evaluated if v.by is None or v.by in slicings],
    )


def errors_of_records(
    records: GroupTable, base: str, candidates: Sequence[str], measures: Sequence[Measure]
) -> dict[str, list[ErrorOfDifference]]:
    """Compute errors of differences on all rows from values of all groups."""
    index = records.roles.scores.index
    return {
        candidate: [
            (NOT_PAIRED if computed.has_error else NO_ERROR)
            if m.pooled
            else records_error(records, index(base), index(candidate), records.measures.index(m))
            for m, computed in zip(measures, with_clustered_errors(tuple(measures)), strict=True)
        ]
        for candidate in candidates
    }


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


def _error(plan: Plan, totals: SliceTotals, base: int, model: int, m: int) -> ErrorOfDifference:
    """Compute the error of the difference of a measure in a slice."""
    _, _, index, sums, states = totals
    measure = plan.measures[m]
    if sums.uses_buckets and loses_error(measure):
        return ErrorOfDifference(warning=MERGED)
    if isinstance(measure, PooledMeasure):
        rows, by_rows = sums.rows(index), sums.effective_groups(index)
        return pooled_error(states, model, measure, plan.threads, rows, by_rows)
    error = group_error(measure, m, sums.means[base], sums.means[model], sums.pairs[model], index)
    # How clusters compare is not known of buckets.
    return replace(error, clusters=None) if sums.uses_buckets else error


def values_by_slice(values: Iterable[MeasureValue]) -> SliceValues:
    """Arrange values by slicing and slice; slicings may share a label."""
    slices: SliceValues = {}
    for v in values:
        slices.setdefault((v.by, v.slice), {})[v.score, v.measure] = v
    return slices


def no_value(by: str, label: str, score: str, measure: Measure) -> MeasureValue:
    """Make the undefined value of a slice that a result does not have."""
    aggregate = "pooled" if measure.pooled else measure.aggregate
    nan, name = math.nan, measure.alias or ""
    return MeasureValue(
        score, label, str(measure), nan, 0, 0, {}, nan, nan, aggregate, by=by, name=name
    )


def _expressions(sides: Iterable[tuple[Labelled, Mapping[str, str]]]) -> dict[str, object]:
    """Return the expressions of the computed models of results, by new name."""
    return {
        name: expression
        for result, names in sides
        for score, expression in plain_value(result.meta.conventions.get("score", {})).items()
        if (name := names.get(score)) is not None
    }


def _common_meta(
    result: Labelled, other: Labelled, slicings: Sequence[str], expressions: Mapping[str, object]
) -> Meta:
    """Select the conventions that both results share, and all expressions."""
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
    for name in ROW_COUNTS:
        counts = _row_counts(result, other, name)
        if counts:
            common[name] = counts
    seconds = result.meta.seconds + other.meta.seconds
    return replace(result.meta, conventions=common, seconds=seconds)


def _row_counts(result: Labelled, other: Labelled, name: str) -> dict[str, Any]:
    """Return counts of rows, by model where two results differ."""
    own, others = (plain_value(each.meta.conventions.get(name, {})) for each in (result, other))
    if own == others:
        return dict(own)
    counts: dict[str, Any] = {}
    for reason in dict.fromkeys([*own, *others]):
        both = [each.get(reason, {"rows": 0}) for each in (others, own)]
        theirs, mine = (each["rows"] for each in both)
        if name == LEFT_OUT:
            by_model = {**dict.fromkeys(other.scores, theirs), **dict.fromkeys(result.scores, mine)}
            counts[reason] = {"rows": mine, "by_model": by_model}
        else:
            by_model = {model: n for each in both for model, n in each.get("by_model", {}).items()}
            counts[reason] = {"rows": max(theirs, mine)}
            counts[reason] |= {"by_model": by_model} if by_model else {}
    return counts


def _baseline_of(
    result: Labelled, paired: Paired | None, other: Labelled | None, requested: str | None
) -> str:
    if requested is None and other is not None and len(result.scores) == 1:
        return result.scores[0]
    if requested is None and paired is not None:
        return paired.baseline
    if requested is None:
        names = ", ".join(map(repr, result.scores))
        raise ArgumentError(f"baseline: must be one of {names}, got None; name one.")
    name = column_name("baseline", requested)
    require_baseline(name, result.scores)
    if other is None and len(result.scores) < 2:
        raise ArgumentError(
            f"this result has only the model {name!r}; pass the result of the other model, as in "
            "base.compare(candidate)."
        )
    return name


def _shared_measures(result: Labelled, other: Labelled) -> dict[str, str]:
    """Map the measures that both results have to their texts in the other.

    A baseline selects AUC's clustered error, which changes no value: it is the same measure.
    """
    of_value = {without_clustered_error(text): text for text in other.measures}
    found = {
        text: text if text in other.measures else of_value.get(without_clustered_error(text))
        for text in result.measures
    }
    shared = {text: theirs for text, theirs in found.items() if theirs is not None}
    if not shared:
        names = [list(each.names.values()) for each in (result, other)]
        if not set(names[0]).isdisjoint(names[1]):  # of measures with other options
            names = [list(each.measures) for each in (result, other)]
        raise ArgumentError(
            f"the results share no measure: one has {', '.join(names[0])}, the other "
            f"{', '.join(names[1])}; evaluate both with the same measures."
        )
    return shared


def _check_conventions(result: Labelled, other: Labelled, shared: Mapping[str, str]) -> None:
    """Raise if the conventions of two results differ."""
    left, right = (plain_value(r.meta.conventions) for r in (result, other))
    names = [
        name for name in dict.fromkeys([*left, *right]) if name not in _IGNORED + _ROW_CONVENTIONS
    ]
    pairs = [(name, left.get(name), right.get(name)) for name in names]
    left_options, right_options = left.get("measures") or {}, right.get("measures") or {}
    # Texts that differ have no other option than AUC's error.
    pairs += [
        (f"options of {text}", left_options.get(text), right_options.get(text))
        for text, theirs in shared.items()
        if text == theirs
    ]
    for name, left_value, right_value in pairs:
        if left_value != right_value:
            raise ArgumentError(
                f"the results have different conventions: {name} is {left_value!r} in one and "
                f"{right_value!r} in the other; evaluate both with the same."
            )
