"""Select the rows of a source that satisfy a condition.

Conditions such as ``day = '2026-11-19' and slot in (1, 2)`` have this grammar; keywords may be in
upper or lower case::

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
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import partial, reduce
from typing import Any, ClassVar, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval._lib.arrow import (
    arrow_value,
    decode_array,
    is_textual,
    plain_type,
    values_column,
    values_type,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError
from fastrank_eval._lib.lexer import (
    COMPARISON,
    COMPARISONS,
    NUMBER,
    Operation,
    TokenReader,
    leaves,
    shorten,
    token_pattern,
)
from fastrank_eval.io.formats import UNKNOWN, Range, order_key
from fastrank_eval.io.source import (
    Source,
    filter_batch,
    first_line,
    require_columns,
    selected_row,
    type_name,
)

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

    is_condition: ClassVar = True

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
    """A parser of conditions: predicates in place of comparisons of numbers."""

    name = "where"
    pattern = token_pattern(
        "==|!=|<>|<=|>=|[=<>(),]", "(?P<text>'(?:[^']|'')*')", number=rf"[+-]?{NUMBER}"
    )
    expected = "a column, a literal or an operator"
    keywords = frozenset({"and", "or", "not", "in", "between", "is", "null", "true", "false"})
    closing_signs: ClassVar = {"'": "'", '"': '"'}
    max_depth = 50
    closing = "'and', 'or' or ')'"

    def _comparison(self) -> Node:
        if self._is_next("("):
            nested: Node = self._in_parentheses()
            return nested
        literal = self._literal_here()
        if literal is not None:
            operator = self._operator()
            if not operator:
                self._fail(COMPARISON)
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
            self._require("and", "'and' and the upper end")
            node = Operation("and", (low, Predicate(column, "<=", (self._literal(),))))
        elif negated:
            self._fail("in or between")
        elif self._next.kind == "end" or self._next.text == ")" or self._next.keyword:
            node = Predicate(column, "is true")
        else:
            self._fail(f"{COMPARISON}, in, between or is")
        return Operation("not", (node,)) if negated else node

    def _list(self) -> tuple[Literal, ...]:
        self._require("(", "'('")
        literals = [self._literal()]
        while self._skip(","):
            literals.append(self._literal())
        self._require(")", "',' or ')'")
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


#: Possible values of a condition in some rows, as bits of a set.
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
_NULL_BOOLEAN = arrow_value(None, pa.bool_())
_FALSE = arrow_value(False, pa.bool_())


@dataclass(frozen=True)
class _Bound:
    """A predicate with values of the plain type of its column.

    Parameters
    ----------
    column, operator : str
        As of `Predicate`; the operator ``"unknown"`` stands for a column that is not known yet.
    value : pyarrow.Scalar, pyarrow.Array, bool or None
        The value of a comparison, the valid values of ``in``, or for ``is nan`` whether the type
        has NaN.
    keys : list or None
        Their `order_key`, ascending; None if they have no order.
    """

    column: str
    operator: str
    value: Any = None
    keys: list[Any] | None = None


#: A condition with the types of its columns.
Condition: TypeAlias = _Bound | Operation


def bind(node: Node, schema: pa.Schema, partial_schema: bool = False) -> Condition:
    """Convert the literals of a condition to the types of their columns.

    Parameters
    ----------
    node : Node
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
    if isinstance(node, Operation):
        parts = tuple(bind(part, schema, partial_schema) for part in node.parts)
        return Operation(node.operator, parts)
    try:
        require_columns(schema, [node.column], role="where")
        return _bind_predicate(node, schema.field(node.column).type)
    except FastRankEvalError:
        if not partial_schema:
            raise
        return _Bound(node.column, "unknown")


def _bind_predicate(node: Predicate, kind: pa.DataType) -> _Bound:
    name, operator, plain = node.column, node.operator, plain_type(kind)
    if operator == "is null":
        return _Bound(name, operator)
    if operator == "is nan":
        if not (pa.types.is_null(kind) or pa.types.is_decimal(plain) or _has_numbers(plain)):
            raise ArgumentError(
                f"where: column {name!r} is {kind}, which has no NaN; write '{name} is null' for "
                "rows without a value."
            )
        return _Bound(name, operator, pa.types.is_floating(plain))
    if operator == "is true":
        if not pa.types.is_boolean(plain):
            raise ArgumentError(
                f"where: column {name!r} is {kind} and no condition by itself: "
                "compare it with a literal."
            )
        operator, values = "=", [arrow_value(None if pa.types.is_null(kind) else True, plain)]
    else:
        ordered = operator[0] in "<>"
        values = [fit(literal, kind, name, ordered) for literal in node.literals]
    keys = [order_key(value) for value in values if value.is_valid]
    ascending = None if None in keys else sorted(keys)
    if operator != "in":
        return _Bound(name, operator, values[0], ascending)
    if pa.types.is_floating(plain) and 0.0 in keys:
        values += [arrow_value(0.0, plain), arrow_value(-0.0, plain)]  # equal, with other hashes
    array = values_column([value for value in values if value.is_valid], plain)
    return _Bound(name, operator, array, ascending)


def _has_numbers(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _mask(condition: Condition, operand: Callable[[str], Any], exact: bool = False) -> Any:
    """Compute the mask of rows; unless `exact`, false may stand for null.

    `operand` returns a column in its plain type, as an array or as an expression.
    """
    if isinstance(condition, Operation):
        if condition.operator == "not":
            return pc.invert(_mask(condition.parts[0], operand, exact=True))
        join = pc.and_kleene if condition.operator == "and" else pc.or_kleene
        return reduce_balanced(join, [_mask(part, operand, exact) for part in condition.parts])
    column, values = operand(condition.column), condition.value
    if condition.operator == "is null":
        return pc.is_null(column)
    if condition.operator == "is nan":
        if not values:  # a type without NaN: no row
            return pc.and_kleene(pc.is_null(column), pc.is_valid(column))
        return pc.coalesce(pc.is_nan(column), _FALSE)
    if condition.operator != "in":
        return _COMPARE[condition.operator](column, values)
    if pa.types.is_decimal32(values.type) or pa.types.is_decimal64(values.type):
        # Arrow's is_in supports only wider decimals.
        kind = pa.decimal128(values.type.precision, values.type.scale)
        column, values = column.cast(kind), values.cast(kind)
    mask = pc.is_in(column, options=pc.SetLookupOptions(values))
    return pc.if_else(pc.is_valid(column), mask, _NULL_BOOLEAN) if exact else mask


def _outcomes(condition: Condition, ranges: Mapping[str, Range]) -> int:
    """Return the possible values for rows in these ranges, or more."""
    if isinstance(condition, Operation):
        outcomes = [_outcomes(part, ranges) for part in condition.parts]
        if condition.operator == "and":
            return reduce(_and_outcomes, outcomes)
        if condition.operator == "not":
            return _negate_outcomes(outcomes[0])
        return _negate_outcomes(reduce(_and_outcomes, map(_negate_outcomes, outcomes)))
    column, operator = ranges.get(condition.column, UNKNOWN), condition.operator
    if operator == "unknown":
        return ANYTHING
    if operator == "is null":
        return TRUE * column.nulls | FALSE * column.values
    if operator == "is nan":  # statistics ignore NaN
        return TRUE * (condition.value and column.values) | FALSE
    if operator != "in" and not condition.value.is_valid:
        return NULL
    return NULL * column.nulls | (_value_outcomes(condition, column) if column.values else 0)


def _value_outcomes(condition: _Bound, column: Range) -> int:
    """Return the possible values of a comparison or ``in`` for a range."""
    low, high, keys = column.low, column.high, condition.keys
    if low is None or keys is None:
        return TRUE | FALSE
    # NaN may lie outside the range; it satisfies only "!=".
    floating = pa.types.is_floating(condition.value.type)
    if condition.operator in ("=", "!=", "in"):
        holds = bisect_right(keys, high) > bisect_left(keys, low)
        fails = not (holds and low == high) or floating
        if condition.operator == "!=":
            holds, fails = fails, holds
    else:
        (key,) = keys
        holds, fails = {
            "<": (low < key, high >= key),
            "<=": (low <= key, high > key),
            ">": (high > key, low <= key),
            ">=": (high >= key, low < key),
        }[condition.operator]
        fails = fails or floating
    return TRUE * holds | FALSE * fails


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
        Returns the possible values for rows in given ranges, as bits `TRUE`, `FALSE` and
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
                    yield result if rows == len(mask) else filter_batch(result, mask)


@dataclass(frozen=True)
class Where:
    """A condition without the columns of a source.

    Parameters
    ----------
    condition : Node or pyarrow.compute.Expression
        The condition of the user; text is parsed.
    """

    condition: Node | pc.Expression

    def quoted_columns(self, schema: pa.Schema) -> frozenset[str]:
        """Name the columns of numbers that are compared only with text."""
        if isinstance(self.condition, pc.Expression):
            return frozenset()
        kinds: dict[str, set[str]] = {}
        for leaf in leaves(self.condition):
            kinds.setdefault(leaf.column, set()).update(one.kind for one in leaf.literals)
        return frozenset(
            field.name
            for field in schema
            if kinds.get(field.name) == {"text"}
            and (_has_numbers(field.type) or pa.types.is_boolean(field.type))
        )

    def select(self, schema: pa.Schema) -> Selection:
        """Bind the condition to the columns of a source.

        Raises
        ------
        ColumnError
            If a column is missing.
        ArgumentError
            If the condition does not fit the types of its columns.
        """
        condition = self.condition
        if isinstance(condition, pc.Expression):
            columns = _expression_columns(condition, schema)
            return Selection(
                columns,
                lambda batch: _expression_mask(condition, batch.select(list(columns))),
                lambda ranges: ANYTHING,
                condition if _scannable(schema, columns) else None,
            )
        bound = bind(condition, schema)
        columns = tuple(dict.fromkeys(leaf.column for leaf in leaves(condition)))
        expression = None
        if _scannable(schema, columns):

            def column_of(name: str) -> pc.Expression:
                kind = schema.field(name).type
                plain = plain_type(kind)
                return pc.field(name) if kind.equals(plain) else pc.field(name).cast(plain)

            expression = _mask(bound, column_of)
        return Selection(
            columns,
            lambda batch: _mask(bound, lambda name: _plain_array(batch.column(name))),
            partial(_outcomes, bound),
            expression,
        )

    def may_hold(self, schema: pa.Schema, ranges: Mapping[str, Range]) -> bool:
        """Return whether the condition may select rows in these ranges.

        The schema may lack columns.
        """
        if isinstance(self.condition, pc.Expression):
            return True
        return bool(_outcomes(bind(self.condition, schema, partial_schema=True), ranges) & TRUE)

    def apply(self, source: Source) -> Source:
        """Return a source with the selected rows, in their order."""
        selection, reopen = self.select(source.schema), source.as_text

        def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return selection.filter(source.batches(selection.required_columns(columns)), columns)

        again = None if reopen is None else lambda text: self.apply(reopen(text))
        changes = {"rows": None, "edges": None, "input_row": lambda row: row}
        return source.derived(read, locate=selected_row, as_text=again, **changes)


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
        return Where(parse(condition))
    raise ArgumentError(
        f"where: must be text or a pyarrow.compute.Expression, got {type_name(condition)}; pass "
        "one of them."
    )


def _expression_columns(expression: pc.Expression, schema: pa.Schema) -> tuple[str, ...]:
    """Find the columns of an expression: evaluation fails without them.

    pyarrow has no function for this.

    Raises
    ------
    ColumnError
        If a column is missing.
    ArgumentError
        If the expression does not fit the columns, uses a column by index, or is no condition.
    """
    text = str(expression)
    if "FieldPath(" in text:
        raise ArgumentError(f"where={text}: must use column names, not indices.")
    fields = {field.name: field for field in schema if field.name in text}
    try:
        kind = _expression_mask(expression, _empty(fields.values())).type
    except ArgumentError as error:
        missing = re.search(r"No match for FieldRef\.Name\((.*?)\) in", str(error))
        if missing:
            require_columns(schema, [missing[1]], role="where")
        raise
    if not pa.types.is_boolean(kind):
        raise ArgumentError(f"where: must be a condition, got {text}, which is {kind}; compare it.")
    needed = []
    for name in fields:
        others = [field for field in fields.values() if field.name != name]
        try:
            _expression_mask(expression, _empty(others))
        except ArgumentError:
            needed.append(name)
    require_columns(schema, needed, role="where")
    return tuple(needed)


def _expression_mask(expression: pc.Expression, batch: pa.RecordBatch) -> pa.Array:
    """Return the mask of the rows that an expression selects.

    Raises
    ------
    ArgumentError
        If the expression cannot be evaluated.
    """
    from pyarrow import acero

    # Not RecordBatch.filter, which splits the batch over threads.
    table = acero.TableSourceNodeOptions(pa.Table.from_batches([batch]))
    steps = [
        acero.Declaration("table_source", table),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["mask"])),
    ]
    try:
        mask = acero.Declaration.from_sequence(steps).to_table(use_threads=False).column(0)
    except (pa.ArrowException, ValueError, TypeError) as error:
        kinds = ", ".join(f"{column.name!r} is {column.type}" for column in batch.schema)
        raise ArgumentError(
            f"where={expression}: {first_line(error)}. Compare each column with values of its "
            f"type: {kinds}."
        ) from error
    return pa.concat_arrays(mask.chunks) if mask.num_chunks else pa.array([], mask.type)


def _empty(fields: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], pa.schema(list(fields)))


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
    """Decode an array to its plain type."""
    plain, decoded = plain_type(array.type), decode_array(array)
    return decoded if decoded.type.equals(plain) else decoded.cast(plain)
