"""The engine against plain Python, to the last bit, however the rows are cut, read and shared."""

import itertools
import math
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastrank_eval import (
    ArgumentError,
    ColumnError,
    FastRankEvalError,
    testing,
)
from fastrank_eval.measures import measure
from tests.oracles.measures import Row, classes, oracle, pooled, resolved
from tests.strategies import EVERY_KIND
from tests.support.tables import evaluate, table_of
from tests.support.transcripts import answers


def lines(result) -> dict[str, dict]:
    return {line["measure"]: line for line in result.document()["results"]}


def exactly(number):
    """A float as text that tells every bit; anything else as it is."""
    return number.hex() if isinstance(number, float) else number


def bits(result) -> list:
    """Every number of a result to the last bit, and the groups in their order."""
    columns = result.per_group
    by_group = {n: [exactly(x) for x in columns[n].to_pylist()] for n in columns.column_names}
    summary = [
        {name: exactly(x) for name, x in line.items()} for line in result.document()["results"]
    ]
    return [by_group, summary]


SIZES = (1, 3, 2, 17, 1, 1, 4, 2, 9, 1, 6, 5)
ROWS = sum(SIZES)
RNG = np.random.default_rng(23)
GROUPS = [
    [
        Row(int(RNG.integers(0, 6)) / 8, int(RNG.integers(0, 3)), float(RNG.integers(0, 9)) / 10)
        for _ in range(size)
    ]
    for size in SIZES
]
LARGE = max(GROUPS, key=len)  # its rows have too many orders to enumerate
TABLE = table_of(GROUPS, pa.int8())


def reader(table, rows) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=rows))


def layouts(table, folder, batch_rows, threads=(1, 2)):
    """The same rows cut, chunked, stored, streamed, scattered and shared out in many ways."""
    rows = table.num_rows
    for size, workers in itertools.product(batch_rows, threads):
        yield table, {"batch_rows": size, "threads": workers}
    for cut in range(1, rows, 7):
        yield pa.concat_tables([table.slice(0, cut), table.slice(cut)]), {"batch_rows": 8}
    for size in (1, 5, rows):
        chunks = [table.slice(lo, size) for lo in range(0, rows, size)]
        yield pa.concat_tables(chunks), {"batch_rows": 3, "threads": 2}
        yield reader(table, size), {"threads": 3}
        yield reader(table, size), {"batch_rows": 4}
        path = folder / f"by {size}.parquet"
        pq.write_table(table, path, row_group_size=size)
        yield path, {}
        yield path, {"order": "grouped", "batch_rows": size, "threads": 2}
        parts = folder / f"parts of {size}"
        parts.mkdir()
        for number, chunk in enumerate(chunks):
            pq.write_table(chunk, parts / f"{number}.parquet")
        yield parts, {"batch_rows": 7}
    for workers in threads:
        yield table, {"order": "scattered", "threads": workers}
        yield reader(table, 5), {"order": "scattered", "threads": workers}


# ---- plain Python, exact -------------------------------------------------------------------------

EXACT = ("GAUC", "P@3", "R@3", "RR", "Success@2")


def exact_value(text, rows) -> float:
    """A ratio of whole numbers, rounded once; NaN where it is undefined."""
    if text == "GAUC":
        positive, negative = classes(rows, 1)
        won = sum(
            2 * (p.score > n.score) + (p.score == n.score)
            for p, n in itertools.product(positive, negative)
        )
        pairs = 2 * len(positive) * len(negative)
        return float(Fraction(won, pairs)) if pairs else math.nan
    hit = [label >= 1 for label in resolved(rows, "input")]
    if text == "P@3":
        return float(Fraction(sum(hit[:3]), 3))
    if text == "R@3":
        return float(Fraction(sum(hit[:3]), sum(hit))) if any(hit) else math.nan
    if text == "RR":
        return 1 / (hit.index(True) + 1) if any(hit) else 0.0
    return float(any(hit[:2]))


def exact_mean(text, values) -> float:
    weights = [float(size) if text == "GAUC" else 1.0 for size in SIZES]
    used = [(w, v) for w, v in zip(weights, values, strict=True) if not math.isnan(v)]
    return float(sum(Fraction(w * v) for w, v in used) / sum(Fraction(w) for w, _ in used))


def test_engine__equals_plain_python_bit_for_bit_in_every_layout(tmp_path):
    values = {text: [exact_value(text, rows) for rows in GROUPS] for text in EXACT}
    pooled_value = exact_value("GAUC", list(itertools.chain(*GROUPS)))
    for source, options in layouts(TABLE, tmp_path, range(1, ROWS + 2, 2), (1, 2, 4)):
        result = evaluate(source, [*EXACT, "AUC"], ties="input", **options)
        assert result.per_group["group"].to_pylist() == list(range(len(GROUPS)))
        assert result.per_group["rows"].to_pylist() == list(SIZES)
        for text in EXACT:
            assert np.array_equal(result[text], values[text], equal_nan=True), (text, options)
            assert result.value(text) == exact_mean(text, values[text]), (text, options)
        assert result.value("AUC") == pooled_value, options


def test_engine__every_measure_has_the_same_bits_in_every_layout(tmp_path):
    whole = evaluate(TABLE, EVERY_KIND, order="scattered", threads=1)
    for text in EVERY_KIND:
        if not measure(text).pooled:
            plain = [[row._replace(weight=1.0) for row in rows] for rows in GROUPS if rows != LARGE]
            wanted = [oracle(text, rows) for rows in plain]
            found = np.delete(whole[text], GROUPS.index(LARGE))
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12, err_msg=text)
            line = lines(whole)[text]
            assert line["groups_used"] + sum(line["dropped"].values()) == line["groups"] == 12
    for source, options in layouts(TABLE, tmp_path, (1, 2, 3, 10, 25, ROWS)):
        assert bits(evaluate(source, EVERY_KIND, **options)) == bits(whole), options


def test_engine__row_weights_have_the_same_bits_in_every_layout(tmp_path):
    texts = ["GAUC", "GAUC(weight='pairs')", "AUC", "AUC(max_fpr=0.3)"]
    whole = evaluate(TABLE, texts, weight="weight", order="scattered", threads=1)
    wanted = [oracle("GAUC", rows) for rows in GROUPS]
    np.testing.assert_allclose(whole["GAUC"], wanted, rtol=0, atol=1e-12)
    everything = list(itertools.chain(*GROUPS))
    assert whole.value("AUC") == pytest.approx(pooled("AUC", everything), abs=1e-12)
    for source, options in layouts(TABLE, tmp_path, (1, 2, 3, 10, 25, ROWS)):
        assert bits(evaluate(source, texts, weight="weight", **options)) == bits(whole), options


@pytest.mark.parametrize("spread", ["close", "sparse", "text", "texts of many lengths"])
def test_scattered_rows__dealt_to_many_pieces_change_no_bit(spread, monkeypatch):
    numbers = TABLE["group"].to_numpy()
    keys = {
        "close": numbers * 2 - 9,
        "sparse": np.random.default_rng(1).integers(-(2**63), 2**63 - 1, len(SIZES))[numbers],
        "text": pa.array([f"user {number}" for number in numbers]),
        "texts of many lengths": pa.array([chr(97 + n % 3) * (n * n) for n in numbers.tolist()]),
    }[spread]
    contiguous = TABLE.set_column(0, "group", pa.array(keys))
    order = np.random.default_rng(2).permutation(ROWS)
    wanted = bits(evaluate(contiguous.take(order), EVERY_KIND, threads=1))
    means = wanted[1]
    assert bits(evaluate(contiguous, EVERY_KIND))[1] == means
    for rows, threads, stretch in itertools.product((1, 3, 20), (1, 2), (4, 1000)):
        monkeypatch.setattr("fastrank_eval.groups.partition.CHUNK_ROWS", rows)
        options = {"threads": threads, "batch_rows": stretch}
        assert bits(evaluate(contiguous.take(order), EVERY_KIND, **options)) == wanted


def test_giant_group__that_spans_many_stretches():
    rng = np.random.default_rng(31)
    sizes = [2, 700, 1, 3]
    groups = [
        [Row(float(rng.integers(0, 40)), int(rng.random() < 0.1), 1.0) for _ in range(size)]
        for size in sizes
    ]
    table = table_of(groups, pa.int8())
    whole = evaluate(table, EVERY_KIND, threads=1)
    wanted = [exact_value("GAUC", rows) for rows in groups]
    assert np.array_equal(evaluate(table)["GAUC"], wanted, equal_nan=True)
    for batch_rows, threads in itertools.product((1, 7, 64, 699), (1, 3)):
        for source in (table, reader(table, 50)):
            result = evaluate(source, EVERY_KIND, batch_rows=batch_rows, threads=threads)
            assert bits(result) == bits(whole), (batch_rows, threads)


def test_users_own_threads__change_no_bit():
    wanted = bits(evaluate(TABLE, EVERY_KIND))
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(evaluate, TABLE, EVERY_KIND, threads=1 + n % 3) for n in range(12)]
        assert all(bits(job.result()) == wanted for job in jobs)


# ---- several scores, no groups kept, no rows, the first rows -------------------------------------


@pytest.mark.parametrize("order", ["auto", "scattered"])
def test_groups_not_kept__give_the_same_summary(order):
    texts = [*EVERY_KIND, "RR(weight='impressions')"]
    kept = evaluate(TABLE, texts, order=order, batch_rows=5)
    given = evaluate(TABLE, texts, order=order, batch_rows=5, keep="")
    assert given.document()["results"] == kept.document()["results"]
    with pytest.raises(FastRankEvalError, match="keep="):
        _ = given.per_group


@pytest.mark.parametrize("order", ["auto", "sorted", "grouped", "scattered"])
def test_no_rows__are_a_result_of_no_groups(order):
    empty = TABLE.slice(0, 0)
    for source in (empty, reader(empty, 1), pa.table(empty.schema.empty_table())):
        result = evaluate(source, EVERY_KIND, order=order)
        assert (result.meta.rows, result.meta.groups, result.per_group.num_rows) == (0, 0, 0)
        assert result.per_group.schema.field("group").type == pa.int64()
        for line in lines(result).values():
            assert (line["value"], line["groups"], line["dropped"]) == (None, 0, {})


def test_limit__reads_the_first_rows_and_no_more():
    for limit in (*range(1, ROWS, 9), ROWS, ROWS + 5, 10**20):
        wanted = bits(evaluate(TABLE.slice(0, min(limit, ROWS)), EVERY_KIND))
        for options in ({}, {"batch_rows": 4}, {"order": "scattered"}):
            given = evaluate(TABLE, EVERY_KIND, limit=limit, **options)
            assert bits(given) == wanted, limit
            assert given.meta.conventions["limit"] == limit

    def batches():
        yield from TABLE.to_batches(max_chunksize=10)[:2]
        pytest.fail("a batch past the limit was read")

    source = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    assert evaluate(source, limit=20).meta.rows == 20


# ---- undefined groups, coverage ------------------------------------------------------------------

MIXED = [
    [Row(0.3, 1), Row(0.2, 0)],
    [Row(0.3, 0), Row(0.2, 0), Row(0.1, 0)],
    [Row(0.2, 1)],
    [Row(0.1, 1), Row(0.2, 0)],
]


# ---- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["auto", "scattered"])
def test_group_weight__column_must_be_constant_inside_groups(order):
    spend = np.repeat(np.arange(len(SIZES)) % 4 * 1.5, SIZES)
    table = TABLE.append_column("spend", pa.array(spend))
    values = [exact_value("GAUC", rows) for rows in GROUPS]
    weights = [number % 4 * 1.5 for number in range(len(SIZES))]
    used = [(w, v) for w, v in zip(weights, values, strict=True) if w and not math.isnan(v)]
    wanted = float(sum(Fraction(w * v) for w, v in used) / sum(Fraction(w) for w, _ in used))
    for batch_rows in (1, 4, None):
        options = {"order": order, "batch_rows": batch_rows}
        result = evaluate(table, "GAUC(weight='spend')", **options)
        assert result.value("GAUC(weight='spend')") == wanted
        for row in (4, 22, 27):
            broken = spend.copy()
            broken[row] += 1
            varying = TABLE.append_column("spend", pa.array(broken))
            group = TABLE["group"][row].as_py()
            with pytest.raises(ColumnError, match=rf"'spend' is not constant.*group={group}\b"):
                evaluate(varying, "RR(weight='spend')", **options)


def test_weight_rows__are_refused_or_ignored_where_ranks_have_no_weight():
    texts = ["GAUC", "nDCG@3", "AUC", "RR"]
    with pytest.raises(ArgumentError, match=r"'weight'.*nDCG@3, RR.*weight_rows='ignore'"):
        evaluate(TABLE, texts, weight="weight")
    ignored = evaluate(TABLE, texts, weight="weight", weight_rows="ignore")
    weighted = evaluate(TABLE, ["GAUC", "AUC"], weight="weight")
    plain = evaluate(TABLE, texts)
    for text in texts:
        same, other = (weighted, plain) if text in ("GAUC", "AUC") else (plain, weighted)
        assert ignored.value(text) == same.value(text)
        assert text not in other.measures or other.value(text) != same.value(text)


@pytest.mark.parametrize("power", [-90, -40, 40, 90])
def test_row_weights__of_any_magnitude_change_nothing(power):
    texts = ["GAUC", "GAUC(weight='uniform')", "GAUC(weight='positives')", "AUC"]
    testing.weights_times_a_constant(texts, GROUPS, 2.0**power)


@pytest.mark.parametrize(
    "columns,texts",
    [
        ({"label": [1.7e308, 1.7e308, 1.0]}, "CG(gain='linear'),RR"),
        ({"label": [1.7e308, 1.7e308, 1.0]}, "nDCG(gain='linear'),RR"),
        ({"label": [1023.0, 1023.0, 1.0]}, "CG,RR"),
        ({"weight": [1.7e308, 1.7e308, 1.0]}, "GAUC,GAUC(weight='uniform')"),
        ({"weight": [1e200, 1e200, 1.0]}, "GAUC(weight='pairs'),GAUC"),
        ({"spend": [1.7e308, 1.7e308, 1.7e308]}, "CG(gain={1: 10}, weight='spend'),RR"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_numbers_past_the_largest_double__are_refused_not_summed(columns, texts):
    plain = {"group": [1, 1, 2], "label": [0, 1, 1], "score": [0.1, 0.2, 0.3]}
    weight = "weight" if "weight" in columns else None
    with pytest.raises(FastRankEvalError):
        evaluate({**plain, **columns}, texts, weight=weight)


@pytest.mark.skipif(
    not hasattr(threading, "_shutdown_locks_lock"), reason="of CPython before 3.13 alone"
)
def test_threads__left_to_a_collection_of_garbage_while_another_starts__are_not_waited_for():
    left = """
import threading
from fastrank_eval._lib.threads import map_jobs
left = map_jobs(2, lambda job: job, range(100))
next(left)
with threading._shutdown_locks_lock:  # as a thread that starts holds it
    left.close()
"""
    assert subprocess.run([sys.executable, "-c", left], timeout=60, check=False).returncode == 0


test_answers = answers(globals())
