"""Compute what the pages of the web view show."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import FastRankEvalError
from fastrank_eval.apps.nightly.compare_nights import (
    convention_differences,
    from_earlier,
    without_praise,
)
from fastrank_eval.apps.nightly.night import Night, NightDifference
from fastrank_eval.apps.nightly.page import check_libraries
from fastrank_eval.apps.nightly.page_rows import MAX_SLICES, Change, NightSeries, cell
from fastrank_eval.apps.nightly.text import (
    confidence_of,
    confidence_text,
    digits_of,
    lead,
)
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.measures.parser import measure as measure_of

_Key = tuple[str, str | None, str, str]


@dataclass(frozen=True)
class Pair:
    """A value on two nights with intervals as text, and the difference."""

    value: MeasureValue
    earlier: MeasureValue | None
    texts: tuple[tuple[str, str], ...]
    change: Change | None

    @property
    def interval(self) -> str:
        """The interval of the second night."""
        return self.texts[1][1]

    @property
    def rank(self) -> tuple[bool, float]:
        """The sort key: significant changes first, by strength."""
        if self.change is None:
            return True, 0.0
        return not self.change.verdict.shown, -self.change.strength


def nights_content(nights: Sequence[Night], earlier: dt.date | None) -> dict[str, Any]:
    """Return the values for the list of nights, the latest first.

    Parameters
    ----------
    nights : sequence of Night
    earlier : dt.date or None
        The first date of this page, if another page has earlier nights.
    """
    rows = []
    measure = nights[-1].measures[0] if nights and nights[-1].measures else ""
    models = nights[-1].models if nights else ()
    digits = digits_of(v for n in nights for v in n.values if _headline(v, measure))
    for night in reversed(nights):
        value_by_model = {value.score: value for value in night.values if _headline(value, measure)}
        values = map(value_by_model.get, models)
        cells = [(*cell(one, digits), one.value if one else math.nan) for one in values]
        rows.append((night, cells, lead(night)))
    title = nights[-1].title if nights else "No nights"
    return {
        "title": title,
        "rows": rows,
        "level": confidence_text(nights[-1]) if nights else "",
        "with_intervals": any(interval for _, cells, _ in rows for _, interval, _ in cells),
        "models": models,
        "measure": nights[-1].name_of(measure) if nights else "",
        "dates": [night.date for night in reversed(nights)],
        "earlier": earlier,
        "labels": [],
        **(_overview(NightSeries(nights), measure) if nights else {}),
    }


def _overview(series: NightSeries, measure: str) -> dict[str, Any]:
    """Draw the charts of the list of nights."""
    check_libraries()
    from fastrank_eval.analysis.plots import styled
    from fastrank_eval.apps.nightly import charts
    from fastrank_eval.apps.nightly.time_charts import counts, trend

    nights, last = series.nights, series.last
    past = {model: series.past(model, "all", measure) for model in last.models}
    with styled():
        keys = [charts.key(index) for index in range(len(last.models))]
        over_nights = [
            trend("trend", last.name_of(measure) if measure else "No measure", nights, past),
            counts("rows", "Rows", nights, [night.quality.rows for night in nights]),
            counts("ctr", "CTR", nights, [night.quality.ctr for night in nights], percent=True),
        ]
    return {"keys": keys, "baseline": last.baseline, "charts": over_nights}


def slice_content(nights: Sequence[Night], slice_label: str, measure: str) -> dict[str, Any] | None:
    """Return a measure on a slice over time; None if no night has it."""
    with_slice = [
        night
        for night in nights
        if any(value.slice == slice_label and value.measure == measure for value in night.values)
    ]
    if not with_slice:
        return None
    check_libraries()
    from fastrank_eval.analysis.plots import styled
    from fastrank_eval.apps.nightly import charts
    from fastrank_eval.apps.nightly.time_charts import trend

    # Nights without the slice leave a gap.
    series = NightSeries([n for n in nights if with_slice[0].date <= n.date <= with_slice[-1].date])
    models = list(dict.fromkeys(model for night in with_slice for model in night.models))
    past = {model: series.past(model, slice_label, measure) for model in models}
    digits = digits_of(value for values in past.values() for value in values if value is not None)
    with styled():
        keys = [charts.key(index) for index in range(len(models))]
        name = series.last.name_of(measure)
        chart = trend("slice", f"{name} of {slice_label}", series.nights, past)
    rows = [
        (
            night,
            [
                None if (value := past[model][index]) is None else (*cell(value, digits), value)
                for model in models
            ],
        )
        for index, night in enumerate(series.nights)
    ]
    return {
        "title": series.last.title,
        "slice_label": slice_label,
        "measure": name,
        "models": models,
        "baseline": series.last.baseline,
        "keys": keys,
        "chart": chart,
        "rows": rows[::-1],
        "level": confidence_text(series.last),
        "with_intervals": any(cell[1] for _, cells in rows for cell in cells if cell is not None),
    }


def compare_content(first: Night, second: Night) -> dict[str, Any]:
    """Return the values for two nights side by side with their differences.

    The differences are those of `from_earlier`, so that they equal those on the page of the second
    night. There are none if conventions differ.
    """
    different = convention_differences(second, first)
    earlier = {(v.score, v.by, v.slice, v.measure): v for v in first.values}
    measures = {measure for measure in {v.measure for v in second.values} if _is_known(measure)}
    values = [value for value in second.values if value.measure in measures]
    values = [] if different else values
    compared = from_earlier("other", values, first.values, confidence_of(second))
    for night in (first, second):
        compared = without_praise(compared, night)
    differences = {(one.score, one.by, one.slice, one.measure): one for one in compared}
    overall = [value for value in second.values if value.slice == "all"]
    on_slices = [value for value in second.values if value.slice != "all"]
    order = {measure: index for index, measure in enumerate(second.measures)}
    overall.sort(key=lambda value: order.get(value.measure, len(order)))
    tables = [("All rows", _pairs(overall, earlier, differences), 0)]
    for measure in second.measures:
        pairs = _pairs([v for v in on_slices if v.measure == measure], earlier, differences)
        pairs.sort(key=lambda pair: pair.rank)
        if pairs:
            name = second.name_of(measure)
            tables.append((f"{name} by slice", pairs[:MAX_SLICES], len(pairs[MAX_SLICES:])))
    return {
        "title": second.title,
        "first": first,
        "second": second,
        "different": different,
        "provisional": [night.date for night in (first, second) if night.provisional],
        "unsound": [night.date for night in (first, second) if night.status == "data_quality"],
        "tables": tables,
        "level": confidence_text(second),
    }


def _headline(value: MeasureValue, measure: str) -> bool:
    return value.slice == "all" and value.measure == measure


def _is_known(measure: str) -> bool:
    """Tell whether this version has a measure."""
    try:
        measure_of(measure)
    except FastRankEvalError:
        return False
    return True


def _pairs(
    values: Sequence[MeasureValue],
    earlier: Mapping[_Key, MeasureValue],
    differences: Mapping[_Key, NightDifference],
) -> list[Pair]:
    pairs = []
    digits = {
        measure: digits_of(value for value in values if value.measure == measure)
        for measure in {value.measure for value in values}
    }
    for value in values:
        key = value.score, value.by, value.slice, value.measure
        old, decimals = earlier.get(key), digits[value.measure]
        texts = cell(old, decimals), cell(value, decimals)
        change = Change.of(differences[key], decimals) if key in differences else None
        pairs.append(Pair(value, old, texts, change))
    return pairs
