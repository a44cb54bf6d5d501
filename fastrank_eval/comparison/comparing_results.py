"""Result.compare(): models of one result, or of two results over the same groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from fastrank_eval.arguments import column_name
from fastrank_eval.comparison.comparing import choices_of, meta_of
from fastrank_eval.comparison.comparison import Comparison
from fastrank_eval.comparison.evidence import NO_ERROR, Evidence, of_groups
from fastrank_eval.comparison.group_join import GroupJoin, join_groups
from fastrank_eval.comparison.kept_groups import KeptGroups, groups_of
from fastrank_eval.comparison.model_tests import refuse_pooled
from fastrank_eval.comparison.settled_lines import compared_model, corrected
from fastrank_eval.errors import ArgumentError, near
from fastrank_eval.mean_state import MeanState
from fastrank_eval.measure_value import MeasureValue
from fastrank_eval.measures import measure
from fastrank_eval.paired_state import PairedState
from fastrank_eval.plain_values import plain_value

if TYPE_CHECKING:
    from fastrank_eval.result import Result

__all__ = ["compare_results"]

#: Conventions that change no value, or that a comparison has of its own.
_FREE = ("confidence", "order", "spilled", "measures")


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
        kept, lines = groups_of(result), _by_name(result)
        candidates = [score for score in result.scores if score != base]
    else:
        _check_conventions(result, other, texts)
        taken = {base, *other.scores} if base in other.scores else {base}
        names = {score: score if score != base else _other(score, taken) for score in other.scores}
        joined = join_groups(
            groups_of(result), result.scores.index(base), groups_of(other), texts, names
        )
        kept, candidates = joined.groups, list(names.values())
        lines = _by_name(result) | _by_name(other, names)
    place = kept.scores.index(base)
    places = [kept.measures.index(m) for m in measures]
    found = []
    for name in candidates:
        model = kept.scores.index(name)
        evidence = [
            NO_ERROR if kept.measures[m].pooled else _of_arrays(kept, place, model, m)
            for m in places
        ]
        sides = [[lines[score, text] for text in texts] for score in (base, name)]
        found += compared_model(measures, sides[0], sides[1], evidence, choices, kept)
    meta = meta_of(result.meta, base, choices)
    seconds = meta.seconds if other is None else meta.seconds + other.meta.seconds
    return Comparison(
        corrected(found, dict(zip(texts, measures, strict=True)), choices),
        replace(meta, seconds=seconds + perf_counter() - started),
        base,
        candidates,
        texts,
        result.asked,
        kept,
        None if joined is None else joined.counts,
        list(lines.values()),
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


def _by_name(
    result: Result, names: Mapping[str, str] | None = None
) -> dict[tuple[str, str], MeasureValue]:
    """Values over all rows by score column and measure, the columns renamed."""
    found = {}
    for value in result.values:
        name = value.score if names is None else names[value.score]
        if value.slice == "all":
            found[name, value.measure] = replace(value, score=name)
    return found


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
    names = [name for name in dict.fromkeys([*mine, *theirs]) if name not in _FREE]
    pairs = [(name, mine.get(name), theirs.get(name)) for name in names]
    of_mine, of_theirs = mine.get("measures") or {}, theirs.get("measures") or {}
    pairs += [(f"options of {text}", of_mine.get(text), of_theirs.get(text)) for text in texts]
    for name, ours, others in pairs:
        if ours != others:
            raise ArgumentError(
                f"the results are not of the same conventions: {name} is {ours!r} in one and "
                f"{others!r} in the other; evaluate both by the same."
            )
