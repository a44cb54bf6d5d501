"""Realistic impressions with known quality: the test and benchmark data of fastrank_eval.

Every value is a pure function of (seed, row number, group number): the same seed gives the same
rows for any batch size, file count or machine, and 10**9 rows need no more memory than a batch.
"""

from __future__ import annotations

from data_gen.binormal import binormal_auc, binormal_shift
from data_gen.errors import ArgumentError, DataGenError, OutputError
from data_gen.parquet import Written, write_parquet
from data_gen.recipe import Recipe
from data_gen.rows import Impressions, impressions

__all__ = [
    "ArgumentError",
    "DataGenError",
    "Impressions",
    "OutputError",
    "Recipe",
    "Written",
    "binormal_auc",
    "binormal_shift",
    "impressions",
    "write_parquet",
]
