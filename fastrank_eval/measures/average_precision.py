"""Measure average precision, over relevant rows or over recall."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from fastrank_eval._lib.arguments import number, one_of
from fastrank_eval._lib.elementary import log1p_each, ratio
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.measures.base import (
    REL,
    WEIGHT,
    Measure,
    Param,
    count_relevant,
    longest,
    over_groups,
)
from fastrank_eval.measures.gain import LINEAR_GAIN, PositiveGain, discount_table
from fastrank_eval.measures.pooled import PooledValue, SteppedMeasure

if TYPE_CHECKING:
    from fastrank_eval.stats.score_runs import RocSteps


class AveragePrecision(Measure):
    """AP@k, the sum of precisions at relevant ranks up to k, over R."""

    name = "AP"
    summary = "mean over the relevant rows of the precision at their rank"
    formula = "1/R sum over relevant ranks i <= k of hits@i / i"
    reference = "Buckley & Voorhees (2000), doi:10.1145/345508.345543"
    options = (
        REL,
        Param(
            "over",
            "relevant",
            "divide by 'relevant': R; 'min': min(k, R); 'retrieved': the "
            "relevant rows that have a score",
            one_of("relevant", "min", "retrieved"),
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

    def shared_key(self) -> Hashable:
        return "average precision", self.rel, self.interpolated

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        grades = ranking.grade, float(self.rel)
        if self.interpolated:
            return over_groups(_interpolated, ranking, *grades, cutoffs=cutoffs)
        _, harmonic = discount_table("reciprocal", 0.0, longest(cutoffs, ranking.retrieved))
        return over_groups(expected_precisions, ranking, *grades, harmonic, cutoffs=cutoffs)

    def from_shared(self, shared: np.ndarray, ranking: Ranking) -> np.ndarray:
        below = relevant = ranking.relevant(self.rel)
        if self.over == "min":
            below = np.minimum(relevant, cast(int, self.cutoff))
        elif self.over == "retrieved":
            below = np.maximum(ranking.relevant_retrieved(self.rel), relevant > 0)
        return super().from_shared(ratio(shared, below), ranking)


class GeometricAveragePrecision(AveragePrecision):
    """GMAP, the geometric mean of AP: poor groups weigh more than good ones.

    The value of a group is its AP. The mean is exp(mean of ln max(AP, 0.00001)), as in trec_eval.
    The bound prevents that one group of AP 0 makes the mean 0.
    """

    name = "GMAP"
    summary = "AP, with a geometric mean over groups"
    formula = "exp(mean over groups of ln max(AP, 0.00001))"
    reference = "Robertson (2006), doi:10.1145/1183614.1183630"
    aliases = ("gm_map", "gm_ap")
    aggregate = "geometric mean"


@kernel
def expected_precisions(  # type: ignore[no-untyped-def]
    offsets, above, size, retrieved, cutoffs, grade, rel, harmonic, out
):
    """Sum the precisions at relevant ranks.

    A block of n rows with r relevant ones follows c rows with A relevant ones. Of its ranks, m are
    above the cutoff. It adds
    r/n [ (A + 1) dH + (r - 1)/(n - 1) (m - (c + 1) dH) ],  dH = H(c + m) - H(c).
    """
    for g in range(offsets.shape[0] - 1):
        for k in range(cutoffs.shape[0]):
            out[k, g] = 0.0
        e = offsets[g]
        end = offsets[g + 1]
        before = 0
        while e < end and above[e] < retrieved[g]:
            c = above[e]
            n = size[e]
            e, r = count_relevant(above, grade, rel, e, end)
            if r == 0:
                continue
            in_sight = False
            for k in range(cutoffs.shape[0]):
                m = n if cutoffs[k] == 0 else min(cutoffs[k] - c, n)
                if m <= 0:
                    continue
                in_sight = True
                if n == 1:
                    out[k, g] += (before + 1) / (c + 1)
                else:
                    step = harmonic[c + m] - harmonic[c]
                    later = (r - 1) / (n - 1) * (m - (c + 1) * step)
                    out[k, g] += r / n * ((before + 1) * step + later)
            if not in_sight:
                break
            before += r


@kernel
def _interpolated(offsets, above, size, retrieved, cutoffs, grade, rel, out):  # type: ignore[no-untyped-def]
    """Sum, over relevant ranks, the best precision at this or a later rank."""
    for g in range(offsets.shape[0] - 1):
        for k in range(cutoffs.shape[0]):
            out[k, g] = 0.0
            hits = 0
            for e in range(offsets[g], offsets[g + 1]):
                if above[e] >= retrieved[g] or (cutoffs[k] > 0 and above[e] >= cutoffs[k]):
                    break
                if grade[e] >= rel:
                    hits += 1
            best = 0.0
            e = offsets[g + 1] - 1
            while hits > 0:
                within = above[e] < retrieved[g] and (cutoffs[k] == 0 or above[e] < cutoffs[k])
                if within and grade[e] >= rel:
                    best = max(best, hits / (above[e] + 1))
                    out[k, g] += best
                    hits -= 1
                e -= 1


ROUNDING = Param(
    "rounding",
    "nearest",
    "relevant rows at recall r: 'nearest': r R rounded, halves up, as trec_eval 10 does; 'up': "
    "floor(r R + 0.9), as trec_eval 9 does",
    one_of("nearest", "up"),
)

_ELEVEN = tuple(level / 10 for level in range(11))


class _InterpolatedBase(Measure):
    """Base class: the best precision from some relevant row on."""

    needs_relevant = True
    takes_cutoff = False

    def levels(self) -> tuple[float, ...]:
        """Return the recall levels that are averaged."""
        raise NotImplementedError  # pragma: no cover - abstract

    def has_expectation(self) -> bool:
        return False  # a maximum over ranks

    def shared_key(self) -> Hashable:
        return "interpolated precision", self.rel

    @classmethod
    def compute(cls, measures: Sequence[Any], ranking: Ranking, outs: Iterable[np.ndarray]) -> None:
        rel = float(measures[0].rel)
        relevant = ranking.relevant(rel)
        points = sorted({(level, m.rounding) for m in measures for level in m.levels()})
        needed = np.array([relevant_at(level, relevant, rounding) for level, rounding in points])
        best = over_groups(_best_precisions, ranking, ranking.grade, rel, cutoffs=needed)
        for m, out in zip(measures, outs, strict=True):
            levels = m.levels()
            out[:] = 0.0
            for level in levels:
                out += best[points.index((level, m.rounding))]
            out /= len(levels)
            out[relevant == 0] = np.nan


class InterpolatedPrecision(_InterpolatedBase):
    """IPrec@r, the best precision at ranks of recall r or more, else 0.

    With R relevant rows, a recall level r is reached at round(r R) of them, as in trec_eval.
    """

    name = "IPrec"
    summary = "best precision at any rank that reaches a recall level; written IPrec@0.1 too"
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

    def levels(self) -> tuple[float, ...]:
        return (float(self.recall),)


class ElevenPointPrecision(_InterpolatedBase):
    """IPrec11, the mean of IPrec at recall 0, 0.1, ... 1."""

    name = "IPrec11"
    summary = "mean of the interpolated precision at recall 0, 0.1, ... 1 (11-point average)"
    formula = "1/11 sum over r = 0, 0.1, ... 1 of IPrec@r"
    reference = "Salton & McGill (1983); trec_eval: 11pt_avg"
    options = (ROUNDING, REL, WEIGHT)
    aliases = ("eleven_point_average",)

    def levels(self) -> tuple[float, ...]:
        return _ELEVEN


def relevant_at(recall: float, relevant: np.ndarray, rounding: str) -> np.ndarray:
    """Compute the relevant rows that reach a recall level.

    Parameters
    ----------
    recall : float
        In [0, 1].
    relevant : ndarray of int64, shape (groups,)
        R of each group.
    rounding : str
        ``"nearest"`` or ``"up"``, see `ROUNDING`.

    Returns
    -------
    ndarray of int64, shape (groups,)
    """
    exact = recall * relevant
    if rounding == "up":
        return np.floor(exact + 0.9).astype(np.int64)
    # Not floor(x + 0.5): the sum itself may round up to the next integer.
    floor = np.floor(exact)
    return floor.astype(np.int64) + (exact - floor >= 0.5)


@kernel
def _best_precisions(offsets, above, size, retrieved, needed, grade, rel, out):  # type: ignore[no-untyped-def]
    """Find the best precision with at least the needed hits."""
    for g in range(offsets.shape[0] - 1):
        for k in range(needed.shape[0]):
            out[k, g] = 0.0
        hits = 0
        for e in range(offsets[g], offsets[g + 1]):
            if above[e] < retrieved[g] and grade[e] >= rel:
                hits += 1
        best = 0.0
        e = offsets[g + 1] - 1
        while hits > 0:
            if above[e] < retrieved[g] and grade[e] >= rel:
                best = max(best, hits / (above[e] + 1))
                for k in range(needed.shape[0]):
                    if max(needed[k, g], 1) == hits:
                        out[k, g] = best
                hits -= 1
            e -= 1


class QMeasure(PositiveGain):
    """Q@k, the mean of the blended ratio at the ranks of rows with a gain.

    With beta 0 it is AP@k of rows with a gain, divided by min(k, R).
    """

    name = "Q"
    summary = "mean over rows with a gain of hits and gains down to their rank, over the ideal ones"
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

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        gains = self.gains(ranking)
        ideal = ranking.descending(self.gain_key(), gains)
        return over_groups(_blended, ranking, gains, ideal, float(self.beta), cutoffs=cutoffs)


@kernel
def _blended(  # type: ignore[no-untyped-def]
    offsets, above, size, retrieved, cutoffs, gain, ideal_gain, beta, out
):
    """Sum the expected blended ratios over tie blocks.

    A block of n rows has r rows with a gain, of total gain S, below A such rows of gain G. Its i-th
    rank has a row with a gain with probability r/n. Expected hits and gains up to it, summed over
    the r rows, are r (A + 1 + (i - 1)(r - 1)/(n - 1)) and r G + S + (i - 1)(r - 1) S/(n - 1).
    """
    for g in range(offsets.shape[0] - 1):
        first = offsets[g]
        end = offsets[g + 1]
        relevant = 0
        while first + relevant < end and ideal_gain[first + relevant] > 0.0:
            relevant += 1
        for k in range(cutoffs.shape[0]):
            out[k, g] = 0.0 if relevant > 0 else np.nan
        if relevant == 0:
            continue
        ideal_ranks = 0
        ideal = 0.0
        hits = 0
        gained = 0.0
        e = first
        while e < end and above[e] < retrieved[g]:
            c = above[e]
            n = size[e]
            r = 0
            total = 0.0
            while e < end and above[e] == c:
                if gain[e] > 0.0:
                    r += 1
                    total += gain[e]
                e += 1
            if r == 0:
                continue
            for i in range(1, n + 1):
                rank = c + i
                while ideal_ranks < rank and ideal_ranks < relevant:
                    ideal += ideal_gain[first + ideal_ranks]
                    ideal_ranks += 1
                before = 0.0
                if n > 1:
                    before = (i - 1.0) * (r - 1.0) / (n - 1.0)
                of_hits = r * (hits + 1.0 + before)
                of_gains = r * gained + total * (1.0 + before)
                term = (of_hits + beta * of_gains) / n / (rank + beta * ideal)
                for k in range(cutoffs.shape[0]):
                    if cutoffs[k] == 0 or rank <= cutoffs[k]:
                        out[k, g] += term
            hits += r
            gained += total
        for k in range(cutoffs.shape[0]):
            ranks = relevant if cutoffs[k] == 0 else min(cutoffs[k], relevant)
            out[k, g] /= ranks


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
    """AvgPrec, the mean precision over positives, by threshold."""

    name = "AvgPrec"
    summary = "average precision over all rows, by thresholds: rows of one score come in at once"
    formula = "sum_t (R(t) - R(t+)) P(t), t over distinct scores from the top, t+ the one above"
    reference = "Davis & Goadrich (2006), doi:10.1145/1143844.1143874"
    options = (REL,)
    aliases = ("average_precision_score", "avg_prec")
    interpolation = "step"


class PrecisionRecallArea(_PrecisionRecall):
    """PRAUC, the area under the precision-recall curve."""

    name = "PRAUC"
    summary = "area under the precision-recall curve over all rows"
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
