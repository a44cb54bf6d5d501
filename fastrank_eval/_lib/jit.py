"""Compile kernels and reuse their scratch arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.core import event
from numba.core.cpu import CPUTargetOptions
from numpy.typing import DTypeLike

_kernels: set[Any] = set()

#: Features of Numba that no kernel uses: calls from C, rewriting of array expressions, reference
#: counts (kernels make no arrays). Without them compiling takes a sixth less time. Not all are
#: documented, so a release of Numba may lack one.
_DISABLE = {"no_cfunc_wrapper": True, "no_rewrites": True, "_nrt": False}
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"} | {
    name: value for name, value in _DISABLE.items() if hasattr(CPUTargetOptions, name)
}


def kernel(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `loop` on its first call.

    Numba looks for a cache folder when the decorator runs and raises if none is writable (a
    read-only installation, a container without a home). Then the loop is compiled for this process
    only. Division follows IEEE 754, so every loop guards its own divisions.

    Parameters
    ----------
    loop : callable
        A plain loop over contiguous arrays and scalars; ``out`` and scratch are arguments.

    Returns
    -------
    callable
        The same function, compiled at its first call.

    Notes
    -----
    Numba's cache does not notice an edit in a function of another file. So a kernel and the kernels
    that it calls live in one file.
    """
    try:
        compiled: Callable[..., Any] = njit(cache=True, **_OPTIONS)(loop)
    except RuntimeError:
        compiled = njit(**_OPTIONS)(loop)
    _kernels.add(compiled)
    return compiled


class _CompileCounter(event.Listener):
    """Counts the kernels that Numba compiles because no cache has them."""

    def __init__(self) -> None:
        self.count = 0

    def on_start(self, event: event.Event) -> None:
        """Count a compilation; Numba's lock lets one thread in at a time."""
        self.count += event.data["dispatcher"] in _kernels

    def on_end(self, event: event.Event) -> None:
        """Do nothing."""


_counter = _CompileCounter()
event.register("numba:compile", _counter)  # type: ignore[no-untyped-call]


def compilations() -> int:
    """Count the kernels that this process compiled because no cache had them."""
    return _counter.count


_thread_arrays = threading.local()

#: Bytes of the largest array that is reused: the memory for a giant group is freed.
_MAX_BYTES = 16 << 20


def scratch(use: str, size: int, dtype: DTypeLike = np.int64) -> np.ndarray:
    """Return an array that the thread's next call for the same use overwrites.

    New arrays of the size of a batch cost 0.3 to 1.2 ns a row in page faults.

    Parameters
    ----------
    use : str
        Name of the purpose.
    size : int
        Number of items.
    dtype : dtype

    Returns
    -------
    ndarray of `dtype`, shape (size,)
    """
    if size * np.dtype(dtype).itemsize > _MAX_BYTES:
        return np.empty(size, dtype)
    arrays: dict[str, np.ndarray] = _thread_arrays.__dict__
    key = f"{use} {np.dtype(dtype).str}"
    array = arrays.get(key)
    if array is None or len(array) < size:
        array = arrays[key] = np.empty(max(size, 1 << 12), dtype)
    return array[:size]
