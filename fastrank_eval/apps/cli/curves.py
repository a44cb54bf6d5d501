"""The commands curve, plot and threshold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.signals import defer_signals, on_forced_exit, raise_if_stopped
from fastrank_eval.apps.cli.options import (
    choice,
    column_options,
    convention_options,
    csv_safe_option,
    input_options,
    label_option,
    limit_option,
    option,
    reading_options,
    score_option,
    threads_option,
    together,
    weight_option,
    where_option,
)
from fastrank_eval.apps.cli.shell import (
    SectionedCommand,
    check_files,
    check_standard_output,
    emit,
    note,
    written_file,
)
from fastrank_eval.results.format import printable

if TYPE_CHECKING:
    from fastrank_eval.analysis.curve import Curve

__all__ = ["KINDS", "curve", "plot", "threshold"]


KINDS = ("roc", "pr", "det", "lift", "calibration", "k", "gauc-by-activity")
_FORMATS = {".json": "json", ".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"}


def _points(ctx: click.Context, param: click.Parameter, given: str | None) -> str | int | None:
    return int(given) if given is not None and given.isdecimal() else given


def _numbers(ctx: click.Context, param: click.Parameter, given: str | None) -> list[int] | None:
    """Read whole numbers and ranges of them: ``1-10,20,50``."""
    if given is None:
        return None
    numbers: list[int] = []
    for part in given.split(","):
        found = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        if found is None:
            raise click.BadParameter(f"{part!r} is no whole number and no range such as 1-50.")
        first, last = int(found[1]), int(found[2] or found[1])
        if last - first >= _MOST_CUTOFFS:
            raise click.BadParameter(f"{part!r} are more than {_MOST_CUTOFFS:,} numbers.")
        numbers += range(first, last + 1)
    return numbers


_MOST_CUTOFFS = 10_000

_curve_options = together(
    option(
        "Curve",
        "--points",
        callback=_points,
        metavar="N|corners|all",
        help="Of roc, pr, det, lift: at most N points at equal steps of tpr + fpr (of lift: of "
        "depth), corners (points on straight segments left out; the default), or every distinct "
        "score.",
    ),
    option("Curve", "--rel", type=float, metavar="GRADE", help="The least grade that is positive."),
    option("Curve", "--bins", type=int, metavar="N", help="Of calibration; by default 10."),
    option(
        "Curve",
        "--binning",
        type=choice("equal-count", "equal-width"),
        help="Of calibration; by default equal-count.",
    ),
    option(
        "Curve",
        "--confidence",
        type=float,
        metavar="SHARE",
        help="Of calibration: of Wilson's interval; by default 0.95.",
    ),
    option(
        "Curve",
        "-m",
        "--measure",
        metavar="LIST",
        help="Of k: measures that take a cutoff, by default nDCG. Of gauc-by-activity: a mean "
        "over groups, by default GAUC.",
    ),
    option(
        "Curve",
        "--cutoffs",
        callback=_numbers,
        metavar="LIST",
        help="Of k: 1-10,20,50; by default 1-50.",
    ),
    option(
        "Curve",
        "--activity",
        type=choice("rows", "positives"),
        help="Of gauc-by-activity: what of a group is counted; by default rows.",
    ),
    option(
        "Curve",
        "--buckets",
        callback=_numbers,
        metavar="LIST",
        help="Of gauc-by-activity: where buckets begin; by default 1,5,20,100.",
    ),
)
_OVERWRITE = option("Output", "--overwrite", is_flag=True, help="Replace a file that exists.")
_QUIET = option(
    "Output",
    "-q",
    "--quiet",
    is_flag=True,
    help="No progress bar on a terminal, no notes.",
)


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval curve roc impressions.parquet -g user_id -l click -s score_a,score_b -o roc.csv
  fastrank-eval curve lift impressions.parquet -g user_id -l click -s score_a --points 11
  fastrank-eval curve k impressions.parquet -g user_id -l click -s score_a -m nDCG,R \\
      --cutoffs 1-20""",
)
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCES...")
@column_options
@_curve_options
@convention_options
@reading_options
@option(
    "Output",
    "-f",
    "--format",
    "table_format",
    type=choice("csv", "json"),
    help="Format on standard output; by default csv.",
)
@option(
    "Output",
    "-o",
    "--output",
    type=click.Path(),
    callback=written_file,
    metavar="FILE",
    help="Write the points to FILE instead of standard output ('-'): .parquet, .arrow, .csv or "
    ".json.",
)
@csv_safe_option
@_OVERWRITE
@_QUIET
def curve(
    kind: str,
    sources: tuple[str, ...],
    table_format: str | None,
    output: str | None,
    csv_safe: bool,
    overwrite: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Write the points of a curve as a table.

    KIND is roc, pr, det, lift or calibration, of all rows; k, of measures at cutoffs; or
    gauc-by-activity. SOURCES are as of evaluate. Each model is in the column score.
    """
    from fastrank_eval._lib.files import atomic_path, check_suffix

    if output is None:
        check_standard_output()
    else:
        check_suffix("--output", output, list(_FORMATS))
        if table_format is not None:
            raise ArgumentError("--format is for standard output: the suffix of --output tells.")
    check_files({"--output": output}, overwrite, sources, options["input_format"])
    found = _found(kind, sources, quiet, options)
    for score, reason in found.undefined.items() if not quiet else ():
        note(f"{printable(score)}: no curve ({reason})")
    if output is None:
        emit(found.to_json() + "\n" if table_format == "json" else found.to_csv(safe=csv_safe))
        return
    from fastrank_eval.results.table_files import write_table

    with atomic_path(output, overwrite=overwrite) as part, on_forced_exit(part.unlink):
        if _FORMATS[Path(output).suffix.lower()] == "json":
            part.write_text(found.to_json() + "\n", encoding="utf-8")
        else:
            write_table(found.table, part, output, csv_safe)
    if not quiet:
        note(f"wrote {output}")


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval plot roc impressions.parquet -g user_id -l click -s score_a,score_b -o roc.png
  fastrank-eval plot calibration impressions.parquet -g user_id -l click -s score_a -o bins.html""",
)
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCES...")
@column_options
@_curve_options
@convention_options
@reading_options
@option(
    "Output",
    "-o",
    "--output",
    required=True,
    type=click.Path(),
    metavar="FILE",
    help="Write the picture to FILE: .png, .svg or .html (one page that needs nothing else).",
)
@option("Output", "--title", metavar="TEXT", help="Title; by default what kind of curve it is.")
@_OVERWRITE
@_QUIET
def plot(
    kind: str,
    sources: tuple[str, ...],
    output: str,
    title: str | None,
    overwrite: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Draw a curve of every model into one picture (extra [plot]).

    KIND is roc, pr, det, lift or calibration, of all rows; k, of measures at cutoffs; or
    gauc-by-activity. SOURCES are as of evaluate.
    """
    from fastrank_eval._lib.files import atomic_path
    from fastrank_eval.analysis.plot_files import check_picture, draw_file

    check_picture(output, "--output")
    check_files({"--output": output}, overwrite, sources, options["input_format"])
    found = _found(kind, sources, quiet, options)
    with (
        defer_signals(),
        atomic_path(output, overwrite=overwrite) as part,
        on_forced_exit(part.unlink),
    ):
        draw_file(found, part, output, title)
    raise_if_stopped()
    if not quiet:
        note(f"wrote {output}")


def _found(kind: str, sources: tuple[str, ...], quiet: bool, options: dict[str, Any]) -> Curve:
    """Run the evaluation behind a curve."""
    from fastrank_eval.apps.cli.progress_bar import progress_bar

    with defer_signals():
        from fastrank_eval.analysis.curve import curve as run

    group, score = options.pop("group"), options.pop("score")
    with progress_bar(quiet) as progress:
        found = run(
            kind,
            sources[0] if len(sources) == 1 else list(sources),
            group=group[0] if len(group) == 1 else group,
            score=score[0] if len(score) == 1 else score,
            format=options.pop("input_format"),
            progress=progress,
            **options,
        )
    raise_if_stopped()
    return found


def _costs(ctx: click.Context, param: click.Parameter, given: str | None) -> Any:
    """Read costs by cell: "fp=1,fn=5"."""
    if given is None:
        return None
    costs: dict[str, float] = {}
    for part in given.split(","):
        cell, _, cost = (word.strip() for word in part.partition("="))
        if cell in costs:
            raise ArgumentError(f"--costs names {cell!r} twice.")
        try:
            costs[cell] = float(cost)
        except ValueError:
            raise ArgumentError(
                f"--costs {given!r}: {part!r} is not a cell and its cost; write fp=1,fn=5."
            ) from None
    return costs


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval threshold impressions.parquet --label click --score score_a
  fastrank-eval threshold logs -l click -s score_a,score_b --by recall --target 0.9 -f csv
  fastrank-eval threshold logs -l click -s score_a --by cost --costs fp=1,fn=20 --pos 0.02""",
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCES...")
@label_option
@score_option
@weight_option
@option(
    "Criterion",
    "--by",
    type=choice(
        "f1", "fbeta", "youden", "product", "closest", "accuracy", "precision", "recall", "cost"
    ),
    default="f1",
    show_default=True,
    help="What is best: F1 or F-beta; TPR + 1 - FPR; TPR (1 - FPR); the distance to (0, 1) of the "
    "ROC plane; accuracy; TPR at a precision of --target; precision at a TPR of --target; the mean "
    "cost of a row.",
)
@option("Criterion", "--beta", type=float, metavar="B", help="For fbeta: the weight of recall.")
@option(
    "Criterion",
    "--target",
    type=float,
    metavar="SHARE",
    help="For precision and recall: at least this.",
)
@option(
    "Criterion",
    "--pos",
    type=float,
    metavar="SHARE",
    help="For accuracy and cost: the share of positives where the threshold will be used; by "
    "default that of the rows.",
)
@option(
    "Criterion",
    "--costs",
    callback=_costs,
    metavar="CELL=COST,...",
    help="For cost: what a row of tp, fp, fn or tn costs, 0 if left out.",
)
@option(
    "Criterion",
    "--prefer",
    type=choice("highest", "lowest"),
    default="highest",
    show_default=True,
    help="Which of equally good thresholds to take.",
)
@option(
    "Conventions",
    "--rel",
    type=float,
    default=1,
    show_default=True,
    metavar="GRADE",
    help="The least label of a positive row.",
)
@option(
    "Conventions",
    "--unretrieved",
    type=choice("error", "allow"),
    default="error",
    show_default=True,
    help="A null score: a fault, or a row to leave out.",
)
@option(
    "Conventions",
    "--unjudged",
    type=choice("error", "allow", "drop"),
    default="error",
    show_default=True,
    help="A null label: a fault, a negative row, or no row at all.",
)
@option(
    "Conventions",
    "--score-type",
    type=choice("given", "float32"),
    default="given",
    show_default=True,
    help="Take scores as they are, or rounded to float32.",
)
@threads_option
@where_option
@limit_option
@input_options
@option(
    "Output",
    "-f",
    "--format",
    "report_format",
    type=choice("text", "json", "csv"),
    default="text",
    show_default=True,
    help="Format of the report.",
)
@csv_safe_option
@option("Output", "-q", "--quiet", is_flag=True, help="No progress bar on a terminal.")
def threshold(
    sources: tuple[str, ...],
    score: list[str],
    input_format: str | None,
    report_format: str,
    csv_safe: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Find the score from which to predict a row positive.

    SOURCES are Parquet, Arrow IPC or CSV files, folders or quoted globs; "-" reads an Arrow IPC
    stream from standard input. Every distinct score is tried. No group is needed.
    """
    check_standard_output()
    with defer_signals():
        from fastrank_eval.analysis.thresholds import best_threshold as run
        from fastrank_eval.apps.cli.progress_bar import progress_bar

    with progress_bar(quiet) as progress:
        found = run(
            sources[0] if len(sources) == 1 else list(sources),
            score=score,
            format=input_format,
            progress=progress,
            **options,
        )
    raise_if_stopped()
    best = list(found.values())
    if report_format == "text":
        emit("".join(f"{one}\n" for one in best))
        return
    rows = [one.to_dict() for one in best]
    if report_format == "json":
        import json

        emit(json.dumps(rows, indent=2, allow_nan=False) + "\n")
    else:
        from fastrank_eval._lib.csv_text import csv_text

        emit(csv_text(list(rows[0]), (row.values() for row in rows), csv_safe))
