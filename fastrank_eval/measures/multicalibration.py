"""Measure calibration in every slice of some columns, in standard errors."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import integer, number
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import two_sum
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.io.keys import encode_integers
from fastrank_eval.measures.base import REL, Param
from fastrank_eval.measures.likelihood import SAMPLING_RATE, recalibrate
from fastrank_eval.measures.pooled import PooledMeasure, PooledValue, undefined
from fastrank_eval.slicing.encode import MAX_SLICES
from fastrank_eval.stats.hypothesis_tests import holm, range_exceeds
from fastrank_eval.stats.scores import CellScores

#: Combinations are numbered by a table of so many, at least.
_FEW_CELLS = 1 << 16
#: The minimum detectable error is so many sigmas (arXiv 2509.19884).
_DETECTABLE = 5


@dataclass(frozen=True)
class SliceCalibration:
    """The calibration of all rows, and of each slice that has enough clicks.

    Parameters
    ----------
    columns : tuple of str
    codes : ndarray of int64, shape (slices, columns)
        The code of the value of each column; -1 where the slice has every value. All rows are the
        first slice.
    rows : ndarray of int64, shape (slices,)
        Rows with a weight above 0.
    weight, expected, observed : ndarray of float64, shape (slices,)
        Sums of weights, of weighted predictions and of weighted positives.
    error : ndarray of float64, shape (slices,)
        ECCE.
    deviation : ndarray of float64, shape (slices,)
        The standard deviation of observed less expected clicks per row, if the model is
        calibrated; above 0. This is the unit of `sigmas`. ECCE is the range of a sum, so that of a
        calibrated model is 1.6 of these units on average.
    left_out : int
        Number of slices with too few clicks.
    """

    columns: tuple[str, ...]
    codes: np.ndarray
    rows: np.ndarray
    weight: np.ndarray
    expected: np.ndarray
    observed: np.ndarray
    error: np.ndarray
    deviation: np.ndarray
    left_out: int

    @property
    def sigmas(self) -> np.ndarray:
        """ECCE over `deviation`. float64, shape (slices,)."""
        return self.error / self.deviation

    @property
    def min_detectable_error(self) -> np.ndarray:
        """The ECCE that so few rows nearly always show. float64, shape (slices,)."""
        return _DETECTABLE * self.deviation

    def p_values(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the p-value of each slice, and the same corrected by Holm."""
        p = np.array([range_exceeds(sigmas) for sigmas in self.sigmas.tolist()])
        return p, holm(p)


def _columns(value: Any) -> str | None:
    names = value.split(",") if isinstance(value, str) else value
    if names is None:
        return None
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise ValueError("names of columns, separated by commas")
    names = [name.strip() for name in names]
    if (
        not names
        or not all(names)
        or len({*names}) < len(names)
        or any("," in name for name in names)
    ):
        raise ValueError("different names of columns, separated by commas")
    return ",".join(names)


class MulticalibrationError(PooledMeasure):
    """MultiECCE, multicalibration: the largest ECCE of any slice, in sigmas.

    A slice is all rows, a value of a column, or a combination. A sigma is the standard deviation of
    observed less expected clicks per row of a calibrated model. The p-value is corrected for all
    slices.
    """

    name = "MultiECCE"
    formula = (
        "max_s ECCE_s / sigma_s, sigma_s = sqrt(sum_{i in s} w_i^2 p_i (1 - p_i)) / sum_{i in s} "
        "w_i; s: all rows, each value of a column, each combination of values"
    )
    reference = "Guy et al. (2025), arXiv:2506.11251; Tax et al. (2025), arXiv:2509.19884"
    aliases = ("multicalibration_error",)
    options = (
        Param(
            "columns",
            None,
            "the columns whose values make slices, 'country,slot'; required; null is a value",
            _columns,
        ),
        Param(
            "most_columns",
            3,
            "a slice has values of at most so many columns; 1: no combinations",
            integer(1, most=64),
        ),
        Param(
            "min_clicks",
            50,
            "slices with a smaller sum of p (1 - p), about their expected clicks, are left out: "
            "their error is not normal. With weights it is (sum of w p (1 - p))^2 / sum of w^2 p "
            "(1 - p)",
            number(least=0),
        ),
        REL,
        SAMPLING_RATE,
    )
    scores = "probability"
    higher_is_better = False
    range = (0.0, math.inf)

    def check_complete(self) -> None:
        if self.columns is None:
            raise MeasureError(
                f"{self.name}: columns must be given; write {self.name}(columns='country,slot')."
            )

    def columns_named(self) -> tuple[str, ...]:
        return tuple(self.columns.split(","))

    def state_key(self) -> Hashable:
        return "cells", self.columns, float(self.rel)

    def new_state(self, weighted: bool, threads: int) -> CellScores:
        return CellScores(len(self.columns_named()), weighted)

    def add_rows(self, state: CellScores, scored: Scored) -> None:
        codes = [scored.field(name) for name in self.columns_named()]
        # Models that score the same rows share these.
        cached = scored.labels.cached
        cell = cached(("cells", self.columns), lambda: _cell_of(codes))
        values = cached(("values of cells", self.columns), lambda: _values_of(cell, codes))
        positive = scored.labels.relevant_rows(self.rel)
        state.add(scored.score, cell, values, positive, scored.weight)
        if len(state) > MAX_SLICES:
            raise MeasureError(
                f"{self}: columns: must have at most {MAX_SLICES:,} combinations of values, got "
                f"{len(state):,} or more; name columns of fewer values, or bin them."
            )

    def pooled_value(self, state: CellScores, map_jobs: JobMap) -> PooledValue:
        slices = self.slices(state, map_jobs)
        if slices is None:
            return undefined("no_variance" if state.has_rows else "zero_weight")
        value = float(slices.sigmas.max())
        deviation = float(slices.deviation[0])
        details = {
            "p-value": min(len(slices.rows) * range_exceeds(value), 1.0),
            "slices": len(slices.rows),
            "multicalibration error": value * deviation,
            "minimum detectable error": float(slices.min_detectable_error[0]),
        }
        if slices.left_out:
            details["slices left out"] = slices.left_out
        return PooledValue(value, details=details)

    def slices(self, state: CellScores, map_jobs: JobMap) -> SliceCalibration | None:
        """Compute the calibration of each slice; None if predictions are certain."""
        if not state.has_rows:
            return None
        key = self.most_columns, float(self.sampling_rate)
        sums = state.computed(key, lambda: self._sums(state, map_jobs))
        return state.computed(
            (*key, float(self.min_clicks)), lambda: self._with_enough_clicks(*sums)
        )

    def _with_enough_clicks(
        self, codes: np.ndarray, sums: np.ndarray, errors: np.ndarray
    ) -> SliceCalibration | None:
        variance, information = sums[_VARIANCE], sums[_INFORMATION]
        if not variance[0] > 0:
            return None
        # The same number as the sum of p (1 - p), for weights of any unit.
        with np.errstate(invalid="ignore"):
            clicks = information * (information / variance)
        used = (variance > 0) & (clicks >= self.min_clicks)
        used[0] = True
        present = sums[_ROWS] > 0
        sums = sums[:, used]
        return SliceCalibration(
            self.columns_named(),
            codes[used],
            sums[_ROWS].astype(np.int64),
            sums[_WEIGHT],
            sums[_EXPECTED],
            sums[_OBSERVED],
            np.minimum(errors[used] / sums[_WEIGHT], 1.0),
            np.sqrt(sums[_VARIANCE]) / sums[_WEIGHT],
            int(np.count_nonzero(present & ~used)),
        )

    def _sums(
        self, state: CellScores, map_jobs: JobMap
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return codes, sums and the range of differences of each slice."""
        codes, slices = _slices_of(state.cells, self.most_columns)
        cells = np.zeros((len(slices), 2 * _TERMS))
        differences = np.zeros((len(codes), _PLACES))
        lowest = 0.0
        for score, kind, weight in state.ranges(map_jobs):
            p = score.astype(np.float64)
            if self.sampling_rate != 1:
                # Rounding in the recalibration may reverse neighbouring doubles.
                p = np.maximum(recalibrate(score, self.sampling_rate), lowest)
                np.maximum.accumulate(p, out=p)
                lowest = p[-1]
            _add_rows(frozen(p), frozen(kind), frozen(weight), slices, cells, differences)
        _finish(differences)
        totals = (cells[:, :_TERMS] + cells[:, _TERMS:]).T
        sums = _sum_cells(totals, slices, len(codes), state.weighted)
        return codes, sums, differences[:, _HIGH] - differences[:, _LOW]


def _sum_cells(totals: np.ndarray, slices: np.ndarray, count: int, weighted: bool) -> np.ndarray:
    """Sum the totals of cells over the cells of each slice, rounded once."""
    sums = np.empty((_TERMS, count))
    slice_of = slices.reshape(-1)

    def count_rows(counts: np.ndarray) -> np.ndarray:
        return np.bincount(slice_of, np.repeat(counts, slices.shape[1]), count)

    sums[_ROWS] = count_rows(totals[_ROWS])
    if not weighted:
        sums[_WEIGHT], sums[_OBSERVED] = sums[_ROWS], count_rows(totals[_OBSERVED])
    cell = np.argsort(slice_of) // slices.shape[1]
    ends = [0, *np.cumsum(np.bincount(slice_of, minlength=count)).tolist()]
    for term in _ROUNDED if weighted else (_EXPECTED, _INFORMATION):
        terms = totals[term, cell].tolist()
        sums[term] = [math.fsum(terms[lo:hi]) for lo, hi in pairwise(ends)]
    if not weighted:
        sums[_VARIANCE] = sums[_INFORMATION]
    return sums


def _cell_of(codes: Sequence[np.ndarray]) -> np.ndarray:
    """Number the combinations of codes from 0. int64, shape (rows,)."""
    cell = codes[0].astype(np.int64)
    for more in codes[1:]:
        cell *= int(more.max(initial=0)) + 1
        cell += more
        if cell.max(initial=0) > max(len(cell), _FEW_CELLS):
            cell, _ = encode_integers(cell)
    return _numbers_of(cell)[0]


def _numbers_of(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Encode distinct integers of at least 0; return numbers and their count."""
    largest = int(values.max(initial=-1))
    if largest > max(len(values), _FEW_CELLS):
        numbers, firsts = encode_integers(values)
        return numbers, len(firsts)
    present = np.zeros(largest + 1, np.bool_)
    present[values] = True
    numbers = np.cumsum(present)
    return numbers[values] - 1, int(numbers[-1]) if largest >= 0 else 0


def _values_of(cell: np.ndarray, codes: Sequence[np.ndarray]) -> np.ndarray:
    """Return the codes of each cell. int64, shape (cells, columns)."""
    row = np.empty(int(cell.max(initial=-1)) + 1, np.int64)
    row[cell] = np.arange(len(cell))
    return np.stack([column[row] for column in codes], axis=1).astype(np.int64)


def _slices_of(cells: np.ndarray, most_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """List the slices that cells belong to; see `_slices_of_bytes`."""
    return _slices_of_bytes(cells.tobytes(), cells.shape[1], most_columns)


@lru_cache(8)
def _slices_of_bytes(
    content: bytes, columns: int, most_columns: int
) -> tuple[np.ndarray, np.ndarray]:
    """List the slices that cells belong to; models share them.

    Parameters
    ----------
    content : bytes
        Codes of the values of each cell. int64, shape (cells, columns).
    columns, most_columns : int

    Returns
    -------
    codes : ndarray of int64, shape (slices, columns)
        -1 for every value. All rows come first.
    slices : ndarray of int64, shape (cells, slices of a cell), read-only
        Indices into `codes`.
    """
    cells = np.frombuffer(content, np.int64).reshape(-1, columns)
    rows = np.arange(len(cells))
    widths = [int(column.max()) + 1 for column in cells.T]
    # The number of each cell's combination of some columns.
    numbers: dict[tuple[int, ...], np.ndarray] = {(): np.zeros(len(cells), np.int64)}
    codes, slices, count = [np.full((1, columns), -1)], [numbers[()]], 1
    for size in range(1, min(most_columns, columns) + 1):
        for chosen in combinations(range(columns), size):
            *first, last = chosen
            keys = numbers[tuple(first)] * widths[last] + cells[:, last]
            numbers[chosen], combined = _numbers_of(keys)
            slices.append(numbers[chosen] + count)
            count += combined
            cell = np.empty(combined, np.int64)
            cell[numbers[chosen]] = rows
            part = np.full((combined, columns), -1)
            for column in chosen:
                part[:, column] = cells[cell, column]
            codes.append(part)
    return frozen(np.concatenate(codes)), frozen(np.stack(slices, axis=1))


#: The sums of a cell, followed by what each lost to rounding.
_ROWS, _WEIGHT, _OBSERVED, _EXPECTED, _VARIANCE, _INFORMATION = range(6)
_TERMS = 6
#: Sums of cells that are rounded if rows have weights; others are counts.
_ROUNDED = (_WEIGHT, _OBSERVED, _EXPECTED, _VARIANCE, _INFORMATION)
#: Of a slice: the sum of y - p below its last probability and what it lost to rounding, the
#: extremes of this sum, the last probability, and the rows that have it.
_SUM, _REST, _LOW, _HIGH, _PROBABILITY, _LAST_POSITIVE, _LAST_WEIGHT = range(7)
_PLACES = 8


@kernel
def _add_rows(p, kind, weight, slices, cells, differences):  # type: ignore[no-untyped-def]
    """Add rows in the order of their probabilities to their cells and slices.

    Rows of a slice with equal probabilities are added together, so their order does not matter.
    """
    weighted = weight.shape[0] > 0
    for i in range(p.shape[0]):
        probability = p[i]
        w = weight[i] if weighted else 1.0
        positive = w if kind[i] & 1 == 1 else 0.0
        expected = w * probability
        information = expected * (1.0 - probability)
        number = kind[i] >> 1
        cell = cells[number]
        cell[_ROWS] += 1.0
        _add_term(cell, _EXPECTED, _TERMS, expected)
        _add_term(cell, _INFORMATION, _TERMS, information)
        if weighted:
            _add_term(cell, _WEIGHT, _TERMS, w)
            _add_term(cell, _OBSERVED, _TERMS, positive)
            _add_term(cell, _VARIANCE, _TERMS, w * information)
        else:
            cell[_OBSERVED] += positive
        for j in range(slices.shape[1]):
            of_slice = differences[slices[number, j]]
            if of_slice[_PROBABILITY] != probability:
                _add_last(of_slice)
                of_slice[_PROBABILITY] = probability
            of_slice[_LAST_POSITIVE] += positive
            of_slice[_LAST_WEIGHT] += w


@kernel
def _finish(differences):  # type: ignore[no-untyped-def]
    """Add the last probability of each slice."""
    for k in range(differences.shape[0]):
        _add_last(differences[k])


@kernel
def _add_last(of_slice):  # type: ignore[no-untyped-def]
    """Add the rows of a slice that have the last probability."""
    term = of_slice[_LAST_POSITIVE] - of_slice[_LAST_WEIGHT] * of_slice[_PROBABILITY]
    _add_term(of_slice, _SUM, _REST - _SUM, term)
    difference = of_slice[_SUM] + of_slice[_REST]
    of_slice[_LOW] = min(of_slice[_LOW], difference)
    of_slice[_HIGH] = max(of_slice[_HIGH], difference)
    of_slice[_LAST_POSITIVE] = 0.0
    of_slice[_LAST_WEIGHT] = 0.0


@kernel
def _add_term(sums, at, rest, term):  # type: ignore[no-untyped-def]
    """Add a term to a sum; add what is lost to rounding `rest` places later."""
    sums[at], lost = two_sum(sums[at], term)
    sums[at + rest] += lost
