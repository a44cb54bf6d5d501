"""Several classes: scikit-learn's numbers, plain oracles, and what has no value."""

import itertools
import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn import metrics

import fastrank_eval
from fastrank_eval import ArgumentError, evaluate_classes
from fastrank_eval.analysis import multiclass
from fastrank_eval.analysis.multiclass_totals import ClassConfusion
from tests.strategies import POOLED_VARIANTS
from tests.support.transcripts import answers

NEAR = {"rel": 1e-9, "abs": 1e-12}
CLASSES = ("cat", "dog", "owl", "yak")
COLUMNS = {name: f"p_{name}" for name in CLASSES}
DECISIONS = "PPV,TPR,FScore,FScore(beta=2)"


def rows_of(
    seed: int, rows: int = 90, levels: int | None = None, classes: tuple[str, ...] = CLASSES
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class numbers, probabilities that sum to 1 (but for rounding), and weights."""
    random = np.random.default_rng(seed)
    actual = random.integers(0, len(classes), rows)
    logits = random.normal(size=(rows, len(classes))) + np.eye(len(classes))[actual]
    if levels is not None:
        logits = np.round(logits * levels) / levels
    probability = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return actual, probability, random.choice([0.0, 0.5, 1.0, 2.25], rows)


def table(actual: np.ndarray, probability: np.ndarray, weight: np.ndarray) -> pa.Table:
    scores = {COLUMNS[name]: probability[:, k] for k, name in enumerate(CLASSES)}
    return pa.table({"kind": np.array(CLASSES)[actual], **scores, "weight": weight})


def evaluated(data: pa.Table, **options: object) -> fastrank_eval.ClassResult:
    given = {"label": "kind", "scores": COLUMNS, "threads": 1, **options}
    return evaluate_classes(data, **given)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("levels", [None, 1])
def test_decisions_of_the_highest_score_and_auc__are_scikit_learns(weighted: bool, levels) -> None:
    actual, probability, weight = rows_of(1, levels=levels)
    predicted = probability.argmax(axis=1)
    given = {"sample_weight": weight} if weighted else {}
    result = evaluated(
        table(actual, probability, weight),
        measures=f"{DECISIONS},AUC,Accuracy,ErrorRate,BalancedAccuracy,MCC",
        average=["macro", "micro", "weighted"],
        weight="weight" if weighted else None,
    )
    for average, beta in itertools.product((None, "macro", "micro", "weighted"), (1, 2)):
        ppv, tpr, f, _ = metrics.precision_recall_fscore_support(
            actual, predicted, beta=beta, average=average, zero_division=np.nan, **given
        )
        text = "FScore" if beta == 1 else "FScore(beta=2)"
        for measure, value in (("PPV", ppv), ("TPR", tpr), (text, f)):
            ours = result[measure] if average is None else result.value(measure, average=average)
            assert ours == pytest.approx(value, **NEAR)
    for average in ("macro", "micro", "weighted"):
        peer = metrics.roc_auc_score(
            actual, probability, multi_class="ovr", average=average, **given
        )
        assert result.value("AUC", average=average) == pytest.approx(peer, **NEAR)
    for measure, peer in (
        ("Accuracy", metrics.accuracy_score),
        ("BalancedAccuracy", metrics.balanced_accuracy_score),
        ("MCC", metrics.matthews_corrcoef),
        ("ErrorRate", metrics.zero_one_loss),
    ):
        assert result.value(measure, average="all") == pytest.approx(
            peer(actual, predicted, **given), **NEAR
        )
    matrix = metrics.confusion_matrix(actual, predicted, **given)
    np.testing.assert_array_equal(result.confusion, matrix)
    assert result.confusion.dtype == (np.float64 if weighted else np.int64)


def auc(scores: list[Fraction], labels: list[bool], weights: list[Fraction]) -> Fraction:
    won = total = Fraction(0)
    rows = list(zip(scores, labels, weights, strict=True))
    for (s, p, v), (t, q, w) in itertools.product(rows, rows):
        if p and not q:
            total += v * w
            won += v * w * (Fraction(s > t) + Fraction(s == t, 2))
    return won / total


def test_auc__over_pairs_of_one_class__is_undefined() -> None:
    log = {"y": ["a", "a"], "a": [0.1, 0.2]}
    for average in ("ovo", "ovo_weighted", "mu"):
        result = evaluate_classes(
            log, label="y", scores=["a"], measures="AUC", average=["macro", average]
        )
        assert len(result.values) == 2
        assert math.isnan(result.value("AUC", average=average))


@pytest.mark.parametrize("weighted", [False, True])
def test_auc__over_pairs__is_hand_and_tills_and_mu(weighted: bool) -> None:
    random = np.random.default_rng(3)
    actual = random.integers(0, 4, 40)
    score = random.integers(0, 6, (40, 4)) / 8
    weight = random.choice([0.5, 1.0, 3.0], 40)
    result = evaluated(
        table(actual, score, weight),
        measures="AUC",
        average=["ovo", "ovo_weighted", "mu"],
        weight="weight" if weighted else None,
    )
    weights = [Fraction(w) if weighted else Fraction(1) for w in weight]
    hand_till, mu, shares = [], [], []
    for i, j in itertools.combinations(range(4), 2):
        here = [r for r in range(40) if actual[r] in (i, j)]
        of = [weights[r] for r in here]

        def directed(one: int, here: list[int] = here, of: list[Fraction] = of) -> Fraction:
            scores = [Fraction(score[r, one]) for r in here]
            return auc(scores, [actual[r] == one for r in here], of)

        hand_till.append((directed(i) + directed(j)) / 2)
        difference = [Fraction(score[r, i]) - Fraction(score[r, j]) for r in here]
        mu.append(auc(difference, [actual[r] == i for r in here], of))
        shares.append(sum(of))
    assert result.value("AUC", average="ovo") == pytest.approx(float(sum(hand_till) / 6), **NEAR)
    assert result.value("AUC", average="mu") == pytest.approx(float(sum(mu) / 6), **NEAR)
    by_share = sum(a * s for a, s in zip(hand_till, shares, strict=True)) / sum(shares)
    assert result.value("AUC", average="ovo_weighted") == pytest.approx(float(by_share), **NEAR)


@pytest.mark.parametrize("weighted", [False, True])
def test_log_loss__and_top_k__are_scikit_learns(weighted: bool) -> None:
    actual, probability, weight = rows_of(4)
    given = {"sample_weight": weight} if weighted else {}
    result = evaluated(
        table(actual, probability, weight),
        measures="LogLoss,Success@1,Success@2,Success@3,Accuracy",
        weight="weight" if weighted else None,
    )
    peer = metrics.log_loss(actual, probability, **given)
    assert result.value("LogLoss") == pytest.approx(peer, **NEAR)
    for k in (1, 2, 3):
        peer = metrics.top_k_accuracy_score(actual, probability, k=k, **given)
        assert result.value(f"Success@{k}") == pytest.approx(peer, **NEAR)
    assert result.value("Success@1") == pytest.approx(result.value("Accuracy"), **NEAR)
    each = [
        metrics.log_loss(actual == k, probability[:, k], labels=[0, 1], **given) for k in range(4)
    ]
    assert result["LogLoss"] == pytest.approx(each, **NEAR)


def labelled(seed: int, rows: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    label = random.random((rows, 4)) < [0.2, 0.4, 0.5, 0.7]
    score = np.round((random.random((rows, 4)) + label * 0.5) / 1.5, 1)
    return label, score, random.choice([0.5, 1.0, 2.25], rows)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", ["columns", "list"])
def test_multi_label__averages__are_scikit_learns(form: str, weighted: bool) -> None:
    label, score, weight = labelled(5)
    data = {COLUMNS[name]: score[:, k] for k, name in enumerate(CLASSES)} | {"weight": weight}
    if form == "list":
        lists = [[CLASSES[k] for k in np.flatnonzero(row)] for row in label]
        source = pa.table({**data, "kind": pa.array(lists, pa.list_(pa.string()))})
        given: dict = {"label": "kind", "scores": COLUMNS}
    else:
        source = pa.table(data | {f"is_{name}": label[:, k] for k, name in enumerate(CLASSES)})
        given = {"label": {name: f"is_{name}" for name in reversed(CLASSES)}, "scores": COLUMNS}
    result = evaluate_classes(
        source,
        **given,
        measures=f"{DECISIONS},AUC,Accuracy,MCC,LogLoss,RR",
        average="macro,micro,weighted,samples",
        weight="weight" if weighted else None,
        threads=1,
    )
    peer_weight = {"sample_weight": weight} if weighted else {}
    predicted = score >= 0.5
    for average in (None, "macro", "micro", "weighted", "samples"):
        ppv, tpr, f, _ = metrics.precision_recall_fscore_support(
            label, predicted, beta=2, average=average, zero_division=np.nan, **peer_weight
        )
        for measure, value in (("PPV", ppv), ("TPR", tpr), ("FScore(beta=2)", f)):
            ours = result[measure] if average is None else result.value(measure, average=average)
            assert ours == pytest.approx(value, **NEAR)
        if average not in (None, "samples"):
            peer = metrics.roc_auc_score(label, score, average=average, **peer_weight)
            assert result.value("AUC", average=average) == pytest.approx(peer, **NEAR)
    peer = metrics.accuracy_score(label, predicted, **peer_weight)
    assert result.value("Accuracy", average="all") == pytest.approx(peer, **NEAR)
    losses = [
        metrics.log_loss(label[:, k], score[:, k], labels=[0, 1], **peer_weight) for k in range(4)
    ]
    assert result.value("LogLoss", average="macro") == pytest.approx(np.mean(losses), **NEAR)
    # scikit-learn's average over samples refuses rows with all classes or none.
    both = label.any(axis=1) & ~label.all(axis=1)
    peer = metrics.roc_auc_score(
        label[both], score[both], average="samples",
        **({"sample_weight": weight[both]} if weighted else {}),
    )  # fmt: skip
    assert result.value("AUC", average="samples") == pytest.approx(peer, **NEAR)
    with pytest.raises(ArgumentError, match="no class is predicted for each row"):
        _ = result.confusion
    assert result.document()["results"][3]["slice"] == "samples"  # a measure without group weights


def test_threshold__decides__several_classes_of_a_row_that_has_one() -> None:
    actual, probability, weight = rows_of(6)
    result = evaluated(
        table(actual, probability, weight),
        measures="PPV(threshold=0.3),Accuracy(threshold=0.3),MCC(threshold=0.3)",
        decide="threshold",
        average=["macro", "samples"],
    )
    label, predicted = np.eye(4, dtype=bool)[actual], probability >= 0.3
    for average in ("macro", "samples"):
        ppv = metrics.precision_score(label, predicted, average=average, zero_division=np.nan)
        ours = result.value("PPV(threshold=0.3)", average=average)
        assert ours == pytest.approx(ppv, **NEAR)
    accuracy = metrics.accuracy_score(label, predicted)
    assert result.value("Accuracy(threshold=0.3)") == pytest.approx(accuracy, **NEAR)
    mcc = [metrics.matthews_corrcoef(label[:, k], predicted[:, k]) for k in range(4)]
    assert result.value("MCC(threshold=0.3)", average="macro") == pytest.approx(
        np.mean(mcc), **NEAR
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_bits__of_batches_threads_and_order__are_the_same(
    weighted: bool, tmp_path, monkeypatch
) -> None:
    actual, probability, weight = rows_of(7, rows=300, levels=2)
    data = table(actual, probability, weight * 0.1)
    given = {
        "measures": f"{DECISIONS},AUC,MCC,Accuracy,BalancedAccuracy,LogLoss,nDCG@2,NE",
        "average": "macro,micro,weighted,samples,ovo,ovo_weighted,mu",
        "weight": "weight" if weighted else None,
    }
    once = evaluated(data, **given)
    order = np.random.default_rng(8).permutation(300)
    parquet.write_table(data.take(order), tmp_path / "rows.parquet", row_group_size=64)
    monkeypatch.setattr(multiclass, "_MIN_ROWS", 1)
    for source, rows, threads in ((data, 7, 3), (str(tmp_path / "rows.parquet"), 50, 2)):
        monkeypatch.setattr(multiclass, "batch_rows_of", lambda *_, rows=rows: 4 * rows)
        again = evaluated(source, **given, threads=threads)
        assert again.document()["results"] == once.document()["results"]
        assert again.per_class.equals(once.per_class)
        np.testing.assert_array_equal(again.confusion, once.confusion)


ABC = {"a": "x", "b": "y", "c": "z"}
LABELS = {
    "strings": (pa.array(["b", "a", "c", "a"]), ABC),
    "dictionary": (pa.array(["b", "a", "c", "a"]).dictionary_encode(), ABC),
    "large strings": (pa.array(["b", "a", "c", "a"], pa.large_string()), ABC),
    "integers": (pa.array([1, 0, 2, 0], pa.int8()), ["x", "y", "z"]),
    "floats": (pa.array([1.0, 0.0, 2.0, 0.0]), ["x", "y", "z"]),
    "values": (pa.array([70, -5, 9, -5]), {-5: "x", np.int64(70): "y", "9": "z"}),
    "columns": (pa.array(["y", "x", "z", "x"]), ["x", "y", "z"]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_label__of_any_type__is_matched_with_its_scores(kind: str) -> None:
    label, scores = LABELS[kind]
    of_x, of_y = [0.2, 0.5, 0.1, 0.6], pa.array([0.5, 0.3, 0.6, 0.1], pa.float32())
    data = {"label": label, "x": of_x, "y": of_y, "z": pa.array([0, 0, 1, 0], pa.int8())}
    result = evaluate_classes(data, label="label", scores=scores, measures="TPR,Accuracy,AUC")
    assert result["TPR"].tolist() == [1.0, 1.0, 1.0]
    assert result.value("Accuracy") == 1
    assert result.confusion.tolist() == [[2, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert result.per_class["positives"].to_pylist() == [2, 1, 1]
    assert not isinstance(scores, dict) or result.classes == tuple(map(str, scores))


def test_label__of_truth__takes_false_first() -> None:
    data = {"yes": [True, False, True], "no": [0.1, 0.9, 0.6], "score": [0.9, 0.1, 0.4]}
    for scores in (["no", "score"], {False: "no", True: "score"}, {"false": "no", "true": "score"}):
        result = evaluate_classes(data, label="yes", scores=scores, measures="Accuracy")
        assert result.value("Accuracy") == pytest.approx(2 / 3)
        assert result.classes == ("false", "true")


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_rows__of_one_class_or_none__have_no_value_but_a_reason(rows: int) -> None:
    columns = {"x": [0.9] * rows, "y": [0.1] * rows, "w": [0.0] * rows}
    data = {name: pa.array(column, pa.float64()) for name, column in columns.items()}
    data["kind"] = pa.array(["a"] * rows, pa.string())
    given = {
        "label": "kind",
        "scores": {"a": "x", "b": "y"},
        "measures": "AUC,PPV,MCC,Accuracy,BalancedAccuracy,LogLoss",
        "average": "macro,micro,weighted,samples,ovo,ovo_weighted,mu",
    }
    for weight in (None, "w"):
        result = evaluate_classes(data, **given, weight=weight)
        assert math.isnan(result.value("MCC"))
        assert math.isnan(result.value("AUC", average="ovo"))
        assert math.isnan(result.value("AUC", average="macro"))
        for value in result:
            assert not math.isnan(value.value) or value.dropped or value.groups == 0
        if rows and weight is None:
            assert result.value("Accuracy") == 1.0
            assert result.value("LogLoss") == pytest.approx(-math.log(0.9))
        else:
            assert math.isnan(result.value("Accuracy"))


def test_confusion__of_weights__is_exact() -> None:
    state = ClassConfusion(2, weighted=True)
    weight = np.array([1e300, 1.0, 5e-324, 0.1])
    state.add(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]), weight)
    state.add(np.array([0]), np.array([0]), np.array([0.0]))
    exact = state.exact()
    assert exact[0][0] == Fraction(1e300) + 1 + Fraction(5e-324)
    assert exact[1] == [Fraction(0.1), 0]


def of_classes(text: str) -> bool:
    """Whether classes have a value of a measure: it reads labels, scores and weights alone."""
    known = fastrank_eval.measure(text)
    alone = not known.columns_named() and known.option_values.get("se") != "clustered"
    return alone and known.option_values.get("rel", 1) == 1


EVERY = [text for texts in POOLED_VARIANTS.values() for text in texts if of_classes(text)]


@pytest.mark.parametrize("weighted", [False, True])
def test_every_measure_of_all_rows__of_a_class_is_that_of_its_rows_alone(weighted: bool) -> None:
    actual, probability, weight = rows_of(41)
    data = {f"p_{k}": probability[:, k] for k in range(3)} | {"weight": weight, "all": actual * 0}
    data |= {f"is_{k}": ((actual == k) | (actual == 3)).astype(int) for k in range(3)}
    weigh = {"weight": "weight"} if weighted else {}
    found = evaluate_classes(
        data,
        label=[f"is_{k}" for k in range(3)],
        scores=[f"p_{k}" for k in range(3)],
        measures=EVERY,
        average="micro",
        **weigh,
    )
    for k in range(3):
        alone = fastrank_eval.evaluate(
            data, group="all", label=f"is_{k}", score=f"p_{k}", measures=EVERY, **weigh
        )
        for text in found.measures:
            np.testing.assert_array_equal(found[text][k], alone.value(text), text)


def classes(columns: dict[str, Any], **options: Any) -> fastrank_eval.ClassResult:
    """Evaluate two rows, with other columns in place of some."""
    data = {"kind": ["a", "b"], "x": [0.5, 0.4], "y": [0.5, 0.6], "w": [1.0, 3.0], **columns}
    given = {"label": "kind", "scores": {"a": "x", "b": "y"}, "measures": "AUC", **options}
    return evaluate_classes(data, **given)


def test_result__as_json__has_classes_and_confusion() -> None:
    actual, probability, weight = rows_of(10, rows=30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluated(table(actual, probability, weight), measures="PPV").document()
    assert [row["class"] for row in found["classes"]] == list(CLASSES)
    assert sum(map(sum, found["confusion"])) == 30
    assert found["results"][0]["slice"] == "macro"


test_answers = answers(globals())
