"""Measures, score columns and slices that a result holds, found by what a caller calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fastrank_eval._lib.errors import ArgumentError, MeasureError, near

if TYPE_CHECKING:
    from fastrank_eval.engine.records import MeasureValue
    from fastrank_eval.measures import Measure

__all__ = [
    "find_measure",
    "find_score",
    "find_slices",
    "find_slicing",
    "find_value",
    "refuse_pooled",
]


def find_measure(
    wanted: str | Measure, measures: Sequence[str], requested: Mapping[str, str]
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
    from fastrank_eval.measures.parser import computed

    known = measure(wanted)
    found = computed(known, measures, requested)
    if found is None:
        raise MeasureError(
            f"measure {known} was not part of this evaluation, which holds "
            f"{', '.join(measures)}.{near(str(known), measures)}"
        )
    return found


def find_score(wanted: str | None, scores: Sequence[str], measures: Sequence[str]) -> str:
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


def find_slicing(wanted: str | None, values: Sequence[MeasureValue]) -> str:
    """The slicing meant, in canonical text; the only one, if none is named.

    Raises
    ------
    ArgumentError
        If the rows were not sliced by that, or it is left out where there are several or none.
    """
    known = list(dict.fromkeys(v.by for v in values if v.by is not None))
    if wanted is None:
        if len(known) == 1:
            return known[0]
        which = f"by {', '.join(map(repr, known))}: name one, by=..." if known else "by nothing"
        raise ArgumentError(f"the rows of this evaluation were sliced {which}.")
    from fastrank_eval.slicing.parser import parse

    text = str(parse(wanted))
    if text not in known:
        which = f"but by {', '.join(map(repr, known))}" if known else "nor by anything else"
        raise ArgumentError(
            f"the rows of this evaluation were not sliced by {text!r}, {which}.{near(text, known)}"
        )
    return text


def find_slices(wanted: str | None, values: Sequence[MeasureValue]) -> tuple[str, ...]:
    """Labels of the slices of one slicing, or of all, in their order.

    Raises
    ------
    ArgumentError
        If the rows were not sliced by that.
    """
    if wanted is not None:
        wanted = find_slicing(wanted, values)
    slices = (v.slice for v in values if v.by is not None and wanted in (None, v.by))
    return tuple(dict.fromkeys(slices))


def find_value(
    text: str, score: str, part: str, values: Sequence[MeasureValue], least: object
) -> MeasureValue:
    """The line of a measure and a model for a slice, or ``"all"``.

    Parameters
    ----------
    text, score, part : str
        Measure, score column, label of the slice.
    values : sequence of MeasureValue
    least : object
        Groups of the smallest slices that were not left out, if that is known.

    Raises
    ------
    ArgumentError
        If there is no such slice.
    MeasureError
        If there is no such line of all rows.
    """
    for v in values:
        if (v.measure, v.score, v.slice) == (text, score, part):
            return v
    if part == "all":
        raise MeasureError(f"no value of {text} for score column {score!r} in this result.")
    known = find_slices(None, values)
    if not known:
        raise ArgumentError(
            f"slice {part!r} was not part of this evaluation, which has no slices: ask for them by "
            "by=... (--by)."
        )
    few = (
        f", nor any of fewer than {least:,} groups" if isinstance(least, int) and least > 1 else ""
    )
    some = ", ".join(map(repr, known[:5])) + f" and {len(known) - 5:,} more" * (len(known) > 5)
    raise ArgumentError(
        f"slice {part!r} was not part of this evaluation{few}; it holds {some}.{near(part, known)}"
    )


def refuse_pooled(known: Measure) -> None:
    """Refuse a measure that has no value per group, and name its kin that has."""
    if known.pooled:
        from fastrank_eval.measures import registry

        kin = "GAUC" if known.name == "AUC" else f"Group{known.name}"
        raise MeasureError(
            f"{known} pools the rows of all groups and has no value per group"
            + (f"; {kin} is the {known.name} of each group." if kin in registry else ".")
        )
