"""The command line: what it prints, writes and refuses, and its help."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import ipc, parquet

import fastrank_eval.results.evaluate
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.measures import parse_measures, registry

COLUMNS = ["--group", "user", "--label", "click", "--score", "pctr"]
ROWS = {
    "user": [1, 1, 1, 2, 2, 3],
    "click": [1, 0, 0, 0, 1, 0],
    "pctr": [0.9, 0.5, 0.1, 0.8, 0.7, 0.3],
    "other": [0.1, 0.5, 0.9, 0.7, 0.8, 0.3],
}
GAUC = 3 / 5  # group 1: 1 over 3 rows; group 2: 0 over 2 rows; group 3 has no click


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    parquet.write_table(pa.table(ROWS), tmp_path / "log.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, **keywords: Any) -> Result:
    return CliRunner().invoke(cli, arguments, catch_exceptions=False, **keywords)


def values(outcome: Result) -> dict[tuple[str, str], float | None]:
    assert outcome.exit_code == 0, outcome.output
    report = json.loads(outcome.stdout)
    return {(line["score"], line["measure"]): line["value"] for line in report["results"]}


def evaluate(*arguments: str) -> dict[tuple[str, str], float | None]:
    return values(run("evaluate", *arguments, "--format", "json"))


def refused(*arguments: str) -> str:
    outcome = run("evaluate", *arguments)
    assert outcome.exit_code == 2, outcome.output
    assert outcome.stdout == ""
    lines = outcome.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


def test_no_group__of_measures_of_all_rows__is_not_needed(folder: Path) -> None:
    rows = ["log.parquet", "--label", "click", "--score", "pctr"]
    grouped = evaluate(*rows, "--group", "user", "-m", "AUC,PPV,LogLoss")
    assert evaluate(*rows, "-m", "AUC,PPV,LogLoss") == grouped
    report = run("evaluate", *rows, "-m", "AUC,LogLoss").stdout
    assert "6 rows, not grouped, " in report
    assert "no standard error without groups: LogLoss" in report
    curves = [run("curve", "roc", *rows, *group).stdout for group in ([], ["--group", "user"])]
    assert curves[0] == curves[1] != ""


def test_no_group__of_measures_of_groups__is_an_error_that_names_them(folder: Path) -> None:
    rows = ["log.parquet", "--label", "click", "--score", "pctr"]
    assert "GAUC, nDCG@10, AP, RR, P@10, R@10 need groups: pass --group, or leave" in refused(*rows)
    assert "per_group=True needs groups" in refused(*rows, "-m", "AUC", "--per-group", "x.csv")


# ---- what it prints ------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_evaluate__defaults__prints_the_default_measures() -> None:
    outcome = run("evaluate", "log.parquet", *COLUMNS)
    assert outcome.exit_code == 0
    for measure in parse_measures(DEFAULT_MEASURES):
        assert str(measure) in outcome.stdout
    for text in ("0.600000", "1 all_negative", "83.3%", "6 rows, 3 groups", "ties=expected"):
        assert text in outcome.stdout
    assert "\x1b" not in outcome.stdout


@pytest.mark.usefixtures("folder")
def test_evaluate__json__is_the_contract() -> None:
    outcome = run("evaluate", "log.parquet", *COLUMNS, "-m", "gauc", "-f", "json")
    report = json.loads(outcome.stdout)
    # Deviations of both groups, by weight: 3 (1 - 0.6) and 2 (0 - 0.6).
    error = report["results"][0].pop("se")
    assert error == pytest.approx((2 * (1.2**2 + 1.2**2)) ** 0.5 / 5, rel=1e-15)
    low, high = (report["results"][0].pop(end) for end in ("ci_low", "ci_high"))
    assert (high - low) / 2 / error == pytest.approx(12.7062047, abs=1e-6)
    effective = report["results"][0].pop("effective_groups")
    assert effective == pytest.approx(13**2 / 97, rel=1e-15)
    assert set(report["meta"]) == {"version", "rows", "groups", "conventions", "seconds"}
    assert report["results"] == [
        {"score": "pctr", "by": None, "slice": "all", "measure": "GAUC", "name": "gauc",
             "value": GAUC, "groups": 3,
         "caution": "few_groups", "weight": 5.0,
         "groups_used": 2, "dropped": {"all_negative": 1}, "rows_share": 5 / 6,
         "positives_share": 1.0, "aggregate": "mean", "details": {}}
    ]  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_evaluate__csv_and_markdown__carry_the_same_values() -> None:
    arguments = ("evaluate", "log.parquet", *COLUMNS, "--measures", "GAUC", "--format")
    (row,) = csv.DictReader(io.StringIO(run(*arguments, "csv").stdout))
    assert float(row["value"]) == GAUC
    assert "| `pctr` | `GAUC` | 0.600000 |" in run(*arguments, "markdown").stdout


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "scores", [["--score", "pctr,other"], ["-s", "pctr", "-s", "other"], ["-s", " pctr , other "]]
)
def test_evaluate__several_scores__commas_or_repeated(scores: list[str]) -> None:
    found = evaluate("log.parquet", "-g", "user", "-l", "click", *scores, "-m", "GAUC,AUC")
    assert list(found) == [("pctr", "GAUC"), ("pctr", "AUC"), ("other", "GAUC"), ("other", "AUC")]
    assert found["pctr", "GAUC"] == GAUC
    assert found["other", "GAUC"] == 2 / 5


def test_evaluate__name_with_a_comma__is_written_with_a_backslash(folder: Path) -> None:
    parquet.write_table(pa.table({**ROWS, "a,b": ROWS["pctr"]}), folder / "comma.parquet")
    found = evaluate("comma.parquet", *COLUMNS[:4], "-s", r"a\,b,other", "-m", "GAUC")
    assert found == {("a,b", "GAUC"): GAUC, ("other", "GAUC"): 2 / 5}


def test_evaluate__several_sources__are_read_in_order_as_one(folder: Path) -> None:
    table = pa.table(ROWS)
    parquet.write_table(table.slice(0, 4), folder / "part-1.parquet")
    parquet.write_table(table.slice(4), folder / "part-2.parquet")
    whole = evaluate("log.parquet", *COLUMNS)
    assert evaluate("part-1.parquet", "part-2.parquet", *COLUMNS) == whole
    assert evaluate("part-*.parquet", *COLUMNS) == whole


@pytest.mark.usefixtures("folder")
def test_evaluate__dash__reads_an_arrow_stream() -> None:
    sink = io.BytesIO()
    table = pa.table(ROWS)
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    outcome = run("evaluate", "-", *COLUMNS, "--format", "json", input=sink.getvalue())
    assert values(outcome) == evaluate("log.parquet", *COLUMNS)


def test_evaluate__empty_input__is_refused(folder: Path) -> None:
    parquet.write_table(pa.table(ROWS).slice(0, 0), folder / "empty.parquet")
    outcome = run("evaluate", "empty.parquet", *COLUMNS)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "SOURCES: must have rows, got none; name a file with some." in outcome.stderr


@pytest.fixture
def passed_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Everything that the command hands to evaluate()."""
    seen: dict[str, Any] = {}
    module = sys.modules["fastrank_eval.results.evaluate"]
    original: Callable[..., Any] = module.evaluate  # type: ignore[attr-defined]

    def record(source: object, **options: Any) -> Any:
        seen.update(options, source=source)
        plain = {"group": "user", "weight": None, "item": None, "subtopics": None}
        plain["ties"] = "expected"
        return original(source, **{**options, **plain})

    monkeypatch.setattr(module, "evaluate", record)
    return seen


@pytest.mark.usefixtures("folder")
def test_evaluate__every_option__reaches_the_engine(passed_on: dict[str, Any]) -> None:
    outcome = run(
        "evaluate", "log.parquet", *COLUMNS, "-g", "click", "--weight", "w", "--item", "i",
        "--subtopics", "c",
        "--ties", "item", "--undefined", "zero", "--groups", "with_relevant",
        "--unretrieved", "allow", "--unjudged", "drop", "--weight-rows", "ignore",
        "--nan", "null", "--null-groups", "drop",
        "--profile", "sklearn", "--score-type", "float32", "--sampling-rate", "0.5",
        "--confidence", "0.9", "--by", "other", "--by", "@rows:1,5", "--min-groups", "2",
        "--order", "grouped", "--threads", "2", "--where", "pctr > 0", "--limit", "5",
        "--input-format", "parquet", "--memory", "4GB",
        "--measures", "GAUC", "--measures", "P@1",
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    assert callable(passed_on.pop("progress"))
    assert passed_on == {
        "source": ["log.parquet"], "group": ["user", "click"], "label": "click", "score": ["pctr"],
        "measures": "GAUC,P@1", "weight": "w", "item": "i", "ties": "item", "undefined": "zero",
            "subtopics": "c",
        "groups": "with_relevant", "unretrieved": "allow", "unjudged": "drop",
        "nan": "null", "null_groups": "drop",
        "weight_rows": "ignore", "profile": "sklearn", "score_type": "float32",
        "sampling_rate": 0.5, "confidence": 0.9, "by": ("other", "@rows:1,5"), "min_groups": 2,
        "order": "grouped", "threads": 2,
        "where": "pctr > 0", "limit": 5, "format": "parquet",
        "per_group": False,
        "keep_state": False, "keep_groups": False, "baseline": None,
        "memory": "4GB",
    }  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_evaluate__where__evaluates_the_rows_it_selects() -> None:
    condition = "user in (1, 3) and pctr <> 0.9"
    outcome = run("evaluate", "log.parquet", *COLUMNS, "--where", condition, "--format", "json")
    report = json.loads(outcome.stdout)["meta"]
    assert (report["rows"], report["groups"]) == (3, 2)
    assert report["conventions"]["where"] == condition
    table = run("evaluate", "log.parquet", *COLUMNS, "--where", condition).stdout
    assert f"where={condition}" in " ".join(table.split())
    stream = io.BytesIO()
    with ipc.new_stream(stream, pa.table(ROWS).schema) as writer:
        writer.write_table(pa.table(ROWS))
    piped = run("evaluate", "-", *COLUMNS, "--where", condition, input=stream.getvalue())
    assert "3 rows, 2 groups" in piped.stdout


@pytest.mark.usefixtures("folder")
def test_evaluate__where__selects_nothing__is_refused() -> None:
    outcome = run("evaluate", "log.parquet", *COLUMNS, "--where", "user = 99")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "--where: must select rows, got none by 'user = 99'" in outcome.stderr


# ---- what it writes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, read",
    [
        ("groups.parquet", parquet.read_table),
        ("groups.arrow", lambda path: ipc.open_file(path).read_all()),
    ],
)
def test_per_group__columnar_file__is_the_results_table(
    folder: Path, name: str, read: Callable[[Path], pa.Table]
) -> None:
    outcome = run("evaluate", "log.parquet", *COLUMNS, "-m", "GAUC,P@1", "--per-group", name)
    assert outcome.exit_code == 0
    assert outcome.stderr == f"wrote {name}\n"
    assert read(folder / name).to_pydict() == {
        "user": [1, 2, 3], "rows": [3, 2, 1], "positives": [1, 1, 0], "GAUC": [1.0, 0.0, None],
        "P@1": [1.0, 0.0, 0.0],
    }  # fmt: skip


def test_per_group__csv__leaves_undefined_values_empty(folder: Path) -> None:
    users = pa.array(["a", "a", "a", "b", "b", "c"]).dictionary_encode()
    parquet.write_table(pa.table({**ROWS, "user": users}), folder / "text.parquet")
    run("evaluate", "text.parquet", *COLUMNS, "-m", "GAUC", "--per-group", "groups.csv")
    rows = list(csv.DictReader((folder / "groups.csv").read_text().splitlines()))
    assert [row["user"] for row in rows] == ["a", "b", "c"]
    assert [row["GAUC"] for row in rows] == ["1", "0", ""]


def test_per_group__csv__holds_keys_of_bytes_as_hexadecimal(folder: Path) -> None:
    keys = [b"\xff\x00", b"\xff\x00", b"\xff\x00", b"ab", b"ab", b"\n,"]
    for kind in (pa.binary(), pa.large_binary(), pa.binary(2)):
        table = pa.table({**ROWS, "user": pa.array(keys, kind)})
        parquet.write_table(table, folder / "bytes.parquet")
        wanted = ["--per-group", "groups.csv", "--overwrite"]
        assert run("evaluate", "bytes.parquet", *COLUMNS, "-m", "GAUC", *wanted).exit_code == 0
        rows = csv.DictReader((folder / "groups.csv").read_text().splitlines())
        assert [row["user"] for row in rows] == ["ff00", "6162", "0a2c"]


@pytest.mark.parametrize(
    "name, start", [("r.json", "{"), ("r.csv", "score,"), ("r.md", "| score"), ("r.txt", "score ")]
)
def test_output__suffix__tells_the_format(folder: Path, name: str, start: str) -> None:
    outcome = run("evaluate", "log.parquet", *COLUMNS, "--output", name)
    assert outcome.exit_code == 0
    assert outcome.stdout == ""
    assert (folder / name).read_text().startswith(start)


def test_output__of_any_name__is_written_where_format_says_how(folder: Path) -> None:
    outcome = run("evaluate", "log.parquet", *COLUMNS, "--output", "new.tmp", "--format", "csv")
    assert outcome.exit_code == 0
    assert (folder / "new.tmp").read_text().startswith("score,by,slice,measure,name,value")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--output", "there.json"], "'there.json' exists already"),
        (["--per-group", "there.parquet"], "'there.parquet' exists already"),
        (["--output", "no/such/r.json"], "does not exist; create it first"),
        (["--output", "."], "is a folder"),
        (
            ["--per-group", "groups.txt"],
            "--per-group: must end in .parquet, .arrow or .csv",
        ),
        (["--output", "a.csv", "--per-group", "./a.csv"], "both name 'a.csv'"),
        (["--output", "log.parquet", "--overwrite"], "part of the input"),
        *(
            (
                ["--output", name],
                f"--output: must end in .txt, .json, .csv, .md, .tex or .html, got {name!r}",
            )
            for name in ("report.pdf", "a.xlsx", "report", "report.json.gz")
        ),
    ],
)
def test_output__impossible__is_refused_before_the_work(
    arguments: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work has started")

    Path("there.json").write_text("old")
    Path("there.parquet").write_text("old")
    before = sorted(Path().iterdir())
    monkeypatch.setattr(sys.modules["fastrank_eval.results.evaluate"], "evaluate", work)
    assert complaint in refused("log.parquet", *COLUMNS, *arguments)
    assert sorted(Path().iterdir()) == before
    assert Path("there.json").read_text() == "old"


@pytest.mark.usefixtures("folder")
def test_output__inside_a_source_folder__is_refused() -> None:
    Path("data").mkdir()
    Path("log.parquet").rename("data/log.parquet")
    arguments = (*COLUMNS, "--output", "data/log.parquet", "--overwrite")
    assert "part of the input" in refused("data", *arguments)
    assert "part of the input" in refused("data/*.parquet", *arguments)


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_output__name_of_standard_output__is_that(folder: Path, name: str) -> None:
    for command in (["evaluate", "-m", "GAUC"], ["curve", "roc"]):
        words = (*command, "log.parquet", *COLUMNS, "-f", "csv")
        plain, named = run(*words), run(*words, "-o", name)
        assert (named.exit_code, named.stderr) == (0, plain.stderr)
        assert named.stdout == plain.stdout != ""
    assert [file.name for file in folder.iterdir()] == ["log.parquet"]


@pytest.mark.usefixtures("folder")
def test_save_state__to_standard_output__is_refused() -> None:
    message = refused("log.parquet", *COLUMNS, "--save-state", "-")
    assert "--save-state: must be a file, got '-'; name one." in message
    assert not Path("-").exists()


@pytest.mark.usefixtures("folder")
def test_output__overwrite__replaces_the_old_file() -> None:
    Path("report.json").write_text("old")
    outcome = run("evaluate", "log.parquet", *COLUMNS, "-o", "report.json", "--overwrite")
    assert outcome.exit_code == 0
    assert json.loads(Path("report.json").read_text())["meta"]["rows"] == 6


@pytest.mark.usefixtures("folder")
def test_output__evaluation_fails__leaves_the_old_file_and_nothing_else() -> None:
    Path("report.json").write_text("old")
    before = sorted(Path().iterdir())
    refused("log.parquet", *COLUMNS[:4], "-s", "nosuch", "-o", "report.json", "--overwrite")
    assert Path("report.json").read_text() == "old"
    assert sorted(Path().iterdir()) == before


# ---- what it refuses -----------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["log.parquet", "-g", "usr", "-l", "click", "-s", "pctr"], ["'usr'", "'user'"]),
        (["log.parquet", *COLUMNS, "-m", "GUAC"], ["GUAC", "GAUC"]),
        (["log.parquet", *COLUMNS, "-m", "P@0"], ["P@0"]),
        (["log.parquet", *COLUMNS, "-m", ""], ["measures: must name at least one"]),
        (["log.parquet", *COLUMNS, "--threads", "0"], ["threads"]),
        (["log.parquet", *COLUMNS, "--limit", "-1"], ["limit"]),
        (["log.parquet", *COLUMNS, "--where", "usr = 1"], ["where", "'usr'", "'user'"]),
        (["log.parquet", *COLUMNS, "--where", "user = 'x'"], ["'user' is int64", "'x'"]),
        (["log.parquet", *COLUMNS, "--where", "user =\n = 1"], ["a literal at character 9"]),
        (["log.parquet", *COLUMNS, "--ties", "item"], ["item"]),
        (["nosuch.parquet", *COLUMNS], ["nosuch.parquet"]),
        (["torn.parquet", *COLUMNS], ["torn.parquet"]),
    ],
)
def test_evaluate__bad_input__is_one_line_and_exit_2(
    arguments: list[str], parts: list[str]
) -> None:
    Path("torn.parquet").write_bytes(Path("log.parquet").read_bytes()[:-9])
    message = refused(*arguments)
    for part in parts:
        assert part in message


def test_evaluate__grouped_and_a_key_returns__is_refused(folder: Path) -> None:
    table = pa.table(ROWS)
    parquet.write_table(pa.concat_tables([table, table.slice(0, 1)]), folder / "returns.parquet")
    assert "comes back" in refused("returns.parquet", *COLUMNS, "--order", "grouped")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments, complaint",
    [
        (["--bogus"], "No such option '--bogus'"),
        (["log.parquet", *COLUMNS[:2], *COLUMNS[4:]], "Missing option '-l' / '--label'"),
        (["log.parquet", *COLUMNS, "-s", "a,,b"], "a column name is empty"),
        (["log.parquet", *COLUMNS, "--ties", "exepcted"], "'exepcted' is not one of"),
        (["log.parquet", *COLUMNS, "--by", "other", "--min-groups", "0"], "--min-groups: must"),
        (COLUMNS, "Missing argument 'SOURCES...'"),
    ],
)
def test_evaluate__bad_usage__exits_2(arguments: list[str], complaint: str) -> None:
    outcome = run("evaluate", *arguments)
    assert outcome.exit_code == 2
    assert complaint in outcome.stderr.replace("No such option: --bogus", complaint)


# ---- help and the list of measures ---------------------------------------------------------------


def test_help__evaluate__shows_every_option_under_a_heading() -> None:
    text = run("evaluate", "--help").stdout
    options = {name for param in cli.commands["evaluate"].params for name in param.opts}
    for option in options:
        if option.startswith("--"):
            assert option in text
    for heading in ("Columns:", "Measures:", "Conventions:", "Reading:", "Output:", "Examples:"):
        assert heading in text
    assert DEFAULT_MEASURES in text


def test_help__group__names_every_command() -> None:
    text = run("--help").stdout
    for command in ("evaluate", "explain", "trec", "measures", "threshold", "classes"):
        assert f"\n  {command} " in text


def test_help__group__summaries_of_commands_are_whole_and_short() -> None:
    lines = [line for line in run("--help").stdout.splitlines() if re.match(r"  [a-z]\S*  ", line)]
    assert len(lines) == 15
    for line in lines:
        summary = line.split(maxsplit=1)[1]
        assert summary.endswith(".")
        assert len(summary) <= 55


def test_help_all__group__explains_all_options_of_all_commands() -> None:
    text = run("--help-all").stdout
    assert text.startswith(run("--help").stdout)
    for name in cli.list_commands(click.Context(cli)):
        assert run(name, "--help-all").stdout in text
    long = [line for line in text.splitlines() if len(line) > 80]
    assert {line.split()[0] for line in long} <= {"--test"}, "a terminal would break the lines"


def test_help__rare_options__are_named_and_explained_by_help_all() -> None:
    short, whole = (run("evaluate", flag).stdout for flag in ("--help", "--help-all"))
    assert "--memory" in short
    assert "Memory that the run may use" not in short
    assert "Memory that the run may use" in whole
    assert short.index("Examples:") < short.index("Columns:")


@pytest.mark.usefixtures("folder")
def test_errors__arguments__are_written_as_options() -> None:
    assert "error: --threads: must be" in refused("log.parquet", *COLUMNS, "--threads", "0")
    unscored = {**ROWS, "pctr": [0.9, None, 0.1, 0.8, 0.7, 0.3]}
    parquet.write_table(pa.table(unscored), "unscored.parquet")
    message = refused("unscored.parquet", *COLUMNS)
    assert "--unretrieved allow" in message
    assert "unretrieved=" not in message
    kept = refused("log.parquet", *COLUMNS, "-m", "GAUC(weight='nosuch')")
    assert "--weight" not in kept


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments,wanted",
    [
        (["log.parquet", *COLUMNS[2:], "-m", "GAUC"], "--group: must name the key columns"),
        (["log.parquet", *COLUMNS, "-m", "alpha_nDCG"], "--subtopics: must be a column of lists"),
        (["log.parquet", *COLUMNS, "--ties", "item"], "item ids for --ties item"),
        (["log.parquet", *COLUMNS, "-m", "MAPP"], "--measures: must name measures"),
        (
            ["log.parquet", *COLUMNS, "-m", "AP", "--undefined", "error"],
            "--undefined skip, zero",
        ),
        (["log.parquet", *COLUMNS, "-m", "P", "-w", "pctr"], "pass --weight-rows ignore"),
    ],
)
def test_errors__have_options_and_no_arguments_of_python(arguments: list[str], wanted: str) -> None:
    message = refused(*arguments)
    assert wanted in message
    assert re.search(r"\w=(True|'|\.\.\.)", message) is None


@pytest.mark.usefixtures("folder")
def test_compare__baseline_that_is_no_score__is_one() -> None:
    columns = ["log.parquet", "-g", "user", "-l", "click", "-m", "GAUC", "-b", "pctr", "-f", "json"]
    short, whole = (run("compare", *columns, "-s", score) for score in ("other", "pctr,other"))
    assert json.loads(short.stdout)["comparisons"] == json.loads(whole.stdout)["comparisons"]


def test_version__is_the_packages() -> None:
    assert fastrank_eval.__version__ in run("--version").stdout


def test_measures__json__is_the_registry() -> None:
    listed = json.loads(run("measures", "--format", "json").stdout)
    assert [entry["name"] for entry in listed] == list(registry)
    for entry in listed:
        assert entry["formula"]
        assert entry["summary"]
        names = [option.name for option in registry[entry["name"]].options]
        assert [option["name"] for option in entry["options"]] == names


def test_measures__without_names__has_one_line_for_each() -> None:
    lines = run("measures").stdout.splitlines()
    for name in registry:
        assert sum(re.match(rf"  {name}(@k)?  ", line) is not None for line in lines) == 1


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_measures__by_name__shows_every_option(form: str) -> None:
    for name, kind in registry.items():
        text = run("measures", name, "--format", form).stdout
        assert name in text
        for option in kind.options:
            assert f"{option.name}={option.default!r}" in text


def test_measures__by_word__finds_names_of_other_tools_and_descriptions() -> None:
    def found(*words: str) -> list[str]:
        return [entry["name"] for entry in json.loads(run("measures", *words, "-f", "json").stdout)]

    assert found("map") == ["AP"]
    assert found("ndcg@10", "MRR") == ["nDCG", "RR"]
    assert {"ECE", "MCE"} <= set(found("calibration"))
    failed = run("measures", "calibraton")
    assert failed.exit_code == 2
    assert "must be a measure or a word" in failed.stderr
    assert run("measures", "").exit_code == 2


def test_measures__options__need_no_quotes(folder: Path) -> None:
    plain, quoted = (
        evaluate("log.parquet", *COLUMNS, "-m", f"nDCG(gain={word})@2")
        for word in ("linear", "'linear'")
    )
    assert plain == quoted


def test_evaluate__scores_of_numpy_precision__print_and_json_agree(folder: Path) -> None:
    random = np.random.default_rng(7)
    rows = {
        "user": np.repeat(np.arange(50), 4),
        "click": random.integers(0, 2, 200),
        "pctr": random.normal(size=200),
    }
    parquet.write_table(pa.table(rows), folder / "random.parquet")
    value = evaluate("random.parquet", *COLUMNS, "-m", "GAUC")["pctr", "GAUC"]
    assert f"{value:#.6g}" in run("evaluate", "random.parquet", *COLUMNS, "-m", "GAUC").stdout
