"""What the values of a result rest on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Meta"]


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
