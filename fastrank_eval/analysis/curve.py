"""Compute curves of models as tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import (
    check_one_label,
    check_options,
    checked,
    one_of,
    typed,
)
from fastrank_eval._lib.arrow import arrow_value, bytes_column, column_with_nulls
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.analysis import curve_points
from fastrank_eval.analysis.curve_points import (
    Columns,
    Thresholds,
    by_activity,
    by_cutoff,
)
from fastrank_eval.engine.options import check_names
from fastrank_eval.engine.records import JSON_SCHEMAS, Meta, plain_value
from fastrank_eval.measures import AUC, AvgPrec, Lift, LogLoss, Measure, parse_measures
from fastrank_eval.results.evaluate import evaluate
from fastrank_eval.results.notes import (
    end_lines,
    plain_meta_with,
    rows_left_out_notes,
)
from fastrank_eval.results.report import Lines, Report, count_text, number_text, printable
from fastrank_eval.results.result import Result
from fastrank_eval.results.views import View
from fastrank_eval.stats.score_runs import RocSteps, ScoreTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

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
SCHEMAS = {kind: _schema(names) for kind, names in curve_points.COLUMNS.items()}


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
    columns: dict[str, dict[str, np.ndarray]]
    values: dict[str, dict[str, float]]
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
        """Notes on rows that options have left out."""
        return rows_left_out_notes(self.meta.conventions, self.meta.rows)

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
        tables = [
            pa.table(
                [
                    pa.repeat(arrow_value(score, _TEXT), len(next(iter(columns.values())))),
                    *(
                        _arrow_array(columns[name], schema.field(name).type)
                        for name in schema.names[1:]
                    ),
                ],
                schema=schema,
            )
            for score, columns in self.columns.items()
            if columns
        ]
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
        from fastrank_eval.analysis.plot_files import curve_picture

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


KINDS = tuple(SCHEMAS)
#: Kinds that are computed from the distinct scores of all rows.
_SCORE_KINDS = ("roc", "pr", "det", "lift", "calibration")
#: Options of each kind with their defaults.
_DEFAULTS: dict[str, dict[str, Any]] = {
    **{kind: {"points": "corners"} for kind in ("roc", "pr", "det", "lift")},
    "calibration": {"bins": 10, "binning": "equal-count", "confidence": 0.95, "sampling_rate": 1},
    "k": {"measure": "nDCG", "cutoffs": range(1, 51)},
    "gauc-by-activity": {"measure": "GAUC", "activity": "rows", "buckets": (1, 5, 20, 100)},
}
_OPTIONS = ("rel", *dict.fromkeys(name for of_kind in _DEFAULTS.values() for name in of_kind))


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
        Level of Wilson's interval of the observed rate. Default: 0.95.
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
    requested = {name: given[name] for name in _OPTIONS}
    choices = _choices(kind, requested)
    check_names("curve", options, curve)
    check_one_label(options.get("label"))
    name = _source_name(source)
    if kind in _SCORE_KINDS:
        needed: list[Measure] = [AUC(rel=rel) if rel is not None else AUC]
        if kind == "calibration":
            needed.append(LogLoss)  # raises if a score is not a probability, with its row
        result = evaluate(source, measures=needed, keep="scores", **options)
        least = 1.0 if rel is None else rel
        return _curve_of_result(result, kind, least, choices, name)
    if kind == "k":
        result, columns = by_cutoff(source, choices["measure"], choices["cutoffs"], options)
    else:
        result, columns = by_activity(
            source, choices["measure"], choices["activity"], choices["buckets"], options
        )
    shown = ",".join(m.display_name for m in parse_measures(choices["measure"]))
    choices = {**choices, "measure": shown}
    choices.pop("cutoffs", None)
    return _curve_of_groups(kind, result, columns, choices, name)


@typed
def curve_of(result: Result, kind: str, *, rel: float = 1, **choices: Any) -> Curve:
    """Compute a curve from a result with scores; see `Result.curve`."""
    if kind not in _SCORE_KINDS:
        raise ArgumentError(
            f"kind: must be one of {', '.join(map(repr, _SCORE_KINDS))} for a result, got "
            f"{kind!r}; for other kinds call fastrank_eval.curve()."
        )
    if kind == "calibration":
        choices.setdefault("sampling_rate", result.meta.conventions["sampling_rate"])
    return _curve_of_result(result, kind, rel, _choices(kind, choices), "")


def _choices(kind: str, requested: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options of a kind and fill in the defaults."""
    checked("kind", kind, one_of(*KINDS))
    choices = dict(_DEFAULTS[kind])
    check_options("curve", requested, _OPTIONS)
    for name, value in requested.items():
        if value is None or (name == "rel" and kind in _SCORE_KINDS):
            continue
        if name not in choices:
            raise ArgumentError(f"a {kind} curve has no {name}; it has {', '.join(choices)}.")
        read = curve_points.READERS.get(name)
        choices[name] = checked(name, value, read) if read else value
    if "bins" in choices:
        LogLoss(sampling_rate=choices["sampling_rate"])  # raises if it is not a rate
    return choices


def _curve_of_result(
    result: Result, kind: str, rel: float, options: dict[str, Any], name: str
) -> Curve:
    columns: dict[str, dict[str, np.ndarray]] = {}
    values: dict[str, dict[str, float]] = {}
    undefined: dict[str, str] = {}
    for score in result.scores:
        table = result.score_table(score, rel)
        columns[score], values[score] = {}, {}
        missing = _missing_reason(kind, table)
        if missing:
            undefined[score] = missing
        elif kind == "calibration":
            columns[score] = curve_points.calibration_bins(table, score, **options)
            values[score] = {"ECE": curve_points.expected_error(columns[score])}
        else:
            thresholds = Thresholds.of(table)
            columns[score] = curve_points.curve_columns(kind, thresholds, options["points"])
            summary = {"AUC": result.value(AUC(rel=rel), score)} if kind == "roc" else {}
            summary |= _summary_values(kind, table, thresholds)
            values[score] = {**summary, "positive rate": float(thresholds.precision[-1])}
    choices = {**options, **({} if rel == 1 else {"rel": rel})}
    return Curve(kind, columns, values, undefined, choices, result.meta, name)


def _missing_reason(kind: str, table: ScoreTable) -> str | None:
    """Return the reason why a model has no curve, or None."""
    if not len(table.score):
        return "no_rows"
    if kind in ("roc", "det"):
        return table.missing
    needed = table.positive + (table.other if kind == "calibration" else 0)
    return None if needed > 0 else table.missing


def _summary_values(kind: str, table: ScoreTable, thresholds: Thresholds) -> dict[str, float]:
    """Compute the summary values of a threshold curve other than ROC."""
    if kind == "pr":
        return {"AvgPrec": AvgPrec.from_steps(RocSteps.from_table(table)).value}
    if kind == "det":
        return {"EER": curve_points.equal_error_rate(thresholds)}
    return {"Lift@10%": Lift(top=0.1).from_table(table).value} if kind == "lift" else {}


def _curve_of_groups(
    kind: str, result: Result, columns: Columns, choices: dict[str, Any], name: str
) -> Curve:
    values: dict[str, dict[str, float]] = {score: {} for score in result.scores}
    meta = result.meta
    if kind == "k":
        for score, of_score in columns.items():
            last_cutoff = int(of_score["k"].max())
            last = of_score["k"] == last_cutoff
            pairs = zip(of_score["measure"][last], of_score["value"][last].tolist(), strict=True)
            values[score] = {f"{text}@{last_cutoff}": value for text, value in pairs}
        options: Any = meta.conventions["measures"]
        options_at_last = {m: options[m] for m in options if m.endswith(f"@{last_cutoff}")}
        meta = replace(meta, conventions={**meta.conventions, "measures": options_at_last})
    else:
        for value in result:
            if value.by is None:  # of all rows, not of a bucket
                values[value.score][value.measure] = value.value
    undefined = {
        score: "no_groups" for score in result.scores if np.isnan(columns[score]["value"]).all()
    }
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
