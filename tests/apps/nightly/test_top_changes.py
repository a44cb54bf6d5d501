"""What moved on a night: what a gate failed for first, and the same wherever it is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fastrank_eval.apps.nightly.documents import document
from fastrank_eval.apps.nightly.night import Finding, Night, NightDifference
from tests.support.nights import a_night


def change(
    part: str, measure: str, z: float, verdict: str, kind: str = "baseline", score: str = "new"
) -> NightDifference:
    by = "" if part == "all" else part.partition("=")[0]
    return NightDifference(
        kind, score, "old", by, part, measure, -0.01 * z, 0.01, p_value=0.0, p_adjusted=0.0,
        verdict=verdict,
    )  # fmt: skip


def night_of(*compared: NightDifference, findings: tuple[Finding, ...] = ()) -> Night:
    return a_night(measures=("GAUC", "AUC", "PCOC"), compared=compared, findings=findings)


def top_changes(night: Night) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document(night)["top_changes"]
    return found


def named(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["slice"], one["measure"]) for one in found]


SIDE = (
    change("slot=side", "PCOC", 14, "lower"),
    change("slot=side", "GAUC", 5, "worse"),
    change("slot=top", "PCOC", 20, "higher"),
    change("country=US", "GAUC", 9, "better"),
    change("country=FR", "GAUC", 7, "worse"),
    change("country=GB", "AUC", 30, "not significant"),
)
FAILED = Finding(
    "gate", "GAUC[slot=side] delta < -0.01", "new", "slot", "slot=side", "GAUC", "baseline"
)


def test_moved__what_a_gate_failed_for_leads_in_its_measure() -> None:
    found = top_changes(night_of(*SIDE, findings=(FAILED,)))
    assert named(found) == [
        ("slot=side", "GAUC"), ("country=FR", "GAUC"), ("country=US", "GAUC"), ("slot=top", "PCOC"),
    ]  # fmt: skip
    assert [one["gate_failed"] for one in found] == [True, False, False, False]
    assert [one["others"] for one in found] == [1, 0, 0, 0]
    assert named(top_changes(night_of(*SIDE)))[:2] == [
        ("country=FR", "GAUC"),
        ("slot=side", "GAUC"),
    ]


@pytest.mark.parametrize(
    "changes, alarmed",
    [
        ({"compared": ""}, True),  # a limit of the value
        ({"compared": "yesterday", "against": "2026-10-31"}, False),
        ({"slice": "country=FR"}, False),
        ({"score": "old"}, False),
        ({"measure": ""}, False),  # a gate on rows
    ],
)
def test_moved__gates_of_every_form(changes: dict[str, str], alarmed: bool) -> None:
    found = top_changes(night_of(*SIDE, findings=(replace(FAILED, **changes),)))
    (side,) = (one for one in found if one["slice"] == "slot=side")
    assert side["gate_failed"] == alarmed
