"""The option --fail-if: exit codes, reasons on standard error, what is refused before reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.cli.main import cli

ROWS = {
    "user": [1, 1, 1, 2, 2, 3],
    "click": [1, 0, 0, 0, 1, 0],
    "pctr": [0.9, 0.5, 0.1, 0.8, 0.7, 0.3],
    "other": [0.1, 0.5, 0.9, 0.7, 0.8, 0.3],
}
COLUMNS = ["--group", "user", "--label", "click", "--score", "pctr,other", "-m", "GAUC,AUC"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    parquet.write_table(pa.table(ROWS), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*conditions: str, source: str = "log.parquet", more: tuple[str, ...] = ()) -> Result:
    gates = [word for condition in conditions for word in ("--fail-if", condition)]
    arguments = ["evaluate", source, *COLUMNS, "-f", "json", *more, *gates]
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


@pytest.mark.usefixtures("folder")
def test_fail_if__gate_passed__is_as_without_one() -> None:
    outcome = run("GAUC < 0.3")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert json.loads(outcome.stdout)["results"] == json.loads(run().stdout)["results"]


def test_fail_if__gate_failed__reports_all_the_same_and_exits_3(folder: Path) -> None:
    outcome = run("rows < 1", "GAUC < 0.5", "GAUC[slot=1] < 0", more=("-q",))
    assert outcome.exit_code == 3
    assert outcome.stderr.splitlines() == [
        "gate failed: GAUC value < 0.5: other: 0.4",
        "gate failed: GAUC[slot=1] value < 0: the result has no slice 'slot=1'",
    ]
    assert json.loads(outcome.stdout)["results"] == json.loads(run().stdout)["results"]
    outcome = run("GAUC < 0.5", more=("-o", "report.json", "--per-group", "users.csv"))
    assert (outcome.exit_code, outcome.stdout) == (3, "")
    assert outcome.stderr.splitlines()[-1] == "gate failed: GAUC value < 0.5: other: 0.4"
    assert {path.name for path in folder.iterdir()} == {"log.parquet", "report.json", "users.csv"}


@pytest.mark.parametrize(
    "condition,complaint",
    [
        ("GACU < 0.5", "at character 1, found GACU. Did you mean 'GAUC'?"),
        ("RR < 0.5", "RR is none of the measures GAUC, AUC. Add it to --measures."),
        ("ptcr:GAUC < 0.5", "none of 'pctr', 'other'. Did you mean 'pctr'? Add it to --score."),
        ("AUC ci_low < 0.5", "compare its value, or write AUC(se='clustered') in --measures."),
    ],
)
def test_fail_if__gate_that_cannot_be_read__is_refused_before_rows_are(
    condition: str, complaint: str
) -> None:
    outcome = run(condition, source="there is no such file.parquet")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith('error: gate "')
    assert complaint in outcome.stderr


def test_fail_if__of_compare__is_refused_where_no_test_has_an_error() -> None:
    arguments = ["compare", "none.parquet", *COLUMNS[:6], "--baseline", "pctr"]

    def complaint(measures: str, condition: str, *more: str) -> str:
        words = [*arguments, "-m", measures, "--fail-if", condition, *more]
        outcome = CliRunner().invoke(cli, words, catch_exceptions=False)
        assert outcome.exit_code == 2
        return outcome.stderr

    for condition in ("AUC p_value < 0.1", "AUC ci_low < 0.5", "LogLoss delta_ci_high < 0"):
        assert "none.parquet" in complaint("AUC,LogLoss", condition)
    for test in ("randomisation", "bootstrap", "wilcoxon"):
        assert "none.parquet" in complaint("GAUC", "GAUC p_adjusted < 0.1", "--test", test)
    for text in ("AUC(se=None)", "AUC(max_fpr=0.1)", "ECCE"):
        message = complaint(text, f"{text} p_adjusted < 0.1")
        assert f"got p_adjusted of {text.replace('(se=None)', '')}, which has no" in message


def test_fail_if__empty_input__is_bad_input(folder: Path) -> None:
    empty = pa.table(ROWS).slice(0, 0)
    parquet.write_table(empty, folder / "empty.parquet")
    outcome = run("GAUC < 0", source="empty.parquet")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "SOURCES: must have rows, got none" in outcome.stderr
    # In Python the gate fails.
    verdict = fe.evaluate(
        empty, group="user", label="click", score=["pctr", "other"], measures="GAUC"
    ).check("GAUC < 0")
    assert verdict.lines() == [
        f"gate failed: GAUC value < 0: {score}: no group stands behind GAUC"
        for score in ("pctr", "other")
    ]


@pytest.mark.usefixtures("folder")
def test_fail_if__measure_of_a_profile__is_known_before_reading() -> None:
    outcome = run("LogLoss < 0", more=("-m", "LogLoss", "--sampling-rate", "0.5"))
    assert outcome.exit_code == 0, outcome.output
    given = ("-m", "LogLoss(sampling_rate=1)", "--sampling-rate", "0.5")
    assert run("LogLoss(sampling_rate=1) < 0", more=given).exit_code == 0


@pytest.mark.usefixtures("folder")
def test_fail_if__number_of_groups__groups_rows_that_no_measure_groups() -> None:
    more = ("-m", "AUC")
    for condition in ("groups < 3", "AUC groups != 3", "AUC groups_used < 3"):
        assert run(condition, more=more).exit_code == 0, condition
    assert run("AUC dropped_share > 0", more=more).exit_code == 0
    outcome = run("groups < 4", more=more)
    assert (outcome.exit_code, outcome.stderr) == (3, "gate failed: groups < 4: 3\n")


@pytest.mark.usefixtures("folder")
def test_fail_if__number_of_groups__of_no_group__is_refused_before_rows_are() -> None:
    arguments = ["log.parquet", "-l", "click", "-s", "pctr", "-m", "AUC", "--fail-if", "groups < 4"]
    outcome = CliRunner().invoke(cli, ["evaluate", *arguments])
    assert outcome.exit_code == 2
    assert 'gate "groups < 4": it counts groups; name the key columns by --group.' in outcome.stderr


def test_fail_if__many_reasons__are_cut_short(folder: Path) -> None:
    outcome = run(*[f"GAUC < 0.5 + {n}" for n in range(30)])
    lines = outcome.stderr.splitlines()
    assert (outcome.exit_code, len(lines)) == (3, 21)
    assert lines[-1] == "gate failed: 39 more"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("measures, kept", [("GAUC,AUC", False), ("AUC,LogLoss", True)])
def test_fail_if__of_groups__keeps_their_values_only_if_no_measure_groups_rows(
    measures: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Any] = []
    monkeypatch.setattr(
        "fastrank_eval.apps.cli.main.exit_if_failed", lambda result, _: results.append(result)
    )
    arguments = ["evaluate", "log.parquet", *COLUMNS[:-1], measures, "--fail-if", "groups < 2"]
    assert CliRunner().invoke(cli, arguments, catch_exceptions=False).exit_code == 0
    assert results[0].meta.groups == 3
    if kept:
        assert results[0].per_group.num_rows == 3
    else:
        with pytest.raises(ArgumentError, match="values per group were not kept"):
            _ = results[0].per_group
