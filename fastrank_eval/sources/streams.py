"""Arrow IPC streams, and whether they were written to their end."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from fastrank_eval.errors import SourceError

__all__ = ["StreamBytes", "open_stream"]


class StreamBytes:
    """The bytes of a stream, which notice a reader that asks for more than there are.

    Arrow ends a stream at its end-of-stream marker, and just as well where the bytes end between
    two batches. Only in the second case it asks for bytes after the last.

    Parameters
    ----------
    file : binary file
    """

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self._ran_out = False

    def read(self, size: int = -1) -> bytes:
        """Read so many bytes, fewer at the end."""
        found: bytes = self._file.read(size)
        self._ran_out = self._ran_out or (size != 0 and not found)
        return found

    def readable(self) -> bool:
        """Tell Arrow that it can read."""
        return True

    def close(self) -> None:
        """Leave the file to whoever opened it."""

    def refuse_unfinished(self, name: str) -> None:
        """Refuse a stream that was read to its end and has no marker there, or bytes behind it.

        Raises
        ------
        SourceError
        """
        if self._ran_out:
            raise SourceError(
                f"Cannot read {name}: the Arrow stream has no end-of-stream marker, so its writer "
                "may have stopped before the last row. Close the writer of the stream, or accept "
                "the rows that are there with allow_unfinished=True (--allow-unfinished)."
            )
        if self._file.read(1):
            raise SourceError(
                f"Cannot read {name}: bytes follow the end-of-stream marker of the Arrow stream, "
                "so that rows would be left out. Write one stream, or read each file by its name."
            )


def open_stream(file: Any) -> tuple[pa.RecordBatchReader, StreamBytes]:
    """Open an Arrow IPC stream; its bytes tell afterwards whether it was finished."""
    stream = StreamBytes(file)
    return pa.ipc.open_stream(stream), stream
