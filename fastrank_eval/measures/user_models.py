"""Model users: which ranks they see, and when they stop."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from fastrank_eval._lib.arguments import integer, number, one_of
from fastrank_eval._lib.elementary import exp2, exp2_each
from fastrank_eval._lib.errors import MeasureError
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
    next_block,
    outside_unit,
    ranks_in_sight,
    ranks_that_count,
)
from fastrank_eval.measures.gain import (
    DEEPEST,
    PositionWeighted,
    discount_table,
    expected_gain,
    gain_of,
)

GAIN = Param(
    "gain",
    "binary",
    "'binary': 1 for grades of at least `rel`; 'label': the label itself, in [0, 1]; or a table "
    "{grade: gain in [0, 1]}",
    gain_of("binary", "label", least=0, most=1),
)
HORIZON = Param(
    "horizon",
    None,
    "the last rank that a reader may see; None: there is none, lists go on",
    integer(1, most=DEEPEST, optional=True),
)
WANTED = Param("T", 1, "the gain that the reader wants", number(above=0, most=1e9))
#: Options of readers who may go on without end.
_ENDLESS = (REL, GAIN, HORIZON, WEIGHT)


@inlined
def _gain_seen(group, rows, options):  # type: ignore[no-untyped-def]
    """Divide the expected gain by the rows seen."""
    return at_most(expected_gain(group, rows, options) / options.parameters[0], 1.0)


class UserModel(PositionWeighted):
    """Base class: gains in [0, 1] over the expected number of rows seen."""

    group_function = GroupFunction(_gain_seen)

    def gain_key(self) -> Hashable:
        return "unit gain", self.gain, self.rel if self.gain == "binary" else None

    def gains_of(self, grades: np.ndarray) -> np.ndarray:
        if self.gain == "binary":
            return (grades >= self.rel).astype(np.float64)
        return grades if self.gain == "label" else super().gains_of(grades)

    def numbers(self) -> tuple[float, ...]:
        return (self.rows_seen(),)

    def check_grades(self, ranking: Ranking) -> None:
        super().check_grades(ranking)
        wrong = outside_unit(ranking) if self.gain == "label" else None
        if wrong is not None:
            raise MeasureError(
                f"{self.display_name}: label {wrong:g} is not a gain in [0, 1]; with gain='label' "
                "labels must lie in [0, 1]. Give grades their gains by a table, as in "
                f"{self.name}(gain={{1: 0.5, 2: 1}})."
            )

    def last_rank(self) -> int:
        return min((rank for rank in (self.cutoff, self.horizon) if rank), default=0)

    def rows_seen(self) -> float:
        """Compute the expected number of rows seen without gains, sum of V(i)."""
        if self.horizon is None:
            return self.rows_without_end()
        _, summed = discount_table(*self.discounts(), self.horizon)
        return float(summed[self.horizon])

    def rows_without_end(self) -> float:
        """Compute the expected number of rows seen of a list without end."""
        raise NotImplementedError  # pragma: no cover - abstract


class TruncatedModel(UserModel):
    """Base class of models of readers who stop at rank k; it needs a cutoff."""

    options: ClassVar[tuple[Param, ...]] = (REL, GAIN, WEIGHT)

    def check_complete(self) -> None:
        if self.cutoff is None:
            raise MeasureError(
                f"{self.name} models users who stop at rank k; add a cutoff: {self.name}@10."
            )
        if self.cutoff > DEEPEST:
            raise MeasureError(
                f"{self.name} takes cutoffs up to {DEEPEST:,}, not {self.cutoff:,}: it adds the "
                "chances of being seen of every rank."
            )

    @property
    def horizon(self) -> int | None:
        """The cutoff."""
        return self.cutoff


class RankBiasedPrecision(UserModel):
    """RBP@k, the gain per row seen by a reader who goes on with probability p."""

    name = "RBP"
    formula = "(1 - p) sum over i <= k of p^(i-1) gain(g_i)"
    reference = "Moffat & Zobel (2008), doi:10.1145/1416950.1416952"
    options = (
        Param("p", 0.8, "persistence: the probability of going on to the next rank", PROBABILITY),
        *_ENDLESS,
    )

    def discounts(self) -> tuple[str, float]:
        return "geometric", float(self.p)

    def rows_without_end(self) -> float:
        return 1.0 / (1.0 - float(self.p))


class ScaledDiscountedGain(TruncatedModel):
    """SDCG@k, DCG@k over the DCG@k of k rows of gain 1."""

    name = "SDCG"
    formula = "sum over i <= k of gain(g_i) / log2(i + 1), over sum over i <= k of 1 / log2(i + 1)"
    reference = (
        "Moffat et al. (2017), doi:10.1145/3052768; "
        "Jarvelin & Kekalainen (2002), doi:10.1145/582415.582418"
    )
    discount = "log2"


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


@inlined
def _adaptive(group, rows, options):  # type: ignore[no-untyped-def]
    """Compute INST of one order.

    `next_rank` is seen with probability `chance`; x determines the probabilities of later ranks.
    Ranks without a gain are passed at once by sums: n ranks between gains have
    x^2 (psi'(x) - psi'(x + n)), and all ranks after the last gain x^2 psi'(x): those up to the
    horizon if there is one.
    """
    distance, horizon = options.parameters[0], options.parameters[1]
    next_rank = 0
    x = distance
    chance = 1.0
    seen = 0.0
    gained = 0.0
    for e in range(group.first, group.end):
        rank = rows.above[e]
        if rank >= group.retrieved or (options.cutoff > 0 and rank >= options.cutoff):
            break
        if rows.gain[e] == 0.0:
            continue
        n = rank - next_rank
        if n > 0:
            seen += chance * x * x * (_trigamma(x) - _trigamma(x + n))
            chance *= (x / (x + n)) ** 2
        seen += chance
        gained += chance * rows.gain[e]
        distance -= rows.gain[e]
        next_rank = rank + 1
        x = next_rank + distance
        chance *= ((x - 1.0) / x) ** 2
    beyond = _trigamma(x)
    if horizon > 0.0:
        beyond -= _trigamma(x + (horizon - next_rank))
    seen += chance * x * x * beyond
    return at_most(gained / seen, 1.0)


class InverseSquare(UserModel):
    """INSQ@k, the gain per row seen by a reader more patient with rank."""

    name = "INSQ"
    formula = "sum over i <= k of W(i) gain(g_i),  W(i) proportional to 1 / (i + 2T - 1)^2"
    reference = "Moffat, Scholer & Thomas (2012), doi:10.1145/2407085.2407092"
    options = (WANTED, *_ENDLESS)

    def discounts(self) -> tuple[str, float]:
        return "inverse square", 2.0 * self.T

    def rows_without_end(self) -> float:
        x = 2.0 * self.T
        # x^2 psi'(x) with the first term apart: 1/x^2 would overflow for a tiny T.
        return 1.0 + float(x * (x * _trigamma(x + 1.0)))


class AdaptiveInverseSquare(UserModel):
    """INST@k, INSQ for a reader who wants a gain of T and subtracts each gain."""

    name = "INST"
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
        *_ENDLESS,
    )
    discount = "none"
    group_function = GroupFunction(_adaptive)

    def has_expectation(self) -> bool:
        return False

    def numbers(self) -> tuple[float, ...]:
        return 2.0 * self.T, self.horizon or 0


MAX_GRADE = Param(
    "max_grade", 4, "top of the grade scale; a higher grade is an error", number(above=0, most=1000)
)
STOP = Param(
    "stop",
    "grade",
    "'grade': R as in the formula; 'label': the label is R itself, in [0, 1]",
    one_of("grade", "label"),
)


@inlined
def _expected_cascade(group, rows, options):  # type: ignore[no-untyped-def]
    """Sum discounted stop probabilities, expected over ties.

    In a block, the reader passes j rows with the mean probability q_j over all ways to draw them:
    e_j(x)/C(n, j) of the passing probabilities x. A row with factor x that follows i - 1 others
    changes q_j to (i - j)/i q_j + j/i x q_(j-1). Rows that never stop leave q at 1.
    By Maclaurin's inequality q_j <= (mean x)^j. Terms with a bound below 1e-22 are left out, so a
    large block takes time linear in its rows.
    """
    stop, passed = rows.gain, options.scratch
    passing = 1.0
    total = 0.0
    e = group.first
    while e < group.end and rows.above[e] < group.retrieved:
        first = e
        c, n, e = next_block(rows, e, group.end)
        m = ranks_in_sight(options, c, n)
        if m <= 0:
            break
        if n == 1:
            total += passing * stop[first] * options.discount[c]
            passing *= 1.0 - stop[first]
            continue
        stopping = 0.0
        for i in range(first, e):
            stopping += stop[i]
        m = ranks_that_count(m, 1.0 - stopping / n)
        for j in range(m + 1):
            passed[j] = 1.0
        drawn = n - (e - first)
        for i in range(first, e):
            drawn += 1
            x = 1.0 - stop[i]
            for j in range(min(m, drawn), 0, -1):
                share = (drawn - j) / drawn
                passed[j] = share * passed[j] + (1.0 - share) * x * passed[j - 1]
        for j in range(1, m + 1):
            total += passing * (passed[j - 1] - passed[j]) * options.discount[c + j - 1]
        for i in range(first, e):
            passing *= 1.0 - stop[i]
    return total


@inlined
def _cascade(group, rows, options):  # type: ignore[no-untyped-def]
    return at_most(_expected_cascade(group, rows, options), 1.0)


@inlined
def _normalized_cascade(group, rows, options):  # type: ignore[no-untyped-def]
    """Divide the cascade by that of the best order of all judged rows."""
    ideal = 0.0
    passing = 1.0
    judged = group.end - group.first
    for i in range(judged if options.cutoff == 0 else min(options.cutoff, judged)):
        stop = rows.best[group.first + i]
        ideal += passing * stop * options.discount[i]
        passing *= 1.0 - stop
    if not ideal > 0.0:
        return np.nan
    return at_most(_expected_cascade(group, rows, options) / ideal, 1.0)


_NORMALIZED_CASCADE = GroupFunction(_normalized_cascade, uses_scratch=True)


class _Cascade(Measure):
    """Base class of the cascade model, with stop probabilities."""

    group_function = GroupFunction(_cascade, uses_scratch=True)

    def gain_key(self) -> Hashable:
        return "stop", self.stop, self.max_grade if self.stop == "grade" else None

    def gains_of(self, grades: np.ndarray) -> np.ndarray:
        """Compute the probability of stopping at each grade."""
        grades = np.maximum(grades, 0.0)
        if self.stop == "label":
            return grades
        return (exp2_each(grades) - 1.0) / exp2(self.max_grade)

    def check_grades(self, ranking: Ranking) -> None:
        if self.stop == "label":
            wrong = outside_unit(ranking)
            if wrong is not None:
                raise MeasureError(
                    f"{self.display_name}: label {wrong:g} is not a probability; with stop='label' "
                    "labels must lie in [0, 1]."
                )
        elif ranking.max_grade > self.max_grade:
            remedy = "map the labels to a scale of grades up to 1000"
            if ranking.max_grade <= 1000:
                top = f"{self.name}(max_grade={ranking.max_grade:g})"
                remedy = f"give the top of the scale, as in {top}"
            raise MeasureError(
                f"{self.display_name}: grade {ranking.max_grade:g} is above "
                f"max_grade={self.max_grade}; {remedy}."
            )


class ExpectedReciprocalRank(_Cascade):
    """ERR@k, the expected reciprocal rank at which a reader stops."""

    name = "ERR"
    formula = "sum over i <= k of 1/i R_i prod_{j<i} (1 - R_j),  R = (2^g - 1) / 2^max_grade"
    reference = "Chapelle et al. (2009), doi:10.1145/1645953.1646033"
    options = (
        MAX_GRADE,
        STOP,
        Param(
            "normalize", False, "divide by the ERR of the best order (nERR)", one_of(False, True)
        ),
        Param(
            "discount",
            "reciprocal",
            "of rank i: 'reciprocal' 1/i or 'log2' 1/log2(i + 1)",
            one_of("reciprocal", "log2"),
        ),
        WEIGHT,
    )
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"nERR": {"normalize": True}}

    def discounts(self) -> tuple[str, float]:
        return self.discount, 0.0

    @property
    def group_function(self) -> GroupFunction:  # type: ignore[override]
        return _NORMALIZED_CASCADE if self.normalize else _Cascade.group_function

    @property
    def best_gains(self) -> str:  # type: ignore[override]
        return "judged" if self.normalize else ""

    def undefined_if_empty(self) -> str | None:
        return "no_relevant" if self.normalize else None


class ProbabilityFound(_Cascade):
    """pFound@k, the chance to find a satisfying row before giving up."""

    name = "pFound"
    formula = (
        "sum over i <= k of patience^(i-1) R_i prod_{j<i} (1 - R_j),  R = (2^g - 1) / 2^max_grade"
    )
    reference = "Gulin et al. (2009), Yandex at ROMIP; as PFound of CatBoost"
    options = (
        Param(
            "patience",
            0.85,
            "probability of going on to the next rank after a row that did not satisfy",
            number(above=0, most=1),
        ),
        MAX_GRADE,
        STOP,
        WEIGHT,
    )

    def discounts(self) -> tuple[str, float]:
        return "geometric", float(self.patience)


@inlined
def _gain_stopping(group, rows, options):  # type: ignore[no-untyped-def]
    """Compute the gain per row seen of one order.

    `readers` is the share of readers that gains have not stopped. Ranks without a gain are passed
    at once by sums of discounts; `all_ranks` is the sum over all ranks. A gain multiplies `readers`
    by 1 - `share` * gain. At a sum of gains of `goal` all readers stop.
    """
    all_ranks, share, goal = options.parameters[0], options.parameters[1], options.parameters[2]
    next_rank = 0
    readers = 1.0
    seen = 0.0
    gained = 0.0
    sum_of_gains = 0.0
    for e in range(group.first, group.end):
        rank = rows.above[e]
        if rank >= group.retrieved or (options.cutoff > 0 and rank >= options.cutoff):
            break
        gain = rows.gain[e]
        if gain == 0.0:
            continue
        seen += readers * (options.summed[rank + 1] - options.summed[next_rank])
        gained += readers * options.discount[rank] * gain
        next_rank = rank + 1
        readers *= 1.0 - share * gain
        sum_of_gains += gain
        if sum_of_gains >= goal:
            readers = 0.0
        if readers == 0.0:
            break
    seen += readers * (all_ranks - options.summed[next_rank])
    return min(gained / seen, 1.0)


class _GainStopping(UserModel):
    """Base class of readers who stop as they gain: one pass over the gains."""

    reference = "Azzopardi, Mackenzie & Moffat (2021), doi:10.1145/3471158.3472239"
    group_function = GroupFunction(_gain_stopping)

    def numbers(self) -> tuple[float, ...]:
        return self.rows_seen(), 1.0, np.inf

    def has_expectation(self) -> bool:
        return False


class NearlyERR8(_GainStopping, TruncatedModel):
    """NERR8@k, the gain per row seen; gain g stops with probability g."""

    name = "NERR8"
    formula = "sum over i <= k of V(i) gain(g_i), over sum of V(i);  C(i) = 1 - gain(g_i)"
    discount = "none"


class NearlyERR9(_GainStopping, TruncatedModel):
    """NERR9@k, NERR8@k where 1/i of the readers reach rank i, as in ERR."""

    name = "NERR9"
    formula = (
        "sum over i <= k of V(i) gain(g_i), over sum of V(i);  C(i) = i/(i + 1) (1 - gain(g_i))"
    )
    discount = "reciprocal"


class NearlyERR10(_GainStopping, RankBiasedPrecision):
    """NERR10@k, RBP where gain g stops the reader with probability g."""

    name = "NERR10"
    formula = "sum over i <= k of V(i) gain(g_i), over sum of V(i);  C(i) = p (1 - gain(g_i))"
    options = (
        Param(
            "p",
            0.9,
            "persistence: the probability of going on to the next rank if nothing is gained",
            PROBABILITY,
        ),
        *_ENDLESS,
    )


class NearlyERR11(_GainStopping, InverseSquare):
    """NERR11@k, INSQ where gain g stops the reader with probability g."""

    name = "NERR11"
    formula = (
        "sum over i <= k of V(i) gain(g_i), over sum of V(i);  "
        "C(i) = ((i + 2T - 1)/(i + 2T))^2 (1 - gain(g_i))"
    )


class BejeweledPlayer(_GainStopping, TruncatedModel):
    """BPM@k, the gain per row seen by a reader who stops at gain T or rank k."""

    name = "BPM"
    formula = "sum over i <= d of gain(g_i), over d;  d the first rank by which T is gained, or k"
    reference = "Zhang et al. (2017), doi:10.1145/3077136.3080841"
    options = (WANTED, REL, GAIN, WEIGHT)
    discount = "none"

    def numbers(self) -> tuple[float, ...]:
        return self.rows_seen(), 0.0, float(self.T)
