"""Make the requests of several labels over one reading of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastrank_eval._lib.arguments import column_names, is_list_like, shown, taking
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.engine.run import Request
from fastrank_eval.measures import Measure

Measures = str | Measure | Sequence[str | Measure]


@taking(Request)
def requests_by_label(request: Request) -> dict[str, Request]:
    """Return the request of each label, for `run_together`.

    Raises
    ------
    ArgumentError
        As `measures_by_label` does, or if an argument is of a wrong type.
    """
    # An iterator is read once, for all labels.
    group, score, by = map(_read, (request.group, request.score, request.by))
    measures = measures_by_label(request.label, request.measures)
    return {
        label: replace(request, label=label, group=group, score=score, measures=of_label, by=by)
        for label, of_label in measures.items()
    }


def measures_by_label(
    label: str | Sequence[str], measures: Measures | Mapping[str, Measures]
) -> dict[str, Measures]:
    """Return the measures of each label.

    Raises
    ------
    ArgumentError
        If labels are not distinct names, a label that is not in a list has a mapping of measures,
        or a mapping has not exactly the labels as its keys.
    """
    if isinstance(label, str):
        if isinstance(measures, Mapping):
            raise ArgumentError(
                f"measures: must be measures of one label, got {shown(measures)}; pass a list of "
                "labels, or the measures of the label alone."
            )
        return {label: measures}
    labels = column_names("label", label)
    if not isinstance(measures, Mapping):
        return dict.fromkeys(labels, _read(measures))
    for name in measures:
        if name not in labels:
            raise ArgumentError(
                f"measures: must have the labels {', '.join(map(repr, labels))} as keys, got "
                f"{shown(name)}; add it to label, or leave it out.{near(str(name), labels)}"
            )
    missing = [name for name in labels if name not in measures]
    if missing:
        raise ArgumentError(
            f"measures: must have measures for every label, got none for "
            f"{', '.join(map(repr, missing))}; add them."
        )
    return {name: measures[name] for name in labels}


def _read(given: Any) -> Any:
    """Read a list or an iterator; another value stays as it is."""
    return tuple(given) if is_list_like(given) and not isinstance(given, Mapping) else given
