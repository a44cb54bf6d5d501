"""Load machine code of kernels from safe folders.

Only the user and root can write a safe folder. A file holds one kernel for one set of argument
types: a line with the format, the hash of all that the code depends on, the hash of the code, and
the code as an object file. llvmlite links it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import os
import stat
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastrank_eval._lib.threads import file_text

#: The first line of each file.
_FORMAT = b"fastrank_eval kernel 1\n"

#: The folder of objects in the package: one folder for each level of the processor.
SHIPPED = Path(os.path.realpath(__file__)).parent / "objects"

#: Levels of x86-64 and what each adds to the one before.
LEVELS = {
    "x86-64-v2": ("cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}

#: Settings of Numba that do not change machine code.
_OTHER_SETTINGS = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"}


class Store(NamedTuple):
    """A folder of machine code, and the machines it is for."""

    folder: Path
    target: str

    def path(self, name: str, content: str) -> tuple[Path, str]:
        """Return the file of a kernel, and its key."""
        key = hashlib.sha256(f"{self.target}\n{content}".encode()).hexdigest()
        return self.folder / f"{name}-{key[:32]}.kernel", key


def load(name: str, content: Any) -> int | None:
    """Load machine code from the first store that has it.

    Parameters
    ----------
    name : str
        The name of the kernel.
    content : jit.Content

    Returns
    -------
    int or None
        The address of the entry point. None if no store has the code: the file is missing or
        damaged, others can write it, or it needs symbols that this process lacks.
    """
    for find_store, kind in ((shipped_store, "sources"), (user_store, "bytecode")):
        store = find_store()
        text = getattr(content, kind) if store else None
        if store is None or text is None:
            continue
        path, key = store.path(name, text)
        code = _read(path, key)
        address = link(code) if code else None
        if address is not None:
            return address
    return None


@functools.cache
def shipped_store() -> Store | None:
    """Return the store in the package for this processor."""
    if not SHIPPED.is_dir() or numba_settings():
        return None
    level = processor_level()
    if level is None or why_unsafe(SHIPPED / level):
        return None
    return Store(SHIPPED / level, level)


@functools.cache
def user_store() -> Store | None:
    """Return the store of the user, or None if its folder is not safe."""
    folder = user_folder()
    if folder is None:
        if hasattr(os, "geteuid"):
            named = os.environ.get("FASTRANK_CACHE_DIR") or "~"
            warn_once(f"FASTRANK_CACHE_DIR: must be a folder, got {named!r}, which has no path")
        return None
    problem = why_unsafe(folder)
    if problem:
        warn_unsafe(folder, problem)
        return None
    return Store(folder, _machine())


def user_folder() -> Path | None:
    """Return the folder of the user's kernels.

    `FASTRANK_CACHE_DIR`, or a folder in the user's cache folder. None where owners of files cannot
    be checked and the variable is not set, or without a home folder.
    """
    named = os.environ.get("FASTRANK_CACHE_DIR")
    if not named and not hasattr(os, "geteuid"):
        return None
    cache = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    cache = os.environ.get("XDG_CACHE_HOME") or cache
    folder = os.path.expanduser(named or f"{cache}/fastrank_eval")  # noqa: PTH111
    try:
        return None if folder.startswith("~") else Path(os.path.realpath(folder))
    except OSError:  # a relative path, and the current folder is gone
        return None


def why_not_stored() -> str:
    """Return why compiled kernels are not stored, or an empty text."""
    if user_store() is None and not _warnings:
        return "FASTRANK_CACHE_DIR: must name a folder on this system, got none"
    return _warnings[0] if _warnings else ""


def where_stored() -> str:
    """Say where compiled kernels are, or why they are not stored."""
    problem = why_not_stored()
    store = user_store()
    if store is None or problem:
        return f"not stored: {problem}"
    return f"stored in {store.folder}; later runs load them"


def processor_level() -> str | None:
    """Return the highest level of x86-64 that this processor reaches."""
    import llvmlite.binding as llvm

    if not llvm.get_process_triple().startswith("x86_64"):
        return None
    features = llvm.get_host_cpu_features()
    reached = None
    for level, added in LEVELS.items():
        if not all(features.get(name) for name in added):
            break
        reached = level
    return reached


def numba_settings() -> str:
    """Return the settings of Numba that may change machine code."""
    settings = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in _OTHER_SETTINGS
    }
    # A program may set it in Python, too.
    if getattr(sys.modules.get("numba.core.config"), "BOUNDSCHECK", None):
        settings["NUMBA_BOUNDSCHECK"] = "1"
    lines = (f"{name}={value}" for name, value in sorted(settings.items()))
    return "\n".join((*lines, file_text(Path(".numba_config.yaml"))))


def _machine() -> str:
    """Return the versions and the processor of this machine."""
    import llvmlite.binding as llvm

    numba = find_spec("numba")
    version = Path(numba.origin).with_name("_version.py") if numba and numba.origin else None
    return "\n".join(
        (
            file_text(version) if version else "",
            ".".join(map(str, llvm.llvm_version_info)),
            llvm.get_process_triple(),
            llvm.get_host_cpu_name(),
            llvm.get_host_cpu_features().flatten(),
            numba_settings(),
        )
    )


def warn_unsafe(folder: Path, problem: str) -> None:
    """Say once in a process that others can write a folder."""
    warn_once(f"{folder}: must be a folder that only you and root can write, got {problem}")


def warn_once(problem: str) -> None:
    """Say once in a process why kernels are not stored."""
    if not _warnings:
        _warnings.append(problem)
        warnings.warn(
            f"{problem}; kernels are compiled in each process until FASTRANK_CACHE_DIR names "
            "another folder.",
            RuntimeWarning,
            stacklevel=2,
        )


_warnings: list[str] = []


def why_unsafe(folder: Path) -> str:
    """Return why others can write a folder, or an empty text.

    Parameters
    ----------
    folder : pathlib.Path
        An absolute path without links. Folders that are missing are safe if their parents are.

    Returns
    -------
    str
    """
    if not hasattr(os, "geteuid"):
        return ""
    for path in (folder, *folder.parents):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"{path} ({error.strerror})"
        if not stat.S_ISDIR(status.st_mode):
            return f"{path}, which is no folder"
        if status.st_uid not in (0, os.geteuid()):
            return f"{path}, which belongs to another user"
        if status.st_mode & 0o022:
            return f"{path}, which others can write"
    return ""


#: A link is not followed; a pipe does not block.
_READ = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)


#: Kernels take at most a tenth of it.
_MAX_SIZE = 2**24


def _read(path: Path, key: str) -> bytes | None:
    """Return the code in a file if it is whole and safe."""
    try:
        handle = os.open(path, _READ)
    except OSError:
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_SIZE:
            return None
        if hasattr(os, "geteuid") and (
            status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022
        ):
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read(_MAX_SIZE)
    except OSError:
        return None
    finally:
        os.close(handle)
    head = _head(key)
    code = content[len(head) + 65 :]
    return code if content.startswith(head) and content[len(head) :] == _checked(code) else None


def file_content(key: str, code: bytes) -> bytes:
    """Return the content of a file for machine code."""
    return _head(key) + _checked(code)


def _head(key: str) -> bytes:
    return _FORMAT + key.encode() + b"\n"


def _checked(code: bytes) -> bytes:
    return hashlib.sha256(code).hexdigest().encode() + b"\n" + code


def link(code: bytes) -> int | None:
    """Link an object file and return the address of its entry point."""
    import llvmlite.binding as llvm

    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    for symbol, address in _mathematics().items():
        library.import_symbol(symbol, address)
    try:
        linked = library.export_symbol(ENTRY).link(_linker(), f"kernel{next(_numbers)}")
    except RuntimeError:
        return None
    # The code stays until the process ends.
    linked.detach()
    return int(linked[ENTRY])


#: The symbol of the entry point in each object file.
ENTRY = "fastrank_eval_kernel"

#: Names of linked libraries may not repeat.
_numbers = itertools.count()


@functools.cache
def _mathematics() -> dict[str, int]:
    """Return addresses of functions of C by Numba's names."""
    names = {"numba_frexp": "frexp", "numba_ldexp": "ldexp"}
    try:
        library = ctypes.CDLL(None)
        return {
            symbol: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
            for symbol, name in names.items()
        }
    except (OSError, TypeError, AttributeError):
        return {}


@functools.cache
def _linker() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    linker = llvm.create_lljit_compiler(machine, suppress_errors=True)
    # Without this reference it would unlink all code while the process ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(linker))
    return linker


class _MethodDefinition(ctypes.Structure):
    """Python's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x80
_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))


def entry_point(name: str, address: int, args: tuple[Any, ...]) -> Any:
    """Return machine code as a function.

    Parameters
    ----------
    name : str
        The name of the kernel.
    address : int
        Where `compiler.py` has compiled an entry point.
    args : tuple
        Arguments of the types that it takes.

    Returns
    -------
    builtin function
        Returns NotImplemented for arguments of other types.
    """
    definition = _MethodDefinition(name.encode(), address, _METH_FASTCALL, None)
    # Python reads the definition when it frees the function, after all modules have gone.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))
    # The entry point reads these objects by their position.
    objects = np.empty(2 * len(args) + 4, dtype=object)
    objects[:] = (
        *map(type, args),
        *(argument.dtype if isinstance(argument, np.ndarray) else None for argument in args),
        None, NotImplemented, True, IndexError,
    )  # fmt: skip
    return _new_function(ctypes.addressof(definition), objects, None)
