"""Saved states with a valid digest whose header or arrays somebody changed.

``python -m tests.forged_states 600`` tries so many and prints what raises another error.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

import fastrank_eval as fe
from fastrank_eval._lib.arrow import table_bytes, table_from_bytes
from fastrank_eval.engine.state_arrays import Rows
from fastrank_eval.engine.state_file import read_state_bytes, state_bytes

Content = tuple[dict[str, Any], dict[Any, dict[str, np.ndarray]]]

_ODD = (
    None, True, -1, 0, 2**70, 1.5, "", "x", "\ud800", "[", [], [None], ["x"], {}, {"x": {}},
    {"x": None}, [[1]], [{}], "GAUC", "skip", '["slot"]',
)  # fmt: skip


def forged_header(header: dict[str, Any], rng: random.Random) -> None:
    """Change one entry, at any depth."""
    at: Any = header
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = rng.choice(keys)
        if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.6:
            at = at[key]
            continue
        if rng.random() < 0.25:
            del at[key]
        elif isinstance(at, dict) and rng.random() < 0.15:
            at[rng.choice(["", "x", '["x"'])] = at.pop(key)
        else:
            at[key] = rng.choice(_ODD)
        return


def forged_array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Another shape, type or other numbers."""
    way = rng.randrange(7)
    if way == 0:
        return array.astype(rng.choice(["uint8", "uint16", "uint64", "int64", "float64"]))
    if way == 1:
        return array.reshape(-1)[: rng.randrange(array.size + 1)]
    if way == 2:
        return array[None] if rng.random() < 0.5 else array[..., None]
    if way == 3:
        return np.concatenate([array, array]) if array.ndim else array.reshape(1)
    if way == 4:
        return np.swapaxes(array, 0, -1) if array.ndim else array[None, None]
    changed = array.copy().reshape(-1)
    if not changed.size:
        return np.zeros(3, array.dtype)
    number = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
    for _ in range(rng.choice([1, 1, 5])):
        value = rng.choice([number.min, number.max, 0, 1, 1 << 7, number.max // 2])
        changed[rng.randrange(changed.size)] = value
    return changed.reshape(array.shape)


def forged_table(content: np.ndarray, rng: random.Random) -> np.ndarray:
    """A column less, of another type or with nulls; fewer rows; or other bytes."""
    table = table_from_bytes(content)
    column = rng.randrange(table.num_columns)
    name, values = table.column_names[column], table.column(column)
    way = rng.randrange(6)
    if way == 0:
        table = table.drop_columns([name])
    elif way == 1:
        table = table.set_column(column, "x", values)
    elif way == 2:
        kind = rng.choice([pa.null(), pa.int8(), pa.list_(pa.int64()), pa.string(), pa.float64()])
        table = table.set_column(column, name, pa.nulls(len(table), kind))
    elif way == 3:
        table = table.slice(0, len(table) // 2)
    elif way == 4:
        table = table.set_column(column, name, pa.array([[n] for n in range(len(table))]))
    else:
        changed = content.copy()
        changed[rng.randrange(len(changed))] ^= rng.randrange(1, 256)
        return changed
    return table_bytes(table)


def with_header(content: bytes, header: dict[str, Any]) -> bytes:
    """The file with another header."""
    table, old = file_in(content)
    texts = {name: json.dumps(value) for name, value in header.items()}
    kept = {name: old[name] for name in ("format", "writer", "digest")}
    named = {f"fastrank_eval.{name}": text for name, text in (kept | texts).items()}
    return file_of(table.replace_schema_metadata(named))


def with_slicing(content: bytes, rng: random.Random) -> bytes:
    """The file with an array of another slicing, which may not be there."""
    table, _ = file_in(content)
    numbers = table["slicing"].to_pylist()
    numbers[rng.randrange(len(numbers))] = rng.choice([None, -1, 0, 1, 2**31 - 1])
    return file_of(table.set_column(0, "slicing", pa.array(numbers, pa.int32())))


def file_in(content: bytes) -> tuple[pa.Table, dict[str, str]]:
    """Rows and metadata of a file, its digest replaced by zeros."""
    zeros = re.sub(rb"(?<=sha256:)[0-9a-f]{64}", b"0" * 64, content)
    table = pa.ipc.open_file(zeros).read_all()
    texts = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    return table, {name.removeprefix("fastrank_eval."): text for name, text in texts.items()}


def file_of(table: pa.Table, compression: str | None = None) -> bytes:
    """A file with its digest."""
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, table.schema, options=options) as file:
        file.write_table(table)
    content = sink.getvalue()
    digest = hashlib.sha256(content).hexdigest().encode()
    return content.replace(b"sha256:" + b"0" * 64, b"sha256:" + digest)


def forged(content: bytes, rng: random.Random) -> bytes:
    """One thing changed, and the digest of it."""
    header, states = read_state_bytes(content)
    places = sorted(states)
    place = rng.choice(places)
    way = rng.randrange(10)
    if way < 3:
        forged_header(header, rng)
        return with_header(content, header)
    if way == 9:
        return with_slicing(content, rng)
    if way == 3:
        states.pop(place)
    elif way == 4:
        other = list(place)
        rows = [Rows(), Rows(label="x"), Rows("slot"), Rows("slot", "x"), Rows("slot", "slot=a")]
        at = rng.randrange(3)
        other[at] = rng.choice(["", "x", "[", '["slot"]'] if at else rows)
        states[tuple(other)] = states.pop(place)
    else:
        part = rng.choice(sorted(states[place]))
        if way == 5:
            states[place].pop(part)
        elif part == "table":
            states[place][part] = forged_table(states[place][part], rng)
        else:
            states[place][part] = forged_array(states[place][part], rng)
    return state_bytes(header, states)


def uses(good: fe.State) -> list[Callable[[fe.State], object]]:
    """What can be done with a state."""
    again = {"allow_repeated": True, "allow_crossing": True}
    return [
        lambda state: state.result(confidence=0.9, min_groups=1).to_json(),
        lambda state: state.result(confidence=0.9, min_groups=1).per_group,
        lambda state: state.compare(baseline="old", confidence=0.9, min_groups=1),
        lambda state: state.merge(state, **again).to_bytes(),
        lambda state: state.merge(good, **again).result(confidence=0.9, min_groups=1),
        lambda state: good.merge(state, allow_repeated=True),
        lambda state: (state.without_groups(), state.without_slices()),
        lambda state: (repr(state), state.slicings, state.baseline, state.requested),
    ]


def foreign(content: bytes, good: fe.State) -> Iterator[str]:
    """What reading it raises that is none of our errors; no use of it may end the process."""
    try:
        state = fe.State.from_bytes(content)
    except fe.FastRankEvalError:
        return
    except Exception as error:
        yield f"load: {type(error).__name__}: {error}"
        return
    for use in uses(good):
        with suppress(Exception):
            use(state)


def a_state() -> fe.State:
    """One of every kind of sums."""
    from tests.golden_state import golden_result

    return golden_result().state


def main(tries: int) -> None:
    """Forge so many states."""
    good, bad = a_state(), 0
    content = good.to_bytes()
    for seed in range(tries):
        sys.stderr.write(f"{seed}\r")
        broken = forged(content, random.Random(seed))  # noqa: S311
        for found in foreign(broken, good):
            bad += 1
            sys.stdout.write(f"{seed}: {found}\n")
    sys.stdout.write(f"{tries:,} states, {bad} other errors\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
