"""The rows of a Parquet file, row group by row group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from fastrank_eval.sources.paths import File
from fastrank_eval.sources.ranges import Range, row_group_ranges
from fastrank_eval.sources.reading import checked
from fastrank_eval.sources.unread import Unread

__all__ = ["open_parquet", "unread"]

_LOCAL_BUFFER = 1 << 20  # bytes a column; a remote read costs a round trip, so it fetches more
_REMOTE_BUFFER = 1 << 23


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
    # Opened once: a file that is replaced meanwhile would have other row groups.
    handle = file.filesystem.open_input_file(file.path)
    parquet = _parquet(file, handle)
    metadata = parquet.metadata
    own = [name for name in targets if name in parquet.schema_arrow.names]
    rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]

    def read(groups: tuple[int, ...], most: int, threads: bool) -> Iterator[pa.RecordBatch]:
        left = sum(rows[g] for g in groups)
        with _parquet(file, handle, metadata) as opened:
            for batch in checked(opened.iter_batches(most, groups, own, use_threads=threads)):
                left -= batch.num_rows
                yield batch
        if left:  # Arrow takes row groups that are cut off for empty ones
            raise EOFError(f"{left:,} of its rows are missing")

    found = (
        (g, held)
        for g, held in enumerate(rows)
        if held and (wanted is None or wanted(row_group_ranges(parquet, g, targets)))
    )
    return Unread(tuple(found), read)
