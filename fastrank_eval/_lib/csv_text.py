"""Write CSV text that no spreadsheet runs as a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["csv_cells", "csv_text"]

_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_cells(cells: Iterable[object], safe: bool) -> list[Any]:
    """Put an apostrophe before text that a spreadsheet may run, if `safe`.

    Examples
    --------
    >>> csv_cells(["=1+1", "a=1", -1, None], safe=True)
    ["'=1+1", 'a=1', -1, None]
    """
    return [
        f"'{cell}" if safe and isinstance(cell, str) and cell.startswith(_BEGINS_FORMULA) else cell
        for cell in cells
    ]


def csv_text(names: Sequence[str], rows: Iterable[Iterable[object]], safe: bool = False) -> str:
    r"""Write a header and rows as CSV.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.
    rows : iterable of iterable
        Cells in their order; None is empty.
    safe : bool
        Put an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
        carriage return, so that no spreadsheet takes it for a formula. Numbers stay.

    Returns
    -------
    str

    Examples
    --------
    >>> csv_text(["model", "delta"], [["-old", -0.5]], safe=True)
    "model,delta\n'-old,-0.5\n"
    """
    sheet = io.StringIO()
    writer = csv.writer(sheet, lineterminator="\n")
    for row in ([*names], *rows):
        writer.writerow(csv_cells(row, safe))
    return sheet.getvalue()
