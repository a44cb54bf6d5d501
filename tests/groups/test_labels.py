"""Two ways to find where labelled rows stand agree."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fastrank_eval import evaluate
from fastrank_eval._lib.arrow import frozen
from fastrank_eval.groups.chunk import ranked_by_counting
from fastrank_eval.groups.labels import RankedRows
from fastrank_eval.groups.scan import find_labels, ranked_in_order
from fastrank_eval.groups.sort import order_by_score

pytestmark = pytest.mark.kernels

SIZES = {
    "one row each": [1] * 40,
    "short": [3, 1, 7, 2, 12, 5] * 9,
    "around the few": [31, 32, 33, 34, 63, 64, 65, 200],
    "one group": [3000],
    "long beside short": [2, 4000, 1, 2500, 3, 70, *[60] * 250],
}


@cache
def ranked_rows(sizes, kind, levels):
    """Scores, where groups start, their order, and a number in [0, 1) a row to mark it by."""
    rng = np.random.default_rng(0)
    rows = sum(sizes)
    score = (rng.integers(-levels, levels, rows) / levels).astype(kind)
    score[rng.random(rows) < 0.1] *= -0.0
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return frozen(score), starts, order_by_score(frozen(score), starts), rng.random(rows)


def rows_of(sizes, kind, levels, share):
    score, starts, order, chance = ranked_rows(tuple(sizes), kind, levels)
    marks = (chance < share).astype(np.uint8)
    return score, starts.copy(), order.copy(), frozen(marks)


def in_one_order(ranked_rows: RankedRows) -> list[tuple[int, ...]]:
    """(group, rows above, rows level, row) of each labelled row; labelled rows that are level, by
    row."""
    group = np.repeat(ranked_rows.ranked_groups, np.diff(ranked_rows.offsets))
    columns = (group, ranked_rows.above, ranked_rows.size, ranked_rows.row)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.compiled
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("levels", [1, 30, 10**6])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.2, 1.0])
@pytest.mark.parametrize("sizes", list(SIZES))
def test_entries_by_counting__equal_those_of_ordered_rows(sizes, share, levels, kind, skip):
    score, starts, order, marks = rows_of(SIZES[sizes], kind, levels, share)
    rows = find_labels(marks, starts, skip)
    wanted = ranked_in_order(frozen(score[order]), starts, rows, order)
    found = ranked_by_counting(score, starts, rows)
    assert np.array_equal(found.ranked_groups, wanted.ranked_groups)
    assert np.array_equal(found.offsets, wanted.offsets)
    assert np.array_equal(found.above, wanted.above), "best first, block by block"
    assert in_one_order(found) == in_one_order(wanted)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_entries_by_counting__of_scores_that_share_their_upper_bits(share, kind):
    rng = np.random.default_rng(1)
    score = (1e6 + rng.integers(0, 3000, 20_000) / 16).astype(kind)
    score[rng.random(len(score)) < 0.01] = 0.0
    score[rng.random(len(score)) < 0.001] = -np.inf
    score[rng.random(len(score)) < 0.001] = np.finfo(kind).max
    score = frozen(score)
    starts = np.array([0, 12_000, 12_000, 20_000])
    rows = find_labels(frozen((rng.random(20_000) < share).astype(np.uint8)), starts, False)
    order = order_by_score(score, starts)
    wanted = ranked_in_order(frozen(score[order]), starts, rows, order)
    found = ranked_by_counting(score, starts, rows)
    for name in ("ranked_groups", "offsets", "row", "above", "size"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name


@pytest.mark.parametrize("ties", ["expected", "best", "worst"])
def test_long_groups__same_values_in_any_order_of_rows(ties):
    rng = np.random.default_rng(4)
    sizes = [5000, 20, 3000, 90, 1, 700]
    user = np.repeat(np.arange(len(sizes)), sizes)
    label = rng.choice([0, 0, 0, 0, 0, 0, 0, 1, 2, -1], len(user)) * (rng.random(len(user)) < 0.5)
    log = {"user": user, "grade": label, "score": rng.integers(0, 900, len(user)) / 900}
    sorted_rows = np.lexsort((-log["score"], user))
    measures = "GAUC,AUC,nDCG@10,AP,RR,ERR(max_grade=2)@10,P@10,R@100"
    results = [
        evaluate(
            {name: column[rows] for name, column in log.items()},
            group="user",
            label="grade",
            score="score",
            measures=measures,
            ties=ties,
        )
        for rows in (sorted_rows, np.arange(len(user)))
    ]
    assert results[0].per_group.equals(results[1].per_group)
    assert results[0].records().equals(results[1].records())
