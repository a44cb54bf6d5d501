"""Read and write files of saved states."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arguments import matches_annotation, shown
from fastrank_eval._lib.array_codes import Arrays
from fastrank_eval._lib.errors import FastRankEvalError, SourceError
from fastrank_eval._lib.version import __version__
from fastrank_eval.engine.plan import Plan
from fastrank_eval.measures.pooled import ClusteredMeasure
from fastrank_eval.stats.moments import ClusterMoments

__all__ = ["Provenance", "StateHeader", "check_header"]


#: The version of the format that is written and read.
FORMAT = 2


class Rows(NamedTuple):
    """The rows that a state is of.

    Parameters
    ----------
    by : str
        A slicing, which may be as long as its edges are many; empty of all rows.
    label : str
        One slice of it; empty of what has a line for each slice.
    """

    by: str = ""
    label: str = ""


#: Rows, model and name of a state.
Place = tuple[Rows, str, str]

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
_TYPES = ("uint8", "uint16", "uint32", "uint64", "int64", "float64")
_PREFIX = "fastrank_eval."
_MARK = b"fastrank_eval state, sha256:"
_DIGITS = 64
_MAGIC = b"ARROW1"
#: Bytes in which the mark of a state is found: Arrow writes the last entry of metadata first.
_START = 1 << 22
_ZEROS = b"0" * _DIGITS
#: Bytes of content in a record batch.
_BATCH = 1 << 24


def write_state(part: Path, header: Mapping[str, Any], states: Mapping[Place, Arrays]) -> None:
    """Write a file, its digest last.

    Parameters
    ----------
    part : Path
        A file that exists, to be written over.
    header : mapping of str to JSON values
    states : mapping
        The arrays of each state.
    """
    with part.open("wb") as sink:
        _write(sink, header, states)
    content = part.read_bytes()
    digest = hashlib.sha256(content).hexdigest().encode()
    with part.open("r+b") as whole:
        for place in _places(content, _MARK + _ZEROS):
            whole.seek(place + len(_MARK))
            whole.write(digest)


def state_bytes(header: Mapping[str, Any], states: Mapping[Place, Arrays]) -> bytes:
    """What `write_state` would write to a file."""
    sink = io.BytesIO()
    _write(sink, header, states)
    content = sink.getvalue()
    return content.replace(_MARK + _ZEROS, _MARK + hashlib.sha256(content).hexdigest().encode())


def _write(sink: IO[bytes], header: Mapping[str, Any], states: Mapping[Place, Arrays]) -> None:
    """Write a file with zeros for its digest."""
    metadata = {
        "format": str(FORMAT),
        "writer": __version__,
        **{name: json.dumps(value, allow_nan=False) for name, value in header.items()},
        "digest": (_MARK + _ZEROS).decode(),
    }
    schema = _SCHEMA.with_metadata({_PREFIX + name: text for name, text in metadata.items()})
    codec = "zstd" if pa.Codec.is_available("zstd") else None
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(sink, schema, options=options) as file:
        for batch in _batches(states, list(header["slicings"]), schema):
            file.write_batch(batch)


def _batches(
    states: Mapping[Place, Arrays], slicings: list[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    numbers: dict[str, int | None] = {"": None} | {by: at for at, by in enumerate(slicings)}
    rows: list[tuple[Any, ...]] = []
    size = 0
    for ((by, label), model, state), parts in states.items():
        for name, array in parts.items():
            little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
            place = numbers[by], label, model, state, name
            rows.append((*place, array.dtype.name, list(array.shape), little.tobytes()))
            size += little.nbytes + sum(map(len, place[1:]))
            if size >= _BATCH:
                yield _batch(rows, schema)
                rows, size = [], 0
    if rows:
        yield _batch(rows, schema)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        pa.array(column, field.type)
        for column, field in zip(zip(*rows, strict=True), schema, strict=True)
    ]
    return pa.record_batch(columns, schema=schema)


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[Place, Arrays]]:
    """Read a file: its header, and the arrays of each state.

    Raises
    ------
    SourceError
        If it cannot be read, is no saved state, is damaged, or is of a newer format.
    """
    shown = os.fspath(path)
    try:
        # Not mapped: a file cut short meanwhile would end the process by a signal.
        with Path(shown).open("rb") as handle:
            if not os.fstat(handle.fileno()).st_size:
                raise _foreign(shown, "it is empty")
            content = handle.read()
    except OSError as error:
        raise SourceError(
            f"cannot read the saved state {shown!r}: {error.strerror or error}."
        ) from error
    return state_in(content, shown)


def state_in(
    content: bytes, shown: str = "these bytes"
) -> tuple[dict[str, Any], dict[Place, Arrays]]:
    """Read what `state_bytes` gave, called `shown` in messages; raises as `read_state` does."""
    if not content:
        raise _foreign(shown, "it is empty")
    _check_digest(content, shown)
    return _opened(pa.BufferReader(content), shown)


def _opened(source: pa.NativeFile, shown: str) -> tuple[dict[str, Any], dict[Place, Arrays]]:
    with sound(repr(shown)), pa.ipc.open_file(source) as file:
        return _read(file, shown)


@contextmanager
def sound(shown: str) -> Iterator[None]:
    """Take whatever the content of a state makes fail for a fault of that content.

    A digest says that bytes are those written, not who wrote them: arrays may lack, be of another
    shape, or hold numbers that mean nothing.

    Parameters
    ----------
    shown : str
        What messages call the state, in quotes if it is a name.

    Raises
    ------
    SourceError
        Instead of any error that is not ours.
    """
    try:
        yield
    except FastRankEvalError:
        raise
    except Exception as error:
        raise malformed(shown, f"{type(error).__name__}: {error}") from error


def is_state(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a saved state, be it damaged or of a newer format; False without a file."""
    shown = Path(path)
    try:
        if not shown.is_file():
            return False
        with shown.open("rb") as handle:
            start = handle.read(_START)
    except OSError:
        return False
    return start.startswith(_MAGIC) and _MARK in start


def malformed(shown: str, why: object) -> SourceError:
    """What is said of content whose bytes are those written, but do not make a state."""
    reason = (str(why).splitlines() or ["unknown fault"])[0]
    return SourceError(
        f"{shown} is no state that this version can read: {reason}; write it anew with "
        "--save-state."
    )


def _check_digest(content: bytes, shown: str) -> None:
    if content[:6] != _MAGIC:
        raise _foreign(shown, "it is no Arrow IPC file")
    at = content.find(_MARK)
    if at < 0:
        raise _foreign(shown, "it bears no mark of one")
    mark = content[at : at + len(_MARK) + _DIGITS]
    digest, done = hashlib.sha256(), 0
    with memoryview(content) as view:
        for place in _places(content, mark):
            digest.update(view[done : place + len(_MARK)])
            digest.update(_ZEROS)
            done = place + len(mark)
        digest.update(view[done:])
    if digest.hexdigest().encode() != mark[len(_MARK) :]:
        raise SourceError(
            f"the saved state {shown!r} is damaged: its bytes are not those that were written (cut "
            "short, or changed); copy it again, or write it anew with --save-state."
        )


def _places(content: bytes, mark: bytes) -> list[int]:
    places, at = [], content.find(mark)
    while at >= 0:
        places.append(at)
        at = content.find(mark, at + len(mark))
    return places


def _foreign(shown: str, why: str) -> SourceError:
    return SourceError(
        f"{shown!r} is no saved state: {why}; name a file that --save-state (in Python: "
        "State.save) has written."
    )


def _read(file: pa.RecordBatchFileReader, shown: str) -> tuple[dict[str, Any], dict[Place, Arrays]]:
    texts = {
        key.decode().removeprefix(_PREFIX): value.decode()
        for key, value in (file.schema.metadata or {}).items()
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
    states: dict[Place, Arrays] = {}
    for number in range(file.num_record_batches):
        batch = file.get_batch(number)
        batch.validate(full=True)
        names = [batch.column(name).to_pylist() for name in _SCHEMA.names[:-1]]
        content = batch.column("content")
        for row, (number, *place, part, kind, shape) in enumerate(zip(*names, strict=True)):
            label, model, state = place
            if kind not in _TYPES:
                raise SourceError(f"{shown!r}: unknown type {kind!r} of {state} {part}.")
            buffer = content[row].as_buffer()
            array = np.frombuffer(buffer, np.dtype(kind).newbyteorder("<"))
            # A copy: Arrow aligns no value by itself.
            array = array.astype(kind).reshape(shape)
            states.setdefault((Rows(slicings[number], label), model, state), {})[part] = array
    return header | {"writer": writer}, states


ALL = Rows()
#: Of all rows, or of the lines of a slicing: groups, rows and positives, sums over groups, and
#: those of a model beside the baseline.
TOTALS, GROUPS, PAIRS = "totals", "groups", "pairs"
#: The slices of a slicing; keys and values of every group.
SLICES, VALUES = "slices", "values of groups"


class Saveable(Protocol):
    """What every state can do."""

    def merge(self, other: Any) -> None:
        """Add another state of the same setup, which may be used up."""
        ...

    def saved(self) -> Arrays:
        """Arrays that tell all of it, the same however rows came in."""
        ...

    @classmethod
    def loaded(cls, parts: Mapping[str, np.ndarray]) -> Self:
        """The state that `saved` wrote."""
        ...


class StateSpec(NamedTuple):
    """What is kept of rows under a name.

    Parameters
    ----------
    kind : type
        The class of the state.
    field : str or None
        The column whose values it tells apart.
    """

    kind: type[Saveable]
    field: str | None


def state_specs(plan: Plan) -> dict[str, StateSpec]:
    """What a plan keeps of the rows of each model, by name."""
    kept = {}
    for key, measure in plan.pools.items():
        field = next(iter(measure.columns_named()), None)
        kept[name_of(key)] = StateSpec(type(measure.new_state(plan.weighted, 1)), field)
    return kept


def paired_state_specs(plan: Plan) -> dict[str, StateSpec]:
    """What a plan keeps of the rows of each model that is compared with the baseline, by name."""
    if plan.baseline is None:
        return {}
    return {
        pair_of(key): StateSpec(ClusterMoments, None)
        for key, measure in plan.pools.items()
        if isinstance(measure, ClusteredMeasure)
    }


def name_of(key: Hashable) -> str:
    """The name of the state that measures of a key share."""
    return json.dumps(key)


def pair_of(key: Hashable) -> str:
    """The name of the moments of two models' terms."""
    return json.dumps([PAIRS, key])


def values_of(field: str) -> Place:
    """Where the values of a field stand."""
    return ALL, "", json.dumps(["values of a field", field])


def totals_in(parts: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return groups, rows and positives, a row a line."""
    counts = parts["counts"]
    if counts.dtype != np.int64 or counts.ndim != 2 or counts.shape[1] != 3:
        raise ValueError(f"counts of totals are {counts.dtype} of shape {counts.shape}")
    if counts.min(initial=0) < 0:
        raise ValueError("counts of totals are below 0")
    return counts


def fingerprint_of(measures: list[str], states: Mapping[Place, Arrays]) -> str:
    """What tells sums from others: the same for the same rows, whatever they were called."""
    slicings = sorted({place[0].by for place in states})
    numbers = {by: number for number, by in enumerate(slicings)}
    digest = hashlib.sha256(json.dumps([measures, slicings]).encode())
    for (rows, model, state), parts in sorted(states.items()):
        if state in (SLICES, VALUES):
            continue
        for name, array in sorted(parts.items()):
            place = numbers[rows.by], rows.label, model, state
            told = (*place, name, array.dtype.name, array.shape)
            digest.update(json.dumps(told).encode())
            digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()


#: What a header must have, as annotations; what else it has is left alone.
_HEADER = {
    "conventions_version": "int",
    "conventions": "Mapping[str, Any]",
    "columns": "Mapping[str, Any]",
    "score_types": "Mapping[str, str]",
    "measures": "list[str]",
    "requested": "Mapping[str, str]",
    "models": "list[str]",
    "baseline": "str | None",
    "slicings": "Mapping[str, Mapping[str, list[str]]]",
    "has_groups": "bool",
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
class Provenance:
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
        if not matches_annotation(entries[name], kind):
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
        states: Mapping[Place, Arrays],
        shown: str | None = None,
    ) -> None:
        self._header = dict(header)
        self._states = dict(sorted(states.items()))
        self.seen = tuple(
            Provenance(**{**seen, "sources": tuple(seen["sources"])}) for seen in header["seen"]
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
    def requested(self) -> dict[str, str]:
        """What measures were called that a profile gave other options."""
        return dict(self._header["requested"])

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
    def has_groups(self) -> bool:
        """Whether keys and values of every group are there."""
        return bool(self._header["has_groups"])

    @property
    def slicings(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """By what rows are cut into slices, and the edges of each part that has edges."""
        return {
            by: {name: tuple(edges) for name, edges in parts.items()}
            for by, parts in self._header["slicings"].items()
        }
