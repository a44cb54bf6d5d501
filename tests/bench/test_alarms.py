"""The simulation of alarms: years that repeat, what they are made of, and the page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from bench.alarms import (
    CHANGES,
    PLAIN,
    QUIET,
    SCENARIOS,
    SERIES,
    Scenario,
    false_alarms,
    normals,
    page,
    true_alarms,
    year_of,
)
from fastrank_eval.stats.sequences import YEAR

PAGE = (Path(__file__).parents[2] / "bench" / "ALARMS.md").read_text(encoding="utf-8")


def test_year__is_a_function_of_scenario_and_number() -> None:
    first, again, other = (year_of(PLAIN, number) for number in (3, 3, 4))
    assert first.differences.shape == first.errors.shape == (YEAR, SERIES)
    assert (first.differences == again.differences).all()
    assert (first.differences != other.differences).all()
    assert (first.movements != year_of(SCENARIOS[1], 3).movements).all()
    drawn = normals("name", 1, 100_000)
    assert abs(drawn.mean()) < 0.01
    assert abs(drawn.std() - 1) < 0.01
    assert abs(np.corrcoef(drawn[:50_000], drawn[50_000:])[0, 1]) < 0.02


@pytest.mark.parametrize(
    "scenario,spread,memory",
    [
        (PLAIN, 1.0, 0.0),
        (Scenario("more", extra=1.0), 2**0.5, 0.0),
        (Scenario("weekly", week=1.0), 2**0.5, None),
        (Scenario("stress", memory=0.5), 1.0, 0.5),
    ],
)
def test_nights__have_the_spread_and_memory_of_their_scenario(
    scenario: Scenario, spread: float, memory: float | None
) -> None:
    year = year_of(scenario, 1)
    z = year.movements / year.errors
    # Errors have the factor of their estimate, all rows that of their slices.
    slices = np.r_[1 : SERIES // 2, SERIES // 2 + 1 : SERIES]
    assert z[:, slices].std() == pytest.approx(spread, rel=0.05)
    if memory is not None:
        assert np.mean(z[1:] * z[:-1]) / np.mean(z**2) == pytest.approx(memory, abs=0.05)
    both = np.corrcoef(z[:, 1], z[:, SERIES // 2 + 1])[0, 1]
    assert 0.2 < both < 0.95


def test_simulation__of_some_years__has_few_false_alarms_and_sees_a_change() -> None:
    name, watched, corrected, uncorrected = false_alarms(PLAIN, 20)
    assert name == PLAIN.name
    assert float(watched.removesuffix("%")) <= 15
    assert corrected.startswith("100.0% (")
    assert uncorrected.startswith("100.0% (3")
    change, quiet, waits, *_ = true_alarms(90, CHANGES[2], 20)
    assert (change, quiet) == ("4", "90")
    assert int(waits.partition(" ")[0]) <= 7


def test_page__in_the_repository__keeps_the_promise_and_has_every_row() -> None:
    """Nominal are 5 %; 1,000 years leave three standard errors of 0.7 %."""
    assert "1,000 simulated years a row" in PAGE
    shares = dict(re.findall(r"^\| ([^|]+) \| ([\d.]+)% \|", PAGE, re.MULTILINE))
    assert shares.keys() == {scenario.name for scenario in SCENARIOS}
    kept = [scenario.name for scenario in SCENARIOS if not scenario.memory]
    assert max(float(shares[name]) for name in kept) <= 6.5
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \|", PAGE, re.MULTILINE)
    assert rows == [(name, str(quiet)) for quiet in QUIET for name, *_ in CHANGES]


def test_page__of_few_years__has_the_form_of_the_one_in_the_repository() -> None:
    def form(text: str) -> str:
        return re.sub(r"[\d.,]+|(?<=[ (])-(?=[ )])", "#", text)

    assert form(page(2)) == form(PAGE)
