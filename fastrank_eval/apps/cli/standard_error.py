"""Write notes and log lines of a command to standard error.

``--help`` needs neither logging nor JSON, which take 7 ms to import.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
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
