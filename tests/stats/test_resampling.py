"""Groups drawn again and models that change places: the generator, the sums, and their laws."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import config

from fastrank_eval.stats.bootstrap import (
    bootstrap,
    coins,
    multinomial,
    poisson,
    random_words,
    swap_models,
)
from tests.oracles import resampling as oracle
from tests.support.transcripts import answers

pytestmark = pytest.mark.kernels

SEED = 0x0123456789ABCDEF
law = settings(max_examples=2 if config.DISABLE_JIT else 40)


def ids_of(groups: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, groups, dtype=np.uint64)


# ---- random numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counter, key, answer",
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_random_words__are_the_known_answers_of_philox(counter, key, answer):
    assert tuple(oracle.philox(counter, key)) == answer
    ids, out = np.array([counter[1] << 32 | counter[0]], np.uint64), np.empty((4, 1), np.uint32)
    random_words(ids, counter[2], counter[3], key[1] << 32 | key[0], out)
    assert tuple(out[:, 0].tolist()) == answer


def test_multiplicities__equal_the_definition():
    ids = np.concatenate([ids_of(5), np.array([0, 2**64 - 1], np.uint64)])
    out = np.empty((8, len(ids)), np.uint32)
    poisson(ids, 4, SEED, out)
    found = out.tolist()
    assert found == [[oracle.poisson(i, 4 + r, SEED) for i in ids.tolist()] for r in range(8)]
    tossed = np.empty((128, len(ids)), np.uint32)
    coins(ids, 128, SEED, tossed)
    wanted = [[oracle.coin(i, 128 + r, SEED) for i in ids.tolist()] for r in range(128)]
    assert tossed.tolist() == wanted
    drawn = np.empty((3, 7), np.uint32)
    multinomial(5, SEED, drawn)
    assert drawn.tolist() == [oracle.drawn(7, 5 + r, SEED) for r in range(3)]


# ---- sums ----------------------------------------------------------------------------------------


def data_of(groups: int, terms: int = 3, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(terms, groups))


@pytest.mark.parametrize("kind", ["poisson", "multinomial"])
def test_bootstrap__adds_what_the_definition_draws(kind):
    ids, terms = ids_of(9), data_of(9)
    found = bootstrap(terms, ids, 6, SEED, kind=kind)
    order = np.argsort(ids)
    for r in range(6):
        if kind == "poisson":
            times = [oracle.poisson(i, r, SEED) for i in ids.tolist()]
        else:
            times = [0] * 9
            for place, group in enumerate(order.tolist()):
                times[group] = oracle.drawn(9, r, SEED)[place]
        wanted = [float(oracle.total(term, times)) for term in terms.tolist()]
        assert found[r].tolist() == pytest.approx(wanted, rel=1e-12, abs=1e-13)


def test_swapped__adds_what_the_definition_swaps():
    ids, a, b = ids_of(9), data_of(9), data_of(9, seed=2)
    found = swap_models(a, b, ids, 3, SEED)
    assert not found.exact
    for r in range(3):
        other = [oracle.coin(i, r, SEED) for i in ids.tolist()]
        for t in range(3):
            pairs = [(y, x) if o else (x, y) for o, x, y in zip(other, a[t], b[t], strict=True)]
            assert found.sums_a[r, t] == pytest.approx(sum(x for x, _ in pairs), abs=1e-12)
            assert found.sums_b[r, t] == pytest.approx(sum(y for _, y in pairs), abs=1e-12)


GROUPS = st.integers(1, 12 if config.DISABLE_JIT else 700)
RESAMPLERS = {
    "poisson": lambda a, b, ids, n, threads: bootstrap(
        np.concatenate([a, b]), ids, n, SEED, threads=threads
    ),
    "multinomial": lambda a, b, ids, n, threads: bootstrap(
        np.concatenate([a, b]), ids, n, SEED, kind="multinomial", threads=threads
    ),
    "swapped": lambda a, b, ids, n, threads: (
        swap_models(a, b, ids, n, SEED, threads=threads).sums_b
    ),
}


@pytest.mark.parametrize("name", RESAMPLERS)
@law
@given(groups=GROUPS, replicates=st.integers(1, 300), seed=st.integers(0, 99), few=st.booleans())
def test_sums__in_any_order_of_groups_and_for_any_threads__have_the_same_bits(
    name, groups, replicates, seed, few
):
    rng, resample = np.random.default_rng(seed), RESAMPLERS[name]
    # Ids that collide, too.
    ids = rng.integers(0, groups if few else 2**64, groups, dtype=np.uint64)
    a, b = rng.lognormal(sigma=4, size=(2, 5, groups)) * rng.integers(0, 2, (2, 5, groups))
    order = rng.permutation(groups)
    one = resample(a, b, ids, replicates, 1)
    other = resample(a[:, order], b[:, order], ids[order], replicates, 3)
    assert one.tobytes() == other.tobytes()
    # A replicate is the same whatever others are asked for, unless all patterns are.
    fewer = max(replicates // 2, 1)
    if name != "swapped" or len(one) == replicates < 1 << min(groups, 40):
        short = resample(a, b, ids, fewer, 2)
        if len(short) == fewer:
            assert short.tobytes() == one[:fewer].tobytes()


@law
@given(groups=GROUPS, block=st.sampled_from([1, 7, 64, 1000]), replicates=st.integers(1, 40))
@example(groups=2, block=1, replicates=34)  # all patterns
def test_sums__in_blocks_of_any_size__have_the_same_bits(groups, block, replicates):
    ids, a, b = ids_of(groups), data_of(groups), data_of(groups, seed=2)
    wanted = [resample(a, b, ids, replicates, 1).tobytes() for resample in RESAMPLERS.values()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastrank_eval.stats.bootstrap._GROUPS", block)
        patch.setattr("fastrank_eval.stats.bootstrap._MULTINOMIAL_STEP", block % 5 + 1)
        patch.setattr("fastrank_eval.stats.bootstrap._PAIRS", block)
        found = [resample(a, b, ids, replicates, 2).tobytes() for resample in RESAMPLERS.values()]
    assert found == wanted


@law
@given(groups=GROUPS, replicates=st.integers(1, 200))
def test_swapped__models_exchanged__exchanges_the_sums(groups, replicates):
    ids, a, b = ids_of(groups), data_of(groups), data_of(groups, seed=2)
    one, other = swap_models(a, b, ids, replicates, SEED), swap_models(b, a, ids, replicates, SEED)
    assert one.exact == other.exact
    assert one.sums_a.tobytes() == other.sums_b.tobytes()
    assert one.sums_b.tobytes() == other.sums_a.tobytes()
    # And the difference is negated.
    assert (one.sums_b - one.sums_a == -(other.sums_b - other.sums_a)).all()


def test_bootstrap__of_equal_terms__gives_equal_bits_beside_any_others():
    terms, ids = data_of(40), ids_of(40)
    stacked = np.concatenate([terms, terms[:1], 1e300 * terms[1:2]])
    found = bootstrap(stacked, ids, 9, SEED)
    assert found[:, 0].tobytes() == found[:, 3].tobytes()
    assert found[:, :3].tobytes() == bootstrap(terms, ids, 9, SEED).tobytes()
    assert found[:, 4] == pytest.approx(1e300 * found[:, 1], rel=1e-9)


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1.0, 1e300, 1.7e308])
def test_bootstrap__of_terms_of_any_size__keeps_them(size):
    found = bootstrap(np.array([[size]]), ids_of(1), 40, SEED)
    times = [oracle.poisson(int(ids_of(1)[0]), r, SEED) for r in range(40)]
    assert max(times) > 1
    assert found[:, 0].tolist() == [size * m for m in times]


def test_bootstrap__of_many_groups_as_large_as_can_be__does_not_overflow():
    groups = 40 if config.DISABLE_JIT else 50_000
    found = bootstrap(np.full((1, groups), 3.999999), np.zeros(groups, np.uint64), 8, SEED)
    assert found[:, 0] == pytest.approx(
        [3.999999 * groups * oracle.poisson(0, r, SEED) for r in range(8)], rel=1e-9
    )


@pytest.mark.parametrize("kind", ["poisson", "multinomial"])
def test_no_groups__have_sums_of_0(kind):
    none, ids = np.zeros((2, 0)), np.zeros(0, np.uint64)
    assert bootstrap(none, ids, 3, SEED, kind=kind).tolist() == [[0.0, 0.0]] * 3
    assert bootstrap(np.zeros((0, 4)), ids_of(4), 3, SEED, kind=kind).shape == (3, 0)
    found = swap_models(none, none, ids, 3, SEED)
    assert found.exact
    assert found.sums_a.tolist() == [[0.0, 0.0]]


test_answers = answers(globals())
