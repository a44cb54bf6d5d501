"""Next steps of a failed gate: the command for its numbers, and its worst groups."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from fastrank_eval import compare, evaluate
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.apps.nightly.reproduce import next_steps, slice_condition
from tests.support.nightly_runs import adjust, kept, nightly, on
from tests.support.transcripts import Case, cases

GROUPS = Path("pages/2026-11-01-groups.parquet")


def run_with_gate(folder: Path, gate: str, *more: str) -> dict[str, Any]:
    """Run the first night with a gate that fails, and return its summary."""
    adjust(folder, f'[gates]\nfail_if = {gate}\n[output]\nfolder = "pages"\n')
    outcome = nightly("--date", on(1), "--json", "-", *more)
    assert (outcome.exit_code, outcome.stderr) == (3, "")
    night: dict[str, Any] = json.loads(outcome.stdout)["nights"][0]
    return night


def change(*pairs: tuple[str, str]) -> None:
    """Replace texts of the configuration."""
    file = Path("nightly.toml")
    text = file.read_text()
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)


def stored() -> dict[tuple[str, str, str], float]:
    return {(v.score, v.slice, v.measure): v.value for v in kept()[0].values}


def values_of(command: str) -> dict[tuple[str, str, str], float]:
    """Run a command, and return its values by score, slice and measure."""
    program, *arguments = shlex.split(command)
    assert program == "fastrank-eval"
    done = CliRunner().invoke(cli, [*arguments, "--format", "json"], catch_exceptions=False)
    assert done.exit_code == 0
    content = json.loads(done.stdout)
    values = content["comparisons" if arguments[0] == "compare" else "results"]
    return {(v["score"], v["slice"], v["measure"]): v["value"] for v in values}


@pytest.mark.parametrize("case", cases("slice_conditions"), ids=str)
def test_condition__of_a_label(case: Case) -> None:
    (label,) = case.given
    condition = slice_condition(label)
    case.check([condition] if condition else [])


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31m"])
def test_condition__of_signs_that_no_terminal_shows__is_none(text: str) -> None:
    assert slice_condition(f'slot="{text}"') is None


SLICED = {
    "user": [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6],
    "click": [1, 0, 0, 1] * 3,
    "pctr": [0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.6, 0.5, 0.4, 0.45, 0.2, 0.3],
    "slot": ["feed", "feed", "it's", "it's", None, None, "null", "null", 'a,"b', 'a,"b', "", ""],
    "age": [17, 17, 18, 18, 24, 24, 25, 25, None, None, 40, 40],
    "price": [0.5, 0.5, 1.5, 1.5, 2.5, 2.5, None, None, 3.5, 3.5, 4.5, 4.5],
    "new": [True, True, False, False, None, None, True, True, False, False, True, True],
}


@pytest.mark.parametrize("by", ["slot", "age", "age:18,25", "price:width2", "new", "slot,age",
                                "price:quantile2", "price"])  # fmt: skip
def test_condition__selects_the_rows_of_its_slice(by: str) -> None:
    table = pa.table(SLICED)
    columns: dict[str, Any] = {"group": "user", "label": "click", "score": "pctr"}
    result = evaluate(table, **columns, measures="GAUC", by=by, min_groups=1)
    slices = [value for value in result.values if value.slice != "all"]
    assert len(slices) > 1
    for value in slices:
        where = slice_condition(value.slice)
        same = evaluate(table, **columns, measures="GAUC", where=where)
        (own,) = same.values
        assert (own.groups, repr(own.value)) == (value.groups, repr(value.value)), value.slice


@pytest.mark.parametrize(
    "gate", ['"GAUC delta > -1"', '"GAUC[slot=side] delta > -1"', '"score_a:GAUC[*] > 0"',
             '"LogLoss[slot=top] delta < 1"', '"score_b:AUC > 0"'],
)  # fmt: skip
def test_command__gives_the_numbers_of_the_gate(folder: Path, gate: str) -> None:
    night = run_with_gate(folder, gate)
    assert night["next_steps"]
    for step in night["next_steps"]:
        values = values_of(step["command"])
        ((_, label, measure),) = {key for key in values if key[0] == step["score"]}
        assert label == "all"
        expected = stored()[step["score"], step["slice"], step["measure"]]
        assert values[step["score"], "all", measure] == expected


def test_command__of_a_slice_by_activity__lists_the_slices(folder: Path) -> None:
    change(('["slot"]', '["slot", "@rows:1,5,20"]'))
    night = run_with_gate(folder, '"score_a:GAUC[@rows>=20] > 0"')
    (step,) = night["next_steps"]
    assert "--by @rows:1,5,20" in step["command"]
    key = "score_a", "@rows>=20", "GAUC"
    assert values_of(step["command"])[key] == stored()[key]
    assert night["groups"] is None


def test_command__of_nulls_in_a_column_of_numbers__lists_the_slices(tmp_path: Path) -> None:
    """Slices count NaN as null, and conditions do not."""
    rows = pa.table({**SLICED, "price": [0.5] * 4 + [float("nan")] * 6 + [None] * 2})
    pq.write_table(rows, tmp_path / "2026-11-01.parquet")
    config = tmp_path / "nightly.toml"
    config.write_text(f"""
        source.path = "{tmp_path}/{{date}}.parquet"
        source.where = '''age > 0
            or age is null'''
        columns = {{group = "user", label = "click"}}
        models.scores = ["pctr"]
        evaluate.measures = ["GAUC"]
        slices = {{by = ["price", "slot"], min_groups = 1}}
        gates.fail_if = ["GAUC[price=null] > 0", "GAUC[slot=null] > 0"]
        history.file = "{tmp_path}/h.db"
    """)
    outcome = CliRunner().invoke(cli, ["nightly", str(config), "--date", on(1), "--json", "-"])
    steps = {s["slice"]: s for s in json.loads(outcome.stdout)["nights"][0]["next_steps"]}
    assert "--by price" in steps["price=null"]["command"]
    assert "(age > 0 or age is null) and slot is null" in steps["slot=null"]["command"]
    values = values_of(steps["price=null"]["command"])
    assert values["pctr", "price=null", "GAUC"] == 0.5


def test_command__keeps_the_condition_and_the_conventions_of_the_night(folder: Path) -> None:
    change(("[columns]", "where = \"slot <> 'top'\"\n[columns]"),
           ("[evaluate]", '[evaluate]\nties = "best"\nundefined = "zero"'))  # fmt: skip
    night = run_with_gate(folder, '"GAUC[slot=side] delta > -1"')
    (step,) = night["next_steps"]
    assert "(slot <> 'top') and slot = 'side'" in step["command"]
    assert "--ties best --undefined zero" in step["command"]
    value = values_of(step["command"])["score_b", "all", "GAUC"]
    assert value == stored()["score_b", "slot=side", "GAUC"]


def test_groups__against_the_baseline__are_its_largest_losses(folder: Path) -> None:
    night = run_with_gate(folder, '"GAUC delta > -1"')
    assert night["groups"] == str(GROUPS)
    rows = pq.read_table(GROUPS).to_pylist()
    assert len(rows) == 20
    assert {(r["score"], r["slice"], r["measure"], r["compared"], r["against"]) for r in rows} == {
        ("score_b", "all", "GAUC", "baseline", "score_a")
    }
    losses = [r["contribution"] for r in rows]
    assert losses == sorted(losses)
    assert max(losses) < 0
    assert all(r["value"] < r["base"] for r in rows)
    night_rows = pq.read_table("logs/day=2026-11-01/")
    options: dict[str, Any] = {"group": "user_id", "label": "click", "baseline": "score_a"}
    comparison = compare(night_rows, **options, score=["score_a", "score_b"], measures="GAUC")
    largest_changes = comparison.largest_changes("GAUC", top=20).to_pylist()[:-21:-1]
    assert [r["user_id"] for r in rows] == [
        largest_change["user_id"] for largest_change in largest_changes
    ]
    assert losses == [largest_change["contribution"] for largest_change in largest_changes]


def test_groups__in_a_folder_that_looks_like_an_address__are_replaced(folder: Path) -> None:
    adjust(folder, '[gates]\nfail_if = "GAUC delta > -1"\n[output]\nfolder = "s3:pages"\n')
    for _ in range(2):
        outcome = nightly("--date", on(1), "-q")
        assert (outcome.exit_code, outcome.stderr) == (3, "")
    assert Path("s3:pages", GROUPS.name).exists()


def test_groups__since_yesterday__add_up_to_the_difference(folder: Path) -> None:
    adjust(folder, '[gates]\nfail_if_yesterday = "score_b:GAUC delta < 1"\n'
                   '[output]\nfolder = "pages"\ngroups = 10000\n')  # fmt: skip
    nightly("--backfill", f"{on(1)}..{on(2)}", "-q")
    rows = pq.read_table("pages/2026-11-02-groups.parquet").to_pylist()
    assert {(r["compared"], r["against"], r["base"]) for r in rows} == {
        ("yesterday", "2026-11-01", None)
    }
    before = next(v for v in kept()[0].values if (v.score, v.measure) == ("score_b", "GAUC"))
    assert all(r["value"] < before.value for r in rows)
    assert rows == sorted(rows, key=lambda r: r["contribution"])


def test_groups__of_a_measure_of_all_rows__are_those_of_a_measure_of_groups(folder: Path) -> None:
    run_with_gate(folder, '"LogLoss[slot=side] delta < 1"')
    rows = pq.read_table(GROUPS).to_pylist()
    assert {(r["slice"], r["measure"]) for r in rows} == {("slot=side", "GAUC")}


def test_groups__of_columns_with_taken_names__stay_apart(folder: Path) -> None:
    for path in Path("logs").rglob("*.parquet"):
        table = pq.ParquetFile(path).read()
        names = ["value" if name == "user_id" else name for name in table.column_names]
        pq.write_table(table.rename_columns(names), path)
    change(('"user_id"', '"value"'))
    run_with_gate(folder, '"GAUC delta > -1"')
    names = pq.read_table(GROUPS).column_names
    assert names[0] == "value"
    assert "value_" in names


def test_groups__of_a_night_that_passes_now__are_removed(folder: Path) -> None:
    run_with_gate(folder, '"GAUC[slot=side] delta > -1"')
    page = Path("pages/2026-11-01.html")
    assert 'href="2026-11-01-groups.parquet"' in page.read_text()
    assert "slot = &#39;side&#39;" in page.read_text()
    change(("delta > -1", "delta > 1"))
    assert GROUPS.exists()
    nightly("--date", on(1), "-q")
    assert not GROUPS.exists()
    assert "groups.parquet" not in page.read_text()
    assert next_steps(kept()[0]) == []


@pytest.mark.parametrize("more", ["groups = 0\n", ""])
def test_groups__switched_off_or_of_a_dry_run__are_not_written(folder: Path, more: str) -> None:
    text = f'[gates]\nfail_if = "GAUC > 0"\n[output]\nfolder = "pages"\n{more}'
    adjust(folder, text)
    assert nightly("--date", on(1), "-q", *(["--dry-run"] * (not more))).exit_code == 3
    assert not GROUPS.exists()


def test_groups__where_another_file_has_the_name__stop_the_run(folder: Path) -> None:
    adjust(folder, '[gates]\nfail_if = "GAUC > 0"\n[output]\nfolder = "pages"\n')
    Path("pages").mkdir()
    pq.write_table(pa.table({"mine": [1]}), GROUPS)
    before = GROUPS.read_bytes()
    outcome = nightly("--date", on(1), "-q")
    assert outcome.exit_code == 2
    assert "does not hold the worst groups of a night" in outcome.stderr
    assert GROUPS.read_bytes() == before


def test_groups__among_the_rows__are_refused(folder: Path) -> None:
    adjust(folder, '[output]\nfolder = "logs/day=2026-11-01"\n')
    outcome = nightly("--date", on(1), "-q")
    assert outcome.exit_code == 2
    assert "[output] folder: must lie outside the source" in outcome.stderr


def test_groups__that_cannot_be_written__leave_the_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fastrank_eval.apps.nightly.reproduce.pq.write_table", fail)
    adjust(folder, '[gates]\nfail_if = "GAUC > 0"\n[output]\nfolder = "pages"\n')
    outcome = nightly("--date", on(1), "-q")
    assert outcome.exit_code == 3
    assert outcome.stderr.startswith("warning: 2026-11-01: the worst groups were not written: ")
    assert Path("pages/2026-11-01.html").exists()


def test_steps__of_many_models_and_drift__has_one_of_each_gate(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for day in range(1, 7):
        rows = 1200
        score = rng.random(rows)
        models = {f"m{i}": np.sqrt(score) if day == 6 else score + i / 1e3 for i in range(4)}
        log = {
            "user": np.arange(rows) // 10,
            "click": (rng.random(rows) < score).astype(np.int8),
            "slot": np.where(np.arange(rows) % 3 == 0, "side", "top"),
            **models,
        }
        pq.write_table(pa.table(log), tmp_path / f"{on(day)}.parquet")
    config = tmp_path / "nightly.toml"
    config.write_text(f"""
        source.path = "{tmp_path}/{{date}}.parquet"
        columns = {{group = "user", label = "click"}}
        models.scores = ["m0", "m1", "m2", "m3"]
        evaluate.measures = ["GAUC", "AUC"]
        slices = {{by = ["slot"], min_groups = 1}}
        history.file = "{tmp_path}/h.db"
    """)
    run = ["nightly", str(config)]
    assert CliRunner().invoke(cli, [*run, "--backfill", f"{on(1)}..{on(5)}"]).exit_code == 0
    with config.open("a") as file:
        file.write(f"""
            gates.fail_if = ["GAUC > 0", "AUC > 0", "AUC[slot=side] > 0.1", "rows > 0"]
            output.folder = "{tmp_path}/pages"
        """)
    outcome = CliRunner().invoke(cli, [*run, "--date", on(6), "--json", "-"])
    (night,) = json.loads(outcome.stdout)["nights"]
    steps = [(step["measure"], step["slice"]) for step in night["next_steps"]]
    assert steps.count(("", "all")) == 3  # of drift
    gates = [step for step in steps if step[0]]
    assert set(gates) == {("GAUC", "all"), ("AUC", "all"), ("AUC", "slot=side")}
    assert len(gates) == 5
    assert len({step["command"] for step in night["next_steps"]}) == 8
    # The order is that of importance: all rows before slices.
    assert steps[-1] == ("AUC", "slot=side")
    worst = pq.read_table(tmp_path / f"pages/{on(6)}-groups.parquet")
    assert set(worst["slice"].to_pylist()) == {"all", "slot=side"}
