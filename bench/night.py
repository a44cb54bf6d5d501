"""What a row costs a nightly report, by setting: ``python -m bench.night``.

It writes bench/NIGHT.md. Each setting runs one night of few and one of many rows in a process of
its own. The difference over the rows between is the cost of a row. Memory is not extrapolated: it
grows until every thread has its batch of rows.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from pyarrow import parquet

from bench.tables import number, table
from fastrank_eval._lib.threads import format_bytes
from fastrank_eval.apps.demo import write_parquet

__all__ = ["SETTINGS", "Cost", "measured", "report"]

ROOT = Path(__file__).parent.parent
_FILE = ROOT / "bench" / "NIGHT.md"
_DATE = "2026-11-19"
#: Rows a night that costs are extrapolated to.
_DAY = 200_000_000
_CONFIG = """
[source]
path = "{path}"
[columns]
group = "user_id"
label = {label}{cluster}
[models]
scores = {scores}
baseline = "score_a"
[evaluate]
measures = {measures}
[slices]
by = {by}
[drift]
nights = {drift}
[history]
states = "{states}"
"""
_BINS = "AUC(bins=65536, se='clustered')"
_BASE: dict[str, object] = {
    "label": '"click"',
    "cluster": "",
    "scores": ["score_a", "score_b"],
    "measures": ["GAUC", _BINS, "LogLoss"],
    "by": ["slot", "country"],
    "drift": 14,
    "states": "slices",
}
#: What each line of the table changes of the first.
SETTINGS: dict[str, dict[str, object]] = {
    "the configuration above": {},
    "without AUC": {"measures": ["GAUC", "LogLoss"]},
    "AUC with every score": {"measures": ["GAUC", "AUC(se='clustered')", "LogLoss"]},
    "two measures more (nDCG@10, PCOC)": {
        "measures": ["GAUC", _BINS, "LogLoss", "nDCG@10", "PCOC"]
    },
    "no slices": {"by": []},
    "four slicings": {"by": ["slot", "country", "@rows:1,5,20", "slot,country"]},
    "a third model": {
        "scores": '{ score_a = "score_a", score_b = "score_b", mean = "(score_a + score_b) / 2" }'
    },
    "a second label": {"label": '["click", "other"]'},
    "clusters of users": {"cluster": '\ncluster = "user_id"'},
    "no drift": {"drift": 0},
    'states = "groups"': {"states": "groups"},
    'states = "everything"': {"states": "everything"},
}


class Cost(NamedTuple):
    """Seconds of the processors, and bytes, of one night."""

    rows: int
    seconds: float
    memory: int
    states: int


def measured(folder: Path, rows: int, setting: dict[str, object]) -> Cost:
    """Run a night in a process of its own, and measure it.

    Parameters
    ----------
    folder : path
        With the file of each number of rows.
    rows : int
    setting : dict
        Changes of the first configuration.
    """
    with tempfile.TemporaryDirectory(dir=folder) as name:
        config = Path(name) / "nightly.toml"
        content = _CONFIG.format(path=_source(folder, rows), **_BASE | setting)
        config.write_text(content, encoding="utf-8")
        command = [sys.executable, "-m", "fastrank_eval", "nightly", str(config), "--date", _DATE]
        with subprocess.Popen([*command, "-q"], cwd=ROOT) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, 3, 4):
            raise SystemExit(f"the night ended with {process.returncode}")
        with closing(sqlite3.connect(Path(name) / "history.db")) as history:
            ((states,),) = history.execute(
                "SELECT sum(length(content)) FROM state WHERE kind <> 'periods'"
            ).fetchall()
        return Cost(rows, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, states or 0)


def _source(folder: Path, rows: int) -> Path:
    """Return the path of rows with two labels; write them first."""
    path = folder / f"{rows}-{{date}}.parquet"
    file = Path(str(path).replace("{date}", _DATE))
    if not file.exists():
        first = folder / "first.parquet"
        write_parquet(first, rows, order="grouped", overwrite=True)
        whole = parquet.ParquetFile(first).read()
        parquet.write_table(whole.append_column("other", whole["click"]), file)
    return path


def report(costs: dict[str, tuple[Cost, Cost]]) -> str:
    """Write up the costs of each setting.

    Parameters
    ----------
    costs : dict of str to (Cost, Cost)
        Those of a night of few rows, and of one of many.

    Returns
    -------
    str
        Markdown.
    """
    few, many = next(iter(costs.values()))
    lines = []
    for name, (small, large) in costs.items():
        more = large.rows - small.rows
        seconds = max(0.0, large.seconds - small.seconds) / more
        states = max(0, large.states - small.states) / more
        rest = _DAY - large.rows
        lines.append(
            [
                name,
                number(1e6 * seconds),
                number((large.seconds + seconds * rest) / 60),
                *map(format_bytes, (large.memory, large.states)),
                number(states),
            ]
        )
    day = f"{_DAY:,}"
    header = [
        *("setting", "µs of a processor a row", f"minutes of a processor, {day} rows"),
        *(f"memory, {many.rows:,} rows", f"states, {many.rows:,} rows"),
        "bytes of states for each row more",
    ]
    parts = [
        "# What a row costs a nightly report",
        f"Written by `make bench ARGS=night` from nights of {few.rows:,} and {many.rows:,} rows; "
        f"numbers of {day} rows are extrapolated along the line through both. Rows of a user are "
        "adjacent, in one file.",
        "## Costs",
        f"```toml{_CONFIG.format(path='logs/day={date}', **_BASE)}```",
        f"Measured with nights of {few.rows:,} and {many.rows:,} rows; those of {day} rows are "
        "extrapolated along the line through both. Every line changes one setting of the first.",
        table(header, lines, "lrrrrr"),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(prog="python -m bench.night", description=__doc__)
    parser.add_argument("--rows", type=int, nargs=2, default=(1_000_000, 5_000_000))
    parser.add_argument("--output", type=Path, default=_FILE)
    chosen = parser.parse_args(arguments)
    costs = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for setting, changes in SETTINGS.items():
            measured(folder, 2_000, changes)  # compiles its kernels
            few, many = (measured(folder, rows, changes) for rows in chosen.rows)
            print(setting, few, many, flush=True)
            costs[setting] = few, many
    chosen.output.write_text(report(costs), encoding="utf-8")
    print(f"wrote {chosen.output}")


if __name__ == "__main__":
    main()
