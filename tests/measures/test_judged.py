"""Measures that tell rows nobody judged from rows of label 0."""

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval
from fastrank_eval import ArgumentError
from tests.oracles.measures import Row, oracle
from tests.strategies import random_groups
from tests.support import batched
from tests.support.tables import table_of

MEASURES = ("bpref", "bpref(rel=2)", "infAP", "Judged", "Judged@3", "Unjudged@5", "AP")
HOLES = random_groups(41, 300, most_rows=12, grades=(-1, 0, 0, 1, 2), unretrieved=0.2, unjudged=0.3)
TABLE = table_of(HOLES)


def evaluate(source, measures=MEASURES, ties="input", **options):
    nulls = {"unretrieved": "allow", "unjudged": "allow"}
    roles = {"group": "group", "label": "label", "score": "score", "measures": measures}
    return batched.evaluate(source, ties=ties, **{**roles, **nulls, **options})


def bits(result) -> dict:
    columns = result.per_group.sort_by("group")
    return {
        name: [x.hex() if isinstance(x, float) else x for x in columns[name].to_pylist()]
        for name in columns.column_names
    }


@pytest.mark.parametrize("order", ["grouped", "scattered"])
@pytest.mark.parametrize("batch_rows", [1, 50, 700])
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


def test_several_models__each_with_rows_of_its_own():
    other = pa.array([None if x is None else -x for x in TABLE["score"].to_pylist()], pa.float64())
    missing = pa.array([None if i % 5 == 0 else x for i, x in enumerate(other.to_pylist())])
    table = TABLE.append_column("other", other).append_column("fewer", missing)
    together = evaluate(table, score=["score", "other", "fewer"])
    for model in ("score", "other", "fewer"):
        alone = evaluate(table, score=model)
        for text in MEASURES:
            np.testing.assert_array_equal(together[model, text], alone[text])


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


@pytest.mark.parametrize("text", ["Judged", "Judged@2", "Unjudged@2"])
def test_no_retrieved_row__shows_nothing(text):
    assert evaluate(table_of([[Row(None, 1)]]), (text,)).value(text) == 0.0


def test_dropped_rows__are_not_missed():
    result = evaluate(TABLE, ("Judged@3", "Unjudged@3", "bpref"), unjudged="drop")
    retrieved = [any(r.score is not None and r.label is not None for r in rows) for rows in HOLES]
    seen = dict(zip(result.per_group["group"].to_pylist(), result["Judged@3"], strict=True))
    assert all(seen[g] == 1.0 for g in seen if retrieved[g])
    pooled = [any(r.score is not None and (r.label or 0) < 0 for r in rows) for rows in HOLES]
    holes = dict(zip(result.per_group["group"].to_pylist(), result["Unjudged@3"], strict=True))
    assert not any(holes[g] for g in holes if not pooled[g])


def test_inferred_ap__refuses_averages_over_ties():
    with pytest.raises(
        ArgumentError,
        match=r"infAP has no closed form.*choose ties='input', 'item', 'best' or 'worst'",
    ):
        evaluate(TABLE, ("infAP",), ties="expected")


def test_other_tools_names__are_read():
    names = [str(fastrank_eval.measure(text)) for text in ("bpref", "Bpref", "infAP", "unj_10")]
    assert names == ["bpref", "bpref", "infAP", "Unjudged@10"]


def test_negative_grades__are_pooled_but_not_judged():
    """-1 takes no part in bpref; in infAP it counts as pooled."""
    rows = [Row(3.0, -1), Row(2.0, 0), Row(1.0, 1)]
    result = evaluate(table_of([rows]), ("bpref", "infAP"))
    assert result.value("bpref") == 0.0
    assert result.value("infAP") == pytest.approx(oracle("infAP", rows, "input"), abs=1e-15)
    e = 1e-5
    assert result.value("infAP") == pytest.approx((1 + 2 * e / (1 + 2 * e)) / 3, abs=1e-15)
