"""Batches whose groups are contiguous -> chunks of whole groups.

Batches are cut into stretches of rows. A worker validates a stretch, finds the groups in it and
evaluates those that lie wholly inside. The rows before its first edge and after its last belong to
groups that span stretches, seams: they are put together and evaluated, many at a time, as chunks of
their own. Memory is bounded by a few stretches and the largest group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from fastrank_eval.columns import Columns, columns_of, concatenate
from fastrank_eval.engine import Workers, evaluate_chunk
from fastrank_eval.errors import OrderError
from fastrank_eval.groups import KeyRun, Keys, KeyWatch, group_starts, key_run, same_key
from fastrank_eval.plan import GroupValues, Plan, Tally
from fastrank_eval.ranking import Chunk

#: Groups that span stretches wait until there are this many.
_SEAMS = 256


@dataclass(slots=True)
class Piece:
    """Results of consecutive groups, or a place kept for one group that spans stretches."""

    keys: Keys
    values: GroupValues | None


@dataclass(slots=True)
class Outcome:
    """What a worker makes of one stretch.

    Parameters
    ----------
    head : Columns
        Rows before the first edge: the whole stretch, if it has none.
    inside : Piece or None
        Groups that begin and end inside.
    tail : Columns or None
        Rows from the last edge on; None if there is no edge.
    run : KeyRun or None
        Keys of the groups that begin at an edge, the tail's included.
    """

    head: Columns
    inside: Piece | None = None
    tail: Columns | None = None
    run: KeyRun | None = None


def evaluate_stream(
    batches: Iterable[pa.RecordBatch], plan: Plan, keep_keys: bool
) -> tuple[Tally, list[Piece]]:
    """Evaluate batches whose groups are contiguous.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
    plan : Plan
    keep_keys : bool
        Keep every key, because the input cannot be read a second time.

    Returns
    -------
    Tally, list of Piece
        Sums, and the results of the groups in order (empty unless ``plan.per_group``).

    Raises
    ------
    ReturningKey
        A group came back after another.
    """
    workers = Workers(plan)
    watch = KeyWatch(keep_keys)
    pieces: list[Piece] = []
    open_rows: list[Columns] = []
    seams: list[tuple[list[Columns], Piece]] = []
    seam_rows = 0

    def look(job: tuple[pa.RecordBatch, int]) -> Outcome:
        columns = columns_of(job[0], plan.roles, job[1])
        starts = group_starts(columns.keys) if columns.rows else np.empty(0, np.int64)
        if not len(starts):
            return Outcome(columns)
        lo, hi = int(starts[0]), int(starts[-1])
        edges = pa.array(starts)
        keys = tuple(key.take(edges) for key in columns.keys)
        run = key_run(keys, keep_keys)
        inside = None
        if len(starts) > 1:
            keys = tuple(key.slice(0, len(starts) - 1) for key in keys)
            chunk = Chunk(columns.slice(lo, hi).without_keys(), starts - lo)
            values = evaluate_chunk(chunk, plan, workers.tally(), lambda: keys)
            inside = Piece(keys, values) if plan.per_group else None
        return Outcome(columns.slice(0, lo), inside, columns.slice(hi, columns.rows), run)

    def close() -> None:
        nonlocal seam_rows
        if not open_rows:
            return
        piece = Piece(tuple(key.slice(0, 1) for key in open_rows[0].keys), None)
        if plan.per_group:
            pieces.append(piece)
        seams.append(([part.without_keys() for part in open_rows], piece))
        seam_rows += sum(part.rows for part in open_rows)
        open_rows.clear()
        if len(seams) >= _SEAMS or seam_rows >= plan.stretch:
            flush()

    def flush() -> None:
        nonlocal seam_rows
        if not seams:
            return
        lengths = [sum(part.rows for part in parts) for parts, _ in seams]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        columns = concatenate([part for parts, _ in seams for part in parts])
        keys = tuple(
            pa.concat_arrays(list(column))
            for column in zip(*(piece.keys for _, piece in seams), strict=True)
        )
        try:
            values = evaluate_chunk(Chunk(columns, starts), plan, workers.tally(), lambda: keys)
        except OrderError:
            # Rows of different seams do not follow one another: one at a time, numbers are right.
            for parts, piece in seams:
                alone = concatenate(parts)
                whole = Chunk(alone, np.array([0, alone.rows]))
                evaluate_chunk(whole, plan, Tally(plan), lambda: piece.keys)  # noqa: B023
            raise
        if plan.per_group:
            for g, (_, piece) in enumerate(seams):
                piece.values = GroupValues(
                    values.rows[g : g + 1],
                    values.positives[g : g + 1],
                    values.values[:, :, g : g + 1],
                )
        seams.clear()
        seam_rows = 0

    for outcome in workers.in_order(look, _stretches(batches, plan.stretch)):
        head = outcome.head
        if not head.rows:
            continue
        if not (open_rows and same_key(open_rows[0].keys, 0, head.keys, 0)):
            close()
            watch.add(key_run(tuple(key.slice(0, 1) for key in head.keys), keep_keys))
        open_rows.append(head)
        if outcome.tail is None:
            continue
        close()
        watch.add(cast(KeyRun, outcome.run))
        if outcome.inside is not None:
            pieces.append(outcome.inside)
        open_rows.append(outcome.tail)
    close()
    flush()
    watch.finish()
    return workers.merged(), pieces


def _stretches(
    batches: Iterable[pa.RecordBatch], stretch: int
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Cut long batches and join short ones, with the number of each stretch's first row."""
    first_row = 0
    short: list[pa.RecordBatch] = []
    for batch in batches:
        short.append(batch)
        if sum(part.num_rows for part in short) < stretch // 2:
            continue
        batch = _joined(short)
        short = []
        for lo in range(0, batch.num_rows, stretch):
            yield batch.slice(lo, stretch), first_row + lo
        first_row += batch.num_rows
    if short:
        yield _joined(short), first_row


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
