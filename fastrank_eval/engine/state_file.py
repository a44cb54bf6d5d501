"""Read and write files of saved states.

Check that states agree, merge them, and evaluate their totals.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib import __version__
from fastrank_eval._lib.arguments import checked, integer, typed
from fastrank_eval._lib.arrow import arrow_column, bytes_column, column_with_nulls, stated_size
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import (
    ArgumentError,
    FastRankEvalError,
    MeasureError,
    MergeError,
    SourceError,
    text_keys_hint,
)
from fastrank_eval._lib.threads import processors
from fastrank_eval.engine.group_table import (
    LARGEST,
    GroupTable,
    LargestGroup,
    dominant,
    equal_neighbours,
)
from fastrank_eval.engine.options import KEEP_GROUPS, OPTIONS
from fastrank_eval.engine.plan import Plan, undefined_policies
from fastrank_eval.engine.records import (
    LEFT_OUT,
    ROW_COUNTS,
    Meta,
    independent_unit,
    largest_group,
    slices_left_out,
    summary_rows,
)
from fastrank_eval.engine.run import Evaluation
from fastrank_eval.engine.state_arrays import (
    ALL,
    BY_BUCKET,
    SLICES,
    VALUES,
    WITHOUT_BUCKETS,
    Rows,
    SavedField,
    SavedSliceEncoder,
    SavedSlices,
    StateArrays,
    field_key,
    field_values,
    is_by_bucket,
    read,
)
from fastrank_eval.engine.totals import Totals
from fastrank_eval.io.columns import NULL_GROUP, Roles
from fastrank_eval.io.source import first_line
from fastrank_eval.measures import Measure
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.measures.pooled import CLUSTERS
from fastrank_eval.slicing.encode import value_texts
from fastrank_eval.slicing.slicer import Slicings
from fastrank_eval.slicing.spec import requested_slicing

#: The version of the format that is written and read.
FORMAT = 4


_SCHEMA = pa.schema(
    [
        ("slicing", pa.int32()),
        ("slice", pa.string()),
        ("model", pa.string()),
        ("state", pa.string()),
        ("part", pa.string()),
        ("type", pa.string()),
        ("shape", pa.list_(pa.int64())),
        ("content", pa.large_binary()),
    ]
)
#: The longest first axis (measures, counters, bytes) of an array without a number.
_MOST_EMPTY = 1 << 16
_TYPES = ("uint8", "uint16", "uint32", "uint64", "int64", "float64")
_PREFIX = "fastrank_eval."
_MARK = b"fastrank_eval state, sha256:"
_DIGITS = 64
_MAGIC = b"ARROW1"
#: The mark of a state lies in these first bytes: Arrow writes the last entry of metadata first.
_START = 1 << 22
_ZEROS = b"0" * _DIGITS
#: The stream of batches begins after the magic and two bytes.
_STREAM = 8
#: A file may state so many bytes, or so many times its own size: sums compress 1 to 50 times.
_MOST_MEMORY, _MOST_RATIO = 1 << 26, 1000
#: Bytes of content in a record batch.
_BATCH = 1 << 24


def state_bytes(header: Mapping[str, Any], arrays: StateArrays) -> bytes:
    """Write the content of a state file to bytes.

    Parameters
    ----------
    header : mapping of str to JSON values
    arrays : dict
    """
    metadata = {
        "format": str(FORMAT),
        "writer": __version__,
        **{name: json.dumps(value, allow_nan=False) for name, value in header.items()},
        "digest": (_MARK + _ZEROS).decode(),
    }
    schema = _SCHEMA.with_metadata({_PREFIX + name: text for name, text in metadata.items()})
    slicings = list(header["slicings"])
    content = b""
    for codec in ("zstd", None) if pa.Codec.is_available("zstd") else (None,):
        sink = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_file(sink, schema, options=options) as file:
            for batch in _batches(arrays, slicings, schema):
                file.write_batch(batch)
        content = sink.getvalue()
        if not _excess(content):
            break
    return content.replace(_MARK + _ZEROS, _MARK + hashlib.sha256(content).hexdigest().encode())


def _batches(
    arrays: StateArrays, slicings: list[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    numbers: dict[str, int | None] = {"": None} | {by: i for i, by in enumerate(slicings)}
    rows: list[tuple[Any, ...]] = []
    size = 0
    for ((by, label), model, state), parts in arrays.items():
        for name, array in parts.items():
            little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            key = numbers[by], label, model, state, name
            rows.append((*key, array.dtype.name, list(array.shape), little_endian.tobytes()))
            size += little_endian.nbytes + sum(map(len, key[1:]))
            if size >= _BATCH:
                yield _batch(rows, schema)
                rows, size = [], 0
    if rows:
        yield _batch(rows, schema)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    # Not pa.array(), which imports pandas where it is installed: 0.15 s.
    numbers, *texts, shapes, contents = zip(*rows, strict=True)
    missing = np.array([number is None for number in numbers])
    axes = np.cumsum([0, *map(len, shapes)], dtype=np.int32)
    sizes = np.array([size for shape in shapes for size in shape], np.int64)
    columns = [
        column_with_nulls(np.array([number or 0 for number in numbers], np.int32), missing),
        *(bytes_column([text.encode() for text in column], pa.string()) for column in texts),
        pa.ListArray.from_arrays(arrow_column(axes), arrow_column(sizes)),
        bytes_column(contents, pa.large_binary()),
    ]
    return pa.record_batch(columns, schema=schema)


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], StateArrays]:
    """Read the header of a file, and the arrays of each state.

    Raises
    ------
    SourceError
        If it cannot be read, is not a saved state, is damaged, or is of a newer format.
    """
    shown = os.fspath(path)
    try:
        # Not mapped: a file that is truncated while it is read would end the process by a signal.
        with Path(shown).open("rb") as handle:
            content = handle.read()
    except OSError as error:
        raise SourceError(
            f"cannot read the saved state {shown!r}: {error.strerror or error}."
        ) from error
    return read_state_bytes(content, shown)


def read_state_bytes(
    content: bytes, shown: str = "these bytes"
) -> tuple[dict[str, Any], StateArrays]:
    """Read the bytes of `state_bytes`; raise the errors of `read_state`."""
    if not content:
        raise _foreign(shown, "it is empty")
    _check_digest(content, shown)
    with wrap_errors(repr(shown)):
        if excess := _excess(content):
            raise ValueError(excess)
        # Not as a file, whose footer may name other batches than those that were measured.
        with pa.ipc.open_stream(_stream_in(content)) as stream:
            return _read(stream, shown)


def _stream_in(content: bytes) -> pa.Buffer:
    return pa.py_buffer(content).slice(_STREAM)


def _excess(content: bytes) -> str:
    """Say what a file states beyond what its size allows; empty if nothing."""
    size, rows = stated_size(_stream_in(content))
    if size > max(_MOST_MEMORY, _MOST_RATIO * len(content)):
        return f"{len(content):,} bytes state {size:,} bytes of sums, too much for their size"
    if rows > len(content):
        return f"{len(content):,} bytes state {rows:,} arrays"
    return ""


@contextmanager
def wrap_errors(shown: str) -> Iterator[None]:
    """Raise errors in the content of a state as a `SourceError`.

    Parameters
    ----------
    shown : str
        The name of the state in messages, in quotes if it is a path.

    Raises
    ------
    SourceError
        Instead of any other error.
    """
    try:
        yield
    except SourceError:
        raise
    except Exception as error:
        known = isinstance(error, ValueError | FastRankEvalError)
        reason = first_line(error) if known else f"{type(error).__name__}: {first_line(error)}"
        remedy = "write it anew with --save-state"
        if isinstance(error, MeasureError):
            remedy = "register its measures or install their package, or " + remedy
        raise SourceError(
            f"{shown} is not a state that this version can read: {reason}; {remedy}."
        ) from error


def is_state(path: str | os.PathLike[str]) -> bool:
    """Test whether a file is a saved state, damaged and newer ones too."""
    shown = Path(path)
    try:
        if not shown.is_file():
            return False
        with shown.open("rb") as handle:
            start = handle.read(_START)
    except OSError:
        return False
    return start.startswith(_MAGIC) and _MARK in start


def _check_digest(content: bytes, shown: str) -> None:
    if content[:6] != _MAGIC:
        raise _foreign(shown, "it is not an Arrow IPC file")
    start = content.find(_MARK)
    if start < 0:
        raise _foreign(shown, "it has no mark of one")
    mark = content[start : start + len(_MARK) + _DIGITS]
    digest = hashlib.sha256(content.replace(mark, _MARK + _ZEROS))
    if digest.hexdigest().encode() != mark[len(_MARK) :]:
        raise SourceError(
            f"the saved state {shown!r} is damaged: its bytes are not those that were written (cut "
            "short, or changed); copy it again, or write it anew with --save-state."
        )


def _foreign(shown: str, why: str) -> SourceError:
    return SourceError(
        f"{shown!r} is not a saved state: {why}; name a file that --save-state (in Python: "
        "State.save) has written."
    )


def _read(stream: pa.RecordBatchStreamReader, shown: str) -> tuple[dict[str, Any], StateArrays]:
    texts = {
        key.decode().removeprefix(_PREFIX): value.decode()
        for key, value in (stream.schema.metadata or {}).items()
    }
    version, writer = int(texts.pop("format")), texts.pop("writer")
    if version != FORMAT:
        raise SourceError(
            f"the saved state {shown!r} has format {version}, written by fastrank_eval {writer}; "
            f"this is {__version__}, which reads format {FORMAT}: "
            + ("install a newer one." if version > FORMAT else "evaluate the rows again.")
        )
    texts.pop("digest")
    header = {name: json.loads(text) for name, text in texts.items()}
    slicings = {None: ""} | dict(enumerate(header["slicings"]))
    arrays: StateArrays = {}
    for batch in stream:
        batch.validate(full=True)
        names = [batch.column(name).to_pylist() for name in _SCHEMA.names[:-1]]
        content = batch.column("content")
        for row, (number, *key, part, kind, shape) in enumerate(zip(*names, strict=True)):
            label, model, state = key
            if kind not in _TYPES:
                raise SourceError(f"{shown!r}: unknown type {kind!r} of {state} {part}.")
            buffer = content[row].as_buffer()
            array = np.frombuffer(buffer, np.dtype(kind).newbyteorder("<"))
            # A copy: Arrow does not align values.
            array = array.astype(kind).reshape(shape)
            if not array.size and shape[0] > _MOST_EMPTY:
                raise ValueError(f"{state} {part} is empty, of shape {shape}")
            arrays.setdefault((Rows(slicings[number], label), model, state), {})[part] = array
    return header, arrays


def fingerprint_of(measures: list[str], arrays: StateArrays) -> str:
    """Hash measures and sums: equal rows have equal hashes, from any source."""
    slicings = sorted({key[0].by for key in arrays})
    numbers = {by: number for number, by in enumerate(slicings)}
    digest = hashlib.sha256(json.dumps([measures, slicings]).encode())
    for (rows, model, state), parts in sorted(arrays.items()):
        if state in (SLICES, VALUES) or is_by_bucket(state):
            continue
        if "table" in parts:  # the bytes of the values of a field depend on the width of their type
            digest.update(json.dumps([state, value_texts(field_values(parts))]).encode())
            continue
        for name, array in sorted(parts.items()):
            key = numbers[rows.by], rows.label, model, state
            description = (*key, name, array.dtype.name, array.shape)
            digest.update(json.dumps(description).encode())
            digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Provenance:
    """The origin of the rows of one evaluation in a state.

    Parameters
    ----------
    sources : tuple of str
        Paths as the caller wrote them, or the type of the source.
    order : str
        Order of the rows, as in `Meta.conventions`.
    where : str or None
        The condition that selected rows.
    limit : int or None
        The largest number of rows to read.
    rows, positives, groups : int
    writer : str
        Version of fastrank_eval.
    fingerprint : str
        SHA-256 of measures and sums: equal for equal rows, from any source.
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
    "group",
    CLUSTERS,
    *ROW_COUNTS,
    LARGEST,
)
#: Entries of the header that must be equal, with their names in messages.
_EQUAL_ENTRIES = {
    "conventions_version": "versions of the conventions",
    "columns": "columns",
    "conventions": "conventions",
    "score_types": "types of the scores",
    "baseline": "baselines",
    "measures": "measures",
    "requested": "requested measures",
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
    shown : str, optional
        The name of the state in messages; by default its number of rows.
    """

    def __init__(
        self, header: Mapping[str, Any], arrays: StateArrays, shown: str | None = None
    ) -> None:
        self.header, self.arrays = dict(header), dict(sorted(arrays.items()))
        self.provenance = tuple(
            Provenance(**{**entry, "sources": tuple(entry["sources"])})
            for entry in header["provenance"]
        )
        self.display_name = shown or f"a state of {self.rows} rows"
        self._kept: list[Totals] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_kept": []}

    @property
    def scores(self) -> tuple[str, ...]:
        """Score columns: the models."""
        return tuple(self.header["models"])

    @property
    def measures(self) -> tuple[str, ...]:
        """Canonical texts of the measures."""
        return tuple(self.header["measures"])

    @property
    def names(self) -> dict[str, str]:
        """The names that reports show, by canonical text of the measure."""
        return dict(zip(self.measures, self.measures, strict=True)) | self.header.get("names", {})

    @property
    def requested(self) -> dict[str, str]:
        """The computed measures of names that a profile gave other options."""
        return dict(self.header["requested"])

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
        name: str | None = self.header["baseline"]
        return name

    @property
    def has_groups(self) -> bool:
        """Whether the state has keys and values of every group."""
        return bool(self.header["has_groups"])

    @property
    def has_clusters(self) -> bool:
        """Whether the state has sums by bucket of clusters, for merged states."""
        return BY_BUCKET in self.header

    @property
    def slicings(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """The slicings, and the edges of each of their parts that has edges."""
        return {
            by: {name: tuple(edges) for name, edges in parts.items()}
            for by, parts in self.header["slicings"].items()
        }

    def __repr__(self) -> str:
        return (
            f"State of {self.rows} rows, {self.groups} groups, {len(self.provenance)} evaluations: "
            f"{', '.join(self.names.values())} of {', '.join(self.scores)}"
        )

    def values_of_groups(self) -> GroupTable | None:
        """Return keys and values of every group; None if they are not kept."""
        return groups_of(self) if self.has_groups else None

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
        share = OPTIONS["confidence"].read("confidence", confidence)
        fewest = checked("min_groups", min_groups, integer(1))
        if fewest > 1 and not self.header["columns"]["group"]:
            raise ArgumentError(
                f"min_groups: must be 1 for a state without groups, got {fewest}; evaluate the "
                "rows with group=... (--group)."
            )
        plan = plan_of([self], share, fewest)
        return evaluation_of(self, plan, _totals_of(self, plan))

    def _option(self, name: str, value: Any, example: str) -> Any:
        value = self.header[name] if value is None else value
        if value is None:
            raise ArgumentError(
                f"{name}: must be given, because the merged states have different ones, got None; "
                f"pass {name}={example} (--{name.replace('_', '-')} {example})."
            )
        return value


def without_key(header: dict[str, Any]) -> dict[str, Any]:
    """Leave out the key of the largest group where buckets stand for keys."""
    if header["has_groups"] or not (BY_BUCKET in header and LARGEST in header):
        return header
    return {**header, LARGEST: {**header[LARGEST], "key": None}}


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
    """Refuse groups and clusters with rows in two states, if they keep keys.

    Raises
    ------
    MergeError
        With the first such group or cluster, and the two states.
    """
    if not every[0].header["has_groups"]:
        return
    each = [groups_of(one) for one in every]
    whole, roles = _joined(each), each[0].roles
    owner = np.repeat(np.arange(len(each)), [len(one) for one in each])
    # Buckets count a cluster once.
    counted = all(BY_BUCKET in one.header for one in every)
    units = [("cluster", "errors that are too small")] if roles.nested and not counted else []
    for unit, harm in (*units, ("group", "other values")):
        names = roles.cluster if unit == "cluster" else roles.group
        ranks = whole.ranks(names)
        order = np.lexsort([owner, *ranks[::-1]])
        crossing = equal_neighbours(ranks, order) & (owner[order[1:]] != owner[order[:-1]])
        positions = np.flatnonzero(crossing)
        if not len(positions):
            continue
        first, second = order[positions[0]], order[positions[0] + 1]
        columns = dict(zip(roles.keys, whole.keys, strict=True))
        key = ", ".join(f"{name}={columns[name][int(first)].as_py()!r}" for name in names)
        others = f" and {len(positions) - 1:,} more {unit}s" if len(positions) > 1 else ""
        raise MergeError(
            f"{every[owner[first]].display_name} and {every[owner[second]].display_name} both hold "
            f"rows of the {unit} "
            f"{key}{others}: a {unit} that is cut counts as two, with {harm}. Cut logs by "
            f"{', '.join(names)}, or evaluate these rows together; allow_crossing=True "
            f"(--allow-crossing) counts each part as a {unit}."
        )


def merge_totals(
    every: Sequence[Content], plan: Plan, *, whole: bool
) -> tuple[Totals, dict[str, Any]]:
    """Merge totals of states, and entries of the header that change.

    `whole` says that no group has rows in two of the states.

    Raises
    ------
    MergeError
        If values of a field or values of slices have different types.
    """
    totals = Totals(plan)
    for one in every:
        totals.merge(_totals_of(one, plan))
    largest = dominant(totals.largest, totals.overall.squares())
    entries: dict[str, Any] = {}
    names = BY_BUCKET, WITHOUT_BUCKETS
    known = [one.header[name] for one in every for name in names if name in one.header]
    if known and (plan.buckets or not whole):
        entries[names[not plan.buckets]] = known[0]
    if largest is not None:
        parts = [one for one in every if any(entry["rows"] for entry in one.header["provenance"])]
        bounds = [(one.header.get(LARGEST) or {}).get("at_least", False) for one in parts]
        at_least = any(bounds) or (len(parts) > 1 and not whole)
        entries[LARGEST] = replace(largest, at_least=at_least).plain()
    return totals, entries


def merged_arrays(every: Sequence[Content], totals: Totals) -> StateArrays:
    """Write the arrays of merged states.

    Raises
    ------
    MergeError
        If keys have different types.
    """
    arrays, header = totals.to_arrays(), every[0].header
    if header["has_groups"]:
        models = [[one.header["models"].index(m) for m in header["models"]] for one in every]
        each = [groups_of(one).with_models(at) for one, at in zip(every, models, strict=True)]
        arrays[ALL, "", VALUES] = _joined(each).sort_by_key().to_arrays()
    return arrays


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
        roles=replace(_roles(header), fields=tuple(fields)),
        measures=_measures(header),
        policies=undefined_policies(conventions["undefined"]),
        groups=conventions["groups"],
        per_group=header["has_groups"],
        threads=processors(),
        confidence=confidence,
        baseline=None if baseline is None else models.index(baseline),
        slicings=Slicings(tuple(encoders), (), ()) if encoders else None,
        min_groups=min_groups,
        buckets=all(one.header.get(BY_BUCKET) == header.get(BY_BUCKET, ()) for one in every),
    )


def _roles(header: Mapping[str, Any]) -> Roles:
    """Read the columns of a state, but for fields."""
    columns = header["columns"]
    return Roles(
        group=tuple(columns["group"]),
        cluster=tuple(columns.get("cluster", ())),
        label=columns["label"],
        scores=tuple(header["models"]),
        weight=columns["weight"],
    )


def _measures(header: Mapping[str, Any]) -> tuple[Measure, ...]:
    """Read the measures of a state, with the names that were asked for."""
    names = header.get("names", {})
    measures = requested_measures(header["measures"])
    return tuple(m.with_display_name(names.get(str(m), str(m))) for m in measures)


def evaluation_of(content: Content, plan: Plan, totals: Totals) -> Evaluation:
    """Rebuild the evaluation of a run over all rows of a state."""
    started = perf_counter()
    header, provenance = content.header, content.provenance
    if plan.buckets and sum(one.rows > 0 for one in provenance) > 1:
        totals.use_buckets()
    meta = Meta(
        __version__,
        totals.overall.rows(),
        totals.overall.groups(),
        _conventions(header, provenance, plan, totals),
        perf_counter() - started,
        requested=dict(header["requested"]),
    )
    summary = summary_rows(plan, totals)
    if not plan.per_group:
        return Evaluation(plan, totals, [], pa.schema([]), summary, meta)
    groups = groups_of(content)
    kinds = [key.type for key in groups.keys]
    schema = pa.schema(list(zip(groups.roles.keys, kinds, strict=True)))
    return Evaluation(plan, totals, [groups], schema, summary, meta)


def groups_of(content: Content) -> GroupTable:
    """Read keys and values of every group."""
    roles, measures = _roles(content.header), _measures(content.header)
    of_header = partial(GroupTable.from_arrays, roles=roles, measures=measures)
    return read(content.arrays, ALL, "", VALUES, of_header)


def _joined(tables: Sequence[GroupTable]) -> GroupTable:
    """Concatenate the groups of states.

    Raises
    ------
    MergeError
        If keys are of different types.
    """
    every_key = zip(*(one.keys for one in tables), strict=True)
    for name, columns in zip(tables[0].roles.keys, every_key, strict=True):
        kinds = sorted({str(column.type) for column in columns})
        if len(kinds) > 1:
            raise MergeError(
                f"states cannot be merged, because the type of the group key '{name}' differs: "
                f"{' and '.join(kinds)}; cast the column.{text_keys_hint(kinds)}"
            )
    for position in sorted({position for one in tables for position in one.weights}):
        for one in tables:
            one.weights.setdefault(position, np.ones(len(one)))
    return GroupTable.concat(tables)


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
    result |= independent_unit(plan, totals)
    result |= largest_group(totals)
    result |= {"null_groups": "drop"} if NULL_GROUP in header.get(LEFT_OUT, {}) else {}
    result |= {name: header[name] for name in ROW_COUNTS if name in header}
    if len(provenance) > 1:
        result["merged"] = len(provenance)
    if WITHOUT_BUCKETS in header:
        result[WITHOUT_BUCKETS] = header[WITHOUT_BUCKETS]
    if totals.overall.uses_buckets:
        columns = header["columns"].get("cluster") or header["columns"]["group"]
        result[BY_BUCKET] = {"columns": columns, "used": totals.overall.clusters()}
    return result


def _all_values(values: Iterable[Any]) -> object:
    """Return the only distinct value, or the text of all of them."""
    distinct = sorted(set(values), key=lambda value: (value is None, value))
    if len(distinct) == 1:
        return distinct[0]
    return ", ".join("none" if value is None else str(value) for value in distinct)


def _totals_of(content: Content, plan: Plan) -> Totals:
    """Return totals with the codes of a plan, which may be changed."""
    totals: Totals | None = None
    with suppress(IndexError):  # another thread may take them
        kept = content._kept.pop()
        totals = kept.select(plan) if kept.has_codes_of(plan) else None
    totals = totals or Totals.from_arrays(plan, content.arrays)
    totals.largest = LargestGroup.of_header(content.header)
    return totals


def check_content(content: Content) -> None:
    """Read every array of a state, and its largest group."""
    LargestGroup.of_header(content.header)
    totals = Totals.from_arrays(plan_of([content]), content.arrays)
    if sum(each.nbytes for of in content.arrays.values() for each in of.values()) <= _KEPT_BYTES:
        content._kept.append(totals)
    if content.header["has_groups"]:
        groups_of(content)
