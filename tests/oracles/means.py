"""The mean of a measure over groups and its coverage, spelled out group by group."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.oracles.measures import NAN, Row, classes, is_relevant, oracle, read, reason, weight_of

COUNTS = ("NumRet", "NumRel", "NumRelRet", "NumNonrelRet")


@dataclass
class Mean:
    """What a measure's line in the summary must say."""

    value: float = NAN
    groups: int = 0
    groups_used: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    rows_share: float = NAN
    positives_share: float = NAN
    se: float = NAN
    effective_groups: float = 0.0


def group_weight(rows: Sequence[Row], weight: str, rel: float, of_pairs: bool) -> float:
    """What a group counts for; others than the AUC family see retrieved rows alone."""
    if of_pairs:
        positive, negative = (weight_of(part) for part in classes(rows, rel))
    else:
        positive = float(sum(is_relevant(row.label, rel) for row in rows))
        negative = float(retrieved([row for row in rows if not is_relevant(row.label, rel)]))
    return {
        "uniform": 1.0,
        "impressions": positive + negative if of_pairs else float(retrieved(rows)),
        "positives": positive,
        "pairs": positive * negative,
    }[weight]


def retrieved(rows: Sequence[Row]) -> int:
    return sum(row.score is not None for row in rows)


def mean_over_groups(
    text: str,
    groups: Sequence[Sequence[Row]],
    *,
    ties: str = "expected",
    undefined: str = "skip",
    with_relevant: bool = False,
) -> Mean:
    """Weighted mean of the defined groups, with the coverage that goes with it."""
    name, options, _ = read(text)
    weight = options.get("weight", "impressions" if name == "GAUC" else "uniform")
    fill = {"skip": None, "zero": 0.0, "one": 1.0}[undefined]
    if options.get("single_class") == "skip":
        fill = None
    dropped, used = Counter[str](), []
    for rows in groups:
        value, why = oracle(text, rows, ties), reason(text, rows)
        missing = ("no_relevant", "all_negative", "all_positive", "zero_weight")
        if why in missing and fill is not None:
            value, why = fill, None
        if with_relevant and not has_positive(rows):
            why = "no_relevant"
        counts_for = group_weight(rows, weight, options.get("rel", 1), name == "GAUC")
        if why is None and counts_for == 0:
            why = "zero_weight"
        if why is None:
            used.append((counts_for, value, rows))
        else:
            dropped[why] += 1
    mean = Mean(groups=len(groups), groups_used=len(used), dropped=dict(dropped))
    if used:
        total = math.fsum(w for w, _, _ in used)
        if name in COUNTS:
            mean.value = math.fsum(w * value for w, value, _ in used)
        elif name in ("GMAP", "GMbpref"):
            logs = math.fsum(w * math.log(max(value, 1e-5)) for w, value, _ in used)
            mean.value = math.exp(logs / total)
        else:
            mean.value = math.fsum(w * value for w, value, _ in used) / total
        mean.se, mean.effective_groups = two_pass(name, used, mean.value)
    everything = list(itertools.chain(*groups))
    kept = list(itertools.chain(*(rows for _, _, rows in used)))
    mean.rows_share = share(len(kept), len(everything))
    mean.positives_share = share(positives(kept), positives(everything))
    return mean


def effective_groups(numbers: Sequence[float]) -> float:
    """(sum of x^2)^2 / sum of x^4: how many numbers carry the sum of squares."""
    squares = [Fraction(x) ** 2 for x in numbers]
    below = sum(square**2 for square in squares)
    return float(sum(squares) ** 2 / below) if below else NAN


def degrees_of(carrying: float, groups: int) -> float:
    """Degrees of freedom of a variance that so many of the groups carry (Satterthwaite)."""
    most = max(groups - 1.0, 1.0)
    if math.isnan(carrying) or carrying >= groups:
        return most
    return min(max(2 / (1 / carrying - 1 / groups), 1.0), most)


def behind(weights: Sequence[float], influences: Sequence[float]) -> tuple[float, float]:
    """Effective number of groups, and degrees of freedom, by weights and by influences."""
    groups, by_weight = len(weights), effective_groups(weights)
    by_influence = degrees_of(effective_groups(influences), groups)
    effective = min(float(groups), by_weight, 1 + by_influence)
    return effective, min(degrees_of(by_weight, groups), by_influence)


def two_pass(name: str, used: Sequence[tuple], value: float) -> tuple[float, float]:
    """Standard error with groups as clusters, from deviations; the effective number of groups."""
    many, weights = len(used), [w for w, _, _ in used]
    scale, values, below = 1.0, [v for _, v, _ in used], math.fsum(weights)
    middle, equal = value, name in COUNTS
    if equal:
        weighted = any(w != 1 for w in weights)
        values, weights = [w * v for w, v in zip(weights, values, strict=True)], [1.0] * many
        middle, below = value / many, 1.0
    if name in ("GMAP", "GMbpref"):
        values = [math.log(max(v, 1e-5)) for v in values]
        middle, scale = math.log(value), value
    influences = [w * (v - middle) for w, v in zip(weights, values, strict=True)]
    if many < 2 or (equal and weighted):
        effective = float(many)
    else:
        effective, _ = behind(weights, influences)
    if many < 2 or all(math.isclose(v, middle, rel_tol=1e-13, abs_tol=1e-15) for v in values):
        return NAN, effective
    squares = math.fsum(u * u for u in influences)
    return scale * math.sqrt(squares * many / (many - 1)) / below, effective


def positives(rows: Sequence[Row]) -> int:
    """Rows of grade 1 or more, whatever a measure calls relevant."""
    return sum(is_relevant(row.label, 1) for row in rows)


def has_positive(rows: Sequence[Row]) -> bool:
    return positives(rows) > 0


def share(part: int, whole: int) -> float:
    return part / whole if whole else NAN


def clustered(
    values: Sequence[float],
    weights: Sequence[float],
    clusters: Sequence[object],
    *,
    is_sum: bool = False,
) -> tuple[float, int]:
    """Standard error with clusters of groups as the independent units, and their number.

    A group of value NaN is not used.
    """
    sums: dict[object, list[Fraction]] = {}
    for value, weight, cluster in zip(values, weights, clusters, strict=True):
        if not math.isnan(value):
            both = sums.setdefault(cluster, [Fraction(0), Fraction(0)])
            both[0] += Fraction(weight) * Fraction(value)
            both[1] += Fraction(weight)
    many = len(sums)
    if many < 2:
        return NAN, many
    if is_sum:
        sums = {cluster: [p, Fraction(1)] for cluster, (p, _) in sums.items()}
    total, below = (sum(column) for column in zip(*sums.values(), strict=True))
    mean = total / below
    squares = sum((p - mean * w) ** 2 for p, w in sums.values()) * many / (many - 1)
    return math.sqrt(squares) / float(1 if is_sum else below), many
