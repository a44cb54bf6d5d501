"""Write the files of this version that later ones must read: ``python -m tests.upgrades.files``.

The folder is ``tests/fixtures/upgrades/VERSION``. It is written once, before a release, and never
edited after it: ``--overwrite`` is for a version that is not released.

* ``nightly.toml``: a configuration with most keys, and ``logs/``, small nights that it reads;
* ``history.db``: the history of the first nights;
* ``report.state``: a state with slices, groups and pooled measures;
* ``expected.json``: the numbers of the nights and of the state.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner, Result

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.engine.records import plain_value

FOLDER = Path(__file__).parents[1] / "fixtures" / "upgrades"
#: Nights of the history, and one more that a later version adds.
NIGHTS = ("2026-11-02", "2026-11-03")
NEXT = "2026-11-04"
CONFIG = """\
title = "Upgrades"

[source]
path = "logs/day={date}"
where = "position < 9"

[columns]
group = "user_id"
label = ["click", "order"]
item = "item"

[models]
scores = ["score_a", "score_b"]
baseline = "score_a"

[evaluate]
measures = ["GAUC", "LogLoss", "MultiECCE(columns='slot')"]
confidence = 0.9
ties = "expected"
order = "scattered"

[slices]
by = ["slot"]
min_groups = 2

[gates]
fail_if = ["GAUC delta_ci_high < -0.2", "GAUC[slot=a] < 0.1"]
fail_if_yesterday = ["GAUC delta_ci_high < -0.3"]
min_distinct_scores = 2

[quality]
min_rows = 10
max_volume_drift = 9.0

[drift]
columns = ["position"]
nights = 7

[history]
file = "history.db"
states = "slices"

[labels.order]
measures = ["GAUC", "LogLoss"]
fail_if = ["LogLoss > 9"]
"""


def write_night(folder: Path, number: int) -> None:
    """Write the rows of a night, which any machine makes alike."""
    rows = np.arange(240)
    a = (rows * (37 + number) % 101 + 1) / 103
    table = pa.table(
        {
            "user_id": rows // 8,
            "item": rows,
            "position": rows % 8,
            "slot": [("a", "b", "c")[row // 2 % 3] for row in rows.tolist()],
            "click": ((rows * 7 + number) % 11 < 4).astype(np.int8),
            "order": ((rows * 7 + number) % 11 < 1).astype(np.int8),
            "score_a": a,
            "score_b": (a + (rows * 53 % 97 + 1) / 99) / 2,
        }
    )
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "part.parquet", compression="zstd")


def nightly(*arguments: str) -> Result:
    """Run the command in the current folder."""
    return CliRunner().invoke(cli, ["nightly", "nightly.toml", *arguments], catch_exceptions=False)


def night_values(night: Night) -> dict[str, Any]:
    """The content of a night, without what each run or version changes, and without curves."""
    content: dict[str, Any] = plain_value(asdict(night))
    left_out = ("seconds", "version", "curves")
    return {name: value for name, value in content.items() if name not in left_out}


def history_values(path: Path) -> dict[str, dict[str, Any]]:
    """The nights of a history by label and date."""
    found: dict[str, dict[str, Any]] = {}
    with History(path) as history:
        for label in ("click", "order"):
            history.label = label
            nights = history.read()
            found[label] = {night.date.isoformat(): night_values(night) for night in nights}
    return found


def state_values(result: fe.Result) -> list[dict[str, Any]]:
    """The numbers of a state."""
    values: list[dict[str, Any]] = result.document()["results"]
    return values


def save_state(path: Path) -> fe.State:
    """Write a state of the first night."""
    state = fe.evaluate(
        f"logs/day={NIGHTS[0]}",
        group="user_id",
        label="click",
        score=["score_a", "score_b"],
        measures="GAUC,nDCG@5,AUC,AUC(se='clustered'),LogLoss,ECE(bins=4),FieldECE(field='slot')",
        by="slot",
        baseline="score_a",
        keep_state=True,
        keep_groups=True,
    ).state
    state.save(path)
    return state


def main(arguments: list[str]) -> None:
    """Write the folder of this version."""
    folder = FOLDER / fe.__version__
    if folder.exists() and arguments != ["--overwrite"]:
        raise SystemExit(f"{folder} exists: files of a released version are never written again.")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with contextlib.chdir(folder):
        Path("nightly.toml").write_text(CONFIG, encoding="utf-8")
        for number, date in enumerate((*NIGHTS, NEXT)):
            write_night(Path("logs", f"day={date}"), number)
        done = nightly("--backfill", f"{NIGHTS[0]}..{NIGHTS[-1]}")
        if done.exit_code not in (0, 3):
            raise SystemExit(done.output)
        expected = {
            "history": history_values(Path("history.db")),
            "state": state_values(save_state(Path("report.state")).result()),
        }
        text = json.dumps(expected, separators=(",", ":"), allow_nan=False)
        Path("expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
