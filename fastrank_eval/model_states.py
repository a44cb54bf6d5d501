"""What is kept of the rows of each model -> arrays, and back; together where groups are matched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastrank_eval.clustered_scores import ClusteredScores
from fastrank_eval.saved_parts import Parts
from fastrank_eval.state_places import Saveable

__all__ = ["loaded_of_models", "saved_of_models"]


def saved_of_models(states: Mapping[str, Saveable], *, compared: bool) -> dict[str, Parts]:
    """The arrays of one state of each model, of the same rows.

    Parameters
    ----------
    states : mapping of str to Saveable
        By model; all of one class.
    compared : bool
        Whether models are compared, for which some states must know which groups are the same.
    """
    if compared:
        clustered = {m: one for m, one in states.items() if isinstance(one, ClusteredScores)}
        if clustered:
            return ClusteredScores.saved_together(clustered)
    return {model: state.saved() for model, state in states.items()}


def loaded_of_models(
    kind: type[Saveable], parts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Saveable]:
    """The states that `saved_of_models` wrote, by model."""
    if issubclass(kind, ClusteredScores):
        return {**kind.loaded_together(parts)}
    return {model: kind.loaded(each) for model, each in parts.items()}
