"""scikit-learn, group by group."""

import numpy as np
import pytest

import fastrank_eval
from tests.conformance.parity import Ledger, evaluated
from tests.conformance.samples import BINARY, FLOATS, GRADED, NEGATIVE, Sample, untied

sklearn_metrics = pytest.importorskip("sklearn.metrics")

DEPTHS = (None, 1, 3, 10)


@pytest.fixture(autouse=True)
def _named(ledger):
    ledger.packages["sklearn"] = "scikit-learn"


def at(k: int | None) -> str:
    return "" if k is None else f"@{k}"


def per_group(sample: Sample, function) -> np.ndarray:
    return np.array([function(label, score) for label, score in sample.groups()])


def compare_gains(ledger: Ledger, sample: Sample, *, ideal: bool) -> None:
    """DCG is not defined there for one row, and nDCG not for negative gains."""
    sample = sample.of_groups(sample.sizes > 1)
    functions = {"DCG": sklearn_metrics.dcg_score}
    if ideal:
        functions["nDCG"] = sklearn_metrics.ndcg_score
    result = evaluated(sample, "sklearn", [f"{name}{at(k)}" for name in functions for k in DEPTHS])
    for name, function in functions.items():
        for k in DEPTHS:
            theirs = per_group(sample, lambda y, s, k=k, of=function: of([y], [s], k=k))
            ours = f"{name}{at(k)}"
            said = f"{function.__name__}(k={k})"
            found = result[ours]
            if name == "nDCG":
                assert (theirs == 0)[np.isnan(found)].all()
                found = np.nan_to_num(found)
            ledger.agree("sklearn", sample, ours, said, found, theirs)
            ledger.agree("sklearn", sample, ours, said, result.value(ours), theirs.mean())


@pytest.mark.parametrize("sample", [*BINARY, *GRADED, *FLOATS], ids=lambda s: s.name)
def test_dcg_and_ndcg(ledger, sample):
    compare_gains(ledger, sample, ideal=True)


@pytest.mark.parametrize("sample", NEGATIVE, ids=lambda s: s.name)
def test_dcg__negative_gains(ledger, sample):
    compare_gains(ledger, sample, ideal=False)


def roc_auc(label, score) -> float:
    if len(np.unique(label)) < 2:
        return np.nan
    return sklearn_metrics.roc_auc_score(label, score)


def compare_areas(ledger: Ledger, sample: Sample) -> None:
    texts = ["GAUC", "AUC", "AUC(max_fpr=0.2)", "GAUC(weight='uniform')"]
    result = evaluated(sample, "sklearn", texts)
    theirs = per_group(sample, roc_auc)
    of_groups = "roc_auc_score of each group"
    ledger.agree("sklearn", sample, "GAUC", of_groups, result["GAUC"], theirs)
    defined = ~np.isnan(theirs)
    means = {
        "GAUC": np.average(theirs[defined], weights=sample.sizes[defined]),
        "GAUC(weight='uniform')": theirs[defined].mean(),
    }
    for text, mean in means.items():
        ledger.agree("sklearn", sample, text, of_groups, result.value(text), mean)
    for max_fpr, text in ((None, "AUC"), (0.2, "AUC(max_fpr=0.2)")):
        pooled = sklearn_metrics.roc_auc_score(sample.label, sample.score, max_fpr=max_fpr)
        name = f"roc_auc_score(max_fpr={max_fpr})"
        ledger.agree("sklearn", sample, text, name, result.value(text), pooled)


@pytest.mark.parametrize("sample", BINARY, ids=lambda s: s.name)
def test_areas_under_roc(ledger, sample):
    compare_areas(ledger, sample)


def test_row_weights__auc(ledger):
    rng = np.random.default_rng(20)
    sample = BINARY[1]
    weight = rng.integers(1, 9, len(sample.group)) / 4
    table = sample.table.append_column("weight", [weight])
    ours = fastrank_eval.evaluate(
        table,
        group="group",
        label="label",
        score="score",
        weight="weight",
        measures="AUC",
        profile="sklearn",
    ).value("AUC")
    theirs = sklearn_metrics.roc_auc_score(sample.label, sample.score, sample_weight=weight)
    ledger.agree("sklearn", sample, "AUC", "roc_auc_score(sample_weight=...)", ours, theirs)


def average_precision(label, score) -> float:
    return sklearn_metrics.average_precision_score(label, score) if label.any() else np.nan


@pytest.mark.parametrize("sample", [untied(s) for s in BINARY], ids=lambda s: s.name)
def test_average_precision__without_ties(ledger, sample):
    theirs = per_group(sample, average_precision)
    ours = evaluated(sample, "sklearn", ["AP"])["AP"]
    name = "average_precision_score of untied groups"
    ledger.agree("sklearn", sample, "AP", name, ours, theirs)


def test_average_precision__tied_rows_enter_at_once_there(ledger):
    sample = BINARY[1]
    theirs = np.nanmean(per_group(sample, average_precision))
    ours = evaluated(sample, "sklearn", ["AP"]).value("AP")
    ledger.differ("sklearn", "average_precision_score", "tied rows enter at once", ours, theirs)


def test_ndcg__groups_of_one_row_and_negative_gains_are_refused_there():
    for function in (sklearn_metrics.dcg_score, sklearn_metrics.ndcg_score):
        with pytest.raises(ValueError):
            function([[1]], [[1]])
    with pytest.raises(ValueError, match="negative"):
        sklearn_metrics.ndcg_score([[-1, 1]], [[1, 2]])


def test_real_lists(ledger, real):
    compare_areas(ledger, real["binary"])
    compare_gains(ledger, real["graded"], ideal=True)
    compare_gains(ledger, real["tied"], ideal=True)
