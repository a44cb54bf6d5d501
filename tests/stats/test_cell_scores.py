"""Scores with their cells: saved arrays do not depend on the order of rows."""

from __future__ import annotations

import numpy as np
import pytest

from fastrank_eval.stats.score_runs import NO_VALUES
from fastrank_eval.stats.scores import CellScores


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arrays__have_each_distinct_row_once__in_any_order(weighted: bool, kind: type) -> None:
    rng = np.random.default_rng(5)
    rows = 3000
    score = (rng.integers(0, 300, rows) / 300).astype(kind)
    score[:1000] = rng.random(1000)  # some scores are distinct
    cell, label = rng.integers(0, 4, rows), rng.integers(0, 2, rows)
    weight = rng.choice([0.5, 1.0], rows)
    values = np.array([[0, 1], [0, 0], [2, 0], [1, 1]])

    def arrays_of(order: np.ndarray, numbers: np.ndarray) -> dict[str, np.ndarray]:
        state = CellScores(2, weighted)
        for part in np.array_split(order, 3):
            positive = np.flatnonzero(label[part])
            number = np.argsort(numbers)[cell[part]]
            weights = weight[part] if weighted else None
            state.add(score[part], number, values[numbers], positive, weights)
        return state.to_arrays()

    arrays = arrays_of(np.arange(rows), np.arange(4))
    shuffled = arrays_of(rng.permutation(rows), np.array([2, 0, 3, 1]))
    assert arrays.keys() == shuffled.keys()
    assert all(np.array_equal(arrays[name], shuffled[name]) for name in arrays)
    columns = (score, cell, label, weight) if weighted else (score, cell, label)
    assert len(arrays["rows"]) == len({*zip(*(c.tolist() for c in columns), strict=True)})
    assert arrays["rows"].sum() == rows


def test_rows_without_weights__have_an_array_of_their_own() -> None:
    """Readers freeze it; kernels that sort scores write to the array of no values."""
    state = CellScores(1, weighted=False)
    state.add(np.array([0.5]), np.zeros(1, np.int64), np.array([[0]]), np.zeros(0, np.int64))
    (rows,) = state.ranges(map)
    assert rows.weight is not NO_VALUES
