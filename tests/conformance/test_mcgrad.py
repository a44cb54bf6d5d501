"""MCGrad: its multicalibration error, and its NE of rescaled odds. It is no profile."""

import numpy as np
import pandas as pd
import pytest

import fastrank_eval as fe

metrics = pytest.importorskip("mcgrad.metrics")


def clicks(seed: int, rows: int = 3000) -> pd.DataFrame:
    """Without equal scores, whose order is the sort's there."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 6, rows)
    country, slot = rng.integers(0, 4, rows), rng.integers(0, 3, rows)
    y = rng.random(rows) < p * np.where(country == 1, 1.5, 1.0) * np.where(slot == 2, 0.8, 1.0)
    columns = {"y": y.astype(np.int64), "p": p, "w": rng.uniform(0.5, 3, rows)}
    return pd.DataFrame({**columns, "country": country.astype(str), "slot": slot.astype(str)})


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("seed", range(5))
def test_multicalibration_error(weight, seed):
    table = clicks(seed)
    theirs = metrics.MulticalibrationError(
        table,
        "y",
        "p",
        weight,
        categorical_segment_columns=["country", "slot"],
        max_values_per_segment_feature=1000,
        min_samples_per_segment=1,
        max_n_segments=None,
        precision_dtype="float64",
    )
    text = "MultiECCE(columns='country,slot', min_clicks=0)"
    result = fe.evaluate(table, label="y", score="p", weight=weight, measures=text)
    (ours,) = result
    slices = result.multicalibration()
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(ours.value, theirs.mce_sigma, **close)
    np.testing.assert_allclose(ours.details["multicalibration error"], theirs.mce, **close)
    np.testing.assert_allclose(ours.details["minimum detectable error"], theirs.mde, **close)
    assert ours.details["slices"] == theirs.total_number_segments
    for name, values in (
        ("sigmas", theirs.segments_ecce_sigma),
        ("p_value", theirs.segments_ecce_pvalue),
    ):
        column = slices[name].to_numpy()
        np.testing.assert_allclose(np.sort(column), np.sort(values), **close)
    of_all = {row["slice"]: row for row in slices.to_pylist()}["all"]
    np.testing.assert_allclose(of_all["sigmas"], theirs.global_ecce_sigma, **close)
    np.testing.assert_allclose(of_all["error"], theirs.global_ecce, **close)


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("factor", [0.3, 1.0, 2.0])
def test_calibration_free_normalized_entropy(weight, factor):
    table = clicks(7)
    y, w = table["y"].to_numpy(), None if weight is None else table[weight].to_numpy()
    table["p"] = np.clip(table["p"] * factor, 1e-6, 1 - 1e-6)
    theirs = metrics.calibration_free_normalized_entropy(y, table["p"].to_numpy(), w, 1e-10)
    # The entropy of the share of positives is computed in float32 there: 1 here, almost 1 there.
    share = np.average(y, weights=w)
    theirs /= metrics.normalized_entropy(y, np.full(len(y), share), w)
    (ours,) = fe.evaluate(table, label="y", score="p", weight=weight, measures="CalFreeNE")
    np.testing.assert_allclose(ours.value, theirs, rtol=1e-9)
