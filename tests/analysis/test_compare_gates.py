"""Gates on comparisons: fields of differences for candidates, those of values for every model."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.results.gate_parser import COMPARISON_FIELDS
from tests.support.click_logs import click_log

COLUMNS = {"group": "user", "label": "click"}
MEASURES = "GAUC,AUC,AP,KS"


@pytest.fixture(scope="module")
def log():
    found = click_log(300, seed=3)
    found["slot"] = found["user"] % 2
    return found


@pytest.fixture(scope="module")
def comparison(log):
    return fe.compare(
        log, **COLUMNS, score=["old", "new", "newer"], baseline="old", measures=MEASURES, by="slot"
    )


@pytest.mark.parametrize("field", COMPARISON_FIELDS)
def test_every_field_of_comparisons__is_read_of_the_named_candidate(comparison, field) -> None:
    line = comparison.find("GAUC", "newer")
    # A gate corrects its own p-values: here one.
    number = line.p_value if field == "p_adjusted" else getattr(line, field)
    assert (line.delta_se, line.delta_ci_low) == (line.se, line.ci_low)
    assert not comparison.check(f"newer:GAUC {field} = {number!r}")
    assert comparison.check(f"newer:GAUC {field} != {number!r}")


@pytest.mark.parametrize("field", ["value", "se", "ci_low", "ci_high", "weight", "groups_used"])
@pytest.mark.parametrize("score", ["old", "new"])
def test_fields_of_values__are_those_of_each_model_alone(comparison, log, field, score) -> None:
    alone = fe.evaluate(log, **COLUMNS, score=score, measures="GAUC", by="slot")
    for part, suffix in (("all", ""), ("slot=1", "[slot=1]")):
        number = next(getattr(v, field) for v in alone.values if v.slice == part)
        assert not comparison.check(f"{score}:GAUC{suffix} {field} = {number!r}")


def test_differences_of_no_named_model__are_those_of_every_candidate(comparison) -> None:
    failures = comparison.check("AP delta > -1").failures
    assert [(f.score, f.slice) for f in failures] == [("new", None), ("newer", None)]
    failures = comparison.check("AP[*] delta > -1").failures
    assert [(f.slice, f.score) for f in failures] == [
        (part, score) for part in ("slot=0", "slot=1") for score in ("new", "newer")
    ]
    failures = comparison.check("AP value > 0").failures
    assert [f.score for f in failures] == ["old", "new", "newer"]
    assert comparison.check("GAUC delta < -0.5", "AUC delta_ci_low < -0.5")


@pytest.mark.parametrize(
    "condition, said",
    [
        ("old:GAUC delta < 0", "GAUC has no delta: it is the baseline"),
        ("new:KS delta_se < 0", "delta_se of KS is undefined (has no standard error)"),
        ("new:AUC wins < 0", "wins of AUC(se='clustered') is undefined"),
        ("GAUC[slot=7] delta < 0", "the result has no slice 'slot=7'"),
        ("RR delta < 0", "RR is none of the measures"),
    ],
)
def test_what_cannot_be_told__fails(comparison, condition, said) -> None:
    verdict = comparison.check(condition)
    assert not verdict
    assert said in str(verdict)


def test_two_results__have_gates_too(log) -> None:
    base, other = (
        fe.evaluate(log, **COLUMNS, score=score, measures="GAUC,AP") for score in ("old", "new")
    )
    found = base.compare(other)
    assert found.check("GAUC delta_ci_low < -0.9", "old:GAUC value < 0.1")
    assert not found.check(f"GAUC delta_ci_low = {found.find('GAUC').ci_low!r}")
    assert not found.check(f"new:GAUC se = {next(v.se for v in other)!r}")


# ---- the command ---------------------------------------------------------------------------------


OPTIONS = ["-g", "user", "-l", "click", "-s", "old,new", "-b", "old", "-f", "json", "-q"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log) -> Path:
    parquet.write_table(pa.table(log), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, source: str = "log.parquet"):
    return CliRunner().invoke(
        cli, ["compare", source, *OPTIONS, *arguments], catch_exceptions=False
    )


@pytest.mark.usefixtures("folder")
def test_command__fails_with_code_3_and_reports_all_the_same() -> None:
    passed = run("--fail-if", "GAUC delta_ci_low < -0.9", "--fail-if", "AUC delta < -0.9")
    assert (passed.exit_code, passed.stderr) == (0, "")
    failed = run("--fail-if", "GAUC delta_ci_low > -0.9", "--fail-if", "AUC delta < -0.9")
    assert failed.exit_code == 3
    assert failed.stderr.startswith("gate failed: GAUC delta_ci_low > -0.9: new: -0.0")
    assert len(failed.stderr.splitlines()) == 1
    said = [json.loads(outcome.stdout)["comparisons"] for outcome in (passed, failed)]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "condition, said",
    [
        ("GAUC dleta < 0", "Did you mean 'delta'?"),
        ("RR(rel=2) delta < 0", "Add it to --measures"),
        ("nwe:GAUC delta < 0", "Did you mean 'new'? Add it to --score."),
    ],
)
def test_command__gate_that_cannot_be_read__is_refused_before_rows_are(condition, said) -> None:
    outcome = run("--fail-if", condition, source="there is no such file.parquet")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith('error: gate "')
    assert said in outcome.stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("profile", ["catboost", "sklearn"])
def test_command__measures_of_a_profile__are_known_by_what_was_asked_for(profile) -> None:
    outcome = run(
        "-m", "AUC,nDCG", "--profile", profile,
        "--fail-if", "AUC delta < -0.9 or nDCG delta < -0.9",
    )  # fmt: skip
    assert (outcome.exit_code, outcome.stderr) == (0, "")
