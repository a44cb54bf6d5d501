"""One measure of two models side by side; many of them as the summary of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fastrank_eval.analysis.attribution import Decomposition
    from fastrank_eval.engine.records import MeasureValue, Meta

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fastrank_eval._lib.csv_text import csv_text
from fastrank_eval.engine.records import plain_value
from fastrank_eval.slicing.parser import short_texts

__all__ = [
    "ComparedValue",
    "ComparisonRecords",
    "compared_csv",
    "compared_table",
    "comparison_rows",
]

_SUMMARY = pa.schema(
    [
        pa.field("score", pa.string(), nullable=False),
        pa.field("baseline", pa.string(), nullable=False),
        pa.field("by", pa.string()),
        pa.field("slice", pa.string(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("aggregate", pa.string(), nullable=False),
        pa.field("base_value", pa.float64()),
        pa.field("value", pa.float64()),
        pa.field("delta", pa.float64()),
        pa.field("relative", pa.float64()),
        pa.field("rela_impr", pa.float64()),
        pa.field("rela_impr_se", pa.float64()),
        pa.field("rela_impr_ci_low", pa.float64()),
        pa.field("rela_impr_ci_high", pa.float64()),
        pa.field("rela_impr_caution", pa.string()),
        pa.field("se", pa.float64()),
        pa.field("ci_low", pa.float64()),
        pa.field("ci_high", pa.float64()),
        pa.field("test", pa.string(), nullable=False),
        pa.field("statistic", pa.float64()),
        pa.field("p_value", pa.float64()),
        pa.field("p_adjusted", pa.float64()),
        pa.field("comparisons", pa.int64(), nullable=False),
        pa.field("groups", pa.int64(), nullable=False),
        pa.field("degrees", pa.float64()),
        pa.field("wins", pa.int64()),
        pa.field("ties", pa.int64()),
        pa.field("losses", pa.int64()),
        pa.field("only_base", pa.int64()),
        pa.field("only_candidate", pa.int64()),
        pa.field("effect_size", pa.float64()),
        pa.field("mdd", pa.float64()),
        pa.field("caution", pa.string()),
        pa.field("verdict", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True)
class ComparedValue:
    """One measure of a candidate beside that of the baseline.

    Parameters
    ----------
    score, baseline : str
        Score columns of the candidate and of the baseline.
    slice : str
        Part of the rows it speaks of; ``"all"`` for all of them.
    measure : str
        Canonical text of the measure.
    aggregate : str
        As of `MeasureValue`.
    base_value, value : float
        Of the baseline and of the candidate; NaN where undefined.
    delta : float
        ``value - base_value``.
    relative : float
        ``delta / abs(base_value)``; NaN where the baseline is 0.
    rela_impr : float
        Of AUC and GAUC ``(value - 0.5) / (base_value - 0.5) - 1``; NaN otherwise.
    rela_impr_se, rela_impr_ci_low, rela_impr_ci_high : float
        Standard error and confidence interval of `rela_impr` by the delta method, groups being
        clusters, with the degrees of freedom of `ci_low` (of Student's t for the bootstrap too);
        NaN where none is known.
    rela_impr_caution : str or None
        ``"near_chance"``: the interval of the baseline reaches down to 0.5, so that `rela_impr` has
        none; ``"not_above_chance"``: the baseline is not above 0.5, so that there is no
        `rela_impr`.
    se : float
        Standard error of `delta`, groups being clusters; with ``test="bootstrap"`` that of the
        bootstrap. NaN where none is known.
    ci_low, ci_high : float
        Confidence interval of `delta`: of Student's t with `degrees` degrees of freedom, of the
        normal distribution with ``test="clustered_z"``, of percentiles with ``test="bootstrap"``.
    test : str
        What `p_value` is of.
    statistic, p_value : float
        Two-sided; NaN where undefined.
    p_adjusted : float
        Corrected for `comparisons`.
    comparisons : int
        p-values that are corrected together: of all rows those of every measure and candidate, of
        slices those of every slice of the slicing too.
    groups : int
        Groups that either model uses; 0 where `caution` says that no error is known.
    degrees : float
        Degrees of freedom of `se`, at most ``groups - 1``: fewer where few groups carry the
        variance. NaN with ``test="clustered_z"`` and where no error is known.
    wins, ties, losses : int or None
        Groups that both use in which the candidate is better, equal and worse; None for a measure
        that groups have no values of.
    only_base, only_candidate : int or None
        Groups that one of them uses.
    effect_size : float
        Mean over standard deviation of the differences of groups that both use, each counting once
        (Cohen's d_z); NaN where they do not vary.
    mdd : float
        Minimum detectable difference: the least true one of which the test would find 80 % at the
        level that the correction leaves to the first of so many comparisons; by `se`. NaN where
        that is 0 or NaN.
    caution : str or None
        ``"few_groups"``: fewer than 40 effective groups, the interval is rough; ``"one_group"``,
        ``"pooled"``, ``"not_paired"``: why there is no standard error; ``"undefined"``: a value is;
        ``"no_variance"``: every group differs by the same, so that a test has no scale;
        ``"no_difference"``: no group differs, so that a test by a standard error has no p-value.
    verdict : str
        The same in words.
    by : str or None
        The slicing that `slice` is of; None of what was not sliced.

    Examples
    --------
    >>> line = ComparedValue("new", "old", "all", "RR", "mean", 0.5, 0.625, 0.125, 0.25)
    >>> line.delta, line.p_value
    (0.125, nan)
    """

    score: str
    baseline: str
    slice: str
    measure: str
    aggregate: str
    base_value: float
    value: float
    delta: float
    relative: float
    rela_impr: float = math.nan
    rela_impr_se: float = math.nan
    rela_impr_ci_low: float = math.nan
    rela_impr_ci_high: float = math.nan
    rela_impr_caution: str | None = None
    se: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    test: str = "clustered_t"
    statistic: float = math.nan
    p_value: float = math.nan
    p_adjusted: float = math.nan
    comparisons: int = 0
    groups: int = 0
    degrees: float = math.nan
    wins: int | None = None
    ties: int | None = None
    losses: int | None = None
    only_base: int | None = None
    only_candidate: int | None = None
    effect_size: float = math.nan
    mdd: float = math.nan
    caution: str | None = None
    verdict: str = ""
    by: str | None = None

    @property
    def delta_se(self) -> float:
        """What gates call `se`."""
        return self.se

    @property
    def delta_ci_low(self) -> float:
        """What gates call `ci_low`."""
        return self.ci_low

    @property
    def delta_ci_high(self) -> float:
        """What gates call `ci_high`."""
        return self.ci_high


def compared_table(values: Iterable[ComparedValue]) -> pa.Table:
    """One row a value; null where a number is undefined."""
    return pa.Table.from_pylist(comparison_rows(values), schema=_SUMMARY)


def comparison_rows(values: Iterable[ComparedValue]) -> list[dict[str, Any]]:
    """The same as plain Python values, None for NaN."""
    names, values = _SUMMARY.names, list(values)
    by = short_texts(v.by for v in values)
    return [
        {name: plain_value(getattr(v, name)) for name in names} | {"by": by[v.by]} for v in values
    ]


def compared_csv(lines: Iterable[dict[str, Any]], safe: bool = False) -> str:
    """A header and these lines."""
    return csv_text(_SUMMARY.names, (line.values() for line in lines), safe)


class ComparisonRecords(Protocol):
    """What views of a comparison read."""

    values: tuple[ComparedValue, ...]
    meta: Meta
    baseline: str
    scores: tuple[str, ...]
    measures: tuple[str, ...]
    joined: dict[str, int] | None
    evaluated: tuple[MeasureValue, ...]

    @property
    def decompositions(self) -> dict[tuple[str, str, str], Decomposition]:
        """By candidate, measure and slicing."""
        ...

    def _changed_slices(self, text: str, score: str | None, top: int) -> list[ComparedValue]:
        """Find the slices that moved most by the canonical text of a measure."""
        ...
