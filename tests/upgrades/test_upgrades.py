"""Files of earlier versions are read with equal numbers; those of newer ones are refused."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import fastrank_eval as fe
from fastrank_eval._lib.errors import ArgumentError, HistoryError, SourceError
from fastrank_eval.apps.nightly.config import read_config
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.history_schema import MIGRATIONS, VERSION
from fastrank_eval.engine.state_file import FORMAT, state_bytes
from tests.upgrades.files import (
    FOLDER,
    NEXT,
    NIGHTS,
    history_values,
    nightly,
    save_state,
    state_values,
)

pytestmark = pytest.mark.no_kernels

VERSIONS = sorted(path.name for path in FOLDER.iterdir())
FIXTURES = FOLDER.parent


@pytest.fixture(params=VERSIONS)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files of a version, as working folder."""
    shutil.copytree(FOLDER / request.param, tmp_path / "files")
    monkeypatch.chdir(tmp_path / "files")
    return tmp_path / "files"


def expected(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return content


def lacking(wanted: Any, found: Any, path: str = "") -> list[str]:
    """Paths of values that differ; keys that only a later version has do not count."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [
            line
            for key, value in wanted.items()
            for line in lacking(value, found.get(key, "missing"), f"{path}.{key}")
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [
            line
            for at, (one, other) in enumerate(zip(wanted, found, strict=True))
            for line in lacking(one, other, f"{path}[{at}]")
        ]
    return [] if wanted == found else [f"{path}: {wanted!r} != {found!r}"]


def test_this_version__has_its_files() -> None:
    assert fe.__version__ in VERSIONS, "run python -m tests.upgrades.files"


def test_history__of_an_earlier_version__has_equal_nights(folder: Path) -> None:
    wanted = expected(folder)["history"]
    assert [list(nights) for nights in wanted.values()] == [list(NIGHTS)] * 2
    assert lacking(wanted, history_values(folder / "history.db")) == []


def test_history__of_an_earlier_version__goes_on(folder: Path) -> None:
    """The kept configuration judges one more night, and merges it with the earlier ones."""
    done = nightly("--date", NEXT, "--json", "summary.json")
    assert done.exit_code in (0, 3), done.output
    found = history_values(folder / "history.db")
    assert lacking(expected(folder)["history"], found) == []
    assert [*found["click"]] == [*found["order"]] == [*NIGHTS, NEXT]
    (night, _) = json.loads(Path("summary.json").read_text(encoding="utf-8"))["nights"]
    assert night["label"] == "click"
    assert {line["yesterday"] is None for line in night["headline"]} == {False}
    assert night["period_nights"]["week"]["nights"] == 3
    (note,) = night["period_notes"]
    assert note.startswith("week and month: no intervals: ")


def test_nights__evaluated_again__have_equal_numbers(folder: Path) -> None:
    """The configuration of an earlier version means the same."""
    Path("history.db").unlink()
    done = nightly("--backfill", f"{NIGHTS[0]}..{NIGHTS[-1]}")
    assert done.exit_code in (0, 3), done.output
    assert lacking(expected(folder)["history"], history_values(folder / "history.db")) == []


def test_state__of_an_earlier_version__has_equal_numbers_or_is_refused(folder: Path) -> None:
    try:
        state = fe.load_state("report.state")
    except SourceError as error:
        assert FORMAT > 3
        assert "evaluate the rows again" in str(error)  # noqa: PT017
        return
    wanted = expected(folder)["state"]
    assert lacking(wanted, state_values(state.result())) == []
    assert lacking(wanted, state_values(save_state(Path("again.state")).result())) == []
    both = state.merge(fe.load_state("again.state"), allow_repeated=True, allow_crossing=True)
    assert both.rows == 2 * state.rows


def test_state__of_a_newer_format__is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastrank_eval.engine.state_file.FORMAT", FORMAT + 1)
    Path("newer.state").write_bytes(state_bytes({"slicings": {}}, {}))
    monkeypatch.undo()
    with pytest.raises(SourceError, match=rf"format {FORMAT + 1}, written .* install a newer one"):
        fe.load_state(folder / "newer.state")


def test_history__of_a_newer_version__is_refused_and_left_alone(folder: Path) -> None:
    with closing(sqlite3.connect("history.db")) as database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = Path("history.db").read_bytes()
    with pytest.raises(HistoryError, match=r"written by a later fastrank_eval.*Update"):
        History(folder / "history.db")
    done = nightly("--date", NEXT)
    assert done.exit_code == 2
    assert "written by a later fastrank_eval" in done.stderr
    assert Path("history.db").read_bytes() == before


def test_configuration__with_a_key_of_a_newer_version__is_refused_by_its_name(folder: Path) -> None:
    text = Path("nightly.toml").read_text(encoding="utf-8")
    Path("nightly.toml").write_text(text.replace("[drift]", "[drift]\nlater = 1"), encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"later = 1: there is no such key"):
        read_config("nightly.toml")


def opened(path: Path, script: str, steps: range) -> None:
    """Make a history from statements, and migrate it as an earlier version did."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
        for step in steps:
            database.executescript(MIGRATIONS[step])
            database.execute(f"PRAGMA user_version = {step + 1}")
        database.commit()


@pytest.mark.parametrize("version", range(1, VERSION))
def test_history__of_each_older_version_of_the_tables__is_brought_up_to_date(
    tmp_path: Path, version: int
) -> None:
    """Versions 3 and 4 have no file: they are made from one of version 2."""
    path = tmp_path / "history.db"
    kept = max(number for number in (1, 2, 5, 6, 7, 8, 9) if number <= version)
    script = (FIXTURES / f"history_v{kept}.sql").read_text(encoding="utf-8")
    opened(path, script, range(kept, version))
    with pytest.raises(HistoryError, match=rf"version {version}.*brings it up to date"):
        History(path, readonly=True)
    with History(path) as history:
        (night,) = history.read()
    values = (0.6171875,) if kept < 5 else (0.75, 0.375, 0.25, 0.1875, 0.15, 0.125)
    assert tuple(value.value for value in night.values)[: len(values)] == values
    assert night.status == "regression"
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []


def test_history__of_version_9__has_its_labels_and_the_names_of_its_drift(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    opened(path, (FIXTURES / "history_v9.sql").read_text(encoding="utf-8"), range(0))
    with History(path) as history:
        assert history.labels() == ("click", "order")
        (night,) = history.read()
        (order,) = history.of("order").read()
    assert (order.label, order.status, order.values[0].value) == ("order", "fine", 0.5)
    assert [(one.name, one.verdict) for one in night.drift] == [
        ("new", "changed"),
        ("price", "not judged"),
    ]
    scores, price = night.drift
    assert (scores.psi, scores.ks, scores.nights, scores.reference_rows) == (
        0.125,
        0.0625,
        14,
        14000,
    )
    # What that version did not compute.
    assert (scores.reference_nulls, price.reference_nulls) == (0, 0)
    assert all(math.isnan(one.median) and math.isnan(one.mode_share) for one in night.drift)
