"""Find the spellings of numbers in CSV files.

A column of categories or keys stays text unless it writes equal numbers alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from functools import reduce

import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_value
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import SourceError
from fastrank_eval._lib.lexer import shorten

#: Metadata keys of a field: the inferred type of its text, and the spellings of its numbers.
INFERRED, SPELLINGS = b"inferred", b"spellings"


def _with_decimals(count: int) -> str:
    """Return the pattern of numbers with a count of decimals; 0 has no sign."""
    decimals = [f"0{{{i}}}[1-9][0-9]{{{count - 1 - i}}}" for i in range(count)]
    integer = f"[1-9][0-9]{{0,{14 - count}}}"
    return rf"^((0|-?{integer})\.[0-9]{{{count}}}|-0\.({'|'.join(decimals)}))$"


#: Spellings of numbers: in each of them different texts are different numbers. Fractions have at
#: most 15 digits, as two longer ones may be the same double.
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
class Spellings:
    """Spellings of categories and keys in text files.

    Parameters
    ----------
    text_columns : frozenset of str
        Columns that are text, exactly as written, although their lines look like numbers.
    by_column : mapping of str to frozenset of str
        For each numeric column the spellings that all its first lines match; all its lines match
        one of them.
    """

    text_columns: frozenset[str] = frozenset()
    by_column: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def is_unique_spelling(self, column: str, text: str) -> bool:
        """Return whether a column writes this number only as this text."""
        array = pa.repeat(arrow_value(text, pa.string()), 1)
        return all(
            _matches_spelling(array, spelling) for spelling in self.by_column.get(column, ())
        )


def is_number(kind: pa.DataType) -> bool:
    """Return whether text can spell a value of a type in several ways."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


#: What Arrow says of a value that does not fit the type of its column.
CONVERSION = re.compile(
    r"In CSV column #(\d+):(?: Row #(\d+):)? CSV conversion error to \w+: invalid value '(.*)'$"
)
_NUMBER = re.compile(r"\s*[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf(inity)?)\s*", re.IGNORECASE)
#: Whole numbers that may be no doubles: those below 10^15 are.
_LONG = re.compile(r"[-+]?[0-9]{16,}")
_MISSING = ("na", "n/a", "none", "nil", "missing", "-", "?", "#n/a")


def first_word(texts: pa.Array) -> int:
    """Find the first text that is neither null nor a number; -1 if none."""
    for row, text in enumerate(texts.to_pylist()):
        if text is not None and not _NUMBER.fullmatch(text):
            return row
    return -1


def number_remedy(word: str) -> str:
    """Say how to write what a word means as a number."""
    if word.strip().lower() in _MISSING:
        return "leave the field empty, or write null, where a number is missing"
    if word.strip().endswith("%"):
        return "write shares without a percent sign, 0.5 for 50%"
    if "," in word:
        return "write a point before decimals, and nothing between thousands"
    return "write a number, or leave the field empty"


def refuse_rounded(batches: Iterable[pa.RecordBatch], file: str) -> None:
    """Raise for whole numbers that doubles would round.

    Different ones could be equal doubles, and tie as scores.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        The text of columns.
    file : str

    Raises
    ------
    SourceError
        With the first whole number that is no double.
    """
    first_row = 0
    for batch in batches:
        for name, texts in zip(batch.schema.names, batch.columns, strict=True):
            for row, text in enumerate(texts.to_pylist(), first_row):
                number = (text or "").strip()
                # A Decimal is exact, and may have any number of digits.
                if _LONG.fullmatch(number) and Decimal(number) != Decimal(float(number)):
                    raise SourceError(
                        f"{file!r}: column {name!r} must hold whole numbers from -2^63 to 2^63 - 1 "
                        "or from 0 to 2^64 - 1 and no fractions, or numbers that are doubles, got "
                        f"{shorten(number)} in row {row:,} (counted from 0): as a double it is "
                        "rounded, and different numbers tie; write smaller numbers, such as ranks, "
                        "or add a point (1.0) if rounding does no harm."
                    )
        first_row += batch.num_rows


def spellings_of(texts: pa.Array) -> list[str]:
    """List the spellings that all texts match; without texts all spellings."""
    distinct = texts.unique()
    return [spelling for spelling in _PATTERNS if _matches_spelling(distinct, spelling)]


def unify_spellings(
    schemas: Sequence[pa.Schema], text: Sequence[bool]
) -> tuple[list[pa.Schema], Spellings]:
    """Make columns text if no spelling matches their numbers in all files.

    Only fields of text files are read: metadata of other files belongs to the user.
    """
    spellings_by_column: dict[str, list[set[str]]] = {}
    untyped = [schema for schema, is_text in zip(schemas, text, strict=True) if is_text]
    text_columns = {column.name for column in _fields_with_metadata(untyped, INFERRED)}
    for column in _fields_with_metadata(untyped, SPELLINGS):
        spellings_by_column.setdefault(column.name, []).append(
            set(column.metadata[SPELLINGS].decode().split())
        )
    common = {name: reduce(set.__and__, sets) for name, sets in spellings_by_column.items()}
    for column in (column for schema in schemas for column in schema):
        if column.name in common and _is_floating(column.type):
            common[column.name].discard("whole")  # two of over 15 digits may be the same double
    spellings = {
        name: frozenset({"whole"} if "whole" in shared else shared)
        for name, shared in common.items()
        if shared and name not in text_columns
    }
    text_columns |= common.keys() - spellings.keys()

    def with_common_type(column: pa.Field) -> pa.Field:
        several = column.name in text_columns and SPELLINGS in (column.metadata or {})
        return pa.field(column.name, pa.string()) if several else column

    return (
        [
            pa.schema([with_common_type(column) for column in schema]) if is_text else schema
            for schema, is_text in zip(schemas, text, strict=True)
        ],
        Spellings(frozenset(text_columns), spellings),
    )


def remaining_spellings(
    column: pa.Array, spellings: frozenset[str], name: str, file: str
) -> frozenset[str]:
    """Return the spellings of earlier lines that these numbers match too.

    Raises
    ------
    SourceError
        If no spelling matches.
    """
    distinct = column.unique()
    if remaining := frozenset(
        spelling for spelling in spellings if _matches_spelling(distinct, spelling)
    ):
        return remaining
    for text in distinct:
        spellings = frozenset(
            spelling for spelling in spellings if _matches_spelling(pa.repeat(text, 1), spelling)
        )
        if not spellings:
            break
    raise SourceError(
        f"{file!r}: column {name!r} must hold numbers written like those of the lines before "
        f"because its values are keys or categories, got {text.as_py()!r}; write equal numbers "
        "alike (0.5 or 0.50, not both), or write the file as Parquet."
    )


def _fields_with_metadata(schemas: Iterable[pa.Schema], key: bytes) -> list[pa.Field]:
    return [column for schema in schemas for column in schema if key in (column.metadata or {})]


def _is_floating(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _matches_spelling(texts: pa.Array, spelling: str) -> bool:
    import pyarrow.compute as pc

    matches = pc.match_substring_regex(texts, pattern=_PATTERNS[spelling])
    return bool(matches.false_count == 0)
