"""Decisions at a threshold by definition: plain Python over a list of rows, in exact fractions.

Rows without a score are no part of them, and rows without a label count as label 0. An oracle gives
the value, or the reason why there is none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple

from tests.oracles.measures import Row


class Cells(NamedTuple):
    tp: Fraction
    fp: Fraction
    fn: Fraction
    tn: Fraction


def cells(rows: Sequence[Row], threshold: float | None, rel: float = 1) -> Cells:
    """The weight in each cell; threshold None: no row is predicted positive."""
    found = dict.fromkeys(("tp", "fp", "fn", "tn"), Fraction(0))
    for row in rows:
        positive = row.label is not None and row.label >= rel
        scored = threshold is not None and row.score is not None
        predicted = scored and row.score >= threshold
        right = "t" if positive == predicted else "f"
        found[right + ("p" if predicted else "n")] += Fraction(row.weight)
    return Cells(**found)


def share(above: Fraction, below: Fraction, reason: str) -> Fraction | str:
    return above / below if below else reason


def f_beta(c: Cells, beta: float = 1) -> Fraction | str:
    square = Fraction(beta) ** 2
    below = (1 + square) * c.tp + square * c.fn + c.fp
    return share((1 + square) * c.tp, below, "true_negatives_only")


def matthews(c: Cells) -> float | str:
    for reason, part in (
        ("all_negative", c.tp + c.fn),
        ("all_positive", c.fp + c.tn),
        ("none_predicted", c.tp + c.fp),
        ("all_predicted", c.fn + c.tn),
    ):
        if not part:
            return reason
    below = (c.tp + c.fp) * (c.tp + c.fn) * (c.tn + c.fp) * (c.tn + c.fn)
    above = c.tp * c.tn - c.fp * c.fn
    return math.copysign(math.sqrt(above**2 / below), above)


def balanced(c: Cells) -> Fraction | str:
    tpr = share(c.tp, c.tp + c.fn, "all_negative")
    tnr = share(c.tn, c.tn + c.fp, "all_positive")
    if isinstance(tpr, str):
        return tpr
    return tnr if isinstance(tnr, str) else (tpr + tnr) / 2


#: What each measure is of the cells.
OF_CELLS: dict[str, Callable[..., Any]] = {
    "PPV": lambda c: share(c.tp, c.tp + c.fp, "none_predicted"),
    "NPV": lambda c: share(c.tn, c.tn + c.fn, "all_predicted"),
    "TPR": lambda c: share(c.tp, c.tp + c.fn, "all_negative"),
    "FNR": lambda c: share(c.fn, c.tp + c.fn, "all_negative"),
    "TNR": lambda c: share(c.tn, c.tn + c.fp, "all_positive"),
    "FPR": lambda c: share(c.fp, c.tn + c.fp, "all_positive"),
    "FScore": f_beta,
    "Accuracy": lambda c: share(c.tp + c.tn, sum(c), "zero_weight"),
    "ErrorRate": lambda c: share(c.fp + c.fn, sum(c), "zero_weight"),
    "BalancedAccuracy": balanced,
    "MCC": matthews,
}


def decision(
    name: str, rows: Sequence[Row], threshold: float = 0.5, rel: float = 1, **options: Any
) -> float | str:
    """The value of a measure, or why it has none."""
    c = cells(rows, threshold, rel)
    weightless = not sum(c) and any(row.weight == 0 for row in rows)
    found = "zero_weight" if weightless else OF_CELLS[name](c, **options)
    return found if isinstance(found, str) else float(found)


DECISIONS: dict[str, Callable[..., float | str]] = {
    name: partial(decision, name) for name in OF_CELLS
}


def cumulative_gain(rows: Sequence[Row], top: float = 0.1, rel: float = 1) -> float | str:
    """Walk down the scores, a block of equal scores at a time."""
    kept = [row._replace(score=-math.inf) if row.score is None else row for row in rows]
    weight = {True: Fraction(0), False: Fraction(0)}
    for row in kept:
        weight[row.label is not None and row.label >= rel] += Fraction(row.weight)
    if not any(weight.values()) and kept:
        return "zero_weight"
    if not all(weight.values()):
        return "single_class"
    left, hits = Fraction(top) * sum(weight.values()), Fraction(0)
    by_score = sorted(kept, key=lambda row: -row.score)
    for _, block in itertools.groupby(by_score, key=lambda row: row.score):
        tied = list(block)
        held = sum(Fraction(row.weight) for row in tied)
        positive = sum(
            Fraction(row.weight) for row in tied if row.label is not None and row.label >= rel
        )
        if held:
            hits += positive * min(Fraction(1), left / held)
            left = max(Fraction(0), left - held)
    return float(hits / weight[True])


def lift(rows: Sequence[Row], top: float = 0.1, rel: float = 1) -> float | str:
    gain = cumulative_gain(rows, top, rel)
    return gain if isinstance(gain, str) else gain / top


# ---- best thresholds -----------------------------------------------------------------------------


def criterion(by: str, c: Cells, **options: Any) -> Fraction | float | None:
    """The number that is to be highest; None where there is none."""
    beta, target = options.get("beta", 1), options.get("target", 0)
    positive, negative = c.tp + c.fn, c.fp + c.tn
    if by in ("f1", "fbeta"):
        found = f_beta(c, beta)
        return None if isinstance(found, str) else found
    if by in ("precision", "recall"):
        precision = c.tp / (c.tp + c.fp) if c.tp + c.fp else None
        recall = c.tp / positive
        asked, wanted = (precision, recall) if by == "precision" else (recall, precision)
        return wanted if asked is not None and asked >= Fraction(target) else None
    pos = options.get("pos")
    if by in ("accuracy", "cost") and pos is None:
        pos = positive / (positive + negative)
    tpr = c.tp / positive if positive else Fraction(0)
    fpr = c.fp / negative if negative else Fraction(0)
    if by == "youden":
        return tpr + 1 - fpr
    if by == "product":
        return tpr * (1 - fpr)
    if by == "closest":
        return -(fpr**2 + (1 - tpr) ** 2)
    pos = Fraction(pos)
    if by == "accuracy":
        return pos * tpr + (1 - pos) * (1 - fpr)
    costs = {cell: Fraction(cost) for cell, cost in options["costs"].items()}
    of_positive = costs.get("tp", 0) * tpr + costs.get("fn", 0) * (1 - tpr)
    of_negative = costs.get("fp", 0) * fpr + costs.get("tn", 0) * (1 - fpr)
    return -(pos * of_positive + (1 - pos) * of_negative)


@lru_cache(4)  # tests ask for many criteria of the same rows
def cells_of_thresholds(rows: tuple[Row, ...], rel: float) -> list[tuple[float | None, Cells]]:
    """The cells of no threshold and of every score that weighs something, the highest first."""
    scores = sorted({row.score for row in rows if row.score is not None and row.weight})[::-1]
    tried: list[tuple[float | None, Cells]] = [(None, cells(rows, None, rel))]
    return tried + [(score, cells(rows, score, rel)) for score in scores]


def best(
    rows: Sequence[Row], by: str, prefer: str = "highest", rel: float = 1, **options: Any
) -> tuple[float | None, float] | None:
    """The best threshold and the number there, of none and every score; None where undefined.

    What weighs nothing is no threshold.
    """
    tried = cells_of_thresholds(tuple(rows), rel)
    values = [(at, criterion(by, c, **options)) for at, c in tried]
    defined = [(at, value) for at, value in values if value is not None]
    if not defined:
        return None
    most = max(value for _, value in defined)
    ties = [at for at, value in defined if value == most]
    at = ties[0] if prefer == "highest" else ties[-1]
    value = float(most)
    if by == "closest":
        value = math.sqrt(-most)
    return at, -value if by == "cost" else value
