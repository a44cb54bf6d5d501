"""Stream impressions to Parquet.

The output has a temporary name first and is renamed when complete.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Unpack, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from fastrank_eval._lib.arguments import checked, integer
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, OutputError
from fastrank_eval.apps.demo.rows import MOST_BATCH_ROWS, Choices, Impressions, Recipe

Compression = Literal["none", "snappy", "zstd"]

_PART = "part-{:05d}.parquet"


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes
    ----------
    path : Path
        The file, or the folder of part files.
    rows, groups, positives : int
        Counts; a positive has a label of 1 or above.
    auc_a, auc_b : float
        AUC of the two scores in closed form, rounding included.
    bytes : int
        Size on disk.
    """

    path: Path
    rows: int
    groups: int
    positives: int
    auc_a: float
    auc_b: float
    bytes: int

    def __str__(self) -> str:
        share = f"{100.0 * self.positives / self.rows:.2f} %" if self.rows else "none"
        return (
            f"wrote {self.path}: {self.rows:,} rows, {self.groups:,} groups, positives {share}, "
            f"AUC in closed form: score_a {self.auc_a:.6f}, score_b {self.auc_b:.6f}, "
            f"{self.bytes / 1e6:,.1f} MB"
        )


def write_parquet(
    path: str | os.PathLike[str],
    rows: int,
    *,
    files: int | None = None,
    overwrite: bool = False,
    compression: Compression = "snappy",
    row_group_rows: int = 1 << 18,
    **choices: Unpack[Choices],
) -> Written:
    """Write impressions to one Parquet file, or to a folder of files.

    Parameters
    ----------
    path : path
        The output; its parent folder must exist.
    rows : int
        Number of rows, 0 to 10**12.
    files : int or None
        None: one file. N: a folder of N files, rows split evenly in order; groups may span files.
    overwrite : bool, default False
        Replace an existing file, or an existing folder that holds nothing but part files.
    compression : {'snappy', 'zstd', 'none'}
        Of every column.
    row_group_rows : int
        Rows of a row group, 1 to 2**24; memory is proportional to it.
    **choices
        Options of `impressions`, all but `batch_rows`.

    Returns
    -------
    Written
        Path, counts and the closed-form AUC of both scores.

    Raises
    ------
    ArgumentError
        An option outside its range.
    OutputError
        The output exists, or cannot be written. Nothing is left behind.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_parquet(pathlib.Path(folder) / "log.parquet", 1000, seed=3)
    >>> written.rows
    1000
    """
    target = Path(path)
    if files is not None:
        files = checked("files", files, integer(1, 100_000))
    row_group_rows = checked("row_group_rows", row_group_rows, integer(1, MOST_BATCH_ROWS))
    if compression not in get_args(Compression):
        allowed = ", ".join(get_args(Compression))
        raise ArgumentError(f"compression must be one of {allowed}; got {compression!r}")
    recipe = Recipe(rows, **choices)
    _check_target(target, folder=files is not None, overwrite=overwrite)
    log = Impressions(recipe)
    reader = log.reader(row_group_rows)
    with renamed_when_done(target) as draft:
        if files is None:
            ends, names = [rows], [draft]
        else:
            draft.mkdir()
            ends = [rows * part // files for part in range(1, files + 1)]
            names = [draft / _PART.format(part) for part in range(files)]
        positives = _write(log, _cut(_one_ahead(reader), ends), names, compression)
    parts = [target] if files is None else sorted(target.iterdir())
    return Written(
        target, rows, log.groups, positives, recipe.model_a.auc, recipe.model_b.auc,
        sum(part.stat().st_size for part in parts),
    )  # fmt: skip


def _check_target(target: Path, *, folder: bool, overwrite: bool) -> None:
    if not target.parent.is_dir():
        raise OutputError(f"{target}: the folder {target.parent} does not exist; create it first")
    if not os.path.lexists(target):
        return
    if folder:
        if not target.is_dir():
            raise OutputError(f"{target} is a file, not a folder; choose another name")
        strangers = [entry.name for entry in target.iterdir() if not _is_part(entry)]
        if strangers:
            raise OutputError(
                f"{target} holds {strangers[0]!r}, which is not a part file, and is never "
                "replaced; choose another folder"
            )
    elif target.is_dir():
        raise OutputError(f"{target} is a folder; name a file in it, or ask for several files")
    if not overwrite:
        raise OutputError(f"{target} exists; choose another name, or allow it to be overwritten")


def _is_part(entry: Path) -> bool:
    digits = entry.name.removeprefix("part-").removesuffix(".parquet")
    return entry.name == f"part-{digits}.parquet" and digits.isdecimal() and entry.is_file()


@contextmanager
def renamed_when_done(target: Path) -> Iterator[Path]:
    """Lend the name of a file or folder that replaces the target on success.

    Nothing is left of it after a failure.
    """
    try:
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary:
            draft = Path(temporary, target.name)
            yield draft
            if target.is_dir():  # a folder cannot be renamed over one that holds files
                target.replace(Path(temporary, "old"))
            draft.replace(target)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error}") from error


def _cut(
    batches: Iterable[pa.RecordBatch], ends: Sequence[int]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut a stream at row numbers; yields (part, batch)."""
    row = part = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            while ends[part] == row:
                part += 1
            stop = min(batch.num_rows, start + ends[part] - row)
            yield part, batch.slice(start, stop - start)
            row += stop - start
            start = stop


def _write(
    log: Impressions,
    pieces: Iterator[tuple[int, pa.RecordBatch]],
    names: Sequence[Path],
    compression: Compression,
) -> int:
    """Write the pieces of each part to its file; return the positives.

    Empty parts are written too.
    """
    positives = 0
    piece = next(pieces, None)
    for part, name in enumerate(names):
        with (
            name.open("wb") as sink,  # Arrow reads the name `s3:x` as an address
            pq.ParquetWriter(sink, log.schema, **_storage(log, compression)) as writer,
        ):
            while piece is not None and piece[0] == part:
                batch = piece[1]
                positives += int((batch.column(1).to_numpy() > 0).sum())
                writer.write_batch(batch, row_group_size=batch.num_rows)
                piece = next(pieces, None)
    return positives


def _storage(log: Impressions, compression: Compression) -> dict[str, object]:
    """Choose the columns that get dictionary pages and statistics.

    Those for which they are worth their time.
    """
    recipe = log.recipe
    repeating = [recipe.label, "weight", "slot", "country", "day"]
    if recipe.order != "shuffled":
        repeating.append("user_id")
    if recipe.decimals_b is not None and recipe.decimals_b <= 4:
        repeating.append("score_b")
    if recipe.decimals_a is not None and recipe.decimals_a <= 4:
        repeating.append("score_a")
    measured = [name for name in log.schema.names if name not in ("slot", "country")]
    return {
        "use_dictionary": repeating,
        "write_statistics": measured,
        "compression": compression,
    }


def _one_ahead(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make the next batch in a thread while the caller writes the present one."""
    source = iter(batches)
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming = pool.submit(next, source, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, source, None)
            yield batch
