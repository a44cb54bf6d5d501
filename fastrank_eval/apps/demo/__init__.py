"""Make realistic impressions of known quality.

They are the test and benchmark data of fastrank_eval.

Every value is a pure function of (seed, row number, group number): the same seed gives the same
rows for any batch size, file count or machine, and 10**9 rows need no more memory than a batch.
"""

from __future__ import annotations

from fastrank_eval.apps.demo.numbers import binormal_auc, binormal_shift
from fastrank_eval.apps.demo.rows import Impressions, Recipe, Written, impressions, write_parquet

__all__ = [
    "Impressions",
    "Recipe",
    "Written",
    "binormal_auc",
    "binormal_shift",
    "impressions",
    "write_parquet",
]
