"""How often 95 % intervals hold the truth: ``python -m bench.coverage``, writes bench/COVERAGE.md.

Logs are drawn whose group sizes have a heavy tail and whose effects grow with the size of a group,
evaluated and compared as slices of one table. Two models of equal worth tell how often `compare`
sees a difference that is not there. ``--noise`` compares a model with itself rescored by noise.
``--nested`` draws queries of users, with and without ``cluster``, and writes only that part anew.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastrank_eval as fe

MEASURES = ("GAUC", "AUC(se='clustered')", "LogLoss", "NE")
OF_NESTED = ("GAUC", "nDCG@5", "AUC(se='clustered')", "LogLoss", "NE", "Brier")
TESTS = ("clustered_t", "paired_t", "sign", "wilcoxon", "randomisation", "bootstrap")
OF_NOISE = ("LogLoss", "Brier", "NE", "PCOC", "MSE", "GAUC", "AUC(se='clustered')")
#: Names of the laws of group sizes.
SIZES = ("Pareto(1.5), at most 1,000", "log-normal, sigma 0.7", "log-normal, sigma 1")
GROUPS = (200, 500, 2000)
#: Users of a nested log, their queries, and the rows of a query.
USERS, QUERIES, ROWS = 200, 5, 20
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
_NESTED = f"Queries of {USERS} users, {QUERIES} each"


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


def nested_log_of(random: np.random.Generator, users: int) -> dict[str, np.ndarray]:
    """Draw queries of users who differ in clicks, and in how well two equal models know them."""
    rows = users * QUERIES * ROWS
    query = np.repeat(np.arange(users * QUERIES), ROWS)
    user = query // QUERIES
    rate, skill = random.normal(-1.5, 0.7, users), random.normal(1, 1, users)
    quality = random.normal(size=rows)
    click = random.random(rows) < logistic(rate[user] + skill[user] * quality)
    log = {"user": user, "query": query, "click": click}
    for name in ("one", "other"):
        spread = np.exp(random.normal(-0.5, 0.7, users))
        wrong = random.normal(0, 0.3, users)[user] + spread[user] * random.normal(size=rows)
        log[name] = logistic(quality - 1.5 + wrong)
    return log


def nested_coverage(repetitions: int) -> Iterator[tuple[object, ...]]:
    """Yield a row for each measure, by query and by user: as `coverage` does, and the errors."""
    random, given = np.random.default_rng(_SEED), {**_COLUMNS, "group": "query"}
    large = nested_log_of(np.random.default_rng(_SEED + 1), 100_000)
    truth = fe.evaluate(large, score="one", measures=[m.split("(")[0] for m in OF_NESTED], **given)
    lines: dict[tuple[str, str], list[tuple[float, float, bool]]] = {}
    seen: dict[tuple[str, str], list[bool]] = {}
    for _ in range(max(repetitions // _TOGETHER, 1)):
        log = nested_log_of(random, USERS * _TOGETHER)
        log["study"] = log["user"] // USERS
        for unit in ("query", "user"):
            chosen = {"cluster": unit, "measures": OF_NESTED, "by": "study", **given}
            for line in fe.evaluate(log, score="one", **chosen):
                if line.by is not None:
                    value = truth.value(line.measure.split("(")[0])
                    inside = line.ci_low <= value <= line.ci_high
                    lines.setdefault((unit, line.measure), []).append((line.value, line.se, inside))
            for compared in fe.compare(
                log, score=["one", "other"], baseline="one", correction="none", **chosen
            ):
                if compared.by is not None:
                    of_test = seen.setdefault((unit, compared.measure), [])
                    of_test.append(compared.p_value <= 0.05)
    for (unit, measure), of_logs in lines.items():
        values, errors, held = np.array(of_logs).T
        yield (
            "none" if unit == "query" else unit, measure, f"{values.std():.4f}",
            f"{errors.mean():.4f}", f"{held.mean():.1%}", f"{np.mean(seen[unit, measure]):.1%}",
        )  # fmt: skip


def nested_tests(repetitions: int) -> Iterator[tuple[object, ...]]:
    """Yield a row for each test: how often it sees a difference of equal models, by unit."""
    random = np.random.default_rng(_SEED + 2)
    seen: dict[tuple[str, str, str], list[bool]] = {}
    for _ in range(repetitions):
        log = nested_log_of(random, USERS)
        for unit in ("query", "user"):
            for test in TESTS:
                for line in fe.compare(
                    log, group="query", cluster=unit, label="click", score=["one", "other"],
                    baseline="one", measures=OF_NESTED[:2], order="grouped", test=test,
                    correction="none", replicates=999,
                ):  # fmt: skip
                    of_test = seen.setdefault((test, unit, line.measure), [])
                    of_test.append(line.p_value <= 0.05)
    for test in TESTS:
        yield (
            test,
            *(f"{np.mean(seen[test, unit, m]):.1%}" for m in OF_NESTED[:2]
              for unit in ("query", "user")),
        )  # fmt: skip


def nested(repetitions: int) -> str:
    """Simulate queries of users, and write the part of the page."""
    names = ("cluster", "measure", "deviation", "error", "coverage", "equal models")
    of_tests = ("test", *(f"{m}, {unit}" for m in OF_NESTED[:2] for unit in ("none", "user")))
    return (
        f'{_NESTED}, of {ROWS} rows; users differ. {repetitions:,} logs, with `group="query"` '
        'alone and with `cluster="user"`. *Deviation* is that of the values of these logs, '
        "*error* the mean standard error.\n\n"
        + table(names, list(nested_coverage(repetitions)))
        + "\n\nHow often each test sees a difference of equal models at 5 %, by the cluster.\n\n"
        + table(of_tests, list(nested_tests(repetitions)))
        + "\n"
    )


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
    parser.add_argument("--nested", action="store_true", help="only queries of users")
    arguments = parser.parse_args()
    before, _, rest = _FILE.read_text(encoding="utf-8").partition(_NESTED)
    if arguments.nested:
        _FILE.write_text(before + nested(arguments.repetitions), encoding="utf-8")
        return
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
    _FILE.write_text(f"{text}\n" + f"\n{_NESTED}{rest}" * bool(rest), encoding="utf-8")


if __name__ == "__main__":
    main()
