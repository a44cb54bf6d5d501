"""Errors of fastrank_eval: each message says what, where, which value, and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ArgumentError",
    "ColumnError",
    "FastRankEvalError",
    "HistoryError",
    "MeasureError",
    "MergeError",
    "OrderError",
    "OutputError",
    "SourceError",
    "SparkError",
    "SpillError",
    "UndefinedError",
    "near",
    "text_keys_hint",
]


class FastRankEvalError(ValueError):
    """Base of every error raised on purpose by fastrank_eval."""


class SourceError(FastRankEvalError):
    """A source cannot be read: missing, corrupt, or of unknown format; the file is named."""


class ColumnError(FastRankEvalError):
    """A column is missing, of the wrong type, or holds a bad value (first row and count)."""


class MeasureError(FastRankEvalError):
    """A measure or one of its options is unknown, or its cutoff is out of range."""


class OrderError(FastRankEvalError):
    """Rows break the promised order: a group key returns, or a score rises inside a group."""

    row: int | None = None


class UndefinedError(FastRankEvalError):
    """A measure is undefined for a group and ``undefined='error'`` was asked for."""


class OutputError(FastRankEvalError):
    """An output exists already or cannot be written."""


class SparkError(FastRankEvalError):
    """A job in Spark cannot be trusted or run: groups were parted, or workers lack packages."""


class SpillError(FastRankEvalError):
    """Rows that do not fit memory cannot be sorted on disk: no room, no right, or no sorter."""


class MergeError(FastRankEvalError):
    """States cannot be merged: they rest on other conventions, or hold the same rows."""


class HistoryError(FastRankEvalError):
    """A history of nights cannot be opened, read or written, or is none."""


class ArgumentError(FastRankEvalError):
    """An option has a value outside what it accepts."""


def near(name: object, candidates: Iterable[str]) -> str:
    """Suggest the candidate spelt most like ``name``.

    Parameters
    ----------
    name : object
        What was asked for; what is no text resembles nothing.
    candidates : iterable of str
        What exists.

    Returns
    -------
    str
        ``" Did you mean 'x'?"``, or ``""`` if nothing is close.

    Examples
    --------
    >>> near("lable", ["label", "score"])
    " Did you mean 'label'?"
    >>> near("lable", ["x", "y"])
    ''
    """
    if not isinstance(name, str):
        return ""
    folded: dict[str, str] = {}
    for candidate in candidates:
        folded.setdefault(candidate.casefold(), candidate)
    found = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return f" Did you mean {folded[found[0]]!r}?" if found else ""


def text_keys_hint(kinds: Iterable[str]) -> str:
    """Explain why keys are text in one place and integers in another.

    Parameters
    ----------
    kinds : iterable of str
        Names of the Arrow types that the keys have.

    Returns
    -------
    str
        A sentence, or ``""`` unless there are both text and integers.

    Examples
    --------
    >>> text_keys_hint(["string", "int64"])
    ' Group and item columns of CSV and TSV files are text: cast the integers to string.'
    >>> text_keys_hint(["int32", "int64"])
    ''
    """
    found = list(kinds)
    if not (any("string" in kind for kind in found) and any("int" in kind for kind in found)):
        return ""
    return " Group and item columns of CSV and TSV files are text: cast the integers to string."


# Messages and reports name errors as users import them.
for _error in [FastRankEvalError, *FastRankEvalError.__subclasses__()]:
    _error.__module__ = "fastrank_eval"
