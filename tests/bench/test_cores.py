"""The benchmark of threads, on few rows."""

from __future__ import annotations

import pytest

from bench.cores import CASES, impressions, report


def test_impressions__are_sorted_rows_of_whole_columns() -> None:
    log = impressions(10_000)
    users, clicks = (log[name].to_numpy() for name in ("user", "click"))
    assert log.num_rows == 10_000
    assert (users[1:] >= users[:-1]).all()
    assert 0.03 < clicks.mean() < 0.07
    assert log.equals(impressions(10_000))


@pytest.mark.lasts("seven cases, six times each")
def test_report__has_a_line_for_each_case_and_number_of_threads() -> None:
    lines = [line.split(" | ") for line in report(5_000, [1, 2]).splitlines() if "5,000 |" in line]
    shuffled = [one for one in CASES if one[0] == "shuffled"]
    assert len(lines) == 2 * (len(CASES) - len(shuffled))
    assert {line[3] for line in lines} == {"1", "2"}
    assert all(line[5] == "1.00" for line in lines if line[3] == "1")
