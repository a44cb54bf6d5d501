"""Drift of a night: against merged earlier nights, of scores and columns, before labels come."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fastrank_eval.apps.nightly.charts import edges
from fastrank_eval.apps.nightly.drift import Distribution
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import Night, NightDrift
from fastrank_eval.apps.nightly.page import page
from fastrank_eval.apps.nightly.periods import NO_INTERVALS, with_periods
from fastrank_eval.apps.nightly.reproduce import next_steps
from fastrank_eval.apps.nightly.text import sentences
from fastrank_eval.io.source import Source
from fastrank_eval.stats.binned_scores import BinnedScores
from tests.support.commands import output
from tests.support.html_elements import told_by
from tests.support.nightly_runs import days, dump, kept, kept_on, nightly, on
from tests.support.transcripts import Case, cases

ROWS = 2000
CONFIG = """
[source]
path = "logs/{date}.parquet"
[columns]
group = "user"
label = "click"
[models]
scores = ["a", "b"]
baseline = "a"
[evaluate]
measures = ["GAUC", "AUC"]
[slices]
by = ["slot"]
min_groups = 5
[gates]
fail_if = "GAUC < 0.01"
[drift]
min_rows = 200
"""
#: Rows without a score are allowed.
ALLOWED = ("[slices]", 'unretrieved = "allow"\n[slices]')
PRICE = 'columns = ["price"]\n'


def rows_of(day: int, rows: int = ROWS) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(day)
    logit = rng.normal(-3.0, 1.0, rows)
    score = 1 / (1 + np.exp(-logit))
    return {
        "user": np.repeat(np.arange(rows // 10), 10),
        "click": (rng.random(rows) < score).astype(np.int8),
        "a": score.astype(np.float32),
        "b": 1 / (1 + np.exp(-logit - rng.normal(0, 0.3, rows))),
        "slot": np.where(rng.random(rows) < 0.3, "side", "top"),
        "price": rng.gamma(2.0, 10.0, rows),
    }


def with_nulls(values: np.ndarray, share: float, where: np.ndarray | bool = True) -> pa.Array:
    """Replace a share of values by null, independent of their size."""
    return pa.array(values, mask=(np.random.default_rng(1).random(len(values)) < share) & where)


def columns_of(day: int) -> dict[str, object]:
    """Columns of numbers of a usual night."""
    price = rows_of(day)["price"]
    return {
        "gaps": np.where(np.arange(ROWS) % 10 == 0, np.nan, price),
        "nulls": with_nulls(price, 0.4),
        "big price": price,
        "new": pa.array((price > 20).tolist()),
        "none": np.zeros(ROWS),
    }


#: Columns of a night, and what some of them are replaced by.
Rows: TypeAlias = Mapping[str, Any]
Change: TypeAlias = Callable[[Rows], Rows]


def write(day: int, **columns: object) -> None:
    content = {**rows_of(day), **columns}
    table = pa.table({name: values for name, values in content.items() if values is not None})
    parquet.write_table(table, f"logs/{on(day)}.parquet")


def configure(text: str = "", *changes: tuple[str, str]) -> None:
    """Write the configuration with changes of its text, and more of its last table, [drift]."""
    config = CONFIG
    for before, after in changes:
        assert before in config
        config = config.replace(before, after)
    Path("nightly.toml").write_text(config + text)


def backfill(first: int, last: int, exit_code: int = 0) -> None:
    assert nightly("--backfill", f"{on(first)}..{on(last)}", "-q").exit_code == exit_code


@pytest.fixture(scope="module")
def eight_nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs and histories of eight usual nights, without and with columns; not written to."""
    folder = tmp_path_factory.mktemp("nights")
    with chdir(folder):
        Path("logs").mkdir()
        for day in range(1, 9):
            write(day, **columns_of(day))
        names = json.dumps(["price", *columns_of(1)])
        configure(f"columns = {names}\n[history]\nfile = 'columns.db'\n")
        backfill(1, 8)
        configure()
        backfill(1, 8)
    return folder


@pytest.fixture(autouse=True)
def folder(eight_nights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(eight_nights, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def of_columns(folder: None) -> None:
    """A history in which the eight nights have columns."""
    shutil.move("columns.db", "history.db")
    configure(PRICE)


def run(day: int, *options: str, exit_code: int = 0) -> Night:
    outcome = nightly("--date", on(day), *options)
    assert outcome.exit_code == exit_code, outcome.output
    return kept_on(day)


def drift_of(night: Night, score: str, slice_: str = "all") -> NightDrift:
    (found,) = (one for one in night.drift if (one.name, one.slice) == (score, slice_))
    return found


def ks_and_psi(reference: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """KS of the values, and PSI of the deciles of the reference, by definition."""
    values = np.union1d(reference, other)
    shares = [np.sort(x).searchsorted(values, "right") / len(x) for x in (reference, other)]
    edges = np.quantile(reference, np.arange(1, 10) / 10)
    p, q = (
        np.bincount(np.searchsorted(edges, x), minlength=10) / len(x) for x in (reference, other)
    )
    return float(np.abs(shares[0] - shares[1]).max()), float(np.sum((p - q) * np.log(p / q)))


# ---- the numbers --------------------------------------------------------------------------------


def test_steady_scores__hardly_drift__and_the_numbers_are_those_of_the_rows() -> None:
    write(9)
    night = run(9)
    assert night.status == "fine"
    assert [(one.name, one.slice) for one in night.drift] == [
        (score, slice_) for slice_ in ("all", "slot=side", "slot=top") for score in ("a", "b")
    ]
    before = [rows_of(day) for day in range(1, 9)]
    for one in night.drift:
        slot = one.slice.removeprefix("slot=")
        wanted = [
            rows[one.name][(rows["slot"] == slot) | (slot == "all")]
            for rows in (*before, rows_of(9))
        ]
        ks, psi = ks_and_psi(np.concatenate(wanted[:-1]).astype(float), wanted[-1].astype(float))
        assert one.ks == pytest.approx(ks, abs=0.01)
        assert one.ks <= ks
        assert one.psi == pytest.approx(psi, rel=0.3, abs=0.003)
        assert (one.nights, one.verdict, one.nulls, one.out_of_range) == (8, "same", 0, 0.0)
        assert (one.rows, one.reference_rows) == (len(wanted[-1]), sum(map(len, wanted[:-1])))
        assert one.distinct > 256


def test_few_values_of_64_bit_integers__are_compared_by_their_numbers_exactly() -> None:
    configure("", ('["GAUC", "AUC"]', '["GAUC"]'))
    scores = {day: np.round(rows_of(day)["b"] * 100) for day in range(1, 10)}
    for day, score in scores.items():
        kinds = ("i8", "u8") if day < 9 else ("f8", "f8")
        write(day, **{name: score.astype(kind) for name, kind in zip("ab", kinds, strict=True)})
    backfill(1, 9)
    reference = np.concatenate([scores[day] for day in range(1, 9)])
    before, night = kept()[-2:]
    for name in "ab":
        one = drift_of(night, name)
        assert one.ks == pytest.approx(ks_and_psi(reference, scores[9])[0], abs=1e-12)
        assert one.distinct == len(np.unique(scores[9]))
        # Of integers: the numbers above 1 are outside, as they were on the nights before.
        assert math.isnan(one.out_of_range)
        assert math.isnan(drift_of(before, name).out_of_range)


def test_bins_of_one_value__give_the_median_and_the_share() -> None:
    scores = np.repeat([-2.0, 0.5, 3.0], [3, 3, 4])
    state = BinnedScores(64)
    state.add(scores, np.empty(0, np.int64))
    one = Distribution(12, state.merged_bins())
    assert (one.median, one.mode_share, one.count) == (0.5, 0.4, 10)
    nothing = Distribution(3, BinnedScores(64).merged_bins())
    assert math.isnan(nothing.median)
    assert math.isnan(nothing.mode_share)


@pytest.mark.parametrize(
    "scores, median",
    [
        ([0.0, 1.0], 0.5),
        ([0.0, 0.0, 1.0, 1.0], 0.5),
        ([1.0, 3.0, 4.0, 8.0], 3.5),
        ([1.0, 3.0, 3.0, 8.0], 3.0),
        ([1.0, 3.0, 4.0], 3.0),
        ([0.1, 0.1], 0.1),
        ([0.25], 0.25),
        ([1.0, math.inf], math.inf),
        ([-math.inf, math.inf], math.nan),
    ],
)
def test_median__is_the_mean_of_the_two_middle_values(scores: list[float], median: float) -> None:
    state = BinnedScores(64)
    state.add(np.array(scores), np.empty(0, np.int64))
    one = Distribution(len(scores), state.merged_bins())
    assert one.median == pytest.approx(median, abs=0, nan_ok=True)


def test_order_threads_and_type__change_no_bit() -> None:
    write(9)
    first = run(9).drift
    order = np.random.default_rng(0).permutation(ROWS)
    write(9, **{name: values[order] for name, values in rows_of(9).items()})
    configure("", ("[slices]", "threads = 1\n[slices]"))
    assert run(9).drift == first
    write(9, a=rows_of(9)["a"].astype(np.float64))
    assert run(9).drift == first


# ---- what is judged -----------------------------------------------------------------------------


def power(exponent: float, slot: str = "") -> Change:
    """Scores of b to a power, in one slot or in all."""
    return lambda of: {
        "b": np.where((of["slot"] == slot) | (not slot), of["b"] ** exponent, of["b"])
    }


def first_rows(rows: int, *without: str) -> Change:
    return lambda of: {name: None if name in without else of[name][:rows] for name in of}


def sorted_by_a(of: Rows) -> Rows:
    order = np.lexsort((-of["a"], of["user"]))
    return {name: values[order] for name, values in of.items()}


ROW = np.arange(ROWS)
#: Columns that a night changes, by the name of the change.
CHANGES: dict[str, Change] = {
    "usual": lambda of: {},
    "b ** 0.5": power(0.5),
    "b ** 0.88": power(0.88),
    "b ** 0.7 in side": power(0.7, "side"),
    "b dead": lambda of: {"b": np.full(ROWS, 0.04)},
    "b dead in side": lambda of: {"b": np.where(of["slot"] == "side", 0.04, of["b"])},
    "b times 5": lambda of: {"b": 5 * of["b"]},
    "b outside": lambda of: {"b": np.where(ROW < 40, -5.0, of["b"])},
    "b some null": lambda of: {"b": with_nulls(of["b"], 0.05)},
    "b often 0.04, some null": lambda of: {
        "b": pa.array(np.where(ROW < ROWS // 4, 0.04, of["b"]), mask=ROW % 10 == 9)
    },
    "a and price null": lambda of: {
        "a": with_nulls(of["a"], 0.4), "price": with_nulls(of["price"], 0.95)
    },
    "no price": lambda of: {"price": None},
    "price in words": lambda of: {"price": ["dear"] * ROWS},
    "big price, new": lambda of: {"big price": 3 * of["price"], "new": np.full(ROWS, True)},
    "no nulls, b null in side": lambda of: {
        "nulls": of["price"], "b": with_nulls(of["b"], 0.3, of["slot"] == "side")
    },
    "few rows": first_rows(40),
    "no row, no price": first_rows(0, "price"),
    "sorted by a": sorted_by_a,
}  # fmt: skip


def told(night: Night, exit_code: int) -> Iterator[str]:
    """What is found of the scores and columns of a night."""
    yield f"{night.date.day}: {night.status}, exit {exit_code}"
    yield from sentences(night)
    yield from (f"gate {one.text}: {one.reason}" for one in night.gates if not one.passed)
    yield from night.notes
    usual = [one for one in night.drift if one.verdict == "same" and one.out_of_range >= 0]
    yield f"same: {', '.join(f'{one.name} {one.slice} {one.nights}' for one in usual)}"
    for one in (one for one in night.drift if one not in usual):
        yield (
            f"{one.name} {one.slice} {one.verdict}: {one.nights} nights of {one.reference_rows} "
            f"and {one.reference_nulls} null; {one.rows} rows, {one.nulls} null, {one.distinct} "
            f"distinct; {one.reference_median:.3g} → {one.median:.3g}, mode "
            f"{one.reference_mode_share:.3g} → {one.mode_share:.3g}, PSI {one.psi:.3g}, KS "
            f"{one.ks:.3g}, outside {one.out_of_range:.3g}"
        )
    with History("history.db", readonly=True) as history:
        yield from () if history.state(night.date, "drift") else ("no state of drift",)
    for step in next_steps(night):
        if step.finding.kind == "drift":
            output(*shlex.split(step.command)[1:])  # it runs
            yield step.command


@pytest.mark.parametrize("case", cases("drift"), ids=str)
def test_nights__with_changed_scores_or_columns__say_what_drifted(case: Case) -> None:
    """Lines such as `9-10 usual` are nights; others are of the configuration from there on."""
    found: list[str] = []
    for config, line in case.steps(CONFIG, r"with columns|\d"):
        Path("nightly.toml").write_text(config)
        if line == "with columns":
            shutil.move("columns.db", "history.db")
            continue
        dates, _, change = line.partition(" ")
        no_labels = ["--no-labels"] * change.startswith("no labels, ")
        for day in days(dates):
            columns = CHANGES[change.removeprefix("no labels, ")](rows_of(day))
            write(day, **columns | dict.fromkeys(["click"] * len(no_labels)))
            outcome = nightly("--date", on(day), *no_labels)
            assert outcome.exit_code in (0, 3, 4), outcome.output
            found += told(kept_on(day), outcome.exit_code)
    case.check(found)


def test_slices__of_few_rows_are_left_out__and_the_smallest_of_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(9)
    rows = min(one.rows for one in run(9).drift)
    configure("", ("min_rows = 200", f"min_rows = {rows + 1}"))
    assert {one.slice for one in run(9).drift} == {"all", "slot=top"}
    configure()
    monkeypatch.setattr("fastrank_eval.apps.nightly.drift._MOST_SLICES", 1)
    assert {one.slice for one in run(9).drift} == {"all", "slot=top"}


def test_young_history__is_not_judged() -> None:
    nights = kept()
    assert all(math.isnan(one.psi) for one in nights[0].drift)
    assert [nights[at].drift[0].nights for at in range(8)] == list(range(8))
    assert [nights[at].drift[0].verdict for at in (0, 4, 5, 7)] == [
        "not judged", "not judged", "same", "same",
    ]  # fmt: skip


def test_drift__in_the_json__is_that_of_the_night() -> None:
    write(9, **power(0.5, "side")(rows_of(9)))
    assert nightly("--date", on(9), "--json", "out.json").exit_code == 3
    # All rows drifted, which explains the slices.
    failed = [one.slice for one in kept()[-1].drift if one.verdict == "failed"]
    assert failed == ["all", "slot=side"]
    (content,) = json.loads(Path("out.json").read_text())["nights"]
    found = [(one["name"], one["by"], one["slice"]) for one in content["drift"]]
    wanted = [(one.name, one.by, one.slice) for one in kept()[-1].drift]
    assert sorted(found, key=str) == sorted(wanted, key=str)
    assert [one["by"] for one in content["drift"]][:3] == [None, None, "slot"]
    assert content["drift"][2]["median"] > content["drift"][2]["reference_median"]


# ---- columns ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("of_columns")
def test_columns__are_compared_like_scores__in_the_pass_of_the_night(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[tuple[str, ...]] = []
    unread_batches = Source.unread_batches

    def counted(self: Source, columns: Sequence[str]) -> object:
        read.append(tuple(columns))
        return unread_batches(self, columns)

    configure('columns = ["gaps", "new", "none"]\n[quality]\nmax_null_share = 0.2\n')
    columns = columns_of(9)
    write(9, **{**columns, "gaps": 3 * columns["gaps"], "none": pa.nulls(ROWS)})
    monkeypatch.setattr(Source, "unread_batches", counted)
    night = run(9, exit_code=4)
    assert len([columns for columns in read if "gaps" in columns]) == 1
    assert night.quality.flags == ("share of nulls of 'none' 1, above 0.2",)
    one = drift_of(night, "gaps")
    assert night.quality.nulls["gaps"] == one.nulls == ROWS / 10
    assert one.verdict == "failed"
    assert math.isnan(one.out_of_range)
    assert (drift_of(night, "new").distinct, drift_of(night, "new").verdict) == (2, "same")
    assert drift_of(night, "none").verdict == "failed"
    slices = {one.slice for one in night.drift if one.name == "gaps"}
    assert slices == {"all", "slot=side", "slot=top"}
    told = "The values of gaps are far from those of the last 8 nights: median"
    assert told in "".join(sentences(night))


@pytest.mark.parametrize(
    "text,complaint",
    [
        ('columns = ["prize"]', "[drift] columns: no column 'prize'. Did you mean 'price'?"),
        ('columns = ["slot"]', "[drift] columns: must be columns of numbers, got 'slot' of type "),
    ],
)  # fmt: skip
def test_configuration__wrong__is_refused(text: str, complaint: str) -> None:
    write(9)
    configure(f"{text}\n")
    before = dump()
    outcome = nightly("--date", on(9))
    assert outcome.exit_code == 2
    assert complaint in outcome.stderr
    assert [line for line in dump() if "not_evaluated" not in line] == [
        line for line in before if "not_evaluated" not in line
    ]


# ---- before labels come -------------------------------------------------------------------------


def without_labels(day: int, **columns: object) -> None:
    write(day, **{"click": None, **columns})


def test_missing_column_of_scores__has_no_remedy_of_labels() -> None:
    write(9, a=None)
    complaint = nightly("--date", on(9)).stderr
    assert "score: no column 'a'" in complaint
    assert "--no-labels" not in complaint
    without_labels(9, a=None)
    assert "--no-labels" in nightly("--date", on(9)).stderr


@pytest.mark.parametrize("column", ["user", "slot"])
def test_missing_column__names_the_columns_of_the_rows_alone(column: str) -> None:
    configure(PRICE)
    write(9, **{column: None})
    names = ", ".join(parquet.read_schema(f"logs/{on(9)}.parquet").names)
    complaint = nightly("--date", on(9)).stderr
    assert f"no column '{column}'" in complaint
    assert complaint.endswith(f"Columns: {names}.\n")


def test_no_labels__judges_what_needs_none__and_a_later_run_replaces_it() -> None:
    without_labels(9)
    complaint = nightly("--date", on(9)).stderr
    assert "label: no column 'click'. Columns: user, a, b, slot, price. If" in complaint
    assert "If labels come later, judge the rest of the night with --no-labels." in complaint
    outcome = nightly("--date", on(9), "--no-labels", "--json", "out.json")
    assert outcome.exit_code == 0
    assert "2026-11-09 fine: no labels yet" in outcome.stdout
    assert "judged without labels" in outcome.stdout
    (told,) = json.loads(Path("out.json").read_text())["nights"]
    assert told["headline"] == []
    assert told["conventions"]["labels"] == "none yet"
    assert told["command"].endswith("--no-labels")
    night = kept()[-1]
    assert (night.has_labels, night.values, night.quality.rows) == (False, (), ROWS)
    assert math.isnan(night.quality.ctr)
    assert math.isnan(night.quality.single_class_share)
    assert night.quality.groups == ROWS // 10
    assert [gate.reason for gate in night.gates] == ["the night has no labels yet"]
    nights = [replace(one, seconds=1.0, version="1") for one in kept()]
    cases("no_labels")[0].check(told_by(page(nights)))
    # Its conventions are not those of other nights, which is no change.
    assert edges(kept()) == []
    write(9)
    labelled = run(9)
    assert labelled.has_labels
    assert labelled.values
    # The scores are the same with and without labels.
    assert labelled.drift == night.drift
    outcome = nightly("--date", on(9), "--no-labels")
    assert outcome.exit_code == 2
    assert "--no-labels: must be a night without labels in the history" in outcome.stderr
    assert kept()[-1] == labelled


def test_no_labels__night_is_not_compared_with() -> None:
    without_labels(9)
    run(9, "--no-labels")
    write(10)
    night = run(10)
    assert night.notes == (f"not compared with yesterday: {on(9)} was judged without labels",)
    assert drift_of(night, "b").nights == 9
    assert night.quality.volume_drift == 0
    with History("history.db", readonly=True) as history:
        assert with_periods(night, history).period_notes == (
            f"week and month: {on(9)} is left out: it has no saved state; run it again",
            f"week and month: {NO_INTERVALS}",
        )


@pytest.mark.parametrize("by", ['["click", "@positives:1", "slot"]', '"@positives:1"'])
def test_no_labels__has_no_slices_of_labels(by: str) -> None:
    configure(PRICE, ('by = ["slot"]', f"by = {by}"))
    without_labels(9)
    wanted = {None, "slot"} if "slot" in by else {None}
    assert {one.by for one in run(9, "--no-labels").drift} == wanted
    write(9)
    drift = run(9).drift
    assert {one.by for one in drift if one.name == "price"} == wanted
    assert len({one.by for one in drift if one.name == "a"}) > len(wanted)


def test_no_labels__with_all_options() -> None:
    options = """
[evaluate]
measures = ["GAUC", "AUC"]
order = "grouped"
null_groups = "drop"
profile = "catboost"
unjudged = "drop"
groups = "with_relevant"
score_type = "float32"
"""
    weight = ('label = "click"\n', 'label = "click"\nweight = "price"\n')
    configure(PRICE, ('[evaluate]\nmeasures = ["GAUC", "AUC"]\n', options.lstrip()), weight)
    user = pa.array(rows_of(9)["user"], mask=np.arange(ROWS) < 10)
    without_labels(9, user=user)
    night = run(9, "--no-labels")
    assert (night.quality.rows, night.quality.groups) == (ROWS - 10, ROWS // 10 - 1)
    assert drift_of(night, "a").rows == drift_of(night, "price").rows == ROWS - 10


# ---- the nights compared with -------------------------------------------------------------------


@pytest.mark.parametrize(
    "days, nights, note",
    [
        ((3,), 6, f"{on(3)} is left out: its saved scores cannot be read; run it again, which "
         "replaces them"),
        (range(3, 9), 1, f"6 nights from {on(3)} to {on(8)} are left out: their saved scores "
         "cannot be read; run them again, which replaces them"),
    ],
)  # fmt: skip
def test_nights_without_a_state_or_with_a_damaged_one__are_left_out(
    days: Sequence[int], nights: int, note: str
) -> None:
    with closing(sqlite3.connect("history.db")) as database, database:
        database.execute("DELETE FROM state WHERE kind = 'drift' AND date = ?", (on(2),))
        broken = "UPDATE state SET content = zeroblob(9) WHERE kind = 'drift' AND date = ?"
        database.executemany(broken, [(on(day),) for day in days])
    write(9)
    night = run(9)
    assert {one.nights for one in night.drift} == {nights}
    assert night.notes == (f"drift: {note}",)
