"""Run commands as on a system that is neither Linux nor another POSIX system.

It hides what only such systems have: modules, functions and constants of the standard library, and
the files of the kernel. Libraries that are built for this system are imported before. The commands
by name, as JSON, and the folder of the kernels of the user follow this file's name.
"""

from __future__ import annotations

import builtins
import ctypes
import errno
import io
import json
import mmap
import os
import shutil
import signal
import sys
from collections.abc import Callable
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
#: The command after which kernels of the user are loaded.
ALONE = "evaluate without a folder for kernels"
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


def answers(commands: dict[str, list[str]], kernels: str | None = None) -> dict[str, str]:
    """Run commands by name; those with a limit spill, and those after `ALONE` load kernels."""
    from fastrank_eval._lib.kernel_store import user_store
    from tests.support import spilling
    from tests.support.commands import output

    found = {}
    for name, arguments in commands.items():
        undo = spilling.spill() if "--memory" in arguments else None
        found[name] = output(*arguments)
        if undo is not None:
            undo()
        if kernels and name == ALONE:
            assert user_store() is None
            os.environ["FASTRANK_CACHE_DIR"] = kernels
            user_store.cache_clear()
    return found


if __name__ == "__main__":
    hide()
    sys.stdout.write(json.dumps(answers(json.loads(sys.argv[1]), sys.argv[2])))
