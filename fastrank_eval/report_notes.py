"""What a reader of a table must know: names, groups behind its means, thresholds that decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fastrank_eval.measure_value import MeasureValue
from fastrank_eval.meta import Meta, plain_meta

__all__ = ["meta_with_notes", "report_notes"]


def report_notes(values: Iterable[MeasureValue], meta: Meta) -> list[str]:
    """Tell what values do not say of themselves.

    Parameters
    ----------
    values : iterable of MeasureValue
        Of all rows and of slices.
    meta : Meta

    Returns
    -------
    list of str
        A sentence each, without line breaks; empty where there is nothing to tell.
    """
    lines = list(values)
    return [*_names(lines, meta.requested)]


def meta_with_notes(values: Iterable[MeasureValue], meta: Meta) -> dict[str, Any]:
    """Write what values rest on as plain Python values, with the notes where there are any."""
    notes = report_notes(values, meta)
    return {**plain_meta(meta), **({"notes": notes} if notes else {})}


def _names(lines: Sequence[MeasureValue], requested: Mapping[str, str]) -> Iterator[str]:
    """Tell which line a name stands for, where two names could be taken for each other."""
    if not requested:
        return
    from fastrank_eval.measures import measure

    texts = {line.measure for line in lines}
    plain = [str(measure(name)) for name in requested]
    twice = len(set(plain)) < len(plain)
    if twice or any(name in texts and text != name for name, text in requested.items()):
        yield f"requested: {', '.join(f'{name} is {text}' for name, text in requested.items())}"
