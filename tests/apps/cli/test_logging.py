"""Log lines of commands and of the library: what they say, where they go, what stays secret."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import Result

import fastrank_eval as fe
from fastrank_eval._lib.errors import without_credentials
from fastrank_eval._lib.log import LOGGERS
from fastrank_eval.apps.cli.main import cli
from tests.apps.nightly.test_notify import SECRET, TABLE, Receiver, receiver
from tests.support.commands import COLUMNS, output, run
from tests.support.nightly_runs import adjust, on
from tests.support.signals import default_signals
from tests.support.transcripts import Case, cases

__all__ = ["receiver"]

EVALUATE = ["evaluate", "log.parquet", *COLUMNS, "-m", "GAUC"]
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
ROWS = {"user": np.array([1, 1, 2, 2]), "click": np.array([0, 1, 1, 0]), "pctr": np.arange(4.0)}
ROLES = {"group": "user", "label": "click", "score": "pctr"}


def lines_of(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stderr.splitlines()]


# ---- of commands ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_command__verbose__writes_a_line_for_each_step_beside_the_same_report() -> None:
    plain, done = run(*EVALUATE), run(*EVALUATE, "-v")
    assert plain.stderr == ""
    lines = done.stderr.splitlines()
    assert all(re.match(rf"{TIME} INFO fastrank_eval\.\w+ \w", line) for line in lines)
    assert [line.split(" ", 3)[3].partition(":")[0] for line in lines] == [
        "command begun", "source opened", "rows evaluated", "command ended",
    ]  # fmt: skip
    assert "rows=" in lines[2]
    assert "seconds=" in lines[2]
    assert _without_times(done.stdout) == _without_times(plain.stdout)
    levels = {line.split()[1] for line in run(*EVALUATE, "-vv").stderr.splitlines()}
    assert levels == {"INFO", "DEBUG"}


def _without_times(report: str) -> str:
    return re.sub(r"[\d.,]+ m?s, [\d.,]+ M?rows/s", "", report)


@pytest.mark.usefixtures("folder")
def test_command__with_json__writes_one_object_a_line() -> None:
    lines = lines_of(run(*EVALUATE, "--log-json"))
    for line in lines:
        assert list(line)[:4] == ["time", "level", "logger", "message"]
        assert re.fullmatch(TIME, line["time"])
        assert line["logger"] in LOGGERS
    evaluated = next(line for line in lines if line["message"] == "rows evaluated")
    assert (evaluated["rows"], evaluated["models"], evaluated["measures"]) == (6, 1, "GAUC")
    assert evaluated["seconds"] > 0
    assert (lines[-1]["message"], lines[-1]["exit_code"]) == ("command ended", 0)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments, level, message, code",
    [
        (["evaluate", "missing.parquet", *COLUMNS], "ERROR", "missing.parquet", 2),
        (["evaluate", "log.parquet", "--no-such-option"], "ERROR", "No such option", 2),
        (["evaluate", "log.parquet"], "ERROR", "Missing option", 2),
        ([*EVALUATE, "--fail-if", "GAUC > 0"], "WARNING", "gate failed", 3),
        ([*EVALUATE, "-o", "report.json"], "INFO", "wrote report.json", 0),
    ],
)
def test_command__with_json__writes_notes_as_json_too(
    arguments: list[str], level: str, message: str, code: int
) -> None:
    done = run(*arguments, "--log-json")
    assert done.exit_code == code
    assert [line["level"] for line in lines_of(done) if message in line["message"]] == [level]


@pytest.mark.usefixtures("folder")
def test_command__with_a_fault_and_json__writes_the_traceback_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("fastrank_eval.results.result.Result.to_json", fail)
    done = run(*EVALUATE, "-f", "json", "--log-json")
    (fault,) = (line for line in lines_of(done) if line["level"] == "ERROR")
    assert done.exit_code == 1
    assert "ZeroDivisionError" in fault["exception"]


WARNS = """
import os, signal, sys, warnings, click
from fastrank_eval.apps.cli.main import cli
def callback(**_):
    warnings.warn("a warning", RuntimeWarning)
    os.kill(os.getpid(), signal.SIGTERM)
cli.get_command(click.Context(cli), "measures").callback = callback
sys.argv = ["fastrank-eval", "measures", "--log-json"]
from fastrank_eval.__main__ import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_process__with_json__writes_warnings_and_signals_as_json() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WARNS], capture_output=True, text=True, check=False,
        preexec_fn=default_signals,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["level"], line["message"]) for line in lines[1:]] == [
        ("WARNING", "a warning"), ("INFO", "command ended"), ("WARNING", "terminated."),
    ]  # fmt: skip
    assert lines[2]["exit_code"] == done.returncode
    assert done.returncode == 128 + signal.SIGTERM


def test_every_command__takes_both_options() -> None:
    for name in cli.list_commands(click.Context(cli)):
        text = output(name, "--help-all")
        assert "-v, --verbose" in text, name
        assert "--log-json" in text, name


# ---- of nights and requests ----------------------------------------------------------------------


def test_nightly__with_json__logs_the_night_and_the_attempts_but_not_the_address(
    nightly_folder: Path, receiver: Receiver
) -> None:
    adjust(nightly_folder, f'{TABLE}when = "always"\n')
    receiver.answers = [(500, {})]
    done = run("nightly", "--date", on(1), "--log-json")
    lines = lines_of(done)
    found = {line["message"]: line for line in lines}
    assert found["night begun"]["night"] == on(1)
    assert found["night finished"]["status"] == "fine"
    assert found["night finished"]["rows"] > 0
    assert found["history made"]["version"] > 0
    assert found["message not sent"]["attempt"] == 1
    assert found["message sent"]["attempt"] == 2
    assert len(receiver.bodies) == 2
    assert SECRET not in done.stderr
    assert "very-secret" not in done.stderr
    assert str(receiver.port) not in done.stderr


def test_serve__with_each_request__logs_it_without_its_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from tests.apps.nightly.test_page import tiny
    from tests.apps.nightly.test_web_view import StateSpec, web_of
    from tests.support.asgi_client import Client

    client = Client(web_of(StateSpec((tiny(),))))
    with caplog.at_level(logging.INFO, "fastrank_eval.serve"):
        client.get("/night/2026-01-01?token=secret")
    (record,) = caplog.records
    fields = record.__dict__["fields"]
    assert (fields["method"], fields["path"], fields["status"]) == ("GET", "/night/2026-01-01", 404)
    assert "secret" not in record.getMessage()


# ---- of the library ------------------------------------------------------------------------------


def test_library__without_a_handler__prints_nothing_and_imports_no_logging() -> None:
    code = (
        "import sys, fastrank_eval as fe; assert 'logging' not in sys.modules; "
        "import numpy as np, logging; logging.getLogger().setLevel(10); "
        "fe.evaluate({'u': np.array([1, 1]), 'c': np.array([0, 1]), 's': np.array([.1, .2])}, "
        "group='u', label='c', score='s', measures='GAUC')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_library__with_lines_off__formats_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a line was written")

    monkeypatch.setattr("fastrank_eval._lib.log.Log._write", fail)
    fe.evaluate(ROWS, measures="GAUC", **ROLES)  # type: ignore[arg-type]


def test_library__with_a_handler__gets_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "fastrank_eval"):
        fe.evaluate(ROWS, measures="GAUC", **ROLES)  # type: ignore[arg-type]
    records = [r for r in caplog.records if r.name == "fastrank_eval.run"]
    assert records[-1].__dict__["fields"]["rows"] == 4
    assert {record.name for record in caplog.records} <= set(LOGGERS)


@pytest.mark.parametrize("case", cases("addresses"), ids=str)
def test_addresses__in_lines__lose_passwords_and_queries(case: Case) -> None:
    cleaned = without_credentials(case.given[0])
    case.check([cleaned])
    assert without_credentials(cleaned) == cleaned


@pytest.mark.parametrize("part", ["s3:/", "s3://a:b@", "'s3://a", "s3://a:b c'", "s3://a:1'"])
def test_addresses__thousands_inside_each_other__are_cleaned(part: str) -> None:
    assert "secret" not in without_credentials(part * 2000 + "s3://key:secret@bucket/x")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("options", [[], ["-vv"], ["--log-json"]])
def test_error__with_an_address__loses_its_password(options: list[str]) -> None:
    source = "nowhere://key:secret@bucket/x?password=secret"
    done = run("evaluate", source, *COLUMNS, *options)
    assert done.exit_code == 2
    assert "secret" not in done.stderr
    assert "nowhere://" in done.stderr


@pytest.mark.parametrize("options", [[], ["--log-json"]])
@pytest.mark.parametrize(
    "arguments",
    [
        ["curve", "s3://k:secret@b/x?key=a secret", *COLUMNS],
        ["evaluate", "x", *COLUMNS, "-f", "s3://k:a'secret@b/x?key=secret"],
        ["evaluate", "x", *COLUMNS, "-o", "s3://k:secret@b/x.json?key=secret"],
        ["evaluate", "x", *COLUMNS, "--s3://k:secret@b/x"],
        ["measures", "-f", "json", "--log-json=s3://k:secret@b"],
        ["spark-submit-example", "s3://k:secret@b/x?key=a secret"],
        ["s3://k:secret@b/x?key=a secret"],
        ["--s3://k:secret@b/x"],
        ["serve", "s3://k:secret@b/x"],
    ],
)
def test_arguments__with_an_address__lose_its_password(
    arguments: list[str], options: list[str]
) -> None:
    done = run(*arguments, *options)
    assert done.exit_code == 2
    assert "secret" not in done.stderr


@pytest.mark.parametrize("password", ["secret", "/secret", "12/secret", "a'secret", "a' secret"])
def test_exceptions__of_the_library__lose_passwords(password: str) -> None:
    with pytest.raises(fe.SourceError, match="nowhere://b/x") as caught:
        fe.evaluate(f"nowhere://k:{password}@b/x?key={password}", measures="GAUC", **ROLES)  # type: ignore[arg-type]
    assert "secret" not in "".join(traceback.format_exception(caught.value.with_traceback(None)))


@pytest.mark.usefixtures("folder")
def test_command__after_one_that_was_not_run__writes_its_own_lines_alone() -> None:
    evaluate = cli.get_command(click.Context(cli), "evaluate")
    assert evaluate is not None
    evaluate.make_context("evaluate", EVALUATE[1:])
    done = run(*EVALUATE, "--log-json")
    assert lines_of(done)[0]["message"] == "command begun"


FAILS = """
import sys, click
from fastrank_eval.apps.cli.main import cli
def callback(**_):
    raise ZeroDivisionError("s3://k:secret@b/x?key=secret")
cli.get_command(click.Context(cli), "measures").callback = callback
sys.argv = ["fastrank-eval", "measures", *sys.argv[1:]]
from fastrank_eval.__main__ import main
main()
"""


@pytest.mark.parametrize("option", ["--log-json", None])
def test_fault__in_a_process__has_a_traceback_without_passwords(option: str | None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILS, *([option] if option else [])],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "ZeroDivisionError: s3://b/x" in done.stderr
    assert "secret" not in done.stderr
    ended = [line for line in done.stderr.splitlines() if "command ended" in line]
    assert len(ended) == (option is not None)
    assert all("exit_code=1" in line or '"exit_code": 1' in line for line in ended)
