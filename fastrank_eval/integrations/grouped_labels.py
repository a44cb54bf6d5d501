"""Group rows once and evaluate them for many scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, as_array, decode_array
from fastrank_eval._lib.errors import ArgumentError, near
from fastrank_eval.io import open_source
from fastrank_eval.measures import Measure, measure
from fastrank_eval.results.evaluate import evaluate

__all__ = ["GroupedMeasure", "Grouping", "by_data_set", "groupings"]

#: Options that a caller may pass; the others do not apply to arrays.
_OPTIONS = (
    "profile",
    "ties",
    "undefined",
    "groups",
    "weight_rows",
    "score_type",
    "threads",
)


class Grouping:
    """The groups of rows; rows of scattered groups are sorted once.

    Parameters
    ----------
    number : ndarray of int64, shape (rows,)
        Group index of each row.
    """

    def __init__(self, number: np.ndarray) -> None:
        self.rows = len(number)
        runs = int(np.count_nonzero(number[1:] != number[:-1])) + (self.rows > 0)
        self._order = None
        if runs != len(np.unique(number)):
            # Stable, because ties="input" means the order of the rows.
            self._order = np.argsort(number, kind="stable")
            number = number[self._order]
        self.number = arrow_column(np.ascontiguousarray(number))

    @classmethod
    def of_ids(cls, group: object) -> Grouping:
        """Group rows by an id for each row.

        Raises
        ------
        ArgumentError
            If the ids are not an array, not of a type of ids, or null.
        """
        batches = list(open_source({"group": group}).batches(["group"]))
        columns = [decode_array(batch.column("group")) for batch in batches]
        ids = pa.chunked_array(columns) if columns else pa.nulls(0, pa.int64())
        if pa.types.is_floating(ids.type) or pa.types.is_nested(ids.type):
            raise ArgumentError(
                f"group is {ids.type}, which is no id: pass integers, text, dates or bools."
            )
        if ids.null_count:
            raise ArgumentError(
                f"group is null for {ids.null_count:,} of {len(ids):,} rows: every row needs one."
            )
        codes = ids.dictionary_encode()
        if isinstance(codes, pa.ChunkedArray):
            codes = codes.unify_dictionaries().combine_chunks()
        return cls(as_array(codes.indices).astype(np.int64))

    @classmethod
    def of_sizes(cls, sizes: object) -> Grouping:
        """Group contiguous rows by the sizes of groups.

        Raises
        ------
        ArgumentError
            If a size is not a whole number of at least 0.
        """
        counts = np.asarray(sizes)
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
            raise ArgumentError(
                f"group sizes are {sizes!r}: pass one whole number a group, of at least 0."
            )
        return cls(np.repeat(np.arange(len(counts)), counts))

    def sort(self, values: np.ndarray) -> np.ndarray:
        """Sort values of rows by group."""
        return values if self._order is None else values[self._order]


class GroupedMeasure:
    """A measure with options, for rows with known groups.

    Parameters
    ----------
    measure_or_text : str or Measure
    options : mapping
        Arguments of `evaluate`.

    Raises
    ------
    ArgumentError
        If an option does not apply to arrays.
    MeasureError
        If there is no such measure.
    """

    def __init__(self, measure_or_text: str | Measure, options: Mapping[str, Any]) -> None:
        self.measure = measure(measure_or_text)
        for name in options:
            if name not in _OPTIONS:
                raise ArgumentError(
                    f"option {name!r} is not one of {', '.join(_OPTIONS)}.{near(name, _OPTIONS)}"
                )
        self.options = dict(options)

    def value(
        self, grouping: Grouping, label: object, score: object, weight: object = None
    ) -> float:
        """Compute the measure over all groups, NaN where undefined.

        Raises
        ------
        ArgumentError
            If there is not one label, score and weight for each row.
        FastRankEvalError
            As `evaluate` does.
        """
        columns = {"label": label, "score": score}
        if weight is not None:
            columns["weight"] = weight
        source: dict[str, object] = {"group": grouping.number}
        for name, values in columns.items():
            array = np.asarray(values)
            if array.shape != (grouping.rows,):
                raise ArgumentError(
                    f"{name} has shape {array.shape}, but the groups are those of "
                    f"{grouping.rows:,} rows: pass one {name} a row."
                )
            source[name] = grouping.sort(array)
        result = evaluate(
            source,
            group="group",
            label="label",
            score="score",
            weight=None if weight is None else "weight",
            measures=self.measure,
            order="grouped",
            per_group=False,
            **self.options,
        )
        return result.value(self.measure)


def groupings(group: object, sizes: object) -> dict[int, Grouping]:
    """Build the groups of each data set, by its number of rows.

    Parameters
    ----------
    group : array, or list or tuple of arrays, or None
        An id for each row, of one data set or of several.
    sizes : sequence of int, or list or tuple of such, or None
        Instead of ids: the number of rows of each group.

    Raises
    ------
    ArgumentError
        If both are given, or two data sets have the same number of rows.
    """
    if group is not None and sizes is not None:
        raise ArgumentError("group and sizes say the same thing twice; give one of them.")
    if group is None and sizes is None:
        return {}
    if sizes is None:
        each = [Grouping.of_ids(item) for item in by_data_set(group)]
    else:
        each = [Grouping.of_sizes(item) for item in by_data_set(sizes)]
    groupings_by_rows: dict[int, Grouping] = {}
    for grouping in each:
        if grouping.rows in groupings_by_rows:
            raise ArgumentError(
                f"two data sets have {grouping.rows:,} rows, and only their length tells them "
                "apart: make a metric for each and train with one of them."
            )
        groupings_by_rows[grouping.rows] = grouping
    return groupings_by_rows


def by_data_set(argument: Any) -> list[Any]:
    """Split an argument by data set: a list of items with a length is several."""
    if (
        isinstance(argument, list | tuple)
        and len(argument) > 0
        and all(hasattr(item, "__len__") and not isinstance(item, str | bytes) for item in argument)
    ):
        return list(argument)
    return [argument]
