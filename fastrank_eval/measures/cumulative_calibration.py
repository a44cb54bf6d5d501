"""Measure calibration without bins."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.elementary import erfc, exp
from fastrank_eval._lib.jit import kernel
from fastrank_eval.measures.base import REL, Param, one_of
from fastrank_eval.measures.calibration import Outcomes
from fastrank_eval.measures.likelihood import SAMPLING_RATE, recalibrate
from fastrank_eval.measures.pooled import (
    OrderedMeasure,
    PooledMeasure,
    PooledValue,
    undefined,
)
from fastrank_eval.stats.row_sums import RowSums

if TYPE_CHECKING:
    from fastrank_eval._lib.threads import JobMap
    from fastrank_eval.groups.chunk import Scored


def maximum_exceeds(x: float) -> float:
    """Compute P(max of abs(Brownian motion) on [0, 1] > `x`).

    Parameters
    ----------
    x : float
        At least 0.

    Returns
    -------
    float
        In [0, 1]. The error is at most 1e-12, or relative 1e-9 in the upper tail.

    References
    ----------
    Erdos & Kac (1946), doi:10.1090/S0002-9904-1946-08560-2.
    """
    if x <= 0:
        return 1.0
    if x < 1.5:
        # From the eigenvalues of the heat equation between two walls.
        inside = 0.0
        for k in range(50):
            odd = 2 * k + 1
            inside += (-1) ** k / odd * exp(-(odd * math.pi / x) * (odd * math.pi / x) / 8)
        return _share(1.0 - 4.0 / math.pi * inside)
    # From reflections at the walls.
    return _share(4.0 * sum((-1) ** k * _above((2 * k + 1) * x) for k in range(50)))


def range_exceeds(x: float) -> float:
    """Compute P(range of Brownian motion on [0, 1] > `x`).

    Parameters
    ----------
    x : float
        At least 0.

    Returns
    -------
    float
        In [0, 1]. The error is at most 1e-12, or relative 1e-9 in the upper tail.

    References
    ----------
    Feller (1951), doi:10.1214/aoms/1177729589.
    """
    if x <= 0:
        return 1.0
    if x < 2.0:
        inside = 0.0
        for k in range(50):
            root = (k + 0.5) * math.pi
            a = root * root
            inside += (8.0 / (x * x) + 2.0 / a) * exp(-2.0 * a / (x * x))
        return _share(1.0 - inside)
    return _share(8.0 * sum((-1) ** (k - 1) * k * _above(k * x) for k in range(1, 50)))


def _above(x: float) -> float:
    """Compute the probability that a standard normal variable exceeds `x`."""
    return 0.5 * erfc(x / math.sqrt(2.0))


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


class _ClickVariance(PooledMeasure):
    """The variance of clicks of a calibrated model, for rows with weights."""

    def __init__(self, sampling_rate: float) -> None:
        super().__init__()
        object.__setattr__(self, "rate", sampling_rate)

    def state_key(self) -> Hashable:
        return "variance of clicks", self.rate

    def new_state(self, weighted: bool, threads: int) -> RowSums:
        return RowSums(2)

    def add_rows(self, state: RowSums, scored: Scored) -> None:
        if scored.weight is None:
            return
        p = np.asarray(recalibrate(scored.score, self.rate), np.float64)
        state.add(0, (scored.weight * p) * (scored.weight * (1.0 - p)))
        state.add(1, scored.weight)


class CumulativeCalibrationError(OrderedMeasure):
    """ECCE, the range or the maximum of cumulated clicks less predictions."""

    name = "ECCE"
    summary = (
        "calibration without bins: how far the sum of y - p, from the lowest p up, departs from 0 "
    )
    summary += "(the range is Kuiper's statistic, the maximum Kolmogorov and Smirnov's)"
    formula = (
        "max_k C_k - min_k C_k, or max_k |C_k|; C_k = sum_{p_i <= p_k} w_i (y_i - p_i) / sum_i w_i,"
        " C_0 = 0"
    )
    reference = "Arrieta-Ibarra et al. (2022), JMLR 23(351)"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "Kuiper": {},
        "ECCE_R": {},
        "ECCE_MAD": {"statistic": "max"},
    }
    options = (
        Param(
            "statistic",
            "range",
            "'range' of the cumulative differences (ECCE-R, Kuiper), which shows a deviation at "
            "any probability, or their 'max' (ECCE-MAD)",
            one_of("range", "max"),
        ),
        REL,
        SAMPLING_RATE,
    )
    scores = "probability"
    higher_is_better = False

    def required_states(self) -> tuple[PooledMeasure, ...]:
        return self, _ClickVariance(float(self.sampling_rate))

    def pooled_value(self, state: Any, map_jobs: JobMap) -> PooledValue:
        scores, spread = state
        table = scores.table(map_jobs)
        outcomes = Outcomes.of(table, self.sampling_rate)
        if not len(outcomes.weight):
            return undefined("zero_weight")
        p, weight = outcomes.probability, outcomes.weight.astype(np.float64)
        total = float(outcomes.weight.sum())
        extremes = np.zeros(2)
        _extremes(frozen(p), frozen(weight), frozen(outcomes.positive.astype(np.float64)), extremes)
        low, high = (extremes / total).tolist()
        value = high - low if self.statistic == "range" else max(high, -low)
        total_weight = spread.total(1)
        if total_weight > 0:
            sigma = math.sqrt(spread.total(0)) / total_weight
        else:
            sigma = math.sqrt(float(np.sum(weight * p * (1.0 - p)))) / total
        return PooledValue(min(value, 1.0), details=self._test_details(value, sigma))

    def _test_details(self, value: float, sigma: float) -> Mapping[str, float]:
        """Return the value in standard errors, and its p-value."""
        if not sigma > 0:
            return {}
        exceeds = range_exceeds if self.statistic == "range" else maximum_exceeds
        return {"in standard errors": value / sigma, "p-value": exceeds(value / sigma)}


@kernel
def _extremes(probability, weight, positive, out):  # type: ignore[no-untyped-def]
    """Find the extremes of 0 and the cumulated positives less predictions."""
    total = 0.0
    compensation = 0.0
    for i in range(probability.shape[0]):
        term = positive[i] - weight[i] * probability[i]
        next_total = total + term
        # Compensated summation: the rounding of each sum is added separately.
        if abs(total) >= abs(term):
            compensation += (total - next_total) + term
        else:
            compensation += (term - next_total) + total
        total = next_total
        out[0] = min(out[0], total + compensation)
        out[1] = max(out[1], total + compensation)
