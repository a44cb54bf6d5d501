"""The numbers to reach, and how a run shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from bench.runs import Run

__all__ = ["NONE", "Pair", "Target", "number", "peak", "speed", "start", "targets"]

#: A number by wall clock, and the same by processor time; None for what was not measured.
Pair = tuple[float | None, float | None]

NONE = "-"


def number(value: float | None) -> str:
    """Print three digits or so; a dash for what was not measured."""
    if value is None:
        return NONE
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


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

    def row(self, run: Run) -> list[str]:
        """Lay target, measurement and verdict side by side."""
        wall, cpu = self.measured(run)
        wanted = f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}".rstrip()
        if wall is None:
            return [self.text, wanted, "not measured", NONE, NONE]
        met = wall >= self.limit if self.at_least else wall <= self.limit
        shown = f"{number(wall)} {self.unit}".rstrip()
        return [self.text, wanted, shown, number(cpu), "yes" if met else "**no**"]


def speed(run: Run, rows: str, measures: str, threads: int) -> Pair:
    case = run.one("speed", input=rows, measures=measures, threads=threads)
    return (case.mrows, case.cpu_mrows) if case else (None, None)


def _scaling(run: Run, rows: str) -> Pair:
    case = run.one("speed", input=rows, measures="eight", threads=2)
    return run.scaling(case), None


def peak(run: Run, measures: str, *, largest: bool) -> Pair:
    cases = sorted(run.all("memory", measures=measures), key=lambda case: int(case.info["rows"]))
    return (cases[-1 if largest else 0].info["above_mb"], None) if cases else (None, None)


def start(run: Run, cache: str) -> Pair:
    case = run.one("start", cache=cache)
    return (case.seconds, case.cpu) if case else (None, None)


def targets(run: Run) -> Iterable[Target]:
    def pace(text: str, limit: float, rows: str, measures: str, threads: int) -> Target:
        measured = partial(speed, rows=rows, measures=measures, threads=threads)
        return Target(text, limit, "Mrows/s", True, measured)

    yield pace("eight measures, presorted, one core", 150, "presorted", "eight", 1)
    yield pace("GAUC alone, presorted, one core", 300, "presorted", "GAUC", 1)
    yield pace(
        "eight measures, grouped but unsorted, one core", 60, "grouped, unsorted", "eight", 1
    )
    for kind in ("dense", "hash-like"):
        text = f"eight measures, shuffled int64 ids ({kind}), 2 threads"
        yield pace(text, 25, f"shuffled int64, {kind}", "eight", 2)
    for rows in ("presorted", "grouped, unsorted"):
        text = f"2 threads over 1, where two cores are free: eight measures, {rows}"
        yield Target(text, 1.7, "times", True, partial(_scaling, rows=rows))
    for measures, name in (("eight", "eight measures"), ("seven", "seven, without pooled AUC")):
        for largest in (False, True):
            sizes = sorted({int(case.info["rows"]) for case in run.all("memory")})
            rows_text = f"{sizes[-1 if largest else 0]:,} rows" if sizes else "any number of rows"
            yield Target(
                f"peak memory, presorted, streaming, {name}, {rows_text}",
                300,
                "MB",
                False,
                partial(peak, measures=measures, largest=largest),
            )
    yield Target("first run ever on a small file", 5, "s", False, partial(start, cache="empty"))
    yield Target("next fresh process", 1.2, "s", False, partial(start, cache="filled"))
