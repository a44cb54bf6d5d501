"""The figures of size and shape are counted right."""

import pytest

from bench import figures

pytestmark = pytest.mark.no_kernels


def test_code_lines__leave_out_docstrings_comments_and_blanks() -> None:
    source = '"""Docs\n\nmore."""\n\n# why\nX = (\n    1,\n)  # one\n\n\n'
    source += 'def f():\n    "Doc."\n    return """\na"""\n'
    assert figures.code_lines(source) == 3 + 1 + 2


def test_size__statements_are_counted_not_lines() -> None:
    source = '"""Docs."""\n\nclass A:\n    "Doc."\n\n    def f(self): x = 1; return x\n'
    counts = {"files": 1, "code lines": 2, "statements": 4, "classes": 1, "functions": 1}
    assert figures.size(source) == counts
