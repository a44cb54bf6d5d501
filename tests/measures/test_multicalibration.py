"""MultiECCE: the largest ECCE of any slice, in standard deviations, and the table of slices."""

import math

import numpy as np
import pyarrow as pa
import pytest

import fastrank_eval as fe
from fastrank_eval.stats.hypothesis_tests import holm, range_exceeds
from tests.measures.test_probability import FIELDS
from tests.oracles.measures import Row
from tests.oracles.probability import calibration_by_slice
from tests.support import batched
from tests.support.transcripts import answers

TWO = "MultiECCE(columns='c,s', min_clicks=0)"


def log(rows: int = 4000, seed: int = 1, levels: int | None = None) -> pa.Table:
    """Clicks of a model that is calibrated but in c=bad."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 8, rows)
    if levels:
        p = np.round(p * levels) / levels
    c = rng.choice(["a", "b", "bad", None], rows)
    y = rng.random(rows) < p * np.where(c == "bad", 1.6, 1.0)
    columns = {
        "g": np.sort(rng.integers(0, 300, rows)),
        "y": y.astype(np.int8),
        "p": p,
        "c": pa.array(c.tolist()),
        "s": rng.integers(0, 3, rows),
        "w": rng.choice([0.0, 0.1, 1.0, 1 / 3, 2.5], rows),
    }
    return pa.table(columns)


def evaluate(table, measures=TWO, **options):
    options = {"group": "g", "label": "y", "score": "p", **options}
    return batched.evaluate(table, measures=measures, **options)


def sigmas_of(result, measure=None) -> dict[str, float]:
    table = result.multicalibration(measure)
    return dict(zip(table["slice"].to_pylist(), table["sigmas"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    "label, error, sigmas", [([0, 1, 0, 1], 0.15, 0.6708203932499369), ([1] * 4, 0.5, 5**0.5)]
)
def test_golden_values_of_mcgrad(label, error, sigmas):
    table = {"g": [1] * 4, "y": label, "p": [0.6, 0.8, 0.2, 0.4], "c": ["x"] * 4}
    (value,) = evaluate(table, "MultiECCE(columns='c')")
    assert value.value == pytest.approx(sigmas, abs=1e-9)
    assert value.details["multicalibration error"] == pytest.approx(error, abs=1e-9)
    assert value.details["minimum detectable error"] == pytest.approx(5 * error / sigmas)
    assert value.details["ECCE of all"] == pytest.approx(error, abs=1e-9)
    assert value.details["p-value"] == pytest.approx(range_exceeds(sigmas), abs=1e-9)


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("sampling_rate", [1, 0.1])
@pytest.mark.parametrize("levels", [None, 20])
def test_slices__have_the_ecce_of_the_same_slices(weight, sampling_rate, levels):
    table = log(levels=levels)
    options = {"weight": weight, "sampling_rate": sampling_rate}
    text = TWO.replace("0)", f"0, sampling_rate={sampling_rate})") if sampling_rate != 1 else TWO
    found = evaluate(table, **options).multicalibration(text).to_pylist()
    wanted = evaluate(table, "ECCE", by=["c", "s", "c,s"], **options)
    assert len(found) == len(wanted.values) == 1 + 4 + 3 + 12
    by_label = {value.slice: value for value in wanted}
    for row in found:
        value = by_label[row["slice"]]
        assert row["error"] == pytest.approx(value.value, rel=1e-12), row
        assert row["sigmas"] == pytest.approx(value.details["in standard errors"], rel=1e-12)
        assert row["p_value"] == pytest.approx(value.details["p-value"], rel=1e-9)


def test_slices__have_expected_and_observed_clicks__worst_first():
    table = log()
    rows = table.to_pandas()
    result = evaluate(table)
    found = result.multicalibration()
    assert found.column_names == [
        *("slice", "rows", "expected", "observed", "error", "sigmas", "p_value", "p_adjusted"),
        "min_detectable_error",
    ]
    for row in found.to_pylist():
        chosen = rows
        for part in row["slice"].split(",") if row["slice"] != "all" else ():
            name, value = part.split("=")
            is_null = value == "null"
            chosen = chosen[chosen[name].isna() if is_null else chosen[name].astype(str) == value]
        assert row["rows"] == len(chosen)
        assert row["observed"] == chosen["y"].sum()
        assert row["expected"] == pytest.approx(chosen["p"].sum(), rel=1e-14)
        deviation = math.sqrt((chosen["p"] * (1 - chosen["p"])).sum()) / len(chosen)
        assert row["min_detectable_error"] == pytest.approx(5 * deviation, rel=1e-12)
    sigmas = found["sigmas"].to_pylist()
    assert sigmas == sorted(sigmas, reverse=True)
    assert found["p_adjusted"].to_pylist() == holm(found["p_value"].to_numpy()).tolist()
    assert found["slice"][0].as_py() == "c=bad"
    (value,) = result
    assert value.value == sigmas[0]
    assert value.details["ECCE of c=bad"] == found["error"][0].as_py()
    assert value.details["p-value"] == found["p_adjusted"][0].as_py() < 1e-6
    assert value.details["slices"] == len(found) == 20
    error = value.value * value.details["minimum detectable error"] / 5
    assert value.details["multicalibration error"] == pytest.approx(error)


def test_weights__are_those_of_clicks():
    table = log()
    rows = table.to_pandas()
    found = {
        row["slice"]: row for row in evaluate(table, weight="w").multicalibration().to_pylist()
    }
    assert found["all"]["rows"] == (rows["w"] > 0).sum()
    assert found["all"]["observed"] == pytest.approx((rows["w"] * rows["y"]).sum(), rel=1e-14)
    assert found["all"]["expected"] == pytest.approx((rows["w"] * rows["p"]).sum(), rel=1e-14)


@pytest.mark.parametrize("least", [0, 0.5, 34, 60, 10**6])
def test_min_clicks__leaves_out_slices_of_few_expected_clicks(least):
    table = log(1500)
    text = f"MultiECCE(columns='c', min_clicks={least})"
    result = evaluate(table, text)
    rows = [
        Row(p, y, 1.0, str(c))
        for p, y, c in zip(*(table[name].to_pylist() for name in "pyc"), strict=True)
    ]
    wanted = calibration_by_slice(rows, "item", min_clicks=least)
    found = {
        key.replace("c=", "item=").replace("null", "None"): s
        for key, s in sigmas_of(result).items()
    }
    assert found == pytest.approx(dict(wanted), rel=1e-12)
    assert "all" in found
    assert result.values[0].details.get("slices left out", 0) == 5 - len(wanted)


def test_columns__may_be_a_list__and_one_may_be_the_group():
    table = log()
    listed = fe.MultiECCE(columns=["c", " s"], min_clicks=0)
    assert str(listed) == TWO
    assert evaluate(table, listed).value(TWO) == evaluate(table).value(TWO)
    assert evaluate(table, "MultiECCE(columns='g,c'),GAUC").value("MultiECCE(columns='g,c')") > 0


def bits(result):
    (value,) = result
    return value.value.hex(), value.details, result.multicalibration().to_pylist()


@pytest.mark.parametrize("weight", [None, "w"])
def test_order_batches_threads_and_partitions__change_no_bit(weight):
    table = log(levels=50)
    order = pa.array(np.random.default_rng(7).permutation(table.num_rows))
    scattered = table.take(order)
    once = bits(evaluate(table, weight=weight, threads=1))
    for source, options in (
        (table, {"threads": 2, "batch_rows": 257}),
        (pa.Table.from_batches(table.to_batches(max_chunksize=33)), {"threads": 3}),
        (scattered, {"order": "scattered", "batch_rows": 500}),
        (scattered, {"group": None}),
        (table.set_column(2, "p", table["p"]), {"threads": 1, "batch_rows": 100}),
    ):
        assert bits(evaluate(source, weight=weight, **options)) == once, options


def test_many_rows__in_runs_and_ranges__give_the_same_bits():
    table = log(300_000, levels=5000)
    for weight in (None, "w"):
        once = bits(evaluate(table, weight=weight, threads=1, group=None))
        again = evaluate(table, weight=weight, threads=2, batch_rows=1 << 17, group=None)
        assert bits(again) == once
        halves = [
            evaluate(part, weight=weight, group=None, keep="state").state
            for part in (table.slice(140_000), table.slice(0, 140_000))
        ]
        assert bits(halves[0].merge(halves[1]).result()) == once


OTHER_TYPES = [
    *(pa.bool_(), pa.date64(), pa.time32("s"), pa.time64("us"), pa.duration("ms")),
    *(pa.timestamp("us", tz="UTC"), pa.timestamp("s", tz="Europe/Berlin"), pa.uint8()),
    pa.decimal256(50, 3),
]


def column_of(kind: str | pa.DataType) -> pa.Array:
    if isinstance(kind, str):
        return FIELDS[kind](np.arange(240) % 12)
    most = {pa.bool_(): 1, pa.uint8(): 200, pa.time32("s"): 86_399}.get(kind, 86_400_000)
    whole = pa.int32() if pa.types.is_time32(kind) else pa.int64()
    return pa.array([0, most, None], whole).cast(kind)


@pytest.mark.parametrize("kind", [*FIELDS, *OTHER_TYPES], ids=str)
def test_labels__of_any_type__are_those_of_slicings__in_states_too(kind):
    column = column_of(kind)
    row = np.arange(len(column))
    table = pa.table({"g": row % 12, "y": row % 2, "p": np.full(len(row), 0.25), "f": column})
    result = evaluate(table, "MultiECCE(columns='f', min_clicks=0)", by="f", keep="state")
    labels = {"all", *result.slices()}
    assert sigmas_of(result).keys() == labels
    assert sigmas_of(fe.State.from_bytes(result.state.to_bytes()).result()).keys() == labels


def test_document__has_the_ten_worst_slices():
    result = evaluate(log())
    worst = result.document()["worst_slices"]
    rows = result.multicalibration().slice(0, 10).to_pylist()
    assert worst == [{"score": "p", "measure": TWO, **row} for row in rows]
    assert "worst_slices" not in evaluate(log(100), "GAUC").document()


def test_calibrated_models__raise_an_alarm_in_few_of_many_runs():
    rng = np.random.default_rng(11)
    rows, alarms = 4_000, 0
    for _ in range(200):
        p = rng.beta(1, 8, rows)
        table = {
            "y": (rng.random(rows) < p).astype(np.int8),
            "p": p,
            "c": rng.integers(0, 8, rows),
            "s": rng.integers(0, 3, rows),
        }
        result = evaluate(table, "MultiECCE(columns='c,s')", group=None)
        alarms += result.values[0].details["p-value"] < 0.05
    # Nominally at most 5 %; 20 of 200 have a probability of 0.3 % then.
    assert alarms < 20


test_answers = answers(globals())
