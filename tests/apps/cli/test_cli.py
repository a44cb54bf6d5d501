"""The command line: what it reads, prints and writes, and its help."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

import fastrank_eval.results.evaluate
from fastrank_eval.apps.cli.main import cli
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.measures import parse_measures, registry
from tests.support.commands import COLUMNS, ROWS, document, output, refusal, run
from tests.support.source_files import write_stream
from tests.support.transcripts import Case, cases

GAUC = 3 / 5  # group 1: 1 over 3 rows; group 2: 0 over 2 rows; group 3 has no click


def evaluate(*arguments: str, **keywords: Any) -> dict[tuple[str, str], float | None]:
    report = document("evaluate", *arguments, **keywords)
    return {(line["score"], line["measure"]): line["value"] for line in report["results"]}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("case", cases("commands"), ids=lambda case: ascii(str(case)))
def test_commands__read_and_print_what_is_told(case: Case) -> None:
    case.check(case.answer({**globals(), "ROWS": ROWS, "write_stream": write_stream}))


def test_no_group__of_measures_of_all_rows__is_not_needed(folder: Path) -> None:
    rows = ["log.parquet", "--label", "click", "--score", "pctr"]
    grouped = evaluate(*rows, "--group", "user", "-m", "AUC,PPV,LogLoss")
    assert evaluate(*rows, "-m", "AUC,PPV,LogLoss") == grouped
    report = output("evaluate", *rows, "-m", "AUC,LogLoss")
    assert "6 rows, not grouped, " in report
    assert "no standard error without groups: LogLoss" in report
    curves = [output("curve", "roc", *rows, *group) for group in ([], ["--group", "user"])]
    assert curves[0] == curves[1] != ""


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
         "warning": "few_groups", "weight": 5.0,
         "groups_used": 2, "dropped": {"all_negative": 1}, "rows_share": 5 / 6,
         "positives_share": 1.0, "aggregate": "mean", "details": {}}
    ]  # fmt: skip


@pytest.fixture
def passed_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Everything that the command hands to evaluate()."""
    seen: dict[str, Any] = {}
    module = sys.modules["fastrank_eval.results.evaluate"]
    original: Callable[..., Any] = module.evaluate  # type: ignore[attr-defined]

    def record(source: object, **options: Any) -> Any:
        seen.update(options, source=source)
        plain = {"group": "user", "cluster": None, "weight": None, "item": None, "subtopics": None}
        plain["ties"] = "expected"
        return original(source, **{**options, **plain})

    monkeypatch.setattr(module, "evaluate", record)
    return seen


@pytest.mark.usefixtures("folder")
def test_evaluate__every_option__reaches_the_engine(passed_on: dict[str, Any]) -> None:
    outcome = run(
        "evaluate", "log.parquet", *COLUMNS, "-g", "click", "--weight", "w", "--item", "i",
        "--cluster", "user,a", "--cluster", "b",
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
            "subtopics": "c", "cluster": ["user", "a", "b"],
        "groups": "with_relevant", "unretrieved": "allow", "unjudged": "drop",
        "nan": "null", "null_groups": "drop",
        "weight_rows": "ignore", "profile": "sklearn", "score_type": "float32",
        "sampling_rate": 0.5, "confidence": 0.9, "by": ("other", "@rows:1,5"), "min_groups": 2,
        "order": "grouped", "threads": 2,
        "where": "pctr > 0", "limit": 5, "format": "parquet",
        "keep": [],
        "baseline": None,
        "memory": "4GB",
    }  # fmt: skip


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


@pytest.mark.parametrize(
    "words, start",
    [
        (["r.json"], "{"),
        (["r.csv"], "score,by,slice,measure,name,value"),
        (["r.md"], "| score"),
        (["r.txt"], "score "),
        (["new.tmp", "--format", "csv"], "score,by,"),
    ],
)
def test_output__suffix_or_option__tells_the_format(
    folder: Path, words: list[str], start: str
) -> None:
    assert output("evaluate", "log.parquet", *COLUMNS, "--output", *words) == ""
    assert (folder / words[0]).read_text().startswith(start)


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
    assert complaint in refusal("evaluate", "log.parquet", *COLUMNS, *arguments)
    assert sorted(Path().iterdir()) == before
    assert Path("there.json").read_text() == "old"


@pytest.mark.parametrize("source", ["data", "data/", "data/*", "data/**/*.parquet", "da*", "."])
def test_output__that_a_later_run_would_read__is_refused(folder: Path, source: str) -> None:
    (folder / "data" / "day=1").mkdir(parents=True)
    shutil.copy(folder / "log.parquet", folder / "data" / "day=1" / "log.parquet")
    (folder / "data" / "log.parquet").symlink_to(folder / "log.parquet")
    asked = ("evaluate", source, *COLUMNS, "-m", "GAUC")
    told = f"--per-group: must lie outside the input '{source}', got 'data/pg.parquet'"
    assert told in refusal(*asked, "--per-group", "data/pg.parquet")
    replaced = refusal(*asked, "--output", "data/day=1/log.parquet", "--overwrite")
    assert "part of the input" in replaced or source == "data/*"
    if source not in ("data/*", "data/**/*.parquet"):
        assert "--output: must lie" in refusal(*asked, "--output", "data/day=1/report.csv")
        assert "--save-state: must lie" in refusal(*asked, "--save-state", "data/run.state")
        assert "name a file in another folder" in refusal(
            *asked, "--input-format", "parquet", "-o", "data/report.txt"
        )
    assert not (folder / "data" / "pg.parquet").exists()


def test_output__in_a_source_folder__that_no_run_reads__is_written(folder: Path) -> None:
    (folder / "data" / "_out").mkdir(parents=True)
    shutil.copy(folder / "log.parquet", folder / "data" / "log.parquet")
    asked = ("evaluate", "data", *COLUMNS, "-m", "GAUC", "-q")
    outputs = ("-o", "data/report.json", "--per-group", "data/_out/pg.parquet")
    output(*asked, *outputs, "--save-state", "data/.run.state")
    output(*asked)
    output("evaluate", "data/*.parquet", *asked[2:], "--per-group", "data/pg.csv")


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_output__name_of_standard_output__is_that(folder: Path, name: str) -> None:
    for command in (["evaluate", "-m", "GAUC"], ["curve", "roc"]):
        words = (*command, "log.parquet", *COLUMNS, "-f", "csv")
        plain, named = run(*words), run(*words, "-o", name)
        assert (named.exit_code, named.stderr) == (0, plain.stderr)
        assert named.stdout == plain.stdout != ""
    assert [file.name for file in folder.iterdir()] == ["log.parquet"]


@pytest.mark.usefixtures("folder")
def test_output__overwrite__replaces_the_old_file_unless_the_evaluation_fails() -> None:
    Path("report.json").write_text("old")
    before = sorted(Path().iterdir())
    words = ("evaluate", "log.parquet", *COLUMNS, "-o", "report.json", "--overwrite")
    refusal(*words, "-s", "nosuch")
    assert Path("report.json").read_text() == "old"
    output(*words)
    assert json.loads(Path("report.json").read_text())["meta"]["rows"] == 6
    assert sorted(Path().iterdir()) == before


# ---- help and the list of measures ---------------------------------------------------------------


def test_help__evaluate__shows_every_option_under_a_heading() -> None:
    text = output("evaluate", "--help")
    options = {name for param in cli.commands["evaluate"].params for name in param.opts}
    for option in options:
        if option.startswith("--"):
            assert option in text
    for heading in ("Columns:", "Measures:", "Conventions:", "Reading:", "Output:", "Examples:"):
        assert heading in text
    assert DEFAULT_MEASURES in text


def test_help__group__summaries_of_commands_are_whole_and_short() -> None:
    found = re.findall(r"^  ([a-z]\S*)  +(.*)$", output("--help"), re.MULTILINE)
    assert sorted(name for name, _ in found) == sorted(cli.list_commands(click.Context(cli)))
    assert all(summary.endswith(".") and len(summary) <= 55 for _, summary in found)


def test_help_all__group__explains_all_options_of_all_commands() -> None:
    text = output("--help-all")
    assert text.startswith(output("--help"))
    for name in cli.list_commands(click.Context(cli)):
        assert output(name, "--help-all") in text
    long = [line for line in text.splitlines() if len(line) > 80]
    assert {line.split()[0] for line in long} <= {"--test"}, "a terminal would break the lines"


def test_help__rare_options__are_named_and_explained_by_help_all() -> None:
    short, whole = (output("evaluate", flag) for flag in ("--help", "--help-all"))
    assert "--memory" in short
    assert "Memory that the run may use" not in short
    assert "Memory that the run may use" in whole
    assert short.index("Examples:") < short.index("Columns:")


def test_version__is_the_packages() -> None:
    assert fastrank_eval.__version__ in output("--version")


def test_measures__json__is_the_registry() -> None:
    listed = document("measures")
    assert [entry["name"] for entry in listed] == list(registry)
    for entry in listed:
        assert entry["formula"]
        assert entry["summary"]
        names = [option.name for option in registry[entry["name"]].options]
        assert [option["name"] for option in entry["options"]] == names


def test_measures__without_names__has_one_line_for_each() -> None:
    lines = output("measures").splitlines()
    for name in registry:
        assert sum(re.match(rf"  {name}(@k)?  ", line) is not None for line in lines) == 1


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_measures__by_name__shows_every_option(form: str) -> None:
    for name, kind in registry.items():
        text = output("measures", name, "--format", form)
        assert name in text
        for option in kind.options:
            assert f"{option.name}={option.default!r}" in text
