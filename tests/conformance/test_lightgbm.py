"""LightGBM: a model without trees, whose scores are the initial ones."""

import numpy as np
import pytest

from tests.conformance.parity import Ledger, evaluated
from tests.conformance.samples import BINARY, GRADED, Sample

lightgbm = pytest.importorskip("lightgbm")

PACKAGES = {"lightgbm": "lightgbm"}
DEPTHS = (1, 3, 10, 1000)


def lightgbm_values(
    sample: Sample, metrics: tuple[str, ...], *, weight: np.ndarray | None = None
) -> dict[str, float]:
    data = lightgbm.Dataset(
        np.zeros((len(sample.group), 1)),
        label=sample.label,
        group=None if metrics == ("auc",) else sample.sizes,
        weight=None if weight is None else np.repeat(weight, sample.sizes),
        init_score=sample.score,
        params={"feature_pre_filter": False, "verbosity": -1},
    )
    params = {
        "objective": "none",
        "metric": list(metrics),
        "eval_at": DEPTHS,
        "num_threads": 1,  # so that sums have the same last digit in every run
        "verbosity": -1,
    }
    return {line[1]: line[2] for line in lightgbm.Booster(params, data).eval_train()}


def compare(ledger: Ledger, sample: Sample, readings: dict[str, str]) -> None:
    """Each reading is (theirs, ours)."""
    names = tuple(dict.fromkeys(theirs.partition("@")[0] for theirs in readings))
    values = lightgbm_values(sample, names)
    result = evaluated(sample, "lightgbm", list(readings.values()))
    for theirs, ours in readings.items():
        ledger.agree("lightgbm", sample, ours, theirs, result.value(ours), values[theirs])


NDCG = {f"ndcg@{k}": f"nDCG@{k}" for k in DEPTHS}
MAP = {f"map@{k}": f"AP@{k}" for k in DEPTHS}
AUC = {"auc": "AUC"}


@pytest.mark.parametrize("sample", BINARY, ids=lambda s: s.name)
def test_binary_labels(ledger, sample):
    compare(ledger, sample, NDCG | MAP)
    compare(ledger, sample, AUC)


@pytest.mark.parametrize("sample", GRADED, ids=lambda s: s.name)
def test_graded_labels(ledger, sample):
    compare(ledger, sample, NDCG | MAP)
    compare(ledger, sample, AUC)


def test_query_weights__where_every_query_has_a_relevant_row(ledger):
    judged = np.array([label.max() > 0 for label, _ in GRADED[1].groups()])
    sample = GRADED[1].of_groups(judged)
    weight = 1.0 + np.arange(len(sample.sizes)) % 7
    theirs = lightgbm_values(sample, ("ndcg", "map"), weight=weight)
    for name, ours in (("ndcg@3", "nDCG(weight='w')@3"), ("map@3", "AP(weight='w')@3")):
        value = evaluated(sample, "lightgbm", [ours], weight=weight).value(ours)
        ledger.agree("lightgbm", sample, ours, f"{name}, query weights", value, theirs[name])


def test_query_weights__do_not_weigh_queries_without_a_relevant_row_there(ledger):
    sample = GRADED[1]
    weight = 1.0 + np.arange(len(sample.sizes)) % 7
    theirs = lightgbm_values(sample, ("ndcg",), weight=weight)["ndcg@3"]
    ours = evaluated(sample, "lightgbm", ["nDCG(weight='w')@3"], weight=weight)
    value = ours.value("nDCG(weight='w')@3")
    ledger.differ("lightgbm", "ndcg@3, query weights", "do not weigh queries", value, theirs)


def test_scores_that_float32_cannot_tell_apart__are_not_tied(ledger):
    sample = Sample("close", np.zeros(2, np.int64), np.array([0.0, 1]), np.array([1, 1 + 1e-9]))
    compare(ledger, sample, {"ndcg@1": "nDCG@1"})


def test_pooled_rows_of_one_class__auc_is_one_there(ledger):
    sample = Sample("one class", np.zeros(3, np.int64), np.zeros(3), np.array([3.0, 2, 1]))
    theirs = lightgbm_values(sample, ("auc",))["auc"]
    ours = evaluated(sample, "lightgbm", ["AUC"]).value("AUC")
    ledger.agree("lightgbm", sample, "AUC", "auc", ours, theirs)


def test_real_lists(ledger, real):
    compare(ledger, real["binary"], NDCG | MAP)
    compare(ledger, real["binary"], AUC)
    for name in ("graded", "tied"):
        compare(ledger, real[name], NDCG | MAP)
