"""Computed scores in a nightly report: configuration, conventions, commands and comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fastrank_eval import evaluate
from fastrank_eval.apps.nightly.config import read_config
from fastrank_eval.apps.nightly.page import page
from tests.apps.nightly.test_config import LEAST, read
from tests.apps.nightly.test_next_steps import values_of
from tests.support.nightly_runs import CONFIG, adjust, kept, nightly, on

SCORES = """scores = { score_a = "score_a", product = "score_a*score_b" }"""
COMPUTED = CONFIG.replace('scores = ["score_a", "score_b"]', SCORES)


@pytest.fixture
def folder(nightly_folder: Path) -> Path:
    (nightly_folder / "nightly.toml").write_text(COMPUTED)
    return nightly_folder


def test_scores__as_a_table__are_expressions(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST).models == ("old", "new")
    line = 'scores = ["old", "new"]'
    for text in (
        """scores = { old = "old", x = "old * new" }""",
        """baseline = "old"\n[models.scores]\nold = "old"\nx = "old * new\"""",
    ):
        config = read(tmp_path, LEAST.replace(line, text))
        assert config.scores == {"old": "old", "x": "old * new"}
        assert config.models == ("old", "x")
        assert config.scores_of(["x"]) == {"x": "old * new"}


def test_night__has_the_values_of_the_column_and_its_expression(folder: Path) -> None:
    assert nightly("--date", on(1), "-q").exit_code == 0
    (night,) = kept()
    assert night.models == ("score_a", "product")
    assert night.conventions["score"] == {"product": "score_a * score_b"}
    config = read_config(folder / "nightly.toml")
    result = evaluate(
        str(folder / "logs" / f"day={on(1)}"), group="user_id", label="click",
        score=config.scores, measures="GAUC,LogLoss",
    )  # fmt: skip
    stored = {(v.score, v.slice, v.measure): v.value for v in night.values}
    for value in result:
        assert stored[value.score, "all", value.measure] == value.value
    assert "product: score_a * score_b" in page([night])


def test_failed_gate__command_and_groups_compute_the_score(folder: Path) -> None:
    adjust(folder, '[gates]\nfail_if = ["product:GAUC > 0", "GAUC[slot=side] delta > -1"]\n'
                   '[output]\nfolder = "pages"\n')  # fmt: skip
    outcome = nightly("--date", on(1), "--json", "-")
    assert (outcome.exit_code, outcome.stderr) == (3, "")
    night = json.loads(outcome.stdout)["nights"][0]
    stored = {(v.score, v.slice, v.measure): v.value for v in kept()[0].values}
    commands = [step["command"] for step in night["next_steps"]]
    assert commands
    for step in night["next_steps"]:
        assert "--score 'product = score_a * score_b'" in step["command"]
        values = values_of(step["command"])
        expected = stored[step["score"], step["slice"], step["measure"]]
        assert values[step["score"], "all", step["measure"]] == expected
    groups = pq.read_table(folder / "pages" / f"{on(1)}-groups.parquet")
    assert set(groups["score"].to_pylist()) == {"product"}
