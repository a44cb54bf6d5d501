"""Profiles: the conventions of other tools, each choice alone and all together."""

import copy
import itertools
import json
import pickle

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.analysis.explain import explain
from fastrank_eval.engine.conventions import PROFILES, with_options
from fastrank_eval.engine.options import DEFAULTS
from fastrank_eval.engine.plan import undefined_policies, undefined_text
from fastrank_eval.measures import measure, registry
from tests.strategies import random_groups
from tests.support.tables import ROLES, table_of
from tests.support.transcripts import answers

MEASURES = "GAUC,nDCG@3,DCG@3,AP@3,AP,P@4,R@2,RR"
TABLE = table_of(random_groups(71, 60, grades=(0, 0, 1, 2)))


def asked_of(profile: str) -> list[fe.Measure]:
    """The measures that a profile does not refuse."""
    chosen = PROFILES[profile]
    refused = {*chosen.refused, *(chosen.apart.options if chosen.apart else ())}
    return [one for one in map(measure, MEASURES.split(",")) if one.name not in refused]


def values(result) -> dict[str, float]:
    return {line["measure"]: line["value"] for line in result.document()["results"]}


def evaluate(source=TABLE, measures=MEASURES, **options):
    return fe.evaluate(source, **{**ROLES, "item": "item", "measures": measures, **options})


def of(*groups: tuple[list[float], list[float]]) -> pa.Table:
    rows = [(g, y, s) for g, (ys, ss) in enumerate(groups) for y, s in zip(ys, ss, strict=True)]
    group, label, score = zip(*rows, strict=True)
    item = range(len(rows), 0, -1)  # ties fall in the order of the rows
    return pa.table({"group": group, "label": label, "score": score, "item": item})


FALLING = [0.9, 0.8, 0.7]
ONE_CLASS = of(([1, 0, 0], FALLING), ([0, 0, 0], FALLING), ([1, 1, 1], FALLING))


@pytest.mark.parametrize(
    "profile,wanted",
    [
        ("catboost", {"GAUC": 1 / 3, "nDCG": 1.0, "AP@3": 2 / 3, "RR": 2 / 3, "R@1": 7 / 9}),
        ("lightgbm", {"nDCG": 1.0, "AP@3": 1.0}),
        ("xgboost", {"nDCG": 1.0, "AP@3": 1.0}),
        ("sklearn", {"nDCG": 2 / 3}),
        ("torchmetrics", {"GAUC": 1 / 3}),
        ("din", {"GAUC": 1.0}),
        ("recbole", {"GAUC": 1.0}),
    ],
)
def test_groups_of_one_class(profile, wanted):
    result = evaluate(ONE_CLASS, list(wanted), profile=profile)
    assert {m: result.value(m) for m in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize(
    "profile,first,last",
    [
        ("xgboost", (1.0, 1.0), (0.5, 1 / 3)),
        ("lightgbm", (1.0, 1.0), (0.5, 1 / 3)),
        ("catboost", (0.5, 1 / 3), (0.5, 1 / 3)),
    ],
)
def test_three_tied_rows__the_relevant_one_first_or_last(profile, first, last):
    for labels, wanted in (([1, 0, 0], first), ([0, 0, 1], last)):
        result = evaluate(of((labels, [0.5] * 3)), "nDCG@3,AP@3", profile=profile)
        assert (result.value("nDCG@3"), result.value("AP@3")) == pytest.approx(wanted)


def test_three_tied_rows__scikit_learn_averages_their_orders():
    for labels in ([1, 0, 0], [0, 0, 1]):
        result = evaluate(of((labels, [0.5] * 3)), "nDCG", profile="sklearn")
        assert result.value("nDCG") == pytest.approx(0.7103099178571525, abs=1e-12)


def test_grades__linear_and_exponential_gains():
    table = of(([0, 3, 2, 1], [4.0, 3.0, 2.0, 1.0]))
    wanted = {"sklearn": 0.6979345, "catboost": 0.6979345, "xgboost": 0.6757508}
    wanted["lightgbm"] = wanted["xgboost"]
    for profile, value in wanted.items():
        found = evaluate(table, "nDCG", profile=profile).value("nDCG")
        assert found == pytest.approx(value, abs=5e-8), profile


def test_trec_eval_10__rbp_has_its_persistence():
    found = evaluate(measures="rbp,rbp_resid", profile="trec_eval_10")
    wanted = evaluate(
        measures="RBP(p=0.9),RBPres(p=0.9, tail='if_unjudged')", ties="item", undefined="zero"
    )
    assert values(found) == values(wanted)


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.float16(), pa.float32()])
def test_score_type_float32__of_every_score_type(kind):
    table = TABLE.set_column(3, "score", TABLE["score"].cast(kind, safe=False))
    assert values(evaluate(table, score_type="float32")) == values(evaluate(table))


@pytest.mark.parametrize("profile", PROFILES)
def test_profile__is_what_its_choices_are_one_by_one(profile):
    chosen = PROFILES[profile]
    asked = asked_of(profile)
    by_hand = [with_options(m, chosen.options.get(m.name, {})) for m in asked]
    one_by_one = evaluate(measures=by_hand, **dict(chosen.choices))
    assert values(evaluate(measures=asked, profile=profile)) == values(one_by_one)


def test_option_given_as_its_default__survives_a_profile():
    def by_trec(one):
        return evaluate(measures=[one], profile="trec_eval_9").value("nDCG@3")

    def by_hand(gain):
        one = fe.nDCG(gain=gain) @ 3
        return evaluate(measures=[one], ties="item", undefined="zero").value(one)

    plain, given = measure("nDCG@3"), measure("nDCG(gain='exp')@3")
    assert plain == given
    assert by_trec(plain) == by_hand("linear") != by_hand("exp")
    pickled = pickle.loads(pickle.dumps(given))  # noqa: S301 - our own
    for again in (given, given(), given @ 3, copy.copy(given), pickled):
        assert by_trec(again) == by_hand("exp")


@pytest.mark.parametrize("profile", PROFILES)
def test_profile__names_measures_options_and_choices_that_exist(profile):
    chosen = PROFILES[profile]
    assert set(chosen.choices) <= set(DEFAULTS)
    for name, options in chosen.options.items():
        known = {param.name: param for param in registry[name].options}
        for option, value in options.items():
            assert known[option].read(value) == value
            assert value != known[option].default, "a choice that changes nothing"
    for name, value in chosen.choices.items():
        assert value != DEFAULTS[name], "a choice that changes nothing"


@pytest.mark.parametrize("profile", [name for name in PROFILES if PROFILES[name].apart])
def test_measures_of_other_conventions__are_for_trec_evaluate(profile):
    apart = PROFILES[profile].apart
    assert set(apart.choices) <= set(DEFAULTS)
    for name in apart.options:
        with pytest.raises(fe.MeasureError, match=r"take fastrank_eval\.trec\.evaluate"):
            evaluate(measures=f"{name}@3", profile=profile)


def test_undefined__text_and_mapping_say_the_same():
    for given in ("zero,nDCG=one, map=skip", {"*": "zero", "ndcg": "one", "AP": "skip"}):
        policies = undefined_policies(given)
        assert policies == {"*": "zero", "nDCG": "one", "AP": "skip"}
        assert undefined_policies(undefined_text(policies)) == policies
    mapped = evaluate(ONE_CLASS, "nDCG,AP,R", undefined={"*": "zero", "nDCG": "one", "AP": "skip"})
    assert values(mapped) == {"nDCG": 1.0, "AP": 1.0, "R": pytest.approx(2 / 3)}
    assert mapped.meta.conventions["undefined"] == "zero,nDCG=one,AP=skip"


@pytest.mark.parametrize("profile", PROFILES)
def test_explain__each_choice_moves_what_it_moves_alone(profile):
    asked = asked_of(profile)
    told = explain(TABLE, profile=profile, **ROLES, item="item", measures=asked)
    chosen = PROFILES[profile]
    nulls = {name: chosen.choices.get(name) for name in ("unretrieved", "unjudged")}
    ours = evaluate(measures=asked, **nulls)
    theirs = evaluate(measures=asked, profile=profile)
    for value in told.values:
        assert value.score == "score"
        assert value.ours == ours.value(value.measure)
        assert value.theirs == theirs.value(value.measure)
    by_name = {choice.name: choice for choice in told.choices}
    assert len(by_name) == len(told.choices)
    if chosen.choices.get("ties", "expected") != "expected":
        moved = evaluate(measures=asked, ties=chosen.choices["ties"], **nulls)
        for move, value in zip(by_name["ties"].moves, told.values, strict=True):
            assert move == pytest.approx(moved.value(value.measure) - value.ours)


def test_explain__single_class_users_counted_as_zero():
    told = explain(ONE_CLASS, profile="catboost", **ROLES, measures="GAUC,nDCG")
    moves = {choice.name: choice.moves for choice in told.choices}
    assert moves["GAUC single_class"] == pytest.approx((-2 / 3, 0.0))
    assert moves["undefined nDCG"] == pytest.approx((0.0, 0.0))
    assert "AP over" not in moves, "not asked for"


def test_explain__conventions_that_are_given_hold_on_both_sides():
    told = explain(TABLE, profile="xgboost", **ROLES, measures="nDCG@3", ties="worst")
    assert "ties" not in {choice.name for choice in told.choices}
    both = evaluate(measures="nDCG@3", ties="worst", profile="xgboost")
    assert [value.theirs for value in told.values] == [both.value("nDCG@3")]


def test_explain__several_models_and_undefined_values():
    table = TABLE.append_column("other", pa.array(np.arange(TABLE.num_rows) % 7 / 7))
    told = explain(
        table,
        profile="sklearn",
        group="group",
        label="label",
        score=["score", "other"],
        measures="nDCG@3,RR",
    )
    found = [(value.score, value.measure) for value in told.values]
    assert found == [*itertools.product(("score", "other"), ("nDCG@3", "RR"))]
    nothing = explain(of(([0, 0], [1.0, 2.0])), profile="sklearn", **ROLES, measures="nDCG")
    assert [(value.ours, value.theirs) for value in nothing.values] == [(None, 0.0)]
    assert "undefined" in str(nothing)
    assert json.loads(nothing.to_json())["values"][0]["ours"] is None


def test_explain__names_what_is_not_reproduced():
    for profile in PROFILES.values():
        told = explain(TABLE, profile=profile.name, **ROLES, item="item", measures="AP")
        assert told.document()["differs"] == list(profile.differs)
        assert all(f"not reproduced: {text}" in str(told) for text in profile.differs)


test_answers = answers(globals())
