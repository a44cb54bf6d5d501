"""How far a run has come, told now and then to whoever asked for it."""

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
    """How far a run has come.

    Parameters
    ----------
    phase : str
        What is being done, such as ``"reading"``.
    rows : int
        Rows this phase is done with. They begin at 0 again if it has to be done again.
    total : int or None
        Rows this phase will have been done with at its end; None while that is unknown.
    """

    phase: str
    rows: int
    total: int | None


class _Listener:
    """A callback, and what it was told last."""

    def __init__(self, callback: Callable[[Progress], object]) -> None:
        self._callback = callback
        self._thread = get_ident()
        self._last: Progress | None = None
        self._when = 0.0

    def hear(self, now: Progress) -> None:
        last, moment = self._last, monotonic()
        # Threads may inherit the context they are started in.
        if get_ident() != self._thread or now == last:
            return
        begins = last is None or now.phase != last.phase or now.rows < last.rows
        if begins or now.rows == now.total or moment - self._when >= INTERVAL:
            self._last, self._when = now, moment
            try:
                self._callback(now)
            except StopIteration as error:  # would end a generator of ours, without a word
                raise ArgumentError(
                    "progress: must not raise StopIteration; raise another exception to end a run."
                ) from error


_listener: ContextVar[_Listener | None] = ContextVar("listener", default=None)


@contextmanager
def reporting_to(callback: Callable[[Progress], object] | None) -> Iterator[None]:
    """Let `callback` hear what is reported by this thread meanwhile; None hears nothing.

    Parameters
    ----------
    callback : callable or None
        What it raises goes through whoever reports.
    """
    token = _listener.set(None if callback is None else _Listener(callback))
    try:
        yield
    finally:
        _listener.reset(token)


def report(phase: str, rows: int, total: int | None) -> None:
    """Report progress; passed on at most ten times a second, and when a phase begins or ends.

    To be called from the thread that runs `evaluate`; other threads are not heard.

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
        listener.hear(Progress(phase, rows, total))
