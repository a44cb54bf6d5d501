"""Curves of measures of groups: by cutoff, and by how active the groups are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fastrank_eval.errors import ArgumentError, MeasureError
from fastrank_eval.evaluate import evaluate
from fastrank_eval.mean_state import MeanState
from fastrank_eval.measures import Measure, measure, parse_measures
from fastrank_eval.measures.base import GROUP_WEIGHTS
from fastrank_eval.result import Result

__all__ = ["ACTIVITIES", "by_activity", "by_cutoff"]

ACTIVITIES = ("rows", "positives")
Rows = list[dict[str, Any]]


def by_cutoff(
    source: object,
    measures: str | Measure | Sequence[str | Measure],
    cutoffs: Iterable[int],
    options: Mapping[str, Any],
) -> tuple[Result, Rows]:
    """Each measure at each cutoff, in one pass over the rows."""
    wanted = _cutoffs(cutoffs)
    families = parse_measures(measures)
    for family in families:
        if family.cutoff is not None:
            raise MeasureError(f"{family}: the curve has its own cutoffs; leave out this one.")
    result = evaluate(
        source, measures=[m @ k for m in families for k in wanted], per_group=False, **options
    )
    rows = [
        {"score": score, "measure": str(m), "k": k, "value": result.value(m @ k, score)}
        for score in result.scores
        for m in families
        for k in wanted
    ]
    return result, rows


def _cutoffs(given: Iterable[int]) -> list[int]:
    cutoffs = list(given) if isinstance(given, Iterable) else []
    if not cutoffs or not all(map(_whole, cutoffs)) or min(cutoffs) < 1:
        raise ArgumentError(f"cutoffs={given!r} are not whole numbers of at least 1.")
    return sorted({int(k) for k in cutoffs})


def _whole(number: object) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def by_activity(
    source: object,
    wanted: str | Measure,
    activity: str,
    buckets: Sequence[int],
    options: Mapping[str, Any],
) -> tuple[Result, Rows]:
    """A measure over the groups of each bucket of activity."""
    if activity not in ACTIVITIES:
        raise ArgumentError(
            f"activity={activity!r} is not one of {', '.join(map(repr, ACTIVITIES))}."
        )
    edges = _edges(buckets)
    _check_mean(measure(wanted), options)
    result = evaluate(source, measures=[wanted], per_group=True, **options)
    used = measure(result.measures[0])
    _check_mean(used, options)
    table = result.per_group
    keys = len(options["group"]) if not isinstance(options["group"], str) else 1
    sizes, positives = (np.asarray(table.column(keys + i).to_numpy()) for i in (0, 1))
    weights = _weights(used.weight, sizes, positives)
    active = sizes if activity == "rows" else positives
    rows = []
    for score in result.scores:
        values = result[score, used]
        if weights is not None:
            values = np.where(weights == 0, np.nan, values)
        for least, beyond in zip(edges, [*edges[1:], None], strict=True):
            here = active >= least if beyond is None else (active >= least) & (active < beyond)
            state = MeanState(1)
            state.add(
                0,
                values[here],
                None if weights is None else weights[here],
                sizes[here],
                positives[here],
            )
            mean = state.mean(0, weights is not None)
            rows.append(
                {
                    "score": score,
                    "bucket": _bucket(least, beyond),
                    "least": least,
                    "most": None if beyond is None else beyond - 1,
                    "groups": int(np.count_nonzero(here)),
                    "groups_used": state.used(0),
                    "rows": int(sizes[here].sum()),
                    "positives": int(positives[here].sum()),
                    "value": mean,
                    "standard_error": _standard_error(
                        values[here], None if weights is None else weights[here], mean
                    ),
                }
            )
    return result, rows


def _edges(buckets: Sequence[int]) -> list[int]:
    edges = list(buckets) if isinstance(buckets, Iterable) else []
    known = bool(edges) and all(map(_whole, edges)) and edges[0] >= 0
    if not known or any(a >= b for a, b in pairwise(edges)):
        raise ArgumentError(
            f"buckets={buckets!r} are not ascending whole numbers of at least 0, where each bucket "
            "begins."
        )
    return [int(e) for e in edges]


def _bucket(least: int, beyond: int | None) -> str:
    if beyond is None:
        return f"{least}+"
    return str(least) if beyond == least + 1 else f"{least}–{beyond - 1}"


def _check_mean(wanted: Measure, options: Mapping[str, Any]) -> None:
    """Refuse a mean over groups that the values of the groups do not tell."""
    if wanted.pooled or wanted.aggregate != "mean":
        raise MeasureError(f"{wanted} is no mean over groups; take GAUC, nDCG@10 or the like.")
    if wanted.weight == "uniform":
        return
    why = ""
    if wanted.weight not in GROUP_WEIGHTS:
        why = "a column weighs its groups"
    elif options.get("weight") is not None and wanted.uses_row_weights:
        why = "row weights weigh its groups"
    elif options.get("unretrieved", "error") not in (None, "error"):
        why = "rows without a score are no impressions of it"
    elif wanted.rel_or_default != 1 and wanted.weight != "impressions":
        why = f"its positives are rows of grade {wanted.rel_or_default:g}"
    if why:
        raise MeasureError(
            f"{wanted}: buckets know rows and rows of grade 1 of each group, but {why}; take "
            "weight='uniform'."
        )


def _weights(kind: str, rows: np.ndarray, positives: np.ndarray) -> np.ndarray | None:
    if kind == "uniform":
        return None
    if kind == "impressions":
        return rows.astype(np.float64)
    if kind == "positives":
        return positives.astype(np.float64)
    return positives.astype(np.float64) * (rows - positives)


def _standard_error(values: np.ndarray, weights: np.ndarray | None, mean: float) -> float:
    """Of a weighted mean of independent groups; NaN of less than two."""
    there = ~np.isnan(values)
    weight = np.ones(int(there.sum())) if weights is None else weights[there]
    if len(weight) < 2:
        return float("nan")
    # Sums rounded once, so that the order of the groups shows in no bit.
    squares = math.fsum((weight * (values[there] - mean)) ** 2)
    return math.sqrt(squares * len(weight) / (len(weight) - 1)) / math.fsum(weight)
