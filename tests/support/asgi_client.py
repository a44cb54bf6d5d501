"""Asks an ASGI application without a network; paths and hosts reach it as they are given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()


@dataclass(frozen=True)
class Client:
    app: Any
    host: str = "127.0.0.1:8642"

    def get(self, address: str, host: str | None = None) -> Answer:
        return self.ask("GET", address, host)

    def ask(self, method: str, address: str, host: str | None = None) -> Answer:
        return asyncio.run(self._ask(method, address, self.host if host is None else host))

    async def _ask(self, method: str, address: str, host: str) -> Answer:
        path, _, query = address.encode().partition(b"?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote_to_bytes(path).decode("utf-8", "replace"),
            "raw_path": path,
            "query_string": query.replace(b" ", b"%20"),
            "headers": [(b"host", host.encode())],
            "server": ("127.0.0.1", 8642),
            "client": ("127.0.0.1", 50000),
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"x", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        start, *rest = sent
        headers = {name.decode(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], headers, b"".join(m.get("body", b"") for m in rest))
