"""Edges of bins of equally many rows: their definition, and that no batch matters."""

from __future__ import annotations

import math
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.io.reader import open_source
from fastrank_eval.slicing import bins as binning
from fastrank_eval.slicing.bins import Distribution, distributions
from fastrank_eval.slicing.slicer import open_slicings

BIG = 2**53
DAYS = st.integers(0, 6).map(lambda days: date(2026, 11, 17) + timedelta(days))
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-3, 3)),
    "int64": (pa.int64(), st.integers(BIG, BIG + 3) | st.integers(-(2**63), 2**63 - 1)),
    "uint64": (pa.uint64(), st.integers(2**64 - 5, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32) | st.sampled_from([0.0, -0.0, 0.5])),
    "float64": (pa.float64(), st.floats() | st.sampled_from([0.1, -0.0, 0.0, math.inf])),
    "decimal": (pa.decimal128(20, 1), st.decimals("-2", "2", places=1)),
    "date": (pa.date32(), DAYS),
}


def edges_by_definition(values: list[Any], bins: int) -> list[Any]:
    """For each j the value, not the least, with the number of rows below it nearest to j N / q."""
    known = sorted(v for v in values if v is not None and v == v)
    distinct = sorted(set(known))
    if len(distinct) < 2:
        return []
    below = {v: sum(each < v for each in known) for v in distinct[1:]}
    chosen = set()
    for j in range(1, bins):
        target = Fraction(j * len(known), bins)
        chosen.add(min(below, key=lambda v: (abs(below[v] - target), v)))
    return sorted(chosen)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(draw=st.data(), bins=st.integers(2, 7))
def test_edges_follow_their_definition_whatever_the_batches(
    kind: str, draw: st.DataObject, bins: int
) -> None:
    arrow, pool = KINDS[kind]
    values = draw.draw(st.lists(st.none() | pool, max_size=25))
    column = pa.array(values, arrow)
    cuts = [0, *sorted(draw.draw(st.lists(st.integers(0, len(values)), max_size=3))), len(values)]
    pieces = [column.slice(lo, hi - lo) for lo, hi in pairwise(cuts)]
    table = pa.table({"c": pa.chunked_array(pieces, arrow)})
    edges = distributions(open_source(table), ["c"])["c"].edges(bins)
    expected = edges_by_definition(values, bins)
    assert edges.to_pylist() == expected
    assert [math.copysign(1, e) for e in edges.to_pylist() if e == 0 and "float" in kind] in (
        [],
        [1],
    )
    slicings = open_slicings(f"c:quantile{bins}", open_source(table))
    codes = slicings.columns[0].codes(column).tolist()
    assert codes == [
        len(expected) + 1 if v is None or v != v else sum(e <= v for e in expected) for v in values
    ]


def test_pieces_put_together_early_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binning, "_PENDING", 3)
    random = np.random.default_rng(4)
    seen = Distribution(pa.int64())
    batches = [random.integers(0, 40, 10) for _ in range(30)]
    for batch in batches:
        seen.add(pa.array(batch))
    values, counts = seen.values()
    expected = np.unique(np.concatenate(batches), return_counts=True)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(counts, expected[1])


def test_conditions_and_limits_of_the_run_hold(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table({"age": range(100), "slot": [1, 2] * 50})
    pq.write_table(table, path, row_group_size=7)
    source = open_source(str(path), where="slot = 1")
    assert distributions(source, ["age"])["age"].edges(2).to_pylist() == [50]
    assert distributions(source, ["age"], limit=10)["age"].edges(2).to_pylist() == [10]
    slicings = open_slicings(["age:quantile2,slot", "age:quantile4"], source, limit=10)
    assert slicings.encoders[1].slices().labels == (
        "age<4", "age=[4,10)", "age=[10,14)", "age>=14", "age=null",
    )  # fmt: skip


def test_one_pass_finds_the_edges_of_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source({"a": [1, 2, 3, 4], "b": [0.5, 1.5, 2.5, 3.5], "s": ["x"] * 4})
    read: list[tuple[str, ...]] = []
    original = type(source).unread_batches

    def unread_batches(self: Any, columns: Any) -> Any:
        read.append(tuple(columns))
        return original(self, columns)

    monkeypatch.setattr(type(source), "unread_batches", unread_batches)
    open_slicings(["a:quantile2", "s,b:quantile4", "a:quantile4"], source)
    assert read == [("a", "b")]


def test_what_can_be_read_only_once_is_refused_with_the_remedy() -> None:
    table = pa.table({"age": [1, 2]})
    source = open_source(table.to_reader())
    with pytest.raises(ArgumentError, match=r"'age' need a pass of their own.*give edges"):
        open_slicings("age:quantile2", source)
    assert len(list(source.batches(["age"]))) == 1


def test_decimals_keep_all_their_digits() -> None:
    values = [Decimal("12345678901234567890.12"), Decimal("12345678901234567890.13")]
    table = pa.table({"c": pa.array(values, pa.decimal128(22, 2))})
    slicings = open_slicings("c:quantile2", open_source(table))
    assert slicings.encoders[0].slices().labels[:2] == (
        "c<12345678901234567890.13", "c>=12345678901234567890.13",
    )  # fmt: skip
    assert slicings.columns[0].codes(table["c"].chunk(0)).tolist() == [0, 1]
