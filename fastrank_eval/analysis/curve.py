"""Compute curves of models as tables, and decisions at thresholds.

Choose the best threshold, and count decisions at thresholds.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from time import perf_counter
from typing import Any, overload

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arguments import Reader, check_one_label, checked, number, one_of, typed
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import ratio
from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval.engine.options import Options, check_names
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.records import JSON_SCHEMAS, Meta, plain_counts, plain_value, score_tables
from fastrank_eval.engine.run import run, totals_of
from fastrank_eval.engine.totals import Totals
from fastrank_eval.measures import AUC, LogLoss, Measure, measure, parse_measures
from fastrank_eval.measures.base import REL
from fastrank_eval.measures.clustered_sums import Confusion, f_score
from fastrank_eval.measures.decisions import PositivePredictiveValue
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.curve_points import (
    COLUMNS,
    OPTIONS,
    SCORE_KINDS,
    Columns,
    Curve,
    Thresholds,
    Values,
    curve_of,
    read_choices,
)
from fastrank_eval.results.evaluate import evaluate
from fastrank_eval.results.notes import rows_left_out_notes
from fastrank_eval.results.report import Lines, Report, detail_text, printable
from fastrank_eval.results.result import Result, result_of
from fastrank_eval.results.views import View
from fastrank_eval.stats.score_runs import ScoreTable


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


#: Options of each criterion.
CRITERION_OPTIONS: dict[str, tuple[str, ...]] = {
    "f1": (),
    "fbeta": ("beta",),
    "youden": (),
    "product": (),
    "closest": (),
    "accuracy": ("pos",),
    "precision": ("target",),
    "recall": ("target",),
    "cost": ("costs", "pos"),
}
#: An example of each option that a criterion requires.
_REQUIRED = {"beta": "beta=2", "target": "target=0.9", "costs": "costs={'fp': 1, 'fn': 5}"}
_CELLS = ("tp", "fp", "fn", "tn")
#: Criteria that are undefined without positives.
_POSITIVE_CRITERIA = ("f1", "fbeta", "precision", "recall")


@dataclass(frozen=True)
class Criterion:
    """A criterion of the best threshold.

    Parameters
    ----------
    by : str
        * ``"f1"``, ``"fbeta"``: F-beta is highest (`beta`; 1 for f1);
        * ``"youden"``: TPR + 1 - FPR is highest (Youden's J plus 1);
        * ``"product"``: TPR (1 - FPR) is highest;
        * ``"closest"``: the distance of (FPR, TPR) from (0, 1) is lowest;
        * ``"accuracy"``: pos TPR + (1 - pos) (1 - FPR) is highest: an iso-accuracy line touches the
          ROC curve there. `pos` is the share of positives where the threshold will be used, by
          default that of the rows;
        * ``"precision"``: TPR is highest where precision is at least `target`;
        * ``"recall"``: precision is highest where TPR is at least `target`;
        * ``"cost"``: the mean cost of a row is lowest (`costs`, `pos` as for accuracy).
    beta : float, optional
        Above 0: the weight of recall.
    target : float, optional
        In ]0, 1].
    pos : float, optional
        In ]0, 1[.
    costs : mapping of str to float, optional
        Cost of a row by its cell, ``{"fp": 1, "fn": 5}``; cells of "tp", "fp", "fn", "tn" that are
        left out cost 0. A gain is a cost below 0.

    Raises
    ------
    ArgumentError
        If an option is missing, out of range, or does not apply to the criterion.

    Notes
    -----
    Youden (1950), doi:10.1002/1097-0142(1950)3:1<32::AID-CNCR2820030106>3.0.CO;2-3; Provost &
    Fawcett (2001), doi:10.1023/A:1007601015854, for iso-accuracy lines and costs; Liu (2012),
    doi:10.1002/sim.4509, for the product.
    """

    by: str = "f1"
    beta: float | None = None
    target: float | None = None
    pos: float | None = None
    costs: Mapping[str, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        checked("by", self.by, one_of(*CRITERION_OPTIONS))
        for name, read in _READERS.items():
            value, applies = getattr(self, name), name in CRITERION_OPTIONS[self.by]
            if value is None:
                if applies and name in _REQUIRED:
                    raise ArgumentError(
                        f"{name}: must be given for by={self.by!r}, got None; pass "
                        f"{_REQUIRED[name]}."
                    )
            elif not applies:
                takers = [by for by, names in CRITERION_OPTIONS.items() if name in names]
                raise ArgumentError(
                    f"{name}: must be left out for by={self.by!r}, got {value!r}; it is for "
                    f"{', '.join(map(repr, takers))}."
                )
            else:
                object.__setattr__(self, name, checked(name, value, read))

    def __str__(self) -> str:
        texts: list[str] = []
        for name in CRITERION_OPTIONS[self.by]:
            value = getattr(self, name)
            if name == "costs":
                texts += [f"{cell}={cost:g}" for cell, cost in value.items()]
            elif value is not None:
                texts.append(f"{name}={value:g}")
        return f"{self.by}({', '.join(texts)})" if texts else self.by

    @property
    def lowest(self) -> bool:
        """Whether the lowest value is the best."""
        return self.by in ("closest", "cost")

    @property
    def falls_with_fp(self) -> bool:
        """Whether one more false positive never improves the criterion."""
        return self.costs is None or self.costs.get("fp", 0.0) >= self.costs.get("tn", 0.0)

    def undefined(self, positive: float, negative: float) -> str | None:
        """Return the reason why these rows have no best threshold, or None.

        Parameters
        ----------
        positive, negative : float
            Rows of each class, or their weight.
        """
        if not (positive > 0 or negative > 0):
            return "zero_weight"
        if self.by in _POSITIVE_CRITERIA:
            return None if positive > 0 else "all_negative"
        if self.by in ("accuracy", "cost") and self.pos is None:
            return None
        return None if positive > 0 and negative > 0 else "single_class"

    def values(self, confusion: Confusion) -> np.ndarray:
        """Compute the criterion for confusion matrices, NaN where undefined.

        Parameters
        ----------
        confusion : Confusion
            float64, shape (thresholds,).
        """
        c = confusion
        if self.by in ("f1", "fbeta"):
            return f_score(c, 1.0 if self.beta is None else self.beta)
        # Products first, quotients last: products of counts are exact, so equal values stay equal.
        classes, costs = c.positive * c.negative, self.costs or {"tp": 1.0, "tn": 1.0}
        if self.by == "youden":
            return ratio(c.tp * c.negative + c.tn * c.positive, classes)
        if self.by == "product":
            return ratio(c.tp * c.tn, classes)
        if self.by == "closest":
            distance = np.square(c.fp * c.positive) + np.square(c.fn * c.negative)
            return ratio(np.sqrt(distance), classes)
        if self.by in ("accuracy", "cost"):
            tp, fp, fn, tn = (costs.get(cell, 0.0) for cell in _CELLS)
            of_positives, of_negatives = tp * c.tp + fn * c.fn, fp * c.fp + tn * c.tn
            if self.pos is None:
                return ratio(of_positives + of_negatives, c.all)
            expected = self.pos * (of_positives * c.negative)
            return ratio(expected + (1 - self.pos) * (of_negatives * c.positive), classes)
        precision, recall = ratio(c.tp, c.predicted), ratio(c.tp, c.positive)
        if self.by == "precision":
            return np.where(precision >= self.target, recall, np.nan)
        return np.where(recall >= self.target, precision, np.nan)


def _read_costs(costs: Any) -> dict[str, float]:
    if not isinstance(costs, Mapping) or not costs:
        raise ArgumentError(
            f"costs: must be a mapping of cells to numbers, got {costs!r}; pass "
            f"{{'fp': 1, 'fn': 5}}, for instance."
        )
    for cell in costs:
        if cell not in _CELLS:
            raise ArgumentError(
                f"costs: must name cells out of {', '.join(map(repr, _CELLS))}, got {cell!r}; "
                "name one of them."
            )
    return {
        cell: float(checked(f"costs: {cell}", cost, number(least=-1e100, most=1e100)))
        for cell, cost in costs.items()
    }


_READERS: dict[str, Reader] = {
    "beta": number(above=0),
    "target": number(above=0, most=1),
    "pos": number(above=0, below=1),
    "costs": _read_costs,
}
#: Choices among equally good thresholds.
PREFER = ("highest", "lowest")


@dataclass(frozen=True, repr=False)
class BestThreshold(View):
    """The best threshold of a model, with its confusion matrix.

    A row is predicted positive if its score is at least the threshold.

    Parameters
    ----------
    score : str
        The score column.
    by : str
        The criterion with its options.
    threshold : float or None
        The score of a row. None: it is best to predict no row positive. NaN where undefined.
    value : float
        The criterion at the threshold; NaN where undefined.
    tp, fp, fn, tn : int or float
        Rows in each cell of the confusion matrix, or their weight. If the threshold is undefined,
        no row is predicted positive.
    reason : str or None
        Why there is no threshold.
    meta : Meta or None
        Rows, and those that options have left out.
    """

    score: str
    by: str
    threshold: float | None
    value: float
    tp: float
    fp: float
    fn: float
    tn: float
    reason: str | None = None
    meta: Meta | None = field(default=None, compare=False, repr=False)

    @property
    def notes(self) -> list[str]:
        """Sentences on rows that options have left out."""
        meta = self.meta
        return [] if meta is None else rows_left_out_notes(meta)

    def _share(self, numerator: float, denominator: float) -> float:
        is_defined = self.reason is None and denominator > 0
        return numerator / denominator if is_defined else math.nan

    @property
    def precision(self) -> float:
        """TP / (TP + FP); NaN where undefined, like all shares below."""
        return self._share(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float:
        """TP / (TP + FN): TPR."""
        return self._share(self.tp, self.tp + self.fn)

    @property
    def fpr(self) -> float:
        """FP / (FP + TN)."""
        return self._share(self.fp, self.fp + self.tn)

    @property
    def specificity(self) -> float:
        """TN / (FP + TN)."""
        return self._share(self.tn, self.fp + self.tn)

    @property
    def f1(self) -> float:
        """2 TP / (2 TP + FP + FN)."""
        return self._share(2 * self.tp, 2 * self.tp + self.fp + self.fn)

    @property
    def accuracy(self) -> float:
        """Share of rows with the right prediction."""
        return self._share(self.tp + self.tn, self.tp + self.fp + self.fn + self.tn)

    def _rows(self) -> list[dict[str, Any]]:
        names = "score", "by", "threshold", "value", *_CELLS, *_SHARES, "reason"
        return [{name: plain_value(getattr(self, name)) for name in names}]

    def records(self) -> pa.Table:
        """Return one row: score, by, threshold, value, cells, shares, reason.

        Returns
        -------
        pyarrow.Table
            An undefined number is null.
        """
        return pa.Table.from_pylist(self._rows())

    def document(self) -> dict[str, Any]:
        """Return plain Python values for JSON: `records`, and counts of rows."""
        left_out = {} if self.meta is None else plain_value(self.meta.conventions)
        return {"schema": JSON_SCHEMAS["threshold"], **self._rows()[0], **left_out}

    @typed
    def report(self, *, wide: bool = False) -> Report:
        """Build the report that people read; `wide` changes nothing."""
        threshold = "no row positive" if self.threshold is None else f"threshold {self.threshold!r}"
        lines = [f"{threshold}, {self.by} {detail_text(self.value)}"]
        for names in (_CELLS, _SHARES):
            titles = [name.upper() if names is _CELLS else name for name in names]
            numbers = [detail_text(getattr(self, name)) for name in names]
            lines.append(", ".join(map(" ".join, zip(titles, numbers, strict=True))))
        if self.reason is not None:
            lines = [f"no threshold by {self.by} ({self.reason})"]
        score, (first, *rest) = printable(self.score), lines
        texts = [f"{score}: {first}", *(f"  {line}" for line in [*rest, *self.notes])]
        return Report(f"Threshold of {score}", [Lines(texts)])


_SHARES = ("precision", "recall", "fpr", "specificity", "f1", "accuracy")


@overload
def best_threshold(source: object, *, label: str, score: str, **options: Any) -> BestThreshold: ...


@overload
def best_threshold(
    source: object,
    *,
    label: str,
    score: list[str] | tuple[str, ...] | Mapping[str, str],
    **options: Any,
) -> dict[str, BestThreshold]: ...


@typed
def best_threshold(
    source: object,
    *,
    label: str,
    score: str | Sequence[str] | Mapping[str, str],
    by: str = "f1",
    beta: float | None = None,
    target: float | None = None,
    pos: float | None = None,
    costs: Mapping[str, float] | None = None,
    prefer: str = "highest",
    rel: float = 1,
    weight: str | None = None,
    **options: Any,
) -> BestThreshold | dict[str, BestThreshold]:
    """Find the best threshold by a criterion among all distinct scores.

    The result is exact. Scores of rows of weight 0 are left out.

    Parameters
    ----------
    source : object
        As in `evaluate`; no group is needed.
    label : str
    score : str, sequence of str, or mapping of str to str
        One column or expression for each model, as in `evaluate`; a higher score is more likely
        positive. Scores need not be probabilities.
    by, beta, target, pos, costs
        See `Criterion`.
    prefer : {"highest", "lowest"}
        The choice among equally good thresholds: the highest, which predicts the fewest rows
        positive (to predict none is higher than any score), or the lowest.
    rel : float
        Least label of a positive row, above 0.
    weight : str, optional
        Row weight: 0, or from 1e-30 to 1e30.
    **options
        ``unretrieved``, ``unjudged``, ``score_type``, ``where``, ``limit``, ``threads``,
        ``format``, ``progress``, as in `evaluate`.

    Returns
    -------
    BestThreshold, or dict of str to BestThreshold
        By score column unless `score` is a text.

    Raises
    ------
    FastRankEvalError
        As `evaluate` does.

    Examples
    --------
    >>> import fastrank_eval as fr
    >>> log = {"click": [1, 0, 1, 0, 0], "pctr": [0.9, 0.8, 0.7, 0.4, 0.1]}
    >>> best = fr.best_threshold(log, label="click", score="pctr", by="youden")
    >>> best.threshold, best.tp, best.fp
    (0.7, 2, 1)
    """
    started = perf_counter()
    criterion = Criterion(by, beta, target, pos, costs)
    checked("prefer", prefer, one_of(*PREFER))
    measure = AUC(rel=checked("rel", rel, REL.read))
    columns = {"label": label, "score": score, "weight": weight}
    plan, found = _totals(best_threshold, source, columns | options, measure, keep="scores")
    tables = score_tables(plan, found)
    left_out: dict[str, object] = {**plain_counts(found.left_out)}
    meta = Meta(__version__, found.overall.rows(), 0, left_out, perf_counter() - started)
    results = {
        name: replace(best_of(table, criterion, prefer, name), meta=meta)
        for (name, _), table in tables.items()
    }
    return results[score] if isinstance(score, str) else results


def best_of(
    table: ScoreTable, criterion: Criterion, prefer: str = "highest", score: str = "score"
) -> BestThreshold:
    """Find the best threshold in a table of scores; see `best_threshold`.

    Parameters
    ----------
    table : ScoreTable
    criterion : Criterion
    prefer : {"highest", "lowest"}
    score : str
        Name of the score in the result.
    """
    thresholds = Thresholds.of(table)
    tp, fp = thresholds.tp, thresholds.fp
    cells = np.stack([tp, fp, tp[-1] - tp, fp[-1] - fp])
    # Rows without a score are not predicted positive at any threshold.
    is_candidate = ~np.isnan(thresholds.threshold)
    if prefer == "highest" and criterion.falls_with_fp:
        # A score without positives is never better than the next higher score.
        is_candidate[1:] &= np.diff(tp) > 0
    candidates = np.flatnonzero(is_candidate)
    index, value = 0, math.nan
    reason: str | None = "no_rows"
    if len(table.score):
        reason = criterion.undefined(float(tp[-1]), float(fp[-1]))
    if reason is None:
        values = criterion.values(Confusion(*cells[:, candidates].astype(np.float64)))
        if np.isnan(values).all():
            reason = "target_not_reached"
        else:
            best = np.nanmin(values) if criterion.lowest else np.nanmax(values)
            ties = candidates[values == best]
            index, value = int(ties[0] if prefer == "highest" else ties[-1]), float(best)
    threshold: float | None = math.nan
    if reason is None:
        threshold = float(thresholds.threshold[index]) if index else None
    chosen = cells[:, index]
    if chosen.dtype.kind == "f":
        chosen = chosen / table.scale
    hit, alarm, miss, rejection = chosen.tolist()
    return BestThreshold(
        score, str(criterion), threshold, value, hit, alarm, miss, rejection, reason
    )


@typed
def confusion(
    source: object,
    *,
    label: str,
    score: str | Sequence[str] | Mapping[str, str],
    threshold: float | Iterable[float] = 0.5,
    rel: float = 1,
    weight: str | None = None,
    **options: Any,
) -> pa.Table:
    """Count decisions: a confusion matrix for each model and threshold.

    Parameters
    ----------
    source, label, score, rel, weight, **options
        As in `best_threshold`.
    threshold : float or iterable of float
        A row is predicted positive if its score is at least this, compared as float64.

    Returns
    -------
    pyarrow.Table
        ``score`` (string), ``threshold`` (float64), ``tp``, ``fp``, ``fn``, ``tn``: int64 rows, or
        with weights their float64 sums, each rounded once. The metadata of its schema count rows
        that options have left out, as JSON: ``rows_left_out``, and those that they read in another
        way: ``rows_noted``.

    Raises
    ------
    FastRankEvalError
        As `evaluate` does.

    Examples
    --------
    >>> import fastrank_eval as fr
    >>> log = {"click": [1, 0, 1, 0, 0], "pctr": [0.9, 0.8, 0.7, 0.4, 0.1]}
    >>> fr.confusion(log, label="click", score="pctr", threshold=[0.5, 0.75]).to_pylist()[1]
    {'score': 'pctr', 'threshold': 0.75, 'tp': 1, 'fp': 1, 'fn': 1, 'tn': 2}
    """
    requested: object = threshold
    if isinstance(requested, str):
        raise ArgumentError(
            f"threshold: must be a number or several, got {requested!r}; pass 0.5, for instance."
        )
    thresholds = threshold if isinstance(threshold, Iterable) else [threshold]
    rel = checked("rel", rel, REL.read)
    measures = [PositivePredictiveValue(threshold=value, rel=rel) for value in thresholds]
    if not measures:
        raise ArgumentError(
            "threshold: must have at least one number, got none; pass 0.5, for instance."
        )
    columns = {"label": label, "score": score, "weight": weight}
    plan, found = _totals(confusion, source, columns | options, measures)
    rows = [
        {
            "score": name,
            "threshold": float(measure.threshold),
            **{cell.lower(): number for cell, number in measure.state_in(states).details().items()},
        }
        for name, states in zip(plan.roles.scores, found.overall_states.models, strict=True)
        for measure in measures
    ]
    number = pa.int64() if weight is None else pa.float64()
    fields = [("score", pa.string()), ("threshold", pa.float64())]
    fields += [(cell, number) for cell in ("tp", "fp", "fn", "tn")]
    left_out = plain_counts(found.left_out)
    metadata = {name: json.dumps(counts) for name, counts in left_out.items()} or None
    return pa.Table.from_pylist(rows, schema=pa.schema(fields, metadata))


def _totals(
    caller: Callable[..., Any],
    source: object,
    options: Mapping[str, Any],
    measures: Any,
    keep: str = "",
) -> tuple[Plan, Totals]:
    """Check options that count rows, and read these."""
    check_names("rows", options, caller)
    return totals_of(Options.read(source, {**options, "measures": measures, "keep": keep}))
