"""Check a measure of your own against the laws that all measures obey.

Two lines of a test file are enough::

    def test_laws_of_hits():
        check_measure(Hits() @ 3, oracle=hits)

As a plugin of pytest it makes each law a test of its own::

    pytest_plugins = ["fastrank_eval.testing"]

    def test_hits(measure_law):
        measure_law(Hits() @ 3, oracle=hits)

`docs/how-to/own-measures.md` in the source distribution has the whole example. Each law is a
function too, which raises AssertionError for groups of rows that break it; the tests of this
package call them for all measures at once.
"""

from __future__ import annotations

import functools
import itertools
import math
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias
from unittest import SkipTest

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import checked, one_of
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine.run import run
from fastrank_eval.measures import Measure, measure
from fastrank_eval.results.evaluate import partial
from fastrank_eval.results.result import Result
from fastrank_eval.results.result import result_of as result_of_run

#: Policies that order tied rows.
TIES = ("expected", "input", "item", "best", "worst")
#: Numbers of a line of a result.
NUMBERS = ("value", "se", "ci_low", "ci_high", "effective_groups")


class Row(NamedTuple):
    """One row: score None is not retrieved, label None is not judged."""

    score: float | None
    label: float | None
    weight: float = 1.0
    item: str = ""
    subtopics: tuple[int, ...] | None = None


Groups = Sequence[Sequence[Row]]
Measures = Sequence[str | Measure]
Oracle = Callable[[list[Row]], float]


def table_of(groups: Groups, label: pa.DataType | None = None) -> pa.Table:
    """Write groups as a table, in the order of the rows.

    Its columns are group, item, label, score, weight, and subtopics if a row has them.
    """
    rows = [(number, row) for number, group in enumerate(groups) for row in group]
    columns = {
        "group": pa.array([number for number, _ in rows], pa.int64()),
        "item": pa.array([row.item for _, row in rows], pa.string()),
        "label": pa.array([row.label for _, row in rows], label or pa.float64()),
        "score": pa.array([row.score for _, row in rows], pa.float64()),
        "weight": pa.array([row.weight for _, row in rows], pa.float64()),
    }
    if any(row.subtopics is not None for _, row in rows):
        lists = [row.subtopics or () for _, row in rows]
        columns["subtopics"] = pa.array(lists, pa.list_(pa.int64()))
    return pa.table(columns)


_COLUMNS: dict[str, Any] = {
    "group": "group",
    "label": "label",
    "score": "score",
    "unretrieved": "allow",
}


def _roles(measures: Measures) -> dict[str, Any]:
    """Return the columns of the table that measures read."""
    covers = any(measure(one).needs_subtopics for one in measures)
    return _COLUMNS | ({"subtopics": "subtopics"} if covers else {})


def result_of(source: Any, measures: Measures, **options: Any) -> Result:
    """Evaluate a table of groups, its batches or a file of it."""
    if options.get("ties") == "item":
        options["item"] = "item"
    # Measures of all rows alone do not group rows.
    options.setdefault("keep", "values")
    return result_of_run(run(source, measures=list(measures), **_roles(measures), **options))


def values_of_groups(result: Result) -> dict[str, np.ndarray]:
    """Return the values of each group by measure, NaN where undefined."""
    table = result.per_group
    names = [name for name in table.column_names if name not in ("group", "rows", "positives")]
    return {name: table[name].to_numpy() for name in names}


def _bits_of_lines(result: Result) -> dict[str, Any]:
    return {
        line["measure"]: [
            None if line[name] is None else float(line[name]).hex() for name in NUMBERS
        ]
        for line in result.document()["results"]
    }


def bits(result: Result) -> dict[str, Any]:
    """Return all bits of the numbers of a result, of each group too."""
    lines = _bits_of_lines(result)
    keys = result.per_group["group"].to_pylist()
    for text, values in values_of_groups(result).items():
        lines[f"{text} by group"] = dict(zip(keys, map(float.hex, values.tolist()), strict=True))
    return lines


def coverage(result: Result) -> list[dict[str, Any]]:
    """Return what a result says of groups and rows, without numbers."""
    apart = (*NUMBERS, "weight")
    lines = result.document()["results"]
    return [{name: line[name] for name in line if name not in apart} for line in lines]


def _that(condition: bool, law: str, *seen: object) -> None:
    """Raise AssertionError with the law that does not hold."""
    if not condition:
        raise AssertionError(": ".join(map(str, (law, *seen))))


def _same(again: Result, once: Result, law: str) -> None:
    _that(bits(again) == bits(once), law, "other bits", bits(again), bits(once))
    _that(coverage(again) == coverage(once), law, "other coverage")


def _near(again: Result, once: Result, measures: Measures, law: str) -> None:
    for text in map(str, measures):
        new, old = again.value(text), once.value(text)
        same = math.isnan(old) if math.isnan(new) else abs(new - old) <= 1e-12 * max(1, abs(old))
        _that(same, law, text, new, old)


# ---- weights -------------------------------------------------------------------------------------


def weights_times_a_constant(measures: Measures, groups: Groups, factor: float) -> None:
    """Check that row weights times a number change nothing.

    A power of two changes no bit.
    """
    scaled = [[row._replace(weight=row.weight * factor) for row in group] for group in groups]
    once = result_of(table_of(groups), measures, weight="weight")
    again = result_of(table_of(scaled), measures, weight="weight")
    law = f"row weights times {factor}"
    _that(coverage(again) == coverage(once), law, "other coverage")
    if math.frexp(factor)[0] != 0.5:
        _near(again, once, measures, law)
        return
    _that(bits(again) == bits(once), law, "other bits")
    for new, old in zip(again.values, once.values, strict=True):
        # Group weights that count rows grow with the rows' weights; the others stay.
        grown = [old.weight * factor**power for power in (0, 1, 2)]
        same = math.isnan(new.weight) and math.isnan(old.weight)
        same |= any(math.isclose(new.weight, weight, rel_tol=1e-9) for weight in grown)
        _that(same, law, old)


def weights_of_one(measures: Measures, groups: Groups) -> None:
    """Check that row weights of one are no weights."""
    table = table_of([[row._replace(weight=1.0) for row in group] for group in groups])
    once, again = result_of(table, measures), result_of(table, measures, weight="weight")
    _near(again, once, measures, "row weights of one")


# ---- rows, batches, threads, states --------------------------------------------------------------


def permuted_rows(
    measures: Measures, groups: Groups, order: Sequence[int], weight: str | None = None
) -> None:
    """Check that a permutation of the rows changes no bit."""
    table = table_of(groups)
    once = result_of(table, measures, weight=weight)
    _same(result_of(table.take(order), measures, weight=weight), once, "permuted rows")


def increasing_map_of_scores(measures: Measures, groups: Groups, images: Sequence[float]) -> None:
    """Check that a strictly increasing map of scores changes no bit."""
    levels = sorted({row.score for group in groups for row in group if row.score is not None})
    image: dict[float | None, float | None] = dict(zip(levels, sorted(images), strict=False))
    image[None] = None
    mapped = [[row._replace(score=image[row.score]) for row in group] for group in groups]
    once, again = (result_of(table_of(rows), measures) for rows in (groups, mapped))
    _that(bits(again) == bits(once), "an increasing map of scores", "other bits")


def batches(measures: Measures, groups: Groups, cuts: Sequence[int], ties: str) -> None:
    """Check that the batches of the rows change no bit."""
    table = table_of(groups)
    edges = sorted({0, table.num_rows, *(cut % (table.num_rows + 1) for cut in cuts)})
    parts = [
        batch
        for start, stop in itertools.pairwise(edges)
        for batch in table.slice(start, stop - start).combine_chunks().to_batches()
    ]
    reader = pa.RecordBatchReader.from_batches(table.schema, parts)
    again = result_of(reader, measures, ties=ties, batch_rows=len(cuts) + 1)
    _same(again, result_of(table, measures, ties=ties), "batches")


def threads(
    measures: Measures,
    groups: Groups,
    order: Sequence[int] | None = None,
    weight: str | None = None,
) -> None:
    """Check that threads, and the rows of each, change no bit."""
    table = table_of(groups)
    wanted = bits(result_of(table, measures, weight=weight, threads=1))
    table = table if order is None else table.take(order)
    for count, rows in ((1, 1), (1, 10**6), (2, None), (2, 7), (3, 1), (5, 64)):
        again = result_of(table, measures, weight=weight, threads=count, batch_rows=rows)
        _that(bits(again) == wanted, f"threads={count}, batch_rows={rows}", "other bits")


def merged_states(measures: Measures, groups: Groups, cut: int) -> None:
    """Check that states of two parts merge to the bits of one run."""
    rows = table_of(groups)
    first = sum(map(len, groups[: cut % (len(groups) + 1)]))
    parts = [
        partial(part, measures=list(measures), **_roles(measures))
        for part in (rows.slice(0, first), rows.slice(first))
    ]
    # Two parts of equal rows are no mistake here.
    state = parts[1].merge(parts[0], allow_repeated=True)
    merged = type(state).from_bytes(state.to_bytes()).result()
    same = _bits_of_lines(merged) == _bits_of_lines(result_of(rows, measures))
    _that(same, "merged states", "other bits")


# ---- values --------------------------------------------------------------------------------------


def undefined_group(measures: Measures, groups: Groups) -> int:
    """Check that a group with an undefined value changes only coverage.

    Returns the number of measures that are undefined for a group without positive rows.
    """
    negatives = [Row(1.0, 0), Row(0.0, 0), Row(1.0, 0)]
    once = result_of(table_of(groups), measures)
    again = result_of(table_of([*groups, negatives]), measures)
    added = again.per_group["group"].to_pylist().index(len(groups))
    values = values_of_groups(again)
    lines = zip(once.document()["results"], again.document()["results"], strict=True)
    tried = 0
    for old, new in lines:
        text = old["measure"]
        if text not in values or not math.isnan(values[text][added]):
            continue
        tried += 1
        same = (*NUMBERS, "warning", "groups_used")
        law = "a group of undefined value"
        _that(all(new[name] == old[name] for name in same), law, text, old, new)
        _that(new["groups"] == old["groups"] + 1, law, text, "groups")
        _that(sum(new["dropped"].values()) == sum(old["dropped"].values()) + 1, law, text)
        _that(old["rows_share"] == 0 or new["rows_share"] < old["rows_share"], law, text)
        _that(new["positives_share"] == old["positives_share"], law, text)
    return tried


def declared_range(measures: Measures, groups: Groups, ties: str, weighted: bool = False) -> None:
    """Check that all values lie in the range that the measure declares."""
    options = {"weight": "weight", "weight_rows": "ignore"} if weighted else {}
    result = result_of(table_of(groups), measures, ties=ties, **options)
    values = values_of_groups(result)
    for line in result.document()["results"]:
        text = line["measure"]
        low, high = measure(text).range
        inside = line["value"] is None or low <= line["value"] <= high
        of_groups = values.get(text, np.empty(0))
        of_groups = of_groups[~np.isnan(of_groups)]
        inside &= bool(((low <= of_groups) & (of_groups <= high)).all())
        _that(inside, f"range of {text}", (low, high), line["value"], of_groups)


def best_expected_worst(measures: Measures, groups: Groups) -> None:
    """Check that the best order of ties has the best value.

    The mean over all orders and the order of the rows are not better, and the worst not better
    than they.
    """
    best, expected, worst, given = (
        values_of_groups(result_of(table_of(groups), measures, ties=ties))
        for ties in ("best", "expected", "worst", "input")
    )
    for text, mean in expected.items():
        law = f"best >= expected >= worst of {text}"
        _that(bool((np.isnan(best[text]) == np.isnan(mean)).all()), law, "undefined")
        most, least = best[text], worst[text]
        if not measure(text).higher_is_better:
            most, least = least, most
        defined = ~np.isnan(mean)
        for middle in (mean, given[text]):
            _that(bool((most >= middle - 1e-12)[defined].all()), law, most, middle)
            _that(bool((middle >= least - 1e-12)[defined].all()), law, middle, least)


def computed_together(of: Measure, groups: Groups, ties: str) -> None:
    """Check that measures of one run have the bits that each has alone.

    They are the measure, at several cutoffs too, and others that read the same rankings.
    """
    table = table_of(groups)
    cutoffs = (1, 2, 4) if of.takes_cutoff else ()
    several = [of, *(of @ cutoff for cutoff in cutoffs), measure("RR"), measure("GAUC")]
    together = bits(result_of(table, several, ties=ties))
    for one in several:
        alone = bits(result_of(table, [one], ties=ties))
        same = all(together[name] == alone[name] for name in alone)
        _that(same, f"{one} beside {', '.join(map(str, several))}", "other bits than alone")


def agrees_with(oracle: Oracle, of: Measure, groups: Groups) -> None:
    """Check that values equal those of a plain definition.

    If the measure uses row weights, it is checked with them and without.

    Parameters
    ----------
    oracle : callable
        Computes the value of rows, NaN if undefined: those with a score first, best first, then
        those without. A measure of all rows gets the rows of all groups.
    of : Measure
    groups : sequence of sequences of Row
        Small: all orders of tied rows are tried.
    """
    _agree(oracle, of, [[row._replace(weight=1.0) for row in group] for group in groups], None)
    if of.uses_row_weights:
        _agree(oracle, of, groups, "weight")


def _agree(oracle: Oracle, of: Measure, groups: Groups, weight: str | None) -> None:
    if of.pooled:
        results: Any = [result_of(table_of(groups), [of], weight=weight).value(of)]
        wanted = [oracle([row for group in groups for row in group])]
    else:
        ties = "input" if of.refuses("expected") else "expected"
        results = result_of(table_of(groups), [of], ties=ties, weight=weight)[of]
        several = ([*map(oracle, orders(group, ties == "expected"))] for group in groups)
        wanted = [math.fsum(values) / len(values) for values in several]
    law = f"{of}, {'with' if weight else 'without'} row weights"
    np.testing.assert_allclose(results, wanted, rtol=1e-9, atol=1e-9, err_msg=law)


def orders(group: Sequence[Row], every: bool) -> Iterator[list[Row]]:
    """Yield the orders of rows that the scores allow, or the first one."""
    scores = sorted({row.score for row in group if row.score is not None}, reverse=True)
    blocks = [[row for row in group if row.score == score] for score in scores]
    rest = [row for row in group if row.score is None]
    several = [itertools.permutations(block) if every else [tuple(block)] for block in blocks]
    for order in itertools.product(*several):
        yield [*itertools.chain(*order), *rest]


# ---- all of them ---------------------------------------------------------------------------------


def named_by_its_text(of: Measure) -> None:
    """Check that the text of a measure names it, and that it can be pickled."""
    _that(measure(str(of)) == of, "the text of a measure names it", str(of))
    _that(pickle.loads(pickle.dumps(of)) == of, "pickle", str(of))  # noqa: S301


def _policies(of: Measure) -> list[str]:
    return [ties for ties in TIES if of.pooled or of.refuses(ties) is None]


def _each_policy(law: Callable[[Measure, Groups, random.Random, str], None]) -> _Check:
    """Make the check of a law under each policy of ties."""

    def check(of: Measure, groups: Groups, rng: random.Random) -> None:
        for ties in _policies(of):
            law(of, groups, rng, ties)

    return check


def _order(groups: Groups, rng: random.Random) -> list[int]:
    rows = sum(map(len, groups))
    return rng.sample(range(rows), rows)


def _row_weights(of: Measure, groups: Groups, rng: random.Random) -> None:
    weights_times_a_constant([of], groups, rng.choice((0.1, 0.25, 3.0, 2.0**20)))
    weights_of_one([of], groups)


def _always(of: Measure) -> bool:
    return True


def _has_mean(of: Measure) -> bool:
    """Return whether tied rows need no policy of their order."""
    return "expected" in _policies(of)


_Check: TypeAlias = Callable[[Measure, Groups, random.Random], object]
#: Each law by its name: whether it applies to a measure, and the check.
LAWS: dict[str, tuple[Callable[[Measure], bool], _Check]] = {
    "text": (_always, lambda of, _, __: named_by_its_text(of)),
    "range": (
        _always,
        _each_policy(lambda of, groups, _, ties: declared_range([of], groups, ties)),
    ),
    "batches": (
        _always,
        _each_policy(
            lambda of, groups, rng, ties: batches([of], groups, rng.sample(range(100), 3), ties)
        ),
    ),
    "computed together": (
        _always,
        lambda of, groups, _: computed_together(of, groups, _policies(of)[0]),
    ),
    "permuted rows": (
        _has_mean,
        lambda of, groups, rng: permuted_rows([of], groups, _order(groups, rng)),
    ),
    "threads": (_has_mean, lambda of, groups, rng: threads([of], groups, _order(groups, rng))),
    "merged states": (
        _has_mean,
        lambda of, groups, rng: merged_states([of], groups, rng.randrange(100)),
    ),
    "increasing map of scores": (
        lambda of: _has_mean(of) and of.scores == "order",
        lambda of, groups, rng: increasing_map_of_scores(
            [of], groups, rng.sample(range(-1000, 1000), 4)
        ),
    ),
    "undefined group": (
        lambda of: _has_mean(of) and not of.pooled,
        lambda of, groups, _: undefined_group([of], groups),
    ),
    "row weights": (lambda of: _has_mean(of) and of.uses_row_weights, _row_weights),
    "best, expected, worst": (
        lambda of: len(_policies(of)) == len(TIES) and not of.pooled,
        lambda of, groups, _: best_expected_worst([of], groups),
    ),
}


def pytest_generate_tests(metafunc: Any) -> None:
    """Run a test with the argument `measure_law` once for each law.

    pytest calls it where ``pytest_plugins = ["fastrank_eval.testing"]`` is set.
    """
    if "measure_law" in metafunc.fixturenames:
        names = [*LAWS, "oracle"]
        checks = [functools.partial(_check_or_skip, name) for name in names]
        metafunc.parametrize("measure_law", checks, ids=names)


def _check_or_skip(law: str, of: Measure | type[Measure], **options: Any) -> None:
    one = of() if isinstance(of, type) else of
    lacks_oracle = law == "oracle" and options.get("oracle") is None
    if lacks_oracle or (law != "oracle" and not LAWS[law][0](one)):
        raise SkipTest(f"{law}: does not apply to {one}, or there is no oracle")
    check_measure(one, law=law, **options)


def check_measure(
    of: Measure | type[Measure],
    *,
    oracle: Oracle | None = None,
    law: str | None = None,
    labels: Sequence[float] = (0, 0, 1, 2, 3),
    rounds: int = 10,
    seed: int = 0,
) -> None:
    """Check a measure against all laws that apply to it, on random groups.

    Parameters
    ----------
    of : Measure or type
        Registered.
    oracle : callable, optional
        A plain definition, as `agrees_with` takes it.
    law : str, optional
        One of `LAWS`, or ``"oracle"``, to check it alone.
    labels : sequence of float
        Labels of the rows.
    rounds : int
        Number of random sets of groups.
    seed : int

    Raises
    ------
    AssertionError
        The message names the law, and what broke it.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> from fastrank_eval.testing import check_measure
    >>> check_measure(fe.nDCG @ 3, rounds=1)
    """
    one = of() if isinstance(of, type) else of
    names = (*LAWS, "oracle")
    if law is not None:
        checked("law", law, one_of(*names))
    if law == "oracle" and oracle is None:
        raise ArgumentError("oracle: must be a function, got None; pass oracle=my_definition.")
    rng = random.Random(seed)  # noqa: S311
    for _ in range(rounds):
        groups = _random_groups(one, labels, rng)
        for name in names if law is None else (law,):
            if name == "oracle":
                if oracle is not None:
                    agrees_with(oracle, one, groups)
                continue
            applies, check = LAWS[name]
            if applies(one):
                check(one, groups, rng)


def _random_groups(of: Measure, labels: Sequence[float], rng: random.Random) -> list[list[Row]]:
    levels: tuple[float | None, ...] = (-1.5, 0.0, 0.25, 7.0)
    levels = (0.0, 0.25, 0.5, 1.0) if of.scores == "probability" else levels
    if of.scores in ("order", "number"):  # others refuse rows without a score
        levels = (*levels, None)

    def row(number: int) -> Row:
        covers = rng.sample(range(4), rng.randint(0, 3)) if of.needs_subtopics else None
        return Row(
            rng.choice(levels),
            rng.choice(labels),
            rng.choice((0.1, 1.0, 1 / 3, 7.5)),
            f"d{number}",
            None if covers is None else tuple(covers),
        )

    sizes = [rng.randint(1, 5) for _ in range(rng.randint(2, 8))]
    return [[row(number) for number in range(size)] for size in sizes]
