"""Configurations of nightly reports: what is read, what is refused, and in which words."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.nightly.config import TABLES, example, read_config
from fastrank_eval.apps.nightly.dates import fill_date, parse_date, parse_date_range

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


def test_least_configuration__takes_defaults(tmp_path: Path) -> None:
    config = read(tmp_path, LEAST)
    assert config.sources(NIGHT) == [str(tmp_path / "logs/day=2026-11-19")]
    assert config.history == tmp_path / "history.db"
    assert (config.folder, config.baseline, config.where) == (None, None, None)
    assert config.options == {"group": ("user",), "label": "click", "confidence": 0.95}
    assert config.measures[0] == "GAUC"


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


@pytest.mark.parametrize(
    "change,expected",
    [
        (("group =", "grup ="), [
            "[columns] grup = 'user': there is no such key. Did you mean 'group'? [columns] takes "
            "group, label, weight, item, subtopics.",
            "[columns]: the key 'group' is missing; add it.",
        ]),
        (("[columns]", 'labels_complete_after = "3d"\n[columns]\nalarm = "sequence"'), [
            "[columns] alarm = 'sequence': is a key of [gates]; write it there.",
        ]),
        (("[source]", 'alarm = "sequence"\n[source]'), [
            "alarm = 'sequence': is a key of [gates]; write it there.",
        ]),
        (("[source]", 'titel = "x"\n[source]'), [
            "titel = 'x': there is no such key. Did you mean 'title'? The top of the file takes "
            "title.",
        ]),
        (("[models]", "[model]"), [
            "[model]: there is no such table. Did you mean 'models'? Tables are source, columns, "
            "models, evaluate, slices, gates, quality, drift, history, output, notify, labels.",
            "[models]: the key 'scores' is missing; add it.",
        ]),
        (('label = "click"', "label = 3"), [
            "[columns] label = 3: must be a string or a list of strings, at least one.",
        ]),
        (('["old", "new"]', '["old", "old"]'), [
            "[models] scores = ['old', 'old']: must be a list of distinct strings, and 'old' "
            "occurs twice.",
        ]),
        (("[columns]", 'format = "tsx"\n[columns]'), [
            "[source] format = 'tsx': must be one of 'parquet', 'arrow', 'csv', 'tsv'. Did you "
            "mean 'tsv'?",
        ]),
        (('["old", "new"]', "[]"), [
            "[models] scores = []: must be a string or a list of strings, at least one.",
        ]),
        (("day={date}", "day=1"), [
            "[source] path = ['logs/day=1']: every night would read the same rows; write {date} "
            "where the night's date stands, as in 'logs/day={date}/*.parquet', or in where: \"day "
            "= '{date}'\".",
        ]),
        (("{date}", "{day}"), [
            "[source] path = 'logs/day={day}': '{day}' in 'logs/day={day}' is not known; write "
            "{date} or, for instance, {date:%Y%m%d}.",
        ]),
        (("{date}", "{date}}"), [
            "[source] path = 'logs/day={date}}': '}' in 'logs/day={date}}' has no counterpart; "
            "double it to write a brace.",
        ]),
    ],
)  # fmt: skip
def test_mistake__is_told_with_its_place_and_remedy(
    tmp_path: Path, change: tuple[str, str], expected: list[str]
) -> None:
    assert complaints(tmp_path, LEAST.replace(*change)) == expected


@pytest.mark.parametrize(
    "text,expected",
    [
        ('[evaluate]\nmeasures = ["GAUK"]', r"\[evaluate\] measures = 'GAUK': .*GAUC"),
        ('[evaluate]\nties = "expectd"', r"ties = 'expectd': .* Did you mean 'expected'\?"),
        ("[evaluate]\nconfidence = 1.0", r"confidence = 1.0: must be a number above 0 and below 1"),
        ("[evaluate]\nconfidence = true", r"confidence = True: must be a number above 0"),
        ("[evaluate]\nconfidence = nan", r"confidence = nan: must be a number above 0"),
        ("[evaluate]\nthreads = 0", r"threads = 0: must be a whole number of at least 1"),
        ('[evaluate]\nprofile = "catbost"', r"profile = 'catbost': .*catboost"),
        ('[evaluate]\nties = "item"', r"ties = 'item': needs the column of item ids; add item"),
        ('[evaluate]\nundefined = "none"', r"undefined = 'none': "),
        ('[evaluate]\nmemory = "4 apples"', r"memory = '4 apples': .*write it as '4GB'"),
        (
            "[evaluate]\nsampling_rate = 2",
            r"sampling_rate = 2: must be a number above 0 and at most 1",
        ),
        ('[slices]\nby = ["age:quantile"]', r"\[slices\] by = 'age:quantile': "),
        ('[gates]\nfail_if = "GAUC <"', r"\[gates\] fail_if = 'GAUC <': "),
        ('[gates]\nfail_if = ["AP < 0.5"]', r"none of the measures .*\. Add it to measures\."),
        ('[gates]\nfail_if_yesterday = ["nw:GAUC < 1"]', r"of 'old', 'new'.*Add it to scores\."),
        (
            '[gates]\nfail_if = "GAUC delta < 0"',
            r"delta is a difference from a baseline, and there",
        ),
        ('[gates]\nfail_if = "GAUC[*] < 0.5"', r"no slices, such as \[\*\]; add the column to \["),
        ('[gates]\nfail_if_yesterday = "GAUC[a=1] delta < 0"', r"no slices, such as 'a=1'"),
        ('[gates]\nfail_if_yesterday = "GAUC wins < 3"', r"report does not keep wins; use"),
        ('[gates]\nfail_if = "GAUC weight < 3"', r"report does not keep weight; use"),
        ("[quality]\nmin_coverage = 1.5", r"min_coverage = 1.5: must be a number from 0 to 1"),
        ('[evaluate]\nmemory = "1kB"', r"memory = '1kB': must be at least 256 MB"),
        ('[evaluate]\nmeasures = "StRecall@10"', r"'StRecall@10': needs the column of subtopics"),
        ("[quality]\nmin_rows = 1" + 400 * "0", r"must be at most 9,223,372,036,854"),
        ("[quality]\nmax_ctr_drift = 1" + 400 * "0", r"must be a number above 0"),
        ("[output]\nnights = 1000000", r"nights = 1000000: must be a whole number from 1 to 3,660"),
        ('[output]\nfolder = "r\\u0000"', r"\[output\] folder = .*: must be a non-empty string"),
        ("[quality]\nties = 1", r"ties = 1: must be true or false"),
        ('[output]\nfolder = " "', r"\[output\] folder = ' ': must be a non-empty string"),
        ('[history]\nstates = "all"', r"states = 'all': must be one of 'everything', 'slices'"),
        ("[history]\nfile = []", r"\[history\] file = \[\]: must be a non-empty string"),
    ],
)
def test_value__that_could_fail_later__is_refused(tmp_path: Path, text: str, expected: str) -> None:
    (line,) = complaints(tmp_path, f"{LEAST}\n{text}\n")
    assert re.search(expected, line), line


def test_column__of_two_parts__is_refused(tmp_path: Path) -> None:
    text = LEAST.replace("[models]", 'weight = "old"\n[models]').replace('"click"', '"new"')
    label, weight, *rest = complaints(tmp_path, text)
    assert label.startswith("[columns] label = 'new': is a model too")
    assert weight.startswith("[columns] weight = 'old': is a model too")
    assert len(rest) == 1
    assert rest[0].startswith("[evaluate] measures = 'nDCG@10': is a measure of rank positions")


def test_mistakes_of_one_table__hide_none_of_another(tmp_path: Path) -> None:
    text = LEAST.replace("{date}", "1") + 'baseline = "odl"\n[gates]\nfail_if = "GAUC <"\n'
    text += '[slices]\nby = "age:quantile"\n[quality]\nmin_rows = "1"\n'
    found = complaints(tmp_path, text + '[evaluate]\nmeasures = "AP"\nthread = 3\n')
    assert [line.split(":")[0].split(" = ")[0] for line in found] == [
        "[evaluate] thread", "[quality] min_rows", "[source] path", "[models] baseline",
        "[slices] by", "[gates] fail_if",
    ]  # fmt: skip


def test_lists__may_be_empty_where_none_is_meant(tmp_path: Path) -> None:
    config = read(tmp_path, LEAST + "[slices]\nby = []\n[gates]\nfail_if = []\n")
    assert "by" not in config.options
    assert config.gates.fail_if == ()


def test_dates__that_are_no_nights__are_told(tmp_path: Path) -> None:
    (line,) = complaints(tmp_path, LEAST.replace("{date}", "{date:%Y-%m}"))
    assert "several nights would read the same rows, as {date:%Y-%m} is the same" in line
    (line,) = complaints(tmp_path, LEAST.replace("{date}", "{date:%Q}"))
    assert "'{date:%Q}' in 'logs/day={date:%Q}' is not a date format" in line
    with pytest.raises(ArgumentError, match="lies before 1900-01-01"):
        parse_date("0001-01-03")


def test_baseline__unknown_or_alone__is_refused(tmp_path: Path) -> None:
    (line,) = complaints(tmp_path, f'{LEAST}baseline = "odl"\n')
    assert line.endswith("is none of the models 'old', 'new'. Did you mean 'old'?")
    alone = LEAST.replace('["old", "new"]', '["old"]') + 'baseline = "old"\n'
    (line,) = complaints(tmp_path, alone)
    assert "there is no other model to compare with it" in line


def test_gates__of_slices_and_baselines__are_checked(tmp_path: Path) -> None:
    text = f"{LEAST}baseline = \"old\"\n[slices]\nby = ['slot', 'slot,age:18,25', '@rows:1,5']\n"
    good = [
        "GAUC[slot=a] delta < 0", "new:GAUC[@rows=1-4] p_adjusted < 0.1",
        'GAUC["slot=""a,b"",age=[18,25)"] < 0.5', 'GAUC["slot=a,age<18"] groups < 3',
        "GAUC[*] dropped_share > 1",
    ]  # fmt: skip
    read(tmp_path, f"{text}[gates]\nfail_if = {good!r}\nfail_if_yesterday = ['old:GAUC delta < 0']")
    for wrong, why in (
        (
            "GAUC[country=de] < 0.5",
            "no slicing of [slices] gives a slice 'country=de'; the slicings are",
        ),
        ("GAUC[age<18] < 0.5", "no slicing of [slices] gives a slice 'age<18'"),
        ('GAUC["slot=a,country=de"] < 0.5', "no slicing of [slices] gives a slice 'slot=a,country"),
        ("old:GAUC delta < 0", "and 'old' is the baseline; name another model"),
    ):
        (line,) = complaints(tmp_path, f"{text}[gates]\nfail_if = {[wrong]!r}\n")
        assert line.startswith("[gates] fail_if = ")
        assert why in line


@pytest.mark.parametrize("key", ["fail_if", "fail_if_yesterday", "fail_if_last_week"])
@pytest.mark.parametrize(
    "measure,condition",
    [
        ("AUC(se=None)", "AUC(se=None) ci_low < 0.5"),
        ("AUC(se=None)", "AUC effective_groups < 3"),
        ("AUC(se=None)", "new:GAUC < 0.5 or new:AUC(se=None) delta_ci_high < 0"),
        ("AUC(se='delong')", "AUC(se='delong') se > 1"),
        ("MultiECCE(columns='slot')", "MultiECCE(columns='slot') ci_low > 5"),
        ("ECCE", "ECCE p_adjusted < 0.05"),
    ],
)
def test_gate__on_an_error_that_its_measure_lacks__is_refused(
    tmp_path: Path, measure: str, condition: str, key: str
) -> None:
    text = f'{LEAST}baseline = "old"\n[evaluate]\nmeasures = ["GAUC", "{measure}"]\n'
    (line,) = complaints(tmp_path, f'{text}[gates]\n{key} = "{condition}"\n')
    assert line.startswith(f"[gates] {key} = ")
    assert ", which has no standard error; compare its value" in line
    assert (", or write AUC(se='clustered') in measures." in line) is measure.startswith("AUC")


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


@pytest.mark.parametrize(
    "text,expected",
    [
        (
            '[gates]\nalarm = "sequence"',
            "[gates] alarm = 'sequence': watches differences from the baseline, and there is none; "
            "name one in [models].",
        ),
        (
            'baseline = "old"\n[evaluate]\nmeasures = ["AUC(se=None)", "ECCE"]\n'
            '[gates]\nalarm = "sequence"',
            "[gates] alarm = 'sequence': must have a measure with a standard error, got AUC, ECCE; "
            "add one, such as GAUC.",
        ),
        (
            'baseline = "old"\n[gates]\nalarm = "sequense"',
            "[gates] alarm = 'sequense': must be 'sequence'.",
        ),
        (
            'baseline = "old"\n[gates]\nalarm_since = 2026-11-01',
            "[gates] alarm_since = '2026-11-01': is the first night of an alarm, and there is "
            'none; write alarm = "sequence" too.',
        ),
        *(
            (
                f'baseline = "old"\n[gates]\nalarm = "sequence"\nalarm_since = {value}',
                f"[gates] alarm_since = {shown}: must be a date, such as 2026-11-19.",
            )
            for value, shown in [
                ("20261101", "20261101"),
                ("'1.11.2026'", "'1.11.2026'"),
                ("1066-10-14", "datetime.date(1066, 10, 14)"),
                ("2026-11-01T05:00:00", "datetime.datetime(2026, 11, 1, 5, 0)"),
            ]
        ),
    ],
)
def test_alarm__that_cannot_be_judged__is_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert complaints(tmp_path, LEAST + text) == [expected]


def test_where__that_cannot_be_read__is_refused(tmp_path: Path) -> None:
    text = LEAST.replace("[columns]", 'where = "slot <"\n[columns]')
    (line,) = complaints(tmp_path, text)
    assert line.startswith("[source] where = 'slot <': ")


def test_all_mistakes__are_told_at_once(tmp_path: Path) -> None:
    text = f'titel = "x"\nquality = 3\n{LEAST}[evaluate]\nthreads = -1\nmeasure = "AP"\n'
    assert len(complaints(tmp_path, text)) == 4


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
