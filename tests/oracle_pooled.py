"""What measures of all rows together are by definition: plain Python over a list of rows.

Rows without a score are no part of them, and rows without a label count as label 0. An oracle gives
the value, or the reason why there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tests.oracle_decisions import DECISIONS, cumulative_gain, lift
from tests.oracles import Row, pooled, read, weight_of
from tests.oracles import classes as rows_of_classes

Oracle = Callable[..., float | str]


def oracle_of(text: str, rows: Sequence[Row]) -> float | str:
    """The value of a pooled measure, or why it has none."""
    name, options, _ = read(text)
    return POOLED_ORACLES[name](rows, **options)


def auc(rows: Sequence[Row], **options: Any) -> float | str:
    inside = ", ".join(f"{name}={value!r}" for name, value in options.items())
    value = pooled(f"AUC({inside})" if inside else "AUC", rows)
    return "single_class" if math.isnan(value) else value


def recalibrated(p: float, rate: float) -> float:
    """A probability where all negatives are there, of a model that saw a share of them."""
    return p / (p + (1 - p) / rate)


def log_loss(rows: Sequence[Row], rel: float = 1, sampling_rate: float = 1) -> float | str:
    positive, negative = rows_of_classes(rows, rel)
    if not weight_of([*positive, *negative]):
        return "zero_weight"

    def clamped(row: Row) -> float:
        return min(max(recalibrated(row.score, sampling_rate), 1e-15), 1 - 1e-15)

    losses = [-row.weight * math.log(clamped(row)) for row in positive]
    losses += [-row.weight * math.log1p(-clamped(row)) for row in negative]
    return math.fsum(losses) / weight_of([*positive, *negative])


def normalized_entropy(rows: Sequence[Row], rel: float = 1, **options: Any) -> float | str:
    loss = log_loss(rows, rel, **options)
    if isinstance(loss, str):
        return loss
    positive, negative = map(weight_of, rows_of_classes(rows, rel))
    shares = [part / (positive + negative) for part in (positive, negative)]
    if 0 in shares:
        return "single_class"
    return loss / -math.fsum(share * math.log(share) for share in shares)


def information_gain(rows: Sequence[Row], **options: Any) -> float | str:
    entropy = normalized_entropy(rows, **options)
    return entropy if isinstance(entropy, str) else 1 - entropy


POOLED_ORACLES: dict[str, Oracle] = {
    "AUC": auc,
    "LogLoss": log_loss,
    "NE": normalized_entropy,
    "RIG": information_gain,
    **DECISIONS,
    "CumGain": cumulative_gain,
    "Lift": lift,
}
