"""Groups of two results side by side, joined by their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fastrank_eval.array_views import decoded
from fastrank_eval.arrow_values import arrow_column
from fastrank_eval.comparison.kept_groups import KeptGroups
from fastrank_eval.errors import ArgumentError, text_keys_hint

__all__ = ["GroupJoin", "join_groups"]


@dataclass(frozen=True, slots=True)
class GroupJoin:
    """Groups of two results.

    Parameters
    ----------
    groups : KeptGroups
        Of the base model, then those of the other result: first the groups of the baseline in
        their order, then those that only the other has.
    counts : dict of str to int
        Groups of ``"both"``, ``"only_base"``, ``"only_candidate"``, and those of both whose numbers
        of rows are not the same: ``"rows_differ"``.
    """

    groups: KeptGroups
    counts: dict[str, int]


def join_groups(
    base: KeptGroups,
    model: int,
    other: KeptGroups,
    measures: Sequence[str],
    names: Mapping[str, str],
) -> GroupJoin:
    """Put values of two results side by side.

    Parameters
    ----------
    base : KeptGroups
    model : int
        The place of the baseline in it.
    other : KeptGroups
    measures : sequence of str
        Those that both have.
    names : mapping of str to str
        What the models of the other are called.

    Raises
    ------
    ArgumentError
        If keys are not of the same types.
    """
    mine, theirs = ([decoded(key) for key in kept.keys] for kept in (base, other))
    kinds = [[str(key.type) for key in keys] for keys in (mine, theirs)]
    if kinds[0] != kinds[1]:
        raise ArgumentError(
            f"groups cannot be joined by their keys, which are {', '.join(kinds[0])} in one result "
            f"and {', '.join(kinds[1])} in the other; give both the same types."
            f"{text_keys_hint([*kinds[0], *kinds[1]])}"
        )
    at, only = _places(mine, theirs)
    both = at >= 0
    size = len(at) + len(only)
    from_base, from_other = np.full(size, -1), np.concatenate([at, only])
    from_base[: len(at)] = np.arange(len(at))
    values, weights = {}, {}
    known = [next(m for m in base.measures if str(m) == text) for text in measures]
    sides = [(base, model, from_base), *((other, k, from_other) for k in range(len(other.scores)))]
    taken: dict[tuple[int, int], np.ndarray] = {}
    for place, (kept, k, rows) in enumerate(sides):
        for m, measure in enumerate(known):
            if measure.pooled:
                continue
            old = k, kept.measures.index(measure)
            values[place, m] = _spread(kept.values[old], rows, np.nan)
            if old in kept.weights:
                weight = kept.weights[old]
                shared = id(weight), id(rows)
                if shared not in taken:
                    taken[shared] = _spread(weight, rows, 0.0)
                weights[place, m] = taken[shared]
    groups = KeptGroups(
        base.names,
        tuple(
            pa.concat_arrays([a, b.take(arrow_column(only))])
            for a, b in zip(mine, theirs, strict=True)
        ),
        np.concatenate([base.rows, other.rows[only]]),
        np.concatenate([base.positives, other.positives[only]]),
        (base.scores[model], *names.values()),
        tuple(known),
        values,
        weights,
    )
    rows_differ = base.rows[both] != other.rows[at[both]]
    counts = {
        "both": int(np.count_nonzero(both)),
        "only_base": int(np.count_nonzero(~both)),
        "only_candidate": len(only),
        "rows_differ": int(np.count_nonzero(rows_differ)),
    }
    return GroupJoin(groups, counts)


def _spread(values: np.ndarray, rows: np.ndarray, otherwise: float) -> np.ndarray:
    """Values by group, `otherwise` where the row is -1."""
    found = np.full(len(rows), otherwise)
    there = rows >= 0
    found[there] = values[rows[there]]
    return found


def _places(mine: Sequence[pa.Array], theirs: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Where each of one's keys stands among the other's, -1 if nowhere; and the other's own."""
    groups = len(mine[0])
    codes = np.zeros(groups + len(theirs[0]), np.int64)
    for a, b in zip(mine, theirs, strict=True):
        column = pa.concat_arrays([a, b]).dictionary_encode()
        numbers = np.asarray(column.indices).astype(np.int64)
        _, codes = np.unique(codes * (len(column.dictionary) + 1) + numbers, return_inverse=True)
    known = np.full(int(codes.max(initial=-1)) + 1, -1)
    known[codes[groups:]] = np.arange(len(theirs[0]))
    seen = np.zeros(len(known), np.bool_)
    seen[codes[:groups]] = True
    return known[codes[:groups]], np.flatnonzero(~seen[codes[groups:]])
