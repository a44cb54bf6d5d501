"""Write log lines with fields, by loggers with stable names."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from fastrank_eval._lib.errors import without_credentials

#: The name of each logger, and the lines that it writes. All are below the first.
LOGGERS = {
    "fastrank_eval": "the lines of all loggers below",
    "fastrank_eval.io": "files that are opened, with rows and row groups",
    "fastrank_eval.kernels": "kernels that are loaded or compiled",
    "fastrank_eval.run": "passes over the rows, with rows, groups and seconds",
    "fastrank_eval.nightly": "nights, updates of the history, pages and messages",
    "fastrank_eval.serve": "requests, and pages that cannot be drawn",
    "fastrank_eval.command": "begin and end of a command; its errors, by `--log-json`",
}

# Without a handler of the program, nothing is written.
logging.getLogger("fastrank_eval").addHandler(logging.NullHandler())


class Log:
    """A logger of lines with fields.

    A line is the record of a logger: its message has the fields as text, and its attribute
    ``fields`` as values. If the level is off, a call formats nothing.

    Parameters
    ----------
    name : str
        One of `LOGGERS`.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def is_on(self, level: int) -> bool:
        """Return whether lines of a level are written."""
        return self._logger.isEnabledFor(level)

    def debug(self, event: str, **fields: object) -> None:
        """Write a detail."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Write a step of a run."""
        if self._logger.isEnabledFor(logging.INFO):
            self._write(logging.INFO, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Write a fault of the program, with the exception that is handled."""
        self._write(logging.ERROR, event, fields, with_exception=True)

    def _write(
        self, level: int, event: str, fields: Mapping[str, object], with_exception: bool = False
    ) -> None:
        known = {
            name: value if isinstance(value, (int, float)) else without_credentials(str(value))
            for name, value in fields.items()
            if value is not None
        }
        texts = " ".join(f"{name}={_text(value)}" for name, value in known.items())
        self._logger.log(
            level,
            "%s%s",
            event,
            f": {texts}" if texts else "",
            exc_info=with_exception,
            extra={"event": event, "fields": known},
            stacklevel=3,
        )


def _text(value: object) -> str:
    """Write a value of a field; texts with blanks and signs are quoted."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if re.fullmatch(r"[\w.,:/+=@%-]+", text) else repr(text)


#: The loggers below the package.
IO, KERNELS, RUN, NIGHTLY, SERVE, COMMAND = map(Log, list(LOGGERS)[1:])
