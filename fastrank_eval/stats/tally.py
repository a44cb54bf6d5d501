"""Add the groups of a chunk to the sums of all measures and slices.

`ExactSums` adds the terms of one measure. A chunk has many measures, and few groups: one kernel
adds them all, without Python in between. All terms share a window of digits. At the end of a run
states take the sums over. They are integers, so any other order of additions gives the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import kernel
from fastrank_eval._lib.threads import scratch, scratch_table
from fastrank_eval.stats.exact import (
    _DIGITS,
    _LARGEST,
    BLOCK,
    NO_SLICES,
    SAFE,
    UNIT,
    ExactSums,
    SliceCounts,
    States,
    _add_term,
    _add_terms,
    _digit_range,
    _factors_of,
    add_integer,
)
from fastrank_eval.stats.means import (
    _LOSSES,
    _ONLY_BASE,
    _ONLY_OTHER,
    _TIES,
    _WINS,
    EQUAL_WITHIN,
    KINDS,
    NESTED,
    PAIRED,
    MeanState,
    PairedState,
)

# Columns of a unit: a measure of a model, or of a pair of models.
_PAIRS, _TERM, _REASON, _WEIGHT, _EMPTY, _COUNTS, _FIRST, _FACTORS, _TERMS, _MEASURE, _MODEL = (
    range(11)
)
# The factors of all terms that units have.
_ALL_FACTORS = _factors_of(tuple(term for kind in KINDS[:NESTED] for term in kind))
# Counters of a slice: groups, rows and positives; the sums of n^2 and n^4 over groups of n rows, in
# parts of 31 bits.
_SIZES = 9
#: Counters of reasons that most measures need, and one that is not used.
_FEW_REASONS = 8
# Lines of integers by slice: what is counted of the slices of a chunk.
_PLACE, _ABSENT, _ABSENT_ROWS, _SLICE, _EDGE, _GROUPS, _ROWS, _POSITIVES = range(8)
# What the kernel returns: it is done, or has found too many slices, or too large a sum.
_DONE, _MORE_SLICES, _TOO_LARGE = -1, -2, -3
# The counter of a group that neither model uses: there is none.
_NEITHER = 5
#: Groups of a slice for which vectors are faster than one group after another.
_MIN_OF_SLICE = 16
# The digit that 1 is in, its bit, and the digits of a sum of n^4.
_ONE, _BIT, _SIZE_DIGITS = 2 * UNIT // 32, 2 * UNIT % 32, 7
_NO_ORDER = np.empty((3, 0), np.int64)
#: Digits from 2**-612 to 2**284 hold the sums of most numbers.
_LOWEST, _WIDTH = 48, 28


class Unit(NamedTuple):
    """A measure of groups: where a chunk has its numbers.

    Parameters
    ----------
    measure : int
        Its position in the plan.
    term : int
        The line of the terms of its sum.
    reason : int
        The line of the reasons why groups are left out.
    weight : int
        The line of its group weights, or -1 for weights of 1.
    empty : int
        The number of the reason why unranked groups are left out, or 0: their value is 0.
    in_slices : bool
        Whether slices have it.
    """

    measure: int
    term: int
    reason: int
    weight: int
    empty: int
    in_slices: bool


class Units:
    """What is added of a chunk: measures of models, and of pairs of models.

    Parameters
    ----------
    measures : sequence of Unit
    models : int
    baseline : int or None
        The model that every other is paired with.
    nested : bool
        The sums of clusters are added elsewhere; groups are only counted.
    """

    def __init__(
        self,
        measures: Sequence[Unit],
        models: int,
        baseline: int | None = None,
        nested: bool = False,
    ) -> None:
        self.measures = measures
        self.means, self.pairs, self.terms = models * len(measures), 0, 0
        places = [0, 0]
        #: The units of each model: of all rows, of slices, and those that slices do not have.
        self.all: list[np.ndarray] = []
        self.of_slices: list[np.ndarray] = []
        self.others: list[np.ndarray] = []
        for model in range(models):
            lines: list[tuple[int, ...]] = []
            for pairs in (0, 1) if baseline not in (None, model) else (0,):
                for m, term, reason, weight, empty, in_slices in measures:
                    if pairs and not in_slices:
                        continue
                    kind = PAIRED if pairs else int(weight >= 0)
                    count = 0 if nested else len(KINDS[kind])
                    lines.append((
                        pairs, term, reason, weight, empty, places[pairs], self.terms,
                        sum(map(len, KINDS[:kind])), count, m, model,
                    ))  # fmt: skip
                    self.terms += count
                    places[pairs] += 1
            self.pairs = places[1]
            table = np.array(lines, np.int64).reshape(-1, 11)
            sliced = {measure.measure for measure in measures if measure.in_slices}
            has_slices = np.array([line[_MEASURE] in sliced for line in lines], np.bool_)
            self.all.append(frozen(table))
            self.of_slices.append(frozen(table[has_slices]))
            self.others.append(frozen(table[~has_slices]))


class Measured(NamedTuple):
    """What one model's ranked groups contribute to each measure.

    Parameters
    ----------
    values : ndarray of float64, shape (measures or more, groups or more)
        Values after the policies, NaN where undefined; then other terms of sums.
    reasons : ndarray of uint8, shape (measures, groups or more)
        Why a group is left out, as a number; 0 if it is used.
    weights : ndarray of float64, shape (kinds of group weights, groups or more)
    """

    values: np.ndarray
    reasons: np.ndarray
    weights: np.ndarray


class RankedGroups(NamedTuple):
    """The groups of a chunk, and which of them one model ranks.

    Parameters
    ----------
    starts : ndarray of int64, shape (groups + 1,), read-only
        First row of each group of the chunk, then the number of rows.
    rows, positives : ndarray of int64, shape (ranked groups,), read-only
    ranked : ndarray of int64, read-only, or None
        Indices of the ranked groups, ascending; None: all. The labels of the others are all 0.
    """

    starts: np.ndarray
    rows: np.ndarray
    positives: np.ndarray
    ranked: np.ndarray | None

    def spread(self, values: np.ndarray, empty: float) -> np.ndarray:
        """Spread values of ranked groups over all groups; others get `empty`."""
        if self.ranked is None:
            return values[: len(self.rows)]
        of_all = np.empty(len(self.starts) - 1, values.dtype)
        of_all[:] = empty
        of_all[self.ranked] = values[: len(self.rows)]
        return of_all

    def spread_all(
        self, measured: Measured, units: Sequence[Unit]
    ) -> tuple[RankedGroups, Measured]:
        """Write what unranked groups contribute, too."""
        if self.ranked is None:
            return self, measured
        groups = len(self.starts) - 1
        values, reasons, weights = (
            np.full((len(table), groups), empty, table.dtype)
            for table, empty in zip(measured, (0.0, 0, 1.0), strict=True)
        )
        for unit in units:
            reasons[unit.reason] = unit.empty
            if unit.empty:
                values[unit.term] = np.nan
        for table, of_ranked in zip((values, reasons, weights), measured, strict=True):
            table[:, self.ranked] = of_ranked[:, : len(self.rows)]
        rows = np.diff(self.starts)
        rows[self.ranked] = self.rows
        positives = self.spread(self.positives, 0)
        all_ranked = RankedGroups(self.starts, frozen(rows), frozen(positives), None)
        return all_ranked, Measured(values, reasons, weights)


class Tally(States):
    """Exact sums and counts of one thread, by slice.

    Parameters
    ----------
    units : Units
    lines : sequence of ndarray of int64
        The units of each model that this tally has: all, or those of slices.
    """

    def __init__(self, units: Units, lines: Sequence[np.ndarray]) -> None:
        self._lines = lines
        # Many slices have digits, and counts of reasons, only for what occurs.
        sums, reasons = ExactSums([()] * units.terms), 1
        if lines is units.all:
            sums.ensure_digits(_LOWEST, _LOWEST + _WIDTH - 1)
            reasons = _FEW_REASONS
        self.parts = {
            "sums": sums,
            "sizes": SliceCounts.zeros(_SIZES),
            "counts": SliceCounts.zeros(3, units.means),
            "pairs": SliceCounts.zeros(5, units.pairs),
            "dropped": SliceCounts.zeros(reasons, units.means),
        }
        self._by_slice = np.empty((8, 2), np.int64)
        self._exponents, self._limits = np.empty((6, 2), np.int64), np.empty(6, np.int64)
        self._room = np.empty((2, BLOCK))

    def add(
        self,
        lines: np.ndarray,
        groups: RankedGroups,
        measured: Measured,
        base: Measured | None = None,
        slices: np.ndarray = NO_SLICES,
    ) -> int | None:
        """Add the groups of a chunk.

        Returns the position of a measure whose sum is too large, if there is one.

        Parameters
        ----------
        lines : ndarray of int64
            The units to add.
        groups : RankedGroups
        measured : Measured
        base : Measured, optional
            Of the baseline, which ranks the same groups; for units of pairs.
        slices : ndarray of int64, shape (groups,), or (0,), read-only
            The slice of each group of the chunk; an empty array stands for the first slice.
        """
        starts, rows, positives, ranked = groups
        number, count, start = len(rows), len(starts) - 1, 0
        order = _NO_ORDER
        if base is not None or len(slices):
            order = scratch_table("tally: order", 3, number, np.int64)
        numbers = scratch("tally: numbers", 7 * number, np.float64).reshape(7, number)
        bits, parts, sums = numbers.view(np.int64), self.parts, self.parts["sums"]
        while start != _DONE:
            start = _add_groups(
                lines, _ALL_FACTORS, *measured, *(base or measured), rows, positives, starts,
                starts if ranked is None else ranked, slices, order, numbers, bits,
                self._room, self._by_slice, parts["counts"].tables, parts["pairs"].tables,
                parts["dropped"].tables, sums.lowest, sums.digits, self._exponents, self._limits,
                start,
            )  # fmt: skip
            if start == _TOO_LARGE:
                return int(self._limits[0])
            if start == _MORE_SLICES:
                self._ensure_slices(int(self._limits[0]))
                start = 0
            elif start != _DONE:
                lowest, highest, *_, reason = self._limits.tolist()
                sums.ensure_digits(lowest, highest)
                parts["dropped"].ensure_width(reason + 1)
        # New digits carry, so additions are counted after them.
        sums.count_additions(count)
        return None

    def count(
        self,
        starts: np.ndarray,
        positives: np.ndarray,
        listed: np.ndarray | None,
        slices: np.ndarray = NO_SLICES,
    ) -> int:
        """Count groups, their rows and their positives; return the most rows.

        Parameters
        ----------
        starts : ndarray of int64, shape (groups + 1,), read-only
        positives : ndarray of int64, shape (listed groups,), read-only
            Positives of the groups that may have some.
        listed : ndarray of int64, shape (listed groups,), read-only, or None
            These groups; None: all.
        slices : ndarray of int64, shape (groups,), or (0,)
            As in `add`.
        """
        arrays = starts, positives, starts if listed is None else listed, slices
        most: int = _count_groups(*arrays, self.parts["sizes"].tables[0])
        if most < 0:
            self._ensure_slices(-most)
            most = _count_groups(*arrays, self.parts["sizes"].tables[0])
        return most

    def _ensure_slices(self, slices: int) -> None:
        for part in self.parts.values():
            part.ensure_slices(slices)
        self._by_slice = np.empty((8, self.parts["sizes"].tables.shape[1] + 1), np.int64)

    def of_all(self) -> Tally:
        """Sum the slices: the tally of all rows, if each row is in one slice."""
        return self.with_parts({name: part.over_slices() for name, part in self.parts.items()})

    def add_to(
        self,
        sizes: ExactSums | None,
        counts: SliceCounts,
        means: Sequence[MeanState],
        pairs_of: Mapping[int, PairedState],
        reasons: Sequence[str],
    ) -> None:
        """Add the sums to states, which may take over their memory.

        Parameters
        ----------
        sizes : ExactSums or None
            Gets n^2 and n^4 of groups of n rows.
        counts : SliceCounts
            Gets groups, rows and positives.
        means : sequence of MeanState
            Of each model.
        pairs_of : mapping of int to PairedState
            Of each model that is paired with the baseline.
        reasons : sequence of str
            By number; none if groups that are left out are not counted.
        """
        table = self.parts["sizes"].tables[0]
        counts.add(slice(3), table[:, :3])
        if sizes is not None:
            digits = np.zeros((2, len(table), _SIZE_DIGITS), np.int64)
            _add_sizes(table, digits)
            sizes.merge(ExactSums(sizes.terms, _ONE, digits, 1))
        dropped = self.parts["dropped"].tables
        occurring = dropped.any(axis=1).tolist()
        for pairs, *_, weight, _, place, first, _, terms, m, model in np.concatenate(
            self._lines
        ).tolist():
            state: MeanState | PairedState = pairs_of[model] if pairs else means[model]
            if terms:
                kind = PAIRED if pairs else int(weight >= 0)
                of_unit = self.parts["sums"].of_terms(KINDS[kind], slice(first, first + terms))
                state.merge_part((m, kind), of_unit)
            state.add_counts(m, self.parts["pairs" if pairs else "counts"].tables[place])
            if isinstance(state, MeanState) and reasons:
                for reason, occurs in enumerate(occurring[place]):
                    if occurs:
                        state.drop(m, reasons[reason], dropped[place, :, reason])


def add_groups(
    states: Sequence[MeanState],
    m: int,
    values: Sequence[np.ndarray],
    weights: Sequence[np.ndarray | None],
    rows: np.ndarray,
    positives: np.ndarray,
    slices: np.ndarray = NO_SLICES,
    pair: PairedState | None = None,
) -> bool:
    """Add groups to the states of one measure; of two models, to that of both.

    Parameters
    ----------
    states : sequence of MeanState
        Of each model.
    m : int
        Index of the measure.
    values : sequence of ndarray of float64, shape (groups,)
        Of each model, NaN where a group is not used.
    weights : sequence of ndarray of float64, shape (groups,), or None
        Of each model, above 0 where the group is used. None means 1 each.
    rows, positives : ndarray of int64, shape (groups,)
    slices : ndarray of int64, shape (groups,), or (0,)
    pair : PairedState, optional
        Of the first model and the second.

    Returns
    -------
    bool
        Whether every sum is finite. If not, the states are invalid.
    """
    nested, weighted = states[0].nested, weights[0] is not None
    unit = Unit(m, 0, 0, 0 if weighted else -1, 0, True)
    units = Units([unit], len(states), None if pair is None else 0, nested)
    tally = Tally(units, units.all)
    # Of one type: the kernel is compiled once.
    starts = frozen(np.arange(len(rows) + 1))
    groups = RankedGroups(starts, frozen(rows.view()), frozen(positives.view()), None)
    measured = []
    for value, weight in zip(values, weights, strict=True):
        of_weights = np.empty((0, len(rows))) if weight is None else np.array([weight], np.float64)
        measured.append(
            Measured(value[np.newaxis].copy(), np.isnan([value]).view(np.uint8), of_weights)
        )
    for lines, each in zip(units.all, measured, strict=True):
        if tally.add(lines, groups, each, measured[0], frozen(slices.view())) is not None:
            return False
    tally.add_to(None, SliceCounts.zeros(3), states, {} if pair is None else {1: pair}, ())
    return True


@kernel
def _count_groups(starts, positives, listed, slices, sizes):  # type: ignore[no-untyped-def]
    """Count groups, rows, positives, powers; return the most rows of a group.

    Nothing is counted if there are more slices than sizes; then their number is returned, below 0.
    """
    groups = starts.shape[0] - 1
    mask = (1 << 31) - 1
    if slices.shape[0] > 0:
        most = 0
        for g in range(groups):
            most = max(most, slices[g])
        if most >= sizes.shape[0]:
            return -1 - most
    all_listed = positives.shape[0] == groups
    for i in range(positives.shape[0]):
        g = i if all_listed else listed[i]
        sizes[slices[g] if slices.shape[0] > 0 else 0, 2] += positives[i]
    line = sizes[0]
    largest = np.int64(0)
    for g in range(groups):
        if slices.shape[0] > 0:
            line = sizes[slices[g]]
        n = starts[g + 1] - starts[g]
        square = n * n
        low = square & mask
        high = square >> 31
        lower = low * low
        middle = low * high
        upper = high * high
        line[0] += 1
        line[1] += n
        line[3] += low
        line[4] += high
        line[5] += lower & mask
        line[6] += (lower >> 31) + 2 * (middle & mask)
        line[7] += 2 * (middle >> 31) + (upper & mask)
        line[8] += upper >> 31
        largest = max(largest, n)
    return largest


@kernel
def _add_sizes(sizes, digits):  # type: ignore[no-untyped-def]
    """Write the sums of powers as digits."""
    for s in range(sizes.shape[0]):
        for part in range(3, 9):
            power = part - 3 if part < 5 else part - 5
            add_integer(sizes[s, part], _BIT + 31 * power, digits[0 if part < 5 else 1, s])


@kernel
def _add_groups(  # type: ignore[no-untyped-def]
    lines, factors, values, reasons, weights, base_values, base_reasons, base_weights, rows,
    positives, starts, ranked, slices, order, numbers, bits, room, by_slice, counts,
    pair_counts, dropped, lowest, digits, exponents, limits, start,
):  # fmt: skip
    """Add units from `start` on; return the first that needs more memory.

    If so, the first limits are the lowest and the highest digit that it and the rest need, and the
    last is the highest reason.
    """
    most = np.int64(0)
    for g in range(slices.shape[0]):
        most = max(most, slices[g])
    if most >= counts.shape[1]:
        limits[0] = most + 1
        return _MORE_SLICES
    number = rows.shape[0]
    present = _sort_groups(number, starts, ranked, slices, most + 1, order, by_slice)
    sliced = slices.shape[0] > 0
    absent = number < starts.shape[0] - 1
    limits[0] = _DIGITS
    limits[1] = -1
    limits[5] = 0
    needs = limits[2:5]
    is_counted = False
    failed = _DONE
    for u in range(start, lines.shape[0]):
        q = lines[u]
        weight = q[_WEIGHT]
        empty = q[_EMPTY]
        terms = q[_TERMS]
        paired = q[_PAIRS] > 0
        of_unit = factors[q[_FACTORS] : q[_FACTORS] + terms]
        value = values[q[_TERM]]
        reason = reasons[q[_REASON]]
        w = weights[weight] if weight >= 0 else value
        to = 2 if paired else 0
        why_out = _load(value, reason, w, weight >= 0, sliced, order, numbers[to], numbers[to + 1])
        used = 1 if weight < 0 else 2
        fits = True
        ones = False
        if not paired:
            limits[5] = max(limits[5], why_out, empty if absent else 0)
            fits = limits[5] < dropped.shape[2]
        else:
            of_base = base_values[q[_TERM]]
            why = base_reasons[q[_REASON]]
            w = base_weights[weight] if weight >= 0 else of_base
            _load(of_base, why, w, weight >= 0, sliced, order, numbers[0], numbers[1])
            _compare(of_base, why, value, reason, sliced, order, numbers)
            used = 6
            ones = absent and empty == 0 and terms > 0
        needs[1] = -1
        has_numbers = False
        if terms > 0:
            _digit_range(bits[:used], of_unit, exponents, needs)
            if needs[2] > _LARGEST:
                if not paired:
                    limits[0] = q[_MEASURE]
                    return _TOO_LARGE
                terms = 0
            has_numbers = terms > 0 and needs[1] >= 0
        if ones:
            needs[0] = min(needs[0], _ONE)
            needs[1] = max(needs[1], _ONE + 3)
        if needs[1] >= 0 and (needs[0] < lowest or needs[1] >= lowest + digits.shape[2]):
            fits = False
        if not fits or failed >= 0:
            if needs[1] >= 0:
                limits[0] = min(limits[0], needs[0])
                limits[1] = max(limits[1], needs[1])
            failed = u if failed < 0 else failed
            continue
        if not paired:
            if not is_counted:
                _count_ranked(rows, positives, sliced, order, by_slice, present)
                is_counted = True
            _count_used(
                reason, rows, positives, why_out > 0, sliced, order, by_slice, present, empty,
                counts[q[_COUNTS]], dropped[q[_COUNTS]],
            )  # fmt: skip
        else:
            _count_pairs(order, by_slice, present, empty, pair_counts[q[_COUNTS]])
            if ones:
                for j in range(present):
                    s = by_slice[_SLICE, j]
                    add_integer(
                        by_slice[_ABSENT, j], 2 * UNIT - 32 * lowest, digits[q[_FIRST] + 3, s]
                    )
        if has_numbers:
            least = exponents[0, 0]
            for k in range(1, used):
                least = min(least, exponents[k, 0])
            is_safe = least >= SAFE[0] and needs[2] <= SAFE[1]
            _add_runs(
                numbers, bits, exponents, of_unit, is_safe, sliced, order, by_slice, present,
                lowest, room, digits[q[_FIRST] : q[_FIRST] + terms],
            )  # fmt: skip
    return failed


@kernel
def _sort_groups(  # type: ignore[no-untyped-def]
    number, starts, ranked, slices, count, order, by_slice
):
    """Sort ranked groups by slice, count others; return the slices present."""
    groups = starts.shape[0] - 1
    absent = by_slice[_ABSENT]
    absent_rows = by_slice[_ABSENT_ROWS]
    edges = by_slice[_EDGE]
    edges[0] = 0
    if slices.shape[0] == 0:
        edges[1] = number
        by_slice[_SLICE, 0] = 0
        absent[0] = groups - number
        absent_rows[0] = 0
        if number < groups:
            absent_rows[0] = starts[groups] - starts[0]
            for i in range(number):
                absent_rows[0] -= starts[ranked[i] + 1] - starts[ranked[i]]
        return 1
    place = by_slice[_PLACE]
    for s in range(count):
        place[s] = 0
        absent[s] = 0
        absent_rows[s] = 0
    i = 0
    for g in range(groups):
        s = slices[g]
        if number == groups or (i < number and ranked[i] == g):
            place[s] += 1
            i += 1
        else:
            absent[s] += 1
            absent_rows[s] += starts[g + 1] - starts[g]
    present = 0
    for s in range(count):
        if place[s] + absent[s] > 0:
            by_slice[_SLICE, present] = s
            absent[present] = absent[s]
            absent_rows[present] = absent_rows[s]
            edges[present + 1] = edges[present] + place[s]
            place[s] = edges[present]
            present += 1
    for i in range(number):
        s = slices[i if number == groups else ranked[i]]
        order[0, place[s]] = i
        order[1, place[s]] = s
        place[s] += 1
    return present


@kernel
def _load(value, reason, weight, weighted, sliced, order, p, w):  # type: ignore[no-untyped-def]
    """Load p = w A and w, 0 for groups left out; return the top reason."""
    most = np.int64(0)
    for i in range(p.shape[0]):
        g = order[0, i] if sliced else i
        most = max(most, np.int64(reason[g]))
        w[i] = (weight[g] if weighted else 1.0) if reason[g] == 0 else 0.0
        p[i] = value[g] * w[i] if reason[g] == 0 else 0.0
    return most


@kernel
def _compare(base, why, other, reason, sliced, order, numbers):  # type: ignore[no-untyped-def]
    """Compare the values of two models: d, e, and the counter of each group."""
    for i in range(numbers.shape[1]):
        g = order[0, i] if sliced else i
        a = base[g]
        b = other[g]
        difference = 0.0
        result = _NEITHER
        if why[g] == 0 and reason[g] == 0:
            result = _TIES
            if abs(b - a) > EQUAL_WITHIN * max(abs(a), abs(b)):
                difference = b - a
                result = _WINS if b > a else _LOSSES
        elif why[g] == 0:
            result = _ONLY_BASE
        elif reason[g] == 0:
            result = _ONLY_OTHER
        order[2, i] = result
        numbers[4, i] = difference
        numbers[5, i] = numbers[2, i] - numbers[0, i]


@kernel
def _count_ranked(  # type: ignore[no-untyped-def]
    rows, positives, sliced, order, by_slice, present
):
    """Count the ranked groups of each slice, their rows and their positives."""
    for j in range(present):
        all_rows = np.int64(0)
        all_positives = np.int64(0)
        for i in range(by_slice[_EDGE, j], by_slice[_EDGE, j + 1]):
            g = order[0, i] if sliced else i
            all_rows += rows[g]
            all_positives += positives[g]
        by_slice[_ROWS, j] = all_rows
        by_slice[_POSITIVES, j] = all_positives


@kernel
def _count_used(  # type: ignore[no-untyped-def]
    reason, rows, positives, left_out, sliced, order, by_slice, present, empty, counts, dropped,
):  # fmt: skip
    """Count the groups that a measure uses, and those that it leaves out."""
    for j in range(present):
        s = by_slice[_SLICE, j]
        first = by_slice[_EDGE, j]
        end = by_slice[_EDGE, j + 1]
        groups = end - first
        all_rows = by_slice[_ROWS, j]
        all_positives = by_slice[_POSITIVES, j]
        if left_out:
            for i in range(first, end):
                g = order[0, i] if sliced else i
                if reason[g] > 0:
                    dropped[s, reason[g]] += 1
                    groups -= 1
                    all_rows -= rows[g]
                    all_positives -= positives[g]
        if empty > 0 and by_slice[_ABSENT, j] > 0:
            dropped[s, empty] += by_slice[_ABSENT, j]
        elif empty == 0:
            groups += by_slice[_ABSENT, j]
            all_rows += by_slice[_ABSENT_ROWS, j]
        counts[s, 0] += groups
        counts[s, 1] += all_rows
        counts[s, 2] += all_positives


@kernel
def _count_pairs(order, by_slice, present, empty, counts):  # type: ignore[no-untyped-def]
    """Count how the groups of two models compare."""
    for j in range(present):
        of_slice = counts[by_slice[_SLICE, j]]
        for i in range(by_slice[_EDGE, j], by_slice[_EDGE, j + 1]):
            if order[2, i] < _NEITHER:
                of_slice[order[2, i]] += 1
        if empty == 0:
            of_slice[_TIES] += by_slice[_ABSENT, j]


@kernel
def _add_runs(  # type: ignore[no-untyped-def]
    numbers, bits, exponents, factors, is_safe, sliced, order, by_slice, present, lowest, room,
    digits,
):  # fmt: skip
    """Add the terms of a unit: a slice by vectors, or many small slices."""
    j = 0
    while j < present:
        first = by_slice[_EDGE, j]
        if is_safe and (by_slice[_EDGE, j + 1] - first >= _MIN_OF_SLICE or not sliced):
            s = by_slice[_SLICE, j]
            for lo in range(first, by_slice[_EDGE, j + 1], BLOCK):
                count = min(BLOCK, by_slice[_EDGE, j + 1] - lo)
                for term in range(factors.shape[0]):
                    _add_term(
                        factors[term], numbers, exponents, lo, count, lowest, room, digits[term, s]
                    )
            j += 1
            continue
        while j < present and not (
            is_safe and by_slice[_EDGE, j + 1] - by_slice[_EDGE, j] >= _MIN_OF_SLICE
        ):
            j += 1
        end = by_slice[_EDGE, j]
        _add_terms(
            numbers, bits, first, end, factors, order[1, first : end if sliced else first], lowest,
            numbers[6], bits[6], digits,
        )  # fmt: skip
