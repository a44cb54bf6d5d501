"""Evidently's PSI, and SciPy's KS, of the distributions of two nights."""

from __future__ import annotations

import numpy as np
import pytest

from fastrank_eval.stats.binned_scores import BinnedScores, Bins
from fastrank_eval.stats.drift import drift_between, psi

pandas = pytest.importorskip("pandas")
stats = pytest.importorskip("scipy.stats")
pytest.importorskip("evidently", exc_type=ImportError)  # it does not know pandas 3.1


def evidently_psi(reference: np.ndarray, other: np.ndarray) -> float:
    from evidently.legacy.calculations.stattests.psi import psi_stat_test
    from evidently.legacy.core import ColumnType

    both = (pandas.Series(each) for each in (reference, other))
    return float(psi_stat_test.func(*both, ColumnType.Numerical, 0.1)[0])


def state(scores: np.ndarray) -> Bins:
    made = BinnedScores(1024)
    made.add(scores, np.empty(0, np.int64))
    return made.merged_bins()


def few_values(rng: np.random.Generator, levels: int, rows: int) -> np.ndarray:
    return rng.binomial(levels - 1, 0.2 + 0.3 * rng.random(), rows) / 32


@pytest.mark.parametrize("levels", [1, 2, 5, 20])
@pytest.mark.parametrize("rows", [30, 1000, 200_000])
def test_few_values__have_the_psi_of_evidently_and_the_ks_of_scipy(levels, rows):
    rng = np.random.default_rng(levels * rows)
    reference, other = few_values(rng, levels, 5 * rows), few_values(rng, levels + 2, rows)
    drift = drift_between(state(reference), state(other))
    assert drift.psi == pytest.approx(evidently_psi(reference, other), abs=1e-9)
    assert drift.ks == pytest.approx(stats.ks_2samp(reference, other).statistic, abs=1e-9)


@pytest.mark.parametrize("shift", [0.0, 0.1, 2.0])
def test_many_values__in_its_bins__have_the_psi_of_evidently(shift):
    rng = np.random.default_rng(9)
    reference, other = rng.normal(-3, 1, 50_000), rng.normal(shift - 3, 1.2, 4000)
    edges = np.histogram_bin_edges(np.append(reference, other), "sturges")
    counts = [np.histogram(each, edges)[0] for each in (reference, other)]
    assert psi(*counts) == pytest.approx(evidently_psi(reference, other), abs=1e-9)
