"""A comparison printed and judged by gates, in Python and by the command."""

import json
import math
import re

import pyarrow as pa
import pytest
from pyarrow import parquet

import fastrank_eval as fe
from fastrank_eval.apps.cli.compare import compare as command
from fastrank_eval.measures import measure
from fastrank_eval.results.compare_tests import TESTS
from fastrank_eval.results.differences import CLUSTER_SCHEMA, ComparedValue, verdict_on
from fastrank_eval.results.gates import COMPARISON_FIELDS
from tests.support.click_logs import MODELS, click_log, compare, evaluate
from tests.support.commands import output, run
from tests.support.transcripts import answers


@pytest.fixture(scope="module")
def log():
    found = click_log(300, seed=3)
    return found | {"slot": found["user"] % 2, "worse": -found["newer"]}


@pytest.fixture(scope="module")
def comparison(log) -> fe.Comparison:
    return compare(log, "GAUC,AUC,AP,KS", MODELS, by="slot")


# ---- for programs and people ---------------------------------------------------------------------


def test_json__is_strict_and_complete(comparison) -> None:
    text = comparison.to_json(largest_changes=3)
    found = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert text.isascii()
    assert [line["measure"] for line in found["comparisons"][:8]] == [*comparison.measures] * 2
    auc = found["comparisons"][1]
    # A document is of one label: of several, their names are keys beside it.
    left_out = {"label", *CLUSTER_SCHEMA.names}
    assert set(auc) == set(ComparedValue.__dataclass_fields__) - left_out
    assert (auc["measure"], auc["effect_size"], auc["wins"]) == ("AUC(se='clustered')", None, None)
    assert found["meta"]["conventions"]["seed"] is None
    assert len(found["largest_changes"]) == 12
    assert {move["measure"] for move in found["largest_changes"]} == {"GAUC"}
    assert "largest_changes" not in comparison.document()


def test_per_group__has_a_column_for_each_model_and_measure(comparison) -> None:
    names = comparison.per_group.column_names
    assert names[:4] == ["user", "rows", "positives", "old.GAUC"]
    assert len(names) == 3 + 3 * 2


def test_names_of_models__are_shown_as_text() -> None:
    name = "a|b`c\n*d*\x1b[31m"
    log = click_log(50)
    found = compare(log | {name: log["new"]}, "GAUC,AP,RR", ["old", name])
    text = found.to_markdown(largest_changes=2)
    header, *rows = [line.replace("\\|", "") for line in text.splitlines() if line[:2] == "| "]
    assert header.startswith("| measure | `old` | ``ab`c\\n*d*\\x1b[31m`` |")
    assert {row.count("|") for row in rows[:3]} == {header.count("|")}
    assert "\x1b" not in text + repr(found)


@pytest.mark.parametrize(
    "changes, name, said",
    [
        ({"delta": -0.0021, "value": 0.4979}, "LogLoss", "b is better: -0.00210 LogLoss, 95% CI"),
        ({"delta": 0.0021}, "PCOC", "b is higher: +0.00210 PCOC, 95% CI"),
        ({"delta": 0.0021}, "GAUC", "b is better: +0.00210 GAUC, 95% CI [+0.00130, +0.00290]"),
        ({"delta": 0.0021, "test": "randomisation"}, "GAUC",
         "b is better: +0.00210 GAUC, 95% CI (clustered) [+0.00130, +0.00290]; p 0.02 by "
         "randomisation"),
        ({"delta": 0.0021, "test": "sign"}, "GAUC",
         "mixed: b is worse in more groups than not (10 to 30), yet +0.00210 GAUC"),
        ({"delta": 0.0021, "p_adjusted": 0.3, "comparisons": 7, "mdd": 0.0012}, "GAUC",
         "not significant: +0.00210 GAUC, 95% CI [+0.00130, +0.00290]; p 0.3 among 7 "
         "comparisons; minimum detectable difference 0.00120 (80% power)"),
        ({"delta": math.nan, "value": math.nan}, "GAUC", "not compared: GAUC of b is undefined"),
    ],
)  # fmt: skip
def test_verdict__in_words(changes, name, said) -> None:
    given = {
        "value": 0.5021, "se": 0.0004, "ci_low": 0.0013, "ci_high": 0.0029, "p_value": 0.01,
        "p_adjusted": 0.02, "wins": 10, "ties": 5, "losses": 30, **changes,
    }  # fmt: skip
    line = ComparedValue("b", "a", "all", name, "mean", 0.5, relative=0.1, **given)
    assert verdict_on(line, measure(name), 0.95, "group").startswith(said)


def test_best__may_be_the_baseline_and_the_lowest(log) -> None:
    text = compare(log, "GAUC,GroupErrorRate(threshold=0)", ["old", "worse"]).to_markdown()
    for name in ("GAUC", "GroupErrorRate"):
        found = re.search(rf"^\| `{name}[^|]*\| ([^|]*) \| ([^|]*) \|", text, re.MULTILINE)
        assert [cell[:2] == "**" for cell in found.groups()] == [True, False]


def test_legend__without_slices_or_correction__is_shorter(log) -> None:
    found = compare(log, "GAUC", ["old", "worse"], correction="none", confidence=0.99)
    assert "▼ worse: significant (p <= 0.01); no mark: not significant" in repr(found)


# ---- gates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", COMPARISON_FIELDS)
def test_every_field_of_comparisons__is_read_of_the_named_candidate(comparison, field) -> None:
    line = comparison.find("GAUC", "newer")
    # A gate corrects its own p-values: here one.
    attribute = {"p_adjusted": "p_value"}.get(field, field.removeprefix("delta_"))
    number = getattr(line, attribute)
    assert not comparison.check(f"newer:GAUC {field} = {number!r}")
    assert comparison.check(f"newer:GAUC {field} != {number!r}")


@pytest.mark.parametrize("score", ["old", "new"])
def test_fields_of_values__are_those_of_each_model_alone(comparison, log, score) -> None:
    alone = evaluate(log, score, "GAUC", by="slot")
    for part, suffix in (("all", ""), ("slot=1", "[slot=1]")):
        (value,) = (v for v in alone if v.slice == part)
        for field in ("value", "se", "ci_low", "ci_high", "weight", "groups_used"):
            number = getattr(value, field)
            assert not comparison.check(f"{score}:GAUC{suffix} {field} = {number!r}")


def test_differences_of_no_named_model__are_those_of_every_candidate(comparison) -> None:
    failures = comparison.check("AP delta > -1").failures
    assert [(f.score, f.slice) for f in failures] == [("new", None), ("newer", None)]
    failures = comparison.check("AP[*] delta > -1").failures
    assert [(f.slice, f.score) for f in failures] == [
        (part, score) for part in ("slot=0", "slot=1") for score in ("new", "newer")
    ]
    assert [f.score for f in comparison.check("AP value > 0").failures] == MODELS
    assert comparison.check("GAUC delta < -0.5", "AUC delta_ci_low < -0.5")


# ---- the command ---------------------------------------------------------------------------------

OPTIONS = ["-g", "user", "-l", "click", "-s", "old,new", "-b", "old"]


@pytest.fixture
def words(log, own_folder) -> list[str]:
    parquet.write_table(pa.table(log), "log.parquet")
    return ["compare", "log.parquet", *OPTIONS]


def test_command__prints_the_comparison_and_the_groups_that_moved(words) -> None:
    text = output(*words)
    for part in ("new against old", "GAUC", "wins", "groups that changed GAUC most", "new: "):
        assert part in text
    assert "groups that changed" not in output(*words, "--largest-changes", "0")
    assert "groups that changed GAUC" in output(*words, "-f", "markdown", "--largest-changes", "2")


def test_command__writes_the_form_of_a_suffix_and_the_groups(words, own_folder) -> None:
    beginnings = {
        "md": "`new against old`\n\n| measure", "tex": r"% needs \usepackage{booktabs}",
        "html": "<!DOCTYPE html>", "csv": "score,",
    }  # fmt: skip
    for suffix, begins in beginnings.items():
        files = ["-o", f"report.{suffix}", "--per-group", f"{suffix}.csv"]
        outcome = run(*words, "-m", "GAUC", *files)
        assert (outcome.exit_code, outcome.stdout) == (0, "")
        text = (own_folder / f"report.{suffix}").read_text("utf-8")
        assert text.startswith(begins)
        assert "groups that changed" not in text
        assert "old.GAUC" in (own_folder / f"{suffix}.csv").read_text().partition("\n")[0]


def test_command__gate_that_fails__exits_with_3_and_reports_all_the_same(words) -> None:
    words = [*words, "-f", "json", "-q"]
    passed = run(*words, "--fail-if", "GAUC delta_ci_low < -0.9", "--fail-if", "AUC delta < -0.9")
    assert (passed.exit_code, passed.stderr) == (0, "")
    failed = run(*words, "--fail-if", "GAUC delta_ci_low > -0.9", "--fail-if", "AUC delta < -0.9")
    assert failed.exit_code == 3
    assert failed.stderr.startswith("gate failed: GAUC delta_ci_low > -0.9: new: -0.0")
    assert len(failed.stderr.splitlines()) == 1
    said = [json.loads(outcome.stdout)["comparisons"] for outcome in (passed, failed)]
    assert said[0] == said[1]


@pytest.mark.parametrize("profile", ["catboost", "sklearn"])
def test_command__measures_of_a_profile__are_known_by_what_was_asked_for(words, profile) -> None:
    gate = "AUC delta < -0.9 or nDCG delta < -0.9"
    output(*words, "-m", "AUC,nDCG", "--profile", profile, "--fail-if", gate)


def test_command__help__lists_every_test() -> None:
    assert "Examples:" in output("compare", "--help")
    choices = next(param for param in command.params if param.name == "test").type.choices
    assert tuple(choices) == TESTS


test_answers = answers(globals())
