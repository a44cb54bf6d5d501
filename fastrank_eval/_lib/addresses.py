"""Remove user, password and query from addresses."""

from __future__ import annotations

import re

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
