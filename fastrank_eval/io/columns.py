"""The rows of a stretch of input as contiguous, read-only views, and the parts columns play."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.jit import scratch

if TYPE_CHECKING:
    from fastrank_eval.io.keys import CodedColumn


@dataclass(frozen=True, slots=True)
class Roles:
    """Which column plays which part, and which nulls are allowed.

    Parameters
    ----------
    group : tuple of str
        The key columns; rows that agree in all of them form one group.
    label : str
        The grade, gain or click.
    scores : tuple of str
        One column a model.
    weight : str or None
        Row weight.
    item : str or None
        Item (document) id, for ``ties="item"``.
    group_weights : tuple of str
        Columns that measures name as group weights.
    fields : tuple of CodedColumn
        Columns whose values measures tell apart.
    unretrieved : str
        ``"error"`` or ``"allow"``: what a null score means.
    unjudged : str
        ``"error"``, ``"allow"`` or ``"drop"``: what a null label means.
    judgments : bool
        Whether a measure tells rows that nobody judged from rows of label 0.
    single_precision : bool
        Scores are rounded to float32 before they are compared.
    score_kind : str
        What measures take scores for: an ``"order"``, a ``"number"``, or a ``"probability"``.
    subtopics : str or None
        What each row covers, where a measure asks.
    epsilons : tuple of float
        Epsilon of the type of each score column, once the source is open.
    """

    group: tuple[str, ...]
    label: str
    scores: tuple[str, ...]
    weight: str | None = None
    item: str | None = None
    group_weights: tuple[str, ...] = ()
    fields: tuple[CodedColumn, ...] = ()
    unretrieved: str = "error"
    unjudged: str = "error"
    judgments: bool = False
    single_precision: bool = False
    score_kind: str = "order"
    subtopics: str | None = None
    epsilons: tuple[float, ...] = ()

    def ids(self) -> tuple[str, ...]:
        """The columns of groups and items, which are text where a file has no types."""
        return tuple(dict.fromkeys((*self.group, *([] if self.item is None else [self.item]))))

    def numbers(self) -> dict[str, str]:
        """Each column of numbers with a part that it plays."""
        parts = dict.fromkeys(self.group_weights, "group weight")
        if self.weight is not None:
            parts[self.weight] = "weight"
        return parts | dict.fromkeys(self.scores, "score") | {self.label: "label"}

    def by_column(self) -> dict[str, str]:
        """Each needed column with the part it plays, in reading order."""
        parts: dict[str, str] = {}
        for name in self.group:
            parts.setdefault(name, "group")
        parts.setdefault(self.label, "label")
        for name in self.scores:
            parts.setdefault(name, "score")
        if self.weight is not None:
            parts.setdefault(self.weight, "weight")
        if self.item is not None:
            parts.setdefault(self.item, "item")
        for name in self.group_weights:
            parts.setdefault(name, "group weight")
        if self.subtopics is not None:
            parts.setdefault(self.subtopics, "subtopics")
        for field in self.fields:
            parts.setdefault(field.name, "field")
        return parts


@dataclass(frozen=True, slots=True)
class Columns:
    """The rows of one stretch of input.

    Parameters
    ----------
    first_row : int
        Number of the first row in the whole input, counted from 0.
    keys : tuple of pyarrow.Array
        Key columns, without nulls.
    label : ndarray, shape (rows,)
        Grades in their own integer type, float32 or float64; 0 where unjudged.
    scores : tuple of ndarray, shape (rows,)
        float32 or float64, order and ties exactly those of the input; 0 where unretrieved.
    unretrieved : tuple of (ndarray of bool or None)
        Rows without a score, per model; None where every row has one.
    weight : ndarray of float64 or None
        Row weights, finite and not negative.
    item : pyarrow.Array or None
        Item ids.
    named : tuple of ndarray of float64 or int32
        Columns that measures name: group weights, then the codes of fields.
    numbers : ndarray of int64 or None
        Number of each row in the whole input, where rows were left out.
    unjudged : ndarray of bool or None
        Rows without a label, where a measure asks; None where every row has one.
    subtopics : ndarray of uint64 or None
        Bit s is set where the row covers subtopic s; None where no measure asks.
    """

    first_row: int
    keys: tuple[pa.Array, ...]
    label: np.ndarray
    scores: tuple[np.ndarray, ...]
    unretrieved: tuple[np.ndarray | None, ...]
    weight: np.ndarray | None
    item: pa.Array | None
    named: tuple[np.ndarray, ...]
    numbers: np.ndarray | None = None
    unjudged: np.ndarray | None = None
    subtopics: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.label)

    def slice(self, lo: int, hi: int) -> Columns:
        """Rows `lo` to `hi` of this stretch, without copying."""
        return self._each(
            lambda part: part[lo:hi], lambda part: part.slice(lo, hi - lo), self.first_row + lo
        )

    def take(self, rows: np.ndarray, use: str | None = None) -> Columns:
        """The given rows, in that order, without keys.

        Parameters
        ----------
        rows : ndarray of int64
        use : str, optional
            They lie in scratch of that name, which the thread's next call overwrites; by default
            in memory of their own.
        """
        wanted, part_numbers = row_column(rows), count()

        def array(part: np.ndarray) -> np.ndarray:
            if use is None:
                return frozen(part[rows])
            room = scratch(f"{use} {next(part_numbers)}", len(rows), part.dtype)
            # Row numbers are known to be right: looking at them first would take as long again.
            return frozen(np.take(part, rows, out=room, mode="clip"))

        return self.without_keys()._each(array, lambda part: part.take(wanted), self.first_row)

    def copy(self) -> Columns:
        """The same rows in memory of their own."""
        rows = row_column(np.arange(self.rows))
        return self._each(
            lambda part: frozen(part.copy()), lambda part: part.take(rows), self.first_row
        )

    def only(self, kept: np.ndarray) -> Columns:
        """The rows that a mask keeps, with their keys; they remember their numbers."""
        rows = np.flatnonzero(kept)
        wanted = row_column(rows)
        columns = self._each(
            lambda part: frozen(part[rows]), lambda part: part.take(wanted), self.first_row
        )
        return replace(columns, numbers=self.first_row + rows)

    def parts(self) -> list[np.ndarray | None]:
        """Every part but keys and item ids, in the order of the fields, numbers last."""
        return [
            self.label,
            *self.scores,
            *self.unretrieved,
            self.weight,
            *self.named,
            self.subtopics,
            self.unjudged,
            self.numbers,
        ]

    @classmethod
    def of_parts(
        cls, parts: Sequence[np.ndarray | None], models: int, item: pa.Array | None
    ) -> Columns:
        """Rows without keys from what `parts` lists, for so many models."""
        scores, masks = tuple(parts[1 : 1 + models]), tuple(parts[1 + models : 1 + 2 * models])
        label, weight = parts[0], parts[1 + 2 * models]
        named = tuple(parts[2 + 2 * models : -3])
        subtopics, unjudged, numbers = parts[-3:]
        return cls(0, (), label, scores, masks, weight, item, named, numbers, unjudged, subtopics)  # type: ignore[arg-type]

    def without_keys(self) -> Columns:
        """The same rows without their keys, once the group is known."""
        return Columns(
            self.first_row,
            (),
            self.label,
            self.scores,
            self.unretrieved,
            self.weight,
            self.item,
            self.named,
            self.numbers,
            self.unjudged,
            self.subtopics,
        )

    def _each(
        self,
        array: Callable[[np.ndarray], np.ndarray],
        column: Callable[[pa.Array], pa.Array],
        first_row: int,
    ) -> Columns:
        """Every part through a function, in the order of the fields."""
        return Columns(
            first_row,
            tuple(column(key) for key in self.keys),
            array(self.label),
            tuple(array(score) for score in self.scores),
            tuple(None if mask is None else array(mask) for mask in self.unretrieved),
            None if self.weight is None else array(self.weight),
            None if self.item is None else column(self.item),
            tuple(array(column) for column in self.named),
            None if self.numbers is None else array(self.numbers),
            None if self.unjudged is None else array(self.unjudged),
            None if self.subtopics is None else array(self.subtopics),
        )

    def earliest(self, starts: np.ndarray) -> np.ndarray:
        """Number in the whole input of each group's first row, groups between `starts`."""
        if self.numbers is None:
            return self.first_row + starts[:-1]
        earliest: np.ndarray = np.minimum.reduceat(self.numbers[: starts[-1]], starts[:-1])
        return earliest

    def number_of(self, row: int) -> int:
        """Number of a row in the whole input."""
        return self.first_row + row if self.numbers is None else int(self.numbers[row])


def concatenate(pieces: Sequence[Columns]) -> Columns:
    """Several stretches as one; where rows lie between them, rows remember their numbers."""
    if len(pieces) == 1:
        return pieces[0]
    first = pieces[0]

    def joined(parts: Iterable[Any]) -> np.ndarray:
        return frozen(np.concatenate(list(parts)))

    def joined_masks(masks: Sequence[np.ndarray | None]) -> np.ndarray | None:
        if all(mask is None for mask in masks):
            return None
        pairs = zip(pieces, masks, strict=True)
        return joined(np.zeros(p.rows, np.bool_) if mask is None else mask for p, mask in pairs)

    def by_position(parts: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        return zip(*parts, strict=True)

    numbers = None
    ends = [piece.first_row + piece.rows for piece in pieces]
    if any(piece.numbers is not None for piece in pieces) or any(
        end != piece.first_row for end, piece in zip(ends, pieces[1:], strict=False)
    ):
        numbers = joined(
            piece.first_row + np.arange(piece.rows) if piece.numbers is None else piece.numbers
            for piece in pieces
        )
    return Columns(
        first.first_row,
        tuple(pa.concat_arrays(keys) for keys in by_position(piece.keys for piece in pieces)),
        joined(piece.label for piece in pieces),
        tuple(joined(scores) for scores in by_position(piece.scores for piece in pieces)),
        tuple(joined_masks(masks) for masks in by_position(p.unretrieved for p in pieces)),
        None if first.weight is None else joined(piece.weight for piece in pieces),
        None if first.item is None else pa.concat_arrays([piece.item for piece in pieces]),
        tuple(joined(columns) for columns in by_position(p.named for p in pieces)),
        numbers,
        joined_masks([piece.unjudged for piece in pieces]),
        None if first.subtopics is None else joined(piece.subtopics for piece in pieces),
    )
