"""Show a result as text, Markdown and in the terminal, with its notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastrank_eval.engine.records import MeasureValue, Meta, plain_meta
from fastrank_eval.measures import measure
from fastrank_eval.measures.base import text_of
from fastrank_eval.measures.decisions import Decision, GroupDecision
from fastrank_eval.results.format import (
    count_text,
    half_width_text,
    interval_text,
    measure_text,
    number_text,
    printable,
    share_text,
)
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

__all__ = [
    "markdown",
    "meta_with_notes",
    "plain",
    "report_notes",
    "size_and_conventions",
    "terminal",
]


#: Reasons of groups that ``groups='with_relevant'`` leaves out for every measure.
_NO_RELEVANT = ("no_relevant", "all_negative")

#: The mean over groups if no relevant row, and if every other row, is predicted positive.
_NO_HIT = {"PPV": 0.0, "TPR": 0.0, "FNR": 1.0, "FScore": 0.0}
_ALL_FALSE = {"FPR": 1.0, "TNR": 0.0}


def report_notes(values: Iterable[MeasureValue], meta: Meta) -> list[str]:
    """Write the notes on values that their numbers do not show.

    Parameters
    ----------
    values : iterable of MeasureValue
        Of all rows and of slices.
    meta : Meta

    Returns
    -------
    list of str
        One sentence each, without line breaks.
    """
    values = list(values)
    return [
        *_names(values, meta.requested),
        *_populations(values, meta.conventions),
        *_thresholds(values),
    ]


def meta_with_notes(values: Iterable[MeasureValue], meta: Meta) -> dict[str, Any]:
    """Convert metadata to plain Python values, and add the notes."""
    notes = report_notes(values, meta)
    return {**plain_meta(meta), **({"notes": notes} if notes else {})}


def _names(values: Sequence[MeasureValue], requested: Mapping[str, str]) -> Iterator[str]:
    """Note which measure each name stands for, if names are ambiguous."""
    if not requested:
        return
    texts = {v.measure for v in values}
    names = [str(measure(name)) for name in requested]
    twice = len(set(names)) < len(names)
    if twice or any(name in texts and text != name for name, text in requested.items()):
        yield f"requested: {', '.join(f'{name} is {text}' for name, text in requested.items())}"


def _populations(
    values: Sequence[MeasureValue], conventions: Mapping[str, object]
) -> Iterator[str]:
    """Note means of one table over different groups, with the remedy."""
    groups = conventions.get("groups")
    if groups is None:
        return
    tables: dict[tuple[str | None, str], list[MeasureValue]] = {}
    for v in values:
        if v.aggregate in ("mean", "geometric mean") and v.groups_used:
            tables.setdefault((v.by, v.slice), []).append(v)
    unequal = {
        key: means for key, means in tables.items() if len({v.groups_used for v in means}) > 1
    }
    if not unequal:
        return
    # All rows come first.
    (by, label), means = next(iter(unequal.items()))
    where = "" if by is None else f" in the slice {label}"
    remedy = _remedy([v for group in unequal.values() for v in group], groups)
    yield f"means are over different groups{where}: {_denominators(means)}; {remedy}"


def _thresholds(values: Sequence[MeasureValue]) -> Iterator[str]:
    """Note thresholds that predict no row or every row positive."""
    measures_of: dict[tuple[str, str, str], list[str]] = {}
    for v in values:
        if v.by is not None or v.slice != "all":
            continue
        parsed = measure(v.measure)
        if isinstance(parsed, Decision):
            rows = _predicted_rows(v.details)
        elif isinstance(parsed, GroupDecision):
            rows = _predicted_rows_in_groups(v, parsed.of.name)
        else:
            continue
        if rows:
            threshold = text_of(parsed.chosen["threshold"])
            measures_of.setdefault((rows, v.score, threshold), []).append(v.measure)
    for (rows, score, threshold), measures in measures_of.items():
        yield (
            f"{rows} of {score} is predicted positive at threshold={threshold}: {_join(measures)}; "
            f"name a threshold among the scores, as in FScore(threshold=0.1)"
        )


def _predicted_rows(cells: Mapping[str, float]) -> str:
    """Return "no row" or "every row" if that is predicted positive, else ""."""
    if "TP" not in cells:  # a measure of all classes: each row is predicted one of them
        return ""
    predicted, others = cells["TP"] + cells["FP"], cells["FN"] + cells["TN"]
    if not predicted:
        return "no row" if others else ""
    return "" if others else "every row"


def _predicted_rows_in_groups(value: MeasureValue, name: str) -> str:
    """Return as `_predicted_rows`, as far as means over groups show it."""
    for reason, rows in (("none_predicted", "no row"), ("all_predicted", "every row")):
        if value.dropped.get(reason) == value.groups > 0:
            return rows
    if value.value == _NO_HIT.get(name):
        return "no relevant row"
    return "every row that is not relevant" if value.value == _ALL_FALSE.get(name) else ""


def _denominators(means: Sequence[MeasureValue]) -> str:
    """List the numbers of groups of means, with their measures."""
    of_measure: dict[str, set[int]] = {}
    for v in means:
        of_measure.setdefault(v.measure, set()).add(v.groups_used)
    by_number: dict[int, list[str]] = {}
    for v in means:
        model = f" of {v.score}" if len(of_measure[v.measure]) > 1 else ""
        by_number.setdefault(v.groups_used, []).append(v.measure + model)
    return ", ".join(f"{number:,} ({_join(names)})" for number, names in sorted(by_number.items()))


def _remedy(means: Sequence[MeasureValue], groups: object) -> str:
    """Name the option that gives means one population."""
    helps, other_reasons = False, dict[str, list[str]]()
    for v in means:
        for reason, number in v.dropped.items():
            if not number:
                continue
            if reason in _NO_RELEVANT and measure(v.measure).rel_or_default <= 1:
                helps = True
            else:
                other_reasons.setdefault(reason, []).append(v.measure)
    if groups != "with_relevant" and helps:
        option = "groups='with_relevant' (--groups with_relevant) gives them one population"
        exceptions = [
            f"{_join(measures)} still leaves out {reason}"
            for reason, measures in other_reasons.items()
        ]
        return "; ".join([option, *exceptions])
    if other_reasons.keys() <= {"zero_weight"}:
        return "groups of weight 0 are left out"
    return "undefined='zero' (--undefined zero) counts groups without a value as 0"


def _join(names: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(names))


_WIDTH = 80  # columns of plain text, whose output is unknown
_NARROW, _REASON = 12, 13  # least widths of names and of reasons ("few_positives")


def plain(result: ResultRecords) -> str:
    """Render a result as text without markup.

    Parameters
    ----------
    result : ResultRecords

    Returns
    -------
    str
        One row a score and measure; tables of the slices; then size and speed; then the
        conventions.
    """
    table = _table(result)
    body = plain_lines(one_line_each(table))
    for sliced in slice_tables(result, _WIDTH):
        body += ["", sliced.title, *plain_lines(sliced.cells)]
    notes = list(slice_notes(result))
    size, conventions, *details = _footer(result)
    if len(body) > 1 + len(table.rows):
        body.append("")
    return "\n".join([*body, *notes, *filter(None, (*details, size, conventions))])


def markdown(result: ResultRecords) -> str:
    """Render a result as markdown tables: all rows, then the slices.

    Parameters
    ----------
    result : ResultRecords

    Returns
    -------
    str
        Names from the data stand in code spans, so that nothing in them is markup.
    """
    lines = markdown_lines(_table(result))
    for sliced in slice_tables(result):
        title = f"{code_span(printable(sliced.score))} by {code_span(printable(sliced.by))}"
        lines += ["", title, "", *markdown_lines(sliced.cells)]
    notes = [note.replace("*", "\\*") for note in slice_notes(result)]
    size, conventions, *details = _footer(result)
    size = "  \n".join([*notes, *map(code_span, details), size])
    return "\n".join([*lines, "", f"{size}  ", code_span(conventions)]) + "\n"


def terminal(result: ResultRecords, width: int) -> Iterator[RenderableType]:
    """Render a result for a terminal.

    Parameters
    ----------
    result : ResultRecords
    width : int
        Columns of the terminal, at least 1. In a narrow terminal group totals stand only in the
        footer, intervals as a distance under their value, and names and reasons are folded. No
        digit is cut off.

    Yields
    ------
    rich renderable
        A titled table a score, then one a slicing and score; size and speed; conventions.
    """
    from rich.text import Text

    for totals, side_by_side in ((True, True), (False, True), (False, False)):
        content = _table(result, totals, side_by_side)
        if fits(content, width):
            break
    foldable = {content.header[1]: _NARROW, "dropped": _REASON}
    yield from sections(content, width, foldable, bold="value")
    for sliced in slice_tables(result, width):
        yield Text(sliced.title, style="bold cyan", overflow="fold")
        yield grid(sliced.cells)
        yield Text()
    for note in slice_notes(result):
        yield Text(note)
    size, conventions, *details = _footer(result)
    for line in details:
        yield Text(line)
    yield Text(size)
    yield Text(conventions, style="dim")


def _table(result: ResultRecords, totals: bool = True, side_by_side: bool = True) -> Cells:
    """Build the cells of all rows.

    Parameters
    ----------
    result : ResultRecords
    totals : bool
        Show the totals of groups.
    side_by_side : bool
        Show intervals next to values, not under them.
    """
    values = _of_all_rows(result)
    intervals = [interval_text(v) for v in values]
    has_intervals = any(intervals)
    level = _level(result) if has_intervals else ""
    slices = any(v.slice != "all" for v in values)
    names = ["score", *["slice"] * slices, "measure"]
    rows = [
        [
            printable(v.score),
            *[printable(v.slice)] * slices,
            measure_text(v),
            number_text(v.value, v.aggregate)
            + (f"\n{half_width_text(v)}" if interval and not side_by_side else ""),
            *[interval or "n/a"] * (has_intervals and side_by_side),
            f"{v.groups_used:,}" + f"/{v.groups:,}" * totals if result.meta.groups else "none",
            "\n".join(f"{count:,} {reason}" for reason, count in v.dropped.items() if count)
            or "none",
            share_text(v.rows_share),
            share_text(v.positives_share),
        ]
        for v, interval in zip(values, intervals, strict=True)
    ]
    used = "groups used" if totals else "groups\nused"
    value = ["value"]
    if has_intervals:
        value = ["value", level] if side_by_side else [f"value\n{level}"]
    return Cells([*names, *value, used, "dropped", "rows", "positives"], len(names), rows)


def _footer(result: ResultRecords) -> tuple[str, ...]:
    """Build the lines under the table: size, conventions, details, notes."""
    notes = map(printable, report_notes(result.values, result.meta))
    return *size_and_conventions(result.meta), *_details(result), *_cautions(result), *notes


def size_and_conventions(meta: Meta) -> tuple[str, str]:
    """Format the size and speed of an evaluation, and its conventions."""
    if meta.rows == 0:
        size = "no rows, no groups: no value is defined"
    else:
        groups = count_text(meta.groups, "group") if meta.groups else "not grouped"
        size = (
            f"{count_text(meta.rows, 'row')}, {groups}, "
            f"{meta.seconds:.3g} s, {_speed(meta.rows, meta.seconds)}{_first(meta.compiled)}"
        )
    conventions = [
        f"{name}={_convention(value)}"
        for name, value in meta.conventions.items()
        if value is not None and name not in ("measures", "slices_left_out")
    ]
    options = meta.conventions.get("measures")
    if isinstance(options, Mapping):
        conventions += _measure_options(options)
    return size, printable(", ".join(conventions))


def _of_all_rows(result: ResultRecords) -> list[MeasureValue]:
    return [v for v in result.values if v.by is None]


def _details(result: ResultRecords) -> Iterator[str]:
    """Yield the details of values, one line for equal details of a model."""
    lines: dict[tuple[str, str], list[str]] = {}
    for v in _of_all_rows(result):
        if v.details:
            details = ", ".join(f"{name} {_number(number)}" for name, number in v.details.items())
            lines.setdefault((v.score, details), []).append(v.measure)
    for (score, details), measures in lines.items():
        model = f" of {score}" if len(result.scores) > 1 else ""
        yield printable(f"{', '.join(measures)}{model}: {details}")


def _cautions(result: ResultRecords) -> Iterator[str]:
    """Yield cautions: rough intervals, values of one group."""
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
        numbers = "; ".join(f"{number} of {', '.join(of)}" for number, of in by_number.items())
        yield printable(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective groups: {numbers}"
        )
    if one:
        yield printable(f"one group tells no standard error: {', '.join(map(name, one))}")
    none = [v for v in values if v.caution == "no_groups"]
    if none:
        yield printable(f"no standard error without groups: {', '.join(map(name, none))}")


def _level(result: ResultRecords) -> str:
    confidence = result.meta.conventions.get("confidence")
    return f"{100 * confidence:.12g}% CI" if isinstance(confidence, float) else "CI"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


#: Options whose defaults differ most between tools. JSON has all options.
_MAIN_OPTIONS = ("weight", "rel", "gain", "discount", "max_grade", "threshold")


def _measure_options(measures: Mapping[str, Mapping[str, object]]) -> list[str]:
    """List the main options of measures, each once."""
    texts: dict[str, None] = {}
    for text, options in measures.items():
        name = text.partition("(")[0].partition("@")[0]
        for option in _MAIN_OPTIONS:
            value = options.get(option)
            if value in (None, "uniform", "reciprocal"):
                continue
            owner = f"{name} " if option == "weight" else ""
            texts[f"{owner}{option}={_convention(value)}"] = None
    return list(texts)


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
