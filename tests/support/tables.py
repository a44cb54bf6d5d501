"""Groups of oracle rows as one Arrow table."""

from fastrank_eval.testing import table_of

__all__ = ["table_of"]
