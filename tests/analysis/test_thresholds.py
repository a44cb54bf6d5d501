"""The best threshold by every criterion, against trying all of them in exact fractions."""

import csv
import io
import json
import math
import random

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn import metrics

from fastrank_eval import BestThreshold, best_threshold
from fastrank_eval.analysis.curve import CRITERION_OPTIONS, Criterion, best_of
from fastrank_eval.apps.cli.curves import threshold
from fastrank_eval.stats.score_runs import ScoreTable
from tests.measures.test_pooled import CASES, WEIGHTED_CASES, probable_groups
from tests.oracles.decisions import best, cells
from tests.oracles.measures import Row
from tests.support.commands import run
from tests.support.tables import table_of
from tests.support.transcripts import answers

CRITERIA: tuple[dict, ...] = (
    {"by": "f1"},
    {"by": "fbeta", "beta": 2},
    {"by": "fbeta", "beta": 0.25},
    {"by": "youden"},
    {"by": "product"},
    {"by": "closest"},
    {"by": "accuracy"},
    {"by": "accuracy", "pos": 0.25},
    {"by": "precision", "target": 0.5},
    {"by": "precision", "target": 1},
    {"by": "recall", "target": 0.5},
    {"by": "recall", "target": 1},
    {"by": "cost", "costs": {"fp": 1, "fn": 4}},
    {"by": "cost", "costs": {"fp": 1, "fn": 4, "tp": -0.5}, "pos": 0.125},
    {"by": "cost", "costs": {"fp": -1, "fn": 4, "tp": 1}},
)
# Weights whose sums are exact, so that thresholds that are equally good compare equal.
WEIGHTS = (0.0, 0.5, 1.0, 2.0)
GROUPS = {
    **CASES,
    "few scores": probable_groups(31, 40, levels=(0.25, 0.5, 0.75)),
    "few rows": probable_groups(32, 3),
    "weights": probable_groups(33, 60, weights=WEIGHTS, levels=(0.125, 0.25, 0.5, 0.75, 0.875)),
    "no weight": WEIGHTED_CASES["no weight"],
    "weight in one class": WEIGHTED_CASES["weight in one class"],
}
NULLS = {"unretrieved": "allow", "unjudged": "allow"}


def found_in(rows, **options) -> BestThreshold:
    return best_threshold(
        table_of([rows]), label="label", score="score", weight="weight", **NULLS, **options
    )


@pytest.mark.parametrize("prefer", ["highest", "lowest"])
@pytest.mark.parametrize("options", CRITERIA, ids=lambda options: str(Criterion(**options)))
@pytest.mark.parametrize("case", GROUPS)
def test_best_threshold__is_the_best_of_all(case, options, prefer):
    rows = [row for group in GROUPS[case] for row in group]
    found = found_in(rows, prefer=prefer, **options)
    all_cells = cells(rows, None)
    reason = Criterion(**options).undefined(float(all_cells.fn), float(all_cells.tn))
    wanted = None if reason else best(rows, prefer=prefer, **options)
    if wanted is None:
        assert found.reason == (reason or "target_not_reached")
        assert math.isnan(found.value)
        assert math.isnan(found.threshold)
        assert found.document()["threshold"] is None
        assert (found.tp, found.fp) == (0, 0)
        return
    assert (found.threshold, found.reason) == (wanted[0], None)
    assert found.value == pytest.approx(wanted[1], rel=1e-12, abs=1e-12)
    counted = cells(rows, found.threshold)
    assert (found.tp, found.fp, found.fn, found.tn) == pytest.approx(tuple(map(float, counted)))


@pytest.mark.parametrize("options", CRITERIA, ids=lambda options: str(Criterion(**options)))
def test_weights_of_one__are_no_weights(options):
    table = table_of(GROUPS["many scores"])
    roles = {"label": "label", "score": "score"}
    plain = best_threshold(table, **roles, **options)
    again = best_threshold(table, **roles, weight="weight", **options)
    assert plain == again
    assert {type(cell) for cell in (plain.tp, plain.fp, plain.fn, plain.tn)} == {int}
    assert {type(cell) for cell in (again.tp, again.fp, again.fn, again.tn)} == {float}


@pytest.mark.parametrize("prefer", ["highest", "lowest"])
def test_rows_of_no_weight__move_no_threshold(prefer):
    rows = [Row(0.9, 1), Row(0.4, 0)]
    weightless = [Row(1.0, 0, 0.0), Row(0.7, 0, 0.0), Row(0.5, 1, 0.0), Row(0.1, 1, 0.0)]
    for by in ("f1", "youden", "accuracy"):
        assert found_in(rows + weightless, by=by, prefer=prefer) == found_in(
            rows, by=by, prefer=prefer
        )
    costs = {"tp": 0.0, "fn": 1.0}
    found = found_in(rows + weightless, by="cost", costs=costs, prefer="lowest")
    assert found.threshold == 0.4


@pytest.mark.parametrize("ways", [{"threads": 1}, {"threads": 3}, {"limit": 10**6}])
def test_rows_in_any_order__have_the_same_best(ways):
    table = table_of(probable_groups(34, 200, weights=(0.1, 1 / 3, 2.5e7)))
    shuffled = table.take(random.Random(35).sample(range(table.num_rows), table.num_rows))  # noqa: S311
    chunks = pa.Table.from_batches(shuffled.to_batches(max_chunksize=37))
    for weight in (None, "weight"):
        roles = {"label": "label", "score": "score", "weight": weight}
        assert best_threshold(table, **roles) == best_threshold(chunks, **roles, **ways)


def test_scikit_learn__has_no_better_threshold():
    rng = np.random.default_rng(36)
    truth = rng.integers(0, 2, 3000)
    score = np.round(rng.random(3000) * 0.6 + truth * 0.4, 2)
    log = {"y": truth, "s": score}
    precision, recall, at = metrics.precision_recall_curve(truth, score)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    found = best_threshold(log, label="y", score="s")
    assert found.value == pytest.approx(f1.max(), abs=1e-9)
    assert found.threshold == at[np.flatnonzero(f1[:-1] == f1.max())[-1]]
    assert found.f1 == metrics.f1_score(truth, score >= found.threshold)
    assert found.precision == metrics.precision_score(truth, score >= found.threshold)
    assert found.accuracy == metrics.accuracy_score(truth, score >= found.threshold)
    fpr, tpr, _ = metrics.roc_curve(truth, score, drop_intermediate=False)
    for by, curve in (("youden", tpr + 1 - fpr), ("product", tpr * (1 - fpr))):
        assert best_threshold(log, label="y", score="s", by=by).value == pytest.approx(
            curve.max(), abs=1e-9
        )
    closest = best_threshold(log, label="y", score="s", by="closest")
    assert closest.value == pytest.approx(np.hypot(fpr, 1 - tpr).min(), abs=1e-9)
    assert (closest.fpr, closest.recall) in set(zip(fpr.tolist(), tpr.tolist(), strict=True))
    assert closest.specificity == pytest.approx(1 - closest.fpr, abs=1e-15)


def test_twenty_rows_of_fawcett__have_the_thresholds_of_the_paper():
    """Fawcett (2006), figures 3 and 5: accuracy is highest, 70 %, at 0.54 and not at 0.5."""
    labels = [1, 1, 0, 1, 1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0]
    scores = [
        *(0.9, 0.8, 0.7, 0.6, 0.55, 0.54, 0.53, 0.52, 0.51, 0.505),
        *(0.4, 0.39, 0.38, 0.37, 0.36, 0.35, 0.34, 0.33, 0.3, 0.1),
    ]
    log = {"y": labels, "s": scores}
    found = best_threshold(log, label="y", score="s", by="accuracy")
    assert (found.threshold, found.value) == (0.54, 0.7)
    assert (found.tp, found.fp, found.fn, found.tn) == (5, 1, 5, 9)
    assert best_threshold(log, label="y", score="s", by="youden").threshold == 0.54
    # Of one positive in eleven, the iso-accuracy line touches the curve where only hits are.
    rare = best_threshold(log, label="y", score="s", by="accuracy", pos=1 / 11)
    assert (rare.threshold, rare.tp, rare.fp) == (0.8, 2, 0)
    everything = best_threshold(log, label="y", score="s", by="recall", target=1)
    assert (everything.threshold, everything.recall) == (0.3, 1.0)


def test_score_table__is_taken_as_it_is():
    codes = np.array([3, 2, 1], np.uint64) | np.uint64(1 << 63)
    table = ScoreTable.from_codes(codes, np.array([2, 1, 0]), np.array([0, 1, 3]))
    found = best_of(table, Criterion("youden"))
    assert found.value == 1.75
    assert found == best_of(table, Criterion("youden"), "lowest")
    assert best_of(ScoreTable.empty(), Criterion()).reason == "no_rows"


def test_several_models__each_have_theirs():
    log = {"y": [1, 0, 1, 0], "a": [4, 3, 2, 1], "b": np.array([0.1, 0.2, 0.3, 0.4], np.float32)}
    found = best_threshold(log, label="y", score=["a", "b"])
    assert list(found) == ["a", "b"]
    for name, one in found.items():
        assert one == best_threshold(log, label="y", score=name)
        assert one.score == name
    assert found["a"].threshold == 2
    assert found["b"].threshold == float(np.float32(0.1))


# ---- the command line ----------------------------------------------------------------------------


def write_log() -> str:
    table = {"click": [1, 0, 1, 0, 0], "a": [0.9, 0.8, 0.7, 0.4, 0.1], "b": [1.0, 2, 3, 4, 5]}
    parquet.write_table(pa.table(table), "log.parquet")
    return "log.parquet"


def told(*arguments: str):
    return run("threshold", *arguments, "-l", "click")


def test_command__writes_several_models_as_json_and_csv(own_folder):
    log = write_log()
    asked = (log, "-s", "a,b", "--by", "cost", "--costs", "fp=1, fn=5", "--pos", "0.2")
    as_json = told(*asked, "-f", "json")
    read = json.loads(as_json.stdout)
    assert [one["score"] for one in read] == ["a", "b"]
    options = {"by": "cost", "costs": {"fp": 1, "fn": 5}, "pos": 0.2}
    wanted = best_threshold(log, label="click", score=["a", "b"], **options)
    assert read == [one.document() for one in wanted.values()]
    as_csv = list(csv.DictReader(io.StringIO(told(*asked, "-f", "csv").stdout)))
    assert [["schema", *row] for row in as_csv] == [list(read[0])] * 2
    assert [row["tp"] for row in as_csv] == [str(one["tp"]) for one in read]


def test_command__knows_every_criterion():
    (by,) = (param for param in threshold.params if param.name == "by")
    assert tuple(by.type.choices) == tuple(CRITERION_OPTIONS)


test_answers = answers(globals())
