"""Report the progress of a run to a callback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import get_ident
from time import monotonic

from fastrank_eval._lib.errors import ArgumentError

__all__ = ["Progress", "report", "reporting_to"]

#: Seconds between two reports of the same phase, at least.
INTERVAL = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a run.

    Parameters
    ----------
    phase : str
        The current phase, such as ``"reading"``.
    rows : int
        Rows that the phase has processed. The count begins at 0 again if the phase is repeated.
    total : int or None
        Rows of the whole phase; None while unknown.
    """

    phase: str
    rows: int
    total: int | None


class _Listener:
    """A callback and its last report."""

    def __init__(self, callback: Callable[[Progress], object]) -> None:
        self._callback = callback
        self._thread = get_ident()
        self._last_report: Progress | None = None
        self._last_time = 0.0

    def receive(self, now: Progress) -> None:
        last, time = self._last_report, monotonic()
        # A thread may inherit the context in which it was started.
        if get_ident() != self._thread or now == last:
            return
        new_phase = last is None or now.phase != last.phase or now.rows < last.rows
        if new_phase or now.rows == now.total or time - self._last_time >= INTERVAL:
            self._last_report, self._last_time = now, time
            try:
                self._callback(now)
            except StopIteration as error:  # it would end one of our generators silently
                raise ArgumentError(
                    "progress: must not raise StopIteration; raise another exception to end a run."
                ) from error


_listener: ContextVar[_Listener | None] = ContextVar("listener", default=None)


@contextmanager
def reporting_to(callback: Callable[[Progress], object] | None) -> Iterator[None]:
    """Send the reports of this thread to a callback meanwhile.

    Parameters
    ----------
    callback : callable or None
        Its exceptions are raised by `report`. None receives no report.
    """
    token = _listener.set(None if callback is None else _Listener(callback))
    try:
        yield
    finally:
        _listener.reset(token)


def report(phase: str, rows: int, total: int | None) -> None:
    """Report progress.

    The callback gets at most ten reports a second, and one when a phase begins or ends. Call it
    from the thread that runs `evaluate`; reports of other threads are ignored.

    Parameters
    ----------
    phase, rows, total
        As in `Progress`.

    Examples
    --------
    >>> with reporting_to(print):
    ...     for rows in (0, 1, 2, 3):
    ...         report("reading", rows, 3)
    Progress(phase='reading', rows=0, total=3)
    Progress(phase='reading', rows=3, total=3)
    """
    listener = _listener.get()
    if listener is not None:
        listener.receive(Progress(phase, rows, total))
