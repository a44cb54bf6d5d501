"""Scattered rows that do not fit memory, put in order of their group by DuckDB on disk.

What DuckDB sees is plain: words of keys, validated numbers, never a type of the user's. One integer
key is sorted by itself; other keys are sorted by a hash and, where hashes agree, by themselves, so
that the rows of a group always stand together. Scores are ordered later, inside the groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, frozen
from fastrank_eval._lib.errors import FastRankEvalError, SpillError
from fastrank_eval._lib.memory import amount
from fastrank_eval.groups.partition import PartitionedBatch, Partitioner, hashed
from fastrank_eval.io.columns import Columns
from fastrank_eval.io.keys import KeyEncoder

__all__ = ["Sorter", "WideKeys"]

_BATCH = 1 << 17
#: DuckDB sorts any number of rows with so many bytes.
_LEAST = 128 << 20
_ITEM = "item"
_HASH = "hash"


class WideKeys(Exception):
    """Integer keys turned out to span too much for 32 bits."""


class Sorter:
    """Puts dealt rows in order of their group, out of core.

    Parameters
    ----------
    dealer : Dealer
        What dealt them.
    folder : path
        For rows that do not fit memory.
    memory : int
        Bytes that the sorter may hold.
    disk : int
        Bytes that it may write to the folder.
    threads : int
    in_order : bool
        Keep the rows of a group in input order; they must have their numbers.
    masked : bool
        Rows may lack scores.
    judged : bool
        Rows may lack labels, and a measure asks which do.
    narrow : bool
        Expect integer keys that span less than 2**31 on either side of the first one: 32 bits are
        sorted in two thirds of the time of 64.

    Raises
    ------
    SpillError
        If DuckDB is not installed.
    """

    def __init__(
        self,
        dealer: Partitioner,
        folder: Path,
        *,
        memory: int,
        disk: int,
        threads: int,
        in_order: bool,
        masked: bool,
        judged: bool,
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
        self._partitioner = dealer
        self._settings = {
            "memory_limit": f"{max(memory, _LEAST)}B",
            "threads": threads,
            "preserve_insertion_order": False,
            "temp_directory": str(folder),
            # Set here: given to connect() it is ignored.
            "max_temp_directory_size": f"{disk}B",
            "enable_progress_bar": False,
        }
        self._where = str(folder.parent)
        self._disk, self._in_order = disk, in_order
        self._masked, self._judged = masked, judged
        self._narrow = narrow and dealer.integer
        self._base = 0
        self._fault: BaseException | None = None

    @contextmanager
    def rows(self, partitions: Iterable[PartitionedBatch]) -> Iterator[Iterator[pa.RecordBatch]]:
        """Sort rows; `columns` reads the batches.

        Parameters
        ----------
        partitions : iterable of PartitionedBatch
            At least one. Each is let go of as soon as it is taken.
        """
        connection = self._duckdb.connect()
        try:
            with self._explained():
                for name, value in self._settings.items():
                    connection.execute(f"SET {name} = ?", [value])
                reader = self._reader(partitions)
                connection.register("dealt", reader)
                # DuckDB 1.4 has no to_arrow_reader.
                relation = connection.sql(self._query(reader.schema.names))
                fetch = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
                batches = fetch(_BATCH)
            yield self._explaining(batches)
        finally:
            connection.close()

    def columns(self, batch: pa.RecordBatch, first_row: int) -> Columns:
        """The rows of a sorted batch, with their keys."""
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
        columns = Columns.of_parts(parts, self._partitioner.models, item)
        return replace(columns, first_row=first_row, keys=tuple(keys))

    def _reader(self, partitions: Iterable[PartitionedBatch]) -> pa.RecordBatchReader:
        rest = iter(partitions)
        first = next(rest).opened()
        if self._narrow:
            self._base = first.least - (1 << 31)
            self._narrow = self._base > -(1 << 63)
            self._base = self._base if self._narrow else 0
        self._kinds = [None if part is None else part.dtype for part in first.parts]
        if self._masked:
            models = self._partitioner.models
            self._kinds[1 + models : 1 + 2 * models] = [np.dtype(np.bool_)] * models
        if self._judged:
            self._kinds[-2] = np.dtype(np.bool_)
        self._item = None if first.item is None else KeyEncoder(_ITEM, first.item.type)
        held = [self._batch(first)]
        del first

        def batches() -> Iterator[pa.RecordBatch]:
            yield held.pop()
            try:
                for batch in rest:
                    yield self._batch(batch.opened())
            except BaseException as fault:
                self._fault = fault
                raise

        return pa.RecordBatchReader.from_batches(held[0].schema, batches())

    def _batch(self, batch: PartitionedBatch) -> pa.RecordBatch:
        """A stretch as DuckDB takes it."""
        arrays: dict[str, np.ndarray | pa.Array] = {}
        if self._narrow and not self._base <= batch.least <= batch.most < self._base + (1 << 32):
            raise WideKeys
        more = np.int64(batch.base - self._base)
        words = [[word + more for word in column] for column in batch.words]
        if self._narrow:
            words = [[word.astype(np.uint32) for word in column] for column in words]
        if not self._partitioner.integer:
            arrays[_HASH] = hashed(words, np.empty(batch.rows, np.uint64))
        for c, (column, of_column) in enumerate(zip(self._partitioner.columns, words, strict=True)):
            if column.text:
                arrays[f"key {c}"] = column.keys(of_column)
            else:
                for w, word in enumerate(of_column):
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
        """What sorts the rows; the names are our own."""
        first = [name for name in names if name == _HASH]
        order = [*first, *(name for name in names if name.startswith("key"))]
        if self._in_order:
            order.append(f"part {len(self._kinds) - 1}")
        kept = ", ".join(f'"{name}"' for name in names if name != _HASH)
        by = ", ".join(f'"{name}"' for name in order)
        return f"SELECT {kept} FROM dealt ORDER BY {by}"  # noqa: S608

    def _explaining(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while True:
            with self._explained():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what DuckDB raises into the fault behind it, or into a SpillError."""
        try:
            yield
        except (FastRankEvalError, WideKeys):
            raise
        except (self._duckdb.Error, pa.ArrowException, OSError) as error:
            if self._fault is not None:
                raise self._fault from None
            text = str(error)
            if "max_temp_directory_size" in text or "No space left" in text:
                raise SpillError(
                    f"the disk of {self._where!r} is full: {amount(self._disk)} were free for "
                    "spilled rows; free some, name a folder on another disk (--spill-dir), or "
                    "allow more memory (--memory)."
                ) from error
            line = next(iter(text.strip().splitlines()), type(error).__name__)
            remedy = "Sort the input by group, or allow enough memory for all rows (--memory)."
            raise SpillError(
                f"DuckDB cannot sort the rows: {line.rstrip('.')}. {remedy}"
            ) from error
