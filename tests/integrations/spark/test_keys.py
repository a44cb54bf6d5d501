"""Rows in order of a hash, without Spark: whole groups, shared hashes, strays."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastrank_eval as fe
from fastrank_eval.integrations.spark import worker
from fastrank_eval.integrations.spark.worker import complete_runs


def sorted_rows(keys: list[tuple[int, int]]) -> pa.RecordBatch:
    """Rows in order of the first hash alone, numbered as they came."""
    numbered = sorted(enumerate(keys), key=lambda row: row[1][0])
    return pa.record_batch(
        {
            "first": pa.array([key[0] for _, key in numbered], pa.int64()),
            "second": pa.array([key[1] for _, key in numbered], pa.int64()),
            "row": pa.array([row for row, _ in numbered], pa.int64()),
        }
    )


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), max_size=40),
    st.lists(st.integers(0, 40), max_size=6),
)
def test_keys_that_share_a_hash__stand_together_however_batches_are_cut(keys, cuts) -> None:
    whole = sorted_rows(keys)
    ends = [0, *sorted(min(cut, len(keys)) for cut in cuts), len(keys)]
    batches = [whole.slice(lo, hi - lo) for lo, hi in itertools.pairwise(ends)]
    found = [
        row for batch in complete_runs(batches, ["first", "second"]) for row in batch.to_pylist()
    ]
    met = [(row["first"], row["second"]) for row in found]
    changes = sum(one != other for one, other in itertools.pairwise(met))
    assert sorted(row["row"] for row in found) == list(range(len(keys)))
    assert changes == max(len(set(keys)) - 1, 0)
    assert [key[0] for key in met] == sorted(key[0] for key in keys)
    for key in set(keys):  # in the order in which they came
        rows = [row["row"] for row in found if (row["first"], row["second"]) == key]
        assert rows == sorted(rows)


def test_no_hash_shared__batches_are_not_copied() -> None:
    batch = sorted_rows([(1, 5), (2, 6), (2, 6), (3, 7)])
    address = batch.column(2).buffers()[1].address
    found = list(complete_runs([batch], ["first", "second"]))
    assert [each.column(2).buffers()[1].address for each in found] == [address] * len(found)


@pytest.mark.parametrize(
    "batches, homes, stray",
    [
        ([[-(2**63), 5, 5], [5, 2**63 - 1]], {}, None),
        ([[1, 2], [3]], {3: 0}, 3),
        ([[1, 3, 2], [4]], {}, 2),
        ([[1, 3], [2, 4]], {}, 2),
    ],
)
def test_key_of_another_partition_or_out_of_order__is_a_fault(batches, homes, stray) -> None:
    names = (worker.HOME, "user", "click", "old")
    options = {"group": ["user"], "label": "click", "score": "old", "measures": ["GAUC"]}
    task = worker.Task(options, 4, frozenset(), keys={"user": ""}, names=names)
    rows = [
        pa.record_batch(
            [
                pa.array([homes.get(key, 1) for key in keys], pa.int32()),
                *(pa.array(keys), pa.array([0] * len(keys)), pa.array([0.5] * len(keys))),
            ],
            names,
        )
        for keys in batches
    ]
    checked = worker._PartitionRows(task, 1, iter(rows))._checked_batches()
    if stray is None:
        assert sum(batch.num_rows for batch in checked) == sum(map(len, batches))
        return
    with pytest.raises(fe.SparkError, match=rf"of a group that belongs elsewhere \(user={stray}\)"):
        list(checked)
