"""Compute curves of models as tables."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastrank_eval._lib.arguments import check_one_label, typed
from fastrank_eval._lib.errors import MeasureError
from fastrank_eval.engine.options import check_names
from fastrank_eval.engine.run import run
from fastrank_eval.measures import AUC, LogLoss, Measure, measure, parse_measures
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.curve_points import (
    COLUMNS,
    OPTIONS,
    SCORE_KINDS,
    Columns,
    Curve,
    Values,
    curve_of,
    read_choices,
)
from fastrank_eval.results.evaluate import evaluate
from fastrank_eval.results.result import Result, result_of


@typed
def curve(
    kind: str,
    source: object,
    *,
    points: str | int | None = None,
    rel: float | None = None,
    bins: int | None = None,
    binning: str | None = None,
    confidence: float | None = None,
    sampling_rate: float | None = None,
    measure: str | Measure | Sequence[str | Measure] | None = None,
    cutoffs: Iterable[int] | None = None,
    activity: str | None = None,
    buckets: Sequence[int] | None = None,
    **options: Any,
) -> Curve:
    """Compute the points of a curve for each model, in one pass over the rows.

    Parameters
    ----------
    kind : {"roc", "pr", "det", "lift", "calibration", "k", "gauc-by-activity"}
        * ``"roc"``: true over false positive rate, at all thresholds;
        * ``"pr"``: precision over recall;
        * ``"det"``: false negative over false positive rate;
        * ``"lift"``: recall and lift over depth;
        * ``"calibration"``: observed rate by bin of predictions;
        * ``"k"``: measures at each cutoff;
        * ``"gauc-by-activity"``: GAUC, or another measure of groups, by activity of groups.
    source : object
        As in :func:`fastrank_eval.evaluate`.
    points : {"corners", "all"} or int
        For roc, pr, det and lift. ``"all"``: every distinct score. ``"corners"`` (the default)
        leaves out points on straight segments, which preserves the area under ROC and gains and the
        average precision. A number: at most that many points, both ends included, at equal steps of
        tpr + fpr; for lift, at equal steps of depth.
    rel : float
        Least grade of a positive row. Default: 1.
    bins : int
        For calibration. Default: 10.
    binning : {"equal-count", "equal-width"}
        For calibration: the bins of ECE, ``by="count"`` or ``by="width"``. Equal predictions are
        always in one bin. A bin of equal width includes its lower edge; the last one also 1.
    confidence : float
        Level of Wilson's interval of the observed rate, which takes rows as independent. It is NaN
        with `weight` or `cluster`. Default: 0.95.
    sampling_rate : float
        For calibration: share of the negatives that the models were trained on. Default: 1.
    measure : str, Measure or sequence of them
        For k: one or several measures that take a cutoff (default: nDCG). For gauc-by-activity: one
        mean over groups (default: GAUC).
    cutoffs : iterable of int
        For k. Default: 1 to 50.
    activity : {"rows", "positives"}
        For gauc-by-activity: what to count in a group. A positive is a row of grade 1 or more.
    buckets : sequence of int
        For gauc-by-activity: the lower edge of each bucket. Default: ``(1, 5, 20, 100)``.
    **options
        `group`, `label`, `score` and any other argument of :func:`fastrank_eval.evaluate` but
        `measures`, `by` and `keep`.

    Returns
    -------
    Curve

    Raises
    ------
    FastRankEvalError
        As `evaluate` does; `ArgumentError` for an option that the kind does not have.

    Examples
    --------
    >>> import fastrank_eval as fr
    >>> log = {"user": [1, 1, 2, 2], "click": [0, 1, 1, 0], "pctr": [0.1, 0.4, 0.2, 0.3]}
    >>> result = fr.curve("roc", log, group="user", label="click", score="pctr")
    >>> result.values
    {'pctr': {'AUC': 0.75, 'positive rate': 0.5}}
    >>> result.of()["tpr"]
    array([0. , 0.5, 0.5, 1. , 1. ])
    """
    given = locals()
    choices = read_choices(kind, {name: given[name] for name in OPTIONS})
    check_names("curve", options, curve)
    check_one_label(options.get("label"))
    name = _source_name(source)
    if kind in SCORE_KINDS:
        least = 1.0 if rel is None else rel
        needed: list[Measure] = [AUC(rel=least) if rel is not None else AUC]
        if kind == "calibration":
            needed.append(LogLoss)  # raises if a score is not a probability, with its row
        result = evaluate(source, measures=needed, keep="scores", **options)
        return curve_of(result, kind, least, choices, name)
    of_kind = _by_cutoff if kind == "k" else _by_activity
    result, columns, values = of_kind(source, options, **choices)
    undefined = {
        score: "no_groups" for score in result.scores if np.isnan(columns[score]["value"]).all()
    }
    shown = ",".join(m.display_name for m in parse_measures(choices["measure"]))
    choices = {**choices, "measure": shown}
    meta = result.meta
    if kind == "k":
        # Of all cutoffs the options are the same.
        all_options: Any = meta.conventions["measures"]
        last = f"@{choices.pop('cutoffs')[-1]}"
        options_at_last = {m: of for m, of in all_options.items() if m.endswith(last)}
        meta = replace(meta, conventions={**meta.conventions, "measures": options_at_last})
    return Curve(kind, columns, values, undefined, choices, meta, name)


def _source_name(source: object) -> str:
    """Name the source; empty for a table in memory."""
    paths = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(paths, list | tuple) or not paths:
        return ""
    if not all(isinstance(path, str | os.PathLike) for path in paths):
        return ""
    first = os.fspath(paths[0])
    name = "standard input" if first == "-" else os.path.basename(os.path.normpath(first))  # noqa: PTH119 - a glob
    return str(name) if len(paths) == 1 else f"{name} and {len(paths) - 1} more"


def _by_cutoff(
    source: object,
    options: Mapping[str, Any],
    measure: str | Measure | Sequence[str | Measure],
    cutoffs: Sequence[int],
) -> tuple[Result, Columns, Values]:
    """Evaluate each measure at each cutoff, in one pass over the rows."""
    families = parse_measures(measure)
    for family in families:
        if family.cutoff is not None:
            raise MeasureError(
                f"measures: must have no cutoff, because the curve has its own, got {family}; "
                "leave the cutoff out."
            )
    points = [(m, k) for m in families for k in cutoffs]
    result = evaluate(source, measures=[m @ k for m, k in points], keep="", **options)
    shared = {
        "measure": np.array([str(m) for m, _ in points]),
        "k": np.array([k for _, k in points]),
    }
    columns, values = {}, {}
    for score in result.scores:
        numbers = [result.value(m @ k, score) for m, k in points]
        columns[score] = {**shared, "value": np.array(numbers)}
        values[score] = {
            f"{m}@{k}": number
            for (m, k), number in zip(points, numbers, strict=True)
            if k == cutoffs[-1]
        }
    return result, columns, values


def _by_activity(
    source: object,
    options: Mapping[str, Any],
    measure: str | Measure,
    activity: str,
    buckets: Sequence[int],
) -> tuple[Result, Columns, Values]:
    """Evaluate a measure over the groups of each bucket of activity."""
    _check_mean(measure)
    by = f"@{activity}:{','.join(map(str, buckets))}"
    evaluation = run(source, measures=[measure], keep="", by=by, **options)
    result = result_of(evaluation)
    _check_mean(result.measures[0])
    ((slicing,), (sums,)) = evaluation.plan.slice_encoders, evaluation.totals.slices
    # Bucket 0 has the groups below the first edge: it is left out.
    indices = range(1, len(buckets) + 1)
    labels = [slicing.slices().labels[index] for index in indices]
    found = {(v.score, v.slice): v for v in result}
    pairs = [*zip(buckets, [*buckets[1:], None], strict=True)]
    shared = {
        "bucket": [_bucket(least, next_edge) for least, next_edge in pairs],
        "least": buckets,
        "most": [math.nan if next_edge is None else next_edge - 1 for _, next_edge in pairs],
        "groups": [sums.groups(index) for index in indices],
        "rows": [sums.rows(index) for index in indices],
        "positives": [sums.positives(index) for index in indices],
    }
    columns: Columns = {}
    for score in result.scores:
        own = [found.get((score, label)) for label in labels]
        of_score = {
            **shared,
            "groups_used": [0 if v is None else v.groups_used for v in own],
            "value": [math.nan if v is None else v.value for v in own],
            "standard_error": [math.nan if v is None else v.se for v in own],
        }
        names = [*COLUMNS["gauc-by-activity"]]
        if CLUSTERS in result.meta.conventions:
            of_score[CLUSTERS] = [0 if v is None else v.clusters for v in own]
            names.append(CLUSTERS)
        columns[score] = {name: np.array(of_score[name]) for name in names}
    # Of all rows, not of a bucket.
    values = {score: {v.measure: v.value} for (score, _), v in found.items() if v.by is None}
    return result, columns, values


def _bucket(least: int, next_edge: int | None) -> str:
    if next_edge is None:
        return f"{least}+"
    return str(least) if next_edge == least + 1 else f"{least}–{next_edge - 1}"


def _check_mean(requested: str | Measure) -> None:
    wanted = measure(requested)
    if wanted.pooled or wanted.aggregate != "mean":
        raise MeasureError(
            f"measure: must be a mean over groups, got {wanted}; choose GAUC or nDCG@10, for "
            "instance."
        )
