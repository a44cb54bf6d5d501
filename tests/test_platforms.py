"""Systems other than Linux: the same numbers without what only Linux or POSIX has."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastrank_eval._lib.kernel_store import user_folder
from tests.support.other_system import ALONE, answers
from tests.support.signals import default_signals

pytestmark = [pytest.mark.no_kernels, pytest.mark.lasts("runs each command twice")]

HERE = Path(__file__).parent
ROOT = HERE.parent
OTHER_SYSTEM = [sys.executable, str(HERE / "support" / "other_system.py")]

CLICKS = ["impressions.parquet", "--group", "user_id", "--label", "click"]
#: The first commands find no kernels of the user, as on a system that names no folder for them.
COMMANDS = {
    "demo": ["demo", ".", "--rows", "5000", "--overwrite"],
    ALONE: ["evaluate", "impressions.parquet", "-l", "click", "-s", "score_a", "-m", "AUC"],
    "evaluate": ["evaluate", *CLICKS, "--score", "score_a,score_b", "--by", "country"],
    "evaluate with little memory": [
        *("evaluate", *CLICKS, "--score", "score_a", "--measures", "GAUC,AUC"),
        *("--order", "scattered", "--memory", "1GB"),
    ],
    "state": ["evaluate", *CLICKS, "--score", "score_a", "--save-state", "night.state"],
    "trec": ["trec", "-c", "qrels.txt", "ours.run"],
    "nightly": ["nightly", "month/nightly.toml", "--date", "2026-11-06"],
}
#: Times, and what follows from them.
TIMES = re.compile(r"[\d.,e+-]+ s, [\d.,]+ (Mrows|rows)/s(\s\((first run:|[\d,]+ kernel)[^)]*\))?")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, str]]]:
    """What each command prints here and there, with the demo's data of each system."""
    this, other = tmp_path_factory.mktemp("this"), tmp_path_factory.mktemp("other")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    kernels = environment.pop("FASTRANK_CACHE_DIR", str(user_folder()))
    done = subprocess.run(
        [*OTHER_SYSTEM, json.dumps(COMMANDS), kernels],
        capture_output=True, text=True, cwd=other, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with contextlib.chdir(this):
        yield [answers(COMMANDS), json.loads(done.stdout)]
    states = [(folder / "night.state").read_bytes() for folder in (this, other)]
    assert len(states[0]) == len(states[1])
    assert not [path for path in other.rglob("*") if "fastrank" in path.name]


@pytest.mark.parametrize("name", COMMANDS)
def test_command__without_what_only_posix_has__prints_the_same(
    name: str, printed: list[dict[str, str]]
) -> None:
    this, other = (TIMES.sub("", answers[name]) for answers in printed)
    assert this.strip()
    assert ("spilled=True" in this) == ("--memory" in COMMANDS[name])
    assert other == this


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
