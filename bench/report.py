"""From a run to RESULTS.md and the block of the README: no number is typed by hand."""

from __future__ import annotations

import textwrap

from bench.comparisons import (
    PEERS_EXPLAINED,
    TREC_EXPLAINED,
    beside_fastest,
    beside_tools,
    beside_trec,
    decoding,
    fresh_processes,
    trec_runs,
)
from bench.machine import machine_lines
from bench.peers.tools import INPUTS_OF_PEERS
from bench.runs import Run
from bench.tables import NONE, number, table, threads_text, times
from bench.targets import TASKS, targets

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
        "`met` is the verdict: the median wall time against the target. `by CPU time` is the same "
        "number by processor time, which other programs on a shared machine disturb less.",
        table(["target", "wanted", "measured", "by CPU time", "met"], verdicts, "lrrrl"),
        "## Speed",
        "GAUC alone, the eight measures, and the seven without pooled AUC. `presorted` is one "
        "contiguous chunk, as pandas, polars and NumPy hand data over. Medians over the rounds; "
        "`fastest` is the best round. `read bandwidth`: bytes of the columns read, by time, as a "
        "share of what as "
        "many threads of this machine read. `np.sort, whole`: speed relative to `np.sort` of as "
        "many 64-bit words on one thread.",
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
    sort = run.one("np.sort")
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
            ]
        )
    header = [
        "rows", "measures", "threads", "Mrows/s", "fastest", "per core", "per CPU second",
        "over 1 thread", "read bandwidth", "np.sort",
    ]  # fmt: skip
    return table(header, lines, "llrrrrrrrr")


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
    sort = run.one("np.sort")
    if sort is not None:
        lines.append(["np.sort of uint64", f"{number(sort.mrows)} Mwords/s"])
    for case in run.all("sum"):
        name = f"sum of the three columns, {threads_text(case.info['threads'])}"
        lines.append([name, f"{number(case.mrows)} Mrows/s"])
    reading = run.scaling(run.one("bandwidth", threads=2))
    if reading is not None:
        lines.append(["2 threads over 1: reading", f"{reading:.2f} times"])
    return table(["reference", "measured"], lines, "lr")


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
    """Sum up a run for the README, in three sentences.

    Parameters
    ----------
    run : Run

    Returns
    -------
    str
        Markdown: the multiples, the tools, the rows and the machine.
    """
    sorted_rows, shuffled, *_ = INPUTS_OF_PEERS
    multiples = [
        f"{name} {number(beside_fastest(run, sorted_rows, measures, part=part))} and "
        f"{number(beside_fastest(run, shuffled, measures, part=part))}"
        for name, measures, part, *_ in TASKS[:4]
    ]
    warm, fresh = (number(beside_trec(run, way)[0]) for way in ("warm", "fresh"))
    sizes = ", ".join(
        f"{rows:,}" for rows in sorted({int(c.info["rows"]) for c in run.all("speed")})
    )
    machine = run.machine
    sentences = [
        "The fastest of polars, DuckDB and pandas takes this many times as long, on sorted and on "
        f"shuffled rows: {'; '.join(multiples)}.",
        f"For all measures of a TREC run pytrec-eval-terrier takes {warm} times as long, and "
        f"{fresh} times in a new process.",
        f"This was measured side by side with {sizes} rows on {machine['cores']} cores "
        f"({machine['cpu']}, {run.date}); `make bench` repeats it, and "
        "[bench/RESULTS.md](bench/RESULTS.md) has all numbers, missed targets too.",
    ]
    text = " ".join(sentences)
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


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
