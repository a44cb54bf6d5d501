"""What a group without a value counts as, for all measures or one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastrank_eval.errors import ArgumentError, MeasureError, near
from fastrank_eval.measures.base import registry, spelled

__all__ = ["undefined_policies", "undefined_text"]

_POLICIES = ("skip", "zero", "one", "error")
_REST = "*"


def undefined_policies(given: str | Mapping[str, str]) -> dict[str, str]:
    """The policy of each measure that has one of its own, and of the others under ``"*"``.

    Parameters
    ----------
    given : str or mapping
        ``"skip"``, ``"skip,nDCG=one,R=one"``, or ``{"*": "skip", "nDCG": "one", "R": "one"}``.

    Raises
    ------
    ArgumentError
        Names the part that is no policy or no measure.

    Examples
    --------
    >>> undefined_policies("zero,ndcg=one")
    {'*': 'zero', 'nDCG': 'one'}
    """
    pairs: list[tuple[Any, Any]] = [(_REST, given)]
    if isinstance(given, str):
        parts = [part.partition("=") for part in given.split(",")]
        pairs = [(name if sign else _REST, rest if sign else name) for name, sign, rest in parts]
    elif isinstance(given, Mapping):
        pairs = list(given.items())
    policies = {_REST: "skip"}
    for measure, policy in pairs:
        of = measure.strip() if isinstance(measure, str) else measure
        value = policy.strip() if isinstance(policy, str) else policy
        if not isinstance(value, str) or value not in _POLICIES:
            raise ArgumentError(
                f"undefined={value!r} is not one of {', '.join(map(repr, _POLICIES))}."
                f"{near(str(value), _POLICIES)}"
            )
        if of != _REST:
            if isinstance(of, str):
                _check_f1(of)
            name, preset = spelled.get(of.lower(), ("", {})) if isinstance(of, str) else ("", {})
            if not name or preset:
                raise ArgumentError(
                    f"undefined: {of!r} is no measure.{near(str(of), list(registry))} "
                    "Name measures without options, as in 'skip,nDCG=one'."
                )
            of = name
        policies[of] = value
    return policies


def _check_f1(name: str) -> None:
    from fastrank_eval.measures.text import refuse_plain_f1

    try:
        refuse_plain_f1(name)
    except MeasureError:
        raise ArgumentError(
            f"undefined: must name a measure, got {name!r}; write F for rankings, or FScore for "
            "decisions at a threshold."
        ) from None


def undefined_text(policies: Mapping[str, str]) -> str:
    """Policies as `undefined_policies` reads them."""
    rest = policies[_REST]
    single = (f"{name}={policy}" for name, policy in policies.items() if name != _REST)
    return ",".join([rest, *single])
