"""Curves of measures of groups: by cutoff, and by how active the groups are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fastrank_eval.errors import ArgumentError, MeasureError
from fastrank_eval.evaluate import evaluate, result_of
from fastrank_eval.evaluation import run
from fastrank_eval.measures import Measure, measure, parse_measures
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
    _check_mean(measure(wanted))
    by = f"@{activity}:{','.join(map(str, edges))}"
    done = run(source, measures=[wanted], per_group=False, by=by, **options)
    result = result_of(done)
    _check_mean(measure(result.measures[0]))
    ((slicing,), (sums,)) = done.plan.slicings, done.tally.slices
    labels = slicing.slices().labels
    found = {(v.score, v.slice): v for v in result}
    rows = []
    for score in result.scores:
        # Groups below the first edge are in no bucket.
        for bucket, (least, beyond) in enumerate(zip(edges, [*edges[1:], None], strict=True), 1):
            line = found.get((score, labels[bucket]))
            rows.append(
                {
                    "score": score,
                    "bucket": _bucket(least, beyond),
                    "least": least,
                    "most": None if beyond is None else beyond - 1,
                    "groups": sums.groups(bucket),
                    "groups_used": 0 if line is None else line.groups_used,
                    "rows": sums.rows(bucket),
                    "positives": sums.positives(bucket),
                    "value": math.nan if line is None else line.value,
                    "standard_error": math.nan if line is None else line.se,
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


def _check_mean(wanted: Measure) -> None:
    if wanted.pooled or wanted.aggregate != "mean":
        raise MeasureError(f"{wanted} is no mean over groups; take GAUC, nDCG@10 or the like.")
