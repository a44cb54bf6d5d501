"""The benchmark of Spark: its report, from cases made up, and the time of a tree of processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.machine import described
from bench.spark import COUNTED, ORDERED, SCAN, SORTED, WEIGHED, Case, Ran, report, tree_seconds


def case(name: str, cpu: float) -> Case:
    """Three rounds, the middle one of which counts, half of it the JVM's."""
    return Case("int64", name, [Ran(n * cpu / 2, n * cpu / 2, n * cpu) for n in (1, 0.5, 9)])


@pytest.mark.parametrize("cpu, ratio, met", [(1.4, "1.40", "yes"), (1.5, "1.50", "**no**")])
def test_report__evaluations_beside_sparks_own_shuffle_and_sort(cpu, ratio, met) -> None:
    cases = [
        case(SCAN, 0.1),
        case(SORTED, 1.0),
        case(ORDERED, 2.0),
        case(COUNTED, 1.25),
        case("evaluate GAUC", cpu),
        case(WEIGHED, 2.5),
    ]
    text = report(cases, described(), "2026-05-06", 1_000_000, "local[2], 16 partitions")
    name = f"evaluate GAUC, int64 key: CPU time over Spark's own {SORTED}"
    assert f"| {name} | ≤ 1.4 times | {ratio} times | {met} |" in text
    assert f"| int64 | evaluate GAUC | {ratio} | {cpu / 2:.2f} | {cpu / 1.25:.2f} |" in text
    assert "| int64 | scan | 0.10 | 0.05 | 0.05 | 0.10 | 0.10 |" in text
    assert "the median of 3 rounds" in text
    assert f"| int64 | {WEIGHED} | 2.50 | 1.25 | 2.00 |" in text


def test_tree_seconds__counts_what_processes_that_ended_took() -> None:
    before = sum(tree_seconds())
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert 0.25 < sum(tree_seconds()) - before < 30
