"""Join the groups of two results by their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import arrow_column, column_with_nulls, decoded, frozen
from fastrank_eval._lib.errors import ArgumentError, ColumnError, text_keys_hint
from fastrank_eval._lib.jit import kernel
from fastrank_eval.engine.group_values import GroupValues
from fastrank_eval.engine.plan import Plan
from fastrank_eval.groups.boundaries import Keys
from fastrank_eval.io.keys import KeyEncoder
from fastrank_eval.measures import Measure, measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GroupJoin", "GroupRecords", "group_ids", "group_records", "groups_of", "join_groups"]


_TURN = np.uint64(0x9E3779B97F4A7C15)
_FACTOR0, _FACTOR1 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)


def group_ids(keys: tuple[pa.Array, ...]) -> np.ndarray:
    """A number for each group that depends on its key alone.

    Equal values have equal numbers whatever integer type, string type, dictionary or view holds
    them; what the columns are called does not matter, their order does. Keys of one integer
    column never share a number; others do by chance, of U groups about U^2 / 2^65 pairs. Groups
    that share one are drawn together, which changes no expectation and, of two among many
    groups, no error to speak of.

    Parameters
    ----------
    keys : tuple of pyarrow.Array, each of length groups
        Columns that make up the key, without nulls.

    Returns
    -------
    ndarray of uint64, shape (groups,), read-only

    Raises
    ------
    ArgumentError
        If there is no column, or lengths differ.
    ColumnError
        If a key is null.
    """
    if not keys or len({len(key) for key in keys}) > 1:
        raise ArgumentError(
            f"keys of {[len(key) for key in keys]} groups name no group each; pass at least one "
            "column, all of one length."
        )
    ids = np.zeros(len(keys[0]), np.uint64)
    for place, key in enumerate(keys):
        if key.null_count:
            raise ColumnError(
                f"key column {place} is null for {key.null_count} of {len(key)} groups, the first "
                f"of them {key.is_null().index(True).as_py()}; groups need a key."
            )
        _fold_column(decoded(key), ids)
    return frozen(ids)


def _fold_column(key: pa.Array, ids: np.ndarray) -> None:
    kind = key.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        key = key.cast(pa.large_binary())
    elif pa.types.is_fixed_size_binary(kind):
        key = key.cast(pa.binary()).cast(pa.large_binary())
    if not pa.types.is_large_binary(key.type):
        words = KeyEncoder("key of groups", key.type).words(key)
        _fold_words(frozen(np.stack(words).view(np.uint64)), ids)
        return
    _, places, content = key.buffers()
    offsets = np.frombuffer(places, np.int64, len(key) + 1, key.offset * 8)
    filled = content is not None and content.size
    letters = np.frombuffer(content if filled else b"\0", np.uint8)
    _fold_letters(frozen(offsets), frozen(letters), ids)


@kernel
def _mixed(word):  # type: ignore[no-untyped-def]
    # The finaliser of splitmix64 (Steele, Lea & Flood 2014, doi:10.1145/2660193.2660195).
    word = (word ^ (word >> _S30)) * _FACTOR0
    word = (word ^ (word >> _S27)) * _FACTOR1
    return word ^ (word >> _S31)


@kernel
def _fold_words(words, ids):  # type: ignore[no-untyped-def]
    for i in range(ids.shape[0]):
        # A longer integer type adds words that only repeat the sign.
        last = words.shape[0] - 1
        while last > 0 and words[last, i] == np.uint64(np.int64(words[last - 1, i]) >> 63):
            last -= 1
        folded = ids[i]
        for w in range(last + 1):
            folded = _mixed((folded + _TURN) ^ words[w, i])
        ids[i] = folded


@kernel
def _fold_letters(offsets, letters, ids):  # type: ignore[no-untyped-def]
    for i in range(ids.shape[0]):
        folded = ids[i]
        lo = offsets[i]
        size = offsets[i + 1] - lo
        for at in range(0, size, 8):
            word = np.uint64(0)
            for k in range(min(size - at, 8)):
                word |= np.uint64(letters[lo + at + k]) << np.uint64(8 * k)
            folded = _mixed((folded + _TURN) ^ word)
        # Their number tells letters of value 0 from none, and one column from the next.
        ids[i] = _mixed((folded + _TURN) ^ np.uint64(size))


@dataclass(frozen=True)
class GroupRecords:
    """Values of every group.

    Parameters
    ----------
    names : tuple of str
        Key columns.
    keys : tuple of pyarrow.Array, each of length groups
    rows, positives : ndarray of int64, shape (groups,)
    scores : tuple of str
    measures : tuple of Measure
    values : mapping of (int, int) to ndarray of float64, shape (groups,)
        Of a model and a measure, by their places; NaN where undefined.
    weights : mapping of (int, int) to ndarray of float64, shape (groups,)
        What each group counts for; 1 where there is no entry, and a weight of 0 leaves the group
        out.
    """

    names: tuple[str, ...]
    keys: tuple[pa.Array, ...]
    rows: np.ndarray
    positives: np.ndarray
    scores: tuple[str, ...]
    measures: tuple[Measure, ...]
    values: Mapping[tuple[int, int], np.ndarray]
    weights: Mapping[tuple[int, int], np.ndarray]

    def used(self, model: int, m: int) -> np.ndarray:
        """What is added up of each group; NaN where the group is left out."""
        found = self.measures[m].to_summand(self.values[model, m])
        weights = self.weights.get((model, m))
        return found if weights is None else np.where(weights == 0, np.nan, found)

    def terms(self, model: int, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Weighted values and weights of each group, both 0 where the group is left out."""
        used = self.used(model, m)
        there = ~np.isnan(used)
        weights = self.weights.get((model, m))
        w = there.astype(np.float64) if weights is None else np.where(there, weights, 0.0)
        return np.where(there, used, 0.0) * w, w

    def table(self) -> pa.Table:
        """Keys, rows and positives of every group, and a column ``score.measure`` a value."""
        columns: dict[str, pa.Array] = {}

        def add(name: str, column: pa.Array) -> None:
            while name in columns:
                name += "_"
            columns[name] = column

        for name, key in zip(self.names, self.keys, strict=True):
            add(name, key)
        add("rows", arrow_column(self.rows))
        add("positives", arrow_column(self.positives))
        for model, score in enumerate(self.scores):
            for m, known in enumerate(self.measures):
                if not known.pooled:
                    numbers = np.ascontiguousarray(self.values[model, m])
                    add(f"{score}.{known}", column_with_nulls(numbers, np.isnan(numbers)))
        return pa.table(columns)


def group_records(
    plan: Plan, keys: Sequence[Keys], values: Sequence[GroupValues], schema: pa.Schema
) -> GroupRecords:
    """The groups of a run that kept their values.

    Parameters
    ----------
    plan : Plan
    keys : sequence of tuple of pyarrow.Array
        Keys of consecutive groups.
    values : sequence of GroupValues
        Their values, in the same order.
    schema : pyarrow.Schema
        Of the source, for the types of keys where there is no group.
    """
    models, many = len(plan.roles.scores), len(plan.measures)
    if values:
        joined = GroupValues.together(values)
        found = [
            pa.chunked_array([piece[k] for piece in keys]).combine_chunks()
            for k in range(len(plan.roles.group))
        ]
    else:
        none = np.empty(0, np.int64)
        joined = GroupValues(none, none, np.empty((models, many, 0)))
        empty = schema.empty_table()
        found = [decoded(empty.column(name).combine_chunks()) for name in plan.roles.group]
    return GroupRecords(
        plan.roles.group,
        tuple(found),
        joined.rows,
        joined.positives,
        plan.roles.scores,
        plan.measures,
        {(model, m): joined.values[model, m] for model in range(models) for m in range(many)},
        joined.weights,
    )


class ResultGroups(Protocol):
    """What `groups_of` reads of a result."""

    @property
    def per_group(self) -> pa.Table:
        """A row a group."""
        ...

    @property
    def group_weights(self) -> Mapping[tuple[int, int], NDArray[np.float64]] | None:
        """Weights of groups by model and measure."""
        ...

    @property
    def scores(self) -> tuple[str, ...]:
        """The models."""
        ...

    @property
    def measures(self) -> tuple[str, ...]:
        """Canonical texts of the measures."""
        ...


def groups_of(result: ResultGroups) -> GroupRecords:
    """Read the groups of a result that has their values.

    Raises
    ------
    ArgumentError
        If it did not.
    """
    weights, table = result.group_weights, result.per_group
    if weights is None:
        raise ArgumentError("this result has no groups that could be compared one by one.")
    measures = tuple(measure(text) for text in result.measures)
    of_groups = [m for m, known in enumerate(measures) if not known.pooled]
    columns = table.combine_chunks().columns
    keys = table.num_columns - 2 - len(result.scores) * len(of_groups)
    numbers = [np.asarray(column.to_numpy()) for column in columns[keys:]]
    values = iter(numbers[2:])
    return GroupRecords(
        tuple(table.column_names[:keys]),
        tuple(column.combine_chunks() for column in columns[:keys]),
        numbers[0],
        numbers[1],
        result.scores,
        measures,
        {
            (model, m): next(values).astype(np.float64, copy=False)
            for model in range(len(result.scores))
            for m in of_groups
        },
        weights,
    )


@dataclass(frozen=True, slots=True)
class GroupJoin:
    """Groups of two results.

    Parameters
    ----------
    groups : GroupRecords
        Of the base model, then those of the other result: first the groups of the baseline in
        their order, then those that only the other has.
    counts : dict of str to int
        Groups of ``"both"``, ``"only_base"``, ``"only_candidate"``, and those of both whose numbers
        of rows are not the same: ``"rows_differ"``.
    """

    groups: GroupRecords
    counts: dict[str, int]


def join_groups(
    base: GroupRecords,
    model: int,
    other: GroupRecords,
    measures: Sequence[str],
    names: Mapping[str, str],
) -> GroupJoin:
    """Put values of two results side by side.

    Parameters
    ----------
    base : GroupRecords
    model : int
        The place of the baseline in it.
    other : GroupRecords
    measures : sequence of str
        Those that both have.
    names : mapping of str to str
        What the models of the other are called.

    Raises
    ------
    ArgumentError
        If keys are not of the same types.
    """
    mine, theirs = ([decoded(key) for key in kept.keys] for kept in (base, other))
    kinds = [[str(key.type) for key in keys] for keys in (mine, theirs)]
    if kinds[0] != kinds[1]:
        raise ArgumentError(
            f"groups cannot be joined by their keys, which are {', '.join(kinds[0])} in one result "
            f"and {', '.join(kinds[1])} in the other; give both the same types."
            f"{text_keys_hint([*kinds[0], *kinds[1]])}"
        )
    at, only = _places(mine, theirs)
    both = at >= 0
    size = len(at) + len(only)
    from_base, from_other = np.full(size, -1), np.concatenate([at, only])
    from_base[: len(at)] = np.arange(len(at))
    values, weights = {}, {}
    known = [next(m for m in base.measures if str(m) == text) for text in measures]
    sides = [(base, model, from_base), *((other, k, from_other) for k in range(len(other.scores)))]
    taken: dict[tuple[int, int], np.ndarray] = {}
    for place, (kept, k, rows) in enumerate(sides):
        for m, one in enumerate(known):
            if one.pooled:
                continue
            old = k, kept.measures.index(one)
            values[place, m] = _spread(kept.values[old], rows, np.nan)
            if old in kept.weights:
                weight = kept.weights[old]
                shared = id(weight), id(rows)
                if shared not in taken:
                    taken[shared] = _spread(weight, rows, 0.0)
                weights[place, m] = taken[shared]
    groups = GroupRecords(
        base.names,
        tuple(
            pa.concat_arrays([a, b.take(arrow_column(only))])
            for a, b in zip(mine, theirs, strict=True)
        ),
        np.concatenate([base.rows, other.rows[only]]),
        np.concatenate([base.positives, other.positives[only]]),
        (base.scores[model], *names.values()),
        tuple(known),
        values,
        weights,
    )
    rows_differ = base.rows[both] != other.rows[at[both]]
    counts = {
        "both": int(np.count_nonzero(both)),
        "only_base": int(np.count_nonzero(~both)),
        "only_candidate": len(only),
        "rows_differ": int(np.count_nonzero(rows_differ)),
    }
    return GroupJoin(groups, counts)


def _spread(values: np.ndarray, rows: np.ndarray, otherwise: float) -> np.ndarray:
    """Values by group, `otherwise` where the row is -1."""
    found = np.full(len(rows), otherwise)
    there = rows >= 0
    found[there] = values[rows[there]]
    return found


def _places(mine: Sequence[pa.Array], theirs: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Where each of one's keys stands among the other's, -1 if nowhere; and the other's own."""
    groups = len(mine[0])
    codes = np.zeros(groups + len(theirs[0]), np.int64)
    for a, b in zip(mine, theirs, strict=True):
        column = pa.concat_arrays([a, b]).dictionary_encode()
        numbers = np.asarray(column.indices).astype(np.int64)
        _, codes = np.unique(codes * (len(column.dictionary) + 1) + numbers, return_inverse=True)
    known = np.full(int(codes.max(initial=-1)) + 1, -1)
    known[codes[groups:]] = np.arange(len(theirs[0]))
    seen = np.zeros(len(known), np.bool_)
    seen[codes[:groups]] = True
    return known[codes[:groups]], np.flatnonzero(~seen[codes[groups:]])
