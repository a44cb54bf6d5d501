"""Check output files before a run and write them after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fastrank_eval.apps.cli.options import choice, combine, csv_safe_option, option
from fastrank_eval.apps.cli.shell import (
    check_files,
    check_standard_output,
    emit,
    note,
    output_file,
    render_text,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from fastrank_eval.results.result import Result
    from fastrank_eval.results.state import State

__all__ = ["ReportFiles", "report_options", "report_text", "state_file_option"]

_SUFFIXES = {".txt": "table", ".json": "json", ".csv": "csv", ".md": "markdown"}
_FILE_WIDTH = 120

report_options = combine(
    option(
        "Output",
        "-f",
        "--format",
        "report_format",
        type=choice("table", "json", "csv", "markdown"),
        help="Format of the report; by default from the suffix of --output, and table on "
        "standard output.",
    ),
    option(
        "Output",
        "-o",
        "--output",
        type=click.Path(),
        callback=output_file,
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
    help="Also write the sums behind the values, for 'fastrank-eval merge'.",
)


class ReportFiles:
    """The output files of a run, checked before it starts.

    Parameters
    ----------
    report_format, output, per_group_file : str or None
    overwrite : bool
    sources : sequence of str
        The inputs. None of them may be written.
    state_file : str or None
        The file of the state.
    input_format : str or None
        The format of every source. By default the suffix decides.
    csv_safe : bool
        In CSV, put an apostrophe before text that a spreadsheet would read as a formula.

    Attributes
    ----------
    form : str
        The format of the report: ``"table"``, ``"json"``, ``"csv"`` or ``"markdown"``.

    Raises
    ------
    OutputError
        If a file cannot be written, or its suffix names no format.
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
        from fastrank_eval.results.tables import SUFFIXES

        if output is None:
            check_standard_output()
        if per_group_file is not None:
            check_suffix("--per-group", per_group_file, SUFFIXES)
        outputs = {"--output": output, "--per-group": per_group_file, "--save-state": state_file}
        self._files = check_files(outputs, overwrite, sources, input_format)
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
        """Write the requested files: group values, state and report.

        Parameters
        ----------
        report : callable
            Takes a width and returns the text; None is the width of the terminal.
        per_group : callable
            Returns the table of groups.
        quiet : bool
            Do not list the files written.
        state : callable, optional
            Returns the state.
        """
        from fastrank_eval._lib.files import atomic_path
        from fastrank_eval.results.tables import write_table

        if self._per_group is not None:
            with atomic_path(self._per_group, overwrite=self._overwrite) as part:
                write_table(per_group(), part, self._per_group, self.csv_safe)
        if self._state is not None and state is not None:
            state().save(self._state, overwrite=self._overwrite)
        if self._output is None:
            emit(report(None))
        else:
            with atomic_path(self._output, overwrite=self._overwrite) as part:
                part.write_text(report(_FILE_WIDTH), encoding="utf-8")
        for file in self._files if not quiet else ():
            note(f"wrote {file}")


def report_text(result: Result, form: str, width: int | None, csv_safe: bool = False) -> str:
    """Format a result; without a width, tables fill the terminal."""
    if form == "json":
        return result.to_json() + "\n"
    if form == "csv":
        return result.to_csv(safe=csv_safe)
    if form == "markdown":
        return result.to_markdown()
    return render_text(result, width)
