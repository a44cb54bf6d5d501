"""What stored nights say on their page, in lines and in Markdown: `tests/fixtures/told`."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fastrank_eval.apps.nightly.documents import document, documents
from fastrank_eval.apps.nightly.night import (
    NOT_JUDGED,
    SO_FAR,
    CompositionChange,
    EarlierJudgement,
    Finding,
    GateOutcome,
    Night,
    NightCalibration,
    NightDifference,
    NightDrift,
)
from fastrank_eval.apps.nightly.page import page
from fastrank_eval.apps.nightly.summary_files import lines, markdown
from tests.apps.nightly.test_page import planted, tiny
from tests.support.html_elements import elements, told_by
from tests.support.sample_nights import EMPTY, few, month
from tests.support.transcripts import Case, cases


def change(kind: str, part: str, measure: str, z: float, verdict: str) -> NightDifference:
    by = "" if part == "all" else part.partition("=")[0]
    return NightDifference(
        kind, "b", "a", by, part, measure, -0.01 * z, 0.01, -0.01 * z - 0.02, -0.01 * z + 0.02,
        p_value=0.0, p_adjusted=0.0, verdict=verdict,
    )  # fmt: skip


NIGHT = tiny(quality=replace(tiny().quality, volume_drift=0.1, ctr_drift=-0.2))
(ALL_A, SIDE_A, ALL_B, SIDE_B) = NIGHT.values
LIMITS = {"confidence": 0.9, "quality": {"min_rows": 1, "max_volume_drift": 5.0}}
PASSED = GateOutcome("GAUC < 0.5", True)
UNJUDGED = GateOutcome(
    "GAUC delta < 0", True, "history has no rows of 2026-11-18", "yesterday", NOT_JUDGED
)
COMPLETE = dt.datetime(2026, 11, 22, tzinfo=dt.UTC)
AT_FIRST = replace(NIGHT, provisional=True, labels_complete=COMPLETE, label_age=5.5)
BUCKETS = (
    ("@rows:10,50", "@rows=10-49"), ("@rows:10,50", "@rows<10"), ("@rows:20", "@rows<20"),
    ("@rows:20", "@rows>=20"), ("@positives:1", "@positives<1"),
)  # fmt: skip
BARE = [replace(v, measure="AUC", se=math.nan, ci_low=math.nan, ci_high=math.nan, warning="pooled")
        for v in NIGHT.values]  # fmt: skip


def calibrated(part: str, sigmas: float, p: float) -> NightCalibration:
    error = 0.1 * sigmas
    return NightCalibration(
        "b", "MultiECCE(columns='slot')", part, 900, 100.0, 100 + 30 * sigmas, error, sigmas, p, p,
        0.2,
    )  # fmt: skip


def drifted(name: str, part: str = "all", **fields: Any) -> NightDrift:
    usual: dict[str, Any] = {
        "rows": 1000, "nulls": 0, "distinct": 900, "median": 0.05, "mode_share": 0.01,
        "psi": 0.02, "ks": 0.03, "out_of_range": 0.0, "nights": 8, "reference_rows": 8000,
        "reference_nulls": 0, "reference_median": 0.04, "reference_mode_share": 0.01,
        "verdict": "same",
    }  # fmt: skip
    return NightDrift(name, None if part == "all" else "slot", part, **{**usual, **fields})


#: Nights by name; the last of several is shown.
NIGHTS: dict[str, Night | Sequence[Night]] = {
    "nine nights": [few(night) for night in month(9)],
    "bad rows": [few(night) for night in month(30)[: 30 - EMPTY]],
    "no gate": NIGHT,
    "gates that passed": replace(NIGHT, gates=(PASSED,)),
    "few nights before": tiny(gates=(PASSED,)),
    "few nights before, with limits": tiny(conventions=LIMITS),
    "a gate that is not judged": replace(NIGHT, gates=(UNJUDGED,)),
    "a gate that failed": replace(
        NIGHT, status="regression", gates=(GateOutcome("GAUC > 0", False, "b: 0.6"),)
    ),
    "no rows": replace(
        NIGHT, status="data_quality",
        quality=replace(NIGHT.quality, rows=0, flags=("rows 0, below 1",)),
        gates=tuple(
            GateOutcome(
                f"GAUC < 0.{at}", False, "the night has no rows", exception=NOT_JUDGED
            )
            for at in range(9)
        ),
    ),
    "no baseline": replace(NIGHT, baseline=None),
    "a measure without intervals": replace(
        NIGHT, measures=("AUC", "GAUC"), values=(*BARE, *NIGHT.values)
    ),
    "slices by activity": replace(NIGHT, measures=("AUC", "GAUC"), values=tuple(
        replace(ALL_A, measure=measure, by=by, slice=part)
        for measure in ("AUC", "GAUC")
        for by, part in (("", "all"), *BUCKETS)
    )),
    "a week": replace(
        NIGHT,
        periods={"week": tuple(replace(v, value=0.7123, ci_low=0.7, ci_high=0.72)
                               for v in NIGHT.values)},
        period_nights={"week": tuple(dt.date(2026, 11, day) for day in (2, 3, 5, 6, 7))},
        period_notes=("week: <slot> left out",),
    ),
    "changes": replace(
        NIGHT, measures=("GAUC", "PCOC"), status="regression",
        gates=(GateOutcome("GAUC[slot=1] delta < -0.01", False, "b: -0.05"),),
        findings=(
            Finding("gate", "GAUC[slot=1] delta < -0.01", "b", "slot", "slot=1", "GAUC", "baseline",
                    "a", value=0.6, base=0.65, delta=-0.05, verdict="worse", since=NIGHT.date),
        ),
        compared=(
            change("baseline", "slot=1", "PCOC", 14, "lower"),
            change("baseline", "slot=1", "GAUC", 5, "worse"),
            change("yesterday", "slot=1", "GAUC", 3, "worse"),
            change("baseline", "slot=2", "PCOC", 20, "higher"),
            change("baseline", "country=US", "GAUC", 9, "better"),
            change("baseline", "country=GB", "GAUC", 30, "not significant"),
            change("yesterday", "all", "GAUC", 4, "worse"),
        ),
        compositions=(
            CompositionChange("yesterday", "b", "GAUC", "country", -0.04, 0.01, -0.05, 0.0),
        ),
    ),
    "calibration": replace(NIGHT, calibration=(
        calibrated('slot="<b>`x`"', 5.1, 1e-9), *(calibrated(f"slot={n}", 4, 1e-5) for n in "1234"),
        calibrated("all", 0.4, 0.7),
    )),
    "drift": replace(
        NIGHT, status="regression",
        gates=(GateOutcome("psi > 0.25", False, "b: 0.5"),),
        findings=(
            Finding("drift", "psi > 0.25", "b", slice="all", field="psi", operator=">", limit=0.25,
                    number=0.5, against="the last 8 nights", since=NIGHT.date,
                    detail="The scores of b are far from those of the last 8 nights"),
        ),
        drift=(
            drifted("a"), drifted("b", psi=0.5, ks=0.4, verdict="failed", distinct=300),
            drifted("b", "slot=1", psi=0.4, verdict="failed", nulls=100, mode_share=0.25),
            drifted("price", psi=math.nan, ks=math.nan, verdict="not judged", nights=2),
        ),
    ),
    "labels to come": replace(AT_FIRST, status="provisional", gates=(
        GateOutcome("GAUC < 0.99", True, "b: 0.6", exception=SO_FAR),
    )),
    "labels that came": replace(
        NIGHT, labels_complete=COMPLETE, label_age=80.0,
        judged_before=EarlierJudgement("provisional", (("a", "GAUC", 0.58), ("b", "GAUC", 0.6))),
    ),
    "odd names": planted(NIGHT, " `x` | <script>\n"),
    "a note": replace(NIGHT, notes=("not compared with yesterday: <b> differs",), status="changed"),
}  # fmt: skip


PROBLEMS = replace(
    NIGHT, status="regression", notes=("a note",), gates=(GateOutcome("psi > 0.25", False, "b: 1"),)
)
DRIFT = Finding(
    "drift", "psi > 0.25", "b", slice="all", field="psi", operator=">", limit=0.25, number=0.5,
    against="the last 14 nights", since=NIGHT.date,
    detail="The scores of b are far from those of the last 14 nights",
)  # fmt: skip
DEAD = Finding("scores", "distinct scores < 2", "b", slice="all", limit=2.0, number=1.0, value=0.5)
OWN = Finding("gate", "GAUC < 0.5", detail="no value")
SHARED = replace(AT_FIRST, status="provisional", notes=("not compared with yesterday",))
#: Nights of several labels; what they share is said once.
LABELLED: dict[str, Sequence[Night]] = {
    "problems of all": (
        replace(PROBLEMS, label="click", findings=(DRIFT, DEAD, OWN)),
        replace(PROBLEMS, label="order", findings=(DRIFT, replace(DEAD, value=0.7))),
    ),
    "problems that differ": (
        replace(PROBLEMS, label="click", findings=(DRIFT,)),
        replace(PROBLEMS, label="order", findings=(replace(DRIFT, detail="b drifted"),)),
    ),
    "labels to come": (
        replace(SHARED, label="click"), replace(SHARED, label="cart"),
        replace(AT_FIRST, status="provisional", label="order",
                labels_complete=COMPLETE + dt.timedelta(days=4)),
    ),
    "no rows": tuple(replace(NIGHTS["no rows"], label=label) for label in ("click", "order")),
    "one label": (NIGHTS["a gate that failed"],),
}  # fmt: skip


def stored(case: Case) -> list[Night]:
    (name,) = case.given
    nights = NIGHTS[name]
    return [nights] if isinstance(nights, Night) else list(nights)


@pytest.mark.parametrize("case", cases("pages"), ids=str)
def test_page__of_a_night__says_what_is_stored(case: Case) -> None:
    case.check(told_by(page(stored(case))))


@pytest.mark.parametrize("case", cases("nights"), ids=str)
def test_night__in_its_banner_in_lines_and_in_markdown__says_the_same(case: Case) -> None:
    nights = stored(case)
    (banner,) = (
        one for one in elements(page(nights)) if "banner" in one.attributes.get("class", "").split()
    )
    told = [document(nights[-1])]
    texts = " ".join(banner.all_text().split()), lines(told), markdown(told)
    case.check(line for text in texts for line in text.splitlines() if line.strip())


@pytest.mark.parametrize("case", cases("labels"), ids=str)
def test_nights_of_labels__in_lines_and_in_markdown__say_once_what_they_share(case: Case) -> None:
    (name,) = case.given
    nights = LABELLED[name]
    told = documents(nights)
    texts = lines(told), markdown(told)
    case.check(line for text in texts for line in text.splitlines() if line.strip())
