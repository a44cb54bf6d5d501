"""Tools that people use today, on the same rows: one file a tool.

Each function takes the Arrow table and whether its rows stand sorted by user and descending score,
and returns the numbers in the order of `bench.workload.MEASURES`. Converting the table is its own
part of the work. What a tool can gain from knowing that rows are sorted, it is given.
"""
