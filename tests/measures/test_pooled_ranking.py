"""Measures of the ROC and precision-recall curves of all rows, beside scikit-learn and by hand."""

import numpy as np
import pytest
from sklearn.metrics import (
    auc,
    average_precision_score,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)

import fastrank_eval
from fastrank_eval.stats.score_runs import RocSteps, ScoreRuns
from fastrank_eval.stats.scores import PooledScores

TEXTS = (
    *("AUC", "AUC(max_fpr=0.05)", "Gini", "KS", "AvgPrec"),
    *("PRAUC", "PRAUC(interpolation='linear')"),
)


def rows_of(seed: int, rows: int, levels: int, kind=np.float64):
    rng = np.random.default_rng(seed)
    label = (rng.random(rows) < 0.2).astype(np.int8)
    score = rng.integers(0, levels, rows) / levels + 0.2 * label * rng.random(rows)
    return label, score.astype(kind), rng.choice([0.0, 0.1, 1.0, 7.5], rows) * rng.random(rows)


def values(label, score, weight=None, measures=TEXTS):
    log = {"group": np.zeros(len(label), np.int64), "label": label, "score": score}
    roles = {"group": "group", "label": "label", "score": "score"}
    if weight is not None:
        log["weight"], roles["weight"] = weight, "weight"
    return fastrank_eval.evaluate(log, measures=list(measures), **roles)


@pytest.mark.parametrize("levels", [2, 50, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_curves__equal_scikit_learn(levels, weighted, kind):
    label, score, weight = rows_of(levels, 3000, levels, kind)
    given = weight if weighted else None
    result = values(label, score, given)
    fpr, tpr, _ = roc_curve(label, score, sample_weight=given, drop_intermediate=False)
    precision, recall, _ = precision_recall_curve(label, score, sample_weight=given)
    wanted = {
        "AUC": roc_auc_score(label, score, sample_weight=given),
        "AUC(max_fpr=0.05)": roc_auc_score(label, score, sample_weight=given, max_fpr=0.05),
        "Gini": 2 * roc_auc_score(label, score, sample_weight=given) - 1,
        "KS": np.max(np.abs(tpr - fpr)),
        "AvgPrec": average_precision_score(label, score, sample_weight=given),
        "PRAUC(interpolation='linear')": auc(recall, precision),
    }
    for text, value in wanted.items():
        assert result.value(text) == pytest.approx(value, abs=1e-9), text


def test_linear_interpolation__is_too_high_where_davis_and_steps_are_not():
    """As in the example of Davis and Goadrich (2006): a few good rows above very many."""
    label = np.repeat([1, 0, 1, 0], [9, 1, 424, 56163])
    score = np.repeat([1.0, 1.0, 0.5, 0.5], [9, 1, 424, 56163])
    result = values(label, score)
    linear = 9 / 433 * (1 + 0.9) / 2 + 424 / 433 * (0.9 + 433 / 56597) / 2
    assert result.value("PRAUC(interpolation='linear')") == pytest.approx(linear, abs=1e-12)
    assert result.value("AvgPrec") < result.value("PRAUC") < 0.03


@pytest.mark.parametrize("share", [0.5, 0.1, 0.003])
def test_davis__of_one_score_for_all_is_the_share_of_positives(share):
    label = (np.arange(1000) < 1000 * share).astype(int)
    result = values(label, np.full(1000, 0.3))
    assert result.value("PRAUC") == result.value("AvgPrec") == pytest.approx(share, rel=1e-15)
    assert (result.value("KS"), result.value("Gini")) == (0.0, 0.0)


def test_davis__is_the_mean_over_random_orders_of_tied_rows():
    rng = np.random.default_rng(7)
    label = np.repeat([1, 0, 1, 0], [30, 20, 300, 3000])
    score = np.repeat([1.0, 1.0, 0.5, 0.5], [30, 20, 300, 3000])
    found = [
        average_precision_score(label, score + rng.random(len(score)) * 0.01) for _ in range(60)
    ]
    interpolated = values(label, score).value("PRAUC")
    assert interpolated == pytest.approx(np.mean(found), abs=4 * np.std(found) / 60**0.5 + 0.002)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("mirrored", [False, True])
def test_ks__names_the_threshold_that_reaches_it(kind, mirrored):
    label, score, _ = rows_of(3, 2000, 300, kind)
    if mirrored:
        score = -score
    (found,) = values(label, score, measures=["KS"])
    taken = score >= kind(found.details["threshold"])
    distance = taken[label == 1].mean() - taken[label == 0].mean()
    assert abs(distance) == pytest.approx(found.value, abs=1e-12)
    assert bool(distance < 0) is mirrored


def test_ks__of_integers_that_no_double_holds__is_refused_as_it_names_a_threshold():
    label, score = np.array([1, 0]), np.array([2**60 + 1, 2**60])
    assert values(label, score, measures=["AUC"]).value("AUC") == 1.0
    with pytest.raises(fastrank_eval.FastRankEvalError, match="score"):
        values(label, score, measures=["KS"])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("few, room", [(0, 1 << 26), (0, 1 << 12), (1 << 17, 1 << 26)])
@pytest.mark.parametrize("share", [0.0, 0.003, 0.3, 1.0])
def test_steps__are_what_the_table_says_however_scores_are_kept(
    kind, few, room, share, monkeypatch
):
    monkeypatch.setattr(ScoreRuns, "FEW_ROWS", few)
    monkeypatch.setattr(PooledScores, "BUFFER_BYTES", room)
    rng = np.random.default_rng(5)
    score = np.round(rng.normal(size=20_000) * np.exp2(rng.integers(-9, 9, 20_000)), 2).astype(kind)
    positive = rng.random(len(score)) < share
    state = PooledScores()
    for part in np.array_split(np.arange(len(score)), 7):
        state.add(score[part], np.flatnonzero(positive[part]))
    steps, area = state.steps(), state.auc()
    assert not few or repr(PooledScores.auc(state)) == repr(area)
    wanted = RocSteps.from_table(state.table())
    for name in ("score", "positives", "others", "negatives_between"):
        found = getattr(steps, name)
        assert np.array_equal(found, getattr(wanted, name)), name
        assert len(found) == 0 or found.dtype == getattr(wanted, name).dtype
    other = PooledScores()
    other.add(score, np.flatnonzero(positive))
    assert repr(other.auc()) == repr(area), "the area of the steps is that of the buckets"


@pytest.mark.slow("12 million rows")
def test_state__of_float32_probabilities__takes_about_two_bytes_for_each_possible_score(
    monkeypatch,
):
    """Every float32 in [3/4, 1[, each several times: memory does not grow further."""
    monkeypatch.setattr(PooledScores, "BUFFER_BYTES", 1 << 22)
    every = np.arange(0x3F400000, 0x3F800000, dtype=np.uint32)
    state, held = PooledScores(), []
    rng = np.random.default_rng(0)
    for _ in range(3):
        for part in np.array_split(rng.permutation(every), 32):
            score = part.view(np.float32)
            state.add(score, np.flatnonzero(rng.random(len(score)) < 0.03))
        state._count_all(map)
        held.append(
            sum(
                counts.nbytes + (0 if codes is None else codes.nbytes)
                for counted in (state._all.counts, state._positives.counts)
                for codes, counts in counted.values()
            )
        )
    assert held[-1] <= 2 * len(every), held
    assert state.auc() == pytest.approx(0.5, abs=1e-3)
