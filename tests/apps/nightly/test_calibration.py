"""Calibration of a night by slice: the worst first, on the page, in text, JSON and history."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import fastrank_eval as fe
from fastrank_eval.apps.nightly.documents import document
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.page import page
from fastrank_eval.apps.nightly.summary_files import lines, markdown
from tests.support.nightly_runs import CONFIG, kept, nightly, on

MEASURE = "MultiECCE(columns='slot')"
ODD = "<b>`x`"
LABEL = f'slot="{ODD}"'
DATE = f"logs/day={on(1)}"


def write_night(slots: int = 3, day: int = 1) -> None:
    """Clicks of two models; the second is too low in one slot."""
    rng = np.random.default_rng(2 + day)
    rows = 6000
    p = rng.beta(1, 8, rows)
    names = np.array([ODD, *(f"s{i}" for i in range(1, slots))])
    slot = names[rng.integers(0, slots, rows)]
    table = pa.table(
        {
            "user_id": np.sort(rng.integers(0, 500, rows)),
            "click": (rng.random(rows) < p).astype(np.int8),
            "score_a": p,
            "score_b": np.where(slot == ODD, 0.6 * p, p),
            "slot": slot,
        }
    )
    folder = Path(f"logs/day={on(day)}")
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, folder / "part.parquet")


def configure(measures: str = f'["GAUC", "{MEASURE}"]') -> None:
    text = CONFIG.replace('["GAUC", "AUC", "LogLoss"]', measures)
    Path("nightly.toml").write_text(text)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_night()
    configure()
    return tmp_path


def run(*options: str) -> Night:
    outcome = nightly("--date", on(1), *options)
    assert outcome.exit_code == 0, outcome.output
    return kept()[-1]


def test_slices__are_those_of_the_result__worst_first__and_history_keeps_them() -> None:
    night = run()
    result = fe.evaluate(
        f"{DATE}/part.parquet",
        label="click",
        score=["score_a", "score_b"],
        measures=MEASURE,
    )
    wanted = [
        (score, row["slice"], row)
        for score in ("score_a", "score_b")
        for row in result.multicalibration(MEASURE, score).to_pylist()
    ]
    wanted.sort(key=lambda one: -one[2]["sigmas"])
    assert [(one.score, one.slice) for one in night.calibration] == [
        (score, label) for score, label, _ in wanted
    ]
    assert len(night.calibration) == 2 * (1 + 3)
    for one, (_, _, row) in zip(night.calibration, wanted, strict=True):
        assert {name: getattr(one, name) for name in row} == row
    worst = night.calibration[0]
    assert (worst.score, worst.slice, worst.measure) == ("score_b", LABEL, MEASURE)
    assert worst.observed > 1.3 * worst.expected


def test_night_without_the_measure__has_no_table() -> None:
    configure('["GAUC"]')
    night = run()
    assert night.calibration == ()
    assert "Calibration by slice" not in page([night])
    assert "Worst slices" not in markdown([document(night)])
    assert "sigmas" not in lines([document(night)])


def test_many_slices__the_worst_hundred_and_all_rows_stay() -> None:
    write_night(slots=150)
    configure("""["MultiECCE(columns='slot', min_clicks=0)"]""")
    night = run()
    for score in ("score_a", "score_b"):
        slices = [one for one in night.calibration if one.score == score]
        assert 100 <= len(slices) <= 101
        assert "all" in {one.slice for one in slices}
        sigmas = [one.sigmas for one in slices]
        assert sigmas == sorted(sigmas, reverse=True)


def test_text_and_json__name_the_worst_that_are_off() -> None:
    outcome = nightly("--date", on(1), "--json", "out.json")
    worst = kept()[-1].calibration[0]
    assert f"  score_b is not calibrated in {LABEL}: {worst.sigmas:.1f} sigmas" in outcome.stdout
    assert "score_a in slot" not in outcome.stdout
    (told,) = json.loads(Path("out.json").read_text())["nights"]
    assert told["calibration"][0] == {
        **{name: getattr(worst, name) for name in vars(worst)},
        "name": MEASURE,
        "verdict": "not calibrated",
    }
    assert len(told["calibration"]) == 8


@pytest.mark.parametrize("options", [(), ("--markdown",)])
def test_several_nights__the_last_lists_calibration__json_and_pages_all(
    options: tuple[str, ...],
) -> None:
    for day in (2, 3):
        write_night(day=day)
    with Path("nightly.toml").open("a") as file:
        file.write('[output]\nfolder = "report"\n')
    outcome = nightly("--backfill", f"{on(1)}..{on(3)}", "--json", "out.json", *options)
    assert outcome.exit_code == 0, outcome.output
    before, last = outcome.stdout.split(f"{on(3)}", 1)
    assert on(2) in before
    assert "sigmas" not in before
    assert "score_b is not calibrated in" in last.replace("\\_", "_")
    summary = json.loads(Path("out.json").read_text())
    assert [len(night["calibration"]) for night in summary["nights"]] == [8, 8, 8]
    for day in (1, 2, 3):
        assert '<div id="calibration"' in Path(f"report/{on(day)}.html").read_text()


def test_longer_periods__lack_measures_in_sigmas__history_keeps_no_states_of_them() -> None:
    write_night(day=2)
    assert nightly("--backfill", f"{on(1)}..{on(2)}", "--json", "out.json").exit_code == 0
    _, night = json.loads(Path("out.json").read_text())["nights"]
    assert night["period_nights"]["week"]["nights"] == 2
    assert {one["measure"] for one in night["periods"]["week"]} == {"GAUC"}
    assert {one["measure"] for one in night["headline"]} == {"GAUC", MEASURE}
    with History("history.db", readonly=True) as history:
        assert history.state(dt.date.fromisoformat(on(2)), "groups") is not None
        assert history.state(dt.date.fromisoformat(on(2)), "scores") is None


def test_two_measures__page_explains_sigmas_once__text_names_a_slice_once() -> None:
    configure(f"""["GAUC", "{MEASURE}", "MultiECCE(columns='slot', min_clicks=40)"]""")
    night = run()
    assert len({one.measure for one in night.calibration}) == 2
    assert lines([document(night)]).count(f"score_b is not calibrated in {LABEL}") == 1
    assert page([night]).count("A sigma is the standard deviation") == 1
