"""Draw counter-based random numbers.

Every draw is a pure function of (seed, stream, counter).

Nothing here has a state that advances, so rows can be made in any order, in batches of any size
and on any machine, and come out the same to the last bit.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Permutation", "Uint64s", "bits", "permuted_ids", "stream_key", "uniform"]

Uint64s: TypeAlias = NDArray[np.uint64]

_WORD = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def _mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * _FIRST) & _WORD
    word = ((word ^ (word >> 27)) * _SECOND) & _WORD
    return word ^ (word >> 31)


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


def _mix_in_place(words: Uint64s) -> Uint64s:
    shifted = words >> np.uint64(30)
    words ^= shifted
    words *= np.uint64(_FIRST)
    np.right_shift(words, np.uint64(27), out=shifted)
    words ^= shifted
    words *= np.uint64(_SECOND)
    np.right_shift(words, np.uint64(31), out=shifted)
    words ^= shifted
    return words


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
    words = counter * np.uint64(_GAMMA)
    words += np.uint64(key)
    return _mix_in_place(words)


def permuted_ids(seed: int, stream: int, counter: Uint64s) -> NDArray[np.int64]:
    """Make hash-like int64 ids, negative ones included.

    Different counters never share an id.

    Parameters
    ----------
    seed, stream : int
        As for `stream_key`.
    counter : uint64 array
        Group numbers.

    Returns
    -------
    int64 array
        New array of the same shape.
    """
    return bits(stream_key(seed, stream), counter).view(np.int64)


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
    # The 52 bits become the mantissa of a double in [1, 2); the subtraction is exact.
    mantissa = words >> np.uint64(12)
    mantissa |= np.uint64(0x3FF0000000000000)
    numbers = mantissa.view(np.float64)
    numbers -= 1.0 - 2.0**-53
    return numbers


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
