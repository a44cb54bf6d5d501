"""fastrank-eval nightly with `alarm = "sequence"`: what it watches, raises, says and forgets."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fastrank_eval.apps.nightly.alarms import LEARNING, judge_alarms
from fastrank_eval.apps.nightly.config_checks import settings
from fastrank_eval.apps.nightly.documents import document
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Finding, GateOutcome, Night, NightDifference, Settings
from fastrank_eval.apps.nightly.page import page
from fastrank_eval.apps.nightly.summary_files import markdown, summary
from fastrank_eval.apps.nightly.text import sentences
from fastrank_eval.engine.records import MeasureValue
from tests.support.nights import a_night, a_value

FIRST = dt.date(2026, 3, 1)
ALARM = settings("gates", alarm="sequence")
CONDITION = 'alarm = "sequence"'
#: Slicing, slice and measure.
Key = tuple[str, str, str]
ALL_ROWS, SIDE, LOSS = ("", "all", "GAUC"), ("slot", "slot=side", "GAUC"), ("", "all", "LogLoss")
SE = 0.004


def on(number: int) -> dt.date:
    return FIRST + dt.timedelta(days=number)


def night_of(
    number: int, differences: Mapping[Key, float], se: float = SE, **fields: object
) -> Night:
    """A sound night whose model "new" differs from "old" by these numbers."""
    values: list[MeasureValue] = []
    compared = []
    for (by, name, measure), difference in differences.items():
        for score, value in (("old", 0.7), ("new", 0.7 + difference)):
            values.append(a_value(score, by or None, name, measure, value, se=0.01))
        ends = difference - 2 * se, difference + 2 * se
        compared.append(
            NightDifference(
                "baseline", "new", "old", by or None, name, measure, difference, se, *ends
            )
        )
    sound = a_night().quality
    quality = replace(sound, rows=1000, groups=100, ctr=0.1, flags=())
    made = a_night(
        values=tuple(values), compared=tuple(compared), quality=quality, gates=(), status="fine",
        date=on(number), title="Clicks", models=("old", "new"), measures=("GAUC", "LogLoss"),
        sources=("logs",), curves={},
    )  # fmt: skip
    return replace(made, **fields)  # type: ignore[arg-type]


def noise(number: int, key: Key) -> float:
    place = (ALL_ROWS, SIDE, LOSS).index(key)
    return SE * float(np.random.default_rng([number, place]).normal())


def differences_of(number: int, changes: Mapping[Key, tuple[int, float]]) -> dict[Key, float]:
    """Differences around 0.02 that change from a night on."""
    return {
        key: 0.02 + noise(number, key) + (size if number >= start else 0.0)
        for key, (start, size) in changes.items()
    }


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "history.db") as opened:
        yield opened


def run(
    history: History,
    nights: int,
    changes: Mapping[Key, tuple[int, float]],
    gates: Settings = ALARM,
    first: int = 0,
    **fields: object,
) -> dict[int, tuple[GateOutcome, list[Finding]]]:
    """Judge nights one after the other, and store them."""
    judged = {}
    with history.transaction():
        for number in range(first, nights):
            night = night_of(number, differences_of(number, changes), **fields)  # type: ignore[arg-type]
            (outcome,), findings, _ = judge_alarms(night, gates, history)
            judged[number] = outcome, findings
            history.write(replace(night, gates=(outcome,), findings=tuple(findings)))
    return judged


def failed(judged: Mapping[int, tuple[GateOutcome, list[Finding]]]) -> list[int]:
    return [number for number, (outcome, _) in judged.items() if not outcome.passed]


# ---- what raises an alarm -----------------------------------------------------------------------


def test_alarm__of_nights_without_a_change__is_never_raised(history: History) -> None:
    judged = run(history, 60, dict.fromkeys((ALL_ROWS, SIDE, LOSS), (99, 0.0)))
    assert failed(judged) == []
    assert [outcome.reason for outcome, _ in judged.values()] == [
        *(f"history has {n} of the 14 nights that levels need" for n in range(14)),
        *("" for _ in range(46)),
    ]
    assert all(outcome.condition == CONDITION for outcome, _ in judged.values())


def test_alarm__of_a_changed_slice__fails_one_night_and_is_then_quiet(history: History) -> None:
    judged = run(history, 80, {ALL_ROWS: (99, 0.0), SIDE: (40, -0.02)})
    (raised,) = failed(judged)
    assert 40 < raised < 46
    outcome, (finding,) = judged[raised]
    assert outcome == GateOutcome(CONDITION, False, "GAUC of new in slot=side")
    assert (finding.kind, finding.condition) == ("alarm", CONDITION)
    assert (finding.score, finding.by, finding.slice, finding.measure) == ("new", *SIDE)
    assert (finding.verdict, finding.since, finding.nights) == ("worse", on(40), raised - 39)
    assert finding.limit == pytest.approx(0.02, abs=0.002)
    assert finding.number == pytest.approx(0.0, abs=0.006)
    # Until the new level is known it is a finding without a gate.
    for number in range(raised + 1, 80):
        outcome, findings = judged[number]
        assert outcome.passed
        known = [(each.condition, each.since) for each in findings]
        assert known == ([("", on(40))] if number < raised + LEARNING else [])


def test_alarm__of_a_model_that_got_better__fails_too(history: History) -> None:
    """The baseline may have broken."""
    judged = run(history, 60, {ALL_ROWS: (40, 0.02), LOSS: (40, -0.02)})
    assert len(failed(judged)) == 1
    found = {each.verdict for _, findings in judged.values() for each in findings}
    assert found == {"better"}


def test_alarms__of_one_change__fail_one_night(history: History) -> None:
    """A small change of all rows is seen later than the large one of a slice."""
    judged = run(history, 75, {ALL_ROWS: (40, -0.008), SIDE: (40, -0.03), LOSS: (99, 0.0)})
    first, *others = failed(judged)
    assert others == []
    assert [each.slice for each in judged[first][1]] == ["slot=side"]
    later = {each.slice for number in range(first + 1, 60) for each in judged[number][1]}
    assert later == {"all", "slot=side"}


def test_alarm__of_a_new_change__is_raised_again(history: History) -> None:
    judged = run(history, 100, {SIDE: (40, -0.02), ALL_ROWS: (70, -0.02)})
    first, second = failed(judged)
    assert (40 < first < 46, 70 < second < 76) == (True, True)
    assert [each.slice for each in judged[second][1] if each.condition] == ["all"]


# ---- which nights are watched -------------------------------------------------------------------


def test_alarm_since__after_an_alarm__learns_again_from_that_night(history: History) -> None:
    changes = {ALL_ROWS: (40, -0.02)}
    (raised,) = failed(run(history, 50, changes))
    assert raised < 49
    acknowledged = settings("gates", alarm="sequence", alarm_since=on(48))
    night = night_of(50, differences_of(50, changes))
    (outcome,), findings, _ = judge_alarms(night, acknowledged, history)
    assert (outcome.passed, findings) == (True, [])
    assert outcome.reason == "history has 2 of the 14 nights that levels need"
    early = settings("gates", alarm="sequence", alarm_since=on(51))
    ((outcome,), _, _) = judge_alarms(night, early, history)
    assert outcome.reason == f"alarm_since is {on(51)}"
    # From that night on, only a new change is an alarm.
    history_of_change = run(history, 90, {ALL_ROWS: (40, -0.02)}, acknowledged, first=50)
    assert failed(history_of_change) == []


def test_nights__that_cannot_be_compared__are_left_out(history: History) -> None:
    run(history, 40, {ALL_ROWS: (99, 0.0)})
    night = night_of(40, differences_of(40, {ALL_ROWS: (99, 0.0)}))
    others = {"ties": "best", "measures": {"GAUC": {"weight": "impressions"}}}
    for other in (replace(night, conventions=others), replace(night, baseline="new")):
        ((outcome,), _, _) = judge_alarms(other, ALARM, history)
        assert outcome.reason == "history has 0 of the 14 nights that levels need"
    for number in range(10, 40):
        (stored,) = history.read(on(number), on(number))
        history.write(replace(stored, status="data_quality"))
    ((outcome,), _, _) = judge_alarms(night, ALARM, history)
    assert outcome.reason == "history has 10 of the 14 nights that levels need"
    flagged = replace(night, quality=replace(night.quality, flags=("rows 3, below 10",)))
    ((outcome,), _, _) = judge_alarms(flagged, ALARM, history)
    assert outcome.reason == "the rows of this night did not pass the checks"


@pytest.mark.parametrize("se", [0.0, math.nan])
def test_night__without_an_error_among_others__is_left_out(history: History, se: float) -> None:
    """An error of 0 is null: such a night has no weight, however far it is from the others."""
    changes = {ALL_ROWS: (60, -0.02)}
    expected = failed(run(history, 75, changes))
    assert len(expected) == 1
    for number in (3, 30, 45):
        odd = night_of(number, {ALL_ROWS: 5.0}, se=se)
        (outcome,), findings, _ = judge_alarms(odd, ALARM, history)
        assert (outcome.passed, findings) == (True, [])
        history.write(odd)
    for number in range(60, 75):
        night = night_of(number, differences_of(number, changes))
        (outcome,), _, _ = judge_alarms(night, ALARM, history)
        assert outcome.passed or number in (expected[0], expected[0] + 1)


def test_3__correlated_nights__are_named_on_the_page_of_the_night(history: History) -> None:
    noise = [np.random.default_rng(seed).normal() for seed in range(80)]
    for number in range(1, 80):
        noise[number] += 0.6 * noise[number - 1]
    for memory, notes in (
        (noise, 1),
        ([noise[number] * (-1) ** number for number in range(80)], 0),
    ):
        with history.transaction():
            for number in range(80):
                night = night_of(number, {ALL_ROWS: 0.02 + SE * memory[number]})
                _, _, said = judge_alarms(night, ALARM, history)
                history.write(night)
                assert number >= 59 or not said
        assert len(said) == notes
        if said:
            assert re.fullmatch(
                r"alarms: the differences of a night and of the night before are correlated "
                r"\(0\.[3-7]\d, above 0\.15\), so more than 5 % of years without a change may have "
                r"an alarm",
                said[0],
            )
            shown = replace(night, notes=tuple(said))
            assert said[0][1:] in page([shown])
            assert said[0] in markdown([document(shown)]).replace("\\", "")
            assert summary(document(shown))["notes"] == said


def test_night__run_again__is_judged_as_before(history: History) -> None:
    changes = {ALL_ROWS: (40, -0.02), SIDE: (60, -0.02)}
    judged = run(history, 70, changes)
    for number, expected in judged.items():
        (stored,) = history.read(on(number), on(number))
        (outcome,), findings, _ = judge_alarms(stored, ALARM, history)
        assert (outcome, findings) == expected


def test_night__without_an_alarm_in_its_configuration__has_none(history: History) -> None:
    run(history, 20, {ALL_ROWS: (99, 0.0)})
    assert judge_alarms(night_of(20, {ALL_ROWS: -9.0}), settings("gates"), history) == ([], [], [])


# ---- what is said -------------------------------------------------------------------------------


def test_alarm__in_words__has_both_levels_and_the_first_night(history: History) -> None:
    changes = {ALL_ROWS: (40, -0.02), LOSS: (40, 0.03), SIDE: (40, -0.04)}
    judged = run(history, 50, changes)
    (raised, *_) = failed(judged)
    night = replace(history.read(on(raised), on(raised))[0], status="regression")
    (first, *_) = judged[raised][1]
    (text, *others) = sentences(night)
    assert text.startswith(
        f"{first.measure} of new in slot=side got worse against old: the mean difference is -0.0"
    )
    assert ", and was +0.02" in text
    assert " over 40 nights before. Since 10 Apr " in text
    assert others == []
    assert summary(document(night))["findings"][0]["kind"] == "alarm"
    assert summary(document(night))["reason"] == text
    assert '<span class="verdict bad">alarm</span>' in page(history.read(last=on(raised)))
    later = replace(history.read(on(raised + 3), on(raised + 3))[0], status="changed")
    assert f"; the alarm was on {on(raised).day} Apr" in sentences(later)[0]
    assert '<span class="verdict bad">alarm</span>' not in page([later])
    assert '<span class="verdict warn">changed</span>' in page([later])


def test_alarm__names_measures_as_the_configuration_does(history: History) -> None:
    changes = {ALL_ROWS: (40, -0.02), LOSS: (43, 0.03)}
    names = {"ties": "best", "measures": {}, "names": {"GAUC": "Mine", "LogLoss": "Loss"}}
    judged = run(history, 55, changes, conventions=names)
    (raised,) = failed(judged)
    assert judged[raised][0].reason == "Mine of new"
    night = replace(history.read(on(raised), on(raised))[0], status="regression")
    assert sentences(night)[0].startswith("Mine of new got worse against old: ")
    # The change of the other measure is seen later.
    last = replace(history.read(on(54), on(54))[0], status="changed")
    assert sentences(last)[0].endswith("Also: Loss.")
