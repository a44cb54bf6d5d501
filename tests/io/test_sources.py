"""What may be opened, how columns are asked for, and standard input."""

import gzip
import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.errors import ColumnError, SourceError
from fastrank_eval.io.reader import open_source
from tests.support.source_files import (
    COLUMNS,
    TABLE,
    failure,
    read,
    write_file,
    write_ipc,
    write_stream,
)
from tests.support.transcripts import answers

pytestmark = pytest.mark.no_kernels


def test_column_name_that_occurs_twice__is_refused_where_it_is_asked_for(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "b", "a"])
    files = [tmp_path / f"x.{suffix}" for suffix in ("parquet", "arrow", "csv")]
    pq.write_table(table, files[0])
    write_ipc(files[1], table)
    pa.csv.write_csv(table, files[2])
    for given in (table, table.to_batches()[0], table.to_reader(), *files):
        source = open_source(given)
        with pytest.raises(ColumnError, match="'a' occurs 2 times"):
            source.batches(["a"])
        assert read(source, "b") == {"b": [2]}


class Piped:
    def __init__(self, content: bytes, terminal: bool = False) -> None:
        self.buffer = io.BytesIO(content)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def test_standard_input__arrow_stream_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Piped(write_stream(TABLE)))
    source = open_source("-")
    assert source.name == "standard input"
    assert not source.rereadable
    assert read(source, "score", "click") == {k: COLUMNS[k] for k in ("score", "click")}
    with pytest.raises(SourceError, match="only once"):
        source.batches(["click"])


@pytest.mark.parametrize("cut", [0, 1, 5, 100, 0.5, 0.7, 0.9])
def test_standard_input__truncated(monkeypatch: pytest.MonkeyPatch, cut: float) -> None:
    whole = write_stream(TABLE)
    size = cut if isinstance(cut, int) else int(len(whole) * cut) | 1
    monkeypatch.setattr(sys, "stdin", Piped(whole[:size]))
    assert "Cannot read standard input" in failure("-")


NO_MARKER = write_stream(pa.table({"x": [1, 2, 4294967295]}), rows=1)[:-8]  # looks like one


def test_standard_input__without_its_end_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Piped(NO_MARKER))
    message = failure("-")
    assert "Cannot read standard input: the Arrow stream has no end-of-stream marker" in message
    assert "pass a reader of the rows that are there: pyarrow.ipc.open_stream(...)" in message
    rows = pa.ipc.open_stream(NO_MARKER)
    assert read(open_source(rows), "x") == {"x": [1, 2, 4294967295]}


@pytest.mark.parametrize("name", ["x.arrow", "x.arrows", "x.arrow.gz"])
@pytest.mark.parametrize("legacy", [False, True])
def test_stream_file__without_its_end_marker(tmp_path: Path, name: str, legacy: bool) -> None:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(use_legacy_format=legacy)
    writer = pa.ipc.new_stream(sink, TABLE.schema, options=options)
    writer.write_table(TABLE)
    unfinished = sink.getvalue()
    writer.close()
    for content in (unfinished, sink.getvalue()):
        packed = gzip.compress(content) if name.endswith(".gz") else content
        (tmp_path / name).write_bytes(packed)
        if content is unfinished:
            assert f"{name}': the Arrow stream has no end-of-stream marker" in failure(tmp_path)
        else:
            assert read(open_source(tmp_path), "score") == {"score": COLUMNS["score"]}


def test_standard_input__not_an_arrow_stream(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for kind in ("parquet", "csv", "ipc file"):
        content = write_file(tmp_path / "x", kind).read_bytes()
        monkeypatch.setattr(sys, "stdin", Piped(content))
        assert "Pipe in an Arrow IPC stream" in failure("-")


def test_standard_input__nothing_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    for stdin in (None, Piped(b"", terminal=True)):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert "Nothing is piped" in failure("-")


def test_stream_behind_another__is_refused_and_not_left_out(tmp_path: Path) -> None:
    table = pa.table({"g": [1, 1], "l": [0, 1], "s": [0.1, 0.2]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    once = sink.getvalue().to_pybytes()
    for name, behind in (("two", once), ("odd", b"garbage")):
        (tmp_path / f"{name}.arrows").write_bytes(once + behind)
        with pytest.raises(fe.SourceError, match="bytes follow the end-of-stream marker"):
            fe.evaluate(
                str(tmp_path / f"{name}.arrows"), group="g", label="l", score="s", measures="AUC"
            )


test_answers = answers(globals())
