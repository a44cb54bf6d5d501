"""Stream impressions to a Parquet file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from fastrank_eval._lib.arguments import checked, integer
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.files import atomic_path, check_writable
from fastrank_eval.apps.demo.rows import MOST_BATCH_ROWS, Impressions, Recipe


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes
    ----------
    path : Path
        The file.
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
    overwrite: bool = False,
    row_group_rows: int = 1 << 18,
    **choices: Any,
) -> Written:
    """Write impressions to a Parquet file.

    Parameters
    ----------
    path : path
        The output; its folder must exist.
    rows : int
        Number of rows, 0 to 10**12.
    overwrite : bool, default False
        Replace an existing file.
    row_group_rows : int
        Rows of a row group, 1 to 2**24; memory is proportional to it.
    **choices
        Options of `Recipe`.

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
    row_group_rows = checked("row_group_rows", row_group_rows, integer(1, MOST_BATCH_ROWS))
    log = Impressions(Recipe(rows, **choices))
    recipe, positives = log.recipe, 0
    check_writable(target, overwrite)
    with (
        atomic_path(target, overwrite=overwrite) as part,
        part.open("wb") as sink,  # Arrow reads the name `s3:x` as an address
        pq.ParquetWriter(sink, log.schema, **_storage(log)) as writer,
    ):
        for batch in log.reader(row_group_rows):
            positives += int((batch.column(1).to_numpy() > 0).sum())
            writer.write_batch(batch, row_group_size=batch.num_rows)
    auc_a, auc_b, size = recipe.model_a.auc, recipe.model_b.auc, target.stat().st_size
    return Written(target, rows, log.groups, positives, auc_a, auc_b, size)


def _storage(log: Impressions) -> dict[str, object]:
    """Choose the columns that get dictionary pages and statistics.

    Those for which they are worth their time.
    """
    recipe = log.recipe
    repeating = [recipe.labels, "weight", "slot", "country", "day"]
    if recipe.order != "shuffled":
        repeating.append("user_id")
    for name, decimals in (("score_a", recipe.decimals_a), ("score_b", recipe.decimals_b)):
        repeating += [name] * (decimals is not None and decimals <= 4)
    measured = [name for name in log.schema.names if name not in ("slot", "country")]
    return {"use_dictionary": repeating, "write_statistics": measured}
