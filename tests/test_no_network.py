"""No network: no command and no page reaches a host that the user has not named."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click import Context
from click.testing import CliRunner

from fastrank_eval.apps.cli.main import cli
from tests.support.html_elements import elements

pytestmark = pytest.mark.no_kernels

ROOT = Path(__file__).parents[1]
LOG = "impressions.parquet -g user_id -l click"
#: What runs in a folder where `demo` has written its files.
COMMANDS = [
    f"evaluate {LOG} -s score_a,score_b -m GAUC,AUC,LogLoss --by country -o result.html",
    f"evaluate {LOG} -s score_a,score_b -m GAUC --baseline score_a --save-state a.state -q",
    f"evaluate {LOG} -s score_a -m GAUC --order scattered --memory 1GB -o spilled.json -q",
    f"compare {LOG} -s score_a,score_b --baseline score_a -m GAUC,LogLoss -o comparison.html",
    "merge a.state --compare -o merged.html",
    "classes animals.parquet -l kind -s cat=p_cat,dog=p_dog,owl=p_owl -f html",
    f"curve roc {LOG} -s score_a -o roc.parquet",
    f"plot roc {LOG} -s score_a -o roc.html",
    f"plot calibration {LOG} -s score_a -o calibration.svg",
    f"explain {LOG} -s score_a -m AP --profile sklearn",
    "threshold impressions.parquet -l click -s score_a --by f1",
    "trec -f html qrels.txt bm25.run",
    "trec -m all_trec qrels.txt bm25.run",
    f"warmup {LOG} -s score_a -m GAUC",
    "measures nDCG",
    "spark-submit-example",
    "nightly --init new.toml",
    "nightly month/nightly.toml --backfill 2026-11-10..2026-11-12 --json night.json -q",
    "nightly month/nightly.toml --export tables",
]
DEMO = "demo . --overwrite --rows 20000 --night-rows 3000"
#: How they end: nights of so few rows did not pass the checks.
ENDED = [f"{3 if 'backfill' in command else 0} {command}" for command in [DEMO, *COMMANDS]]
#: Runs commands; each attempt to reach a host is an error, and is printed.
PROGRAM = """
import shlex, sys
ATTEMPTS = []
NAMES = ("socket.connect", "socket.getaddrinfo", "socket.gethostby", "socket.sendto",
         "socket.sendmsg", "urllib.Request", "ftplib.", "http.client.connect", "smtplib.")
def refuse(event, arguments):
    if event.startswith(NAMES):
        ATTEMPTS.append((event, repr(arguments)))
        raise OSError("no network in this test")
sys.addaudithook(refuse)
from fastrank_eval.apps.cli.main import cli
from tests.support.spilling import spill
spill()
for command in sys.argv[1:]:
    try:
        cli.main(shlex.split(command))
    except SystemExit as end:
        print("ended", end.code or 0, command, file=sys.stderr)
print("attempts", ATTEMPTS, file=sys.stderr)
"""


def run_commands(commands: list[str], folder: Path) -> tuple[list[str], str]:
    """Run commands in a process; return how each ended, and the attempts to reach a host.

    Libraries in C and C++ do not report their attempts to Python: the process has no network, where
    this machine has namespaces of networks.
    """
    around = ["unshare", "--map-root-user", "--net"] if has_namespaces() else []
    done = subprocess.run(
        [*around, sys.executable, "-c", PROGRAM, *commands],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    for number, page in enumerate(re.findall(r"<!DOCTYPE html>.*?</html>", done.stdout, re.DOTALL)):
        (folder / f"printed-{number}.html").write_text(page)
    notes = done.stderr.splitlines()
    ended = [line.removeprefix("ended ") for line in notes if line.startswith("ended ")]
    return ended, notes[-1]


def has_namespaces() -> bool:
    program = shutil.which("unshare")
    command = [program or "unshare", "--map-root-user", "--net", "true"]
    return program is not None and not subprocess.run(command, check=False).returncode


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of `demo`, written without a network, and all that the commands write."""
    folder = tmp_path_factory.mktemp("offline")
    ended, attempts = run_commands([DEMO, *COMMANDS], folder)
    assert (ended, attempts) == (ENDED, "attempts []")
    content = json.loads((folder / "spilled.json").read_text())
    assert content["meta"]["conventions"].get("spilled", False)
    return folder


def test_commands__are_all_run() -> None:
    tested = {command.split()[0] for command in [DEMO, *COMMANDS]} | {"serve"}
    assert tested == set(cli.list_commands(Context(cli)))


@pytest.mark.lasts("all commands run once")
def test_a_webhook__that_the_user_names__is_an_attempt(demo: Path) -> None:
    """The program above sees attempts."""
    text = (demo / "month" / "nightly.toml").read_text()
    notify = '[notify]\nurl_env = "WEBHOOK"\nwhen = "always"\nretries = 0\n'
    (demo / "month" / "notify.toml").write_text(f'{text}\n{notify}\n[history]\nfile = "other.db"\n')
    os.environ["WEBHOOK"] = "https://hooks.example.org/x"
    try:
        _, attempts = run_commands(["nightly month/notify.toml --date 2026-11-10 -q"], demo)
    finally:
        del os.environ["WEBHOOK"]
    assert "hooks.example.org" in attempts


@pytest.mark.parametrize(
    "arguments, address", [([], "127.0.0.1"), (["--host", "localhost"], "127.0.0.1")]
)
def test_serve__without_an_address__listens_to_this_machine_alone(
    arguments: list[str], address: str, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening: list[str] = []
    monkeypatch.setattr(
        "fastrank_eval.apps.nightly.web.run_server",
        lambda _, listener: listening.append(listener.getsockname()[0]),
    )
    history = str(demo / "month" / "history.db")
    done = CliRunner().invoke(cli, ["serve", history, "--port", "0", *arguments])
    assert done.exit_code == 0, done.output
    assert listening in ([address], ["::1"] if arguments else [address])


#: Attributes with an address that a browser opens by itself, or after a click.
ADDRESSES = {
    *("action", "background", "cite", "data", "formaction", "href", "longdesc", "manifest"),
    *("ping", "poster", "src", "srcset", "xlink:href"),
}
#: Addresses of a page: a part of it, a file beside it, content of its own.
OWN = re.compile(r"#[\w.-]*|data:image/[\w+.-]+;base64,[\w+/=]*|(?![\w+.-]+:|//)[\w./?=&%~+-]+")


def outside(text: str) -> list[str]:
    """List the addresses of a page that lead out of it."""
    found = [
        f"{element.tag} {name}={value[:80]}"
        for element in elements(text)
        for name, value in element.attributes.items()
        if name in ADDRESSES and not OWN.fullmatch(value)
    ]
    styles = " ".join(
        [
            *(each.all_text() for each in elements(text) if each.tag == "style"),
            *(each.attributes.get("style", "") for each in elements(text)),
        ]
    )
    found += re.findall(r"url\((?!['\"]?(?:#|data:)).{0,60}|@import.{0,60}", styles)
    scripts = " ".join(each.all_text() for each in elements(text) if each.tag == "script")
    scripts += " ".join(
        value for each in elements(text) for name, value in each.attributes.items()
        if name.startswith("on")
    )  # fmt: skip
    return found + re.findall(r"https?:|fetch\(|XMLHttp|sendBeacon|WebSocket|import\(", scripts)


def test_pages__that_commands_write__lead_nowhere_else(demo: Path) -> None:
    pages = sorted([*demo.rglob("*.html"), *demo.rglob("*.svg")])
    assert {page.name for page in pages} == {
        *("result.html", "comparison.html", "merged.html", "roc.html"),
        *("calibration.svg", "printed-0.html", "printed-1.html", "index.html"),
        *("2026-11-10.html", "2026-11-11.html", "2026-11-12.html"),
    }
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages}
    assert {name: outside(text) for name, text in texts.items() if outside(text)} == {}


def test_pages__of_serve__lead_nowhere_else(demo: Path) -> None:
    from fastrank_eval.apps.nightly.web import HistoryFile, web_view
    from tests.support.asgi_client import Client

    client = Client(web_view(HistoryFile(demo / "month" / "history.db", 2)))
    for address in (
        *("/", "/night/2026-11-12", "/slice?slice=all&measure=GAUC", "/night/2020-01-01"),
        "/compare?first=2026-11-10&second=2026-11-12",
    ):
        answer = client.get(address)
        assert answer.status == (404 if "2020" in address else 200)
        assert outside(answer.text) == [], address
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
