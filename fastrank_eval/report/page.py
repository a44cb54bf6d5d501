"""A night as one self-contained page: opens offline, asks for nothing, runs only what it brings."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fastrank_eval.cell_texts import printable
from fastrank_eval.errors import ArgumentError
from fastrank_eval.output import atomic_path
from fastrank_eval.report.lines import NightSeries
from fastrank_eval.report.links import Links
from fastrank_eval.report.nights import Night
from fastrank_eval.report.page_content import night_content
from fastrank_eval.report.wording import (
    STATUSES,
    ago,
    ago_exactly,
    amount,
    caution,
    convention,
    count,
    how_sure,
    nights_text,
    outcome_of,
    share,
)

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["check_libraries", "page", "policy", "render", "write_page"]


def page(nights: Sequence[Night], *, note: str = "", links: Links | None = None) -> str:
    """Give the page of a night.

    Parameters
    ----------
    nights : sequence of Night
        The latest is the one shown; the others make its trends.
    note : str
        What else stands at the foot, such as where the history lies.
    links : Links, optional
        Where the other pages are.

    Returns
    -------
    str
        HTML without any request; every text of the nights is escaped.

    Raises
    ------
    ValueError
        If there is no night.
    ArgumentError
        If a library that draws pages is missing.
    """
    check_libraries()
    series = NightSeries(nights)
    return render("night.html", **night_content(series), note=note, links=links)


def write_page(
    nights: Sequence[Night],
    path: str | os.PathLike[str],
    *,
    note: str = "",
    overwrite: bool = True,
    links: Links | None = None,
) -> None:
    """Write the page of a night to a file, whole or not at all.

    Parameters
    ----------
    nights : sequence of Night
        As of `page`.
    path : str or path
    note : str
        As of `page`.
    overwrite : bool
        Whether a file that is there may be replaced.
    links : Links, optional
        As of `page`.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    text = page(nights, note=note, links=links)
    with atomic_path(path, overwrite=overwrite) as part:
        part.write_text(text, encoding="utf-8")


def check_libraries() -> None:
    """Refuse to draw a page without the libraries for it.

    Raises
    ------
    ArgumentError
        If one is not installed.
    """
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ArgumentError(
            f"pages need {' and '.join(missing)}, not installed: "
            "pip install 'fastrank_eval[report]'."
        )


def render(template: str, *, forms: str = "'none'", **content: object) -> str:
    """Fill a template.

    Parameters
    ----------
    template : str
    forms : str
        As of `policy`.
    **content : object
        Texts are escaped, and made printable.
    """
    from markupsafe import Markup

    style, script = _texts()
    filled = (
        _environment()
        .get_template(template)
        .render(
            policy=policy(forms),
            style=Markup(style),  # noqa: S704 (ours)
            script=Markup(script),  # noqa: S704 (ours)
            **content,
        )
    )
    return _tight(filled) + "\n"


@cache
def policy(forms: str = "'none'") -> str:
    """What a page may load and run (CSP): its own style and script, known by their hash.

    Parameters
    ----------
    forms : str
        Where forms may lead.
    """
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in _texts()
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        f"base-uri 'none'; form-action {forms}"
    )


@cache
def _texts() -> tuple[str, str]:
    """Style and script, as they stand in a page."""
    folder = files("fastrank_eval.report") / "templates"
    style, script = (
        _tight((folder / name).read_text("utf-8")) for name in ("style.css", "tables.js")
    )
    return style, script


def _tight(text: str) -> str:
    """Text without empty lines and blanks around lines; tight text stays as it is."""
    return "\n".join(line for line in map(str.strip, text.splitlines()) if line)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from fastrank_eval.report.charts import spark

    made = Environment(
        loader=PackageLoader("fastrank_eval.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    made.globals.update(
        ago=ago,
        ago_exactly=ago_exactly,
        caution=caution,
        convention=convention,
        count=count,
        drift=_drift,
        how_sure=how_sure,
        key=_key,
        nights_text=nights_text,
        outcome_of=outcome_of,
        share=share,
        spark=spark,
        statuses=STATUSES,
    )
    return made


def _key(number: float) -> str:
    """What a table is sorted by; nothing where there is no number."""
    return f"{number:.6g}" if math.isfinite(number) else ""


def _drift(deviations: float) -> str:
    return f"drift {amount(deviations, 1, sign=True)}" if math.isfinite(deviations) else ""
