"""Runs whose rows have no groups, or whose measures need none."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from tests.strategies import POOLED_VARIANTS
from tests.support import batched

ROWS = 5000
COLUMNS: dict[str, Any] = {"label": "click", "score": ["old", "new"]}
#: Measures of all rows without an error, and with one if rows have groups.
PLAIN, WITH_ERROR = "AUC,KS,AvgPrec,ECE(bins=15),Lift", "LogLoss,NE,PPV,MCC,PCOC"


@pytest.fixture(scope="module")
def log() -> pa.Table:
    """Shuffled rows: no group is in one piece."""
    rng = np.random.default_rng(3)
    click = rng.random(ROWS) < 0.2
    scores = np.clip(0.2 + 0.2 * click + rng.normal(0, 0.15, (2, ROWS)), 0.01, 0.99).round(2)
    users, slots = rng.integers(0, 300, ROWS), rng.integers(0, 3, ROWS)
    columns = {"user": users, "slot": slots, "click": click, "w": rng.random(ROWS)}
    return pa.table({**columns, "old": scores[0], "new": scores[1]})


def numbers(result: fe.Result) -> list[tuple[object, ...]]:
    """Return all that does not depend on groups."""
    return [
        (v.score, v.by, v.slice, v.measure, v.value, v.rows_share, v.positives_share, v.details)
        for v in result
    ]


@pytest.mark.parametrize("options", [{}, {"weight": "w"}, {"by": ["slot", "slot,w:0.5"]}], ids=str)
@pytest.mark.parametrize("batch_rows", [None, 700])
def test_no_group__has_the_values_of_grouped_rows(log, options, batch_rows) -> None:
    options = {**COLUMNS, **options, "measures": f"{PLAIN},{WITH_ERROR}"}
    found = batched.evaluate(log, **options, batch_rows=batch_rows)
    grouped = fe.evaluate(log, group="user", **options)
    assert numbers(found) == numbers(grouped)
    assert (found.meta.rows, found.meta.groups) == (ROWS, 0)
    assert {(v.groups, v.groups_used) for v in found} == {(0, 0)}


def test_measures_with_clustered_errors__of_no_group__say_why_they_have_none(log) -> None:
    result = fe.evaluate(log, **COLUMNS, measures=f"{PLAIN},{WITH_ERROR}")
    for v in result:
        assert all(map(math.isnan, (v.se, v.ci_low, v.ci_high, v.effective_groups)))
        assert v.warning == ("no_groups" if v.measure in WITH_ERROR.split(",") else "pooled")
    assert "no standard error without groups: LogLoss, NE, PPV, MCC, PCOC\n" in repr(result)
    assert f"\n{ROWS:,} rows, not grouped\n" in repr(result)


@pytest.mark.parametrize("text", [text for texts in POOLED_VARIANTS.values() for text in texts])
def test_every_measure_of_all_rows__but_of_clusters__needs_no_group(text: str) -> None:
    rows = {"l": [1, 0, 1, 0], "s": [0.8, 0.4, 0.6, 0.7], "item": [1, 1, 2, 2]}
    options: dict[str, Any] = {"label": "l", "score": "s", "measures": text}
    grouped = fe.evaluate(rows, group="item", **options).value(text)
    if "clustered" in text:
        with pytest.raises(fe.ArgumentError, match=r"AUC.*clustered.* needs groups"):
            fe.evaluate(rows, **options)
        return
    assert fe.evaluate(rows, **options).value(text) == pytest.approx(grouped, nan_ok=True, abs=0)


@pytest.mark.parametrize(
    "options, what",
    [
        ({"measures": "AUC,GAUC"}, "GAUC needs groups"),
        ({"measures": "GAUC,AUC,RR"}, "GAUC, RR need groups"),
        ({"measures": "nDCG@1,nDCG@2,P@1,P@2,R@1,R@2,RR,AP"}, "RR and 1 more need groups"),
        ({"measures": "AUC", "keep": "values"}, "keep='values' (--per-group) needs groups"),
        ({"measures": "AUC", "keep": "groups"}, "keep='groups' (--keep-groups) needs"),
        ({"measures": "AUC", "baseline": "old"}, "baseline='old' needs groups"),
        ({"measures": "AUC", "order": "grouped"}, "order='grouped' needs groups"),
        ({"measures": "AUC", "order": "sorted"}, "order='sorted' needs groups"),
        ({"measures": "AUC", "by": "slot", "min_groups": 3}, "min_groups=3 needs groups"),
        ({"measures": "AUC", "by": "@rows:1,5"}, "a slicing by @rows or @positives needs groups"),
    ],
)
def test_what_needs_groups__of_no_group__is_refused_by_name(log, options, what) -> None:
    with pytest.raises(fe.ArgumentError) as caught:
        fe.evaluate(log, **COLUMNS, **options)
    assert str(caught.value).startswith("group: must name the key columns, got None; ")
    assert what in str(caught.value)
    assert "pass group=... (--group)" in str(caught.value)


@pytest.mark.parametrize("condition", ["groups < 9", "AUC groups < 9", "AUC dropped_share > 1"])
def test_gates_on_groups__of_rows_without_groups__name_the_remedy(log, condition) -> None:
    options: dict[str, Any] = {**COLUMNS, "group": "user", "measures": "AUC"}
    (failure, *_) = fe.evaluate(log, **options).check(condition).failures
    assert failure.kind == "no_groups"
    assert "evaluate with group=... and keep='values'" in failure.detail
    counted = fe.evaluate(log, **options, keep="values")
    assert (counted.meta.groups, counted.check(condition).passed) == (300, True)


@pytest.mark.parametrize("order", ["auto", "scattered"])
def test_measures_without_groups__of_a_group__do_not_group_rows(log, order, monkeypatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("rows are gathered")

    monkeypatch.setattr("fastrank_eval.groups.partition.Partitioner.partition", refuse)
    options: dict[str, Any] = {**COLUMNS, "group": "user", "measures": PLAIN, "order": order}
    result = fe.evaluate(log, **options)
    assert (result.meta.groups, result.meta.conventions["order"]) == (0, "any")
    assert numbers(result) == numbers(fe.evaluate(log, **COLUMNS, measures=PLAIN))
    with pytest.raises(fe.ArgumentError, match="no measure needs groups: call evaluate"):
        _ = result.per_group


@pytest.mark.parametrize(
    "options",
    [
        {"measures": PLAIN, "keep": "values"},
        {"measures": PLAIN, "keep": "state"},
        {"measures": PLAIN, "baseline": "old"},
        {"measures": PLAIN, "by": "@rows:1,5"},
        {"measures": PLAIN, "by": "slot", "min_groups": 2},
        {"measures": WITH_ERROR},
        {"measures": "AUC(se='clustered')"},
    ],
    ids=str,
)
def test_what_needs_groups__of_a_group__counts_them(log: pa.Table, options: dict[str, Any]) -> None:
    result = fe.evaluate(log, group="user", **COLUMNS, **options)
    assert result.meta.groups == len(log["user"].unique())
    assert result.meta.conventions["order"] == "scattered"


def test_promised_order__of_measures_without_groups__is_verified(log: pa.Table) -> None:
    with pytest.raises(fe.OrderError, match="comes back after other groups"):
        fe.evaluate(log, group="user", **COLUMNS, measures="AUC", order="grouped")


def test_group_that_nothing_reads__must_be_a_column(log: pa.Table) -> None:
    with pytest.raises(fe.ColumnError, match="users"):
        fe.evaluate(log, group="users", **COLUMNS, measures="AUC")
    nulls = log.set_column(0, "user", pa.nulls(ROWS, pa.int64()))
    assert fe.evaluate(nulls, group="user", **COLUMNS, measures="AUC").meta.rows == ROWS
    with pytest.raises(fe.ColumnError, match="user"):
        fe.evaluate(nulls, group="user", **COLUMNS, measures="AUC,GAUC")


def test_undefined_value__of_no_group__has_its_reason() -> None:
    options: dict[str, Any] = {"label": "l", "score": "s", "measures": "AUC"}
    (value,) = fe.evaluate({"l": [1, 1], "s": [0.5, 0.25]}, **options)
    assert math.isnan(value.value)
    assert value.dropped == {"single_class": 1}
    with pytest.raises(fe.UndefinedError, match="AUC is undefined for all rows"):
        fe.evaluate({"l": [1, 1], "s": [0.5, 0.25]}, **options, undefined="error")
    assert math.isnan(fe.evaluate({"l": [], "s": np.empty(0)}, **options).value("AUC"))


def test_states__of_no_group__merge_to_the_bits_of_one_run(log: pa.Table, tmp_path: Any) -> None:
    options: dict[str, Any] = {**COLUMNS, "measures": f"{PLAIN},{WITH_ERROR}", "by": "slot"}
    parts = [fe.partial(log.slice(first, 1700), **options) for first in (0, 1700, 3400)]
    parts[0].merge(*parts[1:]).save(tmp_path / "all.state")
    merged = fe.load_state(tmp_path / "all.state").result()
    assert numbers(merged) == numbers(fe.evaluate(log, **options))
    assert {v.groups for v in merged} == {0}


@pytest.mark.parametrize("by", [(), "slot"])
def test_state__of_no_group__has_the_same_bytes_for_any_batches(log: pa.Table, by: Any) -> None:
    options: dict[str, Any] = {**COLUMNS, "measures": f"{PLAIN},{WITH_ERROR}", "by": by}
    contents = {batched.partial(log, **options, batch_rows=n).to_bytes() for n in (700, 5000)}
    assert len(contents) == 1


def test_min_groups__of_a_state_of_no_group__is_refused(log: pa.Table) -> None:
    state = fe.partial(log, **COLUMNS, measures="AUC", by="slot")
    with pytest.raises(fe.ArgumentError, match="min_groups: must be 1 for a state without groups"):
        state.result(min_groups=5)


def test_slices__of_no_group__show_no_groups(log: pa.Table) -> None:
    text = repr(fe.evaluate(log, **COLUMNS, measures="AUC,KS", by="slot"))
    assert "none" in text
    assert "0/0" not in text


def test_curves__of_no_group__are_those_of_grouped_rows(log: pa.Table) -> None:
    for kind in ("roc", "pr", "det", "lift", "calibration"):
        found, grouped = (fe.curve(kind, log, **COLUMNS, **g) for g in ({}, {"group": "user"}))
        assert found.records().equals(grouped.records())
        assert found.values == grouped.values
    result = fe.evaluate(log, **COLUMNS, measures="AUC", keep="scores")
    assert result.curve("roc").records().equals(fe.curve("roc", log, **COLUMNS).records())
    with pytest.raises(fe.ArgumentError, match=r"nDCG@1, .* need groups"):
        fe.curve("k", log, **COLUMNS)


def test_comparison__of_no_group__is_refused(log: pa.Table) -> None:
    with pytest.raises(fe.ArgumentError, match=r"compare\(\) needs group=\.\.\."):
        fe.compare(log, **COLUMNS, measures="AUC", baseline="old")  # type: ignore[call-arg]
    result = fe.evaluate(log, **COLUMNS, measures="AUC")
    with pytest.raises(fe.ArgumentError, match="group"):
        result.compare(baseline="old")
