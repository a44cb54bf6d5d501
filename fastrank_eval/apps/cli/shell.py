"""Share exit codes, errors, sections of ``--help`` and output of commands."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import re
import shlex
import sys
import textwrap
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from importlib import import_module
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn, Self

import click

from fastrank_eval._lib.errors import (
    FastRankEvalError,
    OutputError,
    SourceError,
    clean_address,
    without_credentials,
)
from fastrank_eval._lib.signals import StopSignal, show_messages_as, stoppable
from fastrank_eval.apps.cli import standard_error
from fastrank_eval.apps.cli.standard_error import note

if TYPE_CHECKING:
    from rich.console import RenderableType


class ExitCode(IntEnum):
    """An exit code of ``fastrank-eval``.

    The documentation writes its table from the members.

    Attributes
    ----------
    brief : str
        The meaning in a few words, for ``--help``.
    meaning : str
        The meaning in full, as Markdown.
    remedy : str
        What to do, as Markdown.
    commands : tuple of str
        The commands that end with it; empty for all.
    """

    brief: str
    meaning: str
    remedy: str
    commands: tuple[str, ...]

    DONE = (
        *(0, "done"),
        "done. `nightly`: each night is `fine`, `changed` or `provisional`. `serve`: Ctrl-C",
        "nothing",
    )
    SYSTEM = (
        *(1, "out of memory or another limit of the system"),
        "memory, addresses or threads are exhausted; or a fault of this program, with a traceback",
        "raise the limit, name `--memory`; report a traceback",
    )
    BAD_INPUT = (
        *(2, "bad input, arguments or output"),
        "bad input, arguments or output; or no rows. `nightly`: nothing of this night was stored",
        "read standard error, which names the argument and the remedy",
    )
    GATE_FAILED = (
        *(3, "a gate failed"),
        "a gate failed. `nightly`: the status is `regression`, because a gate failed, an alarm was "
        "raised, a model gives too few distinct scores, or scores or columns drifted",
        "look at the model",
        ("compare", "evaluate", "merge", "nightly"),
    )
    DATA_QUALITY = (
        *(4, "the rows did not pass the checks"),
        "the status is `data_quality`: the rows violate a limit of `[quality]`",
        "look at the data: numbers of such rows say nothing about the models",
        ("nightly",),
    )
    NOT_SHOWN = (
        *(5, "stored, but not all pages and output were written"),
        "the nights are fine and stored, but a page, the summary or a line of output could not be "
        "written",
        "remove the cause that standard error names, and run the night again",
        ("nightly",),
    )
    HUNG_UP = (129, "hung up", "the terminal was closed (SIGHUP)", "run it again")
    INTERRUPTED = (130, "interrupted", "Ctrl-C (SIGINT)", "run it again")
    PIPE_CLOSED = (
        *(141, "the reader of the output has gone"),
        "the reader of standard output has gone, as `head` does",
        "nothing, if that was meant",
    )
    TERMINATED = (
        *(143, "terminated"),
        "ended by a program, such as a scheduler with a time limit (SIGTERM)",
        "raise the time limit, or run it again",
    )

    def __new__(
        cls, code: int, brief: str, meaning: str, remedy: str, commands: tuple[str, ...] = ()
    ) -> Self:
        """Make a member from its number and its texts."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.brief, member.meaning, member.remedy = brief, meaning, remedy
        member.commands = commands
        return member


#: A run of several nights ends with the first of these that a night has.
_NIGHTS = (
    ExitCode.BAD_INPUT,
    ExitCode.DATA_QUALITY,
    ExitCode.GATE_FAILED,
    ExitCode.NOT_SHOWN,
    ExitCode.DONE,
)


def worst(codes: set[ExitCode]) -> ExitCode:
    """Return the exit code of several nights.

    Examples
    --------
    >>> worst({ExitCode.DONE, ExitCode.GATE_FAILED, ExitCode.DATA_QUALITY}).name
    'DATA_QUALITY'
    """
    return next((code for code in _NIGHTS if code in codes), ExitCode.DONE)


def codes_of(command: str) -> list[ExitCode]:
    """List the exit codes of a command."""
    return [code for code in ExitCode if not code.commands or command in code.commands]


def exit_codes_text(command: str) -> str:
    """Write the exit codes of a command for its ``--help``.

    Examples
    --------
    >>> print(exit_codes_text("trec")[:38])
    Exit codes: 0 done; 1 out of memory or
    """
    return "Exit codes: " + "; ".join(f"{code} {code.brief}" for code in codes_of(command)) + "."


_DEFAULT_WIDTH = 80
#: Bytes of addresses that libraries reserve, and each of their threads. Most stay unused.
_MIN_ADDRESSES, _ADDRESSES_PER_THREAD = 1_200_000_000, 64_000_000
#: Names of files that stand for standard output.
STANDARD_OUTPUT = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}


class _Formatter(click.HelpFormatter):
    """Formatter with bold headings, where there is a terminal."""

    def write_heading(self, heading: str) -> None:
        """Write a heading."""
        self.write(f"{'':>{self.current_indent}}{click.style(heading + ':', bold=True)}\n")


class _Context(click.Context):
    formatter_class = _Formatter


class _HelpfulCommand(click.Command):
    """A command that reports ``--help`` and ``--version`` it cannot write."""

    context_class = _Context
    help_all = "Show all options and exit."

    def make_context(
        self, info_name: str | None, args: list[str], *others: Any, **keywords: Any
    ) -> click.Context:
        """Read the arguments and print help if they request it."""
        if not isinstance(self, click.Group):  # errors of the arguments are lines, too
            standard_error.use_json("--log-json" in args)
        with _report_write_errors(), _clean_usage_errors(args):
            return super().make_context(info_name, args, *others, **keywords)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """List the parameters, with those that every command has."""
        params = super().get_params(ctx)
        whole = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all_help,
            help=self.help_all,
        )
        logs = [] if isinstance(self, click.Group) else standard_error.log_options()
        return [*params, *logs, whole]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, description, examples, then options or commands."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, and the exit codes of a command."""
        super().format_epilog(ctx, formatter)
        if not isinstance(self, click.Group):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(exit_codes_text(self.name or ""))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command if the address space holds its imports."""
        if not isinstance(self, click.Group):  # a group runs before --help of its commands
            _check_address_space()
        return super().invoke(ctx)


class Shell(_HelpfulCommand, click.Group):
    """Turns expected errors into one line and an exit code.

    Parameters
    ----------
    files : mapping of str to str
        The file of each command that is imported when it runs.
    tasks : mapping of str to tuple of str
        The commands by task, for ``--help``.
    """

    command_class = _HelpfulCommand
    help_all = "Show the help of all commands and exit."

    def __init__(
        self,
        *args: Any,
        files: Mapping[str, str],
        tasks: Mapping[str, tuple[str, ...]],
        **keywords: Any,
    ) -> None:
        super().__init__(*args, **keywords)
        self._files, self._tasks = files, tasks

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names of all commands."""
        return sorted({*super().list_commands(ctx), *self._files})

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, and for ``--help-all`` the help of each."""
        super().format_help(ctx, formatter)
        for name in chain(*self._tasks.values()) if ctx.meta.get(_HELP_ALL) else ():
            command = self.get_command(ctx, name)
            if command is not None:
                inner = command.context_class(command, info_name=name, parent=ctx)
                formatter.write(f"\n\n{command.get_help(inner)}\n")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by task; summaries are not cut."""
        for task, names in self._tasks.items():
            with formatter.section(task):
                commands = [(name, self.get_command(ctx, name)) for name in names]
                formatter.write_dl(
                    [(name, each.get_short_help_str(100)) for name, each in commands if each]
                )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name."""
        if cmd_name in self._files:
            file = import_module(f"fastrank_eval.apps.cli.{self._files[cmd_name]}")
            self.add_command(getattr(file, cmd_name))
        return super().get_command(ctx, cmd_name)

    def main(self, *args: Any, **keywords: Any) -> Any:
        """Run the program, and log how it ends."""
        started, code = perf_counter(), None
        standard_error.use_json(False)  # until a command reads its arguments
        try:
            return super().main(*args, **keywords)
        except OutputError as error:  # help of the program, before any command runs
            note(f"error: {error}")
            sys.exit(ExitCode.BAD_INPUT)
        except SystemExit as end:
            code = int(end.code or 0)
            raise
        except StopSignal as stop:
            code = stop.code
            raise
        except Exception:
            code = ExitCode.SYSTEM
            if not standard_error.is_json():
                raise
            standard_error.note_fault()
            sys.exit(code)
        finally:
            standard_error.stop(code, perf_counter() - started)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and map errors to exit codes."""
        try:
            with stoppable(), _clean_usage_errors():
                return super().invoke(ctx)
        except click.UsageError as error:
            if not standard_error.is_json():
                raise
            _exit(ExitCode.BAD_INPUT, f"error: {error.format_message()}")
        except FastRankEvalError as error:
            from fastrank_eval.results.report import printable

            name = ctx.invoked_subcommand
            command = None if name is None else self.get_command(ctx, name)
            lines = error.lines or [str(error)]
            text = "\n".join(printable(_with_options(line, command)) for line in lines)
            _exit(ExitCode.BAD_INPUT, f"error: {text}")
        except MemoryError:
            _exit(
                ExitCode.SYSTEM,
                "error: out of memory; sort the rows by group and pass --order "
                "grouped to stream them, or name fewer --score columns.",
            )
        except KeyboardInterrupt:
            _exit(ExitCode.INTERRUPTED, "interrupted.")
        except RuntimeError as error:
            if "start new thread" not in str(error):
                raise
            _exit(
                ExitCode.SYSTEM,
                "error: the system starts no further thread; raise the limits of processes and "
                "memory (ulimit -u, ulimit -v), or pass --threads 1.",
            )
        except BrokenPipeError:
            standard_error.discard_output(sys.stdout)
            _exit(ExitCode.PIPE_CLOSED)


#: An argument of Python with its values, but not an option of a measure: ``GAUC(weight='pairs')``.
_ARGUMENT = re.compile(
    r"(?<![\w(])(\w+)=('[^']*'(?:, '[^']*')*(?: or '[^']*')?|True\b|[0-9.]+\b|\.\.\.)"
)
#: The argument that a message is about.
_SUBJECT = re.compile(r"(\w+)(?=(?: '[^']*')?: )")
#: An argument and its option in brackets; an option and the same one in brackets.
_BOTH = re.compile(r"\b\w+=(?:True|\.\.\.|'[^']*') \((--[^()]+)\)")
_IN_PYTHON = re.compile(r" \(in Python: [^()]*\)")
_TWICE = re.compile(r"(--[\w-]+)([^(]*?) \(\1\b[^()]*\)")


def _with_options(text: str, command: click.Command | None) -> str:
    """Write arguments of Python in a message as options of a command.

    ``unretrieved='allow'`` becomes ``--unretrieved allow``.
    """
    text = _IN_PYTHON.sub("", text)
    params = [] if command is None else command.params
    options = {p.name: p.opts[-1] for p in params if isinstance(p, click.Option)}
    subject = _SUBJECT.match(text)
    if subject and subject[1] in options:
        text = f"{options[subject[1]]}{text[subject.end() :]}"
    # A measure has an option of this name too.
    options.pop("weight", None)

    def spelled(match: re.Match[str]) -> str:
        option = options.get(match[1])
        if option is None:
            return match[0]
        values = re.findall(r"'([^']*)'", match[2]) or [match[2]]
        if values[0] in ("True", "..."):
            return option
        *others, last = map(shlex.quote, values)
        return f"{option} {', '.join(others)}{' or ' if others else ''}{last}"

    return _TWICE.sub(r"\1\2", _ARGUMENT.sub(spelled, _BOTH.sub(r"\1", text)))


def _check_address_space() -> None:
    """Refuse a limit of virtual memory that is too low.

    C++ libraries abort where Python raises. Under a limit, libraries that are not imported yet
    are configured to reserve fewer addresses.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # 1 GiB at its first use
    processors = os.cpu_count() or 1
    needed = _MIN_ADDRESSES + processors * _ADDRESSES_PER_THREAD
    if limit < needed:
        _exit(
            ExitCode.SYSTEM,
            f"error: virtual memory is limited to {limit // 10**6} MB (ulimit -v), and a run needs "
            f"{-(-needed // 10**6)} MB on {processors} processors; raise the limit, and bound "
            "memory with --memory.",
        )


class _ClosedOutput(io.StringIO):
    """A replacement for a standard output that the caller has closed."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


class _TextBuffer(io.StringIO):
    """A buffer with the encoding of standard output."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding


class SectionedOption(click.Option):
    """An option with the heading under which ``--help`` lists it.

    Parameters
    ----------
    *args, **keywords
        As in click.Option.
    section : str
        The heading.
    """

    def __init__(self, *args: Any, section: str, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.section = section


class SectionedCommand(_HelpfulCommand):
    """A command whose ``--help`` lists its options by section, after examples.

    ``--help`` names the options of rarely needed sections, ``--help-all`` explains these too.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list of options per section, in order of first use."""
        sections: dict[str, list[click.Option]] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option):
                sections.setdefault(getattr(param, "section", "Other"), []).append(param)
        for section, options in sorted(sections.items(), key=lambda one: one[0] in _RARE_SECTIONS):
            with formatter.section(section):
                if section in _RARE_SECTIONS and not ctx.meta.get(_HELP_ALL):
                    names = ", ".join(option.opts[-1] for option in options)
                    indent = " " * formatter.current_indent
                    formatter.write(
                        textwrap.fill(
                            f"{names}: see --help-all",
                            formatter.width,
                            initial_indent=indent,
                            subsequent_indent=indent,
                            break_on_hyphens=False,
                        )
                        + "\n"
                    )
                else:
                    records = [option.get_help_record(ctx) for option in options]
                    formatter.write_dl([record for record in records if record])


#: Sections whose options most runs leave alone.
_RARE_SECTIONS = ("Conventions", "Reading")
_HELP_ALL = f"{__name__}.help_all"


def _show_all_help(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Print the whole help and exit, if requested."""
    if value and not ctx.resilient_parsing:
        ctx.meta[_HELP_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _freeze_objects() -> None:
    """Skip the last garbage collection, which takes 0.2 s."""
    if "duckdb" not in sys.modules:  # its bindings would print warnings of leaks
        gc.freeze()


def prepare_process() -> None:
    """Prepare a fast start and end, names in any script, plain warnings."""
    atexit.register(_freeze_objects)
    # No measure multiplies matrices: starting NumPy's threads takes 0.1 s of processor time on two
    # processors, and each thread takes 40 MB of addresses.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.stdout is None:
        sys.stdout = _ClosedOutput()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = _warning_line
    sys.excepthook = _show_fault
    show_messages_as(standard_error.note_line)


def _show_fault(*fault: Any) -> None:
    """Print the traceback of a fault of this program."""
    note("".join(traceback.format_exception(*fault)).rstrip())


def _warning_line(message: Warning | str, *_: Any, **__: Any) -> str:
    """Return a warning without the line of code that it comes from."""
    from fastrank_eval.results.report import printable

    return standard_error.note_line(f"warning: {printable(str(message))}") + "\n"


def render_text(renderable: RenderableType, width: int | None = None) -> str:
    """Render for standard output, or for a file of a given width.

    Parameters
    ----------
    renderable : rich renderable
    width : int, optional
        Columns of a file, which gets no colours. By default the width of the terminal, with
        colours if there is one.

    Returns
    -------
    str
        Lines without trailing blanks.
    """
    from rich.console import Console

    buffer = _TextBuffer()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=width is None and sys.stdout.isatty(),
    )
    console.width = console.width or _DEFAULT_WIDTH  # COLUMNS=0 means unknown
    console.print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def emit(text: str) -> None:
    """Write all of a text to standard output, or raise.

    Parameters
    ----------
    text : str

    Raises
    ------
    OutputError
        If it cannot be written, for example to a full disk.
    BrokenPipeError
        If the reader has closed the pipe.
    """
    with _report_write_errors():
        click.echo(text, nl=False)
        sys.stdout.flush()


def require_rows(result: Any, where: str | None = None, argument: str = "SOURCES") -> None:
    """Refuse results of no rows, which say nothing.

    Parameters
    ----------
    result : object with `meta` or `rows`, or mapping of them by model
    where : str, optional
        The condition on rows.
    argument : str
        Names the rows in the message.
    """
    from fastrank_eval.results.labels import Labelled
    from fastrank_eval.results.notes import rows_left_out_notes

    results = list(result.values()) if isinstance(result, Mapping) else [result]
    if isinstance(result, Labelled) and result.labels:
        results = [result.part(label) for label in result.labels]
    metas = [one.meta for one in results]
    if any(meta.rows for meta in metas):
        return
    notes = dict.fromkeys(note for meta in metas for note in rows_left_out_notes(meta))
    if notes:
        problem = f"{argument}: must have rows that no option leaves out, got none: "
        raise SourceError(f"{problem}{'; '.join(notes)}; fill the column, or allow nulls.")
    if where is not None:
        raise SourceError(
            f"--where: must select rows, got none by {where!r}; check its values and their types."
        )
    raise SourceError(f"{argument}: must have rows, got none; name a file with some.")


def check_standard_output(alternative: str = "--output FILE") -> None:
    """Refuse a closed standard output before the work starts.

    Parameters
    ----------
    alternative : str
        The option that names a file.

    Raises
    ------
    OutputError
        If standard output is closed.
    """
    if isinstance(sys.stdout, _ClosedOutput):
        raise OutputError(f"standard output is closed; open it, or name a file: {alternative}.")


def output_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the file of an option; None for standard output."""
    return None if value in STANDARD_OUTPUT else value


def check_files(
    files: Mapping[str, str | None],
    overwrite: bool,
    sources: Sequence[str],
    input_format: str | None = None,
) -> list[str]:
    """Refuse files that cannot be written before the work starts.

    Parameters
    ----------
    files : mapping of str to str or None
        File by option.
    overwrite : bool
        Whether files that exist may be replaced.
    sources : sequence of str
        The inputs. None of them may be written.
    input_format : str, optional
        The format of every source. By default the suffix decides.

    Returns
    -------
    list of str
        The files to write, the last option first.

    Raises
    ------
    OutputError
        If a file cannot be written, is part of the input or of a later input, or is named twice.
    """
    from fastrank_eval._lib.files import check_writable
    from fastrank_eval.io.paths import would_read

    options = [option for option in reversed(list(files)) if files[option] is not None]
    paths = [str(files[option]) for option in options]
    for option, file in zip(options, paths, strict=True):
        if file == "-":
            raise OutputError(f"{option}: must be a file, got '-'; name one.")
    targets = [check_writable(file, overwrite) for file in paths]
    if len(set(targets)) < len(targets):
        raise OutputError(f"{' and '.join(files)} both name {paths[-1]!r}: name two files.")
    for file, target in zip(paths, targets, strict=True):
        if target.exists() and any(_reads(source, target) for source in sources):
            raise OutputError(f"{file!r} is part of the input: name another file.")
    for option, file, target in zip(options, paths, targets, strict=True):
        for source in sources:
            if would_read(source, target, input_format, arrow=option == "--save-state"):
                raise OutputError(
                    f"{option}: must lie outside the input {source!r}, got {file!r}; a later run "
                    "would read it, so name a file in another folder."
                )
    return paths


def _reads(source: str, target: Path) -> bool:
    """Return whether reading `source` reads the file `target`."""
    import glob

    if source == "-":
        return False
    paths = [source] if Path(source).exists() else glob.glob(source, recursive=True)
    return any(target.is_relative_to(os.path.realpath(path)) for path in paths)


@contextmanager
def _report_write_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        standard_error.discard_output(sys.stdout)
        raise OutputError(f"cannot write to standard output: {error.strerror}.") from error


@contextmanager
def _clean_usage_errors(args: Sequence[str] = ()) -> Iterator[None]:
    """Remove passwords from the addresses in messages about arguments."""
    addresses = [arg for arg in args if ":/" in arg]
    try:
        yield
    except click.UsageError as error:
        text = error.message
        for address in addresses:
            text = text.replace(address, clean_address(address))
        vars(error)["message"] = without_credentials(text)  # final only for type checkers
        raise


def _exit(code: ExitCode, message: str = "") -> NoReturn:
    if message:
        note(message)
    raise click.exceptions.Exit(code)
