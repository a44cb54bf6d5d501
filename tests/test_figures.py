"""The figures of size and shape are counted right."""

import inspect
from pathlib import Path

import pytest

import fastrank_eval._lib.errors
from bench import figures

pytestmark = pytest.mark.no_kernels


def test_code_lines__leave_out_docstrings_comments_and_blanks() -> None:
    source = '"""Docs\n\nmore."""\n\n# why\nX = (\n    1,\n)  # one\n\n\n'
    source += 'def f():\n    "Doc."\n    return """\na"""\n'
    assert figures.code_lines(source) == 3 + 1 + 2


def test_circles__are_the_sets_in_which_each_reaches_each() -> None:
    edges = {"a": ["b"], "b": ["a", "c"], "c": ["d"], "d": ["e"], "e": ["c"], "f": ["f", "a"]}
    assert figures.circles(edges) == [["c", "d", "e"], ["a", "b"]]


def test_imports__count_those_inside_functions_and_for_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "fastrank_eval"
    (package / "sub").mkdir(parents=True)
    texts = {
        "__init__.py": "",
        "a.py": "from fastrank_eval.sub import b\nimport os\n",
        "sub/__init__.py": "from .b import x\n",
        "sub/b.py": "def x():\n    import fastrank_eval.a\nif TYPES:\n    from . import b\n",
    }
    for name, text in texts.items():
        (package / name).write_text(text)
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "PACKAGE", package)
    edges = figures.imports(sorted(package.rglob("*.py")))
    assert edges["fastrank_eval.a"] == {"fastrank_eval.sub.b"}
    assert edges["fastrank_eval.sub"] == {"fastrank_eval.sub.b"}
    assert edges["fastrank_eval.sub.b"] == {"fastrank_eval.a"}


def test_size__statements_are_counted_not_lines() -> None:
    source = '"""Docs."""\n\nclass A:\n    "Doc."\n\n    def f(self): x = 1; return x\n'
    counts = {"files": 1, "code lines": 2, "statements": 4, "classes": 1, "functions": 1}
    assert figures.size(source) == counts


def test_trace__has_the_functions_of_the_package_and_types_of_arguments() -> None:
    error = fastrank_eval._lib.errors.ArgumentError("x")
    calls = figures.trace(lambda: (fastrank_eval._lib.errors.near("GAC", ["GAUC"]), str(error)))
    assert [path.name for path in figures.entered(calls)] == ["errors.py"]
    assert calls[0].function == "near"
    kernel = figures.Call(Path("_lib/jit.py"), "__call__", frozenset())
    check = figures.Call(Path("a.py"), "_check_it", frozenset({int}))
    assert figures.before_kernels([check, kernel, check]) == [check]
    assert figures.checks([check, kernel, check._replace(path=Path("arguments.py"))]) == 2


def test_lists_of_options__have_the_signature_of_evaluate() -> None:
    places = figures.option_lists()
    assert any(len(options) > 30 for options in places.values())
    assert set().union(*places.values()) <= {*inspect.signature(fastrank_eval.evaluate).parameters}


@pytest.mark.lasts("reads all files")
def test_new_measure__changes_three_files() -> None:
    _, files = figures.recipe()
    assert len(files) == 3
    assert sum(name.startswith("fastrank_eval/measures/") for name in files) == 1
    assert sum(name.startswith("tests/oracles/") for name in files) == 1
    assert "tests/strategies.py" in files
