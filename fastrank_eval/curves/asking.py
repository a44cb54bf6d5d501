"""curve(): a kind and a source in, Curve out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fastrank_eval.arguments import check_options
from fastrank_eval.curves import calibration, classification
from fastrank_eval.curves.curve_table import SCHEMAS, Curve
from fastrank_eval.curves.groups import Rows, by_activity, by_cutoff
from fastrank_eval.curves.points import Thresholds, points_choice
from fastrank_eval.errors import ArgumentError, near
from fastrank_eval.evaluate import evaluate
from fastrank_eval.measures import AUC, AvgPrec, Lift, LogLoss, Measure
from fastrank_eval.result import Result
from fastrank_eval.score_steps import ScoreSteps
from fastrank_eval.score_table import ScoreTable
from fastrank_eval.typed_arguments import typed

__all__ = ["KINDS", "curve", "curve_of"]

KINDS = tuple(SCHEMAS)
#: Those that are read from the distinct scores of all rows.
_OF_SCORES = ("roc", "pr", "det", "lift", "calibration")
#: Each choice with its default, by the kinds that know it.
_CHOICES: dict[str, dict[str, Any]] = {
    **{kind: {"points": "corners"} for kind in ("roc", "pr", "det", "lift")},
    "calibration": {
        "bins": 10,
        "binning": "equal-count",
        "confidence": 0.95,
        "sampling_rate": 1,
    },
    "k": {"measure": "nDCG", "cutoffs": range(1, 51)},
    "gauc-by-activity": {
        "measure": "GAUC",
        "activity": "rows",
        "buckets": (1, 5, 20, 100),
    },
}


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
    """The points of a curve for each model, in one pass over the rows.

    Parameters
    ----------
    kind : {"roc", "pr", "det", "lift", "calibration", "k", "gauc-by-activity"}
        Over all thresholds: true over false positive rate; precision over recall; misses over false
        alarms; recall and lift over depth. Over bins of predictions: the observed rate. Over
        cutoffs: measures at k. Over how active groups are: GAUC, or another measure of groups.
    source : object
        As of :func:`fastrank_eval.evaluate`.
    points : {"corners", "all"} or int
        Of roc, pr, det and lift. ``"all"``: every distinct score. ``"corners"`` (the default)
        leaves out points on straight segments, which keeps the area under ROC and gains and the
        average precision. A number: at most so many, the ends among them, at equal steps of
        tpr + fpr; of lift, at equal steps of depth.
    rel : float
        The least grade that is positive; 1.
    bins : int
        Of calibration; 10.
    binning : {"equal-count", "equal-width"}
        Of calibration: the bins of ECE, ``by="count"`` or ``by="width"``. Equal predictions always
        share a bin; of equal width, a bin holds its lower edge, and the last one 1 too.
    confidence : float
        Of Wilson's interval of the observed rate; 0.95.
    sampling_rate : float
        Of calibration: the share of the negatives that the model was trained on; 1.
    measure : str, Measure or sequence of them
        Of k: one or several that take a cutoff; nDCG. Of gauc-by-activity: one mean over groups;
        GAUC.
    cutoffs : iterable of int
        Of k; 1 to 50.
    activity : {"rows", "positives"}
        Of gauc-by-activity: what of a group is counted; a positive is a row of grade 1 or more.
    buckets : sequence of int
        Of gauc-by-activity: where each bucket begins; ``(1, 5, 20, 100)``.
    **options
        `group`, `label`, `score` and any other argument of :func:`fastrank_eval.evaluate` but
        `measures` and `per_group`.

    Returns
    -------
    Curve

    Raises
    ------
    FastRankEvalError
        As `evaluate`; `ArgumentError` for a choice that the kind does not have.

    Examples
    --------
    >>> import fastrank_eval as fr
    >>> log = {"user": [1, 1, 2, 2], "click": [0, 1, 1, 0], "pctr": [0.1, 0.4, 0.2, 0.3]}
    >>> found = fr.curve("roc", log, group="user", label="click", score="pctr")
    >>> found.values
    {'pctr': {'AUC': 0.75, 'positive rate': 0.5}}
    >>> found.of()["tpr"]
    array([0. , 0.5, 0.5, 1. , 1. ])
    """
    given = {
        "points": points,
        "rel": rel,
        "bins": bins,
        "binning": binning,
        "confidence": confidence,
        "sampling_rate": sampling_rate,
        "measure": measure,
        "cutoffs": cutoffs,
        "activity": activity,
        "buckets": buckets,
    }
    chosen = _chosen(kind, given)
    for name in (
        "measures", "per_group", "keep_scores", "keep_state", "keep_groups", "by", "min_groups",
    ):  # fmt: skip
        if name in options:
            raise ArgumentError(f"curve() takes no {name}: the kind of curve tells.")
    check_options("curve", {"measures", *options}, evaluate)
    name = _name_of(source)
    if kind in _OF_SCORES:
        needed: list[Measure] = [AUC(rel=rel) if rel is not None else AUC]
        if kind == "calibration":
            needed.append(LogLoss)  # refuses what is no probability, and says in which row
        result = evaluate(source, measures=needed, per_group=False, keep_scores=True, **options)
        least = 1.0 if rel is None else rel
        return _of_result(result, kind, least, chosen, name)
    if kind == "k":
        result, rows = by_cutoff(source, chosen["measure"], chosen["cutoffs"], options)
    else:
        result, rows = by_activity(
            source, chosen["measure"], chosen["activity"], chosen["buckets"], options
        )
    chosen = {"measure": str(chosen["measure"]), **_told(chosen)}
    return _of_groups(kind, result, rows, chosen, name)


@typed
def curve_of(result: Result, kind: str, *, rel: float = 1, **choices: Any) -> Curve:
    """A curve over all rows, from a result that kept its scores; see `Result.curve`."""
    if kind not in _OF_SCORES:
        raise ArgumentError(
            f"a result has no {kind!r} curve, only {', '.join(map(repr, _OF_SCORES))}; for others "
            "call fastrank_eval.curve()."
        )
    if kind == "calibration":
        choices.setdefault("sampling_rate", result.meta.conventions["sampling_rate"])
    return _of_result(result, kind, rel, _chosen(kind, choices), "")


def _chosen(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The choices of a kind in force; refuse those of others."""
    if kind not in KINDS:
        raise ArgumentError(
            f"kind={kind!r} is not one of {', '.join(map(repr, KINDS))}.{near(str(kind), KINDS)}"
        )
    chosen = dict(_CHOICES[kind])
    for name, value in given.items():
        if value is None or (name == "rel" and kind in _OF_SCORES):
            continue
        if name not in chosen:
            raise ArgumentError(f"a {kind} curve has no {name}; it has {', '.join(chosen)}.")
        chosen[name] = value
    if "points" in chosen:
        chosen["points"] = points_choice(chosen["points"])
    if "bins" in chosen:
        calibration.check_bins(chosen["bins"], chosen["binning"], chosen["confidence"])
        LogLoss(sampling_rate=chosen["sampling_rate"])  # refuses what is no rate
    return chosen


def _of_result(result: Result, kind: str, rel: float, chosen: dict[str, Any], name: str) -> Curve:
    auc = AUC(rel=rel)
    columns: dict[str, dict[str, np.ndarray]] = {}
    values: dict[str, dict[str, float]] = {}
    undefined: dict[str, str] = {}
    for score in result.scores:
        table = result.score_table(score, rel)
        missing = _missing(kind, table)
        if missing:
            undefined[score] = missing
            columns[score], values[score] = {}, {}
        elif kind == "calibration":
            found = calibration.of_bins(table, score, **chosen)
            columns[score] = found
            values[score] = {"ECE": calibration.expected_error(found)}
        else:
            at = Thresholds.of(table)
            columns[score] = classification.of_thresholds(kind, at, chosen["points"])
            roc = kind == "roc"
            worth = {"AUC": result.value(auc, score)} if roc else _worth(kind, table, at)
            values[score] = {**worth, "positive rate": float(at.precision[-1])}
    choices = {**chosen, **({} if rel == 1 else {"rel": rel})}
    return Curve(kind, columns, values, undefined, choices, result.meta, name)


def _missing(kind: str, table: ScoreTable) -> str | None:
    """Why a model has no curve, or None."""
    if not len(table.score):
        return "no_rows"
    if kind in ("roc", "det"):
        return table.missing
    needed = table.positive + (table.other if kind == "calibration" else 0)
    return None if needed > 0 else table.missing


def _worth(kind: str, table: ScoreTable, at: Thresholds) -> dict[str, float]:
    """What a curve of thresholds other than ROC comes to."""
    if kind == "pr":
        return {"AvgPrec": AvgPrec.of_steps(ScoreSteps.of_table(table)).value}
    if kind == "det":
        return {"EER": classification.equal_error_rate(at)}
    return {"Lift@10%": Lift(top=0.1).of_table(table).value}


def _of_groups(kind: str, result: Result, rows: Rows, chosen: dict[str, Any], name: str) -> Curve:
    columns = {
        score: {
            column: np.array([_number(row[column]) for row in rows if row["score"] == score])
            for column in SCHEMAS[kind].names[1:]
        }
        for score in result.scores
    }
    values: dict[str, dict[str, float]] = {score: {} for score in result.scores}
    meta = result.meta
    if kind == "k":
        last = max(row["k"] for row in rows)
        for row in rows:
            if row["k"] == last:
                values[row["score"]][f"{row['measure']}@{last}"] = row["value"]
        told: Any = meta.conventions["measures"]
        kept = {name: options for name, options in told.items() if name.endswith(f"@{last}")}
        meta = replace(meta, conventions={**meta.conventions, "measures": kept})
    else:
        for value in result:
            if value.by is None:  # of all rows, not of a bucket
                values[value.score][value.measure] = value.value
    undefined = {
        score: "no_groups" for score in result.scores if np.isnan(columns[score]["value"]).all()
    }
    return Curve(kind, columns, values, undefined, chosen, meta, name)


def _number(value: Any) -> Any:
    return np.nan if value is None else value


def _told(chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in chosen.items() if name not in ("measure", "cutoffs")}


def _name_of(source: object) -> str:
    """What a reader calls the source; nothing for a table in memory."""
    paths = [source] if isinstance(source, str | os.PathLike) else source
    if not isinstance(paths, list | tuple) or not paths:
        return ""
    if not all(isinstance(path, str | os.PathLike) for path in paths):
        return ""
    first = os.fspath(paths[0])
    name = "standard input" if first == "-" else os.path.basename(os.path.normpath(first))  # noqa: PTH119 - a glob
    return str(name) if len(paths) == 1 else f"{name} and {len(paths) - 1} more"
