"""Define the options that commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.lexer import quoted
from fastrank_eval.apps.cli.completion import (
    complete_columns,
    complete_files,
    complete_measures,
    complete_profiles,
)
from fastrank_eval.apps.cli.shell import SectionedOption, require_rows
from fastrank_eval.engine import DEFAULT_MEASURES

if TYPE_CHECKING:
    pass


def option(section: str, *names: str, **keywords: Any) -> Callable[[Any], Any]:
    """Make an option that ``--help`` lists under a heading."""
    keywords["show_default"] = keywords.get("default") is not None
    return click.option(*names, cls=SectionedOption, section=section, **keywords)


def choice(*choices: str) -> click.Choice[str]:
    """Make the type of an option with a fixed set of values."""
    return click.Choice(choices)


def format_option(*choices: str, default: str | None = None, help: str) -> Callable[[Any], Any]:  # noqa: A002 - click's word
    """Make the option ``--format`` of a report."""
    return option(
        "Output",
        "-f",
        "--format",
        "report_format",
        type=choice(*choices),
        default=default,
        help=help,
    )


def overwrite_option(text: str) -> Callable[[Any], Any]:
    """Make the option ``--overwrite``."""
    return option("Output", "--overwrite", is_flag=True, help=text)


def quiet_option(text: str = "No progress bar on a terminal.") -> Callable[[Any], Any]:
    """Make the option ``--quiet``."""
    return option("Output", "-q", "--quiet", is_flag=True, help=text)


def split_commas(values: Iterable[str]) -> list[str]:
    r"""Split texts at commas; ``\,`` is a comma in a name."""
    parts = [part for text in values for part in re.split(r"(?<!\\),", text)]
    return [part.replace("\\,", ",").strip() for part in parts]


def _read_scores(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> list[str] | dict[str, str]:
    r"""Read columns and ``NAME=EXPRESSION``; ``\=`` is an equals sign."""
    parts = [re.split(r"(?<!\\)=", text, maxsplit=1) for text in _split_names(ctx, param, values)]
    names = [part[0].replace("\\=", "=").strip() for part in parts]
    if all(len(part) == 1 for part in parts):
        return names
    for name in names:
        if not name:
            hint = "write 'NAME = EXPRESSION', or '\\=' in the name of a column"
            raise click.BadParameter(f"a score has no name before '='; {hint}.")
        if names.count(name) > 1:
            raise click.BadParameter(f"the score {name!r} is there twice; name it once.")
    texts = [part[1].strip() if len(part) > 1 else quoted(name)
             for name, part in zip(names, parts, strict=True)]  # fmt: skip
    return dict(zip(names, texts, strict=True))


def _split_names(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[str]:
    """Split comma-separated column names."""
    names = split_commas(values)
    if not all(names):
        raise click.BadParameter("a column name is empty.")
    return names


def join_lists(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> str:
    """Join the lists of a repeated option to one."""
    return ",".join(values)


def combine(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Combine options into one decorator; ``--help`` keeps their order."""

    def apply(command: Any) -> Any:
        for add in reversed(options):
            command = add(command)
        return command

    return apply


sources_argument = click.argument(
    "sources", nargs=-1, required=True, metavar="SOURCES...", shell_complete=complete_files
)

_group_option = option(
    "Columns",
    "-g",
    "--group",
    multiple=True,
    callback=lambda *parameters: _split_names(*parameters) or None,
    shell_complete=complete_columns,
    metavar="COLUMN",
    help="Group key: query, user or session. Measures of all rows, such as AUC, need none. In CSV "
    "and TSV files it is text (007 is not 7). Repeat the option, or separate names by commas, for "
    "several columns.",
)


_LABEL_HELP = "Click (bool, 0/1), grade (integer) or gain (float)."


def _labels(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> str | list[str]:
    names = _split_names(ctx, param, values)
    return names[0] if len(names) == 1 else names


def _labels_option(required: bool) -> Callable[[Any], Any]:
    return option(
        "Columns",
        *("-l", "--label"),
        multiple=True,
        required=required,
        callback=_labels,
        shell_complete=complete_columns,
        metavar="COLUMN",
        help=f"{_LABEL_HELP} Repeat the option, or separate names by commas, for several labels: "
        "rows are read once, and each label has tables of its own.",
    )


def _score_option(required: bool) -> Callable[[Any], Any]:
    return option(
        "Columns",
        "-s",
        "--score",
        multiple=True,
        required=required,
        callback=_read_scores,
        shell_complete=complete_columns,
        metavar="COLUMN|NAME=EXPRESSION",
        help="Score of a model; higher is better. 'both = p_click * p_order' computes one from "
        "columns, numbers, + - * / and parentheses. For several models, repeat the option, or "
        "separate them by commas. In names, write \\, for a comma and \\= for an equals sign.",
    )


label_option = option(
    "Columns", "-l", "--label", required=True, shell_complete=complete_columns, metavar="COLUMN",
    help=_LABEL_HELP,
)  # fmt: skip
score_option = _score_option(True)
weight_option = option(
    "Columns",
    "-w",
    "--weight",
    shell_complete=complete_columns,
    metavar="COLUMN",
    help="Weight of each row: 0, or from 1e-30 to 1e30.",
)
threads_option = option(
    "Reading",
    "--threads",
    type=int,
    metavar="N",
    help="Threads; by default all cores. No number depends on it.",
)
where_option = option(
    "Reading",
    "--where",
    metavar="CONDITION",
    help="Evaluate only the rows for which this is true: comparisons, in (...), between, is "
    "null, and, or, not. Put text in single quotes, and names with special characters in double "
    "quotes. Files and row groups that cannot match are not read.",
)
limit_option = option(
    "Reading",
    "--limit",
    type=int,
    metavar="N",
    help="Evaluate only the first N rows that --where selects.",
)
input_options = combine(
    option(
        "Reading",
        "--input-format",
        "format",
        type=choice("parquet", "arrow", "csv", "tsv"),
        help="Format of SOURCES; by default from their suffix or first bytes.",
    ),
    option(
        "Reading",
        "--allow-unfinished",
        is_flag=True,
        help="Accept Arrow streams without an end-of-stream marker. A killed producer leaves such "
        "a stream, and rows may be missing. By default it is an error.",
    ),
)
confidence_option = option(
    "Output",
    "--confidence",
    type=float,
    default=0.95,
    metavar="SHARE",
    help="Confidence of the intervals of the values; groups are independent clusters.",
)

csv_safe_option = option(
    "Output",
    "--csv-safe",
    is_flag=True,
    help="In CSV, put ' before text that begins with = + - @, a tab or a carriage return: a "
    "spreadsheet would read it as a formula.",
)


def _column_options(required: bool, several_labels: bool = False) -> Callable[[Any], Any]:
    return combine(
        _group_option,
        _labels_option(required) if several_labels else label_option,
        _score_option(required),
        weight_option,
        option(
            "Columns",
            "--item",
            metavar="COLUMN",
            help="Item or document id, for --ties item; once in a group.",
        ),
        option(
            "Columns",
            "--subtopics",
            metavar="COLUMN",
            help="Subtopics that each row covers, for measures of diversity: a list of numbers "
            "from 0 to 63.",
        ),
    )


column_options = _column_options(True)
labels_and_columns = _column_options(True, several_labels=True)
#: For commands whose SOURCES may be saved states, which hold their columns.
optional_column_options = _column_options(False, several_labels=True)
measure_options = option(
    "Measures",
    "-m",
    "--measures",
    multiple=True,
    default=[DEFAULT_MEASURES],
    callback=join_lists,
    shell_complete=complete_measures,
    metavar="LIST",
    help="Measures, separated by commas; 'fastrank-eval measures' lists them.",
)
slice_options = combine(
    option(
        "Slices",
        "--by",
        multiple=True,
        shell_complete=complete_columns,
        metavar="SLICES",
        help="Evaluate each slice of the rows too: slot for each of its values, slot,country for "
        "each combination, age:18,25,35 between edges, age:quantile5 in bins of equally many rows, "
        "age:width10, ts:hour, day, week, month, hour_of_day or day_of_week, @rows:1,5,20,100 and "
        "@positives:0,1,5 by the number of rows of a group. Repeat the option for several.",
    ),
    option(
        "Slices",
        "--min-groups",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Leave out slices of fewer groups, and print their number.",
    ),
)


def _convention(name: str, default: str, text: str, **keywords: Any) -> Callable[[Any], Any]:
    """Make an option whose default comes from ``--profile``."""
    text += f"; by default from --profile, else {default}."
    return option("Conventions", name, help=text, **keywords)


convention_options = combine(
    option(
        "Conventions",
        "--profile",
        shell_complete=complete_profiles,
        metavar="TOOL",
        help="Use the conventions of another tool: trec_eval_9, trec_eval_10, ir_measures, ranx, "
        "sklearn, gdeval, ndeval, catboost, xgboost, lightgbm, torchmetrics, din, recbole. Other "
        "options override them.",
    ),
    _convention(
        "--ties",
        "expected",
        "Rank of tied rows: mean over all orders (expected), order of the rows (input), "
        "descending item id (item), relevant rows first (best) or last (worst)",
        type=choice("expected", "input", "item", "best", "worst"),
    ),
    _convention(
        "--undefined",
        "skip",
        "Value of a group whose measure is undefined: skip, zero, one or error; skip,nDCG=one "
        "sets single measures",
        metavar="POLICY",
    ),
    _convention(
        "--groups",
        "all",
        "Groups to evaluate: all, or those with a row of grade 1 or more",
        type=choice("all", "with_relevant"),
    ),
    _convention(
        "--unretrieved",
        "error",
        "A null score is an error, a row that was not retrieved (below every other), or its row "
        "leaves for every model",
        type=choice("error", "allow", "drop"),
    ),
    _convention(
        "--unjudged",
        "error",
        "A null label is an error, an unjudged row that takes a rank, or no row at all",
        type=choice("error", "allow", "drop"),
    ),
    option(
        "Conventions",
        "--nan",
        type=choice("error", "null"),
        default="error",
        help="NaN in scores, labels and weights is an error, or null and counted.",
    ),
    option(
        "Conventions",
        "--null-groups",
        type=choice("error", "drop"),
        default="error",
        help="A null group key is an error, or its row is left out and counted.",
    ),
    _convention(
        "--weight-rows",
        "refuse",
        "Refuse or ignore --weight in measures of rank positions",
        type=choice("refuse", "ignore"),
    ),
    _convention(
        "--score-type",
        "given",
        "Compare scores as they are, or rounded to float32",
        type=choice("given", "float32"),
    ),
    option(
        "Conventions",
        "--sampling-rate",
        type=float,
        metavar="RATE",
        help="Share of the negatives that the models were trained on, above 0 and at most 1. "
        "Measures of probability correct p for this sampling; by default 1.",
    ),
)
reading_options = combine(
    option(
        "Reading",
        "--order",
        type=choice("auto", "sorted", "grouped", "scattered"),
        default="auto",
        help="Order of the rows: by group and descending score (sorted), by group (grouped), any "
        "(scattered), or detect it (auto).",
    ),
    option(
        "Reading",
        "--presorted",
        is_flag=True,
        help="The same as --order sorted: trusted, but verified while streaming.",
    ),
    threads_option,
    where_option,
    option(
        "Reading",
        "--memory",
        metavar="SIZE",
        help="Memory that the run may use, such as 4GB; by default a share of the free memory. "
        "Scattered rows that do not fit are sorted on disk (needs DuckDB). A run needs 0.5 to 1 GB "
        "in any case. No number depends on it.",
    ),
    option(
        "Reading",
        "--spill-dir",
        shell_complete=complete_files,
        metavar="FOLDER",
        help="Folder for rows that do not fit; by default the folder of temporary files.",
    ),
    limit_option,
    input_options,
)

_TESTS = (
    "clustered_t",
    "clustered_z",
    "paired_t",
    "wilcoxon",
    "sign",
    "randomisation",
    "bootstrap",
)

comparison_options = combine(
    option(
        "Comparison",
        "--test",
        type=choice(*_TESTS),
        default="clustered_t",
        help="clustered_t, clustered_z: the difference over its standard error, with groups as "
        "clusters. paired_t, wilcoxon, sign: one difference for each group. randomisation: models "
        "swapped at random in each group. bootstrap: groups resampled. All but the first two need "
        "measures of groups: GAUC, not AUC.",
    ),
    option(
        "Comparison",
        "--correction",
        type=choice("holm", "bh", "none"),
        default="holm",
        help="Correct p-values for the number of tests, over all measures and candidates: Holm, or "
        "Benjamini and Hochberg.",
    ),
    option(
        "Comparison",
        "--replicates",
        type=int,
        default=10_000,
        metavar="N",
        help="Replicates of randomisation and bootstrap.",
    ),
    option(
        "Comparison",
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="Seed of randomisation and bootstrap; the same seed gives the same numbers.",
    ),
    option(
        "Comparison",
        "--movers",
        type=click.IntRange(0),
        metavar="N",
        help="List the N groups that raised the first measure of groups most, and the N that "
        "lowered it most; by default 5, and 0 in Markdown, LaTeX and HTML. With 0, values of "
        "groups are kept only if the test needs them. Memory is then bounded, unless AUC keeps "
        "the score of every row.",
    ),
    option(
        "Comparison",
        "--all-slices",
        is_flag=True,
        help="Name every slice that is significantly better or worse, not the three of the largest "
        "product of rows and difference; print every reason of --fail-if, not 20.",
    ),
)


def explicit_options(ctx: click.Context) -> dict[str, str]:
    """Return the options that the user has set: text of the option by name."""
    default = click.core.ParameterSource.DEFAULT
    return {
        param.name: param.opts[-1]
        for param in ctx.command.params
        if param.name is not None and ctx.get_parameter_source(param.name) not in (None, default)
    }


def check_order(options: Mapping[str, Any]) -> None:
    """Refuse ``--presorted`` together with another order."""
    if options["presorted"] and options["order"] not in ("auto", "sorted"):
        raise ArgumentError(
            f"--presorted contradicts --order {options['order']}: leave one of them out."
        )


def compute(
    function: Callable[..., Any], sources: Sequence[str], quiet: bool, **options: Any
) -> Any:
    """Call a function of the package on sources, with a progress bar.

    No rows are an error.
    """
    from fastrank_eval.apps.cli.progress_bar import progress_bar

    with progress_bar(quiet) as progress:
        result = function(list(sources), progress=progress, **options)
    require_rows(result, options["where"])
    return result
