"""Options of commands: profiles, scores, labels, classes, gates."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from pyarrow import parquet

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError
from tests.analysis.test_multiclass import CLASSES, evaluated, rows_of, table
from tests.analysis.test_multiclass import COLUMNS as OF_CLASSES
from tests.engine.test_together import log_of
from tests.support.commands import COLUMNS, ROWS, document, output, run
from tests.support.transcripts import Case, cases

pytestmark = pytest.mark.usefixtures("folder")
LOG = ["log.parquet", *COLUMNS]


def tied() -> None:
    """Write the log with two scores that are equal."""
    parquet.write_table(pa.table({**ROWS, "pctr": [0.9, 0.5, 0.1, 0.8, 0.8, 0.3]}), "log.parquet")


def computed() -> None:
    """Write the log with columns of odd names, and the product of two others."""
    rows = {**ROWS, "a,b": [1, 2, 3, 4, 5, 6], "a=b": [6, 5, 4, 3, 2, 1]}
    product = [a * b for a, b in zip(ROWS["pctr"], ROWS["other"], strict=True)]
    parquet.write_table(pa.table({**rows, "stored": product}), "log.parquet")


def scored(*scores: str) -> tuple[dict[str, float], Any]:
    words = (word for each in scores for word in ("-s", each))
    content = document("evaluate", *LOG[:-2], "-m", "GAUC", *words)
    found = {value["score"]: value["value"] for value in content["results"]}
    return found, content["meta"]["conventions"].get("score")


def gated(*words: str) -> str:
    """How a command with gates ends, and what it says."""
    done = run(*GATED, *words)
    return f"{done.exit_code}\n{done.stderr}"


@pytest.mark.parametrize("case", cases("options"), ids=lambda case: ascii(str(case)))
def test_options__do_what_is_told(case: Case) -> None:
    case.check(case.answer({**globals(), "LOG": LOG}))


# ---- --label: several labels ---------------------------------------------------------------------

GROUPED = ["-g", "user", "-m", "GAUC,RR", "-q"]
ONE = ["evaluate", "two.parquet", *GROUPED, "-s", "pctr"]
TWO = ["compare", "two.parquet", *GROUPED, "-s", "pctr,pcvr", "-b", "pctr"]


@pytest.fixture
def labelled(folder: Path) -> None:
    log = log_of(7)
    parquet.write_table(log.append_column("a,b", log["click"]), "two.parquet")


@pytest.mark.usefixtures("labelled")
@pytest.mark.parametrize("words, line", [(ONE, "order,pctr,,all,GAUC,"), (TWO, "order,pcvr,pctr,")])
def test_labels__each_have_a_table_and_the_first_column_of_files(
    words: list[str], line: str
) -> None:
    for labels in (["-l", "click,order"], ["-l", "click", "--label", "order"]):
        lines = output(*words, *labels).splitlines()
        assert [one for one in lines if one in ("click", "order")] == ["click", "order"]
    output(*words, *labels, "-o", "report.csv", "--per-group", "groups.csv")
    assert Path("report.csv").read_text().splitlines()[3].startswith(line)
    groups = pacsv.read_csv("groups.csv")
    assert groups.column_names[0] == "label"
    assert set(groups["label"].to_pylist()) == {"click", "order"}
    assert output(*ONE, "-l", "click").splitlines()[0] == "pctr"
    output(*ONE, "-l", r"a\,b")


@pytest.mark.usefixtures("labelled")
def test_labels__in_json__have_the_values_of_each() -> None:
    columns = {"group": "user", "measures": "GAUC,RR"}
    found = document(*ONE, "-l", "click,order")
    compared = document(*TWO, "-l", "click,order", "--largest-changes", "2")
    assert list(found) == list(compared) == ["schema", "labels"]
    for label in ("click", "order"):
        one = fe.evaluate("two.parquet", **columns, label=label, score="pctr")  # type: ignore[arg-type]
        assert found["labels"][label]["results"] == one.document()["results"]
        two = fe.compare(
            "two.parquet", **columns, label=label, score=["pctr", "pcvr"], baseline="pctr"
        ).document(largest_changes=2)  # type: ignore[arg-type]
        for part in ("comparisons", "largest_changes"):
            assert compared["labels"][label][part] == two[part]


@pytest.mark.usefixtures("labelled")
def test_labels__gates__are_judged_for_each() -> None:
    done = run(*ONE, "-l", "click,order", "--fail-if", "GAUC < 0.52")
    assert done.exit_code == 3
    assert done.stderr == "gate failed: GAUC value < 0.52: click, pctr: 0.506758\n"
    done = run(*TWO, "-l", "click,order", "--fail-if", "RR delta > -2")
    assert done.exit_code == 3
    first, second = done.stderr.splitlines()
    assert ("click" in first, "order" in second) == (True, True)


# ---- classes -------------------------------------------------------------------------------------

OF_KIND = ["classes", "animals.parquet", "-l", "kind",
           "-s", ",".join(f"{name}={column}" for name, column in OF_CLASSES.items())]  # fmt: skip


@pytest.fixture
def animals(folder: Path) -> None:
    parquet.write_table(table(*rows_of(11, rows=30)), "animals.parquet")


@pytest.mark.usefixtures("animals")
def test_classes__prints_what_python_finds() -> None:
    found = document(
        *OF_KIND, "-w", "weight", "-m", "AUC,PPV", "-a", "macro,ovo", "--undefined", "zero"
    )
    ours = evaluated(
        "animals.parquet", weight="weight", measures="AUC,PPV", average=["macro", "ovo"],
        undefined="zero",
    ).document()  # fmt: skip
    for part in ("results", "classes", "confusion"):
        assert found[part] == ours[part]


@pytest.mark.usefixtures("animals")
def test_classes__table_and_csv__have_averages_and_classes() -> None:
    text = output(*OF_KIND)
    assert "macro" in text
    for name in CLASSES:
        assert f"\n{name} " in text
    lines = list(csv.DictReader(io.StringIO(output(*OF_KIND, "-f", "csv"))))
    assert [(line["slice"], line["measure"]) for line in lines][-1] == ("all", "Accuracy")


# ---- --fail-if -----------------------------------------------------------------------------------

GATED = ["evaluate", "log.parquet", *COLUMNS, "-s", "other", "-m", "GAUC,AUC", "-f", "json"]


def gates(*conditions: str) -> list[str]:
    return [word for condition in conditions for word in ("--fail-if", condition)]


@pytest.mark.parametrize(
    "words, code, told",
    [
        (gates("GAUC < 0.3"), 0, []),
        (
            gates("rows < 1", "GAUC < 0.5", "GAUC[slot=1] < 0"),
            3,
            ["gate failed: GAUC value < 0.5: other: 0.4",
             "gate failed: GAUC[slot=1] value < 0: the result has no slice 'slot=1'"],
        ),
        (
            [*gates("GAUC < 0.5"), "-o", "report.json", "--per-group", "users.csv"],
            3,
            ["gate failed: GAUC value < 0.5: other: 0.4"],
        ),
    ],
    ids=["passed", "failed", "failed, with files"],
)  # fmt: skip
def test_fail_if__a_gate__changes_no_report(
    words: list[str], code: int, told: list[str], folder: Path
) -> None:
    outcome = run(*GATED, "-q", *words)
    assert (outcome.exit_code, outcome.stderr.splitlines()) == (code, told)
    written = {path.name for path in folder.iterdir()} - {"log.parquet"}
    assert written == ({"report.json", "users.csv"} if "-o" in words else set())
    report = outcome.stdout or Path("report.json").read_text()
    assert json.loads(report)["results"] == json.loads(output(*GATED))["results"]


@pytest.mark.parametrize("measures, kept", [("GAUC,AUC", False), ("AUC,LogLoss", True)])
def test_fail_if__of_groups__keeps_their_values_only_if_no_measure_groups_rows(
    measures: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[Any] = []
    monkeypatch.setattr(
        "fastrank_eval.apps.cli.main.exit_if_failed", lambda result, _: results.append(result)
    )
    output("evaluate", *LOG, "-m", measures, *gates("groups < 2"))
    assert results[0].meta.groups == 3
    if kept:
        assert results[0].per_group.num_rows == 3
    else:
        with pytest.raises(ArgumentError, match="values per group were not kept"):
            _ = results[0].per_group
