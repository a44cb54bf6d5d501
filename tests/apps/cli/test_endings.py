"""How the command line ends: stopped, with a bug, or with nowhere to write to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import ipc

from tests.apps.cli.test_cli import COLUMNS, ROWS, folder, refused, run
from tests.support.signals import default_signals

__all__ = ["folder"]

# ---- how it ends ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "fault, code, said",
    [(KeyboardInterrupt, 130, "interrupted."), (MemoryError, 1, "error: out of memory")],
)
def test_evaluate__stopped_halfway__leaves_no_file(
    fault: type[BaseException], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> str:
        raise fault

    before = sorted(Path().iterdir())
    monkeypatch.setattr("fastrank_eval.results.result.Result.to_json", fail)
    outcome = run("evaluate", "log.parquet", *COLUMNS, "-o", "report.json")
    assert outcome.exit_code == code
    assert outcome.stderr.startswith(said)
    assert sorted(Path().iterdir()) == before


@pytest.mark.usefixtures("folder")
def test_evaluate__a_bug__is_not_dressed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("fastrank_eval.results.result.Result.to_json", fail)
    with pytest.raises(ZeroDivisionError):
        run("evaluate", "log.parquet", *COLUMNS, "-f", "json")


def start(*arguments: str, **keywords: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fastrank_eval", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **keywords)


@pytest.mark.skipif(os.name != "posix", reason="POSIX signals")
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "number, code, said",
    [(signal.SIGINT, 130, b"interrupted.\n"), (signal.SIGTERM, 143, b"terminated.\n")],
)
def test_process__signal_while_reading__ends_cleanly(number: int, code: int, said: bytes) -> None:
    reader, writer = os.pipe()
    outputs = ["-o", "report.json"]
    process = start("evaluate", "-", *COLUMNS, *outputs, stdin=reader, preexec_fn=default_signals)
    table = pa.table(ROWS)
    # Two batches and no end. That the second is taken shows that the first was evaluated.
    with os.fdopen(writer, "wb", buffering=0) as pipe:
        stream = ipc.new_stream(pipe, table.schema)
        for _ in range(2):
            stream.write_table(table)
            _wait_until_taken(reader)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    os.close(reader)
    assert errors.strip() + b"\n" == said
    assert process.returncode in (code, -number)
    assert sorted(path.name for path in Path().iterdir()) == ["log.parquet"]


def _wait_until_taken(pipe: int) -> None:
    """Wait until the process has taken all that lies in the pipe."""
    import array
    import fcntl
    import termios

    waiting = array.array("i", [1])
    deadline = time.monotonic() + 60
    while waiting[0] and time.monotonic() < deadline:
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)
        time.sleep(0.02)
    assert waiting[0] == 0


@pytest.mark.skipif(os.name != "posix", reason="POSIX pipes")
@pytest.mark.usefixtures("folder")
def test_process__reader_has_gone__ends_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start("evaluate", "log.parquet", *COLUMNS, stdout=writer)
    os.close(writer)
    _, errors = process.communicate(timeout=60)
    assert errors == b""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.usefixtures("folder")
def test_process__disk_full__is_an_error() -> None:
    with Path("/dev/full").open("wb") as full:
        process = start("evaluate", "log.parquet", *COLUMNS, stdout=full)
        _, errors = process.communicate(timeout=60)
    assert errors == b"error: cannot write to standard output: No space left on device.\n"
    assert process.returncode == 2


@pytest.mark.usefixtures("folder")
def test_process__terminal_without_unicode__prints_what_it_can() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    process = start("evaluate", "log.parquet", *COLUMNS, stdout=subprocess.PIPE, env=environment)
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")
    assert b"0.600000" in printed


# ---- standard output and standard error that cannot be written -----------------------------------


def in_a_shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m fastrank_eval"
    return subprocess.run(
        ["sh", "-c", command.replace("fastrank-eval", program)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


RUN = f"fastrank-eval evaluate log.parquet {' '.join(COLUMNS)} -m GAUC"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command, code, message",
    [
        (f"{RUN} >&-", 2, "error: standard output is closed; open it, or name a file"),
        (f"{RUN} >&- 2>&-", 2, ""),
        (f"{RUN} -o report.json >&-", 0, "wrote report.json"),
        (f"{RUN} >/dev/full", 2, "error: cannot write to standard output: No space left"),
        (f"{RUN} -o report.json 2>/dev/full", 0, ""),
        (f"{RUN.replace('log', 'lost')} 2>/dev/full", 2, ""),
        ("fastrank-eval evaluate --help >/dev/full", 2, "error: cannot write to standard output"),
        ("fastrank-eval --help >/dev/full", 2, "error: cannot write to standard output"),
        ("fastrank-eval --version >&-", 2, "error: cannot write to standard output: it is closed"),
        ("fastrank-eval measures >&-", 2, "error: cannot write to standard output: it is closed"),
    ],
)
def test_output__that_cannot_be_written__is_told_in_one_line(folder, command, code, message):
    outcome = in_a_shell(command, folder)
    assert (outcome.returncode, outcome.stdout) == (code, "")
    assert outcome.stderr.startswith(message)
    assert outcome.stderr.count("\n") == bool(message)


def test_report__for_a_terminal_of_unknown_width__has_the_usual_one(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")
    assert "0.600000" in run("evaluate", "log.parquet", *COLUMNS, "-m", "GAUC").stdout


def test_standard_input__together_with_files__is_refused(folder):
    assert "pass it alone" in refused("-", "log.parquet", *COLUMNS)
