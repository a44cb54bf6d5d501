"""Measure gains of rows: cumulated, averaged over ranks, by lag.

Discount gains by rank.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from fastrank_eval._lib.arguments import number, one_of
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.elementary import (
    LOG2,
    elementary,
    exp2_each,
    log,
    log2_each,
    log_each,
    powers,
)
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import inlined
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.measures.base import (
    WEIGHT,
    GroupFunction,
    Measure,
    Param,
    at_most,
    best_with_gain,
    discounted,
    gaining_block,
    ranks_in_sight,
)

DISCOUNT = Param(
    "discount",
    "log2",
    "'log2': 1/log2(i + 1); 'jarvelin': none before rank `base`, then 1/log_base(i)",
    one_of("log2", "jarvelin"),
)
BASE = Param("base", 2, "base of the 'jarvelin' logarithm", number(above=1))

#: The deepest rank of sums of discounts for lists of any length.
DEEPEST = 1 << 24

_tables: dict[tuple[str, float], tuple[np.ndarray, np.ndarray]] = {}


def discount_table(kind: str, parameter: float, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the discount of each rank, and the sums of discounts.

    Parameters
    ----------
    kind : str
        ``"none"``: 1; ``"reciprocal"``: 1/i; ``"log2"``: 1/log2(i + 1); ``"jarvelin"``: 1 for ranks
        below the base b, then 1/log_b(i); ``"geometric"``: p^(i - 1); ``"inverse square"``:
        (x/(x + i - 1))^2; ``"logarithm"``: log2(i + 1) itself.
    parameter : float
        b, above 1; p, in ]0, 1]; or x, above 0. 0 for kinds that have none.
    ranks : int
        Number of ranks.

    Returns
    -------
    discount : ndarray of float64, shape (at least ranks,)
        Entry i is the discount of rank i + 1.
    summed : ndarray of float64, shape (at least ranks + 1,)
        Entry i is the sum over ranks 1 to i.
    """
    key = (kind, parameter)
    table = _tables.get(key)
    if table is None or len(table[0]) < ranks:
        # A longer table starts with the same numbers, so no value depends on earlier calls.
        table = _build(kind, parameter, max(1024, 1 << (ranks - 1).bit_length() if ranks else 1024))
        _tables[key] = table
    return table


#: The discount of each rank, by kind, of the ranks and the parameter.
_DISCOUNTS: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "none": lambda rank, _: np.ones(len(rank)),
    "reciprocal": lambda rank, _: 1.0 / rank,
    "log2": lambda rank, _: 1.0 / log2_each(rank + 1.0),
    "logarithm": lambda rank, _: log2_each(rank + 1.0),
    "geometric": lambda rank, p: powers(p, len(rank)),
    "inverse square": lambda rank, x: np.square(x / (x + (rank - 1.0))),
    # Below the base the quotient is below 1.
    "jarvelin": lambda rank, base: 1.0 / np.maximum(1.0, log_each(rank) / log(base)),
}


def _build(kind: str, parameter: float, ranks: int) -> tuple[np.ndarray, np.ndarray]:
    discount = _DISCOUNTS[kind](np.arange(1.0, ranks + 1.0), parameter)
    summed = np.zeros(ranks + 1)
    np.cumsum(discount, out=summed[1:])
    return frozen(discount), frozen(summed)


@inlined
def expected_gain(group, rows, options):  # type: ignore[no-untyped-def]
    """Sum expected gains: a block adds its mean gain times (D(c + m) - D(c))."""
    total = 0.0
    e = group.first
    while e < group.end and rows.above[e] < group.retrieved:
        c, n, e, block, _ = gaining_block(rows, e, group.end)
        m = ranks_in_sight(options, c, n)
        if m <= 0:
            break
        total += discounted(options, block, c, m, n)
    return total


def gain_of(*named: str, least: float = -np.inf, most: float = np.inf) -> Callable[[Any], Any]:
    """Make a reader of gain names and gain tables.

    A table becomes a tuple of (grade, gain in [least, most]) in the order of grades.
    """
    read_grade, read_gain = number(), number(least=least, most=most)

    def read(value: Any) -> Any:
        if isinstance(value, str):
            return one_of(*named)(value)
        if isinstance(value, tuple):
            try:
                value = dict(value)
            except (TypeError, ValueError):
                value = None
        if not isinstance(value, Mapping) or not value:
            raise ValueError(", ".join(map(repr, named)) + " or a table {grade: gain}")
        try:
            table = {read_grade(grade): read_gain(gain) for grade, gain in value.items()}
        except ValueError as wrong:
            raise ValueError(f"a table of numbers whose gains are each {wrong}") from None
        if table.get(0, 0) != 0:
            remedy = "" if least == 0 else ": shift the grades and use negative='keep'"
            raise ValueError(
                f"a table that gives grade 0 no gain (rows of grade 0 are only counted{remedy})"
            )
        return tuple(sorted(table.items()))

    return read


_GAINS = "'exp': 2^g - 1; 'linear': g; or a table {grade: gain}"
GAIN = Param("gain", "exp", _GAINS, gain_of("exp", "linear"))
LINEAR_GAIN = Param("gain", "linear", _GAINS, gain_of("exp", "linear"))
NEGATIVE = Param(
    "negative",
    "zero",
    "negative grades: 'zero': gain 0; 'keep': the gain function, so that bad rows cost. A gain of "
    "the table counts in both",
    one_of("zero", "keep"),
)


class Gains(Measure):
    """Base class of measures with a gain for each grade."""

    def keeps_negative(self) -> bool:
        """Return whether the gain function applies to negative grades."""
        return bool(self.option_values.get("negative") == "keep")

    def ignores_negative(self) -> bool:
        named = isinstance(self.gain, tuple) and min(self.gain)[0] < 0
        return not named and self.option_values.get("negative") == "zero"

    def gain_key(self) -> Hashable:
        """Return a key of all options that the gains of labelled rows depend on."""
        return "gain", self.gain, self.keeps_negative()

    def gains_of(self, grades: np.ndarray) -> np.ndarray:
        if isinstance(self.gain, tuple):
            named, gain = np.array(self.gain, np.float64).T
            indices = np.minimum(np.searchsorted(named, grades), len(named) - 1)
            return np.where(named[indices] == grades, gain[indices], 0.0)
        # Not expm1: this is exact for integer grades.
        gains = exp2_each(grades) - 1.0 if self.gain == "exp" else grades
        if self.keeps_negative() or not grades.min(initial=0.0) < 0:
            return gains
        return np.where(grades > 0, gains, 0.0)

    @property
    def names_grades(self) -> bool:  # type: ignore[override]
        return isinstance(self.gain, tuple)

    def refuses(self, ties: str) -> str | None:
        if ties in ("best", "worst") and isinstance(self.gain, tuple):
            table = {0.0: 0.0, **dict(self.gain)}
            gains = [table[grade] for grade in sorted(table)]
            if gains != sorted(gains):
                return (
                    f"{self.display_name} has no order by grade for ties='{ties}', because a "
                    "higher grade has a lower gain; choose ties='expected', 'item' or 'input'"
                )
        return super().refuses(ties)

    def check_grades(self, ranking: Ranking) -> None:
        if self.gain == "exp" and ranking.max_grade > 1023:
            raise MeasureError(
                f"{self.display_name}: grade {ranking.max_grade:g} is too large for gain='exp' "
                "(2^grade overflows); use gain='linear' or a table."
            )
        if isinstance(self.gain, tuple) and len(ranking.grade):
            grades = np.array([pair[0] for pair in self.gain], np.float64)
            grade, _ = ranking.grades
            strange = ~np.isin(grade, grades)
            if not self.keeps_negative():
                strange &= grade > 0
            if strange.any():
                raise MeasureError(
                    f"{self.display_name}: grade {grade[np.argmax(strange)]:g} is not in "
                    "the gain table; give it a gain."
                )


class PositiveGain(Gains):
    """Base class with gains of at least 0: lower ones in a table are 0."""

    needs_relevant = True

    def gain_key(self) -> Hashable:
        return "positive gain", self.gain

    def gains_of(self, grades: np.ndarray) -> np.ndarray:
        return np.maximum(super().gains_of(grades), 0.0)


def _costs(gain: Any) -> bool:
    """Return whether a table has a gain below 0."""
    return isinstance(gain, tuple) and any(value < 0 for _, value in gain)


@inlined
def _gain(group, rows, options):  # type: ignore[no-untyped-def]
    """Sum expected gains; inf if sums pass the largest double both ways."""
    value = expected_gain(group, rows, options)
    return value if value == value else np.inf


class PositionWeighted(Gains):
    """Base class of sums of gains with a weight for each rank."""

    group_function = GroupFunction(_gain)

    def discounts(self) -> tuple[str, float]:
        return self.discount, float(self.base) if self.discount == "jarvelin" else 0.0


class CumulatedGain(PositionWeighted):
    """CG@k, the sum of the gains of the first k rows."""

    name = "CG"
    formula = "sum over i <= k of gain(g_i)"
    reference = "Jarvelin & Kekalainen (2002), doi:10.1145/582415.582418"
    options = (GAIN, NEGATIVE, WEIGHT)
    range = (-np.inf, np.inf)
    discount = "none"


class DiscountedGain(PositionWeighted):
    """DCG@k, the sum of the gains of the first k rows, discounted by rank."""

    name = "DCG"
    formula = "sum over i <= k of gain(g_i) discount(i)"
    reference = (
        "Burges et al. (2005), doi:10.1145/1102351.1102363; "
        "Jarvelin & Kekalainen (2002), doi:10.1145/582415.582418"
    )
    options = (GAIN, NEGATIVE, DISCOUNT, BASE, WEIGHT)
    range = (-np.inf, np.inf)


@inlined
def _at_most_1(value):  # type: ignore[no-untyped-def]
    """Return the value, at most 1; inf if a sum passed the largest double."""
    return at_most(value, 1.0) if value == value else np.inf


_JUDGED, _RETRIEVED, _PERFECT = range(3)


@inlined
def _normalized_gain(group, rows, options):  # type: ignore[no-untyped-def]
    """Divide the gain by that of the best order."""
    ideal = _ideal_gain(group, rows, options)
    if not ideal > 0.0:
        return np.nan
    value = expected_gain(group, rows, options) / ideal
    return _at_most_1(value)


@inlined
def _ideal_gain(group, rows, options):  # type: ignore[no-untyped-def]
    """Sum the ideal DCG in list order, so that a perfect list gives 1.

    Rows of negative gain stand at the last ranks.
    """
    labelled = group.end - group.first
    if options.parameters[0] == _PERFECT:
        if best_with_gain(group, rows) == 0:
            return 0.0
        summed = options.parameters[2] if options.cutoff > 0 else options.summed[group.retrieved]
        return options.parameters[1] * summed
    ranks = group.rows if options.parameters[0] == _JUDGED else group.retrieved
    total = 0.0
    for i in range(labelled):
        value = rows.best[group.first + i]
        rank = i if value >= 0.0 else ranks - (labelled - i)
        if options.cutoff > 0 and rank >= options.cutoff:
            break
        total += value * options.discount[rank]
    return total


class NormalizedGain(PositionWeighted):
    """nDCG@k, DCG@k over that of the best order of the judged rows.

    In the best order rows of negative gain come last, behind rows without a label. A row of
    negative gain that is not retrieved costs nothing in either. So no list exceeds 1.
    """

    name = "nDCG"
    formula = "DCG@k / IDCG@k"
    reference = DiscountedGain.reference
    needs_relevant = True
    options = (
        GAIN,
        NEGATIVE,
        DISCOUNT,
        BASE,
        Param(
            "ideal",
            "judged",
            "best order of 'judged': all rows of the group; 'retrieved': those "
            "with a score; 'perfect': grade max_grade at each of the k ranks",
            one_of("judged", "retrieved", "perfect"),
        ),
        Param(
            "max_grade",
            None,
            "top of the grade scale, for ideal='perfect'",
            number(above=0, optional=True),
        ),
        WEIGHT,
    )
    aliases = ("NDCG",)
    group_function = GroupFunction(_normalized_gain)

    def check(self) -> None:
        if (self.ideal == "perfect") != (self.max_grade is not None):
            raise MeasureError(
                "nDCG: ideal='perfect' needs max_grade=..., the grade at every rank of the best "
                "list; give both or none."
            )
        if self.ideal == "perfect" and not self._perfect_gain() > 0:
            raise MeasureError(f"nDCG: max_grade must have a gain above 0, got {self.max_grade}.")
        if self.keeps_negative() or _costs(self.gain):
            object.__setattr__(self, "range", (-np.inf, 1.0))

    def check_complete(self) -> None:
        if self.ideal == "perfect" and (self.cutoff or 0) > DEEPEST:
            raise MeasureError(
                f"nDCG: ideal='perfect' takes cutoffs up to {DEEPEST:,}, not "
                f"{self.cutoff:,}: it adds the discount of every rank."
            )

    def _perfect_gain(self) -> float:
        grade = np.array([self.max_grade], np.float64)
        if isinstance(self.gain, tuple) and self.max_grade not in dict(self.gain):
            raise MeasureError(f"nDCG: max_grade={self.max_grade} is not in the gain table.")
        return float(self.gains_of(grade)[0])

    @property
    def best_gains(self) -> str:  # type: ignore[override]
        return "retrieved" if self.ideal == "retrieved" else "judged"

    def numbers(self) -> tuple[float, ...]:
        ideal = ("judged", "retrieved", "perfect").index(self.ideal)
        perfect = self._perfect_gain() if self.ideal == "perfect" else 0.0
        ranks = 0.0
        if self.ideal == "perfect" and self.cutoff is not None:
            _, summed = discount_table(*self.discounts(), self.cutoff)
            ranks = float(summed[self.cutoff])
        return ideal, perfect, ranks

    def check_grades(self, ranking: Ranking) -> None:
        super().check_grades(ranking)
        if self.max_grade is not None and ranking.max_grade > self.max_grade:
            raise MeasureError(
                f"{self.display_name}: grade {ranking.max_grade:g} is above "
                f"max_grade={self.max_grade}; give the top of the scale."
            )


@inlined
def _at_relevant_rows(group, rows, options):  # type: ignore[no-untyped-def]
    """Average the expected nDCG at the ranks of rows with a gain.

    A block of n rows has r rows with a gain, of total gain S, below rows of DCG A. Each of its
    ranks i has a row with a gain with probability r/n. The expected DCG up to i is then
    A + discount(i) S/r + (r - 1)/r S/(n - 1) (D(i - 1) - D(c)).
    """
    first, end, best = group.first, group.end, rows.best
    discount, summed = options.discount, options.summed
    judged = best_with_gain(group, rows)
    if judged == 0:
        return np.nan
    ideal = 0.0
    ranks = 0
    gained = 0.0
    total = 0.0
    retrieved_relevant = 0
    e = first
    while e < end and rows.above[e] < group.retrieved:
        c, n, e, block, r = gaining_block(rows, e, end)
        if r == 0:
            continue
        retrieved_relevant += r
        while ranks < min(c, judged):
            ideal += best[first + ranks] * discount[ranks]
            ranks += 1
        for i in range(c, c + n):
            if ranks <= i and ranks < judged:
                ideal += best[first + ranks] * discount[ranks]
                ranks += 1
            if n == 1:
                total += (gained + block * discount[i]) / ideal
            else:
                others = (r - 1) * (block / (n - 1)) * (summed[i] - summed[c])
                total += (r * gained + block * discount[i] + others) / n / ideal
        gained += discounted(options, block, c, n, n)
    while ranks < judged:
        ideal += best[first + ranks] * discount[ranks]
        ranks += 1
    return _at_most_1((total + (judged - retrieved_relevant) * (gained / ideal)) / judged)


@inlined
def _at_levels(group, rows, options):  # type: ignore[no-untyped-def]
    """Average the expected nDCG at the ranks where the ideal gain falls."""
    first, end, best = group.first, group.end, rows.best
    retrieved = group.retrieved
    if options.parameters[0] != 0.0 and group.relevant == 0:
        return np.nan
    total = 0.0
    points = 0
    ideal = 0.0
    ranks = 0
    gained = 0.0
    e = first
    # The block that the next cut may split: its first rank, rows and total gain.
    c = 0
    n = 0
    block = 0.0
    at_end = False
    while not at_end:
        level = best[first + ranks] if first + ranks < end else 0.0
        at_end = level <= 0.0
        if at_end and (ranks == 0 or retrieved <= ranks + 1):
            break
        depth = retrieved
        if not at_end:
            while first + ranks < end and best[first + ranks] == level:
                ideal += level * options.discount[ranks]
                ranks += 1
            depth = min(ranks, retrieved)
        while c + n < depth:
            if n > 0:
                gained += discounted(options, block, c, n, n)
            c = retrieved
            n = 0
            if e < end and rows.above[e] < retrieved:
                c, n, e, block, _ = gaining_block(rows, e, end)
        value = gained
        if c < depth and n > 0:
            value += discounted(options, block, c, min(n, depth - c), n)
        total += value / ideal
        points += 1
    return _at_most_1(total / points) if points > 0 else np.nan


@inlined
def _lagging_gain(group, rows, options):  # type: ignore[no-untyped-def]
    """Divide each gain by the logarithm of 2 plus its lag."""
    all_gains = 0.0
    for e in range(group.first, group.end):
        all_gains += rows.best[e]
    if not all_gains > 0.0:
        return np.nan
    total = 0.0
    gained = 0.0
    ideal = 0.0
    ranks = 0
    for e in range(group.first, group.end):
        above = rows.above[e]
        if above >= group.retrieved:
            break
        while ranks <= above:
            if group.first + ranks < group.end:
                ideal += max(1.0, rows.best[group.first + ranks])
                ranks += 1
            else:
                ideal += above + 1 - ranks
                ranks = above + 1
        gained += rows.gain[e]
        lag = max(ideal - gained, 0.0)
        if lag < options.discount.shape[0] and lag == np.floor(lag):
            total += rows.gain[e] / options.discount[np.int64(lag)]
        else:
            total += rows.gain[e] / elementary(LOG2, 2.0 + lag)
    return _at_most_1(total / all_gains)


class _AgainstBest(PositiveGain):
    """Base class: gains in list order and in ideal order, with log2 discounts."""

    takes_cutoff = False
    options: ClassVar[tuple[Param, ...]] = (LINEAR_GAIN, WEIGHT)
    best_gains = "judged"

    def discounts(self) -> tuple[str, float]:
        return "log2", 0.0


class GainAtRelevantRows(_AgainstBest):
    """nDCGrel, the mean of nDCG at the ranks of rows with a gain.

    A row that is not retrieved adds the DCG of the whole list over the ideal DCG of all judged
    rows.
    """

    name = "nDCGrel"
    formula = "1/R (sum over rows with a gain, at rank i, of DCG@i / IDCG@i + missed DCG / IDCG)"
    reference = "Buckley, trec_eval: ndcg_rel"
    group_function = GroupFunction(_at_relevant_rows)
    aliases = ("ndcg_rel",)


class GainAtLevels(_AgainstBest):
    """RnDCG, the mean of nDCG at the end and where the ideal gain falls.

    With 5 rows of gain 3, 3 of gain 2 and 10 of gain 1 these are the ranks 5, 8 and 18. The end of
    the list is added if more than one row follows the last of them, as in trec_eval.
    """

    name = "RnDCG"
    formula = "mean over such ranks c of DCG@c / IDCG@c"
    reference = "Buckley, trec_eval: Rndcg"
    group_function = GroupFunction(_at_levels)
    options = (
        LINEAR_GAIN,
        Param(
            "rel",
            None,
            "None, or a grade: a group without a row of that grade or above is undefined",
            number(above=0, optional=True),
        ),
        WEIGHT,
    )

    def numbers(self) -> tuple[float, ...]:
        return (float(self.rel is not None),)


class LaggingGain(_AgainstBest):
    """G, each gain over the log of how much later than ideal it comes.

    The lag is the cumulated gain of the ideal list less that of the list. The ideal list counts at
    least 1 at each rank, also after its last relevant row. The gain of the list includes the row
    itself. So a row of high gain can earn more after rows of low gain than before them: high grades
    first is not the best order.
    """

    name = "G"
    formula = (
        "1/ideal sum over i of gain(g_i) / log2(2 + sum over j <= i of "
        "(max(1, ideal gain at j) - gain(g_j)))"
    )
    reference = "Buckley, trec_eval: G"
    group_function = GroupFunction(_lagging_gain)

    def discounts(self) -> tuple[str, float]:
        return "logarithm", 0.0

    def refuses(self, ties: str) -> str | None:
        if ties in ("expected", "best", "worst"):
            why = "has no closed form for" if ties == "expected" else "has no order by grade for"
            return f"{self.display_name} {why} ties='{ties}'; choose ties='item' or 'input'"
        return None
