"""Nights as JSON for webhooks: what happened, and enough numbers to say so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fastrank_eval.plain_values import plain_value
from fastrank_eval.report.moved import slices_moved
from fastrank_eval.report.nights import (
    KINDS,
    PERIODS,
    Finding,
    Night,
    NightDifference,
    NightValue,
)
from fastrank_eval.report.sentences import lead
from fastrank_eval.report.wording import confidence_of

__all__ = ["SCHEMA", "night_dict", "nights_json"]

#: Raised when a key changes its meaning or goes; new keys may come without.
SCHEMA = 1
_MOST_MOVED = 20
_NUMBERS = ("value", "se", "ci_low", "ci_high", "effective_groups", "groups", "groups_used")
_PLACE = ("kind", "score", "by", "slice", "measure")
_CHANGE = ("delta", "se", "ci_low", "ci_high", "relative", "p_value", "p_adjusted", "verdict")


def nights_json(nights: Sequence[dict[str, Any]], exit_code: int, error: str | None = None) -> str:
    """Write what a run came to.

    Parameters
    ----------
    nights : sequence of dict
        Of `night_dict`, or ``{"date", "error"}`` of a night that could not be evaluated.
    exit_code : int
    error : str, optional
        Why no night was run.

    Returns
    -------
    str
        Strictly valid JSON in ASCII; docs/NIGHTLY.md tells its keys.
    """
    whole = {"schema": SCHEMA, "exit_code": exit_code, "nights": nights}
    if error is not None:
        whole["error"] = error
    return json.dumps(whole, indent=2, allow_nan=False) + "\n"


def night_dict(
    night: Night, page: str | None = None, page_error: str | None = None
) -> dict[str, Any]:
    """What a webhook is told of a night.

    Parameters
    ----------
    night : Night
    page : str, optional
        Where its page is.
    page_error : str, optional
        Why it has none.

    Returns
    -------
    dict
        Of plain Python values, None for NaN.
    """
    changes = {(d.kind, d.score, d.by, d.slice, d.measure): d for d in night.compared}
    headline = [v for v in night.values if v.slice == "all"]
    found = {
        "date": night.date.isoformat(),
        "title": night.title,
        "status": night.status,
        "reason": lead(night),
        "page": page,
        "page_error": page_error,
        "models": night.models,
        "baseline": night.baseline,
        "confidence": confidence_of(night),
        "conventions": night.conventions,
        "headline": [
            _value(v)
            | {
                kind: _change(changes.get((kind, v.score, v.by, v.slice, v.measure)))
                for kind in KINDS
            }
            for v in headline
        ],
        "moved": [
            {name: getattr(one.difference, name) for name in (*_PLACE, *_CHANGE)}
            | {"gate_failed": one.alarmed, "others": one.others}
            for one in slices_moved(night)[:_MOST_MOVED]
        ],
        "periods": {
            name: [_value(v) for v in values if v.slice == "all"]
            for name, values in night.periods.items()
        },
        "period_slices": {
            name: [
                {"by": v.by, "slice": v.slice} | _value(v)
                for v in values
                if v.slice != "all" and v.measure in night.measures[:1]
            ]
            for name, values in night.periods.items()
        },
        "period_nights": {
            name: {
                "nights": len(dates),
                "of": PERIODS[name],
                "first": dates[0].isoformat(),
                "last": dates[-1].isoformat(),
            }
            for name, dates in night.period_nights.items()
        },
        "period_notes": night.period_notes,
        "notes": night.notes,
        "findings": [_finding(one) for one in night.findings],
        "gates": [asdict(gate) for gate in night.gates],
        "quality": asdict(night.quality),
        "sources": night.sources,
        "command": night.command,
        "version": night.version,
        "seconds": night.seconds,
    }
    plain: dict[str, Any] = plain_value(found)
    return plain


def _finding(finding: Finding) -> dict[str, Any]:
    since = None if finding.since is None else finding.since.isoformat()
    return asdict(finding) | {"since": since}


def _value(value: NightValue) -> dict[str, Any]:
    return {"score": value.score, "measure": value.measure} | {
        name: getattr(value, name) for name in _NUMBERS
    }


def _change(difference: NightDifference | None) -> dict[str, Any] | None:
    return None if difference is None else {name: getattr(difference, name) for name in _CHANGE}
