"""By which names a web view may be called: others would let sites read it (DNS rebinding)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from fastrank_eval.errors import ArgumentError

__all__ = ["KnownHosts"]

_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
_NAME = re.compile(r"(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?")


class KnownHosts:
    """Names and addresses of a server.

    Parameters
    ----------
    names : iterable of str
        ``"reports.example.org"``, ``"*.example.org"`` for what ends so, ``"127.0.0.1"``,
        ``"::1"``, in brackets or not.

    Raises
    ------
    ArgumentError
        One is no name.

    Examples
    --------
    >>> known = KnownHosts(["localhost", "::1"])
    >>> [host in known for host in ("LOCALHOST.:8642", "[::1]:8642", "evil.org", "")]
    [True, True, False, False]
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._ends: list[str] = []
        for name in names:
            plain = _plain(name)
            if not _is_address(plain) and not _NAME.fullmatch(plain):
                raise ArgumentError(
                    f"{name!r} is no name of a host; write it as reports.example.org, or "
                    "*.example.org for every name that ends so."
                )
            if plain.startswith("*"):
                self._ends.append(plain[1:])
            else:
                self._names.add(plain)

    def __contains__(self, header: str) -> bool:
        """Whether a request's ``Host`` names the server."""
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        host = _plain(found[1])
        return host in self._names or any(host.endswith(end) for end in self._ends)


def _plain(name: str) -> str:
    """In lower case, without brackets and the dot of the root; addresses in their short form."""
    bare = name.removeprefix("[").removesuffix("]").lower()
    if _is_address(bare):
        return ipaddress.ip_address(bare).compressed
    return bare.removesuffix(".")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
