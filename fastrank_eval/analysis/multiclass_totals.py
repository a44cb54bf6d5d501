"""Add up the sums of several classes."""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval.analysis.multiclass_rows import ClassRoles, ClassRows, scored_rows
from fastrank_eval.engine.chunk_eval import ThreadTotals, evaluate_chunk
from fastrank_eval.engine.plan import Plan
from fastrank_eval.groups.chunk import Chunk, Scored
from fastrank_eval.io.columns import Columns, Roles
from fastrank_eval.measures import Measure
from fastrank_eval.measures.clustered_sums import least_of
from fastrank_eval.measures.decisions import Decision
from fastrank_eval.measures.likelihood import LogarithmicLoss
from fastrank_eval.measures.pooled import OrderedMeasure, PooledMeasure, PooledValue, undefined
from fastrank_eval.stats.row_sums import RowSums

#: Bits of a mantissa that are summed apart, so that sums of 2^26 of them are doubles.
_LOW_BITS = 27
#: Added to binary exponents, so that none is negative; and more than any comes to.
_SHIFT, _SPAN = 1100, 2200


class ClassConfusion:
    """Rows by their class and the one predicted: int64 counts, or exact sums of weights.

    Threads may add at the same time; the order in which they do does not matter.

    Parameters
    ----------
    classes : int
    weighted : bool

    Examples
    --------
    >>> state = ClassConfusion(2, weighted=False)
    >>> state.add(np.array([0, 1, 1]), np.array([0, 0, 1]), None)
    >>> state.matrix()
    array([[1, 0],
           [1, 1]])
    """

    def __init__(self, classes: int, weighted: bool) -> None:
        self.classes, self.weighted = classes, weighted
        self._lock = threading.Lock()
        self._counts = np.zeros(classes * classes, np.int64)
        self._sums: dict[int, int] = {}

    def add(self, actual: np.ndarray, predicted: np.ndarray, weight: np.ndarray | None) -> None:
        """Add rows.

        Parameters
        ----------
        actual, predicted : ndarray of int64, shape (rows,)
            Numbers of classes.
        weight : ndarray of float64, shape (rows,), or None
        """
        cells = actual * self.classes + predicted
        counts = np.bincount(cells, minlength=len(self._counts))
        parts: list[tuple[int, int]] = []
        if weight is not None:
            mantissa, exponent = np.frexp(weight)
            whole = np.ldexp(mantissa, 53).astype(np.int64)
            keys, at = np.unique(cells * _SPAN + (exponent + _SHIFT), return_inverse=True)
            high = np.bincount(at, whole >> _LOW_BITS, len(keys))
            low = np.bincount(at, whole & ((1 << _LOW_BITS) - 1), len(keys))
            sums = zip(keys.tolist(), high.tolist(), low.tolist(), strict=True)
            parts = [(key, (int(upper) << _LOW_BITS) + int(lower)) for key, upper, lower in sums]
        with self._lock:
            self._counts += counts
            for key, part in parts:
                self._sums[key] = self._sums.get(key, 0) + part

    def exact(self) -> list[list[Fraction]]:
        """The rows of the matrix, as fractions."""
        cells = [Fraction(count) for count in self._counts.tolist()]
        if self.weighted:
            cells = [Fraction(0)] * len(cells)
            for key, whole in self._sums.items():
                cell, exponent = divmod(key, _SPAN)
                cells[cell] += whole * Fraction(2) ** (exponent - _SHIFT - 53)
        return [cells[k : k + self.classes] for k in range(0, len(cells), self.classes)]

    def matrix(self) -> np.ndarray:
        """What belongs to class i and is predicted j.

        Returns
        -------
        ndarray of int64 or float64, shape (classes, classes)
            Of weights the sums, each rounded once.
        """
        if not self.weighted:
            return self._counts.reshape(self.classes, self.classes).copy()
        return np.array([[_rounded(cell) for cell in row] for row in self.exact()])


def accuracy(cells: list[list[Fraction]]) -> PooledValue:
    """The share of rows that are predicted right."""
    total = sum(map(sum, cells))
    if not total:
        return undefined("zero_weight")
    return PooledValue(float(sum(row[k] for k, row in enumerate(cells)) / total))


def error_rate(cells: list[list[Fraction]]) -> PooledValue:
    """The share of rows that are predicted wrong."""
    total = sum(map(sum, cells))
    if not total:
        return undefined("zero_weight")
    return PooledValue(float(1 - Fraction(sum(row[k] for k, row in enumerate(cells)), total)))


def balanced_accuracy(cells: list[list[Fraction]]) -> PooledValue:
    """The mean, over the classes that have rows, of the share of them that is predicted right."""
    shares = [row[k] / sum(row) for k, row in enumerate(cells) if sum(row)]
    if not shares:
        return undefined("zero_weight")
    return PooledValue(float(sum(shares) / len(shares)))


def matthews(cells: list[list[Fraction]]) -> PooledValue:
    """Gorodkin's R_K, the correlation of the predicted class with the class.

    ``(s c - sum_k p_k t_k) / sqrt((s^2 - sum_k p_k^2) (s^2 - sum_k t_k^2))`` with s rows, c of them
    right, t_k of class k and p_k predicted so.

    References
    ----------
    Gorodkin (2004), doi:10.1016/j.compbiolchem.2004.09.006.
    """
    total = Fraction(sum(map(sum, cells)))
    if not total:
        return undefined("zero_weight")
    actual = [sum(row) / total for row in cells]
    predicted = [sum(column) / total for column in zip(*cells, strict=True)]
    right = sum(row[k] for k, row in enumerate(cells)) / total
    of_actual = 1 - sum(share * share for share in actual)
    of_predicted = 1 - sum(share * share for share in predicted)
    if not of_actual:
        return undefined("single_class")
    if not of_predicted:
        return undefined("single_class_predicted")
    together = right - sum(p * t for p, t in zip(predicted, actual, strict=True))
    value = float(together) / math.sqrt(float(of_actual) * float(of_predicted))
    return PooledValue(min(max(value, -1.0), 1.0))


def _rounded(cell: Fraction) -> float:
    try:
        return float(cell)
    except OverflowError:
        return math.inf


#: What the column of row weights is called where a row is a group.
ROW_WEIGHT = "row weight"
#: Averages over pairs of classes.
OVER_PAIRS = ("ovo", "ovo_weighted", "mu")


def over_pairs(measure: Measure) -> bool:
    """Whether a measure has averages over pairs of classes.

    It must be read off the ranking alone: a probability among all classes is none among two.
    """
    return isinstance(measure, OrderedMeasure) and measure.scores != "probability"


@dataclass(frozen=True)
class ClassPlan:
    """What to compute of rows with several classes.

    Parameters
    ----------
    roles : ClassRoles
    measures : tuple of PooledMeasure
        Of each class against the others.
    averages : tuple of str
    by_row : mapping of str to Measure
        By the text of the measure asked for, the one whose groups are rows.
    argmax : bool
        Whether the class of the highest score is predicted; else those at a threshold.
    policies : mapping of str to str
        For undefined values, as `undefined_policies` gives them.
    threads : int
    """

    roles: ClassRoles
    measures: tuple[PooledMeasure, ...]
    averages: tuple[str, ...]
    by_row: dict[str, Measure]
    argmax: bool
    policies: dict[str, str]
    threads: int

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return self.roles.weight is not None

    def overall(self, measure: Measure) -> bool:
        """Whether a measure is defined for all classes at once."""
        if isinstance(measure, LogarithmicLoss):
            return self.roles.form == "one"
        at_once = ("Accuracy", "ErrorRate")
        return measure.name in ((*at_once, "BalancedAccuracy", "MCC") if self.argmax else at_once)

    @cached_property
    def row_plan(self) -> Plan:
        """For rows as groups of their classes."""
        kept = self.policies
        policies = {**kept, **{f"Group{name}": kept[name] for name in kept if name != "*"}}
        if "AUC" in kept:
            policies["GAUC"] = kept["AUC"]
        return Plan(
            Roles(
                ("row",),
                "label",
                ("score", "decided")[: 1 + self.argmax],
                group_weights=(ROW_WEIGHT,) * self.weighted,
            ),
            tuple(dict.fromkeys(self.by_row.values())),
            undefined=policies,
            per_group=False,
            threads=self.threads,
        )


class States:
    """States of some measures, one for those that share it."""

    def __init__(self, measures: Sequence[PooledMeasure], plan: ClassPlan) -> None:
        self._plan = plan
        self._measures: dict[Hashable, PooledMeasure] = {}
        for m in measures:
            for kept in m.keeps():
                self._measures.setdefault(kept.state_key(), kept)
        self._states: dict[Hashable, Any] = {
            key: m.new_state(plan.weighted, plan.threads) for key, m in self._measures.items()
        }

    def __getitem__(self, measure: PooledMeasure) -> Any:
        return measure.state_in(self._states)

    def add(self, scored: Scored, decided: Scored | None = None) -> None:
        """Add rows; those of measures of decisions apart, if given."""
        for key, m in self._measures.items():
            apart = decided is not None and isinstance(m, Decision)
            m.add_rows(self._states[key], decided if apart and decided else scored)


class ClassStates:
    """What is kept of all rows; threads may add at the same time.

    Parameters
    ----------
    plan : ClassPlan
    """

    def __init__(self, plan: ClassPlan) -> None:
        self.plan = plan
        many, averages = len(plan.roles.classes), plan.averages
        self._lock = threading.Lock()
        self.rows = 0
        self.positives = np.zeros(many, np.int64)
        self.weights = RowSums(many)
        self.each = [States(plan.measures, plan) for _ in range(many)]
        self.micro = States(plan.measures if "micro" in averages else (), plan)
        ordered = [m for m in plan.measures if over_pairs(m)]
        numbers = range(many)
        ovo = not {"ovo", "ovo_weighted"}.isdisjoint(averages)
        self.pairs = {
            (i, j): States(ordered, plan) for i in numbers for j in numbers if ovo and i != j
        }
        self.mu = {
            (i, j): States(ordered, plan)
            for i in numbers
            for j in numbers
            if "mu" in averages and i < j
        }
        self.confusion = ClassConfusion(many, plan.weighted) if plan.argmax else None
        at_once = [m for m in plan.measures if plan.overall(m)]
        #: By threshold, rows all of whose classes are predicted right, as the second of two.
        self.right = {
            float(m.threshold): ClassConfusion(2, plan.weighted)
            for m in at_once
            if isinstance(m, Decision) and not plan.argmax
        }
        #: The score of the class of each row, as a probability of what is so.
        self.own = States([m for m in at_once if isinstance(m, LogarithmicLoss)], plan)
        self.by_row = ThreadTotals(plan.row_plan)

    def add(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Add the rows of a batch."""
        rows = self.plan.roles.rows_of(batch, first_row)
        everything = range(len(rows.labels))
        for k in everything:
            label, weight = rows.labels[k], rows.weight
            scored = scored_rows(label, rows.scores[k], weight)
            decided = None
            if self.plan.argmax:
                decided = scored_rows(label, rows.decided(k), weight)
            self.each[k].add(scored, decided)
            self.micro.add(scored, decided)
            here = rows.members[k]
            if weight is not None:
                self.weights.add(k, weight[here])
            with self._lock:
                self.positives[k] += len(here)
        with self._lock:
            self.rows += rows.rows
        for i, j in self.pairs:
            self._add_pair(self.pairs[i, j], rows, i, j, rows.scores[i])
        for i, j in self.mu:
            with np.errstate(invalid="ignore"):
                difference = rows.scores[i].astype(np.float64) - rows.scores[j]
            if np.isnan(difference).any():
                raise ColumnError(
                    f"score columns '{self.plan.roles.scores[i]}' and "
                    f"'{self.plan.roles.scores[j]}' are both infinite in a row, and AUC-mu takes "
                    "their difference; leave out average 'mu', or give finite scores."
                )
            self._add_pair(self.mu[i, j], rows, i, j, difference)
        self._add_at_once(rows)
        if self.plan.by_row and rows.rows:
            self._add_by_row(rows)

    def support(self) -> np.ndarray:
        """The rows of each class, or their weight. float64, shape (classes,)."""
        if self.plan.weighted:
            return np.array([self.weights.total(k) for k in range(len(self.positives))])
        return self.positives.astype(np.float64)

    def _add_pair(self, states: States, rows: ClassRows, i: int, j: int, score: np.ndarray) -> None:
        """Rows of class i against those of class j."""
        both = np.concatenate([rows.members[i], rows.members[j]])
        label = np.zeros(len(both), np.uint8)
        label[: len(rows.members[i])] = 1
        weight = None if rows.weight is None else frozen(rows.weight[both])
        states.add(scored_rows(label, score[both], weight))

    def _add_at_once(self, rows: ClassRows) -> None:
        if self.confusion is not None and rows.codes is not None:
            self.confusion.add(rows.codes, rows.best, rows.weight)
        for threshold, state in self.right.items():
            right = np.ones(rows.rows, np.bool_)
            for label, score in zip(rows.labels, rows.scores, strict=True):
                right &= (score >= least_of(score.dtype, threshold)) == (label != 0)
            state.add(np.ones(rows.rows, np.int64), right.astype(np.int64), rows.weight)
        if rows.codes is not None:
            own = np.empty_like(rows.scores[0])
            for here, score in zip(rows.members, rows.scores, strict=True):
                own[here] = score[here]
            self.own.add(scored_rows(np.ones(rows.rows, np.uint8), own, rows.weight))

    def _add_by_row(self, rows: ClassRows) -> None:
        """Each row as a group of its classes."""
        many = len(rows.labels)
        label = frozen(np.stack(rows.labels, axis=1).ravel())
        scores = [frozen(np.stack(rows.scores, axis=1).ravel())]
        plan = self.plan.row_plan
        if self.plan.argmax:
            scores.append(
                frozen((np.arange(many) == rows.best[:, None]).astype(np.float32).ravel())
            )
        weights = () if rows.weight is None else (frozen(np.repeat(rows.weight, many)),)
        columns = Columns(0, (), label, tuple(scores), (None,) * len(scores), None, None, weights)
        starts = np.arange(0, len(label) + 1, many)

        def name(group: int) -> str:
            return f"row={rows.first_row + group}"

        evaluate_chunk(Chunk(columns, starts), plan, self.by_row.mine(), name)
