"""The numbers to reach, and how a run shows them.

Nearly all are ratios of one run: machines differ, and one machine changes its speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from bench.comparisons import (
    beside_decoding,
    beside_fastest,
    beside_polars,
    beside_trec,
    peaks_of_trec,
)
from bench.peers.tools import INPUTS_OF_PEERS
from bench.resampling import REPLICATES, WAYS
from bench.runs import Run
from bench.tables import NONE, number
from bench.workload import ORDERS

__all__ = ["TASKS", "Pair", "Target", "peak", "speed", "start", "targets"]

#: A number by wall clock, and the same by processor time; None for what was not measured.
Pair = tuple[float | None, float | None]

#: Tasks beside other tools: text, measures, share of the rows (1 or 10: a tenth), and the least
#: ratio on presorted and on shuffled rows.
TASKS = (
    ("GAUC", "GAUC", 1, 25.0, 10.0),
    ("seven measures", "seven", 1, 20.0, 10.0),
    ("pooled AUC", "AUC", 1, 12.0, 12.0),
    ("two models, paired, three measures", "paired", 1, 12.0, 8.0),
    ("GAUC of a tenth of the rows", "GAUC", 10, 15.0, 8.0),
)


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
    measured: Callable[[Run], Pair]

    def met(self, run: Run) -> bool | None:
        """Return whether the wall clock met the target; None if it was not measured."""
        wall, _ = self.measured(run)
        if wall is None:
            return None
        return wall >= self.limit if self.at_least else wall <= self.limit

    def row(self, run: Run) -> list[str]:
        """List target, measurement and verdict."""
        wall, cpu = self.measured(run)
        limit = f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}".rstrip()
        shown = "not measured" if wall is None else f"{number(wall)} {self.unit}".rstrip()
        met = self.met(run)
        verdict = NONE if met is None else "yes" if met else "**no**"
        return [self.text, limit, shown, number(cpu), verdict]


def speed(run: Run, rows: str, measures: str, threads: int) -> Pair:
    case = run.one("speed", input=rows, measures=measures, threads=threads)
    return (case.mrows, case.cpu_mrows) if case else (None, None)


def peak(run: Run, measures: str, *, largest: bool) -> Pair:
    cases = sorted(run.all("memory", measures=measures), key=lambda case: int(case.info["rows"]))
    return (cases[-1 if largest else 0].info["above_mb"], None) if cases else (None, None)


def start(run: Run, cache: str) -> Pair:
    case = run.one("start", cache=cache)
    return (case.seconds, case.cpu) if case else (None, None)


def targets(run: Run) -> Iterable[Target]:
    yield from _beside_tools()
    yield from _beside_the_machine()
    yield from _of_processes()
    counts = {int(case.info["groups"]) for case in run.all("resampling")}
    groups = f"{max(counts):,}" if counts else "any number of"
    for way in WAYS:
        text = f"{way}, {REPLICATES:,} replicates of {groups} groups, eight measures, 2 threads"
        yield Target(text, 10, "s", False, partial(_resampling, way=way))
    for measures, name in (("eight", "eight measures"), ("seven", "seven, without pooled AUC")):
        for largest in (False, True):
            sizes = sorted({int(case.info["rows"]) for case in run.all("memory")})
            rows_text = f"{sizes[-1 if largest else 0]:,} rows" if sizes else "any number of rows"
            text = f"peak memory, presorted, streaming, {name}, {rows_text}"
            measured = partial(peak, measures=measures, largest=largest)
            yield Target(text, 300, "MB", False, measured)


def _beside_tools() -> Iterable[Target]:
    for name, measures, part, presorted, shuffled in TASKS:
        for rows, is_presorted in INPUTS_OF_PEERS.items():
            if rows.endswith("hash-like") and (part > 1 or measures in ("AUC", "paired")):
                continue
            limit = presorted if is_presorted else shuffled
            measured = partial(_fastest, rows=rows, measures=measures, part=part)
            text = f"{name}, {rows}: fastest other tool over ours"
            yield Target(text, limit, "times", True, measured)


def _beside_the_machine() -> Iterable[Target]:
    for measures, limit in (("GAUC", 2.0), ("seven", 3.5)):
        text = f"{measures}, presorted, 2 threads: time over that of summing its columns"
        yield Target(text, limit, "times", False, partial(_over_sum, measures=measures))
    for measures, limit in (("GAUC", 75), ("seven", 65)):
        text = f"{measures}, presorted Parquet, 2 threads: speed over merely decoding the columns"
        yield Target(text, limit, "%", True, partial(_decoding, measures=measures))
    for measures, limit in (("GAUC", 0.5), ("seven", 1.0)):
        text = f"{measures} of 100 rows"
        yield Target(text, limit, "ms", False, partial(_few, measures=measures))


def _of_processes() -> Iterable[Target]:
    for rows, limit in ((1_000_000, 1.0), (10_000_000, 1.5)):
        for order in ORDERS:
            text = f"GAUC of {rows:,} rows, {order}, fresh process: polars over ours"
            measured = partial(beside_polars, rows=rows, order=order)
            yield Target(text, limit, "times", True, measured)
    yield Target("first run ever on a small file", 5, "s", False, partial(start, cache="empty"))
    yield Target("next fresh process", 1.2, "s", False, partial(start, cache="filled"))
    task = "TREC run from text to all_trec"
    for way, name, least in (("warm", "in one process", 8), ("fresh", "fresh processes", 4)):
        text = f"{task}, {name}: pytrec-eval-terrier over ours"
        yield Target(text, least, "times", True, partial(beside_trec, way=way))
    text = f"{task}, fresh processes: our peak memory over that of pytrec-eval-terrier"
    yield Target(text, 1.0, "times", False, lambda run: (peaks_of_trec(run), None))


def _fastest(run: Run, *, rows: str, measures: str, part: int) -> Pair:
    return beside_fastest(run, rows, measures, part=part), None


def _over_sum(run: Run, *, measures: str) -> Pair:
    case = run.one("speed", input="presorted", measures=measures, threads=2)
    least = run.one("sum", threads=2)
    if case is None or least is None:
        return None, None
    by_cpu = case.cpu / least.cpu if case.cpu and least.cpu else None
    return case.seconds / least.seconds, by_cpu


def _decoding(run: Run, *, measures: str) -> Pair:
    case = run.one("speed", input="presorted, Parquet file", measures=measures, threads=2)
    share = beside_decoding(run, case)
    return None if share is None else 100 * share, None


def _few(run: Run, *, measures: str) -> Pair:
    case = run.one("few", measures=measures)
    if case is None:
        return None, None
    return 1e3 * case.seconds / case.info["calls"], None if case.cpu is None else 1e3 * case.cpu


def _resampling(run: Run, *, way: str) -> Pair:
    case = run.one("resampling", way=way)
    return (case.seconds, case.cpu) if case else (None, None)
