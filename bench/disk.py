"""Space on disk: nights of a report, compiled kernels, sorted rows: ``python -m bench.disk``.

It writes bench/DISK.md. Everything is made in a temporary folder of build/bench/, which is removed:
kernels are not stored below /tmp.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from bench.tables import NONE, table
from fastrank_eval._lib.threads import format_bytes
from fastrank_eval.apps.demo import write_parquet

__all__ = ["Month", "Spill", "measured_month", "report", "spilled"]

ROOT = Path(__file__).parent.parent
_FOLDER = ROOT / "build" / "bench"
_FILE = ROOT / "bench" / "DISK.md"
#: Values of `[history] states`, the default first.
STATES = ("slices", "everything", "rows", "groups")
#: The last night of the month that is run, and the first one whose growth counts: from then on
#: there are enough nights before it for every comparison.
_LAST, _FROM = 30, 21
_SECONDS = 0.005


@dataclass(frozen=True)
class Month:
    """Sizes of a month of nights, in bytes.

    Parameters
    ----------
    rows : int
        Rows of a working day.
    states : str
        The value of ``[history] states``.
    history : float
        Growth of history.db by a night.
    page : float
        Mean of a page.
    groups : int
        All files of groups behind failed gates.
    summary : int
        The JSON of the last night.
    """

    rows: int
    states: str
    history: float
    page: float
    groups: int
    summary: int


@dataclass(frozen=True)
class Spill:
    """An evaluation of scattered rows with a limit of memory.

    Parameters
    ----------
    rows : int
    memory : str
    content : str
        Types of the columns.
    largest : int
        The most bytes that the folder of spilled rows had.
    left : int
        Files in the folder after the run.
    """

    rows: int
    memory: str
    content: str
    largest: int
    left: int


def measured_month(
    folder: Path, rows: int, states: str, kernels: Path, *, last: int = _LAST, first: int = _FROM
) -> Month:
    """Run the month of the demo, and measure its files.

    Parameters
    ----------
    folder : path
        A new folder.
    rows : int
    states : str
    kernels : path
        The store of compiled kernels.
    last : int
        The last night.
    first : int
        The first night whose growth counts.
    """
    _run(kernels, "demo", str(folder), "--rows", "1000", "--night-rows", str(rows))
    month, config = folder / "month", folder / "month" / "nightly.toml"
    with config.open("a", encoding="utf-8") as file:
        file.write(f'\n[history]\nstates = "{states}"\n')
    history, sizes = month / "history.db", []
    for begin, end in ((1, first - 1), (first, last)):
        days = f"2026-11-{begin:02}..2026-11-{end:02}"
        _run(kernels, "nightly", str(config), "--backfill", days, "--quiet", codes=(0, 3, 4))
        sizes.append(history.stat().st_size)
    summary = month / "summary.json"
    night = ("--date", f"2026-11-{last:02}", "--json", str(summary), "--quiet")
    _run(kernels, "nightly", str(config), *night, codes=(0, 3, 4))
    pages = [page.stat().st_size for page in (month / "report").glob("2026-*.html")]
    groups = [file.stat().st_size for file in (month / "report").glob("*-groups.parquet")]
    return Month(
        rows,
        states,
        (sizes[1] - sizes[0]) / (last - first + 1),
        sum(pages) / len(pages),
        sum(groups),
        summary.stat().st_size,
    )


def spilled(folder: Path, rows: int, memory: str, kernels: Path) -> Spill:
    """Evaluate scattered rows that do not fit the memory, and watch the folder of spilled rows.

    Parameters
    ----------
    folder : path
        A new folder.
    rows : int
    memory : str
    kernels : path
    """
    spill = folder / "spill"
    spill.mkdir(parents=True)
    source, output = folder / "rows.parquet", folder / "report.json"
    write_parquet(source, rows, order="shuffled")
    sizes, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(_SECONDS):
            sizes.append(_bytes_in(spill))

    watcher = threading.Thread(target=watch)
    watcher.start()
    columns = ("--group", "user_id", "--label", "click", "--score", "score_a")
    limits = ("--order", "scattered", "--memory", memory)
    options = ("--measures", "GAUC", "--quiet", "-f", "json", "-o", str(output))
    try:
        _run(kernels, "evaluate", str(source), *columns, *limits, *options, TMPDIR=str(spill))
    finally:
        ended.set()
        watcher.join()
    conventions = json.loads(output.read_text("utf-8"))["meta"]["conventions"]
    if not conventions.get("spilled"):
        raise SystemExit(f"{rows:,} rows fit {memory}: give more rows, or less memory")
    content = "integer key, float32 score, click"
    return Spill(rows, memory, content, max(sizes), sum(1 for _ in spill.iterdir()))


def _bytes_in(folder: Path) -> int:
    """Add the sizes of the files of a folder, which another process writes."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def _run(kernels: Path, *arguments: str, codes: tuple[int, ...] = (0,), **more: str) -> None:
    command = [sys.executable, "-m", "fastrank_eval", *arguments]
    environment = {**os.environ, "FASTRANK_CACHE_DIR": str(kernels), **more}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    if done.returncode not in codes:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr.decode()}")


def report(months: list[Month], kernels: tuple[int, int], spills: list[Spill]) -> str:
    """Write up sizes.

    Parameters
    ----------
    months : list of Month
    kernels : tuple of two int
        Files of the store of kernels, and their bytes.
    spills : list of Spill

    Returns
    -------
    str
        Markdown.
    """
    nights = [
        [
            f"{month.rows:,}",
            f'`"{month.states}"`' + " (default)" * (month.states == STATES[0]),
            *map(_size, (month.history, month.page, month.summary)),
            _size(month.groups) if month.groups else NONE,
        ]
        for month in months
    ]
    files, size = kernels
    runs = [
        [f"{each.rows:,}", each.content, f"`{each.memory}`", _size(each.largest),
         f"{each.largest / each.rows:.1f}", str(each.left)]
        for each in spills
    ]  # fmt: skip
    header = ["rows a night", "`[history] states`", "`history.db`, a night", "page, a night",
              "`--json`", "files of groups, the month"]  # fmt: skip
    sorted_rows = ["rows", "columns", "`--memory`", "most space", "bytes a row", "files left"]
    parts = [
        "# Space on disk",
        "Written by `make bench ARGS=disk` from its own measurements. The month is that of "
        f"`fastrank-eval demo`: two models, five measures, three slicings. Growth of `history.db` "
        f"is the mean of nights {_FROM} to {_LAST}.",
        "## Sizes",
        table(header, nights, "rlrrrr"),
        f"This month compiles {files} kernels into the store: {_size(size)}.",
        "Rows in any order that do not fit `--memory`, while they are sorted:",
        table(sorted_rows, runs, "rllrrr"),
    ]
    return "\n\n".join(parts) + "\n"


def _size(value: float) -> str:
    return format_bytes(round(value))


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the report."""
    parser = argparse.ArgumentParser(prog="python -m bench.disk", description=__doc__)
    parser.add_argument("--output", type=Path, default=_FILE)
    chosen = parser.parse_args(arguments)
    months = []
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as name:
        folder = Path(name)
        kernels = folder / "kernels"
        kernels.mkdir()
        spill = spilled(folder / "scattered", 30_000_000, "400MB", folder)
        print(spill, flush=True)
        for rows, kinds in ((20_000, STATES), (200_000, (STATES[0], STATES[-1]))):
            for states in kinds:
                month = measured_month(folder / f"{rows}-{states}", rows, states, kernels)
                print(month, flush=True)
                months.append(month)
                if len(months) == 1:
                    files = [path for path in kernels.rglob("*") if path.is_file()]
                    store = len(files), sum(path.stat().st_size for path in files)
    chosen.output.write_text(report(months, store, [spill]), encoding="utf-8")
    print(f"wrote {chosen.output}")


if __name__ == "__main__":
    main()
