"""Name measures in reports as the configuration names them.

AUC is computed with its standard error, of many rows in bins, and is shown without these options.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fastrank_eval import Measure
from fastrank_eval import measure as measure_of
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.engine.conventions import with_clustered_errors, with_names
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.measures.auc import PooledAUC

#: A night of more rows has AUC in this many bins: its state does not grow with the rows.
MOST_ROWS, BINS = 10_000_000, 1 << 16


def with_standard_errors(requested: tuple[Measure, ...], rows: int = 0) -> tuple[Measure, ...]:
    """Select for AUC the standard error that `compare` computes.

    Parameters
    ----------
    requested : sequence of Measure
        If one of them names a standard error of AUC, they are returned as they are.
    rows : int
        About as many as the night has.
    """
    if any(map(_is_clustered, requested)):
        return requested
    computed = with_clustered_errors(requested)
    if rows > MOST_ROWS:
        computed = tuple(m(bins=BINS) if _is_clustered(m) else m for m in computed)
    return with_names(requested, computed)


def with_display_names(night: Night, requested: Sequence[Measure], evaluation: Evaluation) -> Night:
    """Rename measures to display names, and list the requested names.

    Parameters
    ----------
    night : Night
        With the names of the computed measures.
    requested : sequence of Measure
        The measures of the configuration.
    evaluation : Evaluation
        The run of the night.
    """
    used = () if any(map(_is_clustered, requested)) else evaluation.plan.measures
    shown = {str(measure): _plain(measure) for measure in used if _is_clustered(measure)}
    computed = {
        shown.get(name, name): shown.get(text, text)
        for name, text in evaluation.meta.requested.items()
    }
    texts = ((shown.get(str(m), str(m)), m.display_name) for m in evaluation.plan.measures)
    names = {text: name for text, name in texts if text in night.measures and text != name}
    measured = night.conventions["measures"].items()
    return replace(
        night,
        measures=tuple(shown.get(text, text) for text in night.measures),
        conventions={
            **night.conventions,
            "measures": {shown.get(text, text): options for text, options in measured},
            **({"requested": computed} if computed else {}),
            **({"names": names} if names else {}),
        },
        values=tuple(replace(v, measure=shown.get(v.measure, v.measure)) for v in night.values),
        compared=tuple(
            replace(difference, measure=shown.get(difference.measure, difference.measure))
            for difference in night.compared
        ),
    )


def display_name(text: str, measures: Collection[str]) -> str:
    """Return the name that a night uses for a computed measure.

    Parameters
    ----------
    text : str
        The text of the computed measure.
    measures : collection of str
        The names that the night has.

    Examples
    --------
    >>> display_name("AUC(se='clustered')", ["GAUC", "AUC"])
    'AUC'
    """
    if text in measures:
        return text
    plain = _plain(measure_of(text))
    return plain if plain in measures else text


def _plain(measure: Measure) -> str:
    return str(measure(se=None, bins=None)) if _is_clustered(measure) else str(measure)


def _is_clustered(measure: Measure) -> bool:
    return isinstance(measure, PooledAUC) and measure.se == "clustered"
