"""Make the document of a night, which pages, texts and JSON show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from fastrank_eval import MeasureValue
from fastrank_eval.apps.nightly.compare_nights import label_delay_texts, status_name
from fastrank_eval.apps.nightly.night import (
    EARLIER,
    KINDS,
    PERIODS,
    Finding,
    Key,
    Night,
    NightCalibration,
)
from fastrank_eval.apps.nightly.periods import (
    composition_parts,
    composition_texts,
    find_composition,
)
from fastrank_eval.apps.nightly.quality import calibration_texts, calibration_verdict
from fastrank_eval.apps.nightly.reproduce import next_steps
from fastrank_eval.apps.nightly.text import (
    CHANGES,
    confidence_of,
    false_alarms,
    gate_texts,
    meaning,
    named,
    not_judged,
    sentences,
    tone,
    verdict_word,
)
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.gates import ALL
from fastrank_eval.results.report import amount, interval_text

_VALUE = (
    *("value", "se", "ci_low", "ci_high", "effective_groups", "groups", "groups_used"),
    *("rows_share", "positives_share", "dropped", "warning"),
)
_CHANGE = ("delta", "se", "ci_low", "ci_high", "relative", "p_value", "p_adjusted", "verdict")
_GATE = ("passed", "reason", "outcome")
_PARTS = ("by", "difference", "within", "composition", "remainder")
_MOST_CHANGES, _MOST_DRIFT = 20, 500
#: Kinds of findings that do not depend on labels.
_OF_ROWS = ("scores", "drift", "missing")

_Row = dict[str, Any]


def headline(night: Night) -> _Row:
    """Return the status of a night and what failed first, for lists."""
    before, texts = night.judged_before, _texts(night)
    return {
        "date": night.date,
        "title": night.title,
        **({"label": night.label} if night.label else {}),
        "status": night.status,
        "status_name": status_name(night),
        "provisional": night.provisional,
        "labels_complete": night.labels_complete
        and night.labels_complete.isoformat(timespec="seconds"),
        "judged_before": before
        and {
            "status": before.status,
            "values": [
                {"score": score, "measure": text, "name": night.name_of(text), "value": value}
                for score, text, value in before.values
            ],
        },
        "unit": night.unit,
        "quality": asdict(night.quality),
        "reason": next(iter(texts["sentences"]), ""),
        "texts": texts,
    }


def document(night: Night) -> _Row:
    """Return what a night says, as plain values, dates and tables of rows.

    Parameters
    ----------
    night : Night

    Returns
    -------
    dict
        With the keys that docs/reference/nightly.md describes, and ``"slices"`` and ``"curves"``,
        which the JSON lacks. Numbers that do not exist are NaN.
    """
    differences = _difference_rows(night)
    rows = _value_rows(night, differences)
    overall = [row for row in rows if row["slice"] == ALL]
    slices = sorted((row for row in rows if row["slice"] != ALL), key=_rank)
    return headline(night) | {
        "ship": _answers(night, differences),
        "models": night.models,
        "measures": night.measures,
        "baseline": night.baseline,
        "confidence": confidence_of(night),
        "conventions": night.conventions,
        "headline": [
            row | {"composition": {kind: _composition(night, kind, row) for kind in EARLIER}}
            for row in overall
        ],
        "slices": slices,
        "top_changes": _top_changes(night, differences)[:_MOST_CHANGES],
        "periods": {
            name: [_row(night, v) for v in values if v.slice == ALL]
            for name, values in night.periods.items()
        },
        "period_slices": {
            name: [
                _row(night, v) for v in values if v.slice != ALL and v.measure in night.measures[:1]
            ]
            for name, values in night.periods.items()
        },
        "period_nights": {
            name: {"nights": len(dates), "of": PERIODS[name], "first": dates[0], "last": dates[-1]}
            for name, dates in night.period_nights.items()
        },
        "period_notes": night.period_notes,
        "notes": [*night.notes],
        "findings": [_named(night, one) for one in night.findings],
        "next_steps": [
            {
                **Key.of(one.finding)._asdict(),
                "name": night.name_of(one.finding.measure),
                "condition": one.finding.condition,
                "command": one.command,
            }
            for one in next_steps(night)
        ],
        "gates": [
            {"condition": one.text} | {name: getattr(one, name) for name in _GATE}
            for one in night.gates
        ],
        "drift": [asdict(one) for one in sorted(night.drift, key=_drift_rank)[:_MOST_DRIFT]],
        "calibration": [
            _named(night, one) | {"verdict": calibration_verdict(one, night)}
            for one in night.calibration
        ],
        "curves": night.curves,
        "sources": night.sources,
        "command": night.command,
        "version": night.version,
        "seconds": night.seconds,
    }


def documents(nights: Sequence[Night]) -> list[_Row]:
    """Return the documents of a date, one a label.

    Texts on scores and columns that all labels have are equal: they lack the numbers of measures,
    which each label has for itself.
    """
    if not nights[0].label:
        return [*map(document, nights)]
    of_rows = [
        [one.without_measure() if one.kind in _OF_ROWS else one for one in night.findings]
        for night in nights
    ]
    found = []
    for night, own in zip(nights, of_rows, strict=True):
        pairs = zip(night.findings, own, strict=True)
        findings = tuple(b if all(b in each for each in of_rows) else one for one, b in pairs)
        found.append(document(night) | {"texts": _texts(replace(night, findings=findings))})
    return found


def _texts(night: Night) -> dict[str, list[str]]:
    return {
        "sentences": sentences(night),
        "meaning": [meaning(night)],
        "label_delay": label_delay_texts(night),
        "compositions": composition_texts(night),
        "gates": gate_texts(night),
        "false_alarms": [text] if (text := false_alarms(night)) else [],
        "not_judged": not_judged(night),
        "calibration": calibration_texts(night),
    }


def _value_rows(night: Night, differences: Sequence[_Row]) -> list[_Row]:
    """Return the values of a night, each with its differences by kind."""
    changes: dict[object, dict[str, _Row]] = {}
    for one in differences:
        change = {name: one[name] for name in _CHANGE}
        changes.setdefault(key_of(one), {})[one["kind"]] = change
    kinds = [*KINDS, *{one["kind"] for one in differences}.difference(KINDS)]
    rows = [_row(night, value) for value in night.values]
    return [row | {kind: changes.get(key_of(row), {}).get(kind) for kind in kinds} for row in rows]


def _difference_rows(night: Night) -> list[_Row]:
    names = ("kind", "score", "by", "slice", "measure")
    return [
        {name: getattr(one, name) for name in (*names, *_CHANGE)}
        | {"name": night.name_of(one.measure)}
        for one in night.compared
    ]


def key_of(row: _Row) -> Key:
    """Return what a row is of."""
    return Key(row["score"], row["slice"], row["measure"])


def _row(night: Night, value: MeasureValue) -> _Row:
    names = ("score", "by", "slice", "measure")
    row = {name: getattr(value, name) for name in names} | {"name": night.name_of(value.measure)}
    row |= {name: getattr(value, name) for name in _VALUE}
    return row | ({CLUSTERS: value.clusters} if night.unit == "cluster" else {})


def _named(night: Night, record: Finding | NightCalibration) -> _Row:
    return asdict(record) | {"name": night.name_of(record.measure)}


def _composition(night: Night, kind: str, row: _Row) -> _Row | None:
    """Return the parts of a change on all rows, with a text of them."""
    one = find_composition(night, kind, row["score"], row["measure"])
    if one is None:
        return None
    text = ", ".join(f"{name} {number}" for name, number in composition_parts(one))
    return {name: getattr(one, name) for name in _PARTS} | {"text": text}


def changes_of(row: _Row) -> dict[str, _Row]:
    """Return the differences of a row of values, by kind."""
    return {kind: row[kind] for kind in (*KINDS, "other") if row.get(kind) is not None}


def strength(change: _Row) -> float:
    """Return a difference in standard errors; 0 without one."""
    ratio = abs(change["delta"]) / change["se"] if change["se"] > 0 else 0.0
    return ratio if math.isfinite(ratio) else 0.0


def _rank(row: _Row) -> tuple[bool, bool, float]:
    """Return the sort key: changes since earlier nights first, by strength."""
    changes = changes_of(row)
    shown = {kind: one for kind, one in changes.items() if tone(one["verdict"]) in CHANGES}
    since = [one for kind, one in shown.items() if kind != "baseline"]
    strongest = max(map(strength, since or changes.values()), default=0.0)
    return not since, not shown, -strongest


def _drift_rank(one: Any) -> tuple[bool, float]:
    """Return the sort key: all rows first, then the largest PSI."""
    return one.by is not None, -one.psi if math.isfinite(one.psi) else 0.0


def _top_changes(night: Night, differences: Iterable[_Row]) -> list[_Row]:
    """Return the significant changes of slices, the most important first.

    Changes for which a gate failed, then those of the first measure, then others; among them worse
    before other changes, then by strength. A model and slice has at most one from the baseline and
    one since earlier nights, chosen in the same order.
    """
    failed = {(Key.of(one), one.compared) for one in night.findings if one.kind == "gate"}
    ranked: dict[object, list[tuple[tuple[bool, bool, bool, float], _Row]]] = {}
    for one in differences:
        colour = tone(one["verdict"])
        if one["slice"] == ALL or colour not in CHANGES:
            continue
        alarmed = any((key_of(one), kind) in failed for kind in ("", one["kind"]))
        other = one["measure"] not in night.measures[:1]
        rank = not alarmed, other, colour != "bad", -strength(one)
        of_slice = one["kind"] == "baseline", one["score"], one["by"], one["slice"]
        ranked.setdefault(of_slice, []).append((rank, one | {"gate_failed": alarmed}))
    best = [(min(found, key=lambda each: each[0]), len(found) - 1) for found in ranked.values()]
    best.sort(key=lambda each: each[0][0])
    return [one | {"others": others} for (_, one), others in best]


def _answers(night: Night, differences: Iterable[_Row]) -> list[_Row]:
    """Say whether each candidate is better than the baseline, and where."""
    compared = [one for one in differences if one["kind"] == "baseline"]
    return [
        row
        for model in night.models
        if (row := _answer(night, model, [one for one in compared if one["score"] == model]))
    ]


def _answer(night: Night, model: str, compared: Sequence[_Row]) -> _Row | None:
    main = [one for one in compared if one["slice"] == ALL]
    first = [one for one in compared if one["measure"] in night.measures[:1]]
    verdicts = {one["verdict"] for one in (*main, *first)}
    if not verdicts:
        return None
    overall = {one["verdict"] for one in main}
    answers = {
        "not tested": verdicts == {"not tested"},
        "mixed": {"better", "worse"} <= verdicts,
        "worse": "worse" in verdicts,
        "better": "better" in overall,
        "changed": bool(verdicts & {"better", "higher", "lower", "mixed"}),
    }
    answer = next((word for word, holds in answers.items() if holds), "no difference shown")
    texts = [
        " ".join(
            [
                f"{one['name']} {amount(one['delta'], None, True, '.4g')}",
                interval_text(one["ci_low"], one["ci_high"], None, True, ".4g"),
                f"({verdict_word(one['verdict'])})",
            ]
        ).replace("  ", " ")
        for one in first
        if one["slice"] == ALL
    ]
    for verdict in ("worse", "better"):
        of_verdict = [
            one for one in sorted(compared, key=strength, reverse=True) if one["verdict"] == verdict
        ]
        names = [one["name"] for one in of_verdict if one in main and one not in first]
        slices = [one["slice"] for one in of_verdict if one in first and one not in main]
        texts += [f"{verdict} in {named(each)}" for each in (names, slices) if each]
    failed = any(one.condition and one.score in ("", model) for one in night.findings)
    texts += ["a gate failed"] if failed else []
    text = f"{model} against {night.baseline}: {'; '.join([answer, *texts])}"
    return {"score": model, "against": night.baseline, "answer": answer, "text": text}
