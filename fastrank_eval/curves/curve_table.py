"""Curve: points of one kind for each model, as an Arrow table, text or a picture."""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval.arguments import indent_of
from fastrank_eval.arrow_values import arrow_value, bytes_column, column_with_nulls
from fastrank_eval.errors import ArgumentError, near
from fastrank_eval.meta import Meta, plain_meta
from fastrank_eval.plain_values import plain_value
from fastrank_eval.table_files import write_csv
from fastrank_eval.typed_arguments import typed

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SCHEMAS", "Curve"]

_FLOAT, _INT, _TEXT = pa.float64(), pa.int64(), pa.string()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("score", _TEXT, nullable=False), *columns.items()])


#: The columns of each kind.
SCHEMAS = {
    "roc": _schema(threshold=_FLOAT, fpr=_FLOAT, tpr=_FLOAT),
    "pr": _schema(threshold=_FLOAT, recall=_FLOAT, precision=_FLOAT),
    "det": _schema(threshold=_FLOAT, fpr=_FLOAT, fnr=_FLOAT),
    "lift": _schema(threshold=_FLOAT, depth=_FLOAT, recall=_FLOAT, precision=_FLOAT, lift=_FLOAT),
    "calibration": _schema(
        bin=_INT,
        lower=_FLOAT,
        upper=_FLOAT,
        mean_prediction=_FLOAT,
        observed_rate=_FLOAT,
        low=_FLOAT,
        high=_FLOAT,
        rows=_INT,
    ),
    "k": _schema(measure=_TEXT, k=_INT, value=_FLOAT),
    "gauc-by-activity": _schema(
        bucket=_TEXT,
        least=_INT,
        most=_INT,
        groups=_INT,
        groups_used=_INT,
        rows=_INT,
        positives=_INT,
        value=_FLOAT,
        standard_error=_FLOAT,
    ),
}


@dataclass(frozen=True, repr=False)
class Curve:
    """What :func:`fastrank_eval.curve` returns.

    Parameters
    ----------
    kind : str
        One of ``"roc"``, ``"pr"``, ``"det"``, ``"lift"``, ``"calibration"``, ``"k"``,
        ``"gauc-by-activity"``.
    columns : dict of str to (dict of str to ndarray)
        For each model (score column) the columns of its points.
    values : dict of str to (dict of str to float)
        For each model what the curve comes to, by name: ``{"pctr": {"AUC": 0.75}}``; NaN where
        undefined.
    undefined : dict of str to str
        Models that have no curve, and why: ``"single_class"``.
    choices : dict of str to object
        How points, bins or buckets were chosen.
    meta : Meta
        What the points rest on.
    source : str
        What the rows were read from, if it has a name.
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
        """Score columns, in the order asked for."""
        return tuple(self.columns)

    @cached_property
    def table(self) -> pa.Table:
        """A row a point, models one after the other.

        Returns
        -------
        pyarrow.Table
            `score` (the model), then the columns of the kind; null where undefined.
        """
        schema = SCHEMAS[self.kind]
        if any("weight" in columns for columns in self.columns.values()):
            rows = schema.get_field_index("rows")
            schema = schema.set(rows, pa.field("weight", _FLOAT))
        parts = [
            pa.table(
                [
                    pa.repeat(arrow_value(score, _TEXT), len(next(iter(columns.values())))),
                    *(_arrow(columns[name], schema.field(name).type) for name in schema.names[1:]),
                ],
                schema=schema,
            )
            for score, columns in self.columns.items()
            if columns
        ]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    @typed
    def of(self, score: str | None = None) -> dict[str, NDArray[Any]]:
        """The columns of one model.

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
            If the model is unknown, or left out where there are several.
        """
        if score is None and len(self.scores) == 1:
            score = self.scores[0]
        if score not in self.scores:
            names = ", ".join(map(repr, self.scores))
            raise ArgumentError(
                f"score={score!r} is none of the models of this curve: {names}."
                f"{near(str(score), self.scores)}"
            )
        return dict(self.columns[score])

    def to_dict(self) -> dict[str, Any]:
        """Build what :meth:`to_json` writes.

        Returns
        -------
        dict
            ``{"kind", "choices", "models": [{"score", "values", "undefined"}], "points": [{...}],
            "meta"}`` of plain Python values; None for what is not finite.
        """
        return {
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
            "points": plain_value(self.table.to_pylist()),
            "meta": plain_meta(self.meta),
        }

    @typed
    def to_json(self, indent: int | None = 2) -> str:
        """Write :meth:`to_dict` as strictly valid JSON in ASCII; null for what is not finite."""
        return json.dumps(self.to_dict(), indent=indent_of(indent), allow_nan=False)

    @typed
    def to_csv(self, *, safe: bool = False) -> str:
        """Write the table as CSV: all digits, ``inf`` as a threshold, empty where undefined.

        Parameters
        ----------
        safe : bool
            Put an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
            carriage return, so that no spreadsheet takes it for a formula.

        Returns
        -------
        str
        """
        out = io.BytesIO()
        write_csv(self.table, out, safe)
        return out.getvalue().decode()

    @typed
    def plot(
        self, path: str | os.PathLike[str], *, title: str | None = None, overwrite: bool = False
    ) -> None:
        """Draw all models into one picture; needs matplotlib (extra ``[plot]``).

        Parameters
        ----------
        path : str or path
            A file whose name ends in ``.png``, ``.svg`` or ``.html``.
        title : str, optional
            By default what kind of curve it is.
        overwrite : bool
            Replace a file that exists.

        Raises
        ------
        ArgumentError
            If matplotlib is not installed.
        UndefinedError
            If no model has a curve.
        OutputError
            If the file cannot be written, or its name ends in something else.
        """
        from fastrank_eval.output import atomic_path, check_writable
        from fastrank_eval.pictures import check_picture, draw_file

        check_picture(path)
        check_writable(path, overwrite)
        with atomic_path(path, overwrite=overwrite) as part:
            draw_file(self, part, os.fspath(path), title)

    def __repr__(self) -> str:
        lines = [f"{self.kind} curve, {self.table.num_rows:,} points"]
        for score in self.scores:
            values = self.values.get(score, {})
            told = ", ".join(f"{name} {value:#.6g}" for name, value in values.items())
            lines.append(f"{score}: {self.undefined.get(score, told)}")
        return "\n".join(lines)


def _arrow(column: np.ndarray, kind: pa.DataType) -> pa.Array:
    if kind == _TEXT:
        return bytes_column([text.encode() for text in column.tolist()], _TEXT)
    numbers = np.asarray(column, np.float64)
    return column_with_nulls(numbers, np.isnan(numbers)).cast(kind)
