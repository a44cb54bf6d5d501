"""Predictions at a threshold, of all rows and of each group: definitions, scikit-learn, laws."""

import math
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from sklearn import metrics

import fastrank_eval
from fastrank_eval import FastRankEvalError
from fastrank_eval.measures import measure
from tests.measures.test_pooled import CASES, WEIGHTED_CASES, WEIGHTS, evaluate, probable_groups
from tests.oracles.decisions import DECISIONS, cells
from tests.oracles.measures import Row, read
from tests.strategies import GROUP_DECISION_VARIANTS
from tests.support.tables import table_of
from tests.support.transcripts import answers

pytestmark = pytest.mark.kernels

TEXTS = tuple(text for texts in GROUP_DECISION_VARIANTS.values() for text in texts)
EVERY = {**CASES, **WEIGHTED_CASES}


def oracle_of(text: str, rows: list[Row]) -> float | str:
    name, options, _ = read(text)
    options.pop("weight", None)
    return DECISIONS[name.removeprefix("Group")](rows, **options)


def of_rows(log, measures, **options):
    roles = {"group": "g", "label": "y", "score": "s"}
    return fastrank_eval.evaluate(log, measures=measures, **roles, **options)


@pytest.mark.parametrize("case", EVERY)
def test_every_group__equals_its_definition(case):
    groups = EVERY[case]
    result = evaluate(table_of(groups), TEXTS, weight="weight" if case in WEIGHTED_CASES else None)
    for text in TEXTS:
        wanted = [oracle_of(text, rows) for rows in groups]
        reasons = [one for one in wanted if isinstance(one, str)]
        values = [math.nan if isinstance(one, str) else one for one in wanted]
        assert result[text] == pytest.approx(values, rel=1e-12, abs=1e-12, nan_ok=True), text
        line = next(line for line in result if line.measure == text)
        assert line.dropped == {reason: reasons.count(reason) for reason in set(reasons)}, text
        assert (line.groups, line.groups_used) == (len(groups), len(groups) - len(reasons))
        mean = np.nanmean(values) if len(reasons) < len(groups) else math.nan
        assert line.value == pytest.approx(mean, rel=1e-12, abs=1e-12, nan_ok=True), text
        assert not line.details


@pytest.mark.compiled
@pytest.mark.parametrize("ways", [{"order": "scattered"}, {"threads": 3, "batch_rows": 50}])
@pytest.mark.parametrize("weight", [None, "weight"])
def test_every_group__has_the_same_bits_by_every_way(weight, ways):
    groups = probable_groups(21, 200, weights=WEIGHTS, unretrieved=0.1, levels=(0.25, 0.5, 0.7))
    table = table_of(groups)
    once = evaluate(table, TEXTS, weight=weight, threads=1)
    again = evaluate(table, TEXTS, weight=weight, **ways)
    shuffled = table.take(random.Random(22).sample(range(table.num_rows), table.num_rows))  # noqa: S311
    mixed = evaluate(shuffled, TEXTS, weight=weight, order="scattered")
    order = np.argsort(mixed.per_group["group"].to_numpy())
    for text in TEXTS:
        assert (once.value(text).hex(), once[text].tobytes()) == (
            again.value(text).hex(),
            again[text].tobytes(),
        ), text
        assert once.value(text).hex() == mixed.value(text).hex(), text
        assert once[text].tobytes() == mixed[text][order].tobytes(), text


@pytest.mark.compiled
@pytest.mark.parametrize("weight", ["uniform", "impressions", "positives", "pairs"])
@pytest.mark.parametrize("options", [{}, {"groups": "with_relevant"}, {"unjudged": "drop"}])
def test_rows_that_are_not_ranked__have_the_same_bits(weight, options):
    """Alone, measures of predictions need no ranks; beside RR rows are ranked."""
    table = table_of(probable_groups(30, 200, unjudged=0.2))
    texts = [str(measure(text)(weight=weight)) for text in TEXTS]
    given = {"unretrieved": "error", **options}
    alone = evaluate(table, texts, **given)
    beside = evaluate(table, [*texts, "RR"], **given)
    for line in alone:
        other = next(one for one in beside if one.measure == line.measure)
        assert (line.value.hex(), line.dropped) == (other.value.hex(), other.dropped)
        assert alone[line.measure].tobytes() == beside[line.measure].tobytes()


def test_packed_rows__give_the_same_bits():
    """Rows of an integer key, a float32 score and a label of one byte take a way of their own."""
    rng = np.random.default_rng(23)
    rows = 5000
    group = rng.integers(0, 300, rows)
    score = np.round(rng.random(rows), 2).astype(np.float32)
    log = {"group": group, "label": rng.integers(0, 2, rows).astype(np.int8), "score": score}
    order = np.argsort(group, kind="stable")
    packed = evaluate(log, TEXTS, order="scattered")
    plain = evaluate({name: column[order] for name, column in log.items()}, TEXTS, order="grouped")
    assert [line.value.hex() for line in packed] == [line.value.hex() for line in plain]


@pytest.mark.parametrize("weight", ["uniform", "impressions", "positives", "pairs"])
@pytest.mark.parametrize("rows", [None, "weight"])
def test_group_weights__weigh_the_mean(weight, rows):
    groups = probable_groups(26, 60, weights=(0.5, 1.0, 2.0))
    texts = [f"Group{name}(weight={weight!r})" for name in DECISIONS]
    texts = [str(measure(text)) for text in texts]
    result = evaluate(table_of(groups), texts, weight=rows)
    for text in texts:
        above = below = 0.0
        for group in groups:
            counted = group if rows else [row._replace(weight=1.0) for row in group]
            value = oracle_of(text, counted)
            positive = sum(row.weight for row in counted if row.label >= 1)
            other = sum(row.weight for row in counted if row.label < 1)
            heavy = {"impressions": positive + other, "positives": positive, "uniform": 1.0}
            if not isinstance(value, str):
                above += heavy.get(weight, positive * other) * value
                below += heavy.get(weight, positive * other)
        assert result.value(text) == pytest.approx(above / below, rel=1e-12), text


PEERS = {
    "precision_score": metrics.precision_score,
    "recall_score": metrics.recall_score,
    "f1_score": metrics.f1_score,
    "accuracy_score": metrics.accuracy_score,
    "balanced_accuracy_score": metrics.balanced_accuracy_score,
    "matthews_corrcoef": metrics.matthews_corrcoef,
    "zero_one_loss": metrics.zero_one_loss,
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.7])
def test_scikit_learn__agrees(weighted, kind, threshold):
    rng = np.random.default_rng(28)
    truth = rng.integers(0, 2, 5000)
    score = (np.round(rng.random(5000) * 0.7 + truth * 0.3, 1)).astype(kind)
    weight = rng.random(5000)
    log = {"g": np.zeros(5000, np.int64), "y": truth, "s": score, "w": weight}
    measures = [measure(name)(threshold=threshold) for name in PEERS]
    beta = measure("fbeta_score")(beta=3, threshold=threshold)
    result = of_rows(log, [*measures, beta], weight="w" if weighted else None)
    told = score.astype(np.float64) >= threshold
    given = {"sample_weight": weight if weighted else None}
    for found, peer in zip(measures, PEERS.values(), strict=True):
        assert result.value(found) == pytest.approx(peer(truth, told, **given), abs=1e-9), found
    wanted = metrics.fbeta_score(truth, told, beta=3, **given)
    assert result.value(beta) == pytest.approx(wanted, abs=1e-9)
    tn, fp, fn, tp = metrics.confusion_matrix(truth, told, **given).ravel()
    details = result.values[0].details
    wanted = {"TP": tp, "FP": fp, "FN": fn, "TN": tn}
    assert details == (pytest.approx(wanted, abs=1e-9) if weighted else wanted)
    assert weighted or all(type(count) is int for count in details.values())


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("truth", [[0, 0], [1, 1], [1, 0]])
@pytest.mark.parametrize("score", [[0.1, 0.2], [0.9, 0.8], [0.9, 0.2]])
def test_profile_of_scikit_learn__puts_its_number_where_there_is_none(truth, score):
    log = {"g": [1, 1], "y": truth, "s": score}
    names = ["precision_score", "recall_score", "f1_score", "matthews_corrcoef"]
    kin = ["GroupPPV", "GroupTPR", "GroupFScore", "GroupMCC"]
    result = of_rows(log, [*names, *kin], profile="sklearn")
    for name, of_groups in zip(names, kin, strict=True):
        wanted = PEERS[name](truth, np.array(score) >= 0.5)
        assert result.value(name) == result.value(of_groups) == pytest.approx(wanted), name


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.7, 0.9, 1e-50, -0.1, 1e39, 0, -1e300])
def test_threshold__is_compared_as_a_double(threshold):
    """A float32 0.1 is above the double 0.1, a float32 0.7 below the double 0.7."""
    score = np.array(
        [0.1, 0.3, 0.7, 0.9, 0.0, -0.0, -0.1, 1e-45, np.inf, -np.inf, 3.4e38], np.float32
    )
    log = {"g": np.arange(len(score)), "y": np.ones(len(score), np.int8), "s": score}
    found = of_rows(log, [f"GroupTPR(threshold={threshold!r})"])
    wanted = [float(float(one) >= threshold) for one in score]
    np.testing.assert_array_equal(found[found.measures[0]], wanted)
    counted = fastrank_eval.confusion(log, label="y", score="s", threshold=threshold)
    assert counted["tp"].to_pylist() == [int(sum(wanted))]


def test_integer_scores__are_numbers_to_a_threshold():
    log = {"g": [1, 1, 2], "y": [1, 0, 1], "s": np.array([3, -2, 1], np.int64)}
    result = of_rows(log, "GroupAccuracy(threshold=2), RR")
    np.testing.assert_array_equal(result["GroupAccuracy(threshold=2)"], [1.0, 0.0])
    with pytest.raises(FastRankEvalError, match="beyond 2\\^53"):
        fastrank_eval.confusion(log | {"s": [2**60, 1, 2]}, label="y", score="s")


def test_weights__are_added_exactly():
    weight = [1e16, 1.0, 1.0, 2.0**-60] * 3
    log = {"y": [1] * 12, "s": [0.9] * 12, "w": weight}
    (found,) = fastrank_eval.confusion(log, label="y", score="s", weight="w").to_pylist()
    assert Fraction(found["tp"]) == Fraction(float(sum(map(Fraction, weight))))


@pytest.mark.parametrize("case", EVERY)
def test_confusion__counts_what_the_definition_counts(case):
    groups, weighted = EVERY[case], case in WEIGHTED_CASES
    rows = [row for group in groups for row in group]
    tried = [0.0, 0.25, 0.3, 0.5, 1.0, 2.0]
    roles = {"label": "label", "score": "score", "weight": "weight" if weighted else None}
    nulls = {"unretrieved": "allow", "unjudged": "allow"}
    found = fastrank_eval.confusion(table_of(groups), threshold=tried, **roles, **nulls)
    assert found["tp"].type == (pa.float64() if weighted else pa.int64())
    for one, threshold in zip(found.to_pylist(), tried, strict=True):
        wanted = dict(zip(("tp", "fp", "fn", "tn"), cells(rows, threshold), strict=True))
        for name, count in wanted.items():
            assert one[name] == pytest.approx(float(count), rel=1e-15), (threshold, name)


test_answers = answers(globals())
