"""Run the command line, and handle signals before its imports."""

from __future__ import annotations

import gc
import os

#: Python collects garbage after 700 new objects. A short command makes 100,000, nearly all by
#: imports, which live until the end: collecting garbage among them takes a tenth of its time.
_COLLECTION_THRESHOLD = 200_000
#: Words of the stack that `_run` reserves. CPython keeps frames in blocks of 16 KB and gives a
#: block back to the system as soon as it is empty, so a loop of calls at the end of a block maps
#: and unmaps memory for each call: in the imports of NumPy below click this took 50 ms.
_STACK_WORDS = 1 << 14


def main() -> None:
    """Run the command line; the entry point of ``fastrank-eval``."""
    gc.set_threshold(_COLLECTION_THRESHOLD)
    try:
        from fastrank_eval._lib.signals import run_stoppable

        run_stoppable(_run)
    except KeyboardInterrupt:  # before signals are handled: there is nothing to clean up
        os.write(2, b"interrupted.\n")
        os._exit(130)


def _run() -> None:
    from fastrank_eval._lib.signals import defer_signals, raise_if_stopped

    with defer_signals():
        from fastrank_eval.apps.cli.main import main as run
    raise_if_stopped()
    run()


_run.__code__ = _run.__code__.replace(co_stacksize=_STACK_WORDS)

if __name__ == "__main__":
    main()
