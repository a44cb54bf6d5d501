"""What MTEB prints beside measures: abstention, and ranks that an instruction moves."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastrank_eval as fe
from fastrank_eval import trec

#: The five queries of MTEB's own test.
QRELS = {
    "0": {"0": 1, "1": 1},
    "1": {"0": 1},
    "2": {"0": 1, "1": 1, "2": 1},
    "3": {"0": 1},
    "4": {"0": 1, "1": 1},
}
RUN = {
    "0": {"0": 0.8, "1": 0.3, "2": 0.4},
    "1": {"0": 0.5, "1": 0.8, "2": 0.4},
    "2": {"0": 0.9, "1": 0.3, "2": 0.3},
    "3": {"0": 0.1, "1": 0.2, "2": 0.2},
    "4": {"0": 0.5, "1": 0.4, "2": 0.5},
}


@pytest.mark.parametrize(
    "drop_self,wanted",
    [
        (False, {"max": 0.8368244286523474, "std": 0.9125701917627439, "diff1": 0.950708977119359}),
        (True, {"max": 0.50843, "std": 0.18322, "diff1": 0.21416}),
    ],
)
def test_nauc__is_what_mteb_expects(drop_self, wanted):
    result = trec.evaluate(QRELS, RUN, "ndcg_at_3", profile="mteb", drop_self=drop_self)
    found = trec.confidences(RUN, drop_self=drop_self)
    for kind, value in wanted.items():
        digits = {"abs": 1e-12} if not drop_self else {"abs": 5e-6}
        assert trec.nauc(result, "ndcg_at_3", found[kind]) == pytest.approx(value, **digits)


def mean_left(values: list[float], order: list[int], rate: float) -> float:
    gone = min(round(rate * len(values)), len(values) - 1)
    return sum(values[i] for i in order[gone:]) / (len(values) - gone)


def area(values: list[float], by: list[float]) -> float:
    order = sorted(range(len(values)), key=lambda i: by[i])
    rates = np.linspace(0, 1, 11)[:-1].tolist()
    return float(np.trapezoid([mean_left(values, order, rate) for rate in rates], rates))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), min_size=1, max_size=40))
def test_nauc__is_its_definition(rows):
    """A query with the relevant document at a rank, and a score."""
    qrels = {f"q{i}": {"rel": 1} for i in range(len(rows))}
    run = {
        f"q{i}": {f"d{j}": float(-j) for j in range(ahead)} | {"rel": -9.0}
        for i, (ahead, _) in enumerate(rows)
    }
    values = [1 / (ahead + 1) for ahead, _ in rows]
    sure = [float(number) for _, number in rows]
    result = trec.evaluate(qrels, run, "RR")
    flat = sum(values) / len(values) * 0.9
    best = area(values, values)
    for given_as in (sure, np.array(sure), dict(zip(qrels, sure, strict=True))):
        found = trec.nauc(result, "RR", given_as)
        if len(set(values)) == 1:
            assert math.isnan(found)
        else:
            assert found == pytest.approx((area(values, sure) - flat) / (best - flat), abs=1e-9)


def test_nauc__of_the_oracle_is_1_and_needs_a_confidence_of_each_query():
    qrels = {**QRELS, "5": {"0": 1}}
    runs = {"ours": RUN, "again": RUN}
    result = trec.evaluate(qrels, runs, "AP,Unjudged@3")
    with pytest.raises(fe.ArgumentError, match=r"must be a number for each group .* none for '5'"):
        trec.nauc(result, "AP", trec.confidences(RUN)["max"], "ours")
    with pytest.raises(fe.ArgumentError, match="a number for each of 6 groups, got 2; pass what"):
        trec.nauc(result, "AP", [0.5, 1.0], "ours")
    with pytest.raises(fe.MeasureError, match="for which higher is better, got Unjudged@3; take"):
        trec.nauc(result, "Unjudged@3", result["ours", "AP"], "ours")
    with pytest.raises(fe.ArgumentError, match="score"):
        trec.nauc(result, "AP", result["ours", "AP"])
    assert trec.nauc(result, "AP", result["ours", "AP"], "ours") == 1
    assert trec.nauc(result, "AP", -result["ours", "AP"], "ours") < 0
    left = trec.evaluate(qrels, runs, "AP", complete=False)
    assert left.meta.groups == 5
    confidence = trec.confidences(RUN)["max"]
    wanted = trec.nauc(trec.evaluate(QRELS, RUN, "AP"), "AP", confidence)
    assert trec.nauc(left, "AP", confidence, "again") == wanted
    assert math.isnan(trec.nauc(trec.evaluate(QRELS, QRELS, "RR"), "RR", confidence))


def test_nauc__of_several_key_columns__takes_no_mapping():
    """The first key alone would give queries of one data set one confidence."""
    runs = {"q1": {"d1": 2.0, "d2": 1.0}, "q2": {"d1": 1.0, "d2": 2.0}}
    pair = {"q1": {"d1": 1}, "q2": {"d1": 1}}, runs
    result = fe.trec.evaluate({"x": pair, "y": pair}, measures="RR")
    with pytest.raises(fe.ArgumentError, match="several key columns, got a mapping; of several"):
        fe.trec.nauc(result, "RR", {"x": 0.5, "y": 0.25})
    assert fe.trec.nauc(result, "RR", [4, 2, 3, 1]) == pytest.approx(1)
    assert fe.trec.nauc(result["x"], "RR", {"q1": 0.5, "q2": 0.25}) == pytest.approx(1)


def test_nauc__of_any_result__leaves_out_groups_without_a_value():
    log = {"user": [1, 1, 2, 2, 3, 3], "click": [0, 1, 0, 0, 1, 0], "s": [3.0, 2, 1, 2, 5, 4]}
    result = fe.evaluate(log, group="user", label="click", score="s", measures="RR,GAUC")
    assert trec.nauc(result, "GAUC", {1: 0.25, 3: 0.75}) == 1


@pytest.mark.parametrize("form", ["dicts", "table"])
def test_confidences__are_of_each_query_of_the_run(form):
    run: dict[str, dict[str, float]] = {"q2": {"a": 1.0, "q2": 4.0, "b": 3.0}, "q1": {"c": -2.0}}
    source: Any = {**run, "q0": {}}
    if form == "table":
        source = trec.read_run(run)
    found = trec.confidences(source)
    empty = {"q0": 0.0} if form == "dicts" else {}
    assert found["max"] == {"q2": 4, "q1": -2, **empty}
    assert found["diff1"] == {"q2": 1, "q1": 0, **empty}
    assert found["std"] == pytest.approx({"q2": np.std([1, 4, 3]), "q1": 0, **empty})
    dropped = trec.confidences(source, drop_self=True)
    assert (dropped["max"]["q2"], dropped["diff1"]["q2"]) == (3, 2)
    skipped = trec.confidences(source, skip_first=True)
    assert (skipped["max"], skipped["diff1"]["q2"]) == ({"q2": 3, "q1": 0, **empty}, 2)
    assert trec.confidences(source, most=2)["std"]["q2"] == 0.5


def of(docs: str) -> dict[str, float]:
    """A ranking without ties."""
    return {doc: float(-rank) for rank, doc in enumerate(docs)}


def test_p_mrr__golden():
    first, last = {"q": of("abcd")}, {"q": of("dbca")}
    assert trec.p_mrr(first, last, {"q": ["d"]}) == {"q": -0.75}
    assert trec.p_mrr(last, first, {"q": ["d"]}) == {"q": 0.75}
    # Ranks 2 and 2, 4 and 1, 5 (absent) and 5.
    assert trec.p_mrr(first, last, {"q": ["b", "d", "x"]}) == {"q": -0.25}


def test_p_mrr__names_of_mteb_ties_and_absent_documents():
    both = {
        "1-og": of("abc"),
        "1-changed": of("cab"),
        "2-og": {"a": 1.0, "b": 1.0},
        "2-changed": {},
    }
    found = trec.p_mrr(both, both, {"1": ["a", "c"], "2": ["a"]})
    # 1: a from 1 to 2, c from 3 to 1. 2: a from 2, because b has the higher id, to 1.
    assert found == pytest.approx({"1": (0.5 - 2 / 3) / 2, "2": -0.5})
    with pytest.raises(fe.ArgumentError, match="got '3', which original lacks; leave it out"):
        trec.p_mrr(both, both, {"3": ["a"]})
    with pytest.raises(fe.ArgumentError, match="got '2', which changed lacks"):
        trec.p_mrr(both, {"1": of("a")}, {"2": ["a"]})
    with pytest.raises(fe.ArgumentError, match="must name documents of each query, got none for"):
        trec.p_mrr(both, both, {"1": []})
