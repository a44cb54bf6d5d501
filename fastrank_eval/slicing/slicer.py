"""Every slicing of a run: what it reads, the slice of each row, the slices in their order."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import frozen, row_column
from fastrank_eval._lib.errors import ColumnError
from fastrank_eval.io import Source, refuse_text, require_columns
from fastrank_eval.slicing.bins import ActivityCodes, BinCodes, check_ordered, part_codes
from fastrank_eval.slicing.encode import MOST_SLICES, PartCodes
from fastrank_eval.slicing.parser import requested_slicing
from fastrank_eval.slicing.quantiles import distributions
from fastrank_eval.slicing.spec import Part, Quantile, SliceSpec

__all__ = ["SliceCodes", "Slices", "Slicing", "open_slicing", "valued_columns"]


@dataclass(frozen=True)
class Slices:
    """The slices of one slicing in the order they are shown.

    Parameters
    ----------
    labels : tuple of str, shape (slices,)
        ``"slot=1,country=de"``; no two alike. The same slice has the same label in every run.
    codes : ndarray of int64, shape (slices,)
        The code of each, which depends on how threads took turns and is no identity.
    values : dict of str to pyarrow.Array, shape (slices,)
        By the name of each part: its value, or a struct of the low and the high end of its bin.
    """

    labels: tuple[str, ...]
    codes: np.ndarray
    values: dict[str, pa.Array]


class SliceCodes:
    """Numbers the combinations of codes of several parts, as they come; threads may share it.

    Parameters
    ----------
    spec : SliceSpec
    parts : sequence of PartCodes or ActivityCodes
        The coder of each part.
    most : int
        Slices that may be told apart.
    """

    def __init__(
        self,
        spec: SliceSpec,
        parts: Sequence[PartCodes | ActivityCodes],
        most: int = MOST_SLICES,
    ) -> None:
        self.spec, self.parts, self.most = spec, tuple(parts), most
        self._lock = threading.Lock()
        self._codes: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        """How many codes there are so far: they are 0 to one less."""
        return len(self.parts[0]) if len(self.parts) == 1 else len(self._codes)

    def codes(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """The slice of each row.

        Parameters
        ----------
        parts : sequence of ndarray of int32, shape (rows,)
            The codes of each part.

        Returns
        -------
        ndarray of int32, shape (rows,), read-only
            From 0; those of the part itself where there is only one.

        Raises
        ------
        ColumnError
            There are more combinations than slices may be.
        """
        if len(parts) == 1:
            return parts[0]
        places, met = _combinations(parts)
        with self._lock:
            known = self._codes
            codes = [
                known.setdefault(key, len(known))
                for key in zip(*(column.tolist() for column in met), strict=True)
            ]
            if len(known) > self.most:
                raise ColumnError(
                    f"by '{self.spec}' makes more than {self.most:,} slices. Cross columns of "
                    "fewer values, or bin them."
                )
        return frozen(np.array(codes, np.int32)[places])

    def slices(self) -> Slices:
        """The slices met so far in their order: by the first part, then by the next; nulls last.

        Bins and buckets of a slicing by one part are there even where no row fell into them.
        """
        found = [part.found() for part in self.parts]
        if len(self.parts) == 1:
            keys = np.arange(len(found[0].texts))[:, None]
        else:
            with self._lock:
                keys = np.array(list(self._codes), np.int64).reshape(-1, len(found))
        ranks = [each.ranks[keys[:, i]] for i, each in enumerate(found)]
        order = np.lexsort(ranks[::-1])
        keys = keys[order]
        texts = [
            [part.part.name + each.texts[code] for code in keys[:, i].tolist()]
            for i, (part, each) in enumerate(zip(self.parts, found, strict=True))
        ]
        values = {
            part.part.name: each.values.take(row_column(keys[:, i]))
            for i, (part, each) in enumerate(zip(self.parts, found, strict=True))
        }
        return Slices(tuple(map(",".join, zip(*texts, strict=True))), order, values)


@dataclass(frozen=True)
class Slicing:
    """All slicings of a run; a part that several of them name is coded once.

    Parameters
    ----------
    slices : tuple of SliceCodes
        One for each slicing asked for.
    columns : tuple of PartCodes
        Distinct parts of columns: their codes travel with the rows.
    activities : tuple of ActivityCodes
        Distinct counts of groups.
    """

    slices: tuple[SliceCodes, ...]
    columns: tuple[PartCodes, ...]
    activities: tuple[ActivityCodes, ...]

    def codes(
        self, coded: Sequence[np.ndarray], rows: np.ndarray, positives: np.ndarray
    ) -> list[np.ndarray]:
        """The slice of each row of a chunk of whole groups, for each slicing.

        Parameters
        ----------
        coded : sequence of ndarray of int32, shape (rows of the chunk,)
            The codes of each of `columns`, in that order.
        rows, positives : ndarray of int64, shape (groups,)
            How many rows, and rows of grade 1 or more, each group has.

        Returns
        -------
        list of ndarray of int32, shape (rows of the chunk,)
        """
        of_part: dict[Part, np.ndarray] = {}
        for column, codes in zip(self.columns, coded, strict=True):
            of_part[column.part] = codes
        for activity in self.activities:
            counts = rows if activity.name == "rows" else positives
            of_part[activity.part] = frozen(np.repeat(activity.codes(counts), rows))
        return [
            slicing.codes([of_part[part] for part in slicing.spec.parts]) for slicing in self.slices
        ]


def open_slicing(
    by: str | SliceSpec | Sequence[str | SliceSpec],
    source: Source,
    limit: int | None = None,
    most: int = MOST_SLICES,
) -> Slicing:
    """Make the coders of everything that is asked for.

    Parameters
    ----------
    by : str, SliceSpec or sequence of them
    source : Source
        Opened with the condition of the run. Its rows are read only where quantiles ask for it
        whose edges it does not know.
    limit : int, optional
        Rows that the run stops after.
    most : int, default MOST_SLICES
        Slices that each slicing may have.

    Returns
    -------
    Slicing

    Raises
    ------
    ArgumentError
        A text cannot be read, a type does not fit the bins asked of it, or quantiles are asked of
        a source that can be read only once.
    ColumnError
        There is no such column.

    Examples
    --------
    >>> from fastrank_eval.io import open_source
    >>> source = open_source({"age": [17, 20, 40], "slot": [1, 1, 2]})
    >>> slicing = open_slicing(["age:18,35,slot", "slot"], source)
    >>> batch = next(source.batches(["age", "slot"]))
    >>> coded = [part.codes(batch.column(part.name)) for part in slicing.columns]
    >>> [codes.tolist() for codes in slicing.codes(coded, np.array([3]), np.array([1]))]
    [[0, 1, 2], [0, 0, 1]]
    >>> slicing.slices[0].slices().labels
    ('age<18,slot=1', 'age=[18,35),slot=1', 'age>=35,slot=2')
    """
    specs = requested_slicing(by)
    parts = list(dict.fromkeys(part for spec in specs for part in spec.parts))
    columns = [part for part in parts if not part.activity]
    require_columns(source.schema, [part.column for part in columns], role="by", source=source.name)
    coders = _column_coders(columns, source, limit, most)
    activities = {part: ActivityCodes(part, most) for part in parts if part.activity}
    of_part: dict[Part, PartCodes | ActivityCodes] = {**coders, **activities}
    slices = tuple(SliceCodes(spec, [of_part[p] for p in spec.parts], most) for spec in specs)
    return Slicing(slices, tuple(coders.values()), tuple(activities.values()))


def valued_columns(by: str | SliceSpec | Sequence[str | SliceSpec]) -> tuple[str, ...]:
    """List the columns whose values are slices."""
    parts = (part for spec in requested_slicing(by) for part in spec.parts)
    valued = (part.column for part in parts if part.binning is None and not part.activity)
    return tuple(dict.fromkeys(valued))


def _column_coders(
    parts: Sequence[Part], source: Source, limit: int | None, most: int
) -> Mapping[Part, PartCodes]:
    """The coder of each part; all that may be refused is refused before rows are read."""
    for part in parts:
        if part.binning is not None:
            refuse_text(source, part.column, f"by '{part}'")
    kinds = {part: source.schema.field(part.column).type for part in parts}
    coders: dict[Part, PartCodes] = {}
    wanted = []
    for part in parts:
        if isinstance(part.binning, Quantile):
            check_ordered(part, kinds[part])
            wanted.append(part.column)
        else:
            coders[part] = part_codes(part, kinds[part], most)
    known = source.edges
    seen = distributions(source, wanted, limit) if wanted and known is None else {}
    for part in parts:
        if isinstance(part.binning, Quantile):
            bins = part.binning.bins
            edges = seen[part.column].edges(bins) if known is None else known[str(part)]
            coders[part] = BinCodes(part, edges)
    return {part: coders[part] for part in parts}


def _combinations(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """The place of each row's combination among those that occur, and the codes of these."""
    rows = len(parts[0])
    if not rows:
        return np.empty(0, np.int64), [np.empty(0, np.int64) for _ in parts]
    places: np.ndarray = parts[0]
    met = [np.arange(int(places.max()) + 1)]
    for part in parts[1:]:
        width = int(part.max()) + 1
        mixed = places.astype(np.int64) * width + part
        size = (int(places.max()) + 1) * width
        # Few rows of many possible combinations are sorted, many of few looked up.
        if size <= 4 * rows:
            occurs = np.zeros(size, np.bool_)
            occurs[mixed] = True
            distinct = np.flatnonzero(occurs)
            at = np.empty(size, np.int64)
            at[distinct] = np.arange(len(distinct))
            places = at[mixed]
        else:
            distinct, places = np.unique(mixed, return_inverse=True)
        met = [codes[distinct // width] for codes in met] + [distinct % width]
    return places, met
