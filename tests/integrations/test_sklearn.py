"""Measures of groups as metrics and scorers of scikit-learn."""

import pickle

import numpy as np
import pytest

import fastrank_eval as fe
from fastrank_eval import ArgumentError
from fastrank_eval.integrations import group_score, scorer

RANDOM = np.random.default_rng(11)
X = RANDOM.normal(size=(400, 3))
Y = (RANDOM.random(400) < 1 / (1 + np.exp(-X[:, 0]))).astype(np.int64)
G = RANDOM.integers(0, 30, 400)
ROLES = {"group": "group", "label": "label", "score": "score"}


def wanted(group, label, score, measure, **options) -> float:
    log = {"group": group, "label": label, "score": score}
    return fe.evaluate(log, **ROLES, measures=measure, **options).value(measure)


@pytest.mark.parametrize("measure", ["GAUC", "nDCG@3", "AP(over='min')@4", "AUC"])
def test_group_score__is_what_evaluate_says(measure):
    assert group_score(Y, X[:, 0], G, measure) == wanted(G, Y, X[:, 0], measure)
    tied = np.round(X[:, 0])
    found = group_score(Y.tolist(), tied.tolist(), G.tolist(), measure, ties="worst")
    assert found == wanted(G, Y, tied, measure, ties="worst")


def test_cross_validation__routes_groups_to_the_scorer():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import make_scorer
    from sklearn.model_selection import GroupKFold, cross_validate

    folds = GroupKFold(3)
    with sklearn.config_context(enable_metadata_routing=True):
        gauc = make_scorer(scorer("GAUC"), response_method="predict_proba")
        found = cross_validate(
            LogisticRegression(),
            X,
            Y,
            cv=folds,
            scoring=gauc.set_score_request(groups=True),
            params={"groups": G},
            error_score="raise",
        )["test_score"]
    assert "GAUC" in repr(gauc)
    for value, (train, test) in zip(found, folds.split(X, Y, G), strict=True):
        score = LogisticRegression().fit(X[train], Y[train]).predict_proba(X[test])[:, 1]
        assert value == wanted(G[test], Y[test], score, "GAUC")


def test_scorer__without_routing__refuses_to_make_one_group_of_all():
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import make_scorer

    model = LogisticRegression().fit(X, Y)
    score = make_scorer(scorer("GAUC"), response_method="predict_proba")
    with pytest.raises(ArgumentError, match="groups: must be given for GAUC"):
        score(model, X, Y)
    pooled = make_scorer(scorer("AUC"), response_method="predict_proba")
    assert pooled(model, X, Y) == wanted(G, Y, model.predict_proba(X)[:, 1], "AUC")


def test_scorer__is_pickled_with_its_measure_and_options():
    again = pickle.loads(pickle.dumps(scorer("nDCG@5", ties="worst")))  # noqa: S301 - our own
    tied = np.round(X[:, 0])
    assert again(Y, tied, groups=G) == wanted(G, Y, tied, "nDCG@5", ties="worst")
    assert again(Y, tied, groups=G) != wanted(G, Y, tied, "nDCG@5")


def test_sample_weight__weighs_rows():
    weight = RANDOM.random(400)
    log = {"group": G, "label": Y, "score": X[:, 0], "weight": weight}
    direct = fe.evaluate(log, **ROLES, weight="weight", measures="GAUC").value("GAUC")
    assert group_score(Y, X[:, 0], G, sample_weight=weight) == pytest.approx(direct, abs=1e-12)
    with pytest.raises(ArgumentError, match="have no meaning for measures of rank positions"):
        group_score(Y, X[:, 0], G, "RR", sample_weight=weight)
