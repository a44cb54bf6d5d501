"""Lay out values as tables of slices, measures and models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fastrank_eval.measures import Measure
from fastrank_eval.results.format import amount, count_text, p_text, printable
from fastrank_eval.results.report import Table
from fastrank_eval.stats.intervals import FEW_GROUPS

if TYPE_CHECKING:
    from fastrank_eval.engine.records import Meta
    from fastrank_eval.engine.slice_calibration import CalibrationTables

AT_LEAST = "≥"
#: The mark of an interval from few groups.
FEW = "*"
FEW_NOTE = f"{FEW} fewer than {FEW_GROUPS} effective groups: the interval is rough"
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
    """Tell whether models, or measures, rest on different numbers of groups."""
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
    for (score, measure), table in tables.items():
        if not len(table):
            continue
        slices = f"the worst {MOST_SLICES} of {len(table):,} slices"
        if len(table) <= MOST_SLICES:
            slices = f"{count_text(len(table), 'slice')}, the worst first"
        title = f"{measure} of {score}: positives of {slices}"
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
