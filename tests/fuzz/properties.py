"""Fuzz the property tests of kernels with HypoFuzz; also the plugin of pytest that lets it.

In ``make test`` these tests try the same examples each time; HypoFuzz looks for others, guided by
coverage, which the JIT would hide.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from hypofuzz.collection import collect_tests
from hypofuzz.database import FailureState
from hypofuzz.hypofuzz import FuzzTarget
from hypothesis import settings

from tests.fuzz.targets import limit_memory

ARGUMENTS = (
    "-p",
    "tests.fuzz.properties",
    "-p",
    "no:cacheprovider",
    "-m",
    "kernels and hypothesis",
)
#: Time to write reports after an interrupt.
GRACE = 60


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests draw other examples in each run, and limit their memory."""
    limit_memory()
    database = settings.get_profile("default").database
    for item in items:
        test = getattr(item, "obj", None)
        chosen = getattr(test, "_hypothesis_internal_use_settings", None)
        if test is not None and chosen is not None:
            test._hypothesis_internal_use_settings = settings(
                chosen, derandomize=False, database=database
            )


def inputs(targets: Iterable[FuzzTarget]) -> int:
    """Count the inputs that all runs so far had."""
    counts: dict[tuple[str, str], int] = {}
    for target in targets:
        for report in target.database.reports.fetch(target.database_key):
            key = report.nodeid, report.worker_uuid
            counts[key] = max(counts.get(key, 0), sum(report.status_counts.values()))
    return sum(counts.values())


def failures(targets: Iterable[FuzzTarget]) -> list[str]:
    """Describe the tests that failed, with their inputs."""
    texts = []
    for target in targets:
        database, key = target.database, target.database_key
        if fatal := database.fatal_failures.fetch(key):
            texts.append(f"{target.nodeid}\n{fatal.traceback}")
        for state in (FailureState.SHRUNK, FailureState.UNSHRUNK):
            for choices in database.failures(state=state).fetch(key):
                seen = database.failure_observations(state=state).fetch(key, choices)
                metadata = (
                    "" if seen is None else f"{seen.representation}\n{seen.metadata.traceback}"
                )
                texts.append(f"{target.nodeid}\n{metadata}")
    return texts


def run(command: list[str | Path], seconds: int, log: Path) -> int | None:
    """Run a command for some seconds; return its exit code if it stops by itself."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, start_new_session=True, stdout=file, stderr=file)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return None


def main(seconds: int, tests: list[str]) -> None:
    """Run HypoFuzz for some seconds, and print the number of inputs and the failures."""
    words = [*ARGUMENTS, *tests]
    targets = collect_tests(words).fuzz_targets
    before = inputs(targets)
    program = Path(sys.executable).with_name("hypothesis")
    command = [program, "fuzz", "--no-dashboard", "--numprocesses", "1", "--", *words]
    log = Path(os.environ["HYPOTHESIS_STORAGE_DIRECTORY"], "log")
    stopped = run(command, seconds, log)
    failed = failures(targets)
    for text in failed:
        sys.stdout.write(f"{text}\n")
    sys.stdout.write(f"{len(targets)} tests\n")
    sys.stdout.write(f"stat::number_of_executed_units: {inputs(targets) - before}\n")
    if stopped is not None:
        sys.stdout.write(f"{log.read_text(encoding='utf-8', errors='replace')}\n")
        sys.stdout.write(f"HypoFuzz stopped by itself, with exit code {stopped}\n")
    if failed or stopped is not None:
        raise SystemExit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:] or ["tests"])
