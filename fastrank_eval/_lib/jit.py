"""Compile kernels, and reuse their scratch arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.core.cpu import CPUTargetOptions
from numpy.typing import DTypeLike

_kernels: list[Any] = []

#: These leave out what no kernel uses (calls from C, rewriting of array expressions, counting
#: references: kernels make no arrays) and a sixth of the time that compiling takes. Not all of them
#: are documented: a release of Numba may lack one.
_LEAVE_OUT = {"no_cfunc_wrapper": True, "no_rewrites": True, "_nrt": False}
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"} | {
    name: value for name, value in _LEAVE_OUT.items() if hasattr(CPUTargetOptions, name)
}


def kernel(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `loop` on its first call.

    Numba looks for a cache folder when the decorator runs and raises where none is writable (a
    read-only installation, a container without a home): the loop is then compiled for this process
    only. Division follows IEEE 754, so every loop guards its own divisions.

    Parameters
    ----------
    loop : callable
        A plain loop over flat contiguous arrays and scalars, ``out`` and scratch passed in.

    Returns
    -------
    callable
        The same function, compiled when it is first called.

    Notes
    -----
    Numba's cache does not notice an edit in a function of another file: a kernel and the kernels it
    calls live in one file.
    """
    try:
        compiled: Callable[..., Any] = njit(cache=True, **_OPTIONS)(loop)
    except RuntimeError:
        compiled = njit(**_OPTIONS)(loop)
    _kernels.append(compiled)
    return compiled


def compilations() -> int:
    """Kernels this process had to compile because no cache held them."""
    # Plain functions under NUMBA_DISABLE_JIT have no statistics.
    stats = (getattr(loop, "stats", None) for loop in _kernels)
    return sum(sum(found.cache_misses.values()) for found in stats if found is not None)


_own = threading.local()

#: Bytes of the largest array that is kept: what a giant group needs is given back.
_KEPT = 16 << 20


def scratch(use: str, size: int, dtype: DTypeLike = np.int64) -> np.ndarray:
    """Room that the next call of the same thread for the same use overwrites: copy what is kept.

    Fresh arrays of a stretch's size cost 0.3 to 1.2 ns a row in page faults.

    Parameters
    ----------
    use : str
        What it is for.
    size : int
        Items to make room for.
    dtype : dtype

    Returns
    -------
    ndarray of `dtype`, shape (size,)
    """
    if size * np.dtype(dtype).itemsize > _KEPT:
        return np.empty(size, dtype)
    kept: dict[str, np.ndarray] = _own.__dict__
    key = f"{use} {np.dtype(dtype).str}"
    room = kept.get(key)
    if room is None or len(room) < size:
        room = kept[key] = np.empty(max(size, 1 << 12), dtype)
    return room[:size]
