"""Models that differ by rescoring noise: errors are exact, and noise is no verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastrank_eval as fe

COLUMNS = {"group": "user", "label": "click"}
MODELS = {"score": ["old", "new"], "baseline": "old"}
OF_ALL_ROWS = ("LogLoss", "Brier", "NE", "PCOC", "MSE")
OF_ORDER = ("GAUC", "AUC(se='clustered')")
STUDIES, GROUPS = 200, 60


def logs(eps: float, studies: int, seed: int) -> dict[str, np.ndarray]:
    """Logs of `GROUPS` users each, and a model that rescored them with noise of relative size."""
    random = np.random.default_rng(seed)
    users = studies * GROUPS
    user = np.repeat(np.arange(users), random.integers(5, 20, users))
    p = 1 / (1 + np.exp(-random.normal(-1.5, 1, len(user))))
    click = random.random(len(user)) < p
    return {
        "user": user,
        "click": click,
        "old": p,
        "new": np.clip(p * (1 + eps * random.standard_normal(len(user))), 0, 1),
        "study": user // GROUPS,
    }


@pytest.mark.slow("thousands of comparisons are simulated")
@pytest.mark.parametrize("eps", [1e-4, 1e-9, 1e-11, 1e-13])
def test_rescoring_noise__is_told_apart_in_5_percent(eps: float) -> None:
    found = fe.compare(
        logs(eps, STUDIES, 5), **COLUMNS, **MODELS, order="grouped",
        measures=[*OF_ALL_ROWS, *OF_ORDER], by="study", correction="none", keep="",
    )  # fmt: skip
    lines = [line for line in found if line.by == "study"]
    for text in OF_ALL_ROWS:
        p_values = [line.p_value for line in lines if line.measure == text]
        # Fewer than three standard errors of a share of so many studies.
        assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.05, abs=0.038), text
    for text in OF_ORDER:
        p_values = [line.p_value for line in lines if line.measure == text]
        assert np.mean(np.array(p_values) <= 0.05) <= 0.07, text


@pytest.mark.parametrize("text", ["GAUC", "AUC(se='clustered')", "nDCG@5"])
def test_scores_in_the_same_order__differ_by_nothing(text: str) -> None:
    log = logs(0.0, 1, 7)
    log["new"] = log["old"] * (1 + 1e-12)
    assert (log["new"] != log["old"]).all()
    line = fe.compare(log, **COLUMNS, score=["old", "new"], baseline="old", measures=text).find(
        text
    )
    assert (line.delta, line.se, line.warning) == (0, 0, "no_difference")
    assert (line.ci_low, line.ci_high, line.p_value) == (0, 0, 1)
    assert line.verdict == f"no difference: {text} of new and old is the same in every group"


def of_groups(log: dict[str, np.ndarray], values: np.ndarray) -> np.ndarray:
    starts = np.flatnonzero(np.diff(log["user"], prepend=-1))
    return np.add.reduceat(values, starts)


def error(influence: np.ndarray) -> float:
    n = len(influence)
    return math.sqrt(n / (n - 1) * math.fsum((influence - influence.mean()) ** 2))


@pytest.mark.parametrize("eps", [1e-3, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12])
def test_difference_of_near_models__has_the_error_of_two_passes(eps: float) -> None:
    log = logs(eps, 5, 11)
    found = fe.compare(
        log, **COLUMNS, score=["old", "new"], baseline="old", measures=["MSE", "PCOC"]
    )
    click, rows = log["click"], len(log["click"])
    # Differences by binomial formulas, which cancel nothing.
    shift = log["new"] - log["old"]
    losses = shift * (log["new"] + log["old"] - 2 * click)
    mine = of_groups(log, losses - losses.mean()) / rows
    assert found.find("MSE").se == pytest.approx(error(mine), rel=max(1e-6, 1e-14 / eps))
    clicks = click.sum()
    mine = of_groups(log, shift - shift.sum() / clicks * click) / clicks
    assert found.find("PCOC").se == pytest.approx(error(mine), rel=max(1e-6, 1e-14 / eps))


@pytest.mark.parametrize("spread", [1e-2, 1e-6, 1e-8, 1e-9, 1e-10])
def test_error_of_logloss__of_scores_that_hardly_differ__is_that_of_two_passes(spread) -> None:
    random = np.random.default_rng(3)
    log = {
        "user": np.repeat(np.arange(300), 20),
        "click": np.tile([1, 0, 0, 0, 0], 1200),
        "p": 0.2 * (1 + spread * random.standard_normal(6000)),
    }
    found = fe.evaluate(log, **COLUMNS, score="p", measures="LogLoss").values[0]
    losses = -np.where(log["click"], np.log(log["p"]), np.log1p(-log["p"]))
    base = -np.where(log["click"], np.log(0.2), np.log1p(-0.2))
    # About the loss of a constant score, whose sum is the same in every group.
    mine = of_groups(log, losses - base) / len(losses)
    assert found.se == pytest.approx(error(mine), rel=max(1e-6, 1e-15 / spread))
