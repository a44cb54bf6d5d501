"""Draw random numbers and scores that are the same on every machine.

A random number is a pure function of (seed, stream, counter). Nothing has a state that advances,
so rows can be made in any order, in batches of any size, and come out the same to the last bit.

They are not those of `stats.bootstrap`: these come by group and block of replicates, and
others would change each row of the demo, and the numbers that the documentation shows of them.

The AUC of scores is known in closed form: the binormal model. Logarithms and exponentials are those
of `fastrank_eval._lib.elementary`, the same to the last bit on every processor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from fastrank_eval._lib.elementary import FAR_TAIL, MIDDLE, TAIL, log_each, polynomial

Uint64s: TypeAlias = NDArray[np.uint64]

_WORD = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def _mix(word: int) -> int:
    return int(_mixed(np.array([word], np.uint64))[0])


def _mixed(words: Uint64s) -> Uint64s:
    words = (words ^ words >> np.uint64(30)) * np.uint64(_FIRST)
    words = (words ^ words >> np.uint64(27)) * np.uint64(_SECOND)
    return words ^ words >> np.uint64(31)


def stream_key(seed: int, stream: int) -> int:
    """64-bit key of one stream of draws.

    Parameters
    ----------
    seed : int
        0 to 2**64 - 1.
    stream : int
        Number of the stream, 0 or above; one stream per quantity that is drawn.

    Returns
    -------
    int
        Where the stream starts in the SplitMix64 sequence.

    Examples
    --------
    >>> stream_key(0, 0) == stream_key(0, 1)
    False
    """
    return _mix((_mix((seed + _GAMMA) & _WORD) + (stream + 1) * _GAMMA) & _WORD)


def bits(key: int, counter: Uint64s) -> Uint64s:
    """64 random bits for each counter: SplitMix64 with random access.

    ``bits(key, i) = mix(key + i * 0x9E3779B97F4A7C15)``, with the 64-bit finaliser of SplitMix64.
    For one key it is a bijection: different counters never share a value.

    Parameters
    ----------
    key : int
        From `stream_key`.
    counter : uint64 array
        Row or group numbers, in any order.

    Returns
    -------
    uint64 array
        New array of the same shape.

    References
    ----------
    Steele, Lea, Flood. Fast splittable pseudorandom number generators. OOPSLA 2014.
    doi:10.1145/2660193.2660195

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.arange(5, dtype=np.uint64)
    >>> whole = bits(stream_key(7, 0), rows)
    >>> bool((whole[3:] == bits(stream_key(7, 0), rows[3:])).all())
    True
    """
    return _mixed(counter * np.uint64(_GAMMA) + np.uint64(key))


def uniform(words: Uint64s) -> NDArray[np.float64]:
    """Draw uniform numbers strictly inside (0, 1).

    They are made from the high 52 bits of random words.

    ``u = (high52 + 1/2) / 2**52``: odd multiples of 2**-53, symmetric about 1/2, so that
    0, 1/2 and 1 never occur.

    Parameters
    ----------
    words : uint64 array
        Random bits; left as they are.

    Returns
    -------
    float64 array
        New array of the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> uniform(np.array([0, 2**63], dtype=np.uint64)).tolist()
    [1.1102230246251565e-16, 0.5000000000000001]
    """
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


class Permutation:
    """A pseudo-random permutation of 0 .. size - 1.

    It is computed, not stored.

    Four rounds of invertible steps on words just wide enough for `size` (multiply by an odd number,
    add a key, fold the high half onto the low half), then cycle walking: a result outside the range
    is permuted again until it falls inside. Two evaluations a number on average at most; no memory.

    Parameters
    ----------
    size : int
        0 to 2**62.
    key : int
        From `stream_key`.

    References
    ----------
    Black, Rogaway. Ciphers with arbitrary finite domains. CT-RSA 2002.
    doi:10.1007/3-540-45760-7_9

    Examples
    --------
    >>> import numpy as np
    >>> shuffled = Permutation(10, stream_key(0, 0))(np.arange(10, dtype=np.uint64))
    >>> sorted(shuffled.tolist()) == list(range(10))
    True
    """

    def __init__(self, size: int, key: int) -> None:
        self.size = size
        width = max(8, (size - 1).bit_length())
        self._mask = np.uint64((1 << width) - 1)
        self._fold = np.uint64((width + 1) // 2)
        self._rounds = [
            (np.uint64(_mix(key ^ (2 * turn + 1)) | 1), np.uint64(_mix(key ^ (2 * turn + 2))))
            for turn in range(4)
        ]

    def __call__(self, position: Uint64s) -> Uint64s:
        """Map positions to members, both in 0 .. size - 1.

        Parameters
        ----------
        position : uint64 array
            Values below `size`.

        Returns
        -------
        uint64 array
            New array of the same shape.
        """
        member = self._once(position)
        (outside,) = np.nonzero(member >= np.uint64(self.size))
        while outside.size:
            again = self._once(member[outside])
            member[outside] = again
            outside = outside[again >= np.uint64(self.size)]
        return member

    def _once(self, words: Uint64s) -> Uint64s:
        for factor, shift in self._rounds:
            words = words * factor
            words += shift
            words &= self._mask
            words ^= words >> self._fold
        return words


Floats: TypeAlias = NDArray[np.float64]


def inverse_normal(p: Floats) -> Floats:
    """Quantile of the standard normal law, relative error about 1e-15.

    Parameters
    ----------
    p : float64 array
        Strictly between 0 and 1 (not checked).

    Returns
    -------
    float64 array
        z with Phi(z) = p; a new array of the same shape.

    References
    ----------
    Wichura. Algorithm AS 241: the percentage points of the normal distribution.
    Applied Statistics 37(3), 1988. doi:10.2307/2347330

    Examples
    --------
    >>> import numpy as np
    >>> inverse_normal(np.array([0.5, 0.975])).round(12).tolist()
    [0.0, 1.95996398454]
    """

    def quotient(table: tuple[Sequence[float], Sequence[float]], x: Floats) -> Floats:
        above, below = (polynomial(row, x) for row in table)
        return above / below

    centred = p - 0.5
    z = quotient(MIDDLE, 0.180625 - centred * centred) * centred
    (outer,) = np.nonzero(np.abs(centred) > 0.425)
    tail = p[outer]
    depth = np.sqrt(-log_each(np.minimum(tail, 1.0 - tail)))
    distance = np.where(depth <= 5.0, quotient(TAIL, depth - 1.6), quotient(FAR_TAIL, depth - 5.0))
    z[outer] = np.copysign(distance, centred[outer])
    return z


def binormal_auc(d: float) -> float:
    """AUC of scores that are N(0, 1) for negatives and N(d, 1) for positives.

    ``AUC = Phi(d / sqrt(2))``, for any share of positives and after any strictly increasing map.

    Parameters
    ----------
    d : float
        Distance of the two means, in standard deviations.

    Returns
    -------
    float
        0 to 1.

    References
    ----------
    Hanley, McNeil. The meaning and use of the area under a ROC curve. Radiology 143(1), 1982.
    doi:10.1148/radiology.143.1.7063747

    Examples
    --------
    >>> binormal_auc(0.0)
    0.5
    >>> round(binormal_auc(0.9538725524), 9)
    0.75
    """
    return NormalDist().cdf(d / math.sqrt(2.0))


def binormal_shift(auc: float) -> float:
    """Distance of the means that gives an AUC: ``d = sqrt(2) Phi^-1(AUC)``.

    Parameters
    ----------
    auc : float
        Strictly between 0 and 1 (not checked).

    Returns
    -------
    float
        Inverse of `binormal_auc`.

    Examples
    --------
    >>> round(binormal_shift(0.75), 10)
    0.9538725524
    """
    return math.sqrt(2.0) * float(inverse_normal(np.array([auc]))[0])


def graded_shift(auc: float, shares: Sequence[float]) -> float:
    """Compute the step per grade that gives an AUC.

    The AUC is that of "relevant" (grade 1 and above) against grade 0.

    With latent scores N(grade * d, 1), d solves
    ``AUC = sum_g shares[g - 1] Phi(g d / sqrt(2))``.

    Parameters
    ----------
    auc : float
        0.5 to 1, exclusive (not checked).
    shares : sequence of float
        Shares of the grades 1, 2, ... among relevant rows; they sum to 1.

    Returns
    -------
    float
        The step d.

    Examples
    --------
    >>> abs(graded_shift(0.75, [1.0]) - binormal_shift(0.75)) < 1e-12
    True
    """
    low, high = 0.0, binormal_shift(auc)  # a step that high reaches the AUC with grade 1 alone
    for _ in range(80):
        step = 0.5 * (low + high)
        reached = sum(s * binormal_auc(g * step) for g, s in enumerate(shares, start=1))
        low, high = (step, high) if reached < auc else (low, step)
    return 0.5 * (low + high)


def rounded_auc(
    decimals: int, intercept: float, slope: float, shifts: Sequence[float], shares: Sequence[float]
) -> float:
    """Compute the AUC of rounded scores, a tied pair counting one half.

    The scores are ``round(logistic(intercept + slope z), decimals)``.

    ``AUC = sum_c P1(c) (F0(below c) + P0(c) / 2)`` over the cells c that round to one value.
    Rounding joins the points of the concave ROC curve at the cell edges by chords, so the AUC
    falls, by an amount of the order of the squared cell width.

    Parameters
    ----------
    decimals : int
        1 to 6.
    intercept, slope : float
        Of the logistic map; slope above 0.
    shifts, shares : sequences of float
        Means of the latent score in the parts that make up the positives, and their shares.

    Returns
    -------
    float
        0 to 1.

    Examples
    --------
    >>> rounded_auc(3, 0.0, 1.0, [binormal_shift(0.75)], [1.0]) < 0.75
    True
    """
    cells = 10**decimals
    edges = (np.arange(cells, dtype=np.float64) + 0.5) / cells
    latent = (log_each(edges) - log_each(1.0 - edges) - intercept) / slope
    latent = latent[(latent > -9.0) & (latent < 9.0 + max(shifts))]
    negatives = _normal_cdf(latent)
    positives = sum(
        (share * _normal_cdf(latent - shift) for shift, share in zip(shifts, shares, strict=True)),
        start=np.zeros(latent.size),
    )
    negatives = np.concatenate(([0.0], negatives, [1.0]))
    positives = np.concatenate(([0.0], positives, [1.0]))
    below = 0.5 * (negatives[1:] + negatives[:-1])
    return math.fsum((np.diff(positives) * below).tolist())


def _normal_cdf(z: Floats) -> Floats:
    root = math.sqrt(0.5)
    return np.array([0.5 * math.erfc(-root * value) for value in z.tolist()], dtype=np.float64)
