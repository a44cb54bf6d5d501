"""Gates as text: the worst failures first, and nights without rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fastrank_eval.apps.nightly.compare_nights import EarlierNight, gate_outcomes
from fastrank_eval.apps.nightly.findings import by_importance, gate_findings
from fastrank_eval.apps.nightly.label_summary import nights_lines, nights_markdown
from fastrank_eval.apps.nightly.maturity import gate_so_far
from fastrank_eval.apps.nightly.night import NO_ROWS, GateOutcome, GateTexts, Night
from fastrank_eval.apps.nightly.page import page
from fastrank_eval.apps.nightly.summary_files import night_markdown
from tests.support.html_elements import elements
from tests.support.nightly_runs import adjust, kept, nightly, on
from tests.support.sample_nights import month

GATES = """[gates]
fail_if = ["GAUC delta_ci_high < -0.01", "GAUC[*] < 0.1", "rows < 5"]
fail_if_yesterday = ["GAUC delta_ci_high < -0.02"]
"""


def reason(night: Night, condition: str) -> str:
    none = dict.fromkeys(("yesterday", "last_week"), EarlierNight(None))
    (judged,) = gate_outcomes(night, GateTexts(fail_if=(condition,)), none)
    assert not judged.outcome.passed
    first = by_importance(gate_findings(night, [judged]))[0]
    worst = judged.failures[0]
    assert (first.score, first.slice) == (worst.score, worst.slice or "all")
    return judged.outcome.reason


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
    sizes = {d.slice: d.ci_high / (night_value(night, d.slice) - d.delta) for d in differences}
    worst = sorted((label for label in sizes if label != "all"), key=lambda label: sizes[label])
    assert [text.partition(": ")[0] for text in named[:5]] == [
        f"ctr_wide, {label}" for label in worst[:5]
    ]


def night_value(night: Night, label: str) -> float:
    return next(
        v.value
        for v in night.values
        if (v.score, v.slice, v.measure) == ("ctr_wide", label, "GAUC")
    )


def test_few_failures__are_all_named() -> None:
    night = month()[-1]
    assert reason(night, "GAUC < 0.9").count("; ") == 2


@pytest.fixture
def folder(nightly_folder: Path) -> Path:
    """The rows of the 15th, and no row of the 16th."""
    adjust(nightly_folder, GATES)
    assert nightly("--date", on(15), "-q").exit_code == 0
    return nightly_folder


def test_night_without_rows__says_so_once__and_fails_as_before(folder: Path) -> None:
    outcome = nightly("--date", on(16), "--json", "out.json")
    assert outcome.exit_code == 4
    assert outcome.stdout.count("no rows") == 1
    assert "  The night has no rows, so its gates cannot be judged.\n" in outcome.stdout
    assert "gate failed" not in outcome.stdout
    night = kept()[-1]
    assert night.status == "data_quality"
    assert [(gate.passed, gate.reason == NO_ROWS) for gate in night.gates] == [
        (False, True),
        (False, True),
        (False, False),  # a gate on the number of rows is judged
        (False, True),
    ]
    (summary,) = json.loads(Path("out.json").read_text())["nights"]
    assert summary["reason"] == "The night has no rows, so its gates cannot be judged."
    assert summary["quality"]["flags"] == list(night.quality.flags)
    cells = [one for one in elements(page([night])) if one.attributes.get("data-l") == "Outcome"]
    assert [each.all_text().strip() for each in cells] == [
        "not judged",
        "not judged",
        "failed",
        "not judged",
    ]


def test_night_without_rows__and_without_limits__is_a_regression_by_its_gates(folder: Path) -> None:
    adjust(folder, "[quality]\nmin_rows = 0\nmin_groups = 0\n")
    outcome = nightly("--date", on(16))
    assert outcome.exit_code == 3
    assert kept()[-1].status == "regression"
    assert outcome.stdout.count("no rows") == 1


@pytest.mark.parametrize("gates", [True, False])
def test_night_without_rows__of_two_labels__says_so_once(folder: Path, gates: bool) -> None:
    assert nightly("--date", on(16), "-q").exit_code == 4
    night = kept()[-1] if gates else replace(kept()[-1], gates=())
    nights = [replace(night, label=label) for label in ("click", "order")]
    assert nights_lines(nights).count("no rows") == 1
    assert nights_markdown(nights, [None, None]).count("no rows") == 1


def test_provisional_night_without_rows__says_so_once() -> None:
    night = month()[-1]
    night = replace(night, quality=replace(night.quality, rows=0, flags=("rows 0, below 1",)))
    night = replace(night, provisional=True, status="data_quality")
    gates = GateTexts(fail_if=("GAUC < 0.9",))
    outcome = gate_so_far(GateOutcome("GAUC < 0.9", False, NO_ROWS), night, gates)
    assert outcome == GateOutcome("GAUC < 0.9", True, NO_ROWS)
    assert night_markdown(replace(night, gates=(outcome,))).count("no rows") == 1
