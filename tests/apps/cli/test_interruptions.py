"""Runs that end before their time: signals, full disks, readers that have gone."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from select import select
from threading import Thread

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import ipc, parquet

from fastrank_eval.apps.cli.main import cli
from tests.support.signals import default_signals
from tests.support.terminal import shown

if os.name != "posix":
    pytest.skip("POSIX signals and terminals", allow_module_level=True)

import fcntl
import pty
import resource
import termios

COLUMNS = ["-g", "user", "-l", "click", "-s", "pctr", "-m", "GAUC"]
SCHEMA = pa.schema({"user": pa.int64(), "click": pa.int8(), "pctr": pa.float64()})
PROGRAM = [sys.executable, "-m", "fastrank_eval"]
PATIENCE = 60  # seconds until a test gives up


def rows(first_user: int, users: int = 10) -> pa.RecordBatch:
    generator = np.random.default_rng(first_user)
    columns = [
        np.repeat(np.arange(first_user, first_user + users), 3),
        np.tile(np.array([1, 0, 0], np.int8), users),
        generator.random(3 * users),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


class Run:
    """`evaluate -` of a stream that ends when the test says so, on a terminal or not."""

    def __init__(
        self,
        *arguments: str,
        folder: Path,
        terminal: bool,
        nohup: bool = False,
        **environment: str,
    ) -> None:
        self.seen, self.gone, ours = b"", False, None
        output: int = subprocess.PIPE
        if terminal:
            ours, output = pty.openpty()
            termios.tcsetwinsize(ours, (24, 80))  # type: ignore[attr-defined]
        hidden = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        self.process = subprocess.Popen(
            [*PROGRAM, "evaluate", "-", *COLUMNS, *arguments],
            cwd=folder,
            env={**kept, "TERM": "xterm-256color", **environment},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            bufsize=0,
            start_new_session=True,
            preexec_fn=partial(_prepare, terminal=terminal, nohup=nohup),
        )
        assert self.process.stdin is not None
        self.input = self.process.stdin
        self.stream = ipc.new_stream(self.input, SCHEMA)
        self.user = 0
        if ours is None:
            assert self.process.stderr is not None
            self.terminal = None
            readable = self.process.stderr.fileno()
        else:
            os.close(output)
            self.terminal = readable = ours
        self.reading = Thread(target=self._read, args=(readable,), daemon=True)
        self.reading.start()

    def _read(self, readable: int) -> None:
        with suppress(OSError):  # EIO: nobody writes to the terminal any more
            while not self.gone:
                if select([readable], [], [], 0.1)[0]:
                    part = os.read(readable, 1 << 16)
                    if not part:
                        return
                    self.seen += part

    def feed(self, seconds: float) -> None:
        """Write groups for some time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._feed()

    def feed_until_read(self) -> None:
        """Write more groups than a pipe holds."""
        for _ in range(300):
            self.stream.write_batch(rows(self.user))
            self.user += 10

    def feed_until(self, text: str) -> None:
        """Write groups until the process says something."""
        end = time.monotonic() + PATIENCE
        while text.encode() not in self.seen:
            assert time.monotonic() < end, self.seen
            assert self.process.poll() is None, self.seen
            self._feed()

    def _feed(self) -> None:
        self.stream.write_batch(rows(self.user))
        self.user += 10
        time.sleep(0.02)

    def hang_up(self) -> None:
        """Close the terminal."""
        assert self.terminal is not None
        self.gone = True
        self.reading.join(PATIENCE)
        os.close(self.terminal)
        self.terminal = None

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it wrote to the terminal or to standard error."""
        code = self.process.wait(PATIENCE)
        self.reading.join(PATIENCE)
        with suppress(BrokenPipeError):
            self.input.close()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None
        return code, self.seen.decode()

    def end_of_input(self) -> None:
        self.stream.close()
        self.input.close()


def _prepare(*, terminal: bool, nohup: bool) -> None:
    default_signals()
    if nohup:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if terminal:
        fcntl.ioctl(2, termios.TIOCSCTTY, 0)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts a `Run` in `tmp_path` that does not outlive the test."""
    runs: list[Run] = []

    def begin(
        *arguments: str, terminal: bool = True, nohup: bool = False, **environment: str
    ) -> Run:
        run = Run(*arguments, folder=tmp_path, terminal=terminal, nohup=nohup, **environment)
        runs.append(run)
        return run

    yield begin
    for run in runs:
        run.process.kill()
        run.end()


OUTPUTS = ["-o", "report.json", "--per-group", "groups.parquet"]


# ---- the bar, as a terminal shows it -------------------------------------------------------------


@pytest.mark.slow("waits for a process that is stopped")
def test_terminal__run_that_lasts__has_a_bar_that_is_gone_afterwards(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start(*OUTPUTS)
    run.feed_until(" rows/s")
    bar = shown(run.seen.decode())
    assert len(bar) == 1
    assert bar[0].startswith("reading ")
    run.end_of_input()
    code, written = run.end()
    assert (code, shown(written)) == (0, ["wrote groups.parquet", "wrote report.json"])
    assert "\x1b[?25" not in written  # a cursor never hidden need not be shown again
    assert sorted(file.name for file in tmp_path.iterdir()) == ["groups.parquet", "report.json"]


@pytest.mark.slow("waits for a process that is stopped")
def test_terminal__bad_row_midway__leaves_the_error_alone(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start(*OUTPUTS)
    run.feed_until(" rows/s")
    bad = rows(run.user).set_column(2, "pctr", pa.array([float("nan")] * 30))
    run.stream.write_batch(bad)
    run.end_of_input()
    code, written = run.end()
    assert code == 2
    assert shown(written)[0].startswith("error: score column 'pctr'")
    assert list(tmp_path.iterdir()) == []


# ---- signals -------------------------------------------------------------------------------------


@pytest.mark.slow("waits for a process that is stopped")
def test_terminal__ctrl_c__leaves_one_line_and_no_file(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start(*OUTPUTS, "--threads", "4")
    run.feed_until(" rows/s")
    assert run.terminal is not None
    os.write(run.terminal, b"\x03")
    code, written = run.end()
    assert (code, shown(written.replace("^C", ""))) == (130, ["interrupted."])
    assert "\x1b[?25" not in written
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow("waits for a process that is stopped")
@pytest.mark.parametrize(
    "number, times, codes, said, terminal",
    [
        # After the message, a second signal may end what remains.
        (signal.SIGTERM, 20, (143, -signal.SIGTERM), "terminated.", True),
        (signal.SIGTERM, 1, (143,), "terminated.", False),
        (signal.SIGHUP, 1, (129,), "hung up.", False),
    ],
)
def test_signal__midway__ends_the_run_once_and_leaves_no_file(
    start: Callable[..., Run], tmp_path: Path, number: int, times: int, codes: tuple[int, ...],
    said: str, terminal: bool,
) -> None:  # fmt: skip
    run = start(*OUTPUTS, terminal=terminal)
    run.feed_until(" rows/s") if terminal else run.feed_until_read()
    for _ in range(times):
        run.process.send_signal(number)
    ended, written = run.end()
    assert ended in codes
    assert shown(written) == [said]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow("waits for a process that is stopped")
def test_terminal__goes_away_midway__ends_the_run_and_leaves_no_file(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start(*OUTPUTS)
    run.feed_until(" rows/s")
    run.hang_up()
    assert run.end()[0] == 129
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow("waits for a process that is stopped")
def test_hang_up__where_the_caller_ignores_it__leaves_the_run_alone(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    run = start(*OUTPUTS, nohup=True)
    run.feed_until(" rows/s")
    run.hang_up()
    run.process.send_signal(signal.SIGHUP)
    run.feed(0.5)
    run.end_of_input()
    code, written = run.end()
    assert (code, "hung up" in written) == (0, False)
    assert {path.name for path in tmp_path.iterdir()} == {"report.json", "groups.parquet"}


def run_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=default_signals,
    )


STUCK = """
import sys, threading, time
from pathlib import Path
from fastrank_eval._lib.signals import StopSignal, handle_signals, on_forced_exit

handle_signals()
part = Path(sys.argv[1])
with on_forced_exit(part.unlink):
    try:
        print("ready", flush=True)
        time.sleep(600)
    except StopSignal:
        threading.Lock().acquire() and time.sleep(600)  # as if for a thread that compiles
"""


def test_signal__main_thread_does_not_unwind__process_ends_and_tidies_up(tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.touch()
    process = run_python(STUCK, str(part))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (143, "terminated.\n")
    assert not part.exists()


SWALLOWED = """
import os, signal
from fastrank_eval._lib.signals import StopSignal, handle_signals, raise_if_stopped, defer_signals

class Finalized:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000): pass

handle_signals()
Finalized()  # Python prints and drops what is raised there
try:
    raise_if_stopped()
except StopSignal as stop:
    print("raised again", stop.code)
"""

HELD = """
import os, signal
from fastrank_eval._lib.signals import StopSignal, handle_signals, defer_signals

handle_signals()
try:
    with defer_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000): pass
        print("whole")
    print("not reached")
except StopSignal as stop:
    print("raised at the end", stop.code)
"""


@pytest.mark.parametrize(
    "code, printed",
    [(SWALLOWED, "raised again 130\n"), (HELD, "whole\nraised at the end 143\n")],
    ids=["swallowed by a library", "while held"],
)
def test_signal__at_a_bad_moment__is_raised_later(code: str, printed: str) -> None:
    assert run_python(code).communicate(timeout=PATIENCE) == (printed, "")


EARLY = """
import os, signal, sys
from fastrank_eval.__main__ import main

class Sender:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), int(sys.argv[2]))

sys.meta_path.insert(0, Sender())
main()
"""


@pytest.mark.parametrize(
    "number, imported, code, said",
    [
        (signal.SIGINT, "fastrank_eval._lib.signals", 130, "interrupted.\n"),
        (signal.SIGTERM, "click", 143, "terminated.\n"),
        (signal.SIGHUP, "fastrank_eval.apps.cli.main", 129, "hung up.\n"),
    ],
)
def test_signal__during_the_first_imports__ends_the_command_with_one_line(
    number: int, imported: str, code: int, said: str
) -> None:
    process = run_python(EARLY, imported, str(int(number)))
    assert process.communicate(timeout=PATIENCE) == ("", said)
    assert process.returncode == code


def test_import__of_the_package__leaves_signals_alone() -> None:
    code = "import signal, fastrank_eval.__main__; print(signal.getsignal(signal.SIGINT).__name__)"
    assert run_python(code).communicate(timeout=PATIENCE) == ("default_int_handler\n", "")


# ---- outputs that cannot be finished -------------------------------------------------------------


@pytest.fixture
def small_files_only() -> Iterator[None]:
    """Let this process write no file of more than 4 KB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    parquet.write_table(pa.Table.from_batches([rows(0, 5000)]), "log.parquet")
    return "log.parquet"


@pytest.mark.parametrize(
    "arguments, name",
    [
        (["-m", "GAUC", "--per-group", "groups.parquet"], "groups.parquet"),
        (["-m", "GAUC", "--per-group", "groups.arrow"], "groups.arrow"),
        (["-m", "GAUC", "--per-group", "groups.csv"], "groups.csv"),
        (["-m", "AUC", "--save-state", "day.state"], "day.state"),
        (["-m", "GAUC", "--by", "user", "--min-groups", "1"], "report.json"),
    ],
)
def test_output__disk_full_midway__is_told_and_leaves_no_file(
    log: str, small_files_only: None, arguments: list[str], name: str
) -> None:
    words = ["evaluate", log, *COLUMNS[:-2], *arguments, "-o", "report.json"]
    done = CliRunner().invoke(cli, words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: cannot write '{name}': ")
    assert os.strerror(errno.EFBIG) in done.stderr
    assert done.stderr.count("\n") == 1
    assert [file.name for file in Path().iterdir()] == [log]


@pytest.mark.slow("waits for a process that is stopped")
def test_standard_output__closed_by_its_reader_midway__ends_quietly(
    start: Callable[..., Run],
) -> None:
    run = start(terminal=False)
    run.feed(0.1)
    assert run.process.stdout is not None
    run.process.stdout.close()
    run.end_of_input()
    assert run.end() == (141, "")
