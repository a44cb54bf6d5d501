"""A session of Spark Connect, whose answers are told as JSON: `python -m ... FOLDER`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastrank_eval as fe
from tests.distributed.conftest import settings


def told(call: Callable[[], Any]) -> list[str]:
    """The type and the words of what a call raises."""
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return []


def main(folder: Path) -> None:
    """Ask everything of folder/log.parquet that folder/job.json names."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings(folder).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    job = json.loads((folder / "job.json").read_text())
    rows, faulty = (
        session.read.parquet(str(folder / f"{name}.parquet")) for name in ("log", "faulty")
    )
    options = job["options"]
    answers: dict[str, Any] = {"session": type(session).__module__}
    for name, more in job["evaluations"].items():
        found = fe.spark.evaluate(rows, **{**options, **more})
        answers[name] = [repr(value) for value in found.values]
    compared = fe.spark.compare(rows, **options, baseline=options["score"][0])
    answers["compare"] = [repr(line) for line in compared]
    values = fe.spark.evaluate(rows, per_group=True, **options)
    values.write.parquet(str(folder / "groups"))
    answers["faulty"] = told(lambda: fe.spark.evaluate(faulty, **options))
    answers["faulty groups"] = told(
        lambda: fe.spark.evaluate(faulty, per_group=True, **options).collect()
    )
    (folder / "answers.json").write_text(json.dumps(answers))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
