"""A folder for rows that do not fit memory, which never outlives its use.

It is removed at the end, after an error and after an interruption; by a guard, a small process of
its own, if this one is killed; and by the next run, if the whole machine was.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from fastrank_eval import spill_guard
from fastrank_eval.errors import SpillError
from fastrank_eval.memory import amount

__all__ = ["spill_folder"]

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
