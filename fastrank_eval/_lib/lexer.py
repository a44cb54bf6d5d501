"""Split text into tokens, parse operators and report syntax errors.

The grammars of conditions on rows (`io/filters.py`), of computed scores (`io/computed.py`),
of gates on results (`results/gates.py`) and of slices (`slicing/spec.py`) use it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError

#: Pattern of a number without its sign.
NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?!\w)"
#: A name that needs no quotes, unless it is a keyword.
BARE = re.compile(r"[^\W\d]\w*")
#: Operators of comparisons, and those with the sides exchanged.
COMPARISONS = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SPELLING = {"==": "=", "<>": "!="}
#: A comparison, for errors.
COMPARISON = "a comparison (=, !=, <, <=, >, >=)"
#: Precedence of operators; a function, like a leaf, has a higher one than all of them.
_RANKS = {"or": 1, "and": 2, "not": 3} | dict.fromkeys(COMPARISONS, 4)
_RANKS |= {"+": 5, "-": 5, "*": 6, "/": 6}
_NEGATION_RANK, LEAF_RANK = 7, 8
_MAX_CONTEXT = 100


def token_pattern(operators: str, *more: str, number: str = NUMBER) -> re.Pattern[str]:
    """Make the pattern of tokens; `more` come before names and numbers."""
    kinds = (rf"(?P<number>{number})", rf"(?P<word>{BARE.pattern})", f"(?P<operator>{operators})")
    return re.compile("|".join((r"(?P<blank>\s+)", *more, r'(?P<quoted>"(?:[^"]|"")+")', *kinds)))


@dataclass(frozen=True)
class Operation:
    """An operator or a function, and the parts of an expression that it joins.

    Parameters
    ----------
    operator : str
        ``or``, ``and``, ``not``, one of `COMPARISONS`, ``+ - * /`` or the name of a function.
    parts : tuple
        Operations, or leaves of the grammar. ``-`` with one part negates it.
    """

    operator: str
    parts: tuple[Any, ...]

    @property
    def is_condition(self) -> bool:
        """Whether it is true or false, not a number."""
        return _RANKS.get(self.operator, LEAF_RANK) <= _RANKS["="]

    @property
    def _rank(self) -> int:
        negates = self.operator == "-" and len(self.parts) == 1
        return _NEGATION_RANK if negates else _RANKS.get(self.operator, LEAF_RANK)

    def __str__(self) -> str:
        rank = self._rank
        if rank == LEAF_RANK:
            return f"{self.operator}({', '.join(map(str, self.parts))})"
        if len(self.parts) == 1:
            return self.operator + " " * (rank < _NEGATION_RANK) + _within(self.parts[0], rank)
        first = _within(self.parts[0], rank + (self.operator not in "+-*/"))
        return f" {self.operator} ".join([first, *(_within(p, rank + 1) for p in self.parts[1:])])


def _within(node: object, least: int) -> str:
    """Format a part, in parentheses if its precedence is lower."""
    rank = node._rank if isinstance(node, Operation) else LEAF_RANK
    return str(node) if rank >= least else f"({node})"


def leaves(node: Any) -> Iterator[Any]:
    """Yield the leaves of an expression, from left to right."""
    if isinstance(node, Operation):
        for part in node.parts:
            yield from leaves(part)
    else:
        yield node


@dataclass(frozen=True)
class Number:
    """A finite number, at least 0."""

    value: float

    def __str__(self) -> str:
        return repr(self.value).removesuffix(".0")


def quoted(text: str) -> str:
    """Write a text in double quotes."""
    return '"' + text.replace('"', '""') + '"'


@dataclass(frozen=True)
class Token:
    """A token of the text.

    Parameters
    ----------
    kind : str
        ``"word"``, ``"quoted"``, ``"operator"``, ``"end"`` or a kind of the grammar.
    text : str
        The text as it is written.
    position : int
        Index of its first character.
    keyword : str
        The keyword in lower case, or ``""`` for other tokens.
    """

    kind: str
    text: str
    position: int
    keyword: str = ""

    @property
    def column_name(self) -> str:
        """The column name that the token stands for, or ``""``."""
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return self.text if self.kind == "word" and not self.keyword else ""


class TokenReader:
    """A parser of tokens from left to right; a grammar adds its atoms.

    In parentheses a quantity and a condition begin alike. So rules return either, and a caller
    that needs one of them checks it.

    Parameters
    ----------
    text : str

    Raises
    ------
    ArgumentError
        A part of the text is no token.
    """

    #: Name of the text in errors.
    name: str
    #: Pattern of a token; its groups name the kinds, ``blank`` is skipped.
    pattern: ClassVar[re.Pattern[str]]
    #: Kinds of tokens, for errors.
    expected: ClassVar[str] = ""
    keywords: ClassVar[frozenset[str]] = frozenset()
    #: Signs that begin a token, and the sign that ends it.
    closing_signs: ClassVar[dict[str, str]] = {'"': '"'}
    #: Maximum nesting of rules; each takes a few calls of Python's stack.
    max_depth: ClassVar[int] = 0
    #: Maximum number of ``+ - * /``; each may add a level to the tree.
    max_operators: ClassVar[int] = 100
    #: What nests, what ends parentheses, and what ends the text, for errors.
    nesting: ClassVar[str] = "parentheses and nots"
    closing: ClassVar[str] = ""
    ending: ClassVar[str] = "'and', 'or' or the end"

    def __init__(self, text: str) -> None:
        self._operators = 0
        self._text = text
        self._tokens = self._split()
        self._position = 0
        self._depth = 0

    def _token_at(self, position: int) -> tuple[str, int] | None:
        """Return kind and end of the token at a position."""
        match = self.pattern.match(self._text, position)
        return None if match is None else (str(match.lastgroup), match.end())

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    @property
    def _second(self) -> Token:
        return self._tokens[min(self._position + 1, len(self._tokens) - 1)]

    def _is_next(self, *words: str) -> bool:
        """Return whether one of these keywords or operators comes next."""
        token = self._next
        return (token.text if token.kind == "operator" else token.keyword) in words

    def _skip(self, word: str) -> bool:
        """Skip a keyword or operator if it comes next; return whether it did."""
        if not self._is_next(word):
            return False
        self._position += 1
        return True

    def _require(self, word: str, expected: str, remedy: str = "") -> None:
        """Skip a keyword or operator; fail if it does not come next."""
        if not self._skip(word):
            self._fail(expected, remedy)

    def _enter(self) -> None:
        """Enter a nested rule, or fail beyond the maximum depth."""
        self._depth += 1
        if self._depth > self.max_depth:
            self._fail(f"at most {self.max_depth} nested {self.nesting}")

    def parse(self) -> Any:
        """Parse the text."""
        node = self._either()
        self._end()
        return node

    def _end(self) -> None:
        if self._next.kind != "end":
            self._fail(self.ending)

    def _either(self) -> Any:
        return self._joined("or", lambda: self._joined("and", self._negation))

    def _joined(self, word: str, rule: Callable[[], Any]) -> Any:
        first = rule()
        if not self._is_next(word):
            return first
        parts = [self._condition(first)]
        while self._skip(word):
            parts.append(self._condition(rule()))
        return Operation(word, tuple(parts))

    def _negation(self) -> Any:
        if not self._is_next("not"):
            return self._comparison()
        self._enter()
        self._skip("not")
        node = Operation("not", (self._condition(self._negation()),))
        self._depth -= 1
        return node

    def _in_parentheses(self) -> Any:
        self._enter()
        self._skip("(")
        node = self._either()
        self._require(")", self.closing)
        self._depth -= 1
        return node

    def _comparison(self) -> Any:
        """Parse what ``and``, ``or`` and ``not`` join."""
        left = self._sum()
        if not self._is_next("==", "<>", *COMPARISONS):
            return left
        left = self._quantity(left)
        return Operation(self._operator(), (left, self._quantity_of(self._sum)))

    def _condition(self, node: Any) -> Any:
        """Return a part of ``and``, ``or`` or ``not``; fail if it is no condition."""
        if not getattr(node, "is_condition", False):
            self._fail(COMPARISON)
        return node

    def _sum(self) -> Any:
        """Parse what ``+ - * /`` and signs join."""
        return self._chain("+-", lambda: self._chain("*/", self._factor))

    def _chain(self, signs: str, rule: Callable[[], Any]) -> Any:
        """Parse parts between these signs; the first two belong together."""
        node = rule()
        while self._is_next(*signs):
            left, sign = self._quantity(node), self._sign()
            node = Operation(sign, (left, self._quantity_of(rule)))
        return node

    def _sign(self) -> str:
        sign = self._next.text
        self._operators += 1
        if self._operators > self.max_operators:
            self._fail(f"at most {self.max_operators} of + - * /")
        self._position += 1
        return sign

    def _factor(self) -> Any:
        if not self._is_next("+", "-"):
            return self._operand()
        sign = self._sign()
        self._enter()
        part = self._quantity_of(self._factor)
        self._depth -= 1
        return Operation("-", (part,)) if sign == "-" else part

    def _operand(self) -> Any:
        """Parse what ``+ - * /`` and signs join, without them."""
        if self._next.kind == "number":
            return self._number()
        return self._in_parentheses() if self._next.text == "(" else self._atom()

    def _atom(self) -> Any:
        """Parse an operand that is neither a number nor in parentheses."""
        raise NotImplementedError  # pragma: no cover - abstract

    def _quantity(self, node: Any) -> Any:
        """Return a part of ``+ - * /``; fail if it is no quantity."""
        if getattr(node, "is_condition", False):
            self._fail(self.ending)
        return node

    def _quantity_of(self, rule: Callable[[], Any]) -> Any:
        """Parse a part of ``+ - * /``; fail if it is no quantity."""
        start, node = self._position, rule()
        if getattr(node, "is_condition", False):
            self._position = start
            self._fail("a number or a measure")
        return node

    def _number(self) -> Number:
        """Read a number; fail if it is infinite as a double."""
        value = float(self._next.text)
        if not math.isfinite(value):
            self._fail("a number that a double holds")
        self._position += 1
        return Number(value)

    def _operator(self) -> str:
        """Read an operator of `COMPARISONS`; return "" if there is none."""
        text = _SPELLING.get(self._next.text, self._next.text)
        if self._next.kind != "operator" or text not in COMPARISONS:
            return ""
        self._position += 1
        return text

    def _split(self) -> list[Token]:
        tokens, position = [], 0
        while position < len(self._text):
            match = self._token_at(position)
            if match is None:
                sign = self._text[position]
                remedy = ""
                if sign in self.closing_signs:
                    self._fail(
                        f"a closing {self.closing_signs[sign]} for the one", position=position
                    )
                if not sign.isdecimal():
                    remedy = (
                        "Names of other signs than letters, digits and _ stand in double quotes."
                    )
                self._fail(self.expected, remedy, position)
            kind, end = match
            if kind != "blank":
                text = self._text[position:end]
                word = text.lower() if kind == "word" else ""
                tokens.append(Token(kind, text, position, word if word in self.keywords else ""))
            position = end
        return [*tokens, Token("end", "", position)]

    def _fail(self, expected: str, remedy: str = "", position: int | None = None) -> NoReturn:
        actual = ""
        if position is None:
            position = self._next.position
            actual = f", found {shorten(self._next.text) or 'the end'}"
        self._refuse(f"expected {expected} at character {position + 1}{actual}.", remedy, position)

    def _refuse(self, what: str, remedy: str = "", position: int = 0) -> NoReturn:
        lo = max(0, position - _MAX_CONTEXT // 2)
        shown = self._text[lo : lo + _MAX_CONTEXT]
        shown = f"{'...' * (lo > 0)}{shown}{'...' * (lo + _MAX_CONTEXT < len(self._text))}"
        raise ArgumentError(f"{self.name} {self._in_quotes(shown)}: {what} {remedy}".rstrip())

    @staticmethod
    def _in_quotes(text: str) -> str:
        return f'"{text}"'


def shorten(text: str, size: int = 40) -> str:
    """Cut a text to a size; dots show that it goes on."""
    return text if len(text) <= size else f"{text[:size]}..."
