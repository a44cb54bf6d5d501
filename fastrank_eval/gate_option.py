"""The option ``--fail-if``: gates are read before any row is, and judged after the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fastrank_eval.options import option
from fastrank_eval.shell import note

if TYPE_CHECKING:
    from fastrank_eval.gates import Gate, Verdict

__all__ = [
    "GATE_FAILED",
    "fail_if_compared_option",
    "fail_if_option",
    "leave_if_failed",
    "read_gates",
]

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
    from fastrank_eval.gates import gate
    from fastrank_eval.measures.probabilities import sampling_rate_of
    from fastrank_eval.measures.text import measures_asked
    from fastrank_eval.profiles import measures_in_force, names_asked, profile_of

    gates = [gate(text) for text in texts]
    asked = measures_asked(measures)
    chosen = None if profile is None else profile_of(profile)
    taken = asked
    if compared:
        from fastrank_eval.comparison.comparing import measures_taken

        taken = measures_taken(asked)
    measured = measures_in_force(taken, chosen, sampling_rate_of(sampling_rate))
    for each in gates:
        each.require([str(m) for m in measured], scores, names_asked(asked, measured))
    return gates


def leave_if_failed(verdict: Verdict) -> None:
    """End with exit code 3 and the reasons on standard error, unless all gates are passed."""
    if verdict.passed:
        return
    from fastrank_eval.cell_texts import printable

    for failure in verdict.failures[:_MOST_REASONS]:
        note(f"gate failed: {printable(str(failure))}")
    left = len(verdict.failures) - _MOST_REASONS
    if left > 0:
        note(f"gate failed: {left:,} more")
    raise click.exceptions.Exit(GATE_FAILED)
