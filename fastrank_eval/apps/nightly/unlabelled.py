"""Read columns of features, and nights whose labels come later."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval._lib.errors import ColumnError, FastRankEvalError
from fastrank_eval._lib.threads import Progress
from fastrank_eval.apps.nightly.config import NightlyConfig
from fastrank_eval.apps.nightly.drift import DISTRIBUTION, Distributions, distributions_of
from fastrank_eval.engine.run import Evaluation, run
from fastrank_eval.io.reader import open_source
from fastrank_eval.io.source import Source, require_columns
from fastrank_eval.measures.base import Measure
from fastrank_eval.slicing.spec import SliceSpec, requested_slicing

_Result = TypeVar("_Result")
_Progress: TypeAlias = Callable[[Progress], object] | None
#: Options of a configuration that mean something without labels and measures.
_OPTIONS = (
    *("group", "null_groups", "by", "min_groups", "order"),
    *("threads", "memory", "spill_dir", "confidence"),
)


def evaluate_columns(configs: Sequence[NightlyConfig], date: dt.date) -> list[Distributions]:
    """Return the distributions of the columns of ``[drift]`` for each label.

    They are those of all rows and of each slice. Null and NaN are no numbers. This is a pass of its
    own, over these columns alone. Labels with the same slices share it.

    Parameters
    ----------
    configs : sequence of NightlyConfig
        One for each label.
    date : datetime.date

    Raises
    ------
    ColumnError
        A column is missing, or is no column of numbers.
    """
    columns = configs[0].drift.columns
    if not columns:
        return [{} for _ in configs]
    result: list[Distributions] = []
    passes: list[tuple[object, Distributions]] = []
    for config in configs:
        options = _options(config)
        if options.get("order") == "sorted":
            options["order"] = "grouped"  # sorted by the scores of models
        key = {**options, "label": None}
        shared = [distributions for other, distributions in passes if other == key]
        if not shared:
            source = _without_labels(config, date, columns)
            evaluation = run(source, score=columns, measures=[DISTRIBUTION], **options)
            shared = [distributions_of(evaluation, config.drift.min_rows)]
            passes.append((key, shared[0]))
        result.append(shared[0])
    return result


def evaluate_unlabelled(
    configs: Sequence[NightlyConfig],
    date: dt.date,
    measures: Sequence[Sequence[Measure]],
    progress: Callable[[Progress], object] | None,
) -> list[Evaluation]:
    """Evaluate a night as if every label were 0.

    Parameters
    ----------
    configs : sequence of NightlyConfig
        One for each label. Labels with the same models, slices and measures share a pass.
    date : datetime.date
    measures : sequence of sequence of Measure
        For each label, measures that need no label, such as counts of rows.
    progress : callable, optional
        As in `evaluate`.
    """
    result: list[Evaluation] = []
    passes: list[tuple[object, Evaluation]] = []
    for config, counts in zip(configs, measures, strict=True):
        options = _options(config)
        if "score_type" in config.options:
            options["score_type"] = config.options["score_type"]
        options |= {"score": config.scores, "baseline": config.baseline, "measures": counts}
        key = {**options, "label": None}
        shared = [evaluation for other, evaluation in passes if other == key]
        if not shared:
            source = _without_labels(config, date)
            shared = [run(source, per_group=False, progress=progress, **options)]
            passes.append((key, shared[0]))
        result.append(shared[0])
    return result


def naming_no_labels(
    evaluate: Callable[[Sequence[NightlyConfig], dt.date, _Progress], _Result],
) -> Callable[[Sequence[NightlyConfig], dt.date, _Progress], _Result]:
    """Name the remedy in errors of a missing column of labels."""

    @wraps(evaluate)
    def evaluate_or_explain(
        configs: Sequence[NightlyConfig], date: dt.date, progress: _Progress
    ) -> _Result:
        try:
            return evaluate(configs, date, progress)
        except ColumnError as error:
            labels, names = [config.options["label"] for config in configs], None
            with suppress(FastRankEvalError):
                file_format = configs[0].options.get("format")
                names = open_source(configs[0].sources(date), format=file_format).schema.names
            if names is None or not any(
                label not in names and repr(label) in str(error) for label in labels
            ):
                raise
            raise ColumnError(
                f"{error} If labels come later, judge the rest of the night with --no-labels."
            ) from None

    return evaluate_or_explain


def _options(config: NightlyConfig) -> dict[str, Any]:
    options = {name: config.options[name] for name in _OPTIONS if name in config.options}
    label = config.options["label"]
    if "by" in options:
        options["by"] = [
            spec for spec in requested_slicing(options["by"]) if not _is_of_labels(spec, label)
        ]
        if not options["by"]:
            del options["by"], options["min_groups"]
    # A null is a fact to report here, not an error.
    return {**options, "label": label, "unretrieved": "allow"}


def without_label_slices(distributions: Distributions, label: str) -> Distributions:
    """Return distributions without slices by labels, such as ``@positives``."""
    return {
        key: each
        for key, each in distributions.items()
        if not key.by or not any(_is_of_labels(one, label) for one in requested_slicing(key.by))
    }


def _is_of_labels(spec: SliceSpec, label: str) -> bool:
    return any(
        column.column == ("positives" if column.activity else label) for column in spec.columns
    )


def _without_labels(config: NightlyConfig, date: dt.date, columns: Sequence[str] = ()) -> Source:
    source = open_source(
        config.sources(date),
        format=config.options.get("format"),
        where=config.condition(date),
    )
    return replace_columns(source, config.options["label"], columns)


def replace_columns(source: Source, label: str, columns: Collection[str]) -> Source:
    """Return a source with labels of 0, and with columns as numbers.

    Parameters
    ----------
    source : Source
    label : str
        The name of the labels; a column of this name is not read.
    columns : collection of str
        Columns of numbers or booleans, whose NaN become null.

    Raises
    ------
    ColumnError
        One of `columns` is missing, or is no column of numbers.
    """
    require_columns(source.schema, columns, role="[drift] columns")
    schema = source.schema
    for name in columns:
        kind = schema.field(name).type
        if not (_is_number(kind) or pa.types.is_boolean(kind)):
            raise ColumnError(
                f"[drift] columns: must be columns of numbers, got {name!r} of type {kind}; leave "
                "it out, or write it as a number."
            )
        schema = schema.set(schema.get_field_index(name), pa.field(name, _plain(kind)))
    if label in schema.names:
        schema = schema.remove(schema.get_field_index(label))
    schema = schema.append(pa.field(label, pa.int8()))

    def read(wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in source.batches([name for name in wanted if name != label]):
            arrays = {name: batch.column(name) for name in batch.schema.names}
            for name in columns & arrays.keys():
                arrays[name] = _numbers(arrays[name])
            arrays[label] = pa.array(np.zeros(batch.num_rows, np.int8))
            yield pa.RecordBatch.from_pydict({name: arrays[name] for name in wanted})

    columns, reopen = frozenset(columns), source.as_text
    return Source(
        source.name,
        schema,
        read,
        rows=source.rows,
        rereadable=source.rereadable,
        locate=source.locate,
        edges=source.edges,
        as_text=(
            None
            if reopen is None
            else lambda *names: replace_columns(reopen(*names), label, columns)
        ),
        spellings=source.spellings,
    )


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type by which a column of numbers is read."""
    return kind if pa.types.is_floating(kind) else pa.float64()


def _numbers(column: pa.Array) -> pa.Array:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    # Nearest doubles, also of integers beyond 2^53.
    column = column.cast(_plain(column.type), safe=False)
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
