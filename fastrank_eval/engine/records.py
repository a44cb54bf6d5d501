"""Define records of a result, and write them as tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval.io.columns import NOTED, UNSCORED, RowsLeftOut
from fastrank_eval.slicing.spec import short_texts

#: The version of the schema of each JSON document, `schemas/NAME.json`. It is increased when a key
#: is removed, or its type or meaning changes; new keys do not change it.
JSON_SCHEMAS = {
    "comparison": 1,
    "curve": 1,
    "evaluation": 1,
    "explanation": 1,
    "measures": 1,
    "nightly": 1,
    "threshold": 1,
    "trec": 1,
}


#: Conventions of a result, and entries of a header of a state: rows that options leave out, and
#: rows that stay but are read in another way.
LEFT_OUT, ROWS_NOTED = ROW_COUNTS = "rows_left_out", "rows_noted"


def finite(value: float) -> float | None:
    """Return the number as a float, or None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def plain_value(value: object) -> Any:
    """Convert a value to plain JSON types; NaN becomes None."""
    # Mappings last: their test takes ten times as long.
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, np.generic):
        return plain_value(value.item())
    if isinstance(value, Mapping):
        return {str(key): plain_value(inner) for key, inner in value.items()}
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
        Number of groups in them; 0 if rows were not grouped.
    conventions : dict
        Every convention of the evaluation, by name.
    seconds : float
        Wall time of the evaluation, with reading.
    compiled : int
        Number of kernels that this run compiled; only a first run compiles any.
    requested : dict of str to str
        By requested name the canonical text of the computed measure, where a profile set other
        options.
    stored : str
        Where these kernels are stored, or why they are not; empty if workers compiled them.

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
    stored: str = ""

    @property
    def confidence(self) -> float | None:
        """The confidence of the intervals, if there are any."""
        confidence = self.conventions.get("confidence")
        return confidence if isinstance(confidence, float) else None


def plain_meta(meta: Meta) -> dict[str, Any]:
    """Convert metadata to plain Python values."""
    plain: dict[str, Any] = plain_value(vars(meta))
    del plain["compiled"], plain["stored"]
    if not meta.requested:
        del plain["requested"]
    return plain


def plain_counts(left_out: RowsLeftOut) -> dict[str, dict[str, Any]]:
    """Write counts as plain values, those of rows that stay apart.

    ``{"rows_left_out": {reason: {"rows": n, "by_model": ...}}, "rows_noted": ...}``
    """
    plain: dict[str, dict[str, Any]] = {}
    for reason in sorted({reason for reason, _ in left_out}):
        models = {model: n for (each, model), n in left_out.items() if each == reason}
        rows = models.pop("", 0)
        counts = plain.setdefault(ROWS_NOTED if reason in NOTED else LEFT_OUT, {})
        counts[reason] = {"rows": rows, **({"by_model": models} if models else {})}
    return plain


def counts_in(conventions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain counts of conventions or of a header by reason."""
    return {**conventions.get(LEFT_OUT, {}), **conventions.get(ROWS_NOTED, {})}


def _counts_from(conventions: Mapping[str, Any]) -> RowsLeftOut:
    """Read what `plain_counts` wrote."""
    counts: RowsLeftOut = Counter()
    for reason, of_reason in counts_in(conventions).items():
        counts[reason, ""] = of_reason["rows"]
        for model, rows in of_reason.get("by_model", {}).items():
            counts[reason, model] = rows
    return counts


def add_counts(plain: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Add the plain counts of conventions or headers."""
    total: RowsLeftOut = Counter()
    for part in plain:
        total.update(_counts_from(part))
    return plain_counts(total)


def refuse_if_none_left(conventions: Mapping[str, Any], rows: int) -> None:
    """Raise if rows without a score were all that there is.

    Parameters
    ----------
    conventions : mapping
        With the plain counts.
    rows : int
        Number of rows that are left.

    Raises
    ------
    ColumnError
        The message names the model that lacks most rows.
    """
    lacking = conventions.get(LEFT_OUT, {}).get(UNSCORED)
    if rows or not lacking or not lacking["rows"]:
        return
    by_model = lacking["by_model"]
    model = max(by_model, key=by_model.get)
    raise ColumnError(
        f"no row is left: score column '{model}' is null in {by_model[model]:,} of "
        f"{lacking['rows']:,} rows, and unretrieved='drop' leaves out a row that one model lacks; "
        "mend these scores, or leave the model out."
    )


class NamedRecord:
    """A record of a model and a measure."""

    score: str
    measure: str
    name: str

    @property
    def display_name(self) -> str:
        """The name of the measure in reports: the one that was asked for."""
        return self.name or self.measure


def display_names(measures: Iterable[str], records: Iterable[NamedRecord]) -> dict[str, str]:
    """Map the texts of measures to the names that reports show.

    Parameters
    ----------
    measures : iterable of str
    records : iterable of NamedRecord
        Records with the names that were asked for.
    """
    shown = {record.measure: record.display_name for record in records}
    return {text: shown.get(text, text) for text in measures}


@dataclass(frozen=True)
class MeasureValue(NamedRecord):
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
        Number of groups that were left out, by reason. Rows without groups count as one.
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
        Standard error with groups as independent clusters, above 0; NaN where there is none.
    ci_low, ci_high : float
        Ends of the confidence interval, by Student's t with Satterthwaite's degrees of freedom: at
        most one less than groups, fewer if few groups carry the variance. NaN where `se` is NaN.
        They may lie outside the range of the measure.
    effective_groups : float
        Groups that carry the variance: ``(sum of w^2)^2 / sum of w^4`` over the shares w that
        groups have of the denominator (their weights; for a measure of all rows the rows that it
        divides by, for AUC its positives or its others). One more than Satterthwaite's degrees of
        freedom of the variance, or for NE ``1 / sum of h^2`` over the shares h of the entropy,
        where these are known and fewer. NaN for a measure without an error.
    weight : float
        Sum of the weights of the groups used, for averages over several slices; NaN for a pooled
        measure.
    warning : str or None
        ``"few_groups"``: fewer than 40 effective groups, the interval is rough. Why there is no
        standard error: ``"one_group"`` (fewer than two groups have a share of the denominator),
        ``"no_variance"`` (no group differs from the others, up to rounding), ``"pooled"``,
        ``"no_groups"``, ``"classes"``.
    by : str or None
        The slicing of `slice`, such as ``"slot,country"``; None where rows are not sliced.
    name : str
        The name that was asked for, if it is another tool's: ``"MAP"`` for AP; see `display_name`.
    label : str
        The label, if a list of labels was evaluated.

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
    warning: str | None = None
    by: str | None = None
    weight: float = math.nan
    name: str = ""
    label: str = ""


_ARROW_TYPES = {
    "str": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "dict[str, int]": pa.map_(pa.string(), pa.int64()),
    "dict[str, float]": pa.map_(pa.string(), pa.float64()),
}


def record_schema(record: type, names: str) -> pa.Schema:
    """Build the schema of a dataclass: floats and optional fields may be null.

    Parameters
    ----------
    record : type
        A dataclass.
    names : str
        The fields in the order of the columns, separated by blanks.
    """
    types = {each.name: str(each.type) for each in fields(record)}
    return pa.schema(
        pa.field(
            name,
            _ARROW_TYPES[types[name].removesuffix(" | None")],
            nullable=types[name].endswith(("float", " | None")),
        )
        for name in names.split()
    )


VALUE_SCHEMA = record_schema(
    MeasureValue,
    "score by slice measure name value se ci_low ci_high effective_groups weight warning groups "
    "groups_used dropped rows_share positives_share aggregate details",
)


def record_rows(records: Iterable[Any], schema: pa.Schema) -> list[dict[str, Any]]:
    """Convert records to rows of plain Python values, None for NaN."""
    records = list(records)
    by = short_texts(record.by for record in records)
    return [
        {name: plain_value(getattr(record, name)) for name in schema.names}
        | {"by": by[record.by], "name": record.display_name}
        for record in records
    ]


def record_table(records: Iterable[Any], schema: pa.Schema) -> pa.Table:
    """Build a table of records: one row each, null if undefined."""
    records = list(records)
    by = short_texts(record.by for record in records)
    columns = []
    for column in schema:
        cells = [getattr(record, column.name) for record in records]
        if column.name == "by":
            cells = [by[cell] for cell in cells]
        elif column.name == "name":
            cells = [record.display_name for record in records]
        elif column.type == pa.float64():
            cells = [finite(cell) for cell in cells]
        elif pa.types.is_map(column.type):
            cells = [list(cell.items()) for cell in cells]
        columns.append(pa.array(cells, column.type))
    return pa.table(columns, schema=schema)
