"""Save, load, merge and evaluate states of evaluations."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arguments import (
    check_options,
    checked,
    column_name,
    integer,
    number,
    require_baseline,
    typed,
)
from fastrank_eval._lib.arrow import values_type
from fastrank_eval._lib.errors import ArgumentError, clean_address
from fastrank_eval._lib.files import atomic_path
from fastrank_eval.engine.group_table import LARGEST, GroupTable, entry_of_whole
from fastrank_eval.engine.records import ROW_COUNTS, add_counts, plain_value, refuse_if_none_left
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_arrays import (
    ALL,
    BY_BUCKET,
    VALUES,
    StateArrays,
    bin_edges,
    fields_of,
)
from fastrank_eval.engine.state_file import (
    CONVENTIONS,
    RUN_CONVENTIONS,
    Content,
    Provenance,
    check_agreement,
    check_crossing,
    check_repeated,
    evaluation_of,
    fingerprint_of,
    groups_of,
    merge_contents,
    read_state,
    read_state_bytes,
    state_bytes,
    wrap_errors,
)
from fastrank_eval.io.columns import Roles
from fastrank_eval.results.result import Result, result_of

if TYPE_CHECKING:
    from fastrank_eval.results.comparison import Comparison

_OPTIONS = ("confidence", "min_groups")  # those that a result may change


class State:
    """The data from which values are computed: exact sums, scores, counts.

    States of different rows merge to that of all rows. If no group and no cluster has rows in two
    of them, the result is that of one run over all rows, to the last bit.

    ``evaluate(..., keep="state").state`` and :func:`load_state` return states.

    Parameters
    ----------
    header : mapping
        The metadata of a file, as docs/reference/states.md describes them.
    states : mapping
        The arrays of `Totals`, and of keys and values of groups, if they are kept.
    shown : str, optional
        The name of the state in messages; by default its number of rows.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> def day(clicks, scores):
    ...     log = {"user": [1, 1, 2, 2], "click": clicks, "pctr": scores}
    ...     return fe.evaluate(log, group="user", label="click", score="pctr", measures="GAUC,AUC",
    ...                        keep="state").state
    >>> monday, tuesday = day([0, 1, 1, 0], [0.1, 0.4, 0.2, 0.3]), day([1, 0, 1, 0], [0.5] * 4)
    >>> both = monday.merge(tuesday)
    >>> both.rows, both.result().value("GAUC")
    (8, 0.5)
    """

    def __init__(
        self, header: Mapping[str, Any], states: StateArrays, shown: str | None = None
    ) -> None:
        self._header = dict(header)
        self._states = dict(sorted(states.items()))
        self.provenance = tuple(
            Provenance(**{**entry, "sources": tuple(entry["sources"])})
            for entry in header["provenance"]
        )
        self.display_name = shown or f"a state of {self.rows} rows"
        self._content = Content(self._header, self._states, self.display_name)

    @property
    def scores(self) -> tuple[str, ...]:
        """Score columns: the models."""
        return tuple(self._header["models"])

    @property
    def measures(self) -> tuple[str, ...]:
        """Canonical texts of the measures."""
        return tuple(self._header["measures"])

    @property
    def names(self) -> dict[str, str]:
        """The names that reports show, by canonical text of the measure."""
        return dict(zip(self.measures, self.measures, strict=True)) | self._header.get("names", {})

    @property
    def requested(self) -> dict[str, str]:
        """The computed measures of names that a profile gave other options."""
        return dict(self._header["requested"])

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(one.rows for one in self.provenance)

    @property
    def groups(self) -> int:
        """The number of groups; one with rows in two merged states counts twice."""
        return sum(one.groups for one in self.provenance)

    @property
    def baseline(self) -> str | None:
        """The model that the others were compared with, or None."""
        name: str | None = self._header["baseline"]
        return name

    @property
    def has_groups(self) -> bool:
        """Whether the state has keys and values of every group."""
        return bool(self._header["has_groups"])

    @property
    def has_clusters(self) -> bool:
        """Whether the state has sums by bucket of clusters, for merged states."""
        return BY_BUCKET in self._header

    @property
    def slicings(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """The slicings, and the edges of each of their parts that has edges."""
        return {
            by: {name: tuple(edges) for name, edges in parts.items()}
            for by, parts in self._header["slicings"].items()
        }

    def __repr__(self) -> str:
        return (
            f"State of {self.rows} rows, {self.groups} groups, {len(self.provenance)} evaluations: "
            f"{', '.join(self.names.values())} of {', '.join(self.scores)}"
        )

    @typed
    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the state to a file, which docs/reference/states.md describes.

        An error or a signal leaves no unfinished file.

        Parameters
        ----------
        path : str or path
        overwrite : bool
            Replace a file that exists.

        Raises
        ------
        OutputError
            If the file exists already, or cannot be written.
        """
        with atomic_path(path, overwrite=overwrite) as part:
            part.write_bytes(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Write the content of a state file to bytes, as `save` does."""
        return state_bytes(self._header, self._states)

    @classmethod
    @typed
    def from_bytes(cls, content: bytes, *, name: str = "a state in bytes") -> State:
        """Read the bytes of `to_bytes`.

        Parameters
        ----------
        content : bytes-like
        name : str
            The name of the state in messages.

        Returns
        -------
        State

        Raises
        ------
        SourceError
            If the content is not a saved state, is damaged, or has a newer format.

        Examples
        --------
        >>> import fastrank_eval as fe
        >>> state = fe.evaluate(
        ...     {"user": [1, 1], "click": [1, 0], "score": [0.9, 0.1]},
        ...     group="user", label="click", score="score", measures="GAUC", keep="state",
        ... ).state
        >>> fe.State.from_bytes(state.to_bytes()).result().value("GAUC")
        1.0
        """
        return _check(*read_state_bytes(bytes(content), name), name)

    @typed
    def merge(
        self, *others: State, allow_repeated: bool = False, allow_crossing: bool = False
    ) -> State:
        """Merge states of different rows into a new state.

        Parameters
        ----------
        *others : State
            In any order. No bit depends on it.
        allow_repeated : bool
            Merge states with equal sums, which may have the same rows.
        allow_crossing : bool
            Merge states that share a group or a cluster; each part counts as one of its own. Only
            states that keep groups are checked.

        Returns
        -------
        State

        Raises
        ------
        MergeError
            If columns, conventions, their version, measures, models or edges of slices differ, if
            two states have the same rows, or if both keep groups and share one, or a cluster.
        """
        for other in others:
            check_agreement(self._content, other._content)
        every = [self._content, *(other._content for other in others)]
        if not allow_repeated:
            check_repeated(every)
        if not allow_crossing:
            check_crossing(every)
        whole = self.has_groups and not allow_crossing
        arrays, entries = merge_contents(every, whole=whole)
        options = {name: {one.header[name] for one in every} for name in _OPTIONS}
        header = {
            **{k: entry for k, entry in self._header.items() if k not in (LARGEST, BY_BUCKET)},
            **entries,
            **{name: one.pop() if len(one) == 1 else None for name, one in options.items()},
            "provenance": [entry for one in every for entry in one.header["provenance"]],
        }
        header |= add_counts(one.header for one in every)
        return State(header, arrays)

    @typed
    def as_one(
        self,
        group: Sequence[str] | None = None,
        cluster: Sequence[str] = (),
        like: State | None = None,
        **provenance: Any,
    ) -> State:
        """Replace the provenance by that of one evaluation of all rows.

        Parameters
        ----------
        group, cluster : sequence of str, optional
            New names of the key columns.
        like : State, optional
            A state whose names of measures reports show.
        **provenance
            `sources`, `order`, `where` and `limit` of `Provenance`.
        """
        keys = ("sources", "order", "where", "limit")
        check_options("as_one", provenance, keys, own=State.as_one)
        header = dict(self._header)
        header |= entry_of_whole(header, group and (*group, *cluster))
        counts = {
            name: sum(getattr(one, name) for one in self.provenance)
            for name in ("rows", "positives", "groups")
        }
        fingerprint = fingerprint_of(header["measures"], self._states)
        header["provenance"] = [
            {**provenance, **counts, "writer": __version__, "fingerprint": fingerprint}
        ]
        if group is not None:
            header["columns"] = {**header["columns"], "group": list(group)}
        if cluster:
            header["columns"] = {**header["columns"], "cluster": list(cluster)}
            header["conventions"] = {**header["conventions"], "cluster": list(cluster)}
        if like is not None and "names" in like._header:
            header["names"] = like._header["names"]
        return State(header, self._states)

    @typed
    def check_mergeable(self, other: State) -> None:
        """Refuse a state that cannot be merged with this one.

        Parameters
        ----------
        other : State

        Raises
        ------
        MergeError
            With the first difference and both values.
        """
        check_agreement(self._content, other._content)

    def without_groups(self) -> State:
        """Remove the keys and values of groups."""
        states = {key: parts for key, parts in self._states.items() if key[2] != VALUES}
        header = _without_key({**self._header, "has_groups": False})
        return State(header, states, self.display_name)

    @typed
    def without_slices(self, *by: str) -> State:
        """Remove some slicings, or all of them.

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
            If the state has no such slicing.
        """
        slicings = self._header["slicings"]
        for name in by:
            if name not in slicings:
                raise ArgumentError(
                    f"{self.display_name} has no slices by {name!r}, only by "
                    f"{', '.join(map(repr, slicings)) or 'nothing'}."
                )
        rest = {name: edges for name, edges in slicings.items() if by and name not in by}
        removed = set(slicings) - set(rest)
        states = {key: parts for key, parts in self._states.items() if key[0].by not in removed}
        conventions = dict(self._header["conventions"])
        conventions.pop("by", None)
        if rest:
            conventions["by"] = list(rest)
        header = {**self._header, "slicings": rest, "conventions": conventions}
        return State(header, states, self.display_name)

    @typed
    def result(self, *, confidence: float | None = None, min_groups: int | None = None) -> Result:
        """Compute the result that one evaluation of all rows returns.

        It has values per group only if the state keeps groups, in the order of their keys.

        Parameters
        ----------
        confidence : float, optional
            Confidence of the intervals, in ]0, 1[; by default that of the evaluation.
        min_groups : int, optional
            Leave out slices with fewer groups; by default as in the evaluation.

        Returns
        -------
        Result

        Raises
        ------
        ArgumentError
            If merged states have different values of an argument that is not given.
        """
        evaluation = self.evaluation(confidence=confidence, min_groups=min_groups)
        refuse_if_none_left(self._header, evaluation.meta.rows)
        return result_of(evaluation, state=self)

    @typed
    def evaluation(
        self, *, confidence: float | None = None, min_groups: int | None = None
    ) -> Evaluation:
        """Rebuild the evaluation of all rows, which results and comparisons read.

        Parameters
        ----------
        confidence, min_groups
            As for `result`.

        Returns
        -------
        Evaluation
            With the plan, which has slices and baseline, and the totals.
        """
        confidence = self._option("confidence", confidence, "0.95")
        min_groups = self._option("min_groups", min_groups, "1")
        share = checked("confidence", confidence, number(above=0, below=1))
        fewest = checked("min_groups", min_groups, integer(1))
        if fewest > 1 and not self._header["columns"]["group"]:
            raise ArgumentError(
                f"min_groups: must be 1 for a state without groups, got {fewest}; evaluate the "
                "rows with group=... (--group)."
            )
        return evaluation_of(self._content, self.provenance, share, fewest)

    @typed
    def compare(
        self,
        other: State | None = None,
        *,
        baseline: str | None = None,
        min_groups: int | None = None,
        **choices: Any,
    ) -> Comparison:
        """Compare models with a baseline, as one comparison of all rows does.

        The rows have the bits of :func:`fastrank_eval.compare`, slices included, if no group and no
        cluster has rows in two of the merged states. ``AUC(se='clustered')`` has a difference
        without an error if a merged file has no ``matched`` groups (docs/reference/states.md).

        Parameters
        ----------
        other : State, optional
            A state whose models are compared with the baseline. Groups are joined by key, as in
            `Result.compare`; both states must keep groups. By default the other models of this
            state.
        baseline : str, optional
            Score column of this state. By default the baseline of the evaluation, or the only
            model if `other` is given. Another baseline needs a state that keeps groups; slices
            have no errors then.
        min_groups : int, optional
            As for `result`.
        **choices
            `test`, `correction`, `replicates`, `seed` and `threads`, as
            :func:`fastrank_eval.compare` takes them; `confidence`, by default that of the
            evaluation. Tests of values of groups need a state that keeps groups.

        Returns
        -------
        Comparison

        Raises
        ------
        ArgumentError
            If the state has no baseline, or lacks the values of groups that a test needs.

        Examples
        --------
        >>> import fastrank_eval as fe
        >>> log = {"user": [1, 1, 2, 2, 3, 3], "click": [0, 1, 1, 0, 1, 0],
        ...        "old": [0.1, 0.4, 0.2, 0.3, 0.5, 0.6], "new": [0.1, 0.4, 0.4, 0.3, 0.5, 0.6]}
        >>> state = fe.evaluate(log, group="user", label="click", score=["old", "new"],
        ...                     measures="GAUC", baseline="old", keep="state").state
        >>> round(state.compare().find("GAUC").delta, 4)
        0.3333
        """
        from fastrank_eval.results.compare_tests import given_choices, require_groups

        given_choices(choices, State)
        base = self.baseline if baseline is None else column_name("baseline", baseline)
        if baseline is not None:
            require_baseline(str(base), self.scores)
        if other is not None or base is None or base != self.baseline:
            for each in (self,) if other is None else (self, other):
                groups = each.values_of_groups()
                require_groups(groups, each.display_name, each.baseline, alone=other is None)
        result = self.result(confidence=choices.get("confidence"), min_groups=min_groups)
        theirs = None
        if other is not None:
            theirs = other.result(confidence=result.meta.confidence, min_groups=min_groups)
        return result.compare(theirs, baseline=base, **choices)

    def values_of_groups(self) -> GroupTable | None:
        """Return keys and values of every group; None if they are not kept."""
        return groups_of(self._content) if self.has_groups else None

    def _option(self, name: str, value: Any, example: str) -> Any:
        value = self._header[name] if value is None else value
        if value is None:
            raise ArgumentError(
                f"{name}: must be given, because the merged states have different ones, got None; "
                f"pass {name}={example} (--{name.replace('_', '-')} {example})."
            )
        return value


@typed
def load_state(path: str | os.PathLike[str]) -> State:
    """Read a file of `State.save` or ``--save-state``.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    State

    Raises
    ------
    SourceError
        If the file is missing, is not a saved state, is damaged, or has a newer format.
    """
    return _check(*read_state(path), os.fspath(path))


def _check(header: dict[str, Any], states: StateArrays, source: str) -> State:
    """Build the state, if all its arrays exist and can be read."""
    with wrap_errors(repr(source)):
        state = State(header, states, repr(source))
        state._content.check()
    return state


def state_of_run(evaluation: Evaluation, source: object, keep_groups: bool = False) -> State:
    """Build the state of a run.

    Parameters
    ----------
    evaluation : Evaluation
    source : object
        As `evaluate` takes it.
    keep_groups : bool
        Keep keys and values of every group; needs ``plan.per_group``.
    """
    plan, totals, conventions = evaluation.plan, evaluation.totals, evaluation.meta.conventions
    roles, overall = plan.roles, totals.overall
    states = totals.to_arrays()
    measures = [str(m) for m in plan.measures]
    provenance = {
        "sources": _source_names(source),
        "order": conventions["order"],
        "where": conventions.get("where"),
        "limit": conventions.get("limit"),
        "rows": overall.rows(),
        "positives": overall.positives(),
        "groups": overall.groups(),
        "writer": __version__,
        "fingerprint": fingerprint_of(measures, states),
    }
    if keep_groups:
        groups = GroupTable.of_run(plan, evaluation.groups, evaluation.schema)
        states[ALL, "", VALUES] = groups.sort_by_key().to_arrays()
    names = {str(m): m.alias for m in plan.measures if m.alias}
    header = {
        "conventions_version": CONVENTIONS,
        "conventions": {name: v for name, v in conventions.items() if name not in RUN_CONVENTIONS},
        "columns": {
            "group": roles.group,
            **({"cluster": roles.cluster} if roles.cluster else {}),
            "label": roles.label,
            "weight": roles.weight,
            "item": roles.item,
            "subtopics": roles.subtopics,
            "group weights": roles.group_weights,
            "fields": [field.name for field in fields_of(plan)],
        },
        "score_types": {
            name: _score_type(evaluation.schema.field(name).type, roles) for name in roles.scores
        },
        "measures": measures,
        "requested": evaluation.meta.requested,
        **({"names": names} if names else {}),
        **{name: conventions[name] for name in ROW_COUNTS if name in conventions},
        **({LARGEST: totals.largest.plain(evaluation.schema)} if totals.largest else {}),
        "models": roles.scores,
        "baseline": None if plan.baseline is None else roles.scores[plan.baseline],
        "slicings": {str(slicing.spec): bin_edges(slicing) for slicing in plan.slice_encoders},
        "has_groups": keep_groups,
        **({BY_BUCKET: roles.keys[: roles.outer]} if plan.buckets else {}),
        "confidence": plan.confidence,
        "min_groups": plan.min_groups,
        "provenance": [provenance],
    }
    return State(json.loads(json.dumps(plain_value(_without_key(header)))), states)


def _without_key(header: dict[str, Any]) -> dict[str, Any]:
    """Leave out the key of the largest group where buckets stand for keys."""
    if header["has_groups"] or not (BY_BUCKET in header and LARGEST in header):
        return header
    return {**header, LARGEST: {**header[LARGEST], "key": None}}


def _source_names(source: object) -> list[str]:
    """Return paths of a source without credentials, or its type."""
    several: Iterable[object] = source if isinstance(source, list | tuple) else [source]
    return [
        clean_address(os.fsdecode(one))
        if isinstance(one, str | os.PathLike)
        else type(one).__qualname__
        for one in several
    ]


def _score_type(kind: pa.DataType, roles: Roles) -> str:
    """Return the type in which scores are compared."""
    kind = values_type(kind)
    is_integer = pa.types.is_integer(kind)
    is_narrow = is_integer and kind.bit_width <= 16
    if roles.single_precision or is_narrow or kind in (pa.float16(), pa.float32()):
        return "float32"
    # 64-bit integers keep their order; if a measure reads scores as numbers, they keep their value.
    if kind == pa.float64() or (
        is_integer and (kind.bit_width == 32 or roles.score_kind != "order")
    ):
        return "float64"
    return str(kind)
