"""Click logs with a known AUC: a door to `fastrank_eval.apps.demo`."""

from fastrank_eval.apps.demo import (
    Impressions,
    Recipe,
    Written,
    binormal_auc,
    binormal_shift,
    impressions,
    write_parquet,
)

__all__ = [
    "Impressions",
    "Recipe",
    "Written",
    "binormal_auc",
    "binormal_shift",
    "impressions",
    "write_parquet",
]
