"""What a saved state holds: which sums, and under which slice, model and name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from fastrank_eval.cluster_moments import ClusterMoments
from fastrank_eval.measures.pooled_measure import ClusteredMeasure
from fastrank_eval.plan import Plan
from fastrank_eval.saved_parts import Parts
from fastrank_eval.state_files import Place, Rows

ALL = Rows()
#: Of all rows, or of the lines of a slicing: groups, rows and positives, sums over groups, and
#: those of a model beside the baseline.
TOTALS, GROUPS, PAIRS = "totals", "groups", "pairs"
#: The slices of a slicing; keys and values of every group.
SLICES, VALUES = "slices", "values of groups"


class Saveable(Protocol):
    """What every state can do."""

    def merge(self, other: Any) -> None:
        """Add another state of the same setup, which may be used up."""
        ...

    def saved(self) -> Parts:
        """Arrays that tell all of it, the same however rows came in."""
        ...

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        ...


class Kept(NamedTuple):
    """What is kept of rows under a name.

    Parameters
    ----------
    kind : type
        The class of the state.
    field : str or None
        The column whose values it tells apart.
    """

    kind: type[Saveable]
    field: str | None


def kept_by(plan: Plan) -> dict[str, Kept]:
    """What a plan keeps of the rows of each model, by name."""
    kept = {}
    for key, measure in plan.pools.items():
        field = next(iter(measure.columns_named()), None)
        kept[name_of(key)] = Kept(type(measure.new_state(plan.weighted, 1)), field)
    return kept


def paired_by(plan: Plan) -> dict[str, Kept]:
    """What a plan keeps of the rows of each model that is compared with the baseline, by name."""
    if plan.baseline is None:
        return {}
    return {
        pair_of(key): Kept(ClusterMoments, None)
        for key, measure in plan.pools.items()
        if isinstance(measure, ClusteredMeasure)
    }


def name_of(key: Hashable) -> str:
    """The name of the state that measures of a key share."""
    return json.dumps(key)


def pair_of(key: Hashable) -> str:
    """The name of the moments of two models' terms."""
    return json.dumps([PAIRS, key])


def values_of(field: str) -> Place:
    """Where the values of a field stand."""
    return ALL, "", json.dumps(["values of a field", field])


def totals_in(parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return groups, rows and positives, a row a line."""
    counts = parts["counts"]
    if counts.dtype != np.int64 or counts.ndim != 2 or counts.shape[1] != 3:
        raise ValueError(f"counts of totals are {counts.dtype} of shape {counts.shape}")
    if counts.min(initial=0) < 0:
        raise ValueError("counts of totals are below 0")
    return counts


def fingerprint_of(measures: list[str], states: Mapping[Place, Parts]) -> str:
    """What tells sums from others: the same for the same rows, whatever they were called."""
    slicings = sorted({place[0].by for place in states})
    numbers = {by: number for number, by in enumerate(slicings)}
    digest = hashlib.sha256(json.dumps([measures, slicings]).encode())
    for (rows, model, state), parts in sorted(states.items()):
        if state in (SLICES, VALUES):
            continue
        for name, array in sorted(parts.items()):
            place = numbers[rows.by], rows.label, model, state
            told = (*place, name, array.dtype.name, array.shape)
            digest.update(json.dumps(told).encode())
            digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
