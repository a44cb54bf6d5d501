"""The rows of a Parquet file, row group by row group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from fastrank_eval.errors import SourceError
from fastrank_eval.sources.paths import File
from fastrank_eval.sources.ranges import Range, row_group_ranges
from fastrank_eval.sources.soundness import checked
from fastrank_eval.sources.unread import Unread

__all__ = ["open_parquet", "unread"]

_LOCAL_BUFFER = 1 << 20  # bytes a column; a remote read costs a round trip, so it fetches more
_REMOTE_BUFFER = 1 << 23
#: Rows of a file up to which it is opened again for each reading.
_SHORT = 1 << 17


@contextmanager
def open_parquet(file: File) -> Iterator[Any]:
    """Open a file as a `pyarrow.parquet.ParquetFile`."""
    with file.filesystem.open_input_file(file.path) as handle, _parquet(file, handle) as parquet:
        yield parquet


def _parquet(file: File, handle: pa.NativeFile, metadata: Any = None) -> Any:
    import pyarrow.parquet as papq

    # Not memory mapped: a file cut short while it is read would kill the process (SIGBUS).
    # Not through a dataset scan: it decodes whole row groups ahead, so memory follows the file.
    local = isinstance(file.filesystem, pafs.LocalFileSystem)
    return papq.ParquetFile(
        handle,
        metadata=metadata,
        buffer_size=_LOCAL_BUFFER if local else _REMOTE_BUFFER,
        pre_buffer=False,
        page_checksum_verification=True,
    )


def unread(
    file: File,
    targets: Mapping[str, pa.DataType],
    wanted: Callable[[Mapping[str, Range]], bool] | None = None,
) -> Unread:
    """The row groups of a file that hold rows, to be read later.

    Parameters
    ----------
    file : File
    targets : mapping of str to pyarrow.DataType
        Columns to read, those that the file lacks left out.
    wanted : callable, optional
        Told what the statistics of a row group tell, says whether its rows are.
    """
    handle = file.filesystem.open_input_file(file.path)
    with _parquet(file, handle) as parquet:
        state = _state(file, handle)
        metadata = parquet.metadata
        own = [name for name in targets if name in parquet.schema_arrow.names]
        rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
        found = tuple(
            (g, held)
            for g, held in enumerate(rows)
            if held and (wanted is None or wanted(row_group_ranges(parquet, g, targets)))
        )
    # A long file stays open, so that one that takes its place meanwhile does not matter. Thousands
    # of short ones may wait in a stretch, and handles of file systems written in Python are not
    # safe between threads: those are opened once more.
    kept: pa.NativeFile | None = handle
    if sum(rows) <= _SHORT or _in_python(file.filesystem):
        handle.close()
        kept = None

    def read(groups: tuple[int, ...], most: int, threads: bool) -> Iterator[pa.RecordBatch]:
        left = sum(rows[g] for g in groups)
        anew = file.filesystem.open_input_file(file.path) if kept is None else None
        with nullcontext(kept) if anew is None else anew as handle:
            _refuse_changes(file, handle, state, kept is not None)
            with _parquet(file, handle, metadata) as opened:
                for batch in checked(opened.iter_batches(most, groups, own, use_threads=threads)):
                    left -= batch.num_rows
                    yield batch
            _refuse_changes(file, handle, state, kept is not None)
        if left:  # Arrow takes row groups that are cut off for empty ones
            raise EOFError(f"{left:,} of its rows are missing")

    return Unread(found, read)


def _in_python(filesystem: pafs.FileSystem) -> bool:
    while isinstance(filesystem, pafs.SubTreeFileSystem):
        filesystem = filesystem.base_fs
    return isinstance(filesystem, pafs.PyFileSystem)


def _state(file: File, handle: pa.NativeFile) -> tuple[int, ...]:
    """What tells a file from another of its name, and from itself once it is changed."""
    if isinstance(file.filesystem, pafs.LocalFileSystem):
        now = Path(file.path).stat()
        return now.st_ino, now.st_size, now.st_mtime_ns
    return (handle.size(),)


def _refuse_changes(file: File, handle: pa.NativeFile, state: tuple[int, ...], kept: bool) -> None:
    """Row groups of two versions of a file would make one number of both."""
    try:
        now = _state(file, handle)
    except FileNotFoundError:
        if kept:
            return
        raise
    if now == state or (kept and now[0] != state[0]):
        return
    raise SourceError(
        f"Cannot read {file.name!r}: it was changed while it was read. "
        "Evaluate it again once it is complete."
    )
