"""Keys as words and back, and that words are equal exactly where keys are."""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrank_eval
from fastrank_eval._lib.arrow import frozen
from fastrank_eval.io import keys as keys_module
from fastrank_eval.io.keys import MAX_INLINE_BYTES, CategoricalEncoder, KeyEncoder, encode_integers
from tests.support.transcripts import answers

pytestmark = pytest.mark.kernels

INTERVAL = pa.month_day_nano_interval()
BYTES = st.binary(max_size=12) | st.binary(
    min_size=MAX_INLINE_BYTES - 2, max_size=MAX_INLINE_BYTES + 4
)
KEYS = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us"), st.datetimes()),
    "decimal": (pa.decimal128(38), st.integers(-(10**37), 10**37)),
    "long decimal": (pa.decimal256(70), st.integers(-(10**69), 10**69)),
    "interval": (INTERVAL, st.tuples(*[st.integers(-9, 9)] * 3)),
    "3 bytes": (pa.binary(3), st.binary(min_size=3, max_size=3)),
    "10 bytes": (pa.binary(10), st.binary(min_size=10, max_size=10)),
    "no bytes": (pa.binary(0), st.just(b"")),
    "string": (pa.string(), st.text(max_size=30)),
    "large string": (pa.large_string(), st.text(max_size=80)),
    "bytes": (pa.binary(), BYTES),
    "large bytes": (pa.large_binary(), BYTES),
    "bytes like fillings": (pa.binary(), st.text("\0\x01\x7f").map(str.encode)),
}


def padded(words: list[np.ndarray], width: int) -> list[tuple[int, ...]]:
    """Words of each key, filled up with zeros."""
    rows = zip(*(word.tolist() for word in words), strict=True)
    return [row + (0,) * (width - len(row)) for row in rows]


@pytest.mark.parametrize("kind", KEYS)
@settings(max_examples=20)
@given(data=st.data())
def test_words__tell_keys_apart_and_turn_back_into_them(kind, data):
    type_, values = KEYS[kind]
    keys = pa.array(data.draw(st.lists(values, min_size=2, max_size=20)), type_)
    cut = data.draw(st.integers(1, len(keys) - 1))
    column = KeyEncoder("key", type_)
    # In two stretches, the second of them a slice that does not begin at its buffers.
    stretches = [keys.slice(0, cut), keys.slice(cut)]
    words = [[word.copy() for word in column.words(part)] for part in stretches]
    for part, of_part in zip(stretches, words, strict=True):
        back = column.keys(of_part)
        back.validate(full=True)
        assert back.type == part.type
        assert back.equals(part)
    width = max(map(len, words))
    texts = [row for of_part in words for row in padded(of_part, width)]
    for (a, left), (b, right) in itertools.combinations(enumerate(texts), 2):
        assert (left == right) == keys[a].equals(keys[b])
    if len(words[0]) < width:
        filled = [*words[0], *[np.zeros(cut, np.int64)] * (width - len(words[0]))]
        assert column.keys(filled).equals(stretches[0])


def test_words__of_one_word_for_keys_that_count_as_integers():
    integers = [pa.int8(), pa.uint64(), pa.bool_(), pa.date32(), pa.duration("ns"), pa.time32("s")]
    assert all(KeyEncoder("key", kind).integer for kind in integers)
    others = [pa.string(), pa.binary(4), pa.decimal128(3), INTERVAL]
    assert not any(KeyEncoder("key", kind).integer for kind in others)


def test_encode_rows__whose_keys_share_a_hash_takes_another(monkeypatch):
    factor, seeds = keys_module._factor, []

    def weak(seed: int, word: int) -> np.uint64:
        seeds.append(seed)
        return factor(seed, word) if seed > 1 else np.uint64(1)  # (1, 2) and (2, 1) are level

    monkeypatch.setattr(keys_module, "_factor", weak)
    words = frozen(np.array([[1, 2, 1, 5, 2, 3], [2, 1, 2, 4, 1, 0]]))
    bounds = np.array([[0, 4, 6]])
    codes, firsts, starts = np.empty((3, 6), np.int64)
    for position, wanted in ((False, [0, 1, 0, 2, 0, 1]), (True, [0, 2, 1, 3, 4, 5])):
        seeds.clear()
        ends = keys_module.encode_rows(words, bounds, codes, firsts, starts, place=position)
        assert ends.tolist() == [0, 3, 5]
        assert codes.tolist() == wanted
        assert firsts[:5].tolist() == [0, 1, 3, 4, 5]
        assert starts[:5].tolist() == [0, 2, 3, 4, 5]
        assert max(seeds) == 2


def test_encode_rows__of_parts_whose_rows_lie_in_several_batches():
    words = frozen(np.array([[7, 8, 7, 0, 5, 0]], np.uint32))
    bounds = np.array([[3, 4, 6], [0, 2, 3]])  # two batches of two parts
    codes, firsts, starts = np.empty((3, 6), np.int64)
    bases = frozen(np.array([8, 0]))
    ends = keys_module.encode_rows(words, bounds, codes, firsts, starts, bases, place=True)
    assert ends.tolist() == [0, 2, 5]
    assert codes.tolist() == [0, 2, 1, 3, 4, 5]
    assert firsts[:5].tolist() == [0, 1, 3, 4, 5]


TOP = -(1 << 63)


@pytest.mark.parametrize(
    "columns",
    [
        [pa.array([0, TOP, 0]), pa.array([0, TOP, 0])],
        [pa.array(["abcdefg", "abcdefg" + "\0" * 8, "abcdefg"])],
        [pa.array([bytes(16), bytes([0] * 7 + [128] + [0] * 7 + [128]), bytes(16)], pa.binary(16))],
    ],
    ids=["two integers", "padded text", "fixed binary"],
)
def test_encode_keys__that_differ_in_the_top_bits_of_two_words__ends(columns):
    codes, firsts = keys_module.encode_keys(columns)
    assert codes.tolist() == [0, 1, 0]
    assert firsts.tolist() == [0, 1]


@pytest.mark.parametrize("keys", [[0, TOP], [-1, -1 - TOP]])
def test_scattered_groups__of_the_least_integer__are_told_apart(keys):
    table = pa.table(
        {
            "a": np.tile(keys, 50),
            "b": np.tile(keys, 50),
            "click": np.arange(100) % 3 == 0,
            "score": np.arange(100.0),
        }
    )
    result = fastrank_eval.evaluate(
        table, group=["a", "b"], label="click", score="score", measures="GAUC", order="scattered"
    )
    assert result.meta.groups == 2


@pytest.mark.parametrize(
    "others", [[1400, 637, 1248, 1913, 89, 27, 1970, 1810], list(range(2686, 2694))]
)
def test_encode_integers__zero_after_keys_that_fill_half_of_a_table__is_a_key_of_its_own(
    others: list[int],
) -> None:
    words = np.array([*others, 0], np.int64)
    codes, firsts = encode_integers(words)
    assert codes.tolist() == list(range(9))
    assert firsts.tolist() == list(range(9))


TEXTS = ["", "a", "b", "ab", "\0", "a\0", "x" * 8, "x" * 9, "x" * 8 + "y", "y" * 70, "z" * 99, "é"]
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    **{
        str(kind): (kind, [-(2**top), -1, 0, 1, 2**top - 1])
        for kind, top in ((pa.int8(), 7), (pa.int16(), 15), (pa.int32(), 31), (pa.int64(), 63))
    },
    "uint64": (pa.uint64(), [0, 1, 2**15, 2**63, 2**64 - 1]),
    "narrow": (pa.int64(), [10**15, 10**15 + 1, 10**15 - 2**15, 10**15 + 2**15]),
    "bool": (pa.bool_(), [False, True]),
    "string": (pa.string(), TEXTS),
    "large_string": (pa.large_string(), TEXTS),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), TEXTS),
}  # fmt: skip


def numbers_in_order(batches: list[list[Any]]) -> dict[Any, int]:
    """Number values as they appear, null after the others of its batch."""
    numbers: dict[Any, int] = {}
    for batch in batches:
        for value in sorted(batch, key=lambda value: value is None):
            numbers.setdefault(value, len(numbers))
    return numbers


@pytest.mark.parametrize("kind", VALUES)
@given(draw=st.data())
def test_categories__of_any_values__are_numbered_as_they_appear(
    kind: str, draw: st.DataObject
) -> None:
    arrow, pool = VALUES[kind]
    values = st.lists(st.sampled_from(pool) | st.none(), max_size=20)
    batches = draw.draw(st.lists(values, max_size=3))
    numbers, encoder = numbers_in_order(batches), CategoricalEncoder("c")
    for batch in batches:
        column = pa.array(["before", *batch] if pool is TEXTS else [pool[0], *batch], arrow)[1:]
        codes = encoder.codes(column)
        assert codes.dtype == np.int32
        assert codes.tolist() == [numbers[value] for value in batch]
    assert encoder.values().to_pylist() == list(numbers)


def test_categories__of_many_texts__have_numbers_of_their_own() -> None:
    texts = [f"{k % 9}" * 9 + str(k) for k in range(5000)]
    encoder = CategoricalEncoder("c")
    assert encoder.codes(pa.array(texts + texts)).tolist() == [*range(5000), *range(5000)]
    assert encoder.values().to_pylist() == texts


test_answers = answers(globals())
