"""Write notes, log lines and a progress bar to standard error.

``--help`` needs neither logging nor JSON, which take 7 ms to import.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval._lib.signals import defer_signals, on_forced_exit, raise_if_stopped

if TYPE_CHECKING:
    from rich import progress as rich_progress
    from rich.console import Console

    from fastrank_eval._lib.threads import Progress
    from fastrank_eval.apps.cli.log_lines import LineHandler


class _State:
    """How the command of this process writes."""

    as_json = False
    handler: LineHandler | None = None


def log_options() -> list[click.Option]:
    """Make the options of every command for log lines."""
    return [
        click.Option(
            ["-v", "--verbose"],
            count=True,
            is_eager=True,
            expose_value=False,
            callback=_start,
            help="Write a log line for each step to standard error; -vv writes more.",
        ),
        click.Option(
            ["--log-json"],
            is_flag=True,
            expose_value=False,
            help="Write everything on standard error as JSON, one object a line.",
        ),
    ]


def use_json(chosen: bool) -> None:
    """Choose between JSON and text for all lines that follow."""
    _State.as_json = chosen


def is_json() -> bool:
    """Return whether lines are JSON."""
    return _State.as_json


def is_logging() -> bool:
    """Return whether steps are written."""
    return _State.handler is not None and _State.handler.shows_steps


def _start(ctx: click.Context, _: click.Parameter, verbosity: int) -> None:
    """Write the lines of our loggers from here on."""
    if ctx.resilient_parsing:
        return
    from fastrank_eval.apps.cli.log_lines import LineHandler

    if _State.handler is not None:  # of a command that was read, but not run
        _State.handler.remove()
    verbosity = max(verbosity, int(_State.as_json))
    _State.handler = LineHandler(_write, _State.as_json, verbosity, str(ctx.info_name))


def stop(exit_code: int | None, seconds: float) -> None:
    """Write the end of the command, and no further lines of loggers."""
    handler, _State.handler = _State.handler, None
    if handler is not None:
        handler.stop(exit_code, seconds)


def note(text: str) -> None:
    """Print a line to standard error; ignore a failure to write it."""
    _write(note_line(text))


def note_line(text: str) -> str:
    """Return a note as it is written: as text, or as JSON with its level."""
    if not _State.as_json and ":/" not in text:
        return text
    from fastrank_eval._lib.errors import without_credentials
    from fastrank_eval.apps.cli.log_lines import json_note

    text = without_credentials(text)
    return json_note(text) if _State.as_json else text


def note_fault() -> None:
    """Write the exception that is handled, a fault of this program."""
    from fastrank_eval.apps.cli.log_lines import json_fault

    _write(json_fault())


def _write(line: str) -> None:
    try:
        click.echo(line, err=True)
    except OSError:
        discard_output(sys.stderr)


def discard_output(stream: Any) -> None:
    """Redirect a stream to the null device, so that flushing cannot fail."""
    if isinstance(stream, io.StringIO):  # a replacement, which has no file
        return
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, stream.fileno())
    os.close(null_device)


#: Seconds before the bar appears.
START_DELAY = 0.5
#: Seconds over which the speed is measured.
_WINDOW = 10.0
_BAR_WIDTH = 20


@contextmanager
def progress_bar(hidden: bool = False) -> Iterator[Callable[[Progress], None]]:
    """Show progress on standard error, if that is a terminal.

    Parameters
    ----------
    hidden : bool
        Show no progress.

    Yields
    ------
    callable
        Takes each `Progress`. It also ends the run if a library has caught the exception that a
        signal raised.
    """
    bar = _Bar(hidden)
    try:
        with on_forced_exit(bar.erase):
            yield bar.show
    finally:
        bar.close()


class _Bar:
    """One line of a terminal, redrawn at each report."""

    def __init__(self, hidden: bool) -> None:
        self._hidden = hidden or sys.stderr is None or not sys.stderr.isatty() or is_logging()
        self._started = monotonic()
        self._progress: rich_progress.Progress | None = None

    def show(self, progress: Progress) -> None:
        raise_if_stopped()
        if self._hidden:
            return
        # Do not start a bar that is already full.
        if self._progress is None and (
            monotonic() - self._started < START_DELAY or progress.rows == progress.total
        ):
            return
        # A signal during the write would leave half a line on the terminal.
        with defer_signals():
            try:
                self._draw(progress)
            except OSError:  # the terminal has gone
                self._hidden = True

    def close(self) -> None:
        with defer_signals():
            shown, self._progress = self._progress, None
            if shown is not None:
                with suppress(OSError):
                    shown.stop()

    def erase(self) -> None:
        """Erase the line without locks that the main thread may hold."""
        if self._progress is not None:
            os.write(2, b"\r\x1b[2K")

    def _draw(self, progress: Progress) -> None:
        if self._progress is None:
            console = _console()
            if console.is_dumb_terminal:
                self._hidden = True
                return
            self._progress = _columns(console)
            self._progress.add_task("", total=None)
            self._progress.start()
        (task,) = self._progress.tasks
        if progress.phase != task.description or progress.rows < task.completed:
            self._progress.reset(task.id, description=progress.phase, total=progress.total)
        self._progress.update(task.id, completed=progress.rows, total=progress.total, refresh=True)


def _console() -> Console:
    from rich.console import Console

    class VisibleCursorConsole(Console):
        """Leaves the cursor visible: it would stay hidden after Ctrl-Z or a kill."""

        def show_cursor(self, show: bool = True) -> bool:
            return False

    return VisibleCursorConsole(
        file=sys.stderr, force_terminal=True, force_interactive=True, highlight=False, emoji=False
    )


def _columns(console: Console) -> rich_progress.Progress:
    """Make the row: phase, bar, rows with their speed, time left."""
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class RowsColumn(ProgressColumn):
        """Shows 100% only for the whole."""

        max_refresh = None

        def render(self, task: Task) -> Text:
            rows, total = int(task.completed), None if task.total is None else int(task.total)
            share = f"{min(rows, total) * 100 // total:3d}%  " if total else ""
            speed = f"  {_speed(task.speed)}" if task.speed else ""
            return Text(share + _rows(rows, total) + speed)

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(_BAR_WIDTH),
        RowsColumn(Column(no_wrap=True)),
        TimeRemainingColumn(compact=True),
        TextColumn("  "),  # free, for the ^C that terminals echo: a line that wraps stays
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        speed_estimate_period=_WINDOW,
        get_time=monotonic,
    )


def _rows(rows: int, total: int | None) -> str:
    """Format rows as 7 of 900, or 1.2 of 8.0 Mrows."""
    if max(rows, total or 0) < 1_000_000:
        return f"{rows:,} rows" if total is None else f"{rows:,} of {total:,} rows"
    millions = f"{rows / 1e6:,.1f}"
    return f"{millions} Mrows" if total is None else f"{millions} of {total / 1e6:,.1f} Mrows"


def _speed(speed: float) -> str:
    return f"{speed / 1e6:.1f} Mrows/s" if speed >= 1e6 else f"{speed:,.0f} rows/s"
