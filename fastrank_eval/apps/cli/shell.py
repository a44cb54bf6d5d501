"""What every command shares: exit codes, sections in ``--help``, standard output."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from fastrank_eval._lib.errors import FastRankEvalError, OutputError

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "SectionedCommand",
    "SectionedOption",
    "Shell",
    "check_files",
    "check_standard_output",
    "emit",
    "note",
    "prepare_process",
    "rendered",
    "written_file",
]


_USUAL_WIDTH = 80
#: Bytes of addresses that libraries take, and each of their threads; little of it is ever used.
_LEAST_ADDRESSES, _ADDRESSES_OF_A_THREAD = 1_200_000_000, 64_000_000
#: Names of files that stand for standard output.
_STANDARD_OUTPUT = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}
_FEW_OBJECTS = 50_000  # a collection for every 700, Python's choice, is a sixth of the start


class _Helpful(click.Command):
    """A command whose ``--help`` and ``--version`` say so where they cannot be written."""

    def make_context(self, *args: Any, **keywords: Any) -> click.Context:
        """Read the arguments; where they ask for help, print it."""
        with _writing():
            return super().make_context(*args, **keywords)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, if there is room for what it imports."""
        if not isinstance(self, click.Group):  # which runs before --help of its commands
            _check_address_space()
        return super().invoke(ctx)


class Shell(_Helpful, click.Group):
    """Turns what may go wrong into one line and an exit code; anything else is a bug and shows."""

    command_class = _Helpful

    def main(self, *args: Any, **keywords: Any) -> Any:
        """Run the program; 2 for help that cannot be written."""
        try:
            return super().main(*args, **keywords)
        except OutputError as error:  # help of the program itself, before any command is invoked
            note(f"error: {error}")
            sys.exit(2)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; 2 for bad input, 130 for an interruption, 141 for a closed pipe."""
        try:
            return super().invoke(ctx)
        except FastRankEvalError as error:
            from fastrank_eval.results.format import printable

            _leave(2, f"error: {printable(str(error))}")
        except MemoryError:
            _leave(
                1,
                "error: out of memory; sort the rows by group and pass --presorted or "
                "--order grouped to stream them, or name fewer --score columns.",
            )
        except KeyboardInterrupt:
            _leave(130, "interrupted.")
        except RuntimeError as error:
            if "start new thread" not in str(error):
                raise
            _leave(
                1,
                "error: the system starts no further thread; raise the limits of processes and "
                "memory (ulimit -u, ulimit -v), or pass --threads 1.",
            )
        except BrokenPipeError:
            _silence(sys.stdout)
            _leave(141)


def _check_address_space() -> None:
    """Refuse too low a limit of virtual memory: C++ libraries abort where Python raises.

    Under a limit, libraries not yet imported are kept from taking addresses that no run uses.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # 40 MB for each thread
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # 1 GiB at its first use
    processors = os.cpu_count() or 1
    needed = _LEAST_ADDRESSES + processors * _ADDRESSES_OF_A_THREAD
    if limit < needed:
        _leave(
            1,
            f"error: virtual memory is limited to {limit // 10**6} MB (ulimit -v), and a run needs "
            f"{-(-needed // 10**6)} MB on {processors} processors; raise the limit, and bound "
            "memory with --memory.",
        )


class _Closed(io.StringIO):
    """Stands for a standard output that the caller has closed."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, "it is closed")


class _Sheet(io.StringIO):
    """Text on its way to standard output: says what that can show."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding


class SectionedOption(click.Option):
    """An option that knows under which heading ``--help`` lists it.

    Parameters
    ----------
    *args, **keywords
        As of click.Option.
    section : str
        The heading.
    """

    def __init__(self, *args: Any, section: str, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.section = section


class SectionedCommand(_Helpful):
    """A command whose ``--help`` lists its options by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list of options a section, in the order sections were first used."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(param, "section", "Other"), []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def _leave_objects() -> None:
    """Let the process end without looking for garbage once more: 0.2 s."""
    if "duckdb" not in sys.modules:  # its bindings would tell the user of leaks
        gc.freeze()


def prepare_process() -> None:
    """Make the process start and end fast, and print names of any signs."""
    # What imports make stays until the end; looking through it for garbage there takes 0.2 s.
    gc.set_threshold(_FEW_OBJECTS)
    atexit.register(_leave_objects)
    if sys.stdout is None:
        sys.stdout = _Closed()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def rendered(what: RenderableType, width: int | None = None) -> str:
    """Render for standard output, or for a file of a given width.

    Parameters
    ----------
    what : rich renderable
    width : int, optional
        Columns of a file, which gets no colours. By default as wide as the terminal, and
        coloured if there is one.

    Returns
    -------
    str
        Lines without trailing blanks.
    """
    from rich.console import Console

    sheet = _Sheet()
    console = Console(
        file=sheet,
        width=width,
        force_terminal=width is None and sys.stdout.isatty(),
    )
    console.width = console.width or _USUAL_WIDTH  # COLUMNS=0 means that nobody knows
    console.print(what)
    return "\n".join(line.rstrip() for line in sheet.getvalue().splitlines()) + "\n"


def emit(text: str) -> None:
    """Write to standard output, all of it or an error.

    Parameters
    ----------
    text : str

    Raises
    ------
    OutputError
        If it cannot be written, such as to a full disk.
    BrokenPipeError
        If the reader has gone.
    """
    with _writing():
        click.echo(text, nl=False)
        sys.stdout.flush()


def check_standard_output(instead: str = "--output FILE") -> None:
    """Refuse a standard output that is closed, before the work for it starts.

    Parameters
    ----------
    instead : str
        What names a file instead.

    Raises
    ------
    OutputError
        If it is.
    """
    if isinstance(sys.stdout, _Closed):
        raise OutputError(f"standard output is closed; open it, or name a file: {instead}.")


def written_file(ctx: click.Context, param: click.Parameter, given: str | None) -> str | None:
    """Return the file that an option names; None where that is standard output."""
    return None if given in _STANDARD_OUTPUT else given


def check_files(
    files: Mapping[str, str | None],
    overwrite: bool,
    sources: Sequence[str],
    input_format: str | None = None,
) -> list[str]:
    """Refuse files that cannot be written, before the work for them starts.

    Parameters
    ----------
    files : mapping of str to str or None
        By the option that names each.
    overwrite : bool
        Whether files that exist may be replaced.
    sources : sequence of str
        What is read, none of which may be written.
    input_format : str, optional
        The format that every file is read by, whatever its suffix.

    Returns
    -------
    list of str
        Those to be written, the last option's first.

    Raises
    ------
    OutputError
        If one cannot be written, is part of the input or would be of a later run, or is named
        twice.
    """
    from fastrank_eval._lib.files import check_writable
    from fastrank_eval.io.paths import would_read

    options = [option for option in reversed(list(files)) if files[option] is not None]
    named = [str(files[option]) for option in options]
    for option, file in zip(options, named, strict=True):
        if file == "-":
            raise OutputError(f"{option}: must be a file, got '-'; name one.")
    targets = [check_writable(file, overwrite) for file in named]
    if len(set(targets)) < len(targets):
        raise OutputError(f"{' and '.join(files)} both name {named[-1]!r}: name two files.")
    for file, target in zip(named, targets, strict=True):
        if target.exists() and any(_holds(source, target) for source in sources):
            raise OutputError(f"{file!r} is part of the input: name another file.")
    for option, file, target in zip(options, named, targets, strict=True):
        for source in sources:
            if would_read(source, target, input_format, arrow=option == "--save-state"):
                raise OutputError(
                    f"{option}: must lie outside the input {source!r}, got {file!r}; a later run "
                    "would read it, so name a file in another folder."
                )
    return named


def _holds(source: str, target: Path) -> bool:
    """Tell whether reading `source` reads the file `target`."""
    import glob

    if source == "-":
        return False
    found = [source] if Path(source).exists() else glob.glob(source, recursive=True)
    return any(target.is_relative_to(os.path.realpath(path)) for path in found)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence(sys.stdout)
        raise OutputError(f"cannot write to standard output: {error.strerror}.") from error


def note(text: str) -> None:
    """Tell something on standard error; nothing depends on whether it is read."""
    try:
        click.echo(text, err=True)
    except OSError:
        _silence(sys.stderr)


def _leave(code: int, message: str = "") -> NoReturn:
    if message:
        note(message)
    raise click.exceptions.Exit(code)


def _silence(stream: Any) -> None:
    """Send what is still buffered nowhere, so that the interpreter does not trip over it."""
    if isinstance(stream, _Closed):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
