"""Executors with processes of their own: workers and executors killed, attempts made twice."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import fastrank_eval as fe
from tests.distributed.conftest import BRIEF, ROOT, spark_missing

pytestmark = pytest.mark.slow("starts a cluster")

OPTIONS: dict[str, Any] = {
    "group": "user",
    "label": "click",
    "score": ["old", "new"],
    "measures": "GAUC,AUC,nDCG@5",
}
SMALL = {
    "spark.driver.extraJavaOptions": BRIEF,
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": BRIEF,
    "spark.executor.memory": "1g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}
#: Attempts that take longer than others are made again at once.
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.efficiency.enabled": "false",
}
LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %m%n
"""
SECONDS = 300


def environment() -> dict[str, str]:
    """Of processes that start Spark by themselves."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def told(
    folder: Path, log: pa.Table, master: str, ways: list[str], **settings: str
) -> dict[str, Any]:
    """What came of a job, for each way in which one of its partitions fails."""
    parquet.write_table(log, folder / "log.parquet", row_group_size=2_000)
    job = {
        "master": master,
        "rows": str(folder / "log.parquet"),
        "options": OPTIONS,
        "settings": {**SMALL, **settings},
    }
    (folder / "job.json").write_text(json.dumps(job))
    command = [sys.executable, "-m", "tests.distributed.failing_job", str(folder), *ways]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["way"]: line for line in lines}


@pytest.fixture(scope="module", autouse=True)
def _spark_there() -> None:
    if reason := spark_missing():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def expected(log: pa.Table) -> Any:
    return fe.evaluate(log, keep="", **OPTIONS)


def same(found: dict[str, Any], expected: Any) -> bool:
    """Whether a job came to the numbers of the local engine, and counted nothing twice."""
    assert "error" not in found, found["error"]
    assert (found["rows"], found["groups"]) == (expected.meta.rows, expected.meta.groups)
    return bool(found["values"] == [repr(value) for value in expected.values])


@pytest.fixture(scope="module")
def cluster(log: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Jobs of one session on two executors."""
    ways = ["sound", "worker killed", "executor killed"]
    return told(tmp_path_factory.mktemp("cluster"), log, "local-cluster[2,1,1024]", ways)


@pytest.mark.parametrize("way, attempts", [("sound", 1), ("worker killed", 2)])
def test_two_executors__the_bits_of_the_local_engine(cluster, expected, way, attempts) -> None:
    assert same(cluster[way], expected)
    assert cluster[way]["attempts"] == attempts


def test_executor_killed__what_it_had_shuffled_is_made_again(cluster, expected) -> None:
    assert same(cluster["executor killed"], expected)
    assert cluster["executor killed"]["attempts"] >= 2


def test_without_retries__a_killed_worker_is_an_error_of_sparks_and_no_number(
    log, tmp_path
) -> None:
    found = told(tmp_path, log, "local[2]", ["worker killed"])["worker killed"]
    assert "values" not in found
    module, message = found["error"]
    assert module.startswith(("pyspark.", "py4j."))
    assert "failed 1 times" in message
    assert found["attempts"] == 1


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def running(folder: Path, role: str, host: str, *arguments: str, ready: str) -> Iterator[None]:
    """A master or worker of a cluster, once its log says that it is ready."""
    import pyspark

    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
    command += ["--host", host, "--webui-port", "0", *arguments]
    (folder / "log4j2.properties").write_text(LOGGING)
    own = {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": BRIEF,
    }
    said = folder / f"{role} {host}.log"
    with said.open("w") as log:
        process = subprocess.Popen(
            command, env={**environment(), **own}, stdout=log, stderr=log, cwd=folder
        )
    try:
        until = time.monotonic() + SECONDS
        while ready not in said.read_text():
            assert process.poll() is None, said.read_text()[-3000:]
            assert time.monotonic() < until, said.read_text()[-3000:]
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(SECONDS)


def test_speculative_duplicate__counts_once(log, expected, tmp_path) -> None:
    """Spark makes a second attempt only on another host, which another loopback address is."""
    hosts = ["127.0.0.1", "127.0.0.2"]
    try:
        with socket.socket() as listening:
            listening.bind((hosts[1], 0))
    except OSError as error:
        pytest.skip(f"no second loopback address {hosts[1]}: {error}")
    port = str(free_port())
    master = f"spark://{hosts[0]}:{port}"
    size = ["--cores", "1", "--memory", "1g"]
    with ExitStack() as cluster:
        cluster.enter_context(
            running(tmp_path, "master.Master", hosts[0], "--port", port, ready="elected leader")
        )
        for host in hosts:
            work = ["--work-dir", str(tmp_path / host), master]
            cluster.enter_context(
                running(tmp_path, "worker.Worker", host, *size, *work, ready="registered with")
            )
        found = told(tmp_path, log, master, ["slow"], **EAGER)["slow"]
    assert found["attempts"] == 2
    assert same(found, expected)
