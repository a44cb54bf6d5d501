"""Write a night of several labels as plain text and Markdown."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.apps.nightly.gate_text import gate_texts
from fastrank_eval.apps.nightly.maturity import maturity_texts
from fastrank_eval.apps.nightly.night import NO_LABELS_LEFT, NO_ROWS, Finding, Night
from fastrank_eval.apps.nightly.summary_files import (
    escaped,
    label_code,
    night_lines,
    night_markdown,
    page_link,
    status_word,
)
from fastrank_eval.apps.nightly.text import sentences
from fastrank_eval.results.format import printable

#: Statuses, the worst first.
_ORDER = ("data_quality", "regression", "changed", "provisional", "fine")
#: Kinds of findings that do not depend on labels.
_OF_ROWS = ("scores", "drift")


@dataclass(frozen=True)
class LabelledNight:
    """The nights of all labels of one date.

    Parameters
    ----------
    common : Night
        The problems that all labels share: flags of the rows, findings of scores and columns, their
        gates, and notes. It has the worst status.
    nights : tuple of Night
        The nights without these problems, each with its own status.
    shared : dict of str to list of str
        Sentences on the maturity of labels, and notes, that some labels share, and these labels.
    """

    common: Night
    nights: tuple[Night, ...]
    shared: dict[str, list[str]]

    @property
    def texts(self) -> list[str]:
        """Lines for all labels together."""
        common = self.common
        shared = [f"{', '.join(labels)}: {text}" for text, labels in self.shared.items()]
        return [*sentences(common), *shared, *gate_texts(common), *common.notes]


def labelled_night(nights: Sequence[Night]) -> LabelledNight:
    """Separate the problems that all labels share.

    Parameters
    ----------
    nights : sequence of Night
        One for each label; at least one.
    """
    flags = _in_all(night.quality.flags for night in nights)
    notes = _in_all(night.notes for night in nights)
    findings = _in_all(tuple(map(_of_rows, night.findings)) for night in nights)
    conditions = {one.condition for one in findings if one is not None}
    gates = [
        gate for gate in _in_all(night.gates for night in nights) if gate.condition in conditions
    ]
    if not any(night.quality.rows for night in nights):
        gates = [
            gate
            for night in nights
            for gate in night.gates
            if not gate.passed or gate.reason in (NO_ROWS, NO_LABELS_LEFT)
        ]
    labels_by_text: dict[str, list[str]] = {}
    for night in nights:
        for text in (*maturity_texts(night), *(note for note in night.notes if note not in notes)):
            labels_by_text.setdefault(text, []).append(night.label)
    shared = {text: labels for text, labels in labels_by_text.items() if len(labels) > 1}
    # The rows of a label that no row has are not those of the others.
    first = next((night for night in nights if night.quality.rows), nights[0])
    common = replace(
        first,
        label="",
        status=worst_status(nights),
        quality=replace(first.quality, flags=tuple(flags)),
        findings=tuple(one for one in findings if one is not None),
        gates=tuple(gates),
        notes=tuple(notes),
    )
    rest = (
        replace(
            night,
            quality=replace(
                night.quality, flags=tuple(f for f in night.quality.flags if f not in flags)
            ),
            findings=tuple(
                one
                for one in night.findings
                if (key := _of_rows(one)) is None or key not in findings
            ),
            gates=tuple(gate for gate in night.gates if gate not in gates),
            notes=tuple(note for note in night.notes if note not in (*notes, *shared)),
        )
        for night in nights
    )
    return LabelledNight(common, tuple(rest), shared)


def worst_status(nights: Iterable[Night]) -> str:
    """Return the worst status of some nights."""
    return min((night.status for night in nights), key=_ORDER.index)


def _of_rows(finding: Finding) -> Finding | None:
    """Return a finding of the rows without numbers of measures, or None."""
    if finding.kind not in _OF_ROWS:
        return None
    none = math.nan
    return replace(
        finding, measure="", verdict="", value=none, ci_low=none, ci_high=none, base=none,
        delta=none, delta_ci_low=none, delta_ci_high=none, p_adjusted=none,
    )  # fmt: skip


def _in_all(sequences: Iterable[Sequence[Any]]) -> list[Any]:
    """Return the elements that all sequences have, in the order of the first."""
    first, *others = sequences
    return [each for each in first if all(each in other for other in others)]


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
    labelled = labelled_night(nights)
    common = labelled.common
    lines = [f"{common.date} {status_word(common)}: {_statuses(nights)}"]
    lines += [f"  {text}" for text in labelled.texts]
    texts = [night_lines(night, known=labelled.shared) for night in labelled.nights]
    own = "".join(texts).splitlines()
    lines += [f"  {line}" for line in own]
    return "".join(f"{printable(line)}\n" for line in lines)


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
    labelled = labelled_night(nights)
    common = labelled.common
    words = ", ".join(f"{label_code(night)} {status_word(night)}" for night in nights)
    lines = [
        f"**{escaped(common.title)}, {common.date}: {status_word(common)}**{page_link(index)}",
        "",
        words,
        "",
        *(f"* {escaped(text)}" for text in labelled.texts),
    ]
    parts = ["\n".join(lines).rstrip("\n") + "\n"]
    last = len(nights) - 1
    parts += [
        night_markdown(night, page, strip, legend=at == last, known=labelled.shared)
        for at, (night, page, strip) in enumerate(zip(labelled.nights, pages, strips, strict=True))
    ]
    return "\n".join(parts)


def _statuses(nights: Sequence[Night]) -> str:
    return ", ".join(f"{night.label} {status_word(night)}" for night in nights)
