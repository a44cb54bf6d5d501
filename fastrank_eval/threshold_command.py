"""The command ``fastrank-eval threshold``: a thin shell around `best_threshold`."""

from __future__ import annotations

from typing import Any

import click

from fastrank_eval.errors import ArgumentError
from fastrank_eval.options import (
    choice,
    csv_safe_option,
    input_options,
    label_option,
    limit_option,
    option,
    score_option,
    threads_option,
    weight_option,
    where_option,
)
from fastrank_eval.shell import SectionedCommand, check_standard_output, emit
from fastrank_eval.stops import raise_if_stopped, signals_held

__all__ = ["threshold"]


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
    with signals_held():
        from fastrank_eval.bar import progress_bar
        from fastrank_eval.thresholds import best_threshold as run

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
        from fastrank_eval.csv_text import csv_text

        emit(csv_text(list(rows[0]), (row.values() for row in rows), csv_safe))
