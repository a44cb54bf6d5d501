"""Small sources of each kind, and how tests read them."""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from fastrank_eval._lib.errors import SourceError
from fastrank_eval.io.reader import open_source
from fastrank_eval.io.source import Source

COLUMNS: dict[str, list[Any]] = {
    "user": [1, 1, 2, 3],
    "click": [0, 1, 1, 0],
    "score": [0.5, 0.25, 0.75, -1.0],
}
TABLE = pa.table(COLUMNS)


def read(source: Source, *names: str) -> dict[str, list[Any]]:
    batches = list(source.batches(names))
    assert all(batch.num_rows and batch.schema.names == list(names) for batch in batches)
    return {name: [v for b in batches for v in b.column(name).to_pylist()] for name in names}


def failure(path: object, **options: Any) -> str:
    def read_all() -> None:
        source = open_source(path, **options)
        for _ in source.batches(source.schema.names):
            pass

    with pytest.raises(SourceError) as caught:
        read_all()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write_parquet(path: Path, values: Sequence[int], name: str = "x", **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: list(values)}), path, **options)
    return path


def write_stream(table: pa.Table, rows: int = 2) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


def write_ipc(path: Path, table: pa.Table) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


def write_file(path: Path, kind: str) -> Path:
    if kind == "parquet":
        pq.write_table(TABLE, path, row_group_size=3)
    elif kind == "ipc file":
        write_ipc(path, TABLE)
    elif kind == "ipc stream":
        path.write_bytes(write_stream(TABLE))
    elif kind == "feather":
        pa.feather.write_feather(TABLE, path)
    elif kind == "csv":
        pa.csv.write_csv(TABLE, path)
    elif kind == "tsv":
        pa.csv.write_csv(TABLE, path, pa.csv.WriteOptions(delimiter="\t"))
    else:
        sink = io.BytesIO()
        pa.csv.write_csv(TABLE, sink)
        path.write_bytes(gzip.compress(sink.getvalue()))
    return path
