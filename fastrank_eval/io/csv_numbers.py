"""Numbers of text files that tell rows apart: equal ones are written alike, or stay text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_value
from fastrank_eval._lib.errors import SourceError

__all__ = [
    "INFERRED",
    "WAYS",
    "Spelling",
    "followed_ways",
    "in_one_way",
    "is_number",
    "ways_of",
]

#: Keys of a field's metadata: the type its text reads as, and the ways its numbers are written in.
INFERRED, WAYS = b"inferred", b"ways"


def _with_decimals(count: int) -> str:
    """The pattern of numbers that all have as many decimals; 0 has no sign."""
    decimals = [f"0{{{i}}}[1-9][0-9]{{{count - 1 - i}}}" for i in range(count)]
    whole = f"[1-9][0-9]{{0,{14 - count}}}"
    return rf"^((0|-?{whole})\.[0-9]{{{count}}}|-0\.({'|'.join(decimals)}))$"


#: Ways to write numbers: in each of them different texts are different numbers. Fractions have at
#: most 15 digits, as two of more may be one double.
_PATTERNS = {
    "whole": r"^(0|-?[1-9][0-9]*)$",
    "plain": r"^(0|-?0\.[0-9]{0,13}[1-9]|-?[1-9][0-9]{0,6}\.[0-9]{0,7}[1-9]|-?[1-9][0-9]{0,14})$",
    "point": r"^(0\.0|-?0\.[0-9]{0,13}[1-9]|-?[1-9][0-9]{0,6}\.([0-9]{0,7}[1-9]|0))$",
    "true": "^(true|false)$",
    "True": "^(True|False)$",
    "TRUE": "^(TRUE|FALSE)$",
    **{f"decimals{count}": _with_decimals(count) for count in range(2, 15)},
}


@dataclass(frozen=True)
class Spelling:
    """What text files say of columns that tell rows apart.

    Parameters
    ----------
    texts : frozenset of str
        Columns that are text, exactly as written, though their lines read as numbers.
    ways : mapping of str to frozenset of str
        The ways that all first lines of columns of numbers follow: all lines follow one of them.
    """

    texts: frozenset[str] = frozenset()
    ways: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def holds(self, column: str, text: str) -> bool:
        """Tell whether this text is the one way to write its number in a column."""
        one = pa.repeat(arrow_value(text, pa.string()), 1)
        return all(_follows(one, way) for way in self.ways.get(column, ()))


def is_number(kind: pa.DataType) -> bool:
    """Tell whether text may be written in several ways for one value of a type."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def ways_of(texts: pa.Array) -> list[str]:
    """The ways that all texts follow; every way where there is none."""
    distinct = texts.unique()
    return [way for way in _PATTERNS if _follows(distinct, way)]


def in_one_way(
    schemas: Sequence[pa.Schema], text: Sequence[bool]
) -> tuple[list[pa.Schema], Spelling]:
    """Make columns text whose numbers are not written in one way over all files.

    Only of text files: the metadata of other files is the user's.
    """
    found: dict[str, list[set[str]]] = {}
    untyped = [schema for schema, is_text in zip(schemas, text, strict=True) if is_text]
    texts = {column.name for column in _fields(untyped, INFERRED)}
    for column in _fields(untyped, WAYS):
        found.setdefault(column.name, []).append(set(column.metadata[WAYS].decode().split()))
    common = {name: reduce(set.__and__, sets) for name, sets in found.items()}
    for column in (column for schema in schemas for column in schema):
        if column.name in common and _is_floating(column.type):
            common[column.name].discard("whole")  # two of more than 15 digits may be one double
    ways = {
        name: frozenset({"whole"} if "whole" in shared else shared)
        for name, shared in common.items()
        if shared and name not in texts
    }
    texts |= common.keys() - ways.keys()

    def mended(column: pa.Field) -> pa.Field:
        several = column.name in texts and WAYS in (column.metadata or {})
        return pa.field(column.name, pa.string()) if several else column

    return (
        [
            pa.schema([mended(column) for column in schema]) if is_text else schema
            for schema, is_text in zip(schemas, text, strict=True)
        ],
        Spelling(frozenset(texts), ways),
    )


def followed_ways(column: pa.Array, ways: frozenset[str], name: str, file: str) -> frozenset[str]:
    """The ways that these numbers follow too, of those that the lines before follow.

    Raises
    ------
    SourceError
        If there is none.
    """
    distinct = column.unique()
    if left := frozenset(way for way in ways if _follows(distinct, way)):
        return left
    for wrong in distinct:
        ways = frozenset(way for way in ways if _follows(pa.repeat(wrong, 1), way))
        if not ways:
            break
    raise SourceError(
        f"{file!r}: column {name!r} must hold numbers written like those of the lines before where "
        f"it tells rows apart, got {wrong.as_py()!r}; write equal numbers alike (0.5 or 0.50, "
        "not both), or write the file as Parquet."
    )


def _fields(schemas: Iterable[pa.Schema], key: bytes) -> list[pa.Field]:
    return [column for schema in schemas for column in schema if key in (column.metadata or {})]


def _is_floating(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _follows(texts: pa.Array, way: str) -> bool:
    import pyarrow.compute as pc

    matches = pc.match_substring_regex(texts, pattern=_PATTERNS[way])
    return bool(matches.false_count == 0)
