"""Check output files before a run and write them after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval.apps.cli.options import (
    combine,
    csv_safe_option,
    format_option,
    option,
    overwrite_option,
    quiet_option,
)
from fastrank_eval.apps.cli.shell import (
    check_files,
    check_standard_output,
    emit,
    output_file,
    render_text,
)
from fastrank_eval.apps.cli.standard_error import note

if TYPE_CHECKING:
    from fastrank_eval.results.comparison import Comparison
    from fastrank_eval.results.result import Result, State
    from fastrank_eval.results.views import View

_SUFFIXES = {
    ".txt": "table",
    ".json": "json",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
    ".html": "html",
}
_FILE_WIDTH = 120
#: Methods that write documents, by format.
_DOCUMENTS = {"markdown": "to_markdown", "latex": "to_latex", "html": "to_html"}
#: Groups that other reports of a comparison list. Documents leave out the keys of users.
_LARGEST_CHANGES = 5

report_options = combine(
    format_option(
        "table",
        "json",
        "csv",
        "markdown",
        "latex",
        "html",
        help="Format of the report; by default from the suffix of --output, and table on "
        "standard output.",
    ),
    option(
        "Output",
        "-o",
        "--output",
        type=click.Path(),
        callback=output_file,
        help="Write the report to FILE instead of standard output ('-'): .txt, .json, .csv, .md, "
        ".tex or .html; any name with --format.",
    ),
    option(
        "Output",
        "--wide",
        is_flag=True,
        help="Print tables for each model. By default several models are columns, side by side. "
        "JSON and CSV do not change.",
    ),
    option(
        "Output",
        "--per-group",
        "per_group_file",
        type=click.Path(),
        help="Also write the values of every group; .parquet, .arrow or .csv (bytes as "
        "hexadecimal).",
    ),
    csv_safe_option,
    overwrite_option("Replace output files that exist."),
    quiet_option("No progress bar on a terminal, no notes of files written."),
)

state_file_option = option(
    "Output",
    "--save-state",
    "state_file",
    type=click.Path(),
    help="Also write the sums behind the values, for 'fastrank-eval merge'.",
)


class ReportFiles:
    """The output files of a run, checked before it starts.

    Parameters
    ----------
    sources : sequence of str
        The inputs. None of them may be written.
    options : dict of str to object
        Options of the command; those of `report_options` and the file of the state are removed.

    Attributes
    ----------
    form : str
        The format of the report, a choice of ``--format``.
    per_group, state : str or None
        Files of the values of groups and of the state.

    Raises
    ------
    OutputError
        If a file cannot be written, or its suffix names no format.
    """

    def __init__(self, sources: Sequence[str], options: dict[str, Any]) -> None:
        from fastrank_eval._lib.files import check_suffix
        from fastrank_eval.results.views import SUFFIXES

        output, report_format = options.pop("output"), options.pop("report_format")
        self._output, self.per_group = output, options.pop("per_group_file")
        self.state = options.pop("state_file", None)
        self._overwrite, self._csv_safe = options.pop("overwrite"), options.pop("csv_safe")
        self._wide = options.pop("wide")
        if output is None:
            check_standard_output()
        if self.per_group is not None:
            check_suffix("--per-group", self.per_group, SUFFIXES)
        outputs = {"--output": output, "--per-group": self.per_group, "--save-state": self.state}
        self._files = check_files(outputs, self._overwrite, sources, options.get("format"))
        self.form = report_format or "table"
        if output is not None and report_format is None:
            check_suffix("--output", output, list(_SUFFIXES), ", or choose --format")
            self.form = _SUFFIXES[Path(output).suffix.lower()]

    def largest_changes(self, requested: int | None) -> int:
        """Choose how many groups to list: by default none in a document."""
        if requested is not None:
            return requested
        return 0 if self.form in _DOCUMENTS else _LARGEST_CHANGES

    def write(
        self,
        result: Result | Comparison,
        quiet: bool,
        state: State | None = None,
        **choices: int,
    ) -> None:
        """Write the requested files: group values, state and report.

        Parameters
        ----------
        result : Result or Comparison
        quiet : bool
            Do not list the files written.
        state : State, optional
        **choices
            As in `report_text`.
        """
        from fastrank_eval._lib.files import atomic_path
        from fastrank_eval.results.views import write_table

        if self.per_group is not None:
            with atomic_path(self.per_group, overwrite=self._overwrite) as part:
                write_table(result.per_group, part, self.per_group, self._csv_safe)
        if self.state is not None and state is not None:
            state.save(self.state, overwrite=self._overwrite)
        width = None if self._output is None else _FILE_WIDTH
        text = report_text(result, self.form, width, self._csv_safe, self._wide, **choices)
        if self._output is None:
            emit(text)
        else:
            with atomic_path(self._output, overwrite=self._overwrite) as part:
                part.write_text(text, encoding="utf-8")
        for file in self._files if not quiet else ():
            note(f"wrote {file}")


def several_text(views: Sequence[View], form: str, csv_safe: bool, **choices: bool) -> str:
    """Write views as a list of JSON or as one table of CSV."""
    if form == "json":
        import json

        documents = [view.document(**choices) for view in views]
        return json.dumps(documents, indent=2, allow_nan=False) + "\n"
    tables = [view.to_csv(safe=csv_safe, **choices) for view in views]
    return tables[0] + "".join(table.partition("\n")[2] for table in tables[1:])


def report_text(
    result: Any,
    form: str,
    width: int | None,
    csv_safe: bool = False,
    wide: bool = False,
    **choices: int,
) -> str:
    """Format a result; without a width, tables fill the terminal.

    Parameters
    ----------
    result : Result or Comparison
    form : {"table", "json", "csv", "markdown", "latex", "html"}
    width : int or None
    csv_safe, wide : bool
    **choices
        For a comparison, `largest_changes`: the groups that changed most to list; `all_slices`:
        name all slices with a significant difference.
    """
    if form == "json":  # it has all slices
        choices.pop("all_slices", None)
        return str(result.to_json(**choices)) + "\n"
    if form == "csv":
        return str(result.to_csv(safe=csv_safe))
    if form == "table":
        return render_text(result.report(wide=wide, **choices), width)
    return str(getattr(result, _DOCUMENTS[form])(wide=wide, **choices))
