"""fastrank-eval nightly: what a night is compared with, and what it is not."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastrank_eval.apps.nightly.compare_nights import convention_differences
from fastrank_eval.apps.nightly.periods import NO_INTERVALS
from fastrank_eval.apps.nightly.summary_files import night_lines
from fastrank_eval.apps.nightly.text import not_judged, outcome_of
from tests.support.nightly_runs import CONFIG, adjust, dump, kept, nightly, on
from tests.support.nights import a_night
from tests.support.sample_nights import month

GATES = '[gates]\nfail_if_yesterday = ["GAUC delta_ci_high < -0.02"]\n'


@pytest.mark.parametrize(
    "before,after,name",
    [
        ("[evaluate]", '[evaluate]\nundefined = "GAUC=zero"', "undefined"),
        ("[columns]", "where = \"slot <> 'side'\"\n[columns]", "where"),
        ('group = "user_id"', 'group = ["user_id", "slot"]', "columns"),
    ],
)
def test_night_of_other_conventions__is_not_compared_with(
    folder: Path, before: str, after: str, name: str
) -> None:
    adjust(folder, GATES)
    assert nightly("--date", on(2), "-q").exit_code == 0
    Path("nightly.toml").write_text(CONFIG.replace(before, after) + GATES)
    outcome = nightly("--date", on(3), "--json", "-")
    assert outcome.exit_code == 0
    night = kept()[-1]
    assert {line.kind for line in night.compared} == {"baseline"}
    ((gate,), (note,)) = night.gates, night.notes
    assert gate.passed
    reason = gate.reason.removeprefix("not judged: ")
    assert reason.startswith("conventions differ from 2026-11-02: ")
    assert name in reason
    assert note == f"not compared with yesterday: {reason}"
    assert json.loads(outcome.stdout)["nights"][0]["notes"] == [note]
    assert note in night_lines(night)
    # And from then on again.
    assert nightly("--date", on(4), "-q").exit_code == 0
    assert {line.kind for line in kept()[-1].compared} == {"baseline", "yesterday"}
    assert kept()[-1].notes == ()


def test_nights_told_apart_by_a_condition__are_compared(folder: Path) -> None:
    where = "where = \"day = '{date}'\"\n[columns]"
    text = CONFIG.replace('"logs/day={date}"', '"logs"').replace("[columns]", where)
    Path("nightly.toml").write_text(text + GATES)
    assert nightly("--backfill", f"{on(2)}..{on(3)}", "-q").exit_code == 0
    assert {line.kind for line in kept()[-1].compared} == {"baseline", "yesterday"}


def test_night_whose_rows_are_not_sound__is_not_compared_with(folder: Path) -> None:
    adjust(folder, GATES + "[quality]\nmin_rows = 1500\n")
    assert nightly("--backfill", f"{on(24)}..{on(25)}", "-q").exit_code == 4
    bad, good = kept()
    # From the 20th on score_b gives every row of slot=side one score.
    assert (bad.status, good.status) == ("data_quality", "regression")
    assert {line.kind for line in good.compared} == {"baseline"}
    assert good.gates[0].reason == "not judged: the rows of 2026-11-24 did not pass the checks"
    assert good.notes == (
        "not compared with yesterday: the rows of 2026-11-24 did not pass the checks",
    )


def test_partition_delivered_twice__is_flagged_and_counts_once(folder: Path) -> None:
    assert nightly("--backfill", f"{on(29)}..{on(30)}", "-q").exit_code == 3
    shutil.copytree(f"logs/day={on(30)}", "logs/day=2026-12-01", dirs_exist_ok=True)
    before = json.loads(nightly("--date", on(30), "--json", "-").stdout)["nights"][0]
    for more in (["--dry-run"], []):
        outcome = nightly("--date", "2026-12-01", "--json", "-", *more)
        assert outcome.exit_code == 4
        (told,) = json.loads(outcome.stdout)["nights"]
        assert told["quality"]["flags"] == ["the rows are those of 2026-11-30"]
        assert told["periods"] == before["periods"]
        why = "2026-12-01 is left out: its rows are those of 2026-11-30"
        assert told["period_notes"] == [f"week and month: {text}" for text in (why, NO_INTERVALS)]
    # The night that had the rows first is as it was, and so is a run of the same night again.
    state = dump()
    assert nightly("--date", on(30), "-q").exit_code == 3
    assert nightly("--date", "2026-12-01", "-q").exit_code == 4
    assert dump() == state
    assert kept()[-2].quality.flags == ()


def test_empty_partitions__are_not_those_of_one_another(folder: Path) -> None:
    shutil.copytree(f"logs/day={on(16)}", f"logs/day={on(17)}", dirs_exist_ok=True)
    assert nightly("--backfill", f"{on(16)}..{on(17)}", "-q").exit_code == 4
    assert [flag for night in kept() for flag in night.quality.flags if "those of" in flag] == []


def test_auc__has_an_interval_and_a_test_under_its_plain_name(folder: Path) -> None:
    adjust(folder, '[gates]\nfail_if = ["AUC ci_low > 0.9", "AUC p_adjusted < 0"]\n')
    outcome = nightly("--backfill", f"{on(2)}..{on(3)}", "--json", "-")
    assert outcome.exit_code == 0
    night = kept()[-1]
    assert night.measures == ("GAUC", "AUC", "LogLoss")
    assert set(night.curves) == {"roc", "calibration"}
    assert night.conventions["measures"]["AUC"]["se"] == "clustered"  # type: ignore[index]
    values = [v for v in night.values if v.measure == "AUC"]
    assert {v.by for v in values} == {None, "slot"}
    assert all(0 < v.ci_low < v.value < v.ci_high for v in values)
    tests = {line.kind: line.verdict for line in night.compared if line.measure == "AUC"}
    assert set(tests) == {"baseline", "yesterday"}
    assert "not tested" not in tests.values()
    (_, of) = json.loads(outcome.stdout)["nights"]
    (week,) = [v for v in of["periods"]["week"] if (v["score"], v["measure"]) == ("score_a", "AUC")]
    assert week["se"] is None
    plain = CONFIG.replace('"AUC"', '"AUC(se=None)"').replace("LogLoss", "AUC(bins=64)")
    Path("plain.toml").write_text(plain + '[history]\nfile = "plain.db"\n')
    assert nightly("plain.toml", "--date", on(2), "-q").exit_code == 0
    (night,) = kept("plain.db")
    assert night.measures == ("GAUC", "AUC", "AUC(bins=64)")
    assert {v.warning for v in night.values if v.measure == "AUC"} == {"pooled"}
    assert set(night.curves) == {"roc", "calibration"}


def test_gates_since_yesterday__new_model_measure_or_slice__are_not_judged(folder: Path) -> None:
    gates = '[gates]\nfail_if_yesterday = ["GAUC delta_ci_high < -0.5", "AUC delta < -0.5", '
    gates += '"GAUC[*] delta_ci_high < -0.5", "score_b:GAUC delta < -0.5", "GAUC delta < 0.5"]\n'
    first = CONFIG.replace('"score_a", "score_b"]', '"score_a"]').replace('["slot"]', '["country"]')
    first = first.replace('"GAUC", "AUC"', '"GAUC"').replace('baseline = "score_a"', "")
    Path("nightly.toml").write_text(first)
    assert nightly("--date", on(1), "-q").exit_code == 0
    Path("nightly.toml").write_text(CONFIG + gates)
    assert nightly("--date", on(2), "-q").exit_code == 3
    night = kept()[-1]
    why = [gate.reason for gate in night.gates]
    assert [gate.passed for gate in night.gates] == [True, True, True, True, False]
    assert why[0] == "not judged in part: 2026-11-01 has no score_b"
    assert why[1] == "not judged: 2026-11-01 has no AUC, score_b"
    assert re.fullmatch("not judged: 2026-11-01 has no slot=[a-z]+, .*score_b.*", why[2])
    assert why[3] == "not judged: 2026-11-01 has no score_b"
    assert re.fullmatch("score_a: [-0-9.e]+; not judged in part: 2026-11-01 has .*score_b", why[4])
    assert [outcome_of(gate).word for gate in night.gates] == [
        "passed", "not judged", "not judged", "not judged", "failed",
    ]  # fmt: skip
    fine = replace(night, gates=night.gates[:1], status="fine")
    assert any(", in part: 2026-11-01 has no score_b" in each for each in not_judged(fine))


def told(**conventions: Any) -> Any:
    return a_night(conventions={"ties": "expected", "columns": {"group": ["user"]}, **conventions})


def test_differing__names_what_numbers_depend_on() -> None:
    assert convention_differences(told(), told()) == ()
    assert convention_differences(told(ties="worst", weight="w"), told()) == ("ties", "weight")
    same = {"order": "sorted", "confidence": 0.9, "by": ["slot"], "min_groups": 3}
    same |= {"quality": {"min_rows": 7}, "rows_left_out": {"null_group": {"rows": 10}}}
    assert convention_differences(told(**same), told()) == ()
    assert convention_differences(told(columns={"group": ["session"]}), told()) == ("columns",)
    measures = {"GAUC": {"weight": "rows"}, "AUC": {"se": None}}
    other = {**measures, "GAUC": {"weight": "uniform"}}
    assert convention_differences(told(measures=measures), told(measures=other)) == ("GAUC",)
    more = {**measures, "AUC": {"se": "clustered"}, "RR": {}}
    assert convention_differences(told(measures=measures), told(measures=more)) == ()


def test_page__edge_of_conventions__is_drawn_and_told() -> None:
    pytest.importorskip("jinja2")
    from fastrank_eval.apps.nightly import charts
    from fastrank_eval.apps.nightly.page import page

    nights = list(month(4))
    alike = charts.counts("rows", "Rows", nights, [1.0, 2.0, 3.0, 4.0])
    assert charts.edges(nights) == []
    assert "Vertical lines mark" not in page(nights)
    nights[-1] = replace(
        nights[-1],
        conventions={**nights[-1].conventions, "ties": "worst"},
        notes=("not compared with yesterday: conventions differ from <b>: ties",),
    )
    assert charts.edges(nights) == [nights[-1].date]
    with_edge = charts.counts("rows", "Rows", nights, [1.0, 2.0, 3.0, 4.0])
    assert with_edge.svg.count("<path") == alike.svg.count("<path") + 1
    html = page(nights)
    assert "Vertical lines mark changes of conventions" in html
    assert "Not compared with yesterday: conventions differ from &lt;b&gt;: ties." in html
