"""Sort rows of groups in a deterministic order, or count the rows above.

The order is independent of the input order.

Scattered rows that do not fit memory are sorted on disk, with DuckDB. It gets only words of keys
and validated numbers, never a type of the user. A single integer key is sorted by value. Other keys
are sorted by hash, then by value, so that the rows of a group are always adjacent. Scores are
sorted later, inside the groups.

Where only the ranks of labelled rows are needed, no group is sorted. The few labelled rows of a
group are compared with all its rows. If they are many, the rows of the group are first divided into
buckets of the score, and a labelled row is compared with those of its own bucket. A bucket with
many labelled rows is divided once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, frozen
from fastrank_eval._lib.errors import FastRankEvalError, SpillError
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import format_bytes, scratch
from fastrank_eval.groups.partition import PartitionedBatch, Partitioner
from fastrank_eval.io.columns import Columns
from fastrank_eval.io.keys import KeyEncoder, hash_keys


@kernel
def sum_weights_of_negatives(  # type: ignore[no-untyped-def]
    starts, score, marks, weight, scratch, offsets, above, tied, total
):
    """Sum the weights of label-0 rows above and in a labelled row's block.

    The weights of a block are added smallest first, so the sum does not depend on the row order.
    """
    for g in range(starts.shape[0] - 1):
        e = offsets[g]
        i = starts[g]
        end = starts[g + 1]
        zeros_above = 0.0
        while i < end:
            first = e
            zeros = 0
            j = i
            while j < end and score[j] == score[i]:
                if marks[j] != 0:
                    e += 1
                else:
                    scratch[zeros] = weight[j]
                    zeros += 1
                j += 1
            _sort(scratch, scratch[:0], zeros)
            block = 0.0
            for k in range(zeros):
                block += scratch[k]
            for k in range(first, e):
                above[k] = zeros_above
                tied[k] = block
            zeros_above += block
            i = j
        total[g] = zeros_above


@kernel
def sum_cell_weights(starts, groups, cell, weight, scratch, out):  # type: ignore[no-untyped-def]
    """Sum the row weights of each group and cell.

    Weights are added smallest first, so the sum does not depend on the row order.
    """
    for g in range(groups.shape[0]):
        for c in range(out.shape[0]):
            count = 0
            for i in range(starts[groups[g]], starts[groups[g] + 1]):
                if cell[i] == c:
                    scratch[count] = weight[i]
                    count += 1
            _sort(scratch, scratch[:0], count)
            total = 0.0
            for k in range(count):
                total += scratch[k]
            out[c, g] = total


#: The largest number of distinct values that have codes.
_MAX_CODES = 256
#: Slots of the table that finds them: a power of two.
_SLOTS = 1024


def encode_few(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Number the distinct values of an array, if they are few.

    Parameters
    ----------
    values : ndarray of float64, shape (rows,)
        No NaN.

    Returns
    -------
    distinct : ndarray of float64
        In the order of their first rows; `values` if they are more than 256.
    codes : ndarray of uint8, shape (rows,), or None
        The index of each value; None if they are more.
    """
    distinct, codes = np.empty(_MAX_CODES), np.empty(len(values), np.uint8)
    slots = np.full(_SLOTS, -1, np.int16)
    bits = frozen(values.view(np.int64))
    count = _encode(bits, slots, distinct.view(np.int64), codes)
    return (values, None) if count < 0 else (distinct[:count], codes)


@kernel
def _encode(bits, slots, distinct, codes):  # type: ignore[no-untyped-def]
    """Return the number of distinct values, -1 if there are too many."""
    count = 0
    for i in range(bits.shape[0]):
        folded = (bits[i] ^ (bits[i] >> 32)) & 0x7FFFFFFF
        slot = (folded * 0x2E3779B1) >> 26 & (_SLOTS - 1)
        while slots[slot] >= 0 and distinct[slots[slot]] != bits[i]:
            slot = (slot + 1) & (_SLOTS - 1)
        if slots[slot] < 0:
            if count == _MAX_CODES:
                return -1
            slots[slot] = count
            distinct[count] = bits[i]
            count += 1
        codes[i] = slots[slot]
    return count


@kernel
def sort_group_codes(offsets, codes, distinct, descending, counts, out):  # type: ignore[no-untyped-def]
    """Sort the values of each group, by counts unless they are few."""
    for g in range(offsets.shape[0] - 1):
        lo = offsets[g]
        hi = offsets[g + 1]
        if (hi - lo) * (hi - lo) <= 2 * descending.shape[0]:
            for e in range(lo, hi):
                value = distinct[codes[e]]
                k = e
                while k > lo and out[k - 1] < value:
                    out[k] = out[k - 1]
                    k -= 1
                out[k] = value
            continue
        for e in range(lo, hi):
            counts[codes[e]] += 1
        e = lo
        for code in descending:
            for _ in range(counts[code]):
                out[e] = distinct[code]
                e += 1
            counts[code] = 0


@kernel
def blocks_descend(offsets, above, grade, weight):  # type: ignore[no-untyped-def]
    """Return whether `sort_blocks` has nothing to do."""
    for g in range(offsets.shape[0] - 1):
        for e in range(offsets[g] + 1, offsets[g + 1]):
            if above[e] == above[e - 1] and _comes_later(grade, weight, e, e - 1):
                return False
    return True


@kernel
def sort_blocks(offsets, above, grade, weight):  # type: ignore[no-untyped-def]
    """Sort the labelled rows of each block by grade, then weight, descending."""
    for g in range(offsets.shape[0] - 1):
        lo = offsets[g]
        while lo < offsets[g + 1]:
            hi = lo + 1
            sorted_already = True
            while hi < offsets[g + 1] and above[hi] == above[lo]:
                if _comes_later(grade, weight, hi, hi - 1):
                    sorted_already = False
                hi += 1
            if not sorted_already:
                sort_descending(grade[lo:hi], weight[lo:hi])
            lo = hi


@kernel
def sort_descending(first, second):  # type: ignore[no-untyped-def]
    """Sort pairs, largest first; `second` may be empty."""
    _sort(first, second, first.shape[0])
    for k in range(first.shape[0] // 2):
        _swap(first, second, k, first.shape[0] - 1 - k)


@kernel
def _sort(first, second, n):  # type: ignore[no-untyped-def]
    """Sort the first `n` pairs by heap sort, smallest first.

    `second` may be empty.
    """
    for step in range(n // 2 + n - 1):
        if step < n // 2:
            root = n // 2 - 1 - step
            end = n
        else:
            end = n - 1 - (step - n // 2)
            _swap(first, second, 0, end)
            root = 0
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and _comes_later(first, second, child + 1, child):
                child += 1
            if not _comes_later(first, second, child, root):
                break
            _swap(first, second, root, child)
            root = child


@kernel
def _comes_later(first, second, a, b):  # type: ignore[no-untyped-def]
    """Return whether pair `a` is larger than pair `b`."""
    if first[a] != first[b]:
        return first[a] > first[b]
    return second.shape[0] > 0 and second[a] > second[b]


@kernel
def _swap(first, second, a, b):  # type: ignore[no-untyped-def]
    first[a], first[b] = first[b], first[a]
    if second.shape[0] > 0:
        second[a], second[b] = second[b], second[a]


#: Bits of a packed key for the group and the row together.
_GROUP_AND_ROW_BITS = 32


def first_rise(score: np.ndarray, starts: np.ndarray) -> int:
    """Find the first row whose score rises in its group: there is one.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,)
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.
    """
    rises = score[1:] > score[:-1]
    rises[starts[(starts > 0) & (starts < len(score))] - 1] = False
    return int(np.argmax(rises)) + 1


def order_by_score(score: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Sort rows by score, descending, inside their groups.

    Rows of equal score stay in row order.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,)
        No NaN; -0.0 equals 0.0. No score is rounded.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows.

    Returns
    -------
    ndarray of int32 or int64, shape (rows,)
        Row number at each position.
    """
    rows = len(score)
    order = np.empty(rows, np.int32 if rows < 1 << 31 else np.int64)
    row_bits = max(1, (rows - 1).bit_length())
    if row_bits > _GROUP_AND_ROW_BITS:
        # A packed key has no room for the row.
        for lo, hi in pairwise(starts.tolist()):
            order[lo:hi] = lo + np.argsort(-score[lo:hi], kind="stable")
    else:
        packed_keys = np.empty(rows, np.uint64)
        max_groups = 1 << (_GROUP_AND_ROW_BITS - row_bits)
        is_double = score.dtype == np.float64
        bits = frozen(score.view(np.uint64 if is_double else np.uint32))
        top = 8 * bits.itemsize - 1
        sign, rest = bits.dtype.type(1 << top), bits.dtype.type((1 << top) - 1)
        for first in range(0, len(starts) - 1, max_groups):
            part_starts = starts[first : first + max_groups + 1]
            lo, hi = int(part_starts[0]), int(part_starts[-1])
            _pack(bits, sign, rest, top - 31, part_starts, row_bits, packed_keys)
            packed_keys[lo:hi].sort()
            if is_double:
                codes = scratch("codes of a run", rows, np.uint64)
                _sort_equal_prefixes(bits, sign, rest, packed_keys, lo, hi, row_bits, codes)
        _unpack(packed_keys, row_bits, order)
    return order


@kernel
def descending_code(bits, sign, rest):  # type: ignore[no-untyped-def]
    """Encode the bits of a score as an integer of the opposite order.

    `sign` has the bit of the sign, `rest` all other bits, in the type of `bits`.
    """
    if bits & sign:
        return rest if bits == sign else bits
    return bits ^ rest


@kernel
def _pack(bits, sign, rest, down, starts, row_bits, packed_keys):  # type: ignore[no-untyped-def]
    """Pack group, upper 32 bits of the code of the score, and row."""
    shift = np.uint64(row_bits)
    for g in range(starts.shape[0] - 1):
        group = np.uint64(g) << (shift + np.uint64(32))
        for i in range(starts[g], starts[g + 1]):
            code = np.uint64(descending_code(bits[i], sign, rest)) >> np.uint64(down)
            packed_keys[i] = group | (code << shift) | np.uint64(i)


@kernel
def _unpack(packed_keys, row_bits, order):  # type: ignore[no-untyped-def]
    mask = (np.uint64(1) << np.uint64(row_bits)) - np.uint64(1)
    for i in range(packed_keys.shape[0]):
        order[i] = packed_keys[i] & mask


@kernel
def _sort_equal_prefixes(  # type: ignore[no-untyped-def]
    bits, sign, rest, packed_keys, lo, hi, row_bits, codes
):
    """Sort runs of equal prefixes by full score, then by row.

    A run is of one group and one upper half of the score. It can be as long as a group.
    """
    shift = np.uint64(row_bits)
    mask = (np.uint64(1) << shift) - np.uint64(1)
    i = lo
    while i < hi:
        block = packed_keys[i] >> shift
        j = i + 1
        sorted_already = True
        while j < hi and packed_keys[j] >> shift == block:
            if j == i + 1:
                codes[0] = descending_code(bits[packed_keys[i] & mask], sign, rest)
            codes[j - i] = descending_code(bits[packed_keys[j] & mask], sign, rest)
            if codes[j - i] < codes[j - i - 1]:
                sorted_already = False
            j += 1
        if not sorted_already:
            _sort(codes, packed_keys[i:j], j - i)
        i = j


_BATCH = 1 << 17
#: DuckDB sorts any number of rows with so many bytes.
_MIN_MEMORY = 128 << 20
#: By default DuckDB downloads extensions that a query may use.
_OFFLINE = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
_ITEM = "item"
_HASH = "hash"


class WideKeys(Exception):
    """Integer keys need more than 32 bits."""


class Sorter:
    """Sorter of partitioned batches by group, out of core.

    Parameters
    ----------
    partitioner : Partitioner
        The partitioner that made the batches.
    folder : path
        Folder for rows that do not fit memory.
    memory : int
        Bytes of memory that the sorter may use.
    disk : int
        Bytes that it may write to the folder.
    threads : int
    in_order : bool
        Keep the rows of a group in input order. The rows must have row numbers.
    narrow : bool
        Expect integer keys within 2**31 of the first one: sorting 32 bits takes two thirds of the
        time of 64.

    Raises
    ------
    SpillError
        If DuckDB is not installed.
    """

    def __init__(
        self,
        partitioner: Partitioner,
        folder: Path,
        *,
        memory: int,
        disk: int,
        threads: int,
        in_order: bool,
        narrow: bool,
    ) -> None:
        try:
            import duckdb
        except ImportError:
            raise SpillError(
                "the rows do not fit the memory allowed, and sorting them on disk needs DuckDB: "
                "pip install 'fastrank_eval[outofcore]', allow more memory (--memory), or sort the "
                "input by group."
            ) from None
        self._duckdb: Any = duckdb
        self._partitioner = partitioner
        self._settings = {
            "memory_limit": f"{max(memory, _MIN_MEMORY)}B",
            "threads": threads,
            "preserve_insertion_order": False,
            "temp_directory": str(folder),
            # connect() ignores this setting.
            "max_temp_directory_size": f"{disk}B",
            "enable_progress_bar": False,
        }
        self._where = str(folder.parent)
        self._disk, self._in_order = disk, in_order
        self._narrow = narrow and partitioner.integer
        self._base = 0
        self._input_error: BaseException | None = None

    @contextmanager
    def rows(self, input_batches: Iterable[PartitionedBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
        """Sort rows and yield sorted batches, which `rows_of` converts.

        Parameters
        ----------
        input_batches : iterable of PartitionedBatch
            At least one. Each is freed once it is read.
        """
        connection = self._duckdb.connect(config=_OFFLINE)
        try:
            with self._explain_errors():
                for name, value in self._settings.items():
                    connection.execute(f"SET {name} = ?", [value])
                reader = self._reader(input_batches)
                connection.register("unsorted_rows", reader)
                # DuckDB 1.4 has no to_arrow_reader.
                relation = connection.sql(self._query(reader.schema.names))
                fetch = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
                batches = fetch(_BATCH)
            yield self._read_batches(batches)
        finally:
            connection.close()

    def rows_of(self, batch: pa.RecordBatch, first_row: int) -> Columns:
        """Convert a sorted batch to rows with keys."""
        keys = []
        for c, column in enumerate(self._partitioner.columns):
            if self._narrow:
                words = as_array(batch.column("key 0.0")).astype(np.int64)
                keys.append(column.keys([words + np.int64(self._base)]))
            elif column.text:
                keys.append(batch.column(f"key {c}").cast(column.kind))
            else:
                names = [name for name in batch.schema.names if name.split(".")[0] == f"key {c}"]
                keys.append(column.keys([as_array(batch.column(name)) for name in names]))
        parts: list[np.ndarray | None] = []
        for p, kind in enumerate(self._kinds):
            if kind is None:
                parts.append(None)
            else:
                parts.append(frozen(as_array(batch.column(f"part {p}")).view(kind)))
        item = None
        if self._item is not None and self._item.text:
            item = batch.column(_ITEM).cast(self._item.kind)
        elif self._item is not None:
            names = [name for name in batch.schema.names if name.split(".")[0] == _ITEM]
            item = self._item.keys([as_array(batch.column(name)) for name in names])
        *arrays, numbers = parts
        return Columns(first_row, batch.num_rows, tuple(keys), tuple(arrays), item, numbers)

    def _reader(self, input_batches: Iterable[PartitionedBatch]) -> pa.RecordBatchReader:
        rest = iter(input_batches)
        first = next(rest)
        if self._narrow:
            self._base = _key_range(first)[0] - (1 << 31)
            self._narrow = self._base > -(1 << 63)
            self._base = self._base if self._narrow else 0
        self._kinds = [None if part is None else part.dtype for part in first.parts]
        for mask in self._partitioner.plan_columns.masks():  # later batches may have some
            self._kinds[mask] = np.dtype(np.bool_)
        self._item = None if first.item is None else KeyEncoder(_ITEM, first.item.type)
        first_batch = [self._batch(first)]
        del first

        def batches() -> Iterator[pa.RecordBatch]:
            yield first_batch.pop()
            try:
                for batch in rest:
                    yield self._batch(batch)
            except BaseException as error:
                self._input_error = error
                raise

        return pa.RecordBatchReader.from_batches(first_batch[0].schema, batches())

    def _batch(self, batch: PartitionedBatch) -> pa.RecordBatch:
        """Convert a batch to the columns that DuckDB sorts."""
        arrays: dict[str, np.ndarray | pa.Array] = {}
        if self._narrow:
            least, greatest = _key_range(batch)
            if not self._base <= least <= greatest < self._base + (1 << 32):
                raise WideKeys
        shift = np.int64(batch.base - self._base)
        words = [[word + shift for word in column] for column in batch.words]
        if self._narrow:
            words = [[word.astype(np.uint32) for word in column] for column in words]
        if not self._partitioner.integer:
            arrays[_HASH] = hash_keys(
                words[: self._partitioner.outer], np.empty(batch.rows, np.uint64)
            )
        for c, (column, column_words) in enumerate(
            zip(self._partitioner.columns, words, strict=True)
        ):
            if column.text:
                arrays[f"key {c}"] = column.keys(column_words)
            else:
                for w, word in enumerate(column_words):
                    arrays[f"key {c}.{w}"] = word
        for p, (part, kind) in enumerate(zip(batch.parts, self._kinds, strict=True)):
            if kind is not None:
                values = np.zeros(batch.rows, kind) if part is None else part
                arrays[f"part {p}"] = values.view(np.uint8) if kind == np.bool_ else values
        if self._item is not None and self._item.text:
            arrays[_ITEM] = batch.item
        elif self._item is not None:
            for w, word in enumerate(self._item.words(batch.item)):
                arrays[f"{_ITEM}.{w}"] = word.copy()
        columns = [
            arrow_column(values) if isinstance(values, np.ndarray) else values
            for values in arrays.values()
        ]
        return pa.RecordBatch.from_arrays(columns, list(arrays))

    def _query(self, names: list[str]) -> str:
        """Write the query; all names in it are constants of this file."""
        hash_column = [name for name in names if name == _HASH]
        order = [*hash_column, *(name for name in names if name.startswith("key"))]
        if self._in_order:
            order.append(f"part {len(self._kinds) - 1}")
        output_columns = ", ".join(f'"{name}"' for name in names if name != _HASH)
        by = ", ".join(f'"{name}"' for name in order)
        return f"SELECT {output_columns} FROM unsorted_rows ORDER BY {by}"  # noqa: S608

    def _read_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while True:
            with self._explain_errors():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Convert errors of DuckDB to the error of the input, or to a SpillError."""
        try:
            yield
        except (FastRankEvalError, WideKeys):
            raise
        except (self._duckdb.Error, pa.ArrowException, OSError) as error:
            if self._input_error is not None:
                raise self._input_error from None
            text = str(error)
            if "max_temp_directory_size" in text or "No space left" in text:
                raise SpillError(
                    f"the disk of {self._where!r} is full: {format_bytes(self._disk)} were free "
                    "for spilled rows; free some, let TMPDIR name a folder on another disk, or "
                    "allow more memory (--memory)."
                ) from error
            line = next(iter(text.strip().splitlines()), type(error).__name__)
            remedy = "Sort the input by group, or allow enough memory for all rows (--memory)."
            raise SpillError(
                f"DuckDB cannot sort the rows: {line.rstrip('.')}. {remedy}"
            ) from error


def _key_range(batch: PartitionedBatch) -> tuple[int, int]:
    """Return the least and the greatest of integer keys."""
    ((words,),) = batch.words
    return int(words.min()) + batch.base, int(words.max()) + batch.base


#: So many labelled rows are compared with all rows of their group or bucket.
_FEW = 32
#: Limits of the number of buckets. Between them a bucket has some four rows.
_MIN_BUCKETS, _MAX_BUCKETS = 16, 1 << 14


def count_rows_above(
    score: np.ndarray,
    starts: np.ndarray,
    ranked_groups: np.ndarray,
    offsets: np.ndarray,
    row: np.ndarray,
    above: np.ndarray,
    size: np.ndarray,
) -> None:
    """Sort the labelled rows of each group; count the rows above each.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,), read-only
        Rows in any order inside their group. No NaN; -0.0 equals 0.0.
    starts : ndarray of int64, shape (groups + 1,)
        First row of each group, then the number of rows: less than 2**31.
    ranked_groups, offsets : ndarray of int64
        As in `RankedRows`.
    row : ndarray of int64, shape (labelled rows,)
        Labelled rows of each group, ascending; afterwards best first, then ascending.
    above, size : ndarray of int64, shape (labelled rows,)
        Output: number of rows of the group with a higher score, and with the same score.
    """
    labelled_rows = offsets[1:] - offsets[:-1]
    many = labelled_rows > _FEW
    groups = ranked_groups[many]
    rows = int((starts[groups + 1] - starts[groups]).max(initial=0))
    most = int(labelled_rows.max(initial=0))
    bits = frozen(score.view(f"u{score.itemsize}"))
    top = 8 * bits.itemsize - 1
    # The last place of a buffer takes the rows that no labelled row is compared with.
    buffers = scratch("scores of buckets", 2 * (rows + 1), score.dtype).reshape(2, rows + 1)
    _count_rows_above(
        score,
        bits,
        bits.dtype.type(1 << top),
        bits.dtype.type((1 << top) - 1),
        starts,
        ranked_groups,
        offsets,
        buffers,
        buffers.view(bits.dtype),
        scratch("buckets of rows", rows, np.uint16),
        scratch("buckets", 4 * (_MAX_BUCKETS + 1), np.uint32).reshape(4, -1),
        scratch("labelled rows", most),
        scratch("crowded buckets", 6 * (most // _FEW + 1)).reshape(-1, 6),
        row,
        above,
        size,
    )


@kernel
def _count_rows_above(  # type: ignore[no-untyped-def]
    score,
    bits,
    sign,
    rest,
    starts,
    ranked_groups,
    offsets,
    buffers,
    buffer_bits,
    bucket,
    buckets,
    labelled,
    crowded,
    row,
    above,
    size,
):
    for r in range(ranked_groups.shape[0]):
        first = offsets[r]
        end = offsets[r + 1]
        # The loops vectorise only over a slice.
        scores = score[starts[ranked_groups[r]] : starts[ranked_groups[r] + 1]]
        if end - first <= _FEW:
            _compare(scores, 0, score, first, end, row, above, size)
            continue
        for i in range(scores.shape[0]):
            buffers[0, i] = scores[i]
        crowded[0, 0] = first
        crowded[0, 1] = end
        crowded[0, 2] = 0
        crowded[0, 3] = scores.shape[0]
        crowded[0, 4] = 0
        crowded[0, 5] = 0
        waiting = 1
        while waiting > 0:
            waiting -= 1
            first = crowded[waiting, 0]
            end = crowded[waiting, 1]
            lo = crowded[waiting, 2]
            hi = crowded[waiting, 3]
            before = crowded[waiting, 4]
            side = crowded[waiting, 5]
            least, greatest = _code_range(bits, sign, rest, row[first:end])
            if least == greatest:
                _compare(buffers[side, lo:hi], before, score, first, end, row, above, size)
                continue
            shift, count = _bucket_width(least, greatest, hi - lo)
            _find_buckets(
                buffer_bits[side, lo:hi], sign, rest, least, shift, count, bucket[: hi - lo]
            )
            _sort_by_bucket(
                bits, sign, rest, least, shift, count, row[first:end], labelled, buckets
            )
            _fill_buckets(
                buffer_bits[side, lo:hi],
                bucket[: hi - lo],
                buckets,
                count,
                lo,
                buffer_bits[1 - side],
            )
            # Few buckets have labelled rows, and few of those have many.
            for k in range(count):
                labelled_rows = np.int64(buckets[_LABELLED, k])
                if labelled_rows:
                    hi = np.int64(buckets[_END, k])
                    lo = hi - np.int64(buckets[_ROWS, k])
                    if labelled_rows <= _FEW:
                        _compare(
                            buffers[1 - side, lo:hi],
                            before,
                            score,
                            first,
                            first + labelled_rows,
                            row,
                            above,
                            size,
                        )
                    else:
                        crowded[waiting, 0] = first
                        crowded[waiting, 1] = first + labelled_rows
                        crowded[waiting, 2] = lo
                        crowded[waiting, 3] = hi
                        crowded[waiting, 4] = before
                        crowded[waiting, 5] = 1 - side
                        waiting += 1
                    first += labelled_rows
                before += np.int64(buckets[_ROWS, k])


@kernel
def _compare(scores, before, score, first, end, row, above, size):  # type: ignore[no-untyped-def]
    """Sort labelled rows, and compare each with all of some scores.

    `before` rows more are above all of them.
    """
    for e in range(first + 1, end):
        current = row[e]
        k = e
        while k > first and score[row[k - 1]] < score[current]:
            row[k] = row[k - 1]
            k -= 1
        row[k] = current
    for e in range(first, end):
        value = score[row[e]]
        if e > first and score[row[e - 1]] == value:
            above[e] = above[e - 1]
            size[e] = size[e - 1]
            continue
        higher = np.uint32(0)
        equal = np.uint32(0)
        for i in range(scores.shape[0]):
            higher = np.uint32(higher + np.uint32(scores[i] > value))
            equal = np.uint32(equal + np.uint32(scores[i] == value))
        above[e] = before + np.int64(higher)
        size[e] = np.int64(equal)


@kernel
def _code_range(bits, sign, rest, rows):  # type: ignore[no-untyped-def]
    least = greatest = descending_code(bits[rows[0]], sign, rest)
    for e in range(1, rows.shape[0]):
        code = descending_code(bits[rows[e]], sign, rest)
        least = min(least, code)
        greatest = max(greatest, code)
    return least, greatest


@kernel
def _bucket_width(least, greatest, rows):  # type: ignore[no-untyped-def]
    """Return the bits of codes of one bucket, and the number of buckets.

    The first bucket takes all codes below `least`.
    """
    buckets = _MIN_BUCKETS
    while buckets < rows // 4 and buckets < _MAX_BUCKETS:
        buckets *= 2
    span = np.uint64(greatest - least)
    shift = np.uint64(0)
    while span >> shift >= np.uint64(buckets):
        shift += np.uint64(1)
    return shift, np.int64(span >> shift) + 2


@kernel
def _bucket_of(code, least, shift, buckets):  # type: ignore[no-untyped-def]
    if code < least:
        return np.uint64(0)
    return min((np.uint64(code) - np.uint64(least) >> shift) + np.uint64(1), np.uint64(buckets - 1))


@kernel
def _find_buckets(bits, sign, rest, least, shift, buckets, bucket):  # type: ignore[no-untyped-def]
    for i in range(bits.shape[0]):
        bucket[i] = _bucket_of(descending_code(bits[i], sign, rest), least, shift, buckets)


#: Lines of the table of buckets: rows, labelled rows; then where the bucket ends in the buffer,
#: and 1 if it has labelled rows.
_ROWS, _LABELLED, _END, _STEP = 0, 1, 2, 3


@kernel
def _sort_by_bucket(bits, sign, rest, least, shift, count, row, labelled, buckets):  # type: ignore[no-untyped-def]
    """Sort labelled rows by bucket, stably, and count them."""
    ends = buckets[_END]
    labelled_rows = buckets[_LABELLED]
    for k in range(count):
        ends[k] = 0
        labelled_rows[k] = 0
    for e in range(row.shape[0]):
        labelled[e] = row[e]
        labelled_rows[
            _bucket_of(descending_code(bits[row[e]], sign, rest), least, shift, count)
        ] += 1
    end = np.uint32(0)
    for k in range(count):
        ends[k] = end
        end += labelled_rows[k]
    for e in range(row.shape[0]):
        code = descending_code(bits[labelled[e]], sign, rest)
        k = _bucket_of(code, least, shift, count)
        row[ends[k]] = labelled[e]
        ends[k] += 1


@kernel
def _fill_buckets(bits, bucket, buckets, count, lo, out):  # type: ignore[no-untyped-def]
    """Copy the rows of buckets with labelled rows, bucket by bucket."""
    rows = buckets[_ROWS]
    labelled_rows = buckets[_LABELLED]
    ends = buckets[_END]
    steps = buckets[_STEP]
    for k in range(count):
        rows[k] = 0
    for i in range(bucket.shape[0]):
        rows[bucket[i]] += 1
    end = np.uint32(lo)
    for k in range(count):
        has_labelled = labelled_rows[k] > 0
        ends[k] = end if has_labelled else out.shape[0] - 1
        steps[k] = has_labelled
        end += rows[k] if has_labelled else 0
    for i in range(bucket.shape[0]):
        k = bucket[i]
        out[ends[k]] = bits[i]
        ends[k] += steps[k]
