"""What the sums over groups of two models say of their difference."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from fastrank_eval.elementary import exp
from fastrank_eval.engine import sharing
from fastrank_eval.mean_state import MeanState
from fastrank_eval.measures import Measure
from fastrank_eval.measures.pooled_measure import ClusteredMeasure, PooledMeasure
from fastrank_eval.paired_state import (
    GroupPairs,
    PairedState,
    error_of_difference,
    error_of_sums,
)
from fastrank_eval.relative_improvement import has_chance, rela_impr, slopes_of_rela_impr
from fastrank_eval.tally import PoolSet
from fastrank_eval.uncertainty import Support

__all__ = ["NOT_PAIRED", "NO_ERROR", "Evidence", "of_groups", "of_pool"]


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
    pools: PoolSet, model: int, measure: PooledMeasure, threads: int, rows: int, by_rows: float
) -> Evidence:
    """The evidence on a measure of all rows together, whose groups have no values.

    Parameters
    ----------
    pools : PoolSet
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
