"""A curve to a file: its format, and what must be there to draw it."""

from __future__ import annotations

import html
import io
import os
import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastrank_eval.errors import ArgumentError, UndefinedError
from fastrank_eval.output import check_suffix

if TYPE_CHECKING:
    from fastrank_eval.curves import Curve

__all__ = ["SUFFIXES", "check_picture", "draw_file"]

#: What the name of a picture may end in.
SUFFIXES = (".png", ".svg", ".html")
DPI = 150
# Nothing of when, where and by which version a picture was made: equal curves, equal files.
_NO_METADATA = {
    ".png": {"Software": None},
    ".svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
}
# For inline SVG, no script and no request: the page works from a disk, and for good.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:56rem;padding:0 1rem;"
    "color:#222;background:#fff}svg{max-width:100%;height:auto}figure{margin:0}"
    "table{border-collapse:collapse}td,th{padding:.2rem 1rem .2rem 0;text-align:left}"
    "td.n{text-align:right;font-variant-numeric:tabular-nums}details{margin-top:1rem}"
)


def check_picture(path: str | os.PathLike[str], argument: str = "path") -> None:
    """Refuse a picture that cannot be drawn, before the work for it.

    Parameters
    ----------
    path : str or path
    argument : str
        What names it.

    Raises
    ------
    OutputError
        If the name tells no format.
    ArgumentError
        If matplotlib is not installed.
    """
    check_suffix(argument, path, SUFFIXES)
    if find_spec("matplotlib") is None:
        raise ArgumentError(
            "pictures need matplotlib, which is not installed: pip install 'fastrank_eval[plot]'."
        )


def draw_file(curve: Curve, part: Path, shown: str, title: str | None = None) -> None:
    """Draw a curve to `part` in the format that the suffix of `shown` names.

    Parameters
    ----------
    curve : Curve
    part : Path
    shown : str
    title : str, optional
        By default what kind of curve it is.

    Raises
    ------
    UndefinedError
        If no model has a curve.
    """
    if len(curve.undefined) == len(curve.scores):
        reasons = ", ".join(sorted(set(curve.undefined.values()))) or "no rows"
        raise UndefinedError(
            f"there is no {curve.kind} curve to draw: it is undefined for every model ({reasons}); "
            "it needs rows of both classes."
        )
    from fastrank_eval.pictures.drawing import caption_of, figure_of, title_of
    from fastrank_eval.pictures.style import styled

    suffix = Path(shown).suffix.lower()
    with styled(), warnings.catch_warnings():
        # A sign of a column's name that the font lacks is drawn as a box, and no reason to stop.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = figure_of(curve, title)
        if suffix == ".html":
            page = _page(curve, _svg(figure), title_of(curve, title), caption_of(curve))
            part.write_text(page, encoding="utf-8")
        else:
            _save(figure, part, suffix)


def _save(figure: Any, where: Any, suffix: str) -> None:
    """Write the figure without the empty space around it."""
    figure.savefig(
        where,
        format=suffix[1:],
        dpi=DPI,
        bbox_inches="tight",
        pad_inches=0.15,
        metadata=_NO_METADATA[suffix],
    )


def _svg(figure: Any) -> str:
    """The figure as an element of a page."""
    out = io.StringIO()
    _save(figure, out, ".svg")
    text = out.getvalue()
    return text[text.index("<svg") :]


def _page(curve: Curve, svg: str, title: str, caption: str) -> str:
    from fastrank_eval.cell_texts import printable

    def safe(text: object) -> str:
        return html.escape(printable(str(text)))

    names = list(dict.fromkeys(name for of in curve.values.values() for name in of))
    head = "".join(f"<th>{safe(name)}</th>" for name in ("model", *names))
    rows = []
    for score in curve.scores:
        of = curve.values.get(score, {})
        reason = curve.undefined.get(score)
        cells = [f"{of[name]:.6g}" if name in of else reason or "" for name in names]
        numbers = "".join(f'<td class="n">{safe(cell)}</td>' for cell in cells)
        rows.append(f"<tr><td>{safe(score)}</td>{numbers or f'<td>{safe(reason)}</td>'}</tr>")
    told = {**curve.choices, **curve.meta.conventions}
    told.pop("measures", None)
    choices = "".join(
        f"<tr><td>{safe(name)}</td><td>{safe(value)}</td></tr>" for name, value in told.items()
    )
    svg = re.sub(r"<svg ", f'<svg role="img" aria-label="{safe(title)}" ', svg, count=1)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{safe(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<figure>\n{svg}\n<figcaption>{safe(caption)}</figcaption>\n</figure>\n"
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>{''.join(rows)}</tbody>\n</table>\n"
        f"<details><summary>Conventions</summary>\n<table><tbody>{choices}</tbody></table>\n"
        f"<p>fastrank_eval {safe(curve.meta.version)}</p></details>\n</body>\n</html>\n"
    )
