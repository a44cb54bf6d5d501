"""What measures of probability are by definition: plain Python over a list of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import groupby
from typing import Any

from tests.oracles.measures import Row, is_relevant

Outcome = tuple[float, float, float]  # probability, 1 or 0, weight


def recalibrated(p: float, rate: float) -> float:
    """A probability where all negatives are there, of a model that saw a share of them."""
    return p / (p + (1 - p) / rate) if rate != 1 else p


def outcomes(rows: Sequence[Row], rel: float, rate: float) -> list[Outcome]:
    return [
        (recalibrated(row.score, rate), float(is_relevant(row.label, rel)), row.weight)
        for row in rows
        if row.score is not None
    ]


def total(values: Iterable[float]) -> float:
    return math.fsum(values)


def weight(rows: Sequence[Outcome]) -> float:
    return total(w for _, _, w in rows)


def of_outcomes(value: Callable[..., float | str]) -> Callable[..., float | str]:
    """A measure of rows of some weight, as a function of their outcomes."""

    def oracle(rows: Sequence[Row], rel: float = 1, sampling_rate: float = 1, **options: Any):
        found = outcomes(rows, rel, sampling_rate)
        return value(found, **options) if weight(found) else "zero_weight"

    return oracle


def mean(rows: Sequence[Outcome], value: Callable[[float, float], float]) -> float:
    return total(w * value(p, y) for p, y, w in rows) / weight(rows)


@of_outcomes
def brier(rows: Sequence[Outcome]) -> float:
    return mean(rows, lambda p, y: (p - y) ** 2)


@of_outcomes
def bias(rows: Sequence[Outcome]) -> float:
    return mean(rows, lambda p, y: p - y)


@of_outcomes
def pcoc(rows: Sequence[Outcome]) -> float | str:
    clicks = total(w * y for _, y, w in rows)
    return total(w * p for p, _, w in rows) / clicks if clicks else "no_relevant"


def of_numbers(value: Callable[[float], float], after: Callable[[float], float] = float):
    def oracle(rows: Sequence[Row]) -> float | str:
        scored = [row for row in rows if row.score is not None]
        weights = total(row.weight for row in scored)
        if not weights:
            return "zero_weight"
        terms = (row.weight * value(row.score - (row.label or 0)) for row in scored)
        return after(total(terms) / weights)

    return oracle


# ---- bins ----------------------------------------------------------------------------------------


def in_bins(rows: Sequence[Outcome], bins: int | None, by: str = "width") -> list[list[Outcome]]:
    """Rows of each bin that has some weight; without a number, of each probability."""
    rows = sorted(row for row in rows if row[2])

    def of_width(p: float) -> int:
        return max(j for j in range(bins) if p >= j / bins)

    def of_count(p: float) -> int:
        below = weight([row for row in rows if row[0] < p])
        level = weight([row for row in rows if row[0] == p])
        middle = (below + level / 2) / weight(rows)
        return min(math.floor(bins * middle + 1e-9), bins - 1)

    if bins is None:
        key: Callable[[Outcome], Hashable] = lambda row: row[0]  # noqa: E731
    else:
        of = of_width if by == "width" else of_count
        key = lambda row: of(row[0])  # noqa: E731
    return [list(found) for _, found in groupby(rows, key)]


def gap(rows: Sequence[Outcome]) -> float:
    return abs(total(w * (p - y) for p, y, w in rows))


@of_outcomes
def ece(rows: Sequence[Outcome], bins: int, by: str = "width") -> float:
    return total(gap(found) for found in in_bins(rows, bins, by)) / weight(rows)


@of_outcomes
def mce(rows: Sequence[Outcome], bins: int, by: str = "width") -> float:
    return max(gap(found) / weight(found) for found in in_bins(rows, bins, by))


def predicted(rows: Sequence[Outcome]) -> float:
    return mean(rows, lambda p, _: p)


def observed(rows: Sequence[Outcome]) -> float:
    return mean(rows, lambda _, y: y)


@of_outcomes
def reliability(rows: Sequence[Outcome], bins: int | None = None, by: str = "width") -> float:
    terms = [
        weight(found) * (predicted(found) - observed(found)) ** 2
        for found in in_bins(rows, bins, by)
    ]
    return total(terms) / weight(rows)


@of_outcomes
def resolution(rows: Sequence[Outcome], bins: int | None = None, by: str = "width") -> float:
    rate = observed(rows)
    terms = [weight(found) * (observed(found) - rate) ** 2 for found in in_bins(rows, bins, by)]
    return total(terms) / weight(rows)


def uncertainty(rows: Sequence[Row], **options: Any) -> float | str:
    """What it is does not depend on the scores."""

    @of_outcomes
    def value(rows: Sequence[Outcome]) -> float:
        return observed(rows) * mean(rows, lambda _, y: 1 - y)

    return value([row._replace(score=0.5) for row in rows], **options)


# ---- without bins --------------------------------------------------------------------------------


@of_outcomes
def ecce(rows: Sequence[Outcome], statistic: str = "range") -> float:
    differences = [0.0] + [
        total(w * (y - q) for q, y, w in rows if q <= p) / weight(rows)
        for p in sorted({p for p, _, _ in rows})
    ]
    if statistic == "max":
        return max(map(abs, differences))
    return max(differences) - min(differences)


# ---- fields --------------------------------------------------------------------------------------


def by_item(rows: Sequence[Row], rel: float, rate: float) -> list[list[Outcome]]:
    items = sorted({row.item for row in rows})
    found = [outcomes([row for row in rows if row.item == item], rel, rate) for item in items]
    return [of_item for of_item in found if weight(of_item)]


def field_ece(
    rows: Sequence[Row], field: str, rel: float = 1, sampling_rate: float = 1
) -> float | str:
    values = by_item(rows, rel, sampling_rate)
    if not values:
        return "zero_weight"
    return total(map(gap, values)) / total(map(weight, values))


def field_rce(
    rows: Sequence[Row],
    field: str,
    smoothing: float = 0.01,
    rel: float = 1,
    sampling_rate: float = 1,
) -> float | str:
    values = by_item(rows, rel, sampling_rate)
    if not values:
        return "zero_weight"
    held = [
        (weight(found), gap(found), total(w * (y + smoothing) for _, y, w in found))
        for found in values
    ]
    held = [terms for terms in held if terms[2]]
    if not held:
        return "no_relevant"
    return total(w * g / clicks for w, g, clicks in held) / total(w for w, _, _ in held)


def calibration_by_slice(
    rows: Sequence[Row],
    columns: str,
    most_columns: int = 3,
    min_clicks: float = 50,
    rel: float = 1,
    sampling_rate: float = 1,
) -> list[tuple[str, float]] | str:
    """The ECCE of each slice in standard deviations, all rows first."""
    assert columns == "item"  # the only column that a row here has
    rows = [row for row in rows if row.score is not None and row.weight]
    slices = {"all": rows}
    for row in sorted(rows, key=lambda row: str(row.item)):
        slices.setdefault(f"item={row.item}", []).append(row)
    found = []
    for label, of_slice in slices.items():
        results = outcomes(of_slice, rel, sampling_rate)
        variance = total(w * w * p * (1 - p) for p, _, w in results)
        clicks = total(w * p * (1 - p) for p, _, w in results) ** 2 / variance if variance else 0
        if label == "all" or (variance and clicks >= min_clicks):
            if not variance:
                return "no_variance" if results else "zero_weight"
            error = ecce(of_slice, rel=rel, sampling_rate=sampling_rate)
            found.append((label, error * weight(results) / math.sqrt(variance)))
    return found


def multi_ecce(rows: Sequence[Row], columns: str, **options: Any) -> float | str:
    slices = calibration_by_slice(rows, columns, **options)
    return slices if isinstance(slices, str) else max(sigmas for _, sigmas in slices)


# ---- rescaled odds -------------------------------------------------------------------------------


def calibration_free_entropy(
    rows: Sequence[Row],
    rel: float = 1,
    sampling_rate: float = 1,
    clamp: float = 1e-15,
    background: Any = "slice",
) -> float | str:
    found = outcomes(rows, rel, sampling_rate)
    found = [(min(max(p, clamp), 1 - clamp), y, w) for p, y, w in found]
    both = [(p, max(1 - p, clamp), y, w) for p, y, w in found]
    positive, negative = total(w * y for _, y, w in found), total(w * (1 - y) for _, y, w in found)
    if not (positive and negative):
        return "single_class" if positive or negative or not found else "zero_weight"

    low, high = -200.0, 200.0
    for _ in range(200):
        c = math.exp((low + high) / 2)
        if total(w * p / (p + c * other) for p, other, _, w in both) > positive:
            low = math.log(c)
        else:
            high = math.log(c)
    loss = total(
        w * (math.log(p + c * other) - (math.log(p) if y else math.log(c) + math.log(other)))
        for p, other, y, w in both
    )
    c = positive / (positive + negative) if background == "slice" else background
    return loss / (positive + negative) / -(c * math.log(c) + (1 - c) * math.log(1 - c))


PROBABILITY_ORACLES: dict[str, Callable[..., float | str]] = {
    "Brier": brier,
    "Bias": bias,
    "PCOC": pcoc,
    "MAE": of_numbers(abs),
    "MSE": of_numbers(lambda d: d**2),
    "RMSE": of_numbers(lambda d: d**2, math.sqrt),
    "ECE": ece,
    "MCE": mce,
    "Reliability": reliability,
    "Resolution": resolution,
    "Uncertainty": uncertainty,
    "ECCE": ecce,
    "FieldECE": field_ece,
    "FieldRCE": field_rce,
    "MultiECCE": multi_ecce,
    "CalFreeNE": calibration_free_entropy,
}
