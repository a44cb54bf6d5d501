"""Several labels on the command line: `--label click,order`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import fastrank_eval as fe
from fastrank_eval.apps.cli.main import cli
from tests.engine.test_together import log_of


@pytest.fixture
def log(tmp_path: Path) -> Path:
    pq.write_table(log_of(7), tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def run(command: str, log: Path, *options: str) -> Result:
    models = {"evaluate": ["-s", "pctr"], "compare": ["-s", "pctr,pcvr", "-b", "pctr"]}[command]
    columns = [str(log), "-g", "user", *models, "-m", "GAUC,RR", "-q"]
    return CliRunner().invoke(cli, [command, *columns, *options])


def evaluate(log: Path, *options: str) -> Result:
    return run("evaluate", log, *options)


def compare(log: Path, *options: str) -> Result:
    return run("compare", log, "-l", "click,order", *options)


@pytest.mark.parametrize("command", ["evaluate", "compare"])
@pytest.mark.parametrize("labels", [["-l", "click,order"], ["-l", "click", "--label", "order"]])
def test_labels__each_have_a_table(log: Path, command: str, labels: list[str]) -> None:
    done = run(command, log, *labels)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in ("click", "order")] == ["click", "order"]


@pytest.mark.parametrize(
    "command, line", [("evaluate", "order,pctr,,all,GAUC,"), ("compare", "order,pcvr,pctr,")]
)
def test_output_files__have_the_label_in_front(log: Path, command: str, line: str) -> None:
    groups, report = log.with_name("groups.csv"), log.with_name("report.csv")
    done = run(command, log, "-l", "click,order", "-o", str(report), "--per-group", str(groups))
    assert done.exit_code == 0, done.output
    assert report.read_text().splitlines()[3].startswith(line)
    table = pacsv.read_csv(groups)
    assert table.column_names[0] == "label"
    assert set(table["label"].to_pylist()) == {"click", "order"}


def test_json__has_the_values_of_each_label(log: Path) -> None:
    found = json.loads(evaluate(log, "-l", "click,order", "-f", "json").stdout)
    wanted = fe.evaluate(
        log, group="user", label=["click", "order"], score="pctr", measures="GAUC,RR"
    ).document()
    assert list(found) == ["schema", "labels"]
    for label in ("click", "order"):
        assert found["labels"][label]["results"] == wanted["labels"][label]["results"]


def test_gates__are_judged_for_every_label(log: Path) -> None:
    done = evaluate(log, "-l", "click,order", "--fail-if", "GAUC < 0.52")
    assert done.exit_code == 3
    assert done.stderr == "gate failed: GAUC value < 0.52: click, pctr: 0.506758\n"


def test_one_label__is_reported_without_heading(log: Path) -> None:
    assert evaluate(log, "-l", "click").stdout.splitlines()[0] == "pctr"


def test_comma_in_a_name__is_escaped(log: Path) -> None:
    table = pq.read_table(log)
    pq.write_table(table.append_column("a,b", table["click"]), log)
    assert "label column" not in (done := evaluate(log, "-l", r"a\,b")).output
    assert done.exit_code == 0


def test_saved_state__is_of_one_label(log: Path) -> None:
    file = log.with_name("two.state")
    done = evaluate(log, "-l", "click,order", "--save-state", str(file))
    assert done.exit_code == 2
    assert done.stderr == (
        "error: --save-state: must be of one label, got click, order; name one by --label, or "
        "leave it out.\n"
    )
    assert not file.exists()


def test_label_twice__is_refused(log: Path) -> None:
    done = evaluate(log, "-l", "click", "-l", "click")
    assert done.exit_code == 2
    assert "must name different columns, got 'click' more than once" in done.stderr


def test_compare__json_has_the_values_of_each_label(log: Path) -> None:
    found = json.loads(compare(log, "-f", "json", "--movers", "2").stdout)
    assert list(found) == ["schema", "labels"]
    for label in ("click", "order"):
        wanted = fe.compare(
            log, group="user", label=label, score=["pctr", "pcvr"], baseline="pctr",
            measures="GAUC,RR",
        ).document(movers=2)  # fmt: skip
        assert found["labels"][label]["comparisons"] == wanted["comparisons"]
        assert found["labels"][label]["movers"] == wanted["movers"]


def test_compare__gates_are_judged_for_every_label(log: Path) -> None:
    done = compare(log, "--fail-if", "RR delta > -2")
    assert done.exit_code == 3
    reasons = done.stderr.splitlines()
    assert ["click" in reasons[0], "order" in reasons[1], len(reasons)] == [True, True, 2]


def test_compare__without_a_label_names_it(log: Path) -> None:
    done = CliRunner().invoke(cli, ["compare", str(log), "-g", "user", "-s", "pcvr", "-b", "pctr"])
    assert done.exit_code == 2
    assert "--label is missing" in done.stderr
