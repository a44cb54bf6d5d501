"""Configurations of nightly reports: what is read, what is refused, and in which words."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.nightly.config import example, read_config
from fastrank_eval.apps.nightly.config_checks import TABLES
from fastrank_eval.apps.nightly.periods import fill_date, parse_date, parse_date_range
from tests.support.transcripts import Case, cases

LEAST = """
[source]
path = "logs/day={date}"
[columns]
group = "user"
label = "click"
[models]
scores = ["old", "new"]
"""
NIGHT = dt.date(2026, 11, 19)


def read(folder: Path, text: str) -> Any:
    file = folder / "nightly.toml"
    file.write_text(text, encoding="utf-8")
    return read_config(file)


def complaints(folder: Path, text: str) -> list[str]:
    with pytest.raises(ArgumentError) as caught:
        read(folder, text)
    prefix = f"{folder / 'nightly.toml'}: "
    lines = str(caught.value).splitlines()
    assert all(line.startswith(prefix) for line in lines)
    return [line.removeprefix(prefix) for line in lines]


@pytest.mark.parametrize("case", cases("nightly_mistakes"), ids=str)
def test_mistake__is_told_with_its_place_and_remedy(tmp_path: Path, case: Case) -> None:
    text, more = case.edited(LEAST)
    case.check(complaints(tmp_path, "\n".join([text, *more])))


def test_least_configuration__takes_defaults(tmp_path: Path) -> None:
    config = read(tmp_path, LEAST)
    assert config.sources(NIGHT) == [str(tmp_path / "logs/day=2026-11-19")]
    assert config.history == tmp_path / "history.db"
    assert (config.folder, config.baseline, config.where) == (None, None, None)
    assert config.options == {"group": ("user",), "label": "click", "confidence": 0.95}
    assert config.measures[0] == "GAUC"


def test_limit_of_ties__that_is_off__goes_with_ties_that_are_not_counted(tmp_path: Path) -> None:
    quality = read(tmp_path, f"{LEAST}\n[quality]\nties = false\nmax_tie_rise = 0\n").quality
    assert (quality.ties, quality.max_tie_rise, quality.max_tie_rate) == (False, 0, None)
    assert read(tmp_path, f"{LEAST}\n[quality]\nties = false\n").quality.max_tie_rise == 0.02


def test_example__is_valid__as_it_is_and_with_every_key(tmp_path: Path) -> None:
    assert read(tmp_path, example()).baseline == "score_a"
    every = re.sub(r"^# (\w+ = |\[notify\])", r"\1", example(), flags=re.MULTILINE)
    config = read(tmp_path, every)
    assert (config.report, config.states) == ("nightly", "slices")
    assert config.folder == tmp_path / "report"
    assert config.options["profile"] == "catboost"
    named = set(re.findall(r"^(\w+) = ", every, re.MULTILINE))
    assert named == {key for keys in TABLES.values() for key in keys}


def test_paths__dates_and_folders(tmp_path: Path) -> None:
    text = LEAST.replace(
        'path = "logs/day={date}"',
        'path = ["/data/{date:%Y/%m/%d}/*.csv", "s3://logs/{date:%j}{{x}}"]\n'
        "where = \"day = '{date}'\"",
    )
    config = read(tmp_path, text + '[output]\nfolder = "/pages"\n')
    assert config.sources(NIGHT) == ["/data/2026/11/19/*.csv", "s3://logs/323{x}"]
    assert config.condition(NIGHT) == "day = '2026-11-19'"
    assert config.folder == Path("/pages")


def test_lists__may_be_empty_where_none_is_meant(tmp_path: Path) -> None:
    config = read(tmp_path, LEAST + "[slices]\nby = []\n[gates]\nfail_if = []\n")
    assert "by" not in config.options
    assert config.gates.fail_if == ()


def test_dates__before_all_nights__are_told() -> None:
    with pytest.raises(ArgumentError, match="lies before 1900-01-01"):
        parse_date("0001-01-03")


def test_gates__of_slices_and_baselines__are_checked(tmp_path: Path) -> None:
    text = f"{LEAST}baseline = \"old\"\n[slices]\nby = ['slot', 'slot,age:18,25', '@rows:1,5']\n"
    good = [
        "GAUC[slot=a] delta < 0", "new:GAUC[@rows=1-4] p_adjusted < 0.1",
        'GAUC["slot=""a,b"",age=[18,25)"] < 0.5', 'GAUC["slot=a,age<18"] groups < 3',
        "GAUC[*] dropped_share > 1",
    ]  # fmt: skip
    read(tmp_path, f"{text}[gates]\nfail_if = {good!r}\nfail_if_yesterday = ['old:GAUC delta < 0']")


@pytest.mark.parametrize("measure", ["AUC", "AUC(rel=1)", "AUC(se='clustered')"])
def test_gate__on_the_error_of_auc__is_accepted(tmp_path: Path, measure: str) -> None:
    text = f'{LEAST}baseline = "old"\n[evaluate]\nmeasures = ["{measure}"]\n[gates]\n'
    conditions = f'"{measure} ci_low < 0.5", "{measure} p_adjusted < 0.05"'
    read(tmp_path, f'{text}fail_if = [{conditions}]\nalarm = "sequence"\n')


@pytest.mark.parametrize("text", ["2026-11-01", '"2026-11-01"'])
def test_alarm__begins_on_a_date(tmp_path: Path, text: str) -> None:
    compared = LEAST + 'baseline = "old"\n[gates]\nalarm = "sequence"\n'
    assert read(tmp_path, compared).gates.alarm_since is None
    gates = read(tmp_path, f"{compared}alarm_since = {text}\n").gates
    assert (gates.alarm, gates.alarm_since) == ("sequence", dt.date(2026, 11, 1))


def test_file__missing_or_no_toml_or_no_text__is_told(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no such file; 'fastrank-eval nightly --init"):
        read_config(tmp_path / "none.toml")
    with pytest.raises(ArgumentError, match=r"is not TOML: .*line 1"):
        read(tmp_path, "title = \n")
    for text in ("x = 1" + 5000 * "0", "x = " + 3000 * "["):
        with pytest.raises(ArgumentError, match="is TOML that cannot be read: "):
            read(tmp_path, text)
    assert read(tmp_path, "\ufeff" + LEAST).scores == ("old", "new")
    with pytest.raises(ArgumentError, match="cannot be read: Is a directory"):
        read_config(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'title = "\xff"')
    with pytest.raises(ArgumentError, match="is not UTF-8 text"):
        read_config(tmp_path / "latin.toml")


def test_dates__ranges() -> None:
    assert parse_date("2026-02-28") == dt.date(2026, 2, 28)
    assert len(parse_date_range("2024-02-28..2024-03-01")) == 3
    for wrong in ("2026-02-30", "20260228", "yesterday", "2026-W10-1"):
        with pytest.raises(ArgumentError, match="is not a date"):
            parse_date(wrong)
    with pytest.raises(ArgumentError, match=r"write 2026-11-01\.\.2026-11-19"):
        parse_date_range("2026-11-19..2026-11-01")
    with pytest.raises(ArgumentError, match="is not a range"):
        parse_date_range("2026-11-19")
    with pytest.raises(ArgumentError, match="3,660 at most"):
        parse_date_range("1926-11-19..2026-11-19")
    assert fill_date("{{date}}", NIGHT) == "{date}"
    with pytest.raises(ArgumentError, match="is not known"):
        fill_date("{date:}", NIGHT)
