"""Define the errors of fastrank_eval.

Each message says what is wrong, where, which value, and the remedy.

Remove user, password and query from addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

#: What is before an address. In a path the scheme has one slash only.
_SCHEME = r"(?:\b[A-Za-z][\w+.-]{1,30}:/|://)/*"
#: A quote ends an address if the word ends too.
_ENDS = r"(?=[,.;:)\]}>]*(?:\s|$))"
_ADDRESS = re.compile(
    rf"""
    (?P<quote>['"])?
    (?P<scheme>{_SCHEME})
    (?P<address>
        # A password, not a port, with blanks: up to the last @ before the next address.
        (?:[^\s/?@:[]*:(?!\d*(?:[/?\s]|['"]*{_ENDS}))[^\s@]*\s(?:(?!\w:/).)*@)?
        (?(quote)
            .*?(?=(?<!\\)(?P=quote)['"]*{_ENDS})
        |
            (?:[^\s'"]|['"]+(?!['"])(?!{_ENDS}))*
        )
    )""",
    re.VERBOSE | re.MULTILINE,
)


def without_credentials(text: str) -> str:
    """Remove user, password and query from the addresses in a text.

    An address that cannot be split without doubt, or that has another one in it, is removed whole.

    Examples
    --------
    >>> without_credentials("s3://key:secret@bucket/day=1?region=eu cannot be read")
    's3://bucket/day=1 cannot be read'
    >>> without_credentials("logs/part-?.parquet")
    'logs/part-?.parquet'
    """
    if ":/" not in text:
        return text
    return _ADDRESS.sub(
        lambda match: (
            (match["quote"] or "") + match["scheme"] + _rest(match["address"], match["scheme"])
        ),
        text,
    )


def clean_address(address: str) -> str:
    """Remove user, password and query from a text that is one address.

    Its blanks and quotes do not end it, unlike those of an address in a sentence. A path stays.

    Examples
    --------
    >>> clean_address("s3://key:se cret@bucket/day=1?key=sec 'ret")
    's3://bucket/day=1'
    """
    scheme = re.search(_SCHEME, address)
    if scheme is None:
        return address
    return address[: scheme.end()] + _rest(address[scheme.end() :], scheme[0])


def _rest(address: str, scheme: str) -> str:
    """Return what may be shown of an address after its scheme."""
    place, _, query = address.partition("?")
    host, slash, path = place.partition("/")
    if ":" not in host:
        place = host.rpartition("@")[2] + slash + path
    elif "@" in query or ("@" in host and "@" in path):  # which @ ends the password?
        return "..."
    elif "@" in place:
        place = place.rpartition("@")[2]
    # What is no port is the start of a password with a slash; a path has no port.
    elif not re.fullmatch(r"([^:]*|\[.*\]):\d*|\[.*\]", host) or "//" not in scheme:
        return "..."
    return "..." if ":/" in place else place


class FastRankEvalError(ValueError):
    """Base class of all errors of fastrank_eval.

    Addresses in the message lose user, password and query.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(without_credentials(a) if isinstance(a, str) else a for a in args))

    #: The lines of a message that lists several errors; empty for a single one.
    lines: Sequence[str] = ()


class SourceError(FastRankEvalError):
    """A source is missing, corrupt or of unknown format.

    The message names the file.
    """


class ColumnError(FastRankEvalError):
    """A column is missing, has the wrong type or an invalid value.

    The message names the first row with such a value, and the count of rows.
    """


class MeasureError(FastRankEvalError):
    """A measure or its option is unknown, or its cutoff is out of range."""


class OrderError(FastRankEvalError):
    """Rows break the promised order.

    A group key occurs again, or a score rises inside a group.
    """

    row: int | None = None


class UndefinedError(FastRankEvalError):
    """A measure is undefined for a group and ``undefined='error'`` is set."""


class OutputError(FastRankEvalError):
    """An output exists already or cannot be written."""


class SparkError(FastRankEvalError):
    """A Spark job split groups over partitions, or workers lack packages."""


class SpillError(FastRankEvalError):
    """Rows cannot be sorted on disk: no space, no permission, or no DuckDB."""


class MergeError(FastRankEvalError):
    """States have different conventions, or hold the same rows."""


class HistoryError(FastRankEvalError):
    """A history of nights is another file, or cannot be read or written."""


class ArgumentError(FastRankEvalError):
    """An argument or option has a value that is not allowed."""


def near(name: object, candidates: Iterable[str], cutoff: float = 0.6) -> str:
    """Suggest the candidate with the most similar spelling.

    Parameters
    ----------
    name : object
        The unknown name; a value that is no text gets no suggestion.
    candidates : iterable of str
        The existing names.
    cutoff : float
        The least likeness, from 0 to 1. A name that begins with all words of another is always
        like it.

    Returns
    -------
    str
        ``" Did you mean 'x'?"``, or ``""`` if nothing is close.

    Examples
    --------
    >>> near("lable", ["label", "score"])
    " Did you mean 'label'?"
    >>> near("keep_groups", ["groups", "keep"], 0.75)
    " Did you mean 'keep'?"
    >>> near("per_group", ["group", "groups"], 0.75)
    ''
    """
    if not isinstance(name, str):
        return ""
    by_lower_case: dict[str, str] = {}
    for candidate in candidates:
        by_lower_case.setdefault(candidate.casefold(), candidate)
    from difflib import get_close_matches

    matches = get_close_matches(name.casefold(), by_lower_case, n=1, cutoff=cutoff)
    word = f"{name.casefold()}_"
    for one in () if matches else by_lower_case:
        if word.startswith(f"{one}_") or f"{one}_".startswith(word):
            matches = [one]
            break
    return f" Did you mean {by_lower_case[matches[0]]!r}?" if matches else ""


def text_keys_hint(kinds: Iterable[str]) -> str:
    """Explain why some keys are text and others integers.

    Parameters
    ----------
    kinds : iterable of str
        Names of the Arrow types of the keys.

    Returns
    -------
    str
        A sentence, or ``""`` unless the types are text and integers.

    Examples
    --------
    >>> text_keys_hint(["string", "int64"])
    ' Group and item columns of CSV and TSV files are text: cast the integers to string.'
    >>> text_keys_hint(["int32", "int64"])
    ''
    """
    names = list(kinds)
    if not (any("string" in name for name in names) and any("int" in name for name in names)):
        return ""
    return " Group and item columns of CSV and TSV files are text: cast the integers to string."


# Tracebacks show the names that users import.
for _error in [FastRankEvalError, *FastRankEvalError.__subclasses__()]:
    _error.__module__ = "fastrank_eval"
