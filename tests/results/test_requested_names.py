"""Two aliases of one measure under a profile: each name that was requested answers for itself."""

import copy
import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

import fastrank_eval as fe
from fastrank_eval.apps.nightly.web import HistoryFile, web_view
from fastrank_eval.integrations import lightgbm_metric
from fastrank_eval.results.result import State
from tests.support.asgi_client import Client
from tests.support.nightly_runs import kept, nightly
from tests.support.transcripts import answers

#: Grades whose exponential and linear gains give other values of nDCG.
LOG = {
    "q": [1, 1, 1, 2, 2, 2, 3, 3, 3],
    "label": [3, 1, 0, 0, 2, 1, 1, 0, 2],
    "old": [0.1, 0.4, 0.2, 0.3, 0.1, 0.2, 0.3, 0.2, 0.1],
    "new": [0.3, 0.4, 0.2, 0.3, 0.4, 0.2, 0.1, 0.2, 0.3],
}
EXP = "nDCG(gain='exp')"
#: As CatBoost takes gains and ideals, with each choice written out.
ALL_GIVEN = "nDCG(gain='exp', ideal='judged')"


def evaluate(
    measures: str | list[str], score: str | list[str] = "old", **options: Any
) -> fe.Result:
    return fe.evaluate(
        LOG, group="q", label="label", score=score, measures=measures, profile="catboost", **options
    )


def alone(name: str, score: str = "old") -> float:
    return evaluate(name, score).value(name)


@pytest.mark.parametrize(
    "names",
    [
        ["nDCG", EXP],
        [EXP, "nDCG"],
        [EXP, "nDCG(ideal='retrieved')"],
        ["nDCG", ALL_GIVEN],
        [ALL_GIVEN, EXP, "nDCG"],
        ["GAUC", "GAUC(weight='impressions', single_class=None)"],
    ],
)
def test_value__of_each_name_requested__does_not_depend_on_the_others(names: list[str]) -> None:
    result = evaluate(names)
    again = State.from_bytes(evaluate(names, keep="state").state.to_bytes()).result()
    for name in names:
        assert result.value(name) == alone(name) == again.value(name)
        assert result[name].tolist() == evaluate(name)[name].tolist()
    requested = json.loads(result.to_json())["meta"]["requested"]
    lines = {line["measure"]: line["value"] for line in result.document()["results"]}
    assert {name: lines[requested.get(name, name)] for name in names} == {
        name: alone(name) for name in names
    }


def test_gate__on_a_measure__does_not_depend_on_what_else_is_requested() -> None:
    between = (alone("nDCG") + alone(EXP)) / 2
    sign = "<" if alone("nDCG") < between else ">"
    fails, passes = f"nDCG {sign} {between}", f"{EXP} {sign} {between}"
    for names in (["nDCG", EXP], [EXP, "nDCG"]):
        assert not evaluate(names).check(fails)
        assert evaluate(names).check(passes)
    assert not evaluate("nDCG").check(fails)
    (failure,) = evaluate(EXP).check(fails).failures
    assert failure.kind == "not_computed"


@pytest.mark.parametrize("baseline", [None, "old"])
@pytest.mark.parametrize("name", ["AUC", "AUC(rel=1)", "ROCAUC"])
def test_auc__by_any_spelling__is_found_with_and_without_a_baseline(
    name: str, baseline: str | None
) -> None:
    log = {**LOG, "label": [int(grade > 1) for grade in LOG["label"]]}
    result = fe.evaluate(
        log, group="q", label="label", score=["old", "new"], measures=name, baseline=baseline
    )
    assert result.value("AUC", "new") == result.value(name, "new")
    assert result.check("new: AUC < 0").passed


def test_value__of_a_name_that_was_not_requested__is_refused() -> None:
    with pytest.raises(fe.MeasureError, match="nDCG was not part"):
        evaluate(EXP).value("nDCG")
    # Options that the profile leaves alone make no other measure.
    assert evaluate("nDCG").value("nDCG(discount='log2')") == alone("nDCG")


def compare(names: list[str]) -> fe.Comparison:
    return fe.compare(
        LOG, group="q", label="label", score=["old", "new"], baseline="old", measures=names,
        profile="catboost", by="q:2",
    )  # fmt: skip


def test_compare__each_name_requested__answers_for_itself() -> None:
    names = ["nDCG", ALL_GIVEN, EXP]
    found = compare(names)
    requested = found.document()["meta"]["requested"]
    lines = {(v["measure"], v["slice"]): v for v in found.document()["comparisons"]}
    kept = evaluate(names, score=["old", "new"]).compare(baseline="old")
    for name in names:
        line, mine = found.find(name), compare([name])
        assert (line.base_value, line.value) == (alone(name), alone(name, "new"))
        assert lines[requested[name], "all"]["value"] == line.value
        assert kept.find(name).delta == line.delta
        assert found.largest_changes(name).equals(mine.largest_changes(name))
        moved = ([v.delta for v in each.largest_slice_changes(name)] for each in (found, mine))
        assert next(moved) == next(moved)
        parts, own = found.decomposition(name), mine.decomposition(name)
        assert (parts.before, parts.after, parts.within) == (own.before, own.after, own.within)
        assert found.decompositions["new", requested[name], "q:2"].within == own.within
        between = (line.value + line.base_value) / 2
        sign = "<" if line.value < between else ">"
        assert not found.check(f"new:{name} {sign} {between}")
        assert found.check(f"old:{name} {sign} {between}")


OTHER_NAMES = ["MAP@2", "MRR", "nERR", "RR@1"]


def test_report__other_tools_names__prints_what_was_asked_for() -> None:
    result = fe.evaluate(
        LOG, group="q", label="label", score="old", measures=OTHER_NAMES, keep="state"
    )
    again = State.from_bytes(result.state.to_bytes()).result()
    for each in (result, again):
        lines = each.document()["results"]
        assert [line["measure"] for line in lines] == ["AP@2", "RR", "ERR(normalize=True)", "RR@1"]
        assert [line["name"] for line in lines] == OTHER_NAMES
        assert each.records().column("name").to_pylist() == OTHER_NAMES
        assert "MAP@2" in repr(each)
        assert "AP@2 " not in repr(each).replace("MAP@2", "")
        assert each.value("AP@2") == each.value("MAP@2") == each.value(fe.MAP @ 2)


def test_names__of_other_tools__follow_options_and_cutoff() -> None:
    assert (fe.AP @ 10, fe.RR, fe.Success @ 1) == (fe.MAP @ 10, fe.MRR, fe.HR @ 1)
    assert (fe.Recall @ 5, fe.Precision @ 5, fe.NDCG @ 5) == (fe.R @ 5, fe.P @ 5, fe.nDCG @ 5)
    shown = [
        (fe.NDCG(gain="linear") @ 5).display_name,
        (fe.measure("ndcg_cut_10") @ 5).display_name,
    ]
    assert shown == ["NDCG(gain='linear')@5", "nDCG@5"]
    assert fe.measure("nERR@3").display_name == "nERR@3"
    assert fe.measure("nERR")(normalize=False).display_name == "ERR"  # the name says normalize=True
    assert str(fe.MAP @ 10) == "AP@10"
    assert copy.copy(fe.MAP @ 10).display_name == "MAP@10"


def test_rela_impr__of_each_name_requested__is_its_own() -> None:
    given = "GAUC(weight='impressions', single_class=None)"
    result = evaluate(["GAUC", given], score=["old", "new"])
    for name in ("GAUC", given):
        by_hand = fe.rela_impr(alone(name, "old"), alone(name, "new"))
        assert result.rela_impr(name, "old", "new") == pytest.approx(by_hand, nan_ok=True)


def test_report__names_that_are_texts_of_others__says_which_line_is_which() -> None:
    wanted = "nDCG is nDCG(gain='linear', negative='keep', ideal='retrieved')"
    for text in (repr(evaluate(["nDCG", ALL_GIVEN])), repr(compare(["nDCG", ALL_GIVEN]))):
        assert "requested: " in text
        assert wanted in text
        assert f"{ALL_GIVEN} is nDCG" in text
    assert "requested:" not in repr(evaluate("nDCG"))


def write_night(day: str, log: dict[str, Any]) -> None:
    with Path(f"2026-11-{day}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([log, *zip(*log.values(), strict=True)])


CONFIG = """
title = "Names"
[source]
path = "{date}.csv"
[columns]
group = "q"
label = "label"
[models]
scores = ["old", "new"]
baseline = "old"
[output]
folder = "pages"
"""


@pytest.mark.usefixtures("own_folder")
def test_nightly__gates_on_each_name__do_not_depend_on_the_other() -> None:
    write_night("19", LOG)
    order = [ALL_GIVEN, "nDCG"]
    between = (alone("nDCG") + alone(ALL_GIVEN)) / 2
    sign = "<" if alone("nDCG") < between else ">"
    gates = json.dumps([f"old:{name} {sign} {between}" for name in ("nDCG", ALL_GIVEN)])
    chosen = f'[evaluate]\nmeasures = {json.dumps(order)}\nprofile = "catboost"\n'
    Path("nightly.toml").write_text(f"{CONFIG}{chosen}[gates]\nfail_if = {gates}\n")
    found = nightly("nightly.toml", "--date", "2026-11-19")
    assert found.exit_code in (1, 3), found.output
    (night,) = kept()
    assert [gate.passed for gate in night.gates] == [False, True]
    requested = night.conventions["requested"]
    values = {value.measure: value.value for value in night.values if value.score == "old"}
    assert isinstance(requested, dict)
    assert {name: values[requested[name]] for name in order} == {n: alone(n) for n in order}


def test_curve__other_tools_names__are_choices_and_measures_are_canonical() -> None:
    columns: dict[str, Any] = {"group": "q", "label": "label", "score": "old"}
    curve = fe.curve("k", LOG, measure=[fe.NDCG, "HR"], cutoffs=[1, 2], **columns)
    assert curve.choices["measure"] == "NDCG,HR"
    assert set(curve.records().column("measure").to_pylist()) == {"nDCG", "Success"}
    assert lightgbm_metric("MAP", sizes=[3]).name == "MAP"


NAMED = """
[evaluate]
measures = ["MAP@2", "NDCG", "AP"]
[slices]
by = ["q"]
min_groups = 1
[gates]
fail_if = ["MAP@2 < 2", "map_cut_2[q=3] < 2"]
fail_if_yesterday = ["NDCG value < 2"]
"""


@pytest.mark.usefixtures("own_folder")
def test_nightly__other_tools_names__are_shown_and_kept_beside_the_text() -> None:
    # The second of two classes differs between the nights: a change is found.
    for day, score in (("18", LOG["old"]), ("19", LOG["new"])):
        write_night(day, {**LOG, "old": score})
    config = Path("nightly.toml")
    config.write_text(CONFIG + NAMED)
    nightly("nightly.toml", "--date", "2026-11-18", "--quiet")
    last = ("nightly.toml", "--date", "2026-11-19")
    found = nightly(*last, "--json", "summary.json", "--markdown")
    assert found.exit_code == 3, found.output
    page, _, made = Path("pages/2026-11-19.html").read_text().partition('id="made"')
    assert "AP@2: MAP@2" in made
    client = Client(web_view(HistoryFile("history.db", 0)))
    nights = "first=2026-11-18&second=2026-11-19"
    addresses = ("/", f"/compare?{nights}", "/slice?slice=q%3D3&measure=AP%402")
    shown = [re.sub('href="[^"]*"', "", client.get(address).text) for address in addresses]
    for text in (found.stdout.replace("\\", ""), page, *shown):
        assert "MAP@2" in text
        assert not re.search("(?<!M)AP@2|nDCG", text)
    (night,) = json.loads(Path("summary.json").read_text())["nights"]
    names = {"AP@2": "MAP@2", "nDCG": "NDCG", "AP": "AP"}
    assert {v["measure"]: v["name"] for v in night["headline"]} == names
    assert {one["measure"]: one["name"] for one in night["findings"]}.items() <= names.items()
    assert [gate["condition"] for gate in night["gates"]][:2] == ["MAP@2 < 2", "map_cut_2[q=3] < 2"]
    # A night that asks by another name is compared with the others, and shows its own.
    config.write_text(CONFIG + NAMED.replace('"NDCG", "AP"', '"nDCG", "AP"'))
    (night,) = json.loads(nightly(*last, "--json", "-").stdout)["nights"]
    assert night["headline"][1]["name"] == "nDCG"
    assert night["headline"][1]["yesterday"] is not None
    # An error of the configuration names the measures as it does.
    config.write_text(CONFIG + NAMED.replace("MAP@2 < 2", "RECALL < 2"))
    assert "RECALL is none of the measures MAP@2, NDCG, AP" in nightly(*last).stderr


test_answers = answers(globals())
