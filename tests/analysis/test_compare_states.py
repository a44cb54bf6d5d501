"""Comparisons from saved states: those of one run over all rows, and of two states by key."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine.state_file import is_state
from fastrank_eval.results.compare_tests import NEED_GROUPS
from tests.support.click_logs import MODELS, evaluate, log_of_slices
from tests.support.click_logs import compare as compare_rows
from tests.support.commands import output, run
from tests.support.transcripts import answers

OF_GROUPS = "GAUC,AP,P@3,GMAP,NumRelRet"
POOLED = "LogLoss,NE,PCOC,PPV,KS,ECE(bins=4),AUC(se='clustered')"
BY = ["slot", "country,slot", "@rows:1,4", "age:20,30"]


LOG = pa.table(log_of_slices())


def parts(log: pa.Table, number: int = 3) -> list[pa.Table]:
    """Whole groups dealt to some tables."""
    user = log["user"].to_numpy()
    return [log.filter(pa.array(user * 7 % number == part)) for part in range(number)]


def state_of(log: pa.Table, measures: str, keep: bool = False, **options: Any) -> fe.State:
    given = {"score": MODELS, "baseline": "old", "keep": "groups" if keep else "state", **options}
    return evaluate(log, given.pop("score"), measures, **given).state


def merged(log: pa.Table, folder: Path, measures: str, keep: bool = False, **options: Any):
    """The state of all rows by way of files, one a part."""
    states = []
    for number, table in enumerate(parts(log)):
        state_of(table, measures, keep, **options).save(folder / f"{number}")
        states.append(fe.load_state(folder / f"{number}"))
    return states[2].merge(*states[:2])


def compare(log: pa.Table, measures: str, **options: Any) -> fe.Comparison:
    return compare_rows(log, measures, MODELS, **options)


def same(one: fe.Comparison, other: fe.Comparison) -> None:
    assert len(one.values) == len(other.values)
    for mine, theirs in zip(one.values, other.values, strict=True):
        assert repr(mine) == repr(theirs)
    assert [repr(v) for v in one.evaluated] == [repr(v) for v in other.evaluated]
    for name in ("baseline", "test", "correction", "replicates", "seed", "confidence"):
        assert one.meta.conventions[name] == other.meta.conventions[name]


@pytest.mark.parametrize("weight", [None, "weight"])
def test_merged_states__compare_as_one_run_does_to_the_last_bit(tmp_path, weight) -> None:
    measures = f"{OF_GROUPS},{POOLED}"
    if weight:
        measures = "GAUC,LogLoss,PCOC,PPV,AUC(se='clustered')"
    state = merged(LOG, tmp_path, measures, by=BY, weight=weight)
    once = compare(LOG, measures, by=BY, weight=weight)
    same(state.compare(), once)
    assert sum(line.slice != "all" and line.se > 0 for line in once) > 20


@pytest.mark.parametrize("choices", [
    {"test": "clustered_z", "correction": "bh", "confidence": 0.8},
    {"correction": "none", "min_groups": 70},
])  # fmt: skip
def test_choices__are_those_asked_for(tmp_path, choices) -> None:
    state = merged(LOG, tmp_path, OF_GROUPS, by="country")
    found = state.compare(**choices)
    same(found, compare(LOG, OF_GROUPS, by="country", **choices))
    assert repr(found.values) != repr(state.compare().values)


@pytest.mark.parametrize("test", NEED_GROUPS)
def test_tests_of_groups__read_those_that_were_kept(tmp_path, test) -> None:
    state = merged(LOG, tmp_path, OF_GROUPS, keep=True, by="slot")
    choices = {"test": test, "replicates": 200, "seed": 4}
    found, once = state.compare(**choices), compare(LOG, OF_GROUPS, by="slot", **choices)
    same(found, once)
    order = [("user", "ascending")]
    assert found.per_group.sort_by(order).equals(once.per_group.sort_by(order))
    assert found.largest_changes("GAUC", "new").equals(once.largest_changes("GAUC", "new"))


def test_another_baseline__is_compared_by_groups() -> None:
    state = state_of(LOG, OF_GROUPS, keep=True)
    found = state.compare(baseline="new", test="bootstrap", replicates=100)
    once = compare(LOG, OF_GROUPS, baseline="new", test="bootstrap", replicates=100)
    same(found, once)
    assert found.scores == ("old", "newer")


def test_groups_of_two_states_that_do_not_match__are_counted() -> None:
    first, second, third = parts(LOG)
    base = state_of(pa.concat_tables([first, second]), "GAUC", keep=True)
    short = third.filter(pa.array(np.arange(third.num_rows) > 0))
    other = state_of(pa.concat_tables([second, short]), "GAUC", keep=True, score="new",
                     baseline=None)  # fmt: skip
    users = [set(table["user"].to_pylist()) for table in (first, second, short)]
    found = base.compare(other)
    assert (found.baseline, found.scores) == ("old", ("new",))
    assert found.joined == {
        "both": len(users[1]),
        "only_base": len(users[0]),
        "only_candidate": len(users[2]),
        "rows_differ": 0,
    }
    with pytest.raises(ArgumentError, match="must be one of the score columns"):
        base.compare(other, baseline="last")


def test_two_states__of_other_confidence_take_that_of_the_first() -> None:
    base = state_of(LOG, "GAUC", keep=True, confidence=0.5)
    other = state_of(LOG, "GAUC", keep=True, confidence=0.9)
    assert base.compare(other).meta.conventions["confidence"] == 0.5
    assert base.compare(other, confidence=0.7).meta.conventions["confidence"] == 0.7


def test_two_states_without_keys_or_with_cut_groups__are_refused() -> None:
    whole = state_of(LOG, "GAUC", keep=True)
    with pytest.raises(ArgumentError, match="has no keys of groups"):
        whole.compare(whole.without_groups())
    even = np.arange(LOG.num_rows) % 2 == 0
    cut = state_of(LOG.filter(pa.array(even)), "GAUC", keep=True).merge(
        state_of(LOG.filter(pa.array(~even)), "GAUC", keep=True), allow_crossing=True
    )
    assert cut.groups > whole.groups
    with pytest.raises(ArgumentError, match="merged in parts"):
        whole.compare(cut)


ROWS = ["-g", "user", "-l", "click", "-m", "GAUC,AP,LogLoss", "--by", "country"]


def write_nights() -> list[str]:
    """Three nights with their states, and all their rows in one file."""
    parquet.write_table(LOG, "all.parquet")
    for night, table in enumerate(parts(LOG)):
        state_of(table, "GAUC,AP,LogLoss", by="country").save(f"{night}.state")
    return [f"{night}.state" for night in range(3)]


@pytest.fixture
def nights(own_folder) -> list[str]:
    return write_nights()


def write_models() -> list[str]:
    """Two models, each with its state."""
    parquet.write_table(LOG, "all.parquet")
    for name in ("old", "new"):
        state_of(LOG, "GAUC,AP", keep=True, score=name, baseline=None).save(f"{name}.state")
    return ["old.state", "new.state"]


@pytest.fixture
def models(own_folder) -> list[str]:
    return write_models()


def refused(*words: str) -> str:
    """Return the error of a command that fails."""
    outcome = run(*words)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    return outcome.stderr.rstrip()


@pytest.mark.parametrize("choices", [[], ["--correction", "bh", "--test", "clustered_z"]])
def test_merge_compare__prints_the_comparison_of_one_run(nights, choices) -> None:
    once = run("compare", "all.parquet", *ROWS, "-s", ",".join(MODELS), "-b", "old", *choices,
               "-f", "json", "--largest-changes", "0")  # fmt: skip
    merged = run("merge", *nights, "--compare", *choices, "-f", "json")
    assert (merged.exit_code, merged.stderr) == (0, "")
    assert json.loads(merged.stdout)["comparisons"] == json.loads(once.stdout)["comparisons"]
    output("merge", *nights, "--save-state", "week.state", "-q")
    again = output("compare", "week.state", *choices, "-f", "json")
    assert json.loads(again)["comparisons"] == json.loads(once.stdout)["comparisons"]
    assert "candidates against old" in output("compare", "week.state")
    assert "candidates against old" not in output("merge", *nights, "--compare", "--wide")


def test_merge_compare__gates_and_outputs(nights) -> None:
    outcome = run("merge", *nights, "--compare", "-o", "report.md", "--fail-if",
                  "newer:GAUC[country=fr] delta > -1")  # fmt: skip
    assert outcome.exit_code == 3
    assert "gate failed: newer:GAUC[country=fr] delta > -1" in outcome.stderr
    assert "newer is better" in Path("report.md").read_text(encoding="utf-8")
    assert run("merge", *nights, "--compare", "--fail-if", "GAUC delta < -1").exit_code == 0
    assert run("merge", *nights, "--fail-if", "GAUC delta < -1").exit_code == 3


@pytest.mark.parametrize("choices", [[], ["--test", "wilcoxon"], ["--confidence", "0.5"]])
def test_compare__two_states__is_as_of_rows(models, choices) -> None:
    found = run("compare", *models, *choices, "-f", "json", "--per-group", "groups.csv")
    assert (found.exit_code, found.stderr) == (0, "wrote groups.csv\n")
    once = run("compare", "all.parquet", "-g", "user", "-l", "click", "-s", "old,new", "-b", "old",
               "-m", "GAUC,AP", *choices, "-f", "json")  # fmt: skip
    assert json.loads(found.stdout)["comparisons"] == json.loads(once.stdout)["comparisons"]
    assert json.loads(found.stdout)["joined"]["both"] == 150


def test_compare__two_states__gates(models) -> None:
    assert run("compare", *models, "--fail-if", "GAUC delta < -1").exit_code == 0
    outcome = run("compare", *models, "--fail-if", "GAUC delta > -1")
    assert outcome.exit_code == 3
    assert "gate failed: GAUC delta > -1: new" in outcome.stderr
    outcome = run("compare", *models, "--fail-if", "AUC delta > -1")
    assert (outcome.exit_code, outcome.stdout) == (2, "")


def test_compare__damaged_state__is_refused_as_such(models) -> None:
    content = Path("old.state").read_bytes()
    Path("old.state").write_bytes(content[:-100])
    outcome = run("compare", *models)
    assert outcome.exit_code == 2
    assert "damaged" in outcome.stderr


def test_is_state__tells_states_from_other_files(models) -> None:
    with pa.ipc.new_file("rows.arrow", LOG.schema) as file:
        file.write_table(LOG)
    Path("empty").touch()
    assert [is_state(path) for path in models] == [True, True]
    assert not any(map(is_state, ["rows.arrow", "all.parquet", "empty", ".", "missing", "-"]))


test_answers = answers(globals())
