"""Write files whole or not at all, and keep spilled rows in folders that go."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from fastrank_eval._lib import spill_guard
from fastrank_eval._lib.errors import OutputError, SpillError
from fastrank_eval._lib.memory import amount

__all__ = ["atomic_path", "check_suffix", "check_writable", "spill_folder"]


def check_suffix(
    argument: str, path: str | os.PathLike[str], known: Sequence[str], remedy: str = ""
) -> None:
    """Refuse a file whose name does not tell one of the formats.

    Parameters
    ----------
    argument : str
        The argument or option that names the file.
    path : str or path
    known : sequence of str
        Suffixes that tell a format, at least two.
    remedy : str, optional
        What else helps than another name.

    Raises
    ------
    OutputError
        If the suffix is none of them; upper and lower case are the same.

    Examples
    --------
    >>> check_suffix("--output", "report.html", [".json", ".csv"])
    Traceback (most recent call last):
    fastrank_eval.OutputError: --output: must end in .json or .csv, got 'report.html', \
an unknown suffix; name such a file.
    """
    shown = os.fspath(path)
    suffix = Path(shown).suffix
    if suffix.lower() not in known:
        raise OutputError(
            f"{argument}: must end in {', '.join(known[:-1])} or {known[-1]}, got {shown!r}, "
            f"{'an unknown' if suffix else 'no'} suffix; name such a file{remedy}."
        )


#: Locks on files, which POSIX alone has.
fcntl: Any = import_module("fcntl") if os.name == "posix" else None

#: Ends the name of a temporary file, and of no other program's.
_ENDING = ".fastrank.part"
_LEFTOVER = re.compile(r"\..*\.[0-9a-f]{12}" + re.escape(_ENDING), re.DOTALL)


def check_writable(path: str | os.PathLike[str], overwrite: bool = False) -> Path:
    """Make sure that a file can be written, before the work that fills it starts.

    A file is created in the folder and removed again, so that a read-only disk or a missing right
    shows now. Nothing else is touched.

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
        missing, or if either cannot be written.

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
            lack = "is not a folder" if folder.exists() else "does not exist; create it first"
            raise OutputError(f"cannot write {shown!r}: folder {str(folder)!r} {lack}.")
        trial, handle = _create_beside(target)
        trial.unlink()
        if handle is not None:
            os.close(handle)
    except OSError as error:
        raise _unwritable(shown, error) from error
    return target


@contextmanager
def atomic_path(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """Give a temporary file to fill; it takes its real name only if all went well.

    The temporary file lies in the same folder, where those of runs that were killed are removed:
    a run locks its own as long as it lasts. It is flushed to disk before it is renamed, and
    removed after any error, interruption included, so that readers see the old file or the new
    one, never a half.

    Parameters
    ----------
    path : str or path
        File to be written; a symbolic link is followed.
    overwrite : bool
        Whether a file that has appeared there meanwhile may be replaced.

    Yields
    ------
    pathlib.Path
        The temporary file, empty.

    Raises
    ------
    OutputError
        If the file cannot be written: no right, no space, or it exists and `overwrite` is false.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = Path(folder) / "report.txt"
    ...     with atomic_path(report) as part:
    ...         _ = part.write_text("done")
    ...     report.read_text()
    'done'
    """
    shown = os.fspath(path)
    target = Path(os.path.realpath(shown))
    part: Path | None = None
    handle: int | None = None
    try:
        _check_existing(target, shown, overwrite)
        _remove_leftovers(target.parent)
        part, handle = _create_beside(target)
        yield part
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        _sync(part)
        if overwrite:
            part.replace(target)
        else:
            _rename_new(part, target, shown)
        with suppress(OSError):  # the file is in place; not every system can sync a folder
            _sync(target.parent)
    except OSError as error:
        raise _unwritable(shown, error) from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def _check_existing(target: Path, shown: str, overwrite: bool) -> None:
    try:
        # By the name given: that of a pipe, such as /dev/stdout, is a link to no name.
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
    if not os.access(target, os.W_OK):
        raise OutputError(f"cannot write {shown!r}: no right to write to this file.")


def _create_beside(target: Path) -> tuple[Path, int | None]:
    """Make a temporary file, and hold a lock on it that the end of the process gives up."""
    while True:
        part = target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}{_ENDING}")
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        if fcntl is None:
            os.close(handle)
            return part, None
        try:
            with suppress(OSError):  # a file system without locks: nobody removes the file then
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:  # else another run took it for a leftover
                return part, handle
        except BaseException:
            os.close(handle)
            part.unlink(missing_ok=True)
            raise
        os.close(handle)


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files of runs that were killed: those on which no process has a lock."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if _LEFTOVER.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove_unlocked(folder / name)


def _remove_unlocked(part: Path) -> None:
    handle = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        about = os.fstat(handle)
        if stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid():
            part.unlink()
    finally:
        os.close(handle)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rename_new(part: Path, target: Path, shown: str) -> None:
    """Rename without ever replacing: a hard link fails where the name is taken."""
    try:
        target.hardlink_to(part)
    except FileExistsError:
        _check_existing(target, shown, overwrite=False)
        raise
    except OSError:  # a file system without hard links
        _check_existing(target, shown, overwrite=False)
        part.replace(target)


def _unwritable(shown: str, error: OSError) -> OutputError:
    return OutputError(f"cannot write {shown!r}: {error.strerror or error}.")


_PREFIX = "fastrank-spill-"
_LOCK = "in-use"


@contextmanager
def spill_folder(parent: str | os.PathLike[str] | None, needed: int) -> Iterator[Path]:
    """Make a folder for spilled rows and remove it afterwards.

    Parameters
    ----------
    parent : str, path or None
        Where; None: the system's folder for temporary files.
    needed : int
        Bytes that will be written, as far as is known.

    Yields
    ------
    pathlib.Path
        The folder, empty but for a lock.

    Raises
    ------
    SpillError
        If it cannot be made there, or if there is less room than needed.
    """
    shown = os.fspath(parent) if parent is not None else tempfile.gettempdir()
    where = Path(shown).absolute()
    if not where.is_dir():
        lack = "is no folder" if where.exists() else "does not exist: create it first"
        raise SpillError(f"the spill folder {shown!r} {lack}, or name another (--spill-dir).")
    _remove_abandoned(where)
    free = shutil.disk_usage(where).free
    if free < needed:
        raise SpillError(
            f"about {amount(needed)} of rows must be spilled, and the disk of {shown!r} has "
            f"{amount(free)} free: free some, name a folder on another disk (--spill-dir), or "
            "allow more memory (--memory)."
        )
    folder = where / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        # What is undone is named before it is done: an interruption may come between any two lines.
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        try:
            folder.mkdir(mode=0o700)
            lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise SpillError(
                f"cannot spill to {shown!r}: {error.strerror or error}; name a folder that can be "
                "written to (--spill-dir)."
            ) from error
        stack.callback(os.close, lock)
        _locks(lock)
        _guard(folder, stack)
        yield folder


def _locks(handle: int) -> bool:
    """Lock a file; whether nobody else holds it. The system unlocks it when the holder ends."""
    try:
        import fcntl
    except ImportError:  # not a Unix: nobody can tell, so nothing is removed
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of runs that have ended without doing so."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if not (folder / _LOCK).exists():
                folder.rmdir()  # ended before it was locked, if nothing is in it
                continue
            handle = os.open(folder / _LOCK, os.O_RDWR)
            try:
                if _locks(handle):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _guard(folder: Path, stack: ExitStack) -> None:
    """Start the process that removes the folder if this one is killed; the stack ends it."""
    if not sys.executable:
        return
    program = [sys.executable, "-I", "-S", spill_guard.__file__, os.fspath(folder)]
    with suppress(OSError):  # without it the next run removes what a killed one leaves
        guard = subprocess.Popen(  # noqa: S603 - this interpreter, a file of this package
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        stack.callback(guard.wait)
        stack.callback(cast(IO[bytes], guard.stdin).close)
