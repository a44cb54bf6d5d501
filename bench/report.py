"""From a run to RESULTS.md and the block of the README: no number is typed by hand."""

from __future__ import annotations

from bench.comparisons import (
    PEERS_EXPLAINED,
    TREC_EXPLAINED,
    beside_tools,
    decoding,
    fresh_processes,
    peers_said,
    trec_runs,
)
from bench.machine import machine_lines
from bench.runs import Run
from bench.tables import NONE, number, table, threads_text, times
from bench.targets import SORT_MWORDS, peak, sort_scaling, sort_speed, speed, start, targets

__all__ = ["fill_block", "readme_block", "results"]

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


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
    verdicts = [target.row(run) for target in targets(run)]
    parts = [
        "# Benchmark results",
        "Written by `make bench` from its own measurements; no number is typed by hand. "
        "NOTES.md says how to read this.",
        "\n".join(f"* {line}" for line in _circumstances(run)),
        "## Targets",
        "`met` is the verdict: the median wall time against the target as it was set. `by CPU "
        "time` is the same number by processor time (Mrows per CPU second, CPU seconds), which "
        "other programs on a shared machine disturb less.",
        _in_sort_explained(run),
        table(
            [
                "target",
                "wanted",
                "measured",
                "by CPU time",
                "met",
                "wanted, in np.sort",
                "measured, in np.sort",
                "met in np.sort",
            ],
            verdicts,
            "lrrrlrrl",
        ),
        "## Speed",
        "GAUC alone, the eight measures, and the seven without pooled AUC. `presorted` is one "
        "contiguous chunk, as pandas, polars and NumPy hand data over. Medians over the rounds; "
        "`fastest` is the best round. `read bandwidth`: bytes of the columns read, by time, as a "
        "share of what as "
        "many threads of this machine read. `np.sort, whole`: speed relative to `np.sort` of as "
        "many 64-bit words, whole, on one thread. `np.sort beside it`: Mwords/s that one thread "
        "sorted, 64k at a time, before each round, which the targets above are relative to.",
        _speeds(run),
        "## Two models in one run",
        "Eight measures of two score columns, both in order. `of two runs`: its processor time "
        "over twice that of one model in the table above.",
        _models(run),
        "## Ten slices",
        "Slices that keep groups together (`whole`) and slices that cut them (`cut`), beside the "
        "same run without. `of unsliced`: processor time over that of the run without.",
        _slices(run),
        "## Beside other tools",
        PEERS_EXPLAINED,
        beside_tools(run),
        "## Parquet, beside decoding it",
        "A presorted Parquet file to the numbers, beside pyarrow merely decoding the three columns "
        "it needs, on as many threads. `of decoding`: time of the faster way to decode, over the "
        "time of the evaluation.",
        decoding(run),
        "## TREC runs",
        TREC_EXPLAINED,
        trec_runs(run),
        "## This machine in the same run",
        _references(run),
        "## Start-up",
        "The command line on a small Parquet file, eight measures, import included, in fresh "
        "processes: with an empty store of kernels (everything is compiled) and with a filled one.",
        _starts(run),
        "GAUC of a Parquet file from a fresh process, imports included, kernels compiled before. "
        "`times ours`: polars over ours, timed before each of its rounds.",
        fresh_processes(run),
        "## Memory",
        "Peak of a fresh process that streams a presorted Parquet file, above what it held after "
        "imports and a tiny evaluation. Pooled AUC has to keep every score; the seven are the "
        "eight without it.",
        _memory(run),
    ]
    return "\n\n".join(parts) + "\n"


def _circumstances(run: Run) -> list[str]:
    lines = [f"date: {run.date}", *machine_lines(run.machine)]
    rows = sorted({int(case.info["rows"]) for case in run.all("speed")})
    if rows:
        lines.append(f"rows of each input: {', '.join(f'{count:,}' for count in rows)}")
    rounds = [case.rounds for kind in ("speed", "start") for case in run.all(kind)]
    if rounds:
        lines.append(f"rounds of each timing: {min(rounds)} to {max(rounds)}")
    return lines


def _speeds(run: Run) -> str:
    sort = run.one("np.sort", which="whole")
    lines = []
    for case in run.all("speed"):
        threads = int(case.info["threads"])
        read = run.one("bandwidth", threads=threads)
        lines.append(
            [
                str(case.info["input"]),
                str(case.info["measures"]),
                str(threads),
                number(case.mrows),
                number(case.fastest_mrows),
                number(case.mrows / threads),
                number(case.cpu_mrows),
                times(run.scaling(case)) if threads > 1 else NONE,
                f"{case.bandwidth / read.bandwidth:.1%}" if read else NONE,
                times(case.mrows / sort.mrows if sort else None),
                NONE if 1 not in case.sorts else number(case.sorts[1]),
            ]
        )
    header = [
        "rows", "measures", "threads", "Mrows/s", "fastest", "per core", "per CPU second",
        "over 1 thread", "read bandwidth", "np.sort, whole", "np.sort beside it",
    ]  # fmt: skip
    return table(header, lines, "llrrrrrrrrr")


def _models(run: Run) -> str:
    lines = []
    for case in run.all("models"):
        same = {name: case.info[name] for name in ("input", "measures", "threads")}
        alone = run.one("speed", **same)
        share = None
        if alone is not None and alone.cpu_mrows and case.cpu_mrows:
            share = alone.cpu_mrows / (2 * case.cpu_mrows)
        lines.append(
            [
                *map(str, same.values()),
                number(case.mrows),
                number(case.cpu_mrows),
                NONE if share is None else f"{share:.0%}",
            ]
        )
    header = ["rows", "measures", "threads", "Mrows/s", "per CPU second", "of two runs"]
    return table(header, lines, "llrrrr")


def _slices(run: Run) -> str:
    lines = []
    for case in run.all("slices"):
        same = {name: case.info[name] for name in ("input", "measures", "threads")}
        alone = run.one("slices", **same, slices="none")
        ratio = None
        if alone is not None and alone.cpu_mrows and case.cpu_mrows:
            ratio = alone.cpu_mrows / case.cpu_mrows
        lines.append(
            [
                *map(str, same.values()),
                str(case.info["slices"]),
                number(case.mrows),
                number(case.cpu_mrows),
                times(ratio),
            ]
        )
    header = ["rows", "measures", "threads", "slices", "Mrows/s", "per CPU second", "of unsliced"]
    return table(header, lines, "llrlrrr")


def _references(run: Run) -> str:
    lines = []
    for case in run.all("bandwidth"):
        name = f"read bandwidth, {threads_text(case.info['threads'])}"
        lines.append([name, f"{case.bandwidth / 1e9:.1f} GB/s"])
    names = {"whole": "whole", "chunks": "64k at a time"}
    for case in run.all("np.sort"):
        sort = (
            f"np.sort of uint64, {names[case.info['which']]}, {threads_text(case.info['threads'])}"
        )
        lines.append([sort, f"{number(case.mrows)} Mwords/s"])
    for name, ratio in _own_scaling(run).items():
        lines.append([f"2 threads over 1: {name}", f"{ratio:.2f} times"])
    return table(["reference", "measured"], lines, "lr")


def _own_scaling(run: Run) -> dict[str, float]:
    """What the machine gains from a second thread by itself, where that was measured."""
    reading = run.scaling(run.one("bandwidth", threads=2))
    gains = {"np.sort, 64k at a time": sort_scaling(run), "reading": reading}
    return {name: gain for name, gain in gains.items() if gain is not None}


def _in_sort_explained(run: Run) -> str:
    sort, own = sort_speed(run), sort_scaling(run)
    here = "" if sort is None else f" ({number(sort)} M/s when the run began)"
    gained = "" if own is None else f" ({own:.2f} times when the run began)"
    return (
        "The targets were set on a machine where NumPy sorted 64k-word chunks at "
        f"{SORT_MWORDS} M/s a core. The last three columns scale them to this machine. "
        "Speeds are in multiples of what one thread sorted, 64k words at a time, in the moments "
        f"before each round of the case{here} (Mrows/s per Mwords/s); wanted is the target over "
        f"{SORT_MWORDS}. The scaling rows are relative to what np.sort gained from a second thread "
        f"in the same moments{gained}: wanted is as much, but no more than the target. Read `met "
        "in np.sort` as an estimate, never in place of `met`: not all work slows down as sorting "
        "does. Where np.sort gained little, a yes in a scaling row says only that the engine "
        "gained no less."
    )


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
    return table(["process", "seconds", "fastest", "CPU seconds", "rounds"], lines, "lrrrr")


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
    return table(header, lines, "rlrrrr")


# ------------------------------------------------------------------------------------ README


def readme_block(run: Run) -> str:
    """Sum up a run for the README.

    Parameters
    ----------
    run : Run

    Returns
    -------
    str
        Markdown: speed by input; start-up and memory in one line each; targets met, by wall clock
        and relative to np.sort.
    """
    shapes = [(measures, threads) for measures in ("GAUC", "eight") for threads in (1, 2)]
    inputs = dict.fromkeys(str(case.info["input"]) for case in run.all("speed"))
    lines = []
    for rows in inputs:
        speeds = [speed(run, rows, measures, threads)[0] for measures, threads in shapes]
        lines.append([rows, *map(number, speeds)])
    header = ["Mrows/s", "GAUC", "GAUC, 2 threads", "eight measures", "eight, 2 threads"]
    machine = run.machine
    first, following = start(run, "empty")[0], start(run, "filled")[0]
    lowest, highest = peak(run, "seven", largest=False)[0], peak(run, "seven", largest=True)[0]
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
    about = f"{rows_text} rows, {machine['cpu']}, {machine['cores']} cores, {run.date}; medians."
    parts = [
        table(header, lines, "lrrrr"),
        " ".join(notes),
        peers_said(run),
        _targets_met(run),
        about,
    ]
    return "\n\n".join(part for part in parts if part)


def _targets_met(run: Run) -> str:
    """Count the targets of speed and scaling that the run met, and say how to read that."""
    judged = [target for target in targets(run) if target.met_in_sort(run) is not None]
    sort = sort_speed(run)
    if not judged or sort is None:
        return ""
    by_wall = sum(target.met(run) is True for target in judged)
    in_sort = sum(target.met_in_sort(run) is True for target in judged)
    gains = ", ".join(f"{name} {ratio:.2f} times" for name, ratio in _own_scaling(run).items())
    others = run.machine.get("others")
    return (
        f"Targets of speed and scaling met by wall clock: {by_wall} of {len(judged)}. The "
        "targets stand beside measurements of a machine where NumPy sorted 64k-word chunks at "
        f"{SORT_MWORDS} M/s a core; here one thread sorted {number(sort)} M/s"
        + (f", a second one gained: {gains}" if gains else "")
        + ("" if others is None else f"; other programs took {others:.0%} of the cores' time")
        + f". Met relative to np.sort in the same run: {in_sort} of {len(judged)}, an estimate "
        "for a machine of another speed, which does not replace the wall clock."
    )


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
