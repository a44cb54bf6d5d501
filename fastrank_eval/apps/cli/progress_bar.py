"""Show a progress bar on a terminal while a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING

from fastrank_eval._lib.signals import defer_signals, on_forced_exit, raise_if_stopped
from fastrank_eval._lib.threads import Progress
from fastrank_eval.apps.cli.standard_error import is_logging

if TYPE_CHECKING:
    from rich import progress as rich_progress
    from rich.console import Console

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
