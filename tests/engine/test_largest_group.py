"""The group that makes few groups count is the same in any order, batches, threads and merges."""

import json
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fastrank_eval as fe
from fastrank_eval.engine.group_table import LARGEST
from fastrank_eval.engine.state_file import read_state_bytes, state_bytes
from fastrank_eval.integrations.spark import worker
from fastrank_eval.integrations.spark.worker import merge_replies
from tests.support import batched
from tests.support.transcripts import answers

OPTIONS: dict[str, Any] = {"label": "y", "score": "s", "measures": "LogLoss"}


def log_of(sizes: Sequence[int], first: int = 0) -> pa.Table:
    """A log in which group g of some numbers of rows has the key g, and the text g; q is a row."""
    keys = np.repeat(np.arange(len(sizes)) + first, sizes)
    row = np.arange(len(keys))
    texts = pa.array([f"g{key}" for key in keys], pa.string())
    labels, scores = (row % 3 == 0).astype(np.int8), row * 7 % 11 / 12 + 0.01
    return pa.table({"g": keys, "t": texts, "y": labels, "s": scores, "q": row})


def named(result: fe.Result) -> dict[str, Any] | None:
    return json.loads(result.to_json())["meta"]["conventions"].get(LARGEST)  # type: ignore[no-any-return]


def expected(sizes: Sequence[int]) -> dict[str, Any] | None:
    """The largest group with a tenth of the squares, if at most half of the groups count."""
    squares, fourth = (sum(n**power for n in sizes) for power in (2, 4))
    most = max(sizes)
    if 10 * most**2 < squares or 2 * squares**2 > len(sizes) * fourth:
        return None
    key = min((str(g), g) for g, n in enumerate(sizes) if n == most)[1]
    return {"key": {"g": key}, "rows": most}


sizes_of_groups = st.lists(st.integers(1, 30), min_size=1, max_size=12)


@settings(deadline=None, max_examples=8)
@given(
    sizes_of_groups,
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(1, 3),
    st.sampled_from([{"group": "g"}, {"group": "q", "cluster": "g"}]),
)
@example([1, 9, 9, 1, 1, 1], 0, 3, 2, {"group": "g"})
@example([1, 9, 9, 1, 1, 1], 0, 3, 2, {"group": "q", "cluster": "g"})
@example([30, 30], 0, 7, 1, {"group": "g"})
def test_group__in_any_order_batches_threads_and_merges__is_that_of_the_definition(
    sizes, seed, batch_rows, threads, unit
) -> None:
    log, random = log_of(sizes), np.random.default_rng(seed)
    shuffled = log.take(random.permutation(len(log)))
    evaluate = partial(batched.evaluate, **unit, **OPTIONS, batch_rows=batch_rows, threads=threads)
    for rows in (log, shuffled):
        assert named(evaluate(rows)) == expected(sizes)

    whole = random.integers(0, 3, len(sizes))[log["g"].to_numpy()]
    parts = [log.filter(pa.array(whole == part)) for part in range(3)]
    states = [batched.partial(part, **unit, **OPTIONS, keep="groups") for part in parts]
    merges = [
        states[0].merge(*states[1:], allow_repeated=True),
        reduce(lambda one, other: one.merge(other, allow_repeated=True), states[::-1]),
    ]
    for state in merges:
        read = fe.State.from_bytes(state.to_bytes())
        assert named(read.result()) == expected(sizes)
        assert read.header.get(LARGEST) == merges[0].header.get(LARGEST)


KEYS = np.repeat([7, *range(20, 60)], [30, *[1] * 40])
IDS = pa.array([int(key).to_bytes(16, "big") for key in KEYS], pa.binary(16))


@pytest.mark.parametrize(
    "column, key, text",
    [
        (pa.array(KEYS, pa.uint16()), 7, "7"),
        (pa.array([f"u {key}" for key in KEYS]), "u 7", "u 7"),
        (pa.array([f"a,{key}" for key in KEYS]).dictionary_encode(), "a,7", '"a,7"'),
        (pa.array(["" if key == 7 else str(key) for key in KEYS]), "", '""'),
        (pa.array([f"{key}\n" * 99 for key in KEYS]), "7\n" * 99, '"' + "7\\n" * 19 + "7..."),
        (IDS, f"0x{7:032x}", f"0x{7:032x}"),
        (pa.ExtensionArray.from_storage(pa.uuid(), IDS), str(UUID(int=7)), str(UUID(int=7))),
        (pa.array(KEYS, pa.int32()).cast(pa.date32()), "1970-01-08", "1970-01-08"),
        (pa.array(KEYS, pa.timestamp("s", "UTC")), "1970-01-01T00:00:07Z", "1970-01-01T00:00:07Z"),
        (pa.array(KEYS).cast(pa.decimal128(22, 2)), "7", "7"),
    ],
    ids=[
        "integer", "string", "dictionary", "empty", "long", "bytes", "uuid", "date", "time",
        "decimal",
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ["grouped", "scattered"])
def test_key__of_any_type__is_printed_as_labels_print_it(column, key, text, order) -> None:
    row = np.arange(len(column))
    columns = {"y": (row % 3 == 0).astype(np.int8), "s": row * 7 % 11 / 12 + 0.01}
    log = pa.table({"g": column, "odd": KEYS % 2 == 1, **columns})
    for group, record, shown in (
        ("g", {"g": key}, f"g={text}"),
        (["odd", "g"], {"odd": True, "g": key}, f"odd=true, g={text}"),
    ):
        result = batched.evaluate(log, group=group, **OPTIONS, order=order, keep="state")
        assert named(result) == {"key": record, "rows": 30}
        assert f"large group {shown}: 42.9% of the rows\n" in repr(result)
        read = fe.State.from_bytes(result.state.to_bytes())
        assert named(read.result()) == named(result)


def test_states_that_may_share_the_group__know_at_least_its_rows() -> None:
    one = log_of([100, *[1] * 99])
    two = log_of([90, *[1] * 110])
    for keep in ("", "groups"):
        states = [batched.partial(each, group="g", **OPTIONS, keep=keep) for each in (one, two)]
        merged = states[0].merge(states[1], allow_crossing=True)
        assert named(merged.result()) == {"key": {"g": 0}, "rows": 100, "at_least": True}
        assert "large group g=0: at least 25.1% of the rows" in repr(merged.result())
        other_way = states[1].merge(states[0], allow_crossing=True)
        for again in (merged.without_groups(), merged.merge(), other_way):
            assert named(again.result()) == named(merged.result())


def test_states_of_other_groups__know_all_rows_of_the_group_if_they_keep_keys() -> None:
    logs = log_of([100, *[1] * 99]), log_of([90, *[1] * 110], first=1000)
    for keep in ("", "groups"):
        states = [batched.partial(each, group="g", **OPTIONS, keep=keep) for each in logs]
        record = {"key": {"g": 0}, "rows": 100, **({} if keep else {"at_least": True})}
        assert named(states[0].merge(states[1]).result()) == record
    # A state without rows has no part of any group.
    empty = batched.partial(logs[0].slice(0, 0), group="g", **OPTIONS)
    alone = batched.partial(logs[0], group="g", **OPTIONS).merge(empty)
    assert named(alone.result()) == {"key": {"g": 0}, "rows": 100}


def test_group_of_one_state__is_not_named_beside_many_others() -> None:
    small = batched.partial(log_of([10, *[1] * 9]), group="g", **OPTIONS)
    large = batched.partial(log_of([9] * 400, first=100), group="g", **OPTIONS)
    assert named(small.result()) == {"key": {"g": 0}, "rows": 10}
    for merged in (small.merge(large), large.merge(small)):
        assert named(merged.result()) is None
        assert LARGEST not in merged.header


@pytest.mark.parametrize("record", [{"key": {"g": 0}}, {"key": {"g": 0}, "rows": "many"}, 5])
def test_malformed_group__is_refused(record: object) -> None:
    content = batched.partial(log_of([100, *[1] * 99]), group="g", **OPTIONS).to_bytes()
    header, arrays = read_state_bytes(content)
    with pytest.raises(fe.SourceError, match="is not a state that this version can read"):
        fe.State.from_bytes(state_bytes({**header, LARGEST: record}, arrays))


@pytest.mark.parametrize("key, keep", [("g", False), ("t", False), ("t", True)])
def test_partitions_of_spark__name_the_group_if_they_know_its_key(key, keep, monkeypatch) -> None:
    log = log_of([100, *[1] * 99])
    hashes = dict.fromkeys(worker.HASHES["group"], log["g"].to_numpy())
    home = log["g"].to_numpy() % 4
    columns = {
        worker.HOME: home,
        "y": log["y"],
        "s": log["s"],
        **({key: log[key]} if key == "g" or keep else {}),
    }
    columns |= hashes if key == "t" else {}
    keys = ["g"] if key == "g" else list(hashes)
    group = [key] if keep else keys
    task = worker.Task(
        {**OPTIONS, "group": group, "measures": ["LogLoss"]}, 4, frozenset(["values"] * keep),
        keys=dict.fromkeys(keys, ""), names=tuple(columns),
    )  # fmt: skip
    rows = pa.table(columns)
    replies = []
    for number in range(4):
        monkeypatch.setattr(worker, "_partition_number", lambda number=number: number)
        part = rows.filter(pa.array(home == number))
        replies += [Reply(row) for reply in worker.partition_state(task, iter(part.to_batches()))
                    for row in reply.to_pylist()]  # fmt: skip
    assert [reply.fault for reply in replies] == [None] * 4
    empty = batched.partial(log.slice(0, 0), group=key, **OPTIONS)
    job = merge_replies(
        replies,
        {"y": empty},
        4,
        {"sources": ["DataFrame"], "where": None},
        [key],
        [],
        lambda *_: "",
    )
    result = job.states["y"].result()
    named_key = {"g": 0} if key == "g" else {"t": "g0"} if keep else None
    assert named(result) == {"key": named_key, "rows": 100}
    text = "large group " + ("g=0" if key == "g" else "t=g0")
    assert (f"{text}: 50.3% of the rows" in repr(result)) == (named_key is not None)
    told = "one large group: 50.3% of the rows; keep='groups' names it"
    assert (told in repr(result)) == (named_key is None)


class Reply:
    """A row of a reply, as Spark hands it on."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.partition, self.rows, self.compiled = row["partition"], row["rows"], row["compiled"]
        self.states, self.fault = row["states"], row["fault"]


test_answers = answers(globals())
