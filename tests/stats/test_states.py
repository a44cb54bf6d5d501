"""States: sums without any rounding, in whatever pieces and order they are added."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config

from fastrank_eval.stats.exact import ExactSums
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.score_runs import ScoreRuns
from fastrank_eval.stats.scores import PooledScores, WeightedScores
from fastrank_eval.stats.tally import add_groups
from tests.oracles.measures import Row, pair_auc, partial_auc

pytestmark = pytest.mark.kernels

# ---- means ---------------------------------------------------------------------------------------

ANY = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.one_of(
    st.floats(0, 1),
    ANY,
    st.sampled_from([5e-324, -5e-324, 1e-310, 0.1, -0.0, 1.7976931348623157e308, 2.0**-1022]),
)
MODERATE = st.floats(-1e100, 1e100).map(lambda x: x if abs(x) > 1e-100 else 0.0)
WEIGHTS = st.floats(1e-100, 1e100)


def state_of(values, weights=None, measures=1, m=0) -> MeanState:
    state = MeanState(measures)
    ones = np.ones(len(values), np.int64)
    given_weights = None if weights is None else np.array(weights, np.float64)
    of_groups = np.array(values, np.float64)
    add_groups([state], m, [of_groups], [given_weights], 3 * ones, 2 * ones)
    return state


@given(st.lists(VALUES, min_size=1, max_size=60))
def test_mean__is_the_exact_sum_rounded_once(values):
    exact = sum(map(Fraction, values)) / len(values)
    assert state_of(values).moments(0, False).value == float(exact)


def test_sum__of_nothing_is_undefined_and_past_the_largest_double_infinite():
    assert math.isnan(MeanState(1).moments(0, False, is_sum=True).value)
    assert state_of([0.0, -0.0]).moments(0, False, is_sum=True).value == 0
    assert state_of([1.7e308, 1.7e308]).moments(0, False, is_sum=True).value == math.inf
    assert state_of([1.7e308, 1.7e308, -1.7e308]).moments(0, False, is_sum=True).value == 1.7e308


@given(
    st.lists(st.lists(st.tuples(MODERATE, WEIGHTS), max_size=8), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_merge__in_any_order_changes_no_bit(parts, rng, weighted):
    pairs = list(itertools.chain(*parts))
    values = [value for value, _ in pairs]
    weights = [weight for _, weight in pairs] if weighted else None
    whole = state_of(values, weights)
    shuffled = rng.sample(parts, len(parts))
    merged = MeanState(1)
    for part in shuffled:
        piece = state_of([v for v, _ in part], [w for _, w in part] if weighted else None)
        piece.drop(0, "no_relevant", 1)
        merged.merge(piece)
    assert repr(merged.moments(0, weighted)) == repr(whole.moments(0, weighted))
    mean = merged.moments(0, weighted).value
    assert math.isnan(mean) if not pairs else mean == whole.moments(0, weighted).value
    assert merged.moments(0, weighted).coverage == (
        len(pairs),
        3 * len(pairs),
        2 * len(pairs),
    )
    assert merged.dropped(0) == {"no_relevant": len(parts)}


def test_mean__passes_over_nan_and_keeps_measures_apart():
    state = MeanState(3)
    values = np.array([0.25, np.nan, 0.75, np.nan])
    rows, positives = np.array([1, 10, 100, 1000]), np.array([1, 2, 4, 8])
    add_groups([state], 1, [values], [None], rows, positives)
    state.add_counts(1, np.array([[2, 7, 0]]))
    state.drop(1, "b", 2)
    state.drop(1, "a", 1)
    state.drop(1, "b", 1)
    state.drop(1, "never", 0)
    assert state.moments(1, False).coverage == (4, 108, 5)
    assert state.moments(1, False).value == 0.25
    assert list(state.dropped(1).items()) == [("a", 1), ("b", 3)]
    for m in (0, 2):
        assert (state.moments(m, False).coverage, state.dropped(m)) == ((0, 0, 0), {})
        assert math.isnan(state.moments(m, False).value)
        assert math.isnan(state.moments(m, True).value)


@pytest.mark.compiled
def test_mean__of_many_groups_does_not_wear_out_its_cells():
    state = MeanState(1)
    ones = np.ones(1 << 12, np.int64)
    for _ in range(64):
        add_groups([state], 0, [np.full(1 << 12, 1 - 2.0**-53)], [None], ones, ones)
    for _ in range(12):
        twin = MeanState(1)
        twin.merge(state)
        state.merge(twin)
    assert state.moments(0, False).used == 1 << 30
    assert state.moments(0, False).value == 1 - 2.0**-53


# ---- pooled AUC ----------------------------------------------------------------------------------

LEVELS = st.sampled_from([-1.0, -0.0, 0.0, 0.5, 1.0, 1.0 + 2**-52, math.inf])
ROW = st.tuples(LEVELS, st.booleans(), st.sampled_from([0.0, 0.1, 1.0, 1 / 3, 2.5e7]))
BATCHES = st.lists(st.lists(ROW, max_size=7), min_size=1, max_size=7)


def new_state(weighted: bool) -> PooledScores | WeightedScores:
    return WeightedScores() if weighted else PooledScores()


def pooled(batches, weighted=False, kind=np.float64) -> PooledScores | WeightedScores:
    state = new_state(weighted)
    for batch in batches:
        score = np.array([row[0] for row in batch], kind)
        weight = np.array([row[2] for row in batch], np.float64) if weighted else None
        state.add(score, np.flatnonzero([row[1] for row in batch]), weight)
    return state


def rows_of(batches, weighted=False) -> list[Row]:
    return [
        Row(score, int(positive), weight if weighted else 1.0)
        for score, positive, weight in itertools.chain(*batches)
    ]


def exact_auc(rows) -> float:
    positive = [row.score for row in rows if row.label]
    negative = [row.score for row in rows if not row.label]
    if not positive or not negative:
        return math.nan
    won = sum(2 * (p > n) + (p == n) for p in positive for n in negative)
    return float(Fraction(won, 2 * len(positive) * len(negative)))


# Bytes held before scores are counted, and rows kept before they are dealt to buckets.
ROOMS = ((1, 0), (64, 4), (1 << 26, 0), (1 << 26, 1 << 17))


def set_room(patched, room) -> None:
    patched.setattr(PooledScores, "BUFFER_BYTES", room[0])
    patched.setattr(ScoreRuns, "FEW_ROWS", room[1])


@pytest.fixture(params=ROOMS, ids="room {}".format)
def room(request, monkeypatch) -> tuple[int, int]:
    set_room(monkeypatch, request.param)
    return request.param


@pytest.mark.compiled
@given(BATCHES, st.sampled_from(ROOMS), st.integers(0, 7))
def test_auc__is_exact_however_often_it_is_compacted_and_merged(batches, room, cut):
    wanted = exact_auc(rows_of(batches))
    with pytest.MonkeyPatch.context() as patched:
        set_room(patched, room)
        whole = pooled(batches)
        left, right, empty = pooled(batches[:cut]), pooled(batches[cut:]), PooledScores()
        left.merge(empty)
        right.merge(left)
        single = pooled([batches[0]] if cut else [], kind=np.float32)
    for state in (whole, right):
        assert state.auc() == wanted or math.isnan(state.auc()) == math.isnan(wanted) is True
        assert state.auc(1.0) == pytest.approx(wanted, abs=1e-15, nan_ok=True)
    first = [(float(np.float32(row[0])), *row[1:]) for row in batches[0]] if cut else []
    assert repr(single.auc()) == repr(exact_auc(rows_of([first])))


@pytest.mark.compiled
@given(BATCHES, st.sampled_from(ROOMS), st.integers(0, 7), st.randoms(use_true_random=False))
def test_weighted_auc__same_bits_in_any_pieces_and_order(batches, room, cut, rng):
    wanted = pair_auc(rows_of(batches, weighted=True))
    plain = pooled(batches, weighted=True)
    rows = list(itertools.chain(*batches))
    rng.shuffle(rows)
    with pytest.MonkeyPatch.context() as patched:
        set_room(patched, room)
        left, right = pooled(batches[:cut], weighted=True), pooled(batches[cut:], weighted=True)
        right.merge(left)
        other = pooled([rows[:cut], rows[cut:]], weighted=True)
    assert plain.auc() == pytest.approx(wanted, abs=1e-12, nan_ok=True)
    for max_fpr in (None, 0.3):
        assert repr(right.auc(max_fpr)) == repr(plain.auc(max_fpr)) == repr(other.auc(max_fpr))


@pytest.mark.compiled
@given(BATCHES, st.sampled_from(ROOMS), st.booleans(), st.sampled_from([0.01, 0.25, 0.5, 0.999]))
def test_partial_auc__equals_the_curve_drawn_by_hand(batches, room, weighted, max_fpr):
    with pytest.MonkeyPatch.context() as patched:
        set_room(patched, room)
        state = pooled(batches, weighted)
    wanted = partial_auc(rows_of(batches, weighted), max_fpr)
    assert state.auc(max_fpr) == pytest.approx(wanted, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("positive", [[], [0, 1, 2]], ids=["no positive", "no negative"])
def test_auc__of_a_single_class_is_undefined(room, weighted, positive):
    state = new_state(weighted)
    weight = np.ones(3) if weighted else None
    state.add(np.array([0.1, 0.2, 0.2]), np.array(positive, np.int64), weight)
    assert math.isnan(state.auc())
    assert math.isnan(state.auc(0.5))


def rank_auc(score, positive) -> float:
    """Exact, from the sum of twice the positives' mid-ranks."""
    _, code, held = np.unique(score, return_inverse=True, return_counts=True)
    through = np.cumsum(held)
    rank_twice = (2 * through - held + 1)[code]
    n = int(positive.sum())
    won_twice = int(rank_twice[positive].sum()) - n * (n + 1)
    return float(Fraction(won_twice, 2 * n * (len(score) - n)))


#: With the JIT off every row passes through Python loops; both sizes take the same branches.
ROWS = 1500 if config.DISABLE_JIT else 6000
SPREADS = {
    "uniform": lambda rng: rng.random(ROWS),
    "both signs": lambda rng: rng.normal(size=ROWS),
    "every magnitude": lambda rng: (
        rng.choice([-1, 1], ROWS) * np.exp2(rng.uniform(-120, 120, ROWS))
    ),
    "one bucket": lambda rng: 1 + rng.integers(0, 3000, ROWS) * 2.0**-23,
    "one bucket below zero": lambda rng: -1 - rng.integers(0, 3000, ROWS) * 2.0**-23,
    "next to one another": lambda rng: 0.7 + rng.integers(0, 900, ROWS) * 2.0**-53,
    "around zero": lambda rng: rng.integers(-400, 400, ROWS) * 1.4e-45,
    "zeros of both signs": lambda rng: rng.choice([0.0, -0.0, 1e-30, -1e-30], ROWS),
    "infinite": lambda rng: rng.choice([-np.inf, np.inf, 0.0, 3e38, -3e38], ROWS),
    "whole numbers": lambda rng: rng.integers(-50, 50, ROWS) * 1.0,
    "one value": lambda rng: np.full(ROWS, 0.1),
}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("spread", list(SPREADS))
@pytest.mark.parametrize("share", [0.0005, 0.5])
@pytest.mark.parametrize("few", [0, 1 << 17])
def test_auc__is_exact_for_any_spread_of_scores(spread, kind, share, few, monkeypatch):
    set_room(monkeypatch, (1 << 26, few))
    rng = np.random.default_rng(17)
    score = SPREADS[spread](rng).astype(kind)
    positive = rng.random(ROWS) < share
    positive[:2] = True, False
    wanted = rank_auc(score, positive)
    parts = np.array_split(np.arange(ROWS), 5)
    whole = PooledScores()
    whole.add(score, np.flatnonzero(positive), None)
    assert whole.auc() == wanted
    states = [PooledScores() for _ in range(2)]
    for number, part in enumerate(parts):
        states[number % 2].add(score[part], np.flatnonzero(positive[part]), None)
    states[1].merge(states[0])
    assert states[1].auc() == wanted
    weighted = WeightedScores()
    weighted.add(score, np.flatnonzero(positive), np.ones(ROWS))
    assert weighted.auc() == pytest.approx(wanted, abs=1e-12)
    mixed = WeightedScores()
    for part in parts[::-1]:
        order = rng.permutation(part)
        mixed.add(score[order], np.flatnonzero(positive[order]), np.ones(len(part)))
    assert mixed.auc() == weighted.auc()
    for max_fpr in (0.01, 0.5):
        assert states[1].auc(max_fpr) == pytest.approx(weighted.auc(max_fpr), abs=1e-12)
    assert states[1].auc() == wanted  # counted now


@pytest.mark.slow("fills a table of all codes")
@pytest.mark.parametrize("often", [1, 200, 70_000])
@pytest.mark.parametrize("positives_everywhere", [True, False])
def test_auc__of_single_precision_scores_that_fill_a_bucket(
    often, positives_everywhere, monkeypatch
):
    """Counts go from a list of codes to a table of all of them, and from a byte to more."""
    set_room(monkeypatch, (1 << 19, 0))
    rng = np.random.default_rng(5)
    fine = (0.5 + np.arange(260_000) * 2.0**-24).astype(np.float32)
    score = np.concatenate([rng.permutation(fine), np.full(often, fine[1234]), fine[:9000]])
    positive = rng.random(len(score)) < 0.01
    positive[: len(fine)] |= positives_everywhere
    half, state, other = len(score) // 2, PooledScores(), PooledScores()
    for held, part in ((state, slice(0, half)), (other, slice(half, None))):
        for lo in range(part.start, part.stop or len(score), 50_000):
            rows = slice(lo, min(lo + 50_000, part.stop or len(score)))
            held.add(score[rows], np.flatnonzero(positive[rows]), None)
    state.merge(other)
    assert state.auc() == rank_auc(score, positive)


def bytes_of(state) -> int:
    """Bytes of all arrays a state holds, however nested."""
    held, stack = 0, list(vars(state).values())
    while stack:
        part = stack.pop()
        if isinstance(part, np.ndarray):
            held += part.nbytes
        elif isinstance(part, list | tuple | dict):
            stack += part.values() if isinstance(part, dict) else part
        elif isinstance(part, ScoreRuns):
            stack += vars(part).values()
    return held


@pytest.mark.compiled
@pytest.mark.parametrize("batch", [1, 500, 20_000])
def test_auc__memory_follows_distinct_scores_not_rows_or_batches(batch, monkeypatch):
    room, fixed = 1 << 18, 1 << 26
    set_room(monkeypatch, (room, 0))
    state = PooledScores()
    for number in range(min(500, 10**6 // batch)):
        score = (np.arange(batch) + number) % 4 * 0.3
        state.add(score, np.flatnonzero((np.arange(batch) + number) % 3 == 0), None)
        assert bytes_of(state) < fixed + 8 * room, number
    assert 0.4 < state.auc() < 0.6


@pytest.mark.parametrize("number", [8.441469991768755e-255, 1.0, 1e300, 5e-324])
def test_products_of_zero__next_to_numbers__add_nothing(number: float) -> None:
    sums = ExactSums([(1,), (0, 1)])
    assert sums.add(np.array([[0.0], [number]]))
    assert (sums.fraction(0), sums.fraction(1)) == (Fraction(number), 0)


def test_sums__merged_into_other_slices__add_what_shares_one() -> None:
    first, second = ExactSums([(0,)]), ExactSums([(0,)])
    first.add(np.array([[1e300, 2.0, 0.1]]), np.arange(3))
    second.add(np.array([[-1e300, 2.0**-900]]), np.arange(2))
    sums = ExactSums([(0,)])
    sums.merge(first, np.array([0, 2, 2]))
    sums.merge(second, np.array([0, 0]))
    assert [sums.fraction(0, row) for row in range(3)] == [
        Fraction(1, 2**900),
        0,
        2 + Fraction(0.1),
    ]
