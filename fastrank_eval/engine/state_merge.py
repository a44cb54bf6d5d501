"""Check that states agree, and merge them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval._lib.errors import MergeError
from fastrank_eval.engine.group_values import SavedGroups
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.state_arrays import (
    FieldValues,
    SavedSlices,
    states_from_arrays,
    states_to_arrays,
)
from fastrank_eval.engine.state_file import (
    ALL,
    GROUPS,
    PAIRS,
    SLICES,
    TOTALS,
    VALUES,
    ArrayKey,
    Rows,
    Saveable,
    field_values_key,
    paired_state_specs,
    state_specs,
)
from fastrank_eval.engine.totals import Sums
from fastrank_eval.stats.means import MeanState, PairedState
from fastrank_eval.stats.row_sums import RowSums

#: Version of the meaning of the numbers in a state. It grows when the sums of a measure change
#: their meaning, because old and new sums must not be added.
CONVENTIONS = 1
#: Conventions that may differ between states: which rows were read, and how.
RUN_CONVENTIONS = (
    "order",
    "spilled",
    "where",
    "limit",
    "confidence",
    "measures",
    "min_groups",
    "slices_left_out",
)
#: Entries of the header that must be equal, with their names in messages.
_EQUAL_ENTRIES = {
    "conventions_version": "versions of the conventions",
    "columns": "columns",
    "conventions": "conventions",
    "score_types": "types of the scores",
    "measures": "measures",
    "requested": "requested measures",
    "baseline": "baselines",
}

#: The slice index of the sums over all rows.
_ALL_ROWS = np.zeros(1, np.int64)


class Content(NamedTuple):
    """The content of a state, and its name in messages."""

    header: Mapping[str, Any]
    states: Mapping[ArrayKey, Arrays]
    shown: str


def check_agreement(one: Content, other: Content) -> None:
    """Refuse states with different columns, conventions, measures or models.

    Raises
    ------
    MergeError
        With the first difference and both values.
    """
    left, right = one.header["models"], other.header["models"]
    if set(left) != set(right):
        raise _refusal(one, other, "models", _difference(left, right))
    for name, title in _EQUAL_ENTRIES.items():
        left, right = one.header[name], other.header[name]
        if left == right:
            continue
        if name == "measures":
            details = _difference(left, right)
        elif isinstance(left, Mapping):
            key = next(key for key in (*left, *right) if left.get(key) != right.get(key))
            details = f"{key!r} is {left.get(key)!r} in the first and {right.get(key)!r} in "
            details += "the second"
        else:
            details = f"{left!r} in the first and {right!r} in the second"
        raise _refusal(one, other, title, details)
    _check_edges(one, other)
    if one.header["has_groups"] != other.header["has_groups"]:
        with_groups, without = (one, other) if one.header["has_groups"] else (other, one)
        raise MergeError(
            f"{one.shown} and {other.shown} cannot be merged, because {with_groups.shown} has keys "
            f"and values of every group, and {without.shown} has not: evaluate both with "
            "keep_groups=True (--keep-groups), or leave them out, State.without_groups() "
            "(--drop-groups)."
        )


def _check_edges(one: Content, other: Content) -> None:
    """Refuse slices with different edges, such as quantiles of two nights."""
    for by, parts in one.header["slicings"].items():
        for name, left in parts.items():
            right = other.header["slicings"][by].get(name)
            if left != right:
                edges = ",".join(left) or "0"
                raise MergeError(
                    f"{one.shown} and {other.shown} cannot be merged, because slices by '{by}' "
                    f"have other edges: {name} is cut at {', '.join(left) or 'nothing'} in the "
                    f"first and at {', '.join(right or ()) or 'nothing'} in the second. Quantiles "
                    "are those of the rows of each evaluation: give the same edges to both, as "
                    f"by='{name}:{edges}' (--by '{name}:{edges}'), and columns of one type."
                )


def _difference(left: Sequence[str], right: Sequence[str]) -> str:
    only_left = [name for name in left if name not in right]
    only_right = [name for name in right if name not in left]
    if not (only_left or only_right):
        return f"{', '.join(left)} stand in another order, {', '.join(right)}, in the second"
    details = [f"only the first has {', '.join(only_left)}"] if only_left else []
    details += [f"only the second has {', '.join(only_right)}"] if only_right else []
    return " and ".join(details)


def _refusal(one: Content, other: Content, title: str, details: str) -> MergeError:
    return MergeError(
        f"{one.shown} and {other.shown} cannot be merged, because their {title} differ: {details}; "
        "evaluate both in the same way."
    )


def check_repeated(every: Sequence[Content]) -> None:
    """Refuse states that contain the same rows.

    Raises
    ------
    MergeError
        With the sources of both.
    """
    by_fingerprint: dict[str, tuple[Content, Mapping[str, Any]]] = {}
    for one in every:
        for entry in one.header["provenance"]:
            # Evaluations without a row have equal fingerprints, and add nothing.
            if entry["rows"] and entry["fingerprint"] in by_fingerprint:
                first, earlier = by_fingerprint[entry["fingerprint"]]
                raise MergeError(
                    f"{first.shown} and {one.shown} hold the same {entry['rows']} rows in "
                    f"{entry['groups']} groups, read from {', '.join(earlier['sources'])} and "
                    f"{', '.join(entry['sources'])}: all their sums are equal, and they would "
                    "count twice; leave one out, or pass allow_repeated=True (--allow-repeated)."
                )
            by_fingerprint[entry["fingerprint"]] = one, entry


def check_crossing(every: Sequence[Content]) -> None:
    """Refuse groups with rows in two states, if the states keep keys.

    Raises
    ------
    MergeError
        With the first such group, and the two states.
    """
    if not every[0].header["has_groups"]:
        return
    each = [SavedGroups.from_arrays(one.states[ALL, "", VALUES]) for one in every]
    groups = each[0].concat(each[1:])
    owner = np.repeat(np.arange(len(each)), [len(one) for one in each])
    order = np.lexsort([owner, *groups.ranks()[::-1]])
    crossing = groups.equal_neighbours(order) & (owner[order[1:]] != owner[order[:-1]])
    positions = np.flatnonzero(crossing)
    if not len(positions):
        return
    first, second = order[positions[0]], order[positions[0] + 1]
    names = zip(groups.names, groups.keys, strict=True)
    key = ", ".join(f"{name}={column[int(first)].as_py()!r}" for name, column in names)
    others = f" and {len(positions) - 1:,} more groups" if len(positions) > 1 else ""
    raise MergeError(
        f"{every[owner[first]].shown} and {every[owner[second]].shown} both hold rows of the group "
        f"{key}{others}: a group that is cut counts as two, with other values. Cut logs by "
        f"{', '.join(groups.names)}, or evaluate these rows together; allow_crossing=True "
        "(--allow-crossing) counts each part as a group."
    )


def sum_contents(
    every: Sequence[Content], plan: Plan
) -> tuple[dict[ArrayKey, Arrays], dict[str, str | None]]:
    """Sum states; return arrays, and the kinds of the values of fields.

    Raises
    ------
    MergeError
        If values of a field, values of slices or keys have different types.
    """
    states: dict[ArrayKey, Arrays] = {}
    kinds: dict[str, str | None] = {}
    numbers: dict[str, list[np.ndarray]] = {}
    for field in every[0].header["fields"]:
        values, numbers[field] = _union_values(field, every)
        kinds[field] = values.kind
        states[field_values_key(field)] = values.to_arrays()
    _put_sums(states, ALL, every, [_ALL_ROWS for _ in every], plan)
    for by in every[0].header["slicings"]:
        where = Rows(by)
        slices_of_states = [SavedSlices.from_arrays(one.states[where, "", SLICES]) for one in every]
        slices, slice_indices = SavedSlices.union(slices_of_states, by)
        states[where, "", SLICES] = slices.to_arrays()
        _put_sums(states, where, every, slice_indices, plan)
    specs = state_specs(plan) | paired_state_specs(plan)
    summands: dict[tuple[Rows, str], dict[int, dict[str, Arrays]]] = {}
    for number, one in enumerate(every):
        for (where, score, name), parts in one.states.items():
            if name in specs:
                summands.setdefault((where, name), {}).setdefault(number, {})[score] = parts
    for (where, name), by_number in summands.items():
        field = specs[name].field
        new_numbers = [numbers[field][number] for number in by_number] if field else None
        total = _sum(list(by_number.values()), specs[name].kind, new_numbers)
        for score, parts in states_to_arrays(total, compared=bool(plan.rivals)).items():
            states[where, score, name] = parts
    if every[0].header["has_groups"]:
        states[ALL, "", VALUES] = _concat_groups(every).to_arrays()
    return states, kinds


def _put_sums(
    states: dict[ArrayKey, Arrays],
    where: Rows,
    every: Sequence[Content],
    slice_indices: Sequence[np.ndarray],
    plan: Plan,
) -> None:
    """Sum sums over groups, with the slices of each state in the new order."""
    counts = []
    for one, indices in zip(every, slice_indices, strict=True):
        sums = Sums.of(plan, one.states[where, "", TOTALS], [], {})
        counts.append(Sums.of(plan, sums.counts(indices), [], {}))
    for other in counts[1:]:
        counts[0].merge(other)
    states[where, "", TOTALS] = counts[0].counts(np.arange(len(slice_indices[0])))
    scores = plan.roles.scores
    rivals = [scores[model] for model in plan.rivals]
    kinds: tuple[tuple[str, type[MeanState] | type[PairedState], Sequence[str]], ...] = (
        (GROUPS, MeanState, scores),
        (PAIRS, PairedState, rivals),
    )
    for name, kind, models in kinds:
        for score in models:
            key = where, score, name
            each: list[Any] = [
                kind.from_arrays(one.states[key]).take(indices)
                for one, indices in zip(every, slice_indices, strict=True)
            ]
            for other in each[1:]:
                each[0].merge(other)
            states[key] = each[0].to_arrays()


def _concat_groups(every: Sequence[Content]) -> SavedGroups:
    """Merge the groups of all states; models as in the first state."""
    models = every[0].header["models"]
    first, *others = (
        SavedGroups.from_arrays(one.states[ALL, "", VALUES]).with_models(
            [one.header["models"].index(model) for model in models]
        )
        for one in every
    )
    return first.concat(others).sort_by_key()


def _sum(
    every: Sequence[Mapping[str, Arrays]],
    kind: type[Saveable],
    numbers: Sequence[np.ndarray] | None,
) -> Mapping[str, Saveable]:
    """Sum several states, by model."""
    by_state: list[Mapping[str, Saveable]]
    if numbers is None:
        by_state = [states_from_arrays(kind, of_models) for of_models in every]
    else:
        by_state = [
            {
                score: RowSums.from_arrays(part).with_keys(number)
                for score, part in of_models.items()
            }
            for of_models, number in zip(every, numbers, strict=True)
        ]
    total, *others = by_state
    for other in others:
        for score, state in total.items():
            state.merge(other[score])
    return total


def _union_values(field: str, every: Sequence[Content]) -> tuple[FieldValues, list[np.ndarray]]:
    """Unite the values of a field, and map those of each state to new numbers."""
    each = [
        FieldValues.from_arrays(one.header["fields"][field], one.states[field_values_key(field)])
        for one in every
    ]
    kinds = sorted({values.kind for values in each if values.kind is not None})
    if len(kinds) > 1:
        raise MergeError(
            f"states cannot be merged, because the type of the field {field!r} differs: "
            f"{' and '.join(kinds)}; evaluate the files together, or write them as Parquet with "
            "one type."
        )
    total = FieldValues(kinds[0] if kinds else None, ())
    return total.union(each)
