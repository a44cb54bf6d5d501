"""Define the command line and its main commands."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import click

from fastrank_eval._lib import __version__
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.cli.options import (
    complete_files,
    complete_measures,
    compute,
    convention_options,
    csv_safe_option,
    exit_if_failed,
    fail_if_option,
    format_option,
    labels_and_columns,
    measure_options,
    of,
    option,
    options_of,
    read_gates,
    reading_options,
    slice_options,
    sources_argument,
)
from fastrank_eval.apps.cli.output import (
    ReportFiles,
    report_options,
    several_text,
    state_file_option,
)
from fastrank_eval.apps.cli.shell import (
    SectionedCommand,
    Shell,
    check_standard_output,
    emit,
    prepare_process,
    render_text,
    require_rows,
)
from fastrank_eval.apps.cli.standard_error import note


@click.command(
    "spark-submit-example",
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval spark-submit-example > job.py
  spark-submit job.py --parquet impressions/ --group user_id --score score_a""",
)
def spark_submit_example() -> None:
    """Print a complete job for spark-submit.

    Its first lines show how to ship the environment to the workers; docs/how-to/distributed.md
    shows how to build it.
    """
    from importlib.resources import files

    emit(files("fastrank_eval.integrations.spark").joinpath("example_job.py").read_text("utf-8"))


#: Files of other commands, imported when these run: options of all take 10 ms.
_FILES = {
    "classes": "curves",
    "compare": "compare",
    "curve": "curves",
    "demo": "demo",
    "merge": "compare",
    "nightly": "nightly",
    "plot": "curves",
    "serve": "nightly",
    "threshold": "curves",
    "warmup": "warmup",
}


_TASKS = {
    "Start": ("demo",),
    "Evaluate": ("evaluate", "compare", "threshold", "classes"),
    "Understand": ("measures", "explain", "curve", "plot"),
    "Every night": ("nightly", "serve"),
    "With other tools": ("trec", "spark-submit-example"),
    "Maintain": ("merge", "warmup"),
}


@click.group(
    cls=Shell,
    files=_FILES,
    tasks=_TASKS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Example:
  fastrank-eval evaluate log.parquet -g user_id -l click -s score_a

\b
Completion in bash (zsh and fish: docs/reference/command-line.md):
  eval "$(_FASTRANK_EVAL_COMPLETE=bash_source fastrank-eval)\"""",
)
@click.version_option(__version__)
def cli() -> None:
    """Evaluate click prediction, search and recommendation, exactly and fast."""


@cli.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval evaluate impressions.parquet -g user_id -l click -s score_a
  fastrank-eval evaluate 'logs/day=*' -g user_id -l click -s score_a,score_b \\
      -m "GAUC(weight='positives'),nDCG@10" --format json --output report.json
  fastrank-eval evaluate judged.csv -g query -l grade -s bm25,ours \\
      -m "nDCG@10,ERR@20,AP(rel=2)" -o report.tex
  fastrank-eval evaluate logs -g user_id -l click -s score_a \\
      --where "day = '2026-11-19' and slot = 'side'"
  fastrank-eval evaluate logs -g user_id -l click -s score_a \\
      --by slot,country --by @rows:1,5,20
  fastrank-eval evaluate logs -g user_id -l click,cart,order -s score_a
  producer | fastrank-eval evaluate - -g session -l click -s score_a \\
      --order sorted
  fastrank-eval evaluate logs -g user_id -l click -s score_a \\
      --fail-if "GAUC ci_low < 0.6\"""",
)
@sources_argument
@labels_and_columns
@measure_options
@slice_options
@convention_options
@of("confidence")
@reading_options
@report_options
@state_file_option
@option(
    "Output",
    "--keep-groups",
    is_flag=True,
    help="Keep keys and values of every group in --save-state too. 'merge' can then report them, "
    "and refuses a group that has rows in two files.",
)
@option(
    "Output",
    "--keep-clusters",
    is_flag=True,
    help="Keep sums by a hash of the cluster (--cluster, by default the group) in --save-state "
    "too: 1,024 buckets, no keys. 'merge' then gives errors for users who return on other nights.",
)
@of("baseline")
@fail_if_option
def evaluate(
    sources: tuple[str, ...],
    fail_if: tuple[str, ...],
    keep_groups: bool,
    keep_clusters: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Evaluate ranked or scored rows, group by group.

    SOURCES are Parquet, Arrow IPC or CSV files, folders or quoted globs, read in the order given;
    "-" reads an Arrow IPC stream from standard input. One row is one shown or judged item.
    """
    if (keep_groups or keep_clusters) and options["state_file"] is None:
        option = "--keep-groups" if keep_groups else "--keep-clusters"
        raise ArgumentError(f"{option} needs a saved state: add --save-state FILE.")
    if options["state_file"] is not None and not isinstance(options["label"], str):
        raise ArgumentError(
            f"--save-state: must be of one label, got {', '.join(options['label'])}; name one by "
            "--label, or leave it out."
        )
    files = ReportFiles(sources, options)

    from fastrank_eval.measures.parser import requested_measures
    from fastrank_eval.results.evaluate import evaluate as run

    gates = read_gates(fail_if, options)
    counts_groups = any(gate.counts_groups for gate in gates) and not any(
        measure.needs_groups for measure in requested_measures(options["measures"])
    )
    keep = ["values"] * (files.per_group is not None or counts_groups)
    keep += ["state"] * (files.state is not None) + ["groups"] * keep_groups
    keep += ["clusters"] * keep_clusters
    result = compute(run, sources, quiet, keep=keep, **options)
    files.write(result, quiet, None if files.state is None else result.state)
    exit_if_failed(result, gates)


@cli.command(
    cls=SectionedCommand,
    epilog="""\b
Example:
  fastrank-eval explain impressions.parquet --profile catboost -g user_id \\
      -l click -s score_a""",
)
@sources_argument
@options_of("explain", "Columns", label={"required": True}, score={"required": True})
@measure_options
@convention_options
@reading_options
@format_option("table", "json", default="table", help="Format of the report.")
def explain(sources: tuple[str, ...], report_format: str, **options: Any) -> None:
    """Explain how the numbers of another tool differ.

    SOURCES are read once for each convention that --profile changes. Other convention options
    apply to both sides.
    """
    if options["profile"] is None:
        raise ArgumentError("explain needs the tool to compare with: --profile catboost.")
    check_standard_output()
    from fastrank_eval.analysis.explain import explain as run

    explanation = run(sources[0] if len(sources) == 1 else list(sources), **options)
    require_rows(explanation, options["where"])
    emit(explanation.to_json() + "\n" if report_format == "json" else render_text(explanation))


@cli.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval trec qrels.txt bm25.run
  fastrank-eval trec -q -m all_trec --as 9 qrels.txt bm25.run.gz
  fastrank-eval trec -c -m nDCG@10,AP,recip_rank -f latex qrels.txt runs/*.run
  fastrank-eval trec --query topic --doc document qrels.csv run.parquet""",
)
@click.argument("qrels", shell_complete=complete_files)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=complete_files)
@option("Queries", "-q", "single", is_flag=True, help="Print the lines of each query too.")
@option("Queries", "-n", "only_single", is_flag=True, help="Print only the lines of each query.")
@option(
    "Queries",
    "-c",
    "complete",
    is_flag=True,
    help="Count 0 for a judged query that the run lacks. Without -c, --as 10 refuses such a run, "
    "and --as 9 leaves the query out.",
)
@option(
    "Documents",
    "-l",
    "level",
    type=float,
    default=1,
    metavar="N",
    help="The lowest grade that is relevant.",
)
@option(
    "Documents",
    "--drop-self",
    is_flag=True,
    help="Leave out a document that has the id of its query.",
)
@option(
    "Documents",
    "--skip-first",
    is_flag=True,
    help="Then leave out the document of the highest score of each query.",
)
@option("Documents", "-M", "most", type=int, help="Count only N documents per query.")
@option(
    "Documents",
    "-J",
    "judged_only",
    is_flag=True,
    help="Leave out documents without a judgement, or with a negative grade.",
)
@option(
    "Documents",
    "--duplicates",
    type=click.Choice(["error", "first", "last", "max"]),
    default="error",
    help="If a query has a document twice, in a run or in QRELS: which line counts.",
)
@option("Columns", "--query", metavar="COLUMN", help="Column of query ids in tables.")
@option("Columns", "--doc", metavar="COLUMN", help="Column of document ids in tables.")
@option("Columns", "--grade", metavar="COLUMN", help="Column of grades in a table of QRELS.")
@option("Columns", "--score", metavar="COLUMN", help="Column of scores in tables of runs.")
@option(
    "Measures",
    "-m",
    "measures",
    multiple=True,
    default=["official"],
    shell_complete=complete_measures,
    metavar="NAME,...",
    help="Measures of trec_eval (map, P.5,10, ndcg_cut_10), official, set or all_trec, then those "
    "of this package and ir_measures (nDCG@10, AP(rel=2)) with the conventions of trec_eval. A "
    "name of both, such as P or recall, means what it does in trec_eval. Repeat for several.",
)
@option(
    "Measures",
    "--as",
    "version",
    type=click.Choice(["9", "10"]),
    default="10",
    help="The version of trec_eval.",
)
@format_option(
    "text",
    "table",
    "markdown",
    "latex",
    "html",
    "csv",
    "json",
    default="text",
    help="Format: text as trec_eval prints it; a column for each run (table, markdown, latex, "
    "html); csv and json with all digits.",
)
@csv_safe_option
def trec(
    qrels: str,
    runs: tuple[str, ...],
    single: bool,
    only_single: bool,
    version: str,
    report_format: str,
    csv_safe: bool,
    duplicates: str,
    grade: str | None,
    **options: Any,
) -> None:
    """Print the output of trec_eval.

    QRELS are relevance judgements, and each RUN is the ranking of a system: TREC text; JSON, or
    lines of it, of BEIR, ranx, MTEB or sentence-transformers; lines of MS MARCO (qid, docno, rank);
    all compressed or not; or tables (Parquet, CSV) with columns query, doc and grade, score or
    rank, or those of PyTerrier, ir_measures, ranx, BEIR, ragas, LlamaIndex or Spark. Lines of
    several runs end with the name of the run: the tag in its file. If two runs have the same tag,
    it is the name of the file.

    To test the difference of two runs, call in Python fastrank_eval.trec.evaluate(qrels,
    {"bm25": ..., "ours": ...}).compare(baseline="bm25").
    """
    check_standard_output()
    from fastrank_eval.integrations.trec.lines import QRELS
    from fastrank_eval.integrations.trec.report import (
        side_by_side,
        trec_report,
        with_distinct_names,
    )
    from fastrank_eval.integrations.trec.tables import read_pairs
    from fastrank_eval.results import report as formats
    from fastrank_eval.results.report import printable

    names = {"query": options["query"], "doc": options["doc"], "grade": grade}
    judgements = read_pairs(qrels, QRELS, duplicates, names)
    layout = {"single": single or only_single, "summary": not only_single}
    reports = []
    for path in runs:
        try:
            report = trec_report(
                judgements, path, version=int(version), duplicates=duplicates, **options
            )
        except ArgumentError as error:
            name, _, rest = str(error).partition(": ")
            if name != "run" or len(runs) == 1:
                raise
            raise ArgumentError(f"{path}: {rest}") from None
        reports.append(report)
    for text in [text for report in reports for text in report.notes]:
        note(f"warning: {printable(text)}")
    reports = with_distinct_names(reports, runs)
    if report_format == "text":
        for report in reports:
            emit(report.to_text(**layout, name_run=len(runs) > 1))
    elif report_format in ("json", "csv"):
        emit(several_text(reports, report_format, csv_safe, **layout))
    else:
        conventions = [f"profile=trec_eval_{version}", f"level={options['level']:g}"]
        conventions += [f"most={options['most']}"] * (options["most"] is not None)
        flags = ("complete", "drop_self", "skip_first", "judged_only")
        conventions += [name for name in flags if options[name]]
        built = side_by_side(reports, conventions, **layout)
        is_table = report_format == "table"
        emit(render_text(built) if is_table else str(getattr(formats, report_format)(built)))


@cli.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval measures
  fastrank-eval measures nDCG
  fastrank-eval measures calibration""",
)
@click.argument("words", nargs=-1, metavar="[NAME|WORD]...", shell_complete=complete_measures)
@format_option("table", "json", "markdown", default="table", help="Format of the list.")
def measures(words: tuple[str, ...], report_format: str) -> None:
    """List measures, or show one with its options.

    Without NAME or WORD, print one line for each measure. With them, print formula, range, options
    and reference of the measures of that name, or with that word in their description.
    """
    from fastrank_eval.results import lookup

    kinds = lookup.find(words)
    if report_format == "json":
        emit(lookup.to_json(kinds))
    elif report_format == "markdown":
        emit(lookup.to_markdown(kinds))
    else:
        width = None if words or sys.stdout.isatty() else 200
        shown = lookup.details(kinds) if words else lookup.overview(sys.stdout.isatty())
        emit(render_text(shown, width))


cli.add_command(spark_submit_example)


def main() -> NoReturn:
    """Run the command line, after `__main__` has set signal handlers."""
    prepare_process()
    cli(prog_name="fastrank-eval")
    raise SystemExit(0)
