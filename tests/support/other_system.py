"""Run a program as on a system that is neither Linux nor another POSIX system.

It hides what only such systems have: modules, functions and constants of the standard library, and
the files of the kernel. Libraries that are built for this system are imported before. The program's
module and arguments follow this file's name; or an empty text, commands by name as JSON, and names.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import io
import json
import mmap
import os
import runpy
import shutil
import signal
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

LIBRARIES = ("llvmlite.binding", "numpy", "pyarrow", "subprocess")
MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "tty")
NAMES: dict[Any, tuple[str, ...]] = {
    os: (
        *("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "chown", "fork", "getegid", "geteuid", "getgid"),
        *("getpgid", "getuid", "kill", "killpg", "mkfifo", "sched_getaffinity", "set_blocking"),
        *("setsid", "sysconf", "wait4"),
    ),
    mmap: ("MADV_FREE", "MADV_HUGEPAGE", "MAP_ANONYMOUS", "MAP_PRIVATE"),
    signal: ("SIGHUP", "SIGKILL", "SIGPIPE", "pthread_kill", "pthread_sigmask", "set_wakeup_fd"),
}
KERNEL_FILES = ("/proc/", "/sys/")


def without_kernel_files(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that opens files find none of the kernel."""

    def opened(path: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(KERNEL_FILES):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        return function(path, *arguments, **options)

    return opened


class NamedLibrary(ctypes.CDLL):
    """A library of C with a name: only POSIX opens the program itself."""

    def __init__(self, name: str | None, *arguments: Any, **options: Any) -> None:
        if name is None:
            raise TypeError("a library needs a name")
        super().__init__(name, *arguments, **options)


def hide() -> None:
    """Hide what is named above from all code that runs later."""
    for library in LIBRARIES:
        import_module(library)
    for module in MODULES:
        sys.modules[module] = None  # type: ignore[assignment]
    for module, names in NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # rmtree opens no folder
    ctypes.CDLL = NamedLibrary  # type: ignore[misc]
    builtins.open = io.open = without_kernel_files(io.open)
    os.open = without_kernel_files(os.open)


def answers(commands: dict[str, list[str]], names: Iterable[str]) -> dict[str, str]:
    """Run commands of the package by name; those with a limit of memory spill."""
    from tests.support import spilling
    from tests.support.commands import output

    found = {}
    for name in names:
        undo = spilling.spill() if "--memory" in commands[name] else None
        found[name] = output(*commands[name])
        if undo is not None:
            undo()
    return found


if __name__ == "__main__":
    hide()
    if not sys.argv[1]:
        sys.stdout.write(json.dumps(answers(json.loads(sys.argv[2]), sys.argv[3:])))
        sys.exit()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
