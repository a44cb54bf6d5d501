"""Plan a run: measures, conventions, threads and slices."""

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
    from fastrank_eval.slicing.slicer import SliceEncoder, Slicings

#: Rows of a batch, and the fewest rows of a batch where threads outnumber full batches.
BATCH_ROWS = 1 << 20
_FEWEST_BATCH_ROWS = 1 << 18


def batch_rows_of(rows: int | None, threads: int) -> int:
    """Choose the rows of a batch so that all threads get equal work."""
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
        Of each measure, as `conventions.undefined_policies` returns them.
    presorted : bool
        Refuse scores that rise inside a group.
    per_group : bool
        Keep the values of every group.
    threads : int
    batch_rows : int
        Rows of the batch that a thread takes at a time.
    confidence : float
        Of intervals, in ]0, 1[.
    baseline : int or None
        The model that every other is compared with; None: nothing is compared.
    slicings : Slicings or None
        How rows are divided into slices. Each slice has values of its own.
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
    slicings: Slicings | None = None
    min_groups: int = 1

    @property
    def weighted(self) -> bool:
        """Whether row weights are in force."""
        return self.roles.weight is not None

    @cached_property
    def skip_empty(self) -> bool:
        """Whether groups with only labels of 0 need no ranks."""
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
        """Whether a measure, row weights or unretrieved rows need ranks."""
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
        """Map each field of a measure to its codes in `Columns.named_columns`."""
        fields = self.measured_fields
        coded = named[len(self.roles.group_weights) :]
        return {field.name: codes for field, codes in zip(fields, coded, strict=False)}

    @property
    def measured_fields(self) -> tuple[CodedColumn, ...]:
        """The columns by whose values measures divide rows."""
        slices = 0 if self.slicings is None else len(self.slicings.columns)
        return self.roles.fields[: len(self.roles.fields) - slices]

    @property
    def slice_encoders(self) -> tuple[SliceEncoder, ...]:
        """The slicings: each maps rows to slice indices."""
        return () if self.slicings is None else self.slicings.encoders

    @property
    def keeps_values(self) -> bool:
        """Whether slices or a comparison read the values of a chunk again."""
        return self.slicings is not None or self.baseline is not None

    @property
    def keeps_order(self) -> bool:
        """Whether the input order of rows decides ties of scores or item ids."""
        return self.ties in ("input", "item")

    def policy(self, measure: Measure, reason: str) -> Any:
        """Return the policy for a reason: 'skip', 'error' or a value."""
        if reason in ("few_rows", "few_positives"):
            return "skip"
        policy: Any = measure.chosen.get("single_class")
        if policy is None:
            policy = self.undefined.get(measure.name, self.undefined["*"])
        return {"zero": 0.0, "one": 1.0}.get(policy, policy)

    @cached_property
    def passes(self) -> list[list[int]]:
        """Positions of the per-group measures that are computed together."""
        by_key: dict[Hashable, list[int]] = {}
        for m, measure in enumerate(self.measures):
            if not measure.pooled:
                by_key.setdefault(measure.pass_key(), []).append(m)
        return list(by_key.values())

    @cached_property
    def row_states(self) -> dict[Hashable, PooledMeasure]:
        """One measure for each state of all rows, by the key of the state."""
        by_key: dict[Hashable, PooledMeasure] = {}
        for measure in self.measures:
            if isinstance(measure, PooledMeasure):
                for owner in measure.required_states():
                    by_key.setdefault(owner.state_key(), owner)
        return by_key
