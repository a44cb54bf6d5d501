"""Write modules with kernels, and run them with an empty store."""

import importlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fastrank_eval._lib import kernel_store

_folders = itertools.count()

IMPORTS = """import numpy as np
from fastrank_eval._lib.jit import kernel
"""

SUM = f"""{IMPORTS}
@kernel
def total(values):
    result = 0.0
    for value in values:
        result += value
    return result
"""


def use_store(folder: Path | str, patch: pytest.MonkeyPatch) -> None:
    """Make this process load and store kernels in a folder."""
    patch.setenv("FASTRANK_CACHE_DIR", str(folder))
    patch.setattr(kernel_store, "_warnings", [])
    kernel_store.user_store.cache_clear()


def import_files(files: dict[str, str], folder: Path, main: str = "main") -> ModuleType:
    """Write modules into a new folder, and import one of them."""
    new = folder / f"modules{next(_folders)}"
    new.mkdir()
    for name, text in files.items():
        (new / f"{name}.py").write_text(text)
    return import_from(new, files, main)


def import_from(path: Path, names: dict[str, str], main: str = "main") -> ModuleType:
    """Import a module of a folder or archive that no other import has read."""
    sys.path.insert(0, str(path))
    writes = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        importlib.invalidate_caches()
        for name in names:
            sys.modules.pop(name, None)
        return importlib.import_module(main)
    finally:
        sys.dont_write_bytecode = writes
        sys.path.remove(str(path))
        for name in names:
            sys.modules.pop(name, None)


def run_program(program: str, store: Path | str, **more: str) -> "subprocess.CompletedProcess[str]":
    """Run Python in a fresh process with a folder for kernels."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "FASTRANK_CACHE_DIR": str(store), **more},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
