"""The standard error of the difference of two models' measures of all rows."""

import math

import numpy as np
import pytest

from fastrank_eval.measures import measure
from tests.strategies import GROUP_DECISION_VARIANTS, POOLED_VARIANTS, VARIANTS
from tests.support import batched

MEASURES = "LogLoss,NE,PCOC,Brier,PPV(threshold=0.4),MCC(threshold=0.4),AUC,AUC(bins=64),KS"


def log_of(seed: int, groups: int = 60, most: int = 12) -> dict[str, np.ndarray]:
    """Clicks and two models' probabilities, rows of a user alike, in random order."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(groups), rng.integers(1, most, groups))
    taste = rng.normal(0, 0.7, groups)[user]
    logit = rng.normal(-0.5, 1, len(user)) + taste
    click = rng.random(len(user)) < 1 / (1 + np.exp(-logit))

    def scored(noise: float) -> np.ndarray:
        return np.round(1 / (1 + np.exp(-(logit + rng.normal(0, noise, len(user))))), 2)

    order = rng.permutation(len(user))
    log = {"user": user, "click": click, "a": scored(1.0), "b": scored(0.6)}
    log["w"] = rng.integers(0, 4, len(user)).astype(float)
    return {name: column[order] for name, column in log.items()}


def found_of(log, weight=None, **options) -> dict[str, tuple[float, int]]:
    """The standard error of each difference, and the groups behind it."""
    found = batched.compare(
        log, group="user", label="click", score=["a", "b"], baseline="a", measures=MEASURES,
        weight=weight, **options,
    )  # fmt: skip
    return {line.measure: (line.se, line.groups) for line in found}


def formulas(text: str):
    """The value of some measures from sums over rows of some terms."""
    return {
        "LogLoss": lambda s: s[0] / s[1],
        "Brier": lambda s: s[3] / s[1],
        "PCOC": lambda s: s[4] / s[2],
        "PPV(threshold=0.4)": lambda s: s[5] / (s[5] + s[6]),
    }[text]


def terms_of(log, score, weight) -> np.ndarray:
    y, p = log["click"].astype(float), log[score]
    clamped = np.clip(p, 1e-15, 1 - 1e-15)
    loss = -(y * np.log(clamped) + (1 - y) * np.log(1 - clamped))
    above = p >= 0.4
    terms = [loss, np.ones(len(p)), y, (p - y) ** 2, p, above * y, above * (1 - y)]
    each = np.array(terms) * weight
    users = np.arange(log["user"].max() + 1)
    return np.array([each[:, log["user"] == u].sum(axis=1) for u in users])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("text", ["LogLoss", "Brier", "PCOC", "PPV(threshold=0.4)"])
def test_difference_of_formulas__has_the_error_of_two_passes(text, weighted) -> None:
    log = log_of(5)
    weight = log["w"] if weighted else np.ones(len(log["w"]))
    value = formulas(text)
    influence = np.zeros(len(set(log["user"])))
    for score, sign in (("a", -1), ("b", 1)):
        terms = terms_of(log, score, weight)
        sums = terms.sum(axis=0)
        for t in range(terms.shape[1]):
            step = np.zeros(terms.shape[1])
            step[t] = 1e-6 * max(sums[t], 1)
            slope = (value(sums + step) - value(sums - step)) / (2 * step[t])
            influence += sign * slope * terms[:, t]
    there = terms_of(log, "a", weight)[:, 1] > 0
    u = np.count_nonzero(there)
    wanted = math.sqrt(u / (u - 1) * np.sum(influence[there] ** 2))
    se, groups = found_of(log, "w" if weighted else None)[str(measure(text))]
    assert groups == u
    assert se == pytest.approx(wanted, rel=1e-6)


def test_difference_of_auc__has_obuchowskis_paired_error() -> None:
    log = log_of(7)
    y, users = log["click"], np.arange(log["user"].max() + 1)
    parts = []
    for score in ("a", "b"):
        p = log[score]
        wins = (p[y][:, None] > p[~y]) + 0.5 * (p[y][:, None] == p[~y])
        area = wins.mean()
        parts.append((wins.mean(axis=1) - area, wins.mean(axis=0) - area))
    of_positives, of_others = (parts[1][k] - parts[0][k] for k in (0, 1))
    first = np.array([of_positives[log["user"][y] == u].sum() for u in users]) / y.sum()
    second = np.array([of_others[log["user"][~y] == u].sum() for u in users]) / (~y).sum()
    has_first = np.array([y[log["user"] == u].any() for u in users])
    has_second = np.array([(~y[log["user"] == u]).any() for u in users])
    n1, n0, n = has_first.sum(), has_second.sum(), len(users)
    wanted = math.sqrt(
        n1 / (n1 - 1) * np.sum(first**2)
        + n0 / (n0 - 1) * np.sum(second**2)
        + 2 * n / (n - 1) * np.sum(first * second)
    )
    se, groups = found_of(log)["AUC(se='clustered')"]
    assert groups == n
    assert se == pytest.approx(wanted, rel=1e-9)


def test_every_measure__has_an_error_if_it_says_so() -> None:
    log: dict[str, object] = {**log_of(3)}
    places = np.arange(len(log["user"]))
    log["item"] = places % 3
    log["click"] = log["click"] * (1 + places % 2)
    log["subtopics"] = [[place % 4] for place in places]
    variants = (VARIANTS | POOLED_VARIANTS | GROUP_DECISION_VARIANTS).values()
    options = {
        "group": "user", "label": "click", "subtopics": "subtopics", "ties": "input",
        "measures": [text for texts in variants for text in texts],
    }  # fmt: skip
    values = list(batched.evaluate(log, score="a", **options))
    differences = list(batched.compare(log, score=["a", "b"], baseline="a", **options))
    for line in (*values, *differences):
        has_none = line.warning == "no_variance" and math.isnan(line.se)
        assert has_none or measure(line.measure).has_error is math.isfinite(line.se), line
    assert sum(line.warning == "no_variance" for line in values) < len(values) // 20
    assert min(len(values), len(differences)) > 400


@pytest.mark.parametrize("click", [[0, 0, 0], [1, 1, 1]])
@pytest.mark.parametrize("undefined", ["skip", "zero"])
def test_difference__where_a_value_is_undefined__is_nan(click, undefined) -> None:
    log = {"user": [1, 1, 2], "click": click, "a": [0.5, 0.4, 0.3], "b": [0.2, 0.1, 0.9]}
    found = found_of(log, undefined=undefined)
    missing = ["NE"] + ["PCOC"] * (not any(click))
    for text in missing:
        assert math.isnan(found[text][0])
        assert found[text][1] == 0
    assert found["LogLoss"][0] > 0


def test_difference__where_nothing_is_weighed__is_nan() -> None:
    log = {"user": [1, 2], "click": [0, 1], "a": [0.5, 0.4], "b": [0.2, 0.9], "w": [0.0, 0.0]}
    for se, groups in found_of(log, "w").values():
        assert math.isnan(se)
        assert groups == 0
