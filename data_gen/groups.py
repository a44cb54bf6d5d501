"""Group sizes with a heavy tail, laid out so that the group of any row is arithmetic.

The sizes of one block of groups are tabulated once and every block repeats the table. With
``block_rows`` rows and ``block_groups`` groups in a block, row r lies in block ``r // block_rows``
and one table look-up finds its group there. Memory is that one table (16 MB at most), for a
thousand rows as for a trillion.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from data_gen.counter import bits

__all__ = ["GroupLayout", "group_sizes"]

_WIDEST = 16
_MOST_ROWS = 1 << 23


def group_sizes(width: int, median: int, largest: int, key: int) -> NDArray[np.int64]:
    """Sizes of 2**width groups: evenly spaced quantiles of a generalised Pareto law.

    ``size(u) = 1 + (median - 1) (x**t - 1) / (x - 1)`` with ``t = -log2(1 - u)``; x is such that
    the top quantile equals `largest`. For median 20 and largest 10**5 the tail is
    ``P(size > s) ~ s**-1.46``. The first 2**j groups hold evenly spaced quantiles for every j, so a
    short log has the same median and a tail in proportion; within that, `key` decides the order.

    Parameters
    ----------
    width : int
        1 to 16.
    median, largest : int
        1 < median < largest, or both equal: then every group has that size.
    key : int
        From `data_gen.counter.stream_key`.

    Returns
    -------
    int64 array of length 2**width
        Sizes, 1 and above.

    References
    ----------
    Pickands. Statistical inference using extreme order statistics. Annals of Statistics 3(1), 1975.
    doi:10.1214/aos/1176343003

    Examples
    --------
    >>> sizes = group_sizes(10, 20, 5000, key=1)
    >>> int(sizes.max()), int(sizes.min())
    (5000, 1)
    """
    count = 1 << width
    if median == largest:
        return np.full(count, median, dtype=np.int64)
    target = (largest - 1) / (median - 1)
    low, high = 0.0, target
    for _ in range(100):
        base = 0.5 * (low + high)
        total = 0.0
        for _ in range(width + 1):  # (x**(width + 1) - 1) / (x - 1), sound at x = 1
            total = total * base + 1.0
        low, high = (base, high) if total < target else (low, base)

    # Odd multiples of 1/2, 1/4, 1/8, ...: each doubling fills the gaps of the one before, in an
    # order drawn at random so that a size cannot be read off the group's number.
    chance = bits(key, np.arange(count, dtype=np.uint64))
    rank = np.zeros(count, dtype=np.int64)
    for level in range(width):
        first = 1 << level
        place = np.argsort(chance[first : 2 * first], kind="stable")
        rank[first : 2 * first] = (2 * place + 1) << (width - 1 - level)

    depth = -np.log2(1.0 - (rank + 0.5) / count)
    spread = depth if base == 1.0 else (base**depth - 1.0) / (base - 1.0)
    sizes = np.rint(1.0 + (median - 1) * spread).astype(np.int64)
    return np.clip(sizes, 1, largest)


class GroupLayout:
    """Which rows belong to which group, for any number of rows.

    Parameters
    ----------
    median, largest : int
        As for `group_sizes`.
    key : int
        From `data_gen.counter.stream_key`.

    Attributes
    ----------
    block_groups, block_rows : int
        Groups and rows of one block; group ``b * block_groups + g`` has the size of group g.
    sizes : int64 array of length block_groups
        Group sizes of a block.

    Examples
    --------
    >>> import numpy as np
    >>> layout = GroupLayout(3, 3, key=0)
    >>> layout.group_of(np.array([0, 2, 3, 3_000_000_000])).tolist()
    [0, 0, 1, 1000000000]
    >>> layout.groups(7)
    3
    """

    def __init__(self, median: int, largest: int, key: int) -> None:
        width = _WIDEST
        sizes = group_sizes(width, median, largest, key)
        while width > 6 and int(sizes.sum()) > _MOST_ROWS:
            width -= 1
            sizes = group_sizes(width, median, largest, key)
        self.sizes = sizes
        self._starts = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sizes)))
        self.block_groups = int(sizes.size)
        self.block_rows = int(self._starts[-1])
        self._group = np.repeat(np.arange(sizes.size, dtype=np.uint16), sizes)

    def group_of(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """Look up the group number of each row number, in any order; a new int64 array."""
        block = np.floor_divide(row, self.block_rows, dtype=np.int64)
        group: NDArray[np.int64] = self._group[row - block * self.block_rows].astype(np.int64)
        block *= self.block_groups
        group += block
        return group

    def groups(self, rows: int) -> int:
        """Count the groups that the first `rows` rows touch, the last one perhaps in part."""
        block, rest = divmod(rows, self.block_rows)
        started = int(np.searchsorted(self._starts[:-1], rest, side="left"))
        return block * self.block_groups + started

    def next_start(self, row: int) -> int:
        """Find the row number of the first group that starts at `row` or later."""
        block, rest = divmod(row, self.block_rows)
        start = self._starts[np.searchsorted(self._starts, rest, side="left")]
        return block * self.block_rows + int(start)
