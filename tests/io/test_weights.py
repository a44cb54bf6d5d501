"""Weights of any size: used exactly between 1e-30 and 1e30, refused by name beyond."""

import math

import numpy as np
import pytest

import fastrank_eval as fe
from fastrank_eval import ColumnError
from tests.every_number import numbers
from tests.measures.test_pooled import probable_groups
from tests.oracles.pooled import oracle_of
from tests.strategies import POOLED_VARIANTS
from tests.support.tables import table_of

POOLED = [text for texts in POOLED_VARIANTS.values() for text in texts]
GROUPED = ["GAUC", "GAUC(weight='pairs')", "GAUC(weight='positives')", "GAUC(weight='uniform')"]
GROUPED += ["GAUC(weight='spend')", "nDCG(weight='spend')", "GMAP(weight='spend')"]
COLUMNS = {"group": "group", "label": "label", "weight": "weight", "weight_rows": "ignore"}


def log(factor: float = 1.0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    group = np.repeat(np.arange(60), rng.integers(1, 14, 60))
    a = np.round(rng.random(len(group)), 2)
    return {
        "group": group,
        "item": rng.integers(0, 9, len(group)),
        "label": rng.integers(0, 2, len(group)),
        "a": a,
        "b": np.clip(a + rng.normal(0, 0.1, len(group)), 0, 1),
        "weight": rng.choice([0.0, 0.1, 1.0, 3.7], len(group)) * factor,
        "spend": (0.3 + group % 5) * factor,
        "slot": group % 3,
    }


def told(what: str, result: object) -> list[tuple[str, str]]:
    """Every number but sums of weights, which grow with them."""
    found = result.document()
    for line in found.get("results", []):
        line.pop("weight")
        line["details"] = {k: v for k, v in line["details"].items() if k not in "TP FP FN TN"}
    return list(numbers(what, {k: found[k] for k in ("results", "comparisons") if k in found}))


def every_number(factor: float) -> list[tuple[str, str]]:
    table = log(factor)
    measures = [*POOLED, *GROUPED]
    several = {**COLUMNS, "score": ["a", "b"]}
    found = told("all", fe.evaluate(table, measures=measures, **several))
    compared = ["AUC(se='clustered')", "NE", "Brier", "PPV", "MCC", *GROUPED[:5]]
    asked = {**several, "measures": compared, "baseline": "a", "keep": ""}
    found += told("slices", fe.compare(table, by="slot", **asked))
    drawn = {**several, "measures": GROUPED, "baseline": "a", "replicates": 50}
    found += told("drawn", fe.compare(table, test="bootstrap", **drawn))
    for kind in ("roc", "pr", "det", "lift"):
        curve = fe.curve(kind, table, **several)
        found += numbers(kind, curve.records().to_pylist())
    best = fe.best_threshold(table, label="label", score="a", weight="weight", by="closest")
    return [*found, ("best", float(best.value).hex())]


def test_weights__up_to_both_limits_change_no_bit_of_any_number():
    once = every_number(1.0)
    assert len(once) > 1000
    for power in (-90, 90):
        again = every_number(2.0**power)
        assert [pair for pair in zip(once, again, strict=True) if pair[0] != pair[1]] == []


@pytest.mark.parametrize("weights", [(1e-30, 1e30, 1.0), (0.0, 1e-30, 3e-30), (1e30, 4e29, 0.0)])
def test_weights__of_every_size_at_once_give_every_measure_its_definition(weights):
    groups = probable_groups(4, 80, weights=weights)
    rows = [row for group in groups for row in group]
    result = fe.evaluate(
        table_of(groups), group="group", label="label", score="score", measures=POOLED, **WEIGHT
    )
    for line in result:
        wanted = oracle_of(line.measure, rows)
        if isinstance(wanted, str):
            assert math.isnan(line.value), line
        else:
            assert line.value == pytest.approx(wanted, rel=1e-11, abs=1e-12), line


WEIGHT = {"weight": "weight", "unretrieved": "allow", "unjudged": "allow"}


def test_ties_of_the_lightest_and_heaviest_rows__count_one_half():
    for light, heavy in ((1e-30, 2e-30), (1e-30, 1e30), (1e30, 5e29)):
        table = {"g": [1, 1], "s": [0.5, 0.5], "y": [1, 0], "w": [light, heavy]}
        columns = {"group": "g", "label": "y", "score": "s", "weight": "w"}
        result = fe.evaluate(table, measures="GAUC,AUC", **columns)
        assert [line.value for line in result] == [0.5, 0.5]


EXTREME = {
    "both vanish": [1e-323, 5e-324, 1.0],
    "far apart": [1e-200, 1e200, 1.0],
    "the largest": [1e308, 1e308, 1e308],
    "just above": [1.0, math.nextafter(1e30, 2e30), 0.0],
    "just below": [0.0, math.nextafter(1e-30, 0), 1.0],
}


@pytest.mark.parametrize("weights", EXTREME.values(), ids=EXTREME)
def test_weights__beyond_the_limits_are_refused_by_name(weights):
    table = {"g": [1, 1, 2], "s": [0.5, 0.5, 0.25], "y": [1, 0, 1], "w": weights}
    table["t"] = table["s"]
    columns = {"label": "y", "score": "s", "weight": "w"}
    said = r"weight column 'w' \(double\) is above 1e30, or below 1e-30 but not 0.*row.*; weights"
    by_group = {"group": "g", "label": "y", "score": "s"}
    for refused in (
        lambda: fe.evaluate(table, group="g", measures="GAUC,Brier,PPV", **columns),
        lambda: fe.curve("roc", table, group="g", **columns),
        lambda: fe.best_threshold(table, **columns),
        lambda: fe.confusion(table, **columns),
        lambda: fe.evaluate_classes(table, label="y", scores={0: "s", 1: "t"}, weight="w"),
        lambda: fe.evaluate(table, measures="RR(weight='w')", **by_group),
        lambda: fe.evaluate(table, measures="NumRel(weight='w')", **by_group),
    ):
        with pytest.raises(ColumnError, match=said):
            refused()


def test_weights__of_float32__may_be_the_limits_of_their_type():
    table = {"g": [1, 1, 1], "s": [0.75, 0.5, 0.25], "y": [0, 1, 0]}
    columns = {"group": "g", "label": "y", "score": "s", "weight": "w", "measures": "Brier"}
    for limit in (1e-30, 1e30):
        weights = np.array([limit, 0, limit], np.float32)
        assert fe.evaluate({**table, "w": weights}, **columns).value("Brier") == 0.3125
    for beyond in (np.nextafter(np.float32(1e30), np.float32(np.inf)), np.float32(9e-31)):
        weights = np.array([1, beyond, beyond], np.float32)
        with pytest.raises(
            ColumnError, match=r"\(float\) is above 1e30, .* in 2 row\(s\), first in"
        ):
            fe.evaluate({**table, "w": weights}, **columns)
