"""Groups of oracle rows as one Arrow table, and logs whose columns have the usual names."""

from __future__ import annotations

from typing import Any

import fastrank_eval as fe
from fastrank_eval.testing import table_of
from tests.support import batched

__all__ = ["ROLES", "evaluate", "table_of"]

ROLES = {"group": "group", "label": "label", "score": "score"}


def evaluate(source: object, measures: Any = "GAUC", **options: Any) -> fe.Result:
    """Evaluate a source whose columns have the names of their roles, if no other is given."""
    return batched.evaluate(source, measures=measures, **{**ROLES, **options})
