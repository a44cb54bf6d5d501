"""A group with rows in two clusters is an error that names group and clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import fastrank_eval as fe

SOURCES: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "batches": lambda table: table.to_reader(2),
}
pytestmark = pytest.mark.kernels

SPLIT = {
    "side by side": ([1, 1, 1, 1, 2, 2, 3, 3], [5, 5, 6, 6, 6, 6, 9, 9], 6),
    "apart": ([1, 1, 1, 1, 2, 2, 2, 2], [5, 5, 6, 6, 7, 7, 5, 5], 5),
}


def evaluate(users: list[int], queries: list[int], source: str, **options: Any) -> fe.Result:
    numbers = range(len(users))
    log = pa.table(
        {"user": users, "query": queries, "y": [n % 2 for n in numbers], "s": [*numbers]}
    )
    given = {"cluster": "user", "label": "y", "score": "s", "measures": "nDCG"}
    return fe.evaluate(SOURCES[source](log), group="query", **given, **options)


@pytest.mark.parametrize("order", ["auto", "grouped", "scattered"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("where", SPLIT)
def test_group_in_two_clusters__is_named_with_both(where: str, source: str, order: str) -> None:
    users, queries, group = SPLIT[where]
    told = rf"group query={group} in two clusters \(user=1 and user=2\).*--group user,query"
    with pytest.raises(fe.ColumnError, match=told):
        evaluate(users, queries, source, order=order)


def test_group_that_comes_back_in_its_cluster__is_gathered_or_refused() -> None:
    rows = [1, 1, 1, 1, 1, 1, 2, 2], [5, 5, 6, 6, 5, 5, 7, 7]
    assert evaluate(*rows, "table").meta.groups == 3
    with pytest.raises(fe.OrderError, match="group query=5 comes back after other groups"):
        evaluate(*rows, "batches")
