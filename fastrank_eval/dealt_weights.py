"""Codes of rows with a weight each, dealt to buckets together; as in `dealt`."""

from __future__ import annotations

import numpy as np

from fastrank_eval.dealt import _CHUNK, _NEAR, DealtCodes
from fastrank_eval.kernel import kernel

#: Bytes of a weight.
_WIDTH = 8


class DealtWeights(DealtCodes):
    """The scores and weights one thread has added, in buckets of the score.

    Parameters
    ----------
    kind, room
        As of `DealtCodes`; the room is that of codes and weights.
    """

    def __init__(self, kind: np.dtype, room: int) -> None:
        super().__init__(kind, room * kind.itemsize // (kind.itemsize + _WIDTH))
        self._near_weights = np.empty(len(self._near), np.uint64)
        self._weights = np.empty(len(self._codes), np.uint64)

    def deal_weighted(self, bits: np.ndarray, weight: np.ndarray) -> int:
        """Take rows until there is no room; how many were taken.

        Parameters
        ----------
        bits : ndarray of unsigned integers, shape (rows,), read-only
            Bits of scores without -0.0.
        weight : ndarray of uint64, shape (rows,), read-only
            Bits of weights.
        """
        taken = int(
            _deal_weighted(
                bits,
                weight,
                self.lower_bits,
                self._near,
                self._near_weights,
                self._near_rows,
                self._ends,
                self._owners,
                self._used,
                self._codes,
                self._weights,
            )
        )
        self.rows += taken
        return taken

    def collect_weights(
        self, bucket: int, chunks: tuple[np.ndarray, np.ndarray], weights: np.ndarray
    ) -> None:
        """Write the bits of a bucket's weights, in the order of the codes that `collect` writes."""
        self._copy(bucket, chunks, self._weights, self._near_weights, np.uint64(0), weights)


@kernel
def _deal_weighted(  # type: ignore[no-untyped-def]
    bits,
    weight,
    lower_bits,
    near,
    near_weights,
    near_rows,
    ends,
    owners,
    used,
    codes,
    weights,
):
    shift = near.dtype.type(lower_bits)
    for i in range(bits.shape[0]):
        bucket = np.int64(bits[i] >> shift)
        first = bucket * _NEAR
        rows = np.int64(near_rows[bucket])
        if rows == _NEAR:
            end = ends[bucket]
            if end % _CHUNK == 0:
                if used[0] == owners.shape[0]:
                    return i
                end = used[0] * _CHUNK
                owners[used[0]] = bucket
                used[0] += 1
            # Slices, because only then do the loops vectorise.
            here = near[first : first + _NEAR]
            there = codes[end : end + _NEAR]
            for k in range(_NEAR):
                there[k] = here[k]
            heavy = near_weights[first : first + _NEAR]
            moved = weights[end : end + _NEAR]
            for k in range(_NEAR):
                moved[k] = heavy[k]
            ends[bucket] = end + _NEAR
            rows = np.int64(0)
        near[first + rows] = bits[i]
        near_weights[first + rows] = weight[i]
        near_rows[bucket] = rows + 1
    return bits.shape[0]
