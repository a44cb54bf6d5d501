"""The benchmark of Spark: its report, from cases made up, and the time of a tree of processes."""

from __future__ import annotations

import subprocess
import sys

from bench.spark import tree_seconds


def test_tree_seconds__counts_what_processes_that_ended_took() -> None:
    before = sum(tree_seconds())
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert 0.25 < sum(tree_seconds()) - before < 30
