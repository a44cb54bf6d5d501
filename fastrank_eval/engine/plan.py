"""What to compute and by which conventions, and what comes out of it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fastrank_eval.io.columns import Roles
from fastrank_eval.measures.base import Measure
from fastrank_eval.measures.pooled import PooledMeasure

if TYPE_CHECKING:
    from fastrank_eval.io.keys import CodedColumn
    from fastrank_eval.slicing.slicer import SliceCodes, Slicing

#: Rows a worker takes at a time, and the fewest where there are less than enough for all.
BATCH_ROWS = 1 << 20
_FEWEST_BATCH_ROWS = 1 << 18


def batch_rows_of(rows: int | None, threads: int) -> int:
    """Rows a worker takes at a time, so that each thread gets as many stretches as the others."""
    if rows is None:
        return BATCH_ROWS
    rounds = -(-rows // (threads * BATCH_ROWS))
    return max(-(-rows // (threads * max(rounds, 1))), _FEWEST_BATCH_ROWS)


@dataclass(frozen=True)
class Plan:
    """What to compute, and by which conventions.

    Parameters
    ----------
    roles : Roles
    measures : tuple of Measure
    ties, groups : str
        As `evaluate` takes them.
    undefined : mapping of str to str
        As `undefined.undefined_policies` gives them.
    presorted : bool
        Refuse scores that rise inside a group.
    per_group : bool
        Keep the values of every group.
    threads : int
    batch_rows : int
        Rows a worker takes at a time.
    confidence : float
        Of intervals, in ]0, 1[.
    baseline : int or None
        The model that every other is compared with; None: nothing is compared.
    slicing : Slicing or None
        By what the rows are cut into slices, each of which has values of its own.
    min_groups : int
        Slices with fewer groups are left out.
    """

    roles: Roles
    measures: tuple[Measure, ...]
    ties: str = "expected"
    undefined: Mapping[str, str] = field(default_factory=lambda: {"*": "skip"})
    groups: str = "all"
    presorted: bool = False
    per_group: bool = True
    threads: int = 1
    batch_rows: int = BATCH_ROWS
    confidence: float = 0.95
    baseline: int | None = None
    slicing: Slicing | None = None
    min_groups: int = 1

    @property
    def weighted(self) -> bool:
        """Whether row weights are in force."""
        return self.roles.weight is not None

    @cached_property
    def skip_empty(self) -> bool:
        """Whether groups whose labels are all 0 need not be ranked: their values are known."""
        if self.weighted or self.roles.judgments or self.roles.subtopics:
            return False
        for m in self.measures:
            if m.pooled:
                continue
            if not m.empty_is_known() or (m.weight != "uniform" and not m.undefined_if_empty()):
                return False
            if m.undefined_if_empty() and self.policy(m, "no_relevant") != "skip":
                return False
        return True

    @cached_property
    def ranks(self) -> bool:
        """Whether rows must be ranked: a measure asks where they stand, or their weights do."""
        of_groups = [m for m in self.measures if not m.pooled]
        if self.weighted or self.roles.unretrieved == "allow":
            return bool(of_groups)
        return any(m.needs_ranks for m in of_groups)

    @property
    def rivals(self) -> list[int]:
        """The models that are compared with the baseline."""
        models = range(len(self.roles.scores))
        return [] if self.baseline is None else [m for m in models if m != self.baseline]

    def field_codes(self, named: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The codes of columns that measures tell apart, of the columns that `Columns` names."""
        fields = self.measured_fields
        coded = named[len(self.roles.group_weights) :]
        return {field.name: codes for field, codes in zip(fields, coded, strict=False)}

    @property
    def measured_fields(self) -> tuple[CodedColumn, ...]:
        """The columns that measures tell apart."""
        slices = 0 if self.slicing is None else len(self.slicing.columns)
        return self.roles.fields[: len(self.roles.fields) - slices]

    @property
    def slicings(self) -> tuple[SliceCodes, ...]:
        """What numbers the slices, for each way of cutting the rows."""
        return () if self.slicing is None else self.slicing.slices

    @property
    def keeps_values(self) -> bool:
        """Whether a chunk's values are read again: by slices, or beside those of another model."""
        return self.slicing is not None or self.baseline is not None

    @property
    def keeps_order(self) -> bool:
        """Whether the input order of a group's rows matters: for ties, or ties of item ids."""
        return self.ties in ("input", "item")

    def policy(self, measure: Measure, reason: str) -> Any:
        """What to do with groups undefined for a reason: 'skip', 'error' or the value to take."""
        if reason in ("few_rows", "few_positives"):
            return "skip"
        chosen: Any = measure.chosen.get("single_class")
        if chosen is None:
            chosen = self.undefined.get(measure.name, self.undefined["*"])
        return {"zero": 0.0, "one": 1.0}.get(chosen, chosen)

    @cached_property
    def passes(self) -> list[list[int]]:
        """Per-group measures that are computed together, as positions in `measures`."""
        by_key: dict[Hashable, list[int]] = {}
        for m, measure in enumerate(self.measures):
            if not measure.pooled:
                by_key.setdefault(measure.pass_key(), []).append(m)
        return list(by_key.values())

    @cached_property
    def pools(self) -> dict[Hashable, PooledMeasure]:
        """What is kept of all rows together: a measure for each, of those that share it."""
        by_key: dict[Hashable, PooledMeasure] = {}
        for measure in self.measures:
            if isinstance(measure, PooledMeasure):
                for kept in measure.keeps():
                    by_key.setdefault(kept.state_key(), kept)
        return by_key
