"""RelaImpr: the tables of the DIN paper, recomputed."""

import math

import pytest

import fastrank_eval
from fastrank_eval import ArgumentError, MeasureError, rela_impr

# Zhou et al. (KDD 2018), tables 3 (two data sets), 4 and 5: AUC and RelaImpr in per cent.
BASES = {"MovieLens": 0.7300, "Amazon": 0.8624, "regularisation": 0.5940, "Alibaba": 0.5970}
#: AUC and RelaImpr of each row.
PUBLISHED = {
    "MovieLens": "0.7263 -1.61, 0.73 0, 0.7304 0.17, 0.7321 0.91, 0.7324 1.04, 0.7337 1.61, "
    "0.7348 2.09",
    "Amazon": "0.7742 -24.34, 0.8624 0, 0.8637 0.36, 0.8679 1.52, 0.8683 1.63, 0.8818 5.35, "
    "0.8871 6.82",
    "regularisation": "0.594 0, 0.5959 2.02, 0.597 3.19, 0.5983 4.57, 0.5954 1.49, 0.6031 9.68",
    "Alibaba": "0.5738 -23.92, 0.597 0, 0.5977 0.72, 0.5983 1.34, 0.5993 2.37, 0.6029 6.08, "
    "0.606 9.28, 0.6044 7.63, 0.6083 11.65",
}


@pytest.mark.parametrize("data", PUBLISHED)
def test_rela_impr__is_what_the_din_paper_prints(data):
    for row in PUBLISHED[data].split(", "):
        auc, per_cent = map(float, row.split())
        assert round(100 * rela_impr(auc, BASES[data]), 2) == per_cent


def test_rela_impr__of_chance_and_of_undefined_values_is_undefined():
    assert rela_impr(0.5, 0.75) == -1.0
    assert rela_impr(0.25, 0.75) == -2.0
    for value, base in ((0.7, 0.5), (0.7, 0.4), (math.nan, 0.7), (0.7, math.nan)):
        assert math.isnan(rela_impr(value, base))


@pytest.mark.parametrize("value, base", [(72.6, 0.73), (0.7, 73.0), (-0.1, 0.7), (math.inf, 0.7)])
def test_rela_impr__of_per_cent_is_refused(value, base):
    with pytest.raises(ArgumentError, match="must be an AUC"):
        rela_impr(value, base)


LOG = {
    "user": [1, 1, 1, 1, 2, 2, 2],
    "click": [1, 0, 0, 1, 0, 1, 0],
    "good": [0.9, 0.2, 0.1, 0.3, 0.1, 0.6, 0.2],
    "poor": [0.9, 0.2, 0.7, 0.6, 0.1, 0.6, 0.7],
}


def evaluated(*scores: str):
    return fastrank_eval.evaluate(
        LOG, group="user", label="click", score=scores, measures="AUC,GAUC,RR,AUC(max_fpr=0.5)"
    )


@pytest.mark.parametrize("measure", ["AUC", "GAUC"])
def test_result__compares_its_models_and_those_of_others(measure):
    both = evaluated("good", "poor")
    wanted = rela_impr(both.value(measure, "good"), both.value(measure, "poor"))
    assert wanted > 0
    assert both.rela_impr(measure, "good", "poor") == wanted
    assert evaluated("good").rela_impr(measure, "good", evaluated("poor")) == wanted
    assert evaluated("good").rela_impr(measure, "good", both, "poor") == wanted


@pytest.mark.parametrize("measure", ["RR", "AUC(max_fpr=0.5)"])
def test_result__has_no_relative_improvement_of_measures_without_chance_at_one_half(measure):
    with pytest.raises(MeasureError, match="AUC and GAUC"):
        evaluated("good", "poor").rela_impr(measure, "good", "poor")


def test_result__of_one_model_cannot_name_another():
    with pytest.raises(ArgumentError, match="'poor'"):
        evaluated("good").rela_impr("AUC", "good", "poor")
