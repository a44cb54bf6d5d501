"""What slices are asked for: texts to values and back, and what is said of texts that are none."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.slicing.encode import text_value
from fastrank_eval.slicing.spec import (
    UNITS,
    Edges,
    Period,
    Quantile,
    SliceColumn,
    SliceSpec,
    Width,
    exact_text,
    parse,
    requested_slicing,
)
from tests.support.transcripts import Case, cases

pytestmark = pytest.mark.no_kernels

NAMES = st.one_of(
    st.sampled_from(["slot", "age", "rows", "hour", "quantile5", "user-id", "a.b", "Größe"]),
    st.text(min_size=1, max_size=6).filter(lambda name: '"' not in name or name.strip('"')),
    st.sampled_from(["18", "a,b", 'say "hi"', "@rows", "null", " x", "e5", '"']),
)
NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, min_value="-1e30", max_value="1e30")
DAYS = st.integers(0, 20000).map(lambda days: str(date(1990, 1, 1) + timedelta(days)))


def rising(numbers: st.SearchStrategy[Decimal]) -> st.SearchStrategy[Edges]:
    lists = st.lists(numbers, min_size=1, max_size=4).map(lambda found: sorted(set(found)))
    return lists.map(lambda found: Edges(tuple(map(exact_text, found))))


BINNINGS = st.one_of(
    st.none(),
    rising(NUMBERS),
    st.lists(DAYS, min_size=1, max_size=3, unique=True).map(
        lambda days: Edges(tuple(sorted(days)))
    ),
    st.integers(2, 1000).map(Quantile),
    st.decimals("1e-9", "1e9", allow_nan=False).map(lambda width: Width(exact_text(width))),
    st.sampled_from(UNITS).map(Period),
)
COUNTS = st.one_of(
    st.none(),
    rising(st.integers(0, 10**6).map(Decimal)),
    st.integers(1, 1000).map(lambda width: Width(str(width))),
)
PARTS = st.one_of(
    st.builds(SliceColumn, NAMES, BINNINGS),
    st.builds(SliceColumn, st.sampled_from(["rows", "positives"]), COUNTS, st.just(True)),
)
SPECS = st.lists(PARTS, min_size=1, max_size=4, unique_by=lambda part: part.name).map(
    lambda parts: SliceSpec(tuple(parts))
)


@given(SPECS)
def test_every_value_has_a_text_that_reads_as_itself(spec: SliceSpec) -> None:
    assert parse(str(spec)) == spec
    assert str(parse(str(spec))) == str(spec)


@given(SPECS)
def test_blanks_around_signs_change_nothing(spec: SliceSpec) -> None:
    if '"' not in str(spec):
        spaced = re.sub(r",|:(?![0-9]{2})|:(?=[0-9]+(?:,|$))", r" \g<0> ", str(spec))
        assert parse(f" {spaced} ") == spec


@pytest.mark.parametrize("case", cases("slicings"), ids=str)
def test_texts_are_written_shortest_or_told_what_is_wrong(case: Case) -> None:
    (text,) = case.given
    try:
        found = str(parse(text))
    except ArgumentError as error:
        found = str(error)
    case.check([found])


def test_a_comma_before_a_number_goes_on_with_edges_and_before_a_name_begins_a_part() -> None:
    spec = parse('age:18,25,"30",slot')
    assert spec.columns == (
        SliceColumn("age", Edges(("18", "25"))),
        SliceColumn("30"),
        SliceColumn("slot"),
    )


@given(st.text('slot,:@"18.-+e quantiewdh2026T;[)', max_size=25))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        spec = parse(text)
    except ArgumentError:
        return
    assert parse(str(spec)) == spec


def test_a_list_asks_for_one_slicing_after_another_each_once() -> None:
    assert [str(s) for s in requested_slicing(["slot", parse("a,b"), " slot "])] == ["slot", "a,b"]
    assert requested_slicing("slot,country") == (parse("slot,country"),)
    for given_by, word in (
        ("", "expected a column, @rows or @positives at character 1, found the end"),
        ([], "by: must name a column"),
        (7, "by: must be text, got 7"),
        ([None], "by: must be text, got None"),
    ):
        with pytest.raises(ArgumentError, match=word):
            requested_slicing(given_by)  # type: ignore[arg-type]


@given(st.text(max_size=8), st.text(max_size=8))
def test_texts_in_labels_differ_where_values_do_and_hide_no_sign(one: str, other: str) -> None:
    assert (text_value(one) == text_value(other)) == (one == other)
    shown = text_value(one)
    if not shown.startswith('"'):
        assert not set(shown) & set(',="<>()[]')
        assert shown not in ("", "null")
    assert shown.strip() == shown


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6), st.integers(-40, 40))
def test_numbers_have_one_text_that_means_them(number: Decimal, exponent: int) -> None:
    number = number.scaleb(exponent)
    assert Decimal(exact_text(number)) == number
    assert exact_text(number) == exact_text(number * 1) == exact_text(Decimal(exact_text(number)))
