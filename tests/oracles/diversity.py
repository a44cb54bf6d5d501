"""Plain definitions of measures of diversity: a function of one order of rows, rank by rank.

A row is what it covers, a set of subtopics. `expected` is the mean over every order of tied rows.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from tests.oracles.measures import NAN, read

TIES = ("expected", "input", "item", "best", "worst")


class Covering(NamedTuple):
    """One row: score None = never retrieved."""

    score: float | None
    covers: frozenset[int]
    item: str = ""
    label: float | None = 0


class Listed(NamedTuple):
    """What the retrieved rows cover, best rank first, and all rows of the group."""

    list: tuple[frozenset[int], ...]
    rows: tuple[Covering, ...]

    @property
    def subtopics(self) -> list[int]:
        return sorted(frozenset().union(*(row.covers for row in self.rows)))


def gains(covers: Sequence[frozenset[int]], alpha: float) -> list[float]:
    """What each row gains for the subtopics it covers, (1 - alpha)^c after c rows before it."""
    return [
        math.fsum((1 - alpha) ** sum(s in above for above in covers[:i]) for s in row)
        for i, row in enumerate(covers)
    ]


def greedy(rows: Sequence[Covering], alpha: float, with_items: bool) -> list[frozenset[int]]:
    """The row that gains most, again and again: the greater id, or set of bits, where level."""
    left, taken = list(rows), []
    while left:

        def rank(row: Covering) -> tuple[float, bytes, int]:
            gain = gains([*taken, row.covers], alpha)[-1]
            item = row.item.encode() if with_items else b""
            return round(gain, 12), item, sum(1 << s for s in row.covers)

        best = max(left, key=rank)
        left.remove(best)
        taken.append(best.covers)
    return taken


def total(
    covers: Sequence[frozenset[int]], k: int | None, alpha: float, discount: Discount
) -> float:
    found = gains(covers, alpha)[:k]
    return math.fsum(gain * discount(rank) for rank, gain in enumerate(found, start=1))


Discount = Callable[[int], float]


def log2(rank: int) -> float:
    return 1 / math.log2(rank + 1)


def reciprocal(rank: int) -> float:
    return 1 / rank


def independent(discount: Discount) -> Callable[..., float]:
    def value(listed: Listed, k: int | None, items: bool, alpha: float = 0.5) -> float:
        every = [frozenset(listed.subtopics)] * (k or len(listed.list))
        best = total(every, k, alpha, discount)
        return total(listed.list, k, alpha, discount) / best if best else 0.0

    return value


def normalized(discount: Discount) -> Callable[..., float]:
    def value(listed: Listed, k: int | None, items: bool, alpha: float = 0.5) -> float:
        best = greedy(listed.rows, alpha, items)
        return total(listed.list, k, alpha, discount) / total(best, k, alpha, discount)

    return value


def nrbp(listed: Listed, k: None, items: bool, alpha: float = 0.5, beta: float = 0.5) -> float:
    found = total(listed.list, k, alpha, lambda rank: beta ** (rank - 1))
    return (1 - (1 - alpha) * beta) / len(listed.subtopics) * found


def nnrbp(listed: Listed, k: None, items: bool, alpha: float = 0.5, beta: float = 0.5) -> float:
    return normalized(lambda rank: beta ** (rank - 1))(listed, k, items, alpha)


def precision(listed: Listed, k: int | None, items: bool) -> float:
    covered = sum(len(row) for row in listed.list[:k])
    return covered / len(listed.subtopics) / (k or len(listed.list) or 1)


def average_precision(listed: Listed, k: int | None, items: bool) -> float:
    means = []
    for s in listed.subtopics:
        ranks = [rank for rank, row in enumerate(listed.list[:k], start=1) if s in row]
        found = math.fsum(hits / rank for hits, rank in enumerate(ranks, start=1))
        means.append(found / sum(s in row.covers for row in listed.rows))
    return math.fsum(means) / len(means)


def subtopic_recall(listed: Listed, k: int | None, items: bool) -> float:
    return len(frozenset().union(*listed.list[:k])) / len(listed.subtopics)


DIVERSITY: dict[str, Callable[..., float]] = {
    "alpha_DCG": independent(log2),
    "alpha_nDCG": normalized(log2),
    "ERR_IA": independent(reciprocal),
    "nERR_IA": normalized(reciprocal),
    "NRBP": nrbp,
    "nNRBP": nnrbp,
    "P_IA": precision,
    "AP_IA": average_precision,
    "StRecall": subtopic_recall,
}


def orders(rows: Sequence[Covering], ties: str) -> list[tuple[frozenset[int], ...]]:
    """The orders that a policy holds to be equally likely."""
    scores = sorted({row.score for row in rows if row.score is not None}, reverse=True)
    blocks = [[row for row in rows if row.score == score] for score in scores]
    if ties == "item":
        blocks = [sorted(b, key=lambda row: row.item.encode(), reverse=True) for b in blocks]
    if ties in ("input", "item"):
        return [tuple(row.covers for block in blocks for row in block)]
    every = [list(itertools.permutations([row.covers for row in block])) for block in blocks]
    return [tuple(itertools.chain(*order)) for order in itertools.product(*every)]


def diversity(
    text: str, rows: Sequence[Covering], ties: str = "expected", items: bool = False
) -> float:
    """Value of one measure for one group, NaN where it is undefined."""
    name, options, k = read(text)
    options.pop("weight", None)
    if not any(row.covers for row in rows):
        return NAN
    values = [
        DIVERSITY[name](Listed(order, tuple(rows)), k, items, **options)
        for order in orders(rows, ties)
    ]
    if ties in ("best", "worst"):
        return max(values) if ties == "best" else min(values)
    return math.fsum(values) / len(values)


def covering_group(
    rng: random.Random,
    *,
    most_rows: int = 6,
    levels: int = 3,
    subtopics: Sequence[int] = (0, 1, 2),
    chance: float = 0.4,
    unretrieved: float = 0.0,
) -> list[Covering]:
    rows = []
    for number in range(rng.randint(1, most_rows)):
        score = None if rng.random() < unretrieved else rng.randrange(levels) - 1.0
        covers = frozenset(s for s in subtopics if rng.random() < chance)
        rows.append(
            Covering(score, covers, f"d{rng.randrange(10**4)}.{number}", rng.choice((0, 0, 1, -2)))
        )
    return rows


def covering_groups(seed: int, count: int, **options: object) -> list[list[Covering]]:
    rng = random.Random(seed)  # noqa: S311
    return [covering_group(rng, **options) for _ in range(count)]  # type: ignore[arg-type]


def covering_table(groups: Sequence[Sequence[Covering]]) -> pa.Table:
    """Columns group, item, label, score, covers; a row that covers nothing is null or empty."""
    rows = [(number, row) for number, group in enumerate(groups) for row in group]
    covers = [sorted(row.covers) or (None if i % 2 else []) for i, (_, row) in enumerate(rows)]
    return pa.table(
        {
            "group": pa.array([number for number, _ in rows], pa.int64()),
            "item": pa.array([row.item for _, row in rows], pa.string()),
            "label": pa.array([row.label for _, row in rows], pa.float64()),
            "score": pa.array([row.score for _, row in rows], pa.float64()),
            "covers": pa.array(covers, pa.list_(pa.int8())),
        }
    )
