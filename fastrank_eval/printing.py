"""A result for people: plain text, markdown and the terminal, from the same cells."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from fastrank_eval.uncertainty import FEW_GROUPS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fastrank_eval.measure_value import MeasureValue
    from fastrank_eval.result import Result

__all__ = ["markdown", "plain", "terminal"]

_GAP = 2  # blanks between columns
_NARROW, _REASON = 12, 13  # least widths of names and of reasons ("few_positives")


def plain(result: Result) -> str:
    """Lay a result out as text without markup.

    Parameters
    ----------
    result : Result

    Returns
    -------
    str
        One line a score, slice and measure; then size and speed; then the conventions.
    """
    table = _table(result)
    lines = [[cell.replace("\n", ", ") for cell in row] for row in [table.header, *table.rows]]
    widths = _widths(lines)
    body = [
        (" " * _GAP)
        .join(
            cell.ljust(wide) if i < table.names else cell.rjust(wide)
            for i, (cell, wide) in enumerate(zip(line, widths, strict=True))
        )
        .rstrip()
        for line in lines
    ]
    size, conventions, *details = _footer(result)
    return "\n".join([*body, *filter(None, (*details, size, conventions))])


def markdown(result: Result) -> str:
    """Lay a result out as a markdown table.

    Parameters
    ----------
    result : Result

    Returns
    -------
    str
        Names that come from data stand in code spans, so that nothing in them is markup.
    """
    table = _table(result)
    rule = [" --- " if i < table.names else " ---: " for i in range(len(table.header))]
    lines = [_markdown_row(table.header), f"|{'|'.join(rule)}|"]
    for row in table.rows:
        names, numbers = row[: table.names], row[table.names :]
        cells = [*map(_code, names), *(cell.replace("\n", ", ") for cell in numbers)]
        lines.append(_markdown_row(cells))
    size, conventions, *details = _footer(result)
    size = "  \n".join([*map(_code, details), size])
    return "\n".join([*lines, "", f"{size}  ", _code(conventions)]) + "\n"


def terminal(result: Result, room: int) -> Iterator[RenderableType]:
    """Lay a result out for a terminal.

    Parameters
    ----------
    result : Result
    room : int
        Columns of the terminal, at least 1. Where they are few, group totals are left to the
        footer, intervals stand as a distance under their value, and names and reasons are folded;
        no digit is ever cut off.

    Yields
    ------
    rich renderable
        A titled table a score; size and speed; conventions.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    for totals, beside in ((True, True), (False, True), (False, False)):
        content = _table(result, totals, beside)
        _, *widths = _widths([content.header, *content.rows])
        if sum(widths) + _GAP * len(widths) <= room:
            break
    header = content.header[1:]
    dropped = header.index("dropped")
    # The name and the reasons share what the numbers leave, and are folded into it.
    left = room - _GAP * len(widths) - sum(widths) + widths[0] + widths[dropped]
    narrow, reason = min(_NARROW, widths[0]), min(_REASON, widths[dropped])
    widths[0] = max(narrow, min(widths[0], left - reason))
    widths[dropped] = max(reason, min(widths[dropped], left - widths[0]))
    for score, section in groupby(content.rows, key=lambda row: row[0]):
        yield Text(score, style="bold cyan", overflow="fold")
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for i, title in enumerate(header):
            table.add_column(
                Text(title),
                justify="left" if i < content.names - 1 else "right",
                overflow="fold",
                width=widths[i],
                style="bold" if title.startswith("value") else "",
            )
        for row in section:
            table.add_row(*map(Text, row[1:]))
        yield table
        yield Text()
    size, conventions, *details = _footer(result)
    for line in details:
        yield Text(line)
    yield Text(size)
    yield Text(conventions, style="dim")


@dataclass(frozen=True)
class _Cells:
    """The printed table; its first `names` columns hold names, the others numbers."""

    header: list[str]
    names: int
    rows: list[list[str]]


def _table(result: Result, totals: bool = True, beside: bool = True) -> _Cells:
    """Lay cells out: with totals of groups or without; intervals beside values or under them."""
    intervals = [_interval(v) for v in result.values]
    known = any(intervals)
    level = _level(result) if known else ""
    slices = any(v.slice != "all" for v in result.values)
    names = ["score", *["slice"] * slices, "measure"]
    rows = [
        [
            printable(v.score),
            *[printable(v.slice)] * slices,
            printable(v.measure) + _aggregate(v.aggregate),
            _number(v.value, v.aggregate) + (f"\n{_reach(v)}" if interval and not beside else ""),
            *[interval or "n/a"] * (known and beside),
            f"{v.groups_used:,}" + f"/{v.groups:,}" * totals,
            "\n".join(f"{count:,} {reason}" for reason, count in v.dropped.items() if count)
            or "none",
            _share(v.rows_share),
            _share(v.positives_share),
        ]
        for v, interval in zip(result.values, intervals, strict=True)
    ]
    used = "groups used" if totals else "groups\nused"
    value = ["value", level] if known and beside else [f"value\n{level}" if known else "value"]
    return _Cells([*names, *value, used, "dropped", "rows", "positives"], len(names), rows)


def _footer(result: Result) -> tuple[str, ...]:
    """Build the lines under the table: size and speed; conventions; details of values."""
    meta = result.meta
    if meta.groups == 0:
        rows = _count(meta.rows, "row") if meta.rows else "no rows"
        size = f"{rows}, no groups: no value is defined"
    else:
        size = (
            f"{_count(meta.rows, 'row')}, {_count(meta.groups, 'group')}, "
            f"{meta.seconds:.3g} s, {_speed(meta.rows, meta.seconds)}{_first(meta.compiled)}"
        )
    conventions = [
        f"{name}={_convention(value)}"
        for name, value in meta.conventions.items()
        if value is not None and name != "measures"
    ]
    chosen = meta.conventions.get("measures")
    if isinstance(chosen, Mapping):
        conventions += _of_measures(chosen)
    return size, printable(", ".join(conventions)), *_details(result), *_cautions(result)


def _details(result: Result) -> Iterator[str]:
    """What else is known of values, a line for those of a model that share it."""
    lines: dict[tuple[str, str], list[str]] = {}
    for v in result.values:
        if v.details:
            known = ", ".join(f"{name} {_amount(number)}" for name, number in v.details.items())
            lines.setdefault((v.score, known), []).append(v.measure)
    for (score, known), measures in lines.items():
        model = f" of {score}" if len(result.scores) > 1 else ""
        yield printable(f"{', '.join(measures)}{model}: {known}")


def _cautions(result: Result) -> Iterator[str]:
    """Tell of intervals that are rough, and of errors that one group does not tell."""
    few = [v for v in result.values if v.caution == "few_groups"]
    one = [v for v in result.values if v.caution == "one_group"]
    several = len(result.scores) > 1

    def name(value: MeasureValue) -> str:
        return value.measure + f" of {value.score}" * several

    if few:
        by_number: dict[str, list[str]] = {}
        for v in few:
            by_number.setdefault(f"{v.effective_groups:.3g}", []).append(name(v))
        known = "; ".join(f"{number} of {', '.join(of)}" for number, of in by_number.items())
        yield printable(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective groups: {known}"
        )
    if one:
        yield printable(f"one group tells no standard error: {', '.join(map(name, one))}")


def _level(result: Result) -> str:
    confidence = result.meta.conventions.get("confidence")
    return f"{100 * confidence:.12g}% CI" if isinstance(confidence, float) else "CI"


def _interval(value: MeasureValue) -> str:
    """The interval, to two digits of its half width; empty where there is none."""
    low, high = value.ci_low, value.ci_high
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    digits = _digits((high - low) / 2)
    if digits is None:
        return f"[{low:#.6g}, {high:#.6g}]"
    return f"[{low:,.{digits}f}, {high:,.{digits}f}]"


def _reach(value: MeasureValue) -> str:
    """The larger distance from a value to an end of its interval, to two digits."""
    far = max(value.ci_high - value.value, value.value - value.ci_low)
    digits = _digits(far)
    return f"±{far:.2g}" if digits is None else f"±{far:,.{digits}f}"


def _digits(size: float) -> int | None:
    """Decimals that show a number to two digits; None where they are too many."""
    if size == 0 or size >= 1e9:
        return None
    digits = max(1 - math.floor(math.log10(size)), 0)
    return digits if digits <= 7 else None


def _amount(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


#: Options on whose defaults tools differ most; JSON has them all.
_DEBATED = ("weight", "rel", "gain", "discount", "max_grade", "threshold")


def _of_measures(measures: Mapping[str, Mapping[str, object]]) -> list[str]:
    """The debated options in force, each once: GAUC weight=impressions, rel=1, gain=exp."""
    said: dict[str, None] = {}
    for text, options in measures.items():
        name = text.partition("(")[0].partition("@")[0]
        for option in _DEBATED:
            value = options.get(option)
            if value in (None, "uniform", "reciprocal"):
                continue
            owner = f"{name} " if option == "weight" else ""
            said[f"{owner}{option}={_convention(value)}"] = None
    return list(said)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Measure the longest line of each column."""
    return [
        max(len(line) for cell in column for line in cell.split("\n"))
        for column in zip(*rows, strict=True)
    ]


def printable(text: str) -> str:
    """Escape line breaks, terminal codes and other unprintable characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _aggregate(kind: str) -> str:
    """Say what the value is of the groups' values, where it is not their mean."""
    return "" if kind in ("mean", "pooled") else f" ({kind})"


def _number(value: float, aggregate: str) -> str:
    if math.isnan(value):
        return "undefined"
    if aggregate == "sum" and value.is_integer() and abs(value) < 2**53:
        return f"{int(value):,}"
    return f"{value:#.6g}"


def _share(value: float) -> str:
    """Format a share in percent; only the whole prints as 100%, only nothing as 0%."""
    if math.isnan(value):
        return "n/a"
    if value in (0, 1):
        return f"{value:.0%}"
    return "<0.1%" if value < 0.001 else ">99.9%" if value > 0.999 else f"{value:.1%}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)


def _first(compiled: int) -> str:
    return f" (first run: {compiled} loops compiled)" if compiled else ""


def _speed(rows: int, seconds: float) -> str:
    if seconds <= 0:
        return "too fast to time"
    speed = rows / seconds
    return f"{speed / 1e6:.3g} Mrows/s" if speed >= 1e6 else f"{speed:,.0f} rows/s"


def _convention(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_convention(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "+".join(map(_convention, value))
    return str(value)


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _code(text: str) -> str:
    """Put `text` in a code span that nothing inside it can end."""
    if not text:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")
