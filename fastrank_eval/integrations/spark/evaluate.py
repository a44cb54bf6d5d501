"""Evaluate and compare the models of a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, overload

from fastrank_eval._lib.arguments import column_name, typed
from fastrank_eval.analysis.compare import (
    choices_of,
    comparison_of,
    requested_texts,
    with_clustered_errors,
)
from fastrank_eval.analysis.compare_tests import refuse_pooled
from fastrank_eval.analysis.comparison import Comparison
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.integrations.spark.job import Job, JobResult
from fastrank_eval.measures import Measure
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.results.result import Result, result_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["compare", "evaluate"]


@overload
def evaluate(
    df: DataFrame,
    *,
    group: str | Sequence[str],
    label: str,
    score: str | Sequence[str],
    measures: str | Measure | Sequence[str | Measure],
    partitions: int | None = ...,
    per_group: Literal[False] = ...,
    keep_groups: bool = ...,
    keep_scores: bool = ...,
    **options: Any,
) -> Result: ...


@overload
def evaluate(
    df: DataFrame,
    *,
    group: str | Sequence[str],
    label: str,
    score: str | Sequence[str],
    measures: str | Measure | Sequence[str | Measure],
    partitions: int | None = ...,
    per_group: Literal[True],
    **options: Any,
) -> DataFrame: ...


@typed
def evaluate(
    df: DataFrame,
    *,
    group: str | Sequence[str],
    label: str,
    score: str | Sequence[str],
    measures: str | Measure | Sequence[str | Measure],
    partitions: int | None = None,
    per_group: bool = False,
    keep_groups: bool = False,
    keep_scores: bool = False,
    **options: Any,
) -> Result | DataFrame:
    """Evaluate a DataFrame inside Spark.

    The result has the bits of `fastrank_eval.evaluate`.

    Spark groups the rows by one integer column. The same engine evaluates each partition on its
    worker, which replies with the state of its groups, a few kilobytes. States are merged exactly.

    Parameters
    ----------
    df : DataFrame
        From a classic session or Spark Connect; one row per shown or judged item.
    group, label, score, measures
        As in `fastrank_eval.evaluate`. Keys other than one integer column are identified by two
        64-bit hashes.
    partitions : int, optional
        By default ``spark.sql.shuffle.partitions``. Use two to four times the cores of the cluster,
        and at most some ten million rows each. The result has the same bits for any number.
    per_group : bool
        Return a DataFrame of the values of every group instead, with the columns of
        `Result.per_group`. It is lazy: an action on it computes the rows.
    keep_groups : bool
        Keep keys and values of every group in `Result.state`; the driver receives them.
    keep_scores : bool
        Keep every distinct score for `Result.curve`.
    **options
        Any other argument of `fastrank_eval.evaluate`, except those that Spark decides (`order`,
        `threads`, `memory`, `limit` ...) and ``ties="input"``, because Spark keeps no order.

    Returns
    -------
    Result or DataFrame
        A result always has `Result.state`.

    Raises
    ------
    FastRankEvalError
        As `fastrank_eval.evaluate` does, with the group of a faulty row; `SparkError` if workers do
        not have the package, or if Spark changed the plan so that groups may be split.

    Notes
    -----
    If the bytes of a batch are limited, Spark adds them up after each row that it sends to Python.
    A batch has at most ``spark.sql.execution.arrow.maxRecordsPerBatch`` rows anyway, so a session
    can remove the limit: ``spark.sql.execution.arrow.maxBytesPerBatch`` of 2147483647.

    Examples
    --------
    >>> from fastrank_eval import spark
    >>> spark.evaluate(  # doctest: +SKIP
    ...     session.table("impressions"), group="user_id", label="click", score="score_a",
    ...     measures="GAUC,LogLoss", by="country",
    ... )
    """
    started = perf_counter()
    options.pop("keep_state", None)
    job = Job.of(
        df,
        "evaluate",
        {"group": group, "label": label, "score": score, "measures": measures, **options},
        partitions=partitions,
        keep_groups=keep_groups,
        keep_scores=keep_scores,
    )
    if per_group:
        return job.group_values()
    reply = job.run()
    evaluation = _with_timing(reply.state.evaluation(), reply, started)
    return result_of(evaluation, keep_scores, reply.state)


@typed
def compare(
    df: DataFrame,
    *,
    group: str | Sequence[str],
    label: str,
    score: str | Sequence[str],
    baseline: str,
    measures: str | Measure | Sequence[str | Measure],
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    confidence: float = 0.95,
    partitions: int | None = None,
    per_group: bool = False,
    **options: Any,
) -> Comparison:
    """Compare models with a baseline inside Spark.

    The result has the bits of `fastrank_eval.compare`.

    Parameters
    ----------
    df : DataFrame
    group, label, score, baseline, measures, test, correction, replicates, seed, confidence
        As in `fastrank_eval.compare`. If a test needs the values of every group, the driver
        receives them.
    partitions : int, optional
        As in `evaluate`.
    per_group : bool
        Send the values of every group to the driver, for `Comparison.movers`.
    **options
        As in `evaluate`.

    Returns
    -------
    Comparison

    Raises
    ------
    FastRankEvalError
        As `evaluate` and `fastrank_eval.compare` do.

    Examples
    --------
    >>> from fastrank_eval import spark
    >>> spark.compare(  # doctest: +SKIP
    ...     session.table("impressions"), group="user_id", label="click",
    ...     score=["old", "new"], baseline="old", measures="GAUC,AUC",
    ... )
    """
    started = perf_counter()
    column_name("baseline", baseline)
    choices = choices_of(test, correction, confidence, replicates, seed, None)
    requested = requested_measures(measures)
    computed = with_clustered_errors(requested)
    refuse_pooled(choices.test, requested)
    options.pop("keep_state", None)
    job = Job.of(
        df,
        "compare",
        {
            "group": group,
            "label": label,
            "score": score,
            "measures": computed,
            "baseline": baseline,
            "confidence": confidence,
            **options,
        },
        partitions=partitions,
        keep_groups=per_group or choices.needs_groups,
        keep_scores=False,
    )
    reply = job.run()
    evaluation = _with_timing(reply.state.evaluation(), reply, started)
    return comparison_of(
        evaluation, choices, requested_texts(requested, computed, evaluation.requested), started
    )


def _with_timing(evaluation: Evaluation, reply: JobResult, started: float) -> Evaluation:
    """Set the seconds of the job and the number of compiled kernels."""
    meta = replace(evaluation.meta, seconds=perf_counter() - started, compiled=reply.compiled)
    return replace(evaluation, meta=meta)
