"""What each partition of a Spark job is asked for: plain data, so that it can travel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

__all__ = ["FIRST_HASH", "REPLY", "SECOND_HASH", "VALUES", "Task", "batch_in", "stream_of"]

#: Columns that stand for keys which are not integers.
FIRST_HASH, SECOND_HASH = "first hash of the group", "second hash of the group"
#: What a partition replies with: one row of a few counts and its state, or what is wrong.
REPLY = "partition long, rows long, compiled long, state binary, fault string"
#: The distinct values of a column and their rows, as an Arrow stream.
VALUES = "column long, values binary"


@dataclass(frozen=True)
class Task:
    """The evaluation of one partition.

    Parameters
    ----------
    options : mapping of str to object
        What `evaluate` takes, measures and slices as texts.
    key : str
        The column that rows are partitioned and sorted by: an integer key, or its first hash.
    key_bits : int
        Its width.
    hashed : tuple of str
        Key columns that two hashes stand for; empty for an integer key.
    partitions : int
        How many there are.
    names : tuple of str
        The columns of batches, which travel under other names: not all that a column may be called
        is taken by Spark's ways into Python.
    edges : mapping of str to bytes
        Edges of quantiles, found before, each an Arrow stream of one column.
    keep_groups : bool
        Keep keys and values of every group.
    keep_scores : bool
        Keep scores as numbers, for curves.
    version : str
        Of fastrank_eval where the job was made.
    """

    options: Mapping[str, Any]
    key: str
    key_bits: int
    hashed: tuple[str, ...]
    partitions: int
    names: tuple[str, ...]
    edges: Mapping[str, bytes]
    keep_groups: bool
    keep_scores: bool
    version: str


def stream_of(batch: pa.RecordBatch) -> bytes:
    """A batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def batch_in(stream: bytes) -> pa.RecordBatch:
    """The batch that `stream_of` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
        return reader.read_next_batch()
