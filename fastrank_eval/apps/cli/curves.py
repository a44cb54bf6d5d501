"""Define the commands curve, plot, threshold and classes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.cli.options import (
    column_options,
    combine,
    complete_columns,
    compute,
    convention_options,
    csv_safe_option,
    format_option,
    of,
    option,
    options_of,
    overwrite_option,
    quiet_option,
    reading_options,
    sources_argument,
    split_commas,
)
from fastrank_eval.apps.cli.output import report_text, several_text
from fastrank_eval.apps.cli.shell import (
    SectionedCommand,
    check_files,
    check_standard_output,
    emit,
    output_file,
)
from fastrank_eval.apps.cli.standard_error import note
from fastrank_eval.results.report import printable

if TYPE_CHECKING:
    from fastrank_eval.results.curve_points import Curve

KINDS = ("roc", "pr", "det", "lift", "calibration", "k", "gauc-by-activity")
_FORMATS = {".json": "json", ".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"}


def _parse_points(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> str | int | None:
    return int(value) if value is not None and value.isdecimal() else value


def _parse_numbers(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[int] | None:
    """Parse integers and ranges of integers: ``1-10,20,50``."""
    if value is None:
        return None
    numbers: list[int] = []
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
        if match is None:
            raise click.BadParameter(f"must be integers or ranges such as 1-50, got {part!r}.")
        first, last = int(match[1]), int(match[2] or match[1])
        if last - first >= _MAX_CUTOFFS:
            raise click.BadParameter(
                f"must be a range of at most {_MAX_CUTOFFS:,} numbers, got {part!r}."
            )
        numbers += range(first, last + 1)
    return numbers


_MAX_CUTOFFS = 10_000


def _option(section: str, names: str, text: str, **keywords: Any) -> Callable[[Any], Any]:
    """Make an option of its names, which a placeholder may follow."""
    spelled = [name for name in names.split() if name.startswith("-")]
    for metavar in names.split()[len(spelled) :]:
        keywords["metavar"] = metavar
    return option(section, *spelled, help=text, **keywords)


_curve_option = partial(_option, "Curve")
_curve_options = combine(
    _curve_option(
        "--points N|corners|all",
        "For roc, pr, det, lift. N: at most N points at equal steps of tpr + fpr (for lift: of "
        "depth). corners: no points on straight segments (the default). all: one point per "
        "distinct score.",
        callback=_parse_points,
    ),
    _curve_option("--rel GRADE", "The lowest grade that is positive.", type=float),
    _curve_option("--bins", "Bins of calibration; by default 10.", type=int),
    _curve_option(
        "--binning",
        "Bins of calibration: of equally many rows, or of equal width; by default equal-count.",
        type=click.Choice(["equal-count", "equal-width"]),
    ),
    _curve_option(
        "--confidence SHARE",
        "Confidence of Wilson's intervals of calibration; by default 0.95.",
        type=float,
    ),
    _curve_option(
        "-m --measure LIST",
        "For k: measures that take a cutoff, by default nDCG. For gauc-by-activity: a mean over "
        "groups, by default GAUC.",
    ),
    _curve_option(
        "--cutoffs LIST",
        "Cutoffs for k, such as 1-10,20,50; by default 1-50.",
        callback=_parse_numbers,
    ),
    _curve_option(
        "--activity",
        "For gauc-by-activity: count the rows or the positives of a group; by default rows.",
        type=click.Choice(["rows", "positives"]),
    ),
    _curve_option(
        "--buckets LIST",
        "For gauc-by-activity: first count of each bucket; by default 1,5,20,100.",
        callback=_parse_numbers,
    ),
)
_input_options = combine(
    click.argument("kind", type=click.Choice(KINDS), metavar="KIND"),
    sources_argument,
    column_options,
    _curve_options,
    convention_options,
    reading_options,
)
_file_options = combine(
    overwrite_option("Replace a file that exists."),
    quiet_option("No progress bar on a terminal, no notes."),
)


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval curve roc impressions.parquet -g user_id -l click \\
      -s score_a,score_b -o roc.csv
  fastrank-eval curve lift impressions.parquet -g user_id -l click \\
      -s score_a --points 11
  fastrank-eval curve k impressions.parquet -g user_id -l click -s score_a \\
      -m nDCG,R \\
      --cutoffs 1-20""",
)
@_input_options
@format_option("csv", "json", help="Format on standard output; by default csv.")
@_option(
    "Output",
    "-o --output",
    "Write the points to FILE instead of standard output ('-'): .parquet, .arrow, .csv or .json.",
    type=click.Path(),
    callback=output_file,
)
@csv_safe_option
@_file_options
def curve(
    kind: str,
    sources: tuple[str, ...],
    report_format: str | None,
    output: str | None,
    csv_safe: bool,
    overwrite: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Write the points of a curve as a table.

    KIND is roc, pr, det, lift or calibration over all rows, k (measures by cutoff), or
    gauc-by-activity. SOURCES are as in evaluate. The column score names the model.
    """
    from fastrank_eval._lib.files import atomic_path, check_suffix

    if output is None:
        check_standard_output()
    else:
        check_suffix("--output", output, list(_FORMATS))
        if report_format is not None:
            raise ArgumentError(
                "--format is for standard output, and the suffix of --output sets the format: "
                "leave one of them out."
            )
    check_files({"--output": output}, overwrite, sources, options["format"])
    result = _compute_curve(kind, sources, quiet, options)
    for score, reason in result.undefined.items() if not quiet else ():
        note(f"{printable(score)}: no curve ({reason})")
    for line in result.notes if not quiet else ():
        note(printable(line))
    if output is None:
        emit(report_text(result, report_format or "csv", None, csv_safe))
        return
    from fastrank_eval.results.views import write_table

    with atomic_path(output, overwrite=overwrite) as part:
        file_format = _FORMATS[Path(output).suffix.lower()]
        if file_format in ("json", "csv"):
            text = report_text(result, file_format, None, csv_safe)
            part.write_text(text, encoding="utf-8")
        else:
            write_table(result.records(), part, output, csv_safe)
    if not quiet:
        note(f"wrote {output}")


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval plot roc impressions.parquet -g user_id -l click \\
      -s score_a,score_b -o roc.png
  fastrank-eval plot calibration impressions.parquet -g user_id -l click \\
      -s score_a -o bins.html""",
)
@_input_options
@_option(
    "Output",
    "-o --output",
    "Write the picture to FILE: .png, .svg or .html (one page without other files).",
    required=True,
    type=click.Path(),
)
@_option("Output", "--title TEXT", "Title; by default the kind of curve.")
@_file_options
def plot(
    kind: str,
    sources: tuple[str, ...],
    output: str,
    title: str | None,
    overwrite: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Draw a curve of every model in one picture.

    It needs the extra [plot].

    KIND is roc, pr, det, lift or calibration over all rows, k (measures by cutoff), or
    gauc-by-activity. SOURCES are as in evaluate.
    """
    from fastrank_eval.results.plot_files import check_picture

    check_picture(output, "--output")
    check_files({"--output": output}, overwrite, sources, options["format"])
    result = _compute_curve(kind, sources, quiet, options)
    result.plot(output, title=title, overwrite=overwrite)
    if not quiet:
        note(f"wrote {output}")


def _compute_curve(
    kind: str, sources: tuple[str, ...], quiet: bool, options: dict[str, Any]
) -> Curve:
    from fastrank_eval.analysis.curve import curve as run

    result: Curve = compute(partial(run, kind), sources, quiet, **options)
    return result


def _parse_costs(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """Parse costs by cell: "fp=1,fn=5"."""
    if value is None:
        return None
    costs: dict[str, float] = {}
    for part in value.split(","):
        cell, _, cost = (text.strip() for text in part.partition("="))
        if cell in costs:
            raise ArgumentError(f"--costs names {cell!r} twice.")
        try:
            costs[cell] = float(cost)
        except ValueError:
            raise ArgumentError(
                f"--costs: must be CELL=COST,..., got {part!r} in {value!r}; write fp=1,fn=5."
            ) from None
    return costs


_criterion = partial(_option, "Criterion")


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval threshold impressions.parquet --label click --score score_a
  fastrank-eval threshold logs -l click -s score_a,score_b --by recall \\
      --target 0.9 -f csv
  fastrank-eval threshold logs -l click -s score_a --by cost \\
      --costs fp=1,fn=20 --pos 0.02""",
)
@sources_argument
@options_of("rows", "Columns", label={"required": True}, score={"required": True})
@_criterion(
    "--by",
    "Criterion to optimise. f1, fbeta: the F measure. youden: TPR + 1 - FPR. product: "
    "TPR (1 - FPR). closest: the distance to (0, 1) of the ROC plane. accuracy. precision: TPR at "
    "a precision of --target. recall: precision at a TPR of --target. cost: mean cost of a row.",
    type=click.Choice(
        ["f1", "fbeta", "youden", "product", "closest", "accuracy", "precision", "recall", "cost"]
    ),
    default="f1",
)
@_criterion("--beta B", "For fbeta: the weight of recall.", type=float)
@_criterion("--target SHARE", "For precision and recall: the least value.", type=float)
@_criterion(
    "--pos SHARE",
    "For accuracy and cost: the share of positives in the data to which the threshold will be "
    "applied; by default the share in the rows.",
    type=float,
)
@_criterion(
    "--costs CELL=COST,...",
    "For cost: the cost of a row of tp, fp, fn or tn; by default 0.",
    callback=_parse_costs,
)
@_criterion(
    "--prefer",
    "Choose the highest or the lowest of equally good thresholds.",
    type=click.Choice(["highest", "lowest"]),
    default="highest",
)
@_option("Conventions", "--rel GRADE", "The lowest label of a positive row.", type=float, default=1)
@options_of("rows", "Conventions", "Reading")
@format_option("text", "json", "csv", default="text", help="Format of the report.")
@csv_safe_option
@quiet_option()
def threshold(
    sources: tuple[str, ...], report_format: str, csv_safe: bool, quiet: bool, **options: Any
) -> None:
    """Find the score at which to start predicting positive.

    SOURCES are Parquet, Arrow IPC or CSV files, folders or quoted globs; "-" reads an Arrow IPC
    stream from standard input. Every distinct score is tried. No group is needed.
    """
    check_standard_output()
    from fastrank_eval.analysis.curve import best_threshold as run

    thresholds = list(compute(run, sources, quiet, **options).values())
    if report_format == "text":
        emit("".join(f"{best}\n" for best in thresholds))
        return
    for text in thresholds[0].notes if report_format == "csv" and not quiet else ():
        note(printable(text))
    emit(several_text(thresholds, report_format, csv_safe))


_CLASS_MEASURES = "AUC,PPV,TPR,FScore,Accuracy"


def _parse_class_columns(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> Any:
    r"""Parse "cat=p_cat,dog=p_dog" or plain columns; ``\,`` is a comma."""
    parts = split_commas(values)
    if not any("=" in part for part in parts):
        return parts[0] if param.name == "label" and len(parts) == 1 else parts
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


_class_columns = partial(
    _option,
    "Columns",
    multiple=True,
    required=True,
    callback=_parse_class_columns,
    shell_complete=complete_columns,
)


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval classes animals.parquet --label kind \\
      --score cat=p_cat,dog=p_dog,owl=p_owl
  fastrank-eval classes digits.csv -l digit -s p0,p1,p2 \\
      -m "AUC,MCC,Success@2" -a macro,ovo,mu
  fastrank-eval classes news.parquet -l sport=is_sport,art=is_art \\
      -s sport=p_sport,art=p_art \\
      -m "PPV(threshold=0.3),AUC" -a macro,micro,samples""",
)
@sources_argument
@_class_columns(
    "-l --label COLUMN|CLASS=COLUMN,...",
    "Column with the class of each row, or a list of its classes; or one column of 0 and 1 for "
    "each class.",
)
@_class_columns(
    "-s --score CLASS=COLUMN|EXPRESSION,...",
    "The score column of each class, or an expression such as '1 - p'. Columns without a class are "
    "classes 0, 1, 2 ... if labels are numbers, and classes of the same names if labels are text.",
)
@options_of("classes", "Columns")
@of(
    "measures",
    default=[_CLASS_MEASURES],
    help="Measures, separated by commas. A measure of all rows compares each class with the "
    "others. A measure of groups takes each row as a group of its classes.",
)
@_option(
    "Measures",
    "-a --average LIST",
    "Averages over classes: macro, micro, weighted, samples; for AUC also ovo, ovo_weighted, mu.",
    default="macro",
)
@_option(
    "Conventions",
    "--decide",
    "argmax: predict the class of the highest score, the first on ties. threshold: predict every "
    "class whose score is at least the threshold of the measure. By default argmax if each row has "
    "one class.",
    type=click.Choice(["argmax", "threshold"]),
)
@options_of("classes", "Conventions", "Reading")
@format_option(
    *("table", "json", "csv", "markdown", "latex", "html"),
    default="table",
    help="Format of the report; all but csv include the values of the classes.",
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
    """Evaluate rows with a score for each class.

    Multi-class: each row has one class. Multi-label: each row has any number of labels.

    SOURCES are Parquet, Arrow IPC or CSV files, folders or quoted globs; "-" reads an Arrow IPC
    stream from standard input. No group is needed.
    """
    check_standard_output()
    from fastrank_eval.analysis.multiclass import evaluate_classes as run

    result = compute(run, sources, quiet, scores=score, **options)
    emit(report_text(result, report_format, None, csv_safe))
