"""Models side by side: one column each, coverage once, the best value bold."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from fastrank_eval.engine.records import MeasureValue, Meta
from fastrank_eval.results.result import Result

NAN = math.nan
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


def on_terminal(renderable: Any, width: int, **options: Any) -> str:
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def bold(result: Result) -> list[str]:
    return re.findall(r"\*\*([^*]+)\*\*", result.to_markdown())


TWO = {"GAUC": [0.71, 0.72], "LogLoss": [0.31, 0.32], "PCOC": [0.98, 1.02]}


@pytest.mark.parametrize(
    "measure, numbers, best",
    [
        ("GAUC", [0.1, 0.3, 0.2], ["0.300000"]),
        ("LogLoss", [0.1, 0.3, 0.2], ["0.100000"]),
        ("GAUC", [0.3, 0.3, 0.2], ["0.300000", "0.300000"]),
        ("GAUC", [0.3, 0.3 + 1e-9, 0.2], ["0.300000", "0.300000"]),
        ("GAUC", [0.3, 0.3, 0.3], []),
        ("GAUC", [NAN, 0.3, 0.2], ["0.300000"]),
        ("GAUC", [NAN, 0.3, NAN], []),
        ("GAUC", [NAN, NAN, NAN], []),
        ("PCOC", [1.0, 0.9, 1.1], []),
        ("Bias", [0.0, 0.1, -0.1], []),
        ("NumRet", [5, 6, 7], []),
    ],
)
def test_best__is_the_best_as_printed_where_the_measure_has_a_direction(
    measure: str, numbers: list[float], best: list[str]
) -> None:
    assert bold(result_of({measure: numbers})) == best


def test_terminal__best_is_bold_only_where_there_are_styles() -> None:
    result = result_of(TWO)
    styled = on_terminal(result, 80, force_terminal=True, color_system="standard")
    assert re.findall(r"\x1b\[1m *([\d.]+)\x1b\[0m", styled) == ["0.720000", "0.310000"]
    assert "\x1b" not in on_terminal(result, 80)


def test_coverage__that_differs__names_its_models() -> None:
    result = result_of(TWO)
    values = [
        replace(v, groups_used=50, dropped={"all_negative": 40})
        if (v.score, v.measure) == ("m1", "GAUC")
        else v
        for v in result.values
    ]
    text = Result(values, None, META, result.scores, result.measures).to_markdown()
    assert "| `GAUC of m0, LogLoss, PCOC` | 60/90 | 30 all_negative | " in text
    assert "| `GAUC of m1` | 50/90 | 40 all_negative | " in text


def test_slices__used_groups_that_differ_between_models__are_marked() -> None:
    values = [
        value(score, "GAUC", 0.5, by=by, slice=part, groups_used=used)
        for by, part in ((None, "all"), ("slot", "slot=1"))
        for score, used in (("a", 60), ("b", 50))
    ]
    text = repr(Result(values, None, META, ["a", "b"], ["GAUC"]))
    assert re.search(r"^slot=1 +≥50/90 ", text, re.M)
    assert "≥ where models differ" in text


def test_cautions__of_models_side_by_side__are_marks() -> None:
    text = repr(result_of({"GAUC": [0.5, 0.6]}, caution="few_groups", effective_groups=5.0))
    assert text.count("effective groups") == 1
    assert "* fewer than 40 effective groups: the interval is rough\n" in text
