"""What every command shares: exit codes, signals, sections in ``--help``, standard output."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from fastrank_eval.errors import FastRankEvalError, OutputError

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "SectionedCommand",
    "SectionedOption",
    "Shell",
    "Terminated",
    "emit",
    "prepare_process",
    "raise_if_stopped",
    "rendered",
    "signals_held",
]


_USUAL_HANDLERS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
_stopped_by: list[int] = []


class Terminated(BaseException):
    """The process was asked to stop (SIGTERM): unwinds, so that unfinished files are removed."""


class Shell(click.Group):
    """Turns what may go wrong into one line and an exit code; anything else is a bug and shows."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; 2 for bad input, 130 and 143 for signals, 141 for a closed pipe."""
        try:
            return super().invoke(ctx)
        except FastRankEvalError as error:
            from fastrank_eval.printing import printable

            _leave(2, f"error: {printable(str(error))}")
        except MemoryError:
            _leave(
                1,
                "error: out of memory; sort the rows by group and pass --presorted or "
                "--order grouped to stream them, or name fewer --score columns.",
            )
        except KeyboardInterrupt:
            _leave(130, "interrupted.")
        except Terminated:
            _leave(143, "terminated.")
        except BrokenPipeError:
            _silence(sys.stdout)
            _leave(141)


class _Sheet(io.StringIO):
    """Text on its way to standard output: says what that can show."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding


class SectionedOption(click.Option):
    """An option that knows under which heading ``--help`` lists it.

    Parameters
    ----------
    *args, **keywords
        As of click.Option.
    section : str
        The heading.
    """

    def __init__(self, *args: Any, section: str, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose ``--help`` lists its options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list of options a section, in the order sections were first used."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(param, "section", "Other"), []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def prepare_process() -> None:
    """Make the process end orderly on SIGINT and SIGTERM, and print names no terminal can show."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    for number, usual in _USUAL_HANDLERS.items():
        if signal.getsignal(number) == usual:
            signal.signal(number, _stop)


def raise_if_stopped() -> None:
    """Raise again what a signal raised and a library has swallowed.

    Raises
    ------
    KeyboardInterrupt, Terminated
        If SIGINT, SIGTERM has come.
    """
    if _stopped_by:
        _stop(_stopped_by[0], None)


@contextmanager
def signals_held() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back while modules load: libraries swallow what is raised there."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def rendered(what: RenderableType, width: int | None = None) -> str:
    """Render for standard output, or for a file of a given width.

    Parameters
    ----------
    what : rich renderable
    width : int, optional
        Columns of a file, which gets no colours. By default as wide as the terminal, and
        coloured if there is one.

    Returns
    -------
    str
        Lines without trailing blanks.
    """
    from rich.console import Console

    sheet = _Sheet()
    Console(
        file=sheet,
        width=width,
        force_terminal=width is None and sys.stdout.isatty(),
    ).print(what)
    return "\n".join(line.rstrip() for line in sheet.getvalue().splitlines()) + "\n"


def emit(text: str) -> None:
    """Write to standard output, all of it or an error.

    Parameters
    ----------
    text : str

    Raises
    ------
    OutputError
        If it cannot be written, such as to a full disk.
    BrokenPipeError
        If the reader has gone.
    """
    try:
        click.echo(text, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence(sys.stdout)
        raise OutputError(f"cannot write to standard output: {error.strerror}.") from error


def _stop(number: int, _frame: object) -> NoReturn:
    _stopped_by.append(number)
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _leave(code: int, message: str = "") -> NoReturn:
    if message:
        try:
            click.echo(message, err=True)
        except BrokenPipeError:
            _silence(sys.stderr)
    raise click.exceptions.Exit(code)


def _silence(stream: Any) -> None:
    """Send what is still buffered nowhere, so that the interpreter does not trip over it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
