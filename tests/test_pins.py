"""Pinned packages: complete, checked by hashes, and the lowest ones are what is declared."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

pytestmark = pytest.mark.no_kernels

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "requirements"
FILES = sorted(path.stem for path in FOLDER.glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")

#: Extras of each file; a name that is none is a dependency group, an empty one is no extra.
HOLDS = {
    "build": ["build"],
    "conformance": ["conformance"],
    "conformance-full": ["conformance-full"],
    "dev": ["dev"],
    "distributed": ["distributed"],
    "fuzz": ["fuzz"],
    "release": ["release"],
    "report": ["report"],
    "spark": ["spark"],
    "test": ["test"],
    "wheel": [""],
}
#: The lowest versions of all that users may install, and of what tests need.
LOWEST = [
    *("conformance", "dask", "ir_measures", "outofcore", "plot", "ray", "report", "serve"),
    *("spark", "test"),
]


def requirements(extra: str) -> list[Requirement]:
    """List what an extra or a group installs, without this package's own extras."""
    lines = [*GROUPS.get(extra, []), *EXTRAS.get(extra, [])]
    found = [] if extra == "build" else [*map(Requirement, PROJECT["project"]["dependencies"])]
    for requirement in map(Requirement, lines):
        if requirement.name == "fastrank_eval":
            found += [line for name in requirement.extras for line in requirements(name)]
        else:
            found.append(requirement)
    return found


def pins(file: str) -> list[Requirement]:
    """Read the packages of a file."""
    text = (FOLDER / f"{file}.txt").read_text(encoding="utf-8")
    return [Requirement(line.rstrip(" \\")) for line in text.splitlines() if line[:1].isalnum()]


def on(python: str) -> dict[str, str]:
    """Describe x86-64 Linux to markers."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.7",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def chosen(found: list[Requirement], python: str) -> dict[str, Any]:
    """Map the names of packages for a Python to what is required of them."""
    return {
        canonicalize_name(requirement.name): requirement.specifier
        for requirement in found
        if requirement.marker is None or requirement.marker.evaluate(on(python))
    }


def version(specifier: Any) -> Version:
    (only,) = specifier
    assert only.operator == "=="
    return Version(only.version)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("file", HOLDS)
def test_file__pins_what_its_extras_need(file: str, python: str) -> None:
    pinned = chosen(pins(file), python)
    for extra in HOLDS[file]:
        for name, needed in chosen(requirements(extra), python).items():
            if name != "torch":  # its build depends on the machine
                assert version(pinned[name]) in needed, name


def test_every_file__is_checked() -> None:
    assert {*HOLDS, "lowest", "wheel-lowest"} == set(FILES)


@pytest.mark.parametrize("file,extras", [("lowest", LOWEST), ("wheel-lowest", [""])])
def test_lowest_versions__are_those_declared(file: str, extras: list[str]) -> None:
    pinned = chosen(pins(file), "3.11")
    for extra in extras:
        for requirement in requirements(extra):
            if requirement.marker is None or requirement.marker.evaluate(on("3.11")):
                (declared,) = requirement.specifier
                name = canonicalize_name(requirement.name)
                assert declared.operator == ">=", requirement
                assert version(pinned[name]) == Version(declared.version), requirement


def test_every_extra_of_users__is_among_the_lowest() -> None:
    assert set(EXTRAS) - set(LOWEST) >= {"conformance-full", "dev", "distributed"}
    users = set(EXTRAS) - {"conformance-full", "dev", "distributed"}
    assert users - {"fuzz", "release"} == set(LOWEST)


@pytest.mark.parametrize("python", PYTHONS)
def test_files_of_one_environment__pin_the_same_versions(python: str) -> None:
    together = ("build", "dev", "report", "spark", "test", "wheel")
    found: dict[str, set[Version]] = {}
    for file in together:
        for name, specifier in chosen(pins(file), python).items():
            found.setdefault(name, set()).add(version(specifier))
    assert {name: versions for name, versions in found.items() if len(versions) > 1} == {}


@pytest.mark.parametrize("file", FILES)
def test_file__has_hashes_and_names_no_host_and_no_folder(file: str) -> None:
    text = (FOLDER / f"{file}.txt").read_text(encoding="utf-8")
    packages = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(packages) == len(pins(file)) > 5
    assert all("--hash=sha256:" in package for package in packages)
    assert "://" not in text
    assert not re.search(r"(^|\s)(--(?!hash)|/)", text)


def test_environments__are_made_of_pins_and_nothing_else() -> None:
    """PyTorch is not pinned; the package itself has no hash."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", ".ci/run")]
    commands = "\n".join(texts).replace("\\\n", " ").splitlines()
    installs = [line for line in commands if re.search(r"PIP\w*\) .*install|PIP_PINNED\)", line)]
    own = ("--editable .", "--no-index dist/*manylinux*.whl", "packages build/smoke/*.whl")
    rest = [line for line in installs if "PIP_PINNED" not in line and not line.endswith(own)]
    assert [line.strip() for line in rest] == ["$(CONFORMANCE) $(QUIET_PIP) install $(TORCH)"]
    assert len(installs) > 5
    builds = [line for line in commands if "-m build" in line and line[0] != "#"]
    assert builds
    assert all("--no-isolation" in line for line in builds)
    check = (ROOT / "tests/release/check.py").read_text(encoding="utf-8")
    assert '"-m", "build", "--no-isolation"' in check
    assert '"--no-deps", "--require-hashes"' in check
    assert check.count('"install"') == 1


def test_classifiers__name_the_pythons_that_are_tested() -> None:
    start = "Programming Language :: Python :: 3."
    classifiers = [text for text in PROJECT["project"]["classifiers"] if text.startswith(start)]
    named = [text.removeprefix("Programming Language :: Python :: ") for text in classifiers]
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"
    assert interpreters()[: len(named)] == named
    page = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (3\.\d+) \| tested", page, re.MULTILINE)
    assert rows == named


def test_interpreters__have_all_that_numba_supports() -> None:
    start = "Programming Language :: Python :: 3."
    classifiers = metadata("numba").get_all("Classifier") or []
    minors = [int(text.removeprefix(start)) for text in classifiers if text.startswith(start)]
    assert {f"3.{minor}" for minor in minors if minor >= 11} <= set(interpreters())
    assert interpreters() == list(PYTHONS)


def interpreters() -> list[str]:
    """List the Pythons of `make versions`."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    line = re.search(r"^INTERPRETERS \?= (.*)$", makefile, re.MULTILINE)
    assert line
    return line[1].split()


def test_page__has_the_lowest_version_of_every_library_of_users() -> None:
    page = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([\w-]+) \|[^|]*\| ([\d.]+) \|", page, re.MULTILINE))
    declared = {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix(">=")
        for extra in set(LOWEST) - {"conformance", "test"}
        for requirement in requirements(extra)
    }
    assert rows == declared


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make where the Pythons on PATH are those of a folder."""
    program = shutil.which("make")
    if program is None:
        pytest.skip("needs make")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        [program, "--no-print-directory", *arguments, f"PYENV_VERSIONS={folder}"],
        cwd=ROOT,
        env={**kept, "PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_versions__says_which_are_run_and_which_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "python3.97").symlink_to(sys.executable)
    # The tests of each are another make, which this one does not start.
    done = make(tmp_path, "versions", "VERSIONS=3.97 3.98", "MAKE=:")
    assert (done.returncode, done.stderr) == (0, "")
    assert "skipped: no Python 3.98 on this machine" in done.stdout
    assert done.stdout.endswith("tests run with Python: 3.97; skipped: 3.98\n")


def test_versions__none_on_this_machine__fails(tmp_path: Path) -> None:
    done = make(tmp_path, "versions", "VERSIONS=3.98")
    assert done.returncode == 2
    assert "tests run with Python: none; skipped: 3.98\n" in done.stdout
    assert "error: no Python of '3.98' on this machine; install one" in done.stderr


def test_fuzz__no_python_with_wheels_of_atheris__says_which_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "python3.14").symlink_to(sys.executable)
    done = make(tmp_path, "--always-make", "build/fuzz-env/.made")
    assert done.returncode == 2
    assert "need Python 3.11, 3.12 or 3.13, for which Atheris has wheels" in done.stderr
