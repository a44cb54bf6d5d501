"""Inputs that change or end while they are read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, ipc, parquet

import fastrank_eval as fe
from tests.apps.cli.test_interruptions import SCHEMA, rows

pytestmark = pytest.mark.no_kernels

# ---- inputs that change while they are read ------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Write files of several batches once."""
    folder = tmp_path_factory.mktemp("written")

    def path_of(name: str) -> Path:
        if not (folder / name).exists():
            WRITERS[name](long_table(), folder / name)
        return folder / name

    return path_of


@cache
def long_table() -> pa.Table:
    generator = np.random.default_rng(3)
    count = 3_000_000
    return pa.table(
        {
            "user": np.repeat(np.arange(count // 30), 30),
            "click": generator.integers(0, 2, count).astype(np.int8),
            "pctr": generator.random(count),
        }
    )


def once_begun(act: Callable[[], object]) -> Callable[[fe.Progress], None]:
    """A callback that does something after the first rows were read."""
    acted: list[object] = []

    def hear(progress: fe.Progress) -> None:
        if progress.rows and not acted:
            acted.append(act())

    return hear


def evaluate(source: Any, progress: Callable[[fe.Progress], None]) -> fe.Result:
    columns = {"group": "user", "label": "click", "score": "pctr"}
    return fe.evaluate(source, **columns, measures="GAUC", order="grouped", progress=progress)


def write_parquet(table: pa.Table, path: Path) -> None:
    parquet.write_table(table, path, row_group_size=1 << 16)


def write_stream(table: pa.Table, path: Path) -> None:
    with ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, max_chunksize=1 << 16)


def write_ipc(table: pa.Table, path: Path) -> None:
    with ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=1 << 16)


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "log.parquet": write_parquet, "log.arrow": write_ipc, "stream.arrow": write_stream,
    "log.csv": csv.write_csv,
}  # fmt: skip


@pytest.mark.parametrize("share", [0, 0.01, 0.5])
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.usefixtures("never_resting")
def test_file__cut_short_midway__is_named(
    tmp_path: Path, written: Callable[[str], Path], name: str, share: float
) -> None:
    path = shutil.copy(written(name), tmp_path / name)
    size = int(path.stat().st_size * share)
    with pytest.raises(fe.SourceError, match=f"Cannot read '.*{name}': "):
        evaluate(path, once_begun(lambda: os.truncate(path, size)))


@pytest.mark.usefixtures("never_resting")
@pytest.mark.parametrize(
    "put", [lambda path: path.unlink(), lambda path: path.with_name("x").rename(path)]
)
def test_file__replaced_midway__is_read_as_it_was(
    tmp_path: Path, written: Callable[[str], Path], put: Callable[[Path], object]
) -> None:
    (tmp_path / "x").touch()
    path = shutil.copy(written("log.parquet"), tmp_path / "log.parquet")
    assert evaluate(path, once_begun(lambda: put(path))).meta.rows == long_table().num_rows


def test_file__vanishes_midway__is_named(tmp_path: Path) -> None:
    for number in range(3):
        table = pa.Table.from_batches([rows(10 * number)])
        parquet.write_table(table, tmp_path / f"part-{number}.parquet")

    def remove(progress: fe.Progress) -> None:
        (tmp_path / "part-2.parquet").unlink(missing_ok=True)

    with pytest.raises(fe.SourceError, match=r"part-2\.parquet'.*no such file"):
        evaluate(tmp_path, remove)


def test_stream__cut_short_midway__is_an_error() -> None:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, SCHEMA) as stream:
        for user in range(0, 100, 10):
            stream.write_batch(rows(user))
    whole = sink.getvalue()
    with pytest.raises(fe.SourceError, match="Cannot read"):
        evaluate(ipc.open_stream(whole.slice(0, whole.size // 2)), lambda _: None)
