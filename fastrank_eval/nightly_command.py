"""The command ``nightly``: last night's rows to history, page and exit code."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fastrank_eval.errors import ArgumentError, FastRankEvalError, OutputError
from fastrank_eval.nightly_output import NightlyOutput
from fastrank_eval.options import option
from fastrank_eval.shell import SectionedCommand, check_standard_output, note
from fastrank_eval.stops import raise_if_stopped, signals_held

if TYPE_CHECKING:
    from fastrank_eval.report.config import NightlyConfig
    from fastrank_eval.report.nightly import NightRun
    from fastrank_eval.report.nights import Night

__all__ = ["DATA_QUALITY", "NOT_SHOWN", "REGRESSION", "nightly"]

#: Exit codes; of several nights the first of 2, 4, 3, 5 counts that there is.
BAD_INPUT, REGRESSION, DATA_QUALITY, NOT_SHOWN = 2, 3, 4, 5
_CODES = {"fine": 0, "changed": 0, "regression": REGRESSION, "data_quality": DATA_QUALITY}
_WORST_FIRST = (BAD_INPUT, DATA_QUALITY, REGRESSION, NOT_SHOWN)


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval nightly --init nightly.toml
  fastrank-eval nightly nightly.toml
  fastrank-eval nightly nightly.toml --date 2026-11-19 --json -
  fastrank-eval nightly nightly.toml --backfill 2026-11-01..2026-11-19

Exit codes: 0 fine or changed, 2 bad input (nothing was written), 3 a gate failed or a model has too
few distinct scores, 4 the rows are not sound (whatever the gates say), 5 fine and kept but a page
or the summary could not be written, 130 interrupted, 143 terminated, 129 hung up.""",
)
@click.argument("config", type=click.Path(), default="nightly.toml", metavar="[CONFIG]")
@option("Night", "--date", metavar="DATE", help="The night, as 2026-11-19; by default yesterday.")
@option(
    "Night",
    "--backfill",
    metavar="FIRST..LAST",
    help="Every night from one date to another; one that cannot be read does not keep the others "
    "from being written.",
)
@option("Night", "--dry-run", is_flag=True, help="Evaluate and judge, and write nothing.")
@option(
    "Output",
    "--json",
    "json_file",
    type=click.Path(),
    metavar="FILE",
    help="Write a summary for webhooks to FILE; '-' is standard output.",
)
@option("Output", "--markdown", is_flag=True, help="Print each night as markdown for chat.")
@option(
    "Output",
    "--export",
    type=click.Path(),
    metavar="FOLDER",
    help="Evaluate nothing: write the history as Parquet files to FOLDER.",
)
@option("Output", "--init", is_flag=True, help="Write an example to CONFIG, and stop.")
@option("Output", "-q", "--quiet", is_flag=True, help="No progress bar, no lines but errors.")
def nightly(
    config: str,
    date: str | None,
    backfill: str | None,
    dry_run: bool,
    json_file: str | None,
    markdown: bool,
    export: str | None,
    init: bool,
    quiet: bool,
) -> None:
    """Evaluate last night's rows, compare them, keep them, and write a page.

    CONFIG is a TOML file, nightly.toml unless named. A night that is there already is replaced, and
    nothing else changes.
    """
    chosen = {
        "--date": date, "--backfill": backfill, "--dry-run": dry_run, "--json": json_file,
        "--markdown": markdown, "--export": export,
    }  # fmt: skip
    if init:
        _refuse_beside("--init", chosen)
        _write_example(config)
        return
    check_standard_output("--json FILE")
    with signals_held():
        from fastrank_eval.report.config import read_config
    if export is not None:
        _refuse_beside("--export", {name: chosen[name] for name in chosen if name != "--export"})
        _export(read_config(config), export, quiet)
        return
    output = NightlyOutput(json_file)
    if output.printed and markdown:
        raise ArgumentError("--json - and --markdown both write to standard output; choose one.")
    output.check(config)
    with output.refusals():
        read, dates = read_config(config), _dates(date, backfill)
    output.check_apart(read)
    with output.refusals():
        from fastrank_eval.report.pages import check_pages
        from fastrank_eval.report.rehearsal import rehearsed

        if not dry_run:
            check_pages(read, dates)
        # Each of several nights is to see those before it, as it would.
        with rehearsed(read) if dry_run and len(dates) > 1 else nullcontext(read) as config_used:
            dry = dry_run and len(dates) == 1
            silent = quiet or output.printed
            codes = {_night(config_used, each, dry, markdown, silent, output) for each in dates}
    code = next((worst for worst in _WORST_FIRST if worst in codes), 0)
    code = output.end(code, NOT_SHOWN)
    if code:
        raise click.exceptions.Exit(code)


def _refuse_beside(option: str, others: Mapping[str, object]) -> None:
    given = [name for name, value in others.items() if value not in (None, False)]
    if given:
        raise ArgumentError(f"{option} evaluates nothing: leave out {' and '.join(given)}.")


def _night(
    config: NightlyConfig,
    date: dt.date,
    dry_run: bool,
    markdown: bool,
    silent: bool,
    output: NightlyOutput,
) -> int:
    """Run a night and tell of it; its exit code."""
    from fastrank_eval.bar import progress_bar
    from fastrank_eval.cell_texts import printable
    from fastrank_eval.report.night_json import night_dict
    from fastrank_eval.report.night_markdown import night_lines, night_markdown
    from fastrank_eval.report.nightly import nightly as run
    from fastrank_eval.report.pages import write_pages

    try:
        with progress_bar(silent) as progress:
            done = run(config, date, dry_run=dry_run, progress=progress)
        raise_if_stopped()
    except FastRankEvalError as error:
        note(f"error: {date}: {printable(str(error))}")
        output.nights.append({"date": date.isoformat(), "error": str(error)})
        return BAD_INPUT
    # What follows is told of a night that is kept, whatever becomes of its page.
    night, page, failure = done.night, None, None
    try:
        if output.summarized or (config.folder is not None and not dry_run):
            night = _with_periods(config, done)
        if not dry_run:
            page = next(iter(write_pages(config, night)), None)
    except FastRankEvalError as error:
        failure = str(error)
        note(f"error: {date}: the night was evaluated, but not shown: {printable(failure)}")
    raise_if_stopped()
    if output.summarized:
        output.nights.append(night_dict(night, None if page is None else str(page), failure))
    if markdown:
        output.tell(night_markdown(night, None if page is None else str(page)))
    elif not silent:
        output.tell(night_lines(night))
    return _CODES[night.status] or (NOT_SHOWN if failure is not None else 0)


def _with_periods(config: NightlyConfig, done: NightRun) -> Night:
    from fastrank_eval.report.history import History
    from fastrank_eval.report.periods import with_periods

    if not config.history.exists():  # of a dry run
        return with_periods(done.night, None, done.kept)
    with History(config.history, readonly=True) as history:
        return with_periods(done.night, history, done.kept)


def _dates(date: str | None, backfill: str | None) -> list[dt.date]:
    from fastrank_eval.report.dates import date_of, nights_of

    if date is not None and backfill is not None:
        raise ArgumentError("--date and --backfill both say which nights; give one of them.")
    if backfill is not None:
        return nights_of(backfill)
    if date is not None:
        return [date_of(date)]
    try:
        return [dt.datetime.now().astimezone().date() - dt.timedelta(days=1)]
    except (ValueError, OverflowError):
        raise ArgumentError(
            f"TZ={os.environ.get('TZ')!r}: no clock has that time zone; set another, "
            "or name the night with --date."
        ) from None


def _write_example(path: str) -> None:
    from fastrank_eval.output import atomic_path
    from fastrank_eval.report.config_example import EXAMPLE

    if Path(path).exists():
        raise OutputError(f"{path!r} exists already; name another file, or remove it.")
    with atomic_path(path, overwrite=False) as part:
        part.write_text(EXAMPLE, encoding="utf-8")
    note(f"wrote {path}")


def _export(config: NightlyConfig, folder: str, quiet: bool) -> None:
    from fastrank_eval.report.history import History

    source = config.source_of(Path(folder, "value.parquet"))
    if source is not None:
        raise OutputError(
            f"--export: must lie outside the source {source!r}, got {folder!r}; a later run would "
            "read it, so name another folder."
        )
    with History(config.history, readonly=True) as history:
        written = history.export(folder)
    for path in written if not quiet else ():
        note(f"wrote {path}")
