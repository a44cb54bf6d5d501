"""Several data sets in one call: means, their errors, ranks, files of MTEB."""

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fastrank_eval as fe
from fastrank_eval import trec

Pair = tuple[dict[str, dict[str, int]], dict[str, dict[str, dict[str, float]]]]


def made(seed: int, queries: int, systems: dict[str, float], docs: int = 6) -> Pair:
    """Judgements and runs; the higher the number of a system, the better it is."""
    random = np.random.default_rng(seed)
    qrels = {
        f"q{i}": {f"d{j}": int(random.integers(0, 3)) for j in range(docs)} | {"d": 1}
        for i in range(queries)
    }
    runs = {
        name: {
            query: {doc: float(random.normal() + better * grade) for doc, grade in own.items()}
            for query, own in qrels.items()
        }
        for name, better in systems.items()
    }
    return qrels, runs


SYSTEMS = {"bm25": 0.0, "dense/e5": 0.4, "ours": 0.8}
SETS = {"scifact": made(1, 12, SYSTEMS), "nq": made(2, 30, SYSTEMS), "a,b": made(3, 7, SYSTEMS)}
MEASURES = "nDCG@5,AP,NumRelRet"


@pytest.fixture(scope="module")
def found() -> trec.Benchmark:
    result = trec.evaluate(SETS, measures=MEASURES)
    assert isinstance(result, trec.Benchmark)
    return result


def test_benchmark__has_the_result_of_each_data_set(found):
    assert list(found.results) == list(SETS)
    for name, (qrels, runs) in SETS.items():
        alone = trec.evaluate(qrels, runs, MEASURES)
        assert found[name].records() == alone.records()
        label = 'dataset="a,b"' if name == "a,b" else f"dataset={name}"
        for measure in MEASURES.split(","):
            for system in SYSTEMS:
                assert found.value(measure, system, slice=label) == alone.value(measure, system)
                assert found.interval(measure, system, slice=label) == alone.interval(
                    measure, system
                )


def by_hand(parts: list[tuple[float, float]], confidence: float = 0.95) -> tuple[float, float]:
    """Half of the interval of a mean and its error, from errors and degrees of freedom."""
    se = math.sqrt(math.fsum(se**2 for se, _ in parts)) / len(parts)
    fourth = math.fsum(se**4 / degrees for se, degrees in parts)
    degrees = math.fsum(se**2 for se, _ in parts) ** 2 / fourth
    return float(stats.t.ppf((1 + confidence) / 2, degrees)) * se, se


def test_mean__is_that_of_data_sets_with_satterthwaites_interval(found):
    for system in SYSTEMS:
        for measure in ("nDCG@5", "AP"):
            values = {
                v.slice: v for v in found if (v.score, v.name or v.measure) == (system, measure)
            }
            own = [values.pop("all")]
            own += values.values()
            assert own[0].value == pytest.approx(np.mean([v.value for v in own[1:]]), abs=1e-15)
            half, se = by_hand([(v.se, v.effective_groups - 1) for v in own[1:]])
            assert own[0].se == pytest.approx(se, rel=1e-12)
            assert own[0].ci_high - own[0].value == pytest.approx(half, rel=1e-9)
            assert own[0].groups == own[0].groups_used == 49


def test_sum__is_that_of_all_data_sets(found):
    value = next(v for v in found if v.measure == "NumRelRet" and v.score == "ours")
    queries = np.concatenate([found[name]["ours", "NumRelRet"] for name in SETS])
    assert value.value == queries.sum()
    variance = sum(
        len(own) * own.var(ddof=1) for own in (found[name]["ours", "NumRelRet"] for name in SETS)
    )
    assert value.se == pytest.approx(math.sqrt(variance), rel=1e-12)
    assert found.meta.conventions["all"] == "mean or sum of data sets"


def test_compare__has_the_error_of_paired_differences_by_data_set(found):
    comparison = found.compare(baseline="bm25")
    for system in ("dense/e5", "ours"):
        for measure in ("nDCG@5", "AP"):
            own = comparison.find(measure, system)
            parts = [found[name].compare(baseline="bm25").find(measure, system) for name in SETS]
            assert own.delta == pytest.approx(np.mean([part.delta for part in parts]), abs=1e-15)
            half, se = by_hand([(part.se, part.degrees) for part in parts])
            assert own.se == pytest.approx(se, rel=1e-12)
            assert own.ci_high - own.delta == pytest.approx(half, rel=1e-9)
            assert own.wins == sum(part.wins for part in parts)
            of_slice = comparison.find(measure, system, "dataset=nq")
            assert (of_slice.delta, of_slice.se) == (parts[1].delta, parts[1].se)
    changes = comparison.largest_changes("AP", "ours", 49).to_pydict()["contribution"]
    assert sum(changes) == pytest.approx(comparison.find("AP", "ours").delta, abs=1e-12)
    within = comparison.decomposition("AP", "ours")
    assert within.within == pytest.approx(comparison.find("AP", "ours").delta, abs=1e-12)


def test_compare__takes_the_baseline_of_the_evaluation(found):
    paired = trec.evaluate(SETS, measures="AP,AUC", baseline="bm25").compare()
    ours = paired.find("AP", "ours")
    assert (ours.delta, ours.se) == pytest.approx(
        (lambda v: (v.delta, v.se))(found.compare(baseline="bm25").find("AP", "ours")), rel=1e-12
    )
    assert paired.find("AUC", "ours").se > 0
    unpaired = trec.evaluate(SETS, measures="AUC,AP").compare(baseline="bm25").find("AUC", "ours")
    assert math.isnan(unpaired.se)
    assert unpaired.warning == "not_paired"


@pytest.mark.parametrize("lacking", ["bm25", "ours"])
def test_baseline__of_a_data_set_without_two_systems__has_no_difference_there(lacking):
    qrels, runs = SETS["nq"]
    sets = {"nq": (qrels, {n: runs[n] for n in ("bm25", "ours") if n != lacking})}
    sets |= {name: SETS[name] for name in ("scifact", "a,b")}
    paired = trec.evaluate(sets, measures="AP,AUC", baseline="bm25")
    assert f"{lacking}: no run for nq, so no mean" in repr(paired)
    found = paired.compare()
    whole = trec.evaluate(SETS, measures="AP,AUC", baseline="bm25").compare()
    for measure in ("AP", "AUC"):
        for label in ("dataset=nq", "all"):
            value = found.find(measure, "ours", label)
            assert math.isnan(value.delta)
            assert math.isnan(value.p_value)
        one, two = (each.find(measure, "ours", "dataset=scifact") for each in (found, whole))
        assert (one.delta, one.se) == (two.delta, two.se)
        assert one.se > 0
    with pytest.raises(fe.ArgumentError, match=r"^data set 'nq': baseline: must be one of"):
        trec.evaluate(sets, measures="AP", baseline="bm52")


@pytest.mark.slow("400 benchmarks are evaluated")
def test_interval__of_the_mean_covers_it_in_19_of_20_draws():
    """Data sets of other sizes, means and spreads; a pooled mean would be off."""
    random, inside, draws = np.random.default_rng(7), 0, 400
    shapes = [(12, 2), (60, 9), (25, 4)]
    truth = np.mean([np.mean(1 / np.arange(1, most + 1)) for _, most in shapes])
    for _ in range(draws):
        sets = {}
        for at, (queries, most) in enumerate(shapes):
            ranks = random.integers(1, most + 1, queries)
            others = {f"d{j}": -float(j) for j in range(1, most)}
            run = {f"q{i}": others | {"rel": 0.5 - rank} for i, rank in enumerate(ranks)}
            sets[f"s{at}"] = ({query: {"rel": 1} for query in run}, run)
        low, high = trec.evaluate(sets, measures="RR").interval("RR")
        inside += bool(low <= truth <= high)
    assert 0.92 <= inside / draws <= 0.98


def test_equal_systems__are_no_difference_in_the_mean_too():
    qrels, runs = SETS["nq"]
    twins = {name: (qrels, {"a": runs["ours"], "b": runs["ours"]}) for name in ("x", "y")}
    value = trec.evaluate(twins, measures="AP").compare(baseline="a").find("AP")
    assert (value.delta, value.se, value.p_value, value.warning) == (0, 0, 1, "no_difference")
    mixed = twins | {"z": (qrels, {"a": runs["bm25"], "b": runs["ours"]})}
    found = trec.evaluate(mixed, measures="AP").compare(baseline="a")
    value, part = found.find("AP"), found.find("AP", slice="dataset=z")
    assert value.se == pytest.approx(part.se / 3, rel=1e-12)
    assert value.degrees == pytest.approx(part.degrees, rel=1e-9)


def test_constant_difference__has_no_error_in_the_mean():
    qrels = {f"q{i}": {"a": 1} for i in range(5)}
    runs = {
        "up": {query: {"a": 2.0, "b": 1.0} for query in qrels},
        "down": {query: {"a": 1.0, "b": 2.0} for query in qrels},
    }
    found = trec.evaluate(
        {"flat": (qrels, runs), "nq": made(4, 9, {"up": 1, "down": 0})}, None, "RR"
    )
    assert math.isnan(found.interval("RR", "up")[0])
    value = found.compare(baseline="down").find("RR")
    assert math.isnan(value.se)
    assert math.isnan(value.p_value)
    assert value.warning == "no_variance"


def test_system_without_a_run__has_no_mean_and_says_why():
    qrels, runs = SETS["nq"]
    sets = SETS | {"nq": (qrels, {name: run for name, run in runs.items() if name != "ours"})}
    found = trec.evaluate(sets, measures="AP")
    assert math.isnan(found.value("AP", "ours"))
    missing = next(v for v in found if (v.score, v.slice) == ("ours", "dataset=nq"))
    assert (missing.groups_used, missing.dropped) == (0, {"no_run": 30})
    whole = next(v for v in found if (v.score, v.slice) == ("ours", "all"))
    assert (whole.groups, whole.groups_used, whole.dropped) == (49, 19, {"no_run": 30})
    assert 0 < whole.positives_share < 1
    assert "ours: no run for nq, so no mean" in repr(found)
    assert "count groups without a value" not in repr(found)
    comparison = found.compare(baseline="bm25")
    assert comparison.find("AP", "ours").verdict.startswith("not compared")
    assert comparison.find("AP", "ours", "dataset=scifact").se > 0
    against = found.compare(baseline="ours")
    assert math.isnan(against.find("AP", "bm25").delta)


def borda_of_pandas(values: dict[str, dict[str, float]]) -> dict[str, int]:
    """MTEB's own: points by average ranks, then the least rank of equal sums."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(values).T
    points = (len(table) - table.rank(method="average", ascending=False)).sum(axis=1)
    ranks = points.rank(method="min", ascending=False).astype(int)
    return {str(name): int(rank) for name, rank in ranks.items()}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=4, max_size=4).filter(any),
        min_size=1,
        max_size=4,
    )
)
def test_borda__is_mtebs(places):
    """Ranks of the relevant document of four systems in each data set; None: no run."""
    names = ["a", "b", "c", "d"]
    sets: dict[str, Any] = {}
    values: dict[str, dict[str, float]] = {name: {} for name in names}
    for at, ranks in enumerate(places):
        runs = {
            name: {"q": {"rel": -float(rank), "x": -1.5, "y": -2.5}}
            for name, rank in zip(names, ranks, strict=True)
            if rank
        }
        sets[f"s{at}"] = ({"q": {"rel": 1}}, runs)
        for name, rank in zip(names, ranks, strict=True):
            values[name][f"s{at}"] = 1 / rank if rank else math.nan
    found = trec.evaluate(sets, measures="RR")
    ranks = found.borda("RR")
    assert ranks == borda_of_pandas({name: values[name] for name in found.scores})
    assert found.document()["borda"] == {"RR": ranks}


def test_borda__of_a_measure_of_errors_ranks_low_values_first():
    sets = {"x": made(1, 4, {"a": 0, "b": 3})}
    found = trec.evaluate(sets, measures="Unjudged@3,AP", profile=None)
    assert found.borda("AP") == {"a": 2, "b": 1}
    assert found.borda("Unjudged@3") == {"a": 1, "b": 1}


def test_files_of_mteb__have_its_form(tmp_path):
    found = trec.evaluate(SETS | {"a,b": SETS["nq"]}, None, "ndcg_at_5,map_at_10", profile="mteb")
    with pytest.raises(fe.ArgumentError, match="got 'a,b'; rename"):
        found.write_mteb(tmp_path)
    sets = {name: SETS[name] for name in ("scifact", "nq")}
    found = trec.evaluate(sets, None, "ndcg_at_5,map_at_10,hit_rate_at_1", profile="mteb")
    paths = found.write_mteb(tmp_path / "results", split="dev", subset="en")
    assert len(paths) == 6
    path = tmp_path / "results" / "dense__e5" / "no_revision_available" / "nq.json"
    content = json.loads(path.read_text())
    (scores,) = content["scores"]["dev"]
    value = found["nq"].value("ndcg_at_5", "dense/e5")
    assert scores["ndcg_at_5"] == scores["main_score"] == value
    assert scores["hit_rate_at_1"] == found["nq"].value("Success@1", "dense/e5")
    assert (scores["hf_subset"], scores["languages"], content["task_name"]) == ("en", [], "nq")
    assert content["mteb_version"] is None
    with pytest.raises(fe.OutputError, match="exists"):
        found.write_mteb(tmp_path / "results")
    assert found.write_mteb(tmp_path / "results", overwrite=True) == paths


@pytest.mark.parametrize(
    "measures,options,problem",
    [
        ("ndcg_at_5", {}, "profile: must be 'mteb'"),
        ("ndcg_at_5", {"profile": "mteb", "level": 2}, "level: must be 1"),
        ("nDCG", {"profile": "mteb"}, "measures: must be measures that MTEB writes"),
        ("bpref", {"profile": "mteb"}, "measures: must be measures that MTEB writes"),
    ],
)
def test_files_of_mteb__have_no_other_numbers(tmp_path, measures, options, problem):
    found = trec.evaluate({"nq": SETS["nq"]}, None, measures, **options)
    with pytest.raises(fe.FastRankEvalError, match=problem):
        found.write_mteb(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "sets,problem",
    [
        ({}, "qrels: must have data sets"),
        ({"q1": {"d1": 1}}, "run: must be given"),
        ({"nq": (SETS["nq"][0],)}, "run: must be given"),
        (b"q1 0 d1 1", "run: must be given"),
        ({"nq": SETS["nq"], "bad": ({"x": {"d": 1}}, {"y": {"d": 1.0}})}, "data set 'bad': run"),
        ({1: SETS["nq"], "1": SETS["nq"]}, "must have data sets of different names, got '1' twice"),
    ],
)
def test_evaluate__refuses_what_are_no_data_sets(sets, problem):
    with pytest.raises(fe.ArgumentError, match=problem):
        trec.evaluate(sets, measures="AP")


def test_errors_of_a_data_set__keep_their_class_and_say_which():
    with pytest.raises(fe.ColumnError, match=r"data set 'nq': score column 'bm25' .*row 0 "):
        trec.evaluate({"nq": SETS["nq"]}, measures="LogLoss")
    with pytest.raises(fe.ArgumentError, match=r"data set 'nq': run: .*, got a list of int\."):
        trec.evaluate({"nq": (SETS["nq"][0], [1, 2])}, measures="AP")
    told = r"confidence: .*, got None; pass 0\.95, for instance, or leave it out\.$"
    with pytest.raises(fe.ArgumentError, match=told):
        trec.evaluate(SETS, measures="AP", confidence=None)


def test_gains__that_are_one_measure_for_a_data_set_are_refused():
    """Of two data sets each would have another number of measures."""
    sets = {"x": ({"q": {"a": 1}}, {"q": {"a": 1.0}}), "y": ({"q": {"a": 2}}, {"q": {"a": 1.0}})}
    measures = ["nDCG(gain={2: 5})", "nDCG(gain={1: 1, 2: 5})"]
    assert trec.evaluate({"y": sets["y"]}, measures=measures).value(measures[1]) == 1
    with pytest.raises(fe.MeasureError, match="data set 'x': measures: must have different gains"):
        trec.evaluate(sets, measures=measures)


def test_notes__name_the_data_set_of_rows_once():
    graded = {"q": {"a": -1, "b": 1}}, {"q": {"a": 1.0}}
    notes = trec.evaluate({"x": graded, "nq": SETS["nq"]}, measures="nDCG").document()["meta"]
    assert [note for note in notes["notes"] if "negative grade" in note] == [
        "x: 1 row has a negative grade: gain 0; see `negative`"
    ]


def test_slices_of_data_sets__are_in_their_results_alone():
    found = trec.evaluate(SETS, measures="AP", by="query", min_groups=10)
    assert found.slices() == ("dataset=scifact", "dataset=nq", 'dataset="a,b"')
    assert "min_groups" not in found.meta.conventions
    assert "left out" not in repr(found)
    assert "slices are left out" in repr(found["nq"])


def test_slices_with_errors__are_not_said_to_have_none():
    comparison = trec.evaluate(SETS, measures="AUC,AP").compare(baseline="bm25")
    assert comparison.find("AP", "ours", "dataset=nq").se > 0
    assert "their differences have no error" not in repr(comparison)


def test_key__that_is_no_data_set__names_them(found):
    with pytest.raises(fe.MeasureError, match=r"Data sets: 'scifact', 'nq', 'a,b'\."):
        found["scifcat"]


def test_evaluate__with_measures_in_the_place_of_runs__says_where_they_go():
    with pytest.raises(fe.ArgumentError, match=r"run: must be left out .* measures='AP'\."):
        trec.evaluate(SETS, "AP")
    # Lists of two documents are judgements.
    run = b"q1 Q0 d2 1 1.0 x"
    value = trec.evaluate({"q1": ["d1", "d2"]}, run, "R@1").value("R@1")
    assert value == 0.5


def test_compare__refuses_what_it_cannot_answer(found):
    with pytest.raises(fe.ArgumentError, match="other: must be left out"):
        found.compare(found, baseline="bm25")
    with pytest.raises(fe.ArgumentError, match=r"got 'randomisation'; .*result\['scifact'\]"):
        found.compare(baseline="bm25", test="randomisation")
    with pytest.raises(fe.ArgumentError, match="baseline: must be one of"):
        found.compare()
    alone = trec.evaluate({"nq": ({"q": {"a": 1}}, {"q": {"a": 1.0}})}, measures="AP")
    with pytest.raises(fe.ArgumentError, match=r"several systems .*evaluate all runs together"):
        alone.compare(baseline="score")
    with pytest.raises(fe.ArgumentError, match=r"no state together; .*result\['scifact'\]\.state"):
        _ = found.state
    with pytest.raises(fe.ArgumentError, match=r"no scores together; .*\.score_table\('ours'\)"):
        found.score_table("ours")


def test_benchmark__in_every_form(found):
    text = repr(found)
    assert "mean or sum of data sets" in text
    assert "Borda rank" in text
    assert "nDCG@5 by dataset" in found.to_markdown()
    assert "dataset=scifact" in found.to_html()
    assert found.records().num_rows == 4 * 3 * 3
    assert found.per_group.column_names[:2] == ["dataset", "query"]
    assert found.per_group.num_rows == 49
    again = pickle.loads(pickle.dumps(found))  # noqa: S301 - of this test
    assert again.compare(baseline="bm25").records() == found.compare(baseline="bm25").records()
    assert found.check("AP[dataset=nq] < 0.01", "ours:AP < 0.01")
    kept = trec.evaluate(SETS, measures="AP", keep="state")
    assert not kept.keeps_groups
    assert math.isnan(kept.values[0].positives_share)
    assert kept.value("AP", "ours") == found.value("AP", "ours")
