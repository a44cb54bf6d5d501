"""Define the command classes."""

from __future__ import annotations

import re
from typing import Any

import click

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.signals import defer_signals
from fastrank_eval.apps.cli.options import (
    choice,
    compute,
    csv_safe_option,
    format_option,
    input_options,
    join_lists,
    limit_option,
    option,
    quiet_option,
    sources_argument,
    threads_option,
    weight_option,
    where_option,
)
from fastrank_eval.apps.cli.output import report_text
from fastrank_eval.apps.cli.shell import SectionedCommand, check_standard_output, emit

__all__ = ["classes"]

_MEASURES = "AUC,PPV,TPR,FScore,Accuracy"


def _parse_class_columns(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> Any:
    r"""Parse "cat=p_cat,dog=p_dog" or plain columns; ``\,`` is a comma."""
    parts = [part.replace("\\,", ",") for text in values for part in re.split(r"(?<!\\),", text)]
    if not any("=" in part for part in parts):
        columns = [part.strip() for part in parts]
        return columns[0] if param.name == "label" and len(columns) == 1 else columns
    by_class: dict[str, str] = {}
    for part in parts:
        name, sign, column = (text.strip() for text in part.rpartition("="))
        if not sign or not column:
            raise ArgumentError(
                f"--{param.name}: must be CLASS=COLUMN, got {part!r}; write cat=p_cat,dog=p_dog."
            )
        if name in by_class:
            raise ArgumentError(f"--{param.name} names the class {name!r} twice.")
        by_class[name] = column
    return by_class


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval classes animals.parquet --label kind --score cat=p_cat,dog=p_dog,owl=p_owl
  fastrank-eval classes digits.csv -l digit -s p0,p1,p2 -m "AUC,MCC,Success@2" -a macro,ovo,mu
  fastrank-eval classes news.parquet -l sport=is_sport,art=is_art -s sport=p_sport,art=p_art \\
      -m "PPV(threshold=0.3),AUC" -a macro,micro,samples""",
)
@sources_argument
@option(
    "Columns",
    "-l",
    "--label",
    multiple=True,
    required=True,
    callback=_parse_class_columns,
    metavar="COLUMN|CLASS=COLUMN,...",
    help="Column with the class of each row, or a list of its classes; or one column of 0 and 1 "
    "for each class.",
)
@option(
    "Columns",
    "-s",
    "--score",
    multiple=True,
    required=True,
    callback=_parse_class_columns,
    metavar="CLASS=COLUMN,...",
    help="The score column of each class. Columns without a class are classes 0, 1, 2 ... if "
    "labels are numbers, and classes of the same names if labels are text.",
)
@weight_option
@option(
    "Measures",
    "-m",
    "--measures",
    multiple=True,
    default=[_MEASURES],
    show_default=True,
    callback=join_lists,
    metavar="LIST",
    help="Measures, separated by commas. A measure of all rows compares each class with the "
    "others. A measure of groups takes each row as a group of its classes.",
)
@option(
    "Measures",
    "-a",
    "--average",
    default="macro",
    show_default=True,
    metavar="LIST",
    help="Averages over classes: macro, micro, weighted, samples; for AUC also ovo, ovo_weighted, "
    "mu.",
)
@option(
    "Conventions",
    "--decide",
    type=choice("argmax", "threshold"),
    help="argmax: predict the class of the highest score, the first on ties. threshold: predict "
    "every class whose score is at least the threshold of the measure. By default argmax if each "
    "row has one class.",
)
@option(
    "Conventions",
    "--undefined",
    default="skip",
    show_default=True,
    metavar="POLICY",
    help="Value of a class whose measure is undefined: skip, zero, one or error; skip,PPV=zero "
    "sets single measures.",
)
@threads_option
@where_option
@limit_option
@input_options
@format_option(
    "table",
    "json",
    "csv",
    "markdown",
    default="table",
    help="Format of the report; table and json include the values of the classes.",
)
@csv_safe_option
@quiet_option()
def classes(
    sources: tuple[str, ...],
    score: Any,
    report_format: str,
    csv_safe: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Evaluate rows with a score for each class: multi-class and multi-label.

    SOURCES are Parquet, Arrow IPC or CSV files, folders or quoted globs; "-" reads an Arrow IPC
    stream from standard input. No group is needed.
    """
    check_standard_output()
    with defer_signals():
        from fastrank_eval.analysis.multiclass import evaluate_classes as run

    result = compute(run, sources, quiet, scores=score, **options)
    emit(report_text(result, report_format, None, csv_safe))
