"""Groups: keys of every type, contiguous or scattered, never counted twice."""

import decimal
import itertools
import random

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval import ColumnError, OrderError
from fastrank_eval.groups.scan import group_starts
from fastrank_eval.io.keys import encode_keys
from tests.support import batched
from tests.support.transcripts import answers

pytestmark = pytest.mark.kernels


def evaluate(source, measures="GAUC,RR", **options):
    roles = {"group": "group", "label": "label", "score": "score", **options}
    return batched.evaluate(source, measures=measures, **roles)


# ---- keys of every type --------------------------------------------------------------------------


def decimals(*texts):
    return [decimal.Decimal(text) for text in texts]


def integers(bits, signed):
    ends = np.iinfo(f"{'int' if signed else 'uint'}{bits}")
    return [3, ends.max, ends.min, ends.max - 1, ends.min + 1, 0 if signed else ends.max // 2]


TEXTS = ["b", "", "a much longer name than twelve bytes", "a", "é", "a\x00"]
BYTES = [text.encode() for text in TEXTS]
TIMES = [5, 0, 86_399, 1, 7, 3_600]
INSTANTS = [0, -1, 1_000, 253_402_300_799, -5, 3]
KINDS: dict[pa.DataType, list] = {
    **{getattr(pa, f"int{bits}")(): integers(bits, True) for bits in (8, 16, 32, 64)},
    **{getattr(pa, f"uint{bits}")(): integers(bits, False) for bits in (8, 16, 32, 64)},
    pa.bool_(): [True, False],
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.string_view(): TEXTS,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.binary_view(): BYTES,
    pa.binary(2): [b"ab", b"\x00\x00", b"ba", b"\xff\xff", b"aa", b"a\x00"],
    pa.binary(16): [bytes([n]) * 16 for n in (7, 0, 255, 1, 128, 9)],
    pa.date32(): INSTANTS[:3],
    pa.date64(): [86_400_000 * day for day in (3, -1, 0, 20_000)],
    pa.timestamp("s"): INSTANTS,
    pa.timestamp("us", "UTC"): INSTANTS,
    pa.timestamp("ns", "Europe/Berlin"): INSTANTS,
    pa.time32("s"): TIMES,
    pa.time64("us"): TIMES,
    pa.duration("ms"): INSTANTS,
    pa.decimal32(7, 2): decimals("1.50", "-1.50", "99999.99", "0.00", "-99999.99", "0.01"),
    pa.decimal64(16, 2): decimals("1.50", "-1.50", "99999999999999.99", "0", "0.01", "7"),
    pa.decimal128(38, 2): decimals("1.5", "-1.5", "1e35", "-1e35", "0", "1.51"),
    pa.decimal256(76, 2): decimals("1.5", "-1.5", "1e70", "-1e70", "0", "1e30"),
    pa.month_day_nano_interval(): [(1, 2, 3), (0, 0, 0), (1, 2, 4), (2, 2, 3)],
}
for index in (pa.int8(), pa.uint32(), pa.int64()):
    KINDS[pa.dictionary(index, pa.string())] = TEXTS
KINDS[pa.dictionary(pa.int16(), pa.int64())] = integers(64, True)
KINDS[pa.dictionary(pa.int16(), pa.date32())] = INSTANTS[:3]


def column(values, kind):
    """`values` as an array; dictionaries of dates cannot be built from Python values at once."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


SIZES = [1, 5, 2, 7, 3, 4]


def rows_of_groups(count):
    """Group number, label and score of each row; groups are contiguous."""
    rng = np.random.default_rng(11)
    number = np.repeat(np.arange(count), SIZES[:count])
    return number, rng.integers(0, 2, len(number)), rng.integers(0, 4, len(number)) / 4


def by_key(result):
    """Group values by the key's text, in the order of appearance, and the coverage."""
    columns = result.per_group
    keys = [repr(key) for key in columns["group"].to_pylist()]
    assert len(set(keys)) == len(keys)
    rows = zip(*(columns[name].to_pylist() for name in columns.column_names[1:]), strict=True)
    return dict(zip(keys, rows, strict=True))


@pytest.mark.compiled
@pytest.mark.parametrize("kind", list(KINDS), ids=str)
def test_key__of_any_type_contiguous_or_scattered_gives_the_same_numbers(kind):
    values = KINDS[kind]
    number, label, score = rows_of_groups(len(values))
    wanted = by_key(evaluate({"group": number, "label": label, "score": score}))

    def table(order):
        keys = column([values[number[row]] for row in order], kind)
        return pa.table({"group": keys, "label": label[order], "score": score[order]})

    straight = np.arange(len(number))
    shuffled = np.random.default_rng(5).permutation(len(number))
    names = column(values, kind).to_pylist()
    runs = [
        (order, arrangement, rows)
        for order, arrangement in itertools.product(("auto", "scattered"), (straight, shuffled))
        for rows in (1, 4, None)
    ] + [("grouped", straight, rows) for rows in (1, 4, None)]
    for order, arrangement, batch_rows in runs:
        source = table(arrangement)
        if order == "grouped":
            source = pa.concat_tables([source.slice(0, 7), source.slice(7)])
        given = by_key(evaluate(source, order=order, batch_rows=batch_rows))
        assert given == {repr(names[int(key)]): row for key, row in wanted.items()}


VIEWS = [pa.string_view(), pa.binary_view(), pa.dictionary(pa.int8(), pa.string())]


@pytest.mark.parametrize("kind", VIEWS, ids=str)
@pytest.mark.parametrize("order", ["auto", "scattered"])
def test_key__of_any_type_where_unjudged_rows_are_dropped(kind, order):
    values = BYTES if kind == pa.binary_view() else TEXTS
    keys = pa.array([values[n] for n in (0, 0, 1, 1, 2)], kind)
    source = pa.table({"group": keys, "label": [0, 1, None, 1, None], "score": [1.0, 2, 3, 4, 5]})
    given = by_key(evaluate(source, "RR", unjudged="drop", order=order))
    assert given == {repr(values[0]): (2, 1, 1.0), repr(values[1]): (1, 1, 1.0)}


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["b", "a", "c"])], ids=str)
def test_key__text_of_polars(kind):
    frame = pl.DataFrame({"group": ["b", "a", "b", "c"], "label": [0, 1, 1, 0], "score": 1.0})
    frame = frame.with_columns(pl.col("group").cast(kind))
    assert by_key(evaluate(frame, "P@1")) == {
        "'b'": (2, 1, 0.5),
        "'a'": (1, 1, 1.0),
        "'c'": (1, 0, 0.0),
    }
    assert evaluate(frame, "RR", group="label", item="group", ties="item").value("RR") == 0.5


# ---- dictionaries --------------------------------------------------------------------------------


def dictionary(indices, values, index=None):
    return pa.DictionaryArray.from_arrays(pa.array(indices, index or pa.int8()), pa.array(values))


@pytest.mark.parametrize("order", ["auto", "grouped", "scattered"])
def test_dictionary__that_differs_between_chunks_is_read_by_value(order):
    chunks = [
        dictionary([0, 0, 1], ["x", "y"]),
        dictionary([0, 0, 1], ["y", "z"]),
        dictionary([1, 1, 0], ["never", "z"]).slice(0, 2),
    ]
    source = pa.table(
        {
            "group": pa.chunked_array(chunks),
            "label": [0, 1, 0, 1, 1, 0, 0, 1],
            "score": [1.0, 2, 3, 4, 5, 6, 7, 8],
        }
    )
    for batch_rows in (None, 1, 3):
        given = by_key(evaluate(source, order=order, batch_rows=batch_rows))
        assert {key: row[0] for key, row in given.items()} == {"'x'": 2, "'y'": 3, "'z'": 3}


@pytest.mark.parametrize("order", ["auto", "grouped", "scattered"])
def test_dictionary__chunks_whose_values_outgrow_the_index_type_together(order):
    chunks = [dictionary(range(100), [f"{name}{n}" for n in range(100)]) for name in "abc"]
    if order != "grouped":
        chunks.append(chunks[0].slice(0, 10))
    rows = sum(map(len, chunks))
    columns = {"label": np.arange(rows) % 2, "score": np.arange(rows) * 1.0}
    result = evaluate(pa.table({"group": pa.chunked_array(chunks), **columns}), order=order)
    assert (result.meta.rows, result.meta.groups) == (rows, 300)


@pytest.mark.parametrize("order", ["auto", "grouped", "scattered"])
def test_dictionary__null_among_its_values_that_no_row_has(order):
    chunks = [dictionary([0, 0], ["x", None]), dictionary([1, 1], [None, "y"])]
    source = {"group": pa.chunked_array(chunks), "label": [0, 1] * 2, "score": [1.0, 2.0] * 2}
    assert evaluate(pa.table(source), order=order).value("GAUC") == 1.0


# ---- several key columns -------------------------------------------------------------------------


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("order", ["auto", "scattered"])
def test_several_key_columns__form_one_key(order, shuffled):
    rng = random.Random(3)  # noqa: S311
    rows = [(n, text, flag) for n in (2**63, 0) for text in ("a", "b") for flag in (True, False)]
    rows = [(row, rng.randrange(2), rng.randrange(3)) for row in rows for _ in range(3)]
    if shuffled:
        rng.shuffle(rows)
    keys = [row[0] for row in rows]
    numbered = list(dict.fromkeys(keys))
    label, score = [row[1] for row in rows], [float(row[2]) for row in rows]
    wanted = evaluate(
        {"group": [numbered.index(key) for key in keys], "label": label, "score": score}
    )
    source = pa.table(
        {
            "n": pa.array([key[0] for key in keys], pa.uint64()),
            "text": pa.array([key[1] for key in keys], pa.string_view()),
            "flag": pa.array([key[2] for key in keys]),
            "label": label,
            "score": score,
        }
    )
    for batch_rows in (1, 5, None):
        given = evaluate(source, group=["n", "text", "flag"], order=order, batch_rows=batch_rows)
        columns = given.per_group.to_pydict()
        assert list(columns)[:3] == ["n", "text", "flag"]
        assert list(zip(columns["n"], columns["text"], columns["flag"], strict=True)) == numbered
        for name in ("rows", "positives", "GAUC", "RR"):
            assert columns[name] == wanted.per_group[name].to_pylist()


# ---- null keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(KINDS), ids=str)
def test_null_key__is_an_error_that_names_the_row(kind):
    values = KINDS[kind]
    keys = column([values[0], values[0], None, values[1], None], kind)
    source = pa.table({"group": keys, "label": [0, 1, 0, 1, 0], "score": [1.0] * 5})
    for order in ("auto", "grouped", "scattered"):
        with pytest.raises(ColumnError, match=r"'group'.*null in 2 row\(s\), first in row 2 "):
            evaluate(source, order=order)


# ---- keys that come back -------------------------------------------------------------------------

RETURNS = {
    "at once": [1, 1, 2, 1],
    "late, after rising keys": [*np.repeat(np.arange(40), 2).tolist(), 3],
    "late, after falling keys": [*np.repeat(np.arange(40)[::-1], 2).tolist(), 30],
    "among keys in no order": [7, 7, 1, 9, 3, 3, 8, 2, 9],
    "after thousands of groups in no order": [
        *np.random.default_rng(1).permutation(5000).tolist(),
        *range(10_000, 15_000),
        4321,
    ],
}
TEXT_KEYS = {"number": lambda n: n, "text": lambda n: f"u{n:05}"}


def returning(numbers, key) -> pa.Table:
    count = len(numbers)
    label = np.tile(np.array([0, 1, 1], np.int8), count)[:count]
    return pa.table(
        {"group": [key(n) for n in numbers], "label": label, "score": np.arange(count) % 7 * 1.0}
    )


def reader(table, rows):
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=rows))


@pytest.mark.compiled
@pytest.mark.parametrize("case", list(RETURNS))
@pytest.mark.parametrize("key", list(TEXT_KEYS))
def test_returning_key__is_gathered_where_the_source_can_be_read_again(case, key, tmp_path):
    table = returning(RETURNS[case], TEXT_KEYS[key])
    wanted = by_key(evaluate(table, order="scattered"))
    assert len(wanted) == len(set(RETURNS[case]))
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=50)
    chunked = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    for source in (table, chunked, tmp_path / "log.parquet"):
        result = evaluate(source, batch_rows=64)
        assert by_key(result) == wanted
        assert result.meta.conventions["order"] == "scattered"
        assert result.meta.rows == len(table)


@pytest.mark.compiled
@pytest.mark.parametrize("case", list(RETURNS))
@pytest.mark.parametrize("key", list(TEXT_KEYS))
def test_returning_key__of_a_source_read_once_is_gathered_or_named(case, key):
    numbers = RETURNS[case]
    table = returning(numbers, TEXT_KEYS[key])
    assert by_key(evaluate(reader(table, len(numbers)))) == by_key(evaluate(table))
    rows = 3 if len(numbers) < 1000 else 200
    with pytest.raises(OrderError) as refused:
        evaluate(reader(table, rows), batch_rows=rows)
    assert f"group={TEXT_KEYS[key](numbers[-1])!r}" in str(refused.value)
    assert "scattered" in str(refused.value)


@pytest.mark.compiled
@pytest.mark.parametrize("order", ["grouped", "sorted"])
@pytest.mark.parametrize("case", list(RETURNS))
def test_returning_key__is_named_where_contiguous_groups_were_promised(case, order):
    numbers = RETURNS[case]
    for key in TEXT_KEYS.values():
        table = returning(numbers, key).set_column(2, "score", pa.array([0.5] * len(numbers)))
        for source in (table, reader(table, 64)):
            with pytest.raises(OrderError) as refused:
                evaluate(source, order=order, batch_rows=64)
            assert f"group={key(numbers[-1])!r}" in str(refused.value)


@pytest.mark.compiled
def test_returning_key__of_several_columns_is_named_whole():
    source = {
        "group": [1, 1, 2, 1],
        "day": ["a", "b", "a", "a"],
        "label": [1] * 4,
        "score": [0] * 4,
    }
    with pytest.raises(OrderError, match="group=1, day='a'"):
        evaluate(source, group=["group", "day"], order="grouped", measures="RR")
    assert evaluate(source, group=["group", "day"], measures="RR").meta.groups == 3


def test_contiguous_keys__in_no_order_stay_a_stream():
    numbers = np.random.default_rng(2).permutation(6000)
    table = returning(numbers.tolist(), TEXT_KEYS["number"])
    for source in (table, reader(table, 64)):
        result = evaluate(source, batch_rows=512, order="grouped")
        assert result.meta.groups == 6000
        assert result.per_group["group"].to_pylist() == numbers.tolist()


# ---- the rooms' own functions --------------------------------------------------------------------

KEY_LISTS = st.one_of(
    st.lists(st.integers(-5, 5)),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.sampled_from([0, 1, 2**62, -(2**63), 2**63 - 1, 77])),
    st.lists(st.text(max_size=3)),
    st.lists(st.booleans()),
)


@given(KEY_LISTS, st.lists(st.integers(0, 2), min_size=60, max_size=60))
def test_encode_keys__counts_up_in_order_of_first_appearance(keys, second):
    key = pa.array(keys, None if keys else pa.int64())
    tables = [((key,), [(k,) for k in keys])]
    if len(keys) <= len(second):
        other = second[: len(keys)]
        pairs = (key, pa.array(other, pa.int64()))
        tables.append((pairs, list(zip(keys, other, strict=True))))
    for columns, rows in tables:
        distinct = list(dict.fromkeys(rows))
        codes, firsts = encode_keys(columns)
        assert codes.tolist() == [distinct.index(row) for row in rows]
        assert firsts.tolist() == [rows.index(row) for row in distinct]
        edges = [i for i in range(1, len(rows)) if rows[i] != rows[i - 1]]
        if rows:
            assert group_starts(columns).tolist() == edges


@pytest.mark.slow("millions of keys")
def test_encode_keys__of_many_sparse_integers():
    keys = np.random.default_rng(4).integers(-(2**63), 2**63 - 1, 40_000)
    keys = np.concatenate([keys, keys[::-1], keys[:100] * 2])
    codes, firsts = encode_keys((pa.array(keys),))
    assert len(firsts) == len(np.unique(keys))
    assert (keys[firsts][codes] == keys).all()
    assert (np.diff(firsts) > 0).all()


test_answers = answers(globals())
