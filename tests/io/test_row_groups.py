"""Parquet files are read row group by row group, by the threads that evaluate them."""

import io
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

import fastrank_eval as fe
from fastrank_eval import SourceError
from fastrank_eval._lib.threads import reporting_to
from fastrank_eval.engine.plan import BATCH_ROWS, SLICE_ROWS, batch_rows_of, stream_rows_of
from fastrank_eval.io.formats import read_file
from fastrank_eval.io.paths import File
from fastrank_eval.io.reader import RowReader, open_source
from fastrank_eval.io.source import UnreadBatch, read_batches
from tests.support import batched
from tests.support.source_files import write_parquet

ROLES = {"group": "user", "label": "click", "score": "score", "measures": "GAUC,AUC,nDCG@10,AP"}
ROWS = 3000
RNG = np.random.default_rng(5)
USERS = np.sort(RNG.integers(0, 200, ROWS))
TABLE = pa.table(
    {
        "user": USERS,
        "click": (RNG.random(ROWS) < 0.2).astype(np.int8),
        "score": RNG.integers(0, 50, ROWS).astype(np.float32),
        "text": [f"user {user}" for user in USERS],
    }
)


def numbers(source: object, **options: object) -> list:
    result = batched.evaluate(source, **{**ROLES, **options})
    return [
        [(line["measure"], repr(line["value"])) for line in result.document()["results"]],
        result.per_group.to_pydict(),
    ]


EXPECTED = numbers(TABLE)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [7, 250, 1000, ROWS])
@pytest.mark.parametrize("batch_rows", [90, 600, None])
def test_row_groups__of_any_size__give_the_same_bits(
    tmp_path: Path, rows: int, batch_rows: int | None, threads: int
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(TABLE, path, row_group_size=rows)
    assert numbers(path, batch_rows=batch_rows, threads=threads) == EXPECTED
    scattered = numbers(path, batch_rows=batch_rows, threads=threads, order="scattered")
    assert scattered == EXPECTED


def test_row_groups__short_ones_of_many_files_share_a_stretch(tmp_path: Path) -> None:
    for number, first in enumerate(range(0, ROWS, 100)):
        pq.write_table(TABLE.slice(first, 100), tmp_path / f"{number:02}.parquet")
    assert numbers(tmp_path, batch_rows=350) == EXPECTED


def test_row_groups__keys_that_are_strings(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "log.parquet", row_group_size=250)
    by_text = numbers(tmp_path / "log.parquet", group="text", batch_rows=500)
    assert by_text == numbers(TABLE, group="text")


@pytest.mark.parametrize("limit", [1, 249, 250, 251, 1700, ROWS, 2 * ROWS])
def test_row_groups__read_up_to_a_limit(tmp_path: Path, limit: int) -> None:
    pq.write_table(TABLE, tmp_path / "log.parquet", row_group_size=250)
    found = numbers(tmp_path / "log.parquet", limit=limit)
    assert found == numbers(TABLE.slice(0, limit))


def test_row_groups__empty_ones_are_passed_over(tmp_path: Path) -> None:
    with pq.ParquetWriter(tmp_path / "log.parquet", TABLE.schema) as writer:
        for first in range(0, ROWS, 1000):
            writer.write_table(TABLE.slice(0, 0))
            writer.write_table(TABLE.slice(first, 1000))
    assert numbers(tmp_path / "log.parquet", batch_rows=300) == EXPECTED


@pytest.mark.parametrize("how", ["replaced", "written anew", "longer"])
def test_file__changed_while_it_is_read__is_an_error_that_says_so(tmp_path: Path, how: str) -> None:
    path = write_parquet(tmp_path / "x.parquet", range(1000), row_group_size=100)
    (part,) = open_source(path).unread_batches(["x"])
    assert isinstance(part, UnreadBatch)
    pieces = part.split_evenly(100)
    assert sum(batch.num_rows for batch in next(pieces).batches(100)) == 100
    other = write_parquet(tmp_path / "new" / "x.parquet", range(1000, 2000), row_group_size=100)
    if how == "replaced":
        other.replace(path)
    elif how == "written anew":
        path.write_bytes(other.read_bytes())
    else:
        with path.open("ab") as file:
            file.write(b"more")
    with pytest.raises(SourceError, match=r"x\.parquet': it was changed while it was read\. Eval"):
        list(next(pieces).batches(100))


def test_long_file__written_over_while_it_is_read__is_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "x.parquet", range(200_000), row_group_size=50_000)
    other = write_parquet(tmp_path / "y.parquet", range(1, 200_001), row_group_size=50_000)
    (part,) = open_source(path).unread_batches(["x"])
    path.write_bytes(other.read_bytes())
    with pytest.raises(SourceError, match=r"x\.parquet': it was changed while it was read"):
        list(read_batches([part]))


@pytest.mark.parametrize("order", ["grouped", "scattered"])
def test_many_small_files__never_stand_open_together(tmp_path: Path, order: str) -> None:
    resource = pytest.importorskip("resource")
    for number, first in enumerate(range(0, ROWS, 10)):
        pq.write_table(TABLE.slice(first, 10), tmp_path / f"{number:03}.parquet")
    numbers(tmp_path, order=order)  # whatever is imported late
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = len(list(Path("/dev/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken + 40, limits[1]))
    try:
        assert numbers(tmp_path, order=order) == EXPECTED
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


class SlowFile(io.FileIO):
    def read(self, size: int = -1) -> bytes:
        time.sleep(0.0002)
        return super().read(size)


def slow_files() -> pafs.PyFileSystem:
    """A file system written in Python: each of its files has one position."""

    def refuse(*asked: object) -> object:
        raise NotImplementedError(asked)

    methods = dict.fromkeys(pafs.FileSystemHandler.__abstractmethods__, refuse)
    methods["open_input_file"] = lambda _, path: pa.PythonFile(SlowFile(path, "rb"), mode="r")
    return pafs.PyFileSystem(type("SlowFiles", (pafs.FileSystemHandler,), methods)())


def test_file_system_written_in_python__read_by_many_threads(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.concat_tables([TABLE] * 50)
    pq.write_table(table, path, row_group_size=ROWS)
    file = File(slow_files(), str(path), str(path), "parquet")
    targets = {name: TABLE.schema.field(name).type for name in ("user", "click", "score")}
    (part,) = read_file(file, targets)
    with ThreadPoolExecutor(4) as pool:
        pieces = list(part.split_evenly(ROWS))
        read = list(pool.map(lambda piece: list(piece.batches(ROWS)), pieces))
    batches = [batch for of_piece in read for batch in of_piece]
    assert (
        pa.Table.from_batches(batches)
        .combine_chunks()
        .equals(table.select(list(targets)).combine_chunks())
    )


def test_limit__reads_no_more_rows_at_once_than_a_stretch(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "log.parquet", row_group_size=250)
    reading = RowReader(open_source(tmp_path / "log.parquet"), ("user",), 1700)
    parts = [part for job in reading.jobs(500) for part in job.batches]
    assert [part.num_rows for part in parts] == [500, 500, 500, 200]
    assert [isinstance(part, UnreadBatch) for part in parts] == [True, True, True, False]


def test_progress__of_a_long_row_group__is_told_in_steps(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "log.parquet")
    told: list[int] = []
    with reporting_to(lambda progress: told.append(progress.rows)):
        jobs = RowReader(open_source(tmp_path / "log.parquet"), ("user",), None).jobs(500)
        assert [job.num_rows for job in jobs] == [500] * 6
    assert told[-1] == ROWS


@pytest.mark.parametrize("threads", [1, 2])
def test_row_group__damaged__is_an_error_that_names_the_file(tmp_path: Path, threads: int) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(TABLE, path, row_group_size=250, write_page_checksum=True)
    chunk = pq.ParquetFile(path).metadata.row_group(9).column(2)
    whole = bytearray(path.read_bytes())
    whole[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(SourceError, match=r"Cannot read '.*log\.parquet': it is corrupt"):
        batched.evaluate(path, **ROLES, batch_rows=500, threads=threads)


def test_pieces__come_near_to_the_rows_wanted() -> None:
    def sizes(groups: list[int], rows: int) -> list[int]:
        unread = UnreadBatch(tuple(enumerate(groups)), lambda *how: iter(()))
        pieces = list(unread.split_evenly(rows))
        assert [g for piece in pieces for g in piece.row_groups] == list(enumerate(groups))
        return [piece.num_rows for piece in pieces]

    assert sizes([262, 262, 262, 214], 500) == [524, 476]
    assert sizes([100] * 10, 1000) == [1000]
    assert sizes([100] * 10, 10) == [100] * 10
    assert sizes([5, 3000, 5, 5], 100) == [5, 3000, 10]
    assert sizes([], 100) == []


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("rows", [0, 1, 10**6, 3 * 10**6, 10**7, 10**9])
def test_stretches__are_as_many_for_each_thread(rows: int, threads: int) -> None:
    stretch = batch_rows_of(rows, threads)
    assert 1 << 18 <= stretch <= BATCH_ROWS
    if rows >= threads << 18:
        assert -(-rows // stretch) % threads == 0


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_slices__of_few_rows__leave_threads_idle(threads: int) -> None:
    for rows in (1, 10**6, BATCH_ROWS):
        assert stream_rows_of(rows, threads, True)[1] >= rows
    assert stream_rows_of(2 * BATCH_ROWS, 16, True)[1] == BATCH_ROWS
    assert stream_rows_of(None, threads, True) == (BATCH_ROWS, SLICE_ROWS)


def test_threads__take_no_more_rows_at_a_time_if_all_are_copied() -> None:
    assert max(stream_rows_of(10**9, 16, False, 0.1)) <= BATCH_ROWS


@pytest.mark.parametrize(
    "labelled, longer", [(0.0, (4, 8)), (0.05, (4, 8)), (0.4, (2, 2)), (0.8, (1, 1)), (1.0, (1, 1))]
)
def test_rows_at_a_time__are_fewer_if_more_are_labelled(
    labelled: float, longer: tuple[int, int]
) -> None:
    in_files, in_memory = stream_rows_of(10**10, 16, True, labelled)
    assert 0.9 < in_files / (BATCH_ROWS * longer[0]) <= 1
    assert 0.9 < in_memory / (SLICE_ROWS * longer[1]) <= 1


@pytest.mark.parametrize("order", ["auto", "grouped", "sorted", "scattered"])
@pytest.mark.parametrize("kind", [pa.bool_(), pa.int8(), pa.float64(), pa.float16(), None])
def test_many_threads__read_labels_of_every_type(order: str, kind: pa.DataType | None) -> None:
    labels = [1, 0, 0, 1, 0, None] if kind is None else [1, 0, 0, 1, 0, 0]
    label = pa.array(labels).cast(kind or pa.int64())
    table = pa.table({"user": [1, 1, 1, 2, 2, 2], "click": label, "score": [3, 2, 1, 3, 2, 1]})
    one, many = (
        fe.evaluate(
            table, group="user", label="click", score="score", measures="GAUC,nDCG@2", order=order,
            unjudged="drop", threads=threads,
        )
        for threads in (1, 16)
    )  # fmt: skip
    assert repr(one.values) == repr(many.values)
