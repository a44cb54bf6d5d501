"""Nights for tests of the report, with names and numbers that are easily lost."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

from fastrank_eval.apps.nightly.night import (
    CurveLine,
    GateOutcome,
    Night,
    NightDifference,
    NightQuality,
)
from fastrank_eval.engine.records import MeasureValue

HOSTILE = (
    "<script>alert(1)</script>",
    'it\'s "quoted"; DROP TABLE night; --',
    "line\nbreak\ttab\x00null\x1b[31m",
    "Zürich 東京 🎲 \u202e right to left",
    "{{ 7 * 7 }}{% raw %}",
)


def a_value(
    score: str, by: str | None, slice_label: str, measure: str, value: float, **fields: Any
) -> MeasureValue:
    """A value whose coverage does not matter."""
    covered = {"groups": 0, "groups_used": 0, "dropped": {}, "rows_share": math.nan}
    covered |= {"positives_share": math.nan, **fields}
    return MeasureValue(score, slice_label, measure, value, by=by, **covered)  # type: ignore[arg-type]


def a_night(day: int = 1, value: float = 0.75, **changes: Any) -> Night:
    values = tuple(
        MeasureValue(
            "new", name, "GAUC", value / (1 + at), 10, 7, {"all_negative": 3}, 1 / 3, math.nan,
            se=0.1, ci_low=math.nan, ci_high=math.inf, effective_groups=3.5, warning="few_groups",
            by="slot",
        )
        for at, name in enumerate(("all", *HOSTILE))
    )  # fmt: skip
    compared = tuple(
        NightDifference(kind, "new", "old", "slot", name, "GAUC", -0.1, verdict="worse")
        for kind in ("baseline", "yesterday")
        for name in HOSTILE
    )
    night: dict[str, Any] = {
        "date": dt.date(2026, 11, day),
        "title": HOSTILE[0],
        "models": ("old", "new"),
        "baseline": "old",
        "measures": ("GAUC",),
        "sources": (HOSTILE[3],),
        "command": "fastrank-eval nightly",
        "version": "1.0",
        "seconds": 0.1 + 0.2,
        "conventions": {"ties": "expected", "measures": {"GAUC": {"weight": "impressions"}}},
        "values": values,
        "quality": NightQuality(
            2**53 + 1, 10, 0, math.nan, 0.7, 0.3, 1e-300, {HOSTILE[1]: 4}, flags=HOSTILE
        ),
        "compared": compared,
        "curves": {"roc": (CurveLine("new", HOSTILE[2], (0.0, 0.1, 1.0), (0.0, 1 / 3, 1.0)),)},
        "gates": (GateOutcome("GAUC < 0.6", False, HOSTILE[4]), GateOutcome("rows < 1", True)),
        "status": "regression",
    }
    return Night(**{**night, **changes})
