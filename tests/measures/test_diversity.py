"""Measures of diversity: against every order of tied rows, by hand, and on every way rows take."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval import ArgumentError
from fastrank_eval.measures import measure, registry
from tests.engine.test_engine import bits, layouts
from tests.engine.test_models import assert_as_alone
from tests.groups.test_out_of_core import both, spill  # noqa: F401 - a fixture
from tests.oracles.diversity import (
    DIVERSITY,
    TIES,
    Covering,
    covering_groups,
    covering_table,
    diversity,
)
from tests.strategies import COVERING
from tests.support import tables
from tests.support.transcripts import answers

pytestmark = pytest.mark.kernels

GROUPS = {
    "three subtopics": covering_groups(61, 120),
    "one score": covering_groups(62, 15, levels=1, most_rows=5),
    "never retrieved": covering_groups(63, 120, unretrieved=0.3),
    "subtopics up to the last": covering_groups(64, 80, subtopics=range(0, 64, 9)),
    "nothing covered": covering_groups(65, 30, chance=0.05),
}
ORDERED = tuple(text for text in COVERING if text.startswith("P_IA"))


def evaluate(source, measures=COVERING, **options):
    given = {"subtopics": "covers", "unretrieved": "allow", **options}
    return tables.evaluate(source, measures, **given)


def one_group(covers, scores=None, **options):
    pairs = zip(scores or [-float(i) for i in range(len(covers))], covers, strict=True)
    rows = [Covering(x, frozenset(c), f"d{i}") for i, (x, c) in enumerate(pairs)]
    return evaluate(covering_table([rows]), **options)


def test_registry__these_are_the_measures_that_ask_for_subtopics():
    assert {name for name, kind in registry.items() if kind.needs_subtopics} == set(DIVERSITY)


@pytest.mark.parametrize("kind", list(GROUPS))
@pytest.mark.parametrize("ties, item", [*((t, False) for t in TIES if t != "item"), ("item", True)])
def test_every_measure__equals_brute_force(ties, item, kind):
    groups = GROUPS[kind]
    texts = ORDERED if ties in ("best", "worst") else COVERING
    table = covering_table(groups)
    result = evaluate(table, texts, ties=ties, item="item" if item else None)
    assert result.per_group["group"].to_pylist() == list(range(len(groups)))
    for text in texts:
        wanted = [diversity(text, rows, ties, item) for rows in groups]
        np.testing.assert_allclose(result[text], wanted, rtol=1e-12, atol=1e-12, err_msg=text)


_ROWS = st.tuples(
    st.sampled_from((None, -math.inf, 0.0, 5e-324, math.inf)),
    st.frozensets(st.sampled_from((0, 1, 63)), max_size=3),
).map(lambda row: Covering(*row))


@pytest.mark.parametrize("ties", ["expected", "input"])
@given(groups=st.lists(st.lists(_ROWS, min_size=1, max_size=4), min_size=1, max_size=3))
def test_extreme_scores_and_subtopics__equal_brute_force(groups, ties):
    result = evaluate(covering_table(groups), COVERING[::3], ties=ties)
    for text in COVERING[::3]:
        wanted = [diversity(text, rows, ties, False) for rows in groups]
        np.testing.assert_allclose(result[text], wanted, rtol=1e-12, atol=1e-12, err_msg=text)


@pytest.mark.parametrize("ties", ["best", "worst"])
def test_best_and_worst__are_refused_where_they_would_mean_to_cover_a_set(ties):
    for text in COVERING:
        if text not in ORDERED:
            with pytest.raises(ArgumentError, match=f"ties='{ties}'; choose ties='expected'"):
                one_group([[0], [1]], measures=text, ties=ties)


def test_alpha_ndcg__as_the_paper_works_it_out():
    """Clarke et al. (2008), the gains of the first ranks as they are printed there."""
    covers = {"a": [1, 4], "b": [1], "c": [1], "d": [], "e": [0, 5], "f": [5], "g": [2], "h": [5]}
    gained = [2, 2.315, 2.440, 2.440, 3.214, 3.392, 3.726]
    ideal = [2, 3.262, 3.762, 3.977, 4.170, 4.259, 4.343]
    texts = [f"alpha_nDCG@{k}" for k in range(1, 8)]
    result = one_group(list(covers.values()), measures=texts)
    for text, value, best in zip(texts, gained, ideal, strict=True):
        assert result.value(text) == pytest.approx(value / best, abs=5e-4), text


def test_greedy_list__is_divided_by_and_may_be_beaten():
    """The widest row first leaves two rows half new; without it, everything is new twice."""
    covers = [[0, 1, 2, 3], [0, 1, 4], [2, 3, 5]]
    best = one_group([covers[1], covers[2], covers[0]], measures="alpha_nDCG(alpha=1)@2")
    assert best.value(best.measures[0]) > 1
    gain = 3 + 3 / math.log2(3)
    assert best.value(best.measures[0]) == pytest.approx(gain / (4 + 1 / math.log2(3)))
    assert best.value(best.measures[0]) < registry["alpha_nDCG"].range[1]


def test_greedy_list__where_two_rows_gain_the_same__goes_by_item_id_then_by_bits():
    rows = [
        Covering(2.0, frozenset(c), i) for c, i in (([0, 1], "b"), ([1, 2], "a"), ([0, 3], "c"))
    ]
    texts = ["alpha_nDCG(alpha=1)@2"]
    for item in (None, "item"):
        values = set()
        for order in itertools.permutations(rows):
            (value,) = evaluate(covering_table([order]), texts, item=item)[texts[0]]
            values.add(value)
        (value,) = values
        # By bits {0, 3} then {1, 2}: 2 and 2. By id the same; with "b" last of all 2 and 1.
        assert value == pytest.approx(diversity(texts[0], rows, "expected", item is not None))
    ids = [Covering(row.score, row.covers, i) for row, i in zip(rows, "cab", strict=True)]
    (other,) = evaluate(covering_table([ids]), texts, item="item")[texts[0]]
    assert other != pytest.approx(value)


def hypergeometric_gain(n: int, r: int, t: int, keep: Fraction) -> Fraction:
    """Mean of keep^h over the draws of t rows from n - 1, of which r - 1 cover the subtopic."""
    ways = Fraction(0)
    for h in range(max(0, t - (n - r)), min(t, r - 1) + 1):
        ways += math.comb(r - 1, h) * math.comb(n - r, t - h) * keep**h
    return ways / math.comb(n - 1, t)


@pytest.mark.parametrize("alpha", [1, Fraction(1, 2), Fraction(1, 1000), Fraction(1, 10**6), 0])
@pytest.mark.parametrize("n, r", [(40, 1), (40, 7), (40, 39), (40, 40), (300, 60)])
def test_one_score__equals_the_exact_hypergeometric_mean(alpha, n, r):
    gain = [Fraction(r, n) * hypergeometric_gain(n, r, t, 1 - Fraction(alpha)) for t in range(n)]
    covers = [[3]] * r + [[]] * (n - r)
    option = f"alpha={float(alpha)!r}" if alpha not in (0, 1) else f"alpha={alpha}"
    found = one_group(
        covers, [0.5] * n, measures=[f"NRBP({option}, beta=0.9)", f"ERR_IA({option})@30"]
    )
    nrbp, err = (found.value(text) for text in found.measures)
    keep, beta = 1 - float(alpha), 0.9
    wanted = math.fsum(float(g) * beta**i for i, g in enumerate(gain)) * (1 - keep * beta)
    assert nrbp == pytest.approx(wanted, rel=1e-12)
    best = math.fsum(keep**i / (i + 1) for i in range(30))
    assert err == pytest.approx(
        math.fsum(float(g) / (i + 1) for i, g in enumerate(gain[:30])) / best, rel=1e-12
    )


@pytest.mark.slow("60,000 tied rows")
def test_giant_block__of_one_score__takes_no_longer_than_its_rows():
    """With the half of 60,000 tied rows on each of two subtopics, ranks gain as if drawn anew."""
    covers = [[0], [1]] * 30_000
    found = one_group(covers, [1.0] * 60_000, measures=["NRBP", "alpha_nDCG", "AP_IA"])
    # E[(1/2)^h] over t draws with a chance of 1/2 each is (3/4)^t, but for one part in n.
    gain = math.fsum(0.5 * 0.75**t * 0.5**t for t in range(200))
    assert found.value("NRBP") == pytest.approx(0.75 * gain, rel=1e-4)
    assert found.value("AP_IA") == pytest.approx(0.5, rel=1e-3)
    assert 0.5 < found.value("alpha_nDCG") < 1


@pytest.mark.compiled
def test_labels__are_not_looked_at():
    table = covering_table(GROUPS["never retrieved"])
    wanted = [evaluate(table)[text].tobytes() for text in COVERING]
    rng = np.random.default_rng(3)
    for label in (rng.integers(-2, 4, table.num_rows), np.zeros(table.num_rows)):
        other = table.set_column(2, "label", pa.array(label, mask=rng.random(len(label)) < 0.3))
        result = evaluate(other, [*COVERING, "RR"], unjudged="allow")
        assert [result[text].tobytes() for text in COVERING] == wanted
    dropped = evaluate(other, unjudged="drop")
    kept = other.filter(pa.compute.is_valid(other["label"]))
    assert bits(dropped) == bits(evaluate(kept))


@pytest.mark.parametrize(
    "text", ["alpha-nDCG@5", "ERR-IA(alpha=0.3)", "strec@5", "MAP-IA", "STREC"]
)
def test_other_aliases__are_read(text):
    ours = {"strec@5": "StRecall@5", "MAP-IA": "AP_IA", "STREC": "StRecall"}
    assert str(measure(text)) == ours.get(text, text.replace("-", "_"))
    assert measure(str(measure(text))) == measure(text)


SMALL = covering_table(covering_groups(71, 9, most_rows=9, unretrieved=0.2))
LARGE = covering_table(covering_groups(72, 400, most_rows=20, levels=4, unretrieved=0.2))


@pytest.mark.compiled
@pytest.mark.parametrize("ties", ["expected", "item"])
def test_every_layout__has_the_same_bits(tmp_path, ties):
    options = {"ties": ties, "item": "item" if ties == "item" else None}
    wanted = bits(evaluate(SMALL, **options))
    for source, cut in layouts(SMALL, tmp_path, (1, 2, 5, 100)):
        assert bits(evaluate(source, **options, **cut)) == wanted, cut


@pytest.mark.compiled
@pytest.mark.parametrize("item", [None, "item"])
def test_order_of_rows__changes_no_bit(item):
    wanted = bits(evaluate(LARGE, item=item))
    by_group = evaluate(LARGE, item=item).per_group.sort_by("group")
    for seed in range(3):
        mixed = LARGE.take(np.random.default_rng(seed).permutation(LARGE.num_rows))
        result = evaluate(mixed, item=item, threads=2, batch_rows=300)
        assert result.per_group.sort_by("group").equals(by_group)
        assert bits(result)[1] == wanted[1]


@pytest.mark.compiled
@pytest.mark.parametrize("item", [None, "item"])
def test_spilled_rows__have_the_same_bits(spill, item):  # noqa: F811
    mixed = LARGE.take(np.random.default_rng(5).permutation(LARGE.num_rows))
    options = {"subtopics": "covers", "unretrieved": "allow", "item": item}
    on_disk, in_memory = both(spill, mixed, COVERING, **options, batch_rows=600)
    assert bits(on_disk) == bits(in_memory)
    assert bits(in_memory)[1] == bits(evaluate(LARGE, item=item))[1]


@pytest.mark.compiled
@pytest.mark.parametrize("order", ["grouped", "scattered"])
def test_several_models__each_have_the_bits_they_have_alone(order):
    rng = np.random.default_rng(6)
    rows = LARGE.num_rows
    table = LARGE.append_column(
        "other", pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.3)
    )
    table = table.append_column("whole", pa.array(rng.random(rows)))
    options = {"measures": [*COVERING, "AP", "GAUC"], "subtopics": "covers", "order": order}
    assert_as_alone(table, ["score", "other", "whole"], **options)


@pytest.mark.compiled
def test_other_measures__keep_their_bits_beside_them():
    texts = ["AP", "nDCG@3", "GAUC", "AUC", "bpref"]
    alone = evaluate(LARGE, texts)
    beside = evaluate(LARGE, [*texts, *COVERING])
    for text in texts[:3]:
        assert beside[text].tobytes() == alone[text].tobytes()
    for text in texts:
        assert beside.value(text) == alone.value(text)


LISTS = [[0, 2], [], None, [63], [2, 2, 0], [5]]


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.list_(t) for t in (pa.int8(), pa.uint8(), pa.int32(), pa.uint64())),
        pa.large_list(pa.int16()),
        pa.list_(pa.dictionary(pa.int8(), pa.int64())),
    ],
    ids=str,
)
@pytest.mark.parametrize("lo", [0, 1, 3])
def test_lists__of_any_type_and_cut(kind, lo):
    plain = pa.array([values or [] for values in LISTS], pa.list_(pa.int64())).slice(lo)
    table = {"group": [0] * (6 - lo), "label": [1] * (6 - lo), "score": range(6 - lo)}
    table = {name: pa.array(values) for name, values in table.items()}
    texts = ["alpha_nDCG@2", "P_IA@3", "AP_IA"]
    wanted = bits(evaluate({**table, "covers": plain}, texts))
    given = pa.array(LISTS, pa.list_(pa.int64())).cast(kind) if "dict" not in str(kind) else None
    if given is None:
        given = pa.array(LISTS, kind)
    assert bits(evaluate({**table, "covers": given.slice(lo)}, texts)) == wanted


def test_lists__of_one_size_and_single_numbers_and_nothing_at_all():
    table = {"group": [0, 0, 0], "label": [1, 1, 1], "score": [3.0, 2.0, 1.0]}
    fixed = pa.array([[0, 1], None, [1, 2]], pa.list_(pa.int8(), 2))
    assert evaluate({**table, "covers": fixed}, "StRecall@2").value("StRecall@2") == 2 / 3
    single = pa.array([4, None, 4], pa.uint8())
    assert evaluate({**table, "covers": single}, "P_IA@2").value("P_IA@2") == 0.5
    for nothing in (pa.nulls(3), pa.array([[], [], None], pa.list_(pa.null()))):
        assert math.isnan(evaluate({**table, "covers": nothing}, "P_IA@2").value("P_IA@2"))


test_answers = answers(globals())
