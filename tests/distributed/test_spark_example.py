"""The job that `fastrank-eval spark-submit-example` prints, run by Spark's own spark-submit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli
from tests.distributed.conftest import ROOT, settings, spark_missing

pytestmark = pytest.mark.slow("starts Spark for each job")

OPTIONS: dict[str, Any] = {
    "group": "user",
    "label": "click",
    "score": ["old", "new"],
    "measures": "GAUC,AUC,LogLoss,PCOC",
    "by": "slot",
    "where": "age < 60",
}
ARGUMENTS = [
    *("--group", "user", "--label", "click", "--score", "old", "new", "--by", "slot"),
    *("--where", "age < 60", "--partitions", "3"),
]


@pytest.fixture
def submitted(log: pa.Table, tmp_path: Path) -> Any:
    """Has spark-submit run the printed job on the log, in a folder of Parquet files."""
    if reason := spark_missing():
        pytest.skip(reason)
    import pyspark

    printed = CliRunner().invoke(cli, ["spark-submit-example"])
    assert printed.exit_code == 0
    (tmp_path / "job.py").write_text(printed.output)
    (tmp_path / "rows").mkdir()
    for number in range(2):
        part = log.slice(3_000 * number, 3_000)
        parquet.write_table(part, tmp_path / "rows" / f"{number}.parquet")
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    for name, value in settings(tmp_path).items():
        command += ["--conf", f"{name}={value}"]

    def submit(*arguments: str) -> subprocess.CompletedProcess[str]:
        own = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
        return subprocess.run(
            [*command, str(tmp_path / "job.py"), "--parquet", str(tmp_path / "rows"), *arguments],
            env={**os.environ, **own, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    return submit


def numbers(printed: str) -> list[str]:
    """Lines of tables and verdicts, without time and order of the rows, which differ."""
    begins = ("old ", "new ", "measure ", "slice ", "slot=", *OPTIONS["measures"].split(","))
    return [line for line in printed.splitlines() if line.startswith(begins)]


def test_example__prints_the_numbers_of_a_local_run_and_keeps_its_state(
    submitted, log, tmp_path
) -> None:
    state, groups = tmp_path / "night.state", tmp_path / "groups"
    done = submitted(*ARGUMENTS, "--state", str(state), "--groups", str(groups))
    assert done.returncode == 0, done.stderr[-3000:]
    expected = fe.evaluate(log, keep="values,state", **OPTIONS)
    compared = fe.compare(log, baseline="old", **OPTIONS)
    assert numbers(done.stdout) == numbers(f"{expected}\n{compared}\n")
    assert len(numbers(done.stdout)) > 8
    kept = fe.load_state(state)
    assert kept.provenance[0].fingerprint == expected.state.provenance[0].fingerprint
    assert repr(kept.result().values) == repr(expected.values)
    assert parquet.read_table(groups).num_rows == expected.per_group.num_rows


def test_example__a_wrong_column_ends_with_2_and_our_message(submitted) -> None:
    done = submitted("--group", "usr", "--label", "click", "--score", "old")
    assert done.returncode == 2, done.stderr[-3000:]
    # spark-submit prints what its Python writes to either stream on its own standard output.
    assert "error: " in done.stdout
    assert "no column 'usr'" in done.stdout
    assert "Traceback" not in done.stdout
