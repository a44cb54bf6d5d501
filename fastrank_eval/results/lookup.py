"""Look up measures, score columns and slices of a result by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fastrank_eval._lib.errors import ArgumentError, MeasureError, near
from fastrank_eval.measures import measure, registry
from fastrank_eval.measures.parser import find_computed
from fastrank_eval.slicing.spec import parse

if TYPE_CHECKING:
    from fastrank_eval.measures import Measure

#: A value, or a difference.
_Record = TypeVar("_Record", bound=Any)


def find_measure(
    name: str | Measure, names: Mapping[str, str], requested: Mapping[str, str]
) -> Measure:
    """Look up a measure by any alias, or by its requested name.

    Parameters
    ----------
    name : str or Measure
    names : mapping of str to str
        The name that reports show by canonical text of each measure of the result.
    requested : mapping of str to str
        By requested name the computed measure, where a profile set other options.

    Raises
    ------
    MeasureError
        If the result does not have it.
    """
    parsed = measure(name)
    result = find_computed(parsed, names, requested)
    if result is None:
        # A profile may have computed another measure under the name that is looked up.
        shown = list(names if parsed.display_name in names.values() else names.values())
        raise MeasureError(
            f"measure {parsed.display_name} was not part of this evaluation, which has "
            f"{', '.join(shown)}.{near(parsed.display_name, shown)}"
        )
    return result


def find_calibration(
    name: str | Measure | None,
    measures: Sequence[str],
    names: Mapping[str, str],
    requested: Mapping[str, str],
) -> str:
    """Look up a measure of multicalibration; by default the only one.

    Raises
    ------
    MeasureError
        If the result does not have it, or several and no name is given.
    """
    wanted = None if name is None else measure(name)
    if wanted is not None and measures:
        return str(find_measure(wanted, {text: names[text] for text in measures}, requested))
    if len(measures) == 1:
        return measures[0]
    remedy = "name one" if measures else "add MultiECCE(columns='country') to the measures"
    shown = ", ".join(names[text] for text in measures) or "none"
    raise MeasureError(
        "measure: must be one of the evaluation's measures of multicalibration, got "
        f"{'none' if wanted is None else wanted.display_name}; it has {shown}: {remedy}."
    )


def find_score(name: str | None, scores: Sequence[str], names: Mapping[str, str]) -> str:
    """Look up a score column; by default the only one.

    Parameters
    ----------
    name : str or None
    scores : sequence of str
    names : mapping of str to str
        As in `find_measure`.

    Raises
    ------
    ArgumentError
        If it is unknown, or left out where there are several.
    """
    if name is None and len(scores) == 1:
        return scores[0]
    columns = ", ".join(map(repr, scores))
    if name is None:
        raise ArgumentError(
            f"this evaluation has several score columns ({columns}): name the one you mean, "
            f"as in result.value({next(iter(names.values()))!r}, {scores[0]!r})."
        )
    if name not in scores:
        raise ArgumentError(
            f"score column {name!r} was not part of this evaluation, which has "
            f"{columns}.{near(name, scores)}"
        )
    return name


def refuse_swapped(score: object, name: object, scores: Sequence[str]) -> None:
    """Raise ArgumentError if the key of a result has the measure first."""
    if score is not None and score not in scores and isinstance(name, str) and name in scores:
        raise ArgumentError(
            f"key: must be a score column and a measure, got ({str(score)!r}, {name!r}); write "
            f"result[{name!r}, {str(score)!r}]."
        )


def find_slicing(by: str | None, values: Sequence[Any]) -> str:
    """Look up the canonical text of a slicing; by default the only one.

    Raises
    ------
    ArgumentError
        If the rows were not sliced by `by`, or it is None where there are several or none.
    """
    slicings = list(dict.fromkeys(v.by for v in values if v.by is not None))
    names = ", ".join(map(repr, slicings))
    if by is None:
        if len(slicings) == 1:
            return slicings[0]
        which = f"by {names}: name one, by=..." if slicings else "by nothing"
        raise ArgumentError(f"the rows of this evaluation were sliced {which}.")
    text = str(parse(by))
    if text not in slicings:
        which = f"but by {names}" if slicings else "nor by anything else"
        raise ArgumentError(
            f"the rows of this evaluation were not sliced by {text!r}, {which}."
            f"{near(text, slicings)}"
        )
    return text


def find_slices(by: str | None, values: Sequence[Any]) -> tuple[str, ...]:
    """List the labels of the slices of one slicing, or of all, in their order.

    Raises
    ------
    ArgumentError
        If the rows were not sliced by `by`.
    """
    if by is not None:
        by = find_slicing(by, values)
    slices = (v.slice for v in values if v.by is not None and by in (None, v.by))
    return tuple(dict.fromkeys(slices))


def find_value(
    text: str, score: str, label: str, values: Sequence[_Record], min_groups: object
) -> _Record:
    """Look up the value, or difference, of a measure and a model.

    Parameters
    ----------
    text, score, label : str
        Measure, score column, label of the slice.
    values : sequence of MeasureValue or ComparedValue
    min_groups : object
        The fewest groups of a slice that was not left out; not an int if that is unknown.

    Raises
    ------
    ArgumentError
        If there is no such slice.
    MeasureError
        If there is no such value of all rows.
    """
    for v in values:
        if (v.measure, v.score, v.slice) == (text, score, label):
            return v
    if label == "all":
        raise MeasureError(f"no value of {text} for score column {score!r} in this result.")
    labels = find_slices(None, values)
    if not labels:
        raise ArgumentError(
            f"slice {label!r} was not part of this evaluation, which has no slices: ask for them "
            "by by=... (--by)."
        )
    few = ""
    if isinstance(min_groups, int) and min_groups > 1:
        few = f", nor any of fewer than {min_groups:,} groups"
    some = ", ".join(map(repr, labels[:5])) + f" and {len(labels) - 5:,} more" * (len(labels) > 5)
    raise ArgumentError(
        f"slice {label!r} was not part of this evaluation{few}; it has {some}.{near(label, labels)}"
    )


def refuse_pooled(measure: Measure) -> None:
    """Refuse a measure without values per group, and name its variant."""
    if measure.pooled:
        variant = "GAUC" if measure.name == "AUC" else f"Group{measure.name}"
        raise MeasureError(
            f"{measure.display_name} pools the rows of all groups and has no value per group"
            + (f"; {variant} is the {measure.name} of each group." if variant in registry else ".")
        )
