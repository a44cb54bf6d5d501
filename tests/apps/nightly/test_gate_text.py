"""Gates as text: the worst failures first, and nights without rows."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from fastrank_eval.apps.nightly.compare_nights import (
    EarlierNight,
    JudgedGate,
    gate_outcomes,
    gate_so_far,
)
from fastrank_eval.apps.nightly.config_checks import settings
from fastrank_eval.apps.nightly.documents import document
from fastrank_eval.apps.nightly.findings import by_importance, gate_findings
from fastrank_eval.apps.nightly.night import NOT_JUDGED, SO_FAR, GateOutcome, Night
from fastrank_eval.apps.nightly.page import page
from fastrank_eval.apps.nightly.summary_files import markdown
from fastrank_eval.apps.nightly.text import false_alarms, gate_texts, not_judged
from fastrank_eval.engine.records import LEFT_OUT
from fastrank_eval.io.columns import UNJUDGED
from tests.support.sample_nights import month
from tests.support.transcripts import answers


def judged_by(night: Night, condition: str) -> JudgedGate:
    none = dict.fromkeys(("yesterday", "last_week"), EarlierNight(None))
    (judged,) = gate_outcomes(night, settings("gates", fail_if=(condition,)), none)
    return judged


def reason(night: Night, condition: str) -> str:
    outcome, failures = judged_by(night, condition)
    assert not outcome.passed
    first = by_importance(gate_findings(night, [(outcome, failures)]))[0]
    worst = failures[0]
    assert (first.score, first.slice) == (worst.score, worst.slice or "all")
    return outcome.reason


@pytest.mark.parametrize(
    "condition", ["GAUC[*] < 0.9", "0.9 > GAUC[*]", "GAUC[*] < 0.9 or rows < 1"]
)
def test_limit_of_all_slices__names_the_worst_five_and_the_number_of_others(condition: str) -> None:
    night = month()[-1]
    values = [v for v in night.values if v.measure == "GAUC" and v.slice != "all"]
    worst = sorted(values, key=lambda v: v.value)[:5]
    named = reason(night, condition).split("; ")
    assert [text.partition(": ")[0] for text in named[:5]] == [
        f"{v.score}, {v.slice}" for v in worst
    ]
    assert named[5:] == [f"{len(values) - 5} more"]
    assert reason(night, "GAUC < 0.9").count("; ") == 2  # few are all named


def test_difference_in_all_slices__names_the_largest_certain_ones() -> None:
    night = month()[-1]
    differences = tuple(
        replace(d, delta=-0.1 - n / 1000, ci_low=-0.2, ci_high=-n / 1000 - 0.05, verdict="worse")
        for n, d in enumerate(
            d
            for d in night.compared
            if (d.kind, d.measure, d.score) == ("baseline", "GAUC", "ctr_wide")
        )
    )
    night = replace(night, compared=differences, models=("ctr_prod", "ctr_wide"))
    night = replace(night, values=tuple(v for v in night.values if v.score != "ctr_small"))
    named = reason(night, "GAUC[*] delta_ci_high < 0").split("; ")
    values = {(v.score, v.slice, v.measure): v.value for v in night.values}
    of = {d.slice: values["ctr_wide", d.slice, "GAUC"] for d in differences}
    sizes = {d.slice: d.ci_high / (of[d.slice] - d.delta) for d in differences}
    worst = sorted((label for label in sizes if label != "all"), key=lambda label: sizes[label])
    assert [text.partition(": ")[0] for text in named[:5]] == [
        f"ctr_wide, {label}" for label in worst[:5]
    ]


def test_provisional_night_without_rows__says_so_once() -> None:
    night = month()[-1]
    night = replace(night, quality=replace(night.quality, rows=0, flags=("rows 0, below 1",)))
    night = replace(night, provisional=True, status="data_quality")
    gates = settings("gates", fail_if=("GAUC < 0.9",))
    (judged,) = gate_outcomes(night, gates, {})
    assert judged == (
        GateOutcome("GAUC < 0.9", False, "the night has no rows", exception=NOT_JUDGED), ()
    )  # fmt: skip
    outcome = gate_so_far(judged[0], night, gates)
    assert outcome == replace(judged[0], passed=True)
    assert markdown([document(replace(night, gates=(outcome,)))]).count("no rows") == 1


def test_provisional_night_without_a_label__does_not_judge_its_gates() -> None:
    night = replace(month()[-1], provisional=True)
    left_out = {LEFT_OUT: {UNJUDGED: {"rows": 5}}}
    night = replace(
        night, quality=replace(night.quality, rows=0),
        conventions={**night.conventions, **left_out},
    )  # fmt: skip
    gates = settings("gates", fail_if=("GAUC < 0.9", "rows < 1"))
    judged = [gate_so_far(each, night, gates) for each, _ in gate_outcomes(night, gates, {})]
    assert [(one.outcome, one.passed, one.reason) for one in judged] == [
        ("not judged", True, "no row has a label"), ("failed", False, "there are no rows"),
    ]  # fmt: skip
    shown = document(replace(night, gates=tuple(judged)))["texts"]
    assert shown["sentences"][0] == "5 rows, none has a label, so its gates cannot be judged."


def test_outcome__is_a_word_of_its_own_and_the_reason_only_says_why() -> None:
    complete = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    night = replace(month()[-1], provisional=True, labels_complete=complete)
    gates = settings("gates", fail_if=("GAUC < 0.9", "GAUC < 0.1"), fail_if_yesterday=("GAUC < 1",))
    earlier = {"yesterday": EarlierNight(None, "history has no rows of <date>")}
    judged = [outcome for outcome, _ in gate_outcomes(night, gates, earlier)]
    assert [one.outcome for one in judged] == ["failed", "passed", "not judged"]
    assert [one.passed for one in judged] == [False, True, True]
    assert judged[2].reason == "history has no rows of <date>"
    so_far = gate_so_far(judged[0], night, gates)
    assert so_far == replace(judged[0], passed=True, exception=SO_FAR)
    assert so_far.outcome == "fails so far"
    shown = document(replace(night, gates=(so_far, *judged[1:])))
    keys = [(one["passed"], one["outcome"], one["reason"]) for one in shown["gates"]]
    assert keys == [
        (True, "fails so far", judged[0].reason),
        (True, "passed", ""),
        (True, "not judged", judged[2].reason),
    ]
    so_far_text = f"gate fails with the labels so far: GAUC < 0.9: {judged[0].reason}"
    assert shown["texts"]["label_delay"][-1] == so_far_text


def test_gates_with_corrected_p_values__say_how_often_they_fail_without_a_difference() -> None:
    night = month()[-1]
    slicings = len({value.by for value in night.values if value.by})
    outcomes = [GateOutcome("worse(GAUC)", True), GateOutcome("GAUC delta_ci_high < 0", True)]
    one = "1 gate with corrected p-values: at most 5% of the nights without any difference fail "
    assert false_alarms(replace(night, gates=tuple(outcomes))) == f"{one}by them."
    outcomes += [GateOutcome("worse(GAUC[*]) or rows < 5", True), GateOutcome("alarm = 'x'", False)]
    night = replace(night, gates=tuple(outcomes))
    total = 1 + slicings
    text = (
        f"2 gates with {total} families of corrected p-values, one for each measure and slicing of "
        f"a gate: at most {total} × 5% = {5 * total}% of the nights without any difference fail by "
        "them."
    )
    assert false_alarms(night) == text
    assert text in page([night])
    assert text not in gate_texts(night)
    failed = replace(night, gates=(replace(outcomes[0], passed=False), *outcomes[1:]))
    assert gate_texts(failed)[-1] == text
    uncorrected = replace(night, gates=tuple(outcomes[1:2]))
    assert false_alarms(uncorrected) == ""


def test_gate_of_every_slice__leaves_out_and_names_slices_without_numbers() -> None:
    night = month()[-1]
    first = next(v.slice for v in night.values if v.slice != "all")
    values = tuple(
        replace(v, groups_used=0, dropped={"all_negative": 3}) if v.slice == first else v
        for v in night.values
    )
    night = replace(night, values=values)
    slices = len({v.slice for v in values}) - 1
    outcome, _ = judged_by(night, "GAUC[*] < 0")
    left_out = f"{first} (all_negative), 1 of {slices} slices"
    assert outcome == GateOutcome("GAUC[*] < 0", True, f"not judged in part: {left_out}")
    assert not_judged(replace(night, gates=(outcome,)))[-1].endswith(f"in part: {left_out}")
    assert reason(night, "GAUC[*] < 2").endswith(f"; not judged in part: {left_out}")


test_answers = answers(globals())
