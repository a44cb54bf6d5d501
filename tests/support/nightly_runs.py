"""Runs of ``fastrank-eval nightly`` in a folder with a simulated month, and what they left."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from click.testing import CliRunner, Result

from fastrank_eval.apps.cli.main import cli
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night

ROOT = Path(__file__).parents[2]
CONFIG = """
title = "Test"
[source]
path = "logs/day={date}"
[columns]
group = "user_id"
label = "click"
[models]
scores = ["score_a", "score_b"]
baseline = "score_a"
[evaluate]
measures = ["GAUC", "AUC", "LogLoss"]
[slices]
by = ["slot"]
min_groups = 10
"""


def nightly(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["nightly", *arguments], catch_exceptions=False)


def on(day: int) -> str:
    return f"2026-11-{day:02d}"


def days(text: str) -> range:
    """The days of a text such as 3, or 3-5."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def kept(path: str = "history.db") -> list[Night]:
    with History(path, readonly=True) as history:
        return history.read()


def kept_on(day: int) -> Night:
    (night,) = (night for night in kept() if night.date.day == day)
    return night


def dump(but: str = "") -> list[str]:
    """Everything in the history but one date, what the clock says, and merged periods."""
    database = sqlite3.connect("history.db")
    database.execute(
        "UPDATE night SET document = json_remove(document, '$.seconds', '$.written_at')"
    )
    database.execute("DELETE FROM state WHERE kind = 'periods'")
    lines = sorted(line for line in database.iterdump() if not but or f"'{but}'" not in line)
    database.rollback()
    database.close()
    return lines


def damage(night: str) -> None:
    """Make what a night keeps to be merged unreadable."""
    database = sqlite3.connect("history.db")
    found = database.execute("UPDATE state SET content = zeroblob(400) WHERE date = ?", (night,))
    assert found.rowcount > 0
    database.commit()
    database.close()


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def adjust(folder: Path, text: str) -> None:
    with (folder / "nightly.toml").open("a") as file:
        file.write(text)
