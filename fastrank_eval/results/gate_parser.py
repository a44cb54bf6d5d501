"""Parse conditions on a result."""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, TypeAlias

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import MeasureError, near
from fastrank_eval._lib.lexer import (
    BARE,
    COMPARISONS,
    LEAF_RANK,
    NUMBER,
    Number,
    Operation,
    TokenReader,
    leaves,
    quoted,
)
from fastrank_eval.measures.base import registry
from fastrank_eval.measures.names import (
    COMPARISON_FIELDS,
    COUNTS,
    FUNCTIONS,
    GATE_WORDS,
    KEYWORDS,
    VALUE_FIELDS,
)
from fastrank_eval.measures.parser import measure, names_measure, text_with_options

#: The label of all rows.
ALL = "all"
FIELDS = VALUE_FIELDS + COMPARISON_FIELDS
#: Fields that count groups.
GROUP_FIELDS = ("groups", "groups_used", "dropped_share")


@dataclass(frozen=True)
class Term:
    """A number of a result.

    Parameters
    ----------
    measure : str
        With the options of the text.
    name : str
        The measure as the text names it, if that is another tool's name; see `display_name`.
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
    name: str = dataclasses.field(default="", compare=False)

    @property
    def display_name(self) -> str:
        """The name of the measure in messages: the one that was asked for."""
        return self.name or self.measure

    def __str__(self) -> str:
        score = "" if self.score is None else f"{_quote_if_needed(self.score)}:"
        in_slice = "" if self.slice == ALL else _in_brackets(self.slice)
        return f"{score}{self.display_name}{in_slice} {self.field}"


@dataclass(frozen=True)
class Count:
    """A number of the whole result, as `of` names.

    ``rows`` and ``groups`` were read; ``confidence`` is that of the intervals.
    """

    of: str

    def __str__(self) -> str:
        return self.of


Node: TypeAlias = Number | Term | Count | Operation


class Worse(Operation):
    """The condition that a model is significantly worse, as one word."""

    @property
    def _rank(self) -> int:
        return LEAF_RANK

    @classmethod
    def of(cls, value: Term) -> Worse:
        """Write out the condition for the value of a measure."""
        sign = "<" if measure(value.measure).higher_is_better else ">"
        delta, p_adjusted = (
            dataclasses.replace(value, field=field) for field in ("delta", "p_adjusted")
        )
        alpha = Operation("-", (Number(1), Count("confidence")))
        return cls(
            "and",
            (Operation(sign, (delta, Number(0))), Operation("<=", (p_adjusted, alpha))),
        )

    def __str__(self) -> str:
        return f"worse({str(next(terms_of(self))).removesuffix(' delta')})"


def comparisons_of(node: Operation, written_out: bool = True) -> Iterator[Operation]:
    """Yield what ``and``, ``or`` and ``not`` join; `worse` may be one."""
    if node.operator in KEYWORDS and (written_out or not isinstance(node, Worse)):
        for part in node.parts:
            yield from comparisons_of(part, written_out)
    else:
        yield node


def of_score(node: Node, score: str) -> Node:
    """Write a score column before the terms that have none."""
    if isinstance(node, Operation):
        parts = tuple(of_score(part, score) for part in node.parts)
        return dataclasses.replace(node, parts=parts)
    if isinstance(node, Term) and node.score is None:
        return dataclasses.replace(node, score=score)
    return node


def terms_of(node: Node) -> Iterator[Term | Count]:
    """Yield the terms and counts of an expression, from left to right."""
    return (leaf for leaf in leaves(node) if not isinstance(leaf, Number))


_COMPUTE: dict[str, Callable[..., float]] = {
    "or": lambda *parts: any(parts),
    "and": lambda *parts: all(parts),
    "not": operator.not_,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": lambda *parts: operator.sub(*parts) if len(parts) > 1 else -parts[0],
    "*": operator.mul,
    "/": lambda left, right: left / right if right else math.nan,
    "abs": abs,
    "min": lambda *parts: min(parts),
    "max": lambda *parts: max(parts),
}


def holds(node: Node, numbers: Mapping[Term | Count, float]) -> float:
    """Evaluate a condition, or a part of it.

    Parameters
    ----------
    node : Node
    numbers : mapping of Term or Count to float
        A finite number for each of `terms_of`.

    Raises
    ------
    ArithmeticError
        An intermediate result is not finite, even if another part decides the condition.
    """
    if isinstance(node, Number):
        return node.value
    if not isinstance(node, Operation):
        return numbers[node]
    # Evaluate all parts: a part that raises must not hide behind a part that decides.
    result = _COMPUTE[node.operator](*[holds(part, numbers) for part in node.parts])
    if not math.isfinite(result):
        raise ArithmeticError(f"{node} is not a finite number")
    return result


def _quote_if_needed(score: str) -> str:
    bare = BARE.fullmatch(score) and score.lower() not in KEYWORDS
    return score if bare else quoted(score)


def _in_brackets(label: str | None) -> str:
    if label is None:
        return "[*]"
    bare = label.strip() == label and label not in ("", "*") and not {"]", '"'} & {*label}
    return f"[{label}]" if bare else f"[{quoted(label)}]"


#: Forms of names of measures, the longest first: alpha-nDCG, iprec_at_recall_0.10, GAUC.
_NAMES = tuple(re.compile(name) for name in (r"\w+-\w+", r"\w+\.[0-9]+", r"\w+"))
_OPTIONS = re.compile(
    rf"""(?:\s*\((?:[^()'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\))?(?:\s*@\s*{NUMBER})?"""
)


def parse(text: str) -> Operation:
    """Parse the condition of a gate.

    Parameters
    ----------
    text : str

    Returns
    -------
    Operation
        `str` of it parses to the same tree.

    Raises
    ------
    ArgumentError
        The text does not follow the grammar. With the position, and what was expected there.

    Examples
    --------
    >>> str(parse("gauc<.6 and pctr:ndcg_cut_10[slot=1] se > 1e-3"))
    'GAUC value < 0.6 and pctr:ndcg_cut_10[slot=1] se > 0.001'
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
    pattern = re.compile(
        rf"""(?P<blank>\s+)
        |(?P<slice>\[\s*"(?:[^"]|"")*"\s*\]|\[[^\]]*\])
        |(?P<quoted>"(?:[^"]|"")+")
        |(?P<number>{NUMBER})
        |(?P<word>[^\W\d]\w*)
        |(?P<operator>==|!=|<>|<=|>=|[=<>(),:+*/-])""",
        re.VERBOSE,
    )
    expected = "a measure, a number or an operator"
    keywords = KEYWORDS
    closing_signs: ClassVar = {"[": "]", '"': '"'}
    max_depth = 30
    closing = "')', 'and', 'or' or a comparison"

    def parse(self) -> Operation:
        condition = self._condition(self._either())
        self._end()
        if next(terms_of(condition), None) is None:
            self._refuse(
                "nothing in it is of a result.", "Name a measure, rows or groups: GAUC < 0.6."
            )
        return condition

    def _token_at(self, position: int) -> tuple[str, int] | None:
        token = super()._token_at(position)
        if token is None or token[0] == "word":
            for pattern in _NAMES:
                name = pattern.match(self._text, position)
                # Unknown names are looked up in packages: only those at the place of a measure.
                if not name or name.group().lower() in GATE_WORDS or self._is_score(name.end()):
                    continue
                if names_measure(name.group()):
                    options = _OPTIONS.match(self._text, name.end())
                    return "measure", options.end() if options else name.end()
        return token

    def _is_score(self, end: int) -> bool:
        return self._text[end:].lstrip().startswith(":")

    def _comparison(self) -> Node:
        left = self._sum()
        if not self._is_next("==", "<>", *COMPARISONS):
            return left
        left = self._quantity(left)
        return Operation(self._operator(), (left, self._quantity_of(self._sum)))

    def _operand(self) -> Node:
        token = self._next
        if token.kind == "number":
            return self._number()
        if self._second.text == ":":
            return self._term(self._score())
        if token.text == "(":
            nested: Node = self._in_parentheses()
            return nested
        word = token.text.lower() if token.kind == "word" else ""
        if word in FUNCTIONS:
            return self._function(word)
        if word in COUNTS:
            self._position += 1
            return Count(word)
        return self._term(None)

    def _function(self, name: str) -> Node:
        start = self._next.position
        self._position += 1
        if not self._skip("("):
            self._fail(f"'(' after {name}")
        self._enter()
        if name == "worse":
            return self._worse(start)
        parts = [self._quantity_of(self._sum)]
        while name != "abs" and self._skip(","):
            parts.append(self._quantity_of(self._sum))
        if not self._skip(")"):
            self._fail("')'" if name == "abs" else "',' or ')'")
        self._depth -= 1
        return Operation(name, tuple(parts))

    def _worse(self, start: int) -> Node:
        score = self._score() if self._second.text == ":" else None
        value = self._measure(score)
        if not self._skip(")"):
            self._fail("')' after the measure", "worse() takes no field: worse(GAUC[*]).")
        self._depth -= 1
        if not measure(value.measure).has_direction:
            self._refuse(
                f"at character {start + 1}: neither a higher nor a lower {value.display_name} is "
                "worse;",
                "compare its value, or its delta.",
                start,
            )
        return Worse.of(value)

    def _score(self) -> str:
        name = self._next.column_name
        if not name:
            self._fail("a score column before the colon", "Odd names stand in double quotes.")
        self._position += 2
        return name

    def _term(self, score: str | None) -> Term:
        term = self._measure(score)
        return dataclasses.replace(term, field=self._field())

    def _measure(self, score: str | None) -> Term:
        """Read a term without its field."""
        token = self._next
        if token.kind == "quoted" and score is None:
            self._position += 1
            self._fail("':' and a measure after the score column")
        if token.kind != "measure":
            words = () if score is not None else (*COUNTS, *FUNCTIONS)
            others = f", a number, {', '.join(words)}, not or '('" if words else ""
            hint = near(token.text, [*registry, *words]) if token.kind == "word" else ""
            if score is not None and token.text.lower() == "worse":
                hint = "The score column stands in the parentheses: worse(score:GAUC)."
            self._fail(f"a measure{others}", hint.strip())
        try:
            parsed = measure(token.text)
        except MeasureError as error:
            self._refuse(f"at character {token.position + 1}: {error}", "", token.position)
        self._position += 1
        label = self._slice() if self._next.kind == "slice" else ALL
        word, _, _ = re.split("([(@])", token.text, maxsplit=1)[0].partition(" ")
        name = "" if word.lower() == parsed.name.lower() else " ".join(token.text.split())
        return Term(text_with_options(parsed), "value", score, label, name)

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

    def _condition(self, node: Node) -> Operation:
        if not (isinstance(node, Operation) and node.is_condition):
            self._fail("a comparison (=, !=, <, <=, >, >=)")
        return node

    def _quantity(self, node: Node) -> Node:
        if isinstance(node, Operation) and node.is_condition:
            self._fail("'and', 'or' or the end")
        return node

    def _quantity_of(self, rule: Callable[[], Node]) -> Node:
        start, node = self._position, rule()
        if isinstance(node, Operation) and node.is_condition:
            self._position = start
            self._fail("a number or a measure")
        return node
