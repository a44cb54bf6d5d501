"""What `data_gen` raises: one base class, one child per kind of fault."""

from __future__ import annotations

__all__ = ["ArgumentError", "DataGenError", "OutputError"]


class DataGenError(ValueError):
    """Base class of every error that `data_gen` raises on purpose."""


class ArgumentError(DataGenError):
    """An option has a value outside its range; the message names option, value and range."""


class OutputError(DataGenError):
    """The output exists already or cannot be written; the message names the path."""
