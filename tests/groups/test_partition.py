"""Scattered rows of integer keys: the same bits for any spread of the keys."""

import numpy as np
import pyarrow as pa
import pytest

from fastrank_eval import UndefinedError
from tests.engine.test_engine import exactly
from tests.strategies import EVERY_KIND
from tests.support import batched

pytestmark = pytest.mark.kernels

ROLES = {"group": "group", "label": "label", "score": "score", "order": "scattered"}
ROWS = 1500
LABELS = {"int8": np.int8, "uint8": np.uint8, "bool": np.bool_}
SCORES = [0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, 1e-45, -1e-45, 0.25, -7.0, 3e38]
SPREADS = {
    "close": lambda n: n - 75,
    "multiples of a power": lambda n: n * 256 - 20_000,
    "multiples of a high power": lambda n: n << 56,
    "close to 32 bits": lambda n: n * 14_000_000,
    # The keys of a batch fit 32 bits; those of all batches do not.
    "wide when put together": lambda n: n + np.repeat(np.arange(5) << 40, ROWS // 5),
    "at the ends of the type": lambda n: np.where(
        np.arange(ROWS) < ROWS // 2, n + np.iinfo(np.int64).min, np.iinfo(np.int64).max - n
    ),
    "some batches wide": lambda n: np.where(np.arange(ROWS) % 600 < 300, n, n << 40),
}


def log_of(spread, kind="int8", seed=1):
    rng = np.random.default_rng(seed)
    label = (rng.random(ROWS) < 0.1).astype(LABELS[kind])
    if kind == "int8":
        label = label * rng.integers(0, 4, ROWS).astype(np.int8)
    return pa.table(
        {
            "group": SPREADS[spread](rng.integers(0, 150, ROWS).astype(np.int64)),
            "label": label,
            "score": rng.choice(np.array(SCORES, np.float32), ROWS),
        }
    )


def summary(table, measures=EVERY_KIND, **options) -> list:
    result = batched.evaluate(table, measures=measures, **ROLES, **options)
    return [{name: exactly(x) for name, x in line.items()} for line in result.document()["results"]]


@pytest.mark.compiled
@pytest.mark.parametrize("ties", ["expected", "best", "worst"])
@pytest.mark.parametrize("spread", SPREADS)
def test_scattered_rows__give_the_same_bits_as_rows_with_numbers(spread, ties):
    table = log_of(spread)
    wanted = summary(table, ties=ties, keep="values")
    for options in ({"batch_rows": 300}, {"batch_rows": 210, "threads": 3}, {}):
        assert summary(table, ties=ties, keep="", **options) == wanted, options


def test_scattered_rows__of_two_keys_whose_lengths_change_places():
    table = log_of("close")
    numbers = table["group"].to_numpy() + 75
    # In the first half the first text has one word and the second two; then the other way round.
    long = np.where(np.arange(ROWS) < ROWS // 2, 0, 9)
    texts = [
        pa.array([f"{n % 9:0{w}}" for n, w in zip(numbers, long, strict=True)]),
        pa.array([f"{n // 9:0{9 - w}}" for n, w in zip(numbers, long, strict=True)]),
    ]
    pairs = [f"{a} {b}" for a, b in zip(*(text.to_pylist() for text in texts), strict=True)]
    wanted = summary(table.set_column(0, "group", pa.array(pairs)))
    two = table.append_column("a", texts[0]).append_column("b", texts[1])
    for options in ({"batch_rows": ROWS // 2}, {"batch_rows": 4 * ROWS // 2, "threads": 2}, {}):
        roles = {**ROLES, **options, "group": ["a", "b"], "measures": EVERY_KIND}
        result = batched.evaluate(two, **roles)
        got = [{n: exactly(x) for n, x in line.items()} for line in result.document()["results"]]
        assert got == wanted, options


@pytest.mark.parametrize("kind", LABELS)
def test_scattered_rows__of_every_label_of_one_byte(kind):
    table = log_of("close", kind)
    assert summary(table, keep="") == summary(table, keep="values")


def test_scattered_rows__with_negative_labels():
    table = log_of("close")
    table = table.set_column(1, "label", pa.array(table["label"].to_numpy() - np.int8(1)))
    texts = ["DCG(gain='linear')", "RR", "GAUC"]
    assert summary(table, texts, keep="") == summary(table, texts, keep="values")


@pytest.mark.parametrize("spread", ["close", "at the ends of the type", "close to 32 bits"])
def test_undefined_group__of_scattered_rows_is_named_by_its_key(spread):
    table = log_of(spread)
    keys, clicks = table["group"].to_numpy(), table["label"].to_numpy()
    without = {int(key) for key in keys} - {int(key) for key in keys[clicks > 0]}
    assert without
    with pytest.raises(UndefinedError, match="is undefined for the group group=") as caught:
        summary(table, "AP", undefined="error", keep="")
    named = int(str(caught.value).partition("group=")[2].partition(" ")[0])
    assert named in without


@pytest.mark.slow("many batches of rows")
@pytest.mark.parametrize("kind", ["integer", "hash", "string"])
def test_scattered_rows__of_many_batches(kind):
    rows = 300_000
    rng = np.random.default_rng(5)
    users = np.minimum(rng.zipf(1.3, rows), 40_000)
    keys = {
        "integer": pa.array(users),
        "hash": pa.array((users.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64)),
        "string": pa.array([f"user {user}" for user in users.tolist()]),
    }[kind]
    table = pa.table(
        {
            "group": keys,
            "label": (rng.random(rows) < 0.05).astype(np.int8),
            "score": (rng.integers(0, 1000, rows) / 8).astype(np.float32),
        }
    )
    means = ["GAUC", "nDCG@10", "AP", "AUC"]
    ordered = table.sort_by([("group", "ascending"), ("score", "descending")])
    wanted = batched.evaluate(ordered, measures=means, **{**ROLES, "order": "sorted"})
    for options in ({"keep": ""}, {"batch_rows": 100_000, "threads": 2}):
        got = batched.evaluate(table, measures=means, **ROLES, **options)
        assert got.meta.groups == wanted.meta.groups
        assert [got.value(m) for m in means] == [wanted.value(m) for m in means]
