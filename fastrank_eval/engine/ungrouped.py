"""Compute states of measures of all rows, without groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import (
    CHOICES,
    at_least_one,
    check_choice,
    column_name,
    column_names,
    processors,
    typed,
)
from fastrank_eval._lib.threads import Progress, map_jobs, reporting_to
from fastrank_eval.engine.plan import batch_rows_of
from fastrank_eval.groups.chunk import Chunk, Scored
from fastrank_eval.groups.labels import Labels
from fastrank_eval.io import Source, open_source, refuse_text, require_columns
from fastrank_eval.io.columns import Roles
from fastrank_eval.io.numbers import RowError, complete_error
from fastrank_eval.io.reader import RowReader, WorkBatch, in_scratch, read_batch, rebatch
from fastrank_eval.io.validate import columns_of
from fastrank_eval.measures.auc import PooledAUC
from fastrank_eval.measures.base import SCORE_KINDS
from fastrank_eval.measures.pooled import PooledMeasure
from fastrank_eval.stats.score_table import ScoreTable

if TYPE_CHECKING:
    import pyarrow.compute as pc

_COUNTING = "counting bad rows"


@typed
def states_of(
    source: object,
    measures: Sequence[PooledMeasure],
    *,
    label: str,
    score: str | Sequence[str],
    weight: str | None = None,
    unretrieved: str = "error",
    unjudged: str = "error",
    score_type: str = "given",
    where: str | pc.Expression | None = None,
    limit: int | None = None,
    threads: int | None = None,
    format: str | None = None,  # noqa: A002 - what the option is called everywhere
    allow_unfinished: bool = False,
    progress: Callable[[Progress], object] | None = None,
) -> dict[str, list[Any]]:
    """Compute the state of each measure over all rows, without groups.

    Parameters
    ----------
    source : object
        As `evaluate` takes it.
    measures : sequence of PooledMeasure
    label, score, weight, unretrieved, unjudged, score_type, where, limit, threads, format
        As `evaluate` takes them.
    allow_unfinished, progress
        As `evaluate` takes them.

    Returns
    -------
    dict of str to list
        For each score column the states, in the order of the measures.

    Raises
    ------
    FastRankEvalError
        As `evaluate` does.
    """
    choices = {"unretrieved": unretrieved, "unjudged": unjudged, "score_type": score_type}
    for name, value in choices.items():
        check_choice(name, value, CHOICES[name])
    roles = Roles(
        group=(),
        label=column_name("label", label),
        scores=column_names("score", score),
        weight=None if weight is None else column_name("weight", weight),
        unretrieved=unretrieved,
        unjudged=unjudged,
        single_precision=score_type == "float32",
        score_kind=max((m.scores for m in measures), key=SCORE_KINDS.index),
    )
    workers = at_least_one("threads", threads, processors())
    opened = open_source(source, format=format, where=where, allow_unfinished=allow_unfinished)
    states = {
        name: [m.new_state(roles.weight is not None, workers) for m in measures]
        for name in roles.scores
    }

    def add(batch: pa.RecordBatch, first_row: int) -> None:
        columns = columns_of(batch, roles, first_row)
        starts = np.array([0, columns.rows])
        labels = Labels.of(columns.label, starts, skip_empty=False)
        for model, name in enumerate(roles.scores):
            scored = Scored.of(Chunk(columns, starts, grouped=False), model, labels)
            for m, state in zip(measures, states[name], strict=True):
                m.add_rows(state, scored)

    with reporting_to(progress):
        each_work_batch(opened, roles.by_column(), add, limit=limit, threads=workers)
    return states


def each_work_batch(
    source: Source,
    role_names: Mapping[str, str],
    process: Callable[[pa.RecordBatch, int], None],
    *,
    limit: int | None,
    threads: int,
    rows: Callable[[int], int] = int,
    categories: Sequence[str] = (),
) -> None:
    """Read some columns once, in threads, batch by batch.

    Parameters
    ----------
    source : Source
    role_names : mapping of str to str
        The role of each column, for messages.
    process : callable
        Takes the rows of a batch and the number of the first. The rows are overwritten after the
        call. Threads call it at the same time.
    limit : int or None
        Rows to stop after.
    threads : int
    rows : callable
        Maps the usual number of rows of a batch to the number to read.
    categories : sequence of str
        The columns that may be text.

    Raises
    ------
    FastRankEvalError
        As `evaluate` does.
    """
    for name, role in role_names.items():
        require_columns(source.schema, [name], role=role)
        if name not in categories:
            refuse_text(source, name, role)
    reading = RowReader(source, tuple(role_names), at_least_one("limit", limit, None, math.inf))

    def process_job(job: WorkBatch) -> None:
        process(in_scratch(read_batch(job[0])), job[1])

    size = rows(batch_rows_of(reading.rows, threads))
    try:
        for _ in map_jobs(threads, process_job, rebatch(reading.unread_batches(size), size)):
            pass
    except RowError as error:

        def reread(columns: tuple[str, ...]) -> Any:
            return RowReader(source, columns, reading.limit, _COUNTING).batches()

        raise complete_error(error, source, reread) from None


def score_tables(
    source: object,
    *,
    label: str,
    score: str | Sequence[str],
    rel: float = 1,
    threads: int | None = None,
    **options: Any,
) -> dict[str, ScoreTable]:
    """Count the positive and other rows of each distinct score of each model.

    Parameters
    ----------
    source, label, score, threads, **options
        As `states_of` takes them.
    rel : float
        The least label of a positive row.

    Returns
    -------
    dict of str to ScoreTable
        In the order of the score columns.
    """
    measure = _NumberAUC(rel=rel)
    states = states_of(source, [measure], label=label, score=score, threads=threads, **options)
    jobs = partial(map_jobs, at_least_one("threads", threads, processors()))
    return {name: state.table(jobs) for name, (state,) in states.items()}


class _NumberAUC(PooledAUC):
    """AUC whose state keeps scores as numbers."""

    scores = "number"
