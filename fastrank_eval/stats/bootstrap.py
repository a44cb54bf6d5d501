"""Resample groups, and compute errors and p-values from the replicates.

Random numbers come from seed, group and replicate by Philox4x32-10. A generator with a state gives
a group other numbers if the order of groups or the threads change. Here each number is a function:
the key is the seed, and the counter is the id of the group, the number of the block of replicates,
and the stream (the use of the numbers). Each counter gives 128 bits.

References
----------
Salmon, Moraes, Dror & Shaw (2011), Parallel random numbers: as easy as 1, 2, 3,
doi:10.1145/2063384.2063405: Philox4x32-10 passes all of TestU01's BigCrush, for all tested orders
of counters. Seven rounds are enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from math import factorial

import numpy as np

from fastrank_eval._lib.arguments import integer
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import map_jobs, scratch

#: Replicates of one counter: for Poisson multiplicities, and for coins.
BLOCK, COINS = 4, 128
#: Streams: the last word of the counter.
_POISSON, _MULTINOMIAL, _COINS = 1, 2, 3

_MASK, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_FACTOR0, _FACTOR1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_STEP0, _STEP1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_TWICE0, _TWICE1 = np.uint64(2 * 0x9E3779B9), np.uint64(2 * 0xBB67AE85)
_FIVE0, _FIVE1 = np.uint64(5 * 0x9E3779B9), np.uint64(5 * 0xBB67AE85)
_ONE = np.uint32(1)


def _steps() -> np.ndarray:
    """Compute 2^32 P(X <= k) of Poisson(1), rounded, below 2^32."""
    per_e = sum((Fraction((-1) ** n, factorial(n)) for n in range(40)), Fraction(0))
    below, steps = Fraction(0), []
    for k in range(40):
        below += per_e / factorial(k)
        steps.append(round(below * (1 << 32)))
    return np.array([step for step in steps if step < 1 << 32], np.uint32)


#: The multiplicity of a word is the number of steps that it reaches: Poisson to 2^-32.
_STEPS = _steps()
#: The largest multiplicity.
MOST_POISSON = len(_STEPS)


def random_words(ids: np.ndarray, first: int, stream: int, seed: int, out: np.ndarray) -> None:
    """Fill rows with uniform 32-bit words.

    Parameters
    ----------
    ids : ndarray of uint64, shape (groups,)
    first : int
        Number of the first block: four rows of `out` are a block.
    stream : int
        The use of the numbers, below 2^32. Streams are independent.
    seed : int
        In [0, 2^64).
    out : ndarray of uint32, shape (a multiple of 4, groups)
    """
    _fill(ids, np.uint64(first), np.uint64(stream), *_key(seed), out)


def poisson(ids: np.ndarray, first: int, seed: int, out: np.ndarray) -> None:
    """Fill rows with independent multiplicities of Poisson(1).

    Each probability is that of Poisson to 2^-32; values above 12, whose probability is 6e-11
    together, do not occur.

    Parameters
    ----------
    ids : ndarray of uint64, shape (groups,)
    first : int
        Replicate of the first row, a multiple of `BLOCK`.
    seed : int
    out : ndarray of uint32, shape (a multiple of `BLOCK`, groups)
    """
    random_words(ids, first // BLOCK, _POISSON, seed, out)
    _to_poisson(_STEPS, out)


def coins(ids: np.ndarray, first: int, seed: int, out: np.ndarray) -> None:
    """Fill rows with independent 0 and 1 of probability 1/2.

    Parameters
    ----------
    ids : ndarray of uint64, shape (groups,)
    first : int
        Replicate of the first row, a multiple of `COINS`.
    seed : int
    out : ndarray of uint32, shape (`COINS`, groups)
    """
    words = scratch("words of coins", 4 * len(ids), np.uint32).reshape(4, -1)
    random_words(ids, first // COINS, _COINS, seed, words)
    _to_coins(words, out)


def multinomial(first: int, seed: int, out: np.ndarray) -> None:
    """Fill rows with multiplicities, in as many draws as there are groups.

    Draw j of replicate r takes the group ``floor(x * groups)``, where x in [0, 1) is uniform, has
    64 bits, and follows from (seed, r, j). So the group depends on the order of groups.

    Parameters
    ----------
    first : int
        Replicate of the first row.
    seed : int
    out : ndarray of uint32, shape (replicates, groups)
    """
    size = min(_PAIRS, out.shape[1] // 2 + 1)
    pairs = scratch("numbers of draws", size, np.uint64)
    words = scratch("words of draws", 4 * size, np.uint32).reshape(4, -1)
    out[:] = 0
    _draw(np.uint64(first), np.uint64(_MULTINOMIAL), *_key(seed), pairs, words, out)


#: Pairs of draws at a time. A counter gives two draws.
_PAIRS = 1 << 10


def _key(seed: int) -> tuple[np.uint64, np.uint64]:
    return np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)


@kernel
def _round(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    p0 = _FACTOR0 * c0
    p1 = _FACTOR1 * c2
    return (
        (p1 >> _HALF) ^ c1 ^ (k0 & _MASK),
        p1 & _MASK,
        (p0 >> _HALF) ^ c3 ^ (k1 & _MASK),
        p0 & _MASK,
    )


@kernel
def _five_rounds(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    # Unrolled: a loop of ten rounds, or a helper of all ten, is not made SIMD (1.2 to 3.8 ns).
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _STEP0, k1 + _STEP1)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _TWICE0, k1 + _TWICE1)
    c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0 + _TWICE0 + _STEP0, k1 + _TWICE1 + _STEP1)
    return _round(c0, c1, c2, c3, k0 + _TWICE0 + _TWICE0, k1 + _TWICE1 + _TWICE1)


@kernel
def _fill_block(ids, block, stream, k0, k1, out0, out1, out2, out3):  # type: ignore[no-untyped-def]
    for i in range(ids.shape[0]):
        c0, c1, c2, c3 = _five_rounds(ids[i] & _MASK, ids[i] >> _HALF, block, stream, k0, k1)
        c0, c1, c2, c3 = _five_rounds(c0, c1, c2, c3, k0 + _FIVE0, k1 + _FIVE1)
        out0[i] = np.uint32(c0)
        out1[i] = np.uint32(c1)
        out2[i] = np.uint32(c2)
        out3[i] = np.uint32(c3)


@kernel
def _fill(ids, first, stream, k0, k1, out):  # type: ignore[no-untyped-def]
    for row in range(0, out.shape[0], 4):
        _fill_block(ids, first, stream, k0, k1, out[row], out[row + 1], out[row + 2], out[row + 3])
        first += np.uint64(1)


@kernel
def _to_poisson(steps, out):  # type: ignore[no-untyped-def]
    for row in range(out.shape[0]):
        words = out[row]
        for i in range(words.shape[0]):
            word = words[i]
            value = np.uint32(0)
            for k in range(12):
                value += np.uint32(word >= steps[k])
            words[i] = value


@kernel
def _to_coins(words, out):  # type: ignore[no-untyped-def]
    for row in range(out.shape[0]):
        word = words[row // 32]
        shift = np.uint32(row % 32)
        coins_of_row = out[row]
        for i in range(coins_of_row.shape[0]):
            coins_of_row[i] = (word[i] >> shift) & _ONE


@kernel
def _draw(first, stream, k0, k1, pairs, words, out):  # type: ignore[no-untyped-def]
    groups = np.uint64(out.shape[1])
    for row in range(out.shape[0]):
        times = out[row]
        for lo in range(0, times.shape[0], 2 * pairs.shape[0]):
            for i in range(pairs.shape[0]):
                pairs[i] = np.uint64(lo // 2 + i)
            _fill_block(pairs, first, stream, k0, k1, words[0], words[1], words[2], words[3])
            for j in range(min(times.shape[0] - lo, 2 * pairs.shape[0])):
                lower = np.uint64(words[2 * (j & 1), j >> 1])
                upper = np.uint64(words[2 * (j & 1) + 1, j >> 1])
                times[(upper * groups + ((lower * groups) >> _HALF)) >> _HALF] += _ONE
        first += np.uint64(1)


#: Groups and replicates in a block: multiplicities and terms stay in the caches.
_GROUPS, _REPLICATES = 256, 128
#: Multinomial replicates that a thread counts at a time, and the most counts (replicates times
#: groups) at a time.
_MULTINOMIAL_STEP, _MAX_COUNTS = 32, 1 << 22
#: Bits of a sum; and of a term, as in a double.
_SUM_BITS, _TERM_BITS = 62, 53


@dataclass(frozen=True)
class SwapReplicates:
    """Sums of two models' terms with the models swapped in some groups.

    Parameters
    ----------
    sums_a, sums_b : ndarray of float64, shape (replicates, terms)
    exact : bool
        Whether the replicates are all patterns of the groups that differ, each once, the first
        without a swap. Otherwise they are random.
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
    """Sum terms over groups drawn with replacement.

    ``sum over groups u of m_ru x_tu`` for replicate r and term t. All terms have the same
    multiplicities m, so replicates of two models are paired. Equal terms (weights that models
    share) are added once.

    ``poisson`` draws each m from Poisson(1), independently. It depends on the group and the
    replicate alone, so it does not change if other groups are added or removed. The number of
    groups varies. This does not matter for a ratio of sums, but for a sum: its variance would be
    ``sum of x^2``, and with ``multinomial`` it is ``sum of (x - mean of x)^2``.
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
        The error for each drawn group is at most half a unit in the last of 53 bits of the largest
        term (41 bits for 100,000 groups, 35 for ten million).

    References
    ----------
    Efron (1979), doi:10.1214/aos/1176344552; Chamandy, Muralidharan, Najmi & Naidu (2012),
    Estimating uncertainty for massive data streams (the Poisson bootstrap); of clusters:
    Field & Welsh (2007), doi:10.1111/j.1467-9868.2007.00593.x.
    """
    integers, shifts = _to_integers(terms, MOST_POISSON if kind == "poisson" else 1)
    if kind == "multinomial":
        order = _order(ids, integers)
        integers = integers[:, order]
    rows, of_term = _distinct(integers)
    blocks = _blocks(integers[rows])
    sums = np.zeros((replicates, 4 * -(-len(rows) // 4)), np.int64)
    if kind == "poisson":
        # A copy, because a frozen array would be another type for the kernel.
        _add_draws(poisson, ids.copy(), blocks, sums, seed, threads)
    else:
        _add_multinomial(len(ids), blocks, sums, seed, threads)
    return _to_floats(sums[:, of_term], shifts)


def swap_models(
    terms_a: np.ndarray,
    terms_b: np.ndarray,
    ids: np.ndarray,
    replicates: int,
    seed: int,
    *,
    threads: int = 1,
) -> SwapReplicates:
    """Sum two models' terms with the models swapped at random in each group.

    If the models do not differ, it is chance which model gave which terms of a group. So each group
    is swapped with probability 1/2, with all its terms. If `replicates` is at least the number of
    patterns of the groups that differ, each pattern occurs once instead.

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
        With `replicates` rows, or one for each of the 2^d patterns of d groups that differ.

    References
    ----------
    Noreen (1989), Computer-intensive methods for testing hypotheses; Smucker, Allan & Carterette
    (2007), doi:10.1145/1321440.1321528.
    """
    # The same unit for both, so that equal terms stay equal.
    both, shifts = _to_integers(np.concatenate([terms_a, terms_b], axis=1), 2)
    integers_a, integers_b = both[:, : len(ids)], both[:, len(ids) :]
    totals_a, totals_b = integers_a.sum(axis=1), integers_b.sum(axis=1)
    differ = np.flatnonzero((integers_a != integers_b).any(axis=0))
    differences = (integers_b - integers_a)[:, differ]
    ids = ids[differ]
    exact = len(differ) < 32 and 1 << len(differ) <= replicates
    rows, of_term = _distinct(differences)
    if exact:
        replicates = 1 << len(differ)
        order = _order(ids, np.concatenate([integers_a[:, differ], integers_b[:, differ]]))
        differences = differences[:, order]
    blocks = _blocks(differences[rows])
    sums = np.zeros((replicates, 4 * -(-len(rows) // 4)), np.int64)
    if exact:
        _add_patterns(blocks, sums, threads)
    else:
        _add_draws(coins, ids, blocks, sums, seed, threads)
    swapped_sums = sums[:, of_term]
    return SwapReplicates(
        _to_floats(totals_a + swapped_sums, shifts),
        _to_floats(totals_b - swapped_sums, shifts),
        exact,
    )


#: What reads the seed of random numbers, and the number of replicates.
SEED, REPLICATES = integer(0, 2**64 - 1), integer(1, 2**31 - 1)


def _to_integers(terms: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Convert terms to integers; return them and their shifts.

    No sum with multiplicities of at most `most` exceeds `_SUM_BITS`.
    """
    bits = min(_TERM_BITS, _SUM_BITS - (most * max(terms.shape[1], 1)).bit_length())
    largest = np.abs(terms).max(axis=1, initial=0.0)
    shifts = (bits - np.frexp(largest)[1]).astype(np.int32)
    return np.rint(np.ldexp(terms, shifts[:, None])).astype(np.int64), shifts


def _to_floats(sums: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Convert integer sums to the unit of the terms; inf on overflow."""
    with np.errstate(over="ignore"):
        return np.ldexp(sums.astype(np.float64), -shifts)


def _order(ids: np.ndarray, integers: np.ndarray) -> np.ndarray:
    """Sort groups by their ids, and by their terms where ids collide."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    if (ordered[1:] != ordered[:-1]).all():
        return order
    return np.lexsort((*integers[::-1], ids))


def _distinct(integers: np.ndarray) -> tuple[list[int], list[int]]:
    """Return the rows of distinct terms, and the index of each term's row."""
    row_of: dict[bytes, int] = {}
    rows: list[int] = []
    indices: list[int] = []
    for t, term in enumerate(integers):
        index = row_of.setdefault(np.ascontiguousarray(term).tobytes(), len(rows))
        if index == len(rows):
            rows.append(t)
        indices.append(index)
    return rows, indices


def _blocks(integers: np.ndarray) -> list[np.ndarray]:
    """Split terms into blocks of groups, padded to a multiple of 4 terms."""
    padded = np.zeros((4 * -(-len(integers) // 4), integers.shape[1]), np.int64)
    padded[: len(integers)] = integers
    return [
        frozen(np.ascontiguousarray(padded[:, lo : lo + _GROUPS]))
        for lo in range(0, integers.shape[1], _GROUPS)
    ]


def _in_blocks(work: Callable[[int], None], replicates: int, step: int, threads: int) -> None:
    for _ in map_jobs(threads, work, range(0, replicates, step)):
        pass


def _add_draws(
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
            own_ids = ids[b * _GROUPS : (b + 1) * _GROUPS]
            multiplicities = room[: _REPLICATES * len(own_ids)].reshape(_REPLICATES, -1)
            draw(own_ids, first, seed, multiplicities)
            _add_products(block, multiplicities, sums[first : first + _REPLICATES])

    _in_blocks(work, len(sums), _REPLICATES, threads)


def _add_multinomial(
    groups: int, blocks: list[np.ndarray], sums: np.ndarray, seed: int, threads: int
) -> None:
    step = min(_MULTINOMIAL_STEP, max(_MAX_COUNTS // max(groups, 1), 4))

    def work(first: int) -> None:
        counts = scratch("counts of draws", step * groups, np.uint32).reshape(step, groups)
        multinomial(first, seed, counts)
        room = scratch("multiplicities", step * _GROUPS, np.uint32)
        for b, block in enumerate(blocks):
            multiplicities = room[: step * block.shape[1]].reshape(step, -1)
            multiplicities[:] = counts[:, b * _GROUPS : (b + 1) * _GROUPS]
            _add_products(block, multiplicities, sums[first : first + step])

    _in_blocks(work, len(sums), step, threads)


def _add_patterns(blocks: list[np.ndarray], sums: np.ndarray, threads: int) -> None:
    def work(first: int) -> None:
        patterns = np.arange(first, first + _REPLICATES, dtype=np.uint32)[:, None]
        for b, block in enumerate(blocks):
            bits = np.arange(b * _GROUPS, b * _GROUPS + block.shape[1], dtype=np.uint32)
            multiplicities = np.ascontiguousarray((patterns >> bits) & np.uint32(1))
            _add_products(block, multiplicities, sums[first : first + _REPLICATES])

    _in_blocks(work, len(sums), _REPLICATES, threads)


@kernel
def _add_products(terms, multiplicities, sums):  # type: ignore[no-untyped-def]
    # Four terms at a time: a multiplicity is converted once for them.
    for r in range(sums.shape[0]):
        times = multiplicities[r]
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


#: Relative tolerance for ties between replicates: their terms are rounded.
_TIE = 1e-9


def bootstrap_error(values: np.ndarray) -> float:
    """Compute the standard error from the values of a bootstrap.

    It is their standard deviation, ``sqrt(sum of (v - mean of v)^2 / (B - 1))`` of B replicates.

    Parameters
    ----------
    values : ndarray of float64, shape (replicates,)
        Of each replicate. NaN (undefined) is skipped.

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
    observed: float, values: np.ndarray, confidence: float = 0.95
) -> tuple[float, float]:
    """Compute a confidence interval from the values of a bootstrap.

    Its ends are percentiles, ``[q(a), q(1 - a)]``, with q(a) the value of rank ``a (B + 1)`` among
    B, linearly interpolated, and ``a = (1 - confidence) / 2``. So it is equivariant under monotone
    functions of the value.

    Parameters
    ----------
    observed : float
        The value v of the original groups.
    values : ndarray of float64, shape (replicates,)
        NaN is skipped.
    confidence : float
        In ]0, 1[.

    Returns
    -------
    tuple of float
        Both are NaN if `observed` is NaN, if there are fewer than two values, or if
        ``a (B + 1) < 1`` (95 % needs B of at least 39).

    References
    ----------
    Davison & Hinkley (1997), Bootstrap methods and their application, 5.2 and 5.3.
    """
    tail = (1 - confidence) / 2
    values = _defined(values)
    if math.isnan(observed) or len(values) < 2:
        return math.nan, math.nan
    # The tolerance is for ranks that are integers but for rounding.
    if tail * (len(values) + 1) < 1 - 1e-9:
        return math.nan, math.nan
    low, high = (float(q) for q in np.quantile(values, [tail, 1 - tail], method="weibull"))
    return low, high


def bootstrap_p_value(observed: float, values: np.ndarray) -> float:
    """Compute the p-value of "the difference is 0" by a shifted bootstrap.

    ``(1 + number of |v_r - v| >= |v|) / (B + 1)``: the share of replicates with an error at least
    as large as the observed difference v. The 1 counts the observed value itself, so a p-value is
    never 0.

    Parameters
    ----------
    observed : float
        The difference v.
    values : ndarray of float64, shape (replicates,)
        Differences; NaN is skipped.

    Returns
    -------
    float
        NaN if `observed` is NaN, or without a value.

    References
    ----------
    Noreen (1989), Computer-intensive methods for testing hypotheses, 4.2; Davison & Hinkley
    (1997), 4.4.
    """
    values = _defined(values)
    if math.isnan(observed) or not len(values):
        return math.nan
    return (1 + _count_extreme(observed, values - observed)) / (len(values) + 1)


def randomisation_p_value(observed: float, values: np.ndarray, exact: bool = False) -> float:
    """Compute the two-sided p-value of "the models are interchangeable".

    ``(1 + number of |v_r| >= |v|) / (B + 1)``, or ``number of |v_r| >= |v| / B`` if the replicates
    are all patterns, which include the observed one.

    Parameters
    ----------
    observed : float
        The difference v of the models.
    values : ndarray of float64, shape (replicates,)
        Differences of `swap_models`. A pattern is NaN if a measure is undefined for one side. NaN
        counts as at least as far from 0, which makes the p-value larger.
    exact : bool
        ``SwapReplicates.exact``.

    Returns
    -------
    float
        NaN if `observed` is NaN.

    References
    ----------
    Smucker, Allan & Carterette (2007), doi:10.1145/1321440.1321528; Phipson & Smyth (2010),
    Permutation p-values should never be zero, doi:10.2202/1544-6115.1585.
    """
    values = np.asarray(values, np.float64)
    if math.isnan(observed):
        return math.nan
    undefined = np.isnan(values)
    count = int(undefined.sum()) + _count_extreme(observed, values[~undefined])
    return max(count, 1) / len(values) if exact else (1 + count) / (len(values) + 1)


def _defined(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, np.float64)
    return values[~np.isnan(values)]


def _count_extreme(observed: float, errors: np.ndarray) -> int:
    """Count the errors that are at least as far from 0 as the observed value."""
    sizes = np.abs(errors)
    slack = _TIE * max(abs(observed), float(sizes.mean()) if len(sizes) else 0.0)
    return int(np.count_nonzero(sizes >= abs(observed) - slack))
