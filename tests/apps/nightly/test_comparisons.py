"""fastrank-eval nightly: what a night is compared with, and what it is not."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastrank_eval.apps.nightly import quality
from fastrank_eval.apps.nightly.compare_nights import convention_differences
from fastrank_eval.apps.nightly.documents import document
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.periods import NO_INTERVALS
from fastrank_eval.apps.nightly.summary_files import lines, summary
from fastrank_eval.apps.nightly.text import meaning
from tests.support.nightly_runs import CONFIG, adjust, days, dump, kept, kept_on, nightly, on
from tests.support.nights import a_night
from tests.support.sample_nights import month
from tests.support.transcripts import Case, cases


def said_of(night: Night, exit_code: int) -> Iterator[str]:
    """What a night is compared with, and what its gates say."""
    compared = " ".join(dict.fromkeys(one.kind for one in night.compared)) or "nothing"
    yield f"{night.date.day}: {night.status}, exit {exit_code}, compared with {compared}"
    for one in night.gates:
        yield f"gate {': '.join(filter(None, [one.text, one.outcome, one.reason]))}"
    others = lines([document(night)]).splitlines()[1:]
    yield from (line.strip() for line in others if "gate failed" not in line)
    if night.status == "fine":
        yield meaning(night)
    assert summary(document(night))["notes"] == [*night.notes]


@pytest.mark.parametrize("case", cases("comparisons"), ids=str)
def test_nights__say_what_they_are_compared_with(folder: Path, case: Case) -> None:
    """Lines such as `2-3` are nights; others are of the configuration from there on."""
    found: list[str] = []
    for config, line in case.steps(CONFIG, r"\d"):
        Path("nightly.toml").write_text(config)
        for day in days(line):
            exit_code = nightly("--date", on(day), "-q").exit_code
            found += said_of(kept_on(day), exit_code)
    case.check(found)


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


def test_auc__of_many_rows__is_computed_in_bins_under_its_plain_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adjust(folder, '[gates]\nfail_if = ["AUC delta_ci_high < 0"]\nalarm = "sequence"\n')
    assert nightly("--date", on(1), "-q").exit_code == 0
    monkeypatch.setattr(quality, "MOST_ROWS", max(n.quality.rows for n in kept()) - 1)
    # Files of fewer rows too: nights after one of many rows are computed alike.
    outcome = nightly("--backfill", f"{on(2)}..{on(3)}", "--json", "-")
    assert outcome.exit_code == 0
    week = json.loads(outcome.stdout)["nights"][-1]["periods"]["week"]
    assert [value["measure"] for value in week[:3]] == ["GAUC", "AUC", "LogLoss"]
    exact, *others = kept()
    assert exact.conventions["measures"]["AUC"]["bins"] is None  # type: ignore[index]
    for night in others:
        assert night.measures == ("GAUC", "AUC", "LogLoss")
        options = night.conventions["measures"]["AUC"]  # type: ignore[index]
        assert (options["bins"], options["se"]) == (65536, "clustered")
        assert not night.curves
        values = [v for v in night.values if v.measure == "AUC"]
        assert {v.by for v in values} == {None, "slot"}
        values = [v for v in values if v.warning != "one_group"]
        assert all(0 < v.ci_low < v.value < v.ci_high for v in values)
        named = {v.slice for v in values}
        lines = [v for v in night.compared if v.measure == "AUC" and v.slice in named]
        assert all(v.se > 0 for v in lines if v.kind == "baseline")
        (gate, _) = night.gates
        assert gate.passed
    assert "conventions differ from 2026-11-01: AUC" in "".join(others[0].notes)
    assert {one.kind for one in others[1].compared} == {"baseline", "yesterday"}
    database = sqlite3.connect("history.db")
    kinds = dict(database.execute("SELECT kind, date FROM state ORDER BY date"))
    database.close()
    assert kinds["scores"] == on(1)
    assert kinds["bins"] == kinds["sums"] == on(3)


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
