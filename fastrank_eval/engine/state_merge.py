"""Check that states agree, merge them, and evaluate their totals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.errors import MergeError
from fastrank_eval._lib.threads import processors
from fastrank_eval.engine.largest_group import LARGEST, LargestGroup, dominant
from fastrank_eval.engine.options import KEEP_GROUPS
from fastrank_eval.engine.plan import Plan, undefined_policies
from fastrank_eval.engine.records import LEFT_OUT, ROW_COUNTS, Meta
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_arrays import (
    ALL,
    SLICES,
    VALUES,
    Rows,
    SavedField,
    SavedGroups,
    SavedSliceEncoder,
    SavedSlices,
    StateArrays,
    field_key,
    field_values,
    read,
)
from fastrank_eval.engine.state_file import Provenance
from fastrank_eval.engine.summary import largest_group, slices_left_out, summary_rows
from fastrank_eval.engine.totals import Totals
from fastrank_eval.io.columns import NULL_GROUP, Roles
from fastrank_eval.measures import Measure
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.slicing.slicer import Slicings
from fastrank_eval.slicing.spec import requested_slicing

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
    "null_groups",
    *ROW_COUNTS,
    LARGEST,
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


#: Bytes of arrays up to which a state keeps the totals that were read from them.
_KEPT_BYTES = 1 << 22


class Content:
    """The content of a state, and its name in messages.

    Small totals that were read from the arrays are kept for one use. Totals from which the arrays
    were written are not kept. They may know that two of the models have the same groups, which
    arrays without ``matched`` do not say: the state would compare more than its file.

    Parameters
    ----------
    header : mapping
    arrays : mapping
    shown : str
    """

    def __init__(self, header: Mapping[str, Any], arrays: StateArrays, shown: str) -> None:
        self.header, self.arrays, self.display_name = header, arrays, shown
        self._kept: list[Totals] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": []}

    def check(self) -> None:
        """Read every array, and the largest group."""
        LargestGroup.of_header(self.header)
        totals = Totals.from_arrays(plan_of([self]), self.arrays)
        if sum(each.nbytes for of in self.arrays.values() for each in of.values()) <= _KEPT_BYTES:
            self._kept.append(totals)
        if self.header["has_groups"]:
            groups_of(self)

    def totals(self, plan: Plan) -> Totals:
        """Return totals with the codes of a plan, which may be changed."""
        totals: Totals | None = None
        with suppress(IndexError):  # another thread may take them
            kept = self._kept.pop()
            totals = kept.select(plan) if kept.has_codes_of(plan) else None
        totals = totals or Totals.from_arrays(plan, self.arrays)
        totals.largest = LargestGroup.of_header(self.header)
        return totals


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
            names = {
                str(m): m.display_name for each in (one, other) for m in _measures(each.header)
            }
            details = _difference(left, right, names)
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
            f"{one.display_name} and {other.display_name} cannot be merged, because "
            f"{with_groups.display_name} has keys "
            f"and values of every group, and {without.display_name} has not: evaluate both with "
            f"{KEEP_GROUPS}, or leave them out, State.without_groups() "
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
                    f"{one.display_name} and {other.display_name} cannot be merged, because slices "
                    f"by '{by}' "
                    f"have other edges: {name} is cut at {', '.join(left) or 'nothing'} in the "
                    f"first and at {', '.join(right or ()) or 'nothing'} in the second. Quantiles "
                    "are those of the rows of each evaluation: give the same edges to both, as "
                    f"by='{name}:{edges}' (--by '{name}:{edges}'), and columns of one type."
                )


def _difference(
    left: Sequence[str], right: Sequence[str], names: Mapping[str, str] | None = None
) -> str:
    """Describe how two lists differ; `names` are other names of their entries."""
    shown = names or {}
    only_left = [shown.get(name, name) for name in left if name not in right]
    only_right = [shown.get(name, name) for name in right if name not in left]
    if not (only_left or only_right):
        left, right = ([shown.get(name, name) for name in each] for each in (left, right))
        return f"{', '.join(left)} stand in another order, {', '.join(right)}, in the second"
    details = [f"only the first has {', '.join(only_left)}"] if only_left else []
    details += [f"only the second has {', '.join(only_right)}"] if only_right else []
    return " and ".join(details)


def _refusal(one: Content, other: Content, title: str, details: str) -> MergeError:
    return MergeError(
        f"{one.display_name} and {other.display_name} cannot be merged, because their {title} "
        f"differ: {details}; "
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
                    f"{first.display_name} and {one.display_name} hold the same {entry['rows']} "
                    "rows in "
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
    each = [groups_of(one) for one in every]
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
        f"{every[owner[first]].display_name} and {every[owner[second]].display_name} both hold "
        "rows of the group "
        f"{key}{others}: a group that is cut counts as two, with other values. Cut logs by "
        f"{', '.join(groups.names)}, or evaluate these rows together; allow_crossing=True "
        "(--allow-crossing) counts each part as a group."
    )


def merge_contents(every: Sequence[Content], *, whole: bool) -> tuple[StateArrays, dict[str, Any]]:
    """Merge states; return arrays, and entries of the header that change.

    `whole` says that no group has rows in two of the states.

    Raises
    ------
    MergeError
        If values of a field, values of slices or keys have different types.
    """
    plan = plan_of(every)
    totals = Totals(plan)
    for one in every:
        totals.merge(one.totals(plan))
    arrays, largest = totals.to_arrays(), dominant(totals.largest, totals.overall.squares())
    header = every[0].header
    if header["has_groups"]:
        first, *others = (
            groups_of(one).with_models([one.header["models"].index(m) for m in header["models"]])
            for one in every
        )
        arrays[ALL, "", VALUES] = first.concat(others).sort_by_key().to_arrays()
    entries: dict[str, Any] = {}
    if largest is not None:
        parts = [one for one in every if any(entry["rows"] for entry in one.header["provenance"])]
        bounds = [(one.header.get(LARGEST) or {}).get("at_least", False) for one in parts]
        at_least = any(bounds) or (len(parts) > 1 and not whole)
        entries[LARGEST] = replace(largest, at_least=at_least).plain()
    return arrays, entries


def plan_of(every: Sequence[Content], confidence: float = 0.95, min_groups: int = 1) -> Plan:
    """Rebuild the plan of states, with the fields and slices of all."""
    header = every[0].header
    columns, conventions = header["columns"], header["conventions"]
    models, baseline = tuple(header["models"]), header["baseline"]
    encoders = []
    slicings = list(header["slicings"])
    specs = requested_slicing(slicings) if slicings else ()
    for by, spec in zip(slicings, specs, strict=True):
        slices = [read(one.arrays, Rows(by), "", SLICES, SavedSlices.from_arrays) for one in every]
        encoders.append(SavedSliceEncoder(spec, SavedSlices.union(slices, by)))
    fields = (
        SavedField(name, [read(one.arrays, *field_key(name), field_values) for one in every])
        for name in columns["fields"]
    )
    return Plan(
        roles=Roles(
            group=tuple(columns["group"]),
            label=columns["label"],
            scores=models,
            weight=columns["weight"],
            fields=tuple(fields),
        ),
        measures=_measures(header),
        undefined=undefined_policies(conventions["undefined"]),
        groups=conventions["groups"],
        per_group=header["has_groups"],
        threads=processors(),
        confidence=confidence,
        baseline=None if baseline is None else models.index(baseline),
        slicings=Slicings(tuple(encoders), (), ()) if encoders else None,
        min_groups=min_groups,
    )


def _measures(header: Mapping[str, Any]) -> tuple[Measure, ...]:
    """Read the measures of a state, with the names that were asked for."""
    names = header.get("names", {})
    measures = requested_measures(header["measures"])
    return tuple(m.with_display_name(names.get(str(m), str(m))) for m in measures)


def evaluation_of(
    content: Content, provenance: Sequence[Provenance], confidence: float, min_groups: int
) -> Evaluation:
    """Rebuild the evaluation of a run over all rows of a state."""
    started = perf_counter()
    header = content.header
    plan = plan_of([content], confidence, min_groups)
    totals = content.totals(plan)
    meta = Meta(
        __version__,
        totals.overall.rows(),
        totals.overall.groups(),
        _conventions(header, provenance, plan, totals),
        perf_counter() - started,
        requested=dict(header["requested"]),
    )
    summary, requested = summary_rows(plan, totals), header["requested"]
    if not plan.per_group:
        return Evaluation(plan, totals, [], [], pa.schema([]), summary, meta, requested)
    groups = groups_of(content)
    kinds = [key.type for key in groups.keys]
    schema = pa.schema(list(zip(groups.names, kinds, strict=True)))
    return Evaluation(
        plan, totals, [groups.keys], [groups.values], schema, summary, meta, requested
    )


def groups_of(content: Content) -> SavedGroups:
    """Read keys and values of every group."""

    def groups_in(arrays: Mapping[str, np.ndarray]) -> SavedGroups:
        groups, header = SavedGroups.from_arrays(arrays), content.header
        shape = len(header["models"]), len(header["measures"])
        if groups.values.values.shape[:2] != shape or groups.names != tuple(
            header["columns"]["group"]
        ):
            raise ValueError("the columns of groups are not those of the header")
        return groups

    return read(content.arrays, ALL, "", VALUES, groups_in)


def _conventions(
    header: Mapping[str, Any], provenance: Sequence[Provenance], plan: Plan, totals: Totals
) -> dict[str, object]:
    """List the conventions; if evaluations differ, with all their values."""
    result: dict[str, object] = {}
    conventions = dict(header["conventions"])
    by = conventions.pop("by", None)
    for name, value in conventions.items():
        if name == "weight":
            result["order"] = _all_values(one.order for one in provenance)
        result[name] = value
    result["confidence"] = plan.confidence
    result["measures"] = {str(m): m.used_options() for m in plan.measures}
    if by is not None:
        result["by"] = by
        result["min_groups"] = plan.min_groups
        result["slices_left_out"] = slices_left_out(plan, totals)
    if any(one.where is not None for one in provenance):
        result["where"] = _all_values(one.where for one in provenance)
    if any(one.limit is not None for one in provenance):
        result["limit"] = _all_values(one.limit for one in provenance)
    result |= largest_group(totals)
    result |= {"null_groups": "drop"} if NULL_GROUP in header.get(LEFT_OUT, {}) else {}
    result |= {name: header[name] for name in ROW_COUNTS if name in header}
    if len(provenance) > 1:
        result["merged"] = len(provenance)
    return result


def _all_values(values: Iterable[Any]) -> object:
    """Return the only distinct value, or the text of all of them."""
    distinct = sorted(set(values), key=lambda value: (value is None, value))
    if len(distinct) == 1:
        return distinct[0]
    return ", ".join("none" if value is None else str(value) for value in distinct)
