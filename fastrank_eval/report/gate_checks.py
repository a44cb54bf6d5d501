"""Gates of a nightly report that could never be judged, refused before rows are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields

from fastrank_eval.errors import ArgumentError
from fastrank_eval.gate_tree import ALL, COMPARISON_FIELDS, Term, terms_of
from fastrank_eval.gates import Gate
from fastrank_eval.report.gate_lines import ComparedLine
from fastrank_eval.report.nights import NightValue
from fastrank_eval.slices.spec_text import slices_asked

__all__ = ["check_gate"]

#: What a night knows of a value and of a difference.
_KNOWN = {
    *(field.name for field in fields(NightValue)),
    *(field.name for field in fields(ComparedLine)),
    "dropped_share",
}
_QUOTED = r'"(?:[^"]|"")*"'
#: A part of a slice's label: the name, the sign, the value or bin.
_PART = re.compile(rf'((?:{_QUOTED}|[^"<>=,])+)(?:<|>=|=)(?:{_QUOTED}|\[[^)]*\)|[^,"])*')


def check_gate(each: Gate, key: str, baseline: str | None, by: Sequence[str]) -> None:
    """Refuse a gate on what no night of a report can have.

    Parameters
    ----------
    each : Gate
    key : str
        Of ``[gates]``.
    baseline : str or None
    by : sequence of str
        Slicings, each of which can be read.

    Raises
    ------
    ArgumentError
        It asks for a difference from a baseline that there is not, for a field that a nightly
        report does not keep, or for a slice that no slicing gives.
    """
    slicings = [tuple(part.name for part in spec.parts) for spec in slices_asked(by)] if by else []
    for term in terms_of(each.condition):
        if not isinstance(term, Term):
            continue
        if term.field not in _KNOWN:
            raise ArgumentError(
                f"a nightly report does not keep {term.field}; ask 'fastrank-eval compare' or "
                "'fastrank-eval evaluate' for it."
            )
        if key == "fail_if" and term.field in COMPARISON_FIELDS:
            _check_compared(term, baseline)
        if term.slice != ALL:
            _check_slice(term, slicings, by)


def _check_compared(term: Term, baseline: str | None) -> None:
    if baseline is None:
        raise ArgumentError(
            f"{term.field} is a difference from a baseline, and there is none: name one in "
            "[models]; for differences from earlier nights write the gate in fail_if_yesterday or "
            "fail_if_last_week."
        )
    if term.score == baseline:
        raise ArgumentError(
            f"{term.field} is a difference from the baseline, which {baseline!r} is itself; name "
            "another model, or leave it out for each of them."
        )


def _check_slice(term: Term, slicings: Sequence[tuple[str, ...]], by: Sequence[str]) -> None:
    if not by:
        shown = "[*]" if term.slice is None else repr(term.slice)
        raise ArgumentError(f"there are no slices, such as {shown}; add the column to [slices] by.")
    if term.slice is None:
        return
    named = tuple(found[1] for found in _PART.finditer(term.slice))
    if named not in slicings:
        raise ArgumentError(
            f"no slicing of [slices] gives a slice {term.slice!r}; rows are cut by "
            f"{' and by '.join(map(repr, by))}."
        )
