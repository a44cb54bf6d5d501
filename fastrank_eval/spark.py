"""Evaluate and compare models on DataFrames of Spark."""

from fastrank_eval.integrations.spark.evaluate import compare, evaluate

__all__ = ["compare", "evaluate"]
