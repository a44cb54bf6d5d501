"""Rows in order of a hash, without Spark: whole groups, shared hashes, strays."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastrank_eval.integrations.spark.worker import complete_runs, first_misplaced, partition_of
from tests.support.transcripts import answers


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


# Of Spark 4.3: pmod(hash(key), 200) of a bigint and of an int.
@pytest.mark.parametrize(
    "key, wide, narrow", [(0, 5, 191), (1, 69, 43), (-1, 193, 13), (2**31 - 1, 71, 47)]
)
def test_partition__is_that_of_spark(key, wide, narrow) -> None:
    assert partition_of(key, 64, 200) == wide
    assert partition_of(key, 32, 200) == narrow


def stray(keys: list[int], before: int | None, mine: int, partitions: int = 4) -> int:
    return first_misplaced(np.array(keys, np.int64), before, 64, partitions, mine)


test_answers = answers(globals())
