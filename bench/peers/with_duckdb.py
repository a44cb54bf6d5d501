"""DuckDB: window functions over the users with a click."""

from __future__ import annotations

import duckdb
import pyarrow as pa

# rank() is the first place of a tied block and count(*), whose frame ends with the block, its last.
_GAUC = """
WITH users AS (
    SELECT user_id, count(*) AS n, sum(click)::BIGINT AS p
    FROM log GROUP BY user_id HAVING p > 0 AND p < n
), ranked AS (
    SELECT user_id, click, rank() OVER up AS low, count(*) OVER up AS high
    FROM log SEMI JOIN users USING (user_id)
    WINDOW up AS (PARTITION BY user_id ORDER BY score_a)
), sums AS (
    SELECT user_id, sum((low + high) / 2) AS r FROM ranked WHERE click = 1 GROUP BY user_id
)
SELECT sum(n * (r - p * (p + 1) / 2) / (p * (n - p))) / sum(n)
FROM users JOIN sums USING (user_id)
"""

_SEVEN = """
WITH users AS (
    SELECT user_id, count(*) AS n, sum(click)::BIGINT AS p FROM log GROUP BY user_id
), ranked AS (
    SELECT user_id, click, row_number() OVER down AS place,
        rank() OVER down AS low, count(*) OVER down AS high
    FROM log SEMI JOIN (FROM users WHERE p > 0) USING (user_id)
    WINDOW down AS (PARTITION BY user_id ORDER BY score_a DESC)
), clicks AS (
    SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY place) AS i
    FROM ranked WHERE click = 1
), lists AS (
    SELECT user_id, sum((low + high) / 2) AS r,
        coalesce(sum(1 / log2(place + 1)) FILTER (place <= 10), 0) AS dcg,
        sum(1 / log2(i + 1)) FILTER (i <= 10) AS ideal,
        avg(i / place) AS ap, 1 / min(place) AS rr,
        sum(0.5 ** i / place) FILTER (place <= 10) AS err,
        count(*) FILTER (place <= 10) AS hits
    FROM clicks GROUP BY user_id
)
SELECT
    sum(n * (p * (n + 1) - r - p * (p + 1) / 2) / (p * (n - p))) FILTER (p < n)
        / sum(n) FILTER (p < n),
    avg(dcg / ideal), avg(ap),
    sum(rr) / (SELECT count(*) FROM users), sum(err) / (SELECT count(*) FROM users),
    sum(hits) / 10 / (SELECT count(*) FROM users), avg(hits / p)
FROM users JOIN lists USING (user_id)
"""

# Levels of score first: a window over all rows takes longer.
_AUC = """
WITH levels AS (
    SELECT score_a, sum(click)::BIGINT AS p, count(*) - p AS n FROM log GROUP BY score_a
), sums AS (
    SELECT p, n, sum(n) OVER (ORDER BY score_a) AS up_to FROM levels
)
SELECT sum(p * (up_to - n / 2)) / (sum(p) * sum(n)) FROM sums
"""


def auc(table: pa.Table, presorted: bool) -> list[float]:
    """Over all rows."""
    return _query(_AUC, table)


def gauc(table: pa.Table, presorted: bool) -> list[float]:
    return _query(_GAUC, table)


def seven(table: pa.Table, presorted: bool) -> list[float]:
    return _query(_SEVEN, table)


def _query(text: str, table: pa.Table) -> list[float]:
    with duckdb.connect() as connection:
        connection.register("log", table)
        found = connection.execute(text).fetchone() or ()
    return [float("nan" if value is None else value) for value in found]
