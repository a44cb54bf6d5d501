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

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.nightly import charts, quality, text
from fastrank_eval.apps.nightly.compare_nights import Series
from fastrank_eval.apps.nightly.documents import changes_of, document, key_of
from fastrank_eval.apps.nightly.night import KINDS, MOST_VALUES, NO_LABELS, CurveLine, Night
from fastrank_eval.apps.nightly.pages import Links
from fastrank_eval.apps.nightly.text import ago_exactly, digits_of
from fastrank_eval.results import report
from fastrank_eval.results.report import percent_text, printable

if TYPE_CHECKING:
    from jinja2 import Environment

#: The most rows of a table; larger pages open slowly.
MAX_SLICES = 500
_MAX_TRENDS = 8

_Row = Mapping[str, Any]


def rows_content(document: _Row, series: Series) -> dict[str, Any]:
    """Return what tables of the values of a document need.

    Parameters
    ----------
    document : dict
    series : Series
        Up to the night of the document.
    """
    models, last = document["models"], series.nights[-1]
    rows = {True: document["headline"], False: document["slices"]}
    periods = {
        name: {key_of(one): one for one in (*values, *document["period_slices"][name])}
        for name, values in document["periods"].items()
    }
    kinds = [
        kind
        for kind in (*KINDS, "other")
        if any(row.get(kind) is not None for of in rows.values() for row in of)
    ]
    return {
        "night": document,
        "series": series,
        "level": percent_text(document["confidence"]),
        "headline": sorted(rows[True], key=lambda row: document["measures"].index(row["measure"])),
        "kinds": kinds,
        "against": {kind: ago_exactly(kind, last) for kind in kinds},
        "keys": charts.keys(models),
        "model_index": lambda model: models.index(model) if model in models else len(models),
        "digits_of": cache(
            lambda measure, overall: digits_of(
                row for row in rows[overall] if row["measure"] == measure
            )
        ),
        "slices": [
            (measure, of[0]["name"], of[:MAX_SLICES], len(of[MAX_SLICES:]))
            for measure in document["measures"]
            if (of := [row for row in document["slices"] if row["measure"] == measure])
        ],
        "in_period": lambda name, row: periods[name].get(key_of(row)),
    }


def night_content(nights: Sequence[Night]) -> dict[str, Any]:
    """Return the values for the template of the last night."""
    series, told = Series(nights), document(nights[-1])
    names = {row["measure"]: row["name"] for row in told["headline"]}
    past = {name: series.of_models("all", name) for name in told["measures"][:_MAX_TRENDS]}
    return {
        **rows_content(told, series),
        "not_evaluated": {
            date: why for date, why in nights[-1].not_evaluated.items() if date > nights[-1].date
        },
        "trends": [
            (charts.trend(f"trend-{index}", names.get(measure, measure), nights, values), measure)
            for index, (measure, values) in enumerate(past.items())
        ],
        "past": past,
        "bare": [
            names.get(measure, measure)
            for measure, models in past.items()
            if not any(v and math.isfinite(v.ci_low) for values in models.values() for v in values)
        ],
        "edges": charts.edges(nights),
        "untrended": list(names.values())[_MAX_TRENDS:],
        "activity": charts.by_activity(told),
        "curves": [
            (chart, _labels(values))
            for index, (kind, values) in enumerate(told["curves"].items())
            if (chart := charts.curve(f"curve-{index}", kind, values, told["models"])) is not None
        ],
        "quality_charts": charts.rows_and_rates(nights),
    }


def _labels(curves: Sequence[CurveLine]) -> str:
    """Return the labels of curves that say more than the name of the model."""
    labels = [
        curve.label if curve.score in curve.label else f"{curve.score}: {curve.label}"
        for curve in curves
        if curve.label not in ("", curve.score)
    ]
    return "; ".join(labels)


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
    if not nights:
        raise ValueError("there is no night to show.")
    return render("night.html", **night_content(nights), note=note, links=links)


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
        optimized=False,  # a page is drawn once, and folding constants takes longer
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    # Templates call the functions of these files.
    environment.globals |= {
        **vars(report),
        **vars(quality),
        **vars(text),
        "intervals": lambda rows: sum(
            math.isfinite(row["ci_low"] + row["ci_high"]) for row in rows
        ),
        "is_shown": lambda row: any(
            text.tone(one["verdict"]) in text.CHANGES for one in changes_of(row).values()
        ),
        "key": lambda number: f"{number:.6g}" if math.isfinite(number) else "",
        "most_values": MOST_VALUES,
        "no_labels": NO_LABELS,
        "spark": charts.spark,
    }
    return environment
