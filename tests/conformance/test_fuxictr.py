"""FuxiCTR: `evaluate_metrics`, after which the profile `din` is made."""

from multiprocessing.pool import ThreadPool

import numpy as np
import pytest

from tests.conformance.parity import Ledger, evaluated
from tests.conformance.samples import BINARY, GRADED, Sample, untied

metrics = pytest.importorskip("fuxictr.metrics")

PROFILE = "din"
AREAS = {"gAUC": "GAUC", "avgAUC": "GAUC(weight='uniform')", "AUC": "AUC"}
GAINS = {f"NDCG({k})": f"nDCG@{k}" for k in (1, 3, 10, 1000)}


@pytest.fixture(autouse=True)
def _named(ledger):
    ledger.packages[PROFILE] = "fuxictr"
    ledger.notes[PROFILE] = [
        "Installed without what it requires, ray from 2.52 on, which RecBole refuses; only its "
        "`metrics` are called. It adds 1e-12 to the denominators of NDCG and MRR."
    ]


@pytest.fixture(autouse=True)
def _threads(monkeypatch):
    """In place of its processes, one call a group."""
    monkeypatch.setattr(metrics.mp, "Pool", lambda processes: ThreadPool(1))


def fuxictr_values(sample: Sample, names: list[str]) -> dict[str, float]:
    return metrics.evaluate_metrics(sample.label, sample.score, names, sample.group)


def compare(ledger: Ledger, sample: Sample, readings: dict[str, str]) -> None:
    values = fuxictr_values(sample, list(readings))
    result = evaluated(sample, PROFILE, list(readings.values()))
    for theirs, ours in readings.items():
        ledger.agree(PROFILE, sample, ours, theirs, result.value(ours), values[theirs])


@pytest.mark.parametrize("sample", BINARY, ids=lambda s: s.name)
def test_binary_labels(ledger, sample):
    compare(ledger, sample, AREAS)
    compare(ledger, untied(sample), AREAS | GAINS)


@pytest.mark.parametrize("sample", GRADED, ids=lambda s: s.name)
def test_graded_labels(ledger, sample):
    compare(ledger, untied(sample), GAINS)


def test_mrr__where_no_group_has_two_relevant_rows(ledger):
    few = np.array([label.sum() < 2 for label, _ in BINARY[0].groups()])
    compare(ledger, untied(BINARY[0]).of_groups(few), {"MRR": "RR"})


def test_mrr__is_the_mean_over_all_relevant_rows_there(ledger):
    sample = untied(BINARY[1])
    theirs = fuxictr_values(sample, ["MRR"])["MRR"]
    ours = evaluated(sample, PROFILE, ["RR"]).value("RR")
    ledger.differ(PROFILE, "MRR", "over all positives", ours, theirs)


def test_ndcg__tied_rows_have_an_order_of_their_own_there(ledger):
    theirs = fuxictr_values(BINARY[1], ["NDCG(3)"])["NDCG(3)"]
    ours = evaluated(BINARY[1], PROFILE, ["nDCG@3"]).value("nDCG@3")
    ledger.differ(PROFILE, "NDCG(3) of tied rows", "an unstable sort", ours, theirs)


def test_real_lists(ledger, real):
    compare(ledger, real["binary"], AREAS)
    compare(ledger, untied(real["binary"]), GAINS)
    compare(ledger, untied(real["graded"]), GAINS)
