"""fastrank-eval nightly: nights to history, exit codes, what is written and what not."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from fastrank_eval.apps.demo.examples import write_late
from fastrank_eval.apps.nightly.config import read_config
from fastrank_eval.apps.nightly.documents import document
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.periods import NO_INTERVALS, with_periods
from fastrank_eval.apps.nightly.summary_files import markdown
from fastrank_eval.apps.nightly.text import sentences
from tests.support.nightly_runs import CONFIG, ROOT, adjust, dump, everything, kept, nightly, on
from tests.support.sample_nights import month as sample_month


def test_night__fine__is_kept_and_exits_0(folder: Path) -> None:
    outcome = nightly("nightly.toml", "--date", on(3))
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("2026-11-03 fine: score_a GAUC 0.")
    (night,) = kept()
    assert night.command == "fastrank-eval nightly nightly.toml --date 2026-11-03"
    assert night.sources == ("logs/day=2026-11-03",)
    assert (night.title, night.status, night.baseline) == ("Test", "fine", "score_a")
    assert night.measures == ("GAUC", "AUC", "LogLoss")
    assert {line.kind for line in night.compared} == {"baseline"}
    assert set(night.curves) == {"roc", "calibration"}
    assert night.curves["calibration"][0].label.endswith(" (20 bins of equal count)")
    assert night.conventions["by"] == ["slot"]
    assert night.conventions["columns"] == {"group": ["user_id"], "label": "click"}
    assert night.conventions["quality"]["min_rows"] == 1
    assert "TiedRows" not in json.dumps(night.conventions)
    assert {value.measure for value in night.values} == set(night.measures)


def test_date__run_twice__changes_nothing_else(folder: Path) -> None:
    assert nightly("--backfill", f"{on(1)}..{on(3)}", "-q").exit_code == 0
    before, others = dump(), dump(on(2))
    assert nightly("--date", on(2), "-q").exit_code == 0
    assert dump(on(2)) == others
    # It knows the night before, as it did.
    assert dump() == before
    shutil.copy(f"logs/day={on(5)}/part-00000.parquet", f"logs/day={on(2)}/part-00000.parquet")
    assert nightly("--date", on(2), "-q").exit_code == 0
    assert dump(on(2)) == others
    assert dump() != before


def test_backfill__month_in_which_things_go_wrong(folder: Path) -> None:
    adjust(
        folder,
        "[quality]\nmin_rows = 1500\nmax_volume_drift = 12\n"
        '[gates]\nfail_if = ["GAUC delta_ci_high < -0.01", "GAUC[slot=side] delta_ci_high < -0.01"]'
        '\nfail_if_yesterday = ["score_b:GAUC delta_ci_high < -0.05"]\n',
    )
    assert nightly("--backfill", f"{on(7)}..{on(24)}").exit_code == 4
    assert nightly("--backfill", f"{on(25)}..{on(26)}", "--json", "report.json").exit_code == 3
    nights = {night.date.day: night for night in kept()}
    assert sorted(nights) == list(range(7, 27))
    wrong = {day: night.status for day, night in nights.items() if night.status != "fine"}
    assert wrong[12] == "regression"
    assert wrong[16] == wrong[24] == "data_quality"
    assert nights[16].quality.rows == 0
    assert nights[16].quality.flags[0] == "rows 0, below 1,500"
    failed = [gate.text for gate in nights[12].gates if not gate.passed]
    assert failed[0] == "GAUC delta_ci_high < -0.01"
    assert failed[-2:] == ["score_b:GAUC delta_ci_high < -0.05 (since yesterday)", "psi > 0.25"]
    # Nothing of an empty night to compare with.
    assert {line.kind for line in nights[17].compared} == {"baseline", "last_week"}
    assert nights[17].gates[-1].passed
    assert nights[17].gates[-1].reason == "history has no rows of 2026-11-16"
    side = [
        value.value
        for night in nights.values()
        for value in night.values
        if (value.score, value.slice, value.measure) == ("score_b", "slot=side", "GAUC")
        and night.date.day >= 20
    ]
    assert side
    assert set(side) == {0.5}
    for day in range(20, 27):
        dead = "score_b gives every row of slot=side the same score (0.04)"
        (text,) = (one for one in sentences(nights[day]) if one.startswith(dead))
        assert f" Since 20 Nov ({day - 19} night" in text
    told = json.loads(Path("report.json").read_text())
    assert (told["schema"], told["exit_code"], len(told["nights"])) == (1, 3, 2)
    week, month = (
        {v["measure"]: v for v in told["nights"][-1]["periods"][name]} for name in ("week", "month")
    )
    assert set(week) == {"GAUC", "AUC", "LogLoss"}
    assert told["nights"][-1]["period_notes"] == [
        f"week and month: {text}"
        for text in (f"the rows of {on(24)} did not pass the checks", NO_INTERVALS)
    ]
    assert month["GAUC"]["groups"] == sum(night.quality.groups for night in nights.values())
    assert month["GAUC"]["se"] is week["GAUC"]["se"] is None

    with History("history.db", readonly=True) as history:
        found = with_periods(nights[26], history)
    told_of = told["nights"][-1]
    assert told_of["period_nights"] == {
        "week": {"nights": 7, "of": 7, "first": on(20), "last": on(26)},
        "month": {"nights": 19, "of": 30, "first": on(7), "last": on(26)},
    }
    sides = {
        v["score"]: v["value"] for v in told_of["period_slices"]["week"] if "side" in v["slice"]
    }
    assert sides["score_b"] == 0.5 < sides["score_a"]
    assert {v["measure"] for v in told_of["period_slices"]["month"]} == {"GAUC"}
    merged = {(v.slice, v.score, v.measure): v.value for v in found.periods["week"]}
    assert merged["all", "score_a", "GAUC"] == json_value(told, "week", "score_a", "GAUC")
    assert merged["slot=side", "score_b", "GAUC"] == 0.5

    before = dump(on(24))
    write_late("logs", rows=3000)
    assert nightly("--date", on(24)).exit_code == 3
    assert dump(on(24)) == before
    (night,) = [night for night in kept() if night.date.day == 24]
    failed = [gate.condition for gate in night.gates if not gate.passed]
    assert failed == ["GAUC[slot=side] delta_ci_high < -0.01", "distinct scores < 2"]
    assert night.quality.rows > 3 * nights[24].quality.rows


def test_partition__missing__exits_2_and_leaves_a_reason_only(folder: Path) -> None:
    assert nightly("--date", on(1), "-q").exit_code == 0
    before = dump()
    outcome = nightly("--date", "2026-12-01", "--json", "-")
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("error: 2026-12-01: ")
    told = json.loads(outcome.stdout)["nights"][0]
    assert (told["date"], told["status"]) == ("2026-12-01", "not_evaluated")
    assert "logs/day=2026-12-01" in told["error"]
    assert dump("2026-12-01") == before
    with History("history.db", readonly=True) as history:
        assert history.failures() == {dt.date(2026, 12, 1): told["error"]}
    outcome = nightly("--backfill", "2026-11-30..2026-12-02", "-q")
    assert outcome.exit_code == 2
    assert outcome.stderr.count("error: ") == 2
    assert [night.date.day for night in kept()] == [1, 30]


def test_night__not_evaluated__is_said_until_it_is_run_again(folder: Path) -> None:
    """Neither "since" nor the nights that are merged count it."""
    gate = '[gates]\nfail_if = ["GAUC[slot=side] > 0"]\n[output]\nfolder = "pages"\n'
    adjust(folder, gate)
    assert nightly("--backfill", f"{on(1)}..{on(2)}", "-q").exit_code == 3
    broken = Path(f"logs/day={on(3)}/part.parquet")
    broken.parent.rename("moved")
    broken.parent.mkdir()
    broken.write_bytes(b"PAR1")
    assert nightly("--date", on(3), "-q").exit_code == 2
    said = f"<strong>{on(3)} was not evaluated:</strong> <span>"
    assert said in Path("pages/index.html").read_text()
    assert said not in Path(f"pages/{on(2)}.html").read_text()

    outcome = nightly("--date", on(4), "-q", "--json", "-")
    (night,) = json.loads(outcome.stdout)["nights"]
    assert {(one["since"], one["nights"]) for one in night["findings"]} == {(on(1), 3)}
    (note,) = [text for text in night["period_notes"] if "was not evaluated" in text]
    assert note.startswith(f"week and month: {on(3)} was not evaluated: ")
    assert night["period_nights"]["week"]["nights"] == 3
    assert f"not compared with yesterday: {on(3)} was not evaluated" in night["notes"]
    page = Path("pages/index.html").read_text()
    assert said not in page
    assert f"<title>{on(3)} was not evaluated: " in page

    Path(f"logs/day={on(5)}").rename("missing")
    assert nightly("--date", on(5), "-q").exit_code == 2
    outcome = nightly("--date", on(6), "-q", "--json", "-")
    (night,) = json.loads(outcome.stdout)["nights"]
    start = f"week and month: {on(3)}, {on(5)} were not evaluated; the last: "
    assert len([text for text in night["period_notes"] if text.startswith(start)]) == 1

    shutil.rmtree(broken.parent)
    Path("moved").rename(broken.parent)
    assert nightly("--date", on(3), "-q").exit_code == 3
    broken.parent.rename("moved")
    before = dump()
    assert nightly("--date", on(3), "-q").exit_code == 2
    assert dump() == before
    assert len(kept()) == 5


def test_another_report__in_the_same_folder__does_not_replace_nights(folder: Path) -> None:
    assert nightly("--date", on(1), "-q").exit_code == 0
    before = dump()
    other = CONFIG.replace('"Test"', '"Other"').replace('["score_a", "score_b"]', '["score_b"]')
    other = other.replace('baseline = "score_a"\n', "")
    Path("other.toml").write_text(other)
    several = f"{on(1)}..{on(2)}"
    for more in (["--date", on(1)], ["--date", on(1), "--dry-run"],
                 ["--backfill", several, "--dry-run"]):  # fmt: skip
        outcome = nightly("other.toml", *more)
        assert outcome.exit_code == 2
        assert " history.db: keeps the nights of the report 'nightly'" in outcome.stderr
        assert dump() == before
    Path("other.toml").write_text(other + '[history]\nfile = "other.db"\n')
    assert nightly("other.toml", "--date", on(1), "-q").exit_code == 0
    assert dump() == before
    Path("renamed.toml").write_text(CONFIG + '[history]\nreport = "nightly"\n')
    assert nightly("renamed.toml", "--date", on(2), "-q").exit_code == 0
    assert [night.date.day for night in kept()] == [1, 2]


def test_bad_configuration__has_a_line_for_each_error(folder: Path) -> None:
    adjust(folder, '[drift]\nnights = -1\n"a\\nb" = 1\n[quality]\nmin_rows = -1\n')
    outcome = nightly("--date", on(1))
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    lines = outcome.stderr.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("error: nightly.toml: [quality] min_rows = -1: ")
    assert lines[1].startswith("nightly.toml: [drift] a\\nb = 1: ")
    assert lines[2].startswith("nightly.toml: [drift] nights = -1: ")
    records = map(json.loads, nightly("--date", on(1), "--log-json").stderr.splitlines())
    (record,) = (record for record in records if record["level"] == "ERROR")
    assert record["message"].splitlines() == [lines[0].removeprefix("error: "), *lines[1:]]


def test_init__writes_what_can_be_read__and_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = nightly("--init")
    assert (outcome.exit_code, outcome.stderr) == (0, "wrote nightly.toml\n")
    assert read_config("nightly.toml").title == "Click prediction"
    text = Path("nightly.toml").read_bytes()
    outcome = nightly("--init")
    assert outcome.exit_code == 2
    assert "exists already" in outcome.stderr
    assert Path("nightly.toml").read_bytes() == text


def test_default_date__is_yesterday(folder: Path) -> None:
    yesterday = dt.datetime.now().astimezone().date() - dt.timedelta(days=1)
    shutil.copytree(f"logs/day={on(1)}", f"logs/day={yesterday}", dirs_exist_ok=True)
    outcome = nightly("-q")
    if dt.datetime.now().astimezone().date() - dt.timedelta(days=1) == yesterday:
        assert outcome.exit_code == 0
        assert [night.date for night in kept()] == [yesterday]


def json_value(told: Any, period: str, score: str, measure: str) -> float:
    lines = told["nights"][-1]["periods"][period]
    (value,) = [v["value"] for v in lines if (v["score"], v["measure"]) == (score, measure)]
    return value


def test_markdown__strip__has_the_status_of_each_day_up_to_the_night() -> None:
    night = replace(sample_month(1)[-1], status="regression")
    before = {
        night.date - dt.timedelta(days=ago): status
        for ago, status in ((31, "regression"), (5, "fine"), (3, "data_quality"), (2, "changed"))
    }
    assert "Last 6 days: `.-Dc-R` (`.` fine, `c` changed, `R` regression, " in (
        text := markdown([document(night)], (), None, [before])
    )
    assert "`D` data quality, `-` no night)\n" in text
    assert "days:" not in markdown([document(night)])


@pytest.mark.parametrize("name", ["tables", "s3:tables"])
def test_export__writes_tables(name: str, folder: Path) -> None:
    assert nightly("--date", on(1), "-q").exit_code == 0
    outcome = nightly("--export", name)
    assert outcome.exit_code == 0
    assert outcome.stderr.splitlines()[1] == f"wrote {name}/value.parquet"
    path = Path(name, "value.parquet").absolute()
    assert parquet.read_table(path).num_rows == len(kept()[0].values)
    assert nightly("--export", name).exit_code == 0  # over its own


@pytest.mark.parametrize("content", [b"nights of our own", {"date": [1], "value": [2.0]}])
def test_export__replaces_no_file_that_is_no_table_of_a_history(
    folder: Path, content: bytes | dict[str, list[Any]]
) -> None:
    assert nightly("--date", on(1), "-q").exit_code == 0
    Path("tables").mkdir()
    path = Path("tables/value.parquet")
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        parquet.write_table(pa.table(content), path)
    before = path.read_bytes()
    outcome = nightly("--export", "tables")
    assert outcome.exit_code == 2
    assert "got 'tables/value.parquet', which is not a table 'value' of a history" in outcome.stderr
    assert [file.name for file in Path("tables").iterdir()] == ["value.parquet"]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "path, output, refused",
    [
        ("logs", f"--export logs/day={on(1)}", True),
        ("logs/day={date}", f"--json logs/day={on(2)}/told.parquet", True),
        ("logs/**/*.parquet", f"--json logs/day={on(2)}/told.parquet", True),
        ("logs/day={date}", "--export logs", True),
        ("logs/day={date}", "--json logs/x.json", True),
        ("logs/day={date}", "--json x.json", False),
        ("logs/day={date}", "--export tables", False),
        # Beside partitions that no run reads.
        ("day={date}", "--json summary.json", False),
        ("./day={date}", "--json summary.json", False),
        ("day={date}", f"--json day={on(1)}/summary.json", True),
        ("in/day={date}.parquet", "--json in/summary.json", False),
    ],
)
def test_output__that_a_later_night_would_read__is_refused(
    folder: Path, path: str, output: str, refused: bool
) -> None:
    place = Path(path.replace("{date}", on(1)))
    rows = parquet.read_table(f"logs/day={on(1)}", partitioning=None)
    if "*" not in path and not place.exists():
        file = place if place.suffix else place / "part.parquet"
        file.parent.mkdir()
        parquet.write_table(rows, file)
    config = Path("nightly.toml")
    where = "" if "{date}" in path else "\nwhere = \"day = '{date}'\""
    config.write_text(config.read_text().replace('"logs/day={date}"', f'"{path}"{where}'))
    option, target = output.split()
    if option == "--export" and not refused:
        assert nightly("--date", on(1), "-q").exit_code == 0
    before = everything(folder)
    outcome = nightly(option, target, *(["--date", on(1)] if option == "--json" else []), "-q")
    if refused:
        assert outcome.exit_code == 2
        assert f"{option}: must lie outside the source '{path}', got '{target}'" in outcome.stderr
        assert everything(folder) == before
    else:
        assert outcome.exit_code == 0, outcome.stderr
        assert Path(target).exists()


@pytest.mark.skipif(os.name != "posix", reason="starts processes")
def test_two_runs_at_once__all_nights_are_kept(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    runs: list[Any] = [
        subprocess.Popen(
            [sys.executable, "-m", "fastrank_eval", "nightly", "-q", "--backfill", nights],
            env=environment,
        )
        for nights in (f"{on(1)}..{on(4)}", f"{on(3)}..{on(6)}")
    ]
    assert [run.wait(timeout=120) for run in runs] == [0, 0]
    nights = kept()
    assert [night.date.day for night in nights] == [1, 2, 3, 4, 5, 6]
    alone = {night.date.day: night.values for night in nights}
    assert nightly("--backfill", f"{on(1)}..{on(6)}", "-q").exit_code == 0
    assert {night.date.day: repr(night.values) for night in kept()} == {
        day: repr(values) for day, values in alone.items()
    }
