"""The numbers to reach, and how a run shows them."""

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
from bench.peers.tools import INPUTS_OF_PEERS, OURS
from bench.resampling import REPLICATES, WAYS
from bench.runs import Case, Run
from bench.tables import NONE, number
from bench.workload import ORDERS

__all__ = [
    "SORT_MWORDS",
    "Pair",
    "Target",
    "peak",
    "sort_scaling",
    "sort_speed",
    "speed",
    "start",
    "targets",
]

#: A number by wall clock, and the same by processor time; None for what was not measured.
Pair = tuple[float | None, float | None]

#: The targets stand beside measurements of a machine where NumPy sorted 64k-word chunks at 200
#: M/s a core. So a target over this is what it asks for in multiples of np.sort, on a machine
#: of any speed.
SORT_MWORDS = 200


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
    in_sort : callable or None
        Of a run and the limit: what is wanted and what was measured, both relative to np.sort
        beside the case. None where np.sort is no yardstick.
    """

    text: str
    limit: float
    unit: str
    at_least: bool
    measured: Callable[[Run], Pair]
    in_sort: Callable[[Run, float], Pair] | None = None

    def met(self, run: Run) -> bool | None:
        """Tell whether the wall clock met the target; None if it was not measured."""
        wall, _ = self.measured(run)
        if wall is None:
            return None
        return wall >= self.limit if self.at_least else wall <= self.limit

    def met_in_sort(self, run: Run) -> bool | None:
        """Tell whether it is met relative to np.sort; None if that was not measured, or is void."""
        wanted, found = self._multiples(run)
        return None if wanted is None or found is None else found >= wanted

    def row(self, run: Run) -> list[str]:
        """Lay target, measurement and verdict side by side, by wall clock and in np.sort."""
        wall, cpu = self.measured(run)
        wanted = f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}".rstrip()
        shown = "not measured" if wall is None else f"{number(wall)} {self.unit}".rstrip()
        multiple, found = self._multiples(run)
        return [
            *(self.text, wanted, shown, number(cpu), _verdict(self.met(run))),
            NONE if multiple is None else f"≥ {multiple:.3g}",
            NONE if found is None else f"{found:.3g}",
            _verdict(self.met_in_sort(run)),
        ]

    def _multiples(self, run: Run) -> Pair:
        if self.in_sort is None:
            return None, None
        return self.in_sort(run, self.limit)


def _verdict(met: bool | None) -> str:
    return NONE if met is None else "yes" if met else "**no**"


def sort_speed(run: Run) -> float | None:
    """Million 64-bit words a second that one thread sorts, 64k at a time."""
    case = run.one("np.sort", which="chunks", threads=1)
    return case.mrows if case else None


def sort_scaling(run: Run) -> float | None:
    """Speed of np.sort, 64k words at a time, on two threads over one."""
    return run.scaling(run.one("np.sort", which="chunks", threads=2))


def _beside(run: Run, case: Case | None, threads: int) -> float | None:
    """Words that np.sort sorted beside a case; where that was not timed, elsewhere in the run."""
    if case is not None and threads in case.sorts:
        return case.sorts[threads]
    other = run.one("np.sort", which="chunks", threads=threads)
    return other.mrows if other else None


def _speed_in_sort(run: Run, limit: float, *, rows: str, measures: str, threads: int) -> Pair:
    case = run.one("speed", input=rows, measures=measures, threads=threads)
    sort = _beside(run, case, 1)
    return limit / SORT_MWORDS, case.mrows / sort if case and sort else None


def _scaling_in_sort(run: Run, limit: float, *, rows: str) -> Pair:
    """Ask for what np.sort gained beside it, and never for more than the target does."""
    two, one = (run.one("speed", input=rows, measures="eight", threads=n) for n in (2, 1))
    alone, together = _beside(run, two, 1), _beside(run, two, 2)
    if not alone or not together:
        return None, None
    gained = together / alone
    before = _beside(run, one, 1)
    found = None
    if one and two and before:
        # Each speed in what one thread sorted at the time, so that a change of speed cancels.
        found = (two.mrows / alone) / (one.mrows / before) / gained
    return min(1.0, limit / gained), found


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
        in_sort = partial(_speed_in_sort, rows=rows, measures=measures, threads=threads)
        return Target(text, limit, "Mrows/s", True, measured, in_sort)

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
        measured = partial(_scaling, rows=rows)
        in_sort = partial(_scaling_in_sort, rows=rows)
        yield Target(text, 1.7, "times", True, measured, in_sort)
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
    yield from _scale_targets(run, pace)
    yield from _resampling_targets(run)
    yield from _trec_targets()


def _scale_targets(run: Run, pace: Callable[..., Target]) -> Iterable[Target]:
    read = _share_of_reading(run, "presorted", "GAUC", 2)
    shown = "" if read is None else f" ({read:.0%} of what they read)"
    yield pace(f"GAUC alone, presorted, 2 threads{shown}", 700, "presorted", "GAUC", 2)
    limits = {
        "presorted": 400,
        "grouped, unsorted": 160,
        "shuffled int64, dense": 80,
        "shuffled int64, hash-like": 40,
        "shuffled string": 15,
    }
    for rows, limit in limits.items():
        yield pace(f"eight measures, {rows}, 2 threads", limit, rows, "eight", 2)
    for rows in list(limits)[:3]:
        text = f"seven, without pooled AUC, {rows}, 2 threads"
        yield pace(text, limits[rows], rows, "seven", 2)

    for by_hand, ratio in ((False, 10.0), (True, 1.5)):
        tool = "code written by hand" if by_hand else "other tool"
        for rows in INPUTS_OF_PEERS:
            for measures in ("GAUC", "seven"):
                text = f"fastest {tool} over ours, {measures}, {rows}"
                measured = partial(_beside_fastest, rows=rows, measures=measures, by_hand=by_hand)
                yield Target(text, ratio, "times", True, measured)
    measured = partial(_beside_fastest, rows="presorted", measures="AUC", by_hand=False)
    yield Target("fastest other tool over ours, AUC, presorted", 10.0, "times", True, measured)
    for measures in ("GAUC", "seven", "eight"):
        text = f"presorted Parquet, {measures}, 2 threads: speed over merely decoding the columns"
        yield Target(text, 85, "%", True, partial(_decoding, measures=measures))
    for rows_of_file, seconds in ((1_000_000, 0.8), (10_000_000, 1.0)):
        text = f"fresh process, GAUC of a Parquet file of {rows_of_file:,} rows"
        yield Target(text, seconds, "s", False, partial(_fresh, rows=rows_of_file))
    for rows_of_file, ratio in ((1_000_000, 1.0), (10_000_000, 1.2)):
        for order in ORDERS:
            text = f"fresh process, GAUC of {rows_of_file:,} rows, {order}: polars over ours"
            measured = partial(beside_polars, rows=rows_of_file, order=order)
            yield Target(text, ratio, "times", True, measured)


def _resampling_targets(run: Run) -> Iterable[Target]:
    sizes = {int(case.info["groups"]) for case in run.all("resampling")}
    groups = f"{max(sizes):,}" if sizes else "any number of"
    for way in WAYS:
        text = f"{way}, {REPLICATES:,} replicates of {groups} groups, eight measures, 2 threads"
        yield Target(text, 10, "s", False, partial(_resampling, way=way))


def _resampling(run: Run, *, way: str) -> Pair:
    case = run.one("resampling", way=way)
    return (case.seconds, case.cpu) if case else (None, None)


def _trec_targets() -> Iterable[Target]:
    task = "TREC run from text to all_trec"
    for way, name, least in (("warm", "in one process", 10), ("fresh", "fresh processes", 2.5)):
        text = f"{task}, {name}: pytrec-eval-terrier over ours"
        yield Target(text, least, "times", True, partial(beside_trec, way=way))
    text = f"{task}, fresh processes: our peak memory over that of pytrec-eval-terrier"
    yield Target(text, 0.5, "times", False, _trec_memory)


def _trec_memory(run: Run) -> Pair:
    return peaks_of_trec(run), None


def _share_of_reading(run: Run, rows: str, measures: str, threads: int) -> float | None:
    case = run.one("speed", input=rows, measures=measures, threads=threads)
    read = run.one("bandwidth", threads=threads)
    return case.bandwidth / read.bandwidth if case and read else None


def _beside_fastest(run: Run, *, rows: str, measures: str, by_hand: bool) -> Pair:
    return beside_fastest(run, rows, measures, by_hand=by_hand), None


def _decoding(run: Run, *, measures: str) -> Pair:
    case = run.one("speed", input="presorted, Parquet file", measures=measures, threads=2)
    share = beside_decoding(run, case)
    return None if share is None else 100 * share, None


def _fresh(run: Run, *, rows: int) -> Pair:
    case = run.one("fresh", tool=OURS, rows=rows, order="sorted")
    return (case.seconds, case.cpu) if case else (None, None)
