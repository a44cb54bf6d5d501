"""Messages about nights: what a webhook gets, what fails, and what stays secret."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from fastrank_eval._lib.errors import ArgumentError, OutputError
from fastrank_eval.apps.nightly import notify, reproduce
from fastrank_eval.apps.nightly import run as nightly_run
from fastrank_eval.apps.nightly.config import read_config
from fastrank_eval.apps.nightly.config_checks import settings
from fastrank_eval.apps.nightly.night import Settings
from fastrank_eval.engine.run import run
from fastrank_eval.io.reader import open_source
from tests.support.nightly_runs import adjust, kept, nightly, on

SECRET = "T0/B0/very-secret"  # noqa: S105 - of no real webhook
ANSWER = "an answer that no log may show"
VARIABLE = "TEST_WEBHOOK"
TABLE = f'[notify]\nurl_env = "{VARIABLE}"\n'


@dataclass
class Receiver:
    """A webhook on this machine, with the answers that it gives in turn."""

    port: int = 0
    answers: list[tuple[int, Mapping[str, str]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    pause: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{SECRET}"

    @property
    def texts(self) -> list[str]:
        return [json.loads(body)["text"] for body in self.bodies]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            receiver.paths.append(self.path)
            receiver.pause()
            status, headers = receiver.answers.pop(0) if receiver.answers else (200, {})
            self.send_response(status, ANSWER)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(ANSWER.encode())

        def do_GET(self) -> None:
            receiver.paths.append(f"GET {self.path}")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_port
    monkeypatch.setenv(VARIABLE, receiver.url)
    monkeypatch.setattr(notify, "_FIRST_WAIT", 0.01)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield receiver
    server.shutdown()
    server.server_close()
    thread.join()


def webhook(**changes: object) -> Settings:
    return settings("notify", url_env=VARIABLE, **changes)


def failure(to: Settings) -> str:
    with pytest.raises(OutputError) as caught:
        notify.send(to, {"text": "hello"})
    text = str(caught.value)
    assert not any(secret in text for secret in (SECRET, "very-secret", "127.0.0.1", ANSWER))
    return text


def test_send__to_this_machine__posts_json_once(receiver: Receiver) -> None:
    notify.send(webhook(), {"text": "ünd \ud800"})
    assert json.loads(receiver.bodies[0]) == {"text": "ünd \ud800"}
    assert receiver.paths == [f"/{SECRET}"]


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_send__after_an_error_that_passes__tries_again(receiver: Receiver, status: int) -> None:
    receiver.answers = [(status, {"Retry-After": "0"})] * 2
    notify.send(webhook(retries=2), {"text": "hello"})
    assert len(receiver.bodies) == 3


@pytest.mark.parametrize(
    "status, attempts, told",
    [
        (500, 3, " after 3 attempts: HTTP 500 Internal Server Error."),
        (404, 1, ": HTTP 404 Not Found."),
        (403, 1, ": HTTP 403 Forbidden."),
    ],
)
def test_send__refused_or_with_the_same_error_each_time__gives_up(
    receiver: Receiver, status: int, attempts: int, told: str
) -> None:
    receiver.answers = [(status, {})] * 9
    assert failure(webhook(retries=2)) == f"[notify]: the message was not sent{told}"
    assert len(receiver.bodies) == attempts


@pytest.mark.parametrize("target", ["http://127.0.0.1:9/x", "file:///etc/passwd", "/elsewhere"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_send__redirected__does_not_follow(receiver: Receiver, status: int, target: str) -> None:
    receiver.answers = [(status, {"Location": target})]
    assert f"redirects (HTTP {status})" in failure(webhook())
    assert receiver.paths == [f"/{SECRET}"]


def test_send__without_an_answer__ends_after_the_time_limit(receiver: Receiver) -> None:
    receiver.pause = lambda: time.sleep(0.5)
    started = time.perf_counter()
    text = failure(webhook(timeout=0.05, retries=1))
    assert text == "[notify]: the message was not sent after 2 attempts: no answer within 0.05 s."
    assert time.perf_counter() - started < 0.5


def test_send__where_nothing_listens__says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.server_close()
    monkeypatch.setenv(VARIABLE, f"http://127.0.0.1:{server.server_port}/{SECRET}")
    text = failure(webhook(retries=0))
    assert text == "[notify]: the message was not sent: no connection (ConnectionRefusedError)."


def test_send__by_tls_to_a_host_without_it__says_so(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, receiver.url.replace("http:", "https:"))
    text = failure(webhook(retries=0))
    assert "no connection (SSL" in text
    assert receiver.bodies == []


def test_send__to_this_machine__passes_no_proxy(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    notify.send(webhook(), {"text": "hello"})
    assert len(receiver.bodies) == 1


@pytest.mark.parametrize(
    "url",
    [
        f"http://hooks.example.com/{SECRET}",
        f"ftp://hooks.example.com/{SECRET}",
        f"file:///{SECRET}",
        f"hooks.example.com/{SECRET}",
        f"https:///{SECRET}",
        f"https://user:password@hooks.example.com/{SECRET}",
        f"https://hooks.example.com:port/{SECRET}",
        f"https://hooks.example.com/{SECRET} and more",
        f"https://hooks.example.com/{SECRET}\r\nX: y",
        f"http://127.0.0.1.example.com/{SECRET}",
        f"http://127.0.0.1@example.com/{SECRET}",
        f"https://[::1/{SECRET}",
        "",
    ],
)
def test_address__other_than_https_or_this_machine__is_refused_and_not_shown(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, url)
    text = failure(webhook())
    assert VARIABLE in text
    assert "example.com" not in text


@pytest.mark.parametrize(
    "url", ["https://h.example/x", "http://localhost:1/x", "http://[::1]:1/x", "HTTPS://h.example"]
)
def test_address__of_https_or_this_machine__is_taken(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, f"{url}\n")
    assert notify.webhook_url(webhook()) == url


@pytest.mark.parametrize(
    "when,status,before,sends",
    [
        ("failure", "regression", "regression", True),
        ("failure", "data_quality", "fine", True),
        ("failure", "not_evaluated", None, True),
        ("failure", "changed", "fine", False),
        ("failure", "fine", "regression", False),
        ("change", "regression", "regression", False),
        ("change", "fine", "regression", True),
        ("change", "fine", None, False),
        ("change", "regression", None, True),
        ("always", "fine", "fine", True),
    ],
)
def test_when__of_a_status_and_the_one_before(
    when: str, status: str, before: str | None, sends: bool
) -> None:
    assert notify.wants_message(webhook(when=when), status, before) is sends


def test_chat_message__of_hostile_names__has_no_effect() -> None:
    lines = ["<!channel> @here @All <http://evil.example|x>", "![](https://evil.example/a.png)"]
    links = "HTTPS://evil.example www.evil.example ftp://evil.example MAILTO:a@b.example"
    text = notify.chat_message([*lines, links, "@rows=1", "&amp;"])["text"]
    signs = "<", ">", "@here", "@all", "://", "www.", "mailto:"
    assert not any(sign in text.lower() for sign in signs)
    assert "](" not in text
    assert text.endswith("@rows=1\n&amp;amp;")


def test_chat_message__is_cut_as_it_is_sent__between_escaped_signs() -> None:
    assert notify.chat_message(["x" * 4000])["text"] == "x" * 4000
    assert notify.chat_message(["x" * 9000])["text"] == "x" * 3999 + "…"
    assert notify.chat_message(["x" * 3999 + "<"])["text"] == "x" * 3999 + "…"
    for sign, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        for place in range(6):
            text = notify.chat_message(["x" * place + sign * 4000])["text"]
            assert len(text) <= 4000
            assert text.replace(escaped, "") == "x" * place + "…"


def test_night__that_fails__is_posted(folder: Path, receiver: Receiver) -> None:
    adjust(folder, f'{TABLE}[gates]\nfail_if = "GAUC > 0"\n[output]\nfolder = "pages"\n')
    outcome = nightly("--date", on(1), "--json", "-")
    assert (outcome.exit_code, outcome.stderr) == (3, "")
    (text,) = receiver.texts
    assert text.startswith("Test\n2026-11-01 REGRESSION: score_a GAUC ")
    assert "\n  gate failed: GAUC &gt; 0: score_a: " in text
    assert "\n  reproduce: fastrank-eval " in text
    assert text.endswith("\npages/2026-11-01.html")
    assert json.loads(outcome.stdout)["nights"][0]["notify_error"] is None


def test_night__as_json__is_the_summary(folder: Path, receiver: Receiver) -> None:
    adjust(folder, f'{TABLE}format = "json"\nwhen = "always"\n')
    outcome = nightly("--date", on(1), "--json", "-")
    assert outcome.exit_code == 0
    assert json.loads(receiver.bodies[0]) == {
        "schema": 1, "nights": json.loads(outcome.stdout)["nights"],
    }  # fmt: skip


#: Passwords that end an address too early, or look like a port.
@pytest.mark.parametrize("password", ["a/very", "/very", "12/very", "a' very", "1'very"])
def test_address_of_the_rows__has_no_password_in_what_a_night_writes(
    folder: Path, receiver: Receiver, password: str
) -> None:
    adjust(folder, TABLE)
    config = folder / "nightly.toml"
    place = f"nowhere://key:{password}@bucket/{{date}}?token={password}"
    config.write_text(config.read_text().replace("logs/day={date}", place))
    outcome = nightly("--date", on(1), "--json", "out.json")
    assert outcome.exit_code == 2
    texts = [*receiver.texts, outcome.stderr, outcome.stdout, Path("out.json").read_text()]
    assert "nowhere://bucket/2026-11-01" in "".join(texts)
    assert not any("very" in text for text in texts)


@pytest.mark.parametrize("password", ["a/very", "a' very"])
def test_address_of_the_rows__of_a_stored_night__loses_its_password(
    folder: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    """Rows of this folder are read in place of a bucket."""
    pytest.importorskip("jinja2")
    rows = folder / "logs" / f"day={on(1)}"
    monkeypatch.setattr(nightly_run, "open_source", lambda _, **how: open_source(rows, **how))
    adjust(folder, '[gates]\nfail_if = "GAUC > 0"\n[output]\nfolder = "pages"\ngroups = 0\n')
    config = folder / "nightly.toml"
    place = f"s3://key:{password}@bucket/{{date}}?token={password}"
    config.write_text(config.read_text().replace("logs/day={date}", place))
    outcome = nightly("--date", on(1), "--json", "out.json", "--log-json")
    assert outcome.exit_code == 3
    (night,) = kept()
    assert night.sources == ("s3://bucket/2026-11-01",)
    page = Path("pages", "2026-11-01.html").read_text()
    assert "s3://bucket/2026-11-01" in page
    texts = [repr(night), page, Path("out.json").read_text(), outcome.stdout, outcome.stderr]
    assert not any(password in text for text in texts)
    files = [file for file in folder.rglob("*") if file.is_file() and file != config]
    assert Path("history.db").resolve() in [file.resolve() for file in files]
    assert not any(password.encode() in file.read_bytes() for file in files)


@pytest.mark.parametrize("readable", [True, False])
def test_address_of_the_rows__has_no_password_in_worst_groups_and_commands(
    folder: Path, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    """Rows of this folder are read in place of a bucket; the second time only if readable."""
    pytest.importorskip("jinja2")

    def place(source: object) -> Path:
        (date,) = set(re.findall(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", str(source)))
        return folder / "logs" / f"day={date}"

    monkeypatch.setattr(
        nightly_run, "open_source", lambda source, **how: open_source(place(source), **how)
    )
    if readable:
        monkeypatch.setattr(reproduce, "run", lambda source, **how: run(place(source), **how))
    config = folder / "nightly.toml"
    address = "nowhere://key:sec/ret@bucket/{date}?token=sec/ret"
    config.write_text(config.read_text().replace("logs/day={date}", address))
    assert nightly("--backfill", f"{on(3)}..{on(7)}", "-q").exit_code == 0
    adjust(folder, '[gates]\nfail_if = "GAUC > 0"\n[output]\nfolder = "pages"\n')
    adjust(folder, "[drift]\nmin_rows = 1\nnote_psi = 1e-9\nmax_psi = 1e-9\n")
    outcome = nightly("--date", on(8), "--json", "out.json")
    assert outcome.exit_code == 3
    warning = f"warning: {on(8)}: the worst groups were not written: "
    assert (warning in outcome.stderr) is not readable
    assert Path(f"pages/{on(8)}-groups.parquet").exists() is readable
    steps = json.loads(Path("out.json").read_text())["nights"][-1]["next_steps"]
    commands = [step["command"] for step in steps]
    assert any("curve calibration nowhere://bucket/2026-11-08 " in each for each in commands)
    assert any("evaluate nowhere://bucket/2026-11-08 " in each for each in commands)
    assert "sec/ret" not in outcome.output
    files = [file for file in folder.rglob("*") if file.is_file() and file != config]
    assert not any(b"sec/ret" in file.read_bytes() for file in files)


@pytest.mark.parametrize("options", [["--date", on(1), "--dry-run"], ["--backfill", "{}..{}"]])
def test_night__of_a_dry_run_or_a_backfill__is_not_posted(
    folder: Path, receiver: Receiver, options: list[str]
) -> None:
    adjust(folder, f'{TABLE}when = "always"\n')
    nightly(*(each.format(on(1), on(2)) for each in options), "-q")
    assert receiver.bodies == []


def test_message__that_fails__warns_in_report_and_log_and_not_more(
    folder: Path, receiver: Receiver
) -> None:
    pytest.importorskip("jinja2")
    adjust(folder, f'{TABLE}retries = 0\nwhen = "always"\n[output]\nfolder = "pages"\n')
    receiver.answers = [(404, {})]
    outcome = nightly("--date", on(1), "--json", "summary.json")
    problem = "[notify]: the message was not sent: HTTP 404 Not Found"
    assert outcome.exit_code == 0
    assert outcome.stderr == f"warning: 2026-11-01: {problem}.\n"
    assert f"  {problem}\n" in outcome.stdout
    night = json.loads(Path("summary.json").read_text())["nights"][0]
    assert night["notify_error"] == problem
    for name in ("2026-11-01", "index"):
        assert problem in Path(f"pages/{name}.html").read_text()
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    shown = [outcome.output.encode(), *written]
    secrets = (b"very-secret", ANSWER.encode(), str(receiver.port).encode() + b"/")
    assert not any(secret in text for text in shown for secret in secrets)


def test_variable__that_is_missing__warns_on_a_fine_night_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    adjust(folder, TABLE)
    outcome = nightly("--date", on(1), "-q")
    assert outcome.exit_code == 0
    assert outcome.stderr == (
        f"warning: 2026-11-01: [notify] url_env: the environment variable {VARIABLE} is not set; "
        "export the address of the webhook in it.\n"
    )


@pytest.mark.parametrize("key", ["[notify]\nurl", "[notify]\nurl_env", "[output]\nurl", "notify"])
def test_configuration__with_the_address_itself__is_refused_and_not_shown(
    folder: Path, key: str
) -> None:
    text = (folder / "nightly.toml").read_text()
    line = f'{key} = "https://h.example/{SECRET}"\n'
    (folder / "nightly.toml").write_text(f"{line}{text}" if key == "notify" else f"{text}{line}")
    with pytest.raises(ArgumentError) as caught:
        read_config("nightly.toml")
    assert f"{key.splitlines()[-1]} = ...: " in str(caught.value)
    assert "very-secret" not in str(caught.value)


def test_configuration__has_its_limits(folder: Path) -> None:
    adjust(folder, f'{TABLE}format = "json"\nwhen = "always"\ntimeout = 2\nretries = 0\n')
    assert read_config("nightly.toml").notify == webhook(
        format="json", when="always", timeout=2.0, retries=0
    )
