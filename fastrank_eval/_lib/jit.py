"""Run kernels as machine code: load it from a store, or compile it.

A kernel is a plain loop over arrays and scalars. Its first call with new argument types looks for
machine code in the stores. Only if there is none, Numba is imported and compiles the loop.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from fastrank_eval._lib import kernel_store

#: A part of each key; changes when entry points of another kind are compiled.
_ABI = "fastrank_eval 1"

#: Entry points read Python's and NumPy's objects in memory. Where these may look different, Numba
#: calls the kernel, and each process compiles it.
_KNOWN_OBJECTS = (
    sys.implementation.name == "cpython"
    and sys.maxsize == 2**63 - 1
    and "free-threading" not in sys.version
    and int(np.__version__.partition(".")[0]) < 3
)

#: Scalars that entry points read.
_SCALARS = {
    bool, int, float, type(None), np.bool_, np.uint8, np.int32, np.uint32, np.int64, np.uint64,
    np.float32, np.float64,
}  # fmt: skip


class _Counter:
    """A count that all parts of the process share."""

    count = 0


#: Counts the kernels that this process compiled because no store had them.
compilations = _Counter()

#: Size and time of each file when its kernels were defined.
_FILES: dict[str, tuple[int, int] | None] = {}

_LOCK = threading.RLock()


class Kernel:
    """A loop with machine code for each set of argument types.

    Parameters
    ----------
    loop : function
        The loop in Python.
    """

    def __init__(self, loop: FunctionType) -> None:
        functools.update_wrapper(self, loop)
        self.loop = loop
        self._entries: list[Callable[..., Any]] = []
        file = loop.__code__.co_filename
        _FILES.setdefault(file, _size_and_time(file))

    def __call__(self, *args: Any) -> Any:
        """Run the loop; an entry point returns NotImplemented for other types."""
        for entry in self._entries:
            result = entry(*args)
            if result is not NotImplemented:
                return result
        return self._call_first(tuple(map(_canonical, args)))

    def _call_first(self, args: tuple[Any, ...]) -> Any:
        """Run the loop with types that may lack an entry point."""
        with _LOCK:
            for entry in self._entries:
                result = entry(*args)
                if result is not NotImplemented:
                    return result
            entry = self._find(args)
        return entry(*args)

    def _find(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        """Load or compile an entry point for the types of the arguments."""
        if not (_KNOWN_OBJECTS and all(map(_is_known, args))):
            return _compiler().numba_function(self)
        name = self.loop.__name__
        content = self._content(args)
        address = kernel_store.load(name, content) if content else None
        if address is None:
            compilations.count += 1
            address = _compiler().compile_kernel(self, args, content)
        if address is None:
            return _compiler().numba_function(self)
        entry = kernel_store.entry_point(name, address, args)
        self._entries.append(entry)
        return entry

    def _content(self, args: tuple[Any, ...]) -> str | None:
        """Return what the code depends on, apart from the machine."""
        parts = [_ABI, *map(_type_name, args)]
        for part in _parts(self, set()):
            if part is None:
                return None
            parts.append(part)
        return "\n".join(parts)


def kernel(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Make a loop run as machine code from its first call on.

    Division follows IEEE 754, so every loop guards its own divisions. With ``NUMBA_DISABLE_JIT=1``
    the loop stays a Python function.

    Parameters
    ----------
    loop : callable
        A plain loop over contiguous arrays and scalars; ``out`` and scratch are arguments.

    Returns
    -------
    callable
        The same function as machine code. It takes its arguments by position.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return loop
    return Kernel(cast("FunctionType", loop))


def _compiler() -> Any:
    from fastrank_eval._lib import compiler

    return compiler


def _size_and_time(file: str) -> tuple[int, int] | None:
    try:
        status = Path(file).stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _canonical(argument: Any) -> Any:
    """Return the same value with a type that an entry point may know."""
    if not isinstance(argument, np.ndarray):
        return argument
    dtype = np.dtype(argument.dtype.str)
    if type(argument) is not np.ndarray:
        argument = argument.view(np.ndarray)
    return argument if argument.dtype is dtype else argument.view(dtype)


def _is_known(argument: Any) -> bool:
    """Return whether an entry point can read the argument."""
    if isinstance(argument, np.ndarray):
        dtype = argument.dtype
        return (
            dtype.kind in "biuf"
            and dtype.itemsize <= 8
            and dtype.isnative
            and (argument.flags.aligned)
        )
    if type(argument) is int:
        return -(2**63) <= argument < 2**63
    return type(argument) in _SCALARS


def _type_name(argument: Any) -> str:
    if not isinstance(argument, np.ndarray):
        return type(argument).__name__
    flags = argument.flags
    layout = "contiguous" if flags.c_contiguous else "strided"
    return f"{argument.dtype.str} {argument.ndim} {layout} {flags.writeable}"


def _parts(of: Kernel, seen: set[Kernel]) -> Iterator[str | None]:
    """Yield sources of a kernel and its callees, and the globals they read."""
    seen.add(of)
    loop = of.loop
    yield _source(loop)
    names = sorted(set(loop.__code__.co_names))
    spaces = [loop.__globals__]
    # Attributes have their names in the same list.
    spaces += [
        vars(module)
        for name in names
        if isinstance(module := loop.__globals__.get(name), ModuleType)
        and module.__name__.startswith("fastrank_eval")
    ]
    for space in spaces:
        for name in names:
            value = space.get(name)
            if isinstance(value, Kernel):
                if value not in seen:
                    yield from _parts(value, seen)
            elif isinstance(value, np.ndarray):
                yield f"{name} = {_type_name(value)} {value.shape} {value.tobytes().hex()}"
            elif isinstance(value, (ModuleType, type, FunctionType)):
                yield f"{name} is {value.__name__}"
            elif name in space:
                yield f"{name} = {value!r}"


def _source(loop: FunctionType) -> str | None:
    """Return the lines of a function; None if its file has changed."""
    code = loop.__code__
    if _size_and_time(code.co_filename) != _FILES[code.co_filename]:
        return None
    lines = linecache.getlines(code.co_filename, loop.__globals__)
    if not lines:
        return None
    first = code.co_firstlineno - 1
    last = max(line for _, _, line in code.co_lines() if line)
    margin = len(lines[first]) - len(lines[first].lstrip())
    # The last statement may end below the last line with code.
    while last < len(lines) and (
        lines[last].lstrip().startswith((")", "]"))
        or (len(lines[last]) - len(lines[last].lstrip()) > margin and lines[last].strip())
    ):
        last += 1
    return "".join(lines[first:last])
