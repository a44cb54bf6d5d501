"""Run tests on mutants of the package: ``python -m tests.mutation AREA``.

Cosmic Ray makes the mutants of the files that ``AREA.toml`` names, one change each. Pytest collects
the tests of the area once, and forks for each mutant. The child takes over the changed function and
runs the tests that call it. If no function holds the change, it imports the package anew and runs
all tests. It stops at the first that fails, or after `timeout` seconds of the processor. No file
changes. Results are in ``build/mutants``; a mutant runs again only if the files or the tests of its
area changed.

Both ways of running tests must pass without a change first. A module that cannot be imported is a
killed mutant; a text that is not Python is none; an error of this runner ends the run. Prints the
mutants that survive, and exits with 1 if fewer than 90 % are killed.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import re
import resource
import shlex
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
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
#: Exit codes of a child; a signal, such as that of the time limit, is a failure.
PASSES, FAILS, BREAKS = 0, 1, 3
#: How pytest ends where modules or tests fail because of a mutant: a `conftest.py` that cannot be
#: imported is a usage error.
FAILURES = (
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.INTERRUPTED,
    pytest.ExitCode.USAGE_ERROR,
)


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
    """Return the text of a mutant; the old text if Cosmic Ray cannot change it.

    Its mutant of ``except csv.Error:`` is an AttributeError of its own.
    """
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    content = mutation.module_path.read_bytes()
    try:
        text = mutate_code(content, operator, mutation.occurrence)
    except AttributeError:
        return content.decode()
    if text is None:
        raise SystemExit(f"{mutation.module_path}: Cosmic Ray makes no {mutation.operator_name}")
    return text


def is_python(text: str) -> bool:
    """Return whether a text compiles: ``2**not 3``, of ``2**-3``, is no mutant."""
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


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


#: A function: its file, qualified name and first line.
Key = tuple[str, str, int]


def key_of(code: CodeType) -> Key:
    """Return the key of the function of a code."""
    return code.co_filename, code.co_qualname, code.co_firstlineno


def changed_functions(path: Path, text: str) -> dict[Key, CodeType]:
    """Return the code of changed functions of a module; none if anything else changed."""
    name = str(path.resolve())
    old = compile(path.read_text(encoding="utf-8"), name, "exec")
    new = compile(text, name, "exec")
    if without_functions(old) != without_functions(new):
        return {}
    codes = zip(outermost(old), outermost(new), strict=True)
    return {key_of(before): after for before, after in codes if before != after}


class Mutants:
    """A plugin of pytest that runs the tests on mutants instead of once."""

    def __init__(self, area: str, config: Mapping[str, Any], words: list[str], most: int) -> None:
        self.area, self.words, self.most = area, words, most
        self.seconds, self.log = int(config["timeout"]), BUILD / f"{area}.log"
        self.session_file = prepared(area, config)
        self.modules = [Path(path) for path in config["module-path"]]
        self.functions: dict[Key, list[FunctionType]] = {}
        self.tests: dict[Key, list[int]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the pending mutants."""
        with use_db(str(self.session_file), WorkDB.Mode.open) as database:
            pending = list(database.pending_work_items)
            random.Random(1).shuffle(pending)  # noqa: S311 - the first ones are a sample
            pending = pending[: self.most]
            if session.testsfailed or not pending:
                return True
            self._check("in their order", partial(self._write_tests, session))
            order = self._read_tests()
            self._find_functions()
            self._check("from the quickest to the slowest", partial(run_tests, session, order))
            module = self.modules[0]
            unchanged = partial(self._import_anew, module, module.read_text(encoding="utf-8"))
            self._check("after a new import", unchanged)
            for item in pending:
                (mutation,) = item.mutations
                text = mutated(mutation)
                result = WorkResult(worker_outcome=WorkerOutcome.SKIPPED)
                if is_python(text) and text != mutation.module_path.read_text(encoding="utf-8"):
                    killed = self._fails(partial(self._run, session, mutation.module_path, text))
                    result = WorkResult(
                        worker_outcome=WorkerOutcome.NORMAL,
                        test_outcome=TestOutcome.KILLED if killed else TestOutcome.SURVIVED,
                    )
                database.set_result(item.job_id, result)
        return True

    def _find_functions(self) -> None:
        """Find the functions of the modules."""
        names = {str(path.resolve()) for path in self.modules}
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and found.__code__.co_filename in names:
                self.functions.setdefault(key_of(found.__code__), []).append(found)
        gc.collect()
        gc.freeze()  # a child copies the pages of objects that the collector visits

    def _check(self, how: str, work: Callable[[], int]) -> None:
        if self._fails(work):
            pytest.exit(f"tests fail without a mutant, {how}; see {self.log}", BREAKS)

    def _fails(self, work: Callable[[], int]) -> bool:
        """Fork, work there, and return whether a test fails."""
        child = os.fork()
        if child:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if code == BREAKS:
                pytest.exit(f"the runner failed; see {self.log}", BREAKS)
            return code != PASSES
        code = BREAKS
        try:
            output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(output, stream)
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _write_tests(self, session: pytest.Session) -> int:
        """Run all tests, and write the functions that each calls."""
        names = {str(path.resolve()) for path in self.modules}
        rows = []
        for item in range(len(session.items)):
            called: set[Key] = set()

            def note(frame: FrameType, *_: Any, called: set[Key] = called) -> None:
                if frame.f_code.co_filename in names:
                    called.add(key_of(frame.f_code))

            threading.setprofile(note)
            sys.setprofile(note)
            start = time.process_time()
            failed = run_tests(session, [item]) == FAILS
            sys.setprofile(None)
            if failed:
                return FAILS
            rows.append((time.process_time() - start, item, sorted(called)))
        found = {"tests": sorted(rows), "modules": [*sys.modules]}
        self.log.with_suffix(".json").write_text(json.dumps(found), encoding="utf-8")
        return PASSES

    def _read_tests(self) -> list[int]:
        """Read the tests that call each function, and return all, the quickest first.

        Import what the tests import, so that children need not.
        """
        found = json.loads(self.log.with_suffix(".json").read_text("utf-8"))
        for name in found["modules"]:
            with suppress(Exception):
                importlib.import_module(name)
        for _, item, called in found["tests"]:
            for file, name, line in called:
                self.tests.setdefault((file, name, line), []).append(item)
        return [item for _, item, _ in found["tests"]]

    def _run(self, session: pytest.Session, path: Path, text: str) -> int:
        """Run the tests with the text of a module, in limited time."""
        resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds))
        changed = changed_functions(path, text)
        if any(key in self.functions for key in changed):
            for key, code in changed.items():
                for function in self.functions.get(key, ()):
                    function.__code__ = code
            return run_tests(session, [i for key in changed for i in self.tests.get(key, ())])
        return self._import_anew(path, text)

    def _import_anew(self, path: Path, text: str) -> int:
        """Import the package and the tests with the text of a module, and run all tests."""
        for name in [*sys.modules]:
            if name.partition(".")[0] in OURS and name != __name__:
                del sys.modules[name]
        finder = Finder(path, text)
        sys.meta_path.insert(0, finder)
        try:
            importlib.import_module(finder.name)
        except Exception:
            traceback.print_exc()
            return FAILS
        if not isinstance(sys.modules[finder.name].__loader__, Mutant):
            raise RuntimeError(f"{finder.name}: not imported from the text of the mutant")
        code = pytest.main(self.words)
        return PASSES if code == pytest.ExitCode.OK else FAILS if code in FAILURES else BREAKS


def run_tests(session: pytest.Session, indices: Sequence[int]) -> int:
    """Run some tests up to the first that fails."""
    items = [session.items[i] for i in indices]
    for item, following in zip_longest(items, items[1:]):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return FAILS
    return PASSES


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
    code = pytest.main(words, plugins=[mutants])
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"{area}: pytest ended with {int(code)} before the mutants did")
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
    alike = 0
    for mutation in sorted(survivors, key=lambda each: (each.module_path, each.start_pos)):
        text = described(mutation)
        alike += text in known
        note = " (equivalent)" if text in known else ""
        path, (row, column) = mutation.module_path, mutation.start_pos
        sys.stdout.write(f"{path}:{row}:{column + 1}: survived{note}: {text}\n")
    killed = len(results) - len(survivors)
    share = killed / max(len(results), 1)
    rest = f"; {waiting} were not run" if waiting else ""
    sys.stdout.write(
        f"{area}: {killed} of {len(results)} mutants killed, {share:.1%}; {alike} are equivalent, "
        f"{len(survivors) - alike} survive for another reason{rest}\n"
    )
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
