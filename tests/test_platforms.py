"""Systems other than Linux: the same numbers without what only Linux or POSIX has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fastrank_eval._lib.kernel_store import user_folder
from tests.support.signals import default_signals

pytestmark = [pytest.mark.no_kernels, pytest.mark.lasts("starts each command twice")]

HERE = Path(__file__).parent
ROOT = HERE.parent
OTHER_SYSTEM = [sys.executable, str(HERE / "support" / "other_system.py")]
THIS_SYSTEM = [sys.executable, "-m"]

CLICKS = ["impressions.parquet", "--group", "user_id", "--label", "click"]
COMMANDS = {
    "evaluate": ["evaluate", *CLICKS, "--score", "score_a,score_b", "--by", "country"],
    "evaluate with little memory": [
        *("evaluate", *CLICKS, "--score", "score_a", "--measures", "GAUC,AUC"),
        *("--order", "scattered", "--memory", "1GB"),
    ],
    "evaluate without a folder for kernels": [
        *("evaluate", *CLICKS, "--score", "score_a", "--measures", "P@1", "--order", "grouped"),
    ],
    "state": ["evaluate", *CLICKS, "--score", "score_a", "--save-state", "night.state"],
    "trec": ["trec", "-c", "qrels.txt", "ours.run"],
    "nightly": ["nightly", "month/nightly.toml", "--date", "2026-11-06"],
}
#: Times, and what follows from them.
TIMES = re.compile(r"[\d.,e+-]+ s, [\d.,]+ (Mrows|rows)/s(\s\((first run:|[\d,]+ kernel)[^)]*\))?")


def run(start: list[str], arguments: list[str], folder: Path, *, stored: bool = True) -> str:
    """Run a command; if `stored`, with the kernels of the user: any system can name a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    kernels = user_folder()
    if stored and kernels is not None:
        environment["FASTRANK_CACHE_DIR"] = str(kernels)
    program = "tests.support.spilling" if "--memory" in arguments else "fastrank_eval"
    command = [*start, program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return TIMES.sub("", done.stdout)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The demo's data, written on this system and on the other one."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("this", "other")}
    for start, folder in zip((THIS_SYSTEM, OTHER_SYSTEM), folders.values(), strict=True):
        run(start, ["demo", ".", "--rows", "5000", "--overwrite"], folder)
    return folders


@pytest.mark.parametrize("name", COMMANDS)
def test_command__without_what_only_posix_has__prints_the_same(
    name: str, folders: dict[str, Path]
) -> None:
    this = run(THIS_SYSTEM, COMMANDS[name], folders["this"])
    # That one compiles, as all do on a system that names no folder.
    stored = name != "evaluate without a folder for kernels"
    other = run(OTHER_SYSTEM, COMMANDS[name], folders["other"], stored=stored)
    assert this.strip()
    assert ("spilled=True" in this) == ("--memory" in COMMANDS[name])
    assert other == this


def test_files__written_without_locks__are_whole_and_leave_nothing(
    folders: dict[str, Path],
) -> None:
    run(OTHER_SYSTEM, COMMANDS["state"] + ["--overwrite"], folders["other"])
    run(THIS_SYSTEM, COMMANDS["state"] + ["--overwrite"], folders["this"])
    states = [(folder / "night.state").read_bytes() for folder in folders.values()]
    assert len(states[0]) == len(states[1])
    assert not [path for path in folders["other"].rglob("*") if "fastrank" in path.name]


def test_classifiers__name_the_systems_that_the_docs_call_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    systems = [c for c in project["classifiers"] if c.startswith("Operating System")]
    page = (ROOT / "docs" / "reference" / "platforms.md").read_text("utf-8")
    tested = re.findall(r"^\| (\w+)[^|]*\|[^|]*\| tested", page, re.MULTILINE)
    assert set(tested) == {"Linux"}
    assert systems == ["Operating System :: POSIX :: Linux"]


def test_interrupt__where_no_thread_can_watch__ends_the_run_with_one_line() -> None:
    code = (
        "import signal, time\n"
        "from tests.support.other_system import hide\n"
        "hide()\n"
        "from fastrank_eval._lib.signals import run_stoppable\n"
        "run_stoppable(lambda: (signal.raise_signal(signal.SIGINT), time.sleep(60)))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, preexec_fn=default_signals
    )
    assert (done.returncode, done.stderr) == (130, "interrupted.\n"), done
