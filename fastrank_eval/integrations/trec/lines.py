"""Split lines of TREC files into columns.

Read text files, compressed or not, in blocks of complete lines.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, frozen, uint64_windows
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import SourceError
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch
from fastrank_eval.integrations.trec.pairs import run_ends
from fastrank_eval.io.paths import FORMATS, File, expand, format_of_bytes, refuse_repeated
from fastrank_eval.io.source import reading, type_name

#: Bytes of a block, less than 2**22: `scratch` keeps at most 16 MB, and each reading thread has the
#: texts of four columns there, in multiples of 2**13 bytes. Blocks of 2**22 bytes and more take
#: twice as long.
_BLOCK = (1 << 22) - (3 << 12)
#: Bytes after the last line of a block, so that 64 bytes can be read from any position at once.
PADDING = b"\n" * 64
_COLUMNS = {suffix for suffix, kind in FORMATS.items() if kind in ("parquet", "arrow")}
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_GZIP = b"\x1f\x8b"
#: First bytes of what Arrow decompresses, and the name of its codec.
_CODECS = {b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
#: Bytes by which the form of a text is found.
_HEAD = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REMEDY = "Check that the file is whole and is text."


@dataclass(frozen=True)
class Text:
    """One text to read.

    Parameters
    ----------
    name : str
        Name for messages: a path in quotes, or a description of the argument.
    open : callable
        Opens the text for reading, decompressed.
    file : File or None
        The file, if the text is one.
    """

    name: str
    open: Callable[[], AbstractContextManager[_Bytes]]
    file: File | None = None

    @cached_property
    def head(self) -> bytes:
        """The first bytes; they are read again with the rest."""
        with self._stream() as stream:
            return stream.head(_HEAD).removeprefix(_BYTE_ORDER_MARK)

    def has_columns(self) -> bool:
        """Return whether suffix or first bytes are those of a file of columns."""
        if self.file is None:
            return False
        suffix = self.file.path.rpartition(".")[2].lower()
        return suffix in _COLUMNS or format_of_bytes(self.head) is not None

    def delimiter(self) -> str | None:
        """Return the delimiter of a CSV or TSV file, by its suffix."""
        name = "" if self.file is None else self.file.path.lower()
        for end in (".gz", ".bz2", ".zst", ".lz4"):
            name = name.removesuffix(end)
        return _DELIMITERS.get(name.rpartition(".")[2])

    def header(self) -> list[str]:
        """Split the first line at commas or tabs, as if it had names."""
        line = self.head.partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
        delimiter = self.delimiter() or ("\t" if "\t" in line else ",")
        try:
            return next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error:
            return []

    def first_fields(self) -> list[str]:
        """Split the first line that is neither blank nor a comment."""
        lines = (line.split() for line in self.head.split(b"\n"))
        fields = (line for line in lines if line and not line[0].startswith(b"#"))
        return [field.decode("utf-8", "replace") for field in next(fields, [])]

    def content(self) -> bytes:
        """Read the whole text."""
        with self._stream() as stream:
            return b"".join(iter(partial(stream.read, _BLOCK), b""))

    def blocks(self) -> Iterator[bytearray]:
        """Yield blocks of complete lines with newlines, then `PADDING`.

        Raises
        ------
        SourceError
            If the text cannot be read, is truncated, or is Parquet or Arrow.
        """
        with self._stream() as stream:
            kind = format_of_bytes(stream.head(8))
            if kind is not None:
                raise SourceError(
                    f"Cannot read {self.name} as text: it is {kind.capitalize()}. Pass its path, "
                    "or a pyarrow Table of its columns."
                )
            yield from _line_blocks(io.BufferedReader(stream))

    @contextmanager
    def _stream(self) -> Iterator[_Bytes]:
        with reading(self.name, _REMEDY), self.open() as stream:
            try:
                yield stream
            except zlib.error as error:
                raise SourceError(
                    f"Cannot read {self.name}: its gzip data is damaged ({error}). {_REMEDY}"
                ) from error


def texts_of_paths(paths: Sequence[Any]) -> list[Text]:
    """List the files of paths, folders, globs and URIs, in their order.

    Raises
    ------
    SourceError
        If there is no file, or one is named twice.
    """
    files: list[File] = []
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise SourceError(
                f"A list of sources holds {type_name(path)}: paths only. "
                "Several runs are a mapping, {'bm25': ..., 'ours': ...}. To read parts of one run, "
                "read each by itself, and join the tables (pyarrow.concat_tables)."
            )
        # As for CSV: a file of any suffix is read.
        files += expand(path, "csv")
    if not files:
        raise SourceError("The list of paths is empty. Name at least one file.")
    refuse_repeated((file.identity, file.name) for file in files)
    return [Text(repr(file.name), partial(_open_file, file), file) for file in files]


@contextmanager
def _open_file(file: File) -> Iterator[_Bytes]:
    with file.filesystem.open_input_stream(file.path, compression=None) as handle:
        yield _decompressed(handle)


def text_of_bytes(content: bytes | bytearray | memoryview, name: str = "the bytes passed") -> Text:
    """Make a text of bytes; `name` is for messages."""
    return Text(name, lambda: nullcontext(_decompressed(io.BytesIO(content))))


def text_of_stream(stream: Any) -> Text:
    """Make a text of an open file, a pipe or ``"-"`` (standard input)."""
    if is_pipe(stream):
        name, stream = repr(os.fspath(stream)), io.BytesIO(Path(stream).read_bytes())
    elif stream == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None or sys.stdin.isatty():
            raise SourceError("Nothing is piped into standard input. Pipe in a file.")
        name = "standard input"
    else:
        path = getattr(stream, "name", None)
        name = repr(path) if isinstance(path, str) else type_name(stream)
    # Its first bytes are kept, because it can be read once.
    kept = cache(partial(_decompressed, stream))
    return Text(name, lambda: nullcontext(kept()))


def is_stream(source: object) -> bool:
    """Return whether this is an open file."""
    return callable(getattr(source, "read", None)) and not hasattr(source, "schema")


def is_pipe(source: object) -> bool:
    """Return whether this is the path of a pipe, such as ``<(...)``."""
    if isinstance(source, str | os.PathLike):
        with suppress(OSError, ValueError):
            return stat.S_ISFIFO(Path(source).stat().st_mode)
    return False


def _line_blocks(stream: io.BufferedIOBase) -> Iterator[bytearray]:
    mark, rest = _BYTE_ORDER_MARK, b""
    more = -1
    while more:
        # Bytes are read to where their lines are split.
        block = bytearray(len(rest) + _BLOCK + len(PADDING))
        block[: len(rest)] = rest
        more = stream.readinto(memoryview(block)[len(rest) : -len(PADDING)])
        size = len(rest) + more
        if not more and rest:
            block[size], size = PADDING[0], size + 1
        end = block.rfind(b"\n", 0, size) + 1
        rest = bytes(block[end:size])
        if end:
            block[end:] = PADDING
            if mark and block.startswith(mark):
                del block[: len(mark)]
            mark = b""
            yield block


class _Bytes(io.RawIOBase):
    """The bytes of an open file, which may return text."""

    def __init__(self, handle: Any) -> None:
        self._handle, self._rest = handle, b""

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        if not self._rest and hasattr(self._handle, "readinto"):
            return int(self._handle.readinto(room) or 0)
        more = self._rest or self._more(len(room))
        room[: len(more)], self._rest = more[: len(room)], more[len(room) :]
        return min(len(more), len(room))

    def head(self, size: int) -> bytes:
        """Return the first bytes, which are read again."""
        while len(self._rest) < size and (more := self._more(size)):
            self._rest += more
        return self._rest[:size]

    def _more(self, size: int) -> bytes:
        more = self._handle.read(size) or b""
        return more.encode(errors="surrogatepass") if isinstance(more, str) else bytes(more)


def _decompressed(handle: Any) -> _Bytes:
    """Read the bytes of an open file, decompressed."""
    stream = _Bytes(handle)
    head = stream.head(4)
    if head.startswith(_GZIP):
        return _Bytes(gzip.GzipFile(fileobj=io.BufferedReader(stream)))
    if head in _CODECS:
        packed = pa.PythonFile(io.BufferedReader(stream), mode="r")
        # ranx compresses twice.
        return _decompressed(pa.CompressedInputStream(packed, _CODECS[head]))
    return stream


#: Most characters of a decimal on the fast path: its digits fit 64 bits, and the quotient of two
#: exact integers as doubles is the correctly rounded decimal.
_MAX_LENGTH = 18
_EXACT = 1 << 53
_POWERS = np.array([float(10**k) for k in range(_MAX_LENGTH)])


@kernel
def _blanks(text, start):  # type: ignore[no-untyped-def]
    """Return which of 64 bytes are blanks: a bit each."""
    # LLVM makes vectors of this loop: 0.1 ns a byte, where a search for each end takes 0.7.
    blanks = np.uint64(0)
    for k in range(64):
        letter = text[np.uint64(start) + np.uint64(k)]
        is_blank = (letter == 32) | (np.uint8(letter - np.uint8(9)) < 5)
        blanks |= np.uint64(is_blank) << np.uint64(k)
    return blanks


@kernel
def _lowest(bits):  # type: ignore[no-untyped-def]
    """Find the lowest bit that is set: count those below it."""
    below = (bits & (~bits + np.uint64(1))) - np.uint64(1)
    below -= (below >> np.uint64(1)) & np.uint64(0x5555555555555555)
    two = np.uint64(0x3333333333333333)
    below = (below & two) + ((below >> np.uint64(2)) & two)
    below = (below + (below >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((below * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def _equal(windows, i, k, size):  # type: ignore[no-untyped-def]
    """Return whether the `size` bytes at two positions are equal."""
    rest = size
    while rest > 8:
        if windows[np.uint64(i)] != windows[np.uint64(k)]:
            return False
        i += 8
        k += 8
        rest -= 8
    return (windows[np.uint64(i)] ^ windows[np.uint64(k)]) << np.uint64(64 - 8 * rest) == 0


@kernel
def _decimal(text, start, end):  # type: ignore[no-untyped-def]
    """Parse digits with at most one point: the integer and its decimals.

    The number of decimals is -1 without a point, and -2 if the field has another form or more
    digits than a double.
    """
    first = start + (text[start] == 45)
    integer = np.int64(0)
    decimals = np.int64(-1)
    for i in range(first, end):
        digit = np.int64(text[np.uint64(i)]) - 48
        if 0 <= digit <= 9:
            integer = 10 * integer + digit
            decimals += decimals >= 0
        elif digit == -2 and decimals < 0 and i > first:
            decimals = np.int64(0)
        else:
            return integer, np.int64(-2)
    if end == first or decimals == 0 or end - first > _MAX_LENGTH or integer > _EXACT:
        return integer, np.int64(-2)
    return integer, decimals


@kernel
def split_fields(  # type: ignore[no-untyped-def]
    text, windows, length, column, repeated, number, keep, least, more, room,
    slots, ends, first_rows, starts, row_lines, values, text_counts, counts,
):  # fmt: skip
    """Split lines at blanks, up to the first with too few or too many fields.

    It also ends where there is no room for more rows: at a faulty line of 0 fields.

    Parameters
    ----------
    text : ndarray of uint8
        Complete lines, the last byte a newline, then at least 64 bytes.
    windows : ndarray of uint64
        The eight bytes from each position on.
    length : int
        Bytes of the lines.
    column : ndarray of int64
        The column of each field, -1 for none.
    repeated : ndarray of bool, shape (columns,)
        Columns that store the same text of consecutive lines once.
    number : int
        The column of numbers.
    keep : bool
        Keep numbers as texts; otherwise parse plain decimals.
    least : int
        Fields that a line must have.
    more : bool
        Whether a line may have further fields.
    room : int
        Bytes between the texts of a column and those of the next one.
    slots : ndarray of uint64
        Written: the bytes of the texts; an element is written at each position of a byte.
    ends : ndarray of int32, shape (columns, rows + 1)
        Written: the end of each text.
    first_rows : ndarray of int32, shape (columns, rows)
        Written: the first row of each text.
    starts : ndarray of int64, shape (columns,)
        Written: the start of the last text of each column.
    row_lines : ndarray of int32, shape (rows,)
        Written: the line of each row.
    values : ndarray of float64, shape (rows,)
        Written: the parsed numbers.
    text_counts : ndarray of int64, shape (columns,)
        Number of texts of each column; zeros at first.
    counts : ndarray of int64, shape (6,)
        Written: rows; lines; the faulty line or -1, and its fields; numbers that are not plain
        decimals; numbers with a point.
    """
    rows = np.int64(0)
    lines = np.int64(0)
    others = np.int64(0)
    points = np.int64(0)
    fields = np.int64(0)
    start = np.int64(0)
    is_comment = False
    counts[2] = -1
    counts[3] = 0
    ends[:, 0] = 0
    for first in range(0, length, 64):
        blanks = _blanks(text, first)
        while blanks != 0:
            end = first + _lowest(blanks)
            blanks &= blanks - np.uint64(1)
            size = end - start
            i = start
            start = end + 1
            is_comment |= fields == 0 and size > 0 and text[np.uint64(i)] == 35
            if size > 0 and not is_comment:
                target = column[fields] if fields < column.shape[0] else np.int64(-1)
                fields += 1
                if target >= 0:
                    last = text_counts[target]
                    if target == number and not keep:
                        integer, decimals = _decimal(text, i, end)
                        others += decimals == -2
                        points += decimals >= 0
                        value = np.float64(integer)
                        if decimals > 0:
                            value /= _POWERS[decimals]
                        values[rows] = -value if text[i] == 45 else value
                    elif not (
                        repeated[target]
                        and last > 0
                        and size == ends[target, last] - ends[target, last - 1]
                        and _equal(windows, i, starts[target], size)
                    ):
                        others += target == number
                        k = target * room + ends[target, last]
                        for step in range(0, size, 8):
                            slots[np.uint64(k + step)] = windows[np.uint64(i + step)]
                        ends[target, last + 1] = ends[target, last] + size
                        first_rows[target, last] = rows
                        starts[target] = i
                        text_counts[target] = last + 1
            if text[np.uint64(end)] != 10 or end >= length:
                continue
            if fields > 0:
                if fields < least or (fields > least and not more):
                    counts[2] = lines
                    counts[3] = fields
                    break
                row_lines[rows] = lines
                rows += 1
                if rows == row_lines.shape[0]:
                    counts[2] = lines
                    break
            lines += 1
            fields = np.int64(0)
            is_comment = False
        if counts[2] >= 0:
            break
    # Remove the texts of a faulty line.
    for target in range(text_counts.shape[0]):
        while text_counts[target] > 0 and first_rows[target, text_counts[target] - 1] == rows:
            text_counts[target] -= 1
    counts[0] = rows
    counts[1] = lines
    counts[4] = others
    counts[5] = points


_MAX_SHOWN = 80
#: Bytes of a line. The shortest has four fields of one byte, each with a blank. Arrays for as many
#: lines take twice the memory.
_USUAL_LINE, _MIN_LINE = 16, 8
#: Rows for which there is always room, and bytes to which sizes are rounded: scratch arrays that
#: grow with each block leave holes in memory.
_FEW_ROWS, _STEP = 1 << 12, 1 << 13
_NON_ASCII = 128


@dataclass(frozen=True)
class FileColumns:
    """The fields of a line.

    Parameters
    ----------
    kind : str
        Name of such a file, for messages.
    form : str
        Names of all fields, for messages.
    columns : dict of str to int
        Field index of each column.
    repeated : tuple of str
        Columns in which consecutive lines mostly have the same text.
    number : str
        The column of numbers.
    fields : int
        Fields that a line must have.
    more : bool
        Whether further fields are ignored; otherwise they are an error.
    """

    kind: str
    form: str
    columns: dict[str, int]
    repeated: tuple[str, ...]
    number: str
    fields: int
    more: bool


#: trec_eval ignores fields after the run tag, and rejects fields after the relevance.
RUN = FileColumns(
    "run",
    "qid Q0 docno rank score tag",
    {"query": 0, "doc": 2, "score": 4, "run": 5},
    ("query", "run"),
    "score",
    6,
    True,
)
QRELS = FileColumns(
    "qrels",
    "qid iter docno rel",
    {"query": 0, "doc": 2, "grade": 3},
    ("query",),
    "grade",
    4,
    False,
)
#: The format of ndeval.
DIVERSITY_QRELS = replace(
    QRELS,
    kind="diversity qrels",
    form="qid subtopic docno rel",
    columns={"query": 0, "subtopic": 1, "doc": 2, "grade": 3},
)


@dataclass(frozen=True)
class Lines:
    """The rows of a block.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        The columns of the layout, as a `PairTable` has them; only the rows before the fault.
    numbers : ndarray of int32, shape (rows,), or None
        The line of each row, from 0; None if every line is a row.
    lines : int
        Number of lines of the block.
    fault : tuple of int and str, or None
        The first line that cannot be read, from 0, and the reason.
    comments : int
        Number of comments that have the fields of a row.
    """

    batch: pa.RecordBatch
    numbers: np.ndarray | None
    lines: int
    fault: tuple[int, str] | None
    comments: int = 0

    def line(self, row: int) -> int:
        """Get the line of a row, from 0."""
        return row if self.numbers is None else int(self.numbers[row])


def read_lines(block: bytearray, file_columns: FileColumns) -> Lines:
    """Read the lines of a block into columns.

    Parameters
    ----------
    block : bytearray
        Complete lines, each with a newline, and `PADDING`. Blank lines and lines that begin with
        ``#`` count as lines but have no row.
    file_columns : FileColumns
    """
    names = list(file_columns.columns)
    width, room = len(names), -(-len(block) // _STEP) * _STEP
    max_rows, keep = max(room // _USUAL_LINE, _FEW_ROWS), False
    column = np.full(max(file_columns.columns.values()) + 1, -1, np.int64)
    column[list(file_columns.columns.values())] = np.arange(width)
    padded = frozen(np.frombuffer(block, np.uint8))
    length = len(padded) - len(PADDING)
    # Bytes are read and written eight at a time.
    content = scratch("letters of fields", width * room + 8, np.uint8)
    slots = np.ndarray((width * room + 1,), np.uint64, content, strides=(1,))
    starts, counts = np.zeros(width, np.int64), np.empty(6, np.int64)
    while True:
        ends = scratch("ends of fields", width * (max_rows + 1), np.int32).reshape(
            width, max_rows + 1
        )
        first_rows = scratch("rows of fields", width * max_rows, np.int32).reshape(width, max_rows)
        row_lines = scratch("lines of rows", max_rows, np.int32)
        values = scratch("numbers of rows", max_rows, np.float64)
        text_counts = np.zeros(width, np.int64)
        split_fields(
            padded,
            uint64_windows(padded),
            np.int64(length),
            frozen(column),
            frozen(np.array([name in file_columns.repeated for name in names])),
            np.int64(names.index(file_columns.number)),
            keep,
            np.int64(file_columns.fields),
            file_columns.more,
            np.int64(room),
            slots,
            ends,
            first_rows,
            starts,
            row_lines,
            values,
            text_counts,
            counts,
        )
        if counts[2] >= 0 and not counts[3]:
            max_rows = room // _MIN_LINE
        elif counts[4] and not keep:
            keep = True  # numbers that are not plain decimals are kept as texts
        else:
            break
    rows, lines, faulty_line, fields, others, points = counts.tolist()

    def text_of(i: int) -> pa.Array:
        offsets = ends[i, : text_counts[i] + 1].astype(np.int64)
        content_bytes = content[i * room :][: offsets[-1]].copy()
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content_bytes)]
        return pa.Array.from_buffers(pa.large_string(), int(text_counts[i]), buffers)

    line_numbers = None if rows == lines else row_lines[:rows].copy()
    row_faults: list[tuple[int, str]] = []
    arrays: dict[str, pa.Array] = {}
    is_ascii = bool(padded.max() < _NON_ASCII)
    for i, name in enumerate(names):
        if name == file_columns.number and not others:
            kind = np.float64 if name == "score" or points else np.int64
            arrays[name] = arrow_column(values[:rows].astype(kind))
            continue
        arrays[name], first = text_of(i), first_rows[i, : text_counts[i]]
        if name == file_columns.number:
            arrays[name], row, reason = _numbers(arrays[name], name)
            row_faults += [] if row < 0 else [(row, reason)]
            continue
        if not is_ascii:
            reason = f"its {name} is not UTF-8"
            row_faults += [(int(first[text]), reason) for text in _not_utf8(arrays[name])]
        if name in file_columns.repeated:
            arrays[name] = run_ends(arrays[name], first, rows)
    faults = [] if faulty_line < 0 else [(faulty_line, _field_count_error(fields, file_columns))]
    faults += [
        (row if line_numbers is None else int(line_numbers[row]), reason)
        for row, reason in row_faults
    ]
    fault = None
    if faults:
        line, reason = min(faults)
        shown = block.split(b"\n", line + 1)[line].strip().decode("utf-8", "replace")
        shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
        fault = line, f"{reason}: {shown!r}"
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    comments = 0 if line_numbers is None else _comments_like_rows(block, file_columns)
    return Lines(batch, line_numbers, lines, fault, comments)


def _comments_like_rows(block: bytearray, file_columns: FileColumns) -> int:
    """Count comments that have the fields of a row and its number."""
    count, number = 0, file_columns.columns[file_columns.number]
    for line in re.finditer(rb"^#.*", block, re.MULTILINE):
        fields = line.group().split()
        if len(fields) == file_columns.fields and re.fullmatch(
            rb"-?[\d.]+(?:e-?\d+)?", fields[number]
        ):
            count += 1
    return count


def _field_count_error(fields: int, file_columns: FileColumns) -> str:
    message = f"{fields} field{'s' * (fields != 1)} where {file_columns.kind} lines have "
    message += f"{file_columns.fields} ({file_columns.form})"
    swapped = {
        ("qrels", 6): "; it looks like a run (read_run): judgements come first, runs second",
        ("run", 4): "; it looks like judgements (read_qrels), which come before runs",
    }
    return message + swapped.get((file_columns.kind, fields), "")


def not_allowed(numbers: np.ndarray, name: str) -> np.ndarray:
    """Find scores of NaN, and grades that are not finite."""
    return np.isnan(numbers) if name == "score" else ~np.isfinite(numbers)


def _numbers(texts: pa.Array, name: str) -> tuple[pa.Array, int, str]:
    """Parse numbers; return the first faulty row and its reason, or -1.

    Numbers are correctly rounded. Scores are float64. Grades are int64 if all are integers, else
    float64.
    """
    try:
        values = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return (
            pa.nulls(len(texts), pa.float64()),
            _first_unreadable(texts),
            f"its {name} is no number",
        )
    numbers = as_array(values)
    is_wrong = not_allowed(numbers, name)
    if is_wrong.any():
        reason = "its score is NaN" if name == "score" else "its grade is not finite"
        return values, int(is_wrong.argmax()), reason
    if name != "score":
        try:
            return texts.cast(pa.int64()), -1, ""
        except pa.ArrowInvalid:
            pass
    return values, -1, ""


def _first_unreadable(texts: pa.Array) -> int:
    """Find the first text that is not a number, by bisection."""
    lo, hi = 0, len(texts)
    while hi - lo > 1:
        middle = (lo + hi) // 2
        try:
            texts.slice(lo, middle - lo).cast(pa.float64())
            lo = middle
        except pa.ArrowInvalid:
            hi = middle
    return lo


def _not_utf8(texts: pa.Array) -> Iterator[int]:
    """Yield the first row that is not UTF-8, if any."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        for row, value in enumerate(texts.cast(pa.large_binary())):
            try:
                value.as_py().decode()
            except UnicodeDecodeError:
                yield row
                return
