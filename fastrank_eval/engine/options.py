"""Type the arguments of `evaluate` for functions that pass them on.

Type checkers alone import this file. `engine/run.py` has the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

import pyarrow.compute as pc

from fastrank_eval._lib.threads import Progress
from fastrank_eval.slicing.spec import SliceSpec


class ComparedOptions(TypedDict, total=False):
    """The arguments of `evaluate` that `compare` passes on."""

    weight: str | None
    item: str | None
    subtopics: str | None
    profile: str | None
    ties: str | None
    undefined: str | Mapping[str, str] | None
    groups: str | None
    unretrieved: str | None
    unjudged: str | None
    nan: str
    null_groups: str
    weight_rows: str | None
    score_type: str | None
    sampling_rate: float | None
    by: str | SliceSpec | Sequence[str | SliceSpec] | None
    min_groups: int
    order: str
    presorted: bool
    keep_scores: bool
    where: str | pc.Expression | None
    limit: int | None
    batch_rows: int | None
    memory: str | int | None
    spill_dir: str | None
    format: str | None
    allow_unfinished: bool
    progress: Callable[[Progress], object] | None


class PartialOptions(ComparedOptions, total=False):
    """The arguments of `evaluate` that `partial` passes on."""

    confidence: float
    baseline: str | None
