"""Compute what the pages of the web view show."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastrank_eval._lib.errors import FastRankEvalError
from fastrank_eval.apps.nightly.compare_nights import (
    convention_differences,
    from_earlier,
    without_praise,
)
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.page_rows import MAX_SLICES, NightSeries
from fastrank_eval.apps.nightly.text import (
    confidence_of,
    confidence_text,
    digits_of,
)
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.measures.parser import measure as measure_of


def nights_content(nights: Sequence[Night], earlier: dt.date | None) -> dict[str, Any]:
    """Return the values for the list of nights, the latest first.

    Parameters
    ----------
    nights : sequence of Night
    earlier : dt.date or None
        The first date of this page, if another page has earlier nights.
    """
    content: dict[str, Any] = {
        "title": "No nights",
        "rows": [],
        "dates": [],
        "earlier": earlier,
        "labels": [],
    }
    if not nights:
        return content
    series, last = NightSeries(nights), nights[-1]
    measure = next(iter(last.measures), "")
    name = last.name_of(measure) if measure else "No measure"
    over_nights = _over_nights(series, name, series.of_models("all", measure), rows=True)
    return {**content, **over_nights, "dates": [night.date for night in reversed(nights)]}


def _over_nights(
    series: NightSeries,
    name: str,
    past: Mapping[str, Sequence[MeasureValue | None]],
    rows: bool = False,
) -> dict[str, Any]:
    """Return the values of models over nights, and their charts."""
    from fastrank_eval.analysis.plots import styled
    from fastrank_eval.apps.nightly import charts
    from fastrank_eval.apps.nightly.time_charts import rows_and_rates, trend

    values = [value for column in past.values() for value in column if value is not None]
    with styled():
        keys = charts.keys(list(past))
        over_nights = [trend("trend", name, series.nights, past)]
        over_nights += rows_and_rates(series.nights) if rows else []
    return {
        "title": series.last.title,
        "models": list(past),
        "baseline": series.last.baseline,
        "keys": keys,
        "charts": over_nights,
        "rows": series.by_night(past),
        "digits": digits_of(values),
        "level": confidence_text(series.last),
        "with_intervals": any(math.isfinite(value.ci_low) for value in values),
    }


def slice_content(nights: Sequence[Night], slice_label: str, measure: str) -> dict[str, Any] | None:
    """Return a measure on a slice over time; None if no night has it."""
    with_slice = [
        night
        for night in nights
        if any(value.slice == slice_label and value.measure == measure for value in night.values)
    ]
    if not with_slice:
        return None
    # Nights without the slice leave a gap.
    series = NightSeries([n for n in nights if with_slice[0].date <= n.date <= with_slice[-1].date])
    models = list(dict.fromkeys(model for night in with_slice for model in night.models))
    name = series.last.name_of(measure)
    past = series.of_models(slice_label, measure, models)
    content = _over_nights(series, f"{name} of {slice_label}", past)
    return {**content, "slice_label": slice_label, "measure": name}


def compare_content(first: Night, second: Night) -> dict[str, Any]:
    """Return the values for two nights side by side with their differences.

    The differences are those of `from_earlier`, so that they equal those on the page of the second
    night. There are none if conventions differ.
    """
    different = convention_differences(second, first)
    measures = {measure for measure in {v.measure for v in second.values} if _is_known(measure)}
    values = [value for value in second.values if value.measure in measures and not different]
    compared = from_earlier("other", values, first.values, confidence_of(second))
    for night in (first, second):
        compared = without_praise(compared, night)
    series = NightSeries([first, replace(second, compared=tuple(compared))])
    tables = [("All rows", series.headline(), 0)]
    for measure in second.measures:
        rows = series.slices(measure)
        if rows:
            name = second.name_of(measure)
            tables.append((f"{name} by slice", rows[:MAX_SLICES], len(rows[MAX_SLICES:])))
    return {
        "title": second.title,
        "first": first,
        "second": second,
        "different": different,
        "provisional": [night.date for night in (first, second) if night.provisional],
        "failed": [night.date for night in (first, second) if night.status == "data_quality"],
        "tables": tables,
        "level": confidence_text(second),
    }


def _is_known(measure: str) -> bool:
    """Return whether this version has a measure."""
    try:
        measure_of(measure)
    except FastRankEvalError:
        return False
    return True
