"""What policies of ties pick, and labels as probabilities; tests of the engine hold the rest.

Measures equal their oracles in measures/test_tie_policies.py, and the numbers of other tools in
test_reference_data.py.
"""

import math

import pytest

from tests import strategies
from tests.oracles.measures import Row, all_orders, oracle, read
from tests.strategies import (
    LOWER_IS_BETTER,
    PER_GROUP,
    has_expectation,
    has_extremes,
    random_groups,
)

pytestmark = pytest.mark.no_kernels


def test_best_and_worst__are_the_extremes_over_all_orders():
    groups = random_groups(12, 15, unretrieved=0.1, unjudged=0.1)
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
