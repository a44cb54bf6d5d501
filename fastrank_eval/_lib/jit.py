"""Run kernels as machine code: load it from a store, or compile it.

A kernel is a plain loop over arrays and scalars. Its first call with new argument types looks for
machine code in the stores. Only if there is none, Numba is imported and compiles the loop.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from time import perf_counter
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, ClassVar, cast

import numpy as np

from fastrank_eval._lib import kernel_store
from fastrank_eval._lib.log import KERNELS

#: A part of each key; changes when entry points of another kind are compiled.
_ABI = "fastrank_eval 2"

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

#: Counts the kernels that this process loaded from a store.
loads = _Counter()

#: Modules whose functions and constants belong to a release of theirs.
_LIBRARIES = ("builtins", "math", "numba", "numpy")

#: Values with a `repr` that says all.
_VALUES = (bool, int, float, complex, str, type(None))

#: The state of each file when its kernels were defined.
_FILES: dict[str, tuple[int, ...] | None] = {}

_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    # A child has no other threads: a lock that one of them holds would never be free. A fork takes
    # the lock that was registered last first. `logging` is imported above. Numba writes to the log
    # while it compiles, so a fork that took the lock of the log first would wait for ever.
    os.register_at_fork(
        before=_LOCK.acquire, after_in_child=_LOCK.release, after_in_parent=_LOCK.release
    )


class Kernel:
    """A loop with machine code for each set of argument types.

    Parameters
    ----------
    loop : function
        The loop in Python.
    inlined : bool
        Copy it into each kernel that calls it.
    """

    #: Whether kernels call it, and Python does not.
    native: ClassVar[bool] = False

    def __init__(self, loop: FunctionType, *, inlined: bool = False) -> None:
        functools.update_wrapper(self, loop)
        self.loop, self.inlined = loop, inlined
        self._entries: list[Callable[..., Any]] = []
        self._by_types: dict[tuple[str, ...], Callable[..., Any]] = {}
        file = loop.__code__.co_filename
        if file not in _FILES:
            _FILES[file] = _file_state(file)

    def __call__(self, *args: Any) -> Any:
        """Run the loop; an entry point returns NotImplemented for other types."""
        for entry in self._entries:
            result = entry(*args)
            if result is not NotImplemented:
                return result
        return self._call_first(args)

    def _call_first(self, args: tuple[Any, ...]) -> Any:
        """Run the loop with types that may lack an entry point."""
        if len(args) != self.loop.__code__.co_argcount:
            bound = inspect.signature(self.loop).bind(*args)
            bound.apply_defaults()
            args = bound.args
        args = tuple(map(_canonical, args))
        if not (_KNOWN_OBJECTS and all(map(_is_known, args))):
            return self._numba_function()(*args)
        types = tuple(map(_type_name, args))
        entry = self._by_types.get(types)
        if entry is None:
            with _LOCK:
                entry = self._by_types.get(types) or self._find(types, args)
        return entry(*args)

    def _find(self, types: tuple[str, ...], args: tuple[Any, ...]) -> Callable[..., Any]:
        """Load or compile an entry point for the types of the arguments."""
        address = self._address(types, args)
        if address is None:
            entry = self._numba_function()
        else:
            entry = kernel_store.entry_point(self.loop.__name__, address, args)
            self._entries.append(entry)
        self._by_types[types] = entry
        return entry

    def _address(self, types: tuple[str, ...], args: tuple[Any, ...]) -> int | None:
        """Load or compile machine code; None if there can be none."""
        name, content = self.loop.__name__, Content(self, types)
        address = kernel_store.load(name, content)
        if address is None:
            compilations.count += 1
            started = perf_counter()
            address = _compiler().compile_kernel(self, args, content)
            KERNELS.info("kernel compiled", kernel=name, seconds=perf_counter() - started)
        else:
            loads.count += 1
            KERNELS.debug("kernel loaded", kernel=name)
        return address

    def _numba_function(self) -> Callable[..., Any]:
        with _LOCK:
            return _compiler().numba_function(self)

    def content(self) -> str | None:
        """Return the content of the loop for any types of arguments."""
        return Content(self).bytecode

    @property
    def _numba_type_(self) -> Any:
        """Let a function of Numba call the kernel."""
        return _compiler().type_of(self)

    def __reduce__(self) -> Any:
        """Pickle by name; a kernel of a notebook by its loop."""
        module, name = sys.modules.get(self.loop.__module__), self.loop.__qualname__
        by_loop = inlined if self.inlined else kernel, (self.loop,)
        if module is None or module.__name__ == "__main__":
            return by_loop
        return name if getattr(module, name, None) is self else by_loop


class NativeKernel(Kernel):
    """A loop that kernels call by its address.

    Parameters
    ----------
    loop : function
    args : tuple
        Arguments of the only types that it takes, contiguous arrays and scalars.
    """

    native = True

    def __init__(self, loop: FunctionType, args: tuple[Any, ...]) -> None:
        super().__init__(loop)
        self._args = args

    @functools.cached_property
    def address(self) -> int:
        """What `call_by_address` takes."""
        with _LOCK:
            types = tuple(map(_type_name, self._args))
            found = None if is_off() else self._address(types, self._args)
            # Without machine code any number that is not taken will do.
            address = len(_NATIVE) + 1 if found is None else found
            _NATIVE[address] = self.loop
        return address


#: The loops of native kernels by their addresses.
_NATIVE: dict[int, FunctionType] = {}


class _CallByAddress:
    """Lets a kernel call a native kernel that it does not know."""

    def __call__(self, address: int, args: tuple[Any, ...]) -> None:
        """Call the loop itself, where kernels stay Python functions."""
        _NATIVE[address](*args)

    @property
    def _numba_type_(self) -> Any:
        return _compiler().type_of_call()


call_by_address = _CallByAddress()


class Content:
    """What machine code depends on, apart from the machine.

    Numba compiles the bytecode, so it is exact, but it differs between releases of Python. Sources
    do not.

    Parameters
    ----------
    kernel : Kernel
    types : tuple of str
        The types of the arguments.
    """

    def __init__(self, kernel: Kernel, types: tuple[str, ...] = ()) -> None:
        self._kernels = [kernel]
        self._shared: list[str | None] = [_ABI, type(kernel).__name__, *types]
        for one in self._kernels:  # grows
            defaults = _value_text(one.loop.__defaults__ or ())
            self._shared.append(defaults and f"defaults {defaults}")
            for name, value in _values_read(one.loop):
                if isinstance(value, Kernel):
                    if value not in self._kernels:
                        self._kernels.append(value)
                    inline = " inlined" * value.inlined
                    text: str | None = f"kernel {self._kernels.index(value)}{inline}"
                else:
                    text = _value_text(value)
                self._shared.append(text and f"{name} = {text}")

    @property
    def sources(self) -> str | None:
        """The content by sources; None if it is not known."""
        return _joined([*self._shared, *(_source(one.loop) for one in self._kernels)])

    @property
    def bytecode(self) -> str | None:
        """The content by bytecode; None if it is not known."""
        codes = (repr(_bytecode(one.loop.__code__)) for one in self._kernels)
        return _joined([*self._shared, MAGIC_NUMBER.hex(), *codes])


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
    if is_off():
        return loop
    return Kernel(cast("FunctionType", loop))


def inlined(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Make a kernel that is copied into each kernel that calls it.

    A call with many arrays takes 60 ns. So functions of one group are copied.
    """
    return loop if is_off() else Kernel(cast("FunctionType", loop), inlined=True)


def is_off() -> bool:
    """Return whether kernels stay Python functions."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def _compiler() -> Any:
    from fastrank_eval._lib import compiler

    return compiler


def _file_state(file: str) -> tuple[int, ...] | None:
    """Return what changes with a file, or with the archive around it."""
    path = Path(file)
    while True:
        try:
            status = path.stat()
        except NotADirectoryError:
            path = path.parent
        except OSError:
            return None
        else:
            return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _canonical(argument: Any) -> Any:
    """Return the same value with a type that an entry point may know."""
    if isinstance(argument, np.memmap):
        argument = argument.view(np.ndarray)
    if type(argument) is not np.ndarray:
        return argument
    dtype = np.dtype(argument.dtype.str)
    return argument if argument.dtype is dtype else argument.view(dtype)


def _is_known(argument: Any) -> bool:
    """Return whether an entry point can read the argument."""
    if type(argument) is np.ndarray:
        dtype = argument.dtype
        return dtype.kind in "biuf" and dtype.itemsize <= 8 and dtype.isnative
    if type(argument) is int:
        return -(2**63) <= argument < 2**63
    return type(argument) in _SCALARS


def _type_name(argument: Any) -> str:
    if not isinstance(argument, np.ndarray):
        return f"{type(argument).__module__}.{type(argument).__name__}"
    flags = argument.flags
    layout = "contiguous" if flags.c_contiguous else "strided"
    if not flags.aligned:
        layout += " unaligned"
    return f"{argument.dtype.str} {argument.ndim} {layout} {flags.writeable}"


def _joined(parts: list[str | None]) -> str | None:
    known = [part for part in parts if part is not None]
    return "\0".join(known) if len(known) == len(parts) else None


def _values_read(loop: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield names and values that a function reads from outside."""
    for name, cell in zip(loop.__code__.co_freevars, loop.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    codes = [loop.__code__]
    for code in codes:  # grows: inner functions
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    # Attributes of modules have their names in the same lists.
    names = sorted({name for code in codes for name in code.co_names})
    modules: list[str] = []
    spaces = [loop.__globals__]
    for number, space in enumerate(spaces):  # grows
        for name in names:
            if name not in space:
                continue
            value = space[name]
            yield f"{number} {name}", value
            if isinstance(value, ModuleType) and not _is_library(value.__name__, modules):
                modules.append(value.__name__)
                spaces.append(vars(value))


def _is_library(module: str | None, more: Sequence[str] = ()) -> bool:
    return module is not None and (module in more or module.partition(".")[0] in _LIBRARIES)


def _value_text(value: Any) -> str | None:
    """Return all that a value says; None if it is not known."""
    if isinstance(value, np.ndarray):
        known = value.dtype.kind in "biufc"
        return f"{_type_name(value)} {value.shape} {value.tobytes().hex()}" if known else None
    if type(value) is tuple:
        items = [_value_text(item) for item in value]
        return None if None in items else f"({', '.join(map(str, items))})"
    if type(value) in _VALUES or isinstance(value, np.generic):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, np.ufunc):
        return f"{value!r}"
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    if value is call_by_address:
        return "call by address"
    if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        return f"named tuple {value.__qualname__} {value._fields}"
    if isinstance(value, (type, BuiltinFunctionType, FunctionType)) and _is_library(
        value.__module__
    ):
        return f"{value.__module__}.{value.__qualname__}"
    return None


def _bytecode(code: CodeType) -> tuple[Any, ...]:
    """Return all of a code object that Numba reads."""
    return (
        *(code.co_code, code.co_exceptiontable, code.co_argcount, code.co_flags),
        *(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        *map(_constant, code.co_consts),
    )


def _constant(constant: Any) -> Any:
    if isinstance(constant, CodeType):
        return _bytecode(constant)
    # The order of a set of strings differs between processes.
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def _source(loop: FunctionType) -> str | None:
    """Return the lines of a function; None if they may not be its own."""
    code = loop.__code__
    file = code.co_filename
    if loop.__globals__.get("__file__") != file or _file_state(file) != _FILES[file]:
        return None
    lines = linecache.getlines(file, loop.__globals__)
    if not lines:
        return None
    first = code.co_firstlineno - 1
    last = max(line for _, _, line in code.co_lines() if line)
    margin = len(lines[first]) - len(lines[first].lstrip())
    # The last statement may end below the last line with code.
    while last < len(lines) and (
        lines[last].lstrip().startswith((")", "]"))
        or not lines[last].strip()
        or len(lines[last]) - len(lines[last].lstrip()) > margin
    ):
        last += 1
    return "".join(lines[first:last]).rstrip()
