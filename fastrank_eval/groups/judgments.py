"""Count the unjudged rows around the labelled rows of a ranking.

Measures of incomplete judgments distinguish a row without a label from a row of label 0. Both rank
alike. This file counts the unjudged rows, once for all such measures.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.scan import RankedRows


@dataclass(frozen=True)
class UnjudgedRows:
    """Unjudged rows of whole groups under one model and one tie policy.

    All arrays are int64.

    Parameters
    ----------
    missing : ndarray, shape (groups,)
        Number of rows without a label, retrieved or not.
    before, tied : ndarray, shape (labelled rows,)
        Number of unjudged rows ranked strictly above the labelled row's block, and inside the
        block. A block is a single rank unless ties are ``expected``.
    offsets : ndarray, shape (groups + 1,)
        First retrieved unjudged row of each group, then their number.
    above, size : ndarray, shape (unjudged rows,)
        Number of rows ranked strictly above the unjudged row's block, and inside the block.
    """

    missing: np.ndarray
    before: np.ndarray
    tied: np.ndarray
    offsets: np.ndarray
    above: np.ndarray
    size: np.ndarray

    @classmethod
    def complete(cls, groups: int, ranked_rows: int) -> UnjudgedRows:
        """Describe groups whose rows are all judged."""
        empty, zeros = np.zeros(0, np.int64), np.zeros(ranked_rows, np.int64)
        return cls(
            np.zeros(groups, np.int64), zeros, zeros, np.zeros(groups + 1, np.int64), empty, empty
        )

    @classmethod
    def around(
        cls,
        offsets: np.ndarray,
        block_above: np.ndarray,
        above: np.ndarray,
        grade: np.ndarray,
        unjudged: RankedRows,
        missing: np.ndarray,
        ties: str,
    ) -> UnjudgedRows:
        """Merge the unjudged rows into the labelled rows of a ranking.

        Parameters
        ----------
        offsets, block_above, above, grade : ndarray
            As in `ranking.Ranking`.
        unjudged : RankedRows
            The unjudged rows of the same groups; with positions where ties are ``input`` or
            ``item``.
        missing : ndarray of int64, shape (groups,)
        ties : str
            ``"best"`` ranks unjudged rows after those of label 0, ``"worst"`` before them.
        """
        before, tied = np.empty((2, len(above)), np.int64)
        resolved = ties in ("best", "worst")
        by_position = ties in ("input", "item")
        rank = cast(np.ndarray, unjudged.position) if by_position else unjudged.above
        positions = np.empty(len(unjudged.above), np.int64)
        _merge(
            offsets,
            above if by_position else block_above,
            above,
            grade,
            unjudged.offsets,
            rank,
            unjudged.size,
            resolved,
            ties == "best",
            before,
            tied,
            positions,
        )
        size = unjudged.size if ties == "expected" else np.ones(len(positions), np.int64)
        return cls(missing, before, tied, unjudged.offsets, positions, size)


@kernel
def _merge(  # type: ignore[no-untyped-def]
    offsets,
    rank,
    above,
    grade,
    unjudged_offsets,
    unjudged_rank,
    unjudged_size,
    resolve,
    best,
    before,
    tied,
    position,
):
    """Walk both lists block by block.

    Ties are resolved to single ranks if `resolve`.
    """
    for g in range(offsets.shape[0] - 1):
        e = offsets[g]
        end = offsets[g + 1]
        u = unjudged_offsets[g]
        unjudged_end = unjudged_offsets[g + 1]
        unjudged_above = 0
        while e < end or u < unjudged_end:
            block = rank[e] if e < end else unjudged_rank[u]
            if u < unjudged_end:
                block = min(block, unjudged_rank[u])
            last = e
            negative = 0
            while last < end and rank[last] == block:
                negative += grade[last] < 0
                last += 1
            unjudged_last = u
            while unjudged_last < unjudged_end and unjudged_rank[unjudged_last] == block:
                unjudged_last += 1
            unjudged_tied = unjudged_last - u
            for k in range(e, last):
                before[k] = unjudged_above
                tied[k] = unjudged_tied
                if resolve:
                    # Rows of label 0 and unjudged rows are adjacent, so all or none are above.
                    if above[k] - block > k - e:
                        before[k] = unjudged_above + unjudged_tied
                    tied[k] = 0
            for j in range(u, unjudged_last):
                position[j] = block
                if resolve:
                    first = unjudged_size[j] - negative - unjudged_tied if best else negative
                    position[j] = block + first + j - u
            unjudged_above += unjudged_tied
            e = last
            u = unjudged_last
