"""Where test data lives: small fixtures in the repository, larger real data beside it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench import fresh
from fastrank_eval._lib.kernel_store import user_folder

HERE = Path(__file__).parent
#: Folders of tests that look at commands, files, pages and texts.
NO_KERNELS = (HERE / "apps", HERE / "bench")

#: Bytes of memory for folders of tests, which fill a fifth of it.
FREE = 6 << 30

#: A test that takes longer has a marker with the reason.
SECONDS = 2


def in_memory(config: pytest.Config) -> None:
    """Put folders of tests where a history need not wait for a disk; they go when the run ends."""
    memory = "/dev/shm"  # noqa: S108
    if "PYTEST_DEBUG_TEMPROOT" in os.environ or not os.access(memory, os.W_OK):
        return
    if shutil.disk_usage(memory).free > FREE and not os.statvfs(memory).f_flag & os.ST_NOEXEC:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = root = tempfile.mkdtemp(dir=memory)
        config.add_cleanup(lambda: shutil.rmtree(root, ignore_errors=True))


def pytest_configure(config: pytest.Config) -> None:
    """Let properties try the same examples in each run, however long one takes."""
    in_memory(config)
    if find_spec("hypothesis"):  # conformance tests do without
        from hypothesis import settings

        same = {"max_examples": 50, "deadline": None, "derandomize": True}
        settings.register_profile("tests", settings.default, **same)
        settings.load_profile("tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of a folder."""
    for item in items:
        if any(folder in item.path.parents for folder in NO_KERNELS):
            item.add_marker("no_kernels")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many examples of the documentation ran, and which tests lack a reason to last."""
    ran = terminalreporter.stats.get("passed", [])
    for report in ran:
        if report.duration > SECONDS and not {"slow", "lasts"} & report.keywords.keys():
            terminalreporter.write_line(f"{report.duration:.1f} s, no reason: {report.nodeid}")
    if any(report.nodeid.startswith("tests/test_documents.py") for report in ran):
        from tests.documents import counted, counts

        number, _ = counts()
        terminalreporter.write_line(f"documentation: {counted(number)}")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the shared real data: ``../shared/data``, or what FASTRANK_SHARED names."""
    root = Path(os.environ.get("FASTRANK_SHARED", HERE.parent.parent / "shared"))
    data = root / "data" if (root / "data").is_dir() else root
    if not (data / "seed_examples.json").is_file():
        pytest.skip(f"needs ../shared: no real data under {root} (set FASTRANK_SHARED)")
    return data


@pytest.fixture(scope="session")
def store() -> Path:
    """Folder of kernels for fresh processes: that of this run."""
    folder = user_folder()
    assert folder is not None
    return folder


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of the test alone."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def empty_store() -> Iterator[Path]:
    """An empty folder for kernels."""
    with fresh.empty_store() as folder:
        yield folder


@pytest.fixture
def never_resting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every report of progress is passed on."""
    monkeypatch.setattr("fastrank_eval._lib.threads.INTERVAL", 0)


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return HERE / "fixtures"


@pytest.fixture(scope="session")
def worked_examples(fixtures: Path) -> dict[str, dict]:
    """Worked examples by id."""
    cases = json.loads((fixtures / "worked_examples.json").read_text(encoding="utf-8"))
    return {case["id"]: case for case in cases}


@pytest.fixture(scope="session")
def month_of_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated month of small nights; not to be written to."""
    from fastrank_eval.apps.demo.examples import write_month

    folder = tmp_path_factory.mktemp("month") / "logs"
    write_month(folder, rows=3000)
    return folder


@pytest.fixture
def nightly_folder(month_of_logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a nightly report of that month."""
    from tests.support.nightly_runs import CONFIG

    shutil.copytree(month_of_logs, tmp_path / "logs")
    (tmp_path / "nightly.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path
