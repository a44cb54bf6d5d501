"""Select the rows of a source that a condition holds for."""

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
from fastrank_eval.io.csv_numbers import Spelling
from fastrank_eval.io.expressions import (
    expression_columns,
    expression_mask,
    expression_outcomes,
)
from fastrank_eval.io.literals import fit, order_key, plain_type
from fastrank_eval.io.pruning import ANYTHING, FALSE, NULL, TRUE, UNKNOWN, Range
from fastrank_eval.io.source import Source, require_columns, selected_row, type_name

__all__ = ["Condition", "Selection", "Where", "bind", "condition_of", "folded"]


_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_UNSET = arrow_value(None, pa.bool_())

#: Gives a column, of its plain type: an array to compute with, or an expression to build on.
Operand = Callable[[str], Any]


class Condition(Protocol):
    """What every bound condition can tell."""

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        """Whether rows meet it; unless `exact`, false may stand for null."""

    def outcomes(self, known: Mapping[str, Range]) -> int:
        """What it may come to in rows of which this is known, and perhaps more than that."""


@dataclass(frozen=True)
class _Comparison:
    column: str
    operator: str
    value: pa.Scalar

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        return _COMPARE[self.operator](operand(self.column), self.value)

    def outcomes(self, known: Mapping[str, Range]) -> int:
        column = known.get(self.column, UNKNOWN)
        if not self.value.is_valid:
            return NULL
        found = NULL if column.nulls else 0
        if not column.values:
            return found
        key = order_key(self.value)
        if column.low is None or key is None:
            return found | TRUE | FALSE
        low, high = column.low, column.high
        holds, fails = {
            "=": (low <= key <= high, not low == key == high),
            "!=": (not low == key == high, low <= key <= high),
            "<": (low < key, high >= key),
            "<=": (low <= key, high > key),
            ">": (high > key, low <= key),
            ">=": (high >= key, low < key),
        }[self.operator]
        if pa.types.is_floating(self.value.type):  # NaN is unequal to all, and nothing else
            holds, fails = holds or self.operator == "!=", fails or self.operator != "!="
        return found | TRUE * holds | FALSE * fails


@dataclass(frozen=True)
class _Among:
    column: str
    values: pa.Array
    keys: list[Any] | None

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        column, values = operand(self.column), self.values
        if pa.types.is_decimal32(values.type) or pa.types.is_decimal64(values.type):
            # Arrow looks up wider ones only.
            kind = pa.decimal128(values.type.precision, values.type.scale)
            column, values = column.cast(kind), values.cast(kind)
        found = pc.is_in(column, options=pc.SetLookupOptions(values))
        if not exact:
            return found
        return pc.if_else(pc.is_valid(column), found, _UNSET)

    def outcomes(self, known: Mapping[str, Range]) -> int:
        column = known.get(self.column, UNKNOWN)
        found = NULL if column.nulls else 0
        if not column.values:
            return found
        if column.low is None or self.keys is None:
            return found | TRUE | FALSE
        inside = bisect_right(self.keys, column.high) - bisect_left(self.keys, column.low)
        sure = column.low == column.high and inside and not pa.types.is_floating(self.values.type)
        return found | TRUE * (inside > 0) | FALSE * (not sure)


@dataclass(frozen=True)
class _IsNull:
    column: str

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        return pc.is_null(operand(self.column))

    def outcomes(self, known: Mapping[str, Range]) -> int:
        column = known.get(self.column, UNKNOWN)
        return TRUE * column.nulls | FALSE * column.values


@dataclass(frozen=True)
class _Not:
    part: Condition

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        return pc.invert(self.part.mask(operand, exact=True))

    def outcomes(self, known: Mapping[str, Range]) -> int:
        return _swapped(self.part.outcomes(known))


@dataclass(frozen=True)
class _And:
    parts: tuple[Condition, ...]

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        return folded(pc.and_kleene, [part.mask(operand, exact) for part in self.parts])

    def outcomes(self, known: Mapping[str, Range]) -> int:
        return reduce(_both, (part.outcomes(known) for part in self.parts))


@dataclass(frozen=True)
class _Or:
    parts: tuple[Condition, ...]

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        return folded(pc.or_kleene, [part.mask(operand, exact) for part in self.parts])

    def outcomes(self, known: Mapping[str, Range]) -> int:
        return _swapped(reduce(_both, (_swapped(part.outcomes(known)) for part in self.parts)))


class _Unbound:
    """A part whose column is not known yet: its outcomes are asked for, never its rows."""

    def mask(self, operand: Operand, exact: bool = False) -> Any:
        raise NotImplementedError  # pragma: no cover - `bind` without `lenient` comes first

    def outcomes(self, known: Mapping[str, Range]) -> int:
        return ANYTHING


def bind(node: filter_parser.Node, schema: pa.Schema, lenient: bool = False) -> Condition:
    """Give every literal of a condition the type of its column.

    Parameters
    ----------
    node : where.Node
    schema : pyarrow.Schema
    lenient : bool
        The schema does not hold every column: parts it does not fit may come to anything.

    Raises
    ------
    ColumnError
        If a column is missing.
    ArgumentError
        If a literal does not fit its column.
    """
    if isinstance(node, filter_parser.Not):
        return _Not(bind(node.part, schema, lenient))
    if isinstance(node, filter_parser.And | filter_parser.Or):
        parts = tuple(bind(part, schema, lenient) for part in node.parts)
        return _And(parts) if isinstance(node, filter_parser.And) else _Or(parts)
    try:
        require_columns(schema, [node.column], role="where")
        return _leaf(node, schema.field(node.column).type)
    except FastRankEvalError:
        if not lenient:
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
        values += [arrow_value(0.0, plain), arrow_value(-0.0, plain)]  # one number, but two hashes
    array = values_column([value for value in values if value.is_valid], plain)
    return _Among(name, array, None if None in keys else sorted(keys))


def _both(a: int, b: int) -> int:
    """What `a and b` may come to."""
    found = (a | b) & FALSE
    if a & TRUE and b & TRUE:
        found |= TRUE
    if (a & NULL and b & (NULL | TRUE)) or (a & TRUE and b & NULL):
        found |= NULL
    return found


def _swapped(outcomes: int) -> int:
    """True for false and false for true."""
    return outcomes & NULL | TRUE * bool(outcomes & FALSE) | FALSE * bool(outcomes & TRUE)


def folded(join: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """Join many by halves: a long chain would overflow the stack of whoever walks it."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return join(folded(join, parts[:half]), folded(join, parts[half:]))


#: Rows looked at together: decoded, the strings of more might pass the 2 GiB that Arrow counts to.
_PIECE = 1 << 20
_EQUAL_TEXT = (("=", "text"), ("!=", "text"))


@dataclass(frozen=True)
class Selection:
    """A condition that knows the columns of its source.

    Parameters
    ----------
    columns : tuple of str
        The columns it looks at.
    mask : callable
        Tells which rows of a batch, which holds these columns, it selects.
    outcomes : callable
        What it may come to in rows of which something is known: `conditions.TRUE` and so on.
    expression : pyarrow.compute.Expression or None
        The same for a scanner; None where a scanner would select other rows.
    """

    columns: tuple[str, ...]
    mask: Callable[[pa.RecordBatch], pa.Array]
    outcomes: Callable[[Mapping[str, Range]], int]
    expression: pc.Expression | None

    def may_hold(self, known: Mapping[str, Range]) -> bool:
        """Whether it may select rows of which this is known."""
        return bool(self.outcomes(known) & TRUE)

    def must_hold(self, known: Mapping[str, Range]) -> bool:
        """Whether it selects every row of which this is known."""
        return self.outcomes(known) == TRUE

    def and_its_own(self, columns: Sequence[str]) -> tuple[str, ...]:
        """These columns, and then those that the condition needs besides."""
        return tuple(dict.fromkeys((*columns, *self.columns)))

    def of(self, batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[Any]:
        """The selected rows of batches that hold `and_its_own(columns)`; just these columns."""
        for batch in batches:
            for lo in range(0, batch.num_rows, _PIECE):
                piece = batch.slice(lo, _PIECE)
                mask = self.mask(piece)
                rows = mask.true_count
                if rows:
                    kept = piece.select(list(columns))
                    yield kept if rows == len(mask) else _filtered(kept, mask)


@dataclass(frozen=True)
class Where:
    """A condition that does not know the columns of a source yet.

    Parameters
    ----------
    given : where.Node or pyarrow.compute.Expression
        What a user passed, once text is parsed.
    """

    given: filter_parser.Node | pc.Expression

    def select(self, schema: pa.Schema, spelling: Spelling | None = None) -> Selection:
        """Bind it to the columns of a source, which text files write so.

        Raises
        ------
        ColumnError
            If a column is missing.
        ArgumentError
            If the condition does not fit the types of its columns.
        """
        given = self.given
        if isinstance(given, pc.Expression):
            columns = expression_columns(given, schema)
            return Selection(
                columns,
                lambda batch: expression_mask(given, batch.select(list(columns))),
                lambda known: expression_outcomes(given, columns, schema, known),
                given if _scannable(schema, columns) else None,
            )
        bound = bind(given, schema)
        for name, text in _equal_texts(given):
            if spelling is not None and not spelling.holds(name, text):
                raise ArgumentError(
                    f"where: must compare column {name!r} with numbers as the file writes them, "
                    f"got the text {text!r}; leave out the quotes to compare it with the number."
                )
        columns = tuple(dict.fromkeys(_columns(given)))
        expression = None
        if _scannable(schema, columns):

            def column_of(name: str) -> pc.Expression:
                kind = schema.field(name).type
                plain = plain_type(kind)
                return pc.field(name) if kind.equals(plain) else pc.field(name).cast(plain)

            expression = bound.mask(column_of)
        return Selection(
            columns,
            lambda batch: bound.mask(lambda name: _plain(batch.column(name))),
            bound.outcomes,
            expression,
        )

    def may_hold(self, schema: pa.Schema, known: Mapping[str, Range]) -> bool:
        """Whether it may select rows of which this is known, where the schema may lack columns."""
        if isinstance(self.given, pc.Expression):
            try:
                outcomes = self.select(schema).outcomes(known)
            except ValueError:
                outcomes = ANYTHING
        else:
            outcomes = bind(self.given, schema, lenient=True).outcomes(known)
        return bool(outcomes & TRUE)

    def only(self, source: Source) -> Source:
        """The rows of a source that it selects, in their order."""
        selection, again = self.select(source.schema, source.spelling), source.as_text

        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return selection.of(source.batches(selection.and_its_own(columns)), columns)

        return Source(
            source.name,
            source.schema,
            read,
            rereadable=source.rereadable,
            locate=selected_row,
            as_text=None if again is None else lambda *names: self.only(again(*names)),
            spelling=source.spelling,
        )

    def categories(self) -> frozenset[str]:
        """Columns that it finds equal to texts."""
        if isinstance(self.given, pc.Expression):
            return frozenset()
        return frozenset(name for name, _ in _equal_texts(self.given))


def condition_of(given: object) -> Where:
    """Check what was passed as ``where``, and parse text.

    Raises
    ------
    ArgumentError
        If it is neither text of a condition nor a pyarrow Expression.
    """
    if isinstance(given, pc.Expression):
        return Where(given)
    if isinstance(given, str):
        return Where(filter_parser.parse(given))
    raise ArgumentError(
        f"where={given!r} is {type_name(given)}: pass text, or a pyarrow.compute.Expression."
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
    """Columns and the texts that they are found equal to, or not."""
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
    """Whether Arrow's scanner selects the same rows.

    It loses rows of NaN: statistics that tell of 1.0 alone rule out ``x != 1.0`` for it.
    """
    kinds = [schema.field(name).type for name in columns]
    values = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    return all(kind.equals(plain_type(kind)) for kind in values) and not any(
        map(pa.types.is_floating, values)
    )


def _plain(array: pa.Array) -> pa.Array:
    """The values of an array in its plain type."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(array.storage)
    if pa.types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(array))
    plain = plain_type(kind)
    if pa.types.is_dictionary(kind):
        return _plain(array.dictionary).cast(plain).take(array.indices)
    return array if kind.equals(plain) else array.cast(plain)


def _filtered(batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    columns = [_kept(column, mask) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _kept(array: pa.Array, mask: pa.Array) -> pa.Array:
    """Selected values in their own type; Arrow filters no run ends and no views."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _kept(array.storage, mask))
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(_kept(pc.run_end_decode(array), mask), kind.run_end_type)
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string()).filter(mask).cast(kind)
    if pa.types.is_binary_view(kind):
        return array.cast(pa.large_binary()).filter(mask).cast(kind)
    return array.filter(mask)
