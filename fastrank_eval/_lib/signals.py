"""End a run soon after a signal, without unfinished files."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from time import sleep
from typing import Any, NoReturn

#: For each signal: Python's default handler and the message for the user.
_SIGNALS: dict[int, tuple[Any, str]] = {
    signal.SIGINT: (signal.default_int_handler, "interrupted."),
    signal.SIGTERM: (signal.SIG_DFL, "terminated."),
}
if hasattr(signal, "SIGHUP"):
    _SIGNALS[signal.SIGHUP] = (signal.SIG_DFL, "hung up.")

#: Seconds after which a run ends even if it has not unwound.
_GRACE_SECONDS = 1.0

#: Whether a pipe can wake a thread after a signal: only POSIX has SIGHUP, elsewhere it is a socket.
_has_watcher = hasattr(signal, "SIGHUP")

_handled: set[int] = set()
_received: list[int] = []
_deferrals: list[None] = []
_exit_actions: list[Callable[[], object]] = []
_message_forms: list[Callable[[str], str]] = []


class StopSignal(BaseException):
    """The exception after a signal; unwinding removes unfinished files.

    Parameters
    ----------
    number : int
        The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(_SIGNALS[number][1])
        self.code = 128 + number


def handle_signals() -> None:
    """Let SIGINT, SIGTERM and SIGHUP raise `StopSignal`.

    A signal that is ignored, or has another handler already, stays as it is.
    """
    for number, (default_handler, _) in _SIGNALS.items():
        if signal.getsignal(number) == default_handler:
            signal.signal(number, _on_signal)
            _handled.add(number)
    sys.unraisablehook = _unraisable
    if _has_watcher and _handled:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        Thread(target=_end_process, args=(reader,), name="fastrank-stops", daemon=True).start()


def run_stoppable(program: Callable[[], object]) -> None:
    """Run a program; after a signal write one line and exit with its code.

    The exit code is 128 + the number of the signal.

    Parameters
    ----------
    program : callable
        The whole program, its imports included.

    Raises
    ------
    SystemExit
        After a signal, or if the program raises it.
    """
    try:
        try:
            handle_signals()
            with stoppable():
                program()
        finally:
            _deferrals.append(None)  # no further signal raises
    except StopSignal as stop:
        if sys.stderr is not None:
            with suppress(OSError):
                sys.stderr.write(_message(str(stop)))
                sys.stderr.flush()
        sys.exit(stop.code)
    finally:
        reset_signals()


def show_messages_as(form: Callable[[str], str]) -> None:
    """Choose how messages of signals are written.

    Parameters
    ----------
    form : callable
        Returns the line of a message, without its end.
    """
    _message_forms[:] = [form]


def _message(text: str) -> str:
    for form in _message_forms:
        text = form(text)
    return f"{text}\n"


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise `StopSignal` if a library has made something else of it."""
    try:
        yield
    except Exception:
        raise_if_stopped()
        raise
    raise_if_stopped()


def raise_if_stopped() -> None:
    """Raise `StopSignal` again if a library has swallowed it."""
    if _received:
        raise StopSignal(_received[0])


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals until the end of a short critical section.

    Blocking them in this thread is not enough: other threads would receive them.
    """
    _deferrals.append(None)
    try:
        yield
    finally:
        _deferrals.pop()
        raise_if_stopped()


@contextmanager
def on_forced_exit(action: Callable[[], object]) -> Iterator[None]:
    """Call a function if the process is ended meanwhile without unwinding.

    Parameters
    ----------
    action : callable
        Another thread calls it and ignores its exceptions.
    """
    _exit_actions.append(action)
    try:
        yield
    finally:
        _exit_actions.remove(action)


def reset_signals() -> None:
    """Restore the default handlers: further signals end the process at once."""
    for number in _handled:
        signal.signal(number, signal.SIG_DFL)
    _handled.clear()


def _on_signal(number: int, _frame: object) -> None:
    _received.append(number)
    # A second signal would interrupt the unwinding, which has a time limit where a thread watches.
    if not _deferrals and (len(_received) == 1 or not _has_watcher):
        raise StopSignal(number)


def _end_process(reader: int) -> NoReturn:
    """End the process if its main thread does not, as while a kernel compiles.

    Python runs signal handlers only in the main thread and between its instructions. This thread
    can read the number of each signal at once.
    """
    number = 0
    while number not in _handled:
        (number,) = os.read(reader, 1)
    sleep(_GRACE_SECONDS)
    for action in reversed(_exit_actions):
        with suppress(Exception):
            action()
    if _handled:
        with suppress(OSError):
            os.write(2, _message(_SIGNALS[number][1]).encode())
    os._exit(128 + number)


def _unraisable(unraisable: Any) -> None:
    # `raise_if_stopped` raises again the exception that a callback from C has lost.
    if unraisable.exc_type is not StopSignal:
        sys.__unraisablehook__(unraisable)
