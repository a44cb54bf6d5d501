"""Measure rankings with partial judgments, and their judged share."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import integer, number, one_of
from fastrank_eval._lib.elementary import powers, ratio
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.ranking import Ranking, UnjudgedRows
from fastrank_eval.measures.base import REL, WEIGHT, Measure, Param, over_groups
from fastrank_eval.measures.gain import discount_table
from fastrank_eval.measures.precision import SHORT, depths_of, expected_hits

#: Added to the counts of both classes by infAP, as in trec_eval.
_EPSILON = 1e-5


class _Incomplete(Measure):
    """Base class of bpref and infAP, which use judged rows only.

    A row without a label was not judged. A row of negative grade was pooled, but not judged either.
    """

    needs_relevant = True
    needs_judgments = True
    options = (REL, WEIGHT)
    takes_cutoff = False

    def nonrelevant(self, ranking: Ranking) -> np.ndarray:
        """Count the rows judged not relevant in each group. int64."""

        def count() -> np.ndarray:
            others = self.others(ranking, ranking.rows)
            return ranking.rows - ranking.unjudged_rows().missing - others

        return ranking.cached(("nonrelevant", self.rel), count)

    def others(self, ranking: Ranking, limit: np.ndarray) -> np.ndarray:
        """Count labelled rows above a rank that are relevant or not judged. int64."""
        out = np.empty(ranking.groups, np.int64)
        _count_others(ranking.offsets, ranking.grade, float(self.rel), ranking.above, limit, out)
        return out


class BinaryPreference(_Incomplete):
    """bpref, how rarely rows judged not relevant rank above relevant rows."""

    name = "bpref"
    summary = "preference of relevant rows over rows judged not relevant; unjudged rows are skipped"
    formula = "1/R sum over relevant of 1 - min(nonrelevant above, R) / min(N, R)"
    reference = "Buckley & Voorhees (2004), doi:10.1145/1008992.1009000"

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        judged, rel = ranking.unjudged_rows(), float(self.rel)
        counts = ranking.relevant(rel), self.nonrelevant(ranking), judged.before, judged.tied
        return over_groups(_expected_preference, ranking, ranking.grade, rel, *counts)


class GeometricPreference(BinaryPreference):
    """GMbpref, the geometric mean of bpref over groups, as in GMAP."""

    name = "GMbpref"
    summary = "bpref, with a geometric mean over groups"
    formula = "exp(mean over groups of ln max(bpref, 0.00001))"
    reference = "Buckley, trec_eval: gm_bpref"
    aliases = ("gm_bpref",)
    aggregate = "geometric mean"


class NonrelevantRetrieved(_Incomplete):
    """NumNonrelRet, the number of retrieved rows judged not relevant."""

    name = "NumNonrelRet"
    summary = "number of retrieved rows judged not relevant, summed over groups"
    formula = "retrieved rows with a label in [0, rel["
    higher_is_better = False
    has_direction = False
    reference = "Buckley, trec_eval: num_nonrel_judged_ret"
    needs_relevant = False
    aliases = ("num_nonrel_judged_ret",)
    aggregate = "sum"
    range = (0.0, np.inf)

    def empty_is_known(self) -> bool:
        return False

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        others = self.others(ranking, ranking.retrieved)
        unjudged = np.diff(ranking.unjudged_rows().offsets)
        return ranking.retrieved - unjudged - others


class InferredAP(_Incomplete):
    """infAP, average precision inferred from the judged part of a pool."""

    name = "infAP"
    summary = "average precision, inferred where only a sample of the pool was judged"
    formula = (
        "1/R sum over relevant ranks k of 1/k (1 + pooled (rel + e) / (rel + nonrel + 2 e)), "
        "counts of the rows above; e = 1e-5"
    )
    reference = "Yilmaz & Aslam (2006), doi:10.1145/1183614.1183633"

    def has_expectation(self) -> bool:
        return False

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        rel, before = float(self.rel), ranking.unjudged_rows().before
        return over_groups(
            _inferred, ranking, ranking.grade, rel, ranking.relevant(rel), before, _EPSILON
        )


class _JudgedRows(Measure):
    """Base class of Judged and Unjudged: unjudged rows above a cutoff."""

    needs_judgments = True
    reference = "Sakai (2007), doi:10.1145/1277741.1277756"

    def shared_key(self) -> Hashable:
        return self.name

    def empty_is_known(self) -> bool:
        return False

    def counted(self, unjudged: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        """Compute the numerator from unjudged rows and ranks at the cutoff."""
        raise NotImplementedError  # pragma: no cover - abstract

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        """Count unjudged rows above each cutoff."""
        unjudged = ranking.unjudged_rows()
        return _above(unjudged, np.ones(len(unjudged.above)), ranking, cutoffs)

    def from_shared(self, shared: np.ndarray, ranking: Ranking) -> np.ndarray:
        ranks = ranking.retrieved
        if self.cutoff is not None:
            ranks = np.minimum(ranks, self.cutoff)
        below = ranks if self.short == "length" or self.cutoff is None else self.cutoff
        return ratio(self.counted(shared, ranks), below, 0.0)


class JudgedShare(_JudgedRows):
    """Judged@k, the share of judged rows among the first k."""

    name = "Judged"
    summary = "share of rows with a label among the first k"
    formula = "judged rows above the cutoff / min(k, rows of the list)"
    options = (
        Param(
            "short",
            "length",
            "'length': a list shorter than the cutoff divides by its rows; 'k': divides by k",
            one_of("length", "k"),
        ),
        WEIGHT,
    )

    def counted(self, unjudged: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        return ranks - unjudged


class UnjudgedShare(_JudgedRows):
    """Unjudged@k, the share of unjudged rows among the first k.

    As in trec_eval, a row of negative grade was pooled, but not judged. In Judged it counts as
    judged.
    """

    name = "Unjudged"
    summary = "share of rows without a label, or of negative grade, among the first k (holes)"
    formula = "unjudged rows above the cutoff / k"
    higher_is_better = False
    options = (SHORT, WEIGHT)
    aliases = ("unj", "hole")

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        marks = (ranking.grade < 0).astype(np.float64)
        pooled = _above(ranking, marks, ranking, cutoffs)
        return pooled + super().shared_values(ranking, cutoffs)

    def counted(self, unjudged: np.ndarray, ranks: np.ndarray) -> np.ndarray:
        return unjudged


def _above(
    rows: Ranking | UnjudgedRows, marks: np.ndarray, ranking: Ranking, cutoffs: np.ndarray
) -> np.ndarray:
    """Count marked rows above each cutoff, in expectation over ties.

    Returns
    -------
    ndarray of float64, shape (cutoffs, groups)
    """
    hits = np.empty((len(cutoffs), ranking.groups))
    depths = depths_of(cutoffs, ranking.retrieved)
    blocks = rows.offsets, rows.above, rows.size
    expected_hits(*blocks, ranking.retrieved, depths, marks, 1.0, hits)
    return hits


@kernel
def _count_others(offsets, grade, rel, above, limit, out):  # type: ignore[no-untyped-def]
    """Count labelled rows above a rank that are relevant or not judged.

    A negative grade means not judged.
    """
    for g in range(offsets.shape[0] - 1):
        count = 0
        for e in range(offsets[g], offsets[g + 1]):
            count += above[e] < limit[g] and (grade[e] >= rel or grade[e] < 0)
        out[g] = count


@kernel
def _expected_preference(  # type: ignore[no-untyped-def]
    offsets, above, size, retrieved, grade, rel, relevant, nonrelevant, unjudged_above, tied, out
):
    """Sum expected preferences of relevant rows.

    For a block with z rows judged not relevant, below b such rows: the mean over j <= z of
    f(b + j).
    """
    for g in range(offsets.shape[0] - 1):
        total = relevant[g]
        if total == 0:
            out[g] = np.nan
            continue
        bound = min(nonrelevant[g], total)
        value = 0.0
        others = 0
        e = offsets[g]
        end = offsets[g + 1]
        while e < end and above[e] < retrieved[g]:
            first = e
            hits = 0
            negative = 0
            while e < end and above[e] == above[first]:
                hits += grade[e] >= rel
                negative += grade[e] < 0
                e += 1
            b = above[first] - unjudged_above[first] - others
            z = size[first] - tied[first] - hits - negative
            if hits > 0 and bound > 0:
                # Sum of min(b + j, total) over j = 0 ... z.
                under = min(max(total - b, 0), z + 1)
                penalty = under * b + under * (under - 1) // 2 + (z + 1 - under) * total
                value += hits * (1.0 - penalty / (bound * (z + 1.0)))
            else:
                value += hits
            others += hits + negative
        out[g] = value / total


@kernel
def _inferred(  # type: ignore[no-untyped-def]
    offsets, above, size, retrieved, grade, rel, relevant, unjudged_above, epsilon, out
):
    for g in range(offsets.shape[0] - 1):
        if relevant[g] == 0:
            out[g] = np.nan
            continue
        value = 0.0
        hits = 0
        negative = 0
        for e in range(offsets[g], offsets[g + 1]):
            if above[e] >= retrieved[g]:
                break
            if grade[e] < 0:
                negative += 1
            elif grade[e] >= rel:
                pooled = above[e] - unjudged_above[e]
                others = pooled - negative - hits
                likely = (hits + epsilon) / (hits + others + 2.0 * epsilon)
                value += (1.0 + pooled * likely) / (above[e] + 1.0)
                hits += 1
        out[g] = value / relevant[g]


class RBPResidual(Measure):
    """RBPres, the increase of RBP if every unknown row were relevant.

    Unknown rows are retrieved rows without a label or of negative grade, and all ranks after the
    list.
    """

    name = "RBPres"
    summary = "the weight of RBP on unjudged ranks and on those beyond the list"
    formula = "(1 - p) sum over unjudged ranks i of p^(i-1) + p^n, n being the rows of the list"
    higher_is_better = False
    reference = "Moffat & Zobel (2008), doi:10.1145/1416950.1416952"
    needs_judgments = True
    takes_cutoff = False
    options = (
        Param("p", 0.8, "persistence, as of RBP", number(above=0, below=1)),
        Param(
            "tail",
            "always",
            "'always': ranks after the list count; 'if_unjudged': only if a row of the list is "
            "unjudged, as in trec_eval",
            one_of("always", "if_unjudged"),
        ),
        WEIGHT,
    )
    aliases = ("rbp_resid",)

    def empty_is_known(self) -> bool:
        return False

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        judged, p = ranking.unjudged_rows(), float(self.p)
        below, summed = discount_table("geometric", p, int(ranking.retrieved.max(initial=0)) + 1)
        unjudged_rows, others = (
            np.empty(ranking.groups),
            (judged.offsets, judged.above, judged.size),
        )
        arguments = ranking.grade, *others, summed, unjudged_rows
        unknown = over_groups(_unknown_weight, ranking, *arguments)
        beyond = below[ranking.retrieved]
        if self.tail == "if_unjudged":
            beyond = np.where(unjudged_rows > 0, beyond, 0.0)
        return (1.0 - p) * unknown + beyond


@kernel
def _unknown_weight(  # type: ignore[no-untyped-def]
    offsets, above, size, retrieved, grade, others, other_above, other_size, summed, count, out
):
    """Sum the mean weight of a block's ranks over unjudged rows; count them."""
    for g in range(offsets.shape[0] - 1):
        weight = 0.0
        rows = 0.0
        for u in range(others[g], others[g + 1]):
            c = other_above[u]
            n = other_size[u]
            weight += (summed[c + n] - summed[c]) / n
            rows += 1.0
        for e in range(offsets[g], offsets[g + 1]):
            if grade[e] < 0 and above[e] < retrieved[g]:
                c = above[e]
                n = size[e]
                weight += (summed[c + n] - summed[c]) / n
                rows += 1.0
        out[g] = weight
        count[g] = rows


def _depth(value: Any) -> Any:
    if isinstance(value, str) and value == "lists":
        return value
    try:
        return integer(1, most=10**7)(value)
    except ValueError as wrong:
        raise ValueError(f"'lists' or {wrong}") from None


class Compatibility(Measure):
    """Compat, rank-biased overlap with the ideal order, normalized.

    It is divided by the overlap of the ideal with itself. Rows of equal grade have the order of the
    ranking in the ideal, and rows that were not retrieved come last among them.
    """

    name = "Compat"
    summary = "rank-biased overlap with the nearest ideal ranking"
    formula = (
        "RBO(list, ideal) / RBO(ideal, ideal),  RBO = sum over d <= depth of p^(d-1) overlap@d / d"
    )
    reference = "Clarke, Vtyurina & Smucker (2021), doi:10.1145/3451161"
    needs_relevant = True
    takes_cutoff = False
    options = (
        Param(
            "p", 0.95, "persistence: the probability of looking deeper", number(above=0, below=1)
        ),
        Param(
            "depth",
            1000,
            "the deepest rank at which lists are compared; 'lists': the end of the longer of the "
            "list and the ideal, as in ir_measures",
            _depth,
        ),
        REL,
        WEIGHT,
    )
    aliases = ("Compatibility",)

    def has_expectation(self) -> bool:
        return False  # the ideal follows the order of tied rows

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        rel = float(self.rel)
        labelled = np.diff(ranking.offsets)
        group = np.repeat(np.arange(ranking.groups), labelled)
        order = np.lexsort((-ranking.grade, group))  # stable: ranks ascend where grades are equal
        ideal = np.empty(len(order), np.int64)
        ideal[order] = np.arange(len(order)) - np.repeat(ranking.offsets[:-1], labelled)
        if self.depth == "lists":
            depth = np.maximum(ranking.retrieved, ranking.relevant(rel))
        else:
            depth = np.full(ranking.groups, self.depth, np.int64)
        weights = _weight_below(float(self.p), int(depth.max(initial=0)))
        return over_groups(_overlap, ranking, ranking.grade, rel, ideal, depth, weights)


def _weight_below(p: float, depth: int) -> np.ndarray:
    """Sum p^(d-1)/d over d = m + 1 ... depth for each m.

    Addition starts with the smallest term.
    """
    ranks = np.arange(1, depth + 1, dtype=np.float64)
    weights = np.zeros(depth + 1)
    weights[:-1] = np.cumsum((powers(p, depth) / ranks)[::-1])[::-1]
    weights.flags.writeable = False
    return weights


@kernel
def _overlap(  # type: ignore[no-untyped-def]
    offsets, above, size, retrieved, grade, rel, ideal, depth, weight, out
):
    """Sum overlaps of the list and the ideal.

    A row is in both lists from the deeper of its ranks to the depth.
    """
    for g in range(offsets.shape[0] - 1):
        deepest = depth[g]
        beyond = weight[deepest]
        overlap = 0.0
        most = 0.0
        for e in range(offsets[g], offsets[g + 1]):
            if grade[e] < rel:
                continue
            most += weight[min(ideal[e], deepest)] - beyond
            if above[e] < retrieved[g]:
                overlap += weight[min(max(above[e], ideal[e]), deepest)] - beyond
        out[g] = min(overlap / most, 1.0) if most > 0.0 else np.nan
