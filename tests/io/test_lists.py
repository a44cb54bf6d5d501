"""Rows with lists, one row a request, are evaluated as one row an element."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrank_eval as fe
from fastrank_eval.io.computed import unnested
from fastrank_eval.io.reader import open_source
from tests.support.transcripts import Case, cases

pytestmark = pytest.mark.kernels

ROWS: dict[str, Any] = {
    "request": ["r1", "r2", "r3", "r4"],
    "country": ["fi", "se", "fi", "se"],
    "label": [[1, 0, 0], [], [0, 1], [2]],
    "score": [[0.5, 0.25, 0.75], [], [0.1, 0.1], [0.9]],
    "other": [[1.5, 2.5, 0.5], [], [3.0, 4.0], [5.0]],
    "item": [["a", "b", "c"], [], ["a", "b"], ["c"]],
    "weight": [[1.0, 2.0, 1.0], [], [1.0, 0.5], [2.0]],
    "covers": [[[0], [1], [0, 1]], [], [[], [1]], [[0]]],
    "once": [[0], [1], [0, 1], [2]],
    "words": ["few", "none", "more", "last"],
}
LISTS = ["label", "score", "other", "item", "weight", "covers"]
FLAT: dict[str, Any] = {
    name: [
        value
        for row, labels in zip(values, ROWS["label"], strict=True)
        for value in (row if name in LISTS else [row] * len(labels))
    ]
    for name, values in ROWS.items()
}
OPTIONS: dict[str, Any] = {"group": "request", "label": "label", "score": ["score", "other"]}


def values(source: Any, **options: Any) -> list[tuple[str, str, str, float]]:
    result = fe.evaluate(source, **{**OPTIONS, **options})
    return [(str(v.slice), v.score, v.name, v.value) for v in result]


@pytest.mark.parametrize(
    "options",
    [
        {"measures": "GAUC,AUC,nDCG@2,AP"},
        {"measures": "GAUC", "item": "item", "ties": "item", "weight": "weight"},
        {"measures": "nDCG", "by": ["country", "item"]},
        {"measures": "AUC,GAUC", "where": "country = 'fi'"},
        {"measures": "AUC", "group": None},
        {"measures": "nDCG@2", "limit": 4},
        {"measures": "GAUC", "score": {"sum": "score + other"}},
        {"measures": "alpha-nDCG@2", "subtopics": "covers"},
        {"measures": "StRecall@2", "subtopics": "once"},
        {"measures": "GAUC", "group": ["country", "request"], "cluster": "country"},
    ],
    ids=lambda options: " ".join(options),
)
@pytest.mark.parametrize("kind", ["table", "large", "fixed", "views", "Parquet", "chunks"])
def test_lists__of_any_kind__are_as_many_rows(
    kind: str, options: dict[str, Any], tmp_path: Path
) -> None:
    rows, flat = pa.table(ROWS), pa.table(FLAT)
    source: Any = rows
    if kind == "large":
        kinds = {name: rows.schema.field(name).type.value_type for name in LISTS}
        source = rows.cast(
            pa.schema([(f.name, pa.large_list(kinds[f.name]) if f.name in LISTS else f.type)
                       for f in rows.schema])
        )  # fmt: skip
    elif kind == "fixed":
        rows = rows.slice(0, 1)
        flat = flat.slice(0, 3)
        kinds = {name: pa.list_(rows.schema.field(name).type.value_type, 3) for name in LISTS}
        source = pa.table(
            {n: pa.array(rows[n].to_pylist(), kinds.get(n)) for n in rows.column_names}
        )
    elif kind == "views":
        kinds = {name: pa.list_view(rows.schema.field(name).type.value_type) for name in LISTS}
        kinds["covers"] = pa.large_list_view(pa.list_view(pa.int64()))
        source = pa.table({n: pa.array(v, kinds.get(n)) for n, v in ROWS.items()})
    elif kind == "Parquet":
        source = tmp_path / "rows.parquet"
        pq.write_table(rows, source, row_group_size=2)
    elif kind == "chunks":
        source = pa.concat_tables([rows.slice(0, 1), rows.slice(1, 2), rows.slice(3)])
    assert str(values(source, **options)) == str(values(flat, **options))


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=6), st.integers(1, 5))
def test_unnested__in_slices_of_any_size__is_what_plain_loops_give(
    lists: list[list[int]], elements: int
) -> None:
    table = pa.table({"q": [*range(len(lists))], "x": pa.array(lists, pa.list_(pa.int64()))})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fastrank_eval.io.computed._ELEMENTS", elements)
        source = unnested(open_source(table.slice(1)), ["x"], "rank")
        found = [b.to_pylist() for b in source.batches(["rank", "q", "x"])]
    assert source.schema.names == ["q", "x", "rank"]
    assert [row for rows in found for row in rows] == [
        {"rank": rank, "q": q, "x": x}
        for q, values in enumerate(lists) if q
        for rank, x in enumerate(values, 1)
    ]  # fmt: skip


def test_unnested__structs__give_a_column_a_field() -> None:
    rows = [{"q": 1, "r": [{"d": "a", "s": 0.5}, {"d": "b", "s": 0.25}]}, {"q": 2, "r": []}]
    source = unnested(open_source(pa.Table.from_pylist(rows)), ["r"])
    assert source.schema.names == ["q", "d", "s"]
    [batch] = source.batches(["s", "q"])
    assert batch.to_pydict() == {"s": [0.5, 0.25], "q": [1, 1]}


def test_unnested__rank_of_structs__is_not_numbered() -> None:
    rows = [{"query_id": "q", "results": [{"doc_id": "a", "rank": 7}, {"doc_id": "b", "rank": 5}]}]
    assert fe.trec.read_run(rows)["score"].to_pylist() == [-7, -5]
    assert fe.trec.read_run(pa.Table.from_pylist(rows))["score"].to_pylist() == [-7, -5]


def test_lists__wrong_element_of_a_file__names_its_row(tmp_path: Path) -> None:
    for name, score in (("a", 0.5), ("b", None)):
        table = pa.table({**ROWS, "score": [[0.5, 0.25, 0.75], [], [0.1, score], [0.9]]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(fe.ColumnError) as error:
        values(tmp_path, score="score")
    place = f"element 1 of the lists in row 2 of '{tmp_path / 'b.parquet'}'"
    assert "first in row 10 (counted from 0)" in str(error.value)
    assert f"It is {place} (elements count as rows)." in str(error.value)
    reader = pa.table({**ROWS, "score": [[0.5, 0.25, None], [], [0.1, 0.1], [0.9]]}).to_reader()
    with pytest.raises(fe.ColumnError, match=r"It is element 2 of all lists \(elements count"):
        values(reader, score="score")


@pytest.mark.parametrize("row_group_size", [1, 4])
def test_lists_of_categories__are_read_from_several_row_groups(
    tmp_path: Path, row_group_size: int
) -> None:
    """Polars and pandas write lists of categories so; Arrow reads one row group at a time."""
    words = pa.DictionaryArray.from_arrays([0, 1, 2, 0, 1, 2], ["a", "b", "c"])
    items = pa.ListArray.from_arrays(pa.array([0, 3, 3, 5, 6], pa.int32()), words)
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({**ROWS, "item": items}), path, row_group_size=row_group_size)
    options = {"measures": "GAUC", "by": "item", "ties": "item", "item": "item"}
    assert str(values(path, **options)) == str(values(FLAT, **options))


def test_lists__in_one_thread_or_several__have_the_same_bits() -> None:
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 30, 3000)
    offsets = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
    table = pa.table({
        "request": np.arange(len(lengths)),
        "label": pa.ListArray.from_arrays(offsets, pa.array(rng.integers(0, 2, lengths.sum()))),
        "score": pa.ListArray.from_arrays(offsets, pa.array(rng.random(lengths.sum()))),
    })  # fmt: skip
    one, two = (values(table, score="score", threads=threads) for threads in (1, 2))
    assert one == two


@pytest.mark.parametrize("case", cases("lists"), ids=lambda case: ascii(str(case)))
def test_lists__that_do_not_fit__are_refused(case: Case) -> None:
    case.check(case.answer(globals()))
