"""What the pages of the web view show besides that of a night."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastrank_eval.errors import FastRankEvalError
from fastrank_eval.measures.text import measure as measure_of
from fastrank_eval.report.differences import from_earlier
from fastrank_eval.report.earlier_nights import differing
from fastrank_eval.report.lines import Change, NightSeries
from fastrank_eval.report.nights import Night, NightDifference, NightValue
from fastrank_eval.report.page import check_libraries
from fastrank_eval.report.page_content import MOST_SLICES
from fastrank_eval.report.sentences import lead
from fastrank_eval.report.wording import (
    amount,
    confidence_of,
    digits_of,
    interval,
    level_of,
)

__all__ = ["beside_content", "nights_content", "slice_content"]


_Of = tuple[str, str, str, str]


@dataclass(frozen=True)
class Pair:
    """A value on two nights, both with their intervals as text, and how they differ."""

    now: NightValue
    was: NightValue | None
    texts: tuple[tuple[str, str], ...]
    change: Change | None

    @property
    def interval(self) -> str:
        """Of the later night."""
        return self.texts[1][1]

    @property
    def rank(self) -> tuple[bool, float]:
        """Pairs of a smaller rank differ more surely."""
        if self.change is None:
            return True, 0.0
        return not self.change.said.shown, -self.change.strength


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
        rows.append((night, cells, lead(night)))
    title = nights[-1].title if nights else "No nights"
    return {
        "title": title,
        "rows": rows,
        "level": level_of(nights[-1]) if nights else "",
        "sure": any(interval for _, cells, _ in rows for _, interval, _ in cells),
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
        "level": level_of(series.last),
        "sure": any(cell[1] for _, cells in rows for cell in cells if cell is not None),
    }


def beside_content(first: Night, second: Night) -> dict[str, Any]:
    """Two nights side by side, and how the second differs from the first.

    The differences are those of `from_earlier`, so that a night says the same of the one before it
    here and on its own page. There are none where conventions differ.
    """
    unlike = differing(second, first)
    was = {(v.score, v.by, v.slice, v.measure): v for v in first.values}
    confidence = confidence_of(second)
    known = {measure for measure in {v.measure for v in second.values} if _is_known(measure)}
    values = [value for value in second.values if value.measure in known]
    found = {
        (one.score, one.by, one.slice, one.measure): one
        for one in from_earlier("beside", values, first.values, confidence)
        if not unlike
    }
    whole = [value for value in second.values if value.slice == "all"]
    parts = [value for value in second.values if value.slice != "all"]
    order = {measure: place for place, measure in enumerate(second.measures)}
    whole.sort(key=lambda value: order.get(value.measure, len(order)))
    tables = [("All rows", _pairs(whole, was, found, confidence), 0)]
    for measure in second.measures:
        pairs = _pairs([v for v in parts if v.measure == measure], was, found, confidence)
        pairs.sort(key=lambda pair: pair.rank)
        if pairs:
            tables.append((f"{measure} by slice", pairs[:MOST_SLICES], len(pairs[MOST_SLICES:])))
    return {
        "title": second.title,
        "first": first,
        "second": second,
        "unlike": unlike,
        "unsound": [night.date for night in (first, second) if night.status == "data_quality"],
        "tables": tables,
        "level": level_of(second),
    }


def _headline(value: NightValue, measure: str) -> bool:
    return value.slice == "all" and value.measure == measure


def _is_known(measure: str) -> bool:
    """Whether it can be told which way is better; another version may have kept others."""
    try:
        measure_of(measure)
    except FastRankEvalError:
        return False
    return True


def _pairs(
    values: Sequence[NightValue],
    was: Mapping[_Of, NightValue],
    found: Mapping[_Of, NightDifference],
    confidence: float,
) -> list[Pair]:
    pairs = []
    digits = {
        measure: digits_of(value for value in values if value.measure == measure)
        for measure in {value.measure for value in values}
    }
    for now in values:
        of = now.score, now.by, now.slice, now.measure
        old, to = was.get(of), digits[now.measure]
        texts = tuple(
            ("–", "") if v is None else (amount(v.value, to), interval(v.ci_low, v.ci_high, to))
            for v in (old, now)
        )
        change = Change.of(found[of], confidence, to) if of in found else None
        pairs.append(Pair(now, old, texts, change))
    return pairs
