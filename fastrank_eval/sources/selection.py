"""The rows of a source that a condition selects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval import where
from fastrank_eval.errors import ArgumentError
from fastrank_eval.sources.conditions import ANYTHING, TRUE, bind
from fastrank_eval.sources.expressions import (
    expression_columns,
    expression_mask,
    expression_outcomes,
)
from fastrank_eval.sources.literals import plain_type
from fastrank_eval.sources.ranges import Range
from fastrank_eval.sources.reading import type_name
from fastrank_eval.sources.source import Source, selected_row
from fastrank_eval.sources.spelling import Spelling

__all__ = ["Selection", "Where", "condition_of"]

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

    given: where.Node | pc.Expression

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
        return Where(where.parse(given))
    raise ArgumentError(
        f"where={given!r} is {type_name(given)}: pass text, or a pyarrow.compute.Expression."
    )


def _columns(node: where.Node) -> Iterator[str]:
    if isinstance(node, where.Not):
        yield from _columns(node.part)
    elif isinstance(node, where.And | where.Or):
        for part in node.parts:
            yield from _columns(part)
    else:
        yield node.column


def _equal_texts(node: where.Node) -> Iterator[tuple[str, str]]:
    """Columns and the texts that they are found equal to, or not."""
    if isinstance(node, where.Not):
        yield from _equal_texts(node.part)
    elif isinstance(node, where.And | where.Or):
        for part in node.parts:
            yield from _equal_texts(part)
    elif isinstance(node, where.Among):
        yield from ((node.column, each.value) for each in node.literals if each.kind == "text")
    elif isinstance(node, where.Comparison) and (node.operator, node.literal.kind) in _EQUAL_TEXT:
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
