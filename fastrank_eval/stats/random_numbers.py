"""Compute random numbers from seed, group and replicate by Philox4x32-10.

A generator with a state gives a group other numbers if the order of groups or the threads change.
Here each number is a function: the key is the seed, and the counter is the id of the group, the
number of the block of replicates, and the stream (the use of the numbers). Each counter gives 128
bits.

References
----------
Salmon, Moraes, Dror & Shaw (2011), Parallel random numbers: as easy as 1, 2, 3,
doi:10.1145/2063384.2063405: Philox4x32-10 passes all of TestU01's BigCrush, for all tested orders
of counters. Seven rounds are enough.
"""

from __future__ import annotations

from fractions import Fraction
from math import factorial

import numpy as np

from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch

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
