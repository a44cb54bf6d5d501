"""Read batches of a source, and name the file and row of an error."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from fastrank_eval._lib.arguments import is_of, shown, typed
from fastrank_eval._lib.errors import ColumnError, FastRankEvalError, SourceError, near
from fastrank_eval.io.csv_numbers import Spelling

__all__ = [
    "Batch",
    "Source",
    "UnreadBatch",
    "cut",
    "decoded",
    "first_line",
    "first_rows",
    "foreign",
    "read_parts",
    "reading",
    "refuse_text",
    "require_columns",
    "select",
    "selected_row",
    "type_name",
]


def type_name(value: object) -> str:
    """Name the type of a value as its user writes it: ``pandas.DataFrame``, ``int``."""
    kind = type(value)
    root = kind.__module__.partition(".")[0].lstrip("_")
    return kind.__qualname__ if root == "builtins" else f"{root}.{kind.__qualname__}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type where it has none."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    line = next(iter(text.strip().splitlines()), "").rstrip(".")
    return line or type(error).__name__


@contextmanager
def foreign(name: str) -> Iterator[None]:
    """Turn errors of another library's export, whatever their type, into a SourceError."""
    try:
        yield
    except (FastRankEvalError, pa.ArrowCancelled):
        raise
    except Exception as error:
        if isinstance(error, MemoryError) and not _is_absurd(error):
            raise
        raise SourceError(
            f"Cannot read {name} as a table of Arrow columns: {first_line(error)}. "
            "Pass a table whose columns Arrow can hold, or only the columns needed."
        ) from error


@contextmanager
def reading(name: str, remedy: str, condition: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Turn what Arrow and the system raise into a SourceError.

    Parameters
    ----------
    name : str
        What is read.
    remedy : str
        Ends the message.
    condition : callable, optional
        Looks, once reading has failed, at what state the source is in; ``"it is empty: "``.
    """
    try:
        yield
    except (FastRankEvalError, pa.ArrowCancelled):
        raise
    except MemoryError as error:
        if not _is_absurd(error):
            raise
        raise SourceError(
            f"Cannot read {name}: {condition()}it asks for more memory at once than there is "
            f"({first_line(error)}). {remedy}"
        ) from error
    except FileNotFoundError as error:
        raise SourceError(f"Cannot read {name}: no such file (any more).") from error
    except PermissionError as error:
        raise SourceError(
            f"Cannot read {name}: permission denied. Allow this user to read it."
        ) from error
    except (pa.ArrowException, OSError, EOFError, KeyError, UnicodeError) as error:
        raise SourceError(
            f"Cannot read {name}: {condition()}{first_line(error)}. {remedy}"
        ) from error


def _is_absurd(error: MemoryError) -> bool:
    """Whether more was asked for at once than the machine has: lengths in the data are damaged."""
    requested = re.search(r"of size ([0-9]+) failed", str(error))
    if requested is None or not hasattr(os, "sysconf"):
        return False
    return int(requested[1]) > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def decoded(schema: pa.Schema) -> pa.Schema:
    """Decode the column names now, where a name that is no text can still be blamed on its file."""
    _ = schema.names
    return schema


def select(reader: pa.RecordBatchReader, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read just these columns, in this order."""
    places = [reader.schema.get_field_index(name) for name in columns]
    for batch in reader:
        yield batch.select(places)


class Source:
    """An ordered stream of record batches, and what is known before reading it.

    Attributes
    ----------
    name : str
        What messages call it: a path, or the type of the object.
    schema : pyarrow.Schema
        Every column that can be asked for.
    rows : int or None
        Rows, where known without reading them.
    rereadable : bool
        Whether `batches` may be called more than once.
    locate : callable
        Where a row stands that has been read, "row 3 of 'b.csv'"; "" where the name tells it all.
    edges : mapping of str to pyarrow.Array or None
        Edges of quantiles by the text of their part (``"age:quantile5"``), where they are known
        before a row is read: those of a part of the rows would be other ones.
    as_text : callable or None
        Opens the source again where a file has no types of its own (CSV): with some columns as
        text, exactly as written, and others so where they write numbers in several ways. None where
        every column has a type.
    spelling : Spelling
        How text files write the columns that tell rows apart.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        read: Callable[[Sequence[str]], Iterator[Batch]],
        *,
        rows: int | None = None,
        rereadable: bool = True,
        locate: Callable[[int], str] = lambda row: "",
        edges: Mapping[str, pa.Array] | None = None,
        as_text: Callable[[frozenset[str], frozenset[str]], Source] | None = None,
        spelling: Spelling | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self.rows = rows
        self.rereadable = rereadable
        self.locate = locate
        self.edges = edges
        self.as_text = as_text
        self.spelling = spelling or Spelling()
        self._read = read
        self._spent = False

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows} rows"
        return f"<Source {self.name}: {len(self.schema)} columns{rows}>"

    @typed
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows in their order, as batches of just these columns.

        Parameters
        ----------
        columns : sequence of str
            Distinct names; the batches carry them in this order.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            Never of zero rows. In-memory data comes in its own chunks, without a copy.

        Raises
        ------
        ColumnError, SourceError
            As `parts` does.
        """
        return (batch for batch in read_parts(self.parts(columns)) if batch.num_rows)

    @typed
    def parts(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The rows in their order, some of them not read yet.

        Parameters
        ----------
        columns : sequence of str
            Distinct names; the batches carry them in this order.

        Returns
        -------
        iterator of pyarrow.RecordBatch or Unread
            Never of zero rows.

        Raises
        ------
        ColumnError
            At the call, if a column is missing or its name occurs twice.
        SourceError
            At the call, if the source was read before and cannot be read again, or if its files
            disagree on a column; while reading, naming the file that cannot be read.
        """
        require_columns(self.schema, columns, source=self.name)
        if self._spent:
            raise SourceError(
                f"{self.name} can be read only once and was read before. "
                "Pass a table, a file or a fresh reader."
            )
        rows = self._read(columns)
        self._spent = not self.rereadable
        return (part for part in rows if part.num_rows)


def selected_row(row: int) -> str:
    """Say what the number of a row counts, where a condition selects rows."""
    return f"row {row:,} of the rows that where selects"


def refuse_text(source: Source, name: str, argument: str) -> None:
    """Refuse text as numbers where only its part makes it text.

    Parameters
    ----------
    source : Source
    name : str
        Of the column.
    argument : str
        What needs numbers; it begins the message.

    Raises
    ------
    ColumnError
    """
    if name in source.spelling.texts:
        raise ColumnError(
            f"{argument}: must be a column of numbers, got {name!r}, which is text: in CSV and TSV "
            "files group and item columns are text, and so are columns of slices, fields, classes "
            "and texts of where that write equal numbers in several ways (007 and 7); write the "
            "numbers to a column of their own, or the file as Parquet."
        )


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
        The option that asked for the columns, such as ``"label"``; it begins the message.
    source : str, optional
        Name of the source, for the message.

    Raises
    ------
    ColumnError
        Names the first column that is missing, and the nearest one that is not.

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
        if not is_of(name, "str"):
            raise ColumnError(f"{prefix}must be names of columns, got {shown(name)}; pass text.")
        times = len(schema.get_all_field_indices(name))
        if times > 1:
            raise ColumnError(
                f"{prefix}column {name!r} occurs {times} times{where}. Rename all but one."
            )
        if times == 0:
            listed = ", ".join(schema.names[:20]) or "none"
            more = f", and {len(schema) - 20} more" if len(schema) > 20 else ""
            raise ColumnError(
                f"{prefix}no column {name!r}{where}.{near(name, schema.names)} "
                f"Columns: {listed}{more}."
            )


#: Rows of a batch that is read by one thread for all.
_BATCH_ROWS = 1 << 19


@dataclass(frozen=True, slots=True)
class UnreadBatch:
    """Row groups of a file, to be read by themselves, as often as wanted, by any thread.

    Parameters
    ----------
    row_groups : tuple of (int, int)
        Number of each row group, and its rows.
    read : callable
        Reads row groups, in order, as batches of at most so many rows; threads may share it. The
        third argument says whether Arrow may use threads of its own.
    """

    row_groups: tuple[tuple[int, int], ...]
    read: Callable[[tuple[int, ...], int, bool], Iterator[pa.RecordBatch]]

    @property
    def num_rows(self) -> int:
        """Rows of all these row groups."""
        return sum(rows for _, rows in self.row_groups)

    def batches(self, most: int, threads: bool = False) -> Iterator[pa.RecordBatch]:
        """Read them, as batches of at most `most` rows."""
        return self.read(tuple(group for group, _ in self.row_groups), most, threads)

    def pieces(self, rows: int) -> Iterator[UnreadBatch]:
        """The same row groups, as many at a time as come near to so many rows together."""
        first = held = 0
        for end, (_, here) in enumerate(self.row_groups):
            if end > first and held + here // 2 > rows:
                yield UnreadBatch(self.row_groups[first:end], self.read)
                first, held = end, 0
            held += here
        if first < len(self.row_groups):
            yield UnreadBatch(self.row_groups[first:], self.read)

    def split(self, rows: int) -> tuple[UnreadBatch, UnreadBatch]:
        """The row groups that have no more than so many rows together, and the others."""
        held, end = 0, 0
        while end < len(self.row_groups) and held + self.row_groups[end][1] <= rows:
            held += self.row_groups[end][1]
            end += 1
        return UnreadBatch(self.row_groups[:end], self.read), UnreadBatch(
            self.row_groups[end:], self.read
        )


#: Some rows of a source, read or not.
Batch: TypeAlias = pa.RecordBatch | UnreadBatch


def first_rows(part: Batch, rows: int) -> pa.RecordBatch:
    """At most so many rows from the beginning of a part, and no more read than that."""
    if isinstance(part, UnreadBatch):
        part = next(part.batches(rows))
    return part.slice(0, rows)


def cut(parts: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """Parts of about so many rows; longer row groups are read here, on Arrow's threads."""
    for part in parts:
        if not isinstance(part, UnreadBatch):
            for first in range(0, part.num_rows, rows):
                yield part.slice(first, rows)
            continue
        for piece in part.pieces(rows):
            if 2 * piece.num_rows > 3 * rows:
                yield from read_parts([piece], rows)
            else:
                yield piece


def read_parts(parts: Iterable[Batch], most: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Read what is not, on Arrow's threads, as batches of at most `most` rows."""
    for part in parts:
        if isinstance(part, UnreadBatch):
            yield from part.batches(most, threads=True)
        else:
            yield part
