"""Random conditions beside what they mean, in plain Python of three values: True, False, None."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Row = dict[str, Any]

_DAY = date(2026, 11, 17)
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int8(), [-2, -1, 0, 1, 3]),
    "f": (pa.float64(), [-1.5, -0.0, 0.0, 0.1, 2.0, float("nan")]),
    "s": (pa.string(), ["", "a", "ab", "b", "it's", "é"]),
    "b": (pa.bool_(), [True, False]),
    "d": (pa.date32(), [_DAY + timedelta(days) for days in range(4)]),
    "odd name": (pa.dictionary(pa.int8(), pa.string()), ["x", "y", "z"]),
}
_LITERALS: dict[str, list[tuple[str, Any]]] = {
    "i": [("-1", -1), ("0", 0), ("'1'", 1), ("2.0", 2), ("3e0", 3)],
    "f": [("-1.5", -1.5), ("0", 0.0), ("-0.0", -0.0), (".1", 0.1), ("2e0", 2.0), ("5", 5.0)],
    "s": [("''", ""), ("'a'", "a"), ("'aa'", "aa"), ("'it''s'", "it's"), ("'é'", "é")],
    "b": [("true", True), ("False", False), ("1", True)],
    "d": [(f"'{_DAY + timedelta(days)}'", _DAY + timedelta(days))
          for days in range(-1, 5)],
    "odd name": [("'x'", "x"), ("'y'", "y"), ("'w'", "w")],
}  # fmt: skip
_OPERATORS = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<>": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    text: str
    meaning: Callable[[Row], bool | None]

    def rows(self, table: pa.Table) -> list[int]:
        return [at for at, row in enumerate(table.to_pylist()) if self.meaning(row) is True]


def tables(most: int = 12) -> st.SearchStrategy[pa.Table]:
    def table(rows: list[tuple[Any, ...]]) -> pa.Table:
        columns = list(zip(*rows, strict=True)) if rows else [[] for _ in POOLS]
        arrays = [
            pa.array(list(values), kind.value_type if pa.types.is_dictionary(kind) else kind)
            .cast(kind)
            for values, (kind, _) in zip(columns, POOLS.values(), strict=True)
        ]  # fmt: skip
        return pa.table([*arrays, pa.array(range(len(rows)), pa.int64())], names=[*POOLS, "row"])

    cells = [st.sampled_from([None, *pool]) for _, pool in POOLS.values()]
    return st.lists(st.tuples(*cells), max_size=most).map(table)


def conditions() -> st.SearchStrategy[Condition]:
    return st.recursive(_leaves(), _joined, max_leaves=6)


@st.composite
def _leaves(draw: st.DrawFn) -> Condition:
    name = draw(st.sampled_from(list(POOLS)))
    written = f'"{name}"' if " " in name or draw(st.booleans()) else name
    literal = st.sampled_from(_LITERALS[name])
    form = draw(st.sampled_from(["compare", "flip", "in", "between", "null", "nan", "flag"]))
    no, yes = draw(st.sampled_from([("", True), (" NOT", False)]))
    if form in ("compare", "flip"):
        sign = draw(st.sampled_from(list(_OPERATORS)))
        (text, value), compare = draw(literal), _OPERATORS[sign]
        if form == "compare":
            return Condition(f"{written}{sign}{text}", _of(name, lambda x: compare(x, value)))
        return Condition(f"{text} {sign} {written}", _of(name, lambda x: compare(value, x)))
    if form == "in":
        several = draw(st.lists(literal, min_size=1, max_size=4))
        texts, values = zip(*several, strict=True)
        return Condition(
            f"{written}{no} in ({', '.join(texts)})",
            _of(name, lambda x: any(x == value for value in values) is yes),
        )
    if form == "between":
        (low, least), (high, most) = draw(literal), draw(literal)
        return Condition(
            f"{written}{no} Between {low} and {high}",
            _of(name, lambda x: (least <= x <= most) is yes),
        )
    if form == "nan":
        name = draw(st.sampled_from(["f", "i"]))
        return Condition(f"{name} is{no} NaN", lambda row: (row[name] != row[name]) is yes)
    if form == "null":
        return Condition(f"{written} is{no} null", lambda row: (row[name] is None) is yes)
    return Condition("b", lambda row: row["b"])


def _of(name: str, test: Callable[[Any], bool]) -> Callable[[Row], bool | None]:
    return lambda row: None if row[name] is None else test(row[name])


def _joined(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    return st.one_of(
        parts.map(lambda p: Condition(f"not ({p.text})", lambda row: _negated(p.meaning(row)))),
        st.lists(parts, min_size=2, max_size=3).map(lambda ps: Condition(
            " and ".join(f"({p.text})" for p in ps), lambda row: _all([p.meaning(row) for p in ps]),
        )),
        st.lists(parts, min_size=2, max_size=3).map(lambda ps: Condition(
            " OR ".join(f"({p.text})" for p in ps),
            lambda row: _negated(_all([_negated(p.meaning(row)) for p in ps])),
        )),
    )  # fmt: skip


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all(values: list[bool | None]) -> bool | None:
    if any(value is False for value in values):
        return False
    return None if None in values else True
