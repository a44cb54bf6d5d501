"""Parse conditions on rows: ``day = '2026-11-19' and slot in (1, 2)``.

The grammar; keywords may be in upper or lower case::

    condition   conjunction {or conjunction}
    conjunction term {and term}
    term        not term | ( condition ) | predicate
    predicate   column {= == != <> < <= > >=} literal, or the literal first
                column [not] in (literal, ...)
                column [not] between literal and literal
                column is [not] null
                column of booleans
    column      name, or "any name" with "" for "
    literal     'text' with '' for ', a number, true, false
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from fastrank_eval._lib.lexer import NUMBER, TokenReader

__all__ = [
    "Among",
    "And",
    "Comparison",
    "Flag",
    "IsNull",
    "Literal",
    "Node",
    "Not",
    "Or",
    "parse",
]

_FLIPPED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SPELLING = {"==": "=", "<>": "!="}
_TOKEN = re.compile(
    rf"""(?P<blank>\s+)
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")+")
    |(?P<number>[+-]?{NUMBER})
    |(?P<word>[^\W\d]\w*)
    |(?P<operator>==|!=|<>|<=|>=|[=<>(),])""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Literal:
    """A literal value as text.

    Parameters
    ----------
    kind : {"text", "number", "bool"}
    value : str
        The text without its quotes, the digits, or ``"true"``, ``"false"``.
    """

    kind: str
    value: str

    def __str__(self) -> str:
        return "'" + self.value.replace("'", "''") + "'" if self.kind == "text" else self.value


@dataclass(frozen=True)
class Comparison:
    """``column operator literal``; the operator is one of ``= != < <= > >=``."""

    column: str
    operator: str
    literal: Literal


@dataclass(frozen=True)
class Among:
    """``column in (literals)``."""

    column: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True)
class IsNull:
    """``column is null``."""

    column: str


@dataclass(frozen=True)
class Flag:
    """A column of booleans as a condition."""

    column: str


@dataclass(frozen=True)
class Not:
    """``not part``."""

    part: Node


@dataclass(frozen=True)
class And:
    """``part and part ...``, with two or more parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    """``part or part ...``, with two or more parts."""

    parts: tuple[Node, ...]


Node = Comparison | Among | IsNull | Flag | Not | And | Or


def parse(text: str) -> Node:
    """Parse a condition.

    Parameters
    ----------
    text : str

    Returns
    -------
    Node

    Raises
    ------
    ArgumentError
        If the text does not follow the grammar; the message says where and what is expected.

    Examples
    --------
    >>> parse("slot = 3")
    Comparison(column='slot', operator='=', literal=Literal(kind='number', value='3'))
    >>> parse("slot = three")
    Traceback (most recent call last):
    fastrank_eval.ArgumentError: where "slot = three": expected a literal at character 8, \
found three. Text stands in single quotes: 'three'.
    """
    parser = _Parser(text)
    node = parser.condition()
    parser.end()
    return node


class _Parser(TokenReader):
    """A parser with one method for each rule of the grammar."""

    name = "where"
    expected = "a column, a literal or an operator"
    keywords = frozenset({"and", "or", "not", "in", "between", "is", "null", "true", "false"})
    closing_signs: ClassVar = {"'": "'", '"': '"'}
    max_depth = 50

    def _token_at(self, at: int) -> tuple[str, int] | None:
        match = _TOKEN.match(self._text, at)
        return None if match is None else (str(match.lastgroup), match.end())

    def condition(self) -> Node:
        parts = [self._conjunction()]
        while self._skip("or"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def end(self) -> None:
        if self._next.kind != "end":
            self._fail("'and', 'or' or the end")

    def _conjunction(self) -> Node:
        parts = [self._term()]
        while self._skip("and"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _term(self) -> Node:
        nested = self._next.text == "(" or self._next.keyword == "not"
        if not nested:
            return self._predicate()
        self._enter()
        if self._skip("not"):
            node: Node = Not(self._term())
        else:
            self._skip("(")
            node = self.condition()
            if not self._skip(")"):
                self._fail("'and', 'or' or ')'")
        self._depth -= 1
        return node

    def _predicate(self) -> Node:
        literal = self._literal_here()
        if literal is not None:
            operator = self._operator()
            if not operator:
                self._fail("a comparison (=, !=, <, <=, >, >=)")
            return Comparison(self._column(), _FLIPPED[operator], literal)
        column = self._column()
        if operator := self._operator():
            return Comparison(column, operator, self._literal())
        if self._skip("is"):
            negated = self._skip("not")
            if not self._skip("null"):
                self._fail("null" if negated else "null or not null")
            return Not(IsNull(column)) if negated else IsNull(column)
        negated = self._skip("not")
        node: Node
        if self._skip("in"):
            node = Among(column, self._list())
        elif self._skip("between"):
            low = Comparison(column, ">=", self._literal())
            if not self._skip("and"):
                self._fail("'and' and the upper end")
            node = And((low, Comparison(column, "<=", self._literal())))
        elif negated:
            self._fail("in or between")
        elif self._next.kind == "end" or self._next.text == ")" or self._next.keyword:
            return Flag(column)
        else:
            self._fail("a comparison (=, !=, <, <=, >, >=), in, between or is")
        return Not(node) if negated else node

    def _list(self) -> tuple[Literal, ...]:
        if not self._skip("("):
            self._fail("'('")
        literals = [self._literal()]
        while self._skip(","):
            literals.append(self._literal())
        if not self._skip(")"):
            self._fail("',' or ')'")
        return tuple(literals)

    def _column(self) -> str:
        name = self._next.column_name
        if not name:
            word = self._next.text
            self._fail(
                "a column",
                f'A column of this name stands in double quotes: "{word}".'
                if self._next.keyword
                else "",
            )
        self._position += 1
        return name

    def _operator(self) -> str:
        text = _SPELLING.get(self._next.text, self._next.text)
        if self._next.kind != "operator" or text not in _FLIPPED:
            return ""
        self._position += 1
        return text

    def _literal(self) -> Literal:
        literal = self._literal_here()
        if literal is None:
            remedy = ""
            if self._next.keyword == "null":
                remedy = "Nothing compares with null: write 'column is null'."
            elif name := self._next.column_name:
                remedy = f"Text stands in single quotes: {Literal('text', name)}."
            self._fail("a literal", remedy)
        return literal

    def _literal_here(self) -> Literal | None:
        token = self._next
        if token.kind == "text":
            literal = Literal("text", token.text[1:-1].replace("''", "'"))
        elif token.kind == "number":
            literal = Literal("number", token.text)
        elif token.keyword in ("true", "false"):
            literal = Literal("bool", token.keyword)
        else:
            return None
        self._position += 1
        return literal
