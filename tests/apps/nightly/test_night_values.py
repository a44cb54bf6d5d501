"""What a night is found to be: differences, counts of its rows, drift."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.apps.nightly.compare_nights import Series, drift, from_baseline, from_earlier
from fastrank_eval.apps.nightly.config_checks import settings, with_headings
from fastrank_eval.apps.nightly.documents import strength
from fastrank_eval.apps.nightly.night import Key, Night, NightQuality
from fastrank_eval.apps.nightly.quality import (
    SINGLE_CLASS,
    TIED,
    UNJUDGED,
    UNSCORED,
    DistinctScores,
    curves_of,
    few_scores,
    judge_rows,
    missing_slices,
    quality_of,
    scores_to_count,
    with_display_names,
    with_standard_errors,
)
from fastrank_eval.apps.nightly.reproduce import _requested
from fastrank_eval.engine.run import Evaluation, run
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.stats.hypothesis_tests import clustered_test
from tests.support.nights import a_night, a_value
from tests.support.transcripts import answers

COUNTS = [SINGLE_CLASS, TIED]
NIGHT = a_night().date
HIDDEN = frozenset(map(str, [*COUNTS, UNJUDGED, UNSCORED]))


def values_of(done: Evaluation) -> list[Any]:
    return [value for value in done.summary if value.measure not in HIDDEN]


MEASURES = "GAUC,nDCG@3,NumRel,LogLoss,AUC"


def a_log(seed: int, users: int = 60) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 9, users)
    rows = int(sizes.sum())
    return {
        "user": np.repeat(np.arange(users), sizes),
        "click": random.integers(0, 2, rows),
        "old": random.integers(1, 9, rows) / 10,
        "new": random.integers(1, 9, rows) / 10,
        "slot": pa.array(random.choice([None, "top", "side"], rows).tolist()),
    }


def evaluated(log: Any, measures: str = MEASURES, **options: Any) -> Evaluation:
    return run(
        log,
        group=options.pop("group", "user"),
        label="click",
        score=["old", "new"],
        measures=[*measures.split(","), *COUNTS, *options.pop("more", [])],
        baseline=options.pop("baseline", "old"),
        keep=options.pop("keep", "scores"),
        **options,
    )


def test_values__are_those_of_evaluate__with_their_slicing() -> None:
    log = a_log(1)
    by = ["slot", "@rows:1,3", "slot,@rows:1,3"]
    values = values_of(evaluated(log, by=by, min_groups=5))
    alone = fe.evaluate(
        log, group="user", label="click", score=["old", "new"], measures=MEASURES, by=by,
        min_groups=5, baseline="old",
    )  # fmt: skip
    assert len(values) == len(alone.values)
    for mine, theirs in zip(values, alone.values, strict=True):
        for name in ("score", "slice", "measure", "value", "se", "groups_used", "dropped"):
            assert repr(getattr(mine, name)) == repr(getattr(theirs, name))
    slicings = Counter(value.by for value in values)
    assert list(slicings) == [None, *by]
    assert {value.slice for value in values if not value.by} == {"all"}


def paired_error(log: Any, measure: str, rows: np.ndarray) -> tuple[float, float, int]:
    """Difference, its clustered standard error and groups, from the values of each group."""
    chosen = {name: pa.array(column).filter(pa.array(rows)) for name, column in log.items()}
    result = fe.evaluate(
        chosen, group="user", label="click", score=["old", "new"], measures=measure
    )
    pairs = []
    weights = result.per_group.column("rows").to_numpy() if measure == "GAUC" else None
    for score in ("old", "new"):
        value = result[score, measure]
        used = ~np.isnan(value)
        w = used * (1.0 if weights is None else weights)
        value = np.where(used, value, 0.0)
        mean = float((w * value).sum() / w.sum())
        pairs.append((mean, w * (value - mean) / w.sum(), used))
    groups = int((pairs[0][2] | pairs[1][2]).sum())
    squares = float(((pairs[1][1] - pairs[0][1]) ** 2).sum())
    return pairs[1][0] - pairs[0][0], math.sqrt(groups / (groups - 1) * squares), groups


@pytest.mark.parametrize("measure", ["GAUC", "nDCG@3"])
def test_from_baseline__is_the_paired_clustered_error(measure: str) -> None:
    log = a_log(2)
    done = evaluated(log, by="slot")
    found = from_baseline(done, values_of(done), 0.95)
    assert {line.measure for line in found} == {value.measure for value in values_of(done)}
    slots = np.array([str(slot) for slot in log["slot"].to_pylist()])
    for name in ("all", "slot=top", "slot=null"):
        rows = np.ones(len(slots), bool)
        if name != "all":
            rows = slots == {"slot=top": "top", "slot=null": "None"}[name]
        (line,) = [d for d in found if (d.slice, d.measure) == (name, measure)]
        delta, se, groups = paired_error(log, measure, rows)
        assert line.delta == pytest.approx(delta, abs=1e-14)
        assert line.se == pytest.approx(se, rel=1e-9)
        test = clustered_test(delta, se, groups, groups - 1)
        # Of at most as many degrees of freedom.
        assert test.p_value * (1 - 1e-6) <= line.p_value <= 1.2 * test.p_value
        assert (line.ci_low + line.ci_high) / 2 == pytest.approx(delta)
        assert (line.kind, line.score, line.baseline) == ("baseline", "new", "old")
        assert line.p_adjusted >= line.p_value


def test_from_earlier__is_unpaired() -> None:
    gauc = a_value("new", None, "all", "GAUC", 0.7, se=0.03)
    now = [gauc, a_value("new", None, "all", "AUC", 1)]
    then = [replace(gauc, value=0.8, se=0.04), a_value("new", None, "all", "AUC", 0)]
    then.append(replace(then[0], score="old"))
    change, auc = from_earlier("yesterday", now, then, 0.95)
    assert (change.delta, change.se) == pytest.approx((-0.1, 0.05))
    assert change.ci_high == pytest.approx(-0.1 + 1.959964 * 0.05, rel=1e-5)
    assert change.p_value == change.p_adjusted == pytest.approx(0.0455, abs=1e-4)
    assert (change.kind, change.baseline, change.verdict) == (
        "yesterday",
        "new",
        "worse",
    )
    assert (auc.delta, auc.verdict) == (1, "not tested")
    assert change.relative == pytest.approx(-0.125)
    assert from_earlier("yesterday", now, [], 0.95) == []


def test_from_earlier__groups_that_do_not_vary__have_no_interval() -> None:
    was = a_value("new", "slot", "slot=1", "GAUC", 1.0, se=0.0, groups_used=40)
    for se in (0.0, math.nan):
        now = replace(was, value=0.0, se=se)
        (line,) = from_earlier("yesterday", [now], [was], 0.95)
        assert (line.verdict, strength(vars(line))) == ("not tested", 0.0)
        assert all(map(math.isnan, (line.se, line.ci_low, line.ci_high, line.p_value)))
    (alike,) = from_earlier("yesterday", [was], [was], 0.95)
    (unknown,) = from_earlier("yesterday", [replace(was, se=math.nan, value=0.5)], [was], 0.95)
    assert (strength(vars(alike)), strength(vars(unknown))) == (0.0, 0.0)
    assert unknown.verdict == "not tested"


@pytest.mark.parametrize("order", ["grouped", "scattered"])
def test_quality__counts_rows_as_a_loop_does(order: str) -> None:
    log = a_log(4)
    done = evaluated(log, by=["slot", "@rows:1,3"], order=order)
    found = quality_of(done)
    users = {user: np.flatnonzero(log["user"] == user) for user in set(log["user"].tolist())}
    tied = sum(
        count
        for rows in users.values()
        for count in Counter(log["old"][rows].tolist()).values()
        if count > 1
    )
    alike = sum(len(set(log["click"][rows].tolist())) == 1 for rows in users.values())
    assert found.rows == len(log["user"])
    assert found.groups == len(users)
    assert found.ctr == log["click"].mean()
    assert found.tie_rate == tied / found.rows
    assert found.single_class_share == alike / found.groups
    assert found.coverage == 1 - alike / found.groups
    slots = log["slot"].null_count
    assert found.nulls == {"user": 0, "click": 0, "old": 0, "new": 0, "slot": slots}
    slices = Counter(f"slot={'null' if slot is None else slot}" for slot in log["slot"].to_pylist())
    large = sum(len(rows) for rows in users.values() if len(rows) >= 3)
    assert found.slices["slot"] == slices
    assert found.slices["@rows:1,3"] == {"@rows=1-2": found.rows - large, "@rows>=3": large}


def test_quality__groups_without_positives_left_out__are_still_of_one_class() -> None:
    log = a_log(4)
    usual = quality_of(evaluated(log))
    assert quality_of(evaluated(log, groups="with_relevant")).single_class_share == (
        usual.single_class_share
    )


@pytest.mark.parametrize("by", ["slot", "user:10,20,40"])
def test_quality__is_not_counted_in_slices__which_have_the_same_values(by: str) -> None:
    """Slices divide the groups, or do not; groups without a click need no ranks there."""
    log = a_log(5) | {"click": a_log(5)["click"] * (np.arange(len(a_log(5)["user"])) % 3 == 0)}
    done = evaluated(log, by=by)
    assert done.plan.skip_empty_in_slices
    assert not done.plan.skip_empty
    wanted = fe.evaluate(
        log, group="user", label="click", score=["old", "new"], measures=MEASURES, by=by,
        baseline="old",
    )  # fmt: skip
    assert repr(values_of(done)) == repr(list(wanted.values))
    assert {v.groups_used for v in done.summary if v.by and v.measure in HIDDEN} == {0}


def test_quality__nulls_that_are_allowed__are_counted() -> None:
    log = a_log(5)
    random = np.random.default_rng(5)
    for name, many in (("click", 7), ("old", 4), ("new", 9)):
        missing = np.zeros(len(log[name]), bool)
        missing[random.choice(len(missing), many, replace=False)] = True
        log[name] = pa.array(log[name], mask=missing)
    done = evaluated(
        log, measures="GAUC,nDCG@3", keep="", unjudged="allow", unretrieved="allow",
        more=[UNJUDGED, UNSCORED],
    )  # fmt: skip
    nulls = quality_of(done).nulls
    assert (nulls["old"], nulls["new"]) == (4, 9)
    assert nulls["click"] == 7


def test_limits__each__tells_what_is_wrong() -> None:
    quality = NightQuality(
        100, 10, 5, 0.05, 0.4, 0.6, 0.2, {"slot": 30}, tie_rates={"old": 0.2, "new": 0.1}
    )
    night = replace(a_night(), quality=quality)
    limits = settings(
        "quality",
        min_rows=200,
        min_groups=20,
        min_coverage=0.5,
        max_single_class_share=0.5,
        max_tie_rate=0.1,
        max_null_share=0.25,
        max_volume_drift=3.0,
        max_ctr_drift=3.0,
    )
    steady = nights_before(6, rows=[1000, 1001, 1002, 1003, 1004, 1005], ctr=0.01)
    found = judge_rows(night, steady, limits)
    assert [flag.split(" ")[0] for flag in found.flags] == [
        "rows", "groups", "coverage", "share", "tie", "share", "rows", "CTR",
    ]  # fmt: skip
    assert found.flags[5] == "share of nulls of 'slot' 0.3, above 0.25"
    assert found.volume_drift < -3 < 3 < found.ctr_drift
    for share, nulls in (({"slot": 0.3}, 0), ({"x": 0.1}, 0), ({"x": 0.3, "*": 0.1}, 1)):
        of_columns = settings("quality", max_null_share=share)
        assert len(judge_rows(night, steady, of_columns).flags) == nulls
    assert judge_rows(night, steady, settings("quality")).flags == ()
    assert math.isnan(judge_rows(night, steady[:4], limits).volume_drift)


def test_headings__stand_for_the_measures_of_the_configuration() -> None:
    requested = requested_measures(with_headings({"Users": "GAUC", "Area": "AUC", "AP": "MAP"}))
    done = run(
        a_log(7), group="user", label="click", score=["old"], baseline=None,
        measures=with_standard_errors(requested),
    )  # fmt: skip
    texts = tuple(map(str, done.plan.measures))
    night = replace(a_night(), measures=texts, conventions={"measures": {}})
    night = with_display_names(night, requested, done)
    assert night.measures == ("GAUC", "AUC", "AP")
    assert [*map(night.name_of, night.measures)] == ["Users", "Area", "AP"]
    assert [_requested(night, text) for text in night.measures] == ["GAUC", "AUC", "AP"]


def test_few_scores__of_each_model__fail_by_its_own_limit() -> None:
    log = a_log(6) | {"old": np.full(len(a_log(6)["user"]), 0.5)}
    cases: list[tuple[Any, list[tuple[str, int]]]] = [
        (None, [("old", 2), ("new", 10)]), (20, [("old", 20), ("new", 20)]),
        ({"old": 0}, [("new", 10)]), ({"new": 20}, [("old", 2), ("new", 20)]),
        ({"new": 8, "*": 1}, []),
    ]  # fmt: skip
    for limit, found in cases:
        done = evaluated(log, "GAUC", keep="", more=[DistinctScores(limit=scores_to_count(limit))])
        few = few_scores(done, limit)
        assert [(one.score, one.limit) for one in few] == found
        assert [one.score for one in few if not one.condition] == ["new"] * (("new", 10) in found)


def nights_before(
    nights: int, rows: Sequence[int] = (1000,), date: dt.date = NIGHT, **changes: Any
) -> list[Night]:
    """Nights of one CTR and few ties before a date, the latest first."""
    usual: dict[str, Any] = {"ctr": 0.05, "tie_rates": {"old": 0.01, "new": 0.03}}
    usual |= {"slices": {"slot": {"slot=top": 900, "slot=side": 90, "slot=foot": 9}}, **changes}
    return [
        replace(
            a_night(), status="fine", date=date - dt.timedelta(1 + ago),
            quality=NightQuality(
                rows[ago % len(rows)], 200, 50, coverage=0.4, single_class_share=0.6, tie_rate=0.01,
                **usual,
            ),
        )
        for ago in range(nights)
    ]  # fmt: skip


#: Changes of a usual night, and what is found without a limit in the configuration.
UNUSUAL = {
    "as usual": ({}, ()),
    "half the rows": ({"rows": 500}, ()),
    "fewer": ({"rows": 20}, ("rows 20, 2% of the median 1,000 of the last 14 nights",)),
    "more": ({"rows": 2010}, ("rows 2,010, 2.01 times the median 1,000 of the last 14 nights",)),
    "few clicks": (
        {"ctr": 0.02}, ("CTR 0.02, 40% of the median 0.05 of the last 14 nights",),
    ),
    "too few rows for clicks": ({"ctr": 0.02, "rows": 990}, ()),
    "doubled in part": (
        {"tie_rates": {"old": 0.08, "new": 0.101}},
        ("rows may be doubled: 80 of 1,000 share their score of old with another row of their "
         "group, and 1% by the median of the last 14 nights; more of new do so too",),
    ),
    "coarser scores": ({"tie_rates": {"old": 0.8, "new": 0.03}}, ()),
    "a new model": (
        {"tie_rates": {"old": 0.8, "newest": 0.0}},
        ("rows may be doubled: 800 of 1,000 share their score of old with another row of their "
         "group, and 1% by the median of the last 14 nights",),
    ),
    "longer groups": ({"rows": 1900, "tie_rates": {"old": 0.021, "new": 0.06}}, ()),
    "twice as many, rounded": ({"ctr": 0.1 + 1e-17}, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
def test_limits__without_a_table__compare_with_the_nights_before(name: str) -> None:
    changes, flags = UNUSUAL[name]
    night = nights_before(1)[0]
    before, limits = nights_before(14, date=night.date), settings("quality")
    night = replace(night, quality=replace(night.quality, **changes))
    assert judge_rows(night, before, limits).flags == flags
    off = settings("quality", max_volume_factor=0, max_ctr_factor=0, max_tie_rise=0)
    assert judge_rows(night, before, off).flags == ()
    bad = [replace(each, status="data_quality") for each in before[6:]]
    other = [replace(each, conventions={"where": "x > 0"}) for each in before[6:]]
    for few in (before[:6], before[:6] + bad, before[:6] + other):
        assert judge_rows(night, few, limits).flags == ()
    assert judge_rows(replace(night, provisional=True), before, limits).flags == tuple(
        flag for flag in flags if not flag.startswith("CTR")
    )
    dead = judge_rows(night, before, limits, dead=night.quality.tie_rates).flags
    assert dead == tuple(flag for flag in flags if "doubled" not in flag)


def test_limits__without_a_table__know_the_weekday() -> None:
    night = nights_before(1)[0]
    # A seventh of the rows on each weekday of the night.
    before = nights_before(28, [1000] * 6 + [140], night.date)
    sunday = replace(night, quality=replace(night.quality, rows=150))
    limits = settings("quality")
    assert judge_rows(sunday, before, limits).flags == ()
    assert judge_rows(night, before, limits).flags == (
        f"rows 1,000, 7.14 times the median 140 of the last 4 {night.date:%A}s",
    )
    assert judge_rows(night, before[:27], limits).flags == ()


def test_limits__without_a_table__learn_what_lasts() -> None:
    limits, date = settings("quality"), nights_before(1)[0].date
    night = replace(nights_before(1)[0], date=date)
    before = nights_before(30, date=date)
    half = [
        replace(each, status="data_quality", quality=replace(each.quality, rows=300, unusual=True))
        for each in before[:7]
    ]
    few = replace(night, quality=replace(night.quality, rows=300))
    assert judge_rows(few, [*half[:6], *before[6:]], limits).unusual
    judged = judge_rows(few, [*half, *before[7:]], limits)
    assert (judged.flags, judged.unusual) == ((), False)
    assert judge_rows(night, [*half, *before[7:]], limits).unusual
    # Limits of the configuration say what is wrong, not what is unusual.
    assert not judge_rows(few, before, settings("quality", min_rows=400)).unusual


def test_doubled_rows__are_not_judged_by_a_model_that_mostly_ties() -> None:
    night, limits = nights_before(1)[0], settings("quality")
    before = nights_before(14, date=night.date, tie_rates={"old": 0.01, "flat": 1.0})
    doubled = replace(night, quality=replace(night.quality, tie_rates={"old": 1.0, "flat": 1.0}))
    assert "may be doubled" in judge_rows(doubled, before, limits).flags[0]
    only = [
        replace(each, quality=replace(each.quality, tie_rates={"flat": 1.0})) for each in before
    ]
    assert judge_rows(doubled, only, limits).flags == ()


def test_series__has_a_value_or_none_of_each_night__the_last_first_by_night() -> None:
    night = a_night()
    nights = [replace(a_night(day), values=values) for day, values in
              enumerate((night.values, (), night.values[:1]), 1)]  # fmt: skip
    series, key = Series(nights), Key.of(night.values[1])
    first = series.past(*Key.of(night.values[0]))
    assert repr(first) == repr([night.values[0], None, night.values[0]])
    assert repr(series.past(*key)) == repr([night.values[1], None, None])
    assert series.past("no model", "all", "GAUC") == [None] * 3
    rows = series.by_night([first, series.past(*key)])
    assert [each.date.day for each, _ in rows] == [3, 2, 1]
    assert [[one is not None for one in row] for _, row in rows] == [
        [True, False], [False, False], [True, True],
    ]  # fmt: skip
    by_kind = Series([night], "compared", lambda one: (one.kind, *Key.of(one)))
    assert len(by_kind.by_key) == len(night.compared)


def test_missing_slices__are_those_that_every_night_had() -> None:
    night, before = nights_before(1)[0], nights_before(9)[1:]
    rows = {"slot": {"slot=foot": 1000}}
    night = replace(night, quality=replace(night.quality, slices=rows))
    (finding,) = missing_slices(night, before, 0.01)
    assert finding.detail == (
        "No rows in slot=top (90%), slot=side (9%); the share is the least of the last 7 nights"
    )
    assert "side" not in missing_slices(night, before, 0.09)[0].detail
    lacking = replace(before[6], quality=replace(before[6].quality, slices=rows))
    few_groups = replace(night, quality=replace(night.quality, groups=20))
    for found in (
        missing_slices(night, before, 0),
        missing_slices(night, before[:6], 0.01),
        missing_slices(night, [*before[:6], lacking, *before[7:]], 0.01),
        missing_slices(replace(night, quality=before[0].quality), before, 0.01),
        missing_slices(few_groups, before, 0.01)[1:],
    ):
        assert found == []
    assert "side" not in missing_slices(few_groups, before, 0.01)[0].detail


def test_missing_slices__in_a_slice_that_is_missing_too__are_not_named() -> None:
    slices = {
        "dev": {"dev=1": 500, 'dev="a,b"': 300, "dev=2": 200},
        "country,dev": {
            "country=DE,dev=1": 450, 'country=DE,dev="a,b"': 300, "country=DE,dev=2": 90,
        },
        "dev,slot,age:10,20": {
            "dev=1,slot=top,age=[10,20)": 400, "dev=2,slot=top,age=[10,20)": 60,
        },
        "slot,age:10,20": {"slot=top,age=[10,20)": 460},
    }  # fmt: skip
    before, night = nights_before(9, slices=slices), nights_before(1)[0]
    rows = {"dev": {"dev=2": 200}, "country,dev": {"country=FR,dev=2": 200},
            "dev,slot,age:10,20": {}, "slot,age:10,20": {"slot=top,age=[10,20)": 1}}  # fmt: skip
    night = replace(night, quality=replace(night.quality, slices=rows))
    (finding,) = missing_slices(night, before, 0.01)
    assert finding.detail.startswith(
        'No rows in dev=1 (50%), dev="a,b" (30%), country=DE,dev=2 (9%) and 1 more; '
    )


def test_drift__median_and_deviations() -> None:
    assert drift(13.0, [10, 11, 9, 10, 12]) == pytest.approx(3 / 1.4826)
    assert math.isnan(drift(13.0, [10, 11, 9, math.nan, 12]))
    assert drift(102.0, [100.0] * 5) == pytest.approx(2.0)
    assert math.isnan(drift(1.0, [0.0] * 5))
    assert math.isnan(drift(math.nan, [1.0] * 5))


def test_curves__of_probabilities__at_few_points() -> None:
    random = np.random.default_rng(9)
    log = {"user": np.arange(2000) // 4, "click": random.integers(0, 2, 2000)}
    log |= {"old": random.random(2000), "new": random.random(2000) * 3}
    curves = curves_of(evaluated(log, measures="GAUC,AUC"))
    (old, new), (calibrated,) = curves["roc"], curves["calibration"]
    assert (old.score, new.score, calibrated.score) == ("old", "new", "old")
    assert len(old.x) <= 100
    assert (old.x[0], old.y[0], old.x[-1], old.y[-1]) == (0, 0, 1, 1)
    assert len(calibrated.x) == 20
    assert old.label.startswith("AUC 0.")
    assert curves_of(evaluated(log, measures="GAUC", keep="")) == {}
    for text in ("AUC(se='clustered')", "AUC(max_fpr=0.2)", "AUC(se='delong'),AUC"):
        drawn = curves_of(evaluated(log, measures=text))
        assert [replace(line, label="") for line in drawn["roc"]] == [
            replace(line, label="") for line in curves["roc"]
        ]
        assert drawn["calibration"] == curves["calibration"]
    assert drawn["roc"][0].label.startswith("AUC 0.")
    assert curves_of(evaluated(log, measures="AUC(bins=100),AUC(rel=2)")) == {}
    log["click"][:] = 0
    assert "roc" not in curves_of(evaluated(log, measures="GAUC,AUC"))


test_answers = answers(globals())
