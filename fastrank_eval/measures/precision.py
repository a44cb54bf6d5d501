"""Measure where relevant rows are: in the first ranks, or in a set."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fastrank_eval._lib.arguments import number, one_of
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import inlined
from fastrank_eval.measures.base import (
    REL,
    WEIGHT,
    GroupFunction,
    Measure,
    Param,
    at_most,
    discounted,
    ranks_in_sight,
    relevant_block,
)

SHORT = Param(
    "short",
    "k",
    "'k': a list shorter than the cutoff still divides by k; 'length': by its rows",
    one_of("k", "length"),
)


class _Hits(Measure):
    """Base class of measures that count relevant rows."""

    needs_relevant = True
    options: ClassVar[tuple[Param, ...]] = (REL, WEIGHT)

    def numbers(self) -> tuple[float, ...]:
        return (float(self.option_values.get("short") == "length"),)


@inlined
def hits_above(group, rows, rel, depth):  # type: ignore[no-untyped-def]
    """Count expected relevant rows above a depth.

    A block with r relevant of n rows and m ranks above the depth adds r m / n.
    """
    hits = 0.0
    e = group.first
    while e < group.end and rows.above[e] < group.retrieved:
        c, n, e, relevant = relevant_block(rows, rel, e, group.end)
        if relevant == 0:
            continue
        m = min(depth - c, n)
        if m <= 0:
            break
        hits += (relevant * m) / n
    return hits


@inlined
def depth_of(group, options):  # type: ignore[no-untyped-def]
    """Return the cutoff; the rows of the list if all ranks count."""
    return group.retrieved if options.cutoff == 0 else options.cutoff


@inlined
def _hits(group, rows, options):  # type: ignore[no-untyped-def]
    return hits_above(group, rows, options.rel, depth_of(group, options))


@inlined
def ranks_of(group, options):  # type: ignore[no-untyped-def]
    """Return the denominator of P: the cutoff, or the rows of the list."""
    ranks = depth_of(group, options)
    return min(ranks, group.retrieved) if options.parameters[0] != 0.0 else ranks


@inlined
def _precision(group, rows, options):  # type: ignore[no-untyped-def]
    ranks = ranks_of(group, options)
    return _hits(group, rows, options) / ranks if ranks > 0 else 0.0


@inlined
def _recall(group, rows, options):  # type: ignore[no-untyped-def]
    return _hits(group, rows, options) / group.relevant


@inlined
def _f(group, rows, options):  # type: ignore[no-untyped-def]
    square = options.parameters[1]
    if square > 1e200:
        return _recall(group, rows, options)
    below = square * group.relevant + ranks_of(group, options)
    if below == 0.0:
        return 0.0
    return min((1.0 + square) * _hits(group, rows, options) / below, 1.0)


@inlined
def _r_precision(group, rows, options):  # type: ignore[no-untyped-def]
    depth = np.int64(np.floor(options.parameters[0] * group.relevant + 0.9))
    return hits_above(group, rows, options.rel, depth) / depth if depth > 0 else 0.0


@inlined
def _relative_precision(group, rows, options):  # type: ignore[no-untyped-def]
    ranks = min(depth_of(group, options), group.relevant)
    return _hits(group, rows, options) / ranks if ranks > 0 else 0.0


@inlined
def success(group, rows, options):  # type: ignore[no-untyped-def]
    """Compute the probability of a relevant row above the cutoff.

    Only the first block with a relevant row matters.
    """
    e = group.first
    while e < group.end and rows.above[e] < group.retrieved:
        c, n, e, relevant = relevant_block(rows, options.rel, e, group.end)
        if relevant > 0:
            m = ranks_in_sight(options, c, n)
            missed = 1.0
            if m > 0:
                many = max(relevant, m)
                for i in range(min(relevant, m)):
                    missed *= max(n - many - i, 0) / (n - i)
            return 1.0 - missed
    return 0.0


@inlined
def _set_average_precision(group, rows, options):  # type: ignore[no-untyped-def]
    below = group.retrieved * group.relevant
    return np.float64(group.hits) * group.hits / below if below > 0 else 0.0


@inlined
def _utility(group, rows, options):  # type: ignore[no-untyped-def]
    worth = options.parameters
    missed = group.relevant - group.hits
    return (
        worth[0] * group.hits
        + worth[1] * (group.retrieved - group.hits)
        + worth[2] * missed
        + worth[3] * (group.rows - group.retrieved - missed)
    )


@inlined
def _retrieved_rows(group, rows, options):  # type: ignore[no-untyped-def]
    return np.float64(group.retrieved)


@inlined
def _relevant_rows(group, rows, options):  # type: ignore[no-untyped-def]
    return np.float64(group.relevant)


@inlined
def _relevant_retrieved_rows(group, rows, options):  # type: ignore[no-untyped-def]
    return np.float64(group.hits)


class Precision(_Hits):
    """P@k, the share of relevant rows among the first k."""

    name = "P"
    formula = "hits@k / k"
    needs_relevant = False
    reference = "Cleverdon (1967)"
    group_function = GroupFunction(_precision)
    options = (REL, SHORT, WEIGHT)
    aliases = ("Precision", "Prec", "set_P")


class Recall(_Hits):
    """R@k, the share of the relevant rows that are among the first k."""

    name = "R"
    formula = "hits@k / R"
    reference = "Cleverdon (1967)"
    group_function = GroupFunction(_recall, needs_relevant=True)
    aliases = ("Recall", "set_recall")


class FMeasure(_Hits):
    """F@k, the weighted harmonic mean of P@k and R@k."""

    name = "F"
    formula = "(1 + beta^2) hits@k / (beta^2 R + k)"
    reference = "van Rijsbergen (1979)"
    group_function = GroupFunction(_f, needs_relevant=True)
    options = (
        Param("beta", 1, "weight of recall, beta itself and not its square", number(above=0)),
        Param(
            "alpha",
            None,
            "1 / (1 + beta^2) instead of beta, in ]0, 1]",
            number(above=0, most=1, optional=True),
        ),
        REL,
        SHORT,
        WEIGHT,
    )
    aliases = ("FMeasure", "set_F")

    def check(self) -> None:
        if self.alpha is not None and self.beta != 1:
            raise MeasureError("F: give beta or alpha = 1 / (1 + beta^2), not both.")

    def numbers(self) -> tuple[float, ...]:
        square = (
            float(self.beta) * float(self.beta) if self.alpha is None else 1.0 / self.alpha - 1.0
        )
        return *super().numbers(), square


class RPrecision(_Hits):
    """Rprec, precision among the first R rows, R being the relevant rows.

    The rank is floor(mult R + 0.9), as in trec_eval. The value is 0 if the rank is 0.
    """

    name = "Rprec"
    formula = "hits@c / c, c = floor(mult R + 0.9)"
    reference = "Buckley & Voorhees (2005), TREC: Experiment and Evaluation"
    group_function = GroupFunction(_r_precision, needs_relevant=True)
    options = (
        Param("mult", 1, "the multiple of R to look at", number(above=0, most=2**20)),
        REL,
        WEIGHT,
    )
    aliases = ("RPrecision", "R_precision")
    takes_cutoff = False

    def numbers(self) -> tuple[float, ...]:
        return (float(self.mult),)


class RelativePrecision(_Hits):
    """RelP@k, P@k over the largest possible P@k.

    Without a cutoff, k is the length of the list: relative precision of the retrieved set.
    """

    name = "RelP"
    formula = "hits@k / min(k, R)"
    reference = "Buckley, trec_eval: relative_P; called R_cap in BEIR"
    group_function = GroupFunction(_relative_precision, needs_relevant=True)
    aliases = ("relative_P", "set_relative_P", "R_cap")


class SuccessRate(_Hits):
    """Success@k, 1 if any of the first k rows is relevant, the hit rate."""

    name = "Success"
    formula = "[hits@k > 0]; with ties 1 - C(n - r, m) / C(n, m) in the block that straddles k"
    needs_relevant = False
    reference = "Craswell & Hawking (2004)"
    group_function = GroupFunction(success)
    aliases = ("HR", "HitRate", "Hit", "hit_rate")


class HitCount(_Hits):
    """Hits@k, the number of relevant rows among the first k."""

    name = "Hits"
    formula = "hits@k"
    needs_relevant = False
    reference = "Bassani (2022), ranx, doi:10.1007/978-3-030-99739-7_30"
    group_function = GroupFunction(_hits)
    range = (0.0, np.inf)


_WORTH = number(least=-1e100, most=1e100)


class _OfSet(_Hits):
    """Base class of measures of the retrieved set, where ranks do not matter."""

    needs_relevant = False
    takes_cutoff = False


class SetAveragePrecision(_OfSet):
    """SetAP, precision times recall of all retrieved rows; 0 without any."""

    name = "SetAP"
    formula = "hits^2 / (n R), n being the retrieved rows"
    needs_relevant = True
    reference = "Buckley, trec_eval: set_map"
    group_function = GroupFunction(_set_average_precision, needs_relevant=True)
    aliases = ("set_map",)


class SetUtility(_OfSet):
    """Utility, the sum of the worth of retrieved and missed rows.

    A row with a score is retrieved, a row without is missed. By default a retrieved relevant row is
    worth 1, and any other retrieved row -1.
    """

    name = "Utility"
    formula = (
        "rel_ret hits + nonrel_ret (n - hits) + rel_missed (R - hits) + "
        "nonrel_missed (N - n - R + hits), N being the rows of the group and n the retrieved ones"
    )
    reference = "Lewis (1995), TREC-4 filtering track; trec_eval: utility"
    group_function = GroupFunction(_utility)
    options = (
        Param("rel_ret", 1, "worth of a relevant row that is retrieved", _WORTH),
        Param("nonrel_ret", -1, "worth of another row that is retrieved", _WORTH),
        Param("rel_missed", 0, "worth of a relevant row that is not retrieved", _WORTH),
        Param(
            "nonrel_missed", 0, "worth of another row of the group that is not retrieved", _WORTH
        ),
        REL,
        WEIGHT,
    )
    range = (-np.inf, np.inf)

    def empty_is_known(self) -> bool:
        return bool(self.nonrel_ret == 0 and self.nonrel_missed == 0)

    def numbers(self) -> tuple[float, ...]:
        return self.rel_ret, self.nonrel_ret, self.rel_missed, self.nonrel_missed


class _Count(_OfSet):
    """Base class of counts, which are summed over groups."""

    aggregate = "sum"
    range = (0.0, np.inf)


class RetrievedRows(_Count):
    """NumRet, the number of retrieved rows, summed over groups."""

    name = "NumRet"
    has_direction = False
    formula = "n"
    reference = "Buckley, trec_eval: num_ret"
    group_function = GroupFunction(_retrieved_rows)
    options = (WEIGHT,)
    aliases = ("num_ret",)

    def empty_is_known(self) -> bool:
        return False


class RelevantRows(_Count):
    """NumRel, the number of relevant rows, retrieved or not, over all groups."""

    name = "NumRel"
    has_direction = False
    formula = "R"
    reference = "Buckley, trec_eval: num_rel"
    group_function = GroupFunction(_relevant_rows)
    aliases = ("num_rel",)


class RelevantRetrievedRows(_Count):
    """NumRelRet, the number of relevant retrieved rows, summed over groups."""

    name = "NumRelRet"
    formula = "hits"
    reference = "Buckley, trec_eval: num_rel_ret"
    group_function = GroupFunction(_relevant_retrieved_rows)
    aliases = ("num_rel_ret",)


@inlined
def _reciprocal(group, rows, options):  # type: ignore[no-untyped-def]
    """Compute the expected reciprocal rank of the first relevant row.

    Only the first block with a relevant row matters. Its first relevant row has the i-th rank of
    the block with probability p_i: p_1 = r/n, p_(i+1) = p_i (n - i - r + 1)/(n - i).
    """
    value = 0.0
    e = group.first
    while e < group.end and rows.above[e] < group.retrieved:
        c, n, e, r = relevant_block(rows, options.rel, e, group.end)
        if r > 0:
            chance = r / n
            for i in range(1, ranks_in_sight(options, c, n - r + 1) + 1):
                value += chance / (c + i)
                if i < n:
                    chance *= (n - i - r + 1) / (n - i)
            break
    return at_most(value, 1.0)


class ReciprocalRank(_Hits):
    """RR@k, one over the rank of the first relevant row; 0 if it is after k."""

    name = "RR"
    formula = "1 / (rank of the first relevant row)"
    reference = "Kantor & Voorhees (2000), doi:10.1023/A:1009902609570"
    group_function = GroupFunction(_reciprocal)
    needs_relevant = False
    aliases = ("MRR", "recip_rank", "ReciprocalRank")


@inlined
def _binary_lagging_gain(group, rows, options):  # type: ignore[no-untyped-def]
    """Average the expected discounts of relevant rows.

    Of the z other rows of a block, 0 to z come before a relevant row, equally likely.
    """
    total = 0.0
    before = 0
    e = group.first
    while e < group.end and rows.above[e] < group.retrieved:
        c, n, e, r = relevant_block(rows, options.rel, e, group.end)
        if r == 0:
            continue
        levels = n - r + 1
        total += discounted(options, r, c - before, levels, levels)
        before += r
    return at_most(total / group.relevant, 1.0)


class BinaryLaggingGain(_Hits):
    """binG, the mean over relevant rows of 1/log2(2 + others before it)."""

    name = "binG"
    formula = "1/R sum over relevant ranks i of 1 / log2(2 + i - hits@i)"
    reference = "Buckley, trec_eval: binG"
    group_function = GroupFunction(_binary_lagging_gain, needs_relevant=True)
    takes_cutoff = False

    def discounts(self) -> tuple[str, float]:
        return "log2", 0.0
