"""A night as rows of the tables of a history, and back."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from fastrank_eval.plain_values import plain_value
from fastrank_eval.report.nights import (
    CurveLine,
    Finding,
    GateOutcome,
    Night,
    NightDifference,
    NightQuality,
    NightValue,
)

__all__ = ["COLUMNS", "findings_of", "night_of", "rows_of"]

Row = Sequence[Any]

#: The columns of each table after the date and, where there are several rows, their place.
COLUMNS: dict[str, tuple[str, ...]] = {
    "night": (
        "title", "status", "models", "baseline", "measures", "sources", "command", "version",
        "seconds", "conventions", "notes", "findings", "written_at",
    ),
    "quality": tuple(field.name for field in fields(NightQuality)),
    "value": tuple(
        "slicing" if field.name == "by" else field.name for field in fields(NightValue)
    ),
    "difference": tuple(
        "slicing" if field.name == "by" else field.name for field in fields(NightDifference)
    ),
    "curve": ("kind", "score", "label", "x", "y"),
    "gate": ("condition", "passed", "reason"),
}  # fmt: skip

_VALUE = tuple(field.name for field in fields(NightValue))
_DIFFERENCE = tuple(field.name for field in fields(NightDifference))
#: Numbers of which NULL is NaN; the others are never NULL.
_DROPPED = _VALUE.index("dropped")
_VALUE_FLOATS = slice(_VALUE.index("value"), _VALUE.index("effective_groups") + 1)
_SHARES = slice(_VALUE.index("rows_share"), _VALUE.index("positives_share") + 1)
_DELTAS = slice(_DIFFERENCE.index("delta"), _DIFFERENCE.index("p_adjusted") + 1)


def rows_of(night: Night, written_at: str) -> dict[str, list[Row]]:
    """The rows of a night in each table, without its date and their place.

    Parameters
    ----------
    night : Night
    written_at : str
        When, in UTC.

    Returns
    -------
    dict of str to list of rows
        As `COLUMNS` names them; NaN is what SQLite takes for NULL.
    """
    return {
        "night": [
            (
                night.title,
                night.status,
                _json(night.models),
                night.baseline,
                _json(night.measures),
                _json(night.sources),
                night.command,
                night.version,
                night.seconds,
                _json(night.conventions),
                _json(night.notes),
                _json([_known(finding) for finding in night.findings]),
                written_at,
            )
        ],
        "quality": [[_stored(getattr(night.quality, name)) for name in COLUMNS["quality"]]],
        "value": [[_stored(getattr(value, name)) for name in _VALUE] for value in night.values],
        "difference": [[getattr(line, name) for name in _DIFFERENCE] for line in night.compared],
        "curve": [
            (kind, line.score, line.label, _numbers(line.x), _numbers(line.y))
            for kind, lines in night.curves.items()
            for line in lines
        ],
        "gate": [(gate.condition, int(gate.passed), gate.reason) for gate in night.gates],
    }


def night_of(date: str, rows: Mapping[str, Iterable[Row]]) -> Night:
    """The night that rows came from; see `rows_of`."""
    ((*night, _),) = rows["night"]
    title, status, models, baseline, measures, sources, command, version, *others = night
    seconds, told, notes, findings = others
    curves: dict[str, list[CurveLine]] = {}
    for kind, score, label, x, y in rows["curve"]:
        curves.setdefault(kind, []).append(CurveLine(score, label, _tuple(x), _tuple(y)))
    return Night(
        date=dt.date.fromisoformat(date),
        title=title,
        models=tuple(json.loads(models)),
        baseline=baseline,
        measures=tuple(json.loads(measures)),
        sources=tuple(json.loads(sources)),
        command=command,
        version=version,
        seconds=seconds,
        conventions=json.loads(told),
        values=tuple(_value(row) for row in rows["value"]),
        quality=_quality(next(iter(rows["quality"]))),
        compared=tuple(_difference(row) for row in rows["difference"]),
        curves={kind: tuple(lines) for kind, lines in curves.items()},
        gates=tuple(GateOutcome(text, bool(passed), why) for text, passed, why in rows["gate"]),
        status=status,
        notes=tuple(json.loads(notes)),
        findings=findings_of(findings),
    )


def findings_of(text: str) -> tuple[Finding, ...]:
    """The findings that a text holds; those that another version knew more of lose that."""
    known = {field.name for field in fields(Finding)}
    found = []
    for each in json.loads(text):
        told = {name: value for name, value in each.items() if name in known}
        if "since" in told:
            told["since"] = dt.date.fromisoformat(told["since"])
        found.append(Finding(**told))
    return tuple(found)


def _known(finding: Finding) -> dict[str, Any]:
    """The fields of a finding that say something."""
    told = {field.name: getattr(finding, field.name) for field in fields(Finding)}
    empty = {
        name
        for name, value in told.items()
        if value in ("", None) or (isinstance(value, float) and not math.isfinite(value))
    }
    return {
        name: value.isoformat() if isinstance(value, dt.date) else value
        for name, value in told.items()
        if name not in empty
    }


def _value(row: Row) -> NightValue:
    found = list(row)
    for part in (_VALUE_FLOATS, _SHARES):
        found[part] = _floats(found[part])
    found[_DROPPED] = dict(_mapping(found[_DROPPED]))
    return NightValue(*found)


@lru_cache(maxsize=1 << 12)
def _mapping(text: str) -> Mapping[str, int]:
    """What a text holds; many values share theirs."""
    found: dict[str, int] = json.loads(text)
    return found


def _difference(row: Row) -> NightDifference:
    found = list(row)
    found[_DELTAS] = _floats(found[_DELTAS])
    return NightDifference(*found)


def _quality(row: Row) -> NightQuality:
    found: dict[str, Any] = dict(zip(COLUMNS["quality"], row, strict=True))
    found["nulls"], found["flags"] = json.loads(found["nulls"]), tuple(json.loads(found["flags"]))
    found["tie_rates"] = json.loads(found["tie_rates"])
    known: dict[str, Any] = {k: math.nan if v is None else v for k, v in found.items()}
    return NightQuality(**known)


def _floats(found: Row) -> Row:
    if None not in found:
        return found
    return [math.nan if number is None else number for number in found]


def _stored(value: object) -> Any:
    return _json(value) if isinstance(value, Mapping | tuple) else value


def _json(value: object) -> str:
    return json.dumps(plain_value(value), ensure_ascii=False, separators=(",", ":"))


def _numbers(values: Sequence[float]) -> str:
    return json.dumps([v if math.isfinite(v) else None for v in values], separators=(",", ":"))


def _tuple(text: str) -> tuple[float, ...]:
    return tuple(_floats(json.loads(text)))
