"""Damaged columns that a reader, a frame or a table brings end in an error, not in a crash."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.io.source import check_batches

ROWS = 1000
USERS = [f"user {row // 5}" for row in range(ROWS)]


def damaged_text(offset: int = 1 << 30, text: bytes = b"", wide: bool = False) -> pa.Array:
    """Keys with one offset that lies outside their bytes, or with bytes that are no UTF-8."""
    kind = pa.large_string() if wide else pa.string()
    _, offsets, content = pa.array(USERS, kind).buffers()
    places = np.frombuffer(offsets, np.int64 if wide else np.int32)[: ROWS + 1].copy()
    held = bytearray(content)
    if text:
        held[: len(text)] = text
    else:
        places[500] = offset
    return pa.Array.from_buffers(kind, ROWS, [None, pa.py_buffer(places), pa.py_buffer(held)])


def damaged_dictionary() -> pa.Array:
    numbers = np.repeat(np.arange(ROWS // 5, dtype=np.int32), 5)
    numbers[500] = 1 << 20
    return pa.DictionaryArray.from_arrays(
        pa.array(numbers), pa.array([f"user {n}" for n in range(ROWS // 5)]), safe=False
    )


DAMAGES = {
    "offset too great": damaged_text,
    "offset below 0": lambda: damaged_text(-5),
    "offset too great, 64 bits": lambda: damaged_text(1 << 40, wide=True),
    "no UTF-8": lambda: damaged_text(text=b"\xff\xfe"),
    "index out of range": damaged_dictionary,
}


def table_of(users: pa.Array) -> pa.Table:
    rng = np.random.default_rng(0)
    click = pa.array((np.arange(ROWS) % 5 == 0).astype(np.int8))
    return pa.table({"user": users, "click": click, "pctr": pa.array(rng.random(ROWS))})


def standard_input(table: pa.Table) -> str:
    return "-"


SOURCES: dict[str, Callable[[pa.Table], object]] = {
    "RecordBatchReader": lambda table: table.to_reader(),
    "__arrow_c_stream__": lambda table: SimpleStream(table),
    "Table": lambda table: table,
    "RecordBatch": lambda table: table.to_batches()[0],
    "list of batches": lambda table: table.to_batches(),
    "iterator of batches": lambda table: iter(table.to_batches()),
    "mapping": lambda table: {name: table.column(name) for name in table.column_names},
    "stream on standard input": standard_input,
}


class SimpleStream:
    """A frame of another library."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_group_column__is_an_error_whatever_brings_it(
    damage: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(DAMAGES[damage]())
    if source == "stream on standard input":
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        held = io.BytesIO(sink.getvalue())
        stdin = SimpleNamespace(buffer=held, isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(fe.SourceError, match=r"(?i)cannot read .*(offset|utf8|index|indices)"):
        fe.evaluate(
            SOURCES[source](table), group="user", label="click", score="pctr", measures="GAUC"
        )


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_column_of_slices__is_an_error(damage: str) -> None:
    table = table_of(pa.array(USERS)).append_column("slot", DAMAGES[damage]())
    with pytest.raises(fe.SourceError, match="Cannot read"):
        fe.evaluate(table, group="user", label="click", score="pctr", measures="GAUC", by="slot")


def every_type() -> Iterator[tuple[str, Any]]:
    texts = ["a", "b\u00e9", None, "", "ccc" * 40]
    yield "text", pa.array(texts)
    yield "long text", pa.array(texts, pa.large_string())
    yield "views", pa.array(texts).cast(pa.string_view())
    yield "bytes", pa.array(texts).cast(pa.binary())
    yield "dictionary", pa.array(texts).dictionary_encode()
    yield "dictionary without nulls", pa.array(["a", "b", "a", "\u00e9", "a"]).dictionary_encode()
    yield "run ends", pa.RunEndEncodedArray.from_arrays([2, 5], ["a", "b"])
    yield "lists", pa.array([[1], [], None, [2, 3], [4]])
    yield "decimals", pa.array([1, 2, 3, 4, 5]).cast(pa.decimal128(21, 2))
    yield "bools", pa.array([True, None, False, True, True])
    yield "nothing", pa.nulls(5)


@pytest.mark.parametrize("called,column", list(every_type()))
def test_sound_columns_of_any_type__pass_whole_and_sliced(called: str, column: pa.Array) -> None:
    for part in (column, column.slice(1, 3), column.slice(4), column.slice(0, 0)):
        batch = pa.record_batch([part], ["x"])
        assert list(check_batches([batch])) == [batch]
