"""Paired intervals hold what they promise, and models that do not differ are not told apart."""

import numpy as np
import pytest
from scipy import stats

import fastrank_eval as fe
from fastrank_eval.results.compare_tests import TESTS
from fastrank_eval.stats.hypothesis_tests import clustered_test
from tests.support.click_logs import compare, evaluate

pytestmark = pytest.mark.slow("1,000 comparisons are simulated")

STUDIES, GROUPS = 1000, 80
MEASURES = ("GAUC", "nDCG@5", "GMAP", "CG@3", "AUC", "LogLoss")
OF_ROWS = ("LogLoss", "PCOC", "NE", "Brier", "Accuracy(threshold=0.2)")


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


@pytest.fixture(scope="module")
def studies():
    """Many small logs as the slices of one."""
    log = trial(np.random.default_rng(23), STUDIES * GROUPS)
    return log | {"study": log["user"] // GROUPS}


@pytest.fixture(scope="module")
def compared(studies):
    """The differences in each of them, and over all."""
    options = {"by": "study", "correction": "none", "order": "grouped", "keep": ""}
    return compare(studies, MEASURES, ["old", "same", "new"], **options)


def of_studies(found, measure, model):
    whole = found.find(measure, model)
    return whole, [
        line
        for line in found
        if line.by == "study" and (line.measure, line.score) == (whole.measure, model)
    ]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("model", ["same", "new"])
def test_intervals__cover_the_difference_in_95_percent(compared, measure, model) -> None:
    whole, studies = of_studies(compared, measure, model)
    assert len(studies) == STUDIES
    covered = [line.ci_low <= whole.delta <= line.ci_high for line in studies]
    assert 0.935 <= np.mean(covered) <= 0.965


@pytest.mark.parametrize("measure", OF_ROWS)
def test_intervals_of_values__cover_the_truth_in_95_percent(studies, measure) -> None:
    options = {"by": "study", "order": "grouped", "keep": ""}
    whole, *values = evaluate(studies, "old", measure, **options)
    assert (len(values), whole.by) == (STUDIES, None)
    covered = [v.ci_low <= whole.value <= v.ci_high for v in values]
    assert 0.935 <= np.mean(covered) <= 0.965


@pytest.mark.parametrize("measure", MEASURES)
def test_models_that_do_not_differ__are_told_apart_in_5_percent(compared, measure) -> None:
    _, studies = of_studies(compared, measure, "same")
    found = np.mean([line.p_value <= 0.05 for line in studies])
    # Three standard errors of a share of twice as many studies.
    assert abs(found - 0.05) <= 3 * np.sqrt(0.05 * 0.95 / 2 / STUDIES)


def test_minimum_detectable_difference__is_found_in_80_percent(compared) -> None:
    whole, studies = of_studies(compared, "nDCG@5", "new")
    mdd = np.mean([line.mdd for line in studies])
    p_values = [
        clustered_test(line.delta - whole.delta + mdd, line.se, line.groups, line.degrees).p_value
        for line in studies
    ]
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.8, abs=0.03)


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
