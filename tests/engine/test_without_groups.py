"""Runs whose rows have no groups, or whose measures need none."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from tests.strategies import POOLED_VARIANTS
from tests.support import batched
from tests.support.transcripts import answers

ROWS = 5000
COLUMNS: dict[str, Any] = {"label": "click", "score": ["old", "new"]}
#: Measures of all rows without an error, and with one if rows have groups.
PLAIN, WITH_ERROR = "AUC,KS,AvgPrec,ECE(bins=15),Lift", "LogLoss,NE,PPV,MCC,PCOC"


def rows_of_log() -> pa.Table:
    """Shuffled rows: no group is in one piece."""
    rng = np.random.default_rng(3)
    click = rng.random(ROWS) < 0.2
    scores = np.clip(0.2 + 0.2 * click + rng.normal(0, 0.15, (2, ROWS)), 0.01, 0.99).round(2)
    users, slots = rng.integers(0, 300, ROWS), rng.integers(0, 3, ROWS)
    columns = {"user": users, "slot": slots, "click": click, "w": rng.random(ROWS)}
    return pa.table({**columns, "old": scores[0], "new": scores[1]})


LOG = rows_of_log()


def numbers(result: fe.Result) -> list[tuple[object, ...]]:
    """Return all that does not depend on groups."""
    return [
        (v.score, v.by, v.slice, v.measure, v.value, v.rows_share, v.positives_share, v.details)
        for v in result
    ]


@pytest.mark.parametrize("options", [{}, {"weight": "w"}, {"by": ["slot", "slot,w:0.5"]}], ids=str)
@pytest.mark.parametrize("batch_rows", [None, 700])
def test_no_group__has_the_values_of_grouped_rows(options, batch_rows) -> None:
    options = {**COLUMNS, **options, "measures": f"{PLAIN},{WITH_ERROR}"}
    found = batched.evaluate(LOG, **options, batch_rows=batch_rows)
    grouped = fe.evaluate(LOG, group="user", **options)
    assert numbers(found) == numbers(grouped)
    assert (found.meta.rows, found.meta.groups) == (ROWS, 0)
    assert {(v.groups, v.groups_used) for v in found} == {(0, 0)}


def test_measures_with_clustered_errors__of_no_group__say_why_they_have_none() -> None:
    result = fe.evaluate(LOG, **COLUMNS, measures=f"{PLAIN},{WITH_ERROR}")
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


@pytest.mark.parametrize("order", ["auto", "scattered"])
def test_measures_without_groups__of_a_group__do_not_group_rows(order, monkeypatch) -> None:
    def refuse(*args: object) -> None:
        raise AssertionError("rows are gathered")

    monkeypatch.setattr("fastrank_eval.groups.partition.Partitioner.partition", refuse)
    options: dict[str, Any] = {**COLUMNS, "group": "user", "measures": PLAIN, "order": order}
    result = fe.evaluate(LOG, **options)
    assert (result.meta.groups, result.meta.conventions["order"]) == (0, "any")
    assert numbers(result) == numbers(fe.evaluate(LOG, **COLUMNS, measures=PLAIN))
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
def test_what_needs_groups__of_a_group__counts_them(options: dict[str, Any]) -> None:
    result = fe.evaluate(LOG, group="user", **COLUMNS, **options)
    assert result.meta.groups == len(LOG["user"].unique())
    assert result.meta.conventions["order"] == "scattered"


def test_states__of_no_group__merge_to_the_bits_of_one_run(tmp_path: Any) -> None:
    options: dict[str, Any] = {**COLUMNS, "measures": f"{PLAIN},{WITH_ERROR}", "by": "slot"}
    parts = [fe.partial(LOG.slice(first, 1700), **options) for first in (0, 1700, 3400)]
    parts[0].merge(*parts[1:]).save(tmp_path / "all.state")
    merged = fe.load_state(tmp_path / "all.state").result()
    assert numbers(merged) == numbers(fe.evaluate(LOG, **options))
    assert {v.groups for v in merged} == {0}


@pytest.mark.parametrize("by", [(), "slot"])
def test_state__of_no_group__has_the_same_bytes_for_any_batches(by: Any) -> None:
    options: dict[str, Any] = {**COLUMNS, "measures": f"{PLAIN},{WITH_ERROR}", "by": by}
    contents = {batched.partial(LOG, **options, batch_rows=n).to_bytes() for n in (700, 5000)}
    assert len(contents) == 1


def test_curves__of_no_group__are_those_of_grouped_rows() -> None:
    for kind in ("roc", "pr", "det", "lift", "calibration"):
        found, grouped = (fe.curve(kind, LOG, **COLUMNS, **g) for g in ({}, {"group": "user"}))
        assert found.records().equals(grouped.records())
        assert found.values == grouped.values
    result = fe.evaluate(LOG, **COLUMNS, measures="AUC", keep="scores")
    assert result.curve("roc").records().equals(fe.curve("roc", LOG, **COLUMNS).records())
    with pytest.raises(fe.ArgumentError, match=r"nDCG@1, .* need groups"):
        fe.curve("k", LOG, **COLUMNS)


test_answers = answers(globals())
