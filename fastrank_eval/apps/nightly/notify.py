"""Send a message about a night to a webhook."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from html import escape
from http import HTTPStatus
from threading import Thread
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.log import NIGHTLY
from fastrank_eval.apps.nightly.night import Settings

#: Statuses that a person has to look at.
_FAILURES = ("regression", "data_quality", "not_evaluated")
#: Seconds before the first further attempt; each later wait is twice as long.
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
#: Answers after which a further attempt can succeed, besides those of 500 and more.
_TEMPORARY = (408, 425, 429)
_MAX_TEXT = 4000
#: Texts from data that a chat would make a mention, an image or a link of.
_ACTIVE = re.compile(
    r"@(?=(?:all|channel|everyone|here)\b)|(?<=\])(?=\()|(?<=:)(?=//)|(?<=\bmailto)(?=:)"
    r"|(?<=\bwww)(?=\.)",
    re.IGNORECASE,
)
_PART_OF_SIGN = re.compile(r"&[a-z]*\Z")
_ZERO_WIDTH_SPACE = "\u200b"


def wants_message(webhook: Settings, status: str, before: str | None) -> bool:
    """Return whether to send a message about a night.

    Parameters
    ----------
    webhook : Settings
    status : str
        The status of the night.
    before : str or None
        That of the date before it in the history.
    """
    changed = status != (before or "fine")
    return bool({"always": True, "failure": status in _FAILURES, "change": changed}[webhook.when])


def webhook_url(webhook: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """Return the address of a webhook from the environment.

    Raises
    ------
    OutputError
        If the variable is missing, or has no valid address. The message does not show it.
    """
    name = webhook.url_env
    value = environment.get(name, "").strip()
    if not value:
        raise OutputError(
            f"[notify] url_env: the environment variable {name} is not set; export the address "
            "of the webhook in it."
        )
    problem = url_problem(value)
    if problem:
        raise OutputError(f"[notify] url_env: the address in {name} {problem}.")
    return value


def send(webhook: Settings, content: object) -> None:
    """Post a message as JSON; try again after errors that may pass.

    A redirect is not followed. The body of the answer is not read.

    Parameters
    ----------
    webhook : Settings
    content : object
        Plain values.

    Raises
    ------
    OutputError
        If the message was not accepted. Neither the address nor the answer is in its text.
    """
    url, wait = webhook_url(webhook), _FIRST_WAIT
    body = json.dumps(content, allow_nan=False).encode("ascii")
    for attempt in range(1, webhook.retries + 2):
        started = time.perf_counter()
        outcome = _post(url, body, webhook.timeout)
        seconds = time.perf_counter() - started
        if not outcome.reason:
            NIGHTLY.info("message sent", attempt=attempt, seconds=seconds)
            return
        NIGHTLY.info("message not sent", attempt=attempt, reason=outcome.reason, seconds=seconds)
        if not outcome.temporary or attempt > webhook.retries:
            break
        time.sleep(min(max(wait, outcome.retry_after), _LONGEST_WAIT))
        wait *= 2
    times = f" after {attempt} attempts" if attempt > 1 else ""
    raise OutputError(f"[notify]: the message was not sent{times}: {outcome.reason}.")


def url_problem(url: str) -> str:
    """Say why an address cannot be used, without the address.

    Returns
    -------
    str
        Empty for ``https``, and for ``http`` to this machine.

    Examples
    --------
    >>> url_problem("https://hooks.example.com/T0"), url_problem("http://127.0.0.1:8080/")
    ('', '')
    >>> url_problem("http://hooks.example.com/T0")
    'must begin with https:// (http:// only to this machine)'
    """
    if not re.fullmatch(r"[!-~]+", url):
        return "must be ASCII without blanks"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "must have a valid host and port"
    if not host:
        return "must be an address such as https://host/path"
    if "@" in parts.netloc:
        return "must have no user name and password"
    if parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)):
        return ""
    return "must begin with https:// (http:// only to this machine)"


def chat_message(lines: Sequence[str]) -> dict[str, str]:
    """Make the message of Slack and of chats that take its form.

    Parameters
    ----------
    lines : sequence of str
        Plain text. Mentions, images and addresses with a scheme have no effect in the chat. Signs
        such as `*bold*`, and bare domains, have.

    Returns
    -------
    dict of str to str
        The text, of at most 4,000 characters with ``&lt;`` for ``<``.
    """
    text = _ACTIVE.sub(lambda match: match[0] + _ZERO_WIDTH_SPACE, "\n".join(lines))
    text = escape(text, quote=False)
    if len(text) > _MAX_TEXT:
        # An escaped sign is kept as a whole, or not at all.
        text = f"{_PART_OF_SIGN.sub('', text[: _MAX_TEXT - 1])}…"
    return {"text": text}


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass
class _Outcome:
    """The outcome of an attempt; an empty reason is success."""

    reason: str = ""
    temporary: bool = False
    retry_after: float = 0.0


def _post(url: str, body: bytes, timeout: float) -> _Outcome:
    """Post once; a thread bounds the time of all steps together."""
    outcomes: list[_Outcome] = []
    thread = Thread(target=lambda: outcomes.append(_answer(url, body, timeout)), daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return _Outcome("the system has no thread left", temporary=True)
    thread.join(timeout)
    if outcomes:
        return outcomes[0]
    return _Outcome(f"no answer within {timeout:g} s", temporary=True)


def _answer(url: str, body: bytes, timeout: float) -> _Outcome:
    """Post and describe the answer; no reason shows the address or the answer."""
    headers = {"Content-Type": "application/json", "User-Agent": "fastrank_eval"}
    request = Request(url, body, headers, method="POST")  # noqa: S310 - url_problem checked it
    try:
        with _opener(url).open(request, timeout=timeout):
            return _Outcome()
    except HTTPError as error:
        with error:
            return _refusal(error.code, error.headers.get("Retry-After"))
    except URLError as error:
        reason: object = error.reason
    except Exception as error:
        reason = error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return _Outcome("the certificate of the host is not valid")
    if isinstance(reason, TimeoutError):
        return _Outcome(f"no answer within {timeout:g} s", temporary=True)
    # Texts of other errors may hold the address or the answer: only their type is safe.
    return _Outcome(f"no connection ({type(reason).__name__})", isinstance(reason, OSError))


def _refusal(code: int, retry_after: str | None) -> _Outcome:
    if 300 <= code < 400:
        return _Outcome(f"the host redirects (HTTP {code}), which is not followed")
    phrase = HTTPStatus(code).phrase if code in set(HTTPStatus) else ""
    digits = re.fullmatch(r"[0-9]{1,6}", retry_after or "")
    seconds = float(digits[0]) if digits else 0.0
    temporary = code >= 500 or code in _TEMPORARY
    return _Outcome(f"HTTP {code} {phrase}".rstrip(), temporary, seconds)


class _NoRedirect(HTTPRedirectHandler):
    """Make an error of each redirect."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Refuse the redirect."""


def _opener(url: str) -> OpenerDirector:
    """Return an opener without redirects, and without a proxy to this machine."""
    handlers: list[Any] = [_NoRedirect()]
    if url.lower().startswith("http:"):
        handlers.append(ProxyHandler({}))
    return build_opener(*handlers)
