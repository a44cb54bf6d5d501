"""What the pages of the web view show besides that of a night."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastrank_eval.report.lines import NightSeries
from fastrank_eval.report.nights import Night, NightDifference, NightValue
from fastrank_eval.report.page import check_libraries
from fastrank_eval.report.wording import (
    Said,
    amount,
    confidence_of,
    digits_of,
    interval,
    reasons,
    said_of,
)

__all__ = ["beside_content", "nights_content", "slice_content"]


@dataclass(frozen=True)
class Pair:
    """A value on two nights and how they differ; numbers as text where they are shown."""

    now: NightValue
    was: NightValue | None
    difference: NightDifference
    said: Said
    texts: tuple[str, str, str]
    intervals: tuple[str, str, str]


def nights_content(nights: Sequence[Night], earlier: dt.date | None) -> dict[str, Any]:
    """The list of nights, the latest first.

    Parameters
    ----------
    nights : sequence of Night
    earlier : dt.date or None
        Nights before this one are on another page.
    """
    rows = []
    measure = nights[-1].measures[0] if nights and nights[-1].measures else ""
    models = nights[-1].models if nights else ()
    digits = digits_of(v for n in nights for v in n.values if _headline(v, measure))
    for night in reversed(nights):
        found = {value.score: value for value in night.values if _headline(value, measure)}
        cells = [
            (amount(one.value, digits), interval(one.ci_low, one.ci_high, digits), one.value)
            if one
            else ("–", "", math.nan)
            for one in map(found.get, models)
        ]
        rows.append((night, cells, reasons(night)))
    title = nights[-1].title if nights else "No nights"
    return {
        "title": title,
        "rows": rows,
        "models": models,
        "measure": measure,
        "dates": [night.date for night in reversed(nights)],
        "earlier": earlier,
    }


def slice_content(nights: Sequence[Night], part: str, measure: str) -> dict[str, Any] | None:
    """A measure on a slice over time; None where no night has it."""
    there = [
        night
        for night in nights
        if any(value.slice == part and value.measure == measure for value in night.values)
    ]
    if not there:
        return None
    check_libraries()
    from fastrank_eval.pictures.style import styled
    from fastrank_eval.report import charts

    # Nights without the slice leave a gap.
    series = NightSeries([n for n in nights if there[0].date <= n.date <= there[-1].date])
    models = list(dict.fromkeys(model for night in there for model in night.models))
    past = {model: series.past(model, part, measure) for model in models}
    digits = digits_of(value for of in past.values() for value in of if value is not None)
    with styled():
        keys = [charts.key(place) for place in range(len(models))]
        chart = charts.trend("slice", f"{measure} of {part}", series.nights, past)
    rows = [
        (
            night,
            [
                (amount(v.value, digits), interval(v.ci_low, v.ci_high, digits), v)
                if (v := past[model][at]) is not None
                else None
                for model in models
            ],
        )
        for at, night in enumerate(series.nights)
    ]
    return {
        "title": series.last.title,
        "part": part,
        "measure": measure,
        "models": models,
        "baseline": series.last.baseline,
        "keys": keys,
        "chart": chart,
        "rows": rows[::-1],
    }


def beside_content(first: Night, second: Night) -> dict[str, Any]:
    """Two nights side by side, and how the second differs from the first.

    Standard errors of differences take the nights as independent: sqrt(se_1^2 + se_2^2).
    """
    was = {(value.score, value.slice, value.measure): value for value in first.values}
    confidence = confidence_of(second)
    whole = [value for value in second.values if value.slice == "all"]
    parts = [value for value in second.values if value.slice != "all"]
    order = {measure: place for place, measure in enumerate(second.measures)}
    whole.sort(key=lambda value: order.get(value.measure, len(order)))
    tables = [("All rows", list(_pairs(whole, was, confidence)))]
    for measure in second.measures:
        pairs = list(_pairs([v for v in parts if v.measure == measure], was, confidence))
        pairs.sort(key=lambda pair: (not pair.said.shown, -_strength(pair.difference)))
        if pairs:
            tables.append((f"{measure} by slice", pairs))
    return {
        "title": second.title,
        "first": first,
        "second": second,
        "tables": tables,
        "level": f"{100 * confidence:.12g}%",
    }


def _headline(value: NightValue, measure: str) -> bool:
    return value.slice == "all" and value.measure == measure


def _pairs(
    values: Sequence[NightValue], was: dict[tuple[str, str, str], NightValue], confidence: float
) -> Iterator[Pair]:
    from statistics import NormalDist

    reach = NormalDist().inv_cdf(0.5 + confidence / 2)
    digits = {
        measure: digits_of(value for value in values if value.measure == measure)
        for measure in {value.measure for value in values}
    }
    for now in values:
        old = was.get((now.score, now.slice, now.measure))
        delta = now.value - old.value if old else math.nan
        se = math.hypot(now.se, old.se) if old else math.nan
        low, high = delta - reach * se, delta + reach * se
        found = NightDifference(
            "beside", now.score, now.score, now.by, now.slice, now.measure, delta, se, low, high
        )
        to = digits[now.measure]
        yield Pair(
            now,
            old,
            found,
            said_of(found, confidence),
            (
                amount(old.value if old else math.nan, to),
                amount(now.value, to),
                amount(delta, to, sign=True),
            ),
            (
                interval(old.ci_low, old.ci_high, to) if old else "",
                interval(now.ci_low, now.ci_high, to),
                interval(low, high, to, sign=True),
            ),
        )


def _strength(difference: NightDifference) -> float:
    found = abs(difference.delta) / difference.se if difference.se > 0 else 0.0
    return found if math.isfinite(found) else 0.0
