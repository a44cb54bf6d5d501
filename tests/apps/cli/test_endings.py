"""How the command line ends: stopped, with a bug, or with nowhere to write to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import COLUMNS, output, run


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "fault, code, said",
    [
        (KeyboardInterrupt, 130, "interrupted."),
        (MemoryError, 1, "error: out of memory"),
        (ZeroDivisionError, None, ""),  # a bug is not dressed up
    ],
)
def test_evaluate__stopped_halfway__leaves_no_file(
    fault: type[BaseException], code: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> str:
        raise fault

    before = sorted(Path().iterdir())
    monkeypatch.setattr("fastrank_eval.results.result.Result.to_json", fail)
    words = ("evaluate", "log.parquet", *COLUMNS, "-o", "report.json")
    if code is None:
        with pytest.raises(fault):
            run(*words)
    else:
        outcome = run(*words)
        assert outcome.exit_code == code
        assert outcome.stderr.startswith(said)
    assert sorted(Path().iterdir()) == before


@pytest.mark.usefixtures("folder")
def test_process__terminal_without_unicode__prints_what_it_can() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "fastrank_eval", "evaluate", "log.parquet", *COLUMNS]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True)
    assert (b"0.600000" in done.stdout, done.stderr) == (True, b"")


RUN = f"fastrank-eval evaluate log.parquet {' '.join(COLUMNS)} -m GAUC"


@pytest.mark.slow("starts a shell for each ending")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command, code, message",
    [
        (f"{RUN} >&-", 2, "error: standard output is closed; open it, or name a file"),
        (f"{RUN} -o report.json >&-", 0, "wrote report.json"),
        (f"{RUN} >/dev/full", 2, "error: cannot write to standard output: No space left"),
        (f"{RUN} -o report.json 2>/dev/full", 0, ""),
        (f"{RUN.replace('log', 'lost')} 2>/dev/full", 2, ""),
        ("fastrank-eval --version >&-", 2, "error: cannot write to standard output: it is closed"),
    ],
)
def test_output__that_cannot_be_written__is_told_in_one_line(folder, command, code, message):
    words = ["sh", "-c", command.replace("fastrank-eval", f"{sys.executable} -m fastrank_eval")]
    outcome = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout) == (code, "")
    assert outcome.stderr.startswith(message)
    assert outcome.stderr.count("\n") == bool(message)


def test_report__for_a_terminal_of_unknown_width__has_the_usual_one(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "0")
    assert "0.600000" in output("evaluate", "log.parquet", *COLUMNS, "-m", "GAUC")
