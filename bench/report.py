"""From a run to RESULTS.md and the block of the README: no number is typed by hand."""

from __future__ import annotations

from collections.abc import Sequence

from bench.runs import Run
from bench.targets import NONE, number, peak, speed, start, targets

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
        "Met or not is decided by the median wall time. The column beside it is the same number "
        "by processor time (Mrows per CPU second, CPU seconds), which other programs on a shared "
        "machine disturb less.",
        _table(["target", "wanted", "measured", "by CPU time", "met"], verdicts, "lrrrl"),
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
            f"{name} {release}"
            for name, release in {"Python": machine["python"], **machine["versions"]}.items()
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
                number(case.mrows),
                number(case.fastest_mrows),
                number(case.mrows / threads),
                number(case.cpu_mrows),
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
    lines += [
        [names[case.info["which"]], f"{number(case.mrows)} Mrows/s"] for case in run.all("np.sort")
    ]
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


def _times(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:.2f}"


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
