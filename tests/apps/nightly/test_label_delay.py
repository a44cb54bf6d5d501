"""Nights whose labels come late: provisional, judged again, compared with nights like them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, HistoryError, SourceError
from fastrank_eval.apps.nightly import run
from fastrank_eval.apps.nightly.compare_nights import label_delay_texts, status_name
from fastrank_eval.apps.nightly.config import NightlyConfig, read_config
from fastrank_eval.apps.nightly.documents import document
from fastrank_eval.apps.nightly.history import PROVISIONAL, History
from fastrank_eval.apps.nightly.night import Night
from fastrank_eval.apps.nightly.page import page
from fastrank_eval.apps.nightly.periods import with_compositions, with_periods
from fastrank_eval.apps.nightly.run import NightRun, keep_provisional
from fastrank_eval.apps.nightly.run import nightly as run_night
from fastrank_eval.apps.nightly.summary_files import lines as lines_of
from fastrank_eval.apps.nightly.summary_files import markdown, summary
from tests.support.nightly_runs import dump, everything, kept, nightly
from tests.support.transcripts import Case, cases

ROWS = 400
CONFIG = """
[source]
path = "logs/{date}.parquet"
labels_complete_after = "3d"
[columns]
group = "user"
label = "click"
[models]
scores = ["a", "b"]
baseline = "a"
[evaluate]
measures = ["GAUC", "LogLoss"]
[slices]
by = ["slot", "@positives:1"]
min_groups = 5
[drift]
nights = 0
"""
FIRST = dt.date(2026, 11, 2)


def day_of(number: int) -> dt.date:
    return FIRST + dt.timedelta(days=number)


def morning(number: int, hours: float = 5.5) -> dt.datetime:
    """Hours after the end of a night."""
    return dt.datetime.combine(day_of(number + 1), dt.time(), dt.UTC) + dt.timedelta(hours=hours)


def write(number: int, late: float = 0.0, day: dt.date | None = None, **columns: object) -> None:
    """Write the rows of a night; a share of the clicks is not there yet."""
    rng = np.random.default_rng(number)
    logit = rng.normal(-1.0, 1.0, ROWS)
    score = 1 / (1 + np.exp(-logit))
    clicks = (rng.random(ROWS) < score) & (rng.random(ROWS) >= late)
    content = {
        "user": np.repeat(np.arange(ROWS // 10), 10),
        "click": clicks.astype(np.int8),
        "a": score,
        "b": 1 / (1 + np.exp(-logit - rng.normal(0, 0.5, ROWS))),
        "slot": np.where(rng.random(ROWS) < 0.3, "side", "top"),
        **columns,
    }
    table = pa.table({name: values for name, values in content.items() if values is not None})
    parquet.write_table(table, f"logs/{day or day_of(number)}.parquet")


def configure(text: str = "", after: str = "3d") -> NightlyConfig:
    Path("nightly.toml").write_text(CONFIG.replace("3d", after) + text)
    return read_config("nightly.toml")


def judge(number: int, now: dt.datetime, text: str = "", *, labels: bool = True) -> NightRun:
    return run_night(configure(text), day_of(number), now=now, labels=labels)[0]


def stored(number: int) -> Night:
    night = next(night for night in kept() if night.date == day_of(number))
    with History("history.db", readonly=True) as history:
        return history.with_periods(night) or night


def headline(night: Night) -> dict[tuple[str, str], float]:
    return {(v.score, v.measure): v.value for v in night.values if v.slice == "all"}


def kinds(night: Night) -> set[str]:
    return {each.kind for each in night.compared}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("logs").mkdir()
    configure()
    return tmp_path


#: What a night has in place of its rows, by name.
CHANGES: dict[str, dict[str, Any]] = {
    "": {},
    "late": {"late": 0.6},
    "half late": {"late": 0.5},
    "without a click": {"late": 1.0},
    "late, b dead": {"late": 0.6, "b": np.full(ROWS, 0.5)},
    "no labels": {"click": None},
    "half unknown": {"click": pa.array(np.zeros(ROWS, np.int8), mask=np.arange(ROWS) < 200)},
}


def told(night: Night) -> Iterator[str]:
    """What the delay of its labels does to a night."""
    yield f"{night.date.day}: {status_name(night)}, {' '.join(sorted(kinds(night))) or 'no value'}"
    yield from label_delay_texts(night)
    yield from (f"gate {one.text}: {one.outcome}, {one.reason}" for one in night.gates)
    yield from (*night.quality.flags, *night.notes)
    yield f"rows {night.quality.volume_drift:.3g}, CTR {night.quality.ctr_drift:.3g} from before"
    yield f"{night.quality.nulls.get('click', 0)} unknown, limits {night.conventions['quality']}"
    yield from (f"finding {one.kind}" for one in night.findings)


@pytest.mark.parametrize("case", cases("label_delay"), ids=str)
def test_nights__before_and_after_their_labels_come__say_so(case: Case) -> None:
    """Lines such as `0 at 5.5` judge a night hours after its end; others are configuration."""
    found: list[str] = []
    for text, line in case.steps(CONFIG, r"(write|due|keep|week|\d+) "):
        Path("nightly.toml").write_text(text)
        config = read_config("nightly.toml")
        first, _, rest = line.partition(" ")
        at, _, more = rest.removeprefix("at ").partition(", ")
        if first == "write":
            number, _, change = rest.partition(" ")
            write(int(number), **CHANGES[change])  # type: ignore[arg-type]
        elif first == "due":
            dates = run.due_nights(config, morning(0, float(at)))
            found.append(f"due {' '.join(str(date.day) for date in dates)}".rstrip())
        elif first == "keep":
            again = keep_provisional(config, day_of(int(rest)), "no file.")
            found.append(f"kept {again.notes if again else 'no night'}")
        elif first == "week":
            with History("history.db", readonly=True) as history:
                night = with_periods(stored(int(rest)), history)
            found += [f"week of {len(night.period_nights['week'])} nights", *night.period_notes]
        else:
            now, labels = morning(int(first), float(at)), more != "no labels"
            (done,) = run_night(config, day_of(int(first)), now=now, labels=labels)
            for night in (done.night, *done.again):
                found += told(night)
    case.check(found)


def test_night__is_provisional_until_its_labels_are_complete() -> None:
    assert run.due_nights(configure(), morning(9)) == {}
    assert not Path("history.db").exists()
    write(0)
    end = morning(0, 72)
    for now, provisional in ((end - dt.timedelta(seconds=1), True), (end, False)):
        night = judge(0, now).night
        assert (night.provisional, night.labels_complete) == (provisional, end)
    # Another time zone is the same time.
    west = dt.timezone(dt.timedelta(hours=-8))
    assert not judge(0, end.astimezone(west)).night.provisional
    with pytest.raises(ArgumentError, match="now: must have a time zone"):
        judge(0, dt.datetime(2026, 11, 9))


def test_provisional_night__judged_again__has_new_numbers_and_says_so() -> None:
    write(0, late=0.6)
    early = judge(0, morning(0)).night
    assert (early.status, early.provisional, early.label_age) == ("provisional", True, 5.5)
    text = lines_of([document(early)])
    assert text.startswith("2026-11-02 provisional: a GAUC 0.")
    assert "labels are complete on 6 Nov, 00:00 UTC, and the next run after" in text
    assert summary(document(stored(0))) == summary(document(early))
    write(0)
    final = judge(0, morning(3)).night
    assert (final.status, final.provisional) == ("fine", False)
    assert headline(final) != headline(early)
    assert final.judged_before is not None
    before = {(score, measure): value for score, measure, value in final.judged_before.values}
    assert (final.judged_before.status, before) == ("provisional", headline(early))
    (text,) = label_delay_texts(final)
    old, new = (headline(night)["a", "GAUC"] for night in (early, final))
    assert text.startswith("judged again with complete labels: was provisional; GAUC of a ")
    assert f"GAUC of a {old:.4f} → {new:.4f}; GAUC of b " in text
    assert text in lines_of([document(final)])
    assert summary(document(stored(0))) == summary(document(final))
    told = summary(document(final))
    assert (told["provisional"], told["labels_complete"]) == (False, "2026-11-06T00:00:00+00:00")
    assert told["judged_before"]["status"] == "provisional"
    assert told["judged_before"]["values"][0]["value"] == old
    # A further run has the same night.
    lines = dump()
    judge(0, morning(3))
    assert dump() == lines


def test_gates__of_a_provisional_night__fail_so_far() -> None:
    write(0, late=0.6)
    night = judge(0, morning(0), '[gates]\nfail_if = "GAUC < 0.99"\n').night
    assert (night.status, status_name(night)) == ("provisional", "Provisional regression")
    (outcome,) = night.gates
    assert (outcome.passed, outcome.outcome) == (True, "fails so far")
    assert outcome.reason.startswith("b: 0.")
    # The command that reproduces the number is there before labels are complete.
    assert summary(document(night))["next_steps"]
    strip = markdown([document(night)], (), None, [{day_of(-1): "fine", day_of(-2): "regression"}])
    assert "Last 3 days: `R.p` (" in strip
    assert "`p` provisional" in strip
    assert "(provisional)</title>" in page([replace(night, date=day_of(-1)), night])


def test_provisional_nights__of_the_same_age_are_compared() -> None:
    gates = '[gates]\nfail_if_yesterday = "GAUC delta < 9"\n'
    write(0, late=0.6)
    write(1, late=0.6)
    early = judge(0, morning(0)).night
    night = judge(1, morning(1), gates).night
    assert kinds(night) == {"baseline", "yesterday"}
    text = "compared with the provisional numbers of yesterday, with labels as old"
    assert text in label_delay_texts(night)
    # The gate is judged, and does not fail the night.
    assert (night.gates[0].passed, night.status) == (True, "provisional")
    assert night.gates[0].reason.startswith("a: ")
    delta = next(d for d in night.compared if (d.kind, d.slice) == ("yesterday", "all"))
    key = delta.score, delta.measure
    assert delta.delta == headline(night)[key] - headline(early)[key]
    # The night before is complete now; its provisional numbers are still compared with.
    write(0)
    judge(0, morning(3))
    assert repr(stored(1).compared) == repr(night.compared)
    again = judge(1, morning(1), gates).night
    assert repr(again.compared) == repr(night.compared)
    with History("history.db", readonly=True) as history:
        assert history.state(day_of(0), PROVISIONAL) is not None
        assert with_compositions(again, history).compositions == ()


def test_later_complete_night__is_compared_again() -> None:
    gates = '[gates]\nfail_if_yesterday = "GAUC delta < 9"\nfail_if = "GAUC < 0.1"\n'
    for number in (0, 1, 7):
        write(number)
    judge(0, morning(0), gates)
    for number in (1, 7):
        later = judge(number, morning(12), gates).night
        assert (kinds(later), later.status) == ({"baseline"}, "fine")
    Path(f"logs/{day_of(1)}.parquet").rename("gone")
    outcome = judge(0, morning(12), gates)
    assert [night.date for night in outcome.again] == [day_of(1), day_of(7)]
    assert outcome.night.notes == ("nights that are compared with it now: 2026-11-03, 2026-11-09",)
    first, second = outcome.again
    assert (kinds(first), first.status) == ({"baseline", "yesterday"}, "regression")
    assert kinds(second) == {"baseline", "last_week"}
    assert first.notes == ("compared again: the labels of 2026-11-02 are complete",)
    assert summary(document(stored(1))) == summary(document(first))
    # A run that reads the rows finds the same, and states are kept.
    lines = [line for line in dump() if "compared again" not in line]
    Path("gone").rename(f"logs/{day_of(1)}.parquet")
    again = judge(1, morning(12), gates).night
    merged = {name: getattr(again, name) for name in ("periods", "period_nights", "period_notes")}
    assert summary(document(replace(again, seconds=first.seconds, compositions=()))) == summary(
        document(replace(first, notes=(), **merged))
    )
    new = [line for line in dump() if line not in lines and '"state"' in line]
    assert [line for line in new if "periods" not in line] == []
    # No further run compares them again.
    assert judge(0, morning(12), gates).again == ()


def test_rows_that_are_gone__leave_the_night_as_it_is() -> None:
    write(0)
    judge(0, morning(0))
    before = dump()
    Path(f"logs/{day_of(0)}.parquet").unlink()
    with pytest.raises(FastRankEvalError):
        judge(0, morning(3))
    parquet.write_table(
        pa.table({name: [] for name in ("user", "click", "a", "b", "slot")}).cast(
            pa.schema(
                [("user", pa.int64()), ("click", pa.int8()), ("a", pa.float64()),
                 ("b", pa.float64()), ("slot", pa.string())]
            )
        ),
        f"logs/{day_of(0)}.parquet",
    )  # fmt: skip
    with pytest.raises(SourceError, match="has no rows now, and had 400"):
        judge(0, morning(3))
    assert dump() == before


def test_slow_run__does_not_replace_complete_numbers() -> None:
    write(0)
    judge(0, morning(0))
    judge(0, morning(3))
    before = dump()
    with pytest.raises(HistoryError, match="another run has judged the night later"):
        judge(0, morning(2))
    assert dump() == before


def ago(days: int) -> dt.date:
    """A date before today, so that the clock of the machine makes nights complete."""
    return dt.datetime.now(dt.UTC).date() - dt.timedelta(days=days)


def test_command__judges_due_nights_first() -> None:
    gates = '[output]\nfolder = "report"\n[gates]\nfail_if = "GAUC < 0.99"\n'
    configure(gates, "366d")
    write(0, late=0.6, day=ago(5))
    outcome = nightly("--date", str(ago(5)))
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert "PROVISIONAL REGRESSION" in outcome.stdout
    write(0, day=ago(5))
    write(1, day=ago(1), b=None)
    configure(gates, "4d")
    before = everything(Path())
    outcome = nightly("--date", str(ago(1)), "--dry-run", "--json", "-")
    assert everything(Path()) == before
    assert [each["date"] for each in json.loads(outcome.stdout)["nights"]] == [
        str(ago(5)), str(ago(1)),
    ]  # fmt: skip
    # The night itself cannot be read; the other one is judged all the same.
    outcome = nightly("--date", str(ago(1)), "--json", "out.json")
    assert outcome.exit_code == 2
    final, failed = json.loads(Path("out.json").read_text())["nights"]
    assert (final["date"], final["status"]) == (str(ago(5)), "regression")
    assert "error" in failed
    assert "judged again with complete labels: was provisional; GAUC of a" in outcome.stdout
    assert "Judged again" in Path(f"report/{ago(5)}.html").read_text().replace("judged", "Judged")
    write(1, late=0.6, day=ago(1))
    assert nightly("--date", str(ago(1)), "--json", "out.json").exit_code == 0
    assert len(json.loads(Path("out.json").read_text())["nights"]) == 1


def test_command__json_has_the_nights_that_are_compared_again() -> None:
    now = dt.datetime.now(dt.UTC)
    write(0, late=0.6, day=ago(5))
    write(1, day=ago(4))
    assert run_night(configure(after="366d"), ago(5), now=now)[0].night.provisional
    gates = '[gates]\nfail_if_yesterday = "GAUC delta < 99"\n'
    assert run_night(configure(gates, "1d"), ago(4), now=now)[0].night.status == "fine"
    write(0, day=ago(5))
    outcome = nightly("--date", str(ago(5)), "--json", "out.json")
    assert outcome.exit_code == 3
    (night,) = json.loads(Path("out.json").read_text())["nights"]
    later = kept()[-1]
    assert (later.date, later.status) == (ago(4), "regression")
    (entry,) = night["compared_again"]
    assert (entry["date"], entry["status"]) == (str(ago(4)), "regression")
    assert entry["reason"].startswith("GAUC of ")
    assert night["status"] == "fine"
    assert nightly("--date", str(ago(5)), "--json", "out.json").exit_code == 0
    (night,) = json.loads(Path("out.json").read_text())["nights"]
    assert night["compared_again"] == []


def test_command__night_without_rows_is_named_once() -> None:
    folder = '[output]\nfolder = "report"\n'
    configure(folder, "366d")
    write(0, late=0.6, day=ago(5))
    write(1, late=0.6, day=ago(1))
    assert nightly("--date", str(ago(5)), "-q").exit_code == 0
    configure(folder, "4d")
    Path(f"logs/{ago(5)}.parquet").unlink()
    outcome = nightly("--date", str(ago(1)), "--json", "out.json")
    assert outcome.exit_code == 0
    assert outcome.stderr.startswith(f"warning: {ago(5)}: stays as it is: ")
    assert len(json.loads(Path("out.json").read_text())["nights"]) == 1
    text = "ot judged again with complete labels: "
    assert text in Path(f"report/{ago(5)}.html").read_text()
    outcome = nightly("--date", str(ago(1)))
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    # It is judged as soon as its rows are back.
    write(0, day=ago(5))
    assert nightly("--date", str(ago(1)), "-q").exit_code == 0
    assert [night.status for night in kept()] == ["fine", "provisional"]
    assert text not in Path(f"report/{ago(5)}.html").read_text()


def test_command__backfill_judges_old_nights_once_and_in_order() -> None:
    configure(after="366d")
    for number, days in enumerate((8, 7, 6, 5)):
        write(number, late=0.6, day=ago(days))
        assert nightly("--date", str(ago(days)), "-q").exit_code == 0
    for number, days in enumerate((8, 7, 6, 5)):
        write(number, day=ago(days))
    configure('[output]\nfolder = "report"\n', after="4d")
    outcome = nightly("--backfill", f"{ago(7)}..{ago(6)}", "--json", "out.json")
    assert outcome.exit_code == 0
    told = json.loads(Path("out.json").read_text())["nights"]
    assert [each["date"] for each in told] == [str(ago(days)) for days in (8, 7, 6, 5)]
    assert [kinds(night) - {"baseline"} for night in kept()] == [set(), *[{"yesterday"}] * 3]
    assert not any(night.provisional for night in kept())
