"""The command `serve`: what it refuses before it starts, and how it ends."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.apps.nightly.web import bind_socket
from tests.support.signals import default_signals

# A process of its own, whose history is the month of the tests.
SERVER = """
import sys
from fastrank_eval.apps.nightly import history
from tests.support.sample_nights import month
class History:
    def __init__(self, path, readonly=False, patience=60.0):
        assert readonly
        assert patience == 2
    def labels(self): return ()
    def of(self, label): return self
    label = ""
    def dates(self): return [night.date for night in month()]
    def read(self, first, last, **_): return [n for n in month() if first <= n.date <= last]
    def heads(self, first, last): return []
    def repeats(self, first, last): return {}
    def failures(self, first=None, last=None): return {}
    def provisional(self, first=None, last=None): return {}
    def state(self, date, kind): return None
    def with_periods(self, night): return None
    def state_bytes(self, first, last): return 0
    def __enter__(self): return self
    def __exit__(self, *error): self.close()
    def close(self): print("closed", flush=True)
history.History = history.open_history = History
sys.argv = ["fastrank-eval", "serve", "history.db", "--port", "0", *sys.argv[1:]]
from fastrank_eval.__main__ import main
main()
"""


def test_bound__a_port_in_use__is_told() -> None:
    with closing(bind_socket("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ArgumentError, match=rf"port {port} of 127.0.0.1: .*--port"):
            bind_socket("127.0.0.1", port)


def test_bound__no_address__is_told() -> None:
    with pytest.raises(ArgumentError, match=r"port 0 of no such host: .*--host"):
        bind_socket("no such host", 0)
    with pytest.raises(ArgumentError, match="cannot listen"):
        bind_socket("192.0.2.1", 0)


def test_serve__without_its_libraries__names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastrank_eval.apps.nightly.page.find_spec", lambda _: None)
    done = CliRunner().invoke(cli, ["serve", "history.db"])
    assert done.exit_code == 2
    assert "fastrank_eval[serve]" in done.output


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    """A server of a history, in a process of its own."""
    (folder / "history.db").touch()
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    "number, options, code",
    [(signal.SIGINT, (), 0), (signal.SIGTERM, ("--log-json",), 143)],
    ids=["Ctrl-C", "a signal, logged"],
)
def test_serve__until_it_is_stopped__answers_and_ends_quietly(
    number: int, options: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    process = started(tmp_path, *options)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        if options:  # the first tells that the command has begun
            line = json.loads(process.stderr.readline())["message"]
        assert line.startswith("serving history.db at http://127.0.0.1:")
        address = line.split()[3]
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
            assert answer.status == 200
            assert "server" not in answer.headers
            assert str(dt.date(2026, 11, 19)) in answer.read().decode()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == code
    assert out == 3 * "closed\n"  # checked, drawn before the start, and after the page
    told = [json.loads(line) for line in err.splitlines()]
    messages = ["request", "command ended", "terminated."] if options else []
    assert [line["message"] for line in told] == messages
    assert all(line.get("exit_code", code) == code for line in told)
    with socket.socket() as free:  # the port is given back
        assert free.connect_ex(("127.0.0.1", int(address.rsplit(":", 1)[1].strip("/")))) != 0
