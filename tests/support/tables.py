"""Groups of oracle rows as one Arrow table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tests.oracles.measures import Row


def table_of(groups: Sequence[Sequence[Row]], label: pa.DataType | None = None) -> pa.Table:
    """Columns group, item, label, score, weight; one group after the other, in input order."""
    rows = [(number, row) for number, group in enumerate(groups) for row in group]
    return pa.table(
        {
            "group": pa.array([number for number, _ in rows], pa.int64()),
            "item": pa.array([row.item for _, row in rows], pa.string()),
            "label": pa.array([row.label for _, row in rows], label or pa.float64()),
            "score": pa.array([row.score for _, row in rows], pa.float64()),
            "weight": pa.array([row.weight for _, row in rows], pa.float64()),
        }
    )
