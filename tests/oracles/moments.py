"""Means over groups, and their errors, in Python's integers: one term after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fastrank_eval.stats.intervals import effective_groups, root_of_quotient, zero_if_rounding

UNIT = 1074
LARGEST = 1.7976931348623157e308


def whole(number: float, unit: int = UNIT) -> int:
    scaled = Fraction(number) * (1 << unit)
    assert scaled.denominator == 1
    return scaled.numerator


def divided(numerator: int, denominator: int) -> float:
    try:
        return numerator / denominator
    except OverflowError:
        return -math.inf if numerator < 0 else math.inf


def rounded_sum(terms: Sequence[float]) -> float:
    """Sum products that were rounded, and clipped to doubles."""
    clipped = [0.0 if math.isnan(x) else max(min(x, LARGEST), -LARGEST) for x in terms]
    return divided(sum(map(whole, clipped)), 1 << UNIT)


@dataclass
class Sums:
    """Sums over groups of weighted values p and weights w; None: every weight is 1."""

    p: list[float]
    w: list[float] | None

    def __post_init__(self) -> None:
        p, self.groups = self.p, len(self.p)
        w = self.w or [1.0] * len(p)
        self.values, self.weights = sum(map(whole, p)), sum(map(whole, w))
        self.squares = sum(whole(x) ** 2 for x in p)
        self.products = sum(whole(x) * whole(y) for x, y in zip(p, w, strict=True))
        self.squared_weights = sum(whole(x) ** 2 for x in w)
        pairs = list(zip(p, w, strict=True))
        self.fourth = [rounded_sum([(x * x) * (x * x) for x in p])]
        if self.w is None:
            self.fourth += [rounded_sum([(x * x) * x for x in p])]
            self.fourth += [divided(self.squares, 1 << 2 * UNIT), self.total, float(self.groups)]
        else:
            self.fourth += [rounded_sum([(x * x) * (x * y) for x, y in pairs])]
            self.fourth += [rounded_sum([(x * x) * (y * y) for x, y in pairs])]
            self.fourth += [rounded_sum([(x * y) * (y * y) for x, y in pairs])]
            self.fourth += [rounded_sum([(y * y) * (y * y) for y in w])]

    @property
    def total(self) -> float:
        return divided(self.values, 1 << UNIT)

    @property
    def mean(self) -> float:
        return self.values / self.weights if self.weights else math.nan

    @property
    def deviations(self) -> int:
        p, w = self.values, self.weights
        return self.squares * w * w - 2 * p * w * self.products + p * p * self.squared_weights

    @property
    def by_weight(self) -> float:
        if self.w is None:
            return float(self.groups)
        return effective_groups(divided(self.squared_weights, 1 << 2 * UNIT), self.fourth[4])

    @property
    def influence(self) -> float:
        if not self.weights:
            return math.nan
        terms, factor = [], 1.0
        for binomial, power in zip((1.0, -4.0, 6.0, -4.0, 1.0), self.fourth, strict=True):
            terms.append(binomial * factor * power)
            factor *= self.mean
        squares = divided(self.deviations, self.weights**2 << 2 * UNIT)
        # Too large to be added: unknown.
        size = sum(map(abs, terms))
        if not math.isfinite(size):
            return math.nan
        total = math.fsum(terms)
        if total <= 2.0**-40 * size:
            return math.nan
        return effective_groups(squares, total)

    @property
    def rounding(self) -> float:
        if not self.weights:
            return 0.0
        spread = root_of_quotient(self.groups * self.squared_weights, self.weights**2)
        size = root_of_quotient(self.squares, self.weights**2)
        return 64 * 2.0**-53 * size * (1.0 + spread)

    @property
    def rounding_of_sum(self) -> float:
        return 2.0 * 64 * 2.0**-53 * root_of_quotient(self.squares, 1 << 2 * UNIT)

    @property
    def se(self) -> float:
        if self.groups < 2 or not self.weights:
            return math.nan
        squares = self.deviations * self.groups
        se = root_of_quotient(squares, (self.groups - 1) * self.weights**4)
        return zero_if_rounding(se, self.rounding, self.groups)

    @property
    def se_of_sum(self) -> float:
        if self.groups < 2:
            return math.nan
        squares = self.groups * self.squares - self.values**2
        se = root_of_quotient(squares, (self.groups - 1) << 2 * UNIT)
        return zero_if_rounding(se, self.rounding_of_sum, self.groups)


def cross(a: Sequence[float], b: Sequence[float]) -> int:
    return sum(whole(x) * whole(y) for x, y in zip(a, b, strict=True))


def error_of_difference(
    base: Sums, other: Sums, groups: int, slopes: tuple[float, float] = (1.0, 1.0)
) -> float:
    """The standard error of a difference of means; both models have terms for every group."""
    if groups < 2 or not base.weights or not other.weights:
        return math.nan
    (p, w), (q, v) = ((side.p, side.w) for side in (base, other))
    pa, wa, pb, wb = base.values, base.weights, other.values, other.weights
    crossed = (
        cross(p, q) * wa * wb - cross(p, v) * wa * pb - cross(w, q) * pa * wb
        + cross(w, v) * pa * pb
    )  # fmt: skip
    (sa, unit_a), (sb, unit_b) = (slope.as_integer_ratio() for slope in slopes)
    slope_a, slope_b = sa * unit_b * wb**2, sb * unit_a * wa**2
    total = (
        slope_b**2 * other.deviations + slope_a**2 * base.deviations
        - 2 * slope_a * slope_b * crossed
    )  # fmt: skip
    return root_of_quotient(total * groups, (groups - 1) * (unit_a * unit_b * wa**2 * wb**2) ** 2)


def error_of_sums(base: Sums, other: Sums, groups: int) -> float:
    """The standard error of a difference of sums over fixed groups."""
    if groups < 2:
        return math.nan
    squares = base.squares + other.squares - 2 * cross(base.p, other.p)
    deviations = groups * squares - (other.values - base.values) ** 2
    return root_of_quotient(deviations, (groups - 1) << 2 * UNIT)
