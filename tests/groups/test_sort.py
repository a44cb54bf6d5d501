"""Order inside groups: exact to the last bit, and broken promises named by their row."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval import OrderError
from fastrank_eval.groups.scan import find_labels, ranked_in_order
from fastrank_eval.groups.sort import (
    encode_few,
    first_rise,
    order_by_score,
    sort_group_codes,
)
from fastrank_eval.groups.ties import order_by_item
from tests.support import batched

NAMES = {"float32": np.float32, "float64": np.float64}


def frozen(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def by_sorted(score, starts, items=None) -> list[int]:
    """The same by Python's stable sort; -0.0 == 0.0 there too."""
    values = score.tolist()
    rows = list(range(len(score)))
    order = []
    for lo, hi in itertools.pairwise(starts.tolist()):
        here = rows[lo:hi]
        if items is not None:
            here.sort(key=lambda row: items[row], reverse=True)
        order += sorted(here, key=lambda row: -values[row])
    return order


def by_lexsort(score, starts) -> np.ndarray:
    group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return np.lexsort((np.arange(len(score)), -score, group))


def starts_of(sizes) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


# ---- order_by_score ------------------------------------------------------------------------------

# Neighbours that share their upper 32 bits, numbers below the normal range, and the ends.
CLOSE = [1.0 + step * 2.0**-52 for step in range(-3, 4)] + [0.1, 0.1 + 2**-56, -0.1, -0.1 - 2**-56]
TINY = [0.0, -0.0, 5e-324, -5e-324, 1e-310, -1e-310, 1.4e-45, -1.4e-45, 2.2250738585072014e-308]
ENDS = [np.inf, -np.inf, 1.7976931348623157e308, -1.7976931348623157e308, 3.4e38, -3.4e38]
SCORES = st.one_of(
    st.sampled_from(CLOSE + TINY + ENDS),
    st.sampled_from([0.25, 0.5]),
    st.floats(allow_nan=False),
)


@st.composite
def grouped_scores(draw: st.DrawFn) -> tuple[list[float], np.ndarray]:
    sizes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(any))
    scores = draw(st.lists(SCORES, min_size=sum(sizes), max_size=sum(sizes)))
    return scores, starts_of(sizes)


@pytest.mark.parametrize("kind", list(NAMES))
@given(grouped_scores(), st.randoms(use_true_random=False))
def test_order__equals_a_stable_sort(kind, drawn, rng):
    scores, starts = drawn
    with np.errstate(over="ignore"):
        score = frozen(np.array(scores).astype(NAMES[kind]))
    assert order_by_score(score, starts).tolist() == by_sorted(score, starts)
    in_order = not rises(score, starts)
    numbers = [rng.choice([-(2**63), -1, 0, 7, 2**63 - 1]) for _ in scores]
    ids = ["", "d9", "d10", "d1", "d\x00", "document", "document 1", "document 1\x00", "document é"]
    texts = [rng.choice(ids) for _ in scores]
    wide = pa.array([10**18 * number for number in numbers], pa.decimal128(38))
    for items in (pa.array(numbers, pa.int64()), pa.array(texts, pa.string()), wide):
        wanted = by_sorted(score, starts, items.to_pylist())
        assert order_by_item(score, starts, items.take, in_order).tolist() == wanted


@pytest.mark.parametrize("arrange", ["random", "rising", "falling", "two halves"])
def test_order__long_run_that_shares_its_upper_half(arrange):
    rng = np.random.default_rng(3)
    score = 1.0 + np.arange(3000) % 1500 * 2.0**-52
    score = {
        "random": rng.permutation(score),
        "rising": np.sort(score),
        "falling": np.sort(score)[::-1].copy(),
        "two halves": score,
    }[arrange]
    starts = starts_of([700, 0, 1600, 700])
    assert (score.view(np.uint64) >> np.uint64(32)).min() == 0x3FF00000
    assert (order_by_score(frozen(score), starts) == by_lexsort(score, starts)).all()


@pytest.mark.slow("sorts of every size")
@pytest.mark.parametrize("kind", list(NAMES))
@pytest.mark.parametrize(
    "sizes",
    [
        np.full(1 << 15, 2),  # more groups than 2**14
        np.full((1 << 18) + 5, 1),  # a group a row
        np.r_[np.full(1 << 14, 1), 1 << 19, np.full(1 << 14, 3)],  # a group longer than 2**18
        np.r_[0, 5, np.zeros(1 << 14, np.int64), 5, 0],  # groups without a row
    ],
    ids=["many groups", "one row each", "a giant group", "empty groups"],
)
def test_order__of_more_groups_or_rows_than_one_packed_key_holds(kind, sizes):
    starts = starts_of(sizes)
    rng = np.random.default_rng(9)
    score = frozen((rng.integers(0, 1 << 16, starts[-1]) / 3).astype(NAMES[kind]))
    assert (order_by_score(score, starts) == by_lexsort(score, starts)).all()


# ---- few distinct values -------------------------------------------------------------------------

#: Of grades, of the ends of every type of label, and neighbours.
GAINS = [0.0, -0.0, 1.0, 3.0, 7.0, -1.0, -0.5, 2.0**62 - 1, -128.0, 32767.0, -(2.0**31), 2.0**63]
GAINS += CLOSE + TINY + ENDS


@st.composite
def grouped_gains(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Groups of none, one, few and many rows, of few or of more distinct values than have codes."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 30]), max_size=6))
    many = draw(st.sampled_from([0, 1, 250, 300]))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    levels = draw(st.lists(st.sampled_from(GAINS) | st.floats(allow_nan=False), min_size=1))
    gains = np.concatenate([rng.choice(levels, sum(sizes)), rng.permutation(many) + 0.25])
    return rng.permutation(gains), starts_of([*sizes, many])


@pytest.mark.kernels
@given(grouped_gains())
def test_values_of_groups__are_sorted_descending(drawn):
    values, starts = drawn
    distinct, codes = encode_few(values)
    if codes is not None:
        wanted = [sorted(values[lo:hi], reverse=True) for lo, hi in itertools.pairwise(starts)]
        out, counts = np.empty(len(values)), np.zeros(len(distinct), np.int64)
        sort_group_codes(starts, codes, distinct, np.argsort(-distinct), counts, out)
        assert out.tolist() == list(itertools.chain(*wanted))


@pytest.mark.kernels
@given(grouped_gains())
def test_few_values__are_numbered_as_they_come(drawn):
    values, _ = drawn
    distinct, codes = encode_few(values)
    texts = [value.hex() for value in values.tolist()]
    wanted = list(dict.fromkeys(texts))
    assert (codes is None) == (len(wanted) > 256)
    if codes is None:
        assert distinct is values
    else:
        assert [value.hex() for value in distinct.tolist()] == wanted
        assert codes.tolist() == [wanted.index(text) for text in texts]


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "float32", "float64"])
def test_gains__do_not_depend_on_the_other_groups_of_a_chunk(kind):
    """The first groups have five grades; with the last one a chunk has too many for codes."""
    rng = np.random.default_rng(5)
    few, rows = starts_of([1, 2, 40, 7]), 400
    grades = np.append(rng.integers(0, 5, few[-1]), rng.permutation(rows) - rows // 4)
    if kind == "int8":
        grades = np.clip(grades, -100, 127)
    table = pa.table(
        {
            "group": np.repeat(np.arange(5), [*np.diff(few), rows]),
            "label": grades.astype(kind),
            "score": rng.integers(0, 30, few[-1] + rows) / 4,
        }
    )
    linear = "nDCG(gain='linear'),nDCG(gain='linear', negative='keep')@7,Q,RnDCG,nDCGrel"
    roles = {"group": "group", "label": "label", "score": "score"}
    roles["measures"] = linear
    whole = batched.evaluate(table, **roles).per_group
    alone = batched.evaluate(table.slice(0, few[-1]), **roles).per_group
    assert whole.filter(pa.compute.less(whole["group"], 4)).equals(alone)


# ---- the proof of order --------------------------------------------------------------------------


def rises(score, starts) -> list[int]:
    return [
        row
        for lo, hi in itertools.pairwise(starts.tolist())
        for row in range(lo + 1, hi)
        if score[row] > score[row - 1]
    ]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=8),
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52, np.inf]), min_size=32, max_size=32),
    st.sampled_from(list(NAMES)),
    st.booleans(),
)
def test_rises_inside_groups__are_seen_and_the_first_is_found(sizes, scores, kind, falling):
    starts = starts_of(sizes)
    score = np.array(scores[: starts[-1]], NAMES[kind])
    if falling:
        score = score[by_sorted(score, starts)]
    wanted = rises(score, starts)
    labelled = find_labels(frozen(np.ones(len(score), np.uint8)), starts, False)
    assert (ranked_in_order(frozen(score), starts, labelled) is None) == bool(wanted)
    if wanted:
        assert first_rise(score, starts) == wanted[0]


# ---- presorted mode ------------------------------------------------------------------------------

SIZES = [1, 4, 2, 9, 1, 3]
STARTS = starts_of(SIZES)
ROWS = int(STARTS[-1])


def falling_table(**replaced) -> pa.Table:
    """Scores fall by one from row to row inside each group."""
    columns = {
        "group": np.repeat(np.arange(len(SIZES)), SIZES),
        "label": np.arange(ROWS) % 3 == 1,
        "score": np.concatenate([np.arange(n, 0, -1.0) for n in SIZES]),
    }
    return pa.table({**columns, **replaced})


def evaluate(source, **options):
    roles = {"group": "group", "label": "label", "score": "score", "measures": "GAUC,AP,RR"}
    return batched.evaluate(source, **{**roles, **options})


def layouts(table):
    """The table in every batch size, its chunks cut at every row, and as a stream."""
    for batch_rows in (*range(1, ROWS + 1), None):
        yield table, {"batch_rows": batch_rows}
    for cut in range(1, ROWS):
        yield pa.concat_tables([table.slice(0, cut), table.slice(cut)]), {}
    for rows in (1, 3, 7):
        batches = table.to_batches(max_chunksize=rows)
        yield pa.RecordBatchReader.from_batches(table.schema, batches), {"batch_rows": rows}


@pytest.mark.parametrize("row", [row for row in range(ROWS) if row not in STARTS])
@pytest.mark.parametrize("threads", [1, 2])
def test_presorted__broken_order_names_its_row_in_every_layout(row, threads):
    score = falling_table()["score"].to_numpy().copy()
    score[row] = score[row - 1] + 0.5
    for source, options in layouts(falling_table(score=score)):
        with pytest.raises(OrderError) as refused:
            evaluate(source, order="sorted", threads=threads, **options)
        message = str(refused.value)
        for fragment in ("'score'", f"row {row} ", f"{score[row - 1]}", f"{score[row]}"):
            assert fragment in message, (options, message)


@pytest.mark.parametrize(
    "column, taken", [("score", {"unretrieved": "allow"}), ("label", {"unjudged": "drop"})]
)
def test_presorted__broken_order_names_its_row_among_rows_that_lack(column, taken):
    columns = {name: falling_table()[name].to_numpy().copy() for name in ("score", "label")}
    columns["score"][13] = 7.5  # the last row that lacks nothing before it is 11, of 5.0
    missing = np.isin(np.arange(ROWS), [0, 8, 9, 12])
    columns[column] = pa.array(columns[column], mask=missing)
    for source, options in layouts(falling_table(**columns)):
        with pytest.raises(OrderError, match="row 13 "):
            evaluate(source, order="sorted", **taken, **options)


def test_presorted__several_breaks_name_one_that_is_there():
    score = falling_table()["score"].to_numpy().copy()
    broken = [2, 4, 6, 9, 11, 15, 19]
    score[broken] += 1.5
    assert rises(score, STARTS) == broken
    for source, options in layouts(falling_table(score=score)):
        with pytest.raises(OrderError) as refused:
            evaluate(source, order="sorted", **options)
        assert any(f"row {row} " in str(refused.value) for row in broken), options


def test_presorted__second_model_is_checked_too():
    table = falling_table(other=np.arange(ROWS) * 1.0)
    with pytest.raises(OrderError, match=r"'other'.*row 2 "):
        evaluate(table, score=["score", "other"], order="sorted")


def test_presorted__sorted_input_gives_the_bits_of_any_other_way():
    ties = np.minimum(falling_table()["score"].to_numpy(), 3.0)
    zeros = np.where(ties == 1.0, np.where(np.arange(ROWS) % 2, 0.0, -0.0), ties)
    for score in (falling_table()["score"].to_numpy(), ties, zeros, -np.inf * np.ones(ROWS)):
        table = falling_table(score=score)
        wanted = evaluate(table, order="scattered").per_group
        for source, options in layouts(table):
            assert evaluate(source, order="sorted", **options).per_group.equals(wanted), options
