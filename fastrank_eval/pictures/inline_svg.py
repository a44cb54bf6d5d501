"""A figure as an element of a page: no style of its own, colours that follow the page's theme."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fastrank_eval.cell_texts import printable

__all__ = ["inline_svg"]

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
#: Nothing of when, where and by which version a figure was made.
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_LEFT_OUT = {"font-family", "font-style", "font-weight"}
_DEFAULTS = {("stroke-linecap", "butt"), ("opacity", "1"), ("stroke-opacity", "1")}


def inline_svg(
    figure: Any,
    name: str,
    label: str,
    colours: Mapping[str, str],
    marks: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Give a figure as an ``<svg>`` element that a page without inline styles may hold.

    Styles become attributes, since a policy that allows a page's styles by their hash (CSP) allows
    none in elements. Text is text, in the font of the page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn in the style of `styled`.
    name : str
        Unique in the page; ids of the figure begin with it.
    label : str
        What the figure shows, in words.
    colours : mapping of str to str
        What takes the place of each colour: ``"var(--model-1)"`` of ``"#0072b2"``. Others stay.
    marks : mapping of str to sequence of str, optional
        What the pointer is told at each mark of the line with this gid.

    Returns
    -------
    str
    """
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata=_NO_METADATA)
    root = ET.fromstring(out.getvalue())  # noqa: S314 (it is matplotlib's)
    _prune(root)
    themed = {key.lower(): value for key, value in colours.items()}
    told = marks or {}
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        if element.get("id") in told:
            _tell(element, told[element.get("id", "")])
        element.attrib = dict(_attributes(element, name, themed))
        element.tail = None
        if element.tag not in ("text", "title"):
            element.text = None
    root.attrib = {
        "viewBox": root.get("viewBox", ""),
        "role": "img",
        "aria-label": printable(label),
        "stroke-linejoin": "round",
    }
    return ET.tostring(root, encoding="unicode", short_empty_elements=False)


def _prune(root: ET.Element) -> None:
    """Take out metadata and styles, and what is empty then."""
    for child in list(root):
        _prune(child)
        tag = child.tag.removeprefix(_SVG)
        if tag in ("metadata", "style") or (tag in ("defs", "g") and not len(child)):
            root.remove(child)


def _tell(line: ET.Element, texts: Sequence[str]) -> None:
    for use, text in zip(line.iter(f"{_SVG}use"), texts, strict=True):
        ET.SubElement(use, "title").text = printable(text)


def _attributes(
    element: ET.Element, name: str, colours: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for key, value in element.attrib.items():
        if key == "style":
            yield from _declared(value, colours)
        elif key == "id":
            if element.tag not in ("g", "text"):
                yield key, f"{name}-{value}"
        elif key == _LINK:
            yield "href", f"#{name}-{value.removeprefix('#')}"
        elif key == "clip-path":
            yield key, value.replace("url(#", f"url(#{name}-")
        elif key == "d":
            yield key, " ".join(re.sub(r"(\d\.\d\d)\d+", r"\1", value).split())
        elif key != "transform" or not value.startswith("rotate(-0 "):
            yield key, value


def _declared(style: str, colours: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The declarations of a style, as attributes."""
    for declaration in style.lower().split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if not key or key in _LEFT_OUT or (key, value) in _DEFAULTS:
            continue
        if key == "font":
            yield "font-size", re.findall(r"[0-9.]+px", value)[0]
        else:
            yield key, _COLOUR.sub(lambda found: colours.get(found[0], found[0]), value)
