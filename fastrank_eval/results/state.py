"""States of an evaluation: saved, loaded, merged, and turned into the result of a run at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastrank_eval._lib.arguments import at_least_one, check_fraction, check_options, shown, typed
from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.files import atomic_path
from fastrank_eval._lib.signals import on_forced_exit
from fastrank_eval._lib.version import __version__
from fastrank_eval.engine.group_values import SavedGroups
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_arrays import evaluation_of, places_in, plan_of
from fastrank_eval.engine.state_file import (
    ALL,
    VALUES,
    Place,
    StateHeader,
    check_header,
    fingerprint_of,
    malformed,
    read_state,
    sound,
    state_bytes,
    state_in,
    write_state,
)
from fastrank_eval.engine.state_merge import (
    Content,
    added_up,
    check_agreement,
    check_crossing,
    check_repeated,
)
from fastrank_eval.io.source import first_line
from fastrank_eval.results.evaluate import result_of
from fastrank_eval.results.result import Result

if TYPE_CHECKING:
    from fastrank_eval.analysis.comparison import Comparison

__all__ = ["State", "load_state"]

#: Sums that a message names at most.
_NAMED = 5

#: What a result may be asked for anew, and what it is called.
_CHOSEN = {"confidence": "confidence", "min_groups": "least groups of slices"}
#: What `as_one` is told of an evaluation.
_TOLD = {"sources", "order", "where", "limit"}


class State(StateHeader):
    """Everything that values are computed from: exact sums, scores, counts.

    States of different rows add up to the state of all of them. Where no group has rows in two of
    them, the result is that of one run over all rows, to the last bit.

    ``evaluate(..., keep_state=True).state`` and :func:`load_state` make them.

    Parameters
    ----------
    header : mapping
        What docs/STATES.md says a file's metadata hold.
    states : mapping
        Arrays by slice, model and name of the state.
    shown : str, optional
        What messages call it; by default it is told by its rows.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> def day(clicks, scores):
    ...     log = {"user": [1, 1, 2, 2], "click": clicks, "pctr": scores}
    ...     return fe.evaluate(log, group="user", label="click", score="pctr", measures="GAUC,AUC",
    ...                        keep_state=True).state
    >>> monday, tuesday = day([0, 1, 1, 0], [0.1, 0.4, 0.2, 0.3]), day([1, 0, 1, 0], [0.5] * 4)
    >>> both = monday.merge(tuesday)
    >>> both.rows, both.result().value("GAUC")
    (8, 0.5)
    """

    def __repr__(self) -> str:
        return (
            f"State of {self.rows} rows, {self.groups} groups, {len(self.seen)} evaluations: "
            f"{', '.join(self.measures)} of {', '.join(self.scores)}"
        )

    @typed
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the state to a file, whole or not at all; docs/STATES.md describes it.

        Parameters
        ----------
        path : str or path
        overwrite : bool
            Whether a file that exists may be replaced.

        Raises
        ------
        OutputError
            If the file exists already, or cannot be written.
        """
        with atomic_path(path, overwrite=overwrite) as part, on_forced_exit(part.unlink):
            write_state(part, self._header, self._states)

    def to_bytes(self) -> bytes:
        """The file that `save` would write, for a database or a message."""
        return state_bytes(self._header, self._states)

    @classmethod
    @typed
    def from_bytes(cls, content: bytes, *, name: str = "a state in bytes") -> State:
        """Read what `to_bytes` gave.

        Parameters
        ----------
        content : bytes or the like
        name : str
            What messages call it.

        Returns
        -------
        State

        Raises
        ------
        SourceError
            If it is no saved state, is damaged, or is of a newer format.

        Examples
        --------
        >>> import fastrank_eval as fe
        >>> state = fe.evaluate(
        ...     {"user": [1, 1], "click": [1, 0], "score": [0.9, 0.1]},
        ...     group="user", label="click", score="score", measures="GAUC", keep_state=True,
        ... ).state
        >>> fe.State.from_bytes(state.to_bytes()).result().value("GAUC")
        1.0
        """
        return _checked(*state_in(bytes(content), name), name)

    @typed
    def merge(
        self, *others: State, allow_repeated: bool = False, allow_crossing: bool = False
    ) -> State:
        """The state of the rows of this state and of others; none of them changes.

        Parameters
        ----------
        *others : State
            In any order: no bit depends on it.
        allow_repeated : bool
            Whether rows of the same sums may be added twice.
        allow_crossing : bool
            Whether a group may have rows in two states; each part counts as a group of its own. It
            is seen only where states keep their groups.

        Returns
        -------
        State

        Raises
        ------
        MergeError
            If columns, conventions, their version, measures, models or edges of slices differ, if
            two states hold the same rows, or if a group is seen to have rows in both.
        """
        for other in others:
            with sound(f"{self.shown} or {other.shown}"):
                check_agreement(self._content, other._content)
        every = [self._content, *(other._content for other in others)]
        if not allow_repeated:
            check_repeated(every)
        with sound(" or ".join(dict.fromkeys(one.shown for one in every))):
            if not allow_crossing:
                check_crossing(every)
            states, kinds = added_up(every, plan_of(self._header))
            agreed = {name: {one.header[name] for one in every} for name in _CHOSEN}
            header = {
                **self._header,
                "fields": kinds,
                **{name: one.pop() if len(one) == 1 else None for name, one in agreed.items()},
                "seen": [seen for one in every for seen in one.header["seen"]],
            }
            return State(header, states)

    @typed
    def as_one(self, told: Mapping[str, Any], group: Sequence[str] | None = None) -> State:
        """The same, as if one evaluation had seen all its rows.

        Parameters
        ----------
        told : mapping of str to object
            What `Seen` says of it: sources, order, where, limit.
        group : sequence of str, optional
            What the key columns are called.
        """
        if set(told) != _TOLD:
            raise ArgumentError(
                f"told: must have the keys {', '.join(sorted(_TOLD))}, got {shown(list(told))}; "
                "give all of them."
            )
        header = dict(self._header)
        counts = {
            name: sum(getattr(one, name) for one in self.seen)
            for name in ("rows", "positives", "groups")
        }
        print_of = fingerprint_of(header["measures"], self._states)
        header["seen"] = [{**told, **counts, "writer": __version__, "fingerprint": print_of}]
        if group is not None:
            header["columns"] = {**header["columns"], "group": list(group)}
        return State(header, self._states)

    @typed
    def check_mergeable(self, other: State) -> None:
        """Refuse a state that rests on other columns, conventions, measures, models or edges.

        Parameters
        ----------
        other : State

        Raises
        ------
        MergeError
            Naming the first difference with both values.
        """
        with sound(f"{self.shown} or {other.shown}"):
            check_agreement(self._content, other._content)

    @property
    def _content(self) -> Content:
        return Content(self._header, self._states, self.shown)

    def without_groups(self) -> State:
        """The same without keys and values of groups: a smaller file, and no per-group values."""
        states = {place: parts for place, parts in self._states.items() if place[2] != VALUES}
        return State({**self._header, "has_groups": False}, states, self.shown)

    @typed
    def without_slices(self, *by: str) -> State:
        """The same without the slices by some, or without any.

        Parameters
        ----------
        *by : str
            Of `slicings`; by default all of them.

        Returns
        -------
        State

        Raises
        ------
        ArgumentError
            If there are no slices by one of them.
        """
        known = self._header["slicings"]
        for name in by:
            if name not in known:
                raise ArgumentError(
                    f"{self.shown} has no slices by {name!r}, only by "
                    f"{', '.join(map(repr, known)) or 'nothing'}."
                )
        left = {name: edges for name, edges in known.items() if by and name not in by}
        gone = set(known) - set(left)
        states = {place: parts for place, parts in self._states.items() if place[0].by not in gone}
        told = {name: value for name, value in self._header["conventions"].items() if name != "by"}
        if left:
            told["by"] = list(left)
        return State({**self._header, "slicings": left, "conventions": told}, states, self.shown)

    @typed
    def result(self, *, confidence: float | None = None, min_groups: int | None = None) -> Result:
        """What one evaluation of all rows returns; values per group only if they were kept.

        Groups stand in the order of their keys.

        Parameters
        ----------
        confidence : float, optional
            In ]0, 1[, of the intervals; by default that of the evaluation.
        min_groups : int, optional
            Slices of fewer groups are left out; by default that of the evaluation.

        Returns
        -------
        Result

        Raises
        ------
        ArgumentError
            If states of different confidence or `min_groups` were merged and none is given.
        """
        done = self.evaluation(confidence=confidence, min_groups=min_groups)
        with sound(self.shown):
            return result_of(done, state=self)

    @typed
    def evaluation(
        self, *, confidence: float | None = None, min_groups: int | None = None
    ) -> Evaluation:
        """The evaluation of all rows: what `result` and comparisons read, as after a run.

        Parameters
        ----------
        confidence, min_groups
            As for `result`.

        Returns
        -------
        Evaluation
            Its plan tells slices and the baseline, its tally every sum.
        """
        share = self._in_force("confidence", confidence, "0.95")
        fewest = self._in_force("min_groups", min_groups, "1")
        share, fewest = check_fraction("confidence", share), at_least_one("min_groups", fewest, 1)
        with sound(self.shown):
            return evaluation_of(self._header, self._states, self.seen, share, fewest)

    @typed
    def compare(
        self, other: State | None = None, *, baseline: str | None = None, **choices: Any
    ) -> Comparison:
        """Tell which models are better than a baseline, as one comparison of all rows would.

        The lines have the bits of :func:`fastrank_eval.compare`, slices included, where no group
        has rows in two of the states that were merged. ``AUC(se='clustered')`` of a file without
        ``matched`` groups (docs/STATES.md), as older versions wrote it, or merged with one, has a
        difference without an error.

        Parameters
        ----------
        other : State, optional
            A state whose models are compared with the baseline, joined by the keys of groups, as
            `Result.compare` does; both must have kept them. By default the other models of this
            state.
        baseline : str, optional
            Score column of this state; by default the baseline of the evaluation, or the only
            model where `other` is given. Another than that of the evaluation is compared by the
            values of groups, if they were kept; slices have no errors then.
        **choices
            `test`, `correction`, `replicates`, `seed` and `threads`, as
            :func:`fastrank_eval.compare` takes them; `confidence` and `min_groups`, by default
            those of the evaluation. Tests that read values of groups need a state that kept them.

        Returns
        -------
        Comparison

        Raises
        ------
        ArgumentError
            If the state has no baseline, or lacks values of groups that are needed.

        Examples
        --------
        >>> import fastrank_eval as fe
        >>> log = {"user": [1, 1, 2, 2, 3, 3], "click": [0, 1, 1, 0, 1, 0],
        ...        "old": [0.1, 0.4, 0.2, 0.3, 0.5, 0.6], "new": [0.1, 0.4, 0.4, 0.3, 0.5, 0.6]}
        >>> state = fe.evaluate(log, group="user", label="click", score=["old", "new"],
        ...                     measures="GAUC", baseline="old", keep_state=True).state
        >>> round(state.compare().find("GAUC").delta, 4)
        0.3333
        """
        from fastrank_eval.analysis.compare import compare_states

        check_options("compare", choices, compare_states)
        with sound(" or ".join(one.shown for one in (self, other) if one is not None)):
            return compare_states(self, other, baseline, **choices)

    def values_of_groups(self) -> SavedGroups | None:
        """Keys and values of every group; None if they were not kept."""
        with sound(self.shown):
            return SavedGroups.loaded(self._states[ALL, "", VALUES]) if self.has_groups else None

    def _in_force(self, name: str, given: Any, example: str) -> Any:
        chosen = self._header[name] if given is None else given
        if chosen is None:
            raise ArgumentError(
                f"states of different {_CHOSEN[name]} were merged: say which shall be in force, "
                f"{name}={example} (--{name.replace('_', '-')} {example})."
            )
        return chosen


@typed
def load_state(path: str | os.PathLike[str]) -> State:
    """Read the state that `State.save` or ``--save-state`` has written.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    State

    Raises
    ------
    SourceError
        If the file is missing, is no saved state, is damaged, or is of a newer format.
    """
    return _checked(*read_state(path), os.fspath(path))


def _checked(header: dict[str, Any], states: dict[Place, Arrays], source: str) -> State:
    """The state, if all that its header names is there and can be read."""
    told = ""
    try:
        check_header(header)
        state = State(header, states, repr(source))
        missing = []
        for place, read in places_in(header, states):
            where, score, name = place
            told = name + (f" of {score}" if score else "")
            if where != ALL:
                told += f" in {shown(where.label or where.by)}"
            if place in states:
                read(states[place])
            else:
                missing.append(told)
    except Exception as error:
        raise malformed(repr(source), f"{told}: {first_line(error)}" if told else error) from error
    if missing:
        raise malformed(repr(source), f"it lacks the sums {', '.join(missing[:_NAMED])}")
    return state
