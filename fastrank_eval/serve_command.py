"""The command ``fastrank-eval serve``: a history in the browser, read-only."""

from __future__ import annotations

import signal
import socket
from contextlib import closing, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from fastrank_eval.errors import ArgumentError
from fastrank_eval.options import option
from fastrank_eval.shell import SectionedCommand, note
from fastrank_eval.stops import signals_held, stop_is_told

if TYPE_CHECKING:
    from starlette.applications import Starlette

__all__ = ["bound", "serve"]

#: Seconds that a page waits for a run that is writing.
_PATIENCE = 2.0
_LOCAL = ("127.0.0.1", "localhost", "::1")
_ANY = ("0.0.0.0", "::")  # noqa: S104 (told apart, not bound)


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval serve history.db
  fastrank-eval serve history.db --port 9000
  fastrank-eval serve history.db --host 0.0.0.0 --allow-host reports.example.org""",
)
@click.argument("history", metavar="HISTORY")
@option(
    "Address",
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Where to listen. By default only programs of this machine can connect; there is no "
    "password, so put a proxy that asks for one in front of any other address.",
)
@option(
    "Address",
    "--port",
    type=click.IntRange(0, 65535),
    default=8642,
    show_default=True,
    help="0 takes any that is free.",
)
@option(
    "Address",
    "--allow-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="Another name by which browsers call this server. Repeat it for several.",
)
def serve(history: str, host: str, port: int, allowed: tuple[str, ...]) -> None:
    """Show the nights of HISTORY, which `nightly` keeps, in a browser: read-only, until Ctrl-C."""
    _check_libraries()
    if host in _ANY and not allowed:
        raise ArgumentError(
            f"--host {host} listens on every address of this machine: name the one that browsers "
            "will call with --allow-host."
        )
    with signals_held():
        from fastrank_eval.report.current_history import CurrentHistory
        from fastrank_eval.report.web import web_view

    kept = CurrentHistory(history, _PATIENCE)
    with closing(kept), closing(bound(host, port)) as listening:
        application = web_view(kept, hosts=[*allowed, *([] if host in _ANY else [host]), *_LOCAL])
        address = listening.getsockname()
        shown = f"[{address[0]}]" if listening.family == socket.AF_INET6 else address[0]
        note(f"serving {history} at http://{shown}:{address[1]}/ (Ctrl-C ends)")
        _run(application, listening)


def bound(host: str, port: int) -> socket.socket:
    """Take a port before anything is served.

    Parameters
    ----------
    host : str
    port : int
        0 for any that is free.

    Returns
    -------
    socket.socket

    Raises
    ------
    ArgumentError
        If it is in use, or the address is not of this machine.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise ArgumentError(f"--host {host!r}: no such address ({error}).") from None
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen()
    except OSError as error:
        made.close()
        raise ArgumentError(
            f"cannot listen on port {port} of {host}: {error.strerror}. Name another one with "
            "--port; --port 0 takes any that is free."
        ) from None
    return made


def _check_libraries() -> None:
    needed = ("jinja2", "matplotlib", "starlette", "uvicorn")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise ArgumentError(
            f"serve needs {', '.join(missing)}, not installed: pip install 'fastrank_eval[serve]'."
        )


def _run(application: Starlette, listening: socket.socket) -> None:
    import uvicorn

    # The server ends in its own order, which may take longer than other commands are given.
    stop_is_told()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    settings = uvicorn.Config(
        application, log_level="warning", access_log=False, server_header=False, lifespan="off"
    )
    with suppress(KeyboardInterrupt):
        uvicorn.Server(settings).run(sockets=[listening])
