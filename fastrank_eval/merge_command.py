"""The command ``fastrank-eval merge``: a thin shell around `load_state` and `State.merge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fastrank_eval.comparison_options import comparison_options, comparison_text, given_options
from fastrank_eval.errors import ArgumentError
from fastrank_eval.gate_option import fail_if_option, leave_if_failed
from fastrank_eval.options import option
from fastrank_eval.report_files import ReportFiles, report_options, report_text, state_file_option
from fastrank_eval.shell import SectionedCommand
from fastrank_eval.stops import raise_if_stopped, signals_held

if TYPE_CHECKING:
    from fastrank_eval.comparison.comparison import Comparison

__all__ = ["merge"]

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
    from fastrank_eval.bar import progress_bar

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
    with signals_held():
        from fastrank_eval.gates import gate
        from fastrank_eval.progress import report, reporting_to
        from fastrank_eval.result import Result
        from fastrank_eval.saved_states import load_state

    gates = [gate(text) for text in fail_if]
    loaded = []
    with progress_bar(quiet) as progress, reporting_to(progress):
        for path in states:
            one = load_state(path)
            loaded.append(one.without_groups() if drop_groups else one)
            for each in gates:
                each.require(one.measures, one.scores, one.asked)
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
