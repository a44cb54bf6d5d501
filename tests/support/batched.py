"""The functions that read rows, with batches of few rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any
from unittest.mock import patch

import fastrank_eval as fe
from fastrank_eval.engine import options


def in_batches(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function take `batch_rows`, the rows that a thread takes at a time."""

    @wraps(function)
    def call(*arguments: Any, batch_rows: int | None = None, **keywords: Any) -> Any:
        with patch.dict(options._DEFAULTS, batch_rows=batch_rows):
            return function(*arguments, **keywords)

    return call


compare, curve, evaluate, partial = map(in_batches, (fe.compare, fe.curve, fe.evaluate, fe.partial))
