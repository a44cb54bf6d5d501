"""Read rows with a score for each class."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import column_name, column_names
from fastrank_eval._lib.arrow import (
    arrow_column,
    as_array,
    bytes_column,
    decode_array,
    frozen,
    is_list,
    plain_type,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.lexer import quoted
from fastrank_eval.groups.chunk import Chunk, Labels, Scored
from fastrank_eval.io.columns import Columns, Roles
from fastrank_eval.io.computed import parse as parse_expression
from fastrank_eval.io.reader import RowError
from fastrank_eval.io.source import require_columns
from fastrank_eval.io.validate import columns_of

#: What a text has that is an expression, and no name of a column.
_OPERATOR = re.compile("[-+*/()]")


def computed_scores(schema: pa.Schema, scores: Any) -> dict[str, str]:
    """Return the expressions among the scores of classes.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the rows.
    scores : mapping of class to str, or sequence of str

    Returns
    -------
    dict of str to str
        Expression by its text, which names the computed column. A text without an operator is the
        name of a column, and so is a text that a column has as its name.

    Raises
    ------
    ArgumentError
        If an expression cannot be parsed.
    """
    texts = scores.values() if isinstance(scores, Mapping) else ()
    return {
        text: str(parse_expression(text, text))
        for text in texts
        if isinstance(text, str) and text not in schema.names and _OPERATOR.search(text)
    }


@dataclass(frozen=True)
class ClassRoles:
    """The label and score columns of each class.

    Parameters
    ----------
    classes : tuple of str
        Classes as text.
    values : pyarrow.Array
        Classes in the type of the label column.
    labels : tuple of str
        A column of the class of each row, or of the list of its classes; or a column of 0 and 1
        for each class.
    scores : tuple of str
        A column for each class.
    weight : str or None
        Row weight.
    form : str
        ``"one"``: one class a row; ``"list"``: a list of classes a row; ``"column"``: a label
        column for each class.
    score_kind : str
        How measures interpret scores.
    """

    classes: tuple[str, ...]
    values: pa.Array
    labels: tuple[str, ...]
    scores: tuple[str, ...]
    weight: str | None
    form: str
    score_kind: str = "number"

    @classmethod
    def of(cls, schema: pa.Schema, label: Any, scores: Any, weight: str | None) -> ClassRoles:
        """Read the arguments of `evaluate_classes`."""
        label_by_class, scores_by_class = (
            isinstance(columns, Mapping) for columns in (label, scores)
        )
        columns = column_names("scores", tuple(scores.values()) if scores_by_class else scores)
        weight = None if weight is None else column_name("weight", weight)
        if isinstance(label, str):
            labels: tuple[str, ...] = (column_name("label", label),)
            require_columns(schema, labels, role="label")
            kind = schema.field(label).type
            form = "list" if is_list(kind) else "one"
            kind = plain_type(kind.value_type if form == "list" else kind)
            classes = _texts(scores) if scores_by_class else _default_classes(kind, columns)
            values = _class_values(classes, kind, label)
        else:
            labels = column_names("label", tuple(label.values()) if label_by_class else label)
            form, classes = "column", _texts(label) if label_by_class else labels
            if label_by_class and scores_by_class:
                classes, columns, labels = _pair_columns(label, scores)
            elif label_by_class or scores_by_class:
                raise ArgumentError(
                    "label, scores: must both be mappings of classes, or both lists of columns, "
                    "got one of each; pass the same form."
                )
            if len(labels) != len(columns):
                raise ArgumentError(
                    f"label: must name as many columns as scores, {len(columns)}, got "
                    f"{len(labels)}; pass a label and a score column for each class."
                )
            values = bytes_column([name.encode() for name in classes], pa.string())
        both = set(labels) & {*columns, weight}
        if both:
            raise ArgumentError(
                f"label: must name other columns than scores and weight, got '{min(both)}' in "
                "both; name another column."
            )
        return cls(classes, values, labels, columns, weight, form)

    def by_column(self) -> dict[str, str]:
        """Map each needed column to its role."""
        roles = dict.fromkeys(self.labels, "label") | dict.fromkeys(self.scores, "score")
        return roles if self.weight is None else {**roles, self.weight: "weight"}

    def rows_of(self, batch: pa.RecordBatch, first_row: int) -> ClassRows:
        """Validate a batch.

        Raises
        ------
        ColumnError
            As `columns_of` does; also for a null label, a class without a score, and an indicator
            other than 0 and 1.
        """
        indicators: Iterable[Any] = [batch.column(name) for name in self.labels]
        codes = None
        if self.form == "one":
            codes = self._codes(batch.column(self.labels[0]), None, first_row)
            indicators = (
                arrow_column((codes == k).view(np.uint8)) for k in range(len(self.scores))
            )
        elif self.form == "list":
            indicators = self._members(batch.column(self.labels[0]), first_row)
        columns = []
        for k, (indicator, name) in enumerate(zip(indicators, self.scores, strict=True)):
            label = self.labels[k if self.form == "column" else 0]
            weight = None if k else self.weight
            roles = Roles(
                *((), label, (name,), weight),
                unretrieved="refuse",
                unjudged="refuse",
                score_kind=self.score_kind,
            )
            needed = list(roles.by_column())
            class_batch = pa.RecordBatch.from_arrays(
                [indicator, *(batch.column(other) for other in needed[1:])], needed
            )
            columns.append(columns_of(class_batch, roles, first_row))
            if self.form == "column":
                _refuse_grades(columns[-1].label, label, first_row)
        # Scores of all classes are compared with each other, so they need one type.
        score_type = np.result_type(*(each.scores[0].dtype for each in columns))
        return ClassRows(
            first_row,
            [frozen(np.ascontiguousarray(each.label != 0).view(np.uint8)) for each in columns],
            [frozen(each.scores[0].astype(score_type, copy=False)) for each in columns],
            columns[0].weight,
            codes,
        )

    def _codes(self, column: pa.Array, parents: np.ndarray | None, first_row: int) -> np.ndarray:
        """Find the class index of each value; `parents` has rows of items."""
        import pyarrow.compute as pc

        def class_index(column: pa.Array) -> pa.Array:
            column = decode_array(column)
            if column.type != self.values.type:
                column = column.cast(self.values.type)
            return pc.index_in(column, value_set=self.values)

        def count(column: pa.Array) -> int:
            column = decode_array(column)
            return int(class_index(column.flatten() if self.form == "list" else column).null_count)

        codes = class_index(column)
        if codes.null_count:
            unknown = np.flatnonzero(as_array(codes.is_null()))
            value = column[int(unknown[0])].as_py()
            row = unknown if parents is None else parents[unknown]
            name = self.labels[0]
            fault = f"label column '{name}' "
            if value is None:
                fault += "is null"
                remedy = f"; leave these rows out with where='{quoted(name)} is not null'"
            else:
                fault += "has a class that scores does not name"
                remedy = f", value {value!r}; name the column of its score, or leave these rows out"
                remedy += " with where"
            raise RowError(name, fault, remedy, first_row + int(row[0]), len(np.unique(row)), count)
        return as_array(codes).astype(np.int64)

    def _members(self, column: pa.Array, first_row: int) -> list[pa.Array]:
        import pyarrow.compute as pc

        column = decode_array(column)
        if column.null_count:
            raise RowError(
                self.labels[0],
                f"label column '{self.labels[0]}' is null",
                "; a row without a class has an empty list",
                first_row + int(np.argmax(as_array(column.is_null()))),
                column.null_count,
                lambda column: int(decode_array(column).null_count),
            )
        parents = as_array(pc.list_parent_indices(column)).astype(np.int64)
        codes = self._codes(column.flatten(), parents, first_row)
        member = np.zeros((len(self.scores), len(column)), np.uint8)
        member[codes, parents] = 1
        return [arrow_column(row) for row in member]


@dataclass(frozen=True)
class ClassRows:
    """A batch of rows.

    Parameters
    ----------
    first_row : int
        Index of the first row in the input.
    labels : list of ndarray of uint8, shape (rows,)
        For each class: whether the row belongs to it.
    scores : list of ndarray of float32 or float64, shape (rows,)
        For each class.
    weight : ndarray of float64, shape (rows,), or None
    codes : ndarray of int64, shape (rows,), or None
        The class of each row; None if a row may have several.
    """

    first_row: int
    labels: list[np.ndarray]
    scores: list[np.ndarray]
    weight: np.ndarray | None
    codes: np.ndarray | None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.labels[0])

    @cached_property
    def best(self) -> np.ndarray:
        """The class of the highest score, the first of ties: int64, shape (rows,)."""
        best = np.zeros(self.rows, np.int64)
        highest = self.scores[0].copy()
        for k, score in enumerate(self.scores):
            best[score > highest] = k
            np.maximum(highest, score, out=highest)
        return best

    def decided(self, k: int) -> np.ndarray:
        """Get 1.0 where a class is `best`, else 0.0: float32, shape (rows,)."""
        return (self.best == k).astype(np.float32)

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Indices of the rows of each class, ascending."""
        return [np.flatnonzero(label) for label in self.labels]


def scored_rows(label: np.ndarray, score: np.ndarray, weight: np.ndarray | None) -> Scored:
    """Build the rows of one class against the others."""
    columns = Columns(0, (), frozen(label), (frozen(score),), (None,), weight, None, ())
    starts = np.array([0, len(label)])
    labels = Labels.of(columns.label, starts, skip_empty=False)
    return Scored.of(Chunk(columns, starts, grouped=False), 0, labels)


def _text(value: object) -> str:
    return str(bool(value)).lower() if isinstance(value, bool | np.bool_) else str(value)


def _texts(by_class: Mapping[Any, str]) -> tuple[str, ...]:
    return tuple(map(_text, by_class))


def _default_classes(kind: pa.DataType, columns: Sequence[str]) -> tuple[str, ...]:
    """Choose default classes: numbers from 0, false and true, or column names."""
    numbers = [str(k) for k in range(len(columns))]
    if pa.types.is_boolean(kind):
        return ("false", "true", *numbers[2:])[: len(columns)]
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return tuple(numbers)
    return tuple(columns)


def _class_values(classes: Sequence[str], kind: pa.DataType, label: str) -> pa.Array:
    values = bytes_column([name.encode() for name in classes], pa.string())
    for k, name in enumerate(classes):
        try:
            values.slice(k, 1).cast(kind)
        except pa.ArrowException:
            raise ArgumentError(
                f"scores: must name classes of the label column '{label}', which is {kind}, got "
                f"{name!r}; pass {{value of that column: score column}}."
            ) from None
    values = values.cast(kind)
    if len(values.unique()) < len(values):
        raise ArgumentError(
            f"scores: must name each class of '{label}' once, got {', '.join(classes)}; leave out "
            "the repeated one."
        )
    return values


def _pair_columns(
    label: Mapping[Any, str], scores: Mapping[Any, str]
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Pair label and score columns by class, in the order of the scores."""
    texts, columns = _texts(scores), dict(zip(_texts(label), label.values(), strict=True))
    single = sorted(set(texts) ^ set(columns))
    if single:
        raise ArgumentError(
            f"label, scores: must name the same classes, got {single[0]!r} in one of them; give "
            "it a column in both."
        )
    return texts, tuple(scores.values()), tuple(columns[text] for text in texts)


def _refuse_grades(label: np.ndarray, name: str, first_row: int) -> None:
    def find(values: np.ndarray) -> np.ndarray:
        return (values != 0) & (values != 1)

    def count(column: pa.Array) -> int:
        return int(np.count_nonzero(find(as_array(column.drop_null().cast(pa.float64())))))

    wrong = find(label)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise RowError(
            name,
            f"label column '{name}' is neither 0 nor 1",
            f", value {label[first]!s}; the column of a class has 1 for its rows, else 0",
            first_row + first,
            int(np.count_nonzero(wrong)),
            lambda column: count(decode_array(column)),
        )
