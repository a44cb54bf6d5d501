"""Correct the p-values that a gate reads, over the terms of that gate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval.results.format import p_text
from fastrank_eval.stats.hypothesis_tests import adjust_p_values

#: Score column, slice and measure of a difference.
Key = tuple[str, str, str]


@dataclass(frozen=True)
class AdjustedP:
    """A p-value that is corrected over the terms of a gate.

    Parameters
    ----------
    p_value, p_adjusted : float
    family : str
        The terms, empty for one: ``"over the 5 slices of slot"``.
    in_table : float
        Corrected over all p-values of the table of results.
    table : int
        The number of these p-values; 0 if they are those of the gate.
    """

    p_value: float
    p_adjusted: float
    family: str = ""
    in_table: float = math.nan
    table: int = 0

    def text(self, limits: Iterable[float] = ()) -> str:
        """Write the p-value, the corrected one, and that of the table.

        The corrected one has all its digits if fewer would make it equal to a limit.

        Examples
        --------
        >>> AdjustedP(0.0098, 0.049, "over the 5 slices of slot", 0.079, 30).text([0.05])
        '0.0098, 0.049 over the 5 slices of slot (0.079 over the 30 of the table)'
        """
        adjusted = p_text(self.p_adjusted)
        if any(limit != self.p_adjusted and p_text(limit) == adjusted for limit in limits):
            adjusted = repr(self.p_adjusted)
        own = f"{p_text(self.p_value)}, {adjusted} {self.family}" if self.family else adjusted
        table = f" ({p_text(self.in_table)} over the {self.table:,} of the table)"
        return own + table * bool(self.table)


class PValues:
    """The p-values of a table of results.

    Parameters
    ----------
    rows : iterable of object
        Rows of differences; rows without a p-value are left out.
    correction : str
    """

    def __init__(self, rows: Iterable[object], correction: str) -> None:
        self._by: dict[Key, str | None] = {}
        self._p_values: dict[Key, tuple[float, float]] = {}
        self._correction = correction
        for row in rows:
            p_value = getattr(row, "p_value", None)
            if p_value is not None and not math.isnan(p_value):
                key = _key(row)
                self._by.setdefault(key, getattr(row, "by", None))
                self._p_values.setdefault(key, (p_value, getattr(row, "p_adjusted", math.nan)))
        self._sizes = Counter(self._by.values())

    def corrected(self, keys: Iterable[Key]) -> Mapping[Key, AdjustedP]:
        """Correct the p-values of some keys, by measure and slicing."""
        families: dict[tuple[str, str | None], list[Key]] = {}
        for key in dict.fromkeys(keys):
            if key in self._p_values:
                families.setdefault((key[2], self._by[key]), []).append(key)
        return {
            key: one
            for (_, by), members in families.items()
            for key, one in self._family(members, by)
        }

    def _family(self, members: list[Key], by: str | None) -> Iterable[tuple[Key, AdjustedP]]:
        p_values = np.array([self._p_values[key][0] for key in members], np.float64)
        adjusted = adjust_p_values(p_values, self._correction).tolist()
        text, size = _family_text(members, by), self._sizes[by]
        if self._correction != "holm" and text:
            text = f"by {self._correction} {text}"
        for key, p_adjusted in zip(members, adjusted, strict=True):
            p_value, in_table = self._p_values[key]
            if self._correction == "none":
                yield key, AdjustedP(p_value, p_adjusted)
                continue
            table = size if size > len(members) and not math.isnan(in_table) else 0
            yield key, AdjustedP(p_value, p_adjusted, text, in_table, table)


def _key(row: object) -> Key:
    score, in_slice, measure = (getattr(row, name) for name in ("score", "slice", "measure"))
    return score, in_slice, measure


def _family_text(members: list[Key], by: str | None) -> str:
    """Say which p-values are corrected together; nothing for one."""
    models, slices = (len({key[i] for key in members}) for i in range(2))
    if len(members) == 1:
        return ""
    if slices == 1:
        return f"over the {models:,} models"
    if models == 1:
        return f"over the {slices:,} slices of {by}"
    return f"over the {len(members):,} of {models:,} models in {slices:,} slices of {by}"
