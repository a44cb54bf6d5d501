"""Probability quality beyond the laws of all pooled measures: worked numbers, peers, exactness."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from fastrank_eval import ColumnError
from fastrank_eval._lib.arrow import frozen
from fastrank_eval.measures.calibration import Outcomes
from fastrank_eval.measures.likelihood import losses, recalibrate
from fastrank_eval.stats.hypothesis_tests import maximum_exceeds, range_exceeds
from fastrank_eval.stats.score_runs import ScoreTable
from tests.support import batched
from tests.support.transcripts import answers

pytestmark = pytest.mark.kernels


def evaluate(table, measures, **options):
    return batched.evaluate(
        table, group="g", label="y", score="p", measures=measures, keep="", **options
    )


def value(p, y, text, weight=None, **options):
    table = {"g": np.zeros(len(p), np.int64), "y": np.asarray(y), "p": np.asarray(p)}
    if weight is not None:
        table["w"], options["weight"] = np.asarray(weight, np.float64), "w"
    return evaluate(table, [text], **options).value(text)


def details(p, y, text, weight=None):
    table = {"g": np.zeros(len(p), np.int64), "y": np.asarray(y), "p": np.asarray(p)}
    options = {}
    if weight is not None:
        table["w"], options["weight"] = np.asarray(weight, np.float64), "w"
    (found,) = evaluate(table, [text], **options)
    return found.details


def clicks(rows, seed=1, levels=None):
    """Probabilities, clicks of a model that errs a little, weights."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 4, rows)
    if levels is not None:
        p = np.round(p * levels) / levels
    return p, (rng.random(rows) < p**1.2).astype(np.int8), rng.integers(0, 5, rows) / 4


# ---- beside scikit-learn and the ECE of TorchMetrics and netcal ----------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("levels", [None, 20])
def test_measures_of_scikit_learn__agree(weighted, levels):
    metrics = pytest.importorskip("sklearn.metrics")
    p, y, w = clicks(5000, levels=levels)
    p = np.clip(p, 0.001, 0.999)
    theirs = {
        "LogLoss": metrics.log_loss,
        "Brier": metrics.brier_score_loss,
        "MAE": metrics.mean_absolute_error,
        "MSE": metrics.mean_squared_error,
        "RMSE": metrics.root_mean_squared_error,
    }
    weight = w if weighted else None
    for name, metric in theirs.items():
        wanted = metric(y, p, sample_weight=weight)
        assert value(p, y, name, weight) == pytest.approx(wanted, rel=1e-9), name


@pytest.mark.parametrize("bins", [1, 2, 10, 15, 100])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("levels", [None, 100])
def test_ece_and_mce__agree_with_bins_found_by_their_edges(bins, kind, levels):
    p, y, _ = clicks(4000, seed=2, levels=levels)
    p = p.astype(kind)
    edges = np.arange(bins + 1) / bins
    at = np.searchsorted(edges[:-1], p.astype(np.float64), side="right") - 1
    held = np.bincount(at, minlength=bins) > 0
    rows = np.bincount(at, minlength=bins)[held]
    confidence = np.bincount(at, p, bins)[held] / rows
    accuracy = np.bincount(at, y, bins)[held] / rows
    gaps = np.abs(confidence - accuracy)
    assert value(p, y, f"ECE(bins={bins})") == pytest.approx(gaps @ rows / len(p), rel=1e-9)
    assert value(p, y, f"MCE(bins={bins})") == pytest.approx(gaps.max(), rel=1e-9)


# ---- worked by hand ------------------------------------------------------------------------------

P = [0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 0.75, 1.0]
Y = [0, 1, 0, 0, 1, 1, 0, 1]


@pytest.mark.parametrize(
    "text, wanted",
    [
        # Observed 1/2, 0, 2/3, 1 of 2, 2, 3, 1 rows; clicks 4 of 8, predicted 4.75.
        ("PCOC", 4.75 / 4),
        ("Bias", 0.75 / 8),
        ("Brier", (3 * 0.0625 + 2 * 0.5625 + 2 * 0.25) / 8),
        ("Reliability", (2 / 16 + 2 / 4 + 3 / 144) / 8),
        ("Resolution", (0 + 2 / 4 + 3 / 36 + 1 / 4) / 8),
        ("Uncertainty", 1 / 4),
        # [0, 1/2[: 1/2 - 1/4 over 2 rows; [1/2, 1]: 4.25 predicted, 3 observed.
        ("ECE(bins=2)", (0.5 + 1.25) / 8),
        ("MCE(bins=2)", 0.25),
        ("ECE(bins=4)", (0.5 + 1.0 + 0.25) / 8),
        ("MCE(bins=4)", 0.5),
        # Middles of ties at 1, 3, 5.5 and 7.5 of 8 rows: two in either half.
        ("ECE(bins=2, by='count')", (0.5 + 0.25) / 8),
        ("ECE(bins=8, by='count')", (0.5 + 1.0 + 0.25) / 8),
        # Sums of y - p: 0.5, -0.5, -0.75, -0.75.
        ("ECCE", 1.25 / 8),
        ("ECCE(statistic='max')", 0.75 / 8),
        ("MAE", (0.25 + 0.75 + 1.0 + 0.5 + 0.75) / 8),
    ],
)
def test_worked_by_hand(text, wanted):
    assert value(P, Y, text) == pytest.approx(wanted, rel=1e-14)


def test_ecce_worked_by_hand__is_told_in_standard_errors():
    variance = 2 * 3 / 16 + 2 / 4 + 3 * 3 / 16
    found = details(P, Y, "ECCE")
    assert found["in standard errors"] == pytest.approx(1.25 / math.sqrt(variance), rel=1e-13)
    assert found["p-value"] == pytest.approx(range_exceeds(1.25 / math.sqrt(variance)), rel=1e-13)
    heavy = details(P, Y, "ECCE", [3.0] * 8)
    assert heavy == pytest.approx(found, rel=1e-13)
    # One row that weighs twice varies more than two rows.
    twice = details([0.5], [1], "ECCE", [2.0])
    assert twice["in standard errors"] == pytest.approx(1.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", ["", "(bins=7)", "(bins=9, by='count')", "(bins=1)"])
def test_parts_of_brier__add_up_to_it(options, weighted):
    p, y, w = clicks(3000, seed=3, levels=200)
    weight = w if weighted else None
    parts = value(p, y, f"Reliability{options}", weight) - value(
        p, y, f"Resolution{options}", weight
    )
    parts += value(p, y, "Uncertainty", weight)
    within = details(p, y, f"Resolution{options}", weight)
    parts += within.get("within-bin variance", 0) - within.get("within-bin covariance", 0)
    assert parts == pytest.approx(value(p, y, "Brier", weight), rel=1e-12)
    assert bool(within) == bool(options)


def test_bins_of_equal_count__hold_as_many_rows_but_for_ties():
    p = np.random.default_rng(4).permutation(np.arange(1000) / 1000)
    # A bin of 100 rows each: the gap of bin b is its mean, as nobody clicked.
    wanted = (99.5 + 900 - 50) / 1000
    assert value(p, np.zeros(1000, int), "MCE(bins=10, by='count')") == pytest.approx(wanted)
    level = np.repeat([0.2, 0.4], [999, 1])
    clicked = np.arange(1000) == 0
    wanted = (999 * 0.2 - 1 + 0.4) / 1000
    assert value(level, clicked, "ECE(bins=10, by='count')") == pytest.approx(wanted)


# ---- recalibration and background ----------------------------------------------------------------


def test_probabilities_put_right__ascend_though_rounding_may_swap_neighbours():
    some = np.random.default_rng(5).random(50_000)
    score = np.unique([some, np.nextafter(some, 1.0)])
    right = recalibrate(score, 0.1)
    assert (right[1:] < right[:-1]).any()
    rows = np.ones(len(score), np.int64)
    outcomes = Outcomes.of(ScoreTable(score[::-1], rows, rows), 0.1)
    assert (np.diff(outcomes.probability) > 0).all()
    assert outcomes.weight.sum() == 2 * len(score)


def test_sampling_rate__of_evaluate_is_that_of_each_measure_that_names_none():
    p, y, _ = clicks(500)
    table = {"g": np.arange(500) // 5, "y": y, "p": p}
    asked = "LogLoss,PCOC,ECE(bins=5),RMSE,GAUC,Brier(sampling_rate=0.5)"
    result = evaluate(table, asked, sampling_rate=0.1)
    assert [found.measure for found in result] == [
        "LogLoss(sampling_rate=0.1)",
        "PCOC(sampling_rate=0.1)",
        "ECE(bins=5, sampling_rate=0.1)",
        "RMSE",
        "GAUC",
        "Brier(sampling_rate=0.5)",
    ]
    assert result.meta.conventions["sampling_rate"] == 0.1
    assert evaluate(table, asked).meta.conventions["sampling_rate"] == 1
    fewer = p / (p + (1 - p) / 0.1)
    plain = evaluate({**table, "p": fewer}, "LogLoss,PCOC,ECE(bins=5)")
    for text in ("LogLoss", "PCOC", "ECE(bins=5)"):
        assert result.value(text) == pytest.approx(plain.value(text), rel=1e-12)
    given = evaluate(table, "NE(sampling_rate=1)", sampling_rate=0.1)
    assert given.value("NE") == evaluate(table, "NE").value("NE")


def test_sampling_rate__of_next_to_nothing__is_taken_quietly():
    with np.errstate(over="raise"):
        assert value([0.0, 0.5, 1.0], [0, 0, 1], "PCOC(sampling_rate=1e-320)") == 1.0


def test_background__that_is_given_defines_ne_of_one_class():
    loss = value([0.1, 0.2], [0, 0], "LogLoss")
    wanted = loss / -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert value([0.1, 0.2], [0, 0], "NE(background=0.25)") == pytest.approx(wanted)
    assert math.isnan(value([0.1, 0.2], [0, 0], "NE"))


# ---- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["LogLoss", "NE", "RIG", "Brier", "PCOC", "Bias", "MAE", "ECCE"])
def test_weights_whose_sum_is_beyond_doubles__are_an_error_and_no_zero(text):
    weight = [2.6e154] * 4 if text == "ECCE" else [1.7e308] * 4
    with pytest.raises(ColumnError, match="weights must be 0 or from 1e-30 to 1e30"):
        value([0.5, 0.25, 0.5, 0.5], [1, 0, 1, 0], text, weight)


@pytest.mark.parametrize("score", [np.int8, np.int64, np.uint64, np.float32])
def test_numbers__are_compared_with_labels_as_they_are(score):
    assert value(np.array([3, 5, 1], score), [1.5, 5, 4], "MAE") == 1.5
    assert value(np.array([3, 5, 1], score), [1.5, 5, 4], "MSE") == (1.5**2 + 9) / 3


# ---- fields --------------------------------------------------------------------------------------

FIELDS = {
    "int8": lambda n: pa.array(n.astype(np.int8)),
    "uint64": lambda n: pa.array(n.astype(np.uint64) + np.uint64(2**63)),
    "int64 of zero bytes": lambda n: pa.array(n << 40),
    "string": lambda n: pa.array([f"{'x' * (9 * i)}" for i in n.tolist()]),
    "dictionary": lambda n: pa.array([f"field {i}" for i in n.tolist()]).dictionary_encode(),
    "bytes": lambda n: pa.array([b"\0" * i for i in n.tolist()]),
    "fixed bytes": lambda n: pa.array([b"%03d" % i for i in n.tolist()], pa.binary(3)),
    "date": lambda n: pa.array(n.astype(np.int32)).view(pa.date32()),
    "timestamp": lambda n: pa.array(n, pa.timestamp("ns")),
    "decimal": lambda n: pa.array(n - 5).cast(pa.decimal128(20)),
    "null": lambda n: pa.array([None if i == 4 else i for i in n.tolist()], pa.int64()),
    "null string": lambda n: pa.array([None if i == 4 else str(i) for i in n.tolist()]),
}
OF_FIELD = ["FieldRCE(field='f')", "FieldECE(field='f')", "FieldRCE(field='f', smoothing=0)"]


def field_log(rows=4000):
    p, y, w = clicks(rows, seed=5)
    rng = np.random.default_rng(6)
    number = rng.integers(0, 12, rows)
    table = {"g": np.sort(rng.integers(0, 300, rows)), "y": y, "p": p.astype(np.float32), "w": w}
    return number, table


@pytest.mark.parametrize("kind", FIELDS)
def test_field__of_any_type_gives_the_same_bits(kind):
    number, table = field_log()
    plain = evaluate({**table, "f": number}, OF_FIELD, weight="w")
    found = evaluate(
        pa.table({**table, "f": FIELDS[kind](number)}), OF_FIELD, weight="w", batch_rows=700
    )
    assert [v.value.hex() for v in found] == [v.value.hex() for v in plain]
    gaps = sum(
        abs(np.sum((table["w"] * (table["y"] - table["p"].astype(float)))[number == i]))
        for i in range(12)
    )
    assert plain.value("FieldECE(field='f')") == pytest.approx(gaps / table["w"].sum(), rel=1e-12)
    assert {v.details["values of the field"] for v in plain} == {12}


def test_field__may_be_the_group_itself_beside_a_group_weight():
    p, y, _ = clicks(600, seed=8)
    group = np.arange(600) // 50
    table = {"g": group, "y": y, "p": p, "w": 1 + group}
    result = evaluate(table, "GAUC(weight='w'),FieldECE(field='g'),FieldECE(field='w')")
    assert result.value("FieldECE(field='g')") == result.value("FieldECE(field='w')") > 0
    assert result.value("GAUC(weight='w')") == evaluate(table, "GAUC(weight='w')").value(
        "GAUC(weight='w')"
    )


def test_field__of_values_without_a_click():
    p, y, f = [0.5, 0.5, 0.25], [1, 0, 0], ["a", "a", "b"]
    table = pa.table({"g": [1, 1, 1], "y": y, "p": p, "f": f})
    # Of a nothing is amiss; of b 0.25 clicks were predicted and 0 seen.
    result = evaluate(table, OF_FIELD)
    relative, absolute, unsmoothed = result
    assert relative.value == pytest.approx(0.25 / 0.01 / 3)
    assert absolute.value == pytest.approx(0.25 / 3)
    assert unsmoothed.value == 0.0
    assert relative.details == {"values of the field": 2, "values without a positive": 1}
    (found,) = evaluate(table.slice(2), OF_FIELD[2])
    assert math.isnan(found.value)
    assert found.dropped == {"no_relevant": 1}


# ---- exactness -----------------------------------------------------------------------------------


def test_losses__are_the_logarithms_to_1e_15():
    rng = np.random.default_rng(9)
    few = 10.0 ** -rng.uniform(0, 15, 400)
    highest = 1 - 2.0**-49  # 1 - 1e-15 is rounded up, so it is clamped
    p = np.concatenate([rng.random(400), few, 1 - few, [1e-15, highest, 0.5, np.sqrt(0.5)]])
    p = np.clip(p, 1e-15, highest)
    for positive in (True, False):
        found, clamped = losses(frozen(p.copy()), np.full(len(p), positive), 1e-15)
        assert clamped == 0
        with localcontext() as context:
            context.prec = 40
            for got, given in zip(found.tolist(), p.tolist(), strict=True):
                exact = -(Decimal(given) if positive else 1 - Decimal(given)).ln()
                assert abs(Decimal(got) - exact) <= Decimal("4e-16") * exact, given


@pytest.mark.slow("5 * 2**22 rows")
def test_more_than_two_to_the_24_rows_of_float32__are_added_exactly():
    rows, levels = 5 << 22, 1 << 12
    number = np.arange(rows, dtype=np.int32)
    level = number % levels
    p = (level.astype(np.float32) + np.float32(0.5)) / np.float32(levels)
    # Of each level, a click in every row whose turn is below a tenth of the level.
    y = ((number >> 12) % 1024 < level // 10).astype(np.uint8)
    table = pa.table({"g": pa.array(number >> 10), "y": pa.array(y), "p": pa.array(p)})
    measures = "LogLoss,Brier,PCOC,Bias,ECE(bins=16),AUC,AUC(bins=4096),KS,PPV"
    result = evaluate(table, measures)
    turns = rows // levels
    clicked = [turns // 1024 * (k // 10) for k in range(levels)]
    # Counts: where they are held as float32, they stop at 2**24.
    hits, others = sum(clicked), rows - sum(clicked)
    above = np.cumsum(np.array(clicked, object)[::-1])[::-1]
    passed = [turns * (levels - k) - int(above[k]) for k in range(levels)]
    pairs = sum((turns - c) * (2 * int(a) - c) for c, a in zip(clicked, above, strict=True))
    assert result.value("AUC") == result.value("AUC(bins=4096)") == pairs / (2 * hits * others)
    curve = zip(above.tolist(), passed, strict=True)
    apart = max(Fraction(tp, hits) - Fraction(fp, others) for tp, fp in curve)
    assert result.value("KS") == pytest.approx(float(apart), rel=1e-14)
    half = levels // 2
    wanted = {"TP": above[half], "FP": passed[half], "FN": hits - above[half]}
    assert wanted.items() <= next(v for v in result if v.measure == "PPV").details.items()
    share = [Fraction(2 * k + 1, 2 * levels) for k in range(levels)]
    predicted = sum(share) * turns
    squares = sum(
        c * (1 - q) ** 2 + (turns - c) * q**2 for c, q in zip(clicked, share, strict=True)
    )
    assert result.value("Brier") == float(squares / rows)
    assert result.value("PCOC") == float(predicted / sum(clicked))
    assert result.value("Bias") == float((predicted - sum(clicked)) / rows)
    width = levels // 16
    bins = [slice(lo, lo + width) for lo in range(0, levels, width)]
    gaps = sum(abs(sum(share[b]) * turns - sum(clicked[b])) for b in bins)
    assert result.value("ECE(bins=16)") == pytest.approx(float(gaps / rows), rel=1e-15)
    loss = math.fsum(
        -c * math.log(q) - (turns - c) * math.log1p(-q)
        for c, q in zip(clicked, map(float, share), strict=True)
    )
    assert result.value("LogLoss") == pytest.approx(loss / rows, rel=1e-15)


# ---- p-values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exceeds, border", [(maximum_exceeds, 1.5), (range_exceeds, 2.0)], ids=["max", "range"]
)
def test_p_value__falls_from_1_to_0_and_both_series_meet(exceeds, border):
    found = [exceeds(x / 50) for x in range(2000)]
    assert found == sorted(found, reverse=True)
    assert (found[0], found[2], found[-1]) == (1.0, 1.0, 0.0)
    assert exceeds(border - 1e-13) == pytest.approx(exceeds(border), rel=1e-11)


def test_p_value__in_the_tail_is_that_of_the_nearest_walls():
    # Of a walk that leaves by one end, and for the range, of one that spans it.
    for x in (5.0, 10.0, 30.0):
        above = math.erfc(x / math.sqrt(2)) / 2
        assert maximum_exceeds(x) == pytest.approx(4 * above, rel=1e-9)
        assert range_exceeds(x) == pytest.approx(8 * above, rel=1e-5)


def test_p_value__of_calibrated_models_is_uniform():
    rng = np.random.default_rng(10)
    runs, rows = 1500, 4000
    p = np.sort(rng.random(rows))
    sums = np.cumsum((rng.random((runs, rows)) < p) - p, axis=1)
    sums /= math.sqrt(np.sum(p * (1 - p)))
    high, low = np.maximum(sums.max(axis=1), 0), np.minimum(sums.min(axis=1), 0)
    for statistic, exceeds in (
        (high - low, range_exceeds),
        (np.maximum(high, -low), maximum_exceeds),
    ):
        shares = np.sort([exceeds(x) for x in statistic.tolist()])
        # Kolmogorov's distance: 1.63 / sqrt(runs) at one in a hundred, and steps of finite size.
        assert np.abs(shares - (np.arange(runs) + 0.5) / runs).max() < 1.63 / math.sqrt(runs) + 0.02


test_answers = answers(globals())
