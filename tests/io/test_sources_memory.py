"""Tables, readers, datasets, frames and arrays give the same rows, or a clear error."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
import pytest

from fastrank_eval._lib.errors import ColumnError, SourceError
from fastrank_eval.io.reader import open_source
from tests.support.source_files import COLUMNS, TABLE, read, write_parquet
from tests.support.transcripts import answers

pytestmark = pytest.mark.no_kernels


class OneArray:
    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return pa.record_batch(COLUMNS).__arrow_c_array__(requested_schema)


class Tensor:
    """Like those of PyTorch and others, which are no sequences of Python numbers."""

    def __init__(self, values: list[float], reason: str = "") -> None:
        self.values, self.reason = np.array(values), reason

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.reason:
            raise RuntimeError(self.reason)
        return self.values


class OnlyDLPack:
    def __init__(self, values: list[float]) -> None:
        self.values = np.array(values)

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class OneStream:
    """A stream that is no container: what it gave is gone."""

    def __init__(self) -> None:
        self.reader = TABLE.to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.reader.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make,rows,rereadable",
    [
        (lambda: TABLE, 4, True),
        (lambda: pa.record_batch(COLUMNS), 4, True),
        (lambda: TABLE.to_reader(max_chunksize=3), None, False),
        (lambda: pa.dataset.dataset(TABLE), None, True),
        (lambda: pa.dataset.dataset(TABLE).filter(pa.compute.field("user") > 0), None, True),
        (lambda: pd.DataFrame(COLUMNS), None, True),
        (lambda: pl.DataFrame(COLUMNS), None, True),
        (lambda: duckdb.from_arrow(TABLE), None, True),
        (lambda: pa.RecordBatchReader.from_stream(duckdb.from_arrow(TABLE)), None, False),
        (OneArray, 4, True),
        (OneStream, None, False),
        (lambda: {name: np.array(values) for name, values in COLUMNS.items()}, 4, True),
        (lambda: COLUMNS, 4, True),
        (lambda: {name: pd.Series(values) for name, values in COLUMNS.items()}, 4, True),
        (lambda: {name: pl.Series(values) for name, values in COLUMNS.items()}, 4, True),
    ],
)
def test_open_source__object_in_memory(
    make: Callable[[], object], rows: int | None, rereadable: bool
) -> None:
    source = open_source(make())
    assert source.schema.names == list(COLUMNS)
    assert source.rows == rows
    assert source.rereadable is rereadable
    assert read(source, "score", "user") == {
        "score": COLUMNS["score"],
        "user": COLUMNS["user"],
    }
    if rereadable:
        assert read(source, "click") == {"click": COLUMNS["click"]}
    else:
        with pytest.raises(SourceError, match="only once"):
            source.batches(["click"])


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb"])
def test_open_source__strings_of_the_real_libraries(library: str) -> None:
    data = {"user": ["u1", "u1", "é"], "score": [1.0, 2.0, 3.0]}
    make: dict[str, Callable[[], object]] = {
        "pandas": lambda: pd.DataFrame(data),
        "polars": lambda: pl.DataFrame(data),
        "duckdb": lambda: duckdb.from_arrow(pa.table(data)),
    }
    source = open_source(make[library]())
    assert source.name.startswith(library)
    assert read(source, "user") == {"user": data["user"]}


def test_reader__error_of_its_producer_keeps_its_cause() -> None:
    def produce() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch(COLUMNS)
        raise OSError("socket closed")

    source = open_source(pa.RecordBatchReader.from_batches(TABLE.schema, produce()))
    batches = source.batches(["user"])
    next(batches)
    with pytest.raises(SourceError, match=r"RecordBatchReader.*socket closed") as caught:
        next(batches)
    assert isinstance(caught.value.__cause__, OSError)


def test_mapping__contiguous_numbers_are_wrapped_not_copied() -> None:
    score = np.array([0.5, 0.25])
    [batch] = open_source({"score": score, "user": np.array([1, 2], np.int32)}).batches(["score"])
    assert batch.column(0).buffers()[1].address == score.ctypes.data


@pytest.mark.parametrize(
    "array,values",
    [
        (np.arange(6)[::2], [0, 2, 4]),
        (np.arange(6)[::-2], [5, 3, 1]),
        (np.arange(6.0).reshape(3, 2)[:, 1], [1.0, 3.0, 5.0]),
        (np.array([1, 2, 3], ">i4"), [1, 2, 3]),
        (np.array([1.5, np.inf, -0.0], np.float16), [1.5, np.inf, -0.0]),
        (np.array([True, False, True]), [True, False, True]),
        (np.array(["a", "bc", ""]), ["a", "bc", ""]),
        (np.array([b"a", b"bc", b"d"]), [b"a", b"bc", b"d"]),
        (np.array(["a", None, "c"], object), ["a", None, "c"]),
        (np.ma.array([1, 2, 3], mask=[False, True, False]), [1, None, 3]),
        (pa.chunked_array([[1], [2, 3]]), [1, 2, 3]),
        ([1, None, 3], [1, None, 3]),
        (Tensor([1.5, 0.5, 1]), [1.5, 0.5, 1.0]),
        (OnlyDLPack([1.5, 0.5, 1]), [1.5, 0.5, 1.0]),
        (pd.Categorical(["a", "b", "a"]), ["a", "b", "a"]),
        (pd.Index(["a", "b", "a"]), ["a", "b", "a"]),
    ],
)
def test_mapping__array_kinds(array: Any, values: list[Any]) -> None:
    assert read(open_source({"x": array}), "x") == {"x": values}


def test_mapping__tensor_that_numpy_cannot_view__says_how_to_convert_it() -> None:
    remedy = r"'x' \(tests.*Tensor\) cannot be read .*: it requires grad. .*\.detach\(\)\.cpu\(\)"
    with pytest.raises(ColumnError, match=remedy):
        open_source({"x": Tensor([1], "it requires grad")})
    with pytest.raises(ColumnError, match="has shape"):
        open_source({"x": Tensor([[1, 2]])})  # type: ignore[list-item]


def test_dataset__names_the_file_that_fails(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a" / "part-0.parquet", [1])
    path = write_parquet(tmp_path / "a" / "part-1.parquet", [2])
    dataset = pa.dataset.dataset(tmp_path / "a")
    assert read(open_source(dataset), "x") == {"x": [1, 2]}
    path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(SourceError, match=r"part-1\.parquet"):
        read(open_source(dataset), "x")


def test_dataset__partition_columns_in_order(tmp_path: Path) -> None:
    for day in (2, 1):
        write_parquet(tmp_path / f"day={day}" / "x.parquet", [day * 10])
    dataset = pa.dataset.dataset(tmp_path, partitioning="hive")
    assert read(open_source(dataset), "x", "day") == {"x": [10, 20], "day": [1, 2]}


def test_batches__a_list_is_read_again_and_an_iterator_once() -> None:
    table = pa.table({"user": [1, 1, 2], "click": [0, 1, 1]})
    batches = table.to_batches(max_chunksize=2)
    listed, once = open_source([*batches, table]), open_source(iter([table.slice(0, 0), *batches]))
    for source, rows in ((listed, 6), (once, 3)):
        assert sum(batch.num_rows for batch in source.batches(["click"])) == rows
    assert sum(batch.num_rows for batch in listed.batches(["user"])) == 6
    with pytest.raises(SourceError, match="can be read only once and was read before"):
        once.batches(["user"])


test_answers = answers(globals())
