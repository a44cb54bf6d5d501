"""Where the rows that nobody judged stand among the entries of a ranking.

Measures of incomplete judgments tell a row without a label from one of label 0. Both rank alike;
what differs is counted here, once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from fastrank_eval._lib.jit import kernel
from fastrank_eval.groups.labels import Entries


@dataclass(frozen=True, slots=True)
class Judgments:
    """The unjudged rows of whole groups under one model and one tie policy; all int64.

    Parameters
    ----------
    missing : ndarray, shape (groups,)
        Rows of the group without a label, retrieved or not.
    before, tied : ndarray, shape (entries,)
        Unjudged rows ranked strictly above the entry's block, and in it. A block is a single rank
        unless ties are ``expected``.
    offsets : ndarray, shape (groups + 1,)
        First retrieved unjudged row of each group, then their number.
    above, size : ndarray, shape (unjudged rows,)
        Rows ranked strictly above the unjudged row's block, and rows in it.
    """

    missing: np.ndarray
    before: np.ndarray
    tied: np.ndarray
    offsets: np.ndarray
    above: np.ndarray
    size: np.ndarray

    @classmethod
    def complete(cls, groups: int, entries: int) -> Judgments:
        """Where every row is judged."""
        none, nowhere = np.zeros(0, np.int64), np.zeros(entries, np.int64)
        return cls(
            np.zeros(groups, np.int64), nowhere, nowhere, np.zeros(groups + 1, np.int64), none, none
        )

    @classmethod
    def around(
        cls,
        offsets: np.ndarray,
        block_above: np.ndarray,
        above: np.ndarray,
        grade: np.ndarray,
        unjudged: Entries,
        missing: np.ndarray,
        ties: str,
    ) -> Judgments:
        """Merge the unjudged rows into the entries of a ranking.

        Parameters
        ----------
        offsets, block_above, above, grade : ndarray
            As in `ranking.Ranking`.
        unjudged : Entries
            The unjudged rows of the same groups; their place is told unless ties are ``expected``,
            ``best`` or ``worst``.
        missing : ndarray of int64, shape (groups,)
        ties : str
            ``"best"`` and ``"worst"`` rank unjudged rows behind and before those of label 0.
        """
        before, tied = np.empty((2, len(above)), np.int64)
        resolved = ties in ("best", "worst")
        by_place = ties in ("input", "item")
        at = cast(np.ndarray, unjudged.place) if by_place else unjudged.above
        places = np.empty(len(unjudged.above), np.int64)
        _merge(
            offsets,
            above if by_place else block_above,
            above,
            grade,
            unjudged.offsets,
            at,
            unjudged.size,
            resolved,
            ties == "best",
            before,
            tied,
            places,
        )
        size = unjudged.size if ties == "expected" else np.ones(len(places), np.int64)
        return cls(missing, before, tied, unjudged.offsets, places, size)


@kernel
def _merge(  # type: ignore[no-untyped-def]
    offsets,
    at,
    above,
    grade,
    others,
    other_at,
    other_size,
    resolve,
    best,
    before,
    tied,
    place,
):
    """Walk both lists block by block; where ties are resolved, give each its own rank."""
    for g in range(offsets.shape[0] - 1):
        e = offsets[g]
        end = offsets[g + 1]
        u = others[g]
        other_end = others[g + 1]
        seen = 0
        while e < end or u < other_end:
            block = at[e] if e < end else other_at[u]
            if u < other_end:
                block = min(block, other_at[u])
            last = e
            negative = 0
            while last < end and at[last] == block:
                negative += grade[last] < 0
                last += 1
            other_last = u
            while other_last < other_end and other_at[other_last] == block:
                other_last += 1
            here = other_last - u
            for k in range(e, last):
                before[k] = seen
                tied[k] = here
                if resolve:
                    # Rows of label 0 and unjudged ones stand together, so all or none are above.
                    if above[k] - block > k - e:
                        before[k] = seen + here
                    tied[k] = 0
            for j in range(u, other_last):
                place[j] = block
                if resolve:
                    first = other_size[j] - negative - here if best else negative
                    place[j] = block + first + j - u
            seen += here
            e = last
            u = other_last
