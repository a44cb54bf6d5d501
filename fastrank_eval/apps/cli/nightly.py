"""The commands nightly and serve."""

from __future__ import annotations

import datetime as dt
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, OutputError
from fastrank_eval._lib.files import atomic_path, check_writable
from fastrank_eval._lib.signals import defer_signals, raise_if_stopped, reset_signals
from fastrank_eval.apps.cli.options import option
from fastrank_eval.apps.cli.shell import SectionedCommand, check_standard_output, emit, note

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from fastrank_eval.apps.nightly.config import NightlyConfig
    from fastrank_eval.apps.nightly.night import Night
    from fastrank_eval.apps.nightly.run import NightRun

__all__ = ["DATA_QUALITY", "NOT_SHOWN", "REGRESSION", "NightlyOutput", "bound", "nightly", "serve"]


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
                from fastrank_eval.apps.nightly.summary_files import nights_json

                self._lost = True
                note(f"error: {error} The summary is:\n{nights_json(self.nights, code)}")
        if self._pipe_closed:
            raise BrokenPipeError
        return code or (otherwise if self._lost else 0)

    def _write(self, code: int, error: str | None = None) -> None:
        from fastrank_eval.apps.nightly.summary_files import nights_json

        text = nights_json(self.nights, code, error)
        if self.printed:
            self.tell(text)
        elif self._file is not None:
            with atomic_path(self._file) as part:
                part.write_text(text, encoding="utf-8")


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
    with defer_signals():
        from fastrank_eval.apps.nightly.config import read_config
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
        from fastrank_eval.apps.nightly.pages import check_pages
        from fastrank_eval.apps.nightly.run import rehearsed

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
    from fastrank_eval.apps.cli.progress_bar import progress_bar
    from fastrank_eval.apps.nightly.pages import write_pages
    from fastrank_eval.apps.nightly.run import nightly as run
    from fastrank_eval.apps.nightly.summary_files import night_dict, night_lines, night_markdown
    from fastrank_eval.results.format import printable

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
    from fastrank_eval.apps.nightly.history import History
    from fastrank_eval.apps.nightly.periods import with_periods

    if not config.history.exists():  # of a dry run
        return with_periods(done.night, None, done.kept)
    with History(config.history, readonly=True) as history:
        return with_periods(done.night, history, done.kept)


def _dates(date: str | None, backfill: str | None) -> list[dt.date]:
    from fastrank_eval.apps.nightly.dates import date_of, nights_of

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
    from fastrank_eval._lib.files import atomic_path
    from fastrank_eval.apps.nightly.config import EXAMPLE

    if Path(path).exists():
        raise OutputError(f"{path!r} exists already; name another file, or remove it.")
    with atomic_path(path, overwrite=False) as part:
        part.write_text(EXAMPLE, encoding="utf-8")
    note(f"wrote {path}")


def _export(config: NightlyConfig, folder: str, quiet: bool) -> None:
    from fastrank_eval.apps.nightly.history import History

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


#: Seconds that a page waits for a run that is writing.
_PATIENCE = 2.0
_LOCAL = ("127.0.0.1", "localhost", "::1")
_ANY = ("0.0.0.0", "::")  # noqa: S104 (told apart, not bound)


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval serve history.db
  fastrank-eval serve history.db --port 9000
  fastrank-eval serve history.db --host 0.0.0.0 --allow-host reports.example.org""",
)
@click.argument("history", metavar="HISTORY")
@option(
    "Address",
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Where to listen. By default only programs of this machine can connect; there is no "
    "password, so put a proxy that asks for one in front of any other address.",
)
@option(
    "Address",
    "--port",
    type=click.IntRange(0, 65535),
    default=8642,
    show_default=True,
    help="0 takes any that is free.",
)
@option(
    "Address",
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="Another name by which browsers call this server. Repeat it for several.",
)
def serve(history: str, host: str, port: int, allowed: tuple[str, ...]) -> None:
    """Show the nights of HISTORY, which `nightly` keeps, in a browser: read-only, until Ctrl-C."""
    _check_libraries()
    if host in _ANY and not allowed:
        raise ArgumentError(
            f"--host {host} listens on every address of this machine: name the one that browsers "
            "will call with --allow-host."
        )
    with defer_signals():
        from fastrank_eval.apps.nightly.web import CurrentHistory, web_view

    kept = CurrentHistory(history, _PATIENCE)
    with closing(kept), closing(bound(host, port)) as listening:
        application = web_view(kept, hosts=[*allowed, *([] if host in _ANY else [host]), *_LOCAL])
        address = listening.getsockname()
        shown = f"[{address[0]}]" if listening.family == socket.AF_INET6 else address[0]
        note(f"serving {history} at http://{shown}:{address[1]}/ (Ctrl-C ends)")
        _run(application, listening)


def bound(host: str, port: int) -> socket.socket:
    """Take a port before anything is served.

    Parameters
    ----------
    host : str
    port : int
        0 for any that is free.

    Returns
    -------
    socket.socket

    Raises
    ------
    ArgumentError
        If it is in use, or the address is not of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise ArgumentError(f"--host {host!r}: no such address ({error}).") from None
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen()
    except OSError as error:
        made.close()
        raise ArgumentError(
            f"cannot listen on port {port} of {host}: {error.strerror}. Name another one with "
            "--port; --port 0 takes any that is free."
        ) from None
    return made


def _check_libraries() -> None:
    needed = ("jinja2", "matplotlib", "starlette", "uvicorn")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise ArgumentError(
            f"serve needs {', '.join(missing)}, not installed: pip install 'fastrank_eval[serve]'."
        )


def _run(application: Starlette, listening: socket.socket) -> None:
    import uvicorn

    # The server ends in its own order, which may take longer than other commands are given.
    reset_signals()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings = uvicorn.Config(
        application, log_level="warning", access_log=False, server_header=False, lifespan="off"
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(settings).run(sockets=[listening])
