"""Texts that are told, in files: what is given, and lines that begin with `> `.

A blank line ends a case, a line that begins with `# ` is a comment, and `…` in a line that is told
stands for any text. With `REWRITE=1` in the environment, tests write what they find in place of
what is told; look at the difference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastrank_eval as fe

FOLDER = Path(__file__).parents[1] / "fixtures" / "told"


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
        """What Python answers: the value of the last line, or an error of ours on the way."""
        *statements, expression = self.given
        names = dict(names)
        try:
            exec("\n".join(statements), names)  # noqa: S102
            return str(eval(expression, names)).splitlines()  # noqa: S307
        except fe.FastRankEvalError as error:
            return f"{type(error).__name__}: {error}".splitlines()

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
