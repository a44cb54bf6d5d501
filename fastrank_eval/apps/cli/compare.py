"""The commands compare and merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.signals import defer_signals, raise_if_stopped
from fastrank_eval.apps.cli.options import (
    column_options_of_rows,
    comparison_options,
    comparison_text,
    confidence_option,
    convention_options,
    fail_if_compared_option,
    fail_if_option,
    given_options,
    leave_if_failed,
    measure_options,
    option,
    read_gates,
    reading_options,
    slice_options,
)
from fastrank_eval.apps.cli.output import (
    ReportFiles,
    report_options,
    report_text,
    state_file_option,
)
from fastrank_eval.apps.cli.shell import SectionedCommand

if TYPE_CHECKING:
    from fastrank_eval.analysis.comparison import Comparison
    from fastrank_eval.results.gates import Gate

__all__ = ["compare", "merge"]


#: What rows need, and saved states know.
_OF_ROWS = ("group", "label", "score", "baseline")
#: How states are compared; what else there is says how rows are read.
_OF_STATES = ("baseline", "test", "correction", "replicates", "seed", "confidence", "min_groups")
_OF_BOTH = (
    *_OF_STATES,
    "sources",
    "movers",
    "threads",
    "report_format",
    "output",
    "per_group_file",
    "overwrite",
    "csv_safe",
    "fail_if",
    "quiet",
)


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval compare impressions.parquet -g user_id -l click -s score_a,score_b -b score_a
  fastrank-eval compare judged.csv -g query -l grade -s bm25 -s ours --baseline bm25 \\
      -m "nDCG@10,AP,ERR@20" --test randomisation --replicates 100000
  fastrank-eval compare logs -g user_id -l click -s score_a,score_b -b score_a -m "GAUC,RR" \\
      --correction bh --movers 20 --output report.json
  fastrank-eval compare logs -g user_id -l click -s score_a,score_b -b score_a \\
      --fail-if "GAUC delta_ci_low < -0.001"
  fastrank-eval compare base.state candidate.state --test wilcoxon

Exit codes: 0 done, whatever is found; 2 bad input or output, 3 a gate (--fail-if) failed,
130 interrupted, 143 terminated, 129 hung up.""",
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCES...")
@column_options_of_rows
@option(
    "Comparison",
    "-b",
    "--baseline",
    metavar="COLUMN",
    help="The score that every other is compared with; of a saved state, by default, that of its "
    "evaluation, or the only one.",
)
@comparison_options
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
    csv_safe: bool,
    overwrite: bool,
    fail_if: tuple[str, ...],
    quiet: bool,
    **options: Any,
) -> None:
    """Tell which models are better than a baseline, and how surely.

    SOURCES are read once, as by evaluate. Differences are paired: what both models find hard or
    easy cancels. Without --measures a test that needs measures of groups leaves out AUC.

    Rows need --group, --label, --score and --baseline. Saved states need none of them: SOURCES may
    be one that 'evaluate --baseline --save-state' has written, or two over the same groups,
    written with --keep-groups, the models of the second being compared with that of the first.
    """
    with defer_signals():
        from fastrank_eval.engine.state_file import is_state

    given = given_options(click.get_current_context())
    saved = [path for path in sources if is_state(path)]
    if saved or any(name not in given for name in _OF_ROWS):
        _check_existence(sources, input_format)
    if saved:
        _check_states(sources, saved, given)
        files = ReportFiles(
            report_format, output, per_group_file, overwrite, sources, csv_safe=csv_safe
        )
        known = {"test": test, "threads": options["threads"]}
        known |= {name: options[name] for name in _OF_STATES if name in given and name != "test"}
        found, gates = _compared_states(sources, fail_if, quiet, known)
        _report(found, gates, files, movers, quiet)
        return
    _check_rows(given)
    if presorted and order not in ("auto", "sorted"):
        raise ArgumentError(f"--presorted contradicts --order {order}: leave one of them out.")
    files = ReportFiles(
        report_format,
        output,
        per_group_file,
        overwrite,
        sources,
        input_format=input_format,
        csv_safe=csv_safe,
    )

    with defer_signals():
        from fastrank_eval.analysis.compare import compare as run
        from fastrank_eval.analysis.compare_tests import NEED_GROUPS
        from fastrank_eval.apps.cli.progress_bar import progress_bar
        from fastrank_eval.measures import parse_measures

    requested = ",".join(measures)
    if test in NEED_GROUPS and "measures" not in given:
        requested = ",".join(str(m) for m in parse_measures(requested) if not m.pooled)
    gates = read_gates(
        fail_if, requested, score, options["profile"], options["sampling_rate"], compared=True
    )
    with progress_bar(quiet) as progress:
        found = run(
            sources[0] if len(sources) == 1 else list(sources),
            group=group[0] if len(group) == 1 else group,
            score=score,
            measures=requested,
            test=test,
            order=order,
            presorted=presorted,
            per_group=per_group_file is not None or movers > 0 or test in NEED_GROUPS,
            format=input_format,
            progress=progress,
            **options,
        )
    raise_if_stopped()
    _report(found, gates, files, movers, quiet)


def _report(
    found: Comparison, gates: Sequence[Gate], files: ReportFiles, movers: int, quiet: bool
) -> None:
    files.write(
        lambda width: comparison_text(found, files.form, movers, width, files.csv_safe),
        lambda: found.per_group,
        quiet,
    )
    if gates:
        leave_if_failed(found.check(*gates))


def _check_existence(sources: Sequence[str], input_format: str | None) -> None:
    """Refuse a source that does not exist: neither rows nor a state."""
    from fastrank_eval.io.paths import expand

    for path in sources:
        if path != "-" and not Path(path).is_file():
            expand(path, input_format)


def _check_rows(given: Mapping[str, str]) -> None:
    missing = [f"--{name}" for name in _OF_ROWS if name not in given]
    if missing:
        raise ArgumentError(
            f"rows are compared by --group, --label, --score and --baseline: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. (Saved states, as 'evaluate "
            "--save-state' writes them, need none, but no source is one.)"
        )


def _check_states(sources: Sequence[str], saved: Sequence[str], given: Mapping[str, str]) -> None:
    rows = [path for path in sources if path not in saved]
    if rows:
        raise ArgumentError(
            f"{saved[0]!r} is a saved state, and {rows[0]!r} is not: evaluate the rows with "
            "--save-state and --keep-groups, and compare states, or compare rows."
        )
    if len(sources) > 2:
        raise ArgumentError(
            f"{len(sources)} saved states are more than two: add up those of different rows first, "
            "'fastrank-eval merge --save-state' (or --compare)."
        )
    others = [written for name, written in given.items() if name not in _OF_BOTH]
    if others:
        raise ArgumentError(
            f"{', '.join(others)} {'says' if len(others) == 1 else 'say'} how rows are read, and "
            f"{saved[0]!r} is a saved state, whose rows were read already: leave "
            f"{'it' if len(others) == 1 else 'them'} out."
        )


def _compared_states(
    sources: Sequence[str], fail_if: Sequence[str], quiet: bool, choices: Mapping[str, Any]
) -> tuple[Comparison, list[Gate]]:
    """The comparison of one saved state or two, and the gates that it is to pass."""
    with defer_signals():
        from fastrank_eval._lib.progress import report, reporting_to
        from fastrank_eval.apps.cli.progress_bar import progress_bar
        from fastrank_eval.results.gates import gate
        from fastrank_eval.results.state import load_state

    gates = [gate(text) for text in fail_if]
    states = []
    with progress_bar(quiet) as progress, reporting_to(progress):
        for path in sources:
            states.append(load_state(path))
            report("reading states", sum(state.rows for state in states), None)
            raise_if_stopped()
        found = states[0].compare(*states[1:], **choices)
    for each in gates:
        each.require(found.measures, [found.baseline, *found.scores], states[0].requested)
    raise_if_stopped()
    return found, gates


_OF_COMPARISONS = ("baseline", "test", "correction", "replicates", "seed", "movers")


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval evaluate logs/day=2026-11-19 -g user_id -l click -s score_a --save-state 19.state
  fastrank-eval evaluate logs/day=2026-11-20 -g user_id -l click -s score_a --save-state 20.state
  fastrank-eval merge 19.state 20.state
  fastrank-eval merge 19.state 20.state --compare --correction bh

Exit codes: 0 done, 2 bad input or output, 3 a gate (--fail-if) failed, 130 interrupted,
143 terminated, 129 hung up.""",
)
@click.argument("states", nargs=-1, required=True, metavar="STATES...")
@option(
    "Comparison",
    "--compare",
    "compared",
    is_flag=True,
    help="Tell which models are better than the baseline that the evaluations named (evaluate "
    "--baseline), and how surely, as 'fastrank-eval compare' does of all rows. --fail-if may then "
    "name fields of differences.",
)
@option(
    "Comparison",
    "-b",
    "--baseline",
    metavar="COLUMN",
    help="Compare with another score: by the values of groups, which the states must hold.",
)
@comparison_options
@option(
    "Conventions",
    "--allow-repeated",
    is_flag=True,
    help="Add up states of the same sums, which are taken for the same rows otherwise.",
)
@option(
    "Conventions",
    "--allow-crossing",
    is_flag=True,
    help="Add up states although they hold rows of one group; each part counts as a group.",
)
@option(
    "Conventions",
    "--drop-groups",
    is_flag=True,
    help="Leave out the keys and values of groups that states hold.",
)
@option(
    "Slices",
    "--min-groups",
    type=click.IntRange(min=1),
    metavar="N",
    help="Leave out slices of fewer groups, and say how many they were; by default as the states.",
)
@option(
    "Output",
    "--confidence",
    type=float,
    metavar="SHARE",
    help="Confidence of the intervals about the values; by default that of the states.",
)
@report_options
@state_file_option
@fail_if_option
def merge(
    states: tuple[str, ...],
    compared: bool,
    movers: int,
    allow_repeated: bool,
    allow_crossing: bool,
    drop_groups: bool,
    min_groups: int | None,
    confidence: float | None,
    report_format: str | None,
    output: str | None,
    per_group_file: str | None,
    state_file: str | None,
    csv_safe: bool,
    overwrite: bool,
    fail_if: tuple[str, ...],
    quiet: bool,
    **choices: Any,
) -> None:
    """Report on the rows of several evaluations together, as if they had been evaluated at once.

    STATES are files that 'evaluate --save-state' has written. Where no group has rows in two of
    them, every number is that of one run, to the last bit. They must rest on the same columns,
    measures, slices and conventions.
    """
    from fastrank_eval.apps.cli.progress_bar import progress_bar

    given = given_options(click.get_current_context())
    unused = [given[name] for name in _OF_COMPARISONS if name in given]
    if unused and not compared:
        raise ArgumentError(
            f"{', '.join(unused)} {'says' if len(unused) == 1 else 'say'} how models are compared: "
            "give --compare too."
        )
    files = ReportFiles(
        report_format, output, per_group_file, overwrite, states, state_file, csv_safe=csv_safe
    )
    with defer_signals():
        from fastrank_eval._lib.progress import report, reporting_to
        from fastrank_eval.results.gates import gate
        from fastrank_eval.results.result import Result
        from fastrank_eval.results.state import load_state

    gates = [gate(text) for text in fail_if]
    loaded = []
    with progress_bar(quiet) as progress, reporting_to(progress):
        for path in states:
            one = load_state(path)
            loaded.append(one.without_groups() if drop_groups else one)
            for each in gates:
                each.require(one.measures, one.scores, one.requested)
            report("reading states", sum(state.rows for state in loaded), None)
            raise_if_stopped()
        merged = loaded[0].merge(
            *loaded[1:], allow_repeated=allow_repeated, allow_crossing=allow_crossing
        )
        found: Result | Comparison
        if compared:
            found = merged.compare(confidence=confidence, min_groups=min_groups, **choices)
        else:
            found = merged.result(confidence=confidence, min_groups=min_groups)
    raise_if_stopped()
    files.write(
        lambda width: (
            report_text(found, files.form, width, csv_safe)
            if isinstance(found, Result)
            else comparison_text(found, files.form, movers, width, csv_safe)
        ),
        lambda: found.per_group,
        quiet,
        lambda: merged,
    )
    if gates:
        leave_if_failed(found.check(*gates))
