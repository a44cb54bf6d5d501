"""Several requests over one reading of the rows: each has the bits of a run of its own."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrank_eval import ArgumentError, ColumnError, OrderError
from fastrank_eval._lib.threads import Budget
from fastrank_eval.engine import run as engine
from fastrank_eval.engine.evaluator import SHARED
from fastrank_eval.engine.group_table import GroupTable
from fastrank_eval.engine.options import Options
from fastrank_eval.engine.run import Evaluation, run_together
from fastrank_eval.io.columns import StoredColumn
from tests.support.transcripts import answers

pytestmark = pytest.mark.kernels

ROWS = 400
#: Requests that differ in everything they may differ in.
MIXED: tuple[dict[str, Any], ...] = (
    {"label": "click", "measures": ["GAUC", "nDCG@10", "AP", "AUC", "LogLoss"]},
    {"label": "grade", "measures": ["nDCG(gain='exp')@5", "RR", "MSE"], "by": ["slot", "@rows:2"]},
    {"label": "cart", "measures": ["Bpref", "P@3"], "unjudged": "allow", "by": "slot,country"},
    {"label": "click", "measures": "GAUC", "score": ["pctr", "pcvr"], "baseline": "pctr"},
    {
        "label": "grade",
        "measures": ["GAUC", "PPV(threshold=0.5)"],
        "weight": "weight",
        "by": "country",
    },
    {"label": "order", "measures": ["AUC", "LogLoss"], "by": ["age:width10"]},
    {"label": "cart", "measures": ["AP", "GAUC"], "unjudged": "drop", "by": "@positives"},
    {"label": "click", "score": "rank", "measures": "AUC,nDCG@3"},
    {"label": "click", "score": "rank", "measures": "AUC", "keep": "scores"},
    {"label": "order", "score": "pcvr", "measures": ["R@2", "AP"], "ties": "input"},
    {"label": "grade", "measures": ["GAUC(weight='spend')", "NE"], "undefined": "zero"},
    {"label": "click", "score": "maybe", "measures": "R@3,GAUC", "unretrieved": "allow"},
    {"label": "click", "measures": ["GAUC", "ERR(max_grade=4)@20"], "groups": "with_relevant"},
    {"label": "order", "unjudged": "drop", "measures": "GAUC", "keep": ""},
)


def log_of(seed: int, rows: int = ROWS, groups: int = 60, nulls: float = 0.2) -> pa.Table:
    rng = np.random.default_rng(seed)
    user = np.sort(rng.integers(0, max(groups, 1), rows)).astype(np.int64)
    click = (rng.random(rows) < 0.2).astype(np.int8)
    cart = np.where(rng.random(rows) < 0.3, click, 0).astype(np.float32)
    spend = np.random.default_rng(1).random(groups + 1)
    missing = rng.random(rows) < nulls
    return pa.table(
        {
            "user": user,
            "click": click,
            "cart": pa.array(cart, mask=missing),
            "order": (rng.random(rows) < 0.05).astype(bool),
            "grade": rng.integers(0, 4, rows).astype(np.int32),
            "pctr": (rng.integers(0, 12, rows) / 16).astype(np.float32),
            "pcvr": rng.integers(0, 9, rows) / 10,
            "rank": rng.integers(-(2**50), 2**50, rows),
            "maybe": pa.array(rng.integers(0, 9, rows) / 10, mask=missing),
            "weight": rng.random(rows) + 0.5,
            "spend": spend[user],
            "slot": rng.integers(1, 4, rows),
            "country": rng.choice(["de", "fr", "x"], rows),
            "age": rng.integers(10, 60, rows),
        }
    )


def requests(source: object, parts: tuple[dict[str, Any], ...], **shared: Any) -> list[Options]:
    shared = {"group": "user", **shared}
    rows = shared.pop("batch_rows", None)
    given = [{"score": "pctr", **part, **shared} for part in parts]
    return [Options.read(source, options).replace(batch_rows=rows) for options in given]


def exactly(value: object) -> object:
    """A value as plain Python that tells every bit."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, pa.Array):
        return str(value.type), value.to_pylist()
    if isinstance(value, dict):
        return {key: exactly(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [exactly(of) for of in value]
    return value


def bits(evaluation: Evaluation, order: bool = True) -> dict[str, object]:
    """Everything that an evaluation has, to the last bit; seconds are left out."""
    meta, conventions = evaluation.meta, dict(evaluation.meta.conventions)
    if not order:
        del conventions["order"]
    table = GroupTable.of_run(evaluation.plan, evaluation.groups, evaluation.schema)
    groups = {name: getattr(table, name) for name in ("rows", "positives", "values")}
    return {
        "summary": [exactly(vars(line)) for line in evaluation.summary],
        "state": exactly(evaluation.totals.to_arrays()),
        "keys": exactly(list(table.keys)),
        "groups": exactly(groups),
        "meta": exactly([meta.rows, meta.groups, conventions]),
    }


def assert_as_alone(wanted: list[Options], order: bool = True) -> None:
    together = run_together(wanted)
    assert len(together) == len(wanted)
    for request, found in zip(wanted, together, strict=True):
        (alone,) = run_together([request])
        got, expected = bits(found, order), bits(alone, order)
        for part in expected:
            assert got[part] == expected[part], (part, request.label, request.measures)


def sorted_by_score(log: pa.Table) -> pa.Table:
    return log.sort_by([("user", "ascending"), ("pctr", "descending")])


def shuffled(log: pa.Table, seed: int = 3) -> pa.Table:
    return log.take(pa.array(np.random.default_rng(seed).permutation(log.num_rows)))


SORTED = sorted_by_score(log_of(7))
#: The same rows in every order and cut, and how they are read.
LAYOUTS: dict[str, tuple[pa.Table, dict[str, Any]]] = {
    "unsorted": (log_of(7), {}),
    "sorted": (SORTED, {}),
    "promised": (SORTED, {"order": "grouped", "batch_rows": 19, "threads": 2}),
    "small batches": (SORTED, {"batch_rows": 7, "threads": 2}),
    "scattered": (shuffled(log_of(7)), {}),
    "scattered batches": (shuffled(log_of(7)), {"batch_rows": 31, "threads": 2}),
    "two keys": (shuffled(log_of(7)), {"group": ["user", "country"]}),
    "one key": (log_of(7, groups=1), {"batch_rows": 50}),
    "no rows": (log_of(7).slice(0, 0), {}),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_requests_together__have_the_bits_of_runs_of_their_own(name: str) -> None:
    table, options = LAYOUTS[name]
    assert_as_alone(requests(table, MIXED, **options))


@pytest.mark.compiled
def test_requests_together__of_files(tmp_path: Path) -> None:
    pq.write_table(SORTED, tmp_path / "log.parquet", row_group_size=37)
    SORTED.to_pandas().to_csv(tmp_path / "log.csv", index=False)
    for options in ({"batch_rows": 23, "threads": 3}, {"limit": 131, "where": "age > 20"}):
        assert_as_alone(requests(tmp_path / "log.parquet", MIXED, **options))
    assert_as_alone(requests(tmp_path / "log.csv", MIXED))


@pytest.mark.parametrize("table", [SORTED, shuffled(log_of(7))], ids=["in order", "scattered"])
def test_requests_together__read_a_stream_once(table: pa.Table) -> None:
    order = "auto" if table is SORTED else "scattered"
    batches = table.to_batches(max_chunksize=41)
    stream = pa.RecordBatchReader.from_batches(table.schema, batches)
    together = run_together(requests(stream, MIXED, order=order))
    alone = run_together(requests(table, MIXED, order=order))
    assert [bits(one) for one in together] == [bits(one) for one in alone]


def test_requests_together__of_rows_sorted_on_disk(monkeypatch, tmp_path) -> None:
    wanted = requests(shuffled(log_of(7)), MIXED, order="scattered", batch_rows=60)
    in_memory = [bits(one, order=False) for one in run_together(wanted)]
    monkeypatch.setattr(engine, "memory_budget", lambda *_: Budget(0, 0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    on_disk = run_together(wanted)
    for one in on_disk:
        spilled = one.meta.conventions.pop("spilled", False)  # type: ignore[attr-defined]
        assert spilled == one.plan.grouped
    assert [bits(one, order=False) for one in on_disk] == in_memory


def test_wide_keys_sorted_on_disk__are_counted_once(monkeypatch, tmp_path) -> None:
    """The second attempt forgets the rows of the first."""
    table = shuffled(log_of(7))
    far = pa.array(table["user"].to_numpy() << 40)
    parts = ({"label": "click", "measures": "LogLoss"}, {"label": "order", "measures": "GAUC"})
    wanted = requests(table.set_column(0, "user", far), parts, order="scattered", batch_rows=60)
    alone = [run_together([request])[0].summary[0].value for request in wanted]
    monkeypatch.setattr(engine, "memory_budget", lambda *_: Budget(0, 0))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert [one.summary[0].value for one in run_together(wanted)] == alone
    assert [one.meta.rows for one in run_together(wanted)] == [ROWS, ROWS]


@pytest.mark.compiled
@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.data())
def test_requests_together__of_random_rows(data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.sampled_from(MIXED), min_size=2, max_size=4))
    rows = data.draw(st.integers(0, 90))
    log = log_of(data.draw(st.integers(0, 99)), rows, data.draw(st.sampled_from([1, 5, 30])), 0.5)
    arrange = data.draw(st.sampled_from([sorted_by_score, shuffled, pa.Table.combine_chunks]))
    options = {
        "batch_rows": data.draw(st.sampled_from([None, 3, 20])),
        "threads": data.draw(st.integers(1, 3)),
        "order": data.draw(st.sampled_from(["auto", "scattered"])),
    }
    # Rows that a request of its own drops may decide whether a key returns.
    drops = any(part.get("unjudged") == "drop" for part in parts)
    assert_as_alone(requests(arrange(log), tuple(parts), **options), order=not drops)


def test_dropped_rows__may_rise_and_return_in_the_reading_of_others() -> None:
    """A promise about the order covers the rows that some request keeps."""
    table = pa.table(
        {
            "user": [1, 1, 1, 2, 2],
            "click": [0, 1, 0, 0, 1],
            "cart": pa.array([1, None, 0, 1, 0]),
            "pctr": [0.5, 0.9, 0.4, 0.3, 0.2],
        }
    )
    kept = {"label": "cart", "measures": "RR", "unjudged": "drop"}
    assert_as_alone(requests(table, (kept, {**kept, "measures": "AP"}), order="sorted"))
    with pytest.raises(OrderError, match="rises inside a group at row 1 "):
        run_together(requests(table, (kept, {"label": "click", "measures": "RR"}), order="sorted"))


def test_label_without_any_judged_row__has_no_groups() -> None:
    table = log_of(7).set_column(2, "cart", pa.nulls(ROWS, pa.float32()))
    parts = ({"label": "click", "measures": "RR"}, {**MIXED[6], "undefined": "skip"})
    click, cart = run_together(requests(table, parts))
    assert (click.meta.rows, cart.meta.rows, cart.meta.groups) == (ROWS, 0, 0)


OTHER = {
    "source": log_of(8), "group": "country", "cluster": "country", "item": "country",
    "null_groups": "drop", "where": "age > 3", "limit": 7, "format": "parquet",
    "order": "grouped", "threads": 7, "batch_rows": 7, "memory": "1GB",
    "progress": print,
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_requests__that_read_other_rows_are_refused(name: str) -> None:
    first, second = requests(log_of(7), MIXED[:2])
    with pytest.raises(ArgumentError, match=f"^{name}: must be the same for all labels"):
        run_together([first, second.replace(**{name: OTHER[name]})])


def test_equal_arguments__need_not_be_one_object() -> None:
    first, second = requests(log_of(7), MIXED[:2], group=["user", "slot"])
    run_together([first, second.replace(group=["user", "slot"])])


@pytest.mark.parametrize("first", ["order", "number"])
def test_nan_scores__are_found_for_every_request(first: str) -> None:
    scores = log_of(7)["pctr"].to_numpy().copy()
    scores[200] = np.nan
    table = log_of(7).set_column(5, "pctr", pa.array(scores))
    parts = ({"label": "click", "measures": "RR"}, {"label": "order", "measures": "MSE"})
    with pytest.raises(ColumnError, match="is NaN in 1 row"):
        run_together(requests(table, parts if first == "order" else parts[::-1]))


def test_scores_of_another_request__may_lie_outside_of_its_range() -> None:
    parts = (
        {"label": "click", "measures": "LogLoss"},
        {"label": "order", "score": "age", "measures": "AUC"},
    )
    assert_as_alone(requests(log_of(7), parts))


def test_columns__are_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastrank_eval.io import validate

    seen: list[str] = []
    whole, label = validate.score_column, validate._label

    def score_column(column: pa.Array, stored: StoredColumn, *rest: Any) -> Any:
        seen.append(stored.name)
        return whole(column, stored, *rest)

    def label_column(column: pa.Array, stored: StoredColumn, first_row: int) -> Any:
        seen.append(stored.name)
        return label(column, stored, first_row)

    monkeypatch.setattr(validate, "score_column", score_column)
    monkeypatch.setattr(validate, "_label", label_column)
    measures = (["AUC", "LogLoss"], "GAUC", ["RR", "MSE"])
    parts = [{"label": "click", "measures": one, "score": ["pctr", "pcvr"]} for one in measures]
    parts.append({"label": "order", "measures": "AP", "score": ["pctr"]})
    run_together(requests(shuffled(log_of(7)), tuple(parts), order="scattered"))
    assert sorted(seen) == ["click", "order", "pctr", "pcvr"]


test_answers = answers(globals())
