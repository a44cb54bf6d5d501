"""Encode the slice of each row for every slicing of a run."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval._lib.jit import kernel
from fastrank_eval.io.keys import encode_integers
from fastrank_eval.io.source import Source, refuse_text, require_columns
from fastrank_eval.slicing.bins import (
    ActivityEncoder,
    BinEncoder,
    WidthEncoder,
    check_ordered,
    distributions,
    edges_of,
)
from fastrank_eval.slicing.encode import (
    MAX_SLICES,
    ColumnEncoder,
    DistinctEncoder,
    PeriodEncoder,
)
from fastrank_eval.slicing.spec import (
    Edges,
    Quantile,
    SliceColumn,
    SliceSpec,
    Width,
    requested_slicing,
)


@dataclass(frozen=True)
class Slices:
    """Slices of one slicing, in display order.

    Parameters
    ----------
    labels : tuple of str, shape (slices,)
        Unique labels, such as ``"slot=1,country=de"``. A slice has the same label in every run.
    codes : ndarray of int64, shape (slices,)
        Code of each slice. It depends on the order of threads and differs between runs.
    values : dict of str to pyarrow.Array, shape (slices,)
        By name of the slice column: its value, or a struct of the low and the high end of its bin.
    """

    labels: tuple[str, ...]
    codes: np.ndarray
    values: dict[str, pa.Array]


class SliceEncoder:
    """Encoder of the slices of one slicing; threads may share it.

    Codes number the combinations of column codes in order of first appearance.

    Parameters
    ----------
    spec : SliceSpec
    encoders : sequence of ColumnEncoder or ActivityEncoder
        The encoder of each slice column.
    """

    def __init__(
        self, spec: SliceSpec, encoders: Sequence[ColumnEncoder | ActivityEncoder]
    ) -> None:
        self.spec, self.encoders = spec, tuple(encoders)
        self._lock = threading.Lock()
        self._codes: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        """Return the number of codes so far; codes count from 0."""
        return len(self.encoders[0]) if len(self.encoders) == 1 else len(self._codes)

    def codes(self, column_codes: Sequence[np.ndarray]) -> np.ndarray:
        """Encode the slice of each row or group.

        Parameters
        ----------
        column_codes : sequence of ndarray of int32, shape (rows,)
            The codes of each slice column.

        Returns
        -------
        ndarray of int32, shape (rows,), read-only
            From 0; the codes of the column itself where there is only one.

        Raises
        ------
        ColumnError
            There are more combinations than `MAX_SLICES`.
        """
        if len(column_codes) == 1:
            return column_codes[0]
        combination = column_codes[0].astype(np.int64)
        for codes in column_codes[1:]:
            width = int(codes.max(initial=0)) + 1
            combination, firsts = encode_integers(combination * width + codes)
        keys = zip(*(column[firsts].tolist() for column in column_codes), strict=True)
        with self._lock:
            code_of = self._codes
            numbers = [code_of.setdefault(key, len(code_of)) for key in keys]
            if len(code_of) > MAX_SLICES:
                raise ColumnError(
                    f"by '{self.spec}' makes more than {MAX_SLICES:,} slices. Cross columns "
                    "of fewer values, or bin them."
                )
        return frozen(np.array(numbers, np.int32)[combination])

    def slices(self) -> Slices:
        """List the slices so far, in order.

        They are sorted by the first column, then by the next; nulls come last.

        A slicing by one column lists its empty bins and buckets too.
        """
        categories = [encoder.categories() for encoder in self.encoders]
        if len(self.encoders) == 1:
            keys = np.arange(len(categories[0].texts))[:, None]
        else:
            with self._lock:
                keys = np.array(list(self._codes), np.int64).reshape(-1, len(categories))
        ranks = [each.ranks[keys[:, i]] for i, each in enumerate(categories)]
        order = np.lexsort(ranks[::-1])
        keys = keys[order]
        texts = [
            [encoder.slice_column.name + each.texts[code] for code in keys[:, i].tolist()]
            for i, (encoder, each) in enumerate(zip(self.encoders, categories, strict=True))
        ]
        values = {
            encoder.slice_column.name: each.values.take(row_column(keys[:, i]))
            for i, (encoder, each) in enumerate(zip(self.encoders, categories, strict=True))
        }
        return Slices(tuple(map(",".join, zip(*texts, strict=True))), order, values)


@dataclass(frozen=True)
class Slicings:
    """All slicings of a run.

    A column that several slicings name is encoded once.

    Parameters
    ----------
    encoders : tuple of SliceEncoder
        One for each requested slicing.
    columns : tuple of ColumnEncoder
        Distinct slice columns of the input; each batch of rows carries their codes.
    activities : tuple of ActivityEncoder
        Distinct counts of groups.
    """

    encoders: tuple[SliceEncoder, ...]
    columns: tuple[ColumnEncoder, ...]
    activities: tuple[ActivityEncoder, ...]

    def select(self, specs: Sequence[SliceSpec]) -> Slicings:
        """Make encoders of some slicings, which share the columns."""
        columns = {encoder.slice_column: encoder for encoder in self.columns}
        return _slicings_of(specs, columns)

    def codes(
        self, column_codes: Sequence[np.ndarray], rows: np.ndarray, positives: np.ndarray
    ) -> list[np.ndarray]:
        """Encode the slices of a chunk, for each slicing.

        Parameters
        ----------
        column_codes : sequence of ndarray of int32, shape (rows of the chunk,)
            The codes of each of `columns`, in that order.
        rows, positives : ndarray of int64, shape (groups,)
            Number of rows, and of rows of grade 1 or more, of each group.

        Returns
        -------
        list of ndarray of int32, shape (groups,) or (rows of the chunk,)
            The slice of each group, or of each row if a group has rows of several slices.
        """
        starts = frozen(np.append(0, np.cumsum(rows)))
        # Codes of groups, and of rows where a column divides a group.
        codes_of: dict[SliceColumn, tuple[np.ndarray, np.ndarray | None]] = {}
        for column, codes in zip(self.columns, column_codes, strict=True):
            of_groups = np.zeros(len(rows), np.int32)
            is_whole = _find_slices(codes, starts, of_groups)
            codes_of[column.slice_column] = frozen(of_groups), None if is_whole else codes
        for activity in self.activities:
            counts = rows if activity.name == "rows" else positives
            codes_of[activity.slice_column] = activity.bucket_codes(counts), None
        slices = []
        for encoder in self.encoders:
            parts = [codes_of[column] for column in encoder.spec.columns]
            if any(of_rows is not None for _, of_rows in parts):
                columns = [np.repeat(each, rows) if of is None else of for each, of in parts]
            else:
                columns = [of_groups for of_groups, _ in parts]
            slices.append(encoder.codes(columns))
        return slices


@kernel
def _find_slices(codes, starts, out):  # type: ignore[no-untyped-def]
    """Find the code of each group; return whether no group has two."""
    changes = np.int64(0)
    for lo in range(1, codes.shape[0], 1 << 14):
        values = codes[lo : lo + (1 << 14)]
        previous = codes[lo - 1 : lo - 1 + values.shape[0]]
        # 32 bits, as the codes: twice as many at a time.
        count = np.uint32(0)
        for i in range(values.shape[0]):
            count = np.uint32(count + np.uint32(values[i] != previous[i]))
        changes += np.int64(count)
    for g in range(out.shape[0]):
        lo = starts[g]
        out[g] = codes[lo]
        changes -= lo > 0 and codes[lo] != codes[lo - 1]
    return changes == 0


def open_slicings(
    by: str | SliceSpec | Sequence[str | SliceSpec],
    source: Source,
    limit: int | None = None,
) -> Slicings:
    """Make the encoders of all requested slicings.

    Parameters
    ----------
    by : str, SliceSpec or sequence of them
    source : Source
        Opened with the filter of the run. Its rows are read only for quantiles whose edges the
        source does not know.
    limit : int, optional
        Number of rows after which the run stops.

    Returns
    -------
    Slicings

    Raises
    ------
    ArgumentError
        A text cannot be parsed, a type does not support the requested bins, or quantiles need a
        second pass over a source that can be read only once.
    ColumnError
        There is no such column.

    Examples
    --------
    >>> from fastrank_eval.io.reader import open_source
    >>> source = open_source({"age": [17, 20, 40], "slot": [1, 1, 2]})
    >>> slicings = open_slicings(["age:18,35,slot", "slot"], source)
    >>> batch = next(source.batches(["age", "slot"]))
    >>> column_codes = [encoder.codes(batch.column(encoder.name)) for encoder in slicings.columns]
    >>> rows, positives = np.array([2, 1]), np.array([1, 0])
    >>> [codes.tolist() for codes in slicings.codes(column_codes, rows, positives)]
    [[0, 1, 2], [0, 1]]
    >>> slicings.encoders[0].slices().labels
    ('age<18,slot=1', 'age=[18,35),slot=1', 'age>=35,slot=2')
    """
    specs = requested_slicing(by)
    requested = list(dict.fromkeys(column for spec in specs for column in spec.columns))
    columns = [column for column in requested if not column.activity]
    names = [column.column for column in columns]
    require_columns(source.schema, names, role="by", source=source.name)
    return _slicings_of(specs, _column_encoders(columns, source, limit))


def _slicings_of(
    specs: Sequence[SliceSpec], columns: Mapping[SliceColumn, ColumnEncoder]
) -> Slicings:
    requested = list(dict.fromkeys(column for spec in specs for column in spec.columns))
    encoders = {column: columns[column] for column in requested if not column.activity}
    activities = {column: ActivityEncoder(column) for column in requested if column.activity}
    encoder_of: dict[SliceColumn, ColumnEncoder | ActivityEncoder] = {**encoders, **activities}
    slices = tuple(
        SliceEncoder(spec, [encoder_of[column] for column in spec.columns]) for spec in specs
    )
    return Slicings(slices, tuple(encoders.values()), tuple(activities.values()))


def sliced_columns(by: str | SliceSpec | Sequence[str | SliceSpec], *, binned: bool) -> set[str]:
    """List the columns that are put in bins, or whose values are slices."""
    columns = (column for spec in requested_slicing(by) for column in spec.columns)
    return {c.column for c in columns if not c.activity and (c.binning is not None) is binned}


def _column_encoders(
    columns: Sequence[SliceColumn], source: Source, limit: int | None
) -> Mapping[SliceColumn, ColumnEncoder]:
    """Make the encoder of each column.

    All columns are checked before any row is read.
    """
    for column in columns:
        if column.binning is not None:
            refuse_text(source, column.column, f"by '{column}'")
    encoders: dict[SliceColumn, ColumnEncoder] = {}
    quantiles: dict[SliceColumn, int] = {}
    for column in columns:
        kind, binning = source.schema.field(column.column).type, column.binning
        if isinstance(binning, Edges | Quantile):
            check_ordered(column, kind)
        if binning is None:
            encoders[column] = DistinctEncoder(column, kind)
        elif isinstance(binning, Edges):
            encoders[column] = BinEncoder(column, edges_of(column, kind))
        elif isinstance(binning, Width):
            encoders[column] = WidthEncoder(column, kind)
        elif isinstance(binning, Quantile):
            quantiles[column] = binning.bins
        else:
            encoders[column] = PeriodEncoder(column, kind)
    edges = source.edges
    if quantiles and edges is None:
        counts = distributions(source, [column.column for column in quantiles], limit)
        edges = {str(column): counts[column.column].edges(n) for column, n in quantiles.items()}
    encoders |= {column: BinEncoder(column, (edges or {})[str(column)]) for column in quantiles}
    return {column: encoders[column] for column in columns}
