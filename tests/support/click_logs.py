"""Logs of several models, and what a comparison of them is by its definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import fastrank_eval as fe
from tests.stats.test_paired import two_passes
from tests.support import batched

COLUMNS: dict[str, Any] = {"group": "user", "label": "click"}
MODELS = ["old", "new", "newer"]


def evaluate(log: Any, score: Any, measures: Any, **options: Any) -> fe.Result:
    return batched.evaluate(log, **COLUMNS, score=score, measures=measures, **options)


def compare(
    log: Any, measures: Any, score: Sequence[str] = ("old", "new"), **options: Any
) -> fe.Comparison:
    given = {"score": score, "baseline": "old", "measures": measures, **options}
    return batched.compare(log, **{**COLUMNS, **given})


def click_log(
    groups: int = 60, seed: int = 1, models: Sequence[str] = ("old", "new", "newer")
) -> dict[str, np.ndarray]:
    """Groups of 1 to 9 rows of noisy scores, tied here and there; the later the model, the better.

    Some groups have clicks on all rows or none.
    """
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 10, groups)
    rows = int(sizes.sum())
    quality = random.normal(size=rows)
    log = {
        "user": np.repeat(random.permutation(groups), sizes),
        "click": (random.random(rows) < 1 / (1 + np.exp(-quality))).astype(np.int64),
        "weight": random.integers(1, 4, rows).astype(np.float64),
    }
    for place, model in enumerate(models):
        log[model] = np.round(quality + random.normal(size=rows) * (2.0 - 0.5 * place), 1)
    return log


def with_probabilities(log: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same log with scores that are probabilities, neither 0 nor 1."""
    return {name: 1 / (1 + np.exp(-c)) if name in MODELS else c for name, c in log.items()}


def log_of_slices() -> dict[str, np.ndarray]:
    """Probabilities, a slot that varies inside groups, and a country and an age of each group."""
    found = with_probabilities(click_log(150, seed=3))
    found["slot"] = np.random.default_rng(0).integers(0, 3, len(found["user"]))
    found["country"] = np.array(["de", "fr", "se"])[found["user"] % 3]
    found["age"] = found["user"] % 50
    return found


def with_nulls(log: dict[str, np.ndarray], model: str, every: int = 4) -> pa.Table:
    """The same log where a model has no score for whole groups and for single rows."""
    missing = (log["user"] % every == 0) | (np.arange(len(log["user"])) % 7 == 0)
    return pa.table({**log, model: pa.array(log[model], mask=missing)})


def mean_and_error(a, b, wa, wb) -> tuple[float, float, float]:
    """Two weighted means over groups and the paired standard error of their difference."""
    means = [
        np.average(v[~np.isnan(v)], weights=w[~np.isnan(v)]) if (~np.isnan(v)).any() else math.nan
        for v, w in ((a, wa), (b, wb))
    ]
    return means[0], means[1], two_passes(a, b, wa, wb)
