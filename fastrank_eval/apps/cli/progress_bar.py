"""Show a progress bar on a terminal while a command runs."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING

from fastrank_eval._lib.signals import defer_signals, on_forced_exit, raise_if_stopped
from fastrank_eval._lib.threads import Progress
from fastrank_eval.apps.cli.standard_error import is_logging

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

#: Seconds before the bar appears.
START_DELAY = 0.5
#: Seconds over which the speed is measured.
_WINDOW = 10.0
_MAX_WIDTH, _MIN_WIDTH = 40, 6  # columns of the bar
_GAP = 2
#: Free columns for the ^C that terminals echo: a line that wraps would not be erased.
_FREE_COLUMNS = 3
#: Columns that a narrow terminal leaves out, in this order.
_DROP_ORDER = ("speed", "rows", "bar", "remaining", "phase")
_DROP_ORDER_UNKNOWN_TOTAL = ("bar", "speed", "phase")


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
        self._speed = _Speed()
        self._live: Live | None = None

    def show(self, progress: Progress) -> None:
        raise_if_stopped()
        if self._hidden:
            return
        now = monotonic()
        self._speed.add(progress, now)
        # Do not start a bar that is already full.
        if self._live is None and (
            now - self._started < START_DELAY or progress.rows == progress.total
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
            live, self._live = self._live, None
            if live is not None:
                with suppress(OSError):
                    live.stop()

    def erase(self) -> None:
        """Erase the line without locks that the main thread may hold."""
        if self._live is not None:
            os.write(2, b"\r\x1b[2K")

    def _draw(self, progress: Progress) -> None:
        if self._live is None:
            console = _console()
            if console.is_dumb_terminal:
                self._hidden = True
                return
            self._live = _live(console)
            self._live.start()
        width = max(1, self._live.console.width - _FREE_COLUMNS)
        self._live.update(_layout(progress, self._speed.speed, width), refresh=True)


class _Speed:
    """Rows per second over the last seconds."""

    def __init__(self) -> None:
        self._last: Progress | None = None
        self._samples: deque[tuple[float, int]] = deque()

    def add(self, progress: Progress, now: float) -> None:
        last, self._last = self._last, progress
        if last is None or progress.phase != last.phase or progress.rows < last.rows:
            self._samples.clear()
        self._samples.append((now, progress.rows))
        while len(self._samples) > 2 and self._samples[1][0] <= now - _WINDOW:
            self._samples.popleft()

    @property
    def speed(self) -> float:
        (start, first), (now, last) = self._samples[0], self._samples[-1]
        return (last - first) / (now - start) if now > start else 0.0


def _console() -> Console:
    from rich.console import Console

    class VisibleCursorConsole(Console):
        """Keeps the cursor visible: it would stay hidden after Ctrl-Z or a kill."""

        def show_cursor(self, show: bool = True) -> bool:
            return False

    return VisibleCursorConsole(
        file=sys.stderr, force_terminal=True, force_interactive=True, highlight=False, emoji=False
    )


def _live(console: Console) -> Live:
    from rich.live import Live

    return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)


def _layout(progress: Progress, speed: float, width: int) -> Table:
    """Lay out the columns that fit; the bar takes the remaining width."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    columns = _columns(progress, speed)
    for name in _DROP_ORDER if progress.total else _DROP_ORDER_UNKNOWN_TOTAL:
        if _width(columns) > width:
            columns.pop(name, None)
    bar_width = min(_MAX_WIDTH, _MIN_WIDTH + width - _width(columns))
    row = Table.grid(padding=(0, _GAP, 0, 0))
    for _ in columns:
        row.add_column(no_wrap=True)
    row.add_row(
        *(
            ProgressBar(progress.total, progress.rows, bar_width)
            if name == "bar"
            else Text(text, overflow="crop")
            for name, text in columns.items()
        )
    )
    return row


def _columns(progress: Progress, speed: float) -> dict[str, str]:
    rows, total = progress.rows, progress.total
    columns = {"phase": progress.phase, "bar": " " * _MIN_WIDTH}
    if total:
        columns["share"] = f"{min(rows, total) * 100 // total:3d}%"
        columns["rows"] = _rows(rows, total).rjust(len(_rows(total, total)))
    else:
        columns["rows"] = _rows(rows, None)
    if speed:
        columns["speed"] = _speed(speed)
        if total and rows < total:
            columns["remaining"] = f"{_time((total - rows) / speed)} left"
    return columns


def _width(columns: dict[str, str]) -> int:
    return sum(map(len, columns.values())) + _GAP * (len(columns) - 1)


def _rows(rows: int, total: int | None) -> str:
    """Format rows as 7 of 900, or 1.2 of 8.0 Mrows."""
    if max(rows, total or 0) < 1_000_000:
        return f"{rows:,} rows" if total is None else f"{rows:,} of {total:,} rows"
    millions = f"{rows / 1e6:,.1f}"
    return f"{millions} Mrows" if total is None else f"{millions} of {total / 1e6:,.1f} Mrows"


def _speed(speed: float) -> str:
    return f"{speed / 1e6:.1f} Mrows/s" if speed >= 1e6 else f"{speed:,.0f} rows/s"


def _time(seconds: float) -> str:
    minutes, seconds = divmod(ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
