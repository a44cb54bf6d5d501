"""Spark Connect: no context, no JVM in the process that asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import fastrank_eval as fe
from tests.distributed.conftest import ROOT, spark_missing

pytestmark = pytest.mark.slow("starts a server")

OPTIONS: dict[str, Any] = {
    "group": "name",
    "label": "click",
    "score": ["old", "new"],
    "measures": "GAUC,AUC,nDCG@5",
}
EVALUATIONS: dict[str, dict[str, Any]] = {
    "string key": {},
    "integer key": {"group": "user", "partitions": 7},
    "slices": {"by": ["slot", "age:quantile3"], "partitions": 2},
    "where": {"where": "new > 0.5 and slot = 'top' or age in (30, 31)", "partitions": 2},
}


@pytest.fixture(scope="module")
def folder(log: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows, what was asked of them and the answers."""
    if reason := spark_missing():
        pytest.skip(reason)
    if find_spec("grpc") is None:
        pytest.skip("grpc is not installed (pip install 'pyspark[connect]')")
    folder = tmp_path_factory.mktemp("connect")
    scores = log["old"].to_pylist()
    scores[4321] = float("nan")
    place = log.column_names.index("old")
    faulty = log.set_column(place, "old", pa.array(scores, pa.float32()))
    parquet.write_table(log, folder / "log.parquet")
    parquet.write_table(faulty, folder / "faulty.parquet")
    job = {"options": OPTIONS, "evaluations": EVALUATIONS}
    (folder / "job.json").write_text(json.dumps(job))
    # Without it the server listens at one port for all.
    own = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.distributed.connect_job", str(folder)],
        cwd=ROOT,
        env={**os.environ, **own, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "answers.json").read_text())
    return told


def test_session__is_one_of_connect(answers) -> None:
    assert answers["session"].startswith("pyspark.sql.connect.")


@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluate__the_bits_of_the_local_engine(answers, log, name) -> None:
    options = {**OPTIONS, **EVALUATIONS[name]}
    options.pop("partitions", None)
    expected = fe.evaluate(log, keep="", **options)
    assert answers[name] == [repr(value) for value in expected.values]


def test_compare__the_lines_of_the_local_engine(answers, log) -> None:
    expected = fe.compare(log, baseline="old", **OPTIONS)
    assert answers["compare"] == [repr(line) for line in expected]


def test_per_group__a_frame_of_every_group(folder, log) -> None:
    expected = fe.evaluate(log, **OPTIONS).per_group
    found = parquet.read_table(folder / "groups")
    order = [(name, "ascending") for name in expected.column_names[:2]]
    assert found.column_names == expected.column_names
    assert found.cast(expected.schema).sort_by(order).equals(expected.sort_by(order))


def test_faulty_row__the_error_names_its_group(answers, log) -> None:
    kind, message = answers["faulty"]
    assert kind == "ColumnError"
    assert "score column 'old' (float) is NaN in at least 1 row(s)" in message
    assert f"first in group name='{log['name'][4321]}'" in message
    assert "Traceback" not in message
    assert f"first in group name='{log['name'][4321]}'" in answers["faulty groups"][1]
