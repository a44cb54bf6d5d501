"""A session of Spark of its own, in which a partition fails in some way; told as lines of JSON.

`python -m tests.distributed.failing_job FOLDER WAY ...` reads its task from FOLDER/job.json. In
each way the first attempt at partition 1 leaves a file named after it, as do those that follow.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastrank_eval as fe
from fastrank_eval.integrations.spark import worker
from tests.distributed.conftest import started

#: How long a slow attempt waits for another to begin.
PATIENCE = 60.0


def kill_worker(folder: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor(folder: Path) -> None:
    import psutil

    parents = psutil.Process().parents()
    os.kill(next(one.pid for one in parents if one.name() == "java"), signal.SIGKILL)


def wait_for_another(folder: Path) -> None:
    until = time.monotonic() + PATIENCE
    while len(list(folder.iterdir())) < 2 and time.monotonic() < until:
        time.sleep(0.05)


def nothing(folder: Path) -> None:
    pass


WAYS: dict[str, Callable[[Path], None]] = {
    "sound": nothing,
    "worker killed": kill_worker,
    "executor killed": kill_executor,
    "slow": wait_for_another,
}


def failing(real: Any, fail: Callable[[Path], None], folder: Path) -> Any:
    """The work of a partition, of which the first attempt fails in the midst of its rows."""

    def broken(task: Any, batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()

        def read() -> Iterator[Any]:
            for number, batch in enumerate(batches):
                if number == 1 and context.partitionId() == 1:
                    first = not list(folder.iterdir())
                    (folder / f"attempt {context.taskAttemptId()}").touch()
                    if first:
                        fail(folder)
                yield batch

        yield from real(task, read())

    return broken


def main(folder: Path, ways: list[str]) -> None:
    """Evaluate once for each way, and tell what came of it."""
    job = json.loads((folder / "job.json").read_text())
    settings = {"spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"], **job["settings"]}
    session = started(job["master"], folder, **settings)
    rows = session.read.parquet(job["rows"])
    real = worker.partition_state
    for way in ways:
        attempts = folder / way
        attempts.mkdir()
        worker.partition_state = failing(real, WAYS[way], attempts)
        told: dict[str, Any] = {"way": way}
        try:
            found = fe.spark.evaluate(rows, **job["options"])
        except Exception as error:
            told["error"] = [type(error).__module__, str(error)]
        else:
            told["values"] = [repr(value) for value in found.values]
            told["rows"], told["groups"] = found.meta.rows, found.meta.groups
        told["attempts"] = len(list(attempts.iterdir()))
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
