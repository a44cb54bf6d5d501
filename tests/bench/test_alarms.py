"""The simulation of alarms: years that repeat, what they are made of, and the page."""

from __future__ import annotations

import re
from pathlib import Path

from bench.alarms import CHANGES, QUIET, SCENARIOS, page

PAGE = (Path(__file__).parents[2] / "bench" / "ALARMS.md").read_text(encoding="utf-8")


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
