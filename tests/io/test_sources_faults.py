"""Files that are damaged, cut short, changed or forbidden are named, and nothing crashes."""

import os
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from fastrank_eval._lib.errors import SourceError
from fastrank_eval.io.reader import open_source
from tests.support.source_files import failure, read, write_file, write_parquet, write_stream
from tests.support.transcripts import answers

pytestmark = pytest.mark.no_kernels


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.csv", "x.csv.gz"])
def test_file__of_zero_bytes(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    message = failure(tmp_path / name)
    assert name in message
    assert "empty (0 bytes)" in message


def compressed(path: Path) -> bytes:
    generator = np.random.default_rng(1)
    table = pa.table({"x": generator.integers(0, 1 << 40, 20_000), "y": generator.random(20_000)})
    pq.write_table(table, path, row_group_size=5_000, compression="zstd", write_page_checksum=True)
    return path.read_bytes()


def test_parquet__truncated_at_the_end_or_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "cut.parquet"
    whole = compressed(path)
    for size in (len(whole) - 1, len(whole) - 8, len(whole) // 2, 10, 3):
        path.write_bytes(whole[:size])
        message = failure(path)
        assert "cut.parquet" in message
        assert "Write or copy the file again" in message
        if size >= 4:
            assert "truncated (no footer)" in message
    path.write_bytes(whole[: len(whole) // 2] + whole[len(whole) // 2 + 1000 :])
    assert "cut.parquet" in failure(path)


def test_parquet__corrupt_page_is_named_even_when_later_in_a_folder(tmp_path: Path) -> None:
    write_parquet(tmp_path / "part-0.parquet", range(5))
    path = tmp_path / "part-1.parquet"
    whole = bytearray(compressed(path))
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)
    batches = open_source(tmp_path).batches(["x"])
    assert next(batches).num_rows == 5
    whole[60] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(SourceError, match=r"part-1\.parquet.*corrupt") as caught:
        list(batches)
    assert isinstance(caught.value.__cause__, (OSError, pa.ArrowException))


@pytest.mark.parametrize("kind", ["parquet", "ipc file", "ipc stream", "feather", "csv.gz"])
def test_file__random_damage_never_crashes(tmp_path: Path, kind: str) -> None:
    name = {"parquet": "x.parquet", "csv.gz": "x.csv.gz"}.get(kind, "x.arrow")
    path = write_file(tmp_path / name, kind)
    whole = path.read_bytes()
    draw = random.Random(7)  # noqa: S311
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged[: draw.choice([len(damaged), draw.randrange(len(damaged))])])
        try:
            source = open_source(path)
            names = dict.fromkeys(source.schema.names)
            list(source.batches([n for n in names if source.schema.names.count(n) == 1]))
        except SourceError as error:
            assert path.name in str(error)  # noqa: PT017


def test_parquet__columns_not_asked_for_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    whole = bytearray(compressed(path))
    for group in range(4):
        chunk = pq.ParquetFile(path).metadata.row_group(group).column(1)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        whole[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(whole)
    source = open_source(path)
    assert sum(batch.num_rows for batch in source.batches(["x"])) == 20_000
    with pytest.raises(SourceError, match=r"x\.parquet"):
        list(source.batches(["y"]))


def test_ipc__columns_not_asked_for_are_not_read(tmp_path: Path) -> None:
    table = pa.table({"x": range(1000), "y": ["word"] * 1000})
    path = tmp_path / "x.feather"
    pa.feather.write_feather(table, path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"wordword", b"\xff" * 8))
    source = open_source(path)
    assert read(source, "x") == {"x": list(range(1000))}
    with pytest.raises(SourceError, match=r"x\.feather"):
        list(source.batches(["y"]))


def test_ipc__offsets_and_indices_out_of_range_are_refused(tmp_path: Path) -> None:
    indices = pa.array([0, 1, 0, 1] * 10, pa.int32())
    table = pa.table({"x": pa.DictionaryArray.from_arrays(indices, ["a", "b"])})
    path = tmp_path / "x.arrow"
    raw, bad = (np.array([0, value, 0, 1], np.int32).tobytes() for value in (1, 900))
    path.write_bytes(write_stream(table, rows=40).replace(raw, bad))
    assert "x.arrow" in failure(path)


def test_file__without_permission(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "x.parquet", [1])
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        message = failure(path)
    finally:
        os.seteuid(user)
    assert "x.parquet" in message
    assert "ermission denied" in message


test_answers = answers(globals())
