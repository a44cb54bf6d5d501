"""CatBoost: `catboost.utils.eval_metric`."""

import numpy as np
import pytest

from tests.conformance.parity import Ledger, evaluated
from tests.conformance.samples import BINARY, FLOATS, GRADED, NEGATIVE, PROBABILITIES, Sample

catboost = pytest.importorskip("catboost.utils")

PACKAGES = {"catboost": "catboost"}
DEPTHS = (1, 3, 10)


def deep(name: str, ours: str, *options: str) -> dict[str, str]:
    """Their texts and ours, with and without a cutoff."""
    readings = {}
    for k in (None, *DEPTHS):
        given = [*([] if k is None else [f"top={k}"]), *options]
        theirs = f"{name}:{';'.join(given)}" if given else name
        readings[theirs] = ours if k is None else f"{ours}@{k}"
    return readings


GAINS = deep("NDCG", "nDCG") | deep("DCG", "DCG")
# gain='exp' is our default, which the profile takes for not given: hence a table.
EXPONENTIAL = "gain={1: 1, 2: 3, 3: 7, 4: 15}"
EXPONENTIAL_GAINS = deep("NDCG", f"nDCG({EXPONENTIAL})", "type=Exp") | deep(
    "DCG", f"DCG({EXPONENTIAL})", "type=Exp"
)
HITS = (
    deep("MAP", "AP")
    | deep("MRR", "RR")
    | deep("PrecisionAt", "P")
    | deep("RecallAt", "R")
    | {"QueryAUC:type=Classic": "GAUC", "AUC": "AUC"}
)
CASCADE = (
    deep("ERR", "ERR")
    | deep("PFound", "pFound(stop='label')")
    | deep("PFound", "pFound(patience=0.5, stop='label')", "decay=0.5")
)


def catboost_value(sample: Sample, metric: str, **options: object) -> float:
    if metric != "AUC":
        options["group_id"] = sample.group
    # One thread, so that sums have the same last digit in every run.
    return catboost.eval_metric(sample.label, sample.score, metric, thread_count=1, **options)[0]


def compare(ledger: Ledger, sample: Sample, readings: dict[str, str]) -> None:
    result = evaluated(sample, "catboost", list(readings.values()))
    for theirs, ours in readings.items():
        value = catboost_value(sample, theirs)
        ledger.agree("catboost", sample, ours, theirs, result.value(ours), value)


@pytest.mark.parametrize("sample", BINARY, ids=lambda s: s.name)
def test_binary_labels(ledger, sample):
    compare(ledger, sample, GAINS | HITS)


@pytest.mark.parametrize("sample", GRADED, ids=lambda s: s.name)
def test_graded_labels(ledger, sample):
    compare(ledger, sample, GAINS | EXPONENTIAL_GAINS)


@pytest.mark.parametrize("sample", FLOATS, ids=lambda s: s.name)
def test_gains_of_any_size(ledger, sample):
    compare(ledger, sample, GAINS)


@pytest.mark.parametrize("sample", NEGATIVE, ids=lambda s: s.name)
def test_negative_grades__cost_in_dcg_and_in_the_ideal(ledger, sample):
    compare(ledger, sample, GAINS)


def test_pooled_rows_of_one_class__auc_is_zero_there(ledger):
    sample = Sample("one class", np.zeros(3, np.int64), np.zeros(3), np.array([3.0, 2, 1]))
    compare(ledger, sample, {"AUC": "AUC"})


def test_group_weights__weigh_ndcg(ledger):
    sample = GRADED[1]
    weight = 1.0 + np.arange(len(sample.sizes)) % 7
    given = np.repeat(weight, sample.sizes)
    theirs = catboost_value(sample, "NDCG:top=3", group_weight=given)
    ours = "nDCG(weight='w')@3"
    value = evaluated(sample, "catboost", [ours], weight=weight).value(ours)
    ledger.agree("catboost", sample, ours, "NDCG:top=3, group weights", value, theirs)


@pytest.mark.parametrize("sample", PROBABILITIES, ids=lambda s: s.name)
def test_labels_that_are_probabilities(ledger, sample):
    compare(ledger, sample, CASCADE)


def test_real_lists(ledger, real):
    compare(ledger, real["binary"], GAINS | HITS | CASCADE)
    for name in ("graded", "tied"):
        compare(ledger, real[name], GAINS | EXPONENTIAL_GAINS)
