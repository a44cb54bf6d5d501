"""Define the commands compare and merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval._lib.errors import ArgumentError, ColumnError
from fastrank_eval._lib.lexer import quoted
from fastrank_eval.apps.cli.options import (
    comparison_options,
    complete_files,
    compute,
    convention_options,
    exit_if_failed,
    explicit_options,
    fail_if_compared_option,
    fail_if_option,
    measure_options,
    of,
    option,
    optional_column_options,
    read_gates,
    reading_options,
    slice_options,
    sources_argument,
)
from fastrank_eval.apps.cli.output import ReportFiles, report_options, state_file_option
from fastrank_eval.apps.cli.shell import SectionedCommand, require_rows
from fastrank_eval.apps.cli.standard_error import progress_bar

if TYPE_CHECKING:
    from fastrank_eval.results.comparison import Comparison
    from fastrank_eval.results.gates import Gate
    from fastrank_eval.results.result import Result, State

#: Options that rows need. Saved states hold their values.
_ROW_OPTIONS = ("group", "label", "score", "baseline")
#: Options of the comparison of states.
_STATE_OPTIONS = (
    "baseline",
    "test",
    "correction",
    "replicates",
    "seed",
    "confidence",
    "min_groups",
)
#: Headings of options that select and read rows. Two of `_STATE_OPTIONS` are among them.
_OF_ROWS = ("Columns", "Measures", "Slices", "Conventions", "Reading")


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval compare impressions.parquet -g user_id -l click -s score_b \\
      -b score_a
  fastrank-eval compare judged.csv -g query -l grade -s bm25 -s ours \\
      --baseline bm25 \\
      -m "nDCG@10,AP,ERR@20" --test randomisation --replicates 100000
  fastrank-eval compare logs -g user_id -l click -s score_a,score_b \\
      -b score_a -m "GAUC,RR" \\
      --correction bh --largest-changes 20 --output report.html
  fastrank-eval compare logs -g user_id -l click,order -s score_a,score_b \\
      -b score_a
  fastrank-eval compare logs -g user_id -l click -s score_a,score_b \\
      -b score_a \\
      --fail-if "GAUC delta_ci_low < -0.001"
  fastrank-eval compare base.state candidate.state --test wilcoxon""",
)
@sources_argument
@optional_column_options
@option(
    "Comparison",
    "-b",
    "--baseline",
    metavar="COLUMN",
    help="The score that all others are compared with; --score may leave it out. For a saved "
    "state, by default the baseline of its evaluation, or its only score.",
)
@comparison_options
@measure_options
@slice_options
@convention_options
@of("confidence")
@reading_options
@report_options
@fail_if_compared_option
def compare(
    sources: tuple[str, ...],
    largest_changes: int | None,
    all_slices: bool,
    fail_if: tuple[str, ...],
    quiet: bool,
    **options: Any,
) -> None:
    """Compare models with a baseline, with p-values.

    SOURCES are read once, as in evaluate. Differences are paired: a group that is hard for both
    models adds little to the error. Without --measures, a test that needs measures of groups leaves
    out AUC.

    Rows need --group, --label, --score and --baseline. Saved states need none of them. SOURCES may
    be one state that 'evaluate --baseline --save-state' has written. They may also be two states
    over the same groups, written with --keep-groups: the models of the second are then compared
    with the model of the first.
    """
    from fastrank_eval.engine.state_file import is_state

    explicit = explicit_options()
    states = [path for path in sources if is_state(path)]
    if states or any(name not in explicit for name in _ROW_OPTIONS):
        _check_existence(sources, options["format"])
    if states:
        _check_states(sources, states)
        files = ReportFiles(sources, options)
        choices = {
            name: options[name]
            for name in (*_STATE_OPTIONS, "threads")
            if name in explicit or name in ("test", "threads")
        }
        comparison, gates = _compare_states(sources, fail_if, quiet, choices)
    else:
        _check_rows(explicit)
        if options["baseline"] not in options["score"]:
            options["score"] = _with_baseline(options["baseline"], options["score"])
        files = ReportFiles(sources, options)

        from fastrank_eval.results.compare_tests import NEED_GROUPS, default_measures
        from fastrank_eval.results.evaluate import compare as run

        needs_groups = options["test"] in NEED_GROUPS
        if "measures" not in explicit:
            options["measures"] = default_measures(options["test"])
        gates = read_gates(fail_if, options)
        keeps = (
            files.per_group is not None
            or files.largest_changes(largest_changes) > 0
            or needs_groups
        )
        with _blaming_baseline(options["baseline"]):
            comparison = compute(run, sources, quiet, keep="values" if keeps else "", **options)
    files.write(
        comparison,
        quiet,
        largest_changes=files.largest_changes(largest_changes),
        all_slices=all_slices,
    )
    exit_if_failed(comparison, gates, every=all_slices)


@contextmanager
def _blaming_baseline(baseline: str) -> Iterator[None]:
    """Blame the baseline, not the scores, for its missing column."""
    try:
        yield
    except ColumnError as error:
        text = str(error)
        if text.startswith(f"score: no column {baseline!r}"):
            raise ColumnError(f"baseline{text.removeprefix('score')}") from None
        raise


def _with_baseline(baseline: str, score: Any) -> list[str] | dict[str, str]:
    """Put the column of the baseline before the other scores."""
    if isinstance(score, Mapping):
        return {baseline: quoted(baseline), **score}
    return [baseline, *score]


def _check_existence(sources: Sequence[str], input_format: str | None) -> None:
    """Refuse a source that does not exist."""
    from fastrank_eval.io.paths import expand

    for path in sources:
        if path != "-" and not Path(path).is_file():
            expand(path, input_format)


def _check_rows(explicit: Mapping[str, str]) -> None:
    missing = [f"--{name}" for name in _ROW_OPTIONS if name not in explicit]
    if missing:
        raise ArgumentError(
            f"rows need --group, --label, --score and --baseline: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. (Saved states, written by 'evaluate "
            "--save-state', need none of them, but no source is a saved state.)"
        )


def _check_states(sources: Sequence[str], states: Sequence[str]) -> None:
    rows = [path for path in sources if path not in states]
    if rows:
        raise ArgumentError(
            f"{states[0]!r} is a saved state, and {rows[0]!r} is not: evaluate the rows with "
            "--save-state and --keep-groups and compare two states, or compare rows only."
        )
    if len(sources) > 2:
        raise ArgumentError(
            f"{len(sources)} saved states are more than two: first merge the states of different "
            "rows with 'fastrank-eval merge --save-state' (or --compare)."
        )
    of_rows, of_states = explicit_options(*_OF_ROWS), (*_STATE_OPTIONS, "threads")
    others = [written for name, written in of_rows.items() if name not in of_states]
    if others:
        raise ArgumentError(
            f"{', '.join(others)} {'applies' if len(others) == 1 else 'apply'} to rows, but "
            f"{states[0]!r} is a saved state: leave {'it' if len(others) == 1 else 'them'} out."
        )


def _compare_states(
    sources: Sequence[str], fail_if: Sequence[str], quiet: bool, choices: Mapping[str, Any]
) -> tuple[Comparison, list[Gate]]:
    """Compare one or two saved states and read the gates."""
    from fastrank_eval.results.gates import gate

    gates = [gate(text) for text in fail_if]
    with _loaded_states(sources, quiet) as states:
        comparison = states[0].compare(*states[1:], **choices)
    require_rows(comparison)
    for each in gates:
        each.require(
            comparison.names, [comparison.baseline, *comparison.scores], states[0].requested
        )
    return comparison, gates


@contextmanager
def _loaded_states(
    paths: Sequence[str], quiet: bool, add: Callable[[State], State] = lambda state: state
) -> Iterator[list[State]]:
    """Read states, and show the progress until they are used."""
    from fastrank_eval._lib.threads import report, reporting_to
    from fastrank_eval.results.state import load_state

    states: list[State] = []
    with progress_bar(quiet) as progress, reporting_to(progress):
        for path in paths:
            states.append(add(load_state(path)))
            report("reading states", sum(state.rows for state in states), None)
        yield states


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval evaluate logs/day=2026-11-19 -g user_id -l click -s score_a \\
      --save-state 19.state
  fastrank-eval evaluate logs/day=2026-11-20 -g user_id -l click -s score_a \\
      --save-state 20.state
  fastrank-eval merge 19.state 20.state
  fastrank-eval merge 19.state 20.state --compare --correction bh""",
)
@click.argument(
    "states", nargs=-1, required=True, metavar="STATES...", shell_complete=complete_files
)
@option(
    "Comparison",
    "--compare",
    "compared",
    is_flag=True,
    help="Compare the models with the baseline of the evaluations (evaluate --baseline), as "
    "'fastrank-eval compare' does for all rows. --fail-if may then name fields of differences.",
)
@option(
    "Comparison",
    "-b",
    "--baseline",
    metavar="COLUMN",
    help="Compare with another score. The states must hold the values of groups.",
)
@comparison_options
@option(
    "Conventions",
    "--allow-repeated",
    is_flag=True,
    help="Merge states with equal sums. By default they are refused, as states of the same rows.",
)
@option(
    "Conventions",
    "--allow-crossing",
    is_flag=True,
    help="Merge states although a group has rows in several; each part counts as a group.",
)
@option(
    "Conventions",
    "--drop-groups",
    is_flag=True,
    help="Leave out the keys and values of groups.",
)
@of(
    "min_groups",
    default=None,
    help="Leave out slices of fewer groups, and print their number; by default as in the states.",
)
@of(
    "confidence",
    default=None,
    help="Confidence of the intervals of the values; by default as in the states.",
)
@report_options
@state_file_option
@fail_if_option
def merge(
    states: tuple[str, ...],
    compared: bool,
    largest_changes: int | None,
    all_slices: bool,
    drop_groups: bool,
    fail_if: tuple[str, ...],
    quiet: bool,
    **options: Any,
) -> None:
    """Merge saved states into one report.

    STATES are files that 'evaluate --save-state' has written. If no group has rows in two of them,
    every number equals that of one run over all rows, to the last bit. All states must have the
    same columns, measures, slices and conventions.
    """
    unused = list(explicit_options("Comparison").values())
    if unused and not compared:
        raise ArgumentError(
            f"{', '.join(unused)} {'applies' if len(unused) == 1 else 'apply'} to comparisons: "
            "give --compare too."
        )
    files = ReportFiles(states, options)
    from fastrank_eval.io.paths import identity_of, refuse_repeated
    from fastrank_eval.results.gates import gate

    refuse_repeated((identity_of(path), path) for path in states)
    gates = [gate(text) for text in fail_if]

    def add_state(state: State) -> State:
        for each in gates:
            each.require(state.names, state.scores, state.requested)
        return state.without_groups() if drop_groups else state

    allowed = {name: options.pop(name) for name in ("allow_repeated", "allow_crossing")}
    with _loaded_states(states, quiet, add_state) as loaded:
        merged = loaded[0].merge(*loaded[1:], **allowed)
        summary: Result | Comparison
        choices = {}
        if compared:
            choices = {
                "largest_changes": files.largest_changes(largest_changes),
                "all_slices": all_slices,
            }
            summary = merged.compare(**options)
        else:
            shown = {name: options[name] for name in ("confidence", "min_groups")}
            summary = merged.result(**shown)
    require_rows(summary, argument="STATES")
    files.write(summary, quiet, merged, **choices)
    exit_if_failed(summary, gates, every=all_slices)
