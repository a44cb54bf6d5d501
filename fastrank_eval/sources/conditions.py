"""A condition bound to the columns of a source: which rows it selects, which it may select."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval import where
from fastrank_eval.arrow_values import arrow_value, values_column
from fastrank_eval.errors import ArgumentError, FastRankEvalError
from fastrank_eval.sources.literals import fit, order_key, plain_type
from fastrank_eval.sources.ranges import UNKNOWN, Range
from fastrank_eval.sources.source import require_columns

__all__ = ["ANYTHING", "FALSE", "NULL", "TRUE", "Condition", "bind", "folded"]

#: What a condition may come to in some rows, as a set of bits.
TRUE, FALSE, NULL = 1, 2, 4
ANYTHING = TRUE | FALSE | NULL

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


def bind(node: where.Node, schema: pa.Schema, lenient: bool = False) -> Condition:
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
    if isinstance(node, where.Not):
        return _Not(bind(node.part, schema, lenient))
    if isinstance(node, where.And | where.Or):
        parts = tuple(bind(part, schema, lenient) for part in node.parts)
        return _And(parts) if isinstance(node, where.And) else _Or(parts)
    try:
        require_columns(schema, [node.column], role="where")
        return _leaf(node, schema.field(node.column).type)
    except FastRankEvalError:
        if not lenient:
            raise
        return _Unbound()


def _leaf(
    node: where.Comparison | where.Among | where.IsNull | where.Flag, kind: pa.DataType
) -> Condition:
    name, plain = node.column, plain_type(kind)
    if isinstance(node, where.IsNull):
        return _IsNull(name)
    if isinstance(node, where.Flag):
        if not pa.types.is_boolean(plain):
            raise ArgumentError(
                f"where: column {name!r} is {kind} and no condition by itself: "
                "compare it with a literal."
            )
        return _Comparison(name, "=", arrow_value(None if pa.types.is_null(kind) else True, plain))
    if isinstance(node, where.Comparison):
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
