"""Build a wheel with machine code of the kernels, for each level of x86-64.

`make wheel` turns this hook of hatchling on. It runs this file as a program, because the program
imports the package. Evaluations of the common types and measures say which kernels are compiled
for which types of arguments. Numba's front end runs once for each. LLVM then compiles the result
for each level. Code of a level never runs here, so any x86-64 processor builds all of them.
"""

from __future__ import annotations

import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: A function, and its arguments by position and by name.
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]

ROOT = Path(__file__).resolve().parent

#: CPython's functions, those of C that LLVM calls, and two of the C library by Numba's names. All
#: are in glibc 2.17 and CPython 3.11.
SYMBOLS = {
    *("PyBool_FromLong", "PyErr_Clear", "PyErr_Occurred", "PyErr_SetString", "PyEval_SaveThread"),
    *("PyEval_RestoreThread", "PyFloat_FromDouble", "PyLong_AsLongLong", "PyLong_FromLongLong"),
    *("PyTuple_New", "PyTuple_SetItem", "Py_IncRef", "memcpy", "memmove", "memset"),
    *("numba_frexp", "numba_ldexp"),
}
TAG = "py3-none-manylinux_2_17_x86_64"

#: What the front end runs with: it needs no optimised code, and symbols follow the hash of texts.
SETTINGS = {"NUMBA_OPT": "0", "PYTHONHASHSEED": "0"}

EIGHT = "GAUC,AUC,nDCG@10,AP,RR,ERR(max_grade=1)@10,P@10,R@10"
PROBABILITIES = "LogLoss,NE,PCOC,ECE(bins=15),Brier,KS"


class MachineCode(BuildHookInterface[Any]):
    """Adds machine code to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels, and add them to the files of the wheel."""
        if self.target_name != "wheel" or version == "editable":
            return
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise RuntimeError("machine code is built on x86-64 Linux; make a pure wheel elsewhere")
        self.folder = Path(tempfile.mkdtemp(prefix="fastrank_eval-"))
        subprocess.run(  # noqa: S603
            [sys.executable, str(Path(__file__)), str(self.folder / "objects")],
            env={**_plain_environment(), **SETTINGS, "PYTHONPATH": str(ROOT)},
            check=True,
        )
        build_data["force_include"][str(self.folder / "objects")] = "fastrank_eval/_lib/objects"
        build_data["pure_python"] = False
        build_data["tag"] = TAG

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what `initialize` wrote."""
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


def _plain_environment() -> dict[str, str]:
    """Return the environment without settings that change machine code or its key."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("NUMBA_", "FASTRANK_"))
    }


def main(folder: Path) -> None:
    """Write the machine code of all levels into a folder."""
    from fastrank_eval._lib import compiler, jit, kernel_store

    levels = list(kernel_store.LEVELS)
    for level in levels:
        (folder / level).mkdir(parents=True)
    jobs: list[Future[None]] = []
    with ProcessPoolExecutor(
        os.cpu_count(), mp_context=get_context("spawn"), initializer=_optimise
    ) as pool:

        def keep(kernel: jit.Kernel, args: tuple[Any, ...], content: jit.Content) -> int | None:
            """Compile a kernel for this process, and give it to LLVM for each level."""
            library = compiler.library_of(kernel, args)
            if content.sources is None:
                raise RuntimeError(f"{kernel.loop.__name__}: its file has changed")
            text, name = library.get_llvm_str(), kernel.loop.__name__
            for level in levels:
                store = kernel_store.Store(folder / level, level)
                jobs.append(pool.submit(write, text, store, name, content.sources))
            return kernel_store.link(bytes(library._get_compiled_object()))

        compiler.compile_kernel = keep
        kernel_store.load = lambda *_: None
        kernel_store.why_not_stored = lambda: ""
        for function, args, options in evaluations(folder.parent):
            function(*args, **options)
        for job in jobs:
            job.result()
    print(f"compiled {len(jobs) // len(levels)} kernels for {', '.join(levels)}")  # noqa: T201


def _optimise() -> None:
    """Make Numba optimise in this process."""
    del os.environ["NUMBA_OPT"]


_codegens: dict[str, Any] = {}


def write(text: str, store: Any, name: str, content: str) -> None:
    """Compile LLVM's text of a kernel for a level, and write the code."""
    from fastrank_eval._lib import kernel_store

    code = compile_text(text, store.target)
    unknown = undefined_symbols(code) - SYMBOLS
    if unknown:
        raise RuntimeError(f"{name} for {store.target} needs {', '.join(sorted(unknown))}")
    path, key = store.path(name, content)
    path.write_bytes(kernel_store.file_content(key, code))


def compile_text(text: str, level: str) -> bytes:
    """Compile LLVM's text as Numba does, for a processor of the level."""
    import llvmlite.binding as llvm
    from numba.core import config
    from numba.core.codegen import JITCPUCodegen

    if level not in _codegens:
        config.CPU_NAME, config.CPU_FEATURES = level, ""
        _codegens[level] = JITCPUCodegen(level)
    codegen = _codegens[level]
    module = llvm.parse_assembly(text)
    for options in (
        {
            "loop_vectorize": codegen._loopvect,
            "slp_vectorize": False,
            "opt": codegen._opt_level,
            "cost": "cheap",
        },
        {},
    ):
        passes, builder = codegen._module_pass_manager(**options)
        passes.run(module, builder)
    module.verify()
    return bytes(codegen._tm.emit_object(module))


def undefined_symbols(code: bytes) -> set[str]:
    """Return the symbols that an object file of ELF needs from elsewhere."""
    (start,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", code, start + size * number) for number in range(count)
    ]
    found = set()
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind == 2:  # a table of symbols; `link` is the section of their names
            names = sections[link][4]
            for place in range(offset, offset + length, 24):
                name, _, _, section = struct.unpack_from("<IBBH", code, place)
                if section == 0 and name:
                    found.add(code[names + name : code.index(b"\0", names + name)].decode())
    return found


def evaluations(folder: Path) -> Iterator[Call]:
    """Yield calls that together reach the kernels for the common types.

    A TREC run is written into the folder.
    """
    import pyarrow as pa

    import fastrank_eval as fe
    from fastrank_eval.engine.run import run
    from fastrank_eval.measures import registry
    from fastrank_eval.stats.scores import add_rows

    columns = _columns()
    rows = len(columns["slot"])
    shuffled = np.random.default_rng(2).permutation(rows)

    def table(group: str, label: str, scores: str, weight: str, order: Any) -> pa.Table:
        """Choose columns, and give them names and an order."""
        chosen = {"label": label, "a": f"a {scores}", "b": f"b {scores}", "weight": weight}
        chosen |= {"group": group} if group else {}
        named = {name: columns[column] for name, column in chosen.items()}
        rest = {name: columns[name] for name in _OTHERS}
        return pa.table(named | rest).take(order)

    def options(group: str, weight: str, scores: tuple[str, ...]) -> dict[str, Any]:
        return {
            "label": "label",
            "score": list(scores),
            "threads": 1,
            **({"group": "group"} if group else {}),
            **({"weight": "weight", "weight_rows": "ignore"} if weight else {}),
        }

    order = np.arange(rows)
    # Types of keys, then of labels and scores, then of weights.
    kinds = [(group, "click int8", kind, "") for group in _KEYS for kind in ("float64", "float32")]
    kinds += [("int64", label, kind, "") for label in _LABELS for kind in ("float64", "float32")]
    kinds += [
        ("int64", "click int8", kind, f"weight {weight}")
        for kind, weight in product(("float64", "float32"), repeat=2)
    ]
    for (group, label, kind, weight), rows_of in product(kinds, (order, shuffled)):
        rows_in_order = table(group, label, kind, weight or "weight float64", rows_of)
        texts = f"{EIGHT},{PROBABILITIES}" if "click" in label else "AP(rel=2),nDCG@10,ERR@10"
        for models in (("a",), ("a", "b")):
            given = options(group, weight, models)
            yield fe.evaluate, (rows_in_order,), {"measures": texts, **given}
            del given["group"]
            texts_of_rows = "AUC(rel=2)" if "grade" in label else f"AUC,{PROBABILITIES}"
            yield fe.evaluate, (rows_in_order,), {"measures": texts_of_rows, **given}

    def accept(measures: str, **given: Any) -> None:
        """Evaluate a measure if it takes these ties, and can do without a cutoff."""
        with suppress(fe.MeasureError, fe.ArgumentError):
            fe.evaluate(arrays, measures=measures, **given)

    both, one = options("int64", "", ("a", "b")), options("int64", "", ("a",))
    arrays = {name: columns[name] for name in _OTHERS}
    arrays |= {"group": columns["int64"], "a": columns["a float64"], "b": columns["b float64"]}
    arrays |= {"weight": columns["weight float64"], "label": columns["grade int64"]}
    arrays |= {"click": columns["click int8"]}
    for family in registry.values():
        text = _WITH_OPTIONS.get(family.name, family.name)
        given = {"item": "item", "label": "click" if family.scores == "probability" else "label"}
        given |= {"subtopics": "covers"} if family.needs_subtopics else {}
        given |= {"unjudged": "allow"} if family.needs_judgments else {}
        for ties, cutoff in product(("item", "expected"), ("", "@10")):
            if family.takes_cutoff or not cutoff:
                yield accept, (text + cutoff,), one | given | {"ties": ties}

    clicks = both | {"label": "click"}
    weighted = clicks | {"weight": "weight"}
    single = arrays | {name: columns[f"{name} float32"] for name in ("a", "b")}
    for source in (pa.table(arrays), pa.table(single)):
        texts = f"{EIGHT},{PROBABILITIES},GAUC(weight='spend'),GAUC(weight='pairs')"
        for by in ("slot", "day", "shop", "click"):
            yield fe.evaluate, (source,), {"measures": texts, "by": [by], **clicks}
        yield fe.evaluate, (source,), {"measures": "GAUC,AUC,NE", "by": ["slot"], **weighted}
        texts = "AUC(se='delong'),AUC(se='clustered'),NE,ECCE"
        yield fe.evaluate, (source,), {"measures": texts, **clicks}
        yield fe.evaluate, (source,), {"measures": texts.replace("se='delong'", ""), **weighted}
        nested = {**clicks, "group": ["group", "slot"], "cluster": "group"}
        yield fe.evaluate, (source,), {"measures": "GAUC,nDCG@10,NE", **nested}
        compared = {"baseline": "a", "replicates": 50, **clicks}
        yield fe.compare, (source,), {"measures": "GAUC", **compared, **nested}
        for test in ("clustered_t", "bootstrap", "randomisation"):
            yield fe.compare, (source,), {"measures": "GAUC,nDCG@10", "test": test, **compared}
        texts = "GAUC,AUC(se='clustered'),NE"
        yield fe.compare, (source,), {"measures": texts, "by": "slot", **compared}
        for given in (clicks, weighted):
            yield fe.curve, ("pr", source), {**given, "score": ["a"]}
        yield _merge_states, (source,), {"measures": f"{EIGHT},NE", "baseline": "a", **clicks}
        for ties in ("input", "best", "worst"):
            yield fe.evaluate, (source,), {"measures": EIGHT, "ties": ties, **clicks}
        yield fe.evaluate, (source,), {"measures": "GroupAccuracy", **weighted}
    ordered = {"item": "item", "ties": "item", **one}
    yield fe.evaluate, (arrays,), {"measures": "AP(interpolated=True),infAP", **ordered}
    yield from _of_many_rows(options)
    yield _report, (folder, arrays), {}
    for counts in (np.uint8, np.uint16, np.uint32):
        yield add_rows, (np.zeros(1, counts), np.zeros(1, np.uint32)), {}
    # Threads merge slices. This is the last, because threads compile in any order.
    by_threads = {"by": ["slot"], "batch_rows": 1000, **clicks, "threads": 2}
    yield run, (arrays,), {"measures": "GAUC,AUC,NE", **by_threads}


def _merge_states(source: Any, **options: Any) -> None:
    """Evaluate all rows twice as parts, write the states, and merge them."""
    import fastrank_eval as fe

    states = [fe.State.from_bytes(fe.partial(source, **options).to_bytes()) for _ in range(2)]
    states[0].merge(*states[1:], allow_repeated=True).result()


def _of_many_rows(options: Any) -> Iterator[Call]:
    """Yield evaluations of so many scores that they are partitioned."""
    import pyarrow as pa

    import fastrank_eval as fe

    rng = np.random.default_rng(3)
    # Scores are sorted where every second row is positive, and counted where few are.
    for number, (rows, share) in product(
        ("float64", "float32"), ((200_000, 0.5), (1_000_000, 0.03))
    ):
        columns = {
            "group": np.sort(rng.integers(0, 9000, rows)),
            "label": (rng.random(rows) < share).astype(np.int8),
            **{name: rng.random(rows).astype(number) for name in ("a", "b", "weight")},
        }
        for weight in ("", "weight"):
            given = options("int64", weight, ("a", "b"))
            yield fe.evaluate, (pa.table(columns),), {"measures": "GAUC,AUC", **given}


def _report(folder: Path, rows: dict[str, Any]) -> None:
    """Make the report of a TREC run."""
    import fastrank_eval as fe

    run, qrels = folder / "run", folder / "qrels"
    lines = list(
        zip(*(rows[name].tolist() for name in ("group", "item", "a", "label")), strict=True)
    )
    run.write_text("".join(f"q{g} Q0 {item} 1 {a} x\n" for g, item, a, _ in lines))
    qrels.write_text("".join(f"q{g} 0 {item} {label}\n" for g, item, _, label in lines[::2]))
    fe.trec.trec_report(qrels, run)


#: Families that have no value without an option.
_WITH_OPTIONS = {
    **{name: f"{name}(bins=15)" for name in ("ECE", "MCE")},
    **{name: f"{name}(field='slot')" for name in ("FieldECE", "FieldRCE")},
    "MultiECCE": "MultiECCE(columns='slot')",
    "IPrec": "IPrec(recall=0.1)",
}
_KEYS = ("int64", "int32", "uint64", "text", "dictionary")
_NUMBERS = ("int8", "int32", "int64", "float32", "float64")
_LABELS = (
    "click bool",
    *(f"{kind} {number}" for kind in ("click", "grade") for number in _NUMBERS),
)
_OTHERS = ("slot", "item", "covers", "spend", "day", "shop")


def _columns() -> dict[str, Any]:
    """Make columns of groups of many sizes."""
    import pyarrow as pa

    rng = np.random.default_rng(1)
    sizes = np.array([1, 2, 3, 5, 9, 14, 25, 60, 1700, *range(2, 70)] * 2)
    rows = int(sizes.sum())
    group = np.repeat(np.arange(len(sizes)), sizes)
    text = pa.array([f"user {number}" for number in group])
    grade = rng.choice([0, 0, 0, 1, 2, 3], rows)
    a = np.round(rng.random(rows), 3)
    b = np.clip(a * 0.9 + 0.1 * rng.random(rows), 0, 1)
    weight = rng.choice([0.1, 0.7, 1.3, 4.0], rows)
    return {
        "int64": group,
        "int32": group.astype(np.int32),
        "uint64": group.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15),
        "text": text,
        "dictionary": text.dictionary_encode(),
        "click bool": grade > 1,
        **{f"click {kind}": (grade > 1).astype(kind) for kind in _NUMBERS},
        **{f"grade {kind}": grade.astype(kind) for kind in _NUMBERS},
        **{f"a {kind}": a.astype(kind) for kind in ("float32", "float64")},
        **{f"b {kind}": b.astype(kind) for kind in ("float32", "float64")},
        **{f"weight {kind}": weight.astype(kind) for kind in ("float32", "float64")},
        "slot": rng.integers(0, 3, rows),
        "day": pa.array([f"2026-11-{number:02}" for number in rng.integers(1, 5, rows)]),
        "item": np.array([f"d{number}" for number in rng.permutation(rows)]),
        "covers": pa.array([sorted({n % 3, n % 7}) for n in rng.integers(0, 50, rows)]),
        "spend": 0.1 + 0.3 * group,
        "shop": rng.integers(0, 3, rows).astype(np.int32),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
