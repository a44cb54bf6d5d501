"""XGBoost: a model without trees, whose scores are the base margins."""

import numpy as np
import pytest

from tests.conformance.parity import Ledger, evaluated
from tests.conformance.samples import BINARY, FLOATS, GRADED, Sample

xgboost = pytest.importorskip("xgboost")

DEPTHS = (1, 3, 10, 1000)
# Without a cutoff the lists end at rank 32 there.
NDCG = {f"ndcg@{k}": f"nDCG@{k}" for k in DEPTHS} | {"ndcg": "nDCG@32"}
HITS = (
    {f"map@{k}": f"AP@{k}" for k in DEPTHS}
    | {f"pre@{k}": f"P@{k}" for k in DEPTHS}
    | {"map": "AP@32", "pre": "P@32"}
)


@pytest.fixture(autouse=True)
def _named(ledger):
    # The package may be xgboost-cpu, which is the same without the libraries of a GPU.
    ledger.sources["xgboost"] = f"xgboost {xgboost.__version__}"


def xgboost_values(
    sample: Sample,
    metrics: list[str],
    *,
    grouped: bool = True,
    weight: np.ndarray | None = None,
    **params: object,
) -> dict[str, float]:
    data = xgboost.DMatrix(
        np.zeros((len(sample.group), 1)), label=sample.label, base_margin=sample.score
    )
    if grouped:
        data.set_group(sample.sizes)
    if weight is not None:
        data.set_weight(weight)
    params = {
        "objective": "reg:squarederror",
        "eval_metric": metrics,
        "nthread": 1,  # so that sums have the same last digit in every run
        **params,
    }
    said = xgboost.Booster(params, [data]).eval_set([(data, "e")])
    return {
        name.removeprefix("e-"): float(value)
        for name, _, value in (text.rpartition(":") for text in said.split("\t")[1:])
    }


def compare(ledger: Ledger, sample: Sample, readings: dict[str, str], **options: object) -> None:
    values = xgboost_values(sample, list(readings))
    result = evaluated(sample, "xgboost", list(readings.values()), **options)
    for theirs, ours in readings.items():
        ledger.agree("xgboost", sample, ours, theirs, result.value(ours), values[theirs])


def compare_pooled(ledger: Ledger, sample: Sample) -> None:
    theirs = xgboost_values(sample, ["auc"], grouped=False)["auc"]
    ours = evaluated(sample, "xgboost", ["AUC"]).value("AUC")
    ledger.agree("xgboost", sample, "AUC", "auc, without groups", ours, theirs)


@pytest.mark.parametrize("sample", BINARY, ids=lambda s: s.name)
def test_binary_labels(ledger, sample):
    compare(ledger, sample, NDCG | HITS)
    compare_pooled(ledger, sample)


@pytest.mark.parametrize("sample", GRADED, ids=lambda s: s.name)
def test_graded_labels(ledger, sample):
    compare(ledger, sample, NDCG)


@pytest.mark.parametrize("sample", BINARY, ids=lambda s: s.name)
def test_minus__groups_without_a_relevant_row_are_zero(ledger, sample):
    readings = {
        f"{name}-": ours
        for name, ours in (NDCG | HITS).items()
        if "@" in name and not name.startswith("pre")
    }
    compare(ledger, sample, readings, undefined="zero")


@pytest.mark.parametrize("sample", FLOATS, ids=lambda s: s.name)
def test_linear_gains(ledger, sample):
    theirs = xgboost_values(sample, list(NDCG), objective="rank:ndcg", ndcg_exp_gain=False)
    readings = {name: ours.replace("nDCG", "nDCG(gain='linear')") for name, ours in NDCG.items()}
    result = evaluated(sample, "xgboost", list(readings.values()))
    for name, ours in readings.items():
        said = f"{name}, ndcg_exp_gain=False"
        ledger.agree("xgboost", sample, ours, said, result.value(ours), theirs[name])


def test_group_weights__where_every_group_has_a_relevant_row(ledger):
    judged = np.array([label.max() > 0 for label, _ in GRADED[1].groups()])
    sample = GRADED[1].of_groups(judged)
    weight = 1.0 + np.arange(len(sample.sizes)) % 7
    theirs = xgboost_values(sample, ["ndcg@3"], weight=weight)["ndcg@3"]
    ours = "nDCG(weight='w')@3"
    value = evaluated(sample, "xgboost", [ours], weight=weight).value(ours)
    ledger.agree("xgboost", sample, ours, "ndcg@3, group weights", value, theirs)


def test_group_weights__do_not_weigh_groups_without_a_relevant_row_there(ledger):
    sample = GRADED[1]
    weight = 1.0 + np.arange(len(sample.sizes)) % 7
    theirs = xgboost_values(sample, ["ndcg@3"], weight=weight)["ndcg@3"]
    ours = "nDCG(weight='w')@3"
    value = evaluated(sample, "xgboost", [ours], weight=weight).value(ours)
    ledger.differ("xgboost", "ndcg@3, group weights", "do not weigh groups", value, theirs)


def test_auc_with_groups__counts_pairs_of_equal_labels_there(ledger):
    sample = BINARY[1]
    theirs = xgboost_values(sample, ["auc"])["auc"]
    ours = evaluated(sample, "xgboost", ["GAUC(weight='uniform')"])
    value = ours.value("GAUC(weight='uniform')")
    ledger.differ("xgboost", "auc, with groups", "no per-group AUC", value, theirs)


def test_lists_without_cutoff__end_at_rank_32_there(ledger):
    sample = BINARY[2]
    theirs = xgboost_values(sample, ["ndcg", "map", "pre"])
    result = evaluated(sample, "xgboost", ["nDCG", "AP", "P"])
    for name, ours in (("ndcg", "nDCG"), ("map", "AP"), ("pre", "P")):
        ledger.differ("xgboost", name, "end at rank 32", result.value(ours), theirs[name])


def test_scores_that_float32_cannot_tell_apart__are_tied(ledger):
    group, score = np.zeros(2, np.int64), np.array([1, 1 + 1e-9])
    sample = Sample("close", group, np.array([0.0, 1]), score)
    compare(ledger, sample, {"ndcg@1": "nDCG@1"})


def test_real_lists(ledger, real):
    compare(ledger, real["binary"], NDCG | HITS)
    compare_pooled(ledger, real["binary"])
    for name in ("graded", "tied"):
        compare(ledger, real[name], NDCG)
