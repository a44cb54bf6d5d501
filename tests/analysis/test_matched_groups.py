"""Differences of AUC(se='clustered') from saved states: groups of models, matched without keys."""

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
from fastrank_eval.stats import clustered_scores
from fastrank_eval.stats.clustered_scores import ClusteredScores
from tests.analysis.test_compare_states import parts as parts_of
from tests.analysis.test_compare_states import same
from tests.golden_state import GOLDEN, golden_result
from tests.results.test_saved_states import same_arrays
from tests.support import batched
from tests.support.transcripts import answers

AUC = "AUC(se='clustered')"
MODELS = ["old", "new", "Newest"]


def log_of(
    seed: int, groups: int, levels: int | None = None, unscored: float = 0.0, kind: Any = np.float64
) -> pa.Table:
    """Whole groups in random order; a model has no score for some rows, or for all of a group."""
    rng = np.random.default_rng(seed)
    user = np.repeat(rng.permutation(groups), rng.integers(1, 8, groups))
    click = rng.random(len(user)) < 0.2 + 0.5 * (user % 3 == 0)
    columns: dict[str, Any] = {"user": user, "click": click.astype(np.int8)}
    for noise, model in enumerate(MODELS, 1):
        score = 1 / (1 + np.exp(-(click + rng.normal(0, noise, len(user)))))
        score = score if levels is None else np.round(score * levels) / levels
        gone = rng.random(len(user)) < unscored
        gone |= (rng.random(groups + 1) < unscored)[user]
        columns[model] = pa.array(score.astype(kind), mask=gone)
    columns["weight"] = rng.choice([0.0, 0.5, 1 / 3, 7.0], len(user))
    columns["slot"] = rng.integers(0, 3, len(user))
    columns["rare"] = user // 5
    return pa.table(columns)


def options_of(**options: Any) -> dict[str, Any]:
    return {
        "group": "user", "label": "click", "score": MODELS, "baseline": "old", "measures": AUC,
        "by": ["slot", "rare"], "unretrieved": "allow", "weight_rows": "ignore", **options,
    }  # fmt: skip


def state_of(log: pa.Table, **options: Any) -> fe.State:
    return batched.evaluate(log, **options_of(**options), keep="state").state


def compare(log: pa.Table, **options: Any) -> fe.Comparison:
    return batched.compare(log, **options_of(**options))


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    groups=st.integers(0, 30),
    parts=st.integers(1, 4),
    weight=st.sampled_from([None, "weight"]),
    levels=st.sampled_from([None, 2]),
    unscored=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    together=st.sampled_from([1, 6, 1 << 18]),
)
def test_merged_states__have_the_errors_of_one_run(
    seed, groups, parts, weight, levels, unscored, together, tmp_path_factory
) -> None:
    folder, rng = tmp_path_factory.mktemp("states"), random.Random(seed)  # noqa: S311
    log = log_of(seed, groups, levels, unscored)
    whole = state_of(log, weight=weight, threads=1)
    states = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clustered_scores, "_CHUNK_ROWS", together)
        for number, rows in enumerate(parts_of(log, parts)):
            models = rng.sample(MODELS, len(MODELS))
            state = state_of(rows, weight=weight, score=models, threads=2, batch_rows=5 + number)
            state.save(folder / f"{number}")
            states.append(fe.load_state(folder / f"{number}"))
        rng.shuffle(states)
        merged = states[0].merge(*states[1:], allow_repeated=True)
        same_arrays(merged, whole)
        once = compare(log, weight=weight, score=list(merged.scores))
        same(merged.compare(), once)
        same(whole.compare(), compare(log, weight=weight))


def test_errors__are_there() -> None:
    log = log_of(1, 200, unscored=0.1, kind=np.float32)
    first, *others = (state_of(rows, weight="weight") for rows in parts_of(log, 3))
    found = first.merge(*others).compare(min_groups=10)
    same(found, compare(log, weight="weight", min_groups=10))
    known = [line for line in found if line.by != "rare"]
    assert len(known) == 2 * (1 + 3)
    assert all(line.se > 0 and line.p_value < 1 for line in known)
    assert {line.warning for line in known} <= {None, "few_groups"}
    assert all(line.groups > 150 for line in known if line.slice == "all")


def test_slice_of_one_state_alone__keeps_its_error() -> None:
    log = log_of(2, 60)
    early, late = (log.filter(pa.array((log["user"].to_numpy() < 30) == first)) for first in (1, 0))
    merged = state_of(late).merge(state_of(early))
    found = [line for line in merged.compare() if line.by == "rare"]
    assert len(found) == 2 * 12
    assert all(line.se > 0 for line in found)
    same_arrays(merged, state_of(log))


def test_three_states__have_the_same_bytes_in_any_grouping() -> None:
    a, b, c = (state_of(rows) for rows in parts_of(log_of(3, 60, levels=2, unscored=0.3), 3))
    same_arrays(a.merge(b).merge(c), c.merge(b.merge(a)))
    same_arrays(a.merge(), a)
    empty = state_of(log_of(4, 0))
    same_arrays(empty.merge(a), a)
    same_arrays(empty.merge(empty, allow_repeated=True), empty)


def unmatched(state: fe.State) -> fe.State:
    """As versions wrote states that saved each model alone."""
    states = {}
    for place, parts in state.arrays.items():
        if "matched" in parts:
            parts = ClusteredScores.from_arrays(parts).to_arrays()
            assert "matched" not in parts
        states[place] = parts
    return fe.State(state.header, states)


def test_models_saved_alone__have_a_difference_without_an_error(tmp_path: Path) -> None:
    log = log_of(5, 80, unscored=0.1)
    first, second = (state_of(rows) for rows in parts_of(log, 2))
    once = compare(log)
    for mixed in (unmatched(first).merge(second), second.merge(unmatched(first))):
        mixed.save(tmp_path / "mixed", overwrite=True)
        for found in (mixed.compare(), fe.load_state(tmp_path / "mixed").compare()):
            assert [repr(line) for line in found.evaluated] == [repr(e) for e in once.evaluated]
            for mine, theirs in zip(found, once, strict=True):
                assert mine.delta == theirs.delta or math.isnan(theirs.delta)
            assert all(math.isnan(line.se) for line in found if line.slice == "all")
            assert found.find(AUC, "new").warning == "pooled"
        same_arrays(mixed, unmatched(first.merge(second)))
    same_arrays(unmatched(first).merge(state_of(log_of(6, 0))), unmatched(first))


@pytest.mark.parametrize("silent", MODELS)
def test_model_saved_alone_without_a_row__is_not_matched(silent: str) -> None:
    log = log_of(9, 30)
    nothing = pa.nulls(log.num_rows, pa.float64())
    bare = log.set_column(log.column_names.index(silent), silent, nothing)
    old, new = unmatched(state_of(bare, by=())), state_of(log, by=())
    for merged in (old.merge(new), new.merge(old)):
        assert not any("matched" in parts for parts in merged.arrays.values())
        assert all(math.isnan(line.se) for line in merged.compare())
    same(state_of(bare, by=()).merge().compare(), compare(bare, by=()))


def test_golden_file__has_the_difference_of_today() -> None:
    golden, today = fe.load_state(GOLDEN), golden_result().state
    found, once = golden.compare().find(AUC), today.compare().find(AUC)
    assert (found.delta, found.se) == pytest.approx((once.delta, once.se), rel=1e-12)
    assert once.se > 0


def test_state_without_rivals__says_nothing_of_matching() -> None:
    log = log_of(7, 20)
    state = state_of(log, baseline=None)
    assert not any("matched" in parts for parts in state.arrays.values())
    assert sum("sizes" in parts for parts in state.arrays.values()) > len(MODELS)


def test_groups__that_a_model_has_not_scored__stand_beside_those_of_another() -> None:
    """Two groups of which each model has scored one, one of both, one of neither."""
    log = pa.table({
        "user": [1, 1, 2, 2, 3, 3, 4], "click": [0, 1, 1, 0, 1, 0, 1],
        "old": [0.1, 0.3, None, None, 0.5, 0.2, None],
        "new": [None, None, 0.4, 0.6, 0.7, 0.1, None],
    })  # fmt: skip
    state = state_of(log, score=["old", "new"], by=())
    sizes = {place[1]: parts["sizes"].tolist() for place, parts in state.arrays.items()
             if "matched" in parts}  # fmt: skip
    assert sizes == {"new": [1, 2, 2, 2], "old": [1, 2, 2, 2]}
    same(state.compare(), compare(log, score=["old", "new"], by=()))
    assert state.compare().find(AUC).groups == 4


test_answers = answers(globals())
