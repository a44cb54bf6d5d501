"""Models that give all rows, or those of a slice, too few distinct scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fastrank_eval.evaluation import Evaluation
from fastrank_eval.report.nights import GateOutcome
from fastrank_eval.report.places import places
from fastrank_eval.report.row_counts import distinct_scores

__all__ = ["FewScores", "counted_scores", "few_scores", "outcomes_of_few"]

_MOST_NAMED = 5
#: Without a limit in the configuration: the fewest scores that do not fail a night, the fewest that
#: are no finding, and the fewest rows for which few scores are a finding.
_LEAST, _FEW, _ROWS = 2, 10, 100


@dataclass(frozen=True)
class FewScores:
    """The distinct scores of a model on a part of the rows, where there are too few.

    Parameters
    ----------
    score, by, slice : str
    scores : tuple of float
        Ascending.
    limit : int
        The fewest that there should be.
    fails : bool
        Whether the night fails; otherwise few scores are a finding only.
    """

    score: str
    by: str
    slice: str
    scores: tuple[float, ...]
    limit: int
    fails: bool

    @property
    def condition(self) -> str:
        """What fails the night, as a gate would be written; empty if nothing does."""
        return f"distinct scores < {self.limit}" if self.fails else ""


def counted_scores(limit: int | None) -> int:
    """Return where counting distinct scores stops, of the limit in a configuration."""
    return _FEW if limit is None else limit


def few_scores(done: Evaluation, limit: int | None) -> tuple[FewScores, ...]:
    """Find the models with fewer distinct scores than a limit.

    Parameters
    ----------
    done : Evaluation
        Of a plan with `distinct_scores` of `counted_scores` of the limit, if it is above 1.
    limit : int or None
        Fewer fail the night; of fewer rows than that, each has to have a score of its own. None:
        one score fails the night; fewer than ten scores of 100 rows or more are a finding.

    Returns
    -------
    tuple of FewScores
        All rows before slices; no slice of a model that has too few on all rows.
    """
    told, least = counted_scores(limit), _LEAST if limit is None else limit
    if told < 2:
        return ()
    key, found = distinct_scores(told).state_key(), []
    scores, whole = done.plan.roles.scores, dict[str, bool]()
    for place in places(done):
        for model, score in enumerate(scores):
            state = place.pools.models[model][key]
            number = len(state.scores)
            fails = state.rows >= 2 and number < min(least, state.rows)
            if not fails and (number >= min(told, state.rows) or state.rows < _ROWS):
                continue
            # What is so of all rows is named once.
            if fails <= whole.get(score, -1):
                continue
            if not place.by:
                whole[score] = fails
            values = tuple(state.scores.tolist())
            limit_here = least if fails else told
            found.append(FewScores(score, place.by, place.slice, values, limit_here, fails))
    return tuple(found)


def outcomes_of_few(found: Sequence[FewScores]) -> list[GateOutcome]:
    """The outcome of a gate that failed for each that fails the night; none if there is none."""
    failing = [few for few in found if few.fails]
    if not failing:
        return []
    reasons = [
        f"{few.score}{f', {few.slice}' if few.by else ''}: {len(few.scores)}" for few in failing
    ]
    left = len(reasons) - _MOST_NAMED
    shown = [*reasons[:_MOST_NAMED], *([f"{left} more"] if left > 0 else [])]
    return [GateOutcome(failing[0].condition, False, "; ".join(shown))]
