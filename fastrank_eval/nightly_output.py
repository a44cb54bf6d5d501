"""What a nightly run tells besides its pages: each night on standard output, all in a summary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastrank_eval.errors import FastRankEvalError, OutputError
from fastrank_eval.output import atomic_path, check_writable
from fastrank_eval.shell import emit, note

if TYPE_CHECKING:
    from fastrank_eval.report.config import NightlyConfig

__all__ = ["NightlyOutput"]

_STANDARD = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


class NightlyOutput:
    """Standard output and the summary; that one is lost does not keep nights from being run.

    Parameters
    ----------
    summary : str or None
        Where the summary goes, ``"-"`` for standard output; None: there is none.
    """

    def __init__(self, summary: str | None) -> None:
        self._file = "-" if summary in _STANDARD else summary
        self._pipe_closed = False
        self._lost = False
        self.nights: list[dict[str, Any]] = []

    @property
    def summarized(self) -> bool:
        """Whether there is a summary."""
        return self._file is not None

    @property
    def printed(self) -> bool:
        """Whether the summary takes standard output."""
        return self._file == "-"

    def check(self, config: str) -> None:
        """Refuse a summary that cannot be written, or that would replace what is none.

        Parameters
        ----------
        config : str
            The file of the configuration.

        Raises
        ------
        OutputError
        """
        if self._file is None or self.printed:
            return
        target = check_writable(self._file, overwrite=True)
        if target == Path(os.path.realpath(config)):
            raise OutputError(f"--json {self._file!r} is the configuration; name another file.")
        with suppress(FileNotFoundError), target.open("rb") as file:
            if file.read(1) not in (b"", b"{"):
                raise OutputError(
                    f"--json {self._file!r} holds something else than a summary; name another "
                    "file, or remove it."
                )

    def check_apart(self, config: NightlyConfig) -> None:
        """Refuse a summary where the run itself writes.

        Raises
        ------
        OutputError
        """
        if self._file is None or self.printed:
            return
        target = Path(os.path.realpath(self._file))
        history = os.path.realpath(config.history)
        if str(target) in (history, f"{history}-journal"):
            raise OutputError(f"--json {self._file!r} is the history; name another file.")
        source = config.source_of(target)
        if source is not None:
            raise OutputError(
                f"--json: must lie outside the source {source!r}, got {self._file!r}; a later run "
                "would read it, so name a file in another folder."
            )
        if config.folder is None or target.suffix != ".html":
            return
        if target.parent == Path(os.path.realpath(config.folder)):
            raise OutputError(f"--json {self._file!r} is a page; name another file.")

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Tell in the summary why there is no night in it, where that is refused within."""
        try:
            yield
        except FastRankEvalError as error:
            with suppress(OutputError, BrokenPipeError):
                self._write(2, str(error))
            raise

    def tell(self, text: str) -> None:
        """Write to standard output, as long as somebody reads it."""
        if self._lost:
            return
        try:
            emit(text)
        except BrokenPipeError:
            self._lost = self._pipe_closed = True
        except OutputError as error:
            self._lost = True
            note(f"error: {error}")

    def end(self, code: int, otherwise: int) -> int:
        """Write the summary.

        Parameters
        ----------
        code : int
            What the nights came to.
        otherwise : int
            The exit code where they came to nothing worse, but are not told whole.

        Returns
        -------
        int
            The exit code.

        Raises
        ------
        BrokenPipeError
            If the reader of standard output has gone.
        """
        if self.summarized:
            try:
                self._write(code)
            except OutputError as error:
                from fastrank_eval.report.night_json import nights_json

                self._lost = True
                note(f"error: {error} The summary is:\n{nights_json(self.nights, code)}")
        if self._pipe_closed:
            raise BrokenPipeError
        return code or (otherwise if self._lost else 0)

    def _write(self, code: int, error: str | None = None) -> None:
        from fastrank_eval.report.night_json import nights_json

        text = nights_json(self.nights, code, error)
        if self.printed:
            self.tell(text)
        elif self._file is not None:
            with atomic_path(self._file) as part:
                part.write_text(text, encoding="utf-8")
