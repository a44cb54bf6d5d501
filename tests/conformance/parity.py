"""What was compared with the tools themselves in this run, and the table written from it."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np
from numpy.typing import ArrayLike

import fastrank_eval
from fastrank_eval.engine.conventions import PROFILES
from fastrank_eval.measures import measure
from tests.conformance.samples import Sample
from tests.support.tables import evaluate

TOLERANCE = 1e-9
HEAD = """# Parity with other tools

Written by `make conformance PEERS=all` from its numbers; do not edit. Each tool was called on the
same rows as `fastrank_eval.evaluate(..., profile=...)`: random groups with ties, groups of one row,
groups of one class, lists shorter than k, negative and fractional grades where the tool takes them,
and real lists. A difference is relative where a value is above 1. It passes up to {tolerance:g}, or
up to what the tool's own precision allows, where that is coarser.

"Theirs" is how the tool names a measure, "ours" is the text to give to `measures=`, together with
`profile=`. Where a tool is known to do something else, its section says what.
"""


@dataclass
class Agreement:
    """One measure of one tool: how many values were compared, and the largest difference."""

    values: int = 0
    largest: float = 0.0


class Ledger:
    """Compares, and keeps what was compared."""

    def __init__(self) -> None:
        #: What a profile was compared with: a package, or in words what else there is.
        self.packages: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.notes: dict[str, list[str]] = defaultdict(list)
        self.tolerances: dict[str, float] = {}
        self.agreed: dict[str, dict[tuple[str, str], Agreement]] = defaultdict(dict)
        self.differs: dict[str, dict[str, tuple[str, float]]] = defaultdict(dict)

    def agree(
        self,
        profile: str,
        sample: Sample | str,
        ours: str,
        theirs: str,
        our_value: ArrayLike,
        their_value: ArrayLike,
    ) -> None:
        """Assert that values are equal within the profile's tolerance, NaN where theirs are NaN."""
        tolerance = self.tolerances.get(profile, TOLERANCE)
        a = np.atleast_1d(np.asarray(our_value, np.float64))
        b = np.atleast_1d(np.asarray(their_value, np.float64))
        name = sample if isinstance(sample, str) else sample.name
        np.testing.assert_allclose(
            a, b, rtol=tolerance, atol=tolerance, err_msg=f"{theirs} as {ours}, {name}"
        )
        kept = self.agreed[profile].setdefault((theirs, ours), Agreement())
        known = ~np.isnan(b)
        kept.values += int(known.sum())
        gaps = np.abs(a - b)[known] / np.maximum(1.0, np.abs(b[known]))
        kept.largest = max([kept.largest, *gaps.tolist()])

    def differ(
        self, profile: str, theirs: str, reason: str, our_value: float, their_value: float
    ) -> None:
        """Assert a difference that the profile tells: once it is gone, the profile is to change."""
        told = [text for text in PROFILES[profile].differs if reason in text]
        assert len(told) == 1, f"{reason!r} is in {len(told)} of the profile's differences"
        gap = abs(our_value - their_value)
        assert math.isnan(gap) or gap > 1e-6, f"{theirs} does not differ any more: {told[0]}"
        _, before = self.differs[profile].get(theirs, ("", 0.0))
        self.differs[profile][theirs] = (told[0], before if math.isnan(gap) else max(before, gap))

    def markdown(self) -> str:
        profiles = [name for name in PROFILES if name in self.agreed]
        lines = [HEAD.format(tolerance=TOLERANCE)]
        lines += ["## Profile by profile", "", *self._overview(profiles), ""]
        lines += ["## Measure by tool", ""]
        lines += ["| measure | " + " | ".join(f"`{name}`" for name in profiles) + " |"]
        lines += ["| --- |" + " --- |" * len(profiles)]
        by_measure: dict[str, dict[str, float]] = defaultdict(dict)
        for profile in profiles:
            for (_, ours), kept in self.agreed[profile].items():
                name = measure(ours).name
                largest = by_measure[name].get(profile, 0.0)
                by_measure[name][profile] = max(largest, kept.largest)
        for name in sorted(by_measure, key=str.lower):
            cells = [shown(by_measure[name].get(profile)) for profile in profiles]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines += [
            "",
            "The largest difference seen; empty: not compared, or the tool has no such measure.",
        ]
        for profile in profiles:
            lines += ["", *self._section(profile)]
        return "\n".join(lines) + "\n"

    def _source(self, profile: str) -> str:
        if profile in self.sources:
            return self.sources[profile]
        package = self.packages[profile]
        return f"{package} {version(package)}"

    def _overview(self, profiles: list[str]) -> list[str]:
        lines = [
            "| profile | compared with | measures | values | largest difference | passes up to |"
        ]
        lines += ["| --- " * 6 + "|"]
        for profile in profiles:
            agreed = self.agreed[profile]
            cells = [
                f"`{profile}`",
                self._source(profile),
                str(len({measure(ours).name for _, ours in agreed})),
                f"{sum(kept.values for kept in agreed.values()):,}",
                shown(max(kept.largest for kept in agreed.values())),
                f"{self.tolerances.get(profile, TOLERANCE):g}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
        return lines

    def _section(self, profile: str) -> list[str]:
        lines = [f"## `{profile}`: {self._source(profile)}", ""]
        for note in dict.fromkeys(self.notes[profile]):
            lines += [note, ""]
        lines += ["| theirs | ours | values compared | largest difference |", "| --- " * 4 + "|"]
        for (theirs, ours), kept in sorted(self.agreed[profile].items(), key=by_numbers):
            cells = [f"`{theirs}`", f"`{ours}`", f"{kept.values:,}", shown(kept.largest)]
            lines.append("| " + " | ".join(cells) + " |")
        shown_apart = self.differs[profile]
        reasons = [text for text, _ in shown_apart.values()]
        if shown_apart:
            lines += ["", "Differs, as this run showed:", ""]
            lines += [
                f"* `{theirs}`: {text}" + (f"; by up to {gap:.2g} here." if gap else ".")
                for theirs, (text, gap) in shown_apart.items()
            ]
        rest = [text for text in PROFILES[profile].differs if text not in reasons]
        if rest:
            lines += ["", "Differs, not run here:", "", *(f"* {text}." for text in rest)]
        return lines


def by_numbers(entry: tuple[tuple[str, str], Agreement]) -> list[list[str | int]]:
    """A key that puts @3 before @10."""
    return [
        [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]
        for text in entry[0]
    ]


def shown(gap: float | None) -> str:
    return "" if gap is None else "0" if gap == 0 else f"{gap:.0e}"


def evaluated(
    sample: Sample,
    profile: str,
    measures: list[str],
    *,
    weight: ArrayLike | None = None,
    **options: object,
) -> fastrank_eval.Result:
    """Our report on a sample; `weight` becomes a column of that name, one value a group."""
    table = sample.table
    if weight is not None:
        table = table.append_column("w", [np.repeat(np.asarray(weight, np.float64), sample.sizes)])
    return evaluate(table, list(dict.fromkeys(measures)), item="item", profile=profile, **options)
