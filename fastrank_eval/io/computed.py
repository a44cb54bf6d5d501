"""Compute columns, and give each element of lists a row, while reading.

The grammar of scores such as ``ctcvr = pctr * pcvr``; blanks do not matter::

    sum      product {+ - product}
    product  factor {* / factor}
    factor   {+ -} operand
    operand  column | number | ( sum )
    column   name, or "any name" with "" for "
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import column_name, is_text, shown
from fastrank_eval._lib.arrow import (
    arrow_column,
    arrow_value,
    as_array,
    decode_array,
    mask_column,
    null_rows,
    values_type,
    wide,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, ColumnError, FastRankEvalError
from fastrank_eval._lib.lexer import (
    BARE,
    Number,
    Operation,
    TokenReader,
    leaves,
    quoted,
    token_pattern,
)
from fastrank_eval.io.columns import Roles
from fastrank_eval.io.source import (
    COMPUTED,
    Batch,
    Source,
    UnreadBatch,
    refuse_text,
    require_columns,
)

#: Rows that are computed together: their intermediate results fit the cache of a processor.
BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class ComputedColumn:
    """A column that is computed from others.

    Parameters
    ----------
    kind : pyarrow.DataType
    inputs : tuple of str
        Columns of the source.
    compute : callable
        Computes the column of a batch that has the inputs.
    """

    kind: pa.DataType
    inputs: tuple[str, ...]
    compute: Callable[[pa.RecordBatch], pa.Array]


def with_columns(
    source: Source, make_columns: Callable[[Source], Mapping[str, ComputedColumn]]
) -> Source:
    """Add columns that are computed while rows are read.

    Parameters
    ----------
    source : Source
    make_columns : callable
        Returns the columns by new name, or raises. It is called again if a file without types is
        opened again, whose columns may then have other types.

    Returns
    -------
    Source
        Threads that read its batches compute the columns.

    Examples
    --------
    >>> from fastrank_eval.io.reader import open_source
    >>> half = ComputedColumn(pa.float64(), ("x",), lambda batch: batch.column("x").cast("double"))
    >>> source = with_columns(open_source({"x": [1, 2]}), lambda source: {"y": half})
    >>> [batch.to_pydict() for batch in source.batches(["y"])]
    [{'y': [1.0, 2.0]}]
    """
    columns, reopen = make_columns(source), source.as_text
    schema = source.schema
    for name, column in columns.items():
        schema = schema.append(pa.field(name, column.kind, metadata=COMPUTED))

    def read(names: Sequence[str]) -> Iterator[Batch]:
        inputs = chain.from_iterable(
            columns[name].inputs if name in columns else (name,) for name in names
        )
        batches = source.unread_batches(list(dict.fromkeys(inputs)))
        if not columns.keys() & set(names):
            return batches

        def compute(batch: pa.RecordBatch) -> pa.RecordBatch:
            arrays = [
                columns[name].compute(batch) if name in columns else batch.column(name)
                for name in names
            ]
            return pa.RecordBatch.from_arrays(arrays, names=list(names))

        return (_computed_batch(batch, compute) for batch in batches)

    again = None if reopen is None else lambda text: with_columns(reopen(text), make_columns)
    return source.derived(read, schema=schema, as_text=again)


def _computed_batch(
    batch: Batch, compute: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> UnreadBatch:
    """Return a batch whose columns are computed by the thread that reads it."""
    if isinstance(batch, UnreadBatch):
        read_rows = batch.read
        return UnreadBatch(
            batch.row_groups,
            lambda groups, max_rows, threads: map(compute, read_rows(groups, max_rows, threads)),
        )
    starts = range(0, batch.num_rows, BLOCK_ROWS)

    def read(groups: tuple[int, ...], max_rows: int, threads: bool) -> Iterator[pa.RecordBatch]:
        first, end = starts[groups[0]], min(starts[groups[-1]] + BLOCK_ROWS, batch.num_rows)
        for lo in range(first, end, max_rows):
            yield compute(batch.slice(lo, min(max_rows, end - lo)))

    row_groups = ((n, min(BLOCK_ROWS, batch.num_rows - lo)) for n, lo in enumerate(starts))
    return UnreadBatch(tuple(row_groups), read)


#: Longer expressions are mistakes.
_MOST_CHARACTERS = 10_000
_NUMBERS = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)


@dataclass(frozen=True)
class Column:
    """A column of the data in an expression."""

    name: str

    def __str__(self) -> str:
        return self.name if BARE.fullmatch(self.name) else quoted(self.name)


#: An operation is one of ``+ - * /``.
Node: TypeAlias = Column | Number | Operation


def parse(name: str, text: str) -> Node:
    """Parse the expression of a score.

    Parameters
    ----------
    name : str
        Name of the score, for messages.
    text : str

    Returns
    -------
    Node
        `str` of it parses to the same tree.

    Raises
    ------
    ArgumentError
        If the text does not follow the grammar; the message says where and what is expected.

    Examples
    --------
    >>> str(parse("ctcvr", "pctr*(pcvr)"))
    'pctr * pcvr'
    >>> parse("ctcvr", "pctr pcvr")
    Traceback (most recent call last):
    fastrank_eval.ArgumentError: score ctcvr = "pctr pcvr": expected an operator or the end at \
character 6, found pcvr.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ArgumentError(
            f"score: the expression of {name!r} must have at most {_MOST_CHARACTERS:,} characters, "
            f"got {len(text):,}; compute the column before."
        )
    return _Parser(name, text).parse()


class _Parser(TokenReader):
    """A parser of sums and products of columns."""

    pattern = token_pattern("[()+*/-]")
    expected = "a column, a number or an operator"
    max_depth = 30
    nesting: ClassVar = "parentheses and signs"
    closing = "an operator or ')'"
    ending: ClassVar = "an operator or the end"

    def __init__(self, name: str, text: str) -> None:
        self.name = f"score {Column(name)} ="
        super().__init__(text)

    def parse(self) -> Node:
        node: Node = super().parse()
        if not columns_of(node):
            self._refuse("it has no column.", "Name one.")
        return node

    def _atom(self) -> Node:
        token = self._next
        if not token.column_name:
            self._fail("a column, a number, a sign or '('")
        self._position += 1
        return Column(token.column_name)


def columns_of(node: Node) -> list[str]:
    """List the columns of an expression, each once."""
    return list(dict.fromkeys(leaf.name for leaf in leaves(node) if isinstance(leaf, Column)))


def expressions_of(score: object) -> dict[str, str]:
    """Return the expressions of the computed scores of an argument ``score``.

    Parameters
    ----------
    score : str, sequence of str, or mapping of str to str

    Returns
    -------
    dict of str to str
        Expressions by name; a score that is a column of its own name is left out.

    Raises
    ------
    ArgumentError
        If an expression is no text, or cannot be parsed.

    Examples
    --------
    >>> expressions_of({"pctr": "pctr", "ctcvr": "pctr*pcvr"})
    {'ctcvr': 'pctr * pcvr'}
    """
    if not isinstance(score, Mapping):
        return {}
    nodes = {}
    for name, text in score.items():
        column_name("score", name)
        if not is_text(text):
            raise ArgumentError(
                f"score: must be an expression for each name, got {shown(text)} for {name!r}; pass "
                "text, such as 'pctr * pcvr'."
            )
        nodes[name] = parse(name, text)
    return {name: str(node) for name, node in nodes.items() if node != Column(name)}


def input_columns(names: Iterable[str], expressions: Mapping[str, str]) -> list[str]:
    """Replace the names of computed columns by those that they read."""
    columns: dict[str, None] = {}
    for name in names:
        expression = expressions.get(name)
        read = [name] if expression is None else columns_of(parse(name, expression))
        columns |= dict.fromkeys(read)
    return list(columns)


def refuse_computed(roles: Roles) -> None:
    """Raise if a computed score has another role too.

    Raises
    ------
    ArgumentError
    """
    for name, role in replace(roles, scores=()).by_column().items():
        if name in roles.expressions:
            title = "slice or field" if role == "field" else role
            raise ArgumentError(
                f"{title}: must be a column of the data, got {name!r}, which is the score "
                f"{roles.expressions[name]}; name a column, or write the score to one."
            )


def _merged(every: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the expressions of all runs over the same rows."""
    merged: dict[str, str] = {}
    for expressions in every:
        for name, text in expressions.items():
            if merged.setdefault(name, text) != text:
                raise ArgumentError(
                    f"score: must have one expression for {name!r}, got {merged[name]} and "
                    f"{text}; choose another name for one."
                )
    return merged


def with_computed(source: Source, *every: Mapping[str, str]) -> Source:
    """Add columns that are computed while rows are read.

    Parameters
    ----------
    source : Source
    every : mapping of str to str
        For each run, expressions by the name of the new column. A column alone keeps its type;
        everything else is computed in float64, with null where a column is null.

    Returns
    -------
    Source
        Threads that read its batches compute the columns.

    Raises
    ------
    ArgumentError
        If the source has a column of a new name, or runs have different expressions of a name.
    ColumnError
        If an expression reads a column that is missing, or that has no numbers.
    """
    expressions = _merged(every)
    if not expressions:
        return source
    nodes = {name: parse(name, text) for name, text in expressions.items()}

    def make_columns(source: Source) -> dict[str, ComputedColumn]:
        for name, node in nodes.items():
            if name in source.schema.names:
                raise ArgumentError(
                    f"score: must have a new name for {expressions[name]}, got {name!r}, which is "
                    "a column of the data; choose another name."
                )
            _check_columns(name, node, source, expressions)
        return {name: _score_column(node, source) for name, node in nodes.items()}

    return with_columns(source, make_columns)


def _check_columns(name: str, node: Node, source: Source, expressions: Mapping[str, str]) -> None:
    """Raise if an expression reads a column that is missing or has no numbers."""
    role = f"score {Column(name)}"
    for column in columns_of(node):
        if column in expressions and column not in (name, *source.schema.names):
            raise ArgumentError(
                f"{role}: must be computed from columns of the data, got {column!r}, which is the "
                f"score {expressions[column]}; write that in parentheses instead."
            )
        require_columns(source.schema, [column], role=role)
        refuse_text(source, column, role)
        kind = values_type(source.schema.field(column).type)
        if not (isinstance(node, Column) or any(is_kind(kind) for is_kind in _NUMBERS)):
            remedy = "cast it to float64" if pa.types.is_decimal(kind) else "leave it out"
            raise ColumnError(
                f"{role}: must be computed from integers, floats or booleans, got {column!r} of "
                f"type {kind}; {remedy}."
            )


def _score_column(node: Node, source: Source) -> ComputedColumn:
    """Return the column of an expression."""
    if isinstance(node, Column):
        kind = source.schema.field(node.name).type
        return ComputedColumn(kind, (node.name,), lambda batch: batch.column(node.name))
    names = tuple(columns_of(node))

    def compute(batch: pa.RecordBatch) -> pa.Array:
        columns = {name: decode_array(batch.column(name)) for name in names}
        parts = []
        for lo in range(0, max(batch.num_rows, 1), BLOCK_ROWS):
            # Nearest doubles, also of integers beyond 2^53.
            doubles = {
                name: column.slice(lo, BLOCK_ROWS).cast(pa.float64(), safe=False)
                for name, column in columns.items()
            }
            parts.append(_values(node, doubles))
        return pa.concat_arrays(parts)

    return ComputedColumn(pa.float64(), names, compute)


def _values(node: Node, doubles: Mapping[str, pa.Array]) -> Any:
    """Compute an expression from columns of doubles."""
    import pyarrow.compute as pc

    if isinstance(node, Number):
        return arrow_value(node.value, pa.float64())
    if isinstance(node, Column):
        return doubles[node.name]
    parts = [_values(part, doubles) for part in node.parts]
    if len(parts) == 1:
        return pc.negate(*parts)
    functions = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
    return functions[node.operator](*parts)


#: Elements of a batch.
_ELEMENTS = 1 << 20


def unnested(
    source: Source,
    lists: Sequence[str],
    position: str | None = None,
    empty: Callable[[pa.RecordBatch], object] | None = None,
) -> Source:
    """Return a source with a row for each element of list columns.

    Other columns repeat their value. The elements of a row stand next to each other.

    Parameters
    ----------
    source : Source
    lists : sequence of str
        Columns of lists, equally long in each row. Structs give a column for each field. A name
        that is there twice then is refused by who asks for it.
    position : str, optional
        The name of the position of each element in its list, from 1, if no column has it.
    empty : callable, optional
        Gets the rows whose lists are empty, while they are read.

    Raises
    ------
    ColumnError
        While reading, if a list is null, or lists of one row are not equally long.
    """
    #: The columns of the result, and by name the column that each comes from.
    fields: list[pa.Field] = []
    origin: dict[str, str] = {}
    for field in source.schema:
        kind = values_type(field.type)
        kind = kind.value_type if field.name in lists else kind
        is_struct = field.name in lists and pa.types.is_struct(kind)
        parts = list(kind) if is_struct else [field.with_type(kind)]
        fields += parts
        origin.update((part.name, field.name) for part in parts)
    if position is not None and position not in origin:
        fields.append(pa.field(position, pa.int64()))
    else:
        position = None
    is_clear = len({field.name for field in fields}) == len(fields)

    def rows(batch: pa.RecordBatch, lengths: np.ndarray) -> pa.RecordBatch:
        parents = arrow_column(np.repeat(np.arange(len(lengths)), lengths))
        columns: dict[str, pa.Array] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name not in lists:
                columns[name] = wide(decode_array(column)).take(parents)
                continue
            values = decode_array(column).flatten()
            if pa.types.is_struct(values.type):
                names = [part.name for part in values.type]
                columns.update(zip(names, values.flatten(), strict=True))
            else:
                columns[name] = values
        if position is not None:
            starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
            columns[position] = arrow_column(np.arange(1, len(starts) + 1) - starts)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        asked = [origin[name] for name in columns if name != position]
        first = 0
        # At least one list says how many rows there are.
        for batch in source.batches(list(dict.fromkeys([*asked, *lists]))):
            lengths = _lengths(batch, lists, source.name, first)
            if empty is not None and not lengths.all():
                empty(batch.filter(mask_column(lengths == 0)))
            step = max(1, len(lengths) * _ELEMENTS // max(int(lengths.sum()), 1))
            for start in range(0, len(lengths), step):
                part = rows(batch.slice(start, step), lengths[start : start + step])
                yield part.select(list(columns))
            first += len(lengths)

    def locate(row: int) -> str:
        first, element = 0, row
        with suppress(FastRankEvalError):
            for batch in source.batches(lists[:1]) if source.rereadable else ():
                ends = np.cumsum(_lengths(batch, lists[:1], source.name, first))
                if element < ends[-1]:
                    index = int(np.searchsorted(ends, element, "right"))
                    element -= int(ends[index - 1]) if index else 0
                    place = source.locate(first + index)
                    place = place or f"row {first + index:,} of {source.name}"
                    return f"element {element:,} of the lists in {place} (elements count as rows)"
                first, element = first + len(ends), element - int(ends[-1])
        return f"element {row:,} of all lists (elements count as rows)"

    return source.derived(
        read,
        name=source.name if is_clear else f"{source.name} and the fields of its lists",
        schema=pa.schema(fields),
        rows=None,
        as_text=None,
        locate=locate,
        input_row=lambda row: row,
    )


def _lengths(batch: pa.RecordBatch, lists: Sequence[str], source: str, first: int) -> np.ndarray:
    """Return the length of the lists of each row, which are equally long."""
    found: dict[str, np.ndarray] = {}
    for name in lists:
        column = decode_array(batch.column(name))
        if column.null_count:
            row = first + int(null_rows(column).argmax())
            raise ColumnError(
                f"Column {name!r} of {source} has no list in row {row:,} (counted from 0): write "
                "an empty list, or leave the row out."
            )
        found[name] = as_array(column.value_lengths()).astype(np.int64)
        differs = found[name] != found[lists[0]]
        if differs.any():
            row = int(differs.argmax())
            raise ColumnError(
                f"Column {name!r} of {source} has a list of {found[name][row]:,} in row "
                f"{first + row:,} (counted from 0), and {lists[0]!r} has one of "
                f"{found[lists[0]][row]:,}: the lists of a row must be equally long."
            )
    return found[lists[0]]
