"""Select the rows of a source that satisfy a condition."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval._lib.arrow import arrow_value, values_column
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError
from fastrank_eval.io import filter_parser
from fastrank_eval.io.csv_numbers import Spellings
from fastrank_eval.io.literals import fit, order_key, plain_type
from fastrank_eval.io.pruning import (
    ANYTHING,
    FALSE,
    NULL,
    TRUE,
    UNKNOWN,
    Range,
    expression_columns,
    expression_mask,
    expression_outcomes,
)
from fastrank_eval.io.source import Source, require_columns, selected_row, type_name

__all__ = ["Condition", "Selection", "Where", "bind", "condition_of", "reduce_balanced"]


_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_NULL_BOOLEAN = arrow_value(None, pa.bool_())

#: Returns a column in its plain type, as an array or as an expression.
Operand = Callable[[str], Any]


class Condition(Protocol):
    """A condition with the types of its columns."""

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        """Compute the mask of rows; unless `exact`, false may stand for null."""

    def outcomes(self, ranges: Mapping[str, Range]) -> int:
        """Return the possible values for rows in these ranges, or more."""


@dataclass(frozen=True)
class _Comparison:
    column: str
    operator: str
    value: pa.Scalar

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        return _COMPARE[self.operator](operand(self.column), self.value)

    def outcomes(self, ranges: Mapping[str, Range]) -> int:
        column = ranges.get(self.column, UNKNOWN)
        if not self.value.is_valid:
            return NULL
        outcomes = NULL if column.nulls else 0
        if not column.values:
            return outcomes
        key = order_key(self.value)
        if column.low is None or key is None:
            return outcomes | TRUE | FALSE
        low, high = column.low, column.high
        holds, fails = {
            "=": (low <= key <= high, not low == key == high),
            "!=": (not low == key == high, low <= key <= high),
            "<": (low < key, high >= key),
            "<=": (low <= key, high > key),
            ">": (high > key, low <= key),
            ">=": (high >= key, low < key),
        }[self.operator]
        if pa.types.is_floating(self.value.type):  # NaN satisfies only "!="
            holds, fails = holds or self.operator == "!=", fails or self.operator != "!="
        return outcomes | TRUE * holds | FALSE * fails


@dataclass(frozen=True)
class _Among:
    column: str
    values: pa.Array
    keys: list[Any] | None

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        column, values = operand(self.column), self.values
        if pa.types.is_decimal32(values.type) or pa.types.is_decimal64(values.type):
            # Arrow's is_in supports only wider decimals.
            kind = pa.decimal128(values.type.precision, values.type.scale)
            column, values = column.cast(kind), values.cast(kind)
        mask = pc.is_in(column, options=pc.SetLookupOptions(values))
        if not exact:
            return mask
        return pc.if_else(pc.is_valid(column), mask, _NULL_BOOLEAN)

    def outcomes(self, ranges: Mapping[str, Range]) -> int:
        column = ranges.get(self.column, UNKNOWN)
        outcomes = NULL if column.nulls else 0
        if not column.values:
            return outcomes
        if column.low is None or self.keys is None:
            return outcomes | TRUE | FALSE
        inside = bisect_right(self.keys, column.high) - bisect_left(self.keys, column.low)
        always = column.low == column.high and inside and not pa.types.is_floating(self.values.type)
        return outcomes | TRUE * (inside > 0) | FALSE * (not always)


@dataclass(frozen=True)
class _IsNull:
    column: str

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        return pc.is_null(operand(self.column))

    def outcomes(self, ranges: Mapping[str, Range]) -> int:
        column = ranges.get(self.column, UNKNOWN)
        return TRUE * column.nulls | FALSE * column.values


@dataclass(frozen=True)
class _Not:
    part: Condition

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        return pc.invert(self.part.mask(operand, exact=True))

    def outcomes(self, ranges: Mapping[str, Range]) -> int:
        return _negate_outcomes(self.part.outcomes(ranges))


@dataclass(frozen=True)
class _And:
    parts: tuple[Condition, ...]

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        return reduce_balanced(pc.and_kleene, [part.mask(operand, exact) for part in self.parts])

    def outcomes(self, ranges: Mapping[str, Range]) -> int:
        return reduce(_and_outcomes, (part.outcomes(ranges) for part in self.parts))


@dataclass(frozen=True)
class _Or:
    parts: tuple[Condition, ...]

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        return reduce_balanced(pc.or_kleene, [part.mask(operand, exact) for part in self.parts])

    def outcomes(self, ranges: Mapping[str, Range]) -> int:
        return _negate_outcomes(
            reduce(_and_outcomes, (_negate_outcomes(part.outcomes(ranges)) for part in self.parts))
        )


class _Unbound:
    """A part without its column; it has outcomes but no mask."""

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        raise NotImplementedError  # pragma: no cover - masks need a complete schema

    def outcomes(self, ranges: Mapping[str, Range]) -> int:
        return ANYTHING


def bind(node: filter_parser.Node, schema: pa.Schema, partial_schema: bool = False) -> Condition:
    """Convert the literals of a condition to the types of their columns.

    Parameters
    ----------
    node : filter_parser.Node
    schema : pyarrow.Schema
    partial_schema : bool
        Whether the schema may lack columns. Parts that do not fit it can have any outcome.

    Raises
    ------
    ColumnError
        If a column is missing.
    ArgumentError
        If a literal does not fit its column.
    """
    if isinstance(node, filter_parser.Not):
        return _Not(bind(node.part, schema, partial_schema))
    if isinstance(node, filter_parser.And | filter_parser.Or):
        parts = tuple(bind(part, schema, partial_schema) for part in node.parts)
        return _And(parts) if isinstance(node, filter_parser.And) else _Or(parts)
    try:
        require_columns(schema, [node.column], role="where")
        return _leaf(node, schema.field(node.column).type)
    except FastRankEvalError:
        if not partial_schema:
            raise
        return _Unbound()


def _leaf(
    node: filter_parser.Comparison
    | filter_parser.Among
    | filter_parser.IsNull
    | filter_parser.Flag,
    kind: pa.DataType,
) -> Condition:
    name, plain = node.column, plain_type(kind)
    if isinstance(node, filter_parser.IsNull):
        return _IsNull(name)
    if isinstance(node, filter_parser.Flag):
        if not pa.types.is_boolean(plain):
            raise ArgumentError(
                f"where: column {name!r} is {kind} and no condition by itself: "
                "compare it with a literal."
            )
        return _Comparison(name, "=", arrow_value(None if pa.types.is_null(kind) else True, plain))
    if isinstance(node, filter_parser.Comparison):
        ordered = node.operator not in ("=", "!=")
        return _Comparison(name, node.operator, fit(node.literal, kind, name, ordered))
    values = [fit(literal, kind, name) for literal in node.literals]
    keys = [order_key(value) for value in values if value.is_valid]
    if pa.types.is_floating(plain) and 0.0 in keys:
        values += [arrow_value(0.0, plain), arrow_value(-0.0, plain)]  # equal, with other hashes
    array = values_column([value for value in values if value.is_valid], plain)
    return _Among(name, array, None if None in keys else sorted(keys))


def _and_outcomes(a: int, b: int) -> int:
    """Return the possible values of `a and b`."""
    outcomes = (a | b) & FALSE
    if a & TRUE and b & TRUE:
        outcomes |= TRUE
    if (a & NULL and b & (NULL | TRUE)) or (a & TRUE and b & NULL):
        outcomes |= NULL
    return outcomes


def _negate_outcomes(outcomes: int) -> int:
    """Swap true and false."""
    return outcomes & NULL | TRUE * bool(outcomes & FALSE) | FALSE * bool(outcomes & TRUE)


def reduce_balanced(join: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """Join parts as a balanced tree: a long chain would overflow the stack."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return join(reduce_balanced(join, parts[:half]), reduce_balanced(join, parts[half:]))


#: Rows of a mask: the decoded strings of more rows might pass the 2 GiB of Arrow's offsets.
_MASK_ROWS = 1 << 20
_EQUAL_TEXT = (("=", "text"), ("!=", "text"))


@dataclass(frozen=True)
class Selection:
    """A condition on the columns of a source.

    Parameters
    ----------
    columns : tuple of str
        The columns of the condition.
    mask : callable
        Returns the mask of selected rows of a batch with these columns.
    outcomes : callable
        Returns the possible values for rows in given ranges, as bits `pruning.TRUE`, `FALSE` and
        `NULL`.
    expression : pyarrow.compute.Expression or None
        The same condition for Arrow's scanner; None if the scanner would select other rows.
    """

    columns: tuple[str, ...]
    mask: Callable[[pa.RecordBatch], pa.Array]
    outcomes: Callable[[Mapping[str, Range]], int]
    expression: pc.Expression | None

    def may_hold(self, ranges: Mapping[str, Range]) -> bool:
        """Return whether the condition may select rows in these ranges."""
        return bool(self.outcomes(ranges) & TRUE)

    def must_hold(self, ranges: Mapping[str, Range]) -> bool:
        """Return whether the condition selects all rows in these ranges."""
        return self.outcomes(ranges) == TRUE

    def required_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return these columns, then the other columns of the condition."""
        return tuple(dict.fromkeys((*columns, *self.columns)))

    def filter(self, batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[Any]:
        """Yield the selected rows of batches with `required_columns(columns)`.

        The result has only `columns`.
        """
        for long_batch in batches:
            for lo in range(0, long_batch.num_rows, _MASK_ROWS):
                batch = long_batch.slice(lo, _MASK_ROWS)
                mask = self.mask(batch)
                rows = mask.true_count
                if rows:
                    result = batch.select(list(columns))
                    yield result if rows == len(mask) else _filter_batch(result, mask)


@dataclass(frozen=True)
class Where:
    """A condition without the columns of a source.

    Parameters
    ----------
    condition : filter_parser.Node or pyarrow.compute.Expression
        The condition of the user; text is parsed.
    """

    condition: filter_parser.Node | pc.Expression

    def select(self, schema: pa.Schema, spellings: Spellings | None = None) -> Selection:
        """Bind the condition to the columns of a source.

        `spellings` are those of text files.

        Raises
        ------
        ColumnError
            If a column is missing.
        ArgumentError
            If the condition does not fit the types of its columns.
        """
        condition = self.condition
        if isinstance(condition, pc.Expression):
            columns = expression_columns(condition, schema)
            return Selection(
                columns,
                lambda batch: expression_mask(condition, batch.select(list(columns))),
                lambda ranges: expression_outcomes(condition, columns, schema, ranges),
                condition if _scannable(schema, columns) else None,
            )
        bound = bind(condition, schema)
        for name, text in _equal_texts(condition):
            if spellings is not None and not spellings.is_unique_spelling(name, text):
                raise ArgumentError(
                    f"where: must compare column {name!r} with numbers as the file writes them, "
                    f"got the text {text!r}; leave out the quotes to compare it with the number."
                )
        columns = tuple(dict.fromkeys(_columns(condition)))
        expression = None
        if _scannable(schema, columns):

            def column_of(name: str) -> pc.Expression:
                kind = schema.field(name).type
                plain = plain_type(kind)
                return pc.field(name) if kind.equals(plain) else pc.field(name).cast(plain)

            expression = bound.mask(column_of)
        return Selection(
            columns,
            lambda batch: bound.mask(lambda name: _plain_array(batch.column(name))),
            bound.outcomes,
            expression,
        )

    def may_hold(self, schema: pa.Schema, ranges: Mapping[str, Range]) -> bool:
        """Return whether the condition may select rows in these ranges.

        The schema may lack columns.
        """
        if isinstance(self.condition, pc.Expression):
            try:
                outcomes = self.select(schema).outcomes(ranges)
            except ValueError:
                outcomes = ANYTHING
        else:
            outcomes = bind(self.condition, schema, partial_schema=True).outcomes(ranges)
        return bool(outcomes & TRUE)

    def apply(self, source: Source) -> Source:
        """Return a source with the selected rows, in their order."""
        selection, reopen = self.select(source.schema, source.spellings), source.as_text

        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return selection.filter(source.batches(selection.required_columns(columns)), columns)

        return Source(
            source.name,
            source.schema,
            read,
            rereadable=source.rereadable,
            locate=selected_row,
            as_text=None if reopen is None else lambda *names: self.apply(reopen(*names)),
            spellings=source.spellings,
        )

    def categories(self) -> frozenset[str]:
        """Return the columns that the condition compares with text for equality."""
        if isinstance(self.condition, pc.Expression):
            return frozenset()
        return frozenset(name for name, _ in _equal_texts(self.condition))


def condition_of(condition: object) -> Where:
    """Check the argument ``where``, and parse text.

    Raises
    ------
    ArgumentError
        If the argument is neither text of a condition nor a pyarrow Expression.
    """
    if isinstance(condition, pc.Expression):
        return Where(condition)
    if isinstance(condition, str):
        return Where(filter_parser.parse(condition))
    raise ArgumentError(
        f"where={condition!r} is {type_name(condition)}: pass text, or a "
        "pyarrow.compute.Expression."
    )


def _columns(node: filter_parser.Node) -> Iterator[str]:
    if isinstance(node, filter_parser.Not):
        yield from _columns(node.part)
    elif isinstance(node, filter_parser.And | filter_parser.Or):
        for part in node.parts:
            yield from _columns(part)
    else:
        yield node.column


def _equal_texts(node: filter_parser.Node) -> Iterator[tuple[str, str]]:
    """Yield columns and texts that the condition compares for equality."""
    if isinstance(node, filter_parser.Not):
        yield from _equal_texts(node.part)
    elif isinstance(node, filter_parser.And | filter_parser.Or):
        for part in node.parts:
            yield from _equal_texts(part)
    elif isinstance(node, filter_parser.Among):
        yield from ((node.column, each.value) for each in node.literals if each.kind == "text")
    elif (
        isinstance(node, filter_parser.Comparison)
        and (node.operator, node.literal.kind) in _EQUAL_TEXT
    ):
        yield node.column, node.literal.value


def _scannable(schema: pa.Schema, columns: Sequence[str]) -> bool:
    """Return whether Arrow's scanner selects the same rows.

    The scanner loses rows of NaN: it excludes ``x != 1.0`` if the statistics hold only 1.0.
    """
    kinds = [schema.field(name).type for name in columns]
    values = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    return all(kind.equals(plain_type(kind)) for kind in values) and not any(
        map(pa.types.is_floating, values)
    )


def _plain_array(array: pa.Array) -> pa.Array:
    """Convert an array to its plain type."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_array(array.storage)
    if pa.types.is_run_end_encoded(kind):
        return _plain_array(pc.run_end_decode(array))
    plain = plain_type(kind)
    if pa.types.is_dictionary(kind):
        return _plain_array(array.dictionary).cast(plain).take(array.indices)
    return array if kind.equals(plain) else array.cast(plain)


def _filter_batch(batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    columns = [_filter_array(column, mask) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _filter_array(array: pa.Array, mask: pa.Array) -> pa.Array:
    """Filter an array of any type; Arrow cannot filter run ends and views."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _filter_array(array.storage, mask))
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(_filter_array(pc.run_end_decode(array), mask), kind.run_end_type)
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string()).filter(mask).cast(kind)
    if pa.types.is_binary_view(kind):
        return array.cast(pa.large_binary()).filter(mask).cast(kind)
    return array.filter(mask)
