"""Measure average precision, over relevant rows or over recall."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from fastrank_eval._lib.arguments import number, one_of
from fastrank_eval._lib.elementary import log1p_each, ratio
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import inlined, kernel
from fastrank_eval.measures.base import (
    REL,
    WEIGHT,
    GroupFunction,
    Measure,
    Param,
    at_most,
    best_with_gain,
    gaining_block,
    ranks_in_sight,
    relevant_block,
)
from fastrank_eval.measures.gain import LINEAR_GAIN, PositiveGain
from fastrank_eval.measures.pooled import PooledValue, SteppedMeasure
from fastrank_eval.stats.score_runs import RocSteps

_OVER = ("relevant", "min", "retrieved")
_RELEVANT, _MIN, _RETRIEVED = range(3)


@inlined
def sum_of_precisions(group, rows, options):  # type: ignore[no-untyped-def]
    """Sum the precisions at relevant ranks.

    A block of n rows with r relevant ones follows c rows with A relevant ones. Of its ranks, m are
    above the cutoff. It adds
    r/n [ (A + 1) dH + (r - 1)/(n - 1) (m - (c + 1) dH) ],  dH = H(c + m) - H(c).
    """
    total = 0.0
    before = 0
    e = group.first
    while e < group.end and rows.above[e] < group.retrieved:
        c, n, e, r = relevant_block(rows, options.rel, e, group.end)
        if r == 0:
            continue
        m = ranks_in_sight(options, c, n)
        if m <= 0:
            break
        if n == 1:
            total += (before + 1) / (c + 1)
        else:
            step = options.summed[c + m] - options.summed[c]
            later = (r - 1) / (n - 1) * (m - (c + 1) * step)
            total += r / n * ((before + 1) * step + later)
        before += r
    return total


@inlined
def _average_precision(group, rows, options):  # type: ignore[no-untyped-def]
    return _mean_precision(sum_of_precisions(group, rows, options), group, options)


@inlined
def _mean_precision(total, group, options):  # type: ignore[no-untyped-def]
    """Divide a sum of precisions as `over` says."""
    below = group.relevant
    if options.parameters[0] == _MIN:
        below = min(below, options.cutoff)
    elif options.parameters[0] == _RETRIEVED:
        below = max(group.hits, 1)
    return at_most(total / below, 1.0)


@inlined
def _interpolated(group, rows, options):  # type: ignore[no-untyped-def]
    """Sum, over relevant ranks, the best precision at this or a later rank."""
    hits = 0
    end = group.first
    while end < group.end and ranks_in_sight(options, rows.above[end], 1) > 0:
        if rows.above[end] >= group.retrieved:
            break
        hits += rows.grade[end] >= options.rel
        end += 1
    best = 0.0
    total = 0.0
    for e in range(end - 1, group.first - 1, -1):
        if rows.grade[e] >= options.rel:
            best = max(best, hits / (rows.above[e] + 1))
            total += best
            hits -= 1
    return _mean_precision(total, group, options)


_AVERAGE = GroupFunction(_average_precision, needs_relevant=True)
_INTERPOLATED = GroupFunction(_interpolated, needs_relevant=True)


class AveragePrecision(Measure):
    """AP@k, the mean over relevant rows of the precision at their rank."""

    name = "AP"
    formula = "1/R sum over relevant ranks i <= k of hits@i / i"
    reference = "Buckley & Voorhees (2000), doi:10.1145/345508.345543"
    options = (
        REL,
        Param(
            "over",
            "relevant",
            "divide by 'relevant': R; 'min': min(k, R); 'retrieved': the "
            "relevant rows that have a score",
            one_of(*_OVER),
        ),
        Param(
            "interpolated",
            False,
            "take the best precision at this or a later rank; no closed form under ties",
            one_of(False, True),
        ),
        WEIGHT,
    )
    aliases = ("MAP", "AveragePrecision")
    needs_relevant = True

    def check_complete(self) -> None:
        if self.over == "min" and self.cutoff is None:
            raise MeasureError(f"{self.name}(over='min') divides by min(k, R); add a cutoff, @k.")

    def has_expectation(self) -> bool:
        return not self.interpolated

    @property
    def group_function(self) -> GroupFunction:  # type: ignore[override]
        return _INTERPOLATED if self.interpolated else _AVERAGE

    def numbers(self) -> tuple[float, ...]:
        return (_OVER.index(self.over),)

    def discounts(self) -> tuple[str, float] | None:
        return None if self.interpolated else ("reciprocal", 0.0)


class GeometricAveragePrecision(AveragePrecision):
    """GMAP, the geometric mean of AP over groups.

    The value of a group is its AP. The mean is exp(mean of ln max(AP, 0.00001)), as in trec_eval.
    The bound prevents that one group of AP 0 makes the mean 0.
    """

    name = "GMAP"
    formula = "exp(mean over groups of ln max(AP, 0.00001))"
    reference = "Robertson (2006), doi:10.1145/1183614.1183630"
    aliases = ("gm_map", "gm_ap")
    aggregate = "geometric mean"


ROUNDING = Param(
    "rounding",
    "nearest",
    "relevant rows at recall r: 'nearest': r R rounded, halves up, as trec_eval 10 does; 'up': "
    "floor(r R + 0.9), as trec_eval 9 does",
    one_of("nearest", "up"),
)

_ELEVEN = tuple(level / 10 for level in range(11))


@inlined
def _at_levels(group, rows, options):  # type: ignore[no-untyped-def]
    """Average the best precisions with at least the hits of each recall level."""
    best = 0.0
    hits = group.hits
    for e in range(group.end - 1, group.first - 1, -1):
        if rows.above[e] < group.retrieved and rows.grade[e] >= options.rel:
            best = max(best, hits / (rows.above[e] + 1))
            options.scratch[hits] = best
            hits -= 1
    up = options.parameters[0] != 0.0
    levels = int(options.parameters[1])
    total = 0.0
    for k in range(levels):
        needed = max(_relevant_at(options.parameters[2 + k], group.relevant, up), 1)
        if needed <= group.hits:
            total += options.scratch[needed]
    return total / levels


@inlined
def _relevant_at(recall, relevant, up):  # type: ignore[no-untyped-def]
    """Return the relevant rows that reach a recall level; see `ROUNDING`."""
    exact = recall * relevant
    if up:
        return np.int64(np.floor(exact + 0.9))
    # Not floor(x + 0.5): the sum itself may round up to the next integer.
    floor = np.floor(exact)
    return np.int64(floor) + (exact - floor >= 0.5)


class _InterpolatedBase(Measure):
    """Base class: the best precision at recall levels, averaged."""

    needs_relevant = True
    takes_cutoff = False
    group_function = GroupFunction(_at_levels, needs_relevant=True, uses_scratch=True)

    def has_expectation(self) -> bool:
        return False  # a maximum over ranks

    def numbers(self) -> tuple[float, ...]:
        recall = self.option_values.get("recall", _ELEVEN)
        levels = recall if isinstance(recall, tuple) else (float(recall),)
        return self.rounding == "up", len(levels), *levels


class InterpolatedPrecision(_InterpolatedBase):
    """IPrec@r, the best precision at any rank that reaches recall r.

    With R relevant rows, a recall level r is reached at round(r R) of them, as in trec_eval. The
    level can be written as a cutoff: IPrec@0.1.
    """

    name = "IPrec"
    formula = "max of hits@i / i over ranks i with hits@i >= round(recall R)"
    reference = "Salton & McGill (1983); trec_eval: iprec_at_recall"
    options = (
        Param(
            "recall",
            None,
            "the recall level, in [0, 1]; it must be given",
            number(least=0, most=1, optional=True),
        ),
        ROUNDING,
        REL,
        WEIGHT,
    )
    aliases = ("InterpolatedPrecision", "iprec_at_recall")

    def __init__(self, recall: Any = None, /, **options: Any) -> None:
        if recall is not None:
            if options.get("recall") is not None:
                raise MeasureError(f"IPrec: the recall level is given twice, in @{recall!r} too.")
            options["recall"] = recall
        super().__init__(**options)

    def __matmul__(self, recall: float) -> Self:
        return type(self)(**{**self._explicit_values(), "recall": recall})

    def check_complete(self) -> None:
        if self.recall is None:
            raise MeasureError("IPrec needs a recall level in [0, 1], as in IPrec@0.1.")


class ElevenPointPrecision(_InterpolatedBase):
    """IPrec11, the mean of IPrec at recall 0, 0.1, ... 1."""

    name = "IPrec11"
    formula = "1/11 sum over r = 0, 0.1, ... 1 of IPrec@r"
    reference = "Salton & McGill (1983); trec_eval: 11pt_avg"
    options = (ROUNDING, REL, WEIGHT)
    aliases = ("eleven_point_average",)


@inlined
def _blended(group, rows, options):  # type: ignore[no-untyped-def]
    """Average the expected blended ratios over tie blocks.

    A block of n rows has r rows with a gain, of total gain S, below A such rows of gain G. Its i-th
    rank has a row with a gain with probability r/n. Expected hits and gains up to it, summed over
    the r rows, are r (A + 1 + (i - 1)(r - 1)/(n - 1)) and r G + S + (i - 1)(r - 1) S/(n - 1).
    """
    relevant = best_with_gain(group, rows)
    if relevant == 0:
        return np.nan
    beta = options.parameters[0]
    value = 0.0
    ideal_ranks = 0
    ideal = 0.0
    hits = 0
    gained = 0.0
    e = group.first
    while e < group.end and rows.above[e] < group.retrieved:
        c, n, e, total, r = gaining_block(rows, e, group.end)
        if r == 0:
            continue
        ranks = ranks_in_sight(options, c, n)
        if ranks <= 0:
            break
        for i in range(1, ranks + 1):
            rank = c + i
            while ideal_ranks < min(rank, relevant):
                ideal += rows.best[group.first + ideal_ranks]
                ideal_ranks += 1
            before = 0.0
            if n > 1:
                before = (i - 1.0) * (r - 1.0) / (n - 1.0)
            of_hits = r * (hits + 1.0 + before)
            of_gains = r * gained + total * (1.0 + before)
            value += (of_hits + beta * of_gains) / n / (rank + beta * ideal)
        hits += r
        gained += total
    value /= relevant if options.cutoff == 0 else min(options.cutoff, relevant)
    return at_most(value, 1.0) if value == value else np.inf


class QMeasure(PositiveGain):
    """Q@k, the mean of the blended ratio at the ranks of rows with a gain.

    With beta 0 it is AP@k of rows with a gain, divided by min(k, R).
    """

    name = "Q"
    formula = (
        "1/min(k, R) sum over ranks i <= k of rows with a gain of "
        "(hits@i + beta CG@i) / (i + beta ICG@i)"
    )
    reference = "Sakai (2004), NTCIR-4 Open Submission Session"
    options = (
        LINEAR_GAIN,
        Param("beta", 1, "weight of a unit of gain relative to a hit", number(least=0, most=1e6)),
        WEIGHT,
    )
    aliases = ("QMeasure", "Q_measure")
    best_gains = "judged"
    group_function = GroupFunction(_blended)

    def numbers(self) -> tuple[float, ...]:
        return (float(self.beta),)


#: Rules for the area at a threshold: the precision there, the mean of both ends, or the exact
#: integral between them.
_RULES = ("step", "linear", "davis")
_STEP, _LINEAR, _DAVIS = range(3)


class _PrecisionRecall(SteppedMeasure):
    """Base class of areas under the precision-recall curve."""

    def from_steps(self, steps: RocSteps) -> PooledValue:
        others, positives = steps.runs()
        areas, logs = np.empty(len(steps.score)), np.zeros(0)
        rule = _RULES.index(self.interpolation)
        if rule == _DAVIS:
            rows = positives + others
            before = np.append(0.0, np.cumsum(rows)[:-1])
            logs = log1p_each(np.where(positives > 0, ratio(rows, before, 0.0), 0.0))
        _areas(others, positives, rule, logs, areas)
        # Each area is at most the positives there. Rounding may make their sum a little larger.
        return PooledValue(min(float(np.sum(areas) / np.sum(positives)), 1.0))


class AveragePrecisionOfRows(_PrecisionRecall):
    """AvgPrec, the average precision of all rows, by threshold."""

    name = "AvgPrec"
    formula = "sum_t (R(t) - R(t+)) P(t), t over distinct scores from the top, t+ the one above"
    reference = "Davis & Goadrich (2006), doi:10.1145/1143844.1143874"
    options = (REL,)
    aliases = ("average_precision_score", "avg_prec")
    interpolation = "step"


class PrecisionRecallArea(_PrecisionRecall):
    """PRAUC, the area under the precision-recall curve of all rows."""

    name = "PRAUC"
    formula = (
        "integral of P dR; between two scores FP runs linearly in TP (davis), or P in R (linear)"
    )
    reference = (
        "Davis & Goadrich (2006), doi:10.1145/1143844.1143874; "
        "Keilwagen et al. (2014), doi:10.1371/journal.pone.0092209 with weights"
    )
    options = (
        REL,
        Param(
            "interpolation",
            "davis",
            "between two scores: 'davis', the mean over random orders of their rows; 'linear', "
            "trapezoids that start at precision 1, which are too high",
            one_of("davis", "linear"),
        ),
    )
    aliases = ("PR_AUC", "AUPRC", "AUCPR", "AUPR")


@kernel
def _areas(others, positives, rule, logs, areas):  # type: ignore[no-untyped-def]
    """Compute the area of each score, times the number of positives.

    Two points of the curve are n rows with t positives, and n + d rows with t + p. The correct area
    between them is the integral of (t + p s) / (n + d s) p ds over s in [0, 1]. It is computed from
    terms that are not negative.
    """
    rows = 0.0
    hits = 0.0
    precision = 1.0
    n = 0
    for i in range(others.shape[0]):
        p = positives[i]
        d = p + others[i]
        if p > 0.0:
            after = (hits + p) / (rows + d)
            if rule == _STEP:
                areas[n] = p * after
            elif rule == _LINEAR:
                areas[n] = p * (precision + after) / 2.0
            elif rows > 0.0:
                log = logs[i]
                areas[n] = p / d * (p * max(1.0 - log / (d / rows), 0.0) + hits * log)
            else:
                areas[n] = p * (p / d)
            n += 1
        rows += d
        hits += p
        if rows > 0.0:
            precision = hits / rows
