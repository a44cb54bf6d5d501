"""Define the commands nightly and serve.

Write what a nightly run prints, and its summary.
"""

from __future__ import annotations

import datetime as dt
import os
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fastrank_eval._lib.errors import (
    ArgumentError,
    FastRankEvalError,
    HistoryError,
    OutputError,
    without_credentials,
)
from fastrank_eval._lib.files import atomic_path, check_writable
from fastrank_eval.apps.cli.options import complete_files, option
from fastrank_eval.apps.cli.shell import (
    STANDARD_OUTPUT,
    ExitCode,
    SectionedCommand,
    check_standard_output,
    emit,
    worst,
)
from fastrank_eval.apps.cli.standard_error import note, progress_bar

if TYPE_CHECKING:
    from fastrank_eval.apps.nightly.config import NightlyConfig
    from fastrank_eval.apps.nightly.run import NightRun


class NightlyOutput:
    """Standard output and the summary; errors of writing do not stop a run.

    Parameters
    ----------
    summary : str or None
        The file of the summary, ``"-"`` for standard output; None for no summary.
    """

    def __init__(self, summary: str | None) -> None:
        self._path = "-" if summary in STANDARD_OUTPUT else summary
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


_STATUS_CODES = {
    "fine": ExitCode.DONE,
    "changed": ExitCode.DONE,
    "provisional": ExitCode.DONE,
    "regression": ExitCode.GATE_FAILED,
    "data_quality": ExitCode.DATA_QUALITY,
}


class _Nightly(SectionedCommand):
    """The command of a night, with a command of its own for old nights."""

    def make_context(
        self, info_name: str | None, args: list[str], *others: Any, **settings: Any
    ) -> click.Context:
        """Return the context of ``prune`` if that is the first word."""
        if args[:1] == ["prune"]:
            return prune.make_context(f"{info_name} prune", args[1:], *others, **settings)
        return super().make_context(info_name, args, *others, **settings)


@click.command(
    cls=_Nightly,
    epilog="""\b
Examples:
  fastrank-eval nightly --init nightly.toml
  fastrank-eval nightly nightly.toml
  fastrank-eval nightly nightly.toml --date 2026-11-19 --json -
  fastrank-eval nightly nightly.toml --no-labels
  fastrank-eval nightly nightly.toml --backfill 2026-11-01..2026-11-19
  fastrank-eval nightly prune nightly.toml --keep 400d --keep-states 35d""",
)
@click.argument("config", type=click.Path(), default="nightly.toml", metavar="[CONFIG]")
@option(
    "Night", "--date", metavar="DATE", help="The night, such as 2026-11-19; by default yesterday."
)
@option(
    "Night",
    "--backfill",
    metavar="FIRST..LAST",
    help="Every night from one date to another. A night that cannot be read does not stop the "
    "others.",
)
@option("Night", "--dry-run", is_flag=True, help="Evaluate and judge, but write nothing.")
@option(
    "Night",
    "--no-labels",
    is_flag=True,
    help="Read no labels: judge rows, nulls, distinct scores and drift. A later run with labels "
    "replaces the night.",
)
@option(
    "Output",
    "--json",
    "json_file",
    type=click.Path(),
    help="Write a summary for webhooks to FILE; '-' is standard output.",
)
@option("Output", "--markdown", is_flag=True, help="Print each night as markdown for chat.")
@option(
    "Output",
    "--export",
    type=click.Path(),
    metavar="FOLDER",
    help="Write the history as Parquet files to FOLDER, and evaluate nothing.",
)
@option("Output", "--init", is_flag=True, help="Write an example to CONFIG, and stop.")
@option("Output", "-q", "--quiet", is_flag=True, help="No progress bar, and only errors.")
def nightly(
    config: str,
    date: str | None,
    backfill: str | None,
    dry_run: bool,
    no_labels: bool,
    json_file: str | None,
    markdown: bool,
    export: str | None,
    init: bool,
    quiet: bool,
) -> None:
    """Evaluate last night's rows and write a page.

    CONFIG is a TOML file, by default nightly.toml. If the history has a night already, it is
    replaced. Provisional nights are judged again once their labels are complete. Other nights do
    not change. 'nightly prune' removes old nights: see 'nightly prune --help'.
    """
    options = {
        "--date": date, "--backfill": backfill, "--dry-run": dry_run, "--no-labels": no_labels,
        "--json": json_file, "--markdown": markdown, "--export": export,
    }  # fmt: skip
    if init:
        _check_exclusive("--init", options)
        _write_example(config)
        return
    check_standard_output("--json FILE")
    from fastrank_eval.apps.nightly.config import read_config

    if export is not None:
        _check_exclusive("--export", options)
        _export(read_config(config), export, quiet)
        return
    output = NightlyOutput(json_file)
    if output.prints_summary and markdown:
        raise ArgumentError("--json - and --markdown both write to standard output; choose one.")
    output.check(config)
    with output.report_errors():
        settings, dates = read_config(config), _requested_dates(date, backfill)
    if dry_run or backfill is not None:
        settings = replace(settings, notify=None)
    output.check_outside(settings)
    output.remove_old()
    with output.report_errors():
        from fastrank_eval.apps.nightly.pages import check_pages, write_late_pages
        from fastrank_eval.apps.nightly.run import due_nights, with_history_copy

        now, no_label_dates = dt.datetime.now(dt.UTC), dates if no_labels else []
        silent = quiet or output.prints_summary
        with with_history_copy(settings) if dry_run else nullcontext(settings) as run_settings:
            nights = due_nights(run_settings, now).items()
            due = {night: labels for night, labels in nights if night not in dates}
            dates = sorted([*dates, *due])
            check_pages(run_settings, dates)
            what = "error: pages of earlier nights were not written"
            _, failure = _tried(what, write_late_pages, run_settings, dates)
            late = ExitCode.NOT_SHOWN if failure else ExitCode.DONE
            codes = {
                _run_night(
                    run_settings.select(due[each]) if each in due else run_settings, each, now,
                    due, each not in no_label_dates, markdown, silent, output,
                    is_last=each == dates[-1],
                )
                for each in dates
            }  # fmt: skip
    code = output.finish(worst({*codes, late}))
    if code:
        raise click.exceptions.Exit(code)


def _check_exclusive(exclusive: str, options: Mapping[str, object]) -> None:
    given = [name for name, value in options.items() if value not in (None, False)]
    others = " and ".join(name for name in given if name != exclusive)
    if others:
        raise ArgumentError(f"{exclusive} evaluates nothing: leave out {others}.")


def _run_night(
    config: NightlyConfig,
    date: dt.date,
    now: dt.datetime,
    due: Collection[dt.date],
    labels: bool,
    markdown_wanted: bool,
    quiet: bool,
    output: NightlyOutput,
    *,
    is_last: bool,
) -> ExitCode:
    """Run a night, print it and return its exit code."""
    from fastrank_eval.apps.nightly.documents import document, documents
    from fastrank_eval.apps.nightly.pages import write_index, write_pages
    from fastrank_eval.apps.nightly.run import nightly as run_night
    from fastrank_eval.apps.nightly.summary_files import lines, markdown, summary
    from fastrank_eval.apps.nightly.text import NOT_EVALUATED
    from fastrank_eval.results.report import printable

    configs = config.for_labels()
    try:
        with progress_bar(quiet) as progress:
            outcomes = run_night(config, date, labels=labels, now=now, progress=progress)
    except FastRankEvalError as error:
        reason = without_credentials(str(error))
        if date in due and not isinstance(error, HistoryError):
            return _keep_provisional(config, date, reason)
        note(f"error: {date}: {printable(reason)}")
        content = {"date": date.isoformat(), "status": NOT_EVALUATED, "error": reason}
        message = [config.title, f"{date} NOT EVALUATED: {printable(reason)}"]
        _notify(config, date, [NOT_EVALUATED] * len(configs), message, [content])
        if not isinstance(error, HistoryError):
            what = f"warning: {date}: the history and the pages do not say so"
            _tried(what, _store_failure, config, date, printable(reason))
        output.nights.append(content)
        return ExitCode.BAD_INPUT
    shown = [_show_night(each, outcome) for each, outcome in zip(configs, outcomes, strict=True)]
    what = f"error: {date}: the list of nights was not written"
    index, failed = _tried(what, write_index, config)
    nights, pages = [each.night for each in outcomes], [each.page for each in shown]
    told = documents(nights)
    message = [config.title, *lines(told, calibration=is_last).splitlines()]
    message += filter(None, [index if config.parts else pages[0]])
    contents = [
        summary(
            one, page=each.page, page_error=each.failure, groups=each.groups,
            compared_again=[*map(document, outcome.again)],
        )
        for one, each, outcome in zip(told, shown, outcomes, strict=True)
    ]  # fmt: skip
    unsent = _notify(config, date, [night.status for night in nights], message, contents)
    if unsent is not None:
        for one, each in zip(told, contents, strict=True):
            one["notes"].append(unsent)
            each |= {"notify_error": unsent, "notes": one["notes"]}
        with suppress(FastRankEvalError):  # the pages are there, without the note
            for own, night in zip(configs, nights, strict=True):
                write_pages(own, replace(night, notes=(*night.notes, unsent)))
    output.nights += contents if output.has_summary else []
    if markdown_wanted:
        strips = [_statuses(each, date) for each in configs]
        output.print_text(markdown(told, pages, index, strips, calibration=is_last))
    elif not quiet:
        output.print_text(lines(told, calibration=is_last))
    codes = {_STATUS_CODES[night.status] for night in nights}
    codes |= {_STATUS_CODES[later.status] for outcome in outcomes for later in outcome.again}
    if failed or any(each.failure is not None for each in shown):
        codes.add(ExitCode.NOT_SHOWN)
    return worst(codes)


class _ShownNight(NamedTuple):
    """The page of a night or why there is none, and its worst groups."""

    page: str | None
    failure: str | None
    groups: str | None


def _tried(
    what: str, function: Callable[..., Any], *arguments: object
) -> tuple[str | None, str | None]:
    """Return the path that a function writes, and why it failed, after a note."""
    from fastrank_eval.results.report import printable

    try:
        path = function(*arguments)
    except FastRankEvalError as error:
        reason = without_credentials(str(error))
        note(f"{what}: {printable(reason)}")
        return None, reason
    return None if path is None else str(path), None


def _show_night(config: NightlyConfig, outcome: NightRun) -> _ShownNight:
    """Write the page of the night of a label."""
    from fastrank_eval.apps.nightly.pages import write_again, write_pages
    from fastrank_eval.apps.nightly.reproduce import write_groups

    # The history now has the night, so the summary lists it even if its page fails.
    night, page = outcome.night, None
    what = f"warning: {night.date}: the worst groups were not written"
    groups, _ = _tried(what, write_groups, config, night)

    def write() -> None:
        nonlocal page
        page = next((str(path) for path in write_pages(config, night)), None)
        write_again(config, outcome.again)

    _, failure = _tried(f"error: {night.date}: the night was evaluated, but not shown", write)
    return _ShownNight(page, failure, groups)


def _store_failure(config: NightlyConfig, date: dt.date, reason: str) -> None:
    """Store why a night was not evaluated, and say so on the first pages."""
    from fastrank_eval.apps.nightly.history import History
    from fastrank_eval.apps.nightly.pages import write_latest

    if not config.history.exists():  # the configuration may be wrong
        return
    with closing(History(config.history)) as history, history.transaction():
        history.check_report(config.report)
        known = history.labels()
        for label in known or ("",):
            history.of(label).write_failure(date, reason)
    if {*known} == {*config.labels}:  # those of the configuration may be wrong
        write_latest(config)


def _keep_provisional(config: NightlyConfig, date: dt.date, reason: str) -> ExitCode:
    """Note once that a night could not be judged again; return its exit code."""
    from fastrank_eval.apps.nightly.pages import write_again
    from fastrank_eval.apps.nightly.run import keep_provisional
    from fastrank_eval.results.report import printable

    try:
        nights = [(each, keep_provisional(each, date, reason)) for each in config.for_labels()]
        if any(night is not None for _, night in nights):
            note(f"warning: {date}: stays as it is: {printable(reason)}")
        for each, night in nights:
            write_again(each, [] if night is None else [night])
    except FastRankEvalError as error:
        note(f"error: {date}: {printable(str(error))}")
        return ExitCode.BAD_INPUT
    return ExitCode.DONE


def _notify(
    config: NightlyConfig,
    date: dt.date,
    statuses: Sequence[str],
    lines: Sequence[str],
    contents: Sequence[dict[str, Any]],
) -> str | None:
    """Send a message if any label asks for it; return why it was not sent."""
    if config.notify is None:
        return None
    from fastrank_eval.apps.nightly.notify import chat_message, send, wants_message, webhook_url
    from fastrank_eval.apps.nightly.summary_files import SCHEMA

    try:
        webhook_url(config.notify)  # a missing one shows before the first bad night
        if not any(
            wants_message(config.notify, status, _status_before(each, date))
            for each, status in zip(config.for_labels(), statuses, strict=True)
        ):
            return None
        summary = {"schema": SCHEMA, "nights": contents}
        send(config.notify, summary if config.notify.format == "json" else chat_message(lines))
    except FastRankEvalError as error:
        note(f"warning: {date}: {error}")
        return without_credentials(str(error)).removesuffix(".")
    return None


def _status_before(config: NightlyConfig, date: dt.date) -> str | None:
    """Return the status of the latest earlier date of four weeks."""
    from fastrank_eval.apps.nightly.compare_nights import DAYS
    from fastrank_eval.apps.nightly.history import open_history

    with open_history(config.history, config.label) as history:
        earlier = history.outcomes(date - dt.timedelta(DAYS), date - dt.timedelta(1))
        return earlier[max(earlier)] if earlier else None


def _statuses(config: NightlyConfig, date: dt.date) -> dict[dt.date, str]:
    """Return statuses of earlier nights; none if they cannot be read."""
    from fastrank_eval.apps.nightly.history import open_history
    from fastrank_eval.apps.nightly.text import STRIP_DAYS

    with suppress(FastRankEvalError), open_history(config.history, config.label) as history:
        return history.outcomes(date - dt.timedelta(days=STRIP_DAYS), date)
    return {}


def _requested_dates(date: str | None, backfill: str | None) -> list[dt.date]:
    from fastrank_eval.apps.nightly.periods import parse_date, parse_date_range

    if date is not None and backfill is not None:
        raise ArgumentError("--date and --backfill both select nights; give one of them.")
    if backfill is not None:
        return parse_date_range(backfill)
    if date is not None:
        return [parse_date(date)]
    try:
        return [dt.datetime.now().astimezone().date() - dt.timedelta(days=1)]
    except (ValueError, OverflowError):
        raise ArgumentError(
            f"TZ={os.environ.get('TZ')!r}: no clock has that time zone; set another, "
            "or name the night with --date."
        ) from None


def _write_example(path: str) -> None:
    from fastrank_eval.apps.nightly.config import example

    if Path(path).exists():
        raise OutputError(f"{path!r} exists already; name another file, or remove it.")
    with atomic_path(path, overwrite=False) as part:
        part.write_text(example(), encoding="utf-8")
    note(f"wrote {path}")


def _export(config: NightlyConfig, folder: str, quiet: bool) -> None:
    from fastrank_eval.apps.nightly.history import History

    remedy = "read it, so name another folder"
    config.check_outside(Path(folder, "value.parquet"), "--export", folder, remedy)
    with History(config.history, readonly=True) as history:
        written = history.export(folder)
    for path in written if not quiet else ():
        note(f"wrote {path}")


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval nightly prune --keep 400d --keep-states 35d --dry-run
  fastrank-eval nightly prune nightly.toml --keep 400d --keep-states 35d""",
)
@click.argument("config", type=click.Path(), default="nightly.toml", metavar="[CONFIG]")
@option(
    "Keep", "--keep", metavar="DAYS", help="Days of nights to keep, such as 400d; by default all."
)
@option(
    "Keep",
    "--keep-states",
    metavar="DAYS",
    help="Days of states to keep, which weeks, months and drift read; by default those of all "
    "nights.",
)
@option("Keep", "--dry-run", is_flag=True, help="Say what would be removed, and change nothing.")
def prune(config: str, keep: str | None, keep_states: str | None, dry_run: bool) -> None:
    """Remove old nights, states, pages and groups.

    Days end with the latest night. Pages and groups leave with their nights; files that nightly did
    not write stay.
    """
    from fastrank_eval.apps.nightly.config import read_config
    from fastrank_eval.apps.nightly.prune import parse_days
    from fastrank_eval.apps.nightly.prune import prune as remove

    days, states = parse_days(keep, "--keep"), parse_days(keep_states, "--keep-states")
    if days is None and states is None:
        raise ArgumentError("prune: must have --keep or --keep-states; write --keep 400d.")
    done = remove(read_config(config), days, states, dry_run=dry_run)
    for text in done.notes:
        note(f"note: {text}")
    what = "would remove" if dry_run else "removed"
    emit("".join(f"{what} {text}\n" for text in done.removed) or f"{what} nothing\n")


#: Seconds that a page waits for a run that writes.
_TIMEOUT = 2.0
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval serve history.db
  fastrank-eval serve history.db --port 9000
  fastrank-eval serve history.db --host 0.0.0.0 \\
      --allow-host reports.example.org""",
)
@click.argument("history", metavar="HISTORY", shell_complete=complete_files)
@option(
    "Address",
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address to listen on. By default only programs on this machine can connect. There is no "
    "password: put a proxy that requires one in front of any other address.",
)
@option(
    "Address",
    "--port",
    type=click.IntRange(0, 65535),
    default=8642,
    help="Port to listen on; 0 takes any free port.",
)
@option(
    "Address",
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="Another host name of this server; requests by others get 'Invalid host header'. Repeat "
    "the option for several.",
)
def serve(history: str, host: str, port: int, allowed: tuple[str, ...]) -> None:
    """Show the nights of HISTORY in a browser until Ctrl-C."""
    from fastrank_eval.apps.nightly.page import check_libraries

    check_libraries("serve needs", "serve", "jinja2", "starlette", "uvicorn")
    if host in _ANY_ADDRESS and not allowed:
        raise ArgumentError(
            f"--host {host} listens on every address of this machine: name the host that browsers "
            "use with --allow-host."
        )
    from fastrank_eval.apps.nightly.history import History
    from fastrank_eval.apps.nightly.web import (
        HistoryFile,
        bind_socket,
        load_libraries,
        run_server,
        web_view,
    )

    History(history, readonly=True, patience=_TIMEOUT).close()
    source = HistoryFile(history, _TIMEOUT)
    with closing(bind_socket(host, port)) as listener:
        application = web_view(
            source,
            hosts=[*allowed, *([] if host in _ANY_ADDRESS else [host]), *_LOCAL_HOSTS],
        )
        address = listener.getsockname()
        host_text = f"[{address[0]}]" if listener.family == socket.AF_INET6 else address[0]
        load_libraries(source)
        note(f"serving {history} at http://{host_text}:{address[1]}/ (Ctrl-C ends)")
        run_server(application, listener)
