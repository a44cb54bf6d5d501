"""The values that a condition may have in rows of known ranges, and odd literals."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.io.filters import FALSE, NULL, TRUE, condition_of
from fastrank_eval.io.formats import Range
from fastrank_eval.io.reader import open_source

pytestmark = pytest.mark.no_kernels

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("f", pa.float64()), ("n", pa.null())])
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
#: A range of `a` for each set of values that `a = 1` may have.
RANGES = {
    frozenset([True]): Range(1, 1, nulls=False),
    frozenset([False]): Range(0, 0, nulls=False),
    frozenset([None]): Range(values=False),
    frozenset([True, False]): Range(0, 1, nulls=False),
    frozenset([True, None]): Range(1, 1),
    frozenset([False, None]): Range(0, 0),
    frozenset([True, False, None]): Range(0, 1),
}


def outcomes(where: str, **ranges: Range) -> set[bool | None]:
    """Values that the condition may have."""
    bits = condition_of(where).select(SCHEMA).outcomes(ranges)
    return {value for value, bit in ((True, TRUE), (False, FALSE), (None, NULL)) if bits & bit}


def and3(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if None in (one, other) else True


def not3(one: bool | None) -> bool | None:
    return None if one is None else not one


@pytest.mark.parametrize("sign", list(COMPARE))
@pytest.mark.parametrize("low,high", [(3, 3), (2, 4), (3, 5), (1, 3), (4, 6), (0, 2)])
def test_comparison__with_a_range__has_the_values_of_its_rows(
    sign: str, low: int, high: int
) -> None:
    exact = {COMPARE[sign](value, 3) for value in range(low, high + 1)}
    where = f"a {sign} 3"
    assert outcomes(where, a=Range(low, high, nulls=False)) == exact
    assert outcomes(where, a=Range(low, high)) == exact | {None}
    # NaN lies in no range; only != selects it.
    of_nan = sign == "!="
    assert outcomes(f"f {sign} 3", f=Range(float(low), float(high), nulls=False)) == exact | {
        of_nan
    }
    assert outcomes(where, a=Range(nulls=False)) == {True, False}
    assert outcomes(where, a=Range(values=False)) == {None}
    assert outcomes(where) == {True, False, None}


@pytest.mark.parametrize(
    "low,high,wanted",
    [
        (2, 2, {True}),
        (5, 5, {True}),
        (3, 3, {False}),
        (3, 4, {False}),
        (6, 9, {False}),
        (0, 1, {False}),
        (4, 5, {True, False}),
        (0, 9, {True, False}),
    ],
)
def test_in__with_a_range__has_the_values_of_its_rows(
    low: int, high: int, wanted: set[bool]
) -> None:
    assert outcomes("a in (5, 2)", a=Range(low, high, nulls=False)) == wanted


@pytest.mark.parametrize("values", list(RANGES), ids=str)
def test_joined_conditions__have_the_values_of_three_valued_logic(
    values: frozenset[bool | None],
) -> None:
    assert outcomes("a = 1", a=RANGES[values]) == values
    assert outcomes("not a = 1", a=RANGES[values]) == {not3(value) for value in values}
    for others, other in RANGES.items():
        pairs = list(itertools.product(values, others))
        ranges = {"a": RANGES[values], "b": other}
        assert outcomes("a = 1 and b = 1", **ranges) == {and3(*pair) for pair in pairs}
        assert outcomes("a = 1 or b = 1", **ranges) == {
            not3(and3(*map(not3, pair))) for pair in pairs
        }
        selection = condition_of("a = 1 and b = 1").select(SCHEMA)
        may, must = (
            True in outcomes("a = 1 and b = 1", **ranges),
            {values, others} == {frozenset([True])},
        )
        assert selection.may_hold(ranges) is may
        assert selection.must_hold(ranges) is must
        assert condition_of("a = 1 and b = 1").may_hold(SCHEMA, ranges) is may


def test_is_null__depends_on_nulls_alone() -> None:
    assert outcomes("a is null", a=Range(1, 1)) == {True, False}
    assert outcomes("a is null", a=Range(1, 1, nulls=False)) == {False}
    assert outcomes("a is not null", a=Range(values=False)) == {False}


def test_is_nan__may_hold_for_every_range_of_floats_and_no_other() -> None:
    assert outcomes("f is nan", f=Range(1.0, 1.0, nulls=False)) == {True, False}
    assert outcomes("f is not nan", f=Range(1.0, 1.0)) == {True, False}
    assert outcomes("f is nan", f=Range(values=False)) == {False}
    assert outcomes("a is nan") == outcomes("n is nan") == {False}


def test_column_of_nulls__compares_to_null() -> None:
    assert outcomes("n = 'anything'") == {None}
    assert outcomes("n in ('anything', 3)", n=Range(values=False)) == {None}


def test_part_that_does_not_fit_a_partial_schema__may_have_any_value() -> None:
    where = condition_of("a = 1 and later < 3")
    assert where.may_hold(SCHEMA, {"a": Range(1, 1)})
    assert not where.may_hold(SCHEMA, {"a": Range(2, 2)})


# ---- literals ------------------------------------------------------------------------------------


def selected(table: pa.Table, where: str) -> list[int]:
    batches = open_source(table, where=where).batches(["row"])
    return [row for batch in batches for row in batch.column(0).to_pylist()]


def test_zero__has_two_signs() -> None:
    table = pa.table({"row": [0, 1, 2], "x": [0.0, -0.0, 5.0]})
    for where in ("x in (0, 7)", "x in (-0.0)", "x = 0", "x = -0.0", "not x in (5)"):
        assert selected(table, where) == [0, 1], where


@pytest.mark.parametrize("make", [pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
def test_decimals__of_any_width__are_found_in_a_list(make: Callable[..., pa.DataType]) -> None:
    values = pa.array(["1.10", "2.25", None]).cast(pa.decimal128(5, 2)).cast(make(5, 2))
    table = pa.table({"row": [0, 1, 2], "x": values})
    assert selected(table, "x in (1.1, 3)") == [0]
    assert selected(table, "not x in (1.1, 3)") == [1]


@pytest.mark.parametrize(
    "number", ["1e99999999999999999999", "1e10001", "-1e-10001", "1e41", "12345678901234567890"]
)
def test_number__beyond_all_columns__is_out_of_range(number: str) -> None:
    with pytest.raises(ArgumentError, match=r"is not a value of that type \("):
        condition_of(f"a < {number}").select(SCHEMA)
