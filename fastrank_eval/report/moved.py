"""What moved on a night, chosen once for every form in which it is told."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fastrank_eval.errors import FastRankEvalError
from fastrank_eval.gate_tree import ALL, COMPARISON_FIELDS, Term, terms_of
from fastrank_eval.gates import gate
from fastrank_eval.measures.text import computed, measure
from fastrank_eval.report.nights import GateOutcome, Night, NightDifference
from fastrank_eval.report.wording import confidence_of, said_of

__all__ = ["Moved", "moved", "slices_moved", "strength"]

_SINCE = " (since "


@dataclass(frozen=True)
class Moved:
    """A model on a part of the rows that has moved, by the change that says most.

    Parameters
    ----------
    difference : NightDifference
    alarmed : bool
        Whether a gate failed for it.
    others : int
        Changes shown of the same model, rows and kind in other measures, or from other nights.
    """

    difference: NightDifference
    alarmed: bool
    others: int


def moved(night: Night) -> list[Moved]:
    """Models on parts of the rows for which a change is shown, what matters most first.

    Those for which a gate failed lead, in the measure of that gate; then those that moved in the
    first measure; then the others. Among them what is worse goes first, then what is surest. The
    change that stands for a model and a part of the rows is chosen in the same order.

    Parameters
    ----------
    night : Night

    Returns
    -------
    list of Moved
        At most one for each model and part of the rows beside the baseline, and one since earlier
        nights.
    """
    confidence = confidence_of(night)
    alarms = [_alarm(outcome, night) for outcome in night.gates if not outcome.passed]
    found: dict[tuple[bool, str, str, str], list[tuple[_Rank, NightDifference]]] = {}
    for one in night.compared:
        said = said_of(one, confidence)
        if said.shown:
            alarmed = any(alarm(one) for alarm in alarms)
            other = one.measure not in night.measures[:1]
            rank = not alarmed, other, said.tone != "bad", -strength(one)
            of = one.kind == "baseline", one.score, one.by, one.slice
            found.setdefault(of, []).append((rank, one))
    chosen = []
    for changes in found.values():
        rank, one = min(changes, key=lambda each: each[0])
        chosen.append((rank, Moved(one, not rank[0], len(changes) - 1)))
    return [one for _, one in sorted(chosen, key=lambda each: each[0])]


def slices_moved(night: Night) -> list[Moved]:
    """The same without all rows, where those are told apart."""
    return [one for one in moved(night) if one.difference.slice != ALL]


_Rank = tuple[bool, bool, bool, float]


def strength(difference: NightDifference) -> float:
    """Standard errors that a difference is away from zero; infinitely many where they are zero."""
    if difference.se > 0:
        found = abs(difference.delta) / difference.se
        return found if math.isfinite(found) else 0.0
    return math.inf if difference.se == 0 and abs(difference.delta) > 0 else 0.0


def _alarm(outcome: GateOutcome, night: Night) -> Callable[[NightDifference], bool]:
    """Whether a gate that failed failed for a difference."""
    condition, _, since = outcome.condition.rpartition(_SINCE)
    kind = since.removesuffix(")").replace(" ", "_") if condition else "baseline"
    try:
        asked = terms_of(gate(condition or outcome.condition).condition)
        meant = [(t, _meant(t, night)) for t in asked if isinstance(t, Term)]
    except FastRankEvalError:  # written by another version
        meant = []
    told = outcome.reason.split("; ")

    def failed(one: NightDifference) -> bool:
        for term, measures in meant:
            if term.field in COMPARISON_FIELDS and one.kind != kind:
                continue
            fits = one.measure in measures and term.score in (None, one.score)
            fits &= term.slice == one.slice if term.slice is not None else one.slice != ALL
            # What a gate leaves open, its reason names: model, slice.
            named = [one.score] * (term.score is None) + [one.slice] * (term.slice is None)
            place = ", ".join(named)
            if fits and (not named or any(text.startswith(f"{place}: ") for text in told)):
                return True
        return False

    return failed


def _meant(term: Term, night: Night) -> list[str]:
    """Find the measures that a term is of; a profile may have given them other options."""
    asked, measures = measure(term.measure), night.measures
    requested = night.conventions.get("requested")
    found = computed(asked, measures, requested if isinstance(requested, Mapping) else {})
    if found is not None or requested:
        return [] if found is None else [str(found)]
    # Older nights do not hold the names that were requested.
    return [
        text
        for text, one in zip(measures, map(measure, measures), strict=True)
        if (one.name, one.cutoff) == (asked.name, asked.cutoff)
        and all(one.chosen[name] == asked.chosen[name] for name in asked.given)
    ]
