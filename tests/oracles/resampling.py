"""Resampling by definition: Philox in Python's integers, sums in fractions, group by group."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import factorial

_E = sum(Fraction(1, factorial(n)) for n in range(60))


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox4x32-10 of Salmon et al. (2011), figure 4."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(c[0] * 0xD2511F53, 1 << 32)
        high1, low1 = divmod(c[2] * 0xCD9E8D57, 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % (1 << 32), (k[1] + 0xBB67AE85) % (1 << 32)]
    return c


def words(number: int, block: int, stream: int, seed: int) -> list[int]:
    """The four words of a group (or pair of draws) and a block."""
    return philox((number % 2**32, number >> 32, block, stream), (seed % 2**32, seed >> 32))


def poisson(number: int, replicate: int, seed: int) -> int:
    """The first k of which P(X <= k) is above the word's share of 2^32."""
    share = Fraction(words(number, replicate // 4, 1, seed)[replicate % 4], 1 << 32)
    below, k = 1 / _E, 0
    while Fraction(round(below * 2**32), 2**32) <= share:
        k += 1
        below += 1 / _E / factorial(k)
    return k


def coin(number: int, replicate: int, seed: int) -> int:
    word = words(number, replicate // 128, 3, seed)[replicate % 128 // 32]
    return word >> (replicate % 32) & 1


def drawn(groups: int, replicate: int, seed: int) -> list[int]:
    """How often each place in the order of ids is drawn."""
    times = [0] * groups
    for j in range(groups):
        pair = words(j // 2, replicate, 2, seed)[2 * (j % 2) :][:2]
        times[(pair[1] << 32 | pair[0]) * groups >> 64] += 1
    return times


def total(terms: Sequence[float], times: Sequence[int]) -> Fraction:
    return sum((Fraction(x) * m for x, m in zip(terms, times, strict=True)), Fraction(0))
