"""What a state tells of the rows and the evaluations whose sums it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastrank_eval.saved_parts import Parts
from fastrank_eval.state_files import Place
from fastrank_eval.state_places import ALL, TOTALS

__all__ = ["Seen", "StateHeader"]


@dataclass(frozen=True)
class Seen:
    """The rows of one evaluation whose sums are in a state.

    Parameters
    ----------
    sources : tuple of str
        Files or folders as they were named, or the type of what was passed.
    order : str
        Which way rows took.
    where : str or None
        The condition that selected rows.
    limit : int or None
        How many were read at most.
    rows, positives, groups : int
    writer : str
        Version of fastrank_eval.
    fingerprint : str
        SHA-256 of measures and sums: the same for the same rows, whatever they were called.
    """

    sources: tuple[str, ...]
    order: str
    where: str | None
    limit: int | None
    rows: int
    positives: int
    groups: int
    writer: str
    fingerprint: str


class StateHeader:
    """What a state is of: models, measures, slices, how many rows, and where they came from.

    Parameters
    ----------
    header : mapping
        What docs/STATES.md says a file's metadata hold.
    states : mapping
        Arrays by slice, model and name of the state.
    shown : str, optional
        What messages call it; by default it is told by its rows.
    """

    def __init__(
        self,
        header: Mapping[str, Any],
        states: Mapping[Place, Parts],
        shown: str | None = None,
    ) -> None:
        self._header = dict(header)
        self._states = dict(sorted(states.items()))
        self.seen = tuple(
            Seen(**{**seen, "sources": tuple(seen["sources"])}) for seen in header["seen"]
        )
        self._groups, self._rows = self._states[ALL, "", TOTALS]["counts"][0, :2].tolist()
        self.shown = shown or f"a state of {self.rows} rows"

    @property
    def scores(self) -> tuple[str, ...]:
        """Score columns, that is, the models."""
        return tuple(self._header["models"])

    @property
    def measures(self) -> tuple[str, ...]:
        """Canonical texts of the measures."""
        return tuple(self._header["measures"])

    @property
    def asked(self) -> dict[str, str]:
        """What measures were called that a profile gave other options."""
        return dict(self._header["asked"])

    @property
    def rows(self) -> int:
        """Rows seen."""
        return int(self._rows)

    @property
    def groups(self) -> int:
        """Groups seen; one with rows in two states counts twice."""
        return int(self._groups)

    @property
    def baseline(self) -> str | None:
        """The model that every other was compared with, if there was one."""
        name: str | None = self._header["baseline"]
        return name

    @property
    def groups_kept(self) -> bool:
        """Whether keys and values of every group are there."""
        return bool(self._header["groups_kept"])

    @property
    def slicings(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """By what rows are cut into slices, and the edges of each part that has edges."""
        return {
            by: {name: tuple(edges) for name, edges in parts.items()}
            for by, parts in self._header["slicings"].items()
        }
