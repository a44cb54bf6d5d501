"""Numbers of groups: decided by values of keys, not by the types that hold them."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config

from fastrank_eval.results.compare_tests import group_ids

pytestmark = pytest.mark.kernels

law = settings(max_examples=5 if config.DISABLE_JIT else 100, deadline=None, derandomize=True)
TEXTS = [
    *(pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())),
    *(pa.binary(), pa.large_binary(), pa.binary_view()),
]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


def ids(*columns: pa.Array) -> list[int]:
    found: list[int] = group_ids(columns).tolist()
    return found


@law
@given(st.lists(st.text(max_size=100), min_size=1, max_size=8))
def test_texts__of_any_type_and_slice__have_the_same_ids(texts):
    wanted = ids(pa.array(texts, pa.string()))
    for kind in TEXTS:
        encoded = pa.array([t.encode() for t in ["x", *texts]], pa.binary())
        column = encoded if "binary" in str(kind) else encoded.cast(pa.string())
        column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
        assert ids(column.slice(1)) == wanted
    assert len(set(wanted)) == len(set(texts))


@law
@given(st.lists(st.integers(-128, 127), min_size=1, max_size=20))
def test_integers__of_any_type__have_the_same_ids(values):
    wanted = ids(pa.array(values, pa.int64()))
    kinds = [*INTEGERS, pa.dictionary(pa.int8(), pa.int64())]
    if min(values) >= 0:
        kinds += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    assert all(ids(pa.array(values, kind)) == wanted for kind in kinds)
    assert len(set(wanted)) == len(set(values))


def test_decimals__of_one_scale__have_the_same_ids():
    values = [Decimal(x) for x in (-5, 0, 7, -(10**17))]
    kinds = [pa.decimal64(18), pa.decimal128(30), pa.decimal256(60)]
    assert len({tuple(ids(pa.array(values, kind))) for kind in kinds}) == 1
    far = pa.array([Decimal(x) for x in (10**25, -(10**25), 10**25 % 2**64)], pa.decimal128(38))
    assert len(set(ids(far))) == 3


def test_bytes_of_one_width__have_the_ids_of_any_bytes():
    values = [b"abc", b"\0\0\0", b"ab\0"]
    assert ids(pa.array(values, pa.binary(3))) == ids(pa.array(values, pa.binary()))


@pytest.mark.parametrize(
    "left, right",
    [
        (([1], [2]), ([2], [1])),
        (([1],), ([1], [0])),
        ((["ab"], ["c"]), (["a"], ["bc"])),
        (([""], [""]), ([""],)),
        ((["a"],), (["a\0"],)),
        (([5],), ([-5],)),
    ],
)
def test_other_keys__have_other_ids(left, right):
    assert ids(*map(pa.array, left)) != ids(*map(pa.array, right))


def test_ids__do_not_depend_on_other_groups_nor_on_the_version():
    dates = pa.array([dt.date(2026, 11, 19), dt.date(2026, 11, 20)])
    users = pa.array(["anna", "a name of more than seventy-one bytes " * 3])
    assert ids(dates, users)[1:] == ids(dates.slice(1), users.slice(1))
    # Saved results are joined by these: a change is a breaking one.
    assert ids(pa.array([0, 1, -1])) == [0xE220A8397B1DCDAF, 0xE4D971771B652C20, 0xDE0A564CBCD060C4]
    assert ids(pa.array(["", "anna"])) == [0xE220A8397B1DCDAF, 0x8DED16B46A89FFAB]
    assert ids(pa.array(["anna karenina"])) == [0xFBDF534E8FC0DCF7]


def test_a_million_integers__have_ids_of_their_own():
    many = 2000 if config.DISABLE_JIT else 1_000_000
    found = group_ids((pa.array(np.arange(many)),))
    assert len(np.unique(found)) == many
    assert not found.flags.writeable
