"""Test the difference of two models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fastrank_eval._lib.elementary import exp, exp_each
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.threads import sharing
from fastrank_eval.analysis.attribution import (
    CHANCE,
    error_of_rela_impr,
    has_chance,
    rela_impr,
    slopes_of_rela_impr,
)
from fastrank_eval.analysis.compared_value import ComparedValue
from fastrank_eval.analysis.comparison_slices import verdict_on
from fastrank_eval.analysis.group_join import GroupRecords, group_ids
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.engine.totals import RowStates
from fastrank_eval.measures import Measure
from fastrank_eval.measures.pooled import ClusteredMeasure, PooledMeasure
from fastrank_eval.stats.bootstrap import (
    bootstrap,
    bootstrap_error,
    bootstrap_interval,
    bootstrap_p_value,
    randomisation_p_value,
    swapped,
)
from fastrank_eval.stats.hypothesis_tests import (
    PairedTest,
    adjusted,
    clustered_t,
    clustered_z,
    group_differences,
    paired_t,
    sign_test,
    wilcoxon,
)
from fastrank_eval.stats.intervals import FEW_GROUPS, Support, normal_quantile, t_quantile
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.paired import (
    GroupPairs,
    PairedState,
    error_of_difference,
    error_of_sums,
)
from fastrank_eval.stats.power import minimum_detectable_difference

__all__ = [
    "NEED_GROUPS",
    "NOT_PAIRED",
    "NO_ERROR",
    "RESAMPLING",
    "TESTS",
    "Choices",
    "Evidence",
    "Tested",
    "by_error",
    "by_groups",
    "compared",
    "compared_model",
    "corrected",
    "of_groups",
    "of_pool",
    "refuse_pooled",
]


@dataclass(frozen=True, slots=True)
class Evidence:
    """How sure the difference of a measure is.

    Parameters
    ----------
    se : float
        Its standard error, groups being clusters; NaN where none is known.
    support : Support
        The groups behind it.
    pairs : GroupPairs or None
        How the groups compare; None where they have no values.
    caution : str or None
        Why no standard error is known, where the measure is the reason.
    rela_impr_se : float
        Standard error of RelaImpr; NaN where it is not known, or the measure has none.
    """

    se: float = math.nan
    support: Support = field(default_factory=lambda: Support(0))
    pairs: GroupPairs | None = None
    caution: str | None = None
    rela_impr_se: float = math.nan


#: Of measures whose difference has no known error.
NO_ERROR = Evidence(caution="pooled")
#: Of slices of results: groups are not known by slice, so that they cannot be paired. An error
#: without pairs would be too large for models on the same rows.
NOT_PAIRED = Evidence(caution="not_paired")


def of_groups(
    measure: Measure, m: int, base: MeanState, other: MeanState, paired: PairedState, line: int = 0
) -> Evidence:
    """The evidence on a mean, geometric mean or sum over groups.

    Parameters
    ----------
    measure : Measure
    m : int
        Its place in the states.
    base, other : MeanState
        Of either model alone.
    paired : PairedState
        Of the two.
    line : int
        Of which slice.
    """
    weighted = measure.weight != "uniform"
    mine, theirs = base.moments(m, weighted, line), other.moments(m, weighted, line)
    cross, pairs = paired.cross(m, line), paired.pairs(m, line)
    if measure.aggregate == "sum":
        se = error_of_sums(mine, theirs, cross, pairs.groups)
        return Evidence(se, Support(pairs.groups), pairs)
    slopes = 1.0, 1.0
    means = base.mean(m, weighted, line), other.mean(m, weighted, line)
    if measure.aggregate == "geometric mean" and not any(map(math.isnan, means)):
        slopes = exp(means[0]), exp(means[1])
    se = error_of_difference(mine, theirs, cross, pairs.groups, slopes)
    support, rela_impr_se = paired.support(m, mine, theirs, line), math.nan
    if has_chance(measure) and not math.isnan(rela_impr(means[1], means[0])):
        slopes = slopes_of_rela_impr(means[1], means[0])
        rela_impr_se = error_of_difference(mine, theirs, cross, pairs.groups, slopes)
    return Evidence(se, support, pairs, rela_impr_se=rela_impr_se)


def of_pool(
    pools: RowStates, model: int, measure: PooledMeasure, threads: int, rows: int, by_rows: float
) -> Evidence:
    """The evidence on a measure of all rows together, whose groups have no values.

    Parameters
    ----------
    pools : RowStates
        Of all rows, or of a slice.
    model : int
        The candidate.
    measure : PooledMeasure
    threads, rows : int
        How many threads may share how many rows.
    by_rows : float
        Groups that carry the variance, by their rows.
    """
    se, groups, carriers = pools.difference_error(model, measure, sharing(threads, rows))
    if not groups:
        return NO_ERROR
    # Differences of AUC, whose influences are bounded, have 7 to 10 % false ones by these alone.
    return Evidence(
        se, Support(groups, by_rows, carriers, difference=isinstance(measure, ClusteredMeasure))
    )


#: Differences that vary by no more than this share of their mean vary by rounding.
_ROUNDING = 2.0**-50
#: Why RelaImpr has no interval, or no value.
_NEAR, _NOT_ABOVE = "near_chance", "not_above_chance"


def compared(
    measure: Measure,
    base: MeasureValue,
    candidate: MeasureValue,
    evidence: Evidence,
    choices: Choices,
    tested: Tested | None = None,
) -> ComparedValue:
    """One measure of two models, as yet without what depends on the number of comparisons.

    Parameters
    ----------
    measure : Measure
    base, candidate : MeasureValue
    evidence : Evidence
    choices : Choices
    tested : Tested, optional
        By the values of every group; by default the difference is tested by its standard error.
    """
    delta = candidate.value - base.value
    test = choices.test
    if tested is None:
        test = test if test == "clustered_z" else "clustered_t"
        tested = by_error(test, delta, evidence)
    se, low, high = tested.interval or _around(delta, evidence, choices.confidence, test)
    line = ComparedValue(
        score=candidate.score,
        baseline=base.score,
        by=candidate.by,
        slice=candidate.slice,
        measure=candidate.measure,
        aggregate=candidate.aggregate,
        base_value=base.value,
        value=candidate.value,
        delta=delta,
        relative=delta / abs(base.value) if base.value else math.nan,
        se=se,
        ci_low=low,
        ci_high=high,
        test=test,
        statistic=tested.statistic,
        p_value=tested.p_value,
        groups=evidence.support.groups,
        degrees=_degrees(evidence, test),
        caution=_caution(delta, evidence, tested),
    )
    if has_chance(measure):
        line = _over_chance(line, base, candidate, evidence, choices)
    pairs = evidence.pairs
    if pairs is None:
        return line
    varies = pairs.deviation > _ROUNDING * abs(pairs.mean)
    wins, losses = pairs.higher, pairs.lower
    if not measure.higher_is_better:
        wins, losses = losses, wins
    return replace(
        line,
        wins=wins,
        ties=pairs.ties,
        losses=losses,
        only_base=pairs.only_base,
        only_candidate=pairs.only_other,
        effect_size=pairs.mean / pairs.deviation if varies else math.nan,
    )


def compared_model(
    measures: Sequence[Measure],
    base: Sequence[MeasureValue],
    candidate: Sequence[MeasureValue],
    evidence: Sequence[Evidence],
    choices: Choices,
    kept: GroupRecords | None,
) -> list[ComparedValue]:
    """Every measure of two models, as yet without what depends on the number of comparisons.

    Parameters
    ----------
    measures : sequence of Measure
    base, candidate : sequence of MeasureValue
        Of either model, a measure each.
    evidence : sequence of Evidence
        On their differences.
    choices : Choices
    kept : GroupRecords or None
        Values of every group, for tests that need them; None: differences are tested by their
        standard errors.
    """
    tests: dict[int, Tested] = {}
    if kept is not None and choices.needs_groups:
        deltas = {m: other.value - base[m].value for m, other in enumerate(candidate)}
        places = [kept.scores.index(side[0].score) for side in (base, candidate)]
        tests = by_groups(choices, kept, places[0], places[1], deltas)
    return [
        compared(measure, base[m], candidate[m], evidence[m], choices, tests.get(m))
        for m, measure in enumerate(measures)
    ]


def corrected(
    lines: Sequence[ComparedValue], measures: Mapping[str, Measure], choices: Choices
) -> list[ComparedValue]:
    """Lines that are compared together, with adjusted p-values and verdicts.

    Parameters
    ----------
    lines : sequence of ComparedValue
    measures : mapping of str to Measure
        By their text.
    choices : Choices
    """
    p_values = np.array([line.p_value for line in lines], np.float64)
    number = int(np.count_nonzero(~np.isnan(p_values)))
    # Of the least confidences the difference is rounded to 1.
    alpha = min(1 - choices.confidence, math.nextafter(1.0, 0.0))
    if choices.correction != "none":
        alpha /= max(number, 1)
    found = []
    for line, p_value in zip(lines, adjusted(p_values, choices.correction).tolist(), strict=True):
        line = replace(
            line, p_adjusted=p_value, comparisons=number, mdd=_least_detectable(line, alpha)
        )
        verdict = verdict_on(line, measures[line.measure], choices.confidence)
        found.append(replace(line, verdict=verdict))
    return found


def _around(
    delta: float, evidence: Evidence, confidence: float, test: str
) -> tuple[float, float, float]:
    """The standard error and the interval about a difference; NaN where none is known."""
    se = evidence.se
    if math.isnan(delta) or math.isnan(se) or evidence.support.groups < 2:
        return math.nan, math.nan, math.nan
    if test == "clustered_z":
        reach = normal_quantile(confidence) * se
    else:
        reach = t_quantile(confidence, evidence.support.degrees) * se
    return se, delta - reach, delta + reach


def _degrees(evidence: Evidence, test: str) -> float:
    """Return the degrees of freedom of the standard error; NaN where the test has none."""
    if test == "clustered_z" or evidence.support.groups < 2:
        return math.nan
    return evidence.support.degrees


def _caution(delta: float, evidence: Evidence, tested: Tested) -> str | None:
    if math.isnan(delta):
        return "undefined"
    if evidence.caution:
        return evidence.caution
    support = evidence.support
    if support.groups < 2:
        return "one_group" if support.groups else None
    if not delta and not evidence.se:
        return "no_difference"
    if tested.note == "no_variance":
        return "no_variance"
    return "few_groups" if support.effective_groups < FEW_GROUPS else None


def _least_detectable(line: ComparedValue, alpha: float) -> float:
    if not line.se > 0 or line.groups < 2:  # without variance the test has no p-value
        return math.nan
    degrees = None if math.isnan(line.degrees) else line.degrees
    return minimum_detectable_difference(line.se, alpha=alpha, degrees=degrees)


def _over_chance(
    line: ComparedValue,
    base: MeasureValue,
    candidate: MeasureValue,
    evidence: Evidence,
    choices: Choices,
) -> ComparedValue:
    """Add RelaImpr with its interval, where the baseline is far enough from chance for one."""
    found = rela_impr(candidate.value, base.value)
    if math.isnan(found):
        return replace(line, rela_impr_caution=None if math.isnan(line.delta) else _NOT_ABOVE)
    line = replace(line, rela_impr=found)

    def around(value: float, se: float) -> tuple[float, float, float]:
        return _around(value, replace(evidence, se=se), choices.confidence, line.test)

    _, least, _ = around(base.value, base.se)
    if least <= CHANCE:
        return replace(line, rela_impr_caution=_NEAR)
    se = evidence.rela_impr_se
    if evidence.pairs is None:
        se = error_of_rela_impr(candidate.value, base.value, candidate.se, base.se, evidence.se)
    se, low, high = around(found, se)
    return replace(line, rela_impr_se=se, rela_impr_ci_low=low, rela_impr_ci_high=high)


_BY_ERROR = ("clustered_t", "clustered_z")
_BY_DIFFERENCES = {"paired_t": paired_t, "wilcoxon": wilcoxon, "sign": sign_test}
#: Those that draw replicates.
RESAMPLING = ("randomisation", "bootstrap")
#: Those that read one difference for each group or draw groups: they need values of every group.
NEED_GROUPS = (*_BY_DIFFERENCES, *RESAMPLING)
TESTS = (*_BY_ERROR, *NEED_GROUPS)


@dataclass(frozen=True, slots=True)
class Choices:
    """How models are compared.

    Parameters
    ----------
    test : str
        One of `TESTS`.
    correction : {"holm", "bh", "none"}
    confidence : float
    replicates, seed : int
        Of randomisation and bootstrap.
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
        """Whether values of every group are needed."""
        return self.test in NEED_GROUPS


@dataclass(frozen=True, slots=True)
class Tested:
    """What a test says of one measure of one candidate.

    Parameters
    ----------
    statistic, p_value : float
    note : str or None
        As of `PairedTest`.
    interval : tuple of float, optional
        Standard error and ends of the interval, where the test has its own.
    """

    statistic: float
    p_value: float
    note: str | None = None
    interval: tuple[float, float, float] | None = None


def refuse_pooled(test: str, measures: Sequence[Measure]) -> None:
    """Refuse measures of all rows together under a test that needs values of every group."""
    pooled = [str(m) for m in measures if m.pooled]
    if test in NEED_GROUPS and pooled:
        kin = " (GAUC is the AUC of each group)" if "AUC" in pooled else ""
        raise ArgumentError(
            f"test={test!r} compares values of every group, and {', '.join(pooled)} "
            f"{'pools' if len(pooled) == 1 else 'pool'} the rows of all groups; leave "
            f"{'it' if len(pooled) == 1 else 'them'} out{kin}, or choose test='clustered_t'."
        )


def by_error(test: str, delta: float, evidence: Evidence) -> Tested:
    """Test a difference by its standard error: ``clustered_z`` if chosen, else ``clustered_t``."""
    support = evidence.support
    if test == "clustered_z":
        return _said(clustered_z(delta, evidence.se, support.groups))
    return _said(clustered_t(delta, evidence.se, support.groups, support.degrees))


def by_groups(
    choices: Choices, kept: GroupRecords, base: int, model: int, deltas: Mapping[int, float]
) -> dict[int, Tested]:
    """Test measures of two models by the values of every group.

    Parameters
    ----------
    choices : Choices
        With a test that needs them.
    kept : GroupRecords
    base, model : int
        Places of the two models.
    deltas : mapping of int to float
        Differences of measures, none of which pools rows, by their places.

    Returns
    -------
    dict of int to Tested
        By place.
    """
    pairs = {
        m: _Pair(kept.measures[m], delta, *_terms(kept, base, model, m))
        for m, delta in deltas.items()
    }
    if choices.test in _BY_DIFFERENCES:
        test = _BY_DIFFERENCES[choices.test]
        return {
            m: _said(test(group_differences(*pair.mine, *pair.theirs))) for m, pair in pairs.items()
        }
    ids = group_ids(kept.keys)
    if choices.test == "randomisation":
        return _by_randomisation(choices, pairs, ids)
    return _by_bootstrap(choices, pairs, ids)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A measure's difference and the terms of two models that it comes of."""

    measure: Measure
    delta: float
    mine: np.ndarray
    theirs: np.ndarray

    def difference(self, mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        """Of the values that sums of terms come to, each of shape (replicates, 2)."""
        return _value(self.measure, theirs) - _value(self.measure, mine)

    def differing(self) -> int:
        """Groups of which the models' terms are not the same."""
        return int(np.count_nonzero((self.mine != self.theirs).any(axis=0)))


def _terms(kept: GroupRecords, base: int, model: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return np.stack(kept.terms(base, m)), np.stack(kept.terms(model, m))


def _value(measure: Measure, sums: np.ndarray) -> np.ndarray:
    """What sums of weighted values and of weights come to; NaN without weight."""
    above, below = sums[:, 0], sums[:, 1]
    found = np.full(len(sums), np.nan)
    there = below > 0
    if measure.aggregate == "sum":
        found[there] = above[there]
        return found
    np.divide(above, below, out=found, where=there)
    return exp_each(found) if measure.aggregate == "geometric mean" else found


def _said(test: PairedTest) -> Tested:
    return Tested(test.statistic, test.p_value, test.note)


def _by_randomisation(
    choices: Choices, pairs: Mapping[int, _Pair], ids: np.ndarray
) -> dict[int, Tested]:
    # A measure whose patterns can all be tried is tried alone: what else is asked for changes
    # nothing.
    differing = {m: pair.differing() for m, pair in pairs.items()}
    alone = [m for m, n in differing.items() if n < 32 and 1 << n <= choices.replicates]
    together = [m for m in pairs if m not in alone]
    found = {}
    for members in [*([m] for m in alone), together]:
        if not members:
            continue
        mine, theirs = (
            np.concatenate([getattr(pairs[m], side) for m in members])
            for side in ("mine", "theirs")
        )
        drawn = swapped(
            mine, theirs, ids, choices.replicates, choices.seed, threads=choices.threads
        )
        for place, m in enumerate(members):
            here = slice(2 * place, 2 * place + 2)
            differences = pairs[m].difference(drawn.sums_a[:, here], drawn.sums_b[:, here])
            p_value = randomisation_p_value(pairs[m].delta, differences, drawn.exact)
            found[m] = Tested(pairs[m].delta, p_value)
    return found


def _by_bootstrap(
    choices: Choices, pairs: Mapping[int, _Pair], ids: np.ndarray
) -> dict[int, Tested]:
    found = {}
    # The number of groups drawn has to be that of the groups where a sum is not divided by it.
    for kind, members in (
        ("poisson", [m for m, pair in pairs.items() if pair.measure.aggregate != "sum"]),
        ("multinomial", [m for m, pair in pairs.items() if pair.measure.aggregate == "sum"]),
    ):
        if not members:
            continue
        sums = bootstrap(
            np.concatenate([side for m in members for side in (pairs[m].mine, pairs[m].theirs)]),
            ids,
            choices.replicates,
            choices.seed,
            kind=kind,
            threads=choices.threads,
        )
        for place, m in enumerate(members):
            at = 4 * place
            values = pairs[m].difference(sums[:, at : at + 2], sums[:, at + 2 : at + 4])
            interval = bootstrap_interval(pairs[m].delta, values, choices.confidence)
            found[m] = Tested(
                pairs[m].delta,
                bootstrap_p_value(pairs[m].delta, values),
                interval=(bootstrap_error(values), *interval),
            )
    return found
