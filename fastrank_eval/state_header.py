"""What a state tells of the rows and the evaluations whose sums it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastrank_eval.saved_parts import Parts
from fastrank_eval.state_files import Place
from fastrank_eval.state_places import ALL, TOTALS, totals_in
from fastrank_eval.typed_arguments import is_of, shown

__all__ = ["Seen", "StateHeader", "check_header"]

#: What a header must have, as annotations; what else it has is left alone.
_HEADER = {
    "conventions_version": "int",
    "conventions": "Mapping[str, Any]",
    "columns": "Mapping[str, Any]",
    "score_types": "Mapping[str, str]",
    "measures": "list[str]",
    "asked": "Mapping[str, str]",
    "models": "list[str]",
    "baseline": "str | None",
    "slicings": "Mapping[str, Mapping[str, list[str]]]",
    "groups_kept": "bool",
    "fields": "Mapping[str, str | None]",
    "confidence": "float | None",
    "min_groups": "int | None",
    "seen": "list[Mapping[str, Any]]",
    "writer": "str",
}
#: The same of entries of the header.
_COLUMNS = {"group": "list[str]", "label": "str", "weight": "str | None"}
_CONVENTIONS = {"undefined": "str", "groups": "str", "weight": "str | None"}
_SEEN = {
    "sources": "list[str]",
    "order": "str",
    "where": "str | None",
    "limit": "int | None",
    "rows": "int",
    "positives": "int",
    "groups": "int",
    "writer": "str",
    "fingerprint": "str",
}


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


def check_header(header: Mapping[str, Any]) -> None:
    """Refuse a header that lacks an entry, or has one of another type.

    Raises
    ------
    ValueError
        Naming the entry.
    """
    _check(header, _HEADER, "")
    _check(header["columns"], _COLUMNS, "columns ")
    _check(header["conventions"], _CONVENTIONS, "conventions ")
    for entry in header["seen"]:
        _check(entry, _SEEN, "seen ")
        if set(entry) != set(_SEEN):
            raise ValueError(f"seen has the entries {shown(list(entry))}")
    models = header["models"]
    if not models or len(set(models)) < len(models) or not header["measures"]:
        raise ValueError("models or measures are empty, or models are there twice")
    if header["baseline"] not in (None, *models):
        raise ValueError(f"baseline {header['baseline']!r} is none of the models")


def _check(entries: Mapping[str, Any], wanted: Mapping[str, str], of: str) -> None:
    for name, kind in wanted.items():
        if name not in entries:
            raise ValueError(f"{of}{name} is missing in its header")
        if not is_of(entries[name], kind):
            raise ValueError(f"{of}{name} in its header is {shown(entries[name])}, no {kind}")


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
        self._groups, self._rows = totals_in(self._states[ALL, "", TOTALS])[0, :2].tolist()
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
