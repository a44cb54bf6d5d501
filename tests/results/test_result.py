"""Result: tables, JSON, CSV, markdown and print, from values written by hand."""

import json
import math
import pickle
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval.engine.records import MeasureValue, Meta
from fastrank_eval.measures import measure
from fastrank_eval.results.evaluate import evaluate
from fastrank_eval.results.result import Result
from tests.support.commands import on_terminal
from tests.support.transcripts import answers

NAN = math.nan


def one_result(
    scores: tuple[str, ...] = ("pctr",),
    per_group: pa.Table | None = None,
    groups: int = 12_000,
    rows: int = 240_000,
    conventions: dict[str, object] | None = None,
    seconds: float = 0.5,
) -> Result:
    values = [
        entry
        for score in scores
        for entry in (
            MeasureValue(score, "all", "GAUC", 0.7123456789, groups, groups - 4000,
                         {"all_negative": 3990, "few_rows": 10}, 0.61234, 1.0),
            MeasureValue(score, "all", "AUC", NAN, groups, 0, {"single_class": groups}, 0.0, NAN,
                         "pooled"),
            MeasureValue(score, "all", "ERR(max_grade=1)@10", 0.0557653, groups, groups, {},
                         0.99999, 0.00001),
        )
    ]  # fmt: skip
    meta = Meta("1.2", rows, groups, conventions or {"ties": "expected", "weight": None}, seconds)
    return Result(values, per_group, meta, scores, ["GAUC", "AUC", "ERR(max_grade=1)@10"])


# ---- access by name ------------------------------------------------------------------------------


@pytest.mark.parametrize("alias", ["GAUC", "gauc", " GAUC ", measure("GAUC")])
def test_value__any_alias__is_found(alias: str) -> None:
    assert one_result().value(alias) == 0.7123456789


def test_per_group_values__undefined_group__is_nan() -> None:
    table = pa.table(
        {"user": ["a", "b"], "rows": [3, 1], "positives": [1, 0]}
        | {"GAUC": [0.25, None], "ERR(max_grade=1)@10": [0.5, 0.0]}
    )
    values = one_result(per_group=table)["gauc"]
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [0.25, NAN])
    np.testing.assert_array_equal(one_result(per_group=table)["ERR(max_grade=1)@10"], [0.5, 0.0])


def test_per_group_values__key_column_called_like_a_measure__is_not_mistaken() -> None:
    table = pa.table(
        {"GAUC": ["a", "b"], "rows": [3, 1], "positives": [1, 0]}
        | {"GAUC_": [0.25, None], "ERR(max_grade=1)@10": [0.5, 0.0]}
    )
    np.testing.assert_array_equal(one_result(per_group=table)["GAUC"], [0.25, NAN])


def test_per_group_values__several_scores__are_taken_by_score() -> None:
    columns = {"user": [7], "rows": [3], "positives": [1]}
    for place, score in enumerate(("a", "b")):
        columns |= {f"{score}.GAUC": [place], f"{score}.ERR(max_grade=1)@10": [place + 10]}
    result = one_result(("a", "b"), per_group=pa.table(columns))
    assert result["a", "GAUC"].tolist() == [0.0]
    assert result["b", "GAUC"].tolist() == [1.0]
    assert result["a", "ERR(max_grade=1)@10"].tolist() == [10.0]
    with pytest.raises(ArgumentError, match="several score columns"):
        _ = result["GAUC"]


def test_per_group_values__pooled_measure__points_to_gauc() -> None:
    with pytest.raises(MeasureError, match=r"pools the rows.*GAUC"):
        _ = one_result(per_group=pa.table({"user": [1]}))["AUC"]


# ---- tables and text for programs ----------------------------------------------------------------


def test_to_json__nan_and_numpy_values__are_strict_json() -> None:
    conventions: dict[str, object] = {
        "ties": "expected", "weight": None, "limit": np.int64(5), "columns": ("a", "b"),
        "share": NAN, "gain": {1: np.float32(0.5)}, "flag": np.True_,
    }  # fmt: skip
    text = one_result(conventions=conventions).to_json()

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    read = json.loads(text, parse_constant=refuse)
    assert read["results"][0]["value"] == 0.7123456789
    assert list(read) == ["schema", "meta", "results"]
    assert list(read["meta"]) == ["version", "rows", "groups", "conventions", "seconds"]
    assert read["meta"]["conventions"] == {
        "ties": "expected", "weight": None, "limit": 5, "columns": ["a", "b"], "share": None,
        "gain": {"1": 0.5}, "flag": True,
    }  # fmt: skip
    assert read["results"][1] == {
        "score": "pctr", "by": None, "slice": "all", "measure": "AUC", "name": "AUC",
            "value": None, "se": None,
        "ci_low": None, "ci_high": None, "effective_groups": None, "weight": None,
        "warning": None, "groups": 12000,
        "groups_used": 0, "dropped": {"single_class": 12000}, "rows_share": 0.0,
        "positives_share": None, "aggregate": "pooled", "details": {},
    }  # fmt: skip


# ---- print ---------------------------------------------------------------------------------------


def test_print__markup_and_codes_in_names__are_shown_not_obeyed() -> None:
    result = one_result(("[red]a[/red]", "b\x1b[31m\n"), conventions={"weight": "[bold]w"})
    text = on_terminal(result, 120)
    assert "[red]a[/red]" in text
    assert r"b\x1b[31m\n" in text
    assert "weight=[bold]w" in text
    assert "\x1b" not in text + repr(result)


def test_aggregate__other_than_the_mean__is_said() -> None:
    values = [
        MeasureValue("s", "all", "NumRet", 1234567.0, 3, 3, {}, 1.0, 1.0, "sum"),
        MeasureValue("s", "all", "NumRel(weight='w')", 0.5, 3, 3, {}, 1.0, 1.0, "sum"),
        MeasureValue("s", "all", "GMAP", 0.25, 3, 3, {}, 1.0, 1.0, "geometric mean"),
        MeasureValue("s", "all", "AP", 0.5, 3, 3, {}, 1.0, 1.0),
        MeasureValue("s", "all", "AUC", 0.5, 3, 3, {}, 1.0, 1.0, "pooled"),
    ]
    result = Result(values, None, Meta("1", 9, 3, {}, 1.0), ["s"], [v.measure for v in values])
    kinds = ["sum", "sum", "geometric mean", "mean", "pooled"]
    assert result.records()["aggregate"].to_pylist() == kinds
    assert [tuple(re.split(r" {2,}", line)[1:3]) for line in repr(result).splitlines()[1:6]] == [
        ("NumRet (sum)", "1,234,567"),
        ("NumRel(weight='w') (sum)", "0.500000"),
        ("GMAP (geometric mean)", "0.250000"),
        ("AP", "0.500000"),
        ("AUC", "0.500000"),
    ]


@pytest.mark.parametrize(
    "rows, seconds, printed",
    [(1, 2.0, "1 row, 3 groups, 2 s, 0 rows/s"), (5_000_000, 0.04, "125 Mrows/s"),
     (5, 0.0, "5 rows, 3 groups, 0 s, too fast to time")],
)  # fmt: skip
def test_print__speed__suits_its_size(rows: int, seconds: float, printed: str) -> None:
    entry = MeasureValue("s", "all", "CG", 1.0, 3, 3, {}, 1.0, 1.0)
    result = Result([entry], None, Meta("1", rows, 3, {}, seconds), ["s"], ["CG"])
    assert printed in on_terminal(result, 80)


@pytest.mark.parametrize("text", ["GAUC,AUC", "FieldRCE(field='slot'),GAUC"])
def test_result_of_slices__pickled_before_its_groups_are_read__is_the_same(text: str) -> None:
    log = {"user": [1, 1, 2, 2], "click": [0, 1, 1, 0], "p": [0.1, 0.4, 0.2, 0.3]}
    log["slot"] = ["a", "b", "b", "a"]
    options = {
        "group": "user",
        "label": "click",
        "score": "p",
        "by": "slot",
        "keep": "values,state",
    }
    result = evaluate(log, measures=text, **options)
    again = pickle.loads(pickle.dumps(result))  # noqa: S301 - made here
    assert str(again) == str(result)
    assert again.per_group.equals(result.per_group)


# ---- models side by side -------------------------------------------------------------------------

META = Meta("1", 900, 90, {"confidence": 0.95, "ties": "expected"}, 0.1)


def value(score: str, measure: str, number: float, half: float = NAN, **more: Any) -> MeasureValue:
    entry = MeasureValue(
        score, "all", measure, number, 90, 60, {"all_negative": 30}, 0.75, 1.0,
        se=half / 2, ci_low=number - half, ci_high=number + half,
    )  # fmt: skip
    return replace(entry, **more)


def result_of(numbers: dict[str, list[float]], half: float = 0.0123, **more: Any) -> Result:
    scores = [f"m{i}" for i in range(len(next(iter(numbers.values()))))]
    values = [
        value(score, measure, row[i], half, **more)
        for i, score in enumerate(scores)
        for measure, row in numbers.items()
    ]
    return Result(values, None, META, scores, list(numbers))


def bold(result: Result) -> list[str]:
    return re.findall(r"\*\*([^*]+)\*\*", result.to_markdown())


TWO = {"GAUC": [0.71, 0.72], "LogLoss": [0.31, 0.32], "PCOC": [0.98, 1.02]}


test_answers = answers(globals())
