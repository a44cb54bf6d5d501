"""Run tests on mutants of the package: ``python -m tests.mutation AREA``.

Cosmic Ray makes the mutants of the files that ``AREA.toml`` names, one change each. Pytest collects
the tests of the area once, and forks for each mutant: the child takes over the changed function, or
imports the package anew if no function holds the change, and runs the tests up to the first that
fails, for at most `timeout` seconds of the processor. No file changes. Results are in
``build/mutants``; a mutant runs again only if the files or the tests of its area changed. Prints
the mutants that survive, and exits with 1 if fewer than 90 % are killed.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import re
import resource
import shlex
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from cosmic_ray.commands import init
from cosmic_ray.config import load_config
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkResult
from hypothesis import Phase, settings

HERE = Path(__file__).parent
BUILD = Path("build/mutants")
AREAS = sorted(path.stem for path in HERE.glob("*.toml"))
#: Packages that a child imports anew if a change is outside of functions.
OURS = ("fastrank_eval", "tests")
PYTEST = ("-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
#: The share of mutants that tests must kill.
WANTED = 0.9


class Mutant(importlib.machinery.SourceFileLoader):
    """Loads a module from other text than its file has."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType | None:
        """Compile the text; caches belong to the file."""
        return compile(self.text, self.path, "exec")


class Finder(importlib.abc.MetaPathFinder):
    """Finds one mutant."""

    def __init__(self, path: Path, text: str) -> None:
        self.name = ".".join(path.with_suffix("").parts)
        self.path, self.text = str(path.resolve()), text

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the mutant for its name alone."""
        if fullname != self.name:
            return None
        loader = Mutant(fullname, self.path, self.text)
        return importlib.util.spec_from_file_location(fullname, self.path, loader=loader)


def mutated(mutation: MutationSpec) -> str:
    """Return the text of a mutant."""
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    text = mutate_code(mutation.module_path.read_bytes(), operator, mutation.occurrence)
    if text is None:
        raise SystemExit(f"{mutation.module_path}: Cosmic Ray makes no {mutation.operator_name}")
    return text


def described(mutation: MutationSpec) -> str:
    """Write a mutant as its file and the first line that changes."""
    old = mutation.module_path.read_text(encoding="utf-8")
    lines = zip(old.splitlines(), mutated(mutation).splitlines(), strict=False)
    changed = next((line for before, line in lines if before != line), "")
    return f"{mutation.module_path.stem}: {changed.strip()}"


def outermost(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of functions of a module and of its classes."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 1:  # a function has its variables in slots, a class has not
                yield constant
            else:
                yield from outermost(constant)


def without_functions(code: CodeType) -> tuple[Any, ...]:
    """Return what a module or class does apart from its functions."""
    constants = tuple(
        (constant.co_qualname if constant.co_flags & 1 else without_functions(constant))
        if isinstance(constant, CodeType)
        else repr(constant)
        for constant in code.co_consts
    )
    return code.co_code, code.co_names, constants


def take_over(path: Path, text: str) -> bool:
    """Let functions of a module run the code of a mutant, if all else is equal."""
    name = str(path.resolve())
    old = compile(path.read_text(encoding="utf-8"), name, "exec")
    new = compile(text, name, "exec")
    if without_functions(old) != without_functions(new):
        return False
    codes = list(zip(outermost(old), outermost(new), strict=True))
    changed = {(a.co_qualname, a.co_firstlineno): b for a, b in codes if a != b}
    done = 0
    for found in gc.get_objects():
        if isinstance(found, FunctionType) and found.__code__.co_filename == name:
            key = found.__code__.co_qualname, found.__code__.co_firstlineno
            if key in changed:
                found.__code__ = changed[key]
                done += 1
    return done > 0


class Mutants:
    """A plugin of pytest that runs the tests on mutants instead of once."""

    def __init__(self, area: str, config: Mapping[str, Any], words: list[str], most: int) -> None:
        self.area, self.words, self.most = area, words, most
        self.seconds, self.log = int(config["timeout"]), BUILD / f"{area}.log"
        self.session_file = prepared(area, config)
        self.passes = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the pending mutants."""
        with use_db(str(self.session_file), WorkDB.Mode.open) as database:
            pending = list(database.pending_work_items)
            random.Random(1).shuffle(pending)  # noqa: S311 - the first ones are a sample
            self.passes = not pending or not self._fails(session, None)
            for item in pending[: self.most] if self.passes else ():
                killed = self._fails(session, item.mutations[0])
                result = WorkResult(
                    worker_outcome=WorkerOutcome.NORMAL,
                    test_outcome=TestOutcome.KILLED if killed else TestOutcome.SURVIVED,
                )
                database.set_result(item.job_id, result)
        return True

    def _fails(self, session: pytest.Session, mutation: MutationSpec | None) -> bool:
        """Fork, and return whether a test fails there."""
        child = os.fork()
        if child:
            return os.waitpid(child, 0)[1] != 0
        passed = False
        try:
            output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(output, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds))
            passed = self._passes(session, mutation)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0 if passed else 1)

    def _passes(self, session: pytest.Session, mutation: MutationSpec | None) -> bool:
        if mutation is not None:
            text = mutated(mutation)
            if not take_over(mutation.module_path, text):
                for name in [*sys.modules]:
                    if name.partition(".")[0] in OURS and name != __name__:
                        del sys.modules[name]
                sys.meta_path.insert(0, Finder(mutation.module_path, text))
                return pytest.main(self.words) == 0
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                return False
        return True


def prepared(area: str, config: Mapping[str, Any]) -> Path:
    """Return the session of an area, made anew if its files or tests changed."""
    words = shlex.split(config["test-command"])
    tests = [Path(word) for word in words if word.endswith(".py")]
    files = [HERE / f"{area}.toml", *map(Path, config["module-path"]), *tests]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    session = BUILD / f"{area}-{digest}.sqlite"
    if not session.exists():
        session.parent.mkdir(parents=True, exist_ok=True)
        with use_db(str(session), WorkDB.Mode.create) as database:
            init([Path(path) for path in config["module-path"]], database, {})
            filters = config["filters"]
            excluded = re.compile("|".join(filters["operators-filter"]["exclude-operators"]))
            only = re.compile(filters.get("functions", {}).get("only", ".*"))
            skipped = WorkResult(worker_outcome=WorkerOutcome.SKIPPED)
            others = [
                item.job_id
                for item in database.pending_work_items
                if excluded.match(item.mutations[0].operator_name)
                or not only.fullmatch(item.mutations[0].definition_name or "")
            ]
            database.set_multiple_results(others, skipped)
    return session


def equivalent(area: str) -> set[str]:
    """Read the mutants that no test can kill."""
    lines = (HERE / "equivalent.txt").read_text(encoding="utf-8").splitlines()
    matches = [re.fullmatch(rf"{area} \| (.+) \| .+", line) for line in lines]
    return {match[1].strip() for match in matches if match}


def run_area(area: str, most: int) -> float:
    """Run the mutants of an area; return the share of killed ones."""
    config = load_config(str(HERE / f"{area}.toml"))
    words = shlex.split(config["test-command"])
    os.environ.update(word.split("=") for word in words[1 : words.index("python")])
    words = [*words[words.index("pytest") + 1 :], *PYTEST]
    mutants = Mutants(area, config, words, most)
    pytest.main(words, plugins=[mutants])
    if not mutants.passes:
        raise SystemExit(f"{area}: tests fail without a mutant; see {mutants.log}")
    with use_db(str(mutants.session_file), WorkDB.Mode.open) as database:
        specs = {item.job_id: item.mutations[0] for item in database.work_items}
        results = [
            (specs[job], result.is_killed)
            for job, result in database.results
            if result.worker_outcome == WorkerOutcome.NORMAL
        ]
        waiting = len(list(database.pending_work_items))
    known = equivalent(area)
    survivors = [mutation for mutation, is_killed in results if not is_killed]
    for mutation in sorted(survivors, key=lambda each: (each.module_path, each.start_pos)):
        text = described(mutation)
        note = " (equivalent)" if text in known else ""
        path, (row, column) = mutation.module_path, mutation.start_pos
        sys.stdout.write(f"{path}:{row}:{column + 1}: survived{note}: {text}\n")
    killed = len(results) - len(survivors)
    share = killed / max(len(results), 1)
    rest = f"; {waiting} were not run" if waiting else ""
    sys.stdout.write(f"{area}: {killed} of {len(results)} mutants killed, {share:.1%}{rest}\n")
    sys.stdout.flush()
    return share


def main() -> None:
    """Run an area; each takes a process, as some need the JIT and others none."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("area", choices=AREAS)
    parser.add_argument("--most", type=int, default=1 << 30, help="mutants to run")
    given = parser.parse_args()
    # A failure is enough; the shortest example is not needed.
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", phases=phases, database=None)
    settings.load_profile("mutants")
    if run_area(given.area, given.most) < WANTED:
        raise SystemExit(f"fewer than {WANTED:.0%} of the mutants were killed")


if __name__ == "__main__":
    main()
