"""How a difference comes of slices: of one log, and of the results of two nights."""

import json
import math

import numpy as np
import pytest

from tests.support.click_logs import MODELS, click_log, compare, evaluate, with_nulls
from tests.support.transcripts import answers

MEASURES = "GAUC,AP,AUC"


def rows_of_log():
    found = click_log(300, seed=3)
    found["country"] = np.array(["de", "fr", "se"])[found["user"] % 3]
    found["slot"] = np.random.default_rng(0).integers(0, 2, len(found["user"]))
    return found


LOG = rows_of_log()


def rows(log, where):
    return {name: column[where] for name, column in log.items()}


def test_same_rows__differ_within_slices_alone() -> None:
    found = compare(LOG, "GAUC,AP", by="country")
    line, parts = found.find("GAUC"), found.decomposition("GAUC")
    assert parts.slices == ("country=de", "country=fr", "country=se")
    assert parts.within == pytest.approx(line.delta, rel=1e-12)
    assert parts.composition == 0
    assert abs(parts.remainder) < 1e-15
    shares = [
        v.weight for v in found.evaluated if v.by and v.measure == "GAUC" and v.score == "new"
    ]
    deltas = [found.find("GAUC", slice=part).delta for part in parts.slices]
    np.testing.assert_allclose(parts.slice_within, np.multiply(shares, deltas) / sum(shares))


def test_models_that_cover_other_groups__have_a_mix() -> None:
    found = compare(with_nulls(LOG, "new"), "GroupPPV", unretrieved="allow", by="country")
    parts = found.decomposition("GroupPPV")
    assert parts.composition != 0
    assert parts.difference == pytest.approx(found.find("GroupPPV").delta, abs=1e-15)


def test_json__has_the_decomposition_of_every_mean() -> None:
    found = compare(LOG, "GAUC,AP,AUC,GMAP,NumRelRet", MODELS, by=["slot", "country"])
    entries = json.loads(found.to_json())["decompositions"]
    assert [(e["by"], e["score"], e["measure"]) for e in entries] == [
        (by, score, measure)
        for by in ("slot", "country")
        for score in ("new", "newer")
        for measure in ("GAUC", "AP")
    ]
    parts = found.decomposition("AP", "newer", "country")
    assert entries[-1]["within"] == parts.within
    assert entries[-1]["difference"] == found.find("AP", "newer").delta
    assert [part["within"] for part in entries[-1]["slices"]] == parts.slice_within.tolist()
    assert "decompositions" not in compare(LOG, "AP").document()


def test_slices_of_one_result__have_the_values_of_one_pass_but_no_error() -> None:
    once = compare(LOG, "GAUC,AP", MODELS, by=["slot", "country"])
    found = evaluate(LOG, MODELS, "GAUC,AP", by=["slot", "country"]).compare(baseline="old")
    assert len(found.values) == len(once.values)
    for mine, line in zip(found, once, strict=True):
        for name in ("score", "by", "slice", "measure", "base_value", "value", "delta", "relative"):
            assert getattr(mine, name) == getattr(line, name)
        if line.by is None:
            assert (mine.se, mine.p_adjusted) == (line.se, line.p_adjusted)
        else:
            assert mine.warning == "not_paired"
            assert math.isnan(mine.se)
            assert math.isnan(mine.p_value)
            assert "slices of results are not paired" in mine.verdict
    a, b = (each.decomposition("GAUC", "new", "slot") for each in (found, once))
    assert (a.within, a.composition, a.remainder) == (b.within, b.composition, b.remainder)
    assert not found.check("GAUC[slot=1] delta_ci_low < -1")
    assert "not_paired)" in str(found.check("GAUC[slot=1] delta_ci_low < -1"))


def test_two_nights__differ_by_their_mix() -> None:
    """The model is the same, and so is each country; one country is shown to fewer users."""
    first = rows(LOG, LOG["user"] < 240)
    second = rows(first, (first["country"] != "de") | (first["user"] % 4 == 0))
    base, other = (evaluate(night, "old", MEASURES, by="country") for night in (first, second))
    found = base.compare(other)
    whole, parts = found.find("AP"), found.decomposition("AP")
    assert found.scores == ("other.old",)
    for part in ("country=fr", "country=se"):
        assert found.find("AP", slice=part).delta == 0
    assert parts.composition != 0
    assert parts.slice_within[1:].tolist() == [0, 0]
    assert parts.within + parts.composition + parts.remainder == pytest.approx(
        whole.delta, abs=1e-15
    )
    assert 0 < whole.only_base <= found.joined["only_base"]
    assert whole.only_candidate == 0


def test_groups_of_one_night_only__have_the_error_of_independent_samples() -> None:
    nights = [evaluate(rows(LOG, LOG["user"] % 2 == k), "old", "GAUC,AP") for k in (0, 1)]
    found = nights[0].compare(nights[1])
    assert found.joined["both"] == 0
    for line in found:
        errors = [next(v.se for v in night if v.measure == line.measure) for night in nights]
        assert line.se == pytest.approx(math.hypot(*errors), rel=0.01)


test_answers = answers(globals())
