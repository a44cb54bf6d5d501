"""Keys of float columns, and rows without a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as papq
import pytest

import fastrank_eval as fe
from tests.support.transcripts import answers

USERS = [1, 1, 1, None, 2, 2, None, 3, 3]
CLICK = [1, 0, 0, 1, 0, 1, 0, 1, 0]
SCORE = [0.9, 0.8, 0.1, 0.5, 0.4, 0.3, 0.2, 0.2, 0.7]
OPTIONS: dict[str, Any] = {"group": "user", "label": "click", "score": "score"}
MEASURES = "GAUC,AUC,RR"


def log(users: Any = USERS) -> dict[str, Any]:
    return {"user": users, "click": CLICK, "score": SCORE}


def left_out(result: fe.Result) -> int:
    counts: Any = result.meta.conventions["rows_left_out"]
    return int(counts["null_group"]["rows"])


def values(result: fe.Result) -> list[float]:
    return [value.value for value in result]


def whole_rows() -> fe.Result:
    rows = [row for row, user in enumerate(USERS) if user is not None]
    kept = {name: [column[row] for row in rows] for name, column in log().items()}
    return fe.evaluate(kept, **OPTIONS, measures=MEASURES)


FLOATS = np.array([np.nan if user is None else user for user in USERS])


@pytest.mark.parametrize(
    "source",
    [
        pa.table(log()),
        pa.table(log(pa.array(USERS, pa.float64()))),
        pa.table(log(pa.array(USERS).dictionary_encode())),
        pd.DataFrame(log()),
        pl.DataFrame(log([None if user is None else f"u{user}" for user in USERS])),
        log(FLOATS),
        log(FLOATS.astype(np.float16)),
    ],
    ids=["int", "double", "dictionary", "pandas", "polars", "NaN", "half"],
)  # fmt: skip
def test_null_groups__drop__leaves_rows_out_and_counts_them(source: Any) -> None:
    with pytest.raises(fe.ColumnError, match=r"null in 2 row\(s\).*null_groups='drop'"):
        fe.evaluate(source, **OPTIONS, measures=MEASURES)
    result = fe.evaluate(source, **OPTIONS, measures=MEASURES, null_groups="drop")
    assert values(result) == values(whole_rows())
    assert result.meta.rows == 7
    assert left_out(result) == 2
    assert "2 rows without a group key left out" in repr(result)


def test_null_groups__of_files_rows_conditions_and_streams__counts_once(tmp_path: Path) -> None:
    table = pa.table(log())
    papq.write_table(table, tmp_path / "log.parquet", row_group_size=2)
    scattered = table.take([0, 3, 7, 1, 4, 6, 2, 5, 8])
    sources: list[Any] = [tmp_path / "log.parquet", scattered, iter(table.to_batches())]
    for source in sources:
        result = fe.evaluate(source, **OPTIONS, measures=MEASURES, null_groups="drop")
        assert values(result) == values(whole_rows())
        assert left_out(result) == 2
    result = fe.evaluate(
        table, **OPTIONS, measures="RR", null_groups="drop", where="score < 0.3", by="click"
    )
    assert left_out(result) == 1
    comparison = fe.compare(
        {**log(), "other": SCORE[::-1]}, group="user", label="click", score=["score", "other"],
        baseline="score", measures="RR", null_groups="drop",
    )  # fmt: skip
    assert "2 rows without a group key left out" in repr(comparison)


def test_null_groups__error_in_a_row__gives_its_number_in_the_input(tmp_path: Path) -> None:
    def message(source: Any, **options: Any) -> str:
        with pytest.raises((fe.ColumnError, fe.OrderError)) as error:
            fe.evaluate(source, **OPTIONS, measures="GAUC", null_groups="drop", **options)
        return str(error.value)

    wrong = pa.table({**log(), "score": [*SCORE[:5], np.nan, *SCORE[6:]]})
    for name, table in (("a", pa.table(log())), ("b", wrong)):
        papq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=2)
    for source in (wrong, tmp_path / "b.parquet"):
        assert "in 1 row(s), first in row 5 (counted from 0)" in message(source)
        assert "It is" not in message(source)
    folder = message(tmp_path)
    assert "first in row 14 (counted from 0)" in folder
    assert folder.endswith(f"It is row 5 of {str(tmp_path / 'b.parquet')!r}.")
    # Without the row of click 0 and score 0.8, as where counts.
    selected = message(wrong, where="score != 0.8 or click = 1")
    assert "first in row 4 (counted from 0)" in selected
    assert selected.endswith("It is row 4 of the rows that where selects.")
    rising = message(pa.table(log()), order="sorted")
    assert "rises inside a group at row 8 (counted from 0): 0.2 is followed by 0.7" in rising
    # A stream cannot be read again.
    assert message(iter(wrong.to_batches())).endswith("It is row 4 of those with a group key.")


def test_null_groups__with_a_limit__are_counted_before_the_last_row() -> None:
    users = [1, 1, None, 2, 2, None, 3, 3, None]
    for limit, rows in ((2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (9, 3)):
        for source in (
            pa.table(log(users)),
            iter(pa.table(log(users)).to_batches(max_chunksize=2)),
        ):
            result = fe.evaluate(source, **OPTIONS, measures="RR", null_groups="drop", limit=limit)
            assert (result.meta.rows, left_out(result)) == (min(limit, 6), rows)


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_key__whole_numbers_of_a_float_type__are_those_integers(kind: pa.DataType) -> None:
    users = [7, 7, 7, -1, 2, 2, 0, 3, 3]
    whole = fe.evaluate(log(users), **OPTIONS, measures=MEASURES)
    floats = pa.array(np.array(users, np.float64)).cast(kind)
    result = fe.evaluate(pa.table(log(floats)), **OPTIONS, measures=MEASURES)
    assert values(result) == values(whole)
    assert result.per_group["user"].to_pylist() == whole.per_group["user"].to_pylist()


@pytest.mark.parametrize(
    "kind, limit", [(pa.float16(), 2**11), (pa.float32(), 2**24), (pa.float64(), 2**53)]
)
def test_key__float_that_two_integers_share__is_refused(kind: pa.DataType, limit: int) -> None:
    users = pa.array([limit - 1.0, limit - 1.0, 1.0]).cast(kind)
    rows = {"user": users, "click": [1, 0, 1], "score": [0.3, 0.2, 0.1]}
    assert fe.evaluate(pa.table(rows), **OPTIONS, measures="RR").meta.groups == 2
    rows["user"] = pa.array([float(limit), 1.0, 2.0]).cast(kind)
    with pytest.raises(fe.ColumnError, match="not a whole number below"):
        fe.evaluate(pa.table(rows), **OPTIONS, measures="RR")


test_answers = answers(globals())
