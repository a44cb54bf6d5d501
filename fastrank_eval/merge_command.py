"""The command ``fastrank-eval merge``: a thin shell around `load_state` and `State.merge`."""

from __future__ import annotations

import click

from fastrank_eval.gate_option import fail_if_option, leave_if_failed
from fastrank_eval.options import option
from fastrank_eval.report_files import ReportFiles, report_options, report_text, state_file_option
from fastrank_eval.shell import SectionedCommand
from fastrank_eval.stops import raise_if_stopped, signals_held

__all__ = ["merge"]


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Example:
  fastrank-eval evaluate logs/day=2026-11-19 -g user_id -l click -s pctr --save-state 19.state
  fastrank-eval evaluate logs/day=2026-11-20 -g user_id -l click -s pctr --save-state 20.state
  fastrank-eval merge 19.state 20.state

Exit codes: 0 done, 2 bad input or output, 3 a gate (--fail-if) failed, 130 interrupted,
143 terminated, 129 hung up.""",
)
@click.argument("states", nargs=-1, required=True, metavar="STATES...")
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
    allow_repeated: bool,
    allow_crossing: bool,
    drop_groups: bool,
    min_groups: int | None,
    confidence: float | None,
    report_format: str | None,
    output: str | None,
    per_group_file: str | None,
    state_file: str | None,
    overwrite: bool,
    fail_if: tuple[str, ...],
    quiet: bool,
) -> None:
    """Report on the rows of several evaluations together, as if they had been evaluated at once.

    STATES are files that 'evaluate --save-state' has written. Where no group has rows in two of
    them, every number is that of one run, to the last bit. They must rest on the same columns,
    measures, slices and conventions.
    """
    from fastrank_eval.bar import progress_bar

    files = ReportFiles(report_format, output, per_group_file, overwrite, states, state_file)
    with signals_held():
        from fastrank_eval.gates import gate
        from fastrank_eval.progress import report, reporting_to
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
        result = merged.result(confidence=confidence, min_groups=min_groups)
    raise_if_stopped()
    files.write(
        lambda width: report_text(result, files.form, width),
        lambda: result.per_group,
        quiet,
        lambda: merged,
    )
    if gates:
        leave_if_failed(result.check(*gates))
