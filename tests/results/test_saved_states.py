"""States: saved, loaded and merged, they give the numbers of one run, to the last bit."""

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, MergeError
from fastrank_eval.stats.score_runs import ScoreRuns
from fastrank_eval.stats.scores import PooledScores
from tests.measures.test_pooled import ORDERED, WEIGHTS, probable_groups
from tests.strategies import POOLED_VARIANTS
from tests.support.tables import evaluate, table_of
from tests.support.transcripts import answers

POOLED = [text for texts in POOLED_VARIANTS.values() for text in texts]
OF_GROUPS = ["GAUC", "GAUC(weight='positives')", "nDCG@3", "GMAP", "P@3", "NumRel", "GroupPPV"]
MEASURES = [*POOLED, *OF_GROUPS]


def state_of(source: Any, measures: Any = MEASURES, **options: Any) -> fe.Result:
    nulls = {"unretrieved": "allow", "unjudged": "allow", "weight_rows": "ignore"}
    return evaluate(source, measures, **{**nulls, "keep": "state", **options})


def lines(result: fe.Result) -> list[tuple[Any, ...]]:
    """Every line, floats as their bits."""

    def told(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: told(inner) for name, inner in value.items()}
        return value.hex() if isinstance(value, float) else value

    return [tuple(told(value) for value in vars(line).values()) for line in result]


def same_arrays(one: fe.State, other: fe.State) -> None:
    assert one.arrays.keys() == other.arrays.keys()
    for place, parts in one.arrays.items():
        assert parts.keys() == other.arrays[place].keys(), place
        for name, array in parts.items():
            again = other.arrays[place][name]
            assert (array.dtype, array.shape) == (again.dtype, again.shape), (place, name)
            assert np.array_equal(array, again), (place, name)


def nights(table: pa.Table, parts: int, seed: int) -> list[pa.Table]:
    """Whole groups dealt to some tables at random, some of which may get none."""
    rng = random.Random(seed)  # noqa: S311
    owner: dict[object, int] = {}
    names = table["group"].to_pylist()
    of_row = np.array([owner.setdefault(name, rng.randrange(parts)) for name in names], np.int64)
    return [table.filter(pa.array(of_row == part)) for part in range(parts)]


@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(0, 25),
    parts=st.integers(1, 3),
    weight=st.sampled_from([None, "weight"]),
    levels=st.sampled_from([None, (0.25, 0.5, 0.75)]),
    lacking=st.sampled_from([0.0, 0.1]),
)
def test_merged_states__are_the_state_of_one_run(
    seed, count, parts, weight, levels, lacking, tmp_path_factory
) -> None:
    folder = tmp_path_factory.mktemp("states")
    groups = probable_groups(
        seed, count, weights=WEIGHTS, levels=levels, unretrieved=lacking, unjudged=0.1
    )
    measures = [*ORDERED, *OF_GROUPS] if lacking else MEASURES
    once = state_of(table_of(groups), measures, weight=weight, threads=1)
    states = []
    for number, table in enumerate(nights(table_of(groups), parts, seed)):
        options = {"threads": 1 + number % 2, "batch_rows": 7 + number}
        state_of(table, measures, weight=weight, **options).state.save(folder / f"{number}")
        states.append(fe.load_state(folder / f"{number}"))
    random.Random(seed).shuffle(states)  # noqa: S311
    merged = states.pop()
    while states:  # in any grouping
        merged = states.pop().merge(merged, allow_repeated=True)
    assert lines(merged.result()) == lines(once)
    same_arrays(merged, once.state)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("spread", ["dealt", "counted"])
def test_many_scores__are_saved_as_few_are(kind, spread, monkeypatch) -> None:
    generator = np.random.default_rng(14)
    score = np.round(generator.standard_normal(4000), 3).astype(kind)
    log = {
        "group": np.repeat(np.arange(400), 10),
        "label": generator.integers(0, 2, 4000),
        "score": score,
        "weight": generator.choice([0.0, 0.5, 1e-3, 7.0], 4000),
    }
    for weight in (None, "weight"):
        measures = ["AUC", "PRAUC", "AUC(se='clustered')"]
        few = state_of(log, measures, weight=weight).state
        with monkeypatch.context() as patch:
            patch.setattr(ScoreRuns, "FEW_ROWS", 0)
            patch.setattr(PooledScores, "BUFFER_BYTES", 1 << (26 if spread == "dealt" else 13))
            many = state_of(log, measures, weight=weight, batch_rows=700).state
            same_arrays(many, few)
            assert lines(few.merge().result()) == lines(many.result())


VALUES = {
    "text": ["", "ä", "b" * 100, "b" * 101, None, "x"],
    "large text": pa.array(["", "y" * 200, None, "z"], pa.large_string()),
    "bytes": [b"\0", b"", b"\0\0", None],
    "integers": [-1, 0, 2**62, None, 256],
    "small integers": pa.array([-1, 0, 127], pa.int8()),
    "unsigned": pa.array([2**64 - 1, 0, 1], pa.uint64()),
    "bools": [True, False, None],
    "timestamps": pa.array([0, 1, 10**15], pa.timestamp("us")),
    "decimals": pa.array([1, 2, None], pa.decimal128(30, 2)),
    "nulls": pa.nulls(3),
}


@pytest.mark.parametrize("name", VALUES)
def test_field__values_meet_their_equals(name: str) -> None:
    values = pa.array(VALUES[name]) if isinstance(VALUES[name], list) else VALUES[name]
    rng = random.Random(16)  # noqa: S311
    tables = []
    for part in range(3):
        rows = 40
        # Each part meets the values in another order, and not all of them.
        column = values.take([rng.randrange(len(values) - part // 2) for _ in range(rows)])
        log = {
            "group": [part * rows + row // 4 for row in range(rows)],
            "label": [rng.randrange(2) for _ in range(rows)],
            "score": [rng.random() for _ in range(rows)],
            "field": column,
        }
        tables.append(pa.table(log))
    measures = ["FieldECE(field='field')", "FieldRCE(field='field')"]
    once = state_of(pa.concat_tables(tables), measures)
    c, b, a = (state_of(table, measures).state for table in tables)
    merged = a.merge(b, c)
    assert lines(merged.result()) == lines(once)
    same_arrays(merged, once.state)


LOG = {
    "group": [1, 1, 2, 2],
    "label": [0, 1, 1, 0],
    "score": [0.5, 0.25, 0.75, 0.125],
    "weight": [1.0, 2.0, 0.5, 1.0],
    "user": [1, 1, 2, 2],
}


def test_merge__the_same_rows_twice__is_refused_unless_allowed(tmp_path: Path) -> None:
    tables = nights(table_of(probable_groups(17, 30)), 2, 17)
    first, other = (state_of(table, "AUC,GAUC").state for table in tables)
    first.save(tmp_path / "night")
    again = fe.load_state(tmp_path / "night")
    with pytest.raises(MergeError, match=r"hold the same \d+ rows in \d+ groups, read from Table"):
        first.merge(other).merge(again)
    twice = first.merge(again, allow_repeated=True)
    assert twice.rows == 2 * first.rows
    assert len(twice.provenance) == 2


def test_merge__empty_nights__are_not_the_same_rows() -> None:
    nothing = {name: np.empty(0) for name in ("label", "score")} | {"group": np.empty(0, np.int64)}
    first = state_of(LOG, "AUC,LogLoss,GAUC")
    empty = [state_of(nothing, "AUC,LogLoss,GAUC").state for _ in range(2)]
    assert lines(first.state.merge(*empty).result()) == lines(first)
    assert math.isnan(empty[0].merge(empty[1]).result().value("AUC"))


def test_result__tells_where_its_rows_are_from() -> None:
    table = table_of(probable_groups(18, 40))
    days = [state_of(table, "GAUC,AUC", where=f"group {sign} 20") for sign in ("<", ">=")]
    merged = days[0].state.merge(days[1].state)
    assert [(seen.where, seen.sources) for seen in merged.provenance] == [
        ("group < 20", ("Table",)),
        ("group >= 20", ("Table",)),
    ]
    once = state_of(table, "GAUC,AUC")
    found = merged.result()
    assert lines(found) == lines(once)
    extra = {"where": "group < 20, group >= 20", "merged": 2}
    assert found.meta.conventions == {**once.meta.conventions, **extra}
    assert list(days[0].state.result().meta.conventions) == list(days[0].meta.conventions)
    assert found.state is merged
    assert (merged.rows, merged.groups) == (table.num_rows, 40)
    assert merged.scores == ("score",)
    assert "40 groups, 2 evaluations: GAUC, AUC of score" in repr(merged)


def test_state__not_kept__is_refused_with_the_remedy() -> None:
    with pytest.raises(ArgumentError, match="keep='state'"):
        _ = evaluate(LOG, "AUC").state


test_answers = answers(globals())
