"""Open the rows of a night, and request what needs no label of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval.apps.nightly.config import NightlyConfig
from fastrank_eval.apps.nightly.drift import DISTRIBUTION, Distributions, distributions_of
from fastrank_eval.engine.options import Options
from fastrank_eval.engine.records import refuse_if_none_left
from fastrank_eval.engine.run import Evaluation, run_together
from fastrank_eval.io.computed import ComputedColumn, with_columns
from fastrank_eval.io.reader import open_source
from fastrank_eval.io.source import Source, require_columns
from fastrank_eval.slicing.spec import SliceSpec, requested_slicing

#: Arguments that read labels, or that mean nothing without measures.
_FOR_LABELS = (
    *("weight", "subtopics", "profile", "ties", "undefined", "groups"),
    *("unjudged", "weight_rows", "sampling_rate", "baseline"),
)


@dataclass(frozen=True)
class NightSource:
    """The rows of a night.

    Parameters
    ----------
    source : Source
    columns : dict of str to str
        Columns of ``[drift]`` by the names of their numbers, which the source has too.
    zeros : str
        The name of a column of zeros, for runs that read no label.
    notes : tuple of str
        Columns of ``[drift]`` that are gone.
    """

    source: Source
    columns: dict[str, str]
    zeros: str
    notes: tuple[str, ...]

    def without_labels(self, request: Options, label: str, **changes: Any) -> Options:
        """Change a request so that it reads no label.

        Parameters
        ----------
        request : Options
        label : str
            The column of labels; slices by it are left out.
        **changes
            Other arguments of the new request.
        """
        by = [
            spec
            for spec in (requested_slicing(request.by) if request.by else ())
            if not _is_for_labels(spec, label)
        ]
        defaults = dict.fromkeys(_FOR_LABELS)
        # A null is a fact to report here, not an error.
        common = {**defaults, "label": self.zeros, "by": by, "unretrieved": "allow"}
        return request.replace(keep=frozenset(), **{**common, **changes})

    def evaluate(
        self, requests: Sequence[Options], configs: Sequence[NightlyConfig]
    ) -> tuple[list[Evaluation], list[Distributions]]:
        """Evaluate requests and columns of ``[drift]`` in one pass over the rows.

        Parameters
        ----------
        requests : sequence of Options
            One for each label. Equal requests share an evaluation.
        configs : sequence of NightlyConfig

        Returns
        -------
        evaluations : list of Evaluation
        distributions : list of dict
            Of the columns, on all rows and each slice. NaN is null.
        """
        if not self.columns:
            return run_once(requests), [{} for _ in requests]
        of_columns = [
            self.without_labels(
                request,
                config.options["label"],
                score=tuple(self.columns),
                measures=[DISTRIBUTION],
                min_groups=1,
                score_type=None,
            )
            for request, config in zip(requests, configs, strict=True)
        ]
        if requests[0].order == "sorted":  # by the scores of models, not by columns
            of_columns = [request.replace(order="grouped") for request in of_columns]
            results = [*run_once(requests), *run_once(of_columns)]
        else:
            results = run_once([*requests, *of_columns])
        return results[: len(requests)], [
            distributions_of(evaluation, config.drift.min_rows, self.columns)
            for evaluation, config in zip(results[len(requests) :], configs, strict=True)
        ]


def open_night(
    configs: Sequence[NightlyConfig], date: dt.date, known: Collection[str] = ()
) -> NightSource:
    """Open the rows of a night.

    Parameters
    ----------
    configs : sequence of NightlyConfig
        One for each label.
    date : datetime.date
    known : collection of str
        Columns of ``[drift]`` of earlier nights. They may be gone.

    Raises
    ------
    ColumnError
        Another column of ``[drift]`` is missing, or is no column of numbers.
    """
    config = configs[0]
    source = open_source(
        config.sources(date), format=config.options.get("format"), where=config.condition(date)
    )
    taken = {*source.schema.names, *chain.from_iterable(each.scores for each in configs)}
    names = config.drift.columns if config.drift.nights else ()
    columns = {free_name(f"{name} (numbers)", taken): name for name in names}
    zeros = free_name("no labels", taken)
    problems: dict[str, ColumnError] = {}
    for name in names:
        try:
            _check_numbers(source, name)
        except ColumnError as error:
            if name not in known:
                raise
            problems[name] = error

    def make_columns(source: Source) -> dict[str, ComputedColumn]:
        new_columns = {zeros: ComputedColumn(pa.int8(), (), _zeros)}
        for free, name in columns.items():
            new_columns[free] = _NULLS if name in problems else _numbers_of(source, name)
        return new_columns

    notes = tuple(f"drift: {name!r} is gone: {error}" for name, error in problems.items())
    return NightSource(with_columns(source, make_columns), columns, zeros, notes)


def run_once(requests: Sequence[Options]) -> list[Evaluation]:
    """Run requests together; equal ones share an evaluation."""
    distinct: list[Options] = []
    for request in requests:
        if request not in distinct:
            distinct.append(request)
    evaluations = run_together(distinct)
    for evaluation in evaluations:
        refuse_if_none_left(evaluation.meta.conventions, evaluation.meta.rows)
    return [evaluations[distinct.index(request)] for request in requests]


def without_label_slices(distributions: Distributions, label: str) -> Distributions:
    """Return distributions without slices by labels, such as ``@positives``."""
    return {
        key: each
        for key, each in distributions.items()
        if not key.by or not any(_is_for_labels(one, label) for one in requested_slicing(key.by))
    }


def _is_for_labels(spec: SliceSpec, label: str) -> bool:
    return any(
        column.column == ("positives" if column.activity else label) for column in spec.columns
    )


def free_name(name: str, taken: set[str], mark: str = "'") -> str:
    """Return a name that is not taken, and take it; add marks for that."""
    while name in taken:
        name += mark
    taken.add(name)
    return name


def _zeros(batch: pa.RecordBatch) -> pa.Array:
    return pa.array(np.zeros(batch.num_rows, np.int8))


#: A column without numbers.
_NULLS = ComputedColumn(pa.float64(), (), lambda batch: pa.nulls(batch.num_rows, pa.float64()))


def _check_numbers(source: Source, name: str) -> None:
    require_columns(source.schema, [name], role="[drift] columns")
    kind, types = source.schema.field(name).type, pa.types
    if not any(
        is_kind(kind)
        for is_kind in (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
    ):
        raise ColumnError(
            f"[drift] columns: must be columns of numbers, got {name!r} of type {kind}; leave "
            "it out, or write it as a number."
        )


def _numbers_of(source: Source, name: str) -> ComputedColumn:
    """Return the doubles of a column, with null for NaN."""
    _check_numbers(source, name)

    def compute(batch: pa.RecordBatch) -> pa.Array:
        column = batch.column(name)
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        # Nearest doubles, also of integers beyond 2^53.
        column = column.cast(pa.float64(), safe=False)
        return pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)

    return ComputedColumn(pa.float64(), (name,), compute)
