"""Compile kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core import event
from numba.core.cpu import CPUTargetOptions

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


#: Counts the kernels that this process compiled because no cache had them.
compilations = _CompileCounter()
event.register("numba:compile", compilations)  # type: ignore[no-untyped-call]
