"""RelaImpr of comparisons: its interval, and what is said where the difference is not shown."""

import math
from typing import Any

import numpy as np
import pytest

import fastrank_eval as fe
from fastrank_eval.stats.intervals import t_quantile
from tests.support.click_logs import click_log
from tests.support.click_logs import compare as compare_rows


def logged(seed: int, groups: int, better: float, strength: float = 1.5) -> dict[str, np.ndarray]:
    """Clicks and two models that see the same signal, the new one with less noise of its own."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 20, groups)
    signal = rng.standard_normal(sizes.sum())
    click = rng.random(len(signal)) < 1 / (1 + np.exp(1 - strength * signal))
    shared = signal + rng.standard_normal(len(signal))
    return {
        "user": np.repeat(np.arange(groups), sizes),
        "click": click,
        "old": shared + 0.8 * rng.standard_normal(len(signal)),
        "new": shared + (0.8 - better) * rng.standard_normal(len(signal)),
    }


def compare(log: Any, measures: str = "GAUC,AUC,AP", **options: Any) -> fe.Comparison:
    return compare_rows(log, measures, **options)


def placements(score: np.ndarray, click: np.ndarray) -> np.ndarray:
    """What each row adds to the AUC beyond its mean, over the rows of its class."""
    wins = np.sign(score[click][:, None] - score[~click][None, :]) / 2 + 0.5
    found = np.empty(len(score))
    found[click] = (wins.mean(axis=1) - wins.mean()) / click.sum()
    found[~click] = (wins.mean(axis=0) - wins.mean()) / (~click).sum()
    return found


def slopes(value: float, base: float) -> tuple[float, float]:
    """Numeric derivatives of RelaImpr by the base value and by the value."""
    step = 1e-6
    by_base = fe.rela_impr(value, base + step) - fe.rela_impr(value, base - step)
    by_value = fe.rela_impr(value + step, base) - fe.rela_impr(value - step, base)
    return by_base / 2 / step, by_value / 2 / step


def test_interval__of_gauc__is_that_of_the_delta_method() -> None:
    log = logged(1, 80, 0.5)
    line = compare(log).find("GAUC")
    by_user = []
    for user in np.unique(log["user"]):
        rows = log["user"] == user
        click = log["click"][rows]
        if 0 < click.sum() < len(click):
            areas = []
            for model in ("old", "new"):
                score = log[model][rows]
                wins = np.sign(score[click][:, None] - score[~click][None, :]) / 2 + 0.5
                areas.append(wins.mean())
            by_user.append((len(click), *areas))
    weight, old, new = np.array(by_user).T
    of_base, of_value = slopes(line.value, line.base_value)
    share = weight / weight.sum()
    influence = share * (of_value * (new - line.value) + of_base * (old - line.base_value))
    n = len(weight)
    wanted = math.sqrt(n / (n - 1) * np.sum(influence**2))
    assert line.rela_impr_se == pytest.approx(wanted, rel=1e-5)
    half = t_quantile(0.95, line.degrees) * line.rela_impr_se
    ends = line.rela_impr_ci_low, line.rela_impr_ci_high
    assert ends == pytest.approx((line.rela_impr - half, line.rela_impr + half))
    assert line.rela_impr_warning is None


def test_interval__of_pooled_auc__has_the_covariance_of_the_placements() -> None:
    log = logged(2, 80, 0.5)
    line = compare(log).find("AUC")
    of_base, of_value = slopes(line.value, line.base_value)
    rows = of_value * placements(log["new"], log["click"])
    rows += of_base * placements(log["old"], log["click"])
    sums = [
        np.bincount(log["user"], np.where(kind, rows, 0)) for kind in (log["click"], ~log["click"])
    ]
    has = [len(np.unique(log["user"][kind])) for kind in (log["click"], ~log["click"])]
    n = len(np.unique(log["user"]))
    wanted = sum(
        k / (k - 1) * np.sum(each**2) for k, each in zip(has, sums, strict=True)
    ) + 2 * n / (n - 1) * np.sum(sums[0] * sums[1])
    assert line.rela_impr_se == pytest.approx(math.sqrt(wanted), rel=1e-5)
    assert line.rela_impr_ci_low < line.rela_impr < line.rela_impr_ci_high


def test_interval__stands_beside_the_number() -> None:
    found = compare(logged(1, 80, 0.5))
    line = found.find("GAUC")
    said = f"GAUC {line.rela_impr:+.2%} (95% CI {line.rela_impr_ci_low:+.2%} to "
    assert f"{said}{line.rela_impr_ci_high:+.2%})" in repr(found)
    assert math.isnan(found.find("AP").rela_impr_se)
    same = compare(logged(1, 80, 0.5), test="bootstrap", measures="GAUC", replicates=100)
    assert same.find("GAUC").rela_impr_ci_low == line.rela_impr_ci_low


def test_models_that_do_not_differ__are_not_significant() -> None:
    log = logged(3, 80, 0.0)
    found = compare(log)
    for name in ("GAUC", "AUC"):
        line = found.find(name)
        assert line.p_adjusted > 0.05
        assert line.rela_impr_ci_low < 0 < line.rela_impr_ci_high
    assert repr(found).count(", not significant") == 2
    log["new"] = log["old"]
    line = compare(log).find("AUC")
    assert (line.rela_impr, line.rela_impr_ci_low, line.rela_impr_ci_high) == (0, 0, 0)


def test_baseline_near_chance__has_no_interval_and_says_so() -> None:
    # Scores that are worth nothing: RelaImpr may come to any number.
    log = click_log()
    rng = np.random.default_rng(7)
    log["old"], log["new"] = rng.random((2, len(log["click"])))
    found = compare(log, "GAUC,AUC")
    warnings = {line.measure: line.rela_impr_warning for line in found}
    assert set(warnings.values()) <= {"near_chance", "not_above_chance"}
    for line in found:
        assert math.isnan(line.rela_impr_ci_low)
        assert math.isnan(line.rela_impr_ci_high)
        near = line.rela_impr_warning == "near_chance"
        said = "(no interval, as old is too near 0.5)" if near else "undefined, as old is not above"
        assert said in repr(found)


def test_baseline_not_above_chance__is_said_unless_a_value_is_undefined() -> None:
    log = {"user": [1, 1, 2, 2], "click": [0, 1, 0, 1], "old": [2, 1, 1, 2], "new": [1, 2, 1, 2]}
    line = compare(log, "GAUC").find("GAUC")
    assert (line.base_value, line.rela_impr_warning) == (0.5, "not_above_chance")
    log["click"] = [1, 1, 1, 1]
    line = compare(log, "GAUC").find("GAUC")
    assert line.rela_impr_warning is None
    assert all(map(math.isnan, (line.base_value, line.delta, line.rela_impr)))


def test_interval__of_results_and_states__is_that_of_one_pass() -> None:
    log = logged(4, 60, 0.5)
    wanted = compare(log, "GAUC,AUC", by="user:30")
    asked: dict[str, Any] = {
        "group": "user", "label": "click", "score": ["old", "new"], "keep": "values,state",
    }  # fmt: skip
    kept = fe.evaluate(log, **asked, measures="GAUC,AUC", baseline="old")
    names = ("rela_impr_se", "rela_impr_ci_low", "rela_impr_ci_high")
    for name in ("GAUC", "AUC(se='clustered')"):
        numbers = [getattr(wanted.find(name), field) for field in names]
        again = kept.state.compare().find(name)
        assert [getattr(again, field) for field in names] == numbers
        assert [getattr(kept.compare().find(name), field) for field in names] == numbers
    apart = fe.evaluate(log, **asked, measures="GAUC,AUC(se='clustered')").compare(baseline="old")
    numbers = [getattr(apart.find("GAUC"), field) for field in names]
    assert numbers == pytest.approx([getattr(wanted.find("GAUC"), field) for field in names])
    assert math.isnan(apart.find("AUC(se='clustered')").rela_impr_se)
    assert apart.find("AUC(se='clustered')").rela_impr_warning is None
    assert ", not tested" in repr(apart)
    sliced = wanted.find("GAUC", slice="user>=30")
    assert sliced.rela_impr_ci_low < sliced.rela_impr < sliced.rela_impr_ci_high
