"""Which states may be added up, and their sums."""

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
    loaded_of_models,
    saved_of_models,
)
from fastrank_eval.engine.state_file import (
    ALL,
    GROUPS,
    PAIRS,
    SLICES,
    TOTALS,
    VALUES,
    Place,
    Rows,
    Saveable,
    paired_state_specs,
    state_specs,
    values_of,
)
from fastrank_eval.engine.totals import Sums
from fastrank_eval.stats.keyed_sums import KeyedSums
from fastrank_eval.stats.means import MeanState
from fastrank_eval.stats.paired import PairedState

#: What the numbers of a state mean. It grows when the sums of a measure change their meaning, so
#: that those of before and after must not be added.
CONVENTIONS = 1
#: Conventions that may differ between states: which rows were read, and in which way.
OF_A_RUN = (
    "order",
    "spilled",
    "where",
    "limit",
    "confidence",
    "measures",
    "min_groups",
    "slices_left_out",
)
#: What is never merged where it differs, and what it is called.
_AGREED = {
    "conventions_version": "versions of the conventions",
    "columns": "columns",
    "conventions": "conventions",
    "score_types": "types of the scores",
    "measures": "measures",
    "requested": "measures asked for",
    "baseline": "baselines",
}


#: The only line of the sums over all rows.
_ONE = np.zeros(1, np.int64)


class Content(NamedTuple):
    """What is in a state, and what messages call it."""

    header: Mapping[str, Any]
    states: Mapping[Place, Arrays]
    shown: str


def check_agreement(one: Content, other: Content) -> None:
    """Refuse states that rest on other columns, conventions, measures or models.

    Raises
    ------
    MergeError
        Naming the first difference with both values.
    """
    mine, theirs = one.header["models"], other.header["models"]
    if set(mine) != set(theirs):
        raise _refusal(one, other, "models", _difference(mine, theirs))
    for name, called in _AGREED.items():
        mine, theirs = one.header[name], other.header[name]
        if mine == theirs:
            continue
        if name == "measures":
            told = _difference(mine, theirs)
        elif isinstance(mine, Mapping):
            first = next(key for key in (*mine, *theirs) if mine.get(key) != theirs.get(key))
            told = f"{first!r} is {mine.get(first)!r} in the first and {theirs.get(first)!r} in "
            told += "the second"
        else:
            told = f"{mine!r} in the first and {theirs!r} in the second"
        raise _refusal(one, other, called, told)
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
    """Refuse slices between other edges, such as the quantiles of another night."""
    for by, parts in one.header["slicings"].items():
        for name, mine in parts.items():
            theirs = other.header["slicings"][by].get(name)
            if mine != theirs:
                given = ",".join(mine) or "0"
                raise MergeError(
                    f"{one.shown} and {other.shown} cannot be merged, because slices by '{by}' "
                    f"have other edges: {name} is cut at {', '.join(mine) or 'nothing'} in the "
                    f"first and at {', '.join(theirs or ()) or 'nothing'} in the second. Quantiles "
                    "are those of the rows of each evaluation: give the same edges to both, as "
                    f"by='{name}:{given}' (--by '{name}:{given}'), and columns of one type."
                )


def _difference(mine: Sequence[str], theirs: Sequence[str]) -> str:
    lacking = [name for name in mine if name not in theirs]
    added = [name for name in theirs if name not in mine]
    if not (lacking or added):
        return f"{', '.join(mine)} stand in another order, {', '.join(theirs)}, in the second"
    told = [f"only the first has {', '.join(lacking)}"] if lacking else []
    told += [f"only the second has {', '.join(added)}"] if added else []
    return " and ".join(told)


def _refusal(one: Content, other: Content, called: str, told: str) -> MergeError:
    return MergeError(
        f"{one.shown} and {other.shown} cannot be merged, because their {called} differ: {told}; "
        "evaluate both in the same way."
    )


def check_repeated(every: Sequence[Content]) -> None:
    """Refuse rows that are there twice.

    Raises
    ------
    MergeError
        Naming what they were called.
    """
    met: dict[str, tuple[Content, Mapping[str, Any]]] = {}
    for one in every:
        for seen in one.header["seen"]:
            # Evaluations without a row are all alike, and add nothing.
            if seen["rows"] and seen["fingerprint"] in met:
                first, before = met[seen["fingerprint"]]
                raise MergeError(
                    f"{first.shown} and {one.shown} hold the same {seen['rows']} rows in "
                    f"{seen['groups']} groups, read from {', '.join(before['sources'])} and "
                    f"{', '.join(seen['sources'])}: all their sums are equal, and they would count "
                    "twice; leave one out, or pass allow_repeated=True (--allow-repeated)."
                )
            met[seen["fingerprint"]] = one, seen


def check_crossing(every: Sequence[Content]) -> None:
    """Refuse groups that have rows in two states, where the states know their keys.

    Raises
    ------
    MergeError
        Naming the first such group, and the two states.
    """
    if not every[0].header["has_groups"]:
        return
    each = [SavedGroups.loaded(one.states[ALL, "", VALUES]) for one in every]
    joined = each[0].joined(each[1:])
    owner = np.repeat(np.arange(len(each)), [len(one) for one in each])
    order = np.lexsort([owner, *joined.ranks()[::-1]])
    crossing = joined.repeated(order) & (owner[order[1:]] != owner[order[:-1]])
    places = np.flatnonzero(crossing)
    if not len(places):
        return
    first, second = order[places[0]], order[places[0] + 1]
    names = zip(joined.names, joined.keys, strict=True)
    key = ", ".join(f"{name}={column[int(first)].as_py()!r}" for name, column in names)
    others = f" and {len(places) - 1:,} more groups" if len(places) > 1 else ""
    raise MergeError(
        f"{every[owner[first]].shown} and {every[owner[second]].shown} both hold rows of the group "
        f"{key}{others}: a group that is cut counts as two, with other values. Cut logs by "
        f"{', '.join(joined.names)}, or evaluate these rows together; allow_crossing=True "
        "(--allow-crossing) counts each part as a group."
    )


def added_up(
    every: Sequence[Content], plan: Plan
) -> tuple[dict[Place, Arrays], dict[str, str | None]]:
    """The sums of all states, and what the values of each field are.

    Raises
    ------
    MergeError
        If values of a field, of what slices are told apart by, or keys are of different types.
    """
    states: dict[Place, Arrays] = {}
    kinds: dict[str, str | None] = {}
    numbers: dict[str, list[np.ndarray]] = {}
    for field in every[0].header["fields"]:
        values, numbers[field] = _joined_values(field, every)
        kinds[field] = values.kind
        states[values_of(field)] = values.saved()
    _add_lines(states, ALL, every, [_ONE for _ in every], plan)
    for by in every[0].header["slicings"]:
        where = Rows(by)
        held = [SavedSlices.loaded(one.states[where, "", SLICES]) for one in every]
        slices, lines = SavedSlices.joined(held, by)
        states[where, "", SLICES] = slices.saved()
        _add_lines(states, where, every, lines, plan)
    kept = state_specs(plan) | paired_state_specs(plan)
    found: dict[tuple[Rows, str], dict[int, dict[str, Arrays]]] = {}
    for number, one in enumerate(every):
        for (where, score, name), parts in one.states.items():
            if name in kept:
                found.setdefault((where, name), {}).setdefault(number, {})[score] = parts
    for (where, name), those in found.items():
        field = kept[name].field
        renumbered = [numbers[field][number] for number in those] if field else None
        total = _sum(list(those.values()), kept[name].kind, renumbered)
        for score, parts in saved_of_models(total, compared=bool(plan.rivals)).items():
            states[where, score, name] = parts
    if every[0].header["has_groups"]:
        states[ALL, "", VALUES] = _joined_groups(every).saved()
    return states, kinds


def _add_lines(
    states: dict[Place, Arrays],
    where: Rows,
    every: Sequence[Content],
    lines: Sequence[np.ndarray],
    plan: Plan,
) -> None:
    """Add up sums over groups, the lines of each state laid out anew."""
    counts = []
    for one, mine in zip(every, lines, strict=True):
        sums = Sums.of(plan, one.states[where, "", TOTALS], [], {})
        counts.append(Sums.of(plan, sums.counts(mine), [], {}))
    for other in counts[1:]:
        counts[0].merge(other)
    states[where, "", TOTALS] = counts[0].counts(np.arange(len(lines[0])))
    scores = plan.roles.scores
    rivals = [scores[model] for model in plan.rivals]
    laid: tuple[tuple[str, type[MeanState] | type[PairedState], Sequence[str]], ...] = (
        (GROUPS, MeanState, scores),
        (PAIRS, PairedState, rivals),
    )
    for name, kind, models in laid:
        for score in models:
            place = where, score, name
            each: list[Any] = [
                kind.loaded(one.states[place]).take(mine)
                for one, mine in zip(every, lines, strict=True)
            ]
            for other in each[1:]:
                each[0].merge(other)
            states[place] = each[0].saved()


def _joined_groups(every: Sequence[Content]) -> SavedGroups:
    """The groups of all states by key, models in the order of the first."""
    models = every[0].header["models"]
    first, *others = (
        SavedGroups.loaded(one.states[ALL, "", VALUES]).with_models(
            [one.header["models"].index(model) for model in models]
        )
        for one in every
    )
    return first.joined(others).in_order()


def _sum(
    every: Sequence[Mapping[str, Arrays]],
    kind: type[Saveable],
    numbers: Sequence[np.ndarray] | None,
) -> Mapping[str, Saveable]:
    """The sums of several states, by model."""
    loaded: list[Mapping[str, Saveable]]
    if numbers is None:
        loaded = [loaded_of_models(kind, of_models) for of_models in every]
    else:
        loaded = [
            {score: KeyedSums.loaded(part).renumbered(number) for score, part in of_models.items()}
            for of_models, number in zip(every, numbers, strict=True)
        ]
    total, *others = loaded
    for other in others:
        for score, state in total.items():
            state.merge(other[score])
    return total


def _joined_values(field: str, every: Sequence[Content]) -> tuple[FieldValues, list[np.ndarray]]:
    """All values of a field, and the new numbers of each state's."""
    each = [
        FieldValues.loaded(one.header["fields"][field], one.states[values_of(field)])
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
    return total.joined(each)
