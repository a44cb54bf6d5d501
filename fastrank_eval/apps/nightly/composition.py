"""Split a change since an earlier night into model and composition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fastrank_eval._lib.errors import FastRankEvalError
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import EARLIER, CompositionChange, Night
from fastrank_eval.apps.nightly.text import SIGNIFICANT, ago, digits_for
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.measures.parser import measure as measure_of
from fastrank_eval.results.attribution import (
    Decomposition,
    decompose_by_slices,
    is_mean,
    slicings_of,
)
from fastrank_eval.results.gates import ALL
from fastrank_eval.results.report import amount
from fastrank_eval.results.state import State
from fastrank_eval.slicing.spec import parse

#: The largest remainder, as a share of all parts, of slices that explain a change.
_SMALL_REMAINDER = 0.01
#: Names of the two nights in the values to decompose.
_BEFORE, _AFTER = "before", "after"


def with_compositions(night: Night, history: History) -> Night:
    """Add the decompositions of the changes since earlier nights.

    Each model and measure that is a mean over groups has one for yesterday and one for last week,
    by one slicing, the same for all models. Slicings whose slices explain the changes (with a
    remainder of at most 1 % of all parts) come first, and of these the one with the largest
    composition; else the one with the smallest remainder. Slices of few groups count too.

    Parameters
    ----------
    night : Night
        With its differences.
    history : History
        The store of the night and the earlier nights.

    Returns
    -------
    Night
        Without decompositions if a state is missing or cannot be read.
    """
    kinds = [kind for kind in EARLIER if any(d.kind == kind for d in night.compared)]
    if not kinds or not night.conventions.get("by"):
        return night
    latest = _sliced(history.state(night.date, "groups"))
    compositions: list[CompositionChange] = []
    for kind in kinds if latest else ():
        date = night.date - dt.timedelta(days=EARLIER[kind])
        # A provisional night is compared with provisional values, whose state may be replaced.
        if night.provisional and not any(one.is_early for one in history.heads(date, date)):
            continue
        compositions += _compositions(kind, night, latest, _sliced(history.state(date, "groups")))
    return replace(night, compositions=tuple(compositions))


def find_composition(night: Night, kind: str, score: str, measure: str) -> CompositionChange | None:
    """Find the decomposition of a change on all rows."""
    key = kind, score, measure
    found = (one for one in night.compositions if (one.kind, one.score, one.measure) == key)
    return next(found, None)


def composition_parts(one: CompositionChange) -> list[tuple[str, str]]:
    """Format the parts of a change, each with its name.

    Returns
    -------
    list of tuple of (str, str)
        Within slices and composition; the remainder only if it is not 0 as it is printed.
    """
    digits = digits_for(abs(one.difference))
    parts = [
        ("within slices", one.within),
        (f"composition of {parse(one.by).short}", one.composition),
    ]
    if round(one.remainder, digits):
        parts.append(("not by these slices", one.remainder))
    return [(name, amount(value, digits, sign=True)) for name, value in parts]


def composition_texts(night: Night) -> list[str]:
    """Describe the decompositions of the significant changes on all rows.

    Returns
    -------
    list of str
        Of the first measure that is a mean over groups.
    """
    first = next((one.measure for one in night.compositions), "")
    significant = {
        (d.kind, d.score): d.delta
        for d in night.compared
        if d.slice == ALL and d.measure == first and d.verdict in SIGNIFICANT
    }
    return [
        f"{night.name_of(one.measure)} of {one.score} since {ago(one.kind)}: "
        + ", ".join(f"{name} {number}" for name, number in composition_parts(one))
        for one in night.compositions
        if one.measure == first and (one.kind, one.score) in significant
    ]


#: Values of a night by slicing, with the edges of the slicing; those of all rows are under "".
_Sliced = dict[str, tuple[object, list[MeasureValue]]]


def _sliced(content: bytes | None) -> _Sliced:
    """Return the values of a state; empty if it is missing or cannot be read."""
    if content is None:
        return {}
    try:
        state = State.from_bytes(content)
        values = state.evaluation(min_groups=1).summary if state.rows else []
    except FastRankEvalError:  # the notes of the periods name it
        return {}
    result: _Sliced = {}
    for value in values:
        by = value.by or ""
        result.setdefault(by, (state.slicings.get(by), []))[1].append(value)
    return result


def _compositions(
    kind: str, night: Night, latest: _Sliced, earlier: _Sliced
) -> Iterator[CompositionChange]:
    # Slices of other edges, such as those by quantiles of each night, are not comparable.
    common = [by for by in latest if by in earlier and latest[by][0] == earlier[by][0]]
    if len(common) < 2:
        return
    sides_by_score = {
        score: [
            replace(value, score=side)
            for side, sliced in ((_BEFORE, earlier), (_AFTER, latest))
            for by in common
            for value in sliced[by][1]
            if value.score == score
        ]
        for score in night.models
    }
    for measure in (text for text in night.measures if is_mean(measure_of(text))):
        on_both = {
            score: sides
            for score, sides in sides_by_score.items()
            if {v.score for v in sides if v.measure == measure and v.by is None}
            == {_BEFORE, _AFTER}
        }
        by, parts_by_score = _best(on_both, measure)
        for score, parts in parts_by_score.items():
            numbers = parts.difference, parts.within, parts.composition, parts.remainder
            yield CompositionChange(kind, score, measure, by, *numbers)


def _best(
    sides_by_score: Mapping[str, Sequence[MeasureValue]], measure: str
) -> tuple[str, dict[str, Decomposition]]:
    """Choose one slicing for all models, and split their changes."""
    slicings = [slicings_of(sides) for sides in sides_by_score.values()]
    decompositions = {
        by: {
            score: decompose_by_slices(sides, measure, _BEFORE, _AFTER, by)
            for score, sides in sides_by_score.items()
        }
        for by in (slicings[0] if slicings else ())
        if all(by in of_model for of_model in slicings)
    }

    def rank(by: str) -> tuple[bool, float]:
        every = decompositions[by].values()
        remainder = sum(abs(parts.remainder) for parts in every)
        composition = sum(abs(parts.composition) for parts in every)
        size = sum(abs(parts.within) for parts in every) + composition + remainder
        if remainder <= _SMALL_REMAINDER * size:
            return False, -composition
        return True, remainder

    by = min(decompositions, key=rank, default="")
    return by, decompositions.get(by, {})
