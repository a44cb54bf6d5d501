"""Split text into tokens and report syntax errors.

The grammars of conditions on rows (`io/filter_parser.py`) and of gates on results
(`results/gate_parser.py`) use it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from fastrank_eval._lib.errors import ArgumentError

__all__ = ["NUMBER", "TokenReader"]

#: Pattern of a number without its sign.
NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?!\w)"
_MAX_CONTEXT = 100


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
    """A reader of tokens from left to right; a grammar adds one method a rule.

    Parameters
    ----------
    text : str

    Raises
    ------
    ArgumentError
        A part of the text is no token.
    """

    #: Name of the text in errors.
    name: ClassVar[str]
    #: Kinds of tokens, for errors.
    expected: ClassVar[str]
    keywords: ClassVar[frozenset[str]]
    #: Signs that begin a token, and the sign that ends it.
    closing_signs: ClassVar[dict[str, str]]
    #: Maximum nesting of rules; each takes a few calls of Python's stack.
    max_depth: ClassVar[int]

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._position = 0
        self._depth = 0

    def _token_at(self, position: int) -> tuple[str, int] | None:
        """Return kind and end of the token at a position; ``"blank"`` is skipped."""
        raise NotImplementedError  # pragma: no cover - abstract

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _skip(self, word: str) -> bool:
        """Skip a keyword or operator if it comes next; return whether it did."""
        token = self._next
        if token.keyword != word and not (token.kind == "operator" and token.text == word):
            return False
        self._position += 1
        return True

    def _enter(self) -> None:
        """Enter a nested rule, or fail beyond the maximum depth."""
        self._depth += 1
        if self._depth > self.max_depth:
            self._fail(f"at most {self.max_depth} nested parentheses and nots")

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
        if position is None:
            position = self._next.position
            actual = (
                f", found {_shorten(self._next.text)}" if self._next.text else ", found the end"
            )
        else:
            actual = ""
        self._refuse(f"expected {expected} at character {position + 1}{actual}.", remedy, position)

    def _refuse(self, what: str, remedy: str, position: int) -> NoReturn:
        lo = max(0, position - _MAX_CONTEXT // 2)
        shown = self._text[lo : lo + _MAX_CONTEXT]
        shown = f"{'...' * (lo > 0)}{shown}{'...' * (lo + _MAX_CONTEXT < len(self._text))}"
        raise ArgumentError(f'{self.name} "{shown}": {what}' + f" {remedy}" * bool(remedy))


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."
