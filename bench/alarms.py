"""False and true alarms in a year of nights: ``python -m bench.alarms``, writes bench/ALARMS.md.

A year has 42 sequences of nightly differences: two measures on all rows and on 20 slices, whose
sizes fall as 1 / rank. Measures are correlated, and all rows are the sum of the slices. Volumes
depend on weekday and night, standard errors are estimates, and small slices have skewed
differences. Each sequence has a level of its own. Scenarios have nights of heavy tails, outliers,
odd errors or correlation. Random numbers are functions of scenario, year and place (Philox).
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import numpy as np

from bench.tables import table
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.elementary import log_each
from fastrank_eval.apps.nightly.alarms import YEAR, alarms
from fastrank_eval.stats.bootstrap import random_words
from fastrank_eval.stats.intervals import normal_quantile

_FILE = Path(__file__).with_name("ALARMS.md")
_ALPHA = 0.05
#: Slices, their shares of the groups, and the groups of a night.
_SLICES, _GROUPS = 20, 20_000
_SHARES = (1 / np.arange(1, _SLICES + 1)) / np.sum(1 / np.arange(1, _SLICES + 1))
SERIES = 2 * (1 + _SLICES)
#: The levels of both rules for one night: corrected for the number of sequences, and not.
_LEVELS = (_ALPHA / SERIES, _ALPHA)
_WEEK = np.array([1.0, 0.95, 0.95, 1.0, 1.1, 1.3, 1.25])
#: The correlation of both measures, the skewness of one group, and groups for each degree of
#: freedom of a standard error.
_CORRELATION, _SKEWNESS, _GROUPS_A_DEGREE = 0.7, 3.0, 10
#: Quiet nights before a change; its name, its size in standard errors of a night, and its growth by
#: night.
QUIET = (30, 90, 180)
CHANGES = (("1", 1, 0.0), ("2", 2, 0.0), ("4", 4, 0.0), ("drift of 1 in 30 nights", 0, 1 / 30))
#: The stream of random words; the package uses the first three.
_STREAM = 100
_NONE = "-"


@dataclass(frozen=True)
class Scenario:
    """How nights without a change differ, in standard errors of a night.

    Parameters
    ----------
    name : str
    extra : float
        Variation from night to night beyond the standard error.
    week : float
        Half the swing of a week.
    memory : float
        Correlation of a night with the night before.
    tail : int
        Degrees of freedom of Student's t, scaled to variance 1; 0: normal.
    outliers : float
        Probability of a night with four times the deviation.
    odd : float
        The standard error of one night of each sequence, as a share of what it should be.
    """

    name: str
    extra: float = 0.0
    week: float = 0.0
    memory: float = 0.0
    tail: int = 0
    outliers: float = 0.0
    odd: float = 1.0


PLAIN = Scenario("independent nights")
SCENARIOS = (
    PLAIN,
    Scenario("Student's t with 3 degrees of freedom", tail=3),
    Scenario("Student's t with 5 degrees of freedom", tail=5),
    Scenario("2 % of nights with four times the deviation", outliers=0.02),
    Scenario("one night with a fiftieth of its standard error", odd=0.02),
    Scenario("nights vary by 1.4 standard errors", extra=1.0),
    Scenario("a weekly pattern of ±1 standard error", week=1.0),
    Scenario("stress: correlation 0.1 with the night before", memory=0.1),
    Scenario("stress: correlation 0.2 with the night before", memory=0.2),
    Scenario("stress: correlation 0.3 with the night before", memory=0.3),
    Scenario("stress: correlation 0.5 with the night before", memory=0.5),
)


@dataclass(frozen=True)
class Year:
    """Differences of a year around their levels, all of shape (nights, sequences)."""

    movements: np.ndarray
    errors: np.ndarray
    levels: np.ndarray

    @property
    def differences(self) -> np.ndarray:
        """What a report sees."""
        return self.levels + self.movements


def normals(name: str, year: int, count: int) -> np.ndarray:
    """Return independent standard normal numbers (Box & Muller)."""
    words = np.empty((4, -(-count // 2)), np.uint32)
    ids = np.arange(words.shape[1], dtype=np.uint64) + (np.uint64(year) << np.uint64(32))
    random_words(ids, 0, _STREAM, zlib.crc32(name.encode()), words)
    first, second = (words[:2] + 0.5) / 2.0**32
    radius, angle = np.sqrt(-2 * log_each(first)), 2 * np.pi * second
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def year_of(scenario: Scenario, year: int) -> Year:
    """Draw a year without a change."""
    nights = np.arange(YEAR)
    drawn = normals(scenario.name, year, YEAR * (3 * SERIES + 1) + SERIES)
    noise, extra, estimate = drawn[: 3 * YEAR * SERIES].reshape(3, YEAR, SERIES)
    volume, level = np.split(drawn[3 * YEAR * SERIES :], [YEAR])
    total = (_GROUPS * np.exp(0.15 * volume) * _WEEK[nights % 7])[:, None]
    groups = np.hstack([total, total * _SHARES])
    noise = _with_memory(noise, scenario.memory)
    one, own = noise[:, :_SLICES], noise[:, _SLICES : 2 * _SLICES]
    other = _CORRELATION * one + np.sqrt(1 - _CORRELATION**2) * own
    movements = np.hstack([_with_all_rows(each, groups[:, 1:]) for each in (one, other)])
    counts = np.hstack([groups, groups])
    errors = 1 / np.sqrt(counts)
    movements = movements * _deviations(scenario, year)
    wave = np.sqrt(2) * np.sin(2 * np.pi * nights / 7)[:, None]
    movements = movements + errors * (scenario.extra * extra + scenario.week * wave)
    # Wilson & Hilferty: the cube root of a chi-squared number is normal.
    spread = 2 * _GROUPS_A_DEGREE / (9 * counts)
    estimated = errors * np.sqrt((1 - spread + estimate * np.sqrt(spread)) ** 3)
    if scenario.odd != 1:
        estimated[odd_nights(scenario, year), np.arange(SERIES)] *= scenario.odd
    return Year(movements, estimated, np.broadcast_to(2 * level * errors.mean(0), errors.shape))


def _deviations(scenario: Scenario, year: int) -> np.ndarray:
    """Return the deviation of each night of each sequence, in usual ones."""
    if scenario.tail:
        drawn = normals(f"{scenario.name}: tail", year, scenario.tail * YEAR * SERIES)
        squares = np.sum(drawn.reshape(scenario.tail, YEAR, SERIES) ** 2, axis=0)
        return np.sqrt((scenario.tail - 2) / squares)
    if scenario.outliers:
        drawn = normals(f"{scenario.name}: outliers", year, YEAR * SERIES).reshape(YEAR, SERIES)
        return np.where(drawn > normal_quantile(1 - 2 * scenario.outliers), 4.0, 1.0)
    return np.ones((YEAR, SERIES))


def odd_nights(scenario: Scenario, year: int) -> np.ndarray:
    """Draw a night of each sequence."""
    drawn = normals(f"{scenario.name}: odd", year, YEAR * SERIES).reshape(YEAR, SERIES)
    return drawn.argmax(0)


def _with_all_rows(noise: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the mean over all rows, then those of the slices, skewed as means of groups are."""
    skewed = noise + _SKEWNESS / np.sqrt(groups) * (noise**2 - 1) / 6
    means = skewed / np.sqrt(groups)
    return np.hstack([(means * _SHARES).sum(1, keepdims=True), means])


def _with_memory(noise: np.ndarray, memory: float) -> np.ndarray:
    """Correlate each night with the one before; each stays standard normal."""
    result = noise.copy()
    for night in range(1, len(noise)):
        result[night] = memory * result[night - 1] + np.sqrt(1 - memory**2) * noise[night]
    return result


def first_alarm(differences: np.ndarray, errors: np.ndarray) -> int:
    """Return the first night with an alarm, or the number of nights."""
    found = alarms(differences, errors, _ALPHA / SERIES)
    return found[0].night if found else len(differences)


def false_alarms(scenario: Scenario, years: int) -> list[str]:
    """Count the years without a change that have an alarm, and by two rules for one night."""
    watched, of_rules = 0, []
    for number in range(years):
        year = year_of(scenario, number)
        columns = zip(year.differences.T, year.errors.T, strict=True)
        watched += any(first_alarm(*column) < YEAR for column in columns)
        largest = np.abs(year.movements / year.errors).max(1)
        of_rules.append([(largest > normal_quantile(1 - level)).sum() for level in _LEVELS])
    nights = np.array(of_rules)
    shares, means = (nights > 0).mean(0), nights.mean(0)
    cells = [f"{share:.1%} ({mean:.0f})" for share, mean in zip(shares, means, strict=True)]
    return [scenario.name, f"{watched / years:.1%}", *cells]


def true_alarms(quiet: int, change: tuple[str, float, float], years: int) -> list[str]:
    """Count the nights until a change of one slice is seen, by each rule."""
    name, step, growth = change
    nights = np.arange(YEAR)
    after = nights >= quiet
    sizes = after * (step + growth * (nights - quiet + 1))
    seen: list[list[int]] = [[], [], []]
    place = 5
    for number in range(years):
        year = year_of(PLAIN, number)
        moved = sizes * year.errors[:, place].mean()
        errors = year.errors[:, place]
        differences = year.differences[:, place] + moved
        seen[0].append(first_alarm(differences, errors))
        z = np.abs(year.movements[:, place] + moved) / errors
        for rule, level in enumerate(_LEVELS, 1):
            beyond = np.flatnonzero((z > normal_quantile(1 - level)) & after)
            seen[rule].append(int(beyond[0]) if len(beyond) else YEAR)
    cells = []
    for found in seen:
        # An alarm before the change is false, and counts as none.
        waits = np.array(
            [night - quiet + 1 if quiet <= night < YEAR else np.inf for night in found]
        )
        middle, late = np.quantile(waits, (0.5, 0.9), method="higher")
        cells.append(f"{_nights(middle)} ({_nights(late)})")
    return [name, f"{quiet}", *cells]


def _nights(number: float) -> str:
    return f"{number:.0f}" if np.isfinite(number) else _NONE


def page(years: int, scenarios: int = len(SCENARIOS)) -> str:
    """Simulate, and write the page."""
    rules = ["`alarm`", "p < 0.05 tonight, corrected", "p < 0.05 tonight"]
    rows = [false_alarms(scenario, years) for scenario in SCENARIOS[:scenarios]]
    waits = [true_alarms(quiet, change, years) for quiet in QUIET for change in CHANGES]
    return (
        "# Alarms in a year of nights\n\n"
        f"Written by `python -m bench.alarms`: {years:,} simulated years a row, each of {SERIES} "
        "sequences: two measures on all rows and on 20 slices.\n\n"
        "Years without a change that have an alarm, and in parentheses how many nights of a year "
        "a rule for one night finds. *Corrected* is for the number of sequences of a night (Holm). "
        "Both rules for one night know the true level, which a report does not.\n\n"
        + table(["nights", *rules], rows, "lrrr")
        + "\n\nNights until a change of one slice is seen: the median, and in parentheses the "
        f"number that suffices in 90 % of years ({_NONE}: not seen in the year). The change is in "
        "standard errors of a night.\n\n"
        + table(["change", "quiet nights before", *rules], waits, "lrrrr")
        + "\n"
    )


def main() -> None:
    """Write bench/ALARMS.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=1000)
    arguments = parser.parse_args()
    text = page(arguments.years)
    print(text)
    _FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
