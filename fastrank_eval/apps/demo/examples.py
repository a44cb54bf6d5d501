"""Write example inputs: a month of nights with faults, and small files.

Each night is a folder ``day=YYYY-MM-DD``. The month shows what a nightly report is for.

Two models score every impression: `score_a`, in production, and `score_b`, a little better. The
click rate drifts up, weekends are thinner, and of 30 nights

* the 12th: `score_b` is broken, its AUC falls to 0.56;
* the 16th: the partition is there, and has no rows;
* from the 20th: `score_b` is the same for every row of the slot `side`;
* the 24th: a fourth of the rows; the others come late (`write_late`), and the night is run again.

Of the small files, `animals.parquet` has rows of three classes with a score for each, `qrels.txt`
the judgements, and `bm25.run` and `ours.run` two runs of TREC; `ours.run` lacks a query.
"""

from __future__ import annotations

import datetime as dt
import os
from importlib.resources import files
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastrank_eval._lib.arguments import checked, integer
from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval.apps.demo.rows import Impressions, Recipe

FIRST = dt.date(2026, 11, 1)
NIGHTS = 30
#: Which nights, counted from 1.
BAD, EMPTY, BROKEN_SLOT, LATE = 12, 16, 20, 24
_MOST_NIGHTS = 3650
_WEEKEND = 0.8


def write_month(
    folder: str | os.PathLike[str],
    *,
    nights: int = NIGHTS,
    rows: int = 20_000,
    seed: int = 0,
) -> list[Path]:
    """Write a folder a night, in place of those that are there.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    nights : int
        1 to 3650.
    rows : int
        Of a working day; at least 100.
    seed : int
        0 to 2**32 - 1.

    Returns
    -------
    list of Path
        The file of each night: ``day=2026-11-01/part-00000.parquet``.

    Raises
    ------
    ArgumentError
        An option outside its range.
    OutputError
        Something cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_month(folder, nights=2, rows=100)
    ...     [path.parent.name for path in written]
    ['day=2026-11-01', 'day=2026-11-02']
    """
    nights = checked("nights", nights, integer(1, _MOST_NIGHTS))
    _check(rows, seed)
    written = []
    for night in range(1, nights + 1):
        table = _rows_of(night, rows, seed)
        if night == LATE:
            table = table.slice(0, _on_time(table))
        path = _file(Path(folder), night, part=0)
        written.append(_write(table, path))
        path.with_name("part-00001.parquet").unlink(missing_ok=True)
    return written


def write_month_report(path: str | os.PathLike[str], *, rows: int = 20_000) -> None:
    """Write the configuration of a nightly report of the month.

    Parameters
    ----------
    path : path
        The file; the nights are expected in the folder ``logs`` beside it.
    rows : int
        Rows of a working day: a night of fewer than half of them fails.

    Raises
    ------
    OutputError
        It cannot be written.
    """
    text = files("fastrank_eval.apps.demo").joinpath("month.toml").read_text("utf-8")
    text = text.replace("min_rows = 10000", f"min_rows = {rows // 2}")
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


def write_late(folder: str | os.PathLike[str], *, rows: int = 20_000, seed: int = 0) -> Path:
    """Write the rows that the 24th night lacked, as a second file of it.

    Parameters
    ----------
    folder : path
    rows, seed : int
        As `write_month` was called.

    Returns
    -------
    Path
    """
    _check(rows, seed)
    table = _rows_of(LATE, rows, seed)
    return _write(table.slice(_on_time(table)), _file(Path(folder), LATE, part=1))


def _check(rows: int, seed: int) -> None:
    rows = checked("rows", rows, integer(100, 10**9))
    seed = checked("seed", seed, integer(0, 2**32 - 1))


def _day(night: int) -> dt.date:
    return FIRST + dt.timedelta(days=night - 1)


def _file(folder: Path, night: int, part: int) -> Path:
    return folder / f"day={_day(night)}" / f"part-{part:05d}.parquet"


def _rows_of(night: int, rows: int, seed: int) -> pa.Table:
    share = _WEEKEND if _day(night).weekday() >= 5 else 1.0
    many = round(rows * share * (0.97 + 0.06 * (night * 7 % 10) / 9))
    recipe = Recipe(
        0 if night == EMPTY else many,
        seed=(seed << 16) + night,
        auc_a=0.72,
        auc_b=0.56 if night == BAD else 0.74,
        rho=0.9,
        click_rate=min(0.04 + 0.0004 * night, 0.2),
        decimals_b=None,
        median_size=12,
        max_size=120,
    )
    table = Impressions(recipe).reader().read_all().drop_columns(["day"])
    table = table.replace_schema_metadata(None)
    return _without_side(table) if night >= BROKEN_SLOT else table


def _without_side(table: pa.Table) -> pa.Table:
    side = np.asarray(table.column("slot").cast(pa.string()).to_pylist()) == "side"
    score = np.array(table.column("score_b").to_numpy())
    score[side] = np.float32(0.04)
    at = table.schema.get_field_index("score_b")
    return table.set_column(at, table.schema.field(at), pa.array(score, pa.float32()))


def _on_time(table: pa.Table) -> int:
    """Rows of the first groups, a fourth of all."""
    users = table.column("user_id").to_numpy()
    at = len(users) // 4
    while 0 < at < len(users) and users[at] == users[at - 1]:
        at += 1
    return at


def _write(table: pa.Table, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error}") from error
    with atomic_path(path) as part:
        _write_table(table, part)
    return path


def _write_table(table: pa.Table, path: Path) -> None:
    with path.open("wb") as sink:  # Arrow reads the name `s3:x` as an address
        pq.write_table(table, sink)


_KINDS = ("cat", "dog", "owl")
_ROWS, _QUERIES, _DOCUMENTS = 300, 20, 50
#: The query that the second run lacks, and the noise of its scores.
_LACKING, _NOISE = 13, 0.6


def write_samples(folder: str | os.PathLike[str]) -> list[Path]:
    """Write the files, in place of those that are there.

    Parameters
    ----------
    folder : path
        Made if it is not there.

    Returns
    -------
    list of Path

    Raises
    ------
    OutputError
        Something cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_samples(folder)]
    ['animals.parquet', 'qrels.txt', 'bm25.run', 'ours.run']
    """
    random = np.random.default_rng(1)
    names = "animals.parquet", "qrels.txt", "bm25.run", "ours.run"
    paths = [Path(folder, name) for name in names]
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        _write_table(_animals(random), paths[0])
        for path, lines in zip(paths[1:], _trec(random), strict=True):
            path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error}") from error
    return paths


def _animals(random: np.random.Generator) -> pa.Table:
    """Make rows of three classes with a probability of each class.

    The probabilities are right more often than not.
    """
    kind = random.integers(0, len(_KINDS), _ROWS)
    odds = random.exponential(size=(_ROWS, len(_KINDS)))
    odds[np.arange(_ROWS), kind] *= 3
    shares = odds / odds.sum(axis=1, keepdims=True)
    columns = {f"p_{name}": shares[:, index] for index, name in enumerate(_KINDS)}
    return pa.table({"kind": [_KINDS[index] for index in kind.tolist()], **columns})


def _trec(random: np.random.Generator) -> tuple[list[str], list[str], list[str]]:
    """Make the lines of TREC judgements and of two runs.

    Every other document of a query has a judgement; the first run has all of them. The second is a
    little better, and lacks a query.
    """
    second = np.random.default_rng(2)
    qrels, bm25, ours = [], [], []
    for query in range(1, _QUERIES + 1):
        grade = random.choice([0, 0, 0, 1, 2], _DOCUMENTS)
        score = np.round(np.sort(random.normal(grade, 1.0) + 10)[::-1], 4)
        order = np.argsort(-(random.normal(grade, 1.0)))
        qrels += [f"q{query} 0 d{d} {grade[d]}" for d in range(0, _DOCUMENTS, 2)]
        bm25 += [
            f"q{query} Q0 d{d} {rank} {score[rank - 1]} bm25" for rank, d in enumerate(order, 1)
        ]
        other = np.round(second.normal(grade, _NOISE), 4)
        if query != _LACKING:
            ours += [
                f"q{query} Q0 d{d} {rank} {other[d]} ours"
                for rank, d in enumerate(np.argsort(-other, kind="stable"), 1)
            ]
    return qrels, bm25, ours
