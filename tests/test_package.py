"""The package itself: light to import, complete, typed."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from importlib.resources import files

import pytest

import fastrank_eval

HEAVY = ("numba", "numpy", "pandas", "polars", "pyarrow", "rich", "scipy")


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["fastrank_eval", "fastrank_eval.cli"])
def test_import__alone__loads_nothing_heavy(module: str) -> None:
    loaded = run_python(f"import sys, {module}; print(*(m for m in {HEAVY} if m in sys.modules))")
    assert loaded == ""


@pytest.mark.parametrize(
    "first",
    [
        "import fastrank_eval",
        "import fastrank_eval.evaluate",
        "from fastrank_eval.evaluate import evaluate",
    ],
)
def test_evaluate__whatever_was_imported_first__is_the_function(first: str) -> None:
    kind = run_python(f"{first}; import fastrank_eval; print(type(fastrank_eval.evaluate))")
    assert kind == "<class 'function'>"


@pytest.mark.parametrize("name", fastrank_eval.__all__)
def test_public_name__listed__exists_and_shows_in_dir(name: str) -> None:
    assert getattr(fastrank_eval, name) is not None
    assert name in dir(fastrank_eval)


def test_public_name__unknown__is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'evalute'"):
        _ = fastrank_eval.evalute  # type: ignore[attr-defined]


def test_public_names__lazy_table__matches_all() -> None:
    assert {*fastrank_eval._HOME, "__version__"} == set(fastrank_eval.__all__)


def test_version__of_the_distribution__is_the_packages() -> None:
    assert importlib.metadata.version("fastrank_eval") == fastrank_eval.__version__


def test_types__are_published() -> None:
    assert files("fastrank_eval").joinpath("py.typed").is_file()
