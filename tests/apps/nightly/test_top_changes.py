"""What moved on a night: what a gate failed for first, and the same wherever it is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fastrank_eval.apps.nightly.night import GateOutcome, Night, NightDifference
from fastrank_eval.apps.nightly.page import page
from fastrank_eval.apps.nightly.page_rows import TopChanges, changed_slices, top_changes
from fastrank_eval.apps.nightly.summary_files import night_dict, night_markdown
from tests.support.html_elements import elements
from tests.support.nights import a_night
from tests.support.sample_nights import BROKEN, MODELS, month


def change(
    part: str, measure: str, z: float, verdict: str, kind: str = "baseline", score: str = "new"
) -> NightDifference:
    by = "" if part == "all" else part.partition("=")[0]
    return NightDifference(
        kind, score, "old", by, part, measure, -0.01 * z, 0.01, p_value=0.0, p_adjusted=0.0,
        verdict=verdict,
    )  # fmt: skip


def night_of(*compared: NightDifference, gates: tuple[GateOutcome, ...] = ()) -> Night:
    return a_night(measures=("GAUC", "AUC", "PCOC"), compared=compared, gates=gates)


def named(found: list[TopChanges]) -> list[tuple[str, str]]:
    return [(one.difference.slice, one.difference.measure) for one in found]


SIDE = (
    change("slot=side", "PCOC", 14, "lower"),
    change("slot=side", "GAUC", 5, "worse"),
    change("slot=top", "PCOC", 20, "higher"),
    change("country=US", "GAUC", 9, "better"),
    change("country=FR", "GAUC", 7, "worse"),
    change("country=GB", "AUC", 30, "not significant"),
)
FAILED = GateOutcome("GAUC[slot=side] delta < -0.01", False, "new: -0.05")


def test_moved__what_a_gate_failed_for_leads_in_its_measure() -> None:
    found = top_changes(night_of(*SIDE, gates=(FAILED,)))
    assert named(found) == [
        ("slot=side", "GAUC"), ("country=FR", "GAUC"), ("country=US", "GAUC"), ("slot=top", "PCOC"),
    ]  # fmt: skip
    assert [one.alarmed for one in found] == [True, False, False, False]
    assert [one.others for one in found] == [1, 0, 0, 0]


def test_moved__no_gate_failed__worse_in_the_first_measure_leads() -> None:
    found = top_changes(night_of(*SIDE, gates=(replace(FAILED, passed=True),)))
    assert named(found)[:2] == [("country=FR", "GAUC"), ("slot=side", "GAUC")]
    assert not any(one.alarmed for one in found)


@pytest.mark.parametrize(
    "condition, reason, alarmed, kind",
    [
        ("GAUC[*] delta < -0.01", "new, slot=side: -0.05; new, slot=gone: -0.1", True, "baseline"),
        ("GAUC[*] delta < -0.01", "new, country=FR: -0.05", False, "baseline"),
        ("new:GAUC[slot=side] delta < -0.01", "-0.05", True, "baseline"),
        ("old:GAUC[slot=side] value < 0.6", "0.5", False, "baseline"),
        ("GAUC[slot=side] value < 0.6", "new: 0.5", True, "baseline"),
        ("GAUC[slot=side] value < 0.6", "old: 0.5", False, "baseline"),
        ("GAUC[slot=side] delta < -0.01", "new: -0.05", False, "yesterday"),
        ("GAUC[slot=side] value < 0.6", "new: 0.5", True, "yesterday"),
        ("GAUC[slot=a (since b)] < 1 or GAUC[slot=side] < 0.6", "new: 0.5", True, "baseline"),
        ("GAUC delta < -0.01", "new: -0.05", False, "baseline"),
        ("rows < 10", "5", False, "baseline"),
        ("Unheard[slot=side] delta < 1", "new: 0.5", False, "baseline"),
        ("GAUC(weight='positives')[slot=side] delta < 1", "new: 0.5", False, "baseline"),
    ],
)
def test_moved__gates_of_every_form(condition: str, reason: str, alarmed: bool, kind: str) -> None:
    found = top_changes(night_of(*SIDE, gates=(GateOutcome(condition, False, reason, kind),)))
    (side,) = (one for one in found if one.difference.slice == "slot=side")
    assert side.alarmed == alarmed


def test_moved__a_gate_named_as_before_a_profile__is_of_the_measure_it_gave() -> None:
    of_profile = "GAUC(weight='positives')"
    night = night_of(change("slot=side", of_profile, 5, "worse"), gates=(FAILED,))
    requested = {**night.conventions, "requested": {"GAUC": of_profile}}
    night = replace(night, measures=("PCOC", of_profile), conventions=requested)
    assert top_changes(night)[0].alarmed


def test_moved__beside_the_baseline_and_since__are_told_apart() -> None:
    found = top_changes(night_of(*SIDE, change("slot=side", "GAUC", 3, "worse", "yesterday")))
    assert sorted(one.difference.kind for one in found if one.difference.slice == "slot=side") == [
        "baseline",
        "yesterday",
    ]


def test_moved__a_slice_broken_in_every_measure__is_one() -> None:
    since = [one for one in changed_slices(month()[-1]) if one.difference.kind != "baseline"]
    of = [(one.difference.slice, one.difference.score) for one in since]
    assert of[0] == (BROKEN, MODELS[1])
    assert len(of) == len(set(of))
    assert since[0].others >= 2


def test_moved__page_json_and_markdown__choose_the_same() -> None:
    night = night_of(*SIDE, gates=(FAILED,))
    (first, *_), text = night_dict(night)["top_changes"], night_markdown(night)
    assert (first["slice"], first["measure"], first["gate_failed"]) == ("slot=side", "GAUC", True)
    lead = next(line for line in text.splitlines() if line.startswith("* `slot"))
    assert lead.startswith("* `slot=side` of `new`: `GAUC` -0.05")
    assert lead.endswith("; gate failed; 1 more change")
    found = elements(page([night]))
    box: Any = next(one for one in found if one.attributes.get("class") == "changes")
    told = box.children[0].all_text()
    for words in ("slot=side", "worse", "GAUC", "gate failed", "1 more change"):
        assert words in told
