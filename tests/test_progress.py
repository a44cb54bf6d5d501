"""Progress: what a run tells of itself, and to whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.progress import report, reporting_to

ROWS = {
    "user": [1, 1, 1, 2, 2, 3],
    "click": [1, 0, 0, 0, 1, 0],
    "pctr": [0.9, 0.5, 0.1, 0.8, 0.7, 0.3],
}
TABLE = pa.table(ROWS)


def reader(table: pa.Table = TABLE, rows: int = 2) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(rows))


def evaluate(source: Any, **options: Any) -> fe.Result:
    options = {"group": "user", "label": "click", "score": "pctr", "measures": "GAUC", **options}
    return fe.evaluate(source, **options)


def told(source: Any, **options: Any) -> list[fe.Progress]:
    heard: list[fe.Progress] = []
    evaluate(source, progress=heard.append, **options)
    return heard


@pytest.fixture
def never_resting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every report is passed on."""
    monkeypatch.setattr("fastrank_eval.progress.INTERVAL", 0)


def rows_told(source: Any, **options: Any) -> list[tuple[int, int | None]]:
    heard = told(source, **options)
    assert {progress.phase for progress in heard} == {"reading"}
    return [(progress.rows, progress.total) for progress in heard]


# ---- what is told --------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["auto", "sorted", "grouped", "scattered"])
@pytest.mark.parametrize("threads", [1, 3])
def test_progress__any_way_in__is_told_beginning_and_end(order: str, threads: int) -> None:
    heard = told(TABLE, order=order, threads=threads)
    assert heard[0] == fe.Progress("reading", 0, 6)
    assert heard[-1] == fe.Progress("reading", 6, 6)


@pytest.mark.usefixtures("never_resting")
def test_progress__each_batch__is_told_once_taken() -> None:
    assert rows_told(reader()) == [(0, None), (2, None), (4, None), (6, None), (6, 6)]


@pytest.mark.usefixtures("never_resting")
def test_progress__one_long_batch__is_told_in_stretches() -> None:
    assert rows_told(TABLE, batch_rows=4) == [(0, 6), (4, 6), (6, 6)]


@pytest.mark.parametrize("limit, total", [(4, 4), (6, 6), (1000, 6)])
def test_progress__limit__caps_the_total(limit: int, total: int) -> None:
    assert rows_told(TABLE, limit=limit) == [(0, total), (total, total)]


@pytest.mark.usefixtures("never_resting")
def test_progress__limit_of_unknown_rows__leaves_the_total_unknown() -> None:
    assert rows_told(reader(), limit=3) == [(0, None), (2, None), (3, None), (3, 3)]


def test_progress__no_rows__is_told_as_done() -> None:
    assert rows_told(TABLE.slice(0, 0)) == [(0, 0)]
    assert rows_told(reader(TABLE.slice(0, 0))) == [(0, None), (0, 0)]


@pytest.mark.usefixtures("never_resting")
def test_progress__keys_that_come_back__begins_again() -> None:
    returning = pa.concat_tables([TABLE, TABLE.slice(0, 1)])
    rows = [rows for rows, _ in rows_told(returning, batch_rows=3)]
    assert rows.count(0) > 1
    assert rows[-1] == 7


def test_progress__bad_rows__are_counted_under_a_name_of_their_own() -> None:
    heard: list[fe.Progress] = []
    with pytest.raises(fe.ColumnError, match="1 row"):
        evaluate({**ROWS, "pctr": [float("nan"), 1, 1, 1, 1, 1]}, progress=heard.append)
    assert heard[-1] == fe.Progress("counting bad rows", 6, 6)


def test_progress__result__is_the_same_with_and_without() -> None:
    with_progress = evaluate(TABLE, progress=lambda _: None)
    assert with_progress.summary.equals(evaluate(TABLE).summary)
    assert with_progress.meta.conventions == evaluate(TABLE).meta.conventions


# ---- to whom -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("never_resting")
@pytest.mark.parametrize("threads", [1, 4])
def test_progress__threads__only_the_callers_calls_back(threads: int) -> None:
    callers: list[int] = []
    evaluate(reader(), threads=threads, progress=lambda _: callers.append(threading.get_ident()))
    assert set(callers) == {threading.get_ident()}


def test_progress__evaluation_inside_a_callback__keeps_to_itself() -> None:
    heard: list[fe.Progress] = []

    def outer(progress: fe.Progress) -> None:
        heard.append(progress)
        evaluate(TABLE.slice(0, 3))

    evaluate(TABLE, progress=outer)
    assert {progress.total for progress in heard} == {6}


def test_report__after_the_run__is_heard_by_nobody() -> None:
    heard = told(TABLE)
    report("reading", 1, 2)
    assert heard[-1] == fe.Progress("reading", 6, 6)


def test_report__from_another_thread__is_not_heard() -> None:
    import contextvars

    heard: list[fe.Progress] = []
    with reporting_to(heard.append):
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(report, "reading", 1, 2))
        thread.start()
        thread.join()
    assert heard == []


def test_report__many_within_an_instant__are_passed_on_at_begin_and_end_of_a_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fastrank_eval.progress.monotonic", lambda: 7.0)
    heard: list[fe.Progress] = []
    with reporting_to(heard.append):
        for phase in ("reading", "evaluating"):
            for rows in range(11):
                report(phase, rows, 10)
    assert [(progress.phase, progress.rows) for progress in heard] == [
        ("reading", 0), ("reading", 10), ("evaluating", 0), ("evaluating", 10),
    ]  # fmt: skip


# ---- what a callback may do ----------------------------------------------------------------------


class Enough(Exception):
    pass


def batches_without_end(taken: list[int]) -> Iterator[pa.RecordBatch]:
    while True:
        taken.append(1)
        yield TABLE.to_batches()[0]


@pytest.mark.usefixtures("never_resting")
@pytest.mark.parametrize("threads", [1, 4])
def test_progress__callback_raises__the_run_and_its_threads_end(threads: int) -> None:
    def stop(progress: fe.Progress) -> None:
        if progress.rows >= 60:
            raise Enough

    taken: list[int] = []
    endless = pa.RecordBatchReader.from_batches(TABLE.schema, batches_without_end(taken))
    with pytest.raises(Enough):
        evaluate(endless, order="grouped", threads=threads, batch_rows=6, progress=stop)
    assert len(taken) < 20
    assert not [t for t in threading.enumerate() if t.name.startswith("fastrank")]


def test_progress__not_callable__is_refused() -> None:
    with pytest.raises(fe.ArgumentError, match="progress=True is not callable"):
        evaluate(TABLE, progress=True)
