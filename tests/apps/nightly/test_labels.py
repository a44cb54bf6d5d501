"""Reports of several labels: one pass, and for each label the night that it would have alone."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from click.testing import Result

from fastrank_eval.apps.nightly import alarms, run
from fastrank_eval.apps.nightly import run as nightly_run
from fastrank_eval.apps.nightly.config import NightlyConfig, folder_name, read_config
from fastrank_eval.apps.nightly.documents import documents
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.summary_files import lines as lines_of
from fastrank_eval.apps.nightly.web import HistoryFile, web_view
from tests.apps.nightly.test_notify import TABLE, Receiver, receiver
from tests.support.asgi_client import Client
from tests.support.html_elements import elements
from tests.support.nightly_runs import CONFIG, adjust, dump, nightly, on
from tests.support.nights import a_night

__all__ = ["receiver"]  # a fixture

DAYS, LABELS = range(1, 4), ("click", "order")
EVIL = "../or der"
SEVERAL = CONFIG.replace('label = "click"', 'label = ["click", "order"]').replace(
    "min_groups = 10", 'min_groups = 10\n[gates]\nfail_if = "AUC < 0.1"'
)
#: What order has for itself, as the tables of a configuration of its own.
OWN = """
[labels.order]
measures = ["LogLoss", "AUC"]
by = []
baseline = "score_b"
fail_if = "LogLoss > 0"
"""
ALONE = {
    "click": SEVERAL.replace('["click", "order"]', '"click"'),
    "order": SEVERAL.replace('["click", "order"]', '"order"')
    .replace('["GAUC", "AUC", "LogLoss"]', '["LogLoss", "AUC"]')
    .replace('["slot"]', "[]")
    .replace('baseline = "score_a"', 'baseline = "score_b"')
    .replace("AUC < 0.1", "LogLoss > 0"),
}


@pytest.fixture
def folder(month_of_logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nights with two labels more, one with a name that is no part of a path."""
    random = np.random.default_rng(7)
    for day in DAYS:
        table = parquet.read_table(month_of_logs / f"day={on(day)}")
        ordered = pa.array(table["click"].to_numpy() * (random.random(len(table)) < 0.5))
        for name in ("order", EVIL):
            table = table.append_column(name, ordered)
        path = tmp_path / f"logs/day={on(day)}/part-0.parquet"
        path.parent.mkdir(parents=True)
        parquet.write_table(table.drop_columns(["day"]) if "day" in table.schema.names else table,
                            path)  # fmt: skip
    (tmp_path / "nightly.toml").write_text(SEVERAL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def for_label(label: str = "", path: str = "history.db") -> list[Night]:
    with History(path, readonly=True) as history:
        return history.of(label).read()


def read(folder: Path, text: str) -> NightlyConfig:
    (folder / "nightly.toml").write_text(text)
    return read_config(folder / "nightly.toml")


def comparable(night: Night) -> Night:
    """A night without its label and what the clock says."""
    return replace(night, label="", seconds=0.0, command="")


def test_config__of_several_labels__has_one_for_each(tmp_path: Path) -> None:
    config = read(tmp_path, SEVERAL + OWN + '[output]\nfolder = "pages"\n')
    click, order = config.for_labels()
    assert (click.label, order.label, order.labels) == ("click", "order", ("click", "order"))
    assert click.measures == ("GAUC", "AUC", "LogLoss")
    assert order.measures == ("LogLoss", "AUC")
    assert (click.baseline, order.baseline) == ("score_a", "score_b")
    assert click.options["by"] == ("slot",)
    assert "by" not in order.options
    assert order.options["label"] == "order"
    assert (click.gates.fail_if, order.gates.fail_if) == (("AUC < 0.1",), ("LogLoss > 0",))
    assert order.folder == tmp_path / "pages" / "order"
    assert replace(config, notify=None, history=Path("x")).for_labels()[1].history == Path("x")


def test_config__of_one_label__is_what_it_was(tmp_path: Path) -> None:
    config = read(tmp_path, ALONE["click"])
    assert config == read(tmp_path, SEVERAL.replace('["click", "order"]', '["click"]'))
    assert (config.label, config.labels, config.for_labels()) == ("", (), (config,))
    own = read(tmp_path, ALONE["click"] + '[labels.click]\nmeasures = "AUC"\n')
    assert (own.label, own.measures) == ("", ("AUC",))


def test_config__models_without_the_general_baseline__have_none(tmp_path: Path) -> None:
    text = SEVERAL.replace("[gates]", '[gates]\nalarm = "sequence"')
    click, order = read(tmp_path, text + '[labels.order]\nscores = "score_b"\n').for_labels()
    assert (click.baseline, click.gates.alarm) == ("score_a", "sequence")
    assert (order.baseline, order.gates.alarm) == (None, None)


def test_config__limits__name_models_and_labels_of_any_label(tmp_path: Path) -> None:
    own = '[labels.order]\nscores = "score_b"\n[drift]\nmax_psi = { score_a = 0 }\n'
    limits = "max_null_share = { score_a = 0.1, click = 0.2 }\n"
    text = SEVERAL.replace("[gates]", "[gates]\nmin_distinct_scores = { score_a = 0 }")
    config = read(tmp_path, f"{text}{own}[quality]\n{limits}")
    for each in config.for_labels():
        assert each.drift.max_psi == each.gates.min_distinct_scores == {"score_a": 0}
        assert each.quality.max_null_share == {"score_a": 0.1, "click": 0.2}


def test_config__alarm_and_fewest_scores_of_one_label(folder: Path) -> None:
    own = '[labels.order]\nalarm = "sequence"\nalarm_since = 2026-11-02\nmin_distinct_scores = 5\n'
    click, order = read(folder, SEVERAL + own).for_labels()
    assert (click.gates.alarm, click.gates.min_distinct_scores) == (None, None)
    assert (order.gates.alarm, order.gates.alarm_since) == ("sequence", dt.date(2026, 11, 2))
    assert order.gates.min_distinct_scores == 5
    assert (click.alarms, order.alarms) == (1, 1)
    run_both("--date", on(1), "-q")
    outcomes = [for_label(label)[0].gates[1:] for label in ("click", "order")]
    assert [[each.condition for each in own] for own in outcomes] == [[], ['alarm = "sequence"']]
    both = SEVERAL.replace("[gates]", '[gates]\nalarm = "sequence"')
    assert [each.alarms for each in read(folder, both).for_labels()] == [2, 2]


def test_limits_of_quality__of_one_label__judge_it_alone(folder: Path) -> None:
    general = "[quality]\nmax_single_class_share = 0.99\nmin_coverage = 0.01\n"
    own = "[labels.order]\nmax_single_class_share = 0.001\nmin_coverage = 0.9999\n"
    click, order = read(folder, SEVERAL + general + own).for_labels()
    assert (click.quality.max_single_class_share, click.quality.min_coverage) == (0.99, 0.01)
    assert (order.quality.max_single_class_share, order.quality.min_coverage) == (0.001, 0.9999)
    assert (order.quality.min_rows, order.quality.max_ctr_drift) == (1, None)
    assert run_both("--date", on(1), "-q").exit_code == 4
    ((one,), (other,)) = map(for_label, LABELS)
    assert (one.quality.flags, other.status) == ((), "data_quality")
    assert one.status != "data_quality"
    coverage, share = sorted(other.quality.flags)
    assert (coverage.split()[0], share.split()[-1]) == ("coverage", "0.001")
    assert other.conventions["quality"]["max_single_class_share"] == 0.001  # type: ignore[index]


@pytest.mark.parametrize(
    "label", ["..", "", "/", "a/../b", "index.html", "a\\b", "~", "CON:", EVIL, "é", "\ud800"]
)
def test_folder_name__of_any_label__is_a_part_of_a_path(label: str) -> None:
    name = folder_name(label)
    assert all(character.isalnum() or character in "_-~" for character in name)
    assert name.isascii()
    assert name not in ("..", ".", "index.html")
    assert folder_name(name) == name or "~" in name


def run_both(*arguments: str) -> Result:
    return nightly("nightly.toml", *arguments)


@pytest.mark.parametrize("arguments", [(), ("--no-labels",)])
def test_each_label__has_the_bits_that_it_has_alone(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    adjust(folder, OWN)
    backfill = "--backfill", f"{on(1)}..{on(3)}", "-q", *arguments
    assert run_both(*backfill).exit_code == (0 if arguments else 3)
    for label, text in ALONE.items():
        Path(f"{label}.toml").write_text(text + f'[history]\nfile = "{label}.db"\n')
        nightly(f"{label}.toml", *backfill)
        together, alone = for_label(label), for_label(path=f"{label}.db")
        assert [night.date.day for night in together] == list(DAYS)
        assert list(map(comparable, together)) == list(map(comparable, alone))
        assert {night.label for night in together} == {label}
        with History("history.db") as both, History(f"{label}.db") as one:
            for kind in ("groups", "sums", "scores", "drift"):
                for night in together:
                    assert both.of(label).state(night.date, kind) == one.state(night.date, kind)


def test_exit_code_and_lines__are_of_the_worst_label(folder: Path) -> None:
    adjust(folder, '[labels.order]\nfail_if = "AUC > 0"\n')
    outcome = run_both("--date", on(1), "--json", "told.json")
    assert outcome.exit_code == 3
    lines = outcome.stdout.splitlines()
    assert lines[0] == f"{on(1)} REGRESSION: click fine, order REGRESSION"
    assert [line.split(":")[0] for line in lines if line[:2] == "  " != line[1:3]] == [
        "  click fine", "  order REGRESSION",
    ]  # fmt: skip
    told = json.loads(Path("told.json").read_text())
    assert (told["schema"], told["exit_code"]) == (1, 3)
    assert [(night["label"], night["status"]) for night in told["nights"]] == [
        ("click", "fine"), ("order", "regression"),
    ]  # fmt: skip
    (step,) = told["nights"][1]["next_steps"][:1]
    assert " --label order " in step["command"]


def test_markdown__of_several_labels__begins_with_their_statuses(folder: Path) -> None:
    run_both("--date", on(1), "-q")
    text = run_both("--date", on(2), "--markdown").stdout
    lines = text.splitlines()
    assert lines[0] == f"**Test, {on(2)}: fine**"
    assert lines[2] == "`click` fine, `order` fine"
    assert f"**`click`, {on(2)}: fine**" in lines
    assert f"**`order`, {on(2)}: fine**" in lines
    assert text.count("confidence intervals") == 1
    assert text.count("Last 2 days") == 2


def test_dry_run__of_several_labels__writes_nothing(folder: Path) -> None:
    adjust(folder, '[output]\nfolder = "pages"\n')
    outcome = run_both("--date", on(1), "--dry-run")
    assert (outcome.exit_code, outcome.stdout.splitlines()[0]) == (
        0, f"{on(1)} fine: click fine, order fine",
    )  # fmt: skip
    assert not Path("history.db").exists()
    assert not Path("pages").exists()


def test_label__that_the_rows_lack__stops_the_night_of_all(folder: Path) -> None:
    (folder / "nightly.toml").write_text(SEVERAL.replace('"order"]', '"order", "cart"]'))
    outcome = run_both("--date", on(1), "--json", "told.json")
    assert outcome.exit_code == 2
    assert "cart" in outcome.stderr
    assert len(json.loads(Path("told.json").read_text())["nights"]) == 1
    assert not Path("history.db").exists()


def test_night_that_fails__under_other_labels__renames_none(folder: Path) -> None:
    pages = '[output]\nfolder = "pages"\n'
    for right, wrong in (
        (ALONE["click"], SEVERAL.replace('"order"]', '"cart"]')),
        (SEVERAL, SEVERAL.replace('"order"]', '"cart"]')),
        (SEVERAL, ALONE["click"].replace('"click"', '"cart"')),
    ):
        Path("history.db").unlink(missing_ok=True)
        (folder / "nightly.toml").write_text(right + pages)
        assert run_both("--date", on(1), "-q").exit_code == 0
        before, rows = named(), dump()
        (folder / "nightly.toml").write_text(wrong + pages)
        assert run_both("--date", on(2), "-q").exit_code == 2
        assert (named(), dump(on(2))) == (before, rows)
        with History("history.db", readonly=True) as history:
            for label in before[0] or ("",):
                (reason,) = history.of(label).failures().values()
                assert "cart" in reason
        (folder / "nightly.toml").write_text(right + pages)
        assert run_both("--date", on(2), "-q").exit_code == 0
        assert (named()[0], len(named()[1])) == (before[0], 2 * len(before[1]))
        with History("history.db", readonly=True) as history:
            assert not any(history.of(label).failures() for label in before[0] or ("",))


def named() -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """The labels of the history, and the names and dates of its nights."""
    with History("history.db", readonly=True) as history:
        return history.labels(), history.execute("SELECT label, date FROM night ORDER BY 1, 2")


def test_labels__that_change_often__keep_the_nights_of_each(folder: Path) -> None:
    run_both("--date", on(1), "-q")
    before = {label: for_label(label)[0] for label in ("click", "order")}
    (folder / "nightly.toml").write_text(ALONE["click"])
    run_both("--date", on(2), "-q")
    before["click 2"] = for_label()[1]
    (folder / "nightly.toml").write_text(ALONE["order"])
    lines = dump()
    dry = run_both("--date", on(2), "--dry-run", "--json", "-")
    assert json.loads(dry.stdout)["nights"][0]["headline"][0]["yesterday"] is not None
    assert dump() == lines
    run_both("--date", on(2), "-q")
    assert comparable(for_label()[0]) == comparable(before["order"])
    assert {difference.kind for difference in for_label()[1].compared} >= {"yesterday"}
    assert list(map(comparable, for_label("click"))) == [
        comparable(before[key]) for key in ("click", "click 2")
    ]
    (folder / "nightly.toml").write_text(SEVERAL)
    run_both("--date", on(3), "-q")
    nights = {label: for_label(label) for label in ("", "click", "order")}
    assert {label: [each.date.day for each in of] for label, of in nights.items()} == {
        "": [], "click": [1, 2, 3], "order": [1, 2, 3],
    }  # fmt: skip
    for label in LABELS:
        columns = [night.conventions["columns"] for night in nights[label]]
        assert [each["label"] for each in columns] == [label] * 3


def test_label__that_gets_another_name__continues_its_nights(folder: Path) -> None:
    (folder / "nightly.toml").write_text(ALONE["click"])
    run_both("--date", on(1), "-q")
    (folder / "nightly.toml").write_text(ALONE["order"])
    run_both("--date", on(2), "-q")
    assert [night.date.day for night in for_label()] == [1, 2]


def test_night_run_again__leaves_other_nights_of_each_label(folder: Path) -> None:
    run_both("--backfill", f"{on(1)}..{on(2)}", "-q")
    before = dump(on(2))
    run_both("--date", on(2), "-q")
    assert dump(on(2)) == before
    database = sqlite3.connect("history.db")
    rows = database.execute("SELECT label, date FROM night ORDER BY 1, 2").fetchall()
    database.close()
    assert rows == [(label, on(day)) for label in ("click", "order") for day in (1, 2)]


def test_pages__of_labels_with_any_name__link_to_each_other(folder: Path) -> None:
    text = SEVERAL.replace('"order"]', json.dumps(EVIL) + "]")
    (folder / "nightly.toml").write_text(text + '[output]\nfolder = "pages"\n')
    before = {path.name for path in folder.iterdir()}
    run_both("--backfill", f"{on(1)}..{on(2)}", "-q")
    other = folder_name(EVIL)
    assert {path.name for path in folder.iterdir()} - before == {"history.db", "pages"}
    assert sorted(str(path.relative_to("pages")) for path in Path("pages").rglob("*.html")) == [
        *(f"click/{name}.html" for name in (on(1), on(2), "index")),
        "index.html",
        *(f"{other}/{name}.html" for name in (on(1), on(2), "index")),
    ]
    links = addresses(Path("pages/index.html").read_text())
    assert {f"click/{on(2)}.html", f"{other}/{on(1)}.html", f"{other}/index.html"} <= links
    night = Path(f"pages/click/{on(2)}.html").read_text()
    assert {f"../{other}/{on(2)}.html", "../index.html", f"{on(1)}.html"} <= addresses(night)
    assert addresses(Path(f"pages/{other}/{on(1)}.html").read_text()) >= {f"../click/{on(1)}.html"}
    for page in Path("pages").rglob("*.html"):
        for address in addresses(page.read_text()):
            assert (page.parent / address.partition("#")[0]).exists() or address[:1] == "#"


def test_page_of_all_labels__counts_the_dates_that_have_a_night(folder: Path) -> None:
    (folder / "nightly.toml").write_text(SEVERAL + '[output]\nfolder = "pages"\n')
    run_both("--backfill", f"{on(1)}..{on(2)}", "-q")
    Path(f"logs/day={on(3)}").rename("gone")
    assert run_both("--date", on(3)).exit_code == 2
    index = Path("pages/index.html").read_text()
    assert f"{on(3)} was not evaluated" in index
    assert f"<p>2 nights to {on(2)}</p>" in index
    client = Client(web_view(HistoryFile("history.db", 1.0)))
    assert f"<p>2 nights to {on(2)}</p>" in client.get("/").text


def addresses(page: str) -> set[str]:
    return {one.attributes["href"] for one in elements(page) if "href" in one.attributes}


def test_page_of_all_labels__does_not_replace_another_file(folder: Path) -> None:
    adjust(folder, '[output]\nfolder = "pages"\n')
    Path("pages").mkdir()
    Path("pages/index.html").write_text("mine")
    outcome = run_both("--date", on(1))
    assert (outcome.exit_code, Path("pages/index.html").read_text()) == (2, "mine")
    assert not Path("history.db").exists()


def test_worst_groups__of_each_label__lie_beside_its_page(folder: Path) -> None:
    adjust(folder, '[output]\nfolder = "pages"\n[labels.order]\nfail_if = "GAUC > 0"\n')
    run_both("--date", on(1), "-q")
    assert [str(path) for path in Path("pages").rglob("*.parquet")] == [
        f"pages/order/{on(1)}-groups.parquet"
    ]


def test_web_view__shows_the_requested_label(folder: Path) -> None:
    adjust(folder, '[labels.order]\nfail_if = "AUC > 0"\n')
    run_both("--backfill", f"{on(1)}..{on(2)}", "-q")
    client = Client(web_view(HistoryFile("history.db", 1)), host="localhost")
    first = client.get("/").text
    assert {"/?label=click", f"/night/{on(1)}?label=click"} - addresses(first) == {"/?label=click"}
    assert "/?label=order" in addresses(first)
    order = client.get("/?label=order").text
    assert f"/night/{on(2)}?label=order" in addresses(order)
    assert order.count("Regression") > first.count("Regression") > 0
    night = client.get(f"/night/{on(2)}?label=order").text
    assert {f"/night/{on(2)}?label=click", "/?label=order"} <= addresses(night)
    assert "Test · order" in night
    (address,) = {link for link in addresses(night) if link.startswith("/compare")}
    assert "label=order" in address
    assert client.get(address).status == 200
    slices = [link for link in addresses(night) if link.startswith("/slice")]
    assert slices
    assert all(client.get(link).status == 200 for link in slices[:2])
    assert [client.get(f"/{path}?label=nobody").status for path in ("", f"night/{on(1)}")] == [
        404, 404,
    ]  # fmt: skip


def test_alarm__of_several_labels__shares_the_probability(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    judged = alarms.judge_alarms

    def counted(*arguments: Any, labels: int) -> Any:
        seen.append(labels)
        return judged(*arguments, labels=labels)

    monkeypatch.setattr(nightly_run, "judge_alarms", counted)
    alarm = '[gates]\nalarm = "sequence"'
    (folder / "nightly.toml").write_text(SEVERAL.replace("[gates]", alarm))
    run_both("--date", on(1), "-q")
    (folder / "nightly.toml").write_text(ALONE["click"] + '[history]\nfile = "one.db"\n')
    run_both("--date", on(1), "-q")
    assert seen == [2, 2, 1]


def test_bad_rows__fail_once_in_the_headline(folder: Path) -> None:
    adjust(folder, "[quality]\nmin_rows = 1000000\n")
    outcome = run_both("--date", on(1))
    assert outcome.exit_code == 4
    assert outcome.stdout.count("cannot be relied on") == 1
    assert {night.status for label in ("click", "order") for night in for_label(label)} == {
        "data_quality"
    }


def test_history__of_labels__keeps_them_apart(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with History(path) as history:
        history.claim("one", ["a", "b"])
        history.write(replace(a_night(1), label="a"))
        history.write(replace(a_night(1, 0.25), label="b"))
        assert history.labels() == ("a", "b")
        assert history.dates() == []
        assert [history.of(label).read()[0].values[0].value for label in "ab"] == [
            a_night(1).values[0].value, 0.25,
        ]  # fmt: skip
        history.claim("one", ["b", "a"])
        assert history.labels() == ("b", "a")
        tables = history.export(tmp_path / "tables")
    values = parquet.read_table(next(path for path in tables if path.name == "value.parquet"))
    assert set(values["label"].to_pylist()) == {"a", "b"}
    assert values["date"].to_pylist()[0] == dt.date(2026, 11, 1)


def test_provisional_night__of_several_labels__is_judged_again_for_each(folder: Path) -> None:
    text = SEVERAL.replace("[source]", '[source]\nlabels_complete_after = "2d"')
    config, night = read(folder, text), dt.date(2026, 11, 1)
    early, late = (dt.datetime(2026, 11, day, 5, tzinfo=dt.UTC) for day in (2, 4))
    outcomes = nightly_run.nightly(config, night, now=early)
    assert [each.night.provisional for each in outcomes] == [True, True]
    due_nights = run.due_nights
    assert due_nights(config, early) == {}
    assert due_nights(config, late) == {night: ("click", "order")}
    outcomes = nightly_run.nightly(config, night, now=late)
    assert [each.night.status for each in outcomes] == ["fine", "fine"]
    assert all(each.night.judged_before is not None for each in outcomes)
    assert due_nights(config, late) == {}


def test_label__whose_labels_come_later__is_judged_again_alone(folder: Path) -> None:
    text = SEVERAL.replace("[source]", '[source]\nlabels_complete_after = "1d"')
    text += '[labels.order]\nlabels_complete_after = "3d"\nprovisional = "fail"\n'
    config, night = read(folder, text), dt.date(2026, 11, 1)
    second, third, fifth = (dt.datetime(2026, 11, day, 5, tzinfo=dt.UTC) for day in (2, 3, 5))
    outcomes = nightly_run.nightly(config, night, now=second)
    assert [each.night.provisional for each in outcomes] == [True, True]
    nights = [each.night for each in outcomes]
    assert [each.labels_complete.day for each in nights if each.labels_complete] == [3, 5]
    assert [each.gates.provisional for each in config.for_labels()] == [None, "fail"]
    due = run.due_nights(config, third)
    assert due == {night: ("click",)}
    (click,) = nightly_run.nightly(config.select(due[night]), night, now=third)
    assert (click.night.label, click.night.provisional) == ("click", False)
    assert click.night.judged_before is not None
    lines = lines_of(documents([click.night]))
    assert lines.startswith("2026-11-01 fine: click fine\n")
    assert "judged again with complete labels" in lines
    assert for_label("order")[0].provisional
    due = run.due_nights(config, fifth)
    assert due == {night: ("order",)}
    before = for_label("click")
    (order,) = nightly_run.nightly(config.select(due[night]), night, now=fifth)
    assert (order.night.label, for_label("order")[0].provisional) == ("order", False)
    assert str(for_label("click")) == str(before)
    with History("history.db", readonly=True) as history:
        assert history.labels() == ("click", "order")


def test_column_of_drift__that_is_gone_with_new_labels__is_noted(folder: Path) -> None:
    drift = f'[drift]\ncolumns = ["{EVIL}"]\n'
    (folder / "nightly.toml").write_text(ALONE["click"] + drift)
    assert run_both("--date", on(1), "-q").exit_code == 0
    for path in folder.glob(f"logs/day={on(2)}/*"):
        parquet.write_table(parquet.ParquetFile(path).read().drop_columns([EVIL]), path)
    (folder / "nightly.toml").write_text(SEVERAL + drift)
    assert run_both("--date", on(2), "-q").exit_code == 0
    for label in LABELS:
        assert any("is gone" in note for note in for_label(label)[-1].notes)


@pytest.mark.parametrize("arguments,runs", [((), 3), (("--no-labels",), 2)])
def test_columns_of_drift__are_read_once_for_all_labels(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], runs: int
) -> None:
    adjust(folder, f'[drift]\ncolumns = ["{EVIL}"]\n')
    passes: list[int] = []
    together: Any = vars(nightly_run)["run_together"]

    def counted(requests: Sequence[Any]) -> Any:
        passes.append(len(requests))
        return together(requests)

    monkeypatch.setattr(nightly_run, "run_together", counted)
    run_both("--date", on(1), "-q", *arguments)
    assert passes == [runs]
    drift = [[one for one in for_label(label)[0].drift if one.name == EVIL] for label in LABELS]
    assert len(drift[0]) >= 1
    assert str(drift[0]) == str(drift[1])


def test_config__label_with_some_of_the_computed_scores__has_their_expressions(
    tmp_path: Path,
) -> None:
    scores = 'scores = { ctr = "score_a", ctcvr = "score_a * score_b" }'
    text = SEVERAL.replace('scores = ["score_a", "score_b"]', scores)
    text = text.replace('baseline = "score_a"', 'baseline = "ctr"')
    click, order = read(tmp_path, text + '[labels.order]\nscores = "ctcvr"\n').for_labels()
    assert click.models == ("ctr", "ctcvr")
    assert (order.scores, order.baseline) == ({"ctcvr": "score_a * score_b"}, None)


def test_message__is_sent_if_any_label_asks_for_it(folder: Path, receiver: Receiver) -> None:
    fails = '[labels.order]\nfail_if = "LogLoss > 0"\n'
    for day, own, count in ((1, "", 0), (2, fails, 1), (3, fails, 1)):
        (folder / "nightly.toml").write_text(f'{SEVERAL}{own}{TABLE}when = "change"\n')
        nightly("--date", on(day), "-q")
        assert len(receiver.texts) == count
    assert receiver.texts[0].startswith(f"Test\n{on(2)} REGRESSION: click fine, order REGRESSION")
    assert nightly("--date", "2027-01-01", "-q").exit_code == 2
    assert receiver.texts[1:] == [receiver.texts[-1]]
    assert receiver.texts[1].startswith("Test\n2027-01-01 NOT EVALUATED: ")
