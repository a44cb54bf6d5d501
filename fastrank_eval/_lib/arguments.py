"""Check arguments against ranges, choices and annotations."""

from __future__ import annotations

import math
import os
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any, NamedTuple, ParamSpec, TypeGuard, TypeVar

from fastrank_eval._lib.errors import ArgumentError, near

#: Counts of rows must fit a signed integer of 64 bits.
_MAX_INT64 = 2**63 - 1
_MAX_SPACES = 64


#: Converts a value, or raises `Unfit`.
Reader = Callable[[Any], Any]


class Unfit(ValueError):
    """The form that a value must have, and the remedy."""

    def __init__(self, form: str, remedy: str) -> None:
        super().__init__(form)
        self.remedy = remedy


def checked(name: str, value: object, reader: Reader) -> Any:
    """Return an argument after a check.

    >>> checked("order", "shuffled", one_of("auto", "grouped"))
    Traceback (most recent call last):
    fastrank_eval.ArgumentError: order: must be one of 'auto', 'grouped', got \
    'shuffled'; pass one of them.
    """
    try:
        return reader(value)
    except Unfit as wrong:
        end = wrong.remedy if wrong.remedy.endswith("?") else f"; {wrong.remedy}."
        raise ArgumentError(f"{name}: must be {wrong}, got {shown(value)}{end}") from None


@lru_cache(None, typed=True)
def one_of(*choices: Any) -> Reader:
    """Make a reader that accepts one of `choices`."""

    def read_choice(value: Any) -> Any:
        plain = value is None or isinstance(value, str | bool) or is_real(value)
        for choice in choices if plain else ():
            if isinstance(value, bool) == isinstance(choice, bool) and value == choice:
                return choice
        form = ", ".join(map(repr, choices))
        if len(choices) == 1:
            raise Unfit(form, f"pass {form}")
        hint = near(value, [choice for choice in choices if isinstance(choice, str)])
        raise Unfit(f"one of {form}", f".{hint}" if hint else "pass one of them")

    return read_choice


def number(
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = math.inf,
    below: float = math.inf,
    optional: bool = False,
    remedy: str = "",
) -> Reader:
    """Make a reader of finite numbers in ]above, below[ and [least, most].

    Numbers without a fraction become int.
    """
    bounds = {"above": above, "at least": least, "at most": most, "below": below}
    limits = [f"{word} {bound:g}" for word, bound in bounds.items() if math.isfinite(bound)]
    is_bounded = max(above, least) > -math.inf and min(most, below) < math.inf
    kind = "a number" if is_bounded else "a finite number"
    form = f"{kind} {' and '.join(limits)}".strip()
    if math.isfinite(least) and math.isfinite(most):
        form = f"a number from {least:g} to {most:g}"
    examples = (0.5, 1, least, most, above + 1, below / 2)
    fit = (x for x in examples if above < x < below and least <= x <= most)
    remedy = remedy or f"pass {next(fit):g}, for instance"

    def read_number(value: Any) -> Any:
        if value is None and optional:
            return None
        try:
            number = math.nan if isinstance(value, bool | str | bytes) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (math.isfinite(number) and above < number < below and least <= number <= most):
            raise Unfit(form, remedy)
        return int(number) if number.is_integer() and abs(number) < 2**53 else number

    return read_number


def integer(least: int, most: float = _MAX_INT64, optional: bool = False) -> Reader:
    """Make a reader of integers in [least, most]."""
    form = f"a whole number of at least {least:,}"
    if most < _MAX_INT64:
        form = f"a whole number from {least:,} to {most:,}"

    def read_integer(value: Any) -> Any:
        if value is None and optional:
            return None
        is_exact = is_whole(value) or (isinstance(value, float) and value.is_integer())
        if not is_exact or value < least or most < min(value, _MAX_INT64):
            raise Unfit(form, f"pass {least}, for instance")
        if value > most:
            raise Unfit(f"at most {most:,}", f"pass {least}, for instance")
        return int(value)

    return read_integer


def column_name(role: str, value: object) -> str:
    """Return the name of a column after a check."""
    if not isinstance(value, str) or not value:
        raise ArgumentError(
            f"{role}: must be the name of a column, got {shown(value)}; pass 'user_id', for "
            "instance."
        )
    return value


def column_names(role: str, value: str | Iterable[str]) -> tuple[str, ...]:
    """Return one or more distinct column names after a check."""
    if not isinstance(value, Iterable):
        raise ArgumentError(
            f"{role}: must be the name of a column or a list of names, got {shown(value)}; pass "
            "'user_id', for instance."
        )
    names = (value,) if isinstance(value, str) else tuple(value)
    if not names:
        raise ArgumentError(f"{role}: must name at least one column, got {shown(value)}; name one.")
    for name in names:
        column_name(role, name)
        if names.count(name) > 1:
            raise ArgumentError(
                f"{role}: must name different columns, got '{name}' more than once; name it once."
            )
    return names


def require_baseline(name: str, scores: Sequence[str]) -> None:
    """Raise unless a baseline is one of the models."""
    if name not in scores:
        raise ArgumentError(
            f"baseline: must be one of the score columns {', '.join(map(repr, scores))}, got "
            f"{name!r}; name one of them.{near(name, scores)}"
        )


def check_options(
    caller: str,
    names: Iterable[str],
    options: Collection[str],
    own: Callable[..., Any] | None = None,
) -> None:
    """Raise for unknown options.

    Parameters
    ----------
    caller : str
        Name of the function that the user called, for the message.
    names : iterable of str
        The names of the options that the user passed.
    options : collection of str
        The names that the function passes on.
    own : callable, optional
        The function that the user called: its own parameters are among those that it takes.
    """
    for name in names:
        if name not in options:
            parameters = signature(own).parameters.values() if own else ()
            taken = [p.name for p in parameters if p.name != "self" and p.kind is not p.VAR_KEYWORD]
            taken = list(dict.fromkeys([*taken, *options]))
            raise ArgumentError(
                f"{caller}() takes no {name}.{near(name, taken, 0.75)} It takes {', '.join(taken)}."
            )


def check_indent(value: int | None) -> int | None:
    """Return the indent of JSON in spaces after a check; None means one line."""
    indent: int | None = checked("indent", value, integer(0, _MAX_SPACES, optional=True))
    return indent


_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Type(NamedTuple):
    """A type of an annotation: its name and the types in its brackets."""

    name: str
    inner: tuple[tuple[_Type, ...], ...]


#: The descriptions of annotated types in messages.
_DESCRIPTIONS = {
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
#: Values of annotated types in remedies.
_EXAMPLES = {"int": "1", "float": "0.5", "PathLike": "'file.parquet'"}
_LIST_LIKE = ("Sequence", "Iterable", "list", "tuple")


def typed(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Check the types of arguments against the annotations of a function.

    The check reads the text of each annotation. It understands alternatives between ``|``,
    numbers, text, booleans, paths, mappings and sequences with their items, and classes by their
    name. It skips all other annotations, ``object`` and ``Any``.

    Parameters
    ----------
    function : callable
        Its module must have ``from __future__ import annotations``.

    Returns
    -------
    callable
        The same function; it raises `ArgumentError` with the name of the argument, also for an
        argument that it does not take or lacks.
    """
    parsed: list[tuple[tuple[str, ...], dict[str, str], str]] = []
    call = named(function)

    @wraps(function)
    def check(*args: _P.args, **keywords: _P.kwargs) -> _R:
        if not parsed:  # at the first call: importing stays fast
            parsed.append(_parse_signature(function))
        names, types, rest = parsed[0]
        for index, value in enumerate(args):
            name = names[index] if index < len(names) else rest
            _check(name, value, types.get(name))
        for name, value in keywords.items():
            _check(name, value, types.get(name))
        return call(*args, **keywords)

    return check


def named(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Say which argument is wrong if a call does not fit a function."""

    @wraps(function)
    def call(*args: _P.args, **keywords: _P.kwargs) -> _R:
        try:
            return function(*args, **keywords)
        except TypeError:
            _check_call(function, args, keywords)
            raise

    return call


def _check_call(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """Raise ArgumentError if a call does not fit the parameters."""
    parameters = list(signature(function).parameters.values())
    if parameters and parameters[0].name == "self":
        args, parameters = args[1:], parameters[1:]
    kinds = [p.kind for p in parameters]
    takes_more = Parameter.VAR_KEYWORD in kinds
    places = [
        p.name
        for p in parameters
        if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    variable = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
    names = [p.name for p in parameters if p.kind not in variable]
    given = {*places[: len(args)], *keywords}
    missing = [
        p.name
        for p in parameters
        if p.default is Parameter.empty and p.name in names and p.name not in given
    ]
    name = f"{function.__qualname__.removesuffix('.__init__')}()"
    unknown = [word for word in keywords if word not in names]
    for word in unknown if not takes_more else ():
        hint = near(word, missing, 0.75) or near(word, names, 0.75)
        raise ArgumentError(
            f"{name} takes no {word}.{hint} It takes {', '.join(names) or 'no argument'}."
        )
    for lacking in missing:
        for word in unknown:
            if f"'{word}'" in near(lacking, unknown):
                raise ArgumentError(f"{name} takes no {word}. Did you mean '{lacking}'?")
    for word in keywords:
        if word in places[: len(args)]:
            raise ArgumentError(f"{name}: {word} is passed twice; pass it once.")
    if len(args) > len(places) and Parameter.VAR_POSITIONAL not in kinds:
        most = f"{len(places)} argument{'s' * (len(places) != 1)}"
        others = [one for one in names if one not in places]
        remedy = f"name the others, as in {others[0]}=..." if others else "leave the others out"
        raise ArgumentError(f"{name} takes {most} without a name, got {len(args)}; {remedy}.")
    if missing:
        raise ArgumentError(f"{name} needs {missing[0]}=...")


#: Messages show values of these types, and only the type of other values.
_BUILTIN_TYPES = (str, bytes, int, float, complex, list, tuple, dict, set, type(None), type)


def shown(value: object) -> str:
    """Return a short text of a value for messages."""
    if is_real(value) and hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    if not isinstance(value, _BUILTIN_TYPES):
        return f"a value of type {type(value).__name__}"
    try:
        text = " ".join(reprlib.repr(value).split())
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _parse_signature(
    function: Callable[..., Any],
) -> tuple[tuple[str, ...], dict[str, str], str]:
    """Return positional names, types by name, and the name of ``*args``."""
    names, types, rest = [], {}, ""
    for parameter in signature(function).parameters.values():
        if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
        elif parameter.kind is Parameter.VAR_POSITIONAL:
            rest = parameter.name
        annotation = parameter.annotation
        # The parser of measures raises clearer errors.
        if (
            parameter.kind is not Parameter.VAR_KEYWORD
            and isinstance(annotation, str)
            and not re.search(r"\bMeasure\b|^type\[", annotation)
        ):
            types[parameter.name] = annotation
    return tuple(names), types, rest


@cache
def _parse_union(annotation: str) -> tuple[_Type, ...]:
    types = [_parse_type(text) for text in _split_outside_brackets(annotation, "|")]
    # A path may be text with surrogates, which the check of "str" refuses.
    path = any(item.name == "PathLike" for item in types)
    return tuple(item for item in types if not (path and item.name == "str"))


def _parse_type(text: str) -> _Type:
    name, bracket, inner = text.partition("[")
    arguments = _split_outside_brackets(inner[:-1], ",") if bracket else []
    return _Type(
        name.rpartition(".")[2],
        tuple(_parse_union(item) for item in arguments if item != "..." and item[0] != "["),
    )


def _split_outside_brackets(text: str, separator: str) -> list[str]:
    """Split text at a separator outside of brackets."""
    items, depth = [""], 0
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if sign == separator and not depth:
            items.append("")
        else:
            items[-1] += sign
    return [item.strip() for item in items]


@cache
def of_type(annotation: str, example: str = "") -> Reader:
    """Make a reader of values of an annotated type, as `typed` understands it.

    Messages name the example, or one of the type.

    Examples
    --------
    >>> checked("limit", "5", of_type("int | None"))
    Traceback (most recent call last):
    fastrank_eval.ArgumentError: limit: must be a whole number or None, got '5'; pass \
    1, for instance.
    """
    takes_text = annotation.startswith("str") and "PathLike" not in annotation

    def read_type(value: Any) -> Any:
        if takes_text and type(value) is str and value.isascii():
            return value
        types = _parse_union(annotation)
        if not (any(_fits(value, each) for each in types) and _keeps_items(value, types)):
            expected = " or ".join(dict.fromkeys(map(_describe, types)))
            surrogate = isinstance(value, str) and not is_unicode(value)
            form = expected + " without lone surrogates" * surrogate
            fit = example or _EXAMPLES.get(types[0].name)
            raise Unfit(form, f"pass {fit}, for instance" if fit else f"pass {_describe(types[0])}")
        return value

    return read_type


def _check(name: str, value: object, annotation: str | None) -> None:
    if annotation is not None:
        if name == "label" and annotation == "str":
            check_one_label(value)
        checked(name, value, of_type(annotation))


def _keeps_items(value: object, types: tuple[_Type, ...]) -> bool:
    """Return whether a sequence of the value has its order and all of it."""
    names = {alternative.name for alternative in types}
    if "Sequence" not in names:
        return True
    is_mapping = isinstance(value, Mapping) and not names & {"Mapping", "dict"}
    return not (is_mapping or isinstance(value, set | frozenset))


def check_one_label(label: object) -> None:
    """Raise if there are several labels.

    Raises
    ------
    ArgumentError
    """
    if is_list_like(label):
        raise ArgumentError(
            f"label: must be one column, got {shown(label)}; name one, and call the function for "
            "each label. evaluate and compare take a list."
        )


def _describe(alternative: _Type) -> str:
    if alternative.name in _LIST_LIKE:
        inner = " or ".join(map(_describe, alternative.inner[0])) if alternative.inner else "values"
        return f"a list, each item {inner}"
    article = "an" if alternative.name[0] in "AEIOU" else "a"
    return _DESCRIPTIONS.get(alternative.name, f"{article} {alternative.name}")


def _fits(value: Any, alternative: _Type) -> bool:
    name, inner = alternative
    if name in ("Any", "object", "ArrayLike"):
        return True
    if name == "None":
        return value is None
    if name == "str":
        return is_text(value)
    if name == "bool":
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if name == "int":
        return is_whole(value)
    if name == "float":
        return is_real(value) and _is_double(value)
    if name == "bytes":
        return isinstance(value, bytes | bytearray | memoryview) or _has_class_name(value, "Buffer")
    if name == "Callable":
        return callable(value)
    if name == "PathLike":  # surrogates stand for bytes that are no UTF-8
        return isinstance(value, str | os.PathLike) and _is_file_name(value)
    if name in ("Mapping", "dict"):
        return isinstance(value, Mapping) and _all_fit(value.items(), inner)
    if name in ("list", "tuple") and not isinstance(value, list | tuple):
        return False
    if name in _LIST_LIKE:
        # An iterator can be read only once: the function checks its items.
        return is_list_like(value) and (
            not hasattr(value, "__len__") or _all_fit(((item,) for item in value), inner[:1])
        )
    return _has_class_name(value, name)


def _all_fit(rows: Iterable[tuple[Any, ...]], types: tuple[tuple[_Type, ...], ...]) -> bool:
    return all(
        any(_fits(item, alternative) for alternative in alternatives)
        for row in rows
        for item, alternatives in zip(row, types, strict=False)
    )


def is_list_like(value: object) -> TypeGuard[Iterable[Any]]:
    """Return whether a value is iterable, but no text or bytes."""
    if isinstance(value, str | bytes | bytearray) or not isinstance(value, Iterable):
        return False
    return getattr(value, "ndim", 1) == 1  # a 0-dimensional array cannot be iterated over


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer, of Python or NumPy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_real(value: object) -> TypeGuard[float]:
    """Return whether a value is a number, of Python or NumPy."""
    is_number = isinstance(value, int | float) or type(value).__module__ == "numpy"
    return is_number and isinstance(value, Real) and not isinstance(value, bool)


def is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is text that UTF-8 can encode."""
    return isinstance(value, str) and (value.isascii() or is_unicode(value))


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode a text."""
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
    return True


def _has_class_name(value: object, name: str) -> bool:
    """Return whether a class of a value has a name; nothing is imported."""
    return any(base.__name__ == name for base in type(value).__mro__)
