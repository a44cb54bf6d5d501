"""A night as markdown for chat, and as lines for a terminal."""

from __future__ import annotations

import math
import re
from urllib.parse import quote

from fastrank_eval.cell_texts import printable
from fastrank_eval.report.moved import Moved, slices_moved
from fastrank_eval.report.nights import KINDS, Night, NightDifference, NightValue
from fastrank_eval.report.sentences import sentences
from fastrank_eval.report.wording import ago, gate_texts, level_of, not_judged

__all__ = ["night_lines", "night_markdown"]

_STATUS = {
    "fine": "fine",
    "changed": "CHANGED",
    "regression": "REGRESSION",
    "data_quality": "DATA QUALITY",
}
_MARKS = {"better": "▲", "worse": "▼", "higher": "↑", "lower": "↓"}
#: Slices that are told.
_MOST_MOVED = 5
#: Characters that an address keeps.
_OF_ADDRESSES = "/:?#@!$&'*+,;=%~"
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|<>~&:@-])")


def night_markdown(night: Night, page: str | None = None) -> str:
    """Lay a night out for chat: status, page, what is wrong, headline numbers, what moved most.

    Lists and no tables, which many chats do not show.

    Parameters
    ----------
    night : Night
    page : str, optional
        Where its page is.

    Returns
    -------
    str
        Names that come from data stand in code spans, so that nothing in them is markup.
    """
    kinds = [kind for kind in KINDS if any(d.kind == kind for d in night.compared)]
    whole = [value for value in night.values if value.slice == "all"]
    changes = {(d.kind, d.score, d.measure): d for d in night.compared if d.slice == "all"}
    models = []
    for model in dict.fromkeys(value.score for value in whole):
        models += [f"**{_code(model)}**", ""]
        for value in whole:
            if value.score == model:
                found = {kind: _change(changes.get((kind, model, value.measure))) for kind in kinds}
                told = [f"{change} {_since(kind)}" for kind, change in found.items() if change]
                number = f"{_number(value.value)} {_span(value)}".rstrip()
                models.append(f"* {_code(value.measure)} {', '.join([number, *told])}")
        models.append("")
    quality = night.quality
    status = f"**{_escaped(night.title)}, {night.date}: {_STATUS[night.status]}**"
    link = "" if page is None else f" [page]({quote(page, safe=_OF_ADDRESSES)})"
    reason, *others = sentences(night) or [""]
    parts = [
        [f"{status}{link}", ""],
        [_escaped(reason), ""] if reason else [],
        [
            *(f"* {_escaped(other)}" for other in others),
            *(f"* {_escaped(text)}" for text in gate_texts(night)),
            *(f"* not judged: {_escaped(each)}" for each in not_judged(night)),
            *(f"* {_escaped(note)}" for note in night.notes),
        ],
        models,
        _moved_most(night),
        [f"{quality.rows:,} rows, {quality.groups:,} groups, CTR {_number(quality.ctr)}", ""],
        [_legend(night)],
    ]
    lines: list[str] = []
    for part in filter(None, parts):
        lines += [*([""] if lines and lines[-1] else []), *part]
    return "\n".join(lines) + "\n"


def _moved_most(night: Night) -> list[str]:
    found = slices_moved(night)
    if not found:
        return []
    lines = ["**Slices that moved most**", ""]
    lines += [f"* {_moved(one)}" for one in found[:_MOST_MOVED]]
    left = len(found) - _MOST_MOVED
    return [*lines, f"* and {left} more"] if left > 0 else lines


def _moved(one: Moved) -> str:
    d = one.difference
    also = ["gate failed"] * one.alarmed
    also += [f"{one.others} more change{'s' * (one.others > 1)}"] * bool(one.others)
    return "; ".join(
        [
            f"{_code(d.slice)} of {_code(d.score)}: {_code(d.measure)} {_change(d)} "
            f"{_since(d.kind)} [{d.ci_low:+.4g}, {d.ci_high:+.4g}]",
            *also,
        ]
    )


def night_lines(night: Night) -> str:
    """Tell a night in a few plain lines."""
    first = {v.score: v for v in reversed(night.values) if v.slice == "all"}
    values = [first[model] for model in night.models if model in first]
    told = "; ".join(
        f"{v.score} {v.measure} {_number(v.value)} {_span(v)}".rstrip() for v in values
    )
    lines = [f"{night.date} {_STATUS[night.status]}: {told}"]
    lines += [f"  {told}" for told in [*sentences(night), *gate_texts(night), *night.notes]]
    return "".join(f"{printable(line)}\n" for line in lines)


def _change(difference: NightDifference | None) -> str:
    if difference is None or math.isnan(difference.delta):
        return ""
    return f"{difference.delta:+.4g} {_MARKS.get(difference.verdict, '')}".strip()


def _since(kind: str) -> str:
    return f"{'from' if kind == 'baseline' else 'since'} {ago(kind)}"


def _legend(night: Night) -> str:
    level = f"\\[...\\] {level_of(night)} confidence intervals, groups being independent clusters"
    if not night.compared:
        return level
    marks = ", ".join(f"{mark} {word}" for word, mark in _MARKS.items())
    return f"{level}; {marks}: significant, corrected for the number of comparisons (Holm)"


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
