"""The command ``fastrank-eval spark-submit-example``: a complete job for Spark."""

from __future__ import annotations

from importlib.resources import files

import click

from fastrank_eval.shell import SectionedCommand, emit

__all__ = ["spark_submit_example"]


@click.command(
    "spark-submit-example",
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval spark-submit-example > job.py
  spark-submit job.py --parquet impressions/ --group user_id --score score_a""",
)
def spark_submit_example() -> None:
    """Print a complete job for spark-submit.

    Its first lines show how the environment is shipped to the workers; docs/DISTRIBUTED.md says
    how it is made.
    """
    emit(files("fastrank_eval.spark").joinpath("example_job.py").read_text("utf-8"))
