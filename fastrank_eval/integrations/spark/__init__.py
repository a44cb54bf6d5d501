"""Evaluate DataFrames of Spark.

Spark groups the rows; its workers evaluate each partition.

Each module imports only from those before it:

* `worker`: the task of a partition, and the code that runs there;
* `frames`: columns of a DataFrame, its rows grouped and filtered;
* `evaluate`: checked arguments, the job and its merged replies, `evaluate` and `compare`.
"""
