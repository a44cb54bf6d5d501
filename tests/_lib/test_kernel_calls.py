"""Calls of kernels: arguments and results of all types, errors, references and threads."""

import gc
import os
import pickle
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numba.core.errors import NumbaTypeError

from fastrank_eval._lib import jit, kernel_store
from fastrank_eval._lib.jit import compilations
from tests.support.kernel_modules import IMPORTS, SUM, import_files, run_program, use_store

pytestmark = [pytest.mark.compiled, pytest.mark.lasts("starts processes that compile")]

KERNELS = f"""{IMPORTS}
@kernel
def plus(values, more):
    result = more
    for value in values.flat:
        result += value
    return result

@kernel
def fill(out):
    for k in range(out.size):
        out[k] = k

@kernel
def twice(x):
    return x + x

@kernel
def choose(flag, x):
    if flag:
        return x
    return -x

@kernel
def is_none(x):
    return x is None

@kernel
def above(x):
    return x > 1

@kernel
def both(x):
    return x, x > 1, np.uint64(7), 0.5

@kernel
def unsigned(x):
    return np.uint64(x)

@kernel
def with_default(x, y=3):
    return x * y

@kernel
def scramble(x, steps):
    for _ in range(steps):
        x = (x ^ (x >> np.uint64(7))) * np.uint64(3)
    return x

@kernel
def item(values, k):
    return values[k]

@kernel
def first(x):
    return x

@kernel
def second(x):
    return first(x) + 1
"""


@pytest.fixture(scope="module")
def store() -> Iterator[Path]:
    """The store of this test run, so that later runs compile little."""
    with pytest.MonkeyPatch.context() as patch:
        folder = kernel_store.user_folder()
        assert folder is not None
        use_store(folder, patch)
        yield folder
    kernel_store.user_store.cache_clear()


@pytest.fixture(scope="module")
def kernels(store: Path, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return import_files({"main": KERNELS}, tmp_path_factory.mktemp("kernels"))


def arrays() -> dict[str, np.ndarray]:
    base = np.arange(12.0)
    frozen = base.copy()
    frozen.flags.writeable = False
    unaligned = np.frombuffer(b"0" + base.tobytes(), dtype=np.uint8)[1:].view(np.float64)
    assert not unaligned.flags.aligned
    return {
        "contiguous": base,
        "read_only": frozen,
        "strided": base[::3],
        "reversed": base[::-1],
        "broadcast": np.broadcast_to(base[3], 4),
        "rows": base.reshape(3, 4),
        "columns": np.asfortranarray(base.reshape(3, 4)),
        "empty": base[:0],
        "empty_strided": base[:0:2],
        "no_dimension": np.array(3.0),
        "one": base[3:4],
        "int64": base.astype(np.int64),
        "int8": base.astype(np.int8),
        "uint64": base.astype(np.uint64),
        "float32": base.astype(np.float32),
        "bool": base > 3,
        "longlong": base.astype("q"),
        "unpickled": pickle.loads(pickle.dumps(base)),  # noqa: S301
        "dtype_of_its_own": base.view(pickle.loads(pickle.dumps(base.dtype))),  # noqa: S301
        "unaligned": unaligned,
    }


@pytest.mark.parametrize("kind", arrays())
def test_arrays_of_each_kind__have_the_value_of_the_loop(kernels: ModuleType, kind: str) -> None:
    array = arrays()[kind]
    for more in (1, 0.25):
        assert kernels.plus(array, more) == kernels.plus.loop(array, more)
        assert kernels.plus(array, more) == kernels.plus.loop(array, more)


def test_memory_map__is_read_and_written(kernels: ModuleType, tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "values", dtype=np.int64, mode="w+", shape=5)
    kernels.fill(mapped)
    assert mapped.tolist() == [0, 1, 2, 3, 4]
    assert kernels.plus(mapped, 1) == 11


def test_same_array_in_turns__is_found_without_compiling(kernels: ModuleType) -> None:
    every = [array for kind, array in arrays().items() if kind != "unaligned"]
    for array in every:
        kernels.plus(array, 1)
    before = compilations.count
    for array in every * 3:
        kernels.plus(array, 1)
    assert compilations.count == before


def test_foreign_byte_order__raises(kernels: ModuleType) -> None:
    with pytest.raises(Exception, match=r"(?i)unsupported|byte"):
        kernels.plus(np.arange(3.0).astype(">f8"), 1)


def test_frozen_array__is_not_written(kernels: ModuleType) -> None:
    writable = np.zeros(3)
    kernels.fill(writable)
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(Exception, match=r"(?i)read-?only|cannot modify|setitem"):
        kernels.fill(frozen)
    assert frozen.tolist() == [0, 0, 0]


SCALARS = [
    *(3, -(2**62), 2**63 + 5, 2.5, True, False),
    *(np.float64(2.5), np.float32(2.5), np.int64(4), np.int32(4), np.uint32(4), np.uint8(4)),
    *(np.uint64(2**63 + 1), np.longlong(4), float("inf"), -0.0),
]


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_scalars__are_read_as_they_are(kernels: ModuleType, value: Any) -> None:
    for _ in range(2):
        assert kernels.choose(True, value) == value
        assert kernels.above(value) is bool(value > 1)


@pytest.mark.parametrize("flag", [True, False, np.True_, np.False_, 1, 0, 0.5, np.uint8(0)])
def test_truth__is_that_of_python(kernels: ModuleType, flag: Any) -> None:
    for _ in range(2):
        assert kernels.choose(flag, 2.0) == (2.0 if flag else -2.0)
        assert kernels.choose(True, 2.0) == 2.0
        assert kernels.choose(np.False_, 2.0) == -2.0


def test_none__is_an_argument(kernels: ModuleType) -> None:
    assert [kernels.is_none(value) for value in (None, 1, None)] == [True, False, True]


def test_integer_beyond_64_bits__raises(kernels: ModuleType) -> None:
    assert kernels.twice(4) == 8
    for _ in range(2):
        with pytest.raises(Exception, match="too large"):
            kernels.twice(2**70)
    assert kernels.twice(5) == 10


def test_results__have_types_of_python(kernels: ModuleType) -> None:
    assert kernels.fill(np.zeros(2)) is None
    assert kernels.both(2) == (2, True, 7, 0.5)
    assert [type(one) for one in kernels.both(2)] == [int, bool, int, float]
    assert kernels.unsigned(-1) == 2**64 - 1
    assert type(kernels.twice(2)) is int
    assert type(kernels.twice(np.float64(2))) is float
    assert kernels.above(2) is True


def test_wrong_number_of_arguments__raises_as_python_does(kernels: ModuleType) -> None:
    assert kernels.twice(2) == 4
    for args in ((), (1, 2), (1, 2, 3)):
        with pytest.raises(TypeError, match="argument"):
            kernels.twice(*args)
    with pytest.raises(TypeError, match="keyword"):
        kernels.twice(x=1)
    assert (kernels.with_default(2), kernels.with_default(2, 5)) == (6, 10)


def test_wrong_type__raises(kernels: ModuleType) -> None:
    with pytest.raises(Exception, match=r"(?i)type|failed"):
        kernels.plus(object(), 1)
    with pytest.raises(Exception, match=r"(?i)type|failed|flat"):
        kernels.plus("text", 1)


def test_kernel_that_calls_another__is_right_with_unusual_arguments(kernels: ModuleType) -> None:
    assert [kernels.second(x) for x in (1, 2.5, np.longlong(5))] == [2, 3.5, 6]


def test_references__do_not_leak(kernels: ModuleType) -> None:
    array, mapped = np.arange(3.0), np.arange(3.0).astype("q")
    number, big = np.float64(2.5), 10**15
    calls = (
        lambda: kernels.plus(array, number),
        lambda: kernels.plus(mapped, big),
        lambda: kernels.both(big),
        lambda: kernels.fill(array),
        lambda: kernels.choose(True, big),
        lambda: kernels.is_none(None),
        lambda: kernels.unsigned(-1),
    )

    def counts() -> list[int]:
        objects = (array, mapped, number, big, array.dtype, None, True, NotImplemented, float)
        return [sys.getrefcount(one) for one in objects]

    for call in calls:
        call()
    gc.collect()  # garbage of other tests refers to None, too
    before = counts()
    tracemalloc.start()
    try:
        gc.collect()
        start = tracemalloc.get_traced_memory()[0]
        for _ in range(5_000):
            for call in calls:
                call()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - start
    finally:
        tracemalloc.stop()
    changes = [after - old for after, old in zip(counts(), before, strict=True)]
    # One lost reference in each call would change a count by 5,000.
    assert max(map(abs, changes)) < 2_500, changes
    assert grown < 50_000


def test_running_kernel__lets_other_threads_run(kernels: ModuleType) -> None:
    kernels.scramble(np.uint64(1), 1)
    results: list[int] = []
    thread = threading.Thread(
        target=lambda: results.append(kernels.scramble(np.uint64(1), 300_000_000))
    )
    thread.start()
    turns = 0
    while not results:
        time.sleep(0.001)
        turns += 1
    thread.join()
    assert turns > 5, "a kernel that holds the interpreter would allow one or two"


def test_sixteen_threads__compile_a_new_kernel_once(kernels: ModuleType, tmp_path: Path) -> None:
    text = f"{IMPORTS}\nTHIS = {os.getpid()}.5\n\n@kernel\ndef add(x):\n    return x + THIS\n"
    module = import_files({"main": text}, tmp_path)
    before = compilations.count
    barrier, results = threading.Barrier(16), []

    def call(k: int) -> None:
        barrier.wait()
        results.append(module.add(k) - k)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [os.getpid() + 0.5] * 16
    assert compilations.count == before + 1


FORK = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, FOLDER)
from main import one, two
begun = threading.Event()
import fastrank_eval._lib.compiler as compiler
real = compiler.compile_kernel
def slow(*args):
    begun.set()
    return real(*args)
compiler.compile_kernel = slow
thread = threading.Thread(target=one, args=(1.0,))
thread.start()
begun.wait()
child = os.fork()
if not child:
    print("child", one(1.0), two(1.0), flush=True)
    os._exit(0)
os.waitpid(child, 0)
thread.join()
print("parent", one(1.0), two(1.0))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_forked_while_a_thread_compiles__runs_kernels(
    empty_store: Path, tmp_path: Path
) -> None:
    text = f"{IMPORTS}\n@kernel\ndef one(x):\n    return x + 1\n\n"
    text += "@kernel\ndef two(x):\n    return one(x) + 1\n"
    (tmp_path / "main.py").write_text(text)
    done = run_program(FORK.replace("FOLDER", repr(str(tmp_path))), empty_store)
    assert done.stdout == "child 2.0 3.0\nparent 2.0 3.0\n", done.stderr


def test_bounds_check__raises_index_error(empty_store: Path, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(KERNELS)
    program = f"""import sys; sys.path.insert(0, {str(tmp_path)!r})
import numpy as np
from main import item
print(item(np.arange(3), 2))
for k in (3, -4, 2**40):
    try:
        item(np.arange(3), k)
    except IndexError as error:
        print(error)
"""
    done = run_program(program, empty_store, NUMBA_BOUNDSCHECK="1")
    assert done.stdout == "2\n" + "a kernel read or wrote outside an array\n" * 3, done.stderr


def test_objects_of_unknown_layout__are_left_to_numba(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "_KNOWN_OBJECTS", False)
    module = import_files({"main": KERNELS}, tmp_path)
    before = compilations.count
    assert module.plus(np.arange(4.0), 1) == 7
    assert module.second(3) == 4
    assert compilations.count == before


def test_masked_array__is_refused_not_read_without_its_mask(store: Path, tmp_path: Path) -> None:
    total = import_files({"main": SUM}, tmp_path).total
    with pytest.raises(NumbaTypeError, match="MaskedArray"):
        total(np.ma.masked_array(np.arange(3.0), [False, True, False]))


def test_end_of_a_process__reads_no_memory_that_is_free(store: Path, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SUM)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import numpy as np\n"
    program += "from main import total; from fastrank_eval._lib import jit\n"
    program += "jit.cycle = [total]; jit.cycle.append(jit.cycle); print(total(np.arange(5.0)))"
    for _ in range(2):  # compiled, then loaded
        done = run_program(program, store, PYTHONMALLOC="malloc", MALLOC_PERTURB_="2")
        assert (done.stdout, done.returncode) == ("10.0\n", 0), done.stderr


def test_kernel__is_pickled_by_its_name() -> None:
    from fastrank_eval.groups.sort import sort_blocks

    name = pickle.dumps(sort_blocks)
    assert b"sort_blocks" in name
    assert pickle.loads(name) is sort_blocks  # noqa: S301


def test_kernel_of_a_program__is_pickled_by_its_loop_after_a_call(store: Path) -> None:
    program = (
        "import numpy as np\nfrom fastrank_eval._lib.jit import kernel\n"
        "def twice(x): return x + x\n"
        "compiled = kernel(twice)\n"
        "compiled(2)\n"
        "make, (loop,) = compiled.__reduce__()\n"
        "print(loop is twice, make(loop)(4))\n"
    )
    assert run_program(program, store).stdout == "True 8\n"


def test_function_of_numba__calls_a_kernel_that_was_loaded(store: Path, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SUM)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import numpy as np\n"
    program += "from main import total\nvalues = np.arange(5.0)\ntotal(values)\nimport numba\n"
    program += "@numba.njit\ndef use(values):\n    return total(values) * 2\nprint(use(values))"
    assert [run_program(program, store).stdout for _ in range(2)] == ["20.0\n"] * 2


BY_ADDRESS = """
import sys
import numpy as np
from fastrank_eval._lib.arrow import frozen
from fastrank_eval._lib.jit import NativeKernel, call_by_address, compilations, inlined, kernel

@inlined
def scaled(x, by):
    return x * by

def loop_of(function):
    def loop(values, by, out):
        for k in range(out.shape[0]):
            out[k] = function(values[k], by)

    return loop

numbers = frozen(np.arange(3.0))
native = NativeKernel(loop_of(scaled), (numbers, 0.5, np.zeros(1)))

@kernel
def call(addresses, values, out):
    for k in range(addresses.shape[0]):
        call_by_address(addresses[k], (values, 2.5, out[k]))

out = np.zeros((2, 3))
call(np.array([native.address] * 2), numbers, out)
print(out.tolist(), compilations.count, "numba" in sys.modules)
"""


@pytest.mark.parametrize("off", ["", "1"])
def test_native_kernel__is_called_by_its_address(store: Path, tmp_path: Path, off: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(BY_ADDRESS)
    program = f"import runpy; runpy.run_path({str(path)!r})"
    first, second = (run_program(program, store, NUMBA_DISABLE_JIT=off) for _ in range(2))
    values = [[0.0, 2.5, 5.0]] * 2
    assert first.stdout.startswith(f"{values} "), first.stderr
    assert second.stdout == f"{values} 0 False\n", "machine code is loaded from the store"
