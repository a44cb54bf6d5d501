"""A terminal in miniature: what a user sees of what a program writes to one."""

from __future__ import annotations

import re

_STEP = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|(.)", re.DOTALL)


def shown(written: str, width: int = 80) -> list[str]:
    """Lines left on a terminal, without trailing blanks, up to the last that has text.

    Knows what the progress bar uses; anything else is an error.
    """
    lines: list[list[str]] = [[]]
    row = column = 0
    for step in _STEP.finditer(written):
        number, command, character = step.groups()
        if command == "m":
            continue
        if command == "A":
            row -= int(number or 1)
        elif command == "K":
            assert number == "2"
            lines[row] = []
        elif command:
            raise AssertionError(f"the terminal is told {step.group()!r}")
        elif character == "\r":
            column = 0
        elif character == "\n":
            row, column = row + 1, 0
        else:
            if column == width:
                row, column = row + 1, 0
            lines += [[] for _ in range(row + 1 - len(lines))]
            line = lines[row]
            line += " " * (column + 1 - len(line))
            line[column] = character
            column += 1
        lines += [[] for _ in range(row + 1 - len(lines))]
    texts = ["".join(line).rstrip() for line in lines]
    while texts and not texts[-1]:
        texts.pop()
    return texts
