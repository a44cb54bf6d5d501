"""Signals that end a run: raised where that does no harm, and obeyed within a second or so."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from time import sleep
from typing import Any, NoReturn

__all__ = [
    "Stopped",
    "defer_signals",
    "obey_signals",
    "raise_if_stopped",
    "run_stoppable",
    "stop_requested",
    "tidied",
]

#: Each signal, what Python does about it by itself, and what the user is told.
_SIGNALS: dict[int, tuple[Any, str]] = {
    signal.SIGINT: (signal.default_int_handler, "interrupted."),
    signal.SIGTERM: (signal.SIG_DFL, "terminated."),
}
if hasattr(signal, "SIGHUP"):
    _SIGNALS[signal.SIGHUP] = (signal.SIG_DFL, "hung up.")

#: Seconds after which a run that has not unwound ends all the same.
_GRACE = 1.0

_watched = os.name == "posix"  # elsewhere only sockets can tell a thread of a signal

_obeyed: set[int] = set()
_come: list[int] = []
_holds: list[None] = []
_tidying: list[Callable[[], object]] = []


class Stopped(BaseException):
    """The process was asked to end: unwinds, so that unfinished files are removed.

    Parameters
    ----------
    number : int
        The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(_SIGNALS[number][1])
        self.code = 128 + number


def obey_signals() -> None:
    """Let SIGINT, SIGTERM and SIGHUP raise `Stopped`, unless they are ignored or taken already."""
    for number, (usual, _) in _SIGNALS.items():
        if signal.getsignal(number) == usual:
            signal.signal(number, _stop)
            _obeyed.add(number)
    sys.unraisablehook = _unraisable
    if _watched and _obeyed:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        Thread(target=_insist, args=(reader,), name="fastrank-stops", daemon=True).start()


def run_stoppable(program: Callable[[], object]) -> None:
    """Run a program; end it with one line and 128 + its number if a signal comes.

    Parameters
    ----------
    program : callable
        All of it, its imports too.

    Raises
    ------
    SystemExit
        If a signal has come, or if the program raises it.
    """
    try:
        try:
            obey_signals()
            program()
        finally:
            _holds.append(None)  # nothing more is raised
    except Stopped as stop:
        if sys.stderr is not None:
            with suppress(OSError):
                sys.stderr.write(f"{stop}\n")
                sys.stderr.flush()
        sys.exit(stop.code)
    finally:
        stop_requested()


def raise_if_stopped() -> None:
    """Raise again what a signal raised and a library has swallowed.

    Raises
    ------
    Stopped
        If a signal has come.
    """
    if _come:
        raise Stopped(_come[0])


@contextmanager
def defer_signals() -> Iterator[None]:
    """Let signals wait until the end of something short that they must not break into.

    Blocking them in this thread would not do: others take them then.
    """
    _holds.append(None)
    try:
        yield
    finally:
        _holds.pop()
        raise_if_stopped()


@contextmanager
def tidied(act: Callable[[], object]) -> Iterator[None]:
    """Do something if the process ends meanwhile without unwinding.

    Parameters
    ----------
    act : callable
        Called by another thread; what it raises is dropped.
    """
    _tidying.append(act)
    try:
        yield
    finally:
        _tidying.remove(act)


def stop_requested() -> None:
    """Say that the user knows of the end: what is left may be cut short, by signals too."""
    for number in _obeyed:
        signal.signal(number, signal.SIG_DFL)
    _obeyed.clear()


def _stop(number: int, _frame: object) -> None:
    _come.append(number)
    # A second one would break into the unwinding, which has its time limit where it is watched.
    if not _holds and (len(_come) == 1 or not _watched):
        raise Stopped(number)


def _insist(reader: int) -> NoReturn:
    """End the process where its main thread does not: it may wait for a kernel being compiled.

    Python runs handlers in the main thread and between its instructions only, but the number of
    each signal can be read here at once.
    """
    number = 0
    while number not in _obeyed:
        (number,) = os.read(reader, 1)
    sleep(_GRACE)
    for act in reversed(_tidying):
        with suppress(Exception):
            act()
    if _obeyed:
        with suppress(OSError):
            os.write(2, f"{_SIGNALS[number][1]}\n".encode())
    os._exit(128 + number)


def _unraisable(fault: Any) -> None:
    # What was raised inside a callback from C is raised again by `raise_if_stopped`.
    if fault.exc_type is not Stopped:
        sys.__unraisablehook__(fault)
