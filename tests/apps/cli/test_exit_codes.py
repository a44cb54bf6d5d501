"""Exit codes: each command ends with each code of the table, and with no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fastrank_eval.apps.cli.main import cli
from fastrank_eval.apps.cli.shell import ExitCode, codes_of

COMMANDS = cli.list_commands(click.Context(cli))
LOG = ["impressions.parquet", "-g", "user_id", "-l", "click", "-s", "score_a"]
TWO = [*LOG, "-s", "score_b", "--baseline", "score_a", "-m", "GAUC"]
NIGHT = ["month/nightly.toml", "--quiet", "--date"]
#: Arguments with which a command is done; `serve` is done after Ctrl-C.
DONE = {
    "classes": ["animals.parquet", "-l", "kind", "-s", "cat=p_cat,dog=p_dog,owl=p_owl"],
    "compare": TWO,
    "curve": ["roc", *LOG],
    "demo": ["more", "--rows", "1000", "--night-rows", "100"],
    "evaluate": [*LOG, "-m", "GAUC"],
    "explain": [*LOG, "-m", "AP", "--profile", "sklearn"],
    "measures": ["nDCG"],
    "merge": ["saved.state"],
    "nightly": [*NIGHT, "2026-11-10"],
    "plot": ["roc", *LOG, "-o", "roc.svg", "--overwrite"],
    "spark-submit-example": [],
    "threshold": [LOG[0], *LOG[3:], "--by", "f1"],
    "trec": ["qrels.txt", "bm25.run"],
    "warmup": [*LOG, "-m", "GAUC"],
}
#: Arguments that a command refuses.
REFUSED = {
    **{name: [arguments[0].replace("impressions", "missing"), *arguments[1:]]
       for name, arguments in DONE.items() if arguments and arguments[0] == LOG[0]},
    **{name: ["roc", "missing.parquet", *LOG[1:], *(["-o", "x.svg"] if name == "plot" else [])]
       for name in ("curve", "plot")},
    "classes": ["missing.parquet", *DONE["classes"][1:]],
    "demo": ["."],
    "measures": ["no-such-measure"],
    "merge": ["impressions.parquet"],
    "nightly": [*NIGHT, "2025-01-01"],
    "serve": ["missing.db"],
    "spark-submit-example": ["--no-such-option"],
    "trec": ["qrels.txt", "missing.run"],
}  # fmt: skip
GATE = ["--fail-if", "GAUC > 0"]
OTHERS = {
    ("compare", ExitCode.GATE_FAILED): [*TWO, *GATE],
    ("evaluate", ExitCode.GATE_FAILED): [*DONE["evaluate"], *GATE],
    ("merge", ExitCode.GATE_FAILED): ["saved.state", *GATE],
    ("nightly", ExitCode.GATE_FAILED): [*NIGHT, "2026-11-12"],
    ("nightly", ExitCode.DATA_QUALITY): [*NIGHT, "2026-11-24"],
    ("nightly", ExitCode.NOT_SHOWN): ["unwritable.toml", "--quiet", "--date", "2026-11-10"],
}
FAULTS = {
    ExitCode.SYSTEM: MemoryError,
    ExitCode.INTERRUPTED: KeyboardInterrupt,
    ExitCode.PIPE_CLOSED: BrokenPipeError,
}
SIGNALS = {
    ExitCode.HUNG_UP: "SIGHUP",
    ExitCode.INTERRUPTED: "SIGINT",
    ExitCode.TERMINATED: "SIGTERM",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working folder of all commands: the demo, and a page that cannot be written."""
    folder = tmp_path_factory.mktemp("codes") / "demo"
    assert CliRunner().invoke(cli, ["demo", str(folder)]).exit_code == 0
    with chdir(folder):
        saved = ["evaluate", *DONE["evaluate"], "--save-state", "saved.state", "--quiet"]
        assert CliRunner().invoke(cli, saved).exit_code == 0
        config = Path("month/nightly.toml").read_text().replace('"logs', '"month/logs')
        config = config.replace('folder = "report"', 'folder = "pages"')
        Path("unwritable.toml").write_text(f'{config}\n[history]\nfile = "own.db"\n')
        Path("pages/2026-11-10.html").mkdir(parents=True)
        yield folder


def exit_code(command: str, arguments: list[str]) -> int:
    done = CliRunner().invoke(cli, [command, *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize("command", DONE)
def test_command__with_good_input__is_done(command: str) -> None:
    assert exit_code(command, DONE[command]) == ExitCode.DONE


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize("command", REFUSED)
def test_command__with_bad_input__says_so(command: str) -> None:
    assert exit_code(command, REFUSED[command]) == ExitCode.BAD_INPUT


@pytest.mark.usefixtures("demo")
@pytest.mark.parametrize(
    "command, code", OTHERS, ids=[f"{command} {code.name}" for command, code in OTHERS]
)
def test_command__with_rows_that_fail__says_how(command: str, code: ExitCode) -> None:
    assert exit_code(command, OTHERS[command, code]) == code


@pytest.mark.parametrize("code", FAULTS, ids=lambda code: code.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_command__stopped_by_the_system__says_how(
    command: str, code: ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: object) -> None:
        raise FAULTS[code]

    monkeypatch.setattr("fastrank_eval.apps.cli.standard_error.discard_output", lambda _: None)
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    monkeypatch.setattr(found, "callback", fail)
    arguments = DONE.get(command, ["history.db"])
    assert exit_code(command, arguments) == code


#: Each command sends itself a signal, in a process of its own.
STOPPED = """
import os, signal, sys, time, click
from fastrank_eval._lib.signals import run_stoppable
from fastrank_eval.apps.cli.main import cli
number, commands = getattr(signal, sys.argv[1]), eval(sys.argv[2])
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
for name, arguments in commands.items():
    if os.fork() == 0:
        def stop(**_):
            os.kill(os.getpid(), number)
            time.sleep(60)
        cli.get_command(click.Context(cli), name).callback = stop
        run_stoppable(lambda: cli.main([name, *arguments]))
    print(name, os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of POSIX")
@pytest.mark.parametrize("code", SIGNALS, ids=lambda code: code.name)
def test_command__stopped_by_a_signal__says_which(code: ExitCode) -> None:
    assert code == 128 + getattr(signal, SIGNALS[code])
    commands = {name: DONE.get(name, ["history.db"]) for name in COMMANDS}
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, SIGNALS[code], repr(commands)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    codes = dict(line.split() for line in done.stdout.splitlines())
    assert codes == {name: str(int(code)) for name in COMMANDS}


def test_tests__of_this_file__cover_the_whole_table() -> None:
    tested = {(name, ExitCode.DONE) for name in [*DONE, "serve"]}
    tested |= {(name, ExitCode.BAD_INPUT) for name in REFUSED} | set(OTHERS)
    tested |= {(name, code) for name in COMMANDS for code in [*FAULTS, *SIGNALS]}
    assert tested == {(name, code) for name in COMMANDS for code in codes_of(name)}


@pytest.mark.parametrize("command", COMMANDS)
def test_help__of_a_command__lists_its_exit_codes(command: str) -> None:
    text = " ".join(CliRunner().invoke(cli, [command, "--help"]).stdout.split())
    listed = text.partition("Exit codes: ")[2].partition(".")[0].split("; ")
    assert listed == [f"{code} {code.brief}" for code in codes_of(command)]
