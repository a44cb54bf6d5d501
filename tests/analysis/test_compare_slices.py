"""compare(by=...): a slice has the numbers of its rows alone; reports of slices."""

import re
from dataclasses import asdict

import numpy as np
import pytest

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.results.comparison import compared_slices
from tests.support.click_logs import MODELS, click_log, compare, evaluate, log_of_slices
from tests.support.commands import on_terminal

MEASURES = "GAUC,AP,P@3,GMAP,NumRelRet,AUC,LogLoss,NE,PCOC,KS,ECE(bins=4)"
WEIGHTED = "GAUC,AUC,LogLoss,PCOC"
#: What hangs on how many slices are tested together.
TOGETHER = {"by", "slice", "p_adjusted", "comparisons", "mdd", "verdict"}


@pytest.fixture(scope="module")
def log():
    return log_of_slices()


def alike(line) -> str:
    """What the line of a slice and that of its rows alone have in common, to the last bit."""
    return repr({name: value for name, value in asdict(line).items() if name not in TOGETHER})


@pytest.mark.parametrize("measures, weight", [(MEASURES, None), (WEIGHTED, "weight")])
def test_slices__are_what_their_rows_alone_come_to(log, measures, weight) -> None:
    found = compare(log, measures, MODELS, weight=weight, by=["slot", "country", "country,slot"])
    conditions = {
        **{f"slot={slot}": f"slot = {slot}" for slot in range(3)},
        **{f"country={name}": f"country = '{name}'" for name in ("de", "fr", "se")},
        "country=fr,slot=2": "country = 'fr' and slot = 2",
    }
    for part, condition in conditions.items():
        alone = compare(log, measures, MODELS, weight=weight, where=condition)
        mine = [line for line in found if line.slice == part]
        assert [alike(line) for line in mine] == [alike(line) for line in alone]
        assert all(line.se > 0 for line in mine if line.measure == "AUC(se='clustered')")
    assert found.find("GAUC", "new", "slot=1").wins > 0


@pytest.mark.parametrize("measures, weight", [(MEASURES, None), (WEIGHTED, "weight")])
def test_slices__have_the_same_bits_for_any_threads_batches_and_order(
    log, measures, weight
) -> None:
    options = {"weight": weight, "by": ["slot", "country"]}
    wanted = [repr(asdict(line)) for line in compare(log, measures, MODELS, **options, threads=1)]
    order = np.random.default_rng(1).permutation(len(log["user"]))
    shuffled = {name: column[order] for name, column in log.items()}
    for source, how in ((log, {"batch_rows": 211}), (shuffled, {"threads": 2, "batch_rows": 53})):
        found = compare(source, measures, MODELS, **options, **how)
        assert [repr(asdict(line)) for line in found] == wanted


def test_slicing__stands_beside_each_slice(log) -> None:
    found = compare(log, "GAUC,AP", MODELS, by=["slot", "country,slot"])
    assert found.records()["by"].to_pylist() == [None] * 4 + ["slot"] * 12 + ["country,slot"] * 36
    assert found.meta.conventions["by"] == ["slot", "country,slot"]


def test_a_label_of_two_slicings__is_of_each(log) -> None:
    found = compare(log, "GAUC", by=["age:18,25", "age:18,30"])
    young = [line for line in found if line.slice == "age<18"]
    assert [line.by for line in young] == ["age:18,25", "age:18,30"]
    assert alike(young[0]) == alike(young[1])


def test_min_groups__leaves_small_slices_out_of_the_correction_too(log) -> None:
    every = compare(log, "GAUC", by="age:1,2,40")
    some = compare(log, "GAUC", by="age:1,2,40", min_groups=4)
    assert [line.slice for line in every][1:] == ["age<1", "age=[1,2)", "age=[2,40)", "age>=40"]
    assert [line.slice for line in some][1:] == ["age=[2,40)", "age>=40"]
    assert [line.comparisons for line in some] == [1, 2, 2]
    assert some.meta.conventions["slices_left_out"] == 2
    assert "2 slices are left out, of fewer than 4 groups each" in repr(some)
    with pytest.raises(ArgumentError, match=r"'age<1' was not part"):
        some.find("GAUC", slice="age<1")


@pytest.fixture(scope="module")
def comparison():
    log = click_log(600, seed=3)
    log["slot"] = np.random.default_rng(0).integers(0, 3, len(log["user"]))
    log["country"] = np.array(["a country of a long name", "b"])[log["user"] % 40 // 39]
    log["worse"] = -log["newer"]
    measures = "GAUC,AP,RR,nDCG@10,P@3,GMAP,AUC,KS,GroupErrorRate(threshold=0)"
    return compare(log, measures, ["old", "newer", "worse"], by=["slot", "country"])


def test_marks__say_what_the_verdict_says_after_correction(comparison) -> None:
    seen = set()
    for score in comparison.scores:
        for table in compared_slices(comparison, [score]):
            for row in table.rows:
                if row[0] in ("within", "composition", "remainder"):
                    continue
                for measure, cell in zip(comparison.measures, row[2:], strict=True):
                    line = comparison.find(measure, score, row[0])
                    word = line.verdict.removeprefix(f"{score} is ").partition(":")[0]
                    mark = {"better": "▲", "worse": "▼"}.get(word, "")
                    assert cell.startswith(f"{mark} " if mark else ("+", "-", "0"))
                    assert bool(mark) == (line.p_adjusted <= 0.05)
                    seen.add(mark)
    assert seen == {"▲", "▼", ""}
    text = on_terminal(comparison.report(wide=True), 200)
    assert "* fewer than 40 effective groups: the interval is rough" in text


def test_parts_of_the_difference__stand_under_slices_that_cut_groups_alone(comparison) -> None:
    by_slot, by_country = compared_slices(comparison, ["newer"])
    assert [row[0] for row in by_slot.rows[4:]] == ["within", "remainder"]
    assert len(by_country.rows) == 3
    column = 2 + comparison.measures.index("GAUC")
    parts = comparison.decomposition("GAUC", "newer", "slot")
    within, remainder = (row[column] for row in by_slot.rows[4:])
    assert float(within) == pytest.approx(parts.within, abs=0.005)
    assert float(remainder) == pytest.approx(parts.remainder, abs=0.005)
    pooled = 2 + comparison.measures.index("KS")
    assert {row[pooled] for row in by_slot.rows[4:]} == {""}


def test_slices_of_results__have_differences_without_intervals(log) -> None:
    found = evaluate(log, ["old", "newer"], "AP", by="slot").compare(baseline="old")
    (table,) = compared_slices(found, ["newer"])
    assert [row[1] for row in table.rows[1:4]] == ["n/a"] * 3
    assert all(re.fullmatch(r"[+-][0-9.]+", row[2]) for row in table.rows[1:4])
    assert "slices of results are not paired" in repr(found)
