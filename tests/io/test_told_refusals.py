"""What calls with wrong arguments and wrong columns are refused with, from a file."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.io.reader import open_source
from fastrank_eval.slicing.slicer import open_slicings
from tests.io.test_columns import EVERY_ROLE, six_rows
from tests.support import tables
from tests.support.transcripts import Case, cases

#: Three rows of two users, as columns of a log.
LOG = {"user": ["a", "a", "b"], "click": [0, 1, 0], "pctr": [0.1, 0.2, 0.3], "pcvr": [0.5, 0, 0],
       "name": ["a", "b", "c"]}  # fmt: skip


def rows(columns: dict[str, Any] | None = None, **options: Any) -> fe.Result:
    """Evaluate two groups of three rows, with other columns in place of some."""
    return tables.evaluate(six_rows(**(columns or {})), **{**EVERY_ROLE, **options})


def computed(score: Any, **options: Any) -> fe.Result:
    """Evaluate a log by computed scores."""
    return fe.evaluate(LOG, score=score, **{"group": "user", "label": "click", **options})


def log(measures: str, p: list[float] | None = None, **options: Any) -> fe.Result:
    """Evaluate three rows with these scores."""
    table = {"g": [1, 1, 2], "y": [1, 0, 1], "p": p or [0.5, 0.25, 1.0]}
    return fe.evaluate(table, group="g", label="y", score="p", measures=measures, **options)


def slices(by: str, kind: pa.DataType) -> object:
    """Slice a stream of a type that must not be read."""
    return open_slicings(by, open_source(pa.RecordBatchReader.from_batches(
        pa.schema([("c", kind)]), (1 / 0 for _ in range(1))
    )))  # fmt: skip


def read(source: object) -> object:
    """Open a source, and read its users."""
    return list(open_source(source).batches(["user"]))


def confusion(**options: Any) -> object:
    """Count a confusion matrix of one row."""
    return fe.confusion({"y": [1], "s": [0.5]}, **{"label": "y", "score": "s", **options})


@pytest.mark.parametrize("case", cases("calls"), ids=lambda case: ascii(str(case)))
def test_call__with_what_it_cannot_take__says_so(case: Case) -> None:
    case.check(case.answer(globals()))
