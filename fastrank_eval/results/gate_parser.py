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
from fastrank_eval.measures.parser import measure, names_measure, text_with_options

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


#: The label of all rows.
ALL = "all"
#: Fields of a value ...
VALUE_FIELDS = (
    "value", "se", "ci_low", "ci_high", "effective_groups", "weight", "groups", "groups_used",
    "dropped_share", "rows_share", "positives_share",
)  # fmt: skip
#: ... and fields of a comparison with a baseline.
COMPARISON_FIELDS = (
    "delta", "delta_se", "delta_ci_low", "delta_ci_high", "relative", "p_value", "p_adjusted",
    "wins", "losses", "ties", "mdd",
)  # fmt: skip
FIELDS = VALUE_FIELDS + COMPARISON_FIELDS

COUNTS = ("rows", "groups")
KEYWORDS = frozenset({"and", "or", "not"})
#: A score column that needs no quotes, unless it is a keyword.
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
        With the options of the text.
    field : str
        One of `FIELDS`.
    score : str or None
        None: every model.
    slice : str or None
        None: every slice.
    """

    measure: str
    field: str = "value"
    score: str | None = None
    slice: str | None = ALL

    def __str__(self) -> str:
        score = "" if self.score is None else f"{_quote_if_needed(self.score)}:"
        in_slice = "" if self.slice == ALL else _in_brackets(self.slice)
        return f"{score}{self.measure}{in_slice} {self.field}"


@dataclass(frozen=True)
class Count:
    """The number of rows or groups that were read, as `of` names."""

    of: str

    def __str__(self) -> str:
        return self.of


@dataclass(frozen=True)
class Negative:
    """``- part``."""

    part: Quantity

    def __str__(self) -> str:
        return f"-{_parenthesise(self.part, 7)}"


@dataclass(frozen=True)
class Operation:
    """``left sign right``; the sign is one of ``+ - * /``."""

    sign: str
    left: Quantity
    right: Quantity

    def __str__(self) -> str:
        rank = _rank(self)
        return f"{_parenthesise(self.left, rank)} {self.sign} {_parenthesise(self.right, rank + 1)}"


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
        return f"not {_parenthesise(self.part, 3)}"


@dataclass(frozen=True)
class And:
    """All of two or more conditions."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(_parenthesise(part, 3) for part in self.parts)


@dataclass(frozen=True)
class Or:
    """Any of two or more conditions."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " or ".join(_parenthesise(part, 2) for part in self.parts)


Condition = Compare | Not | And | Or
Node = Quantity | Condition


def leaves(node: Node) -> Iterator[Number | Term | Count]:
    """Yield the numbers, terms and counts of a tree, from left to right."""
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
    """Yield the terms and counts of a tree, from left to right."""
    return (leaf for leaf in leaves(node) if not isinstance(leaf, Number))


def holds(condition: Condition, numbers: Mapping[Term | Count, float]) -> bool:
    """Evaluate a condition.

    Parameters
    ----------
    condition : Condition
    numbers : mapping of Term or Count to float
        A finite number for each of `terms_of`.

    Raises
    ------
    ArithmeticError
        An intermediate result is not finite, even if another part decides the condition.
    """
    # Evaluate all parts: a part that raises must not hide behind a part that decides.
    if isinstance(condition, Not):
        return not holds(condition.part, numbers)
    if isinstance(condition, Compare):
        left, right = _evaluate(condition.left, numbers), _evaluate(condition.right, numbers)
        return {
            "=": left == right,
            "!=": left != right,
            "<": left < right,
            "<=": left <= right,
            ">": left > right,
            ">=": left >= right,
        }[condition.operator]
    truths = [holds(part, numbers) for part in condition.parts]
    return all(truths) if isinstance(condition, And) else any(truths)


def _evaluate(quantity: Quantity, numbers: Mapping[Term | Count, float]) -> float:
    if isinstance(quantity, Number):
        return quantity.value
    if isinstance(quantity, Term | Count):
        return numbers[quantity]
    if isinstance(quantity, Negative):
        return -_evaluate(quantity.part, numbers)
    if isinstance(quantity, Function):
        amounts = [_evaluate(part, numbers) for part in quantity.parts]
        if quantity.name == "abs":
            return abs(amounts[0])
        return min(amounts) if quantity.name == "min" else max(amounts)
    result = _result(quantity, numbers)
    if not math.isfinite(result):
        raise ArithmeticError(f"{quantity} is no finite number")
    return result


def _result(operation: Operation, numbers: Mapping[Term | Count, float]) -> float:
    left, right = _evaluate(operation.left, numbers), _evaluate(operation.right, numbers)
    if operation.sign == "/":
        return left / right if right else math.nan
    if operation.sign == "*":
        return left * right
    return left + right if operation.sign == "+" else left - right


def _rank(node: Node) -> int:
    """Return the precedence of an operator."""
    if isinstance(node, Operation):
        return 5 if node.sign in "+-" else 6
    ranks = {Or: 1, And: 2, Not: 3, Compare: 4, Negative: 7}
    return ranks.get(type(node), 8)


def _parenthesise(node: Node, least: int) -> str:
    return str(node) if _rank(node) >= least else f"({node})"


def _quote_if_needed(score: str) -> str:
    bare = BARE.fullmatch(score) and score.lower() not in KEYWORDS
    return score if bare else '"' + score.replace('"', '""') + '"'


def _in_brackets(label: str | None) -> str:
    if label is None:
        return "[*]"
    bare = label.strip() == label and label not in ("", "*") and not {"]", '"'} & {*label}
    return f"[{label}]" if bare else '["' + label.replace('"', '""') + '"]'


_FUNCTIONS = ("abs", "min", "max")
#: Words of the grammar: no measure has such a name, so none is looked up.
_WORDS = frozenset((*FIELDS, *COUNTS, *KEYWORDS, *_FUNCTIONS))
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_SPELLING = {"==": "=", "<>": "!="}
_EXPECTED = "a comparison (=, !=, <, <=, >, >=)"
#: Each operator may add a level to the tree.
_MAX_OPERATORS = 100
_TOKEN = re.compile(
    rf"""(?P<blank>\s+)
    |(?P<slice>\[\s*"(?:[^"]|"")*"\s*\]|\[[^\]]*\])
    |(?P<quoted>"(?:[^"]|"")+")
    |(?P<number>{NUMBER})
    |(?P<word>[^\W\d]\w*)
    |(?P<operator>==|!=|<>|<=|>=|[=<>(),:+*/-])""",
    re.VERBOSE,
)
#: Forms of names of measures, the longest first: alpha-nDCG, iprec_at_recall_0.10, GAUC.
_NAMES = tuple(re.compile(name) for name in (r"\w+-\w+", r"\w+\.[0-9]+", r"\w+"))
_OPTIONS = re.compile(
    rf"""(?:\s*\((?:[^()'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\))?(?:\s*@\s*{NUMBER})?"""
)


def parse(text: str) -> Condition:
    """Parse the condition of a gate.

    Parameters
    ----------
    text : str

    Returns
    -------
    Condition
        `str` of it parses to the same tree.

    Raises
    ------
    ArgumentError
        The text does not follow the grammar. With the position, and what was expected there.

    Examples
    --------
    >>> str(parse("gauc<.6 and pctr:ndcg_cut_10[slot=1] se > 1e-3"))
    'GAUC value < 0.6 and pctr:nDCG@10[slot=1] se > 0.001'
    >>> parse("GAUC vaule < 0.6")
    Traceback (most recent call last):
    fastrank_eval.ArgumentError: gate "GAUC vaule < 0.6": expected a field or a comparison \
at character 6, found vaule. Did you mean 'value'?
    """
    return _Parser(text).parse()


class _Parser(TokenReader):
    """Parse tokens from left to right, one method for each rule.

    In parentheses a quantity and a condition begin alike. So rules return either, and a caller
    that needs one of them checks the type.
    """

    name = "gate"
    expected = "a measure, a number or an operator"
    keywords = KEYWORDS
    closing_signs: ClassVar = {"[": "]", '"': '"'}
    max_depth = 30

    def __init__(self, text: str) -> None:
        self._operators = 0
        super().__init__(text)

    def parse(self) -> Condition:
        condition = self._condition(self._either())
        if self._next.kind != "end":
            self._fail("'and', 'or' or the end")
        if next(terms_of(condition), None) is None:
            self._refuse(
                "nothing in it is of a result.", "Name a measure, rows or groups: GAUC < 0.6.", 0
            )
        return condition

    def _token_at(self, at: int) -> tuple[str, int] | None:
        match = _TOKEN.match(self._text, at)
        kind = "" if match is None else str(match.lastgroup)
        if kind in ("", "word"):
            for pattern in _NAMES:
                name = pattern.match(self._text, at)
                if name and name.group() not in _WORDS and names_measure(name.group()):
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
        result = Not(self._condition(self._negation()))
        self._depth -= 1
        return result

    def _comparison(self) -> Node:
        left = self._sum()
        operator = _SPELLING.get(self._next.text, self._next.text)
        if self._next.kind != "operator" or operator not in _COMPARISONS:
            return left
        left = self._quantity(left)
        self._position += 1
        return Compare(operator, left, self._quantity_of(self._sum))

    def _sum(self) -> Node:
        node = self._product()
        while self._next_is("+-"):
            left, sign = self._quantity(node), self._sign()
            node = Operation(sign, left, self._quantity_of(self._product))
        return node

    def _product(self) -> Node:
        node = self._factor()
        while self._next_is("*/"):
            left, sign = self._quantity(node), self._sign()
            node = Operation(sign, left, self._quantity_of(self._factor))
        return node

    def _next_is(self, signs: str) -> bool:
        return self._next.kind == "operator" and self._next.text in signs

    def _sign(self) -> str:
        sign = self._next.text
        self._operators += 1
        if self._operators > _MAX_OPERATORS:
            self._fail(f"at most {_MAX_OPERATORS} of + - * /")
        self._position += 1
        return sign

    def _factor(self) -> Node:
        if self._next_is("+-"):
            sign = self._sign()
            self._enter()
            part = self._quantity_of(self._factor)
            self._depth -= 1
            return Negative(part) if sign == "-" else part
        token = self._next
        if token.kind == "number":
            value = float(token.text)
            if not math.isfinite(value):
                self._fail("a number that a double holds")
            self._position += 1
            return Number(value)
        if self._tokens[min(self._position + 1, len(self._tokens) - 1)].text == ":":
            return self._term(self._score())
        if token.text == "(":
            return self._in_parentheses()
        word = token.text.lower() if token.kind == "word" else ""
        if word in _FUNCTIONS:
            return self._function(word)
        if word in COUNTS:
            self._position += 1
            return Count(word)
        return self._term(None)

    def _in_parentheses(self) -> Node:
        self._skip("(")
        self._enter()
        node = self._either()
        if not self._skip(")"):
            self._fail("')', 'and', 'or' or a comparison")
        self._depth -= 1
        return node

    def _function(self, name: str) -> Node:
        self._position += 1
        if not self._skip("("):
            self._fail(f"'(' after {name}")
        self._enter()
        parts = [self._quantity_of(self._sum)]
        while name != "abs" and self._skip(","):
            parts.append(self._quantity_of(self._sum))
        if not self._skip(")"):
            self._fail("')'" if name == "abs" else "',' or ')'")
        self._depth -= 1
        return Function(name, tuple(parts))

    def _score(self) -> str:
        token = self._next
        name = (
            token.text
            if token.kind == "measure" and BARE.fullmatch(token.text)
            else token.column_name
        )
        if not name:
            self._fail("a score column before the colon", "Odd names stand in double quotes.")
        self._position += 2
        return name

    def _term(self, score: str | None) -> Term:
        token = self._next
        if token.kind == "quoted" and score is None:
            self._position += 1
            self._fail("':' and a measure after the score column")
        if token.kind != "measure":
            words = () if score is not None else (*COUNTS, *_FUNCTIONS)
            others = ", a number, rows, groups, abs, min, max, not or '('" if words else ""
            hint = near(token.text, [*registry, *words]) if token.kind == "word" else ""
            self._fail(f"a measure{others}", hint.strip())
        try:
            parsed = measure(token.text)
        except MeasureError as error:
            self._refuse(f"at character {token.position + 1}: {error}", "", token.position)
        self._position += 1
        label = self._slice() if self._next.kind == "slice" else ALL
        return Term(text_with_options(parsed), self._field(), score, label)

    def _slice(self) -> str | None:
        label = self._next.text[1:-1].strip()
        if not label:
            self._fail("a slice such as [slot=1], or [*] for every slice")
        self._position += 1
        if label == "*":
            return None
        if len(label) > 1 and label[0] == label[-1] == '"':
            label = label[1:-1].replace('""', '"')
        return label

    def _field(self) -> str:
        token = self._next
        if token.kind not in ("word", "measure") or token.keyword:
            return "value"
        field = token.text.lower()
        if field not in FIELDS:
            hint = near(token.text, FIELDS).strip()
            self._fail("a field or a comparison", hint or f"Fields are {', '.join(FIELDS)}.")
        self._position += 1
        return field

    def _condition(self, node: Node) -> Condition:
        if not isinstance(node, Condition):
            self._fail(_EXPECTED)
        return node

    def _quantity(self, node: Node) -> Quantity:
        if isinstance(node, Condition):
            self._fail("'and', 'or' or the end")
        return node

    def _quantity_of(self, rule: Callable[[], Node]) -> Quantity:
        start, node = self._position, rule()
        if isinstance(node, Condition):
            self._position = start
            self._fail("a number or a measure")
        return node
