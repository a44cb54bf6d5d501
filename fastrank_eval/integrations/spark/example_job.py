r"""Evaluate click predictions in Spark.

spark-submit --archives environment.tar.gz#environment \
    --conf spark.pyspark.python=environment/bin/python \
    --conf spark.pyspark.driver.python="$(command -v python)" \
    --conf spark.executorEnv.FASTRANK_CACHE_DIR=/opt/fastrank/kernels \
    --conf spark.sql.execution.arrow.maxBytesPerBatch=2147483647 \
    job.py --table ads.impressions --where "day = '2026-11-19'" --state 2026-11-19.state

FASTRANK_CACHE_DIR is a folder of compiled kernels on each machine. Only root and the user of the
executors may be able to write it; docs/how-to/kernels.md shows how to fill it.
"""

from __future__ import annotations

import argparse
import sys

import fastrank_eval as fe
from fastrank_eval import spark as fastrank


def main() -> int:
    """Evaluate a table, print the result, save state and group values."""
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description="GAUC and calibration of a table of impressions")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--table", help="of the catalogue: Hive, Iceberg, Delta ...")
    source.add_argument("--parquet", help="a folder of Parquet files")
    parser.add_argument("--group", nargs="+", default=["user_id"])
    parser.add_argument("--cluster", nargs="+", help="the independent unit, if it has groups")
    parser.add_argument("--label", default="click")
    parser.add_argument("--score", nargs="+", default=["score_a"], help="the first is the baseline")
    parser.add_argument("--measures", default="GAUC,AUC,LogLoss,PCOC")
    parser.add_argument("--by", nargs="*", default=[], help="slices: slot, age:18,35, ts:day")
    parser.add_argument("--where", help="which rows")
    parser.add_argument("--partitions", type=int, help="two to four times the cores")
    parser.add_argument("--state", help="file for the state, to be merged with other nights")
    parser.add_argument("--groups", help="folder for the values of every group")
    arguments = parser.parse_args()

    session = SparkSession.builder.appName("fastrank_eval").getOrCreate()
    rows = (
        session.table(arguments.table)
        if arguments.table
        else session.read.parquet(arguments.parquet)
    )
    options = {
        "group": arguments.group,
        "cluster": arguments.cluster,
        "label": arguments.label,
        "score": arguments.score,
        "measures": arguments.measures,
        "by": arguments.by,
        "where": arguments.where,
        "partitions": arguments.partitions,
    }
    try:
        result = fastrank.evaluate(rows, **options)
        sys.stdout.write(f"{result}\n")
        if len(arguments.score) > 1:
            comparison = fastrank.compare(rows, baseline=arguments.score[0], **options)
            sys.stdout.write(f"{comparison}\n")
        if arguments.state:
            result.state.save(arguments.state, overwrite=True)
        if arguments.groups:
            values = fastrank.evaluate(rows, per_group=True, **options)
            values.write.mode("overwrite").parquet(arguments.groups)
    except fe.FastRankEvalError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    finally:
        session.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
