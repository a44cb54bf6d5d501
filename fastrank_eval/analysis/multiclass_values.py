"""Compute values of classes and their averages from states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from fastrank_eval._lib.errors import MeasureError, UndefinedError
from fastrank_eval._lib.threads import in_order
from fastrank_eval.analysis import multiclass_totals
from fastrank_eval.analysis.multiclass_totals import (
    OVER_PAIRS,
    ClassPlan,
    ClassStates,
    States,
    over_pairs,
)
from fastrank_eval.engine.records import MeasureValue
from fastrank_eval.engine.summary import summary_rows
from fastrank_eval.measures.decisions import GroupDecision
from fastrank_eval.measures.likelihood import LogarithmicLoss
from fastrank_eval.measures.pooled import PooledMeasure, PooledValue
from fastrank_eval.stats.means import MeanState

#: Measures of all classes at once, computed from the confusion matrix.
_OVERALL: Mapping[str, Callable[[list[list[Fraction]]], PooledValue]] = {
    "Accuracy": multiclass_totals.accuracy,
    "ErrorRate": multiclass_totals.error_rate,
    "BalancedAccuracy": multiclass_totals.balanced_accuracy,
    "MCC": multiclass_totals.matthews,
}


class ClassValues:
    """Values of each class and their averages.

    Parameters
    ----------
    plan : ClassPlan
    states : ClassStates
    name : str
        Name of the model in the values.
    """

    def __init__(self, plan: ClassPlan, states: ClassStates, name: str) -> None:
        self._plan, self._states, self._name = plan, states, name
        self._jobs = partial(in_order, plan.threads)
        self._support = states.support()
        #: Values of the classes by measure.
        self.each = {m: [self._value(m, of) for of in states.each] for m in plan.measures}

    def _value(self, measure: PooledMeasure, states: States) -> PooledValue:
        return measure.pooled_value(states[measure], self._jobs)

    def of_classes(self, measure: PooledMeasure) -> np.ndarray:
        """Get the value of each class: float64, shape (classes,)."""
        return np.array([self._apply_policy(measure, value)[0] for value in self.each[measure]])

    def rows(self) -> Iterator[MeasureValue]:
        """Yield the values of all classes at once, then the averages."""
        for measure in self._plan.measures:
            if self._plan.overall(measure):
                yield self._overall_value(measure)
                continue
            for average in self._plan.averages:
                if average in OVER_PAIRS:
                    if over_pairs(measure):
                        yield self._mean_over_pairs(measure, average)
                elif average == "micro":
                    yield self._pooled_value(
                        measure, average, self._value(measure, self._states.micro)
                    )
                elif average != "samples":
                    yield self._mean_over_classes(measure, average)
        yield from self._means_over_rows()

    def _apply_policy(
        self, measure: PooledMeasure, computed: PooledValue
    ) -> tuple[float, str | None]:
        """Apply the policy for undefined values; return value and reason."""
        if not computed.reason:
            return computed.value, None
        policies = self._plan.policies
        policy = policies.get(measure.name, policies["*"])
        if policy == "error":
            raise UndefinedError(
                f"{measure} is undefined ({computed.reason}) for a class, a pair of classes or all "
                "of them, and undefined values are an error; choose undefined='skip', 'zero' or "
                "'one'."
            )
        if policy == "skip":
            return computed.value, computed.reason
        return {"zero": 0.0, "one": 1.0}[policy], None

    def _pooled_value(
        self, measure: PooledMeasure, average: str, computed: PooledValue
    ) -> MeasureValue:
        """Build the value of all classes together."""
        value, reason = self._apply_policy(measure, computed)
        classes = len(self._plan.roles.classes)
        share = 0.0 if reason else 1.0
        return MeasureValue(
            score=self._name,
            slice=average,
            measure=str(measure),
            value=value,
            groups=classes,
            groups_used=0 if reason else classes,
            dropped={reason: classes} if reason else {},
            rows_share=share if self._states.rows else float("nan"),
            positives_share=share if self._states.positives.any() else float("nan"),
            aggregate="pooled",
            details=dict(computed.details),
            caution="classes",
        )

    def _overall_value(self, measure: PooledMeasure) -> MeasureValue:
        states = self._states
        if isinstance(measure, LogarithmicLoss):
            return self._pooled_value(measure, "all", self._value(measure, states.own))
        state = states.confusion or states.right[float(measure.threshold)]
        return self._pooled_value(measure, "all", _OVERALL[measure.name](state.exact()))

    def _mean_over_classes(self, measure: PooledMeasure, average: str) -> MeasureValue:
        positives = self._states.positives
        return self._mean(
            measure,
            average,
            self.each[measure],
            self._support if average == "weighted" else None,
            np.full(len(positives), self._states.rows),
            positives,
        )

    def _mean_over_pairs(self, measure: PooledMeasure, average: str) -> MeasureValue:
        positives, numbers = self._states.positives, range(len(self._support))
        pairs = [(i, j) for i in numbers for j in numbers if i < j]
        values = []
        for i, j in pairs:
            if average == "mu":
                values.append(self._value(measure, self._states.mu[i, j]))
                continue
            left, right = (
                self._value(measure, self._states.pairs[pair]) for pair in ((i, j), (j, i))
            )
            reason = left.reason or right.reason
            values.append(PooledValue((left.value + right.value) / 2, reason))
        rows = np.array([positives[i] + positives[j] for i, j in pairs], np.int64)
        weights = None
        if average == "ovo_weighted":
            weights = np.array([self._support[i] + self._support[j] for i, j in pairs])
        return self._mean(measure, average, values, weights, rows, rows)

    def _mean(
        self,
        measure: PooledMeasure,
        average: str,
        computed: Sequence[PooledValue],
        weights: np.ndarray | None,
        rows: np.ndarray,
        positives: np.ndarray,
    ) -> MeasureValue:
        """Average the defined values."""
        state = MeanState(1)
        values = np.empty(len(computed))
        for index, value in enumerate(computed):
            values[index], reason = self._apply_policy(measure, value)
            if reason:
                state.drop(0, reason, 1)
        if weights is not None:
            weightless = (weights == 0) & ~np.isnan(values)
            state.drop(0, "zero_weight", int(np.count_nonzero(weightless)))
            values[weightless] = np.nan
        if not state.add(0, values, weights, rows, positives):
            raise MeasureError(
                f"{measure}: the {average} mean passes the largest double; scale weights down, or "
                "ask for another average."
            )
        return MeasureValue(
            score=self._name,
            slice=average,
            measure=str(measure),
            value=state.mean(0, weights is not None),
            groups=len(computed),
            groups_used=state.groups_used(0),
            dropped=state.dropped(0),
            rows_share=_share(state.rows(0), int(rows.sum())),
            positives_share=_share(state.positives(0), int(positives.sum())),
            caution="classes",
        )

    def _means_over_rows(self) -> Iterator[MeasureValue]:
        plan = self._plan
        if not plan.by_row:
            return
        rows = {
            (row.measure, row.score): row
            for row in summary_rows(plan.row_plan, self._states.by_row.merge())
        }
        for text, measure in plan.by_row.items():
            decides = plan.argmax and isinstance(measure, GroupDecision)
            row = rows[str(measure), "decided" if decides else "score"]
            yield replace(row, score=self._name, slice="samples", measure=text)


def _share(count: int, total: int) -> float:
    return count / total if total else float("nan")
