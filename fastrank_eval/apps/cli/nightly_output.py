"""Write what a nightly run prints, and its summary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastrank_eval._lib.addresses import without_credentials
from fastrank_eval._lib.errors import FastRankEvalError, OutputError
from fastrank_eval._lib.files import atomic_path, check_writable
from fastrank_eval.apps.cli.exit_codes import ExitCode
from fastrank_eval.apps.cli.shell import emit
from fastrank_eval.apps.cli.standard_error import note

if TYPE_CHECKING:
    from fastrank_eval.apps.nightly.config import NightlyConfig

_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


class NightlyOutput:
    """Standard output and the summary; errors of writing do not stop a run.

    Parameters
    ----------
    summary : str or None
        The file of the summary, ``"-"`` for standard output; None for no summary.
    """

    def __init__(self, summary: str | None) -> None:
        self._path = "-" if summary in _STANDARD_OUTPUT else summary
        self._pipe_closed = False
        self._failed = False
        self.nights: list[dict[str, Any]] = []

    @property
    def has_summary(self) -> bool:
        """Whether there is a summary."""
        return self._path is not None

    @property
    def prints_summary(self) -> bool:
        """Whether the summary goes to standard output."""
        return self._path == "-"

    def check(self, config: str) -> None:
        """Refuse a summary that cannot be written or replaces another file.

        Parameters
        ----------
        config : str
            The configuration file.

        Raises
        ------
        OutputError
        """
        if self._path is None or self.prints_summary:
            return
        target = check_writable(self._path, overwrite=True)
        if target == Path(os.path.realpath(config)):
            raise OutputError(f"--json {self._path!r} is the configuration; name another file.")
        with suppress(FileNotFoundError), target.open("rb") as file:
            if file.read(1) not in (b"", b"{"):
                raise OutputError(
                    f"--json {self._path!r} has other content than a summary; name another "
                    "file, or remove it."
                )

    def check_outside(self, config: NightlyConfig) -> None:
        """Refuse a summary among the sources and outputs of the run.

        Raises
        ------
        OutputError
        """
        if self._path is None or self.prints_summary:
            return
        target = Path(os.path.realpath(self._path))
        history = os.path.realpath(config.history)
        if str(target) in (history, f"{history}-journal"):
            raise OutputError(f"--json {self._path!r} is the history; name another file.")
        remedy = "read it, so name a file in another folder"
        config.check_outside(target, "--json", self._path, remedy)
        if config.folder is None or target.suffix != ".html":
            return
        folders = [config.folder, *(each.folder for each in config.for_labels() if each.folder)]
        if target.parent in [Path(os.path.realpath(folder)) for folder in folders]:
            raise OutputError(f"--json {self._path!r} is a page; name another file.")

    def remove_old(self) -> None:
        """Remove an earlier summary, so that an interrupted run leaves none."""
        if self._path is not None and not self.prints_summary:
            with suppress(FileNotFoundError):
                Path(self._path).unlink()

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Write an error raised inside the block to the summary."""
        try:
            yield
        except FastRankEvalError as error:
            with suppress(OutputError, BrokenPipeError):
                self._write_summary(ExitCode.BAD_INPUT, without_credentials(str(error)))
            raise

    def print_text(self, text: str) -> None:
        """Write to standard output until its reader has gone."""
        if self._failed:
            return
        try:
            emit(text)
        except BrokenPipeError:
            self._failed = self._pipe_closed = True
        except OutputError as error:
            self._failed = True
            note(f"error: {error}")

    def finish(self, code: ExitCode) -> ExitCode:
        """Write the summary.

        Parameters
        ----------
        code : ExitCode
            The exit code of the nights.

        Returns
        -------
        ExitCode
            The same, or NOT_SHOWN if that is DONE and some output could not be written.

        Raises
        ------
        BrokenPipeError
            If the reader of standard output has closed the pipe.
        """
        if self.has_summary:
            try:
                self._write_summary(code)
            except OutputError as error:
                from fastrank_eval.apps.nightly.summary_files import nights_json

                self._failed = True
                note(f"error: {error} The summary is:\n{nights_json(self.nights, code)}")
        if self._pipe_closed:
            raise BrokenPipeError
        return code or (ExitCode.NOT_SHOWN if self._failed else ExitCode.DONE)

    def _write_summary(self, code: int, error: str | None = None) -> None:
        from fastrank_eval.apps.nightly.summary_files import nights_json

        text = nights_json(self.nights, code, error)
        if self.prints_summary:
            self.print_text(text)
        elif self._path is not None:
            with atomic_path(self._path) as part:
                part.write_text(text, encoding="utf-8")
