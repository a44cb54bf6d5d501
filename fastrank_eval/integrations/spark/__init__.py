"""Evaluate DataFrames of Spark where their partitions lie."""
