"""Models that give all rows, or those of a slice, too few distinct scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastrank_eval.evaluation import Evaluation
from fastrank_eval.report.nights import GateOutcome
from fastrank_eval.report.places import places
from fastrank_eval.report.row_counts import distinct_scores

__all__ = ["FewScores", "condition_of", "few_scores", "outcomes_of_few"]

_MOST_NAMED = 5


@dataclass(frozen=True)
class FewScores:
    """The distinct scores of a model on a part of the rows, where there are too few.

    Parameters
    ----------
    score, by, slice : str
    scores : tuple of float
        Ascending.
    """

    score: str
    by: str
    slice: str
    scores: tuple[float, ...]


def few_scores(done: Evaluation, limit: int) -> tuple[FewScores, ...]:
    """Find the models with fewer distinct scores than a limit.

    Parameters
    ----------
    done : Evaluation
        Of a plan with `distinct_scores` of that limit, if it is above 1.
    limit : int
        Of fewer rows than that, each has to have a score of its own.

    Returns
    -------
    tuple of FewScores
        All rows before slices; no slice of a model that has too few on all rows.
    """
    if limit < 2:
        return ()
    key, found = distinct_scores(limit).state_key(), []
    scores, whole = done.plan.roles.scores, set()
    for place in places(done):
        for model, score in enumerate(scores):
            state = place.pools.models[model][key]
            if score in whole or state.rows < 2 or len(state.scores) >= min(limit, state.rows):
                continue
            if not place.by:
                whole.add(score)
            found.append(FewScores(score, place.by, place.slice, tuple(state.scores.tolist())))
    return tuple(found)


def condition_of(limit: int) -> str:
    """What fails such a night, as a gate would be written."""
    return f"distinct scores < {limit}"


def outcomes_of_few(found: Sequence[FewScores], limit: int) -> list[GateOutcome]:
    """The outcome of a gate that failed for each of them; none where there is none."""
    if not found:
        return []
    reasons = [
        f"{few.score}{f', {few.slice}' if few.by else ''}: {len(few.scores)}" for few in found
    ]
    left = len(reasons) - _MOST_NAMED
    shown = [*reasons[:_MOST_NAMED], *([f"{left} more"] if left > 0 else [])]
    return [GateOutcome(condition_of(limit), False, "; ".join(shown))]
