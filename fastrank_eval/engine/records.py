"""Define the records of a result: values of measures, and metadata."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.csv_text import csv_text
from fastrank_eval.slicing.spec import short_texts

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
    """Return the number as a float, or None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def plain_value(value: object) -> Any:
    """Convert a value to plain JSON types; NaN becomes None."""
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
    """Metadata of a result: version, size of the input, conventions and time.

    Parameters
    ----------
    version : str
        Version of fastrank_eval.
    rows : int
        Number of rows that were read.
    groups : int
        Number of groups in them.
    conventions : dict
        Every convention of the evaluation, by name.
    seconds : float
        Wall time of the evaluation, with reading.
    compiled : int
        Number of loops that this run compiled; only a first run compiles any.
    requested : dict of str to str
        By requested name the canonical text of the computed measure, where a profile set other
        options.

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
    """Convert metadata to plain Python values."""
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
    """One value of a measure, with its coverage and its error.

    Parameters
    ----------
    score : str
        Score column: the model.
    slice : str
        Label of the slice; ``"all"`` for all rows.
    measure : str
        Canonical text of the measure.
    value : float
        The value; NaN where undefined.
    groups : int
        Number of groups.
    groups_used : int
        Groups in the mean or sum. For a pooled measure, groups whose rows are in the value.
    dropped : dict of str to int
        Number of groups that were left out, by reason.
    rows_share : float
        Rows of the groups used, divided by all rows, in [0, 1]; NaN without rows.
    positives_share : float
        Positives of the groups used, divided by all positives, in [0, 1]; NaN without positives.
    aggregate : str
        ``"mean"``, ``"geometric mean"`` or ``"sum"`` over the values of the groups, each with
        group weights. ``"pooled"``: the value comes from all rows.
    details : dict of str to float
        More numbers about the value: rows whose probability was clamped, a bound of its error ...
    se : float
        Standard error with groups as independent clusters; NaN where there is none.
    ci_low, ci_high : float
        Ends of the confidence interval, of Student's t with one degree of freedom less than groups.
        NaN where `se` is NaN. They are not cut off at the range of the measure.
    effective_groups : float
        ``(sum of w)^2 / sum of w^2`` over group weights w. For a pooled measure w is the rows of a
        group, and the number is at most the number of groups behind `se`. NaN where there is none.
    weight : float
        Sum of the weights of the groups used, for averages over several slices; NaN for a pooled
        measure.
    caution : str or None
        ``"few_groups"``: fewer than 40 effective groups, the interval is rough. ``"one_group"``,
        ``"pooled"``, ``"classes"``: why there is no standard error.
    by : str or None
        The slicing of `slice`, such as ``"slot,country"``; None where rows are not sliced.

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
    """Build the summary table: one row a value, null if undefined."""
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
    """Convert values to rows of plain Python values, None for NaN."""
    names, values = _SUMMARY.names, list(values)
    by = short_texts(v.by for v in values)
    return [
        {name: plain_value(getattr(v, name)) for name in names} | {"by": by[v.by]} for v in values
    ]


def summary_csv(rows: Iterable[dict[str, Any]], safe: bool = False) -> str:
    """Write rows as CSV; maps as ``name=number`` joined by semicolons."""

    def cells(row: dict[str, Any]) -> Iterable[object]:
        maps = {
            name: ";".join(f"{key}={number}" for key, number in row[name].items())
            for name in ("dropped", "details")
        }
        return (row | maps).values()

    return csv_text(_SUMMARY.names, map(cells, rows), safe)


class ResultRecords(Protocol):
    """The fields of a result that views read."""

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
        """Metadata of the evaluation."""
        ...
