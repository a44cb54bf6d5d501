"""AUC(bins=..., se='clustered'): bins of rows by group during a run, bins alone in states."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval import gate
from fastrank_eval.results.gate_judge import judge
from fastrank_eval.stats import binned_scores
from fastrank_eval.stats.clustered_scores import ClusteredBins
from tests.results.test_saved_states import same_arrays
from tests.stats.test_auc_variance import obuchowski
from tests.support import batched

EXACT = "AUC(se='clustered')"
#: Options of a run with a baseline and slices.
RUN: dict[str, Any] = {
    "group": "user", "label": "click", "score": ["a", "b"], "baseline": "a", "by": "slot",
}  # fmt: skip


def binned(bins: int) -> str:
    return f"AUC(se='clustered', bins={bins})"


def log_of(rows: int, users: int = 100, kind: Any = np.float64, seed: int = 1) -> dict[str, Any]:
    """Clicks of users who differ; the scores span many powers of two."""
    rng = np.random.default_rng(seed)
    user = np.sort(rng.integers(0, users, rows))
    logit = rng.normal(-2, 1.5, rows) + rng.normal(0, 0.7, users)[user]
    click = rng.random(rows) < 1 / (1 + np.exp(-logit))
    scores = {
        name: 1 / (1 + np.exp(-rng.normal(logit, width))) for name, width in (("a", 0.5), ("b", 1))
    }
    return {
        "user": user,
        "click": click.astype(np.int8),
        **{name: score.astype(kind) for name, score in scores.items()},
        "weight": rng.choice([0.0, 0.25, 1 / 3, 7.0], rows),
        "slot": rng.integers(0, 3, rows),
    }


def numbers_of(line: Any) -> tuple[float, ...]:
    return line.se, line.ci_low, line.ci_high, line.effective_groups


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_error__is_that_of_the_scores_where_each_has_its_own_bin(kind, weight) -> None:
    log = log_of(3000, kind=kind)
    texts = [EXACT, binned(1 << 20)]
    found = fe.evaluate(log, **{**RUN, "baseline": None}, weight=weight, measures=texts)
    compared = fe.compare(log, **RUN, weight=weight, measures=texts)
    for lines in (found.values, compared.values):
        pairs = [pair for pair in pairwise(lines) if pair[0].measure == EXACT]
        assert len(pairs) == 4 * len({line.score for line in lines})
        for exact, bins in pairs:
            assert (exact.score, exact.slice) == (bins.score, bins.slice)
            assert math.isfinite(exact.se)
            if weight is None:
                assert bins.se == exact.se
            assert bins.se == pytest.approx(exact.se, rel=1e-11)
            # With weights, effective groups hold the roundings of all steps: bins have more steps.
            assert bins.ci_low == pytest.approx(exact.ci_low, rel=1e-3 if weight else 1e-12)
    if weight is None:
        for exact, bins in pairwise(found.values):
            if exact.measure == EXACT:
                assert numbers_of(exact) == numbers_of(bins)


@pytest.mark.parametrize("weighted", [False, True])
def test_error__is_that_of_an_auc_in_which_the_scores_of_a_bin_are_tied(weighted) -> None:
    log = log_of(400, users=30)
    weight = log["weight"] if weighted else None
    state = ClusteredBins(8, weighted)
    starts = np.flatnonzero(np.diff(log["user"], prepend=-1, append=-1))
    state.add(log["a"], np.flatnonzero(log["click"]), weight, starts)
    keys = state._chunks[0].codes.astype(np.uint64) >> np.uint64(
        state.merged_bins().level - state._chunks[0].level
    )
    assert 2 <= len(np.unique(keys)) <= 8
    tied = {"label": log["click"], "group": log["user"], "score": keys}
    wanted, clusters = obuchowski(tied, weight)
    found = state.variance(state.auc()[0])
    assert math.sqrt(found.variance) == pytest.approx(wanted, rel=1e-9)
    assert found.clusters == clusters


def test_error__of_fine_bins_is_near_that_of_the_scores() -> None:
    log = log_of(20_000, users=2000)
    lines = fe.compare(log, **RUN, measures=[EXACT, binned(4096)]).values
    for exact, bins in pairwise(lines):
        if exact.measure == EXACT:
            assert bins.delta == pytest.approx(exact.delta, abs=2e-5)
            assert bins.se == pytest.approx(exact.se, rel=1e-3)
            assert bins.se != exact.se


@pytest.mark.parametrize("weight", [None, "weight"])
def test_state__has_the_same_bytes_however_rows_come(weight, monkeypatch) -> None:
    monkeypatch.setattr(binned_scores, "_BATCH_ROWS", 1 << 8)
    log = log_of(3000)
    options = {**RUN, "weight": weight, "measures": binned(64), "keep": "state"}
    once = fe.evaluate(log, **options, threads=1)
    # Users in another order, and rows in another order inside a user.
    rng = np.random.default_rng(0)
    place = rng.permutation(100)[log["user"]]
    for order in (np.lexsort((rng.random(3000), place)), rng.permutation(3000)):
        shuffled = {name: column[order] for name, column in log.items()}
        for threads, rows in ((1, 100), (3, 64), (2, 1 << 20)):
            found = batched.evaluate(shuffled, **options, threads=threads, batch_rows=rows)
            same_arrays(found.state, once.state)
            assert list(map(numbers_of, found.values)) == list(map(numbers_of, once.values))


def test_rows_during_a_run__take_a_small_integer_each(monkeypatch) -> None:
    monkeypatch.setattr(binned_scores, "_BATCH_ROWS", 1 << 10)
    state, rng = ClusteredBins(256), np.random.default_rng(3)
    for _ in range(30):
        score = rng.random(1 << 12)
        starts = np.arange(0, len(score) + 1, 1 << 6)
        state.add(score, np.flatnonzero(rng.random(len(score)) < score), None, starts)
    assert {chunk.codes.dtype for chunk in state._chunks} == {np.dtype(np.uint16)}
    # Levels rise while rows come; codes of all rows are read at the last one.
    assert {chunk.level for chunk in state._chunks} <= {*range(state.merged_bins().level + 1)}
    assert state.variance(state.auc()[0]).clusters == 30 << 6


def test_state_of_a_file__has_the_error_of_its_run_and_loses_it_with_other_rows(tmp_path) -> None:
    log = pa.table(log_of(6000, users=300))
    options = {**RUN, "measures": [binned(512), "GAUC"], "keep": "state"}
    whole = fe.evaluate(log, **options)
    whole.state.save(tmp_path / "whole")
    read = fe.load_state(tmp_path / "whole")
    same_arrays(read, whole.state)
    assert list(map(numbers_of, read.result().values)) == list(map(numbers_of, whole.values))
    wanted = fe.compare(log, **{**RUN, "measures": [binned(512), "GAUC"]})
    for found in (read.compare(), whole.state.compare()):
        assert [(line.delta, line.se, line.p_value) for line in found] == [
            (line.delta, line.se, line.p_value) for line in wanted
        ]
    users = log["user"].to_numpy()
    parts = [
        fe.evaluate(log.filter(pa.array((users < 150) == first)), **options).state
        for first in (True, False)
    ]
    merged = parts[0].merge(parts[1])
    for line, one in zip(merged.result().values, whole.values, strict=True):
        assert line.value == one.value
        if line.measure != "GAUC":
            assert (math.isnan(line.se), line.warning) == (True, "merged")
            assert line.details["error at most"] == one.details["error at most"]
        else:
            assert line.se > 0
    assert "merged states do not keep what the standard error needs" in str(merged.result())
    compared = merged.compare().find(binned(512))
    assert (math.isnan(compared.se), compared.warning) == (True, "merged")
    assert compared.verdict.endswith("merged states do not keep what its standard error needs")
    # It has the bytes of a merge in any order, and an empty state changes nothing.
    same_arrays(merged, parts[1].merge(parts[0]))
    empty = fe.evaluate(log.slice(0, 0), **options).state
    same_arrays(empty.merge(read), read)
    same_arrays(read.merge(empty), read)


def test_state__does_not_grow_with_the_rows() -> None:
    sizes = []
    for rows in (10_000, 40_000):
        options = {**RUN, "by": None, "measures": binned(256), "keep": "state"}
        sizes.append(len(fe.evaluate(log_of(rows, users=500), **options).state.to_bytes()))
    assert max(sizes) < 20_000
    assert sizes[1] < 1.2 * sizes[0]


def test_gates__take_its_error() -> None:
    log, text = log_of(6000), binned(512)
    found = fe.compare(log, **RUN, measures=text)
    line = found.find(text)
    assert line.p_value < 0.01
    verdict = judge([gate(f"{text} delta_ci_high < 0")], list(found.values), rows=6000, groups=100)
    assert not verdict.passed


def test_one_class__is_undefined_without_an_error() -> None:
    log = {**log_of(100), "click": np.zeros(100, np.int8)}
    options = {**RUN, "measures": binned(8), "keep": "state"}
    result = fe.evaluate(log, **options)
    assert {line.warning for line in result.values} == {None}
    assert all(math.isnan(line.value) for line in result.values)
    same_arrays(fe.State.from_bytes(result.state.to_bytes()), result.state)


@pytest.mark.parametrize("place", [0, 3, 4, 6])
def test_finished_sums__that_cannot_be__are_refused(place) -> None:
    state = ClusteredBins(8)
    state.add(np.arange(4.0), np.array([1, 3]), None, np.array([0, 2, 4]))
    arrays = state.to_arrays()
    read = ClusteredBins.from_arrays(arrays).variance(math.nan)
    assert repr(read) == repr(state.variance(0.75))
    arrays["variance"][place] = -1
    with pytest.raises(ValueError, match="must not be negative"):
        ClusteredBins.from_arrays(arrays)


def test_error_of_clusters__is_that_of_the_scores_where_each_has_its_own_bin() -> None:
    log = log_of(3000)
    log["session"] = np.arange(3000) // 3
    options = {**RUN, "group": ["user", "session"], "cluster": "user"}
    lines = fe.compare(log, **options, measures=[EXACT, binned(1 << 20)]).values
    alone = fe.compare(log, **RUN, measures=EXACT)
    for exact, bins in pairwise(lines):
        if exact.measure == EXACT:
            assert (bins.se, bins.p_value, bins.degrees) == (exact.se, exact.p_value, exact.degrees)
            assert exact.se == alone.find(EXACT, slice=exact.slice).se
