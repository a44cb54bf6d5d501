"""AP, the mean precision at the ranks of the relevant rows, and its geometric mean over groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import cast

import numpy as np

from fastrank_eval.errors import MeasureError
from fastrank_eval.kernel import kernel
from fastrank_eval.measures.base import REL, WEIGHT, Measure, Param, distinct_cutoffs, one_of
from fastrank_eval.measures.discounts import discount_table, longest
from fastrank_eval.ranking import Ranking


class AveragePrecision(Measure):
    """AP@k, the precision at each relevant rank up to k, summed and divided by R."""

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
    spellings = ("MAP", "AveragePrecision")
    needs_relevant = True

    def check_complete(self) -> None:
        if self.over == "min" and self.cutoff is None:
            raise MeasureError(
                f"{self.name}(over='min') divides by min(k, R) and so needs a cutoff: @k."
            )

    def has_expectation(self) -> bool:
        return not self.interpolated

    def pass_key(self) -> Hashable:
        return "average precision", self.rel, self.interpolated

    @classmethod
    def compute(
        cls,
        measures: Sequence[AveragePrecision],
        ranking: Ranking,
        outs: Iterable[np.ndarray],
    ) -> None:
        first = measures[0]
        cutoffs, at = distinct_cutoffs(measures)
        summed = np.empty((len(cutoffs), ranking.groups))
        if first.interpolated:
            _interpolated(
                ranking.offsets,
                ranking.above,
                ranking.grade,
                float(first.rel),
                ranking.retrieved,
                cutoffs,
                summed,
            )
        else:
            _, harmonic = discount_table("reciprocal", 0.0, longest(cutoffs, ranking.retrieved))
            expected_precisions(
                ranking.offsets,
                ranking.above,
                ranking.size,
                ranking.grade,
                float(first.rel),
                ranking.retrieved,
                cutoffs,
                harmonic,
                summed,
            )
        relevant = ranking.relevant(first.rel)
        for m, out, row in zip(measures, outs, at, strict=True):
            below = relevant
            if m.over == "min":
                below = np.minimum(relevant, cast(int, m.cutoff))
            elif m.over == "retrieved":
                below = np.maximum(ranking.relevant_retrieved(first.rel), relevant > 0)
            out[:] = np.nan
            np.divide(summed[row], below, out=out, where=relevant > 0)
            # A block's rounding may pass 1 by one unit in the last place.
            np.minimum(out, 1.0, out=out)


class GeometricAveragePrecision(AveragePrecision):
    """GMAP, AP whose mean over groups is geometric: a poor group tells more than a good one.

    The value of a group is its AP. Their mean is exp(mean of ln max(AP, 0.00001)), as in trec_eval,
    so that a group of AP 0 does not decide alone.
    """

    name = "GMAP"
    summary = "AP, its mean over groups being geometric"
    formula = "exp(mean over groups of ln max(AP, 0.00001))"
    reference = "Robertson (2006), doi:10.1145/1183614.1183630"
    spellings = ("gm_map", "gm_ap")
    aggregate = "geometric mean"


AP = AveragePrecision()
GMAP = GeometricAveragePrecision()


@kernel
def expected_precisions(  # type: ignore[no-untyped-def]
    offsets, above, size, grade, rel, retrieved, cutoffs, harmonic, out
):
    """Sum of precisions at relevant ranks.

    A block of n rows with r relevant after c rows with A relevant, m of its ranks above the cutoff:
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
            r = 0
            while e < end and above[e] == c:
                if grade[e] >= rel:
                    r += 1
                e += 1
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
def _interpolated(  # type: ignore[no-untyped-def]
    offsets, above, grade, rel, retrieved, cutoffs, out
):
    """Each relevant rank counts the best precision at this or a later rank."""
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
