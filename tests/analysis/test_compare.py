"""compare(): differences, errors, tests and largest_changes, against their definitions and
SciPy."""

import json
import math
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval.results.compare_tests import TESTS
from tests.oracles.means import degrees_of, effective_groups
from tests.support.click_logs import (
    MODELS,
    click_log,
    compare,
    evaluate,
    mean_and_error,
    with_nulls,
    with_probabilities,
)

MEASURES = "GAUC,nDCG@3,AP,RR,P@3,GAUC(weight='positives')"


def group_values(log, model, text, **options):
    """Values of every group in the order of their keys, and what each counts for."""
    found = evaluate(log, model, text, **options)
    order = np.argsort(found.per_group["user"].to_numpy())
    rows, positives = (found.per_group[name].to_numpy()[order] for name in ("rows", "positives"))
    weights = np.ones(len(order))
    if text == "GAUC":
        weights = rows.astype(np.float64)
    elif text.startswith("GAUC("):
        weights = positives.astype(np.float64)
    return found[text][order], weights


# ---- the default: paired, clustered --------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_difference__has_the_error_of_two_passes(seed) -> None:
    log = click_log(seed=seed)
    for line in compare(log, MEASURES):
        (a, w), (b, _) = (group_values(log, model, line.measure) for model in ("old", "new"))
        base, value, se = mean_and_error(a, b, w, w)
        assert (line.base_value, line.value) == pytest.approx((base, value), rel=1e-12)
        assert line.delta == line.value - line.base_value
        assert line.se == pytest.approx(se, rel=1e-9)
        assert line.statistic == pytest.approx(line.delta / se, rel=1e-9)
        used = ~np.isnan(a)
        assert line.groups == np.count_nonzero(used)
        d = np.where(used, w * (np.nan_to_num(b) - np.nan_to_num(a)), 0.0)[used]
        degrees = degrees_of(effective_groups(d.tolist()), line.groups)
        assert line.degrees == pytest.approx(degrees, rel=1e-9)
        effective = min(line.groups, effective_groups(w[used].tolist()), 1 + degrees)
        assert line.warning == ("few_groups" if effective < 40 else None)
        assert line.p_value == pytest.approx(2 * stats.t.sf(abs(line.statistic), degrees), rel=1e-9)
        low, high = stats.t.interval(0.95, degrees, line.delta, se)
        assert (line.ci_low, line.ci_high) == pytest.approx((low, high), rel=1e-9)
        d = (b - a)[~np.isnan(a)]
        assert (line.wins, line.ties, line.losses) == tuple(
            np.count_nonzero(d * sign > 0) if sign else np.count_nonzero(d == 0)
            for sign in (1, 0, -1)
        )
        assert line.effect_size == pytest.approx(d.mean() / d.std(ddof=1), rel=1e-9)
        assert line.relative == pytest.approx(value / base - 1, rel=1e-9)


@pytest.mark.parametrize("measure", ["GroupPPV", "GAUC", "AP", "RR"])
def test_groups_under_one_model_only__count_apart_and_in_the_error(measure) -> None:
    log = with_nulls(click_log(seed=5), "new")
    line = compare(log, measure, unretrieved="allow").find(measure)
    sides = [group_values(log, model, measure, unretrieved="allow") for model in ("old", "new")]
    (a, wa), (b, wb) = sides
    base, value, se = mean_and_error(a, b, wa, wb)
    assert (line.base_value, line.value) == pytest.approx((base, value), rel=1e-12)
    assert line.se == pytest.approx(se, rel=1e-9)
    assert line.only_base == np.count_nonzero(~np.isnan(a) & np.isnan(b))
    assert line.only_candidate == np.count_nonzero(np.isnan(a) & ~np.isnan(b))
    assert line.groups == np.count_nonzero(~np.isnan(a) | ~np.isnan(b))
    assert line.only_base > 0 or measure != "GroupPPV"
    assert line.only_base == 0 or measure != "GAUC"  # rows without a score are below the others


@pytest.mark.parametrize("of_base, behind", [(1, 1), (2, 3)])
def test_groups_behind_an_error__are_all__if_each_model_has_two(of_base, behind) -> None:
    log = {"user": np.arange(6) // 2, "click": [0, 1, 0, 1, 1, 1], "new": [0.9] * 6}
    log["old"] = np.where(log["user"] < of_base, 0.9, 0.1)
    line = compare(log, "GroupPPV").find("GroupPPV")
    assert (line.groups, line.only_candidate) == (behind, 3 - of_base)
    assert math.isnan(line.effect_size)


def test_sums_and_geometric_means__have_errors_of_their_own() -> None:
    log = with_nulls(click_log(seed=6), "new")
    found = compare(log, "NumRelRet,GMAP", unretrieved="allow")
    a, b = (group_values(log, m, "NumRelRet", unretrieved="allow")[0] for m in ("old", "new"))
    line = found.find("NumRelRet")
    assert (line.aggregate, line.delta) == ("sum", b.sum() - a.sum())
    assert line.se == pytest.approx(math.sqrt(len(a)) * np.std(b - a, ddof=1), rel=1e-9)
    a, b = (group_values(log, m, "GMAP", unretrieved="allow")[0] for m in ("old", "new"))
    logs = [np.log(np.maximum(v[~np.isnan(v)], 1e-5)) for v in (a, b)]
    line = found.find("GMAP")
    means = [math.exp(v.mean()) for v in logs]
    assert line.delta == pytest.approx(means[1] - means[0], rel=1e-12)
    influence = means[1] * (logs[1] - logs[1].mean()) - means[0] * (logs[0] - logs[0].mean())
    n = len(influence)
    assert line.se == pytest.approx(math.sqrt(n / (n - 1) * np.sum(influence**2)) / n, rel=1e-9)


def test_rela_impr__of_auc_kinds_only() -> None:
    found = compare(click_log(), "GAUC,AUC,AP")
    gauc = found.find("GAUC")
    assert gauc.rela_impr == fe.rela_impr(gauc.value, gauc.base_value)
    auc = found.find("AUC")
    assert auc.rela_impr == fe.rela_impr(auc.value, auc.base_value)
    assert math.isnan(found.find("AP").rela_impr)


@pytest.mark.parametrize("measure", ["KS", "AUC(bins=64)", "AUC(max_fpr=0.5)", "ECE(bins=4)"])
def test_pooled_measures__of_distinct_scores__have_a_difference_without_an_error(measure) -> None:
    line = compare(with_probabilities(click_log()), measure).find(measure)
    assert line.delta == line.value - line.base_value
    assert (line.warning, line.groups) == ("pooled", 0)
    assert math.isnan(line.se)
    assert math.isnan(line.degrees)
    assert math.isnan(line.p_value)
    assert line.wins is None
    assert line.verdict.startswith("not tested: ")


def test_auc__asked_for_by_its_name__has_a_clustered_error() -> None:
    log = click_log()
    found = compare(log, "AUC,AUC(bins=64)")
    line = found.find("AUC")
    assert line == found.find("AUC(se='clustered')")
    assert found.measures == ("AUC(se='clustered')", "AUC(bins=64)")
    assert line.value == evaluate(log, "new", "AUC").value("AUC")
    assert (line.warning, line.wins, line.groups) == ("few_groups", None, 60)
    degrees = line.degrees
    assert 20 < degrees <= 59
    assert line.p_value == pytest.approx(2 * stats.t.sf(abs(line.statistic), degrees), rel=1e-9)
    low, high = stats.t.interval(0.95, degrees, line.delta, line.se)
    assert (line.ci_low, line.ci_high) == pytest.approx((low, high), rel=1e-9)


def test_measures_of_sums__have_the_error_of_their_linear_terms() -> None:
    log = with_probabilities(click_log(200, seed=3))
    line = compare(log, "LogLoss").find("LogLoss")
    loss = [
        -np.where(log["click"] == 1, np.log(log[model]), np.log1p(-log[model]))
        for model in ("old", "new")
    ]
    users, rows = np.unique(log["user"], return_counts=True)
    sums = np.bincount(log["user"], loss[1] - loss[0])[users]
    influence = (sums - line.delta * rows) / rows.sum()
    n = len(users)
    assert line.delta == pytest.approx(np.mean(loss[1] - loss[0]), rel=1e-9)
    assert line.se == pytest.approx(math.sqrt(n / (n - 1) * np.sum(influence**2)), rel=1e-9)
    assert (line.groups, line.warning) == (n, None)


def test_lower_is_better__wins_are_lower_values() -> None:
    log = click_log(seed=2)
    line = compare(log, "GroupErrorRate(threshold=0)").find("GroupErrorRate(threshold=0)")
    (a, _), (b, _) = (group_values(log, m, line.measure) for m in ("old", "new"))
    assert line.wins == np.count_nonzero(b < a)
    assert line.losses == np.count_nonzero(b > a)
    assert line.wins != line.losses
    swapped = compare(log, line.measure, baseline="new")
    words = {line.verdict.split(":")[0], swapped.find(line.measure).verdict.split(":")[0]}
    assert words in ({"new is better", "old is worse"}, {"not significant"})


# ---- what is undefined ---------------------------------------------------------------------------


@pytest.mark.parametrize("test", TESTS)
def test_equal_models__differ_by_nothing_under_every_test(test: str) -> None:
    log = click_log()
    log["new"] = log["old"]
    for line in compare(log, MEASURES, test=test, replicates=200):
        assert (line.delta, line.se, line.ci_low, line.ci_high) == (0, 0, 0, 0)
        assert (line.statistic, line.p_value, line.p_adjusted, line.comparisons) == (0, 1, 1, 6)
        assert line.ties == line.groups
        assert math.isnan(line.effect_size)
        assert line.warning == "no_difference"
        assert line.verdict == (
            f"no difference: {line.measure} of new and old is the same in every group"
        )


def test_one_difference_for_all_groups__has_no_scale() -> None:
    log = {"user": [1, 1, 2, 2], "click": [0, 1, 0, 1], "old": [2, 1, 2, 1], "new": [1, 2, 1, 2]}
    line = compare(log, "GAUC").find("GAUC")
    assert (line.delta, line.warning) == (1, "no_variance")
    unknown = line.se, line.ci_low, line.ci_high, line.p_value, line.mdd
    assert all(map(math.isnan, unknown))
    assert line.verdict == (
        "not tested: +1.00 GAUC; groups do not vary, so there is no standard error"
    )
    assert math.isnan(compare(log, "GAUC", test="bootstrap").find("GAUC").se)
    log["new"] = log["old"]
    assert compare(log, "GAUC").find("GAUC").warning == "no_difference"


def test_one_difference_but_for_rounding__has_no_effect_size() -> None:
    # Accuracy rises from 5/12 to 8/12, or from 1/4 to 2/4.
    assert 8 / 12 - 5 / 12 < 2 / 4 - 1 / 4
    right = {"old": ((12, 5), (4, 1)) * 2, "new": ((12, 8), (4, 2)) * 2}
    log = {"user": np.repeat([1, 2, 3, 4], [12, 4, 12, 4]), "click": np.ones(32)}
    for model, groups in right.items():
        log[model] = np.concatenate([np.arange(rows) < hits for rows, hits in groups]) + 0.0
    line = compare(log, "GroupAccuracy").find("GroupAccuracy")
    assert (line.wins, line.delta) == (4, pytest.approx(0.25))
    assert math.isnan(line.effect_size)


def test_two_groups__are_tested() -> None:
    # P@2 rises by 0.5 and by 1.
    log = {"user": [1, 1, 1, 2, 2, 2, 2], "click": [1, 1, 0, 1, 1, 0, 0]}
    log |= {"old": [3, 1, 2, 2, 1, 4, 3], "new": [3, 2, 1, 4, 3, 2, 1]}
    line = compare(log, "P@2").find("P@2")
    assert (line.delta, line.groups, line.warning) == (0.75, 2, "few_groups")
    assert line.degrees == pytest.approx(1)
    assert line.se == pytest.approx(0.25)
    low, high = stats.t.interval(0.95, 1, 0.75, 0.25)
    assert (line.ci_low, line.ci_high) == pytest.approx((low, high), rel=1e-9)
    assert line.p_value == pytest.approx(2 * stats.t.sf(3, 1))
    assert compare(log, "P@2", test="sign").find("P@2").p_value == 0.5
    drawn = compare(log, "P@2", test="bootstrap", replicates=100).find("P@2")
    assert (drawn.p_value, drawn.se > 0, math.isnan(drawn.ci_low)) == (0.5, True, True)
    assert line.effect_size == pytest.approx(0.75 / np.std([0.5, 1], ddof=1))
    assert line.mdd == pytest.approx(0.25 * (stats.t.ppf(0.975, 1) + stats.t.ppf(0.8, 1)))


@pytest.mark.parametrize("groups, warning", [(38, "few_groups"), (40, None)])
def test_few_groups__are_fewer_than_40(groups, warning) -> None:
    # Half of the groups are better by 1, half worse: all carry the variance alike.
    log = {"user": np.repeat(np.arange(groups), 2), "click": [0, 1] * groups}
    log["old"] = log["user"] % 2 == np.array(log["click"])
    log["new"] = ~log["old"]
    line = compare({name: np.array(each) + 0 for name, each in log.items()}, "P@1").find("P@1")
    assert (line.delta, line.warning) == (0, warning)


def test_one_group__is_not_tested() -> None:
    log = {"user": [1, 1], "click": [0, 1], "old": [2, 1], "new": [1, 2]}
    line = compare(log, "GAUC,RR").find("GAUC")
    assert (line.delta, line.groups, line.warning) == (1, 1, "one_group")
    assert math.isnan(line.p_adjusted)
    assert math.isnan(line.degrees)
    assert math.isnan(line.ci_low)
    assert math.isnan(line.rela_impr_ci_low)
    for test in TESTS:
        assert math.isnan(compare(log, "GAUC", test=test, replicates=50).find("GAUC").p_value)
    assert "one group has no standard error" in line.verdict


def test_one_group__whose_bootstrap_varies_by_rounding__has_no_detectable_difference() -> None:
    log = {"user": [1] * 3, "click": [1, 0, 1], "old": [1, 2, 3], "new": [1, 3, 2]}
    line = compare(log, "AP", test="bootstrap", replicates=50).find("AP")
    assert (line.groups, line.warning) == (1, "one_group")
    assert all(map(math.isnan, (line.se, line.ci_low, line.p_value, line.mdd)))


def test_no_group_at_all__is_not_compared() -> None:
    log = {"user": [1, 2], "click": [0, 0], "old": [2, 1], "new": [1, 2]}
    line = compare(log, "GAUC").find("GAUC")
    assert (line.warning, line.groups, line.wins) == ("undefined", 0, 0)
    assert line.verdict == "not compared: GAUC of old and new is undefined"
    for test in TESTS:
        assert math.isnan(compare(log, "GAUC", test=test).find("GAUC").p_value)
    empty = {name: pa.array([], pa.int64()) for name in ("user", "click", "old", "new")}
    for test in TESTS:
        assert compare(empty, "GAUC,AP", test=test).find("AP").warning == "undefined"


# ---- other tests ---------------------------------------------------------------------------------


def test_tests_of_differences__are_those_of_scipy() -> None:
    log = click_log(150, seed=9)
    (a, _), (b, _) = (group_values(log, model, "AP") for model in ("old", "new"))
    d = (b - a)[~np.isnan(a)]
    p_values = {
        "paired_t": stats.ttest_1samp(d, 0).pvalue,
        "sign": stats.binomtest(int((d > 0).sum()), int((d != 0).sum())).pvalue,
        "wilcoxon": stats.wilcoxon(np.round(d, 12), method="approx").pvalue,
    }
    for test, wanted in p_values.items():
        line = compare(log, "AP", test=test).find("AP")
        assert line.test == test
        assert line.p_value == pytest.approx(wanted, rel=1e-9)


def test_randomisation__of_few_groups__is_the_permutation_test_of_scipy() -> None:
    log = click_log(12, seed=4)
    a, b = (group_values(log, model, "AP")[0] for model in ("old", "new"))
    a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    wanted = stats.permutation_test(
        (a, b),
        lambda x, y: np.mean(np.round(y - x, 12)),
        permutation_type="samples",
        n_resamples=5000,
    )
    line = compare(log, "GAUC,AP", test="randomisation", replicates=5000).find("AP")
    assert line.p_value == pytest.approx(wanted.pvalue, rel=1e-12)
    assert line.statistic == line.delta


def test_bootstrap__of_sums_and_means__has_their_standard_error() -> None:
    log, measures = with_nulls(click_log(60, seed=11), "new"), "NumRelRet,GMAP,AP"
    drawn = compare(log, measures, test="bootstrap", replicates=400, unretrieved="allow")
    for line, known in zip(drawn, compare(log, measures, unretrieved="allow"), strict=True):
        assert (line.test, line.se) == ("bootstrap", pytest.approx(known.se, rel=0.15))
        assert line.se != known.se
        assert line.ci_low < line.delta < line.ci_high


def test_randomisation__of_a_measure_that_few_groups_change__tries_all_their_patterns() -> None:
    # P@1 rises in 3 of 20 groups, P@3 in 5 others, AP in all 8.
    log = {"user": np.repeat(np.arange(20), 4), "click": np.tile([1, 0, 1, 0], 20)}
    log["old"], new = np.tile([3.0, 4, 1, 2], 20), np.tile([3.0, 4, 1, 2], 20).reshape(20, 4)
    new[:3, 0], new[10:15, 2:] = 5, [2, 1]
    log["new"] = new.ravel()
    for measures in ("P@1,P@3", "AP,P@1,P@3", "P@1,AP,P@3"):
        found = compare(log, measures, test="randomisation", replicates=100)
        assert found.find("P@1").p_value == 2 / 2**3
        assert found.find("P@3").p_value == 2 / 2**5
    few = compare(log, "P@1", test="randomisation", replicates=7).find("P@1")
    assert few.p_value >= 1 / 8


@pytest.mark.parametrize("test", ["randomisation", "bootstrap"])
def test_resampling__of_a_measure__does_not_depend_on_the_others(test) -> None:
    log = with_nulls(click_log(100, seed=2), "new")
    options = {"test": test, "replicates": 300, "unretrieved": "allow"}
    among = compare(log, "GAUC,NumRelRet,AP,GMAP", **options)
    for line in among:
        alone = compare(log, line.measure, **options).find(line.measure)
        assert (line.p_value, line.se) == (alone.p_value, alone.se)
        assert line.p_value < 1


@pytest.mark.parametrize("test", [test for test in TESTS if not test.startswith("clustered")])
def test_tests_of_groups__of_pooled_measures__are_refused(test) -> None:
    said = r"AUC, LogLoss pool the rows.*leave them out \(GAUC.*'clustered_t'"
    with pytest.raises(ArgumentError, match=said):
        compare(click_log(), "AUC,GAUC,LogLoss", test=test)
    with pytest.raises(ArgumentError, match="and KS pools the rows of all groups; leave it out, "):
        compare(click_log(), "KS,GAUC", test=test)
    with pytest.raises(ArgumentError, match="which were not kept; evaluate with keep='values'"):
        compare(click_log(), "GAUC", test=test, keep="")


# ---- several comparisons -------------------------------------------------------------------------


def test_corrections__are_over_all_measures_and_candidates() -> None:
    log = click_log(300, seed=3)
    known = [line.p_value for line in compare(log, MEASURES, MODELS, correction="none")]
    assert len(known) == 12
    holm = [line.p_adjusted for line in compare(log, MEASURES, MODELS)]
    assert min(holm) == min(1, 12 * min(known))
    assert max(holm) >= max(known)
    bh = [line.p_adjusted for line in compare(log, MEASURES, MODELS, correction="bh")]
    np.testing.assert_allclose(bh, stats.false_discovery_control(known), rtol=1e-12)
    assert {line.comparisons for line in compare(log, MEASURES, MODELS)} == {12}


def test_mdd__is_found_in_80_percent_at_the_level_of_the_correction() -> None:
    log = click_log(300, seed=3)
    line = compare(log, "AP").find("AP")
    reach = (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) * line.se
    assert line.mdd == pytest.approx(reach, rel=0.02)
    among = compare(log, "AP,GAUC,RR,P@3").find("AP")
    reach = (stats.norm.ppf(1 - 0.05 / 8) + stats.norm.ppf(0.8)) * line.se
    assert among.mdd == pytest.approx(reach, rel=0.02)
    assert compare(log, "AP,GAUC", correction="none").find("AP").mdd == line.mdd


def test_verdicts__say_better_worse_or_not_shown() -> None:
    log = click_log(800, seed=7, models=("old", "new", "newer", "same"))
    log["worse"] = -log["new"]
    log["same"] = log["old"] + np.random.default_rng(0).normal(size=len(log["old"])) * 1e-3
    found = compare(log, "GAUC", ("old", "worse", "newer", "same"))
    better, worse, same = (found.find("GAUC", score) for score in ("newer", "worse", "same"))
    assert better.verdict.startswith("newer is better: +")
    assert f"{better.delta:+.3f}"[:5] in better.verdict
    assert ", 95% CI [+" in better.verdict
    assert worse.verdict.startswith("worse is worse: -")
    assert same.verdict.startswith("not significant: ")
    assert same.verdict.endswith("(80% power)")


# ---- bits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", ["clustered_t", "wilcoxon", "randomisation", "bootstrap"])
def test_bits__do_not_depend_on_threads_batches_or_order(test) -> None:
    log = click_log(150, seed=8)
    options = {"test": test, "replicates": 200}
    whole = compare(log, MEASURES, threads=1, **options)
    wanted = [repr(asdict(line)) for line in whole]
    moved = whole.largest_changes("P@3", top=4)
    order = np.random.default_rng(0).permutation(len(log["user"]))
    shuffled = {name: column[order] for name, column in log.items()}
    for source, how in ((log, {"threads": 2, "batch_rows": 7}), (shuffled, {"threads": 2})):
        found = compare(source, MEASURES, **how, **options)
        assert [repr(asdict(line)) for line in found] == wanted
        assert found.largest_changes("P@3", top=4).equals(moved)


def test_row_weights__are_those_of_evaluate() -> None:
    log = click_log()
    found = compare(log, "GAUC,AUC", weight="weight")
    alone = evaluate(log, "new", "GAUC,AUC", weight="weight")
    for measure in ("GAUC", "AUC"):
        assert found.find(measure).value == alone.value(measure)
        assert found.find(measure).se > 0
    assert found.meta.conventions["weight"] == "weight"


# ---- largest_changes
# --------------------------------------------------------------------------------------


def test_largest_changes__add_up_to_the_difference_and_are_in_order() -> None:
    log = with_nulls(click_log(), "new")
    found = compare(log, "GAUC,GMAP,NumRelRet,P@3", unretrieved="allow")
    for line in found:
        moved = found.largest_changes(line.measure, top=1000)
        contributions = moved["contribution"].to_numpy()
        assert contributions.sum() == pytest.approx(line.delta, abs=1e-12)
        keys = list(zip((-contributions).tolist(), moved["user"].to_pylist(), strict=True))
        rises = [key for key in keys if key[0] < 0]
        assert rises == sorted(rises)
        few, some = found.largest_changes(line.measure, top=2), min(len(rises), 2)
        assert few.num_rows == some + 2
        assert few.slice(0, some).equals(moved.slice(0, some))
        assert few.slice(some).equals(moved.slice(moved.num_rows - 2))
    assert few.column_names == ["user", "rows", "base", "value", "contribution"]


def test_largest_changes__of_pooled_measures_or_groups_not_kept__are_refused() -> None:
    found = compare(click_log(), "AUC,GAUC")
    with pytest.raises(MeasureError, match="GAUC is the AUC of each group"):
        found.largest_changes("AUC")
    with pytest.raises(ArgumentError, match=r"top: must .*got 0"):
        found.largest_changes("GAUC", top=0)
    with pytest.raises(ArgumentError, match="keep="):
        compare(click_log(), "GAUC", keep="").largest_changes("GAUC")


def test_largest_changes__of_keys_called_like_columns__keep_both() -> None:
    log = click_log(10)
    log["rows"] = log.pop("user")
    found = compare(log, "GAUC", group="rows")
    assert found.largest_changes("GAUC").column_names[:2] == ["rows", "rows_"]
    assert found.per_group.column_names[:3] == ["rows", "rows_", "positives"]


def test_largest_changes__of_keys_of_any_type__are_printed_and_ordered() -> None:
    log = click_log(30)
    keys = {
        "score": pa.array([f"u{user % 7}".encode() for user in log["user"]]),
        "day": pa.array(log["user"] // 7, pa.int32()).cast(pa.date32()),
        "page": pa.array([f"p|{user}" for user in log["user"]]).dictionary_encode(),
    }
    table = pa.table({**log, **keys})
    found = compare(table, "AP", group=list(keys))
    first = json.loads(found.to_json(largest_changes=2))["largest_changes"][0]
    assert first["score"] == "new"
    assert bytes.fromhex(first["group"]["score"]).startswith(b"u")
    assert first["group"]["day"].startswith("1970-01-0")
    assert first["group"]["page"].startswith("p|")
    assert "`p\\|" in found.to_markdown(largest_changes=2)
    assert found.largest_changes("AP").column_names[:3] == list(keys)


# ---- slices --------------------------------------------------------------------------------------


def test_slices__are_lines_of_their_own_and_corrected_together() -> None:
    log = click_log(200, seed=3)
    found = compare(log, "GAUC,AP", MODELS, test="sign", by=["@rows:1,5", "weight"])
    slices = ["@rows=1-4", "@rows>=5", "weight=1", "weight=2", "weight=3"]
    assert [line.slice for line in found] == [part for part in ["all", *slices] for _ in range(4)]
    assert [line.comparisons for line in found] == [4] * 4 + [8] * 8 + [12] * 12
    assert [line.test for line in found] == ["sign"] * 4 + ["clustered_t"] * 20
    assert [line.by for line in found] == [None] * 4 + ["@rows:1,5"] * 8 + ["weight"] * 12
    moved = found.largest_slice_changes("AP", "newer")
    assert [v.delta for v in moved] == sorted((v.delta for v in moved), reverse=True)
    assert len(moved) == 5
    assert "slices that changed GAUC most, newer against old: " in found.to_markdown(
        largest_changes=1
    )
    with pytest.raises(ArgumentError, match="'@rows=1-4', '@rows>=5'"):
        found.find("AP", "new", "@rows=7")


# ---- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, said",
    [
        ({"baseline": "odl"}, "Did you mean 'old'"),
        ({"baseline": None}, "baseline: must .*got None"),
        ({"score": "old"}, "must name a model to compare"),
        ({"confidence": 1}, "confidence: must .*got 1"),
        ({"weigth": "w"}, "compare.. takes no weigth. Did you mean 'weight'"),
    ],
)
def test_arguments__that_cannot_be__are_refused(options, said) -> None:
    with pytest.raises(ArgumentError, match=said):
        compare(click_log(), "GAUC", **options)


@pytest.mark.parametrize("test", ["clustered_t", "clustered_z", "bootstrap"])
def test_confidence__however_extreme__has_an_answer(test) -> None:
    for confidence in (5e-324, math.nextafter(1.0, 0.0)):
        line = compare(click_log(), "GAUC", confidence=confidence, test=test, replicates=50).find(
            "GAUC", "new"
        )
        # No p-value of a test by changes of sign is as small as the second level.
        assert (line.mdd > 0) == (test != "bootstrap" or confidence < 0.5)
        if test != "bootstrap":
            assert (line.ci_high - line.ci_low > line.se) == (confidence > 0.5)


def test_line__of_what_was_not_compared__names_what_was() -> None:
    found = compare(click_log(), "GAUC")
    with pytest.raises(MeasureError, match="AP was not part"):
        found.find("AP")
    with pytest.raises(ArgumentError, match="'old' was not part"):
        found.find("GAUC", "old")


def test_compare__test_of_groups_without_measures__leaves_out_those_of_all_rows() -> None:
    comparison = fe.compare(
        {"g": [1, 1, 2, 2], "y": [0, 1, 1, 0], "a": [1, 4, 2, 3], "b": [1, 4, 4, 3]},
        group="g", label="y", score=["a", "b"], baseline="a", test="paired_t",
    )  # fmt: skip
    assert "GAUC" in comparison.measures
    assert not any(name.startswith("AUC") for name in comparison.measures)
