"""What results, reports and gates claim: no more than the rows say.

Each test is named by the number of a fault that use has found, and by what the user saw. Sections
have no order between them.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from pyarrow import parquet

import fastrank_eval as fe
from bench.nulls import USERS, cells
from fastrank_eval.apps.nightly.alarms import alarms
from fastrank_eval.apps.nightly.history import History
from fastrank_eval.apps.nightly.night import GateOutcome
from fastrank_eval.apps.nightly.text import false_alarms
from fastrank_eval.results.views import write_table
from tests.forged_states import file_in, file_of
from tests.support import batched, commands
from tests.support.doors import DOORS, DOORS_OF_ROWS, DROPS, NIGHT, log_without
from tests.support.names_of_files import NAMES, SOURCES, write_source
from tests.support.sample_nights import month
from tests.support.transcripts import Case, cases

pytestmark = pytest.mark.usefixtures("own_folder")

DOCS = Path(__file__).parents[1] / "docs"
#: Measures whose values of groups the documents read.
KEYED = ["GAUC", "MRR"]


# --- In a line each (all numbers) -----------------------------------------------------------------

PROFILES = ["trec_eval_9", "trec_eval_10", "ir_measures", "ranx", None]
TREC_QRELS = {"1": {"10": 1}, "2": {"3": 1}, "3": {"7": 1}}
TWO_QUERIES = {"1": {"10": 0.5}, "2": {"3": 0.5}}
SHARES = {"1": {"a": 0.83, "b": 0.2, "c": 0.0}, "2": {"a": 0.5, "b": 0.0}}
SHARES_RUN = {query: {"b": 2.0, "a": 1.0, "c": 0.5} for query in SHARES}
ACCURACY = ({"1": {"a": 1, "b": 0, "c": 0}}, {"1": {"b": 3.0, "a": 2.0, "c": 1.0}})
WHOLE_QRELS = {"1": dict(zip("abcde", (1, 0, 1, 0, 0), strict=True)), "2": {"a": 1, "c": 0}}
WHOLE_RUN = {"1": dict(zip("abcde", (5, 9, 4, 2, 1), strict=True)), "2": {"a": 3, "b": 7}}
OF_WEIGHT = {"click": [1, 0, 1], "a": [0.1, 0.2, 0.3], "w": [1.0, math.nan, 2.0]}
#: A scale that punishes bad documents, in the order of the list.
PUNISHING = {"g": [0] * 5, "y": [1, 1, -1, 0, -1], "s": [5, 4, 3, 2, 1]}
PERIODS = {"g": [1, 1, 2], "y": [1, 0, 1], "s": [0.1, 0.2, 0.3]}
OBJECTS = [
    kind({**PERIODS, role: pl.Series(role, [object()] * 3, dtype=pl.Object)})
    for role in "gs"
    for kind in (pl.DataFrame, dict)
]
EMPTY = [
    (fe.trec.evaluate, (b"", b"1 Q0 a 1 2.5 x\n", "AP"), {}),
    (fe.trec.evaluate, (b"", b"1 Q0 a 1 2.5 x\n", "AP"), {"complete": True}),
    (fe.trec.trec_report, (b"", b"1 Q0 a 1 2.5 x\n"), {"complete": True}),
    (fe.trec.evaluate, (b"1 0 a 1\n", b"", "AP"), {}),
    (fe.trec.trec_report, (b"1 0 a 1\n", b""), {"version": 9}),
]
BEYOND = [
    ("0,0,1", "0,1,20752587082923245569"), ("0,0,-1", "0,1,9223372036854775809"),
    ("0,0,0.5", "0,1,9223372036854775809"), ("0,0,1", "0,1,-10000000000000000000000000000001"),
    ("0,0,0.5", "0,1, 9223372036854775809"), ("0,0,0.5", "0,1,9007199254740993"),
]  # fmt: skip


GRADED = ({"1": {"a": 2, "b": 1, "c": 0}}, {"1": {"c": 3.0, "a": 2.0, "b": 1.0}})
OF_IR_MEASURES = {
    "SetF(beta=2.0)": f"F(alpha={1 / 3!r})", "SetF(rel=2, beta=3)": "F(alpha=0.25, rel=2)",
    "SetRelP": "RelP", "SDCG(max_rel=2)@2": "SDCG(gain={1: 0.5, 2: 1})@2",
    "BPM(max_rel=3, T=2.0, min_rel=1)@5": "BPM(T=2, gain={1: 0, 2: 0.5, 3: 1})@5",
}  # fmt: skip
OF_RANX = {
    "dcg_burges": "DCG(gain=exp)", "ndcg_burges@2": "nDCG(gain=exp)@2",
    "rbp.95": "RBP(p=0.95)", "r-precision": "Rprec",
}  # fmt: skip


def of_hours(hours: Iterable[int], zone: str) -> pa.Table:
    """Rows of some hours of the night in which clocks are set back."""
    times = [datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in hours for _ in range(4)]
    ts = pa.array(times, pa.timestamp("ms", zone))
    user = [time.hour for time in times]
    columns = {"user": user, "click": [1, 0, 1, 0] * (len(times) // 4), "a": [0.5] * len(times)}
    return pa.table({**columns, "ts": ts, "slot": ["x", "y"] * (len(times) // 2)})


def ap(run: dict[str, Any], **options: Any) -> fe.TrecResult:
    return fe.trec.evaluate(TREC_QRELS, run, "AP", **options)


def first(found: fe.Comparison, *fields: str) -> list[Any]:
    """Fields of the first difference of the JSON document."""
    return [found.document()["comparisons"][0][field] for field in fields]


def refusal(function: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """The error of a call."""
    with pytest.raises(fe.FastRankEvalError) as error:
        function(*arguments, **options)
    return f"{type(error.value).__name__}: {error.value}"


@pytest.mark.parametrize("case", cases("claims"), ids=lambda case: case.text.splitlines()[0][2:])
def test_claim__of_a_few_rows__is_what_the_rows_say(case: Case) -> None:
    case.check(case.answer(globals()))


# --- An error of zero is no error (1 to 4) -------------------------------------------------------

ROLES: dict[str, Any] = {"group": "g", "label": "y", "score": ["a", "b"], "baseline": "a"}
TESTS = ("clustered_t", "clustered_z", "paired_t", "sign", "wilcoxon", "randomisation", "bootstrap")
NO_TEST = ("se", "ci_low", "ci_high", "statistic", "p_value", "p_adjusted", "mdd")
#: Each group has its order wrong in one model or the other by the same third of a value.
THIRDS = {
    "g": np.repeat(np.arange(6), 4),
    "y": [1, 0, 0, 0] * 6,
    "a": [2.0, 3, 1, 0] * 3 + [1.0, 3, 2, 0] * 3,
    "b": [3.0, 2, 1, 0] * 3 + [2.0, 3, 1, 0] * 3,
}


def untested(line: dict[str, Any]) -> bool:
    """Whether a difference of the JSON document has no error, interval or test."""
    return all(line[name] is None for name in NO_TEST) and "not tested" in line["verdict"]


def of_copies(copies: int) -> dict[str, Any]:
    """The same five rows for each user."""
    rows = {"y": [1, 0, 1, 0, 0], "a": [0.7, 0.6, 0.3, 0.4, 0.1], "b": [0.7, 0.2, 0.3, 0.1, 0.4]}
    return {"g": np.repeat(np.arange(copies), 5)} | {name: v * copies for name, v in rows.items()}


def far_apart(seed: int) -> dict[str, Any]:
    """Three long users with the same rows, whose weights are far apart."""
    rng, rows = np.random.default_rng(seed), 20_000
    columns = dict(zip("ab", rng.random((2, rows)).round(1), strict=True))
    columns |= {"y": np.arange(rows) % 2, "w": np.where(rng.random(rows) < 0.5, 1.0, 1e15)}
    return {"g": np.repeat([0, 1, 2], rows)} | {n: np.tile(v, 3) for n, v in columns.items()}


def test_1__a_night_of_exchangeable_models__has_no_tiny_p_value() -> None:
    random, users = np.random.default_rng(42), 3 * 200
    rows = random.integers(1, 9, users)
    g = np.repeat(np.arange(users), rows)
    y = (random.random(len(g)) < 0.2).astype(int)
    log = {"g": g, "y": y, "slice": g // 3}
    log |= {model: np.round(random.random(len(g)) * 0.6 + 0.3 * y, 1) for model in "ab"}
    texts = ["GAUC", "AUC", "LogLoss", "NE", "PCOC", "PPV", "TPR", "FScore", "MCC", "P@2", "nDCG"]
    found = fe.compare(log, **ROLES, measures=texts, by="slice", correction="none")
    p_values = np.array([line.p_value for line in found if line.by])
    assert np.nanmin(p_values) > 1e-12
    assert np.nanmean(p_values <= 0.05) < 0.05


@pytest.mark.parametrize("users, rate, tables", [(3, 0.03, 120), (10, 0.005, 120), (40, 0.005, 60)])
def test_1__exchangeable_models_in_few_users__differ_no_more_often_than_by_chance(
    users, rate, tables
) -> None:
    measures = ("NE", "NEPos", "PPV({})", "BalancedAccuracy({})")
    for text, cell in cells(users, rate, tables, measures).items():
        assert cell.p_values.min() > 1e-12, text
        assert cell.share <= USERS[users], text
        assert users < 40 or len(cell.p_values) >= 0.98 * cell.compared, text


def test_1__exchangeable_models_where_two_users_click__seldom_differ_by_auc() -> None:
    (cell,) = cells(40, 0.001, 2000, ["AUC(se='clustered')"]).values()
    assert len(cell.p_values) == cell.compared > 300
    assert cell.share <= USERS[40]


def test_2__rare_clicks__do_not_hide_a_true_difference() -> None:
    found = cells(40, 0.005, 100, ("BalancedAccuracy({})", "MCC({})", "PPV({})"))
    powers = {text: cell.power(cell.carried) for text, cell in found.items()}
    assert all(power > 0.5 for power in powers.values()), powers
    assert powers["BalancedAccuracy({})"] > 0.75


# --- Rows that leave unseen: null scores and NaN (5, 6) ------------------------------------------

NAN = float("nan")


def clicks(**columns: Any) -> dict[str, Any]:
    """40 users with two clicks of eight rows, a model that knows something, and other columns."""
    rows, random = range(320), np.random.default_rng(5)
    click = [int(row % 8 < 2) for row in rows]
    score = [0.2 * y + 0.8 * x for y, x in zip(click, random.random(320).tolist(), strict=True)]
    return {"user": [row // 8 for row in rows], "click": click, "a": score, **columns}


def without(score: list[float], where: Callable[[int], bool]) -> list[float | None]:
    return [None if where(row) else s for row, s in enumerate(score)]


OF_CLICKS: dict[str, Any] = {"group": "user", "label": "click"}


RANKED = (
    "GAUC,GAUC(weight='pairs'),GroupPPV,GroupTPR,AUC,AUC(se='clustered'),AUC(max_fpr=0.2),KS,Gini,"
    "AUC(bins=64),PRAUC,AvgPrec,CumGain,Lift,PPV,TPR,FPR,MCC,FScore"
)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("weight", [None, "w"])
def test_5__rows_without_a_score__are_tied_below_all_others(kind: type, weight: str | None) -> None:
    log = clicks(w=[(0.1, 1.0, 3.0)[row % 3] for row in range(320)])
    score, missing = np.array(log["a"], kind), np.arange(320) % 7 == 1
    choices = {**OF_CLICKS, "score": "a", "measures": RANKED, "weight": weight, "by": "user:10"}

    def told(scores: Any, **options: Any) -> list[str]:
        return [repr(value) for value in fe.evaluate({**log, "a": scores}, **choices, **options)]

    lowest = np.where(missing, kind(-1), score)
    given = pa.array(score, mask=missing)
    for order in ("grouped", "scattered"):
        assert told(given, unretrieved="allow", order=order) == told(lowest, order=order)
    # Minus infinity is a score: it is above them.
    score[::5] = -np.inf
    above = np.where(missing, kind(-np.inf), np.where(score == -np.inf, kind(-1), score))
    assert told(pa.array(score, mask=missing), unretrieved="allow") == told(above)


def nan_sources(log: dict[str, Any]) -> dict[str, Any]:
    table = pa.table(log)
    parquet.write_table(table, "x.parquet", row_group_size=3)
    pa.csv.write_csv(table, "x.csv")
    return {
        "mapping": log, "table": table, "batches": table.to_reader(),
        "Parquet": "x.parquet", "CSV": "x.csv",
        "polars": pl.from_arrow(table), "DuckDB": duckdb.from_arrow(table),
    }  # fmt: skip


READ_FROM = ["mapping", "table", "batches", "Parquet", "CSV", "polars", "DuckDB"]


@pytest.mark.parametrize("kind", READ_FROM)
def test_6__nan_is_null_if_asked__from_every_source(kind: str) -> None:
    log = {"user": [1, 1, 1, 2, 2, 2], "click": [1.0, NAN, 0.0, 0.0, 1.0, 0.0],
           "a": [0.9, 0.3, NAN, NAN, 0.6, 0.5]}  # fmt: skip
    columns: dict[str, Any] = {**OF_CLICKS, "score": "a", "measures": "GAUC,AUC"}
    found = fe.evaluate(
        nan_sources(log)[kind], **columns, nan="null", unretrieved="drop", unjudged="drop"
    )
    assert found.meta.rows == 3
    assert found.meta.conventions["rows_left_out"] == {
        "unjudged": {"rows": 1},
        "unscored": {"rows": 2, "by_model": {"a": 2}},
    }
    noted = found.meta.conventions["rows_noted"]
    assert noted == {"nan": {"rows": 3, "by_model": {"click": 1, "a": 2}}}
    assert "3 rows with NaN, which is null: 1 in click, 2 in a" in str(found)
    kept = {name: [column[row] for row in (0, 4, 5)] for name, column in log.items()}
    assert list(map(repr, found)) == list(map(repr, fe.evaluate(kept, **columns)))


def test_6__a_night_with_nan__is_judged_if_asked() -> None:
    log = clicks()
    log["b"] = [NAN if row % 80 == 3 else s for row, s in enumerate(log["a"])]
    parquet.write_table(pa.table(log), "2026-11-19.parquet")
    options = 'nan = "null"\nunretrieved = "drop"'
    Path("nightly.toml").write_text(NIGHT.replace("OPTION", options))
    for more in (("--no-labels",), ()):
        out = night_of("2026-11-19", *more)
        assert out.exit_code == 0, out.output
        assert "4 rows with NaN, which is null: 4 in b" in " ".join(out.output.split())


# --- Rows that leave unseen: counts of dropped rows, empty sources (7, 10) -----------------------


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("reason", DROPS)
def test_7__rows_that_an_option_drops__are_counted_at_every_door(reason: str, door: str) -> None:
    column, option, told = DROPS[reason]
    text = html.unescape(str(DOORS[door](log_without(column), option)))
    text = text.replace("\\", "")
    assert told in " ".join(text.split())
    if "JSON" in door:
        counts = f'"{reason}": {{ "rows": 37'
        assert counts in " ".join(text.split())


@pytest.mark.parametrize("door", DOORS_OF_ROWS)
def test_7__rows_without_a_label__are_counted_beside_thresholds(door: str) -> None:
    column, option, told = DROPS["unjudged"]
    text = str(DOORS_OF_ROWS[door](log_without(column), option))
    assert told in text or '{"unjudged": {"rows": 37}}' in text


# --- TREC queries without results, zeros that hide a mistake (8, 9) ------------------------------


# --- Gates (11 to 14) ----------------------------------------------------------------------------

WORSE = "GAUC[*] p_adjusted < 0.05 and GAUC[*] delta < 0"


def sliced_log(**noise: float) -> dict[str, Any]:
    """Make a click log of 60 users a slot; models are the less right the more noise they have."""
    draws, slots = np.random.default_rng(42), ("feed", "search", "side")
    user = np.repeat(np.arange(60 * len(slots)), 8)
    slot = np.array(slots)[user % len(slots)]
    click = draws.random(len(user)) < 0.4
    right = click + draws.normal(0, 0.7, len(user))
    models = {
        name: 1 / (1 + np.exp(-right - size * draws.normal(0, 1, len(user))))
        for name, size in {"base": 0.0, **noise}.items()
    }
    return {"user": user, "slot": slot, "click": click.astype(int), **models}


def compared(log: dict[str, Any], **options: Any) -> fe.Comparison:
    models = [name for name in log if name not in ("user", "slot", "click")]
    given = {"score": models, "baseline": "base", "measures": "GAUC", "by": "slot"}
    return fe.compare(log, group="user", label="click", **{**given, **options})


def test_13__two_measures_in_a_gate_are_two_families() -> None:
    night = month()[-1]
    total = 2 * len({value.by for value in night.values if value.by})
    outcome = GateOutcome("worse(GAUC[*]) or worse(AUC[*])", True)
    text = false_alarms(replace(night, gates=(outcome,)))
    assert text == (
        f"1 gate with {total} families of corrected p-values, one for each measure and slicing of "
        f"a gate: at most {total} × 5% = {5 * total}% of the nights without any difference fail by "
        "them."
    )
    assert "A gate that names two measures" in (DOCS / "reference" / "gates.md").read_text()


def of_countries() -> dict[str, Any]:
    """Make a log of five countries; India, with five of seven rows, has the smallest loss."""
    draws, sizes = np.random.default_rng(7), [400, 40, 40, 40, 40]
    user = np.repeat(np.arange(sum(sizes)), 6)
    country = np.repeat(np.array(["IN", "AT", "BE", "CH", "DK"]), np.array(sizes) * 6)
    click = (np.arange(len(user)) % 6 < 2).astype(int)
    base = click + draws.random(len(user)) / 2
    new = np.where(draws.random(len(user)) < np.where(country == "IN", 0.1, 0.5), 1 - base, base)
    return {"user": user, "country": country, "click": click, "base": base, "new": new}


def test_14__a_night_names_other_slices_by_their_rows() -> None:
    """India has as many users as the other countries, and many times their rows."""
    draws, countries = np.random.default_rng(7), np.array(["AT", "BE", "CH", "DK", "IN"])
    rows = np.where(np.arange(300) % 5 == 4, 90, 6)
    user = np.repeat(np.arange(300), rows)
    country = countries[user % 5]
    click = (np.arange(len(user)) % 6 < 2).astype(int)
    right = click + draws.random(len(user)) / 2
    wrong = draws.random(len(user)) < np.where(country == "IN", 0.3, 0.5)
    log = {"user": user, "country": country, "click": click,
           "a": right, "b": np.where(wrong, 1 - right, right)}  # fmt: skip
    parquet.write_table(pa.table(log), "2026-11-19.parquet")
    gates = '[slices]\nby = ["country"]\n[gates]\nfail_if = "GAUC[country=AT] delta < 0"\n[output]'
    text = NIGHT.replace("OPTION", "").replace('"LogLoss"', '"RR"').replace("[output]", gates)
    Path("nightly.toml").write_text(text)
    told = night_of("2026-11-19", "--json", "night.json")
    assert told.exit_code == 3, told.output
    (night,) = json.loads(Path("night.json").read_text())["nights"]
    assert "that are worse too: country=IN, " in night["reason"]


# --- Nights (3, 15 to 17) ------------------------------------------------------------------------


def false_years(years: int, change: Callable[[np.random.Generator, np.ndarray], object]) -> float:
    """Share of quiet years with an alarm in one of 42 sequences; `change` adds to their noise."""
    random, found = np.random.default_rng(years), 0
    for _ in range(years):
        noise, errors = random.normal(size=(42, 365)), np.full((42, 365), 0.05)
        change(random, noise)
        errors[:, random.integers(365)] = 0.001
        pairs = zip(0.05 * noise, errors, strict=True)
        found += any(alarms(*pair, 0.05 / 42) for pair in pairs)
    return found / years


def scale(random: np.random.Generator, noise: np.ndarray) -> None:
    noise *= np.where(random.random(noise.shape) < 0.02, 4.0, 1.0)


def tails(random: np.random.Generator, noise: np.ndarray) -> None:
    noise /= np.sqrt(random.chisquare(3, noise.shape))


def neighbours(random: np.random.Generator, noise: np.ndarray) -> None:
    for night in range(1, 365):
        noise[:, night] = 0.3 * noise[:, night - 1] + 0.91**0.5 * noise[:, night]


@pytest.mark.parametrize("change", [lambda *_: None, scale, tails, neighbours])
def test_3__quiet_years_with_one_odd_error_have_few_alarms(change: Any) -> None:
    """Of 60 years, 5 % are 3; the page of bench/alarms.py has 1,000."""
    assert false_years(60, change) <= (0.25 if change is neighbours else 0.15)


def night_of(date: object, *more: str) -> Any:
    """Run a night of the configuration in the working folder."""
    return commands.run("nightly", "nightly.toml", "--date", str(date), *more)


def nights_of_the_same_users(
    nights: int, lowest: float = 0.1, click: object = None, after: int = 0
) -> tuple[list[Any], dict[str, Any]]:
    """Run nights of the same 30 users, one with other labels; outcomes, and the last JSON."""
    limits = (
        "\n[quality]\nmax_ctr_factor = 0\n"  # it would say more than that labels are of one class
    )
    Path("nightly.toml").write_text(NIGHT.replace("OPTION", 'unjudged = "drop"') + limits)
    outcomes = []
    for night in range(1, nights + after + 1):
        random, date = np.random.default_rng(night), f"2026-11-{night:02}"
        scores = random.uniform(lowest, lowest + 0.3, size=(2, 300))
        log = {"user": np.arange(300) // 10, "click": random.uniform(size=300) < scores[0]}
        log |= dict(zip("ba", scores, strict=True))
        if night == nights and click is not None:
            log["click"] = click
        parquet.write_table(pa.table(log), f"{date}.parquet")
        outcomes.append(night_of(date, "--json", "night.json"))
    return outcomes, json.loads(Path("night.json").read_text())["nights"][0]


def claims_of_a_night(outcome: Any, told: dict[str, Any]) -> list[str]:
    """What text, JSON, Markdown, page and history say of the last night."""
    markdown = night_of(told["date"], "--markdown").output
    with History("history.db", readonly=True) as history:
        night = history.read()[-1]
    sentences = " ".join(one.detail for one in night.findings) + " ".join(night.quality.flags)
    page = re.sub("<(?:style|script).*?</(?:style|script)>", "", Path(told["page"]).read_text())
    return [outcome.output, json.dumps(told), markdown, page, sentences]


def test_15__a_night_whose_labels_are_all_null_has_rows() -> None:
    outcomes, told = nights_of_the_same_users(1, click=pa.nulls(300, pa.int64()))
    assert (outcomes[0].exit_code, told["status"]) == (4, "data_quality")
    assert told["reason"] == "300 rows, none has a label."
    for text in claims_of_a_night(outcomes[0], told):
        assert "300 rows, none has a label" in text.replace("\\", "")
        assert "has no rows" not in text


@pytest.mark.parametrize(
    "label,lowest,said",
    [(0, 0.05, "GAUC has no value: no row of 300 rows is positive"),
     (1, 0.65, "GAUC has no value: all 300 rows are positive")],
)  # fmt: skip
def test_15__a_night_of_one_class_is_changed_and_no_model_is_better(label, lowest, said) -> None:
    outcomes, told = nights_of_the_same_users(9, lowest, np.full(300, label))
    assert (outcomes[-1].exit_code, told["status"]) == (0, "changed")
    assert told["reason"].startswith(f"{said}.")
    for text in claims_of_a_night(outcomes[-1], told):
        assert said in text.replace("\\", "")
        text = text.replace("▲ better, ▼ worse", "the legend of marks")
        assert not re.search("better|▲", text)


def test_15__the_night_after_one_class_is_not_compared_with_it() -> None:
    _, told = nights_of_the_same_users(9, 0.05, np.ones(300), after=1)
    assert told["notes"] == [
        "not compared with yesterday: the labels of 2026-11-09 are of one class"
    ]
    assert (told["status"], told["findings"]) == ("fine", [])


def test_16__week_and_month_of_the_same_users_have_no_intervals() -> None:
    outcomes, told = nights_of_the_same_users(3)
    assert [outcome.exit_code for outcome in outcomes] == [0, 0, 0]
    for value in [*told["periods"]["week"], *told["periods"]["month"]]:
        assert value["groups"] == 90
        assert value["value"] is not None
        assert [value[key] for key in ("se", "ci_low", "ci_high", "effective_groups")] == [None] * 4
    why = "no intervals: the same user counts once a night"
    assert why in told["period_notes"][-1]
    (page,) = (page.read_text() for page in Path("pages").glob("2026-11-03.html"))
    columns = re.findall(r'<td class="n" data-l="(?:Week|Month)[^>]*>(.*?)</td>', page)
    assert len(columns) == 8
    assert not [column for column in columns if "[" in column]
    assert why in page


@pytest.mark.parametrize("page", ["how-to/slices.md", "explanation/errors.md"])
def test_17__the_documents_say_that_groups_must_be_independent(page: str) -> None:
    text = " ".join((DOCS / page).read_text("utf-8").split())
    assert "not independent" in text
    assert "`user_id,slot`" in text


def test_3__the_page_of_alarms_keeps_its_promises() -> None:
    page = (DOCS.parent / "bench" / "ALARMS.md").read_text("utf-8")
    shares = dict(re.findall(r"^\| ([^|]+) \| ([\d.]+)% \|", page, re.MULTILINE))
    correlated = {name: float(share) for name, share in shares.items() if "correlation" in name}
    assert max(float(shares[name]) for name in shares.keys() - correlated.keys()) <= 6.5
    assert (
        max(correlated[f"stress: correlation {c} with the night before"] for c in (0.1, 0.3)) <= 15
    )
    for change, most in (("2", 15), ("4", 7)):
        (waits,) = re.findall(rf"^\| {change} \| 90 \| (\d+) ", page, re.MULTILINE)
        assert int(waits) <= most
    for name in ("Student's t with 3", "Student's t with 5", "four times", "a fiftieth"):
        assert any(name in row for row in shares)


# --- Negative grades and gains (18) --------------------------------------------------------------

OF_LISTS = {"group": "g", "label": "y", "score": "s"}


# --- Numbers and names of other tools (19 to 24) -------------------------------------------------


def test_24__a_small_state_that_states_much_is_refused_before_it_is_unpacked() -> None:
    log = {"g": [1, 1], "y": [0, 1], "s": [0.1, 0.2]}
    result = fe.evaluate(log, group="g", label="y", score="s", measures="GAUC", keep="state")
    table, _ = file_in(result.state.to_bytes())
    zeros = pa.array([bytes(1 << 27), *table["content"].to_pylist()[1:]], pa.large_binary())
    content = file_of(table.set_column(7, "content", zeros), "zstd")
    assert len(content) < 60_000
    with pytest.raises(fe.SourceError, match=r"bytes state 134,2\d\d,\d{3} bytes of sums"):
        fe.State.from_bytes(content)


TWO_ROWS = {"user": [1, 1], "click": [0, 1], "a": [0.1, 0.2], "b": [0.2, 0.1]}


def test_24__a_night_that_is_not_over_says_so() -> None:
    Path("nightly.toml").write_text(NIGHT.replace("OPTION", ""))
    for day, told in ((0, True), (-2, False)):
        date = (datetime.now(UTC) + timedelta(days=day)).date()
        parquet.write_table(pa.table(TWO_ROWS), f"{date}.parquet")
        outcome = night_of(date, "--json", "night.json")
        assert outcome.exit_code == 0, outcome.output
        files = [Path("night.json"), Path(f"pages/{date}.html")]
        pages = [outcome.output, *(file.read_text() for file in files)]
        assert [f"he night is not over: {date} ends" in page for page in pages] == [told] * 3


def test_22__the_documents_key_values_of_groups_by_model_and_measure() -> None:
    scores = {"score_a": [0.2, 0.1, 0.3, 0.4], "score_b": [0.1] * 4}
    log = {"g": [1, 1, 2, 2], "y": [1, 0, 0, 1], **scores}
    result = fe.evaluate(log, group="g", label="y", score=[*scores], measures=KEYED)
    pages = "".join(path.read_text("utf-8") for path in DOCS.rglob("*.md"))
    keys = set(re.findall(r'result\["([^"]+)", "([^"]+)"\]', pages))
    assert ("score_a", "GAUC") in keys
    assert [key for key in sorted(keys) if len(result[key]) != 2] == []


def test_22__the_page_of_training_tells_xgboost_that_higher_is_better() -> None:
    page = (DOCS / "how-to" / "training.md").read_text("utf-8")
    (example,) = re.findall(r"xgboost\.train\(.*?\n\)", page, re.DOTALL)
    assert "early_stopping_rounds" in example
    assert "maximize=True" in example


#: Doors that show no interval with groups as clusters.
_WITHOUT_INTERVALS = ("without groups", "curve", "explanation")


def log_of_sizes(sizes: dict[int, int]) -> pa.Table:
    """A log of users with some numbers of rows."""
    users = np.repeat(list(sizes), list(sizes.values()))
    row = np.arange(len(users))
    columns = {"a": row * 7 % 89 / 100 + 0.05, "b": row * 5 % 97 / 100}
    return pa.table({"user": users, **columns, "click": (row % 3 == 1).astype(np.int8)})


#: User -8310 has 40 of 600 rows, each other user 10.
_LARGE = {-8310: 40, **dict.fromkeys(range(56), 10)}


@pytest.mark.parametrize("door", [door for door in DOORS if door not in _WITHOUT_INTERVALS])
def test_24__one_large_group_that_makes_few_count_is_named(door: str) -> None:
    told = str(DOORS[door](log_of_sizes(_LARGE), {"unjudged": "error"}))
    # Merged states do not know whether each has a part of the group.
    least = "at least " * (door in ("merged states", "compared states"))
    assert f"arge group user=-8310: {least}6.7% of the rows" in re.sub(r"[\\{}$]", "", told)


# --- Tests of few groups (25, 26) ----------------------------------------------------------------


def of_queries(log: dict[str, Any], **options: Any) -> fe.Comparison:
    columns: dict[str, Any] = {"group": "query", "label": "grade", "score": ["old", "new"]}
    return fe.compare(log, **columns, baseline="old", measures="RR", **options)


def all_better(groups: int, test: str) -> fe.Comparison:
    """Compare models; the candidate finds the one relevant row of every group first."""
    log = {"query": np.repeat(np.arange(groups), 2), "grade": [0, 1] * groups}
    return of_queries(log | {"old": [2, 1] * groups, "new": [1, 2] * groups}, test=test)


def few_queries(groups: int, test: str, replicates: int = 10_000) -> fe.Comparison:
    """Make queries of three documents that all gain, by different amounts."""
    query, place = np.divmod(np.arange(3 * groups), 3)
    new = np.where(query % 2, [0, 2, 1] * groups, place)
    log = {"query": query, "grade": place == 2, "old": -place, "new": new}
    return of_queries(log, test=test, replicates=replicates)


# --- Sources: groups in parts, files with two names (27, 28) -------------------------------------

#: The rows of group 1 lie in both parts: each of them alone has one class.
PARTS = [{"g": [1, 2, 2], "y": [0, 1, 0], "s": [0.1, 0.2, 0.3]}, {"g": [1], "y": [1], "s": [0.5]}]


@pytest.mark.parametrize("choices", [
    {"measures": "nDCG", "undefined": "error"},
    {"measures": "GAUC(single_class='error')"},
    {"measures": "GAUC", "undefined": "error", "threads": 1, "batch_rows": 1},
])  # fmt: skip
@pytest.mark.parametrize("kind", ["files", "folder", "chunks", "batches"])
def test_27__a_group_in_several_parts_is_defined_as_a_whole(kind, choices) -> None:
    tables = [pa.table(part) for part in PARTS]
    for name, table in zip("ab", tables, strict=True):
        parquet.write_table(table, f"{name}.parquet")
    sources = {
        "files": ["a.parquet", "b.parquet"],
        "folder": ".",
        "chunks": pa.concat_tables(tables),
        "batches": [batch for table in tables for batch in table.to_batches()],
    }
    options: Any = {"group": "g", "label": "y", "score": "s", **choices}
    (value,) = batched.evaluate(sources[kind], **options)
    assert value.groups_used == 2
    # A group that is undefined as a whole is still refused, and a stream names what is wrong.
    wrong = pa.concat_tables([*tables, pa.table({"g": [3, 3], "y": [0, 0], "s": [0.2, 0.1]})])
    with pytest.raises(fe.UndefinedError, match="undefined for the group g=3"):
        batched.evaluate(wrong, **options)
    with pytest.raises(fe.OrderError, match="g=1 comes back"):
        batched.evaluate(iter(sources["batches"]), **options)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", SOURCES)
def test_28__one_file_under_two_names_is_refused(kind, name, own_folder, monkeypatch) -> None:
    (own_folder / "logs").mkdir()
    monkeypatch.chdir("logs")
    file, read = write_source(kind, own_folder / "logs")
    other = NAMES[name](file)
    with pytest.raises(fe.SourceError, match=r"one file, by a link|named twice|occurs twice"):
        read([str(file), str(other)])
    if "link" in name and kind not in ("state", "night"):
        for source in (file.parent, file.parent / f"*{file.suffix}"):
            with pytest.raises(fe.SourceError, match="one file, by a link"):
                read([str(source)])


# --- Readers and numbers (29 to 31) --------------------------------------------------------------


_BLOCKING = {
    "null key": "case when i = 7 then null else i end as g, 1 as y, i as s",
    "NaN key": "case when i = 7 then 'nan'::double else i end as g, 1 as y, i as s",
    "fractional key": "i + 0.5 as g, 1 as y, i as s",
    "struct as key": "{'a': i} as g, 1 as y, i as s",
    "null score": "i as g, 1 as y, case when i = 7 then null else i end as s",
    "NaN label": "i as g, case when i = 7 then 'nan'::double else 1 end as y, i as s",
    "no such column": "i as h, 1 as y, i as s",
}


@pytest.mark.parametrize("fault", _BLOCKING)
def test_29__duckdb_answers_the_next_query_after_refused_rows(fault: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    numbers = connection.sql("select i from range(300000) as t(i)")
    rows = numbers.project(_BLOCKING[fault])
    doors = {
        "evaluate": lambda: fe.evaluate(rows, **OF_LISTS, measures="nDCG"),
        "curve": lambda: fe.curve("roc", rows, label="y", score="s"),
        "classes": lambda: fe.evaluate_classes(rows, label="y", scores={"1": "s"}),
        "trec": lambda: fe.trec.read_run(rows, query="g", doc="s", score="y"),
    }
    for door in doors.values():
        refused: list[BaseException] = []  # with its traceback, as an interactive session keeps it
        try:
            door()
        except fe.FastRankEvalError as error:
            refused.append(error)
        assert connection.sql("select 1").fetchall() == [(1,)]


def gauc_of_csv(*lines: str) -> float:
    Path("scores.csv").write_text("\n".join(["g,y,s", *lines, ""]), encoding="utf-8")
    return fe.evaluate("scores.csv", **OF_LISTS, measures="GAUC").value("GAUC")


@pytest.mark.parametrize("first, last", BEYOND)
def test_31__csv_integers_beyond_64_bits__after_many_rows_are_refused(first, last) -> None:
    with pytest.raises(fe.SourceError) as refused:
        gauc_of_csv(*[first] * 100_000, last)
    assert last.removeprefix("0,1,") in str(refused.value)
    assert re.search("row 100,000 |in line 100002", str(refused.value))


# --- Messages (32) -------------------------------------------------------------------------------


REPEATED = {
    "q": [1, 3, 2, 1, 3, 2],
    "doc": ["d7", "d7", "b", "b", "d7", "a"],
    "y": [1, 0, 1, 0, 1, 0],
    "s": [0.5, 0.4, 0.2, 0.3, 0.9, 0.1],
}
ITEMS = {
    "text": (pa.array(REPEATED["doc"]), "'d7'"),
    "categories": (pa.array(REPEATED["doc"]).dictionary_encode(), "'d7'"),
    "integers": (pa.array([7, 7, 2, 2, 7, 1], pa.int32()), "7"),
    "decimals": (pa.array([7, 7, 2, 2, 7, 1]).cast(pa.decimal128(30, 0)), "Decimal('7')"),
}
BY_ITEM = {"group": "q", "item": "doc", "label": "y", "score": "s", "measures": "AP"}


@pytest.mark.parametrize("kind", list(ITEMS))
@pytest.mark.parametrize("batch_rows", [None, 1, 2])
@pytest.mark.parametrize("ties", ["item", "expected"])
def test_32__an_item_twice_in_a_group_is_refused(kind, batch_rows, ties) -> None:
    items, shown = ITEMS[kind]
    scattered = pa.table(REPEATED | {"doc": items})
    for log, rows in ((scattered, "1 and 4"), (scattered.sort_by("q"), "4 and 5")):
        message = f"got {shown} twice in the group q=3 (rows {rows}, counted from 0); keep one"
        for options in ({"ties": ties}, {"ties": ties, "keep": "values"}):
            with pytest.raises(fe.ColumnError, match=re.escape(message)):
                batched.evaluate(log, **BY_ITEM, **options, batch_rows=batch_rows)
        once = log.filter(pa.array([s != 0.9 for s in log["s"].to_pylist()]))
        assert fe.evaluate(once, **BY_ITEM, ties=ties).meta.rows == 5
    assert fe.evaluate(scattered, **BY_ITEM | {"item": None}).meta.rows == 6


@pytest.mark.parametrize(
    "word, remedy",
    [
        ("NA", "leave the field empty"),
        ("0,5", "write a point before decimals"),
        ("1,000", "nothing between thousands"),
        ("50%", "0.5 for 50%"),
    ],
)
@pytest.mark.parametrize("rows", [1, 200_000], ids=["first lines", "later"])
def test_32__a_csv_value_that_is_no_number_is_shown_with_its_row(word, remedy, rows) -> None:
    with pytest.raises(fe.FastRankEvalError) as refusal:
        gauc_of_csv(*[f"1,1,0.{'5' * 24}"] * rows, f'1,0,"{word}"', "1,0,0.125")
    for part in ("'s'", repr(word), remedy, f"line {rows + 2}" if rows > 1 else "row 1 "):
        assert part in str(refusal.value)


def test_32__uuids_are_shown_as_uuids() -> None:
    keys = [UUID(int=5 * user) for user in range(4)]
    bytes_of = [keys[row // 6].bytes for row in range(24)]
    log = pa.table({"g": pa.array(bytes_of, pa.uuid()), "device": pa.array(bytes_of, pa.uuid()),
                    "y": [0, 1, 0] * 8, "a": [row * 7 % 11 for row in range(24)],
                    "b": [row * 5 % 11 for row in range(24)]})  # fmt: skip
    options: dict[str, Any] = {**OF_LISTS, "score": ["a", "b"], "measures": "GAUC"}
    found = fe.evaluate(log, **options, by="device")
    labels = [f"device={key}" for key in keys]
    assert [v.slice for v in found if v.score == "a" and v.slice != "all"] == labels
    for where, rows in ((f"device = '{keys[1]}'", 6), (f"g != '{keys[1]}'", 18)):
        assert fe.evaluate(log, **options, where=where).meta.rows == rows
    state = fe.partial(log, **options, keep="groups", baseline="a")
    comparison = fe.compare(log, **options, baseline="a", keep="values")
    tables = [
        fe.State.from_bytes(state.to_bytes()).result().per_group,
        state.compare(baseline="a").per_group,
        comparison.per_group,
        comparison.largest_changes("GAUC"),
        fe.evaluate(log, **{**options, "label": ["y"]}, keep="values").per_group,
    ]
    for table in tables:
        assert table.schema.field("g").type == pa.uuid()
        assert set(table["g"].to_pylist()) <= set(keys)
    with pytest.raises(fe.ColumnError, match="twice in the group"):
        fe.evaluate(log, **options, item="device")
    write_table(tables[0], Path("groups.csv"), "groups.csv")
    assert f'"{keys[1]}"' in Path("groups.csv").read_text()


def test_32__too_many_replicates__are_named_and_not_the_order_of_rows() -> None:
    resource = pytest.importorskip("resource")
    rng = np.random.default_rng(0)
    rows = {"g": np.repeat(np.arange(200), 5), "y": rng.integers(0, 2, 1000)}
    rows |= {"a": rng.random(1000), "b": rng.random(1000)}
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, limits[1]))
    try:
        for test in ("randomisation", "bootstrap"):
            choices: dict[str, Any] = {"test": test, "replicates": 2 * 10**9, "measures": "RR"}
            with pytest.raises(fe.ArgumentError, match=r"replicates: .* 2,000,000,000; pass fewer"):
                fe.compare(rows, group="g", label="y", score=["a", "b"], baseline="a", **choices)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


# --- The front door (33, 34) ---------------------------------------------------------------------


def test_33__the_first_screen_of_the_readme_has_two_commands_and_their_time() -> None:
    screen = (DOCS.parent / "README.md").read_text(encoding="utf-8").splitlines()[:24]
    commands = [line for line in screen if line.startswith("make ")]
    assert [line.split("#")[0].strip() for line in commands] == ["make demo", "make test"]
    assert all("minutes" in line for line in commands)


def test_33__numbers_of_time_in_the_readme_come_from_a_measurement() -> None:
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    by_hand = re.sub(
        r"<!-- bench:begin -->.*?<!-- bench:end -->|```text.*?```", "", text, flags=re.DOTALL
    )
    number = r"\b(\d[\d.]*|one|two|three|four|five|six|seven|eight|nine|ten|half|quarter)\b"
    found = re.findall(rf"{number}[^.:\n]{{0,12}}\b(second|minute|hour)s?\b", by_hand)
    assert found == []
