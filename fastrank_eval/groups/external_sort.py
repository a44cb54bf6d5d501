"""Sort scattered rows that do not fit memory on disk, with DuckDB.

DuckDB gets only words of keys and validated numbers, never a type of the user. A single integer key
is sorted by value. Other keys are sorted by hash, then by value, so that the rows of a group are
always adjacent. Scores are sorted later, inside the groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, frozen
from fastrank_eval._lib.errors import FastRankEvalError, SpillError
from fastrank_eval._lib.memory import format_bytes
from fastrank_eval.groups.partition import PartitionedBatch, Partitioner
from fastrank_eval.io.columns import Rows
from fastrank_eval.io.keys import KeyEncoder, hash_keys

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

    def rows_of(self, batch: pa.RecordBatch, first_row: int) -> Rows:
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
        plan_columns = self._partitioner.plan_columns
        return Rows(plan_columns, first_row, tuple(keys), tuple(arrays), item, numbers)

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
            arrays[_HASH] = hash_keys(words, np.empty(batch.rows, np.uint64))
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
