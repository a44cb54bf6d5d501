"""The command ``fastrank-eval compare``: a thin shell around `compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fastrank_eval.errors import ArgumentError
from fastrank_eval.gate_option import fail_if_compared_option, leave_if_failed, read_gates
from fastrank_eval.options import (
    choice,
    column_options,
    confidence_option,
    convention_options,
    measure_options,
    option,
    reading_options,
    slice_options,
)
from fastrank_eval.report_files import ReportFiles, report_options
from fastrank_eval.shell import SectionedCommand, rendered
from fastrank_eval.stops import raise_if_stopped, signals_held

if TYPE_CHECKING:
    from fastrank_eval.comparison.comparison import Comparison

__all__ = ["compare"]

_TESTS = (
    "clustered_t",
    "clustered_z",
    "paired_t",
    "wilcoxon",
    "sign",
    "randomisation",
    "bootstrap",
)


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval compare impressions.parquet -g user_id -l click -s base,cand_a,cand_b -b base
  fastrank-eval compare judged.csv -g query -l grade -s bm25 -s ours --baseline bm25 \\
      -m "nDCG@10,AP,ERR@20" --test randomisation --replicates 100000
  fastrank-eval compare logs -g user_id -l click -s old,new -b old -m "GAUC,RR" \\
      --correction bh --movers 20 --output report.json
  fastrank-eval compare logs -g user_id -l click -s old,new -b old \
      --fail-if "GAUC delta_ci_low < -0.001"

Exit codes: 0 done, whatever is found; 2 bad input or output, 3 a gate (--fail-if) failed,
130 interrupted, 143 terminated, 129 hung up.""",
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCES...")
@column_options
@option(
    "Comparison",
    "-b",
    "--baseline",
    required=True,
    metavar="COLUMN",
    help="The score that every other is compared with.",
)
@option(
    "Comparison",
    "--test",
    type=choice(*_TESTS),
    default="clustered_t",
    show_default=True,
    help="Of the difference by its standard error, groups being clusters (t or z); of one "
    "difference for each group (paired_t, wilcoxon, sign); of the measure itself with models "
    "swapped in groups at random (randomisation) or over groups drawn anew (bootstrap). All but "
    "the first two need measures of groups: GAUC, not AUC.",
)
@option(
    "Comparison",
    "--correction",
    type=choice("holm", "bh", "none"),
    default="holm",
    show_default=True,
    help="Of p-values for their number, over all measures and candidates: Holm, or Benjamini and "
    "Hochberg.",
)
@option(
    "Comparison",
    "--replicates",
    type=int,
    default=10_000,
    show_default=True,
    metavar="N",
    help="Of randomisation and bootstrap.",
)
@option(
    "Comparison",
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="Of randomisation and bootstrap; the same seed gives the same numbers.",
)
@option(
    "Comparison",
    "--movers",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    metavar="N",
    help="List the N groups that raised the first measure of groups most, and the N that lowered "
    "it most. With 0, and a test that does not need them, values of groups are not kept: without "
    "AUC, of which every row is, memory is bounded.",
)
@measure_options
@slice_options
@convention_options
@confidence_option
@reading_options
@report_options
@fail_if_compared_option
def compare(
    sources: tuple[str, ...],
    group: list[str],
    score: list[str],
    test: str,
    movers: int,
    measures: tuple[str, ...],
    order: str,
    presorted: bool,
    input_format: str | None,
    report_format: str | None,
    output: str | None,
    per_group_file: str | None,
    overwrite: bool,
    fail_if: tuple[str, ...],
    quiet: bool,
    **options: Any,
) -> None:
    """Tell which models are better than a baseline, and how surely.

    SOURCES are read once, as by evaluate. Differences are paired: what both models find hard or
    easy cancels. Without --measures a test that needs measures of groups leaves out AUC.
    """
    if presorted and order not in ("auto", "sorted"):
        raise ArgumentError(f"--presorted contradicts --order {order}: leave one of them out.")
    files = ReportFiles(report_format, output, per_group_file, overwrite, sources)

    with signals_held():
        from fastrank_eval.bar import progress_bar
        from fastrank_eval.comparison.comparing import compare as run
        from fastrank_eval.comparison.model_tests import NEED_GROUPS
        from fastrank_eval.measures import parse_measures

    asked = ",".join(measures)
    given = click.get_current_context().get_parameter_source("measures")
    if test in NEED_GROUPS and given is click.core.ParameterSource.DEFAULT:
        asked = ",".join(str(m) for m in parse_measures(asked) if not m.pooled)
    gates = read_gates(
        fail_if, asked, score, options["profile"], options["sampling_rate"], compared=True
    )
    with progress_bar(quiet) as progress:
        found = run(
            sources[0] if len(sources) == 1 else list(sources),
            group=group[0] if len(group) == 1 else group,
            score=score,
            measures=asked,
            test=test,
            order=order,
            presorted=presorted,
            per_group=per_group_file is not None or movers > 0 or test in NEED_GROUPS,
            format=input_format,
            progress=progress,
            **options,
        )
    raise_if_stopped()
    files.write(
        lambda width: _report(found, files.form, movers, width), lambda: found.per_group, quiet
    )
    if gates:
        leave_if_failed(found.check(*gates))


def _report(found: Comparison, form: str, movers: int, width: int | None) -> str:
    if form == "json":
        return found.to_json(movers=movers) + "\n"
    if form == "csv":
        return found.to_csv()
    if form == "markdown":
        return found.to_markdown(movers)
    return rendered(found.with_movers(movers), width)
