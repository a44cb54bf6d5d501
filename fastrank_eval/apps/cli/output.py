"""Where a report goes: the options that say so, checked before the work and written after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fastrank_eval._lib.signals import on_forced_exit
from fastrank_eval.apps.cli.options import choice, csv_safe_option, option, together
from fastrank_eval.apps.cli.shell import (
    check_files,
    check_standard_output,
    emit,
    note,
    rendered,
    written_file,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from fastrank_eval.results.result import Result
    from fastrank_eval.results.state import State

__all__ = ["ReportFiles", "report_options", "report_text", "state_file_option"]

_SUFFIXES = {".txt": "table", ".json": "json", ".csv": "csv", ".md": "markdown"}
_FILE_WIDTH = 120

report_options = together(
    option(
        "Output",
        "-f",
        "--format",
        "report_format",
        type=choice("table", "json", "csv", "markdown"),
        help="Format of the report; by default as the suffix of --output tells, and table on "
        "standard output.",
    ),
    option(
        "Output",
        "-o",
        "--output",
        type=click.Path(),
        callback=written_file,
        metavar="FILE",
        help="Write the report to FILE instead of standard output ('-'): .txt, .json, .csv or .md; "
        "any name with --format.",
    ),
    option(
        "Output",
        "--per-group",
        "per_group_file",
        type=click.Path(),
        metavar="FILE",
        help="Also write the values of every group; .parquet, .arrow or .csv (bytes as "
        "hexadecimal).",
    ),
    csv_safe_option,
    option("Output", "--overwrite", is_flag=True, help="Replace output files that exist."),
    option(
        "Output",
        "-q",
        "--quiet",
        is_flag=True,
        help="No progress bar on a terminal, no notes of files written.",
    ),
)

state_file_option = option(
    "Output",
    "--save-state",
    "state_file",
    type=click.Path(),
    metavar="FILE",
    help="Also write what the values were computed from, for 'fastrank-eval merge'.",
)


class ReportFiles:
    """The outputs of a run; those that cannot be written are refused at once.

    Parameters
    ----------
    report_format, output, per_group_file : str or None
    overwrite : bool
    sources : sequence of str
        What is read, none of which may be written.
    state_file : str or None
        Where the state goes.
    input_format : str or None
        The format that sources are read by, whatever their suffix.
    csv_safe : bool
        Put an apostrophe before text of CSV that a spreadsheet takes for a formula.

    Attributes
    ----------
    form : str
        Of the report: ``"table"``, ``"json"``, ``"csv"`` or ``"markdown"``.

    Raises
    ------
    OutputError
        If one cannot be written, or its suffix tells no format.
    """

    def __init__(
        self,
        report_format: str | None,
        output: str | None,
        per_group_file: str | None,
        overwrite: bool,
        sources: Sequence[str],
        state_file: str | None = None,
        input_format: str | None = None,
        *,
        csv_safe: bool = False,
    ) -> None:
        from fastrank_eval._lib.files import check_suffix
        from fastrank_eval.results.table_files import SUFFIXES

        if output is None:
            check_standard_output()
        if per_group_file is not None:
            check_suffix("--per-group", per_group_file, SUFFIXES)
        named = {"--output": output, "--per-group": per_group_file, "--save-state": state_file}
        self._files = check_files(named, overwrite, sources, input_format)
        self.form = report_format or "table"
        if output is not None and report_format is None:
            check_suffix("--output", output, list(_SUFFIXES), ", or choose --format")
            self.form = _SUFFIXES[Path(output).suffix.lower()]
        self._output, self._per_group, self._overwrite = output, per_group_file, overwrite
        self._state, self.csv_safe = state_file, csv_safe

    def write(
        self,
        report: Callable[[int | None], str],
        per_group: Callable[[], pa.Table],
        quiet: bool,
        state: Callable[[], State] | None = None,
    ) -> None:
        """Write the values of every group and the state, if they are asked for, and the report.

        Parameters
        ----------
        report : callable
            The text for a width; None: as wide as the terminal.
        per_group : callable
            The table.
        quiet : bool
            Do not tell of files written.
        state : callable, optional
            The state.
        """
        from fastrank_eval._lib.files import atomic_path
        from fastrank_eval.results.table_files import write_table

        if self._per_group is not None:
            with (
                atomic_path(self._per_group, overwrite=self._overwrite) as part,
                on_forced_exit(part.unlink),
            ):
                write_table(per_group(), part, self._per_group, self.csv_safe)
        if self._state is not None and state is not None:
            state().save(self._state, overwrite=self._overwrite)
        if self._output is None:
            emit(report(None))
        else:
            with (
                atomic_path(self._output, overwrite=self._overwrite) as part,
                on_forced_exit(part.unlink),
            ):
                part.write_text(report(_FILE_WIDTH), encoding="utf-8")
        for file in self._files if not quiet else ():
            note(f"wrote {file}")


def report_text(result: Result, form: str, width: int | None, csv_safe: bool = False) -> str:
    """A result in a form; tables are as wide as the terminal where no width is given."""
    if form == "json":
        return result.to_json() + "\n"
    if form == "csv":
        return result.to_csv(safe=csv_safe)
    if form == "markdown":
        return result.to_markdown()
    return rendered(result, width)
