"""A night in a few lines of Markdown, for chat."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fastrank_eval.cell_texts import printable
from fastrank_eval.report.lines import Line, Mover, NightSeries, movers
from fastrank_eval.report.nights import Night
from fastrank_eval.report.wording import STATUSES, ago, count, reasons, share

__all__ = ["markdown"]

_ADDRESS = re.compile(r"https?://[^\s<>]+")
_SIGNS = {"fine": "✅", "regression": "🔻", "data_quality": "⚠️"}
_OTHER = {"baseline": "the baseline"}
_MOST_MEASURES = 5
_MOST_MOVERS = 5


def markdown(nights: Sequence[Night], *, link: str = "") -> str:
    """Say in short what a night came to: status, headline numbers, what moved.

    Parameters
    ----------
    nights : sequence of Night
        The latest is the one that is meant.
    link : str
        Where its page is, told at the end.

    Returns
    -------
    str
        Names and reasons stand in code spans, so that nothing in them is markup or calls anyone.

    Raises
    ------
    ValueError
        If there is no night.
    """
    return "\n".join(_lines(NightSeries(nights), link)) + "\n"


def _lines(series: NightSeries, link: str) -> Iterator[str]:
    night = series.last
    word, _ = STATUSES.get(night.status, (code(night.status), ""))
    sign = _SIGNS.get(night.status, "❔")
    yield f"**{sign} {word}** {code(night.title)} {night.date}"
    quality = night.quality
    yield f"{count(quality.rows)} rows, {count(quality.groups)} groups, CTR {share(quality.ctr)}"
    yield from (f"- {code(reason)}" for reason in reasons(night))
    headline = series.headline()
    asked = night.measures[:_MOST_MEASURES]
    for measure in asked:
        lines = [line for line in headline if line.value.measure == measure]
        if lines:
            yield f"\n**{code(measure)}**"
            yield from map(_number, lines)
    if len(night.measures) > len(asked):
        yield f"\n{len(night.measures) - len(asked)} more measures are on the page."
    slices = [line for measure in night.measures for line in series.slices(measure)]
    moved = movers(slices, *(kind for kind in series.kinds if kind != "baseline"))
    moved = moved or movers(slices, "baseline")
    if moved:
        yield "\n**Moved most surely**"
        yield from map(_mover, moved[:_MOST_MOVERS])
    if link:
        yield f"\n<{link}>" if _ADDRESS.fullmatch(link) else f"\n{code(link)}"


def _number(line: Line) -> str:
    changes = [
        f"; {change.said.word} than {_OTHER.get(kind, ago(kind))}: {change.text}"
        for kind, change in line.changes.items()
        if change.said.shown
    ]
    return f"- {code(line.value.score)} {line.text} {line.interval}".rstrip() + "".join(changes)


def _mover(mover: Mover) -> str:
    value, change = mover.line.value, mover.change
    return (
        f"- {code(value.slice)} {code(value.score)} {change.said.word}: {code(value.measure)} "
        f"{change.text} {change.interval}".rstrip()
        + f" from {ago(change.difference.kind)}"
    )


def code(text: str) -> str:
    """Text in a code span that nothing inside it can end.

    Examples
    --------
    >>> print(code("slot=1"), code("a`b"))
    `slot=1` ``a`b``
    """
    text = printable(text) or " "
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
