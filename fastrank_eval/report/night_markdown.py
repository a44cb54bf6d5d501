"""A night as markdown for chat, and as lines for a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from fastrank_eval.cell_texts import printable
from fastrank_eval.report.night_json import moved
from fastrank_eval.report.nights import Night, NightDifference, NightValue

__all__ = ["night_lines", "night_markdown"]

_STATUS = {
    "fine": "fine",
    "regression": "REGRESSION",
    "data_quality": "DATA QUALITY",
}
_KINDS = {
    "baseline": "from baseline",
    "yesterday": "since yesterday",
    "last_week": "since last week",
}
_MARKS = {"better": "▲", "worse": "▼", "higher": "↑", "lower": "↓"}
#: Slices that are told.
_MOST_MOVED = 5
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|<>~&:@-])")


def night_markdown(night: Night) -> str:
    """Lay a night out for chat: status, what is wrong, headline numbers, what moved most.

    Lists and no tables, which many chats do not show.

    Parameters
    ----------
    night : Night

    Returns
    -------
    str
        Names that come from data stand in code spans, so that nothing in them is markup.
    """
    kinds = [kind for kind in _KINDS if any(d.kind == kind for d in night.compared)]
    whole = [value for value in night.values if value.slice == "all"]
    changes = {(d.kind, d.score, d.measure): d for d in night.compared if d.slice == "all"}
    models = []
    for model in dict.fromkeys(value.score for value in whole):
        models += [f"**{_code(model)}**", ""]
        for value in whole:
            if value.score == model:
                found = {kind: _change(changes.get((kind, model, value.measure))) for kind in kinds}
                told = [f"{change} {_KINDS[kind]}" for kind, change in found.items() if change]
                number = f"{_number(value.value)} {_span(value)}".rstrip()
                models.append(f"* {_code(value.measure)} {', '.join([number, *told])}")
        models.append("")
    quality = night.quality
    parts = [
        [f"**{_escaped(night.title)}, {night.date}: {_STATUS[night.status]}**", ""],
        [f"* {_escaped(reason)}" for reason in _reasons(night)],
        models,
        _moved_most(night),
        [f"{quality.rows:,} rows, {quality.groups:,} groups, CTR {_number(quality.ctr)}"],
    ]
    lines: list[str] = []
    for part in filter(None, parts):
        lines += [*([""] if lines and lines[-1] else []), *part]
    return "\n".join(lines) + "\n"


def _moved_most(night: Night) -> list[str]:
    """The slices whose differences are surest, of the first measure that has any."""
    found = moved(night)
    if not found:
        return []
    # Slices of the same rows say the same of every measure: the first tells enough.
    first = min((d.measure for d in found), key=night.measures.index)
    of_first = [d for d in found if d.measure == first]
    lines = [f"**Slices that moved most, {_code(first)}**", ""]
    lines += [
        f"* {_code(d.slice)} of {_code(d.score)}: {_change(d)} {_KINDS[d.kind]} "
        f"[{d.ci_low:+.4g}, {d.ci_high:+.4g}]"
        for d in of_first[:_MOST_MOVED]
    ]
    left = len(of_first) - _MOST_MOVED
    return [*lines, f"* and {left} more"] if left > 0 else lines


def night_lines(night: Night) -> str:
    """Tell a night in a few plain lines."""
    first = {v.score: v for v in reversed(night.values) if v.slice == "all"}
    values = [first[model] for model in night.models if model in first]
    told = "; ".join(
        f"{v.score} {v.measure} {_number(v.value)} {_span(v)}".rstrip() for v in values
    )
    lines = [f"{night.date} {_STATUS[night.status]}: {told}"]
    lines += [f"  {reason}" for reason in _reasons(night)]
    return "".join(f"{printable(line)}\n" for line in lines)


def _reasons(night: Night) -> Iterator[str]:
    yield from night.quality.flags
    for gate in night.gates:
        if not gate.passed:
            yield f"gate failed: {gate.condition}: {gate.reason}"
    yield from night.notes


def _change(difference: NightDifference | None) -> str:
    if difference is None or math.isnan(difference.delta):
        return ""
    return f"{difference.delta:+.4g} {_MARKS.get(difference.verdict, '')}".strip()


def _span(value: NightValue) -> str:
    if not math.isfinite(value.ci_low) or not math.isfinite(value.ci_high):
        return ""
    return f"[{value.ci_low:.4g}, {value.ci_high:.4g}]"


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.4g}"


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", printable(text))


def _code(text: str) -> str:
    """A code span that nothing inside it can end."""
    text = printable(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"
