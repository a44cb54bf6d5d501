"""Plain definitions of the measures that trec_eval adds, of one order of the retrieved rows.

Like `oracles`, which collects them: `ranked.labels` are the labels of the retrieved rows, best rank
first, `ranked.judged` those of all judged rows; a label of None was never judged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

NAN = math.nan


def hits_at(labels: Sequence[float | None], rel: float) -> list[int]:
    """Relevant rows among the first 0, 1, 2, ... rows."""
    found = [0]
    for label in labels:
        found.append(found[-1] + (label is not None and label >= rel))
    return found


def counts(ranked: Any, rel: float) -> tuple[int, int, int]:
    """Relevant rows retrieved, retrieved rows, relevant rows."""
    relevant = sum(label >= rel for label in ranked.judged)
    return hits_at(ranked.labels, rel)[-1], len(ranked.labels), relevant


# ---- hits ----------------------------------------------------------------------------------------


def ranks_at_multiple(mult: float, relevant: int) -> int:
    return math.floor(mult * relevant + 0.9)


def r_precision(ranked: Any, k: None, mult: float = 1, rel: float = 1) -> float:
    relevant = counts(ranked, rel)[2]
    if not relevant:
        return NAN
    ranks = ranks_at_multiple(mult, relevant)
    return hits_at(ranked.labels[:ranks], rel)[-1] / ranks if ranks else 0.0


def relative_precision(ranked: Any, k: int | None, rel: float = 1) -> float:
    _, retrieved, relevant = counts(ranked, rel)
    most = min(retrieved if k is None else k, relevant)
    if not relevant:
        return NAN
    return hits_at(ranked.labels[:k], rel)[-1] / most if most else 0.0


def reaching(recall: float, relevant: int, rounding: str) -> int:
    if rounding == "up":
        return math.floor(recall * relevant + 0.9)
    return math.floor(Fraction(recall * relevant) + Fraction(1, 2))


def interpolated_precision(
    ranked: Any, k: None, recall: float = 0, rounding: str = "nearest", rel: float = 1
) -> float:
    relevant = counts(ranked, rel)[2]
    if not relevant:
        return NAN
    found = hits_at(ranked.labels, rel)
    enough = reaching(recall, relevant, rounding)
    return max((found[i] / i for i in range(1, len(found)) if found[i] >= enough), default=0.0)


def eleven_points(ranked: Any, k: None, **options: Any) -> float:
    levels = [level / 10 for level in range(11)]
    return math.fsum(interpolated_precision(ranked, k, r, **options) for r in levels) / 11


# ---- sets ----------------------------------------------------------------------------------------


def set_average_precision(ranked: Any, k: None, rel: float = 1) -> float:
    hits, retrieved, relevant = counts(ranked, rel)
    if not relevant:
        return NAN
    return (hits / retrieved) * (hits / relevant) if retrieved else 0.0


def utility(
    ranked: Any,
    k: None,
    rel_ret: float = 1,
    nonrel_ret: float = -1,
    rel_missed: float = 0,
    nonrel_missed: float = 0,
    rel: float = 1,
) -> float:
    hits, retrieved, relevant = counts(ranked, rel)
    rows = len(ranked.judged) + ranked.labels.count(None)  # what is not judged is retrieved
    table = {
        (True, True): (rel_ret, hits),
        (True, False): (nonrel_ret, retrieved - hits),
        (False, True): (rel_missed, relevant - hits),
        (False, False): (nonrel_missed, rows - retrieved - (relevant - hits)),
    }
    return math.fsum(worth * number for worth, number in table.values())


def retrieved_rows(ranked: Any, k: None) -> float:
    return len(ranked.labels)


def relevant_rows(ranked: Any, k: None, rel: float = 1) -> float:
    return counts(ranked, rel)[2]


def relevant_retrieved_rows(ranked: Any, k: None, rel: float = 1) -> float:
    return counts(ranked, rel)[0]


# ---- gains ---------------------------------------------------------------------------------------


def positive_gain(label: float | None, gain: str | dict[float, float]) -> float:
    """No gain is below 0; a table wins for the negative grades it names."""
    if label is not None and isinstance(gain, dict):
        return max(gain.get(label, 0.0), 0.0)
    if label is None or label <= 0:
        return 0.0
    return 2.0**label - 1 if gain == "exp" else float(label)


def ideal_gains(judged: Sequence[float], gain: Any) -> list[float]:
    """Positive gains, the highest first."""
    gains = sorted((positive_gain(label, gain) for label in judged), reverse=True)
    return [g for g in gains if g > 0]


def dcg(gains: Sequence[float], k: int) -> float:
    return math.fsum(g / math.log2(rank + 1) for rank, g in enumerate(gains[:k], start=1))


def beside_ideal(value: Callable[..., float]) -> Callable[..., float]:
    """A measure of the gains of a list and of the ideal one, which must gain something."""

    def measured(ranked: Any, k: int | None, gain: Any = "linear", **options: Any) -> float:
        gains = [positive_gain(label, gain) for label in ranked.labels]
        ideal = ideal_gains(ranked.judged, gain)
        if not ideal or counts(ranked, options.pop("rel", -math.inf))[2] == 0:
            return NAN
        return value(gains, ideal, k, **options)

    return measured


@beside_ideal
def ndcg_at_relevant(gains: list[float], ideal: list[float], k: None) -> float:
    at = [dcg(gains, i) / dcg(ideal, i) for i, g in enumerate(gains, start=1) if g > 0]
    end = dcg(gains, len(gains)) / dcg(ideal, len(ideal))
    return (math.fsum(at) + (len(ideal) - len(at)) * end) / len(ideal)


@beside_ideal
def q_measure(gains: list[float], ideal: list[float], k: int | None, beta: float = 1) -> float:
    terms = []
    for i, g in enumerate(gains[:k], start=1):
        if g > 0:
            hits = sum(other > 0 for other in gains[:i])
            blended = hits + beta * math.fsum(gains[:i])
            terms.append(blended / (i + beta * math.fsum(ideal[:i])))
    return math.fsum(terms) / min(k or len(ideal), len(ideal))


def overlap(one: Sequence[Any], other: Sequence[Any], p: float, depth: int) -> float:
    """Rank-biased overlap, unnormalised."""
    terms = []
    for d in range(1, depth + 1):
        both = set(one[:d]) & set(other[:d])
        terms.append(p ** (d - 1) * len(both) / d)
    return math.fsum(terms)


def compatibility(
    ranked: Any, k: None, p: float = 0.95, depth: Any = 1000, rel: float = 1
) -> float:
    """The ideal keeps the ranking's order among equal grades, missed rows last."""
    listed = list(enumerate(ranked.labels))
    missed = Counter(g for g in ranked.judged if g >= rel)
    missed -= Counter(g for g in ranked.labels if g is not None)
    rows = listed + [(f"missed {n}", g) for n, g in enumerate(missed.elements())]
    ideal = sorted((r for r in rows if r[1] is not None and r[1] >= rel), key=lambda r: -r[1])
    names = [name for name, _ in ideal]
    depth = max(len(listed), len(ideal)) if depth == "lists" else depth
    most = overlap(names, names, p, depth)
    return overlap([name for name, _ in listed], names, p, depth) / most if most else NAN


def level_ranks(ideal: Sequence[float], retrieved: int) -> list[int]:
    """The last rank of each gain in the ideal list, and the end of a list that goes on behind."""
    last = [i for i in range(1, len(ideal) + 1) if i == len(ideal) or ideal[i] < ideal[i - 1]]
    return [*last, retrieved] if retrieved > len(ideal) + 1 else last


@beside_ideal
def ndcg_at_levels(gains: list[float], ideal: list[float], k: None) -> float:
    ranks = level_ranks(ideal, len(gains))
    return math.fsum(dcg(gains, i) / dcg(ideal, i) for i in ranks) / len(ranks)


@beside_ideal
def lagging_gain(gains: list[float], ideal: list[float], k: None) -> float:
    cost = [max(1.0, g) for g in ideal] + [1.0] * len(gains)
    earned = (
        g / math.log2(2 + math.fsum(cost[:i]) - math.fsum(gains[:i]))
        for i, g in enumerate(gains, start=1)
    )
    return math.fsum(earned) / math.fsum(ideal)


def binary_lagging_gain(ranked: Any, k: None, rel: float = 1) -> float:
    relevant = counts(ranked, rel)[2]
    found = hits_at(ranked.labels, rel)
    others = [i - found[i] for i in range(1, len(found)) if found[i] > found[i - 1]]
    return math.fsum(1 / math.log2(2 + j) for j in others) / relevant if relevant else NAN
