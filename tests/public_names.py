"""Writes the public names for type checkers: ``python -m tests.public_names``."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import fastrank_eval

STUB = Path(fastrank_eval.__file__).with_suffix(".pyi")


def stub() -> str:
    """Write the text of ``fastrank_eval/__init__.pyi``."""
    files: dict[str, list[str]] = defaultdict(list)
    modules = []
    for name in fastrank_eval.__all__:
        if name == "__version__":
            continue
        value = getattr(fastrank_eval, name)
        home = fastrank_eval._FILE_OF.get(name, "measures")
        if name in fastrank_eval._MODULES:
            modules.append(name)
            assert value.__name__ == f"fastrank_eval.{name}"
        else:
            files[home].append(name)
    lines = ["# Written by `python -m tests.public_names`.", ""]
    lines += [f"from fastrank_eval import {name} as {name}" for name in modules]
    lines += ["from fastrank_eval._lib import __version__ as __version__"]
    for home, names in sorted(files.items()):
        lines += [f"from fastrank_eval.{home} import (", *(f"    {n} as {n}," for n in names), ")"]
    every = [f'    "{name}",' for name in fastrank_eval.__all__]
    return "\n".join([*lines, "", "__all__ = [", *every, "]", ""])


def listed(text: str) -> tuple[set[tuple[str | None, str, str | None]], list[str]]:
    """Read where a stub imports each name from, and what it lists in ``__all__``."""
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = {(node.module, one.name, one.asname) for node in imports for one in node.names}
    return names, sorted(ast.literal_eval(tree.body[-1].value))  # type: ignore[attr-defined]


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
