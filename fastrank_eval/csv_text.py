"""Text of CSV files, and text that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

__all__ = ["csv_text", "without_formula"]

_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def without_formula(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet may run.

    Examples
    --------
    >>> without_formula("=1+1"), without_formula("a=1")
    ("'=1+1", 'a=1')
    """
    return f"'{text}" if text.startswith(_BEGINS_FORMULA) else text


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
        if safe:
            row = [without_formula(cell) if isinstance(cell, str) else cell for cell in row]
        writer.writerow(row)
    return sheet.getvalue()
