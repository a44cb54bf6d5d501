"""Put scores into buckets by their leading bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch

#: Lower bits of a code, by its bytes. The other bits choose the bucket: sign, exponent and 3 more.
LOWER_BITS = {4: 20, 8: 49}
#: Codes of a bucket that are written at once, and codes of a segment.
_BUFFER, _SEGMENT = 64, 512
_WEIGHT_BYTES = 8
_NO_WEIGHTS = frozen(np.empty(0, np.uint64))


class BlockedScores:
    """Scores that one thread has added, as bits in buckets.

    Each bucket has a small buffer. A full buffer is copied to the end of the bucket's last segment.
    Segments of all buckets share one array, in the order in which they were started.

    Parameters
    ----------
    dtype : dtype of unsigned integers
        32 or 64 bits.
    capacity : int
        Bytes of codes and weights. Memory pages are touched only as they fill.
    weighted : bool
        Whether rows have weights.
    """

    def __init__(self, dtype: np.dtype, capacity: int, weighted: bool = False) -> None:
        self.dtype = dtype
        self.lower_bits = LOWER_BITS[dtype.itemsize]
        self.capacity = capacity
        self.rows = 0
        buckets = 1 << (8 * dtype.itemsize - self.lower_bits)
        segments = max(1, capacity // (_SEGMENT * (dtype.itemsize + _WEIGHT_BYTES * weighted)))
        self._buffer = np.empty(buckets * _BUFFER, dtype)
        self._buffer_rows = np.zeros(buckets, np.uint32)
        self._ends = np.zeros(buckets, np.int64)
        self._segment_buckets = np.empty(segments, np.int64)
        self._segment_count = np.zeros(1, np.int64)
        self._codes = np.empty(segments * _SEGMENT, dtype)
        self._buffer_weights = np.empty(len(self._buffer) * weighted, np.uint64)
        self._weights = np.empty(len(self._codes) * weighted, np.uint64)

    def add(self, bits: np.ndarray, weight: np.ndarray = _NO_WEIGHTS) -> int:
        """Add rows until the memory is full; return how many were added.

        Parameters
        ----------
        bits : ndarray of unsigned integers, shape (rows,), read-only
            Bits of scores without -0.0.
        weight : ndarray of uint64, shape (rows,), read-only
            Bits of weights, if rows have weights.
        """
        added = int(
            _block_rows(
                bits,
                weight,
                self.lower_bits,
                self._buffer,
                self._buffer_weights,
                self._buffer_rows,
                self._ends,
                self._segment_buckets,
                self._segment_count,
                self._codes,
                self._weights,
            )
        )
        self.rows += added
        return added

    @property
    def bytes(self) -> int:
        """Bytes of the codes."""
        return self.rows * self.dtype.itemsize

    def rows_by_bucket(self) -> np.ndarray:
        """Count the rows of each bucket, buckets in ascending order of the score."""
        rows = _SEGMENT * np.bincount(
            self._segment_buckets[: self._segment_count[0]], minlength=len(self._ends)
        )
        rows -= -self._ends % _SEGMENT
        return _ascending(rows + self._buffer_rows)

    def segments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the segments by bucket, in bit order, and each bucket's first."""
        segment_buckets = self._segment_buckets[: self._segment_count[0]]
        order = np.argsort(segment_buckets, kind="stable")
        return order, np.searchsorted(segment_buckets[order], np.arange(len(self._ends) + 1))

    def read_codes(
        self, bucket: int, segments: tuple[np.ndarray, np.ndarray], codes: np.ndarray
    ) -> None:
        """Write the codes of a bucket to an array.

        Codes are integers with the order and the ties of the scores.

        Parameters
        ----------
        bucket : int
            Index in ascending order of the score.
        segments : tuple of ndarray
            From `segments`.
        codes : ndarray, shape (rows of the bucket,)
            Output.
        """
        negative = bucket < len(self._ends) // 2
        sign = 1 << (8 * self.dtype.itemsize - 1)
        flip = self.dtype.type(2 * sign - 1 if negative else sign)
        self._copy(bucket, segments, self._codes, self._buffer, flip, codes)

    def read_weights(
        self, bucket: int, segments: tuple[np.ndarray, np.ndarray], weights: np.ndarray
    ) -> None:
        """Write the bits of a bucket's weights, in the order of `read_codes`."""
        self._copy(bucket, segments, self._weights, self._buffer_weights, np.uint64(0), weights)

    def _copy(
        self,
        bucket: int,
        segments: tuple[np.ndarray, np.ndarray],
        values: np.ndarray,
        buffer: np.ndarray,
        flip: np.unsignedinteger[Any],
        out: np.ndarray,
    ) -> None:
        order, bounds = segments
        half = len(self._ends) // 2
        bits_bucket = 2 * half - 1 - bucket if bucket < half else bucket - half
        _read_segments(
            values,
            order[bounds[bits_bucket] : bounds[bits_bucket + 1]],
            self._ends[bits_bucket],
            buffer[
                bits_bucket * _BUFFER : bits_bucket * _BUFFER + int(self._buffer_rows[bits_bucket])
            ],
            flip,
            out,
        )

    def clear(self) -> None:
        """Remove all rows and keep the memory."""
        self.rows = 0
        self._buffer_rows[:] = 0
        self._ends[:] = 0
        self._segment_count[0] = 0


class ScoreBlocks:
    """The scores of several threads as one."""

    def __init__(self, blocks: list[BlockedScores]) -> None:
        self._blocks = [(block, block.segments(), block.rows_by_bucket()) for block in blocks]
        self.rows = np.sum([rows for _, _, rows in self._blocks], axis=0)

    def codes(self, bucket: int) -> np.ndarray:
        """Collect the codes of a bucket in scratch memory."""
        codes = scratch("codes", int(self.rows[bucket]), self._blocks[0][0].dtype)
        return self._collect(bucket, BlockedScores.read_codes, codes)

    def weights(self, bucket: int) -> np.ndarray:
        """Collect the weights of a bucket in scratch memory."""
        weights = scratch("weights", int(self.rows[bucket]), np.uint64)
        return self._collect(bucket, BlockedScores.read_weights, weights).view(np.float64)

    def _collect(self, bucket: int, read: Callable[..., None], out: np.ndarray) -> np.ndarray:
        done = 0
        for block, segments, rows_by_bucket in self._blocks:
            here = int(rows_by_bucket[bucket])
            read(block, bucket, segments, out[done : done + here])
            done += here
        return out


def _ascending(numbers: np.ndarray) -> np.ndarray:
    """Reorder the counts of buckets from bit order to score order.

    In the order of bits negative scores descend.
    """
    half = len(numbers) // 2
    return np.concatenate([numbers[: half - 1 : -1], numbers[:half]])


@kernel
def _block_rows(  # type: ignore[no-untyped-def]
    bits,
    weight,
    lower_bits,
    buffer,
    buffer_weights,
    buffer_rows,
    ends,
    segment_buckets,
    segment_count,
    codes,
    weights,
):
    shift = buffer.dtype.type(lower_bits)
    for i in range(bits.shape[0]):
        bucket = np.int64(bits[i] >> shift)
        first = bucket * _BUFFER
        rows = np.int64(buffer_rows[bucket])
        if rows == _BUFFER:
            end = ends[bucket]
            if end % _SEGMENT == 0:
                if segment_count[0] == segment_buckets.shape[0]:
                    return i
                end = segment_count[0] * _SEGMENT
                segment_buckets[segment_count[0]] = bucket
                segment_count[0] += 1
            # Slices: only then do the loops vectorise.
            here = buffer[first : first + _BUFFER]
            there = codes[end : end + _BUFFER]
            for k in range(_BUFFER):
                there[k] = here[k]
            if weight.shape[0] > 0:
                weights_here = buffer_weights[first : first + _BUFFER]
                weights_there = weights[end : end + _BUFFER]
                for k in range(_BUFFER):
                    weights_there[k] = weights_here[k]
            ends[bucket] = end + _BUFFER
            rows = np.int64(0)
        buffer[first + rows] = bits[i]
        if weight.shape[0] > 0:
            buffer_weights[first + rows] = weight[i]
        buffer_rows[bucket] = rows + 1
    return bits.shape[0]


@kernel
def _read_segments(codes, segments, end, buffer, flip, out):  # type: ignore[no-untyped-def]
    n = 0
    for c in range(segments.shape[0]):
        lo = segments[c] * _SEGMENT
        hi = lo + _SEGMENT
        if lo < end < hi:
            hi = end
        here = codes[lo:hi]
        there = out[n : n + hi - lo]
        for k in range(hi - lo):
            there[k] = here[k] ^ flip
        n += hi - lo
    for k in range(buffer.shape[0]):
        out[n + k] = buffer[k] ^ flip
