"""`python -m bench.scale`: from a million rows to a billion, and scattered rows in little memory.

Each evaluation runs in a process of its own. Files are made once, in build/bench/, and used again;
the report is bench/SCALE.md.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import parquet

from bench.fresh import Once, evaluated_once
from bench.machine import Clock, described, machine_lines
from bench.tables import NONE, number, table
from bench.workload import MEASURES, SEED, SMALL_ROWS, THREADS
from fastrank_eval import FastRankEvalError
from fastrank_eval.apps.demo import write_parquet
from fastrank_eval.apps.demo.rows import Recipe

__all__ = ["FOLDER", "Entry", "made_once", "report"]

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "bench"

#: Bytes a row on disk, a little more than data_gen needs.
_BYTES = {"sorted": 10, "shuffled": 16}
#: Left over for everybody else, and for what is spilled.
_SPARE_BYTES = 5e9

#: In units of 10**6 bytes, as memory is told here.
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)(MB|GB)")

_FLAT = 0.15
_TIMES_IN_MEMORY = 4.0


@dataclass(frozen=True)
class Entry:
    """One evaluation.

    Parameters
    ----------
    order : {'sorted', 'scattered'}
        Of the rows, and as the engine is told.
    measures : str
        Of `bench.workload.MEASURES`.
    rows : int
    memory : str or None
        What the engine may use; None: whatever it takes.
    once : Once or None
        None if it failed.
    """

    order: str
    measures: str
    rows: int
    memory: str | None
    once: Once | None


def main(arguments: list[str] | None = None) -> int:
    """Measure and write the report; return the exit status."""
    chosen = _parser().parse_args(arguments)
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted = [("sorted", rows) for rows in chosen.rows]
    wanted += [("shuffled", rows) for rows in chosen.scattered]
    if problem := _no_room(wanted):
        print(problem, file=sys.stderr)
        return 2
    machine, clock = described(), Clock()
    try:
        small = made_once(_path("sorted", SMALL_ROWS), SMALL_ROWS, order="sorted")
        files = [
            (order, rows, made_once(_path(order, rows), rows, order=order))
            for order, rows in wanted
        ]
    except FastRankEvalError as error:
        print(error, file=sys.stderr)
        return 2
    entries = []
    for order, rows, path in files:
        for measures in chosen.measures:
            limits = [None, chosen.memory] if order == "shuffled" else [None]
            for memory in limits:
                entry = _entry(small, path, order, measures, rows, memory, chosen.threads)
                entries.append(entry)
                print(" ".join(_line(entry)), flush=True)
    machine["others"] = clock.others()
    text = report(entries, machine, dt.date.today().isoformat(), chosen.threads)
    chosen.output.write_text(text, encoding="utf-8")
    print(f"wrote {chosen.output}")
    return 0 if all(entry.once for entry in entries) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    add = parser.add_argument
    add("--rows", type=_counts, default="1e6,1e7,1e8,1e9", help="sizes of the sorted files")
    add("--scattered", type=_counts, default="1e8", help="of the scattered ones; '' for none")
    add("--measures", type=_measures, default="GAUC,seven,eight", help=f"of {', '.join(MEASURES)}")
    add("--memory", type=_memory, default="2GB", help="what evaluating scattered rows may use")
    add("--threads", type=int, default=max(THREADS))
    add("--output", type=Path, default=ROOT / "bench" / "SCALE.md")
    return parser


def _counts(text: str) -> list[int]:
    sizes = [float(part) for part in text.split(",") if part.strip()]
    if not all(1 <= rows <= 1e12 for rows in sizes):
        raise argparse.ArgumentTypeError(f"{text!r}: a file has 1 to 1e12 rows")
    return [int(rows) for rows in sizes]


def _memory(text: str) -> str:
    if not _MEMORY.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of memory such as 500MB or 2GB")
    return text


def _measures(text: str) -> list[str]:
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in MEASURES:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(MEASURES)}")
    return names


def _path(order: str, rows: int) -> Path:
    return FOLDER / f"{order}-{rows}.parquet"


def _is_made(path: Path, rows: int, **choices: Any) -> bool:
    """Whether the file is there already, made by the same recipe."""
    if not path.is_file():
        return False
    noted = (parquet.read_schema(path).metadata or {}).get(b"data_gen", b"")
    return bool(noted.decode() == Recipe(rows, seed=SEED, **choices).to_json())


def made_once(path: Path, rows: int, **choices: Any) -> Path:
    """Make a file of impressions unless it is there; return its path."""
    if not _is_made(path, rows, **choices):
        print(f"making {path}", flush=True)
        write_parquet(path, rows, seed=SEED, overwrite=True, **choices)
    return path


def _no_room(wanted: Iterable[tuple[str, int]]) -> str:
    """What to say if the files to be made would fill the disk; empty if they fit."""
    needed = sum(
        _BYTES[order] * rows
        for order, rows in wanted
        if not _is_made(_path(order, rows), rows, order=order)
    )
    free = shutil.disk_usage(FOLDER).free
    if needed + _SPARE_BYTES <= free or not needed:
        return ""
    return (
        f"{FOLDER}: {free / 1e9:.0f} GB are free, but the files need {needed / 1e9:.1f} GB and "
        f"{_SPARE_BYTES / 1e9:.0f} GB should be left; free some, or choose fewer rows with --rows "
        "and --scattered."
    )


def _entry(
    small: Path, path: Path, order: str, measures: str, rows: int, memory: str | None, threads: int
) -> Entry:
    order = "sorted" if order == "sorted" else "scattered"
    options: dict[str, Any] = {"threads": threads, "order": order}
    options |= {} if memory is None else {"memory": memory}
    try:
        once = evaluated_once(small, path, MEASURES[measures], **options)
    except subprocess.CalledProcessError as error:
        print(f"{order}, {rows:,} rows, {measures}: failed with status {error.returncode}")
        return Entry(order, measures, rows, memory, None)
    return Entry(order, measures, rows, memory, once)


# ------------------------------------------------------------------------------------ report


def report(entries: list[Entry], machine: dict[str, object], date: str, threads: int) -> str:
    """Write up evaluations of several sizes.

    Parameters
    ----------
    entries : list of Entry
    machine : dict
        As `bench.machine.described` tells it.
    date : str
    threads : int

    Returns
    -------
    str
        Markdown.
    """
    header = [
        "rows", "order", "measures", "memory", "seconds", "Mrows/s", "ns a row",
        "before, MB", "peak, MB", "above, MB", "rounds",
    ]  # fmt: skip
    facts = [f"date: {date}", *machine_lines(machine), f"threads: {threads}"]
    parts = [
        "# Scale",
        "Written by `make bench ARGS=scale` from its own measurements, no number is typed. Each "
        "evaluation ran in a process of its own, from a Parquet file on the local disk to the "
        "numbers, after a tiny evaluation; files that are read fast were read several times, and "
        "the table has the median. Peak: VmHWM. Files may be in the page cache or not.",
        "\n".join(f"* {fact}" for fact in facts),
        "## Targets",
        table(["target", "wanted", "measured", "met"], _verdicts(entries), "lrrl"),
        "## Evaluations",
        table(header, [_line(entry) for entry in entries], "rlllrrrrrrr"),
    ]
    return "\n\n".join(parts) + "\n"


def _line(entry: Entry) -> list[str]:
    once = entry.once
    said = [f"{entry.rows:,}", entry.order, entry.measures, entry.memory or NONE]
    if once is None:
        return [*said, "failed", *[NONE] * 6]
    return [
        *said,
        f"{once.seconds:.3f}",
        number(once.mrows),
        number(once.ns_a_row),
        f"{once.baseline_mb:.0f}",
        f"{once.peak_mb:.0f}",
        f"{once.above_mb:.0f}",
        str(once.rounds),
    ]


def _verdicts(entries: list[Entry]) -> list[list[str]]:
    return [
        *_flatness(entries),
        *_little_memory(entries),
        *_same_numbers(entries),
    ]


def _flatness(entries: list[Entry]) -> list[list[str]]:
    lines = []
    for measures in dict.fromkeys(entry.measures for entry in entries):
        paces = {
            entry.rows: entry.once.ns_a_row
            for entry in entries
            if entry.order == "sorted" and entry.measures == measures and entry.once
        }
        if len(paces) < 2:
            continue
        spread = max(paces.values()) / min(paces.values()) - 1
        name = f"{measures}, sorted, {min(paces):,} to {max(paces):,} rows: ns a row differ by"
        lines.append([name, f"≤ {_FLAT:.0%}", f"{spread:.0%}", _yes(spread <= _FLAT)])
    return lines


def _little_memory(entries: list[Entry]) -> list[list[str]]:
    lines = []
    for entry in entries:
        if entry.memory is None or entry.once is None:
            continue
        above = entry.once.above_mb
        amount, unit = _MEMORY.fullmatch(entry.memory).groups()  # type: ignore[union-attr]
        limit = float(amount) * (1000 if unit == "GB" else 1)
        lines.append(
            [
                f"{entry.measures}, scattered, {entry.rows:,} rows, memory={entry.memory}: peak "
                "above the imports",
                f"≤ {limit:,.0f} MB",
                f"{above:,.0f} MB",
                _yes(above <= limit),
            ]
        )
        same = [
            other.once
            for other in entries
            if (other.order, other.measures, other.rows, other.memory)
            == (entry.order, entry.measures, entry.rows, None)
        ]
        if same and same[0]:
            ratio = entry.once.seconds / same[0].seconds
            lines.append(
                [
                    f"{entry.measures}, scattered, {entry.rows:,} rows: time under memory="
                    f"{entry.memory} over in memory",
                    f"≤ {_TIMES_IN_MEMORY:g} times",
                    f"{number(ratio)} times",
                    _yes(ratio <= _TIMES_IN_MEMORY),
                ]
            )
    return lines


def _same_numbers(entries: list[Entry]) -> list[list[str]]:
    """The same rows in any order, in any memory, give the same numbers to the last bit."""
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for entry in entries:
        if entry.once:
            found.setdefault((entry.measures, entry.rows), []).append(entry.once.values)
    return [
        [
            f"{measures}, {rows:,} rows, {len(values)} ways: numbers agree",
            "to the last bit",
            "equal" if (equal := all(value == values[0] for value in values)) else "different",
            _yes(equal),
        ]
        for (measures, rows), values in found.items()
        if len(values) > 1
    ]


def _yes(met: bool) -> str:
    return "yes" if met else "**no**"


if __name__ == "__main__":
    sys.exit(main())
