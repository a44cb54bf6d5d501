"""Metrics inside training loops: what LightGBM, XGBoost and CatBoost report is our number."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval import ArgumentError
from fastrank_eval.integrations import (
    catboost_metric,
    group_score,
    lightgbm_metric,
    xgboost_metric,
)
from tests.support.transcripts import Case, cases

MEASURES = ["GAUC", "nDCG(gain={1: 3})@5", "AUC", "GAUC(weight='uniform')"]


def rows(seed: int, count: int, groups: int = 40):
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, 4))
    label = (random.random(count) < 1 / (1 + np.exp(-features[:, 0]))).astype(np.int64)
    return features, label, random.integers(0, groups, count)


X, Y, G = rows(1, 700)
X_OTHER, Y_OTHER, G_OTHER = rows(2, 300)


def wanted(group, label, score, measure="GAUC", **options) -> float:
    log = {"group": group, "label": label, "score": score}
    log |= {"weight": options["weight"]} if "weight" in options else {}
    options |= {"weight": "weight"} if "weight" in options else {}
    result = fe.evaluate(
        log, group="group", label="label", score="score", measures=measure, **options
    )
    return result.value(measure)


def light(label, group=None, weight=None):
    """What LightGBM's Dataset has of what the metric asks."""
    return SimpleNamespace(
        get_label=lambda: label, get_group=lambda: group, get_weight=lambda: weight
    )


@pytest.mark.parametrize("measure", MEASURES)
def test_lightgbm__reports_what_evaluate_says(measure):
    lightgbm = pytest.importorskip("lightgbm")
    training = lightgbm.Dataset(X, Y)
    other = lightgbm.Dataset(X_OTHER, Y_OTHER, reference=training)
    found: dict = {}
    model = lightgbm.train(
        {"objective": "binary", "metric": "None", "verbose": -1, "num_threads": 1},
        training,
        3,
        valid_sets=[training, other],
        valid_names=["training", "other"],
        feval=lightgbm_metric(measure, group=[G, G_OTHER]),
        callbacks=[lightgbm.record_evaluation(found)],
    )
    for name, x, y, g in (("training", X, Y, G), ("other", X_OTHER, Y_OTHER, G_OTHER)):
        value = wanted(g, y, model.predict(x), measure)
        assert found[name][measure][-1] == pytest.approx(value, abs=1e-12)


def test_lightgbm__early_stopping__goes_the_right_way():
    lightgbm = pytest.importorskip("lightgbm")
    training = lightgbm.Dataset(X, Y, group=np.full(70, 10))
    other = lightgbm.Dataset(X_OTHER, Y_OTHER, group=np.full(30, 10), reference=training)
    found: dict = {}
    model = lightgbm.train(
        {"objective": "binary", "metric": "None", "verbose": -1, "num_threads": 1},
        training,
        60,
        valid_sets=[other],
        feval=lightgbm_metric(),
        callbacks=[lightgbm.record_evaluation(found), lightgbm.early_stopping(5, verbose=False)],
    )
    values = found["valid_0"]["GAUC"]
    assert model.best_iteration == int(np.argmax(values)) + 1
    best = model.predict(X_OTHER, num_iteration=model.best_iteration)
    assert max(values) == pytest.approx(wanted(np.repeat(np.arange(30), 10), Y_OTHER, best))


@pytest.mark.parametrize("measure", MEASURES)
def test_xgboost__reports_what_evaluate_says(measure):
    xgboost = pytest.importorskip("xgboost")
    training, other = xgboost.DMatrix(X, Y), xgboost.DMatrix(X_OTHER, Y_OTHER)
    found: dict = {}
    model = xgboost.train(
        {"objective": "binary:logistic", "disable_default_eval_metric": 1, "nthread": 1},
        training,
        3,
        evals=[(training, "training"), (other, "other")],
        custom_metric=xgboost_metric(measure, group=[G, G_OTHER]),
        evals_result=found,
        verbose_eval=False,
    )
    for name, data, y, g in (("training", training, Y, G), ("other", other, Y_OTHER, G_OTHER)):
        value = wanted(g, y, model.predict(data), measure)
        (reported,) = found[name].values()
        assert reported[-1] == pytest.approx(value, abs=5.1e-7)  # XGBoost keeps six decimals


@pytest.mark.parametrize("measure, best", [("GAUC", np.argmax), ("LogLoss", np.argmin)])
def test_xgboost__early_stopping__goes_the_way_that_maximize_says(measure, best):
    xgboost = pytest.importorskip("xgboost")
    found: dict = {}
    model = xgboost.train(
        {"objective": "binary:logistic", "disable_default_eval_metric": 1, "nthread": 1},
        xgboost.DMatrix(X, Y),
        60,
        evals=[(xgboost.DMatrix(X_OTHER, Y_OTHER), "validation")],
        custom_metric=xgboost_metric(measure, group=[G_OTHER]),
        maximize=measure == "GAUC",
        early_stopping_rounds=10,
        evals_result=found,
        verbose_eval=False,
    )
    (values,) = found["validation"].values()
    assert model.best_iteration == best(values)
    assert 10 < len(values) < 60


def test_xgboost__groups_of_the_matrix():
    xgboost = pytest.importorskip("xgboost")
    data = xgboost.DMatrix(X, Y, qid=np.sort(G))
    name, value = xgboost_metric()(X[:, 0], data)
    assert (name, value) == ("GAUC", wanted(np.sort(G), Y, X[:, 0]))
    with pytest.raises(ArgumentError, match="group: must be given for GAUC"):
        xgboost_metric()(X[:, 0], xgboost.DMatrix(X, Y))


def test_xgboost__weights_of_groups__are_no_weights_of_rows():
    xgboost = pytest.importorskip("xgboost")
    group = np.repeat(np.arange(70), 10)
    data = xgboost.DMatrix(X, Y, qid=group, weight=np.arange(1.0, 71.0))
    assert xgboost_metric()(X[:, 0], data)[1] == wanted(group, Y, X[:, 0])
    with pytest.raises(ArgumentError, match=r"must have 700 rows.* got shape \(70,\)"):
        xgboost_metric(weighted=True)(X[:, 0], data)


@pytest.mark.filterwarnings("ignore:Can't optimze method:UserWarning")
@pytest.mark.parametrize("measure", MEASURES)
def test_catboost__reports_what_evaluate_says(measure):
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(
        iterations=3,
        eval_metric=catboost_metric(measure, group=[G, G_OTHER], label=[Y, Y_OTHER]),
        use_best_model=False,
        verbose=False,
        allow_writing_files=False,
        thread_count=1,
    )
    model.fit(X, Y, eval_set=(X_OTHER, Y_OTHER))
    reported = model.get_evals_result()
    for name, x, y, g in (("learn", X, Y, G), ("validation", X_OTHER, Y_OTHER, G_OTHER)):
        value = wanted(g, y, model.predict(x, prediction_type="RawFormulaVal"), measure)
        assert reported[name]["CatBoostMetric"][-1] == pytest.approx(value, abs=1e-12)


@pytest.mark.filterwarnings("ignore:Can't optimze method:UserWarning")
def test_catboost__shuffled_training_data__is_refused():
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(
        iterations=2,
        eval_metric=catboost_metric(group=G, label=Y),
        boosting_type="Ordered",
        verbose=False,
        allow_writing_files=False,
        thread_count=1,
    )
    with pytest.raises(catboost.CatBoostError, match="do not come in the order of label"):
        model.fit(X, Y)


@pytest.mark.parametrize(
    "group",
    [
        G,
        G.astype(str),
        G.tolist(),
        pa.array(G.astype(str)).dictionary_encode(),
        np.array(["2026-11-01"], "datetime64[D]") + G,
    ],
    ids=["integers", "text", "list", "dictionary", "dates"],
)
def test_group__ids_of_any_type_in_any_order(group):
    _, value, better = lightgbm_metric("GAUC", group=group)(X[:, 0], light(Y))
    assert (value, better) == (wanted(G, Y, X[:, 0]), True)


def test_sizes__are_the_rows_of_each_group():
    sizes = [100, 0, 250, 350]
    group = np.repeat(np.arange(4), sizes)
    expected = wanted(group, Y, X[:, 0], "AP@7")
    assert lightgbm_metric("AP@7", sizes=sizes)(X[:, 0], light(Y))[1] == expected
    assert lightgbm_metric("AP@7")(X[:, 0], light(Y, np.array(sizes)))[1] == expected


def test_groups_of_the_data_set__may_change_between_calls():
    metric = lightgbm_metric("nDCG@3")
    for sizes in ([350, 350], [100, 600], [100, 600]):
        expected = wanted(np.repeat([0, 1], sizes), Y, X[:, 0], "nDCG@3")
        assert metric(X[:, 0], light(Y, np.array(sizes)))[1] == expected


def test_ties_of_scattered_rows__stay_in_the_order_of_the_input():
    score = np.round(X[:, 0])
    value = lightgbm_metric("RR", group=G, ties="input")(score, light(Y))[1]
    order = np.argsort(G, kind="stable")
    assert value == wanted(G[order], Y[order], score[order], "RR", ties="input")


def test_options__reach_evaluate():
    value = lightgbm_metric("nDCG", group=G, profile="lightgbm")(X[:, 0], light(Y))[1]
    assert value == wanted(G, Y, X[:, 0], "nDCG", profile="lightgbm")


def test_weighted__takes_the_weights_of_the_data_set():
    weight = np.random.default_rng(3).random(len(Y))
    plain, weighted = (lightgbm_metric("GAUC", group=G, weighted=w) for w in (False, True))
    assert plain(X[:, 0], light(Y, weight=weight))[1] == wanted(G, Y, X[:, 0])
    assert weighted(X[:, 0], light(Y, weight=weight))[1] == pytest.approx(
        wanted(G, Y, X[:, 0], weight=weight), abs=1e-12
    )
    with pytest.raises(ArgumentError, match="the data set has no weights"):
        weighted(X[:, 0], light(Y))


def test_measure_of_which_less_is_better__says_so():
    assert not catboost_metric("Unjudged@5", group=G).is_max_optimal()
    assert catboost_metric("GAUC", group=G).is_max_optimal()
    assert not lightgbm_metric("RBPres", group=G).higher_is_better


def test_value__of_no_defined_group__is_nan():
    assert np.isnan(lightgbm_metric(group=G)(X[:, 0], light(np.zeros(len(Y))))[1])


@pytest.mark.parametrize("case", cases("metrics"), ids=lambda case: ascii(str(case)))
def test_metric__of_what_does_not_fit__is_refused(case: Case) -> None:
    names = {"catboost_metric": catboost_metric, "group_score": group_score, "pa": pa}
    case.check(case.answer({**globals(), **names}))
