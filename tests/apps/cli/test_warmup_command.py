"""`fastrank-eval warmup`: a later evaluation of rows with the same types compiles nothing."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fastrank_eval.apps.demo import write_parquet

COLUMNS = ["--group", "user_id", "--label", "click", "--score", "score_a"]
EIGHT = "GAUC,AUC,nDCG@10,AP,RR,ERR(max_grade=1)@10,P@10,R@10"
ROOT = Path(__file__).parents[3]

EVALUATE = """
import json, sys
import fastrank_eval as fe

results = [
    fe.evaluate(
        path, group="user_id", label="click", score="score_a", measures=measures, keep=keep
    )
    for measures in sys.argv[1].split()
    for path in sys.argv[2:]
    for keep in ("", "values")
]
print(json.dumps([[result.meta.compiled for result in results], "numba" in sys.modules]))
"""

#: Warms up with the kernels of this run; the folder has those that the commands asked for then.
WARM_UPS = """
import shlex, shutil, sys
from fastrank_eval._lib import kernel_store
from fastrank_eval.apps.cli.main import cli

asked, read = [], kernel_store._read
kernel_store._read = lambda path, key: asked.append(path) or read(path, key)
for command in sys.argv[2:]:
    cli.main(shlex.split(command), standalone_mode=False)
for path in asked:
    shutil.copy(path, sys.argv[1])
"""

#: Root imports all modules: others may not be allowed to read the environment.
AS_ANOTHER_USER = """
import gc, json, os
import fastrank_eval as fe
from fastrank_eval._lib import jit, kernel_store

rows = {"click": [0, 1, 1, 0] * 9, "score": [0.1, 0.4, 0.2, 0.3] * 9}
columns = {"label": "click", "score": "score"}
first = fe.evaluate(rows, **columns, measures="AUC")
loaded = jit.loads.count
for kernel in gc.get_objects():
    if type(kernel) is jit.Kernel:
        kernel._entries.clear()
        kernel._by_types.clear()
kernel_store.user_store.cache_clear()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
readable = [jit.__file__, kernel_store.find_spec("numba").origin, os.environ["FASTRANK_CACHE_DIR"]]
if all(os.access(path, os.R_OK) for path in readable):
    second = fe.evaluate(rows, **columns, measures="AUC")
    assert repr(first.values) == repr(second.values)
    print(json.dumps([second.meta.compiled, jit.loads.count - loaded]))
"""


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "FASTRANK_CACHE_DIR": str(folder), **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )


def warm_up(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "-m", "fastrank_eval", "warmup", *arguments, **variables)


@pytest.fixture
def sample(tmp_path: Path) -> str:
    write_parquet(tmp_path / "sample.parquet", 2000)
    return str(tmp_path / "sample.parquet")


@pytest.mark.slow("evaluates many rows")
def test_evaluations__of_rows_in_any_order_and_of_computed_scores__compile_nothing_after_it(
    sample: str, tmp_path: Path, store: Path, empty_store: Path
) -> None:
    computed = [*COLUMNS[:-1], "x = score_a * score_a", "--measures", "GAUC"]
    given = [*COLUMNS, "--measures", EIGHT]
    commands = [shlex.join(["warmup", sample, *options]) for options in (given, computed)]
    done = run(store, "-c", WARM_UPS, str(empty_store), *commands)
    assert (done.returncode, done.stderr) == (0, "")
    words = [line.split() for line in done.stdout.splitlines()]
    first, second = (int(line[0]) + int(line[3]) for line in words)
    assert second > first, "computed scores have kernels of their own"
    others = []
    for order in ("sorted", "grouped", "shuffled"):
        others.append(tmp_path / f"{order}.parquet")
        write_parquet(others[-1], 600_000, order=order, seed=1)
    write_parquet(tmp_path / "hashes.parquet", 600_000, order="shuffled", id_style="random64")
    others.append(tmp_path / "hashes.parquet")
    found = run(empty_store, "-c", EVALUATE, f"{EIGHT} GAUC AUC,RR", *map(str, others))
    assert json.loads(found.stdout) == [[0] * 24, False], found.stderr
    evaluated = run(empty_store, "-m", "fastrank_eval", "evaluate", sample, *computed, "-q")
    assert "score={x: score_a * score_a}" in " ".join(evaluated.stdout.split())
    assert "compiled" not in evaluated.stdout


@pytest.mark.lasts("starts processes that compile")
def test_compiled_and_loaded_kernels__are_counted(
    sample: str, store: Path, empty_store: Path
) -> None:
    folder = empty_store / "kernels"
    assert warm_up(store, sample, *COLUMNS, "--measures", "AUC").returncode == 0
    shutil.copytree(store, folder, ignore=shutil.ignore_patterns("_rank-*"))
    first = warm_up(folder, sample, *COLUMNS, "--measures", "AUC").stdout
    loaded = int(first.split()[3])
    stored = f"stored in {folder}; later runs load them\n"
    assert first == f"1 kernel compiled, {loaded} loaded, {stored}"
    second = warm_up(folder, sample, *COLUMNS, "--measures", "AUC").stdout
    assert second == f"0 kernels compiled, {loaded + 1} loaded, {stored}"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners of files")
def test_folder__that_others_can_write__is_refused(sample: str, empty_store: Path) -> None:
    folder = empty_store / "open"
    folder.mkdir()
    folder.chmod(0o777)
    refused = warm_up(folder, sample, *COLUMNS)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == (
        f"error: kernels are not stored: {folder}: must be a folder that only you and root can "
        f"write, got {folder}, which others can write."
    )
    assert not list(folder.iterdir())


def test_folder__that_is_a_file__is_refused(sample: str, empty_store: Path) -> None:
    (empty_store / "file").write_text("")
    refused = warm_up(empty_store / "file", sample, *COLUMNS)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "kernels are not stored" in refused.stderr


def test_python_loops__are_not_stored(sample: str, empty_store: Path) -> None:
    refused = warm_up(empty_store, sample, *COLUMNS, NUMBA_DISABLE_JIT="1")
    assert refused.returncode == 2
    assert refused.stderr == (
        "error: kernels are not stored: NUMBA_DISABLE_JIT: must not be set, got 1.\n"
    )


@pytest.mark.lasts("starts processes that compile")
def test_report__says_where_kernels_are(sample: str, empty_store: Path) -> None:
    options = ["evaluate", sample, "--label", "click", "--score", "score_a", "--measures", "AUC"]
    first = run(empty_store, "-m", "fastrank_eval", *options, COLUMNS="400")
    files = len(list(empty_store.glob("*.kernel")))
    assert (
        f"(first run: {files} kernels compiled, stored in {empty_store}; later runs load them)"
        in " ".join(first.stdout.split())
    )
    assert "first run" not in run(empty_store, "-m", "fastrank_eval", *options).stdout


@pytest.mark.lasts("starts processes that compile")
@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root may be another")
def test_another_user__loads_what_root_has_stored(empty_store: Path) -> None:
    empty_store.chmod(0o755)
    found = run(empty_store, "-c", AS_ANOTHER_USER)
    assert found.returncode == 0, found.stderr
    if not found.stdout:
        pytest.skip("others cannot read this package or folder")
    assert json.loads(found.stdout) == [0, len(list(empty_store.glob("*.kernel")))]
