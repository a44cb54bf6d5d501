"""Collect scores, and with each row its class, its weight and its cell.

A cell is a combination of values of some columns. All cells share one list of scores, so the rows
of any union of cells are in the order of their scores after one sort.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from fastrank_eval._lib.array_codes import (
    Arrays,
    byte_shuffle,
    byte_unshuffle,
    delta_decode,
    delta_encode,
    narrow,
)
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.stats.score_runs import (
    ScoreRuns,
    ranges_of,
    scores_of,
    sort_codes,
    sortable_codes,
)

_Value = TypeVar("_Value")
#: Rows without weights have this array.
_NO_WEIGHTS = frozen(np.empty(0))


class CellRows(NamedTuple):
    """Rows of a range of scores, the lowest score first.

    Parameters
    ----------
    score : ndarray of float32 or float64, shape (rows,)
        Ascending.
    kind : ndarray of int64, shape (rows,)
        Twice the number of the cell, plus 1 for a positive row.
    weight : ndarray of float64, shape (rows,) or (0,)
        Above 0; ascending where scores are equal. Empty if each weight is 1.
    """

    score: np.ndarray
    kind: np.ndarray
    weight: np.ndarray


class CellScores:
    """Scores of all rows with their cells, each row stored.

    Several threads may add at the same time, in any order.

    Parameters
    ----------
    columns : int
        Number of columns whose values make a cell.
    weighted : bool
        Whether rows have weights.

    Examples
    --------
    >>> state = CellScores(1, weighted=False)
    >>> cell, values, positive = np.array([0, 1, 0]), np.array([[4], [7]]), np.array([1, 2])
    >>> state.add(np.array([0.5, 0.25, 0.75]), cell, values, positive)
    >>> (sorted_rows,) = state.ranges(map)
    >>> state.cells.tolist(), sorted_rows.score.tolist(), sorted_rows.kind.tolist()
    ([[4], [7]], [0.25, 0.5, 0.75], [3, 0, 1])
    """

    def __init__(self, columns: int, weighted: bool) -> None:
        self._columns, self.weighted = columns, weighted
        self._lock = threading.Lock()
        # The value of a row is its kind. With weights it is its number in the next two lists.
        self._runs = ScoreRuns()
        self._kinds: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []
        self._rows = 0
        self._cells: dict[tuple[int, ...], int] = {}
        self._computed: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        """Count the cells."""
        return len(self._cells)

    @property
    def cells(self) -> np.ndarray:
        """The codes of each cell's values. int64, shape (cells, columns)."""
        return np.array(list(self._cells), np.int64).reshape(-1, self._columns)

    @property
    def has_rows(self) -> bool:
        """Whether a row was added that has a weight."""
        return self._runs.bytes > 0

    def add(
        self,
        score: np.ndarray,
        cell: np.ndarray,
        values: np.ndarray,
        positive: np.ndarray,
        weight: np.ndarray | None = None,
    ) -> None:
        """Add rows; those of weight 0 are left out.

        Parameters
        ----------
        score : ndarray of float32 or float64, shape (rows,)
            The same type in every call.
        cell : ndarray of int64, shape (rows,)
            The cell of each row, as an index into `values`.
        values : ndarray of int64, shape (cells, columns)
            The codes of the values of each cell.
        positive : ndarray of int64
            Indices of the positive rows.
        weight : ndarray of float64, shape (rows,), optional
        """
        # Doubles, as the runs keep them: kinds are below 2**53.
        kind = (2.0 * self._number(values))[cell]
        kind[positive] += 1.0
        if weight is not None and not (weight > 0).all():
            rows = np.flatnonzero(weight > 0)
            score, kind, weight = score[rows], kind[rows], weight[rows]
        self._add_kinds(score, kind, weight)

    def _number(self, values: np.ndarray) -> np.ndarray:
        """Return the number of each cell, and number new ones."""
        with self._lock:
            self._computed.clear()
            numbers = [
                self._cells.setdefault(tuple(codes), len(self._cells)) for codes in values.tolist()
            ]
        return np.array(numbers, np.int64)

    def _add_kinds(self, score: np.ndarray, kind: np.ndarray, weight: np.ndarray | None) -> None:
        if not len(score):
            return
        values = kind
        if weight is not None:
            with self._lock:
                values = np.arange(self._rows, self._rows + len(score), dtype=np.float64)
                self._kinds.append(kind.astype(np.int64))
                self._weights.append(weight.copy())
                self._rows += len(score)
        self._runs.add(score, values)

    def merge(self, other: CellScores) -> None:
        """Add another state, which must not be used afterwards, in any order."""
        numbers = self._number(other.cells)

        def renumber(kind: np.ndarray) -> np.ndarray:
            return 2 * numbers[kind >> 1] + (kind & 1)

        with self._lock:
            first = self._rows
            if self.weighted:
                self._kinds += map(renumber, other._kinds)
                self._weights += other._weights
                self._rows += other._rows
                other._runs.map_values(lambda rows: rows + first)
            else:
                other._runs.map_values(
                    lambda kinds: renumber(kinds.astype(np.int64)).astype(np.float64)
                )
        self._runs.merge(other._runs)

    def with_codes(self, numbers: Sequence[np.ndarray]) -> Self:
        """Return the same rows under other codes of values.

        Parameters
        ----------
        numbers : sequence of ndarray of int64
            For each column the new code of each code, all different.
        """
        cells = self.cells
        if len(numbers) != self._columns or any(
            (cells[:, i] >= len(column)).any() for i, column in enumerate(numbers)
        ):
            raise ValueError("cells have values that their columns lack")
        codes = np.stack([column[cells[:, i]] for i, column in enumerate(numbers)], axis=1)
        state = copy(self)
        state._cells = {tuple(cell): i for i, cell in enumerate(codes.tolist())}
        state._computed = {}
        return state

    def ranges(self, map_jobs: JobMap) -> Iterator[CellRows]:
        """Yield the rows of ranges of scores, the lowest range first.

        Parameters
        ----------
        map_jobs : callable
            Maps a function over jobs, in threads.
        """
        if self.weighted and len(self._kinds) > 1:
            with self._lock:
                self._kinds = [np.concatenate(self._kinds)]
                self._weights = [np.concatenate(self._weights)]

        def sort(leading: slice) -> CellRows:
            # Copies: other ranges overwrite the scratch memory of this one.
            codes, values = sort_codes(self._runs.rows_in(leading))
            score, index = scores_of(codes), values.astype(np.int64)
            if not self.weighted:
                return CellRows(score, index, _NO_WEIGHTS)
            weight = self._weights[0][index]
            rows, order = _order_of_ties(codes, weight)
            weight[rows], index[rows] = weight[order], index[order]
            return CellRows(score, self._kinds[0][index], weight)

        yield from map_jobs(sort, ranges_of(self._runs))

    def computed(self, key: Hashable, compute: Callable[[], _Value]) -> _Value:
        """Return what `compute` returned for the key since rows were last added."""
        if key not in self._computed:
            self._computed[key] = compute()
        value: _Value = self._computed[key]
        return value

    def to_arrays(self) -> Arrays:
        """Write the distinct rows, by score, cell and weight.

        Returns
        -------
        dict of ndarray
            ``weighted`` (0 or 1); ``values`` of each cell, ascending, a row a cell; ``codes`` of
            the scores (see `ScoreTable.to_arrays`), ``cells``, ``weights``, negative where the row
            is positive, with shuffled bytes; ``rows`` that have all three.
        """
        cells = self.cells
        order = np.lexsort(cells.T[::-1])
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.arange(len(order))
        columns = []
        for score, kind, weight in self.ranges(map):
            codes, cell = sortable_codes(score), numbers[kind >> 1]
            signed = np.where(kind & 1, -1.0, 1.0)
            if self.weighted:
                signed *= weight
            ties, rows = _order_of_ties(codes, signed, cell)
            cell[ties], signed[ties] = cell[rows], signed[rows]
            first = np.append(True, np.zeros(len(codes) - 1, np.bool_))
            for part in (codes, cell, signed):
                first[1:] |= part[1:] != part[:-1]
            at = np.flatnonzero(first)
            columns.append((codes[at], cell[at], signed[at], np.diff(at, append=len(codes))))
        if not columns:
            none = np.empty(0, np.int64)
            columns = [(np.empty(0, np.uint64), none, np.empty(0), none)]
        codes, cell, signed, rows = (np.concatenate(part) for part in zip(*columns, strict=True))
        return {
            "weighted": np.array(self.weighted, np.int64),
            "values": cells[order],
            "codes": delta_encode(codes),
            "cells": narrow(cell),
            "weights": byte_shuffle(signed),
            "rows": narrow(rows),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Read the state that `to_arrays` wrote."""
        weighted, values = int(arrays["weighted"]), arrays["values"]
        if weighted not in (0, 1) or values.dtype != np.int64 or values.ndim != 2:
            raise ValueError("cells of scores are malformed")
        rows, cell = arrays["rows"].astype(np.int64), arrays["cells"].astype(np.int64)
        codes, signed = delta_decode(arrays["codes"]), byte_unshuffle(arrays["weights"], "f")
        state = cls(values.shape[1], bool(weighted))
        numbers = state._number(values)
        if not rows.shape == cell.shape == codes.shape == signed.shape:
            raise ValueError("codes of scores are not as many as their cells, weights or rows")
        in_range = cell.size == 0 or 0 <= cell.min() <= cell.max() < len(values)
        if len(state._cells) < len(values) or values.min(initial=0) < 0 or not in_range:
            raise ValueError("cells of scores are malformed")
        kind = np.repeat(2.0 * numbers[cell] + (signed < 0), rows)
        weight = np.repeat(np.abs(signed), rows) if weighted else None
        state._add_kinds(scores_of(np.repeat(codes, rows)), kind, weight)
        return state


def _order_of_ties(codes: np.ndarray, *columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order the rows of equal codes by columns, the last one first.

    Parameters
    ----------
    codes : ndarray of unsigned integers, shape (rows,)
        Ascending.
    *columns : ndarray, shape (rows,)

    Returns
    -------
    ties, order : ndarray of int64
        The rows whose code others have, ascending, and the row that comes to each place.
    """
    same = codes[1:] == codes[:-1]
    ties = np.flatnonzero(np.append(False, same) | np.append(same, False))
    return ties, ties[np.lexsort((*(column[ties] for column in columns), codes[ties]))]
