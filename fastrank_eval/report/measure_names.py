"""AUC as a nightly report takes it: with a clustered error, under its plain name."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fastrank_eval.comparison.comparing import measures_taken
from fastrank_eval.measures import Measure
from fastrank_eval.measures.pooled_auc import PooledAUC
from fastrank_eval.measures.text import measure as measure_of

__all__ = ["called", "names_shown", "taken"]


def taken(asked: Sequence[Measure]) -> tuple[Measure, ...]:
    """Measures as they are computed: AUC as `compare` takes it, which gives it an interval.

    Parameters
    ----------
    asked : sequence of Measure
        ``AUC(se=None)`` asks for none.
    """
    return tuple(asked) if any(map(_is_clustered, asked)) else measures_taken(asked)


def names_shown(asked: Sequence[Measure], used: Sequence[Measure]) -> dict[str, str]:
    """What a night calls measures by another name than their text, by that text.

    Parameters
    ----------
    asked : sequence of Measure
    used : sequence of Measure
        As `taken` and the profile left them.
    """
    if any(_is_clustered(each) for each in asked):
        return {}
    return {str(mine): _plain(mine) for mine in used if _is_clustered(mine)}


def called(text: str, measures: Collection[str]) -> str:
    """What a night of some measures calls the one that is computed as a text says."""
    if text in measures:
        return text
    plain = _plain(measure_of(text))
    return plain if plain in measures else text


def _plain(measure: Measure) -> str:
    return str(measure(se=None)) if _is_clustered(measure) else str(measure)


def _is_clustered(measure: Measure) -> bool:
    return isinstance(measure, PooledAUC) and measure.se == "clustered"
