"""Writes the public names for type checkers: ``python -m tests.public_names``."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

import fastrank_eval
from fastrank_eval.engine.options import OPTIONS, options_at
from fastrank_eval.measures import measure, registry

STUB = Path(fastrank_eval.__file__).with_suffix(".pyi")
TYPES = STUB.with_name("engine") / "option_types.pyi"
#: The types of options that are read to others.
READ = {
    "group": "tuple[str, ...] | None",
    "cluster": "tuple[str, ...] | None",
    "label": "Any",
    "score": "tuple[str, ...] | dict[str, str]",
    "measures": "Any",
    "profile": "Profile | None",
    "undefined": "dict[str, str] | None",
    "keep": "frozenset[str] | None",
}
#: What functions pass on to `evaluate`: the name of the type, the door, their own parameters.
PASSED_ON = {
    "CompareOptions": ("compare", ()),
    "ClassOptions": ("classes", ()),
    "PartialOptions": ("partial", ("keep", "threads")),
    "SparkOptions": ("spark", ("keep",)),
    "SparkCompareOptions": ("spark", ("keep",)),
}


def stub() -> str:
    """Write the text of ``fastrank_eval/__init__.pyi``."""
    files: dict[str, list[str]] = defaultdict(list)
    measures = []
    for name, kind in registry.items():
        file = sys.modules[kind.__module__]
        base = next(one for one in kind.__mro__ if getattr(file, one.__name__, None) is one)
        files[base.__module__].append(f"{base.__name__} as _{base.__name__}")
        measures.append(f"{name}: _{base.__name__}")
    measures += [f"{name}: _{type(measure(name)).__name__}" for name in fastrank_eval._ALIASES]
    for name, file in fastrank_eval._FILE_OF.items():
        files[f"fastrank_eval.{file}"].append(f"{name} as {name}")
    lines = ["# Written by `python -m tests.public_names`.", ""]
    lines += [f"from fastrank_eval import {name} as {name}" for name in fastrank_eval._MODULES]
    lines += ["from fastrank_eval._lib import __version__ as __version__"]
    lines += [
        f"from {file} import {name}" for file in sorted(files) for name in sorted({*files[file]})
    ]
    every = [f'    "{name}",' for name in fastrank_eval.__all__]
    return "\n".join([*lines, "", *sorted(measures), "", "__all__ = [", *every, "]", ""])


def option_types() -> str:
    """Write the text of ``fastrank_eval/engine/option_types.pyi``."""
    lines = [
        '"""The types of options. Written by `python -m tests.public_names`."""',
        "",
        "from collections.abc import Callable, Mapping, Sequence",
        "from typing import Any, Required, TypedDict",
        "",
        "import pyarrow.compute as pc",
        "",
        "from fastrank_eval._lib.threads import Progress",
        "from fastrank_eval.engine.conventions import Profile",
        "from fastrank_eval.measures import Measure",
        "from fastrank_eval.slicing.spec import SliceSpec",
        "",
        "class OptionFields:",
        "    source: object",
        "    batch_rows: int | None",
    ]
    lines += [f"    {name}: {READ.get(name, option.type)}" for name, option in OPTIONS.items()]
    for title, (door, own) in PASSED_ON.items():
        lines += ["", f"class {title}(TypedDict, total=False):"]
        for name in options_at(door):
            if name not in own:
                kind, required = OPTIONS[name].type, OPTIONS[name].default is ...
                if title.endswith("CompareOptions") and name == "baseline":
                    kind, required = "str", True
                lines.append(f"    {name}: {f'Required[{kind}]' if required else kind}")
    return "\n".join([*lines, ""])


def listed(text: str) -> tuple[set[tuple[str | None, str, str | None]], list[str]]:
    """Read where a stub has each name from, and what it lists in ``__all__``."""
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    names = {(node.module, one.name, one.asname) for node in imports for one in node.names}
    names |= {
        (None, node.target.id, node.annotation.id)  # type: ignore[union-attr,attr-defined]
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
    }
    return names, sorted(ast.literal_eval(tree.body[-1].value))  # type: ignore[attr-defined]


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    TYPES.write_text(option_types(), encoding="utf-8")
