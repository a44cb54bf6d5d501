"""Paired intervals hold what they promise, and models that do not differ are not told apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fastrank_eval as fe
from fastrank_eval.analysis.compare_tests import TESTS, group_evidence
from fastrank_eval.stats.hypothesis_tests import clustered_test
from fastrank_eval.stats.intervals import t_quantile
from fastrank_eval.stats.means import MeanState, PairedState

pytestmark = pytest.mark.slow("2,000 comparisons are simulated")

STUDIES, GROUPS = 2000, 120
MEASURES = ("GAUC", "nDCG@5", "GMAP", "CG@3")


@pytest.fixture(scope="module")
def studies():
    """Differences and standard errors of many small logs of the same kind, by measure."""
    random = np.random.default_rng(17)
    users = STUDIES * GROUPS
    sizes = 3 + random.geometric(0.15, users)  # the more rows, the heavier in GAUC
    user = np.repeat(np.arange(users), sizes)
    rows = len(user)
    skill = np.repeat(random.normal(1, 0.5, users), sizes)
    quality = random.normal(size=rows)
    log = {
        "user": user,
        "click": (random.random(rows) < 1 / (1 + np.exp(1 - quality * skill))).astype(np.int8),
        "old": (quality + random.normal(0, 1.0, rows)).astype(np.float32),
        "same": (quality + random.normal(0, 1.0, rows)).astype(np.float32),
        "new": (quality + random.normal(0, 0.8, rows)).astype(np.float32),
    }
    result = fe.evaluate(
        log, group="user", label="click", score=["old", "same", "new"],
        measures=MEASURES, order="grouped",
    )  # fmt: skip
    kept = result.group_records()
    lines = np.repeat(np.arange(STUDIES), GROUPS)
    found = {}
    for m, measure in enumerate(kept.measures):
        for model, name in ((1, "same"), (2, "new")):
            states, paired = [MeanState(1), MeanState(1)], PairedState(1)
            sides = [(kept.summands(k, m), kept.weights.get((k, m))) for k in (0, model)]
            ones = np.ones(users, np.int64)
            for state, (values, weights) in zip(states, sides, strict=True):
                state.add(0, values, weights, ones, ones, lines)
            paired.add(0, sides[0][0], sides[1][0], sides[0][1], sides[1][1], lines)
            known = [
                group_evidence(measure, 0, states[0], states[1], paired, line)
                for line in range(STUDIES)
            ]
            weighted = measure.weight != "uniform"
            means = np.array(
                [[state.mean(0, weighted, line) for state in states] for line in range(STUDIES)]
            )
            if measure.aggregate == "geometric mean":
                means = np.exp(means)
            truth = result.value(measure, name) - result.value(measure, "old")
            found[str(measure), name] = means[:, 1] - means[:, 0], known, truth
    return found


def outcome(delta, evidence):
    return clustered_test(delta, evidence.se, evidence.support.groups, evidence.support.degrees)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("model", ["same", "new"])
def test_intervals__cover_the_difference_in_95_percent(studies, measure, model) -> None:
    deltas, known, truth = studies[measure, model]
    reach = np.array([t_quantile(0.95, e.support.degrees) * e.se for e in known])
    assert 0.935 <= np.mean(np.abs(deltas - truth) <= reach) <= 0.965


@pytest.mark.parametrize("measure", MEASURES)
def test_models_that_do_not_differ__are_told_apart_in_5_percent(studies, measure) -> None:
    deltas, known, _ = studies[measure, "same"]
    p_values = [outcome(d, e).p_value for d, e in zip(deltas, known, strict=True)]
    # Three standard errors of a share of so many studies.
    assert abs(np.mean(np.array(p_values) <= 0.05) - 0.05) <= 3 * np.sqrt(0.05 * 0.95 / STUDIES)


def test_minimum_detectable_difference__is_found_in_80_percent(studies) -> None:
    from fastrank_eval.stats.hypothesis_tests import minimum_detectable_difference

    deltas, known, truth = studies["nDCG@5", "new"]
    mdd = np.mean([minimum_detectable_difference(e.se, degrees=e.support.degrees) for e in known])
    shifted = deltas - truth + mdd
    p_values = [outcome(d, e).p_value for d, e in zip(shifted, known, strict=True)]
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.8, abs=0.03)


# ---- through compare() ---------------------------------------------------------------------------


def trial(random, users: int, log_odds=-1.0, noise=(1.0, 1.0, 0.6)) -> dict[str, np.ndarray]:
    """Users with their own rate of clicks; scores that are probabilities, two of equal worth."""
    sizes = 3 + random.geometric(0.15, users)
    user = np.repeat(np.arange(users), sizes)
    rows = len(user)
    habit = np.repeat(random.normal(0, 0.7, users), sizes)
    quality = random.normal(size=rows)
    log = {"user": user, "click": random.random(rows) < logistic(log_odds + habit + quality)}
    # What a model has wrong of a user it has wrong on all rows of the user.
    for name, apart in zip(("old", "same", "new"), noise, strict=True):
        wrong = np.repeat(random.normal(0, 0.3, users), sizes) + random.normal(0, apart, rows)
        log[name] = logistic(log_odds + quality + wrong)
    return log


def logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


POOLED = ("AUC", "LogLoss")
#: Half as many, each takes 20 ms, and held to the bounds of STUDIES.
POOLED_STUDIES = STUDIES // 2


@pytest.fixture(scope="module")
def compared():
    """Many small logs as the slices of one, and the differences over all of them."""
    log = trial(np.random.default_rng(23), POOLED_STUDIES * GROUPS)
    log["study"] = log["user"] // GROUPS
    return fe.compare(
        log, group="user", label="click", score=["old", "same", "new"], baseline="old",
        measures=POOLED, by="study", correction="none", order="grouped", keep="",
    )  # fmt: skip


def of_studies(found, measure, model):
    whole = found.find(measure, model)
    return whole, [
        line
        for line in found
        if line.by == "study" and (line.measure, line.score) == (whole.measure, model)
    ]


@pytest.mark.parametrize("measure", POOLED)
@pytest.mark.parametrize("model", ["same", "new"])
def test_intervals__of_measures_of_all_rows__cover_in_95_percent(compared, measure, model) -> None:
    whole, studies = of_studies(compared, measure, model)
    assert len(studies) == POOLED_STUDIES
    covered = [line.ci_low <= whole.delta <= line.ci_high for line in studies]
    assert 0.935 <= np.mean(covered) <= 0.965


@pytest.mark.parametrize("measure", POOLED)
def test_measures_of_all_rows__are_told_apart_in_5_percent(compared, measure) -> None:
    _, studies = of_studies(compared, measure, "same")
    found = np.mean([line.p_value <= 0.05 for line in studies])
    assert abs(found - 0.05) <= 3 * np.sqrt(0.05 * 0.95 / STUDIES)


@pytest.fixture(scope="module")
def trials():
    """Results of many small logs, for every test to compare."""
    random = np.random.default_rng(41)
    columns = {"group": "user", "label": "click", "score": ["old", "same"]}
    return [
        fe.evaluate(trial(random, 60), **columns, measures="AP", order="grouped", threads=1)
        for _ in range(1000)
    ]


@pytest.mark.parametrize("test", TESTS)
def test_every_test__tells_equal_models_apart_in_5_percent(trials, test) -> None:
    level = 0.05
    found, attained = [], []
    for result in trials:
        line = result.compare(baseline="old", test=test, replicates=199).find("AP")
        found.append(line.p_value <= level)
        attained.append(level_of_sign(line.wins + line.losses) if test == "sign" else level)
    wanted = np.mean(attained)
    assert abs(np.mean(found) - wanted) <= 3 * np.sqrt(wanted * (1 - wanted) / len(trials))


def level_of_sign(n: int) -> float:
    """How often a sign test of so many differences has p of 5 % at most, the most it can."""
    p_values = np.minimum(2 * stats.binom.cdf(np.arange(n // 2 + 1), n, 0.5), 1)
    return 2 * float(stats.binom.pmf(np.flatnonzero(p_values <= 0.05), n, 0.5).sum())
