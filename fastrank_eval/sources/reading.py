"""Read record batches so that whatever goes wrong becomes an error that names the source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from fastrank_eval.errors import FastRankEvalError, SourceError

__all__ = ["decoded", "first_line", "foreign", "reading", "select", "type_name"]


def type_name(value: object) -> str:
    """Name the type of a value as its user writes it: ``pandas.DataFrame``, ``int``."""
    kind = type(value)
    root = kind.__module__.partition(".")[0].lstrip("_")
    return kind.__qualname__ if root == "builtins" else f"{root}.{kind.__qualname__}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type where it has none."""
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    line = next(iter(text.strip().splitlines()), "").rstrip(".")
    return line or type(error).__name__


@contextmanager
def foreign(name: str) -> Iterator[None]:
    """Turn errors of another library's export, whatever their type, into a SourceError."""
    try:
        yield
    except (FastRankEvalError, pa.ArrowCancelled):
        raise
    except Exception as error:
        if isinstance(error, MemoryError) and not _is_absurd(error):
            raise
        raise SourceError(
            f"Cannot read {name} as a table of Arrow columns: {first_line(error)}. "
            "Pass a table whose columns Arrow can hold, or only the columns needed."
        ) from error


@contextmanager
def reading(name: str, remedy: str, condition: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Turn what Arrow and the system raise into a SourceError.

    Parameters
    ----------
    name : str
        What is read.
    remedy : str
        Ends the message.
    condition : callable, optional
        Looks, once reading has failed, at what state the source is in; ``"it is empty: "``.
    """
    try:
        yield
    except (FastRankEvalError, pa.ArrowCancelled):
        raise
    except MemoryError as error:
        if not _is_absurd(error):
            raise
        raise SourceError(
            f"Cannot read {name}: {condition()}it asks for more memory at once than there is "
            f"({first_line(error)}). {remedy}"
        ) from error
    except FileNotFoundError as error:
        raise SourceError(f"Cannot read {name}: no such file (any more).") from error
    except PermissionError as error:
        raise SourceError(
            f"Cannot read {name}: permission denied. Allow this user to read it."
        ) from error
    except (pa.ArrowException, OSError, EOFError, KeyError, UnicodeError) as error:
        raise SourceError(
            f"Cannot read {name}: {condition()}{first_line(error)}. {remedy}"
        ) from error


def _is_absurd(error: MemoryError) -> bool:
    """Whether more was asked for at once than the machine has: lengths in the data are damaged."""
    asked = re.search(r"of size ([0-9]+) failed", str(error))
    if asked is None or not hasattr(os, "sysconf"):
        return False
    return int(asked[1]) > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def decoded(schema: pa.Schema) -> pa.Schema:
    """Decode the column names now, where a name that is no text can still be blamed on its file."""
    _ = schema.names
    return schema


def select(reader: pa.RecordBatchReader, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read just these columns, in this order."""
    places = [reader.schema.get_field_index(name) for name in columns]
    for batch in reader:
        yield batch.select(places)
