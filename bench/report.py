"""From the JSON of a run to RESULTS.md and the block of the README: no number is typed by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["Case", "Run", "fill_block", "read_run", "readme_block", "results"]

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
NONE = "–"


@dataclass(frozen=True)
class Case:
    """One case of the benchmark.

    Parameters
    ----------
    info : dict
        What the case said of itself: kind, rows, threads, measures ...
    seconds : float
        Median wall time of a round.
    fastest : float
        Wall time of the fastest round.
    cpu : float or None
        Median processor time of a round, all threads together.
    rounds : int
    """

    info: dict[str, Any]
    seconds: float
    fastest: float
    cpu: float | None
    rounds: int

    @property
    def mrows(self) -> float:
        """Million rows a second, by the median round."""
        return float(self.info["rows"]) / self.seconds / 1e6

    @property
    def fastest_mrows(self) -> float:
        """Million rows a second, by the fastest round."""
        return float(self.info["rows"]) / self.fastest / 1e6

    @property
    def cpu_mrows(self) -> float | None:
        """Million rows a second of processor time."""
        return float(self.info["rows"]) / self.cpu / 1e6 if self.cpu else None

    @property
    def bandwidth(self) -> float:
        """Bytes a second, by the median round."""
        return float(self.info["bytes"]) / self.seconds


@dataclass(frozen=True)
class Run:
    """One run of the benchmark: the machine and every case."""

    date: str
    machine: dict[str, Any]
    cases: tuple[Case, ...]

    def all(self, kind: str, **info: object) -> list[Case]:
        """Select the cases of a kind, in the order they ran."""
        wanted = {"kind": kind, **info}
        return [case for case in self.cases if wanted.items() <= case.info.items()]

    def one(self, kind: str, **info: object) -> Case | None:
        """Select a case; None if it did not run."""
        found = self.all(kind, **info)
        return found[0] if found else None

    def scaling(self, case: Case | None) -> float | None:
        """Speed of a case over that of the same case on one thread."""
        if case is None:
            return None
        shared = {name: case.info[name] for name in ("kind", "input", "measures")}
        single = self.one(**shared, threads=1)
        return single.seconds / case.seconds if single else None


def read_run(path: Path) -> Run:
    """Read what pytest-benchmark wrote.

    Parameters
    ----------
    path : Path
        Of its JSON.

    Returns
    -------
    Run
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    cases = []
    for entry in found["benchmarks"]:
        stats, info = entry["stats"], entry["extra_info"]
        cpu = median(info["cpu"]) if info.get("cpu") else None
        cases.append(Case(info, stats["median"], stats["min"], cpu, stats["rounds"]))
    date = str(found["datetime"]).partition("T")[0]
    return Run(date, found["machine_info"]["bench"], tuple(cases))


# ------------------------------------------------------------------------------------ targets


@dataclass(frozen=True)
class Target:
    """A number to reach, and how a run shows it: (wall clock, by processor time).

    Parameters
    ----------
    text : str
    limit : float
    unit : str
    at_least : bool
        Otherwise at most.
    measured : callable
        Of a run; None for what it did not measure.
    """

    text: str
    limit: float
    unit: str
    at_least: bool
    measured: Callable[[Run], tuple[float | None, float | None]]

    def row(self, run: Run) -> list[str]:
        """Lay target, measurement and verdict side by side."""
        wall, cpu = self.measured(run)
        wanted = f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}".rstrip()
        if wall is None:
            return [self.text, wanted, "not measured", NONE, NONE]
        met = wall >= self.limit if self.at_least else wall <= self.limit
        shown = f"{_number(wall)} {self.unit}".rstrip()
        return [self.text, wanted, shown, _number(cpu), "yes" if met else "**no**"]


def _speed(run: Run, rows: str, measures: str, threads: int) -> tuple[float | None, float | None]:
    case = run.one("speed", input=rows, measures=measures, threads=threads)
    return (case.mrows, case.cpu_mrows) if case else (None, None)


def _scaling(run: Run, rows: str) -> tuple[float | None, float | None]:
    case = run.one("speed", input=rows, measures="eight", threads=2)
    return run.scaling(case), None


def _peak(run: Run, measures: str, *, largest: bool) -> tuple[float | None, float | None]:
    cases = sorted(run.all("memory", measures=measures), key=lambda case: int(case.info["rows"]))
    return (cases[-1 if largest else 0].info["above_mb"], None) if cases else (None, None)


def _start(run: Run, cache: str) -> tuple[float | None, float | None]:
    case = run.one("start", cache=cache)
    return (case.seconds, case.cpu) if case else (None, None)


def _targets(run: Run) -> Iterable[Target]:
    def speed(text: str, limit: float, rows: str, measures: str, threads: int) -> Target:
        measured = partial(_speed, rows=rows, measures=measures, threads=threads)
        return Target(text, limit, "Mrows/s", True, measured)

    yield speed("eight measures, presorted, one core", 150, "presorted", "eight", 1)
    yield speed("GAUC alone, presorted, one core", 300, "presorted", "GAUC", 1)
    yield speed(
        "eight measures, grouped but unsorted, one core", 60, "grouped, unsorted", "eight", 1
    )
    for kind in ("dense", "hash-like"):
        text = f"eight measures, shuffled int64 ids ({kind}), 2 threads"
        yield speed(text, 25, f"shuffled int64, {kind}", "eight", 2)
    for rows in ("presorted", "grouped, unsorted"):
        text = f"2 threads over 1, where two cores are free: eight measures, {rows}"
        yield Target(text, 1.7, "×", True, partial(_scaling, rows=rows))
    for measures, name in (("eight", "eight measures"), ("seven", "seven, without pooled AUC")):
        for largest in (False, True):
            sizes = sorted({int(case.info["rows"]) for case in run.all("memory")})
            rows_text = f"{sizes[-1 if largest else 0]:,} rows" if sizes else "any number of rows"
            yield Target(
                f"peak memory, presorted, streaming, {name}, {rows_text}",
                300,
                "MB",
                False,
                partial(_peak, measures=measures, largest=largest),
            )
    yield Target("first run ever on a small file", 5, "s", False, partial(_start, cache="empty"))
    yield Target("next fresh process", 1.2, "s", False, partial(_start, cache="filled"))


# ------------------------------------------------------------------------------------ RESULTS.md


def results(run: Run) -> str:
    """Write up a run.

    Parameters
    ----------
    run : Run

    Returns
    -------
    str
        Markdown.
    """
    targets = [target.row(run) for target in _targets(run)]
    parts = [
        "# Benchmark results",
        "Written by `make bench` from its own measurements; no number is typed by hand. "
        "NOTES.md says how to read this.",
        "\n".join(f"* {line}" for line in _circumstances(run)),
        "## Targets",
        "Met or not is decided by the median wall time. The column beside it is the same number "
        "by processor time (Mrows per CPU second, CPU seconds), which other programs on a shared "
        "machine disturb less.",
        _table(["target", "wanted", "measured", "by CPU time", "met"], targets, "lrrrl"),
        "## Speed",
        "GAUC alone, and the eight measures. Medians over the rounds; `fastest` is the "
        "best round. `read bandwidth`: bytes of the columns read, by time, as a share of what as "
        "many threads of this machine read. `np.sort`: speed relative to `np.sort` of as many "
        "64-bit words, whole, on one thread.",
        _speeds(run),
        "## This machine in the same run",
        _references(run),
        "## Start-up",
        "The command line on a small Parquet file, eight measures, import included, in fresh "
        "processes: with an empty kernel cache (everything is compiled) and with a filled one.",
        _starts(run),
        "## Memory",
        "Peak of a fresh process that streams a presorted Parquet file, above what it held after "
        "imports and a tiny evaluation. Pooled AUC has to keep every score; the seven are the "
        "eight without it.",
        _memory(run),
    ]
    return "\n\n".join(parts) + "\n"


def _circumstances(run: Run) -> list[str]:
    machine = run.machine
    memory, load = machine.get("memory_gb"), machine.get("load") or []
    lines = [
        f"date: {run.date}",
        f"processor: {machine['cpu']}, {machine['cores']} cores"
        + (f", {memory:.0f} GB" if memory else "")
        + f", {machine['system']}",
        "versions: "
        + ", ".join(
            f"{name} {number}"
            for name, number in {"Python": machine["python"], **machine["versions"]}.items()
        ),
    ]
    if load:
        averages = ", ".join(f"{value:.2f}" for value in load)
        lines.append(f"load average at the start (1, 5, 15 minutes): {averages}")
    if machine.get("others") is not None:
        lines.append(f"other programs took {machine['others']:.0%} of all cores' time meanwhile")
    rows = sorted({int(case.info["rows"]) for case in run.all("speed")})
    if rows:
        lines.append(f"rows of each input: {', '.join(f'{count:,}' for count in rows)}")
    rounds = [case.rounds for kind in ("speed", "start") for case in run.all(kind)]
    if rounds:
        lines.append(f"rounds of each timing: {min(rounds)} to {max(rounds)}")
    return lines


def _speeds(run: Run) -> str:
    sort = run.one("np.sort", which="sort_whole")
    lines = []
    for case in run.all("speed"):
        threads = int(case.info["threads"])
        read = run.one("bandwidth", threads=threads)
        lines.append(
            [
                str(case.info["input"]),
                str(case.info["measures"]),
                str(threads),
                _number(case.mrows),
                _number(case.fastest_mrows),
                _number(case.mrows / threads),
                _number(case.cpu_mrows),
                _times(run.scaling(case)) if threads > 1 else NONE,
                f"{case.bandwidth / read.bandwidth:.1%}" if read else NONE,
                _times(case.mrows / sort.mrows if sort else None),
            ]
        )
    header = [
        "rows", "measures", "threads", "Mrows/s", "fastest", "per core", "per CPU second",
        "over 1 thread", "read bandwidth", "np.sort",
    ]  # fmt: skip
    return _table(header, lines, "llrrrrrrrr")


def _references(run: Run) -> str:
    lines = []
    for case in run.all("bandwidth"):
        name = f"read bandwidth, {case.info['threads']} thread(s)"
        lines.append([name, f"{case.bandwidth / 1e9:.1f} GB/s"])
    names = {
        "sort_whole": "np.sort of uint64, whole",
        "sort_chunks": "np.sort of uint64, 64k at a time",
    }
    for case in run.all("np.sort"):
        lines.append([names[case.info["which"]], f"{_number(case.mrows)} Mrows/s"])
    return _table(["reference", "measured"], lines, "lr")


def _starts(run: Run) -> str:
    names = {"empty": "first run ever", "filled": "next fresh process"}
    lines = [
        [
            names[case.info["cache"]],
            f"{case.seconds:.2f}",
            f"{case.fastest:.2f}",
            NONE if case.cpu is None else f"{case.cpu:.2f}",
            str(case.rounds),
        ]
        for case in run.all("start")
    ]
    return _table(["process", "seconds", "fastest", "CPU seconds", "rounds"], lines, "lrrrr")


def _memory(run: Run) -> str:
    lines = [
        [
            f"{case.info['rows']:,}",
            str(case.info["measures"]),
            str(case.info["threads"]),
            f"{case.info['baseline_mb']:.0f}",
            f"{case.info['peak_mb']:.0f}",
            f"{case.info['above_mb']:.0f}",
        ]
        for case in run.all("memory")
    ]
    header = ["rows", "measures", "threads", "before, MB", "peak, MB", "above, MB"]
    return _table(header, lines, "rlrrrr")


def _number(value: float | None) -> str:
    if value is None:
        return NONE
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _times(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:.2f}×"


def _table(header: Sequence[str], lines: Sequence[Sequence[str]], sides: str) -> str:
    if not lines:
        return "Not measured in this run."
    rule = ["---:" if side == "r" else "---" for side in sides]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *lines))


# ------------------------------------------------------------------------------------ README


def readme_block(run: Run) -> str:
    """Sum up a run for the README.

    Parameters
    ----------
    run : Run

    Returns
    -------
    str
        Markdown: speed by input, start-up and memory in one line each.
    """
    shapes = [(measures, threads) for measures in ("GAUC", "eight") for threads in (1, 2)]
    inputs = dict.fromkeys(str(case.info["input"]) for case in run.all("speed"))
    lines = []
    for rows in inputs:
        speeds = [_speed(run, rows, measures, threads)[0] for measures, threads in shapes]
        lines.append([rows, *map(_number, speeds)])
    header = ["Mrows/s", "GAUC", "GAUC, 2 threads", "eight measures", "eight, 2 threads"]
    machine = run.machine
    first, following = _start(run, "empty")[0], _start(run, "filled")[0]
    lowest, highest = _peak(run, "seven", largest=False)[0], _peak(run, "seven", largest=True)[0]
    notes = []
    if first is not None and following is not None:
        notes.append(
            f"A small file takes {first:.1f} s in the first run ever, which compiles the kernels, "
            f"and {following:.1f} s in every later process."
        )
    if lowest is not None and highest is not None:
        sizes = sorted(int(case.info["rows"]) for case in run.all("memory"))
        notes.append(
            f"Streaming a presorted Parquet file, measures of groups take {lowest:.0f} MB above "
            f"the imports for {sizes[0]:,} rows and {highest:.0f} MB for {sizes[-1]:,}."
        )
    rows_text = ", ".join(f"{count:,}" for count in {c.info["rows"] for c in run.all("speed")})
    about = (
        f"{rows_text} rows, {machine['cpu']}, {machine['cores']} cores, {run.date}; medians. "
        "Targets, ratios to the machine's own speed and the rest: "
        "[bench/RESULTS.md](bench/RESULTS.md)."
    )
    parts = [_table(header, lines, "lrrrr"), " ".join(notes), about]
    return "\n\n".join(part for part in parts if part)


def fill_block(text: str, block: str) -> str | None:
    """Put a block between the marks of a text.

    Parameters
    ----------
    text : str
        Of the README.
    block : str

    Returns
    -------
    str or None
        The text with the block in it; None if it has no marks.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return None
    return f"{before}{begin}\n\n{block}\n\n{end}{after}"
