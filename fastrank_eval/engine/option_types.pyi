"""The types of options. Written by `python -m tests.public_names`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Required, TypedDict

import pyarrow.compute as pc

from fastrank_eval._lib.threads import Progress
from fastrank_eval.engine.conventions import Profile
from fastrank_eval.measures import Measure
from fastrank_eval.slicing.spec import SliceSpec

class OptionFields:
    source: object
    batch_rows: int | None
    group: tuple[str, ...] | None
    cluster: tuple[str, ...] | None
    label: Any
    score: tuple[str, ...] | dict[str, str]
    measures: Any
    weight: str | None
    item: str | None
    subtopics: str | None
    profile: Profile | None
    ties: str | None
    undefined: dict[str, str] | None
    groups: str | None
    unretrieved: str | None
    unjudged: str | None
    nan: str
    null_groups: str
    weight_rows: str | None
    score_type: str | None
    sampling_rate: float | None
    confidence: float
    by: str | SliceSpec | Sequence[str | SliceSpec] | None
    min_groups: int
    order: str
    threads: int | None
    keep: frozenset[str] | None
    baseline: str | None
    where: str | pc.Expression | None
    limit: int | None
    memory: str | int | None
    format: str | None
    progress: Callable[[Progress], object] | None

class CompareOptions(TypedDict, total=False):
    group: str | Sequence[str] | None
    cluster: str | Sequence[str] | None
    label: Required[str | Sequence[str]]
    score: Required[str | Sequence[str] | Mapping[str, str]]
    measures: str | Measure | Sequence[str | Measure] | Mapping[str, Any]
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
    confidence: float
    by: str | SliceSpec | Sequence[str | SliceSpec] | None
    min_groups: int
    order: str
    threads: int | None
    keep: str | Sequence[str] | None
    baseline: Required[str]
    where: str | pc.Expression | None
    limit: int | None
    memory: str | int | None
    format: str | None
    progress: Callable[[Progress], object] | None

class ClassOptions(TypedDict, total=False):
    weight: str | None
    undefined: str | Mapping[str, str] | None
    threads: int | None
    where: str | pc.Expression | None
    limit: int | None
    format: str | None
    progress: Callable[[Progress], object] | None

class PartialOptions(TypedDict, total=False):
    group: str | Sequence[str] | None
    cluster: str | Sequence[str] | None
    label: Required[str | Sequence[str]]
    score: Required[str | Sequence[str] | Mapping[str, str]]
    measures: str | Measure | Sequence[str | Measure] | Mapping[str, Any]
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
    confidence: float
    by: str | SliceSpec | Sequence[str | SliceSpec] | None
    min_groups: int
    order: str
    baseline: str | None
    where: str | pc.Expression | None
    limit: int | None
    memory: str | int | None
    format: str | None
    progress: Callable[[Progress], object] | None

class SparkOptions(TypedDict, total=False):
    group: str | Sequence[str] | None
    cluster: str | Sequence[str] | None
    label: Required[str | Sequence[str]]
    score: Required[str | Sequence[str] | Mapping[str, str]]
    measures: str | Measure | Sequence[str | Measure] | Mapping[str, Any]
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
    confidence: float
    by: str | SliceSpec | Sequence[str | SliceSpec] | None
    min_groups: int
    baseline: str | None
    where: str | pc.Expression | None

class SparkCompareOptions(TypedDict, total=False):
    group: str | Sequence[str] | None
    cluster: str | Sequence[str] | None
    label: Required[str | Sequence[str]]
    score: Required[str | Sequence[str] | Mapping[str, str]]
    measures: str | Measure | Sequence[str | Measure] | Mapping[str, Any]
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
    confidence: float
    by: str | SliceSpec | Sequence[str | SliceSpec] | None
    min_groups: int
    baseline: Required[str]
    where: str | pc.Expression | None
