"""The same options and types of columns have one plan, which no run changes."""

from __future__ import annotations

import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.engine import run as engine_run
from fastrank_eval.engine.plan import Plan
from fastrank_eval.engine.run import run
from fastrank_eval.measures import REL, WEIGHT

COLUMNS: dict[str, Any] = {"group": "user", "label": "click", "score": "pctr"}


def rows(n: int = 60, kind: Any = np.float32, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "user": np.arange(n) // 6,
            "click": rng.integers(0, 3, n).astype(np.int8),
            "pctr": rng.integers(0, 40, n).astype(kind),
            "other": rng.random(n),
            "weight": rng.random(n),
            "slot": rng.integers(0, 3, n),
        }
    )


def plan_of(source: Any, **options: Any) -> Plan:
    return run(source, **{"measures": "GAUC,nDCG@3", **COLUMNS, **options}).plan


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"measures": ["GAUC", fe.AP @ 5]},
        {"undefined": {"*": "zero", "GAUC": "skip"}},
        {"score": {"both": "pctr * other", "pctr": "pctr"}, "baseline": "pctr"},
        {"profile": "sklearn", "measures": "nDCG"},
        {"weight": "weight", "measures": "GAUC,AUC,LogLoss", "score": "other"},
        {"where": "slot = 1", "limit": 5, "threads": 2},
        {"keep": "state,groups"},
    ],
)
def test_the_same_options_have_one_plan(options: dict[str, Any]) -> None:
    first = plan_of(rows(), **options)
    assert plan_of(rows(30, seed=2), **options) is first
    assert plan_of(rows(), **options, confidence=0.9) is not first


@pytest.mark.parametrize(
    "options", [{"by": "slot"}, {"measures": "MultiECCE(columns='slot')", "score": "other"}]
)
def test_a_plan_that_numbers_values_of_the_rows_is_made_anew(options: dict[str, Any]) -> None:
    assert plan_of(rows(), **options) is not plan_of(rows(), **options)


def test_plans_of_slices_share_a_program() -> None:
    first, again = (plan_of(rows(seed=seed), by="slot") for seed in (1, 2))
    assert first.program is again.program
    assert plan_of(rows(), by="user").program is not first.program


def test_other_types_have_another_plan() -> None:
    tables = [rows(kind=kind) for kind in (np.float32, np.float64, np.int64, np.uint64, np.int8)]
    expected = [plan_of(table).roles for table in tables]
    engine_run._place.cache_clear()
    assert [plan_of(table).roles for table in tables] == expected
    assert [plan_of(table).roles for table in reversed(tables)] == expected[::-1]


def test_a_column_that_is_gone_is_an_error() -> None:
    plan_of(rows())
    with pytest.raises(fe.ColumnError, match=r"^score: no column 'pctr'. Did you mean"):
        plan_of(rows().rename_columns(["user", "click", "pctr_", "other", "weight", "slot"]))
    double = rows().append_column("click", rows()["click"])
    with pytest.raises(fe.ColumnError, match=r"^label: column 'click' occurs 2 times"):
        plan_of(double)


def scaled(factor: float) -> fe.Measure:
    class Scaled(fe.Measure):
        name, aliases, options = "Scaled", ("scaled_share",), (REL, WEIGHT)
        summary, formula, reference = "share of the relevant rows", "R / N", "none"
        takes_cutoff = False

        def shared_values(self, ranking: Any, cutoffs: np.ndarray) -> np.ndarray:
            return np.asarray(factor * ranking.relevant(self.rel) / ranking.rows)

    return fe.register(Scaled)


def test_a_measure_that_is_registered_anew_has_a_new_plan() -> None:
    values, objects = [], []
    for factor in (1.0, 0.5, 0.5):
        objects.append(scaled(factor))
        values += [
            fe.evaluate(rows(), measures=asked, **COLUMNS).value("Scaled")
            for asked in ("Scaled", "scaled_share", objects[-1])
        ]
    assert values[:3] == [2 * value for value in values[3:6]] == [2 * value for value in values[6:]]
    assert len(set(values)) == 2
    # The first class is used where it is given, though its name has another meaning now.
    (evaluated,) = run(rows(), measures=objects[0], **COLUMNS).summary
    assert evaluated.value == values[0]


def test_names_and_classes_of_equal_texts_are_told_apart() -> None:
    for name in ("AP", "MAP", "AP"):
        assert fe.evaluate(rows(), measures=name, **COLUMNS).values[0].display_name == name
    for measure in (fe.AP, fe.measure("MAP"), fe.AP):
        value = fe.evaluate(rows(), measures=measure, **COLUMNS).values[0]
        assert value.display_name == measure.display_name


def test_labels_share_a_reading_and_their_plans() -> None:
    options = {**COLUMNS, "label": ["click", "slot"], "measures": "GAUC"}
    first = fe.evaluate(rows(), **options)
    again = fe.evaluate(rows(), **options)
    assert [v.value for v in first] == [v.value for v in again]
    alone = fe.evaluate(rows(), **{**options, "label": "slot"})
    assert again["slot"].value("GAUC") == alone.value("GAUC")


def test_a_plan_keeps_no_rows_alive() -> None:
    class Columns(dict[str, Any]):
        """A mapping of arrays that can be watched."""

    source = Columns({name: rows()[name].to_numpy() for name in rows().column_names})
    watched = weakref.ref(source)
    plan = plan_of(source)
    del source
    gc.collect()
    assert watched() is None
    assert plan_of(rows()) is plan


def state(plan: Plan) -> dict[str, bytes]:
    """Write all that a plan holds; of its program, which has compiled loops, the tables."""
    own = {name: value for name, value in vars(plan).items() if name != "program"}
    tables = {
        name: value for name, value in vars(plan.program).items() if isinstance(value, np.ndarray)
    }
    return {name: pickle.dumps(value) for name, value in {**own, **tables}.items()}


@pytest.mark.parametrize(
    "options",
    [
        {"measures": "GAUC,nDCG@3,AP,RR,ERR@3,P@2,R@2,AUC,MSE"},
        {"measures": "GAUC(weight='positives'),AUC,NE", "weight": "weight", "score": "weight"},
        {"measures": "GAUC,AP", "score": ["pctr", "other"], "baseline": "other"},
        {"measures": "GAUC", "cluster": "slot", "group": ["slot", "user"]},
        {"measures": "GAUC,nDCG", "unretrieved": "drop", "unjudged": "drop", "nan": "null"},
        {"measures": "GAUC", "ties": "input", "undefined": "zero", "groups": "with_relevant"},
    ],
)
def test_no_run_changes_a_plan(options: dict[str, Any]) -> None:
    plan, states = plan_of(rows(), **options), []
    order = pa.array(np.random.default_rng(3).permutation(200))
    for _ in range(2):  # the second time, all that a plan computes once is there
        for table in (rows(200, seed=5).take(order), rows(6, seed=6), rows().slice(0, 0)):
            run(table, **{"measures": "GAUC,nDCG@3", **COLUMNS, **options})
            assert plan_of(table, **options) is plan
        states.append(state(plan))
    assert states[0] == states[1]


def test_so_many_plans_are_kept() -> None:
    for n in range(2, 200):
        plan_of(rows(), measures=f"nDCG@{n}")
    assert engine_run._place.cache_info().currsize == engine_run._KEPT


def test_threads_share_plans() -> None:
    table = rows(600)

    def values(n: int) -> list[float]:
        result = fe.evaluate(table, measures=["GAUC", fe.nDCG @ (1 + n % 5)], **COLUMNS)
        return [value.value for value in result]

    expected = [values(n) for n in range(5)]
    engine_run._place.cache_clear()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(values, range(100))) == expected * 20


def test_threads_share_a_plan_over_lists_of_any_length() -> None:
    sizes = (3, 4000, 1025, 9000, 60)
    tables = [rows(size).set_column(0, "user", pa.array(np.zeros(size))) for size in sizes]

    def value(n: int) -> float:
        return fe.evaluate(tables[n % len(sizes)], measures="nDCG,RBP", **COLUMNS).value("nDCG")

    expected = [value(n) for n in range(len(sizes))]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(value, range(60))) == expected * 12
