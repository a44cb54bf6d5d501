"""Compare the scores and columns of a night with the nights before.

PSI and the distance of KS read rows counted in bins. Bins of two days have other keys and levels;
`align_bins` counts them in the same bins. The bins of PSI are the deciles of the reference, or its
values if they are few.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fastrank_eval._lib.arrow import (
    byte_shuffle,
    byte_unshuffle,
    delta_decode,
    delta_encode,
    narrow,
)
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import log_each
from fastrank_eval._lib.errors import SourceError
from fastrank_eval._lib.threads import JobMap
from fastrank_eval.apps.nightly.compare_nights import MIN_NIGHTS, limit_outcomes
from fastrank_eval.apps.nightly.config_checks import TABLES
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Finding, Night, NightDrift, Settings
from fastrank_eval.apps.nightly.periods import left_out
from fastrank_eval.apps.nightly.quality import limit_of
from fastrank_eval.apps.nightly.text import change_text, null_shares, where
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_arrays import ALL as ALL_ROWS
from fastrank_eval.engine.state_file import read_state_bytes, state_bytes, wrap_errors
from fastrank_eval.groups.chunk import Scored
from fastrank_eval.measures.pooled import PooledMeasure, PooledValue
from fastrank_eval.results.gates import ALL
from fastrank_eval.results.report import percent_text
from fastrank_eval.stats.binned_scores import BinnedScores, Bins, align_bins, keys_of, merge_bins
from fastrank_eval.stats.score_runs import scores_of

#: PSI has a bin for each value of a reference with at most so many, else so many quantiles.
FEW_VALUES, QUANTILES = 20, 10
#: The share of an empty bin. If another bin has a share as small, that share is divided instead.
_EMPTY, _DIVISOR = 1e-4, 1e6


def drift_between(reference: Bins, other: Bins) -> tuple[float, float]:
    """Compare rows in bins with those of a reference.

    Parameters
    ----------
    reference, other : Bins
        Of `BinnedScores.merged_bins`. Positives and other rows count alike.

    Returns
    -------
    tuple of float
        `psi` and `ks_distance`: NaN if one of them has no row, and 0 for equal distributions.

    Examples
    --------
    >>> from fastrank_eval.stats.binned_scores import BinnedScores
    >>> none = np.empty(0, np.int64)
    >>> reference, other = BinnedScores(1024), BinnedScores(1024)
    >>> _ = reference.add(np.array([0.1, 0.2, 0.2, 0.4]), none)
    >>> _ = other.add(np.array([0.1, 0.2, 0.4, 0.4]), none)
    >>> distances = drift_between(reference.merged_bins(), other.merged_bins())
    >>> round(distances[0], 4), distances[1]
    (0.3466, 0.25)
    """
    expected, counts = align_bins(reference, other)
    if not (expected.any() and counts.any()):
        return math.nan, math.nan
    starts = psi_starts(expected, *(each.distinct <= FEW_VALUES for each in (reference, other)))
    index = psi(np.add.reduceat(expected, starts), np.add.reduceat(counts, starts))
    return index, ks_distance(expected, counts)


def psi(reference: np.ndarray, counts: np.ndarray) -> float:
    """Compute the population stability index.

    ``sum((p - q) * ln(p / q))`` over bins, p and q the shares of the two distributions. By a rule
    of thumb, below 0.1 is little change, and above 0.25 a large one. Without a change, its mean is
    about ``(bins - 1) * (1 / n + 1 / m)`` for n and m independent rows.

    Parameters
    ----------
    reference, counts : ndarray of int64 or float64, shape (bins,)
        Rows or weights of each bin, 0 or more. An empty bin has the share 0.0001, or a millionth of
        the smallest other share if that is 0.0001 or less, as in Evidently. A bin that is empty in
        both is left out.

    Returns
    -------
    float
        0 or more; NaN without a row.

    References
    ----------
    Jeffreys (1946), doi:10.1098/rspa.1946.0056; Yurdakul & Naranjo (2020), Journal of Risk Model
    Validation 14(4).

    Examples
    --------
    >>> round(psi(np.array([50, 30, 20]), np.array([40, 30, 30])), 6)
    0.062861
    >>> psi(np.array([5, 3, 2]), np.array([500, 300, 200]))
    0.0
    """
    used = (reference > 0) | (counts > 0)
    if not (reference.any() and counts.any()):
        return math.nan
    p, q = _shares(reference[used]), _shares(counts[used])
    return math.fsum((p - q) * log_each(p / q))


def _shares(counts: np.ndarray) -> np.ndarray:
    """Return the shares of bins; no share is 0."""
    shares = counts / counts.sum()
    smallest = shares[shares > 0].min()
    return np.where(shares > 0, shares, smallest / _DIVISOR if smallest <= _EMPTY else _EMPTY)


def ks_distance(reference: np.ndarray, counts: np.ndarray) -> float:
    """Compute the statistic of the two-sample Kolmogorov-Smirnov test.

    The largest absolute difference of the shares up to the end of a bin.

    Parameters
    ----------
    reference, counts : ndarray of int64 or float64, shape (bins,)
        Rows or weights of each bin, in the order of the values.

    Returns
    -------
    float
        0 to 1. The statistic of ``scipy.stats.ks_2samp`` if no bin has more than one value;
        otherwise smaller by at most the largest share of a bin with several values.

    References
    ----------
    Hodges (1958), doi:10.1007/BF02589501.

    Examples
    --------
    >>> ks_distance(np.array([1, 1, 2]), np.array([2, 1, 1]))
    0.25
    """
    p, q = (np.cumsum(each) / each.sum() for each in (reference, counts))
    return float(np.max(np.abs(p - q)))


def psi_starts(reference: np.ndarray, few: bool, few_others: bool) -> np.ndarray:
    """Choose the bins of PSI by a reference.

    Parameters
    ----------
    reference : ndarray of int64 or float64, shape (bins,)
        Rows or weights of each bin, in the order of the values.
    few, few_others : bool
        Whether the reference, and the other rows, have at most `FEW_VALUES` distinct values.

    Returns
    -------
    ndarray of int64
        The first bin of each bin of PSI. Every bin, if both have few values, as in Evidently. If
        only the reference has: each of its bins, and the bins between two of them, before the first
        and after the last together. Else about `QUANTILES` bins of equally many rows.

    Examples
    --------
    >>> psi_starts(np.array([3, 0, 0, 5]), True, True)
    array([0, 1, 2, 3])
    >>> psi_starts(np.array([3, 0, 0, 5]), True, False)
    array([0, 1, 3])
    >>> psi_starts(np.full(40, 25), False, False)
    array([ 0,  4,  8, 12, 16, 20, 24, 28, 32, 36])
    """
    if few and few_others:
        return np.arange(len(reference))
    if few:
        used = np.flatnonzero(reference)
        starts = np.unique(np.concatenate([[0], used, used + 1]))
    else:
        quantiles = reference.sum() * np.arange(1, QUANTILES) / QUANTILES
        ends = np.searchsorted(np.cumsum(reference), quantiles) + 1
        starts = np.unique(np.append(0, ends))
    return starts[starts < len(reference)]


#: The kind of state in history, and the name of its arrays.
KIND = "drift"
#: The most bins of a distribution: twice `night.MOST_VALUES`.
_BINS = 512
#: The most slices that are compared, each with all models.
_MOST_SLICES = 500
#: A change that fails so many nights in a row is the usual distribution from then on.
_LASTING = 7
#: Smaller changes of shares are not named.
_SHOWN_CHANGE = 0.01
_NO_POSITIVE = np.empty(0, np.int64)


class _Distribution(PooledMeasure):
    """The scores of rows in bins; users cannot request it."""

    name = "ScoreDistribution"
    range = (0.0, np.inf)

    def state_key(self) -> Hashable:
        return KIND

    def new_state(self, weighted: bool, threads: int) -> BinnedScores:
        return BinnedScores(_BINS)

    def add_rows(self, state: BinnedScores, scored: Scored) -> None:
        # One type: the type of a column may change from night to night. Labels do not count.
        state.add(scored.numbers(), _NO_POSITIVE)

    def pooled_value(self, state: BinnedScores, map_jobs: JobMap) -> PooledValue:
        return PooledValue(0.0)


#: Keeps the distribution of every model, on all rows and each slice.
DISTRIBUTION = _Distribution()


class DriftKey(NamedTuple):
    """A model or column on all rows, or on a slice.

    Parameters
    ----------
    name : str
    by, slice : str
        Empty and ``"all"`` for all rows.
    """

    name: str
    by: str = ""
    slice: str = ALL


@dataclass(frozen=True)
class Distribution:
    """Numbers of some rows.

    Parameters
    ----------
    rows : int
        With the rows that have none.
    bins : Bins
    """

    rows: int
    bins: Bins

    @property
    def count(self) -> int:
        """Rows with a number."""
        return int(self._rows.sum())

    @property
    def outside(self) -> int:
        """Rows outside [0, 1]; values just above 1 may share a bin with 1."""
        low, high = scores_of(self.bins.lowest), scores_of(self.bins.highest)
        return int(self._rows[(low < 0) | (high > 1)].sum())

    @property
    def median(self) -> float:
        """The median: of an even number, the mean of the two middle values.

        The middle of its bin stands for a value if the bin has more values.
        """
        if not self.count:
            return math.nan
        ranks = (self.count - 1) // 2, self.count // 2
        at = np.searchsorted(np.cumsum(self._rows), ranks, side="right")
        low, high = scores_of(self.bins.lowest[at]), scores_of(self.bins.highest[at])
        return _middle(*map(_middle, low.tolist(), high.tolist()))

    @property
    def mode_share(self) -> float:
        """Share of the most frequent value; of its bin if that has more values."""
        return int(self._rows.max()) / self.count if self.count else math.nan

    @property
    def _rows(self) -> np.ndarray:
        return np.asarray(self.bins.counts).sum(axis=0)


def _middle(low: float, high: float) -> float:
    return low if low == high else low / 2 + high / 2


Distributions: TypeAlias = dict[DriftKey, Distribution]


def distributions_of(
    evaluation: Evaluation, min_rows: int, names: Mapping[str, str] | None = None
) -> Distributions:
    """Return the distributions of a run with the measure `DISTRIBUTION`.

    Parameters
    ----------
    evaluation : Evaluation
    min_rows : int
        Slices of fewer rows are left out, and the smallest of more than 500 slices.
    names : mapping of str to str, optional
        Names of columns by those of the scores; by default the same.
    """
    rows = {
        (part.by or "", part.label): part.sums.rows(part.slice_index)
        for part in evaluation.totals.each_slice()
    }
    slices = [key for key, count in rows.items() if key[0] and count >= min_rows]
    keys = {("", ALL), *sorted(slices, key=lambda key: (-rows[key], key))[:_MOST_SLICES]}
    return {
        DriftKey(names[name] if names else name, *key): Distribution(
            rows[key], DISTRIBUTION.state_in(part.pooled_states.models[model]).merged_bins()
        )
        for part in evaluation.totals.each_slice()
        if (key := (part.by or "", part.label)) in keys
        for model, name in enumerate(evaluation.plan.roles.scores)
    }


def distributions_to_bytes(distributions: Distributions) -> bytes:
    """Write distributions for the history, in the container of saved states."""
    keys = sorted(distributions)
    every = [distributions[key] for key in keys]
    bins = [each.bins for each in every]
    lowest, highest = (
        np.concatenate([getattr(each, name) for each in bins]) for name in ("lowest", "highest")
    )
    counts = np.concatenate([np.asarray(each.counts).sum(axis=0) for each in bins])
    arrays = {
        "rows": np.array([each.rows for each in every], np.int64),
        "levels": np.array([each.level for each in bins], np.int64),
        "bins": np.array([len(each.keys) for each in bins], np.int64),
        "lowest": delta_encode(lowest),
        "spans": byte_shuffle(highest - lowest),
        "counts": narrow(counts),
    }
    return state_bytes({"slicings": {}, "distributions": keys}, {(ALL_ROWS, "", KIND): arrays})


def distributions_from_bytes(content: bytes, name: str) -> Distributions:
    """Read the distributions that `distributions_to_bytes` wrote.

    Raises
    ------
    SourceError
        The content is damaged, or of another version.
    """
    with wrap_errors(name):
        header, states = read_state_bytes(content, name)
        arrays = states[ALL_ROWS, "", KIND]
        lowest = delta_decode(arrays["lowest"])
        highest = lowest + byte_unshuffle(arrays["spans"], "u")
        counts = np.zeros((2, len(lowest)), np.int64)
        counts[1] = arrays["counts"]
        levels, ends = arrays["levels"], np.cumsum(arrays["bins"])
        keys = keys_of(lowest, ascending=False)
        keys >>= np.repeat(levels.astype(np.uint64), arrays["bins"])
        numbers = (each.tolist() for each in (arrays["rows"], levels, ends))
        distributions: Distributions = {}
        first = 0
        for key, rows, level, end in zip(header["distributions"], *numbers, strict=True):
            part = slice(first, end)
            bins = Bins(level, keys[part], lowest[part], highest[part], counts[:, part])
            distributions[DriftKey(*key)] = Distribution(rows, bins)
            first = end
        return distributions


def _compared_with_nights(
    history: History, night: Night, nights: int, distributions: Distributions
) -> tuple[list[NightDrift], list[str]]:
    """Compare with earlier nights of equal conditions that passed the checks.

    All rows come first. The second list has a note on the nights that cannot be read.
    """
    unread: list[dt.date] = []
    #: The latest night first, and whether it failed.
    earlier_ones: dict[DriftKey, list[tuple[bool, Distribution]]] = {}
    for earlier in history.before(night.date, 2 * nights):
        if all(
            len(_usual_nights(earlier_ones.get(k, ()), nights)) == nights for k in distributions
        ):
            break
        date, content = earlier.date, history.state(earlier.date, KIND)
        passed = earlier.status != "data_quality" and earlier.quality.rows
        condition = night.conventions.get("where")
        if not passed or content is None or earlier.conventions.get("where") != condition:
            continue
        try:
            stored = distributions_from_bytes(content, f"the drift state of {date}")
        except SourceError:
            unread.append(date)
            continue
        failed = {
            (one.name, one.by or "", one.slice)
            for one in earlier.drift
            if one.verdict == "failed" or one.distinct < 2
        }
        for key, each in stored.items():
            if earlier.expressions.get(key.name) == night.expressions.get(key.name):
                earlier_ones.setdefault(key, []).append((key in failed, each))
    notes = [f"drift: {left_out(unread, *_UNREAD)}"] if unread else []
    return [
        _drift(key, each, _usual_nights(earlier_ones.get(key, []), nights))
        for key, each in distributions.items()
    ], notes


def _usual_nights(nights: Sequence[tuple[bool, Distribution]], most: int) -> list[Distribution]:
    """Return the nights that did not fail, back to a change that lasted."""
    usual: list[Distribution] = []
    for failed, run in groupby(nights, key=itemgetter(0)):
        found = [each for _, each in run]
        lasted = failed and len(found) >= min(_LASTING, most)
        usual += found if lasted or not failed else []
        if lasted:
            break
    return usual[:most]


def _drift(key: DriftKey, night: Distribution, nights: Sequence[Distribution]) -> NightDrift:
    count = night.count
    drift = NightDrift(
        name=key.name,
        by=key.by or None,
        slice=key.slice,
        rows=night.rows,
        nulls=night.rows - count,
        distinct=night.bins.distinct,
        median=night.median,
        mode_share=night.mode_share,
    )
    if not nights:
        return drift
    bins = merge_bins([each.bins for each in nights], _BINS)
    reference = Distribution(sum(each.rows for each in nights), bins)
    index, distance = drift_between(bins, night.bins)
    # Not of all nights: else a second night outside [0, 1] would not fail.
    inside = sum(not each.outside for each in nights)
    probability = reference.count > 0 and count > 0 and 2 * inside > len(nights)
    return replace(
        drift,
        psi=index,
        ks=distance,
        out_of_range=night.outside / count if probability else math.nan,
        nights=len(nights),
        reference_rows=reference.count,
        reference_nulls=reference.rows - reference.count,
        reference_median=reference.median,
        reference_mode_share=reference.mode_share,
    )


#: Why a night is left out, and why several are.
_UNREAD = (
    "its saved scores cannot be read; run it again, which replaces them",
    "their saved scores cannot be read; run them again, which replaces them",
)


def judge_drift(
    night: Night,
    distributions: Distributions,
    known: Sequence[Finding],
    limits: Settings,
    history: History,
) -> Night:
    """Compare a night with the nights before, and judge drift by its limits.

    Nights with another condition on rows are left out, and scores of another expression. Slices
    have findings only where all rows have no such finding.

    Parameters
    ----------
    night : Night
    distributions : dict
        Of the night.
    known : sequence of Finding
        Findings that explain drift of the same scores, such as too few distinct scores.
    limits : Settings
    history : History

    Returns
    -------
    Night
        With drift, its findings and its outcomes.
    """
    drift, notes = _compared_with_nights(history, night, limits.nights, distributions)
    judged, findings = [], []
    explained = {(one.score, one.slice) for one in known if one.condition}
    levels: dict[str, int] = {}
    for each in drift:
        own = list(_findings(each, limits, each.name in night.models))
        if not own and not _has_enough(each, each.rows - each.nulls, each.reference_rows, limits):
            judged.append(replace(each, verdict="not judged"))
            continue
        level = max((2 if one.condition else 1 for one in own), default=0)
        judged.append(replace(each, verdict=("same", "changed", "failed")[level]))
        if level > levels.get(each.name, 0) and (each.name, each.slice) not in explained:
            findings += own
        if each.by is None:
            levels[each.name] = level
    return night.add(drift=judged, gates=limit_outcomes(findings), findings=findings, notes=notes)


def _has_enough(drift: NightDrift, rows: int, before: int, limits: Settings) -> bool:
    """Return whether rows, and those of enough nights before, can be judged."""
    nights = min(MIN_NIGHTS, limits.nights)
    return drift.nights >= nights and min(rows, before) >= limits.min_rows


def _findings(drift: NightDrift, limits: Settings, is_model: bool) -> Iterator[Finding]:
    values = f"{'scores' if is_model else 'values'} of {drift.name}"
    place = where(drift.slice)
    nights = f"the last {drift.nights} nights"

    def limit_for(key: str) -> Any:
        own = limit_of(getattr(limits, key), drift.name)
        return TABLES["drift"][key].default if own is None else own

    def finding(condition: str, field: str, number: float, limit: float, text: str) -> Finding:
        return Finding(
            "drift", condition, drift.name, drift.by or "", drift.slice, against=nights,
            field=field, operator=">", limit=limit, number=number, detail=text,
        )  # fmt: skip

    def distance(condition: str, field: str, number: float, limit: float) -> Finding:
        beyond = f"the limit of {limit:g}" if condition else f"{limit:g}"
        text = (
            f"The {values} are far from those of {nights}{place}: {', '.join(_changes(drift))}; "
            f"{field.upper()} {number:.3g}, above {beyond}"
        )
        return finding(condition, field, number, limit, text)

    if drift.nulls == drift.rows and _has_enough(drift, drift.rows, drift.reference_rows, limits):
        text = f"There are no {values}{place}; {nights} had some"
        yield finding("no numbers", "nulls", 1.0, 0.0, text)
    elif _has_enough(drift, drift.rows, drift.reference_rows + drift.reference_nulls, limits):
        before, share = null_shares(*_counts(drift))
        change = abs(share - before)
        most = limit_for("max_nulls")
        fails = change > most
        limit = most if fails else limits.note_nulls
        if fails or (change > limit and drift.by is None):
            text = f"{percent_text(share, 3)} of the {values}{place} are null, and "
            text += f"{percent_text(before, 3)} on {nights}; the change is above "
            text += f"{'the limit of ' if fails else ''}{percent_text(limit, 3)}"
            condition = f"change of nulls > {limit:g}" if fails else ""
            yield finding(condition, "null_share", change, limit, text)
    if not _has_enough(drift, drift.rows - drift.nulls, drift.reference_rows, limits):
        return
    if is_model and drift.out_of_range > 0:
        text = f"{percent_text(drift.out_of_range, 3)} of the {values}{place} are outside [0, 1]"
        text += f"; most of {nights} had none"
        yield finding("scores outside [0, 1]", "out_of_range", drift.out_of_range, 0.0, text)
    most = limit_for("max_psi")
    if most and drift.psi > most:
        yield distance(f"psi > {most:g}", "psi", drift.psi, most)
    elif drift.psi > limits.note_psi and drift.by is None:
        yield distance("", "psi", drift.psi, limits.note_psi)
    most = limit_for("max_ks")
    if most is not None and drift.ks > most:
        yield distance(f"ks > {most:g}", "ks", drift.ks, most)


def _counts(drift: NightDrift) -> tuple[int, int, int, int]:
    return drift.reference_nulls, drift.reference_rows, drift.nulls, drift.rows


def _changes(drift: NightDrift) -> Iterator[str]:
    """Yield the median before and after, and the shares that changed."""
    yield f"median {change_text(drift.reference_median, drift.median)}"
    nulls = null_shares(*_counts(drift))
    modes = drift.reference_mode_share, drift.mode_share
    for title, (before, after) in (("nulls", nulls), ("most frequent value", modes)):
        if abs(after - before) >= _SHOWN_CHANGE:
            yield f"{title} {percent_text(before, 2)} → {percent_text(after, 2)}"
