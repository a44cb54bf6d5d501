"""Scores computed from columns: their grammar, and the bits of columns computed beforehand."""

from __future__ import annotations

import operator
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fastrank_eval as fe
from fastrank_eval._lib.threads import Budget
from fastrank_eval.io.computed import expressions_of
from fastrank_eval.io.reader import open_source
from tests.support import batched
from tests.support.transcripts import Case, answers, cases

RUN = import_module("fastrank_eval.engine.run")
ROWS = 3000
EXPRESSIONS = {
    "pctr": "pctr",
    "again": "pctr",
    "ctcvr": "pctr * pcvr",
    "mean": "(pctr + 2 * pcvr) / (1 + 2)",
    "odds": "-(pctr / (pctr - 1.5)) - half / 8 + whole * -1e-3",
}
OPTIONS: dict[str, Any] = {"group": "user", "label": "click", "measures": "GAUC,AUC,nDCG@5,MSE"}


def log(rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table({
        "user": np.sort(rng.integers(0, rows // 8, rows)),
        "click": rng.integers(0, 2, rows).astype(np.int8),
        "pctr": rng.random(rows),
        "pcvr": rng.random(rows).astype(np.float32),
        "half": rng.random(rows).astype(np.float16),
        "whole": rng.integers(-3, 4, rows).astype(np.int16),
        "slot": rng.integers(0, 3, rows),
    })  # fmt: skip


def beforehand(table: pa.Table) -> pa.Table:
    """Compute the same columns by NumPy."""
    pctr, pcvr, half, whole = (
        table[name].to_numpy().astype(np.float64) for name in ("pctr", "pcvr", "half", "whole")
    )
    columns = {
        "again": table["pctr"],
        "ctcvr": pctr * pcvr,
        "mean": (pctr + 2 * pcvr) / 3.0,
        "odds": -(pctr / (pctr - 1.5)) - half / 8 + whole * -1e-3,
    }
    for name, values in columns.items():
        table = table.append_column(name, values if name == "again" else [values])
    return table


def bits(result: fe.Result) -> list[str]:
    return [repr(value) for value in result.values]


def expected(table: pa.Table, **options: Any) -> list[str]:
    return bits(batched.evaluate(beforehand(table), score=list(EXPRESSIONS), **OPTIONS, **options))


# ---- what an expression means --------------------------------------------------------------------

_ARITHMETIC: dict[str, Callable[..., np.float64]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
_NAMES = {"a": '"a"', "b": "b", 'odd "name': '"odd ""name"', "in": "in", "é": "é"}
Tree = Any


def trees() -> st.SearchStrategy[Tree]:
    number = st.sampled_from([0, 1, 2.5, 1e-3, 1e300, 7])
    leaf = st.one_of(st.sampled_from(list(_NAMES)), st.sampled_from(list(_NAMES)), number)
    return st.recursive(
        leaf,
        lambda part: st.one_of(
            st.tuples(st.just("negate"), part),
            st.tuples(st.sampled_from("+-*/"), part, part),
        ),
        max_leaves=8,
    )


def written(tree: Tree, blank: str) -> str:
    if isinstance(tree, str):
        return _NAMES[tree]
    if not isinstance(tree, tuple):
        return repr(tree)
    if tree[0] == "negate":
        return f"-({written(tree[1], blank)})"
    return f"({written(tree[1], blank)}){blank}{tree[0]}{blank}({written(tree[2], blank)})"


def names_in(tree: Tree) -> set[str]:
    if isinstance(tree, tuple):
        return set().union(*map(names_in, tree[1:]))
    return {tree} & _NAMES.keys() if isinstance(tree, str) else set()


def value_of(tree: Tree, row: dict[str, float | None]) -> np.float64 | None:
    if isinstance(tree, str):
        number = row[tree]
        return None if number is None else np.float64(number)
    if not isinstance(tree, tuple):
        return np.float64(tree)
    parts = [value_of(part, row) for part in tree[1:]]
    if None in parts:
        return None
    return np.float64(-parts[0]) if tree[0] == "negate" else _ARITHMETIC[tree[0]](*parts)


CELLS = st.lists(
    st.tuples(*[st.sampled_from([None, -1.5, 0.0, -0.0, 0.1, 3.0, 1e200])] * len(_NAMES)),
    max_size=4,
)


@settings(max_examples=150)
@given(trees(), CELLS, st.sampled_from(["", " ", "\n\t"]))
@example(("-", "a", ("negate", "b")), [(1.0, None, 0.0, 0.0, 0.0)], " ")
def test_expression__of_random_operators__is_what_doubles_give(
    tree: Tree, rows: list[Any], blank: str
) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * len(_NAMES)
    table = pa.table(
        {name: pa.array(list(v), pa.float64()) for name, v in zip(_NAMES, columns, strict=True)}
    )
    score = {"x": written(tree, blank)}
    if not names_in(tree):
        with pytest.raises(fe.ArgumentError, match="it has no column"):
            expressions_of(score)
        return
    expressions = expressions_of(score)
    assert expressions_of(expressions) == expressions
    source = open_source(table)
    computed = RUN.with_computed(source, expressions)
    found = [v for batch in computed.batches(["x"]) for v in batch.column(0).to_pylist()]
    with np.errstate(all="ignore"):
        values = [value_of(tree, dict(zip(_NAMES, row, strict=True))) for row in rows]
    assert [repr(v) if v != v else v for v in found] == [
        None if v is None else repr(float(v)) if v != v else float(v) for v in values
    ]


@pytest.mark.parametrize("case", cases("expressions"), ids=str)
def test_expression__is_written_shortest_or_told_what_is_wrong(case: Case) -> None:
    (text,) = case.given
    try:
        found = expressions_of({"x": text})["x"]
        assert expressions_of({"x": found}) == {"x": found}
    except fe.ArgumentError as error:
        found = str(error)
    case.check([found])


# ---- the same bits from any source ---------------------------------------------------------------


def parquet_of(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "log.parquet", row_group_size=256)
    return folder / "log.parquet"


def csv_of(table: pa.Table, folder: Path) -> Path:
    for name in ("half", "pcvr"):
        index = table.column_names.index(name)
        table = table.set_column(index, name, table[name].cast(pa.float64()))
    pyarrow.csv.write_csv(table, folder / "log.csv")
    return folder / "log.csv"


@pytest.mark.parametrize(
    "options",
    [
        {"batch_rows": 100, "threads": 3},
        {"order": "scattered"},
        {"limit": 1234},
        {"by": ["slot", "pctr:quantile3", "@rows:5"], "min_groups": 1},
        {"where": "pctr > 0.3 and slot in (0, 2)"},
        {"weight": "pcvr", "measures": "GAUC,AUC,LogLoss"},
        {"baseline": "pctr", "keep": "state"},
        {"score_type": "float32"},
        {"null_groups": "drop"},
    ],
    ids=str,
)
def test_computed_scores__with_other_arguments__have_the_bits_of_columns(
    options: dict[str, Any], tmp_path: Path
) -> None:
    table = log()
    score = dict(EXPRESSIONS)
    if "weight" in options:
        del score["odds"]
    for source in (table, parquet_of(table, tmp_path), csv_of(table, tmp_path)):
        arguments = {**OPTIONS, **options}
        found = batched.evaluate(source, score=score, **arguments)
        assert bits(found) == bits(
            batched.evaluate(beforehand(table), score=list(score), **arguments)
        )
        assert found.meta.conventions["score"] == expressions_of(score)


def test_computed_scores__of_spilled_rows__have_the_bits_of_columns(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("duckdb")
    table = log().take(np.random.default_rng(1).permutation(ROWS))
    known = expected(table, order="scattered")
    monkeypatch.setattr(RUN, "memory_budget", lambda *_: Budget(1 << 28, 0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pieces = pa.Table.from_batches(table.to_batches(max_chunksize=700))
    found = batched.evaluate(pieces, score=EXPRESSIONS, order="scattered", **OPTIONS)
    assert found.meta.conventions["spilled"] is True
    assert bits(found) == known


def test_batches__of_any_length__are_computed_row_by_row() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((2, 140_000))
    known = np.where(np.arange(140_000) % 7 == 3, None, a * b / 2)
    table = pa.table({"a": a, "b": pa.array(b, mask=np.arange(140_000) % 7 == 3)})
    source = RUN.with_computed(open_source(table), expressions_of({"x": "a * b / 2"}))
    (batch,) = [batch for batch in source.batches(["b", "x"]) if batch.num_rows]
    assert batch.schema.names == ["b", "x"]
    assert batch.column("x").to_pylist() == known.tolist()
    for unread in source.unread_batches(["x"]):
        parts = [part for part in unread.batches(50_000) if part.num_rows]
        assert [len(part) for part in parts] == [50_000, 50_000, 40_000]
        assert [v for part in parts for v in part.column(0).to_pylist()] == known.tolist()


# ---- errors --------------------------------------------------------------------------------------

LOG = {"user": [1, 1, 2], "click": [0, 1, 1], "pctr": [0.1, 0.4, 0.2], "pcvr": [0.5, 0.0, 0.0],
       "name": ["a", "b", "c"]}  # fmt: skip


@settings(max_examples=150)
@given(st.text(st.sampled_from("pctrv ()+-*/.0129e\"',é\n\\=[]\0"), max_size=30))
def test_any_text__is_a_score_or_our_error(text: str) -> None:
    try:
        found = fe.evaluate(LOG, label="click", score={"x": text}, measures="AUC")
    except fe.FastRankEvalError:
        return
    assert found.scores == ("x",)


def test_pandas_frames__with_missing_numbers__are_null() -> None:
    frame = pd.DataFrame({**LOG, "pctr": [0.1, np.nan, 0.2]})
    with pytest.raises(fe.ColumnError, match=r"'x' = pctr \* 2.* in 1 row\(s\), first in row 1"):
        fe.evaluate(frame, label="click", score={"x": "pctr * 2"}, measures="AUC")


test_answers = answers(globals())
