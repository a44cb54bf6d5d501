"""Weight ranks by the probability that a user sees them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import numpy as np

from fastrank_eval._lib.elementary import powers
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.measures.base import (
    REL,
    WEIGHT,
    Measure,
    Param,
    integer,
    number,
    one_of,
    outside_unit,
    over_groups,
)
from fastrank_eval.measures.gain import DEEPEST, PositionWeighted, discount_table, gain_of

GAIN = Param(
    "gain",
    "binary",
    "'binary': 1 for grades of at least `rel`; 'label': the label itself, in [0, 1]; or a table "
    "{grade: gain in [0, 1]}",
    gain_of("binary", "label", least=0, most=1),
)


class UserModel(PositionWeighted):
    """Base class: gains in [0, 1] over the expected number of rows seen."""

    def gain_key(self) -> Hashable:
        return "unit gain", self.gain, self.rel if self.gain == "binary" else None

    def _gains(self, grade: np.ndarray) -> np.ndarray:
        if self.gain == "binary":
            return (grade >= self.rel).astype(np.float64)
        return grade if self.gain == "label" else super()._gains(grade)

    def check_grades(self, ranking: Ranking) -> None:
        super().check_grades(ranking)
        wrong = outside_unit(ranking) if self.gain == "label" else None
        if wrong is not None:
            raise MeasureError(
                f"{self}: label {wrong:g} is no gain in [0, 1]; with gain='label' labels must lie "
                "in [0, 1]. Give grades their gains by a table, as in "
                f"{self.name}(gain={{1: 0.5, 2: 1}})."
            )

    def rows_seen(self) -> float:
        """Compute the expected number of rows seen: sum of V(i) over all ranks."""
        raise NotImplementedError  # pragma: no cover - abstract

    def from_shared(self, shared: np.ndarray, ranking: Ranking) -> np.ndarray:
        return super().from_shared(shared / self.rows_seen(), ranking)


class TruncatedModel(UserModel):
    """Base class of models of readers who stop at rank k; it needs a cutoff."""

    def check_complete(self) -> None:
        if self.cutoff is None:
            raise MeasureError(
                f"{self.name} is of readers who stop at rank k: it needs a cutoff, @k."
            )
        if self.cutoff > DEEPEST:
            raise MeasureError(
                f"{self.name} takes cutoffs up to {DEEPEST:,}, not {self.cutoff:,}: it adds the "
                "chances of being seen of every rank."
            )

    def rows_seen(self) -> float:
        k = cast(int, self.cutoff)
        _, summed = discount_table(*self.discounts(), k)
        return float(summed[k])


class RankBiasedPrecision(UserModel):
    """RBP@k, the gain per row seen by a reader who goes on with probability p."""

    name = "RBP"
    summary = "gain per row seen by a reader who goes on to the next with probability p"
    formula = "(1 - p) sum over i <= k of p^(i-1) gain(g_i)"
    reference = "Moffat & Zobel (2008), doi:10.1145/1416950.1416952"
    options = (
        Param(
            "p",
            0.8,
            "persistence: the probability of going on to the next rank",
            number(above=0, below=1),
        ),
        REL,
        GAIN,
        WEIGHT,
    )

    def discounts(self) -> tuple[str, float]:
        return "geometric", float(self.p)

    def rows_seen(self) -> float:
        return 1.0 / (1.0 - float(self.p))


class ScaledDiscountedGain(TruncatedModel):
    """SDCG@k, DCG@k over the DCG@k of k rows of gain 1."""

    name = "SDCG"
    summary = "DCG@k of gains in [0, 1] over the DCG@k of k rows of gain 1, however few there are"
    formula = "sum over i <= k of gain(g_i) / log2(i + 1), over sum over i <= k of 1 / log2(i + 1)"
    reference = (
        "Moffat et al. (2017), doi:10.1145/3052768; "
        "Jarvelin & Kekalainen (2002), doi:10.1145/582415.582418"
    )
    options = (REL, GAIN, WEIGHT)

    def discounts(self) -> tuple[str, float]:
        return "log2", 0.0


class InverseSquare(UserModel):
    """INSQ@k, the gain per row seen by a reader more patient with rank."""

    name = "INSQ"
    summary = (
        "gain per row seen by a reader who wants a gain of T and leaves less readily with rank"
    )
    formula = "sum over i <= k of W(i) gain(g_i),  W(i) proportional to 1 / (i + 2T - 1)^2"
    reference = "Moffat, Scholer & Thomas (2012), doi:10.1145/2407085.2407092"
    options = (
        Param("T", 1, "the gain that the reader wants", number(above=0, most=1e9)),
        REL,
        GAIN,
        WEIGHT,
    )

    def discounts(self) -> tuple[str, float]:
        return "inverse square", 2.0 * self.T

    def rows_seen(self) -> float:
        x = 2.0 * self.T
        # x^2 psi'(x) with the first term apart: 1/x^2 would overflow for a tiny T.
        return 1.0 + float(x * (x * _trigamma(x + 1.0)))


class AdaptiveInverseSquare(UserModel):
    """INST@k, INSQ for a reader who wants a gain of T and subtracts each gain."""

    name = "INST"
    summary = "gain per row seen by a reader who wants a gain of T and leaves as it comes in"
    formula = (
        "sum over i <= k of V(i) gain(g_i), over sum of V(i);  "
        "V(i) = prod_{j<i} (1 - 1/(j + T + T_j))^2,  T_j = T - sum_{l<=j} gain(g_l)"
    )
    reference = "Moffat, Bailey, Scholer & Thomas (2015), doi:10.1145/2838931.2838938"
    options = (
        Param(
            "T",
            1,
            "the gain that the reader wants; less than 1/2 would not give probabilities",
            number(least=0.5, most=1e9),
        ),
        REL,
        GAIN,
        WEIGHT,
    )

    def has_expectation(self) -> bool:
        return False

    def pass_key(self) -> Hashable:
        return "adaptive inverse square", self.gain_key(), self.T

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        gains = self.gains(ranking)
        return over_groups(_adaptive, ranking, gains, 2.0 * self.T, cutoffs=cutoffs)

    def rows_seen(self) -> float:
        return 1.0  # they differ between groups: the kernel divides by them


@kernel
def _trigamma(x):  # type: ignore[no-untyped-def]
    """Compute psi'(x) for x > 0.

    It adds terms of the sum up to 16, then the asymptotic series.

    The first omitted term, 7/6 over x^15, is 1e-18 there.
    """
    head = 0.0
    while x < 16.0:
        head += 1.0 / (x * x)
        x += 1.0
    r = 1.0 / x
    s = r * r
    tail = s * (
        1 / 6 - s * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66 - s * (691 / 2730)))))
    )
    return head + r * (1.0 + 0.5 * r + tail)


@kernel
def _adaptive(offsets, above, size, retrieved, cutoffs, gain, start, out):  # type: ignore[no-untyped-def]
    """Compute INST of one order.

    `next_rank` is seen with probability `chance`; x determines the probabilities of later ranks.
    Ranks without a gain are passed at once by sums: n ranks between gains have
    x^2 (psi'(x) - psi'(x + n)), and all ranks after the last gain x^2 psi'(x).
    """
    for g in range(offsets.shape[0] - 1):
        for k in range(cutoffs.shape[0]):
            next_rank = 0
            x = start
            chance = 1.0
            rows = 0.0
            gained = 0.0
            distance = start
            for e in range(offsets[g], offsets[g + 1]):
                if above[e] >= retrieved[g] or (cutoffs[k] > 0 and above[e] >= cutoffs[k]):
                    break
                if gain[e] == 0.0:
                    continue
                n = above[e] - next_rank
                if n > 0:
                    rows += chance * x * x * (_trigamma(x) - _trigamma(x + n))
                    chance *= (x / (x + n)) ** 2
                rows += chance
                gained += chance * gain[e]
                distance -= gain[e]
                next_rank = above[e] + 1
                x = next_rank + distance
                chance *= ((x - 1.0) / x) ** 2
            rows += chance * x * x * _trigamma(x)
            out[k, g] = gained / rows


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
    spellings = ("rbp_resid",)

    def empty_is_known(self) -> bool:
        return False

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        judged, p = ranking.unjudged_rows(), float(self.p)
        below, summed = discount_table("geometric", p, int(ranking.retrieved.max(initial=0)) + 1)
        unknown, unjudged_rows = np.empty((2, ranking.groups))
        _unknown_weight(
            ranking.offsets,
            ranking.above,
            ranking.size,
            ranking.grade,
            ranking.retrieved,
            judged.offsets,
            judged.above,
            judged.size,
            summed,
            unknown,
            unjudged_rows,
        )
        beyond = below[ranking.retrieved]
        if self.tail == "if_unjudged":
            beyond = np.where(unjudged_rows > 0, beyond, 0.0)
        return (1.0 - p) * unknown + beyond


@kernel
def _unknown_weight(  # type: ignore[no-untyped-def]
    offsets, above, size, grade, retrieved, others, other_above, other_size, summed, out, count
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
    spellings = ("Compatibility",)

    def has_expectation(self) -> bool:
        return False  # the ideal follows the order of tied rows

    def shared_values(self, ranking: Ranking, cutoffs: np.ndarray) -> np.ndarray:
        rel = float(self.rel)
        entries = np.diff(ranking.offsets)
        group = np.repeat(np.arange(ranking.groups), entries)
        order = np.lexsort((-ranking.grade, group))  # stable: ranks ascend where grades are equal
        ideal = np.empty(len(order), np.int64)
        ideal[order] = np.arange(len(order)) - np.repeat(ranking.offsets[:-1], entries)
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
