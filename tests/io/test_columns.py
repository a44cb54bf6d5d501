"""Columns at the door: every type that is taken exactly, and every fault that is named."""

import decimal
import itertools
import math
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastrank_eval as fe
from fastrank_eval import ColumnError, OrderError
from fastrank_eval._lib.arrow import as_array, null_rows
from fastrank_eval.engine import evaluator
from fastrank_eval.engine.evaluator import Evaluator
from fastrank_eval.io.columns import Roles
from fastrank_eval.io.validate import columns_of, numbers_of_order
from tests.support.tables import evaluate
from tests.support.transcripts import answers

NAN, INF = math.nan, math.inf


def six_rows(**columns) -> pa.Table:
    """Two groups of three; any column may be replaced or added."""
    plain = {
        "group": [1, 1, 1, 2, 2, 2],
        "label": pa.array([0, 1, 0, 1, 0, 0], pa.int8()),
        "score": [0.5, 0.7, 0.1, 0.2, 0.4, 0.3],
        "weight": [1.0, 2.0, 1.0, 1.0, 0.5, 1.0],
        "item": ["a", "b", "c", "d", "e", "f"],
        "spend": [3.0, 3.0, 3.0, 5.0, 5.0, 5.0],
    }
    return pa.table({**plain, **columns})


EVERY_ROLE = {"measures": "GAUC(weight='spend')", "weight": "weight", "item": "item"}


def refusal(source, **options) -> str:
    with pytest.raises(ColumnError) as refused:
        evaluate(source, **options)
    return str(refused.value)


# ---- missing, mistyped ---------------------------------------------------------------------------


# ---- bad values ----------------------------------------------------------------------------------

BAD_VALUES = [
    ("group", None, "null"),
    ("item", None, "null"),
    ("label", None, "null"),
    ("label", NAN, "NaN"),
    ("label", INF, "infinite"),
    ("label", -INF, "infinite"),
    ("score", None, "null"),
    ("score", NAN, "NaN"),
    ("weight", None, "null"),
    ("weight", NAN, "NaN"),
    ("weight", INF, "infinite"),
    ("weight", -0.5, "negative"),
    ("spend", None, "null"),
    ("spend", -1.0, "negative"),
    ("spend", NAN, "NaN"),
]


def spoiled(role, value, rows) -> pa.Table:
    table = six_rows()
    column = table[role].to_pylist()
    for row in rows:
        column[row] = value
    if role == "group":
        return six_rows(group=column)
    kind = pa.string() if role == "item" else pa.float64()
    return six_rows(**{role: pa.array(column, kind)})


@pytest.mark.parametrize("role,value,fault", BAD_VALUES)
@pytest.mark.parametrize("threads", [1, 2])
def test_bad_value__names_column_fault_count_and_first_row_of_the_whole_input(
    role, value, fault, threads
):
    options = {**EVERY_ROLE, "threads": threads}
    for first in (0, 1, 3):
        table = spoiled(role, value, [first, 4, 5])
        for batch_rows in (1, 2, 4, 6):
            message = refusal(table, **options, batch_rows=batch_rows)
            for fragment in (f"'{role}'", fault, f"in 3 row(s), first in row {first} "):
                assert fragment in message, (batch_rows, message)
            assert value is None or f"value {float(value)}" in message
    chunked = pa.concat_tables([table.slice(0, 2), table.slice(2)])
    assert "in 3 row(s), first in row 3 " in refusal(chunked, **options, batch_rows=1)
    assert "in 1 row(s)" in refusal(table, **options, batch_rows=1, limit=4)
    once = refusal(table.to_reader(max_chunksize=2), **options, batch_rows=1)
    assert "in at least 1 row(s), first in row 3 " in once


def test_bad_row__of_several_files__names_its_file(tmp_path):
    def three_files(table: pa.Table) -> None:
        for name, part in zip("abc", (table[:2], table[2:5], table[5:]), strict=True):
            pq.write_table(part, tmp_path / f"{name}.parquet")

    three_files(six_rows(score=[0.9, 0.8, 0.7, NAN, 0.2, NAN]))
    message = refusal(tmp_path, batch_rows=1)
    assert "in 2 row(s), first in row 3 " in message
    assert "It is row 1 of '" in message
    assert message.endswith("b.parquet'.")
    three_files(six_rows(group=[1] * 6, score=[0.9, 0.8, 0.7, 0.6, 0.1, 0.2]))
    with pytest.raises(OrderError, match=r"at row 5 .* It is row 0 of '.*c\.parquet'\.$"):
        evaluate(tmp_path, order="sorted")


@pytest.mark.parametrize("column", ["score", "weight"])
def test_bad_value__row_is_that_of_the_input_where_unjudged_rows_are_dropped(column):
    label = pa.array([None, 1, 0, None, 1, 0], pa.int8())
    table = spoiled(column, NAN, [4]).set_column(1, "label", label)
    for batch_rows in (None, 1, 3):
        options = {"unjudged": "drop", "weight": "weight", "batch_rows": batch_rows}
        assert "row 4 " in refusal(table, order="grouped", **options)


def test_null_score_and_label__remedy_names_the_option():
    assert "unretrieved='allow'" in refusal(spoiled("score", None, [1]))
    assert "unjudged='allow'" in refusal(spoiled("label", None, [1]))


# ---- scores: exact in every type -----------------------------------------------------------------


def pairs_in_order(ascending: pa.Array):
    """GAUC of groups of two neighbours (must be 1), and of one value with itself (must be 1/2)."""
    count = len(ascending)
    low, high = np.arange(count - 1), np.arange(1, count)
    rows = np.concatenate([np.ravel((low, high), "F"), np.repeat(np.arange(count), 2)])
    groups = np.repeat(np.arange(len(rows) // 2), 2)
    label = np.tile(np.array([0, 1], np.int8), len(rows) // 2)
    scores = ascending.take(pa.array(rows))
    result = evaluate(pa.table({"group": groups, "label": label, "score": scores}))
    return result["GAUC"][: count - 1], result["GAUC"][count - 1 :]


def assert_ordered_exactly(ascending: pa.Array) -> None:
    neighbours, itself = pairs_in_order(ascending)
    assert (neighbours == 1.0).all()
    assert (itself == 0.5).all()


FLOATS = {
    np.float16: [-INF, -65504.0, -1.0, -6e-08, 0.0, 6e-08, 0.1, 1.0, 1.001, 65504.0, INF],
    np.float32: [-INF, -3.4028235e38, -1.0, -1e-45, 0.0, 1e-45, 1.0, 1.0000001, 3.4028235e38, INF],
    np.float64: [-INF, -1e308, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1.0 + 2**-52, 2.0**53, 1e308, INF],
}


@pytest.mark.parametrize("kind", list(FLOATS))
def test_score__floats_to_the_last_bit(kind):
    values = np.array(FLOATS[kind], kind)
    assert (np.diff(values[1:-1]) > 0).all()
    assert_ordered_exactly(pa.array(values))


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_score__integers_to_the_ends_of_their_type(kind, bits):
    ends = np.iinfo(f"{kind}{bits}")
    middle = [0, 1, 2, (1 << 24) + 1, (1 << 24) + 2]
    values = {ends.min, ends.min + 1, ends.max - 1, ends.max, *middle}
    wanted = sorted(value for value in values if ends.min <= value <= ends.max)
    assert_ordered_exactly(pa.array(wanted, getattr(pa, f"{kind}{bits}")()))


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_score__64_bit_integers_around_zero_and_beyond_what_a_double_holds(kind):
    values = {base + step for base in (2**53, 2**60, 2**62) for step in range(-2, 3)} | {0, 1, 7}
    if kind == pa.int64():
        values |= {-value for value in values}
    else:
        values |= {2**63 + step for step in range(-2, 3)}
    assert_ordered_exactly(pa.array(sorted(values), kind))


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_score__at_the_ends_of_64_bits_is_exact_or_refused_but_never_merged(kind):
    least = -(2**63) if kind == pa.int64() else 0
    for low, high in [(least, least + 1), (least + 2**64 - 2, least + 2**64 - 1)]:
        scores = pa.array([low, high, low], kind)
        table = pa.table({"group": [1] * 3, "label": [0, 1, 0], "score": scores})
        try:
            result = evaluate(table)
        except ColumnError as refused:
            message = str(refused)
        else:
            assert result.value("GAUC") == 1.0
            continue
        for fragment in ("'score'", str(kind), "row"):
            assert fragment in message


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_score__minus_zero_ties_with_zero(kind):
    for scores in ([-0.0, 0.0], [0.0, -0.0]):
        source = {"group": [1, 1], "label": [0, 1], "score": np.array(scores, kind)}
        result = evaluate(source, "GAUC,AUC,RR")
        assert [result.value(m) for m in ("GAUC", "AUC", "RR")] == [0.5, 0.5, 0.75]


# ---- labels --------------------------------------------------------------------------------------

GRADES = [0, 2, 1, 0, 0, 1, 1, 0, 0]
LABEL_KINDS = [
    *(f"{sign}{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64"),
]


@pytest.mark.parametrize("kind", LABEL_KINDS)
@pytest.mark.parametrize("with_null", [False, True])
def test_label__any_number_type_gives_the_same_bits(kind, with_null):
    texts = ["GAUC", "AUC", "nDCG@3", "AP", "ERR", "GAUC(rel=2)", "CG(gain='linear')"]
    grades = [None, *GRADES[1:]] if with_null else GRADES
    columns = {"group": [1] * 4 + [2] * 5, "score": [0.1, 0.2, 0.2, 0.3, 0.5, 0.1, 0.5, 0.7, 0]}
    options = {"measures": texts, "unjudged": "allow" if with_null else "error"}
    wanted = evaluate({**columns, "label": pa.array(grades, pa.float64())}, **options)
    typed = pa.array(grades, pa.float32()).cast(kind if kind != "float16" else pa.float16())
    given = evaluate({**columns, "label": typed}, **options)
    assert given.per_group.equals(wanted.per_group)
    assert [given.value(text) for text in texts] == [wanted.value(text) for text in texts]


@pytest.mark.parametrize("with_null", [False, True])
def test_label__bool_and_decimal_are_zero_and_one(with_null):
    clicks = [None if with_null else 0, 1, 0, 1, 0, 0]
    options = {"measures": "GAUC,RR,nDCG", "unjudged": "allow" if with_null else "error"}
    wanted = evaluate(six_rows(label=pa.array(clicks, pa.int8())), **options).per_group
    for kind in (pa.bool_(), pa.decimal128(5, 2)):
        label = pa.array(clicks, pa.int8()).cast(kind)
        assert evaluate(six_rows(label=label), **options).per_group.equals(wanted)


def test_dictionary_of_numbers__is_read_by_value():
    plain = six_rows(score=[0.5, None, 0.1, 0.1, None, 0.3])
    options = {"measures": "GAUC,AUC", "weight": "weight", "unretrieved": "allow"}
    coded = plain
    for name in ("label", "score", "weight"):
        column = plain[name].combine_chunks().dictionary_encode(null_encoding="encode")
        coded = coded.set_column(coded.column_names.index(name), name, column)
    wanted = evaluate(plain, **options)
    assert evaluate(coded, **options).per_group.equals(wanted.per_group)
    assert "null in 2 row(s)" in refusal(coded)


def test_label__unjudged_rows_at_the_start_are_dropped_like_any_other():
    halves = [pa.nulls(3, pa.int8()), pa.array([1, 0, 0], pa.int8())]
    whole = pa.concat_arrays(halves)
    coded = [whole.dictionary_encode(null_encoding="encode"), pc.run_end_encode(whole)]
    labels = [pa.chunked_array(halves), *coded]
    for label, order in itertools.product(labels, ("auto", "grouped", "scattered")):
        (row,) = evaluate(six_rows(label=label), unjudged="drop", order=order).per_group.to_pylist()
        assert row == {"group": 2, "rows": 3, "positives": 1, "GAUC": 0.0}


# ---- layouts -------------------------------------------------------------------------------------

ROWS = 23
KEY_NUMBERS = np.repeat(np.arange(6), [1, 4, 3, 8, 2, 5])
KEYS = {
    "int64": pa.array(KEY_NUMBERS),
    "bool": pa.array(KEY_NUMBERS > 3),
    "string": pa.array([f"user {n}" * n for n in KEY_NUMBERS]),
    "large_binary": pa.array([b"\x00" * n for n in KEY_NUMBERS], pa.large_binary()),
    "string_view": pa.array([f"a user of number {n}" for n in KEY_NUMBERS], pa.string_view()),
    "fixed_size_binary": pa.array([b"%03d" % n for n in KEY_NUMBERS], pa.binary(3)),
    "dictionary": pa.array([f"u{n}" for n in KEY_NUMBERS]).dictionary_encode(),
    "date32": pa.array(KEY_NUMBERS.astype(np.int32)).cast(pa.date32()),
    "decimal128": pa.array([decimal.Decimal(int(n)) for n in KEY_NUMBERS], pa.decimal128(30, 0)),
    "decimal256": pa.array([decimal.Decimal(int(n)) for n in KEY_NUMBERS], pa.decimal256(50, 0)),
}
SCORES = np.random.default_rng(7).integers(0, 5, ROWS)
HAS_SCORE = np.arange(ROWS) % 5 != 2
LAYOUTS = [
    {"score": SCORES.astype(np.float16), "label": SCORES % 3 == 0},
    {"score": SCORES.astype(np.float32), "label": (SCORES % 3).astype(np.uint8)},
    {"score": SCORES.astype(np.int64), "label": (SCORES % 3).astype(np.float16)},
    {"score": pa.array(SCORES / 2, mask=~HAS_SCORE), "label": (SCORES % 3).astype(np.float64)},
    {"score": SCORES % 2 == 0, "label": pa.array(SCORES % 2 == 1, mask=~HAS_SCORE)},
]


@pytest.mark.parametrize("key, layout", [*zip(KEYS, [*range(len(LAYOUTS))] * 2, strict=True)])
def test_layout__slices_and_chunks_at_any_offset_change_no_bit(key, layout):
    table = pa.table({"group": KEYS[key], "weight": np.linspace(0, 1, ROWS), **LAYOUTS[layout]})
    options = {"unretrieved": "allow", "unjudged": "allow", "weight": "weight"}
    for lo, hi, cuts in [(1, 23, ()), (3, 22, (9,)), (8, 23, (8, 9, 17)), (5, 20, range(5, 20))]:
        part = table.slice(lo, hi - lo)
        rebuilt = pa.table(
            {
                name: pa.array(part[name].to_pylist(), table.schema.field(name).type)
                for name in table.column_names
            }
        )
        edges = [lo, *cuts, hi]
        pieces = [table.slice(a, b - a) for a, b in itertools.pairwise(edges)]
        wanted = evaluate(rebuilt, "GAUC,AUC", **options)
        for order in ("auto", "scattered"):
            given = evaluate(pa.concat_tables(pieces), "GAUC,AUC", order=order, **options)
            assert given.per_group.equals(wanted.per_group), (lo, hi, cuts, order)
            assert given.value("AUC").hex() == wanted.value("AUC").hex()


@pytest.mark.parametrize("key", [*KEYS, "whole float"])
@pytest.mark.parametrize("rows", [1, 3, 7, 8, 22])
def test_slices__of_a_batch_in_memory_end_where_groups_do(key, rows, monkeypatch):
    keys = KEYS.get(key, pa.array(KEY_NUMBERS * np.where(np.arange(ROWS) % 2, 1.0, -1.0) ** 2))
    table = pa.table({"group": keys, "score": SCORES, "label": SCORES % 3 == 0})
    ends = np.unique(np.flatnonzero(np.diff(KEY_NUMBERS > 3 if key == "bool" else KEY_NUMBERS)) + 1)
    wanted, scan, seen = evaluate(table, "GAUC"), Evaluator.scan, []

    def noted(evaluator, keys, columns, whole):
        seen.append((columns[0].first_row, columns[0].rows, whole))
        return scan(evaluator, keys, columns, whole)

    monkeypatch.setattr(evaluator, "_EDGE_ROWS", 2)
    monkeypatch.setattr(Evaluator, "scan", noted)
    given = evaluate(table, "GAUC", batch_rows=rows, threads=1)
    assert given.per_group.equals(wanted.per_group)
    assert {first for first, _, _ in seen} <= {0, *ends.tolist()}
    assert all(whole for _, _, whole in seen)
    again = max(at for at, (first, _, _) in enumerate(seen) if first == 0)  # wide keys
    assert sum(count for _, count, _ in seen[again:]) == ROWS
    keys = pa.array([*keys.to_pylist()[:-1], None], keys.type)
    told = refusal(table.set_column(0, "group", keys), batch_rows=rows)
    assert "is null in 1 row(s), first in row 22" in told


def test_layout__arrays_without_nulls_are_viewed_read_only_and_left_alone():
    score, label = np.array([0.1, 0.2, 0.3], np.float32), np.array([0, 1, 0], np.int32)
    batch = pa.record_batch({"group": [1, 1, 1], "label": label, "score": score})
    columns = columns_of(batch, Roles(("group",), "label", ("score",)), 5)
    assert np.shares_memory(columns.scores[0], score)
    assert np.shares_memory(columns.label, label)
    assert (columns.rows, columns.first_row) == (3, 5)
    assert not columns.scores[0].flags.writeable
    assert not columns.label.flags.writeable
    evaluate({"group": np.array([1, 1, 1]), "label": label, "score": score}, "GAUC,AUC,AP")
    assert (score.flags.writeable, label.flags.writeable, label.tolist()) == (True, True, [0, 1, 0])


@pytest.mark.parametrize("kind", [pa.bool_(), pa.int8()])
def test_masks__of_slices__are_those_of_arrow(kind) -> None:
    draw = np.random.default_rng(2)
    column = pa.array(draw.integers(0, 2, 99), pa.int8(), mask=draw.random(99) < 0.3).cast(kind)
    for first, count in itertools.product((0, 1, 7, 8, 9, 63, 98), (0, 1, 8, 36)):
        part = column.slice(first, count)
        assert null_rows(part).tolist() == part.is_null().to_pylist()
        values = part.fill_null(0 if kind != pa.bool_() else False)
        assert as_array(values).tolist() == values.cast(pa.int8()).to_pylist()
        whole = column.fill_null(values.type.to_pandas_dtype()(0)).slice(first, count)
        assert as_array(whole).tolist() == whole.cast(pa.int8()).to_pylist()


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_numbers_of_order__are_the_integers(kind):
    """The doubles nearest to integers that are read by their order."""
    integers = [0, 1, 2, 7, 2**31, 2**53 - 1, 2**53 + 2, 2**62 + 2**40]
    integers += [-value for value in integers] if kind == "int64" else [2**63 - 1, 2**63 + 2**20]
    score = pa.array(integers, getattr(pa, kind)())
    rows = pa.record_batch({"g": [1] * len(score), "y": [0] * len(score), "s": score})
    columns = columns_of(rows, Roles(("g",), "y", ("s",)), 0)
    assert numbers_of_order(columns.scores[0], kind).tolist() == [float(i) for i in integers]


test_answers = answers(globals())


@pytest.mark.parametrize("wrong", [[0.1, None, 0.3], [0.1, float("nan"), 0.3]])
def test_error_of_rows__reaches_another_process(wrong):
    rows = {"user": [1, 1, 2], "click": [0, 1, 1], "score": pa.array(wrong)}
    with pytest.raises(fe.ColumnError) as caught:
        fe.evaluate(rows, measures="GAUC", group="user", label="click", score="score")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (type(again), str(again), again.row) == (type(caught.value), str(caught.value), 1)
