"""Pooled scores where a bucket holds nearly every score it can."""

from __future__ import annotations

import numpy as np
import pytest

from fastrank_eval.pooled import PooledScores


def plain_auc(score: np.ndarray, positive: np.ndarray) -> float:
    """By the sum of midranks."""
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    midrank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    p, n = int(positive.sum()), int((~positive).sum())
    return float((midrank[positive].sum() - p * (p + 1) / 2) / (p * n))


@pytest.mark.parametrize("sign", [1, -1])
def test_auc__bucket_full_of_distinct_scores__is_counted_by_code(sign, monkeypatch):
    monkeypatch.setattr(PooledScores, "ROOM", 1 << 18)
    rng = np.random.default_rng(3)
    neighbours = (0x3F000000 + np.arange(400_000, dtype=np.uint32)).view(np.float32)
    score = sign * rng.choice(neighbours, 1_200_000)
    positive = rng.random(len(score)) < 0.4
    halves = PooledScores(), PooledScores()
    for k, lo in enumerate(range(0, len(score), 50_000)):
        here = slice(lo, lo + 50_000)
        halves[k % 2].add(score[here], np.flatnonzero(positive[here]))
    halves[0].merge(halves[1])
    assert halves[0].auc() == pytest.approx(plain_auc(score, positive), abs=1e-12)
    forms = [codes for codes, _ in halves[0]._counted.values()]
    assert forms == [None]
    assert sum(counts.nbytes for _, counts in halves[0]._counted.values()) <= 1 << 20


def test_auc__one_score_a_thousand_times_a_bucket__widens_its_counts(monkeypatch):
    monkeypatch.setattr(PooledScores, "ROOM", 1 << 18)
    neighbours = (0x3F000000 + np.arange(300_000, dtype=np.uint32)).view(np.float32)
    state = PooledScores()
    score = np.concatenate([neighbours, np.repeat(neighbours[7], 70_000)])
    positive = np.arange(len(score)) % 3 == 0
    for _ in range(4):
        state.add(score, np.flatnonzero(positive))
    assert state.auc() == pytest.approx(plain_auc(score, positive), abs=1e-12)
