"""The checks of a release find the tag to compare with, and say what is not compared."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("griffe", reason="needs griffe (make release-check)")

from tests.release import check

pytestmark = pytest.mark.no_kernels


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a repository of one commit, and check it instead of this one."""
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.setattr(check, "ROOT", folder)
    run_git(folder, "init", "--quiet")
    commit(folder, "def evaluate(rows, label): ...\n")
    return folder


def run_git(folder: Path, *arguments: str) -> None:
    person = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "tag.gpgsign=false")
    subprocess.run(["git", *person, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, text: str) -> None:
    path = folder / check.PACKAGE / "__init__.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "--quiet", "--no-gpg-sign", "--message", "a change")


def compare(tmp_path: Path, against: str | None = None) -> str:
    """Compare the public names of the last commit."""
    release = check.Release(tmp_path / "release", against)
    release.sources("one")
    return check.check_public_api(release)


def test_public_api__no_tag__is_skipped(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(check.Skipped, match="no earlier tag"):
        compare(tmp_path)


def test_public_api__only_the_release_has_a_tag__is_skipped(
    repository: Path, tmp_path: Path
) -> None:
    commit(repository, "def evaluate(rows): ...\n")
    run_git(repository, "tag", "v0.2.0")
    with pytest.raises(check.Skipped, match="no earlier tag"):
        compare(tmp_path)


def test_public_api__release_has_a_tag__is_compared_with_the_one_before(
    repository: Path, tmp_path: Path
) -> None:
    run_git(repository, "tag", "v0.1.0")
    commit(repository, "def evaluate(rows): ...\n")
    run_git(repository, "tag", "v0.2.0")
    run_git(repository, "tag", "nights-are-faster")
    with pytest.raises(check.CheckError, match=r"breaks what v0\.1\.0 promises:\n  .*label"):
        compare(tmp_path)


def test_public_api__same_names_as_the_tag__passes(repository: Path, tmp_path: Path) -> None:
    run_git(repository, "tag", "v0.1.0")
    commit(repository, "def evaluate(rows, label): ...\ndef compare(rows): ...\n")
    assert compare(tmp_path) == "nothing of v0.1.0 breaks"


def test_public_api__commit_without_the_package__fails(repository: Path, tmp_path: Path) -> None:
    run_git(repository, "tag", "v0.1.0")
    run_git(repository, "mv", check.PACKAGE, "other")
    run_git(repository, "commit", "--quiet", "--no-gpg-sign", "--message", "move")
    run_git(repository, "tag", "moved")
    commit(repository, "def evaluate(rows, label): ...\n")
    with pytest.raises(check.CheckError, match="moved has no package"):
        compare(tmp_path, "moved")


def test_main__unknown_reference__says_what_is_wanted(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        check.main(["--against", "v9"])
    assert ended.value.code == 2
    assert "--against: must be a commit or tag, got 'v9'; " in capsys.readouterr().err


@pytest.mark.parametrize(
    "urls,citation,missing",
    [
        ("", "title: a\n", ["pyproject.toml has no", "CITATION.cff has no"]),
        ("[project.urls]\nSource = 'https://a.org'\n", "repository-code: https://a.org\n", []),
    ],
)
def test_missing_addresses__are_named(
    tmp_path: Path, urls: str, citation: str, missing: list[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[project]\nname = 'a'\n{urls}", encoding="utf-8")
    (tmp_path / "CITATION.cff").write_text(citation, encoding="utf-8")
    found = check.missing_addresses(tmp_path)
    assert [one.partition(" no ")[0] + " no" for one in found] == missing
