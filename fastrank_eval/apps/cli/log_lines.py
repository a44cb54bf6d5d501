"""Write records of loggers, and notes as JSON, as lines."""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import traceback
from collections.abc import Callable
from typing import Any

from fastrank_eval._lib import __version__
from fastrank_eval._lib.errors import without_credentials
from fastrank_eval._lib.log import COMMAND, LOGGERS

#: Loggers whose lines a command writes: ours, and that of the server.
_OURS, _SERVER = "fastrank_eval", "uvicorn"
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
#: How notes begin, and their level.
_NOTES = {
    "error: ": "ERROR",
    "warning: ": "WARNING",
    "gate failed: ": "WARNING",
    "interrupted.": "WARNING",
    "terminated.": "WARNING",
    "hung up.": "WARNING",
}
_NOTE_LOGGER = next(name for name in LOGGERS if name.endswith("command"))


class LineHandler(logging.Handler):
    """Handler that writes each record as a line, from its start until `stop`.

    Parameters
    ----------
    write : callable
        Writes a line.
    as_json : bool
    verbosity : int
        How often ``-v`` was given.
    command : str
    """

    def __init__(
        self, write: Callable[[str], object], as_json: bool, verbosity: int, command: str
    ) -> None:
        super().__init__()
        self._line_of = _json_record if as_json else _text_record
        self._write = write
        self.shows_steps = verbosity > 0
        for name in (_OURS, _SERVER):
            logging.getLogger(name).addHandler(self)
        logging.getLogger(_OURS).setLevel(_LEVELS[min(verbosity, 2)])
        COMMAND.info("command begun", command=command, version=__version__, process=os.getpid())

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        self._write(self._line_of(record))

    def stop(self, exit_code: int | None, seconds: float) -> None:
        """Write the end of the command, and no further lines."""
        COMMAND.info("command ended", exit_code=exit_code, seconds=seconds)
        self.remove()

    def remove(self) -> None:
        """Write no further lines."""
        for name in (_OURS, _SERVER):
            logging.getLogger(name).removeHandler(self)
        logging.getLogger(_OURS).setLevel(logging.NOTSET)


def json_note(text: str) -> str:
    """Return a note as JSON, with its level."""
    start = next((start for start in _NOTES if text.startswith(start)), "")
    message = text.removeprefix(start) if start in ("error: ", "warning: ") else text
    return _json_note(_NOTES.get(start, "INFO"), message)


def json_fault() -> str:
    """Return the exception that is handled, a fault of this program."""
    text = without_credentials(traceback.format_exc())
    return _json_note("ERROR", "a fault of this program; please report it", exception=text)


def _json_note(level: str, message: str, **fields: str) -> str:
    now = dt.datetime.now(dt.UTC).timestamp()
    content = {"time": _time(now), "level": level, "logger": _NOTE_LOGGER}
    return json.dumps({**content, "message": message, **fields})


def _json_record(record: logging.LogRecord) -> str:
    fields: dict[str, Any] = getattr(record, "fields", {})
    content = {
        "time": _time(record.created),
        "level": record.levelname,
        "logger": record.name,
        "message": getattr(record, "event", None) or record.getMessage(),
        **{name: _value(value) for name, value in fields.items()},
    }
    if record.exc_info and record.exc_info[0]:
        content["exception"] = _exception(record.exc_info)
    return json.dumps(content, allow_nan=False)


def _text_record(record: logging.LogRecord) -> str:
    from fastrank_eval.results.report import printable

    line = f"{_time(record.created)} {record.levelname} {record.name} "
    line += printable(record.getMessage())
    if record.exc_info and record.exc_info[0]:
        line += "".join(f"\n{printable(one)}" for one in _exception(record.exc_info).splitlines())
    return line


def _exception(exception: tuple[Any, ...]) -> str:
    return without_credentials("".join(traceback.format_exception(*exception)))


def _time(seconds: float) -> str:
    time = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"


def _value(value: object) -> object:
    if isinstance(value, float):
        return round(value, 6) if abs(value) < float("inf") else None
    return value if isinstance(value, (bool, int, str)) else str(value)
