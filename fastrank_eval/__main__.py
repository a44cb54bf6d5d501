"""Run the command line, and handle signals before its imports."""

from __future__ import annotations

import os


def main() -> None:
    """Run the command line; the entry point of ``fastrank-eval``."""
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


if __name__ == "__main__":
    main()
