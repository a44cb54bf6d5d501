"""The server of the web view: slow, greedy and silent clients, and pages drawn once."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import HTMLResponse

from fastrank_eval._lib.errors import HistoryError
from fastrank_eval.apps.nightly import web
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.web import (
    THREADS,
    HistoryFile,
    PageCache,
    load_libraries,
    web_view,
)
from tests.apps.nightly.test_page import tiny
from tests.apps.nightly.test_web_view import StateSpec, web_of
from tests.support.asgi_client import Client
from tests.support.nights import a_night
from tests.support.sample_nights import LAST, few, month
from tests.support.transcripts import answers

#: Seconds after which a test gives up; none takes so long.
PATIENCE = 60
NIGHT = f"/night/{LAST}"
REQUEST = f"GET {NIGHT} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


class HeldHistory(StateSpec):
    """A history whose nights are read once a test lets them."""

    def __init__(self, *nights: Night) -> None:
        super().__init__(nights or (tiny(),))
        self.state_of_file = 1
        self.reading, self.free = threading.Event(), threading.Event()

    def read(self, *arguments: Any, **options: Any) -> list[Night]:
        self.reading.set()
        assert self.free.wait(PATIENCE)
        return super().read(*arguments, **options)


@contextmanager
def served(history: StateSpec | None, application: Any = None) -> Iterator[tuple[int, Any]]:
    """The port of a server of a history or of another application, and the server."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = web.server_of(application or web_of(history))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        until(lambda: server.started)
        yield listener.getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def answer_of(port: int, address: str = NIGHT) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("GET", address)
        answer = connection.getresponse()
        return answer.status, answer.read()


def status_of(port: int, address: str = NIGHT) -> int:
    return answer_of(port, address)[0]


def connected(port: int, content: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    client.sendall(content)
    return client


def all_of(client: socket.socket) -> bytes:
    """What a server sends until it closes the connection."""
    parts = []
    try:
        while part := client.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def test_server__500_requests_at_once__answers_the_first_and_closes() -> None:
    history = StateSpec((tiny(),))
    with served(history) as (port, _), connected(port, 500 * REQUEST) as client:
        text = all_of(client)
    assert text.startswith(b"HTTP/1.1 200")
    assert text.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in text
    assert len(history.requested) == 1


@pytest.mark.parametrize("part", [b"", b"GET / HT", REQUEST[:-2]])
def test_server__part_of_a_request__is_closed_after_the_limit(
    part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "MAX_SECONDS", 0.2)
    with served(StateSpec((tiny(),))) as (port, _), connected(port, part) as client:
        assert all_of(client) == b""


def test_server__client_that_does_not_read__is_closed_after_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web, "MAX_SECONDS", 2.0)
    large = HTMLResponse(b"x" * 50_000_000, headers={"connection": "close"})
    with served(None, large) as (port, server), connected(port, 9 * REQUEST):
        until(lambda: server.server_state.total_requests)
        assert len(server.server_state.connections) == 1  # most of the answer waits
        until(lambda: not server.server_state.connections)


def test_server__more_connections_than_the_limit__are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(web, "MAX_CONNECTIONS", 3)
    with served(StateSpec((tiny(),))) as (port, server):
        with connected(port), connected(port):
            until(lambda: len(server.server_state.connections) == 2)
            assert status_of(port) == 503
        until(lambda: not server.server_state.connections)
        assert status_of(port) == 200


def test_server__while_a_page_is_drawn__other_requests_are_answered() -> None:
    history = HeldHistory(*map(few, month(2)))
    with ThreadPoolExecutor() as threads, served(history) as (port, _):
        history.free.set()
        assert status_of(port, "/") == 200
        history.free.clear()
        history.reading.clear()
        slow = threads.submit(status_of, port)
        assert history.reading.wait(PATIENCE)
        assert status_of(port, "/") == 200  # from the cache
        assert status_of(port, "/nowhere") == 404
        assert not slow.done()
        history.free.set()
        assert slow.result(PATIENCE) == 200


def test_server__several_requests_for_a_page__draw_it_once() -> None:
    history = HeldHistory()
    with ThreadPoolExecutor(4) as threads, served(history) as (port, server):
        answers = [threads.submit(status_of, port) for _ in range(4)]
        until(lambda: len(server.server_state.tasks) == 4)
        history.free.set()
        assert [answer.result(PATIENCE) for answer in answers] == [200] * 4
    assert len(history.requested) == 1


class MeetingHistory(StateSpec):
    """A history that is read by several requests at the same time only."""

    def __init__(self, requests: int, *nights: Night) -> None:
        super().__init__(nights)
        self.state_of_file, self._meeting = 1, threading.Barrier(requests, timeout=PATIENCE)

    def read(self, *arguments: Any, **options: Any) -> list[Night]:
        self._meeting.wait()
        return super().read(*arguments, **options)


def test_server__requests_for_several_pages__draw_them_at_the_same_time() -> None:
    nights = [few(night) for night in month(THREADS)]
    alone = Client(web_of(StateSpec(nights)))
    history, addresses = MeetingHistory(THREADS, *nights), [f"/night/{n.date}" for n in nights]
    with ThreadPoolExecutor(THREADS) as threads, served(history) as (port, _):
        pages = list(threads.map(lambda address: answer_of(port, address)[1], addresses))
    assert pages == [alone.get(address).content for address in addresses]


def test_server__client_that_is_gone__gets_no_page() -> None:
    nights = [few(night) for night in month(THREADS + 1)]
    history = HeldHistory(*nights)
    with ThreadPoolExecutor() as threads, served(history) as (port, server):
        first = [threads.submit(status_of, port, f"/night/{n.date}") for n in nights[:-1]]
        until(lambda: len(server.server_state.tasks) == THREADS)
        assert history.reading.wait(PATIENCE)
        for _ in range(3):
            connected(port, REQUEST).close()
        until(lambda: len(server.server_state.tasks) == THREADS + 3)
        until(lambda: len(server.server_state.connections) == THREADS)
        history.free.set()
        assert [each.result(PATIENCE) for each in first] == [200] * THREADS
        until(lambda: not server.server_state.tasks)
    assert len(history.requested) == THREADS


@pytest.mark.parametrize("query", ["?x=1", "?x=2&label=", "?before=2026-11-01"])
def test_pages__parameters_that_they_do_not_read__make_no_other_page(query: str) -> None:
    history = StateSpec((tiny(),))
    history.state_of_file = 1
    client = Client(web_of(history))
    pages = [client.get(NIGHT + each).content for each in ("", query, query)]
    assert len(history.requested) == 1 + ("label" in query)
    assert pages[0] == pages[1] == pages[2]


def test_pages__until_the_history_changes__are_drawn_once() -> None:
    history = StateSpec((tiny(),))
    client = Client(web_of(history))
    for stamp, reads in ((1, 1), (1, 1), (2, 2), (2, 2), (None, 3), (None, 4), (2, 5), (2, 5)):
        history.state_of_file = stamp
        assert client.get(NIGHT).status == 200
        assert len(history.requested) == reads


def test_pages__beyond_the_memory_of_the_cache__go_by_last_request() -> None:
    cache = PageCache(max_bytes=10)
    for address in "abc":
        cache.add(1, address, b"1234")
        assert cache.get(1, "a") == b"1234"
    assert [cache.get(1, address) for address in "abc"] == [b"1234", None, b"1234"]
    assert cache.get(2, "a") is None
    cache.add(1, "large", b"1" * 11)
    assert cache.get(1, "large") is None


def test_libraries__are_loaded_before_the_first_request__by_the_page_of_the_latest_night() -> None:
    history = StateSpec((tiny(),))
    load_libraries(history)
    assert len(history.requested) == 1
    load_libraries(StateSpec(()))  # no night: nothing to draw


def test_stamp__of_a_file__changes_with_every_write(tmp_path: Path) -> None:
    path, stamps = tmp_path / "history.db", []
    file = HistoryFile(path, 0)
    for night in (1, 2):
        with History(path) as history:
            history.write(a_night(night))
        assert file.stamp() is None  # a write may follow at the same time of the clock
        os.utime(path, (night * 1000, night * 1000))
        stamps.append(file.stamp())
    other = tmp_path / "other.db"
    other.write_bytes(path.read_bytes())
    os.utime(other, (2000, 2000))
    other.replace(path)
    stamps.append(file.stamp())
    assert None not in stamps
    assert len(set(stamps)) == 3
    path.unlink()
    with pytest.raises(HistoryError, match="is gone; put it back"):
        file.stamp()


def test_history__that_a_run_changes__is_shown_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    client = Client(web_view(HistoryFile(path, 0)))
    for title in ("First title", "Second title"):
        with History(path) as history:
            history.write(replace(a_night(1), title=title))
        for seconds in (None, 1000):  # not cached, and cached
            if seconds is not None:
                os.utime(path, (seconds, seconds))
            assert title in client.get("/").text


test_answers = answers(globals())
