"""Ratios in one run: beside other tools, beside decoding, in fresh processes."""

from __future__ import annotations

from statistics import median

from bench.peers.tools import OURS
from bench.runs import Case, Run
from bench.tables import NONE, number, table
from bench.trec import PEER

__all__ = [
    "PEERS_EXPLAINED",
    "TREC_EXPLAINED",
    "beside_decoding",
    "beside_fastest",
    "beside_polars",
    "beside_tools",
    "beside_trec",
    "decoding",
    "fresh_processes",
    "peaks_of_trec",
    "trec_runs",
]

PEERS_EXPLAINED = (
    "Seconds from the same Arrow table to the numbers, conversion to the tool's own input "
    "included; medians, or one round of slow tools. GAUC had to agree to 1e-9 and the other "
    "measures to 1e-4 (tools break ties as they like), or the run would have failed. `times "
    "ours`: seconds over those of fastrank_eval on two threads, timed before each round. Libraries "
    "use all cores; what is written by hand takes for granted what ids, scores and labels happen "
    "to be."
)

TREC_EXPLAINED = (
    "A run of 1,000 documents a query and 250 judgements a query, from the same two text files to "
    "all measures of trec_eval 9 over all queries, which had to agree to 1e-6. `in one process`: "
    "warm, ours timed before each round of the other; `fresh process`: imports included, kernels "
    "compiled before, ours timed before each round too, with the peak memory of the process."
)


def beside_tools(run: Run) -> str:
    lines = [
        [
            str(case.info["input"]),
            f"{case.info['rows']:,}",
            str(case.info["measures"]),
            str(case.info["tool"]),
            f"{case.seconds:.3f}",
            number(case.mrows),
            number(_beside_ours(case)) if case.info["tool"] != OURS else NONE,
            str(case.rounds),
        ]
        for case in run.all("peer")
    ]
    header = ["order", "rows", "measures", "tool", "seconds", "Mrows/s", "times ours", "rounds"]
    return table(header, lines, "lrllrrrr")


def beside_fastest(run: Run, rows: str, measures: str, *, part: int = 1) -> float | None:
    """Time of the fastest other tool over ours; None if that was not measured.

    What is written by hand for these columns is in RESULTS.md, but no tool.
    """
    cases = run.all("peer", input=rows, measures=measures, part=part, by_hand=False)
    return min((_beside_ours(case) for case in cases if case.info["tool"] != OURS), default=None)


def decoding(run: Run) -> str:
    names = {"batches": "iter_batches", "table": "read_table"}
    lines = [
        [f"pyarrow {names[case.info['way']]}", f"{case.seconds:.3f}", number(case.mrows), NONE]
        for case in run.all("decode")
    ]
    threads = {case.info["threads"] for case in run.all("decode")}
    for case in run.all("speed", input="presorted, Parquet file"):
        if case.info["threads"] in threads:
            ratio = beside_decoding(run, case)
            share = NONE if ratio is None else f"{ratio:.0%}"
            name = str(case.info["measures"])
            lines.append([name, f"{case.seconds:.3f}", number(case.mrows), share])
    return table(["what", "seconds", "Mrows/s", "of decoding"], lines, "lrrr")


def beside_decoding(run: Run, case: Case | None) -> float | None:
    """Time of the faster way to decode, over that of a case; None if that was not measured."""
    if case is None:
        return None
    ways = run.all("decode", threads=case.info["threads"], rows=case.info["rows"])
    return min(way.seconds for way in ways) / case.seconds if ways else None


def fresh_processes(run: Run) -> str:
    lines = [
        [
            f"{case.info['rows']:,}",
            str(case.info["order"]),
            str(case.info["tool"]),
            f"{case.seconds:.2f}",
            f"{case.fastest:.2f}",
            number(case.cpu),
            *([NONE, NONE] if case.info["tool"] == OURS else map(number, _ratios(case))),
            str(case.rounds),
        ]
        for case in run.all("fresh")
    ]
    header = ["rows", "order", "tool", "seconds", "fastest", "CPU seconds"]
    return table([*header, "times ours", "by CPU time", "rounds"], lines, "rllrrrrrr")


def beside_polars(run: Run, rows: int, order: str) -> tuple[float | None, float | None]:
    """Time of fresh processes of polars over ours, by wall clock and by processor time."""
    case = run.one("fresh", tool="polars", rows=rows, order=order)
    return _ratios(case) if case else (None, None)


def _ratios(case: Case) -> tuple[float, float | None]:
    cpu = None if case.cpu is None else case.cpu / float(median(case.info["ours_cpu"]))
    return _beside_ours(case), cpu


def trec_runs(run: Run) -> str:
    lines = []
    for case in run.all("trec"):
        ratio = beside_trec(run, str(case.info["way"]))[0] if case.info["tool"] != OURS else None
        lines.append(
            [
                {"warm": "in one process", "fresh": "fresh process"}[str(case.info["way"])],
                str(case.info["tool"]),
                f"{case.info['rows']:,}",
                f"{case.seconds:.3f}",
                number(case.cpu),
                number(case.info.get("peak_mb")),
                number(ratio),
                str(case.rounds),
            ]
        )
    header = ["way", "tool", "lines", "seconds", "CPU seconds", "peak, MB", "times ours", "rounds"]
    return table(header, lines, "llrrrrrr")


def beside_trec(run: Run, way: str) -> tuple[float | None, float | None]:
    """Time of pytrec-eval-terrier over ours, by wall clock and by processor time."""
    theirs = run.one("trec", way=way, tool=PEER)
    return _ratios(theirs) if theirs else (None, None)


def peaks_of_trec(run: Run) -> float | None:
    """Peak memory of our process over that of pytrec-eval-terrier's."""
    ours, theirs = (run.one("trec", way="fresh", tool=tool) for tool in (OURS, PEER))
    if ours is None or theirs is None:
        return None
    return float(ours.info["peak_mb"]) / float(theirs.info["peak_mb"])


def _beside_ours(case: Case) -> float:
    return case.seconds / float(median(case.info["ours"]))
