"""Kernels are compiled anew if and only if what they depend on has changed."""

import os
import py_compile
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastrank_eval._lib import kernel_store
from fastrank_eval._lib.jit import Content, compilations
from tests.support.kernel_modules import (
    IMPORTS,
    SUM,
    import_files,
    import_from,
    run_program,
    use_store,
)

pytestmark = [pytest.mark.compiled, pytest.mark.lasts("starts processes that compile")]

VALUES = np.arange(5.0)
PLAIN_IMPORTS = """import numpy as np
def kernel(loop): return loop
"""

FILES = {
    "constants": "K = 7\nclass Other: pass\n",
    "other": f"{IMPORTS}DEEP = 11\n@kernel\ndef helper(x):\n    return x + DEEP\n",
    "main": f"""{IMPORTS}
import constants
from other import helper

FACTOR = 3
WEIGHT = 0.5
PAIR = (1, 2)
TABLE = np.array([1.0, 2.0])
INNER = 10
MASK = np.uint64(5)

@kernel
def callee(x, added=2):
    return x * INNER + added

@kernel
def unrelated(x):
    return x + 1

@kernel
def total(values):
    result = 0.0
    for v in values:
        result += callee(v) * FACTOR + helper(v) + WEIGHT
        result += PAIR[0] * TABLE[1] + constants.K + MASK
    def inner(x):
        return x * PAIR[1]

    return (
        result + inner(2) + 2.0 *

        1.5
    )
""",
}

CHANGES = {
    "source": ("main", "result = 0.0", "result = 1.0"),
    "last_statement": ("main", "        1.5\n", "        2.5\n"),
    "callee": ("main", "x * INNER", "x * INNER + 1"),
    "default_of_callee": ("main", "added=2", "added=3"),
    "callee_elsewhere": ("other", "x + DEEP", "x - DEEP"),
    "int": ("main", "FACTOR = 3", "FACTOR = 4"),
    "type_of_constant": ("main", "FACTOR = 3", "FACTOR = 3.25"),
    "float": ("main", "WEIGHT = 0.5", "WEIGHT = -0.5"),
    "tuple": ("main", "PAIR = (1, 2)", "PAIR = (2, 2)"),
    "in_an_inner_function": ("main", "PAIR = (1, 2)", "PAIR = (1, 3)"),
    "array": ("main", "[1.0, 2.0]", "[1.0, 3.0]"),
    "numpy_scalar": ("main", "uint64(5)", "uint64(6)"),
    "constant_of_callee": ("main", "INNER = 10", "INNER = 12"),
    "constant_of_callee_elsewhere": ("other", "DEEP = 11", "DEEP = 12"),
    "through_a_module": ("constants", "K = 7", "K = 8"),
}


@pytest.fixture(scope="module")
def warm_store() -> Iterator[Path]:
    """A folder for all tests of this file."""
    above = kernel_store.user_folder()
    assert above is not None
    folder = above.parent / f"key-{os.getpid()}"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def store(warm_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    use_store(warm_store, monkeypatch)
    yield warm_store
    kernel_store.user_store.cache_clear()


def run_files(files: dict[str, str], folder: Path) -> int:
    """Return how many kernels were compiled; the number must be that of plain Python."""
    before = compilations.count
    number = import_files(files, folder).total(VALUES)
    compiled = compilations.count - before
    plain = {name: text.replace(IMPORTS, PLAIN_IMPORTS) for name, text in files.items()}
    assert number == import_files(plain, folder).total(VALUES)
    return compiled


@pytest.mark.parametrize("change", CHANGES)
def test_change__compiles_anew_and_the_number_is_right(
    change: str, store: Path, tmp_path: Path
) -> None:
    run_files(FILES, tmp_path)
    file, old, new = CHANGES[change]
    assert FILES[file].count(old) == 1
    changed = {**FILES, file: FILES[file].replace(old, new)}
    assert run_files(changed, tmp_path) == 1
    assert run_files(changed, tmp_path) == 0


def test_code_that_does_not_matter__stays_warm(store: Path, tmp_path: Path) -> None:
    run_files(FILES, tmp_path)
    main = FILES["main"]
    for other in (
        main.replace("x + 1", "x + 2"),
        main.replace("FACTOR = 3", "\n\n# a comment\nFACTOR = 3\nUNUSED = 4"),
        main.replace("    result = 0.0", "    # a comment\n    result = 0.0"),
    ):
        assert other != main
        assert run_files({**FILES, "main": other}, tmp_path) == 0
    module = import_files(FILES, tmp_path)
    os.utime(Path(str(module.__file__)), (1, 1))
    before = compilations.count
    module.total(VALUES)
    assert compilations.count == before


def test_warm_process__does_not_import_numba(store: Path, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SUM)
    program = f"""import sys; sys.path.insert(0, {str(tmp_path)!r})
import numpy as np
from main import total
from fastrank_eval._lib.jit import compilations
print(total(np.arange(5.0)), compilations.count, "numba" in sys.modules)"""
    first, second, checked, checked_again = (
        run_program(program, store, NUMBA_BOUNDSCHECK=on) for on in ("0", "0", "1", "1")
    )
    assert first.stdout == "10.0 1 True\n", first.stderr
    assert second.stdout == "10.0 0 False\n", second.stderr
    assert checked.stdout == "10.0 1 True\n", "settings of Numba are part of the key"
    assert checked_again.stdout == "10.0 0 False\n"
    assert first.stderr + second.stderr + checked.stderr == ""


def test_argument_types__have_kernels_of_their_own(store: Path, tmp_path: Path) -> None:
    frozen = VALUES.copy()
    frozen.flags.writeable = False
    kinds = (VALUES, frozen, VALUES[::2], VALUES.astype(np.float32), VALUES.astype(np.int64))
    for repeated in (False, True):
        module = import_files({"main": SUM}, tmp_path)
        before = compilations.count
        assert [module.total(kind) for kind in kinds] == [sum(kind.tolist()) for kind in kinds]
        if repeated:
            assert compilations.count == before


def test_values_of_a_closure__are_part_of_the_key(store: Path, tmp_path: Path) -> None:
    text = f"""{IMPORTS}
def make(factor):
    @kernel
    def times(x):
        return x * factor
    return times
"""
    module = import_files({"main": text}, tmp_path)
    assert [module.make(factor)(5) for factor in (2, 3, 2.5)] == [10, 15, 12.5]
    before = compilations.count
    assert module.make(3)(5) == 15
    assert compilations.count == before


def test_callees__are_known_by_their_names(store: Path, tmp_path: Path) -> None:
    text = f"""{IMPORTS}
@kernel
def one(x):
    return x + 1

@kernel
def two(x):
    return one(x) * 2

first, second = ORDER

@kernel
def both(x):
    return first(x) * 100 + second(x)
"""
    for order, number in (("two, one", 804), ("two, two", 808), ("one, two", 408)):
        module = import_files({"main": text.replace("ORDER", order)}, tmp_path)
        assert module.both(3) == number


def test_constant_that_changes_in_a_process__is_stored_with_its_new_value(
    store: Path, tmp_path: Path
) -> None:
    text = (
        f"{IMPORTS}FACTOR = 2\n@kernel\ndef callee(x):\n    return x * FACTOR\n"
        "@kernel\ndef one(x):\n    return callee(x)\n"
        "@kernel\ndef two(x):\n    return callee(x) + 1\n"
    )
    module = import_files({"main": text}, tmp_path)
    assert module.one(3) == 6
    module.FACTOR = 5
    assert module.two(3) == 16
    fresh = import_files({"main": text.replace("FACTOR = 2", "FACTOR = 5")}, tmp_path)
    before = compilations.count
    assert fresh.two(3) == 16
    assert compilations.count == before


def test_bounds_checks_turned_on_in_python__have_kernels_of_their_own(store: Path) -> None:
    program = (
        "import sys; from numba import config; config.BOUNDSCHECK = int(sys.argv[1])\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.support.kernel_modules import IMPORTS, import_files\n"
        "import numpy as np, pathlib, tempfile\n"
        "text = IMPORTS + '@kernel\\ndef item(a, i, out):\\n    out[0] = a[i]\\n'\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    item = import_files({'main': text}, pathlib.Path(folder)).item\n"
        "    try:\n"
        "        item(np.arange(9.0)[:3], 5, np.empty(1)); print('no error')\n"
        "    except IndexError as error:\n"
        "        print('IndexError')\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_BOUNDSCHECK"}
    shown = [
        subprocess.run(
            [sys.executable, "-c", program, checked],
            env={**environment, "FASTRANK_CACHE_DIR": str(store)},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout.strip()
        for checked in ("1", "0")
    ]
    assert shown == ["IndexError", "no error"]


def test_values_of_unknown_meaning__are_never_stored(store: Path, tmp_path: Path) -> None:
    text = f"""{IMPORTS}
import numba
@numba.njit
def inner(x):
    return x + OFFSET

OFFSET = 1

@kernel
def total(values):
    return inner(values[1])
"""
    for offset in (1, 2):
        changed = {"main": text.replace("OFFSET = 1", f"OFFSET = {offset}")}
        assert run_files(changed, tmp_path) == 1


def test_source_that_changes_after_the_import__is_not_the_key(store: Path, tmp_path: Path) -> None:
    changed = SUM.replace("result = 0.0", "result = 1.0")
    module = import_files({"main": SUM}, tmp_path)
    Path(str(module.__file__)).write_text(changed)
    content = Content(module.total, ("type",))
    assert content.sources is None, "shipped code is looked up by sources"
    assert module.total(VALUES) == VALUES.sum()
    assert import_files({"main": changed}, tmp_path).total(VALUES) == VALUES.sum() + 1
    assert import_files({"main": SUM}, tmp_path).total(VALUES) == VALUES.sum()


def test_archives_bytecode_and_texts__have_right_numbers(store: Path, tmp_path: Path) -> None:
    for start in ("0.0", "3.0"):
        text = SUM.replace("result = 0.0", f"result = {start}")
        wanted = VALUES.sum() + float(start)
        folder = tmp_path / start
        folder.mkdir()
        with zipfile.ZipFile(folder / "code.zip", "w") as archive:
            archive.writestr("main.py", text)
        module = import_from(folder / "code.zip", {"main": text})
        assert module.total(VALUES) == wanted
        assert (Content(module.total, ()).sources or "").count(f"result = {start}") == 1
        (folder / "main.py").write_text(text)
        py_compile.compile(str(folder / "main.py"), str(folder / "main.pyc"), "main.py")
        (folder / "main.py").unlink()
        module = import_from(folder, {"main": text})
        assert str(module.__file__).endswith(".pyc")
        assert module.total(VALUES) == wanted
        assert Content(module.total, ()).sources is None
        # The module around this text has another source on the same lines.
        space = dict(vars(import_files({"main": SUM}, tmp_path)))
        for name in ("<text>", "generated", str(space["__file__"])):
            exec(compile(text, name, "exec"), space)  # noqa: S102
            assert space["total"](VALUES) == wanted


def test_source_in_the_key__holds_the_whole_function(store: Path, tmp_path: Path) -> None:
    text = FILES["main"].replace("@kernel\ndef total", "# comment\n@kernel\n# more\ndef total")
    module = import_files({**FILES, "main": text}, tmp_path)
    sources = Content(module.total, ()).sources
    assert sources is not None
    source = next(part for part in sources.split("\0") if "def total" in part)
    assert source == text[text.index("@kernel\n# more") :].rstrip()


ALL_KERNELS = """
import hashlib, importlib
from pathlib import Path
import fastrank_eval
from fastrank_eval._lib.jit import Content, Kernel
root = Path(fastrank_eval.__file__).parent
for file in sorted(root.rglob("*.py")):
    if {"@kernel", "@inlined"} & set(file.read_text("utf-8").split()):
        module = ".".join(file.relative_to(root.parent).with_suffix("").parts)
        for name, value in sorted(vars(importlib.import_module(module)).items()):
            if isinstance(value, Kernel):
                content = Content(value, ("int",))
                print(module, name, *(
                    hashlib.sha256(text.encode()).hexdigest() if text else None
                    for text in (content.bytecode, content.sources)
                ))
for name, measure in fastrank_eval.measures.registry.items():
    if not measure.pooled and (function := measure().group_function) is not None:
        content = Content(function.loop)
        print(name, content.bytecode and "loop", content.sources and "loop")
"""


def test_all_kernels__have_the_same_keys_in_every_process(store: Path) -> None:
    first, second = (run_program(ALL_KERNELS, store, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first.stdout == second.stdout
    lines = first.stdout.splitlines()
    assert len(lines) > 100, first.stderr
    assert "None" not in first.stdout, "every kernel of the package can be stored"


def test_without_jit__kernels_are_plain_functions(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SUM)
    (tmp_path / "steps.py").write_text("from main import total\ntotal([1.0])\n")
    program = f"""import sys, types; sys.path.insert(0, {str(tmp_path)!r})
from main import total
print(isinstance(total, types.FunctionType), total([1.0, 2.0]), "numba" in sys.modules)"""
    done = run_program(program, tmp_path, NUMBA_DISABLE_JIT="1")
    assert done.stdout == "True 3.0 False\n", done.stderr
    debugged = subprocess.run(
        [sys.executable, "-m", "pdb", "steps.py"],
        input="next\nstep\nnext\nprint('value', values)\nquit\n",
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "value [1.0]" in debugged.stdout, debugged.stdout


def test_jit_turned_off_after_the_import__runs_in_python(store: Path, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SUM.replace("0.0", "0.125"))
    program = f"""import os, sys; sys.path.insert(0, {str(tmp_path)!r})
from main import total
import numpy as np
os.environ["NUMBA_DISABLE_JIT"] = "1"
print(total(np.arange(3.0)), total(np.arange(3)))"""
    done = run_program(program, store)
    assert done.stdout == "3.125 3.125\n", done.stderr


def test_content__is_none_without_a_known_value(tmp_path: Path) -> None:
    text = f"{IMPORTS}\nTHING = object()\n\n@kernel\ndef total(x):\n    return THING\n"
    content: Any = Content(import_files({"main": text}, tmp_path).total, ())
    assert content.sources is None
    assert content.bytecode is None
