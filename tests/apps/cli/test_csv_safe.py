"""CSV for spreadsheets: ``--csv-safe`` leaves no cell that a spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import fastrank_eval
from fastrank_eval.apps.cli.main import cli

FORMULAS = ("=1+1", "+b", "-a", "@sum", "\tx", "\rx")
LOG = {
    "user": ["=1+1", "=1+1", "+b", "+b", "-a", "-a", "@sum", "@sum", "\tx", "\tx", "\rx", "\rx"],
    "click": [1, 0] * 6,
    "=new": [0.75, 0.5, 0.25, 0.5, 0.75, 0.25] * 2,
    "@old": [0.5, 0.25, 0.75, 0.5, 0.5, 0.25] * 2,
    "@cat": [0.5, 0.75, 0.25, 0.5, 0.75, 0.25] * 2,
    "-kind": ["=cat", "dog"] * 6,
}
ROWS = ["log.parquet", "-g", "user", "-l", "click"]
MODELS = ["-s", r"\=new,@old"]
COMPARED = [*ROWS, *MODELS, "--baseline", "@old"]
COMMANDS = {
    "evaluate": ["evaluate", *ROWS, *MODELS, "-m", "GAUC", "--by", '"-kind"', "-f", "csv"],
    "compare": ["compare", *COMPARED, "-m", "GAUC", "--by", '"-kind"', "-f", "csv"],
    "compare states": ["compare", "one.state", "-f", "csv"],
    "merge": ["merge", "one.state", "-f", "csv"],
    "merge and compare": ["merge", "one.state", "--compare", "-f", "csv"],
    "curve": ["curve", "roc", *ROWS, *MODELS],
    "threshold": ["threshold", "log.parquet", "-l", "click", *MODELS, "-f", "csv"],
    "classes": ["classes", "log.parquet", "-l", "-kind", "-s", "=cat=@cat,dog=@old", "-m", "AUC",
                "-f", "csv"],
    "trec": ["trec", "-q", "-m", "map", "-f", "csv", "qrels", "=run"],
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    parquet.write_table(pa.table(LOG), folder / "log.parquet")
    (folder / "qrels").write_text("=q 0 d1 1\n@q 0 d1 1\n")
    (folder / "=run").write_text("=q Q0 d1 1 0.5 =tag\n@q Q0 d1 1 0.5 =tag\n")
    keeping = ["--save-state", str(folder / "one.state"), "-m", "GAUC", "--keep-groups", "-q"]
    source = [str(folder / "log.parquet"), *COMPARED[1:]]
    outcome = CliRunner().invoke(cli, ["evaluate", *source, *keeping], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return folder


@pytest.fixture(autouse=True)
def _there(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)


def printed(*arguments: str) -> str:
    outcome = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout_bytes.decode()


def cells(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def is_formula(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    return False


@pytest.mark.parametrize("name", COMMANDS)
def test_command__writes_an_apostrophe_before_formulas_and_nothing_else_differs(name: str) -> None:
    given = cells(printed(*COMMANDS[name]))
    safe = cells(printed(*COMMANDS[name], "--csv-safe"))
    if name != "classes":  # which names no class, and no column
        assert any(is_formula(cell) for row in given for cell in row)
    assert safe == [["'" * is_formula(cell) + cell for cell in row] for row in given]


@pytest.mark.parametrize(
    "arguments, option",
    [
        (["evaluate", *ROWS, *MODELS, "-m", "GAUC"], "--per-group"),
        (["compare", *COMPARED, "-m", "GAUC"], "--per-group"),
        (["merge", "one.state"], "--per-group"),
        (["evaluate", *ROWS, *MODELS, "-m", "GAUC"], "--output"),
        (["curve", "roc", *ROWS, *MODELS], "--output"),
    ],
)
def test_files__are_safe_too(arguments: list[str], option: str, tmp_path: Path) -> None:
    found = {}
    for more in ((), ("--csv-safe",)):
        file = tmp_path / f"{len(more)}.csv"
        printed(*arguments, option, str(file), *more)
        found[len(more)] = cells(file.read_bytes().decode())
    assert any(is_formula(cell) for row in found[0] for cell in row)
    assert found[1] == [["'" * is_formula(cell) + cell for cell in row] for row in found[0]]
    if option == "--per-group":
        assert [row[0] for row in found[1][1:]] == [f"'{row[0]}" for row in found[0][1:]]
        assert sorted(row[0] for row in found[0][1:]) == sorted(FORMULAS)
        assert found[1][0][3].startswith("'=new.")


def test_python__writes_it_where_it_is_asked_for() -> None:
    options = {"group": "user", "label": "click", "score": "=new"}
    result = fastrank_eval.evaluate(LOG, measures="GAUC", **options)
    assert result.to_csv().splitlines()[1].startswith("=new,,all,GAUC,GAUC,0.")
    assert result.to_csv(safe=True) == result.to_csv().replace("=new", "'=new")
    nothing = fastrank_eval.evaluate({**LOG, "user": range(12)}, measures="GAUC", **options)
    assert nothing.to_csv(safe=True).splitlines()[1].startswith("'=new,,all,GAUC,GAUC,,,")
