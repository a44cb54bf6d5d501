"""What ``nightly prune`` removes, what it says of it, and what stays whole."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fastrank_eval.apps.nightly.history import TABLES
from fastrank_eval.apps.nightly.web import HistoryFile, web_view
from tests.support.asgi_client import Client
from tests.support.nightly_runs import adjust, everything, kept, nightly, on

OUTPUT = """fail_if = "GAUC > 0"
[output]
folder = "pages"
"""
BOTH = "--keep", "3d", "--keep-states", "2d"


def dead_links(folder: Path) -> list[str]:
    return [
        f"{page.name}: {link}"
        for page in folder.rglob("*.html")
        for link in re.findall(r'href="([^"#]+)"', page.read_text())
        if not (page.parent / link).exists()
    ]


def dates(table: str, condition: str = "TRUE") -> set[str]:
    with closing(sqlite3.connect("history.db")) as database:
        statement = f"SELECT date FROM {table} WHERE {condition}"  # noqa: S608
        return {date for (date,) in database.execute(statement)}


@pytest.fixture
def nights(folder: Path) -> Path:
    """Six nights with pages and groups; the third is not evaluated."""
    adjust(folder, f"[gates]\n{OUTPUT}")
    (folder / f"logs/day={on(3)}").rename("moved")
    assert nightly("--backfill", f"{on(1)}..{on(6)}", "-q").exit_code == 2
    return folder


def test_prune__removes_old_nights_and_leaves_no_dead_link(nights: Path) -> None:
    Path("pages/2026-11-02.html").write_text("my notes")
    # Written before the nights between: it links to a page that leaves.
    page = Path(f"pages/{on(6)}.html")
    page.write_text(page.read_text().replace(f'href="{on(5)}.html"', f'href="{on(1)}.html"'))
    before = everything(nights)
    dry = nightly("prune", *BOTH, "--dry-run")
    assert (dry.exit_code, everything(nights)) == (0, before)
    assert "would remove rows of night: 2 (" in dry.stdout
    assert "would remove rows of not_evaluated: 1 (" in dry.stdout
    assert "would remove files of groups: 2 (" in dry.stdout

    done = nightly("prune", *BOTH)
    assert done.stdout == dry.stdout.replace("would remove", "removed")
    assert "note: weeks, months and last week need 30 days of states, and fewer stay" in done.stderr
    assert "pages/2026-11-02.html stays: it is no page" in done.stderr
    (sizes,) = re.findall(r"history.db: (.*) before, (.*) now", done.stderr)
    assert sizes[0] != sizes[1]
    assert len(Path("history.db").read_bytes()) < len(before["history.db"])
    for table in TABLES:
        assert dates(table) == (
            {on(day) for day in (4, 5, 6)} if table != "not_evaluated" else set()
        )
    assert dates("state", "kind <> 'periods'") == {on(5), on(6)}
    assert {path.name for path in Path("pages").iterdir()} == {
        "2026-11-02.html",
        "index.html",
        *(f"{on(day)}{end}" for day in (4, 5, 6) for end in (".html", "-groups.parquet")),
    }
    assert dead_links(Path("pages")) == []

    assert nightly("prune", *BOTH).stdout == "removed nothing\n"
    assert nightly("--date", on(7), "-q").exit_code == 3
    assert [night.date.day for night in kept()] == [4, 5, 6, 7]
    assert nightly("prune", "--keep", "400d").stdout == "removed nothing\n"


def test_prune__stopped_between_files__is_ended_by_the_next(
    nights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def stop(path: Path, missing_ok: bool = False) -> None:
            raise KeyboardInterrupt

        patch.setattr(Path, "unlink", stop)
        assert nightly("prune", *BOTH).exit_code == 130
    assert [night.date.day for night in kept()] == [4, 5, 6]
    assert nightly("prune", *BOTH).exit_code == 0
    assert dead_links(Path("pages")) == []
    assert not Path(f"pages/{on(1)}.html").exists()


def test_prune__several_labels__pages_of_each(folder: Path) -> None:
    text = Path("nightly.toml").read_text().replace('label = "click"', 'label = ["click", "other"]')
    Path("nightly.toml").write_text(f"{text}[gates]\n{OUTPUT}")
    for path in Path("logs").rglob("*.parquet"):
        copy_label(path)
    assert nightly("--backfill", f"{on(1)}..{on(4)}").stderr == ""
    assert nightly("prune", "--keep", "2d").exit_code == 0
    assert dead_links(Path("pages")) == []
    for label in ("click", "other"):
        pages = {path.name for path in Path("pages", label).glob("2*.html")}
        assert pages == {f"{on(3)}.html", f"{on(4)}.html"}
    # A label without a night has no page.
    with closing(sqlite3.connect("history.db")) as database, database:
        database.execute("DELETE FROM night WHERE label = 'other'")
    assert "removed rows of value" in nightly("prune", "--keep", "2d").stdout
    assert list(Path("pages/other").glob("index.html")) == []
    assert dates("value", "label = 'other'") == set()


def test_prune__of_a_report_that_lost_a_label__leaves_no_dead_link(folder: Path) -> None:
    text = Path("nightly.toml").read_text()
    several = text.replace('label = "click"', 'label = ["click", "other"]')
    for path in folder.glob("logs/day=*/*.parquet"):
        copy_label(path)
    Path("nightly.toml").write_text(f"{several}[gates]\n{OUTPUT}")
    assert nightly("--backfill", f"{on(1)}..{on(3)}", "-q").exit_code == 3
    Path("nightly.toml").write_text(f"{text}[gates]\n{OUTPUT}")
    assert nightly("--date", on(4), "-q").exit_code == 3
    assert nightly("prune", "--keep", "2d").exit_code == 0
    assert dead_links(Path("pages")) == []
    old = {page.name for page in Path("pages").rglob("*.html") if page.name < on(3)}
    assert (old, dates("night")) == (set(), {on(3), on(4)})
    assert nightly("prune", "--keep", "1d").exit_code == 0
    assert dead_links(Path("pages")) == []
    pages = {str(page.relative_to("pages")) for page in Path("pages").rglob("*.html")}
    assert pages == {"index.html", f"{on(4)}.html"}


@pytest.mark.parametrize("runs", [(4,), (1,), (2, 4), ()], ids=str)
def test_prune__of_a_report_that_gained_a_label__leaves_no_dead_link(
    folder: Path, runs: tuple[int, ...]
) -> None:
    text = Path("nightly.toml").read_text()
    several = text.replace('label = "click"', 'label = ["other", "click"]')
    for path in folder.glob("logs/day=*/*.parquet"):
        copy_label(path)
    Path("nightly.toml").write_text(f"{text}[gates]\n{OUTPUT}")
    assert nightly("--backfill", f"{on(1)}..{on(3)}", "-q").exit_code == 3
    Path("pages/2026-11-09.html").write_text("my notes")
    Path("nightly.toml").write_text(f"{several}[gates]\n{OUTPUT}")
    for day in runs:
        assert nightly("--date", on(day), "-q").exit_code == 3
        assert dead_links(Path("pages")) == []
        assert [path.name for path in Path("pages").glob("2*")] == ["2026-11-09.html"]
        listed = Path("pages/index.html").read_text()
        assert all(f'href="click/{on(day)}.html"' in listed for day in (1, 2, 3))
    assert nightly("prune", "--keep", "2d").exit_code == 0
    assert dead_links(Path("pages")) == []
    last = max((3, *runs))
    for label in ("click", "other"):
        kept_days = {on(day) for day in (last - 1, last) if label == "click" or day in runs}
        names = {path.name for path in Path("pages", label).glob("2*")}
        ends = ".html", "-groups.parquet"
        assert names == {f"{day}{end}" for day in kept_days for end in ends}
    assert {path.name for path in Path("pages").iterdir() if path.is_file()} == {
        "index.html",
        "2026-11-09.html",
    }


def copy_label(path: Path) -> None:
    from pyarrow import parquet

    table = parquet.ParquetFile(path).read()
    parquet.write_table(table.append_column("other", table["click"]), path)


def test_prune__what_waits_or_learns__is_said(folder: Path) -> None:
    wait = '[source]\nlabels_complete_after = "300d"\n'
    config = Path("nightly.toml").read_text().replace("[source]\n", wait)
    Path("nightly.toml").write_text(f'{config}[gates]\nalarm = "sequence"\n')
    assert nightly("--backfill", f"{on(1)}..{on(4)}", "-q").exit_code == 0
    said = nightly("prune", "--keep", "2d", "--dry-run").stderr
    assert "movements need 329 days of nights, and fewer stay" in said
    assert f"alarms learn from the nights since {on(3)} only" in said
    assert "2 of the nights wait for their labels, and are not judged again" in said


def test_rows__deleted_by_plain_sql__are_no_damage(nights: Path) -> None:
    whole = Path("history.db").read_bytes()
    days = {table: [f"date = '{on(5)}'", "TRUE"] for table in TABLES}
    days["value"].append("slice = 'all'")
    days["state"].append("kind = 'groups'")
    for table, conditions in days.items():
        for condition in conditions:
            Path("history.db").write_bytes(whole)
            with closing(sqlite3.connect("history.db")) as database, database:
                database.execute(f"DELETE FROM {table} WHERE {condition}")  # noqa: S608
            web = Client(web_view(HistoryFile("history.db", 1)))
            for address in ("/", f"/night/{on(6)}", "/slice?measure=GAUC", f"/night/{on(5)}"):
                assert web.get(address).status in (200, 404), (table, condition, address)
            done = nightly("--date", on(7), "-q")
            assert (done.exit_code, done.stderr) == (3, ""), (table, condition)


@pytest.mark.parametrize(
    "options, why",
    [
        ((), "--keep or --keep-states"),
        (("--keep", "4"), "--keep: must be a number of days, such as 400d, got '4'"),
        (("--keep-states", "0d"), "--keep-states: must be a number of days"),
        (("--keep", "4d"), "there is no such file; 'fastrank-eval nightly' makes it"),
    ],
)
def test_prune__wrong_options_or_no_history__are_refused(
    folder: Path, options: tuple[str, ...], why: str
) -> None:
    before = everything(folder)
    refused = nightly("prune", *options)
    assert refused.exit_code == 2
    assert why in refused.stderr
    assert everything(folder) == before


def test_prune__history_without_nights__removes_what_is_left(nights: Path) -> None:
    with closing(sqlite3.connect("history.db")) as database, database:
        database.execute("DELETE FROM night")
    done = nightly("prune", *BOTH)
    assert done.exit_code == 0
    assert "removed rows of value" in done.stdout
