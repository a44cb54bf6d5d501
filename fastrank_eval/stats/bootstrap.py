"""Resample groups, and infer from the replicates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import at_least_one, check_choice, check_fraction
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.jit import kernel, scratch
from fastrank_eval._lib.threads import in_order
from fastrank_eval.stats import random_numbers
from fastrank_eval.stats.intervals import normal_quantile

__all__ = [
    "Swapped",
    "bootstrap",
    "bootstrap_error",
    "bootstrap_interval",
    "bootstrap_p_value",
    "randomisation_p_value",
    "swapped",
]


KINDS = ("poisson", "multinomial")

#: Groups and replicates in a block: multiplicities and terms stay in the nearer caches.
_GROUPS, _REPLICATES = 256, 128
#: Multinomial replicates that a thread counts at a time, fewer where their counts would pass a
#: number: every group has one.
_COUNTED, _COUNTS = 32, 1 << 22
#: Bits of a sum, and of a term: as many as a double holds exactly.
_SUM_BITS, _TERM_BITS = 62, 53


@dataclass(frozen=True, slots=True)
class Swapped:
    """Sums of two models' terms where they have changed places for some groups.

    Parameters
    ----------
    sums_a, sums_b : ndarray of float64, shape (replicates, terms)
    exact : bool
        Whether replicates are all patterns of the groups that differ, each once, the first of
        them with no group swapped; otherwise they are drawn.
    """

    sums_a: np.ndarray
    sums_b: np.ndarray
    exact: bool


def bootstrap(
    terms: np.ndarray,
    ids: np.ndarray,
    replicates: int,
    seed: int,
    *,
    kind: str = "poisson",
    threads: int = 1,
) -> np.ndarray:
    """Sums of terms over groups drawn with replacement.

    ``sum over groups u of m_ru x_tu`` for replicate r and term t. Every term sees the same
    multiplicities m: what one function of the sums is to another, such as the difference of two
    models, is kept. Terms that are equal (weights that models share) are added up once.

    ``poisson`` draws each m from Poisson(1), whatever the others are: it depends on the group
    and the replicate alone, so it stays the same where groups come or go. The number of groups
    drawn varies with it, which a ratio of sums does not notice but a bare sum does: its variance
    would be ``sum of x^2``, that of ``multinomial`` is ``sum of (x - mean of x)^2``.
    ``multinomial`` draws as many groups as there are, in the order of their ids.

    Parameters
    ----------
    terms : ndarray of float64, shape (terms, groups)
        Finite; 0 where a measure is undefined.
    ids : ndarray of uint64, shape (groups,)
        Of `group_ids`.
    replicates : int
        At least 1.
    seed : int
        In [0, 2^64).
    kind : {"poisson", "multinomial"}
    threads : int

    Returns
    -------
    ndarray of float64, shape (replicates, terms)
        Off by at most half a unit of the last of 53 bits of the largest term (41 bits for
        100,000 groups, 35 for ten million) for each group drawn.

    Raises
    ------
    ArgumentError
        If a term is not finite, shapes differ, or an option is out of range.

    References
    ----------
    Efron (1979), doi:10.1214/aos/1176344552; Chamandy, Muralidharan, Najmi & Naidu (2012),
    Estimating uncertainty for massive data streams (the Poisson bootstrap); of clusters:
    Field & Welsh (2007), doi:10.1111/j.1467-9868.2007.00593.x.
    """
    check_choice("kind", kind, KINDS)
    terms, ids = _checked("terms", terms, ids)
    replicates, seed, threads = _counts(replicates, seed, threads)
    whole, shifts = _whole(terms, random_numbers.MOST_POISSON if kind == "poisson" else 1)
    if kind == "multinomial":
        order = _order(ids, whole)
        whole = whole[:, order]
    rows, of_term = _distinct(whole)
    blocks = _blocks(whole[rows])
    sums = np.zeros((replicates, 4 * -(-len(rows) // 4)), np.int64)
    if kind == "poisson":
        _add_drawn(random_numbers.poisson, ids, blocks, sums, seed, threads)
    else:
        _add_counted(len(ids), blocks, sums, seed, threads)
    return _sized(sums[:, of_term], shifts)


def swapped(
    terms_a: np.ndarray,
    terms_b: np.ndarray,
    ids: np.ndarray,
    replicates: int,
    seed: int,
    *,
    threads: int = 1,
) -> Swapped:
    """Sums of two models' terms where each group gives either its own or the other's.

    If the models do not differ, which of them gave which terms of a group is a matter of chance:
    so each group changes sides with probability 1/2, all its terms together. Where `replicates`
    are enough for all patterns of the groups that differ, each pattern comes once instead.

    Parameters
    ----------
    terms_a, terms_b : ndarray of float64, shape (terms, groups)
        Finite; 0 where a measure is undefined for that model.
    ids : ndarray of uint64, shape (groups,)
        Of `group_ids`.
    replicates : int
        At least 1.
    seed : int
        In [0, 2^64).
    threads : int

    Returns
    -------
    Swapped
        Of `replicates` rows, or of 2^groups that differ.

    Raises
    ------
    ArgumentError
        If a term is not finite, shapes differ, or an option is out of range.

    References
    ----------
    Noreen (1989), Computer-intensive methods for testing hypotheses; Smucker, Allan & Carterette
    (2007), doi:10.1145/1321440.1321528.
    """
    terms_a, ids = _checked("terms_a", terms_a, ids)
    terms_b, _ = _checked("terms_b", terms_b, ids)
    if terms_a.shape != terms_b.shape:
        raise ArgumentError(
            f"terms_a of shape {terms_a.shape} and terms_b of shape {terms_b.shape} are not the "
            "terms of two models over the same groups; join them by key first."
        )
    replicates, seed, threads = _counts(replicates, seed, threads)
    # One unit for both, so that what is equal stays equal.
    both, shifts = _whole(np.concatenate([terms_a, terms_b], axis=1), 2)
    whole_a, whole_b = both[:, : len(ids)], both[:, len(ids) :]
    totals_a, totals_b = whole_a.sum(axis=1), whole_b.sum(axis=1)
    differ = np.flatnonzero((whole_a != whole_b).any(axis=0))
    change = (whole_b - whole_a)[:, differ]
    ids = ids[differ]
    exact = len(differ) < 32 and 1 << len(differ) <= replicates
    rows, of_term = _distinct(change)
    if exact:
        replicates = 1 << len(differ)
        order = _order(ids, np.concatenate([whole_a[:, differ], whole_b[:, differ]]))
        change = change[:, order]
    blocks = _blocks(change[rows])
    sums = np.zeros((replicates, 4 * -(-len(rows) // 4)), np.int64)
    if exact:
        _add_patterns(blocks, sums, threads)
    else:
        _add_drawn(random_numbers.coins, ids, blocks, sums, seed, threads)
    moved = sums[:, of_term]
    return Swapped(
        _sized(totals_a + moved, shifts),
        _sized(totals_b - moved, shifts),
        exact,
    )


def _counts(replicates: Any, seed: Any, threads: Any) -> tuple[int, int, int]:
    replicates = at_least_one("replicates", replicates, 0)
    if replicates >= 1 << 31:
        raise ArgumentError(f"replicates={replicates} are too many; at most 2^31 - 1 are drawn.")
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or not 0 <= seed < 1 << 64:
        raise ArgumentError(f"seed={seed!r} is not a whole number from 0 to 2^64 - 1.")
    return replicates, int(seed), at_least_one("threads", threads, 1)


def _checked(name: str, terms: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    terms = np.ascontiguousarray(terms, np.float64)
    ids = np.asarray(ids)
    if terms.ndim != 2 or ids.dtype != np.uint64 or ids.shape != terms.shape[1:]:
        raise ArgumentError(
            f"{name} of shape {terms.shape} and ids of shape {ids.shape} and type {ids.dtype} do "
            "not go together; pass terms of shape (terms, groups) and the group_ids of the groups."
        )
    bad = ~np.isfinite(terms)
    if bad.any():
        term, group = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise ArgumentError(
            f"{name} has {int(bad.sum())} values that are not finite, the first of them "
            f"{terms[term, group]} as term {term} of group {group}; a group for which a measure is "
            "undefined has terms of 0."
        )
    return terms, ids.copy()


def _whole(terms: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Terms as whole numbers, and how many powers of two larger they are.

    No sum with multiplicities of at most `most` passes `_SUM_BITS`.
    """
    bits = min(_TERM_BITS, _SUM_BITS - (most * max(terms.shape[1], 1)).bit_length())
    largest = np.abs(terms).max(axis=1, initial=0.0)
    shifts = (bits - np.frexp(largest)[1]).astype(np.int32)
    return np.rint(np.ldexp(terms, shifts[:, None])).astype(np.int64), shifts


def _sized(sums: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Whole numbers in the unit that terms had, each rounded once; inf past the largest double."""
    with np.errstate(over="ignore"):
        return np.ldexp(sums.astype(np.float64), -shifts)


def _order(ids: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Groups in the order of their ids, and of their terms where ids collide."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    if (ordered[1:] != ordered[:-1]).all():
        return order
    return np.lexsort((*whole[::-1], ids))


def _distinct(whole: np.ndarray) -> tuple[list[int], list[int]]:
    """Terms that are not the same as an earlier one, and where each stands among them."""
    seen: dict[bytes, int] = {}
    rows: list[int] = []
    places: list[int] = []
    for t, term in enumerate(whole):
        place = seen.setdefault(np.ascontiguousarray(term).tobytes(), len(rows))
        if place == len(rows):
            rows.append(t)
        places.append(place)
    return rows, places


def _blocks(whole: np.ndarray) -> list[np.ndarray]:
    """Terms of a few groups at a time, filled up to a multiple of 4 terms."""
    padded = np.zeros((4 * -(-len(whole) // 4), whole.shape[1]), np.int64)
    padded[: len(whole)] = whole
    return [
        frozen(np.ascontiguousarray(padded[:, lo : lo + _GROUPS]))
        for lo in range(0, whole.shape[1], _GROUPS)
    ]


def _in_blocks(work: Callable[[int], None], replicates: int, step: int, threads: int) -> None:
    for _ in in_order(threads, work, range(0, replicates, step)):
        pass


def _add_drawn(
    draw: Callable[[np.ndarray, int, int, np.ndarray], None],
    ids: np.ndarray,
    blocks: list[np.ndarray],
    sums: np.ndarray,
    seed: int,
    threads: int,
) -> None:
    def work(first: int) -> None:
        room = scratch("multiplicities", _REPLICATES * _GROUPS, np.uint32)
        for b, block in enumerate(blocks):
            mine = ids[b * _GROUPS : (b + 1) * _GROUPS]
            drawn = room[: _REPLICATES * len(mine)].reshape(_REPLICATES, -1)
            draw(mine, first, seed, drawn)
            _add_products(block, drawn, sums[first : first + _REPLICATES])

    _in_blocks(work, len(sums), _REPLICATES, threads)


def _add_counted(
    groups: int, blocks: list[np.ndarray], sums: np.ndarray, seed: int, threads: int
) -> None:
    step = min(_COUNTED, max(_COUNTS // max(groups, 1), 4))

    def work(first: int) -> None:
        counted = scratch("counts of draws", step * groups, np.uint32).reshape(step, groups)
        random_numbers.multinomial(first, seed, counted)
        room = scratch("multiplicities", step * _GROUPS, np.uint32)
        for b, block in enumerate(blocks):
            drawn = room[: step * block.shape[1]].reshape(step, -1)
            drawn[:] = counted[:, b * _GROUPS : (b + 1) * _GROUPS]
            _add_products(block, drawn, sums[first : first + step])

    _in_blocks(work, len(sums), step, threads)


def _add_patterns(blocks: list[np.ndarray], sums: np.ndarray, threads: int) -> None:
    def work(first: int) -> None:
        patterns = np.arange(first, first + _REPLICATES, dtype=np.uint32)[:, None]
        for block in blocks:
            bits = np.arange(block.shape[1], dtype=np.uint32)
            drawn = np.ascontiguousarray((patterns >> bits) & np.uint32(1))
            _add_products(block, drawn, sums[first : first + _REPLICATES])

    _in_blocks(work, len(sums), _REPLICATES, threads)


@kernel
def _add_products(terms, drawn, sums):  # type: ignore[no-untyped-def]
    # Four terms at a time, so that a multiplicity is widened once for them.
    for r in range(sums.shape[0]):
        times = drawn[r]
        for t in range(0, terms.shape[0], 4):
            x0 = terms[t]
            x1 = terms[t + 1]
            x2 = terms[t + 2]
            x3 = terms[t + 3]
            s0 = np.int64(0)
            s1 = np.int64(0)
            s2 = np.int64(0)
            s3 = np.int64(0)
            for i in range(times.shape[0]):
                m = np.int64(times[i])
                s0 += m * x0[i]
                s1 += m * x1[i]
                s2 += m * x2[i]
                s3 += m * x3[i]
            sums[r, t] += s0
            sums[r, t + 1] += s1
            sums[r, t + 2] += s2
            sums[r, t + 3] += s3


INTERVALS = ("percentile", "basic", "normal")

#: What differs by less, in units of the replicates' own size, is equal: sums are of rounded terms.
_TIE = 1e-9


def bootstrap_error(values: np.ndarray) -> float:
    """The standard deviation of a bootstrap's values, which is the standard error of the value.

    ``sqrt(sum of (v - mean of v)^2 / (B - 1))`` of B replicates.

    Parameters
    ----------
    values : ndarray of float64, shape (replicates,)
        Of each replicate; NaN where it has none, which is passed over.

    Returns
    -------
    float
        NaN below two values.

    References
    ----------
    Efron (1979), doi:10.1214/aos/1176344552.
    """
    values = _defined(values)
    if len(values) < 2:
        return math.nan
    return float(np.std(values, ddof=1))


def bootstrap_interval(
    observed: float, values: np.ndarray, confidence: float = 0.95, kind: str = "percentile"
) -> tuple[float, float]:
    """A confidence interval from the values of a bootstrap.

    With q(a) the value of rank ``a (B + 1)`` among B, between ranks on the straight line, and
    ``a = (1 - confidence) / 2``:

    ``percentile``
        ``[q(a), q(1 - a)]``: turns with any monotone function of the value.
    ``basic``
        ``[2 v - q(1 - a), 2 v - q(a)]``: the distribution of errors instead of that of values.
    ``normal``
        ``v -+ z se`` of the normal quantile and `bootstrap_error`.

    Parameters
    ----------
    observed : float
        The value v of the groups as they are.
    values : ndarray of float64, shape (replicates,)
        NaN is passed over.
    confidence : float
        In ]0, 1[.
    kind : {"percentile", "basic", "normal"}

    Returns
    -------
    tuple of float
        Both NaN where `observed` is, below two values, and where B is too small for rank 1 to
        lie at ``a`` (39 is the least for 95 %).

    Raises
    ------
    ArgumentError
        If an option is out of range.

    References
    ----------
    Davison & Hinkley (1997), Bootstrap methods and their application, 5.2 and 5.3.
    """
    check_choice("kind", kind, INTERVALS)
    tail = (1 - check_fraction("confidence", confidence)) / 2
    values = _defined(values)
    if math.isnan(observed) or len(values) < 2:
        return math.nan, math.nan
    if kind == "normal":
        reach = normal_quantile(confidence) * bootstrap_error(values)
        return observed - reach, observed + reach
    # Ranks that should be whole are so but for the last bits.
    if tail * (len(values) + 1) < 1 - 1e-9:
        return math.nan, math.nan
    low, high = (float(q) for q in np.quantile(values, [tail, 1 - tail], method="weibull"))
    return (low, high) if kind == "percentile" else (2 * observed - high, 2 * observed - low)


def bootstrap_p_value(observed: float, values: np.ndarray) -> float:
    """The two-sided p-value of "the difference is 0", the bootstrap being shifted to 0.

    ``(1 + number of |v_r - v| >= |v|) / (B + 1)``: how often groups drawn again err by as much as
    the observed difference v is away from 0. The 1 stands for what was observed, so that a
    p-value is never 0.

    Parameters
    ----------
    observed : float
        The difference v.
    values : ndarray of float64, shape (replicates,)
        Differences; NaN is passed over.

    Returns
    -------
    float
        NaN where `observed` is, or without a value.

    References
    ----------
    Noreen (1989), Computer-intensive methods for testing hypotheses, 4.2; Davison & Hinkley
    (1997), 4.4.
    """
    values = _defined(values)
    if math.isnan(observed) or not len(values):
        return math.nan
    return (1 + _as_far(observed, values - observed)) / (len(values) + 1)


def randomisation_p_value(observed: float, values: np.ndarray, exact: bool = False) -> float:
    """The two-sided p-value of "the models are interchangeable".

    ``(1 + number of |v_r| >= |v|) / (B + 1)``, or ``number of |v_r| >= |v| / B`` where replicates
    are all patterns, the observed one among them.

    Parameters
    ----------
    observed : float
        The difference v of the models as they are.
    values : ndarray of float64, shape (replicates,)
        Differences of `resampling.swapped`. NaN, which a pattern has where a measure is undefined
        for one side, counts as being as far away: it speaks for no difference.
    exact : bool
        ``Swapped.exact``.

    Returns
    -------
    float
        NaN where `observed` is.

    Raises
    ------
    ArgumentError
        Without a replicate.

    References
    ----------
    Smucker, Allan & Carterette (2007), doi:10.1145/1321440.1321528; Phipson & Smyth (2010),
    Permutation p-values should never be zero, doi:10.2202/1544-6115.1585.
    """
    values = np.asarray(values, np.float64)
    if not len(values):
        raise ArgumentError("a p-value of no replicates is asked for; draw at least one.")
    if math.isnan(observed):
        return math.nan
    undefined = np.isnan(values)
    count = int(undefined.sum()) + _as_far(observed, values[~undefined])
    return max(count, 1) / len(values) if exact else (1 + count) / (len(values) + 1)


def _defined(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, np.float64)
    return values[~np.isnan(values)]


def _as_far(observed: float, errors: np.ndarray) -> int:
    """How many errors are as far from 0 as the observed value, ties counted."""
    sizes = np.abs(errors)
    slack = _TIE * max(abs(observed), float(sizes.mean()) if len(sizes) else 0.0)
    return int(np.count_nonzero(sizes >= abs(observed) - slack))
