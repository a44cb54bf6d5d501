"""evaluate() and compare() of a DataFrame of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, overload

from fastrank_eval._lib.arguments import column_name, typed
from fastrank_eval.analysis.compare import (
    choices_of,
    comparison_of,
    names_of_measures,
    names_of_scores,
)
from fastrank_eval.analysis.compare_tests import refuse_pooled
from fastrank_eval.analysis.comparison import Comparison
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.integrations.spark.job import Job
from fastrank_eval.integrations.spark.merge import Answer
from fastrank_eval.measures import Measure
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.results.evaluate import result_of
from fastrank_eval.results.result import Result

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
    """Evaluate the rows of a DataFrame where they are, with the bits of `fastrank_eval.evaluate`.

    Spark brings the rows of each group together, in the order of one integer; each partition is
    evaluated by the same engine and replies with the state of its groups, a few kilobytes; states
    are added up exactly.

    Parameters
    ----------
    df : DataFrame
        Of a classic session or of Spark Connect; one row per shown or judged item.
    group, label, score, measures
        As `fastrank_eval.evaluate` takes them. Keys other than one integer column are told apart
        by two 64-bit hashes.
    partitions : int, optional
        By default ``spark.sql.shuffle.partitions``. Two to four times the cores of the cluster, and
        at most some ten million rows each. The result has the same bits for any number.
    per_group : bool
        Return a DataFrame of the values of every group instead, with the columns of
        `Result.per_group`; nothing is computed before it is asked for its rows.
    keep_groups : bool
        Keep keys and values of every group in `Result.state`, which then comes to the driver.
    keep_scores : bool
        Keep every distinct score for `Result.curve`.
    **options
        Any other argument of `fastrank_eval.evaluate` but those that Spark decides (`order`,
        `threads`, `memory`, `limit` ...). ``ties="input"`` is refused: Spark keeps no order.

    Returns
    -------
    Result or DataFrame
        With `Result.state` always kept.

    Raises
    ------
    FastRankEvalError
        As `fastrank_eval.evaluate` does, naming the group of a faulty row; `SparkError` where
        workers lack the package, or a plan was changed so that groups may have been parted.

    Notes
    -----
    Where the bytes of a batch are limited, Spark adds them up after each row that it sends to
    Python. Batches have ``spark.sql.execution.arrow.maxRecordsPerBatch`` rows at most anyway, so a
    session may do without: ``spark.sql.execution.arrow.maxBytesPerBatch`` of 2147483647.

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
    answer = job.answer()
    done = _told(answer.state.evaluation(), answer, started)
    return result_of(done, keep_scores, answer.state)


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
    """Tell which models are better than a baseline, with the bits of `fastrank_eval.compare`.

    Parameters
    ----------
    df : DataFrame
    group, label, score, baseline, measures, test, correction, replicates, seed, confidence
        As `fastrank_eval.compare` takes them. Tests that read the values of every group bring them
        to the driver.
    partitions : int, optional
        As `evaluate` takes it.
    per_group : bool
        Bring the values of every group to the driver, for `Comparison.movers`.
    **options
        As `evaluate` takes them.

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
    taken = names_of_measures(requested)
    refuse_pooled(choices.test, requested)
    options.pop("keep_state", None)
    job = Job.of(
        df,
        "compare",
        {
            "group": group,
            "label": label,
            "score": score,
            "measures": taken,
            "baseline": baseline,
            "confidence": confidence,
            **options,
        },
        partitions=partitions,
        keep_groups=per_group or choices.needs_groups,
        keep_scores=False,
    )
    answer = job.answer()
    done = _told(answer.state.evaluation(), answer, started)
    return comparison_of(done, choices, names_of_scores(requested, taken, done.requested), started)


def _told(done: Evaluation, answer: Answer, started: float) -> Evaluation:
    """With how long it took, and what workers compiled."""
    meta = replace(done.meta, seconds=perf_counter() - started, compiled=answer.compiled)
    return replace(done, meta=meta)
