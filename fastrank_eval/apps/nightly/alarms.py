"""Raise alarms about nightly differences from the baseline.

At most 5 % of reports without a change have an alarm in a year.

The level is learned from the sequence of differences itself: a difference that is always the same
is no change. Each night is compared with all nights before it, as a recursive residual, and the
correlation with the night before is removed. Without a change these are independent standard normal
numbers. They are winsorised, so that no single night raises an alarm. Two charts watch them: a
confidence sequence of their mean, which holds at every night at once, and a two-sided CUSUM, which
sees late changes sooner.
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fastrank_eval import measure as measure_of
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import log_each, ratio
from fastrank_eval.apps.nightly.compare_nights import (
    Series,
    comparison_rows,
    convention_differences,
    first_names,
)
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import (
    NOT_JUDGED,
    Finding,
    GateOutcome,
    Key,
    Night,
    NightDifference,
    Settings,
    first_that_holds,
)
from fastrank_eval.apps.nightly.text import day_text, digits_for, nights_text, subject
from fastrank_eval.results.differences import direction_of
from fastrank_eval.results.report import amount

#: Nights that the first residual is compared with.
LEARNING = 14
#: Nights over which the error probability of a CUSUM holds.
YEAR = 365
#: The share of the error probability that the CUSUM has; the confidence sequence has the rest.
CUSUM_SHARE = 0.8
#: Half of the smallest change that the CUSUM is made for, in standard deviations.
ALLOWANCE = 0.55
#: The largest residual in the scale of later ones, as a multiple of that of older ones.
_BOUND = 4.0
#: The largest winsorised number of standard deviations, and the standard deviation of a standard
#: normal number that is winsorised so.
_LARGEST, _SPREAD = 2.0, 0.9594461556733254
#: A one-sided sum of winsorised standard normal numbers passes the limit h in a night with
#: probability exp(-(ROOT h + OVERSHOOT)) in the long run.
_ROOT, _OVERSHOOT = 1.16569, 1.66
#: The least standard error, as a share of the median of the nights before.
_LEAST_ERROR = 0.5
#: The variance of the mixture in the confidence sequence: narrow from two to eight weeks.
_MIXTURE = 0.5
#: Nights that differ by less than this share of their standard errors are equal.
_LEAST_SCALE = 1e-3
#: The largest correlation with the night before that is removed, the fewest residuals for it, and
#: how many standard errors above its estimate it is.
_MOST_MEMORY, _LEAST_MEMORY, _ERRORS_ABOVE = 0.8, 7, 0.5
#: The fewest nights of a sequence whose correlation is reported.
_LEAST_CORRELATED = 60
#: Outliers among the first nights: scaled median absolute deviations from their median. The median
#: absolute deviation of a normal distribution is scaled to its standard deviation.
_OUTLIER, _NORMAL = 6.0, 1.4826


def steady_errors(errors: np.ndarray) -> np.ndarray:
    """Raise standard errors that are far below those of the nights before.

    A night weighs ``1 / s^2``: one with an error of nearly 0 would be the whole level, and differ
    from it by any number of errors. So s is at least half the median of the nights before; of the
    first `LEARNING` nights, half the median of these nights.

    Parameters
    ----------
    errors : ndarray of float64, shape (nights,)
        Standard errors, finite and above 0.

    Returns
    -------
    ndarray of float64, shape (nights,)

    Examples
    --------
    >>> errors = np.full(20, 0.05)
    >>> errors[[3, 17]] = 0.001
    >>> steady_errors(errors)[[2, 3, 17]].tolist()
    [0.05, 0.025, 0.025]
    """
    result = errors.copy()
    first = errors[:LEARNING]
    result[:LEARNING] = np.maximum(first, _LEAST_ERROR * np.median(first) if len(first) else 0.0)
    before = sorted(first.tolist())
    for night, error in enumerate(errors[LEARNING:].tolist(), LEARNING):
        median = (before[(night - 1) // 2] + before[night // 2]) / 2
        result[night] = max(error, _LEAST_ERROR * median)
        insort(before, error)
    return result


def winsorise(residuals: np.ndarray) -> np.ndarray:
    """Limit normal numbers to two deviations, scaled to variance 1.

    The results are at most 2.085. One night adds at most this much to a chart, and numbers of
    heavier tails pass a limit less often than normal ones.

    Parameters
    ----------
    residuals : ndarray of float64

    Returns
    -------
    ndarray of float64

    Examples
    --------
    >>> winsorise(np.array([-9.0, 0.0, 1.0, 2.0])).round(3).tolist()
    [-2.085, 0.0, 1.042, 2.085]
    """
    return np.clip(residuals, -_LARGEST, _LARGEST) / _SPREAD


def recursive_residuals(differences: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Compare each difference with all before it, in standard deviations.

    Night t has the difference d and the standard error s. With weights ``1 / s^2``, the mean of the
    nights before it is M, and the sum of weights is P. The residual is
    ``(d - M) / sqrt(s^2 + 1 / P)``. It is divided by the root mean square of the residuals before
    it, so that nights may differ more, or less, than their standard errors say. Then Student's t is
    turned into a normal number by Wallace's formula.

    Adding a constant to all differences, or multiplying differences and errors by a positive
    number, changes nothing.

    Parameters
    ----------
    differences : ndarray of float64, shape (nights,)
        Ascending by night, finite.
    errors : ndarray of float64, shape (nights,)
        Standard errors, finite and above 0.

    Returns
    -------
    ndarray of float64, shape (nights,)
        NaN for the first night, and for all where there are no more than `LEARNING`. The first
        `LEARNING` nights are divided by their own root mean square. Of independent normal
        differences with one mean, whose standard deviations are proportional to `errors`, the
        later nights are independent and standard normal; the formula for t is exact to 0.03 within
        5, and 0.14 within 12.

    References
    ----------
    Brown, Durbin & Evans (1975), doi:10.1111/j.2517-6161.1975.tb01532.x; Hawkins (1987),
    Self-starting CUSUM charts for location and scale, The Statistician 36, 299-316; Wallace (1959),
    Bounds on normal approximations to Student's and the chi-square distributions, Annals of
    Mathematical Statistics 30, 1121-1130.

    Examples
    --------
    >>> night = np.arange(16)
    >>> differences = np.where(night % 2, 0.01, 0.03)
    >>> differences[15] = 0.12
    >>> recursive_residuals(differences, np.full(16, 0.01))[14:].round(1).tolist()
    [0.9, 5.2]
    """
    nights = len(differences)
    result = np.full(nights, math.nan)
    if nights <= LEARNING:
        return result
    weights = (errors[0] / errors) ** 2
    shifted = differences - differences[0]
    total = np.cumsum(weights)
    mean = np.cumsum(weights * shifted) / total
    residuals = np.zeros(nights)
    residuals[1:] = shifted[1:] - mean[:-1]
    residuals[1:] /= errors[0] * np.sqrt(1 / weights[1:] + 1 / total[:-1])
    # A large change would soon be usual: old residuals bound what new ones add to the scale.
    last = np.maximum(np.arange(nights - LEARNING), LEARNING) - 1
    bounds = _BOUND * np.sqrt(np.cumsum(residuals**2)[last] / last)
    bounded = np.append(residuals[:LEARNING], np.clip(residuals[LEARNING:], -bounds, bounds))
    degrees = np.arange(LEARNING - 1, nights - 1, dtype=np.float64)
    squares = np.cumsum(bounded**2)[LEARNING - 1 : -1]
    scale = np.maximum(np.sqrt(squares / degrees), _LEAST_SCALE)
    result[1:LEARNING] = residuals[1:LEARNING] / scale[0]
    t = residuals[LEARNING:] / scale
    normal = np.sqrt(degrees * log_each(1 + t * t / degrees))
    result[LEARNING:] = np.sign(t) * normal * (8 * degrees + 1) / (8 * degrees + 3)
    return result


def without_memory(residuals: np.ndarray) -> np.ndarray:
    """Remove the correlation of each residual with the one before it.

    The correlation c is estimated from the n residuals that are at least `LEARNING` nights old, so
    that a change is not taken for correlation. With w, the winsorised residuals, it is
    ``sum(w_t w_(t-1)) / sum(w_t^2) + 0.5 / sqrt(n)``: half a standard error above the estimate,
    because a correlation that is left costs more than one too many. It is cut to 0 to 0.8. Night t
    becomes ``(r_t - c w_(t-1)) / sqrt(1 - c^2)``, which is standard normal again.

    Parameters
    ----------
    residuals : ndarray of float64, shape (nights,)
        Of `recursive_residuals`, with more than `LEARNING` nights.

    Returns
    -------
    ndarray of float64, shape (nights - LEARNING,)
        The residuals after the first `LEARNING`. The first seven are as they were.

    References
    ----------
    Alwan & Roberts (1988), Time-series modeling for statistical process control, Journal of
    Business & Economic Statistics 6, 87-95.

    Examples
    --------
    >>> residuals = np.append(np.nan, np.tile([1.0, 1.0, -1.0, -1.0], 8))
    >>> without_memory(residuals)[-4:].round(2).tolist()
    [1.14, 0.82, -1.13, -0.83]
    """
    result = residuals[LEARNING:].copy()
    known = winsorise(residuals[1:])
    old = len(residuals) - LEARNING - _LEAST_MEMORY
    if old <= 0:
        return result
    products = np.cumsum(known[1:] * known[:-1])[_LEAST_MEMORY - 2 :][:old]
    squares = np.cumsum(known**2)[_LEAST_MEMORY - 1 :][:old]
    above = _ERRORS_ABOVE / np.sqrt(np.arange(_LEAST_MEMORY, _LEAST_MEMORY + old))
    memory = np.clip(ratio(products, squares, 0.0) + above, 0.0, _MOST_MEMORY)
    before = known[LEARNING + _LEAST_MEMORY - 2 : -1]
    result[_LEAST_MEMORY:] = (result[_LEAST_MEMORY:] - memory * before) / np.sqrt(1 - memory**2)
    return result


def correlation(sequences: Iterable[tuple[np.ndarray, np.ndarray]]) -> float:
    """Estimate the correlation of a night with the night before.

    ``sum(w_t w_(t-1)) / sum(w_t^2)`` over the winsorised residuals of all sequences.

    Parameters
    ----------
    sequences : iterable of (ndarray, ndarray)
        Differences and errors as in `recursive_residuals`, without a change. Those of fewer than 60
        nights are left out: their estimate has a standard error above 0.13.

    Returns
    -------
    float
        NaN without a sequence.

    Examples
    --------
    >>> slow = np.sin(np.arange(60) / 4)
    >>> round(correlation([(slow, np.full(60, 0.1))]), 2)
    0.97
    """
    products = squares = 0.0
    for differences, errors in sequences:
        if len(differences) >= _LEAST_CORRELATED:
            values = winsorise(recursive_residuals(differences, steady_errors(errors))[1:])
            products += math.fsum(values[1:] * values[:-1])
            squares += math.fsum(values**2)
    return products / squares if squares else math.nan


def sequence_limit(nights: np.ndarray, alpha: np.ndarray | float) -> np.ndarray:
    """Compute the half-width of the confidence sequence of a mean.

    ``sqrt((n r + 1) / (n^2 r) log((n r + 1) / alpha^2))`` of n values of variance 1, with r = 1/2.
    The mean over the values so far, less this half-width and plus it, contains the mean of their
    expectations for all n at once with probability ``1 - alpha``, even if each value has an
    expectation of its own.

    Parameters
    ----------
    nights : ndarray of int, shape (nights,)
        The numbers of values n, at least 1.
    alpha : float, or ndarray of float64, shape (nights,)
        Error probability, above 0 and at most 1.

    Returns
    -------
    ndarray of float64, shape (nights,)

    References
    ----------
    Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2024), Time-uniform central limit theory and
    asymptotic confidence sequences, doi:10.1214/24-AOS2408, arXiv:2103.06476; Robbins (1970),
    doi:10.1214/aoms/1177696786.

    Examples
    --------
    >>> sequence_limit(np.array([1, 30, 365]), 0.05).round(3).tolist()
    [4.381, 0.558, 0.176]
    """
    grown = nights * _MIXTURE + 1
    return np.sqrt(grown / (nights**2 * _MIXTURE) * (log_each(grown) - 2 * _log(alpha)))


def cusum(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the upper and the lower cumulative sum of a two-sided CUSUM.

    Each night, ``upper = max(0, upper + value - 0.55)``, ``lower = max(0, lower - value - 0.55)``.

    Parameters
    ----------
    values : ndarray of float64, shape (nights,)
        Standard normal without a change.

    Returns
    -------
    tuple of ndarray of float64, shape (nights,)

    References
    ----------
    Page (1954), doi:10.1093/biomet/41.1-2.100.

    Examples
    --------
    >>> upper, lower = cusum(np.array([1.0, 2.0, -1.0, -2.0]))
    >>> upper.round(2).tolist(), lower.round(2).tolist()
    ([0.45, 1.9, 0.35, 0.0], [0.0, 0.0, 0.45, 1.9])
    """
    return _one_sided(values), _one_sided(-values)


def _one_sided(values: np.ndarray) -> np.ndarray:
    walk = np.cumsum(values - ALLOWANCE)
    return walk - np.minimum(np.minimum.accumulate(walk), 0.0)


def cusum_limit(alpha: np.ndarray | float) -> np.ndarray:
    """Compute the control limit of a two-sided CUSUM for `YEAR` nights.

    ``(log(2 YEAR / alpha) - 1.66) / 1.16569``. A one-sided sum passes the limit h in a night with
    probability ``exp(-(1.16569 h + 1.66))`` in the long run, if that is small. 1.16569 is the
    positive root r of ``E exp(r (w - 0.55)) = 1`` for a winsorised standard normal number w; 1.66
    is computed from the Markov chain of the sum. Both sides and all nights of a year together have
    the probability `alpha`.

    Parameters
    ----------
    alpha : float, or ndarray of float64
        Error probability of 365 nights, above 0 and at most 1.

    Returns
    -------
    ndarray of float64

    References
    ----------
    Siegmund (1985), Sequential analysis: tests and confidence intervals, chapters VIII and X,
    doi:10.1007/978-1-4757-1862-1; Brook & Evans (1972), An approach to the probability distribution
    of CUSUM run length, doi:10.1093/biomet/59.3.539.

    Examples
    --------
    >>> round(float(cusum_limit(0.04)), 3)
    6.993
    """
    return (_log(2 * YEAR) - _log(alpha) - _OVERSHOOT) / _ROOT


def _log(values: np.ndarray | float) -> np.ndarray:
    return log_each(np.asarray(values, np.float64))


@dataclass(frozen=True)
class Alarm:
    """A change that a chart has seen.

    Parameters
    ----------
    night : int
        The night of the alarm, from 0.
    start : int
        The most likely first night after the change (Hinkley, 1970).
    rises : bool
        Whether the differences are higher than before.
    before, after : float
        Mean difference of the nights before the change, and from it to the night of the alarm,
        weighted by ``1 / error^2``.
    nights : int
        Number of nights before the change.
    """

    night: int
    start: int
    rises: bool
    before: float
    after: float
    nights: int


def alarms(
    differences: np.ndarray, errors: np.ndarray, alpha: np.ndarray | float
) -> tuple[Alarm, ...]:
    """Find all changes of the mean of nightly differences.

    The CUSUM has 80 % of `alpha`, the confidence sequence 20 %. Errors are those of
    `steady_errors`. After an alarm everything begins anew with the next night: the new level is
    learned, and only another change is an alarm. Nights that are far from the median of the first
    nights are left out of the level: six scaled median absolute deviations.

    Parameters
    ----------
    differences, errors : ndarray of float64, shape (nights,)
        As in `recursive_residuals`.
    alpha : float, or ndarray of float64, shape (nights,)
        Probability of an alarm in 365 nights without a change, above 0 and at most 1. An array
        does not rise; it falls where more sequences are watched together.

    Returns
    -------
    tuple of Alarm
        Ascending by night.

    References
    ----------
    Hinkley (1970), doi:10.1093/biomet/57.1.1.

    Examples
    --------
    >>> night = np.arange(60)
    >>> differences = np.where(night % 2, 0.03, 0.01) - 0.02 * (night >= 40)
    >>> (alarm,) = alarms(differences, np.full(60, 0.01), 0.05)
    >>> alarm.night, alarm.start, alarm.rises, round(alarm.before, 3), round(alarm.after, 3)
    (48, 40, False, 0.02, -0.001)
    """
    alpha_by_night = np.broadcast_to(np.asarray(alpha, np.float64), differences.shape)
    errors = steady_errors(errors)
    result: list[Alarm] = []
    first = 0
    while len(differences) - first > LEARNING:
        usual = first + np.flatnonzero(_usual_nights(differences[first:], errors[first:]))
        alarm = _first_alarm(differences[usual], errors[usual], alpha_by_night[usual])
        if alarm is None:
            break
        night, start = (int(usual[index]) for index in (alarm.night, alarm.start))
        result.append(replace(alarm, night=night, start=start))
        first = night + 1
    return tuple(result)


def _usual_nights(differences: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Find the nights to use: all but outliers among the first."""
    usual = np.ones(len(differences), bool)
    learning = LEARNING
    # Each outlier is replaced by a later night.
    while True:
        distances = differences[:learning] - np.median(differences[:learning])
        distances = np.abs(distances) / errors[:learning]
        scale = max(_NORMAL * float(np.median(distances)), _LEAST_SCALE)
        usual[:learning] = distances <= _OUTLIER * scale
        needed = min(LEARNING + int(np.sum(~usual[:learning])), len(differences))
        if needed <= learning:
            return usual
        learning = needed


def _first_alarm(differences: np.ndarray, errors: np.ndarray, alpha: np.ndarray) -> Alarm | None:
    residuals = without_memory(recursive_residuals(differences, errors))
    values = winsorise(residuals)
    share = alpha[LEARNING:] * CUSUM_SHARE
    counts = np.arange(1, len(values) + 1)
    means = np.cumsum(values) / counts
    upper, lower = cusum(values)
    by_mean = np.abs(means) > sequence_limit(counts, alpha[LEARNING:] - share)
    is_alarm = by_mean | (np.maximum(upper, lower) > cusum_limit(share))
    if not is_alarm.any():
        return None
    at = int(np.argmax(is_alarm))
    rises = bool(means[at] > 0 if by_mean[at] else upper[at] > lower[at])
    # The sums of the last residuals, of one first. Winsorised ones would begin too early.
    tails = np.cumsum(residuals[at::-1]) * (1 if rises else -1)
    likelihood = np.maximum(tails, 0.0) ** 2 / counts[: at + 1]
    night = LEARNING + at
    start = night - int(np.argmax(likelihood))
    before, after = (
        float(np.average(differences[part], weights=(errors[0] / errors[part]) ** 2))
        for part in (slice(start), slice(start, night + 1))
    )
    return Alarm(night, start, rises, before, after, start)


#: Probability of an alarm in a year without a change, over all sequences together.
ALPHA = 0.05
#: Nights that are more correlated than this have more false alarms, and a note says so.
MOST_CORRELATION = 0.15
_VERBS = {"better": "got better", "worse": "got worse", "higher": "rose", "lower": "fell"}

#: A slicing and a key. Two slicings can have slices of one name.
_Key = tuple[str, Key]


@dataclass(frozen=True)
class _Sequence:
    """The differences of one model, slice and measure, ascending by date."""

    dates: Sequence[dt.date]
    differences: np.ndarray
    errors: np.ndarray

    def alarms(self, watched_since: Sequence[dt.date], alpha: float) -> tuple[Alarm, ...]:
        """Find the alarms of this sequence.

        Parameters
        ----------
        watched_since : sequence of datetime.date
            The first watched night of each sequence of the label, ascending.
        alpha : float
            Probability of an alarm in a year without a change, over these sequences together.
        """
        counts = np.array([max(1, bisect_right(watched_since, date)) for date in self.dates])
        return alarms(self.differences, self.errors, alpha / counts)

    def quiet(self, seen: Sequence[Alarm]) -> tuple[np.ndarray, np.ndarray]:
        """Return differences and errors after the last alarm."""
        first = seen[-1].night + 1 if seen else 0
        return self.differences[first:], self.errors[first:]


def judge_alarms(
    night: Night, gates: Settings, history: History, *, labels: int = 1
) -> tuple[list[GateOutcome], list[Finding], list[str]]:
    """Judge the sequences of differences that end with a night.

    A sequence has the differences of one model, slice and measure from the baseline. Nights of
    rows that did not pass the checks, without complete labels, of other conventions and of another
    baseline are left out. Each sequence has an equal share of `ALPHA`: it is divided by the number
    of sequences with enough nights so far, and by the number of labels with an alarm.

    Parameters
    ----------
    night : Night
        With its differences and quality.
    gates : Settings
    history : History
    labels : int
        Number of labels of the report with an alarm.

    Returns
    -------
    outcomes : list of GateOutcome
        One, which fails on the night of an alarm; empty if no alarm is set.
    findings : list of Finding
        An alarm of this night has a condition, and so fails the night, unless the change began
        before an earlier alarm of this model. Then it is the same change. An alarm of an earlier
        night has no condition; it is a finding until the new level is learned.
    notes : list of str
        One if the differences of neighbouring nights are correlated.
    """
    if gates.alarm is None:
        return [], [], []
    condition = f'alarm = "{gates.alarm}"'
    reasons = {
        f"alarm_since is {gates.alarm_since}": night.date < (gates.alarm_since or night.date),
        "the rows of this night did not pass the checks": night.quality.flags
        or not night.quality.rows,
        "the labels of this night are not complete": night.provisional,
    }
    reason = first_that_holds(reasons)
    sequences = {} if reason else _sequences(night, gates.alarm_since, history)
    most = max((len(one.dates) for one in sequences.values()), default=0)
    if most <= LEARNING:
        reason = (
            reason or f"history has {max(most - 1, 0)} of the {LEARNING} nights that levels need"
        )
        return [GateOutcome(condition, True, reason, exception=NOT_JUDGED)], [], []
    watched = {key: one for key, one in sequences.items() if len(one.dates) > LEARNING}
    since = sorted(one.dates[LEARNING] for one in watched.values())
    seen = {key: one.alarms(since, ALPHA / labels) for key, one in watched.items()}
    findings = _findings(night, watched, seen, condition)
    failing = [each for each in findings if each.condition]
    names = first_names([subject(night, each) for each in failing])
    outcome = GateOutcome(condition, not failing, "; ".join(names))
    return [outcome], findings, _notes(watched, seen)


def _notes(
    sequences: Mapping[_Key, _Sequence], seen: Mapping[_Key, tuple[Alarm, ...]]
) -> list[str]:
    memory = correlation(one.quiet(seen[key]) for key, one in sequences.items())
    if not memory > MOST_CORRELATION:
        return []
    return [
        f"alarms: the differences of a night and of the night before are correlated "
        f"({memory:.2f}, above {MOST_CORRELATION}), so more than 5 % of years without a change may "
        "have an alarm"
    ]


def _sequences(night: Night, since: dt.date | None, history: History) -> Mapping[_Key, _Sequence]:
    """Read the differences from the baseline up to a night."""
    nights = [
        earlier
        for earlier in history.read(since, night.date - dt.timedelta(days=1), kind="baseline")
        if earlier.status != "data_quality"
        and not earlier.provisional
        and earlier.baseline == night.baseline
        and not convention_differences(night, earlier)
    ]
    nights.append(replace(night, compared=tuple(comparison_rows(night, "baseline"))))
    sequences = {}
    for key, past in Series(nights, "compared", _key).by_key.items():
        numbers = np.array([(one.delta, one.se) if one else (np.nan, 0.0) for one in past]).T
        used = np.isfinite(numbers).all(axis=0) & (numbers[1] > 0)
        dates = [each.date for each, is_used in zip(nights, used, strict=True) if is_used]
        sequences[key] = _Sequence(dates, *numbers[:, used])
    return sequences


def _findings(
    night: Night,
    sequences: Mapping[_Key, _Sequence],
    alarms_by_key: Mapping[_Key, tuple[Alarm, ...]],
    condition: str,
) -> list[Finding]:
    seen = [
        (sequences[key].dates[alarm.night], key, alarm)
        for key, found in alarms_by_key.items()
        for alarm in found
    ]
    # The first alarms of changes, by model.
    leading: dict[str, list[dt.date]] = {}
    findings = []
    for date, key, alarm in sorted(seen, key=lambda each: each[0]):
        one = sequences[key]
        earlier = [day for day in leading.get(key[1].score, []) if day < date]
        known = any(
            one.dates[alarm.start] <= day and (date - day).days <= LEARNING for day in earlier
        )
        if not known:
            leading.setdefault(key[1].score, []).append(date)
        raised = date == night.date
        if raised or (one.dates[-1] == night.date and len(one.dates) - 1 - alarm.night < LEARNING):
            fails = raised and not known
            findings.append(_finding(night, key, one, alarm, condition if fails else ""))
    return findings


def _finding(night: Night, key: _Key, one: _Sequence, alarm: Alarm, condition: str) -> Finding:
    by, of = key
    date = one.dates[alarm.night]
    verdict = direction_of(1.0 if alarm.rises else -1.0, measure_of(of.measure))
    against = night.baseline or ""
    digits = digits_for(abs(alarm.after - alarm.before))
    after, before = (amount(one, digits, sign=True) for one in (alarm.after, alarm.before))
    sentence = (
        f"{subject(night, of)} {_VERBS[verdict]} against {against}: the mean difference is "
        f"{after}, and was {before} over {nights_text(alarm.nights)} before"
    )
    if date != night.date:
        sentence += f"; the alarm was on {day_text(str(date), night.date)}"
    finding = Finding(
        "alarm",
        condition,
        *(of.score, by, of.slice, of.measure),
        compared="baseline",
        against=against,
        verdict=verdict,
        limit=alarm.before,
        number=alarm.after,
        detail=sentence,
        since=one.dates[alarm.start],
        nights=len(one.dates) - alarm.start,
    )
    return finding.with_numbers(night.value_of(of), None)


def _key(one: NightDifference) -> _Key:
    return one.by or "", Key.of(one)
