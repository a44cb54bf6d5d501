"""Result.compare(): the models of one result, and of two results joined by key."""

from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.results.compare_tests import TESTS
from tests.support.click_logs import MODELS, click_log, compare, evaluate, with_nulls
from tests.support.transcripts import answers

MEASURES = "GAUC,nDCG@3,AP,GMAP,NumRelRet,P@3,GAUC(weight='positives')"


def lines(found, **changes) -> list[str]:
    return [repr(asdict(replace(line, **changes))) for line in found]


@pytest.mark.parametrize("test", TESTS)
def test_one_result__has_the_bits_of_one_pass(test) -> None:
    log = with_nulls(click_log(seed=3), "new")
    options = {"test": test, "replicates": 99, "seed": 5}
    once = compare(log, MEASURES, MODELS, unretrieved="allow", **options)
    result = evaluate(log, MODELS, MEASURES, unretrieved="allow")
    found = result.compare(baseline="old", **options)
    assert lines(found) == lines(once)
    assert found.largest_changes("GAUC", "new").equals(once.largest_changes("GAUC", "new"))
    assert found.per_group.equals(once.per_group)
    for name in ("baseline", "test", "correction", "replicates", "seed", "confidence"):
        assert found.meta.conventions[name] == once.meta.conventions[name]


def test_one_result__weighted_by_a_column__has_the_bits_of_one_pass() -> None:
    log = click_log(seed=4)
    log["worth"] = (log["user"] % 5).astype(np.float64)
    measures = "AP(weight='worth'),nDCG(weight='positives')"
    once = compare(log, measures)
    found = evaluate(log, ["old", "new"], measures).compare(baseline="old")
    assert lines(found) == lines(once)
    assert once.find("AP(weight='worth')").se > 0


@pytest.mark.parametrize("test", ["clustered_t", "wilcoxon", "bootstrap"])
def test_two_results__over_the_same_groups__have_the_bits_of_one(test) -> None:
    log = click_log(seed=3)
    once = evaluate(log, MODELS[:2], MEASURES).compare(baseline="old", test=test, replicates=50)
    order = np.random.default_rng(0).permutation(len(log["user"]))
    shuffled = {name: column[order] for name, column in log.items()}
    base, other = evaluate(log, "old", MEASURES), evaluate(shuffled, "new", MEASURES)
    found = base.compare(other, test=test, replicates=50)
    assert lines(found) == lines(once)
    assert found.joined == {"both": 60, "only_base": 0, "only_candidate": 0, "rows_differ": 0}
    assert "groups joined by key: 60 in both results" in repr(found)


@pytest.mark.parametrize("reverse", [False, True])
def test_two_results__one_with_a_baseline__both_have_auc(reverse) -> None:
    log = click_log(seed=3)
    alone = evaluate(log, "old", "AUC,GAUC")
    both = evaluate(log, ["old", "new"], "AUC,GAUC", baseline="old")
    if reverse:
        line = both.compare(evaluate(log, "new", "AUC,GAUC"), baseline="old").find("AUC", "new")
    else:
        line = alone.compare(both).find("AUC", "new")
    assert line.delta == both.value("AUC", "new") - alone.value("AUC")
    assert np.isnan(line.se)


def test_two_results__of_one_name_with_other_options__are_told_apart() -> None:
    log = click_log(seed=3)
    plain, binned = evaluate(log, "old", "AUC"), evaluate(log, "new", "AUC(bins=64)")
    with pytest.raises(ArgumentError, match=r"one has AUC, the other AUC\(bins=64"):
        plain.compare(binned)


def test_two_results__over_other_groups__count_those_that_do_not_match() -> None:
    log = click_log(seed=3)
    mine = {name: column[log["user"] < 50] for name, column in log.items()}
    theirs = {name: column[log["user"] >= 10] for name, column in log.items()}
    first = np.flatnonzero(theirs["user"] == theirs["user"][0])
    cut = {name: np.delete(column, first[:1]) for name, column in theirs.items()}
    found = evaluate(mine, "old", "AP,P@3").compare(evaluate(cut, "old", "P@3,AP"))
    lost = len(first) == 1
    differ = int(theirs["user"][0] < 50 and not lost)
    assert found.scores == ("other.old",)
    assert found.joined["only_base"] == 10 + (lost and theirs["user"][0] < 50)
    assert found.joined["rows_differ"] == differ
    line = found.find("P@3", "other.old")
    assert line.only_base == found.joined["only_base"]
    assert line.only_candidate == found.joined["only_candidate"]
    assert line.base_value == evaluate(mine, "old", "P@3").value("P@3")
    assert line.value == evaluate(cut, "old", "P@3").value("P@3")
    assert found.document()["joined"] == found.joined
    assert found.per_group.num_rows == sum(v for k, v in found.joined.items() if k != "rows_differ")


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.string(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())]
)
def test_two_results__keys_of_any_type__are_joined(kind) -> None:
    log = click_log(30)
    keys = [str(user) for user in log["user"]]
    if kind == pa.int32():
        column = pa.array(log["user"], kind)
    elif kind == pa.large_binary():
        column = pa.array([key.encode() for key in keys], kind)
    else:
        column = pa.array(keys).dictionary_encode() if pa.types.is_dictionary(kind) else keys
    table = pa.table({**log, "user": column, "day": log["user"] % 3})
    options = {"label": "click", "group": ["user", "day"], "measures": "AP"}
    base, other = (fe.evaluate(t, score=s, **options) for t, s in ((table, "old"), (table, "new")))
    assert base.compare(other).joined["both"] == 30
    if kind == pa.int32():
        with pytest.raises(ArgumentError, match="int32, int64 in one result and int64, int64"):
            base.compare(fe.evaluate(log | {"day": log["user"] % 3}, score="new", **options))


def test_two_results__of_models_of_the_same_names__are_told_apart() -> None:
    log = click_log()
    log["other.old"] = log["newer"]
    other = evaluate(log, ["old", "other.old", "new"], "AP")
    found = evaluate(log, "old", "AP").compare(other)
    assert found.scores == ("other.other.old", "other.old", "new")
    assert found.find("AP", "other.other.old").delta == 0
    assert found.find("AP", "other.old").value == other.value("AP", "other.old")


test_answers = answers(globals())
