"""Records of a result: a value of a measure, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.csv_text import csv_text
from fastrank_eval.slicing.parser import short_texts

__all__ = [
    "MeasureValue",
    "Meta",
    "ResultRecords",
    "finite",
    "plain_meta",
    "plain_value",
    "summary_csv",
    "summary_rows",
    "summary_table",
]


def finite(value: float) -> float | None:
    """The same number, None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def plain_value(value: object) -> Any:
    """Turn `value` into what JSON knows, NaN into None."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(inner) for key, inner in value.items()}
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, np.generic):
        return plain_value(value.item())
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Iterable):
        return [plain_value(inner) for inner in value]
    return str(value)


@dataclass(frozen=True)
class Meta:
    """What the values rest on: version, size of the input, conventions in force, time taken.

    Parameters
    ----------
    version : str
        Version of fastrank_eval.
    rows : int
        Rows read.
    groups : int
        Groups found.
    conventions : dict
        Every convention in force, by name.
    seconds : float
        Wall time of the evaluation, reading included.
    compiled : int
        Loops that were compiled on the way, which only a first run does.
    requested : dict of str to str
        Names of measures that were computed with other options, as a profile has them, and the
        texts of what was computed.

    Examples
    --------
    >>> Meta("1.0", 1000, 40, {"ties": "expected"}, 0.5).rows
    1000
    """

    version: str
    rows: int
    groups: int
    conventions: dict[str, object]
    seconds: float
    compiled: int = 0
    requested: dict[str, str] = field(default_factory=dict)


def plain_meta(meta: Meta) -> dict[str, Any]:
    """Write what values rest on as plain Python values."""
    plain: dict[str, Any] = plain_value(vars(meta))
    del plain["compiled"]
    if not meta.requested:
        del plain["requested"]
    return plain


_SUMMARY = pa.schema(
    [
        pa.field("score", pa.string(), nullable=False),
        pa.field("by", pa.string()),
        pa.field("slice", pa.string(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("se", pa.float64()),
        pa.field("ci_low", pa.float64()),
        pa.field("ci_high", pa.float64()),
        pa.field("effective_groups", pa.float64()),
        pa.field("weight", pa.float64()),
        pa.field("caution", pa.string()),
        pa.field("groups", pa.int64(), nullable=False),
        pa.field("groups_used", pa.int64(), nullable=False),
        pa.field("dropped", pa.map_(pa.string(), pa.int64()), nullable=False),
        pa.field("rows_share", pa.float64()),
        pa.field("positives_share", pa.float64()),
        pa.field("aggregate", pa.string(), nullable=False),
        pa.field("details", pa.map_(pa.string(), pa.float64()), nullable=False),
    ]
)


@dataclass(frozen=True)
class MeasureValue:
    """One number with its coverage.

    Parameters
    ----------
    score : str
        Score column, that is, the model.
    slice : str
        Part of the rows it speaks of; ``"all"`` for all of them.
    measure : str
        Canonical text of the measure.
    value : float
        The value; NaN where undefined.
    groups : int
        Groups seen.
    groups_used : int
        Groups in the mean or sum; for a pooled measure, groups whose rows are in the pool.
    dropped : dict of str to int
        Groups left out, by reason.
    rows_share : float
        Rows of the groups used over all rows, in [0, 1]; NaN without rows.
    positives_share : float
        Positives of the groups used over all positives, in [0, 1]; NaN without positives.
    aggregate : str
        What `value` is of the values of the groups: their ``"mean"``, ``"geometric mean"`` or
        ``"sum"``, each by group weight; ``"pooled"``: it comes of all rows together.
    details : dict of str to float
        What else is known of it: rows whose probability was clamped, a bound of its error ...
    se : float
        Standard error with groups as independent clusters; NaN where none is known.
    ci_low, ci_high : float
        Ends of the confidence interval, of Student's t with one degree of freedom less than groups;
        NaN where `se` is. They may lie outside the range of the measure: nothing is cut off.
    effective_groups : float
        ``(sum of w)^2 / sum of w^2`` over group weights w; of a pooled measure over the rows of
        groups, and no more than the groups behind `se`; NaN where that is not known.
    weight : float
        Sum of the weights of the groups used, by which values of several slices are averaged; NaN
        for a pooled measure.
    caution : str or None
        ``"few_groups"``: fewer than 40 effective groups, the interval is rough; ``"one_group"``,
        ``"pooled"``, ``"classes"``: why there is no standard error.
    by : str or None
        The slicing that `slice` is of, ``"slot,country"``; None of what was not sliced.

    Examples
    --------
    >>> MeasureValue("pctr", "all", "GAUC", 0.75, 4, 3, {"all_negative": 1}, 0.8, 1.0).value
    0.75
    """

    score: str
    slice: str
    measure: str
    value: float
    groups: int
    groups_used: int
    dropped: dict[str, int]
    rows_share: float
    positives_share: float
    aggregate: str = "mean"
    details: dict[str, float] = field(default_factory=dict)
    se: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    effective_groups: float = math.nan
    caution: str | None = None
    by: str | None = None
    weight: float = math.nan


def summary_table(values: Iterable[MeasureValue]) -> pa.Table:
    """One row a value; null where a number is undefined."""
    values = list(values)
    by = short_texts(v.by for v in values)
    rows = [
        {
            "score": v.score,
            "by": by[v.by],
            "slice": v.slice,
            "measure": v.measure,
            "value": finite(v.value),
            "se": finite(v.se),
            "ci_low": finite(v.ci_low),
            "ci_high": finite(v.ci_high),
            "effective_groups": finite(v.effective_groups),
            "weight": finite(v.weight),
            "caution": v.caution,
            "groups": v.groups,
            "groups_used": v.groups_used,
            "dropped": list(v.dropped.items()),
            "rows_share": finite(v.rows_share),
            "positives_share": finite(v.positives_share),
            "aggregate": v.aggregate,
            "details": list(v.details.items()),
        }
        for v in values
    ]
    return pa.Table.from_pylist(rows, schema=_SUMMARY)


def summary_rows(values: Iterable[MeasureValue]) -> list[dict[str, Any]]:
    """The same as plain Python values, None for NaN."""
    names, values = _SUMMARY.names, list(values)
    by = short_texts(v.by for v in values)
    return [
        {name: plain_value(getattr(v, name)) for name in names} | {"by": by[v.by]} for v in values
    ]


def summary_csv(lines: Iterable[dict[str, Any]], safe: bool = False) -> str:
    """A header and these lines; maps as ``name=number`` joined by semicolons."""

    def cells(row: dict[str, Any]) -> Iterable[object]:
        maps = {
            name: ";".join(f"{key}={number}" for key, number in row[name].items())
            for name in ("dropped", "details")
        }
        return (row | maps).values()

    return csv_text(_SUMMARY.names, map(cells, lines), safe)


class ResultRecords(Protocol):
    """What views of a result read."""

    @property
    def values(self) -> tuple[MeasureValue, ...]:
        """One value a model, slice and measure."""
        ...

    @property
    def scores(self) -> tuple[str, ...]:
        """The models."""
        ...

    @property
    def meta(self) -> Meta:
        """What the values rest on."""
        ...
