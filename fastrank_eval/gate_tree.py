"""Gates on results as trees: their text, what they ask for, whether they hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = [
    "ALL",
    "BARE",
    "COMPARISON_FIELDS",
    "COUNTS",
    "FIELDS",
    "KEYWORDS",
    "And",
    "Compare",
    "Condition",
    "Count",
    "Function",
    "Negative",
    "Node",
    "Not",
    "Number",
    "Operation",
    "Or",
    "Quantity",
    "Term",
    "holds",
    "leaves",
    "terms_of",
]

#: The slice that is all rows.
ALL = "all"
#: What may be asked of a value ...
VALUE_FIELDS = (
    "value", "se", "ci_low", "ci_high", "effective_groups", "weight", "groups", "groups_used",
    "dropped_share", "rows_share", "positives_share",
)  # fmt: skip
#: ... and of a comparison with a baseline.
COMPARISON_FIELDS = (
    "delta", "delta_se", "delta_ci_low", "delta_ci_high", "relative", "p_value", "p_adjusted",
    "wins", "losses", "ties", "mdd",
)  # fmt: skip
FIELDS = VALUE_FIELDS + COMPARISON_FIELDS

COUNTS = ("rows", "groups")
KEYWORDS = frozenset({"and", "or", "not"})
#: What stands for a score column without quotes, unless it is a keyword.
BARE = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Number:
    """A finite number, at least 0."""

    value: float

    def __str__(self) -> str:
        return repr(self.value).removesuffix(".0")


@dataclass(frozen=True)
class Term:
    """A number of a result.

    Parameters
    ----------
    measure : str
        With the options that were given.
    field : str
        Of `FIELDS`.
    score : str or None
        None: of every model.
    slice : str or None
        None: every slice.
    """

    measure: str
    field: str = "value"
    score: str | None = None
    slice: str | None = ALL

    def __str__(self) -> str:
        score = "" if self.score is None else f"{_written(self.score)}:"
        part = "" if self.slice == ALL else _bracketed(self.slice)
        return f"{score}{self.measure}{part} {self.field}"


@dataclass(frozen=True)
class Count:
    """Rows or groups that were read; `of` says which."""

    of: str

    def __str__(self) -> str:
        return self.of


@dataclass(frozen=True)
class Negative:
    """``- part``."""

    part: Quantity

    def __str__(self) -> str:
        return f"-{_within(self.part, 7)}"


@dataclass(frozen=True)
class Operation:
    """``left sign right``; the sign is one of ``+ - * /``."""

    sign: str
    left: Quantity
    right: Quantity

    def __str__(self) -> str:
        rank = _rank(self)
        return f"{_within(self.left, rank)} {self.sign} {_within(self.right, rank + 1)}"


@dataclass(frozen=True)
class Function:
    """``abs``, ``min`` or ``max`` of quantities."""

    name: str
    parts: tuple[Quantity, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parts))})"


Quantity = Number | Term | Count | Negative | Operation | Function


@dataclass(frozen=True)
class Compare:
    """``left operator right``; the operator is one of ``= != < <= > >=``."""

    operator: str
    left: Quantity
    right: Quantity

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True)
class Not:
    """``not part``."""

    part: Condition

    def __str__(self) -> str:
        return f"not {_within(self.part, 3)}"


@dataclass(frozen=True)
class And:
    """All of two parts or more."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(_within(part, 3) for part in self.parts)


@dataclass(frozen=True)
class Or:
    """Any of two parts or more."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " or ".join(_within(part, 2) for part in self.parts)


Condition = Compare | Not | And | Or
Node = Quantity | Condition


def leaves(node: Node) -> Iterator[Number | Term | Count]:
    """Numbers and what is asked of a result, from left to right."""
    if isinstance(node, Number | Term | Count):
        yield node
    elif isinstance(node, Negative | Not):
        yield from leaves(node.part)
    elif isinstance(node, Operation | Compare):
        yield from leaves(node.left)
        yield from leaves(node.right)
    else:
        for part in node.parts:
            yield from leaves(part)


def terms_of(node: Node) -> Iterator[Term | Count]:
    """What a tree asks of a result, from left to right."""
    return (leaf for leaf in leaves(node) if not isinstance(leaf, Number))


def holds(condition: Condition, numbers: Mapping[Term | Count, float]) -> bool:
    """Whether a condition is met.

    Parameters
    ----------
    condition : Condition
    numbers : mapping of Term or Count to float
        Finite, for each of `terms_of`.

    Raises
    ------
    ArithmeticError
        Something reckoned on the way is not finite, be it where another part decides.
    """
    # All parts are looked at: one that cannot be told must not hide behind one that decides.
    if isinstance(condition, Not):
        return not holds(condition.part, numbers)
    if isinstance(condition, Compare):
        left, right = _amount(condition.left, numbers), _amount(condition.right, numbers)
        return {
            "=": left == right,
            "!=": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[condition.operator]
    held = [holds(part, numbers) for part in condition.parts]
    return all(held) if isinstance(condition, And) else any(held)


def _amount(quantity: Quantity, numbers: Mapping[Term | Count, float]) -> float:
    if isinstance(quantity, Number):
        return quantity.value
    if isinstance(quantity, Term | Count):
        return numbers[quantity]
    if isinstance(quantity, Negative):
        return -_amount(quantity.part, numbers)
    if isinstance(quantity, Function):
        amounts = [_amount(part, numbers) for part in quantity.parts]
        if quantity.name == "abs":
            return abs(amounts[0])
        return min(amounts) if quantity.name == "min" else max(amounts)
    found = _result(quantity, numbers)
    if not math.isfinite(found):
        raise ArithmeticError(f"{quantity} is no finite number")
    return found


def _result(operation: Operation, numbers: Mapping[Term | Count, float]) -> float:
    left, right = _amount(operation.left, numbers), _amount(operation.right, numbers)
    if operation.sign == "/":
        return left / right if right else math.nan
    if operation.sign == "*":
        return left * right
    return left + right if operation.sign == "+" else left - right


def _rank(node: Node) -> int:
    """How tightly it binds."""
    if isinstance(node, Operation):
        return 5 if node.sign in "+-" else 6
    ranks = {Or: 1, And: 2, Not: 3, Compare: 4, Negative: 7}
    return ranks.get(type(node), 8)


def _within(node: Node, least: int) -> str:
    return str(node) if _rank(node) >= least else f"({node})"


def _written(score: str) -> str:
    bare = BARE.fullmatch(score) and score.lower() not in KEYWORDS
    return score if bare else '"' + score.replace('"', '""') + '"'


def _bracketed(part: str | None) -> str:
    if part is None:
        return "[*]"
    bare = part.strip() == part and part not in ("", "*") and "]" not in part and '"' not in part
    return f"[{part}]" if bare else '["' + part.replace('"', '""') + '"]'
