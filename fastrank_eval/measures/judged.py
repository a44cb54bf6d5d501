"""Measure rankings with partial judgments, and their judged share."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fastrank_eval._lib.arguments import integer, one_of
from fastrank_eval._lib.elementary import powers
from fastrank_eval._lib.jit import inlined, kernel
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.measures.base import (
    PROBABILITY,
    REL,
    WEIGHT,
    GroupFunction,
    Measure,
    Param,
    at_most,
    word_or,
)
from fastrank_eval.measures.precision import SHORT, depth_of, ranks_of

#: The label of rows that is null only where the document is judged for no query.
ANYWHERE = "judged anywhere"

#: Added to the counts of both classes by infAP, as in trec_eval.
_EPSILON = 1e-5


@inlined
def _nonrelevant(group, rows, rel, limit):  # type: ignore[no-untyped-def]
    """Count the rows above a rank that are judged not relevant.

    A negative grade means not judged.
    """
    count = limit
    for e in range(group.first, group.end):
        count -= rows.above[e] < limit and not 0 <= rows.grade[e] < rel
    return count


@inlined
def _nonrelevant_retrieved(group, rows, options):  # type: ignore[no-untyped-def]
    return _nonrelevant(group, rows, options.rel, group.retrieved)


@inlined
def _preference(group, rows, options):  # type: ignore[no-untyped-def]
    """Sum expected preferences of relevant rows.

    For a block with z rows judged not relevant, below b such rows: the mean over j <= z of
    f(b + j).
    """
    total = group.relevant
    bound = min(_nonrelevant(group, rows, options.rel, group.rows), total)
    value = 0.0
    others_above = 0
    e = group.first
    while e < group.end and rows.above[e] < group.retrieved:
        first = e
        hits = 0
        others = 0
        while e < group.end and rows.above[e] == rows.above[first]:
            hits += rows.grade[e] >= options.rel
            others += not 0 <= rows.grade[e] < options.rel
            e += 1
        b = rows.above[first] - others_above
        z = rows.size[first] - others
        if hits > 0 and bound > 0:
            # Sum of min(b + j, total) over j = 0 ... z.
            under = min(max(total - b, 0), z + 1)
            penalty = under * b + under * (under - 1) // 2 + (z + 1 - under) * total
            value += hits * (1.0 - penalty / (bound * (z + 1.0)))
        else:
            value += hits
        others_above += others
    return at_most(value / total, 1.0)


@inlined
def _inferred(group, rows, options):  # type: ignore[no-untyped-def]
    value = 0.0
    hits = 0
    unlabelled = 0
    negative = 0
    for e in range(group.first, group.end):
        grade = rows.grade[e]
        if rows.above[e] >= group.retrieved:
            break
        if grade != grade:
            unlabelled += 1
        elif grade < 0:
            negative += 1
        elif grade >= options.rel:
            pooled = rows.above[e] - unlabelled
            others = pooled - negative - hits
            likely = (hits + _EPSILON) / (hits + others + 2.0 * _EPSILON)
            value += (1.0 + pooled * likely) / (rows.above[e] + 1.0)
            hits += 1
    return at_most(value / group.relevant, 1.0)


class _Incomplete(Measure):
    """Base class of bpref and infAP, which use judged rows only.

    A row without a label was not judged. A row of negative grade was pooled, but not judged either.
    """

    needs_relevant = True
    needs_judgments = True
    options = (REL, WEIGHT)
    takes_cutoff = False


class BinaryPreference(_Incomplete):
    """bpref, the preference of relevant rows over rows judged not relevant."""

    name = "bpref"
    formula = "1/R sum over relevant of 1 - min(nonrelevant above, R) / min(N, R)"
    reference = "Buckley & Voorhees (2004), doi:10.1145/1008992.1009000"
    group_function = GroupFunction(_preference, needs_relevant=True)


class GeometricPreference(BinaryPreference):
    """GMbpref, the geometric mean of bpref over groups."""

    name = "GMbpref"
    formula = "exp(mean over groups of ln max(bpref, 0.00001))"
    reference = "Buckley, trec_eval: gm_bpref"
    aliases = ("gm_bpref",)
    aggregate = "geometric mean"


class NonrelevantRetrieved(_Incomplete):
    """NumNonrelRet, the number of retrieved rows judged not relevant."""

    name = "NumNonrelRet"
    formula = "retrieved rows with a label in [0, rel["
    higher_is_better = False
    has_direction = False
    reference = "Buckley, trec_eval: num_nonrel_judged_ret"
    group_function = GroupFunction(_nonrelevant_retrieved)
    needs_relevant = False
    aliases = ("num_nonrel_judged_ret",)
    aggregate = "sum"
    range = (0.0, np.inf)

    def empty_is_known(self) -> bool:
        return False


class InferredAP(_Incomplete):
    """infAP, average precision inferred from the judged part of a pool."""

    name = "infAP"
    formula = (
        "1/R sum over relevant ranks k of 1/k (1 + pooled (rel + e) / (rel + nonrel + 2 e)), "
        "counts of the rows above; e = 1e-5"
    )
    reference = "Yilmaz & Aslam (2006), doi:10.1145/1183614.1183633"
    group_function = GroupFunction(_inferred, needs_relevant=True)

    def has_expectation(self) -> bool:
        return False


@inlined
def _is_unjudged(grade, pooled):  # type: ignore[no-untyped-def]
    """Return whether a row has no label, or if `pooled` a negative grade."""
    return grade < 0.0 if pooled else grade != grade


@inlined
def _unjudged_above(group, rows, depth, pooled):  # type: ignore[no-untyped-def]
    """Count unjudged rows above a depth, in expectation over ties."""
    count = 0.0
    e = group.first
    while e < group.end and rows.above[e] < min(group.retrieved, depth):
        first = e
        unjudged = 0
        while e < group.end and rows.above[e] == rows.above[first]:
            unjudged += _is_unjudged(rows.grade[e], pooled)
            e += 1
        m = min(depth - rows.above[first], rows.size[first])
        count += (unjudged * m) / rows.size[first]
    return count


@inlined
def _unjudged(group, rows, options):  # type: ignore[no-untyped-def]
    depth = depth_of(group, options)
    below = ranks_of(group, options)
    count = _unjudged_above(group, rows, depth, False)
    if options.parameters[1] != 0.0:
        count = _unjudged_above(group, rows, depth, True) + count
    else:
        count = min(depth, group.retrieved) - count
    return count / below if below > 0 else 0.0


class _JudgedRows(Measure):
    """Base class of Judged and Unjudged: unjudged rows above a cutoff."""

    needs_judgments = True
    reference = "Sakai (2007), doi:10.1145/1277741.1277756"
    group_function = GroupFunction(_unjudged)

    def numbers(self) -> tuple[float, ...]:
        return float(self.short == "length"), float(self.name == "Unjudged")

    def empty_is_known(self) -> bool:
        return False


class JudgedShare(_JudgedRows):
    """Judged@k, the share of judged rows among the first k."""

    name = "Judged"
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


class UnjudgedShare(_JudgedRows):
    """Unjudged@k, the share of unjudged rows (holes) among the first k.

    As in trec_eval, a row of negative grade was pooled, but not judged. In Judged, and with
    ``judged="anywhere"``, it counts as judged.
    """

    name = "Unjudged"
    formula = "unjudged rows above the cutoff / k"
    higher_is_better = False
    options = (
        SHORT,
        Param(
            "judged",
            "query",
            "'query': judged for the query of the row; 'anywhere': for any query, as Hole of BEIR "
            "and MTEB, in `fastrank_eval.trec` only",
            one_of("query", "anywhere"),
        ),
        WEIGHT,
    )
    aliases = ("unj",)
    presets: ClassVar[dict[str, dict[str, str]]] = {"Hole": {"judged": "anywhere"}}

    def label_column(self) -> str | None:
        return ANYWHERE if self.judged == "anywhere" else None


@inlined
def _unknown_weight(group, rows, options):  # type: ignore[no-untyped-def]
    """Sum the mean weight of a block's ranks over unjudged rows."""
    weight = 0.0
    unjudged = 0
    for pooled in (False, True):
        for e in range(group.first, group.end):
            if _is_unjudged(rows.grade[e], pooled) and rows.above[e] < group.retrieved:
                c = rows.above[e]
                n = rows.size[e]
                weight += (options.summed[c + n] - options.summed[c]) / n
                unjudged += 1
    value = (1.0 - options.parameters[0]) * weight
    if unjudged > 0 or options.parameters[1] == 0.0:
        value += options.discount[group.retrieved]
    return at_most(value, 1.0)


class RBPResidual(Measure):
    """RBPres, the increase of RBP if every unknown row were relevant.

    Unknown rows are retrieved rows without a label or of negative grade, and all ranks after the
    list.
    """

    name = "RBPres"
    formula = "(1 - p) sum over unjudged ranks i of p^(i-1) + p^n, n being the rows of the list"
    higher_is_better = False
    reference = "Moffat & Zobel (2008), doi:10.1145/1416950.1416952"
    needs_judgments = True
    takes_cutoff = False
    options = (
        Param("p", 0.8, "persistence, as of RBP", PROBABILITY),
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
    group_function = GroupFunction(_unknown_weight)

    def empty_is_known(self) -> bool:
        return False

    def numbers(self) -> tuple[float, ...]:
        return float(self.p), float(self.tail == "if_unjudged")

    def discounts(self) -> tuple[str, float]:
        return "geometric", float(self.p)


class Compatibility(Measure):
    """Compat, rank-biased overlap with the nearest ideal ranking.

    It is divided by the overlap of the ideal with itself. Rows of equal grade have the order of the
    ranking in the ideal, and rows that were not retrieved come last among them.
    """

    name = "Compat"
    formula = (
        "RBO(list, ideal) / RBO(ideal, ideal),  RBO = sum over d <= depth of p^(d-1) overlap@d / d"
    )
    reference = "Clarke, Vtyurina & Smucker (2021), doi:10.1145/3451161"
    needs_relevant = True
    takes_cutoff = False
    options = (
        Param("p", 0.95, "persistence: the probability of looking deeper", PROBABILITY),
        Param(
            "depth",
            1000,
            "the deepest rank at which lists are compared; 'lists': the end of the longer of the "
            "list and the ideal, as in ir_measures",
            word_or("lists", integer(1, most=10**7)),
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
        most = int(depth.max(initial=0))
        weights = _weights(float(self.p), most, from_top=self.depth == "lists")
        blocks = ranking.offsets, ranking.above, ranking.retrieved
        value = np.empty(ranking.groups)
        _overlap(*blocks, ranking.grade, rel, ideal, depth, weights, value)
        return value


def _weights(p: float, depth: int, *, from_top: bool) -> np.ndarray:
    """Return numbers whose differences are sums of p^(d-1)/d.

    The number at m, less that at n, is the sum over d = m + 1 ... n. Addition starts with the
    smallest term, or `from_top`: then no number depends on the depth, which other lists decide.
    """
    terms = powers(p, depth) / np.arange(1, depth + 1, dtype=np.float64)
    weights = np.zeros(depth + 1)
    if from_top:
        weights[1:] = -np.cumsum(terms)
    else:
        weights[:-1] = np.cumsum(terms[::-1])[::-1]
    weights.flags.writeable = False
    return weights


@kernel
def _overlap(  # type: ignore[no-untyped-def]
    offsets, above, retrieved, grade, rel, ideal, depth, weight, out
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
