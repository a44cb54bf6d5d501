"""Signals as a program meets them that a user starts, whatever those of the tests are.

A process inherits which signals its parent ignores: ``nohup make test`` ignores SIGHUP, and a job
in the background of a script SIGINT.
"""

from __future__ import annotations

import signal

__all__ = ["default_signals"]


def default_signals() -> None:
    """Let signals that end a run do so; the ``preexec_fn`` of a process that a test ends."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
