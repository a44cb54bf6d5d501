"""Write files atomically and as CSV, and make folders for spilled rows."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from fastrank_eval._lib.errors import OutputError, SpillError
from fastrank_eval._lib.signals import defer_signals, on_forced_exit, raise_if_stopped
from fastrank_eval._lib.threads import format_bytes


def check_suffix(
    argument: str, path: str | os.PathLike[str], suffixes: Sequence[str], remedy: str = ""
) -> None:
    """Raise unless the suffix of a file name is allowed.

    Parameters
    ----------
    argument : str
        The argument or option that names the file.
    path : str or path
    suffixes : sequence of str
        The allowed suffixes, at least two.
    remedy : str, optional
        Another remedy, appended to the message.

    Raises
    ------
    OutputError
        If the suffix is none of these, in upper or lower case.

    Examples
    --------
    >>> check_suffix("--output", "report.html", [".json", ".csv"])
    Traceback (most recent call last):
    fastrank_eval.OutputError: --output: must end in .json or .csv, got 'report.html', \
an unknown suffix; name such a file.
    """
    shown = os.fspath(path)
    suffix = Path(shown).suffix
    if suffix.lower() not in suffixes:
        raise OutputError(
            f"{argument}: must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}, got {shown!r}, "
            f"{'an unknown' if suffix else 'no'} suffix; name such a file{remedy}."
        )


fcntl: Any = None
with suppress(ImportError):  # file locks, which only POSIX has
    fcntl = import_module("fcntl")

#: The end of the name of a temporary file; no other program uses it.
_ENDING = ".fastrank.part"
_LEFTOVER = re.compile(r"\..*\.[0-9a-f]{12}" + re.escape(_ENDING), re.DOTALL)


def check_writable(path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """Check before the work starts that a file can be written.

    The check creates a temporary file in the folder and removes it again. So a read-only disk or a
    missing permission raises now.

    Parameters
    ----------
    path : str or path
        File to be written; a symbolic link is followed.
    overwrite : bool
        Whether a file that exists may be replaced.

    Returns
    -------
    pathlib.Path
        The file itself, links resolved.

    Raises
    ------
    OutputError
        If the file exists and `overwrite` is false, if it is no regular file, if its folder is
        missing, or if the file or its folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     check_writable(Path(folder) / "missing" / "report.json")
    Traceback (most recent call last):
    fastrank_eval.OutputError: cannot write '...report.json': folder '...missing' does not
    exist; create it first.
    """
    shown = os.fspath(path)
    if not shown:
        raise OutputError("cannot write to an empty path: name a file.")
    target = Path(os.path.realpath(shown))
    folder = target.parent
    try:
        _check_existing(target, shown, overwrite)
        if not folder.is_dir():
            problem = "is not a folder" if folder.exists() else "does not exist; create it first"
            raise OutputError(f"cannot write {shown!r}: folder {str(folder)!r} {problem}.")
        trial, handle = _create_temporary(target)
        trial.unlink()
        if handle is not None:
            os.close(handle)
    except OSError as error:
        raise _output_error(shown, error) from error
    return target


@contextmanager
def atomic_path(
    path: str | os.PathLike[str], *, overwrite: bool = True, mode: int = 0o666
) -> Iterator[Path]:
    """Yield a temporary file that replaces the target after success.

    The temporary file lies in the same folder. It is flushed to disk before it is renamed. After
    an error or an interruption it is removed, so readers see the old file or the new one, never
    half of it. A run locks its temporary file; files without a lock are leftovers of killed runs
    and are removed here.

    Parameters
    ----------
    path : str or path
        File to be written; a symbolic link is followed.
    overwrite : bool
        Whether the file may replace one that another program has written meanwhile.
    mode : int
        Permissions of a new file, less those that the user's mask removes.

    Yields
    ------
    pathlib.Path
        The temporary file, empty.

    Raises
    ------
    OutputError
        If the file cannot be written: no permission, no space, or it exists and `overwrite` is
        false.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = Path(folder) / "report.txt"
    ...     with atomic_path(report) as temporary:
    ...         _ = temporary.write_text("done")
    ...     report.read_text()
    'done'
    """
    shown = os.fspath(path)
    target = Path(os.path.realpath(shown))
    temporary: Path | None = None
    handle: int | None = None
    try:
        _check_existing(target, shown, overwrite)
        _remove_leftovers(target.parent, _LEFTOVER)
        temporary, handle = _create_temporary(target, mode)
        with on_forced_exit(temporary.unlink):
            yield temporary
        raise_if_stopped()
        with suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        _sync(temporary)
        if overwrite:
            temporary.replace(target)
        else:
            _rename_new(temporary, target, shown)
        with suppress(OSError):  # some systems cannot sync a folder; the file is complete anyway
            _sync(target.parent)
    except OSError as error:
        raise _output_error(shown, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def _check_existing(target: Path, shown: str, overwrite: bool) -> None:
    try:
        # Of the path as it is written: realpath resolves a pipe such as /dev/stdout to no file.
        mode = Path(shown).stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise OutputError(f"cannot write {shown!r}: it is a folder; name a file in it.")
    if not stat.S_ISREG(mode):
        raise OutputError(
            f"cannot write {shown!r}: it is a device or pipe; name a file, or redirect the "
            "standard output."
        )
    if not overwrite:
        raise OutputError(
            f"{shown!r} exists already; name another file, or pass --overwrite (in Python: "
            "overwrite=True)."
        )
    # Another process may have removed the file since.
    if not os.access(target, os.W_OK) and target.exists():
        raise OutputError(
            f"cannot write {shown!r}: permission denied; allow this user to write it."
        )


def _create_temporary(target: Path, mode: int = 0o666) -> tuple[Path, int | None]:
    """Create and lock a temporary file next to the target.

    The end of the process releases the lock.
    """
    while True:
        temporary = target.with_name(f".{target.name[:40]}.{os.urandom(6).hex()}{_ENDING}")
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        if fcntl is None:
            os.close(handle)
            return temporary, None
        try:
            with suppress(OSError):  # a file system without locks: leftovers are not removed there
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:  # else another run has removed it as a leftover
                return temporary, handle
        except BaseException:
            os.close(handle)
            temporary.unlink(missing_ok=True)
            raise
        os.close(handle)


def _remove_leftovers(folder: Path, names: re.Pattern[str]) -> None:
    """Remove files and folders of killed runs: those that no process locks."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if names.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove_unlocked(folder / name)


def _remove_unlocked(path: Path) -> None:
    access = os.O_RDONLY if path.is_dir() else os.O_RDWR
    handle = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        info = os.fstat(handle)
        if info.st_uid != os.getuid():
            return
        if stat.S_ISDIR(info.st_mode):
            shutil.rmtree(path, ignore_errors=True)
        elif stat.S_ISREG(info.st_mode):
            path.unlink()
    finally:
        os.close(handle)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rename_new(temporary: Path, target: Path, shown: str) -> None:
    """Rename without replacing: a hard link fails if the name exists."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        _check_existing(target, shown, overwrite=False)
        raise
    except OSError:  # a file system without hard links
        _check_existing(target, shown, overwrite=False)
        temporary.replace(target)


def _output_error(shown: str, error: OSError) -> OutputError:
    return OutputError(f"cannot write {shown!r}: {error.strerror or error}.")


_SPILL_PREFIX = "fastrank-spill-"
_SPILL = re.compile(re.escape(_SPILL_PREFIX) + ".*", re.DOTALL)


@contextmanager
def spill_folder(needed: int) -> Iterator[Path]:
    """Make a folder for spilled rows and remove it afterwards.

    It is in the folder of temporary files. A run locks its folder. Folders without a lock are
    leftovers of killed runs and are removed here.

    Parameters
    ----------
    needed : int
        An estimate of the bytes to write.

    Yields
    ------
    pathlib.Path
        The folder, empty.

    Raises
    ------
    SpillError
        If the folder cannot be made, or if the disk has less free space than needed.
    """
    parent = Path(tempfile.gettempdir()).absolute()
    _remove_leftovers(parent, _SPILL)
    free = shutil.disk_usage(parent).free
    if free < needed:
        raise SpillError(
            f"about {format_bytes(needed)} of rows must be spilled, and the disk of "
            f"{str(parent)!r} has {format_bytes(free)} free: free some, let TMPDIR name a folder "
            "on another disk, or allow more memory (--memory)."
        )
    with ExitStack() as stack:
        try:
            with defer_signals():
                folder = _locked_folder(parent, stack)
        except OSError as error:
            raise SpillError(
                f"cannot spill to {str(parent)!r}: {error.strerror or error}; let TMPDIR name a "
                "folder that can be written to."
            ) from error
        yield folder


def _locked_folder(parent: Path, stack: ExitStack) -> Path:
    """Make and lock a temporary folder; the stack removes it."""
    while True:
        temporary = tempfile.TemporaryDirectory(
            prefix=_SPILL_PREFIX, dir=parent, ignore_cleanup_errors=True
        )
        folder = Path(stack.enter_context(temporary))
        stack.enter_context(on_forced_exit(temporary.cleanup))
        if fcntl is None:
            return folder
        handle = os.open(folder, os.O_RDONLY)
        stack.callback(os.close, handle)
        with suppress(OSError):  # a file system without locks: leftovers are not removed there
            fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():  # else another run has removed it as a leftover
            return folder


_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_cells(cells: Iterable[object], safe: bool) -> list[Any]:
    """Put an apostrophe before text that a spreadsheet may run, if `safe`.

    Examples
    --------
    >>> csv_cells(["=1+1", "a=1", -1, None], safe=True)
    ["'=1+1", 'a=1', -1, None]
    """
    return [
        f"'{cell}" if safe and isinstance(cell, str) and cell.startswith(_BEGINS_FORMULA) else cell
        for cell in cells
    ]


def csv_text(names: Sequence[str], rows: Iterable[Iterable[object]], safe: bool = False) -> str:
    r"""Write a header and rows as CSV.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.
    rows : iterable of iterable
        Cells in their order; None is empty.
    safe : bool
        Put an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a
        carriage return, so that no spreadsheet takes it for a formula. Numbers stay.

    Returns
    -------
    str

    Examples
    --------
    >>> csv_text(["model", "delta"], [["-old", -0.5]], safe=True)
    "model,delta\n'-old,-0.5\n"
    """
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    for row in ([*names], *rows):
        writer.writerow(csv_cells(row, safe))
    return table.getvalue()
