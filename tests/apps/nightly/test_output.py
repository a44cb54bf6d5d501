"""fastrank-eval nightly: summaries, lost outputs, rehearsals, what a failed run leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fastrank_eval._lib.errors import OutputError
from fastrank_eval.apps.cli import nightly as commands
from fastrank_eval.apps.cli import standard_error
from tests.support.nightly_runs import adjust, everything, kept, nightly, on


def failing(error: OSError | OutputError) -> Callable[[str], None]:
    def emit(text: str) -> None:
        raise error

    return emit


def test_standard_output__lost__does_not_end_a_backfill(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standard_error, "discard_output", lambda stream: None)
    monkeypatch.setattr(commands, "emit", failing(BrokenPipeError()))
    assert nightly("--backfill", f"{on(1)}..{on(2)}", "--markdown").exit_code == 141
    assert len(kept()) == 2
    monkeypatch.setattr(commands, "emit", failing(OutputError("no space left.")))
    outcome = nightly("--backfill", f"{on(2)}..{on(3)}")
    assert (outcome.exit_code, outcome.stderr) == (5, "error: no space left.\n")
    assert len(kept()) == 3


def test_summary__lost_at_the_end__goes_to_standard_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "atomic_path", failing(OutputError("the disk is full.")))
    outcome = nightly("--date", on(1), "--json", "told.json", "-q")
    assert outcome.exit_code == 5
    first, told = outcome.stderr.split("\n", 1)
    assert first == "error: the disk is full. The summary is:"
    assert json.loads(told)["nights"][0]["date"] == on(1)
    adjust(folder, '[gates]\nfail_if = "GAUC > 0"\n')
    assert nightly("--date", on(1), "--json", "told.json", "-q").exit_code == 3


@pytest.mark.parametrize(
    "file,why",
    [
        ("nightly.toml", "is the configuration"),
        ("new.db", "is the history"),
        ("logs/day=2026-11-01/part-00000.parquet", "has other content than a summary"),
        ("report/2026-11-01.html", "is a page"),
    ],
)
def test_summary__in_place_of_another_file__is_refused(folder: Path, file: str, why: str) -> None:
    adjust(folder, '[history]\nfile = "new.db"\n[output]\nfolder = "report"\n')
    Path("report").mkdir()
    before = everything(folder)
    outcome = nightly("--date", on(1), "--json", file)
    assert outcome.exit_code == 2
    assert f"error: --json {file!r} {why}" in outcome.stderr
    assert everything(folder) == before


def test_summary__of_a_run_that_is_interrupted__is_not_an_old_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nightly("--date", on(1), "--json", "told.json", "-q").exit_code == 0
    assert Path("told.json").exists()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fastrank_eval.apps.nightly.run.nightly", interrupted)
    assert nightly("--date", on(2), "--json", "told.json", "-q").exit_code != 0
    assert not Path("told.json").exists()


def test_summary__of_a_run_that_is_refused__says_so(folder: Path) -> None:
    Path("told.json").write_text('{"yesterday": 0}')
    assert nightly("--date", "today", "--json", "told.json").exit_code == 2
    told = json.loads(Path("told.json").read_text())
    assert (told["exit_code"], told["nights"]) == (2, [])
    assert told["error"].startswith("--date 'today' is not a date")
    adjust(folder, "[columns]\nx = 1\n")
    told = json.loads(nightly("--date", on(1), "--json", "/dev/stdout").stdout)
    assert told["error"].startswith("nightly.toml: is not TOML")


def test_dry_backfill__judges_what_the_run_would(folder: Path) -> None:
    adjust(folder, '[gates]\nfail_if_yesterday = "GAUC delta < 1"\n[output]\nfolder = "pages"\n')
    before = everything(folder)
    dates = "--backfill", f"{on(1)}..{on(2)}"
    outcome = nightly(*dates, "--dry-run", "--json", "-")
    assert outcome.exit_code == 3
    assert everything(folder) == before
    assert not Path("pages").exists()
    dry = json.loads(outcome.stdout)["nights"]
    run = json.loads(nightly(*dates, "--json", "-").stdout)["nights"]
    for night in (*dry, *run):
        del night["seconds"], night["page"], night["groups"]
    assert dry == run
    assert nightly(*dates, "--dry-run", "-q").exit_code == 3


def test_first_run__that_fails__leaves_nothing(folder: Path) -> None:
    adjust(folder, '[history]\nfile = "new/history.db"\n[output]\nfolder = "pages"\n')
    for dry in ((), ("--dry-run",)):
        outcome = nightly("--date", on(1), *dry)
        assert outcome.exit_code == 2
        assert "new' does not exist; create it first" in outcome.stderr
    Path("new").mkdir()
    before = everything(folder)
    assert nightly("--date", "2027-01-01", "-q").exit_code == 2
    assert everything(folder) == before
    assert not Path("pages").exists()
