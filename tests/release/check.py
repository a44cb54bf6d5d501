"""Build the files of a release, and check them: ``make release-check``.

``python -m tests.release.check [--against REF]`` checks the last commit. It builds all files twice,
in two folders outside of the checkout, with the packages of this environment, which
``requirements/`` pins. Each wheel runs in a clean environment, beside the packages of
``requirements/report.txt``. Files that pass are in ``dist``, with a bill of materials (SBOM) and
their SHA-256.

Every check runs. The exit code is 1 if one fails, and its line says what. It is 2 if REF is no
commit.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tests.release.public_api import breaking_changes, read_package

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
PACKAGE = "fastrank_eval"
PLATFORM = "manylinux"
#: The most bytes of each file.
LIMITS = {"sdist": 4_000_000, "pure wheel": 1_500_000, "platform wheel": 4_000_000}
#: Licence, notice and works of others, in every file.
LICENCES = ("LICENSE", "NOTICE", "THIRD_PARTY.md")
#: Files that a wheel needs, besides modules.
NEEDED = ("py.typed", "apps/nightly/example.toml", "apps/nightly/history.sql")
#: Requirements that the bill of materials must list.
COMPONENTS = {"click", "fastrank_eval", "jinja2", "llvmlite", "numba", "numpy", "pyarrow", "rich"}
#: Commands of a clean environment, with the exit code. The night is one on which a model breaks.
COMMANDS = (
    ("evaluate impressions.parquet -g user_id -l click -s score_a,score_b -f json -o r.json -q", 0),
    ("compare impressions.parquet -g user_id -l click -s score_b --baseline score_a -q", 0),
    ("nightly month/nightly.toml --date 2026-11-12 --json night.json -q", 3),
    ("trec qrels.txt bm25.run ours.run -c", 0),
)


class CheckError(Exception):
    """A check that failed."""


class Skipped(Exception):
    """A check that has nothing to check."""


def require(condition: object, problem: str) -> None:
    """Fail with a problem unless the condition is true."""
    if not condition:
        raise CheckError(problem)


def run(
    *command: str | Path, folder: Path, code: int = 0, settings: dict[str, str] | None = None
) -> str:
    """Run a command without settings of this checkout; return what it prints."""
    hidden = ("PYTHON", "FASTRANK_", "NUMBA_", "VIRTUAL_ENV", "HATCH_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**environment, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(settings or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != code:
        text = " ".join(map(str, command))
        raise CheckError(f"{text}: exit code {done.returncode}, not {code}:\n{done.stdout[-3000:]}")
    return done.stdout


def git(*arguments: str) -> str:
    """Run git in the checkout."""
    return run("git", *arguments, folder=ROOT).strip()


def git_or_none(*arguments: str) -> str | None:
    """Run git in the checkout; return nothing if it fails."""
    try:
        return git(*arguments)
    except CheckError:
        return None


@dataclass
class Release:
    """The files of a release, in a folder outside of the checkout."""

    folder: Path
    against: str | None
    epoch: str = field(default_factory=lambda: git("log", "-1", "--format=%ct"))
    files: dict[str, Path] = field(default_factory=dict)
    pythons: dict[str, Path] = field(default_factory=dict)

    def sources(self, name: str, reference: str = "HEAD") -> Path:
        """Write the files of a commit to a folder."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        content = subprocess.run(
            ["git", "archive", reference], cwd=ROOT, stdout=subprocess.PIPE, check=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(folder, filter="data")
        return folder

    def build_all(self, sources: Path, output: Path) -> dict[str, Path]:
        """Build the source distribution, and both wheels from it."""
        settings = {"SOURCE_DATE_EPOCH": self.epoch}
        build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", output)
        run(*build, "--sdist", sources, folder=self.folder, settings=settings)
        (sdist,) = output.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(output / "unpacked", filter="data")
        (unpacked,) = (output / "unpacked").iterdir()
        run(*build, "--wheel", unpacked, folder=self.folder, settings=settings)
        settings["HATCH_BUILD_HOOK_ENABLE_CUSTOM"] = "true"
        run(*build, "--wheel", unpacked, folder=self.folder, settings=settings)
        wheels = {PLATFORM in path.name: path for path in output.glob("*.whl")}
        require(wheels.keys() == {False, True}, f"built {[w.name for w in wheels.values()]}")
        return {"sdist": sdist, "pure wheel": wheels[False], "platform wheel": wheels[True]}


def check_build(release: Release) -> str:
    """Build twice: in another folder, with other times and permissions of the files.

    What can be executed, as `.ci/run`, stays so: archives keep that.
    """
    first = release.sources("one")
    release.files = release.build_all(first, release.folder / "built")
    second = release.sources("another/folder of sources")
    for path in [second, *second.rglob("*")]:
        path.chmod(0o700 if os.access(path, os.X_OK) else 0o664)
        os.utime(path, (1_234_567_890, 1_234_567_890))
    again = release.build_all(second, release.folder / "built again")
    digests = {name: digest(path) for name, path in release.files.items()}
    differ = [name for name, path in again.items() if digest(path) != digests[name]]
    require(not differ, f"other bytes when built again: {differences(release, again, differ)}")
    return "the same bytes twice\n" + "\n".join(
        f"  {digests[name]}  {path.name}" for name, path in release.files.items()
    )


def differences(release: Release, again: dict[str, Path], names: list[str]) -> str:
    """Name the members of archives whose content differs."""
    found = []
    for name in names:
        old, new = members(release.files[name]), members(again[name])
        differ = [one for one in old.keys() | new.keys() if old.get(one) != new.get(one)]
        found.append(f"{name}: {', '.join(sorted(differ)[:10]) or 'the archive itself'}")
    return "; ".join(found)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def members(path: Path) -> dict[str, str]:
    """SHA-256 of each file of a wheel or source distribution."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            contents = {name: wheel.read(name) for name in wheel.namelist()}
    else:
        with tarfile.open(path) as archive:
            files = {one.name.partition("/")[2]: one for one in archive if one.isfile()}
            contents = {name: archive.extractfile(one).read() for name, one in files.items()}  # type: ignore[union-attr]
    return {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}


def check_sizes(release: Release) -> str:
    """Compare sizes with their limits."""
    sizes = {name: path.stat().st_size for name, path in release.files.items()}
    large = [f"{name}: {size:,}" for name, size in sizes.items() if size > LIMITS[name]]
    require(not large, f"more bytes than the limits {LIMITS}: {', '.join(large)}")
    return ", ".join(f"{name} {size:,} bytes" for name, size in sizes.items())


def check_metadata(release: Release) -> str:
    """Let twine check what an index would show."""
    run(sys.executable, "-m", "twine", "check", "--strict", *release.files.values(), folder=ROOT)
    lacks = missing_addresses(release.folder / "one")
    warnings = [f"\n  warning: {one}; fill it in before publication" for one in lacks]
    return "twine check passed" + "".join(warnings)


def missing_addresses(sources: Path) -> list[str]:
    """Name what lacks the public address of the project."""
    project = tomllib.loads((sources / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = (sources / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    found = {
        "pyproject.toml has no [project.urls]": bool(project.get("urls")),
        "CITATION.cff has no repository-code": any(
            line.startswith("repository-code: ") for line in citation
        ),
    }
    return [problem for problem, there in found.items() if not there]


def tracked_names() -> list[str]:
    """The files of the commit."""
    return git("ls-tree", "-r", "--name-only", "HEAD").split("\n")


def check_contents(release: Release) -> str:
    """Compare what is in the files with the tracked files."""
    tracked = {name: digest(release.folder / "one" / name) for name in tracked_names()}
    ours = {name: value for name, value in tracked.items() if name.startswith(f"{PACKAGE}/")}
    schemas = {name for name in ours if name.startswith(f"{PACKAGE}/schemas/")}
    require(schemas, "no schema is tracked")
    for kind in ("pure wheel", "platform wheel"):
        found = members(release.files[kind])
        tops = {PurePosixPath(name).parts[0] for name in found}
        info = next(top for top in tops if top.endswith(".dist-info"))
        require(tops == {PACKAGE, info}, f"{kind}: has {sorted(tops)} at its top")
        licences = {f"{info}/licenses/{name}" for name in LICENCES}
        lacks = (licences | {f"{PACKAGE}/{name}" for name in NEEDED} | ours.keys()) - found.keys()
        require(not lacks, f"{kind}: lacks {sorted(lacks)}")
        wrong = [name for name, value in ours.items() if found[name] != value]
        require(not wrong, f"{kind}: {wrong} are not the tracked files")
        rest = {name for name in found if not name.startswith(f"{info}/")} - ours.keys()
        objects = {name for name in rest if name.startswith(f"{PACKAGE}/_lib/objects/")}
        require(rest == objects, f"{kind}: has {sorted(rest - objects)[:10]} too")
        require(bool(objects) == (kind == "platform wheel"), f"{kind}: {len(objects)} kernels")
    found = members(release.files["sdist"])
    lacks = {*LICENCES, ".ci/run", "README.md", "hatch_build.py", *ours} - found.keys()
    require(not lacks, f"sdist: lacks {sorted(lacks)}")
    wrong = [name for name, value in found.items() if tracked.get(name, value) != value]
    rest = found.keys() - tracked.keys() - {"PKG-INFO"}
    require(not wrong and not rest, f"sdist: {wrong} differ, {sorted(rest)[:10]} are not tracked")
    return f"{len(ours)} files of the package and {len(schemas)} schemas in each wheel"


def check_clean_environments(release: Release) -> str:
    """Install each wheel into an environment of its own, and run the demo data through it."""
    values = {}
    for kind in ("pure wheel", "platform wheel"):
        folder = release.folder / f"environment of the {kind}"
        run(sys.executable, "-m", "venv", folder / "env", folder=release.folder)
        programs = folder / "env" / "bin"
        pins = release.folder / "one" / "requirements" / "report.txt"
        install(programs / "python", release.files[kind], pins, folder)
        release.pythons[kind] = programs / "python"
        where = "import fastrank_eval; print(fastrank_eval.__file__)"
        found = run(programs / "python", "-c", where, folder=folder).strip()
        require(found.startswith(str(folder)), f"{kind}: imports {found}")
        settings = {"FASTRANK_CACHE_DIR": str(folder / "kernels")}
        command, data = programs / "fastrank-eval", folder / "demo"
        run(command, "demo", data, "--rows", "20000", folder=folder, settings=settings)
        for text, code in COMMANDS:
            run(command, *text.split(), folder=data, code=code, settings=settings)
            if text.startswith("evaluate") and kind == "platform wheel":
                require(not (folder / "kernels").exists(), f"{kind}: a first run compiles kernels")
        require((data / "month/report/2026-11-12.html").is_file(), f"{kind}: no page of the night")
        values[kind] = json.loads((data / "r.json").read_text(encoding="utf-8"))["results"]
    require(values["pure wheel"] == values["platform wheel"], "the wheels give other numbers")
    return f"{len(COMMANDS) + 1} commands with each wheel, the same numbers"


def install(python: Path, wheel: Path, pins: Path, folder: Path) -> None:
    """Install pinned packages, then a wheel by its name; compare what is installed with it."""
    alone = folder / "wheel"
    alone.mkdir()
    shutil.copy(wheel, alone)
    version = wheel.name.split("-")[1]
    pip = (python, "-m", "pip", "install", "--quiet")
    checked = ("--no-deps", "--require-hashes", "--only-binary", ":all:")
    run(*pip, *checked, "--requirement", pins, folder=folder)
    # Without an index, this fails if the pins lack a requirement of the wheel.
    wanted = ("--no-index", "--find-links", alone, f"{PACKAGE}[report]=={version}")
    run(*pip, *wanted, folder=folder)
    run(python, "-m", "pip", "check", folder=folder)
    paths = "import sysconfig; print(sysconfig.get_path('purelib'))"
    installed = Path(run(python, "-c", paths, folder=folder).strip())
    content = {name: value for name, value in members(wheel).items() if "RECORD" not in name}
    differ = [name for name, value in content.items() if digest(installed / name) != value]
    require(not differ, f"{wheel.name}: {differ[:10]} differ in the environment")


def check_public_api(release: Release) -> str:
    """Compare the public names with those of the last earlier tag, or of `--against`."""
    # A release may have its tag already: the tag before it is wanted.
    earlier = ("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
    against = release.against or git_or_none(*earlier)
    if against is None:
        raise Skipped("no earlier tag (AGAINST=REF compares with a commit)")
    old = release.sources("against", against)
    require((old / PACKAGE / "__init__.py").is_file(), f"{against} has no package {PACKAGE}")
    changes = list(breaking_changes(read_package(old), read_package(release.folder / "one")))
    require(not changes, f"breaks what {against} promises:\n  " + "\n  ".join(changes))
    return f"nothing of {against} breaks"


def check_bill_of_materials(release: Release) -> str:
    """Write what the clean environment has as CycloneDX."""
    python = release.pythons.get("pure wheel")
    require(python, "no clean environment")
    sbom = release.folder / f"{PACKAGE}.cdx.json"
    run(
        *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"),
        *("--pyproject", release.folder / "one" / "pyproject.toml", "--output-format", "JSON"),
        *("--output-file", sbom, str(python)),
        folder=release.folder,
    )
    content = json.loads(sbom.read_text(encoding="utf-8"))
    names = {one["name"].lower().replace("-", "_") for one in content["components"]}
    names.add(content["metadata"]["component"]["name"])
    require(content["bomFormat"] == "CycloneDX", "is not CycloneDX")
    require(names >= COMPONENTS, f"lacks {sorted(COMPONENTS - names)}")
    require(str(release.folder) not in sbom.read_text(encoding="utf-8"), "names a local folder")
    version = release.files["sdist"].name.removesuffix(".tar.gz")
    content["metadata"]["component"]["version"] = version.rpartition("-")[2]
    sbom.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    release.files["bill of materials"] = sbom.rename(sbom.with_name(f"{version}.cdx.json"))
    return f"{len(content['components'])} components"


CHECKS: dict[str, Callable[[Release], str]] = {
    "build": check_build,
    "sizes": check_sizes,
    "metadata": check_metadata,
    "contents": check_contents,
    "clean environments": check_clean_environments,
    "public API": check_public_api,
    "bill of materials": check_bill_of_materials,
}


def publish(release: Release) -> None:
    """Copy the files to `dist`, with their SHA-256."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    for path in release.files.values():
        shutil.copy(path, DIST)
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run all checks; return the exit code."""
    parser = argparse.ArgumentParser(description="Build and check the files of a release.")
    parser.add_argument("--against", help="commit or tag whose public names must not break")
    against = parser.parse_args(arguments).against
    if against and git_or_none("rev-parse", "--verify", "--quiet", f"{against}^{{commit}}") is None:
        remedy = "`git tag` and `git log` list them"
        parser.error(f"--against: must be a commit or tag, got {against!r}; {remedy}")
    if git("status", "--porcelain"):
        print("changes that are not committed are not checked")  # noqa: T201
    failed, skipped = [], []
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        release = Release(Path(folder).resolve(), against or None)
        for name, check in CHECKS.items():
            start = time.monotonic()
            try:
                line = f"passed  {name}: {check(release)}"
            except Skipped as reason:
                skipped.append(name)
                line = f"skipped {name}: {reason}"
            except CheckError as error:
                failed.append(name)
                line = f"FAILED  {name}: {error}"
            print(f"{line} ({time.monotonic() - start:.0f} s)", flush=True)  # noqa: T201
            if failed and not release.files:
                break
        if not failed:
            publish(release)
    passed = f"all others passed; skipped: {', '.join(skipped)}" if skipped else "all passed"
    last = f"failed: {', '.join(failed)}" if failed else f"{passed}; the files are in {DIST}"
    print(last)  # noqa: T201
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
