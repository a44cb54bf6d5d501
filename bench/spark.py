"""`python -m bench.spark`: what evaluating inside Spark costs beside Spark's own shuffle and sort.

One session runs all cases in turns, one round after another. The report, bench/SPARK.md, has the
processor time of the whole tree of processes (this one, the JVM, its Python workers).
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import psutil
import pyarrow as pa

from bench.machine import described, machine_lines
from bench.scale import FOLDER, made_once
from bench.tables import number, table
from bench.workload import COLUMNS, FULL_ROWS, SEVEN
from fastrank_eval import spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Case", "Ran", "report", "tree_seconds"]

ROOT = Path(__file__).parent.parent
KEYS: dict[str, Literal["int", "string"]] = {"int64": "int", "string": "string"}
USER, CLICK, SCORE = COLUMNS

#: What a case costs is told against these.
SCAN, SORTED, ORDERED, COUNTED = (
    "scan",
    "shuffle, sorted by key",
    "shuffle, sorted by key and score",
    "shuffle, sorted by key, rows counted in Python",
)
EVALUATED = {"evaluate GAUC": "GAUC", "evaluate seven": SEVEN}
WEIGHED = "evaluate GAUC, each row's bytes counted"
#: After every row that Spark sends to Python it adds up the bytes of the batch, unless there is no
#: limit to them.
LIMIT, UNLIMITED = "spark.sql.execution.arrow.maxBytesPerBatch", str((1 << 31) - 1)
TARGET = 1.4


@dataclass(frozen=True)
class Ran:
    """What one round of a case took.

    Parameters
    ----------
    java, python : float
        Processor seconds, of the JVM and of everything else.
    wall : float
        Seconds.
    """

    java: float
    python: float
    wall: float

    @property
    def cpu(self) -> float:
        return self.java + self.python


@dataclass
class Case:
    """One case over rows with one type of key.

    Parameters
    ----------
    key : str
        Of `KEYS`.
    name : str
    rounds : list of Ran
    """

    key: str
    name: str
    rounds: list[Ran] = field(default_factory=list)

    def median(self, what: Callable[[Ran], float]) -> float:
        return median(map(what, self.rounds))


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the report; return the exit status."""
    chosen = _parser().parse_args(arguments)
    if find_spec("pyspark") is None or shutil.which("java") is None:
        print("python -m bench.spark needs pyspark and a Java of 17 or later", file=sys.stderr)
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    files = {
        key: made_once(
            FOLDER / f"spark-{key}-{chosen.rows}.parquet",
            chosen.rows,
            order="shuffled",
            ids=KEYS[key],
        )
        for key in chosen.keys
    }
    machine = described()
    machine["versions"] = {**machine["versions"], "pyspark": version("pyspark")}  # type: ignore[dict-item]
    cases = []
    with _session(chosen.cores, chosen.partitions, FOLDER) as session:
        for key, path in files.items():
            cases += measured(session, key, path, chosen.partitions, chosen.rounds)
    settings = f"local[{chosen.cores}], {chosen.partitions} partitions"
    text = report(cases, machine, dt.date.today().isoformat(), chosen.rows, settings)
    chosen.output.write_text(text, encoding="utf-8")
    print(f"wrote {chosen.output}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    add = parser.add_argument
    add("--rows", type=lambda text: int(float(text)), default=FULL_ROWS)
    add("--keys", type=lambda text: text.split(","), default=list(KEYS), help=",".join(KEYS))
    add("--rounds", type=int, default=3, help="timed ones, after one that is not")
    add("--partitions", type=int, default=16)
    add("--cores", type=int, default=2)
    add("--output", type=Path, default=ROOT / "bench" / "SPARK.md")
    return parser


@contextmanager
def _session(cores: int, partitions: int, folder: Path) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.local.dir": str(folder / "spark"),
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


# ------------------------------------------------------------------------------------ measuring


def tree_seconds() -> tuple[float, float]:
    """Processor seconds so far of this process and those it started: JVMs, and all others."""
    java = python = 0.0
    here = psutil.Process()
    for process in [here, *here.children(recursive=True)]:
        try:
            name, spent = process.name(), process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        if name == "java":
            java += spent.user + spent.system
            # Of its children only those that have ended: Python daemons, which live on.
            python += spent.children_user + spent.children_system
        else:
            python += spent.user + spent.system + spent.children_user + spent.children_system
    return java, python


def measured(
    session: SparkSession, key: str, path: Path, partitions: int, rounds: int
) -> list[Case]:
    """Run all cases in turns; a first round is not told."""
    calls = _calls(session.read.parquet(str(path)).select(*COLUMNS), partitions)
    weighed = session.conf.get(LIMIT) or UNLIMITED
    cases = [Case(key, name) for name in calls]
    for turn in range(rounds + 1):
        for case in cases:
            session.conf.set(LIMIT, weighed if case.name == WEIGHED else UNLIMITED)
            before, clock = tree_seconds(), dt.datetime.now()
            calls[case.name]()
            wall = (dt.datetime.now() - clock).total_seconds()
            session.conf.set(LIMIT, weighed)
            java, python = (after - b for after, b in zip(tree_seconds(), before, strict=True))
            ran = Ran(java, python, wall)
            print(
                f"{key}, round {turn}, {case.name}: {ran.cpu:.2f} CPU s ({java:.2f} Java)",
                flush=True,
            )
            if turn:
                case.rounds.append(ran)
    return cases


def _calls(rows: DataFrame, partitions: int) -> dict[str, Callable[[], object]]:
    from pyspark.sql import functions

    shuffled = rows.repartition(partitions, USER)
    by_key = shuffled.sortWithinPartitions(USER)
    by_score = shuffled.sortWithinPartitions(USER, functions.col(SCORE).desc())
    return {
        SCAN: partial(_discard, rows),
        SORTED: partial(_discard, by_key),
        ORDERED: partial(_discard, by_score),
        # Made anew each time: Spark keeps what it has shuffled for a plan that is run again.
        COUNTED: lambda: by_key.mapInArrow(_count, "rows long").collect(),
        **{
            name: partial(
                spark.evaluate,
                rows,
                group=USER,
                label=CLICK,
                score=SCORE,
                measures=measures,
                partitions=partitions,
            )
            for name, measures in (*EVALUATED.items(), (WEIGHED, "GAUC"))
        },
    }


def _discard(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"rows": pa.array([sum(b.num_rows for b in batches)], pa.int64())})


# ------------------------------------------------------------------------------------ report


def report(cases: list[Case], machine: dict[str, Any], date: str, rows: int, settings: str) -> str:
    """Write up what cases took.

    Parameters
    ----------
    cases : list of Case
    machine : dict
        As `bench.machine.described` tells it.
    date : str
    rows : int
    settings : str
        Of the session.

    Returns
    -------
    str
        Markdown.
    """
    facts = [f"date: {date}", *machine_lines(machine), f"Spark: {settings}", f"rows: {rows:,}"]
    header = ["key", "case", "CPU s", "of the JVM", "of Python", "wall s", "CPU µs a row"]
    parts = [
        "# Spark",
        "Written by `make bench ARGS=spark` from its own measurements, no number is typed. All "
        "cases ran in one session, in turns, a first round left out, on the same Parquet file of "
        "shuffled rows: an integer or a string key, a label of one byte, a float32 score. CPU s: "
        "processor time of the whole tree of processes, the median of "
        f"{max((len(case.rounds) for case in cases), default=0)} rounds. Workers that count rows "
        f"are those that evaluate. `{LIMIT}` is {UNLIMITED}, but where each row's bytes are "
        "counted: there it is as Spark sets it.",
        "\n".join(f"* {fact}" for fact in facts),
        "## Target",
        table(["target", "wanted", "measured", "met"], _verdicts(cases), "lrrl"),
        "## Cases",
        table(header, [_line(case, rows) for case in cases], "llrrrrr"),
        "## Ratios of CPU s",
        table(["key", "case", *(f"over: {base}" for base in BASES)], _ratios(cases), "llrrr"),
    ]
    return "\n\n".join(parts) + "\n"


BASES = (SORTED, ORDERED, COUNTED)


def _line(case: Case, rows: int) -> list[str]:
    cpu = case.median(lambda ran: ran.cpu)
    return [
        case.key,
        case.name,
        number(cpu),
        number(case.median(lambda ran: ran.java)),
        number(case.median(lambda ran: ran.python)),
        number(case.median(lambda ran: ran.wall)),
        number(1e6 * cpu / rows),
    ]


def _ratio(cases: list[Case], key: str, name: str, base: str) -> float:
    """How many times as much a case takes as another, in the same rounds."""
    of = {case.name: case.median(lambda ran: ran.cpu) for case in cases if case.key == key}
    return of[name] / of[base]


def _ratios(cases: list[Case]) -> list[list[str]]:
    return [
        [case.key, case.name, *(number(_ratio(cases, case.key, case.name, base)) for base in BASES)]
        for case in cases
        if case.name in (*EVALUATED, WEIGHED)
    ]


def _verdicts(cases: list[Case]) -> list[list[str]]:
    lines = []
    for case in cases:
        if case.name in (*EVALUATED, WEIGHED):
            ratio = _ratio(cases, case.key, case.name, SORTED)
            met = "yes" if ratio <= TARGET else "**no**"
            name = f"{case.name}, {case.key} key: CPU time over Spark's own {SORTED}"
            lines.append([name, f"≤ {TARGET:g} times", f"{number(ratio)} times", met])
    return lines


if __name__ == "__main__":
    sys.exit(main())
