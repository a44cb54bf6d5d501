"""Read the batches of a source, and locate errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import is_text, shown, typed
from fastrank_eval._lib.arrow import NUMBERS, is_textual, mask_column, missing_rows, numpy_type
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError, FastRankEvalError, SourceError, near
from fastrank_eval._lib.lexer import shorten

#: What Arrow says of a value that does not fit the type of its column.
CONVERSION = re.compile(
    r"In CSV column #(\d+):(?: Row #(\d+):)? CSV conversion error to \w+: invalid value '(.*)'$"
)
_NUMBER = re.compile(r"\s*[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf(inity)?)\s*", re.IGNORECASE)
#: Whole numbers that may be no doubles: those below 10^15 are.
_LONG = re.compile(r"[-+]?[0-9]{16,}")
_MISSING = ("na", "n/a", "none", "nil", "missing", "-", "?", "#n/a")


def first_word(texts: pa.Array) -> int:
    """Find the first text that is neither null nor a number; -1 if none."""
    for row, text in enumerate(texts.to_pylist()):
        if text is not None and not _NUMBER.fullmatch(text):
            return row
    return -1


def number_remedy(word: str) -> str:
    """Say how to write what a word means as a number."""
    if word.strip().lower() in _MISSING:
        return "leave the field empty, or write null, where a number is missing"
    if word.strip().endswith("%"):
        return "write shares without a percent sign, 0.5 for 50%"
    if "," in word:
        return "write a point before decimals, and nothing between thousands"
    return "write a number, or leave the field empty"


def refuse_rounded(batches: Iterable[pa.RecordBatch], file: str) -> None:
    """Raise for whole numbers that doubles would round.

    Different ones could be equal doubles, and tie as scores.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        The text of columns.
    file : str

    Raises
    ------
    SourceError
        With the first whole number that is no double.
    """
    first_row = 0
    for batch in batches:
        for name, texts in zip(batch.schema.names, batch.columns, strict=True):
            for row, text in enumerate(texts.to_pylist(), first_row):
                number = (text or "").strip()
                # A Decimal is exact, and may have any number of digits.
                if _LONG.fullmatch(number) and Decimal(number) != Decimal(float(number)):
                    raise SourceError(
                        f"{file!r}: column {name!r} must hold whole numbers from -2^63 to 2^63 - 1 "
                        "or from 0 to 2^64 - 1 and no fractions, or numbers that are doubles, got "
                        f"{shorten(number)} in row {row:,} (counted from 0): as a double it is "
                        "rounded, and different numbers tie; write smaller numbers, such as ranks, "
                        "or add a point (1.0) if rounding does no harm."
                    )
        first_row += batch.num_rows


def type_name(value: object) -> str:
    """Return the type name of a value: ``pandas.DataFrame``, ``int``."""
    kind = type(value)
    root = kind.__module__.partition(".")[0]
    root = root if root == "__main__" else root.lstrip("_")
    return kind.__qualname__ if root == "builtins" else f"{root}.{kind.__qualname__}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error message, else the error type."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    line = next(iter(text.strip().splitlines()), "").rstrip(".")
    return line or type(error).__name__


@contextmanager
def foreign(name: str) -> Iterator[None]:
    """Turn any error of another library's export into a `SourceError`."""
    try:
        yield
    except (FastRankEvalError, pa.ArrowCancelled):
        raise
    except Exception as error:
        raise SourceError(
            f"Cannot read {name} as a table of Arrow columns: {first_line(error)}. "
            "Pass a table whose columns Arrow can hold, or only the columns needed."
        ) from error


@contextmanager
def reading(
    name: str, remedy: str, describe_state: Callable[[], str] = lambda: ""
) -> Iterator[None]:
    """Turn errors of Arrow and of the system into a `SourceError`.

    Parameters
    ----------
    name : str
        The name of the source.
    remedy : str
        The end of the message.
    describe_state : callable, optional
        Called after a failure; returns the state of the source, such as ``"it is empty: "``.
    """
    try:
        yield
    except (FastRankEvalError, pa.ArrowCancelled):
        raise
    except pa.ArrowMemoryError as error:
        raise SourceError(
            f"Cannot read {name}: {describe_state()}it asks for more memory than there is "
            f"({first_line(error)}). Name fewer columns; if it is damaged: {remedy}"
        ) from error
    except FileNotFoundError as error:
        raise SourceError(f"Cannot read {name}: no such file (any more).") from error
    except PermissionError as error:
        raise SourceError(
            f"Cannot read {name}: permission denied. Allow this user to read it."
        ) from error
    except (pa.ArrowException, OSError, EOFError, KeyError, UnicodeError) as error:
        raise SourceError(
            f"Cannot read {name}: {describe_state()}{first_line(error)}. {remedy}"
        ) from error


#: The readers of other libraries that the call in this context has opened.
opened_readers: ContextVar[list[pa.RecordBatchReader] | None] = ContextVar("opened", default=None)


@contextmanager
def closing_readers() -> Iterator[None]:
    """Close the readers of other libraries on every path out.

    A traceback keeps them alive, and DuckDB runs no other query until its reader is closed.
    """
    opened: list[pa.RecordBatchReader] = []
    before = opened_readers.set(opened)
    try:
        yield
    finally:
        opened_readers.reset(before)
        for reader in opened:
            reader.close()


def open_foreign(source: Any) -> pa.RecordBatchReader:
    """Open a stream that `closing_readers` closes."""
    reader = pa.RecordBatchReader.from_stream(source)
    opened = opened_readers.get()
    if opened is not None:
        opened.append(reader)
    return reader


def decode_names(schema: pa.Schema) -> pa.Schema:
    """Decode the column names now.

    So the error of an invalid name can still name the file.
    """
    _ = schema.names
    return schema


def select(reader: pa.RecordBatchReader, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read only these columns, in this order."""
    indices = [reader.schema.get_field_index(name) for name in columns]
    for batch in reader:
        yield batch.select(indices)


@dataclass(repr=False)
class Source:
    """An ordered stream of record batches.

    Attributes
    ----------
    name : str
        Name in messages: a path, or the type of the object.
    schema : pyarrow.Schema
        All columns.
    rows : int or None
        Number of rows, if known without reading.
    rereadable : bool
        Whether `batches` may be called more than once.
    locate : callable
        Returns the location of a row that was read, "row 3 of 'b.csv'"; "" if the name is enough.
    input_row : callable
        Returns the number of a row that was read among all rows, those left out included.
    edges : mapping of str to pyarrow.Array or None
        Edges of quantiles by the text of their slicing (``"age:quantile5"``), if computed before
        reading: some of the rows would have other edges.
    as_text : callable or None
        Opens a source without types (CSV) again, with more columns that are text. None if all
        columns have a type.
    untyped : frozenset of str
        Columns of files without types (CSV).
    rows_left_out : int or None
        Number of rows that the last reading left out; None if `without_nulls` was not called.
    """

    name: str
    schema: pa.Schema
    _read: Callable[[Sequence[str]], Iterator[Batch]]
    rows: int | None = None
    rereadable: bool = True
    locate: Callable[[int], str] = lambda row: ""
    input_row: Callable[[int], int] = lambda row: row
    edges: Mapping[str, pa.Array] | None = None
    as_text: Callable[[frozenset[str]], Source] | None = None
    untyped: frozenset[str] = frozenset()
    rows_left_out: int | None = None
    _is_consumed: bool = False
    __eq__, __hash__ = object.__eq__, object.__hash__

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows} rows"
        return f"<Source {self.name}: {len(self.schema)} columns{rows}>"

    @typed
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows in their order, as batches of these columns.

        Parameters
        ----------
        columns : sequence of str
            Distinct names; the batches have them in this order.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            Batches without rows are skipped. The batches of in-memory data are its own chunks,
            without a copy.

        Raises
        ------
        ColumnError, SourceError
            As `unread_batches`.
        """
        return (batch for batch in read_batches(self.unread_batches(columns)) if batch.num_rows)

    def without_nulls(self, names: Sequence[str], limit: int | None = None) -> Source:
        """Return a source without the rows that lack one of some columns.

        Its `rows_left_out` counts them while it is read, if at most `limit` other rows are needed
        those before the last one. NaN is null. Its `input_row` reads the columns again; `locate`
        says what a number counts if that is impossible.
        """
        require_columns(self.schema, names, source=self.name)

        def missing_in(batch: pa.RecordBatch) -> np.ndarray:
            return np.logical_or.reduce([missing_rows(batch.column(name)) for name in names])

        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            result.rows_left_out, remaining = 0, math.inf if limit is None else limit
            for batch in self.batches(list(dict.fromkeys((*columns, *names)))):
                missing = missing_in(batch)
                present = np.flatnonzero(~missing)
                if len(present) >= remaining:
                    missing = missing[: present[int(remaining) - 1] + 1]
                remaining -= len(present)
                result.rows_left_out += int(np.count_nonzero(missing))
                rows = batch.select(list(columns)).slice(0, len(missing))
                yield filter_batch(rows, mask_column(~missing))
                if remaining <= 0:
                    return

        def input_row(row: int) -> int:
            first, remaining = 0, row
            with suppress(FastRankEvalError):
                for batch in self.batches(names) if self.rereadable else ():
                    rows = np.flatnonzero(~missing_in(batch))
                    if remaining < len(rows):
                        return first + int(rows[remaining])
                    first, remaining = first + batch.num_rows, remaining - len(rows)
            return row

        def locate(row: int) -> str:
            return self.locate(row) if self.rereadable else f"row {row:,} of those with a group key"

        result = self.derived(read, rows=None, as_text=None, locate=locate, input_row=input_row)
        return result

    def derived(self, read: Callable[[Sequence[str]], Iterator[Batch]], **changes: Any) -> Source:
        """Return a source of other rows or columns, with other attributes."""
        result = copy(self)
        fresh = {"rows_left_out": None, "_is_consumed": False}
        vars(result).update(fresh | changes, _read=read)
        return result

    def unread_batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Return the rows in their order; some batches are not read yet.

        Parameters
        ----------
        columns : sequence of str
            Distinct names; the batches have them in this order.

        Returns
        -------
        iterator of pyarrow.RecordBatch or UnreadBatch
            Batches without rows are skipped.

        Raises
        ------
        ColumnError
            At the call, if a column is missing or its name occurs twice.
        SourceError
            At the call, if the source was read before and cannot be read again, or if its files
            have different types of a column. While reading, if a file cannot be read; the message
            names it.
        """
        require_columns(self.schema, columns, source=self.name)
        for name in columns:
            if getattr(self.schema.field(name).type, "extension_name", "") == "pandas.period":
                raise ColumnError(
                    f"Column {name!r} holds periods of pandas, and Arrow has only their numbers; "
                    f"convert it, as by frame[{name!r}].dt.to_timestamp()."
                )
        if self._is_consumed:
            raise SourceError(
                f"{self.name} can be read only once and was read before. "
                "Pass a table, a file or a fresh reader."
            )
        rows = self._read(columns)
        self._is_consumed = not self.rereadable
        return (batch for batch in rows if batch.num_rows)


def no_source(source: object, name: str) -> SourceError:
    """Make the error for an object that has no rows to read."""
    if hasattr(source, "collect") and hasattr(source, "collect_schema"):
        return SourceError(
            f"Cannot read rows from {name}, a query that has not run. Select the columns that are "
            "needed and pass .collect(), or write its rows by .sink_parquet() and pass the path."
        )
    if isinstance(getattr(source, "table", None), pa.Table):
        return SourceError(f"Cannot read rows from {name}. Pass its table, the attribute .table.")
    return SourceError(
        f"Cannot read rows from {name}. Pass a path, a pyarrow Table or reader, "
        "an object with __arrow_c_stream__ (pandas, polars, DuckDB), or a dict of arrays."
    )


def selected_row(row: int) -> str:
    """Describe the number of a row among the rows that a condition selects."""
    return f"row {row:,} of the rows that where selects"


def filter_batch(batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    """Filter a batch with columns of any type."""
    columns = [_filter_array(column, mask) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _filter_array(array: pa.Array, mask: pa.Array) -> pa.Array:
    """Filter an array of any type; Arrow cannot filter run ends and views."""
    import pyarrow.compute as pc

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _filter_array(array.storage, mask))
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(_filter_array(pc.run_end_decode(array), mask), kind.run_end_type)
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string()).filter(mask).cast(kind)
    if pa.types.is_binary_view(kind):
        return array.cast(pa.large_binary()).filter(mask).cast(kind)
    return array.filter(mask)


def refuse_text(source: Source, name: str, argument: str) -> None:
    """Raise if a column of numbers is text only because of its other role.

    Parameters
    ----------
    source : Source
    name : str
        Name of the column.
    argument : str
        The argument that needs numbers; it begins the message.

    Raises
    ------
    ColumnError
    """
    if name not in source.untyped or not pa.types.is_string(source.schema.field(name).type):
        return
    first = 0
    for batch in source.batches([name]):
        row = first_word(batch.column(0))
        if row >= 0:
            word, place = batch.column(0)[row].as_py(), source.locate(first + row)
            raise ColumnError(
                f"{argument}: must be a column of numbers, got {name!r} with {shown(word)} in row "
                f"{first + row:,} (counted from 0); {number_remedy(word)}."
                + (f" It is {place}." if place else "")
            )
        first += batch.num_rows
    raise ColumnError(
        f"{argument}: must be a column of numbers, got {name!r}, which is text: in CSV and TSV "
        "files the columns of groups, items and classes are text, and those with words in any row; "
        "write the numbers to a column of their own, or the file as Parquet."
    )


#: The metadata of fields that are computed while rows are read. No message lists them.
COMPUTED = {b"computed": b""}


def require_columns(
    schema: pa.Schema,
    names: Iterable[str],
    *,
    role: str | None = None,
    source: str | None = None,
) -> None:
    """Check that each column exists exactly once.

    Parameters
    ----------
    schema : pyarrow.Schema
    names : iterable of str
    role : str, optional
        The option that names the columns, such as ``"label"``; it begins the message.
    source : str, optional
        Name of the source, for the message.

    Raises
    ------
    ColumnError
        Names the first missing column and the existing one with the most similar name.

    Examples
    --------
    >>> schema = pa.schema([("user", pa.int64()), ("label", pa.int8())])
    >>> require_columns(schema, ["lable"], role="label")
    Traceback (most recent call last):
    fastrank_eval.ColumnError: label: no column 'lable'. Did you mean 'label'? \
Columns: user, label.
    """
    prefix = f"{role}: " if role else ""
    where = f" in {source}" if source else ""
    for name in names:
        if type(name) is str and name.isascii() and len(schema.get_all_field_indices(name)) == 1:
            continue
        if not is_text(name):
            raise ColumnError(
                f"{prefix}must be names of columns, got {shown(name)}; pass 'user_id', for "
                "instance."
            )
        count = len(schema.get_all_field_indices(name))
        if count > 1:
            raise ColumnError(
                f"{prefix}column {name!r} occurs {count} times{where}. Rename all but one."
            )
        if count == 0:
            found = [field.name for field in schema if field.metadata != COMPUTED]
            existing = ", ".join(found[:20]) or "none"
            more = f", and {len(found) - 20} more" if len(found) > 20 else ""
            raise ColumnError(
                f"{prefix}no column {name!r}{where}.{near(name, found)} Columns: {existing}{more}."
            )


#: Maximum rows of a batch that one thread reads for all threads.
_MAX_BATCH_ROWS = 1 << 19


@dataclass(frozen=True)
class UnreadBatch:
    """Row groups of a file that any thread can read, any number of times.

    Parameters
    ----------
    row_groups : tuple of (int, int)
        Index and rows of each row group.
    read : callable
        Reads row groups, in order, as batches of at most so many rows; threads may share it. The
        third argument is whether Arrow may use its own threads.
    """

    row_groups: tuple[tuple[int, int], ...]
    read: Callable[[tuple[int, ...], int, bool], Iterator[pa.RecordBatch]]

    @property
    def num_rows(self) -> int:
        """Number of rows of these row groups."""
        return sum(rows for _, rows in self.row_groups)

    def batches(self, max_rows: int, threads: bool = False) -> Iterator[pa.RecordBatch]:
        """Read the rows as batches of at most `max_rows` rows."""
        return self.read(tuple(group for group, _ in self.row_groups), max_rows, threads)

    def split_evenly(self, rows: int) -> Iterator[UnreadBatch]:
        """Split the row groups into unread batches of about `rows` rows."""
        first = rows_so_far = 0
        for end, (_, count) in enumerate(self.row_groups):
            if end > first and rows_so_far + count // 2 > rows:
                yield UnreadBatch(self.row_groups[first:end], self.read)
                first, rows_so_far = end, 0
            rows_so_far += count
        if first < len(self.row_groups):
            yield UnreadBatch(self.row_groups[first:], self.read)

    def split(self, rows: int) -> tuple[UnreadBatch, UnreadBatch]:
        """Split off the first row groups with at most `rows` rows together."""
        rows_so_far, end = 0, 0
        while end < len(self.row_groups) and rows_so_far + self.row_groups[end][1] <= rows:
            rows_so_far += self.row_groups[end][1]
            end += 1
        return UnreadBatch(self.row_groups[:end], self.read), UnreadBatch(
            self.row_groups[end:], self.read
        )


#: A batch of a source, read or unread.
Batch: TypeAlias = pa.RecordBatch | UnreadBatch


def first_rows(batch: Batch, rows: int) -> pa.RecordBatch:
    """Return at most `rows` first rows of a batch, and read no more."""
    if isinstance(batch, UnreadBatch):
        batch = next(batch.batches(rows))
    return batch.slice(0, rows)


def read_batches(
    batches: Iterable[Batch], max_rows: int = _MAX_BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Read unread batches on Arrow's threads.

    A batch has at most `max_rows` rows.
    """
    for batch in batches:
        if isinstance(batch, UnreadBatch):
            yield from batch.batches(max_rows, threads=True)
        else:
            yield batch


#: Number of offsets in a comparison; they fit the processor cache.
_OFFSETS_BLOCK = 1 << 17


def check_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Check offsets, indices and UTF-8, which Arrow reads without a check.

    ``validate(full=True)`` checks the same in 7 ns a string; here ASCII text takes a tenth of that.

    Raises
    ------
    pyarrow.ArrowInvalid
        If data are invalid; the message says how.
    """
    valid_values: dict[int, pa.Array] = {}
    for batch in batches:
        batch.validate()
        for index, column in enumerate(batch.columns):
            if column.type.id in NUMBERS:
                continue
            if pa.types.is_dictionary(column.type) and len(column) and not column.null_count:
                valid_values[index] = _check_dictionary(column, valid_values.get(index))
            elif not _is_valid(column):
                column.validate(full=True)
        yield batch


def _check_dictionary(column: pa.DictionaryArray, previous: pa.Array | None) -> pa.Array:
    """Check a dictionary and return its values.

    Values that batches share are checked once.
    """
    values, indices = column.dictionary, column.indices
    kind = numpy_type(indices.type)
    numbers = _items(indices.buffers()[1], kind, len(indices), indices.offset)
    if numbers.min() < 0 or numbers.max() >= len(values):
        column.validate(full=True)
    if previous is None or _memory_location(previous) != _memory_location(values):
        values.validate(full=True)
    return values


def _memory_location(values: pa.Array) -> tuple[object, ...]:
    """Return the memory location of values."""
    addresses = (None if buffer is None else buffer.address for buffer in values.buffers())
    return len(values), values.offset, *addresses


def _is_valid(column: pa.Array) -> bool:
    """Return whether a column is surely valid.

    This holds for numbers, and for ascending offsets with bytes or ASCII.
    """
    kind, rows = column.type, len(column)
    if not rows or pa.types.is_primitive(kind):
        return True
    if not is_textual(kind):
        return False
    _, offsets_buffer, content = column.buffers()
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    offsets = _items(
        offsets_buffer, np.dtype(np.int64 if wide else np.int32), rows + 1, column.offset
    )
    first, last = int(offsets[0]), int(offsets[-1])
    if not 0 <= first <= last <= (0 if content is None else content.size):
        return False
    for lo in range(0, rows, _OFFSETS_BLOCK):
        block = offsets[lo : lo + _OFFSETS_BLOCK + 1]
        if (block[1:] < block[:-1]).any():
            return False
    size = last - first
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return not (is_text and size) or _items(content, np.dtype(np.int8), size, first).min() >= 0


def _items(buffer: pa.Buffer, kind: np.dtype, length: int, first: int) -> np.ndarray:
    return np.frombuffer(buffer, kind, length, first * kind.itemsize)
