"""Define what every result shows: to programs, in JSON and to people.

Lay out values as tables of slices, measures and models, and as a report with its notes.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from fastrank_eval._lib.arguments import check_indent, check_options, typed
from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import csv_cells, csv_text
from fastrank_eval.engine.records import CalibrationTables, MeasureValue, Meta
from fastrank_eval.measures import Measure, measure
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.notes import NEGATIVE, end_lines, names_of, report_notes, unit_of
from fastrank_eval.results.report import (
    Best,
    Name,
    Report,
    Table,
    amount,
    count_text,
    decimals,
    detail_text,
    half_width_text,
    html,
    interval_text,
    latex,
    markdown,
    measure_text,
    number_text,
    p_text,
    percent_text,
    printable,
    share_text,
    text,
)
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from rich.console import Console, ConsoleOptions, RenderResult


class View(ABC):
    """A result: its table, its JSON document and its report.

    A class defines `records`, `document` and `report`. The forms of output are written here.
    """

    @abstractmethod
    def records(self) -> pa.Table:
        """Return the table that programs read.

        Returns
        -------
        pyarrow.Table
            An undefined number is null.
        """

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return the plain Python values that JSON has; None for NaN.

        Returns
        -------
        dict
        """

    @abstractmethod
    def report(self, *, wide: bool = False) -> Report:
        """Build the report that people read.

        Parameters
        ----------
        wide : bool
            Make tables for each model, with intervals and coverage in columns. By default models
            are columns.

        Returns
        -------
        Report
        """

    def _rows(self) -> list[dict[str, Any]]:
        """Return `records` as plain values; without Arrow no pandas is loaded."""
        rows: list[dict[str, Any]] = self.records().to_pylist()
        return rows

    @typed
    def to_json(self, indent: int | None = 2, **choices: Any) -> str:
        """Write `document` as JSON.

        Parameters
        ----------
        indent : int or None
            Spaces a level; None for one line.
        **choices
            As `document` takes them.

        Returns
        -------
        str
            Strictly valid JSON in ASCII; an undefined number is null.
        """
        check_options("to_json", choices, self._choices_of("document"), own=View.to_json)
        return json.dumps(self.document(**choices), indent=check_indent(indent), allow_nan=False)

    @typed
    def to_csv(self, *, safe: bool = False, **choices: Any) -> str:
        """Write `records` as CSV, with all digits, empty where undefined.

        Parameters
        ----------
        safe : bool
            Put an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
            carriage return, so that no spreadsheet reads it as a formula.
        **choices
            Of a `TrecReport` ``single`` and ``summary``, as `document` takes them.

        Returns
        -------
        str
            A map is ``name=number`` joined by semicolons.
        """
        check_options("to_csv", choices, self._choices_of("_rows"), own=View.to_csv)
        rows = self._rows(**choices)
        names = list(rows[0]) if rows else self.records().column_names
        return csv_text(names, (map(_csv_cell, row.values()) for row in rows), safe)

    def to_pandas(self) -> pd.DataFrame:
        """Convert `records` to pandas; maps become lists of pairs.

        Returns
        -------
        pandas.DataFrame
        """
        return self.records().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Convert `records` to polars; maps become lists of structs.

        Returns
        -------
        polars.DataFrame
        """
        import polars as pl

        return pl.DataFrame(self.records())

    def to_markdown(self, **choices: Any) -> str:
        """Write the report as markdown.

        Parameters
        ----------
        **choices
            As `report` takes them: ``wide=True``.

        Returns
        -------
        str
            Names from the data are in code spans, so nothing in them is markup.
        """
        return markdown(self.report(**choices))

    def to_latex(self, **choices: Any) -> str:
        r"""Write the report as LaTeX, for ``\input`` into a document with booktabs.

        Parameters
        ----------
        **choices
            As `report` takes them: ``wide=True``.

        Returns
        -------
        str
            Names from the data are escaped.
        """
        return latex(self.report(**choices))

    def to_html(self, **choices: Any) -> str:
        """Write the report as a page of HTML, which needs no other file.

        Parameters
        ----------
        **choices
            As `report` takes them: ``wide=True``.

        Returns
        -------
        str
            Names from the data are escaped.
        """
        return html(self.report(**choices))

    def _choices_of(self, method: str) -> list[str]:
        """Name the choices that `document` or `report` takes."""
        parameters = signature(getattr(self, method)).parameters.values()
        return [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]

    def __repr__(self) -> str:
        return text(self.report())

    def _repr_html_(self) -> str:
        return html(self.report(), page=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.report()


def _csv_cell(cell: object) -> object:
    if isinstance(cell, dict):
        return ";".join(f"{key}={number}" for key, number in cell.items())
    return cell


#: Suffixes of table files.
SUFFIXES = (".parquet", ".arrow", ".csv")
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def write_table(table: pa.Table, part: Path, shown: str, safe: bool = False) -> None:
    """Write a table to `part` in the format that the suffix of `shown` names.

    Parameters
    ----------
    table : pyarrow.Table
    part : Path
    shown : str
    safe : bool
        In CSV, put an apostrophe before text that a spreadsheet reads as a formula.

    Raises
    ------
    OutputError
        If the format cannot hold a column.
    """
    suffix = Path(shown).suffix.lower()
    try:
        with part.open("wb") as sink:  # Arrow opens no file whose name is not UTF-8
            if suffix == ".parquet":
                import pyarrow.parquet as papq

                papq.write_table(table, sink)
            elif suffix == ".arrow":
                with pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)
            else:
                import pyarrow.csv as pacsv

                table = _for_csv(table, safe)
                pacsv.write_csv(table.rename_columns(csv_cells(table.column_names, safe)), sink)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = (str(error).splitlines() or ["unknown fault"])[0]
        raise OutputError(f"cannot write {shown!r} as {suffix}: {reason}.") from error


def _for_csv(table: pa.Table, safe: bool) -> pa.Table:
    """Decode dictionaries, and write bytes in hexadecimal."""
    for i, field in enumerate(table.schema):
        column = table.column(i)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if any(is_bytes(column.type) for is_bytes in _BYTES):
            column = pa.chunked_array([[key.hex() for key in column.to_pylist()]], pa.string())
        elif column.type == pa.uuid():
            column = pa.chunked_array([list(map(str, column.to_pylist()))], pa.string())
        elif safe and any(is_text(column.type) for is_text in _TEXTS):
            column = pa.chunked_array([csv_cells(column.to_pylist(), safe)], column.type)
        table = table.set_column(i, field.name, column)
    return table


AT_LEAST = "≥"
#: The mark of an interval from few groups.
FEW = "*"
#: Slices that reports show of each model and measure.
MOST_SLICES = 10
_HEADER = ["slice", "expected", "observed", "ECCE", "sigmas", "p, corrected", "rows"]

_Value = TypeVar("_Value")
#: A value, or a difference.
_Record = TypeVar("_Record", bound=Any)
_Cells = Sequence[tuple[str, str]]


def slice_table(
    records: Iterable[_Value],
    *,
    rows: Callable[[_Value], str],
    columns: Callable[[_Value], str],
    cells: Callable[[_Value, Sequence[_Value]], _Cells],
    lead: Callable[[Sequence[_Value]], _Cells] | None = None,
    first: str = "slice",
    title: str = "",
) -> Table:
    """Lay out values by line and column.

    Parameters
    ----------
    records : iterable of value
        One for each line and column.
    rows, columns : callable
        The line and the column of a value.
    cells : callable
        Titles and texts of a value, given the values of its line too.
    lead : callable, optional
        The same of the values of a line: columns in front.
    first : str
        The title of the first column.
    title : str

    Returns
    -------
    Table
        Its columns may be divided.
    """
    lines: dict[str, dict[str, _Value]] = {}
    for record in records:
        lines.setdefault(printable(rows(record)), {})[columns(record)] = record
    header, body, step = [first], [], 1
    front: _Cells = []
    for label, of_line in lines.items():
        values = list(of_line.values())
        front = lead(values) if lead else []
        blocks = [cells(value, values) for value in values]
        step = len(blocks[0])
        line = [*front, *(cell for block in blocks for cell in block)]
        header = [first, *(name for name, _ in line)]
        body.append([label, *(text for _, text in line)])
    return Table(header, body, 1, printable(title), 1 + len(front), step)


def all_rows(meta: Meta) -> str:
    """Name what the values beside those of slices are of."""
    return str(meta.conventions.get("all", "all"))


def by_slicing(
    values: Sequence[_Record], title_of: Callable[[_Record], str]
) -> Iterator[tuple[str, str, list[_Record], list[_Record]]]:
    """Yield slicing, title, and values of all rows and of slices for tables.

    In order of slicings, then of titles.
    """
    tables: dict[str, dict[str, list[_Record]]] = {}
    for v in values:
        if v.by is not None:
            tables.setdefault(v.by, {}).setdefault(title_of(v), []).append(v)
    for by, titles in tables.items():
        for title, own in titles.items():
            yield by, title, [v for v in values if v.by is None and title_of(v) == title], own


def groups_differ(
    values: Iterable[_Record], by_model: bool, groups_of: Callable[[_Record], int]
) -> bool:
    """Return whether the numbers of groups differ by model or measure."""
    used: dict[tuple[str, str | None, str], set[int]] = {}
    for v in values:
        key = v.measure if by_model else v.score, v.by, v.slice
        used.setdefault(key, set()).add(groups_of(v))
    return any(len(numbers) > 1 for numbers in used.values())


def best_models(
    values: Mapping[str, float], measure: Measure, text_of: Callable[[float], str]
) -> frozenset[str]:
    """Find the models with the best value of a measure, as it is printed.

    Parameters
    ----------
    values : mapping of str to float
        By model; NaN where undefined.
    measure : Measure
    text_of : callable
        Formats a value.

    Returns
    -------
    frozenset of str
        Empty if the measure has no direction, or no model is worse.
    """
    defined = {model: value for model, value in values.items() if not math.isnan(value)}
    if not measure.has_direction or not defined:
        return frozenset()
    best = (max if measure.higher_is_better else min)(defined.values())
    models = [model for model, value in defined.items() if text_of(value) == text_of(best)]
    return frozenset(models if len(models) < len(defined) else ())


def few_note(meta: Meta) -> str:
    """Explain the mark of a rough interval."""
    unit = unit_of(meta.conventions)
    return f"{FEW} fewer than {FEW_GROUPS} effective {unit}s: the interval is rough"


def left_out_notes(meta: Meta) -> list[str]:
    """Note how many slices are left out, if any are."""
    number, least = (meta.conventions.get(name) for name in ("slices_left_out", "min_groups"))
    if not (isinstance(number, int) and isinstance(least, int) and number):
        return []
    slices = f"{number:,} slices are" if number > 1 else "1 slice is"
    return [f"{slices} left out, of fewer than {least:,} groups each"]


def worst_slices(tables: CalibrationTables) -> Iterator[Table]:
    """Lay out the worst slices of each model and measure, and all rows.

    Parameters
    ----------
    tables : mapping of (str, str) to pyarrow.Table
        As `calibration_tables` returns them.

    Yields
    ------
    Table
        In a narrow terminal without rows, then without p-values.
    """
    for (score, name), table in tables.items():
        if not len(table):
            continue
        slices = f"the worst {MOST_SLICES} of {len(table):,} slices"
        if len(table) <= MOST_SLICES:
            slices = f"{count_text(len(table), 'slice')}, the worst first"
        title = f"{name} of {score}: positives of {slices}"
        worst = table.slice(0, MOST_SLICES).to_pylist()
        if all(row["slice"] != "all" for row in worst):
            all_rows = table["slice"].to_pylist().index("all")
            worst += table.slice(all_rows, 1).to_pylist()
        rows = [_cells(row) for row in worst]
        narrower: tuple[Table, ...] = ()
        for columns in (len(_HEADER) - 2, len(_HEADER) - 1, len(_HEADER)):
            cells = [row[:columns] for row in rows]
            narrower = (Table(_HEADER[:columns], cells, 1, printable(title), narrower=narrower),)
        yield from narrower


def slice_rows(tables: CalibrationTables) -> list[dict[str, Any]]:
    """Convert the worst slices to plain Python values."""
    return [
        {"score": score, "measure": measure, **row}
        for (score, measure), table in tables.items()
        for row in table.slice(0, MOST_SLICES).to_pylist()
    ]


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [
        printable(row["slice"]),
        *(amount(row["expected"], 1), amount(row["observed"], 1).removesuffix(".0")),
        *(f"{row['error']:.3g}", f"{row['sigmas']:.2f}"),
        *(p_text(row["p_adjusted"]), f"{row['rows']:,}"),
    ]


def report_of(
    values: Sequence[MeasureValue],
    meta: Meta,
    scores: Sequence[str],
    calibration: CalibrationTables,
    wide: bool,
) -> Report:
    """Build the report of values that people read.

    Parameters
    ----------
    values : sequence of MeasureValue
    meta : Meta
    scores : sequence of str
        All models.
    calibration : mapping of (str, str) to pyarrow.Table
        As `calibration_tables` returns them.
    wide : bool
        As for `View.report`.
    """
    by_model = not wide and len(scores) > 1
    overall = [v for v in values if v.by is None]
    tables = [_overall(overall, meta)]
    if by_model:
        tables = [*_by_model(overall), *coverage_tables(overall, meta)]
    notes = (
        *_details(overall, scores, meta),
        *_warnings(overall, scores, by_model, unit_of(meta.conventions)),
    )
    legend = _legend(values, meta, by_model)
    return Report(
        printable(f"Evaluation of {', '.join(scores)}"),
        [
            *tables,
            *_slice_tables(values, meta, by_model),
            *worst_slices(calibration),
            *end_lines(meta, legend, [*notes, *report_notes(values, meta)]),
        ],
    )


def _interval(value: MeasureValue) -> str:
    """Format the interval to two digits of its half width, or as ""."""
    digits = decimals((value.ci_high - value.ci_low) / 2)
    return interval_text(value.ci_low, value.ci_high, digits, spare="#.6g")


def _half_width(value: MeasureValue) -> str:
    """Format the larger half of the interval to two digits, or as ""."""
    half_width = max(value.ci_high - value.value, value.value - value.ci_low)
    return half_width_text(half_width, decimals(half_width))


def _overall(values: Sequence[MeasureValue], meta: Meta) -> Table:
    """Lay out all rows; in a narrow terminal a table for each model."""
    models: dict[str, list[MeasureValue]] = {}
    for v in values:
        models.setdefault(v.score, []).append(v)
    narrower = tuple(
        _one_model(own, meta, name, narrower=(_one_model(own, meta, name, beside=False),))
        for name, own in models.items()
    )
    return _one_model(values, meta, None, narrower=narrower)


def _one_model(
    values: Sequence[MeasureValue],
    meta: Meta,
    score: str | None,
    beside: bool = True,
    narrower: tuple[Table, ...] = (),
) -> Table:
    """Build the table of all rows.

    Parameters
    ----------
    values : sequence of MeasureValue
    meta : Meta
    score : str or None
        The model, which is the title; None for a column of models.
    beside : bool
        Show intervals next to values, not under them.
    narrower : tuple of Table
    """
    level = f"{percent_text(meta.confidence)} CI" if meta.confidence else "CI"
    has_intervals = any(map(_interval, values))
    names: dict[str, Callable[[MeasureValue], str]] = {"score": lambda v: printable(v.score)}
    if score is not None:
        names = {}
    if any(v.slice != "all" for v in values):
        names["slice"] = lambda v: printable(v.slice)
    names["measure"] = lambda v: measure_text(v.display_name, v.aggregate)
    columns: dict[str, Callable[[MeasureValue], str]] = {
        "value": lambda v: number_text(v.value, v.aggregate)
    }
    if has_intervals and beside:
        columns[level] = lambda v: _interval(v) or "n/a"
    elif has_intervals:
        under = f"value\n{level}"
        columns = {
            under: lambda v: f"{number_text(v.value, v.aggregate)}\n{_half_width(v)}".rstrip()
        }
    rows = [
        [*(cell(v) for cell in (names | columns).values()), *_coverage(v, meta).values()]
        for v in values
    ]
    header = [*names, *columns, *_COVERAGE]
    return Table(header, rows, len(names), printable(score or ""), narrower=narrower)


_COVERAGE = ("groups used", "dropped", "rows", "positives")


def _coverage(value: MeasureValue, meta: Meta) -> dict[str, str]:
    """Format the groups and rows behind a value."""
    dropped = [f"{count:,} {reason}" for reason, count in value.dropped.items() if count]
    grouped = meta.groups or not meta.rows
    texts = (
        f"{value.groups_used:,}/{value.groups:,}" if grouped else "none",
        "\n".join(dropped) or "none",
        share_text(value.rows_share),
        share_text(value.positives_share),
    )
    return dict(zip(_COVERAGE, texts, strict=True))


def _by_model(values: Sequence[MeasureValue]) -> Iterator[Table]:
    """Lay out all rows, models side by side."""
    if values:
        yield slice_table(
            values,
            rows=lambda v: measure_text(v.display_name, v.aggregate),
            columns=lambda v: v.score,
            cells=_model_cell,
            first="measure",
        )


def coverage_tables(values: Sequence[MeasureValue], meta: Meta) -> Iterator[Table]:
    """Lay out the coverage of values of all rows, once where it is equal."""
    scores = {v.score for v in values}
    owners: dict[tuple[str, ...], list[MeasureValue]] = {}
    for v in values:
        owners.setdefault(tuple(_coverage(v, meta).values()), []).append(v)
    if owners:
        rows = [[printable(names_of(own, scores)), *texts] for texts, own in owners.items()]
        yield Table(["coverage", *_COVERAGE], rows)


def _text(value: MeasureValue) -> str:
    """Format a value and its interval."""
    number, half_width = number_text(value.value, value.aggregate), _half_width(value)
    if value.warning == "one_group":
        return number + _ONE
    rough = FEW * (value.warning == "few_groups")
    return f"{number} {half_width}{rough}" if half_width else number


def _model_cell(value: MeasureValue, line: Sequence[MeasureValue]) -> list[tuple[str, str]]:
    """Write the cell of a model; the best one of the line is bold."""
    numbers = {v.score: v.value for v in line}
    text_of = partial(number_text, aggregate=value.aggregate)
    best = best_models(numbers, measure(value.measure), text_of)
    text = _text(value)
    return [(Name(printable(value.score)), Best(text) if value.score in best else text)]


def _groups(line: Sequence[MeasureValue]) -> list[tuple[str, str]]:
    """Write the groups and rows of the value that uses the fewest."""
    fewest = min(line, key=lambda v: v.groups_used)
    mark = AT_LEAST * (len({v.groups_used for v in line}) > 1)
    used = f"{mark}{fewest.groups_used:,}/{fewest.groups:,}" if fewest.groups else "none"
    share = share_text(fewest.rows_share)
    mark *= share[:1].isdigit() and share != "100%"
    return [("groups used", used), ("rows", mark + share)]


_ONE = "†"


def _slice_tables(values: Sequence[MeasureValue], meta: Meta, by_model: bool) -> Iterator[Table]:
    """Lay out the slices, by slicing, then by model or measure."""

    def name(v: MeasureValue) -> str:
        return measure_text(v.display_name, v.aggregate)

    def model(v: MeasureValue) -> str:
        return v.score

    table_of, column_of = (name, model) if by_model else (model, name)
    for by, title, overall, own in by_slicing(values, table_of):
        yield slice_table(
            [*overall, *own],
            rows=lambda v: v.slice if v.by else all_rows(meta),
            columns=column_of,
            cells=_model_cell if by_model else lambda v, _: [(name(v), _text(v))],
            lead=_groups,
            title=f"{title} by {by}",
        )


def _legend(values: Sequence[MeasureValue], meta: Meta, by_model: bool) -> Iterator[str]:
    """Explain marks in tables, and note slices that are left out."""
    has_slices = any(v.by is not None for v in values)
    values = values if has_slices or by_model else ()
    if has_slices and groups_differ(values, by_model, lambda v: v.groups_used):
        what = "models" if by_model else "measures"
        yield f"{AT_LEAST} where {what} differ: groups and rows of the one that uses the fewest"
    if by_model and meta.confidence and any(map(_half_width, values)):
        yield f"± half of the {percent_text(meta.confidence)} confidence interval"
    if any(v.warning == "few_groups" for v in values):
        yield few_note(meta)
    if any(v.warning == "one_group" for v in values):
        yield f"{_ONE} one {unit_of(meta.conventions)} has no standard error"
    yield from left_out_notes(meta)


def _details(values: Sequence[MeasureValue], scores: Sequence[str], meta: Meta) -> Iterator[str]:
    """Yield the details of values, one line for equal details of a model."""
    noted = {NEGATIVE, *([CLUSTERS] if CLUSTERS in meta.conventions else [])}
    lines: dict[tuple[str, str], list[str]] = {}
    for v in values:
        if v.details.keys() - noted:
            details = ", ".join(
                f"{name} {detail_text(number)}"
                for name, number in v.details.items()
                if name not in noted  # a note has it
            )
            lines.setdefault((v.score, details), []).append(v.display_name)
    for (score, details), measures in lines.items():
        model = f" of {score}" if len(scores) > 1 else ""
        yield printable(f"{', '.join(measures)}{model}: {details}")


def _warnings(
    values: Sequence[MeasureValue], scores: Sequence[str], by_model: bool, unit: str
) -> Iterator[str]:
    """Yield warnings: rough intervals without a mark, values of one group."""
    few = [v for v in values if v.warning == "few_groups"]
    if few and not by_model:
        by_number: dict[str, list[MeasureValue]] = {}
        for v in few:
            by_number.setdefault(f"{v.effective_groups:.3g}", []).append(v)
        numbers = "; ".join(
            f"{number} of {names_of(own, scores)}" for number, own in by_number.items()
        )
        yield printable(
            f"intervals are rough, with fewer than {FEW_GROUPS} effective {unit}s: {numbers}"
        )
    reasons = {
        "one_group": f"one {unit} has no standard error",
        "no_variance": f"{unit}s do not vary, so there is no standard error",
        "no_groups": "no standard error without groups",
        "merged": "merged states do not keep what the standard error needs",
    }
    for warning, reason in reasons.items():
        own = [v for v in values if v.warning == warning]
        if own:
            yield printable(f"{reason}: {names_of(own, scores)}")
