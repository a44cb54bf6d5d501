"""HTML to its elements, as browsers see them, for tests of pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "hr", "img"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parent: Element | None
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def all_text(self) -> str:
        return self.text + "".join(child.all_text() for child in self.children)

    def within(self, tag: str) -> bool:
        return self.parent is not None and (self.parent.tag == tag or self.parent.within(tag))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[Element] = []
        self.open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, attrs)
        parent = self.open[-1] if self.open else None
        element = Element(tag, {name: value or "" for name, value in attrs}, parent)
        if parent is not None:
            parent.children.append(element)
        self.found.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> inside <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1].text += data


def elements(html: str) -> list[Element]:
    """Every element, in order; fails where tags are not closed in order."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open, [element.tag for element in reader.open]
    return reader.found


#: Elements whose texts stand in the line of the element around them.
_INLINE = {"a", "b", "button", "code", "em", "i", "output", "small", "span", "strong", "td", "th"}


def told_by(html: str) -> list[str]:
    """What a page says: a line a heading, paragraph or row, and the names of pictures."""
    (body,) = (one for one in elements(html) if one.tag == "body")
    return [line for line in _lines(body) if line]


def _lines(one: Element) -> list[str]:
    if one.tag in ("script", "style"):
        return []
    if one.tag == "svg":
        return [one.attributes.get("aria-label", "")]
    if one.tag == "tr":
        return [" | ".join(" ".join(cell.all_text().split()) for cell in one.children)]
    if all(child.tag in _INLINE and not child.children for child in one.children):
        return [" ".join(one.all_text().split())]
    return [" ".join(one.text.split()), *(line for each in one.children for line in _lines(each))]
