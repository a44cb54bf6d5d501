"""Parse conditions on a result."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from fastrank_eval._lib.errors import MeasureError, near
from fastrank_eval._lib.lexer import NUMBER, TokenReader
from fastrank_eval.measures.base import registry
from fastrank_eval.measures.parser import measure, names_measure, spelled_out

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
    "parse",
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


_FUNCTIONS = ("abs", "min", "max")
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_SPELLING = {"==": "=", "<>": "!="}
_EXPECTED = "a comparison (=, !=, <, <=, >, >=)"
#: Each may make the tree one deeper.
_MOST_OPERATORS = 100
_TOKEN = re.compile(
    rf"""(?P<blank>\s+)
    |(?P<slice>\[\s*"(?:[^"]|"")*"\s*\]|\[[^\]]*\])
    |(?P<quoted>"(?:[^"]|"")+")
    |(?P<number>{NUMBER})
    |(?P<word>[^\W\d]\w*)
    |(?P<operator>==|!=|<>|<=|>=|[=<>(),:+*/-])""",
    re.VERBOSE,
)
#: What a measure may be called, the longest first: alpha-nDCG, iprec_at_recall_0.10, GAUC.
_NAMES = tuple(re.compile(name) for name in (r"\w+-\w+", r"\w+\.[0-9]+", r"\w+"))
_OPTIONS = re.compile(
    rf"""(?:\s*\((?:[^()'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\))?(?:\s*@\s*{NUMBER})?"""
)


def parse(text: str) -> Condition:
    """Read a gate.

    Parameters
    ----------
    text : str

    Returns
    -------
    Condition
        Its text reads as the same tree.

    Raises
    ------
    ArgumentError
        Tells where the text does not follow the grammar, and what was expected there.

    Examples
    --------
    >>> str(parse("gauc<.6 and pctr:ndcg_cut_10[slot=1] se > 1e-3"))
    'GAUC value < 0.6 and pctr:nDCG@10[slot=1] se > 0.001'
    >>> parse("GAUC vaule < 0.6")
    Traceback (most recent call last):
    fastrank_eval.ArgumentError: gate "GAUC vaule < 0.6": expected a field or a comparison \
at character 6, found vaule. Did you mean 'value'?
    """
    return _Parser(text).whole()


class _Parser(TokenReader):
    """Reads tokens from left to right, one method a rule of the grammar.

    In parentheses a quantity and a condition begin alike, so rules read either, and those that
    need one of them look at what they got.
    """

    name = "gate"
    expected = "a measure, a number or an operator"
    keywords = KEYWORDS
    closing_signs: ClassVar = {"[": "]", '"': '"'}
    max_depth = 30

    def __init__(self, text: str) -> None:
        self._operators = 0
        super().__init__(text)

    def whole(self) -> Condition:
        found = self._condition(self._either())
        if self._next.kind != "end":
            self._fail("'and', 'or' or the end")
        if next(terms_of(found), None) is None:
            self._refuse(
                "nothing in it is of a result.", "Name a measure, rows or groups: GAUC < 0.6.", 0
            )
        return found

    def _token_at(self, at: int) -> tuple[str, int] | None:
        match = _TOKEN.match(self._text, at)
        kind = "" if match is None else str(match.lastgroup)
        if kind in ("", "word"):
            for pattern in _NAMES:
                name = pattern.match(self._text, at)
                if name and names_measure(name.group()):
                    options = _OPTIONS.match(self._text, name.end())
                    return "measure", options.end() if options else name.end()
        return None if match is None else (kind, match.end())

    def _either(self) -> Node:
        first = self._conjunction()
        if self._next.keyword != "or":
            return first
        parts = [self._condition(first)]
        while self._skip("or"):
            parts.append(self._condition(self._conjunction()))
        return Or(tuple(parts))

    def _conjunction(self) -> Node:
        first = self._negation()
        if self._next.keyword != "and":
            return first
        parts = [self._condition(first)]
        while self._skip("and"):
            parts.append(self._condition(self._negation()))
        return And(tuple(parts))

    def _negation(self) -> Node:
        if not self._skip("not"):
            return self._comparison()
        self._enter()
        found = Not(self._condition(self._negation()))
        self._depth -= 1
        return found

    def _comparison(self) -> Node:
        left = self._sum()
        operator = _SPELLING.get(self._next.text, self._next.text)
        if self._next.kind != "operator" or operator not in _COMPARISONS:
            return left
        left = self._quantity(left)
        self._position += 1
        return Compare(operator, left, self._needed(self._sum))

    def _sum(self) -> Node:
        found = self._product()
        while self._signed("+-"):
            left, sign = self._quantity(found), self._sign()
            found = Operation(sign, left, self._needed(self._product))
        return found

    def _product(self) -> Node:
        found = self._factor()
        while self._signed("*/"):
            left, sign = self._quantity(found), self._sign()
            found = Operation(sign, left, self._needed(self._factor))
        return found

    def _signed(self, signs: str) -> bool:
        return self._next.kind == "operator" and self._next.text in signs

    def _sign(self) -> str:
        sign = self._next.text
        self._operators += 1
        if self._operators > _MOST_OPERATORS:
            self._fail(f"at most {_MOST_OPERATORS} of + - * /")
        self._position += 1
        return sign

    def _factor(self) -> Node:
        if self._signed("+-"):
            sign = self._sign()
            self._enter()
            part = self._needed(self._factor)
            self._depth -= 1
            return Negative(part) if sign == "-" else part
        here = self._next
        if here.kind == "number":
            value = float(here.text)
            if not math.isfinite(value):
                self._fail("a number that a double holds")
            self._position += 1
            return Number(value)
        if self._tokens[min(self._position + 1, len(self._tokens) - 1)].text == ":":
            return self._term(self._score())
        if here.text == "(":
            return self._inside()
        word = here.text.lower() if here.kind == "word" else ""
        if word in _FUNCTIONS:
            return self._function(word)
        if word in COUNTS:
            self._position += 1
            return Count(word)
        return self._term(None)

    def _inside(self) -> Node:
        self._skip("(")
        self._enter()
        found = self._either()
        if not self._skip(")"):
            self._fail("')', 'and', 'or' or a comparison")
        self._depth -= 1
        return found

    def _function(self, name: str) -> Node:
        self._position += 1
        if not self._skip("("):
            self._fail(f"'(' after {name}")
        self._enter()
        parts = [self._needed(self._sum)]
        while name != "abs" and self._skip(","):
            parts.append(self._needed(self._sum))
        if not self._skip(")"):
            self._fail("')'" if name == "abs" else "',' or ')'")
        self._depth -= 1
        return Function(name, tuple(parts))

    def _score(self) -> str:
        here = self._next
        name = (
            here.text if here.kind == "measure" and BARE.fullmatch(here.text) else here.column_name
        )
        if not name:
            self._fail("a score column before the colon", "Odd names stand in double quotes.")
        self._position += 2
        return name

    def _term(self, score: str | None) -> Term:
        here = self._next
        if here.kind == "quoted" and score is None:
            self._position += 1
            self._fail("':' and a measure after the score column")
        if here.kind != "measure":
            words = () if score is not None else (*COUNTS, *_FUNCTIONS)
            others = ", a number, rows, groups, abs, min, max, not or '('" if words else ""
            hint = near(here.text, [*registry, *words]) if here.kind == "word" else ""
            self._fail(f"a measure{others}", hint.strip())
        try:
            found = measure(here.text)
        except MeasureError as wrong:
            self._refuse(f"at character {here.position + 1}: {wrong}", "", here.position)
        self._position += 1
        part = self._slice() if self._next.kind == "slice" else ALL
        return Term(spelled_out(found), self._field(), score, part)

    def _slice(self) -> str | None:
        inside = self._next.text[1:-1].strip()
        if not inside:
            self._fail("a slice such as [slot=1], or [*] for every slice")
        self._position += 1
        if inside == "*":
            return None
        if len(inside) > 1 and inside[0] == inside[-1] == '"':
            inside = inside[1:-1].replace('""', '"')
        return inside

    def _field(self) -> str:
        here = self._next
        if here.kind not in ("word", "measure") or here.keyword:
            return "value"
        field = here.text.lower()
        if field not in FIELDS:
            hint = near(here.text, FIELDS).strip()
            self._fail("a field or a comparison", hint or f"Fields are {', '.join(FIELDS)}.")
        self._position += 1
        return field

    def _condition(self, found: Node) -> Condition:
        if not isinstance(found, Condition):
            self._fail(_EXPECTED)
        return found

    def _quantity(self, found: Node) -> Quantity:
        if isinstance(found, Condition):
            self._fail("'and', 'or' or the end")
        return found

    def _needed(self, rule: Callable[[], Node]) -> Quantity:
        at, found = self._position, rule()
        if isinstance(found, Condition):
            self._position = at
            self._fail("a number or a measure")
        return found
