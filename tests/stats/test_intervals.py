"""Standard errors and intervals, with groups as independent clusters."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config
from scipy import stats

import fastrank_eval
from fastrank_eval.stats.intervals import ErrorGroups, t_interval, t_quantile
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.tally import add_groups
from tests.oracles.means import behind
from tests.support.transcripts import answers

PLACES = {"group": "g", "label": "l", "score": "s"}


def state_of(values, weights=None) -> MeanState:
    state, ones = MeanState(1), np.ones(len(values), np.int64)
    given_weights = None if weights is None else np.array(weights, np.float64)
    of_groups = np.array(values, np.float64)
    assert add_groups([state], 0, [of_groups], [given_weights], ones, ones)
    return state


def error_of_mean(values, weights=None) -> float:
    return state_of(values, weights).moments(0, weights is not None).se


def groups_behind(values, weights=None) -> ErrorGroups:
    found = state_of(values, weights).moments(0, weights is not None)
    return ErrorGroups(found.groups, found.by_weight, found.influence)


def two_pass(values, weights) -> float:
    """Deviations of each group from the mean, in fractions; one root."""
    pairs = [(Fraction(w), Fraction(v)) for w, v in zip(weights, values, strict=True)]
    below, many = sum(w for w, _ in pairs), len(pairs)
    mean = sum(w * v for w, v in pairs) / below
    squares = sum((w * (v - mean)) ** 2 for w, v in pairs)
    return math.sqrt(squares * many / (many - 1) / below**2)


# ---- the formula ---------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(0.1, 50)), min_size=2, max_size=60))
def test_error_of_mean__equals_the_two_pass_formula(pairs):
    values, weights = zip(*pairs, strict=True)
    for chosen in (None, weights, [math.ceil(w) for w in weights]):
        wanted = two_pass(values, chosen or [1] * len(values))
        assert error_of_mean(values, chosen) == pytest.approx(wanted, rel=1e-9, abs=1e-14)


def test_error_of_sum__is_that_of_so_many_groups():
    rng = np.random.default_rng(1)
    values, weights = rng.integers(0, 40, 30), rng.integers(1, 9, 30)
    state = state_of(values, weights)
    wanted = math.sqrt(30 * np.var(values * weights, ddof=1))
    assert state.moments(0, True, is_sum=True).se == pytest.approx(wanted, rel=1e-14)
    assert state_of(values).moments(0, False, is_sum=True).se == pytest.approx(
        math.sqrt(30 * np.var(values, ddof=1)), rel=1e-14
    )


@pytest.mark.parametrize("value", [0.3, 0.0, -1e300, 5e-324, 1 / 3])
def test_no_variance__no_error_at_all(value):
    assert error_of_mean([value] * 7) == 0
    assert state_of([value] * 7).moments(0, False, is_sum=True).se == 0


def test_groups_of_value_zero_that_are_not_ranked__count():
    state, whole = state_of([0.5, 1.0]), state_of([0.5, 1.0, 0.0, 0.0, 0.0])
    state.add_counts(0, np.array([[3, 10, 0]]))
    assert state.moments(0, False)[:-2] == whole.moments(0, False)[:-2]
    assert state.moments(0, False).se == pytest.approx(
        np.std([0.5, 1, 0, 0, 0], ddof=1) / math.sqrt(5), rel=1e-15
    )


def test_errors__of_less_than_two_groups__are_unknown():
    for values in ([], [0.5]):
        assert math.isnan(error_of_mean(values))
        assert math.isnan(state_of(values).moments(0, False, is_sum=True).se)
        assert math.isnan(error_of_mean(values, [2.0] * len(values)))
        assert groups_behind(values).effective_groups == len(values)


@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3)), min_size=2, max_size=30),
    st.booleans(),
)
def test_support__of_a_mean__is_that_of_influences_in_two_passes(pairs, weighted):
    values = [v for v, _ in pairs]
    weights = [w if weighted else 1.0 for _, w in pairs]
    found = groups_behind(values, weights if weighted else None)
    p = [v * w for v, w in pairs] if weighted else values
    mean = Fraction(sum(map(Fraction, p))) / sum(map(Fraction, weights))
    influences = [Fraction(x) - mean * Fraction(w) for x, w in zip(p, weights, strict=True)]
    size = sum(
        (abs(Fraction(x)) + abs(mean) * Fraction(w)) ** 4 for x, w in zip(p, weights, strict=True)
    )
    wanted = behind(weights, influences)
    if sum(u**4 for u in influences) > size / 2**24:
        assert (found.effective_groups, found.degrees) == pytest.approx(wanted, rel=1e-4)


def test_support__of_one_group_that_varies__is_one():
    found = groups_behind([0.0] * 99 + [1.0])
    assert found.degrees == pytest.approx(2.0, abs=0.1)
    assert found.effective_groups == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_support__of_sizes_beyond_doubles__counts_groups(size):
    values = [0.0] * 20 + [size, 3 * size, 2 * size]
    found = groups_behind(values)
    # Fourth powers pass the largest double, or vanish: groups count alone.
    assert (found.degrees, found.effective_groups) == (22, 23)


# ---- Student's t ---------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.8, 0.95, 0.99, 0.999999])
def test_t_quantile__equals_scipy(confidence):
    for degrees in (1, 2, 3, 4, 5, 10, 29, 30, 99, 100, 501, 999, 1000, 1001, 10**4, 10**9):
        wanted = stats.t.ppf((1 + confidence) / 2, degrees)
        assert t_quantile(confidence, degrees) == pytest.approx(wanted, rel=1e-9), degrees


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("degrees", [1.5, 2.25, 7.9, 33.3, 512.01])
def test_t_quantile__of_part_of_a_degree__equals_scipy(confidence, degrees):
    wanted = stats.t.ppf((1 + confidence) / 2, degrees)
    assert t_quantile(confidence, degrees) == pytest.approx(wanted, rel=1e-9)


def test_around__small_and_large_numbers_of_groups():
    narrow, wide = (
        t_interval(0.5, 0.1, ErrorGroups(10**6), 0.95),
        t_interval(0.5, 0.1, ErrorGroups(2), 0.95),
    )
    assert narrow.high == pytest.approx(0.5 + 0.1 * 1.959966, abs=1e-6)
    assert narrow.warning is None
    assert wide.low == pytest.approx(0.5 - 0.1 * 12.706205, abs=1e-6)  # not cut off at 0
    assert wide.warning == "few_groups"


# ---- results -------------------------------------------------------------------------------------


def log_of(groups: int, seed: int = 3) -> dict[str, np.ndarray]:
    """Users of differing sizes, clicks that follow the score."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 16, groups)
    score = rng.random(sizes.sum())
    taste = np.repeat(rng.normal(0, 1, groups), sizes)
    click = rng.random(len(score)) < 1 / (1 + np.exp(1.5 - 2 * score - taste))
    return {"g": np.repeat(np.arange(groups), sizes), "l": click.astype(np.int8), "s": score}


def test_result__interval_and_tables__agree():
    log = log_of(400)
    measures = "GAUC,nDCG@10,RR,NumRel,GMAP,AUC(se='clustered'),AUC,KS,LogLoss,PPV"
    result = fastrank_eval.evaluate(log, **PLACES, measures=measures, confidence=0.9)
    found = {line.measure: line for line in result}
    for text in ("GAUC", "nDCG@10", "RR", "NumRel", "AUC(se='clustered')", "LogLoss", "PPV"):
        line = found[text]
        clusters = 400 if line.aggregate == "pooled" else line.groups_used
        reach = (line.ci_high - line.ci_low) / 2
        assert result.interval(text) == pytest.approx((line.value - reach, line.value + reach))
        assert reach >= stats.t.ppf(0.95, clusters - 1) * line.se * (1 - 1e-9)
        assert reach <= stats.t.ppf(0.95, line.effective_groups - 1) * line.se * (1 + 1e-9)
        assert line.warning is None
    area = found["AUC(se='clustered')"]
    assert area.se == area.details["se of groups as clusters"]
    logs = np.log(np.maximum(result["GMAP"][~np.isnan(result["GMAP"])], 1e-5))
    error = logs.std(ddof=1) / math.sqrt(len(logs))
    _, degrees = behind([1.0] * len(logs), (logs - logs.mean()).tolist())
    reach = stats.t.ppf(0.95, degrees) * error
    assert found["GMAP"].se == pytest.approx(found["GMAP"].value * error, rel=1e-6)
    wanted = math.exp(logs.mean() - reach), math.exp(logs.mean() + reach)
    assert result.interval("GMAP") == pytest.approx(wanted, rel=1e-6)
    for text in ("AUC", "KS"):
        assert all(map(math.isnan, result.interval(text)))
        assert found[text].warning == "pooled"
    for name in ("se", "ci_low", "ci_high", "effective_groups", "warning"):
        column = result.records()[name].to_pylist()
        assert column == [entry[name] for entry in result.document()["results"]], name
    assert result.meta.conventions["confidence"] == 0.9
    assert "90% CI" in repr(result)
    assert "90% CI" in result.to_markdown()


def test_few_groups__are_told_of():
    text = repr(fastrank_eval.evaluate(log_of(12), **PLACES, measures="GAUC,RR"))
    assert "intervals are rough, with fewer than 40 effective groups" in text
    assert "12 of RR" in text
    assert "rough" not in repr(fastrank_eval.evaluate(log_of(200), **PLACES, measures="GAUC,RR"))


def test_one_group__has_a_value_without_an_error():
    log = {"g": [1, 1], "l": [0, 1], "s": [0.1, 0.2]}
    result = fastrank_eval.evaluate(log, **PLACES, measures="GAUC,RR")
    for line in result.document()["results"]:
        assert (line["value"], line["se"], line["ci_low"], line["ci_high"]) == (1, None, None, None)
        assert line["warning"] == "one_group"
    assert "one group has no standard error: GAUC, RR" in repr(result)
    assert "CI" not in repr(result)


@pytest.mark.parametrize("groups", [3, 13, 26, 52])
def test_support__of_carriers_just_below_the_groups__is_that_of_all(groups) -> None:
    behind = ErrorGroups(groups, float(groups), math.nextafter(groups, 0), difference=True)
    assert behind.degrees == pytest.approx(groups - 1)


def test_interval__beyond_the_largest_double__is_infinite():
    log = {"g": [1, 1, 2], "l": [1, 0, 0], "s": [0.5, 0.4, 0.3]}
    options = {"undefined": "zero", "confidence": 1 - 1e-12}
    value = fastrank_eval.evaluate(log, **PLACES, measures="GMAP", **options).values[0]
    assert 0 < value.value < 1
    assert (value.ci_low, value.ci_high) == (0, math.inf)


# ---- what is promised ----------------------------------------------------------------------------


@pytest.mark.slow("2,000 samples are simulated")
@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="4 million rows, too many for Python loops")
def test_intervals__cover_the_truth_as_often_as_they_say():
    """2000 samples of 200 users each; the truth is the value of all 400,000 users."""
    samples, users = 2000, 200
    log = log_of(samples * users, seed=4)
    log["sample"] = log["g"] // users
    measures = ["GAUC", "nDCG@10", "RR"]
    result = fastrank_eval.evaluate(log, **PLACES, measures=measures, by="sample", keep="")
    # Slices have the bits of their rows alone.
    lines = [line for line in result if line.by == "sample"]
    assert len(lines) == samples * len(measures)
    covered = dict.fromkeys(measures, 0)
    for line in lines:
        covered[line.measure] += line.ci_low <= result.value(line.measure) <= line.ci_high
    for text, count in covered.items():
        assert 0.935 <= count / samples <= 0.965, (text, count / samples)


def test_effective_groups__of_pooled_measures__look_at_rows_of_any_number():
    sizes = np.array([70_000, 3, 2])
    log = {
        "user": np.repeat(np.arange(3), sizes),
        "click": np.arange(sizes.sum()) % 2,
        "p": np.full(sizes.sum(), 0.25),
    }
    result = fastrank_eval.evaluate(
        log, group="user", label="click", score="p", measures="LogLoss", by="click"
    )
    wanted = np.sum(sizes**2.0) ** 2 / np.sum(sizes**4.0)
    assert result.values[0].effective_groups == pytest.approx(wanted, rel=1e-15)
    # Rows 0, 2, 4 ... of the first user, and so on: each user is cut in two.
    for line, click in ((result.values[1], 0), (result.values[2], 1)):
        rows = np.bincount(log["user"][log["click"] == click]).astype(float)
        wanted = np.sum(rows**2) ** 2 / np.sum(rows**4)
        assert line.effective_groups == pytest.approx(wanted, rel=1e-15), line.slice


test_answers = answers(globals())
