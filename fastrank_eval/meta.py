"""What the values of a result rest on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastrank_eval.plain_values import plain_value

__all__ = ["Meta", "plain_meta"]


@dataclass(frozen=True)
class Meta:
    """What the values rest on: version, size of the input, conventions in force, time taken.

    Parameters
    ----------
    version : str
        Version of fastrank_eval.
    rows : int
        Rows read.
    groups : int
        Groups found.
    conventions : dict
        Every convention in force, by name.
    seconds : float
        Wall time of the evaluation, reading included.
    compiled : int
        Loops that were compiled on the way, which only a first run does.
    requested : dict of str to str
        Names of measures that were computed with other options, as a profile has them, and the
        texts of what was computed.

    Examples
    --------
    >>> Meta("1.0", 1000, 40, {"ties": "expected"}, 0.5).rows
    1000
    """

    version: str
    rows: int
    groups: int
    conventions: dict[str, object]
    seconds: float
    compiled: int = 0
    requested: dict[str, str] = field(default_factory=dict)


def plain_meta(meta: Meta) -> dict[str, Any]:
    """Write what values rest on as plain Python values."""
    plain: dict[str, Any] = plain_value(vars(meta))
    del plain["compiled"]
    if not meta.requested:
        del plain["requested"]
    return plain
