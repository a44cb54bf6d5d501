"""statsmodels: the error of a mean of groups in clusters."""

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe

linear_model = pytest.importorskip("statsmodels.regression.linear_model")

TABLES = 1_000
#: OLS, and WLS by the rows of a group and by a column.
MEASURES = ["nDCG@3", "P@2", "GAUC", "GAUC(weight='w')"]


def clustered_log(seed: int) -> pa.Table:
    """A few groups in fewer clusters, rows in any order."""
    random = np.random.default_rng(seed)
    groups = int(random.integers(6, 40))
    clusters = random.integers(0, random.integers(2, max(3, groups // 2)), groups)
    g = np.repeat(np.arange(groups), random.integers(1, 9, groups))
    rows = len(g)
    columns = {
        "g": g,
        "c": clusters[g],
        "s": random.integers(0, 6, rows) / 5,
        "y": (random.random(rows) < 0.4).astype(np.int8),
        "w": (random.random(groups) * 3 + 0.1)[g],
    }
    return pa.table(columns).take(pa.array(random.permutation(rows)))


def test_error__of_groups_in_clusters__is_that_of_ols_and_wls() -> None:
    compared = 0
    for seed in range(TABLES):
        log = clustered_log(seed)
        columns = {"group": "g", "cluster": "c", "label": "y", "score": "s"}
        result = fe.evaluate(log, **columns, measures=MEASURES, keep="values", threads=1)
        of_groups = result.per_group
        weight = dict(zip(log["g"].to_pylist(), log["w"].to_pylist(), strict=True))
        weights = {
            "GAUC": of_groups["rows"].to_numpy().astype(np.float64),
            "GAUC(weight='w')": np.array([weight[g] for g in of_groups["g"].to_pylist()]),
        }
        for value in result.values:
            values = of_groups[value.measure].to_numpy(zero_copy_only=False)
            used = ~np.isnan(values)
            clusters = of_groups["c"].to_numpy()[used]
            if len(set(clusters.tolist())) < 2 or np.isnan(value.se):
                continue
            model = linear_model.WLS(
                values[used],
                np.ones((len(clusters), 1)),
                weights.get(value.measure, np.ones(len(values)))[used],
            ).fit(cov_type="cluster", cov_kwds={"groups": clusters})
            assert value.value == pytest.approx(model.params[0], abs=1e-9), (seed, value)
            assert value.se == pytest.approx(model.bse[0], abs=1e-9), (seed, value)
            compared += 1
    assert compared > 3 * TABLES
