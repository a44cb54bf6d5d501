"""Rows of equal scores under each tie policy, against their definition."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fastrank_eval.groups import ties as ties_module
from fastrank_eval.groups.ties import find_repeated, item_codes, order_by_item, resolve_blocks
from tests.oracles.measures import oracle
from tests.strategies import random_groups
from tests.support.tables import evaluate, table_of

pytestmark = pytest.mark.kernels

GROUPS = [
    *random_groups(201, 12, most_rows=7),
    *random_groups(202, 8, levels=1),
    *random_groups(203, 8, grades=(-2, -1, 0, 1, 2)),
    *random_groups(205, 12, unretrieved=0.3),
    *random_groups(206, 20, levels=1, grades=(0, 0, 0, 1)),
]
MEASURES = (
    *("RR", "RR@1", "RR@2", "P@2", "P@5", "R@2", "Success@1", "Success@3", "AP", "AP@2", "GAUC"),
    *("AP(over='min')@3", "DCG", "DCG@1", "DCG@2", "DCG@4", "nDCG@3", "GAUC(rel=2)", "binG"),
    *("Success(rel=2)@3", "Success@5", "Success"),
)


# ---- order_by_item, item_codes -------------------------------------------------------------------

TEXTS = [
    "", "a", "b", "ab", "abcdefgh", "abcdefg", "abcdefghi", "abcdefgh\x00", "abcdefgh\x00a",
    "abcdefghabcdefgh", "abcdefghabcdefgi", "abcdefghabcdefghz", "é", "\x00",
]  # fmt: skip
ITEMS = {
    "texts": pa.array([*TEXTS, *TEXTS[::-1], "abcdefgh", "b"]),
    "different texts": pa.array(TEXTS),
    "one text": pa.array(["same id"]),
    "no text": pa.array([], pa.string()),
    "integers": pa.array([3, -1, 2**62, -(2**63), 0, 3, 2**63 - 1], pa.int64()),
    "unsigned": pa.array([3, 2**64 - 1, 0, 2**63], pa.uint64()),
    "decimals": pa.array(["-1.5", "2.25", "0.00", "-9.75", "2.25"]).cast(pa.decimal128(9, 2)),
}


@pytest.mark.parametrize("kind", list(ITEMS))
def test_codes__of_items__have_their_order(kind: str) -> None:
    items = ITEMS[kind]
    values = [one.encode() if isinstance(one, str) else one for one in items.to_pylist()]
    codes = item_codes(items).tolist()
    for one, code in zip(values, codes, strict=True):
        assert [code < other for other in codes] == [one < other for other in values]


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("kind", ["texts", "integers"])
def test_order_by_item__sorts_by_score_then_item_inside_each_group(
    kind: str, in_order: bool
) -> None:
    rng = random.Random(4)  # noqa: S311
    items, sizes = ITEMS[kind], [0, 1, 5, 2, 7, 0]
    starts = np.cumsum([0, *sizes])
    rows = [(rng.choice([0.25, 0.5]), rng.randrange(len(items))) for _ in range(starts[-1])]
    if in_order:
        rows = [
            row
            for lo, hi in itertools.pairwise(starts)
            for row in sorted(rows[lo:hi], key=lambda row: -row[0])
        ]
    ids = items.take([item for _, item in rows])
    values = [one.encode() if isinstance(one, str) else one for one in ids.to_pylist()]
    scores = np.array([score for score, _ in rows])
    scores.flags.writeable = False
    wanted = [
        row
        for lo, hi in itertools.pairwise(starts)
        for row in sorted(
            sorted(range(lo, hi), key=lambda row: values[row], reverse=True),
            key=lambda row: -scores[row],
        )
    ]
    assert order_by_item(scores, starts, ids.take, in_order).tolist() == wanted


def test_order_by_item__asks_for_the_items_of_tied_rows_only() -> None:
    scores = np.array([0.5, 0.5, 0.4, 0.4, 0.3])
    scores.flags.writeable = False
    asked: list[int] = []

    def items_at(rows: np.ndarray) -> pa.Array:
        asked.extend(rows.tolist())
        return pa.array(["b", "a", "c", "d"]).take(rows)

    starts = np.array([0, 3, 5])
    assert order_by_item(scores, starts, items_at, True).tolist() == [0, 1, 2, 3, 4]
    assert asked == [0, 1]


# ---- find_repeated -------------------------------------------------------------------------------


def first_repeated(values: list[object], starts: list[int]) -> tuple[int, int] | None:
    """The definition."""
    for lo, hi in itertools.pairwise(starts):
        for second in range(lo, hi):
            if values[second] in values[lo:second]:
                return values.index(values[second], lo), second
    return None


@pytest.mark.parametrize("kind", list(ITEMS))
def test_repeated__is_the_first_item_that_its_group_has_already(kind: str) -> None:
    rng = random.Random(5)  # noqa: S311
    found = set()
    for size in (0, 1, 2, 3, 5) * 8:
        rows = [rng.randrange(len(ITEMS[kind])) for _ in range(size if len(ITEMS[kind]) else 0)]
        cuts = sorted(rng.choices(range(len(rows) + 1), k=2))
        starts = [0, *cuts, len(rows)]
        # A slice: its buffers begin elsewhere.
        items = ITEMS[kind].take(pa.array([*rows[:1], *rows], pa.int64())).slice(len(rows[:1]))
        pair = find_repeated(items, np.array(starts))
        assert pair == first_repeated(items.to_pylist(), starts)
        found.add(pair is None)
    assert True in found
    if len(ITEMS[kind]):
        assert False in found


@pytest.mark.parametrize("kind", ["integers", "texts", "decimals"])
def test_repeated__in_one_long_group(kind: str) -> None:
    numbers = np.random.default_rng(6).permutation(5000)
    items = {
        "integers": pa.array(numbers << 40),
        "texts": pa.array([f"{'x' * (i % 90)}{i}" for i in numbers.tolist()]),
        "decimals": pa.array(numbers).cast(pa.decimal256(60)),
    }[kind]
    starts = np.array([0, 2, 5000])
    assert find_repeated(items, starts) is None
    again = pa.concat_arrays([items, items.slice(4321, 1)])
    assert find_repeated(again, np.array([0, 2, 5001])) == (4321, 5000)
    assert find_repeated(again, np.array([0, 2, 5000, 5001])) is None


def test_repeated__items_of_one_hash_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(offsets: object, content: object, windows: object, hashes: np.ndarray) -> None:
        hashes[:] = 7

    monkeypatch.setattr(ties_module, "_hash_bytes", same)
    assert find_repeated(pa.array(["a", "b", "c"]), np.array([0, 3])) is None
    assert find_repeated(pa.array(["a", "b", "b"]), np.array([0, 3])) == (1, 2)


# ---- resolve_blocks ------------------------------------------------------------------------------


def test_blocks__of_best_and_worst__have_ranks_of_their_own() -> None:
    # Two groups. The first: rows 2 grades up and one down in a block of 5, then a single row.
    offsets = np.array([0, 4, 6])
    block_above = np.array([1, 1, 1, 6, 0, 0])
    block_size = np.array([5, 5, 5, 1, 2, 2])
    grade = np.array([2.0, 1.0, -0.5, 1.0, 3.0, 1.0])
    above = np.zeros(6, np.int64)
    arrays = offsets, block_above, block_size, grade
    assert resolve_blocks(*arrays, "best", above) is None
    assert above.tolist() == [1, 2, 5, 6, 0, 1]
    worst_order = resolve_blocks(*arrays, "worst", above)
    assert worst_order is not None
    assert above.tolist() == [5, 4, 1, 6, 1, 0]
    assert worst_order.tolist() == [2, 1, 0, 3, 5, 4]


# ---- measures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", ["expected", "input", "item", "best", "worst"])
def test_measures__under_a_policy__equal_brute_force(ties: str) -> None:
    equals_oracle(GROUPS, MEASURES, ties, item="item" if ties == "item" else None)


def test_gauc__with_weights__equals_all_pairs() -> None:
    groups = random_groups(204, 40, weights=(0.0, 0.1, 1.0, 2.5e7), unretrieved=0.1, levels=3)
    texts = ("GAUC", "GAUC(rel=2)", "GAUC(min_rows=3, min_positives=2)")
    equals_oracle(groups, texts, "expected", weight="weight")


def equals_oracle(groups: Any, texts: Sequence[str], ties: str, **options: Any) -> None:
    result = evaluate(table_of(groups), texts, ties=ties, unretrieved="allow", **options)
    keys = result.per_group["group"].to_pylist()
    for text in texts:
        wanted = [oracle(text, groups[key], ties) for key in keys]
        assert result[text].tolist() == pytest.approx(wanted, abs=1e-12, nan_ok=True), text
