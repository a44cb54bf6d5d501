"""Options that commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval.apps.cli.shell import SectionedOption, note, rendered

if TYPE_CHECKING:
    from fastrank_eval.analysis.comparison import Comparison
    from fastrank_eval.results.gates import Gate, Verdict

__all__ = [
    "DEFAULT_MEASURES",
    "GATE_FAILED",
    "choice",
    "column_options",
    "column_options_of_rows",
    "comparison_options",
    "comparison_text",
    "confidence_option",
    "convention_options",
    "csv_safe_option",
    "fail_if_compared_option",
    "fail_if_option",
    "given_options",
    "input_options",
    "label_option",
    "leave_if_failed",
    "limit_option",
    "measure_options",
    "option",
    "read_gates",
    "reading_options",
    "score_option",
    "slice_options",
    "threads_option",
    "together",
    "weight_option",
    "where_option",
]


DEFAULT_MEASURES = "GAUC,AUC,nDCG@10,AP,RR,P@10,R@10"
_PROFILE = "; by default as --profile says, else "


def option(section: str, *names: str, **keywords: Any) -> Callable[[Any], Any]:
    """An option that ``--help`` lists under a heading."""
    return click.option(*names, cls=SectionedOption, section=section, **keywords)


def choice(*choices: str) -> click.Choice[str]:
    """One of some words."""
    return click.Choice(choices)


def _names(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> list[str]:
    r"""Split repeated and comma-separated column names; ``\,`` stands for a comma in a name."""
    parts = [part for text in given for part in re.split(r"(?<!\\),", text)]
    names = [part.replace("\\,", ",").strip() for part in parts]
    if not all(names):
        raise click.BadParameter("a column name is empty.")
    return names


def together(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Options in the order they are given here."""

    def apply(command: Any) -> Any:
        for add in reversed(options):
            command = add(command)
        return command

    return apply


def _group_option(required: bool) -> Callable[[Any], Any]:
    return option(
        "Columns",
        "-g",
        "--group",
        multiple=True,
        required=required,
        callback=_names,
        metavar="COLUMN",
        help="Group key: query, user or session; text in CSV and TSV files (007 is not 7). Repeat "
        "it, or separate by commas, for several.",
    )


def _label_option(required: bool) -> Callable[[Any], Any]:
    return option(
        "Columns",
        "-l",
        "--label",
        required=required,
        metavar="COLUMN",
        help="Click (bool, 0/1), grade (integer) or gain (float).",
    )


def _score_option(required: bool) -> Callable[[Any], Any]:
    return option(
        "Columns",
        "-s",
        "--score",
        multiple=True,
        required=required,
        callback=_names,
        metavar="COLUMN",
        help="Score of a model, higher is better. Repeat it, or separate by commas, for several.",
    )


label_option = _label_option(True)
score_option = _score_option(True)
weight_option = option(
    "Columns",
    "-w",
    "--weight",
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
    help="Evaluate only the rows for which this holds: comparisons, in (...), between, is "
    "null, and, or, not; text in single quotes, names with odd signs in double quotes. Files "
    "and row groups that it rules out are not read.",
)
limit_option = option(
    "Reading",
    "--limit",
    type=int,
    metavar="N",
    help="Evaluate the first N rows only, of those that --where selects.",
)
input_options = together(
    option(
        "Reading",
        "--input-format",
        type=choice("parquet", "arrow", "csv", "tsv"),
        help="Format of SOURCES; by default their suffix or first bytes tell.",
    ),
    option(
        "Reading",
        "--allow-unfinished",
        is_flag=True,
        help="Accept Arrow streams without their end-of-stream marker, as that of a producer that "
        "was killed: rows may be missing. By default they are an error.",
    ),
)
confidence_option = option(
    "Output",
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    metavar="SHARE",
    help="Confidence of the intervals about the values, groups being independent clusters.",
)

csv_safe_option = option(
    "Output",
    "--csv-safe",
    is_flag=True,
    help="In CSV, put ' before text that begins with = + - @, a tab or a carriage return, which "
    "a spreadsheet would take for a formula.",
)


def _column_options(required: bool) -> Callable[[Any], Any]:
    return together(
        _group_option(required),
        _label_option(required),
        _score_option(required),
        weight_option,
        option("Columns", "--item", metavar="COLUMN", help="Item or document id, for --ties item."),
        option(
            "Columns",
            "--subtopics",
            metavar="COLUMN",
            help="What each row covers, for measures of diversity: a list of numbers from 0 to 63.",
        ),
    )


column_options = _column_options(True)
#: Where SOURCES may be saved states, which know their columns.
column_options_of_rows = _column_options(False)
measure_options = together(
    option(
        "Measures",
        "-m",
        "--measures",
        multiple=True,
        default=[DEFAULT_MEASURES],
        show_default=True,
        metavar="LIST",
        help="Measures, separated by commas; 'fastrank-eval measures' lists them.",
    ),
)
slice_options = together(
    option(
        "Slices",
        "--by",
        multiple=True,
        metavar="SLICES",
        help="Evaluate each slice of the rows too: slot for each of its values, slot,country for "
        "each combination, age:18,25,35 between edges, age:quantile5 in bins of equally many rows, "
        "age:width10, ts:hour, day, week, month, hour_of_day or day_of_week, @rows:1,5,20,100 and "
        "@positives:0,1,5 by how many rows a group has. Repeat it for several.",
    ),
    option(
        "Slices",
        "--min-groups",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="Leave out slices of fewer groups, and say how many they were.",
    ),
)
convention_options = together(
    option(
        "Conventions",
        "--profile",
        metavar="TOOL",
        help="The conventions of another tool: trec_eval_9, trec_eval_10, ir_measures, ranx, "
        "sklearn, gdeval, ndeval, catboost, xgboost, lightgbm, torchmetrics, din, recbole. What is "
        "given besides holds all the same.",
    ),
    option(
        "Conventions",
        "--ties",
        type=choice("expected", "input", "item", "best", "worst"),
        help="Rank of tied rows: mean over all their orders, order of the rows, item id "
        "descending, relevant first, relevant last" + _PROFILE + "expected.",
    ),
    option(
        "Conventions",
        "--undefined",
        metavar="POLICY",
        help="What a group without a value counts as: skip, zero, one or error; skip,nDCG=one "
        "names single measures" + _PROFILE + "skip.",
    ),
    option(
        "Conventions",
        "--groups",
        type=choice("all", "with_relevant"),
        help="Groups to evaluate: all, or those with a row of grade 1 or more" + _PROFILE + "all.",
    ),
    option(
        "Conventions",
        "--unretrieved",
        type=choice("error", "allow"),
        help="A null score: a fault, or a relevant row that was not retrieved"
        + _PROFILE
        + "error.",
    ),
    option(
        "Conventions",
        "--unjudged",
        type=choice("error", "allow", "drop"),
        help="A null label: a fault, an unjudged row that takes a rank, or no row at all"
        + _PROFILE
        + "error.",
    ),
    option(
        "Conventions",
        "--weight-rows",
        type=choice("refuse", "ignore"),
        help="What rank-position measures do about --weight" + _PROFILE + "refuse.",
    ),
    option(
        "Conventions",
        "--score-type",
        type=choice("given", "float32"),
        help="Compare scores as they are, or rounded to float32" + _PROFILE + "given.",
    ),
    option(
        "Conventions",
        "--sampling-rate",
        type=float,
        metavar="RATE",
        help="Share of the negatives that the models were trained on, above 0 and at most 1: "
        "measures of probability put p right for it; by default 1.",
    ),
)
reading_options = together(
    option(
        "Reading",
        "--order",
        type=choice("auto", "sorted", "grouped", "scattered"),
        default="auto",
        show_default=True,
        help="Order of the rows: by group and score descending, by group, any, or find out.",
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
        help="Memory the run may take, such as 4GB; by default a share of what is free. Scattered "
        "rows that do not fit are sorted on disk (needs DuckDB). Half a GB to one is needed in any "
        "case. No number depends on it.",
    ),
    option(
        "Reading",
        "--spill-dir",
        metavar="FOLDER",
        help="Folder for rows that do not fit; by default that of temporary files.",
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

comparison_options = together(
    option(
        "Comparison",
        "--test",
        type=choice(*_TESTS),
        default="clustered_t",
        show_default=True,
        help="Of the difference by its standard error, groups being clusters (t or z); of one "
        "difference for each group (paired_t, wilcoxon, sign); of the measure itself with models "
        "swapped in groups at random (randomisation) or over groups drawn anew (bootstrap). All "
        "but the first two need measures of groups: GAUC, not AUC.",
    ),
    option(
        "Comparison",
        "--correction",
        type=choice("holm", "bh", "none"),
        default="holm",
        show_default=True,
        help="Of p-values for their number, over all measures and candidates: Holm, or Benjamini "
        "and Hochberg.",
    ),
    option(
        "Comparison",
        "--replicates",
        type=int,
        default=10_000,
        show_default=True,
        metavar="N",
        help="Of randomisation and bootstrap.",
    ),
    option(
        "Comparison",
        "--seed",
        type=int,
        default=0,
        show_default=True,
        metavar="N",
        help="Of randomisation and bootstrap; the same seed gives the same numbers.",
    ),
    option(
        "Comparison",
        "--movers",
        type=click.IntRange(0),
        default=5,
        show_default=True,
        metavar="N",
        help="List the N groups that raised the first measure of groups most, and the N that "
        "lowered it most. With 0, and a test that does not need them, values of groups are not "
        "kept: without AUC, of which every row is, memory is bounded.",
    ),
)


def given_options(ctx: click.Context) -> dict[str, str]:
    """Options that were not left to their default: how each is written, by name."""
    default = click.core.ParameterSource.DEFAULT
    return {
        param.name: param.opts[-1]
        for param in ctx.command.params
        if param.name is not None and ctx.get_parameter_source(param.name) not in (None, default)
    }


def comparison_text(
    found: Comparison, form: str, movers: int, width: int | None, csv_safe: bool = False
) -> str:
    """A comparison in a form; tables are as wide as the terminal where no width is given."""
    if form == "json":
        return found.to_json(movers=movers) + "\n"
    if form == "csv":
        return found.to_csv(safe=csv_safe)
    if form == "markdown":
        return found.to_markdown(movers)
    return rendered(found.with_movers(movers), width)


#: The exit code of a result that does not pass.
GATE_FAILED = 3
_MOST_REASONS = 20

fail_if_option = option(
    "Output",
    "--fail-if",
    "fail_if",
    multiple=True,
    metavar="CONDITION",
    help="Exit with code 3, the reason on standard error, if this holds or cannot be told: "
    "'GAUC < 0.6', 'score_a:GAUC[slot=feed] ci_low < 0.55 or AUC dropped_share > 0.1'; for any "
    "model if none is named, for any slice with [*]. The report is written all the same. Repeat it "
    "for several.",
)
fail_if_compared_option = option(
    "Output",
    "--fail-if",
    "fail_if",
    multiple=True,
    metavar="CONDITION",
    help="Exit with code 3, the reason on standard error, if this holds or cannot be told: "
    "'GAUC delta_ci_low < -0.001', 'GAUC[*] delta < 0 and GAUC[*] p_adjusted < 0.01', "
    "'new:AUC < 0.7'; fields of differences (delta, delta_se, delta_ci_low, delta_ci_high, "
    "relative, p_value, p_adjusted, wins, losses, ties, mdd) for any candidate if none is named, "
    "others for any model, for any slice with [*]. The report is written all the same. Repeat it "
    "for several.",
)


def read_gates(
    texts: Sequence[str],
    measures: str,
    scores: Sequence[str],
    profile: str | None,
    sampling_rate: float | None,
    compared: bool = False,
) -> list[Gate]:
    """Read gates, and refuse those on what is not going to be computed.

    Parameters
    ----------
    texts : sequence of str
    measures : str
        Those asked for.
    scores : sequence of str
        Score columns.
    profile : str or None
        The tool whose conventions hold.
    sampling_rate : float or None
    compared : bool
        Whether measures are taken as comparisons take them.

    Returns
    -------
    list of Gate

    Raises
    ------
    FastRankEvalError
        If a gate cannot be read, or names a measure or a score column that is not asked for.
    """
    if not texts:
        return []
    from fastrank_eval.engine.conventions import measures_in_force, profile_of, requested_names
    from fastrank_eval.measures.likelihood import sampling_rate_of
    from fastrank_eval.measures.parser import requested_measures
    from fastrank_eval.results.gates import gate

    gates = [gate(text) for text in texts]
    requested = requested_measures(measures)
    chosen = None if profile is None else profile_of(profile)
    taken = requested
    if compared:
        from fastrank_eval.analysis.compare import with_clustered_errors

        taken = with_clustered_errors(requested)
    measured = measures_in_force(taken, chosen, sampling_rate_of(sampling_rate))
    for each in gates:
        each.require([str(m) for m in measured], scores, requested_names(requested, measured))
    return gates


def leave_if_failed(verdict: Verdict) -> None:
    """End with exit code 3 and the reasons on standard error, unless all gates are passed."""
    if verdict.passed:
        return
    from fastrank_eval.results.format import printable

    for failure in verdict.failures[:_MOST_REASONS]:
        note(f"gate failed: {printable(str(failure))}")
    left = len(verdict.failures) - _MOST_REASONS
    if left > 0:
        note(f"gate failed: {left:,} more")
    raise click.exceptions.Exit(GATE_FAILED)
