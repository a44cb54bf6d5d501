"""Make the requests of several labels over one reading of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastrank_eval._lib.arguments import column_names, shown
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.engine.options import Options
from fastrank_eval.measures import Measure

Measures = str | Measure | Sequence[str | Measure]


def options_by_label(options: Options) -> dict[str, Options]:
    """Return the options of each label, for `run_together`.

    Raises
    ------
    ArgumentError
        As `measures_by_label` does.
    """
    measures = measures_by_label(options.label, options.measures)
    if isinstance(options.label, str):
        return {options.label: options}
    return {
        label: options.replace(label=label, measures=for_label)
        for label, for_label in measures.items()
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
        return dict.fromkeys(labels, measures)
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
