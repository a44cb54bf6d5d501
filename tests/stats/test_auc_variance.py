"""Standard errors of AUC: DeLong's and Obuchowski's, by definition."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

import fastrank_eval
from fastrank_eval import MeasureError, measure
from fastrank_eval.measures.auc import SE_OF_CLUSTERS, SE_OF_ROWS
from fastrank_eval.measures.pooled import CLUSTERS
from tests.support.tables import evaluate

CLUSTERED = "AUC(se='clustered')"


def log_of(seed: int, rows: int, groups: int, levels: int, kind=np.float64) -> dict:
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(0, groups, rows))
    shift = rng.normal(size=groups)[group] / 4
    label = (rng.random(rows) < np.clip(0.3 + shift / 2, 0.02, 0.9)).astype(np.int8)
    score = np.round((label * 0.4 + shift + rng.normal(size=rows)) * levels) / levels
    weight = rng.choice([0.0, 0.1, 1.0, 1 / 3, 2.5e3], rows) * rng.random(rows)
    return {"group": group, "label": label, "score": score.astype(kind), "weight": weight}


def details_of(log, weighted=False, measures=CLUSTERED, **options) -> dict[str, float]:
    (found,) = evaluate(log, measures, weight="weight" if weighted else None, **options)
    return found.details


def placements(log, weight=None):
    """(own weight, placement value, group) of each positive and of each other; their mean."""
    weight = np.ones(len(log["label"])) if weight is None else weight
    sides = [[], []]
    rows = list(
        zip(log["score"].tolist(), log["label"], weight.tolist(), log["group"], strict=True)
    )
    classes = [[row for row in rows if bool(row[1]) is side] for side in (True, False)]
    for side in (0, 1):
        against = classes[1 - side]
        total = math.fsum(w for _, _, w, _ in against)
        for score, _, own, group in classes[side]:
            won = [
                w * (0.5 if other == score else float((other < score) == (side == 0)))
                for other, _, w, _ in against
            ]
            sides[side].append((own, math.fsum(won) / total, group))
    own = math.fsum(w for w, _, _ in sides[0])
    return sides, math.fsum(w * v for w, v, _ in sides[0]) / own


def delong(log, weight=None) -> float:
    sides, area = placements(log, weight)
    variance = 0.0
    for side in sides:
        n = sum(w > 0 for w, _, _ in side)
        total = math.fsum(w for w, _, _ in side)
        variance += n / (n - 1) * math.fsum((w * (v - area)) ** 2 for w, v, _ in side) / total**2
    return math.sqrt(variance)


def obuchowski(log, weight=None) -> tuple[float, int]:
    """As published: S10 / M + S01 / N + 2 S11 / (M N), from sums over clusters."""
    sides, area = placements(log, weight)
    sums = [defaultdict(list), defaultdict(list)]
    for side in (0, 1):
        for own, value, group in sides[side]:
            if own > 0:
                sums[side][group].append((own, value))
    deviation = [
        {
            group: math.fsum(w * v for w, v in rows) - area * math.fsum(w for w, _ in rows)
            for group, rows in of_class.items()
        }
        for of_class in sums
    ]
    m, n = (math.fsum(w for w, _, _ in side) for side in sides)
    i10, i01, both = (len(part) for part in (*deviation, deviation[0] | deviation[1]))
    s10 = i10 / ((i10 - 1) * m) * math.fsum(d * d for d in deviation[0].values())
    s01 = i01 / ((i01 - 1) * n) * math.fsum(d * d for d in deviation[1].values())
    s11 = both / (both - 1) * math.fsum(d * deviation[1].get(g, 0) for g, d in deviation[0].items())
    return math.sqrt(s10 / m + s01 / n + 2 * s11 / (m * n)), both


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("levels", [1, 8, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("groups", [3, 60])
def test_standard_errors__equal_their_definitions(kind, levels, weighted, groups):
    log = log_of(levels, 400, groups, levels, kind)
    found = details_of(log, weighted)
    weight = log["weight"] if weighted else None
    clustered, clusters = obuchowski(log, weight)
    assert found[SE_OF_ROWS] == pytest.approx(delong(log, weight), rel=1e-9)
    assert found[SE_OF_CLUSTERS] == pytest.approx(clustered, rel=1e-9)
    assert found[CLUSTERS] == clusters
    alone = details_of(log, weighted, "AUC(se='delong')")
    assert alone == {SE_OF_ROWS: found[SE_OF_ROWS]}


@pytest.mark.parametrize("weighted", [False, True])
def test_standard_errors__have_the_same_bits_however_rows_come(weighted):
    log = log_of(6, 3000, 200, 50)
    once = details_of(log, weighted, threads=1)
    order = np.random.default_rng(0).permutation(3000)
    shuffled = {name: column[order] for name, column in log.items()}
    for source in (log, shuffled):
        for threads, rows in ((1, 100), (3, 64), (2, 1 << 20)):
            found = details_of(source, weighted, threads=threads, batch_rows=rows)
            assert found == once, (threads, rows)


def test_difference_where_two_groups_have_positives__has_two_degrees_of_freedom():
    log = log_of(3, 900, 60, 50)
    log["label"][:] = 0
    log["label"][[100, 700, 701]] = 1
    log["other"] = log["score"][::-1].copy()
    (row,) = fastrank_eval.compare(
        log, group="group", label="label", score=["score", "other"], baseline="score",
        measures=CLUSTERED,
    )  # fmt: skip
    assert row.groups == len(np.unique(log["group"]))
    assert row.degrees == pytest.approx(2 / (1 - 1 / row.groups), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_too_few_rows_or_clusters__have_no_standard_error(weighted):
    log = {
        "group": np.array([1, 1, 1, 1]),
        "label": np.array([1, 0, 0, 1]),
        "score": np.array([0.3, 0.1, 0.2, 0.15]),
        "weight": np.ones(4),
    }
    found = details_of(log, weighted)
    assert found[SE_OF_ROWS] > 0
    assert math.isnan(found[SE_OF_CLUSTERS])
    found = details_of({name: column[:3] for name, column in log.items()}, weighted)
    assert math.isnan(found[SE_OF_ROWS])
    (line,) = evaluate({name: column[1:3] for name, column in log.items()}, CLUSTERED)
    assert math.isnan(line.value)
    assert (line.dropped, line.details) == ({"single_class": 1}, {})


def test_standard_error__of_a_part_of_the_area_or_of_bins_is_refused():
    for options in ("se='delong', max_fpr=0.2", "se='delong', bins=64", "max_fpr=0.2, bins=64"):
        with pytest.raises(MeasureError, match=r"leave (one of them )?out"):
            measure(f"AUC({options})")
