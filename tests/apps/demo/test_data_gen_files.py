"""Generated files: written whole or not at all, by Python and by the command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import data_gen
from data_gen.__main__ import main
from fastrank_eval import ArgumentError, OutputError
from fastrank_eval.apps import demo
from tests.apps.demo.test_data_gen import ORDERS, column, make


def listing(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ids", ["int", "string"])
def test_write_parquet__same_content_again(tmp_path: Path, order: str, ids: str) -> None:
    options = {"seed": 9, "order": order, "ids": ids}
    first = demo.write_parquet(tmp_path / "one.parquet", 30_000, **options)
    demo.write_parquet(tmp_path / "two.parquet", 30_000, row_group_rows=7001, **options)
    demo.write_parquet(tmp_path / "three.parquet", 30_000, **options)
    table = pq.read_table(tmp_path / "one.parquet")
    assert table.equals(make(30_000, **options))
    assert table.equals(pq.read_table(tmp_path / "two.parquet"))
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "three.parquet").read_bytes()
    assert first.rows == 30_000
    assert first.positives == column(table, "click").sum()
    assert first.groups == pc.count_distinct(table["user_id"]).as_py()
    assert first.bytes == (tmp_path / "one.parquet").stat().st_size
    assert listing(tmp_path) == ["one.parquet", "three.parquet", "two.parquet"]


def test_write_parquet__row_groups(tmp_path: Path) -> None:
    demo.write_parquet(tmp_path / "x.parquet", 10_000, row_group_rows=3000)
    meta = pq.ParquetFile(tmp_path / "x.parquet").metadata
    assert [meta.row_group(i).num_rows for i in range(4)] == [3000, 3000, 3000, 1000]


def test_write_parquet__no_rows(tmp_path: Path) -> None:
    written = demo.write_parquet(tmp_path / "x.parquet", 0)
    assert pq.read_table(tmp_path / "x.parquet").schema.equals(make(0).schema)
    assert "0 rows, 0 groups, positives none" in str(written)


def test_write_parquet__existing_output(tmp_path: Path) -> None:
    target = tmp_path / "x.parquet"
    demo.write_parquet(target, 100, seed=1)
    with pytest.raises(OutputError, match=r"x\.parquet' exists"):
        demo.write_parquet(target, 100)
    with pytest.raises(OutputError, match="is a folder"):
        demo.write_parquet(tmp_path, 100, overwrite=True)
    with pytest.raises(OutputError, match="does not exist; create it first"):
        demo.write_parquet(tmp_path / "no" / "x.parquet", 100)
    assert pq.read_table(target).equals(make(100, seed=1))
    demo.write_parquet(target, 200, seed=2, overwrite=True)
    assert pq.read_table(target).equals(make(200, seed=2))
    assert listing(tmp_path) == ["x.parquet"]


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()])
def test_write_parquet__failure_leaves_the_old_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    target = tmp_path / "out"
    demo.write_parquet(target, 100)
    before = pq.read_table(target)
    write_batch, calls = pq.ParquetWriter.write_batch, []

    def fail_later(self: Any, *args: Any, **options: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise failure
        write_batch(self, *args, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", fail_later)
    with pytest.raises(OutputError if isinstance(failure, OSError) else KeyboardInterrupt):
        demo.write_parquet(target, 5000, overwrite=True, row_group_rows=1000)
    assert listing(tmp_path) == ["out"]
    assert pq.read_table(target).equals(before)


@pytest.mark.parametrize("options", [{"row_group_rows": 0}, {"order": "x"}])
def test_write_parquet__bad_option(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        demo.write_parquet(tmp_path / "x.parquet", 100, **options)
    assert listing(tmp_path) == []


# --- command line ----------------------------------------------------------------------------


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("text", ["2e3", "2_000", "2000", "2000.0"])
def test_cli__row_counts(tmp_path: Path, text: str) -> None:
    done = run(tmp_path / "x.parquet", "--rows", text)
    assert done.exit_code == 0, done.output
    assert pq.read_metadata(tmp_path / "x.parquet").num_rows == 2000
    assert re.fullmatch(
        r"wrote .*x\.parquet: 2,000 rows, \d+ groups, positives \d\.\d\d %, "
        r"AUC in closed form: score_a 0\.750000, score_b 0\.719999, 0\.\d MB\n",
        done.output,
    )


def test_cli__every_option(tmp_path: Path) -> None:
    done = run(
        tmp_path / "log", "--rows", "3e3", "--seed", 7, "--ids", "string", "--id-style", "dense",
        "--labels", "grade", "--order", "shuffled", "--score-type", "float64", "--auc-a", 0.8,
        "--auc-b", 0.7, "--rho", 0.1, "--click-rate", 0.1, "--decimals-a", 3,
        "--decimals-b", "none", "--median-size", 10, "--max-size", 100, "--days", 3,
        "--row-group-rows", "1e3", "--overwrite",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    expected = make(
        3000, seed=7, ids="string", id_style="dense", labels="grade", order="shuffled",
        score_type="float64", auc_a=0.8, auc_b=0.7, rho=0.1, click_rate=0.1, decimals_a=3,
        decimals_b=None, median_size=10, max_size=100, days=3,
    )  # fmt: skip
    assert pq.read_table(tmp_path / "log").cast(expected.schema).equals(expected)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--rows", "1.5"], "rows: must be a whole number"),
        (["--rows", "many"], "rows: must be a whole number"),
        (["--rows", "1e999999"], "rows: must be a whole number"),
        (["--rows", "nan"], "rows: must be a whole number"),
        (["--auc-a", "2"], "auc_a: must be a number from 0.51 to 0.99"),
        (["--decimals-a", "some"], "decimals_a: must be a whole number"),
        (["--order", "upside-down"], "order: must be one of"),
    ],
)
def test_cli__bad_option_exits_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(tmp_path / "x.parquet", *arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert listing(tmp_path) == []


def test_cli__existing_output_exits_2(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("precious")
    done = run(tmp_path / "x.parquet", "--rows", 10)
    assert done.exit_code == 2
    assert "--overwrite" in done.output
    assert (tmp_path / "x.parquet").read_text() == "precious"
    assert run(tmp_path / "x.parquet", "--rows", 10, "--overwrite").exit_code == 0
    assert data_gen.impressions is demo.impressions
