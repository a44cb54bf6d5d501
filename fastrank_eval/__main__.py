"""Run the command line, and handle signals before its imports."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress

#: Python collects garbage after 700 new objects. A short command makes 100,000, nearly all by
#: imports, and a night 257,000, which live until the end: collecting garbage among them takes a
#: tenth of the time of a short command, and one collection after 200,000 objects 2 % of a night.
_COLLECTION_THRESHOLD = 500_000
#: Words of the stack that `_run` reserves. CPython keeps frames in blocks of 16 KB and gives a
#: block back to the system as soon as it is empty, so a loop of calls at the end of a block maps
#: and unmaps memory for each call: in the imports of NumPy below click this took 50 ms.
_STACK_WORDS = 1 << 14
#: Parameters of glibc's `mallopt`: number of heaps; bytes of an array that is mapped, and of free
#: memory above which the heap shrinks.
_HEAPS, _MAPPED, _SHRINK = -8, -3, -1


def main() -> None:
    """Run the command line; the entry point of ``fastrank-eval``."""
    gc.set_threshold(_COLLECTION_THRESHOLD)
    reuse_memory()
    try:
        from fastrank_eval._lib.signals import run_stoppable

        run_stoppable(_run)
    except KeyboardInterrupt:  # before signals are handled: there is nothing to clean up
        os.write(2, b"interrupted.\n")
        os._exit(130)


def reuse_memory() -> None:
    """Let freed memory serve the next batch, instead of the system.

    glibc maps each large array anew, and the system clears its pages. Here arrays of up to 1 GB lie
    in one heap, which all threads share and which does not shrink. So 1.5 million TREC lines take
    1.34 s instead of 1.55, and 10^7 sorted rows 0.68 instead of 0.76. A thread that runs already
    would keep a heap of its own.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with suppress(OSError, TypeError, AttributeError):  # another system, another C library
        change = ctypes.CDLL(None).mallopt
        for parameter, value in ((_HEAPS, 1), (_MAPPED, 1 << 30), (_SHRINK, (1 << 31) - 1)):
            change(parameter, value)


def _run() -> None:
    from fastrank_eval.apps.cli.main import main as run

    run()


_run.__code__ = _run.__code__.replace(co_stacksize=_STACK_WORDS)

if __name__ == "__main__":
    main()
