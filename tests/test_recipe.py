"""ARCHITECTURE.md's recipe for a new measure, followed: one class, and everything else reads it."""

from collections.abc import Iterator

import numpy as np
import pytest

import fastrank_eval
from fastrank_eval.measures import Measure, measure, registry
from fastrank_eval.measures.base import REL, aliases
from fastrank_eval.results.catalogue import entries


@pytest.fixture
def toy() -> Iterator[str]:
    class Coverage(Measure):
        name = "Coverage"
        summary = "share of the group's rows that are relevant"
        formula = "R / N"
        reference = "none"
        options = (REL,)
        weight = "uniform"

        def pass_key(self):
            return self.name, self.rel

        @classmethod
        def compute(cls, measures, ranking, outs):
            for m, out in zip(measures, outs, strict=True):
                np.divide(ranking.relevant(m.rel), ranking.rows, out=out)

    yield Coverage.name
    del registry["Coverage"], aliases["coverage"]


def test_measure_of_a_user__is_read_evaluated_and_listed(toy: str) -> None:
    log = {"user": [1, 1, 2, 2], "click": [1, 0, 0, 3], "pctr": [0.1, 0.2, 0.3, 0.4]}
    roles = {"group": "user", "label": "click", "score": "pctr"}
    result = fastrank_eval.evaluate(log, measures="coverage(rel=2), RR", **roles)
    assert result.value("Coverage(rel=2)") == 0.25
    np.testing.assert_array_equal(result["Coverage(rel=2)"], [0.0, 0.5])
    assert str(measure("COVERAGE")) == toy
    assert toy in [entry["name"] for entry in entries()]
