"""Plain definitions of the measures of readers who go on from rank to rank with a probability.

Each is written as C/W/L has it: C(i) is the probability of going on from rank i, rank i is seen
with V(i) = C(1) ... C(i - 1), and the value is the sum of V(i) g_i over the sum of V(i). What lies
beyond the list is walked rank by rank too, and only what lies beyond a further `FAR` ranks is an
integral.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.oracles.measures import Ranked

FAR = 20_000


def unit_gain(label: float | None, gain: Any, rel: float) -> float:
    if label is None:
        return 0.0
    if isinstance(gain, dict):
        return float(gain.get(label, 0))
    return float(label) if gain == "label" else float(label >= rel)


def of_gains(value: Callable[..., float]) -> Callable[..., float]:
    """A measure of the gains of the first k ranks, as a function of the labels there."""

    def measured(
        ranked: Ranked, k: int | None, rel: float = 1, gain: Any = "binary", **options: Any
    ) -> float:
        gains = [unit_gain(label, gain, rel) for label in ranked.labels[:k]]
        return value(gains, k, **options)

    return measured


def within(rank: int, horizon: int | None, weight: float) -> float:
    """A weight, 0 beyond the last rank that a reader may see."""
    return weight if horizon is None or rank <= horizon else 0.0


def to_horizon(
    gains: list[float], k: int | None, horizon: int | None
) -> tuple[list[float], int | None]:
    """Gains of each rank up to a horizon, and where the list ends."""
    if horizon is None:
        return gains, k
    return [*gains[:horizon], *[0.0] * (horizon - len(gains))], horizon


def per_row_seen(gains: Sequence[float], seen: Sequence[float], beyond: float) -> float:
    """Gain of the ranks of a list over the ranks seen, `beyond` of them after the list."""
    gained = math.fsum(v * g for v, g in zip(seen, gains, strict=True))
    return gained / (math.fsum(seen) + beyond)


# ---- what does not look at gains -----------------------------------------------------------------


def rbp_weight(rank: int, k: int | None, p: float = 0.8, horizon: int | None = None) -> float:
    seen = [p**i for i in range(horizon or 0)]
    return within(rank, horizon, p ** (rank - 1) / (math.fsum(seen) if seen else 1 / (1 - p)))


def sdcg_weight(rank: int, k: int | None) -> float:
    assert k is not None
    return 1 / math.log2(rank + 1) / math.fsum(1 / math.log2(i + 1) for i in range(1, k + 1))


def insq_weight(
    rank: int,
    k: int | None,
    T: float = 1,  # noqa: N803 - its name
    horizon: int | None = None,
) -> float:
    seen = [1 / ((i + 2 * T) / (2 * T)) ** 2 for i in range(horizon or 0)]
    rows = math.fsum(seen) if seen else seen_from(2 * T)
    return within(rank, horizon, 1 / ((rank + 2 * T - 1) / (2 * T)) ** 2 / rows)


WEIGHTS: dict[str, Callable[..., float]] = {
    "RBP": rbp_weight,
    "SDCG": sdcg_weight,
    "INSQ": insq_weight,
}


def weighted(weight: Callable[..., float]) -> Callable[..., float]:
    @of_gains
    def value(gains: list[float], k: int | None, **options: Any) -> float:
        return math.fsum(g * weight(rank, k, **options) for rank, g in enumerate(gains, start=1))

    return value


# ---- what does -----------------------------------------------------------------------------------


@cache
def seen_from(x: float) -> float:
    """1 + C + C C' + ..., going on with (x/(x + 1))^2, then ((x + 1)/(x + 2))^2, and so on."""
    terms, seen = [], 1.0
    for j in range(FAR):
        terms.append(seen)
        seen *= ((x + j) / (x + j + 1)) ** 2
    return math.fsum(terms) + x * x / (x + FAR - 0.5)


@of_gains
def inst(
    gains: list[float],
    k: int | None,
    T: float = 1,  # noqa: N803 - its name
    horizon: int | None = None,
) -> float:
    gains, _ = to_horizon(gains, k, horizon)
    seen, wanted = [1.0], T
    for rank, g in enumerate(gains, start=1):
        wanted -= g
        seen.append(seen[-1] * ((rank + T + wanted - 1) / (rank + T + wanted)) ** 2)
    beyond = 0.0 if horizon else seen[-1] * seen_from(len(gains) + T + wanted)
    return per_row_seen(gains, seen[:-1], beyond)


def leaving(
    gains: Sequence[float], going_on: Callable[[int, float], float], k: int | None
) -> tuple[list[float], list[float], float]:
    """Gains and V of the first k ranks, empty ones included, and V of the rank after them."""
    padded = [*gains, *[0.0] * ((k or 0) - len(gains))]
    seen = [1.0]
    for rank, g in enumerate(padded, start=1):
        seen.append(seen[-1] * going_on(rank, g))
    return padded, seen[:-1], seen[-1]


@of_gains
def nerr8(gains: list[float], k: int | None) -> float:
    gains, seen, _ = leaving(gains, lambda _, g: 1 - g, k)
    return per_row_seen(gains, seen, 0)


@of_gains
def nerr9(gains: list[float], k: int | None) -> float:
    gains, seen, _ = leaving(gains, lambda rank, g: rank / (rank + 1) * (1 - g), k)
    return per_row_seen(gains, seen, 0)


@of_gains
def nerr10(gains: list[float], k: int | None, p: float = 0.9, horizon: int | None = None) -> float:
    gains, k = to_horizon(gains, k, horizon)
    gains, seen, after = leaving(gains, lambda _, g: p * (1 - g), k)
    return per_row_seen(gains, seen, 0.0 if horizon else after / (1 - p))


@of_gains
def nerr11(
    gains: list[float],
    k: int | None,
    T: float = 1,  # noqa: N803 - its name
    horizon: int | None = None,
) -> float:
    gains, k = to_horizon(gains, k, horizon)
    gains, seen, after = leaving(
        gains, lambda rank, g: ((rank + 2 * T - 1) / (rank + 2 * T)) ** 2 * (1 - g), k
    )
    return per_row_seen(gains, seen, 0.0 if horizon else after * seen_from(len(gains) + 2 * T))


@of_gains
def bpm(gains: list[float], k: int, T: float = 1) -> float:  # noqa: N803 - its name
    gained, rank = 0.0, 0
    while rank < k and gained < T:
        gained += gains[rank] if rank < len(gains) else 0.0
        rank += 1
    return gained / rank


USER_MODELS: dict[str, Callable[..., float]] = {
    **{name: weighted(weight) for name, weight in WEIGHTS.items()},
    "INST": inst,
    "NERR8": nerr8,
    "NERR9": nerr9,
    "NERR10": nerr10,
    "NERR11": nerr11,
    "BPM": bpm,
}
