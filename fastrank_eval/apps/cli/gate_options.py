"""Define the options of gates, read them and end with their exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.cli.exit_codes import ExitCode
from fastrank_eval.apps.cli.options import option
from fastrank_eval.apps.cli.standard_error import note

if TYPE_CHECKING:
    from fastrank_eval.results.comparison import Comparison
    from fastrank_eval.results.gates import Gate
    from fastrank_eval.results.result import Result

_MOST_REASONS = 20


def _fail_if_option(examples: str) -> Callable[[Any], Any]:
    return option(
        "Output",
        "--fail-if",
        "fail_if",
        multiple=True,
        metavar="CONDITION",
        help=f"Exit with code {ExitCode.GATE_FAILED} if this is true or cannot be computed; "
        f"standard error names the reason: {examples} The report is always written. Repeat the "
        "option for several.",
    )


fail_if_option = _fail_if_option(
    "'GAUC < 0.6', 'score_a:GAUC[slot=feed] ci_low < 0.55 or AUC dropped_share > 0.1'. Without a "
    "model it applies to every model, with [*] to every slice, and always to every label."
)
fail_if_compared_option = _fail_if_option(
    "'worse(GAUC)', 'worse(GAUC[*])', 'GAUC delta_ci_low < -0.001', 'new:AUC < 0.7'. "
    "worse() is significantly worse, corrected over the terms of the gate. Fields of differences "
    "are delta, delta_se, delta_ci_low, delta_ci_high, "
    "relative, p_value, p_adjusted, wins, losses, ties and mdd: without a model they apply to "
    "every candidate, other fields to every model; with [*] to every slice."
)


def read_gates(texts: Sequence[str], options: Mapping[str, Any]) -> list[Gate]:
    """Read gates and refuse those on values that are not computed.

    Parameters
    ----------
    texts : sequence of str
    options : mapping of str to object
        Options of the command: measures, score, group, profile, sampling_rate and baseline.

    Returns
    -------
    list of Gate

    Raises
    ------
    FastRankEvalError
        If a gate cannot be read, names a measure or a score column that is not requested, or reads
        a number of groups of rows without groups.
    """
    if not texts:
        return []
    from fastrank_eval.engine.conventions import profile_of, requested_names, used_measures
    from fastrank_eval.engine.options import OPTIONS
    from fastrank_eval.measures.parser import requested_measures
    from fastrank_eval.results.gates import gate

    gates = [gate(text) for text in texts]
    requested = requested_measures(options["measures"])
    conventions = None if options["profile"] is None else profile_of(options["profile"])
    rate = options["sampling_rate"]
    if rate is not None:
        rate = OPTIONS["sampling_rate"].read("sampling_rate", rate)
    measured = used_measures(requested, conventions, rate, options["baseline"] is not None)
    names = requested_names(requested, measured)
    for each in gates:
        each.require({str(m): m.display_name for m in measured}, list(options["score"]), names)
        if each.counts_groups and not options["group"]:
            raise ArgumentError(
                f'gate "{each}": it counts groups; name the key columns by --group.'
            )
    return gates


def exit_if_failed(result: Result | Comparison, gates: Sequence[Gate], every: bool = False) -> None:
    """Exit with code 3 and print the reasons if a result fails a gate."""
    if not gates:
        return
    from fastrank_eval.results.report import printable

    verdict = result.check(*gates)
    # Lines of gates that passed come last; all of them are written.
    lines, failures = verdict.lines(), len(verdict.failures)
    printed = failures if every else min(failures, _MOST_REASONS)
    for line in lines[:printed]:
        note(printable(line))
    if failures > printed:
        note(f"gate failed: {failures - printed:,} more")
    for line in lines[failures:]:
        note(printable(line))
    if verdict.passed:
        return
    raise click.exceptions.Exit(ExitCode.GATE_FAILED)
