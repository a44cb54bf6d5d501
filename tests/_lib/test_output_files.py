"""Output files: checked before the work, whole or not there after it."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import atomic_path, check_writable

pytestmark = pytest.mark.no_kernels


def test_check_writable__new_file__leaves_nothing_behind(tmp_path: Path) -> None:
    assert check_writable(tmp_path / "report.json") == tmp_path.resolve() / "report.json"
    assert list(tmp_path.iterdir()) == []


def test_check_writable__file_exists__names_it_and_the_remedy(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("old")
    with pytest.raises(OutputError, match=r"report\.json' exists already.*--overwrite"):
        check_writable(report)
    assert check_writable(report, overwrite=True).read_text() == "old"


@pytest.mark.parametrize(
    "name, complaint",
    [
        ("", "empty path"),
        ("missing/report.json", "does not exist; create it first"),
        ("file/report.json", "Not a directory|is not a folder"),
        ("folder", "it is a folder"),
        ("x" * 300, "name too long"),
    ],
)
def test_check_writable__no_place_for_a_file__is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, complaint: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match=complaint):
        check_writable(name, overwrite=True)


@pytest.mark.skipif(os.name != "posix", reason="devices are files on POSIX only")
def test_check_writable__device_or_pipe__is_refused_and_kept() -> None:
    ends = os.pipe()
    for name in (f"/dev/fd/{ends[1]}", os.devnull):
        with pytest.raises(OutputError, match="device or pipe"):
            check_writable(name, overwrite=True)
    for end in ends:
        os.close(end)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_check_writable__read_only_folder__is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OutputError, match="Read-only file system"):
        check_writable(tmp_path / "report.json")


@pytest.mark.parametrize("overwrite", [True, False])
def test_atomic_path__body_succeeds__file_appears_whole(tmp_path: Path, overwrite: bool) -> None:
    report = tmp_path / "report.txt"
    with atomic_path(report, overwrite=overwrite) as part:
        part.write_text("new")
        assert part.parent == tmp_path.resolve()
        assert not report.exists()
    assert report.read_text() == "new"
    assert list(tmp_path.iterdir()) == [report]


@pytest.mark.parametrize("interruption", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_atomic_path__body_is_interrupted__old_file_stays(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    report = tmp_path / "report.txt"
    report.write_text("old")
    with pytest.raises(interruption), atomic_path(report) as part:
        part.write_text("half")
        raise interruption
    assert report.read_text() == "old"
    assert list(tmp_path.iterdir()) == [report]


def test_atomic_path__disk_full__says_so_and_cleans_up(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No space left"), atomic_path(tmp_path / "a") as part:
        part.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


def test_atomic_path__file_appears_meanwhile__is_not_replaced(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    with (
        pytest.raises(OutputError, match="exists already"),
        atomic_path(report, overwrite=False) as part,
    ):
        part.write_text("mine")
        report.write_text("theirs")
    assert report.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [report]


def test_atomic_path__symbolic_link__is_followed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    target, link = tmp_path / "data" / "real.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_path(link) as part:
        part.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_atomic_path__existing_file__keeps_its_rights(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.touch()
    report.chmod(0o640)
    with atomic_path(report) as part:
        part.write_text("new")
    assert stat.S_IMODE(report.stat().st_mode) == 0o640


_WRITER = """
import sys
from fastrank_eval._lib.files import atomic_path
with atomic_path(sys.argv[1]) as part:
    part.write_text("half")
    print(part.name, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="files are locked on POSIX only")
def test_atomic_path__removes_what_killed_runs_left__and_no_file_of_a_running_one(
    tmp_path: Path,
) -> None:
    others = [".a.0123456789ab.part", "x.0123456789ab.fastrank.part", ".a.fastrank.part"]
    for name in others:
        (tmp_path / name).touch()
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path / name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("2026-11-18.html", "report.txt")
    ]
    try:
        killed, running = runs
        parts = [run.stdout.readline().strip() for run in runs if run.stdout]
        killed.kill()
        killed.wait()
        assert {*others, *parts} == {path.name for path in tmp_path.iterdir()}
        with atomic_path(tmp_path / "report.txt") as mine, atomic_path(tmp_path / "b.txt"):
            assert mine.exists()
            found = {path.name for path in tmp_path.iterdir()}
            assert parts[0] not in found
            assert parts[1] in found
        running.communicate()
        assert running.returncode == 0
    finally:
        for run in runs:
            run.kill()
            run.communicate()
    assert {*others, "report.txt", "b.txt"} == {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "report.txt").read_text() == "half"


def test_file__that_another_process_removes_meanwhile__is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "entry"
    target.write_text("old")
    may_write = os.access

    def remove_first(path: Path, mode: int) -> bool:
        target.unlink(missing_ok=True)
        return may_write(path, mode)

    monkeypatch.setattr(os, "access", remove_first)
    with atomic_path(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"
