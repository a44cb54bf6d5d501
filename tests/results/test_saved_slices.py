"""States with slices, a baseline and groups: merged, they are what one run over all rows gives."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, MergeError
from tests.results.test_saved_states import lines, nights, same_arrays
from tests.support import batched
from tests.support.transcripts import answers

MEASURES = ["GAUC", "GAUC(weight='positives')", "nDCG@3", "AUC", "LogLoss", "FieldECE(field='ad')"]
MORE = ["NumRel", "GMAP", "AUC(se='clustered')", "PPV", "ECE(bins=3)", "AUC(bins=8)", "ECCE"]
MORE += ["MultiECCE(columns='ad')"]
BY = ["slot", "slot,country", "age:20,30.5", "price:width2", "ts:day", "@rows:2,4", "@positives"]


def log_of(seed: int, groups: int, weighted: bool) -> pa.Table:
    """A log whose columns have values that are rare, null, or there in some groups alone."""
    rng = random.Random(seed)  # noqa: S311
    rows: list[dict[str, Any]] = []
    for group in range(groups):
        country = rng.choice(["de", "fr", None, f"c{group % 5}", 'a,"b'])
        rows += [
            {
                "group": f"user {group}",
                "day": group % 2,
                "label": rng.choice([0, 0, 1]),
                "score": rng.choice([rng.random(), 0.0, 0.5]),
                "old": rng.random(),
                "weight": rng.choice([0.0, 0.5, 1.0, 3e-5]) if weighted else 1.0,
                "slot": rng.choice([1, 2, 3, None]),
                "country": country,
                "age": rng.choice([None, 19, 20, 30, 31]),
                "price": rng.choice([0.1, 2.0, 5.5, -1.0, float("nan"), float("inf")]),
                "ts": rng.randrange(3 * 86400),
                "ad": rng.choice(["x", "y", None]),
            }
            for _ in range(rng.randint(1, 7))
        ]
    schema = pa.schema(
        [
            ("group", pa.string()), ("day", pa.int16()), ("label", pa.int8()),
            ("score", pa.float64()), ("old", pa.float64()), ("weight", pa.float64()),
            ("slot", pa.int32()), ("country", pa.string()), ("age", pa.int64()),
            ("price", pa.float64()), ("ts", pa.timestamp("s")), ("ad", pa.string()),
        ]
    )  # fmt: skip
    return pa.Table.from_pylist(rows, schema)


def run(source: Any, **options: Any) -> fe.Result:
    chosen: dict[str, Any] = {
        "group": ["group", "day"], "label": "label", "score": ["score", "old"], "baseline": "old",
        "measures": "GAUC,AUC", "by": ["slot", "slot,country"], "keep": "groups",
        "weight_rows": "ignore", **options,
    }  # fmt: skip
    return batched.evaluate(source, **chosen)


def same_groups(one: fe.Result, other: fe.Result) -> None:
    """Equal tables of groups, which may stand in another order."""
    keys = [("group", "ascending"), ("day", "ascending")]
    assert one.per_group.sort_by(keys).equals(other.per_group.sort_by(keys))


@settings(max_examples=5, deadline=None)
@example(  # all values are null, and one night has no rows
    seed=276,
    groups=1,
    parts=2,
    by=["slot,country"],
    measures=MEASURES,
    weighted=False,
    min_groups=1,
)
@given(
    seed=st.integers(0, 2**32),
    groups=st.integers(0, 16),
    parts=st.integers(1, 4),
    by=st.lists(st.sampled_from(BY), unique=True, min_size=1, max_size=2),
    measures=st.sampled_from([MEASURES, MORE]),
    weighted=st.booleans(),
    min_groups=st.sampled_from([1, 3]),
)
def test_merged_states__are_the_state_of_one_run(
    seed, groups, parts, by, measures, weighted, min_groups, tmp_path_factory
) -> None:
    folder = tmp_path_factory.mktemp("states")
    table = log_of(seed, groups, weighted)
    options: dict[str, Any] = {"min_groups": min_groups, "by": by, "measures": measures}
    if weighted:
        options["weight"] = "weight"
    once = run(table, threads=1, **options)
    states = []
    for number, night in enumerate(nights(table, parts, seed)):
        how = {"threads": 1 + number % 2, "batch_rows": 5 + number}
        run(night, **options, **how).state.save(folder / f"{number}")
        states.append(fe.load_state(folder / f"{number}"))
    random.Random(seed).shuffle(states)  # noqa: S311
    merged = states[0].merge(*states[1:], allow_repeated=True)
    same_arrays(merged, once.state)
    found = merged.result()
    assert lines(found) == lines(once)
    same_groups(found, once)
    differs = {"merged": parts} if parts > 1 else {}
    known = {name: value for name, value in found.meta.conventions.items() if name != "order"}
    wanted = {name: value for name, value in once.meta.conventions.items() if name != "order"}
    assert known == {**wanted, **differs}


def test_state__has_the_same_bytes_in_any_order_threads_and_batches() -> None:
    table = log_of(21, 25, True)
    measures = [*MEASURES, *MORE]
    options: dict[str, Any] = {"weight": "weight", "by": [BY[1], *BY[5:]], "measures": measures}
    once = run(table, **options, threads=1).state
    rows = random.Random(22).sample(range(table.num_rows), table.num_rows)  # noqa: S311
    for source, threads in ((table, 3), (table.take(rows), 2)):
        again = run(source, **options, threads=threads, batch_rows=20).state
        same_arrays(again, once)
        assert again.provenance[0].fingerprint == once.provenance[0].fingerprint


def test_min_groups__is_that_of_the_states_or_another() -> None:
    table = log_of(24, 30, False)
    halves = nights(table, 2, 24)
    first, second = (
        run(half, min_groups=fewest).state for half, fewest in zip(halves, (1, 4), strict=True)
    )
    merged = first.merge(second)
    with pytest.raises(ArgumentError, match=r"min_groups: must be given.* \(--min-groups"):
        merged.result()
    for fewest in (1, 6, 1000):
        once = run(table, min_groups=fewest)
        found = merged.result(min_groups=fewest)
        assert lines(found) == lines(once)
        left_out = found.meta.conventions["slices_left_out"]
        assert left_out == once.meta.conventions["slices_left_out"]


def test_group_in_two_states__is_refused_where_keys_are_kept() -> None:
    table = log_of(30, 12, False)
    cut = table.num_rows // 2
    halves = [table.slice(0, cut), table.slice(cut)]
    name = table["group"][cut].as_py()
    assert table["group"][cut - 1].as_py() == name
    first, second = (run(half).state for half in halves)
    told = rf"both hold rows of the group group='{name}', day=\d: .* \(--allow-crossing\)"
    with pytest.raises(MergeError, match=told):
        first.merge(second)
    both = first.merge(second, allow_crossing=True)
    assert both.groups == 13
    assert both.result().per_group.num_rows == 13
    same_arrays(both, second.merge(first, allow_crossing=True))
    # What is cut already is no reason to refuse other groups.
    assert both.merge(run(log_of(30, 14, False).slice(table.num_rows)).state).groups == 15
    plain = first.without_groups().merge(second.without_groups())
    assert plain.groups == 13
    assert lines(plain.result()) == lines(both.result())


KEYS = {
    "integers": pa.array([3, -1, 2**40]),
    "unsigned": pa.array([2**64 - 1, 0, 7], pa.uint64()),
    "long text": pa.array(["x" * 100, "", "x" * 101]),
    "dictionary": pa.array(["b", "a", "b"]).dictionary_encode(),
    "bytes": pa.array([b"\0", b"", b"\0\0"]),
    "fixed bytes": pa.array([b"ab", b"aa", b"ac"], pa.binary(2)),
    "bools": pa.array([True, False, True]),
    "dates": pa.array([5, 4, 6], pa.date32()),
    "decimals": pa.array([5, 4, 6], pa.decimal128(30, 2)),
    "durations": pa.array([5, 4, 6], pa.duration("s")),
    "intervals": pa.array([(1, 2, 3), (0, 4, 1), (1, 2, 4)], pa.month_day_nano_interval()),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_any_type__are_kept_in_order_and_seen_twice(name: str, tmp_path: Path) -> None:
    keys = pa.chunked_array([KEYS[name].take(pa.array([0, 0, 1, 1, 2, 2]))])
    log = pa.table({"key": keys, "label": [0, 1] * 3, "score": [0.1, 0.4, 0.3, 0.2, 0.5, 0.6]})

    def state(rows: pa.Table) -> fe.State:
        return fe.evaluate(
            rows, group="key", label="label", score="score", measures="GAUC,nDCG",
            order="scattered", keep="groups",
        ).state  # fmt: skip

    whole = state(log)
    whole.save(tmp_path / "whole")
    again = fe.load_state(tmp_path / "whole").result()
    met = again.per_group["key"].to_pylist()
    assert (sorted(met) if name == "intervals" else met) == sorted(set(keys.to_pylist()))
    turned = state(log.take(pa.array([5, 3, 0, 1, 2, 4])))
    same_arrays(turned, whole)
    with pytest.raises(MergeError, match="both hold rows of the group key="):
        state(log.slice(0, 1)).merge(state(log.slice(1)))


test_answers = answers(globals())
