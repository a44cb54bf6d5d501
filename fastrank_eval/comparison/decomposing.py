"""How the difference of a mean over groups comes of slices: of their values, and of their mix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fastrank_eval.errors import MeasureError
from fastrank_eval.measure_value import MeasureValue
from fastrank_eval.plain_values import plain_value
from fastrank_eval.slices.decomposition import Decomposition, decompose

if TYPE_CHECKING:
    from fastrank_eval.measures import Measure

__all__ = ["decomposed", "decomposition_lines", "is_mean", "refuse_without_mean", "sliced_by"]


def is_mean(known: Measure) -> bool:
    """Whether a measure is a mean over groups."""
    return not known.pooled and known.aggregate == "mean"


def refuse_without_mean(known: Measure) -> None:
    """Refuse a measure that is not a mean over groups: it is not made up of those of slices.

    Raises
    ------
    MeasureError
    """
    if known.pooled:
        raise MeasureError(
            f"{known} pools the rows of all groups: its value is no mean of those of slices, so "
            "that its difference cannot be decomposed."
        )
    if known.aggregate != "mean":
        raise MeasureError(
            f"{known} is a {known.aggregate} over groups; the difference of a mean can be "
            "decomposed."
        )


def sliced_by(values: Sequence[MeasureValue]) -> tuple[str, ...]:
    """The slicings of these values, in their order."""
    return tuple(dict.fromkeys(v.by for v in values if v.by is not None))


def decomposed(
    values: Sequence[MeasureValue], measure: str, base: str, score: str, by: str
) -> Decomposition:
    """Decompose the difference of a mean over groups by the slices of one slicing.

    Parameters
    ----------
    values : sequence of MeasureValue
        Of both models, all rows and slices.
    measure, base, score, by : str
        A mean over groups; score columns of the baseline and of the candidate; the slicing.

    Returns
    -------
    Decomposition
        With the labels of the slices, in the order in which they stand.
    """
    mine = [v for v in values if v.measure == measure and v.score in (base, score)]
    whole = {v.score: v.value for v in mine if v.by is None}
    of_slices = {(v.score, v.slice): v for v in mine if v.by == by}
    labels = tuple(dict.fromkeys(v.slice for v in mine if v.by == by))
    columns = []
    for side in (base, score):
        found = [of_slices.get((side, label)) for label in labels]
        weights = np.array([0.0 if v is None else v.weight for v in found])
        of_each = np.array([math.nan if v is None else v.value for v in found])
        columns += [weights, of_each * weights]
    parts = decompose(*columns, before=whole[base], after=whole[score])
    return replace(parts, slices=labels)


def decomposition_lines(
    found: Mapping[tuple[str, str, str], Decomposition],
) -> Iterator[dict[str, Any]]:
    """Decompositions by score column, measure and slicing as plain Python values, None for NaN."""
    for (score, measure, by), parts in found.items():
        yield {
            "score": score,
            "measure": measure,
            "by": by,
            **{
                name: plain_value(getattr(parts, name))
                for name in ("before", "after", "difference", "within", "mix", "remainder")
            },
            "slices": [
                {"slice": label, "within": plain_value(within), "mix": plain_value(mix)}
                for label, within, mix in zip(
                    parts.slices,
                    parts.slice_within.tolist(),
                    parts.slice_mix.tolist(),
                    strict=True,
                )
            ],
        }
