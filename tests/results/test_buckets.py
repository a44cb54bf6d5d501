"""Errors of merged states over buckets of clusters."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, MergeError
from fastrank_eval.engine.state_arrays import BY_BUCKET
from fastrank_eval.io.keys import group_ids
from fastrank_eval.stats.means import BUCKETS
from tests.support.tables import evaluate

MEASURES = "GAUC,nDCG@3,GMAP,LogLoss,PPV,NE,AUC,AUC(se='clustered'),NumRel"
#: Measures whose error sums by bucket do not give.
LOST = {"AUC(se='clustered')", "NumRel"}


def a_night(seed: int, users: int = 300, rows: int = 5) -> dict[str, Any]:
    """The rows of some users, who return on other nights and differ from one another."""
    rng = np.random.default_rng(seed)
    taste = np.random.default_rng(0).normal(0.5, 1.0, 2 * users)
    user = np.repeat(rng.choice(2 * users, users, replace=False), rows)
    click = (rng.random(len(user)) < 0.4).astype(int)
    scores = {}
    for name in ("old", "new"):
        noise = rng.normal(0.0, 1.0, len(user))
        scores[name] = 1 / (1 + np.exp(-taste[user] * (2 * click - 1) - noise))
    slot = rng.integers(0, 2, len(user))
    return {"user": user, "slot": slot, "click": click, **scores}


def state_of(log: Any, measures: str = MEASURES, **options: Any) -> fe.State:
    given: dict[str, Any] = {"group": "user", "label": "click", "score": ["old", "new"]}
    given |= {"keep": "clusters", **options}
    return evaluate(log, measures, **given).state


def value_of(result: fe.Result, name: str, score: str = "old") -> Any:
    """The value of all rows."""
    return next(v for v in result if (v.by, v.measure, v.score) == (None, name, score))


def merged(states: Sequence[fe.State]) -> fe.State:
    return states[0].merge(*states[1:])


def test_merge__in_any_order_of_the_same_users__has_the_same_bytes() -> None:
    options: dict[str, Any] = {"by": "slot", "baseline": "old"}
    states = [state_of(a_night(seed), **options) for seed in range(4)]
    once = merged(states)
    again = states[3].merge(states[1]).merge(states[2].merge(states[0]))
    assert again.arrays.keys() == once.arrays.keys()
    for place, parts in once.arrays.items():
        for name, array in parts.items():
            assert np.array_equal(array, again.arrays[place][name]), (place, name)
    read = fe.State.from_bytes(once.to_bytes())
    assert repr(list(read.result())) == repr(list(once.result()))
    assert repr(list(read.compare())) == repr(list(once.compare()))


@pytest.mark.parametrize("order", ["grouped", "scattered"])
def test_buckets__of_any_batches_threads_and_types_of_keys__are_the_same(order: str) -> None:
    log = a_night(1)
    options = {"by": "slot", "baseline": "old", "order": order}
    once = state_of(log, **options)
    user = log["user"]
    others = (
        (user.astype(np.int32), {"threads": 3, "batch_rows": 50}),
        (pa.array(user).dictionary_encode(), {"threads": 1}),
        (user.astype(np.uint16), {}),
    )
    for keys, more in others:
        other = state_of({**log, "user": keys}, **{**options, **more})
        for place, parts in once.arrays.items():
            for name, array in parts.items():
                assert np.array_equal(array, other.arrays[place][name]), (place, name)


def error_over_buckets(
    values: np.ndarray, weights: np.ndarray, user: np.ndarray
) -> tuple[float, float, int]:
    """Mean, error and number of used buckets by the definition."""
    bucket = (group_ids((pa.array(user),)) % np.uint64(BUCKETS)).astype(np.int64)
    used = ~np.isnan(values)
    p = np.bincount(bucket[used], (weights * values)[used], BUCKETS)
    w = np.bincount(bucket[used], weights[used], BUCKETS)
    count = int(np.count_nonzero(w))
    mean = p.sum() / w.sum()
    return mean, math.sqrt(count / (count - 1) * np.sum((p - mean * w) ** 2)) / w.sum(), count


def test_merged_states__count_buckets__by_the_definition() -> None:
    logs = [a_night(seed) for seed in range(3)]
    measures = "GAUC,nDCG@3"
    found = merged([state_of(log, measures) for log in logs]).result()
    tables = [
        fe.evaluate(
            log, group="user", label="click", score="old", measures=measures, keep="values"
        ).per_group
        for log in logs
    ]
    table = pa.concat_tables(tables)
    user, rows = (np.asarray(table[name]) for name in ("user", "rows"))
    for name, weights in (("GAUC", rows), ("nDCG@3", np.ones(len(user)))):
        mean, se, count = error_over_buckets(table[name].to_numpy(), weights, user)
        value = value_of(found, name)
        assert value.value == pytest.approx(mean, rel=1e-13)
        assert value.se == pytest.approx(se, rel=1e-11)
        assert value.effective_groups <= count
    losses = np.concatenate(
        [-np.log(np.where(log["click"], log["old"], 1 - log["old"])) for log in logs]
    )
    user = np.concatenate([log["user"] for log in logs])
    _, se, _ = error_over_buckets(losses, np.ones(len(user)), user)
    loss = merged([state_of(log, "LogLoss") for log in logs]).result()
    assert value_of(loss, "LogLoss").se == pytest.approx(se, rel=1e-9)


def test_merged_states__compare_models_over_buckets() -> None:
    logs = [a_night(seed) for seed in range(3)]
    every = merged([state_of(log, "nDCG@3,LogLoss", baseline="old") for log in logs])
    losses = [
        np.concatenate([-np.log(np.where(log["click"], log[m], 1 - log[m])) for log in logs])
        for m in ("old", "new")
    ]
    user = np.concatenate([log["user"] for log in logs])
    _, se, count = error_over_buckets(losses[1] - losses[0], np.ones(len(user)), user)
    row = every.compare().find("LogLoss")
    assert row.se == pytest.approx(se, rel=1e-9)
    assert row.groups == count
    tables = [
        fe.evaluate(
            log, group="user", label="click", score=["old", "new"], measures="nDCG@3", keep="values"
        ).per_group
        for log in logs
    ]
    table = pa.concat_tables(tables)
    values = table["new.nDCG@3"].to_numpy() - table["old.nDCG@3"].to_numpy()
    user = np.asarray(table["user"])
    _, se, _ = error_over_buckets(values, np.ones(len(user)), user)
    row = every.compare().find("nDCG@3")
    assert row.se == pytest.approx(se, rel=1e-9)
    assert row.wins + row.ties + row.losses == np.count_nonzero(~np.isnan(values))
    assert math.isnan(row.effect_size)


def test_error_over_buckets__is_that_of_users__within_two_percent() -> None:
    """Simulated: 20 logs of 4 nights whose users return."""
    ratios = []
    for seed in range(20):
        logs = [a_night(100 * seed + night, users=1500, rows=3) for night in range(4)]
        found = merged([state_of(log, "LogLoss", score="old") for log in logs]).result()
        rows = {name: np.concatenate([log[name] for log in logs]) for name in logs[0]}
        whole = fe.evaluate(
            rows, group="user", label="click", score="old", measures="LogLoss", keep=""
        )
        ratios.append(value_of(found, "LogLoss").se / value_of(whole, "LogLoss").se)
    assert abs(np.mean(ratios) - 1) < 0.02
    assert np.std(ratios) < 0.04


def test_values__of_merged_states__are_those_without_buckets() -> None:
    logs = [a_night(seed) for seed in range(3)]
    options: dict[str, Any] = {"by": "slot", "baseline": "old"}
    over_buckets = merged([state_of(log, **options) for log in logs]).result()
    plain = merged([state_of(log, **options, keep="state") for log in logs]).result()
    assert [v.value for v in over_buckets] == [v.value for v in plain]
    assert [v.groups_used for v in over_buckets] == [v.groups_used for v in plain]
    for value in over_buckets:
        assert math.isnan(value.se) == (value.measure in {*LOST, "AUC"})
        assert (value.warning == "merged") == (value.measure in LOST)
    used = over_buckets.meta.conventions[BY_BUCKET]
    assert used == {"columns": ["user"], "used": 401}
    assert "clusters: 401 buckets of user" in str(over_buckets)
    assert (
        "merged states do not keep what the standard error needs: AUC(se='clustered'), NumRel"
        in str(over_buckets)
    )
    rows = merged([state_of(log, **options) for log in logs]).compare()
    assert {row.measure for row in rows if row.warning == "merged"} == LOST


def test_one_night__has_the_errors_of_its_clusters() -> None:
    log = a_night(1)
    alone = state_of(log)
    plain = repr(list(state_of(log, keep="state").result()))
    assert repr(list(alone.result())) == plain
    no_rows = state_of({name: column[:0] for name, column in log.items()})
    assert repr(list(alone.merge(no_rows).result())) == plain
    assert alone.has_clusters
    assert alone.merge(no_rows).has_clusters


def test_merge__with_a_state_without_buckets__has_none() -> None:
    with_buckets = state_of(a_night(1), baseline="old")
    without = state_of(a_night(2), keep="state", baseline="old")
    for both in (with_buckets.merge(without), without.merge(with_buckets)):
        assert not both.has_clusters
        assert BY_BUCKET not in both.result().meta.conventions
        note = "one of the states has no sums by bucket, so a user with rows in two states counts"
        read = fe.State.from_bytes(both.to_bytes())
        others = [state_of(a_night(3), keep=keep, baseline="old") for keep in ("state", "clusters")]
        again = [read.merge(others[0]), others[0].merge(read), others[1].merge(read)]
        for shown in (both.result(), both.compare(), *(each.result() for each in again)):
            assert f"{note} as two" in str(shown)
        assert not any(place[2].startswith((BY_BUCKET, '["buckets"')) for place in both.arrays)


@pytest.mark.parametrize("measures", ["LogLoss", "PCOC", "PPV,Brier", "GAUC", "GAUC,LogLoss,AUC"])
def test_fingerprint__of_the_same_rows__is_that_without_buckets(measures: str) -> None:
    options: dict[str, Any] = {"by": "slot", "baseline": "old"}
    one, other = (state_of(a_night(1), measures, **options, keep=k) for k in ("clusters", "state"))
    with pytest.raises(MergeError, match="hold the same 1500 rows"):
        one.merge(other)


def test_merge__of_whole_groups__counts_none_as_two() -> None:
    first, second = a_night(1), a_night(2)
    second["user"] = second["user"] + 10_000
    with_buckets = state_of(first, keep="groups,clusters")
    assert "counts as two" not in str(with_buckets.merge(state_of(second, keep="groups")).result())
    cut = state_of(a_night(2), keep="groups")
    assert "counts as two" in str(with_buckets.merge(cut, allow_crossing=True).result())
    plain = [state_of(a_night(seed), keep="state") for seed in (1, 2)]
    assert "counts as two" not in str(merged(plain).result())


def test_state__with_buckets__has_16_kb_each_and_no_keys() -> None:
    log = a_night(1, users=20_000, rows=4)
    text = pa.array([f"user {user:08}" for user in log["user"]])
    log = {**log, "user": text}
    sizes = []
    for keep in ("state", "clusters"):
        state = state_of(log, "GAUC,nDCG@3,LogLoss", score="old", keep=keep)
        sizes.append(len(state.to_bytes()))
    most = 3 * 20_000  # three measures, and the rows of each bucket
    assert sizes[1] - sizes[0] < most
    larger = state_of(a_night(2, users=40_000, rows=4), "GAUC,nDCG@3,LogLoss", score="old")
    assert len(larger.to_bytes()) - sizes[0] < most
    arrays = b"".join(part.tobytes() for of in state.arrays.values() for part in of.values())
    assert b"user 0" not in arrays
    assert "user 0" not in json.dumps(state.header)


def test_header__of_a_large_cluster__has_no_key_where_buckets_stand_for_keys() -> None:
    log = a_night(1)
    log["user"] = pa.array([f"name {max(user, 200)}" for user in log["user"]])
    kept = {
        keep: state_of(log, "LogLoss", score="old", keep=keep)
        for keep in ("state", "clusters", "groups,clusters")
    }
    kept["dropped"] = kept["groups,clusters"].without_groups()
    named = [name for name, state in kept.items() if b"name 200" in state.to_bytes()]
    assert named == ["state", "groups,clusters"]
    for name, state in kept.items():
        told = "large group user=name 200" if name in named else "one large group"
        assert f"{told}: 3" in str(state.result()), name


def test_clusters__without_groups__are_refused() -> None:
    needs = r"keep='clusters' \(--keep-clusters\) needs groups: .* or cluster=\.\.\. \(--cluster\)"
    with pytest.raises(ArgumentError, match=needs):
        state_of(a_night(1), "AUC,LogLoss", group=None)
    only = state_of(a_night(1), "LogLoss", group=None, cluster="user")
    assert only.has_clusters


def test_nested_clusters__lie_in_the_bucket_of_their_key() -> None:
    logs = [a_night(seed) for seed in range(3)]
    users = merged([state_of(log, "LogLoss,PPV") for log in logs]).result()
    parts = [state_of(log, "LogLoss,PPV", group=["user", "slot"], cluster="user") for log in logs]
    assert [v.se for v in merged(parts).result()] == [v.se for v in users]


@pytest.mark.parametrize("unretrieved", ["allow", "drop"])
@pytest.mark.parametrize("cluster", [None, "household"])
def test_slices__have_the_errors_of_their_rows_alone(unretrieved: str, cluster: str | None) -> None:
    """Groups and clusters that slices divide, and rows without a score."""
    measures = "GAUC,nDCG@3,GMAP,PPV(threshold=0.4),NumRel"
    options: dict[str, Any] = {"baseline": "old", "cluster": cluster, "unretrieved": unretrieved}
    logs = [a_night(seed) for seed in range(3)]
    for log in logs:
        log["household"] = log["user"] // 3
        missing = np.random.default_rng(1).random(len(log["user"])) < 0.1
        log["old"] = pa.array(np.where(missing, 0, log["old"]), mask=missing)
    sliced = merged(
        [state_of(log, measures, by="slot", order="scattered", **options) for log in logs]
    )
    for slot in (0, 1):
        alone = merged([state_of(log, measures, where=f"slot = {slot}", **options) for log in logs])
        values = [v for v in sliced.result() if v.slice == f"slot={slot}"]
        for value, own in zip(values, alone.result(), strict=True):
            assert (value.value, value.groups_used) == (own.value, own.groups_used)
            assert np.array_equal([value.se, value.ci_low], [own.se, own.ci_low], equal_nan=True)
        rows = [row for row in sliced.compare() if row.slice == f"slot={slot}"]
        for row, own_row in zip(rows, alone.compare(), strict=True):
            assert np.array_equal([row.se, row.delta], [own_row.se, own_row.delta], equal_nan=True)
