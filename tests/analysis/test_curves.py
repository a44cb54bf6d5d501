"""Curves: against scikit-learn, against their definitions, and the laws they keep."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve

import fastrank_eval
from fastrank_eval import ArgumentError, Curve, MeasureError
from fastrank_eval.results.curve_points import corners, spread, wilson
from tests.support import batched
from tests.support.transcripts import answers

ROWS = 600
COLUMNS = {"group": "user", "label": "click", "score": "pctr"}
OF_THRESHOLDS = ("roc", "pr", "det", "lift")
OF_SCORES = (*OF_THRESHOLDS, "calibration")


def log_of(seed: int, rows: int = ROWS, levels: int | None = 40) -> dict[str, np.ndarray]:
    """Scores of some skill, many of them tied; weights, some of them 0."""
    random = np.random.default_rng(seed)
    click = (random.random(rows) < 0.3).astype(np.int8)
    pctr, other = (np.clip(random.random(rows) * 0.8 + 0.2 * click, 0, 1) for _ in range(2))
    if levels is not None:
        pctr = np.round(pctr * levels) / levels
    weight = random.choice([0.0, 0.5, 1.0, 3.0], rows)
    user = np.sort(random.integers(0, rows // 8, rows))
    return {"user": user, "click": click, "pctr": pctr, "other": other, "weight": weight}


LOG = log_of(1)


def curve(kind, log=LOG, **options) -> Curve:
    return batched.curve(kind, log, **{**COLUMNS, **options})


def weights_of(weight: str | None) -> dict[str, np.ndarray]:
    return {"sample_weight": LOG["weight"]} if weight else {}


# ---- scikit-learn --------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [None, "weight"])
def test_roc_pr_and_det__equal_scikit_learns(weight):
    fpr, tpr, thresholds = metrics.roc_curve(
        LOG["click"], LOG["pctr"], drop_intermediate=False, **weights_of(weight)
    )
    found = curve("roc", points="all", weight=weight)
    np.testing.assert_allclose(found.of()["fpr"], fpr, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.of()["tpr"], tpr, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.of()["threshold"], thresholds)
    auc = metrics.roc_auc_score(LOG["click"], LOG["pctr"], **weights_of(weight))
    assert found.values["pctr"]["AUC"] == pytest.approx(auc, rel=1e-9)

    precision, recall, thresholds = metrics.precision_recall_curve(
        LOG["click"], LOG["pctr"], **weights_of(weight)
    )
    found = curve("pr", points="all", weight=weight)
    np.testing.assert_allclose(found.of()["precision"], precision[::-1], rtol=1e-9)
    np.testing.assert_allclose(found.of()["recall"], recall[::-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.of()["threshold"], [np.inf, *thresholds[::-1]])
    ap = metrics.average_precision_score(LOG["click"], LOG["pctr"], **weights_of(weight))
    assert found.values["pctr"]["AvgPrec"] == pytest.approx(ap, rel=1e-9)

    fpr, fnr, thresholds = metrics.det_curve(LOG["click"], LOG["pctr"], **weights_of(weight))
    found = curve("det", points="all", weight=weight).of()
    places = {t: i for i, t in enumerate(found["threshold"].tolist())}
    at = [places[t] for t in thresholds.tolist()]
    assert len(at) > 20
    np.testing.assert_allclose(found["fpr"][at], fpr, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["fnr"][at], fnr, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("bins", [1, 7, 10])
@pytest.mark.parametrize(
    "binning, strategy, rows",
    [("equal-width", "uniform", 601), ("equal-count", "quantile", 630)],
)
def test_calibration__equals_scikit_learns(binning, strategy, rows, bins):
    """But for what stands on an edge, and ties at the end of a bin of equal count."""
    log = log_of(2, rows, levels=None)
    rate, mean = calibration_curve(log["click"], log["pctr"], n_bins=bins, strategy=strategy)
    found = curve("calibration", log, bins=bins, binning=binning).of()
    np.testing.assert_allclose(found["mean_prediction"], mean, rtol=1e-9)
    np.testing.assert_allclose(found["observed_rate"], rate, rtol=1e-9, atol=1e-12)
    assert found["rows"].sum() == rows


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("by", ["count", "width"])
@pytest.mark.parametrize("bins", [1, 7, 10])
def test_calibration__has_the_bins_of_ece(by, bins, weight):
    found = curve("calibration", bins=bins, binning=f"equal-{by}", weight=weight)
    measure = fastrank_eval.ECE(bins=bins, by=by)
    columns = {"group": "user", "label": "click", "score": "pctr", "weight": weight}
    wanted = fastrank_eval.evaluate(LOG, measures=[measure], **columns).value(measure)
    assert found.values["pctr"]["ECE"] == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("kind", OF_THRESHOLDS)
def test_weights__as_large_as_they_may_be_leave_the_points_alone(kind):
    heavy = {**LOG, "weight": LOG["weight"] * 2.0**90}
    options = {"measures": "AUC", "weight": "weight", "keep": "scores", **COLUMNS}
    wanted, found = (fastrank_eval.evaluate(log, **options).curve(kind) for log in (LOG, heavy))
    assert found.records().equals(wanted.records())
    assert found.values == wanted.values


# ---- definitions ---------------------------------------------------------------------------------


def test_calibration__edges_intervals_and_ece__are_as_defined():
    pctr = np.array([0.1, 0.2, 0.2, 0.6, 0.6, 0.6, 1.0, 0.0])
    log = {"user": np.zeros(8, int), "click": np.array([0, 1, 0, 1, 1, 0, 1, 0]), "pctr": pctr}
    found = curve("calibration", log, bins=5, binning="equal-width", confidence=0.9)
    # A bin holds its lower edge, the last one 1 too: 0.2 lies in the second, 0.6 in the fourth.
    assert found.of()["bin"].tolist() == [1, 2, 4, 5]
    assert found.of()["upper"].tolist() == pytest.approx([0.2, 0.4, 0.8, 1.0])
    assert found.of()["rows"].tolist() == [2, 2, 3, 1]
    ece = (2 * abs(0.05 - 0) + 2 * abs(0.2 - 1 / 2) + 3 * abs(0.6 - 2 / 3) + 0) / 8
    assert found.values["pctr"]["ECE"] == pytest.approx(ece)
    counts = curve("calibration", log, bins=2).of()
    assert counts["rows"].tolist() == [4, 4]
    assert (counts["lower"].tolist(), counts["upper"].tolist()) == ([0.0, 0.6], [0.2, 1.0])


@pytest.mark.parametrize("positives, rows", [(0, 5), (1, 3), (50, 100), (7, 7)])
def test_wilson__ends_are_the_rates_whose_test_just_rejects(positives, rows):
    rate, z = positives / rows, 1.959963984540054
    for end in wilson(np.array([rate]), np.array([rows]), 0.95):
        if 0 < end[0] < 1:
            assert abs(rate - end[0]) == pytest.approx(z * math.sqrt(end[0] * (1 - end[0]) / rows))
        else:
            assert end[0] == rate


def test_calibration__of_whole_weights__is_that_of_repeated_rows():
    log = log_of(3)
    times = np.random.default_rng(0).integers(0, 4, ROWS)
    repeated = {name: np.repeat(column, times) for name, column in log.items()}
    for binning in ("equal-width", "equal-count"):
        weighted = curve("calibration", log | {"weight": times}, weight="weight", binning=binning)
        plain = curve("calibration", repeated, binning=binning)
        for name in ("bin", "lower", "upper", "mean_prediction", "observed_rate"):
            np.testing.assert_allclose(weighted.of()[name], plain.of()[name], rtol=1e-12)
        np.testing.assert_array_equal(weighted.of()["weight"], plain.of()["rows"])
        assert weighted.records().column("low").null_count == len(weighted.of()["low"])
        assert weighted.records().schema.field("weight").type == pa.float64()


def test_calibration__sampling_rate__puts_predictions_right():
    p = LOG["pctr"]
    corrected = LOG | {"pctr": p / (p + (1 - p) / 0.1)}
    found = curve("calibration", sampling_rate=0.1)
    wanted = curve("calibration", corrected)
    np.testing.assert_allclose(found.of()["mean_prediction"], wanted.of()["mean_prediction"])


def test_lift__at_depths__counts_tied_rows_as_the_mean_over_their_orders():
    log = {"user": [1] * 8, "click": [1, 0, 1, 1, 0, 0, 0, 0]}
    log["pctr"] = [0.9, 0.8, 0.5, 0.5, 0.5, 0.5, 0.1, 0.1]
    found = curve("lift", log, points=9).of()
    np.testing.assert_allclose(found["depth"], np.arange(9) / 8)
    np.testing.assert_allclose(found["recall"] * 3, [0, 1, 1, 1.5, 2, 2.5, 3, 3, 3])
    np.testing.assert_allclose(found["lift"][1:], found["recall"][1:] / found["depth"][1:])
    assert math.isnan(found["lift"][0])
    assert found["threshold"].tolist() == [np.inf, 0.9, 0.8, 0.5, 0.5, 0.5, 0.5, 0.1, 0.1]
    assert curve("lift", log).values["pctr"]["Lift@10%"] == pytest.approx(8 / 3)


def test_grades__count_from_rel_on():
    grade = np.random.default_rng(4).integers(0, 4, ROWS)
    graded, binary = LOG | {"click": grade}, LOG | {"click": (grade >= 2).astype(int)}
    for kind in OF_SCORES:
        assert curve(kind, graded, rel=2).records().equals(curve(kind, binary).records())


# ---- points --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("levels", [40, None])
def test_corners__keep_every_point_on_the_line__and_the_areas(weight, levels):
    log = log_of(5, levels=levels)
    every, few = (curve("roc", log, points=p, weight=weight) for p in ("all", "corners"))
    x, y = few.of()["fpr"], few.of()["tpr"]
    assert len(x) < len(every.of()["fpr"])
    assert np.trapezoid(y, x) == pytest.approx(every.values["pctr"]["AUC"], rel=1e-12)
    # Up along a vertical step a point lies on the line too: compare along fpr + tpr.
    along = np.interp(every.of()["fpr"] + every.of()["tpr"], x + y, x)
    np.testing.assert_allclose(along, every.of()["fpr"], atol=1e-12)
    turns = np.diff(x)[:-1] * np.diff(y)[1:] - np.diff(y)[:-1] * np.diff(x)[1:]
    assert (np.abs(turns) > 0).all()
    for p in ("all", "corners"):
        of = curve("pr", log, points=p, weight=weight).of()
        area = float(np.sum(np.diff(of["recall"]) * of["precision"][1:]))
        assert area == pytest.approx(curve("pr", log, weight=weight).values["pctr"]["AvgPrec"])


def test_corners__of_large_counts__are_exact():
    assert corners(np.array([0, 2**32, 2**32 + 1]), np.array([0, 0, 2**32])).tolist() == [0, 1, 2]
    big = 2**40
    x, y = np.array([0, big, 2 * big, 3 * big]), np.array([0, big + 1, 2 * big + 2, 3 * big + 2])
    assert corners(x, y).tolist() == [0, 2, 3]
    assert corners(np.array([0]), np.array([0])).tolist() == [0]


def test_points__are_the_nearest_to_equal_steps():
    every = curve("roc", points="all", score="other").of()
    progress = every["fpr"] + every["tpr"]
    for n in (2, 11, 50):
        found = curve("roc", points=n, score="other").of()
        nearest = {int(np.argmin(np.abs(progress - at))) for at in np.linspace(0, 2, n)}
        assert len(found["fpr"]) <= n
        np.testing.assert_array_equal(found["fpr"], every["fpr"][sorted(nearest)])
        assert (found["fpr"][0], found["tpr"][-1]) == (0, 1)
        for kind in ("pr", "det"):
            thresholds = curve(kind, points=n, score="other").of()["threshold"]
            np.testing.assert_array_equal(thresholds, found["threshold"])
    assert curve("roc", points=10**6).records().equals(curve("roc", points="all").records())
    assert spread(np.array([0.0, 0.1, 2.0]), 2).tolist() == [0, 2]


# ---- laws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("kind", OF_SCORES)
def test_bits__depend_neither_on_order_nor_batches_nor_threads(kind, weight):
    order = np.random.default_rng(6).permutation(ROWS)
    shuffled = {name: column[order] for name, column in LOG.items()}
    wanted = curve(kind, weight=weight).records()
    assert curve(kind, shuffled, weight=weight, threads=2, batch_rows=97).records().equals(wanted)
    assert wanted.num_rows > 5


NOTHING = {"user": np.empty(0, int), "click": np.empty(0, int), "pctr": np.empty(0)}
ONE_CLASS = {"user": [1, 1], "click": [0, 0], "pctr": [0.1, 0.2]}
POSITIVE = {"user": [1, 1], "click": [1, 1], "pctr": [0.1, 0.2]}
WEIGHTLESS = {"user": [1, 1], "click": [1, 0], "pctr": [0.1, 0.2], "weight": [0.0, 0.0]}


@pytest.mark.parametrize(
    "kind, log, reason",
    [
        *((kind, NOTHING, "no_rows") for kind in OF_SCORES),
        *((kind, ONE_CLASS, "single_class") for kind in OF_THRESHOLDS),
        *((kind, POSITIVE, "single_class") for kind in ("roc", "det")),
        *((kind, WEIGHTLESS, "zero_weight") for kind in OF_SCORES),
        ("k", ONE_CLASS, "no_groups"),
        ("gauc-by-activity", ONE_CLASS, "no_groups"),
    ],
)
def test_degenerate_rows__have_no_curve_and_a_reason(kind, log, reason):
    found = curve(kind, log, weight="weight" if "weight" in log else None)
    assert found.undefined == {"pctr": reason}
    assert reason in repr(found)
    if kind in OF_SCORES:
        assert found.records().num_rows == 0
        assert found.records().schema.names[0] == "score"


# ---- curves of groups ----------------------------------------------------------------------------


def test_k__equals_evaluate_at_each_cutoff():
    found = curve("k", measure="nDCG(gain='linear'),R", cutoffs=[5, 1, 2], score=["pctr", "other"])
    for row in found.records().to_pylist():
        text = f"{row['measure']}@{row['k']}"
        alone = fastrank_eval.evaluate(LOG, **COLUMNS | {"score": row["score"]}, measures=text)
        assert row["value"] == alone.value(text)
    assert found.of("pctr")["k"].tolist() == [1, 2, 5] * 2
    assert found.values["other"]["R@5"] == found.of("other")["value"][-1]
    assert list(found.meta.conventions["measures"]) == ["nDCG(gain='linear')@5", "R@5"]


GRADED = LOG | {"share": (LOG["user"] % 4) / 4, "click": LOG["click"] * (1 + LOG["user"] % 3)}


@pytest.mark.parametrize(
    "measure, options",
    [
        ("GAUC", {}), ("GAUC(weight='pairs')", {}), ("nDCG(weight='positives')@3", {}),
        ("GAUC", {"weight": "weight"}), ("GAUC", {"unretrieved": "allow"}),
        ("GAUC(rel=2, weight='pairs')", {}), ("GAUC(weight='share')", {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "activity, buckets, names",
    [
        ("rows", [1, 6, 9, 1000], ["1–5", "6–8", "9–999", "1000+"]),
        ("positives", [0, 2, 3, 1000], ["0–1", "2", "3–999", "1000+"]),
    ],
)
def test_activity__is_the_measure_over_the_groups_of_each_bucket(
    activity, buckets, names, measure, options
):
    choices = {"measure": measure, "activity": activity, "buckets": buckets, **options}
    found = curve("gauc-by-activity", GRADED, **choices)
    ones = np.ones(ROWS) if activity == "rows" else GRADED["click"] >= 1
    active = np.bincount(LOG["user"], ones)[LOG["user"]]
    *rows, empty = found.records().to_pylist()
    for row in rows:
        most = math.inf if row["most"] is None else row["most"]
        here = (active >= row["least"]) & (active <= most)
        part = {name: column[here] for name, column in GRADED.items()}
        (alone,) = fastrank_eval.evaluate(part, **COLUMNS, **options, measures=measure)
        assert (row["value"], row["groups_used"]) == (alone.value, alone.groups_used)
        assert (row["groups"], row["rows"]) == (len(set(part["user"])), int(here.sum()))
        assert row["standard_error"] == alone.se
    assert (empty["groups"], empty["rows"], empty["value"]) == (0, 0, None)
    assert found.of()["bucket"].tolist() == names


def test_activity__value_of_a_model__is_that_of_all_rows_and_not_of_the_last_bucket():
    names = ["pctr", "other"]
    found = curve("gauc-by-activity", buckets=[5, 9, 1000], score=names)
    every = fastrank_eval.evaluate(LOG, **COLUMNS | {"score": names}, measures="GAUC")
    assert found.values == {name: {"GAUC": every.value("GAUC", name)} for name in names}
    assert found.undefined == {}  # though the last bucket is empty
    beyond = curve("gauc-by-activity", buckets=[1000], score="pctr")
    assert beyond.undefined == {"pctr": "no_groups"}


def test_activity__errors_of_clusters__have_their_number():
    log = LOG | {"household": LOG["user"] // 3}
    found = curve("gauc-by-activity", log, cluster="household", buckets=[1, 9])
    every = fastrank_eval.evaluate(log, **COLUMNS, cluster="household", measures="GAUC",
                                   by="@rows:1,9")  # fmt: skip
    own = [v for v in every if v.by is not None]
    points = found.document()["points"]
    assert [(p["standard_error"], p["clusters"]) for p in points] == [
        (v.se, v.clusters) for v in own if v.slice != "rows<1"
    ]
    assert found.notes == [f"clusters: household ({len(set(log['household']))})"]
    alone = curve("gauc-by-activity", log, buckets=[1, 9])
    assert alone.of()["value"].tolist() == found.of()["value"].tolist()
    assert "clusters" not in alone.records().column_names
    assert alone.notes == []


def test_calibration__clusters__leave_no_interval_of_independent_rows():
    log = LOG | {"household": LOG["user"] // 3}
    alone, found = curve("calibration", log), curve("calibration", log, cluster="household")
    assert np.isnan([found.of()["low"], found.of()["high"]]).all()
    assert np.isfinite([alone.of()["low"], alone.of()["high"]]).all()
    assert found.of()["observed_rate"].tolist() == alone.of()["observed_rate"].tolist()
    assert found.notes == []


# ---- one pass, texts -----------------------------------------------------------------------------


def test_result__of_kept_scores__draws_curves_from_the_same_pass():
    result = fastrank_eval.evaluate(LOG, **COLUMNS, measures="GAUC,AUC,AUC(rel=2)", keep="scores")
    for kind in OF_SCORES:
        assert result.curve(kind).records().equals(curve(kind).records())
    assert result.curve("roc", rel=2).undefined == {"pctr": "single_class"}
    weighted = fastrank_eval.evaluate(
        LOG, measures="AUC,AvgPrec,Lift", weight="weight", keep="scores", **COLUMNS
    )
    for kind, name, measure in (
        ("roc", "AUC", "AUC"), ("pr", "AvgPrec", "AvgPrec"), ("lift", "Lift@10%", "Lift")
    ):  # fmt: skip
        assert weighted.curve(kind).values["pctr"][name] == weighted.value(measure)
    with pytest.raises(ArgumentError, match="AUC\\(rel=3\\) among the measures"):
        result.curve("roc", rel=3)
    with pytest.raises(ArgumentError, match="for a result, got 'k'"):
        result.curve("k")
    other = fastrank_eval.evaluate(LOG, measures="KS", keep="scores", **COLUMNS)
    assert other.curve("pr").records().equals(curve("pr").records())
    with pytest.raises(MeasureError, match="AUC was not part"):
        other.curve("roc")
    with pytest.raises(ArgumentError, match="keep='scores'"):
        fastrank_eval.evaluate(LOG, **COLUMNS, measures="AUC").curve("roc")


def test_scores__that_are_integers__are_thresholds_as_they_are():
    log = {"user": [1, 1, 1], "click": [0, 1, 0], "pctr": np.array([-7, 10**15, 0])}
    assert curve("roc", log, points="all").of()["threshold"].tolist() == [np.inf, 10**15, 0, -7]


def test_document__holds_every_point_and_choice(own_folder):
    told = curve("lift", points=4).document()
    assert told["points"][0] == {
        "score": "pctr", "threshold": None, "depth": 0.0, "recall": 0.0, "precision": None,
        "lift": None,
    }  # fmt: skip
    assert (len(told["points"]), told["choices"], told["meta"]["rows"]) == (4, {"points": 4}, ROWS)
    assert curve("lift", points=4).to_csv().splitlines()[1] == "pctr,inf,0.0,0.0,,"
    for file in ("log.parquet", "other.parquet"):
        pa.parquet.write_table(pa.table(LOG), file)
    assert curve("roc", "log.parquet").source == "log.parquet"
    both = curve("roc", ["log.parquet", "other.parquet"], order="scattered")
    assert both.source == "log.parquet and 1 more"


# ---- refusals ------------------------------------------------------------------------------------


test_answers = answers(globals())
