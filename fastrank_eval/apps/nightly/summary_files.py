"""Write the documents of nights as JSON, Markdown and plain text."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from fastrank_eval.apps.nightly.night import KINDS
from fastrank_eval.apps.nightly.text import (
    NO_NIGHT,
    STATUSES,
    STRIP_DAYS,
    ago,
    capped,
    independent,
    strip,
)
from fastrank_eval.engine.records import JSON_SCHEMAS, plain_value
from fastrank_eval.results.report import (
    amount,
    code_span,
    interval_text,
    percent_text,
    printable,
)

SCHEMA = JSON_SCHEMAS["nightly"]
#: Parts of a document that the history has, and its JSON lacks.
_APART = ("slices", "curves", "unit")
_MARKS = {"better": "▲", "worse": "▼", "higher": "↑", "lower": "↓"}
#: The form of numbers.
_FORM = ".4g"
#: The most slices in text.
_MAX_CHANGES_IN_TEXT = 5
#: Characters that an address does not escape.
_ADDRESS_CHARACTERS = "/:?#@!$&'*+,;=%~"
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|<>~&:@-])")

_Document = Mapping[str, Any]


def nights_json(nights: Sequence[dict[str, Any]], exit_code: int, error: str | None = None) -> str:
    """Write the summary of a run as JSON.

    Parameters
    ----------
    nights : sequence of dict
        Results of `summary`, or ``{"date", "error"}`` for a night that could not be evaluated.
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


def summary(document: _Document, **of_run: Any) -> dict[str, Any]:
    """Return what JSON and webhooks have of a document, and of its run.

    Parameters
    ----------
    document : dict
    **of_run
        ``page``, ``page_error``, ``groups``, ``notify_error`` (paths, and the reasons why there is
        none), and ``compared_again``: the documents of later nights that were compared with it.

    Returns
    -------
    dict
        Plain JSON values, None for NaN.
    """
    again = [
        {key: each[key] for key in ("date", "status", "reason")}
        for each in of_run.pop("compared_again", ())
    ]
    paths = dict.fromkeys(("page", "page_error", "groups", "notify_error")) | of_run
    kept = {key: value for key, value in document.items() if key not in _APART}
    plain: dict[str, Any] = plain_value(kept | paths | {"compared_again": again})
    return plain


def lines(documents: Sequence[_Document], *, calibration: bool = True) -> str:
    """Format the nights of all labels of a date as a few plain lines.

    Parameters
    ----------
    documents : sequence of dict
        One for each label; see `documents`.
    calibration : bool
        Name the slices that are not calibrated.
    """
    first, shared = documents[0], _shared_texts(documents)
    result = []
    if "label" in first:
        result = [f"{first['date']} {_worst_status(documents)}: {_statuses(documents)}"]
        result += shared.values()
    for each in documents:
        of_model: dict[str, str] = {}
        for row in each["headline"]:
            of_model.setdefault(row["score"], f"{row['score']} {row['name']} {_number(row)}")
        values = [of_model[model] for model in each["models"] if model in of_model]
        name = each.get("label", each["date"])
        numbers = "; ".join(values) or "no labels yet"
        own = [text for text in _all_texts(each) if text not in shared]
        own += each["texts"]["calibration"] if calibration else []
        own += [f"reproduce: {step['command']}" for step in each["next_steps"][:1]]
        result += [f"{name} {_status_word(each)}: {numbers}", *(f"  {text}" for text in own)]
    return ("\n  " if "label" in first else "\n").join(map(printable, result)) + "\n"


def markdown(
    documents: Sequence[_Document],
    pages: Sequence[str | None] = (),
    index: str | None = None,
    statuses: Sequence[Mapping[dt.date, str]] = (),
    *,
    calibration: bool = True,
) -> str:
    """Format the nights of all labels of a date as Markdown for chat.

    It has lists and no tables, since many chats do not show tables.

    Parameters
    ----------
    documents : sequence of dict
        One for each label; see `documents`.
    pages : sequence of (str or None)
        The paths of their pages.
    index : str, optional
        The path of the page of all labels.
    statuses : sequence of mapping of datetime.date to str
        The statuses of the nights before, for strips of the last 30 nights.
    calibration : bool
        Name the slices that are not calibrated.

    Returns
    -------
    str
        Names from data are in code spans, so that they contain no markup.
    """
    first, shared, parts = documents[0], _shared_texts(documents), []
    if "label" in first:
        title = f"{_escaped(first['title'])}, {first['date']}: {_worst_status(documents)}"
        parts = [[f"**{title}**{_page_link(index)}", "", _statuses(documents, _code), ""]]
        parts[0] += [f"* {_escaped(text)}" for text in shared.values()]
    for each, page, before in zip_longest(documents, pages, statuses):
        parts += _markdown_parts(each, page, before or {}, shared, calibration)
    parts.append([_legend(documents[-1])])
    return "\n\n".join("\n".join(part).strip("\n") for part in parts if part) + "\n"


def _markdown_parts(
    document: _Document,
    page: str | None,
    statuses: Mapping[dt.date, str],
    known: Collection[str],
    calibration: bool,
) -> Iterable[list[str]]:
    texts, quality = document["texts"], document["quality"]
    title = _code(document["label"]) if "label" in document else _escaped(document["title"])
    yield [f"**{title}, {document['date']}: {_status_word(document)}**{_page_link(page)}"]
    reason, *others = [text for text in texts["sentences"] if text not in known] or [""]
    yield [_escaped(reason)] if reason else []
    others += [text for name in ("label_delay", "gates") for text in texts[name]]
    others += [one["text"] for one in document["ship"]]
    others = [text for text in others if text not in known]
    others += [f"not judged: {text}" for text in texts["not_judged"]]
    others += [note for note in document["notes"] if note not in known]
    steps = [f"* reproduce: {_code(step['command'])}" for step in document["next_steps"][:1]]
    yield [*(f"* {_escaped(text)}" for text in others), *steps]
    for model in dict.fromkeys(row["score"] for row in document["headline"]):
        rows = [row for row in document["headline"] if row["score"] == model]
        yield [f"**{_code(model)}**", "", *map(_value_line, rows)]
    changes = [_change_line(one) for one in document["top_changes"]]
    if changes:
        shown = [f"* {text}" for text in capped(changes, _MAX_CHANGES_IN_TEXT)]
        yield ["**Slices that changed most**", "", *shown]
    yield [f"* {_escaped(text)}" for text in texts["calibration"] if calibration]
    ctr = _four_digits(quality["ctr"])
    yield [f"{quality['rows']:,} rows, {quality['groups']:,} groups, CTR {ctr}"]
    yield _status_strip(document, statuses)


def _value_line(row: _Document) -> str:
    texts = [_number(row)]
    for kind in KINDS:
        change = _change_text(row[kind])
        parts = (row["composition"].get(kind) or {}).get("text", "")
        suffix = f" ({_escaped(parts)})" if parts else ""
        texts += [f"{change} {_since(kind)}{suffix}"] if change else []
    return f"* {_code(row['name'])} {', '.join(texts)}"


def _status_strip(document: _Document, statuses: Mapping[dt.date, str]) -> list[str]:
    """Format the statuses of the last nights, a character for each night."""
    date: dt.date = document["date"]
    first = date - dt.timedelta(days=STRIP_DAYS - 1)
    days = strip({**statuses, date: document["status"]}, first, date)
    known = [day for day, one in days if one is not NO_NIGHT]
    if len(known) < 2:
        return []
    shown = [one for day, one in days if day >= known[0]]
    signs, kinds = "".join(one.letter for one in shown), (*STATUSES.values(), NO_NIGHT)
    meanings = [f"{_code(one.letter)} {one.name.lower()}" for one in kinds if one in shown]
    return [f"Last {len(shown)} days: {_code(signs)} ({', '.join(meanings)})"]


def _change_line(one: _Document) -> str:
    interval = interval_text(one["ci_low"], one["ci_high"], None, True, _FORM)
    text = (
        f"{_code(one['slice'])} of {_code(one['score'])}: {_code(one['name'])} "
        f"{_change_text(one)} {_since(one['kind'])} {interval}"
    )
    texts = [text.rstrip(), *["gate failed"] * one["gate_failed"]]
    others = one["others"]
    return "; ".join([*texts, *[f"{others} more change{'s' * (others > 1)}"] * bool(others)])


def _all_texts(document: _Document) -> list[str]:
    """List problems, changes, label delay, gates and notes of a night."""
    texts = document["texts"]
    return [
        *(text for name in ("sentences", "label_delay") for text in texts[name]),
        *(one["text"] for one in document["ship"]),
        *(text for name in ("compositions", "gates") for text in texts[name]),
        *document["notes"],
    ]


def _change_text(change: _Document | None) -> str:
    if change is None or math.isnan(change["delta"]):
        return ""
    delta = amount(change["delta"], None, True, _FORM)
    return f"{delta} {_MARKS.get(change['verdict'], '')}".strip()


def _since(kind: str) -> str:
    return f"{'from' if kind == 'baseline' else 'since'} {ago(kind)}"


def _legend(document: _Document) -> str:
    level, unit = percent_text(document["confidence"]), independent(document["unit"])
    text = f"\\[...\\] {level} confidence intervals ({unit})"
    if not any(row[kind] for row in document["headline"] for kind in KINDS):
        return text
    marks = ", ".join(f"{mark} {word}" for word, mark in _MARKS.items())
    return f"{text}; {marks}: significant, corrected for the number of comparisons (Holm)"


def _page_link(page: str | None) -> str:
    """Format a link to a page; empty without one."""
    return "" if page is None else f" [page]({quote(page, safe=_ADDRESS_CHARACTERS)})"


def _status_word(document: _Document) -> str:
    """Return the status of a night in words, in capitals if it is not fine."""
    name: str = document["status_name"]
    # In small letters if nothing is to be done.
    return name.lower() if name in ("Fine", "Provisional") else name.upper()


def _worst_status(documents: Sequence[_Document]) -> str:
    return _status_word(max(documents, key=lambda each: [*STATUSES].index(each["status"])))


def _statuses(documents: Sequence[_Document], name: Callable[[str], str] = str) -> str:
    return ", ".join(f"{name(each['label'])} {_status_word(each)}" for each in documents)


def _number(row: _Document) -> str:
    """Format a value with its interval."""
    interval = interval_text(row["ci_low"], row["ci_high"], None, spare=_FORM)
    return f"{_four_digits(row['value'])} {interval}".rstrip()


def _four_digits(number: float) -> str:
    return "undefined" if math.isnan(number) else amount(number, None, spare=_FORM)


def _escaped(text: str) -> str:
    """Escape text, so that it has no markup."""
    return _MARKUP.sub(r"\\\1", printable(text))


def _code(text: str) -> str:
    return code_span(printable(text))


def _shared_texts(documents: Sequence[_Document]) -> dict[str, str]:
    """Map each text that several labels have to a line with these labels."""
    labels: dict[str, list[str]] = {}
    for each in documents if "label" in documents[0] else ():
        for text in dict.fromkeys(_all_texts(each)):
            labels.setdefault(text, []).append(each["label"])
    return {
        text: text if len(of) == len(documents) else f"{', '.join(of)}: {text}"
        for text, of in labels.items()
        if len(of) > 1
    }
