"""The command ``fastrank-eval``: a thin shell around :func:`fastrank_eval.evaluate`.

Only click is imported here; everything heavy waits until a command runs, so that ``--help``
answers at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from fastrank_eval import __version__
from fastrank_eval.errors import ArgumentError, OutputError
from fastrank_eval.shell import (
    SectionedCommand,
    SectionedOption,
    Shell,
    check_standard_output,
    emit,
    note,
    prepare_process,
    rendered,
)
from fastrank_eval.stops import raise_if_stopped, signals_held, tidied

if TYPE_CHECKING:
    from fastrank_eval.result import Result

__all__ = ["cli", "main"]

DEFAULT_MEASURES = "GAUC,AUC,nDCG@10,AP,RR,P@10,R@10"

_REPORT_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown"}
_FILE_WIDTH = 120


def _option(section: str, *names: str, **keywords: Any) -> Callable[[Any], Any]:
    return click.option(*names, cls=SectionedOption, section=section, **keywords)


def _choice(*choices: str) -> click.Choice[str]:
    return click.Choice(choices)


def _names(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> list[str]:
    r"""Split repeated and comma-separated column names; ``\,`` stands for a comma in a name."""
    parts = [part for text in given for part in re.split(r"(?<!\\),", text)]
    names = [part.replace("\\,", ",").strip() for part in parts]
    if not all(names):
        raise click.BadParameter("a column name is empty.")
    return names


@click.group(
    cls=Shell, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__)
def cli() -> None:
    """Evaluate click prediction, search and recommendation, exactly and fast."""


@cli.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval evaluate impressions.parquet --group user_id --label click --score pctr
  fastrank-eval evaluate 'logs/day=*' -g user_id -l click -s model_a,model_b \\
      -m "GAUC(weight='positives'),nDCG@10" --format json --output report.json
  fastrank-eval evaluate judged.csv -g query -l grade -s bm25 -m "nDCG@10,ERR@20,AP(rel=2)"
  fastrank-eval evaluate logs -g user_id -l click -s pctr --where "day = '2026-11-19' and slot < 3"
  producer | fastrank-eval evaluate - -g session -l click -s pctr --presorted

Exit codes: 0 done, 2 bad input or output, 130 interrupted, 143 terminated, 129 hung up.""",
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCES...")
@_option(
    "Columns",
    "-g",
    "--group",
    multiple=True,
    required=True,
    callback=_names,
    metavar="COLUMN",
    help="Group key: query, user or session. Repeat it, or separate by commas, for several.",
)
@_option(
    "Columns",
    "-l",
    "--label",
    required=True,
    metavar="COLUMN",
    help="Click (bool, 0/1), grade (integer) or gain (float).",
)
@_option(
    "Columns",
    "-s",
    "--score",
    multiple=True,
    required=True,
    callback=_names,
    metavar="COLUMN",
    help="Score of a model, higher is better. Repeat it, or separate by commas, for several.",
)
@_option("Columns", "-w", "--weight", metavar="COLUMN", help="Weight of each row, at least 0.")
@_option("Columns", "--item", metavar="COLUMN", help="Item or document id, for --ties item.")
@_option(
    "Measures",
    "-m",
    "--measures",
    multiple=True,
    default=[DEFAULT_MEASURES],
    show_default=True,
    metavar="LIST",
    help="Measures, separated by commas; 'fastrank-eval measures' lists them.",
)
@_option(
    "Conventions",
    "--ties",
    type=_choice("expected", "input", "item", "best", "worst"),
    default="expected",
    show_default=True,
    help="Rank of tied rows: mean over all their orders, order of the rows, item id descending, "
    "relevant first, relevant last.",
)
@_option(
    "Conventions",
    "--undefined",
    type=_choice("skip", "zero", "one", "error"),
    default="skip",
    show_default=True,
    help="What a group without a value counts as.",
)
@_option(
    "Conventions",
    "--groups",
    type=_choice("all", "with_relevant"),
    default="all",
    show_default=True,
    help="Groups to evaluate: all, or those with a row of grade 1 or more.",
)
@_option(
    "Conventions",
    "--unretrieved",
    type=_choice("error", "allow"),
    default="error",
    show_default=True,
    help="A null score: a fault, or a relevant row that was not retrieved.",
)
@_option(
    "Conventions",
    "--unjudged",
    type=_choice("error", "allow", "drop"),
    default="error",
    show_default=True,
    help="A null label: a fault, an unjudged row that takes a rank, or no row at all.",
)
@_option(
    "Conventions",
    "--weight-rows",
    type=_choice("refuse", "ignore"),
    default="refuse",
    show_default=True,
    help="What rank-position measures do about --weight.",
)
@_option(
    "Reading",
    "--order",
    type=_choice("auto", "sorted", "grouped", "scattered"),
    default="auto",
    show_default=True,
    help="Order of the rows: by group and score descending, by group, any, or find out.",
)
@_option(
    "Reading",
    "--presorted",
    is_flag=True,
    help="The same as --order sorted: trusted, but verified while streaming.",
)
@_option(
    "Reading",
    "--threads",
    type=int,
    metavar="N",
    help="Threads; by default all cores. No number depends on it.",
)
@_option(
    "Reading",
    "--where",
    metavar="CONDITION",
    help="Evaluate only the rows for which this holds: comparisons, in (...), between, is null, "
    "and, or, not; text in single quotes, names with odd signs in double quotes. Files and row "
    "groups that it rules out are not read.",
)
@_option(
    "Reading",
    "--memory",
    metavar="SIZE",
    help="Memory the run may take, such as 4GB; by default a share of what is free. Scattered rows "
    "that do not fit are sorted on disk (needs DuckDB). Half a GB to one is needed in any case. No "
    "number depends on it.",
)
@_option(
    "Reading",
    "--spill-dir",
    metavar="FOLDER",
    help="Folder for rows that do not fit; by default that of temporary files.",
)
@_option(
    "Reading",
    "--limit",
    type=int,
    metavar="N",
    help="Evaluate the first N rows only, of those that --where selects.",
)
@_option(
    "Reading",
    "--input-format",
    type=_choice("parquet", "arrow", "csv", "tsv"),
    help="Format of SOURCES; by default their suffix or first bytes tell.",
)
@_option(
    "Output",
    "-f",
    "--format",
    "report_format",
    type=_choice("table", "json", "csv", "markdown"),
    help="Format of the report; by default the suffix of --output tells, else table.",
)
@_option(
    "Output",
    "-o",
    "--output",
    type=click.Path(),
    metavar="FILE",
    help="Write the report to FILE instead of standard output.",
)
@_option(
    "Output",
    "--per-group",
    "per_group_file",
    type=click.Path(),
    metavar="FILE",
    help="Also write the values of every group; .parquet, .arrow or .csv (bytes as hexadecimal).",
)
@_option("Output", "--overwrite", is_flag=True, help="Replace output files that exist.")
@_option(
    "Output",
    "-q",
    "--quiet",
    is_flag=True,
    help="No progress bar on a terminal, no notes of files written.",
)
def evaluate(
    sources: tuple[str, ...],
    group: list[str],
    label: str,
    score: list[str],
    measures: tuple[str, ...],
    order: str,
    presorted: bool,
    input_format: str | None,
    report_format: str | None,
    output: str | None,
    per_group_file: str | None,
    overwrite: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Evaluate ranked or scored rows, group by group.

    SOURCES are Parquet, Arrow IPC or CSV files, folders or quoted globs, read in the order given;
    "-" reads an Arrow IPC stream from standard input. One row is one shown or judged item.
    """
    from fastrank_eval.bar import progress_bar
    from fastrank_eval.output import atomic_path

    if presorted and order not in ("auto", "sorted"):
        raise ArgumentError(f"--presorted contradicts --order {order}: leave one of them out.")
    files = _check_outputs(output, per_group_file, overwrite, sources)
    form = report_format or _REPORT_SUFFIXES.get(Path(output or "").suffix.lower(), "table")

    with signals_held():
        from fastrank_eval.evaluate import evaluate as run

    with progress_bar(quiet) as progress:
        result = run(
            sources[0] if len(sources) == 1 else list(sources),
            group=group[0] if len(group) == 1 else group,
            label=label,
            score=score[0] if len(score) == 1 else score,
            measures=",".join(measures),
            order=order,
            presorted=presorted,
            per_group=per_group_file is not None,
            format=input_format,
            progress=progress,
            **options,
        )
    raise_if_stopped()
    if per_group_file is not None:
        from fastrank_eval.table_files import write_table

        with atomic_path(per_group_file, overwrite=overwrite) as part, tidied(part.unlink):
            write_table(result.per_group, part, per_group_file)
    if output is None:
        emit(_report(result, form))
    else:
        with atomic_path(output, overwrite=overwrite) as part, tidied(part.unlink):
            part.write_text(_report(result, form, _FILE_WIDTH), encoding="utf-8")
    for file in files if not quiet else ():
        note(f"wrote {file}")


@cli.command()
@click.option(
    "-f",
    "--format",
    "report_format",
    type=_choice("table", "json", "markdown"),
    default="table",
    show_default=True,
    help="Format of the list.",
)
def measures(report_format: str) -> None:
    """List every measure with its formula and options."""
    from fastrank_eval import catalogue

    if report_format == "json":
        emit(catalogue.to_json())
    elif report_format == "markdown":
        emit(catalogue.to_markdown())
    else:
        emit(rendered(catalogue.renderable()))


def main() -> NoReturn:
    """Run the command line; the entry point of ``fastrank-eval``."""
    prepare_process()
    cli(prog_name="fastrank-eval")
    raise SystemExit(0)


def _check_outputs(
    output: str | None, per_group: str | None, overwrite: bool, sources: Sequence[str]
) -> list[str]:
    """Refuse outputs that cannot be written, before any work; return those to be written."""
    from fastrank_eval.output import check_writable
    from fastrank_eval.table_files import SUFFIXES

    if output is None:
        check_standard_output()
    files = [file for file in (per_group, output) if file is not None]
    if per_group is not None and Path(per_group).suffix.lower() not in SUFFIXES:
        raise OutputError(f"--per-group {per_group!r}: unknown suffix; use {', '.join(SUFFIXES)}.")
    targets = [check_writable(file, overwrite) for file in files]
    if len(set(targets)) < len(targets):
        raise OutputError(f"--output and --per-group both name {output!r}: name two files.")
    for file, target in zip(files, targets, strict=True):
        if target.exists() and any(_holds(source, target) for source in sources):
            raise OutputError(f"{file!r} is part of the input: name another file.")
    return files


def _holds(source: str, target: Path) -> bool:
    """Tell whether reading `source` reads the file `target`."""
    import glob

    if source == "-":
        return False
    found = [source] if Path(source).exists() else glob.glob(source, recursive=True)
    return any(target.is_relative_to(os.path.realpath(path)) for path in found)


def _report(result: Result, form: str, width: int | None = None) -> str:
    if form == "json":
        return result.to_json() + "\n"
    if form == "csv":
        return result.to_csv()
    if form == "markdown":
        return result.to_markdown()
    return rendered(result, width)
