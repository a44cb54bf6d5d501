"""SECURITY.md: its promises have tests; here are those that no other file has."""

from __future__ import annotations

import ast
import re
import shutil
import ssl
import subprocess
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastrank_eval
from fastrank_eval.apps.nightly import notify
from fastrank_eval.apps.nightly.config_checks import settings
from tests.support.commands import run

pytestmark = pytest.mark.no_kernels

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fastrank_eval"
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")

# ---- the page ------------------------------------------------------------------------------------


def test_promises__name_test_functions_that_exist() -> None:
    section = TEXT.partition("## What is promised")[2].partition("## What is not promised")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not row.startswith(("| promise", "| ---"))]
    assert len(promises) > 15
    assert [row for row in promises if "`tests/" not in row] == []
    named = set(re.findall(r"`(tests/[^`]*)`", section))
    assert sorted(named - functions_of({name.partition("::")[0] for name in named})) == []


def functions_of(files: set[str]) -> set[str]:
    """List the test functions of files, as pytest names them."""
    return {
        f"{file}::{node.name}"
        for file in files
        if (ROOT / file).is_file()
        for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


def test_supported_version__is_this_one() -> None:
    minor = ".".join(fastrank_eval.__version__.split(".")[:2])
    assert f"| {minor} (the latest minor version) | yes |" in TEXT


# ---- no code in data -----------------------------------------------------------------------------

#: Modules that run code of files or other programs.
RUNNERS = {"code", "dill", "joblib", "marshal", "pickle", "runpy", "shelve", "subprocess", "yaml"}
#: Calls that do; `compile` of Numba and of regular expressions are methods.
CALLS = {"compile", "eval", "exec", "__import__", "input"}
METHODS = {"system", "popen", "execv", "execve", "spawnv", "posix_spawn", "fork"}


def runners_of(text: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names} & RUNNERS
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module).split(".")[0]} & RUNNERS
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= {node.func.id} & CALLS
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found |= {node.func.attr} & METHODS
        elif isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "shell"):
            found.add(node.arg)
    return found


def test_package__runs_no_code_of_files() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): runners
        for path in sorted(PACKAGE.rglob("*.py"))
        if (runners := runners_of(path.read_text(encoding="utf-8")))
    }
    # It pickles a measure of the caller, and reads that.
    assert found == {"testing.py": {"pickle"}}


# ---- expressions ---------------------------------------------------------------------------------

HOSTILE = [
    "__import__('os').system('touch run')",
    "().__class__.__base__.__subclasses__()",
    "{date.__class__}",
    "{0.__class__.__mro__}",
    "open('run','w')",
    "GAUC(weight=open('run','w'))",
    "GAUC@__import__('os').getpid()",
    "`touch run`",
    "$(touch run)",
    "'; touch run; '",
    "click = 1; DROP TABLE night",
    "lambda: 0",
]
COLUMNS = ["-g", "user", "-l", "click", "-s", "pctr"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = {"user": [1, 1, 2, 2], "click": [1, 0, 0, 1], "pctr": [0.3, 0.2, 0.2, 0.1]}
    pq.write_table(pa.table(rows), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "option", ["--where", "--measures", "--fail-if", "--by", "--undefined", "--profile", "--score"]
)
def test_expression__with_code__is_refused_and_not_run(
    option: str, text: str, folder: Path
) -> None:
    value = f"x = {text}" if option == "--score" else text
    done = run("evaluate", "log.parquet", *COLUMNS, "-m", "GAUC", option, value)
    assert done.exit_code == 2, done.output
    assert done.stderr
    assert [path.name for path in folder.iterdir()] == ["log.parquet"]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("key", ["path", "where", "measures", "fail_if", "by", "title"])
def test_configuration__with_code__does_not_run_it(key: str, text: str, folder: Path) -> None:
    values = {
        "path": "log{date}.parquet", "where": "click = 1 or click = 0", "measures": "GAUC",
        "fail_if": "GAUC < 0", "by": "click", "title": "Title",
    }  # fmt: skip
    values[key] = f"{text}{{date}}" if key == "path" else text
    (folder / "log.parquet").rename("log2026-11-10.parquet")
    quoted = {name: '"' + value.replace('"', '\\"') + '"' for name, value in values.items()}
    config = folder / "nightly.toml"
    config.write_text(
        f"title = {quoted['title']}\n"
        f"[source]\npath = {quoted['path']}\nwhere = {quoted['where']}\n"
        '[columns]\ngroup = "user"\nlabel = "click"\n[models]\nscores = ["pctr"]\n'
        f"[evaluate]\nmeasures = [{quoted['measures']}]\n"
        f"[slices]\nby = [{quoted['by']}]\n"
        f"[gates]\nfail_if = [{quoted['fail_if']}]\n"
    )
    done = run("nightly", "nightly.toml", "--date", "2026-11-10", "-q")
    assert done.exit_code == (0 if key == "title" else 2), done.output
    names = {path.name for path in folder.iterdir()} - {"history.db"}
    assert names == {"log2026-11-10.parquet", "nightly.toml"}


# ---- texts of data -------------------------------------------------------------------------------


@pytest.mark.parametrize("report", ["table", "markdown", "html", "csv", "json", "latex"])
def test_terminal_codes__in_data_and_names__are_escaped(report: str, folder: Path) -> None:
    evil = "\x1b]0;title\x07\x1b[2J"
    rows = {"user": [1, 1, 2, 2], "click": [1, 0, 0, 1], "slot": [evil] * 4}
    rows[f"score{evil}"] = [0.3, 0.2, 0.2, 0.1]
    pq.write_table(pa.table(rows), folder / "log.parquet")
    done = run(
        *("evaluate", "log.parquet", "-g", "user", "-l", "click", "-s", f"score{evil}"),
        *("-m", "GAUC", "--by", "slot", "-f", report),
    )
    assert done.exit_code == 0, done.output
    if report != "csv":  # which programs read: it has the exact text
        assert "\x1b" not in done.stdout
        assert "\x07" not in done.stdout


# ---- webhooks ------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for a certificate")
def test_webhook__of_a_host_with_an_unknown_certificate__gets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")]
    subprocess.run(
        [*("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"),
         *("-addext", "subjectAltName=DNS:localhost", "-keyout", files[0], "-out", files[1])],
        check=True, capture_output=True,
    )  # fmt: skip
    posted: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(self.path)

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files[1], files[0])
        server.socket = context.wrap_socket(server.socket, server_side=True)
        monkeypatch.setattr(server, "handle_error", lambda *_: None)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        monkeypatch.setenv("WEBHOOK", f"https://localhost:{server.server_port}/secret")
        with pytest.raises(fastrank_eval.OutputError, match="certificate of the host is not valid"):
            notify.send(settings("notify", url_env="WEBHOOK", retries=0), {"text": "hello"})
        server.shutdown()
        thread.join()
    assert posted == []


# ---- the store of kernels ------------------------------------------------------------------------


def test_files_of_the_store__are_object_files_behind_a_head_and_a_hash(store: Path) -> None:
    import hashlib

    files = sorted(store.glob("*.kernel"))
    if not files:
        pytest.skip("the store of this run is empty")
    for file in files[:50]:
        name, key, digest, code = file.read_bytes().split(b"\n", 3)
        assert name == b"fastrank_eval kernel 1"
        assert file.name.endswith(f"-{key.decode()[:32]}.kernel")
        assert hashlib.sha256(code).hexdigest() == digest.decode()
        assert not code.startswith(b"\x80")  # of a pickle
