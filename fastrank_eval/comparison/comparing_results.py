"""Result.compare(): models of one result, or of two results over the same groups."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from fastrank_eval.arguments import column_name
from fastrank_eval.comparison.compared_value import ComparedValue
from fastrank_eval.comparison.comparing import choices_of, meta_of
from fastrank_eval.comparison.comparison import Comparison
from fastrank_eval.comparison.decomposing import sliced_by
from fastrank_eval.comparison.evidence import NO_ERROR, NOT_PAIRED, Evidence, of_groups
from fastrank_eval.comparison.group_join import GroupJoin, join_groups
from fastrank_eval.comparison.kept_groups import KeptGroups, groups_of
from fastrank_eval.comparison.model_tests import Choices, refuse_pooled
from fastrank_eval.comparison.settled_lines import compared_model, corrected
from fastrank_eval.errors import ArgumentError, near
from fastrank_eval.mean_state import MeanState
from fastrank_eval.measure_value import MeasureValue
from fastrank_eval.measures import Measure, measure
from fastrank_eval.meta import Meta
from fastrank_eval.paired_state import PairedState
from fastrank_eval.plain_values import plain_value

if TYPE_CHECKING:
    from fastrank_eval.result import Result

__all__ = ["compare_results"]

#: Conventions that change no value, or that a comparison has of its own.
_FREE = ("confidence", "order", "spilled", "measures", "merged")
#: What says which rows and slices there are: two results may be of other rows.
_OF_ROWS = ("by", "min_groups", "slices_left_out", "where", "limit")


def compare_results(
    result: Result,
    other: Result | None,
    baseline: str | None,
    *,
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    confidence: float | None = None,
    threads: int | None = None,
) -> Comparison:
    """The body of `Result.compare`; see there."""
    started = perf_counter()
    if confidence is None:
        known = result.meta.conventions.get("confidence")
        confidence = known if isinstance(known, float) else 0.95
    choices = choices_of(test, correction, confidence, replicates, seed, threads)
    base = _baseline(result, other, baseline)
    texts = result.measures if other is None else _common(result, other)
    measures = [measure(text) for text in texts]
    refuse_pooled(choices.test, measures)
    joined: GroupJoin | None = None
    if other is None:
        kept, evaluated = groups_of(result), list(result.values)
        candidates = [score for score in result.scores if score != base]
    else:
        _check_conventions(result, other, texts)
        taken = {base, *other.scores} if base in other.scores else {base}
        names = {score: score if score != base else _other(score, taken) for score in other.scores}
        joined = join_groups(
            groups_of(result), result.scores.index(base), groups_of(other), texts, names
        )
        kept, candidates = joined.groups, list(names.values())
        evaluated = [
            replace(v, score=name)
            for held, called in ((result, {base: base}), (other, names))
            for v in held.values
            if v.measure in texts and (name := called.get(v.score)) is not None
        ]
    place = kept.scores.index(base)
    places = [kept.measures.index(m) for m in measures]
    lines = {(v.by, v.slice, v.score, v.measure): v for v in evaluated}
    found = []
    for name in candidates:
        model = kept.scores.index(name)
        evidence = [
            NO_ERROR if kept.measures[m].pooled else _of_arrays(kept, place, model, m)
            for m in places
        ]
        sides = [[lines[None, "all", score, text] for text in texts] for score in (base, name)]
        found += compared_model(measures, sides[0], sides[1], evidence, choices, kept)
    by_text = dict(zip(texts, measures, strict=True))
    found = corrected(found, by_text, choices)
    slicings = sliced_by(result.values)
    if other is not None:
        slicings = tuple(by for by in slicings if by in sliced_by(other.values))
    for by in slicings:
        found += corrected(
            _of_slices(lines, by, measures, base, candidates, choices), by_text, choices
        )
    meta = meta_of(
        result.meta if other is None else _of_both(result, other, slicings), base, choices
    )
    seconds = meta.seconds if other is None else meta.seconds + other.meta.seconds
    return Comparison(
        found,
        replace(meta, seconds=seconds + perf_counter() - started),
        base,
        candidates,
        texts,
        result.asked,
        kept,
        None if joined is None else joined.counts,
        [v for v in evaluated if v.by is None or v.by in slicings],
    )


def _other(score: str, taken: Collection[str]) -> str:
    """What a model is called that bears the name of the baseline."""
    while score in taken:
        score = f"other.{score}"
    return score


def _of_arrays(kept: KeptGroups, base: int, model: int, m: int) -> Evidence:
    """The evidence of values per group, by the same exact sums as in one pass."""
    paired = PairedState(1)
    sides = [(kept.used(place, m), kept.weights.get((place, m))) for place in (base, model)]
    states = []
    for values, weights in sides:
        state, ones = MeanState(1), np.ones(len(values), np.int64)
        state.add(0, values, weights, ones, ones)
        states.append(state)
    (mine, my_weights), (theirs, their_weights) = sides
    paired.add(0, mine, theirs, my_weights, their_weights)
    return of_groups(kept.measures[m], 0, states[0], states[1], paired)


def _of_slices(
    lines: Mapping[tuple[str | None, str, str, str], MeasureValue],
    by: str,
    measures: Sequence[Measure],
    base: str,
    candidates: Sequence[str],
    choices: Choices,
) -> list[ComparedValue]:
    """Every slice of a slicing, candidate and measure, from their values alone."""
    slices = dict.fromkeys(part for of, part, *_ in lines if of == by)
    evidence = [NOT_PAIRED] * len(measures)
    found = []
    for part in slices:
        for name in candidates:
            sides = [[_line(lines, (by, part, side), m) for m in measures] for side in (base, name)]
            found += compared_model(measures, sides[0], sides[1], evidence, choices, None)
    return found


def _line(
    lines: Mapping[tuple[str | None, str, str, str], MeasureValue],
    place: tuple[str, str, str],
    known: Measure,
) -> MeasureValue:
    """A model's value of a slice, undefined where its result has no such slice."""
    found = lines.get((*place, str(known)))
    if found is not None:
        return found
    by, part, score = place
    aggregate = "pooled" if known.pooled else known.aggregate
    nan = math.nan
    return MeasureValue(score, part, str(known), nan, 0, 0, {}, nan, nan, aggregate, by=by)


def _of_both(result: Result, other: Result, slicings: Sequence[str]) -> Meta:
    """What both results rest on: neither which rows one of them has, nor its slices alone."""
    mine, theirs = result.meta.conventions, other.meta.conventions
    shared = {
        name: value
        for name, value in mine.items()
        if name not in _OF_ROWS
        or (name in theirs and plain_value(value) == plain_value(theirs[name]))
    }
    shared.pop("by", None)
    if slicings:
        shared["by"] = list(slicings)
    return replace(result.meta, conventions=shared)


def _baseline(result: Result, other: Result | None, given: str | None) -> str:
    if given is None and other is not None and len(result.scores) == 1:
        return result.scores[0]
    names = ", ".join(map(repr, result.scores))
    if given is None:
        raise ArgumentError(f"name the baseline, one of {names}: baseline=...")
    name = column_name("baseline", given)
    if name not in result.scores:
        raise ArgumentError(
            f"baseline={name!r} is none of the score columns {names} of this result."
            f"{near(name, result.scores)}"
        )
    if other is None and len(result.scores) < 2:
        raise ArgumentError(
            f"this result has no other model than {name!r}; pass the result that has: "
            "base.compare(candidate)."
        )
    return name


def _common(result: Result, other: Result) -> tuple[str, ...]:
    """Measures that both results hold."""
    found = tuple(text for text in result.measures if text in other.measures)
    if not found:
        raise ArgumentError(
            f"the results share no measure: one holds {', '.join(result.measures)}, the other "
            f"{', '.join(other.measures)}; evaluate both by the same."
        )
    return found


def _check_conventions(result: Result, other: Result, texts: Sequence[str]) -> None:
    """Refuse results by different conventions, and name the first that differs."""
    mine, theirs = (plain_value(r.meta.conventions) for r in (result, other))
    names = [name for name in dict.fromkeys([*mine, *theirs]) if name not in _FREE + _OF_ROWS]
    pairs = [(name, mine.get(name), theirs.get(name)) for name in names]
    of_mine, of_theirs = mine.get("measures") or {}, theirs.get("measures") or {}
    pairs += [(f"options of {text}", of_mine.get(text), of_theirs.get(text)) for text in texts]
    for name, ours, others in pairs:
        if ours != others:
            raise ArgumentError(
                f"the results are not of the same conventions: {name} is {ours!r} in one and "
                f"{others!r} in the other; evaluate both by the same."
            )
