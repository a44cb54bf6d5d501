"""Partition scores by their leading bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastrank_eval._lib.jit import kernel, scratch

#: Bits of the lower part of a code, by its size: sign, exponent and 3 bits choose the bucket.
LOWER_BITS = {4: 20, 8: 49}
#: Codes of a bucket that are written near one another, and codes of a chunk.
_NEAR, _CHUNK = 64, 512


class BlockedScores:
    """The scores one thread has added, as bits in buckets.

    Parameters
    ----------
    kind : dtype of unsigned integers
        32 or 64 bits.
    room : int
        Bytes of codes to make room for; memory is touched as it fills.
    """

    def __init__(self, kind: np.dtype, room: int) -> None:
        self.kind = kind
        self.lower_bits = LOWER_BITS[kind.itemsize]
        self.room = room
        self.rows = 0
        buckets = 1 << (8 * kind.itemsize - self.lower_bits)
        chunks = max(1, room // (_CHUNK * kind.itemsize))
        self._near = np.empty(buckets * _NEAR, kind)
        self._near_rows = np.zeros(buckets, np.uint32)
        self._ends = np.zeros(buckets, np.int64)
        self._owners = np.empty(chunks, np.int64)
        self._used = np.zeros(1, np.int64)
        self._codes = np.empty(chunks * _CHUNK, kind)

    def deal(self, bits: np.ndarray) -> int:
        """Take rows until there is no room; how many were taken.

        Parameters
        ----------
        bits : ndarray of unsigned integers, shape (rows,), read-only
            Bits of scores without -0.0.
        """
        taken = int(
            _deal(
                bits,
                self.lower_bits,
                self._near,
                self._near_rows,
                self._ends,
                self._owners,
                self._used,
                self._codes,
            )
        )
        self.rows += taken
        return taken

    @property
    def bytes(self) -> int:
        """Bytes of the codes taken."""
        return self.rows * self.kind.itemsize

    def held(self) -> np.ndarray:
        """Rows of each bucket, buckets in ascending order of the score."""
        rows = _CHUNK * np.bincount(self._owners[: self._used[0]], minlength=len(self._ends))
        rows -= -self._ends % _CHUNK
        return _ascending(rows + self._near_rows)

    def chunks(self) -> tuple[np.ndarray, np.ndarray]:
        """Chunks in the order of their bucket's bits, and where each bucket's begin."""
        owners = self._owners[: self._used[0]]
        order = np.argsort(owners, kind="stable")
        return order, np.searchsorted(owners[order], np.arange(len(self._ends) + 1))

    def collect(
        self, bucket: int, chunks: tuple[np.ndarray, np.ndarray], codes: np.ndarray
    ) -> None:
        """Write a bucket's codes: integers of the same order and the same ties as the scores.

        Parameters
        ----------
        bucket : int
            Counted in ascending order of the score.
        chunks : tuple of ndarray
            From `chunks`.
        codes : ndarray, shape (rows held in the bucket,)
            Written to.
        """
        negative = bucket < len(self._ends) // 2
        sign = 1 << (8 * self.kind.itemsize - 1)
        flip = self.kind.type(2 * sign - 1 if negative else sign)
        self._copy(bucket, chunks, self._codes, self._near, flip, codes)

    def _copy(
        self,
        bucket: int,
        chunks: tuple[np.ndarray, np.ndarray],
        dealt: np.ndarray,
        near: np.ndarray,
        flip: np.unsignedinteger[Any],
        out: np.ndarray,
    ) -> None:
        order, bounds = chunks
        half = len(self._ends) // 2
        raw = 2 * half - 1 - bucket if bucket < half else bucket - half
        _collect(
            dealt,
            order[bounds[raw] : bounds[raw + 1]],
            self._ends[raw],
            near[raw * _NEAR : raw * _NEAR + int(self._near_rows[raw])],
            flip,
            out,
        )

    def clear(self) -> None:
        """Forget all rows; the memory is used again."""
        self.rows = 0
        self._near_rows[:] = 0
        self._ends[:] = 0
        self._used[0] = 0


class ScoreBlocks:
    """What several threads have dealt, as one."""

    def __init__(self, dealt: list[BlockedScores]) -> None:
        self._parts = [(part, part.chunks(), part.held()) for part in dealt]
        self.rows = np.sum([held for _, _, held in self._parts], axis=0)

    def codes(self, bucket: int) -> np.ndarray:
        """Codes of a bucket, in scratch."""
        codes = scratch("codes", int(self.rows[bucket]), self._parts[0][0].kind)
        done = 0
        for part, chunks, held in self._parts:
            here = int(held[bucket])
            part.collect(bucket, chunks, codes[done : done + here])
            done += here
        return codes


def _ascending(of_buckets: np.ndarray) -> np.ndarray:
    """Numbers of buckets from the order of their bits, where negative scores descend."""
    half = len(of_buckets) // 2
    return np.concatenate([of_buckets[: half - 1 : -1], of_buckets[:half]])


@kernel
def _deal(  # type: ignore[no-untyped-def]
    bits, lower_bits, near, near_rows, ends, owners, used, codes
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
            # Slices, because only then does the loop vectorise.
            here = near[first : first + _NEAR]
            there = codes[end : end + _NEAR]
            for k in range(_NEAR):
                there[k] = here[k]
            ends[bucket] = end + _NEAR
            rows = np.int64(0)
        near[first + rows] = bits[i]
        near_rows[bucket] = rows + 1
    return bits.shape[0]


@kernel
def _collect(codes, chunks, end, near, flip, out):  # type: ignore[no-untyped-def]
    n = 0
    for c in range(chunks.shape[0]):
        lo = chunks[c] * _CHUNK
        hi = lo + _CHUNK
        if lo < end < hi:
            hi = end
        here = codes[lo:hi]
        there = out[n : n + hi - lo]
        for k in range(hi - lo):
            there[k] = here[k] ^ flip
        n += hi - lo
    for k in range(near.shape[0]):
        out[n + k] = near[k] ^ flip


#: Bytes of a weight.
_WIDTH = 8


class BlockedWeights(BlockedScores):
    """The scores and weights one thread has added, in buckets of the score.

    Parameters
    ----------
    kind, room
        As of `BlockedScores`; the room is that of codes and weights.
    """

    def __init__(self, kind: np.dtype, room: int) -> None:
        super().__init__(kind, room * kind.itemsize // (kind.itemsize + _WIDTH))
        self._near_weights = np.empty(len(self._near), np.uint64)
        self._weights = np.empty(len(self._codes), np.uint64)

    def block_weighted(self, bits: np.ndarray, weight: np.ndarray) -> int:
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
