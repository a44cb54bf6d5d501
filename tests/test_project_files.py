"""Files about the project: citation, works of others, what archives contain."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import fastrank_eval

pytestmark = pytest.mark.no_kernels

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fastrank_eval"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKS = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
#: Kinds of files that are written here.
OWN = {".css", ".html", ".js", ".json", ".py", ".pyi", ".sql", ".toml", ".typed"}


def test_citation__has_the_version_and_licence_of_the_package() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {fastrank_eval.__version__}\n" in text
    assert f"\nlicense: {PROJECT['project']['license']}\n" in text
    abstract = " ".join(text.partition("abstract: >-")[2].partition("\nauthors")[0].split())
    assert abstract == PROJECT["project"]["description"]


def test_files_of_the_package__are_written_here_but_for_machine_code() -> None:
    """A font, a picture or a script of others would need a notice."""
    paths = [
        path
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "objects" not in path.parts
    ]
    assert {path.suffix or path.name for path in paths} - {"py.typed"} <= OWN
    assert [path.name for path in paths if path.suffix == ".js"] == ["tables.js"]
    found = [
        path.relative_to(PACKAGE).as_posix()
        for path in paths
        if re.search(r"(?i)copyright|@license|\(c\) ?\d{4}", path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_works_of_others__list_requirements_and_fixtures() -> None:
    pins = (ROOT / "requirements" / "wheel.txt").read_text(encoding="utf-8")
    for name in set(re.findall(r"^([\w-]+)==", pins, re.MULTILINE)):
        assert re.search(rf"^\| {name}\b", WORKS, re.MULTILINE | re.IGNORECASE), name
    for notice in (ROOT / "tests" / "fixtures").glob("NOTICE*"):
        assert f"tests/fixtures/{notice.name}" in WORKS


def test_archive__has_every_file_about_the_project() -> None:
    listed = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    kinds = ("", ".cff", ".md", ".py")
    files = {path.name for path in ROOT.iterdir() if path.is_file() and path.suffix in kinds}
    files = {name for name in files if not name.startswith(".")}
    files |= set(re.findall(r"(?<![\w/])\.ci\b", (ROOT / "Makefile").read_text(encoding="utf-8")))
    assert files - {name.removeprefix("/") for name in listed} == set()
    licences = set(PROJECT["project"]["license-files"])
    assert {"LICENSE", "NOTICE", "THIRD_PARTY.md"} <= licences
    assert all((ROOT / name).is_file() for name in licences)


def test_changelog__has_headings_of_keep_a_changelog_and_each_change_once() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *versions = re.split(r"^## ", text, flags=re.MULTILINE)
    assert first.startswith("# Changelog\n")
    headings = [version.partition("\n")[0] for version in versions]
    assert headings[0] == "[Unreleased]"
    released = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d", one) for one in headings[1:]]
    numbers = [tuple(map(int, one[1].split("."))) for one in released if one]
    assert len(numbers) == len(released), headings
    assert numbers == sorted(set(numbers), reverse=True)
    page = (ROOT / "docs/reference/versions.md").read_text(encoding="utf-8")
    table = page.partition("| heading |")[2].partition("\n\n")[0]
    allowed = re.findall(r"^\| ([A-Z][a-z ]+) \|", table, re.MULTILINE)
    for version in versions:
        found = re.findall(r"^### (.*)$", version, re.MULTILINE)
        assert found == [one for one in allowed if one in found]
    changes = [
        " ".join(one.split())[:60] for one in re.split(r"^\* ", text, flags=re.MULTILINE)[1:]
    ]
    assert sorted(changes) == sorted(set(changes))


def test_files_about_the_project__include_no_other_file() -> None:
    """Where the repository is browsed, an include is not shown."""
    for path in ROOT.glob("*.md"):
        assert "{include}" not in path.read_text(encoding="utf-8"), path.name
