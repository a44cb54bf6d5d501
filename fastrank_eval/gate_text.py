"""Gates on results, from their text to a tree: ``GAUC delta_ci_low < -0.001``.

The grammar, words in any case::

    gate        all {or all}
    all         part {and part}
    part        not part | comparison | ( gate )
    comparison  sum {= == != <> < <= > >=} sum
    sum         product {+ - product}
    product     factor {* / factor}
    factor      - factor | number | term | ( sum )
                | abs ( sum ) | min ( sum, ... ) | max ( sum, ... )
    term        [score :] measure [slice] [field] | rows | groups
    score       name, or "any name", in which "" stands for "
    measure     in any accepted spelling, such as nDCG(gain='exp')@10
    slice       [slot=1], as reports print it, ["any name"], or [*] for every slice
    field       of FIELDS; value where it is left out
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import ClassVar

from fastrank_eval.errors import MeasureError, near
from fastrank_eval.gate_tree import (
    ALL,
    BARE,
    COUNTS,
    FIELDS,
    KEYWORDS,
    And,
    Compare,
    Condition,
    Count,
    Function,
    Negative,
    Node,
    Not,
    Number,
    Operation,
    Or,
    Quantity,
    Term,
    terms_of,
)
from fastrank_eval.measures.base import registry
from fastrank_eval.measures.text import measure, names_measure, spelled_out
from fastrank_eval.tokens import NUMBER, TokenReader

__all__ = ["parse"]

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
    fastrank_eval.errors.ArgumentError: gate "GAUC vaule < 0.6": expected a field or a comparison \
at character 6, found vaule. Did you mean 'value'?
    """
    return _Parser(text).whole()


class _Parser(TokenReader):
    """Reads tokens from left to right, one method a rule of the grammar.

    In parentheses a quantity and a condition begin alike, so rules read either, and those that
    need one of them look at what they got.
    """

    called = "gate"
    parts = "a measure, a number or an operator"
    keywords = KEYWORDS
    closed_by: ClassVar = {"[": "]", '"': '"'}
    deepest = 30

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
        self._deeper()
        found = Not(self._condition(self._negation()))
        self._depth -= 1
        return found

    def _comparison(self) -> Node:
        left = self._sum()
        operator = _SPELLING.get(self._next.text, self._next.text)
        if self._next.kind != "operator" or operator not in _COMPARISONS:
            return left
        left = self._quantity(left)
        self._place += 1
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
        self._place += 1
        return sign

    def _factor(self) -> Node:
        if self._signed("+-"):
            sign = self._sign()
            self._deeper()
            part = self._needed(self._factor)
            self._depth -= 1
            return Negative(part) if sign == "-" else part
        here = self._next
        if here.kind == "number":
            value = float(here.text)
            if not math.isfinite(value):
                self._fail("a number that a double holds")
            self._place += 1
            return Number(value)
        if self._tokens[min(self._place + 1, len(self._tokens) - 1)].text == ":":
            return self._term(self._score())
        if here.text == "(":
            return self._inside()
        word = here.text.lower() if here.kind == "word" else ""
        if word in _FUNCTIONS:
            return self._function(word)
        if word in COUNTS:
            self._place += 1
            return Count(word)
        return self._term(None)

    def _inside(self) -> Node:
        self._skip("(")
        self._deeper()
        found = self._either()
        if not self._skip(")"):
            self._fail("')', 'and', 'or' or a comparison")
        self._depth -= 1
        return found

    def _function(self, name: str) -> Node:
        self._place += 1
        if not self._skip("("):
            self._fail(f"'(' after {name}")
        self._deeper()
        parts = [self._needed(self._sum)]
        while name != "abs" and self._skip(","):
            parts.append(self._needed(self._sum))
        if not self._skip(")"):
            self._fail("')'" if name == "abs" else "',' or ')'")
        self._depth -= 1
        return Function(name, tuple(parts))

    def _score(self) -> str:
        here = self._next
        name = here.text if here.kind == "measure" and BARE.fullmatch(here.text) else here.names
        if not name:
            self._fail("a score column before the colon", "Odd names stand in double quotes.")
        self._place += 2
        return name

    def _term(self, score: str | None) -> Term:
        here = self._next
        if here.kind == "quoted" and score is None:
            self._place += 1
            self._fail("':' and a measure after the score column")
        if here.kind != "measure":
            words = () if score is not None else (*COUNTS, *_FUNCTIONS)
            others = ", a number, rows, groups, abs, min, max, not or '('" if words else ""
            hint = near(here.text, [*registry, *words]) if here.kind == "word" else ""
            self._fail(f"a measure{others}", hint.strip())
        try:
            found = measure(here.text)
        except MeasureError as wrong:
            self._refuse(f"at character {here.at + 1}: {wrong}", "", here.at)
        self._place += 1
        part = self._slice() if self._next.kind == "slice" else ALL
        return Term(spelled_out(found), self._field(), score, part)

    def _slice(self) -> str | None:
        inside = self._next.text[1:-1].strip()
        if not inside:
            self._fail("a slice such as [slot=1], or [*] for every slice")
        self._place += 1
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
        self._place += 1
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
        at, found = self._place, rule()
        if isinstance(found, Condition):
            self._place = at
            self._fail("a number or a measure")
        return found
