"""Read text files, gzipped or not, in blocks of complete lines."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import SourceError
from fastrank_eval.io.paths import (
    FORMATS,
    File,
    expand,
    format_of_bytes,
    refuse_repeated,
    sniff,
)
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
        Opens the text for reading.
    file : File or None
        The file, if the text is one.
    """

    name: str
    open: Callable[[], AbstractContextManager[Any]]
    file: File | None = None

    def has_columns(self) -> bool:
        """Return whether suffix or first bytes are those of a file of columns."""
        if self.file is None:
            return False
        suffix = self.file.path.rpartition(".")[2].lower()
        with reading(self.name, _REMEDY):
            return suffix in _COLUMNS or sniff(self.file.filesystem, self.file.path) is not None

    def header(self) -> list[str]:
        """Split the first line of a CSV or TSV file into names.

        The suffix says whether it is one; other texts have no names.
        """
        name = "" if self.file is None else self.file.path.lower()
        for end in (".gz", ".bz2", ".zst", ".lz4"):
            name = name.removesuffix(end)
        delimiter = _DELIMITERS.get(name.rpartition(".")[2])
        if delimiter is None:
            return []
        first = bytes(next(self.blocks(), b"")).partition(b"\n")[0]
        line = first.decode("utf-8", "replace").rstrip("\r")
        return next(csv.reader([line], delimiter=delimiter), [])

    def blocks(self) -> Iterator[bytearray]:
        """Yield blocks of complete lines with newlines, then `PADDING`.

        Raises
        ------
        SourceError
            If the text cannot be read, is truncated, or is Parquet or Arrow.
        """
        with reading(self.name, _REMEDY), self.open() as handle:
            try:
                yield from _line_blocks(self._decompress(handle))
            except zlib.error as error:
                raise SourceError(
                    f"Cannot read {self.name}: its gzip data is damaged ({error}). {_REMEDY}"
                ) from error

    def _decompress(self, handle: Any) -> _PeekableStream:
        stream = _PeekableStream(handle)
        head = stream.peek(8)
        kind = format_of_bytes(head)
        if kind is not None:
            raise SourceError(
                f"Cannot read {self.name} as text: it is {kind.capitalize()}. Pass its path, or "
                "a pyarrow Table of its columns."
            )
        if head.startswith(_GZIP):
            return _PeekableStream(gzip.GzipFile(fileobj=cast(Any, stream), mode="rb"))
        return stream


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
    return [Text(repr(file.name), _opener(file.filesystem, file.path), file) for file in files]


def text_of_bytes(content: bytes | bytearray | memoryview) -> Text:
    """Make a text of bytes."""
    return Text("the bytes passed", lambda: io.BytesIO(content))


def text_of_stream(stream: Any) -> Text:
    """Make a text of an open file; ``"-"`` is standard input."""
    if stream == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None or sys.stdin.isatty():
            raise SourceError("Nothing is piped into standard input. Pipe in a file.")
        return Text("standard input", lambda: _OpenStream(stream))
    name = getattr(stream, "name", None)
    return Text(
        repr(name) if isinstance(name, str) else type_name(stream), lambda: _OpenStream(stream)
    )


def is_stream(source: object) -> bool:
    """Return whether this is an open file."""
    return callable(getattr(source, "read", None)) and not hasattr(source, "schema")


def _opener(filesystem: Any, path: str) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: filesystem.open_input_stream(path, compression=None)


def _line_blocks(stream: _PeekableStream) -> Iterator[bytearray]:
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


class _OpenStream:
    """A stream of the caller, which stays open."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> Any:
        return self._stream

    def __exit__(self, *_: object) -> None:
        return


class _PeekableStream:
    """A stream of bytes with `peek`; its source may return text."""

    def __init__(self, handle: Any) -> None:
        self._head = b""
        self._handle = handle

    def peek(self, size: int) -> bytes:
        while len(self._head) < size:
            more = self._more(size - len(self._head))
            if not more:
                break
            self._head += more
        return self._head

    def readinto(self, room: memoryview) -> int:
        """Read up to as many bytes as there is room for."""
        into = getattr(self._handle, "readinto", None)
        if into is not None and not self._head:
            return int(into(room) or 0)
        more = self.read(len(room))
        self._head = more[len(room) :] or self._head  # characters may be more bytes than asked for
        size = min(len(more), len(room))
        room[:size] = more[:size]
        return size

    def read(self, size: int) -> bytes:
        if self._head:
            head, self._head = self._head[:size], self._head[size:]
            return head
        return self._more(size)

    def _more(self, size: int) -> bytes:
        more = self._handle.read(size)
        return more.encode(errors="surrogatepass") if isinstance(more, str) else bytes(more or b"")
