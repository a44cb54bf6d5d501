"""Make the page of a night."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastrank_eval import MeasureValue
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.nightly import charts, label_delay, page_rows, quality, text
from fastrank_eval.apps.nightly.label_delay import label_delay_texts
from fastrank_eval.apps.nightly.night import MOST_VALUES, CurveLine, Night, key_of
from fastrank_eval.apps.nightly.page_rows import (
    MAX_SLICES,
    NightSeries,
    PageRow,
    TopChanges,
    activity_measure,
    activity_unit,
    failing_slices,
    ordered_drift,
    top_changes,
    values_by_activity,
)
from fastrank_eval.apps.nightly.pages import Links
from fastrank_eval.apps.nightly.periods import composition_parts
from fastrank_eval.apps.nightly.quality import by_measure
from fastrank_eval.apps.nightly.reproduce import next_steps
from fastrank_eval.apps.nightly.text import (
    VerdictText,
    capped,
    confidence_text,
    gate_texts,
    meaning,
    period_nights,
    sentences,
)
from fastrank_eval.results import report
from fastrank_eval.results.gates import ALL
from fastrank_eval.results.report import amount, printable

if TYPE_CHECKING:
    from jinja2 import Environment

_MAX_CHANGES = 6
_MAX_TRENDS = 8
_MAX_REASONS = 6
#: The most cards of findings on all rows, and of failing slices.
_MAX_CARDS = 4
_MAX_FAILING = 12
#: The most rows of drift above the headline.
_MAX_DRIFT_CHANGES = 10
_MARKS = {
    "gate": "gate failed",
    "scores": "too few distinct scores",
    "drift": "drifted",
    "change": "changed",
    "alarm": "alarm",
}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SECTIONS = (
    ("drift", "Drift"),
    ("next", "Next steps"),
    ("headline", "Headline numbers"),
    ("changes", "What changed most"),
    ("trends", "Trends"),
    ("calibration", "Calibration by slice"),
    ("slices", "Slices"),
    ("curves", "Curves"),
    ("quality", "Data quality"),
    ("gates", "Gates"),
    ("made", "How it was made"),
)


def night_content(series: NightSeries) -> dict[str, Any]:
    """Return the values for the template of a night.

    Parameters
    ----------
    series : NightSeries

    Returns
    -------
    dict
    """
    night = series.last
    headline, failing, steps = series.headline(), failing_slices(series), next_steps(night)
    drift_rows = ordered_drift(night)
    drift_keys = {(one.score, one.slice) for one in night.findings if one.kind == "drift"}
    drift_changes = [one for one in drift_rows if (one.name, one.slice) in drift_keys]
    optional = {"next": steps, "drift": drift_changes, "calibration": night.calibration}
    slices = [(name, series.slices(name)) for name in night.measures]
    active = values_by_activity(night.values, activity_measure(night.measures))
    past = {name: series.of_models("all", name) for name in night.measures[:_MAX_TRENDS]}
    trends = [
        (charts.trend(f"trend-{index}", night.name_of(measure), series.nights, values), measure)
        for index, (measure, values) in enumerate(past.items())
    ]
    curves = [
        (chart, _labels(values))
        for index, (kind, values) in enumerate(night.curves.items())
        if (chart := charts.curve(f"curve-{index}", kind, values, night.models)) is not None
    ]
    activity = [
        (
            charts.activity(
                f"activity-{index}", _activity_title(night, by, active), values, night.models
            ),
            values,
        )
        for index, (by, values) in enumerate(active.items())
    ]
    return {
        "night": night,
        "series": series,
        "weekday": _DAYS[night.date.weekday()],
        "level": confidence_text(night),
        "sentences": sentences(night) or [meaning(night)],
        "gate_texts": [*label_delay_texts(night), *capped(gate_texts(night), _MAX_REASONS)],
        "sections": [
            *([("failing", "Failing slices")] if failing else []),
            *(each for each in _SECTIONS if optional.get(each[0], True)),
        ],
        "steps": steps,
        "compositions": {
            (m.kind, m.score, m.measure): composition_parts(m) for m in night.compositions
        },
        "kinds": series.kinds,
        "headline": headline,
        "cards": _cards(series, headline),
        "failing": failing[:_MAX_FAILING],
        "more_failing": len(failing[_MAX_FAILING:]),
        "marks": _marks(night),
        "change_boxes": _change_boxes(series),
        "periods": _periods(series),
        "keys": charts.keys(night.models),
        "trends": trends,
        "past": past,
        "bare": [night.name_of(name) for name in _without_intervals(past)],
        "edges": charts.edges(series.nights),
        "untrended": [night.name_of(name) for name in night.measures[_MAX_TRENDS:]],
        "slices": [
            (night.name_of(measure), rows[:MAX_SLICES], len(rows[MAX_SLICES:]))
            for measure, rows in slices
            if rows
        ],
        "activity": activity,
        "curves": curves,
        "quality_charts": charts.rows_and_rates(series.nights),
        "drift_rows": drift_rows,
        "drift_changes": drift_changes,
        "max_drift_changes": _MAX_DRIFT_CHANGES,
        "calibration": by_measure(night),
    }


#: Words of verdicts on drift, and their tones.
_DRIFT_VERDICTS = {
    "same": VerdictText("little change", "none"),
    "changed": VerdictText("changed", "shift"),
    "failed": VerdictText("drifted", "bad"),
    "not judged": VerdictText("not judged", "unknown"),
}


def _marks(night: Night) -> Mapping[str, str]:
    """Return the words of findings; a gate may fail, but not yet the night."""
    return {**_MARKS, "gate": "fails so far"} if night.status == "provisional" else _MARKS


def _cards(series: NightSeries, headline: Sequence[PageRow]) -> list[tuple[PageRow, str]]:
    """Return the cards of headline values and findings, with marks.

    Slices that fail have cards of their own.
    """
    night = series.last
    marks: dict[tuple[str, str, str], str] = {}
    for one in night.findings:
        if one.condition and one.slice not in ("", ALL):
            continue
        # An alarm of an earlier night does not fail this one.
        kind = "change" if one.kind == "alarm" and not one.condition else one.kind
        mark = _marks(night).get(kind, "")
        marks.setdefault(key_of(one), mark)
    first = [row for row in headline if row.value.measure == night.measures[0]]
    cards = {key_of(row.value): row for row in first}
    for key in list(marks):
        row = series.row(key)
        if key not in cards and row is not None and len(cards) < len(first) + _MAX_CARDS:
            cards[key] = row
    return [(row, marks.get(key, "")) for key, row in cards.items()]


def _change_boxes(series: NightSeries) -> list[tuple[str, list[TopChanges], int]]:
    """Return the top changes of each box, and the number of others."""
    changes = top_changes(series.last)
    boxes = []
    for box in ("since", "baseline"):
        if any((kind == "baseline") == (box == "baseline") for kind in series.kinds):
            own = [m for m in changes if (m.difference.kind == "baseline") == (box == "baseline")]
            boxes.append((box, own[:_MAX_CHANGES], len(own[_MAX_CHANGES:])))
    return boxes


def _without_intervals(
    past: Mapping[str, Mapping[str, Sequence[MeasureValue | None]]],
) -> list[str]:
    """Return the measures without intervals, whose trends have no band."""
    return [
        measure
        for measure, models in past.items()
        if not any(v and math.isfinite(v.ci_low) for values in models.values() for v in values)
    ]


def _activity_title(night: Night, by: str, active: Mapping[str, Sequence[MeasureValue]]) -> str:
    """Return a title, with the slicing if several count the same unit."""
    first = active[by][0]
    unit = activity_unit(first.slice)
    same_unit = [each for each, values in active.items() if activity_unit(values[0].slice) == unit]
    title = f"{night.name_of(first.measure)} by {unit} of the group"
    return f"{title}, {by}" if len(same_unit) > 1 else title


def _labels(curves: Sequence[CurveLine]) -> str:
    """Return the labels of curves that say more than the name of the model."""
    labels = [
        curve.label if curve.score in curve.label else f"{curve.score}: {curve.label}"
        for curve in curves
        if curve.label not in ("", curve.score)
    ]
    return "; ".join(labels)


def _periods(
    series: NightSeries,
) -> tuple[
    list[tuple[str, str]],
    list[tuple[PageRow, list[MeasureValue | None]]],
    list[tuple[MeasureValue, list[MeasureValue | None]]],
]:
    """Return periods, their values of headline rows and of slices."""
    night = series.last
    values_by_period: list[dict[tuple[str, str, str], MeasureValue]] = [
        {key_of(value): value for value in values} for values in night.periods.values()
    ]
    first = {key: value for by in reversed(values_by_period) for key, value in by.items()}

    def of_periods(value: MeasureValue) -> list[MeasureValue | None]:
        return [by.get(key_of(value)) for by in values_by_period]

    keys = dict.fromkeys(key for by in values_by_period for key in by)
    in_slices = [first[key] for key in keys if key[1] != ALL and key[2] in night.measures[:1]]
    return (
        [(name, period_nights(night, name)) for name in night.periods],
        [(row, of_periods(row.value)) for row in series.headline() if key_of(row.value) in keys],
        [(value, of_periods(value)) for value in in_slices[:MAX_SLICES]],
    )


def page(nights: Sequence[Night], *, note: str = "", links: Links | None = None) -> str:
    """Return the page of a night.

    Parameters
    ----------
    nights : sequence of Night
        The page shows the latest; the others are for trends.
    note : str
        Text at the foot, such as the path of the history.
    links : Links, optional
        Addresses of the other pages.

    Returns
    -------
    str
        HTML that loads no other file. Every text of the nights is escaped.

    Raises
    ------
    ValueError
        If there is no night.
    ArgumentError
        If a library for pages is missing.
    """
    check_libraries()
    series = NightSeries(nights)
    return render("night.html", **night_content(series), note=note, links=links)


def check_libraries(needed: str = "pages need", extra: str = "report", *names: str) -> None:
    """Raise unless the libraries for pages, or others, are installed.

    Raises
    ------
    ArgumentError
    """
    missing = [name for name in names or ("jinja2",) if find_spec(name) is None]
    if missing:
        raise ArgumentError(
            f"{needed} {', '.join(missing)}, not installed: pip install 'fastrank_eval[{extra}]'."
        )


def render(template: str, *, forms: str = "'none'", **content: object) -> str:
    """Fill a template.

    Parameters
    ----------
    template : str
    forms : str
        As in `policy`.
    **content : object
        Values of the template. Texts are escaped and made printable.
    """
    from markupsafe import Markup

    style, script = _style_and_script()
    html = (
        _environment()
        .get_template(template)
        .render(
            policy=policy(forms),
            style=Markup(style),  # noqa: S704 (ours)
            script=Markup(script),  # noqa: S704 (ours)
            **content,
        )
    )
    return _compact(html) + "\n"


@cache
def policy(forms: str = "'none'") -> str:
    """Return the content security policy: own style and script only.

    Parameters
    ----------
    forms : str
        Allowed targets of forms.
    """
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in _style_and_script()
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        f"base-uri 'none'; form-action {forms}"
    )


@cache
def _style_and_script() -> tuple[str, str]:
    """Return the style and the script of a page."""
    folder, common = (
        files("fastrank_eval.apps.nightly") / "templates",
        files("fastrank_eval.results"),
    )
    style = (common / "page.css").read_text("utf-8") + (folder / "style.css").read_text("utf-8")
    return _compact(style), _compact((folder / "tables.js").read_text("utf-8"))


def _compact(text: str) -> str:
    """Remove empty lines and blanks around lines."""
    return "\n".join(line for line in map(str.strip, text.splitlines()) if line)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("fastrank_eval.apps.nightly", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    # Templates call the functions of these files.
    environment.globals |= {
        **vars(report),
        **vars(quality),
        **vars(page_rows),
        **vars(label_delay),
        **vars(text),
        "drift": _drift,
        "drift_verdicts": _DRIFT_VERDICTS,
        "most_values": MOST_VALUES,
        "key": _sort_key,
        "spark": charts.spark,
        "strip_text": charts.STRIP_TEXT,
    }
    return environment


def _sort_key(number: float) -> str:
    """Return the sort key of a cell; empty without a number."""
    return f"{number:.6g}" if math.isfinite(number) else ""


def _drift(deviations: float) -> str:
    return f"drift {amount(deviations, 1, sign=True)}" if math.isfinite(deviations) else ""
