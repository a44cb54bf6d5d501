"""Charts over nights: their lines, gaps, tooltips and the strip of statuses."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import replace

import pytest

from fastrank_eval.apps.nightly.charts import Chart, counts, trend
from fastrank_eval.apps.nightly.night import Night
from tests.apps.nightly.test_page import tiny
from tests.support.html_elements import Element, elements
from tests.support.sample_nights import LAST
from tests.support.transcripts import answers

NIGHTS = [tiny(date=LAST - dt.timedelta(days=ago)) for ago in (6, 5, 4, 2, 1, 0)]


def drawn(numbers: list[float | None], nights: list[Night] = NIGHTS) -> list[Element]:
    """The elements of a trend of one model."""
    value = tiny().values[0]
    past = [
        None if number is None else replace(value, value=number, ci_low=number, ci_high=number)
        for number in numbers
    ]
    return parts(trend("name", "GAUC", nights, {"model": past}))


def parts(chart: Chart) -> list[Element]:
    return elements(f"<!DOCTYPE html><html><body>{chart.svg}</body></html>")


def lines(found: list[Element]) -> list[str]:
    return [
        one.attributes["d"]
        for one in found
        if one.tag == "path" and one.attributes.get("stroke") == "var(--model-1)"
    ]


def test_trend__line__rises_with_the_numbers() -> None:
    (path,) = lines(drawn([0.1, 0.2, 0.3], NIGHTS[:3]))
    points = [tuple(map(float, each.split())) for each in path.removeprefix("M").split("L")]
    assert points == sorted(points, key=lambda point: point[0])
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)
    assert points[0][1] - points[1][1] == pytest.approx(points[1][1] - points[2][1], abs=0.2)


@pytest.mark.parametrize("missing", [None, math.nan])
def test_trend__night_without_a_value__is_a_gap(missing: float | None) -> None:
    assert [path.count("L") for path in lines(drawn([0.1] * 6))] == [2, 2]  # a date is missing
    found = drawn([0.1, missing, 0.1, 0.2, 0.1, 0.1])
    assert [path.count("L") for path in lines(found)] == [0, 0, 2]
    assert len([one for one in found if one.tag == "use"]) == 5


def test_strip__statuses__differ_in_height_and_not_in_colour_alone() -> None:
    names = ("fine", "changed", "regression", "data_quality", "changed", "fine")
    nights = [replace(night, status=name) for night, name in zip(NIGHTS, names, strict=True)]
    bars = [one for one in drawn([0.1] * 6, nights) if one.tag == "rect"]
    assert [one.all_text() for one in bars] == [
        "2026-11-13: Fine", "2026-11-14: Changed", "2026-11-15: Regression",
        "2026-11-17: Data quality", "2026-11-18: Changed", "2026-11-19: Fine",
    ]  # fmt: skip
    heights = [float(one.attributes["height"]) for one in bars]
    assert heights[0] < heights[1] < heights[2] == heights[3]
    assert bars[2].attributes["fill"] != bars[3].attributes["fill"]
    feet = {float(one.attributes["y"]) + float(one.attributes["height"]) for one in bars}
    assert max(feet) - min(feet) < 0.2


@pytest.mark.parametrize("numbers", [[5.0] * 6, [0.0] * 6, [1e-9] * 6, [math.nan] * 6, [1e12] * 6])
def test_counts__of_any_size__stay_inside(numbers: list[float]) -> None:
    chart = counts("rows", "Rows", NIGHTS, numbers)
    width, height = map(float, re.findall(r'viewBox="0 0 (\S+) (\S+)"', str(chart.svg))[0])
    positions = [
        (float(one.attributes["x"]), float(one.attributes["y"]))
        for one in parts(chart)
        if one.tag in ("use", "text")
    ]
    assert positions
    assert all(0 <= x <= width and 0 <= y <= height for x, y in positions)


test_answers = answers(globals())
