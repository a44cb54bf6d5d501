"""Texts that are told, in files: what is given, and lines that begin with `> `.

A blank line ends a case, a line that begins with `# ` is a comment, and `…` in a line that is told
stands for any text. With `REWRITE=1` in the environment, tests write what they find in place of
what is told; look at the difference.
"""

from __future__ import annotations

import ast
import datetime as dt
import decimal
import functools
import json
import math
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import fastrank_eval as fe
from fastrank_eval._lib import errors

try:
    import polars as pl
except ImportError:  # the environments of peers have none, and no case that names it
    pl = None  # type: ignore[assignment]

FOLDER = Path(__file__).parents[1] / "fixtures" / "told"


def refusal(call: Callable[[], object]) -> str:
    """The error of a call."""
    with pytest.raises(fe.FastRankEvalError) as error:
        call()
    return f"{type(error.value).__name__}: {error.value}"


#: What every case that is Python can name; errors by the names of their classes.
NAMES = {**vars(errors), "dt": dt, "decimal": decimal, "functools": functools,
         "json": json, "math": math, "pickle": pickle, "re": re, "replace": replace, "Path": Path,
         "np": np, "pl": pl, "pa": pa, "pq": pq, "fe": fe, "fastrank_eval": fe,
         "refusal": refusal}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What is given, and what is told of it."""

    file: Path
    text: str

    def __str__(self) -> str:
        return " ".join(self.given)[:60]

    @property
    def given(self) -> list[str]:
        """Lines of input, in which `␤` is the end of a line."""
        lines = [line for line in self.text.splitlines() if not line.startswith(("> ", "# "))]
        return [line.replace("␤", "\n") for line in lines]

    def edited(self, text: str) -> tuple[str, list[str]]:
        """Replace what follows `- ` by what follows `+ ` in a text; return the other lines too."""
        others = []
        for line in self.given:
            if line.startswith("- "):
                before = line[2:]
                assert before in text
            elif line.startswith("+ "):
                text = text.replace(before, line[2:])
            else:
                others.append(line)
        return text, others

    def answer(self, names: dict[str, Any]) -> list[str]:
        """Run all lines; return the values of expressions, or their errors, as lines."""
        names, found = {**NAMES, **names}, []
        for node in ast.parse("\n".join(self.given)).body:
            line = ast.unparse(node)
            try:
                if isinstance(node, ast.Expr):
                    found.append(str(eval(line, names)))  # noqa: S307 - the texts are ours
                else:
                    exec(line, names)  # noqa: S102
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}")
                if not isinstance(node, ast.Expr):
                    break
        return "\n".join(found).splitlines()

    def steps(self, text: str, pattern: str) -> Iterator[tuple[str, str]]:
        """Yield the lines that begin with a pattern, each with the text as it is by then.

        Other lines change the text: see `edited`; what is not replaced is added.
        """
        before = ""
        for line in self.given:
            if line.startswith("- "):
                before = line[2:]
                assert before in text
            elif line.startswith("+ "):
                text = text.replace(before, line[2:])
            elif re.match(pattern, line):
                yield text, line
            else:
                text += f"{line}\n"

    def check(self, found: Iterable[str]) -> None:
        """Compare what is told, or write it."""
        lines, found = self.text.splitlines(), [f"> {line}" for line in found]
        told = [line for line in lines if line.startswith("> ")]
        patterns = [re.escape(line).replace("…", ".*") for line in told]
        if len(found) == len(told) and all(map(re.fullmatch, patterns, found)):
            return
        assert "REWRITE" in os.environ, (found, told)
        kept = [line for line in lines if not line.startswith("> ")]
        content = self.file.read_text(encoding="utf-8") + "\n"
        content = content.replace(f"{self.text}\n\n", "\n".join([*kept, *found]) + "\n\n", 1)
        self.file.write_text(content.removesuffix("\n"), encoding="utf-8")


def cases(name: str) -> list[Case]:
    """Every case of a file."""
    file = FOLDER / f"{name}.txt"
    blocks = file.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    found = [Case(file, block) for block in blocks]
    return [case for case in found if case.given]


def answers(names: dict[str, Any]) -> Callable[..., None]:
    """The test of what Python answers in a module of tests, by the file of its name."""
    name = f"answers/{names['__name__'].removeprefix('tests.').replace('.test_', '.')}"

    @pytest.mark.usefixtures("own_folder")
    @pytest.mark.parametrize(
        "case", cases(name), ids=lambda case: ascii(case.text.splitlines()[0][2:])
    )
    def test(case: Case) -> None:
        case.check(case.answer(names))

    return test
