"""Comparisons whose independent unit is a cluster of groups: each test by its definition."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy import stats

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, MergeError
from fastrank_eval.engine.state_file import read_state_bytes, state_bytes
from fastrank_eval.measures import measure as measure_of
from fastrank_eval.results.compare_tests import TESTS, group_ids
from fastrank_eval.stats.exact import ExactSums
from fastrank_eval.stats.hypothesis_tests import minimum_detectable_difference
from fastrank_eval.stats.means import _NESTED, _WEIGHTED
from tests.oracles import resampling
from tests.support import batched

pytestmark = pytest.mark.kernels

MEASURES = ("GAUC", "AP", "P@3", "GMAP", "NumRelRet", "GAUC(weight='spend')")
COLUMNS: dict[str, Any] = {
    "group": "query",
    "label": "click",
    "score": ["old", "new"],
    "baseline": "old",
    "unretrieved": "allow",
}
SEED = 7


def log_of(users: int, seed: int = 1) -> pa.Table:
    """Users of 1 to 4 queries of 2 to 6 rows, some without a score, in any order."""
    random = np.random.default_rng(seed)
    queries = random.integers(1, 5, users)
    user = np.repeat(np.arange(users), queries)
    sizes = random.integers(2, 7, len(user))
    query = np.repeat(random.permutation(len(user)), sizes)
    rows = len(query)
    taste = np.repeat(np.repeat(random.normal(size=users), queries), sizes)
    quality = random.normal(size=rows)

    def scored(means: np.ndarray) -> pa.Array:
        scores = np.round(means + random.normal(size=rows), 1)
        return pa.array(scores, mask=random.random(rows) < 0.1)

    log = {
        "user": np.repeat(user, sizes),
        "query": query,
        "click": (random.random(rows) < 0.3 + 0.4 * (quality > 0.5)).astype(np.int64),
        "old": scored(quality),
        "new": scored(quality * (1 + taste)),
        "spend": np.repeat(random.integers(1, 9, len(user)) / 4, sizes),
        "country": np.array(["de", "fr"])[query % 2],
        "slot": random.integers(0, 2, rows),
    }
    return pa.table(log).take(random.permutation(rows))


SMALL, LOG = log_of(10, seed=3), log_of(60)


def compare(log: Any, cluster: Any = "user", **options: Any) -> fe.Comparison:
    given = {"measures": MEASURES, "replicates": 100, "seed": SEED, **COLUMNS, **options}
    return batched.compare(log, **given, **({"cluster": cluster} if cluster else {}))


def same(one: Iterable[Any], other: Iterable[Any]) -> None:
    assert [*map(repr, one)] == [*map(repr, other)]


# ---- definitions ---------------------------------------------------------------------------------

#: The summands of two models in a group, NaN where it is not used, and their weights.
Group = tuple[float, float, float, float]
#: The sums of p and w over a cluster: of the base model, and of the other.
Terms = tuple[float, float, float, float]


def users_of(log: pa.Table, text: str) -> dict[int, list[Group]]:
    """The groups of each user, evaluated without clusters."""
    records = fe.compare(log, measures=text, **COLUMNS).group_table()
    user_of = dict(zip(log["query"].to_pylist(), log["user"].to_pylist(), strict=True))
    values = [records.summands(model, 0).tolist() for model in (0, 1)]
    ones = np.ones(len(values[0]))
    weights = [records.weights.get((model, 0), ones).tolist() for model in (0, 1)]
    users: dict[int, list[Group]] = {}
    for query, *group in zip(records.keys[0].to_pylist(), *values, *weights, strict=True):
        users.setdefault(user_of[query], []).append((group[0], group[1], group[2], group[3]))
    return users


def terms_of(groups: Sequence[Group]) -> Terms:
    used_a = [(a, w) for a, _, w, _ in groups if not math.isnan(a)]
    used_b = [(b, w) for _, b, _, w in groups if not math.isnan(b)]
    return (
        sum(a * w for a, w in used_a),
        sum(w for _, w in used_a),
        sum(b * w for b, w in used_b),
        sum(w for _, w in used_b),
    )


def differences_of(users: dict[int, list[Group]]) -> Iterator[float]:
    """The weighted mean difference of each cluster with a group that both models use."""
    for groups in users.values():
        both = [((b - a) * w, w) for a, b, w, _ in groups if not math.isnan(a + b)]
        if both:
            mean = sum(d for d, _ in both) / sum(w for _, w in both)
            yield mean if abs(mean) > 1e-12 else 0.0


def value_of(text: str, p: float, w: float) -> float:
    kind = measure_of(text).aggregate
    if kind == "sum":
        return p
    return math.exp(p / w) if kind == "geometric mean" else p / w


def delta_of(text: str, clusters: Iterable[Terms]) -> float:
    pa_, wa, pb, wb = (sum(each) for each in zip(*clusters, strict=True))
    return value_of(text, pb, wb) - value_of(text, pa_, wa)


def error_of(text: str, clusters: Sequence[Terms]) -> float:
    """The paired error of a difference, with the influence of each cluster."""
    pa_, wa, pb, wb = (sum(each) for each in zip(*clusters, strict=True))
    used = [c for c in clusters if c[1] or c[3]]
    kind, n = measure_of(text).aggregate, len(used)
    if kind == "sum":
        influences = [(c[2] - c[0]) - (pb - pa_) / n for c in used]
    else:
        sa, sb = (1.0, 1.0) if kind == "mean" else (math.exp(pa_ / wa), math.exp(pb / wb))
        influences = [
            sb * (c[2] - pb / wb * c[3]) / wb - sa * (c[0] - pa_ / wa * c[1]) / wa for c in used
        ]
    return math.sqrt(n / (n - 1) * sum(each**2 for each in influences))


def signed_ranks(differences: Iterable[float]) -> float:
    """The p-value of all changes of signs."""
    values = [d for d in differences if d]
    ranks = stats.rankdata(np.round(np.abs(values), 9)).tolist()
    smaller = [
        min(sum(r for r, up in zip(ranks, signs, strict=True) if up == side) for side in (0, 1))
        for signs in product((0, 1), repeat=len(ranks))
    ]
    seen = min(
        sum(r for r, d in zip(ranks, values, strict=True) if (d > 0) == side) for side in (0, 1)
    )
    return sum(each <= seen for each in smaller) / len(smaller)


@pytest.mark.parametrize("text", MEASURES)
def test_sign_wilcoxon_and_paired_t__are_those_of_mean_differences_of_clusters(text: str) -> None:
    differences = [*differences_of(users_of(SMALL, text))]
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    found = {
        test: compare(SMALL, measures=text, test=test).values[0]
        for test in ("sign", "wilcoxon", "paired_t")
    }
    sign = found["sign"]
    assert (sign.cluster_wins, sign.cluster_losses) == (wins, losses)
    assert sign.cluster_ties == len(differences) - wins - losses
    assert sign.p_value == pytest.approx(stats.binomtest(wins, wins + losses).pvalue)
    assert found["wilcoxon"].p_value == pytest.approx(signed_ranks(differences))
    t = stats.ttest_1samp(differences, 0)
    assert found["paired_t"].statistic == pytest.approx(t.statistic)
    assert found["paired_t"].p_value == pytest.approx(t.pvalue)
    effect = np.mean(differences) / np.std(differences, ddof=1)
    assert sign.effect_size == pytest.approx(effect)


def extreme(delta: float, values: Iterable[float]) -> int:
    return sum(abs(each) >= abs(delta) - 1e-9 for each in values)


def swapped(clusters: Sequence[Terms], coins: Sequence[int]) -> list[Terms]:
    pairs = zip(clusters, coins, strict=True)
    return [(c[2], c[3], c[0], c[1]) if coin else c for c, coin in pairs]


@pytest.mark.parametrize("text", MEASURES)
def test_randomisation__swaps_whole_clusters(text: str) -> None:
    clusters = [*map(terms_of, users_of(SMALL, text).values())]
    delta = delta_of(text, clusters)
    values = [
        delta_of(text, swapped(clusters, coins)) for coins in product((0, 1), repeat=len(clusters))
    ]
    found = compare(SMALL, measures=text, test="randomisation", replicates=1 << 10).values[0]
    assert found.delta == pytest.approx(delta)
    assert found.p_value == pytest.approx(extreme(delta, values) / len(values))


@pytest.mark.parametrize("text", MEASURES[::2])
def test_random_swaps__depend_on_the_key_of_the_cluster(text: str) -> None:
    users = users_of(LOG, text)
    ids = group_ids((pa.array([*users]),)).tolist()
    clusters = [*map(terms_of, users.values())]
    delta = delta_of(text, clusters)
    values = [
        delta_of(text, swapped(clusters, [resampling.coin(i, r, SEED) for i in ids]))
        for r in range(100)
    ]
    found = compare(LOG, measures=text, test="randomisation").values[0]
    assert found.p_value == pytest.approx((1 + extreme(delta, values)) / 101)


@pytest.mark.parametrize("text", MEASURES)
def test_bootstrap__draws_whole_clusters_by_their_keys(text: str) -> None:
    users = users_of(LOG, text)
    ids = group_ids((pa.array([*users]),)).tolist()
    clusters = [terms for _, terms in sorted(zip(ids, map(terms_of, users.values()), strict=True))]
    ids.sort()
    is_sum = measure_of(text).aggregate == "sum"

    def times(r: int) -> list[int]:
        if is_sum:
            return resampling.drawn(len(ids), r, SEED)
        return [resampling.poisson(i, r, SEED) for i in ids]

    delta = delta_of(text, clusters)
    values = []
    for r in range(100):
        drawn = zip(clusters, times(r), strict=True)
        values.append(delta_of(text, [tuple(x * n for x in c) for c, n in drawn]))
    found = compare(LOG, measures=text, test="bootstrap").values[0]
    assert found.se == pytest.approx(np.std(values, ddof=1))
    assert found.p_value == pytest.approx((1 + extreme(delta, [v - delta for v in values])) / 101)
    ends = np.quantile(values, [0.025, 0.975], method="weibull")
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(ends))


# ---- clustered errors ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", MEASURES)
def test_errors__are_those_of_clusters_in_each_slice(text: str) -> None:
    comparison = compare(LOG, measures=text, by=["country", "slot", "country,slot"])
    parts = 0
    for value in comparison:
        rows = LOG
        for part in value.slice.split(",") if value.by else ():
            name, _, wanted = part.partition("=")
            kept = [str(each) == wanted for each in rows[name].to_pylist()]
            rows = rows.filter(pa.array(kept))
            parts += 1
        clusters = [*map(terms_of, users_of(rows, text).values())]
        assert value.delta == pytest.approx(delta_of(text, clusters))
        assert value.se == pytest.approx(error_of(text, clusters))
        assert value.groups == sum(bool(c[1] or c[3]) for c in clusters)
        if measure_of(text).aggregate != "sum":
            squares, fourth = (sum((c[2] - c[0]) ** n for c in clusters) for n in (2, 4))
            n = value.groups
            satterthwaite = 2 / max(fourth / squares**2 - 1 / n, 1e-9)
            assert value.degrees == pytest.approx(min(max(satterthwaite, 1), n - 1))
    assert parts == 2 + 2 + 8


def test_counts__are_of_groups_but_for_those_of_the_sign_test() -> None:
    by_cluster, by_group = (compare(LOG, cluster, test="sign") for cluster in ("user", None))
    for mine, plain in zip(by_cluster, by_group, strict=True):
        names = ("value", "delta", "wins", "ties", "losses", "only_base", "only_candidate")
        assert [getattr(mine, name) for name in names] == [getattr(plain, name) for name in names]
        assert (plain.cluster_wins, plain.cluster_ties, plain.cluster_losses) == (None,) * 3
        assert mine.groups < plain.groups
    changes = [one.largest_changes("AP")["contribution"] for one in (by_cluster, by_group)]
    assert changes[0] == changes[1]
    auc = by_cluster.find("GAUC")
    counts = f"GAUC {auc.cluster_wins}, {auc.cluster_ties}, {auc.cluster_losses}; AP "
    note = f"clusters in the sign test, where new is better, equal, worse: {counts}"
    assert note in str(by_cluster)
    assert "clusters" not in str(by_group)
    assert by_cluster.records().column_names[-3:] == [
        *("cluster_wins", "cluster_ties", "cluster_losses")
    ]
    assert by_group.records().column_names[-1] == "verdict"


def test_few_clusters__are_a_caution_and_bound_what_a_test_can_find() -> None:
    value = compare(SMALL, measures="GAUC", test="sign").values[0]
    assert value.warning == "few_groups"
    assert value.groups <= 10
    wanted = minimum_detectable_difference(value.se, degrees=value.degrees)
    assert value.mdd == pytest.approx(wanted)
    assert value.degrees < 10
    few = LOG.filter(pc.less(LOG["user"], 5))
    alone = compare(few, measures="AP", test="sign").values[0]
    # The least p-value of 5 clusters is 1 / 16, of 6 queries 1 / 32.
    assert math.isnan(alone.mdd)
    assert alone.wins + alone.losses >= 6


def test_one_cluster__is_named_for_measures_of_all_rows_too() -> None:
    rows = {"user": [1, 1, 1, 1], "query": [1, 1, 2, 2], "click": [0, 1, 1, 0],
            "old": [0.1, 0.4, 0.2, 0.3], "new": [0.2, 0.4, 0.3, 0.3]}  # fmt: skip
    one = compare(rows, measures="GAUC,LogLoss")
    assert all("; one cluster has no standard error" in value.verdict for value in one)
    (failure,) = one.check("LogLoss delta_ci_high < 0").failures
    assert failure.detail.endswith("or evaluate more clusters")


def test_rela_impr__has_the_error_of_clusters() -> None:
    log = LOG.append_column("better", pc.add(LOG["click"], LOG["new"]))
    value = compare(log, measures="GAUC", score=["old", "better"]).values[0]
    renamed = log.drop(["new"]).rename_columns(
        ["new" if name == "better" else name for name in log.column_names if name != "new"]
    )
    clusters = [*map(terms_of, users_of(renamed, "GAUC").values())]
    pa_, wa, pb, wb = (sum(each) for each in zip(*clusters, strict=True))
    a, b = pa_ / wa - 0.5, pb / wb - 0.5
    used = [c for c in clusters if c[1]]
    influences = [
        (c[2] - pb / wb * c[3]) / wb / a - (c[0] - pa_ / wa * c[1]) / wa * b / a**2 for c in used
    ]
    n = len(used)
    wanted = math.sqrt(n / (n - 1) * sum(each**2 for each in influences))
    assert value.rela_impr == pytest.approx(b / a - 1)
    assert value.rela_impr_se == pytest.approx(wanted)


# ---- the bits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", TESTS)
def test_a_cluster_that_is_the_group__changes_no_bit(test: str) -> None:
    for seed in (0, 1, 2**63):
        plain = compare(LOG, None, test=test, seed=seed, by="slot")
        same(plain, compare(LOG, "query", test=test, seed=seed, by="slot"))
    log = LOG.append_column("day", pc.bit_wise_and(LOG["query"], 3))
    two = {"group": ["query", "day"], "test": test}
    same(compare(log, None, **two), compare(log, ["day", "query"], **two))


def test_cluster_alone__is_the_group_of_measures_of_all_rows() -> None:
    given: dict[str, Any] = {**COLUMNS, "measures": "AUC,LogLoss", "by": "slot"}
    log = LOG.set_column(3, "old", pc.divide(LOG["spend"], 3.0)).drop(["new"])
    log = log.append_column("new", pc.divide(LOG["spend"], 4.0))
    wanted = fe.compare(log, **{**given, "group": "user"})
    given.pop("group")
    same(wanted, fe.compare(log, **given, cluster="user"))
    with pytest.raises(ArgumentError, match=r"group: must name the key columns, got None; GAUC"):
        fe.compare(log, **{**given, "measures": "GAUC"}, cluster="user")


def test_measures_of_all_rows__have_the_differences_of_clusters_as_groups() -> None:
    score = np.random.default_rng(3).random((2, LOG.num_rows)).round(2)
    log = LOG.drop(["old", "new"])
    for name, column in zip(("old", "new"), score, strict=True):
        log = log.append_column(name, pa.array(column))
    measures = "AUC,AUC(bins=64, se='clustered'),LogLoss,NE,PCOC,PPV,ECE(bins=5)"
    options = {"measures": measures, "by": ["slot", "country", "country,slot"]}
    same(compare(log, None, group="user", **options), compare(log, **options))


def sorted_by_user(log: pa.Table) -> pa.Table:
    return log.sort_by([("user", "descending"), ("query", "ascending")])


@pytest.mark.parametrize("test", ["clustered_t", "paired_t", "wilcoxon", "bootstrap"])
def test_order_and_threads__change_no_bit(test: str) -> None:
    by = ["slot", "country"]
    wanted = compare(LOG, test=test, by=by)
    reverse = LOG.take(pa.array(np.arange(LOG.num_rows)[::-1]))
    for log in (sorted_by_user(LOG), reverse):
        for threads in (1, 3):
            same(wanted, compare(log, test=test, by=by, threads=threads))


@pytest.mark.parametrize("test", TESTS)
def test_merged_states__compare_as_one_run_does(test: str) -> None:
    wanted = compare(LOG, test=test, by="slot")
    given = {"cluster": "user", "measures": MEASURES, "by": "slot", "keep": "groups", **COLUMNS}
    states = [
        fe.evaluate(LOG.filter(pc.equal(pc.bit_wise_and(LOG["user"], 3), part)), **given).state
        for part in range(4)
    ]
    first, *rest = (fe.State.from_bytes(state.to_bytes()) for state in states)
    merged = fe.State.from_bytes(first.merge(*rest).to_bytes())
    same(wanted, merged.compare(test=test, replicates=100, seed=SEED))
    if test in ("clustered_t", "sign"):
        smaller = merged.without_groups()
        assert not smaller.has_groups
        assert smaller.result().meta.conventions["cluster"] == ["user"]


# ---- two results, joined by keys -----------------------------------------------------------------


def evaluate(log: pa.Table, score: str, cluster: Any = "user", **options: Any) -> fe.Result:
    given = {**COLUMNS, "keep": "groups", "measures": MEASURES, "score": score, "baseline": None}
    return fe.evaluate(log, **{**given, **({"cluster": cluster} if cluster else {}), **options})


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("of_states", [False, True])
def test_joined_results__compare_as_both_models_do_in_one(test: str, of_states: bool) -> None:
    results: list[Any] = [evaluate(LOG, "old"), evaluate(sorted_by_user(LOG), "new")]
    if of_states:
        results = [result.state for result in results]
    found = results[0].compare(results[1], test=test, replicates=100, seed=SEED)
    same(compare(LOG, test=test), found)


@pytest.mark.parametrize("text", MEASURES)
def test_results_of_other_rows__are_joined_in_clusters(text: str) -> None:
    first, second = (
        LOG.filter(pc.not_equal(pc.bit_wise_and(LOG["query"], 7), part)) for part in (1, 2)
    )
    found = evaluate(first, "old").compare(evaluate(second, "new"), test="paired_t")
    value = found.find(text)
    one, two = users_of(first, text), users_of(second, text)
    clusters = []
    nothing = (0.0,) * 4
    for user in sorted({*one, *two}):
        mine, theirs = (terms_of(of[user]) if user in of else nothing for of in (one, two))
        clusters.append((*mine[:2], *theirs[2:]))
    assert value.delta == pytest.approx(delta_of(text, clusters))
    assert value.only_base
    assert value.only_candidate
    by_t = evaluate(first, "old").compare(evaluate(second, "new")).find(text)
    assert by_t.se == pytest.approx(error_of(text, clusters))
    assert by_t.groups == sum(bool(c[1] or c[3]) for c in clusters)


def test_results_of_other_clusters_of_a_column__count_those_of_both() -> None:
    low, high = (
        LOG.filter(keep) for keep in (pc.less(LOG["user"], 40), pc.greater(LOG["user"], 9))
    )
    found = evaluate(low, "old", measures="P@3").compare(evaluate(high, "new", measures="P@3"))
    assert "clusters: user (of 60: 40 in P@3 of old; 50 in P@3 of new)" in str(found)


def test_results_by_other_names_of_several_columns__are_joined_as_before() -> None:
    log = LOG.append_column("day", pc.bit_wise_and(LOG["query"], 3))
    renamed = log.rename_columns(["date" if n == "day" else n for n in log.column_names])
    one, other = (
        evaluate(each, score, None, group=["query", name], measures="GAUC")
        for each, score, name in ((log, "old", "day"), (renamed, "new", "date"))
    )
    assert one.compare(other).joined["only_base"] == 0


def test_results_of_other_clusters__are_refused() -> None:
    one, other = evaluate(LOG, "old"), evaluate(LOG, "new", None)
    message = r"different conventions: cluster is \['user'\] in one and None in the other; evaluate"
    with pytest.raises(ArgumentError, match=message):
        one.compare(other)
    with pytest.raises(ArgumentError, match=message):
        one.state.compare(other.state)
    moved = LOG.set_column(0, "user", pc.add(LOG["user"], pc.equal(LOG["query"], 5).cast("int64")))
    message = r"the group query=5 is in the cluster user=\d+ in one result and in user=\d+ in the "
    with pytest.raises(ArgumentError, match=message):
        one.compare(evaluate(moved, "new"))


# ---- states --------------------------------------------------------------------------------------


def test_states_of_other_clusters__do_not_merge() -> None:
    low, high = (LOG.filter(keep) for keep in (pc.less(LOG["user"], 9), pc.greater(LOG["user"], 8)))
    one = evaluate(low, "old", keep="state").state
    message = r"their columns differ: 'cluster' is \['user'\] in the first and None in the second"
    with pytest.raises(MergeError, match=message):
        one.merge(evaluate(high, "old", None, keep="state").state)


def test_a_cluster_in_two_states__is_refused_where_keys_are_kept() -> None:
    parts = [LOG.filter(pc.equal(LOG["country"], country)) for country in ("de", "fr")]
    one, other = (evaluate(part, "old").state for part in parts)
    message = r"both hold rows of the cluster user=1 and \d+ more clusters: a cluster that is cut "
    with pytest.raises(MergeError, match=message + r".* Cut logs by user, or evaluate"):
        one.merge(other)
    crossing = one.merge(other, allow_crossing=True)
    assert crossing.groups == len(set(LOG["query"].to_pylist()))
    moved = parts[0].set_column(0, "user", pc.add(parts[0]["user"], 1000))
    with pytest.raises(MergeError, match=r"both hold rows of the group query=\d+ and \d+ more gr"):
        one.merge(evaluate(moved, "old").state, allow_repeated=True)


@pytest.mark.parametrize("keep", ["groups,clusters", "groups"])
def test_states_that_share_clusters__are_tested_by_whole_clusters(keep: str) -> None:
    given = {**COLUMNS, "measures": "GAUC,NumRelRet,GAUC(weight='spend')", "cluster": "user"}
    one, other = (
        fe.evaluate(LOG.filter(pc.equal(LOG["country"], each)), **given, by="slot", keep=keep).state
        for each in ("de", "fr")
    )
    both = one.merge(other, allow_crossing=keep == "groups")
    for test in ("sign", "wilcoxon", "randomisation"):
        found = both.compare(test=test, replicates=99)
        whole = fe.compare(LOG, **given, test=test, replicates=99)
        assert repr(found.overall) == repr(whole.overall)
        assert ("clusters in the sign test" in str(found)) == (test == "sign")
        assert "buckets of user" not in str(found)


def test_merged_states_with_buckets__are_joined_by_the_keys_of_clusters() -> None:
    few = LOG.filter(pc.less(LOG["user"], 50))
    given = {"measures": "GAUC,NumRelRet", "keep": "groups,clusters"}

    def of(log: pa.Table, score: Any) -> fe.State:
        parts = (log.filter(pc.equal(log["country"], each)) for each in ("de", "fr"))
        one, other = (evaluate(part, score, **given).state for part in parts)
        return one.merge(other)

    found = of(LOG, "old").compare(of(few, "new"), test="sign")
    whole = evaluate(LOG, "old", **given).compare(evaluate(few, "new", **given), test="sign")
    both = of(LOG, ["old", "new"]).compare(baseline="old")
    assert "clusters: user" in str(both)
    assert "buckets of user" not in f"{found} {both}"
    for row, like in zip(found.overall, whole.overall, strict=True):
        same_numbers = (row.delta, row.se, row.cluster_wins, row.mdd)
        assert same_numbers == (like.delta, like.se, like.cluster_wins, like.mdd)


@pytest.mark.parametrize("cluster, named", [("user", []), (None, ["user"])])
def test_header_that_names_other_clusters__is_refused(cluster: Any, named: list[str]) -> None:
    state = evaluate(LOG, "old", cluster, keep="state").state
    header, arrays = read_state_bytes(state.to_bytes())
    header["columns"]["cluster"] = named
    with pytest.raises(fe.SourceError, match=r"counts (of totals are|must be of 6 meas)"):
        fe.State.from_bytes(state_bytes(header, arrays))


def test_state_without_clusters__has_no_word_of_them() -> None:
    assert b"cluster" not in evaluate(LOG, "old", None).state.to_bytes()[:4096]


def test_arrays_with_clusters__are_those_of_the_reference() -> None:
    measures = "GAUC,NumRelRet,GAUC(weight='spend')"
    given = {**COLUMNS, "measures": measures, "keep": "state"}
    whole, nested = (fe.evaluate(LOG, **given, **more).state for more in ({}, {"cluster": "user"}))
    assert whole is not None
    assert nested is not None
    arrays, of_groups = ({k[1:]: v for k, v in s.arrays.items()} for s in (nested, whole))
    users = len(set(LOG["user"].to_pylist()))
    assert arrays["", "totals"]["counts"].shape == (1, 5)
    assert arrays["", "totals"]["counts"][0, 4] == users
    for model, state, own in (("old", "groups", 3), ("new", "groups", 3), ("new", "pairs", 5)):
        counts, groups = (each[model, state]["counts"] for each in (arrays, of_groups))
        assert counts.shape == (3, 1, 4 if state == "groups" else 10)
        assert np.array_equal(counts[..., :own], groups)
        assert (counts[..., own:].sum(axis=2) <= users).all()
    assert not arrays["old", "groups"]["weighted"].any()
    exact, like = (
        ExactSums.from_arrays(terms, each["old", "groups"], "2.sums", 1)
        for terms, each in ((_NESTED, arrays), (_WEIGHTED, of_groups))
    )
    assert [exact.units(term, 0) for term in (0, 4)] == [like.units(term, 0) for term in (0, 4)]
    assert exact.units(6, 0) > like.units(6, 0)


# ---- truth ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", ["clustered_t", "sign", "randomisation"])
def test_models_that_users_like_alike__are_rarely_found_different(test: str) -> None:
    """Of 40 logs of 40 users whose 5 queries agree on a model: about 2, by query many more."""
    random = np.random.default_rng(5)
    users, queries, logs = 40, 5, 40
    user = np.repeat(np.arange(users), 2 * queries)
    number = np.arange(len(user))
    rows = {"user": user, "query": number // 2, "click": number % 2}
    found = {"user": 0, None: 0}
    for _ in range(logs):
        taste = np.repeat(random.normal(size=users), queries)
        right = [random.normal(size=len(taste)) + sign * taste > 0 for sign in (-1, 1)]
        log = rows | {
            name: np.stack([~up, up], axis=1).ravel().astype(float)
            for name, up in zip(("old", "new"), right, strict=True)
        }
        for cluster in found:
            given = {"measures": "GAUC", "test": test, "replicates": 100, "keep": None}
            options = {**COLUMNS, **given, **({"cluster": cluster} if cluster else {})}
            found[cluster] += fe.compare(log, **options).values[0].p_value <= 0.05
    assert found["user"] <= 6 < 12 < found[None]
