"""Composition or model: the change from an earlier night, split by slices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.periods import (
    composition_parts,
    composition_texts,
    find_composition,
    with_compositions,
)
from tests.support.nightly_runs import damage, kept, nightly, on

CONFIG = """
title = "Composition"
[source]
path = "rows/{date}.parquet"
[columns]
group = "user"
label = "click"
[models]
scores = ["pctr"]
[evaluate]
measures = ["AP", "AUC"]
[slices]
by = ["country", "@rows:3", "slot"]
"""
#: Labels in descending order of score, with their AP: 1 and 1/2.
GOOD, BAD = [1, 0], [0, 1]
Users = list[tuple[str, list[int]]]


def write_night(day: int, users: Users) -> None:
    """Write a night of users, each with a country and the labels of its rows."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("user", "click", "pctr", "country", "slot")
    }
    for user, (country, labels) in enumerate(users):
        for place, label in enumerate(labels):
            row = (user, label, 1 - place / 10, country, f"slot{place}")
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    pq.write_table(pa.table(columns), f"rows/{on(day)}.parquet")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rows").mkdir()
    Path("nightly.toml").write_text(CONFIG)
    return tmp_path


def night_of(day: int) -> dict[str, Any]:
    outcome = nightly("--date", on(day), "--json", "-")
    assert outcome.stderr == ""
    night: dict[str, Any] = json.loads(outcome.stdout)["nights"][0]
    return night


def ap_mix(night: dict[str, Any], kind: str = "yesterday") -> dict[str, Any]:
    (entry,) = [each for each in night["headline"] if each["measure"] == "AP"]
    composition: dict[str, Any] = entry["composition"][kind]
    return composition


def night_with_mixes(day: int) -> Night:
    with History("history.db", readonly=True) as history:
        return with_compositions(kept()[day - 1], history)


def test_change_of_shares__is_mix(folder: Path) -> None:
    write_night(1, [("de", GOOD)] * 60 + [("us", BAD)] * 20)
    write_night(2, [("de", GOOD)] * 20 + [("us", BAD)] * 60)
    assert ap_mix({"headline": night_of(1)["headline"]}) is None
    composition = ap_mix(night_of(2))
    parts = "within slices +0.000, composition of country -0.250"
    assert f"  AP of pctr since yesterday: {parts}\n" in nightly("--date", on(2)).stdout
    one = find_composition(night_with_mixes(2), "yesterday", "pctr", "AP")
    assert one is not None
    parts = one.difference, one.composition, one.within, one.remainder
    assert parts == pytest.approx((-0.25, -0.25, 0, 0), abs=1e-15)
    told = [composition[name] for name in ("by", "difference", "composition", "within")]
    assert told == ["country", *parts[:3]]


DE, US = [("de", GOOD)], [("us", GOOD)]
US_BAD = [("us", BAD)]


@pytest.mark.parametrize(
    "first, second, within, composition",
    [
        (DE * 4 + US * 4, DE * 4 + US_BAD * 4, -0.25, 0.0),
        # Shares 3/4, 1/4 -> 1/4, 3/4; values 1, 1/2 -> 1, 3/4.
        (DE * 6 + US_BAD * 2, DE * 2 + US * 3 + US_BAD * 3, 0.5 * 0.25, -0.5 * (1 - 0.625)),
        # The demand of 30 groups leaves out every slice of these nights in the report.
        (DE * 3 + US_BAD, DE + US_BAD * 3, 0.0, -0.25),
    ],
)
def test_change__adds_up_as_the_identity_says(
    folder: Path, first: Users, second: Users, within: float, composition: float
) -> None:
    write_night(1, first)
    write_night(2, second)
    night_of(1)
    assert all(v.slice == "all" for v in kept()[0].values)
    found = ap_mix(night_of(2))
    assert found["within"] == pytest.approx(within, abs=1e-15)
    assert found["composition"] == pytest.approx(composition, abs=1e-15)
    assert found["difference"] == pytest.approx(within + composition, abs=1e-15)


def test_models__are_split_by_the_same_slices(folder: Path) -> None:
    """The AP of the second model is 1 everywhere: each slicing explains it."""
    config = CONFIG.replace('["pctr"]', '["pctr", "good"]')
    Path("nightly.toml").write_text(config.replace('"country", "@rows:3"', '"@rows:3", "country"'))
    for day, countries in ((1, ["de"] * 6 + ["us"] * 2), (2, ["de"] * 2 + ["us"] * 6)):
        write_night(day, [(one, GOOD if one == "de" else BAD) for one in countries])
        table = pq.read_table(f"rows/{on(day)}.parquet")
        pq.write_table(table.append_column("good", table["click"]), f"rows/{on(day)}.parquet")
    night_of(1)
    night = night_of(2)
    compositions = [
        one["composition"]["yesterday"] for one in night["headline"] if one["measure"] == "AP"
    ]
    assert [one["by"] for one in compositions] == ["country", "country"]
    assert [one["composition"] for one in compositions] == pytest.approx([-0.25, 0.0], abs=1e-15)


def test_week_ago__has_its_own_parts_and_pooled_measures_none(folder: Path) -> None:
    write_night(1, [("de", GOOD)] * 6 + [("us", BAD)] * 2)
    write_night(8, [("de", GOOD)] * 2 + [("us", BAD)] * 6)
    night_of(1)
    night = night_of(8)
    assert ap_mix(night) is None
    assert ap_mix(night, "last_week")["composition"] == pytest.approx(-0.25, abs=1e-15)
    (auc,) = [each for each in night["headline"] if each["measure"] == "AUC"]
    assert auc["composition"] == {"yesterday": None, "last_week": None}


def test_text__of_a_change_that_is_not_significant__is_silent(folder: Path) -> None:
    write_night(1, [("de", GOOD)] * 6 + [("us", BAD)] * 2)
    write_night(2, [("de", GOOD)] * 5 + [("us", BAD)] * 3)
    night_of(1)
    night_of(2)
    night = night_with_mixes(2)
    assert night.compositions
    assert composition_texts(night) == []


def test_slices_that_cut_groups__have_a_remainder_that_is_named(folder: Path) -> None:
    """By slot a group has one row, whose AP is 1: nothing changes in a slot."""
    Path("nightly.toml").write_text(CONFIG.replace('"country", "@rows:3", ', ""))
    write_night(1, [("de", GOOD)] * 4)
    write_night(2, [("de", BAD)] * 4)
    night_of(1)
    composition = ap_mix(night_of(2))
    assert (composition["by"], composition["within"]) == ("slot", 0)
    assert composition["remainder"] == pytest.approx(-0.5 - composition["composition"], abs=1e-15)
    (one,) = night_with_mixes(2).compositions
    assert [name for name, _ in composition_parts(one)][-1] == "not by these slices"


@pytest.mark.parametrize("by", ["", 'by = ["pctr:quantile2"]'])
def test_night__without_comparable_slices__has_no_parts(folder: Path, by: str) -> None:
    text = CONFIG.replace('by = ["country", "@rows:3", "slot"]', by)
    Path("nightly.toml").write_text(text.replace("[slices]\n" * (not by), ""))
    write_night(1, [("de", GOOD)] * 4)
    write_night(2, [("de", [0, 0, 1])] * 4)
    night_of(1)
    assert ap_mix(night_of(2)) is None


def test_state__that_cannot_be_read__leaves_the_night_without_parts(folder: Path) -> None:
    write_night(1, [("de", GOOD)] * 4 + [("us", BAD)])
    write_night(2, [("de", GOOD)] * 4 + [("us", BAD)] * 2)
    night_of(1)
    damage(on(1))
    assert ap_mix(night_of(2)) is None
