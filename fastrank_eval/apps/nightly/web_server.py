"""Run the server of the web view, with limits of connections."""

from __future__ import annotations

import asyncio
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.signals import StopSignal, reset_signals

if TYPE_CHECKING:
    from starlette.types import ASGIApp

#: The most connections at a time; a request on any other is answered with code 503.
MAX_CONNECTIONS = 100
#: Seconds until a connection is closed, from its first byte to the last of its answer.
MAX_SECONDS = 30.0
#: Seconds to finish answers when the server ends.
_END_SECONDS = 3
#: Signals that end the server, beside Ctrl-C. Windows has no SIGHUP.
_STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind and open a listening socket.

    Parameters
    ----------
    host : str
    port : int
        0 for any free port.

    Returns
    -------
    socket.socket

    Raises
    ------
    ArgumentError
        If the port is in use, or the address is not one of this machine, or none.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=both)
    except OSError as error:
        raise ArgumentError(
            f"cannot listen on port {port} of {host}: {error.strerror}. Name another address with "
            "--host, or another port with --port; 0 takes any free one."
        ) from None


class LimitedConnection(H11Protocol):
    """A connection that is closed after a time limit.

    uvicorn limits only the time between two requests. So half a request, or a client that does not
    read its answer, would hold a connection for ever.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit."""
        super().connection_made(transport)
        self._limit = self.loop.call_later(MAX_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the time limit."""
        self._limit.cancel()
        super().connection_lost(exc)


def server_of(application: ASGIApp) -> Server:
    """Make the server of an application.

    Parameters
    ----------
    application : ASGI application
        Its answers have the header ``connection: close``: one request a connection.
    """
    return Server(
        Config(
            application,
            http=LimitedConnection,
            ws="none",
            lifespan="off",
            log_config=None,  # the command writes the lines of all loggers
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=_END_SECONDS,
        )
    )


def run_server(application: ASGIApp, listener: socket.socket) -> None:
    """Answer requests until a signal.

    Parameters
    ----------
    application : ASGI application
    listener : socket.socket

    Raises
    ------
    StopSignal
        After SIGTERM or SIGHUP; Ctrl-C is the usual end.
    """
    server, received = server_of(application), list[int]()

    def stop(number: int, _frame: object) -> None:
        received.append(number)
        server.should_exit = True

    # The server shuts down by itself, which may take longer than the time limit of a command.
    reset_signals()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    handled = [number for number in _STOPS if signal.getsignal(number) == signal.SIG_DFL]
    for number in handled:
        signal.signal(number, stop)
    try:
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])  # it handles SIGTERM too, and sends it again at its end
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)  # another signal ends the process at once
    if received:
        raise StopSignal(received[0])
