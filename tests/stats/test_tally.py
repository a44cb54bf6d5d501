"""All sums of a chunk in one kernel, against the states of each measure, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrank_eval.stats.exact
from fastrank_eval._lib.arrow import frozen
from fastrank_eval.stats.exact import NO_SLICES, ExactSums, SliceCounts
from fastrank_eval.stats.means import EQUAL_WITHIN, PAIRED, MeanState, PairedState
from fastrank_eval.stats.tally import Measured, RankedGroups, Tally, Unit, Units

pytestmark = [
    pytest.mark.kernels,
    # Loops in Python warn of products beyond doubles.
    pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning"),
]

REASONS = ("", "no_relevant", "few_rows", "zero_weight")
#: In another order than the lines; one is not in slices.
MEASURES = (
    *(Unit(0, 1, 0, -1, 0, True), Unit(2, 3, 2, 0, 1, True)),
    *(Unit(3, 0, 1, 1, 2, False), Unit(5, 2, 3, -1, 2, True)),
)
UNITS = Units(MEASURES, 3, 1)
KINDS = ("shares", "near", "large", "small", "zeros", "any")


def draw_numbers(draw: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Values of groups; those that `SAFE` does not have are among them."""
    shares = draw.choice([0.0, 1.0, 0.5, 1 / 3, draw.random()], shape)
    if kind == "shares":
        return shares
    if kind == "near":
        return 0.7 + draw.integers(-2, 3, shape) * 2.0**-50
    if kind == "zeros":
        return shares * 0.0
    scale = {"large": (90, 100), "small": (-1074, -900), "any": (-1074, 120)}[kind]
    return np.ldexp(draw.uniform(-1, 1, shape), draw.integers(*scale, shape))


class Chunk(NamedTuple):
    models: list[tuple[Measured, RankedGroups]]
    slices: np.ndarray
    relevant: np.ndarray


def draw_chunks(
    seed: int, kind: str, groups: int, slices: int, left_out: float, models: int = 3
) -> Iterator[Chunk]:
    draw = np.random.default_rng(seed)
    for _ in range(draw.integers(1, 4)):
        count = int(draw.integers(0, groups + 1))
        starts = frozen(np.append(0, np.cumsum(draw.integers(1, 9, count))))
        ranked = frozen(np.flatnonzero(draw.random(count) < draw.choice([0.5, 1.0])))
        n = len(ranked)
        same = draw_numbers(draw, kind, (4, n))
        found = []
        for _ in range(models):
            values = np.where(draw.random((4, n)) < 0.3, same, draw_numbers(draw, kind, (4, n)))
            reasons = np.where(draw.random((4, n)) < left_out, draw.integers(1, 4, (4, n)), 0)
            for unit in MEASURES:
                unused = (reasons[unit.reason] > 0) & (draw.random(n) < 0.5)
                values[unit.term, unused] = np.nan
            weights = np.abs(draw_numbers(draw, kind, (2, n))) + draw.choice([0.0, 1.0])
            rows = frozen(np.diff(starts)[ranked])
            positives = frozen(np.maximum(rows - draw.integers(0, 3, n), 0))
            measured = Measured(values, reasons.astype(np.uint8), weights)
            found.append((measured, RankedGroups(starts, rows, positives, ranked)))
        of_groups = frozen(draw.integers(0, slices, count))
        yield Chunk(found, of_groups, frozen(draw.integers(0, 3, n)))


def tallied(chunks: list[Chunk], sliced: bool, units: Units) -> Tally:
    lines = units.of_slices if sliced else units.all
    tally = Tally(units, lines)
    for chunk in chunks:
        slices = chunk.slices if sliced else NO_SLICES
        base = chunk.models[1][0]
        for of_model, (measured, groups) in zip(lines, chunk.models, strict=True):
            assert tally.add(of_model, groups, measured, base, slices) is None
        tally.count(groups.starts, chunk.relevant, groups.ranked, slices)
    return tally


class States:
    """The states that the groups of a tally are added to."""

    def __init__(self, tally: Tally | None = None) -> None:
        self.sizes, self.counts = ExactSums([(0, 0), (1, 1)]), SliceCounts.zeros(3)
        self.means = [MeanState(6) for _ in range(3)]
        self.pairs = {model: PairedState(6) for model in (0, 2)}
        if tally is not None:
            tally.add_to(self.sizes, self.counts, self.means, self.pairs, REASONS)

    def content(self, slices: int) -> Iterator[tuple[str, object]]:
        rows = np.arange(slices)
        yield "counts", self.counts.take(rows).tables.tolist()
        yield from numbers_of("sizes", self.sizes.take(rows).to_arrays("sizes", slices))
        for model, state in enumerate(self.means):
            yield from numbers_of(f"means {model}", state.take(rows).to_arrays())
        for model, pair in self.pairs.items():
            yield from numbers_of(f"pairs {model}", pair.take(rows).to_arrays())


def numbers_of(name: str, arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, object]]:
    yield from ((f"{name} {key}", array.tolist()) for key, array in arrays.items())


def one_by_one(chunks: list[Chunk], slices: int, sliced: bool) -> States:
    """Add one group after another, one term after another."""
    states, every = States(), np.zeros((3, slices), np.int64)
    for models, of_groups, relevant in chunks:
        of_groups = of_groups if sliced else np.zeros_like(of_groups)
        _, (starts, _, _, ranked) = models[0]
        sizes, of_ranked = np.diff(starts), of_groups[ranked]
        np.add.at(every[0], of_groups, 1)
        np.add.at(every[1], of_groups, sizes)
        np.add.at(every[2], of_ranked, relevant)
        states.sizes.add(np.stack([sizes, sizes**2]).astype(float), of_groups)
        absent = np.setdiff1d(np.arange(len(sizes)), ranked)
        of_absent, rows_of_absent = of_groups[absent], sizes[absent]
        for unit in MEASURES:
            if sliced and not unit.in_slices:
                continue
            sides = []
            for (measured, groups), state in zip(models, states.means, strict=True):
                why = measured.reasons[unit.reason]
                used = why == 0
                value = np.where(used, measured.values[unit.term], 0.0)
                w = used * 1.0
                if unit.weight >= 0:
                    w = np.where(used, measured.weights[unit.weight], 0.0)
                state._own(unit.measure, int(unit.weight >= 0)).add(
                    np.stack([value * w, w]), of_ranked
                )
                counts = np.zeros((slices, 3), np.int64)
                for column, numbers in enumerate((used, groups.rows, groups.positives)):
                    np.add.at(counts[:, column], of_ranked, numbers * used)
                if not unit.empty:
                    np.add.at(counts[:, 0], of_absent, 1)
                    np.add.at(counts[:, 1], of_absent, rows_of_absent)
                state.add_counts(unit.measure, counts)
                for k in range(1, 4):
                    left_out = np.bincount(of_ranked[why == k], minlength=slices)
                    if k == unit.empty:
                        left_out += np.bincount(of_absent, minlength=slices)
                    state.drop(unit.measure, REASONS[k], left_out)
                sides.append((value, w, used))
            for model, pair in states.pairs.items() if unit.in_slices else ():
                (a, w, first), (b, v, second) = sides[1], sides[model]
                near = np.abs(b - a) <= EQUAL_WITHIN * np.maximum(np.abs(a), np.abs(b))
                d = np.where(first & second & ~near, b - a, 0.0)
                numbers = np.stack([a * w, w, b * v, v, d, b * v - a * w])
                pair._own(unit.measure, PAIRED).add(numbers, of_ranked)
                both = first & second
                counts = np.zeros((slices, 5), np.int64)
                results = both & (d > 0), both & (d == 0), both & (d < 0)
                for column, mask in enumerate((*results, first & ~second, second & ~first)):
                    np.add.at(counts[:, column], of_ranked[mask], 1)
                if not unit.empty:
                    np.add.at(counts[:, 1], of_absent, 1)
                    ones = np.ones((1, len(of_absent)))
                    pair._own(unit.measure, PAIRED).add(ones, of_absent, 3, ((0,),))
                pair.add_counts(unit.measure, counts)
    for column, numbers in enumerate(every):
        states.counts.add(column, numbers)
    return states


@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(KINDS),
    groups=st.sampled_from([0, 1, 9, 40, 300]),
    slices=st.sampled_from([1, 2, 9, 60]),
    left_out=st.sampled_from([0.0, 0.2, 1.0]),
    sliced=st.booleans(),
)
def test_tally__of_any_chunks__is_the_states_of_each_measure(
    seed: int, kind: str, groups: int, slices: int, left_out: float, sliced: bool
) -> None:
    chunks = list(draw_chunks(seed, kind, groups, slices, left_out))
    tally = tallied(chunks, sliced, UNITS)
    found = dict(States(tally).content(slices))
    assert found == dict(one_by_one(chunks, slices, sliced).content(slices))


@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(KINDS),
    groups=st.sampled_from([1, 9, 40]),
    slices=st.sampled_from([1, 2, 9]),
)
def test_slices_together__are_the_sums_of_all_rows(
    seed: int, kind: str, groups: int, slices: int
) -> None:
    units = Units([unit for unit in MEASURES if unit.in_slices], 3, 1)
    chunks = list(draw_chunks(seed, kind, groups, slices, 0.2))
    of_slices, of_all = tallied(chunks, True, units), tallied(chunks, False, units)
    together = dict(States(of_slices.of_all()).content(1))
    assert together == dict(States(of_all).content(1))
    # The slices stay as they are.
    found = dict(States(of_slices).content(slices))
    assert found == dict(States(tallied(chunks, True, units)).content(slices))


@given(seed=st.integers(0, 2**32), kind=st.sampled_from(KINDS), sliced=st.booleans())
def test_clusters__are_added_elsewhere__groups_are_counted_here(
    seed: int, kind: str, sliced: bool
) -> None:
    chunks = list(draw_chunks(seed, kind, 40, 3, 0.2))
    nested = States(tallied(chunks, sliced, Units(MEASURES, 3, 1, nested=True)))
    plain = States(tallied(chunks, sliced, Units(MEASURES, 3, 1)))
    for (name, found), (_, wanted) in zip(nested.content(3), plain.content(3), strict=False):
        if name.endswith((" counts", " reasons", " dropped")):
            assert found == wanted, name
    assert not any(isinstance(key[0], int) for state in nested.means for key in state.parts)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan])
def test_sum_above_doubles__names_the_measure(wrong: float, weighted: bool) -> None:
    unit = Unit(7, 0, 0, 0 if weighted else -1, 0, True)
    units = Units([unit], 1)
    values, reasons = np.array([[1.0, 1e300 if weighted else wrong]]), np.zeros((1, 2), np.uint8)
    weights = np.array([[1.0, 1e300 if np.isfinite(wrong) else wrong]])
    ones = np.ones(2, np.int64)
    groups = RankedGroups(np.arange(3), ones, ones, None)
    tally = Tally(units, units.all)
    assert tally.add(units.all[0], groups, Measured(values, reasons, weights)) == 7


def test_additions__are_carried_before_digits_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dict(States(tallied(list(draw_chunks(5, "any", 40, 9, 0.2)), True, UNITS)).content(9))
    monkeypatch.setattr(fastrank_eval.stats.exact, "_ADDITIONS", 1)
    found = tallied(list(draw_chunks(5, "any", 40, 9, 0.2)), True, UNITS)
    assert dict(States(found).content(9)) == whole


def test_merged_tallies__are_the_tally_of_all_chunks() -> None:
    chunks = list(draw_chunks(6, "any", 40, 9, 0.2))
    # The first has one slice and no groups that are left out.
    first = tallied(list(draw_chunks(6, "any", 1, 1, 0.0))[:1], True, UNITS)
    both = tallied([*chunks, *list(draw_chunks(6, "any", 1, 1, 0.0))[:1]], True, UNITS)
    for chunk in chunks:
        first.merge(tallied([chunk], True, UNITS))
    assert dict(States(first).content(9)) == dict(States(both).content(9))
