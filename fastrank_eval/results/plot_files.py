"""Write plots as PNG, SVG and HTML."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastrank_eval._lib.errors import ArgumentError, UndefinedError
from fastrank_eval._lib.files import atomic_path, check_suffix, check_writable
from fastrank_eval.results.report import Lines, Picture, Report, Table, detail_text, printable
from fastrank_eval.results.report import html as to_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fastrank_eval.engine.records import Meta
    from fastrank_eval.results.plots import Drawable

#: No date, host or version in the file: equal figures give equal files.
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
#: Suffixes of picture files.
SUFFIXES = (".png", ".svg", ".html")
DPI = 150
_FILE_METADATA: dict[str, dict[str, None]] = {".png": {"Software": None}, ".svg": _NO_METADATA}


def check_picture(
    path: str | os.PathLike[str] | None,
    argument: str = "path",
    suffixes: tuple[str, ...] = SUFFIXES,
) -> None:
    """Check that a picture can be drawn, before any work.

    Parameters
    ----------
    path : str or path or None
        None if no file is written.
    argument : str
        Name of the argument, for messages.
    suffixes : tuple of str
        The allowed suffixes.

    Raises
    ------
    OutputError
        If the suffix is unknown.
    ArgumentError
        If matplotlib is not installed.
    """
    if path is not None:
        check_suffix(argument, path, suffixes)
    if find_spec("matplotlib") is None:
        raise ArgumentError(
            "pictures need matplotlib, which is not installed: pip install 'fastrank_eval[plot]'."
        )


def curve_picture(
    curve: Drawable, title: str | None, path: str | os.PathLike[str] | None, overwrite: bool
) -> Figure:
    """Draw a curve, and write it to a file if there is a path.

    Parameters
    ----------
    curve : Drawable
    title : str or None
        By default the kind of the curve.
    path : str or path or None
        A file whose name ends in one of `SUFFIXES`.
    overwrite : bool

    Raises
    ------
    UndefinedError
        If no model has a curve.
    ArgumentError, OutputError
        As `forest_picture` does.
    """

    def draw() -> Figure:
        if len(curve.undefined) == len(curve.scores):
            reasons = ", ".join(sorted(set(curve.undefined.values()))) or "no rows"
            raise UndefinedError(
                f"there is no {curve.kind} curve to draw: it is undefined for every model "
                f"({reasons}); it needs rows of both classes."
            )
        from fastrank_eval.results.plots import figure_of

        return figure_of(curve, title)

    def page(figure: Figure) -> str:
        from fastrank_eval.results.plots import caption_of, title_of

        return _page(curve, _svg(figure), title_of(curve, title), caption_of(curve))

    return _picture(draw, path, overwrite, page)


def save_figure(figure: Any, target: Any, suffix: str) -> None:
    """Write the figure without the empty space around it."""
    from fastrank_eval.results.plots import styled

    with styled():
        figure.savefig(
            target,
            format=suffix[1:],
            dpi=DPI,
            bbox_inches="tight",
            pad_inches=0.15,
            metadata=_FILE_METADATA[suffix],
        )


def forest_picture(
    values: Sequence[Any],
    models: Sequence[str],
    baseline: str | None,
    meta: Meta,
    title: str | None,
    path: str | os.PathLike[str] | None,
    overwrite: bool,
) -> Figure:
    """Draw values or differences, and write them to a file if there is a path.

    Parameters
    ----------
    values, models, baseline, meta, title
        As in `plots.draw_forest`.
    path : str or path or None
        A file whose name ends in ``.png`` or ``.svg``.
    overwrite : bool

    Raises
    ------
    ArgumentError
        If matplotlib is not installed.
    OutputError
        If the file cannot be written, or its name has another ending.
    """

    def draw() -> Figure:
        from fastrank_eval.results.plots import draw_forest

        return draw_forest(values, models, baseline, meta, title)

    return _picture(draw, path, overwrite)


def _picture(
    draw: Callable[[], Figure],
    path: str | os.PathLike[str] | None,
    overwrite: bool,
    page: Callable[[Figure], str] | None = None,
) -> Figure:
    """Draw in our style, and write to a file; HTML if there is a `page`."""
    check_picture(path, suffixes=SUFFIXES if page else SUFFIXES[:2])
    if path is not None:
        check_writable(path, overwrite)
    from fastrank_eval.results.plots import styled

    with styled():
        figure = draw()
    if path is not None:
        suffix = Path(path).suffix.lower()
        with atomic_path(path, overwrite=overwrite) as part:
            if suffix == ".html" and page:
                part.write_text(page(figure), encoding="utf-8")
            else:
                save_figure(figure, part, suffix)
    return figure


def _svg(figure: Any) -> str:
    """Convert the figure to an element of a page."""
    out = io.StringIO()
    save_figure(figure, out, ".svg")
    text = out.getvalue()
    return text[text.index("<svg") :]


def _page(curve: Drawable, svg: str, title: str, caption: str) -> str:
    """Write a page: the picture, the values of models, the conventions."""
    names = list(dict.fromkeys(name for of in curve.values.values() for name in of)) or ["curve"]
    rows = []
    for score in curve.scores:
        of, reason = curve.values.get(score, {}), curve.undefined.get(score, "")
        cells = [detail_text(of[name]) if name in of else reason for name in names]
        rows.append([printable(score), *map(printable, cells)])
    conventions = {**curve.choices, **curve.meta.conventions}
    conventions.pop("measures", None)
    texts = [printable(f"{name}={value}") for name, value in conventions.items()]
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
    table = Table(["model", *map(printable, names)], rows)
    picture = Picture(svg, printable(caption))
    return to_html(Report(printable(title), [picture, table, Lines(texts, "conventions")]))
