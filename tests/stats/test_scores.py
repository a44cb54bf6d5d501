"""Pooled scores where buckets are full, and where several threads fill them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fastrank_eval
from fastrank_eval.stats.score_runs import ScoreRuns, area_under
from fastrank_eval.stats.scores import PooledScores, WeightedScores
from tests.stats.test_states import rank_auc

pytestmark = pytest.mark.kernels

SLOW = pytest.mark.slow("millions of scores")


NEIGHBOURS = (0x3F000000 + np.arange(30_000, dtype=np.uint32)).view(np.float32)
FULL = {
    "float32, in a table": lambda rng: rng.choice(NEIGHBOURS, 60_000),
    "float32, at both ends of the table": lambda rng: rng.choice(
        np.array([0x3F000000, 0x3F0FFFFF, *range(0x3F000001, 0x3F00FFFF)], np.uint32), 60_000
    ).view(np.float32),
    "float32 below zero": lambda rng: -rng.choice(NEIGHBOURS, 60_000),
    "float32, one score too often for a byte": lambda rng: np.concatenate(
        [rng.choice(NEIGHBOURS, 60_000), np.repeat(NEIGHBOURS[77], 256)]
    ),
    "float64": lambda rng: 0.5 + rng.random(60_000) / 64,
    "float64, next to one another": lambda rng: 0.5 + rng.integers(0, 9000, 60_000) * 2.0**-53,
}


@pytest.mark.compiled
@pytest.mark.parametrize("share", [0.001, 0.03, 0.6])
@pytest.mark.parametrize("scores", list(FULL))
@pytest.mark.parametrize("every", [pytest.param(1, marks=SLOW), 40])
def test_auc__of_one_crowded_bucket__is_exact(scores, share, every, monkeypatch):
    monkeypatch.setattr(ScoreRuns, "FEW_ROWS", 0)
    rng = np.random.default_rng(1)
    score = FULL[scores](rng)[::every]
    positive = rng.random(len(score)) < share
    state = PooledScores()
    for rows in np.array_split(np.arange(len(score)), 3):
        state.add(score[rows], np.flatnonzero(positive[rows]))
    assert state.auc() == rank_auc(score, positive)
    assert not state._all.counts, "placed among its rows, not counted"
    weighted = WeightedScores()
    weighted.add(score, np.flatnonzero(positive), np.ones(len(score)))
    assert state.auc(0.5) == pytest.approx(weighted.auc(0.5), abs=1e-12)
    assert state.auc() == rank_auc(score, positive), "counted now"


@SLOW
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("room", [1 << 12, 1 << 17, 1 << 20, 1 << 26])
@pytest.mark.parametrize("few", [0, 5000])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_auc__of_rows_from_several_threads__is_exact(threads, few, room, kind, monkeypatch):
    monkeypatch.setattr(ScoreRuns, "FEW_ROWS", few)
    monkeypatch.setattr(PooledScores, "BUFFER_BYTES", room)
    rng = np.random.default_rng(threads)
    score = (rng.normal(size=40_000) * np.exp2(rng.integers(-9, 9, 40_000))).astype(kind)
    score[::50] = 0.0
    score[1::50] = -0.0
    positive = rng.random(len(score)) < 0.1
    state = PooledScores(threads)
    parts = np.array_split(np.arange(len(score)), 37)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda rows: state.add(score[rows], np.flatnonzero(positive[rows])), parts))
    wanted = rank_auc(score, positive)
    assert state.auc() == wanted
    partial = state.auc(0.3)
    assert state.auc() == wanted
    alone = PooledScores()
    alone.add(score, np.flatnonzero(positive))
    assert alone.auc(0.3) == partial


@SLOW
def test_auc__rows_kept_before_others_were_dealt__are_not_lost(monkeypatch):
    """Dealing what was kept may fill the room and have rows counted."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(PooledScores, "BUFFER_BYTES", 1 << 19)
    rows, kept = 140_000, 120_000
    score = rng.choice([-1, 1], rows) * np.exp2(rng.uniform(-40, 40, rows))
    positive = rng.random(rows) < 0.03
    state = PooledScores()
    with ThreadPoolExecutor(1) as other:
        state.add(score[:kept], np.flatnonzero(positive[:kept]))
        other.submit(state.add, score[kept:], np.flatnonzero(positive[kept:])).result()
    assert state.auc() == rank_auc(score, positive)


@SLOW
@pytest.mark.parametrize("max_fpr", [0.01, 0.2, 0.37, 0.9])
def test_partial_auc__same_bits_from_lists_and_from_tables(max_fpr, monkeypatch):
    rng = np.random.default_rng(8)
    score = rng.choice((0x3F000000 + np.arange(400_000, dtype=np.uint32)).view(np.float32), 900_000)
    positive = rng.random(len(score)) < 0.2
    found = []
    for room in (1 << 18, 1 << 26):
        monkeypatch.setattr(PooledScores, "BUFFER_BYTES", room)
        state = PooledScores()
        for rows in np.array_split(np.arange(len(score)), 30):
            state.add(score[rows], np.flatnonzero(positive[rows]))
        found.append(state.auc(max_fpr))
    assert found[0] == found[1]


def sum_by_score(score, positive, weight) -> tuple[np.ndarray, np.ndarray]:
    """Weight of others and of positives at each score, from the highest down, in plain Python."""
    masses = {}
    for at in np.lexsort((weight, -score)).tolist():
        masses.setdefault(score[at], [0.0, 0.0])[int(positive[at])] += weight[at]
    others, positives = zip(*masses.values(), strict=True)
    return np.array(others), np.array(positives)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("levels", [1, 7, 2000, 1 << 22])
@pytest.mark.parametrize("few", [0, 1 << 17])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("rows", [4000, pytest.param(50_000, marks=SLOW)])
def test_weighted_auc__adds_the_weights_of_each_score_smallest_first(
    kind, levels, few, threads, rows, monkeypatch
):
    monkeypatch.setattr(ScoreRuns, "FEW_ROWS", few)
    rng = np.random.default_rng(levels)
    # Neighbours around one score, so that a double's lowest bits decide.
    score = (rng.integers(0, levels, rows) * 2.0**-23).astype(kind)
    if kind == np.float64:
        score = 0.5 + score * 2.0**-30
    positive = rng.random(rows) < 0.2
    weight = rng.choice([0.0, -0.0, 0.1, 1 / 3, 2.0, 1e-9, 7e5], rows) * rng.random(rows)
    state = WeightedScores()
    parts = np.array_split(np.arange(rows), 11)
    with ThreadPoolExecutor(threads) as pool:
        list(
            pool.map(
                lambda part: state.add(score[part], np.flatnonzero(positive[part]), weight[part]),
                parts,
            )
        )
    masses = sum_by_score(score, positive, weight)
    for max_fpr in (None, 0.3):
        assert state.auc(max_fpr) == area_under(*masses, max_fpr)
        with ThreadPoolExecutor(threads) as pool:
            assert state.auc(max_fpr, pool.map) == area_under(*masses, max_fpr)


def test_relevance__of_float32_labels_is_that_of_every_other_measure():
    log = {
        "group": [1, 1, 1],
        "label": np.array([0.7, 0.9, 0.0], np.float32),
        "score": [0.1, 0.2, 0.15],
    }
    roles = {"group": "group", "label": "label", "score": "score"}
    result = fastrank_eval.evaluate(log, measures="AUC(rel=0.7),GAUC(rel=0.7)", **roles)
    # The float32 nearest 0.7 is less than 0.7: one row is relevant, and it stands first.
    assert result.value("AUC(rel=0.7)") == result.value("GAUC(rel=0.7)") == 1.0


def test_merge__of_rows_without_a_positive_into_an_empty_state__has_no_area() -> None:
    other, state = PooledScores(), PooledScores()
    other.add(np.random.default_rng(0).random(200_000).astype(np.float32), np.empty(0, np.int64))
    state.merge(other)
    assert np.isnan(state.auc())
