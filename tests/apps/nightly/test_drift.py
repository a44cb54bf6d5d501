"""Drift of a night: against merged earlier nights, of scores and columns, before labels come."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import chdir, closing
from dataclasses import replace
from pathlib import Path

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
from tests.support.nightly_runs import dump, kept, nightly, on
from tests.support.transcripts import cases

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
    return next(night for night in kept() if night.date.day == day)


def drift_of(night: Night, score: str, slice_: str = "all") -> NightDrift:
    (found,) = (one for one in night.drift if (one.name, one.slice) == (score, slice_))
    return found


def drift_findings(night: Night) -> list[tuple[str, str, str]]:
    of = [one for one in night.findings if one.kind == "drift"]
    return [(one.score, one.slice, one.condition) for one in of]


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


def power(exponent: float, slot: str = "") -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    """Scores of b to a power, in one slot or in all."""
    return lambda of: np.where((of["slot"] == slot) | (not slot), of["b"] ** exponent, of["b"])


def some_null(of: dict[str, np.ndarray]) -> pa.Array:
    return with_nulls(of["b"], 0.05)


ALL, FAILED = ("b", "all"), "psi > 0.25"


@pytest.mark.parametrize(
    "change, limits, status, found",
    [
        (power(0.5), "", "regression", [(*ALL, FAILED)]),
        (power(0.7, "side"), "", "regression", [("b", "slot=side", FAILED), (*ALL, "")]),
        (power(0.88), "", "changed", [(*ALL, "")]),
        (power(0.5), "max_psi = 100\nnote_psi = 100\n", "fine", []),
        (power(0.5), "max_psi = 100\nnote_psi = 100\nmax_ks = 0.05\n", "regression",
         [(*ALL, "ks > 0.05")]),
        (some_null, "", "changed", [(*ALL, "")]),
        (some_null, "note_nulls = 0.1\n", "fine", []),
        (some_null, "max_nulls = 0.03\n", "regression", [(*ALL, "change of nulls > 0.03")]),
        (some_null, "max_nulls = 0\n", "regression", [(*ALL, "change of nulls > 0")]),
        (some_null, "max_nulls = 1\nnote_nulls = 1\n", "fine", []),
        (some_null, "nights = 0\n", "fine", []),
    ],
)  # fmt: skip
def test_change__is_judged_by_its_limits__slices_of_a_change_of_all_are_left_out(
    change: Callable[[dict[str, np.ndarray]], object],
    limits: str,
    status: str,
    found: list[tuple[str, str, str]],
) -> None:
    configure(limits, ALLOWED)
    write(9, b=change(rows_of(9)))
    night = run(9, exit_code=3 if status == "regression" else 0)
    assert (night.status, drift_findings(night)) == (status, found)
    assert {one.verdict for one in night.drift if one.name == "a"} <= {"same"}


def test_large_change__fails_the_night_and_says_how_far() -> None:
    write(9, b=rows_of(9)["b"] ** 0.5)
    night = run(9, exit_code=3)
    (finding,) = (one for one in night.findings if one.kind == "drift")
    shown = drift_of(night, "b")
    assert finding.number == shown.psi > 0.25
    assert {one.verdict for one in night.drift if one.name == "b"} == {"failed"}
    (text,) = (one for one in sentences(night) if "far from" in one)
    before = np.concatenate([rows_of(day)["b"] for day in range(1, 9)])
    medians = [np.median(scores) for scores in (before, rows_of(9)["b"] ** 0.5)]
    assert (shown.reference_median, shown.median) == pytest.approx(medians, rel=0.02)
    assert text == (
        f"The scores of b are far from those of the last 8 nights: median "
        f"{shown.reference_median:.3g} → {shown.median:.3g}; PSI {shown.psi:.3g}, above the limit "
        "of 0.25. Since 9 Nov (1 night)."
    )
    (gate,) = (one for one in night.gates if not one.passed)
    assert (gate.condition, gate.reason) == (FAILED, f"b: {finding.number:.3g}")
    write(10, b=rows_of(10)["b"] ** 0.5)
    (finding,) = (one for one in run(10, exit_code=3).findings if one.kind == "drift")
    assert (finding.nights, str(finding.since)) == (2, on(9))


def test_limits__of_nights_and_rows__are_those_of_the_configuration() -> None:
    write(9)
    configure("nights = 3\n")
    assert drift_of(run(9), "b").nights == 3
    configure("", ("min_rows = 200", "min_rows = 50000"))
    assert {one.verdict for one in run(9).drift} == {"not judged"}
    configure("nights = 0\n")
    assert run(9).drift == ()
    with History("history.db", readonly=True) as history:
        assert history.state(kept()[-1].date, "drift") is None


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


def test_scores_outside_of_0_to_1__fail__where_they_never_were() -> None:
    score = rows_of(9)["b"].copy()
    score[:40] = -5.0
    write(9, b=score)
    night = run(9, exit_code=3)
    assert drift_of(night, "b").out_of_range == 40 / ROWS
    (finding,) = (one for one in night.findings if one.condition == "scores outside [0, 1]")
    assert finding.number == 40 / ROWS
    assert sentences(night)[0].startswith(
        "2% of the scores of b are outside [0, 1]; most of the last 8 nights had none."
    )
    # Again, until it is usual.
    write(10, b=score)
    assert drift_of(run(10, exit_code=3), "b").out_of_range == 40 / ROWS
    for day in range(1, 10):
        write(day, b=5 * rows_of(day)["b"])
    backfill(1, 9)
    assert math.isnan(drift_of(kept()[8], "b").out_of_range)


def test_dead_slice__is_named_once() -> None:
    rows = rows_of(9)
    write(9, b=np.where(rows["slot"] == "side", 0.04, rows["b"]))
    night = run(9, exit_code=3)
    assert drift_of(night, "b", "slot=side").verdict == "failed"
    assert drift_of(night, "b", "slot=side").distinct == 1
    assert [one.kind for one in night.findings if one.slice == "slot=side"] == ["scores"]


def test_nulls_and_default_values__are_shown_before_and_after() -> None:
    score = rows_of(9)["b"].copy()
    score[: ROWS // 4] = 0.04
    write(9, b=pa.array(score, mask=np.arange(ROWS) % 10 == 9), click=None)
    night = run(9, "--no-labels", exit_code=3)
    one = drift_of(night, "b")
    assert (one.nulls, one.reference_nulls) == (ROWS // 10, 0)
    assert one.mode_share == pytest.approx(0.25, abs=0.01)
    assert one.reference_mode_share < 0.02
    text = next(text for text in sentences(night) if "far from" in text)
    assert re.search("nulls 0% → 10%, most frequent value 1.*% → 25%; PSI", text)
    # Nothing can be evaluated without labels.
    assert next_steps(night) == []


@pytest.mark.usefixtures("of_columns")
def test_jump_of_nulls__fails_the_night_before_labels_come__all_rows_alone() -> None:
    rows = rows_of(9)
    broken = {"a": with_nulls(rows["a"], 0.4), "price": with_nulls(rows["price"], 0.95)}
    write(9, **broken, click=None)
    night = run(9, "--no-labels", exit_code=3)
    found = {one.score: one for one in night.findings}
    assert found.keys() == {"a", "price"}
    one = drift_of(night, "a")
    share = broken["a"].null_count / ROWS
    assert (one.verdict, one.psi < 0.1, one.nulls) == ("failed", True, share * ROWS)
    assert (found["a"].condition, found["a"].slice) == ("change of nulls > 0.1", "all")
    assert (found["a"].number, found["a"].limit) == (share, 0.1)
    assert (
        f"{100 * share:.3g}% of the scores of a are null, and 0% on the last 8 nights; the change "
        "is above the limit of 10%. Since 9 Nov (1 night)."
    ) in sentences(night)
    # So few numbers are left that they are not compared.
    assert drift_of(night, "price").verdict == "failed"
    gate = night.gates[-1]
    assert gate.reason == "; ".join(f"{name}: {found[name].number:.3g}" for name in ("a", "price"))
    # It is no usual night.
    write(10)
    night = run(10)
    assert (drift_of(night, "a").nights, drift_of(night, "b").nights) == (8, 9)


def test_drift__in_the_json__is_that_of_the_night() -> None:
    write(9, b=power(0.5, "side")(rows_of(9)))
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


# ---- the next step ------------------------------------------------------------------------------

SOURCE = f"logs/{on(9)}.parquet --group user --label click"


def steps_of(night: Night) -> list[str]:
    commands = [step.command for step in next_steps(night) if step.finding.kind == "drift"]
    for command in commands:
        output(*shlex.split(command)[1:])
    return commands


def test_next_step__shows_the_deciles_of_a_model() -> None:
    rows = rows_of(9)
    write(9, b=power(0.7, "side")(rows))
    assert steps_of(run(9, exit_code=3)) == [
        f"fastrank-eval curve calibration {SOURCE} --score b --where \"slot = 'side'\""
    ]
    score = rows["b"].copy()
    score[:40] = -5.0
    write(9, b=score)
    assert steps_of(run(9, exit_code=3)) == [
        f"fastrank-eval evaluate {SOURCE} --score b --measures AUC --where 'b < 0 or b > 1'"
    ]


@pytest.mark.usefixtures("of_columns")
def test_next_step__shows_the_model_by_a_column() -> None:
    configure('columns = ["big price", "new"]\n')
    price = rows_of(9)["price"]
    write(9, **{"big price": price * 3, "new": np.full(ROWS, True)})
    of = f"fastrank-eval evaluate {SOURCE} --score a --measures GAUC --by"
    assert sorted(steps_of(run(9, exit_code=3))) == [
        f"{of} '\"big price\":quantile10'", f"{of} new",
    ]  # fmt: skip


@pytest.mark.usefixtures("of_columns")
def test_next_step__of_fewer_nulls__and_of_nulls_of_a_slice() -> None:
    configure('columns = ["nulls"]\n', ALLOWED)
    rows = rows_of(9)
    # A third of a slice: less than the limit on all rows.
    write(9, nulls=rows["price"], b=with_nulls(rows["b"], 0.3, rows["slot"] == "side"))
    night = run(9, exit_code=3)
    failed = {(one.score, one.slice) for one in night.findings if one.condition}
    assert failed == {("nulls", "all"), ("b", "slot=side")}
    assert [(one.score, one.slice) for one in night.findings if not one.condition] == [("b", "all")]
    of = f"fastrank-eval evaluate {SOURCE} --score"
    assert steps_of(night) == [
        f"{of} a --measures GAUC --by nulls:quantile10 --unretrieved allow",
        f"{of} b --measures GAUC --by b:quantile10 --unretrieved allow --where \"slot = 'side'\"",
    ]


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


@pytest.mark.usefixtures("of_columns")
@pytest.mark.parametrize(
    "content,why",
    [
        (None, "no column 'price'."),
        (["dear"] * ROWS, "must be columns of numbers, got 'price' of type string"),
    ],
)
def test_column__that_is_gone__fails_alone(content: object, why: str) -> None:
    for day in (9, 10):
        write(day, price=content)
        night = run(day, exit_code=3)
        one = drift_of(night, "price")
        assert (one.rows, one.nulls, one.distinct, one.verdict) == (ROWS, ROWS, 0, "failed")
        assert drift_of(night, "b").verdict == "same"
        assert night.values
        (finding,) = (one for one in night.findings if one.kind == "drift")
        assert (finding.score, finding.slice, finding.condition) == ("price", "all", "no numbers")
        assert sentences(night)[0].startswith(
            "There are no values of price; the last 8 nights had some."
        )
        assert any(
            note.startswith("drift: 'price' is gone: ") and why in note for note in night.notes
        )
        assert next_steps(night) == []
    write(11)
    assert drift_of(run(11), "price").verdict == "same"


@pytest.mark.usefixtures("of_columns")
def test_column__that_is_gone_in_a_night_without_rows__is_noted() -> None:
    rows = {name: values[:0] for name, values in rows_of(9).items() if name != "price"}
    parquet.write_table(pa.table(rows), f"logs/{on(9)}.parquet")
    night = run(9, exit_code=4)
    assert (night.quality.rows, night.drift) == (0, ())
    (note,) = (note for note in night.notes if "gone" in note)
    assert note.startswith("drift: 'price' is gone: ")


def test_columns__of_a_night_sorted_by_scores() -> None:
    rows = rows_of(9)
    order = np.lexsort((-rows["a"], rows["user"]))
    write(9, **{name: values[order] for name, values in rows.items()})
    one_score = ('scores = ["a", "b"]\nbaseline = "a"', 'scores = ["a"]')
    configure(PRICE, ("[slices]", 'order = "sorted"\n[slices]'), one_score)
    assert drift_of(run(9), "price").median == pytest.approx(np.median(rows["price"]), rel=0.02)


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
    assert dump() == before


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
    assert [gate.reason for gate in night.gates] == ["not judged: the night has no labels yet"]
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


def test_reference__has_sound_nights_only__the_last_few() -> None:
    write(9, **{name: values[:40] for name, values in rows_of(9).items()})
    configure("nights = 5\n[quality]\nmin_rows = 100\n")
    assert run(9, exit_code=4).status == "data_quality"
    write(10)
    assert {one.reference_rows for one in run(10).drift if one.by is None} == {5 * ROWS}


def test_night_that_failed__is_no_reference__until_the_change_lasts() -> None:
    def changed(day: int) -> None:
        write(day, b=rows_of(day)["b"] ** 0.5)

    changed(9)
    run(9, exit_code=3)
    write(10)
    one = drift_of(run(10), "b")
    assert (one.nights, one.verdict) == (8, "same")
    assert drift_of(kept()[-1], "a").nights == 9
    for day in range(11, 18):
        changed(day)
    backfill(11, 17, exit_code=3)
    found = [drift_of(night, "b") for night in kept()[10:]]
    assert {(one.nights, one.verdict) for one in found} == {(9, "failed")}
    # Seven nights: it is the usual distribution now.
    for day in range(18, 20):
        changed(day)
        one = drift_of(run(day), "b")
        assert (one.nights, one.verdict) == (day - 11, "same")
    write(20)
    assert drift_of(run(20, exit_code=3), "b").verdict == "failed"


def test_slice_that_failed__is_left_out_alone() -> None:
    write(9, b=power(0.7, "side")(rows_of(9)))
    run(9, exit_code=3)
    write(10)
    found = {one.slice: one.nights for one in run(10).drift if one.name == "b"}
    assert found == {"all": 9, "slot=side": 8, "slot=top": 9}


def test_constant_night_of_a_young_history__is_no_reference() -> None:
    write(3, b=np.full(ROWS, 0.04))
    nightly("--date", on(3), "-q")
    assert kept()[2].drift[1].verdict == "not judged"
    write(9)
    assert drift_of(run(9), "b").nights == 7


def test_reference__has_the_same_condition_and_expression() -> None:
    scores = ('scores = ["a", "b"]', 'scores = { a = "a", c = "b * 1" }')
    path = '"logs/{date}.parquet"'
    found = []
    for day, change in enumerate(
        [("", ""), ("", ""), ("b * 1", "b * 2"), (path, path + '\nwhere = "price > 1"')], start=9
    ):
        configure("", scores, *([change] if change[0] else []))
        write(day)
        night = run(day)
        found.append((drift_of(night, "a").nights, drift_of(night, "c").nights))
    assert found == [(8, 0), (9, 1), (10, 0), (0, 0)]


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
