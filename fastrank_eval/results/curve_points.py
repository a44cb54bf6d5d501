"""Compute the points of curves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import (
    Reader,
    Unfit,
    check_options,
    checked,
    integer,
    is_whole,
    one_of,
    typed,
)
from fastrank_eval._lib.arrow import arrow_value, bytes_column, column_with_nulls
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import ratio
from fastrank_eval._lib.errors import ArgumentError, ColumnError
from fastrank_eval.engine.options import CONFIDENCE
from fastrank_eval.engine.records import JSON_SCHEMAS, Meta, plain_value
from fastrank_eval.measures import AUC, AvgPrec, Lift, LogLoss
from fastrank_eval.measures.calibration import Outcomes
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.notes import (
    cluster_notes,
    end_lines,
    plain_meta_with,
    rows_left_out_notes,
)
from fastrank_eval.results.report import Lines, Report, count_text, number_text, printable
from fastrank_eval.results.views import View
from fastrank_eval.stats.intervals import normal_quantile
from fastrank_eval.stats.score_runs import RocSteps, ScoreTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Thresholds:
    """Cumulative counts of positives and others at each threshold.

    Parameters
    ----------
    threshold : ndarray of float64, shape (scores + 1,)
        Infinity (no row is predicted positive), then every distinct score, descending; NaN last,
        if there are rows without a score.
    tp, fp : ndarray of int64 or float64, shape (scores + 1,)
        Positives and others at or above each threshold: rows, or their weight times a power of two.
        The factor prevents overflow of sums and does not change shares.
    """

    threshold: np.ndarray
    tp: np.ndarray
    fp: np.ndarray

    @classmethod
    def of(cls, table: ScoreTable) -> Self:
        """Build from a table of scores, without scores of weight 0."""
        weighs = (table.positives > 0) | (table.others > 0)
        score = table.score[weighs].astype(np.float64)
        tp, fp = (
            np.concatenate([[column.dtype.type(0)], np.cumsum(column[weighs])])
            for column in (table.positives, table.others)
        )
        return cls(np.concatenate([[np.inf], score]), tp, fp)

    @property
    def tpr(self) -> np.ndarray:
        """True positive rate (recall)."""
        return np.asarray(self.tp / self.tp[-1])

    recall = tpr

    @property
    def fpr(self) -> np.ndarray:
        """False positive rate."""
        return np.asarray(self.fp / self.fp[-1])

    @property
    def fnr(self) -> np.ndarray:
        """False negative rate."""
        return np.asarray((self.tp[-1] - self.tp) / self.tp[-1])

    @property
    def precision(self) -> np.ndarray:
        """Precision; 1 if no row is predicted positive."""
        return ratio(self.tp, self.tp + self.fp, 1.0)

    @property
    def depth(self) -> np.ndarray:
        """Share of rows that are predicted positive."""
        predicted = self.tp + self.fp
        return np.asarray(predicted / predicted[-1])

    @property
    def lift(self) -> np.ndarray:
        """Recall over depth; NaN at depth 0."""
        return ratio(self.tpr, self.depth)

    @property
    def progress(self) -> np.ndarray:
        """Position on the ROC curve: tpr + fpr, without a class that has no rows."""
        shares = [counts / counts[-1] for counts in (self.tp, self.fp) if counts[-1] > 0]
        return np.asarray(sum(shares))


def corners(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Find the points where a line changes direction, and its ends.

    Exact for counts.

    Parameters
    ----------
    x, y : ndarray of int64 or float64, shape (points,)
        Adjacent points differ.

    Returns
    -------
    ndarray of int64
        Ascending positions.
    """
    dx, dy = np.diff(x), np.diff(y)
    straight = dx[:-1] * dy[1:] == dy[:-1] * dx[1:]
    if dx.dtype.kind == "i":
        # Products of large counts wrap around: unequal ones may be equal modulo 2^64. Products of
        # doubles do not.
        left, right = dx[:-1] * dy[1:].astype(np.float64), dy[:-1] * dx[1:].astype(np.float64)
        straight &= np.abs(left - right) <= np.abs(left) * 2.0**-50
    return np.concatenate([[0], np.flatnonzero(~straight) + 1, [len(x) - 1]])[: len(x)]


def spread(progress: np.ndarray, points: int) -> np.ndarray:
    """Choose evenly spaced points, both ends included.

    Parameters
    ----------
    progress : ndarray of float64, shape (points,)
        Ascending.
    points : int
        The largest number of points, at least 2.

    Returns
    -------
    ndarray of int64
        Ascending positions of the points nearest to evenly spaced values.
    """
    if len(progress) <= points:
        return np.arange(len(progress))
    targets = np.linspace(progress[0], progress[-1], points)
    after = np.clip(np.searchsorted(progress, targets), 1, len(progress) - 1)
    before_is_nearer = targets - progress[after - 1] <= progress[after] - targets
    return np.unique(np.concatenate([[0], after - before_is_nearer, [len(progress) - 1]]))


#: Columns of each kind of curve; for the first four, fields of `Thresholds`.
COLUMNS = {
    "roc": ("threshold", "fpr", "tpr"),
    "pr": ("threshold", "recall", "precision"),
    "det": ("threshold", "fpr", "fnr"),
    "lift": ("threshold", "depth", "recall", "precision", "lift"),
    "calibration": (
        *("bin", "lower", "upper", "mean_prediction", "observed_rate", "low", "high"),
        "rows",
    ),
    "k": ("measure", "k", "value"),
    "gauc-by-activity": (
        *("bucket", "least", "most", "groups", "groups_used", "rows", "positives", "value"),
        "standard_error",
    ),
}


def curve_columns(kind: str, thresholds: Thresholds, points: str | int) -> dict[str, np.ndarray]:
    """Compute the columns of a curve.

    Parameters
    ----------
    kind : {"roc", "pr", "det", "lift"}
    thresholds : Thresholds
        With positives; for roc and det also with others.
    points : {"all", "corners"} or int
        ``"corners"`` leaves out points on straight segments of the curve of tp over fp, which
        preserves the area under ROC and gains. For pr it leaves out points on horizontal or
        vertical segments, which preserves average precision. A number: thresholds at equal steps of
        tpr + fpr; for lift, equal steps of depth, where tied rows count as the mean over their
        orders.

    References
    ----------
    roc: Fawcett (2006), doi:10.1016/j.patrec.2005.10.010; pr: Davis & Goadrich (2006),
    doi:10.1145/1143844.1143874; det: Martin et al. (1997), doi:10.21437/Eurospeech.1997-504; lift:
    Piatetsky-Shapiro & Steingold (2000), doi:10.1145/380995.381017.
    """
    positions = np.arange(len(thresholds.threshold))
    if isinstance(points, int) and kind == "lift":
        thresholds, positions = at_depths(thresholds, points), np.arange(points)
    elif isinstance(points, int):
        positions = spread(thresholds.progress, points)
    elif points == "corners" and kind == "pr":
        positions = _axis_corners(thresholds.recall, thresholds.precision)
    elif points == "corners":
        positions = corners(thresholds.fp, thresholds.tp)
    columns = {name: getattr(thresholds, name)[positions] for name in COLUMNS[kind]}
    if kind == "lift":
        columns["precision"][columns["depth"] == 0] = np.nan
    return columns


def at_depths(thresholds: Thresholds, points: int) -> Thresholds:
    """Interpolate at evenly spaced depths: ties as mean over orders."""
    predicted = (thresholds.tp + thresholds.fp).astype(np.float64)
    depths = np.linspace(0.0, predicted[-1], points)
    # Not np.interp: some compilers fuse its product with its sum.
    left = np.clip(
        np.searchsorted(predicted, depths, side="right") - 1, 0, max(len(predicted) - 2, 0)
    )
    right = np.minimum(left + 1, len(predicted) - 1)
    rows = predicted[right] - predicted[left]
    positives = (thresholds.tp[right] - thresholds.tp[left]).astype(np.float64)
    slope = ratio(positives, rows, 0.0)
    tp = slope * (depths - predicted[left]) + thresholds.tp[left]
    tp[-1] = thresholds.tp[-1]
    fp = np.maximum(depths - tp, 0.0)
    fp[-1] = thresholds.fp[-1]
    positions = np.searchsorted(predicted, depths)
    return Thresholds(thresholds.threshold[np.minimum(positions, len(predicted) - 1)], tp, fp)


def _axis_corners(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Find all points but those inside horizontal and vertical segments."""
    same = (np.diff(x) == 0), (np.diff(y) == 0)
    inside = (same[0][:-1] & same[0][1:]) | (same[1][:-1] & same[1][1:])
    keep = np.ones(len(x), np.bool_)
    keep[1:-1] = ~inside
    return np.flatnonzero(keep)


def equal_error_rate(thresholds: Thresholds) -> float:
    """Interpolate the error rate at which both error rates are equal."""
    fpr, fnr = thresholds.fpr, thresholds.fnr
    after = int(np.argmax(fpr >= fnr))
    gap = fnr - fpr
    fraction = gap[after - 1] / (gap[after - 1] - gap[after])
    return float(fpr[after - 1] + fraction * (fpr[after] - fpr[after - 1]))


def calibration_bins(
    table: ScoreTable,
    name: str,
    *,
    bins: int,
    binning: str,
    confidence: float,
    sampling_rate: float = 1,
    independent: bool = True,
) -> dict[str, np.ndarray]:
    """Compute mean prediction and observed rate of each bin with rows.

    Parameters
    ----------
    table : ScoreTable
        Scores are probabilities; at least one has a weight above 0.
    name : str
        Score column, for messages.
    bins : int
    binning : {"equal-count", "equal-width"}
        The bins of `ECE`, by count or by width.
    confidence : float
        Level of the interval of the observed rate, in ]0, 1[.
    sampling_rate : float
        Share of the negatives that the models were trained on.
    independent : bool
        Whether rows are taken as independent; if not, there is no interval.

    Returns
    -------
    dict of str to ndarray, shape (bins with rows,)
        In ascending order of bins:

        * bin: counted from 1;
        * lower, upper: edges; for equal counts the least and the largest prediction;
        * mean_prediction, observed_rate;
        * low, high: Wilson's interval; NaN with row weights or clusters, because the number of
          independent rows is unknown;
        * rows or weight.

    Raises
    ------
    ColumnError
        If scores are not probabilities.
    """
    if len(table.score) and np.isnan(table.score[-1]):
        raise ColumnError(
            f"score column '{name}' is null in some rows, which have no prediction; pass "
            "unretrieved='drop' to leave these rows out for every model."
        )
    if len(table.score) and not (table.score[-1] >= 0 and table.score[0] <= 1):
        score = table.score[0 if table.score[-1] >= 0 else -1]
        raise ColumnError(
            f"score column '{name}' has the value {score:g}, which is not a probability; a "
            "calibration curve needs scores in [0, 1]."
        )
    outcomes = Outcomes.of(table, sampling_rate)
    prediction, rows, positives = outcomes.probability, outcomes.weight, outcomes.positive
    bin_of_row = outcomes.bins(bins, binning.removeprefix("equal-"))
    starts = np.flatnonzero(np.concatenate([[True], bin_of_row[1:] != bin_of_row[:-1]]))
    bin_index = bin_of_row[starts]
    if binning == "equal-width":
        lower, upper = bin_index / bins, (bin_index + 1) / bins
    else:
        lower, upper = prediction[starts], prediction[np.append(starts[1:], len(bin_of_row)) - 1]
    total = np.add.reduceat(rows, starts)
    rate = np.add.reduceat(positives, starts) / total
    has_counts = rows.dtype.kind == "i"
    low, high = (np.full(len(rate), np.nan),) * 2
    if has_counts and independent:
        low, high = wilson(rate, total, confidence)
    return {
        "bin": bin_index + 1,
        "lower": lower,
        "upper": upper,
        "mean_prediction": np.add.reduceat(prediction * rows, starts) / total,
        "observed_rate": rate,
        "low": low,
        "high": high,
        "rows" if has_counts else "weight": total if has_counts else total / table.scale,
    }


def wilson(rate: np.ndarray, rows: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute Wilson's score interval of a binomial rate.

    Parameters
    ----------
    rate : ndarray of float64
    rows : ndarray of int64
        At least 1.
    confidence : float
        In ]0, 1[.

    Returns
    -------
    low, high : ndarray of float64

    References
    ----------
    Wilson (1927), doi:10.1080/01621459.1927.10502953.
    """
    quantile = normal_quantile(confidence)
    ratio = quantile * quantile / rows
    middle = (rate + ratio / 2) / (1 + ratio)
    half_width = np.sqrt(rate * (1 - rate) * ratio + ratio * ratio / 4) / (1 + ratio)
    return np.maximum(middle - half_width, 0.0), np.minimum(middle + half_width, 1.0)


def expected_error(columns: dict[str, np.ndarray]) -> float:
    """Compute ECE: the mean distance of prediction and rate, weighted by rows."""
    rows = columns["rows" if "rows" in columns else "weight"]
    distance = np.abs(columns["mean_prediction"] - columns["observed_rate"])
    return float(np.sum(distance * (rows / rows.sum())))


def _points(value: Any) -> str | int:
    """Read the option `points` of a curve."""
    if isinstance(value, str) and value in ("all", "corners"):
        return value
    if not is_whole(value) or value < 2:
        raise Unfit(
            "'all', 'corners' or a whole number of at least 2", "pass 'corners', for instance"
        )
    return int(value)


def _cutoffs(value: Any) -> list[int]:
    cutoffs = list(value) if isinstance(value, Iterable) else []
    if not cutoffs or not all(map(is_whole, cutoffs)) or min(cutoffs) < 1:
        raise Unfit("whole numbers of at least 1", "pass [1, 5, 10], for instance")
    return sorted({int(k) for k in cutoffs})


def _buckets(value: Any) -> tuple[int, ...]:
    edges = list(value) if isinstance(value, Iterable) else []
    is_valid = bool(edges) and all(map(is_whole, edges)) and edges[0] >= 0
    if not is_valid or any(a >= b for a, b in pairwise(edges)):
        raise Unfit("ascending whole numbers of at least 0", "pass [1, 5, 20], for instance")
    return tuple(int(e) for e in edges)


#: What checks the options of curves; others are checked where they are used.
READERS: dict[str, Reader] = {
    "points": _points,
    "bins": integer(1, 10**6),
    "binning": one_of("equal-count", "equal-width"),
    "confidence": CONFIDENCE,
    "cutoffs": _cutoffs,
    "activity": one_of("rows", "positives"),
    "buckets": _buckets,
}


#: Columns of points, and summary values, by model.
Columns = dict[str, dict[str, np.ndarray]]
Values = dict[str, dict[str, float]]
_TEXT = pa.string()
#: Types of columns; others are float64.
_TYPES = {
    **dict.fromkeys(("score", "measure", "bucket"), _TEXT),
    **dict.fromkeys(("bin", "k", "rows", "least", "most"), pa.int64()),
    **dict.fromkeys(("groups", "groups_used", "positives"), pa.int64()),
}


def _schema(names: Iterable[str]) -> pa.Schema:
    columns = [(name, _TYPES.get(name, pa.float64())) for name in names]
    return pa.schema([pa.field("score", _TEXT, nullable=False), *columns])


#: Schema of each kind of curve.
SCHEMAS = {kind: _schema(names) for kind, names in COLUMNS.items()}


@dataclass(frozen=True, repr=False)
class Curve(View):
    """The result of :func:`fastrank_eval.curve`.

    Parameters
    ----------
    kind : str
        One of ``"roc"``, ``"pr"``, ``"det"``, ``"lift"``, ``"calibration"``, ``"k"``,
        ``"gauc-by-activity"``.
    columns : dict of str to (dict of str to ndarray)
        For each model (score column) the columns of its points.
    values : dict of str to (dict of str to float)
        For each model the summary values of the curve by name: ``{"pctr": {"AUC": 0.75}}``; NaN
        where undefined.
    undefined : dict of str to str
        Models without a curve, with the reason: ``"single_class"``.
    choices : dict of str to object
        Options of the points, bins or buckets.
    meta : Meta
        Provenance and conventions of the points.
    source : str
        Name of the source of the rows, if it has one.
    """

    kind: str
    columns: Columns
    values: Values
    undefined: dict[str, str]
    choices: dict[str, object]
    meta: Meta
    source: str = ""

    @property
    def scores(self) -> tuple[str, ...]:
        """Score columns, in the requested order."""
        return tuple(self.columns)

    @property
    def notes(self) -> list[str]:
        """Notes on clusters behind errors, and on rows that options leave out."""
        has_errors = self.kind == "gauc-by-activity"
        clusters = cluster_notes([], self.meta) if has_errors else []
        return [*clusters, *rows_left_out_notes(self.meta)]

    def records(self) -> pa.Table:
        """Return one row for each point, models one after the other.

        Returns
        -------
        pyarrow.Table
            `score` (the model), then the columns of the kind; null where undefined.
        """
        schema = SCHEMAS[self.kind]
        if any("weight" in columns for columns in self.columns.values()):
            rows = schema.get_field_index("rows")
            schema = schema.set(rows, pa.field("weight", pa.float64()))
        if any(CLUSTERS in columns for columns in self.columns.values()):
            schema = schema.append(pa.field(CLUSTERS, pa.int64()))
        tables = []
        for score, columns in self.columns.items():
            arrays = [_arrow_array(columns[f.name], f.type) for f in list(schema)[1:] if columns]
            if arrays:
                models = pa.repeat(arrow_value(score, _TEXT), len(arrays[0]))
                tables.append(pa.table([models, *arrays], schema=schema))
        return pa.concat_tables(tables) if tables else schema.empty_table()

    @typed
    def of(self, score: str | None = None) -> dict[str, NDArray[Any]]:
        """Get the columns of one model.

        Parameters
        ----------
        score : str, optional
            Score column; may be left out if there is one.

        Returns
        -------
        dict of str to ndarray, shape (points,)
            NaN where undefined.

        Raises
        ------
        ArgumentError
            If the model is unknown, or left out if there are several.
        """
        if score is None and len(self.scores) == 1:
            score = self.scores[0]
        return dict(self.columns[checked("score", score, one_of(*self.scores))])

    def document(self) -> dict[str, Any]:
        """Return the plain Python values that JSON has.

        Returns
        -------
        dict
            ``{"schema", "kind", "choices", "models": [{"score", "values", "undefined"}],
            "points": [{...}], "meta"}`` of plain Python values; None for numbers that are not
            finite.
        """
        return {
            "schema": JSON_SCHEMAS["curve"],
            "kind": self.kind,
            "choices": plain_value(self.choices),
            "models": [
                {
                    "score": score,
                    "values": plain_value(self.values.get(score, {})),
                    "undefined": self.undefined.get(score),
                }
                for score in self.scores
            ],
            "points": plain_value(self.records().to_pylist()),
            "meta": plain_meta_with(self.notes, self.meta),
        }

    @typed
    def plot(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        title: str | None = None,
        overwrite: bool = False,
    ) -> Figure:
        """Draw all models in one picture.

        It needs matplotlib (extra ``[plot]``).

        Parameters
        ----------
        path : str or path, optional
            A file to write, whose name ends in ``.png``, ``.svg`` or ``.html``.
        title : str, optional
            By default the kind of the curve.
        overwrite : bool
            Replace a file that exists.

        Returns
        -------
        matplotlib.figure.Figure
            The picture, which a notebook shows.

        Raises
        ------
        ArgumentError
            If matplotlib is not installed.
        UndefinedError
            If no model has a curve.
        OutputError
            If the file cannot be written, or its name has another ending.
        """
        from fastrank_eval.results.plot_files import curve_picture

        return curve_picture(self, title, path, overwrite)

    @typed
    def report(self, *, wide: bool = False) -> Report:
        """Build the report that people read; `wide` changes nothing.

        Returns
        -------
        Report
            The values of each model.
        """
        points = sum(len(next(iter(of.values()))) for of in self.columns.values() if of)
        lines = [f"{self.kind} curve, {count_text(points, 'point')}"]
        for score in self.scores:
            values = self.values.get(score, {})
            texts = ", ".join(f"{name} {number_text(value)}" for name, value in values.items())
            lines.append(f"{score}: {self.undefined.get(score, texts)}")
        title = printable(f"{self.kind} curve of {', '.join(self.scores)}")
        ends = end_lines(self.meta, [], self.notes)
        return Report(title, [Lines(list(map(printable, lines))), *ends])


def _arrow_array(column: np.ndarray, kind: pa.DataType) -> pa.Array:
    if kind == _TEXT:
        return bytes_column([text.encode() for text in column.tolist()], _TEXT)
    numbers = np.asarray(column, np.float64)
    return column_with_nulls(numbers, np.isnan(numbers)).cast(kind)


#: Kinds that are computed from the distinct scores of all rows.
SCORE_KINDS = ("roc", "pr", "det", "lift", "calibration")
#: Options of each kind with their defaults.
_DEFAULTS: dict[str, dict[str, Any]] = {
    **{kind: {"points": "corners"} for kind in ("roc", "pr", "det", "lift")},
    "calibration": {"bins": 10, "binning": "equal-count", "confidence": 0.95, "sampling_rate": 1},
    "k": {"measure": "nDCG", "cutoffs": range(1, 51)},
    "gauc-by-activity": {"measure": "GAUC", "activity": "rows", "buckets": (1, 5, 20, 100)},
}
OPTIONS = ("rel", *dict.fromkeys(name for of_kind in _DEFAULTS.values() for name in of_kind))


class Scored(Protocol):
    """What has the scores of all rows: a `Result`."""

    scores: tuple[str, ...]
    meta: Meta

    def score_table(self, score: str, rel: float = 1) -> ScoreTable:
        """Return the distinct scores of a model."""

    def value(self, measure: Any, score: str | None = None) -> float:
        """Return the value of a measure of all rows."""


def read_choices(kind: str, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options of a kind and fill in the defaults."""
    choices = dict(_DEFAULTS[checked("kind", kind, one_of(*SCHEMAS))])
    check_options("curve", requested, OPTIONS)
    for name, value in requested.items():
        if value is None or (name == "rel" and kind in SCORE_KINDS):
            continue
        if name not in choices:
            raise ArgumentError(f"a {kind} curve has no {name}; it has {', '.join(choices)}.")
        read = READERS.get(name)
        choices[name] = checked(name, value, read) if read else value
    if "bins" in choices:
        LogLoss(sampling_rate=choices["sampling_rate"])  # raises if it is not a rate
    return choices


def curve_of(
    result: Scored, kind: str, rel: float, choices: dict[str, Any], source: str = ""
) -> Curve:
    """Compute a curve of scores, with the choices of `read_choices`."""
    columns: Columns = {score: {} for score in result.scores}
    values: Values = {score: {} for score in result.scores}
    undefined: dict[str, str] = {}
    for score in result.scores:
        table = result.score_table(score, rel)
        missing = _missing_reason(kind, table)
        if missing:
            undefined[score] = missing
        elif kind == "calibration":
            independent = "cluster" not in result.meta.conventions
            columns[score] = calibration_bins(table, score, independent=independent, **choices)
            values[score] = {"ECE": expected_error(columns[score])}
        else:
            thresholds = Thresholds.of(table)
            columns[score] = curve_columns(kind, thresholds, choices["points"])
            if kind == "roc":
                summary = {"AUC": result.value(AUC(rel=rel), score)}
            elif kind == "pr":
                summary = {"AvgPrec": AvgPrec.from_steps(RocSteps.from_table(table)).value}
            elif kind == "det":
                summary = {"EER": equal_error_rate(thresholds)}
            else:
                summary = {"Lift@10%": Lift(top=0.1).from_table(table).value}
            values[score] = {**summary, "positive rate": float(thresholds.precision[-1])}
    choices = {**choices, **({} if rel == 1 else {"rel": rel})}
    return Curve(kind, columns, values, undefined, choices, result.meta, source)


def _missing_reason(kind: str, table: ScoreTable) -> str | None:
    """Return the reason why a model has no curve, or None."""
    if not len(table.score):
        return "no_rows"
    if kind in ("roc", "det"):
        return table.missing
    needed = table.positive + (table.other if kind == "calibration" else 0)
    return None if needed > 0 else table.missing
