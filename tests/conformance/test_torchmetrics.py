"""TorchMetrics: its retrieval measures, and the pooled areas of its classification measures."""

import numpy as np
import pytest

from tests.conformance.parity import Ledger, evaluated
from tests.conformance.samples import BINARY, FLOATS, GRADED, NEGATIVE, Sample, untied

torch = pytest.importorskip("torch")
retrieval = pytest.importorskip("torchmetrics.retrieval")
classification = pytest.importorskip("torchmetrics.classification")

PROFILE = "torchmetrics"
DEPTHS = (None, 1, 3, 10)
#: Class and options -> the measure, whose cutoff is `top_k`.
RANKED = {
    "Precision": "P",
    "Precision(adaptive_k=True)": "P(short='length')",
    "Recall": "R",
    "HitRate": "Success",
    "MRR": "RR",
}
UNCUT = {"MAP": "AP", "RPrecision": "Rprec", "AUROC": "GAUC"}


@pytest.fixture(autouse=True)
def _named(ledger):
    ledger.packages[PROFILE] = "torchmetrics"
    ledger.tolerances[PROFILE] = 1e-6
    ledger.notes[PROFILE] = [
        "It computes in float32, whose rounding the differences show: up to 1e-06 passes.",
        "`empty_target_action='skip'` is `groups=\"with_relevant\"` here, and `'pos'` is "
        '`undefined="one"`. Measures but nDCG and AUROC are compared on lists without ties, and '
        "scores are moved into ]0, 1], for reasons that stand below.",
    ]


def probabilities(sample: Sample) -> Sample:
    """The same order and the same ties, with scores in ]0, 1] that float32 tells apart."""
    ranks = np.unique(sample.score, return_inverse=True)[1] + 1.0
    score = ranks / 2.0 ** np.ceil(np.log2(ranks.max()))
    return Sample(sample.name, sample.group, sample.label, score)


def tensors(sample: Sample) -> dict[str, "torch.Tensor"]:
    """Grades as whole numbers, wherever they are."""
    whole = (sample.label == np.round(sample.label)).all()
    return {
        "preds": torch.tensor(sample.score, dtype=torch.float32),
        "target": torch.tensor(sample.label, dtype=torch.long if whole else torch.float32),
        "indexes": torch.tensor(sample.group),
    }


def theirs_of(sample: Sample, text: str, k: int | None, **options: object) -> np.ndarray:
    """One value a group, and their mean at the end."""
    name, _, inside = text.partition("(")
    if inside:
        options["adaptive_k"] = True
    if k is not None:
        options["top_k"] = k
    found = []
    for more in ({"aggregation": lambda values, dim: values}, {}):
        metric = getattr(retrieval, f"Retrieval{name}")(**options, **more)
        metric.update(**tensors(sample))
        found.append(np.atleast_1d(metric.compute().numpy()).astype(np.float64))
    return np.concatenate(found)


def compare(
    ledger: Ledger, sample: Sample, text: str, ours: str, k: int | None = None, action: str = "neg"
) -> None:
    """Group by group, and the mean. `action` is `empty_target_action`."""
    options = {
        "neg": {},
        "skip": {"groups": "with_relevant"},
        "pos": {"undefined": "one"},
    }[action]
    theirs = theirs_of(sample, text, k, empty_target_action=action)
    ours = ours if k is None else f"{ours}@{k}"
    result = evaluated(sample, PROFILE, [ours], **options)
    each = np.nan_to_num(result[ours], nan=float(action == "pos"))
    if action == "skip":
        each = each[[label.max() > 0 for label, _ in sample.groups()]]
    given = [] if k is None else [f"top_k={k}"]
    given += [text.partition("(")[2].rstrip(")")] if "(" in text else []
    given += [] if action == "neg" else [f"empty_target_action='{action}'"]
    said = f"Retrieval{text.partition('(')[0]}({', '.join(given)})"
    ledger.agree(PROFILE, sample, ours, said, [*each, result.value(ours)], theirs)


def compare_hits(ledger: Ledger, sample: Sample) -> None:
    """Of lists without ties, whose order is the sort's there."""
    sample = probabilities(untied(sample))
    for text, ours in RANKED.items():
        for k in DEPTHS:
            compare(ledger, sample, text, ours, k)
    for text, ours in UNCUT.items():
        compare(ledger, sample, text, ours)


def compare_gains(ledger: Ledger, sample: Sample) -> None:
    for k in DEPTHS:
        compare(ledger, sample, "NormalizedDCG", "nDCG", k)


@pytest.mark.parametrize("sample", BINARY, ids=lambda s: s.name)
def test_binary_labels(ledger, sample):
    compare_hits(ledger, sample)
    compare_gains(ledger, sample)
    compare(ledger, probabilities(sample), "AUROC", "GAUC")


@pytest.mark.parametrize("sample", [*GRADED, *FLOATS], ids=lambda s: s.name)
def test_grades(ledger, sample):
    compare_gains(ledger, sample)


@pytest.mark.parametrize("action", ["skip", "pos"])
def test_groups_without_a_relevant_row(ledger, action):
    sample = probabilities(untied(BINARY[1]))
    for text, ours in (("MAP", "AP"), ("RPrecision", "Rprec")):
        compare(ledger, sample, text, ours, action=action)
    compare(ledger, sample, "Recall", "R", 3, action)
    compare(ledger, sample, "NormalizedDCG", "nDCG", 3, action)


def test_groups_without_a_relevant_row__skipped_by_measures_that_are_defined_for_them(ledger):
    sample = probabilities(untied(BINARY[1]))
    for text in ("Precision", "HitRate", "MRR"):
        compare(ledger, sample, text, RANKED[text], 3, "skip")
    compare(ledger, sample, "AUROC", "GAUC", action="skip")


@pytest.mark.parametrize("text,ours", [("Precision", "P"), ("AUROC", "GAUC")])
def test_groups_without_a_relevant_row__count_1_there(ledger, text, ours):
    sample = probabilities(untied(BINARY[1]))
    theirs = theirs_of(sample, text, None, empty_target_action="pos")[-1]
    value = evaluated(sample, PROFILE, [ours], undefined="one").value(ours)
    said = f"Retrieval{text}(empty_target_action='pos')"
    ledger.differ(PROFILE, said, "empty_target_action='pos'", value, theirs)


def test_map_with_top_k__divides_by_the_relevant_rows_inside_it_there(ledger):
    sample = probabilities(untied(BINARY[1]))
    theirs = theirs_of(sample, "MAP", 3)[-1]
    value = evaluated(sample, PROFILE, ["AP@3"]).value("AP@3")
    ledger.differ(PROFILE, "RetrievalMAP(top_k=3)", "inside the first k", value, theirs)


def test_scores_of_0_and_below__hide_relevant_rows_there(ledger):
    sample = untied(BINARY[1])
    for text, ours in (("MAP", "AP"), ("MRR", "RR"), ("Precision", "P"), ("Recall", "R")):
        theirs = theirs_of(sample, text, None)[-1]
        value = evaluated(sample, PROFILE, [ours]).value(ours)
        said = f"Retrieval{text} of scores below 0"
        ledger.differ(PROFILE, said, "scores of 0 and below", value, theirs)
    for text, ours in (("HitRate", "Success"), ("RPrecision", "Rprec")):
        compare(ledger, sample, text, ours)


def test_negative_grades__take_from_ndcg_there(ledger):
    theirs = theirs_of(NEGATIVE[0], "NormalizedDCG", None)[-1]
    value = evaluated(NEGATIVE[0], PROFILE, ["nDCG"]).value("nDCG")
    said = "RetrievalNormalizedDCG of negative grades"
    ledger.differ(PROFILE, said, "negative grades", value, theirs)


def test_tied_rows__have_an_order_of_their_own_there(ledger):
    sample = probabilities(BINARY[0])
    theirs = theirs_of(sample, "MRR", None)[-1]
    value = evaluated(sample, PROFILE, ["RR"]).value("RR")
    ledger.differ(PROFILE, "RetrievalMRR of tied rows", "an unstable sort", value, theirs)


# ---- rows of all groups together -----------------------------------------------------------------


def binary_auroc(sample: Sample, **options: object) -> float:
    given = tensors(sample)
    metric = classification.BinaryAUROC(**options)
    metric.update(given["preds"], given["target"])
    return float(metric.compute())


def compare_pooled(ledger: Ledger, sample: Sample) -> None:
    sample = probabilities(sample)
    for said, ours, options in (
        ("BinaryAUROC()", "AUC", {}),
        ("BinaryAUROC(max_fpr=0.2)", "AUC(max_fpr=0.2)", {"max_fpr": 0.2}),
    ):
        value = evaluated(sample, PROFILE, [ours]).value(ours)
        ledger.agree(PROFILE, sample, ours, said, value, binary_auroc(sample, **options))


@pytest.mark.parametrize("sample", BINARY, ids=lambda s: s.name)
def test_pooled_rows(ledger, sample):
    compare_pooled(ledger, sample)


def test_pooled_rows_of_one_class__auroc_is_zero_there(ledger):
    sample = Sample("one class", np.zeros(3, np.int64), np.zeros(3), np.array([0.75, 0.5, 0.25]))
    value = evaluated(sample, PROFILE, ["AUC"]).value("AUC")
    ledger.agree(PROFILE, sample, "AUC", "BinaryAUROC()", value, binary_auroc(sample))


def test_scores_beyond_0_and_1__are_squashed_there(ledger):
    sample = BINARY[3]
    result = evaluated(sample, PROFILE, ["AUC", "GAUC"])
    pooled, reason = binary_auroc(sample), "take the sigmoid"
    ledger.differ(PROFILE, "BinaryAUROC() of large scores", reason, result.value("AUC"), pooled)
    grouped = theirs_of(sample, "AUROC", None)[-1]
    ledger.differ(
        PROFILE, "RetrievalAUROC() of large scores", reason, result.value("GAUC"), grouped
    )


def test_real_lists(ledger, real):
    compare_hits(ledger, real["binary"])
    compare_pooled(ledger, real["binary"])
    compare(ledger, probabilities(real["binary"]), "AUROC", "GAUC")
    for name in ("graded", "tied"):
        compare_gains(ledger, real[name])
