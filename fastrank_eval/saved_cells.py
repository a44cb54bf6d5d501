"""Cells of exact sums as arrays: those that are not 0, and where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fastrank_eval.exact_cells import Cells
from fastrank_eval.saved_parts import Parts, of_steps, steps_of

#: More exponents than doubles, and products of two of them, have.
_EXPONENTS = 1 << 12


def saved_cells(name: str, sums: Sequence[Cells], lines: int) -> Parts:
    """Cells of several sums that have the same lines.

    Parameters
    ----------
    name : str
        What they are called together.
    sums : sequence of Cells
        All of one width.
    lines : int
        How many each has; of what it has not got, every cell is 0.

    Returns
    -------
    dict of ndarray
        ``name.at``: places in an array of shape (sums, lines, 4096, width), ascending, as
        `saved_parts.steps_of`; ``name.cells`` (int64).
    """
    places, cells = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, one in enumerate(sums):
        line, exponent, column = np.nonzero(one.table)
        at = (number * lines + line) * _EXPONENTS + exponent + one.low
        places.append(at * one.table.shape[2] + column)
        cells.append(one.table[line, exponent, column])
    at = np.concatenate(places).astype(np.uint64)
    return {f"{name}.at": steps_of(at), f"{name}.cells": np.concatenate(cells)}


def loaded_cells(
    parts: Mapping[str, np.ndarray], name: str, shape: tuple[int, int], width: int
) -> list[Cells]:
    """The sums that `saved_cells` wrote.

    Parameters
    ----------
    parts : mapping
    name : str
    shape : tuple of int
        How many sums there are, and how many lines each has.
    width : int
        Numbers kept for each exponent.
    """
    sums, lines = shape
    at = of_steps(parts[f"{name}.at"]).astype(np.int64)
    place, column = np.divmod(at, width)
    place, exponent = np.divmod(place, _EXPONENTS)
    number, line = np.divmod(place, max(lines, 1))
    found = []
    edges = np.searchsorted(number, np.arange(sums + 1))
    for lo, hi in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        here, one = exponent[lo:hi], Cells(width)
        one.low = int(here.min(initial=_EXPONENTS)) if hi > lo else 0
        room = int(here.max()) + 1 - one.low if hi > lo else 0
        one.table = np.zeros((lines, room, width), np.int64)
        one.table[line[lo:hi], here - one.low, column[lo:hi]] = parts[f"{name}.cells"][lo:hi]
        found.append(one)
    return found
