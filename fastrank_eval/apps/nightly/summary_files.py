"""Write nights, of one label or several, as JSON, Markdown and plain text."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote

from fastrank_eval import MeasureValue
from fastrank_eval.apps.nightly.label_delay import label_delay_texts, status_name
from fastrank_eval.apps.nightly.night import (
    EARLIER,
    KINDS,
    PERIODS,
    Finding,
    Night,
    NightCalibration,
    NightDifference,
    key_of,
)
from fastrank_eval.apps.nightly.page_rows import TopChanges, changed_slices, ordered_drift
from fastrank_eval.apps.nightly.periods import (
    composition_parts,
    composition_texts,
    find_composition,
)
from fastrank_eval.apps.nightly.quality import calibration_texts, slice_text, worst_slices
from fastrank_eval.apps.nightly.reproduce import next_steps
from fastrank_eval.apps.nightly.text import (
    STATUSES,
    ago,
    capped,
    confidence_of,
    confidence_text,
    gate_texts,
    headline_of,
    independent,
    not_judged,
    sentences,
)
from fastrank_eval.engine.records import JSON_SCHEMAS, plain_value
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.results.report import amount, code_span, interval_text, printable

SCHEMA = JSON_SCHEMAS["nightly"]
_MAX_CHANGES = 20
_INTERVAL = ("se", "ci_low", "ci_high")
_GROUPS = ("effective_groups", "groups", "groups_used")
_VALUE_FIELDS = ("score", "measure", "name", "value", *_INTERVAL, *_GROUPS)
_KEY_FIELDS = ("kind", "score", "by", "slice", "measure", "name")
_COMPOSITION_FIELDS = ("by", "difference", "within", "composition", "remainder")
_CHANGE_FIELDS = ("delta", *_INTERVAL, "relative", "p_value", "p_adjusted", "verdict")


def nights_json(nights: Sequence[dict[str, Any]], exit_code: int, error: str | None = None) -> str:
    """Write the summary of a run as JSON.

    Parameters
    ----------
    nights : sequence of dict
        Results of `night_dict`, or ``{"date", "error"}`` for a night that could not be evaluated.
    exit_code : int
    error : str, optional
        The reason why no night was run.

    Returns
    -------
    str
        Strictly valid JSON in ASCII; docs/reference/nightly.md describes its keys.
    """
    content = {"schema": SCHEMA, "exit_code": exit_code, "nights": nights}
    if error is not None:
        content["error"] = error
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def night_dict(
    night: Night,
    page: str | None = None,
    page_error: str | None = None,
    groups: str | None = None,
    notify_error: str | None = None,
    compared_again: Sequence[Night] = (),
) -> dict[str, Any]:
    """Convert a night to the values of a webhook.

    Parameters
    ----------
    night : Night
    page : str, optional
        The path of its page.
    page_error : str, optional
        The reason why it has no page.
    groups : str, optional
        The path of the worst groups of its failed gates.
    notify_error : str, optional
        The reason why no message was sent.
    compared_again : sequence of Night
        Later nights that were compared with it again.

    Returns
    -------
    dict
        Plain Python values, None for NaN.
    """

    def named(
        record: MeasureValue | NightDifference | NightCalibration | Finding,
        names: Sequence[str] = (),
    ) -> dict[str, Any]:
        values = asdict(record) | {"name": night.name_of(record.measure)}
        chosen = {key: values[key] for key in names or values}
        if isinstance(record, MeasureValue) and night.unit == "cluster":
            chosen[CLUSTERS] = record.clusters
        return chosen

    complete, before = night.labels_complete, night.judged_before
    content = {
        "date": night.date.isoformat(),
        "title": night.title,
        **({"label": night.label} if night.label else {}),
        "status": night.status,
        "provisional": night.provisional,
        "labels_complete": complete and complete.isoformat(timespec="seconds"),
        "judged_before": before
        and {
            "status": before.status,
            "values": [
                {"score": score, "measure": text, "name": night.name_of(text), "value": value}
                for score, text, value in before.values
            ],
        },
        "compared_again": [
            {"date": each.date.isoformat(), "status": each.status, "reason": headline_of(each)}
            for each in compared_again
        ],
        "reason": headline_of(night),
        "page": page,
        "page_error": page_error,
        "groups": groups,
        "notify_error": notify_error,
        "models": night.models,
        "baseline": night.baseline,
        "confidence": confidence_of(night),
        "conventions": night.conventions,
        "headline": [
            named(v, _VALUE_FIELDS)
            | {
                kind: _fields(night.difference_of(kind, *key_of(v)), _CHANGE_FIELDS)
                for kind in KINDS
            }
            | {
                "composition": {
                    kind: _fields(
                        find_composition(night, kind, v.score, v.measure), _COMPOSITION_FIELDS
                    )
                    for kind in EARLIER
                }
            }
            for v in night.overall
        ],
        "top_changes": [
            named(one.difference, (*_KEY_FIELDS, *_CHANGE_FIELDS))
            | {"gate_failed": one.alarmed, "others": one.others}
            for one in changed_slices(night)[:_MAX_CHANGES]
        ],
        "periods": {
            name: [named(v, _VALUE_FIELDS) for v in values if v.slice == "all"]
            for name, values in night.periods.items()
        },
        "period_slices": {
            name: [
                {"by": v.by, "slice": v.slice} | named(v, _VALUE_FIELDS)
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
        "findings": [named(one) for one in night.findings],
        "next_steps": [
            named(step.finding, ("score", "slice", "measure", "name")) | {"command": step.command}
            for step in next_steps(night)
        ],
        "gates": [
            {"condition": gate.text, "passed": gate.passed, "reason": gate.reason}
            for gate in night.gates
        ],
        "quality": asdict(night.quality),
        "drift": [asdict(one) for one in ordered_drift(night)],
        "calibration": [named(one) for one in night.calibration],
        "sources": night.sources,
        "command": night.command,
        "version": night.version,
        "seconds": night.seconds,
    }
    plain: dict[str, Any] = plain_value(content)
    return plain


def _fields(record: object, names: Sequence[str]) -> dict[str, Any] | None:
    """Return some fields of a record, or None without one."""
    return None if record is None else {name: getattr(record, name) for name in names}


_MARKS = {"better": "▲", "worse": "▼", "higher": "↑", "lower": "↓"}
#: Days of the strip of statuses.
STRIP_NIGHTS = 30
#: The form of numbers.
_FORM = ".4g"
#: The most slices in text.
_MAX_CHANGES_IN_TEXT = 5
#: Characters that an address does not escape.
_ADDRESS_CHARACTERS = "/:?#@!$&'*+,;=%~"
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|<>~&:@-])")


def night_markdown(
    night: Night,
    page: str | None = None,
    statuses: Mapping[dt.date, str] | None = None,
    *,
    legend: bool = True,
    known: Collection[str] = (),
) -> str:
    """Format a night as Markdown for chat.

    It has lists and no tables, since many chats do not show tables.

    Parameters
    ----------
    night : Night
    page : str, optional
        The path of its page.
    statuses : mapping of datetime.date to str, optional
        The statuses of the nights before it, for a strip of the last 30 nights.
    legend : bool
        Explain intervals and marks at the end.
    known : collection of str
        Texts to leave out.

    Returns
    -------
    str
        Names from data are in code spans, so that they contain no markup.
    """
    models = []
    for model in dict.fromkeys(value.score for value in night.overall):
        models += [f"**{_code(model)}**", ""]
        for value in (one for one in night.overall if one.score == model):
            texts = [_number(value)]
            for kind in KINDS:
                change = _change_text(night.difference_of(kind, *key_of(value)))
                if change:
                    texts.append(f"{change} {_since(kind)}{_composition_text(night, kind, value)}")
            models.append(f"* {_code(night.name_of(value.measure))} {', '.join(texts)}")
        models.append("")
    quality = night.quality
    title = _code(night.label) if night.label else _escaped(night.title)
    status = f"**{title}, {night.date}: {_status_word(night)}**"
    reason, *others = [text for text in sentences(night) if text not in known] or [""]
    parts = [
        [f"{status}{_page_link(page)}", ""],
        [_escaped(reason), ""] if reason else [],
        [
            *(
                f"* {_escaped(text)}"
                for text in (*others, *label_delay_texts(night), *gate_texts(night))
                if text not in known
            ),
            *(f"* not judged: {_escaped(each)}" for each in not_judged(night)),
            *(f"* {_escaped(note)}" for note in night.notes if note not in known),
            *(f"* reproduce: {_code(step.command)}" for step in next_steps(night)[:1]),
        ],
        models,
        _largest_changes(night),
        _worst_calibration(night),
        [f"{quality.rows:,} rows, {quality.groups:,} groups, CTR {_four_digits(quality.ctr)}", ""],
        _status_strip(night, statuses or {}),
        [_legend(night)] if legend else [],
    ]
    lines: list[str] = []
    for part in filter(None, parts):
        lines += [*([""] if lines and lines[-1] else []), *part]
    return "\n".join(lines) + "\n"


def _status_strip(night: Night, statuses: Mapping[dt.date, str]) -> list[str]:
    """Format the statuses of the last nights, a character for each night."""
    days = [night.date - dt.timedelta(days=ago) for ago in reversed(range(STRIP_NIGHTS))]
    status_by_date = {**statuses, night.date: night.status}
    known = [day for day in days if day in status_by_date]
    if len(known) < 2:
        return []
    days = days[days.index(known[0]) :]
    signs = {key: (one.letter, one.name.lower()) for key, one in STATUSES.items()}
    signs[""] = ("-", "no night")
    shown = [status_by_date.get(day, "") for day in days]
    strip = "".join(signs[status][0] for status in shown)
    meanings = [f"{_code(sign)} {name}" for key, (sign, name) in signs.items() if key in shown]
    return [f"Last {len(days)} days: {_code(strip)} ({', '.join(meanings)})", ""]


def _largest_changes(night: Night) -> list[str]:
    changes = changed_slices(night)
    if not changes:
        return []
    lines = ["**Slices that changed most**", ""]
    texts = [_change_line(night, one) for one in changes]
    return [*lines, *(f"* {text}" for text in capped(texts, _MAX_CHANGES_IN_TEXT))]


def _worst_calibration(night: Night) -> list[str]:
    lines: list[str] = []
    for name, slices, others in worst_slices(night):
        lines += [f"**Worst slices of** {_code(name)}", ""]
        lines += [
            f"* {_code(one.slice)} of {_code(one.score)}: {_escaped(slice_text(one))}"
            for one in slices
        ]
        lines += [f"* and {others} more"] if others else []
        lines.append("")
    return lines


def _change_line(night: Night, one: TopChanges) -> str:
    d = one.difference
    suffixes = ["gate failed"] * one.alarmed
    suffixes += [f"{one.others} more change{'s' * (one.others > 1)}"] * bool(one.others)
    return "; ".join(
        [
            f"{_code(d.slice)} of {_code(d.score)}: {_code(night.name_of(d.measure))} "
            f"{_change_text(d)} "
            f"{_since(d.kind)} {interval_text(d.ci_low, d.ci_high, None, True, _FORM)}".rstrip(),
            *suffixes,
        ]
    )


def _night_texts(night: Night) -> list[str]:
    """List problems, changes, label delay, gates and notes of a night."""
    texts = [
        *sentences(night),
        *label_delay_texts(night),
        *composition_texts(night),
        *gate_texts(night),
    ]
    return [*texts, *night.notes]


def night_lines(night: Night, *, known: Collection[str] = ()) -> str:
    """Format a night as a few plain lines; they begin with its label or date.

    Parameters
    ----------
    night : Night
    known : collection of str
        Texts to leave out.
    """
    first = {v.score: v for v in reversed(night.values) if v.slice == "all"}
    values = [first[model] for model in night.models if model in first]
    numbers = "; ".join(f"{v.score} {night.name_of(v.measure)} {_number(v)}" for v in values)
    lines = [f"{night.label or night.date} {_status_word(night)}: {numbers or 'no labels yet'}"]
    lines += [f"  {text}" for text in _night_texts(night) if text not in known]
    lines += [f"  {text}" for text in calibration_texts(night)]
    lines += [f"  reproduce: {step.command}" for step in next_steps(night)[:1]]
    return "".join(f"{printable(line)}\n" for line in lines)


def _change_text(difference: NightDifference | None) -> str:
    if difference is None or math.isnan(difference.delta):
        return ""
    delta = amount(difference.delta, None, True, _FORM)
    return f"{delta} {_MARKS.get(difference.verdict, '')}".strip()


def _composition_text(night: Night, kind: str, value: MeasureValue) -> str:
    one = find_composition(night, kind, value.score, value.measure)
    if one is None or value.measure != night.compositions[0].measure:
        return ""
    return (
        f" ({', '.join(f'{_escaped(name)} {number}' for name, number in composition_parts(one))})"
    )


def _since(kind: str) -> str:
    return f"{'from' if kind == 'baseline' else 'since'} {ago(kind)}"


def _legend(night: Night) -> str:
    level = f"\\[...\\] {confidence_text(night)} confidence intervals ({independent(night.unit)})"
    if not night.compared:
        return level
    marks = ", ".join(f"{mark} {word}" for word, mark in _MARKS.items())
    return f"{level}; {marks}: significant, corrected for the number of comparisons (Holm)"


def _page_link(page: str | None) -> str:
    """Format a link to a page; empty without one."""
    return "" if page is None else f" [page]({quote(page, safe=_ADDRESS_CHARACTERS)})"


def _status_word(night: Night) -> str:
    """Return the status of a night in words, in capitals if it is not fine."""
    name = status_name(night)
    # In small letters if nothing is to be done.
    return name.lower() if name in ("Fine", "Provisional") else name.upper()


def _number(value: MeasureValue) -> str:
    """Format a value with its interval."""
    interval = interval_text(value.ci_low, value.ci_high, None, spare=_FORM)
    return f"{_four_digits(value.value)} {interval}".rstrip()


def _four_digits(number: float) -> str:
    return "undefined" if math.isnan(number) else amount(number, None, spare=_FORM)


def _escaped(text: str) -> str:
    """Escape text, so that it has no markup."""
    return _MARKUP.sub(r"\\\1", printable(text))


def _code(text: str) -> str:
    return code_span(printable(text))


#: Kinds of findings that do not depend on labels.
_OF_ROWS = ("scores", "drift")


def with_equal_findings(nights: Sequence[Night]) -> list[Night]:
    """Make the findings of scores and columns equal that all labels have.

    They lose the numbers of measures, which each label has for itself.
    """
    of_rows = [
        [one.without_measure() if one.kind in _OF_ROWS else one for one in night.findings]
        for night in nights
    ]
    return [
        replace(
            night,
            findings=tuple(
                bare if all(bare in each for each in of_rows) else one
                for one, bare in zip(night.findings, own, strict=True)
            ),
        )
        for night, own in zip(nights, of_rows, strict=True)
    ]


def _shared_texts(nights: Sequence[Night]) -> dict[str, str]:
    """Map each text that several labels have to a line with these labels."""
    labels: dict[str, list[str]] = {}
    for night in nights:
        for text in dict.fromkeys(_night_texts(night)):
            labels.setdefault(text, []).append(night.label)
    return {
        text: text if len(of) == len(nights) else f"{', '.join(of)}: {text}"
        for text, of in labels.items()
        if len(of) > 1
    }


def nights_lines(nights: Sequence[Night]) -> str:
    """Format the nights of all labels of one date as plain lines.

    In a report of one label, these are its `night_lines`.

    Parameters
    ----------
    nights : sequence of Night
        One for each label.
    """
    if not nights[0].label:
        return night_lines(nights[0])
    nights = with_equal_findings(nights)
    shared = _shared_texts(nights)
    statuses = ", ".join(f"{night.label} {_status_word(night)}" for night in nights)
    lines = [f"{nights[0].date} {_worst_status(nights)}: {statuses}", *shared.values()]
    for night in nights:
        lines += night_lines(night, known=shared).splitlines()
    return "\n  ".join(map(printable, lines)) + "\n"


def nights_markdown(
    nights: Sequence[Night],
    pages: Sequence[str | None],
    index: str | None = None,
    statuses: Sequence[Mapping[dt.date, str]] | None = None,
) -> str:
    """Format the nights of all labels of one date as Markdown for chat.

    In a report of one label, this is its `night_markdown`.

    Parameters
    ----------
    nights : sequence of Night
        One for each label.
    pages : sequence of (str or None)
        The paths of their pages.
    index : str, optional
        The path of the page of all labels.
    statuses : sequence of mapping, optional
        The statuses of the nights before, as in `night_markdown`.
    """
    strips = statuses or [{} for _ in nights]
    if not nights[0].label:
        return night_markdown(nights[0], pages[0], strips[0])
    nights = with_equal_findings(nights)
    shared, first = _shared_texts(nights), nights[0]
    words = ", ".join(f"{_code(night.label)} {_status_word(night)}" for night in nights)
    title = f"{_escaped(first.title)}, {first.date}: {_worst_status(nights)}"
    lines = [f"**{title}**{_page_link(index)}", "", words, ""]
    lines += [f"* {_escaped(text)}" for text in shared.values()]
    parts = ["\n".join(lines).rstrip("\n") + "\n"]
    parts += [
        night_markdown(night, page, strip, legend=night is nights[-1], known=shared)
        for night, page, strip in zip(nights, pages, strips, strict=True)
    ]
    return "\n".join(parts)


def _worst_status(nights: Sequence[Night]) -> str:
    return _status_word(max(nights, key=lambda night: [*STATUSES].index(night.status)))
