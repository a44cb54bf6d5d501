"""Write a night of several labels as plain text and Markdown."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.summary_files import (
    escaped,
    label_code,
    night_lines,
    night_markdown,
    night_texts,
    page_link,
    status_word,
)
from fastrank_eval.apps.nightly.text import STATUSES
from fastrank_eval.results.report import printable

#: Kinds of findings that do not depend on labels.
_OF_ROWS = ("scores", "drift")


def with_equal_findings(nights: Sequence[Night]) -> list[Night]:
    """Make the findings of scores and columns equal that all labels have.

    They lose the numbers of measures, which each label has for itself.
    """
    of_rows = [
        [one.without_measure() if one.kind in _OF_ROWS else one for one in night.findings]
        for night in nights
    ]
    return [
        replace(
            night,
            findings=tuple(
                bare if all(bare in each for each in of_rows) else one
                for one, bare in zip(night.findings, own, strict=True)
            ),
        )
        for night, own in zip(nights, of_rows, strict=True)
    ]


def _shared_texts(nights: Sequence[Night]) -> dict[str, str]:
    """Map each text that several labels have to a line with these labels."""
    labels: dict[str, list[str]] = {}
    for night in nights:
        for text in dict.fromkeys(night_texts(night)):
            labels.setdefault(text, []).append(night.label)
    return {
        text: text if len(of) == len(nights) else f"{', '.join(of)}: {text}"
        for text, of in labels.items()
        if len(of) > 1
    }


def nights_lines(nights: Sequence[Night]) -> str:
    """Format the nights of all labels of one date as plain lines.

    In a report of one label, these are its `night_lines`.

    Parameters
    ----------
    nights : sequence of Night
        One for each label.
    """
    if not nights[0].label:
        return night_lines(nights[0])
    nights = with_equal_findings(nights)
    shared = _shared_texts(nights)
    statuses = ", ".join(f"{night.label} {status_word(night)}" for night in nights)
    lines = [f"{nights[0].date} {_worst_status(nights)}: {statuses}", *shared.values()]
    for night in nights:
        lines += night_lines(night, known=shared).splitlines()
    return "\n  ".join(map(printable, lines)) + "\n"


def nights_markdown(
    nights: Sequence[Night],
    pages: Sequence[str | None],
    index: str | None = None,
    statuses: Sequence[Mapping[dt.date, str]] | None = None,
) -> str:
    """Format the nights of all labels of one date as Markdown for chat.

    In a report of one label, this is its `night_markdown`.

    Parameters
    ----------
    nights : sequence of Night
        One for each label.
    pages : sequence of (str or None)
        The paths of their pages.
    index : str, optional
        The path of the page of all labels.
    statuses : sequence of mapping, optional
        The statuses of the nights before, as in `night_markdown`.
    """
    strips = statuses or [{} for _ in nights]
    if not nights[0].label:
        return night_markdown(nights[0], pages[0], strips[0])
    nights = with_equal_findings(nights)
    shared, first = _shared_texts(nights), nights[0]
    words = ", ".join(f"{label_code(night)} {status_word(night)}" for night in nights)
    title = f"{escaped(first.title)}, {first.date}: {_worst_status(nights)}"
    lines = [f"**{title}**{page_link(index)}", "", words, ""]
    lines += [f"* {escaped(text)}" for text in shared.values()]
    parts = ["\n".join(lines).rstrip("\n") + "\n"]
    parts += [
        night_markdown(night, page, strip, legend=night is nights[-1], known=shared)
        for night, page, strip in zip(nights, pages, strips, strict=True)
    ]
    return "\n".join(parts)


def _worst_status(nights: Sequence[Night]) -> str:
    return status_word(max(nights, key=lambda night: [*STATUSES].index(night.status)))
