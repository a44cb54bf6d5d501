"""Parse conditions on rows: ``day = '2026-11-19' and slot in (1, 2)``.

The grammar; keywords may be in upper or lower case::

    condition   conjunction {or conjunction}
    conjunction term {and term}
    term        not term | ( condition ) | predicate
    predicate   column {= == != <> < <= > >=} literal, or the literal first
                column [not] in (literal, ...)
                column [not] between literal and literal
                column is [not] null
                column is [not] nan
                column of booleans
    column      name, or "any name" with "" for "
    literal     'text' with '' for ', a number, true, false
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import ClassVar
from uuid import UUID

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_value, is_textual, plain_type, values_type
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.lexer import COMPARISONS, NUMBER, Operation, TokenReader, shorten
from fastrank_eval.io.source import first_line

_NUMBER = re.compile(rf"[+-]?{NUMBER}")
_EXPONENTS = 10_000  # larger exponents are slow, and no column holds such numbers
_DIGITS = 40  # more than the integer digits of any number in a column


@dataclass(frozen=True)
class Literal:
    """A literal value as text.

    Parameters
    ----------
    kind : {"text", "number", "bool"}
    value : str
        The text without its quotes, the digits, or ``"true"``, ``"false"``.
    """

    kind: str
    value: str

    def __str__(self) -> str:
        return "'" + self.value.replace("'", "''") + "'" if self.kind == "text" else self.value


@dataclass(frozen=True)
class Predicate:
    """A condition on one column.

    Parameters
    ----------
    column : str
    operator : str
        One of `lexer.COMPARISONS`; ``"in"``, ``"is null"``, ``"is nan"``, or ``"is true"`` for a
        column of booleans.
    literals : tuple of Literal
        One for a comparison, one or more for ``in``.
    """

    column: str
    operator: str
    literals: tuple[Literal, ...] = ()


#: An operation is ``and``, ``or`` or ``not``.
Node = Predicate | Operation


def parse(text: str) -> Node:
    """Parse a condition.

    Parameters
    ----------
    text : str

    Returns
    -------
    Node

    Raises
    ------
    ArgumentError
        If the text does not follow the grammar; the message says where and what is expected.

    Examples
    --------
    >>> parse("slot = 3")
    Predicate(column='slot', operator='=', literals=(Literal(kind='number', value='3'),))
    >>> parse("slot = three")
    Traceback (most recent call last):
    fastrank_eval.ArgumentError: where "slot = three": expected a literal at character 8, \
found three. Text stands in single quotes: 'three'.
    """
    return _Parser(text).parse()


class _Parser(TokenReader):
    """A parser with one method for each rule of the grammar."""

    name = "where"
    pattern = re.compile(
        rf"""(?P<blank>\s+)
        |(?P<text>'(?:[^']|'')*')
        |(?P<quoted>"(?:[^"]|"")+")
        |(?P<number>[+-]?{NUMBER})
        |(?P<word>[^\W\d]\w*)
        |(?P<operator>==|!=|<>|<=|>=|[=<>(),])""",
        re.VERBOSE,
    )
    expected = "a column, a literal or an operator"
    keywords = frozenset({"and", "or", "not", "in", "between", "is", "null", "true", "false"})
    closing_signs: ClassVar = {"'": "'", '"': '"'}
    max_depth = 50
    closing = "'and', 'or' or ')'"

    def parse(self) -> Node:
        node: Node = self._either()
        self._end()
        return node

    def _comparison(self) -> Node:
        if self._is_next("("):
            nested: Node = self._in_parentheses()
            return nested
        literal = self._literal_here()
        if literal is not None:
            operator = self._operator()
            if not operator:
                self._fail("a comparison (=, !=, <, <=, >, >=)")
            return Predicate(self._column(), COMPARISONS[operator], (literal,))
        column = self._column()
        if operator := self._operator():
            return Predicate(column, operator, (self._literal(),))
        is_state = self._skip("is")
        negated = self._skip("not")
        node: Node
        if is_state:
            # No keyword: a column may have this name.
            is_nan = self._next.kind == "word" and self._next.text.lower() == "nan"
            if not is_nan and not self._is_next("null"):
                self._fail("null or nan" if negated else "null, nan, not null or not nan")
            self._position += 1
            node = Predicate(column, "is nan" if is_nan else "is null")
        elif self._skip("in"):
            node = Predicate(column, "in", self._list())
        elif self._skip("between"):
            low = Predicate(column, ">=", (self._literal(),))
            if not self._skip("and"):
                self._fail("'and' and the upper end")
            node = Operation("and", (low, Predicate(column, "<=", (self._literal(),))))
        elif negated:
            self._fail("in or between")
        elif self._next.kind == "end" or self._next.text == ")" or self._next.keyword:
            node = Predicate(column, "is true")
        else:
            self._fail("a comparison (=, !=, <, <=, >, >=), in, between or is")
        return Operation("not", (node,)) if negated else node

    def _list(self) -> tuple[Literal, ...]:
        if not self._skip("("):
            self._fail("'('")
        literals = [self._literal()]
        while self._skip(","):
            literals.append(self._literal())
        if not self._skip(")"):
            self._fail("',' or ')'")
        return tuple(literals)

    def _column(self) -> str:
        name = self._next.column_name
        if not name:
            word = self._next.text
            self._fail(
                "a column",
                f'A column of this name stands in double quotes: "{word}".'
                if self._next.keyword
                else "",
            )
        self._position += 1
        return name

    def _literal(self) -> Literal:
        literal = self._literal_here()
        if literal is None:
            remedy = ""
            if self._next.keyword == "null":
                remedy = "Nothing compares with null: write 'column is null'."
            elif self._next.text.lower() == "nan":
                remedy = "Nothing equals NaN: write 'column is nan'."
            elif name := self._next.column_name:
                remedy = f"Text stands in single quotes: {Literal('text', name)}."
            self._fail("a literal", remedy)
        return literal

    def _literal_here(self) -> Literal | None:
        token = self._next
        if token.kind == "text":
            literal = Literal("text", token.text[1:-1].replace("''", "'"))
        elif token.kind == "number":
            literal = Literal("number", token.text)
        elif token.keyword in ("true", "false"):
            literal = Literal("bool", token.keyword)
        else:
            return None
        self._position += 1
        return literal


def fit(literal: Literal, kind: pa.DataType, column: str, ordered: bool) -> pa.Scalar:
    """Convert a literal to the plain type of a column.

    Parameters
    ----------
    literal : Literal
    kind : pyarrow.DataType
        The type of the column in the source.
    column : str
        Its name, for the message.
    ordered : bool
        Whether the comparison is by order, for the message.

    Raises
    ------
    ArgumentError
        If the literal has another kind, is out of range, or lies between two values of the type.
    """
    plain = plain_type(kind)
    if pa.types.is_null(kind):
        return arrow_value(None, plain)
    reason, remedy = "", ""
    try:
        if pa.types.is_boolean(plain):
            return arrow_value(_boolean(literal), plain)
        if literal.kind != "text" and is_textual(plain):
            remedy = f"Write '{literal.value}' in single quotes"
            remedy += ", which compares text: '10' is less than '9'" * ordered
        elif literal.kind == "bool":
            remedy = "Compare with a value of its type"
        elif pa.types.is_integer(plain):
            return arrow_value(_integer(literal.value), plain)
        elif pa.types.is_floating(plain):
            return arrow_value(_float(literal.value, values_type(kind)), plain)
        elif pa.types.is_decimal(plain):
            return pa.scalar(_decimal(literal.value)).cast(plain)
        elif kind == pa.uuid():
            return arrow_value(UUID(str(literal.value)).bytes, pa.binary()).cast(plain)
        elif literal.kind == "text":
            return arrow_value(literal.value, pa.string()).cast(plain)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        reason = f" ({first_line(error).partition(': ')[0]})"
        if pa.types.is_timestamp(plain):
            zone = "Z" if plain.tz else ""
            remedy = f"Write it like '2026-11-19T08:30:00{zone}'"
    raise ArgumentError(
        f"where: column {column!r} is {kind}, and {shorten(str(literal), 60)} is not a value of "
        f"that type{reason}.{f' {remedy}.' * bool(remedy)}"
    )


def _boolean(literal: Literal) -> bool:
    words = {"true": True, "false": False}
    if literal.kind == "number":
        words = {"1": True, "0": False}
    if literal.value.lower() not in words:
        raise ValueError("it is true or false")
    return words[literal.value.lower()]


def _decimal(text: str) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise ValueError("it is not a number")
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not abs(value.adjusted() if value.is_finite() else _EXPONENTS + 1) <= _EXPONENTS:
        raise OverflowError("it is out of range")
    return value


def _integer(text: str) -> int:
    value = _decimal(text)
    if value.adjusted() > _DIGITS:
        raise OverflowError("it is out of range")
    if value != value.to_integral_value():
        raise ValueError("it is not a whole number")
    return int(value)


def _float(text: str, kind: pa.DataType) -> float:
    """Return the nearest float of a number.

    An integer must be exact: else two ids would merge.
    """
    value = _decimal(text)
    nearest = float(value)
    with np.errstate(over="ignore"):
        if pa.types.is_float32(kind):
            nearest = float(np.float32(nearest))
        elif pa.types.is_float16(kind):
            nearest = float(np.float16(nearest))
    if not math.isfinite(nearest):
        raise OverflowError("it is out of range")
    if text.lstrip("+-").isdigit() and nearest != value:
        raise ValueError("it lies between two values")
    return nearest
