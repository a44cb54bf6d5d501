"""The figures of size and shape are counted right."""

from pathlib import Path

import pytest

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


def test_entered_files__are_those_of_the_package_alone() -> None:
    import fastrank_eval._lib.errors

    entered = figures.entered(lambda: fastrank_eval._lib.errors.near("GAC", ["GAUC"]))
    assert [path.name for path in entered] == ["errors.py"]


def test_new_measure__changes_three_files() -> None:
    _, files = figures.recipe()
    assert len(files) == 3
    assert sum(name.startswith("fastrank_eval/measures/") for name in files) == 1
    assert sum(name.startswith("tests/oracles/") for name in files) == 1
    assert "tests/strategies.py" in files
