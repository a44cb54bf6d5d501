"""The same engine inside Spark: Spark brings groups together, each partition is evaluated there.

The rooms, each importing only from those named before it: `task` (what a partition is asked for),
`key_runs` (the proof that its groups are whole), `worker` (what runs there), `frames` (columns of a
DataFrame, and its rows grouped), `conditions` (`where` as Spark's own), `replies` (states of
partitions added up), `job` (arguments to one job), `evaluating` (`evaluate`, `compare`).
"""

from __future__ import annotations

from fastrank_eval.integrations.spark.evaluate import compare, evaluate

__all__ = ["compare", "evaluate"]
