"""Saved states whose content somebody changed, with a valid digest: refused, or read; no crash."""

import random
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.arrow import stated_size, table_from_bytes
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
    measures = "GAUC,LogLoss,ECE(bins=3),FieldECE(field='slot'),MultiECCE(columns='slot')"
    columns = {"group": "user", "label": "click", "score": ["new", "old"], "baseline": "old"}
    options = {"by": "slot", "keep": "groups,clusters"}
    return fe.evaluate(LOG, measures=measures, **columns, **options).state


@pytest.mark.parametrize("seed", range(40))
def test_forged_content_with_a_valid_digest__is_refused_or_read(state: fe.State, seed: int) -> None:
    content = forged(state.to_bytes(), random.Random(seed))  # noqa: S311
    assert list(foreign(content, state)) == []


def refused(state: fe.State, change: Callable[[dict, dict], object], message: str) -> None:
    """Read a state whose header or arrays somebody changed."""
    header, states = read_state_bytes(state.to_bytes())
    change(header, states)
    with pytest.raises(fe.SourceError, match=message):
        fe.State.from_bytes(state_bytes(header, states))


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
    message = r"'a state in bytes' is not a state "
    refused(state, lambda header, _: header.update({entry: value}), message)


def test_array_of_another_shape__is_refused_with_the_name_of_the_state(state: fe.State) -> None:
    def change(_: dict, states: dict) -> None:
        states[ALL, "", "totals"]["counts"] = np.zeros(3, np.int64)

    refused(state, change, "not a state .*counts of totals are int64 of shape")


def more_names(header: dict, _: dict) -> None:
    header["columns"] = {**header["columns"], "group": ["user", "day"]}


def more_weights(_: dict, states: dict) -> None:
    groups = states[ALL, "", "values of groups"]
    groups["weights"] = np.concatenate([groups["weights"]] * 2)


@pytest.mark.parametrize("change", [more_names, more_weights])
def test_groups_of_other_columns_than_the_header__are_refused(state: fe.State, change) -> None:
    refused(state, change, "the columns of groups are not those of the header")


def test_terms_of_moments_beyond_any_measure__are_refused_before_memory_is_taken(state) -> None:
    def change(_: dict, states: dict) -> None:
        next(parts for parts in states.values() if "terms" in parts)["terms"] = np.array(2**62)

    refused(state, change, r"terms of (moments|sums) must be 1 to 64, got 461")


def test_more_measures_than_an_empty_array_may_have__are_refused_before_memory_is_taken(
    state,
) -> None:
    def change(_: dict, states: dict) -> None:
        states[ALL, "new", "groups"]["counts"] = np.zeros((2**40, 0, 3), np.int64)

    refused(state, change, r"groups counts is empty, of shape \[1099511627776")


@pytest.mark.parametrize(
    "of, most", [("bins", 3), ("field", 2), ("likelihood", 1), ("buckets", 1024)]
)
def test_more_keys_than_a_measure_has__are_refused_before_memory_is_taken(state, of, most) -> None:
    def change(_: dict, states: dict) -> None:
        named = (place for place in states if place[0] == ALL and place[2].startswith(f'["{of}'))
        place = next(named)
        states[place]["keys"] = np.array(2**40)

    refused(state, change, rf"{of}.*keys of sums must be 1 to {most}, got 1099511627776")


def test_sums_of_zeros_beyond_the_ratio__are_written_so_that_they_are_read(state) -> None:
    header, states = read_state_bytes(state.to_bytes())
    zeros = states[ALL, "new", "groups"]["counts"] = np.zeros((1 << 23) + 1, np.int64)
    _, read = read_state_bytes(state_bytes(header, states))
    assert read[ALL, "new", "groups"]["counts"].shape == zeros.shape


def stream_of(table: pa.Table, **options: object) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    written = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(sink, table.schema, options=written) as stream:
        stream.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_table_inside_a_state__is_refused_before_memory_is_taken(codec: str) -> None:
    content = stream_of(pa.table({"rows": np.zeros(1 << 20, np.int64)}), compression=codec)
    with pytest.raises(ValueError, match="states more bytes or rows than it has"):
        table_from_bytes(np.frombuffer(content, np.uint8))


def test_stated_size__counts_batches_and_dictionaries() -> None:
    table = pa.table({"key": pa.array(["a", "b", "a", None]).dictionary_encode()})
    sizes = [stated_size(stream_of(table, compression=codec)) for codec in (None, "zstd")]
    # Offsets of two texts, their letters; valid bits and numbers of four rows.
    assert sizes == [(12 + 2 + 1 + 16, 6), (12 + 2 + 1 + 16, 6)]


def test_stated_size__refuses_the_format_before_version_5() -> None:
    content = stream_of(pa.table({"rows": [1]}), metadata_version=pa.ipc.MetadataVersion.V4)
    with pytest.raises(ValueError, match="is not version 5"):
        stated_size(content)
