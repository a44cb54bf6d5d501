"""Text to tokens, and what is said where they do not follow a grammar.

Conditions on rows (`where.py`) and gates on results (`gate_text.py`) are read with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

from fastrank_eval._lib.errors import ArgumentError

__all__ = ["NUMBER", "TokenReader"]

#: Of a number without its sign.
NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?!\w)"
_SHOWN = 100


@dataclass(frozen=True)
class Token:
    """A piece of the text.

    Parameters
    ----------
    kind : str
        ``"word"``, ``"quoted"``, ``"operator"``, ``"end"`` or a kind of the grammar.
    text : str
        As it is written.
    at : int
        Place of its first character.
    keyword : str
        The keyword that this is, in lower case, else ``""``.
    """

    kind: str
    text: str
    at: int
    keyword: str = ""

    @property
    def names(self) -> str:
        """The column that this names, else ``""``."""
        if self.kind == "quoted":
            return self.text[1:-1].replace('""', '"')
        return self.text if self.kind == "word" and not self.keyword else ""


class TokenReader:
    """Reads tokens from left to right; a grammar adds one method a rule.

    Parameters
    ----------
    text : str

    Raises
    ------
    ArgumentError
        Something in the text is no token.
    """

    #: What the text is called in errors.
    called: ClassVar[str]
    #: What its tokens are.
    parts: ClassVar[str]
    keywords: ClassVar[frozenset[str]]
    #: Signs that begin a token, and what ends it.
    closed_by: ClassVar[dict[str, str]]
    #: Rules inside one another; each takes a few calls of Python's stack.
    deepest: ClassVar[int]

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._place = 0
        self._depth = 0

    def _token_at(self, at: int) -> tuple[str, int] | None:
        """Kind (``"blank"`` is left out) and end of the token that begins here."""
        raise NotImplementedError  # pragma: no cover - abstract

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _skip(self, word: str) -> bool:
        """Go past this keyword or operator if it comes next."""
        here = self._next
        if here.keyword != word and not (here.kind == "operator" and here.text == word):
            return False
        self._place += 1
        return True

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > self.deepest:
            self._fail(f"at most {self.deepest} parentheses and nots inside one another")

    def _split(self) -> list[Token]:
        tokens, at = [], 0
        while at < len(self._text):
            found = self._token_at(at)
            if found is None:
                sign = self._text[at]
                remedy = ""
                if sign in self.closed_by:
                    self._fail(f"a closing {self.closed_by[sign]} for the one", at=at)
                if not sign.isdecimal():
                    remedy = (
                        "Names of other signs than letters, digits and _ stand in double quotes."
                    )
                self._fail(self.parts, remedy, at)
            kind, end = found
            if kind != "blank":
                text = self._text[at:end]
                word = text.lower() if kind == "word" else ""
                tokens.append(Token(kind, text, at, word if word in self.keywords else ""))
            at = end
        return [*tokens, Token("end", "", at)]

    def _fail(self, expected: str, remedy: str = "", at: int | None = None) -> NoReturn:
        if at is None:
            at = self._next.at
            found = f", found {_short(self._next.text)}" if self._next.text else ", found the end"
        else:
            found = ""
        self._refuse(f"expected {expected} at character {at + 1}{found}.", remedy, at)

    def _refuse(self, what: str, remedy: str, at: int) -> NoReturn:
        lo = max(0, at - _SHOWN // 2)
        shown = self._text[lo : lo + _SHOWN]
        shown = f"{'...' * (lo > 0)}{shown}{'...' * (lo + _SHOWN < len(self._text))}"
        raise ArgumentError(f'{self.called} "{shown}": {what}' + f" {remedy}" * bool(remedy))


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}..."
