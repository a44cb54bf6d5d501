"""The progress bar of the command line: one line of a terminal, gone when the run ends."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING

from fastrank_eval._lib.progress import Progress
from fastrank_eval._lib.signals import defer_signals, on_forced_exit, raise_if_stopped

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

__all__ = ["progress_bar"]

#: Seconds a run lasts before its bar appears.
PATIENCE = 0.5
#: Seconds that the speed is measured over.
_WINDOW = 10.0
_LONGEST, _SHORTEST = 40, 6  # columns of the bar
_GAP = 2
#: Columns left free for the ^C that terminals echo: a line that breaks would not be erased.
_SPARE = 3
#: What a narrow terminal does without.
_LEAST_WANTED = ("speed", "rows", "bar", "left", "phase")
_LEAST_WANTED_OF_UNKNOWN = ("bar", "speed", "phase")


@contextmanager
def progress_bar(hidden: bool = False) -> Iterator[Callable[[Progress], None]]:
    """Show progress on standard error, if that is a terminal.

    Parameters
    ----------
    hidden : bool
        Show none.

    Yields
    ------
    callable
        Takes each `Progress`. It also ends the run where a library has swallowed what a signal
        raised.
    """
    bar = _Bar(hidden)
    try:
        with on_forced_exit(bar.erase):
            yield bar.show
    finally:
        bar.close()


class _Bar:
    """Nothing, then one line that is written again and again by whoever reports."""

    def __init__(self, hidden: bool) -> None:
        self._hidden = hidden or sys.stderr is None or not sys.stderr.isatty()
        self._begun = monotonic()
        self._pace = _Pace()
        self._live: Live | None = None

    def show(self, progress: Progress) -> None:
        raise_if_stopped()
        if self._hidden:
            return
        now = monotonic()
        self._pace.add(progress, now)
        # Nor is a bar begun that is full.
        if self._live is None and (now - self._begun < PATIENCE or progress.rows == progress.total):
            return
        # A signal that broke into a half-written line would leave it there.
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
        """Take the line away from any thread, without what the main thread may have locked."""
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
        width = max(1, self._live.console.width - _SPARE)
        self._live.update(_line(progress, self._pace.speed, width), refresh=True)


class _Pace:
    """Rows per second of late."""

    def __init__(self) -> None:
        self._last: Progress | None = None
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, progress: Progress, now: float) -> None:
        last, self._last = self._last, progress
        if last is None or progress.phase != last.phase or progress.rows < last.rows:
            self._seen.clear()
        self._seen.append((now, progress.rows))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _WINDOW:
            self._seen.popleft()

    @property
    def speed(self) -> float:
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        return (last - first) / (now - began) if now > began else 0.0


def _console() -> Console:
    from rich.console import Console

    class Calm(Console):
        """Leaves the cursor visible: it would stay hidden after Ctrl-Z or a kill."""

        def show_cursor(self, show: bool = True) -> bool:
            return False

    return Calm(
        file=sys.stderr, force_terminal=True, force_interactive=True, highlight=False, emoji=False
    )


def _live(console: Console) -> Live:
    from rich.live import Live

    return Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)


def _line(progress: Progress, speed: float, width: int) -> Table:
    """Lay out what fits: the least wanted goes first, and the bar takes the room that is left."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    parts = _parts(progress, speed)
    for name in _LEAST_WANTED if progress.total else _LEAST_WANTED_OF_UNKNOWN:
        if _width(parts) > width:
            parts.pop(name, None)
    length = min(_LONGEST, _SHORTEST + width - _width(parts))
    line = Table.grid(padding=(0, _GAP, 0, 0))
    for _ in parts:
        line.add_column(no_wrap=True)
    line.add_row(
        *(
            ProgressBar(progress.total, progress.rows, length)
            if name == "bar"
            else Text(text, overflow="crop")
            for name, text in parts.items()
        )
    )
    return line


def _parts(progress: Progress, speed: float) -> dict[str, str]:
    rows, total = progress.rows, progress.total
    parts = {"phase": progress.phase, "bar": " " * _SHORTEST}
    if total:
        parts["share"] = f"{min(rows, total) * 100 // total:3d}%"
        parts["rows"] = _rows(rows, total).rjust(len(_rows(total, total)))
    else:
        parts["rows"] = _rows(rows, None)
    if speed:
        parts["speed"] = _speed(speed)
        if total and rows < total:
            parts["left"] = f"{_time((total - rows) / speed)} left"
    return parts


def _width(parts: dict[str, str]) -> int:
    return sum(map(len, parts.values())) + _GAP * (len(parts) - 1)


def _rows(rows: int, total: int | None) -> str:
    """Write rows as 7 of 900, or 1.2 of 8.0 Mrows."""
    if max(rows, total or 0) < 1_000_000:
        return f"{rows:,} rows" if total is None else f"{rows:,} of {total:,} rows"
    many = f"{rows / 1e6:,.1f}"
    return f"{many} Mrows" if total is None else f"{many} of {total / 1e6:,.1f} Mrows"


def _speed(speed: float) -> str:
    return f"{speed / 1e6:.1f} Mrows/s" if speed >= 1e6 else f"{speed:,.0f} rows/s"


def _time(seconds: float) -> str:
    minutes, seconds = divmod(ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
