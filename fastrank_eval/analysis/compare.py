"""Compare models with a baseline."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from fastrank_eval._lib.arguments import (
    at_least_one,
    check_choice,
    check_options,
    column_name,
    open_share,
    processors,
    typed,
)
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.analysis.attribution import sliced_by
from fastrank_eval.analysis.compare_tests import (
    NO_ERROR,
    NOT_PAIRED,
    RESAMPLING,
    TESTS,
    Choices,
    Evidence,
    compared_model,
    corrected,
    of_groups,
    of_pool,
    refuse_pooled,
)
from fastrank_eval.analysis.compared_value import ComparedValue
from fastrank_eval.analysis.comparison import Comparison
from fastrank_eval.analysis.group_join import (
    GroupJoin,
    GroupRecords,
    group_records,
    groups_of,
    join_groups,
)
from fastrank_eval.engine.conventions import requested_names
from fastrank_eval.engine.records import MeasureValue, Meta, plain_value
from fastrank_eval.engine.run import Evaluation, run
from fastrank_eval.engine.totals import RowStates, Sums
from fastrank_eval.measures import Measure, measure
from fastrank_eval.measures.parser import requested_measures, spelled_out
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.results.evaluate import result_of
from fastrank_eval.stats.hypothesis_tests import CORRECTIONS
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.paired import PairedState

if TYPE_CHECKING:
    from fastrank_eval.engine.group_values import SavedGroups
    from fastrank_eval.results.result import Result
    from fastrank_eval.results.state import State

__all__ = [
    "choices_of",
    "compare",
    "compare_results",
    "compare_states",
    "comparison_of",
    "meta_of",
    "names_of_measures",
    "names_of_scores",
]


@typed
def compare(
    source: object,
    *,
    group: str | Sequence[str],
    label: str,
    score: str | Sequence[str],
    baseline: str,
    measures: str | Measure | Sequence[str | Measure],
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    threads: int | None = None,
    per_group: bool = True,
    **options: Any,
) -> Comparison:
    """Evaluate models in one pass and tell which are better than a baseline, and how surely.

    The difference of a measure has the paired standard error of two ratios of sums over groups,
    ``sqrt(U / (U - 1) * sum of (e_b - e_a)^2)`` with ``e = w (A - mean) / sum of w`` of each of U
    groups that either model uses: what both models find hard or easy cancels.

    Parameters
    ----------
    source : object
        As `evaluate` takes it.
    group, label, score, measures
        As `evaluate` takes them, with two score columns or more. AUC is taken with
        ``se="clustered"``, for which the score of every row is kept, unless `se`, `bins` or
        `max_fpr` is given.
    baseline : str
        The score column that every other is compared with.
    test : str
        ``"clustered_t"``: the difference over its standard error, groups being clusters, by
        Student's t with one degree of freedom less than groups. ``"clustered_z"``: by the normal
        distribution. ``"paired_t"``, ``"wilcoxon"``, ``"sign"``: of the differences of groups that
        both models use, each group counting once, whatever its weight. ``"randomisation"``: of the
        measure itself, where models change places in groups at random. ``"bootstrap"``: of the
        measure itself over groups drawn anew, with its own standard error and interval
        (percentiles). All are two-sided. All but the first two need a value for each group, which
        measures of all rows together do not have; slices are tested by the first.
    correction : {"holm", "bh", "none"}
        Of the p-values of every measure and candidate together (Holm, or Benjamini and Hochberg);
        those of slices by every slice of a slicing, measure and candidate together.
    replicates, seed : int
        Of randomisation and bootstrap. The result has the same bits for any order of the rows and
        number of threads.
    confidence : float
        In ]0, 1[: of intervals; a difference is shown where the adjusted p-value is at most
        ``1 - confidence``.
    threads : int, optional
        As `evaluate` takes it.
    per_group : bool
        Keep every group's values for `Comparison.movers` and `Comparison.per_group`; False bounds
        memory for endless groups, where AUC with a clustered error is not among the measures.
    **options
        Any other argument of `evaluate`.

    Returns
    -------
    Comparison

    Raises
    ------
    FastRankEvalError
        As `evaluate` does; `ArgumentError` too where a measure cannot have a test.

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919; Holm (1979); Benjamini & Hochberg
    (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> log = {"user": [1, 1, 2, 2, 3, 3], "click": [0, 1, 1, 0, 1, 0],
    ...        "old": [0.1, 0.4, 0.2, 0.3, 0.5, 0.6], "new": [0.1, 0.4, 0.4, 0.3, 0.5, 0.6]}
    >>> found = fe.compare(log, group="user", label="click", score=["old", "new"], baseline="old",
    ...                    measures="GAUC,RR")
    >>> line = found.line("GAUC")
    >>> round(line.delta, 4), line.wins, line.ties, line.losses
    (0.3333, 1, 2, 0)
    """
    started = perf_counter()
    given = {"group", "label", "score", "measures", "baseline", *options}
    check_options("compare", given, run)
    column_name("baseline", baseline)
    choices = choices_of(test, correction, confidence, replicates, seed, threads)
    requested = requested_measures(measures)
    taken = names_of_measures(requested)
    refuse_pooled(choices.test, requested)
    if choices.needs_groups and not per_group:
        raise ArgumentError(
            f"test={test!r} reads the values of every group, which per_group=False does not keep; "
            "leave it out, or choose test='clustered_t'."
        )
    done = run(
        source,
        group=group,
        label=label,
        score=score,
        measures=taken,
        baseline=baseline,
        confidence=confidence,
        threads=threads,
        per_group=per_group,
        **options,
    )
    return comparison_of(done, choices, names_of_scores(requested, taken, done.requested), started)


def comparison_of(
    done: Evaluation, choices: Choices, requested: Mapping[str, str], started: float
) -> Comparison:
    """The comparison that an evaluation with a baseline comes to.

    Parameters
    ----------
    done : Evaluation
        Of a run, or of a saved state. Values of groups, if it kept them, are taken over.
    choices : Choices
    asked : mapping of str to str
        What measures were called that are computed with other options.
    started : float
        By `time.perf_counter`.
    """
    plan = done.plan
    if plan.baseline is None:
        raise ArgumentError(
            "there is no baseline to compare with; name one of the score columns: baseline=..."
        )
    kept = None
    if plan.per_group:
        kept = group_records(plan, done.keys, done.values, done.schema)
        done.values.clear()  # they are in `kept` now, and may be large
    baseline = plan.roles.scores[plan.baseline]
    meta = meta_of(done.meta, baseline, choices)
    return Comparison(
        _lines(done, plan.baseline, kept, choices),
        replace(meta, seconds=perf_counter() - started, requested=dict(requested)),
        baseline,
        [plan.roles.scores[model] for model in plan.rivals],
        [str(m) for m in plan.measures],
        requested,
        kept,
        evaluated=done.lines,
    )


def names_of_measures(requested: Sequence[Measure]) -> tuple[Measure, ...]:
    """Measures as they are compared: AUC as it has a clustered error, if options allow."""
    return tuple(
        m(se="clustered") if m.name == "AUC" and not m.given & {"se", "bins", "max_fpr"} else m
        for m in requested
    )


def names_of_scores(
    requested: Sequence[Measure], taken: Sequence[Measure], renamed: Mapping[str, str]
) -> dict[str, str]:
    """Map names of measures that are computed with other options to the texts of those."""
    return requested_names(requested, [renamed.get(spelled_out(mine), str(mine)) for mine in taken])


def choices_of(
    test: str,
    correction: str,
    confidence: float,
    replicates: int,
    seed: int,
    threads: int | None,
) -> Choices:
    """How models are compared, once the arguments are checked."""
    check_choice("test", test, TESTS)
    check_choice("correction", correction, ("none", *CORRECTIONS))
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 1 << 64:
        raise ArgumentError(f"seed={seed!r} is not a whole number from 0 to 2^64 - 1.")
    return Choices(
        test,
        correction,
        open_share("confidence", confidence),
        at_least_one("replicates", replicates, 10_000),
        int(seed),
        at_least_one("threads", threads, processors()),
    )


def meta_of(meta: Meta, baseline: str, choices: Choices) -> Meta:
    """What the numbers of a comparison rest on."""
    drawn = choices.test in RESAMPLING
    conventions = {
        "baseline": baseline,
        "test": choices.test,
        "correction": choices.correction,
        "replicates": choices.replicates if drawn else None,
        "seed": choices.seed if drawn else None,
    }
    return replace(
        meta, conventions={**conventions, **meta.conventions, "confidence": choices.confidence}
    )


def _lines(
    done: Evaluation, base: int, kept: GroupRecords | None, choices: Choices
) -> list[ComparedValue]:
    plan, totals = done.plan, done.totals
    # Slicings by bins may share a label: "age<18" is a bin of many.
    values = {(v.by, v.slice, v.score, v.measure): v for v in done.lines}
    measures = {str(m): m for m in plan.measures}

    def on_line(
        sums: Sums,
        line: int,
        pools: RowStates,
        part: tuple[str | None, str],
        kept: GroupRecords | None,
    ) -> list[ComparedValue]:
        """Every candidate and measure on one line of the sums."""
        found = []
        for model in plan.rivals:
            lines = [
                tuple(values[*part, plan.roles.scores[side], text] for text in measures)
                for side in (base, model)
            ]
            known = [
                of_pool(
                    pools,
                    model,
                    measure,
                    plan.threads,
                    sums.rows(line),
                    sums.carriers(line),
                )
                if isinstance(measure, PooledMeasure)
                else of_groups(
                    measure, m, sums.means[base], sums.means[model], sums.pairs[model], line
                )
                for m, measure in enumerate(plan.measures)
            ]
            found += compared_model(plan.measures, lines[0], lines[1], known, choices, kept)
        return found

    whole = on_line(totals.whole, 0, totals.shared.whole, (None, "all"), kept)
    found = corrected(whole, measures, choices)
    for slicing, sums, pools in zip(
        plan.slicings, totals.slices, totals.shared.slices, strict=True
    ):
        lines: list[ComparedValue] = []
        slices = slicing.slices()
        for line, label in zip(slices.codes.tolist(), slices.labels, strict=True):
            part = str(slicing.spec), label
            if (*part, plan.roles.scores[base], str(plan.measures[0])) in values:
                lines += on_line(sums, line, pools.of(line), part, None)
        found += corrected(lines, measures, choices)
    return found


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
        result.requested,
        kept,
        None if joined is None else joined.counts,
        [v for v in evaluated if v.by is None or v.by in slicings],
    )


def _other(score: str, taken: Collection[str]) -> str:
    """What a model is called that bears the name of the baseline."""
    while score in taken:
        score = f"other.{score}"
    return score


def _of_arrays(kept: GroupRecords, base: int, model: int, m: int) -> Evidence:
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


_KEEP = "evaluate with keep_groups=True (--keep-groups)"


def compare_states(
    state: State,
    other: State | None,
    baseline: str | None,
    *,
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    confidence: float | None = None,
    min_groups: int | None = None,
    threads: int | None = None,
) -> Comparison:
    """The body of `State.compare`; see there."""
    started = perf_counter()
    given = 0.95 if confidence is None else confidence
    choices = choices_of(test, correction, given, replicates, seed, threads)
    base = state.baseline if baseline is None else column_name("baseline", baseline)
    if other is None and base is not None and base == state.baseline:
        if choices.needs_groups and not state.has_groups:
            raise ArgumentError(
                f"test={test!r} reads the values of every group, which {state.shown} has not; "
                f"{_KEEP}, or choose test='clustered_t'."
            )
        done = state.evaluation(confidence=confidence, min_groups=min_groups)
        refuse_pooled(test, done.plan.measures)
        choices = choices_of(test, correction, done.plan.confidence, replicates, seed, threads)
        return comparison_of(done, choices, state.requested, started)
    for each in (state,) if other is None else (state, other):
        _require_groups(each, alone=other is None)
    done = state.evaluation(confidence=confidence, min_groups=min_groups)
    share = done.plan.confidence
    theirs = None if other is None else other.result(confidence=share, min_groups=min_groups)
    return result_of(done).compare(
        theirs,
        baseline=base,
        test=test,
        correction=correction,
        replicates=replicates,
        seed=seed,
        threads=threads,
    )


def _require_groups(state: State, *, alone: bool) -> None:
    """Refuse a state whose groups cannot be told apart by their keys."""
    groups = state.values_of_groups()
    if groups is None and alone:
        held = "has no baseline" if state.baseline is None else f"has baseline {state.baseline!r}"
        raise ArgumentError(
            f"{state.shown} {held}, and no values of groups to compare other models by; evaluate "
            f"with the baseline that is wanted, baseline=... (--baseline), or {_KEEP}."
        )
    if groups is None:
        raise ArgumentError(
            f"{state.shown} has no keys of groups, by which it could be joined with another; "
            f"{_KEEP}."
        )
    if not alone and _crossing(groups):
        raise ArgumentError(
            f"{state.shown} has groups that were merged in parts, so that they cannot be joined "
            "with those of another by their keys; evaluate the rows of a group together."
        )


def _crossing(groups: SavedGroups) -> bool:
    order = np.lexsort(groups.ranks()[::-1])
    return bool(groups.repeated(order).any())
