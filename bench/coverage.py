"""How often 95 % intervals hold the truth: ``python -m bench.coverage``, writes bench/COVERAGE.md.

Logs are drawn whose group sizes have a heavy tail and whose effects grow with the size of a group,
evaluated and compared as slices of one table. Two models of equal worth tell how often `compare`
sees a difference that is not there. ``--noise`` compares a model with itself rescored by noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastrank_eval as fe

MEASURES = ("GAUC", "AUC(se='clustered')", "LogLoss", "NE")
OF_NOISE = ("LogLoss", "Brier", "NE", "PCOC", "MSE", "GAUC", "AUC(se='clustered')")
#: Names of the laws of group sizes.
SIZES = ("Pareto(1.5), at most 1,000", "log-normal, sigma 0.7", "log-normal, sigma 1")
GROUPS = (200, 500, 2000)
#: Logs that are slices of one table.
_TOGETHER = 100
_SEED = 7
_COLUMNS: dict[str, Any] = {
    "group": "user",
    "label": "click",
    "order": "grouped",
    "keep": "",
}
_FILE = Path(__file__).with_name("COVERAGE.md")


def sizes_of(random: np.random.Generator, law: str, groups: int) -> np.ndarray:
    """Draw the rows of each group."""
    if law == SIZES[0]:
        return np.minimum(np.floor((1 - random.random(groups)) ** (-1 / 1.5)), 1000).astype(int)
    sigma = float(law.rpartition(" ")[2])
    return np.maximum(np.rint(np.exp(random.normal(1.5, sigma, groups))), 1).astype(int)


def logistic(x: np.ndarray) -> np.ndarray:
    """Turn log odds into probabilities."""
    return 1 / (1 + np.exp(-x))


def log_of(random: np.random.Generator, law: str, groups: int) -> dict[str, np.ndarray]:
    """Draw a log whose click rate and order grow with the size of a user; two equal models."""
    sizes = sizes_of(random, law, groups)
    user = np.repeat(np.arange(groups), sizes)
    rate = 0.3 * np.log(sizes) - 2 + random.normal(0, 0.5, groups)
    skill = 1 + 0.25 * np.log(sizes) + random.normal(0, 0.4, groups)
    quality = random.normal(size=len(user))
    click = random.random(len(user)) < logistic(rate[user] + skill[user] * quality)
    log = {"user": user, "click": click}
    for name in ("one", "other"):
        wrong = random.normal(0, 0.3, groups)[user] + random.normal(0, 0.5, len(user))
        log[name] = logistic(quality - 2 + wrong)
    return log


def coverage(law: str, groups: int, repetitions: int) -> Iterator[tuple[object, ...]]:
    """Yield a row for each measure: coverage, warnings, and differences that are not there."""
    random = np.random.default_rng(_SEED)
    large = log_of(np.random.default_rng(_SEED + 1), law, 2_000_000)
    truth = fe.evaluate(
        large, score="one", measures=[m.split("(")[0] for m in MEASURES], **_COLUMNS
    )
    held: dict[str, list[tuple[bool, bool]]] = {m: [] for m in MEASURES}
    seen: dict[str, list[bool]] = {m: [] for m in MEASURES}
    for _ in range(repetitions // _TOGETHER):
        log = log_of(random, law, groups * _TOGETHER)
        log["study"] = log["user"] // groups
        for line in fe.evaluate(log, score="one", measures=MEASURES, by="study", **_COLUMNS):
            if line.by is not None:
                value = truth.value(line.measure.split("(")[0])
                inside = line.ci_low <= value <= line.ci_high
                held[line.measure].append((inside, line.warning == "few_groups"))
        for compared in fe.compare(
            log, score=["one", "other"], baseline="one", measures=MEASURES, by="study",
            correction="none", **_COLUMNS,
        ):  # fmt: skip
            if compared.by is not None:
                seen[compared.measure].append(compared.p_value <= 0.05)
    for measure in MEASURES:
        inside, warning = np.array(held[measure]).T
        misses = f"{np.mean(warning[~inside]):.0%}" if not inside.all() else "none"
        yield (
            law, f"{groups:,}", measure, f"{np.mean(inside):.1%}", f"{np.mean(warning):.0%}",
            misses, f"{np.mean(seen[measure]):.1%}",
        )  # fmt: skip


def noise(eps: float, repetitions: int) -> tuple[object, ...]:
    """Compare 300 users' scores with the same rescored by noise of a relative size."""
    seen: dict[str, list[bool]] = {m: [] for m in OF_NOISE}
    for part in range(repetitions // _TOGETHER):
        random = np.random.default_rng([_SEED, part])
        users = 300 * _TOGETHER
        user = np.repeat(np.arange(users), random.integers(5, 60, users))
        one = logistic(random.normal(-1.5, 1, len(user)))
        log = {"user": user, "click": random.random(len(user)) < one, "one": one}
        log["other"] = np.clip(one * (1 + eps * random.standard_normal(len(user))), 0, 1)
        log["study"] = user // 300
        for line in fe.compare(
            log, score=["one", "other"], baseline="one", measures=OF_NOISE, by="study",
            correction="none", **_COLUMNS,
        ):  # fmt: skip
            if line.by is not None:
                seen[line.measure].append(line.p_value <= 0.05)
    return (f"{eps:.0e}", *(f"{np.mean(seen[m]):.1%}" for m in OF_NOISE))


def table(names: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Write rows as a table of markdown."""
    lines = [names, tuple("---" for _ in names), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def main() -> None:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--laws", type=int, default=len(SIZES), help="of how many laws of sizes")
    parser.add_argument("--noise", action="store_true", help="rescoring noise too")
    arguments = parser.parse_args()
    rows = []
    for law in SIZES[: arguments.laws]:
        for groups in GROUPS:
            rows += list(coverage(law, groups, arguments.repetitions))
            print(*rows[-len(MEASURES) :], sep="\n", flush=True)
    text = (
        "# Coverage of 95 % intervals\n\n"
        f"Written by `python -m bench.coverage`: {arguments.repetitions:,} logs a row. Effects "
        "grow with the size of a group. *Warning* is `few_groups`; *of misses*, how many of the "
        "intervals that miss the truth have it; *equal models*, how often `compare` sees a "
        "difference at 5 %.\n\n"
        + table(
            ("sizes of groups", "groups", "measure", "coverage", "warning", "of misses",
             "equal models"), rows,
        )
    )  # fmt: skip
    if arguments.noise:
        values = [noise(10.0**-power, arguments.repetitions) for power in range(4, 14)]
        text += (
            "\n\nA model compared with itself rescored by noise of a relative size, 300 groups of "
            "5 to 59 rows: differences at 5 %.\n\n" + table(("noise", *OF_NOISE), values)
        )
    _FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
