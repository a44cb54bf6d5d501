"""Measures and score columns that a result holds, found by what a caller calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fastrank_eval.errors import ArgumentError, MeasureError, near

if TYPE_CHECKING:
    from fastrank_eval.measures import Measure

__all__ = ["held_measure", "held_score", "refuse_pooled"]


def held_measure(
    wanted: str | Measure, measures: Sequence[str], asked: Mapping[str, str]
) -> Measure:
    """The measure meant, in any accepted spelling, or as it was asked for.

    Parameters
    ----------
    wanted : str or Measure
    measures : sequence of str
        Canonical texts of those held.
    asked : mapping of str to str
        Which of them stands for a measure that a profile gave other options.

    Raises
    ------
    MeasureError
        If it is not among them.
    """
    from fastrank_eval.measures import measure
    from fastrank_eval.measures.text import computed

    known = measure(wanted)
    found = computed(known, measures, asked)
    if found is None:
        raise MeasureError(
            f"measure {known} was not part of this evaluation, which holds "
            f"{', '.join(measures)}.{near(str(known), measures)}"
        )
    return found


def held_score(wanted: str | None, scores: Sequence[str], measures: Sequence[str]) -> str:
    """The score column meant; the only one, if none is named.

    Raises
    ------
    ArgumentError
        If it is unknown, or left out where there are several.
    """
    if wanted is None and len(scores) == 1:
        return scores[0]
    names = ", ".join(map(repr, scores))
    if wanted is None:
        raise ArgumentError(
            f"this evaluation has several score columns ({names}): name the one you mean, "
            f"as in result[{scores[0]!r}, {measures[0]!r}]."
        )
    if wanted not in scores:
        raise ArgumentError(
            f"score column {wanted!r} was not part of this evaluation, which holds "
            f"{names}.{near(wanted, scores)}"
        )
    return wanted


def refuse_pooled(known: Measure) -> None:
    """Refuse a measure that has no value per group, and name its kin that has."""
    if known.pooled:
        from fastrank_eval.measures import registry

        kin = "GAUC" if known.name == "AUC" else f"Group{known.name}"
        raise MeasureError(
            f"{known} pools the rows of all groups and has no value per group"
            + (f"; {kin} is the {known.name} of each group." if kin in registry else ".")
        )
