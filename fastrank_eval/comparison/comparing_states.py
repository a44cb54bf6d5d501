"""State.compare(): models of one saved state, or of two states over the same groups."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from fastrank_eval.arguments import column_name
from fastrank_eval.comparison.comparing import choices_of, comparison_of
from fastrank_eval.comparison.comparison import Comparison
from fastrank_eval.comparison.model_tests import refuse_pooled
from fastrank_eval.errors import ArgumentError
from fastrank_eval.evaluate import result_of

if TYPE_CHECKING:
    from fastrank_eval.saved_groups import SavedGroups
    from fastrank_eval.saved_states import State

__all__ = ["compare_states"]

_KEEP = "evaluate with keep_groups=True (--keep-groups)"


def compare_states(
    state: State,
    other: State | None,
    baseline: str | None,
    *,
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    confidence: float | None = None,
    min_groups: int | None = None,
    threads: int | None = None,
) -> Comparison:
    """The body of `State.compare`; see there."""
    started = perf_counter()
    given = 0.95 if confidence is None else confidence
    choices = choices_of(test, correction, given, replicates, seed, threads)
    base = state.baseline if baseline is None else column_name("baseline", baseline)
    if other is None and base is not None and base == state.baseline:
        if choices.needs_groups and not state.groups_kept:
            raise ArgumentError(
                f"test={test!r} reads the values of every group, which {state.shown} has not; "
                f"{_KEEP}, or choose test='clustered_t'."
            )
        done = state.evaluation(confidence=confidence, min_groups=min_groups)
        refuse_pooled(test, done.plan.measures)
        choices = choices_of(test, correction, done.plan.confidence, replicates, seed, threads)
        return comparison_of(done, choices, state.asked, started)
    for each in (state,) if other is None else (state, other):
        _require_groups(each, alone=other is None)
    done = state.evaluation(confidence=confidence, min_groups=min_groups)
    share = done.plan.confidence
    theirs = None if other is None else other.result(confidence=share, min_groups=min_groups)
    return result_of(done).compare(
        theirs,
        baseline=base,
        test=test,
        correction=correction,
        replicates=replicates,
        seed=seed,
        threads=threads,
    )


def _require_groups(state: State, *, alone: bool) -> None:
    """Refuse a state whose groups cannot be told apart by their keys."""
    groups = state.values_of_groups()
    if groups is None and alone:
        held = "has no baseline" if state.baseline is None else f"has baseline {state.baseline!r}"
        raise ArgumentError(
            f"{state.shown} {held}, and no values of groups to compare other models by; evaluate "
            f"with the baseline that is wanted, baseline=... (--baseline), or {_KEEP}."
        )
    if groups is None:
        raise ArgumentError(
            f"{state.shown} has no keys of groups, by which it could be joined with another; "
            f"{_KEEP}."
        )
    if not alone and _crossing(groups):
        raise ArgumentError(
            f"{state.shown} has groups that were merged in parts, so that they cannot be joined "
            "with those of another by their keys; evaluate the rows of a group together."
        )


def _crossing(groups: SavedGroups) -> bool:
    order = np.lexsort(groups.ranks()[::-1])
    return bool(groups.repeated(order).any())
