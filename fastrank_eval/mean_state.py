"""Exact sums over groups of a model's measures, one line a slice, and their coverage.

A mean over groups is a ratio of sums. Its standard error needs sums of squares and of products too.
They are those of the upper 26 bits of a number, which a cell adds up by themselves anyway: their
products have 52 bits, so these sums are exact as well, a sum of squared deviations is never below
zero, and it is zero where all values are equal. No product passes the largest double or falls below
the smallest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from fastrank_eval.columns import frozen
from fastrank_eval.exact_cells import LOW_BITS, SCALE, Cells
from fastrank_eval.kernel import kernel
from fastrank_eval.line_counts import LineCounts
from fastrank_eval.saved_cells import loaded_cells, saved_cells
from fastrank_eval.saved_parts import Parts
from fastrank_eval.uncertainty import Moments

#: Where there are no slices, every group adds to the first line.
ONE_LINE = frozen(np.empty(0, np.int64))

# Counters of a line.
_USED, _ROWS, _POSITIVES = range(3)


class MeanState:
    """Sums of one model's measures over groups, and their coverage.

    Parameters
    ----------
    measures : int
        Number of measures.
    """

    def __init__(self, measures: int) -> None:
        # Of each exponent: lower and upper bits; lower and upper bits of squares of upper bits.
        self._weighted = [Cells(4) for _ in range(measures)]
        self._weights = [Cells(4) for _ in range(measures)]
        # Products of the upper bits of both, by the sum of their exponents.
        self._products = [Cells(2) for _ in range(measures)]
        self._counts = [LineCounts(3) for _ in range(measures)]
        self._dropped: list[dict[str, LineCounts]] = [{} for _ in range(measures)]

    def add(
        self,
        m: int,
        values: np.ndarray,
        weights: np.ndarray | None,
        rows: np.ndarray,
        positives: np.ndarray,
        lines: np.ndarray = ONE_LINE,
    ) -> bool:
        """Add groups; those whose value is NaN are passed over.

        Parameters
        ----------
        m : int
            Which measure.
        values : ndarray of float64, shape (groups,)
            NaN where the group is not used.
        weights : ndarray of float64, shape (groups,), or None
            Group weights, above 0 where the group is used; None: 1 each.
        rows, positives : ndarray of int64, shape (groups,)
            What the groups hold, for coverage.
        lines : ndarray of int64, shape (groups,), or (0,)
            The line that each group is added to; without entries the first.

        Returns
        -------
        bool
            Whether every number was finite; otherwise the state is spoiled.
        """
        sums, counts = self._weighted[m], self._counts[m]
        if len(lines):
            needed = int(lines.max()) + 1
            for held in (sums, self._weights[m], self._products[m], counts):
                held.hold_lines(needed)
        done, groups = 0, len(values)
        if weights is None:
            bits = values.view(np.int64)
            while done < groups:
                done = _add_alike(
                    done, values, bits, rows, positives, lines, sums.low, sums.table, counts.table
                )
                if done < 0:
                    return False
                if done < groups:
                    sums.hold(_exponent(bits[done]))
            return True
        weights = np.ascontiguousarray(weights, np.float64)
        weighed, crossed = self._weights[m], self._products[m]
        products = weights * values
        bits, weight_bits = products.view(np.int64), frozen(weights.view(np.int64))
        while done < groups:
            done = _add_weighed(
                done,
                products,
                bits,
                weight_bits,
                rows,
                positives,
                lines,
                sums.low,
                sums.table,
                weighed.low,
                weighed.table,
                crossed.low,
                crossed.table,
                counts.table,
            )
            if done < 0:
                return False
            if done < groups:
                of_value, of_weight = _exponent(bits[done]), _exponent(weight_bits[done])
                weighed.hold(of_weight)
                if products[done]:
                    sums.hold(of_value)
                    crossed.hold(max(of_value - 1, 0) + max(of_weight - 1, 0))
        return True

    def add_zeros(self, m: int, groups: np.ndarray | int, rows: np.ndarray | int) -> None:
        """Add groups of value 0, weight 1 and no positives to each line: how many, of what rows."""
        self._counts[m].add(_USED, groups)
        self._counts[m].add(_ROWS, rows)

    def drop(self, m: int, reason: str, groups: np.ndarray | int) -> None:
        """Count groups of each line that measure `m` does not use."""
        if np.any(groups):
            self._dropped[m].setdefault(reason, LineCounts(1)).add(0, groups)

    def merge(self, other: MeanState) -> None:
        """Add another state; the order of merging does not matter."""
        for mine, theirs in (
            (self._weighted, other._weighted),
            (self._weights, other._weights),
            (self._products, other._products),
        ):
            for sums, more in zip(mine, theirs, strict=True):
                sums.merge(more)
        for counts, more_counts in zip(self._counts, other._counts, strict=True):
            counts.merge(more_counts)
        for m, dropped in enumerate(other._dropped):
            for reason, groups in dropped.items():
                self._dropped[m].setdefault(reason, LineCounts(1)).merge(groups)

    def take(self, lines: np.ndarray) -> MeanState:
        """The sums of some lines, in that order; zeros for -1."""
        taken = MeanState(len(self._counts))
        for mine, theirs in zip(self._cells().values(), taken._cells().values(), strict=True):
            theirs[:] = [cells.take(lines) for cells in mine]
        taken._counts = [counts.take(lines) for counts in self._counts]
        taken._dropped = [
            {reason: groups.take(lines) for reason, groups in dropped.items()}
            for dropped in self._dropped
        ]
        return taken

    def of_measures(self, chosen: Sequence[int]) -> MeanState:
        """The sums of some measures, which are shared."""
        found = MeanState(0)
        for mine, theirs in zip(self._cells().values(), found._cells().values(), strict=True):
            theirs[:] = [mine[m] for m in chosen]
        found._counts = [self._counts[m] for m in chosen]
        found._dropped = [self._dropped[m] for m in chosen]
        return found

    def saved(self) -> Parts:
        """Cells that are not 0 with their places, counters, and groups dropped by reason.

        Every line that there is room for is told; `take` leaves those that matter.
        """
        counts = np.stack([counts.table for counts in self._counts])
        parts: Parts = {"counts": counts}
        for name, cells in self._cells().items():
            parts |= saved_cells(name, cells, counts.shape[1])
        found = {
            reason
            for dropped in self._dropped
            for reason, groups in dropped.items()
            if groups.table.any()
        }
        parts["reasons"] = np.frombuffer("\n".join(sorted(found)).encode(), np.uint8)
        parts["dropped"] = np.zeros((*counts.shape[:2], len(found)), np.int64)
        every = np.arange(counts.shape[1])
        for r, reason in enumerate(sorted(found)):
            for m, dropped in enumerate(self._dropped):
                if reason in dropped:
                    parts["dropped"][m, :, r] = dropped[reason].take(every).table[:, 0]
        return parts

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        counts = parts["counts"]
        state = cls(len(counts))
        for name, cells in state._cells().items():
            cells[:] = loaded_cells(parts, name, counts.shape[:2], cells[0].table.shape[2])
        state._counts = [LineCounts.of(table.copy()) for table in counts]
        reasons = parts["reasons"].tobytes().decode().split("\n")
        for m, dropped in enumerate(parts["dropped"]):
            for reason, groups in zip(reasons, dropped.T, strict=False):
                state.drop(m, reason, groups)
        return state

    def _cells(self) -> dict[str, list[Cells]]:
        return {"values": self._weighted, "weights": self._weights, "products": self._products}

    def mean(self, m: int, weighted: bool, line: int = 0) -> float:
        """The weighted mean, correctly rounded from the exact sums; NaN without a group."""
        above = self._weighted[m].sum(line)
        below = self._weights[m].sum(line) if weighted else self.used(m, line) << SCALE
        return above / below if below else float("nan")

    def weight(self, m: int, weighted: bool, line: int = 0) -> float:
        """The sum of weights of the groups used, correctly rounded; inf past the largest double."""
        if not weighted:
            return float(self.used(m, line))
        return _scaled(self._weights[m].sum(line))

    def sum(self, m: int, line: int = 0) -> float:
        """The weighted sum, correctly rounded; NaN without a group, inf past the largest double."""
        if not self.used(m, line):
            return float("nan")
        return _scaled(self._weighted[m].sum(line))

    def moments(self, m: int, weighted: bool, line: int = 0) -> Moments:
        """What standard errors are computed from, exactly."""
        groups, values, unit = self.used(m, line), self._weighted[m], SCALE - LOW_BITS
        first, second = values.upper(line), values.squares(line)
        if not weighted:
            return Moments(groups, first, groups << unit, second, None, None, unit)
        weights = self._weights[m]
        return Moments(
            groups,
            first,
            weights.upper(line),
            second,
            self._products[m].products(line),
            weights.squares(line),
            unit,
        )

    def used(self, m: int, line: int = 0) -> int:
        """Groups used."""
        return self._counts[m].at(line, _USED)

    def rows(self, m: int, line: int = 0) -> int:
        """Rows of the groups used."""
        return self._counts[m].at(line, _ROWS)

    def positives(self, m: int, line: int = 0) -> int:
        """Positives of the groups used."""
        return self._counts[m].at(line, _POSITIVES)

    def dropped(self, m: int, line: int = 0) -> dict[str, int]:
        """Groups not used, by reason, in the order of the alphabet."""
        found = {reason: counts.at(line, 0) for reason, counts in self._dropped[m].items()}
        return {reason: groups for reason, groups in sorted(found.items()) if groups}


def _scaled(total: int) -> float:
    """A sum of cells as a double; inf past the largest."""
    try:
        return total / (1 << SCALE)
    except OverflowError:
        return float("inf")


def _exponent(bits: np.int64) -> int:
    """The binary exponent of a double, from its bits."""
    return int(bits) >> 52 & 0x7FF


@kernel
def _add_alike(  # type: ignore[no-untyped-def]
    begin, values, bits, rows, positives, lines, low, cells, counts
):
    """Add from one group on; the group whose exponent does not fit, -1 for one not finite."""
    # Unsigned places: below the window and beyond it are one comparison, and none is negative.
    window = np.uint64(cells.shape[1])
    line = np.uint64(0)
    used = np.int64(0)
    used_rows = np.int64(0)
    used_positives = np.int64(0)
    for g in range(begin, values.shape[0]):
        value = values[g]
        if value != value:
            continue
        b = bits[g]
        exponent = (b >> 52) & 0x7FF
        at = np.uint64(exponent - low)
        if value != 0.0 and (at >= window or exponent == 0x7FF):
            counts[line, 0] += used
            counts[line, 1] += used_rows
            counts[line, 2] += used_positives
            return g if exponent != 0x7FF else -1
        if lines.shape[0] > 0 and np.uint64(lines[g]) != line:
            counts[line, 0] += used
            counts[line, 1] += used_rows
            counts[line, 2] += used_positives
            line = np.uint64(lines[g])
            used = np.int64(0)
            used_rows = np.int64(0)
            used_positives = np.int64(0)
        used += 1
        used_rows += rows[g]
        used_positives += positives[g]
        if value == 0.0:
            continue
        mantissa = b & 0xFFFFFFFFFFFFF
        if exponent > 0:
            mantissa |= 1 << 52
        lower = mantissa & 0x7FFFFFF
        upper = mantissa >> 27
        square = upper * upper
        if b < 0:
            lower = -lower
            upper = -upper
        cells[line, at, 0] += lower
        cells[line, at, 1] += upper
        cells[line, at, 2] += square & 0x3FFFFFF
        cells[line, at, 3] += square >> 26
    counts[line, 0] += used
    counts[line, 1] += used_rows
    counts[line, 2] += used_positives
    return values.shape[0]


@kernel
def _add_weighed(  # type: ignore[no-untyped-def]
    begin,
    products,
    bits,
    weights,
    rows,
    positives,
    lines,
    low,
    cells,
    weight_low,
    weight_cells,
    product_low,
    product_cells,
    counts,
):
    """Add from one group on; the group whose exponents do not fit, -1 for one not finite."""
    window = np.uint64(cells.shape[1])
    weight_window = np.uint64(weight_cells.shape[1])
    product_window = np.uint64(product_cells.shape[1])
    line = np.uint64(0)
    used = np.int64(0)
    used_rows = np.int64(0)
    used_positives = np.int64(0)
    for g in range(begin, products.shape[0]):
        product = products[g]
        if product != product:
            continue
        b = bits[g]
        exponent = (b >> 52) & 0x7FF
        c = weights[g]
        of_weight = (c >> 52) & 0x7FF
        at = np.uint64(exponent - low)
        at_weight = np.uint64(of_weight - weight_low)
        across = exponent - (exponent > 0) + of_weight - (of_weight > 0)
        at_product = np.uint64(across - product_low)
        fits = at_weight < weight_window
        if product != 0.0:
            fits = fits and at < window and at_product < product_window
        if not fits or exponent == 0x7FF or of_weight == 0x7FF:
            counts[line, 0] += used
            counts[line, 1] += used_rows
            counts[line, 2] += used_positives
            return g if exponent != 0x7FF and of_weight != 0x7FF else -1
        if lines.shape[0] > 0 and np.uint64(lines[g]) != line:
            counts[line, 0] += used
            counts[line, 1] += used_rows
            counts[line, 2] += used_positives
            line = np.uint64(lines[g])
            used = np.int64(0)
            used_rows = np.int64(0)
            used_positives = np.int64(0)
        used += 1
        used_rows += rows[g]
        used_positives += positives[g]
        mantissa = c & 0xFFFFFFFFFFFFF
        if of_weight > 0:
            mantissa |= 1 << 52
        weight = mantissa >> 27
        square = weight * weight
        weight_cells[line, at_weight, 0] += mantissa & 0x7FFFFFF
        weight_cells[line, at_weight, 1] += weight
        weight_cells[line, at_weight, 2] += square & 0x3FFFFFF
        weight_cells[line, at_weight, 3] += square >> 26
        if product == 0.0:
            continue
        mantissa = b & 0xFFFFFFFFFFFFF
        if exponent > 0:
            mantissa |= 1 << 52
        lower = mantissa & 0x7FFFFFF
        upper = mantissa >> 27
        square = upper * upper
        if b < 0:
            lower = -lower
            upper = -upper
        cells[line, at, 0] += lower
        cells[line, at, 1] += upper
        cells[line, at, 2] += square & 0x3FFFFFF
        cells[line, at, 3] += square >> 26
        crossed = upper * weight
        product_cells[line, at_product, 0] += crossed & 0x3FFFFFF
        product_cells[line, at_product, 1] += crossed >> 26
    counts[line, 0] += used
    counts[line, 1] += used_rows
    counts[line, 2] += used_positives
    return products.shape[0]
