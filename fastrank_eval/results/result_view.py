"""A result for people: plain text, markdown and the terminal, from the same cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from fastrank_eval.results.format import (
    count_text,
    half_width_text,
    interval_text,
    measure_text,
    number_text,
    printable,
    share_text,
)
from fastrank_eval.results.notes import report_notes
from fastrank_eval.results.slice_view import slice_notes, slice_tables
from fastrank_eval.results.tables import (
    Cells,
    code_span,
    fits,
    grid,
    markdown_lines,
    one_line_each,
    plain_lines,
    sections,
)
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fastrank_eval.engine.records import MeasureValue, Meta, ResultRecords

__all__ = ["markdown", "plain", "size_and_conventions", "terminal"]

_ROOM = 80  # columns of text that is printed nobody knows where
_NARROW, _REASON = 12, 13  # least widths of names and of reasons ("few_positives")


def plain(result: ResultRecords) -> str:
    """Lay a result out as text without markup.

    Parameters
    ----------
    result : ResultRecords

    Returns
    -------
    str
        One line a score and measure; tables of the slices; then size and speed; then the
        conventions.
    """
    table = _table(result)
    body = plain_lines(one_line_each(table))
    for of in slice_tables(result, _ROOM):
        body += ["", of.title, *plain_lines(of.cells)]
    notes = list(slice_notes(result))
    size, conventions, *details = _footer(result)
    if len(body) > 1 + len(table.rows):
        body.append("")
    return "\n".join([*body, *notes, *filter(None, (*details, size, conventions))])


def markdown(result: ResultRecords) -> str:
    """Lay a result out as markdown tables, those of slices after that of all rows.

    Parameters
    ----------
    result : ResultRecords

    Returns
    -------
    str
        Names that come from data stand in code spans, so that nothing in them is markup.
    """
    lines = markdown_lines(_table(result))
    for of in slice_tables(result):
        lines += ["", f"{code_span(printable(of.score))} by {code_span(printable(of.by))}", ""]
        lines += markdown_lines(of.cells)
    notes = [note.replace("*", "\\*") for note in slice_notes(result)]
    size, conventions, *details = _footer(result)
    size = "  \n".join([*notes, *map(code_span, details), size])
    return "\n".join([*lines, "", f"{size}  ", code_span(conventions)]) + "\n"


def terminal(result: ResultRecords, room: int) -> Iterator[RenderableType]:
    """Lay a result out for a terminal.

    Parameters
    ----------
    result : ResultRecords
    room : int
        Columns of the terminal, at least 1. Where they are few, group totals are left to the
        footer, intervals stand as a distance under their value, and names and reasons are folded;
        no digit is ever cut off.

    Yields
    ------
    rich renderable
        A titled table a score, then one a slicing and score; size and speed; conventions.
    """
    from rich.text import Text

    for totals, beside in ((True, True), (False, True), (False, False)):
        content = _table(result, totals, beside)
        if fits(content, room):
            break
    foldable = {content.header[1]: _NARROW, "dropped": _REASON}
    yield from sections(content, room, foldable, bold="value")
    for of in slice_tables(result, room):
        yield Text(of.title, style="bold cyan", overflow="fold")
        yield grid(of.cells)
        yield Text()
    for note in slice_notes(result):
        yield Text(note)
    size, conventions, *details = _footer(result)
    for line in details:
        yield Text(line)
    yield Text(size)
    yield Text(conventions, style="dim")


def _table(result: ResultRecords, totals: bool = True, beside: bool = True) -> Cells:
    """Lay cells out: with totals of groups or without; intervals beside values or under them."""
    values = _of_all_rows(result)
    intervals = [interval_text(v) for v in values]
    known = any(intervals)
    level = _level(result) if known else ""
    slices = any(v.slice != "all" for v in values)
    names = ["score", *["slice"] * slices, "measure"]
    rows = [
        [
            printable(v.score),
            *[printable(v.slice)] * slices,
            measure_text(v),
            number_text(v.value, v.aggregate)
            + (f"\n{half_width_text(v)}" if interval and not beside else ""),
            *[interval or "n/a"] * (known and beside),
            f"{v.groups_used:,}" + f"/{v.groups:,}" * totals,
            "\n".join(f"{count:,} {reason}" for reason, count in v.dropped.items() if count)
            or "none",
            share_text(v.rows_share),
            share_text(v.positives_share),
        ]
        for v, interval in zip(values, intervals, strict=True)
    ]
    used = "groups used" if totals else "groups\nused"
    value = ["value", level] if known and beside else [f"value\n{level}" if known else "value"]
    return Cells([*names, *value, used, "dropped", "rows", "positives"], len(names), rows)


def _footer(result: ResultRecords) -> tuple[str, ...]:
    """Build the lines under the table: size and speed; conventions; details of values."""
    notes = map(printable, report_notes(result.values, result.meta))
    return *size_and_conventions(result.meta), *_details(result), *_cautions(result), *notes


def size_and_conventions(meta: Meta) -> tuple[str, str]:
    """Tell what was read and how fast; and by which conventions."""
    if meta.groups == 0:
        rows = count_text(meta.rows, "row") if meta.rows else "no rows"
        size = f"{rows}, no groups: no value is defined"
    else:
        size = (
            f"{count_text(meta.rows, 'row')}, {count_text(meta.groups, 'group')}, "
            f"{meta.seconds:.3g} s, {_speed(meta.rows, meta.seconds)}{_first(meta.compiled)}"
        )
    conventions = [
        f"{name}={_convention(value)}"
        for name, value in meta.conventions.items()
        if value is not None and name not in ("measures", "slices_left_out")
    ]
    chosen = meta.conventions.get("measures")
    if isinstance(chosen, Mapping):
        conventions += _of_measures(chosen)
    return size, printable(", ".join(conventions))


def _of_all_rows(result: ResultRecords) -> list[MeasureValue]:
    return [v for v in result.values if v.by is None]


def _details(result: ResultRecords) -> Iterator[str]:
    """What else is known of values, a line for those of a model that share it."""
    lines: dict[tuple[str, str], list[str]] = {}
    for v in _of_all_rows(result):
        if v.details:
            known = ", ".join(f"{name} {_amount(number)}" for name, number in v.details.items())
            lines.setdefault((v.score, known), []).append(v.measure)
    for (score, known), measures in lines.items():
        model = f" of {score}" if len(result.scores) > 1 else ""
        yield printable(f"{', '.join(measures)}{model}: {known}")


def _cautions(result: ResultRecords) -> Iterator[str]:
    """Tell of intervals that are rough, and of errors that one group does not tell."""
    values = _of_all_rows(result)
    few = [v for v in values if v.caution == "few_groups"]
    one = [v for v in values if v.caution == "one_group"]
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


def _level(result: ResultRecords) -> str:
    confidence = result.meta.conventions.get("confidence")
    return f"{100 * confidence:.12g}% CI" if isinstance(confidence, float) else "CI"


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
