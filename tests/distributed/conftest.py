"""Real engines here; a test without its engine is skipped, unless `--require-engines`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.spark_frames import frame_of

ROOT = Path(__file__).parents[2]
#: By the name to import.
ENGINES = ("dask", "distributed", "grpc", "pyspark", "ray")
#: Options of a Java that runs for minutes, so need not compile as if for days.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-engines",
        nargs="?",
        const=",".join(ENGINES),
        default="",
        help=f"fail, rather than skip, without Java or one of these: {','.join(ENGINES)}",
    )


def java_missing() -> str:
    """Why Spark cannot start; "" if it can."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).is_file():
        return "no java: install a JRE of Java 17 or later, or set JAVA_HOME"
    found = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    if found.returncode:
        return f"{java} does not run: {found.stderr.strip()[:200]}"
    return ""


def spark_missing() -> str:
    """Why tests of Spark are skipped; "" if they are not."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed (pip install 'fastrank_eval[spark]')"
    return java_missing()


def pytest_configure(config: pytest.Config) -> None:
    wanted = config.getoption("--require-engines", default="")
    if not wanted:
        return
    missing = [name for name in wanted.split(",") if find_spec(name) is None]
    if reason := java_missing():
        missing.append(reason)
    if missing:
        raise pytest.UsageError(f"--require-engines: not there: {', '.join(missing)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings of the engines are theirs."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings("ignore"))


def settings(temporary: Path, **more: str) -> dict[str, str]:
    """What every session here is started with: two cores, no port but on loopback."""
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": BRIEF,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(temporary),
        "spark.pyspark.python": sys.executable,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.warehouse.dir": str(temporary / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        **more,
    }


def started(master: str, temporary: Path, **more: str) -> Any:
    """A session of Spark's."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in settings(temporary, **more).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for all tests: two cores, and up to four attempts a task."""
    if reason := spark_missing():
        pytest.skip(reason)
    session = started("local[2,4]", tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def configured(spark: Any) -> Callable[..., Any]:
    """Settings in force for a while."""

    @contextmanager
    def set_for_a_while(**given: str) -> Iterator[None]:
        names = {name.replace("__", "."): value for name, value in given.items()}
        before = {name: spark.conf.get(name, None) for name in names}
        try:
            for name, value in names.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, value)

    return set_for_a_while


@pytest.fixture(scope="session")
def log() -> pa.Table:
    """Impressions of 300 users, in no order, with ties, slices and keys of several types."""
    rng = np.random.default_rng(7)
    rows = 6_000
    users = rng.zipf(1.4, rows) % 300
    score = rng.random(rows).round(2)
    click = rng.random(rows) < 0.1 + 0.3 * score
    return pa.table(
        {
            "user": users,
            "short": users.astype(np.int16),
            "name": pa.array([f"user {n}" for n in users]),
            "session": pa.array([f"s{n}" for n in rng.integers(0, 3, rows)]),
            "click": click.astype(np.int8),
            "old": score.astype(np.float32),
            "new": (0.5 * score + 0.5 * rng.random(rows)),
            "weight": rng.random(rows).astype(np.float32),
            "slot": pa.array([("top", "side", None)[n] for n in rng.integers(0, 3, rows)]),
            "age": rng.integers(15, 80, rows),
        }
    )


@pytest.fixture(scope="session")
def frame(spark: Any, log: pa.Table) -> Any:
    """The log in Spark, kept there."""
    return frame_of(spark, log).cache()
