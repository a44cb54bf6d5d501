"""Doors through which a reader sees an evaluation, for options that leave out rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

import fastrank_eval as fe
from fastrank_eval.apps.nightly.history import History
from tests.support.commands import output

COLUMNS: dict[str, Any] = {"group": "user", "label": "click", "score": ["a", "b"]}
CHOICES: dict[str, Any] = {**COLUMNS, "measures": ["GAUC", "LogLoss"]}


def log_without(column: str) -> pa.Table:
    """A log of 60 users and 600 rows, in which 37 rows lack one column."""
    rows = range(600)
    columns: dict[str, list[Any]] = {
        "user": [row // 10 for row in rows],
        "click": [int(row % 10 in (2, 7) or row % 70 == 0) for row in rows],
        "a": [0.01 + row * 7 % 89 / 100 for row in rows],
        "b": [0.01 + row * 11 % 97 / 100 for row in rows],
    }
    for row in range(5, 5 + 37 * 16, 16):
        columns[column][row] = None
    return pa.table(columns)


#: Each option that leaves out rows, with the column that 37 rows lack, and the note of the report.
DROPS = {
    "unjudged": ("click", {"unjudged": "drop"}, "37 rows without a label left out"),
    "unscored": ("a", {"unretrieved": "drop"}, "37 rows without the score of a model left out"),
    "null_group": ("user", {"null_groups": "drop"}, "37 rows without a group key left out"),
}


def on_the_command_line(name: str) -> Callable[[pa.Table, dict[str, Any]], str]:
    def run(log: pa.Table, option: dict[str, Any]) -> str:
        parquet.write_table(log, "log.parquet")
        options = [
            text for key, value in option.items() for text in (f"--{key.replace('_', '-')}", value)
        ]
        models = ["-s", "a,b", *(["-b", "a"] * (name == "compare"))]
        columns = ["-g", "user", "-l", "click", *models, "-m", "GAUC,LogLoss"]
        return output(name, "log.parquet", *columns, *options)

    return run


def evaluated(log: pa.Table, option: dict[str, Any], **more: Any) -> Any:
    return fe.evaluate(log, **{**CHOICES, **option, **more})


def compared(log: pa.Table, option: dict[str, Any]) -> fe.Comparison:
    return fe.compare(log, **CHOICES, **option, baseline="a")


def merged(log: pa.Table, option: dict[str, Any]) -> fe.State:
    """The merged states of both halves of the users, one of them of scattered rows."""
    one, two = log.slice(0, 300), log.slice(300)
    parts = [fe.partial(part, **CHOICES, **option, baseline="a")
             for part in (one.take([*range(1, 300, 2), *range(0, 300, 2)]), two)]  # fmt: skip
    return fe.State.from_bytes(parts[0].merge(parts[1]).to_bytes())


NIGHT = """
title = "Clicks"
[source]
path = "{date}.parquet"
[columns]
group = "user"
label = "click"
[models]
scores = ["a", "b"]
baseline = "a"
[evaluate]
measures = ["GAUC", "LogLoss"]
OPTION
[output]
folder = "pages"
"""


def night(what: str) -> Callable[[pa.Table, dict[str, Any]], str]:
    def run(log: pa.Table, option: dict[str, Any]) -> str:
        parquet.write_table(log, "2026-11-19.parquet")
        ((key, value),) = option.items()
        Path("nightly.toml").write_text(NIGHT.replace("OPTION", f'{key} = "{value}"'))
        run_night = ("nightly", "nightly.toml", "--date", "2026-11-19")
        out = output(*run_night, "--json", "night.json")
        if what == "history":
            with History("history.db", readonly=True) as history:
                (read,) = history.read()
            return " ".join([*read.notes, json.dumps(read.conventions)])
        pages = " ".join(page.read_text() for page in Path().rglob("2026-11-19*.html"))
        of = {"page": pages, "JSON": Path("night.json"), "text": out}
        text = of[what]
        return text.read_text() if isinstance(text, Path) else str(text)

    return run


#: Each door through which a reader sees an evaluation.
DOORS: dict[str, Callable[[pa.Table, dict[str, Any]], object]] = {
    "text": lambda log, option: repr(evaluated(log, option)),
    "JSON": lambda log, option: evaluated(log, option).to_json(),
    "slices": lambda log, option: repr(evaluated(log, option, by="user:30")),
    "without groups": lambda log, option: repr(evaluated(log, option, measures="AUC")),
    "several labels": lambda log, option: repr(evaluated(log, option, label=["click"])),
    "scattered rows": lambda log, option: repr(evaluated(log, option, order="scattered")),
    "saved state": lambda log, option: repr(evaluated(log, option, keep="state").state.result()),
    "merged states": lambda log, option: repr(merged(log, option).result()),
    "partial": lambda log, option: repr(fe.partial(log, **CHOICES, **option).result()),
    "comparison": lambda log, option: repr(compared(log, option)),
    "compared states": lambda log, option: repr(merged(log, option).compare(baseline="a")),
    "compared results": lambda log, option: repr(
        evaluated(log, option, score="a").compare(evaluated(log, option, score="b"))
    ),
    "curve": lambda log, option: repr(fe.curve("roc", log, **COLUMNS, **option)),
    "explanation": lambda log, option: fe.explain(log, **CHOICES, **option, profile="sklearn"),
    "command line": on_the_command_line("evaluate"),
    "command line, comparison": on_the_command_line("compare"),
    "a night": night("text"),
    "page of a night": night("page"),
    "JSON of a night": night("JSON"),
    "history": night("history"),
}  # fmt: skip

#: Doors of functions that know no groups.
DOORS_OF_ROWS: dict[str, Callable[[pa.Table, dict[str, Any]], object]] = {
    "threshold": lambda log, option: best_threshold(log, option),
    "threshold, JSON": lambda log, option: json.dumps(best_threshold(log, option).document()),
    "confusion": lambda log, option: (
        fe.confusion(log, label="click", score="a", **option).schema.metadata
    ),
}


def best_threshold(log: pa.Table, option: dict[str, Any]) -> fe.BestThreshold:
    return fe.best_threshold(log, label="click", score="a", **option)
