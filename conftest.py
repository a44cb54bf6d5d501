"""What holds for tests and for the examples of docstrings."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _measures_of_the_package() -> Iterator[None]:
    """Forget measures that a test or an example registers."""
    base = sys.modules.get("fastrank_eval.measures.base")
    tables = () if base is None else (base.registry, base.aliases)
    before = [dict(table) for table in tables]
    yield
    for table, kept in zip(tables, before, strict=True):
        if table != kept:
            table.clear()
            table.update(kept)
