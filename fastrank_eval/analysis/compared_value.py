"""Hold the comparison of two models by one measure."""

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
from fastrank_eval.slicing.spec import short_texts

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
    """The value of a measure for a candidate and for the baseline.

    Parameters
    ----------
    score, baseline : str
        Score columns of the candidate and of the baseline.
    slice : str
        The slice of the rows; ``"all"`` for all rows.
    measure : str
        Canonical text of the measure.
    aggregate : str
        As in `MeasureValue`.
    base_value, value : float
        Values of the baseline and of the candidate; NaN where undefined.
    delta : float
        ``value - base_value``.
    relative : float
        ``delta / abs(base_value)``; NaN where the baseline is 0.
    rela_impr : float
        For AUC and GAUC ``(value - 0.5) / (base_value - 0.5) - 1``; NaN otherwise.
    rela_impr_se, rela_impr_ci_low, rela_impr_ci_high : float
        Standard error and confidence interval of `rela_impr` by the delta method, groups being
        clusters. The degrees of freedom are those of `ci_low` (Student's t for the bootstrap too).
        NaN where unknown.
    rela_impr_caution : str or None
        ``"near_chance"``: the interval of the baseline includes 0.5, so `rela_impr` has no
        interval; ``"not_above_chance"``: the baseline is not above 0.5, so there is no
        `rela_impr`.
    se : float
        Standard error of `delta`, groups being clusters; with ``test="bootstrap"`` that of the
        bootstrap. NaN where unknown.
    ci_low, ci_high : float
        Confidence interval of `delta`: by Student's t with `degrees` degrees of freedom, by the
        normal distribution with ``test="clustered_z"``, by percentiles with ``test="bootstrap"``.
    test : str
        The test of `p_value`.
    statistic, p_value : float
        Two-sided; NaN where undefined.
    p_adjusted : float
        `p_value` corrected for `comparisons`.
    comparisons : int
        Number of p-values that are corrected together: for all rows, one for every measure and
        candidate; for slices, one for every slice of the slicing, measure and candidate.
    groups : int
        Groups that either model uses; 0 where `caution` says that no error is known.
    degrees : float
        Degrees of freedom of `se`, at most ``groups - 1``: fewer if few groups carry the variance.
        NaN with ``test="clustered_z"`` and where no error is known.
    wins, ties, losses : int or None
        Groups in which the candidate is better, equal and worse, of those that both models use;
        None if groups have no values of the measure.
    only_base, only_candidate : int or None
        Groups that only one of them uses.
    effect_size : float
        Mean over standard deviation of the differences of groups that both models use, each
        counting once (Cohen's d_z); NaN if they do not vary.
    mdd : float
        Minimum detectable difference: the least true difference that the test finds with a power of
        80 %, by `se`, at the level that the correction leaves to the first of the comparisons. NaN
        where `se` is 0 or NaN.
    caution : str or None
        * ``"few_groups"``: fewer than 40 effective groups, the interval is rough;
        * ``"one_group"``, ``"pooled"``, ``"not_paired"``: why there is no standard error;
        * ``"undefined"``: a value is undefined;
        * ``"no_variance"``: all groups have the same difference, so a test has no scale;
        * ``"no_difference"``: no group differs, so a test by a standard error has no p-value.
    verdict : str
        The result in words.
    by : str or None
        The slicing of `slice`; None for all rows.

    Examples
    --------
    >>> value = ComparedValue("new", "old", "all", "RR", "mean", 0.5, 0.625, 0.125, 0.25)
    >>> value.delta, value.p_value
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
        """The name of `se` in gates."""
        return self.se

    @property
    def delta_ci_low(self) -> float:
        """The name of `ci_low` in gates."""
        return self.ci_low

    @property
    def delta_ci_high(self) -> float:
        """The name of `ci_high` in gates."""
        return self.ci_high


def compared_table(values: Iterable[ComparedValue]) -> pa.Table:
    """Make a table of one row a value, null where a number is undefined."""
    return pa.Table.from_pylist(comparison_rows(values), schema=_SUMMARY)


def comparison_rows(values: Iterable[ComparedValue]) -> list[dict[str, Any]]:
    """Convert comparisons to plain Python values, NaN to None."""
    names, values = _SUMMARY.names, list(values)
    by = short_texts(v.by for v in values)
    return [
        {name: plain_value(getattr(v, name)) for name in names} | {"by": by[v.by]} for v in values
    ]


def compared_csv(rows: Iterable[dict[str, Any]], safe: bool = False) -> str:
    """Write a header and rows as CSV."""
    return csv_text(_SUMMARY.names, (row.values() for row in rows), safe)


class ComparisonRecords(Protocol):
    """The fields of a comparison that views read."""

    values: tuple[ComparedValue, ...]
    meta: Meta
    baseline: str
    scores: tuple[str, ...]
    measures: tuple[str, ...]
    joined: dict[str, int] | None
    evaluated: tuple[MeasureValue, ...]

    @property
    def decompositions(self) -> dict[tuple[str, str, str], Decomposition]:
        """Decompositions by candidate, measure and slicing."""
        ...

    def _changed_slices(self, text: str, score: str | None, top: int) -> list[ComparedValue]:
        """Find the slices with the largest changes of a measure."""
        ...
