"""A partition, without Spark: kernels are compiled once a worker, and kept for others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import pyarrow as pa
import fastrank_eval as fe
from fastrank_eval.integrations.spark import worker
from fastrank_eval.integrations.spark.worker import Task

options = {"group": ["user"], "label": "click", "score": "old", "measures": ["GAUC"]}
names = (worker.HOME, "user", "click", "old")
task = Task(options, 1, frozenset(), keys={"user": ""}, names=names)
worker._partition_number = lambda: 0
rows = pa.table([[0] * 4, [1, 1, 2, 2], [0, 1, 1, 0], [0.1, 0.4, 0.2, 0.3]], names=names)
for _ in range(3):
    (reply,) = worker.partition_state(task, iter(rows.to_batches()))
    told = reply.to_pylist()[0]
    assert told["fault"] is None and told["rows"] == 4, told
    print(told["compiled"])
"""


@pytest.mark.slow("starts workers that compile")
def test_kernels__are_compiled_once_a_worker_and_found_by_the_next(empty_store, store) -> None:
    folder = empty_store / "kernels"
    # Kernels of AUC are compiled again, the others are there: all of them take half a minute.
    shutil.copytree(store, folder, ignore=shutil.ignore_patterns("_auc_of_groups-*"))
    environment = {**os.environ, "FASTRANK_CACHE_DIR": str(folder)}
    options = {"env": environment, "cwd": Path(__file__).parents[3], "capture_output": True}
    compiled = []
    for _ in range(2):
        words = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(words, **options, text=True, check=True, timeout=300)
        compiled.append([int(line) for line in done.stdout.split()])
    assert compiled[0][0] > 0
    assert compiled == [[compiled[0][0], 0, 0], [0, 0, 0]]
