"""Bytes of text files, gzipped or not, in blocks of whole lines."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from fastrank_eval._lib.errors import SourceError
from fastrank_eval.io.paths import FORMATS, File, begins_like, expand, sniff
from fastrank_eval.io.source import reading, type_name

__all__ = ["PADDING", "Text", "is_stream", "text_of_bytes", "text_of_stream", "texts_at"]

#: Four columns of a block's text are kept by each thread that reads: as much as `scratch` keeps.
_BLOCK = 1 << 22
#: What follows the last line of a block, so that eight letters can be read from any place at once.
PADDING = b"\n" * 8
_COLUMNS = {suffix for suffix, kind in FORMATS.items() if kind in ("parquet", "arrow")}
_GZIP = b"\x1f\x8b"
_MARK = b"\xef\xbb\xbf"
_REMEDY = "Check that the file is whole and is text."


class Readable(Protocol):
    """Anything that gives its next bytes."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; none at the end."""


@dataclass(frozen=True)
class Text:
    """One text to read.

    Parameters
    ----------
    name : str
        What messages call it: a path in quotes, or what was passed.
    open : callable
        Opens it for reading.
    file : File or None
        The file that it is.
    """

    name: str
    open: Callable[[], AbstractContextManager[Any]]
    file: File | None = None

    def holds_columns(self) -> bool:
        """Whether it is a file of columns, as its suffix or its first bytes tell."""
        if self.file is None:
            return False
        suffix = self.file.path.rpartition(".")[2].lower()
        with reading(self.name, _REMEDY):
            return suffix in _COLUMNS or sniff(self.file.filesystem, self.file.path) is not None

    def blocks(self) -> Iterator[bytes]:
        """Whole lines, some megabytes at a time, each ended by a newline; after them `PADDING`.

        Raises
        ------
        SourceError
            If it cannot be read, if it is cut short, or if it is Parquet or Arrow.
        """
        with reading(self.name, _REMEDY), self.open() as handle:
            try:
                yield from _whole_lines(self._decompressed(handle))
            except zlib.error as error:
                raise SourceError(
                    f"Cannot read {self.name}: its gzip data is damaged ({error}). {_REMEDY}"
                ) from error

    def _decompressed(self, handle: Any) -> Readable:
        whole: Any = _Peeked(handle)
        head = whole.peek(8)
        kind = begins_like(head)
        if kind is not None:
            raise SourceError(
                f"Cannot read {self.name} as text: it is {kind.capitalize()}. Pass its path, or "
                "a pyarrow Table of its columns."
            )
        if head.startswith(_GZIP):
            return _Peeked(gzip.GzipFile(fileobj=whole, mode="rb"))
        return whole


def texts_at(places: Sequence[Any]) -> list[Text]:
    """The files that paths, folders, globs and URIs stand for, in the given order.

    Raises
    ------
    SourceError
        If there is none, or one is named twice.
    """
    texts: dict[str, Text] = {}
    for place in places:
        if not isinstance(place, str | os.PathLike):
            raise SourceError(
                f"A list of sources holds {type_name(place)}: paths only. "
                "Read each by itself, and join the tables (pyarrow.concat_tables)."
            )
        # As CSV is read: whatever the suffix, the file is taken.
        for file in expand(place, "csv"):
            name = repr(file.name)
            if name in texts:
                raise SourceError(f"{name} is named twice. Name it once.")
            texts[name] = Text(name, _opener(file.filesystem, file.path), file)
    if not texts:
        raise SourceError("The list of paths is empty. Name at least one file.")
    return list(texts.values())


def text_of_bytes(content: bytes | bytearray | memoryview) -> Text:
    """Text that was passed as bytes."""
    return Text("the bytes passed", lambda: io.BytesIO(content))


def text_of_stream(stream: Any) -> Text:
    """Text of an open file, from where it stands; it stays open. ``"-"`` is standard input."""
    if stream == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None or sys.stdin.isatty():
            raise SourceError("Nothing is piped into standard input. Pipe in a file.")
        return Text("standard input", lambda: _Left(stream))
    name = getattr(stream, "name", None)
    return Text(repr(name) if isinstance(name, str) else type_name(stream), lambda: _Left(stream))


def is_stream(source: object) -> bool:
    """Whether this is an open file."""
    return callable(getattr(source, "read", None)) and not hasattr(source, "schema")


def _opener(filesystem: Any, path: str) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: filesystem.open_input_stream(path, compression=None)


def _whole_lines(handle: Readable) -> Iterator[bytes]:
    rest: list[bytes] = []
    mark = _MARK
    while more := handle.read(_BLOCK):
        if mark and not rest:
            more, mark = more.removeprefix(mark), b""
        end = more.rfind(b"\n") + 1
        if end:
            yield b"".join([*rest, memoryview(more)[:end], PADDING])
            rest = []
        if end < len(more):
            rest.append(more[end:])
    if rest:
        yield b"".join([*rest, b"\n", PADDING])


class _Left:
    """A stream of somebody else's, which stays open."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> Any:
        return self._stream

    def __exit__(self, *_: object) -> None:
        return


class _Peeked:
    """Gives bytes from a stream that may give fewer than asked for, or text; peeks ahead."""

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

    def read(self, size: int) -> bytes:
        if self._head:
            head, self._head = self._head[:size], self._head[size:]
            return head
        return self._more(size)

    def _more(self, size: int) -> bytes:
        more = self._handle.read(size)
        return more.encode(errors="surrogatepass") if isinstance(more, str) else bytes(more or b"")
