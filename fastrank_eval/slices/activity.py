"""Groups by how active they are: ``@rows``, their rows, and ``@positives``, those of grade 1."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa

from fastrank_eval.arrow_values import arrow_column
from fastrank_eval.columns import frozen
from fastrank_eval.errors import ColumnError
from fastrank_eval.slices.bin_codes import bins
from fastrank_eval.slices.labels import count_texts
from fastrank_eval.slices.part_codes import MOST_SLICES, Found
from fastrank_eval.slices.spec import Edges, Part, Width

__all__ = ["ActivityCodes"]


class ActivityCodes:
    """Buckets of counts of groups; threads may share it.

    With edges code i is the bucket above i edges, and the first is that below all of them. With a
    width, or alone, counts are numbered as they come.

    Parameters
    ----------
    part : Part
        An activity.
    most : int
        Buckets that may be told apart.
    """

    def __init__(self, part: Part, most: int = MOST_SLICES) -> None:
        self.part, self.name, self.most = part, part.column, most
        self._lock = threading.Lock()
        self._met: dict[int, int] = {}
        self._edges: np.ndarray | None = None
        self._width = 1
        if isinstance(part.binning, Edges):
            most_edge = np.iinfo(np.int64).max
            counts = [int(edge) for edge in part.binning.edges]
            self._edges = np.array([min(count, most_edge) for count in counts], np.int64)
            self._texts = count_texts(counts)
        elif isinstance(part.binning, Width):
            self._width = min(int(part.binning.width), 1 << 62)

    def __len__(self) -> int:
        return len(self._met) if self._edges is None else len(self._edges) + 1

    def codes(self, counts: np.ndarray) -> np.ndarray:
        """The bucket of each group.

        Parameters
        ----------
        counts : ndarray of int64, shape (groups,)
            Rows, or rows of grade 1 or more, of each group as a whole.

        Returns
        -------
        ndarray of int32, shape (groups,), read-only

        Raises
        ------
        ColumnError
            There are more buckets than slices may be.
        """
        if self._edges is not None:
            return frozen(np.searchsorted(self._edges, counts, side="right").astype(np.int32))
        numbers, places = np.unique(counts // self._width, return_inverse=True)
        with self._lock:
            met = [self._met.setdefault(number, len(self._met)) for number in numbers.tolist()]
            if len(self._met) > self.most:
                raise ColumnError(
                    f"by '{self.part}': groups make more than {self.most:,} slices. Give edges, "
                    f"by='@{self.name}:1,5,20,100'."
                )
        return frozen(np.array(met, np.int32)[places])

    def found(self) -> Found:
        """What the codes given so far stand for; with edges, buckets without a group too."""
        if self._edges is not None:
            edges = arrow_column(self._edges)
            return Found(tuple(self._texts), bins(edges, null=False), np.arange(len(self)))
        numbers = np.array(list(self._met), np.int64)
        ranks = np.empty(len(numbers), np.int64)
        ranks[np.argsort(numbers)] = np.arange(len(numbers))
        low = numbers * self._width
        if self.part.binning is None:
            return Found(tuple(f"={count}" for count in low.tolist()), arrow_column(low), ranks)
        high = low + self._width
        texts = [
            f"={a}" if b == a + 1 else f"={a}-{b - 1}"
            for a, b in zip(low.tolist(), high.tolist(), strict=True)
        ]
        ends = [arrow_column(low), arrow_column(high)]
        return Found(tuple(texts), pa.StructArray.from_arrays(ends, ["low", "high"]), ranks)
