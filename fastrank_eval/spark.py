"""The same engine inside Spark: `evaluate` and `compare` of DataFrames."""

from fastrank_eval.integrations.spark import compare, evaluate

__all__ = ["compare", "evaluate"]
