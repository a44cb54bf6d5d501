"""Sums of two models' terms over groups drawn again, or with models that have changed places."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.workload import SEED
from fastrank_eval.stats.bootstrap import bootstrap, swap_models

__all__ = ["GROUPS", "REPLICATES", "WAYS", "resampling"]

#: Groups beside `bench.workload.FULL_ROWS` rows of the other inputs.
GROUPS = 100_000
REPLICATES = 10_000
WAYS = ("Poisson bootstrap", "multinomial bootstrap", "randomisation")

_MEASURES = 8


def resampling(way: str, groups: int, threads: int) -> Callable[[], object]:
    """A call that resamples eight measures of two models, each with weights that models share.

    Parameters
    ----------
    way : str
        Of `WAYS`.
    groups : int
    threads : int

    Returns
    -------
    callable
    """
    rng = np.random.default_rng(SEED)
    ids = rng.integers(0, 2**64, groups, dtype=np.uint64)
    weights = rng.integers(1, 50, (_MEASURES, groups)).astype(np.float64)
    one, other = (np.concatenate([weights * rng.random(weights.shape), weights]) for _ in range(2))
    if way == "randomisation":
        return lambda: swap_models(one, other, ids, REPLICATES, SEED, threads=threads)
    both, kind = np.concatenate([one, other]), way.split()[0].lower()
    return lambda: bootstrap(both, ids, REPLICATES, SEED, kind=kind, threads=threads)
