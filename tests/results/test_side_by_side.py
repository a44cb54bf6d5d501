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


def test_markdown__has_a_column_for_each_model() -> None:
    text = result_of(TWO).to_markdown()
    assert text.startswith(
        "| measure | `m0` | `m1` |\n| --- | ---: | ---: |\n"
        "| `GAUC` | 0.710000 ±0.012 | **0.720000** ±0.012 |\n"
        "| `LogLoss` | **0.310000** ±0.012 | 0.320000 ±0.012 |\n"
        "| `PCOC` | 0.980000 ±0.012 | 1.02000 ±0.012 |\n"
    )
    assert "± half of the 95% confidence interval" in text


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


def test_coverage__equal_for_all_models__stands_once() -> None:
    text = repr(result_of(TWO))
    assert text.count("30 all_negative") == 1
    assert re.search(r"^GAUC, LogLoss, PCOC +60/90 +30 all_negative +75.0% +100%$", text, re.M)


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


def test_text__has_blank_lines_around_tables() -> None:
    lines = repr(result_of(TWO)).split("\n")
    assert [i for i, line in enumerate(lines) if not line] == [4, 7]
    assert lines[5].startswith("coverage ")
    assert lines[8].startswith("± half")


def test_coverage__of_many_measures__folds_after_commas() -> None:
    names = ["GAUC", "LogLoss", "PCOC", "AP", "RR", "P@10", "R@10", "nDCG@10", "AUC"]
    lines = on_terminal(result_of({name: [0.1, 0.2] for name in names}), 60).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("coverage"))
    block = lines[at + 2 : lines.index("", at)]
    assert len(block) > 1
    assert [line.split()[0] for line in block] == [line[: line.find(" ")] for line in block]


def test_values__with_and_without_interval__are_aligned() -> None:
    values = [
        value(score, measure, 0.5, half, caution=caution)
        for score in ("a", "b")
        for measure, half, caution in (("GAUC", 0.02, "few_groups"), ("AUC", NAN, "pooled"))
    ]
    result = Result(values, None, META, ["a", "b"], ["GAUC", "AUC"])
    for text in (on_terminal(result, 80),):
        lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
        columns = [
            [match.start() for match in re.finditer("0.500000", lines[name])]
            for name in ("GAUC", "AUC")
        ]
        assert columns[0] == columns[1]
        assert len(columns[0]) == 2
        assert "±0.020*" in lines["GAUC"]


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("models", [2, 5, 30])
def test_terminal__many_models__are_divided_and_no_digit_is_lost(width: int, models: int) -> None:
    numbers = {"GAUC": [0.5 + i / 1000 for i in range(models)], "AUC": [0.6] * models}
    text = on_terminal(result_of(numbers), width)
    assert max(map(len, text.splitlines())) <= width
    for i, number in enumerate(numbers["GAUC"]):
        assert re.search(rf"\bm{i}\b", text)
        assert f"{number:.6f}" in text
    assert text.count("coverage") == 1


def test_two_models__fit_80_columns_with_their_intervals() -> None:
    text = on_terminal(result_of(TWO), 80)
    assert "0.710000 ±0.012  0.720000 ±0.012" in text


def test_long_names__are_folded_after_their_words() -> None:
    values = [value(name, "GAUC", 0.5) for name in ("ranker_of_last_november", "b")]
    result = Result(values, None, META, ["ranker_of_last_november", "b"], ["GAUC"])
    text = on_terminal(result, 80)
    assert [line.split()[-1] for line in text.splitlines()[:2]] == ["ranker_of_", "last_"]


def test_slices__have_a_table_for_each_measure() -> None:
    values = [
        value(score, measure, number, 0.01, by=by, slice=part)
        for by, part in ((None, "all"), ("slot", "slot=1"), ("slot", "slot=2"))
        for score, number in (("a", 0.3), ("b", 0.4))
        for measure in ("GAUC", "LogLoss")
    ]
    result = Result(values, None, META, ["a", "b"], ["GAUC", "LogLoss"])
    text = result.to_markdown()
    assert "`GAUC` by `slot`\n\n| slice | groups used | rows | `a` | `b` |" in text
    assert "| `slot=2` | 60/90 | 75.0% | 0.300000 ±0.010 | **0.400000** ±0.010 |" in text
    assert "| `slot=2` | 60/90 | 75.0% | **0.300000** ±0.010 | 0.400000 ±0.010 |" in text
    assert "`a` by `slot`" in result.to_markdown(wide=True)


def test_slices__used_groups_that_differ_between_models__are_marked() -> None:
    values = [
        value(score, "GAUC", 0.5, by=by, slice=part, groups_used=used)
        for by, part in ((None, "all"), ("slot", "slot=1"))
        for score, used in (("a", 60), ("b", 50))
    ]
    text = repr(Result(values, None, META, ["a", "b"], ["GAUC"]))
    assert re.search(r"^slot=1 +≥50/90 ", text, re.M)
    assert "≥ where models differ" in text


def test_one_model__keeps_its_table() -> None:
    result = result_of({"GAUC": [0.5], "AUC": [0.6]})
    assert repr(result).split("\n")[0].split()[:3] == ["score", "measure", "value"]
    assert result.to_markdown() == result.to_markdown(wide=True)
    assert not bold(result)


def test_wide__has_a_row_for_each_model_and_measure() -> None:
    text = result_of(TWO).to_markdown(wide=True)
    assert text.startswith("| score | measure | value | 95% CI | groups used |")
    assert text.count("30 all_negative") == 6
    terminal = on_terminal(result_of(TWO).view(wide=True), 120)
    assert [line.strip() for line in terminal.splitlines() if re.fullmatch(" *m. *", line)] == [
        "m0",
        "m1",
    ]


def test_machine_formats__do_not_depend_on_the_layout() -> None:
    result = result_of(TWO)
    assert len(result.to_csv().splitlines()) == 1 + 6
    assert len(result.document()["results"]) == 6


def test_cautions__of_models_side_by_side__are_marks() -> None:
    text = repr(result_of({"GAUC": [0.5, 0.6]}, caution="few_groups", effective_groups=5.0))
    assert text.count("effective groups") == 1
    assert "* fewer than 40 effective groups: the interval is rough\n" in text


def test_page__names_the_models() -> None:
    page = result_of(TWO).to_html()
    assert "<title>Evaluation of m0, m1</title>" in page
    assert "<strong>0.720000</strong> <span" in page
