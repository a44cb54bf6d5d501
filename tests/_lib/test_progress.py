"""Progress: what a run tells of itself, and to whom."""

from __future__ import annotations

import contextvars
import errno
import io
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stderr
from typing import Any

import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.threads import report, reporting_to
from fastrank_eval.apps.cli.standard_error import progress_bar
from tests.support import batched
from tests.support.terminal import shown
from tests.support.transcripts import answers

pytestmark = pytest.mark.no_kernels

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
    return batched.evaluate(source, **options)


def told(source: Any, **options: Any) -> list[fe.Progress]:
    heard: list[fe.Progress] = []
    evaluate(source, progress=heard.append, **options)
    return heard


def rows_told(source: Any, **options: Any) -> list[tuple[int, int | None]]:
    heard = told(source, **options)
    assert {progress.phase for progress in heard} <= {"reading", "evaluating"}
    return [(progress.rows, progress.total) for progress in heard if progress.phase == "reading"]


# ---- what is told --------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["auto", "sorted", "grouped", "scattered"])
@pytest.mark.parametrize("threads", [1, 3])
def test_progress__any_way_in__is_told_beginning_and_end(order: str, threads: int) -> None:
    heard = told(TABLE, order=order, threads=threads)
    assert heard[0] == fe.Progress("reading", 0, 6)
    assert fe.Progress("reading", 6, 6) in heard
    last = "evaluating" if order == "scattered" else "reading"
    assert heard[-1] == fe.Progress(last, 6, 6)


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


@pytest.mark.usefixtures("never_resting")
def test_progress__keys_that_come_back__begins_again() -> None:
    returning = pa.concat_tables([TABLE, TABLE.slice(0, 1)])
    rows = [rows for rows, _ in rows_told(returning, batch_rows=3)]
    assert rows.count(0) > 1
    assert rows[-1] == 7


def test_progress__result__is_the_same_with_and_without() -> None:
    with_progress = evaluate(TABLE, progress=lambda _: None)
    assert with_progress.records().equals(evaluate(TABLE).records())
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
    monkeypatch.setattr("fastrank_eval._lib.threads.monotonic", lambda: 7.0)
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


# ---- the bar of the command line -----------------------------------------------------------------


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 80 columns."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    return Terminal()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    there = Clock()
    monkeypatch.setattr("fastrank_eval.apps.cli.standard_error.monotonic", there)
    return there


def drawn(terminal: Terminal, clock: Clock, *progress: fe.Progress, seconds: float = 1) -> str:
    """The line that stands there when the last was told, some seconds after the one before."""
    columns = int(os.environ["COLUMNS"])
    with redirect_stderr(terminal):
        with progress_bar() as show:
            for now in progress:
                show(now)
                clock.now += seconds
            line = "\n".join(shown(terminal.getvalue(), columns))
        assert sys.stderr is terminal
    assert shown(terminal.getvalue(), columns) == []
    return line


def steps(phase: str, total: int | None, *rows: int) -> list[fe.Progress]:
    return [fe.Progress(phase, number, total) for number in rows]


def halfway(total: int | None) -> list[fe.Progress]:
    """Speed needs two steps."""
    return steps("reading", total, 0, 1, 25_000_001)


#: Columns of the terminal, the progress of each second, and the last line of the bar.
BARS: dict[str, tuple[int, list[fe.Progress], str]] = {
    "wide": (
        80,
        halfway(10**8),
        r"reading [━╸╺]{20}  25%  25\.0 of 100\.0 Mrows  25\.0 Mrows/s 00:03",
    ),
    "narrow": (
        60,
        halfway(10**8),
        r"reading [━╸╺]+  25%  25\.0 of 100\.0 Mrows  25\.0 Mrows/s 0.*",
    ),
    "cut": (24, halfway(10**8), r"\w+… *25%  25.*…"),
    "hardly any width": (3, halfway(10**8), ".*"),
    "one column": (1, halfway(10**8), ".*"),
    "unknown total": (80, halfway(None), r"reading .* 25\.0 Mrows  25\.0 Mrows/s"),
    "few rows, singly": (
        80,
        steps("reading", 9000, 0, 60, 90),
        r"reading .*  1%  90 of 9,000 rows  30 rows/s 04:57",
    ),
    "next phase, anew": (
        80,
        [*steps("reading", 9000, 0, 8000), *steps("evaluating", 9000, 0, 90, 180)],
        r"evaluating .*  2%  180 of 9,000 rows  90 rows/s 01:38",
    ),
    "not quite all": (80, steps("reading", 10**5, 0, 1, 99_999), ".* 99%  .*"),
    "all": (80, steps("reading", 10**5, 0, 1, 100_000), ".* 100%  .*"),
    "more than all": (80, steps("reading", 10**5, 0, 1, 100_001), ".* 100%  .*"),
}


@pytest.mark.parametrize("name", BARS)
def test_bar__is_one_line_that_tells_phase_share_rows_and_speed(
    terminal: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    columns, told, line = BARS[name]
    monkeypatch.setenv("COLUMNS", str(columns))
    found = drawn(terminal, clock, *told)
    assert re.fullmatch(line, found), found
    assert len(found) <= columns


@pytest.mark.parametrize(
    "told, seconds, kind",
    [
        ([*halfway(10**8), fe.Progress("reading", 10**8, 10**8)], 0.1, "xterm"),
        (steps("reading", 9, 0, 9), 60, "xterm"),
        (halfway(10**8), 1, "dumb"),
        (halfway(10**8), 1, "unknown"),
    ],
    ids=["short run", "one step", "cannot erase", "unknown terminal"],
)
def test_bar__of_a_short_run_or_that_cannot_be_erased__is_not_shown(
    terminal: Terminal,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    told: list[fe.Progress],
    seconds: float,
    kind: str,
) -> None:
    monkeypatch.setenv("TERM", kind)
    drawn(terminal, clock, *told, seconds=seconds)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"])
def test_bar__no_terminal__shows_nothing_whatever_is_forced(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, name: str
) -> None:
    pipe = io.StringIO()
    monkeypatch.setenv(name, "1")
    with redirect_stderr(pipe), progress_bar() as show:
        for now in halfway(10**8):
            show(now)
            clock.now += 1
    assert pipe.getvalue() == ""


def test_bar__no_standard_error__shows_nothing() -> None:
    with redirect_stderr(None), progress_bar() as show:
        show(fe.Progress("reading", 0, 9))


def test_bar__not_interactive_by_name__is_erased_all_the_same(
    terminal: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTY_INTERACTIVE", "0")
    assert drawn(terminal, clock, *halfway(10**8)).startswith("reading")


def test_bar__warning_meanwhile__stands_above_it(terminal: Terminal, clock: Clock) -> None:
    with redirect_stderr(terminal), progress_bar() as show:
        for now in halfway(10**8):
            show(now)
            clock.now += 1
        sys.stderr.write("Warning: look here\n")
        sys.stderr.flush()
    assert shown(terminal.getvalue()) == ["Warning: look here"]


def test_bar__terminal_goes_away__is_given_up(
    terminal: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(terminal, "write", fail)
    with redirect_stderr(terminal):
        with progress_bar() as show:
            for now in (*halfway(10**8), fe.Progress("reading", 30_000_000, 10**8)):
                show(now)
                clock.now += 1
        assert sys.stderr is terminal


def test_bar__cursor__is_never_hidden(terminal: Terminal, clock: Clock) -> None:
    drawn(terminal, clock, *halfway(10**8))
    assert "\x1b[?25" not in terminal.getvalue()


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"PYTHONIOENCODING": "ascii"}])
def test_bar__without_colours__shows_its_share_by_its_length(
    terminal: Terminal, clock: Clock, monkeypatch: pytest.MonkeyPatch, variable: dict[str, str]
) -> None:
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Terminal, "encoding", variable.get("PYTHONIOENCODING", "utf-8"))
    line = drawn(terminal, clock, *halfway(10**8))
    assert re.match(r"reading (━━━|-{5} -{14})", line), line
    assert line.endswith("25%  25.0 of 100.0 Mrows  25.0 Mrows/s 00:03")


test_answers = answers(globals())
