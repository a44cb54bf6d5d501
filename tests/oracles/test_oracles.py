"""The oracles themselves: against hand-checked numbers, other tools, and brute force."""

import itertools
import math

import pytest

from tests import strategies
from tests.oracles.means import mean_over_groups
from tests.oracles.measures import Row, all_orders, count_arrangements, oracle, read
from tests.strategies import (
    LOWER_IS_BETTER,
    PER_GROUP,
    has_expectation,
    has_extremes,
    random_groups,
)

pytestmark = pytest.mark.no_kernels

# One query scored by several tools: two tied groups, an unjudged row (d6), and one relevant
# document that was never retrieved (d9).
QUERY = [
    Row(0.5, 3, item="d1"),
    Row(0.9, 2, item="d2"),
    Row(0.9, 0, item="d3"),
    Row(0.5, 1, item="d4"),
    Row(0.5, 0, item="d5"),
    Row(0.2, None, item="d6"),
    Row(None, 2, item="d9"),
]

EXPECTED = {
    "AP": 0.502778,
    "AP@3": 0.298611,
    "nDCG(gain='linear')": 0.595101,
    "nDCG(gain='linear')@3": 0.436651,
    "nDCG@3": 0.363688,
    "RR": 0.75,
    "RR@10": 0.75,
    "R@3": 0.416667,
    "P@5": 0.6,
    "P@10": 0.3,
    "Rprec": 0.583333,
    "Success@1": 0.5,
    "ERR": 0.241888,
    "ERR(max_grade=3)": 0.429633,
    "GAUC": 0.458333,  # 11 of 24 pairs: d9 is below all
    "P": 0.5,
    "R": 0.75,
    "F": 0.6,
}

# trec_eval breaks ties by document id, descending.
TREC_EVAL = {
    "AP": 0.4,
    "AP@3": 0.125,
    "nDCG(gain='linear')": 0.501199,
    "nDCG(gain='linear')@3": 0.239812,
    "nDCG@3": 0.18213,  # gdeval
    "RR": 0.5,
    "R@3": 0.25,
    "P@5": 0.6,
    "P@10": 0.3,
    "Rprec": 0.5,
    "Success@1": 0.0,
    "ERR": 0.1731,  # gdeval
    "P": 0.5,
    "R": 0.75,
    "F": 0.6,
}

# What trec_eval 10 prints to four decimals; at recall 0.8, version 9 prints 0.
TREC_EVAL_PRINTED = {
    "RelP@5": 0.75,
    "SetAP": 0.375,
    **{f"IPrec(recall={level / 10})": 0.6 for level in range(1, 9)},
    "IPrec(recall=0.8, rounding='up')": 0.0,
    "IPrec(recall=0.9)": 0.0,
    "IPrec11": 0.4909,
    "IPrec11(rounding='up')": 0.4364,
    "binG": 0.4077,
    "G": 0.3137,
    "nDCGrel": 0.3990,
    "RnDCG": 0.2596,
}

# ranx happened to keep the input order here.
RANX = {
    "AP": 0.604167,
    "AP@3": 0.416667,
    "nDCG(gain='linear')": 0.690497,
    "nDCG(gain='linear')@3": 0.665164,
    "nDCG@3": 0.625434,
    "RR": 1.0,
    "R@3": 0.5,
    "P@5": 0.6,
    "Rprec": 0.75,
    "Success@1": 1.0,
}

# scikit-learn sees the retrieved rows only, and averages over ties.
SKLEARN = {
    "nDCG(gain='linear', ideal='retrieved')": 0.711410,
    "nDCG(gain='linear', ideal='retrieved')@3": 0.482500,
}


@pytest.mark.parametrize(
    "ties, values",
    [("expected", EXPECTED), ("item", TREC_EVAL), ("input", RANX), ("expected", SKLEARN)],
    ids=["expected", "trec_eval", "ranx", "scikit-learn"],
)
def test_oracle__one_query_scored_by_every_tool(ties, values):
    for text, printed in values.items():
        decimals = 1e-4 if text == "ERR" and ties == "item" else 5e-6
        assert oracle(text, QUERY, ties) == pytest.approx(printed, abs=decimals), (ties, text)


def test_oracle__one_query_as_trec_eval_prints_it():
    for text, printed in TREC_EVAL_PRINTED.items():
        assert oracle(text, QUERY, "item") == pytest.approx(printed, abs=5.1e-5), text


def test_arrangements_of_labels__mean_the_same_as_permutations_of_rows():
    rows = [Row(1.0, g) for g in (2, 0, 0, 1)] + [Row(0.5, g) for g in (1, 1, 0)]
    assert count_arrangements(rows) == len(all_orders(rows)) == 12 * 3
    for text in ("AP", "nDCG@3", "ERR@4", "RR", "F@2", "Success@5"):
        values = []
        for first in itertools.permutations(rows[:4]):
            for second in itertools.permutations(rows[4:]):
                order = [*first, *second]
                distinct = [row._replace(score=-float(i)) for i, row in enumerate(order)]
                values.append(oracle(text, distinct, "input"))
        mean = math.fsum(values) / len(values)
        assert oracle(text, rows, "expected") == pytest.approx(mean, abs=1e-12), text


def test_best_and_worst__are_the_extremes_over_all_orders():
    groups = random_groups(12, 40, unretrieved=0.1, unjudged=0.1)
    for text in PER_GROUP:
        if text.startswith("GAUC") or not has_extremes(text):
            continue
        for rows in groups:
            values = []
            for order in all_orders(rows):
                unretrieved = [row for row in rows if row.score is None]
                untied = [Row(-float(i), label) for i, label in enumerate(order)]
                values.append(oracle(text, untied + unretrieved, "input"))
            if math.isnan(values[0]):
                assert math.isnan(oracle(text, rows, "best"))
                continue
            most, least = max(values), min(values)
            if text.startswith(LOWER_IS_BETTER):
                most, least = least, most
            assert oracle(text, rows, "best") == pytest.approx(most, abs=1e-12), text
            assert oracle(text, rows, "worst") == pytest.approx(least, abs=1e-12), text


def test_mean__weights_and_coverage_by_hand():
    both = [Row(2.0, 1), Row(1.0, 0), Row(1.0, 1)]
    negative = [Row(1.0, 0)]
    positive = [Row(1.0, 1), Row(3.0, 1)]
    line = mean_over_groups("GAUC", [both, negative, positive])
    assert line.value == pytest.approx(0.75)
    assert (line.groups, line.groups_used) == (3, 1)
    assert line.dropped == {"all_negative": 1, "all_positive": 1}
    assert line.rows_share == pytest.approx(3 / 6)
    assert line.positives_share == pytest.approx(2 / 4)
    line = mean_over_groups("GAUC(weight='impressions')", [both, negative], undefined="one")
    assert line.value == pytest.approx((3 * 0.75 + 1) / 4)
    line = mean_over_groups("RR", [both, negative], with_relevant=True)
    assert (line.value, line.dropped) == (1.0, {"no_relevant": 1})


def test_variants__are_readable_by_the_oracle():
    for text in PER_GROUP:
        assert not math.isnan(oracle(text, [Row(2.0, 2), Row(1.0, 0)] * 2, "input")), text
    rows = [Row(2.0, 0.25), Row(1.0, 0.5)]
    by_hand = {
        "ERR": 0.25 + 0.75 * 0.5 / 2,
        "pFound": 0.25 + 0.75 * 0.5 * 0.85,
        "RBP": (0.25 + 0.5 * 0.8) / 5,
        "SDCG": (0.25 + 0.5 / math.log2(3)) / (1 + 1 / math.log2(3) + 1 / 2),
        "INSQ": (0.25 + 0.5 * 4 / 9) / (4 * (math.pi**2 / 6 - 1)),
    }
    for text in strategies.LABEL_AS_PROBABILITY:
        if has_expectation(text):
            wanted = by_hand[read(text)[0]]
            assert oracle(text, rows, "input") == pytest.approx(wanted, abs=1e-12), text


def test_user_models__by_hand():
    """A reader who wants 1 leaves INST after it: V = 1, then ((y - 1)/y)^2 with y growing by 1."""
    rest = math.pi**2 / 6  # of 1/j^2, all of it
    first = [Row(2.0, 1), Row(1.0, 0)]
    assert oracle("INST", first, "input") == pytest.approx(1 / (1 + 1 / 4 * 4 * (rest - 1)))
    none = [Row(2.0, 0), Row(1.0, 0)]
    assert oracle("INST", none, "input") == 0
    every = [Row(float(-i), 1) for i in range(9)]
    assert oracle("INST(T=0.5)", every, "input") == 1


def test_worked_examples__by_the_oracle(worked_examples):
    checked = 0
    for case in worked_examples.values():
        if "curve" in case or "rows" not in case or "AUC" in case["measures"]:
            continue
        groups: dict[str, list[Row]] = {}
        for group, label, score in zip(*case["rows"].values(), strict=True):
            groups.setdefault(group, []).append(Row(score, label))
        for position, text in enumerate(case["measures"]):
            value = case["value"][position] if isinstance(case["value"], list) else case["value"]
            mean = mean_over_groups(text, list(groups.values()), ties="input").value
            assert mean == pytest.approx(value, abs=1e-12), (case["id"], text)
            checked += 1
    assert checked > 90
