"""Compute the measures of groups by a program that one kernel runs.

A program is a table with a line for each measure of groups: where its gains, weights and discounts
are. The kernel calls the loop of each measure by its address. Measures in Python fill their values
before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.elementary import LOG, elementary
from fastrank_eval._lib.errors import MeasureError, UndefinedError
from fastrank_eval._lib.jit import call_by_address, kernel
from fastrank_eval._lib.threads import scratch, scratch_table, set_scratch_aside
from fastrank_eval.groups.ranking import Ranking
from fastrank_eval.groups.sort import sort_descending, sort_group_codes
from fastrank_eval.measures.base import (
    GROUP_WEIGHTS,
    LEAST_OF_GEOMETRIC,
    GroupFunction,
    Measure,
    of_package,
)
from fastrank_eval.measures.gain import discount_table
from fastrank_eval.stats.tally import Measured, RankedGroups, Unit

#: Columns of a line: the least relevant grade, the gains, the gains in descending order, the
#: discounts, the cutoff, the group weights (-1: none), the line of the terms of the sum, and which
#: rows it reads: labelled rows, these and unjudged ones, or pairs of an intent and a row.
_REL, _GAIN, _BEST, _TABLE, _CUTOFF, _WEIGHT, _TERM, _ROWS = range(8)
#: How groups are weighted.
_IMPRESSIONS, _POSITIVES, _PAIRS, _COLUMN = range(4)
#: Reasons of every program; others follow.
_NO_RELEVANT, _ZERO_WEIGHT = 1, 2
#: What the kernel refuses.
_UNDEFINED, _INFINITE = 1, 2
#: Discounts of so many ranks are kept in any case; no list has so many ranks.
_FEW_RANKS, _MANY_RANKS = 1 << 10, 1 << 60
#: Their indices are bytes.
_MOST_REASONS = 255
#: Sets of distinct grades whose gains are kept.
_MOST_SETS = 64

_NO_NUMBERS = frozen(np.empty(0))
_Item = TypeVar("_Item", bound=Hashable)


class GradedGains(NamedTuple):
    """The gains of distinct grades, and their order, for each gain function.

    Parameters
    ----------
    gains : ndarray of float64, shape (gain functions, grades)
    descending : ndarray of int64, shape (gain functions, grades)
        Indices of the grades, the largest gain first.
    """

    gains: np.ndarray
    descending: np.ndarray


class Program:
    """The measures of groups of a plan, as tables.

    Parameters
    ----------
    measures : sequence of Measure
        All measures of the plan; pooled ones have no line.
    policies : mapping of str to str
        As those of `Plan`.
    only_relevant : bool
        Leave out groups without a positive.
    """

    def __init__(
        self,
        measures: Sequence[Measure],
        policies: Mapping[str, str],
        only_relevant: bool,
    ) -> None:
        self._of_measures, self._only_relevant = policies, only_relevant
        #: Whether code of others runs, which may evaluate other rows meanwhile.
        self._runs_own_code = not all(of_package(type(measure)) for measure in measures)
        self.reasons = ["", "no_relevant", "zero_weight"]
        #: The positions of the measures in the plan, and their lines.
        self.positions = [m for m, measure in enumerate(measures) if not measure.pooled]
        self.line_of = {m: line for line, m in enumerate(self.positions)}
        self.measures = [measures[m] for m in self.positions]
        self._functions = [_function_of(measure) for measure in self.measures]
        self._rels: list[float] = [1.0]
        self._gains: list[Hashable] = []
        self._gain_measures: list[Measure] = []
        self._bests: list[tuple[int, bool]] = []
        self._kinds: list[tuple[int, int, bool, bool, str]] = []
        self._discounts: list[tuple[str, float]] = []
        self._deepest: list[int] = []
        self._lines = np.zeros((len(self.measures), 8), np.int64)
        terms = len(self.measures)
        for m, (measure, line) in enumerate(zip(self.measures, self._lines, strict=True)):
            line[_CUTOFF], line[_TERM] = measure.last_rank(), m
            line[_WEIGHT] = self._weight(measure)
            if measure.aggregate == "geometric mean":
                line[_TERM], terms = terms, terms + 1
            if self._functions[m] is not None:
                self._fill(measure, line)
        self._term_lines = terms
        #: The line of each measure's group weights, -1 if each group weighs 1.
        self.weight_lines: list[int] = self._lines[:, _WEIGHT].tolist()
        self._numbers = _table([measure.numbers() for measure in self.measures])
        reasons = [() if f is None else f.reasons for f in self._functions]
        self._codes = _table([[0, *map(self.code_of, each)] for each in reasons]).astype(np.int64)
        self._policies = _table(
            [[0.0, *(_as_number(policy_of(policies, m, why)) for why in each)]
             for m, each in zip(self.measures, reasons, strict=True)]
        )  # fmt: skip
        self._most_ranks = max(self._deepest, default=0) if all(self._deepest) else _MANY_RANKS
        self._of_grades: dict[bytes, GradedGains] = {}
        self._uses_scratch = any(f is not None and f.uses_scratch for f in self._functions)
        self._supported = np.inf, -np.inf
        self._selections: dict[tuple[bool, bool | None], np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out addresses, which another process has not."""
        return {name: value for name, value in vars(self).items() if name != "_addresses"}

    def _fill(self, measure: Measure, line: np.ndarray) -> None:
        """Write where the loop of a measure finds its numbers."""
        line[_REL] = _index(self._rels, measure.rel_or_default)
        line[_ROWS] = 2 if measure.needs_subtopics else measure.needs_judgments
        key, table = measure.gain_key(), measure.discounts()
        if key is not None:
            # A class that is derived from another has gains of its own under the same key.
            line[_GAIN] = _index(self._gains, (type(measure).gains_of, key))
            if line[_GAIN] == len(self._gain_measures):
                self._gain_measures.append(measure)
            if measure.best_gains:
                line[_BEST] = _index(
                    self._bests, (int(line[_GAIN]), measure.best_gains == "retrieved")
                )
        if table is not None:
            line[_TABLE] = _index(self._discounts, table)
            depth = measure.last_rank()
            if line[_TABLE] == len(self._deepest):
                self._deepest.append(depth)
            else:
                known = self._deepest[line[_TABLE]]
                self._deepest[line[_TABLE]] = max(known, depth) if known and depth else 0

    def _weight(self, measure: Measure) -> int:
        """Return the line of a measure's group weights, -1 if each group weighs 1."""
        kind, of_every_row = measure.weight, measure.ranks_every_row
        if kind == "uniform":
            return -1
        if kind not in GROUP_WEIGHTS:
            return _index(self._kinds, (_COLUMN, 0, False, of_every_row, kind))
        code = {"impressions": _IMPRESSIONS, "positives": _POSITIVES, "pairs": _PAIRS}[kind]
        rel = _index(self._rels, measure.rel_or_default)
        return _index(self._kinds, (code, rel, measure.uses_row_weights, of_every_row, ""))

    def code_of(self, reason: str) -> int:
        """Return the index of a reason in `reasons`, which may grow."""
        if reason not in self.reasons and len(self.reasons) > _MOST_REASONS:
            raise MeasureError(
                f"reasons: must be at most {_MOST_REASONS} texts for all measures of a run, got "
                f"{reason!r} too; yield one text for all groups of a kind."
            )
        return _index(self.reasons, reason)

    def terms(
        self, m: int, groups: RankedGroups, measured: Measured
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Select the terms of a measure's sum, and the group weights.

        `m` is the position of the measure in the plan. Terms are NaN where a group is left out.
        """
        line, count = self._lines[self.line_of[m]], len(groups.rows)
        left_out = measured.reasons[self.line_of[m], :count] != 0
        weights = measured.weights[line[_WEIGHT], :count] if line[_WEIGHT] >= 0 else None
        return np.where(left_out, np.nan, measured.values[line[_TERM], :count]), weights

    def unit(self, line: int, empty: str | None) -> Unit:
        """Tell where a measure's numbers are.

        `empty` is why unranked groups are left out.
        """
        term, weight = self._lines[line, [_TERM, _WEIGHT]].tolist()
        number = self.code_of(empty) if empty else 0
        in_slices = self.measures[line].in_slices
        return Unit(self.positions[line], term, line, weight, number, in_slices)

    @cached_property
    def ranks_every_row(self) -> bool:
        """Whether a measure ranks rows without a score."""
        return any(measure.ranks_every_row for measure in self.measures)

    @cached_property
    def _addresses(self) -> np.ndarray:
        """The address of each loop, 0 of measures in Python."""
        return np.array([0 if f is None else f.loop.address for f in self._functions], np.int64)

    @cached_property
    def _with_ideals(self) -> list[int]:
        """Lines of the measures that have ideals."""
        given = [type(measure).ideals is not Measure.ideals for measure in self.measures]
        return np.flatnonzero(given).tolist()

    @cached_property
    def _in_python(self) -> list[list[int]]:
        """Lines of the measures that Python computes together."""
        by_key: dict[Hashable, list[int]] = {}
        for m, measure in enumerate(self.measures):
            if self._functions[m] is None:
                by_key.setdefault(measure.shared_key(), []).append(m)
        return list(by_key.values())

    def measure(
        self,
        ranking: Ranking,
        every_row: Ranking | None,
        model: int,
        in_slices: bool,
        columns: Mapping[str, np.ndarray],
        name: Callable[[int], str],
    ) -> Measured:
        """Compute every measure of the ranked groups of one model.

        Parameters
        ----------
        ranking : Ranking
        every_row : Ranking or None
            Of the same groups, with the rows that have no score; None if each has one.
        model : int
        in_slices : bool
            Leave out measures that slices do not have.
        columns : mapping of str to ndarray of float64
            Columns that measures name as group weights, of all groups of the chunk.
        name : callable
            Maps the position of a group to the text of its key, for messages.
        """
        if self._runs_own_code:
            set_scratch_aside()
        lines, groups = self._term_lines, len(ranking.rows)
        numbers = self._room(f"numbers {model}", lines + len(self._kinds), groups)
        reasons = self._room(f"reasons {model}", len(self.measures), groups, np.uint8)
        measured = Measured(numbers[:lines], reasons, numbers[lines:])
        errors: list[tuple[int, Exception]] = []
        for one, of_every_row in ((ranking, False), (every_row, True)):
            if one is not None:
                kind = None if every_row is None else of_every_row
                selected = self._selected(in_slices, kind)
                errors += self._measure(one, selected, measured, columns, name)
        if errors:  # that of the first measure, whoever computes it
            raise min(errors, key=itemgetter(0))[1]
        return measured

    def _room(self, use: str, lines: int, length: int, dtype: Any = np.float64) -> np.ndarray:
        """Return a table that the thread's next call for the same use overwrites."""
        if self._runs_own_code:
            return np.empty((lines, length), dtype)
        return scratch_table(use, lines, length, dtype)

    def _selected(self, in_slices: bool, of_every_row: bool | None) -> np.ndarray:
        """Mark measures of slices alone, and those that rank every row or do not."""
        key = in_slices, of_every_row
        if key not in self._selections:
            self._selections[key] = np.array(
                [
                    (m.in_slices or not in_slices) and of_every_row in (None, m.ranks_every_row)
                    for m in self.measures
                ]
            )
        return self._selections[key]

    def _measure(
        self,
        ranking: Ranking,
        selected: np.ndarray,
        measured: Measured,
        columns: Mapping[str, np.ndarray],
        name: Callable[[int], str],
    ) -> list[tuple[int, Exception]]:
        """Compute measures of one ranking; return errors, and their lines."""
        values, reasons, weights = measured
        errors: list[tuple[int, Exception]] = []
        self._check_grades(ranking, selected)
        for lines in self._in_python:
            lines = [m for m in lines if selected[m]]
            if lines:
                errors += self._compute(ranking, lines, values, reasons, name)
        groups, rels = len(ranking.rows), len(self._rels)
        for m in self._with_ideals:
            if selected[m]:
                values[m, :groups] = self.measures[m].ideals(ranking)
        for w, (kind, _, _, _, column) in enumerate(self._kinds):
            if kind == _COLUMN:
                weights[w, :groups] = columns[column][_all_or(ranking.ranked_groups)]
        entries = ranking.offsets, ranking.above, ranking.size, ranking.grade
        judged, covering = ranking.judged, ranking.covering
        row_weights = ranking.weights
        of_rows: Sequence[np.ndarray] = (_NO_NUMBERS,) * 4
        if row_weights is not None:
            of_zeros = row_weights.zeros_above, row_weights.zeros_tied, row_weights.zeros
            of_rows = [*map(frozen, (row_weights.labelled, *of_zeros))]
        graded, codes = self._graded(ranking)
        gains = best = _NO_GAINS
        if self._gains:
            many = len(self._gains)
            room = self._room("gains", many + len(self._bests), len(ranking.grade))
            gains, best = room[:many], room[many:]
        if graded is None:
            for k, measure in enumerate(self._gain_measures):
                gains[k, : len(ranking.grade)] = measure.gains_of(ranking.grade)
            graded = GradedGains(np.empty((len(gains), 0)), np.empty((len(gains), 0), np.int64))
        ranks, longest = _NO_RANKS, 0
        if self._uses_scratch or self._most_ranks > _FEW_RANKS:
            longest = int(ranking.rows.max(initial=0))
            ranks = scratch("ranks", longest + 2, np.float64)
        zeros = np.zeros(260, np.int64)
        error = zeros[256:]
        _run(
            selected, self._addresses, self._lines, self._numbers, self._policies, self._codes,
            self._rel_table, self._kind_table, self._best_table,
            self._only_relevant, row_weights is not None, ranking.unretrieved_relevant,
            ranking.rows, ranking.retrieved, ranking.block_above, ranking.block_size, *entries,
            *(map(frozen, judged) if judged else entries),
            *(map(frozen, covering) if covering else entries),
            *of_rows, codes, graded.gains, graded.descending, *self._discount_tables(longest),
            self._room("counts", 2 * rels, groups, np.int64), gains, best, weights, values, reasons,
            ranks, zeros[:256], error,
        )  # fmt: skip
        if error[0]:
            errors.append((int(error[1]), self._error(ranking, error.tolist(), name)))
        return errors

    @cached_property
    def _rel_table(self) -> np.ndarray:
        return np.array(self._rels)

    @cached_property
    def _kind_table(self) -> np.ndarray:
        kinds = [(kind, rel, by_class) for kind, rel, by_class, _, _ in self._kinds]
        return np.array(kinds, np.int64).reshape(-1, 3)

    @cached_property
    def _best_table(self) -> np.ndarray:
        return np.array(self._bests, np.int64).reshape(-1, 2)

    def _check_grades(self, ranking: Ranking, selected: np.ndarray) -> None:
        """Raise if a measure does not support a grade."""
        least, most = ranking.min_grade, ranking.max_grade
        if self._supported[0] <= least and most <= self._supported[1]:
            return
        for m in np.flatnonzero(selected).tolist():
            self.measures[m].check_grades(ranking)
        # Other grades between these may be missing in a table of gains.
        any_grade = not self._runs_own_code and not any(m.names_grades for m in self.measures)
        if any_grade and selected.all():
            low, high = self._supported
            self._supported = min(low, least), max(high, most)

    def _compute(
        self,
        ranking: Ranking,
        lines: Sequence[int],
        values: np.ndarray,
        reasons: np.ndarray,
        name: Callable[[int], str],
    ) -> Iterator[tuple[int, Exception]]:
        """Fill the values of measures in Python, and apply policies; yield errors."""
        measures, groups = [self.measures[m] for m in lines], ranking.groups
        type(measures[0]).compute(measures, ranking, [values[m, :groups] for m in lines])
        for m, measure in zip(lines, measures, strict=True):
            value, codes = values[m, :groups], reasons[m, :groups]
            codes[:] = 0
            undefined = np.isnan(value)
            if self._only_relevant:
                undefined &= ranking.relevant(1.0) > 0
            if not undefined.any():
                continue
            for reason, holds in measure.reasons(ranking):
                matches = undefined & holds
                undefined &= ~holds
                if not matches.any():
                    continue
                policy = policy_of(self._of_measures, measure, reason)
                if policy == "error":
                    first = int(np.argmax(matches))
                    yield m, _undefined(measure, ranking, first, reason, name)
                elif policy == "skip":
                    codes[matches] = self.code_of(reason)
                else:
                    value[matches] = policy
            if undefined.any():
                yield m, too_large(measure)

    def _graded(self, ranking: Ranking) -> tuple[GradedGains | None, np.ndarray]:
        """Compute the gains of the distinct grades, and number the grades.

        None if there are many grades. No grade has a number if all are equal.
        """
        codes = _NO_CODES
        if not self._gains:
            return _NO_GRADES, codes
        if not len(ranking.grade):
            return GradedGains(np.empty((len(self._gains), 1)), _NO_ORDER), codes
        if ranking.min_grade == ranking.max_grade:
            grades = ranking.grade[:1]
        else:
            grades, numbers = ranking.grades
            if numbers is None:
                return None, codes
            codes = frozen(numbers)
        key = grades.tobytes()
        graded = self._of_grades.get(key)
        if graded is None:
            gains = np.array([measure.gains_of(grades) for measure in self._gain_measures])
            graded = GradedGains(gains, np.argsort(-gains, axis=1))
            if len(self._of_grades) == _MOST_SETS:
                self._of_grades = {}
            self._of_grades[key] = graded
        return graded, codes

    def _discount_tables(self, longest: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the discounts of all ranks that lists have, and their sums."""
        ranks = self._most_ranks
        if ranks > _FEW_RANKS:
            ranks = min(ranks, longest + 1)
        longer = 1 << (ranks - 1).bit_length() if ranks > _FEW_RANKS else _FEW_RANKS
        return _discounts(tuple(self._discounts), longer)

    def _error(
        self, ranking: Ranking, error: Sequence[int], name: Callable[[int], str]
    ) -> Exception:
        """Make the error of a kind, measure, group and reason."""
        kind, m, group, why = error
        function = self._functions[m]
        if kind == _INFINITE or function is None:
            return too_large(self.measures[m])
        return _undefined(self.measures[m], ranking, group, function.reasons[why - 1], name)


@lru_cache(8)
def _discounts(kinds: tuple[tuple[str, float], ...], ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tables of discounts, and of their sums; plans share them."""
    if not kinds:
        return np.zeros((1, 0)), np.zeros((1, 1))
    tables = [discount_table(*each, ranks) for each in kinds]
    return (
        np.stack([discount[:ranks] for discount, _ in tables]),
        np.stack([summed[: ranks + 1] for _, summed in tables]),
    )


_NO_GAINS, _NO_RANKS = np.empty((0, 0)), np.empty(0)
_NO_CODES = frozen(np.empty(0, np.uint8))
_NO_ORDER = np.empty((0, 0), np.int64)
_NO_GRADES = GradedGains(np.empty((0, 1)), _NO_ORDER)


def _function_of(measure: Measure) -> GroupFunction | None:
    """Return the kernel of a measure; refuse methods that it would not call."""
    kind, function = type(measure), measure.group_function
    if not isinstance(function, GroupFunction | None):
        raise MeasureError(
            f"{measure}: group_function must be a GroupFunction, got a {type(function).__name__} "
            f"of {kind.__name__}; set it in the class: group_function = GroupFunction(kernel)."
        )
    replaced = ["to_summand"] if function is None else ["to_summand", "reasons"]
    for name in replaced:
        if getattr(kind, name) is not getattr(Measure, name):
            remedy = "set aggregate" if name == "to_summand" else "define shared_values too"
            raise MeasureError(
                f"{measure}: must not define {name}, which is not called, got one of "
                f"{kind.__name__}; {remedy}."
            )
    return function


def _index(items: list[_Item], item: _Item) -> int:
    """Return the index of an item, which is appended if it is new."""
    if item not in items:
        items.append(item)
    return items.index(item)


def _table(rows: Sequence[Sequence[float]]) -> np.ndarray:
    """Make a table of rows of different lengths."""
    table = np.zeros((len(rows), max(map(len, rows), default=0)))
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


def _as_number(policy: Any) -> float:
    """Return the value of a policy: NaN to skip, inf for an error."""
    return {"skip": np.nan, "error": np.inf}[policy] if isinstance(policy, str) else float(policy)


def _all_or(groups: np.ndarray | None) -> Any:
    return slice(None) if groups is None else groups


def _undefined(
    measure: Measure, ranking: Ranking, group: int, reason: str, name: Callable[[int], str]
) -> UndefinedError:
    """Make the error of a group without a value."""
    at = group if ranking.ranked_groups is None else int(ranking.ranked_groups[group])
    return UndefinedError(
        f"{measure.display_name} is undefined for the group {name(at)} ({reason}), and undefined "
        "groups are an error; choose undefined='skip', 'zero' or 'one'."
    )


def policy_of(policies: Mapping[str, str], measure: Measure, reason: str) -> Any:
    """Return the policy for a reason: 'skip', 'error' or a value."""
    if reason in ("few_rows", "few_positives"):
        return "skip"
    policy: Any = measure.option_values.get("single_class")
    if policy is None:
        policy = policies.get(measure.name, policies["*"])
    return {"zero": 0.0, "one": 1.0}.get(policy, policy)


def too_large(measure: Measure) -> MeasureError:
    """Make the error of values that are not finite."""
    if not of_package(type(measure)):
        return MeasureError(
            f"{measure}: values must be finite, or NaN with a reason, got others; let reasons "
            "yield why, or scale grades and weights down."
        )
    remedy = (
        ", or take gain='linear' or a table of gains" if "gain" in measure.option_values else ""
    )
    return MeasureError(
        f"{measure}: grades or weights are so large that a sum passes the largest double; "
        f"scale them down{remedy}."
    )


@kernel
def _run(  # type: ignore[no-untyped-def]
    selected, addresses, lines, numbers, policies, codes, rels, kinds, bests,
    only_relevant, weighted, unretrieved,
    rows, retrieved, block_above, block_size, offsets, above, size, grade,
    judged_offsets, judged_above, judged_size, judged_grade,
    covering_offsets, covering_above, covering_size, covering_grade,
    weight, zeros_above, zeros_tied, zeros, grade_codes, graded, descending, discounts, summed,
    counts, gains, best, weights, values, reasons, ranks, room, error,
):  # fmt: skip
    """Compute the selected measures, apply the policies, and weigh the groups."""
    groups = rows.shape[0]
    lists = (
        (offsets, above, size, grade),
        (judged_offsets, judged_above, judged_size, judged_grade),
        (covering_offsets, covering_above, covering_size, covering_grade),
    )
    _count_relevant(offsets, block_above, retrieved, grade, rels, unretrieved, counts)
    _fill_gains(grade_codes, graded, gains)
    for b in range(bests.shape[0]):
        _sort_gains(
            offsets, block_above, retrieved, bests[b, 1] != 0, unretrieved, grade_codes, graded,
            descending, bests[b, 0], gains, room, best[b],
        )  # fmt: skip
    for w in range(kinds.shape[0]):
        is_wanted = False
        for m in range(lines.shape[0]):
            is_wanted |= selected[m] and lines[m, _WEIGHT] == w
        if is_wanted and kinds[w, 0] != _COLUMN:
            _weigh(
                kinds[w], offsets, block_above, grade, retrieved, rels, weight, zeros, weighted,
                counts, weights[w],
            )  # fmt: skip
    for m in range(lines.shape[0]):
        if not selected[m]:
            continue
        line = lines[m]
        value = values[m]
        reason = reasons[m]
        if addresses[m] != 0:
            of_rel = line[_REL]
            table = line[_TABLE]
            list_offsets, list_above, list_size, list_grade = lists[line[_ROWS]]
            call_by_address(
                addresses[m],
                (
                    list_offsets, rows, retrieved, counts[of_rel],
                    counts[rels.shape[0] + of_rel], zeros, list_above, list_size, block_above,
                    block_size, list_grade,
                    gains[line[_GAIN]] if gains.shape[0] > 0 else grade,
                    best[line[_BEST]] if best.shape[0] > 0 else grade,
                    weight, zeros_above, zeros_tied, line[_CUTOFF], rels[of_rel], numbers[m],
                    weighted, discounts[table], summed[table], ranks, value, reason,
                ),
            )  # fmt: skip
        term = values[line[_TERM]]
        for g in range(groups):
            why = np.int64(reason[g])
            if only_relevant and counts[0, g] == 0:
                value[g] = np.nan
                reason[g] = _NO_RELEVANT
            elif why > 0 and addresses[m] != 0 and (why >= codes.shape[1] or codes[m, why] == 0):
                # A reason without a name.
                value[g] = np.inf
            elif addresses[m] != 0 and why > 0:
                value[g] = policies[m, why]
                reason[g] = codes[m, why] if value[g] != value[g] else 0
                # The first group of the first reason of the first measure.
                is_first = error[0] == 0 or (error[1] == m and why < error[3])
                if value[g] == np.inf and is_first:
                    error[0] = _UNDEFINED
                    error[1] = m
                    error[2] = g
                    error[3] = why
            if abs(value[g]) == np.inf and error[0] == 0:
                error[0] = _INFINITE
                error[1] = m
        for g in range(groups if line[_TERM] != m else 0):  # of a geometric mean
            term[g] = elementary(LOG, max(value[g], LEAST_OF_GEOMETRIC))
        for g in range(groups if line[_WEIGHT] >= 0 else 0):
            if weights[line[_WEIGHT], g] == 0.0 and value[g] == value[g]:
                reason[g] = _ZERO_WEIGHT


@kernel
def _count_relevant(  # type: ignore[no-untyped-def]
    offsets, above, retrieved, grade, rels, unretrieved, counts
):
    """Count the rows of each least relevant grade; then those with a score."""
    for r in range(rels.shape[0]):
        for g in range(retrieved.shape[0]):
            relevant = 0
            for e in range(offsets[g], offsets[g + 1]):
                relevant += grade[e] >= rels[r]
            counts[r, g] = relevant
            if unretrieved:
                for e in range(offsets[g], offsets[g + 1]):
                    relevant -= grade[e] >= rels[r] and above[e] >= retrieved[g]
            counts[rels.shape[0] + r, g] = relevant


@kernel
def _fill_gains(codes, graded, gains):  # type: ignore[no-untyped-def]
    """Write the gain of each row, where grades are few."""
    for k in range(gains.shape[0] if graded.shape[1] > 0 else 0):
        if codes.shape[0] == 0:
            gains[k] = graded[k, 0]
        else:
            for e in range(codes.shape[0]):
                gains[k, e] = graded[k, codes[e]]


@kernel
def _sort_gains(  # type: ignore[no-untyped-def]
    offsets, above, retrieved, of_retrieved, unretrieved, codes, graded, descending, k, gains,
    room, best
):  # fmt: skip
    """Sort the gains of each group, largest first.

    A row without a score has no gain if `of_retrieved`, and no negative gain in any case.
    """
    gain = gains[k]
    if codes.shape[0] > 0 and not unretrieved:
        sort_group_codes(offsets, codes, graded[k], descending[k], room[: graded.shape[1]], best)
        return
    if graded.shape[1] == 1 and not unretrieved:
        for e in range(offsets[retrieved.shape[0]]):
            best[e] = gain[e]
        return
    for g in range(retrieved.shape[0]):
        lo = offsets[g]
        hi = offsets[g + 1]
        sorted_already = True
        for e in range(lo, hi):
            best[e] = gain[e]
            if above[e] >= retrieved[g] and (of_retrieved or gain[e] < 0.0):
                best[e] = 0.0
            sorted_already &= e == lo or best[e] <= best[e - 1]
        if not sorted_already:
            sort_descending(best[lo:hi], best[:0])


@kernel
def _weigh(  # type: ignore[no-untyped-def]
    kind, offsets, above, grade, retrieved, rels, weight, zeros, weighted, counts, out
):
    """Compute the weight of each group."""
    by_class = kind[2] != 0
    rel = rels[kind[1]]
    for g in range(retrieved.shape[0]):
        hits = counts[rels.shape[0] + kind[1], g]
        positive = np.float64(hits if by_class else counts[kind[1], g])
        negative = np.float64(retrieved[g] - hits)
        every = np.float64(retrieved[g])
        if by_class and weighted:
            positive = np.float64(0.0)
            negative = zeros[g]
            for e in range(offsets[g], offsets[g + 1]):
                if above[e] >= retrieved[g]:
                    break
                if grade[e] >= rel:
                    positive += weight[e]
                else:
                    negative += weight[e]
            every = positive + negative
        if kind[0] == _IMPRESSIONS:
            out[g] = every
        elif kind[0] == _POSITIVES:
            out[g] = positive
        else:
            out[g] = positive * negative
