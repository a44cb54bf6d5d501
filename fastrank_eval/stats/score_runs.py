"""Keep scores as integers of the same order, and read them by ranges.

The code of a score is an integer with its order and ties. Each batch becomes a run: its codes,
partitioned by their leading bits. So a range of scores is one slice of each run. Slices are joined,
and sorted or compared, inside the cache. Rows may have weights.

Compute areas, ranks and ROC steps from the counts of distinct scores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from fastrank_eval._lib.arrow import (
    Arrays,
    byte_shuffle,
    delta_decode,
    delta_encode,
    frozen,
    narrow,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import inlined, kernel
from fastrank_eval._lib.threads import scratch

#: Lower bits of a code, by its bytes. The leading bits are sign, exponent and 3 to 5 more. With
#: fewer of them, many rows in turn go to one place, and wait for each other.
LOWER_BITS = {4: 18, 8: 49}
#: Rows of a range, at least, unless few are left.
_RANGE_ROWS = 1 << 17
#: Bytes of a block of memory that runs share. The system gives large blocks in large pages: runs of
#: their own cost 1.5 ns a row more.
_BLOCK_BYTES = 1 << 24
#: Most bits of a digit: the ends of digits, and the lines written next, stay in the cache.
_DIGIT_BITS = 11
#: Rows of a cell, at least, and bits of the most cells.
_CELL_ROWS, _CELL_BITS = 4, 16
#: Rows that are partitioned in turn: a fourth of all rows lies between them.
_STREAMS = 4
#: Fewer codes are sorted by NumPy: a sort by digits takes 20 us at least.
_FEW = 256
#: Most leading bits that are sorted by digits; the rest is sorted by insertion.
_SORTED_BITS = 36
#: Rows without weights have this array.
NO_VALUES = np.empty(0)


class Codes(NamedTuple):
    """Codes of scores, and the weights of their rows or `NO_VALUES`."""

    codes: np.ndarray
    values: np.ndarray


class _Run(NamedTuple):
    """Codes by their leading bits, and the end of those with each."""

    rows: Codes
    ends: np.ndarray


def sortable_codes(score: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Encode scores as unsigned integers with the same order and ties."""
    bits = frozen(np.ascontiguousarray(score).view(f"u{score.dtype.itemsize}"))
    codes, kind = np.empty_like(bits) if out is None else out, bits.dtype.type
    _encode(bits, kind(1 << (8 * bits.itemsize - 1)), kind(0), codes)
    return codes


def scores_of(codes: np.ndarray) -> np.ndarray:
    """Decode codes to scores, float32 or float64."""
    sign = codes.dtype.type(1 << (8 * codes.itemsize - 1))
    return np.where(codes & sign, codes ^ sign, ~codes).view(f"f{codes.itemsize}")


@kernel
def _encode(bits, sign, zero, codes):  # type: ignore[no-untyped-def]
    """Flip the sign of a positive score, and all bits of a negative one."""
    for i in range(bits.shape[0]):
        # -0.0 equals 0.0, but has other bits.
        word = zero if bits[i] == sign else bits[i]
        codes[i] = word ^ (sign if word < sign else ~zero)


def distinct_codes(rows: Codes) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct codes, ascending, and the rows of each."""
    return distinct_sorted(sort_codes(rows).codes)


def distinct_sorted(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct codes of ascending codes, and the rows of each."""
    firsts = firsts_of(codes)
    return codes[firsts], np.diff(firsts, append=len(codes))


def firsts_of(*columns: np.ndarray) -> np.ndarray:
    """Return the rows that differ from the row before in some column."""
    is_first = np.empty(len(columns[0]), np.bool_)
    is_first[:1] = True
    np.not_equal(columns[0][1:], columns[0][:-1], out=is_first[1:])
    for column in columns[1:]:
        is_first[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(is_first)


def encode_rows(parts: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Encode the distinct rows of ranges of scores, each range in order.

    Parameters
    ----------
    parts : sequence of (ndarray, ...)
        By range: codes, further columns, then the weights, negative where the row is positive.

    Returns
    -------
    tuple of ndarray
        Encoded codes, the further columns, encoded weights, and how often each row occurs.
    """
    columns = []
    for part in parts:
        at = firsts_of(*part)
        columns.append([*(column[at] for column in part), np.diff(at, append=len(part[0]))])
    codes, *more, weight, rows = (np.concatenate(column) for column in zip(*columns, strict=True))
    return delta_encode(codes), *more, byte_shuffle(weight), narrow(rows)


def sort_codes(rows: Codes) -> Codes:
    """Sort rows by their codes, stably, in scratch memory.

    Digits of the codes are sorted, the lowest first. NumPy's sort takes from 3 to 39 ns a row: on a
    Zen 4 it takes 39 with AVX-512 and 6 without. This takes 3 to 5.
    """
    size, kind = len(rows.codes), rows.codes.dtype.type
    if size < _FEW and not len(rows.values):
        return Codes(np.sort(rows.codes), rows.values)
    base = int(rows.codes.min())
    bits = max((int(rows.codes.max()) - base).bit_length(), 1)
    spare = [
        Codes(
            scratch(f"codes by digit {use}", size, rows.codes.dtype),
            scratch(f"values by digit {use}", len(rows.values), np.float64),
        )
        for use in range(2)
    ]
    low = max(bits - _SORTED_BITS, 0)
    while True:
        digits = -(-(bits - low) // _DIGIT_BITS)
        width = -(-(bits - low) // digits)
        for digit in range(digits):
            target = spare[digit % 2]
            ends, shift = _no_rows(size, width), kind(low + digit * width)
            _sort_digit(*rows, kind(base), shift, kind((1 << width) - 1), ends, *target)
            rows = target
        if not low or _insert(rows.codes, rows.values):
            return rows
        # Many rows differ in the lowest bits alone.
        low, spare = 0, spare[::-1] if digits % 2 else spare


def _no_rows(size: int, width: int) -> np.ndarray:
    return np.zeros(1 << width, np.uint32 if size < 1 << 32 else np.int64)


@inlined
def _put(codes, values, i, digit, ends, out, out_values):  # type: ignore[no-untyped-def]
    """Copy a row to the end of its digit."""
    index = ends[digit]
    out[index] = codes[i]
    if values.shape[0] > 0:
        out_values[index] = values[i]
    ends[digit] = index + 1


@kernel
def _sort_digit(codes, values, base, shift, mask, ends, out, out_values):  # type: ignore[no-untyped-def]
    for i in range(codes.shape[0]):
        ends[((codes[i] - base) >> shift) & mask] += 1
    _to_starts(ends)
    for i in range(codes.shape[0]):
        _put(codes, values, i, ((codes[i] - base) >> shift) & mask, ends, out, out_values)


@kernel
def _partition(codes, values, lower_bits, ends, out, out_values):  # type: ignore[no-untyped-def]
    """Partition rows by their leading bits, in any order.

    Neighbours often go to one place, and wait for each other. So rows far apart are put in turn:
    1.5 ns a row become 0.9 where scores descend in groups.
    """
    rows = codes.shape[0] // _STREAMS
    for i in range(rows):
        for k in range(_STREAMS):
            ends[codes[k * rows + i] >> lower_bits] += 1
    for i in range(_STREAMS * rows, codes.shape[0]):
        ends[codes[i] >> lower_bits] += 1
    _to_starts(ends)
    for i in range(rows):
        for k in range(_STREAMS):
            row = k * rows + i
            _put(codes, values, row, codes[row] >> lower_bits, ends, out, out_values)
    for i in range(_STREAMS * rows, codes.shape[0]):
        _put(codes, values, i, codes[i] >> lower_bits, ends, out, out_values)


@kernel
def _to_starts(ends):  # type: ignore[no-untyped-def]
    end = 0
    for digit in range(ends.shape[0]):
        rows = ends[digit]
        ends[digit] = end
        end += rows


def rank_codes(
    rows: Codes, codes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Count the rows below each distinct code of some rows, and up to it.

    Rows are counted in cells by their leading bits. Only rows that share a cell with a code are
    compared with it.

    Parameters
    ----------
    rows : Codes
        In any order, with those of `codes` among them.
    codes : ndarray of unsigned integers
        In any order.

    Returns
    -------
    distinct : ndarray of unsigned integers
        Ascending.
    number, below, through : ndarray of int64
        How often `codes` has each, rows with a lower code, and rows with a code at most as high.
    """
    size = len(rows.codes)
    distinct, (number, below, through) = np.empty_like(codes), np.empty((3, len(codes)), np.int64)
    count = -1 if len(codes) else 0
    # Where positives are many, a sort is faster.
    if 0 < _CELL_ROWS * len(codes) <= size:
        cells = 1 << min((size // _CELL_ROWS).bit_length(), _CELL_BITS)
        count = _rank(
            rows.codes,
            codes,
            scratch("cells", cells, np.uint32),
            scratch("first code of a cell", cells, np.uint32),
            scratch("cells with codes", cells, np.uint32),
            scratch("codes of cells", 4 * len(codes), np.uint32).reshape(4, -1),
            scratch("rows of cells with codes", size + 1, codes.dtype),
            distinct,
            number,
            below,
            through,
        )
    if count < 0:
        distinct, number = distinct_codes(Codes(codes, NO_VALUES))
        count = len(distinct)
        find_codes(sort_codes(rows).codes, distinct, below, through)
    return distinct[:count], number[:count], below[:count], through[:count]


@kernel
def _rank(  # type: ignore[no-untyped-def]
    rows, codes, cells, first, marked, chains, inside, distinct, rows_of, below, through
):
    """Count rows in cells, and compare those of cells that have codes.

    There are 2 cells at least: a shift takes no more than all bits but one. The codes of a cell
    are a chain, ascending and distinct. Returns the number of distinct codes,
    or -1 if this takes long.
    """
    mark = np.uint32(1 << 31)
    number, following, lower, equal = chains[0], chains[1], chains[2], chains[3]
    size = np.int64(codes.shape[0])
    if rows.shape[0] >= 1 << 31:
        return -1
    base = rows[0]
    most = rows[0]
    for i in range(rows.shape[0]):
        base = min(base, rows[i])
        most = max(most, rows[i])
    shift = codes.dtype.type(0)
    last = codes.dtype.type(cells.shape[0] - 1)
    while (most - base) >> shift > last:
        shift += codes.dtype.type(1)
    cells[:] = 0
    budget = size
    for p in range(size):
        code = codes[p]
        cell = (code - base) >> shift
        number[p] = 1
        following[p] = size
        lower[p] = 0
        equal[p] = 0
        if cells[cell] == 0:
            cells[cell] = mark
            first[cell] = p
            continue
        before = size
        after = np.int64(first[cell])
        while after < size and codes[after] < code:
            before = after
            after = np.int64(following[after])
            budget -= 1
        if budget < 0:
            return -1
        if after < size and codes[after] == code:
            number[after] += 1
            number[p] = 0
            continue
        following[p] = after
        if before < size:
            following[before] = p
        else:
            first[cell] = p
    # Without a branch: each row is stored, and the next one over it unless the cell has codes.
    taken = np.uint64(0)
    for i in range(rows.shape[0]):
        code = rows[i]
        cell = (code - base) >> shift
        count = cells[cell]
        cells[cell] = count + np.uint32(1)
        inside[taken] = code
        taken += np.uint64(count >> np.uint32(31))
    budget = np.int64(rows.shape[0])
    for p in range(size):
        if number[p] > 0:
            budget -= np.int64(cells[(codes[p] - base) >> shift] ^ mark)
    if budget < 0:
        return -1
    for i in range(taken):
        code = inside[i]
        here = first[(code - base) >> shift]
        while here < size:
            lower[here] += np.uint32(code < codes[here])
            equal[here] += np.uint32(code == codes[here])
            here = following[here]
    total = np.uint32(0)
    cell_count = np.int64(0)
    for cell in range(cells.shape[0]):
        count = cells[cell]
        cells[cell] = total
        marked[cell_count] = cell
        cell_count += np.int64(count >> np.uint32(31))
        total += count & ~mark
    done = 0
    for i in range(cell_count):
        here = first[marked[i]]
        while here < size:
            distinct[done] = codes[here]
            rows_of[done] = number[here]
            below[done] = np.int64(cells[marked[i]]) + lower[here]
            through[done] = below[done] + equal[here]
            done += 1
            here = following[here]
    return done


def sum_of_products(number: np.ndarray, rows: np.ndarray) -> int:
    """Compute the exact sum of products of counts below 2**48."""
    if int(number.sum()) * int(rows.max(initial=0)) < 1 << 63:
        return int(np.dot(number, rows))
    return sum(int(np.sum(number * (rows >> s & 0xFFFF))) << s for s in (0, 16, 32))


@kernel
def find_codes(rows, codes, below, through):  # type: ignore[no-untyped-def]
    """Count the rows below each code, and up to it; both ascend."""
    i = 0
    for p in range(codes.shape[0]):
        code = codes[p]
        while i < rows.shape[0] and rows[i] < code:
            i += 1
        below[p] = i
        while i < rows.shape[0] and rows[i] == code:
            i += 1
        through[p] = i


@kernel
def _insert(codes, values):  # type: ignore[no-untyped-def]
    """Sort nearly sorted codes; return False if this takes long."""
    budget = codes.shape[0]
    for i in range(1, codes.shape[0]):
        code = codes[i]
        if codes[i - 1] <= code:
            continue
        k = i
        while k > 0 and codes[k - 1] > code:
            codes[k] = codes[k - 1]
            k -= 1
        codes[k] = code
        if values.shape[0] > 0:
            value = values[i]
            for j in range(i, k, -1):
                values[j] = values[j - 1]
            values[k] = value
        budget -= i - k
        if budget < 0:
            return False
    return True


class ScoreRuns:
    """Codes of scores in runs. Several threads may add at the same time."""

    #: Fewer rows are not partitioned, and form one range.
    FEW_ROWS = 1 << 17

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._few: list[Codes] = []
        self._few_rows = 0
        self._runs: list[_Run] = []
        self._room_of: dict[np.dtype, np.ndarray] = {}
        self.kind = np.dtype(np.uint64)
        self.bytes = 0

    def add(self, score: np.ndarray, values: np.ndarray = NO_VALUES) -> None:
        """Add scores, float32 or float64, the same type in every call.

        `values` are kept, not copied.
        """
        size = len(score)
        many, kind = size >= self.FEW_ROWS, np.dtype(f"u{score.dtype.itemsize}")
        codes = sortable_codes(score, scratch("codes", size, kind) if many else None)
        taken = [Codes(codes, values)]
        with self._lock:
            self.kind = kind
            self.bytes += codes.nbytes
            if not many:
                self._few += taken
                self._few_rows += size
                taken = []
                if self._few_rows >= self.FEW_ROWS:
                    taken, self._few, self._few_rows = self._few, [], 0
        if taken:
            self._partition(taken)

    def _partition(self, taken: list[Codes]) -> None:
        rows = _concatenate(taken)
        bits, lower_bits = 8 * rows.codes.itemsize, LOWER_BITS[rows.codes.itemsize]
        target = Codes(self._room(rows.codes), self._room(rows.values))
        ends = _no_rows(len(rows.codes), bits - lower_bits)
        _partition(*rows, rows.codes.dtype.type(lower_bits), ends, *target)
        with self._lock:
            self._runs.append(_Run(target, ends))
            self.bytes += ends.nbytes

    def _room(self, column: np.ndarray) -> np.ndarray:
        """Return new memory for a column."""
        if not len(column):
            return column
        with self._lock:
            block = self._room_of.get(column.dtype)
            if block is None or len(block) < len(column):
                size = max(len(column), _BLOCK_BYTES // column.itemsize)
                block = np.empty(size, column.dtype)
            self._room_of[column.dtype] = block[len(column) :]
            return block[: len(column)]

    def merge(self, other: ScoreRuns) -> None:
        """Add the codes of another."""
        with self._lock:
            self._few += other._few
            self._few_rows += other._few_rows
            self._runs += other._runs
            self.bytes += other.bytes
            self.kind = other.kind if other.bytes else self.kind

    def map_values(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        """Replace the values of all rows."""
        with self._lock:
            self._few = [Codes(codes, change(values)) for codes, values in self._few]
            self._runs = [_Run(Codes(c, change(values)), ends) for (c, values), ends in self._runs]

    def values(self) -> list[np.ndarray]:
        """Return the values of all rows, in some parts."""
        return [values for _, values in (*self._few, *(run.rows for run in self._runs))]

    def take(self) -> ScoreRuns:
        """Move all rows to new runs."""
        taken = ScoreRuns()
        with self._lock:
            taken.merge(self)
            taken.kind = self.kind
            self._few, self._few_rows, self._runs, self.bytes = [], 0, [], 0
        return taken

    @property
    def is_partitioned(self) -> bool:
        """Whether some rows are partitioned, or enough to do so."""
        return bool(self._runs) or self._few_rows > self.FEW_ROWS

    def partitioned_rows(self) -> np.ndarray:
        """Partition all rows; count those with each value of leading bits."""
        few, self._few, self._few_rows = self._few, [], 0
        if few:
            self._partition(few)
        bits = 8 * self.kind.itemsize - LOWER_BITS[self.kind.itemsize]
        through = np.zeros(1 << bits, np.int64)
        for run in self._runs:
            through += run.ends
        return np.diff(through, prepend=0)

    def rows_in(self, leading: slice, use: str = "rows") -> Codes:
        """Return the rows of a range of leading bits, in any order.

        The thread's next call for the same use overwrites them.
        """
        parts = self.parts_in(leading)
        return _concatenate(parts, use) if parts else Codes(np.empty(0, self.kind), NO_VALUES)

    def parts_in(self, leading: slice) -> list[Codes]:
        """Return the rows of a range of leading bits, run by run."""
        parts = self._few.copy()
        for (codes, values), ends in self._runs:
            first = int(ends[leading.start - 1]) if leading.start else 0
            last = int(ends[leading.stop - 1])
            if first < last:
                parts.append(Codes(codes[first:last], values[first:last]))
        return parts


def ranges_of(*every: ScoreRuns) -> list[slice]:
    """Cut the codes of several by their leading bits into ranges, ascending.

    Few rows are one range.
    """
    if not any(one.is_partitioned for one in every):
        return [slice(0, 0)] * any(one.bytes for one in every)
    through = np.cumsum(np.sum([one.partitioned_rows() for one in every], axis=0))
    full = np.flatnonzero(np.diff(through // _RANGE_ROWS, prepend=0)) + 1
    last = int(np.searchsorted(through, through[-1])) + 1
    return [slice(lo, hi) for lo, hi in pairwise([0, *full[full < last].tolist(), last])]


def _concatenate(parts: list[Codes], use: str = "rows") -> Codes:
    if len(parts) == 1:
        return parts[0]
    codes, values = zip(*parts, strict=True)
    joined = scratch(f"codes of {use}", sum(map(len, codes)), codes[0].dtype)
    np.concatenate(codes, out=joined)
    if not len(values[0]):
        return Codes(joined, NO_VALUES)
    joined_values = scratch(f"values of {use}", len(joined), np.float64)
    return Codes(joined, np.concatenate(values, out=joined_values))


@dataclass(frozen=True)
class ScoreTable:
    """Distinct scores, highest first, with their positives and others.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (scores,), read-only
        Strictly descending; NaN last, for rows without a score.
    positives, others : ndarray, shape (scores,), read-only
        int64 counts of rows, or float64 sums of their weights times `scale`.
    scale : float
        A power of two that prevents overflow of sums of weights; 1 without weights.
    """

    score: np.ndarray
    positives: np.ndarray
    others: np.ndarray
    scale: float = 1.0

    @classmethod
    def empty(cls) -> Self:
        """Make a table without scores."""
        none = frozen(np.empty(0, np.int64))
        return cls(frozen(np.empty(0)), none, none)

    @classmethod
    def from_codes(
        cls,
        codes: np.ndarray,
        positives: np.ndarray,
        others: np.ndarray,
        scale: float = 1.0,
        *more: np.ndarray,
    ) -> Self:
        """Make a table from the codes of the scores; steps have one more column."""
        score, positives, others, *more_columns = (
            frozen(np.ascontiguousarray(column))
            for column in (scores_of(codes), positives, others, *more)
        )
        return cls(score, positives, others, scale, *more_columns)

    @property
    def positive(self) -> float:
        """All positives: their number, or their weight times `scale`."""
        return float(self.positives.sum())

    @property
    def other(self) -> float:
        """All others: their number, or their weight times `scale`."""
        return float(self.others.sum())

    @property
    def missing(self) -> str | None:
        """The reason why measures that need both classes are undefined, or None."""
        if self.positive > 0 and self.other > 0:
            return None
        has_weight = self.positive > 0 or self.other > 0
        return "single_class" if has_weight or not len(self.score) else "zero_weight"

    def area(self, max_fpr: float | None = None) -> float:
        """Compute the area under the ROC curve; of counts with one rounding.

        NaN if a class has no row or no weight. `max_fpr` is that of `PooledScores.auc`.
        """
        if self.positives.dtype != np.int64 or (max_fpr is not None and max_fpr < 1):
            return area_under(*self.runs(), max_fpr)
        others = int(self.other)
        below = others - np.cumsum(self.others + self._others_before)
        won_twice = sum_of_products(self.positives, 2 * below + self.others)
        pairs = int(self.positives.sum()) * others
        return won_twice / (2 * pairs) if pairs else float("nan")

    @property
    def _others_before(self) -> np.ndarray | int:
        """The others between each score and the one before in the table."""
        return 0

    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return others and positives of each run, highest scores first.

        Returns
        -------
        others, positives : ndarray, shape (scores,), or float64, shape (2 * scores + 1,)
            Of steps, even entries are between two scores, odd ones at a score.
        """
        return self.others, self.positives

    def to_arrays(self) -> Arrays:
        """Write ``codes`` of the scores, ascending, ``positives`` and ``others``.

        A code has the bits of the score as an unsigned integer of the same order: all bits are
        flipped where the sign is set, otherwise the sign alone. Codes are written as differences
        (see `delta_encode`).
        """
        return {
            "codes": delta_encode(sortable_codes(self.score[::-1])),
            "positives": narrow(self.positives[::-1]),
            "others": narrow(self.others[::-1]),
        }

    @staticmethod
    def counts_in(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Read the ascending codes with their positives and others."""
        positives, others = (arrays[name].astype(np.int64) for name in ("positives", "others"))
        codes = delta_decode(arrays["codes"])
        if not codes.shape == positives.shape == others.shape or (codes[1:] <= codes[:-1]).any():
            raise ValueError("codes do not ascend, or are not as many as their counts")
        if min(positives.min(initial=0), others.min(initial=0)) < 0:
            raise ValueError("counts of scores are below 0")
        return codes, positives, others


@dataclass(frozen=True)
class RocSteps(ScoreTable):
    """Distinct scores of positives, highest first, with negatives.

    A table with the negatives between two scores of positives added up. At click rates of a
    few per cent it is far shorter.

    Parameters
    ----------
    score, positives, others, scale
        As in a `ScoreTable`.
    negatives_between : ndarray, shape (scores + 1,), read-only
        Negatives with a score above this one and below the previous one. The last entry counts
        those below all scores.
    """

    negatives_between: np.ndarray = field(default_factory=lambda: frozen(np.zeros(1, np.int64)))

    @classmethod
    def from_ranks(cls, parts: Sequence[tuple[np.ndarray, ...]], rows: int) -> Self:
        """Make steps from the ranks of positives.

        Parameters
        ----------
        parts : sequence of tuple of ndarray
            By bucket, ascending: distinct codes of positives, the positives of each, and the rows
            with a lower code and with a code at most as high.
        rows : int
            All rows.
        """
        codes, number, below, through = (np.concatenate(part) for part in zip(*parts, strict=True))
        before = np.cumsum(number) - number
        lower = below - before
        tied = through - below - number
        edges = np.concatenate([[0], lower + tied])
        between = np.append(lower, rows - number.sum()) - edges
        return cls.from_codes(codes[::-1], number[::-1], tied[::-1], 1.0, between[::-1])

    @classmethod
    def from_table(cls, table: ScoreTable) -> Self:
        """Make steps from the table of every distinct score."""
        index = np.flatnonzero(table.positives)
        between = np.zeros(len(index) + 1, table.others.dtype)
        _sum_between(table.others, frozen(index), between)
        score, positives, others = (
            frozen(column[index]) for column in (table.score, table.positives, table.others)
        )
        return cls(score, positives, others, table.scale, frozen(between))

    @property
    def other(self) -> float:
        """All others: their number, or their weight times `scale`."""
        return float(self.others.sum() + self.negatives_between.sum())

    @property
    def _others_before(self) -> np.ndarray:
        return self.negatives_between[:-1]

    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return others and positives of each run, as those of a table."""
        others, positives = np.zeros((2, 2 * len(self.score) + 1))
        others[0::2] = self.negatives_between
        others[1::2] = self.others
        positives[1::2] = self.positives
        return frozen(others), frozen(positives)


@kernel
def _sum_between(others, index, between):  # type: ignore[no-untyped-def]
    """Sum the others between positives, from the highest score down."""
    k = 0
    for i in range(others.shape[0]):
        if k < index.shape[0] and index[k] == i:
            k += 1
        else:
            between[k] += others[i]


def area_under(others: np.ndarray, positives: np.ndarray, max_fpr: float | None) -> float:
    """Sum the trapezoids under the ROC curve, one for each distinct score.

    Parameters
    ----------
    others, positives : ndarray of float64, shape (scores,)
        Rows, or their weight, at each distinct score, from the highest score down.
    max_fpr : float or None
        As in `PooledScores.auc`.
    """
    if max_fpr is None or max_fpr >= 1:
        areas = np.empty(len(others))
        if not _trapezoids(others, positives, areas):
            return float("nan")
        return min(max(float(np.sum(areas) / 2.0), 0.0), 1.0)
    fpr, tpr = np.cumsum(others), np.cumsum(positives)
    if not (len(fpr) and fpr[-1] > 0 and tpr[-1] > 0):
        return float("nan")
    fpr, tpr = np.append(0.0, fpr / fpr[-1]), np.append(0.0, tpr / tpr[-1])
    stop = int(np.searchsorted(fpr, max_fpr, side="right"))
    slope = (tpr[stop] - tpr[stop - 1]) / (fpr[stop] - fpr[stop - 1])
    inside = slope * (max_fpr - fpr[stop - 1]) + tpr[stop - 1]
    fpr, tpr = np.append(fpr[:stop], max_fpr), np.append(tpr[:stop], inside)
    area = float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1])) / 2.0)
    smallest_area = max_fpr * max_fpr / 2.0
    area = 0.5 * (1.0 + (area - smallest_area) / (max_fpr - smallest_area))
    return min(max(area, 0.0), 1.0)


@kernel
def sum_classes(others, positives):  # type: ignore[no-untyped-def]
    """Sum both columns."""
    all_others = 0.0
    all_positives = 0.0
    for i in range(others.shape[0]):
        all_others += others[i]
        all_positives += positives[i]
    return all_others, all_positives


@kernel
def _trapezoids(others, positives, areas):  # type: ignore[no-untyped-def]
    """Compute twice the area under each step.

    Return False if a class has no weight.
    """
    all_others, all_positives = sum_classes(others, positives)
    if not (all_others > 0.0 and all_positives > 0.0):
        return False
    others_above = 0.0
    positives_above = 0.0
    fpr = 0.0
    tpr = 0.0
    for i in range(others.shape[0]):
        others_above += others[i]
        positives_above += positives[i]
        next_fpr = others_above / all_others
        next_tpr = positives_above / all_positives
        areas[i] = (next_fpr - fpr) * (next_tpr + tpr)
        fpr = next_fpr
        tpr = next_tpr
    return True
