"""What measures of all rows together are by definition: plain Python over a list of rows.

Rows without a score are below all others, except for measures of predictions, which leave them out.
Rows without a label count as label 0. An oracle gives
the value, or the reason why there is none.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.oracles.decisions import DECISIONS, cumulative_gain, lift
from tests.oracles.measures import Row, pooled, read, weight_of
from tests.oracles.measures import classes as rows_of_classes
from tests.oracles.probability import PROBABILITY_ORACLES, recalibrated

Oracle = Callable[..., float | str]


def oracle_of(text: str, rows: Sequence[Row]) -> float | str:
    """The value of a pooled measure, or why it has none."""
    name, options, _ = read(text)
    return POOLED_ORACLES[name](rows, **options)


def of_both_classes(value: Oracle) -> Oracle:
    """A measure of rows that must have both classes."""

    def oracle(rows: Sequence[Row], rel: float = 1, **options: Any) -> float | str:
        return missing_class(rows, rel) or value(rows, rel, **options)

    return oracle


def auc(rows: Sequence[Row], se: str | None = None, **options: Any) -> float | str:
    if "bins" in options:
        rows = in_bins(rows, options.pop("bins"))
    missing = missing_class(rows, options.get("rel", 1))
    if missing:
        return missing
    inside = ", ".join(f"{name}={value!r}" for name, value in options.items())
    return pooled(f"AUC({inside})" if inside else "AUC", rows)


def missing_class(rows: Sequence[Row], rel: float) -> str | None:
    positive, negative = map(weight_of, rows_of_classes(rows, rel))
    if positive and negative:
        return None
    return "single_class" if positive or negative else "zero_weight"


def in_bins(rows: Sequence[Row], bins: int) -> list[Row]:
    """The rows with the number of a bin instead of their score, a probability as a double."""

    def order(p: float) -> int:
        bits: int = struct.unpack("<Q", struct.pack("<d", p))[0]
        return bits // 4

    def key(p: float) -> int:
        return order(p) if p <= 0.5 else 2 * order(0.5) - order(1 - p)

    keys = [None if row.score is None else key(row.score) for row in rows]
    shift = 0
    while len({k >> shift for k in keys if k is not None}) > bins:
        shift += 1
    return [
        row._replace(score=None if k is None else float(k >> shift))
        for row, k in zip(rows, keys, strict=True)
    ]


def gini(rows: Sequence[Row], **options: Any) -> float | str:
    value = auc(rows, **options)
    return value if isinstance(value, str) else 2 * value - 1


Curve = list[tuple[float, float]]


def curve(rows: Sequence[Row], rel: float) -> Curve:
    """(others, positives) at or above each distinct score, from the top, without (0, 0)."""
    positive, negative = rows_of_classes(rows, rel)
    scores = sorted({row.score for row in (*positive, *negative)}, reverse=True)
    return [
        (
            weight_of([row for row in negative if row.score >= score]),
            weight_of([row for row in positive if row.score >= score]),
        )
        for score in scores
    ]


@of_both_classes
def kolmogorov_smirnov(rows: Sequence[Row], rel: float) -> float:
    points = curve(rows, rel)
    others, positives = points[-1]
    return max(abs(tp / positives - fp / others) for fp, tp in points)


@of_both_classes
def average_precision(rows: Sequence[Row], rel: float) -> float:
    points = curve(rows, rel)
    steps = []
    for (_, before), (fp, tp) in itertools.pairwise([(0.0, 0.0), *points]):
        steps.append((tp - before) / points[-1][1] * (tp / (tp + fp) if tp else 0.0))
    return math.fsum(steps)


@of_both_classes
def precision_recall_area(rows: Sequence[Row], rel: float, interpolation: str = "davis") -> float:
    points = curve(rows, rel)
    all_positives = points[-1][1]
    areas = []
    for (fp, tp), (next_fp, next_tp) in itertools.pairwise([(0.0, 0.0), *points]):
        if next_tp == tp:
            continue
        if interpolation == "linear":
            before = tp / (tp + fp) if tp + fp else 1.0
            height = (before + next_tp / (next_tp + next_fp)) / 2
        else:
            height = mean_precision(fp, tp, next_fp, next_tp)
        areas.append((next_tp - tp) / all_positives * height)
    return math.fsum(areas)


#: Nodes and weights of Gauss and Legendre on [-1, 1], exact where a curve is smooth.
_NODES = np.polynomial.legendre.leggauss(48)


def mean_precision(fp: float, tp: float, next_fp: float, next_tp: float) -> float:
    """Of rows between two thresholds let in evenly, by numerical integration."""
    if not tp + fp:
        return next_tp / (next_tp + next_fp)
    if not tp:
        # The integrand has a kink that few nodes miss: its own closed form.
        share = (next_tp + next_fp - fp) / fp
        return next_tp / (next_tp + next_fp - fp) * (1 - math.log1p(share) / share)
    # In the logarithm of the rows let in, which may span many powers of ten.
    span = math.log((next_tp + next_fp) / (tp + fp))
    total = []
    for node, weight in zip(*_NODES, strict=True):
        reached = (tp + fp) * math.exp(span * (node + 1) / 2)
        share = (reached - tp - fp) / (next_tp + next_fp - tp - fp)
        total.append(weight / 2 * span * (tp + share * (next_tp - tp)))
    return math.fsum(total) / (next_tp + next_fp - tp - fp)


def log_loss(
    rows: Sequence[Row],
    rel: float = 1,
    sampling_rate: float = 1,
    clamp: float = 1e-15,
    of_positives: bool = False,
) -> float | str:
    positive, negative = rows_of_classes(rows, rel)
    if not weight_of([*positive, *negative]):
        return "zero_weight"

    def loss(row: Row, of_positive: bool) -> float:
        p = recalibrated(row.score, sampling_rate)
        if 1 - p < clamp:  # exact, where 1 - clamp may be rounded
            return -(math.log1p(-clamp) if of_positive else math.log(clamp))
        p = max(p, clamp)
        return -(math.log(p) if of_positive else math.log1p(-p))

    losses = [row.weight * loss(row, True) for row in positive]
    if not of_positives:
        losses += [row.weight * loss(row, False) for row in negative]
    return math.fsum(losses) / weight_of([*positive, *negative])


def normalized_entropy(
    rows: Sequence[Row], rel: float = 1, background: Any = "slice", **options: Any
) -> float | str:
    loss = log_loss(rows, rel, **options)
    if isinstance(loss, str):
        return loss
    positive, negative = map(weight_of, rows_of_classes(rows, rel))
    shares = [part / (positive + negative) for part in (positive, negative)]
    if background != "slice":
        shares = [background, 1 - background]
    if 0 in shares:
        return "single_class"
    return loss / -math.fsum(share * math.log(share) for share in shares)


def information_gain(rows: Sequence[Row], **options: Any) -> float | str:
    entropy = normalized_entropy(rows, **options)
    return entropy if isinstance(entropy, str) else 1 - entropy


def entropy_of_positives(rows: Sequence[Row], **options: Any) -> float | str:
    return normalized_entropy(rows, of_positives=True, **options)


POOLED_ORACLES: dict[str, Oracle] = {
    **PROBABILITY_ORACLES,
    "AUC": auc,
    "AvgPrec": average_precision,
    "Gini": gini,
    "KS": kolmogorov_smirnov,
    "PRAUC": precision_recall_area,
    "LogLoss": log_loss,
    "NE": normalized_entropy,
    "RIG": information_gain,
    "NEPos": entropy_of_positives,
    **DECISIONS,
    "CumGain": cumulative_gain,
    "Lift": lift,
}
