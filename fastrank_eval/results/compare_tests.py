"""Test the difference of two models.

Join the groups of two results by their keys.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import check_options, checked, integer, one_of
from fastrank_eval._lib.arrow import arrow_column, decode_array
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import exp, exp_each, ratio
from fastrank_eval._lib.errors import ArgumentError, text_keys_hint
from fastrank_eval._lib.threads import choose_map, processors
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.engine.group_table import GroupTable, equal_neighbours
from fastrank_eval.engine.options import KEEP_GROUPS, KEEP_VALUES, OPTIONS
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.engine.totals import PooledStates
from fastrank_eval.groups.scan import key_text
from fastrank_eval.io.keys import encode_keys, group_ids
from fastrank_eval.measures import Measure, parse_measures
from fastrank_eval.measures.pooled import ClusteredMeasure, PooledMeasure
from fastrank_eval.results.differences import (
    CHANCE,
    ComparedValue,
    error_of_rela_impr,
    has_chance,
    rela_impr,
    slopes_of_rela_impr,
    verdict_on,
)
from fastrank_eval.stats.bootstrap import (
    REPLICATES,
    SEED,
    bootstrap,
    bootstrap_error,
    bootstrap_interval,
    bootstrap_p_value,
    randomisation_p_value,
    swap_models,
)
from fastrank_eval.stats.hypothesis_tests import (
    CORRECTIONS,
    PairedTest,
    adjust_p_values,
    clustered_test,
    group_differences,
    minimum_detectable_difference,
    paired_t,
    sign_test,
    wilcoxon,
)
from fastrank_eval.stats.intervals import (
    FEW_GROUPS,
    ErrorGroups,
    is_rounding,
    normal_quantile,
    t_quantile,
    zero_if_rounding,
)
from fastrank_eval.stats.means import (
    GroupPairs,
    MeanState,
    PairedState,
    cluster_differences,
)
from fastrank_eval.stats.moments import Differences
from fastrank_eval.stats.tally import add_groups


def join_groups(
    base: GroupTable,
    model: int,
    other: GroupTable,
    measures: Sequence[str],
    names: Mapping[str, str],
) -> tuple[GroupTable, dict[str, int]]:
    """Join the groups of two results by their keys.

    Parameters
    ----------
    base : GroupTable
    model : int
        Index of the baseline in `base`.
    other : GroupTable
    measures : sequence of str
        Measures that both results have.
    names : mapping of str to str
        New names of the models of `other`.

    Returns
    -------
    groups : GroupTable
        The baseline is the first model, the models of the other result follow. The groups of the
        baseline come first, in their order, then those that only the other result has.
    counts : dict of str to int
        Numbers of groups: in ``"both"``, ``"only_base"``, ``"only_candidate"``, and in both with
        different numbers of rows: ``"rows_differ"``.

    Raises
    ------
    ArgumentError
        If keys have different types, or a group lies in two clusters.
    """
    base_keys, other_keys = (
        [decode_array(key) for key in records.keys] for records in (base, other)
    )
    kinds = [[str(key.type) for key in keys] for keys in (base_keys, other_keys)]
    if kinds[0] != kinds[1]:
        raise ArgumentError(
            f"groups cannot be joined by their keys, which are {', '.join(kinds[0])} in one result "
            f"and {', '.join(kinds[1])} in the other; give both the same types."
            f"{text_keys_hint([*kinds[0], *kinds[1]])}"
        )
    match, new_rows = _match_keys(base_keys, other_keys)
    both = match >= 0
    size = len(match) + len(new_rows)
    base_rows, other_rows = np.full(size, -1), np.concatenate([match, new_rows])
    base_rows[: len(match)] = np.arange(len(match))
    common = [next(m for m in base.measures if str(m) == text) for text in measures]
    sides = [(base, model, base_rows), *((other, k, other_rows) for k in range(len(names)))]
    values, weights = np.full((len(sides), len(common), size), np.nan), {}
    weights_by_source: dict[tuple[int, int], np.ndarray] = {}
    for index, (records, k, rows) in enumerate(sides):
        for m, shared_measure in enumerate(common):
            if shared_measure.pooled:
                continue
            source = k, records.measures.index(shared_measure)
            values[index, m] = _take_or(records.values[source], rows, np.nan)
            if source in records.weights:
                weight = records.weights[source]
                weight_key = id(weight), id(rows)
                if weight_key not in weights_by_source:
                    weights_by_source[weight_key] = _take_or(weight, rows, 0.0)
                weights[index, m] = weights_by_source[weight_key]
    groups = GroupTable(
        replace(base.roles, scores=(base.roles.scores[model], *names.values())),
        tuple(common),
        np.concatenate([base.rows, other.rows[new_rows]]),
        np.concatenate([base.positives, other.positives[new_rows]]),
        values,
        weights,
        tuple(
            pa.concat_arrays([a, b.take(arrow_column(new_rows)).cast(a.type)])
            for a, b in zip(base.keys, other_keys, strict=True)
        ),
    )
    _refuse_split_groups(groups)
    rows_differ = base.rows[both] != other.rows[match[both]]
    return groups, {
        "both": int(np.count_nonzero(both)),
        "only_base": int(np.count_nonzero(~both)),
        "only_candidate": len(new_rows),
        "rows_differ": int(np.count_nonzero(rows_differ)),
    }


def _refuse_split_groups(groups: GroupTable) -> None:
    """Raise if a group lies in one cluster in one result, and in another."""
    roles = groups.roles
    if not roles.nested:
        return
    columns = [decode_array(groups.keys[at]) for at in roles.inner]
    codes, firsts = encode_keys(columns)
    if len(firsts) < len(codes):
        second = int(np.flatnonzero(firsts[codes] != np.arange(len(codes)))[0])
        key = key_text(tuple(columns), roles.group, second)
        first, other = (
            key_text(groups.keys[: roles.outer], roles.cluster, row)
            for row in (int(firsts[codes[second]]), second)
        )
        raise ArgumentError(
            f"groups cannot be joined by their keys: the group {key} is in the cluster {first} in "
            f"one result and in {other} in the other; evaluate both with the same clusters, or "
            "name the columns of the cluster in group too if these are two groups."
        )


def _take_or(values: np.ndarray, rows: np.ndarray, default: float) -> np.ndarray:
    """Select values by row, `default` where the row is -1."""
    result = np.full(len(rows), default)
    present = rows >= 0
    result[present] = values[rows[present]]
    return result


def _match_keys(
    left: Sequence[pa.Array], right: Sequence[pa.Array]
) -> tuple[np.ndarray, np.ndarray]:
    """Find the right row of each left key, or -1; and rows only there."""
    groups = len(left[0])
    codes, firsts = encode_keys([pa.concat_arrays(pair) for pair in zip(left, right, strict=True)])
    row_of_code = np.full(len(firsts), -1)
    row_of_code[codes[groups:]] = np.arange(len(right[0]))
    return row_of_code[codes[:groups]], np.flatnonzero(firsts[codes[groups:]] >= groups)


_EVALUATE = f"evaluate with {KEEP_GROUPS}"


def require_groups(
    groups: GroupTable | None, shown: str, baseline: str | None, *, alone: bool
) -> None:
    """Raise unless the groups of a state can be compared by their keys."""
    if groups is None and alone:
        has = "has no baseline" if baseline is None else f"has baseline {baseline!r}"
        raise ArgumentError(
            f"{shown} {has}, and no values of groups for other comparisons; "
            f"evaluate with the requested baseline, baseline=... (--baseline), or {_EVALUATE}."
        )
    if groups is None:
        raise ArgumentError(f"{shown} has no keys of groups to join it with another; {_EVALUATE}.")
    ranks = [] if alone else groups.ranks()
    if ranks and equal_neighbours(ranks, np.lexsort(ranks[::-1])).any():
        raise ArgumentError(
            f"{shown} has groups that were merged in parts, so they cannot be joined with "
            "the groups of another state by their keys; evaluate the rows of a group together."
        )


def free_name(score: str, names: Collection[str]) -> str:
    """Rename a model until its name is free."""
    while score in names:
        score = f"other.{score}"
    return score


_NO_GROUPS = ErrorGroups(0)


@dataclass(frozen=True)
class ErrorOfDifference:
    """The standard error of a difference and the groups behind it.

    Parameters
    ----------
    se : float
        Standard error, with groups as clusters; NaN where unknown, 0 if no group differs from
        another.
    behind : ErrorGroups
        The groups behind the standard error.
    pairs : GroupPairs or None
        Comparison of the groups; None if they have no values.
    clusters : GroupPairs or None
        The same of nested clusters, by the weighted means of their groups.
    warning : str or None
        Why there is no standard error, if the measure is the reason.
    rela_impr_se : float
        Standard error of RelaImpr; NaN where unknown, or where the measure has no RelaImpr.
    rounding : float
        What rounding adds to the influences of groups; see `zero_if_rounding`.
    mean, deviation : float
        Unweighted mean and sample standard deviation of the differences in groups (or clusters)
        that both models use. NaN if there are too few.
    """

    se: float = math.nan
    behind: ErrorGroups = _NO_GROUPS
    pairs: GroupPairs | None = None
    clusters: GroupPairs | None = None
    warning: str | None = None
    rela_impr_se: float = math.nan
    rounding: float = 0.0
    mean: float = math.nan
    deviation: float = math.nan


#: For measures whose difference has no known error.
NO_ERROR = ErrorOfDifference(warning="pooled")
#: For slices of results, and for their measures of all rows: the sums of groups are not kept, so
#: they cannot be paired. An error without pairs would be too large for models on the same rows.
NOT_PAIRED = ErrorOfDifference(warning="not_paired")


def group_error(
    measure: Measure,
    m: int,
    base: MeanState,
    other: MeanState,
    paired: PairedState,
    slice_index: int = 0,
) -> ErrorOfDifference:
    """Compute the error of a difference of means or sums over groups.

    Parameters
    ----------
    measure : Measure
    m : int
        Index of the measure in the states.
    base, other : MeanState
        State of each model.
    paired : PairedState
        State of both models.
    slice_index : int
    """
    weighted = measure.weight != "uniform"
    is_sum = measure.aggregate == "sum"
    sides = [state.model_sums(m, weighted, [slice_index], is_sum=is_sum) for state in (base, other)]
    (mine,), (theirs,) = (side.moments() for side in sides)
    pairs, clusters = paired.pairs(m, slice_index), paired.clusters(m, slice_index)
    units = (clusters or pairs).groups
    # A value that rests on one group has no influences.
    fewest = min(mine.groups, theirs.groups)
    groups = units if fewest > 1 else fewest

    def differences(slopes: tuple[float, float] | None) -> tuple[float, float, Differences]:
        found = paired.differences(m, sides[0], sides[1], slopes)
        slope_a, slope_b = slopes or (1.0, 1.0)
        rounding = slope_a * mine.rounding + slope_b * theirs.rounding
        return zero_if_rounding(found.se, rounding, units), rounding, found

    is_geometric = measure.aggregate == "geometric mean" and not (
        math.isnan(mine.value) or math.isnan(theirs.value)
    )
    slopes = (exp(mine.value), exp(theirs.value)) if is_geometric else (1.0, 1.0)
    se, rounding, found = differences(None if is_sum else slopes)
    behind, rela_impr_se = ErrorGroups(groups), math.nan
    if not is_sum:
        by_weight = min(mine.by_weight, theirs.by_weight)
        behind = ErrorGroups(groups, by_weight, found.influence, difference=True)
        if has_chance(measure) and not math.isnan(rela_impr(theirs.value, mine.value)):
            rela_impr_se, _, _ = differences(slopes_of_rela_impr(theirs.value, mine.value))
    return ErrorOfDifference(
        se, behind, pairs, clusters, rela_impr_se=rela_impr_se, rounding=rounding, mean=found.mean,
        deviation=found.deviation,
    )  # fmt: skip


def records_error(records: GroupTable, base: int, model: int, m: int) -> ErrorOfDifference:
    """Compute the error of a difference of values of groups, by exact sums."""
    measure, clusters = records.measures[m], records.clusters
    nested = clusters is not None
    paired, states = PairedState(1, nested), [MeanState(1, nested) for _ in range(2)]
    values = [records.summands(index, m) for index in (base, model)]
    weights = [records.weights.get((index, m)) for index in (base, model)]
    ones = np.ones(len(values[0]), np.int64)
    add_groups(states, 0, values, weights, ones, ones, pair=paired)
    if clusters is not None:
        is_sum = measure.aggregate == "sum"
        for state, value, weight in zip(states, values, weights, strict=True):
            state.add_nested(0, value, weight, clusters, is_sum=is_sum)
        paired.add_nested(0, values, weights, clusters)
    return group_error(measure, 0, states[0], states[1], paired)


def pooled_error(
    pools: PooledStates, model: int, measure: PooledMeasure, threads: int, rows: int, by_rows: float
) -> ErrorOfDifference:
    """Compute the error of the difference of a measure of all rows together.

    Parameters
    ----------
    pools : PooledStates
        States of all rows, or of a slice.
    model : int
        Index of the candidate.
    measure : PooledMeasure
    threads, rows : int
        The number of threads that may share the work, and the number of rows.
    by_rows : float
        Effective number of groups by their rows.
    """
    error = pools.difference_error(model, measure, choose_map(threads, rows))
    if not error.clusters:
        return ErrorOfDifference(warning=error.warning)
    by_shares = by_rows if math.isnan(error.by_shares) else error.by_shares
    # Without `difference`, 7 to 10 % of the differences of AUC, whose influences are bounded, would
    # be false positives.
    is_linear = isinstance(measure, ClusteredMeasure)
    behind = ErrorGroups(error.clusters, by_shares, error.effective_groups, difference=is_linear)
    return ErrorOfDifference(error.se, behind, rounding=error.rounding)


#: Error and interval of models that are equal in every group.
_NO_DIFFERENCE = (0.0, 0.0, 0.0)
#: Why RelaImpr has no interval, or no value.
_NEAR, _NOT_ABOVE = "near_chance", "not_above_chance"


class _Difference(NamedTuple):
    """A difference and its test, before any correction."""

    rows: int
    measure: Measure
    base: MeasureValue
    candidate: MeasureValue
    error: ErrorOfDifference
    test: str
    delta: float
    degrees: float | None
    result: PairedTest


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
        Values of every group, for tests that need them. Slices are tested by standard errors.
    choices : Choices
    unit : {"group", "cluster"}
        What errors count.
    """
    by_slicing: dict[str | None, list[_Difference]] = {}
    for by, label, rows, errors in slices:
        of_slice = values[by, label]
        for candidate, of_measures in errors.items():
            pairs = [(of_slice[base, str(m)], of_slice[candidate, str(m)]) for m in measures]
            results: dict[int, PairedTest] = {}
            if by is None and records is not None and choices.needs_groups:
                deltas = {m: own.value - other.value for m, (other, own) in enumerate(pairs)}
                first, second = map(records.roles.scores.index, (base, candidate))
                results = group_tests(choices, records, first, second, deltas)
            by_slicing.setdefault(by, []).extend(
                _tested(rows, measure, *pairs[m], of_measures[m], choices, results.get(m))
                for m, measure in enumerate(measures)
            )
    return [row for own in by_slicing.values() for row in _corrected(own, choices, unit)]


def _tested(
    rows: int,
    measure: Measure,
    base: MeasureValue,
    candidate: MeasureValue,
    error: ErrorOfDifference,
    choices: Choices,
    result: PairedTest | None,
) -> _Difference:
    """Test a difference by the values of every group, or by its error."""
    delta, behind, test = candidate.value - base.value, error.behind, choices.test
    if result is None and test != "clustered_z":
        test = "clustered_t"
    degrees = None if test == "clustered_z" else behind.degrees
    values = base.value, candidate.value
    is_equal = error.se == 0 and behind.groups > 1
    if is_equal and is_rounding(delta, values, error.rounding, behind.groups):
        delta, result = 0.0, PairedTest(0.0, 1.0, behind.groups, "no_difference", _NO_DIFFERENCE)
    elif result is None or behind.groups < 2 or (error.se == 0 and test in _BY_VARIANCE):
        result = clustered_test(delta, error.se, behind.groups, degrees)
    elif error.se == 0:
        result = replace(result, interval=None)
    return _Difference(rows, measure, base, candidate, error, test, delta, degrees, result)


def _corrected(own: Sequence[_Difference], choices: Choices, unit: str) -> Iterator[ComparedValue]:
    """Make the records of differences whose p-values are corrected together."""
    p_values = np.array([each.result.p_value for each in own], np.float64)
    comparisons = int(np.count_nonzero(~np.isnan(p_values)))
    alpha = 1 - choices.confidence
    if choices.correction != "none":
        alpha /= max(comparisons, 1)
    adjusted = adjust_p_values(p_values, choices.correction).tolist()
    for each, p_adjusted in zip(own, adjusted, strict=True):
        rows, measure, base, candidate, error, test, delta, degrees, result = each
        groups = error.behind.groups
        warning = _warning(delta, error, result)
        se, low, high = result.interval or _interval_of(
            delta, error.se, groups, choices.confidence, degrees
        )
        record = ComparedValue(
            score=candidate.score,
            baseline=base.score,
            by=candidate.by,
            slice=candidate.slice,
            measure=candidate.measure,
            name=candidate.name,
            aggregate=candidate.aggregate,
            base_value=base.value,
            value=candidate.value,
            delta=delta,
            relative=delta / abs(base.value) if base.value else math.nan,
            se=se,
            ci_low=low,
            ci_high=high,
            test=test,
            statistic=result.statistic,
            p_value=result.p_value,
            p_adjusted=p_adjusted,
            comparisons=comparisons,
            rows=rows,
            groups=groups,
            degrees=math.nan if degrees is None or groups < 2 else degrees,
            mdd=_detectable(each, se, alpha, choices.replicates),
            warning=warning,
            **_rela_impr(each, warning, choices.confidence),
            **_counts(error, measure),
        )
        yield replace(record, verdict=verdict_on(record, measure, choices.confidence, unit))


def _counts(error: ErrorOfDifference, measure: Measure) -> dict[str, Any]:
    """Return the counts of groups and clusters that differ, if known."""
    if error.pairs is None:
        return {}
    varies = error.deviation > 2.0**-50 * abs(error.mean) and error.se != 0
    found: dict[str, Any] = {
        "only_base": error.pairs.only_base,
        "only_candidate": error.pairs.only_other,
        "effect_size": error.mean / error.deviation if varies else math.nan,
    }
    for prefix, pairs in (("", error.pairs), ("cluster_", error.clusters)):
        if pairs is not None:
            sides = pairs.higher, pairs.lower
            wins, losses = sides if measure.higher_is_better else sides[::-1]
            counts = {"wins": wins, "ties": pairs.ties, "losses": losses}
            found |= {prefix + name: number for name, number in counts.items()}
    return found


def _detectable(each: _Difference, se: float, alpha: float, replicates: int) -> float:
    """Compute the minimum detectable difference; NaN for none."""
    error, groups = each.error, each.error.behind.groups
    if not se > 0 or groups < 2:  # without variance the test has no p-value
        return math.nan
    if each.test in _SIGN_TESTS:
        pairs, differing = error.pairs, 0
        if error.clusters is not None:
            differing = groups - error.clusters.ties
        elif pairs is not None:
            differing = pairs.higher + pairs.lower + pairs.only_base + pairs.only_other
        least = math.ldexp(1.0, 1 - differing)
        if each.test in RESAMPLING:
            least = max(least, 1 / (replicates + 1))
        if least > alpha:
            return math.nan
    return minimum_detectable_difference(se, alpha=alpha, degrees=each.degrees)


def _interval_of(
    value: float, se: float, groups: int, confidence: float, degrees: float | None
) -> tuple[float, float, float]:
    """Compute error and interval; NaN where the error is 0 or unknown."""
    if math.isnan(value) or groups < 2 or not se:
        return math.nan, math.nan, math.nan
    quantile = normal_quantile(confidence) if degrees is None else t_quantile(confidence, degrees)
    return se, value - quantile * se, value + quantile * se


def _warning(delta: float, error: ErrorOfDifference, result: PairedTest) -> str | None:
    if math.isnan(delta):
        return "undefined"
    if error.warning:
        return error.warning
    behind = error.behind
    if behind.groups < 2:
        return "one_group" if behind.groups else None
    if not error.se or result.note == "no_variance":
        return "no_difference" if result.interval == _NO_DIFFERENCE else "no_variance"
    return "few_groups" if behind.effective_groups < FEW_GROUPS else None


def _rela_impr(each: _Difference, warning: str | None, confidence: float) -> dict[str, Any]:
    """Return the fields of RelaImpr, with an interval if that is known."""
    _, measure, base, candidate, error, _, delta, degrees, _ = each
    if not has_chance(measure):
        return {}
    improvement = rela_impr(candidate.value, base.value)
    if math.isnan(improvement):
        return {"rela_impr_warning": None if math.isnan(delta) else _NOT_ABOVE}
    is_equal, groups = warning == "no_difference", error.behind.groups
    found: dict[str, Any] = {"rela_impr": 0.0 if is_equal else improvement}
    _, least, _ = _interval_of(base.value, base.se, groups, confidence, degrees)
    if least <= CHANCE:
        return {**found, "rela_impr_warning": _NEAR}
    se = error.rela_impr_se
    if error.pairs is None:
        se = error_of_rela_impr(candidate.value, base.value, candidate.se, base.se, error.se)
    interval = _interval_of(improvement, se, groups, confidence, degrees)
    names = "rela_impr_se", "rela_impr_ci_low", "rela_impr_ci_high"
    return found | dict(zip(names, _NO_DIFFERENCE if is_equal else interval, strict=True))


_ERROR_TESTS = ("clustered_t", "clustered_z")
#: Tests that divide by a standard error: without variance they have no p-value.
_BY_VARIANCE = (*_ERROR_TESTS, "paired_t")
_PAIRED_TESTS = {"paired_t": paired_t, "wilcoxon": wilcoxon, "sign": sign_test}
#: Tests that draw replicates: they have no p-value below 1 / (replicates + 1).
RESAMPLING = ("randomisation", "bootstrap")
#: Tests without p-values below 2^(1 - n) for n groups that differ.
_SIGN_TESTS = ("wilcoxon", "sign", *RESAMPLING)
#: Tests that need the values of every group.
NEED_GROUPS = (*_PAIRED_TESTS, *RESAMPLING)
TESTS = (*_ERROR_TESTS, *NEED_GROUPS)


def default_measures(test: str) -> str:
    """Return the measures that are compared if none is named."""
    if test not in NEED_GROUPS:
        return DEFAULT_MEASURES
    return ",".join(str(m) for m in parse_measures(DEFAULT_MEASURES) if not m.pooled)


@dataclass(frozen=True)
class Choices:
    """The options of a comparison.

    Parameters
    ----------
    test : str
        One of `TESTS`.
    correction : {"holm", "bh", "none"}
    confidence : float
    replicates, seed : int
        For randomisation and bootstrap.
    threads : int
    """

    test: str
    correction: str
    confidence: float
    replicates: int
    seed: int
    threads: int

    @property
    def needs_groups(self) -> bool:
        """Whether the test needs the values of every group."""
        return self.test in NEED_GROUPS


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


def refuse_without_values(test: str) -> None:
    """Raise if a test needs values of groups, which were not kept."""
    if test in NEED_GROUPS:
        raise ArgumentError(
            f"test={test!r} reads the values of every group, which were not kept; evaluate with "
            f"{KEEP_VALUES}, or for a state with {KEEP_GROUPS}, or choose test='clustered_t'."
        )


def refuse_pooled(test: str, measures: Sequence[Measure]) -> None:
    """Raise if a test needs values of groups and a measure has none."""
    pooled = [str(m) for m in measures if m.pooled]
    if test in NEED_GROUPS and pooled:
        hint = " (GAUC is the AUC of each group)" if "AUC" in pooled else ""
        raise ArgumentError(
            f"test={test!r} compares values of every group, and {', '.join(pooled)} "
            f"{'pools' if len(pooled) == 1 else 'pool'} the rows of all groups; leave "
            f"{'it' if len(pooled) == 1 else 'them'} out{hint}, or choose test='clustered_t'."
        )


def group_tests(
    choices: Choices, records: GroupTable, base: int, model: int, deltas: Mapping[int, float]
) -> dict[int, PairedTest]:
    """Test measures of two models by the values of every group.

    Nested clusters take the place of groups.

    Parameters
    ----------
    choices : Choices
        With a test that needs these values.
    records : GroupTable
    base, model : int
        Indices of the two models.
    deltas : mapping of int to float
        Differences by the index of the measure, as the tests; no measure pools rows.
    """
    if choices.test in _PAIRED_TESTS:
        test = _PAIRED_TESTS[choices.test]
        return {m: test(_differences(records, base, model, m)) for m in deltas}
    pairs = {
        m: _Pair(records.measures[m], delta, *_terms(records, base, model, m))
        for m, delta in deltas.items()
    }
    ids = group_ids(records.unit_keys)
    tests = _randomisation_tests if choices.test == "randomisation" else _bootstrap_tests
    try:
        return tests(choices, pairs, ids)
    except MemoryError:
        raise ArgumentError(
            f"replicates: must be so few that their sums fit memory, got {choices.replicates:,}; "
            "pass fewer, such as 100000."
        ) from None


@dataclass(frozen=True)
class _Pair:
    """The difference of a measure and the terms of both models."""

    measure: Measure
    delta: float
    base_terms: np.ndarray
    model_terms: np.ndarray

    def difference(self, base_sums: np.ndarray, model_sums: np.ndarray) -> np.ndarray:
        """Compute differences from sums of terms, each of shape (replicates, 2)."""
        return _value(self.measure, model_sums) - _value(self.measure, base_sums)

    def differing(self) -> int:
        """Count the groups in which the terms of both models differ."""
        return int(np.count_nonzero((self.base_terms != self.model_terms).any(axis=0)))

    @property
    def least_p(self) -> float:
        """The p-value of groups that all differ in one direction."""
        return math.ldexp(1.0, 1 - max(self.differing(), 1))


def _terms(records: GroupTable, base: int, model: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Stack the terms of both models, summed over nested clusters."""
    sides = [np.stack(records.terms(index, m)) for index in (base, model)]
    if records.clusters is not None:
        sides = [np.stack([*map(records.clusters.sum, side)]) for side in sides]
    return sides[0], sides[1]


def _differences(records: GroupTable, base: int, model: int, m: int) -> np.ndarray:
    """Subtract values, NaN unless both models use the group.

    Of a nested cluster it is the weighted mean over its groups.
    """
    if records.clusters is None:
        return group_differences(*records.terms(base, m), *records.terms(model, m))
    first, second = (records.summands(index, m) for index in (base, model))
    _, weights = records.terms(base, m)
    means, weights, _ = cluster_differences(first, second, weights, records.clusters)
    return np.where(weights > 0, means, np.nan)


def _value(measure: Measure, sums: np.ndarray) -> np.ndarray:
    """Compute values from weighted sums, NaN without weight."""
    numerator, denominator = sums[:, 0], sums[:, 1]
    if measure.aggregate == "sum":
        return np.where(denominator > 0, numerator, np.nan)
    values = ratio(numerator, denominator)
    return exp_each(values) if measure.aggregate == "geometric mean" else values


def _randomisation_tests(
    choices: Choices, pairs: Mapping[int, _Pair], ids: np.ndarray
) -> dict[int, PairedTest]:
    # A measure whose patterns can all be tried is tested alone: other measures do not change it.
    differing = {m: pair.differing() for m, pair in pairs.items()}
    alone = [m for m, n in differing.items() if n < choices.replicates.bit_length()]
    others = [m for m in pairs if m not in alone]
    results = {}
    for members in filter(None, [*([m] for m in alone), others]):
        base_terms, model_terms = (
            np.concatenate([getattr(pairs[m], side) for m in members])
            for side in ("base_terms", "model_terms")
        )
        replicates = swap_models(
            base_terms, model_terms, ids, choices.replicates, choices.seed, threads=choices.threads
        )
        sides = (
            np.split(sums, len(members), axis=1) for sums in (replicates.sums_a, replicates.sums_b)
        )
        for m, base_sums, model_sums in zip(members, *sides, strict=True):
            differences = pairs[m].difference(base_sums, model_sums)
            p_value = randomisation_p_value(pairs[m].delta, differences, replicates.exact)
            results[m] = PairedTest(pairs[m].delta, max(p_value, pairs[m].least_p), len(ids))
    return results


def _bootstrap_tests(
    choices: Choices, pairs: Mapping[int, _Pair], ids: np.ndarray
) -> dict[int, PairedTest]:
    results = {}
    # A sum is not divided by the number of groups drawn, so that number must be the original one.
    for kind, members in (
        ("poisson", [m for m, pair in pairs.items() if pair.measure.aggregate != "sum"]),
        ("multinomial", [m for m, pair in pairs.items() if pair.measure.aggregate == "sum"]),
    ):
        if not members:
            continue
        sums = bootstrap(
            np.concatenate(
                [side for m in members for side in (pairs[m].base_terms, pairs[m].model_terms)]
            ),
            ids,
            choices.replicates,
            choices.seed,
            kind=kind,
            threads=choices.threads,
        )
        sides = np.split(sums, 2 * len(members), axis=1)
        for m, base_sums, model_sums in zip(members, sides[::2], sides[1::2], strict=True):
            values = pairs[m].difference(base_sums, model_sums)
            pair = pairs[m]
            interval = bootstrap_interval(pair.delta, values, choices.confidence)
            if pair.differing() and pair.least_p > 1 - choices.confidence:
                interval = math.nan, math.nan
            results[m] = PairedTest(
                pair.delta,
                max(bootstrap_p_value(pair.delta, values), pair.least_p),
                len(ids),
                interval=(bootstrap_error(values), *interval),
            )
    return results
