"""scikit-learn, group by group."""

import numpy as np
import pytest

from tests.conformance.parity import Ledger, evaluated
from tests.conformance.samples import BINARY, FLOATS, GRADED, NEGATIVE, Sample, untied
from tests.support.tables import evaluate

sklearn_metrics = pytest.importorskip("sklearn.metrics")

PACKAGES = {"sklearn": "scikit-learn"}
DEPTHS = (None, 1, 3, 10)


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
    ours = evaluate(table, "AUC", weight="weight", profile="sklearn").value("AUC")
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


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("label", [[1, 0, 0, 1, 1, 0], [0] * 6, [1] * 6], ids=str)
def test_log_loss__probabilities_of_exactly_0_and_1(ledger, kind, label):
    score = np.array([0, 1, 0, 1, 0.25, 1e-4], kind)
    result = evaluate(
        {"group": np.zeros(6, int), "label": label, "score": score}, "LogLoss", profile="sklearn"
    )
    theirs = sklearn_metrics.log_loss(label, score, labels=[0, 1])
    (found,) = result
    # Logarithms of the narrow types are theirs; ours are of float64.
    assert found.value == pytest.approx(theirs, rel=max(1e-12, 4 * float(np.finfo(kind).eps)))
    clamped = 5 if kind == np.float16 else 4
    assert found.details == {"clamped rows": clamped}
    if kind == np.float64:
        said = "log_loss(labels=[0, 1])"
        ledger.agree("sklearn", "0 and 1", "LogLoss", said, found.value, theirs)


EDGES = {
    "exactly 0 and 1": [0.0, 1.0, 0.0, 1.0],
    "untied": [0.1, 0.9, 0.4, 0.5],
    "all 1": [1.0] * 4,
    "all 0": [0.0] * 4,
    "next to 0 and 1": [1e-20, 1.0, 0.3, 1 - 1e-16],
}
DECIDED = {
    "Accuracy": (sklearn_metrics.accuracy_score, {}),
    "PPV": (sklearn_metrics.precision_score, {}),
    "TPR": (sklearn_metrics.recall_score, {}),
    "NPV": (sklearn_metrics.precision_score, {"pos_label": 0}),
    "TNR": (sklearn_metrics.recall_score, {"pos_label": 0}),
    "FScore": (sklearn_metrics.f1_score, {}),
    "MCC": (sklearn_metrics.matthews_corrcoef, {}),
}
SCORED = {
    "AUC": (sklearn_metrics.roc_auc_score, {}),
    "Brier": (sklearn_metrics.brier_score_loss, {"pos_label": 1}),
    "LogLoss": (sklearn_metrics.log_loss, {"labels": [0, 1]}),
    "MSE": (sklearn_metrics.mean_squared_error, {}),
    "RMSE": (sklearn_metrics.root_mean_squared_error, {}),
    "MAE": (sklearn_metrics.mean_absolute_error, {}),
    "DCG": (sklearn_metrics.dcg_score, {}),
    "nDCG": (sklearn_metrics.ndcg_score, {}),
}
OF_TWO_CLASSES = {
    "AvgPrec": (sklearn_metrics.average_precision_score, {}),
    "RIG": (sklearn_metrics.d2_log_loss_score, {"labels": [0, 1]}),
}


@pytest.mark.parametrize("label", [[0, 1, 1, 0], [0] * 4, [1] * 4], ids=str)
@pytest.mark.parametrize("edge", EDGES)
def test_edges__all_rows_of_one_class_or_decision(ledger, edge, label):
    score = np.array(EDGES[edge])
    texts = {**SCORED, **DECIDED, **(OF_TWO_CLASSES if len(set(label)) == 2 else {})}
    result = evaluate(
        {"group": np.zeros(4, int), "label": label, "score": score}, list(texts), profile="sklearn"
    )
    for text, (of, more) in texts.items():
        lists = text in ("DCG", "nDCG")
        rows = score >= 0.5 if text in DECIDED else score
        theirs = of([label], [rows], **more) if lists else of(label, rows, **more)
        said = ", ".join(f"{name}={value}" for name, value in more.items())
        name = f"{of.__name__}({said})" if said else of.__name__
        ledger.agree("sklearn", f"edges: {edge}", text, name, result.value(text), theirs)


def test_average_precision__of_one_class(ledger):
    score = np.array(EDGES["untied"])
    ours = evaluate(
        {"group": np.zeros(4, int), "label": [1] * 4, "score": score},
        ["AvgPrec", "RIG"],
        profile="sklearn",
    )
    theirs = sklearn_metrics.average_precision_score([1] * 4, score)
    name = "average_precision_score of one class"
    ledger.differ("sklearn", name, "of rows of one class is 1 or 0", ours.value("AvgPrec"), theirs)
    theirs = sklearn_metrics.d2_log_loss_score([1] * 4, score, labels=[0, 1])
    name = "d2_log_loss_score of one class"
    ledger.differ("sklearn", name, "divides by a loss of almost 0", ours.value("RIG"), theirs)


def test_real_lists(ledger, real):
    compare_areas(ledger, real["binary"])
    compare_gains(ledger, real["graded"], ideal=True)
    compare_gains(ledger, real["tied"], ideal=True)
