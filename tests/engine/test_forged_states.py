"""Saved states whose content somebody changed, with a valid digest: refused, or read; no crash."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.array_codes import stated_size, table_from_bytes
from fastrank_eval.engine.state_arrays import ALL
from fastrank_eval.engine.state_file import read_state_bytes, state_bytes
from tests.forged_states import foreign, forged

LOG = {
    "user": np.repeat(np.arange(12), 4),
    "click": np.tile([1, 0, 0, 1], 12),
    "new": np.random.default_rng(1).random(48),
    "old": np.random.default_rng(2).random(48),
    "slot": np.tile(["a", "b"], 24),
}


@pytest.fixture(scope="module")
def state() -> fe.State:
    return fe.evaluate(
        LOG,
        group="user",
        label="click",
        score=["new", "old"],
        measures="GAUC,LogLoss,ECE(bins=3),FieldECE(field='slot'),MultiECCE(columns='slot')",
        baseline="old",
        by="slot",
        keep="groups",
    ).state


@pytest.mark.parametrize("seed", range(40))
def test_forged_content_with_a_valid_digest__is_refused_or_read(state: fe.State, seed: int) -> None:
    content = forged(state.to_bytes(), random.Random(seed))  # noqa: S311
    assert list(foreign(content, state)) == []


@pytest.mark.parametrize(
    "entry,value",
    [
        ("models", 3),
        ("baseline", "best"),
        ("provenance", [{}]),
        ("measures", []),
        ("measures", ["GAUC"]),
    ],
)
def test_forged_header__is_refused(state: fe.State, entry: str, value: object) -> None:
    header, states = read_state_bytes(state.to_bytes())
    with pytest.raises(fe.SourceError, match=r"'a state in bytes' is not a state "):
        fe.State.from_bytes(state_bytes({**header, entry: value}, states))


def test_array_of_another_shape__is_refused_with_the_name_of_the_state(state: fe.State) -> None:
    header, states = read_state_bytes(state.to_bytes())
    states[ALL, "", "totals"]["counts"] = np.zeros(3, np.int64)
    with pytest.raises(fe.SourceError, match=r"not a state .*counts of totals are int64 of shape"):
        fe.State.from_bytes(state_bytes(header, states))


@pytest.mark.parametrize("part", ["names", "weights"])
def test_groups_of_other_columns_than_the_header__are_refused(state: fe.State, part: str) -> None:
    header, states = read_state_bytes(state.to_bytes())
    if part == "names":
        header["columns"] = {**header["columns"], "group": ["user", "day"]}
    else:
        groups = states[ALL, "", "values of groups"]
        groups["weights"] = np.concatenate([groups["weights"]] * 2)
    with pytest.raises(fe.SourceError, match="the columns of groups are not those of the header"):
        fe.State.from_bytes(state_bytes(header, states))


def test_terms_of_moments_beyond_any_measure__are_refused_before_memory_is_taken(
    state: fe.State,
) -> None:
    header, states = read_state_bytes(state.to_bytes())
    place = next(place for place, parts in states.items() if "terms" in parts)
    states[place]["terms"] = np.array(2**62)
    with pytest.raises(fe.SourceError, match=r"terms of (moments|sums) must be 1 to 64, got 461"):
        fe.State.from_bytes(state_bytes(header, states))


def test_more_measures_than_an_empty_array_may_have__are_refused_before_memory_is_taken(
    state: fe.State,
) -> None:
    header, states = read_state_bytes(state.to_bytes())
    states[ALL, "new", "groups"]["counts"] = np.zeros((2**40, 0, 3), np.int64)
    with pytest.raises(fe.SourceError, match=r"groups counts is empty, of shape \[1099511627776"):
        fe.State.from_bytes(state_bytes(header, states))


@pytest.mark.parametrize("of, most", [("bins", 3), ("field", 2), ("likelihood", 1)])
def test_more_keys_than_a_measure_has__are_refused_before_memory_is_taken(
    state: fe.State, of: str, most: int
) -> None:
    header, states = read_state_bytes(state.to_bytes())
    place = next(place for place in states if place[0] == ALL and f'["{of}' in place[2])
    states[place]["keys"] = np.array(2**40)
    message = rf"{of}.*keys of sums must be 1 to {most}, got 1099511627776"
    with pytest.raises(fe.SourceError, match=message):
        fe.State.from_bytes(state_bytes(header, states))


def test_sums_of_zeros_beyond_the_ratio__are_written_so_that_they_are_read(
    state: fe.State,
) -> None:
    header, states = read_state_bytes(state.to_bytes())
    states[ALL, "new", "groups"]["counts"] = np.zeros(1 << 24, np.int64)
    _, read = read_state_bytes(state_bytes(header, states))
    assert read[ALL, "new", "groups"]["counts"].shape == (1 << 24,)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_table_inside_a_state__is_refused_before_memory_is_taken(codec: str) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"rows": np.zeros(1 << 20, np.int64)})
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    with pytest.raises(ValueError, match="states more bytes or rows than it has"):
        table_from_bytes(np.frombuffer(sink.getvalue(), np.uint8))


def test_stated_size__counts_batches_and_dictionaries() -> None:
    table = pa.table({"key": pa.array(["a", "b", "a", None]).dictionary_encode()})
    sizes = []
    for codec in (None, "zstd"):
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
            stream.write_table(table)
        sizes.append(stated_size(sink.getvalue()))
    # Offsets of two texts, their letters; valid bits and numbers of four rows.
    assert sizes == [(12 + 2 + 1 + 16, 6), (12 + 2 + 1 + 16, 6)]


def test_stated_size__refuses_the_format_before_version_5() -> None:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    table = pa.table({"rows": [1]})
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    with pytest.raises(ValueError, match="is not version 5"):
        stated_size(sink.getvalue())
