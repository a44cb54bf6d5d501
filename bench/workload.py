"""What is measured: inputs from data_gen, lists of measures, and one evaluation of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

import fastrank_eval
from fastrank_eval.apps.demo import impressions, write_parquet
from fastrank_eval.apps.demo.rows import BATCH_ROWS

if TYPE_CHECKING:
    from fastrank_eval import Result

__all__ = [
    "BY_NAME",
    "CASES",
    "COLUMNS",
    "EIGHT",
    "FULL_ROWS",
    "INPUTS",
    "LARGE",
    "MEASURES",
    "ORDERS",
    "OTHER_MODEL",
    "PAIRED",
    "SEED",
    "SEVEN",
    "SMALL_ROWS",
    "THREADS",
    "Input",
    "bytes_read",
    "decode",
    "evaluate",
    "rounds_wanted",
    "rows_wanted",
    "sliced",
    "table_of",
    "two_models",
    "write_rows",
]

EIGHT = "GAUC,AUC,nDCG@10,AP,RR,ERR(max_grade=1)@10,P@10,R@10"
SEVEN = EIGHT.replace(",AUC,", ",")  # without the pooled AUC, which has to keep every score
PAIRED = "GAUC,nDCG@10,AP"  # of two models, with standard errors of the differences
MEASURES = {"GAUC": "GAUC", "AUC": "AUC", "eight": EIGHT, "seven": SEVEN, "paired": PAIRED}
THREADS = (1, 2)

FULL_ROWS = 10_000_000
LARGE = 3  # the larger file of the memory test holds this many times the rows
SMALL_ROWS = 1_000  # of the small file, whose time is all start-up
SLICES = 10
ORDERS = ("sorted", "shuffled")  # of the files that fresh processes read
COLUMNS = ["user_id", "click", "score_a"]
OTHER_MODEL = "score_b"
SEED = 1


@dataclass(frozen=True)
class Input:
    """Rows in one order, with one kind of group key.

    Parameters
    ----------
    name : str
        As the report prints it.
    options : dict
        Of `demo.impressions`.
    presorted : bool
        Evaluate with ``order="sorted"``; otherwise the engine finds out the order by itself.
    contiguous : bool
        One chunk a column, as pandas, polars and NumPy hand data over; otherwise in chunks.
    """

    name: str
    options: dict[str, Any] = field(hash=False)
    presorted: bool = False
    contiguous: bool = False


INPUTS = (
    Input("presorted", {"order": "sorted"}, presorted=True, contiguous=True),
    Input(f"presorted, chunks of {BATCH_ROWS:,}", {"order": "sorted"}, presorted=True),
    Input("grouped, unsorted", {"order": "grouped"}),
    Input("shuffled int64, dense", {"order": "shuffled"}),
    Input("shuffled int64, hash-like", {"order": "shuffled", "id_style": "random64"}),
    Input("shuffled string", {"order": "shuffled", "ids": "string"}),
)

BY_NAME = {given.name: given for given in INPUTS}

#: Each input with GAUC and the eight on one thread and two; the seven, for which there are targets
#: on two threads only, where groups are contiguous or keys lie close together.
CASES = [
    (given, measures, threads)
    for given in INPUTS
    for measures, counts in (("GAUC", THREADS), ("eight", THREADS), ("seven", THREADS[-1:]))
    for threads in counts
    if measures != "seven"
    or given.name in ("presorted", "grouped, unsorted", "shuffled int64, dense")
]


def rows_wanted() -> int:
    """Rows of each input: 10**7, or what FASTRANK_BENCH_ROWS says (1e6 and 1_000_000 are fine)."""
    return int(float(os.environ.get("FASTRANK_BENCH_ROWS", FULL_ROWS)))


def rounds_wanted() -> int:
    """Timed rounds of each case, at least: 5, or what FASTRANK_BENCH_ROUNDS says."""
    return int(os.environ.get("FASTRANK_BENCH_ROUNDS", "5"))


def table_of(given: Input, rows: int, columns: Sequence[str] = COLUMNS) -> pa.Table:
    """Generate an input in memory: the columns that are read."""
    reader = impressions(rows, **given.options, seed=SEED)
    schema = pa.schema([reader.schema.field(name) for name in columns])
    table = pa.Table.from_batches((batch.select(columns) for batch in reader), schema)
    return table.combine_chunks() if given.contiguous else table


def write_rows(path: Path, rows: int, order: Literal["sorted", "shuffled"] = "sorted") -> None:
    """Write impressions, all columns of the log, to one Parquet file."""
    write_parquet(path, rows, seed=SEED, order=order)


def bytes_read(path: Path) -> int:
    """Count the bytes of the three columns of a file once they are decoded."""
    file = parquet.ParquetFile(path)
    widths = [file.schema_arrow.field(name).type.bit_width // 8 for name in COLUMNS]
    rows: int = file.metadata.num_rows
    return rows * int(sum(widths))


def two_models(table: pa.Table) -> pa.Table:
    """Add a second model, "again", whose scores are those of the first: both are in order."""
    return table.append_column("again", table.column("score_a"))


def sliced(table: pa.Table) -> pa.Table:
    """Add what ten slices are cut by: "whole" keeps groups together, "cut" parts each of them."""
    whole = pc.bit_wise_and(pc.multiply(table.column("user_id"), 7919), 0x7FFFFFFF)
    cut = np.random.default_rng(SEED).integers(0, SLICES, table.num_rows, np.int16)
    remainder = pc.subtract(whole, pc.multiply(pc.divide(whole, SLICES), SLICES))
    columns = {"whole": remainder.cast(pa.int16()), "cut": pa.array(cut)}
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table.combine_chunks()


def decode(path: Path, way: str, threads: int) -> int:
    """Decode the three columns of a file, and do nothing with them.

    Parameters
    ----------
    path : Path
    way : {'batches', 'table'}
        A stream of batches, or all at once.
    threads : int
        Of Arrow's own.

    Returns
    -------
    int
        The number of rows.
    """
    before = pa.cpu_count()
    pa.set_cpu_count(threads)
    try:
        if way == "table":
            return int(parquet.read_table(path, columns=COLUMNS, use_threads=True).num_rows)
        with parquet.ParquetFile(path) as file:
            batches = file.iter_batches(BATCH_ROWS, columns=COLUMNS, use_threads=True)
            return sum(batch.num_rows for batch in batches)
    finally:
        pa.set_cpu_count(before)


def evaluate(
    source: pa.Table | Path,
    measures: str,
    *,
    threads: int | None = None,
    presorted: bool = False,
    score: Sequence[str] = ("score_a",),
    by: Sequence[str] = (),
) -> Result:
    """Evaluate one model or more, and slices, without keeping per-group values."""
    result: Result = fastrank_eval.evaluate(
        source,
        group="user_id",
        label="click",
        score=list(score),
        measures=measures,
        threads=threads,
        order="sorted" if presorted else "auto",
        keep="",
        by=list(by),
    )
    return result
