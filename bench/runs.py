"""A run of the benchmark as pytest-benchmark wrote it: the machine and every case."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["Case", "Run", "read_run"]


@dataclass(frozen=True)
class Case:
    """One case of the benchmark.

    Parameters
    ----------
    info : dict
        What the case said of itself: kind, rows, threads, measures ...
    seconds : float
        Median wall time of a round.
    fastest : float
        Wall time of the fastest round.
    cpu : float or None
        Median processor time of a round, all threads together.
    rounds : int
    """

    info: dict[str, Any]
    seconds: float
    fastest: float
    cpu: float | None
    rounds: int

    @property
    def mrows(self) -> float:
        """Million rows a second, by the median round."""
        return float(self.info["rows"]) / self.seconds / 1e6

    @property
    def fastest_mrows(self) -> float:
        """Million rows a second, by the fastest round."""
        return float(self.info["rows"]) / self.fastest / 1e6

    @property
    def cpu_mrows(self) -> float | None:
        """Million rows a second of processor time."""
        return float(self.info["rows"]) / self.cpu / 1e6 if self.cpu else None

    @property
    def bandwidth(self) -> float:
        """Bytes a second, by the median round."""
        return float(self.info["bytes"]) / self.seconds


@dataclass(frozen=True)
class Run:
    """One run of the benchmark: the machine and every case."""

    date: str
    machine: dict[str, Any]
    cases: tuple[Case, ...]

    def all(self, kind: str, **info: object) -> list[Case]:
        """Select the cases of a kind, in the order they ran."""
        wanted = {"kind": kind, **info}
        return [case for case in self.cases if wanted.items() <= case.info.items()]

    def one(self, kind: str, **info: object) -> Case | None:
        """Select a case; None if it did not run."""
        found = self.all(kind, **info)
        return found[0] if found else None

    def scaling(self, case: Case | None) -> float | None:
        """Speed of a case over that of the same case on one thread."""
        if case is None:
            return None
        same = ("kind", "input", "measures")
        shared = {name: case.info[name] for name in same if name in case.info}
        single = self.one(**shared, threads=1)
        return single.seconds / case.seconds if single else None


def read_run(path: Path) -> Run:
    """Read what pytest-benchmark wrote.

    Parameters
    ----------
    path : Path
        Of its JSON.

    Returns
    -------
    Run
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    cases = []
    for entry in found["benchmarks"]:
        stats, info = entry["stats"], entry["extra_info"]
        cpu = median(info["cpu"]) if info.get("cpu") else None
        cases.append(Case(info, stats["median"], stats["min"], cpu, stats["rounds"]))
    date = str(found["datetime"]).partition("T")[0]
    return Run(date, found["machine_info"]["bench"], tuple(cases))
