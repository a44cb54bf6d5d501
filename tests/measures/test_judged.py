"""Measures that tell rows nobody judged from rows of label 0."""

import numpy as np
import pytest

import fastrank_eval as fe
from fastrank_eval.testing import bits
from tests.oracles.measures import Row, oracle
from tests.strategies import random_groups
from tests.support import tables
from tests.support.tables import table_of

MEASURES = ("bpref", "bpref(rel=2)", "infAP", "Judged", "Judged@3", "Unjudged@5", "AP")
HOLES = random_groups(41, 300, most_rows=12, grades=(-1, 0, 0, 1, 2), unretrieved=0.2, unjudged=0.3)
TABLE = table_of(HOLES)


def evaluate(source, measures=MEASURES, ties="input", **options):
    nulls = {"unretrieved": "allow", "unjudged": "allow"}
    return tables.evaluate(source, measures, ties=ties, **{**nulls, **options})


@pytest.mark.parametrize("order,batch_rows", [("grouped", 50), ("scattered", 1)])
@pytest.mark.parametrize("ties", ["input", "best", "worst", "item"])
def test_unjudged_rows__same_bits_however_they_come(order, batch_rows, ties):
    table = TABLE
    options = {"ties": ties, "item": "item" if ties == "item" else None}
    wanted = bits(evaluate(table, **options))
    if order == "scattered":
        group = table["group"].to_numpy()
        # One row of each group after the other: no two neighbours share a group.
        place = np.arange(len(group)) - np.searchsorted(group, group)
        table = table.take(np.lexsort((group, place)))
    given = evaluate(table, order=order, batch_rows=batch_rows, threads=3, **options)
    assert bits(given) == wanted


def test_one_score__ten_thousand_rows__in_closed_form():
    labels = [1, 0, None, -1, 2] * 2000
    rows = [Row(0.5, label) for label in labels]
    result = evaluate(table_of([rows]), ("bpref", "Judged@10"), ties="expected")
    assert result.value("Judged@10") == pytest.approx(0.8, abs=1e-12)
    # 4,000 relevant rows among 2,000 judged not relevant: half of the preferences hold.
    assert result.value("bpref") == pytest.approx(0.5, abs=1e-12)


def test_every_row_judged():
    rows = [Row(3.0, 0), Row(2.0, 1), Row(1.0, 0), Row(0.0, 1)]
    result = evaluate(table_of([rows]), ties="input", unjudged="error")
    assert result.value("Judged@3") == 1.0
    assert result.value("Unjudged@5") == 0.0
    assert result.value("bpref") == pytest.approx((1 / 2 + 0) / 2)


def test_negative_grades__are_pooled_but_not_judged():
    """-1 takes no part in bpref; in infAP it counts as pooled."""
    rows = [Row(3.0, -1), Row(2.0, 0), Row(1.0, 1)]
    result = evaluate(table_of([rows]), ("bpref", "infAP"))
    assert result.value("bpref") == 0.0
    assert result.value("infAP") == pytest.approx(oracle("infAP", rows, "input"), abs=1e-15)
    e = 1e-5
    assert result.value("infAP") == pytest.approx((1 + 2 * e / (1 + 2 * e)) / 3, abs=1e-15)


def test_overlap_to_the_end_of_lists__does_not_depend_on_other_lists():
    rows = np.random.default_rng(7).integers(1, 300, 60)
    group = np.repeat(np.arange(60), rows)
    label = np.random.default_rng(8).integers(0, 2, len(group))
    table = {"group": group, "score": -np.arange(len(group)) * 1.0, "label": label}
    options = {"measures": "Compat(depth='lists')", "ties": "input", "group": "group"}
    options |= {"score": "score", "label": "label"}
    wanted = fe.evaluate(table, **options, keep="values").per_group.column(-1).to_pylist()
    for g in range(60):
        alone = {name: values[group == g] for name, values in table.items()}
        found = fe.evaluate(alone, **options, undefined="skip", keep="values").per_group
        assert repr(found.column(-1)[0].as_py()) == repr(wanted[g]), g
