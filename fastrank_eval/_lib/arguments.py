"""Check arguments against ranges, choices and annotations."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, NamedTuple, ParamSpec, TypeGuard, TypeVar

import numpy as np

from fastrank_eval._lib.errors import ArgumentError, near

__all__ = ["is_of", "is_several", "shown", "typed"]


#: What arguments that are one of a few words may be.
CHOICES = {
    "groups": ("all", "with_relevant"),
    "unretrieved": ("error", "allow"),
    "unjudged": ("error", "allow", "drop"),
    "weight_rows": ("refuse", "ignore"),
    "score_type": ("given", "float32"),
    "order": ("auto", "sorted", "grouped", "scattered"),
}

#: What counts rows must fit a signed integer of 64 bits.
_MOST = 2**63 - 1
_MOST_SPACES = 64


def column_name(part: str, given: object) -> str:
    """The name of the column that plays a part."""
    if not isinstance(given, str) or not given:
        raise ArgumentError(f"{part}={given!r} is not a column name.")
    return given


def column_names(part: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several, each once."""
    if not isinstance(given, Iterable):
        raise ArgumentError(f"{part}={given!r} is not a column name or several.")
    names = (given,) if isinstance(given, str) else tuple(given)
    if not names:
        raise ArgumentError(f"{part} names no column.")
    for name in names:
        column_name(part, name)
        if names.count(name) > 1:
            raise ArgumentError(f"{part} names column '{name}' more than once.")
    return names


def check_flag(name: str, given: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(given, bool):
        raise ArgumentError(f"{name}: must be True or False, got {given!r}; pass one of them.")


def check_choice(name: str, given: object, choices: Sequence[str]) -> None:
    """Refuse what is not one of some words."""
    if not isinstance(given, str) or given not in choices:
        raise ArgumentError(
            f"{name}={given!r} is not one of {', '.join(map(repr, choices))}."
            f"{near(str(given), choices)}"
        )


def check_options(
    taker: str,
    given: Iterable[str],
    function: Callable[..., Any],
    without: Collection[str] = (),
) -> None:
    """Refuse options, and miss those that must be given, before another function does.

    Parameters
    ----------
    taker : str
        Who was called, for the message.
    given : iterable of str
        The names of the options given.
    function : callable
        What takes them, by keyword.
    without : collection of str
        Those that it takes and the one who was called does not.
    """
    given = list(given)
    known = {
        name: parameter
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY and name not in without
    }
    for name in given:
        if name not in known:
            raise ArgumentError(
                f"{taker}() takes no {name}.{near(name, list(known))} It takes {', '.join(known)}."
            )
    for name, parameter in known.items():
        if parameter.default is Parameter.empty and name not in given:
            raise ArgumentError(f"{taker}() needs {name}=...")


def at_least_one(part: str, given: Any, otherwise: Any, most: float = _MOST) -> Any:
    """A whole number of at least 1; `otherwise` where none is given."""
    if given is None:
        return otherwise
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise ArgumentError(f"{part}={given!r} is not a whole number of at least 1.")
    if given > most:
        raise ArgumentError(f"{part}: must be at most {most:,}, got {shown(given)}; pass less.")
    return int(given)


def indent_of(given: int | None) -> int | None:
    """Spaces a level of JSON, or None for one line."""
    if given is not None and not 0 <= given <= _MOST_SPACES:
        raise ArgumentError(
            f"indent: must be None or a whole number from 0 to {_MOST_SPACES}, got {shown(given)}; "
            "pass None for one line."
        )
    return given


def open_share(part: str, given: Any) -> float:
    """A number in ]0, 1[."""
    numeric = isinstance(given, int | float | np.integer | np.floating)
    if isinstance(given, bool) or not numeric or not 0 < given < 1:
        raise ArgumentError(f"{part}={given!r} is not a number between 0 and 1, both excluded.")
    return float(given)


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Kind(NamedTuple):
    """One alternative of an annotation: its name, and the annotations inside its brackets."""

    name: str
    inner: tuple[tuple[_Kind, ...], ...]


#: What messages call the types of annotations.
_WORDS = {
    "None": "None",
    "str": "text",
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "bytes": "bytes",
    "Mapping": "a mapping",
    "dict": "a mapping",
    "Callable": "a function",
    "PathLike": "a path",
}
_SEVERAL = ("Sequence", "Iterable", "list", "tuple")


def typed(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse arguments whose types are not those of their annotations.

    Annotations are read as they are written: alternatives between ``|``, numbers, text, truth
    values, paths, mappings, sequences and what is in them, and classes by their name. Anything
    else, and what is annotated ``object`` or ``Any``, is left to the function.

    Parameters
    ----------
    function : callable
        Of a module that has ``from __future__ import annotations``.

    Returns
    -------
    callable
        The same, which raises `ArgumentError` with the name of the argument.
    """
    known: list[tuple[tuple[str, ...], dict[str, tuple[_Kind, ...]], str]] = []

    @wraps(function)
    def checked(*args: _P.args, **keywords: _P.kwargs) -> _R:
        if not known:  # at the first call: importing stays fast
            known.append(_declared(function))
        names, kinds, rest = known[0]
        for place, value in enumerate(args):
            name = names[place] if place < len(names) else rest
            _check(name, value, kinds.get(name))
        for name, value in keywords.items():
            _check(name, value, kinds.get(name))
        return function(*args, **keywords)

    return checked


#: Types whose values messages show.
_PLAIN = (str, bytes, int, float, complex, list, tuple, dict, set, type(None), type)


def shown(value: object) -> str:
    """Write a plain value as messages show it, and the type of any other."""
    if not isinstance(value, _PLAIN):
        return f"a value of type {type(value).__name__}"
    try:
        text = " ".join(reprlib.repr(value).split())
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:77]}..."


def is_of(value: object, annotation: str) -> bool:
    """Whether a value is of an annotated type.

    Examples
    --------
    >>> is_of(["a"], "list[str]"), is_of(["a", 1], "list[str]"), is_of(None, "int | None")
    (True, False, True)
    """
    return any(_fits(value, kind) for kind in _kinds(annotation))


def _declared(
    function: Callable[..., Any],
) -> tuple[tuple[str, ...], dict[str, tuple[_Kind, ...]], str]:
    """Names of the positional arguments, kinds by name, and where further positional ones go."""
    names, kinds, rest = [], {}, ""
    for parameter in signature(function).parameters.values():
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
        elif parameter.kind is Parameter.VAR_POSITIONAL:
            rest = parameter.name
        annotation = parameter.annotation
        # Measures have errors of their own.
        if (
            parameter.kind is not Parameter.VAR_KEYWORD
            and isinstance(annotation, str)
            and not re.search(r"\bMeasure\b", annotation)
        ):
            kinds[parameter.name] = _kinds(annotation)
    return tuple(names), kinds, rest


def _kinds(annotation: str) -> tuple[_Kind, ...]:
    kinds = [_kind(part) for part in _parts(annotation, "|")]
    # File names are text too, but such that the system can hold.
    path = any(kind.name == "PathLike" for kind in kinds)
    return tuple(kind for kind in kinds if not (path and kind.name == "str"))


def _kind(text: str) -> _Kind:
    name, bracket, inner = text.partition("[")
    within = _parts(inner[:-1], ",") if bracket else []
    return _Kind(
        name.rpartition(".")[2],
        tuple(_kinds(part) for part in within if part != "..." and part[0] != "["),
    )


def _parts(text: str, between: str) -> list[str]:
    """Cut at a sign that no bracket holds."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign == between and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _check(name: str, value: object, kinds: tuple[_Kind, ...] | None) -> None:
    if kinds and not any(_fits(value, kind) for kind in kinds):
        words = " or ".join(dict.fromkeys(map(_word, kinds)))
        if isinstance(value, str) and not is_unicode(value):
            words += " without lone surrogates"
        raise ArgumentError(f"{name}: must be {words}, got {shown(value)}; pass such a value.")


def _word(kind: _Kind) -> str:
    if kind.name in _SEVERAL:
        inner = " or ".join(map(_word, kind.inner[0])) if kind.inner else "values"
        return f"several, each {inner}"
    article = "an" if kind.name[0] in "AEIOU" else "a"
    return _WORDS.get(kind.name, f"{article} {kind.name}")


def _fits(value: Any, kind: _Kind) -> bool:
    name, inner = kind
    if name in ("Any", "object", "ArrayLike"):
        return True
    if name == "None":
        return value is None
    if name == "str":
        return isinstance(value, str) and is_unicode(value)
    if name == "bool":
        return isinstance(value, bool | np.bool_)
    if name == "int":
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if name == "float":
        return isinstance(value, int | float | np.integer | np.floating) and _is_double(value)
    if name == "bytes":
        return isinstance(value, bytes | bytearray | memoryview) or _named(value, "Buffer")
    if name == "Callable":
        return callable(value)
    if name == "PathLike":  # file names may hold bytes that are no UTF-8, as surrogates
        return isinstance(value, str | os.PathLike) and _is_file_name(value)
    if name in ("Mapping", "dict"):
        return isinstance(value, Mapping) and _hold(value.items(), inner)
    if name in ("list", "tuple") and not isinstance(value, list | tuple):
        return False
    if name in _SEVERAL:
        # What can be read only once is left to the function.
        return is_several(value) and (
            not hasattr(value, "__len__") or _hold(((one,) for one in value), inner[:1])
        )
    return _named(value, name)


def _hold(rows: Iterable[tuple[Any, ...]], kinds: tuple[tuple[_Kind, ...], ...]) -> bool:
    return all(
        any(_fits(one, kind) for kind in wanted)
        for row in rows
        for one, wanted in zip(row, kinds, strict=False)
    )


def is_several(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether a value holds others that can be iterated over; text and bytes do not."""
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Iterable):
        return False
    return getattr(value, "ndim", 1) == 1  # arrays without a dimension cannot be iterated over


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_file_name(value: str | os.PathLike[Any]) -> bool:
    try:
        name = os.fspath(value)
        return isinstance(name, str) and b"\0" not in os.fsencode(name)
    except (UnicodeEncodeError, TypeError):
        return False


def _is_double(value: Any) -> bool:
    try:
        float(value)
    except OverflowError:
        return False
    return not isinstance(value, bool)


def _named(value: object, name: str) -> bool:
    """Whether a value is of a class of that name, which is not imported for it."""
    return any(kind.__name__ == name for kind in type(value).__mro__)
