"""Examples of docs/how-to/distributed.md run as they stand: the bits of one evaluation here."""

from __future__ import annotations

import logging
import os
import re
import signal
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

import fastrank_eval as fe
from tests.support.spark_frames import frame_of

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "distributed.md"
NAMES = {"user": "user_id", "old": "score_a", "new": "score_b"}


def example(heading: str, **instead: tuple[str, str]) -> dict[str, Any]:
    """What the first block of Python below a heading defines; some of its text may be changed."""
    text = DOCUMENT.read_text(encoding="utf-8")
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    code = re.findall(r"^```python\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL)[0]
    for old, new in instead.values():
        assert code.count(old) == 1
        code = code.replace(old, new)
    defined: dict[str, Any] = {"__name__": "example"}
    exec(compile(code, f"{DOCUMENT.name}, {heading}", "exec"), defined)  # noqa: S102
    return defined


def needs(*packages: str, extra: str) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed (pip install 'fastrank_eval[{extra}]')")


def bits(result: fe.Result) -> list[str]:
    return [repr(value) for value in result.values]


def dying_once(part: Callable[[Any], Any], flag: Path) -> Callable[[Any], Any]:
    """`part`, whose first call ends its process."""

    def dies_once(rows: Any) -> Any:
        try:
            flag.touch(exist_ok=False)
        except FileExistsError:
            return part(rows)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    return dies_once


@pytest.fixture(scope="session")
def impressions(log: pa.Table) -> pa.Table:
    """The log by the names of the document; ages are not known in a third of the rows."""
    rows = log.rename_columns([NAMES.get(name, name) for name in log.column_names])
    known = np.arange(rows.num_rows) < 4_000
    ages = pc.if_else(pa.array(known), rows["age"], pa.scalar(None, pa.int64()))
    return rows.set_column(rows.column_names.index("age"), "age", ages)


@pytest.fixture(scope="session")
def files(impressions: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its rows in three files, ages null in the last."""
    folder = tmp_path_factory.mktemp("impressions")
    for number in range(3):
        parquet.write_table(impressions.slice(2_000 * number, 2_000), folder / f"{number}.parquet")
    return folder


@pytest.fixture(scope="session")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four rows of two users."""
    folder = tmp_path_factory.mktemp("few")
    rows = {
        "user_id": pa.array([1, 1, 2, 2]),
        "click": pa.array([0, 1, 1, 0], pa.int8()),
        "score_a": pa.array([0.1, 0.4, 0.2, 0.3], pa.float32()),
        "slot": pa.array(["top", "top", "side", None]),
        "age": pa.array([30, 30, None, None], pa.int64()),
    }
    parquet.write_table(pa.table(rows), folder / "few.parquet")
    return folder


def test_any_engine__states_of_parts_are_added_up(impressions: pa.Table) -> None:
    here = example("What must hold")
    dealt = pc.bit_wise_and(impressions["user_id"], 3)
    parts = [impressions.filter(pc.equal(dealt, number)) for number in range(4)]
    found = here["result_of"]([here["state_of"](part) for part in parts])
    assert bits(found) == bits(fe.evaluate(impressions, keep="", **here["OPTIONS"]))


@pytest.mark.parametrize("source, buckets", [("files", 1), ("files", 7), ("few", 9)])
def test_sql__folders_by_a_hash_of_the_key(
    request: pytest.FixtureRequest, tmp_path: Path, source: str, buckets: int
) -> None:
    needs("duckdb", extra="outofcore")
    here, folder = example("SQL engines"), request.getfixturevalue(source)
    found = here["evaluate"](f"{folder}/*.parquet", str(tmp_path / "dealt"), buckets)
    assert bits(found) == bits(fe.evaluate(folder, keep="", **here["OPTIONS"]))


@pytest.mark.slow("starts workers")
def test_spark__the_lines_of_the_document(
    spark: Any, impressions: pa.Table, tmp_path: Path
) -> None:
    days = pa.array([f"2026-11-{19 + n % 2}" for n in range(impressions.num_rows)])
    rows = impressions.append_column("day", days).append_column("country", impressions["slot"])
    spark.sql("CREATE DATABASE IF NOT EXISTS ads")
    frame_of(spark, rows).write.saveAsTable("ads.impressions")
    here = example("Spark", written=('"users/"', repr(str(tmp_path / "users"))))
    options = here["options"]
    sliced = {"measures": "GAUC,LogLoss", "by": ["country", "age:quantile5"]}
    assert bits(here["result"]) == bits(fe.evaluate(rows, keep="", **options, **sliced))
    lines = fe.compare(rows, **options, baseline="score_a", measures="GAUC,nDCG@10")
    assert [repr(line) for line in here["comparison"]] == [repr(line) for line in lines]
    users = fe.evaluate(rows, **options, measures="GAUC").per_group
    written = parquet.read_table(tmp_path / "users").cast(users.schema)
    assert written.sort_by("user_id").equals(users.sort_by("user_id"))


@pytest.fixture(scope="module")
def dask_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two processes that share work."""
    needs("dask", "distributed", extra="dask")
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
        local_directory=str(tmp_path_factory.mktemp("dask")),
    )
    with cluster, Client(cluster):
        yield


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    """Ray on two cores; workers wait for more work instead of ending after a second."""
    needs("ray", extra="ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    # Names of sockets are short, and paths of pytest are not.
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=2,
            object_store_memory=100 << 20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
            _temp_dir=folder,
            _system_config={"idle_worker_killing_time_threshold_ms": 600_000},
        )
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield
        ray.shutdown()


@pytest.fixture(params=["Dask", pytest.param("Ray Data", marks=pytest.mark.slow("starts workers"))])
def engine(request: pytest.FixtureRequest) -> str:
    """An engine that runs here."""
    request.getfixturevalue({"Dask": "dask_cluster", "Ray Data": "ray_cluster"}[request.param])
    return str(request.param)


@pytest.mark.parametrize(
    "source, partitions", [("files", 1), ("files", 2), ("files", 7), ("few", 9)]
)
def test_engine__any_number_of_partitions(
    engine: str, source: str, partitions: int, request: pytest.FixtureRequest
) -> None:
    here, rows = example(engine), request.getfixturevalue(source)
    found = here["evaluate"](str(rows), partitions)
    assert bits(found) == bits(fe.evaluate(rows, keep="", **here["OPTIONS"]))


def test_engine__by_clusters(engine: str, files: Path) -> None:
    here = example(engine)
    here |= example("Clusters")
    found = here["evaluate"](str(files), 3)
    assert bits(found) == bits(fe.evaluate(files, keep="", **here["OPTIONS"]))


def test_engine__parts_that_cut_users__are_refused_where_groups_are_kept(
    engine: str, files: Path
) -> None:
    cuts = {
        "Dask": ('.shuffle(on="user_id", ', ".repartition("),
        "Ray Data": ("batch_size=None", "batch_size=500"),
    }
    here = example(engine, cut=cuts[engine])
    here["OPTIONS"]["keep"] = "groups"
    with pytest.raises(fe.MergeError, match="both hold rows of the group user_id="):
        here["evaluate"](str(files), 3)


def test_engine__worker_that_dies__its_work_is_done_again(
    engine: str, files: Path, tmp_path: Path
) -> None:
    here = example(engine)
    here["part"] = dying_once(here["part"], tmp_path / "died")
    found = here["evaluate"](str(files), 4)
    assert (tmp_path / "died").exists()
    assert bits(found) == bits(fe.evaluate(files, keep="", **here["OPTIONS"]))


def test_dask__faulty_row__ends_the_job_with_our_message(
    dask_cluster: None, impressions: pa.Table, tmp_path: Path
) -> None:
    place = impressions.column_names.index("score_a")
    scores = impressions["score_a"].to_numpy().copy()
    scores[77] = np.nan
    rows = impressions.set_column(place, "score_a", pa.array(scores))
    parquet.write_table(rows, tmp_path / "faulty.parquet")
    with pytest.raises(fe.ColumnError, match="column 'score_a'"):
        example("Dask")["evaluate"](str(tmp_path), 2)
