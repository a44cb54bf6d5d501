"""The lock of the interpreter: what is recorded, on few rows, and what is calculated from it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from bench.cores import CASES
from bench.lock import THREADS, Held, Recording, compiled, main, report, speed_up

MACHINE = {"cpu": "Example 9000", "cores": 2, "system": "Linux", "python": "3.11", "versions": {}}


def recording(spans: list[float], before: float = 0.0, after: float = 0.0) -> Recording:
    """Spans with the lock and without it, in turns; the first and the last are with the lock."""
    times = np.cumsum([0.0, *spans])
    return Recording(times, (before, float(times[-1]) - after), 0.0)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("held, most", [(0.0, 100), (1.0, 4), (3.0, 4 / 3)])
def test_speed_up__is_limited_by_the_share_with_the_lock(
    threads: int, held: float, most: float
) -> None:
    """A share of 1/4 with the lock keeps any number of threads below 4."""
    one = recording([held, 4.0 - held] * (64 * 100) + [0.0])
    assert speed_up(one.seconds, one, threads) == pytest.approx(min(threads, most), rel=0.02)


def test_speed_up__of_work_before_and_after__is_limited_by_it() -> None:
    one = recording([5.0, 0.0] + [0.0, 1.0] * 90 + [5.0], before=5.0, after=5.0)
    assert speed_up(one.seconds, one, 9) == pytest.approx(100 / 20)
    assert speed_up(2 * one.seconds, one, 9) == pytest.approx(10), "alone it took twice as long"
    alone = recording([5.0, 5.0, 0.0], before=10.0)
    assert speed_up(10.0, alone, 8) == pytest.approx(1.0), "nothing is shared"


def test_report__has_each_case_beside_what_was_measured() -> None:
    speed_ups = [4.0, 8.0, 15.0, 20.5, None]
    held = Held("sorted", "GAUC", 10**7, 0.02, 0.0425, 12.0, 10**8, speed_ups)
    lines = report(MACHINE, [held, held._replace(measures="own", held=0.3, bytes=None)]).split("\n")
    assert "| sorted | GAUC | 2.00 | 4.2% | ≤ 5% | yes | 12.0 | 6.00 | 67 |" in lines
    assert "| sorted | own | 2.00 | 30.0% | ≤ 5% | **no** | - | - | - |" in lines
    calculated = "| sorted | GAUC | 100,000,000 | calculated | 4.00 | 8.00 | 15.00 | 20.50 | - |"
    measured = lines[lines.index(calculated) + 1]
    assert measured.startswith("| sorted | GAUC | 100,000,000 | measured | ")
    assert [line[-15:] for line in lines if "32 threads: " in line] == ["| 20.50 | yes |"]


@pytest.mark.lasts("nine cases, seven times each, in a fresh process")
def test_main__of_few_rows__has_all_cases(tmp_path: Path) -> None:
    if compiled(tmp_path) is None:
        pytest.skip("needs Linux and a C compiler")
    page = tmp_path / "LOCK.md"
    main(["--rows", "2000", "--output", str(page)])
    text = page.read_text(encoding="utf-8")
    if "Not measured" in text:
        pytest.skip("needs a Python whose functions are in a library")
    assert text.count(" | calculated | ") == len(CASES) + 1
    shares = re.findall(r" ([\d.]+)% \| ≤ ", text)
    assert len(shares) == len(CASES)
    assert all(0 < float(share) < 100 for share in shares)


def test_main__without_a_compiler__says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    main(["--output", str(tmp_path / "LOCK.md")])
    assert "Not measured: " in (tmp_path / "LOCK.md").read_text(encoding="utf-8")
