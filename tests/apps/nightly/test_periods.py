"""Weeks and months: merged to the bit, what is left out and why, what is read for them."""

from __future__ import annotations

import datetime as dt
import math
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fastrank_eval.apps.nightly import periods
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night, NightQuality, SavedStates
from fastrank_eval.apps.nightly.periods import (
    KINDS,
    NO_INTERVALS,
    MergedNights,
    NightMerger,
    states_of,
    with_periods,
)
from fastrank_eval.engine.run import Evaluation, run
from tests.apps.nightly.test_night_values import HIDDEN, a_log, evaluated, values_of
from tests.support.nights import a_night
from tests.support.transcripts import answers

NOTE = f"week and month: {NO_INTERVALS}"
WEEK = [dt.date(2026, 11, day) for day in range(1, 8)]
SLICES = ["slot", "@rows:1,3", "slot,@rows:1,3"]


def kept(nights: Sequence[Evaluation], keep: str = "slices") -> dict[dt.date, SavedStates]:
    return {
        date: states_of(done, f"day={date}", HIDDEN, keep)
        for date, done in zip(WEEK, nights, strict=False)
    }


def merged(
    nights: Mapping[dt.date, SavedStates], confidence: float, min_groups: int = 1
) -> MergedNights:
    """Both kinds of states, added up."""
    values: list[Any] = []
    notes: list[str] = []
    dates: tuple[dt.date, ...] = ()
    for kind in KINDS:
        merging = NightMerger()
        for date in sorted(nights, reverse=True):
            if kind in nights[date].contents:
                merging.add(date, nights[date].contents[kind])
        found = merging.result(confidence, min_groups, is_last=True)
        values += found.values
        notes += found.notes
        dates = dates or found.dates
    return MergedNights(tuple(values), dates, tuple(dict.fromkeys(notes)))


#: Merged nights without clusters have no error of AUC.
NO_ERROR: dict[str, Any] = dict.fromkeys(["se", "ci_low", "ci_high", "effective_groups"], math.nan)
NO_ERROR |= {"details": {}, "warning": None}


def told(values: Any) -> list[str]:
    """To the last bit, whatever the order of slices, which is that of their sizes in a run."""
    return sorted(repr(replace(v, **NO_ERROR) if v.display_name == "AUC" else v) for v in values)


@pytest.mark.parametrize("order", ["grouped", "scattered"])
def test_merged__week__is_one_run_over_all_its_rows(order: str) -> None:
    measures = "GAUC,nDCG@3,NumRel,GMAP,AUC,LogLoss,PCOC,R@2"
    nights = [a_log(20 + day, users=20 + 9 * day) for day in range(7)]
    nights[3] = {name: pa.array(column)[:0] for name, column in nights[3].items()}
    week = {name: pa.concat_arrays([pa.array(log[name]) for log in nights]) for name in nights[0]}
    week["night"] = np.repeat(np.arange(7), [len(log["user"]) for log in nights])
    evaluations = [evaluated(log, measures, by=SLICES) for log in nights]
    found = merged(kept(evaluations, "everything"), 0.9, 9)
    assert found.notes == ()
    assert found.dates == (*WEEK[:3], *WEEK[4:])
    chosen: dict[str, Any] = {"group": ["night", "user"], "by": SLICES, "order": order}
    chosen |= {"confidence": 0.9, "min_groups": 9}
    once = evaluated(week, measures, **chosen)
    assert told(found.values) == told(values_of(once))
    assert {value.display_name for value in found.values} == set(measures.split(","))
    # Without the counts of the report, which no state knows.
    alone = run(
        week, label="click", score=["old", "new"], measures=measures, baseline="old", **chosen
    )
    assert told(found.values) == told(values_of(alone))


def test_merged__more_nights_than_are_held_at_once__is_one_run_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(periods, "MERGE_BYTES", 20_000)
    nights = [a_log(40 + day, users=12) for day in range(10)]
    month = {name: pa.concat_arrays([pa.array(log[name]) for log in nights]) for name in nights[0]}
    month["night"] = np.repeat(np.arange(10), [len(log["user"]) for log in nights])
    merging = NightMerger()
    for day, log in enumerate(nights):
        date = dt.date(2026, 11, 20) - dt.timedelta(days=day)
        done = evaluated(log, "GAUC,nDCG@3", by="slot")
        merging.add(date, states_of(done, str(date), HIDDEN).contents["groups"])
    once = evaluated(month, "GAUC,nDCG@3", by="slot", group=["night", "user"])
    assert told(merging.result(0.95).values) == told(values_of(once))


def test_merged__other_conventions_or_measures__are_left_out_with_a_note() -> None:
    last = evaluated(a_log(7))
    alone = merged(kept([last]), 0.95)
    for other, why in (
        (evaluated(a_log(8), ties="worst"), "'ties' is 'worst'|'ties' is 'expected'"),
        (evaluated(a_log(8), measures="GAUC"), "only the first has nDCG@3"),
        (evaluated(a_log(8), baseline=None), "their baselines differ"),
    ):
        other_and_last = kept([other])
        other_and_last[WEEK[1]] = kept([last])[WEEK[0]]
        found = merged(other_and_last, 0.95)
        sums = [v for v in found.values if v.display_name not in ("AUC", "LogLoss")]
        assert repr(sums) == repr(
            [v for v in alone.values if v.display_name not in ("AUC", "LogLoss")]
        )
        note = found.notes[0]
        assert note.startswith("2026-11-01 is left out: ")
        assert re.search(why, note)
    assert merged({}, 0.95) == MergedNights()


def test_merged__column_of_another_type__leaves_its_night_out() -> None:
    nights = [evaluated(a_log(seed), by="slot") for seed in (7, 8)]
    other = a_log(9)
    other["slot"] = pa.array(np.arange(len(other["user"])) % 3)
    found = merged(kept([evaluated(other, by="slot"), *nights]), 0.95)
    assert found.dates == (WEEK[1], WEEK[2])
    assert found.notes[0].startswith("2026-11-01 is left out: ")
    two = {date: of for date, of in kept([nights[0], *nights]).items() if date != WEEK[0]}
    sums = [repr(value) for value in merged(two, 0.95).values if value.slice != "all"]
    assert told([v for v in found.values if v.slice != "all"]) == sorted(sums)


def test_merged__what_a_state_keeps__is_chosen() -> None:
    nights = [evaluated(a_log(seed), by="slot") for seed in (7, 8)]
    everything = merged(kept(nights, "everything"), 0.95).values
    slices = merged(kept(nights), 0.95).values
    assert repr(slices) == repr(
        tuple(v for v in everything if v.slice == "all" or v.display_name not in ("LogLoss", "AUC"))
    )
    rows = merged(kept(nights, "rows"), 0.95).values
    assert repr(rows) == repr(tuple(v for v in slices if v.slice == "all"))
    groups = merged(kept(nights, "groups"), 0.95).values
    assert repr(groups) == repr(tuple(v for v in rows if v.display_name not in ("LogLoss", "AUC")))


def test_merged__nights_that_keep_less__are_merged_in_what_all_keep() -> None:
    nights = [evaluated(a_log(seed), by="slot") for seed in (7, 8)]
    for less in ("groups", "rows"):
        mixed = kept(nights[:1])
        mixed[WEEK[1]] = kept(nights, less)[WEEK[1]]
        found = merged(mixed, 0.95)
        assert found.notes == ("slices by slot are left out: not all nights have them",)
        assert found.dates == (WEEK[0], WEEK[1])
        both = merged(kept(nights), 0.95).values
        gauc = [repr(v) for v in both if v.slice == "all" and v.measure == "GAUC"]
        assert len(gauc) == 2
        assert set(gauc) <= set(told(found.values))


def shown(day: int, done: Evaluation, **changes: Any) -> Night:
    quality = NightQuality(done.totals.overall.rows(), 1, 1, 0.5, 1.0, 0.0, 0.0)
    return a_night(
        day, models=("old", "new"), measures=("GAUC", "nDCG@3", "NumRel", "LogLoss", "AUC"),
        quality=quality, conventions={"confidence": 0.95}, **changes,
    )  # fmt: skip


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    with History(tmp_path / "history.db") as history:
        yield history


def keep(history: History, day: int, done: Evaluation) -> Night:
    night = shown(day, done)
    history.write(night, states_of(done, "log", HIDDEN))
    return night


def test_periods__nights_are_told__and_why_they_have_no_intervals(history: History) -> None:
    nights = [keep(history, day, evaluated(a_log(day))) for day in (1, 20, 24, 26)]
    found = with_periods(nights[-1], history)
    assert {name: [date.day for date in of] for name, of in found.period_nights.items()} == {
        "week": [20, 24, 26],
        "month": [1, 20, 24, 26],
    }
    assert found.period_notes == (NOTE,)
    assert [v.measure for v in found.periods["week"][:5]] == list(nights[-1].measures)
    for value in (*found.periods["week"], *found.periods["month"]):
        errors = value.se, value.ci_low, value.ci_high, value.effective_groups
        assert all(map(math.isnan, errors))
        assert value.warning is None


@pytest.mark.parametrize(
    "damage, days, told",
    [
        ("x'00'", [2], "2026-11-02 is left out: its saved state cannot be read; run it again, "
         "which replaces it"),
        ("zeroblob(400)", [2], ""),
        ("substr(content, 1, 900)", [1, 3], "2 nights from 2026-11-01 to 2026-11-03 are left out: "
         "their saved states cannot be read; run them again, which replaces them"),
    ],
)  # fmt: skip
def test_periods__states_that_cannot_be_read__leave_their_nights_out(
    history: History, damage: str, days: list[int], told: str
) -> None:
    nights = [keep(history, day, evaluated(a_log(day))) for day in (1, 2, 3, 4)]
    with closing(sqlite3.connect(history.path)) as database, database:
        broken = f"UPDATE state SET content = {damage} WHERE date = ?"  # noqa: S608
        database.executemany(broken, [(f"2026-11-0{day}",) for day in days])
    found = with_periods(nights[-1], history)
    left = [day for day in (1, 2, 3, 4) if day not in days]
    assert [date.day for date in found.period_nights["month"]] == left
    note, *others = found.period_notes
    assert note.startswith(f"week and month: {told}")
    assert others == [NOTE]
    whole = with_periods(shown(4, evaluated(a_log(4))), history)
    assert repr(whole.periods) == repr(found.periods)


def test_periods__rows_of_another_night__count_once(history: History) -> None:
    nights = [keep(history, day, evaluated(a_log(seed))) for day, seed in ((1, 1), (2, 2), (3, 2))]
    found = with_periods(nights[-1], history)
    assert repr(found.periods) == repr(with_periods(nights[1], history).periods)
    assert [date.day for date in found.period_nights["week"]] == [1, 2]
    why = "2026-11-03 is left out: its rows are those of 2026-11-02"
    assert found.period_notes == (f"week and month: {why}", NOTE)


def test_periods__more_scores_than_are_merged__leave_out_what_reads_them(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights = [keep(history, day, evaluated(a_log(day))) for day in (1, 20, 21)]
    rows = {night.date.day: night.quality.rows for night in nights}
    monkeypatch.setattr(periods, "MOST_SCORES", 2 * (rows[20] + rows[21]))
    found = with_periods(nights[-1], history)
    measured = {name: {v.measure for v in of} for name, of in found.periods.items()}
    assert measured["week"] - measured["month"] == {"AUC"}
    assert found.period_notes == (
        "month: measures that read the score of every row, such as AUC, are left out: the nights "
        f"have {2 * sum(rows.values()):,} scores, more than {2 * (rows[20] + rows[21]):,}",
        NOTE,
    )
    monkeypatch.setattr(periods, "MOST_SCORES", 2)
    numbers = f"{2 * (rows[20] + rows[21]):,} and {2 * sum(rows.values()):,}"
    assert with_periods(nights[-1], history).period_notes == (
        "week and month: measures that read the score of every row, such as AUC, are left out: the "
        f"nights have {numbers} scores, more than 2",
        NOTE,
    )


test_answers = answers(globals())
